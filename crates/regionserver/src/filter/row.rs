//! Filters on row keys, and those that count or wrap rows.

use bytes::Bytes;
use cadastre_env::Rng;
use cadastre_types::Cell;
use rand::Rng as _;

use super::{Filter, Verdict};

/// Rows with a prefix; ends behind the last.
pub(super) struct Prefix {
    pub(super) prefix: Bytes,
    pub(super) reversed: bool,
    pub(super) passed: bool,
    pub(super) drop: bool,
}

impl Filter for Prefix {
    fn reset(&mut self) {
        self.drop = true;
    }
    fn all_remaining_filtered(&self) -> bool {
        self.passed
    }
    fn drops_row_key(&mut self, row: &[u8]) -> bool {
        let head = &row[..self.prefix.len().min(row.len())];
        let order = head.cmp(&self.prefix[..]);
        let behind = if self.reversed {
            order.is_lt()
        } else {
            order.is_gt()
        };
        self.passed |= behind;
        self.drop = order.is_ne();
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

/// Ends behind a row, which is still included.
pub(super) struct InclusiveStop {
    pub(super) stop: Bytes,
    pub(super) reversed: bool,
    pub(super) done: bool,
}

impl Filter for InclusiveStop {
    fn all_remaining_filtered(&self) -> bool {
        self.done
    }
    fn drops_row_key(&mut self, row: &[u8]) -> bool {
        self.done |= if self.reversed {
            row < &self.stop[..]
        } else {
            row > &self.stop[..]
        };
        self.done
    }
}

/// Ends this region's scan after some rows.
pub(super) struct Page {
    pub(super) size: i64,
    pub(super) accepted: i64,
}

impl Filter for Page {
    fn all_remaining_filtered(&self) -> bool {
        self.accepted >= self.size
    }
    fn drops_row(&mut self) -> bool {
        self.accepted += 1;
        self.accepted > self.size
    }
    fn needs_whole_row(&self) -> bool {
        true
    }
}

/// Each row with a probability.
pub(super) struct RandomRow {
    pub(super) chance: f32,
    pub(super) rng: Rng,
    pub(super) drop: bool,
}

impl Filter for RandomRow {
    fn reset(&mut self) {
        self.drop = false;
    }
    fn drops_row_key(&mut self, _row: &[u8]) -> bool {
        self.drop = if self.chance < 0.0 {
            true
        } else if self.chance > 1.0 {
            false
        } else {
            self.rng.random::<f32>() >= self.chance
        };
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

/// One fuzzy key: for each byte what it must be, or `None` for any.
pub(super) type FuzzyKey = Vec<Option<u8>>;

/// Rows that agree with one of some keys in the bytes that matter, as far as the shorter of both goes.
pub(super) struct FuzzyRow(pub(super) Vec<FuzzyKey>);

impl Filter for FuzzyRow {
    fn cell(&mut self, cell: &Cell) -> Verdict {
        let agrees = self.0.iter().any(|key| {
            key.iter()
                .zip(&cell.row)
                .all(|(want, byte)| want.is_none_or(|want| want == *byte))
        });
        if agrees {
            Verdict::INCLUDE
        } else {
            Verdict::NEXT_ROW
        }
    }
}

/// One row range.
pub(super) struct Range {
    pub(super) start: Bytes,
    pub(super) start_inclusive: bool,
    pub(super) stop: Bytes,
    pub(super) stop_inclusive: bool,
}

impl Range {
    fn is_behind_start(&self, row: &[u8]) -> bool {
        row > &self.start[..] || (self.start_inclusive && row == &self.start[..])
    }
    fn is_before_stop(&self, row: &[u8]) -> bool {
        self.stop.is_empty()
            || row < &self.stop[..]
            || (self.stop_inclusive && row == &self.stop[..])
    }
}

/// The union of row ranges.
pub(super) struct MultiRowRange {
    pub(super) ranges: Vec<Range>,
    pub(super) reversed: bool,
    pub(super) done: bool,
    pub(super) drop: bool,
}

impl Filter for MultiRowRange {
    fn all_remaining_filtered(&self) -> bool {
        self.done
    }
    fn drops_row_key(&mut self, row: &[u8]) -> bool {
        self.drop = !self
            .ranges
            .iter()
            .any(|r| r.is_behind_start(row) && r.is_before_stop(row));
        self.done = self.drop
            && self.ranges.iter().all(|range| {
                if self.reversed {
                    !range.is_behind_start(row)
                } else {
                    !range.is_before_stop(row)
                }
            });
        self.drop
    }
    fn cell(&mut self, _cell: &Cell) -> Verdict {
        if self.drop {
            Verdict::NEXT_ROW
        } else {
            Verdict::INCLUDE
        }
    }
}

/// Drops the whole row if the inner filter rejects any of its cells.
pub(super) struct Skip {
    pub(super) inner: Box<dyn Filter>,
    pub(super) drop: bool,
}

impl Filter for Skip {
    fn reset(&mut self) {
        self.inner.reset();
        self.drop = false;
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        let verdict = self.inner.cell(cell);
        self.drop |= verdict != Verdict::INCLUDE;
        verdict
    }
    fn transform(&self, cell: Cell) -> Cell {
        self.inner.transform(cell)
    }
    fn drops_row(&mut self) -> bool {
        self.drop
    }
    fn needs_whole_row(&self) -> bool {
        true
    }
}

/// Ends the scan at the first reject of the inner filter.
pub(super) struct WhileMatch {
    pub(super) inner: Box<dyn Filter>,
    pub(super) done: bool,
}

impl Filter for WhileMatch {
    fn reset(&mut self) {
        self.inner.reset();
    }
    fn all_remaining_filtered(&self) -> bool {
        self.done || self.inner.all_remaining_filtered()
    }
    fn drops_row_key(&mut self, row: &[u8]) -> bool {
        let drop = self.inner.drops_row_key(row);
        self.done |= drop;
        drop
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        let verdict = self.inner.cell(cell);
        self.done |= verdict != Verdict::INCLUDE;
        verdict
    }
    fn transform(&self, cell: Cell) -> Cell {
        self.inner.transform(cell)
    }
    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        self.inner.row_cells(cells);
    }
    fn drops_row(&mut self) -> bool {
        let drop = self.inner.drops_row();
        self.done |= drop;
        drop
    }
    fn needs_whole_row(&self) -> bool {
        true
    }
}

/// Nothing passes.
pub(super) struct All;

impl Filter for All {
    fn all_remaining_filtered(&self) -> bool {
        true
    }
}
