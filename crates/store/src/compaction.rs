//! Compacting one database on demand: planning what to merge, running SlateDB's compactor until it is merged, collecting garbage.
//!
//! An idle database has no compactor: one is made for a visit and ended after it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cadastre_env::{Clock, Env};
use cadastre_types::{Code, Error, Result};
use rand::RngCore;
use slatedb::compactor::{
    CompactionScheduler, CompactionSchedulerSupplier, CompactionSpec, CompactionStatus, Compactor,
    CompactorStateView, SourceId,
};
use slatedb::config::{
    CompactorOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions,
    GarbageCollectorScheduleOptions,
};
use slatedb::{CompactionFilterSupplier, GarbageCollectorBuilder, VersionedManifest};

use crate::database::Database;
use crate::error::from_slatedb;
use crate::filter::CellFilters;

/// How often a running compaction is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A run joins a minor compaction when it is at most so many times larger than what is merged already: each byte is rewritten
/// about once per such step, and the number of runs grows with the logarithm of the size.
const JOIN_FACTOR: u64 = 2;

/// Runs after which a minor compaction merges all of them, whatever their size.
const RUNS_MAX: usize = 8;

/// A compaction that takes longer than this is given up and tried again later: it would otherwise hold its region open for ever.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What is merged: sources, newest first, and the run it becomes. `None` if there is nothing to do.
fn plan(manifest: &VersionedManifest, major: bool) -> Option<CompactionSpec> {
    let l0 = manifest.l0();
    let runs = manifest.compacted();
    let mut sources: Vec<_> = l0.iter().map(|view| SourceId::SstView(view.id)).collect();
    let all = major || runs.len() > RUNS_MAX;
    let mut bytes: u64 = l0.iter().map(|view| view.estimate_size()).sum();
    let mut joined = 0;
    for run in runs {
        if !all && (l0.is_empty() || run.estimate_size() > bytes.saturating_mul(JOIN_FACTOR)) {
            break;
        }
        bytes += run.estimate_size();
        sources.push(SourceId::SortedRun(run.id));
        joined += 1;
    }
    if sources.is_empty() {
        return None;
    }
    let destination = match joined {
        0 => runs.iter().map(|run| run.id + 1).max().unwrap_or(0),
        _ => runs[joined - 1].id,
    };
    Some(CompactionSpec::new(sources, destination))
}

/// How far the one compaction of a visit is.
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// Not begun: what an earlier visit left behind goes first.
    Waiting,
    /// Begun; the ids are those of earlier compactions, which do not count.
    Proposed(BTreeSet<String>),
    Done,
    Failed,
}

/// Makes a clock show at least this time, ms.
type Raise = Arc<dyn Fn(i64) + Send + Sync>;

/// Proposes one compaction and watches it.
struct OneShot {
    major: bool,
    filters: Option<Arc<CellFilters>>,
    phase: Arc<Mutex<Phase>>,
    raise: Raise,
}

impl CompactionScheduler for OneShot {
    fn propose(&self, state: &CompactorStateView) -> Vec<CompactionSpec> {
        let mut phase = self.phase.lock().expect("not poisoned");
        let known = |wanted: Option<CompactionStatus>| -> BTreeSet<String> {
            let all = state.compactions().into_iter();
            all.flat_map(|all| all.recent_compactions())
                .filter(|one| wanted.is_none_or(|status| one.status() == status))
                .map(|one| one.id().to_string())
                .collect()
        };
        match &*phase {
            Phase::Waiting => {
                let active = state
                    .compactions()
                    .into_iter()
                    .flat_map(|all| all.recent_compactions())
                    .any(|one| one.active());
                if active {
                    return Vec::new();
                }
                // One that a crash interrupted may have been named by a clock that was ahead of ours, and SlateDB refuses an
                // older name (C8).
                let all = state.compactions().into_iter();
                let named = all.flat_map(|all| all.recent_compactions());
                let latest = named.map(|one| one.id().timestamp_ms()).max();
                (self.raise)(latest.map_or(0, |ms| i64::try_from(ms).unwrap_or(0)));
                let Some(spec) = plan(state.manifest(), self.major) else {
                    *phase = Phase::Done;
                    return Vec::new();
                };
                *phase = Phase::Proposed(known(None));
                if let Some(filters) = &self.filters {
                    filters.begin_own();
                }
                vec![spec]
            }
            Phase::Proposed(before) => {
                let ours = |status| known(Some(status)).iter().any(|id| !before.contains(id));
                if ours(CompactionStatus::Completed) {
                    *phase = Phase::Done;
                } else if ours(CompactionStatus::Failed) {
                    *phase = Phase::Failed;
                }
                Vec::new()
            }
            Phase::Done | Phase::Failed => Vec::new(),
        }
    }
}

struct OneShotSupplier {
    major: bool,
    filters: Option<Arc<CellFilters>>,
    phase: Arc<Mutex<Phase>>,
    raise: Raise,
}

impl CompactionSchedulerSupplier for OneShotSupplier {
    fn compaction_scheduler(
        &self,
        _options: &CompactorOptions,
    ) -> Box<dyn CompactionScheduler + Send + Sync> {
        Box::new(OneShot {
            major: self.major,
            filters: self.filters.clone(),
            phase: Arc::clone(&self.phase),
            raise: Arc::clone(&self.raise),
        })
    }
}

