//! The scenario of `tests/clients` with the Rust client, against any server that speaks HBase's protocol:
//!
//!     cargo run -p cadastre-client --example scenario -- --registry zk --zookeeper HOST:PORT --bootstrap HOST:PORT \\
//!         --table PREFIX --expected tests/clients/expected.tsv
//!
//! It prints a line for each check and a count, as the other programs of `tests/clients` do. The exit code is 0 if all passed.

#![allow(clippy::print_stdout, reason = "the program's answer")]

use std::collections::BTreeMap;
use std::process::ExitCode;

use cadastre_client::{Client, ClientConfig, Registry};
use cadastre_env::{HostPort, RealEnv, RealEnvConfig};
use cadastre_types::TableName;

mod checks;
mod steps;

fn main() -> ExitCode {
    let mut options = BTreeMap::new();
    let mut words = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        options.insert(name, value);
    }
    let wanted = |name: &str| {
        options
            .get(name)
            .cloned()
            .unwrap_or_else(|| panic!("{name} is missing"))
    };
    let servers = |name: &str| -> Vec<HostPort> {
        wanted(name)
            .split(',')
            .map(|text| HostPort::parse(text).expect("host:port"))
            .collect()
    };
    let expected = std::fs::read_to_string(wanted("--expected")).expect("the list of checks");
    let table = TableName::parse(&wanted("--table")).expect("a table's name");
    let registry = match wanted("--registry").as_str() {
        "zk" => Registry::ZooKeeper(servers("--zookeeper"), "/hbase".to_owned()),
        "rpc" => Registry::Rpc(servers("--bootstrap")),
        other => panic!("--registry {other} is neither zk nor rpc"),
    };
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: std::env::temp_dir(),
        cores: 1,
        background_threads: 1,
    })
    .expect("threads");
    let here = env.clone();
    let done = env.block_on(async move {
        let client = Client::connect(here, registry, ClientConfig::default()).expect("sound");
        let checks = steps::run(&client, &table, &expected).await;
        client.close().await;
        checks
    });
    env.shutdown();
    let done = done.expect("the scenario comes to its end");
    for line in &done.lines {
        println!("{line}");
    }
    println!("{} passed, {} failed", done.passed, done.failed);
    ExitCode::from(u8::from(done.failed > 0))
}
