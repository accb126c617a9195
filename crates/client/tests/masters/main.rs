//! Two real HBase masters, of which the active one is killed again and again (`kill -9`) while callers create tables: each table is made once, or
//! reported unknown, and the client finds the new active master by ZooKeeper and by the RPC registry.
//!
//! `cargo xtask test masters` starts them (`tests/masters/run.sh`). `CADASTRE_MASTERS` names their folder, `CADASTRE_MASTERS_KILLS` is how many
//! are killed.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cadastre_client::Client;
use cadastre_env::{Env, RealEnv};
use cadastre_types::{Code, ErrorKind, FamilyDescriptor, TableDescriptor, TableName, TableState};
use tokio::sync::mpsc;

use cluster::Cluster;

/// Callers by each registry.
const WORKERS: usize = 3;

/// Masters that are killed in CI.
const KILLS: u32 = 1;

/// Tables that each registry's callers make between two kills at least.
const BETWEEN: u64 = 4;

/// What became of the tables.
#[derive(Default)]
struct Counts {
    done: AtomicU64,
    longest_ms: AtomicU64,
    made: Mutex<BTreeSet<String>>,
    unknown: Mutex<BTreeSet<String>>,
    refused: Mutex<BTreeSet<String>>,
    wrong: Mutex<Vec<String>>,
}

struct Worker {
    cluster: Cluster,
    client: Client<RealEnv>,
    name: String,
    counts: Arc<Counts>,
}

impl Worker {
    async fn work(self, stop: Arc<AtomicBool>) {
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("{}_{number}", self.name);
            let table = TableDescriptor::new(TableName::parse(&name).unwrap())
                .with_family(FamilyDescriptor::new("f"));
            let began = self.cluster.now();
            let outcome = self.client.admin().create_table(&table, Vec::new()).await;
            let took = (self.cluster.now() - began).as_millis() as u64;
            self.counts.longest_ms.fetch_max(took, Ordering::Relaxed);
            match outcome {
                Ok(()) => {
                    self.counts.made.lock().unwrap().insert(name);
                    self.counts.done.fetch_add(1, Ordering::Relaxed);
                }
                // Or it was begun, and is not done yet: a region server of HBase that did not reach the master while there was none waits
                // up to 200 s before it reports the region again.
                Err(error) if matches!(error.code(), Code::OutcomeUnknown | Code::TimeoutIo) => {
                    self.cluster.tell(&format!("unknown: {name}: {error}"));
                    self.counts.unknown.lock().unwrap().insert(name);
                }
                // Nobody began it in the time there was.
                Err(error) if error.kind() == ErrorKind::Failover => {
                    self.counts.refused.lock().unwrap().insert(name);
                }
                // A table that exists was made by an earlier try: twice.
                Err(error) => {
                    let text = format!("{name}: {error}");
                    self.counts.wrong.lock().unwrap().push(text);
                }
            }
        }
    }
}

/// Callers by one registry.
struct Side {
    name: &'static str,
    client: Client<RealEnv>,
    counts: Arc<Counts>,
}

impl Side {
    fn done(&self) -> u64 {
        self.counts.done.load(Ordering::Relaxed)
    }
}

/// Waits until both sides have made so many tables more than now.
async fn more(cluster: &Cluster, sides: &[Side], tables: u64) {
    let wanted: Vec<u64> = sides.iter().map(|side| side.done() + tables).collect();
    while (sides.iter().zip(&wanted)).any(|(side, wanted)| side.done() < *wanted) {
        cluster.sleep(20).await;
        for side in sides {
            let wrong = side.counts.wrong.lock().unwrap();
            assert!(wrong.is_empty(), "{}: {wrong:#?}", side.name);
        }
    }
}

async fn kill_masters(cluster: &Cluster, sides: &[Side]) {
    let kills = std::env::var("CADASTRE_MASTERS_KILLS");
    let kills = kills.map_or(KILLS, |text| text.parse().unwrap());
    for round in 0..kills {
        more(cluster, sides, BETWEEN).await;
        let active = cluster.active(&sides[0].client).await;
        let began = cluster.now();
        cluster.script("kill", active).await;
        // Each caller has at least one that began after the kill.
        more(cluster, sides, 2 * WORKERS as u64).await;
        let took = (cluster.now() - began).as_millis();
        assert_ne!(cluster.active(&sides[1].client).await, active);
        cluster.tell(&format!(
            "kill {round}: master {active}, tables by both registries again within {took} ms"
        ));
        cluster.script("restart", active).await;
        while cluster.backups(&sides[0].client).await == 0 {
            cluster.sleep(100).await;
        }
    }
}

async fn run(cluster: Cluster) {
    let mut sides = Vec::new();
    for (name, registry) in cluster.registries() {
        sides.push(Side {
            name,
            client: cluster.client(registry),
            counts: Arc::default(),
        });
    }
    let stop: Arc<AtomicBool> = Arc::default();
    let (ended, mut ends) = mpsc::channel::<()>(1);
    for side in &sides {
        for at in 0..WORKERS {
            let worker = Worker {
                cluster: cluster.clone(),
                client: side.client.clone(),
                name: format!("{}_{}_{at}", side.name, cluster.run),
                counts: Arc::clone(&side.counts),
            };
            let (stop, ended) = (Arc::clone(&stop), ended.clone());
            cluster.env.spawn("worker", async move {
                worker.work(stop).await;
                drop(ended);
            });
        }
    }
    drop(ended);
    kill_masters(&cluster, &sides).await;
    stop.store(true, Ordering::Relaxed);
    // Ends when the last worker has dropped its end.
    assert!(ends.recv().await.is_none());
    for side in &sides {
        check(&cluster, side).await;
    }
}

/// Every table that was told to be made is there, once, and serves; no other is.
async fn check(cluster: &Cluster, side: &Side) {
    let wrong = side.counts.wrong.lock().unwrap().clone();
    assert!(wrong.is_empty(), "{}: {wrong:#?}", side.name);
    let made = side.counts.made.lock().unwrap().clone();
    let unknown = side.counts.unknown.lock().unwrap().clone();
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    for table in side.client.admin().list_tables(false).await.unwrap() {
        let name = table.name.to_string();
        if name.starts_with(&format!("{}_{}_", side.name, cluster.run)) {
            *found.entry(name).or_default() += 1;
        }
    }
    for name in &made {
        assert_eq!(found.get(name), Some(&1), "{name} was made");
        let table = TableName::parse(name).unwrap();
        let state = side.client.table_state(&table).await.unwrap();
        assert_eq!(state, Some(TableState::Enabled), "{name}");
        let regions = side.client.admin().table_regions(&table).await.unwrap();
        assert_eq!(regions.len(), 1, "{name}");
    }
    for name in found.keys() {
        assert!(made.contains(name) || unknown.contains(name), "{name}");
    }
    cluster.tell(&format!(
        "by {}: {} tables made, {} unknown, {} refused, longest {} ms",
        side.name,
        made.len(),
        unknown.len(),
        side.counts.refused.lock().unwrap().len(),
        side.counts.longest_ms.load(Ordering::Relaxed)
    ));
}

/// Without masters there is nothing to kill, so an ordinary test run leaves it out.
#[test]
#[ignore = "needs two HBase masters: cargo xtask test masters"]
fn active_masters_are_killed() {
    Cluster::run(run);
}
