//! One open SlateDB database with what ours always need: its lane of the log, its clock, ordered writes, waiting for
//! durability, flushing and closing.
//!
//! It must not know of cells.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use cadastre_env::{Clock, Env};
use cadastre_types::{Code, Error, Result};
use object_store::path::Path;
use rand::RngCore;
use slatedb::config::{
    CheckpointOptions, CheckpointScope, CompressionCodec, FlushOptions, FlushType, WriteOptions,
};
use slatedb::wal::WriterInit;
use slatedb::{Db, DbSnapshot, DbStatus, ErrorKind, MergeOperator, WriteBatch};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::clock::RegionClock;
use crate::db::{L0_BUSY, Recipe};
use crate::error::from_slatedb;
use crate::key::RowCodec;
use crate::log::{DatabaseLog, Lane};
use crate::nonces::Moment;
use crate::object_log::ObjectLog;
use crate::region::RegionShared;
use crate::store::StoreShared;

/// Operations on one database at a time at most; far above what the RPC layer lets in.
const OPERATIONS_MAX: u32 = 1 << 20;

/// Bytes of a key in the memtable beside its key and value: skip list node, two `Bytes`, row entry (measured, about 430 with a
/// 100-byte cell).
const ENTRY_OVERHEAD: usize = 300;

/// Memtables' worth of unflushed bytes at which writes wait: one that is written to, and two that are being flushed. Below what
/// makes SlateDB stall them silently.
const MEMTABLES_MAX: u64 = 3;

/// How long a write waits for flushes and compactions before it is refused.
const RELIEF_WAIT: Duration = Duration::from_secs(5);

/// Life of a checkpoint that is made for the manifest that is written with it.
const MANIFEST_WRITE_LIFE: Duration = Duration::from_secs(1);

/// Tries of a write whose sequence number was taken by another. Two writers collide at most once per backpressure wait.
const SEQUENCE_TRIES: usize = 64;

/// What a write wants of the database: made anew for each sequence number that is tried.
pub(crate) struct Prepared {
    pub(crate) batch: WriteBatch,
    /// Bytes of keys and values, and number of keys.
    pub(crate) bytes: usize,
    pub(crate) keys: usize,
}

/// What a database holds, and how its files are written.
#[derive(Default)]
pub(crate) struct Form {
    /// Rows, or `None` for a plain key-value database.
    pub(crate) codec: Option<RowCodec>,
    pub(crate) merge: Option<Arc<dyn MergeOperator + Send + Sync>>,
    pub(crate) compression: Option<CompressionCodec>,
}

/// An open database.
pub(crate) struct Database<E: Env> {
    pub(crate) path: Arc<str>,
    pub(crate) store: Arc<StoreShared<E>>,
    pub(crate) db: Db,
    pub(crate) recipe: Recipe,
    pub(crate) clock: Arc<RegionClock<E::Clock>>,
    pub(crate) lane: Arc<Lane>,
    /// Its own log where machines share the store; then the lane has nothing of it.
    pub(crate) object_log: Option<ObjectLog<E>>,
    /// Its writer in the lane, which knows what is durable before SlateDB does; `None` with a log of its own.
    writer: Option<Arc<DatabaseLog>>,
    pub(crate) epoch: u64,
    /// Sequence number of the last write before this open.
    pub(crate) opened_at: u64,
    /// When it was open, and older writers fenced (mono).
    open_since: Duration,
    status: watch::Receiver<DbStatus>,
    /// The last sequence number drawn.
    sequence: AtomicU64,
    /// The last sequence number written.
    written: AtomicU64,
    /// Bytes written and not yet flushed, about as much as the memtables take.
    unflushed: AtomicU64,
    /// Counts flushes, so that others can see that one began.
    flushes: AtomicU64,
    closing: AtomicBool,
    relief: Notify,
    operations: Arc<Semaphore>,
    /// The region it is of, if it is one's: compactions need its table.
    region: OnceLock<Weak<RegionShared<E>>>,
    /// One flush, one compaction at a time.
    pub(crate) flushing: tokio::sync::Mutex<()>,
    pub(crate) compacting: tokio::sync::Mutex<()>,
}

