//! `cadastre rule …` as a process: standard input, exit codes, and a script that must answer the same in a second process.
#![allow(
    clippy::unwrap_used,
    reason = "a test: what cannot be started shall fail it"
)]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
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
    // From standard input, which a second process cannot read again.
    let output = run(&["check", "-"], &std::fs::read_to_string(&rule).unwrap());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("note [opaque]"), "{text}");
    assert!(!text.contains("not-deterministic"), "{text}");
    let records = file(&folder, "r.csv", "id,name\n7,\"a\tb\"\n,\\N\n");
    for command in ["check", "eval", "simulate"] {
        let output = run(&[command, &rule, &records], "");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains("not-deterministic"), "{command}: {text}");
        assert_ne!(output.status.code(), Some(2), "{command}");
    }
}

/// The second process is this binary again. Here it was taken away meanwhile, and what stands in its place answers as a script would that
/// depends on the process.
#[test]
fn b5_11_a_script_that_the_second_process_answers_otherwise_is_refused_by_every_command() {
    const SCRIPT: &str = "rule s version 1; field id: i64; dimension n 0 to 9; script \"modulo(id, 10)\"; place table \"t_{n}\";";
    let folder = tempfile::tempdir_in(std::path::Path::new(BINARY).parent().unwrap()).unwrap();
    let records = file(&folder, "r.csv", "id\n7\n");
    let binary = folder.path().join("cadastre");
    // Where Linux says that the binary of a running process was, once its file is gone.
    let planted = folder.path().join("cadastre (deleted)");
    std::fs::write(
        &planted,
        "#!/bin/sh\ncat > /dev/null\necho 0123456789abcdef\n",
    )
    .unwrap();
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (arguments, code) in [
        (vec!["check", "-"], 1),
        (vec!["check", "-", &records], 1),
        (vec!["eval", "-", &records], 1),
        (vec!["enumerate", "-", "id = 7"], 1),
        (vec!["simulate", "-", &records], 1),
    ] {
        std::fs::hard_link(BINARY, &binary).unwrap();
        let mut process = Command::new(&binary)
            .arg("rule")
            .args(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It runs, and waits for its rule.
        std::fs::remove_file(&binary).unwrap();
        process
            .stdin
            .take()
            .unwrap()
            .write_all(SCRIPT.as_bytes())
            .unwrap();
        let output = process.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(
            said.contains("answers differently when it is asked again, or in a second process"),
            "{arguments:?}: {said}"
        );
        let is_found = said.contains("error [not-deterministic]");
        assert_eq!(is_found, arguments[0] == "check", "{said}");
    }
}
