//! The store alone on one machine: regions, log, flushes and compactions under random operations and faults, against the model.
//! Without clients and servers between it runs many times faster than [`crate::cluster`], so that many seeds can be tried.
//!
//! 1. One machine opens a store with a few regions, on its own simulated disk or on a simulated bucket in which changes of a dead
//!    process land late, and lets tasks put, delete, increment, get and scan. What runs when the machine ends is of unknown
//!    outcome; a program that ends itself is started again.
//! 2. At every start, and at the end when the faults are over, every row and counter is read and must be possible by the model
//!    (INV-3, INV-5, INV-6).

mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use rand::Rng as _;

use cadastre_env::{Clock, Env};
use cadastre_store::{Region, RegionSpec, Store, StoreConfig, WalSync};
use cadastre_types::{FamilyDescriptor, RegionInfo, Result, TableDescriptor, TableName};

use crate::hub::locked;
use crate::model::Model;
use crate::outcome::store_config;
use crate::{
    Bucket, BucketConfig, DiskConfig, DiskStore, Failure, Fault, FaultPlan, FaultRates, Outcome,
    SimEnv, World, WorldConfig,
};
use work::{FIRST, SECOND, Worker};

/// Regions, all of one table, and each of all keys.
const REGIONS: u32 = 3;

/// Directory of the objects where they lie on the machine's disk.
const OBJECTS_DIR: &str = "objects";

/// How likely an operation of the bucket fails: now and then, as real ones do.
const BUCKET_FAILS: f64 = 0.001;

/// How likely a change of the bucket takes long.
const BUCKET_SLOW: f64 = 0.05;

/// How soon everything must be read after the last fault, in simulated time.
const CONVERGES_WITHIN: Duration = Duration::from_secs(300);

/// Ends of the program by itself beyond which it counts as unable to start.
const EXITS_MAX: usize = 200;

/// One run.
#[derive(Debug, Clone)]
pub struct StorageConfig {
    /// Seed of everything.
    pub seed: u64,
    /// Keep all lines of the trace.
    pub keep_trace: bool,
    /// Tasks that work at the same time.
    pub tasks: usize,
    /// Operations of all tasks together at least; they go on while there are faults.
    pub operations: u64,
    /// For how long faults happen, in simulated time.
    pub faults_for: Duration,
    /// Which and how often.
    pub rates: FaultRates,
    /// How likely a change of the bucket takes long. A manifest that is being written for so long meets crashes, and what other regions
    /// do meanwhile to the log that they share.
    pub slow_changes: f64,
    /// Writes are acknowledged before they are synced, and the power goes all the same: to be found.
    pub acknowledge_before_sync: bool,
}

impl StorageConfig {
    /// The usual run of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            keep_trace: false,
            tasks: 8,
            operations: 4_000,
            faults_for: Duration::from_secs(3),
            rates: FaultRates {
                // Nobody is connected.
                partition: 0,
                reset: 0,
                ..FaultRates::default()
            },
            slow_changes: BUCKET_SLOW,
            acknowledge_before_sync: false,
        }
    }
}

/// What outlives the machine's starts.
#[derive(Default)]
struct Shared {
    model: Model,
    versions: i64,
    nonces: u64,
    /// Value and timestamp of each counter as last seen.
    stamps: BTreeMap<Bytes, (i64, i64)>,
    violation: Option<String>,
    answered: u64,
    failed: BTreeMap<String, u64>,
    last_error: Option<String>,
    /// No more faults will come.
    calm: bool,
    finished: bool,
}

impl Shared {
    fn judge<E: std::fmt::Display>(&mut self, verdict: std::result::Result<(), E>) {
        if let Err(violation) = verdict {
            self.violation.get_or_insert_with(|| violation.to_string());
        }
    }
}

