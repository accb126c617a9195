//! The store of one data directory and object store: opens regions and the master's database, owns log, cache and lock.
//!
//! It must not know how rows are laid out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use cadastre_env::{Disk, DiskLock, Env};
use cadastre_types::{Code, Error, RegionInfo, Result, TableDescriptor};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slatedb::VersionedManifest;
use slatedb::wal::WalAdmin;
use tokio::sync::Notify;

use crate::cache::BlockCache;
use crate::check;
use crate::cluster;
use crate::database::Database;
use crate::error::{from_io, from_object_store};
use crate::kv::Kv;
use crate::log::{Follower, FoundLog, Log, LogConfig};
use crate::maintenance;
use crate::object_log::{ObjectAdmin, ObjectLog};
use crate::objects::Objects;
use crate::owner;
use crate::planted::Plant;
use crate::region::Region;
use crate::row_cache::RowCache;
use crate::starts;

/// The data directory's lock file.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// Databases open at one time at most, so that file handles and memory are bounded (INV-9); an idle one takes about 300 kB.
const DATABASES_MAX: usize = 4096;

/// Databases closed, and so flushed, at one time when the store closes.
const CLOSES_MAX: usize = 8;

/// When a write counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalSync {
    /// After fdatasync: survives a power cut. Group commit makes one serve many writes.
    Fdatasync,
    /// After write(2): survives a kill, not a power cut. HBase's own default on a local disk.
    Write,
}

/// Sizes and modes of a store. [`StoreConfig::new`] derives everything from the memory; the simulator sets small sizes so that
/// everything happens often.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Memory of all caches and memtables together, bytes.
    pub memory_bytes: u64,
    /// When a write counts as durable.
    pub wal_sync: WalSync,
    /// Memory of the block cache, bytes, out of `memory_bytes`.
    pub block_cache_bytes: u64,
    /// Memory of the row cache, bytes, out of `memory_bytes`.
    pub row_cache_bytes: u64,
    /// Unflushed writes of all regions together, bytes, out of `memory_bytes`; above it the largest regions are flushed.
    pub unflushed_bytes: u64,
    /// A region's memtable becomes a file at this size, bytes.
    pub memtable_bytes: u64,
    /// A compaction begins its next file beyond this size, bytes; where rows begin and end makes no difference to it.
    pub sst_bytes: u64,
    /// Size of a log segment, bytes; no write can be larger.
    pub segment_bytes: u64,
    /// Log segments on disk at most before the regions that hold the oldest back are flushed.
    pub segments_max: usize,
    /// Writes are refused when the log's disk has less than this left, bytes.
    pub low_space_bytes: u64,
    /// L0 files of a region at which it is compacted.
    pub compact_at_files: usize,
    /// How long files that a compaction replaced stay readable, ms: twice the longest life of a scanner's iterator.
    pub checkpoint_lifetime_ms: u64,
    /// Age below which garbage collection leaves files alone, ms: longer than any stalled process may live.
    pub garbage_min_age_ms: u64,
    /// The objects are on a store that machines share: the logs lie there, too, and the data directory keeps nothing that counts.
    pub shared_store: bool,
    /// A fault for the tests to find (T10).
    #[cfg(feature = "planted-faults")]
    pub planted: Option<crate::Planted>,
}

impl StoreConfig {
    /// Production sizes for this much memory.
    pub fn new(memory_bytes: u64) -> Self {
        let unflushed_bytes = memory_bytes / 4;
        Self {
            memory_bytes,
            wal_sync: WalSync::Fdatasync,
            block_cache_bytes: memory_bytes / 4,
            row_cache_bytes: memory_bytes / 4,
            unflushed_bytes,
            // 64 to 128 MB is best while loading (facts/storage-engine.md, section 4), but never more than half the budget.
            memtable_bytes: (64 << 20).min(unflushed_bytes / 2).max(1 << 20),
            // SlateDB's own.
            sst_bytes: 256 << 20,
            segment_bytes: 64 << 20,
            segments_max: 16,
            low_space_bytes: 512 << 20,
            compact_at_files: 4,
            checkpoint_lifetime_ms: 15 * 60 * 1000,
            garbage_min_age_ms: 10 * 60 * 1000,
            shared_store: false,
            #[cfg(feature = "planted-faults")]
            planted: None,
        }
    }
}

/// Which region to open.
#[derive(Debug, Clone)]
pub struct RegionSpec {
    /// The region.
    pub info: RegionInfo,
    /// Its table; every family has its id.
    pub descriptor: Arc<TableDescriptor>,
    /// Open only if nobody opened it since: the writer epoch that is expected to be the last one (C20).
    pub expected_epoch: Option<u64>,
}

