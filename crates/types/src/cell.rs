//! A cell and HBase's order of cells inside a row.

use std::cmp::Ordering;

use bytes::Bytes;

/// "Now, by the server's clock": HBase's `HConstants.LATEST_TIMESTAMP`, 2^63 - 1. It is replaced under the row lock and
/// never stored.
pub const LATEST_TIMESTAMP: i64 = i64::MAX;

/// What a cell is; the codes are those of HBase's `KeyValue.Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CellType {
    /// A value.
    Put = 4,
    /// Hides this column's cell with exactly this timestamp.
    Delete = 8,
    /// Hides the cells of every column of the family with exactly this timestamp.
    DeleteFamilyVersion = 10,
    /// Hides this column's cells up to and with this timestamp.
    DeleteColumn = 12,
    /// Hides the cells of every column of the family up to and with this timestamp.
    DeleteFamily = 14,
}

impl CellType {
    /// The type with this code, or `None` for a code that is never stored (Minimum, Maximum, unknown).
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            4 => Self::Put,
            8 => Self::Delete,
            10 => Self::DeleteFamilyVersion,
            12 => Self::DeleteColumn,
            14 => Self::DeleteFamily,
            _ => return None,
        })
    }

    /// HBase's code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Whether this is a delete marker.
    pub fn is_delete(self) -> bool {
        self != Self::Put
    }

    /// Whether this marker speaks for the whole family; its qualifier is empty.
    pub fn is_family_wide(self) -> bool {
        matches!(self, Self::DeleteFamily | Self::DeleteFamilyVersion)
    }
}

/// One version of one column of one row, or a delete marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Row key, 1 to [`limits::ROW_MAX`](crate::limits::ROW_MAX) bytes.
    pub row: Bytes,
    /// Family name.
    pub family: Bytes,
    /// Qualifier; may be empty.
    pub qualifier: Bytes,
    /// Milliseconds since 1970, or [`LATEST_TIMESTAMP`] on its way to the store.
    pub timestamp: i64,
    /// Value or marker.
    pub cell_type: CellType,
    /// Value; may be empty.
    pub value: Bytes,
    /// Tags in HBase's form (2-byte length, type, payload, repeated); empty for none.
    pub tags: Bytes,
    /// The store's sequence number of the write that made it; 0 before it is stored. Never crosses the HBase wire.
    pub sequence_id: u64,
}

impl Cell {
    /// A value cell without tags.
    pub fn put(row: Bytes, family: Bytes, qualifier: Bytes, timestamp: i64, value: Bytes) -> Self {
        Self {
            row,
            family,
            qualifier,
            timestamp,
            cell_type: CellType::Put,
            value,
            tags: Bytes::new(),
            sequence_id: 0,
        }
    }

    /// HBase's order (hbase-protocol.md 3.4): row, family and qualifier ascending, then timestamp, type and sequence id
    /// descending. Rows of `hbase:meta` have an order of their own, which is not this function's affair.
    pub fn cmp_hbase(&self, other: &Self) -> Ordering {
        self.row
            .cmp(&other.row)
            .then_with(|| self.family.cmp(&other.family))
            .then_with(|| self.qualifier.cmp(&other.qualifier))
            .then_with(|| other.timestamp.cmp(&self.timestamp))
            .then_with(|| other.cell_type.code().cmp(&self.cell_type.code()))
            .then_with(|| other.sequence_id.cmp(&self.sequence_id))
    }

    /// Bytes of the cell as a KeyValue without tags (hbase-protocol.md 3.2): what HBase's size limits count.
    pub fn key_value_len(&self) -> usize {
        // key length, value length, row length, family length, timestamp, type
        4 + 4
            + 2
            + self.row.len()
            + 1
            + self.family.len()
            + self.qualifier.len()
            + 8
            + 1
            + self.value.len()
    }
}
