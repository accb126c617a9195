//! The read lease (C22): a server that cannot hear of the coordination service answers nothing once its session may be over, since
//! somebody else might serve its regions by then; it does not end, and answers again when the service does.
//!
//! The coordination service has a machine of its own here, which stands still for longer than the session's timeout.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_client::{Client, ClientConfig, Registry, RetryPolicy, new_get};
use cadastre_env::{Clock, Env, HostPort};
use cadastre_sim::{Fault, SimEnv, World, WorldConfig};
use cadastre_types::{Cell, Code, FamilyDescriptor, LATEST_TIMESTAMP, TableDescriptor, TableName};

use super::apart::{
    REGION_SERVER_PORT, SERVER, SESSION_TIMEOUT, Tune, ZOOKEEPER, server, zookeeper,
};

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
