//! The stages of `test`, in the order in which they build on each other.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// All stages of `test`.
pub(crate) const ALL: &[&str] = &[
    "house",
    "unit",
    "long",
    "release",
    "sim",
    "fuzz",
    "tools",
    "connections",
    "clients",
    "suite",
    "kill",
    "hdfs",
    "masters",
];

/// Seeds of the whole-server simulation in CI, and of the store's alone. Shared out among the cores: a simulation is one thread.
const SIM_SEEDS: usize = 100;
const STORE_SEEDS: usize = 500;

/// Each of the store's histories is shorter than the usual one: many beginnings find more than long middles.
const STORE_HISTORY: &[&str] = &[
    "--store",
    "--quiet",
    "--operations",
    "2000",
    "--faults-for",
    "2",
];

/// Rounds of `kill -9` in CI, how many servers share them, and the bound in seconds. The whole thousand: tests/kill/run.sh --rounds 1000.
const KILL_ROUNDS: &str = "100";
const KILL_LANES: &str = "2";
const KILL_SECONDS: &str = "240";

/// Random rules and conditions of each of two kinds against brute force, in a build for tests: 40 s on two cores. More by command:
/// `CADASTRE_RULE_CASES=1000000 cargo test --release -p cadastre-sharding --lib r50_enumeration`.
const RULE_CASES: &str = "100000";

/// Random rules under which a sharded table is compared with a plain one on a server: some 50 s on two cores.
const SHARDED_CASES: &str = "32";

/// Puts and increments of the one row of T5.
const HOT_ROW_OPERATIONS: &str = "200000";

/// Random histories of the read path.
const MODEL_CASES: &str = "24";

/// How long tables are killed and directories damaged in CI, each, in seconds. All damages: tests/cluster/recovery.sh --all.
const RECOVERY_SECONDS: &str = "15";

const BINARY: &str = "target/release/cadastre";

/// Of the whole workspace even where one package is tested: with other packages the dependencies have other features, and SlateDB
/// is compiled again. Always with the faults that can be planted and with the decoders for fuzzing, so that one build does for all tests.
const WORKSPACE: &[&str] = &[
    "--workspace",
    "--quiet",
    "--features",
    "cadastre-sim/planted-faults,cadastre-store/fuzzing",
];

/// `cargo test`, of what `more` selects.
pub(crate) fn cargo_test(more: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("test").args(WORKSPACE).args(more);
    command
}

/// The Rust client's part of `tests/clients`.
const SCENARIO: &str = "target/debug/examples/scenario";

pub(crate) fn run(name: &str) -> Result<(), String> {
    match name {
        "house" => house(),
        "unit" => finish(cargo_test(&[])),
        "long" => long(),
        "release" => cargo(&["build", "--release", "--package", "cadastre-cli"]),
        "sim" => sim(),
        "fuzz" => fuzz_targets(),
        "tools" => crate::tools::ensure(),
        "connections" => {
            script("tests/cluster/connections.sh", &["--binary", BINARY])?;
            script(
                "tests/cluster/recovery.sh",
                &["--binary", BINARY, "--seconds", RECOVERY_SECONDS],
            )
        }
        "clients" => clients(),
        "suite" => suite(),
        "kill" => kill(),
        "hdfs" => crate::hdfs::stage(),
        "masters" => crate::masters::stage(),
        _ => Err("unknown".to_owned()),
    }
}

