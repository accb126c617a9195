//! Callers that go away while their work is under way (C9).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Clock;
use cadastre_types::{Durability, Mutation, MutationKind, Query, TimeRange};
use futures::poll;

use super::*;
use crate::apply;
use crate::testing::{Bench, NONCE_GROUP, on_region, put_now, row};

/// Polls after which an increment of an idle region must have been answered.
const POLLS_MAX: usize = 10_000;

/// Adds to two columns, once.
fn increment(row: &Bytes, nonce: u64) -> Mutation {
    let one = Bytes::copy_from_slice(&1_i64.to_be_bytes());
    Mutation {
        row: row.clone(),
        kind: MutationKind::Increment,
        cells: vec![put_now(row, b"a", &one), put_now(row, b"b", &one)],
        timestamp: cadastre_types::LATEST_TIMESTAMP,
        durability: Durability::SyncWal,
        time_range: TimeRange::ALL,
        nonce,
        return_results: true,
        ttl_ms: None,
    }
}

/// How many cells a row has and whether its nonce is known, under its lock, which must come free.
async fn left_by(bench: &Bench, row: &Bytes, nonce: u64) -> (usize, bool) {
    let hosted = bench.hosted();
    let deadline = bench.terms().deadline;
    let locks = hosted.region.lock_rows([row.clone()].into(), deadline);
    let locks = locks.await.expect("the lock is free");
    let cells = locks.read(row, &Query::default()).await.unwrap();
    let known = locks.nonce(row, NONCE_GROUP, nonce).await.unwrap();
    locks.settle().await.unwrap();
    (cells.len(), known)
}

/// Polls a future so many times at most and drops it; whether it was done by then.
async fn polled(times: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    for _ in 0..times {
        if poll!(future.as_mut()).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[test]
fn c9_a_caller_that_goes_away_stops_no_mutation_half_way() {
    on_region(|bench| async move {
        let mut gone = 0;
        for times in 0..POLLS_MAX {
            let (row, nonce) = (row(times), times as u64 + 1);
            let (env, hosted, terms) = (bench.env.clone(), bench.hosted(), bench.terms());
            let mutation = increment(&row, nonce);
            let call = bench.regions.on_core(hosted.core, move || {
                Box::pin(async move { apply::one(&env, &hosted, mutation, terms).await })
            });
            let answered = polled(times, call).await;
            let mut left = left_by(&bench, &row, nonce).await;
            assert!([(0, false), (2, true)].contains(&left), "{times}: {left:?}");
            // Nobody waits for it, and it is done all the same; but what was never polled has not begun.
            let give_up = bench.terms().deadline;
            while times > 0 && left.0 == 0 && bench.env.clock().mono() < give_up {
                bench.env.clock().sleep(Duration::from_millis(1)).await;
                left = left_by(&bench, &row, nonce).await;
            }
            assert_eq!(
                left,
                if times > 0 { (2, true) } else { (0, false) },
                "{times}"
            );
            if answered {
                break;
            }
            gone += 1;
        }
        assert!((2..POLLS_MAX).contains(&gone), "{gone} callers went away");
    });
}

/// The task itself ends, as on a core that ends: its cells and its nonce are one write.
#[test]
fn c9_a_task_that_ends_anywhere_leaves_all_or_nothing() {
    on_region(|bench| async move {
        let mut ended = 0;
        for times in 0..POLLS_MAX {
            let (row, nonce) = (row(times), times as u64 + 1);
            let (hosted, terms) = (bench.hosted(), bench.terms());
            let work = apply::one(&bench.env, &hosted, increment(&row, nonce), terms);
            let answered = polled(times, work).await;
            // What it had sent to the store happens; this is behind it.
            let behind = Bytes::from_static(b"behind");
            bench.write([behind].into_iter(), &row).await;
            let left = left_by(&bench, &row, nonce).await;
            assert!([(0, false), (2, true)].contains(&left), "{times}: {left:?}");
            if answered {
                break;
            }
            ended += 1;
        }
        assert!((1..POLLS_MAX).contains(&ended), "{ended} tasks ended");
    });
}
