//! The read lease (C22): a server that cannot hear of the coordination service answers nothing once its session may be over, since
//! somebody else might serve its regions by then; it does not end, and answers again when the service does.
//!
//! The coordination service has a machine of its own here, which stands still for longer than the session's timeout.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_client::{Client, ClientConfig, Registry, RetryPolicy, new_get};
use cadastre_env::{Clock, Env, HostPort, Net};
use cadastre_master::{Master, MasterConfig};
use cadastre_regionserver::{RegionServer, RegionServerConfig};
use cadastre_sim::{DiskStore, Fault, SimEnv, World, WorldConfig};
use cadastre_store::{Store, StoreConfig};
use cadastre_types::{Cell, Code, FamilyDescriptor, LATEST_TIMESTAMP, TableDescriptor, TableName};
use tokio::sync::watch;

const ZOOKEEPER: &str = "zookeeper";
const SERVER: &str = "server";
const MASTER_PORT: u16 = 16_000;
const REGION_SERVER_PORT: u16 = 16_020;
const ZOOKEEPER_PORT: u16 = 2_181;
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

async fn zookeeper(env: SimEnv) {
    let at = SocketAddr::new(ANY, ZOOKEEPER_PORT);
    let listener = env.net().listen(at).await.unwrap();
    let zxid = cadastre_coordination::initial_zxid(env.clock().wall());
    let config = cadastre_coordination::ServerConfig::new(zxid);
    let (_stop, stopping) = watch::channel(false);
    cadastre_coordination::serve(env.clone(), listener, config, stopping).await;
}

/// Changes the settings of the server's store: plants a fault, or nothing.
pub(crate) type Tune = fn(&mut StoreConfig);

async fn server(env: SimEnv, tune: Tune) {
    let objects = Arc::new(DiskStore::new(env.clone(), "objects"));
    let mut config = StoreConfig::new(64 << 20);
    tune(&mut config);
    let store = Store::open(env.clone(), objects, config).await.unwrap();
    let coordination = vec![HostPort::new(ZOOKEEPER, ZOOKEEPER_PORT)];
    let master = MasterConfig {
        bind: ANY,
        port: MASTER_PORT,
        advertise_host: SERVER.to_owned(),
        coordination: coordination.clone(),
        parent: "/hbase".to_owned(),
        session_timeout: SESSION_TIMEOUT,
        min_servers: 1,
        rpc: cadastre_rpc::ServerConfig::default(),
    };
    let region_server = RegionServerConfig {
        bind: ANY,
        port: REGION_SERVER_PORT,
        advertise_host: SERVER.to_owned(),
        coordination,
        parent: "/hbase".to_owned(),
        session_timeout: SESSION_TIMEOUT,
        rpc: cadastre_rpc::ServerConfig::default(),
    };
    let master = Master::start(env.clone(), store.clone(), master)
        .await
        .unwrap();
    let region_server = RegionServer::start(env.clone(), store, region_server)
        .await
        .unwrap();
    master.ready().await.unwrap();
    region_server.ended().await;
    env.exit("the region server has ended");
}

/// What a client saw: when, and whether it was answered.
#[derive(Default)]
struct Seen {
    ready: bool,
    answers: Vec<(Duration, Result<(), Code>)>,
}

impl Seen {
    /// Answers and errors of calls that ended between two times.
    fn between(&self, from: Duration, to: Duration) -> (usize, Vec<Code>) {
        let ended = self
            .answers
            .iter()
            .filter(|(at, _)| (from..to).contains(at));
        let (good, bad): (Vec<_>, Vec<_>) = ended.partition(|(_, answer)| answer.is_ok());
        let bad = bad.into_iter().filter_map(|(_, answer)| answer.err());
        (good.len(), bad.collect())
    }
}

