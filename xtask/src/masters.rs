//! Two real HBase masters and a ZooKeeper, for the stage `masters` of `cargo xtask test`: the client's master calls while the active one is killed.

use std::process::Command;

const SCRIPT: &str = "tests/masters/run.sh";

/// The stage's own folder.
const DIR: &str = "target/masters-stage";

/// Starts them, runs the test, and stops them whatever came of it.
pub(crate) fn stage() -> Result<(), String> {
    // What a broken run left would take part otherwise.
    crate::hdfs::end(SCRIPT, DIR)?;
    let ports: [u16; 4] = crate::hdfs::free_ports()?;
    let ports = ports.map(|port| port.to_string());
    let mut start = Command::new("bash");
    start.args([SCRIPT, "start", DIR]).args(ports);
    crate::stages::finish(start)?;
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let mut tests = crate::stages::cargo_test(&["--test", "masters", "active_masters", "--"]);
    tests
        .args(["--ignored", "--nocapture"])
        .env("CADASTRE_MASTERS", here.join(DIR));
    let outcome = crate::stages::finish(tests);
    crate::hdfs::end(SCRIPT, DIR)?;
    outcome
}
