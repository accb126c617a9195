//! `cadastre hdfs …` against two real NameNodes: what each command does, its exit code, and what `--trace` tells of each try.

use std::process::Command;

use crate::pair::{NS, Pair};

/// Exit codes as the manual has them.
const DONE: i32 = 0;
const NOT_FOUND: i32 = 1;
const REFUSED: i32 = 2;
const FAILED: i32 = 3;

struct Ran {
    code: i32,
    out: String,
    trace: String,
}

/// Runs a command; the NameNodes are asked in the order of their names.
fn hdfs(pair: &Pair, words: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cadastre"));
    command.args(["hdfs", "--user", "root", "--trace", "--conf-dir"]);
    command
        .arg(pair.conf_dir())
        .args(["-D", "dfs.client.failover.random.order=false"])
        .args(["-D", &format!("dfs.ha.namenodes.{NS}=nn0,nn1")])
        .args(["-D", "dfs.client.failover.max.attempts=2"])
        .args(words);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: text(output.stdout),
        trace: text(output.stderr),
    }
}

fn done(pair: &Pair, words: &[&str]) -> Ran {
    let ran = hdfs(pair, words);
    assert_eq!(ran.code, DONE, "{words:?}: {}", ran.trace);
    ran
}

pub(crate) async fn run(pair: Pair) {
    if pair.active().await == 0 {
        pair.fail_over().await;
    }
    let [standby, active] = [0, 1].map(|at| pair.address(at).to_string());
    hdfs(&pair, &["rm", "-r", "/commands"]);
    // The first one asked is the standby: each try, its outcome and what was decided are told, and where it ended.
    let trace = done(&pair, &["mkdir", "/commands/d"]).trace;
    for told in [
        format!("try 0 to {standby}"),
        format!("[Standby {standby}"),
        "row 4f, 4g: FailOver".to_owned(),
        format!("failed over from {standby} to {active}"),
        format!("answered by {active} after 1 retries"),
    ] {
        assert!(trace.contains(&told), "'{told}' is not in {trace}");
    }
    assert!(done(&pair, &["ls", "/commands"]).out.ends_with(" d\n"));
    let before = done(&pair, &["--json", "stat", "/commands/d"]).out;
    let before: serde_json::Value = serde_json::from_str(&before).unwrap();
    assert_eq!(before["type"], "directory");
    done(&pair, &["mv", "/commands/d", "/commands/e"]);
    let after = done(&pair, &["--json", "stat", "/commands/e"]).out;
    let after: serde_json::Value = serde_json::from_str(&after).unwrap();
    assert_eq!(after["file_id"], before["file_id"], "the same one");
    assert_eq!(hdfs(&pair, &["stat", "/commands/d"]).code, NOT_FOUND);
    assert_eq!(
        hdfs(&pair, &["mv", "/commands/none", "/commands/x"]).code,
        REFUSED
    );
    // Not empty.
    assert_eq!(hdfs(&pair, &["rm", "/commands"]).code, REFUSED);
    done(&pair, &["rm", "/commands/e"]);
    done(&pair, &["rm", "/commands"]);
    states(&pair, [&standby, &active]).await;
}

/// Who is active is shown, and changed; without anybody the error names both with what they said.
async fn states(pair: &Pair, [standby, active]: [&str; 2]) {
    let state = |at: &str| {
        let all = done(pair, &["haadmin", "state"]).out;
        let line = all.lines().find(|line| line.contains(at)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!(
        (state(standby), state(active)),
        ("standby".into(), "active".into())
    );
    done(pair, &["haadmin", "failover", "nn1", "nn0"]);
    assert_eq!(
        (state(standby), state(active)),
        ("active".into(), "standby".into())
    );
    assert_eq!(pair.active().await, 0);
    done(pair, &["haadmin", "standby", "nn0"]);
    let nobody = hdfs(pair, &["ls", "/"]);
    assert_eq!(nobody.code, FAILED, "{}", nobody.trace);
    let error = nobody.trace.lines().last().unwrap();
    assert!(error.contains(standby) && error.contains(active), "{error}");
    assert!(error.contains("standby"), "{error}");
    done(pair, &["haadmin", "active", "nn1"]);
    assert_eq!(pair.active().await, 1);
}
