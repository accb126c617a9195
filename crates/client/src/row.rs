//! What a read answers.

use bytes::Bytes;
use cadastre_types::Cell;

/// Cells of one row, in HBase's order; none if nothing was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Cells.
    pub cells: Vec<Cell>,
    /// The answer to a get that only asked whether there is a cell.
    pub exists: Option<bool>,
    /// More cells of this row follow in the next item; only in scans with `batch`.
    pub partial: bool,
}

impl Row {
    /// Row key, `None` for an empty answer.
    pub fn key(&self) -> Option<&Bytes> {
        self.cells.first().map(|cell| &cell.row)
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The first (newest) value of a column.
    pub fn value(&self, family: &[u8], qualifier: &[u8]) -> Option<&Bytes> {
        self.cells
            .iter()
            .find(|cell| cell.family == family && cell.qualifier == qualifier)
            .map(|cell| &cell.value)
    }
}
