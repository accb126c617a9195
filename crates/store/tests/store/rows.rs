//! Rows of every shape: hot, wide, with large cells, with markers; compaction must be invisible (T3, T4, T5, C4 to C7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::scenarios::region_spec;
use bytes::Bytes;
use cadastre_env::{Clock, Env, RealEnv};
use cadastre_store::{ReadPoint, Region, RegionSpec, RowRange, Store};
use cadastre_types::{
    Cell, CellType, Durability, FamilyDescriptor, Qualifiers, Query, RegionInfo, TableDescriptor,
};
use futures::TryStreamExt;
use futures::future::join_all;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use proptest::prelude::*;

async fn fresh(env: &RealEnv, table: &Arc<TableDescriptor>) -> (Store<RealEnv>, Region<RealEnv>) {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = open(env, objects).await;
    let region = store.open_region(spec(table)).await.unwrap();
    (store, region)
}

fn column(family: &str, qualifier: &str, max_versions: u32) -> Query {
    let these = Qualifiers::These(BTreeSet::from([bytes(qualifier)]));
    Query {
        columns: BTreeMap::from([(bytes(family), these)]),
        max_versions,
        ..Query::default()
    }
}

#[test]
fn t5_a_hot_row_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |env| async move {
        let (store, region) = fresh(&env, &table).await;
        for n in 0..3000 {
            write(&env, &region, vec![put("hot", "f", "q", n, &n.to_string())]).await;
        }
        assert_eq!(
            get(&region, "hot", &Query::default()).await,
            ["f:q@2999=2999"]
        );
        region.flush().await.unwrap();
        let load = region.load();
        assert!(
            load.store_file_bytes < 4000,
            "{load:?}: all versions were kept"
        );
        assert_eq!(get(&region, "hot", &versions(5)).await.len(), 1);
        store.close().await.unwrap();
    });
}

#[test]
fn a_wide_row_reads_back_in_every_way_and_narrows_again() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![
        FamilyDescriptor::new("f").with("VERSIONS", "2"),
        FamilyDescriptor::new("g"),
    ]);
    run(dir.path(), |env| async move {
        let mut config = config();
        config.sst_bytes = 8 << 10;
        let store = Store::open(env.clone(), Arc::new(InMemory::new()), config);
        let store = store.await.unwrap();
        let region = store.open_region(spec(&table)).await.unwrap();
        let following = store.follow("widths", region.info(), None, 1 << 30);
        let mut following = following.await.unwrap();
        let q = |n: u32| format!("q{n:05}");
        for chunk in 0..30 {
            let cells = (0..50).map(|n| put("wide", "f", &q(chunk * 50 + n), 10, "v"));
            write(&env, &region, cells.collect()).await;
        }
        write(
            &env,
            &region,
            vec![
                put("wide", "g", "x", 1, "g"),
                put("wider", "f", "a", 1, "next"),
            ],
        )
        .await;
        for flushed in [false, true] {
            if flushed {
                region.flush().await.unwrap();
                region.compact(false).await.unwrap();
            }
            let all = get(&region, "wide", &Query::default()).await;
            assert_eq!(all.len(), 1501);
            assert!(all.is_sorted());
            let one = get(&region, "wide", &column("f", &q(777), 1)).await;
            assert_eq!(one, [format!("f:{}@10=v", q(777))]);
            let rows = scan(&region, RowRange::all(), false, &Query::default()).await;
            assert_eq!(
                rows.iter()
                    .map(|(_, cells)| cells.len())
                    .collect::<Vec<_>>(),
                [1501, 1]
            );
            let mut back = scan(&region, RowRange::all(), true, &Query::default()).await;
            back.reverse();
            assert_eq!(rows, back);
        }
        // A marker over packed and overflow cells, an older put behind it, a newer one.
        write(
            &env,
            &region,
            vec![marker("wide", "f", &q(777), 10, CellType::DeleteColumn)],
        )
        .await;
        write(&env, &region, vec![put("wide", "f", &q(777), 9, "old")]).await;
        assert!(
            get(&region, "wide", &column("f", &q(777), 9))
                .await
                .is_empty()
        );
        write(&env, &region, vec![put("wide", "f", &q(777), 11, "new")]).await;
        assert_eq!(
            get(&region, "wide", &column("f", &q(777), 9)).await.len(),
            1
        );
        write(
            &env,
            &region,
            vec![marker("wide", "f", "", 10, CellType::DeleteFamily)],
        )
        .await;
        assert_eq!(get(&region, "wide", &Query::default()).await.len(), 2);
        region.compact(true).await.unwrap();
        let left = get(&region, "wide", &versions(9)).await;
        assert_eq!(left, [format!("f:{}@11=new", q(777)), "g:x@1=g".to_owned()]);
        // Narrow again, markers gone: an old put shows again, as after HBase's major compaction.
        write(&env, &region, vec![put("x", "f", "q", 1, "end")]).await;
        let seen = turns(&mut following, "x").await;
        assert_eq!(seen, Turns { wide: 1, narrow: 1 });
        write(
            &env,
            &region,
            vec![marker("x", "f", "", 1, CellType::DeleteFamily)],
        )
        .await;
        let raw = Query {
            raw: true,
            ..versions(9)
        };
        assert_eq!(get(&region, "wide", &raw).await.len(), 2);
        write(&env, &region, vec![put("wide", "f", &q(778), 5, "again")]).await;
        assert_eq!(get(&region, "wide", &Query::default()).await.len(), 3);
        store.close().await.unwrap();
    });
}

