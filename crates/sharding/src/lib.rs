//! Placement by rule, y = F(x): from the fields of a record to its slot and place, from a condition to the few slots
//! that can hold matches, from two versions of a rule to exactly what differs (rules-and-migration.md, R14 to R51).
//!
//! Everything here is a value or a pure function. This crate must not know of clocks, randomness, files, sockets,
//! storage or an async runtime: the same rule and the same input give the same answer for ever (R40).

pub mod cache;
pub mod code;
pub mod enumerate;
mod error;
pub mod function;
pub mod import;
mod key;
pub mod limits;
pub mod lint;
mod place;
mod program;
#[cfg(test)]
mod random;
pub mod record;
pub mod rule;
pub mod script;
mod slot;
mod text;
mod value;
pub mod versions;

pub use code::{RuleHash, decode, encode};
pub use enumerate::{
    Comparison, Enumeration, Filter, Options, Predicate, Refused, Unbounded, enumerate,
};
pub use error::{EvalError, RuleError, ScriptFault};
pub use key::{KeyError, KeyPart, KeySchema, behind_prefix};
pub use place::{Piece, Place, PlaceId, PlaceLine, SlotMap, Template};
pub use program::{Batch, Column, ColumnValues, KeyedError, Program, ScriptBody, ScriptCompiler};
pub use rule::Rule;
pub use slot::{Dimension, Shape, Slot};
pub use text::{parse, parse_bytes};
pub use value::{Fields, Literal, Type, Value};
