//! From a condition to the few slots that can hold matches (R45, R50, R51; section C3). The answer always covers what
//! is there: a superset, proved, or all slots; never a guess.

mod predicate;

pub use predicate::{Comparison, Predicate};

use crate::slot::Slot;

/// What to do when nothing bounds the slots but their declaration: the table's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unbounded {
    /// All declared slots.
    #[default]
    Allow,
    /// All declared slots, and the cause is reported.
    Warn,
    /// An error that names the cause.
    Refuse,
}

/// The slots that can hold rows that satisfy a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumeration {
    /// The slots, without repeats: in the order of the sort field if `ordered_by` says so, else ascending.
    pub slots: Vec<Slot>,
    /// Whether every one of them can hold a match (a subset of the field values shown was evaluated for each). If not,
    /// some may be visited in vain.
    pub is_exact: bool,
    /// The field in whose order the slots come: all rows of one slot sort before all rows of the next, so that a limit
    /// can stop early.
    pub ordered_by: Option<u16>,
    /// The term at fault when the slots are all that are declared, or not exact.
    pub cause: Option<String>,
}
