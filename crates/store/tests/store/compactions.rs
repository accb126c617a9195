//! Compactions whose files end inside rows, and that a crash interrupts there: no read shows either (T4, C4, C5).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::fault_store::{FaultStore, When};
use crate::scenarios::{region_spec, run_on, small};
use cadastre_env::{Clock, Env};
use cadastre_store::{Region, RowRange, Store, StoreConfig};
use cadastre_types::{Cell, CellType, FamilyDescriptor, TableDescriptor};
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use slatedb::admin::AdminBuilder;

/// Columns of the wide row: some files' worth.
const WIDE: usize = 3000;

/// Rows beside it.
const ROWS: u64 = 12;

/// Versions that are written of everything.
const VERSIONS: i64 = 3;

/// A compaction without a sign of life for ten seconds is taken over.
const LATER_MS: i64 = 15_000;

fn table() -> Arc<TableDescriptor> {
    descriptor(vec![FamilyDescriptor::new("f").with("VERSIONS", "2")])
}

/// Nothing is compacted unless a test asks for it.
fn settings() -> StoreConfig {
    let mut config = small();
    config.compact_at_files = 64;
    config.segment_bytes = 1 << 20;
    config
}

/// Writes a version of everything: a wide row, which comes first, rows with a large cell, narrow ones. Of some columns the older
/// versions go with it.
async fn write_version(env: &FaultEnv, region: &Region<FaultEnv>, at: i64) {
    let kind = CellType::DeleteColumn;
    let mut wide: Vec<Cell> = (0..WIDE)
        .map(|q| put("a-wide", "f", &format!("q{q:05}"), at, "w"))
        .collect();
    let hidden = (0..WIDE).step_by(5);
    wide.extend(hidden.map(|q| marker("a-wide", "f", &format!("q{q:05}"), at - 1, kind)));
    for part in wide.chunks(1000) {
        write(env, region, part.to_vec()).await;
    }
    for n in 0..ROWS {
        let row = format!("r{n:02}");
        let value = "v".repeat(if n % 3 == 0 { 33_000 } else { 10 });
        let mut cells = vec![put(&row, "f", "q", at, &value)];
        if n % 4 == 0 {
            cells.push(marker(&row, "f", "q", at - 1, kind));
        }
        write(env, region, cells).await;
    }
}

/// Everything that reads show, by scans in both directions.
async fn everything(region: &Region<FaultEnv>) -> Vec<(String, Vec<String>)> {
    let rows = scan(region, RowRange::all(), false, &versions(9)).await;
    let mut back = scan(region, RowRange::all(), true, &versions(9)).await;
    back.reverse();
    assert_eq!(rows, back);
    rows
}

/// The path of the test's region.
fn path() -> String {
    let name = region_spec(&table(), 1).info.encoded_name();
    format!("data/default/t/{}", name.as_str())
}

/// How many files the compaction has written that is noted as running, if one is.
async fn running(bucket: &FaultStore) -> Option<usize> {
    let admin = AdminBuilder::new(path(), Arc::new(bucket.clone()) as _).build();
    let all = admin.read_compactions(None).await.unwrap()?;
    let one = all.recent_compactions().find(|one| one.active())?;
    let parts = one.subcompactions().iter();
    Some(parts.map(|part| part.output_ssts().len()).sum())
}

/// Names of the region's files in the bucket, those that no manifest names among them.
async fn files(bucket: &FaultStore) -> Vec<String> {
    let all: Vec<_> = bucket.list(None).try_collect().await.unwrap();
    let names = all.into_iter().map(|object| object.location.to_string());
    let of_region = |name: &String| name.starts_with(&path()) && name.ends_with(".sst");
    names.filter(of_region).collect()
}

async fn open_here(env: &FaultEnv, bucket: &FaultStore) -> (Store<FaultEnv>, Region<FaultEnv>) {
    let objects = Arc::new(bucket.clone());
    let store = Store::open(env.clone(), objects, settings()).await.unwrap();
    let region = store.open_region(region_spec(&table(), 1)).await.unwrap();
    (store, region)
}

/// A process that dies in a compaction which has written some files: the bucket as it is then, and what reads showed.
async fn interrupted(env: FaultEnv) -> (FaultStore, Vec<(String, Vec<String>)>) {
    let bucket = FaultStore::new(When::Before);
    let (_store, region) = open_here(&env, &bucket).await;
    for at in 1..=VERSIONS {
        write_version(&env, &region, at).await;
        region.flush().await.unwrap();
    }
    write(&env, &region, vec![put("z", "f", "q", 5, "5")]).await;
    let kind = CellType::DeleteColumn;
    write(&env, &region, vec![marker("z", "f", "q", 6, kind)]).await;
    region.flush().await.unwrap();
    let before = everything(&region).await;
    // Two files in the wide row are written, the next one is on its way for ever.
    bucket.let_through.store(2, Ordering::SeqCst);
    bucket.held.send_replace(Some("compacted/".to_owned()));
    let there = region.clone();
    env.spawn("compaction", async move {
        let _ = there.compact(false).await;
    });
    // They are noted down with the compactor's next sign of life.
    let until = env.clock().mono() + Duration::from_secs(20);
    while running(&bucket).await.unwrap_or(0) == 0 || bucket.waiting.load(Ordering::SeqCst) == 0 {
        assert!(env.clock().mono() < until, "{:?}", running(&bucket).await);
        env.clock().sleep(Duration::from_millis(20)).await;
    }
    (bucket.fork(), before)
}

