//! Regular expressions as `java.util.regex` reads them, found in values as `RegexStringComparator` looks for them (hbase-protocol.md 5.3).
//! Pure.
//!
//! A pattern is written anew for the `regex` crate, with every flag and every short form spelled out, and the value is decoded with the
//! comparator's charset. What takes back-tracking (look-around, back references, possessive and atomic groups) is refused: a client's
//! pattern must not stall a core. What is refused and what differs stands in `docs/compatibility.md`; `java_regex/Golden.java` has
//! written down what Java answers.

mod charset;
mod named;
mod pattern;
#[cfg(test)]
mod tests;

use cadastre_types::{Error, Result};
use cadastre_wire::pb;

use self::charset::Charset;

/// Bytes a compiled regular expression may take (INV-9): the pattern comes from the client.
const REGEX_BYTES_MAX: usize = 1024 * 1024;

/// Longest pattern, bytes (INV-9): a longer one would not compile to so little.
const PATTERN_BYTES_MAX: usize = 64 * 1024;

/// The flags of `java.util.regex.Pattern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flags(u32);

impl Flags {
    const UNIX_LINES: u32 = 1;
    const CASE_INSENSITIVE: u32 = 2;
    const COMMENTS: u32 = 4;
    const MULTILINE: u32 = 8;
    const LITERAL: u32 = 16;
    const DOTALL: u32 = 32;
    const UNICODE_CASE: u32 = 64;
    const CANON_EQ: u32 = 128;
    const UNICODE_CHARACTER_CLASS: u32 = 256;

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Letters are compared without their case, those of ASCII only.
    fn folds_ascii(self) -> bool {
        self.has(Self::CASE_INSENSITIVE) && !self.has(Self::UNICODE_CASE)
    }

    /// Letters of every script are compared without their case.
    fn folds_all(self) -> bool {
        self.has(Self::CASE_INSENSITIVE) && self.has(Self::UNICODE_CASE)
    }
}

/// A pattern with the charset of the values.
#[derive(Debug, Clone)]
pub(crate) struct JavaRegex {
    regex: regex::Regex,
    charset: Charset,
}

impl JavaRegex {
    /// Reads a comparator's message.
    ///
    /// # Errors
    /// `DoNotRetryIo` for patterns that are not Java's, that cannot be matched without back-tracking, or that are too big, and for unknown
    /// charsets.
    pub(crate) fn new(message: &pb::RegexStringComparator) -> Result<Self> {
        let refused = |why: String| {
            let shown: String = message.pattern.chars().take(200).collect();
            Error::invalid(format!("the pattern '{shown}' cannot be used: {why}"))
        };
        let charset = Charset::of(&message.charset).map_err(refused)?;
        if message.pattern.len() > PATTERN_BYTES_MAX {
            return Err(refused(format!("longer than {PATTERN_BYTES_MAX} bytes")));
        }
        let mut flags = message.pattern_flags.cast_unsigned();
        if flags & Flags::UNICODE_CHARACTER_CLASS != 0 {
            flags |= Flags::UNICODE_CASE;
        }
        let translated = pattern::translate(&message.pattern, Flags(flags)).map_err(refused)?;
        let regex = regex::RegexBuilder::new(&translated)
            .size_limit(REGEX_BYTES_MAX)
            .build()
            .map_err(|error| refused(error.to_string()))?;
        Ok(Self { regex, charset })
    }

    /// Whether the pattern is found in a value.
    pub(crate) fn is_found(&self, value: &[u8]) -> bool {
        self.regex.is_match(&self.charset.decode(value))
    }
}
