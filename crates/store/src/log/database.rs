//! The log as SlateDB's WAL: fencing, appending, telling what is durable.
//!
//! Our own waiters learn of each group from here. SlateDB is told only when it must know ([`DatabaseLog::tell`]): whenever it is,
//! it wakes its manifest writer, a task of the background runtime, which cost each single put the wake-ups of two threads.
//!
//! Every open of a database makes a new [`DatabaseLog`] and closes the one before it, so a deposed writer's next append fails
//! whatever it believes (INV-2). No lock is held while a listener is called: listeners ask back.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use cadastre_env::Env;
use slatedb::wal::{
    WalError, WalEvent, WalFlushResult, WalObserver, WalStatus, WalStatusListener, WalWriter,
    WriterInit, WriterInitResult, WriterManifest,
};
use slatedb::{RowEntry, VersionedManifest};
use tokio::sync::watch;

use super::format::Encoded;
use super::lane::Lane;
use super::replay::Replay;
use super::{SeenByLog, Shared};
use crate::planted::Planted;

/// Bytes of durable records that SlateDB is not told of, at most: a memtable that it freezes by itself waits for that, and our
/// flushes, which tell it, begin when there is a memtable full.
const UNTOLD_BYTES_MAX: usize = 1024 * 1024;

/// What one group made durable of a database.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Durable {
    pub(super) lsn: u64,
    pub(super) sequence: u64,
    pub(super) bytes: usize,
    pub(super) records: usize,
}

struct State {
    closed: Option<WalError>,
    /// Bytes and records that wait to be durable.
    buffered: usize,
    buffered_records: usize,
    appended_lsn: u64,
    flushed_lsn: u64,
    flushed_sequence: Option<u64>,
    /// Bytes made durable since SlateDB was told.
    untold: usize,
    listeners: Vec<WalStatusListener>,
    /// Where deposed writers may still have records on the way, and up to which LSN.
    older: Vec<(Arc<Lane>, u64)>,
}

impl State {
    fn status(&self) -> WalStatus {
        WalStatus {
            closed_reason: self.closed.clone(),
            estimated_bytes: self.buffered,
            last_flushed_wal_id: self.flushed_lsn,
            last_flushed_seq: self.flushed_sequence,
            buffered_wal_entries_count: self.buffered_records,
        }
    }
}

/// One writer of one database, from its fence on.
pub(crate) struct DatabaseLog {
    pub(super) path: Arc<str>,
    pub(super) epoch: u64,
    lane: Arc<Lane>,
    state: Mutex<State>,
    /// Sequence number up to which everything is durable.
    durable: watch::Sender<u64>,
    /// The one up to which SlateDB knows it, or more than that.
    told: AtomicU64,
    /// Those who want SlateDB to be told of each group.
    tellers: AtomicUsize,
    /// Sequence number up to which rows are in the database's own files, by a manifest that is written. SlateDB's own status is ahead
    /// of that while it writes one: rows whose records went in between were lost to a kill.
    flushed: AtomicU64,
}

