//! What happened, as a hash always and as lines on request. It must not know what the lines mean.

use std::collections::VecDeque;
use std::fmt::{self, Write};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Lines kept for the report of a failure.
const TAIL_LINES: usize = 50;

/// Everything that happened in a world. Two runs of one seed have equal hashes; where they do not, the first differing line
/// names the source.
#[derive(Debug)]
pub struct Trace {
    // Of the last line, seeded with that of the lines before it. Equal in every process, and quick: most of what is hashed are the bytes
    // of files.
    hash: u64,
    count: u64,
    lines: Option<Vec<String>>,
    tail: VecDeque<String>,
}

impl Trace {
    pub(crate) fn new(keep_lines: bool) -> Self {
        Self {
            hash: 0,
            count: 0,
            lines: keep_lines.then(Vec::new),
            tail: VecDeque::with_capacity(TAIL_LINES + 1),
        }
    }

    pub(crate) fn record(&mut self, now_us: u64, who: &str, what: fmt::Arguments<'_>) {
        let mut line = if self.tail.len() >= TAIL_LINES {
            self.tail.pop_front().unwrap_or_default()
        } else {
            String::new()
        };
        line.clear();
        write!(line, "{now_us:>10} {who} {what}").expect("a String takes everything");
        self.hash = xxh3_64_with_seed(line.as_bytes(), self.hash);
        self.count += 1;
        if let Some(lines) = &mut self.lines {
            lines.push(line.clone());
        }
        self.tail.push_back(line);
    }

    /// Hash of all lines so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Number of lines so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All lines, if they were asked for ([`WorldConfig::keep_trace`](crate::WorldConfig)).
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// The last lines.
    pub fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().map(String::as_str)
    }
}

/// Hash of some bytes, to put into a line in their place.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}
