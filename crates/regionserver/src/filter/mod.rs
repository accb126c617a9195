//! HBase's filters (hbase-protocol.md section 5). Pure, but for the random numbers of `RandomRowFilter`, which are passed in.
//!
//! A filter looks at a row's key, then at each cell, then at the cells that were let through. HBase's answer codes for a cell are
//! two things in one, so they are two here: is the cell let through, and how far may one go on without asking ([`Verdict`]).
//!
//! A scan asks by the key, before the row's cells are read ([`begin_row`]): HBase does so for every stored row, one without visible
//! cells too. Of HBase's hints for seeking those to other rows are used ([`Filter::skips`]), and that a filter ends the row behind its
//! first columns ([`Filter::columns_wanted`]); a filter that would hint to somewhere within a row simply rejects until the hint is
//! reached, with the same outcome.

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
    /// Whether a row is dropped, and those after it, by its key alone. To be asked before anything else of a row; it changes no state,
    /// so rows that are skipped need not be shown to the filter.
    fn skips(&self, _row: &[u8]) -> Skips {
        Skips::No
    }
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
    /// How many columns of each family it looks at, at most: it lets nothing through behind them, and what comes there changes nothing.
    fn columns_wanted(&self) -> Option<u32> {
        None
    }
    /// Whether HBase's ends by the cells of the row that is too far, and not by its key: then that row counts as scanned.
    fn reads_its_last_row(&self) -> bool {
        false
    }
    /// Whether it lets either all cells of a row through or none.
    fn judges_whole_rows(&self) -> bool {
        false
    }
    /// Whether [`Filter::drops_row`] or [`Filter::row_cells`] mean anything: such a filter needs the whole row.
    fn needs_whole_row(&self) -> bool {
        false
    }
}

/// What a filter's [`Filter::skips`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Skips {
    /// Nothing: the filter must be asked.
    No,
    /// This row is dropped, and all before this one.
    Until(Bytes),
    /// This row is dropped, and all behind it.
    Rest,
}

/// What a filter says of a row before its cells are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Its cells must be seen.
    Pass,
    /// It is dropped.
    Drop,
    /// It is dropped and nothing more will pass.
    End,
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

/// Cells of each family that a request wants of a row at most. HBase counts them where it reads the family: behind versions and the
/// verdict on single cells, and before a filter thins out or drops whole rows; what comes behind the limit is not shown to the filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PerFamily {
    /// At most so many; one if it is 0, as HBase 2.6.4 looks only after it has taken a cell.
    pub(crate) limit: Option<u32>,
    /// Behind so many.
    pub(crate) offset: u32,
}

impl PerFamily {
    /// Whether the n-th cell of a family, counted from 1, is wanted.
    fn wants(&self, n: u64) -> bool {
        n > u64::from(self.offset) && n <= self.last()
    }

    /// The last cell of a family that is looked at, counted from 1.
    fn last(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| {
            u64::from(limit.max(1)) + u64::from(self.offset)
        })
    }

    /// What is wanted of a row without a filter.
    pub(crate) fn keep(&self, mut row: Vec<Cell>) -> Vec<Cell> {
        if *self == Self::default() {
            return row;
        }
        let mut family = Bytes::new();
        let mut seen = 0_u64;
        row.retain(|cell| {
            if cell.family != family {
                family = cell.family.clone();
                seen = 0;
            }
            seen += 1;
            self.wants(seen)
        });
        row
    }
}

/// Begins a row by its key.
pub(crate) fn begin_row(filter: &mut dyn Filter, row: &[u8]) -> Start {
    if filter.all_remaining_filtered() {
        return Start::End;
    }
    filter.reset();
    if !filter.drops_row_key(row) {
        return Start::Pass;
    }
    match filter.all_remaining_filtered() {
        true => Start::End,
        false => Start::Drop,
    }
}

/// Puts one row, in HBase's order with up to the family's VERSIONS of each column, through a filter. `max_versions` is what the request
/// asked for; it counts what the filter let through, and so does `per_family`.
pub(crate) fn apply(
    filter: &mut dyn Filter,
    row: Vec<Cell>,
    max_versions: u32,
    per_family: PerFamily,
) -> Filtered {
    let Some(first) = row.first() else {
        return Filtered::Nothing;
    };
    match begin_row(filter, &first.row) {
        Start::Pass => rest_of_row(filter, row, max_versions, per_family),
        Start::Drop => Filtered::Nothing,
        Start::End => Filtered::End,
    }
}

/// Puts the cells of a row, whose key has passed, through a filter.
pub(crate) fn rest_of_row(
    filter: &mut dyn Filter,
    row: Vec<Cell>,
    max_versions: u32,
    per_family: PerFamily,
) -> Filtered {
    let mut passed = cells_that_pass(filter, row, max_versions, per_family);
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

fn cells_that_pass(
    filter: &mut dyn Filter,
    row: Vec<Cell>,
    max_versions: u32,
    per_family: PerFamily,
) -> Vec<Cell> {
    let mut passed = Vec::with_capacity(row.len());
    let mut of_family = 0_u64;
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
                of_family = 0;
            }
        }
        // A filter that has ended the scan ends this row, too, with what it has let through so far.
        if filter.all_remaining_filtered() {
            break;
        }
        let verdict = filter.cell(&cell);
        step = verdict.step;
        if !verdict.include {
            continue;
        }
        versions += 1;
        if versions <= max_versions {
            of_family += 1;
            if per_family.wants(of_family) {
                passed.push(filter.transform(cell));
            }
        } else {
            // One version more than is wanted is shown to the filter, which may take note of it; those behind it are not.
            step = step.max(Step::Column);
        }
        if of_family >= per_family.last() {
            step = Step::Row;
        }
    }
    passed
}
