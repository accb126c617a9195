//! What a client asks to read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// Timestamps from `from` (inclusive) to `to` (exclusive), ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// Inclusive.
    pub from: i64,
    /// Exclusive; `i64::MAX` means no upper bound.
    pub to: i64,
}

impl TimeRange {
    /// Everything.
    pub const ALL: Self = Self {
        from: 0,
        to: i64::MAX,
    };

    /// Whether a timestamp lies inside. With no upper bound every timestamp from `from` on does.
    pub fn contains(&self, timestamp: i64) -> bool {
        timestamp >= self.from && (timestamp < self.to || self.to == i64::MAX)
    }
}

impl Default for TimeRange {
    fn default() -> Self {
        Self::ALL
    }
}

/// Which columns of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Qualifiers {
    /// The whole family.
    All,
    /// These; the empty qualifier is a real one.
    These(BTreeSet<Bytes>),
}

/// Which families and columns; empty = every family.
pub type Columns = BTreeMap<Bytes, Qualifiers>;

/// What to read of each row; shared by get and scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Families and columns; empty = all.
    pub columns: Columns,
    /// Timestamps.
    pub time_range: TimeRange,
    /// Timestamps for single families, instead of `time_range`.
    pub family_time_ranges: BTreeMap<Bytes, TimeRange>,
    /// Versions of a column at most; the family's VERSIONS still caps it.
    pub max_versions: u32,
    /// Markers and hidden cells too (attribute `_raw_`).
    pub raw: bool,
    /// Whether what is read may fill the block cache.
    pub cache_blocks: bool,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            columns: Columns::new(),
            time_range: TimeRange::ALL,
            family_time_ranges: BTreeMap::new(),
            max_versions: 1,
            raw: false,
            cache_blocks: true,
        }
    }
}

impl Query {
    /// The time range that holds for a family.
    pub fn time_range_of(&self, family: &[u8]) -> TimeRange {
        self.family_time_ranges
            .get(family)
            .copied()
            .unwrap_or(self.time_range)
    }
}

/// A filter or comparator as it came: Java class and its serialised message. Whoever evaluates it decodes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedFilter {
    /// Java class name.
    pub class: String,
    /// Serialised message of that class.
    pub body: Bytes,
}

/// A read of one row (`GetRequest.get`).
#[derive(Debug, Clone, PartialEq)]
pub struct Get {
    /// Row key.
    pub row: Bytes,
    /// What of it.
    pub query: Query,
    /// Filter.
    pub filter: Option<EncodedFilter>,
    /// Cells per family at most, counted after versions and filter.
    pub store_limit: Option<u32>,
    /// Cells per family to skip.
    pub store_offset: u32,
    /// Only whether there is a cell.
    pub existence_only: bool,
    /// The old look-up form, refused by name as HBase 2.6 does.
    pub closest_row_before: bool,
    /// Whether the answer shall say how much was read.
    pub query_metrics: bool,
}

/// A read of a range of rows (`ScanRequest.scan`).
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// First row in scan order; empty = the open end. With `reversed` this is the upper bound.
    pub start_row: Bytes,
    /// Whether the start row itself belongs to the range.
    pub include_start_row: bool,
    /// Last row in scan order; empty = the open end.
    pub stop_row: Bytes,
    /// Whether the stop row itself belongs to the range.
    pub include_stop_row: bool,
    /// Descending.
    pub reversed: bool,
    /// What of each row.
    pub query: Query,
    /// Filter.
    pub filter: Option<EncodedFilter>,
    /// Cells per result at most, 0 for no limit.
    pub batch: u32,
    /// Bytes of an answer at most, 0 for the server's limit.
    pub max_result_size: u64,
    /// Cells per family at most, counted after versions and filter.
    pub store_limit: Option<u32>,
    /// Cells per family to skip.
    pub store_offset: u32,
    /// The client wants to know on heartbeats which row was reached.
    pub need_cursor_result: bool,
    /// Read point of an earlier scanner to go on at, 0 for a new one.
    pub mvcc_read_point: u64,
    /// Rows per answer that the client has in mind; advisory.
    pub caching: u32,
    /// Whether every result shall say how much was read for it.
    pub query_metrics: bool,
}

impl Scan {
    /// Of everything, ascending, with the server's limits.
    #[must_use]
    pub fn whole() -> Scan {
        Scan {
            start_row: Bytes::new(),
            include_start_row: true,
            stop_row: Bytes::new(),
            include_stop_row: false,
            reversed: false,
            query: Query::default(),
            filter: None,
            batch: 0,
            max_result_size: 0,
            store_limit: None,
            store_offset: 0,
            need_cursor_result: false,
            mvcc_read_point: 0,
            caching: 0,
            query_metrics: false,
        }
    }
}