/// Regions and databases of one data directory. Clones are the same store.
pub struct Store<E: Env> {
    pub(crate) shared: Arc<StoreShared<E>>,
}

impl<E: Env> Clone for Store<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// What a store's databases share.
pub(crate) struct StoreShared<E: Env> {
    pub(crate) env: E,
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) config: StoreConfig,
    pub(crate) log: Log<E>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) rows: Arc<RowCache>,
    /// Wakes the maintenance task.
    pub(crate) wake: Arc<Notify>,
    /// Bytes written and not yet flushed, over all databases.
    pub(crate) unflushed: AtomicU64,
    pub(crate) closed: AtomicBool,
    /// Whether compactions may begin by themselves.
    pub(crate) compactions: AtomicBool,
    cluster_id: String,
    pub(crate) start_code: u64,
    opens: AtomicU64,
    open: Mutex<BTreeMap<Arc<str>, Weak<Database<E>>>>,
    _lock: DiskLock,
}

impl<E: Env> StoreShared<E> {
    /// A number for each open of a database in this process, for seeds and cache scopes.
    pub(crate) fn next_open(&self) -> u64 {
        self.opens.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn open_map(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Weak<Database<E>>>> {
        self.open.lock().expect("not poisoned")
    }

    /// The databases that are open, in the order of their paths.
    pub(crate) fn open_databases(&self) -> Vec<Arc<Database<E>>> {
        self.open_map().values().filter_map(Weak::upgrade).collect()
    }

    /// An open database by its path.
    pub(crate) fn open_database(&self, path: &str) -> Option<Arc<Database<E>>> {
        self.open_map().get(path).and_then(Weak::upgrade)
    }

    /// Whether a database is open here.
    pub(crate) fn is_open(&self, path: &str) -> bool {
        let open = self.open_database(path);
        open.is_some_and(|open| !open.is_closed())
    }

    /// Whether one more database may be opened.
    pub(crate) fn check_room(&self) -> Result<()> {
        let mut open = self.open_map();
        open.retain(|_, database| database.strong_count() > 0);
        if open.len() >= DATABASES_MAX {
            return Err(Error::new(
                Code::Io,
                format!("{DATABASES_MAX} regions are open on this server: no more"),
            ));
        }
        Ok(())
    }

    /// The log of a database of its own, where machines share the store.
    pub(crate) fn object_log(&self, path: &str) -> Option<ObjectLog<E>> {
        self.config.shared_store.then(|| {
            ObjectLog::new(
                self.env.clone(),
                Arc::clone(&self.objects),
                path,
                self.log.record_max(),
                Duration::from_millis(self.config.garbage_min_age_ms),
            )
        })
    }

    /// Whether a closed database has rows in its log that are not known to be in its own files.
    pub(crate) async fn has_unflushed(
        &self,
        path: &str,
        manifest: &VersionedManifest,
    ) -> Result<bool> {
        let replay_after = manifest.replay_after_wal_id();
        if self.config.shared_store {
            let admin = ObjectAdmin::new(self.env.clone(), Arc::clone(&self.objects));
            let flushed = manifest.last_l0_seq();
            return admin.has_unflushed(path, replay_after, flushed).await;
        }
        Ok(self.log.has_unflushed(path, replay_after))
    }

    /// The log's side of SlateDB's administration.
    pub(crate) fn wal_admin(&self) -> Arc<dyn WalAdmin> {
        if self.config.shared_store {
            return Arc::new(ObjectAdmin::new(
                self.env.clone(),
                Arc::clone(&self.objects),
            ));
        }
        self.log.admin()
    }

    /// Ends the process when another one has taken the store over.
    pub(crate) async fn check_owner(&self) -> Result<()> {
        if !self.config.shared_store {
            return Ok(());
        }
        owner::check(&self.env, &*self.objects, self.start_code).await
    }

    pub(crate) fn add_open(&self, database: &Arc<Database<E>>) {
        self.open_map()
            .insert(Arc::clone(&database.path), Arc::downgrade(database));
    }

    /// Takes a database off the list, unless another one of the same path took its place.
    pub(crate) fn remove_open(&self, database: &Database<E>) {
        let mut open = self.open_map();
        let this: *const Database<E> = database;
        if open
            .get(&database.path)
            .is_some_and(|listed| std::ptr::eq(listed.as_ptr(), this))
        {
            open.remove(&database.path);
        }
    }
}

impl<E: Env> Store<E> {
    /// Opens the store: takes the data directory's lock, checks the cluster file, reads the log and the databases at the root, and
    /// only then changes anything.
    ///
    /// `objects` holds everything below its root and must make what it stores durable before it answers (on a local disk:
    /// `LocalFileSystem::with_fsync`), since the log is cut after a flush (C17). What it keeps of a deleted object, such as an
    /// empty directory, is its own affair (`LocalFileSystem::with_automatic_cleanup`).
    ///
    /// # Errors
    /// When another process uses the directory, and for damaged or newer formats, naming the file, which is left as it is.
    pub async fn open(env: E, objects: Arc<dyn ObjectStore>, config: StoreConfig) -> Result<Self> {
        let lock = env.disk().lock(LOCK_FILE).map_err(|error| {
            if error.kind() == std::io::ErrorKind::WouldBlock {
                return Error::invalid("another process uses the data directory");
            }
            from_io("locking the data directory", &error)
        })?;
        let objects: Arc<dyn ObjectStore> = Objects::new(objects);
        let cluster_id = cluster::open(&env, &*objects).await?;
        // All is read and judged before anything is written.
        let starts = starts::read(env.disk()).await?;
        let found = FoundLog::read(&env, starts.listed()).await?;
        check::root_databases(&env, &objects).await?;
        let log = Log::open(
            env.clone(),
            LogConfig {
                sync: config.wal_sync,
                segment_bytes: config.segment_bytes,
                low_space_bytes: config.low_space_bytes,
                queue_bytes_max: usize::try_from(config.segment_bytes).unwrap_or(usize::MAX),
                plant: config.plant(),
            },
            found,
        )
        .await?;
        let mut start_code = starts.take(&env).await?;
        if config.shared_store {
            start_code = owner::take(&*objects, start_code).await?;
        }
        let shared = Arc::new(StoreShared {
            cache: Arc::new(BlockCache::new(config.block_cache_bytes)),
            rows: Arc::new(RowCache::new(config.row_cache_bytes, config.plant())),
            env,
            objects,
            config,
            log,
            wake: Arc::new(Notify::new()),
            unflushed: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            compactions: AtomicBool::new(true),
            cluster_id,
            start_code,
            opens: AtomicU64::new(0),
            open: Mutex::new(BTreeMap::new()),
            _lock: lock,
        });
        maintenance::start(&shared);
        if shared.config.shared_store {
            owner::start_beating(&shared);
        }
        Ok(Self { shared })
    }

    /// The fault that is planted, for servers that have some of their own.
    #[cfg(feature = "planted-faults")]
    pub fn planted(&self) -> Option<crate::Planted> {
        self.shared.config.planted
    }

    /// The cluster's id, made when the store was.
    pub fn cluster_id(&self) -> &str {
        &self.shared.cluster_id
    }

    /// The start code for servers on this data directory, ms since 1970: above that of every earlier start, also when the wall
    /// clock has gone back.
    pub fn start_code(&self) -> u64 {
        self.shared.start_code
    }

    /// The memory that it was given, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.config.memory_bytes
    }

    /// Whether its files lie where other machines' do, too, and not just on this one.
    pub fn is_shared(&self) -> bool {
        self.shared.config.shared_store
    }

    /// Largest write that one [`RowLocks::write`](crate::RowLocks::write) takes, bytes as the log counts them.
    pub fn write_bytes_max(&self) -> usize {
        self.shared.log.record_max()
    }

    /// Opens a region; call it on the serving core that will own it: its writer stays there, its flushes and compactions run
    /// in the background.
    ///
    /// # Errors
    /// `Fenced` when the expected epoch is not the last one; `Corrupt` for damaged files.
    pub async fn open_region(&self, spec: RegionSpec) -> Result<Region<E>> {
        Region::open(Arc::clone(&self.shared), spec).await
    }

    /// The writer epoch of the last opening of a region, wherever that was; 0 if it never was opened. For whoever ordered an
    /// opening that was refused because of another epoch (C20).
    ///
    /// # Errors
    /// `Corrupt` for a damaged manifest, `Io`.
    pub async fn region_epoch(&self, info: &RegionInfo) -> Result<u64> {
        let manifest = self.read_manifest(&region_path(info)).await?;
        Ok(manifest.map_or(0, |manifest| manifest.writer_epoch()))
    }

    /// Deletes a closed region's objects and what the log has of it. Done before is done.
    ///
    /// # Errors
    /// When it is open here; `Io` from the object store.
    pub async fn delete_region(&self, info: &RegionInfo) -> Result<()> {
        let path = region_path(info);
        if self.shared.is_open(&path) {
            return Err(Error::invalid(format!(
                "{path} is open: close the region before it is deleted"
            )));
        }
        self.give_back(&path).await?;
        let prefix = Path::from(path.as_str());
        let objects: Vec<_> = self
            .shared
            .objects
            .list(Some(&prefix))
            .map_ok(|object| object.location)
            .try_collect()
            .await
            .map_err(|e| from_object_store(&e))?;
        for object in objects {
            match self.shared.objects.delete(&object).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(from_object_store(&error)),
            }
        }
        if self.shared.config.shared_store {
            // Its log was among its objects.
            return Ok(());
        }
        let lane = self.shared.log.lane_here();
        self.shared.log.forget_deleted(&path, &lane).await
    }

