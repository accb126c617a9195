//! The path: open, write, durable, read, crash, reopen with replay, flush, scan.

use std::collections::BTreeSet;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::scenarios::run_on;
use cadastre_env::Env;
use cadastre_store::{Region, RowRange, Store};
use cadastre_types::{CellType, Code, Durability, FamilyDescriptor, Query};
use object_store::memory::InMemory;

#[test]
fn writes_survive_a_crash_and_a_clean_close() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
    let path = dir.path().to_owned();
    let (spec_1, spec_2, spec_3) = (spec(&table), spec(&table), spec(&table));
    let objects = local(&path);
    let epoch = run(&path, |env| async move {
        let store = open(&env, objects).await;
        let region = store.open_region(spec_1).await.unwrap();
        for n in 0..100 {
            let row = format!("row{n:03}");
            let cells = vec![
                put(&row, "f", "a", 1, &format!("v{n}")),
                put(&row, "g", "b", 2, "x"),
            ];
            write(&env, &region, cells).await;
        }
        assert_eq!(
            get(&region, "row007", &Query::default()).await,
            ["f:a@1=v7", "g:b@2=x"]
        );
        assert_eq!(
            scan(&region, RowRange::all(), false, &Query::default())
                .await
                .len(),
            100
        );
        region.epoch()
        // Dropped without a close: as a crash.
    });
    let objects = local(&path);
    run(&path, move |env| async move {
        let store = open(&env, objects).await;
        let region = store.open_region(spec_2).await.unwrap();
        assert_eq!(region.epoch(), epoch + 1);
        assert_eq!(
            get(&region, "row042", &Query::default()).await,
            ["f:a@1=v42", "g:b@2=x"]
        );
        write(&env, &region, vec![put("row042", "f", "a", 3, "new")]).await;
        assert_eq!(
            get(&region, "row042", &Query::default()).await,
            ["f:a@3=new", "g:b@2=x"]
        );
        region.flush().await.unwrap();
        assert_eq!(
            get(&region, "row042", &Query::default()).await,
            ["f:a@3=new", "g:b@2=x"]
        );
        assert_eq!(region.load().memstore_bytes, 0);
        assert!(region.load().store_files > 0);
        write(&env, &region, vec![put("zzz", "f", "a", 3, "last")]).await;
        store.close().await.unwrap();
        assert_eq!(
            region
                .get(b"zzz", &Query::default())
                .await
                .unwrap_err()
                .code(),
            Code::NotServingRegion
        );
    });
    let objects = local(&path);
    run(&path, move |env| async move {
        let store = open(&env, objects).await;
        let region = store.open_region(spec_3).await.unwrap();
        let rows = scan(&region, RowRange::all(), false, &Query::default()).await;
        assert_eq!(rows.len(), 101);
        assert_eq!(rows[100], ("zzz".to_owned(), vec!["f:a@3=last".to_owned()]));
        let mut reversed = scan(&region, RowRange::all(), true, &Query::default()).await;
        reversed.reverse();
        assert_eq!(rows, reversed);
        store.close().await.unwrap();
    });
}

#[test]
fn scans_have_ends() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects = local(dir.path());
    run(dir.path(), |env| async move {
        let store = open(&env, objects).await;
        let region = store.open_region(spec(&table)).await.unwrap();
        for row in ["a", "b", "b\0", "c", "d"] {
            write(&env, &region, vec![put(row, "f", "q", 1, row)]).await;
        }
        let range = |start: &str, include_start, stop: &str, include_stop| RowRange {
            start: bytes(start),
            include_start,
            stop: bytes(stop),
            include_stop,
        };
        for (range, expected) in [
            (range("b", true, "d", false), vec!["b", "b\0", "c"]),
            (range("b", false, "d", true), vec!["b\0", "c", "d"]),
            (range("", true, "b", true), vec!["a", "b"]),
            (range("c", true, "", false), vec!["c", "d"]),
            (range("c", true, "c", true), vec!["c"]),
            (range("c", false, "c", false), vec![]),
            (range("d", true, "a", true), vec![]),
        ] {
            for reversed in [false, true] {
                let mut rows: Vec<_> = scan(&region, range.clone(), reversed, &Query::default())
                    .await
                    .into_iter()
                    .map(|(row, _)| row)
                    .collect();
                if reversed {
                    rows.reverse();
                }
                assert_eq!(rows, expected, "{range:?}");
            }
        }
        store.close().await.unwrap();
    });
}

