//! The plain nouns of the project: cells, rows, tables, regions, reads, mutations, errors and limits.
//!
//! Everything here is a value or a plain function of values. This crate must not know of protobuf, sockets, storage,
//! clocks, randomness or an async runtime: all other crates stand on it, the simulator's included.

mod cell;
mod error;
pub mod limits;
mod mutation;
mod read;
mod region;
mod table;

pub use cell::{Cell, CellType, LATEST_TIMESTAMP};
pub use error::{Code, Detail, Error, ErrorKind, MovedTo, Result};
pub use mutation::{CompareOp, Condition, Durability, Mutation, MutationKind};
pub use read::{Columns, EncodedFilter, Get, Qualifiers, Query, Scan, TimeRange};
pub use region::{EncodedName, META_ENCODED_NAME, META_REGION_NAME, RegionInfo, ServerName};
pub use table::{
    Compression, FamilyDescriptor, KeepDeletedCells, META_TABLE, TableDescriptor, TableName,
    TableState,
};
