//! What the runs of either kind ([`crate::cluster`], [`crate::storage`]) have in common: what they tell, and the store that they are tried with.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rand::Rng as _;

use cadastre_env::Rng;
use cadastre_store::{StoreConfig, WalSync};

use crate::{Fault, FaultPlan, World};

/// What a run that found nothing wrong did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Hash of the trace.
    pub hash: u64,
    /// The trace, if it was kept.
    pub lines: Vec<String>,
    /// Operations that were answered.
    pub answered: u64,
    /// Operations that failed, by what they failed with.
    pub failed: BTreeMap<String, u64>,
    /// Changes of regions that were answered, by kind.
    pub reshaped: BTreeMap<&'static str, u64>,
    /// The product's counters, of a whole server only.
    pub counters: BTreeMap<String, u64>,
    /// Answers that the model judged.
    pub checked: u64,
    /// Crashes and power cuts.
    pub crashes: usize,
    /// Ends of the program by itself, with their reasons.
    pub exits: Vec<String>,
    /// Events of the world.
    pub events: u64,
    /// Simulated time.
    pub lasted: Duration,
}

impl Outcome {
    /// What a world tells, beside what its programs counted.
    pub(crate) fn new(
        world: &World,
        plan: &FaultPlan,
        answered: u64,
        failed: &BTreeMap<String, u64>,
        checked: u64,
    ) -> Self {
        let is_end = |fault: &Fault| matches!(fault, Fault::Crash { .. } | Fault::PowerCut { .. });
        world.with_trace(|trace| Self {
            hash: trace.hash(),
            lines: trace.lines().to_vec(),
            answered,
            failed: failed.clone(),
            reshaped: BTreeMap::new(),
            counters: BTreeMap::new(),
            checked,
            crashes: plan.faults().iter().filter(|(_, f)| is_end(f)).count(),
            exits: world.exits().iter().map(|exit| exit.why.clone()).collect(),
            events: world.events(),
            lasted: world.now(),
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} answered, {} checked, {} failed {:?}, {:?}, {} crashes, {} exits, {} events, {:.1} simulated s",
            self.answered,
            self.checked,
            self.failed.values().sum::<u64>(),
            self.failed,
            self.reshaped,
            self.crashes,
            self.exits.len(),
            self.events,
            self.lasted.as_secs_f64(),
        )
    }
}

/// One seed in four runs in the mode that survives a kill only.
pub(crate) fn sync_of(rng: &mut Rng) -> WalSync {
    if rng.random_bool(0.25) {
        WalSync::Write
    } else {
        WalSync::Fdatasync
    }
}

/// Small sizes, so that flushes, rolls of the log, compactions and garbage collections happen often.
pub(crate) fn store_config(rng: &mut Rng, acknowledge_before_sync: bool) -> StoreConfig {
    let drawn = sync_of(rng);
    StoreConfig {
        wal_sync: if acknowledge_before_sync {
            WalSync::Write
        } else {
            drawn
        },
        block_cache_bytes: rng.random_range(16..512) << 10,
        unflushed_bytes: rng.random_range(256..1024) << 10,
        memtable_bytes: rng.random_range(16..128) << 10,
        segment_bytes: rng.random_range(128..512) << 10,
        segments_max: rng.random_range(3..8),
        low_space_bytes: 1 << 20,
        compact_at_files: rng.random_range(2..5),
        checkpoint_lifetime_ms: 30_000,
        garbage_min_age_ms: 20_000,
        // Rows are often cut by the ends of files.
        sst_bytes: rng.random_range(4..64) << 10,
        ..StoreConfig::new(64 << 20)
    }
}
