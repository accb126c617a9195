//! Filters on columns: which, how many, in which range.

use std::collections::BTreeSet;

use bytes::Bytes;
use cadastre_types::Cell;

use super::{Filter, Verdict};

/// The first `limit` columns of a row, one version each; meant for gets.
pub(super) struct ColumnCountGet {
    pub(super) limit: i64,
    pub(super) count: i64,
}

impl Filter for ColumnCountGet {
    fn reset(&mut self) {
        self.count = 0;
    }
    fn all_remaining_filtered(&self) -> bool {
        self.count > self.limit
    }
    fn columns_wanted(&self) -> Option<u32> {
        // One more ends the scan.
        u32::try_from(self.limit.max(0).saturating_add(1)).ok()
    }
    fn cell(&mut self, _cell: &Cell) -> Verdict {
        self.count += 1;
        if self.count > self.limit {
            Verdict::NEXT_COLUMN
        } else {
            Verdict::INCLUDE_AND_NEXT_COLUMN
        }
    }
}

/// Skips `offset` columns, or to a named one, then lets `limit` through, one version each. Counts over the row's families.
pub(super) struct ColumnPagination {
    pub(super) limit: i64,
    pub(super) offset: i64,
    pub(super) column_offset: Option<Bytes>,
    pub(super) count: i64,
}

impl Filter for ColumnPagination {
    fn reset(&mut self) {
        self.count = 0;
    }
    fn columns_wanted(&self) -> Option<u32> {
        if self.column_offset.is_some() {
            return None;
        }
        u32::try_from(self.offset.max(0).saturating_add(self.limit.max(0))).ok()
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if let Some(first) = &self.column_offset {
            if self.count >= self.limit {
                return Verdict::NEXT_ROW;
            }
            if self.count == 0 && cell.qualifier < *first {
                return Verdict::NEXT_COLUMN;
            }
            self.count += 1;
            return Verdict::INCLUDE_AND_NEXT_COLUMN;
        }
        if self.count >= self.offset + self.limit {
            return Verdict::NEXT_ROW;
        }
        self.count += 1;
        if self.count <= self.offset {
            Verdict::NEXT_COLUMN
        } else {
            Verdict::INCLUDE_AND_NEXT_COLUMN
        }
    }
}

/// Qualifiers with one of some prefixes.
pub(super) struct ColumnPrefixes(pub(super) Vec<Bytes>);

impl Filter for ColumnPrefixes {
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if self
            .0
            .iter()
            .any(|prefix| cell.qualifier.starts_with(prefix))
        {
            Verdict::INCLUDE
        } else {
            Verdict::NEXT_COLUMN
        }
    }
}

/// Qualifiers in a range.
pub(super) struct ColumnRange {
    pub(super) min: Option<Bytes>,
    pub(super) min_inclusive: bool,
    pub(super) max: Option<Bytes>,
    pub(super) max_inclusive: bool,
}

impl Filter for ColumnRange {
    fn cell(&mut self, cell: &Cell) -> Verdict {
        let qualifier = &cell.qualifier;
        let below = self
            .min
            .as_ref()
            .is_some_and(|min| qualifier < min || (qualifier == min && !self.min_inclusive));
        let above = self
            .max
            .as_ref()
            .is_some_and(|max| qualifier > max || (qualifier == max && !self.max_inclusive));
        match (below, above) {
            (true, _) => Verdict::NEXT_COLUMN,
            (_, true) => Verdict::NEXT_ROW,
            _ => Verdict::INCLUDE,
        }
    }
}

/// The first cell of each row.
#[derive(Default)]
pub(super) struct FirstKeyOnly {
    found: bool,
}

impl Filter for FirstKeyOnly {
    fn reset(&mut self) {
        self.found = false;
    }
    fn columns_wanted(&self) -> Option<u32> {
        Some(1)
    }
    fn cell(&mut self, _cell: &Cell) -> Verdict {
        if std::mem::replace(&mut self.found, true) {
            Verdict::NEXT_ROW
        } else {
            Verdict::INCLUDE
        }
    }
}

/// Cells up to and with the first of some qualifiers.
pub(super) struct FirstKeyValueMatchingQualifiers {
    pub(super) qualifiers: BTreeSet<Bytes>,
    pub(super) found: bool,
}

impl Filter for FirstKeyValueMatchingQualifiers {
    fn reset(&mut self) {
        self.found = false;
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if self.found {
            return Verdict::NEXT_ROW;
        }
        self.found = self.qualifiers.contains(&cell.qualifier);
        Verdict::INCLUDE
    }
}

/// Replaces values by nothing, or by their length.
pub(super) struct KeyOnly {
    pub(super) length_as_value: bool,
}

impl Filter for KeyOnly {
    fn judges_whole_rows(&self) -> bool {
        true
    }
    fn transform(&self, cell: Cell) -> Cell {
        let value = if self.length_as_value {
            Bytes::copy_from_slice(&(cell.value.len() as u32).to_be_bytes())
        } else {
            Bytes::new()
        };
        Cell { value, ..cell }
    }
}

/// Cells with exactly these timestamps.
pub(super) struct Timestamps(pub(super) BTreeSet<i64>);

impl Filter for Timestamps {
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if self.0.contains(&cell.timestamp) {
            return Verdict::INCLUDE;
        }
        // Versions come newest first: below the smallest there is nothing more in this column.
        match self.0.first() {
            Some(smallest) if cell.timestamp > *smallest => Verdict::SKIP,
            _ => Verdict::NEXT_COLUMN,
        }
    }
}
