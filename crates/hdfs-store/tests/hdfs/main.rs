//! The object store against two real NameNodes and DataNodes, which `cargo xtask hdfs up` starts (`cargo xtask test hdfs` does it all). One test
//! after the other, since each of them kills or pauses what the next one needs.
//!
//! `CADASTRE_HDFS` names the pair's folder; without it, `target/hdfs`. `CADASTRE_HDFS_ONLY` names the only test to run,
//! `CADASTRE_HDFS_FAILOVERS` how many failovers the load lives through.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[allow(
    dead_code,
    reason = "shared with the proxy's tests, which need all of it"
)]
#[path = "../../../rpc/tests/hdfs/pair.rs"]
mod pair;

mod basics;
mod failover;

/// All of it, in order. Without HDFS there is nothing to test against, so an ordinary test run leaves it out.
#[test]
#[ignore = "needs HDFS: cargo xtask test hdfs"]
fn real_hdfs() {
    pair::run(async |pair| {
        let only = std::env::var("CADASTRE_HDFS_ONLY").ok();
        let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
        let all = basics::ALL.iter().chain(failover::ALL);
        for (name, test) in all.filter(|(name, _)| wanted(name)) {
            let began = pair.now();
            test(pair.clone()).await;
            pair.tell(&format!("{name}: {} ms", (pair.now() - began).as_millis()));
        }
    });
}