#[test]
fn a_scanner_keeps_its_moment() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects = local(dir.path());
    run(dir.path(), |env| async move {
        let store = open(&env, objects).await;
        let region = store.open_region(spec(&table)).await.unwrap();
        for row in ["a", "b", "c"] {
            write(&env, &region, vec![put(row, "f", "q", 1, "old")]).await;
        }
        let at = region.read_point().await.unwrap();
        let mut scanner = region
            .scan(RowRange::all(), false, Query::default(), at.clone())
            .await
            .unwrap();
        assert_eq!(
            show(&scanner.next_row().await.unwrap().unwrap()),
            ["f:q@1=old"]
        );
        write(
            &env,
            &region,
            vec![put("b", "f", "q", 2, "new"), put("bb", "f", "q", 2, "new")],
        )
        .await;
        region.flush().await.unwrap();
        write(
            &env,
            &region,
            vec![marker("c", "f", "q", 9, CellType::DeleteColumn)],
        )
        .await;
        region.flush().await.unwrap();
        region.compact(true).await.unwrap();
        assert_eq!(
            show(&scanner.next_row().await.unwrap().unwrap()),
            ["f:q@1=old"]
        );
        assert_eq!(
            show(&scanner.next_row().await.unwrap().unwrap()),
            ["f:q@1=old"]
        );
        assert!(scanner.next_row().await.unwrap().is_none());
        assert_eq!(
            show(&region.get_at(b"b", &Query::default(), &at).await.unwrap()),
            ["f:q@1=old"]
        );
        let now = scan(&region, RowRange::all(), false, &Query::default()).await;
        assert_eq!(now.len(), 3, "{now:?}");
        drop((scanner, at));
        store.close().await.unwrap();
    });
}

#[test]
fn locks_order_writes_and_time_out() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects = local(dir.path());
    run(dir.path(), |env| async move {
        use cadastre_env::Clock;
        let store = open(&env, objects).await;
        let region = store.open_region(spec(&table)).await.unwrap();
        let rows = || BTreeSet::from([bytes("r")]);
        let locks = region.lock_rows(rows(), deadline(&env)).await.unwrap();
        let soon = env.clock().mono() + std::time::Duration::from_millis(20);
        let error = region.lock_rows(rows(), soon).await.err().unwrap();
        assert_eq!(error.code(), Code::TimeoutIo);
        assert!(!locks.nonce(b"r", 1, 2).await.unwrap());
        let first = locks.timestamp(b"r");
        assert!(locks.timestamp(b"r") > first);
        locks
            .write(
                vec![put("r", "f", "q", first, "1")],
                &[(bytes("r"), 1, 2)],
                Durability::SyncWal,
            )
            .await
            .unwrap();
        let locks = region.lock_rows(rows(), deadline(&env)).await.unwrap();
        assert!(locks.nonce(b"r", 1, 2).await.unwrap());
        assert!(!locks.nonce(b"r", 1, 3).await.unwrap());
        assert_eq!(
            show(&locks.read(b"r", &Query::default()).await.unwrap()).len(),
            1
        );
        locks.settle().await.unwrap();
        assert!(locks.read(b"other", &Query::default()).await.is_err());
        drop(locks);
        let no_family = region.lock_rows(rows(), deadline(&env)).await.unwrap();
        let cells = vec![put("r", "nope", "q", 1, "1")];
        let error = no_family
            .write(cells, &[], Durability::SyncWal)
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::NoSuchColumnFamily);
        store.close().await.unwrap();
    });
}

/// Increments two rows in one write, so often.
async fn increment_both(env: FaultEnv, region: Region<FaultEnv>, rows: [&'static str; 2]) {
    for _ in 0..1000 {
        let locked = rows.iter().map(|row| bytes(row)).collect();
        let locks = region.lock_rows(locked, deadline(&env)).await.unwrap();
        let mut cells = Vec::new();
        for row in rows {
            let old = locks.read(row.as_bytes(), &Query::default()).await.unwrap();
            let count = old.first().map_or(0, |cell| {
                String::from_utf8_lossy(&cell.value).parse::<u64>().unwrap()
            });
            let at = locks.timestamp(row.as_bytes());
            cells.push(put(row, "f", "n", at, &(count + 1).to_string()));
        }
        locks.write(cells, &[], Durability::SyncWal).await.unwrap();
    }
}

/// Batches over the same rows, asked for in any order and on any core, never wait for each other in a ring (C9).
#[test]
fn batches_of_the_same_rows_never_lock_each_other_out() {
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run_on(2, FaultDisk::default(), |env| async move {
        let objects = std::sync::Arc::new(InMemory::new());
        let store = Store::open(env.clone(), objects, config()).await.unwrap();
        let region = store.open_region(spec(&table)).await.unwrap();
        let orders = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]];
        let work = orders.into_iter().enumerate().map(|(task, rows)| {
            let (here, region) = (env.clone(), region.clone());
            let (tell, told) = tokio::sync::oneshot::channel();
            env.spawn_on(task % 2, "batches", move || {
                Box::pin(async move {
                    increment_both(here, region, rows).await;
                    let _ = tell.send(());
                })
            });
            told
        });
        let work: Vec<_> = work.collect();
        for told in work {
            told.await.expect("every batch gets its locks");
        }
        for (row, expected) in [("a", 3000), ("b", 3000), ("c", 2000)] {
            let cells = region.get(row.as_bytes(), &Query::default()).await;
            assert_eq!(cells.unwrap()[0].value, expected.to_string(), "row {row}");
        }
        store.close().await.unwrap();
    });
}

