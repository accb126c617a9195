//! The row cache is never seen: readers on another core than the writers see every acknowledged write, whole, and no row goes back (C1,
//! C2, INV-6), whatever is in the cache.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::*;
use cadastre_env::{Env, RealEnv};
use cadastre_store::{RegionSpec, Store};
use cadastre_types::{
    Cell, CellType, Durability, FamilyDescriptor, Qualifiers, Query, TableDescriptor,
};
use object_store::memory::InMemory;

const ROWS: usize = 4;
const WRITES: u64 = 400;
const READERS: usize = 3;

fn number(cell: &Cell) -> u64 {
    String::from_utf8_lossy(&cell.value).parse().unwrap()
}

async fn fresh(env: &RealEnv, table: &Arc<TableDescriptor>) -> (Store<RealEnv>, RegionSpec) {
    (open(env, Arc::new(InMemory::new())).await, spec(table))
}

#[test]
fn readers_of_another_core_see_no_row_go_back_and_none_torn() {
    readers_see_no_row_go_back(&["f", "g"]);
}

/// More families than are read one by one.
#[test]
fn readers_of_many_families_see_no_row_go_back_and_none_torn() {
    readers_see_no_row_go_back(&["f", "g", "h", "i"]);
}

fn readers_see_no_row_go_back(families: &'static [&str]) {
    let dir = tempfile::tempdir().unwrap();
    let all = families.iter().map(|name| FamilyDescriptor::new(*name));
    let table = descriptor(all.collect());
    run(dir.path(), move |env| async move {
        let (store, spec) = fresh(&env, &table).await;
        let region = store.open_region(spec).await.unwrap();
        let acknowledged: Arc<Vec<AtomicU64>> =
            Arc::new((0..ROWS).map(|_| AtomicU64::new(0)).collect());
        let mut readers = Vec::new();
        for reader in 0..READERS {
            let (region, acknowledged) = (region.clone(), Arc::clone(&acknowledged));
            let (done, wait) = tokio::sync::oneshot::channel();
            let work = async move {
                let mut seen = [0; ROWS];
                while seen.iter().any(|seen| *seen < WRITES) {
                    for (row, seen) in seen.iter_mut().enumerate() {
                        let least = acknowledged[row].load(Ordering::SeqCst).max(*seen);
                        // One family alone, both, and now and then a row's absence beside.
                        let query = if reader == 0 {
                            Query {
                                columns: BTreeMap::from([(bytes("f"), Qualifiers::All)]),
                                ..Query::default()
                            }
                        } else {
                            Query::default()
                        };
                        let key = format!("row{row}");
                        let cells = region.get(key.as_bytes(), &query).await.unwrap();
                        let numbers: Vec<u64> = cells.iter().map(number).collect();
                        assert!(
                            numbers.windows(2).all(|pair| pair[0] == pair[1]),
                            "torn: {numbers:?}"
                        );
                        assert!(
                            [0, 1, families.len()].contains(&numbers.len()),
                            "half a row: {numbers:?}"
                        );
                        let now = numbers.first().copied().unwrap_or(0);
                        assert!(now >= least, "{key}: {now} after {least}");
                        *seen = now;
                    }
                    tokio::task::yield_now().await;
                }
                let _ = done.send(());
            };
            let _runs_on = env.spawn_on(1, "reader", move || Box::pin(work));
            readers.push(wait);
        }
        for n in 1..=WRITES {
            for row in 0..ROWS {
                let key = format!("row{row}");
                let locks = region
                    .lock_rows([bytes(&key)].into(), deadline(&env))
                    .await
                    .unwrap();
                let old = locks.read(key.as_bytes(), &Query::default()).await.unwrap();
                assert_eq!(old.first().map_or(0, number), n - 1, "a locked read");
                let at = locks.timestamp(key.as_bytes());
                let value = n.to_string();
                let cells = families.iter().map(|f| put(&key, f, "q", at, &value));
                let cells = cells.collect();
                locks.write(cells, &[], Durability::SyncWal).await.unwrap();
                acknowledged[row].store(n, Ordering::SeqCst);
            }
            if n % 100 == 0 {
                region.flush().await.unwrap();
                region.compact(n % 200 == 0).await.unwrap();
            }
        }
        for reader in readers {
            reader.await.expect("a reader saw something wrong");
        }
        store.close().await.unwrap();
    });
}

#[test]
fn what_a_major_compaction_drops_is_not_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |env| async move {
        let (store, spec) = fresh(&env, &table).await;
        let region = store.open_region(spec).await.unwrap();
        let cells = vec![
            put("r", "f", "a", 1, "a"),
            marker("r", "f", "b", 9, CellType::DeleteColumn),
        ];
        write(&env, &region, cells).await;
        for _ in 0..3 {
            assert_eq!(get(&region, "r", &versions(5)).await, ["f:a@1=a"]);
        }
        region.compact(true).await.unwrap();
        // The marker is gone, as after HBase's: an older put shows.
        write(&env, &region, vec![put("r", "f", "b", 5, "b")]).await;
        assert_eq!(get(&region, "r", &versions(5)).await.len(), 2);
        store.close().await.unwrap();
    });
}

#[test]
fn a_changed_table_is_seen_in_cached_rows() {
    let dir = tempfile::tempdir().unwrap();
    let table =
        |versions: &str| descriptor(vec![FamilyDescriptor::new("f").with("VERSIONS", versions)]);
    run(dir.path(), |env| async move {
        let (store, spec) = fresh(&env, &table("3")).await;
        let region = store.open_region(spec).await.unwrap();
        let cells = (1..=3).map(|n| put("r", "f", "q", n, "v")).collect();
        write(&env, &region, cells).await;
        for _ in 0..3 {
            assert_eq!(get(&region, "r", &versions(9)).await.len(), 3);
        }
        region.alter(table("2")).await.unwrap();
        assert_eq!(get(&region, "r", &versions(9)).await.len(), 2);
        store.close().await.unwrap();
    });
}
