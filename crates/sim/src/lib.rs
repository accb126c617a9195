//! The whole cluster on one thread, from a seed: simulated clock, network, disk, object store and faults behind the traits of
//! `env`, so that the product's own server, client and coordination code runs in it unchanged.
//!
//! 1. A [`World`] has nodes; each start of a node has a runtime of its own and a [`SimEnv`].
//! 2. The conductor ([`World::run_for`]) pops the first timed event of one queue, lets it act, and runs the node it woke until that
//!    node is idle. No other wake-up may cross nodes: network, disks and buckets are data plus events.
//! 3. Faults (crash, power cut, pause, partition, clock step) are events too; a [`FaultPlan`] draws them from the seed.
//! 4. Everything that happens goes into the [`Trace`]; equal seeds give equal hashes, or something is not deterministic.
//! 5. [`model`] holds what clients know (acknowledged, failed, unknown) and says which answers are possible.
//!
//! Why it works, what makes SlateDB deterministic, and the traps: facts/simulation.md. Nothing may depend on this crate.

#![allow(
    unexpected_cfgs,
    reason = "tokio_unstable is set by .cargo/config.toml and unknown to rustc"
)]

// rustdoc, which cargo gives other flags, only reads signatures.
#[cfg(not(any(tokio_unstable, doc)))]
compile_error!(
    "the simulator needs `--cfg tokio_unstable` (runtime::Builder::rng_seed): build inside the workspace, whose \
     .cargo/config.toml sets it, and do not override RUSTFLAGS"
);

mod bucket;
mod clock;
pub mod cluster;
mod counters;
mod disk;
mod disk_bucket;
mod env;
mod faults;
mod hub;
pub mod model;
mod net;
mod node;
mod outcome;
pub mod storage;
mod trace;
mod world;

pub use bucket::{Bucket, BucketConfig, SimStore};
pub use clock::SimClock;
pub use disk::{DiskConfig, SimDisk, SimFile};
pub use disk_bucket::DiskStore;
pub use env::SimEnv;
pub use faults::{Fault, FaultPlan, FaultRates};
pub use net::{NetConfig, SimListener, SimNet, SimStream};
pub use outcome::Outcome;
pub use trace::Trace;
pub use world::{Exit, Failure, NodeId, World, WorldConfig};
