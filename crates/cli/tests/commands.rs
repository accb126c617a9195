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
fn a_table_is_altered_emptied_and_moved() {
    let server = Commands(Server::start(2));
    server.expect(0, "table create t1 f g --splits m");
    server.expect(0, "put t1 a f:q 1 g:q 2");
    server.expect(0, "put t1 z f:q 3");
    assert_eq!(
        server.expect(
            0,
            "table alter t1 f:VERSIONS=4 h --attribute DURABILITY=ASYNC_WAL"
        ),
        "altered t1\n"
    );
    let described = server.json("table describe t1");
    assert_eq!(described["families"][0]["attributes"]["VERSIONS"], "4");
    assert_eq!(described["families"][2]["name"], "h");
    assert_eq!(described["attributes"]["DURABILITY"], "ASYNC_WAL");
    server.expect(2, "table alter t1 f:VERSIONS=4");
    server.expect(2, "table alter t1 --drop-family nosuch");
    server.expect(0, "table alter t1 --drop-family g --unset DURABILITY");
    let described = server.json("table describe t1");
    assert_eq!(described["families"].as_array().unwrap().len(), 2);
    assert_eq!(without_timestamps(&server.expect(0, "get t1 a")), ["f:q 1"]);

    server.expect(0, "table flush t1");
    assert_eq!(
        server.expect(0, "table compact t1 --major"),
        "asked for t1: 2 regions\n"
    );
    let before = server.json("locate t1 a");
    let moved = server.json("table move t1 a");
    assert_ne!(moved["server"], before["server"]);
    assert_eq!(server.json("locate t1 a")["server"], moved["server"]);
    let back = before["server"].as_str().unwrap();
    let moved = server.json(&format!("table move t1 a --to {back}"));
    assert_eq!(moved["server"], before["server"]);
    assert_eq!(without_timestamps(&server.expect(0, "get t1 a")), ["f:q 1"]);
    assert_eq!(server.json("table balance --dry-run")["ran"], true);
    assert_eq!(server.json("table balance")["ran"], true);

    server.expect(2, "table truncate t1");
    server.expect(0, "table truncate t1 --force --keep-splits");
    assert_eq!(server.json("count t1")["rows"], 0);
    assert_eq!(server.expect(0, "locate t1").lines().count(), 2);
    server.expect(0, "table truncate t1 --force");
    assert_eq!(server.expect(0, "locate t1").lines().count(), 1);
}

#[test]
fn namespaces() {
    let server = Commands::start();
    server.expect(2, "table create sales:t f");
    assert_eq!(
        server.expect(0, "namespace create sales --set owner=kim --set a=b"),
        "created sales\n"
    );
    server.expect(2, "namespace create sales");
    server.expect(0, "table create sales:t f");
    let listed = server.expect(0, "namespace list");
    assert_eq!(listed, "default\nhbase\nsales\n");
    assert_eq!(
        server.expect(0, "namespace describe sales"),
        "sales\n  a=b\n  owner=kim\n  table sales:t\n"
    );
    server.expect(0, "namespace alter sales --set owner=lee --unset a");
    let described = server.json("namespace describe sales");
    assert_eq!(described["configuration"]["owner"], "lee");
    assert_eq!(described["configuration"].as_object().unwrap().len(), 1);
    server.expect(2, "namespace alter sales");
    server.expect(2, "namespace alter sales --unset nosuch");
    server.expect(2, "namespace drop sales");
    server.expect(0, "table drop sales:t --force");
    server.expect(0, "namespace drop sales");
    server.expect(2, "namespace describe sales");
}

#[test]
fn regions_are_split_and_merged() {
    let server = Commands::start();
    server.expect(0, "table create t1 f");
    server.expect(0, "put t1 a f:q 1");
    server.expect(0, "put t1 x f:q 2");
    assert_eq!(
        server.expect(0, "table split t1 g"),
        "split a region of t1\n"
    );
    server.expect(0, "table split t1 p");
    let located = server.json("locate t1 h");
    assert_eq!(
        (&located["start"], &located["end"]),
        (&"g".into(), &"p".into())
    );
    // At its start, and where there is nothing to halve.
    server.expect(2, "table split t1 g");
    server.expect(2, "table split t1 h --middle");
    server.expect(0, "meta --check");
    assert_eq!(server.json("table merge t1 a x")["regions"], 3);
    server.expect(2, "table merge t1 a b");
    server.expect(0, "meta --check");
    assert_eq!(server.json("count t1")["rows"], 2);
}

