//! A rule as a typed tree: what text and bytecode are read into, and what both are written from. Every rule that exists
//! as a [`Rule`] inside the crate was checked by `check`. Knows nothing of evaluation.

mod check;
mod expr;
mod function;
mod print;

pub use expr::{Binary, Expr, ListRef, Unary};
pub use function::Function;

pub(crate) use check::{
    DefinitionType, NodesFunction, Scope, TypeFault, check, expressions, uses_zones, walk,
};
pub(crate) use print::{Bare, Names, Quoted, date, timestamp};

use crate::{
    error::RuleError,
    function::{ZONE_DATA_VERSION, Zone},
    key::KeySchema,
    place::PlaceLine,
    slot::Dimension,
    value::{Literal, Type, Value},
};

/// What a rule places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Rows that exist only where the rule says (R24): only functions of x alone are legal.
    Store,
    /// Snapshots that can be read again from their source (R19): Maglev is legal too.
    Cache,
}

/// A whole rule, one version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Store or cache.
    pub kind: Kind,
    /// Name; with the version it is what clients and nodes speak of.
    pub name: String,
    /// Version, grows with every published change (R26).
    pub version: u64,
    /// Time zone of calendar functions without one of their own; UTC if none is declared (B1, defect 1).
    pub zone: Option<String>,
    /// Version of the time zone data that calendar functions go by; none if the rule calls none of them.
    pub zone_data: Option<String>,
    /// Fields, x.
    pub fields: Vec<Field>,
    /// Dimensions, the shape of y.
    pub dimensions: Vec<Dimension>,
    /// How a row key holds the fields.
    pub key: Option<KeySchema>,
    /// Lists, tables, ranges, rings.
    pub definitions: Vec<Definition>,
    /// The decision.
    pub body: Body,
    /// Lines of the slot map; the last that matches a slot wins.
    pub places: Vec<PlaceLine>,
}

/// A field of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type.
    pub ty: Type,
    /// What null means (B5.6).
    pub null: NullPolicy,
    /// Declared bounds and step, which make a script enumerable.
    pub domain: Option<Domain>,
}

/// What happens when a field is null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NullPolicy {
    /// Refused.
    Error,
    /// A constant slot.
    Slot(Vec<i64>),
    /// As if it were this value.
    Value(Literal),
}

/// `domain first to last step n`: the values a field can have, in steps (days for dates, microseconds for timestamps). A script
/// refuses records with others, so that going through its domain misses nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// First value.
    pub first: Literal,
    /// Last value, inclusive.
    pub last: Literal,
    /// Step, at least 1.
    pub step: u64,
}

impl Domain {
    /// Whether it is one of the values.
    #[must_use]
    pub fn contains(&self, value: &Value<'_>) -> bool {
        let number = |it: &Value<'_>| {
            Some(match it {
                Value::I64(it) | Value::Timestamp(it) => i128::from(*it),
                Value::U64(it) => i128::from(*it),
                Value::Date(it) => i128::from(*it),
                _ => return None,
            })
        };
        let ends = (number(&self.first.value()), number(&self.last.value()));
        match (number(value), ends) {
            (Some(value), (Some(first), Some(last))) => {
                first <= value && value <= last && (value - first) % i128::from(self.step) == 0
            }
            _ => false,
        }
    }
}

/// A named thing that expressions refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Name.
    pub name: String,
    /// What it is.
    pub body: DefinitionBody,
}

/// What a definition can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionBody {
    /// `list big = [2000, 2001];` sorted, without repeats: for `in`.
    List(Vec<Literal>),
    /// `table home: i64 => i64 { 7 => 3, else 0 };` sorted by key.
    Table {
        /// Type of the keys.
        key: Type,
        /// Type of the answers.
        result: Type,
        /// Key and answer.
        entries: Vec<(Literal, Literal)>,
        /// The answer for any other key.
        otherwise: Literal,
    },
    /// `ranges chunk: string { 0, "g" => 1 };` sorted by bound; a bound belongs to what lies above it.
    Ranges {
        /// Type of the bounds.
        key: Type,
        /// The answer below the first bound.
        first: i64,
        /// Bound and the answer from there on.
        bounds: Vec<(Literal, i64)>,
    },
    /// `ring nodes { 0, 1 weight 2 } virtual 128 seed 0;` and its relatives.
    Nodes(Nodes),
}

/// A function from a hash to one of several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// Which function.
    pub algorithm: NodesAlgorithm,
    /// Node number and weight, sorted by number.
    pub nodes: Vec<(u32, u32)>,
    /// Seed.
    pub seed: u64,
}

/// Which function from a hash to a node (B4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodesAlgorithm {
    /// Consistent hash ring.
    Ring {
        /// Virtual nodes for each unit of weight.
        virtual_nodes: u32,
    },
    /// The same, whose nodes take no more than so much above their share: for caches only. A rule's answer is the plain
    /// ring's; who spreads requests asks [`crate::Program::bounded`], whose answer depends on the loads.
    BoundedRing {
        /// Virtual nodes for each unit of weight.
        virtual_nodes: u32,
        /// How far above the mean of its weight a node's load may be, hundredths of it.
        above_mean_percent: u32,
    },
    /// Highest random weight.
    Rendezvous,
    /// Maglev, for caches only: it moves a little more than it must.
    Maglev {
        /// Size of its table, a prime.
        entries: u64,
    },
}

/// How a rule decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Statements in order, and what happens when none decides.
    Statements(Vec<Statement>, Otherwise),
    /// A script of the script tier.
    Script(String),
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `let h = xxh3(user_id);`, evaluated where it stands.
    Let {
        /// Name.
        name: String,
        /// Value.
        value: Expr,
    },
    /// `when user_id in big then (1023, day(gmt));`
    When {
        /// Condition.
        condition: Expr,
        /// One integer per dimension.
        slot: Vec<Expr>,
    },
}

/// What happens when no alternative holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// `else error;`
    Error,
    /// `else all;` reads go to all slots, writes are refused.
    All,
    /// `else (shard, day);`
    Slot(Vec<Expr>),
}

impl Rule {
    /// The rule's time zone by its own version of the zone data, so that a time that names no zone means the same for ever;
    /// UTC if the rule names none. A rule that depends on no zone data takes the newest.
    pub fn load_zone(&self) -> Result<Zone, RuleError> {
        let data = self.zone_data.as_deref().unwrap_or(ZONE_DATA_VERSION);
        Zone::load_version(data, self.zone.as_deref().unwrap_or("UTC"))
            .map_err(|fault| RuleError::new(fault.to_string()))
    }

    /// The number of the field of that name.
    pub fn field(&self, name: &str) -> Option<u16> {
        let at = self.fields.iter().position(|field| field.name == name)?;
        u16::try_from(at).ok()
    }
}