async fn client(env: SimEnv, seen: Arc<Mutex<Seen>>) {
    let config = ClientConfig {
        retry: RetryPolicy {
            tries_max: 3,
            pause_ms: 10,
            pause_overloaded_ms: 20,
            operation_timeout_ms: 1_000,
            rpc_timeout_ms: 500,
        },
        ..ClientConfig::default()
    };
    let registry = Registry::Rpc(vec![HostPort::new(SERVER, REGION_SERVER_PORT)]);
    let client = Client::connect(env.clone(), registry, config).unwrap();
    let table = TableName::parse("t").unwrap();
    let descriptor =
        TableDescriptor::new(table.clone()).with_family(FamilyDescriptor::new(&b"f"[..]));
    while client
        .admin()
        .create_table(&descriptor, Vec::new())
        .await
        .err()
        .is_some_and(|error| error.code() != Code::TableExists)
    {
        env.clock().sleep(Duration::from_millis(200)).await;
    }
    let row = Bytes::from_static(b"row");
    let cell = |value: &'static [u8]| {
        let family = Bytes::from_static(b"f");
        let value = Bytes::from_static(value);
        Cell::put(row.clone(), family, Bytes::new(), LATEST_TIMESTAMP, value)
    };
    while client.put(&table, vec![cell(b"1")]).await.is_err() {
        env.clock().sleep(Duration::from_millis(200)).await;
    }
    seen.lock().unwrap().ready = true;
    // Reads and writes in turn.
    for round in 0_u64.. {
        let answer = match round % 2 {
            0 => client
                .get(&table, &new_get(row.clone()))
                .await
                .map(|row| assert!(row.value(b"f", b"").is_some())),
            _ => client.put(&table, vec![cell(b"2")]).await,
        };
        let answer = answer.map_err(|error| error.code());
        let at = env.clock().mono();
        seen.lock().unwrap().answers.push((at, answer));
        env.clock().sleep(Duration::from_millis(100)).await;
    }
}

/// Runs a seed; panics when something is answered after the lease, or too little within it.
pub(crate) fn run(seed: u64, tune: Tune) {
    let mut world = World::new(seed, WorldConfig::default());
    let service = world.add_node(ZOOKEEPER, |env| Box::pin(zookeeper(env)));
    let serving = world.add_node(SERVER, move |env| Box::pin(server(env, tune)));
    let seen = Arc::new(Mutex::new(Seen::default()));
    let told = Arc::clone(&seen);
    let asking = world.add_node("client", move |env| {
        Box::pin(client(env, Arc::clone(&told)))
    });
    for node in [service, serving, asking] {
        world.apply(&Fault::Start { node });
    }
    let until = Duration::from_secs(60);
    let waiting = world
        .run_while(until, |_| !seen.lock().unwrap().ready)
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(waiting, "seed {seed}: the cluster did not start");
    world.run_for(Duration::from_secs(3)).unwrap();
    let away = Duration::from_secs(30);
    let stopped = world.now();
    world.apply(&Fault::Pause {
        node: service,
        lasts: away,
    });
    world
        .run_for(away)
        .unwrap_or_else(|failure| panic!("{failure}"));
    let back = world.now();
    world
        .run_for(Duration::from_secs(15))
        .unwrap_or_else(|failure| panic!("{failure}"));
    let seen = seen.lock().unwrap();
    let (before, _) = seen.between(Duration::ZERO, stopped);
    assert!(before > 10, "seed {seed}: {before} answers before");
    // The last ping may have been sent a third of the timeout before; an answer takes a moment to arrive.
    let over = stopped + SESSION_TIMEOUT + Duration::from_millis(100);
    let (within, _) = seen.between(stopped, stopped + SESSION_TIMEOUT / 2);
    assert!(
        within > 10,
        "seed {seed}: {within} answers within the lease"
    );
    let (late, refused) = seen.between(over, back);
    assert_eq!(late, 0, "seed {seed}: answers after the lease");
    assert!(refused.len() > 10, "seed {seed}: {refused:?}");
    let (again, _) = seen.between(back, world.now());
    assert!(again > 10, "seed {seed}: {again} answers when it was back");
    assert!(world.exits().is_empty(), "seed {seed}: {:?}", world.exits());
}
