//! How a database and its compactor are built: one place, so that both always get the same block size, filters, merge
//! operator and clock, which nothing checks and whose difference silently drops filters (facts/storage-engine.md, section 7).
//!
//! It must not know of rows beyond their prefix.

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::compactor::CompactionSchedulerSupplier;
use slatedb::config::{CompactionWorkerOptions, CompactorOptions, CompressionCodec, Settings};
use slatedb::wal::WriterInit;
use slatedb::{
    BloomFilterPolicy, CompactionFilterSupplier, CompactorBuilder, Db, DbBuilder, FilterPolicy,
    MergeOperator, PrefixExtractor, PrefixTarget, SstBlockSize,
};
use slatedb_common::clock::SystemClock;
use tokio::runtime::Handle;

use crate::cache::BlockCache;
use crate::key::RowCodec;

/// Bits of a bloom filter per key: about 1 % false positives.
const BLOOM_BITS: u32 = 10;

/// L0 files at which SlateDB stops flushing. We turn writes away long before ([`L0_BUSY`]), since there it is a silent stall.
const L0_MAX: usize = 64;

/// L0 files at which a region refuses writes until a compaction has caught up.
pub(crate) const L0_BUSY: usize = 48;

/// How often an open database looks for a newer manifest by itself. Fencing does not wait for it (the log fences), and our own
/// compactions refresh at once.
const MANIFEST_POLL: Duration = Duration::from_secs(3600);

/// How often a compactor that we run on demand looks around.
const COMPACTOR_POLL: Duration = Duration::from_millis(20);

/// A compaction that a crash left behind is taken over after this long without a sign of life.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Finds a key's row, so that filters can say "this file has nothing of this row".
struct RowPrefix(RowCodec);

impl PrefixExtractor for RowPrefix {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        match target {
            PrefixTarget::Point(key) | PrefixTarget::Prefix(key) => self.0.prefix_len(key),
        }
    }
}

/// Everything that a database and its compactor must agree on.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) path: Path,
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) cache: Arc<BlockCache>,
    /// Scope inside the shared cache; never reused in the process.
    pub(crate) cache_id: u64,
    pub(crate) clock: Arc<dyn SystemClock>,
    /// Rows, or `None` for a plain key-value database.
    pub(crate) codec: Option<RowCodec>,
    pub(crate) merge: Option<Arc<dyn MergeOperator + Send + Sync>>,
    /// Of files that are written from now on; each file says its own.
    pub(crate) compression: Option<CompressionCodec>,
    /// A memtable becomes a file at this size, bytes.
    pub(crate) memtable_bytes: usize,
    /// A compaction begins its next file beyond this size, bytes.
    pub(crate) sst_bytes: usize,
    /// How long files that a compaction replaced stay readable.
    pub(crate) checkpoint_lifetime: Duration,
}

impl Recipe {
    fn filters(&self) -> Vec<Arc<dyn FilterPolicy>> {
        let bloom = BloomFilterPolicy::new(BLOOM_BITS);
        vec![match self.codec {
            Some(codec) => Arc::new(bloom.with_prefix_extractor(Arc::new(RowPrefix(codec)))),
            None => Arc::new(bloom),
        }]
    }

    fn settings(&self) -> Settings {
        Settings {
            flush_interval: None,
            manifest_poll_interval: MANIFEST_POLL,
            compactor_options: None,
            garbage_collector_options: None,
            l0_sst_size_bytes: self.memtable_bytes,
            // Must exceed the memtable; writes are refused by us before this stalls them.
            max_unflushed_bytes: self.memtable_bytes.saturating_mul(4),
            l0_max_ssts: L0_MAX,
            l0_max_ssts_per_key: L0_MAX,
            compression_codec: self.compression,
            ..Settings::default()
        }
    }

    /// Opens the database. To be called on the background runtime, which gets its flushes; the writer stays on the owning
    /// core's.
    pub(crate) async fn open(
        &self,
        wal: Box<dyn WriterInit>,
        seed: u64,
        writer: Handle,
        expected_epoch: Option<u64>,
    ) -> Result<Db, slatedb::Error> {
        let mut builder: DbBuilder<Path> =
            Db::builder(self.path.clone(), Arc::clone(&self.objects))
                .with_settings(self.settings())
                .with_seed(seed)
                .with_system_clock(Arc::clone(&self.clock))
                .with_wal_writer(wal)
                .with_write_runtime(writer)
                .with_db_cache(Arc::clone(&self.cache) as _, self.cache_id)
                .with_sst_block_size(SstBlockSize::Block16Kib)
                .with_filter_policies(self.filters());
        if let Some(merge) = &self.merge {
            builder = builder.with_merge_operator(Arc::clone(merge));
        }
        if let Some(epoch) = expected_epoch {
            builder = builder.with_expected_epoch(epoch);
        }
        builder.build().await
    }

    /// A compactor for the database. To be called on the background runtime.
    pub(crate) fn compactor(
        &self,
        scheduler: Arc<dyn CompactionSchedulerSupplier>,
        filter: Option<Arc<dyn CompactionFilterSupplier>>,
        seed: u64,
    ) -> slatedb::compactor::Compactor {
        let worker = CompactionWorkerOptions {
            max_concurrent_compactions: 1,
            compactions_poll_interval: COMPACTOR_POLL,
            heartbeat_interval: HEARTBEAT,
            max_sst_size: self.sst_bytes,
            // A cut inside a row would give its overflow cells to two filters (facts/storage-engine.md, section 9).
            max_subcompactions: 1,
            compression_codec: self.compression,
            ..CompactionWorkerOptions::default()
        };
        let options = CompactorOptions {
            poll_interval: COMPACTOR_POLL,
            commit_compacted_interval: COMPACTOR_POLL,
            max_concurrent_compactions: 1,
            checkpoint_lifetime: self.checkpoint_lifetime,
            worker_heartbeat_timeout: HEARTBEAT_TIMEOUT,
            worker: Some(worker),
            ..CompactorOptions::default()
        };
        let mut builder = CompactorBuilder::new(self.path.clone(), Arc::clone(&self.objects))
            .with_runtime(Handle::current())
            .with_options(options)
            .with_scheduler_supplier(scheduler)
            .with_seed(seed)
            .with_system_clock(Arc::clone(&self.clock))
            .with_sst_block_size(SstBlockSize::Block16Kib)
            .with_filter_policies(self.filters());
        if let Some(merge) = &self.merge {
            builder = builder.with_merge_operator(Arc::clone(merge));
        }
        if let Some(filter) = filter {
            builder = builder.with_compaction_filter_supplier(filter);
        }
        builder.build()
    }
}
