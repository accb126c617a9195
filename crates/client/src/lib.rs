//! The Rust client of Cadastre and HBase: finds the region of a row, calls its server, and finds it again when it has moved.
//!
//! Flow of a data call: [`Client`] checks the arguments, `call` locates (`locate`: cache, else one look-up for all who wait),
//! sends through `rpc`, and on failure forgets exactly what the error says is wrong and tries again. Admin calls go to the
//! active master, found through the registry. This crate opens no sockets itself, reads no environment, and holds no state
//! that must survive: the location cache is a guess that each server checks.
//!
//! - `locate`: where a row is (requirements.md L7 to L18); pure parts `cache`, `lookup`, `flight`.
//! - `retry`: what an error means for the location and for the next try (L17, L20); pure.
//! - `call`: the loop of region calls; `master`: calls to the active master, through `rpc::ha`.
//! - `data`, `batch`, `scan`, `admin`, `directory`: what callers use. `cover`: whether the directory covers each table once (INV-1).
//! - `registry`: ZooKeeper or RPC (L5).
//! - `sharded`: a logical table over many, placed by a rule.

mod admin;
mod batch;
mod call;
mod config;
mod cover;
mod data;
mod directory;
mod locate;
mod master;
pub mod notation;
mod planted;
mod registry;
mod requests;
mod retry;
mod row;
mod scan;
pub mod sharded;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Env, Rng};
use cadastre_rpc::Connections;
use cadastre_rpc::ha::MasterServiceClient;
use cadastre_types::{Error, RegionInfo, Result, ServerName, TableName, limits};
use rand::Rng as _;

pub use admin::{Admin, Balanced, ClusterStatus, LiveServer, Namespace, TableRegions};
pub use call::RegionRequest;
pub use config::{
    BATCH_BYTES_DEFAULT, CELL_MAX_DEFAULT, ClientConfig, HEDGED_FANOUT_DEFAULT, PREFETCH_DEFAULT,
    Registry, SCAN_RESULT_BYTES_DEFAULT, ZNODE_PARENT_DEFAULT, ZOOKEEPER_TIMEOUT_MS_DEFAULT,
};
pub use cover::{Cover, Fault};
pub use data::{delete_cell, new_get, new_mutation};
pub use directory::{DirectoryScanner, MetaContent, MetaRow};
pub use locate::{Located, Location, Position, Source};
#[cfg(feature = "planted-faults")]
pub use planted::Planted;
pub use requests::{Action, Mutated};
pub use retry::RetryPolicy;
pub use row::Row;
pub use scan::{Scanner, first_key_only_filter, new_scan};

use call::{Attempts, Target};
use locate::Locator;

/// A client of one cluster. Clones share connections, locations and nonces.
pub struct Client<E: Env> {
    shared: Arc<Shared<E>>,
}

impl<E: Env> Clone for Client<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

struct Shared<E: Env> {
    env: E,
    config: ClientConfig,
    connections: Arc<Connections<E>>,
    registry: Arc<registry::Registry<E>>,
    locator: Locator<E>,
    /// The active master, whoever it is.
    master: MasterServiceClient,
    /// Of this client, random, never 0: with the nonce of a call it names the call (hbase-protocol.md 4.3).
    nonce_group: u64,
    rng: Mutex<Rng>,
}

impl<E: Env> Client<E> {
    /// Makes a client. Nothing is asked of anybody before the first call.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for settings that cannot be.
    pub fn connect(env: E, registry: Registry, config: ClientConfig) -> Result<Self> {
        config.check()?;
        let connections = Arc::new(Connections::new(env.clone(), config.user.clone()));
        let registry = Arc::new(registry::Registry::new(
            env.clone(),
            Arc::clone(&connections),
            registry,
            &config,
        )?);
        let locator = Locator::new(Arc::clone(&connections), Arc::clone(&registry), &config);
        let master = master::client(&env, &connections, Arc::clone(&registry), &config);
        let mut rng = env.rng("client");
        Ok(Self {
            shared: Arc::new(Shared {
                nonce_group: rng.random::<u64>().max(1),
                rng: Mutex::new(rng),
                env,
                config,
                connections,
                registry,
                locator,
                master,
            }),
        })
    }

    /// Its surroundings.
    pub fn env(&self) -> &E {
        &self.shared.env
    }

