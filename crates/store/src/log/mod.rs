//! The log of a data directory: what makes writes durable before they are in a database's own files.
//!
//! One writer ("lane") per serving core, each with its own segments; all regions of a core share its lane, and one fdatasync
//! makes the writes of many durable (group commit). SlateDB sees it through its WAL traits ([`database`]); an LSN is what it
//! calls a WAL file id. LSNs come from one counter per data directory (C13). This module must not know of cells or regions:
//! a database is a path.

mod admin;
mod content;
mod database;
mod follow;
mod format;
mod holds;
mod index;
mod lane;
mod recover;
mod registry;
mod replay;
mod settle;
mod tail;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cadastre_env::{Clock, Disk, Env};
use cadastre_types::{Code, Error, Result};
use tokio::sync::Notify;

#[cfg(feature = "fuzzing")]
pub(crate) use format::fuzz_records;
#[cfg(feature = "fuzzing")]
pub(crate) use recover::fuzz_segment;

pub(crate) use admin::{NoGarbage, clone_begins};
use database::LogWal;
pub(crate) use database::{DatabaseLog, latest_tick};
use follow::HoldsFile;
pub use follow::{Follower, LogBatch, LogChange};
pub(crate) use format::{Encoded, GroupBuilder, Record, group_at, records};
use holds::Holds;
use index::Index;
pub(crate) use lane::Lane;
use recover::Judged;
use registry::Registry;

use crate::error::from_io;
use crate::planted::Plant;
use crate::store::WalSync;

/// Directory of the segments, below the data directory.
const DIR: &str = "log";

/// Largest segment that is ever read, bytes: bounds what a strange file can make us allocate.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a group and a segment beside a record: headers, names, alignment.
const RECORD_OVERHEAD: u64 = 4096;

/// How long a write waits for room in the log before it is refused, so that a slow preallocation is not an error.
const ROOM_WAIT: Duration = Duration::from_secs(2);

fn segment_path(number: u64) -> String {
    format!("{DIR}/{number:016}.log")
}

fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// How the log is kept.
#[derive(Debug, Clone)]
pub(crate) struct LogConfig {
    pub(crate) sync: WalSync,
    /// Size of a segment, bytes.
    pub(crate) segment_bytes: u64,
    /// Writes are refused when the disk has less than this left, bytes.
    pub(crate) low_space_bytes: u64,
    /// Encoded writes that wait for the disk at most, bytes per lane.
    pub(crate) queue_bytes_max: usize,
    pub(crate) plant: Plant,
}

/// Told of what the log has of a database that is opened: times that the clock must not go below, ms, and bytes of rows that
/// are replayed.
pub(crate) type SeenByLog = Arc<dyn Fn(i64, usize) + Send + Sync>;

/// What all lanes share.
pub(crate) struct Shared<E: Env> {
    env: E,
    config: LogConfig,
    /// The last LSN given out.
    lsn: AtomicU64,
    /// The last segment number given out.
    segment: AtomicU64,
    /// Whether the disk is nearly full.
    low_space: AtomicBool,
    index: Mutex<Index<<E::Disk as Disk>::File>>,
    /// The current writer of each database; older ones are fenced.
    databases: Mutex<BTreeMap<Arc<str>, Arc<DatabaseLog>>>,
    holds: Mutex<Holds>,
    /// Guards changes of the holds.
    holds_file: tokio::sync::Mutex<HoldsFile>,
    /// The list of segments on disk.
    registry: Registry<<E::Disk as Disk>::File>,
    /// Segments that only followers keep.
    held_back: AtomicUsize,
    /// Wakes followers.
    followed: Notify,
}

impl<E: Env> Shared<E> {
    fn holds(&self) -> std::sync::MutexGuard<'_, Holds> {
        self.holds.lock().expect("not poisoned")
    }

    /// Looks at the space left, and tells whether it is low.
    fn check_space(&self) -> bool {
        let low = match self.env.disk().free_bytes() {
            Ok(free) => free < self.config.low_space_bytes,
            Err(error) => {
                tracing::warn!(%error, "the free space of the log's disk is unknown");
                false
            }
        };
        if low != self.low_space.swap(low, Ordering::SeqCst) {
            tracing::warn!(low, "space on the log's disk");
        }
        low
    }
}

/// The log as a start found it: read, not damaged, and not changed yet.
pub(crate) struct FoundLog<E: Env> {
    holds: Holds,
    judged: Judged<<E::Disk as Disk>::File>,
}

impl<E: Env> FoundLog<E> {
    /// Reads and judges what is there. `listed`: it is known that there was a list of segments.
    ///
    /// # Errors
    /// `Corrupt`, naming the file; `Io`.
    pub(crate) async fn read(env: &E, listed: bool) -> Result<Self> {
        let holds = Holds::load(env.disk()).await?;
        let judged = recover::judge(env.disk(), listed).await?;
        Ok(Self { holds, judged })
    }
}

