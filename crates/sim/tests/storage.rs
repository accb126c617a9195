//! The store alone through crashes, power cuts, failing syncs, a full disk, late writes of dead processes and steps of the clock, against
//! the model (issue 4: simulated). Any seeds: `cargo run -p cadastre-sim --bin sim -- --store --seeds A..B`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_sim::storage::{StorageConfig, run};
use cadastre_sim::{Bucket, BucketConfig, Fault, Outcome, SimEnv, World, WorldConfig};
use cadastre_store::{Region, RegionSpec, Store, StoreConfig};
use cadastre_types::{Cell, Durability, FamilyDescriptor, RegionInfo, TableDescriptor, TableName};
use object_store::ObjectStore;
use rand::Rng as _;

/// Seeds of `cargo test`.
const SEEDS: std::ops::Range<u64> = 0..8;

/// Seeds that are run again.
const SEEDS_TWICE: std::ops::Range<u64> = 0..3;

fn outcome(seed: u64) -> Outcome {
    run(&StorageConfig::new(seed)).unwrap_or_else(|failure| {
        panic!("{failure}\nreproduce: cargo run -p cadastre-sim --bin sim -- --store --seed {seed} --trace")
    })
}

#[test]
fn t1_a_store_through_every_fault_loses_nothing() {
    let (mut checked, mut crashes) = (0, 0);
    for seed in SEEDS {
        let outcome = outcome(seed);
        assert!(outcome.checked > 2_000, "seed {seed}: {outcome:?}");
        checked += outcome.checked;
        crashes += outcome.crashes;
    }
    assert!(crashes > 5, "{crashes} crashes");
    assert!(checked > 20_000, "{checked} checked");
}

#[test]
fn equal_seeds_do_the_same() {
    for seed in SEEDS_TWICE {
        assert_eq!(outcome(seed).hash, outcome(seed).hash, "seed {seed}");
    }
}

#[test]
fn t10_acknowledging_before_the_sync_is_found() {
    let found = (1000..1010).any(|seed| {
        let config = StorageConfig {
            acknowledge_before_sync: true,
            ..StorageConfig::new(seed)
        };
        run(&config).is_err()
    });
    assert!(found, "lost writes were not found in ten seeds");
}

/// How soon a region closes under a compaction that has just begun, in simulated time: some calls of a bucket whose every leg takes up
/// to 200 ms.
const CLOSES_WITHIN: Duration = Duration::from_secs(20);

/// A compactor that is asked to stop before it has registered its tasks does not hear it (facts/simulation.md section 7), and a close waits
/// for it: asked again, it ends.
#[test]
fn a_region_closes_soon_under_a_compaction_that_has_just_begun() {
    for seed in 500..520 {
        let mut world = World::new(seed, WorldConfig::default());
        let config = BucketConfig {
            leg: Duration::from_millis(5)..=Duration::from_millis(200),
            ..BucketConfig::default()
        };
        let bucket = Bucket::new(&world, "slow", config);
        let closed = Arc::new(Mutex::new(None));
        let tell = Arc::clone(&closed);
        let node = world.add_node("store", move |env| {
            let (bucket, tell) = (bucket.clone(), Arc::clone(&tell));
            Box::pin(async move {
                let region = filled(&env, Arc::new(bucket.store(&env))).await;
                let compacted = region.clone();
                env.spawn("compaction", async move {
                    // Done, or told that the region closes.
                    let _ = compacted.compact(true).await;
                });
                let pause = env.rng("pause").random_range(0..200);
                env.clock().sleep(Duration::from_millis(pause)).await;
                let begun = env.clock().mono();
                region.close().await.unwrap();
                *tell.lock().unwrap() = Some(env.clock().mono() - begun);
            })
        });
        world.apply(&Fault::Start { node });
        world.run_for(Duration::from_secs(120)).unwrap();
        let took = closed.lock().unwrap().expect("it closes");
        assert!(took < CLOSES_WITHIN, "seed {seed}: {took:?}");
    }
}

/// A region with some files, which nobody compacts unasked.
async fn filled(env: &SimEnv, objects: Arc<dyn ObjectStore>) -> Region<SimEnv> {
    let config = StoreConfig {
        low_space_bytes: 0,
        segment_bytes: 1 << 20,
        compact_at_files: 64,
        ..StoreConfig::new(64 << 20)
    };
    let store = Store::open(env.clone(), objects, config).await.unwrap();
    let name = TableName::parse("t").unwrap();
    let mut family = FamilyDescriptor::new("f");
    family.id = 1;
    let spec = RegionSpec {
        info: RegionInfo::new(name.clone(), Bytes::new(), Bytes::new(), 1),
        descriptor: Arc::new(TableDescriptor::new(name).with_family(family)),
        expected_epoch: None,
    };
    let region = store.open_region(spec).await.unwrap();
    for version in 1..=3 {
        let row = Bytes::from_static(b"row");
        let (family, column) = (Bytes::from_static(b"f"), Bytes::from_static(b"q"));
        let cell = Cell::put(row.clone(), family, column, version, row.clone());
        let deadline = env.clock().mono() + Duration::from_secs(10);
        let locks = region.lock_rows([row].into(), deadline).await.unwrap();
        let written = locks.write(vec![cell], &[], Durability::SyncWal);
        written.await.unwrap();
        region.flush().await.unwrap();
    }
    region
}
