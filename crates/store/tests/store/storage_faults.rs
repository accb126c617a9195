//! Every call to the log's files and to the object store fails once, in one history after the other: no acknowledged write is lost,
//! nothing wrong is read, and service returns (C16, C17).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::fault_store::{FaultStore, When};
use crate::scenarios::{region_spec, run_on, small};
use cadastre_env::{Clock, Env};
use cadastre_store::{Region, RegionSpec, Store, StoreConfig};
use cadastre_types::{Durability, FamilyDescriptor, Query, Result};
use futures::TryStreamExt;
use object_store::ObjectStore;

/// Longest wait for one step of a history: what a process that has ended would do never ends.
const STEP_MAX: Duration = Duration::from_secs(20);

/// What is known of each row: acknowledged, and sent, values.
type Known = Arc<Mutex<BTreeMap<String, (u64, u64)>>>;

fn settings() -> StoreConfig {
    let mut config = small();
    // Segments turn a few times in a short history.
    config.segment_bytes = 16 << 10;
    config.low_space_bytes = 1;
    config
}

/// Waits for a step unless the process ends itself meanwhile.
async fn step<T>(env: &FaultEnv, work: impl Future<Output = Result<T>> + Send) -> Option<T>
where
    T: Send,
{
    let ended = async {
        while !env.exited.load(Ordering::SeqCst) {
            env.clock().sleep(Duration::from_millis(2)).await;
        }
    };
    let mut work = std::pin::pin!(work);
    let mut ended = std::pin::pin!(ended);
    let either = futures::future::select(&mut work, &mut ended);
    match env.clock().timeout(STEP_MAX, either).await {
        Ok(futures::future::Either::Left((answer, _))) => answer.ok(),
        Ok(futures::future::Either::Right(_)) => None,
        Err(_) => panic!("a step of the history does not end"),
    }
}

async fn put_next(env: &FaultEnv, region: &Region<FaultEnv>, row: &str, known: &Known) {
    let number = {
        let mut known = known.lock().unwrap();
        let (_, sent) = known.entry(row.to_owned()).or_default();
        *sent += 1;
        *sent
    };
    let write = async {
        let locks = region.lock_rows([bytes(row)].into(), deadline(env)).await?;
        let value = format!("{number} {}", "x".repeat(600));
        let cells = vec![
            put(row, "f", "q", number as i64, &value),
            put(row, "g", "q", number as i64, &value),
        ];
        locks.write(cells, &[], Durability::SyncWal).await
    };
    if step(env, write).await.is_some() {
        known.lock().unwrap().get_mut(row).unwrap().0 = number;
    }
}

/// Reads every row; an error is allowed, a wrong answer is not.
async fn read_all(env: &FaultEnv, region: &Region<FaultEnv>, known: &Known, must: bool) {
    let rows = known.lock().unwrap().clone();
    for (row, (acknowledged, sent)) in rows {
        let read = step(env, region.get(row.as_bytes(), &Query::default())).await;
        let Some(cells) = read else {
            assert!(!must, "row {row} cannot be read");
            continue;
        };
        let number = |at: usize| -> u64 {
            let value = String::from_utf8_lossy(&cells[at].value).into_owned();
            value.split(' ').next().unwrap().parse().unwrap()
        };
        let seen = if cells.is_empty() { 0 } else { number(0) };
        assert!(
            (acknowledged..=sent).contains(&seen),
            "row {row} shows {seen}, acknowledged {acknowledged}, sent {sent}"
        );
        assert!(cells.is_empty() || number(1) == seen, "row {row} is torn");
    }
}

/// A life of the store in which something may fail.
async fn life(env: FaultEnv, objects: FaultStore, known: Known) {
    let table = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
    let opening = Store::open(env.clone(), Arc::new(objects), settings());
    let Some(store) = step(&env, opening).await else {
        return;
    };
    let Some(region) = step(&env, store.open_region(region_spec(&table, 1))).await else {
        return;
    };
    for round in 0..3 {
        for row in 0..6 {
            put_next(&env, &region, &format!("r{row}"), &known).await;
        }
        read_all(&env, &region, &known, false).await;
        step(&env, region.flush()).await;
        if round == 1 {
            step(&env, region.compact(true)).await;
        }
    }
    put_next(&env, &region, "r0", &known).await;
    read_all(&env, &region, &known, false).await;
    if !env.exited.load(Ordering::SeqCst) {
        step(&env, store.close()).await;
    }
}