/// The log of a data directory.
pub(crate) struct Log<E: Env> {
    shared: Arc<Shared<E>>,
    lanes: Vec<Arc<Lane>>,
    next_lane: AtomicUsize,
}

impl<E: Env> Log<E> {
    /// Goes on where the last process ended, with a lane per core. The first thing that changes the disk.
    pub(crate) async fn open(env: E, config: LogConfig, found: FoundLog<E>) -> Result<Self> {
        let cores = u32::try_from(env.cores()).expect("cores are few");
        let settled = settle::settle(&env, found.judged, cores).await?;
        let shared = Arc::new(Shared {
            lsn: AtomicU64::new(settled.last_lsn),
            segment: AtomicU64::new(settled.last_segment),
            low_space: AtomicBool::new(false),
            index: Mutex::new(settled.index),
            registry: settled.registry,
            databases: Mutex::new(BTreeMap::new()),
            holds: Mutex::new(found.holds),
            holds_file: tokio::sync::Mutex::default(),
            held_back: AtomicUsize::new(0),
            followed: Notify::new(),
            env,
            config,
        });
        shared.check_space();
        let mut lanes = Vec::new();
        for core in 0..shared.env.cores() {
            let number = u32::try_from(core).expect("cores are few");
            let synced = settled.lanes.get(&number).copied().unwrap_or(0);
            lanes.push(lane::start(Arc::downgrade(&shared), &shared.env, core, synced).await?);
        }
        Ok(Self {
            shared,
            lanes,
            next_lane: AtomicUsize::new(0),
        })
    }

    /// Largest record, bytes.
    pub(crate) fn record_max(&self) -> usize {
        usize::try_from(self.shared.config.segment_bytes - RECORD_OVERHEAD).unwrap_or(usize::MAX)
    }

    /// The lane of the core this is called on; of several on one thread (the simulator has all cores on one) each in turn.
    pub(crate) fn lane_here(&self) -> Arc<Lane> {
        let here = std::thread::current().id();
        let own: Vec<_> = self
            .lanes
            .iter()
            .filter(|lane| lane.thread == here)
            .collect();
        let turn = self.next_lane.fetch_add(1, Ordering::Relaxed);
        Arc::clone(if own.is_empty() {
            &self.lanes[turn % self.lanes.len()]
        } else {
            own[turn % own.len()]
        })
    }

    /// What SlateDB is given to open a database with.
    pub(crate) fn wal(&self, path: &str, lane: &Arc<Lane>, seen: SeenByLog) -> LogWal<E> {
        LogWal::new(
            Arc::clone(&self.shared),
            path.into(),
            Arc::clone(lane),
            seen,
        )
    }

    /// What SlateDB is given to work on closed databases with.
    pub(crate) fn admin(&self) -> Arc<admin::LogAdmin<E>> {
        Arc::new(admin::LogAdmin(Arc::clone(&self.shared)))
    }

    /// Whether a closed database has rows in the log that are not known to be in its own files.
    pub(crate) fn has_unflushed(&self, path: &str, replay_after: u64) -> bool {
        let index = self.shared.index.lock().expect("not poisoned");
        index.has_unflushed(path, replay_after)
    }