    /// The cluster's id, as the registry has it.
    ///
    /// # Errors
    /// The registry's, in one try.
    pub async fn cluster_id(&self) -> Result<String> {
        let timeout = Duration::from_millis(self.shared.config.retry.rpc_timeout_ms);
        self.shared.registry.cluster_id(timeout).await
    }

    /// Where the region is that holds a row. `reload` asks the directory whatever is cached (L12).
    ///
    /// # Errors
    /// [`Code::TableNotFound`](cadastre_types::Code::TableNotFound) and the other errors of requirements.md L16, when tries or
    /// time are used up, or at once for one that is final.
    pub async fn locate(
        &self,
        table: &TableName,
        row: &Bytes,
        reload: bool,
    ) -> Result<Arc<Location>> {
        self.locate_at(table, row, Position::Holding, 0, reload)
            .await
    }

    /// The same for a replica, and for the region before a row.
    ///
    /// # Errors
    /// As [`Self::locate`].
    pub async fn locate_at(
        &self,
        table: &TableName,
        row: &Bytes,
        position: Position,
        replica: u32,
        reload: bool,
    ) -> Result<Arc<Location>> {
        check_length(row)?;
        let target = Target {
            table,
            row,
            position,
            replica,
        };
        let located = self.locate_target(target, reload, true).await?;
        Ok(located.location)
    }

    /// Where the region is that holds a row, and who said so. `retry = false` makes one try and reports what became of it (L12).
    ///
    /// # Errors
    /// As [`Self::locate`].
    pub async fn locate_with_source(
        &self,
        table: &TableName,
        row: &Bytes,
        reload: bool,
        retry: bool,
    ) -> Result<Located> {
        check_length(row)?;
        self.locate_target(Target::row(table, row), reload, retry)
            .await
    }

    async fn locate_target(
        &self,
        target: Target<'_>,
        reload: bool,
        retry: bool,
    ) -> Result<Located> {
        if reload {
            let locator = &self.shared.locator;
            locator.drop_cached(&target.wanted(locator));
        }
        let mut attempts = Attempts::new(self);
        loop {
            match attempts.locate_with_source(target).await {
                Ok(found) => return Ok(found),
                Err(error) if !retry => return Err(error),
                Err(error) => attempts.after(error).await?,
            }
        }
    }

    /// Forgets where a row is: one replica, or all with `None` (L13).
    pub fn clear_row(&self, table: &TableName, row: &Bytes, replica: Option<u32>) {
        let locator = &self.shared.locator;
        locator.clear(|cache| cache.clear_row(table, row, replica));
    }

    /// Forgets where a region is (L13).
    pub fn clear_region(&self, region: &RegionInfo) {
        self.shared
            .locator
            .clear(|cache| cache.clear_region(region));
    }

    /// Forgets everything on a server (L13).
    pub fn clear_server(&self, server: &ServerName) {
        self.shared.locator.clear(|cache| {
            cache.clear_server(server);
        });
    }

    /// Forgets where a table's regions are (L13).
    pub fn clear_table(&self, table: &TableName) {
        self.shared.locator.clear(|cache| cache.clear_table(table));
    }

    /// Forgets where everything is (L13).
    pub fn clear_locations(&self) {
        self.shared.locator.clear(|cache| cache.clear());
    }

    /// Regions whose place is known.
    pub fn cached_regions(&self) -> usize {
        self.shared.locator.cached_regions()
    }

    /// Switches reading along of a table's neighbouring regions (L11).
    pub fn set_prefetch(&self, table: &TableName, on: bool) {
        self.shared.locator.set_prefetch(table, on);
    }

    /// A session of its own with the cluster's coordination service.
    ///
    /// # Errors
    /// [`Code::Unsupported`](cadastre_types::Code::Unsupported) with a registry that does not know it;
    /// [`Code::NotSent`](cadastre_types::Code::NotSent) if none of its servers answers.
    pub async fn coordination_session(&self) -> Result<cadastre_coordination::Session> {
        self.shared.registry.new_session().await
    }

    /// Ends the registry's session. Connections end with the last clone.
    pub async fn close(&self) {
        self.shared.registry.close().await;
    }
}

/// Refuses a row that no table can have. The empty one is the beginning of a table, or the end of it.
fn check_length(row: &Bytes) -> Result<()> {
    if row.len() > limits::ROW_MAX {
        return Err(Error::invalid(format!(
            "Row length {} is > {}",
            row.len(),
            limits::ROW_MAX
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
