//! The server and the client over real sockets on the loopback address, with a toy handler.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod calls;
mod client;
mod harness;
mod limits;
mod start;
