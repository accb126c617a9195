//! The one test of issue 3: a whole server and its clients on one thread, from a seed, with crashes, restarts and power cuts,
//! against the model; the same messages and answers when run twice, here and in another process.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use cadastre_sim::cluster::{ClusterConfig, Planted, run};
use cadastre_sim::{FaultRates, Outcome};

/// Seeds of `cargo test`. CI runs a hundred with `cargo xtask test sim`; `cargo run -p cadastre-sim --bin sim -- --seeds A..B` runs
/// any.
const SEEDS: std::ops::Range<u64> = 0..4;

/// Seeds that are run again, in this process and in another one.
const SEEDS_TWICE: std::ops::Range<u64> = 0..2;

fn outcome(seed: u64) -> Outcome {
    run(&ClusterConfig::new(seed)).unwrap_or_else(|failure| {
        panic!("{failure}\nreproduce: cargo run -p cadastre-sim --bin sim -- --seed {seed} --trace")
    })
}

#[test]
fn t1_a_server_through_crashes_and_power_cuts_loses_nothing() {
    let (mut crashes, mut split, mut merged) = (0, 0, 0);
    for seed in SEEDS {
        let outcome = outcome(seed);
        assert!(outcome.checked > 500, "seed {seed}: {outcome:?}");
        crashes += outcome.crashes;
        split += outcome.reshaped.get("split").unwrap_or(&0);
        merged += outcome.reshaped.get("merged").unwrap_or(&0);
    }
    assert!(crashes > 5, "{crashes} crashes");
    // Regions change while it happens (INV-3).
    assert!(split > 5 && merged > 5, "{split} split, {merged} merged");
}

/// Seeds of the tests of one kind of fault.
const SEEDS_OF_ONE_KIND: std::ops::Range<u64> = 2000..2003;

/// Runs the seeds of one kind, in each of which faults happen and the regions change.
fn run_with(rates: &FaultRates) -> Vec<Outcome> {
    let outcomes = SEEDS_OF_ONE_KIND.map(|seed| {
        let config = ClusterConfig {
            rates: rates.clone(),
            ..ClusterConfig::new(seed)
        };
        run(&config).unwrap_or_else(|failure| panic!("{failure}"))
    });
    let outcomes: Vec<Outcome> = outcomes.collect();
    let crashes: usize = outcomes.iter().map(|outcome| outcome.crashes).sum();
    assert!(crashes > 0, "{outcomes:?}");
    for kind in ["split", "merged", "moved"] {
        let times = outcomes
            .iter()
            .filter_map(|outcome| outcome.reshaped.get(kind));
        assert!(times.sum::<u64>() > 0, "nothing was {kind}: {outcomes:?}");
    }
    outcomes
}

/// Answers get lost on the way while the server is killed and regions split, merge and move: increments count once (C7).
#[test]
fn t6_lost_answers_and_kills_count_no_increment_twice() {
    let outcomes = run_with(&FaultRates {
        reset: 4,
        partition: 2,
        crash: 3,
        ..FaultRates::none()
    });
    let counts = outcomes.iter().map(|outcome| &outcome.counters);
    let known = counts.filter_map(|counts| counts.get("cadastre_nonces_known_total"));
    assert!(known.sum::<u64>() > 0, "no try was repeated: {outcomes:?}");
}

/// The wall clock steps by up to an hour both ways between kills: writes go on, a row's timestamps never go back, nothing counts
/// twice, clients find the server again (C7, C8, C23).
#[test]
fn t7_a_stepping_clock_between_kills() {
    run_with(&FaultRates {
        clock_step: 4,
        crash: 2,
        terminate: 1,
        power_cut: 1,
        reset: 1,
        ..FaultRates::none()
    });
}

/// The power goes after syncs that failed, whose bytes the next start could still read (C16, C17).
#[test]
fn t1_failed_syncs_before_power_cuts() {
    run_with(&FaultRates {
        sync_failure: 3,
        power_cut: 3,
        crash: 1,
        ..FaultRates::none()
    });
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
fn t10_acknowledging_before_the_sync_is_found() {
    let found = (1000..1010).any(|seed| {
        let config = ClusterConfig {
            planted: Some(Planted::AcknowledgeBeforeSync),
            ..ClusterConfig::new(seed)
        };
        run(&config).is_err()
    });
    assert!(found, "lost writes were not found in ten seeds");
}