/// The next process finds the compaction as running, goes on behind the files that it had written, inside a row, and no read shows
/// any of it. What is asked for beside it is another compaction: markers of the interrupted one's files hide what came later, too.
#[test]
fn t4_an_interrupted_compaction_is_resumed_and_is_none_of_those_asked_for() {
    let disk = FaultDisk::default();
    let (bucket, before) = run_on(1, disk.clone(), interrupted);
    for major in [false, true] {
        let (bucket, before) = (bucket.fork(), before.clone());
        run_on(1, disk.process_ended(), move |env| async move {
            env.clock.step_ms.store(LATER_MS, Ordering::SeqCst);
            let written = running(&bucket).await.expect("a compaction is running");
            assert!(written > 0, "it has written some files");
            let left = files(&bucket).await;
            let (store, region) = open_here(&env, &bucket).await;
            let named = region.file_names().unwrap();
            let unnamed: Vec<String> = left.into_iter().filter(|f| !named.contains(f)).collect();
            assert!(unnamed.len() >= written, "{unnamed:?}");
            assert_eq!(everything(&region).await, before);
            // Hidden by a marker that the interrupted compaction has.
            write(&env, &region, vec![put("z", "f", "q", 4, "4")]).await;
            region.flush().await.unwrap();
            assert_eq!(everything(&region).await, before);
            region.compact(major).await.unwrap();
            assert_eq!(everything(&region).await, before);
            assert_eq!(running(&bucket).await, None);
            if !major {
                let named = region.file_names().unwrap();
                let kept = unnamed.iter().filter(|file| named.contains(file)).count();
                assert_eq!(kept, written, "its files are of the region now");
            }
            region.compact(true).await.unwrap();
            assert_eq!(everything(&region).await, before);
            store.close().await.unwrap();
        });
    }
}

/// A wide row takes more than one file, and what is asked of it says nothing of that.
#[test]
fn t4_a_row_may_span_files() {
    run_on(1, FaultDisk::default(), |env| async move {
        let bucket = FaultStore::new(When::Before);
        let (store, region) = open_here(&env, &bucket).await;
        for at in 1..=2 {
            let cell = |q| put("wide", "f", &format!("q{q:05}"), at, "w");
            let cells: Vec<Cell> = (0..WIDE).map(cell).collect();
            write(&env, &region, cells).await;
            region.flush().await.unwrap();
        }
        let before = everything(&region).await;
        assert_eq!(before[0].1.len(), 2 * WIDE);
        for major in [false, true] {
            region.compact(major).await.unwrap();
            let files = region.load().store_files;
            assert!(files > 3, "{files} files of one row");
            assert_eq!(everything(&region).await, before);
        }
        let marker = marker("wide", "f", "", 1, CellType::DeleteFamily);
        write(&env, &region, vec![marker]).await;
        region.compact(true).await.unwrap();
        let left = everything(&region).await;
        assert_eq!(left[0].1.len(), WIDE);
        assert!(left[0].1.iter().all(|line| line.contains("@2=")));
        store.close().await.unwrap();
    });
}

/// MIN_VERSIONS outlive the TTL, beside overflow too: the filter sees such a row in parts, and drops nothing of it (C5).
#[test]
fn c5_minimum_versions_outlive_the_ttl_beside_overflow() {
    const HOUR_MS: i64 = 3_600_000;
    for (least, expected) in [("0", 0), ("1", 1)] {
        run_on(1, FaultDisk::default(), move |env| async move {
            let family = FamilyDescriptor::new("f")
                .with("VERSIONS", "3")
                .with("TTL", "3600")
                .with("MIN_VERSIONS", least);
            let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let store = Store::open(env.clone(), objects, settings()).await.unwrap();
            let table = descriptor(vec![family]);
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            let now = i64::try_from(env.clock().wall()).unwrap();
            for age in [2, 1] {
                let large = format!("{age}{}", "L".repeat(40_000));
                let cells = vec![
                    put("r", "f", "large", now - age, &large),
                    put("r", "f", "small", now - age, "s"),
                ];
                write(&env, &region, cells).await;
                region.flush().await.unwrap();
            }
            assert_eq!(get(&region, "r", &versions(9)).await.len(), 4);
            env.clock.step_ms.store(2 * HOUR_MS, Ordering::SeqCst);
            for major in [false, true, true] {
                let cells = region.get(b"r", &versions(9)).await.unwrap();
                assert_eq!(cells.len(), 2 * expected, "{:?}", show(&cells));
                assert!(cells.iter().all(|cell| cell.timestamp == now - 1));
                region.compact(major).await.unwrap();
            }
            let bytes = region.load().store_file_bytes;
            assert_eq!(bytes > 0, expected > 0, "{bytes} bytes");
            let cells = region.get(b"r", &versions(9)).await.unwrap();
            assert_eq!(cells.len(), 2 * expected);
            store.close().await.unwrap();
        });
    }
}
