//! What can be wrong: with a rule's text, with its bytes, and with a record. Knows nothing of how they are found.

use std::fmt;

use crate::value::Type;

/// A fault of a rule, where it is in the text, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RuleError {
    /// Line in the text, from 1; 0 when the rule did not come from text.
    pub line: u32,
    /// Column in the line, characters, from 1; 0 when the rule did not come from text.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What would have been right there: words and signs of the language, or types. May be empty.
    pub expected: Vec<String>,
}

impl RuleError {
    /// A fault that has no place in a text.
    pub fn new(message: impl Into<String>) -> RuleError {
        RuleError {
            line: 0,
            column: 0,
            message: message.into(),
            expected: Vec::new(),
        }
    }

    /// A fault at a byte offset of a text.
    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> RuleError {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        RuleError {
            line: count(before.matches('\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
            message: message.into(),
            expected: Vec::new(),
        }
    }

    pub(crate) fn expecting<T: ToString>(mut self, expected: impl IntoIterator<Item = T>) -> Self {
        self.expected = expected.into_iter().map(|it| it.to_string()).collect();
        self
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        f.write_str(&self.message)?;
        match self.expected.as_slice() {
            [] => Ok(()),
            [one] => write!(f, "; expected {one}"),
            many => write!(f, "; expected one of {}", many.join(", ")),
        }
    }
}

/// Why a record has no slot. A closed set: nothing else can happen to any record under any rule that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// Another number of fields than the rule declares.
    #[error("{given} fields given, the rule declares {declared}")]
    FieldCount {
        /// Given.
        given: usize,
        /// Declared.
        declared: usize,
    },
    /// A field that must not be null is.
    #[error("field {field} is null")]
    Null {
        /// Number of the field.
        field: u16,
    },
    /// A field has another type than declared.
    #[error("field {field} is {given}, declared as {declared}")]
    WrongType {
        /// Number of the field.
        field: u16,
        /// Given.
        given: Type,
        /// Declared.
        declared: Type,
    },
    /// A field lies outside the language's range: a date outside the years 1 to 9999, a string too long.
    #[error("field {field} is out of range")]
    FieldRange {
        /// Number of the field.
        field: u16,
    },
    /// `+`, `-`, `*`, `/`, a conversion or `abs` left the range of its type.
    #[error("{operation} overflows")]
    Overflow {
        /// The operation.
        operation: &'static str,
    },
    /// `/` or `%` by zero.
    #[error("{operation} by zero")]
    DivisionByZero {
        /// The operation.
        operation: &'static str,
    },
    /// A shift by less than 0 or more than 63.
    #[error("shift by {by}, must be 0 to 63")]
    Shift {
        /// How far.
        by: i64,
    },
    /// A function's argument lies outside what it is defined for.
    #[error("{function}: argument out of range")]
    Argument {
        /// The function.
        function: &'static str,
    },
    /// Text that is no number was given to `parse_int`.
    #[error("not an integer")]
    NotAnInteger,
    /// The slot lies outside its dimension.
    #[error("{value} lies outside dimension {dimension}")]
    OutsideDimension {
        /// Number of the dimension.
        dimension: u8,
        /// The value (saturated).
        value: i64,
    },
    /// No alternative holds and the rule says `else error`.
    #[error("no alternative of the rule holds")]
    NoAlternative,
    /// No alternative holds and the rule says `else all`: a read goes everywhere, a write is refused.
    #[error("the record may be in any slot")]
    Everywhere,
    /// The script ran into a limit, failed, or answered something that is no slot.
    #[error("script: {0}")]
    Script(ScriptFault),
}

/// What a script can do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptFault {
    /// More operations, memory or depth than it may use.
    #[error("over its limits")]
    Limit,
    /// It failed.
    #[error("failed")]
    Failed,
    /// Its answer is no array of one integer per dimension.
    #[error("its answer is not a slot")]
    Answer,
}
