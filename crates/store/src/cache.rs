//! SlateDB's block cache over quick_cache: one for the process, shared by every region under another scope.
//!
//! Measured cheaper than the built-in one (facts/storage-engine.md, section 3). It must not know of regions.

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use async_trait::async_trait;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use slatedb::db_cache::{CachedEntry, CachedKey, DbCache};

/// Bytes of an entry beside its payload, about: key, two `Arc`s and the cache's own slot.
const ENTRY_OVERHEAD: u64 = 128;

/// Payload that an average entry is taken to have, bytes, to size the cache's tables: one SST block.
const AVERAGE_ENTRY: u64 = 16 * 1024;

#[derive(Clone)]
struct BySize;

impl Weighter<CachedKey, CachedEntry> for BySize {
    fn weight(&self, _key: &CachedKey, entry: &CachedEntry) -> u64 {
        entry.size() as u64 + ENTRY_OVERHEAD
    }
}

/// Fixed keys: which entry is evicted must not differ between two runs of one seed.
pub(crate) type FixedHash = BuildHasherDefault<DefaultHasher>;

/// The block cache.
pub(crate) struct BlockCache(Cache<CachedKey, CachedEntry, BySize, FixedHash>);

impl BlockCache {
    /// A cache of at most this many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let entries = usize::try_from(bytes / AVERAGE_ENTRY)
            .unwrap_or(usize::MAX)
            .max(16);
        Self(Cache::with(
            entries,
            bytes,
            BySize,
            FixedHash::default(),
            DefaultLifecycle::default(),
        ))
    }

    /// Takes everything of one scope out; how many entries that were.
    pub(crate) fn clear(&self, scope: u64) -> u64 {
        let before = self.0.len();
        self.0.retain(|key, _| key.db_cache_id() != scope);
        before.saturating_sub(self.0.len()) as u64
    }
}

#[async_trait]
impl DbCache for BlockCache {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.0.get(key))
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.0.get(key))
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.0.get(key))
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        Ok(self.0.get(key))
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        self.0.insert(key, value);
    }

    async fn remove(&self, key: &CachedKey) {
        self.0.remove(key);
    }

    async fn flush_scope(&self, db_cache_id: u64) -> Result<(), slatedb::Error> {
        self.clear(db_cache_id);
        Ok(())
    }

    fn entry_count(&self) -> u64 {
        self.0.len() as u64
    }
}
