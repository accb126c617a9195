//! A rule goes from v0 over v0 and v1 to v1 while one of two writers is cut off from the coordination service, stands still, or has requests
//! stuck on their way (R26 to R31, R71). Tables know nothing of rules, so only the clients themselves can keep this:
//!
//! 1. Once the publisher has been told that every live client has seen both versions, no moved row is written in its old place.
//! 2. So what it copies then is all there is: no answered write is lost when the new version is in force.
//! 3. Meanwhile rows that stay are written on.
//!
//! A request that the network delivers after its client has given it up is carried out (docs/rules.md): stuck requests arrive here before
//! they are given up.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_client::sharded::{RuleCenter, RuleWatch, ShardedOptions, ShardedTable};
use cadastre_client::{Client, ClientConfig, Registry, RetryPolicy, new_scan};
use cadastre_env::{Clock, Env, HostPort};
use cadastre_sharding::Program;
use cadastre_sharding::versions::{RuleSet, SetError, State};
use cadastre_sim::{Fault, FaultPlan, NodeId, SimEnv, World, WorldConfig};
use cadastre_store::StoreConfig;
use cadastre_types::{Cell, Code, FamilyDescriptor, Result, TableDescriptor, TableName};
use rand::Rng as _;

use super::apart::{SERVER, ZOOKEEPER, ZOOKEEPER_PORT, server, zookeeper};

/// The rule's name, and its tables.
const RULE: &str = "w";
const OLD: &str = "w_0";
const NEW: &str = "w_1";

/// Writers; the first is disturbed.
const WRITERS: u64 = 2;

/// Rows of each: odd ones move.
const ROWS: u64 = 6;

/// How long the writers' sessions outlive their last pings, ms.
const SESSION_MS: u64 = 6_000;

/// How long what moves is held, ms.
const HOLD_MS: u64 = 50;

/// Longest pause of a writer between two writes, ms.
const PAUSE_MS: u64 = 25;

/// What happens to the first writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing passes between it and the coordination service; it reaches the tables all the time.
    CutOff,
    /// It stands still.
    Stopped,
    /// Its requests to the tables arrive late.
    Stuck,
}

/// Changes the writers' settings: plants a fault, or nothing.
pub(crate) type Tune = fn(&mut ClientConfig);

/// What all nodes know of the run.
#[derive(Default)]
struct Shared {
    /// Numbers that were written to a row: the last that was begun, and the last that was answered well.
    begun: BTreeMap<u64, u64>,
    answered: BTreeMap<u64, u64>,
    /// Writes that were answered well, and those that were held until they were refused.
    good: Vec<(Duration, u64)>,
    held: u64,
    /// When the new version was on offer, all clients had seen it, and it was in force.
    offered: Option<Duration>,
    told: Option<Duration>,
    in_force: Option<Duration>,
    /// What the publisher found of moved rows in the old place, and copied.
    copied: BTreeMap<u64, u64>,
    finale: bool,
    /// What both tables hold at the end.
    ended: Option<[BTreeMap<u64, u64>; 2]>,
}

impl Shared {
    /// What became of a write.
    fn end(&mut self, row: u64, write: u64, at: Duration, done: &Result<()>) {
        match done {
            Ok(()) => {
                self.answered.insert(row, write);
                self.good.push((at, row));
            }
            Err(error) => self.held += u64::from(error.code() == Code::RegionTooBusy),
        }
    }
}

type Told = Arc<Mutex<Shared>>;

/// Version 1 has all rows in one place, version 2 the odd ones in another.
fn program(version: u64) -> Arc<Program> {
    let text = format!(
        "rule {RULE} version {version}; field id: i64; key decimal id \"|\"; dimension n 0 to 1; else (id % {version}); place table \"w_{{n}}\";"
    );
    Arc::new(Program::parse(&text).unwrap())
}

fn key(row: u64) -> Bytes {
    row.to_string().into()
}

fn cell(row: u64, number: u64) -> Cell {
    let (family, qualifier) = (Bytes::from_static(b"f"), Bytes::from_static(b"q"));
    // The number is the time, too: a late write never hides a newer one.
    Cell::put(
        key(row),
        family,
        qualifier,
        number as i64,
        number.to_string().into(),
    )
}

fn connect(env: &SimEnv, tune: Tune) -> Client<SimEnv> {
    let mut config = ClientConfig {
        retry: RetryPolicy {
            tries_max: 50,
            pause_ms: 10,
            pause_overloaded_ms: 20,
            operation_timeout_ms: 20_000,
            // Longer than anything is stuck.
            rpc_timeout_ms: 5_000,
        },
        zookeeper_timeout_ms: SESSION_MS,
        ..ClientConfig::default()
    };
    tune(&mut config);
    let service = vec![HostPort::new(ZOOKEEPER, ZOOKEEPER_PORT)];
    let registry = Registry::ZooKeeper(service, "/hbase".to_owned());
    Client::connect(env.clone(), registry, config).unwrap()
}