/// The next start, in which nothing fails: everything is there, and service is back.
async fn after(env: FaultEnv, objects: FaultStore, known: Known) {
    let table = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
    let store = Store::open(env.clone(), Arc::new(objects), settings())
        .await
        .unwrap();
    let region = store.open_region(region_spec(&table, 1)).await.unwrap();
    read_all(&env, &region, &known, true).await;
    for row in 0..6 {
        let row = format!("r{row}");
        put_next(&env, &region, &row, &known).await;
        let (acknowledged, sent) = known.lock().unwrap()[&row];
        assert_eq!(acknowledged, sent, "service has not returned");
    }
    region.flush().await.unwrap();
    read_all(&env, &region, &known, true).await;
    store.close().await.unwrap();
}

/// One history: `fail` chooses what fails in its first life. Answers how many calls the disk and the bucket got in it.
fn history(case: u64, when: When, fail: impl FnOnce(&FaultDisk, &FaultStore)) -> (u64, u64) {
    let (disk, objects) = (FaultDisk::default(), FaultStore::new(when));
    let known = Known::default();
    fail(&disk, &objects);
    let (here, bucket, rows) = (disk.clone(), objects.clone(), Arc::clone(&known));
    run_on(1, here, move |env| life(env, bucket, rows));
    let made = (disk.calls.made(), objects.calls.made());
    objects.calls.fail(0);
    objects.delay_us.store(0, Ordering::SeqCst);
    // Every other time the machine stays up, and the page cache with it.
    let disk = if case.is_multiple_of(2) {
        disk.power_cut(case)
    } else {
        disk.process_ended()
    };
    run_on(2, disk, move |env| after(env, objects, known));
    made
}

/// Histories at one time: they mostly wait.
const AT_ONCE: u64 = 12;

/// Runs a history for each call.
fn for_each(calls: impl Iterator<Item = u64>, run: impl Fn(u64) + Sync) {
    let calls: Vec<u64> = calls.collect();
    std::thread::scope(|scope| {
        for part in 0..AT_ONCE {
            let mine = calls.iter().filter(move |call| **call % AT_ONCE == part);
            let run = &run;
            scope.spawn(move || mine.for_each(|call| run(*call)));
        }
    });
}

#[test]
fn every_call_of_the_logs_files_fails_once() {
    let (calls, _) = history(0, When::Before, |_, _| {});
    assert!(calls > 30, "{calls} calls");
    for_each(1..=calls, |call| {
        history(call, When::Before, |disk, _| disk.calls.fail(call));
        history(call + 1, When::Before, |disk, _| disk.calls.fail(call));
    });
}

#[test]
fn every_call_of_the_object_store_fails_once() {
    for when in [When::Before, When::After] {
        let (_, calls) = history(0, when, |_, _| {});
        assert!(calls > 30, "{calls} calls");
        for_each(1..=calls, |call| {
            history(call, when, |_, objects| objects.calls.fail(call));
        });
    }
}

#[test]
fn the_object_store_is_away_for_a_while() {
    let (_, calls) = history(0, When::Before, |_, _| {});
    for_each((1..=calls).step_by(3), |call| {
        history(call, When::Before, |_, objects| {
            objects.calls.fail_many(call, 4);
        });
    });
}

/// No space is left for a while, from each call on: what could be done without it counts, and nothing else.
#[test]
fn the_logs_disk_is_full_from_each_call_on() {
    let (calls, _) = history(0, When::Before, |_, _| {});
    for_each(1..=calls, |call| {
        history(call, When::Before, |disk, _| disk.calls.fill(call, 6));
    });
}

#[test]
fn the_object_store_is_full_from_each_call_on() {
    let (_, calls) = history(0, When::Before, |_, _| {});
    for_each(1..=calls, |call| {
        history(call, When::Before, |_, objects| objects.calls.fill(call, 4));
    });
}

