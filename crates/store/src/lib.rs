//! Regions on SlateDB: cells in packed rows, a shared log with group commit, row locks, snapshots (design.md section 3,
//! correctness.md C1 to C17). The only crate that names SlateDB or the object store; it opens no sockets.
//!
//! A region is one SlateDB database. What is durable and what a read sees: every read goes through a moment all of which is
//! durable (C2); under row locks reads see what is in memory, and nothing is answered before that is durable (C1).

mod cache;
mod check;
mod clock;
mod clone;
mod cluster;
mod compaction;
mod database;
mod db;
mod error;
mod files;
mod filter;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod key;
mod kv;
mod locks;
mod log;
mod maintenance;
mod manifest;
mod merge;
mod nonces;
mod numbered;
mod object_log;
mod objects;
mod owner;
mod packed;
mod planted;
mod read;
mod region;
mod retain;
mod row_cache;
mod scan;
mod schema;
mod seal;
mod starts;
mod store;
mod widths;
mod write;

pub use kv::Kv;
pub use locks::RowLocks;
pub use log::{Follower, LogBatch, LogChange};
pub use owner::stand_by;
#[cfg(feature = "planted-faults")]
pub use planted::Planted;
pub use region::{Found, ReadPoint, Region, RegionLoad};
pub use scan::{Choice, RowRange, Scanner, Step};
pub use store::{RegionSpec, Store, StoreConfig, WalSync};