/// Until it succeeds: servers start, sessions end.
async fn insist<T, F: Future<Output = Result<T>>>(
    env: &SimEnv,
    mut attempt: impl FnMut() -> F,
) -> T {
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(error) => env.note(format_args!("again: {error}")),
        }
        env.clock().sleep(Duration::from_millis(100)).await;
    }
}

async fn writer(env: SimEnv, number: u64, tune: Tune, told: Told) {
    let client = connect(&env, tune);
    let options = ShardedOptions {
        hold_ms: HOLD_MS,
        ..ShardedOptions::default()
    };
    let table = insist(&env, || {
        let watch = RuleWatch::start(&client, RULE, &format!("writer {number}"));
        let clusters = BTreeMap::from([(String::new(), client.clone())]);
        ShardedTable::watched(watch, clusters, options)
    })
    .await;
    let mut rng = env.rng("writer");
    for write in 1.. {
        let row = number * ROWS + rng.random_range(0..ROWS);
        told.lock().unwrap().begun.insert(row, write);
        let done = table.put(vec![cell(row, write)]).await;
        env.note(format_args!("{row} {write}: {done:?}"));
        told.lock()
            .unwrap()
            .end(row, write, env.clock().mono(), &done);
        let pause = Duration::from_millis(rng.random_range(0..PAUSE_MS));
        env.clock().sleep(pause).await;
    }
}

async fn publisher(env: SimEnv, told: Told) {
    let client = connect(&env, |_| {});
    for name in [OLD, NEW] {
        let table = TableName::parse(name).unwrap();
        let like = TableDescriptor::new(table).with_family(FamilyDescriptor::new(&b"f"[..]));
        insist(&env, || async {
            match client.admin().create_table(&like, Vec::new()).await {
                Err(error) if error.code() == Code::TableExists => Ok(()),
                made => made,
            }
        })
        .await;
    }
    let center = insist(&env, || RuleCenter::open(&client)).await;
    let (v1, v2) = (program(1), program(2));
    insist(&env, || {
        center.change(RULE, |found| {
            Ok(found.cloned().unwrap_or_else(|| RuleSet::create(&v1)))
        })
    })
    .await;
    let writers_write = || {
        let answered = told.lock().unwrap().answered.len() as u64;
        answered == WRITERS * ROWS
    };
    while !writers_write() {
        env.clock().sleep(Duration::from_millis(50)).await;
    }
    let mut rng = env.rng("publisher");
    let mut wait = async |most_ms| {
        let pause = Duration::from_millis(rng.random_range(0..most_ms));
        env.clock().sleep(pause).await;
    };
    wait(3_000).await;
    let offered = center
        .change(RULE, |found| {
            let found = found.ok_or(SetError::NoOffer)?;
            found.offer(found.revision(), &v1, &v2)
        })
        .await
        .unwrap();
    told.lock().unwrap().offered = Some(env.clock().mono());
    env.note("offered");
    insist(&env, || async {
        let time = Duration::from_secs(5);
        let lacking = center.acknowledged(RULE, offered.revision(), time).await?;
        match &lacking[..] {
            [] => Ok(()),
            _ => Err(cadastre_types::Error::new(Code::Io, format!("{lacking:?}"))),
        }
    })
    .await;
    told.lock().unwrap().told = Some(env.clock().mono());
    env.note("all have seen it");
    wait(50).await;
    for (row, number) in read(&env, &client, OLD).await {
        if row % 2 == 1 {
            let new = TableName::parse(NEW).unwrap();
            insist(&env, || client.put(&new, vec![cell(row, number)])).await;
            told.lock().unwrap().copied.insert(row, number);
        }
    }
    env.note("copied");
    wait(2_000).await;
    insist(&env, || async {
        // One that came meanwhile is waited for, too.
        let clients = center.acknowledgements(RULE).await?;
        let published = center.change(RULE, |found| {
            let found = found.ok_or(SetError::NoOffer)?;
            match found.state() {
                State::Two { .. } => found.publish(offered.revision(), &clients, false),
                State::One(_) => Ok(found.clone()),
            }
        });
        published.await
    })
    .await;
    told.lock().unwrap().in_force = Some(env.clock().mono());
    env.note("in force");
    while !told.lock().unwrap().finale {
        env.clock().sleep(Duration::from_millis(50)).await;
    }
    let ended = [
        read(&env, &client, OLD).await,
        read(&env, &client, NEW).await,
    ];
    told.lock().unwrap().ended = Some(ended);
}

/// The numbers that a table holds.
async fn read(env: &SimEnv, client: &Client<SimEnv>, table: &str) -> BTreeMap<u64, u64> {
    let table = TableName::parse(table).unwrap();
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse().unwrap();
    insist(env, || async {
        let mut rows = client.scan(&table, new_scan())?;
        let mut found = BTreeMap::new();
        while let Some(row) = rows.next().await? {
            let value = row.value(b"f", b"q").unwrap();
            found.insert(number(row.key().unwrap()), number(value));
        }
        Ok(found)
    })
    .await
}

