//! The store alone through crashes, power cuts, failing syncs, a full disk, late writes of dead processes and steps of the clock, against
//! the model (issue 4: simulated). Any seeds: `cargo run -p cadastre-sim --bin sim -- --store --seeds A..B`.

#![allow(clippy::unwrap_used, reason = "a test")]

use cadastre_sim::Outcome;
use cadastre_sim::storage::{StorageConfig, run};

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
