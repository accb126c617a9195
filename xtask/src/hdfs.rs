//! A pair of real NameNodes for tests and for trying things out: `cargo xtask hdfs up`, and the stage `hdfs` of `cargo xtask test`.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = "tests/hdfs/run.sh";

/// The pair of `cargo xtask hdfs`.
const DIR: &str = "target/hdfs";

/// Pairs of the stage and of the benches, so that they take none that somebody works with.
const STORE_DIR: &str = "target/hdfs-stage";
const SERVER_DIR: &str = "target/hdfs-stage-server";

/// Clients of the stage, of which those that are named together run one after the other: they wait for HDFS most of the time.
const STAGE_CLIENTS: &[&str] = &[
    "java2-zk,rust-zk",
    "java2-rpc,rust-rpc,node",
    "java3-rpc,asynchbase",
];

/// Makes ten thousand puts one after the other, each of them a file on HDFS.
const PYTHON: &str = "python";

/// How long a client may take; Python takes 240 s on two cores that do little else.
const CLIENT_SECONDS: &str = "1200";

pub(crate) const USAGE: &str = "\
  hdfs up                start two NameNodes, an observer and two DataNodes in target/hdfs; prints where, and how to talk to them
  hdfs state|failover    which is active; make the other one active
  hdfs kill|restart|pause|cont|active|standby N     one NameNode, 0 or 1
  hdfs down              stop them and remove their data
  hdfs clients           every client's scenario against a server whose tables lie on a pair of its own";

/// Runs `cargo xtask hdfs …`.
pub(crate) fn command(words: &[&str]) -> Result<(), String> {
    match words {
        ["up"] => {
            crate::tools::ensure()?;
            let [first, second, observer] = free_ports()?;
            up(DIR, [first, second], Some(observer))?;
            println!("cadastre hdfs --conf-dir {DIR}/conf ls hdfs://peer-ns/");
            println!(
                "CADASTRE_HDFS=$PWD/{DIR} cargo test -p cadastre-rpc --test hdfs -- --ignored --nocapture"
            );
            Ok(())
        }
        ["down"] => down(DIR),
        ["clients"] => {
            crate::tools::ensure()?;
            crate::stages::run("release")?;
            on_pair(SERVER_DIR, free_ports()?, None, |dir| {
                clients(dir, &[STAGE_CLIENTS, &[PYTHON]].concat())
            })
        }
        ["state" | "failover"] => script(&[words[0], DIR]),
        [
            what @ ("kill" | "restart" | "pause" | "cont" | "active" | "standby"),
            number @ ("0" | "1"),
        ] => script(&[what, DIR, number]),
        _ => Err(format!("as follows:\n{USAGE}")),
    }
}

/// The tests against real NameNodes, then the clients. Two pairs at the same time, since most of it waits for NameNodes that start.
pub(crate) fn stage() -> Result<(), String> {
    // Once: two at a time would only wait for each other.
    crate::stages::finish(crate::stages::cargo_test(&["--test", "hdfs", "--no-run"]))?;
    let [a, b, observer, c, d]: [u16; 5] = free_ports()?;
    // As long as each other.
    let stores = || {
        on_pair(STORE_DIR, [a, b], Some(observer), |dir| {
            tests(dir, &["real_namenodes", "real_hdfs"])
        })
    };
    let servers = || {
        on_pair(SERVER_DIR, [c, d], None, |dir| {
            tests(dir, &["server_on_hdfs"])?;
            clients(dir, STAGE_CLIENTS)
        })
    };
    std::thread::scope(|scope| {
        let aside = scope.spawn(stores);
        let first = servers();
        let second = aside.join().map_err(|_| "a part panicked".to_owned())?;
        first.and(second)
    })
}

/// Starts a pair, works with it, and stops it whatever came of that.
fn on_pair(
    dir: &str,
    ports: [u16; 2],
    observer: Option<u16>,
    work: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let outcome = up(dir, ports, observer).and_then(|()| work(&here.join(dir)));
    down(dir)?;
    outcome
}

/// The proxy's tests, the object store's, a server's on it, by name. Of the whole workspace for its features, as all stages.
fn tests(dir: &Path, names: &[&str]) -> Result<(), String> {
    let mut tests =
        crate::stages::cargo_test(&["--test", "hdfs", "--", "--ignored", "--nocapture"]);
    tests.args(names).env("CADASTRE_HDFS", dir);
    crate::stages::finish(tests)
}

/// Stock clients' whole scenario, and our own's, against a server whose tables lie on a pair.
fn clients(dir: &Path, groups: &[&str]) -> Result<(), String> {
    let conf = dir.join("conf").display().to_string();
    let rust = crate::stages::scenario()?;
    let server = crate::stages::Server::start(&[
        "--store",
        "hdfs://peer-ns/clients",
        "--hdfs-user",
        "root",
        "--hdfs-conf-dir",
        &conf,
    ])?;
    let run = |only: &str| {
        let mut command = Command::new("bash");
        command
            .arg("tests/clients/run.sh")
            .args(["--zookeeper", &server.zookeeper])
            .args(["--bootstrap", &server.bootstrap])
            .args(["--rust", &rust])
            .args(["--only", only, "--seconds", CLIENT_SECONDS]);
        crate::stages::finish(command)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (groups.iter())
            .map(|only| scope.spawn(|| run(only)))
            .collect();
        let ended = running.into_iter().map(|group| {
            let ended = group.join();
            ended.unwrap_or_else(|_| Err("a group of clients panicked".to_owned()))
        });
        // All of them, whatever came of the first.
        ended.fold(Ok(()), Result::and)
    })
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
    on_pair(SERVER_DIR, free_ports()?, None, |dir| {
        let mut compare = Command::new("bash");
        compare
            .arg("tests/hdfs/bench.sh")
            .arg(dir)
            .arg(format!("{BENCH_TARGET}/release/cadastre-ha-bench"));
        crate::stages::finish(compare)
    })
}

fn up(dir: &str, [first, second]: [u16; 2], observer: Option<u16>) -> Result<(), String> {
    // What a broken run left would take part otherwise.
    down(dir)?;
    let mut command = Command::new("bash");
    command
        .args([SCRIPT, "start", dir])
        .args([first.to_string(), second.to_string()]);
    if let Some(port) = observer {
        command.env("OBSERVER_PORT", port.to_string());
    }
    crate::stages::finish(command)
}

fn down(dir: &str) -> Result<(), String> {
    end(SCRIPT, dir)
}

/// Stops the servers that a script runs in a folder, and removes it.
pub(crate) fn end(script: &str, dir: &str) -> Result<(), String> {
    if !Path::new(dir).exists() {
        return Ok(());
    }
    let mut stop = Command::new("bash");
    stop.args([script, "stop", dir]);
    crate::stages::finish(stop)?;
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
