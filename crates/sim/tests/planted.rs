//! A fault that can be planted into a server is found by a test that exists without it (T10). Run by `cargo xtask test`.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "common/apart.rs"]
mod apart;
#[path = "common/lease.rs"]
mod lease;
#[path = "common/rules.rs"]
mod rules;

use std::panic::catch_unwind;

use cadastre_store::Planted;
use rules::Trouble;

#[test]
fn t10_answers_without_a_lease_are_found() {
    let run = || {
        lease::run(0, |config| {
            config.planted = Some(Planted::AnswerWithoutLease)
        })
    };
    assert!(catch_unwind(run).is_err(), "not found");
}

/// Seeds within which a fault of the sharded client must be found.
const SEEDS: u64 = 10;

fn is_found(trouble: Trouble, tune: rules::Tune) {
    let found = (0..SEEDS).filter_map(|seed| rules::run(seed, trouble, tune).err());
    let found = found.map(|it| it.lines().last().unwrap_or_default().to_owned());
    let first = found.into_iter().next();
    let first = first.unwrap_or_else(|| panic!("not found in {SEEDS} seeds of {trouble:?}"));
    assert!(first.contains("row"), "something else was found: {first}");
}

#[test]
fn t10_a_client_that_writes_without_a_session_is_found() {
    is_found(Trouble::Stopped, |config| {
        config.planted = Some(cadastre_client::Planted::ServeWithoutLease);
    });
}

#[test]
fn t10_a_version_that_is_acknowledged_too_early_is_found() {
    is_found(Trouble::Stuck, |config| {
        config.planted = Some(cadastre_client::Planted::AcknowledgeAtOnce);
    });
}

#[test]
fn t10_rows_that_move_and_are_not_held_are_found() {
    is_found(Trouble::CutOff, |config| {
        config.planted = Some(cadastre_client::Planted::HoldNothing);
    });
}
