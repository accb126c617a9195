//! Each fault that can be planted is found by a test that exists without it, within its seeds (T10). Run by `cargo xtask test`:
//! `cargo test --workspace --features cadastre-sim/planted-faults,cadastre-store/fuzzing --test store t10_`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cadastre_store::Planted;

use crate::scenarios;

/// Seeds within which a fault must show.
const SEEDS: u64 = 5;

/// Runs a history with seeds until it fails.
/// Histories of a fault that shows only when threads meet: the first one finds it, unless the machine has other work.
const RACES: u64 = 50;

fn must_be_found(history: impl Fn(u64)) {
    must_be_found_in(SEEDS, history);
}

fn must_be_found_in(seeds: u64, history: impl Fn(u64)) {
    let found = (0..seeds).any(|seed| catch_unwind(AssertUnwindSafe(|| history(seed))).is_err());
    assert!(found, "not found in {seeds} seeds");
}

#[test]
fn t10_a_missing_fence_is_found() {
    must_be_found(|_| scenarios::deposed_writer(|c| c.planted = Some(Planted::NoFence)));
}

#[test]
fn t10_acknowledging_before_the_sync_is_found() {
    must_be_found(|seed| {
        scenarios::power_cuts(seed, 10, |c| {
            c.planted = Some(Planted::AcknowledgeBeforeSync);
        });
    });
}

#[test]
fn t10_a_cache_filled_without_a_ticket_is_found() {
    must_be_found_in(RACES, |_| {
        scenarios::hot_row(|c| c.planted = Some(Planted::CacheFillWithoutTicket));
    });
}

#[test]
fn t10_a_durable_read_in_an_increment_is_found() {
    must_be_found(|_| scenarios::slow_syncs(|c| c.planted = Some(Planted::DurableReadUnderLock)));
}

#[test]
fn t10_markers_dropped_beside_overflow_are_found() {
    must_be_found(|_| {
        scenarios::markers_beside_overflow(|c| {
            c.planted = Some(Planted::MarkersDroppedBesideOverflow);
        });
    });
}

#[test]
fn t10_lsns_per_log_are_found() {
    must_be_found(|seed| {
        scenarios::moving_cores(seed, |c| c.planted = Some(Planted::LsnsPerLog));
    });
}