#[test]
fn large_cells_overflow_at_once_and_are_trimmed() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |env| async move {
        let (store, region) = fresh(&env, &table).await;
        let large = "L".repeat(40_000);
        for n in 0..40 {
            let cells = vec![
                put("r", "f", "big", n, &large),
                put("r", "f", "small", n, "s"),
            ];
            write(&env, &region, cells).await;
        }
        let cells = region.get(b"r", &versions(50)).await.unwrap();
        assert_eq!(
            cells.iter().map(|c| c.timestamp).collect::<Vec<_>>(),
            [39, 39]
        );
        assert_eq!(cells[0].value.len(), 40_000);
        region.flush().await.unwrap();
        region.compact(true).await.unwrap();
        let bytes = region.load().store_file_bytes;
        assert!(bytes < 100_000, "{bytes}");
        assert_eq!(region.get(b"r", &versions(50)).await.unwrap().len(), 2);
        store.close().await.unwrap();
    });
}

#[test]
fn a_hot_column_of_a_wide_row_stays_cheap() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |env| async move {
        let (store, region) = fresh(&env, &table).await;
        let cells = (0..2000).map(|n| put("wide", "f", &format!("q{n:05}"), 1, "v"));
        write(&env, &region, cells.collect()).await;
        for n in 2..1500 {
            let locks = region
                .lock_rows([bytes("wide")].into(), deadline(&env))
                .await
                .unwrap();
            let old = locks
                .read(b"wide", &column("f", "q00007", 1))
                .await
                .unwrap();
            assert_eq!(old[0].timestamp, n - 1);
            let cells = vec![put("wide", "f", "q00007", n, "v")];
            locks.write(cells, &[], Durability::SyncWal).await.unwrap();
        }
        region.flush().await.unwrap();
        region.compact(true).await.unwrap();
        let raw = Query {
            raw: true,
            columns: BTreeMap::new(),
            ..versions(u32::MAX)
        };
        assert_eq!(
            get(&region, "wide", &raw).await.len(),
            2000,
            "old versions were dropped"
        );
        store.close().await.unwrap();
    });
}

#[test]
fn t3_counters_are_exact_under_concurrency() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
    run(dir.path(), |env| async move {
        let (store, region) = fresh(&env, &table).await;
        let work = (0..8).map(|_| async {
            for _ in 0..100 {
                let locks = region
                    .lock_rows([bytes("c")].into(), deadline(&env))
                    .await
                    .unwrap();
                let old = locks.read(b"c", &Query::default()).await.unwrap();
                let value = old.first().map_or(0, |cell| {
                    String::from_utf8_lossy(&cell.value).parse::<u32>().unwrap()
                });
                assert!(old.len() != 1, "half a mutation");
                let at = locks.timestamp(b"c");
                let next = (value + 1).to_string();
                let cells = vec![put("c", "f", "n", at, &next), put("c", "g", "n", at, &next)];
                locks.write(cells, &[], Durability::AsyncWal).await.unwrap();
                let seen = region.get(b"c", &Query::default()).await.unwrap();
                assert_eq!(seen[0].value, seen[1].value, "torn between two families");
            }
        });
        join_all(work).await;
        let cells = get(&region, "c", &Query::default()).await;
        assert!(cells[0].ends_with("=800"), "{cells:?}");
        store.close().await.unwrap();
    });
}