impl<E: Env> Database<E> {
    /// Opens a database on the background runtime, with its writer on the runtime this is called on.
    pub(crate) async fn open(
        store: Arc<StoreShared<E>>,
        path: &str,
        form: Form,
        expected_epoch: Option<u64>,
    ) -> Result<Arc<Self>> {
        store.check_room()?;
        // Whoever has taken the store over fences us once, and we do not fence it in turn.
        store.check_owner().await?;
        let number = store.next_open();
        let clock = RegionClock::new(store.env.clock().clone());
        let lane = store.log.lane_here();
        let replayed = Arc::new(AtomicU64::new(0));
        let seen = {
            let (clock, replayed) = (Arc::clone(&clock), Arc::clone(&replayed));
            Arc::new(move |time, bytes| {
                clock.raise(time);
                replayed.fetch_add(bytes as u64, Ordering::Relaxed);
            })
        };
        let recipe = recipe(&store, path, number, &clock, form);
        let object_log = store.object_log(path);
        let mut slot = None;
        let wal: Box<dyn WriterInit> = match &object_log {
            Some(log) => Box::new(log.wal(seen)),
            None => {
                let wal = store.log.wal(path, &lane, seen);
                slot = Some(wal.writer());
                Box::new(wal)
            }
        };
        let seed = store
            .env
            .rng(&format!("database {path} {number}"))
            .next_u64();
        let writer = tokio::runtime::Handle::current();
        let opening = {
            let recipe = recipe.clone();
            store.env.background("open database", async move {
                recipe.open(wal, seed, writer, expected_epoch).await
            })
        };
        let db = opening
            .await
            .ok_or_else(|| Error::new(Code::Internal, format!("opening {path} was interrupted")))?
            .map_err(|error| from_slatedb(&error).context(format!("opening {path}")))?;
        let opened_at = db.snapshot().map_err(|e| from_slatedb(&e))?.seq();
        let status = db.subscribe();
        let writer = slot.map(|slot| {
            let writer = Arc::clone(slot.get().expect("the database is open, so it was fenced"));
            writer.opened(status.borrow().durable_seq);
            writer
        });
        let database = Arc::new(Self {
            path: path.into(),
            epoch: db.manifest().writer_epoch(),
            opened_at,
            open_since: store.env.clock().mono(),
            status,
            writer,
            sequence: AtomicU64::new(opened_at),
            written: AtomicU64::new(opened_at),
            unflushed: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            relief: Notify::new(),
            operations: Arc::new(Semaphore::new(OPERATIONS_MAX as usize)),
            region: OnceLock::new(),
            flushing: tokio::sync::Mutex::new(()),
            compacting: tokio::sync::Mutex::new(()),
            store,
            db,
            recipe,
            clock,
            lane,
            object_log,
        });
        database.store.add_open(&database);
        let replayed = usize::try_from(replayed.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        if replayed > 0 {
            database.count(replayed);
        }
        Ok(database)
    }

    /// This moment, as nonces are stamped and measured.
    pub(crate) fn moment(&self) -> Moment {
        let open = self
            .store
            .env
            .clock()
            .mono()
            .saturating_sub(self.open_since);
        Moment {
            epoch: self.epoch,
            open_ms: u64::try_from(open.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Tells which region this is the database of.
    pub(crate) fn belongs_to(&self, region: &Arc<RegionShared<E>>) {
        let told = self.region.set(Arc::downgrade(region)).is_ok();
        assert!(told, "a database belongs to one region");
    }

    /// The region it is of.
    pub(crate) fn region(&self) -> Option<Arc<RegionShared<E>>> {
        self.region.get().and_then(Weak::upgrade)
    }

    /// Keeps the database from being closed while an operation runs.
    pub(crate) async fn begin(&self) -> Result<OwnedSemaphorePermit> {
        self.check_open()?;
        let permit = Arc::clone(&self.operations)
            .acquire_owned()
            .await
            .map_err(|_| self.not_serving())?;
        // Closing may have begun while waiting behind it.
        self.check_open()?;
        Ok(permit)
    }

    fn not_serving(&self) -> Error {
        Error::new(Code::NotServingRegion, format!("{} is closed", self.path))
    }

    fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(self.not_serving());
        }
        Ok(())
    }

    /// The state as of now, what is not durable yet included (C1).
    pub(crate) fn snapshot(&self) -> Result<Arc<DbSnapshot>> {
        self.db.snapshot().map_err(|e| from_slatedb(&e))
    }

    /// A snapshot all of which is durable (C2).
    pub(crate) async fn durable_snapshot(&self) -> Result<Arc<DbSnapshot>> {
        let snapshot = self.snapshot()?;
        self.wait_durable(snapshot.seq()).await?;
        Ok(snapshot)
    }

    /// Sequence number up to which everything is durable.
    pub(crate) fn durable(&self) -> u64 {
        match &self.writer {
            Some(writer) => writer.durable_sequence(),
            None => self.status.borrow().durable_seq,
        }
    }

    /// To be called before SlateDB is asked for what is durable: it knows all of that from here on.
    pub(crate) fn tell_durable(&self) {
        if let Some(writer) = &self.writer {
            writer.tell();
        }
    }

    /// Waits until a write is durable.
    pub(crate) async fn wait_durable(&self, sequence: u64) -> Result<()> {
        if self.durable() >= sequence {
            return Ok(());
        }
        let mut status = self.status.clone();
        match &self.writer {
            Some(writer) => {
                // An error means that the database is gone, which is closed, too.
                let closed = status.wait_for(|status| status.close_reason.is_some());
                tokio::select! {
                    biased;
                    () = writer.wait_durable_sequence(sequence) => {}
                    _ = closed => {}
                }
            }
            None => {
                // As above.
                let _ = status
                    .wait_for(|s| s.durable_seq >= sequence || s.close_reason.is_some())
                    .await;
            }
        }
        if self.durable() >= sequence {
            return Ok(());
        }
        match self.db.snapshot() {
            Err(error) => Err(from_slatedb(&error)),
            Ok(_) => Err(self.not_serving()),
        }
    }

    /// Refuses a write before it reaches the database when the region or the log cannot take it (C17).
    pub(crate) async fn admit(&self, bytes: usize, keys: usize) -> Result<()> {
        self.check_open()?;
        let bytes = bytes + keys * 32;
        if bytes > self.store.log.record_max() {
            return Err(Error::new(
                Code::RequestTooBig,
                format!(
                    "one atomic write of {bytes} bytes is over the limit of {}",
                    self.store.log.record_max()
                ),
            ));
        }
        self.wait_for_relief().await?;
        match &self.object_log {
            Some(log) => log.admit(bytes).await,
            None => self.store.log.admit(&self.lane, bytes).await,
        }
    }

    /// Why the database cannot take a write now.
    fn pressure(&self) -> Option<String> {
        let files = self.status.borrow().current_manifest.l0().len();
        if files >= L0_BUSY {
            let path = &self.path;
            return Some(format!(
                "{path} has {files} unmerged files: compaction must catch up"
            ));
        }
        let unflushed = self.unflushed_bytes();
        let most = self
            .store
            .config
            .memtable_bytes
            .saturating_mul(MEMTABLES_MAX);
        (unflushed >= most).then(|| {
            let path = &self.path;
            format!("{path} has {unflushed} unflushed bytes: flushing must catch up")
        })
    }

    /// Waits a little while flushes and compactions are behind.
    async fn wait_for_relief(&self) -> Result<()> {
        let clock = self.store.env.clock();
        let until = clock.mono() + RELIEF_WAIT;
        loop {
            let relieved = self.relief.notified();
            tokio::pin!(relieved);
            // Registers before looking, so that no relief is missed.
            relieved.as_mut().enable();
            let Some(why) = self.pressure() else {
                return Ok(());
            };
            self.store.wake.notify_one();
            let left = until.saturating_sub(clock.mono());
            if clock.timeout(left, relieved).await.is_err() {
                return Err(Error::new(Code::RegionTooBusy, why));
            }
            self.check_open()?;
        }
    }

    /// Tells writers that wait that files or memory became fewer.
    pub(crate) fn relieve(&self) {
        self.relief.notify_waiters();
    }

    /// Writes a batch; answers its sequence number once it is visible in memory. `prepare` gets the number the write will have.
    pub(crate) async fn write(&self, mut prepare: impl FnMut(u64) -> Prepared) -> Result<u64> {
        for _ in 0..SEQUENCE_TRIES {
            // Drawn and sent without an await between, so numbers reach SlateDB in order; only its backpressure may turn two
            // round, and then it refuses the lower one and nothing has happened.
            let sequence = self.sequence.fetch_add(1, Ordering::SeqCst) + 1;
            let Prepared { batch, bytes, keys } = prepare(sequence);
            let options = WriteOptions { seqnum: sequence };
            match self.db.write_with_options(batch, &options).await {
                Ok(handle) => {
                    assert_eq!(handle.seqnum(), sequence, "the number that was asked for");
                    self.written.fetch_max(sequence, Ordering::SeqCst);
                    self.count(bytes + keys * ENTRY_OVERHEAD);
                    return Ok(sequence);
                }
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    tracing::debug!(path = &*self.path, sequence, "sequence number taken");
                }
                Err(error) => return Err(from_slatedb(&error)),
            }
        }
        Err(Error::new(
            Code::RegionTooBusy,
            format!("{}: the write found no place among the others", self.path),
        ))
    }

    fn count(&self, bytes: usize) {
        let bytes = bytes as u64;
        self.unflushed.fetch_add(bytes, Ordering::Relaxed);
        let all = self.store.unflushed.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let own = self.unflushed.load(Ordering::Relaxed);
        if all >= self.store.config.unflushed_bytes || own >= self.store.config.memtable_bytes {
            self.store.wake.notify_one();
        }
    }

    /// Bytes written and not yet flushed, about.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.unflushed.load(Ordering::Relaxed)
    }

