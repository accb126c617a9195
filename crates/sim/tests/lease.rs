//! The read lease (C22).

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "common/apart.rs"]
mod apart;
#[path = "common/lease.rs"]
mod scenario;

#[test]
fn c22_nothing_is_answered_while_the_session_may_be_over() {
    for seed in 0..2 {
        scenario::run(seed, |_| {});
    }
}
