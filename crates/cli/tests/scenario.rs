//! The scenario of `tests/clients` with the Rust client, by both registries, against two region servers. The same program runs against
//! real HBase: `cargo run -p cadastre-client --example scenario`.

#![allow(clippy::unwrap_used, reason = "tests and their helpers")]

mod common;

#[path = "../../client/examples/scenario/checks.rs"]
mod checks;
#[path = "../../client/examples/scenario/steps/mod.rs"]
mod steps;

use cadastre_client::{Client, ClientConfig, Registry};
use cadastre_env::{HostPort, RealEnv, RealEnvConfig};
use cadastre_types::TableName;

use common::Server;

const EXPECTED: &str = include_str!("../../../tests/clients/expected.tsv");

fn scenario(name: &str, registry: impl FnOnce(&Server) -> Registry) {
    let server = Server::start(2);
    let registry = registry(&server);
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let here = env.clone();
    let table = TableName::parse(name).unwrap();
    let done = env.block_on(async move {
        let client = Client::connect(here, registry, ClientConfig::default()).unwrap();
        let checks = steps::run(&client, &table, EXPECTED).await;
        client.close().await;
        checks
    });
    env.shutdown();
    let done = done.expect("the scenario comes to its end");
    let failed: Vec<&String> = done
        .lines
        .iter()
        .filter(|line| line.starts_with("FAIL"))
        .collect();
    assert!(failed.is_empty() && done.failed == 0, "{failed:#?}");
    assert!(done.passed > 80, "{} checks", done.passed);
}

fn address(server: &Server, of: &str) -> HostPort {
    HostPort::parse(server.ready[of].as_str().unwrap()).unwrap()
}

#[test]
fn by_zookeeper() {
    scenario("rust_zk", |server| {
        Registry::ZooKeeper(vec![address(server, "zookeeper")], "/hbase".to_owned())
    });
}

#[test]
fn by_rpc() {
    scenario("rust_rpc", |server| {
        Registry::Rpc(vec![address(server, "master")])
    });
}
