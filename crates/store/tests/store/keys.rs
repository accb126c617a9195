//! Keys at the edges: searches for rows longer than any that can be written (C10), and the order of families, which is that of their
//! names and not that of their ids (C6).

use std::sync::Arc;

use crate::common::*;
use bytes::Bytes;
use cadastre_env::RealEnv;
use cadastre_store::{Region, RegionSpec, RowRange, Store};
use cadastre_types::{Cell, FamilyDescriptor, Query, RegionInfo, TableDescriptor};
use object_store::memory::InMemory;

fn range(start: &[u8], include_start: bool, stop: &[u8], include_stop: bool) -> RowRange {
    RowRange {
        start: Bytes::copy_from_slice(start),
        include_start,
        stop: Bytes::copy_from_slice(stop),
        include_stop,
    }
}

/// The number of rows that a scan shows, or that it fails.
async fn count(region: &Region<RealEnv>, range: RowRange, reversed: bool) -> Option<usize> {
    let at = region.read_point().await.unwrap();
    let query = Query::default();
    let mut scanner = region.scan(range, reversed, query, at).await.ok()?;
    let mut rows = 0;
    while scanner.next_row().await.ok()?.is_some() {
        rows += 1;
    }
    Some(rows)
}

/// Nothing is found at and around a key that nobody can have written, everything beside it is, and the region goes on.
async fn search(region: &Region<RealEnv>, key: &[u8], below: usize, above: usize) {
    for first in [None, Some(1)] {
        let got = region.get_first(key, &Query::default(), first).await;
        assert!(got.is_ok_and(|found| found.cells.is_empty()));
    }
    for reversed in [false, true] {
        for include in [false, true] {
            let up_to = range(b"", true, key, include);
            assert_eq!(count(region, up_to, reversed).await, Some(below));
            let from = range(key, include, b"", false);
            assert_eq!(count(region, from, reversed).await, Some(above));
            let only = range(key, true, key, include);
            assert_eq!(count(region, only, reversed).await, Some(0));
        }
    }
    assert!(!region.is_closed());
}

#[test]
fn c10_a_search_key_may_be_longer_than_any_row() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), |env| async move {
        let store = open(&env, Arc::new(InMemory::new())).await;
        let plain = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
        let plain = store.open_region(spec(&plain)).await.unwrap();
        for row in ["a", "b", "c"] {
            let cells = vec![put(row, "f", "q", 1, "v"), put(row, "g", "q", 1, "v")];
            write(&env, &plain, cells).await;
        }
        let meta = RegionSpec {
            info: RegionInfo::meta(),
            descriptor: Arc::new(TableDescriptor::meta()),
            expected_epoch: None,
        };
        let meta = store.open_region(meta).await.unwrap();
        for row in ["t,,1", "t,k,1", "u,,1"] {
            write(&env, &meta, vec![put(row, "info", "q", 1, "v")]).await;
        }
        for flushed in [false, true] {
            if flushed {
                plain.flush().await.unwrap();
                meta.flush().await.unwrap();
            }
            for (len, byte) in [
                (32_767, 0),
                (40_000, 0),
                (70_000, 0),
                (32_768, 1),
                (70_000, 1),
            ] {
                let tail = vec![byte; len];
                search(&plain, &tail, 0, 3).await;
                search(&plain, &[b"b", &tail[..]].concat(), 2, 1).await;
                // As a client looks for the region of a row: by any start key, and the highest id.
                let key = [b"t,k", &tail[..], b",99999999999999"].concat();
                search(&meta, &key, 2, 1).await;
                search(&meta, &[b"t,", &tail[..], b",:"].concat(), 1, 2).await;
                search(&meta, &[b"t", &tail[..]].concat(), 2, 1).await;
            }
        }
        // What is written is refused with words.
        let long = [vec![0; 32_767]].map(Bytes::from);
        let refused = plain.lock_rows(long.into(), deadline(&env)).await;
        assert!(refused.err().unwrap().message().contains("over the limit"));
        assert_eq!(get(&plain, "b", &Query::default()).await.len(), 2);
        store.close().await.unwrap();
    });
}

/// Families in the order of their ids are not in the order of their names.
async fn check_order(
    store: &Store<RealEnv>,
    env: &RealEnv,
    names: &'static [&'static str],
    id: u64,
) {
    let families = names.iter().map(|name| FamilyDescriptor::new(*name));
    let mut spec = spec(&descriptor(families.collect()));
    spec.info.region_id += id;
    let region = store.open_region(spec).await.unwrap();
    let mut expected = names.to_vec();
    expected.sort_unstable();
    let cells_of = |row: &str, columns: u32| -> Vec<Cell> {
        let all = names.iter().flat_map(|name| {
            (0..columns).map(move |q| put(row, name, &format!("q{q:04}"), 1, name))
        });
        all.collect()
    };
    // A wide row has more columns than are packed.
    for (row, columns) in [("narrow", 2), ("wide", 600)] {
        write(env, &region, cells_of(row, columns)).await;
    }
    for flushed in [false, true] {
        if flushed {
            region.flush().await.unwrap();
        }
        for (row, columns) in [("narrow", 2), ("wide", 600)] {
            // From the database, and maybe from the row cache.
            for _ in 0..2 {
                let cells = region.get(row.as_bytes(), &Query::default()).await;
                check_row(&cells.unwrap(), &expected, columns);
            }
            for reversed in [false, true] {
                let at = region.read_point().await.unwrap();
                let only = range(row.as_bytes(), true, row.as_bytes(), true);
                let query = Query::default();
                let mut scanner = region.scan(only, reversed, query, at).await.unwrap();
                let cells = scanner.next_row().await.unwrap().unwrap();
                check_row(&cells, &expected, columns);
            }
        }
    }
}

fn check_row(cells: &[Cell], families: &[&str], columns: usize) {
    assert_eq!(cells.len(), families.len() * columns);
    assert!(cells.is_sorted_by(|a, b| a.cmp_hbase(b).is_lt()));
    let seen = cells.chunk_by(|a, b| a.family == b.family);
    let seen: Vec<Bytes> = seen.map(|of_one| of_one[0].family.clone()).collect();
    assert_eq!(seen, families);
}

#[test]
fn c6_results_are_in_the_order_of_family_names() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), |env| async move {
        let store = open(&env, Arc::new(InMemory::new())).await;
        check_order(&store, &env, &["z", "a"], 1).await;
        // More than are read one by one.
        check_order(&store, &env, &["z", "m", "a", "n"], 2).await;
        store.close().await.unwrap();
    });
}
