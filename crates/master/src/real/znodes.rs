//! What the master keeps in the coordination service (zookeeper-protocol.md 10). Clients read `hbaseid`, `master` and
//! `meta-region-server`; the rest is for people and old tools.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use cadastre_coordination::{ErrorCode, Mode, Session, Watched, error_code};
use cadastre_types::{Code, Error, Result, ServerName, TableName};
use cadastre_wire::{pb, znode};
use tokio::sync::watch;

use crate::journal;
use crate::procedure::Lock;
use crate::world::Notice;

/// Znodes without data that HBase has, below the parent.
const EMPTY: [&str; 14] = [
    "rs",
    "backup-masters",
    "draining",
    "splitWAL",
    "master-maintenance",
    "table",
    "namespace",
    "online-snapshot/acquired",
    "online-snapshot/reached",
    "online-snapshot/abort",
    "flush-table-proc/acquired",
    "flush-table-proc/reached",
    "flush-table-proc/abort",
    "flush-table-proc",
];

/// Tries of a write of a znode that somebody who is no master keeps changing.
const VERSION_TRIES: u32 = 5;

/// Whether an error says that a znode is not what it was a moment ago.
fn came_between(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::BadVersion | ErrorCode::NoNode | ErrorCode::NodeExists
    )
}

/// The master's part of the coordination service.
#[derive(Debug, Clone)]
pub(crate) struct Znodes {
    session: Session,
    parent: String,
    /// Name of this process in the values it writes: `master:PORT`.
    writer: String,
    salt: u64,
    /// Versions of the znodes that this master wrote, as it left them: a few for the cluster, one per table and namespace.
    versions: Arc<Mutex<BTreeMap<String, i32>>>,
}

impl Znodes {
    pub(crate) fn new(session: Session, parent: &str, port: u16, salt: u64) -> Self {
        Self {
            session,
            parent: parent.to_owned(),
            writer: format!("master:{port}"),
            salt,
            versions: Arc::default(),
        }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    fn writer(&self) -> znode::Writer<'_> {
        znode::Writer {
            id: &self.writer,
            salt: self.salt,
        }
    }

