//! Two masters of ours over one store and one coordination server; the active one stops again and again while callers create tables. Each table is
//! made once, by whoever is active, and the client finds the new one by ZooKeeper and by the RPC registry. (`kill -9` of
//! whole servers of ours is in crates/cli/tests/hdfs, of HBase's masters in crates/client/tests/masters.)

#![allow(clippy::unwrap_used, reason = "tests and their helpers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cadastre_client::{Client, ClientConfig, Registry, RetryPolicy};
use cadastre_env::{Clock, Env, HostPort, Listener, Net, RealEnv, RealEnvConfig};
use cadastre_master::{Master, MasterConfig};
use cadastre_regionserver::{RegionServer, RegionServerConfig};
use cadastre_store::{Store, StoreConfig};
use cadastre_types::{FamilyDescriptor, TableDescriptor, TableName, TableState};
use futures::future::join_all;
use object_store::memory::InMemory;
use tokio::sync::watch;

/// No test takes longer, unless something hangs.
const LONG: Duration = Duration::from_secs(120);

/// Times that the active master stops.
const STOPS: usize = 4;

/// Callers by each registry.
const CALLERS: usize = 2;

struct Cluster {
    env: RealEnv,
    store: Store<RealEnv>,
    zookeeper: HostPort,
    region_server: RegionServer<RealEnv>,
    masters: Vec<Master<RealEnv>>,
    _stop: watch::Sender<bool>,
}

impl Cluster {
    async fn start(env: RealEnv) -> Self {
        let objects = Arc::new(InMemory::new());
        let store = Store::open(env.clone(), objects, StoreConfig::new(64 << 20));
        let store = store.await.unwrap();
        let listener = env.net().listen("127.0.0.1:0".parse().unwrap());
        let listener = listener.await.unwrap();
        let zookeeper = HostPort::new("127.0.0.1", listener.local_addr().port());
        let (stop, stopping) = watch::channel(false);
        let config = cadastre_coordination::ServerConfig::new(1);
        let serving = cadastre_coordination::serve(env.clone(), listener, config, stopping);
        env.spawn("coordination", serving);
        let first = master(&env, &store, &zookeeper).await;
        let second = master(&env, &store, &zookeeper).await;
        let config = RegionServerConfig {
            bind: "127.0.0.1".parse().unwrap(),
            port: 0,
            advertise_host: "127.0.0.1".to_owned(),
            coordination: vec![zookeeper.clone()],
            parent: "/hbase".to_owned(),
            session_timeout: Duration::from_secs(30),
            rpc: cadastre_rpc::ServerConfig::default(),
        };
        let region_server = RegionServer::start(env.clone(), store.clone(), config);
        let region_server = region_server.await.unwrap();
        first.ready().await.unwrap();
        Self {
            env,
            store,
            zookeeper,
            region_server,
            masters: vec![first, second],
            _stop: stop,
        }
    }

    fn client(&self, registry: Registry) -> Client<RealEnv> {
        let config = ClientConfig {
            retry: RetryPolicy {
                tries_max: 100,
                pause_ms: 5,
                operation_timeout_ms: 60_000,
                rpc_timeout_ms: 10_000,
                ..RetryPolicy::default()
            },
            ..ClientConfig::default()
        };
        Client::connect(self.env.clone(), registry, config).unwrap()
    }

    /// The active one stops, the other one takes over, and a new one stands by.
    async fn fail_over(&mut self) {
        let active = self.masters.remove(0);
        active.stop().await;
        self.masters[0].ready().await.unwrap();
        let standby = master(&self.env, &self.store, &self.zookeeper).await;
        self.masters.push(standby);
    }

    async fn stop(self) {
        for master in self.masters.iter().rev() {
            master.stop().await;
        }
        self.region_server.stop().await;
        self.store.close().await.unwrap();
    }
}

async fn master(env: &RealEnv, store: &Store<RealEnv>, zookeeper: &HostPort) -> Master<RealEnv> {
    let config = MasterConfig {
        bind: "127.0.0.1".parse().unwrap(),
        port: 0,
        advertise_host: "127.0.0.1".to_owned(),
        coordination: vec![zookeeper.clone()],
        parent: "/hbase".to_owned(),
        session_timeout: Duration::from_secs(30),
        min_servers: 1,
        rpc: cadastre_rpc::ServerConfig::default(),
    };
    Master::start(env.clone(), store.clone(), config)
        .await
        .unwrap()
}

/// Creates tables until it is told to stop; every one must succeed, once. Gives how many.
async fn create(client: &Client<RealEnv>, name: String, stop: &AtomicBool) -> usize {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return number;
        }
        let table = TableDescriptor::new(TableName::parse(&format!("{name}_{number}")).unwrap())
            .with_family(FamilyDescriptor::new("f"));
        // A table that exists was made by an earlier try: twice.
        client
            .admin()
            .create_table(&table, Vec::new())
            .await
            .unwrap();
    }
    0
}

async fn run(env: RealEnv) {
    let mut cluster = Cluster::start(env.clone()).await;
    let zookeeper = Registry::ZooKeeper(vec![cluster.zookeeper.clone()], "/hbase".to_owned());
    let server = cluster.region_server.name();
    let rpc = Registry::Rpc(vec![HostPort::new("127.0.0.1", server.port)]);
    let clients = [
        ("zookeeper", cluster.client(zookeeper)),
        ("rpc", cluster.client(rpc)),
    ];
    let stop = AtomicBool::new(false);
    let callers = clients.iter().flat_map(|(name, client)| {
        let stop = &stop;
        (0..CALLERS).map(move |at| create(client, format!("{name}{at}"), stop))
    });
    let fails_over = async {
        for _ in 0..STOPS {
            env.clock().sleep(Duration::from_millis(300)).await;
            cluster.fail_over().await;
        }
        env.clock().sleep(Duration::from_millis(300)).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (made, ()) = futures::join!(join_all(callers), fails_over);
    for (at, made) in made.iter().enumerate() {
        assert!(*made > STOPS, "{made:?} tables");
        let (name, client) = &clients[at / CALLERS];
        for number in 0..*made {
            let name = format!("{name}{}_{number}", at % CALLERS);
            let table = TableName::parse(&name).unwrap();
            let state = client.table_state(&table).await.unwrap();
            assert_eq!(state, Some(TableState::Enabled), "{name}");
        }
    }
    let listed = clients[0].1.admin().list_tables(false).await.unwrap();
    assert_eq!(listed.len(), made.iter().sum::<usize>());
    for (_, client) in &clients {
        client.close().await;
    }
    cluster.stop().await;
}

#[test]
fn tables_are_made_once_while_masters_come_and_go() {
    let data = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: data.path().to_owned(),
        cores: 2,
        background_threads: 2,
    })
    .unwrap();
    let (clock, here) = (env.clock().clone(), env.clone());
    let ended = env.block_on(async move { clock.timeout(LONG, run(here)).await });
    env.shutdown();
    assert!(matches!(ended, Some(Ok(()))), "failed, or took too long");
}