#[test]
fn t6_nonces_survive_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for round in 0..3_u64 {
        let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
        run(dir.path(), move |env| async move {
            let store = open(&env, objects).await;
            let region = store.open_region(spec(&table)).await.unwrap();
            let locks = region
                .lock_rows([bytes("r")].into(), deadline(&env))
                .await
                .unwrap();
            for nonce in 0..round {
                assert!(locks.nonce(b"r", 7, nonce).await.unwrap());
            }
            assert!(!locks.nonce(b"r", 7, round).await.unwrap());
            let cells = vec![put("r", "f", "q", 1, "1")];
            locks
                .write(cells, &[(bytes("r"), 7, round)], Durability::SyncWal)
                .await
                .unwrap();
            if round == 1 {
                region.compact(true).await.unwrap();
            }
            // Nonces are not cells.
            assert_eq!(get(&region, "r", &Query::default()).await.len(), 1);
            assert_eq!(
                scan(&region, RowRange::all(), false, &Query::default())
                    .await
                    .len(),
                1
            );
        });
    }
}

#[test]
fn timestamps_go_on_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut last = 0;
    for _ in 0..3 {
        let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
        last = run(dir.path(), move |env| async move {
            let store = open(&env, objects).await;
            let region = store.open_region(spec(&table)).await.unwrap();
            let mut last = last;
            // Far more than one a millisecond: the row runs ahead of the clock.
            for _ in 0..300 {
                let locks = region
                    .lock_rows([bytes("r")].into(), deadline(&env))
                    .await
                    .unwrap();
                let mut at = 0;
                for _ in 0..10 {
                    at = locks.timestamp(b"r");
                    assert!(at > last, "{at} after {last}");
                    last = at;
                }
                let cells = vec![put("r", "f", "q", at, "1")];
                locks.write(cells, &[], Durability::SyncWal).await.unwrap();
            }
            last
        });
    }
}

#[test]
fn meta_rows_are_in_their_own_order() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), |env| async move {
        let store = open(&env, Arc::new(InMemory::new())).await;
        let spec = RegionSpec {
            info: RegionInfo::meta(),
            descriptor: Arc::new(TableDescriptor::meta()),
            expected_epoch: None,
        };
        let region = store.open_region(spec).await.unwrap();
        let rows = [
            "t", "t,,1", "t,a,1", "t,a,2", "t,a+,1", "t,a,b,1", "u", "t-1,,5",
        ];
        for row in rows {
            write(&env, &region, vec![put(row, "info", "q", 1, row)]).await;
        }
        let all = scan(&region, RowRange::all(), false, &Query::default()).await;
        let order: Vec<_> = all.into_iter().map(|(row, _)| row).collect();
        assert_eq!(
            order,
            [
                "t", "t,,1", "t,a,1", "t,a,2", "t,a+,1", "t,a,b,1", "t-1,,5", "u"
            ]
        );
        // The closest row at or before a look-up key.
        let range = RowRange {
            start: Bytes::new(),
            include_start: true,
            stop: bytes("t,a,99999999999999"),
            include_stop: true,
        };
        let found = scan(&region, range, true, &Query::default()).await;
        assert_eq!(found[0].0, "t,a,2");
        store.close().await.unwrap();
    });
}

#[test]
fn a_removed_familys_cells_do_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
    run(dir.path(), |env| async move {
        let (store, region) = fresh(&env, &table).await;
        write(
            &env,
            &region,
            vec![put("r", "f", "q", 1, "f"), put("r", "g", "q", 1, "g")],
        )
        .await;
        let mut without = (*table).clone();
        without.families.remove(&b"g"[..]);
        region.alter(Arc::new(without.clone())).await.unwrap();
        assert_eq!(get(&region, "r", &Query::default()).await, ["f:q@1=f"]);
        region.compact(true).await.unwrap();
        // Added again with another id: it starts empty.
        let mut again = FamilyDescriptor::new("g");
        again.id = 3;
        region
            .alter(Arc::new(without.with_family(again)))
            .await
            .unwrap();
        assert_eq!(get(&region, "r", &Query::default()).await, ["f:q@1=f"]);
        store.close().await.unwrap();
    });
}

