//! A fault that can be planted into a server is found by a test that exists without it (T10). Run by `cargo xtask test`.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "common/lease.rs"]
mod scenario;

use std::panic::catch_unwind;

use cadastre_store::Planted;

#[test]
fn t10_answers_without_a_lease_are_found() {
    let run = || {
        scenario::run(0, |config| {
            config.planted = Some(Planted::AnswerWithoutLease)
        })
    };
    assert!(catch_unwind(run).is_err(), "not found");
}
