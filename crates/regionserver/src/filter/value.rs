//! Filters that compare: a part of each cell, or the value of one column.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use bytes::Bytes;
use cadastre_types::{Cell, CompareOp};

use super::{Filter, Verdict};
use crate::comparator::Comparator;

/// Comparator and operator: whether **part OP comparator** holds. (Conditions read it the other way round.)
pub(super) struct Test {
    pub(super) op: CompareOp,
    /// `None` only with an operator that needs none.
    pub(super) comparator: Option<Comparator>,
}

impl Test {
    pub(super) fn holds(&self, part: &[u8]) -> bool {
        let Some(comparator) = &self.comparator else {
            return false;
        };
        // The comparator gives its own value against the part.
        let part_against = match comparator.compare(part) {
            Ordering::Less => Ordering::Greater,
            Ordering::Equal => Ordering::Equal,
            Ordering::Greater => Ordering::Less,
        };
        match self.op {
            CompareOp::Less => part_against.is_lt(),
            CompareOp::LessOrEqual => part_against.is_le(),
            CompareOp::Equal => part_against.is_eq(),
            CompareOp::NotEqual => part_against.is_ne(),
            CompareOp::GreaterOrEqual => part_against.is_ge(),
            CompareOp::Greater => part_against.is_gt(),
            CompareOp::NoOp => false,
        }
    }
}

/// Families that pass a test.
pub(super) struct Family(pub(super) Test);

impl Filter for Family {
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if self.0.holds(&cell.family) {
            Verdict::INCLUDE
        } else {
            Verdict::NEXT_ROW
        }
    }
}

/// Qualifiers that pass a test.
pub(super) struct Qualifier(pub(super) Test);

impl Filter for Qualifier {
    fn cell(&mut self, cell: &Cell) -> Verdict {
        Verdict::include_if(self.0.holds(&cell.qualifier))
    }
}

/// Values that pass a test.
pub(super) struct Value(pub(super) Test);

impl Filter for Value {
    fn cell(&mut self, cell: &Cell) -> Verdict {
        Verdict::include_if(self.0.holds(&cell.value))
    }
}

/// Rows whose key passes a test.
pub(super) struct Row {
    pub(super) test: Test,
    pub(super) drop: bool,
}

impl Filter for Row {
    fn reset(&mut self) {
        self.drop = false;
    }
    fn drops_row_key(&mut self, row: &[u8]) -> bool {
        self.drop = !self.test.holds(row);
        self.drop
    }
    fn cell(&mut self, _cell: &Cell) -> Verdict {
        if self.drop {
            Verdict::NEXT_ROW
        } else {
            Verdict::INCLUDE
        }
    }
    fn drops_row(&mut self) -> bool {
        self.drop
    }
}

/// A column by name.
pub(super) struct Column {
    pub(super) family: Bytes,
    pub(super) qualifier: Bytes,
}

impl Column {
    fn is(&self, cell: &Cell) -> bool {
        cell.family == self.family && cell.qualifier == self.qualifier
    }
}

/// Only cells of one column whose value passes a test.
pub(super) struct ColumnValue {
    pub(super) column: Column,
    pub(super) test: Test,
    pub(super) found: bool,
}

impl Filter for ColumnValue {
    fn reset(&mut self) {
        self.found = false;
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if !self.column.is(cell) {
            return if self.found {
                Verdict::NEXT_ROW
            } else {
                Verdict::NEXT_COLUMN
            };
        }
        self.found = true;
        Verdict::include_if(self.test.holds(&cell.value))
    }
}

/// Whole rows in which one column passes a test.
pub(super) struct SingleColumnValue {
    pub(super) column: Column,
    pub(super) test: Test,
    pub(super) drop_if_missing: bool,
    pub(super) latest_version_only: bool,
    /// Leave the tested column out.
    pub(super) exclude: bool,
    pub(super) found: bool,
    pub(super) matched: bool,
}

impl Filter for SingleColumnValue {
    fn reset(&mut self) {
        self.found = false;
        self.matched = false;
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if self.matched {
            return Verdict::INCLUDE;
        }
        if self.latest_version_only && self.found {
            return Verdict::NEXT_ROW;
        }
        if !self.column.is(cell) {
            return Verdict::INCLUDE;
        }
        self.found = true;
        self.matched = self.test.holds(&cell.value);
        if self.matched || !self.latest_version_only {
            Verdict::INCLUDE
        } else {
            Verdict::NEXT_ROW
        }
    }
    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        if self.exclude {
            cells.retain(|cell| !self.column.is(cell));
        }
    }
    fn drops_row(&mut self) -> bool {
        if self.found {
            !self.matched
        } else {
            self.drop_if_missing
        }
    }
    fn needs_whole_row(&self) -> bool {
        true
    }
}

/// Cells whose timestamp is that of a cell of the reference column, which may have to pass a test.
pub(super) struct DependentColumn {
    pub(super) column: Column,
    pub(super) test: Option<Test>,
    pub(super) drop_reference: bool,
    pub(super) stamps: BTreeSet<i64>,
}

impl Filter for DependentColumn {
    fn reset(&mut self) {
        self.stamps.clear();
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if !self.column.is(cell) {
            return Verdict::INCLUDE;
        }
        if self
            .test
            .as_ref()
            .is_some_and(|test| !test.holds(&cell.value))
        {
            return Verdict::SKIP;
        }
        self.stamps.insert(cell.timestamp);
        Verdict::include_if(!self.drop_reference)
    }
    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        cells.retain(|cell| self.stamps.contains(&cell.timestamp));
    }
    fn needs_whole_row(&self) -> bool {
        true
    }
}
