//! ZooKeeper's protocol: the embedded server that HBase clients find a single machine through, and a client.
//!
//! - [`jute`]: the wire format, pure, both directions.
//! - [`tree`]: the server's state machine, pure.
//! - [`server`]: sockets and tasks around it.
//! - [`client`]: [`Session`], for the server roles and tools; it also speaks to a real ensemble.
//!
//! Server roles in the same process use the embedded server through [`Session`] over `env::Net` too: one way to do things.
//! This crate must not know what HBase keeps in its znodes (that is `wire::znode`), nor anything of regions or tables.

mod awake;
pub mod client;
mod frame;
pub mod jute;
pub mod server;
#[cfg(test)]
mod test_env;
pub mod tree;

pub use client::{Mode, Session, State, Watch, Watched, error_code};
pub use jute::{ErrorCode, EventType, Stat};
pub use server::{ServerConfig, serve};
pub use tree::{Tree, TreeConfig, initial_zxid};