fn house() -> Result<(), String> {
    // The quickest first.
    crate::house::check()?;
    cargo(&["fmt", "--all", "--check"])?;
    let mut clippy = Command::new("cargo");
    clippy
        .arg("clippy")
        .args(WORKSPACE)
        .args(["--all-targets", "--", "-D", "warnings"]);
    finish(clippy)?;
    let mut doc = Command::new("cargo");
    doc.args(["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings");
    finish(doc)
}

pub(crate) fn fix() -> Result<(), String> {
    cargo(&["fmt", "--all"])?;
    let output = Command::new("cargo")
        .args([
            "run",
            "--quiet",
            "--package",
            "cadastre-cli",
            "--",
            "docs-configuration",
        ])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    std::fs::write("docs/configuration.md", output.stdout).map_err(|error| error.to_string())
}

pub(crate) fn bench() -> Result<(), String> {
    cargo(&["build", "--release", "--package", "cadastre-cli"])?;
    script(
        "benches/hbase/compare.sh",
        &["--binary", BINARY, "--out", "target/bench"],
    )
}

pub(crate) fn bench_rules(group: &[&str]) -> Result<(), String> {
    let mut args = vec!["bench", "--manifest-path", "benches/rules/Cargo.toml"];
    args.extend(["--target-dir", "target/rules", "--"]);
    args.extend_from_slice(group);
    cargo(&args)
}

pub(crate) fn bench_store_parts(group: &[&str]) -> Result<(), String> {
    let mut args = vec!["run", "--release", "--manifest-path"];
    args.extend(["benches/store/Cargo.toml", "--target-dir", "target/store"]);
    // Without it criterion takes itself for a test.
    args.extend(["--", "--bench"]);
    args.extend_from_slice(group);
    cargo(&args)
}

pub(crate) fn bench_store(group: &[&str]) -> Result<(), String> {
    let mut args = vec![
        "bench",
        "--package",
        "cadastre-store",
        "--bench",
        "cost",
        "--",
    ];
    args.extend_from_slice(group);
    cargo(&args)
}

/// The long forms of tests that `unit` has short: T5, the read path against its model, enumeration against brute force,
/// sharded tables against plain ones.
fn long() -> Result<(), String> {
    let long: [(&[&str], &str, &str); 4] = [
        (
            &["--test", "store", "crash::t5_"],
            "CADASTRE_T5_OPERATIONS",
            HOT_ROW_OPERATIONS,
        ),
        (
            &["--test", "store", "model::reads_"],
            "CADASTRE_MODEL_CASES",
            MODEL_CASES,
        ),
        (
            &["--lib", "r50_enumeration"],
            "CADASTRE_RULE_CASES",
            RULE_CASES,
        ),
        (
            &["--test", "sharded", "random::"],
            "CADASTRE_SHARDED_CASES",
            SHARDED_CASES,
        ),
    ];
    for (what, variable, value) in long {
        let mut command = cargo_test(what);
        command.env(variable, value);
        finish(command)?;
    }
    Ok(())
}

/// A command that leaves the processor to others: it runs beside clients that wait for answers.
fn aside(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program);
    command
}

