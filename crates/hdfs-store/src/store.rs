//! The object store's face: object_store's operations as those of the modules beside. Knows no frames.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cadastre_env::{Clock, Env};
use cadastre_rpc::ha::config::Conf;
use cadastre_rpc::ha::{Caller, Engines, Events, Source, connections, create_proxy};
use cadastre_rpc::hadoop::{CLIENT_PROTOCOL, HadoopEngine};
use cadastre_types::{Error, Result};
use cadastre_wire::hadoop::User;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
};
use quick_cache::sync::Cache;
use rand::RngCore;

use crate::datanode::{Blocks, DataNodes};
use crate::error::{not_implemented, of_write};
use crate::file::FileWriter;
use crate::namenode::NameNode;
use crate::names::Root;
use crate::place::{Mode, Placed, place};
use crate::read::Located;
use crate::{clean, delete, list, upload};

/// Folders that are known to be there; beyond that they are made again, which costs a call each (INV-9).
const FOLDERS_MAX: usize = 65_536;

/// Files whose blocks' places are remembered.
const LOCATED_MAX: usize = 4096;

/// How often files that are being written are told to be ours still; the NameNode gives them up after 60 s if somebody else
/// wants them, which nobody does, and after 20 minutes in any case.
const RENEWAL: Duration = Duration::from_secs(20);

/// What a store needs to know beside its NameNodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HdfsStoreConfig {
    /// Folder on HDFS that holds everything, such as `/cadastre`.
    pub root: String,
    /// DataNodes that hold each block (`dfs.replication`); by the NameNode if not given.
    pub replication: Option<u32>,
    /// Connect to DataNodes by name instead of address (`dfs.client.use.datanode.hostname`).
    pub datanodes_by_name: bool,
}

/// An object store on HDFS. Clones are the same.
pub struct HdfsStore<E: Env>(Arc<Shared<E>>);

impl<E: Env> Clone for HdfsStore<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

pub(crate) struct Shared<E: Env> {
    pub(crate) env: E,
    pub(crate) namenode: NameNode<E::Clock>,
    pub(crate) blocks: Arc<dyn Blocks>,
    pub(crate) root: Root,
    /// Who writes, to NameNode and DataNodes; no other client ever has this name.
    pub(crate) client: String,
    pub(crate) replication: u32,
    pub(crate) located: Cache<String, Arc<Located>>,
    number: AtomicU64,
    folders: Mutex<BTreeSet<String>>,
    renewed: Mutex<Option<Duration>>,
}

/// Settings of Hadoop's that a store wants otherwise unless somebody set them: a call that is not answered is tried elsewhere after 10 s
/// instead of two minutes, and fail-over goes on for ten minutes with pauses of at most two seconds.
///
/// # Errors
/// For a configuration that cannot be read.
pub fn store_defaults(conf: &mut Conf) -> Result<()> {
    for (key, value) in [
        ("ipc.client.rpc-timeout.ms", "10000"),
        ("ipc.client.connect.timeout", "5000"),
        ("dfs.client.failover.sleep.base.millis", "100"),
        ("dfs.client.failover.sleep.max.millis", "2000"),
        ("dfs.client.failover.max.attempts", "300"),
        ("dfs.client.retry.max.attempts", "300"),
    ] {
        if conf.get(key)?.is_none() {
            conf.set(key, value, "the store's default");
        }
    }
    Ok(())
}

impl<E: Env> HdfsStore<E> {
    /// A store at `hdfs://nameservice/folder` (or `hdfs://host:port/folder`), made when it is not there. Call it where its tasks may run.
    ///
    /// # Errors
    /// For a configuration or an HDFS that cannot be used, with what to do about it.
    pub async fn connect(
        env: E,
        mut conf: Conf,
        uri: &str,
        user: &User,
        events: Option<Events>,
    ) -> Result<Self> {
        let Some(rest) = uri.strip_prefix("hdfs://") else {
            return Err(Error::invalid(format!(
                "'{uri}' is no place on HDFS: write hdfs://nameservice/folder"
            )));
        };
        store_defaults(&mut conf)?;
        let limits = connections(&mut conf)?;
        if let Some(protection) = conf.get("dfs.data.transfer.protection")? {
            return Err(Error::unsupported(format!(
                "{}: '{protection}' (SASL between client and DataNode)",
                conf.origin("dfs.data.transfer.protection")
            )));
        }
        let root = rest.find('/').map_or("", |at| &rest[at..]).to_owned();
        let config = HdfsStoreConfig {
            root,
            replication: conf.small("dfs.replication")?,
            datanodes_by_name: conf
                .flag("dfs.client.use.datanode.hostname")?
                .unwrap_or(false),
        };
        // Before anybody is asked.
        Root::parse(&config.root)?;
        let engine: Arc<dyn cadastre_rpc::ha::Engine> =
            Arc::new(HadoopEngine::new(env.clone(), limits));
        let engines = Engines::new(Arc::clone(&engine)).with_hadoop(&engine);
        let source = Source::Uri(uri);
        let created = create_proxy(
            &env,
            &conf,
            source,
            &CLIENT_PROTOCOL,
            user,
            &engines,
            events,
        )
        .await?;
        for warning in conf.warnings() {
            tracing::warn!("{warning}");
        }
        Self::open(env, created.proxy, config).await
    }

    /// A store over a caller of ClientProtocol.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn open(env: E, caller: Arc<dyn Caller>, config: HdfsStoreConfig) -> Result<Self> {
        let nodes = DataNodes::new(env.clone(), config.datanodes_by_name);
        Self::over(env, caller, nodes, config).await
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared<E>> {
        &self.0
    }

