//! The canonical bytes of a rule, "bytecode" (rfcs/2026-11-30-rules.md): what a rule's hash is taken of, what is published
//! and what a node checks. One rule, one string of bytes. Knows nothing of text or evaluation.
//!
//! ```text
//! CDRULE 01  kind name version zone? zone-data? fields dimensions key? definitions body places
//! ```
//! Numbers are LEB128 (signed ones in zigzag), counts stand before what they count, expressions are postfix stack code
//! whose jumps go forward only. Decoding encodes again and compares, so that no second string can mean the same rule.

mod decode;
mod encode;
mod expression;

pub(crate) use decode::Reader;
pub(crate) use encode::Writer;

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{error::RuleError, rule::Rule};

/// First bytes.
const MAGIC: &[u8; 6] = b"CDRULE";
/// Version of the format. A number that is unknown is refused; old ones stay readable.
const FORMAT: u8 = 1;

/// SHA-256 of a rule's bytes. Nodes refuse a rule whose hash is another than the published one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleHash(pub [u8; 32]);

impl RuleHash {
    fn of(bytes: &[u8]) -> RuleHash {
        RuleHash(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for RuleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RuleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The bytes of a rule. The rule must be one that was parsed or decoded, or that passes the same checks.
pub fn encode(rule: &Rule) -> Result<Vec<u8>, RuleError> {
    crate::rule::check(rule)?;
    Ok(encode::encode(rule, encode::Part::Whole))
}

/// The rule of these bytes. Everything is checked: bytes of a stranger can do no harm.
pub fn decode(bytes: &[u8]) -> Result<Rule, RuleError> {
    decode::decode(bytes)
}

/// The hash of a rule's bytes.
pub(crate) fn hash(bytes: &[u8]) -> RuleHash {
    RuleHash::of(bytes)
}

/// The hash of all that decides the slot: without version and places. Two versions with one logic hash differ in their
/// maps only, which is known exactly without looking at data.
pub(crate) fn logic_hash(rule: &Rule) -> RuleHash {
    RuleHash::of(&encode::encode(rule, encode::Part::Logic))
}

#[cfg(test)]
mod tests;