/// Cells carry the sequence number of their write, and numbers go on over crashes, flushes and clean closes (C3).
#[test]
fn sequence_numbers_go_on_after_crashes_flushes_and_closes() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let mut last = 0;
    for round in 0..6 {
        let (objects, spec) = (local(dir.path()), spec(&table));
        last = run(dir.path(), move |env| async move {
            let store = open(&env, objects).await;
            let region = store.open_region(spec).await.unwrap();
            assert!(region.open_sequence_number() > last);
            let mut last = last;
            for n in 0..3 {
                let row = format!("{round}-{n}");
                let sequence = write(&env, &region, vec![put(&row, "f", "q", 1, "v")]).await;
                assert!(sequence > last, "{sequence} after {last}");
                let cells = region.get(row.as_bytes(), &Query::default()).await;
                assert_eq!(cells.unwrap()[0].sequence_id, sequence);
                last = sequence;
            }
            match round % 3 {
                0 => {}
                1 => region.flush().await.unwrap(),
                _ => store.close().await.unwrap(),
            }
            last
        });
    }
}

#[test]
fn a_second_open_fences_the_first_and_a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects = local(dir.path());
    run(dir.path(), |env| async move {
        let store = open(&env, std::sync::Arc::clone(&objects)).await;
        let region = store.open_region(spec(&table)).await.unwrap();
        write(&env, &region, vec![put("r", "f", "q", 1, "1")]).await;
        assert!(
            store.open_region(spec(&table)).await.is_err(),
            "open already"
        );
        let busy = Store::open(env.clone(), objects, config())
            .await
            .err()
            .unwrap();
        assert!(busy.message().contains("another process"), "{busy}");
        let mut stale = spec(&table);
        region.close().await.unwrap();
        stale.expected_epoch = Some(region.epoch() - 1);
        let error = store.open_region(stale).await.err().unwrap();
        assert_eq!(error.code(), Code::Fenced);
        let last = store.region_epoch(region.info()).await.unwrap();
        assert_eq!(last, region.epoch());
        let mut never = spec(&table);
        never.info.region_id += 1;
        assert_eq!(store.region_epoch(&never.info).await.unwrap(), 0);
        never.expected_epoch = Some(0);
        assert_eq!(store.open_region(never).await.unwrap().epoch(), 1);
        let mut next = spec(&table);
        next.expected_epoch = Some(last);
        let again = store.open_region(next).await.unwrap();
        assert_eq!(get(&again, "r", &Query::default()).await, ["f:q@1=1"]);
        store.close().await.unwrap();
        assert!(store.cluster_id().len() == 36);
        let _ = env.cores();
    });
}

#[test]
fn the_kv_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3_u8 {
        let objects = local(dir.path());
        run(dir.path(), move |env| async move {
            let store = open(&env, objects).await;
            let kv = store.open_kv("master").await.unwrap();
            let key = |n: u8| bytes::Bytes::from(vec![b'k', n]);
            for n in 0..round {
                assert_eq!(kv.get(&key(n)).await.unwrap(), Some(bytes("v")));
            }
            assert_eq!(
                kv.scan_prefix(b"k").await.unwrap().len(),
                usize::from(round)
            );
            kv.write(vec![(key(round), Some(bytes("v"))), (key(200), None)])
                .await
                .unwrap();
            if round == 1 {
                kv.close().await.unwrap();
            }
        });
    }
}

#[test]
fn a_deleted_region_leaves_no_directories() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects = local(dir.path());
    let root = dir.path().join("store");
    run(dir.path(), |env| async move {
        let store = open(&env, objects).await;
        let region = store.open_region(spec(&table)).await.unwrap();
        write(&env, &region, vec![put("r", "f", "q", 1, "1")]).await;
        region.flush().await.unwrap();
        assert!(root.join("data").is_dir());
        region.close().await.unwrap();
        store.delete_region(region.info()).await.unwrap();
        let left: Vec<_> = std::fs::read_dir(&root).unwrap().collect();
        assert_eq!(left.len(), 1, "the cluster file only: {left:?}");
        // And a region of the same path can be made again.
        let region = store.open_region(spec(&table)).await.unwrap();
        write(&env, &region, vec![put("r", "f", "q", 1, "1")]).await;
        store.close().await.unwrap();
    });
}
