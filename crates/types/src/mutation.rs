//! What a client asks to change.

use bytes::Bytes;

use crate::{Cell, EncodedFilter, TimeRange};

/// The form of a mutation (`MutationProto.MutationType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MutationKind {
    /// Appends bytes to the newest value.
    Append,
    /// Adds to the newest 8-byte value.
    Increment,
    /// Writes cells (markers too: a put may carry deletes).
    Put,
    /// Writes delete markers.
    Delete,
}

/// How safe a write must be before it is answered (`MutationProto.Durability`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The table's DURABILITY, else [`Self::SyncWal`].
    #[default]
    UseDefault,
    /// May be lost by a crash.
    SkipWal,
    /// In the log soon after.
    AsyncWal,
    /// In the log before the answer.
    SyncWal,
    /// On the device before the answer.
    FsyncWal,
}

/// A change of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    /// Row key.
    pub row: Bytes,
    /// Form.
    pub kind: MutationKind,
    /// Cells in the order of the request, all of this row. Timestamps may be [`LATEST_TIMESTAMP`](crate::LATEST_TIMESTAMP). For an
    /// increment the value is the 8-byte big-endian delta. A delete without cells deletes the whole row at `timestamp`.
    pub cells: Vec<Cell>,
    /// Timestamp of the mutation, for what has none of its own.
    pub timestamp: i64,
    /// How safe.
    pub durability: Durability,
    /// Which old cell an increment or append reads.
    pub time_range: TimeRange,
    /// Nonce, 0 for none.
    pub nonce: u64,
    /// Whether an increment or append answers with the new cells (attribute `_rr_`).
    pub return_results: bool,
    /// Life of the cells, ms (attribute `_ttl`).
    pub ttl_ms: Option<u64>,
}

/// Comparison operators (`CompareType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// Never.
    NoOp,
}

/// The condition of a check-and-mutate (hbase-protocol.md 4.4).
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Row that is looked at: always the mutation's own.
    pub row: Bytes,
    /// Family; unused with a filter.
    pub family: Bytes,
    /// Qualifier; unused with a filter.
    pub qualifier: Bytes,
    /// How **expected OP actual** is read.
    pub op: CompareOp,
    /// Comparator with the expected value: Java class and message, decoded by whoever evaluates it.
    pub comparator: Option<EncodedFilter>,
    /// If set: true when a get with this filter finds a cell.
    pub filter: Option<EncodedFilter>,
    /// Which cells are looked at.
    pub time_range: TimeRange,
    /// Whether the answer shall say how much was read.
    pub query_metrics: bool,
}
