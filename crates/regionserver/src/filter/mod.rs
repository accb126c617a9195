//! HBase's filters (hbase-protocol.md section 5). Pure, but for the random numbers of `RandomRowFilter`, which are passed in.
//!
//! A filter looks at a row's key, then at each cell, then at the cells that were let through. HBase's answer codes for a cell are
//! two things in one, so they are two here: is the cell let through, and how far may one go on without asking ([`Verdict`]). Its hints
//! for seeking are not used: a filter that would hint simply rejects until the hint is reached, with the same outcome.

mod column;
mod decode;
mod list;
mod row;
#[cfg(test)]
mod tests;
mod value;

use bytes::Bytes;
use cadastre_types::Cell;

pub(crate) use decode::decode;

/// How far to go on behind a cell without asking the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The next cell.
    Cell,
    /// The next column.
    Column,
    /// The end of the row, in this family.
    Row,
}

/// What a filter says of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Let through.
    pub(crate) include: bool,
    /// What is next.
    pub(crate) step: Step,
}

impl Verdict {
    const INCLUDE: Self = Self {
        include: true,
        step: Step::Cell,
    };
    const INCLUDE_AND_NEXT_COLUMN: Self = Self {
        include: true,
        step: Step::Column,
    };
    const SKIP: Self = Self {
        include: false,
        step: Step::Cell,
    };
    const NEXT_COLUMN: Self = Self {
        include: false,
        step: Step::Column,
    };
    const NEXT_ROW: Self = Self {
        include: false,
        step: Step::Row,
    };

    /// Let through, or skipped.
    fn include_if(include: bool) -> Self {
        if include { Self::INCLUDE } else { Self::SKIP }
    }
}

/// A filter with its state. The state of a row is cleared by [`Filter::reset`] before each row.
pub(crate) trait Filter: Send {
    /// Clears the state of a row.
    fn reset(&mut self) {}
    /// Nothing more will pass: the scan is over.
    fn all_remaining_filtered(&self) -> bool {
        false
    }
    /// Whether the whole row is dropped by its key.
    fn drops_row_key(&mut self, _row: &[u8]) -> bool {
        false
    }
    /// What of this cell.
    fn cell(&mut self, _cell: &Cell) -> Verdict {
        Verdict::INCLUDE
    }
    /// The cell as it is let through.
    fn transform(&self, cell: Cell) -> Cell {
        cell
    }
    /// Looks at, and may thin out, the cells that were let through.
    fn row_cells(&mut self, _cells: &mut Vec<Cell>) {}
    /// Whether the row is dropped after all its cells were seen.
    fn drops_row(&mut self) -> bool {
        false
    }
    /// Whether [`Filter::drops_row`] or [`Filter::row_cells`] mean anything: such a filter needs the whole row.
    fn needs_whole_row(&self) -> bool {
        false
    }
}

/// What became of a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Filtered {
    /// These cells passed; never empty.
    Row(Vec<Cell>),
    /// Nothing passed.
    Nothing,
    /// Nothing passed and nothing more will.
    End,
}

/// Puts one row, in HBase's order with up to the family's VERSIONS of each column, through a filter. `max_versions` is what the request
/// asked for; it counts what the filter let through.
pub(crate) fn apply(filter: &mut dyn Filter, row: Vec<Cell>, max_versions: u32) -> Filtered {
    let Some(first) = row.first() else {
        return Filtered::Nothing;
    };
    if filter.all_remaining_filtered() {
        return Filtered::End;
    }
    filter.reset();
    if filter.drops_row_key(&first.row.clone()) {
        return if filter.all_remaining_filtered() {
            Filtered::End
        } else {
            Filtered::Nothing
        };
    }
    let mut passed = cells_that_pass(filter, row, max_versions);
    if filter.needs_whole_row() {
        filter.row_cells(&mut passed);
        // Asked even for an empty row: a page counts it, a column value may be missing.
        if filter.drops_row() {
            passed.clear();
        }
    }
    if passed.is_empty() {
        Filtered::Nothing
    } else {
        Filtered::Row(passed)
    }
}

fn cells_that_pass(filter: &mut dyn Filter, row: Vec<Cell>, max_versions: u32) -> Vec<Cell> {
    let mut passed = Vec::with_capacity(row.len());
    let mut column: Option<(Bytes, Bytes)> = None;
    let mut versions = 0;
    let mut step = Step::Cell;
    for cell in row {
        match &column {
            Some((family, qualifier)) if *family == cell.family => {
                let same_column = *qualifier == cell.qualifier;
                if step == Step::Row || (step == Step::Column && same_column) {
                    continue;
                }
                if !same_column {
                    column = Some((cell.family.clone(), cell.qualifier.clone()));
                    versions = 0;
                }
            }
            // Each family has a store of its own, so a step to the next row ends with the family.
            _ => {
                column = Some((cell.family.clone(), cell.qualifier.clone()));
                versions = 0;
            }
        }
        let verdict = filter.cell(&cell);
        step = verdict.step;
        if !verdict.include {
            continue;
        }
        versions += 1;
        passed.push(filter.transform(cell));
        if versions >= max_versions {
            step = step.max(Step::Column);
        }
    }
    passed
}
