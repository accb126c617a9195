//! What the binary `cadastre` is made of: the node's composition, its settings, its admin port and the commands.
//!
//! Only this crate reads the environment, the arguments and files outside the data directory. [`node`] is generic over the
//! surroundings: `main` runs it with the real ones, the simulator with its own.

pub mod admin;
pub mod commands;
pub mod config;
pub mod logging;
pub mod node;
mod place;
pub mod start;
