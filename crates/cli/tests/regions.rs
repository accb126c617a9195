//! Regions are split and merged while a client writes, counts and scans: nothing is lost, nothing is there twice, nobody sees an error.

#![allow(clippy::unwrap_used, reason = "tests and their helpers")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use cadastre_client::{Client, ClientConfig, Registry, new_scan};
use cadastre_env::{HostPort, RealEnv, RealEnvConfig};
use cadastre_types::{Cell, FamilyDescriptor, LATEST_TIMESTAMP, Scan, TableDescriptor, TableName};

use common::Server;

/// Rows, each with a counter.
const ROWS: u64 = 200;

fn row(n: u64) -> Bytes {
    format!("row{n:04}").into()
}

fn family() -> Bytes {
    Bytes::from_static(b"f")
}

struct Work {
    client: Client<RealEnv>,
    table: TableName,
    stop: AtomicBool,
    counted: Vec<AtomicU64>,
    /// The last round of puts that was acknowledged.
    rounds: AtomicU64,
}

impl Work {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    async fn count(self: Arc<Self>, from: u64) {
        let mut n = from;
        while self.goes_on() {
            n = (n + 7) % ROWS;
            let column = Bytes::from_static(b"c");
            self.client
                .increment(&self.table, row(n), family(), column, 1)
                .await
                .unwrap();
            self.counted[n as usize].fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn put(self: Arc<Self>) {
        for round in 1.. {
            if !self.goes_on() {
                return;
            }
            let cells = (0..ROWS).map(|n| {
                let column = Bytes::from_static(b"v");
                let value = format!("{round:08}").into();
                Cell::put(row(n), family(), column, LATEST_TIMESTAMP, value)
            });
            for cell in cells {
                self.client.put(&self.table, vec![cell]).await.unwrap();
            }
            self.rounds.store(round, Ordering::SeqCst);
        }
    }

    async fn scan(self: Arc<Self>, reversed: bool) -> u64 {
        let mut scans = 0;
        while self.goes_on() {
            let acknowledged = self.rounds.load(Ordering::SeqCst);
            let scan = Scan {
                reversed,
                caching: 11,
                ..new_scan()
            };
            let mut rows = self.client.scan(&self.table, scan).unwrap();
            let mut expected: Vec<Bytes> = (0..ROWS).map(row).collect();
            if reversed {
                expected.reverse();
            }
            for expected in expected {
                let found = rows.next().await.unwrap();
                let found = found.expect("a row is missing");
                assert_eq!(found.key(), Some(&expected), "each row once, in order");
                let value = found.value(b"f", b"v").unwrap();
                let round: u64 = std::str::from_utf8(value).unwrap().parse().unwrap();
                assert!(round >= acknowledged, "an acknowledged write is not seen");
            }
            assert!(rows.next().await.unwrap().is_none(), "a row too many");
            scans += 1;
        }
        scans
    }
}

async fn run(env: RealEnv, registry: Registry) {
    let client = Client::connect(env.clone(), registry, ClientConfig::default()).unwrap();
    let admin = client.admin();
    let table = TableName::parse("t").unwrap();
    let descriptor = TableDescriptor::new(table.clone()).with_family(FamilyDescriptor::new("f"));
    admin.create_table(&descriptor, Vec::new()).await.unwrap();
    let work = Arc::new(Work {
        client: client.clone(),
        table: table.clone(),
        stop: AtomicBool::new(false),
        counted: (0..ROWS).map(|_| AtomicU64::new(0)).collect(),
        rounds: AtomicU64::new(0),
    });
    for n in 0..ROWS {
        let column = Bytes::from_static(b"v");
        let value = Bytes::from_static(b"00000000");
        let cell = Cell::put(row(n), family(), column, LATEST_TIMESTAMP, value);
        client.put(&table, vec![cell]).await.unwrap();
    }
    let changes = async {
        for round in 0..3 {
            for at in [100, 50, 150, 25] {
                admin.split_region(&table, &row(at), false).await.unwrap();
                assert_eq!(
                    client
                        .locate(&table, &row(at), true)
                        .await
                        .unwrap()
                        .region
                        .start_key,
                    row(at)
                );
            }
            assert_eq!(admin.table_regions(&table).await.unwrap().len(), 5);
            let merged = admin.merge_regions(&table, &row(30), &row(110)).await;
            assert_eq!(merged.unwrap(), 3, "round {round}");
            let merged = admin.merge_regions(&table, &row(0), &row(ROWS)).await;
            assert_eq!(merged.unwrap(), 3);
        }
        work.stop.store(true, Ordering::SeqCst);
    };
    let workers = async {
        tokio::join!(
            Arc::clone(&work).count(0),
            Arc::clone(&work).count(3),
            Arc::clone(&work).put(),
            Arc::clone(&work).scan(false),
            Arc::clone(&work).scan(true),
        )
    };
    let ((), ((), (), (), forward, backward)) = tokio::join!(changes, workers);
    assert!(forward > 0 && backward > 0);
    for (n, counted) in work.counted.iter().enumerate() {
        let zero = client
            .increment(&table, row(n as u64), family(), Bytes::from_static(b"c"), 0)
            .await;
        let counted = i64::try_from(counted.load(Ordering::SeqCst)).unwrap();
        assert_eq!(zero.unwrap(), counted, "row {n} is counted once each time");
    }
    client.close().await;
}

#[test]
fn readers_and_writers_do_not_notice() {
    let server = Server::start(2);
    let zookeeper = HostPort::parse(server.ready["zookeeper"].as_str().unwrap()).unwrap();
    let registry = Registry::ZooKeeper(vec![zookeeper], "/hbase".to_owned());
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let done = env.block_on(run(env.clone(), registry));
    env.shutdown();
    done.expect("the history comes to its end");
}
