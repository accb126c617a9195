//! Expressions. A tree at most `DEPTH_MAX` deep, so that everything that walks it may recurse.

use super::function::Function;
use crate::value::Literal;

/// An expression. Types follow from the leaves; `check` makes sure that they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// A field, by number.
    Field(u16),
    /// A `let`, by number among the lets.
    Local(u16),
    /// `-a`, `not a`
    Unary(Unary, Box<Expr>),
    /// `a + b` …
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `if a then b else c`: condition, then, else.
    If(Box<[Expr; 3]>),
    /// `a in [1, 2]`, `a in big`
    In(Box<Expr>, ListRef),
    /// A built-in function.
    Call(Function, Vec<Expr>),
    /// A table, ranges or ring, by number of the definition.
    Lookup(u16, Box<Expr>),
}

/// What `in` looks into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRef {
    /// `[1, 2]`: sorted, without repeats.
    Inline(Vec<Literal>),
    /// A list, by number of the definition.
    Named(u16),
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Unary {
    /// `-a`, of i64.
    Negate = 0,
    /// `not a`
    Not = 1,
}

/// Operators with two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Binary {
    /// `or`, lazy
    Or = 0,
    /// `and`, lazy
    And = 1,
    /// `==`
    Equal = 2,
    /// `!=`
    NotEqual = 3,
    /// `<`
    Less = 4,
    /// `<=`
    LessEqual = 5,
    /// `>`
    Greater = 6,
    /// `>=`
    GreaterEqual = 7,
    /// `|`
    BitOr = 8,
    /// `^`
    BitXor = 9,
    /// `&`
    BitAnd = 10,
    /// `<<`: checked, no bit may be lost.
    ShiftLeft = 11,
    /// `>>`: of i64 it keeps the sign.
    ShiftRight = 12,
    /// `+`
    Add = 13,
    /// `-`
    Subtract = 14,
    /// `*`
    Multiply = 15,
    /// `/`: floors.
    Divide = 16,
    /// `%`: Euclidean, never negative.
    Modulo = 17,
}

impl Binary {
    /// All, in the order of their numbers.
    pub const ALL: [Binary; 18] = [
        Binary::Or,
        Binary::And,
        Binary::Equal,
        Binary::NotEqual,
        Binary::Less,
        Binary::LessEqual,
        Binary::Greater,
        Binary::GreaterEqual,
        Binary::BitOr,
        Binary::BitXor,
        Binary::BitAnd,
        Binary::ShiftLeft,
        Binary::ShiftRight,
        Binary::Add,
        Binary::Subtract,
        Binary::Multiply,
        Binary::Divide,
        Binary::Modulo,
    ];

    /// The sign or word.
    pub const fn sign(self) -> &'static str {
        match self {
            Binary::Or => "or",
            Binary::And => "and",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::Less => "<",
            Binary::LessEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterEqual => ">=",
            Binary::BitOr => "|",
            Binary::BitXor => "^",
            Binary::BitAnd => "&",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Modulo => "%",
        }
    }

    /// How tightly it binds, loosest first. `not` and `in` stand between `and` and the comparisons.
    pub(crate) const fn level(self) -> u8 {
        match self {
            Binary::Or => 1,
            Binary::And => 2,
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual => 4,
            Binary::BitOr => 5,
            Binary::BitXor => 6,
            Binary::BitAnd => 7,
            Binary::ShiftLeft | Binary::ShiftRight => 8,
            Binary::Add | Binary::Subtract => 9,
            Binary::Multiply | Binary::Divide | Binary::Modulo => 10,
        }
    }

    /// Answers a truth value.
    pub(crate) const fn is_comparison(self) -> bool {
        self.level() == 4
    }

    /// Of integers, answering their type.
    pub(crate) const fn is_arithmetic(self) -> bool {
        self.level() > 4
    }
}

impl Expr {
    /// The expressions directly inside.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Literal(_) | Expr::Field(_) | Expr::Local(_) => Vec::new(),
            Expr::Unary(_, a) | Expr::In(a, _) | Expr::Lookup(_, a) => vec![a],
            Expr::Binary(_, a, b) => vec![a, b],
            Expr::If(parts) => parts.iter().collect(),
            Expr::Call(_, arguments) => arguments.iter().collect(),
        }
    }

    /// The same operation on other operands, if they are as many.
    pub(crate) fn with_children(&self, children: Vec<Expr>) -> Option<Expr> {
        if children.len() != self.children().len() {
            return None;
        }
        let mut children = children.into_iter().map(Box::new);
        Some(match self {
            Expr::Literal(_) | Expr::Field(_) | Expr::Local(_) => self.clone(),
            Expr::Unary(operator, _) => Expr::Unary(*operator, children.next()?),
            Expr::In(_, list) => Expr::In(children.next()?, list.clone()),
            Expr::Lookup(at, _) => Expr::Lookup(*at, children.next()?),
            Expr::Binary(operator, ..) => {
                Expr::Binary(*operator, children.next()?, children.next()?)
            }
            Expr::If(_) => {
                let parts = [*children.next()?, *children.next()?, *children.next()?];
                Expr::If(Box::new(parts))
            }
            Expr::Call(function, _) => Expr::Call(*function, children.map(|it| *it).collect()),
        })
    }

    /// How deep it is, itself included.
    pub(crate) fn depth(&self) -> usize {
        1 + self
            .children()
            .into_iter()
            .map(Expr::depth)
            .max()
            .unwrap_or(0)
    }

    /// How many nodes it has, itself included.
    pub(crate) fn nodes(&self) -> usize {
        1 + self.children().into_iter().map(Expr::nodes).sum::<usize>()
    }
}
