//! Flush and compaction, and what gets cost meanwhile.

use std::path::PathBuf;
use std::time::Instant;

use cadastre_env::RealEnv;
use cadastre_store::{Region, Store, WalSync};
use cadastre_types::Query;

use crate::common::{local, spec};
use crate::meter::{Meter, head};
use crate::rows::{Shape, key, some};
use crate::{config, load, table};

/// Rows of the table that is flushed while it is read: 128 MB.
const FLUSHED_ROWS: u32 = 128 * 1024;

/// Reads every row, so that the row cache has what has room in it.
async fn warm(region: &Region<RealEnv>) {
    for n in 0..FLUSHED_ROWS {
        region.get(&key(n), &Query::default()).await.unwrap();
    }
}

/// Gets of rows that were read before, while something runs in the background.
async fn gets_meanwhile(region: &Region<RealEnv>, what: &str, work: impl Future<Output = ()>) {
    let mut state = 1;
    let mut meter = Meter::start();
    tokio::pin!(work);
    loop {
        let row = key(some(&mut state, FLUSHED_ROWS));
        let since = Instant::now();
        region.get(&row, &Query::default()).await.unwrap();
        meter.lap(since);
        tokio::select! {
            biased;
            () = &mut work => break,
            () = tokio::task::yield_now() => {}
        }
    }
    meter.print(what, 1);
}

pub(crate) async fn background(env: RealEnv, dir: PathBuf) {
    let mut config = config(WalSync::Write);
    config.memtable_bytes = 1 << 30;
    config.unflushed_bytes = 2 << 30;
    let store = Store::open(env.clone(), local(&dir), config).await.unwrap();
    let region = store.open_region(spec(&table())).await.unwrap();
    head("Flush and compaction, and gets meanwhile");
    load(&env, &region, FLUSHED_ROWS, Shape::OneByOneKb).await;
    warm(&region).await;
    gets_meanwhile(&region, "a get of a cached row, alone", async {
        // As long as the flush takes, about.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    })
    .await;
    gets_meanwhile(
        &region,
        "a get of a cached row during the flush of 128 MB",
        async {
            region.flush().await.unwrap();
        },
    )
    .await;
    load(&env, &region, FLUSHED_ROWS, Shape::OneByOneKb).await;
    let mut meter = Meter::start();
    meter.step(region.flush()).await.unwrap();
    meter.print("flush of 128 MB, a MB", 128);
    load(&env, &region, FLUSHED_ROWS, Shape::OneByOneKb).await;
    region.flush().await.unwrap();
    let mut meter = Meter::start();
    meter.step(region.compact(true)).await.unwrap();
    meter.print("compaction of three files of 128 MB, a MB read", 3 * 128);
    load(&env, &region, FLUSHED_ROWS, Shape::OneByOneKb).await;
    region.flush().await.unwrap();
    warm(&region).await;
    gets_meanwhile(
        &region,
        "a get of a cached row during a compaction of 256 MB",
        async {
            region.compact(true).await.unwrap();
        },
    )
    .await;
    store.close().await.unwrap();
}