    pub(crate) fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.parent)
    }

    /// Makes a znode and those above it; it is no error if it is there.
    async fn ensure(&self, path: &str) -> Result<()> {
        for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
            self.create_if_missing(&path[..at], Bytes::new()).await?;
        }
        self.create_if_missing(path, Bytes::new()).await
    }

    async fn create_if_missing(&self, path: &str, data: Bytes) -> Result<()> {
        match self.session.create(path, data, Mode::Persistent).await {
            Ok(_) => Ok(()),
            Err(error) if error_code(&error) == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn versions(&self) -> MutexGuard<'_, BTreeMap<String, i32>> {
        self.versions.lock().expect("no holder panics")
    }

    /// The version that a znode has if nobody but this master writes; `None` if there is no such znode.
    async fn version(&self, path: &str) -> Result<Option<i32>> {
        if let Some(version) = self.versions().get(path) {
            return Ok(Some(*version));
        }
        let stat = self.session.exists(path).await?;
        // What was read is this master's to change only if it still led afterwards.
        self.check_active().await?;
        Ok(stat.map(|stat| stat.version))
    }

    /// Does a write that depends on a znode's version, until nobody else has written between.
    ///
    /// # Errors
    /// [`Code::MasterDeposed`] if it was another master.
    async fn with_version<T, F: Future<Output = Result<T>>>(
        &self,
        path: &str,
        write: impl Fn(Option<i32>) -> F,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            let version = self.version(path).await?;
            match write(version).await {
                Err(error) if error_code(&error).is_some_and(came_between) => {
                    self.check_active().await?;
                    self.versions().remove(path);
                    if tries == VERSION_TRIES {
                        return Err(error);
                    }
                }
                written => return written,
            }
        }
    }

    /// That this master's znode is still there.
    async fn check_active(&self) -> Result<()> {
        let stat = self.session.exists(&self.path("master")).await?;
        if stat.is_some_and(|stat| stat.ephemeral_owner == self.session.id()) {
            return Ok(());
        }
        Err(Error::new(
            Code::MasterDeposed,
            "another master has written to the coordination service",
        ))
    }

    /// Writes a value, over an older one too, but not over one of a newer master (C19).
    async fn put(&self, path: &str, data: Bytes) -> Result<()> {
        let version = self
            .with_version(path, |version| {
                let data = data.clone();
                async move {
                    let Some(version) = version else {
                        self.session.create(path, data, Mode::Persistent).await?;
                        return Ok(0);
                    };
                    let stat = self.session.set(path, data, Some(version)).await?;
                    Ok(stat.version)
                }
            })
            .await?;
        self.versions().insert(path.to_owned(), version);
        Ok(())
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.with_version(path, |version| async move {
            match version {
                Some(version) => self.session.delete(path, Some(version)).await,
                None => Ok(()),
            }
        })
        .await?;
        self.versions().remove(path);
        Ok(())
    }

    /// Makes the places for everything.
    pub(crate) async fn prepare(&self) -> Result<()> {
        self.ensure(&self.parent).await?;
        for below in EMPTY {
            self.ensure(&self.path(below)).await?;
        }
        Ok(())
    }

    /// Tries to become the active master; false if another one is.
    pub(crate) async fn claim(&self, name: &ServerName) -> Result<bool> {
        let data = znode::master(self.writer(), name, u16::MAX);
        let path = self.path("master");
        match self.session.create(&path, data, Mode::Ephemeral).await {
            Ok(_) => Ok(true),
            Err(error) if error_code(&error) == Some(ErrorCode::NodeExists) => {
                // A claim whose answer was lost is ours all the same.
                let owner = self.session.exists(&path).await?;
                Ok(owner.is_some_and(|stat| stat.ephemeral_owner == self.session.id()))
            }
            Err(error) => Err(error),
        }
    }

    /// Shows this master as a standby.
    pub(crate) async fn stand_by(&self, name: &ServerName) -> Result<()> {
        let path = self.path(&format!("backup-masters/{name}"));
        let data = znode::master(self.writer(), name, u16::MAX);
        match self.session.create(&path, data, Mode::Ephemeral).await {
            Ok(_) => Ok(()),
            Err(error) if error_code(&error) == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Does not show it as a standby any more.
    pub(crate) async fn stand_up(&self, name: &ServerName) -> Result<()> {
        self.remove(&self.path(&format!("backup-masters/{name}")))
            .await
    }

    /// Waits until there may be no active master.
    pub(crate) async fn wait_for_vacancy(&self) -> Result<()> {
        let (found, watch) = self.session.watch_exists(&self.path("master")).await?;
        if found.is_some() && watch.changed().await == Watched::Lost {
            return Err(Error::new(
                Code::Fenced,
                "the coordination session has ended",
            ));
        }
        Ok(())
    }

    /// The active master.
    pub(crate) async fn active_master(&self) -> Result<Option<ServerName>> {
        match self.session.get(&self.path("master")).await? {
            Some((data, _)) => znode::read_master(&data).map(Some),
            None => Ok(None),
        }
    }

    /// Servers named by a znode's children.
    pub(crate) async fn servers_below(&self, below: &str) -> Result<Vec<ServerName>> {
        let children = self.session.children(&self.path(below)).await?;
        let children = children.unwrap_or_default();
        // A name that is none is not ours.
        Ok(children
            .iter()
            .filter_map(|name| ServerName::parse(name).ok())
            .collect())
    }

    /// Publishes the cluster's id, which region servers wait for. An id that is there and another one means that the
    /// coordination service belongs to another cluster.
    pub(crate) async fn put_cluster_id(&self, id: &str) -> Result<()> {
        let path = self.path("hbaseid");
        if let Some((data, _)) = self.session.get(&path).await? {
            let there = znode::read_cluster_id(&data)?;
            if there == id {
                return Ok(());
            }
            return Err(Error::invalid(format!(
                "the coordination service holds cluster {there} under {}, and the data directory cluster {id}: use another znode parent or the right data",
                self.parent
            )));
        }
        self.put(&path, znode::cluster_id(self.writer(), id)).await
    }

    /// Says that the cluster is up, since when.
    pub(crate) async fn put_running(&self, start_date: &str) -> Result<()> {
        self.put(
            &self.path("running"),
            znode::running(self.writer(), start_date),
        )
        .await
    }

    /// Where `hbase:meta` was last.
    pub(crate) async fn meta_place(&self) -> Result<Option<ServerName>> {
        match self.session.get(&self.path("meta-region-server")).await? {
            Some((data, _)) => {
                let (server, _) = znode::read_meta_region_server(&data)?;
                Ok(Some(server))
            }
            None => Ok(None),
        }
    }

    /// Writes a notice.
    pub(crate) async fn announce(&self, notice: &Notice) -> Result<()> {
        match notice {
            Notice::Table(table, state) => {
                let path = self.path(&format!("table/{table}"));
                self.put(&path, znode::table(self.writer(), *state)).await
            }
            Notice::TableGone(table) => self.remove(&self.path(&format!("table/{table}"))).await,
            Notice::Namespace(namespace) => {
                let path = self.path(&format!("namespace/{}", namespace.name));
                let descriptor = journal::namespace_pb(namespace);
                self.put(&path, znode::namespace(self.writer(), &descriptor))
                    .await
            }
            Notice::NamespaceGone(name) => {
                self.remove(&self.path(&format!("namespace/{name}"))).await
            }
            Notice::MetaPlace(server) => {
                let open = pb::region_state::State::Open;
                let data = znode::meta_region_server(self.writer(), server, open);
                self.put(&self.path("meta-region-server"), data).await
            }
        }
    }

    /// The tables and namespaces that are shown.
    pub(crate) async fn announced(&self) -> Result<BTreeSet<Lock>> {
        let tables = self.session.children(&self.path("table")).await?;
        let namespaces = self.session.children(&self.path("namespace")).await?;
        // A name that is none is not ours.
        let tables = tables.unwrap_or_default().into_iter();
        let tables = tables.filter_map(|name| Some(Lock::Table(TableName::parse(&name).ok()?)));
        let namespaces = namespaces.unwrap_or_default().into_iter();
        Ok(tables.chain(namespaces.map(Lock::Namespace)).collect())
    }

    /// Keeps a set of the live region servers up to date until the session ends.
    pub(crate) async fn follow_servers(&self, servers: &watch::Sender<BTreeSet<ServerName>>) {
        loop {
            match self.session.watch_children(&self.path("rs")).await {
                Ok((children, watch)) => {
                    let now: BTreeSet<ServerName> = children
                        .unwrap_or_default()
                        .iter()
                        .filter_map(|name| ServerName::parse(name).ok())
                        .collect();
                    servers.send_if_modified(|before| {
                        let changed = *before != now;
                        *before = now;
                        changed
                    });
                    if watch.changed().await == Watched::Lost {
                        return;
                    }
                }
                Err(error) => {
                    // Calls wait while the service is away, so an error is the session's end, which its owner deals with.
                    tracing::info!(%error, "the live servers are not followed any more");
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
