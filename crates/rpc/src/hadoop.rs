//! Hadoop's IPC as a client: the engine, its connections, and typed clients of the protocols a NameNode serves.
//!
//! Must not know of retries: an engine's proxy takes one try to one server, and says how far it came.

mod alignment;
mod classes;
mod client_protocol;
mod connection;
mod engine;
mod ha_service;
mod namenode_protocol;

pub use alignment::Alignment;
pub use client_protocol::{
    CLIENT_PROTOCOL, ClientProtocol, ClientProtocolClient, ClientProtocolProbe, server_state,
};
pub use engine::{HadoopConfig, HadoopEngine};
pub use ha_service::{HA_SERVICE_PROTOCOL, HaService, HaServiceClient};
pub use namenode_protocol::{
    NAMENODE_PROTOCOL, NamenodeProtocol, NamenodeProtocolClient, plain_policies,
};