/// Merges files of a database, on the background runtime; with `major` all of them. Whether there was anything to merge.
pub(crate) async fn compact<E: Env>(
    database: &Arc<Database<E>>,
    filters: Option<Arc<CellFilters>>,
    major: bool,
) -> Result<bool> {
    let _one = database.compacting.lock().await;
    if plan(&database.db.manifest(), major).is_none() {
        return Ok(false);
    }
    let number = database.store.next_open();
    let stream = format!("compaction {} {number}", database.path);
    let seed = database.store.env.rng(&stream).next_u64();
    let phase = Arc::new(Mutex::new(Phase::Waiting));
    let task = {
        let database = Arc::clone(database);
        let phase = Arc::clone(&phase);
        let clock = Arc::clone(&database.clock);
        let supplier = Arc::new(OneShotSupplier {
            major,
            filters: filters.clone(),
            phase: Arc::clone(&phase),
            raise: Arc::new(move |to| clock.raise(to)),
        });
        database
            .store
            .env
            .clone()
            .background("compaction", async move {
                let filter = filters.map(|filters| filters as Arc<dyn CompactionFilterSupplier>);
                let compactor = database.recipe.compactor(supplier, filter, seed);
                run(&database, &compactor, &phase).await
            })
    };
    let path = &database.path;
    task.await
        .ok_or_else(|| Error::new(Code::Internal, format!("compacting {path} was interrupted")))?
        .map_err(|error| error.context(format!("compacting {path}")))?;
    metrics::counter!("cadastre_store_compactions").increment(1);
    Ok(true)
}

/// Runs a compactor until its one compaction is done and seen by the database.
async fn run<E: Env>(
    database: &Database<E>,
    compactor: &Compactor,
    phase: &Mutex<Phase>,
) -> Result<()> {
    let clock = database.store.env.clock();
    let until = clock.mono() + PATIENCE;
    let running = compactor.run();
    tokio::pin!(running);
    let outcome = loop {
        tokio::select! {
            biased;
            ended = &mut running => {
                return Err(match ended {
                    Ok(()) => Error::new(Code::Io, "the compactor ended by itself"),
                    Err(error) => from_slatedb(&error),
                });
            }
            () = clock.sleep(LOOK) => {}
        }
        let now = phase.lock().expect("not poisoned").clone();
        match now {
            Phase::Done => break Ok(()),
            Phase::Failed => break Err(Error::new(Code::Io, "the compaction failed")),
            // A close waits for us.
            _ if database.is_closed() => {
                break Err(Error::new(
                    Code::NotServingRegion,
                    "the region is being closed",
                ));
            }
            Phase::Waiting | Phase::Proposed(_) if clock.mono() > until => {
                break Err(Error::new(Code::TimeoutIo, "the compaction takes too long"));
            }
            Phase::Waiting | Phase::Proposed(_) => {}
        }
    };
    // A stop before its tasks have begun does nothing, so it is repeated until the run is over (facts/simulation.md, 7).
    loop {
        let stopping = async {
            let stopped = compactor.stop().await;
            clock.sleep(LOOK).await;
            stopped
        };
        tokio::select! {
            biased;
            _ = &mut running => break,
            stopped = stopping => {
                if let Err(error) = stopped {
                    tracing::debug!(%error, "stopping a compactor");
                }
            }
        }
    }
    outcome?;
    database
        .db
        .refresh_manifest()
        .await
        .map_err(|e| from_slatedb(&e))?;
    database.relieve();
    Ok(())
}

/// Whether a database reads files of another one, which a compaction would make its own.
pub(crate) fn borrows(manifest: &VersionedManifest) -> bool {
    let mut lenders = manifest.external_dbs().iter();
    lenders.any(|lender| !lender.sst_ids.is_empty())
}

/// Removes files that nobody can need any more, and gives up databases none of whose files are read any more.
pub(crate) async fn collect_garbage<E: Env>(database: &Arc<Database<E>>) -> Result<()> {
    let config = &database.store.config;
    let directory = Some(GarbageCollectorDirectoryOptions {
        interval: None,
        min_age: Duration::from_millis(config.garbage_min_age_ms),
        dry_run: false,
    });
    let options = GarbageCollectorOptions {
        manifest_options: directory,
        // The log is ours.
        wal_options: None,
        wal_fence_options: None,
        compacted_options: directory,
        compactions_options: directory,
        detach_options: Some(GarbageCollectorScheduleOptions { interval: None }),
        // A local disk has no conditional overwrite (facts/storage-engine.md, section 8).
        boundary_files_enabled: false,
        ..GarbageCollectorOptions::default()
    };
    let number = database.store.next_open();
    let stream = format!("garbage {} {number}", database.path);
    let seed = database.store.env.rng(&stream).next_u64();
    let task = {
        let recipe = database.recipe.clone();
        database
            .store
            .env
            .background("garbage collection", async move {
                GarbageCollectorBuilder::new(recipe.path.clone(), Arc::clone(&recipe.objects))
                    .with_options(options)
                    .with_system_clock(Arc::clone(&recipe.clock))
                    .with_seed(seed)
                    .build()
                    .run_gc_once()
                    .await;
            })
    };
    task.await.ok_or_else(|| {
        Error::new(
            Code::Internal,
            format!("collecting garbage of {} was interrupted", database.path),
        )
    })?;
    // What it gave up is to be seen.
    if !database.db.manifest().external_dbs().is_empty() {
        let refreshed = database.db.refresh_manifest().await;
        refreshed.map_err(|e| from_slatedb(&e))?;
    }
    Ok(())
}
