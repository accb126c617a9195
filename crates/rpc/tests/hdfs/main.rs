//! The proxy against two real NameNodes, which `cargo xtask hdfs up` starts (`cargo xtask test hdfs` does it all). One test after the
//! other, since each of them kills or pauses what the next one needs.
//!
//! `CADASTRE_HDFS` names the pair's folder; without it, `target/hdfs`. `CADASTRE_HDFS_FAILOVERS` is how many the long run makes,
//! `CADASTRE_HDFS_ONLY` names the only one to run (`hammer` is the last).
//! With `CADASTRE_HDFS_YARDSTICK` Hadoop's own client does the same beside ours in the long run.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod hammer;
mod pair;
mod relay;
mod rows;

/// All of it, in order. Without NameNodes there is nothing to test against, so an ordinary test run leaves it out.
#[test]
#[ignore = "needs two NameNodes: cargo xtask test hdfs"]
fn real_namenodes() {
    pair::run(async |pair| {
        let only = std::env::var("CADASTRE_HDFS_ONLY").ok();
        let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
        for (name, test) in rows::ALL.iter().filter(|(name, _)| wanted(name)) {
            let began = pair.now();
            test(pair.clone()).await;
            pair.tell(&format!("{name}: {} ms", (pair.now() - began).as_millis()));
        }
        if wanted("hammer") {
            hammer::run(pair.clone()).await;
        }
    });
}
