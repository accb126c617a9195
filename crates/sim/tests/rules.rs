//! A rule that changes while a client is cut off (R26 to R31, R71).

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "common/apart.rs"]
mod apart;
#[path = "common/rules.rs"]
mod scenario;

use scenario::{Trouble, run};

/// Seeds of each kind of trouble.
const SEEDS: u64 = 5;

fn holds(trouble: Trouble) {
    for seed in 0..SEEDS {
        run(seed, trouble, |_| {}).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn r29_a_client_that_is_cut_off_writes_no_moved_row_to_its_old_place() {
    holds(Trouble::CutOff);
}

#[test]
fn r29_nor_does_one_that_stood_still() {
    holds(Trouble::Stopped);
}

#[test]
fn r71_what_is_on_its_way_by_the_old_version_is_waited_for() {
    holds(Trouble::Stuck);
}
