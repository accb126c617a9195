//! The Hadoop engine and the proxy over real sockets on the loopback address, against NameNodes that do as they are told.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod create;
mod engine;
mod fake;
mod masters;
mod moving;
