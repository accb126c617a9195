//! A protocol that this crate does not know, through the HA proxy: asks two NameNodes for a user's groups.
//! `cargo run -p cadastre-rpc --example third_protocol -- 127.0.0.1:8020 127.0.0.1:8021 alice`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example")]
use std::sync::Arc;

use cadastre_env::{Env, HostPort, RealEnv, RealEnvConfig};
use cadastre_rpc::ha::policy::{Failover, Policy};
use cadastre_rpc::ha::{Caller, ConfiguredFailover, Engine, Event, Method, Policies};
use cadastre_rpc::ha::{Protocol, Proxy, Target};
use cadastre_rpc::hadoop::{HadoopConfig, HadoopEngine};
use cadastre_wire::hadoop::User;

static USER_MAPPINGS: Protocol = Protocol {
    name: "org.apache.hadoop.tools.GetUserMappingsProtocol",
    interface: "org.apache.hadoop.tools.protocolPB.GetUserMappingsProtocolPB",
    version: 1,
    methods: &[Method::read("getGroupsForUser", "a")],
};

async fn groups(env: RealEnv, servers: Vec<String>, user: String) {
    let engine = HadoopEngine::new(env.clone(), HadoopConfig::default());
    let proxy_to = |address: &String| {
        let target = Target {
            address: HostPort::parse(address).unwrap(),
            protocol: &USER_MAPPINGS,
            user: User::new("root"),
            alignment: None,
        };
        engine.proxy(target).unwrap()
    };
    let servers = servers.iter().map(proxy_to).collect();
    let proxy = Proxy::new(
        env.clock().clone(),
        &USER_MAPPINGS,
        Box::new(ConfiguredFailover::new(servers)),
        Policies::all(Policy::failover(Failover::default())),
        engine.ids(),
        env.rng("delays"),
        Some(Arc::new(|event: &Event<'_>| println!("{event}"))),
    );
    // The request message: field 1, a string.
    let body = [&[0x0a, user.len() as u8], user.as_bytes()].concat();
    let answer = proxy.call(&USER_MAPPINGS.methods[0], body.into()).await;
    println!("{answer:?}");
}

fn main() {
    let mut servers: Vec<String> = std::env::args().skip(1).collect();
    let user = servers.pop().unwrap();
    let config = RealEnvConfig {
        data_dir: std::env::temp_dir(),
        cores: 1,
        background_threads: 1,
    };
    let env = RealEnv::start(&config).unwrap();
    env.block_on(groups(env.clone(), servers, user)).unwrap();
}