    /// Follows a region's writes through the log: with `after` `None` from now on, else behind the LSN of a batch that this follower
    /// was given before, also before a restart. What it has not confirmed stays in the log, as long as no more than
    /// `bytes_max` are held back so; beyond that the follower gets `LogTruncated` and has to begin anew from the region's data.
    ///
    /// # Errors
    /// `LogTruncated` when that has happened, or nothing was held back for this name; `Invalid` for a name that cannot be, or of
    /// another region's follower; `Io`.
    pub async fn follow(
        &self,
        name: &str,
        info: &RegionInfo,
        after: Option<u64>,
        bytes_max: u64,
    ) -> Result<Follower<E>> {
        if self.shared.config.shared_store {
            return Err(Error::unsupported("following a log on a shared store"));
        }
        let path = region_path(info);
        self.shared.log.follow(name, &path, after, bytes_max).await
    }

    /// Forgets a follower and lets go what was held back for it. Done before is done.
    ///
    /// # Errors
    /// `Io`.
    pub async fn unfollow(&self, name: &str) -> Result<()> {
        self.shared.log.unfollow(name).await
    }

    /// Makes all of the log durable and lets go of what files hold already.
    ///
    /// # Errors
    /// When the store is closed.
    pub async fn roll_log(&self) -> Result<()> {
        self.shared.log.sync().await?;
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Lets compactions that nobody asked for begin, or not; whether they might before.
    pub fn switch_compactions(&self, on: bool) -> bool {
        let before = self.shared.compactions.swap(on, Ordering::SeqCst);
        self.shared.wake.notify_one();
        before
    }

    /// Whether compactions may begin.
    pub fn compactions_on(&self) -> bool {
        self.shared.compactions.load(Ordering::SeqCst)
    }

    /// Size of the block cache, bytes.
    pub fn cache_bytes_max(&self) -> u64 {
        self.shared.config.block_cache_bytes
    }

    /// Opens a plain key-value database, such as the master's; call it on the core that will own it.
    ///
    /// # Errors
    /// As [`Self::open_region`].
    pub async fn open_kv(&self, path: &str) -> Result<Kv<E>> {
        Kv::open(Arc::clone(&self.shared), path).await
    }

    /// Closes every database that is still open (flushing it), then the log. The serving cores must still run.
    ///
    /// # Errors
    /// The first database's that could not be closed; the others are closed all the same.
    pub async fn close(&self) -> Result<()> {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.wake.notify_one();
        let closing = futures::stream::iter(self.shared.open_databases()).map(|database| async move {
            let closed = database.close().await;
            if let Err(error) = &closed {
                tracing::warn!(path = &*database.path, %error, "a database did not close cleanly");
            }
            closed
        });
        let closed: Vec<Result<()>> = closing.buffered(CLOSES_MAX).collect().await;
        let first_error = closed.into_iter().find(Result::is_err).unwrap_or(Ok(()));
        self.shared.log.close().await?;
        first_error
    }
}

/// Where a region's objects lie.
pub(crate) fn region_path(info: &RegionInfo) -> String {
    if info.is_meta() {
        return "meta".to_owned();
    }
    format!(
        "data/{}/{}/{}",
        info.table.namespace(),
        info.table.qualifier(),
        info.encoded_name()
    )
}

impl StoreConfig {
    pub(crate) fn plant(&self) -> Plant {
        Plant(
            #[cfg(feature = "planted-faults")]
            self.planted,
        )
    }

    /// [`Self::checkpoint_lifetime_ms`] as a duration.
    pub(crate) fn checkpoint_lifetime(&self) -> Duration {
        Duration::from_millis(self.checkpoint_lifetime_ms)
    }
}
