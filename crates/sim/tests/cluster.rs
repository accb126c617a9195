//! The one test of issue 3: a whole server and its clients on one thread, from a seed, with crashes, restarts and power cuts,
//! against the model; the same messages and answers when run twice, here and in another process.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use cadastre_sim::cluster::{ClusterConfig, Outcome, Planted, run};

/// Seeds of `cargo test`. CI runs a hundred with `cargo xtask test sim`; `cargo run -p cadastre-sim --bin sim -- --seeds A..B` runs
/// any.
const SEEDS: std::ops::Range<u64> = 0..12;

/// Seeds that are run again, in this process and in another one.
const SEEDS_TWICE: std::ops::Range<u64> = 0..6;

fn outcome(seed: u64) -> Outcome {
    run(&ClusterConfig::new(seed)).unwrap_or_else(|failure| {
        panic!("{failure}\nreproduce: cargo run -p cadastre-sim --bin sim -- --seed {seed} --trace")
    })
}

#[test]
fn a_server_through_crashes_and_power_cuts_loses_nothing() {
    let (mut checked, mut crashes) = (0, 0);
    for seed in SEEDS {
        let outcome = outcome(seed);
        assert!(outcome.checked > 500, "seed {seed}: {outcome:?}");
        checked += outcome.checked;
        crashes += outcome.crashes;
    }
    assert!(crashes > 10, "{crashes} crashes");
    assert!(checked > 10_000, "{checked} checked");
}

#[test]
fn equal_seeds_give_equal_messages_and_answers() {
    for seed in SEEDS_TWICE {
        let first = outcome(seed).hash;
        assert_eq!(first, outcome(seed).hash, "seed {seed}, in one process");
        let sim = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["--seed", &seed.to_string()])
            .output()
            .expect("the simulator starts");
        let said = String::from_utf8_lossy(&sim.stdout);
        let hash = format!("seed {seed} hash {first:016x}:");
        assert!(
            said.contains(&hash),
            "seed {seed}, in another process: {said}, here {hash}"
        );
    }
}

#[test]
fn acknowledging_before_the_sync_is_found() {
    let found = (1000..1010).any(|seed| {
        let config = ClusterConfig {
            planted: Some(Planted::AcknowledgeBeforeSync),
            ..ClusterConfig::new(seed)
        };
        run(&config).is_err()
    });
    assert!(found, "lost writes were not found in ten seeds");
}
