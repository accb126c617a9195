//! Sharded tables against a whole server: the client in this process, servers, publishers and other clients as processes (issue 6,
//! sections 4 and 5).

#![allow(clippy::unwrap_used, reason = "tests and their helpers")]

mod common;
#[path = "sharded/cut.rs"]
mod cut;
#[path = "sharded/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_client::sharded::{Order, RuleWatch, ScanOf, ShardedOptions, ShardedTable};
use cadastre_client::{
    Action, Client, ClientConfig, Registry, RetryPolicy, Row, new_get, new_scan,
};
use cadastre_env::{HostPort, RealEnv, RealEnvConfig};
use cadastre_sharding::Program;
use cadastre_types::{Cell, Code, LATEST_TIMESTAMP, Result, TableName};
use serde_json::Value;

use common::{BINARY, Server};

/// A server, a folder with rules, and a client in this process.
pub(crate) struct Workshop {
    server: Server,
    dir: tempfile::TempDir,
    env: RealEnv,
}

impl Workshop {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let env = RealEnv::start(&RealEnvConfig {
            data_dir: dir.path().join("env"),
            cores: 1,
            background_threads: 1,
        });
        Self {
            server: Server::start(1),
            dir,
            env: env.unwrap(),
        }
    }

    fn zookeeper(&self) -> &str {
        self.server.ready["zookeeper"].as_str().unwrap()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(line.split(' ').map(|word| word.replace('~', " ")))
            .args(["--zookeeper", self.zookeeper()])
            .current_dir(self.dir.path());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs a line (`~` stands for a space) that must end with this code; gives what it printed and complained of.
    fn expect(&self, code: i32, line: &str) -> (String, String) {
        let output = self.run(line);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}\n{out}\n{err}");
        (out, err)
    }

    fn client(&self) -> Client<RealEnv> {
        self.client_at(self.zookeeper(), 10_000)
    }

    /// A client that finds the coordination service there.
    fn client_at(&self, zookeeper: &str, session_ms: u64) -> Client<RealEnv> {
        let at = vec![HostPort::parse(zookeeper).unwrap()];
        let config = ClientConfig {
            retry: RetryPolicy {
                operation_timeout_ms: 60_000,
                ..RetryPolicy::default()
            },
            zookeeper_timeout_ms: session_ms,
            ..ClientConfig::default()
        };
        let registry = Registry::ZooKeeper(at, "/hbase".to_owned());
        Client::connect(self.env.clone(), registry, config).unwrap()
    }

    fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.env.block_on(future).unwrap()
    }

    /// A client that follows a rule, and holds what moves for a moment only.
    fn follow(&self, name: &str) -> ShardedTable<RealEnv> {
        self.follow_with(self.client(), name)
    }

    fn follow_with(&self, client: Client<RealEnv>, name: &str) -> ShardedTable<RealEnv> {
        let name = name.to_owned();
        self.block_on(async move {
            let watch = RuleWatch::start(&client, &name, "the test");
            let options = ShardedOptions {
                hold_ms: 300,
                ..ShardedOptions::default()
            };
            watch.ready(Duration::from_secs(30)).await.unwrap();
            let clusters = BTreeMap::from([(String::new(), client)]);
            ShardedTable::watched(watch, clusters, options)
                .await
                .unwrap()
        })
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        self.env.shutdown();
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn cell(row: &str, value: &str) -> Cell {
    Cell::put(
        bytes(row),
        bytes("f"),
        bytes("q"),
        LATEST_TIMESTAMP,
        bytes(value),
    )
}

async fn put(table: &ShardedTable<RealEnv>, row: &str, value: &str) -> Result<()> {
    table.put(vec![cell(row, value)]).await
}

/// Keys of the rows that meet a condition.
async fn keys(table: &ShardedTable<RealEnv>, condition: &str) -> Result<Vec<String>> {
    let of = ScanOf {
        condition: Some(condition.to_owned()),
        ..ScanOf::of(new_scan())
    };
    let mut scanner = table.scan(of).await?;
    let mut keys = Vec::new();
    while let Some(row) = scanner.next().await? {
        keys.extend(row.key().map(|it| String::from_utf8_lossy(it).into_owned()));
    }
    Ok(keys)
}

/// A `rule watch` process, and what it says.
struct Watcher {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watcher {
    fn start(workshop: &Workshop, name: &str) -> Self {
        let mut command = workshop.command(&format!("rule watch {name} --json"));
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut watcher = Self { process, lines };
        watcher.until(|line| line["revision"].is_u64());
        watcher
    }

    /// Reads until it says so.
    fn until(&mut self, what: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next().unwrap().unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            if what(&line) {
                return line;
            }
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The seed's worked example with keys in decimal: id % 1, then id % 2.
fn r67(version: u32, modulus: u32) -> String {
    format!(
        "rule w version {version}; field id: i64; key decimal id \"|\"; dimension n 0 to 1; else (id % {modulus}); \
         place table \"w_{{n}}\";"
    )
}

#[test]
fn a_sharded_table_by_commands() {
    let workshop = Workshop::start();
    workshop.file(
        "orders.rule",
        "rule orders version 1; field id: i64; key decimal id \"|\"; dimension n 0 to 3; else (id % 4); \
         place table \"orders_{n}\"; place (3) cluster \"far\" table \"orders_3\";",
    );
    let far = format!("--rule orders.rule --cluster far={}", workshop.zookeeper());
    let run = |code, line: &str| workshop.expect(code, &format!("{line} {far}")).0;
    let (_, err) = workshop.expect(2, "table create orders f --rule orders.rule");
    assert!(err.contains("places rows on the cluster far"), "{err}");
    assert_eq!(
        run(0, "table create orders f:VERSIONS=3"),
        "created orders: 4 tables\n"
    );
    assert_eq!(
        run(0, "table create orders f"),
        "created orders: 0 tables (4 were so before)\n"
    );
    for id in 0..10 {
        run(0, &format!("put orders {id} f:q v{id}"));
    }
    assert_eq!(
        workshop.expect(0, "scan orders_3 --json").0.lines().count(),
        2
    );
    assert!(run(0, "get orders 7").contains("v7"));
    assert_eq!(run(1, "get orders 77"), "");
    assert_eq!(run(0, "incr orders 7 f:n 5"), "5\n");
    assert_eq!(run(0, "append orders 7 f:q x"), "v7x\n");
    let rows = |line: &str| -> Vec<String> {
        let out = run(0, &format!("{line} --json"));
        let row = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["row"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        out.lines().map(row).collect()
    };
    assert_eq!(
        rows("scan orders"),
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
    );
    assert_eq!(rows("scan orders --reversed --limit 2"), ["9", "8"]);
    assert_eq!(rows("scan orders --where id~in~(2,6,7)"), ["2", "6", "7"]);
    assert_eq!(rows("scan orders --where id~%~5~=~2 --start 3"), ["7"]);
    assert_eq!(
        rows("scan orders --order rule"),
        ["0", "4", "8", "1", "5", "9", "2", "6", "3", "7"]
    );
    assert!(run(0, "count orders --where id~<~4").starts_with("4 rows"));
    run(0, "delete orders 7");
    assert_eq!(run(1, "get orders 7"), "");
    let (_, err) = workshop.expect(
        2,
        &format!("scan orders --unbounded refuse --where id~*~id~=~4 {far}"),
    );
    assert!(err.contains("id * id == 4"), "{err}");
    let (_, err) = workshop.expect(2, &format!("get other 7 {far}"));
    assert!(
        err.contains("the rule is of the table orders, not other"),
        "{err}"
    );
    let (_, err) = workshop.expect(2, &format!("put orders x f:q v {far}"));
    assert!(err.contains("has no place by version 1"), "{err}");
    let (_, err) = workshop.expect(2, "get orders 7 --rule nosuch");
    assert!(err.contains("no rule of this name is published"), "{err}");
    run(2, "table drop orders");
    assert_eq!(
        run(0, "table drop orders --force"),
        "dropped orders: 4 tables\n"
    );
    assert_eq!(workshop.expect(0, "table list").0, "");
}

/// A script is checked in a second process before it is published, and followed like any rule (R33).
#[test]
fn a_script_places_rows_too() {
    let workshop = Workshop::start();
    let rule = |version: u32, script: &str| {
        format!(
            "rule s version {version}; field name: string; key rest name; dimension n 0 to 2; script \"{script}\"; place table \"s_{{n}}\";"
        )
    };
    workshop.file(
        "s1.rule",
        &rule(1, "if name.len() > 3 { 2 } else { modulo(xxh3(name), 2) }"),
    );
    workshop.file(
        "s2.rule",
        &rule(2, "if name.len() > 2 { 2 } else { modulo(xxh3(name), 2) }"),
    );
    let (out, _) = workshop.expect(0, "rule publish s1.rule");
    assert_eq!(out, "version 1 of the rule s is in force\n");
    workshop.expect(0, "table create s f --rule s");
    for row in ["a", "b", "abc", "abcd", "abcde"] {
        workshop.expect(0, &format!("put s {row} f:q v --rule s"));
    }
    let rows = |line: &str| workshop.expect(0, line).0.lines().count();
    assert_eq!(rows("scan s_2 --json"), 2);
    assert_eq!(rows("scan s --rule s --json --where name~=~'abcd'"), 1);
    assert_eq!(rows("scan s --rule s --json"), 5);
    // Two versions are compared on the rows that there are: one moves.
    let (_, err) = workshop.expect(2, "rule publish s2.rule");
    assert!(err.contains("1 rows would be out of reach"), "{err}");
}

#[test]
fn r67_the_worked_example_on_a_live_server() {
    let workshop = Workshop::start();
    for (name, version, modulus) in [("w1", 1, 1), ("w2", 2, 2), ("w3", 3, 2)] {
        workshop.file(&format!("{name}.rule"), &r67(version, modulus));
    }
    let expect = |code, line: &str| workshop.expect(code, line).0;
    assert_eq!(
        expect(0, "rule publish w1.rule"),
        "version 1 of the rule w is in force\n"
    );
    // A file of another hash is refused, in whichever command.
    let (_, err) = workshop.expect(2, "table create w f --rule w2.rule");
    assert!(
        err.contains("is published, as version 1 with the hash"),
        "{err}"
    );
    expect(0, "table create w f:VERSIONS=3 --rule w1.rule");
    // a is 0, b is 1, which has an older version.
    expect(0, "put w 0 f:q a --rule w");
    expect(0, "put w 1 f:q bb --rule w");
    expect(0, "put w 1 f:q b --rule w");
    let diff = expect(0, "rule diff w1.rule w2.rule --scan --json");
    let moved: Value = serde_json::from_str(diff.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (moved["from"].as_str(), moved["to"].as_str()),
        (Some("w_0"), Some("w_1"))
    );
    assert_eq!(moved["rows"], 1);
    // Lengths, key, family, qualifier, timestamp and type, 8 + 2 + 1 + 1 + 1 + 1 + 8 + 1 bytes, and the value: of both versions.
    assert_eq!(moved["bytes"], 23 + 1 + 23 + 2, "{diff}");

    let table = workshop.follow("w");
    let out = expect(0, "rule publish w2.rule --hold");
    assert!(out.contains("all 1 live clients have seen it"), "{out}");
    let held = {
        let table = table.clone();
        workshop.block_on(async move {
            // a stays, d (4) comes and stays; b is there and moves, c (3) comes and would move.
            put(&table, "0", "a2").await.unwrap();
            put(&table, "4", "d").await.unwrap();
            assert_eq!(keys(&table, "id in (0, 4)").await.unwrap(), ["0", "4"]);
            let mut errors = Vec::new();
            for row in ["1", "3"] {
                errors.push(put(&table, row, "no").await.unwrap_err());
                errors.push(table.get(&new_get(bytes(row))).await.unwrap_err());
            }
            errors.push(keys(&table, "true").await.unwrap_err());
            let action = |row: &str| Action::Get(new_get(bytes(row)));
            let mut answers = table.batch(vec![action("1"), action("4")]).await;
            assert_eq!(
                answers.pop().unwrap().unwrap().value(b"f", b"q").unwrap(),
                "d"
            );
            errors.push(answers.pop().unwrap().unwrap_err());
            errors
        })
    };
    for error in held {
        assert_eq!(error.code(), Code::RegionTooBusy, "{error}");
        assert!(
            error
                .message()
                .contains("with version 2 of the rule w, which is not in force yet"),
            "{error}"
        );
        assert!(
            error
                .message()
                .ends_with("held for 300 ms, nothing was sent"),
            "{error}"
        );
    }
    let (_, err) = workshop.expect(2, "rule publish --continue w");
    assert!(
        err.contains("1 rows would be out of reach") && err.contains("stays on offer"),
        "{err}"
    );
    assert_eq!(
        expect(0, "rule withdraw w"),
        "version 1 of the rule w is in force\n"
    );
    let table = {
        let table = table.clone();
        workshop.block_on(async move {
            put(&table, "3", "c").await.unwrap();
            assert_eq!(keys(&table, "true").await.unwrap(), ["0", "1", "3", "4"]);
            table
        })
    };
    // Without --hold the offer is taken back.
    let (_, err) = workshop.expect(2, "rule publish w3.rule");
    assert!(
        err.contains("2 rows would be out of reach") && err.contains("taken back"),
        "{err}"
    );
    workshop.file("w4.rule", &r67(4, 2));
    expect(0, "rule publish w4.rule --hold");
    // What copying will do one day.
    for (row, value) in [("1", "b"), ("3", "c")] {
        expect(0, &format!("put w_1 {row} f:q {value}"));
    }
    let out = expect(0, "rule publish --continue w --copied");
    assert!(
        out.ends_with("version 4 of the rule w is in force\n"),
        "{out}"
    );
    workshop.block_on(async move {
        // Each once, although the old places still have b and c.
        assert_eq!(keys(&table, "true").await.unwrap(), ["0", "1", "3", "4"]);
        put(&table, "3", "c2").await.unwrap();
        let found = table.get(&new_get(bytes("3"))).await.unwrap();
        assert_eq!(found.value(b"f", b"q").unwrap(), "c2");
    });
    assert!(expect(0, "get w_1 3").contains("c2"));
    assert!(expect(0, "get w_0 3").contains(" c\n") || expect(0, "get w_0 3").ends_with("c\n"));
    let history = expect(0, "rule history w");
    let done: Vec<&str> = history
        .lines()
        .skip(1)
        .map(|it| it.split_whitespace().nth(1).unwrap())
        .collect();
    assert_eq!(
        done,
        [
            "created",
            "offered",
            "withdrawn",
            "offered",
            "withdrawn",
            "offered",
            "published"
        ]
    );
    assert!(expect(0, "rule history w --show 1").contains("id % 1"));
    // Back to what was: b and c would move again.
    let (_, err) = workshop.expect(2, "rule rollback w 1");
    assert!(err.contains("2 rows would be out of reach"), "{err}");
}

#[test]
fn r31_with_a_new_node_on_the_ring_all_other_nodes_stay_open() {
    let workshop = Workshop::start();
    let rule = |version: u32, more: &str| {
        format!(
            "rule s version {version}; field token: string; key rest token; dimension node 1 to 64; \
             ring nodes {{ 1, 2, 3, 4{more} }} virtual 1 seed 0; else (nodes(xxh3(token))); place table \"s_{{node}}\"; "
        )
    };
    let program = |text: &str| Program::parse(text).unwrap();
    let tokens: Vec<String> = (0..120).map(|it| format!("token-{it}")).collect();
    let node = |program: &Program, token: &str| {
        let slot = program.evaluate_key(token.as_bytes()).unwrap();
        program.shape().coordinate(slot, 0)
    };
    let old = program(&rule(1, ""));
    // A node that lands where it takes a good part of another one's arc.
    let (five, new) = (5..64)
        .map(|five| (five, program(&rule(2, &format!(", {five}")))))
        .find(|(five, new)| tokens.iter().filter(|it| node(new, it) == *five).count() > 10)
        .unwrap();
    workshop.file("s1.rule", &rule(1, ""));
    workshop.file("s2.rule", &rule(2, &format!(", {five}")));
    workshop.expect(0, "rule publish s1.rule");
    for table in [1, 2, 3, 4, five] {
        workshop.expect(0, &format!("table create s_{table} f"));
    }
    let table = workshop.follow("s");
    let mut other = Watcher::start(&workshop, "s");
    {
        let (table, tokens) = (table.clone(), tokens.clone());
        workshop.block_on(async move {
            for token in &tokens {
                put(&table, token, "1").await.unwrap();
            }
        });
    }
    let (out, _) = workshop.expect(0, "rule publish s2.rule --hold");
    assert!(out.contains("all 2 live clients have seen it"), "{out}");
    let seen = other.until(|line| line["offered"] == 2);
    assert_eq!(seen["version"], 1);
    let status: Value =
        serde_json::from_str(&workshop.expect(0, "rule status s --json").0).unwrap();
    assert_eq!(status["clients"].as_array().unwrap().len(), 2);

    let moving: Vec<String> = tokens
        .iter()
        .filter(|it| node(&new, it) == five)
        .cloned()
        .collect();
    let refused = {
        let (table, tokens) = (table.clone(), tokens.clone());
        workshop.block_on(async move {
            let puts = tokens.iter().map(|token| put(&table, token, "2"));
            let done = futures::future::join_all(puts).await;
            let refused = tokens.iter().zip(done).filter(|(_, done)| done.is_err());
            refused.map(|(token, _)| token.clone()).collect::<Vec<_>>()
        })
    };
    // Exactly what goes to the new node is held. It all comes from one node, of which the rest stays open, as do all others.
    assert_eq!(refused, moving);
    let mut from: Vec<i64> = moving.iter().map(|it| node(&old, it)).collect();
    from.dedup();
    from.sort_unstable();
    from.dedup();
    assert_eq!(from.len(), 1, "{from:?}");
    workshop.expect(0, "rule withdraw s");
    other.until(|line| line["offered"].is_null() && line["version"] == 1);
    workshop.block_on(async move {
        for token in &moving {
            put(&table, token, "3").await.unwrap();
        }
    });
}

#[test]
fn r71_the_publisher_names_who_has_not_seen_it_and_goes_on_when_they_are_gone() {
    let workshop = Workshop::start();
    workshop.file("w1.rule", &r67(1, 1));
    workshop.file("w2.rule", &r67(2, 2));
    workshop.expect(0, "rule publish w1.rule");
    let mut paused = Watcher::start(&workshop, "w");
    let mut awake = Watcher::start(&workshop, "w");
    paused.signal("-STOP");
    let (out, err) = workshop.expect(3, "rule publish w2.rule --wait 1");
    let named = format!("process {} (c-", paused.process.id());
    assert!(
        out.contains(&named) && out.contains("has seen revision 1 only"),
        "{out}"
    );
    assert!(
        err.contains("1 of the live clients have not seen revision 2"),
        "{err}"
    );
    awake.until(|line| line["offered"] == 2);
    // Its session ends; then nobody waits for it.
    let (out, _) = workshop.expect(0, "rule publish --continue w --wait 60");
    assert!(out.contains("all 1 live clients have seen it"), "{out}");
    awake.until(|line| line["version"] == 2);
    // When it comes back it knows nothing, until it has begun anew.
    paused.signal("-CONT");
    paused.until(|line| line["version"] == 2 && line["offered"].is_null());
}

#[test]
fn rules_outlive_the_server() {
    let mut workshop = Workshop::start();
    workshop.file("w1.rule", &r67(1, 1));
    workshop.file("w2.rule", &r67(2, 2));
    workshop.expect(0, "rule publish w1.rule");
    workshop.expect(0, "table create w f --rule w");
    workshop.expect(0, "rule publish w2.rule --hold");
    // The embedded coordination service keeps nothing; the table does.
    workshop.server.restart();
    let (status, _) = workshop.expect(0, "rule status");
    assert!(
        status.contains("versions 1 and 2 (on offer), revision 2"),
        "{status}"
    );
    let table = workshop.follow("w");
    let error = workshop.block_on(async move {
        put(&table, "0", "stays").await.unwrap();
        put(&table, "1", "moves").await.unwrap_err()
    });
    assert_eq!(error.code(), Code::RegionTooBusy);
}

/// A limit opens no more tables than it needs, where the rule's order is the rows'.
#[test]
fn a_limit_stops_early() {
    let workshop = Workshop::start();
    let rule = "rule r version 1; field id: i64; key fixed id; ranges chunk: i64 { 0, 10 => 1, 20 => 2, 30 => 3 }; \
                dimension n 0 to 3; else (chunk(id)); place table \"r_{n}\";";
    workshop.file("r.rule", rule);
    workshop.expect(0, "table create r f --rule r.rule");
    let client = workshop.client();
    workshop.block_on(async move {
        let clusters = BTreeMap::from([(String::new(), client)]);
        let program = Arc::new(Program::parse(rule).unwrap());
        let table = ShardedTable::fixed(program, clusters, ShardedOptions::default()).unwrap();
        let key = |id: i64| Bytes::copy_from_slice(&((id as u64) ^ (1 << 63)).to_be_bytes());
        for id in 0..40 {
            let cell = Cell::put(key(id), bytes("f"), bytes("q"), 1, bytes("v"));
            table.put(vec![cell]).await.unwrap();
        }
        for (condition, order, limit, opened) in [
            ("true", Order::Row, 5, 1),
            ("true", Order::Row, 15, 2),
            ("id >= 12", Order::Row, 10, 2),
            ("id >= 12", Order::Rule, 8, 1),
            ("id > 100", Order::Row, 8, 1),
        ] {
            let of = ScanOf {
                condition: Some(condition.to_owned()),
                limit: Some(limit),
                order,
                ..ScanOf::of(new_scan())
            };
            let mut scanner = table.scan(of).await.unwrap();
            let mut rows: Vec<Row> = Vec::new();
            while let Some(row) = scanner.next().await.unwrap() {
                rows.push(row);
            }
            assert_eq!(scanner.opened(), opened, "{condition} {limit}");
            assert!(rows.is_sorted_by_key(|it| it.key().cloned()), "{condition}");
            if condition != "id > 100" {
                assert_eq!(rows.len() as u64, limit);
            }
        }
    });
}
