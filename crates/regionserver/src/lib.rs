//! The region server: serves regions to HBase clients.
//!
//! A request comes from `rpc` with its method's name; `requests/` holds one file per call, each of which decodes the message, finds
//! the region and hops to the core that owns it (`regions`). What a mutation does to a row is worked out in `apply` under the row's
//! lock; reads pass `read`. This crate must not know of sockets, of the storage engine behind `store`, nor of the master, which
//! it meets only over RPC.

mod apply;
mod comparator;
mod condition;
mod dispatch;
mod endpoint;
mod filter;
mod guarded;
mod java_regex;
mod rate;
mod read;
mod regions;
mod requests;
mod scanners;
mod server;
#[cfg(test)]
mod testing;

pub use server::{RegionServer, RegionServerConfig};
