//! Rules of other systems, read into ours: TDDL's XML and ShardingSphere's YAML.
//!
//! What is imported places every record as the original does, or a [`Warning`] says where not and why ours is right
//! (rules-and-migration.md, B1 lists what TDDL itself gets wrong). What cannot be imported is refused by its name and
//! line; nothing is left out in silence. Input from strangers is bounded ([`limits`]). The result is the text of a
//! rule, which its reader parses like any other. Must not know how rules are evaluated.

use std::collections::BTreeSet;

mod emit;
mod groovy;
mod shardingsphere;
mod tddl;
mod translate;
mod yaml;

pub use shardingsphere::shardingsphere;
pub use tddl::tddl;

/// Bounds on what is read (INV-9).
pub mod limits {
    /// Longest document, bytes: thousands of tables' rules.
    pub const DOCUMENT_BYTES_MAX: usize = 4 << 20;
    /// Most elements of XML or nodes of YAML.
    pub const NODES_MAX: u32 = 100_000;
    /// Deepest nesting of YAML and of expressions; rules of people have a tenth.
    pub const DEPTH_MAX: usize = 64;
    /// Most words and signs of one expression.
    pub const TOKENS_MAX: usize = 10_000;
    /// Most names that one row expression such as `ds_${0..9}` stands for.
    pub const NAMES_MAX: usize = 65_536;
}

/// What the other system leaves open and a rule must say.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The time zone of calendar functions. TDDL and ShardingSphere take the machine's own (B1, defect 1).
    pub zone: Option<String>,
    /// First and last year of tables that are named by year, where the original does not bound them.
    pub years: Option<(i64, i64)>,
    /// Columns that hold whole numbers though they are only hashed, which does not show it.
    pub integers: BTreeSet<String>,
}

/// A document's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Import {
    /// One for each table, in the document's order.
    pub rules: Vec<Imported>,
    /// What of the document is no rule of one table and is left out.
    pub warnings: Vec<Warning>,
}

/// A table's rule in our language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The logical table.
    pub table: String,
    /// The rule's text.
    pub text: String,
    /// Where it differs from the original, or where the original is wrong. They stand in the text too, as comments.
    pub warnings: Vec<Warning>,
}

/// A remark on one line of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Line in the original, from 1.
    pub line: u32,
    /// What is to be known.
    pub message: String,
}

/// What cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ImportError {
    /// Line in the original, from 1.
    pub line: u32,
    /// What it is and why.
    pub message: String,
}

impl ImportError {
    fn new(line: u32, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }
}

/// Refuses a document that is too long before anything is read of it.
fn bounded(document: &str) -> Result<(), ImportError> {
    if document.len() > limits::DOCUMENT_BYTES_MAX {
        let message = format!(
            "the document has {} bytes, more than {}",
            document.len(),
            limits::DOCUMENT_BYTES_MAX
        );
        return Err(ImportError::new(1, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
