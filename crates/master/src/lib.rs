//! The master: namespaces, tables, which server serves which region, and the long operations that change them.
//!
//! A pure core, in plain functions of values: [`schema`] (what may be), [`catalog`] (what is), [`assignment`] (what should be
//! where), [`procedure`] (how it gets there), [`journal`] (what is written down). Around it an async driver behind one narrow
//! trait, [`world::World`]: `active` (wishes become procedures), `executor` (procedures become orders), `announce` (what the coordination service shows), `lineage` (splits, merges and what is left of them), `reconcile` (servers come
//! and go), `start` (one master's life), `requests` (what clients ask). It must not know of the region server's inside (they meet
//! over RPC only), of SlateDB, or of how bytes travel.

pub mod active;
mod announce;
pub mod assignment;
pub mod catalog;
mod executor;
mod fields;
pub mod journal;
mod lineage;
mod locks;
mod metrics;
pub mod namespace_table;
pub mod procedure;
mod real;
mod reconcile;
mod requests;
pub mod schema;
mod start;
pub mod world;

pub use start::{Master, MasterConfig};
