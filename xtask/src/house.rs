//! Rules of the house that no other tool checks: which crate may know which, licences, file sizes, module headers, tests that the
//! documents name, HBase's own tests that must pass.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Which crates of ours each crate may depend on (design.md section 9). Arrows skip, never rise.
const MAY_USE: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("env", &[]),
    ("wire", &["types"]),
    ("sharding", &["types"]),
    ("evaluator", &["sharding"]),
    ("rpc", &["types", "env", "wire"]),
    ("coordination", &["types", "env", "wire"]),
    ("store", &["types", "env"]),
    ("hdfs-store", &["types", "env", "wire", "rpc"]),
    (
        "client",
        &["types", "env", "wire", "rpc", "coordination", "sharding"],
    ),
    (
        "regionserver",
        &[
            "types",
            "env",
            "wire",
            "rpc",
            "coordination",
            "client",
            "store",
        ],
    ),
    (
        "master",
        &[
            "types",
            "env",
            "wire",
            "rpc",
            "coordination",
            "client",
            "store",
        ],
    ),
    (
        "cli",
        &[
            "types",
            "env",
            "wire",
            "rpc",
            "coordination",
            "client",
            "store",
            "hdfs-store",
            "regionserver",
            "master",
            "sharding",
        ],
    ),
    (
        "sim",
        &[
            "types",
            "env",
            "wire",
            "rpc",
            "coordination",
            "client",
            "store",
            "regionserver",
            "master",
            "sharding",
            "cli",
        ],
    ),
];

/// Outside crates that only some of ours may name.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("prost", &["wire"]),
    ("slatedb", &["store", "sim"]),
    ("object_store", &["store", "hdfs-store", "cli", "sim"]),
    ("clap", &["cli"]),
    ("figment", &["cli"]),
    ("axum", &["cli"]),
    ("jiff", &["sharding"]),
    ("rhai", &["sharding"]),
];

/// Crates without an async runtime.
const NO_RUNTIME: &[&str] = &["types", "wire", "sharding", "evaluator"];

/// Licences that may be linked into an Apache-2.0 binary.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "0BSD",
    "CC0-1.0",
    "BSL-1.0",
    "Apache-2.0 WITH LLVM-exception",
    "CDLA-Permissive-2.0",
    "MPL-2.0",
    // Or any later version: smartstring, below rhai.
    "MPL-2.0+",
];

/// Longest file without its tests, lines.
const FILE_MAX: usize = 800;

/// The document that names, between backticks, the test of every rule.
const NAMES_TESTS: &str = "docs/correctness.md";

/// HBase's own tests that CI runs, and the lists that they are from.
const SUITE_PASSING: &str = "tests/hbase-suite/passing.txt";
const SUITE_LISTS: &[&str] = &[
    "tests/hbase-suite/lists/open.txt",
    "tests/hbase-suite/lists/clock.txt",
];

/// How many of them there are. Raised with the list, never lowered: what has passed once is not given up.
const SUITE_COUNT: usize = 563;

/// Classes of theirs of which all tests pass.
const SUITE_WHOLE: &[&str] = &[
    "TestFromClientSide",
    "TestCheckAndMutate",
    "TestIncrementsFromClientSide",
    "TestAppendFromClientSide",
    "TestScannersFromClientSide",
    "TestAcidGuaranteesWithNoInMemCompaction",
];

pub(crate) fn check() -> Result<(), String> {
    let metadata = metadata()?;
    let mut faults = Vec::new();
    directions(&metadata, &mut faults);
    licences(&metadata, &mut faults);
    let sources = files(&mut faults)?;
    named_tests(&sources, &mut faults)?;
    let read =
        |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let lists: Result<Vec<String>, String> = SUITE_LISTS.iter().map(|path| read(path)).collect();
    suite(
        &read(SUITE_PASSING)?,
        &lists?.concat(),
        SUITE_COUNT,
        &mut faults,
    );
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} faults:\n  {}",
        faults.len(),
        faults.join("\n  ")
    ))
}

fn metadata() -> Result<Value, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn directions(metadata: &Value, faults: &mut Vec<String>) {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    for package in list(metadata, "packages") {
        let Some(name) = text(package, "name").strip_prefix("cadastre-") else {
            continue;
        };
        let Some(may_use) = allowed.get(name) else {
            faults.push(format!(
                "crate {name} is missing in xtask's table of directions"
            ));
            continue;
        };
        for dependency in list(package, "dependencies") {
            let used = text(dependency, "name");
            if let Some(ours) = used.strip_prefix("cadastre-")
                && !may_use.contains(&ours)
            {
                faults.push(format!("{name} must not depend on {ours}"));
            }
            let is_dev = text(dependency, "kind") == "dev";
            if !is_dev
                && let Some((_, only)) = ONLY_IN.iter().find(|(outside, _)| *outside == used)
                && !only.contains(&name)
            {
                faults.push(format!(
                    "only {} may name {used}, not {name}",
                    only.join(", ")
                ));
            }
            if !is_dev && used == "tokio" && NO_RUNTIME.contains(&name) {
                faults.push(format!("{name} must have no async runtime"));
            }
        }
    }
}

