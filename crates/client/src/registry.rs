//! Who serves `hbase:meta` and who is the active master: ZooKeeper or the RPC registry behind one face (requirements.md L5).
//!
//! One try per call; nothing is cached here (the location cache and `call` keep what they were told), nothing sleeps.

mod rpc;
mod zookeeper;

use std::sync::Arc;
use std::time::Duration;

use cadastre_env::Env;
use cadastre_rpc::Connections;
use cadastre_types::{Code, Error, Result, ServerName};

use self::rpc::RpcRegistry;
use self::zookeeper::ZooKeeperRegistry;
use crate::config::{self, ClientConfig};

/// Where the top of the directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaPlace {
    /// Server.
    pub(crate) server: ServerName,
    /// Open sequence number, 0 if the registry does not say.
    pub(crate) open_seq: u64,
}

/// The registry of one cluster.
pub(crate) enum Registry<E: Env> {
    ZooKeeper(ZooKeeperRegistry<E>),
    Rpc(RpcRegistry<E>),
}

impl<E: Env> Registry<E> {
    /// Makes it; nothing is asked yet.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`] if no server is named.
    pub(crate) fn new(
        env: E,
        connections: Arc<Connections<E>>,
        which: config::Registry,
        config: &ClientConfig,
    ) -> Result<Self> {
        let servers = match &which {
            config::Registry::ZooKeeper(servers, _) | config::Registry::Rpc(servers) => servers,
        };
        if servers.is_empty() {
            return Err(Error::invalid("the registry has no servers"));
        }
        Ok(match which {
            config::Registry::ZooKeeper(servers, parent) => {
                let timeout = Duration::from_millis(config.zookeeper_timeout_ms);
                Self::ZooKeeper(ZooKeeperRegistry::new(env, servers, parent, timeout))
            }
            config::Registry::Rpc(servers) => Self::Rpc(RpcRegistry::new(
                env,
                connections,
                servers,
                config.hedged_fanout,
            )),
        })
    }

    /// Who serves `hbase:meta`.
    pub(crate) async fn meta_place(&self, timeout: Duration) -> Result<MetaPlace> {
        match self {
            Self::ZooKeeper(registry) => registry.meta_place(timeout).await,
            Self::Rpc(registry) => registry.meta_place(timeout).await,
        }
    }

    /// The active master.
    pub(crate) async fn active_master(&self, timeout: Duration) -> Result<ServerName> {
        match self {
            Self::ZooKeeper(registry) => registry.active_master(timeout).await,
            Self::Rpc(registry) => registry.active_master(timeout).await,
        }
    }

    /// The cluster's id.
    pub(crate) async fn cluster_id(&self, timeout: Duration) -> Result<String> {
        match self {
            Self::ZooKeeper(registry) => registry.cluster_id(timeout).await,
            Self::Rpc(registry) => registry.cluster_id(timeout).await,
        }
    }

    /// Whether a region server is registered; `None` if this registry does not know servers.
    pub(crate) async fn is_alive(
        &self,
        server: &ServerName,
        timeout: Duration,
    ) -> Result<Option<bool>> {
        match self {
            Self::ZooKeeper(registry) => registry.is_alive(server, timeout).await.map(Some),
            Self::Rpc(_) => Ok(None),
        }
    }

    /// A session of the caller's own.
    pub(crate) async fn new_session(&self) -> Result<cadastre_coordination::Session> {
        match self {
            Self::ZooKeeper(registry) => registry.new_session().await,
            Self::Rpc(_) => Err(Error::new(
                Code::Unsupported,
                "the cluster's coordination service is not known: connect by ZooKeeper, not by bootstrap servers",
            )),
        }
    }

    /// Ends what is open towards the registry.
    pub(crate) async fn close(&self) {
        if let Self::ZooKeeper(registry) = self {
            registry.close().await;
        }
    }
}

/// The registry answered, but without what was asked for.
fn nothing(what: &str, place: impl std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("{place} does not say {what}"))
}
