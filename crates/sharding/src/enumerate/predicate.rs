//! Conditions on the fields of a rule: what a query says about the rows it wants. Typed, n-ary, with open and closed
//! bounds; `now()` is replaced by the caller once per statement (R50, R51). Knows nothing of slots.

use crate::value::Literal;

/// A condition. Fields are numbers of the rule's fields; literals have the field's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Predicate {
    /// Holds for every row.
    True,
    /// Holds for no row.
    False,
    /// All hold.
    And(Vec<Predicate>),
    /// One holds.
    Or(Vec<Predicate>),
    /// Does not hold. SQL's null logic: a comparison with null is neither true nor false, so `not (a < 1)` selects no null.
    Not(Box<Predicate>),
    /// Field against value.
    Compare(u16, Comparison, Literal),
    /// Field is one of these.
    In(u16, Vec<Literal>),
    /// Field lies between these, both included.
    Between(u16, Literal, Literal),
    /// Text or bytes begin with this (`like 'p%'`).
    Prefix(u16, Literal),
    /// Field is null.
    IsNull(u16),
    /// A condition that enumeration does not understand, by its text. It never narrows anything.
    Opaque(String),
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}