    /// Number of flushes begun; operand chains are counted between two of them.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Makes the memtable a file.
    pub(crate) async fn flush(&self) -> Result<()> {
        let _one = self.flushing.lock().await;
        // What is written while it runs stays counted.
        let taken = self.unflushed_bytes();
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let visible = self.written.load(Ordering::SeqCst);
        // A memtable is a file only once all of it is durable.
        let _telling = self.writer.as_ref().map(|writer| writer.keep_telling());
        self.db
            .flush_with_options(FlushOptions {
                flush_type: FlushType::MemTable,
            })
            .await
            .map_err(|e| from_slatedb(&e).context(format!("flushing {}", self.path)))?;
        if let Some(writer) = &self.writer {
            writer.flushed_to(visible);
        }
        self.unflushed.fetch_sub(taken, Ordering::Relaxed);
        self.store.unflushed.fetch_sub(taken, Ordering::Relaxed);
        self.relieve();
        self.store.wake.notify_one();
        Ok(())
    }

    /// Lets compactions know that snapshots have ended. What they know of open ones stands in the manifest, and is as old as this
    /// writer's last write of it: after a flush under a long scan a major compaction would else drop nothing, until the next flush.
    pub(crate) async fn forget_snapshots(&self) -> Result<()> {
        let manifest = self.db.manifest();
        if manifest.recent_snapshot_min_seq() >= manifest.last_l0_seq() {
            return Ok(());
        }
        let options = CheckpointOptions {
            lifetime: Some(MANIFEST_WRITE_LIFE),
            ..CheckpointOptions::default()
        };
        let written = self
            .db
            .create_checkpoint(CheckpointScope::Durable, &options);
        let written = written.await.map_err(|e| from_slatedb(&e));
        written
            .map(|_| ())
            .map_err(|error| error.context(format!("writing the manifest of {}", self.path)))
    }

