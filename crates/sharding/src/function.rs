//! The built-in functions of rules, on plain numbers, bytes and text (rules-and-migration.md, B5.4).
//!
//! Every function here is a constant of nature: the same input gives the same answer on every platform and in every
//! release (R40), however libraries below change; `golden/` holds what each must give. None can panic: what has no
//! answer is a [`Fault`]. A function whose answer must change gets a new name instead.
//!
//! For enumeration each module also gives exact images of ranges where there are any (`*_image`); hashes have none.
//! Must not know of rules, expressions or the types of columns.

pub mod arithmetic;
pub mod calendar;
pub mod foreign;
pub mod hash;
pub mod maglev;
pub mod nodes;
pub mod rendezvous;
pub mod ring;
mod runs;
pub mod text;
pub mod zone;

pub use maglev::Maglev;
pub use nodes::{Node, NodesFault};
pub use rendezvous::Rendezvous;
pub use ring::Ring;
pub use runs::{Run, Runs};
pub use zone::{ZONE_DATA_VERSION, Zone};

/// Why a function has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The result does not fit into 64 bits.
    #[error("the result does not fit into 64 bits")]
    Overflow,
    /// Division by zero, or a modulus of zero.
    #[error("division by zero")]
    DivisionByZero,
    /// An argument is outside what the function is defined for.
    #[error("an argument is out of the function's range")]
    OutOfRange,
    /// Text that should be a whole number is none.
    #[error("the text is not a whole number")]
    NotANumber,
}
