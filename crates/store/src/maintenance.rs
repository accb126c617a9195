//! What keeps the store healthy without being asked: flushes by budget, compaction, truncation of the log, garbage collection, giving
//! up the files of split and merged regions.
//!
//! One task per store looks around when it is woken and every [`INTERVAL`]; it flushes itself, since a flush is short, and gives
//! compactions to tasks of their own. An idle database costs it a look at two numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use cadastre_env::{Clock, Env};
use cadastre_types::Result;
use tokio::sync::Semaphore;

use crate::compaction;
use crate::database::Database;
use crate::db::L0_BUSY;
use crate::files;
use crate::filter::{CellFilters, WideRows};
use crate::region::RegionShared;
use crate::store::StoreShared;
use crate::widths;

/// How often maintenance looks around when nothing wakes it.
const INTERVAL: Duration = Duration::from_secs(10);

/// Compactions at one time: they are bound by CPU on few background threads.
const COMPACTIONS_MAX: usize = 2;

/// A segment of the log holds few databases back in the common case; this bounds one turn's flushes all the same.
const FLUSHES_MAX: usize = 64;

/// How often in the life of a checkpoint a clone looks whether it can give up its sources; a look costs 2 to 3 ms.
const LENDER_LOOKS: u32 = 8;

/// Shortest pause between two looks.
const LENDER_PAUSE_MIN: Duration = Duration::from_secs(1);

/// Starts the store's maintenance task on the calling runtime.
pub(crate) fn start<E: Env>(store: &Arc<StoreShared<E>>) {
    let weak = Arc::downgrade(store);
    let clock = store.env.clock().clone();
    store.env.spawn("store maintenance", run(weak, clock));
}

/// What the task remembers between turns.
struct State {
    compactions: Arc<Semaphore>,
    /// When which open database's garbage is collected next (mono).
    garbage: Mutex<BTreeMap<Arc<str>, Duration>>,
}

async fn run<E: Env>(weak: Weak<StoreShared<E>>, clock: E::Clock) {
    let state = State {
        compactions: Arc::new(Semaphore::new(COMPACTIONS_MAX)),
        garbage: Mutex::new(BTreeMap::new()),
    };
    loop {
        let Some(store) = weak.upgrade() else {
            return;
        };
        if store.closed.load(Ordering::SeqCst) {
            return;
        }
        turn(&store, &state).await;
        let wake = Arc::clone(&store.wake);
        // Not held while waiting: a store that nobody uses any more ends.
        drop(store);
        // Woken or not, it looks around.
        let _ = clock.timeout(INTERVAL, wake.notified()).await;
    }
}

async fn turn<E: Env>(store: &Arc<StoreShared<E>>, state: &State) {
    flush_by_budget(store).await;
    truncate_log(store).await;
    let open = store.open_databases();
    truncate_object_logs(&open).await;
    {
        let paths: BTreeSet<&Arc<str>> = open.iter().map(|database| &database.path).collect();
        let mut garbage = state.garbage.lock().expect("not poisoned");
        garbage.retain(|path, _| paths.contains(path));
    }
    for database in open {
        if database.is_closed() {
            continue;
        }
        let manifest = database.db.manifest();
        let files = manifest.l0().len();
        // A clone makes its files its own as soon as it can: until then its sources' stay.
        let all = compaction::borrows(&manifest);
        let due = all || files > 1 && files >= compact_at(store, &database);
        if due && store.compactions.load(Ordering::SeqCst) {
            start_compaction(store, state, database, all);
        } else {
            start_collection(store, state, database);
        }
    }
    metrics::gauge!("cadastre_store_unflushed_bytes")
        .set(store.unflushed.load(Ordering::Relaxed) as f64);
    metrics::gauge!("cadastre_log_segments").set(store.log.segments() as f64);
}

/// Files that a flush made at which a database is compacted: by its table, but before writes would have to wait, or by the store.
fn compact_at<E: Env>(store: &StoreShared<E>, database: &Database<E>) -> usize {
    database
        .region()
        .and_then(|region| files::compaction_min(&region.descriptor()))
        .map_or(store.config.compact_at_files, |least| {
            least.min(L0_BUSY / 2)
        })
}

async fn flush<E: Env>(database: &Arc<Database<E>>) {
    let flushed = async {
        let _open = database.begin().await?;
        database.flush().await
    };
    if let Err(error) = flushed.await
        && !database.is_closed()
    {
        tracing::warn!(path = &*database.path, %error, "flush failed");
    }
}

/// Flushes databases over their own size, then the largest ones until half the budget is free again.
async fn flush_by_budget<E: Env>(store: &Arc<StoreShared<E>>) {
    let mut open = store.open_databases();
    open.sort_by_key(|database| std::cmp::Reverse(database.unflushed_bytes()));
    let mut over_budget = store.unflushed.load(Ordering::Relaxed) >= store.config.unflushed_bytes;
    for database in open {
        let own = database.unflushed_bytes();
        if own == 0 || !(over_budget || own >= store.config.memtable_bytes) {
            break;
        }
        flush(&database).await;
        if store.unflushed.load(Ordering::Relaxed) <= store.config.unflushed_bytes / 2 {
            over_budget = false;
        }
    }
}

