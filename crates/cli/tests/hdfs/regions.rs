//! Regions that are split and merged while their tables lie on HDFS: under load with NameNodes that are killed, and with a server that is killed in
//! the middle of a split. Every acknowledged increment counts once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;
use cadastre_client::Client;
use cadastre_env::{Env, RealEnv};
use cadastre_types::TableName;
use futures::future::{Either, select};
use tokio::sync::mpsc;

use crate::load::kill_one;
use crate::pair::{Pair, REST_MS};
use crate::server::{Server, clear, table};

/// Rows, each with a counter.
const ROWS: u64 = 24;

const CALLERS: u64 = 3;

/// When the server is killed after a split was asked for, ms.
const KILLED_AFTER_MS: [u64; 2] = [100, 500];

fn row(n: u64) -> Bytes {
    format!("row{n:04}").into()
}

struct Counts {
    table: TableName,
    acknowledged: Vec<AtomicI64>,
    stop: AtomicBool,
}

impl Counts {
    async fn increment(&self, client: &Client<RealEnv>, n: u64, by: i64) -> i64 {
        let part = Bytes::from_static;
        let counted = client.increment(&self.table, row(n), part(b"f"), part(b"q"), by);
        counted.await.unwrap()
    }

    async fn count(self: Arc<Self>, pair: Pair, client: Client<RealEnv>, from: u64) {
        let mut n = from;
        while !self.stop.load(Ordering::Relaxed) {
            n = (n + 7) % ROWS;
            self.increment(&client, n, 1).await;
            self.acknowledged[n as usize].fetch_add(1, Ordering::Relaxed);
            pair.sleep(REST_MS).await;
        }
    }

    /// Every row has what was acknowledged, and no more.
    async fn check(&self, client: &Client<RealEnv>) {
        for n in 0..ROWS {
            let there = self.increment(client, n, 0).await;
            let wanted = self.acknowledged[n as usize].load(Ordering::Relaxed);
            assert_eq!(there, wanted, "row {n}");
        }
    }
}

/// Into four and back into one, with a NameNode killed in the middle of a split and of a merge.
async fn change(pair: &Pair, client: &Client<RealEnv>, table: &TableName) {
    let admin = client.admin();
    admin.split_region(table, &row(12), false).await.unwrap();
    let split_at = row(6);
    let split = admin.split_region(table, &split_at, false);
    let (split, without) = futures::join!(split, kill_one(pair));
    split.unwrap();
    pair.tell(&format!("a split went over {} ms", without.as_millis()));
    admin.split_region(table, &row(18), false).await.unwrap();
    let regions = admin.table_regions(table).await.unwrap();
    let starts: Vec<&Bytes> = regions.iter().map(|at| &at.region.start_key).collect();
    assert_eq!(starts, [&Bytes::new(), &row(6), &row(12), &row(18)]);
    let (first, last) = (row(0), row(ROWS));
    let merge = admin.merge_regions(table, &first, &last);
    let (merged, without) = futures::join!(merge, kill_one(pair));
    assert_eq!(merged.unwrap(), 4);
    pair.tell(&format!("a merge went over {} ms", without.as_millis()));
    assert_eq!(admin.table_regions(table).await.unwrap().len(), 1);
}

pub(crate) async fn run(pair: Pair) {
    clear(&pair, "regions").await;
    let server = Server::start(&pair, "regions").await;
    let client = server.client(&pair);
    let descriptor = table("counted");
    let name = descriptor.name.clone();
    let made = client.admin().create_table(&descriptor, Vec::new()).await;
    made.unwrap();
    let counts = Arc::new(Counts {
        table: name.clone(),
        acknowledged: (0..ROWS).map(|_| AtomicI64::new(0)).collect(),
        stop: AtomicBool::new(false),
    });
    let (ended, mut ends) = mpsc::channel::<()>(1);
    for caller in 0..CALLERS {
        let counting = Arc::clone(&counts).count(pair.clone(), client.clone(), caller * 3);
        let ended = ended.clone();
        pair.env.spawn("caller", async move {
            counting.await;
            drop(ended);
        });
    }
    drop(ended);
    change(&pair, &client, &name).await;
    counts.stop.store(true, Ordering::Relaxed);
    // Ends when the last caller has dropped its end.
    assert!(ends.recv().await.is_none());
    let counted = |count: &AtomicI64| count.load(Ordering::Relaxed);
    let total: i64 = counts.acknowledged.iter().map(counted).sum();
    assert!(total > 0, "nothing was counted");
    counts.check(&client).await;
    client.close().await;
    drop(server);
    killed_in_the_middle(&pair, &counts).await;
    pair.tell(&format!("{total} increments counted once each"));
}

/// A server is killed in the middle of a split; the next one, on another machine, has each row in one region, and goes on splitting and merging.
async fn killed_in_the_middle(pair: &Pair, counts: &Counts) {
    for (at, after_ms) in (3..).step_by(5).zip(KILLED_AFTER_MS) {
        let server = Server::start(pair, "regions").await;
        let client = server.client(pair);
        let admin = client.admin();
        let split_at = row(at);
        let split = Box::pin(admin.split_region(&counts.table, &split_at, false));
        let kill = Box::pin(pair.sleep(after_ms));
        let done = matches!(select(split, kill).await, Either::Left((Ok(()), _)));
        drop(server);
        client.close().await;
        let server = Server::start(pair, "regions").await;
        let client = server.client(pair);
        counts.check(&client).await;
        let admin = client.admin();
        let regions = admin.table_regions(&counts.table).await.unwrap();
        assert!(
            !done || regions.len() > 1,
            "a split that was told is undone"
        );
        // Wherever the other one ended.
        admin
            .split_region(&counts.table, &row(at + 1), false)
            .await
            .unwrap();
        let (first, last) = (row(0), row(ROWS));
        let merged = admin.merge_regions(&counts.table, &first, &last);
        let merged = merged.await.unwrap();
        assert!(merged > 1);
        counts.check(&client).await;
        pair.tell(&format!(
            "killed {after_ms} ms after a split began (it was told: {done}), {merged} regions merged"
        ));
        client.close().await;
    }
}
