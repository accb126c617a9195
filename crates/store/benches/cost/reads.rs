//! Reads of one region whose rows lie in one sorted run.

use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use cadastre_env::RealEnv;
use cadastre_store::{Region, RowRange, Store, StoreConfig, WalSync};
use cadastre_types::Query;

use crate::common::{local, spec};
use crate::meter::{Meter, head};
use crate::rows::{Shape, key, some};
use crate::{ROWS, alone, config, load, store, table};

/// Gets that find their block in the block cache, as those of a table whose rows do not fit in the row cache.
async fn block_gets(env: &RealEnv, dir: &Path) {
    let config = StoreConfig {
        row_cache_bytes: 0,
        ..config(WalSync::Write)
    };
    let store = Store::open(env.clone(), local(dir), config).await.unwrap();
    let region = store.open_region(spec(&table())).await.unwrap();
    gets(&region, "get, its block cached", true).await;
    multi_gets(&region, "blocks cached", true).await;
    store.close().await.unwrap();
}

async fn gets(region: &Region<RealEnv>, what: &str, cache: bool) {
    let query = Query {
        cache_blocks: cache,
        ..Query::default()
    };
    let mut state = 1;
    if cache {
        // Warm.
        for n in 0..ROWS {
            region.get(&key(n), &query).await.unwrap();
        }
    }
    let mut meter = Meter::start();
    while meter.goes_on() {
        let row = key(some(&mut state, ROWS));
        let since = Instant::now();
        assert!(!region.get(&row, &query).await.unwrap().is_empty());
        meter.lap(since);
    }
    meter.print(what, 1);
}

/// Of random rows, of which each is warm if it is cached at all.
async fn multi_gets(region: &Region<RealEnv>, how: &str, cache: bool) {
    let query = Query {
        cache_blocks: cache,
        ..Query::default()
    };
    let mut state = 1;
    let mut meter = Meter::start();
    while meter.goes_on() {
        let rows: Vec<Bytes> = (0..20).map(|_| key(some(&mut state, ROWS))).collect();
        let since = Instant::now();
        for row in &rows {
            region.get(row, &query).await.unwrap();
        }
        meter.lap(since);
    }
    meter.print(&format!("multi-get of 20, {how}, a row"), 20);
}

async fn scans(region: &Region<RealEnv>, rows: u32) {
    let mut state = 1;
    let mut meter = Meter::start();
    while meter.goes_on() {
        let range = RowRange {
            start: key(some(&mut state, ROWS - 200)),
            ..RowRange::all()
        };
        let since = Instant::now();
        let at = region.read_point().await.unwrap();
        let mut scanner = region
            .scan(range, false, Query::default(), at)
            .await
            .unwrap();
        for _ in 0..rows {
            scanner.next_row().await.unwrap().unwrap();
        }
        meter.lap(since);
    }
    meter.print(&format!("scan of {rows} rows, a scan"), 1);
}

async fn full_scan(region: &Region<RealEnv>) {
    let query = Query {
        cache_blocks: false,
        ..Query::default()
    };
    let mut meter = Meter::start();
    let at = region.read_point().await.unwrap();
    let mut scanner = region
        .scan(RowRange::all(), false, query, at)
        .await
        .unwrap();
    let mut since = Instant::now();
    while scanner.next_row().await.unwrap().is_some() {
        meter.lap(since);
        since = Instant::now();
    }
    meter.print("full scan, a row", 1);
}

pub(crate) async fn reads(env: RealEnv, dir: PathBuf, shape: Shape) {
    let store = store(&env, &dir, WalSync::Write).await;
    let region = store.open_region(spec(&table())).await.unwrap();
    load(&env, &region, ROWS, shape).await;
    region.flush().await.unwrap();
    region.compact(true).await.unwrap();
    head(&format!(
        "Reads: {ROWS} rows of {}, one sorted run",
        shape.name()
    ));
    gets(&region, "get, nothing cached (page cache)", false).await;
    multi_gets(&region, "nothing cached", false).await;
    gets(&region, "get, in the row cache", true).await;
    multi_gets(&region, "in the row cache", true).await;
    scans(&region, 1).await;
    scans(&region, 100).await;
    full_scan(&region).await;
    store.close().await.unwrap();
    // The directory is locked until nobody holds it.
    drop((region, store));
    block_gets(&env, &dir).await;
    alone::reads(&dir, shape).await;
}
