//! `cadastre rule …` as a process: standard input, exit codes, and a script that must answer the same in a second process.
#![allow(
    clippy::unwrap_used,
    reason = "a test: what cannot be started shall fail it"
)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_cadastre");

fn run(arguments: &[&str], input: &str) -> Output {
    let mut process = Command::new(BINARY)
        .arg("rule")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever does not read its input closes it: no matter.
    let _ = process.stdin.take().unwrap().write_all(input.as_bytes());
    process.wait_with_output().unwrap()
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn records_come_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let rule = file(
        &folder,
        "t.rule",
        "rule t version 1; field id: i64; key decimal id \"|\", rest x; field x: bytes; dimension n 0 to 3; else (id % 4); \
         place table \"t_{n}\";",
    );
    let output = run(&["eval", &rule], "id,x\n7,00\n");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "id\tx\tslot\tplace\n7\t00\t(3)\tt_3\n"
    );
    assert_eq!(output.status.code(), Some(0));
    // Row keys, as HBase writes them.
    let output = run(
        &["eval", &rule, "--format", "keys", "--json"],
        "6|ab\\x00\n",
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"slot\":[2],\"table\":\"t_2\""));
    let output = run(&["eval", &rule], "id,x\nseven,00\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2: 'seven' is no i64"));
    let output = run(&["eval", &rule], "id,x\n,00\n");
    assert_eq!(
        output.status.code(),
        Some(1),
        "a record that the rule refuses"
    );
    let output = run(&["evil"], "");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_script_is_checked_in_a_second_process() {
    let folder = tempfile::tempdir().unwrap();
    let rule = file(
        &folder,
        "s.rule",
        "rule s version 1; zone \"UTC\"; field id: i64; field name: string; dimension n 0 to 9; \
         script \"let m = #{ b: 1, a: 2 }; let sum = 0; for k in m.keys() { sum = sum * 3 + xxh3(k + name) % 7; } modulo(id + sum, 10)\"; \
         place table \"t_{n}\";",
    );
    let output = run(&["check", &rule], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("not-deterministic"), "{text}");
    assert!(text.contains("note [opaque]"), "{text}");
    let fingerprints: Vec<_> = (0..2)
        .map(|_| run(&["fingerprint", &rule], "").stdout)
        .collect();
    assert_eq!(fingerprints[0], fingerprints[1]);
    assert_eq!(fingerprints[0].len(), 17);
}
