//! A data directory written by each release opens in the next (T11). `tests/golden/<format>` was written by [`write_golden`], which the
//! test calls when the directory of a new format is missing; it is never written again for a format that was released.
//!
//! Format 1 had no list of the log's segments and none of starts. A directory named `…-shared` is of a store that machines share: its
//! log is among the objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::*;
use cadastre_store::{RowRange, Store, StoreConfig};
use cadastre_types::{CellType, Durability, FamilyDescriptor, Query, TableDescriptor};

/// What this program writes.
const CURRENT: [&str; 2] = ["2", "2-shared"];

fn golden(format: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    all.join(format)
}

/// The formats that there are.
fn formats() -> Vec<String> {
    let all = std::fs::read_dir(golden("")).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn small(format: &str) -> StoreConfig {
    let mut config = config();
    config.segment_bytes = 256 << 10;
    config.shared_store = format.ends_with("-shared");
    config
}

fn table() -> Arc<TableDescriptor> {
    descriptor(vec![
        FamilyDescriptor::new("f").with("VERSIONS", "3"),
        FamilyDescriptor::new("g"),
    ])
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn write_golden(format: &str) {
    let dir = &golden(format);
    std::fs::create_dir_all(dir).unwrap();
    let (objects, settings) = (local(dir), small(format));
    run(dir, |env| async move {
        let store = Store::open(env.clone(), objects, settings).await.unwrap();
        let region = store.open_region(spec(&table())).await.unwrap();
        // In files: packed, overflow and large cells, markers.
        write(
            &env,
            &region,
            vec![
                put("narrow", "f", "q", 1, "1"),
                put("narrow", "g", "", 2, "2"),
            ],
        )
        .await;
        write(
            &env,
            &region,
            (0..600)
                .map(|n| put("wide", "f", &format!("q{n:03}"), 1, "w"))
                .collect(),
        )
        .await;
        write(
            &env,
            &region,
            vec![put("large", "f", "q", 1, &"L".repeat(40_000))],
        )
        .await;
        write(&env, &region, vec![put("gone", "f", "q", 1, "1")]).await;
        write(
            &env,
            &region,
            vec![marker("gone", "f", "", 1, CellType::DeleteFamily)],
        )
        .await;
        region.flush().await.unwrap();
        // In the log only.
        write(
            &env,
            &region,
            vec![
                put("narrow", "f", "q", 3, "3"),
                put("log\0", "f", "q", 1, "1"),
            ],
        )
        .await;
        let locks = region
            .lock_rows([bytes("counted")].into(), deadline(&env))
            .await
            .unwrap();
        let cells = vec![put("counted", "f", "q", 1, "1")];
        locks
            .write(cells, &[(bytes("counted"), 7, 8)], Durability::SyncWal)
            .await
            .unwrap();
        let kv = store.open_kv("master").await.unwrap();
        kv.write(vec![(bytes("key"), Some(bytes("value")))])
            .await
            .unwrap();
    });
}

#[test]
fn t11_every_released_format_opens() {
    for format in CURRENT {
        let dir = golden(format);
        if !dir.exists() {
            write_golden(format);
            panic!(
                "{} was missing and is written now: commit it",
                dir.display()
            );
        }
    }
    let formats = formats();
    assert!(formats.len() > CURRENT.len(), "{formats:?}");
    for format in formats {
        opens(&format);
    }
}

fn opens(format: &str) {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden(format), dir.path());
    let (objects, settings) = (local(dir.path()), small(format));
    run(dir.path(), |env| async move {
        let store = Store::open(env.clone(), objects, settings).await.unwrap();
        let region = store.open_region(spec(&table())).await.unwrap();
        let rows: Vec<_> = scan(&region, RowRange::all(), false, &versions(9))
            .await
            .into_iter()
            .map(|(row, cells)| (row, cells.len()))
            .collect();
        let expected = [
            ("counted", 1),
            ("large", 1),
            ("log\0", 1),
            ("narrow", 3),
            ("wide", 600),
        ];
        assert_eq!(rows, expected.map(|(row, cells)| (row.to_owned(), cells)));
        assert_eq!(
            get(&region, "narrow", &Query::default()).await,
            ["f:q@3=3", "g:@2=2"]
        );
        // Nonces expire, so this one's effect is only that it can be read.
        let locks = region
            .lock_rows([bytes("counted")].into(), deadline(&env))
            .await
            .unwrap();
        locks.nonce(b"counted", 7, 8).await.unwrap();
        drop(locks);
        let kv = store.open_kv("master").await.unwrap();
        assert_eq!(kv.get(b"key").await.unwrap(), Some(bytes("value")));
        region.compact(true).await.unwrap();
        assert_eq!(
            scan(&region, RowRange::all(), true, &versions(9))
                .await
                .len(),
            5
        );
        store.close().await.unwrap();
    });
}
