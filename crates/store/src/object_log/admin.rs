//! What SlateDB, and whoever clones regions, asks of the logs of closed databases: whether they have rows that are nowhere else.
//!
//! A row up to the manifest's last flushed sequence number is in a file, whatever its object's number: a flush takes the number that was
//! durable when it began.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cadastre_env::Env;
use cadastre_types::Result;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::VersionedManifest;
use slatedb::wal::{WalAdmin, WalError, WalGc};

use super::{ObjectLog, content, unavailable};
use crate::log::{NoGarbage, clone_begins};
use crate::manifest;

/// The logs' side of SlateDB's administration.
pub(crate) struct ObjectAdmin<E: Env> {
    env: E,
    objects: Arc<dyn ObjectStore>,
}

impl<E: Env> ObjectAdmin<E> {
    pub(crate) fn new(env: E, objects: Arc<dyn ObjectStore>) -> Self {
        Self { env, objects }
    }

    /// Whether a closed database has rows in its log that are not in its files: which have those up to the sequence number `flushed`, all
    /// that is in objects up to `replay_after` among them.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) async fn has_unflushed(
        &self,
        path: &str,
        replay_after: u64,
        flushed: u64,
    ) -> Result<bool> {
        let objects = Arc::clone(&self.objects);
        let log = ObjectLog::new(self.env.clone(), objects, path, 0, Duration::ZERO);
        let shared = &log.0;
        // The newest first: most have nothing, and what has something has it there.
        let numbers = shared.numbers().await?;
        for number in numbers.into_iter().rev() {
            if number <= replay_after {
                break;
            }
            let Some(bytes) = shared.get(number).await? else {
                continue;
            };
            let rows = content::decode(path, number, &bytes)?.rows;
            if rows.iter().any(|row| row.seq > flushed) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[async_trait]
impl<E: Env> WalAdmin for ObjectAdmin<E> {
    /// Objects go by what is flushed ([`ObjectLog::truncate`]), and with the database.
    fn garbage_collector(&self, _path: &Path) -> Arc<dyn WalGc> {
        Arc::new(NoGarbage)
    }

    /// Whoever deletes a database deletes all below its path.
    async fn delete_wal(&self, _path: &Path, _dry_run: bool) -> Result<Vec<String>, WalError> {
        Ok(Vec::new())
    }

    async fn is_empty(
        &self,
        path: &Path,
        replay_after: u64,
        _last_seen: u64,
    ) -> Result<bool, WalError> {
        let path = path.as_ref();
        let unflushed = async {
            let newest = manifest::newest(&self.env, &self.objects, path).await?;
            let flushed = newest.map_or(0, |manifest| manifest.last_l0_seq());
            self.has_unflushed(path, replay_after, flushed).await
        };
        unflushed.await.map(|has| !has).map_err(unavailable)
    }

    async fn clone_wal(
        &self,
        _from: &Path,
        manifest: VersionedManifest,
        _to: &Path,
    ) -> Result<(u64, u64), WalError> {
        Ok(clone_begins(&manifest))
    }
}
