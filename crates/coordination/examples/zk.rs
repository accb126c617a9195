//! The embedded coordination server alone, to try real ZooKeeper clients on: `zk [PORT]`.

use std::net::SocketAddr;

use cadastre_coordination::{ServerConfig, initial_zxid, serve};
use cadastre_env::{Clock, Env, Listener, Net, RealEnv, RealEnvConfig};

#[allow(clippy::print_stdout, reason = "an example says where it listens")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    let dir = tempfile::tempdir()?;
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().into(),
        cores: 1,
        background_threads: 1,
    })?;
    let here = env.clone();
    let served = env.block_on(async move {
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let listener = here.net().listen(at).await?;
        println!("listening on {}", listener.local_addr());
        let mut config = ServerConfig::new(initial_zxid(here.clock().wall()));
        config.connections_per_address_max = 12_000;
        let (_keep, stop) = tokio::sync::watch::channel(false);
        serve(here, listener, config, stop).await;
        std::io::Result::Ok(())
    });
    served.ok_or("the core ended")??;
    Ok(())
}
