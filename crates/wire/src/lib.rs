//! HBase's wire protocol, and Hadoop's IPC ([`hadoop`]), as plain functions of bytes: messages, frames, cells, exceptions, and their translation to the
//! nouns of `types`, both ways, since server and client need both.
//!
//! Pure: this crate must not know of sockets, an async runtime, clocks, randomness or storage. It is the only crate that names
//! prost; to all others the messages of [`pb`] are plain structs. Every parser takes bytes of a peer: it answers an error, never
//! panics, and allocates no more than a small multiple of what it was given.

pub mod cells;
pub mod convert;
pub mod exception;
pub mod frame;
pub mod hadoop;
mod message;
pub mod meta;
pub mod preamble;
mod service;
#[cfg(test)]
mod testing;
pub mod znode;

/// The messages of package `hbase.pb` (hbase-protocol.md 1 to 8), generated from `proto/`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/hbase.pb.rs"));
}

pub use message::{DECODED_MAX, Message, decode, encode};
pub use service::Service;
