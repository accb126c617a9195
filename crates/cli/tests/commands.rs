//! The commands against a whole server, as a user runs them: the binary itself, its output and its exit codes.

#![allow(clippy::unwrap_used, reason = "tests and their helpers")]

mod common;

use std::process::{Command, Output};

use serde_json::Value;

use common::{BINARY, Server};

/// What the commands are run against.
struct Commands(Server);

impl Commands {
    fn start() -> Self {
        Self(Server::start(1))
    }

    fn run(&self, line: &str) -> Output {
        Command::new(BINARY)
            .args(line.split(' '))
            .args(["--zookeeper", self.0.ready["zookeeper"].as_str().unwrap()])
            .output()
            .unwrap()
    }

    /// Runs a line that must end with this code; gives what it printed.
    fn expect(&self, code: i32, line: &str) -> String {
        let output = self.run(line);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}\n{out}\n{err}");
        out
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.expect(0, &format!("{line} --json"))).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Lines without their timestamps, which differ from run to run.
fn without_timestamps(out: &str) -> Vec<String> {
    out.lines()
        .map(|line| {
            let words = line
                .split_whitespace()
                .filter(|word| word.len() < 13 || word.parse::<u64>().is_err());
            words.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn a_table_s_life_by_commands() {
    let server = Commands::start();
    assert_eq!(
        server.expect(0, "table create t1 f:VERSIONS=3 g --splits g,p"),
        "created t1 with 3 regions\n"
    );
    assert_eq!(server.expect(0, "table list"), "t1  f g\n");
    server.expect(2, "table create t1 f");
    let described = server.json("table describe t1");
    assert_eq!(described["state"], "enabled");
    assert_eq!(described["regions"].as_array().unwrap().len(), 3);
    assert_eq!(described["families"][0]["attributes"]["VERSIONS"], "3");

    server.expect(0, r"put t1 row1 f:name Ada f:age \x00\x24");
    server.expect(0, "put t1 a f:q 1");
    server.expect(0, "put t1 z g:q 2");
    assert_eq!(
        without_timestamps(&server.expect(0, "get t1 row1")),
        [r"f:age \x00$", "f:name Ada"]
    );
    let row = server.json("get t1 row1 f:name");
    assert_eq!(row["cells"][0]["value"], "Ada");
    assert_eq!(
        without_timestamps(&server.expect(0, "scan t1")),
        ["a f:q 1", r"row1 f:age \x00$", "row1 f:name Ada", "z g:q 2"]
    );
    assert_eq!(
        without_timestamps(&server.expect(0, "scan t1 --reversed --limit 1")),
        ["z g:q 2"]
    );
    assert_eq!(
        without_timestamps(&server.expect(0, "scan t1 --prefix row --column f:name")),
        ["row1 f:name Ada"]
    );
    server.expect(1, "scan t1 --start b --stop c");
    assert_eq!(server.json("count t1")["rows"], 3);
    assert_eq!(server.json("count t1 --start b")["rows"], 2);

    server.expect(0, "put t1 a f:q 3 --timestamp 5");
    server.expect(0, "put t1 v f:q old --timestamp 5");
    server.expect(0, "put t1 v f:q new --timestamp 9");
    assert_eq!(
        server.expect(0, "get t1 v --versions 3"),
        "f:q  9  new\nf:q  5  old\n"
    );
    server.expect(0, "delete t1 v f:q --one-version");
    assert_eq!(server.expect(0, "get t1 v"), "f:q  5  old\n");
    server.expect(0, "delete t1 row1 f:name");
    assert_eq!(
        without_timestamps(&server.expect(0, "get t1 row1")),
        [r"f:age \x00$"]
    );
    server.expect(0, "delete t1 row1");
    assert_eq!(server.expect(1, "get t1 row1"), "");

    server.expect(2, "table drop t1");
    server.expect(0, "table disable t1");
    server.expect(2, "get t1 a");
    server.expect(0, "table enable t1");
    assert_eq!(server.json("get t1 a")["row"], "a");
    server.expect(0, "table drop t1 --force");
    server.expect(2, "get t1 a");
    assert_eq!(server.expect(0, "table list"), "");
}

#[test]
fn status_and_both_ways_to_connect() {
    let server = Commands::start();
    let status = server.json("status");
    assert_eq!(status["region_servers"].as_array().unwrap().len(), 1);
    assert!(status["master"].is_string());
    let bootstrap = server.0.ready["region_servers"][0].as_str().unwrap();
    let output = Command::new(BINARY)
        .args(["status", "--bootstrap", bootstrap])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("cluster "));
}

#[test]
fn errors_say_what_to_do() {
    let server = Commands::start();
    let missing = server.run("get nosuch row");
    assert_eq!(missing.status.code(), Some(2));
    let told = text(&missing.stderr);
    assert!(
        told.contains("TableNotFound: nosuch") && told.contains("table list"),
        "{told}"
    );
    let json = server.run("get nosuch row --json");
    let error: Value = serde_json::from_slice(&json.stderr).unwrap();
    assert_eq!(error["error"]["code"], "TableNotFound");
    // Nobody listens on port 1.
    let nobody = Command::new(BINARY)
        .args(["status", "--bootstrap", "127.0.0.1:1"])
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(3));
    assert!(text(&nobody.stderr).contains("cadastre start"));
}
