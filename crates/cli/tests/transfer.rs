//! `cadastre dump` and `load` against a whole server: what is loaded is what is dumped, byte for byte, through `kill -9` in the middle.

#![allow(clippy::unwrap_used, reason = "tests and their helpers")]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use common::{BINARY, Server};

/// Enough to be killed in the middle of.
const ROWS: usize = 12_000;

/// A kill may come too late; then it is tried again.
const TRIES: usize = 20;

struct Workshop {
    server: Server,
    dir: tempfile::TempDir,
}

impl Workshop {
    fn start() -> Self {
        Self {
            server: Server::start(1),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(line.split(' '))
            .args([
                "--zookeeper",
                self.server.ready["zookeeper"].as_str().unwrap(),
            ])
            .current_dir(self.dir.path());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn expect(&self, code: i32, line: &str) -> (String, String) {
        let output = self.run(line);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}\n{out}\n{err}");
        (out, err)
    }

    /// Runs a line and kills it as soon as its state file shows rows; false if it was done before.
    fn killed_in_the_middle(&self, line: &str, state: &str) -> bool {
        let state = self.path(state);
        let mut child: Child = self
            .command(line)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "{line}");
                return false;
            }
            if rows_in(&state) > 0 {
                child.kill().unwrap();
                child.wait().unwrap();
                // It may have come to its end just before.
                return state.exists();
            }
            std::thread::yield_now();
        }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

fn rows_in(state: &Path) -> u64 {
    let bytes = std::fs::read(state).unwrap_or_default();
    // Not there yet.
    let state: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    state["position"]["rows"].as_u64().unwrap_or(0)
}

/// Rows in order, as `dump` writes them, with bytes that are no text.
fn lines() -> String {
    (0..ROWS)
        .map(|n| {
            format!(
                "{{\"row\":\"r{n:06}\\\\x00\",\"cells\":[{{\"column\":\"f:a\",\"timestamp\":{},\"value\":\"{n}\\\\xFF\"}},{{\"column\":\"f:b\",\"timestamp\":7,\"value\":\"\"}}]}}\n",
                1000 + n
            )
        })
        .collect()
}

#[test]
fn a_load_and_a_dump_that_are_killed_go_on_with_the_same_rows() {
    let shop = Workshop::start();
    let lines = lines();
    std::fs::write(shop.path("in.jsonl"), &lines).unwrap();
    let load = "load t in.jsonl --batch 100 --in-flight 3 --checkpoint 200";
    let mut killed = false;
    for _ in 0..TRIES {
        shop.expect(0, "table create t f --splits r003000,r009000");
        killed = shop.killed_in_the_middle(load, "in.jsonl.load-state");
        if killed {
            break;
        }
        shop.expect(0, "table drop t --force");
    }
    assert!(killed, "never in the middle");
    let (_, told) = shop.expect(2, load);
    assert!(
        told.contains("broken off") && told.contains("--resume"),
        "{told}"
    );
    let (_, told) = shop.expect(2, "load u in.jsonl --resume");
    assert!(told.contains("another request"), "{told}");
    let (out, _) = shop.expect(0, &format!("{load} --resume --json"));
    let done: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(done["rows_in_all"], ROWS);
    assert!(
        done["resumed_behind_line"].as_u64().unwrap() >= 100,
        "{done}"
    );
    assert!(!shop.path("in.jsonl.load-state").exists());

    shop.expect(0, "dump t --output whole.jsonl");
    assert!(
        shop.read("whole.jsonl") == lines,
        "loaded and dumped differ"
    );
    assert!(!shop.path("whole.jsonl.dump-state").exists());

    let dump = "dump t --output part.jsonl --checkpoint 50";
    let killed = (0..TRIES).any(|_| {
        let killed = shop.killed_in_the_middle(dump, "part.jsonl.dump-state");
        if !killed {
            std::fs::remove_file(shop.path("part.jsonl")).unwrap();
        }
        killed
    });
    assert!(killed, "never in the middle");
    shop.expect(2, dump);
    let (out, _) = shop.expect(0, &format!("{dump} --resume --json"));
    let done: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(done["rows_in_all"], ROWS);
    assert!(done["resumed_behind"].as_u64().unwrap() >= 50, "{done}");
    assert!(shop.read("part.jsonl") == lines, "a resumed dump differs");
    shop.expect(2, &format!("{dump} --resume"));
    let (piped, _) = shop.expect(0, "dump t");
    assert!(piped == lines, "standard output differs");
}

