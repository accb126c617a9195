//! A server whose coordination service has a machine of its own, so that the way to the one may be cut while the other is reached.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cadastre_env::{Clock, Env, HostPort, Net};
use cadastre_master::{Master, MasterConfig};
use cadastre_regionserver::{RegionServer, RegionServerConfig};
use cadastre_sim::{DiskStore, SimEnv};
use cadastre_store::{Store, StoreConfig};
use tokio::sync::watch;

pub(crate) const ZOOKEEPER: &str = "zookeeper";
pub(crate) const SERVER: &str = "server";
pub(crate) const ZOOKEEPER_PORT: u16 = 2_181;
pub(crate) const REGION_SERVER_PORT: u16 = 16_020;
/// Of the server's sessions.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

const MASTER_PORT: u16 = 16_000;
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

pub(crate) async fn zookeeper(env: SimEnv) {
    let at = SocketAddr::new(ANY, ZOOKEEPER_PORT);
    let listener = env.net().listen(at).await.unwrap();
    let zxid = cadastre_coordination::initial_zxid(env.clock().wall());
    let config = cadastre_coordination::ServerConfig::new(zxid);
    let (_stop, stopping) = watch::channel(false);
    cadastre_coordination::serve(env.clone(), listener, config, stopping).await;
}

/// Changes the settings of the server's store: plants a fault, or nothing.
pub(crate) type Tune = fn(&mut StoreConfig);

pub(crate) async fn server(env: SimEnv, tune: Tune) {
    let objects = Arc::new(DiskStore::new(env.clone(), "objects"));
    let mut config = StoreConfig::new(64 << 20);
    tune(&mut config);
    let store = Store::open(env.clone(), objects, config).await.unwrap();
    let coordination = vec![HostPort::new(ZOOKEEPER, ZOOKEEPER_PORT)];
    let master = MasterConfig {
        bind: ANY,
        port: MASTER_PORT,
        advertise_host: SERVER.to_owned(),
        coordination: coordination.clone(),
        parent: "/hbase".to_owned(),
        session_timeout: SESSION_TIMEOUT,
        min_servers: 1,
        rpc: cadastre_rpc::ServerConfig::default(),
    };
    let region_server = RegionServerConfig {
        bind: ANY,
        port: REGION_SERVER_PORT,
        advertise_host: SERVER.to_owned(),
        coordination,
        parent: "/hbase".to_owned(),
        session_timeout: SESSION_TIMEOUT,
        rpc: cadastre_rpc::ServerConfig::default(),
    };
    let master = Master::start(env.clone(), store.clone(), master)
        .await
        .unwrap();
    let region_server = RegionServer::start(env.clone(), store, region_server)
        .await
        .unwrap();
    master.ready().await.unwrap();
    region_server.ended().await;
    env.exit("the region server has ended");
}
