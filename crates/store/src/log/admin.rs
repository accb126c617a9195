//! What SlateDB asks of the log when it works on closed databases: whether their log is empty, and where a clone's begins.
//!
//! A clone has a path of its own, and so nothing in the log (rfcs: split and merge); it begins behind its source's replay point.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cadastre_env::Env;
use object_store::path::Path;
use slatedb::VersionedManifest;
use slatedb::wal::{WalAdmin, WalError, WalFileRange, WalGc};

use super::Shared;

/// The log's side of SlateDB's administration.
pub(crate) struct LogAdmin<E: Env>(pub(super) Arc<Shared<E>>);

/// A log that goes by what is flushed, of which SlateDB finds nothing to collect.
pub(crate) struct NoGarbage;

#[async_trait]
impl WalGc for NoGarbage {
    async fn collect(
        &self,
        _referenced: Vec<WalFileRange>,
        _min_age: Duration,
        _dry_run: bool,
    ) -> Result<(), WalError> {
        Ok(())
    }
}

#[async_trait]
impl<E: Env> WalAdmin for LogAdmin<E> {
    /// Segments go by what is flushed ([`super::index`]), never one database's share of them.
    fn garbage_collector(&self, _path: &Path) -> Arc<dyn WalGc> {
        Arc::new(NoGarbage)
    }

    /// [`super::Log::forget_deleted`] is how a database's share of the log ends.
    async fn delete_wal(&self, _path: &Path, _dry_run: bool) -> Result<Vec<String>, WalError> {
        Ok(Vec::new())
    }

    async fn is_empty(
        &self,
        path: &Path,
        replay_after: u64,
        _last_seen: u64,
    ) -> Result<bool, WalError> {
        let index = self.0.index.lock().expect("not poisoned");
        Ok(!index.has_unflushed(path.as_ref(), replay_after))
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

/// A clone has no log yet: it begins behind its source's replay point (rfcs: split and merge).
pub(crate) fn clone_begins(source: &VersionedManifest) -> (u64, u64) {
    let after = source.replay_after_wal_id();
    (after, after)
}
