//! The real [`World`]: the master's store, RPC to the servers, the coordination service, `env`'s time and tasks.
//!
//! It knows how to ask, not what for: no rule about tables or regions stands here.

mod meta;
mod namespaces;
mod orders;
mod znodes;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, HostPort};
use cadastre_rpc::Connections;
use cadastre_store::{Kv, Store};
use cadastre_types::{Code, EncodedName, Error, RegionInfo, Result, ServerName};
use cadastre_wire::{Service, pb};
use tokio::sync::watch;

use crate::catalog::MetaChange;
use crate::journal::Write;
use crate::namespace_table::NamespaceChange;
use crate::procedure::Lock;
use crate::world::{MetaRow, Notice, OpenOrder, Opening, World};

pub(crate) use znodes::Znodes;

/// How long one small question to a server may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an order may take that makes a server read or write data: opening (replay of a log), closing, flushing.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a notice may take; a procedure that has ended waits so long at most. It is repeated later.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(5);

/// The real world of an active master.
pub(crate) struct RealWorld<E: Env> {
    inner: Arc<Inner<E>>,
}

impl<E: Env> Clone for RealWorld<E> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

struct Inner<E: Env> {
    env: E,
    store: Store<E>,
    kv: Kv<E>,
    connections: Connections<E>,
    znodes: Znodes,
    servers: watch::Receiver<BTreeSet<ServerName>>,
    meta_place: Mutex<Option<ServerName>>,
    /// This master's epoch (C19).
    epoch: u64,
}

/// What [`RealWorld::new`] is made of.
pub(crate) struct Parts<E: Env> {
    pub(crate) env: E,
    pub(crate) store: Store<E>,
    pub(crate) kv: Kv<E>,
    pub(crate) znodes: Znodes,
    pub(crate) servers: watch::Receiver<BTreeSet<ServerName>>,
    pub(crate) meta_place: Option<ServerName>,
    pub(crate) epoch: u64,
}

/// The user that the master's own calls name.
const MASTER_USER: &str = "cadastre-master";

impl<E: Env> RealWorld<E> {
    pub(crate) fn new(parts: Parts<E>) -> Self {
        Self {
            inner: Arc::new(Inner {
                connections: Connections::new(parts.env.clone(), MASTER_USER),
                env: parts.env,
                store: parts.store,
                kv: parts.kv,
                znodes: parts.znodes,
                servers: parts.servers,
                meta_place: Mutex::new(parts.meta_place),
                epoch: parts.epoch,
            }),
        }
    }

    /// What the coordination service says, if it says it in time: calls to it wait while it is away.
    async fn in_time<T: Send>(&self, asked: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let asked = self.inner.env.clock().timeout(NOTICE_TIMEOUT, asked);
        asked
            .await
            .map_err(|_| Error::new(Code::TimeoutIo, "the coordination service does not answer"))?
    }

    async fn call(
        &self,
        server: &ServerName,
        service: Service,
        method: &'static str,
        param: Bytes,
        timeout: Duration,
    ) -> Result<(Bytes, Bytes)> {
        let at = HostPort::new(server.host.clone(), server.port);
        self.inner
            .connections
            .call(&at, service, method, param, Bytes::new(), timeout)
            .await
    }
}

impl<E: Env> World for RealWorld<E> {
    fn wall_ms(&self) -> u64 {
        self.inner.env.clock().wall()
    }

    fn mono(&self) -> Duration {
        self.inner.env.clock().mono()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.inner.env.clock().sleep(duration)
    }

    fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.env.spawn(name, task);
    }

    fn fatal(&self, error: &Error) -> ! {
        self.inner
            .env
            .exit(&format!("the master cannot go on: {error}"))
    }

    async fn journal(&self, batch: Vec<Write>) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.inner.kv.write(batch).await
    }

    async fn write_namespaces(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        changes: &[NamespaceChange],
    ) -> Result<()> {
        self.write_namespace_rows(server, region, changes).await
    }

    async fn read_namespaces(
        &self,
        server: &ServerName,
        region: &RegionInfo,
    ) -> Result<BTreeMap<String, Bytes>> {
        self.read_namespace_rows(server, region).await
    }

    async fn claim_meta(&self) -> Result<()> {
        self.write_meta_rows(&[]).await
    }

    async fn write_meta(&self, changes: &[MetaChange]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.write_meta_rows(changes).await
    }

    async fn read_meta(&self) -> Result<Vec<MetaRow>> {
        self.read_meta_rows().await
    }

    fn set_meta_place(&self, server: Option<ServerName>) {
        *self.inner.meta_place.lock().expect("no holder panics") = server;
    }

    fn meta_place(&self) -> Option<ServerName> {
        self.inner
            .meta_place
            .lock()
            .expect("no holder panics")
            .clone()
    }

    fn servers(&self) -> watch::Receiver<BTreeSet<ServerName>> {
        self.inner.servers.clone()
    }

    async fn open(&self, server: &ServerName, orders: &[OpenOrder]) -> Result<Vec<Opening>> {
        self.order_open(server, orders).await
    }

    async fn close(&self, server: &ServerName, region: &RegionInfo) -> Result<()> {
        self.order_close(server, region).await
    }

    async fn flush(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        family: Option<Bytes>,
    ) -> Result<()> {
        self.order_flush(server, region, family).await
    }

    async fn online(&self, server: &ServerName) -> Result<Vec<RegionInfo>> {
        self.ask_online(server).await
    }

    async fn loads(&self, server: &ServerName) -> Result<pb::ServerLoad> {
        self.ask_loads(server).await
    }

    async fn split_row(&self, server: &ServerName, region: &RegionInfo) -> Result<Option<Bytes>> {
        self.ask_split_row(server, region).await
    }

    async fn clone_regions(
        &self,
        sources: &[RegionInfo],
        targets: &[RegionInfo],
    ) -> Result<Vec<u64>> {
        self.inner.store.clone_regions(sources, targets).await
    }

    async fn discard_clones(&self, sources: &[RegionInfo], targets: &[RegionInfo]) -> Result<()> {
        self.inner.store.discard_clones(sources, targets).await
    }

    async fn borrowed_by(&self, region: &RegionInfo) -> Result<BTreeSet<EncodedName>> {
        self.inner.store.borrowed_by(region).await
    }

    async fn delete_data(&self, region: &RegionInfo) -> Result<()> {
        self.inner.store.delete_region(region).await
    }

    async fn announce(&self, notice: Notice) -> Result<()> {
        self.in_time(self.inner.znodes.announce(&notice)).await
    }

    async fn announced(&self) -> Result<BTreeSet<Lock>> {
        self.in_time(self.inner.znodes.announced()).await
    }
}