/// What happens to the first writer, from the moment on when all write.
fn plan(world: &World, trouble: Trouble, [service, serving, writer]: [NodeId; 3]) -> FaultPlan {
    let mut rng = world.rng("plan");
    let mut between = |ms: RangeInclusive<u64>| Duration::from_millis(rng.random_range(ms));
    let plan = FaultPlan::new();
    let (at, lasts) = (between(0..=4_000), between(2_000..=15_000));
    match trouble {
        Trouble::CutOff => plan.at(
            at,
            Fault::Partition {
                a: service,
                b: writer,
                lasts,
            },
        ),
        Trouble::Stopped => plan.at(
            at,
            Fault::Pause {
                node: writer,
                lasts,
            },
        ),
        Trouble::Stuck => {
            let (mut plan, mut at) = (plan, Duration::ZERO);
            while at < Duration::from_secs(6) {
                let lasts = between(200..=900);
                let stuck = Fault::Partition {
                    a: serving,
                    b: writer,
                    lasts,
                };
                plan = plan.at(at, stuck);
                at += lasts + between(10..=200);
            }
            plan
        }
    }
}

/// What must hold at the end; says what does not.
fn judge(shared: &Shared) -> std::result::Result<(), String> {
    let [old, new] = shared.ended.as_ref().ok_or("the tables were not read")?;
    for (row, answered) in &shared.answered {
        let moves = row % 2 == 1;
        let (held, copied) = (old.get(row), shared.copied.get(row));
        if moves && held != copied {
            return Err(format!(
                "row {row} was written in its old place after all had seen that it moves: {held:?}, then {copied:?}"
            ));
        }
        let place = if moves { new } else { old };
        let found = place.get(row).copied().unwrap_or(0);
        let begun = shared.begun.get(row).copied().unwrap_or(0);
        if !(*answered..=begun).contains(&found) {
            return Err(format!(
                "row {row} holds {found}, its last answered write was {answered}, the last one begun {begun}"
            ));
        }
    }
    let (Some(offered), Some(in_force)) = (shared.offered, shared.in_force) else {
        return Err("the new version did not come into force".to_owned());
    };
    // While both versions are visible rows that stay are written on by whoever is not disturbed.
    let meanwhile = |it: &&(Duration, u64)| (offered..in_force).contains(&it.0);
    let stayed = shared.good.iter().filter(meanwhile);
    let stayed = stayed
        .filter(|(_, row)| row % 2 == 0 && *row >= ROWS)
        .count();
    let expected = (in_force - offered).as_secs();
    if expected > 0 && shared.held == 0 {
        return Err("no write of a row that moves was held".to_owned());
    }
    if (stayed as u64) < expected {
        return Err(format!(
            "only {stayed} writes of rows that stay, {expected} s long"
        ));
    }
    Ok(())
}

/// A store that fits a simulated disk.
fn small(config: &mut StoreConfig) {
    config.unflushed_bytes = 1 << 20;
    config.memtable_bytes = 128 << 10;
    config.segment_bytes = 512 << 10;
    config.segments_max = 8;
    config.low_space_bytes = 1 << 20;
}

/// Runs a seed.
///
/// # Errors
/// What did not hold.
pub(crate) fn run(seed: u64, trouble: Trouble, tune: Tune) -> std::result::Result<(), String> {
    let mut world = World::new(seed, WorldConfig::default());
    let told = Told::default();
    let service = world.add_node(ZOOKEEPER, |env| Box::pin(zookeeper(env)));
    let serving = world.add_node(SERVER, |env| Box::pin(server(env, small)));
    let publishing = {
        let told = Arc::clone(&told);
        world.add_node("publisher", move |env| {
            Box::pin(publisher(env, Arc::clone(&told)))
        })
    };
    let mut nodes = vec![service, serving, publishing];
    for number in 0..WRITERS {
        let told = Arc::clone(&told);
        nodes.push(world.add_node(&format!("writer-{number}"), move |env| {
            Box::pin(writer(env, number, tune, Arc::clone(&told)))
        }));
    }
    let first = nodes[3];
    for node in nodes {
        world.apply(&Fault::Start { node });
    }
    let wait = |world: &mut World, seconds, what: &dyn Fn(&Shared) -> bool| {
        let waited = world.run_while(Duration::from_secs(seconds), |_| {
            !what(&told.lock().unwrap())
        });
        match waited {
            Ok(true) => Ok(()),
            Ok(false) => Err(world.failure("this did not come to pass").to_string()),
            Err(failure) => Err(failure.to_string()),
        }
    };
    let all = (WRITERS * ROWS) as usize;
    wait(&mut world, 60, &|shared| shared.answered.len() == all)?;
    world.follow(&plan(&world, trouble, [service, serving, first]));
    wait(&mut world, 120, &|shared| shared.in_force.is_some())?;
    // The first writer finds its way back, and writes by the new version.
    wait(&mut world, 120, &|shared| {
        let since = shared.in_force.unwrap_or_default();
        let moved = |it: &&(Duration, u64)| it.0 > since && it.1 % 2 == 1 && it.1 < ROWS;
        shared.good.iter().filter(moved).count() > 3
    })?;
    told.lock().unwrap().finale = true;
    wait(&mut world, 60, &|shared| shared.ended.is_some())?;
    let shared = told.lock().unwrap();
    judge(&shared).map_err(|what| world.failure(what).to_string())
}
