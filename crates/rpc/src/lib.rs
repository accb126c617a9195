//! HBase RPC over sockets: the server that runs calls for its peers, and the connections that send calls to other servers. Hadoop's
//! IPC as a client ([`hadoop`]), and the HA proxy ([`ha`]) over both.
//!
//! `wire` knows what the bytes mean; this crate moves them, within limits, and keeps the order of things: deadlines, answers out
//! of order, what was sent and what was not. It must not know of regions, tables or what any method does, and it never sleeps
//! to try again, but in [`ha::Proxy`]: else that is for `client`'s loop.

mod buffers;
pub mod client;
pub mod ha;
pub mod hadoop;
mod header;
mod multiplex;
pub mod server;
mod stage;
mod timer;

pub use client::{ClientConfig, Connections};
pub use server::{Call, HIGH_PRIORITY, Handler, Peer, Reply, ServerConfig, serve};