#[test]
fn files_are_merged_without_being_asked() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |env| async move {
        let (store, region) = fresh(&env, &table).await;
        for n in 0..12 {
            write(&env, &region, vec![put(&format!("r{n}"), "f", "q", 1, "v")]).await;
            region.flush().await.unwrap();
        }
        for _ in 0..500 {
            if region.load().store_files < 6 {
                break;
            }
            env.clock()
                .sleep(std::time::Duration::from_millis(20))
                .await;
        }
        assert!(region.load().store_files < 6, "{:?}", region.load());
        assert_eq!(
            scan(&region, RowRange::all(), false, &Query::default())
                .await
                .len(),
            12
        );
        store.close().await.unwrap();
    });
}

/// Names of the files in the bucket.
async fn sst_files(objects: &InMemory) -> BTreeSet<String> {
    let all: Vec<_> = objects.list(None).try_collect().await.unwrap();
    let names = all.into_iter().map(|object| object.location.to_string());
    names.filter(|name| name.ends_with(".sst")).collect()
}

/// Scanners of either direction that are older than the files they began with, none of which is left, and of which nothing is in a
/// cache (T9, C12).
#[test]
fn t9_a_scanner_outlives_its_files() {
    const ROWS: usize = 200;
    const READ_BEFORE: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |env| async move {
        let objects = Arc::new(InMemory::new());
        let mut config = config();
        config.checkpoint_lifetime_ms = 1000;
        config.garbage_min_age_ms = 0;
        config.compact_at_files = 2;
        config.block_cache_bytes = 1 << 10;
        config.row_cache_bytes = 1 << 10;
        let bucket = Arc::clone(&objects);
        let store = Store::open(env.clone(), bucket, config).await.unwrap();
        let region = store.open_region(spec(&table)).await.unwrap();
        let row = |n: usize| format!("r{n:04}");
        // Far more than is read ahead.
        let old = "old".repeat(1000);
        for part in 0..4 {
            let cell = |n: usize| put(&row(part * 50 + n), "f", "q", 1, &old);
            write(&env, &region, (0..50).map(cell).collect()).await;
            region.flush().await.unwrap();
        }
        let mut scanners = Vec::new();
        for reversed in [false, true] {
            let at = region.read_point().await.unwrap();
            let scanner = region.scan(RowRange::all(), reversed, Query::default(), at);
            let rows = (0..ROWS).map(move |n| if reversed { ROWS - 1 - n } else { n });
            scanners.push((scanner.await.unwrap(), rows));
        }
        for (scanner, rows) in &mut scanners {
            for n in rows.take(READ_BEFORE) {
                let cells = scanner.next_row().await.unwrap().unwrap();
                assert_eq!(cells[0].row, row(n));
            }
        }
        let began = sst_files(&objects).await;
        assert!(!began.is_empty());
        let mut at = 1;
        while !began.is_disjoint(&sst_files(&objects).await) {
            at += 1;
            assert!(at < 100, "files stay");
            let cells = (0..ROWS).map(|n| put(&row(n), "f", "q", at, "new"));
            write(&env, &region, cells.collect()).await;
            region.flush().await.unwrap();
            region.compact(true).await.unwrap();
            env.clock()
                .sleep(std::time::Duration::from_millis(100))
                .await;
        }
        for (scanner, rows) in &mut scanners {
            for n in rows {
                let cells = scanner.next_row().await.unwrap().unwrap();
                assert_eq!(cells[0].row, row(n));
                assert_eq!(cells[0].timestamp, 1, "as of its moment");
                assert_eq!(cells[0].value, old);
            }
            assert!(scanner.next_row().await.unwrap().is_none());
        }
        drop(scanners);
        store.close().await.unwrap();
    });
}