    pub(crate) async fn over(
        env: E,
        caller: Arc<dyn Caller>,
        blocks: Arc<dyn Blocks>,
        config: HdfsStoreConfig,
    ) -> Result<Self> {
        let root = Root::parse(&config.root)?;
        let namenode = NameNode::new(caller, env.clock().clone());
        let defaults = namenode.defaults().await?;
        if defaults.encrypt_data_transfer() {
            return Err(Error::unsupported(
                "dfs.encrypt.data.transfer, which this HDFS asks for,",
            ));
        }
        let mut id = [0_u8; 16];
        env.rng("hdfs-store-client").fill_bytes(&mut id);
        let id = u128::from_le_bytes(id);
        let store = Self(Arc::new(Shared {
            namenode,
            blocks,
            root,
            client: format!("cadastre_{id:032x}"),
            replication: config.replication.unwrap_or(defaults.replication).max(1),
            located: Cache::new(LOCATED_MAX),
            number: AtomicU64::new(0),
            folders: Mutex::default(),
            renewed: Mutex::default(),
            env,
        }));
        let folder = store.0.root.temporary();
        store.0.namenode.make_folder(&folder).await?;
        clean::start(&store.0);
        Ok(store)
    }
}

impl<E: Env> Shared<E> {
    /// A name that no file ever had.
    pub(crate) fn next_temporary(&self) -> String {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        format!("{}/{}-{number}", self.root.temporary(), self.client)
    }

    pub(crate) async fn remove_temporary(&self, path: &str) {
        if let Err(error) = self.namenode.remove(path).await {
            // The cleaner finds it.
            tracing::debug!(path, %error, "a file without a name is left behind");
        }
    }

    fn folders(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.folders
            .lock()
            .expect("nothing panics while it is held")
    }

    /// Makes a folder unless it is known to be there.
    pub(crate) async fn ensure_folder(&self, path: &str) -> Result<()> {
        if self.folders().contains(path) {
            return Ok(());
        }
        self.namenode.make_folder(path).await?;
        let mut folders = self.folders();
        if folders.len() >= FOLDERS_MAX {
            folders.clear();
        }
        folders.insert(path.to_owned());
        Ok(())
    }

    pub(crate) fn forget_folder(&self, path: &str) {
        self.folders().remove(path);
    }

    /// Tells the NameNode that this client is there, if it is time to.
    pub(crate) async fn renew_leases(&self) {
        let now = self.env.clock().mono();
        {
            let mut renewed = self
                .renewed
                .lock()
                .expect("nothing panics while it is held");
            // A new client's files are fresh.
            let last = *renewed.get_or_insert(now);
            if now.saturating_sub(last) < RENEWAL {
                return;
            }
            *renewed = Some(now);
        }
        if let Err(error) = self.namenode.renew_lease(&self.client).await {
            // Whoever lost a file learns it at its next block.
            tracing::warn!(%error, "the lease could not be renewed");
        }
    }

    async fn put(
        self: &Arc<Self>,
        location: &Path,
        payload: PutPayload,
        mode: Mode,
    ) -> object_store::Result<PutResult> {
        let failed = |error| of_write(location.as_ref(), error);
        let target = self.root.file(location).map_err(failed)?;
        let writer = FileWriter::whole(self, payload.into())
            .await
            .map_err(failed)?;
        self.name(&writer, location, &target, mode).await
    }

    /// Gives a finished file its name, or removes it.
    pub(crate) async fn name(
        &self,
        writer: &FileWriter<E>,
        location: &Path,
        target: &str,
        mode: Mode,
    ) -> object_store::Result<PutResult> {
        let placed = place(self, writer.file(), target, mode).await;
        self.located.remove(target);
        match placed {
            Ok(Placed::Done) => Ok(PutResult {
                e_tag: Some(e_tag(writer.file().id)),
                version: None,
                extensions: Default::default(),
            }),
            Ok(Placed::Exists) => {
                writer.remove().await;
                Err(already_exists(location))
            }
            Err(error) => {
                // A rename that comes late finds nothing any more.
                writer.remove().await;
                Err(of_write(location.as_ref(), error))
            }
        }
    }
}

/// An object's tag: its file's id, since a file never changes once it has its name.
pub(crate) fn e_tag(file_id: u64) -> String {
    format!("{file_id:x}")
}

fn already_exists(location: &Path) -> object_store::Error {
    object_store::Error::AlreadyExists {
        path: location.to_string(),
        source: "a file has that name".into(),
    }
}

impl<E: Env> fmt::Debug for HdfsStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HdfsStore({})", self.0.root.path())
    }
}

impl<E: Env> fmt::Display for HdfsStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HdfsStore({})", self.0.root.path())
    }
}

#[async_trait]
impl<E: Env> ObjectStore for HdfsStore<E> {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        if !opts.attributes.is_empty() {
            return Err(not_implemented("attributes of objects"));
        }
        let mode = match opts.mode {
            PutMode::Create => Mode::Create,
            PutMode::Overwrite => Mode::Overwrite,
            PutMode::Update(_) => return Err(not_implemented("a conditional overwrite")),
        };
        self.0.put(location, payload, mode).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        if !opts.attributes.is_empty() {
            return Err(not_implemented("attributes of objects"));
        }
        upload::begin(&self.0, location).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.0.get(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        delete::all(&self.0, locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        list::all(&self.0, prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        list::all(&self.0, prefix, Some(offset.clone()))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        list::one_level(&self.0, prefix).await
    }

    async fn copy_opts(
        &self,
        _from: &Path,
        _to: &Path,
        _options: CopyOptions,
    ) -> object_store::Result<()> {
        Err(not_implemented("copying an object"))
    }

    async fn rename_opts(
        &self,
        _from: &Path,
        _to: &Path,
        _options: RenameOptions,
    ) -> object_store::Result<()> {
        Err(not_implemented("renaming an object"))
    }
}
