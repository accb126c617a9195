//! SlateDB without us, with the settings that our regions give it and values as long as our packed rows: what this machine makes of
//! facts/storage-engine.md, which was measured on another one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cadastre_env::RealEnv;
use slatedb::config::{FlushOptions, FlushType, ReadOptions, ScanOptions, Settings};
use slatedb::{BloomFilterPolicy, Db, SstBlockSize, WriteBatch};

use crate::ROWS;
use crate::common::local;
use crate::meter::{Meter, head};
use crate::rows::{Shape, key, some};

#[allow(dead_code, reason = "the store clears regions out of it")]
#[path = "../../src/cache.rs"]
mod cache;

/// Of the block cache and of the memtable: everything fits.
const ROOM: usize = 1 << 30;

/// As our scans of many rows, bytes.
const READ_AHEAD: usize = 64 * 1024;

/// What is flushed at once.
const MEGABYTES: u32 = 128;

async fn open(dir: &Path) -> Db {
    let settings = Settings {
        flush_interval: None,
        compactor_options: None,
        garbage_collector_options: None,
        l0_sst_size_bytes: ROOM,
        max_unflushed_bytes: 4 * ROOM,
        ..Settings::default()
    };
    Db::builder("alone", local(dir))
        .with_settings(settings)
        .with_db_cache(Arc::new(cache::BlockCache::new(ROOM as u64)), 1)
        .with_sst_block_size(SstBlockSize::Block16Kib)
        .with_filter_policies(vec![Arc::new(BloomFilterPolicy::new(10))])
        .build()
        .await
        .unwrap()
}

/// As a packed row: the cells' values and what is beside them.
fn value(shape: Shape, row: &Bytes) -> Bytes {
    let mut all = Vec::new();
    for cell in shape.cells(row, 1) {
        all.extend_from_slice(&cell.qualifier);
        all.extend_from_slice(&[0; 12]);
        all.extend_from_slice(&cell.value);
    }
    all.into()
}

/// The key of a row's packed cells.
fn packed(n: u32) -> Bytes {
    let mut all = key(n).to_vec();
    all.extend_from_slice(&[0, 0, 0, 1, 0]);
    all.into()
}

async fn write(db: &Db, from: u32, count: u32, shape: Shape) {
    let mut batch = WriteBatch::new();
    for n in from..from + count {
        batch.put_bytes(packed(n), value(shape, &key(n)));
    }
    db.write(batch).await.unwrap();
}

async fn flush(db: &Db) {
    let options = FlushOptions {
        flush_type: FlushType::MemTable,
    };
    db.flush_with_options(options).await.unwrap();
}

/// The lines of a region's reads that SlateDB has a share in.
pub(crate) async fn reads(dir: &Path, shape: Shape) {
    let db = open(dir).await;
    for from in (0..ROWS).step_by(100) {
        write(&db, from, 100, shape).await;
    }
    flush(&db).await;
    gets(&db).await;
    for rows in [1, 100] {
        scans(&db, rows).await;
    }
    full_scan(&db).await;
    db.close().await.unwrap();
}

async fn gets(db: &Db) {
    let options = ReadOptions {
        cache_blocks: true,
        ..ReadOptions::default()
    };
    for n in 0..ROWS {
        db.get_with_options(packed(n), &options).await.unwrap();
    }
    let mut state = 1;
    let mut meter = Meter::start();
    while meter.goes_on() {
        let row = packed(some(&mut state, ROWS));
        let since = Instant::now();
        assert!(db.get_with_options(row, &options).await.unwrap().is_some());
        meter.lap(since);
    }
    meter.print("SlateDB alone: get, its block cached", 1);
}

async fn scans(db: &Db, rows: u32) {
    let options = ScanOptions {
        cache_blocks: true,
        read_ahead_bytes: if rows == 1 { 1 } else { READ_AHEAD },
        ..ScanOptions::default()
    };
    let mut state = 1;
    let mut meter = Meter::start();
    while meter.goes_on() {
        let start = packed(some(&mut state, ROWS - 200));
        let since = Instant::now();
        let mut entries = db.scan_with_options(start.., &options).await.unwrap();
        for _ in 0..rows {
            entries.next().await.unwrap().unwrap();
        }
        meter.lap(since);
    }
    meter.print(&format!("SlateDB alone: scan of {rows} rows, a scan"), 1);
}

async fn full_scan(db: &Db) {
    let options = ScanOptions {
        read_ahead_bytes: READ_AHEAD,
        ..ScanOptions::default()
    };
    let mut meter = Meter::start();
    let mut entries = db.scan_with_options(.., &options).await.unwrap();
    let mut since = Instant::now();
    while entries.next().await.unwrap().is_some() {
        meter.lap(since);
        since = Instant::now();
    }
    meter.print("SlateDB alone: full scan, a row", 1);
}

/// Puts into the memtable and a flush. Its own log is not written meanwhile.
pub(crate) async fn puts(_env: RealEnv, dir: PathBuf) {
    head("SlateDB alone: writes of 1 kB rows that no log makes durable");
    let db = open(&dir).await;
    let mut n = 0;
    for batch in [1, 10, 100] {
        let mut meter = Meter::start();
        while meter.goes_on() && n < ROWS * batch {
            let since = Instant::now();
            write(&db, n, batch, Shape::OneByOneKb).await;
            meter.lap(since);
            n += batch;
        }
        meter.print(&format!("{batch} rows a batch, a row"), batch);
    }
    flush(&db).await;
    for from in (n..n + MEGABYTES * 1024).step_by(128) {
        write(&db, from, 128, Shape::OneByOneKb).await;
    }
    let mut meter = Meter::start();
    meter.step(flush(&db)).await;
    meter.print(&format!("flush of {MEGABYTES} MB, a MB"), MEGABYTES);
    db.close().await.unwrap();
}