/// While this lives SlateDB is told of each group.
pub(crate) struct Telling<'a>(&'a DatabaseLog);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.tellers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl DatabaseLog {
    fn new(path: Arc<str>, epoch: u64, lane: Arc<Lane>) -> Arc<Self> {
        Arc::new(Self {
            path,
            epoch,
            lane,
            state: Mutex::new(State {
                closed: None,
                buffered: 0,
                buffered_records: 0,
                appended_lsn: 0,
                flushed_lsn: 0,
                flushed_sequence: None,
                untold: 0,
                listeners: Vec::new(),
                older: Vec::new(),
            }),
            durable: watch::Sender::new(0),
            told: AtomicU64::new(0),
            tellers: AtomicUsize::new(0),
            flushed: AtomicU64::new(0),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// Takes over what the deposed writer, and those before it, may have on the way.
    fn succeed(&self, old: &Self) {
        let mut older = {
            let mut old_state = old.state();
            let mut older = std::mem::take(&mut old_state.older);
            older.push((Arc::clone(&old.lane), old_state.appended_lsn));
            older
        };
        self.state().older.append(&mut older);
    }

    /// Waits until all that deposed writers queued is written: only then can a replay see it, and it must, since their
    /// sequence numbers would be given out again.
    async fn drain_older(&self) -> Result<(), WalError> {
        let older = self.state().older.clone();
        for (lane, lsn) in &older {
            lane.wait_durable(*lsn).await.map_err(unavailable)?;
        }
        self.state().older.clear();
        Ok(())
    }

    /// Queues rows or the fence, unless the writer is closed.
    fn push<E: Env>(
        self: &Arc<Self>,
        shared: &Shared<E>,
        sequence: u64,
        record: impl FnOnce(u64) -> Encoded,
    ) -> Result<u64, WalError> {
        let mut state = self.state();
        if let Some(reason) = &state.closed {
            return Err(reason.clone());
        }
        if self.lane.is_stopped() {
            return Err(WalError::Closed);
        }
        let (lsn, bytes) = self.lane.push_writer(shared, self, sequence, record);
        state.appended_lsn = lsn;
        state.buffered += bytes;
        state.buffered_records += 1;
        Ok(lsn)
    }

    /// Takes note of what is durable now and tells who waits; SlateDB, too, if it must know.
    pub(super) fn durable(&self, durable: Durable) {
        let told = {
            let mut state = self.state();
            state.flushed_lsn = durable.lsn;
            if durable.sequence > 0 {
                state.flushed_sequence = Some(durable.sequence);
            }
            state.buffered -= durable.bytes;
            state.buffered_records -= durable.records;
            if state.closed.is_some() {
                return;
            }
            state.untold += durable.bytes;
            // A fence has no sequence: SlateDB waits for it. Looked at under the lock: who begins to want it takes the lock after.
            let needed = durable.sequence == 0
                || state.untold >= UNTOLD_BYTES_MAX
                || self.tellers.load(Ordering::SeqCst) > 0;
            needed.then(|| {
                state.untold = 0;
                (state.status(), state.listeners.clone())
            })
        };
        if let Some((status, listeners)) = told {
            self.tell_of(&status, &listeners);
        }
        self.raise(durable.sequence);
    }

    fn raise(&self, sequence: u64) {
        self.durable.send_if_modified(|at| {
            let news = sequence > *at;
            *at = sequence.max(*at);
            news
        });
    }

    fn tell_of(&self, status: &WalStatus, listeners: &[WalStatusListener]) {
        for listener in listeners {
            listener(WalEvent::WalFlushed(status.clone()));
        }
        // Only now: whoever finds it told reads from SlateDB at once.
        self.told
            .fetch_max(status.last_flushed_seq.unwrap_or(0), Ordering::SeqCst);
    }

    /// What was replayed is durable, and SlateDB knows.
    pub(crate) fn opened(&self, sequence: u64) {
        self.told.fetch_max(sequence, Ordering::SeqCst);
        self.raise(sequence);
    }

    /// A manifest that is written says that the database's files have everything up to a sequence number.
    pub(crate) fn flushed_to(&self, sequence: u64) {
        self.flushed.fetch_max(sequence, Ordering::SeqCst);
    }

    /// Sequence number up to which no records are needed any more (C15).
    pub(crate) fn flushed_sequence(&self) -> u64 {
        self.flushed.load(Ordering::SeqCst)
    }

    /// Sequence number up to which everything is durable.
    pub(crate) fn durable_sequence(&self) -> u64 {
        *self.durable.borrow()
    }

    /// Waits until a sequence number is durable. Ends only then: the caller looks whether the database is closed.
    pub(crate) async fn wait_durable_sequence(&self, sequence: u64) {
        let mut durable = self.durable.subscribe();
        let reached = durable.wait_for(|at| *at >= sequence).await;
        assert!(reached.is_ok(), "the sender is here");
    }

    /// Tells SlateDB what is durable, if it does not know: before it is asked for what is durable.
    pub(crate) fn tell(&self) {
        if self.told.load(Ordering::SeqCst) >= self.durable_sequence() {
            return;
        }
        let (status, listeners) = {
            let mut state = self.state();
            if state.closed.is_some() {
                return;
            }
            state.untold = 0;
            (state.status(), state.listeners.clone())
        };
        self.tell_of(&status, &listeners);
    }

    /// From now on SlateDB is told of each group: while it waits for that.
    pub(crate) fn keep_telling(&self) -> Telling<'_> {
        self.tellers.fetch_add(1, Ordering::SeqCst);
        self.tell();
        Telling(self)
    }

    /// Closes the writer; the first reason stays. The answer is to be told once no lock is held.
    fn shut(&self, reason: WalError) -> Option<(WalStatus, Vec<WalStatusListener>)> {
        let mut state = self.state();
        if state.closed.is_some() {
            return None;
        }
        state.closed = Some(reason);
        Some((state.status(), std::mem::take(&mut state.listeners)))
    }

    /// Closes the writer and tells SlateDB why.
    fn close(&self, reason: WalError) {
        tell_closed(self.shut(reason));
    }

    fn checked_status(&self) -> Result<WalStatus, WalStatus> {
        let status = self.state().status();
        if status.closed_reason.is_some() {
            return Err(status);
        }
        Ok(status)
    }
}

fn tell_closed(closed: Option<(WalStatus, Vec<WalStatusListener>)>) {
    if let Some((status, listeners)) = closed {
        for listener in listeners {
            listener(WalEvent::WalClosed(status.clone()));
        }
    }
}

/// What a database is opened with.
pub(crate) struct LogWal<E: Env> {
    shared: Arc<Shared<E>>,
    path: Arc<str>,
    lane: Arc<Lane>,
    seen: SeenByLog,
    /// Where the writer is put once it has fenced its predecessor.
    writer: WriterSlot,
}

/// Where an open finds its writer.
pub(crate) type WriterSlot = Arc<OnceLock<Arc<DatabaseLog>>>;

impl<E: Env> LogWal<E> {
    pub(super) fn new(
        shared: Arc<Shared<E>>,
        path: Arc<str>,
        lane: Arc<Lane>,
        seen: SeenByLog,
    ) -> Self {
        Self {
            shared,
            path,
            lane,
            seen,
            writer: WriterSlot::default(),
        }
    }

    /// Where the writer will be once the database is open.
    pub(crate) fn writer(&self) -> WriterSlot {
        Arc::clone(&self.writer)
    }

    /// Puts a new writer in the place of the old one, which gets nothing in from here on.
    fn replace(&self, epoch: u64) -> Result<Arc<DatabaseLog>, WalError> {
        let database = DatabaseLog::new(Arc::clone(&self.path), epoch, Arc::clone(&self.lane));
        let closed = {
            let mut databases = self.shared.databases.lock().expect("not poisoned");
            match databases.get(&self.path) {
                Some(_) if self.shared.config.plant.is(Planted::NoFence) => {
                    databases.insert(Arc::clone(&self.path), Arc::clone(&database));
                    None
                }
                // Somebody newer was faster.
                Some(current) if current.epoch >= epoch => return Err(WalError::Fenced),
                Some(old) => {
                    // Closed first: then its last LSN is final.
                    let closed = old.shut(WalError::Fenced);
                    database.succeed(old);
                    databases.insert(Arc::clone(&self.path), Arc::clone(&database));
                    closed
                }
                None => {
                    databases.insert(Arc::clone(&self.path), Arc::clone(&database));
                    None
                }
            }
        };
        tell_closed(closed);
        Ok(database)
    }
}

fn unavailable(error: cadastre_types::Error) -> WalError {
    WalError::Unavailable(Arc::new(error))
}

#[async_trait]
impl<E: Env> WriterInit for LogWal<E> {
    async fn fence_and_init(
        &self,
        manifest: &mut WriterManifest,
    ) -> Result<WriterInitResult, WalError> {
        let replay_after = manifest.replay_after_wal_id();
        (self.seen)(latest_tick(&manifest.manifest()), 0);
        // C13: an LSN at or below the manifest's would be skipped by a later replay.
        self.shared
            .lsn
            .fetch_max(replay_after, std::sync::atomic::Ordering::SeqCst);
        let epoch = manifest.epoch();
        let database = self.replace(epoch)?;
        database.flushed_to(manifest.manifest().last_l0_seq());
        database.drain_older().await?;
        let fence = database.push(&self.shared, 0, |lsn| Encoded::fence(epoch, lsn))?;
        assert!(fence > replay_after, "LSNs grow");
        self.lane.wait_durable(fence).await.map_err(unavailable)?;
        let (groups, deleted) = {
            let index = self.shared.index.lock().expect("not poisoned");
            (index.groups_of(&self.path), index.deleted_up_to(&self.path))
        };
        let replay = Replay::new(
            Arc::clone(&self.path),
            groups,
            replay_after.max(deleted),
            Arc::clone(&self.seen),
        );
        let first = self.writer.set(Arc::clone(&database)).is_ok();
        assert!(first, "an open makes one writer");
        let writer = LogWriter {
            shared: Arc::clone(&self.shared),
            database,
        };
        Ok(WriterInitResult {
            replay_iterator: Box::new(replay),
            wal_writer: Box::new(writer),
        })
    }
}

/// The latest time that a manifest has seen, ms: SlateDB refuses for good a file whose name, which holds the time it was made, is
/// older than those before it (C8).
pub(crate) fn latest_tick(manifest: &VersionedManifest) -> i64 {
    let views = manifest.all_sst_views();
    let names = views.flat_map(|view| [view.id, view.sst.id.value()]);
    let compacted = [
        manifest.last_compacted_l0_sst_view_id(),
        manifest.last_compacted_l0_sst_id(),
    ];
    names
        .chain(compacted.into_iter().flatten())
        .filter_map(|name| i64::try_from(name.timestamp_ms()).ok())
        .fold(manifest.last_l0_clock_tick(), i64::max)
}

/// SlateDB's side of an open database.
struct LogWriter<E: Env> {
    shared: Arc<Shared<E>>,
    database: Arc<DatabaseLog>,
}

#[async_trait]
impl<E: Env> WalWriter for LogWriter<E> {
    async fn append(&mut self, write_batch: &[RowEntry]) -> Result<(), WalError> {
        let Some(first) = write_batch.first() else {
            return Ok(());
        };
        let (epoch, sequence) = (self.database.epoch, first.seq);
        self.database.push(&self.shared, sequence, |lsn| {
            Encoded::rows(epoch, lsn, sequence, write_batch)
        })?;
        Ok(())
    }

    async fn flush(&mut self) -> Result<WalFlushResult, WalError> {
        let wal_id = {
            let state = self.database.state();
            state.appended_lsn
        };
        let lane = Arc::clone(&self.database.lane);
        Ok(WalFlushResult {
            wal_id,
            completion: Box::pin(
                async move { lane.wait_durable(wal_id).await.map_err(unavailable) },
            ),
        })
    }

    fn observer(&self) -> Box<dyn WalObserver> {
        Box::new(Observer(Arc::clone(&self.database)))
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.database.checked_status()
    }

    async fn close(&mut self) -> Result<(), WalError> {
        self.database.close(WalError::Closed);
        Ok(())
    }
}

struct Observer(Arc<DatabaseLog>);

impl WalObserver for Observer {
    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.checked_status()
    }

    fn subscribe(&self, listener: WalStatusListener) -> Result<(), WalError> {
        let mut state = self.0.state();
        if let Some(reason) = &state.closed {
            return Err(reason.clone());
        }
        state.listeners.push(listener);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What SlateDB has been told: the sequence number each time.
    type Told = Arc<Mutex<Vec<Option<u64>>>>;

    fn writer() -> (Arc<DatabaseLog>, Told) {
        let log = DatabaseLog::new("p".into(), 1, Arc::new(Lane::new(0)));
        let told = Told::default();
        let listener = {
            let told = Arc::clone(&told);
            Arc::new(move |event| {
                if let WalEvent::WalFlushed(status) = event {
                    told.lock().unwrap().push(status.last_flushed_seq);
                }
            })
        };
        Observer(Arc::clone(&log)).subscribe(listener).unwrap();
        (log, told)
    }

    fn group(log: &DatabaseLog, sequence: u64, bytes: usize) {
        {
            let mut state = log.state();
            state.buffered += bytes;
            state.buffered_records += 1;
        }
        log.durable(Durable {
            lsn: sequence,
            sequence,
            bytes,
            records: 1,
        });
    }

    #[test]
    fn single_writes_wake_nobody_but_those_who_wait() {
        let (log, told) = writer();
        for sequence in 1..=100 {
            group(&log, sequence, 1000);
            assert_eq!(log.durable_sequence(), sequence);
        }
        assert_eq!(*told.lock().unwrap(), []);
    }

    #[test]
    fn slatedb_knows_before_it_is_asked_and_is_told_once() {
        let (log, told) = writer();
        group(&log, 1, 10);
        group(&log, 2, 10);
        log.tell();
        log.tell();
        assert_eq!(*told.lock().unwrap(), [Some(2)]);
        group(&log, 3, 10);
        log.tell();
        assert_eq!(*told.lock().unwrap(), [Some(2), Some(3)]);
    }

    #[test]
    fn a_flush_is_told_of_each_group() {
        let (log, told) = writer();
        group(&log, 1, 10);
        {
            let _telling = log.keep_telling();
            group(&log, 2, 10);
            group(&log, 3, 10);
        }
        group(&log, 4, 10);
        assert_eq!(*told.lock().unwrap(), [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn a_fence_is_told_and_so_are_many_bytes() {
        let (log, told) = writer();
        group(&log, 0, 10);
        assert_eq!(*told.lock().unwrap(), [None]);
        group(&log, 1, UNTOLD_BYTES_MAX / 2);
        group(&log, 2, UNTOLD_BYTES_MAX / 2);
        group(&log, 3, 10);
        assert_eq!(*told.lock().unwrap(), [None, Some(2)]);
    }

    #[test]
    fn a_deposed_writer_makes_nothing_durable() {
        let (log, told) = writer();
        log.opened(7);
        log.close(WalError::Fenced);
        group(&log, 8, 10);
        log.tell();
        assert_eq!(log.durable_sequence(), 7);
        assert_eq!(*told.lock().unwrap(), []);
    }
}