/// Runs one seed.
///
/// # Errors
/// A violation of the model, a panic, no convergence, a livelock.
pub fn run(config: &StorageConfig) -> std::result::Result<Outcome, Failure> {
    let mut world = World::new(
        config.seed,
        WorldConfig {
            keep_trace: config.keep_trace,
            disk: DiskConfig {
                unsyncable_stay: config.seed % 2 == 1,
                ..DiskConfig::default()
            },
            ..WorldConfig::default()
        },
    );
    let mut rng = world.rng("store");
    let machine = Machine {
        store: store_config(&mut rng, config.acknowledge_before_sync),
        bucket: rng.random_bool(0.5).then(|| {
            let slow_probability = config.slow_changes;
            let config = BucketConfig {
                failure_probability: BUCKET_FAILS,
                slow_probability,
                ..BucketConfig::default()
            };
            Bucket::new(&world, "objects", config)
        }),
        tasks: config.tasks,
        operations: config.operations,
        shared: Arc::default(),
    };
    let mut rates = config.rates.clone();
    if machine.store.wal_sync == WalSync::Write && !config.acknowledge_before_sync {
        // A power cut or a sync that fails may take what was acknowledged (docs/configuration.md).
        rates.power_cut = 0;
        rates.sync_failure = 0;
    }
    let shared = Arc::clone(&machine.shared);
    let node = world.add_node("store", move |env| Box::pin(machine.clone().program(env)));
    world.supervise(node, Duration::from_millis(1)..=Duration::from_millis(50));
    world.apply(&Fault::Start { node });
    let plan = FaultPlan::draw(
        &mut world.rng("faults"),
        config.faults_for,
        node,
        &[],
        &rates,
    );
    world.follow(&plan);
    let calm = plan.ends_after(&rates).max(config.faults_for);
    world.run_while(calm, |_| locked(&shared).violation.is_none())?;
    world.apply(&Fault::Start { node });
    locked(&shared).calm = true;
    let done = world.run_while(CONVERGES_WITHIN, |world| {
        let shared = locked(&shared);
        shared.violation.is_none() && !shared.finished && world.exits().len() < EXITS_MAX
    })?;
    let shared = locked(&shared);
    if let Some(violation) = &shared.violation {
        return Err(world.failure(violation));
    }
    if !done || world.exits().len() >= EXITS_MAX {
        let exits = world.exits().iter().rev().take(5);
        let exits: Vec<&str> = exits.map(|exit| exit.why.as_str()).collect();
        return Err(world.failure(format_args!(
            "not everything could be read within {CONVERGES_WITHIN:?}; answered {}, failed {:?}, last error {:?}, ends, last first: {exits:?}",
            shared.answered, shared.failed, shared.last_error
        )));
    }
    let (answered, checked) = (shared.answered, shared.model.checked());
    Ok(Outcome::new(
        &world,
        &plan,
        answered,
        &shared.failed,
        checked,
    ))
}

/// What every start of the machine does.
#[derive(Clone)]
struct Machine {
    store: StoreConfig,
    bucket: Option<Bucket>,
    tasks: usize,
    operations: u64,
    shared: Arc<Mutex<Shared>>,
}

impl Machine {
    async fn program(self, env: SimEnv) {
        let (store, regions) = match self.open(&env).await {
            Ok(opened) => opened,
            Err(error) => env.exit(&format!("cannot start: {error}")),
        };
        env.note("store open");
        let worker = |number: usize| {
            let shared = Arc::clone(&self.shared);
            Worker::new(env.clone(), regions.clone(), shared, number)
        };
        let work = async {
            worker(self.tasks).read_everything().await;
            let mut waits = Vec::new();
            for number in 0..self.tasks {
                let (tell, told) = futures::channel::oneshot::channel();
                let (worker, operations) = (worker(number), self.operations);
                env.spawn("work", async move {
                    worker.work(operations).await;
                    // Refused only if the machine is ending.
                    let _ = tell.send(());
                });
                waits.push(told);
            }
            for told in waits {
                if told.await.is_err() {
                    std::future::pending().await
                }
            }
            worker(self.tasks).read_everything().await;
            locked(&self.shared).finished = true;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = env.terminated() => {}
            () = work => {}
        }
        let closed = store.close().await;
        env.exit(&format!("asked to stop: {closed:?}"));
    }

    async fn open(&self, env: &SimEnv) -> Result<(Store<SimEnv>, Vec<Region<SimEnv>>)> {
        let objects: Arc<dyn ObjectStore> = match &self.bucket {
            Some(bucket) => Arc::new(bucket.store(env)),
            None => Arc::new(DiskStore::new(env.clone(), OBJECTS_DIR)),
        };
        let store = Store::open(env.clone(), objects, self.store.clone()).await?;
        let name = TableName::parse("sim")?;
        let mut table = TableDescriptor::new(name.clone());
        for (at, family) in (1..).zip([FIRST, SECOND]) {
            let mut family = FamilyDescriptor::new(family);
            family.id = at;
            table = table.with_family(family);
        }
        let descriptor = Arc::new(table);
        let mut regions = Vec::new();
        for number in 0..REGIONS {
            let id = 1 + u64::from(number);
            let info = RegionInfo::new(name.clone(), Bytes::new(), Bytes::new(), id);
            let spec = RegionSpec {
                info,
                descriptor: Arc::clone(&descriptor),
                expected_epoch: None,
            };
            regions.push(store.open_region(spec).await?);
        }
        Ok((store, regions))
    }
}

/// The end of a time from now.
fn deadline(env: &SimEnv) -> Duration {
    env.clock().mono() + Duration::from_secs(10)
}
