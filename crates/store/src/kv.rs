//! A plain key-value database on the same store and log: the master's own.

use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::Result;
use slatedb::WriteBatch;
use slatedb::config::{DurabilityLevel, ReadOptions, ScanOptions};

use crate::database::{Database, Form, Prepared};
use crate::error::from_slatedb;
use crate::store::StoreShared;

/// Bytes that one [`Kv::scan_prefix`] answers at most: it is for catalogues, not for data.
const SCAN_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A small durable map. Clones are the same database; it is fenced like a region.
pub struct Kv<E: Env> {
    database: Arc<Database<E>>,
}

impl<E: Env> Clone for Kv<E> {
    fn clone(&self) -> Self {
        Self {
            database: Arc::clone(&self.database),
        }
    }
}

impl<E: Env> Kv<E> {
    pub(crate) async fn open(store: Arc<StoreShared<E>>, path: &str) -> Result<Self> {
        let database = Database::open(store, path, Form::default(), None).await?;
        Ok(Self { database })
    }

    /// The writer epoch of this open; the next opener fences it.
    pub fn epoch(&self) -> u64 {
        self.database.epoch
    }

    /// A durable value.
    ///
    /// # Errors
    /// `Fenced`, `NotServingRegion` once closed, `Corrupt`, `Io`.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let _open = self.database.begin().await?;
        self.database.tell_durable();
        let options = ReadOptions {
            durability_filter: DurabilityLevel::Remote,
            ..ReadOptions::default()
        };
        self.database
            .db
            .get_with_options(key, &options)
            .await
            .map_err(|e| from_slatedb(&e))
    }

    /// All durable entries whose key begins so, in key order, of one moment.
    ///
    /// # Errors
    /// As [`Self::get`]; `RowTooBig` for more than 256 MiB.
    pub async fn scan_prefix(&self, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>> {
        let _open = self.database.begin().await?;
        let snapshot = self.database.durable_snapshot().await?;
        let options = ScanOptions {
            cache_blocks: true,
            ..ScanOptions::default()
        };
        let mut entries = snapshot
            .scan_prefix_with_options(prefix, .., &options)
            .await
            .map_err(|e| from_slatedb(&e))?;
        let mut found = Vec::new();
        let mut bytes = 0;
        while let Some(entry) = entries.next().await.map_err(|e| from_slatedb(&e))? {
            bytes += entry.key.len() + entry.value.len();
            if bytes > SCAN_BYTES_MAX {
                return Err(cadastre_types::Error::new(
                    cadastre_types::Code::RowTooBig,
                    format!("more than {SCAN_BYTES_MAX} bytes under one prefix"),
                ));
            }
            found.push((entry.key, entry.value));
        }
        Ok(found)
    }

    /// Puts and deletes (`None`) atomically; answers when durable.
    ///
    /// # Errors
    /// As [`Self::get`]; `RegionTooBusy` before anything happened.
    pub async fn write(&self, changes: Vec<(Bytes, Option<Bytes>)>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let _open = self.database.begin().await?;
        let bytes = changes
            .iter()
            .map(|(key, value)| key.len() + value.as_ref().map_or(0, Bytes::len))
            .sum();
        self.database.admit(bytes, changes.len()).await?;
        let written = self
            .database
            .write(|_| {
                let mut batch = WriteBatch::new();
                for (key, value) in &changes {
                    match value {
                        Some(value) => batch.put_bytes(key.clone(), value.clone()),
                        None => batch.delete(key),
                    }
                }
                Prepared {
                    batch,
                    bytes,
                    keys: changes.len(),
                }
            })
            .await?;
        self.database.wait_durable(written).await
    }

    /// Flushes and closes.
    ///
    /// # Errors
    /// As the flush's.
    pub async fn close(&self) -> Result<()> {
        self.database.close().await
    }
}
