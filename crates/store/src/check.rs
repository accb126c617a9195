//! Looking at the databases without which nothing can start, before the start changes anything: those at the root of the store,
//! which are the master's and `hbase:meta`. All of their newest manifest and every block of the files it names is read, so
//! that a damaged one is refused and left as it is (filters cannot be read so). Regions of tables are not looked at: a damaged one does not open, and the
//! others are served.
//!
//! It must not know what the databases hold.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_types::Result;
use futures::future::try_join_all;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::{SstReader, VersionedManifest};

use crate::cache::BlockCache;
use crate::error::{from_object_store, from_slatedb};
use crate::manifest;

/// Directory of the regions of tables.
const REGIONS: &str = "data";

/// Directory of a database's manifests.
const MANIFESTS: &str = "manifest";

/// Memory of the check, bytes: for indexes, each block is looked at once.
const CACHE_BYTES: u64 = 16 << 20;

/// Blocks read at the same time: where the objects are far away, a start waits for each.
const BLOCKS_AT_ONCE: usize = 16;

/// Reads the databases at the root whole.
///
/// # Errors
/// `Corrupt`, naming the database; `Io`.
pub(crate) async fn root_databases<E: Env>(env: &E, objects: &Arc<dyn ObjectStore>) -> Result<()> {
    let root = objects.list_with_delimiter(None);
    let root = root.await.map_err(|e| from_object_store(&e))?;
    for path in root.common_prefixes {
        let name = path.to_string();
        if name == REGIONS || !is_database(&**objects, &path).await? {
            continue;
        }
        let Some(manifest) = manifest::newest(env, objects, &name).await? else {
            continue;
        };
        let objects = Arc::clone(objects);
        let reading = env.background("check of a database", async move {
            files(path, objects, &manifest).await
        });
        // SlateDB's decoder can panic over damage.
        let whole = reading.await.unwrap_or_else(|| {
            Err(slatedb::Error::data(
                "its files cannot be decoded".to_owned(),
            ))
        });
        whole.map_err(|e| from_slatedb(&e).context(format!("the database '{name}'")))?;
    }
    Ok(())
}

async fn is_database(objects: &dyn ObjectStore, path: &Path) -> Result<bool> {
    let manifests = path.clone().join(MANIFESTS);
    let listing = objects.list_with_delimiter(Some(&manifests)).await;
    let listing = listing.map_err(|e| from_object_store(&e))?;
    Ok(!listing.objects.is_empty())
}

async fn files(
    path: Path,
    objects: Arc<dyn ObjectStore>,
    manifest: &VersionedManifest,
) -> Result<(), slatedb::Error> {
    // Else the index would be read anew for every block.
    let cache = Arc::new(BlockCache::new(CACHE_BYTES));
    let reader = SstReader::new(path, objects, Some(cache), None);
    for view in manifest.all_sst_views() {
        let file = reader.open_with_handle(view.sst.clone())?;
        // Every block has a checksum; so do the index and the statistics.
        file.stats().await?;
        let blocks = file.index().await?.len();
        for from in (0..blocks).step_by(BLOCKS_AT_ONCE) {
            let some = from..blocks.min(from + BLOCKS_AT_ONCE);
            try_join_all(some.map(|block| file.read_block(block))).await?;
        }
    }
    Ok(())
}
