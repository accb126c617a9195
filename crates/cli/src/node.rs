//! One node in one process: coordination server, store, master and region servers, in the order in which they need each other.
//!
//! Roles meet only through the coordination service and RPC, even here. The order of the start is the reverse of the stop:
//! store → coordination → master and region servers → ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cadastre_env::{Env, HostPort, Listener, Net};
use cadastre_master::{Master, MasterConfig};
use cadastre_regionserver::{RegionServer, RegionServerConfig};
use cadastre_store::{Store, StoreConfig};
use cadastre_types::{Code, Error, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use object_store::ObjectStore;
use tokio::sync::watch;

/// Root of the znodes: HBase's default `zookeeper.znode.parent`, which clients have, too.
const ZNODE_PARENT: &str = "/hbase";

/// How a node is set up.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Address to listen on.
    pub bind: IpAddr,
    /// Host that clients are told.
    pub advertise_host: String,
    /// Port of the coordination server (ZooKeeper's protocol), 0 for any free one.
    pub zookeeper_port: u16,
    /// Port of the master, 0 for any free one.
    pub master_port: u16,
    /// Port of the first region server, the others take the next ones; 0 for any free ones.
    pub region_server_port: u16,
    /// Number of region servers.
    pub region_servers: u16,
    /// Timeout of the servers' own sessions.
    pub session_timeout: Duration,
    /// Settings of the store.
    pub store: StoreConfig,
    /// Limits of each RPC server.
    pub rpc: cadastre_rpc::ServerConfig,
}

/// Why a node is to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A client asked the master for it.
    Asked,
    /// A region server has ended by itself, or was asked to.
    Role,
}

/// A running node.
pub struct Node<E: Env> {
    store: Store<E>,
    master: Master<E>,
    region_servers: Vec<RegionServer<E>>,
    zookeeper: SocketAddr,
    stop_coordination: watch::Sender<bool>,
    advertise_host: String,
}

impl<E: Env> Node<E> {
    /// Starts everything; clients are served when this returns.
    ///
    /// # Errors
    /// What kept it from starting, with the address or file it concerns.
    pub async fn start(env: E, objects: Arc<dyn ObjectStore>, config: NodeConfig) -> Result<Self> {
        let store = Store::open(env.clone(), objects, config.store.clone()).await?;
        let at = SocketAddr::new(config.bind, config.zookeeper_port);
        let listener = env.net().listen(at).await.map_err(|error| {
            Error::new(
                Code::Io,
                format!("cannot listen on {at} for ZooKeeper clients: {error}; is another server running? Choose a port with --zookeeper-port"),
            )
        })?;
        let zookeeper = listener.local_addr();
        let (stop_coordination, stopping) = watch::channel(false);
        env.spawn(
            "coordination",
            cadastre_coordination::serve(
                env.clone(),
                listener,
                cadastre_coordination::ServerConfig::new(cadastre_coordination::initial_zxid(
                    store.start_code(),
                )),
                stopping,
            ),
        );
        let coordination = vec![HostPort::new(
            reachable(config.bind).to_string(),
            zookeeper.port(),
        )];
        let master = Master::start(
            env.clone(),
            store.clone(),
            MasterConfig {
                bind: config.bind,
                port: config.master_port,
                advertise_host: config.advertise_host.clone(),
                coordination: coordination.clone(),
                parent: ZNODE_PARENT.to_owned(),
                session_timeout: config.session_timeout,
                min_servers: usize::from(config.region_servers),
                rpc: cadastre_rpc::ServerConfig {
                    name: "master".to_owned(),
                    ..config.rpc.clone()
                },
            },
        )
        .await?;
        // The region servers wait for what the master writes first: if it fails, so does the start.
        let region_servers = tokio::select! {
            biased;
            error = failed(&master) => return Err(error),
            servers = start_region_servers(&env, &store, &config, &coordination) => servers?,
        };
        master.ready().await?;
        Ok(Self {
            store,
            master,
            region_servers,
            zookeeper,
            stop_coordination,
            advertise_host: config.advertise_host,
        })
    }

    /// Where ZooKeeper clients connect.
    pub fn zookeeper(&self) -> HostPort {
        HostPort::new(self.advertise_host.clone(), self.zookeeper.port())
    }

    /// Where the master listens.
    pub fn master(&self) -> HostPort {
        HostPort::new(self.advertise_host.clone(), self.master.name().port)
    }

    /// Where the region servers listen.
    pub fn region_servers(&self) -> Vec<HostPort> {
        self.region_servers
            .iter()
            .map(|server| HostPort::new(self.advertise_host.clone(), server.name().port))
            .collect()
    }

    /// Waits until the node is to be stopped: because a client asked for it, or because a part of it is missing.
    pub async fn ended(&self) -> Ended {
        let servers = self.region_servers.iter().map(RegionServer::ended);
        let mut servers: FuturesUnordered<_> = servers.collect();
        tokio::select! {
            biased;
            () = self.master.stop_asked() => Ended::Asked,
            // None only without region servers.
            Some(()) = servers.next() => Ended::Role,
        }
    }

    /// Stops: no new calls, what runs is finished, everything in memory is flushed.
    ///
    /// # Errors
    /// If something could not be flushed; it is in the log and will be replayed.
    pub async fn stop(self) -> Result<()> {
        self.master.stop().await;
        for server in &self.region_servers {
            server.stop().await;
        }
        self.stop_coordination.send_replace(true);
        self.store.close().await
    }
}

/// The error with which the master ended before it was ready.
async fn failed<E: Env>(master: &Master<E>) -> Error {
    match master.ready().await {
        Err(error) => error,
        Ok(()) => std::future::pending().await,
    }
}

async fn start_region_servers<E: Env>(
    env: &E,
    store: &Store<E>,
    config: &NodeConfig,
    coordination: &[HostPort],
) -> Result<Vec<RegionServer<E>>> {
    let mut region_servers = Vec::with_capacity(usize::from(config.region_servers));
    for index in 0..config.region_servers {
        let port = match config.region_server_port {
            0 => 0,
            first => first
                .checked_add(index)
                .ok_or_else(|| Error::invalid("the region servers' ports go beyond 65535"))?,
        };
        let config = RegionServerConfig {
            bind: config.bind,
            port,
            advertise_host: config.advertise_host.clone(),
            coordination: coordination.to_vec(),
            parent: ZNODE_PARENT.to_owned(),
            session_timeout: config.session_timeout,
            rpc: cadastre_rpc::ServerConfig {
                name: "region_server".to_owned(),
                ..config.rpc.clone()
            },
        };
        region_servers.push(RegionServer::start(env.clone(), store.clone(), config).await?);
    }
    Ok(region_servers)
}

/// The address at which this process reaches its own listener.
fn reachable(bind: IpAddr) -> IpAddr {
    match bind {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}