/// A licence expression passes if one side of each OR, and every side of each AND, is allowed.
fn licence_passes(expression: &str) -> bool {
    let allowed: BTreeSet<&str> = LICENCES.iter().copied().collect();
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    plain.split(" AND ").all(|part| {
        part.split(" OR ")
            .any(|licence| allowed.contains(licence.trim()))
    })
}

fn licences(metadata: &Value, faults: &mut Vec<String>) {
    for package in list(metadata, "packages") {
        let licence = text(package, "license");
        if !licence_passes(licence) {
            faults.push(format!(
                "{} has the licence '{licence}'",
                text(package, "name")
            ));
        }
    }
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Checks every file of ours; answers all of them, one behind the other.
fn files(faults: &mut Vec<String>) -> Result<String, String> {
    let mut sources = String::new();
    let mut found = Vec::new();
    for dir in ["crates", "xtask/src"] {
        rust_files(Path::new(dir), &mut found)?;
    }
    found.sort();
    for path in found {
        let source = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let is_test = path
            .components()
            .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "examples")
            || path.file_stem().is_some_and(|stem| stem == "tests");
        let code = source
            .split("#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        let lines = code.lines().count();
        if !is_test && lines > FILE_MAX {
            faults.push(format!(
                "{}: {lines} lines, more than {FILE_MAX}",
                path.display()
            ));
        }
        if !source.starts_with("//!") {
            faults.push(format!(
                "{}: begins without //! what it is for",
                path.display()
            ));
        }
        sources.push_str(&source);
    }
    Ok(sources)
}

/// Names between backticks, of the form that tests have.
fn names(text: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        word.contains('_') && word.bytes().all(plain) && !word.ends_with('_')
    };
    text.split('`').skip(1).step_by(2).filter(is_name).collect()
}

fn named_tests(sources: &str, faults: &mut Vec<String>) -> Result<(), String> {
    let text = std::fs::read_to_string(NAMES_TESTS).map_err(|error| error.to_string())?;
    for name in names(&text) {
        if !sources.contains(&format!("fn {name}(")) {
            faults.push(format!("{NAMES_TESTS}: there is no test {name}"));
        }
    }
    Ok(())
}

/// The list of HBase's tests that pass only grows: as many as were counted, each once and of the lists, whole classes whole.
fn suite(passing: &str, lists: &str, count: usize, faults: &mut Vec<String>) {
    let known: BTreeSet<&str> = lists.lines().collect();
    let listed: BTreeSet<&str> = passing.lines().collect();
    let lines = passing.lines().count();
    if lines != listed.len() {
        faults.push(format!("{SUITE_PASSING}: a test stands there twice"));
    }
    if listed.len() < count {
        faults.push(format!(
            "{SUITE_PASSING}: {} tests, {count} have passed: the list may only grow",
            listed.len()
        ));
    }
    if listed.len() > count {
        faults.push(format!(
            "{SUITE_PASSING}: {} tests; raise SUITE_COUNT of xtask from {count}",
            listed.len()
        ));
    }
    for strange in listed.difference(&known) {
        faults.push(format!(
            "{SUITE_PASSING}: {strange} is in none of the lists"
        ));
    }
    for missing in known.difference(&listed) {
        let class = missing.split('#').next().unwrap_or_default();
        let short = class.rsplit('.').next().unwrap_or_default();
        if SUITE_WHOLE.contains(&short) {
            faults.push(format!(
                "{SUITE_PASSING}: {missing} is missing, of a class that passes whole"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests() {
        let text = "| `t1_a_cut` | `cargo xtask` and `t10_…`, `Durability`, `b_2` |";
        assert_eq!(Vec::from_iter(names(text)), ["b_2", "t1_a_cut"]);
    }

    #[test]
    fn the_list_of_passing_tests_only_grows() {
        let lists = "a.TestX#one\na.TestX#two\na.TestAppendFromClientSide#three\n";
        let found = |passing: &str| {
            let mut faults = Vec::new();
            suite(passing, lists, 2, &mut faults);
            faults.len()
        };
        let whole = "a.TestAppendFromClientSide#three\n";
        assert_eq!(found(&format!("a.TestX#one\n{whole}")), 0);
        assert_eq!(found(whole), 1, "one was taken out");
        assert_eq!(found(lists), 1, "the count is to be raised");
        assert_eq!(
            found("a.TestX#one\na.TestX#two\n"),
            1,
            "a class is not whole"
        );
        assert_eq!(found(&format!("a.TestX#made.up\n{whole}")), 1);
        assert_eq!(found(&format!("a.TestX#one\na.TestX#one\n{whole}")), 1);
    }

    #[test]
    fn licence_expressions() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
        ] {
            assert!(licence_passes(good), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", ""] {
            assert!(!licence_passes(bad), "{bad}");
        }
    }
}