/// Whether the fuzz targets, which are no part of the workspace, fit what they call. Nothing is linked, so that neither a nightly compiler nor
/// libFuzzer (C++) is needed: its build script is told of a library that nobody looks for.
fn fuzz_targets() -> Result<(), String> {
    let mut check = aside("cargo");
    check
        .args(["check", "--quiet", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--target-dir", "target/fuzz"])
        .env("CUSTOM_LIBFUZZER_PATH", "target/fuzz/libfuzzer.a");
    finish(check)
}

/// The simulated seeds, by the program that the unit tests have made: with its own tests, since without those the dependencies would have
/// other features, and SlateDB be compiled again.
fn sim() -> Result<(), String> {
    finish(cargo_test(&["--no-run", "--test", "storage"]))?;
    seeds(&[], SIM_SEEDS)?;
    seeds(STORE_HISTORY, STORE_SEEDS)
}

/// Seeds of one kind, a part of them on each core.
fn seeds(kind: &[&str], count: usize) -> Result<(), String> {
    let sim = std::env::current_exe()
        .map_err(|error| error.to_string())?
        .with_file_name("sim");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let part = count.div_ceil(cores);
    let mut running = Vec::new();
    for from in (0..count).step_by(part) {
        let seeds = format!("{from}..{}", (from + part).min(count));
        let mut command = aside(&sim);
        command.args(kind).args(["--seeds", &seeds]);
        println!("$ {command:?}");
        running.push((seeds, command.spawn().map_err(|error| error.to_string())?));
    }
    let mut failed = Vec::new();
    for (seeds, mut child) in running {
        if !child.wait().map_err(|error| error.to_string())?.success() {
            failed.push(seeds);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("of the seeds {}, some failed", failed.join(", ")))
    }
}

/// Real clients and our own against a server of ours; then our own client and commands against HBase itself, sharded tables over both; last
/// caches that are placed by rule, and rules from another language.
fn clients() -> Result<(), String> {
    // The program of the Rust client, once for both.
    let scenario = scenario()?;
    {
        let server = Server::start(&["--region-servers", "2"])?;
        script(
            "tests/clients/run.sh",
            &[
                "--zookeeper",
                &server.zookeeper,
                "--bootstrap",
                &server.bootstrap,
                "--rust",
                &scenario,
            ],
        )?;
    }
    script(
        "tests/clients/hbase.sh",
        &["--binary", BINARY, "--rust", &scenario],
    )?;
    // Cache rules against real memcached and Redis; rules as WebAssembly, from Node.
    finish(cargo_test(&[
        "--test",
        "caches",
        "--test",
        "node",
        "--",
        "--ignored",
    ]))
}

/// The Rust client's program, from the build for tests: an optimised one takes minutes more to compile than to run.
pub(crate) fn scenario() -> Result<String, String> {
    cargo(&[&["build"], WORKSPACE, &["--example", "scenario"]].concat())?;
    let path = std::path::absolute(Path::new(SCENARIO)).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}

/// Rounds of `kill -9`; before them what judges them is itself tried, on faulty histories.
fn kill() -> Result<(), String> {
    const RUN: &str = "tests/kill/run.sh";
    script(RUN, &["--self-test"])?;
    let mut args = vec!["--binary", BINARY, "--rounds", KILL_ROUNDS];
    args.extend(["--lanes", KILL_LANES, "--max-seconds", KILL_SECONDS]);
    script(RUN, &args)
}

/// HBase's own tests, then every method of Java's `Admin` and `Table` once.
fn suite() -> Result<(), String> {
    {
        let server = Server::start(&[])?;
        script(
            "tests/hbase-suite/check.sh",
            &[&server.zookeeper, &server.bootstrap],
        )?;
    }
    let server = Server::start(&[])?;
    script("tests/admin/run.sh", &[&server.zookeeper])
}

fn cargo(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(args);
    finish(command)
}

fn script(path: &str, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("bash");
    command.arg(path).args(args);
    finish(command)
}

pub(crate) fn finish(mut command: Command) -> Result<(), String> {
    println!("$ {command:?}");
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} ended with {status}"))
    }
}

/// A server on free ports and a folder of its own; both go when this is dropped.
pub(crate) struct Server {
    child: Child,
    data: PathBuf,
    pub(crate) zookeeper: String,
    pub(crate) bootstrap: String,
}

impl Server {
    pub(crate) fn start(more: &[&str]) -> Result<Self, String> {
        let data = std::env::temp_dir().join(format!("cadastre-xtask-{}", std::process::id()));
        if data.exists() {
            std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
        }
        let ports = [
            "zookeeper-port",
            "master-port",
            "region-server-port",
            "admin-port",
        ];
        let mut command = Command::new(Path::new(BINARY));
        command
            .args(["start", "--json", "--log", "warn", "--data"])
            .arg(&data)
            .args(more);
        for port in ports {
            command.args([format!("--{port}"), "0".to_owned()]);
        }
        println!("$ {command:?}");
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{BINARY}: {error}"))?;
        let mut line = String::new();
        let out = child
            .stdout
            .take()
            .ok_or("the server has no standard output")?;
        BufReader::new(out)
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        let ready: Value = serde_json::from_str(&line)
            .map_err(|_| format!("the server's first line is not its ready line: '{line}'"))?;
        let place = |value: &Value| {
            value
                .as_str()
                .map(str::to_owned)
                .ok_or("no address in the ready line")
        };
        let zookeeper = place(&ready["zookeeper"])?;
        let bootstrap = place(&ready["region_servers"][0])?;
        Ok(Self {
            child,
            data,
            zookeeper,
            bootstrap,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // SIGTERM, so that the orderly stop is tried, too; what fails here shows in the log only.
        let _ = Command::new("kill").arg(&pid).status();
        match self.child.wait() {
            Ok(status) if status.success() => {}
            status => eprintln!("xtask: the server did not stop cleanly: {status:?}"),
        }
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
