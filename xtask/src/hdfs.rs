//! A pair of real NameNodes for tests and for trying things out: `cargo xtask hdfs up`, and the stage `hdfs` of `cargo xtask test`.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = "tests/hdfs/run.sh";

/// The pair of `cargo xtask hdfs`.
const DIR: &str = "target/hdfs";

/// The pair of the stage, so that it takes none that somebody works with.
const STAGE_DIR: &str = "target/hdfs-stage";

pub(crate) const USAGE: &str = "\
  hdfs up                start two NameNodes and two DataNodes in target/hdfs; prints where, and how to talk to them
  hdfs state|failover    which is active; make the other one active
  hdfs kill|restart|pause|cont|active|standby N     one NameNode, 0 or 1
  hdfs down              stop them and remove their data";

/// Runs `cargo xtask hdfs …`.
pub(crate) fn command(words: &[&str]) -> Result<(), String> {
    match words {
        ["up"] => {
            crate::tools::ensure()?;
            up(DIR)?;
            println!("cadastre hdfs --conf-dir {DIR}/conf ls hdfs://peer-ns/");
            println!(
                "CADASTRE_HDFS=$PWD/{DIR} cargo test -p cadastre-rpc --test hdfs -- --ignored --nocapture"
            );
            Ok(())
        }
        ["down"] => down(DIR),
        ["state" | "failover"] => script(&[words[0], DIR]),
        [
            what @ ("kill" | "restart" | "pause" | "cont" | "active" | "standby"),
            number @ ("0" | "1"),
        ] => script(&[what, DIR, number]),
        _ => Err(format!("as follows:\n{USAGE}")),
    }
}

/// Starts a pair, runs the tests against it, and stops it whatever came of them.
pub(crate) fn stage() -> Result<(), String> {
    up(STAGE_DIR)?;
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let mut tests = Command::new("cargo");
    tests
        .args(["test", "--package", "cadastre-rpc", "--test", "hdfs", "--"])
        .args(["--ignored", "--nocapture"])
        .env("CADASTRE_HDFS", here.join(STAGE_DIR));
    let outcome = crate::stages::finish(tests);
    down(STAGE_DIR)?;
    outcome
}

fn up(dir: &str) -> Result<(), String> {
    // What a broken run left would take part otherwise.
    if Path::new(dir).exists() {
        down(dir)?;
    }
    let [first, second] = free_ports()?;
    script(&["start", dir, &first.to_string(), &second.to_string()])
}

fn down(dir: &str) -> Result<(), String> {
    if !Path::new(dir).exists() {
        return Ok(());
    }
    script(&["stop", dir])?;
    std::fs::remove_dir_all(dir).map_err(|error| format!("{dir}: {error}"))
}

/// Two ports that were free a moment ago. NameNodes must know each other's before they start.
fn free_ports() -> Result<[u16; 2], String> {
    let bind = || TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string());
    let port = |listener: &TcpListener| listener.local_addr().map(|at| at.port());
    let (first, second) = (bind()?, bind()?);
    let ports = [port(&first), port(&second)];
    let [Ok(first), Ok(second)] = ports else {
        return Err("a listener without an address".to_owned());
    };
    Ok([first, second])
}

fn script(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("bash");
    command.arg(SCRIPT).args(args);
    crate::stages::finish(command)
}
