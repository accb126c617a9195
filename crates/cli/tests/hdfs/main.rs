//! A server whose tables lie on HDFS, against two real NameNodes (`cargo xtask test hdfs` starts them): a lost machine, a second server,
//! NameNodes that are killed in turn under load, splits and merges, the active master killed.
//!
//! `CADASTRE_HDFS` names the pair's folder; without it, `target/hdfs`. `CADASTRE_HDFS_ONLY` names the only test to run,
//! `CADASTRE_HDFS_FAILOVERS` how often a NameNode is killed, `CADASTRE_HDFS_KILLS` how often a server.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[allow(
    dead_code,
    reason = "shared with the proxy's tests, which need all of it"
)]
#[path = "../../../rpc/tests/hdfs/pair.rs"]
mod pair;

mod commands;
mod load;
mod masters;
mod regions;
mod server;

use futures::future::BoxFuture;
use pair::Pair;

type Test = fn(Pair) -> BoxFuture<'static, ()>;

const ALL: &[(&str, Test)] = &[
    ("commands", |pair| Box::pin(commands::run(pair))),
    ("server: a lost machine", |pair| {
        Box::pin(server::lost_machine(pair))
    }),
    ("server: taken over", |pair| {
        Box::pin(server::taken_over(pair))
    }),
    ("server: load", |pair| Box::pin(load::run(pair))),
    ("server: split and merged", |pair| {
        Box::pin(regions::run(pair))
    }),
    ("server: the master killed", |pair| {
        Box::pin(masters::run(pair))
    }),
];

/// All of it, in order. Without HDFS there is nothing to test against, so an ordinary test run leaves it out.
#[test]
#[ignore = "needs HDFS: cargo xtask test hdfs"]
fn server_on_hdfs() {
    pair::run(async |pair| {
        let only = std::env::var("CADASTRE_HDFS_ONLY").ok();
        let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
        for (name, test) in ALL.iter().filter(|(name, _)| wanted(name)) {
            let began = pair.now();
            test(pair.clone()).await;
            pair.tell(&format!("{name}: {} ms", (pair.now() - began).as_millis()));
        }
    });
}
