//! What the store's integration tests share.

#![allow(dead_code, reason = "the bench uses a part")]

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, RealEnv, RealEnvConfig};
use cadastre_store::{
    Follower, LogChange, Region, RegionSpec, RowRange, Store, StoreConfig, WalSync,
};
use cadastre_types::{
    Cell, CellType, Durability, FamilyDescriptor, Query, RegionInfo, TableDescriptor, TableName,
};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

pub(crate) fn env(dir: &Path) -> RealEnv {
    RealEnv::start(&RealEnvConfig {
        data_dir: dir.to_owned(),
        cores: 2,
        background_threads: 1,
    })
    .unwrap()
}

pub(crate) fn local(dir: &Path) -> Arc<dyn ObjectStore> {
    let dir = dir.join("store");
    std::fs::create_dir_all(&dir).unwrap();
    Arc::new(
        LocalFileSystem::new_with_prefix(dir)
            .unwrap()
            .with_fsync(true)
            .with_automatic_cleanup(true),
    )
}

/// Small sizes, so that much happens.
pub(crate) fn config() -> StoreConfig {
    let mut config = StoreConfig::new(64 << 20);
    config.segment_bytes = 1 << 20;
    config.memtable_bytes = 1 << 20;
    config.low_space_bytes = 0;
    config.wal_sync = WalSync::Fdatasync;
    config
}

pub(crate) fn descriptor(families: Vec<FamilyDescriptor>) -> Arc<TableDescriptor> {
    let mut table = TableDescriptor::new(TableName::parse("t").unwrap());
    for (at, mut family) in families.into_iter().enumerate() {
        family.id = at as u16 + 1;
        table = table.with_family(family);
    }
    Arc::new(table)
}

pub(crate) fn spec(descriptor: &Arc<TableDescriptor>) -> RegionSpec {
    RegionSpec {
        info: RegionInfo::new(
            TableName::parse("t").unwrap(),
            Bytes::new(),
            Bytes::new(),
            1_700_000_000_000,
        ),
        descriptor: Arc::clone(descriptor),
        expected_epoch: None,
    }
}

pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) fn put(row: &str, family: &str, qualifier: &str, timestamp: i64, value: &str) -> Cell {
    Cell::put(
        bytes(row),
        bytes(family),
        bytes(qualifier),
        timestamp,
        bytes(value),
    )
}

pub(crate) fn marker(
    row: &str,
    family: &str,
    qualifier: &str,
    timestamp: i64,
    kind: CellType,
) -> Cell {
    Cell {
        cell_type: kind,
        ..put(row, family, qualifier, timestamp, "")
    }
}

pub(crate) fn deadline<E: Env>(env: &E) -> Duration {
    env.clock().mono() + Duration::from_secs(10)
}

/// Writes cells of any rows in one batch.
pub(crate) async fn write<E: Env>(env: &E, region: &Region<E>, cells: Vec<Cell>) -> u64 {
    let rows: BTreeSet<Bytes> = cells.iter().map(|cell| cell.row.clone()).collect();
    let locks = region.lock_rows(rows, deadline(env)).await.unwrap();
    locks.write(cells, &[], Durability::SyncWal).await.unwrap()
}

/// `qualifier@timestamp=value` of each cell, markers by their type.
pub(crate) fn show(cells: &[Cell]) -> Vec<String> {
    cells
        .iter()
        .map(|cell| {
            let value = if cell.cell_type == CellType::Put {
                String::from_utf8_lossy(&cell.value).into_owned()
            } else {
                format!("{:?}", cell.cell_type)
            };
            format!(
                "{}:{}@{}={value}",
                String::from_utf8_lossy(&cell.family),
                String::from_utf8_lossy(&cell.qualifier),
                cell.timestamp
            )
        })
        .collect()
}

pub(crate) fn versions(max: u32) -> Query {
    Query {
        max_versions: max,
        ..Query::default()
    }
}

pub(crate) async fn get<E: Env>(region: &Region<E>, row: &str, query: &Query) -> Vec<String> {
    show(&region.get(row.as_bytes(), query).await.unwrap())
}

/// Row keys and cells of a scan.
pub(crate) async fn scan<E: Env>(
    region: &Region<E>,
    range: RowRange,
    reversed: bool,
    query: &Query,
) -> Vec<(String, Vec<String>)> {
    let at = region.read_point().await.unwrap();
    let mut scanner = region
        .scan(range, reversed, query.clone(), at)
        .await
        .unwrap();
    let mut rows = Vec::new();
    while let Some(cells) = scanner.next_row().await.unwrap() {
        let row = String::from_utf8_lossy(&cells[0].row).into_owned();
        rows.push((row, show(&cells)));
    }
    rows
}

/// How often families of rows began to have overflow cells, and had none any more (C4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    pub(crate) wide: usize,
    pub(crate) narrow: usize,
}

/// Reads on in a region's log up to the first write of a row: how the others turned.
pub(crate) async fn turns<E: Env>(follower: &mut Follower<E>, up_to: &str) -> Turns {
    let last = [up_to.as_bytes(), &[0, 0]].concat();
    let mut turns = Turns::default();
    let mut wide: BTreeMap<Bytes, bool> = BTreeMap::new();
    loop {
        let batch = follower.next().await.unwrap().unwrap();
        for change in batch.changes {
            let (key, value, whole) = match change {
                LogChange::Put { key, value } => (key, value, true),
                LogChange::Merge { key, value } => (key, value, false),
                LogChange::Delete { .. } => continue,
            };
            if key.starts_with(&last) {
                return turns;
            }
            // Of a packed value: two bytes of family and a zero after the row, and the flag in its second byte.
            let row = key.windows(2).position(|pair| pair == [0, 0]).unwrap();
            if key.len() != row + 2 + 3 || key[row + 4] != 0 {
                continue;
            }
            let flagged = value[1] & 1 == 1;
            let before = wide.entry(key).or_default();
            if flagged && !*before {
                turns.wide += 1;
                *before = true;
            } else if whole && !flagged && *before {
                turns.narrow += 1;
                *before = false;
            }
        }
    }
}

/// Runs on core 0 of a fresh environment over the directory; what is left open then is as after a crash.
pub(crate) fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    dir: &Path,
    program: impl FnOnce(RealEnv) -> F,
) -> T {
    let env = env(dir);
    let answer = env
        .block_on(program(env.clone()))
        .expect("the program panicked");
    env.shutdown();
    answer
}

pub(crate) async fn open<E: Env>(env: &E, objects: Arc<dyn ObjectStore>) -> Store<E> {
    Store::open(env.clone(), objects, config()).await.unwrap()
}
