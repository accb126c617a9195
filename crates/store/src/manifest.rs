//! Reading the newest manifest of a database, which may be closed, open on another machine, or damaged. It must not know what for.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_types::Result;
use object_store::ObjectStore;
use slatedb::VersionedManifest;
use slatedb::admin::Admin;

use crate::error::from_slatedb;

/// The newest manifest of the database at a path, if there is one. It is read in the background: SlateDB's decoder can panic over a
/// damaged one, which must be an answer.
///
/// # Errors
/// `Corrupt` for a damaged one, `Io`.
pub(crate) async fn newest<E: Env>(
    env: &E,
    objects: &Arc<dyn ObjectStore>,
    path: &str,
) -> Result<Option<VersionedManifest>> {
    let admin = Admin::builder(path.to_owned(), Arc::clone(objects)).build();
    let reading = env.background(
        "read manifest",
        async move { admin.read_manifest(None).await },
    );
    let read = reading.await.unwrap_or_else(|| {
        Err(slatedb::Error::data(
            "its manifest cannot be decoded".to_owned(),
        ))
    });
    read.map_err(|error| from_slatedb(&error).context(format!("the database '{path}'")))
}
