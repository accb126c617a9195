//! The server and the client over real sockets on the loopback address, with a toy handler.

mod calls;
mod client;
mod harness;
mod limits;
mod start;
