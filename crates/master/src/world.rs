//! What the driver needs of the world outside, as one narrow trait: its own store, `hbase:meta`, the servers, the
//! coordination service, time and tasks. `real` implements it; tests have a world in memory whose writes can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_types::{
    EncodedName, Error, RegionInfo, Result, ServerName, TableDescriptor, TableName, TableState,
};
use cadastre_wire::pb;
use tokio::sync::watch;

use crate::catalog::{MetaChange, Placement};
use crate::journal::Write;
use crate::namespace_table::NamespaceChange;
use crate::procedure::Lock;
use crate::schema::Namespace;

/// An order to open a region.
#[derive(Debug, Clone)]
pub struct OpenOrder {
    /// The region.
    pub info: RegionInfo,
    /// Its table's schema, with family ids.
    pub descriptor: Arc<TableDescriptor>,
    /// The epoch of its last opening, as far as this master knows; 0 if it never was open (C20).
    pub expected_epoch: u64,
}

/// What came of an order to open a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// It is open there.
    Open(Placement),
    /// Its last opening left this epoch, not the expected one: perhaps an answer was lost. Nothing has changed.
    OtherEpoch(u64),
    /// It failed there; with an error if no other try can succeed, there or elsewhere.
    Failed(Option<Error>),
}

/// What people, tools and old clients find in the coordination service. Nothing of ours depends on it but `hbase:meta`'s place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// State of a table.
    Table(TableName, TableState),
    /// The table is gone.
    TableGone(TableName),
    /// A namespace.
    Namespace(Namespace),
    /// The namespace is gone.
    NamespaceGone(String),
    /// `hbase:meta` is open there.
    MetaPlace(ServerName),
}

/// The world. Clones are the same world.
pub trait World: Clone + Send + Sync + 'static {
    /// Wall clock, ms since 1970.
    fn wall_ms(&self) -> u64;
    /// A clock that never goes back.
    fn mono(&self) -> Duration;
    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
    /// Runs a task.
    fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static);
    /// Ends the process: the master cannot go on (its store is fenced or broken), and another start must read what is durable.
    fn fatal(&self, error: &Error) -> !;

    /// Writes a batch to the master's own store, durable and atomic.
    fn journal(&self, batch: Vec<Write>) -> impl Future<Output = Result<()>> + Send;
    /// Raises the master's epoch in `hbase:meta` to this master's, after which an older one's writes there are refused (C19).
    fn claim_meta(&self) -> impl Future<Output = Result<()>> + Send;
    /// Writes a batch to `hbase:meta`, durable, atomic, and only if no newer master has written there:
    /// [`Code::MasterDeposed`](cadastre_types::Code::MasterDeposed) else. Tries once, wherever [`Self::set_meta_place`] said.
    fn write_meta(&self, changes: &[MetaChange]) -> impl Future<Output = Result<()>> + Send;
    /// Every row of `hbase:meta`, decoded.
    fn read_meta(&self) -> impl Future<Output = Result<Vec<MetaRow>>> + Send;
    /// Where `hbase:meta` is from now on.
    fn set_meta_place(&self, server: Option<ServerName>);
    /// Where it is.
    fn meta_place(&self) -> Option<ServerName>;

    /// Writes rows of a region of `hbase:namespace` on a server, durable, atomic, and only if that server has not heard of a newer
    /// master: [`Code::MasterDeposed`](cadastre_types::Code::MasterDeposed) else. Tries once.
    fn write_namespaces(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        changes: &[NamespaceChange],
    ) -> impl Future<Output = Result<()>> + Send;
    /// Rows of a region of `hbase:namespace`: names, and values of their one column (empty if it is not there).
    fn read_namespaces(
        &self,
        server: &ServerName,
        region: &RegionInfo,
    ) -> impl Future<Output = Result<BTreeMap<String, Bytes>>> + Send;

    /// Servers whose sessions are alive.
    fn servers(&self) -> watch::Receiver<BTreeSet<ServerName>>;
    /// Opens regions on a server; an answer for each.
    fn open(
        &self,
        server: &ServerName,
        orders: &[OpenOrder],
    ) -> impl Future<Output = Result<Vec<Opening>>> + Send;
    /// Closes a region on a server. It is no error if it was not there.
    fn close(
        &self,
        server: &ServerName,
        region: &RegionInfo,
    ) -> impl Future<Output = Result<()>> + Send;
    /// Flushes a region on a server.
    fn flush(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        family: Option<Bytes>,
    ) -> impl Future<Output = Result<()>> + Send;
    /// Regions that a server has open.
    fn online(&self, server: &ServerName) -> impl Future<Output = Result<Vec<RegionInfo>>> + Send;
    /// Load of a server and of its regions.
    fn loads(&self, server: &ServerName) -> impl Future<Output = Result<pb::ServerLoad>> + Send;
    /// A row at which a region may be split, by what its server finds in its files; `None` if it is too small.
    fn split_row(
        &self,
        server: &ServerName,
        region: &RegionInfo,
    ) -> impl Future<Output = Result<Option<Bytes>>> + Send;
    /// Makes regions out of closed ones, which can never be opened again from then on. Done before is done.
    /// [`Code::RegionState`](cadastre_types::Code::RegionState) if one has writes in the log that its files lack: opened and closed once
    /// more, it has not.
    fn clone_regions(
        &self,
        sources: &[RegionInfo],
        targets: &[RegionInfo],
    ) -> impl Future<Output = Result<Vec<u64>>> + Send;
    /// Takes that back.
    fn discard_clones(
        &self,
        sources: &[RegionInfo],
        targets: &[RegionInfo],
    ) -> impl Future<Output = Result<()>> + Send;
    /// Regions whose files a region still reads.
    fn borrowed_by(
        &self,
        region: &RegionInfo,
    ) -> impl Future<Output = Result<BTreeSet<EncodedName>>> + Send;
    /// Deletes the data of a region that nobody has open. It is no error if there is none.
    fn delete_data(&self, region: &RegionInfo) -> impl Future<Output = Result<()>> + Send;
    /// Puts something into the coordination service; gives up after a bounded time.
    fn announce(&self, notice: Notice) -> impl Future<Output = Result<()>> + Send;
    /// Tables and namespaces that the coordination service shows, in the form of their locks.
    fn announced(&self) -> impl Future<Output = Result<BTreeSet<Lock>>> + Send;
}

/// A row of `hbase:meta`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetaRow {
    /// A region's row.
    Region(crate::catalog::RegionEntry),
    /// A table's row of state.
    Table(TableName, TableState),
}