/// The log's disk is full from some call on, then not any more: what was refused comes through, in the same process.
#[test]
fn the_logs_disk_is_full_for_a_while() {
    let known = Known::default();
    run_on(1, FaultDisk::default(), move |env| async move {
        let table = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
        let objects = Arc::new(FaultStore::new(When::Before));
        let store = Store::open(env.clone(), objects, settings()).await.unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        for round in 0..4 {
            env.disk.full.store(round % 2 == 1, Ordering::SeqCst);
            for n in 0..60 {
                put_next(&env, &region, &format!("r{}", n % 6), &known).await;
            }
            read_all(&env, &region, &known, true).await;
        }
        env.disk.full.store(false, Ordering::SeqCst);
        region.flush().await.unwrap();
        for _ in 0..200 {
            put_next(&env, &region, "last", &known).await;
            if known.lock().unwrap()["last"].0 > 0 {
                break;
            }
            env.clock().sleep(Duration::from_millis(50)).await;
        }
        assert!(
            known.lock().unwrap()["last"].0 > 0,
            "service has not returned"
        );
        store.close().await.unwrap();
    });
}

#[test]
fn a_slow_object_store_changes_nothing_but_the_time() {
    history(1, When::Before, |disk, objects| {
        objects.delay_us.store(5_000, Ordering::SeqCst);
        disk.sync_delay_us.store(5_000, Ordering::SeqCst);
    });
}

/// SlateDB tells of a file before the manifest that names it is written; the records are needed until then. A kill in between lost them.
#[test]
fn c15_a_manifest_that_is_being_written_frees_no_records() {
    let bucket = FaultStore::new(When::Before);
    let disk = FaultDisk::default();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let (slow, busy) = (region_spec(&table, 1), region_spec(&table, 2));
    let name = |spec: &RegionSpec| spec.info.encoded_name().as_str().to_owned();
    let (slow_name, busy_name) = (name(&slow), name(&busy));
    let settings = || {
        let mut config = settings();
        config.memtable_bytes = 16 << 10;
        config.segments_max = 64;
        config
    };
    let reopened = (slow.clone(), bucket.clone(), disk.clone());
    run_on(1, disk, |env| async move {
        let store = Store::open(env.clone(), Arc::new(bucket.clone()), settings())
            .await
            .unwrap();
        let slow = store.open_region(slow).await.unwrap();
        let busy = store.open_region(busy).await.unwrap();
        write(&env, &slow, vec![put("kept", "f", "q", 1, "v")]).await;
        bucket
            .held
            .send_replace(Some(format!("{slow_name}/manifest")));
        env.spawn_on(0, "flush", move || {
            Box::pin(async move {
                let _ = slow.flush().await;
            })
        });
        files(&env, &bucket, &slow_name, 1).await;
        // Each file of this region is made by a turn of the maintenance, which truncates the log after it.
        for turn in 1..=4 {
            for _ in 0..3 {
                let value = "x".repeat(8 << 10);
                let cell = put("row", "f", "q", turn as i64, &value);
                write(&env, &busy, vec![cell]).await;
            }
            files(&env, &bucket, &busy_name, turn).await;
        }
    });
    let (slow, bucket, disk) = reopened;
    let (bucket, disk) = (bucket.fork(), disk.process_ended());
    run_on(1, disk, |env| async move {
        let store = Store::open(env.clone(), Arc::new(bucket), settings())
            .await
            .unwrap();
        let slow = store.open_region(slow).await.unwrap();
        let cells = slow.get(b"kept", &Query::default()).await.unwrap();
        assert_eq!(cells.len(), 1, "an acknowledged row is gone");
    });
}

/// Waits until a database has made so many files.
async fn files(env: &FaultEnv, bucket: &FaultStore, name: &str, least: usize) {
    let all = || async {
        let all: Vec<_> = bucket.list(None).try_collect().await.unwrap();
        let of = |path: &str| path.contains(name) && path.ends_with(".sst");
        all.iter().filter(|o| of(o.location.as_ref())).count()
    };
    while all().await < least {
        env.clock().sleep(Duration::from_millis(2)).await;
    }
}
