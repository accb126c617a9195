//! The master: namespaces, tables, which server serves which region, and the long operations that change them.
//!
//! A pure core, in plain functions of values: [`schema`] (what may be), [`catalog`] (what is), [`assignment`] (what should be
//! where), [`procedure`] (how it gets there), `journal` (what is written down). Around it an async driver. It must not know of
//! the region server's inside (they meet over RPC only), of SlateDB, or of how bytes travel.

pub mod assignment;
pub mod catalog;
pub mod procedure;
pub mod schema;
