//! Where tables lie: the data directory, or HDFS.

use std::path::PathBuf;
use std::sync::Arc;

use cadastre_env::RealEnv;
use cadastre_hdfs_store::HdfsStore;
use cadastre_rpc::ha::config::Conf;
use cadastre_wire::hadoop::User;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

use crate::commands::hdfs;
use crate::config::Settings;

/// Opens the place. On the runtime that serves it.
///
/// # Errors
/// A sentence that says what cannot be used.
pub(crate) async fn objects(
    env: &RealEnv,
    settings: &Settings,
) -> Result<Arc<dyn ObjectStore>, String> {
    if settings.store.is_empty() {
        // Every file is synced before its name is given, in both sync modes: the log is cut after a flush (C17).
        let objects = LocalFileSystem::new_with_prefix(&settings.data)
            .map_err(|error| format!("cannot use {}: {error}", settings.data.display()))?
            .with_fsync(true)
            // The directories of a deleted region go with its last file.
            .with_automatic_cleanup(true);
        return Ok(Arc::new(objects));
    }
    let conf = hadoop_conf(settings)?;
    let user = User::new(hdfs_user(settings)?);
    let store = HdfsStore::connect(env.clone(), conf, &settings.store, &user, None).await;
    let store = store.map_err(|error| format!("{}: {}", settings.store, error.message()))?;
    tracing::info!(
        store = settings.store,
        user = user.effective,
        "tables lie on HDFS"
    );
    Ok(Arc::new(store))
}

/// Hadoop's own files. None at all will do for `hdfs://host:port/folder`.
fn hadoop_conf(settings: &Settings) -> Result<Conf, String> {
    let mut conf = Conf::default();
    let dir = if settings.hdfs_conf_dir.as_os_str().is_empty() {
        std::env::var_os("HADOOP_CONF_DIR").map(PathBuf::from)
    } else {
        Some(settings.hdfs_conf_dir.clone())
    };
    if let Some(dir) = dir {
        hdfs::read_dir(&mut conf, &dir).map_err(|error| error.message().to_owned())?;
    }
    Ok(conf)
}

fn hdfs_user(settings: &Settings) -> Result<String, String> {
    if !settings.hdfs_user.is_empty() {
        return Ok(settings.hdfs_user.clone());
    }
    let of_hadoop = std::env::var("HADOOP_USER_NAME").ok();
    of_hadoop
        .filter(|user| !user.is_empty())
        .or_else(hdfs::system_user)
        .ok_or_else(|| "nothing says who this server is to HDFS: give --hdfs-user".to_owned())
}
