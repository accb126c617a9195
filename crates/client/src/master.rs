//! Calls to the active master: the HA proxy over HBase RPC, whose look-up is the registry, by ZooKeeper or by servers (P16).
//!
//! Tries, pauses and failovers are the proxy's ([`cadastre_rpc::ha::Proxy`]); what may be repeated stands in the marks of
//! [`cadastre_rpc::ha::MASTER_SERVICE`]. Must not know what the calls mean.

use std::sync::Arc;
use std::time::Duration;

use cadastre_env::{Env, HostPort};
use cadastre_rpc::Connections;
use cadastre_rpc::ha::hbase::HbaseEngine;
use cadastre_rpc::ha::policy::Policy;
use cadastre_rpc::ha::{
    ActiveByLookup, Engine, Lookup, MASTER_SERVICE, MasterServiceClient, Policies, Proxy, Target,
};
use cadastre_types::Result;
use cadastre_wire::hadoop::User;
use futures::future::BoxFuture;

use crate::config::ClientConfig;
use crate::locate::address;
use crate::registry::Registry;

/// What the masters are called before one is known.
const GROUP: &str = "active-master";

/// Makes it; nobody is asked yet.
pub(crate) fn client<E: Env>(
    env: &E,
    connections: &Connections<E>,
    registry: Arc<Registry<E>>,
    config: &ClientConfig,
) -> MasterServiceClient {
    let try_timeout = Duration::from_millis(config.retry.rpc_timeout_ms);
    let engine = Arc::new(HbaseEngine::new(connections.clone(), try_timeout));
    let ids = engine.ids();
    let lookup = ByRegistry {
        registry,
        timeout: try_timeout,
    };
    let group = Target {
        address: HostPort::new(GROUP, 0),
        protocol: &MASTER_SERVICE,
        user: User::new(config.user.clone()),
        alignment: None,
    };
    let policies = Policies {
        time: Some(Duration::from_millis(config.retry.operation_timeout_ms)),
        ..Policies::all(Policy::failover(config.retry.failover()))
    };
    let proxy = Proxy::new(
        env.clock().clone(),
        &MASTER_SERVICE,
        Box::new(ActiveByLookup::new(Arc::new(lookup), engine, group)),
        policies,
        ids,
        env.rng("master-calls"),
        None,
    );
    MasterServiceClient::new(Arc::new(proxy))
}

/// The registry knows who is active.
struct ByRegistry<E: Env> {
    registry: Arc<Registry<E>>,
    timeout: Duration,
}

impl<E: Env> Lookup for ByRegistry<E> {
    fn active(&self, left: Option<Duration>) -> BoxFuture<'_, Result<HostPort>> {
        Box::pin(async move {
            let timeout = left.map_or(self.timeout, |left| left.min(self.timeout));
            let master = self.registry.active_master(timeout).await?;
            Ok(address(&master))
        })
    }
}
