//! Puts in each durability, increments, and the wide row.

use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use cadastre_env::RealEnv;
use cadastre_store::{Region, WalSync};
use cadastre_types::{Cell, Durability, Qualifiers, Query};

use crate::common::{bytes, deadline, spec};
use crate::meter::{Meter, head};
use crate::rows::{Shape, key, some};
use crate::{put, store, table};

pub(crate) async fn puts(env: RealEnv, dir: PathBuf, sync: WalSync) {
    let store = store(&env, &dir, sync).await;
    let region = store.open_region(spec(&table())).await.unwrap();
    head(&format!("Writes of 1 kB rows, --wal-sync {sync:?}"));
    let modes = [
        Durability::SyncWal,
        Durability::FsyncWal,
        Durability::AsyncWal,
        Durability::SkipWal,
    ];
    let mut n = 0;
    for how in modes {
        for batch in [1, 10, 100] {
            let mut meter = Meter::start();
            while meter.goes_on() {
                let cells: Vec<Cell> = (n..n + batch)
                    .flat_map(|n| Shape::OneByOneKb.cells(&key(n), 1))
                    .collect();
                n += batch;
                let since = Instant::now();
                put(&env, &region, cells, how).await;
                meter.lap(since);
            }
            meter.print(&format!("{how:?}, {batch} rows a batch, a row"), batch);
        }
    }
    increments(&env, &region).await;
    store.close().await.unwrap();
}

async fn increments(env: &RealEnv, region: &Region<RealEnv>) {
    let mut meter = Meter::start();
    let mut value = 0;
    while meter.goes_on() {
        let since = Instant::now();
        let locks = region
            .lock_rows([bytes("counter")].into(), deadline(env))
            .await
            .unwrap();
        locks.read(b"counter", &Query::default()).await.unwrap();
        value += 1;
        let at = locks.timestamp(b"counter");
        let cell = Cell::put(
            bytes("counter"),
            bytes("f"),
            bytes("n"),
            at,
            Bytes::copy_from_slice(&i64::to_be_bytes(value)),
        );
        locks
            .write(vec![cell], &[], Durability::SyncWal)
            .await
            .unwrap();
        meter.lap(since);
    }
    meter.print("increment of one hot cell", 1);
}

pub(crate) async fn wide(env: RealEnv, dir: PathBuf) {
    let store = store(&env, &dir, WalSync::Write).await;
    let region = store.open_region(spec(&table())).await.unwrap();
    head("One row of 100,000 columns of 100 B");
    let column = |n: u32| {
        let value = Bytes::from(vec![7; 100]);
        Cell::put(
            bytes("wide"),
            bytes("f"),
            bytes(&format!("q{n:06}")),
            1,
            value,
        )
    };
    for from in (0..100_000).step_by(1000) {
        let cells = (from..from + 1000).map(column).collect();
        put(&env, &region, cells, Durability::SyncWal).await;
    }
    region.flush().await.unwrap();
    let mut state = 1;
    let mut meter = Meter::start();
    while meter.goes_on() {
        let qualifier = bytes(&format!("q{:06}", some(&mut state, 100_000)));
        let query = Query {
            columns: [(bytes("f"), Qualifiers::These([qualifier].into()))].into(),
            ..Query::default()
        };
        let since = Instant::now();
        assert_eq!(region.get(b"wide", &query).await.unwrap().len(), 1);
        meter.lap(since);
    }
    meter.print("get of one column", 1);
    let mut meter = Meter::start();
    while meter.goes_on() {
        let since = Instant::now();
        let cells = vec![column(some(&mut state, 100_000))];
        put(&env, &region, cells, Durability::SyncWal).await;
        meter.lap(since);
    }
    meter.print("put of one column", 1);
    let mut meter = Meter::start();
    let since = Instant::now();
    let all = region.get(b"wide", &Query::default()).await.unwrap();
    meter.lap(since);
    meter.print(
        "get of the whole row, a column",
        u32::try_from(all.len()).unwrap(),
    );
    store.close().await.unwrap();
}