/// What a scan kept while rows were deleted and flushed under it goes with a major compaction after it, also when nothing was written since.
#[test]
fn a_scan_that_has_ended_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f").with("VERSIONS", "1")]);
    run(dir.path(), |env| async move {
        let (store, region) = fresh(&env, &table).await;
        for n in 0..100 {
            let cells = vec![put(&format!("r{n:02}"), "f", "q", 1, &"v".repeat(100))];
            write(&env, &region, cells).await;
        }
        region.flush().await.unwrap();
        let at = region.read_point().await.unwrap();
        for n in 0..100 {
            let kind = CellType::DeleteFamily;
            let cells = vec![marker(&format!("r{n:02}"), "f", "", 2, kind)];
            write(&env, &region, cells).await;
        }
        region.flush().await.unwrap();
        region.compact(true).await.unwrap();
        let raw = Query {
            raw: true,
            ..versions(5)
        };
        assert_eq!(get(&region, "r07", &raw).await.len(), 2, "under the scan");
        assert_eq!(
            scan_at(&region, at.clone()).await.len(),
            100,
            "of its moment"
        );
        drop(at);
        region.compact(true).await.unwrap();
        let left = get(&region, "r07", &raw).await;
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(region.load().store_file_bytes, 0, "{:?}", region.load());
        store.close().await.unwrap();
    });
}

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8, i64, u8),
    Mark(u8, u8, i64, CellType),
    Flush,
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Not the exact ones: they may show an older version, and how many of those are still stored is compaction's affair (10.1).
    let kind = prop_oneof![Just(CellType::DeleteColumn), Just(CellType::DeleteFamily)];
    let step = prop_oneof![
        12 => (0..3_u8, 0..4_u8, 1..9_i64, any::<u8>()).prop_map(|(r, q, t, v)| Step::Put(r, q, t, v)),
        3 => (0..3_u8, 0..4_u8, 1..9_i64, kind).prop_map(|(r, q, t, k)| Step::Mark(r, q, t, k)),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..80)
}

/// Timestamps of a history are so far apart, ms.
const APART_MS: i64 = 15 * 60_000;

/// The TTL of families that have one, s.
const TTL_S: &str = "3600";

fn cell_of(step: &Step, base: i64, padding: &str) -> Option<Cell> {
    let name = |q: u8| {
        if q == 0 {
            String::new()
        } else {
            format!("q{q}")
        }
    };
    let at = |t: i64| base + t * APART_MS;
    match step {
        // Some values are large, so rows are in both forms.
        Step::Put(r, q, t, v) => {
            let value = if *v < 20 {
                format!("{v}{padding}")
            } else {
                v.to_string()
            };
            Some(put(&format!("r{r}"), "f", &name(*q), at(*t), &value))
        }
        Step::Mark(r, q, t, kind) => {
            let qualifier = if kind.is_family_wide() {
                String::new()
            } else {
                name(*q)
            };
            Some(marker(&format!("r{r}"), "f", &qualifier, at(*t), *kind))
        }
        Step::Flush | Step::Compact => None,
    }
}

/// What a read point shows.
async fn scan_at<E: Env>(region: &Region<E>, at: ReadPoint<E>) -> Vec<Vec<String>> {
    let range = RowRange::all();
    let mut scanner = region.scan(range, false, versions(9), at).await.unwrap();
    let mut rows = Vec::new();
    while let Some(cells) = scanner.next_row().await.unwrap() {
        rows.push(show(&cells));
    }
    rows
}

/// What all kinds of reads show.
async fn answers(region: &Region<FaultEnv>) -> Vec<Vec<(String, Vec<String>)>> {
    let mut seen = Vec::new();
    for max in [1, 2, 9] {
        seen.push(scan(region, RowRange::all(), false, &versions(max)).await);
        seen.push(scan(region, RowRange::all(), true, &versions(max)).await);
    }
    for row in ["r0", "r1", "r2"] {
        for q in ["", "q1", "q2"] {
            let cells = get(region, row, &column("f", q, 2)).await;
            seen.push(vec![(row.to_owned(), cells)]);
        }
    }
    seen
}