    /// Lets a write of this many bytes in, or refuses it before it reaches the database (C17).
    ///
    /// # Errors
    /// `RegionTooBusy` when the disk is nearly full or the log cannot follow.
    pub(crate) async fn admit(&self, lane: &Lane, bytes: usize) -> Result<()> {
        if self.shared.low_space.load(Ordering::SeqCst) {
            return Err(Error::new(
                Code::RegionTooBusy,
                "the log's disk is nearly full: no writes until there is space",
            ));
        }
        let bytes = bytes as u64 + RECORD_OVERHEAD;
        if lane.has_room(bytes, self.shared.config.queue_bytes_max) {
            return Ok(());
        }
        let room = lane.wait_for_room(bytes, self.shared.config.queue_bytes_max);
        match self.shared.env.clock().timeout(ROOM_WAIT, room).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::new(
                Code::RegionTooBusy,
                "the log has no room: the disk is full or too slow",
            )),
        }
    }

    /// Notes durably that everything of a database up to now is in its own files, and drops its writer: called after a close
    /// that flushed. Nothing happens when a newer writer took over meanwhile: then "up to now" is not ours to judge.
    pub(crate) async fn forget_flushed(
        &self,
        path: &str,
        writer_epoch: u64,
        lane: &Arc<Lane>,
    ) -> Result<()> {
        let lsn = {
            let mut databases = self.shared.databases.lock().expect("not poisoned");
            if databases.get(path).map(|current| current.epoch) != Some(writer_epoch) {
                return Ok(());
            }
            databases.remove(path);
            lane.push_note(&self.shared, path, format::Encoded::flushed)
        };
        lane.wait_durable(lsn).await
    }

    /// Notes durably that a database is deleted.
    pub(crate) async fn forget_deleted(&self, path: &str, lane: &Arc<Lane>) -> Result<()> {
        let lsn = {
            let mut databases = self.shared.databases.lock().expect("not poisoned");
            databases.remove(path);
            lane.push_note(&self.shared, path, format::Encoded::deleted)
        };
        lane.wait_durable(lsn).await
    }

    /// Removes the segments that nobody needs any more; answers the databases that hold back the others.
    pub(crate) async fn truncate(
        &self,
        flushed_sequence: impl Fn(&str) -> Option<u64>,
    ) -> Result<Vec<Arc<str>>> {
        let (free, pinned_by) = self.releasable(flushed_sequence).await?;
        if !free.is_empty() {
            self.remove(&free).await?;
            tracing::debug!(segments = free.len(), "log truncated");
        }
        self.shared.check_space();
        Ok(pinned_by)
    }

    /// Removes segments, which are noted as free before.
    async fn remove(&self, numbers: &[u64]) -> Result<()> {
        let registry = &self.shared.registry;
        registry.free(numbers);
        registry
            .commit(&self.shared.env)
            .await
            .map_err(|e| from_io("noting free segments of the log", &e))?;
        let disk = self.shared.env.disk();
        for number in numbers {
            settle::remove_free(disk, *number)?;
            let mut index = self.shared.index.lock().expect("not poisoned");
            index.remove(*number);
        }
        disk.sync_dir(DIR)
            .await
            .map_err(|e| from_io("syncing the log's directory", &e))?;
        registry.forget(numbers);
        Ok(())
    }

    /// What can go, and the databases that hold back the rest. A follower for whom more is held back than its bound is too far
    /// behind from here on, which is durable before anything of it goes.
    async fn releasable(
        &self,
        flushed_sequence: impl Fn(&str) -> Option<u64>,
    ) -> Result<(Vec<u64>, Vec<Arc<str>>)> {
        let mut file = self.shared.holds_file.lock().await;
        let mut holds = self.shared.holds().clone();
        let (free, pinned_by) = {
            let index = self.shared.index.lock().expect("not poisoned");
            let (all, _) = index.releasable(&flushed_sequence, |_| None);
            for (name, hold) in holds.0.iter_mut().filter(|(_, hold)| !hold.lost) {
                let (free, _) = index.releasable(&flushed_sequence, |path| hold.wanted_above(path));
                let held = (all.len() - free.len()) as u64 * self.shared.config.segment_bytes;
                if held > hold.bytes_max {
                    tracing::warn!(name, held, "a follower of the log is too far behind");
                    hold.lost = true;
                }
            }
            let (free, pinned_by) =
                index.releasable(&flushed_sequence, |path| holds.wanted_above(path));
            let held = all.len() - free.len();
            self.shared.held_back.store(held, Ordering::Relaxed);
            (free, pinned_by)
        };
        file.replace(&self.shared, holds).await?;
        drop(file);
        self.shared.followed.notify_waiters();
        Ok((free, pinned_by))
    }

    /// Number of segments on disk, spares and those that only followers keep not counted.
    pub(crate) fn segments(&self) -> usize {
        let all = self.shared.index.lock().expect("not poisoned").len();
        all.saturating_sub(self.shared.held_back.load(Ordering::Relaxed))
    }

    /// Follows a database, from now on or behind an LSN that this follower has been given.
    pub(crate) async fn follow(
        &self,
        name: &str,
        path: &str,
        after: Option<u64>,
        bytes_max: u64,
    ) -> Result<Follower<E>> {
        let shared = Arc::clone(&self.shared);
        follow::begin(shared, self.lanes.clone(), name, path, after, bytes_max).await
    }

    /// Forgets a follower, and what is held back for it.
    pub(crate) async fn unfollow(&self, name: &str) -> Result<()> {
        follow::end(&self.shared, name).await
    }

    /// Waits until all that was queued is on the device.
    pub(crate) async fn sync(&self) -> Result<()> {
        for lane in &self.lanes {
            lane.sync().await?;
        }
        Ok(())
    }

    /// Writes what waits, makes it durable whatever the mode, and stops the lanes.
    pub(crate) async fn close(&self) -> Result<()> {
        for lane in &self.lanes {
            lane.sync().await?;
            lane.stop();
        }
        Ok(())
    }
}

impl<E: Env> Drop for Log<E> {
    fn drop(&mut self) {
        for lane in &self.lanes {
            lane.stop();
        }
    }
}
