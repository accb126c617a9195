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
  hdfs up                start two NameNodes, an observer and two DataNodes in target/hdfs; prints where, and how to talk to them
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
    // The proxy's, the object store's, and a server's on it.
    let mut tests = crate::stages::cargo_test(&["--test", "hdfs", "--"]);
    tests
        .args(["--ignored", "--nocapture"])
        .env("CADASTRE_HDFS", here.join(STAGE_DIR));
    let outcome = crate::stages::finish(tests).and_then(|()| clients(&here.join(STAGE_DIR)));
    down(STAGE_DIR)?;
    outcome
}

/// A stock client's whole scenario against a server whose tables lie on the pair. All clients: tests/clients/run.sh by hand.
fn clients(dir: &Path) -> Result<(), String> {
    let conf = dir.join("conf").display().to_string();
    let server = crate::stages::Server::start(&[
        "--store",
        "hdfs://peer-ns/clients",
        "--hdfs-user",
        "root",
        "--hdfs-conf-dir",
        &conf,
    ])?;
    let mut command = Command::new("bash");
    command
        .arg("tests/clients/run.sh")
        .args(["--zookeeper", &server.zookeeper])
        .args(["--bootstrap", &server.bootstrap])
        .args(["--only", "java2-zk"]);
    crate::stages::finish(command)
}

/// Where the benches of the HA proxy are compiled to.
const BENCH_TARGET: &str = "target/ha";

/// What the proxy costs by itself; then both clients at a pair of their own.
pub(crate) fn bench() -> Result<(), String> {
    let cargo = |command: &str| {
        let mut cargo = Command::new("cargo");
        cargo
            .args([command, "--manifest-path", "benches/ha/Cargo.toml"])
            .args(["--target-dir", BENCH_TARGET]);
        cargo
    };
    crate::stages::finish(cargo("bench"))?;
    let mut build = cargo("build");
    build.arg("--release");
    crate::stages::finish(build)?;
    up(STAGE_DIR)?;
    let mut compare = Command::new("bash");
    compare
        .args(["tests/hdfs/bench.sh", STAGE_DIR])
        .arg(format!("{BENCH_TARGET}/release/cadastre-ha-bench"));
    let outcome = crate::stages::finish(compare);
    down(STAGE_DIR)?;
    outcome
}

fn up(dir: &str) -> Result<(), String> {
    // What a broken run left would take part otherwise.
    if Path::new(dir).exists() {
        down(dir)?;
    }
    let [first, second, observer]: [u16; 3] = free_ports()?;
    let mut command = Command::new("bash");
    command
        .args([SCRIPT, "start", dir])
        .args([first.to_string(), second.to_string()])
        .env("OBSERVER_PORT", observer.to_string());
    crate::stages::finish(command)
}

fn down(dir: &str) -> Result<(), String> {
    if !Path::new(dir).exists() {
        return Ok(());
    }
    script(&["stop", dir])?;
    std::fs::remove_dir_all(dir).map_err(|error| format!("{dir}: {error}"))
}

/// Ports that were free a moment ago, for servers that must know each other's before they start.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N], String> {
    let bind = |_| TcpListener::bind("127.0.0.1:0");
    let port = |listener: &TcpListener| listener.local_addr().map(|at| at.port());
    let bound: Result<Vec<TcpListener>, _> = (0..N).map(bind).collect();
    let bound = bound.map_err(|error| error.to_string())?;
    let ports: Result<Vec<u16>, _> = bound.iter().map(port).collect();
    let ports = ports.map_err(|error| error.to_string())?;
    ports
        .try_into()
        .map_err(|_| "as many as were bound".to_owned())
}

fn script(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("bash");
    command.arg(SCRIPT).args(args);
    crate::stages::finish(command)
}
