//! `kill -9` of our own active master, with its whole server, while callers create tables: another server on another machine becomes active over the
//! same HDFS, started then or standing by before. Each table is made once, or told as unknown; clients find the new master by a list of addresses, or by a list of ZooKeepers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cadastre_client::{Client, ClientConfig, Registry, RetryPolicy};
use cadastre_env::{Env, HostPort, Listener, Net, RealEnv};
use cadastre_types::{Code, TableState};
use futures::future::join_all;

use crate::pair::Pair;
use crate::server::{Ports, Server, Starting, clear, table};

/// Kills in CI; `CADASTRE_HDFS_KILLS` for more.
const KILLS: usize = 2;

/// Callers by each registry.
const CALLERS: usize = 2;

/// What came of a caller's tables.
#[derive(Default)]
struct Made {
    done: Vec<String>,
    unknown: Vec<String>,
}

fn client(pair: &Pair, registry: Registry) -> Client<RealEnv> {
    let config = ClientConfig {
        retry: RetryPolicy {
            tries_max: 1000,
            pause_ms: 10,
            operation_timeout_ms: 120_000,
            rpc_timeout_ms: 10_000,
            ..RetryPolicy::default()
        },
        ..ClientConfig::default()
    };
    Client::connect(pair.env.clone(), registry, config).unwrap()
}

/// Two machines' ports, free a moment ago: clients must know both before they start.
async fn ports(pair: &Pair) -> [Ports; 2] {
    let mut listeners = Vec::new();
    for _ in 0..4 {
        let any = "127.0.0.1:0".parse().unwrap();
        listeners.push(pair.env.net().listen(any).await.unwrap());
    }
    let port = |at: usize| listeners[at].local_addr().port();
    [0, 2].map(|at| Ports {
        zookeeper: port(at),
        master: port(at + 1),
    })
}

/// What callers and whoever kills tell each other.
#[derive(Default)]
struct Progress {
    tables: AtomicUsize,
    stop: AtomicBool,
}

impl Progress {
    /// Waits until some more tables were made, so that the next kill comes in the middle of others.
    async fn more(&self, pair: &Pair) {
        let wanted = self.tables.load(Ordering::Relaxed) + CALLERS;
        while self.tables.load(Ordering::Relaxed) < wanted {
            pair.sleep(20).await;
        }
    }
}

/// Creates tables until it is told to stop.
async fn create(client: &Client<RealEnv>, name: String, progress: &Progress) -> Made {
    let mut made = Made::default();
    for number in 0.. {
        if progress.stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("{name}_{number}");
        // A table that exists was made by an earlier try: twice.
        let (admin, table) = (client.admin(), table(&name));
        match admin.create_table(&table, Vec::new()).await {
            Ok(()) => {
                made.done.push(name);
                progress.tables.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.code() == Code::OutcomeUnknown => made.unknown.push(name),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    made
}

pub(crate) async fn run(pair: Pair) {
    clear(&pair, "masters").await;
    let kills = std::env::var("CADASTRE_HDFS_KILLS");
    let kills = kills.map_or(KILLS, |text| text.parse().unwrap());
    let ports = ports(&pair).await;
    let all = |port: fn(&Ports) -> u16| {
        let at = ports.iter().map(|at| HostPort::new("127.0.0.1", port(at)));
        at.collect::<Vec<HostPort>>()
    };
    let zookeeper = Registry::ZooKeeper(all(|at| at.zookeeper), "/hbase".to_owned());
    let rpc = Registry::Rpc(all(|at| at.master));
    let clients = [
        ("zookeeper", client(&pair, zookeeper)),
        ("rpc", client(&pair, rpc)),
    ];
    let progress = Progress::default();
    let mut server = Server::start_at(&pair, "masters", ports[0]).await;
    let callers = clients.iter().flat_map(|(name, client)| {
        let progress = &progress;
        (0..CALLERS).map(move |at| create(client, format!("{name}{at}"), progress))
    });
    let killing = async {
        for kill in 1..=kills {
            progress.more(&pair).await;
            // One that stands by takes over by itself, or another one is started then.
            let (standby, at) = (kill % 2 == 0, ports[kill % 2]);
            let mut waiting = None;
            if standby {
                let mut other = Starting::launch(&pair, "masters", at, true);
                assert_eq!(other.event().await["event"], "standby");
                progress.more(&pair).await;
                waiting = Some(other);
            }
            // Killed when it is dropped.
            drop(server);
            let began = pair.now();
            let other = match waiting {
                Some(other) => other,
                None => Starting::launch(&pair, "masters", at, false),
            };
            server = other.ready().await;
            let took = (pair.now() - began).as_millis();
            pair.tell(&format!(
                "kill {kill}: another master after {took} ms, standby: {standby}"
            ));
        }
        progress.more(&pair).await;
        progress.stop.store(true, Ordering::Relaxed);
        server
    };
    let (made, _server) = futures::join!(join_all(callers), killing);
    let done: Vec<&String> = made.iter().flat_map(|made| &made.done).collect();
    let unknown: usize = made.iter().map(|made| made.unknown.len()).sum();
    let (_, client) = &clients[0];
    for name in &done {
        let state = client.table_state(&table(name).name).await.unwrap();
        assert_eq!(state, Some(TableState::Enabled), "{name}");
        let admin = client.admin();
        let regions = admin.table_regions(&table(name).name).await.unwrap();
        assert_eq!(regions.len(), 1, "{name}");
    }
    let listed = client.admin().list_tables(false).await.unwrap().len();
    let may_be = done.len()..=done.len() + unknown;
    assert!(may_be.contains(&listed), "{listed} tables, {may_be:?}");
    pair.tell(&format!(
        "{kills} kills, {} tables made once each, {unknown} unknown",
        done.len()
    ));
    for (_, client) in &clients {
        client.close().await;
    }
}
