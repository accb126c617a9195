//! An object store on HDFS whose every NameNode call goes through the HA proxy (rfcs/2026-11-30-regions-on-hdfs.md).
//!
//! An object is a file. It is written under a name that no other try ever has, made durable, then renamed to its own: so it is there whole or
//! not at all, and who put it is told by its file id, whatever became of the answer to the rename.
//!
//! Must not know of retries and fail-over, which are the proxy's (`rpc::ha`), nor of what objects hold.

mod clean;
mod datanode;
mod delete;
mod error;
mod file;
mod list;
#[cfg(test)]
mod model;
mod namenode;
mod names;
mod place;
mod read;
mod store;
mod upload;

pub use store::{HdfsStore, HdfsStoreConfig, store_defaults};
