//! What a table's attributes and a region's load say of its files: compression, sizes, names, the last major compaction.

use std::sync::Arc;

use crate::common::*;
use cadastre_env::RealEnv;
use cadastre_store::Region;
use cadastre_types::{Cell, FamilyDescriptor};
use object_store::memory::InMemory;

const ROWS: usize = 500;

/// Values that compress well, and a file of them.
async fn fill(env: &RealEnv, region: &Region<RealEnv>) {
    let cells: Vec<Cell> = (0..ROWS)
        .map(|row| {
            put(
                &format!("row{row:04}"),
                "f",
                "q",
                1,
                &"the same words ".repeat(20),
            )
        })
        .collect();
    write(env, region, cells).await;
    region.flush().await.unwrap();
}

/// Bytes of a region's files, of what they hold, and whether every row is there, before and after a major compaction.
fn sizes_of(dir: &std::path::Path, compression: &'static str) -> Vec<(u64, u64)> {
    let family = FamilyDescriptor::new("f").with("COMPRESSION", compression);
    let table = descriptor(vec![family]);
    run(dir, |env| async move {
        let store = open(&env, Arc::new(InMemory::new())).await;
        let region = store.open_region(spec(&table)).await.unwrap();
        let mut sizes = Vec::new();
        fill(&env, &region).await;
        for major in [false, true] {
            if major {
                region.compact(true).await.unwrap();
            }
            let load = region.load();
            sizes.push((
                load.store_file_bytes,
                region.raw_file_bytes().await.unwrap(),
            ));
            let found = get(&region, "row0499", &versions(1)).await;
            assert_eq!(found.len(), 1, "{compression}");
        }
        region.close().await.unwrap();
        store.close().await.unwrap();
        sizes
    })
}

#[test]
fn compressed_files_are_smaller_and_hold_the_same() {
    let sizes = |compression| {
        let dir = tempfile::tempdir().unwrap();
        sizes_of(dir.path(), compression)
    };
    let plain = sizes("NONE");
    for compression in ["LZ4", "SNAPPY", "GZ", "ZSTD"] {
        for ((bytes, raw), (plain_bytes, plain_raw)) in sizes(compression).into_iter().zip(&plain) {
            assert!(
                bytes * 3 < *plain_bytes,
                "{compression}: {bytes} of {plain_bytes}"
            );
            assert_eq!(raw, *plain_raw, "{compression}");
        }
    }
    assert!(
        plain
            .iter()
            .all(|(bytes, raw)| *raw > 100_000 && bytes >= raw)
    );
}

#[test]
fn the_last_major_compaction_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |env| async move {
        let objects = Arc::new(InMemory::new());
        let store = open(&env, objects).await;
        let region = store.open_region(spec(&table)).await.unwrap();
        let last = |region: &Region<RealEnv>| region.load().last_major_compaction_ms;
        region.compact(true).await.unwrap();
        assert_eq!(last(&region), 0, "there was nothing to compact");
        fill(&env, &region).await;
        assert_eq!(last(&region), 0);
        assert_eq!(region.file_names().unwrap().len(), 1);
        region.compact(true).await.unwrap();
        let ended = last(&region);
        assert!(ended > 1_700_000_000_000, "ms since 1970");
        fill(&env, &region).await;
        region.compact(false).await.unwrap();
        assert_eq!(last(&region), ended, "a minor compaction is none");
        region.close().await.unwrap();
        let region = store.open_region(spec(&table)).await.unwrap();
        assert_eq!(last(&region), ended, "after opening anew");
        region.close().await.unwrap();
        store.close().await.unwrap();
    });
}