    /// Sequence number up to which the lane's records are needed no more; `None` if it has none of this database.
    pub(crate) fn flushed_sequence(&self) -> Option<u64> {
        self.writer.as_ref().map(|writer| writer.flushed_sequence())
    }

    /// Whether it was closed, by us, by a newer writer or by a fault.
    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::SeqCst) || self.status.borrow().close_reason.is_some()
    }

    /// Lets what runs finish, flushes and closes. Closed before is closed.
    pub(crate) async fn close(&self) -> Result<()> {
        if self.closing.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.relieve();
        let _all = self
            .operations
            .acquire_many(OPERATIONS_MAX)
            .await
            .map_err(|_| self.not_serving())?;
        let _no_compaction = self.compacting.lock().await;
        let closed = {
            // It flushes.
            let _telling = self.writer.as_ref().map(|writer| writer.keep_telling());
            self.db.close().await
        };
        let taken = self.unflushed.swap(0, Ordering::Relaxed);
        self.store.unflushed.fetch_sub(taken, Ordering::Relaxed);
        self.store.remove_open(self);
        closed.map_err(|e| from_slatedb(&e).context(format!("closing {}", self.path)))?;
        // A database that failed or was fenced closes without a flush: then the log is still needed.
        if self.object_log.is_some()
            || self.db.manifest().last_l0_seq() < self.written.load(Ordering::SeqCst)
        {
            return Ok(());
        }
        self.store
            .log
            .forget_flushed(&self.path, self.epoch, &self.lane)
            .await
    }
}

/// What the database and its compactors are built from.
fn recipe<E: Env>(
    store: &StoreShared<E>,
    path: &str,
    number: u64,
    clock: &Arc<RegionClock<E::Clock>>,
    form: Form,
) -> Recipe {
    Recipe {
        path: Path::from(path),
        objects: Arc::clone(&store.objects),
        cache: Arc::clone(&store.cache),
        cache_id: number,
        clock: Arc::clone(clock) as _,
        codec: form.codec,
        merge: form.merge,
        compression: form.compression,
        memtable_bytes: usize::try_from(store.config.memtable_bytes).unwrap_or(usize::MAX),
        sst_bytes: usize::try_from(store.config.sst_bytes).unwrap_or(usize::MAX),
        checkpoint_lifetime: store.config.checkpoint_lifetime(),
    }
}

impl<E: Env> Drop for Database<E> {
    fn drop(&mut self) {
        let taken = self.unflushed.swap(0, Ordering::Relaxed);
        self.store.unflushed.fetch_sub(taken, Ordering::Relaxed);
    }
}
