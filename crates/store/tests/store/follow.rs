//! A region's writes followed through the log: across segment turns, flushes and restarts, each once and in order; and what happens
//! to a follower that falls behind.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::scenarios::{region_spec, run_on, small};
use cadastre_env::{Clock, Env};
use cadastre_store::{Follower, LogBatch, LogChange, Region, Store, StoreConfig};
use cadastre_types::{Code, FamilyDescriptor};
use object_store::ObjectStore;
use object_store::memory::InMemory;

const SEGMENT: u64 = 16 << 10;

fn settings() -> StoreConfig {
    let mut config = small();
    config.segment_bytes = SEGMENT;
    config.segments_max = 2;
    config
}

async fn put_row(env: &FaultEnv, region: &Region<FaultEnv>, n: u64) -> u64 {
    let row = format!("r{n:06}");
    write(env, region, vec![put(&row, "f", "q", 1, &"x".repeat(500))]).await
}

/// Which row a batch wrote.
fn row_of(batch: &LogBatch) -> u64 {
    let [LogChange::Merge { key, .. }] = &batch.changes[..] else {
        panic!("{batch:?}");
    };
    String::from_utf8_lossy(&key[1..7]).parse().unwrap()
}

async fn expect(follower: &mut Follower<FaultEnv>, rows: std::ops::Range<u64>) {
    let mut last = follower.position();
    for n in rows {
        let batch = follower.next().await.unwrap().unwrap();
        assert_eq!(row_of(&batch), n);
        assert!(batch.lsn > last, "in order");
        last = batch.lsn;
        assert_eq!(follower.position(), last);
    }
}

#[test]
fn a_follower_sees_every_write_once_across_segments_and_restarts() {
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut disk = FaultDisk::default();
    let mut position = None;
    let mut next = 0;
    for round in 0..6_u64 {
        let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
        let cores = 1 + (round % 3) as usize;
        (position, next) = run_on(cores, disk.clone(), move |env| async move {
            let store = Store::open(env.clone(), objects, settings()).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            let other = store.open_region(region_spec(&table, 2)).await.unwrap();
            let mut follower = store
                .follow("copy", region.info(), position, 100 * SEGMENT)
                .await
                .unwrap();
            // What came in the last round behind the last confirmed one.
            let behind = if round == 0 { 0 } else { 30 };
            expect(&mut follower, next - behind..next).await;
            for n in next..next + 100 {
                put_row(&env, &region, n).await;
                put_row(&env, &other, n).await;
                if n % 40 == 0 {
                    // Flushed: without the follower these segments would go.
                    region.flush().await.unwrap();
                    other.flush().await.unwrap();
                }
            }
            expect(&mut follower, next..next + 70).await;
            let confirmed = follower.position();
            follower.confirm(confirmed).await.unwrap();
            expect(&mut follower, next + 70..next + 100).await;
            if round % 2 == 0 {
                store.close().await.unwrap();
            }
            (Some(confirmed), next + 100)
        });
        disk = if round % 3 == 0 {
            disk.power_cut(round)
        } else {
            disk.process_ended()
        };
    }
}

#[test]
fn a_follower_waits_for_what_is_durable_and_ends_with_the_region() {
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run_on(2, FaultDisk::default(), move |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let store = Store::open(env.clone(), objects, settings()).await.unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        put_row(&env, &region, 0).await;
        let mut follower = store
            .follow("one", region.info(), None, 10 * SEGMENT)
            .await
            .unwrap();
        let nothing = env
            .clock()
            .timeout(Duration::from_millis(20), follower.next());
        assert!(nothing.await.is_err(), "from now on");
        let ((), sequence) = futures::join!(expect(&mut follower, 1..2), put_row(&env, &region, 1));
        assert!(sequence > 0);
        region.close().await.unwrap();
        store.delete_region(region.info()).await.unwrap();
        assert!(follower.next().await.unwrap().is_none(), "deleted");
        // Before what it confirmed; and what was never registered.
        for name in ["one", "unknown"] {
            let refused = store.follow(name, region.info(), Some(0), SEGMENT).await;
            assert_eq!(refused.unwrap_err().code(), Code::LogTruncated, "{name}");
        }
        let bad_name = store.follow("a b", region.info(), None, SEGMENT).await;
        assert!(bad_name.is_err());
        store.unfollow("one").await.unwrap();
        store.unfollow("one").await.unwrap();
        assert_eq!(follower.next().await.unwrap(), None);
        store.close().await.unwrap();
    });
}

#[test]
fn a_follower_beyond_its_bound_is_told_and_holds_nothing_back() {
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    let position = {
        let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
        run_on(1, disk.clone(), move |env| async move {
            let store = Store::open(env.clone(), objects, settings()).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            let mut slow = store
                .follow("slow", region.info(), None, 3 * SEGMENT)
                .await
                .unwrap();
            let position = slow.position();
            let mut n = 0;
            // Until the log was cut in spite of it.
            let error = loop {
                put_row(&env, &region, n).await;
                n += 1;
                if n % 20 == 0 {
                    region.flush().await.unwrap();
                    let next = env
                        .clock()
                        .timeout(Duration::from_millis(5), async { slow.confirm(0).await });
                    if let Ok(Err(error)) = next.await {
                        break error;
                    }
                    assert!(
                        env.disk.bytes() < 40 * SEGMENT as usize,
                        "held back without end"
                    );
                }
            };
            assert_eq!(error.code(), Code::LogTruncated, "{error}");
            let error = slow.next().await.unwrap_err();
            assert_eq!(error.code(), Code::LogTruncated, "{error}");
            position
        })
    };
    // And so it is after a restart; begun anew it goes on.
    run_on(1, disk.process_ended(), move |env| async move {
        let store = Store::open(env.clone(), objects, settings()).await.unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        let resumed = store.follow("slow", region.info(), Some(position), SEGMENT);
        assert_eq!(resumed.await.unwrap_err().code(), Code::LogTruncated);
        let mut anew = store
            .follow("slow", region.info(), None, 10 * SEGMENT)
            .await
            .unwrap();
        put_row(&env, &region, 7).await;
        expect(&mut anew, 7..8).await;
        store.close().await.unwrap();
    });
}
