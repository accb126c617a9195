//! Plain SlateDB databases in the simulator: on the shared bucket (crashes, late writes of the dead, injected failures) and on the
//! disk of one machine (power cuts). Acknowledged writes survive, a fenced writer is turned away, equal seeds give equal traces.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cadastre_env::{Clock, Env};
use cadastre_sim::{
    Bucket, BucketConfig, DiskStore, Failure, Fault, FaultPlan, FaultRates, NodeId, SimClock,
    SimEnv, World, WorldConfig,
};
use chrono::{DateTime, Utc};
use object_store::ObjectStore;
use rand::Rng as _;
use slatedb::config::{CompactorOptions, GarbageCollectorOptions, Settings};
use slatedb::{Db, ErrorKind};
use slatedb_common::clock::{SystemClock, SystemClockTicker};

/// SlateDB's clock over the simulated one: never goes back (C8), whatever `wall` does.
#[derive(Debug)]
struct Ticks(SimClock);

impl SystemClock for Ticks {
    fn now(&self) -> DateTime<Utc> {
        let ms = 1_700_000_000_000 + self.0.mono().as_millis() as i64;
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.0.sleep(duration))
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

fn settings(rng: &mut impl rand::Rng) -> Settings {
    Settings {
        flush_interval: Some(Duration::from_millis(rng.random_range(1..20))),
        manifest_poll_interval: Duration::from_millis(500),
        l0_sst_size_bytes: rng.random_range(4..64) * 1024,
        max_unflushed_bytes: 1024 * 1024,
        compactor_options: Some(CompactorOptions {
            poll_interval: Duration::from_millis(rng.random_range(50..500)),
            ..CompactorOptions::default()
        }),
        garbage_collector_options: Some(GarbageCollectorOptions::default()),
        ..Settings::default()
    }
}

async fn open(env: &SimEnv, store: Arc<dyn ObjectStore>, path: &str) -> Result<Db, slatedb::Error> {
    let mut rng = env.rng(path);
    Db::builder(path.to_owned(), store)
        .with_settings(settings(&mut rng))
        .with_seed(rng.random())
        .with_system_clock(Arc::new(Ticks(env.clock().clone())))
        .build()
        .await
}

/// Highest number written to each key and acknowledged, and highest sent.
#[derive(Default)]
struct Known {
    acknowledged: BTreeMap<u32, u32>,
    sent: BTreeMap<u32, u32>,
    checked: u64,
    fenced: u64,
    violation: Option<String>,
}

/// Writes and reads with several tasks until its node ends; each key belongs to one task.
async fn work(env: SimEnv, store: Arc<dyn ObjectStore>, known: Arc<Mutex<Known>>) {
    let db = match open(&env, store, "db").await {
        Ok(db) => Arc::new(db),
        Err(error) => {
            env.note(format_args!("open: {error}"));
            env.exit("cannot open");
        }
    };
    for task in 0..4 {
        let (db, here, known) = (Arc::clone(&db), env.clone(), Arc::clone(&known));
        env.spawn("worker", async move {
            let mut rng = here.rng("worker");
            loop {
                let key = task * 8 + rng.random_range(0..8u32);
                if let Err(error) = one(&db, key, rng.random_bool(0.5), &known).await {
                    here.note(format_args!("worker: {error}"));
                    if error.kind() == ErrorKind::Closed(slatedb::CloseReason::Fenced) {
                        known.lock().unwrap().fenced += 1;
                    }
                    here.exit("database closed");
                }
                here.clock()
                    .sleep(Duration::from_micros(rng.random_range(0..2000)))
                    .await;
            }
        });
    }
}

async fn one(db: &Db, key: u32, write: bool, known: &Mutex<Known>) -> Result<(), slatedb::Error> {
    let name = format!("key-{key:04}");
    if write {
        let number = {
            let mut known = known.lock().unwrap();
            let number = known.sent.entry(key).or_default();
            *number += 1;
            *number
        };
        let mut value = number.to_be_bytes().to_vec();
        value.resize(200, 7);
        db.put(name.as_bytes(), value)
            .await?
            .await_durable()
            .await?;
        let mut known = known.lock().unwrap();
        let slot = known.acknowledged.entry(key).or_default();
        *slot = number.max(*slot);
        return Ok(());
    }
    let least = known
        .lock()
        .unwrap()
        .acknowledged
        .get(&key)
        .copied()
        .unwrap_or(0);
    let seen = db.get(name.as_bytes()).await?;
    let seen = seen.map_or(0, |value| {
        u32::from_be_bytes(value[..4].try_into().unwrap())
    });
    let mut known = known.lock().unwrap();
    known.checked += 1;
    let most = known.sent.get(&key).copied().unwrap_or(0);
    if seen < least || seen > most {
        let what = format!("{name} shows {seen}, not in {least} to {most}");
        known.violation.get_or_insert(what);
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Bucket,
    FailingBucket,
    Disk,
}

fn run(seed: u64, place: Place) -> Result<(u64, Vec<String>, Known), Failure> {
    let config = WorldConfig {
        keep_trace: true,
        ..WorldConfig::default()
    };
    let mut world = World::new(seed, config);
    let failure_probability = if place == Place::FailingBucket {
        0.02
    } else {
        0.0
    };
    let config = BucketConfig {
        failure_probability,
        ..BucketConfig::default()
    };
    let bucket = Bucket::new(&world, "shared", config);
    let known = Arc::new(Mutex::new(Known::default()));
    let shared = Arc::clone(&known);
    let server = world.add_node("server", move |env| {
        let store: Arc<dyn ObjectStore> = match place {
            Place::Disk => Arc::new(DiskStore::new(env.clone(), "data")),
            _ => Arc::new(bucket.store(&env)),
        };
        Box::pin(work(env, store, Arc::clone(&shared)))
    });
    world.apply(&Fault::Start { node: server });
    let rates = FaultRates {
        power_cut: if place == Place::Disk { 6 } else { 0 },
        ..FaultRates::default()
    };
    let mut rng = world.rng("faults");
    let plan = FaultPlan::draw(&mut rng, Duration::from_secs(6), server, &[], &rates);
    world.follow(&plan);
    for _ in 0..80 {
        world.run_for(Duration::from_millis(100))?;
        // A program that ended itself is started again, as a supervisor would.
        if !world.is_running(server) {
            world.apply(&Fault::Start { node: server });
        }
    }
    finish(&world, known)
}

fn finish(world: &World, known: Arc<Mutex<Known>>) -> Result<(u64, Vec<String>, Known), Failure> {
    let known = std::mem::take(&mut *known.lock().unwrap());
    if let Some(violation) = &known.violation {
        return Err(world.failure(violation));
    }
    Ok(world.with_trace(|trace| (trace.hash(), trace.lines().to_vec(), known)))
}

fn twice(place: Place, seeds: std::ops::Range<u64>) {
    let mut checked = 0;
    for seed in seeds {
        let first = run(seed, place).unwrap_or_else(|f| panic!("{f}"));
        let second = run(seed, place).unwrap_or_else(|f| panic!("{f}"));
        if first.0 != second.0 {
            let pairs = first.1.iter().zip(&second.1);
            let differs = pairs.enumerate().find(|(_, (one, other))| one != other);
            panic!("seed {seed} differs: {differs:#?}");
        }
        checked += first.2.checked;
    }
    assert!(checked > 1000, "checked {checked}");
}

#[test]
fn on_the_bucket_through_crashes() {
    twice(Place::Bucket, 0..8);
}

#[test]
fn on_a_failing_bucket_through_crashes() {
    twice(Place::FailingBucket, 100..106);
}

#[test]
fn on_the_disk_through_power_cuts() {
    twice(Place::Disk, 200..208);
}

/// Two servers on one database: the second fences the first, whatever of the first's is still under way.
#[test]
fn a_fenced_writer_is_turned_away() {
    let mut fenced = 0;
    for seed in 300..310 {
        let mut world = World::new(seed, WorldConfig::default());
        let bucket = Bucket::new(&world, "shared", BucketConfig::default());
        let known = Arc::new(Mutex::new(Known::default()));
        let mut node = |name: &str| -> NodeId {
            let (bucket, known) = (bucket.clone(), Arc::clone(&known));
            world.add_node(name, move |env| {
                let store = Arc::new(bucket.store(&env));
                Box::pin(work(env, store, Arc::clone(&known)))
            })
        };
        let (first, second) = (node("first"), node("second"));
        world.apply(&Fault::Start { node: first });
        world.run_for(Duration::from_secs(1)).unwrap();
        world.apply(&Fault::Start { node: second });
        world.run_for(Duration::from_secs(2)).unwrap();
        assert!(!world.is_running(first), "seed {seed}: the first goes on");
        assert!(world.is_running(second), "seed {seed}");
        fenced += known.lock().unwrap().fenced;
        // Reads at a deposed owner are not fenced (C22), so only the second's are judged: at its end nothing is lost.
        known.lock().unwrap().violation = None;
        world.run_for(Duration::from_secs(1)).unwrap();
        assert_eq!(known.lock().unwrap().violation, None, "seed {seed}");
    }
    assert!(fenced >= 10, "{fenced}");
}

/// The first trap of facts/simulation.md section 7: `stop` before `run` has registered its tasks does nothing, and `run` would
/// go on for ever; asked again and again, it ends.
#[test]
fn a_compactor_that_is_stopped_at_once_ends_when_asked_again() {
    for seed in 400..410 {
        let mut world = World::new(seed, WorldConfig::default());
        let bucket = Bucket::new(&world, "shared", BucketConfig::default());
        let ended = Arc::new(Mutex::new(false));
        let tell = Arc::clone(&ended);
        let node = world.add_node("server", move |env| {
            let (bucket, tell) = (bucket.clone(), Arc::clone(&tell));
            Box::pin(async move {
                let store: Arc<dyn ObjectStore> = Arc::new(bucket.store(&env));
                let db = open(&env, Arc::clone(&store), "db").await.unwrap();
                db.close().await.unwrap();
                let clock = Arc::new(Ticks(env.clock().clone()));
                let builder = slatedb::CompactorBuilder::new("db", store);
                let compactor = builder.with_seed(seed).with_system_clock(clock).build();
                let compactor = Arc::new(compactor);
                let running = Arc::clone(&compactor);
                let (done, mut wait) = tokio::sync::oneshot::channel();
                env.spawn("compactor", async move {
                    // Nobody waits only after the node's end.
                    let _ = done.send(running.run().await.is_ok());
                });
                while wait.try_recv().is_err() {
                    compactor.stop().await.unwrap();
                    env.clock().sleep(Duration::from_millis(5)).await;
                }
                *tell.lock().unwrap() = true;
            })
        });
        world.apply(&Fault::Start { node });
        world.run_for(Duration::from_secs(30)).unwrap();
        assert!(*ended.lock().unwrap(), "seed {seed}");
    }
}