/// Removes segments; when there are too many, flushes what holds the oldest back first.
async fn truncate_log<E: Env>(store: &Arc<StoreShared<E>>) {
    let flushed = |path: &str| store.open_database(path)?.flushed_sequence();
    for _ in 0..FLUSHES_MAX {
        let pinned = match store.log.truncate(flushed).await {
            Ok(pinned) => pinned,
            Err(error) => {
                tracing::warn!(%error, "the log cannot be truncated");
                return;
            }
        };
        if store.log.segments() <= store.config.segments_max {
            return;
        }
        let mut flushed_any = false;
        for path in &pinned {
            if let Some(database) = store.open_database(path)
                && !database.is_closed()
            {
                flush(&database).await;
                flushed_any = true;
            }
        }
        if !flushed_any {
            // Held back by regions that are not open here; they are flushed when they are opened, or deleted.
            return;
        }
    }
}

/// Removes what databases with logs of their own have in their files.
async fn truncate_object_logs<E: Env>(open: &[Arc<Database<E>>]) {
    for database in open {
        let Some(log) = &database.object_log else {
            continue;
        };
        if database.is_closed() {
            continue;
        }
        let told = database.db.manifest().replay_after_wal_id();
        if let Err(error) = log.truncate_written(told).await {
            // The next turn goes on.
            tracing::warn!(path = &*database.path, %error, "the log cannot be truncated");
        }
    }
}

fn start_compaction<E: Env>(
    store: &Arc<StoreShared<E>>,
    state: &State,
    database: Arc<Database<E>>,
    all: bool,
) {
    if database.compacting.try_lock().is_err() {
        return;
    }
    let Ok(permit) = Arc::clone(&state.compactions).try_acquire_owned() else {
        return;
    };
    let wake = Arc::clone(&store.wake);
    store.env.spawn("compaction", async move {
        let _permit = permit;
        let compacted = async {
            let _open = database.begin().await?;
            match database.region() {
                Some(region) => compact_region(&region, all).await,
                None => compaction::compact(&database, None, all).await.map(|_| ()),
            }
        };
        match compacted.await {
            Ok(()) => wake.notify_one(),
            // The next turn tries again.
            Err(error) if !database.is_closed() => {
                tracing::warn!(path = &*database.path, %error, "compaction failed");
            }
            Err(_) => {}
        }
    });
}

fn start_collection<E: Env>(
    store: &Arc<StoreShared<E>>,
    state: &State,
    database: Arc<Database<E>>,
) {
    // Files become garbage by compaction, and lie around after a crash; both are old enough after this long.
    let lifetime = store.config.checkpoint_lifetime();
    let pause = match database.db.manifest().external_dbs().is_empty() {
        true => lifetime + Duration::from_millis(store.config.garbage_min_age_ms),
        // It may give them up when the last checkpoint that has their files is over, and somebody waits for that.
        false => (lifetime / LENDER_LOOKS).max(LENDER_PAUSE_MIN),
    };
    let permit = {
        let now = store.env.clock().mono();
        let mut garbage = state.garbage.lock().expect("not poisoned");
        let due = garbage
            .entry(Arc::clone(&database.path))
            .or_insert(now + pause);
        if *due > now {
            return;
        }
        let Ok(permit) = Arc::clone(&state.compactions).try_acquire_owned() else {
            return;
        };
        *due = now + pause;
        permit
    };
    store.env.spawn("garbage collection", async move {
        let _permit = permit;
        let collected = async {
            let _open = database.begin().await?;
            compaction::collect_garbage(&database).await
        };
        if let Err(error) = collected.await
            && !database.is_closed()
        {
            tracing::warn!(path = &*database.path, %error, "garbage collection failed");
        }
    });
}

/// Compacts a region's files, dropping what its table says, then rewrites the wide rows that a major compaction met.
pub(crate) async fn compact_region<E: Env>(
    region: &Arc<RegionShared<E>>,
    major: bool,
) -> Result<()> {
    let database = &region.database;
    if !major && let Some(least) = files::compaction_min(&region.descriptor()) {
        let manifest = database.db.manifest();
        if manifest.l0().len() + manifest.compacted().len() < least {
            return Ok(());
        }
    }
    if major {
        // All of it: what is in memory too.
        database.flush().await?;
        database.forget_snapshots().await?;
    }
    let wide = WideRows::default();
    let filters = CellFilters::new(
        region.codec,
        &region.descriptor(),
        major,
        database.clock.wall_ms(),
        database.moment(),
        database.store.config.plant(),
        Arc::clone(&wide),
    );
    let merged = compaction::compact(database, Some(Arc::new(filters)), major).await?;
    if major && merged {
        let ended = database.clock.wall_ms();
        region.files.set_major(&database.recipe, ended).await?;
    }
    if major {
        // What it dropped must not come back with a later write of older timestamp.
        region.rows.forget_all();
        let rows = std::mem::take(&mut *wide.lock().expect("not poisoned"));
        widths::rewrite(region, rows).await?;
    }
    Ok(())
}