#[test]
fn counters_and_appends() {
    let server = Commands::start();
    server.expect(0, "table create t1 f");
    assert_eq!(server.expect(0, "incr t1 r f:c"), "1\n");
    assert_eq!(server.expect(0, "incr t1 r f:c 41"), "42\n");
    assert_eq!(server.json("incr t1 r f:c -50")["value"], -8);
    assert_eq!(server.expect(0, r"append t1 r f:v a\x00"), "a\\x00\n");
    let row = server.json("append t1 r f:v b");
    assert_eq!(row["value"], r"a\x00b");
    server.expect(2, "incr t1 r f:v");
    server.expect(2, "incr t1 r f");
    server.expect(2, "append t1 r nosuch:v x");
}

/// L9 to L12 as a user sees them: who said where a row is.
#[test]
fn rows_are_located_and_the_source_is_told() {
    let server = Commands::start();
    server.expect(0, "table create t1 f --splits g,p");
    let lines = server.expect(0, "locate t1 a b h --json");
    let found: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(found[0]["source"], "hbase:meta");
    assert_eq!(found[0]["cached"], false);
    assert_eq!(found[1]["source"], "cache");
    assert_eq!(
        (&found[2]["start"], &found[2]["end"]),
        (&"g".into(), &"p".into())
    );
    let reloaded = server.expect(0, "locate t1 a b --reload");
    assert!(!reloaded.contains("cached"), "{reloaded}");
    let all = server.expect(0, "locate t1");
    assert_eq!(all.lines().count(), 3, "{all}");
    assert!(all.contains("'p' to ''") && all.contains("OPEN"), "{all}");
    assert_eq!(server.json("locate hbase:meta")["source"], "registry");
    server.expect(2, "locate nosuch");
    server.expect(2, "locate nosuch row");
    server.expect(0, "table disable t1");
    server.expect(2, "locate t1 a");
    assert!(server.expect(0, "locate t1").contains("CLOSED"));
}

/// INV-1.
#[test]
fn the_directory_is_shown_and_checked() {
    let server = Commands::start();
    server.expect(0, "table create t1 f --splits g,p");
    server.expect(0, "table create t2 f");
    let shown = server.expect(0, "meta t1");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 5, "{shown}");
    assert_eq!(lines[0], "table t1  enabled");
    assert!(
        lines[1].starts_with("  t1,,") && lines[1].contains("  OPEN  on "),
        "{shown}"
    );
    assert_eq!(
        lines[4],
        "1 table, 3 regions: every key lies in exactly one region"
    );
    let checked = server.json("meta --check");
    assert_eq!(
        (&checked["faults"], &checked["tables"]),
        (&0.into(), &checked["tables"])
    );
    assert!(checked["regions"].as_u64().unwrap() >= 4);
    let rows = server.expect(0, "meta t2 --json");
    let region: Value = serde_json::from_str(rows.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (&region["table"], &region["state"]),
        (&"t2".into(), &"OPEN".into())
    );
    assert_eq!(server.expect(1, "meta nosuch"), "");
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

/// What README shows works as it stands there.
#[test]
fn the_session_of_the_readme_works() {
    let server = Commands::start();
    let dir = tempfile::tempdir().unwrap();
    let readme = include_str!("../../../README.md");
    let lines: Vec<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("target/release/cadastre "))
        .collect();
    assert!(lines.len() > 4, "{lines:?}");
    for line in lines {
        let output = Command::new(BINARY)
            .args(line.split(' '))
            .args(["--zookeeper", server.0.ready["zookeeper"].as_str().unwrap()])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success() && !out.is_empty(),
            "{line}\n{out}\n{err}"
        );
    }
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
