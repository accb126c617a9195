//! What the grammar builds: names unresolved, literals untyped, everything with its place in the text.

use std::cell::Cell;

use crate::{
    limits,
    rule::{Binary, Unary},
};

/// A fault at a byte offset, until the text is at hand again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) expected: Vec<String>,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Fault {
        Fault {
            at,
            message: message.into(),
            expected: Vec::new(),
        }
    }

    pub(crate) fn expecting<T: ToString>(mut self, expected: impl IntoIterator<Item = T>) -> Self {
        self.expected = expected.into_iter().map(|it| it.to_string()).collect();
        self
    }
}

/// Something and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) at: usize,
    pub(crate) it: T,
}

#[derive(Clone, Debug)]
pub(crate) struct RawExpr {
    pub(crate) at: usize,
    /// How deep, itself included: bounded when built, so that dropping a tree cannot overflow the stack.
    pub(crate) depth: usize,
    pub(crate) node: RawNode,
}

#[derive(Clone, Debug)]
pub(crate) enum RawNode {
    Literal(RawLiteral),
    Name(String),
    Call(String, Vec<RawExpr>),
    Unary(Unary, Box<RawExpr>),
    Binary(Binary, Box<RawExpr>, Box<RawExpr>),
    If(Box<[RawExpr; 3]>),
    In(Box<RawExpr>, bool, RawList),
    /// Only in conditions: `a between x and y`, `a like 'p%'`, `a is null`; the flag negates.
    Between(Box<RawExpr>, bool, At<RawLiteral>, At<RawLiteral>),
    Like(Box<RawExpr>, bool, At<RawLiteral>),
    IsNull(Box<RawExpr>, bool),
}

#[derive(Clone, Debug)]
pub(crate) enum RawList {
    Inline(Vec<At<RawLiteral>>),
    Named(At<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawLiteral {
    Bool(bool),
    /// Sign, magnitude, whether a `u` follows.
    Number(bool, u64, bool),
    Text(String),
    /// `date "2012-01-31"`
    Typed(String, String),
}

/// Counts what the grammar builds against the limits.
pub(crate) struct Builder {
    nodes: Cell<usize>,
    entries: Cell<usize>,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            nodes: Cell::new(0),
            entries: Cell::new(0),
        }
    }

    pub(crate) fn node(&self, at: usize, node: RawNode) -> Result<RawExpr, Fault> {
        let below = match &node {
            RawNode::Literal(_) | RawNode::Name(_) => 0,
            RawNode::Unary(_, a)
            | RawNode::In(a, ..)
            | RawNode::Between(a, ..)
            | RawNode::Like(a, ..)
            | RawNode::IsNull(a, _) => a.depth,
            RawNode::Binary(_, a, b) => a.depth.max(b.depth),
            RawNode::If(parts) => parts.iter().map(|it| it.depth).max().unwrap_or(0),
            RawNode::Call(_, arguments) => arguments.iter().map(|it| it.depth).max().unwrap_or(0),
        };
        if below >= limits::DEPTH_MAX {
            return Err(Fault::new(
                at,
                format!("the expression is deeper than {}", limits::DEPTH_MAX),
            ));
        }
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > limits::NODES_MAX {
            return Err(Fault::new(
                at,
                format!("the rule has more than {} operations", limits::NODES_MAX),
            ));
        }
        Ok(RawExpr {
            at,
            depth: below + 1,
            node,
        })
    }

    /// Counts an entry of a list, table, key or slot.
    pub(crate) fn entry(&self, at: usize) -> Result<(), Fault> {
        self.entries.set(self.entries.get() + 1);
        if self.entries.get() > limits::ENTRIES_MAX {
            return Err(Fault::new(
                at,
                format!("the rule has more than {} entries", limits::ENTRIES_MAX),
            ));
        }
        Ok(())
    }
}

/// What was read: what was asked for.
#[derive(Clone, Debug)]
pub(crate) enum Whole {
    Rule(RawRule),
    Condition(RawExpr),
}

#[derive(Clone, Debug)]
pub(crate) struct RawRule {
    pub(crate) is_cache: bool,
    pub(crate) name: At<String>,
    pub(crate) version: u64,
    pub(crate) items: Vec<At<RawItem>>,
}

#[derive(Clone, Debug)]
pub(crate) enum RawItem {
    Zone(Option<At<String>>, Option<At<String>>),
    Field {
        name: String,
        ty: At<String>,
        null: RawNull,
        domain: Option<(At<RawLiteral>, At<RawLiteral>, u64)>,
    },
    Dimension(String, i64, i64),
    Key(Vec<At<RawKeyPart>>),
    List(String, Option<At<String>>, Vec<At<RawLiteral>>),
    Table {
        name: String,
        key: At<String>,
        result: At<String>,
        entries: Vec<(At<RawLiteral>, At<RawLiteral>)>,
        otherwise: At<RawLiteral>,
    },
    Ranges {
        name: String,
        key: At<String>,
        first: i64,
        bounds: Vec<(At<RawLiteral>, i64)>,
    },
    Nodes {
        algorithm: RawAlgorithm,
        name: String,
        nodes: Vec<At<(u64, u64, u64)>>,
        options: Vec<At<(RawOption, u64)>>,
    },
    Let(String, RawExpr),
    When(RawExpr, Vec<RawExpr>),
    Else(RawElse),
    Script(String),
    Place {
        slots: Vec<Option<(i64, i64)>>,
        cluster: Option<At<String>>,
        table: At<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawAlgorithm {
    Ring,
    Rendezvous,
    Maglev,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawOption {
    Virtual,
    Entries,
    Seed,
    Bounded,
}

#[derive(Clone, Debug)]
pub(crate) enum RawNull {
    Unsaid,
    Error,
    Slot(Vec<i64>),
    Value(At<RawLiteral>),
}

#[derive(Clone, Debug)]
pub(crate) enum RawKeyPart {
    Fixed(String, Option<u64>),
    Reversed(String),
    Until(String, At<RawLiteral>),
    Decimal(String, At<RawLiteral>),
    Rest(String),
    Skip(Option<u64>),
}

#[derive(Clone, Debug)]
pub(crate) enum RawElse {
    Error,
    All,
    Slot(Vec<RawExpr>),
}

/// A number token as magnitude and suffix.
pub(crate) fn number(text: &str, at: usize) -> Result<(u64, bool), Fault> {
    let (digits, is_unsigned) = match text.strip_suffix('u') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let digits = digits.replace('_', "");
    digits
        .parse()
        .map(|magnitude| (magnitude, is_unsigned))
        .map_err(|_| Fault::new(at, "the number does not fit 64 bits"))
}

/// A number token as an i64 of this sign.
pub(crate) fn signed(is_negative: bool, text: &str, at: usize) -> Result<i64, Fault> {
    let (magnitude, _) = number(text, at)?;
    let value = i128::from(magnitude) * if is_negative { -1 } else { 1 };
    i64::try_from(value).map_err(|_| Fault::new(at, "the number does not fit 64 bits"))
}

/// A number token as a u64.
pub(crate) fn unsigned(text: &str, at: usize) -> Result<u64, Fault> {
    Ok(number(text, at)?.0)
}
