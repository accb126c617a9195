//! Filters on row keys, and those that count or wrap rows.

use bytes::Bytes;
use cadastre_env::Rng;
use cadastre_types::Cell;
use rand::Rng as _;

use super::{Filter, Skips, Verdict};

/// Rows with a prefix; ends behind the last.
pub(super) struct Prefix {
    pub(super) prefix: Bytes,
    pub(super) reversed: bool,
    pub(super) passed: bool,
    pub(super) drop: bool,
}

impl Filter for Prefix {
    fn judges_whole_rows(&self) -> bool {
        true
    }
    fn skips(&self, row: &[u8]) -> Skips {
        match !self.reversed && row < &self.prefix[..] {
            true => Skips::Until(self.prefix.clone()),
            false => Skips::No,
        }
    }
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
    fn judges_whole_rows(&self) -> bool {
        true
    }
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
    fn judges_whole_rows(&self) -> bool {
        true
    }
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
    fn judges_whole_rows(&self) -> bool {
        true
    }
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
pub(super) struct FuzzyRow {
    pub(super) keys: Vec<FuzzyKey>,
    pub(super) reversed: bool,
}

/// Where a row and a fuzzy key first differ.
fn difference(key: &FuzzyKey, row: &[u8]) -> Option<usize> {
    let mut pairs = key.iter().zip(row);
    pairs.position(|(want, byte)| want.is_some_and(|want| want != *byte))
}

/// The least row behind one that does not agree with a fuzzy key, which does; `None` if there is none.
fn next_fuzzy(key: &FuzzyKey, row: &[u8], at: usize) -> Option<Vec<u8>> {
    // A row that agrees as far as it goes is enough: nothing stands behind the byte that makes it greater.
    if let Some(want) = key[at].filter(|want| *want > row[at]) {
        return Some([&row[..at], &[want]].concat());
    }
    let free = |at: &usize| key[*at].is_none() && row[*at] < u8::MAX;
    let raised = (0..at).rev().find(free)?;
    Some([&row[..raised], &[row[raised] + 1]].concat())
}

impl Filter for FuzzyRow {
    fn judges_whole_rows(&self) -> bool {
        true
    }
    fn reads_its_last_row(&self) -> bool {
        true
    }
    fn skips(&self, row: &[u8]) -> Skips {
        let mut nearest: Option<Vec<u8>> = None;
        for key in &self.keys {
            let Some(at) = difference(key, row) else {
                return Skips::No;
            };
            let next = next_fuzzy(key, row, at);
            nearest = nearest.into_iter().chain(next).min();
        }
        match nearest {
            _ if self.reversed => Skips::No,
            Some(next) => Skips::Until(next.into()),
            None => Skips::Rest,
        }
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        let differ = |key: &FuzzyKey| difference(key, &cell.row).is_some();
        if self.keys.iter().all(differ) {
            Verdict::NEXT_ROW
        } else {
            Verdict::INCLUDE
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
    fn judges_whole_rows(&self) -> bool {
        true
    }
    fn reads_its_last_row(&self) -> bool {
        true
    }
    fn skips(&self, row: &[u8]) -> Skips {
        // Behind a start that is excluded the next row may be within.
        let near = |range: &Range| row >= &range.start[..] && range.is_before_stop(row);
        if self.reversed || self.ranges.iter().any(near) {
            return Skips::No;
        }
        let starts = self.ranges.iter().map(|range| &range.start);
        match starts.filter(|start| start[..] > *row).min() {
            Some(start) => Skips::Until(start.clone()),
            None => Skips::No,
        }
    }
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