/// Plays a history on a region that is flushed and compacted, snapshots held open, and on one that is not; at its end some more cells
/// run out, and last, without snapshots, all files are merged.
async fn play_twice(env: FaultEnv, steps: Vec<Step>, family: FamilyDescriptor, sst_bytes: u64) {
    let table = descriptor(vec![family]);
    let mut config = config();
    config.sst_bytes = sst_bytes;
    let store = Store::open(env.clone(), Arc::new(InMemory::new()), config);
    let store = store.await.unwrap();
    let busy = store.open_region(region_spec(&table, 1)).await.unwrap();
    let calm = store.open_region(region_spec(&table, 2)).await.unwrap();
    // A third of the timestamps has run out, and none does while this takes its time.
    let now = i64::try_from(env.clock().wall()).unwrap();
    let base = now - 2 * 3_600_000 + APART_MS / 2;
    let padding = "P".repeat(33_000);
    let mut pins = Vec::new();
    for step in &steps {
        match step {
            Step::Flush => {
                let at = busy.read_point().await.unwrap();
                pins.push((at.clone(), scan_at(&busy, at).await));
                busy.flush().await.unwrap();
            }
            Step::Compact => {
                busy.flush().await.unwrap();
                busy.compact(false).await.unwrap();
                for (at, seen) in &pins {
                    let again = scan_at(&busy, at.clone()).await;
                    assert_eq!(&again, seen, "an open snapshot changed");
                }
                if pins.len() > 2 {
                    pins.clear();
                }
            }
            _ => {
                let cell = cell_of(step, base, &padding).unwrap();
                write(&env, &busy, vec![cell.clone()]).await;
                write(&env, &calm, vec![cell]).await;
            }
        }
    }
    assert_eq!(answers(&busy).await, answers(&calm).await);
    env.clock.step_ms.store(2 * APART_MS, Ordering::SeqCst);
    assert_eq!(answers(&busy).await, answers(&calm).await, "time went on");
    busy.flush().await.unwrap();
    busy.compact(false).await.unwrap();
    let seen = answers(&calm).await;
    assert_eq!(answers(&busy).await, seen, "some files are merged");
    drop(pins);
    for _ in 0..2 {
        busy.compact(true).await.unwrap();
        assert_eq!(answers(&busy).await, seen, "all files are merged");
    }
    store.close().await.unwrap();
}

/// A version that is an overflow cell and was written again as a packed one is one version, not two: the compaction dropped the oldest of
/// those that are to be kept. With each order of timestamps around it.
#[test]
fn t4_a_version_in_both_forms_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let real = env(dir.path());
    let large = |t| Step::Put(0, 2, t, 0);
    let small = |t| Step::Put(0, 2, t, 20);
    for twice in [6, 4, 1] {
        for versions in ["1", "2", "3"] {
            let mut steps: Vec<Step> = [6, 4, 1].map(large).into();
            steps.push(small(twice));
            let family = FamilyDescriptor::new("f").with("VERSIONS", versions);
            let here = FaultEnv::new(real.clone(), FaultDisk::default());
            let played = real.block_on(play_twice(here, steps, family, 1 << 20));
            played.expect("see above");
        }
    }
    real.shutdown();
}

/// The same history with and without flushes and compactions, whose files end anywhere in a row: every read is the same (T4).
#[test]
fn t4_compaction_is_invisible() {
    let family = |settings: &[(&str, &str)]| {
        let family = FamilyDescriptor::new("f");
        settings
            .iter()
            .fold(family, |f, (key, value)| f.with(key, value))
    };
    let families = [
        family(&[]),
        family(&[("VERSIONS", "3")]),
        family(&[("VERSIONS", "2"), ("KEEP_DELETED_CELLS", "TRUE")]),
        family(&[("VERSIONS", "2"), ("NEW_VERSION_BEHAVIOR", "true")]),
        family(&[("VERSIONS", "3"), ("TTL", TTL_S)]),
        family(&[("VERSIONS", "3"), ("TTL", TTL_S), ("MIN_VERSIONS", "1")]),
        family(&[("VERSIONS", "5"), ("TTL", TTL_S), ("MIN_VERSIONS", "2")]),
    ];
    let dir = tempfile::tempdir().unwrap();
    let real = env(dir.path());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 32,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    });
    let cases = (steps(), 0..families.len(), 1..33_u64);
    let result = runner.run(&cases, |(steps, family, sst_kib)| {
        let here = FaultEnv::new(real.clone(), FaultDisk::default());
        let family = families[family].clone();
        let played = real.block_on(play_twice(here, steps, family, sst_kib << 10));
        prop_assert!(played.is_some(), "the history failed, see above");
        Ok(())
    });
    real.shutdown();
    if let Err(error) = result {
        panic!("{error}");
    }
}
