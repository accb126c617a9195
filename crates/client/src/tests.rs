//! The client against a small cluster of its own: real sockets and frames, scripted servers that count what they are asked.

mod admin;
mod data;
mod fake;
mod locating;
mod scanning;
mod tiers;
mod zookeeper;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, RealEnv, RealEnvConfig};
use cadastre_types::{Cell, LATEST_TIMESTAMP, TableName};

use self::fake::Cluster;
use crate::{Client, ClientConfig, RetryPolicy};

/// No test takes longer, unless something hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a test with surroundings of its own.
fn run<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(RealEnv) -> F + Send + 'static) {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 2,
        background_threads: 1,
    })
    .unwrap();
    let here = env.clone();
    let done = env.block_on(async move {
        let clock = here.clock().clone();
        clock.timeout(TEST_TIMEOUT, test(here)).await.is_ok()
    });
    env.shutdown();
    assert_eq!(done, Some(true), "panicked or hangs");
}

/// Short pauses and time-outs, so that tests of failures are fast.
fn config() -> ClientConfig {
    ClientConfig {
        retry: RetryPolicy {
            tries_max: 10,
            pause_ms: 1,
            pause_overloaded_ms: 1,
            operation_timeout_ms: 20_000,
            rpc_timeout_ms: 300,
        },
        ..ClientConfig::default()
    }
}

fn client(env: &RealEnv, cluster: &Arc<Cluster>) -> Client<RealEnv> {
    Client::connect(env.clone(), cluster.registry(), config()).unwrap()
}

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

/// A table above `hbase:meta`, for directories of three tiers (L6).
fn root_table() -> TableName {
    table("hbase:root")
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
