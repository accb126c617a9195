//! Reads `expected.tsv`, compares, counts.

use std::collections::{BTreeMap, BTreeSet};

use cadastre_types::{Code, Detail, Error, Result};
use cadastre_wire::exception;

/// Checks of the Java client that this one has no form for.
const NOT_OURS: &[&str] = &[
    // One client, which is asynchronous in any case.
    "async.get",
    "async.scan",
    "async.increment",
    "async.get.list",
    // Rows are always handed out whole, unless `batch` is set.
    "scan.partial",
];

/// What became of the checks.
pub(crate) struct Checks {
    expected: BTreeMap<String, String>,
    left: BTreeSet<String>,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// One line for each check.
    pub(crate) lines: Vec<String>,
}

impl Checks {
    pub(crate) fn new(list: &str) -> Self {
        let mut expected = BTreeMap::new();
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let mut parts = line.split('\t');
            let (Some(name), Some(clients), Some(answer)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if clients.split(',').any(|client| client == "java") && !NOT_OURS.contains(&name) {
                expected.insert(name.to_owned(), answer.to_owned());
            }
        }
        Self {
            left: expected.keys().cloned().collect(),
            expected,
            passed: 0,
            failed: 0,
            lines: Vec::new(),
        }
    }

    pub(crate) fn check(&mut self, name: &str, outcome: Result<impl ToString>) {
        let (answer, note) = match outcome {
            Ok(answer) => (answer.to_string(), String::new()),
            Err(error) => (class(&error), format!(" ({error})")),
        };
        let is_mine = self.left.remove(name);
        match self.expected.get(name) {
            Some(expected) if is_mine && *expected == answer => {
                self.passed += 1;
                self.lines.push(format!("ok {name}"));
            }
            expected => {
                self.failed += 1;
                self.lines.push(format!(
                    "FAIL {name} expected {} got {answer}{note}",
                    expected.map_or("nothing", String::as_str)
                ));
            }
        }
    }

    /// What was not run has failed.
    pub(crate) fn end(mut self) -> Self {
        for name in &self.left {
            self.failed += 1;
            self.lines
                .push(format!("FAIL {name} expected to be run got nothing"));
        }
        self
    }
}

/// The Java class of an error, without its package.
pub(crate) fn class(error: &Error) -> String {
    let class = match (error.code(), error.detail()) {
        (Code::Remote, Some(Detail::Remote { class, .. })) => class.clone(),
        (code, _) => exception::class(code).to_string(),
    };
    let short = class.rsplit(['.', '$']).next();
    short.unwrap_or_default().to_owned()
}