#[test]
fn a_csv_comes_back_as_it_went() {
    let shop = Workshop::start();
    shop.expect(0, "table create t f g");
    shop.expect(0, r"put t a\x00b f:x 1,2 f:y \x0A\x22");
    shop.expect(0, "put t c g:z last");
    shop.expect(0, "put t d f:x old --timestamp 5");
    shop.expect(0, "put t e f:other x");
    let columns = "--columns row,f:x,g:z,f:y";
    shop.expect(0, &format!("dump t --output t.csv {columns}"));
    assert_eq!(
        shop.read("t.csv"),
        "row,f:x,g:z,f:y\na\\x00b,\"1,2\",\\N,\"\\x0A\"\"\"\nc,\\N,last,\\N\nd,old,\\N,\\N\n"
    );
    shop.expect(0, "table create u f g");
    let (out, _) = shop.expect(0, "load u t.csv");
    assert!(out.starts_with("loaded u from t.csv: 3 rows"), "{out}");
    shop.expect(0, &format!("dump u --output u.csv {columns}"));
    assert_eq!(shop.read("u.csv"), shop.read("t.csv"));
    // Without a first line, a column passed over, values as they stand.
    std::fs::write(shop.path("w.csv"), "1,\\x,r1\n2,y,r2\n\n,z,r3\n").unwrap();
    shop.expect(0, "table create w f");
    shop.expect(
        0,
        "load w w.csv --columns f:n,f:t,row --plain --null= --timestamp 7",
    );
    let (out, _) = shop.expect(0, "dump w");
    assert_eq!(out.lines().count(), 3, "{out}");
    assert!(
        out.contains(r#"{"column":"f:t","timestamp":7,"value":"\\x5Cx"}"#),
        "{out}"
    );
    assert!(!out.lines().nth(2).unwrap().contains("f:n"), "{out}");
    shop.expect(2, "dump t --output x.csv");
    shop.expect(2, "dump t --output x.csv --columns f");
    shop.expect(2, "dump t --output x.txt");
    shop.expect(2, "dump t --output x.csv --columns f:x --versions 2");
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_line() {
    let shop = Workshop::start();
    shop.expect(0, "table create t f");
    std::fs::write(shop.path("bad.csv"), "row,f:x\na,1\nb,\\q\nc,3\n").unwrap();
    let (_, told) = shop.expect(2, "load t bad.csv");
    assert!(
        told.contains("line 3: f:x:") && told.contains("Everything up to line 2 is loaded"),
        "{told}"
    );
    std::fs::write(shop.path("bad.csv"), "row,f:x\na,1\nb,22\nc,3\n").unwrap();
    let (out, _) = shop.expect(0, "load t bad.csv --resume");
    assert!(
        out.contains("2 rows") && out.contains("resumed behind line 2"),
        "{out}"
    );
    let (rows, _) = shop.expect(0, "count t --json");
    assert_eq!(serde_json::from_str::<Value>(&rows).unwrap()["rows"], 3);
    std::fs::write(
        shop.path("family.jsonl"),
        "{\"row\":\"x\",\"cells\":[{\"column\":\"f:a\",\"value\":\"1\"}]}\n{\"row\":\"y\",\"cells\":[{\"column\":\"no:a\",\"value\":\"1\"}]}\n",
    )
    .unwrap();
    let (_, told) = shop.expect(2, "load t family.jsonl");
    assert!(
        told.contains("line 2: ") && told.contains("table describe"),
        "{told}"
    );
    shop.expect(2, "dump nosuch --output nosuch.jsonl");
    assert!(!shop.path("nosuch.jsonl").exists(), "a file for nothing");
    shop.expect(2, "load nosuch family.jsonl --restart");
    shop.expect(2, "load t nosuch.jsonl");
    // From a pipe.
    let mut child = shop
        .command("load t - --columns row,f:x --format csv --json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"p1,1\np2,2\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(done["rows"], 2);
}
