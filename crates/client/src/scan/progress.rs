//! How far a scan has come: joins partial results into rows, moves from region to region, and knows where to open the next
//! scanner after a break (hbase-protocol.md 4.6). Pure: answers are handed in, rows and the next position come out; it must
//! not know of servers, scanner ids or errors.

use bytes::Bytes;
use cadastre_types::{Cell, RegionInfo, Scan};

use crate::locate::Position;
use crate::row::Row;

/// One result of a scan answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    /// Cells of one row.
    pub(crate) cells: Vec<Cell>,
    /// Whether more cells of the row follow.
    pub(crate) partial: bool,
}

/// Where the next scanner opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// First row in scan order; empty = the open end.
    pub(crate) row: Bytes,
    /// Whether it belongs to the range.
    pub(crate) include: bool,
    /// Which region to open on, relative to the row.
    pub(crate) position: Position,
}

/// The state of one scan.
#[derive(Debug)]
pub(crate) struct Progress {
    reversed: bool,
    /// Pieces are handed out as they come (`Scan.batch`), not joined.
    in_pieces: bool,
    stop_row: Bytes,
    include_stop_row: bool,
    /// Behind what has been handed out; `None` when the scan is over.
    start: Option<(Bytes, bool)>,
    /// Cells of a row whose end has not come yet.
    pending: Vec<Cell>,
    /// In pieces: cells of the row at `start` that were handed out already.
    sent_of_row: usize,
    /// In pieces, after a break: cells still to be passed over.
    skip_of_row: usize,
    /// Rows still wanted.
    rows_left: Option<u64>,
}

impl Progress {
    pub(crate) fn new(scan: &Scan, limit: Option<u64>) -> Self {
        Self {
            reversed: scan.reversed,
            in_pieces: scan.batch > 0,
            stop_row: scan.stop_row.clone(),
            include_stop_row: scan.include_stop_row,
            start: (limit != Some(0)).then(|| (scan.start_row.clone(), scan.include_start_row)),
            pending: Vec::new(),
            sent_of_row: 0,
            skip_of_row: 0,
            rows_left: limit,
        }
    }

    /// Where to open next, `None` when the scan is over.
    pub(crate) fn start(&self) -> Option<Start> {
        let (row, include) = self.start.clone()?;
        // Descending from the open end, or from behind a row that may be the first of its region.
        let before = self.reversed && (row.is_empty() || !include);
        Some(Start {
            row,
            include,
            position: if before {
                Position::Before
            } else {
                Position::Holding
            },
        })
    }

    /// Rows still wanted, if that is bounded.
    pub(crate) fn rows_left(&self) -> Option<u64> {
        self.rows_left
    }

    /// Whether a new scanner must go on inside a row, and so at the read point of the one before.
    pub(crate) fn is_inside_row(&self) -> bool {
        self.sent_of_row > 0
    }

    /// Takes the results of an answer; gives the rows that can be handed out.
    pub(crate) fn take(&mut self, pieces: Vec<Piece>) -> Vec<Row> {
        let mut rows = Vec::new();
        for piece in pieces {
            if self.start.is_none() || piece.cells.is_empty() {
                continue;
            }
            if self.in_pieces {
                rows.extend(self.take_piece(piece));
                continue;
            }
            let same_row = self.pending.first().map(|cell| &cell.row)
                == piece.cells.first().map(|cell| &cell.row);
            if !same_row {
                // The row was cut exactly at its end.
                rows.extend(self.finish_row());
                if self.start.is_none() {
                    break;
                }
            }
            if self.pending.is_empty() {
                self.pending = piece.cells;
            } else {
                self.pending.extend(piece.cells);
            }
            if !piece.partial {
                rows.extend(self.finish_row());
            }
        }
        rows
    }

    fn take_piece(&mut self, piece: Piece) -> Option<Row> {
        let Piece { mut cells, partial } = piece;
        let row = cells.first()?.row.clone();
        let same_row =
            self.sent_of_row > 0 && self.start.as_ref().is_some_and(|(at, _)| *at == row);
        if same_row {
            let skipped = self.skip_of_row.min(cells.len());
            self.skip_of_row -= skipped;
            cells.drain(..skipped);
        } else {
            self.sent_of_row = 0;
            self.skip_of_row = 0;
        }
        if partial {
            self.sent_of_row += cells.len();
            self.start = Some((row, true));
        } else {
            self.end_row(row);
        }
        (!cells.is_empty()).then_some(Row {
            cells,
            exists: None,
            partial,
        })
    }

    fn finish_row(&mut self) -> Option<Row> {
        let cells = std::mem::take(&mut self.pending);
        let row = cells.first()?.row.clone();
        self.end_row(row);
        Some(Row {
            cells,
            exists: None,
            partial: false,
        })
    }

    fn end_row(&mut self, row: Bytes) {
        self.sent_of_row = 0;
        self.skip_of_row = 0;
        self.start = Some((row, false));
        if let Some(left) = &mut self.rows_left {
            *left -= 1;
            if *left == 0 {
                self.start = None;
            }
        }
    }

    /// The server has no more of this region: ends an open row and moves to the next region.
    pub(crate) fn leave_region(&mut self, region: &RegionInfo) -> Option<Row> {
        let last = self.finish_row();
        if self.start.is_none() {
            return last;
        }
        self.sent_of_row = 0;
        self.skip_of_row = 0;
        self.start = if self.reversed {
            let next = region.start_key.clone();
            let over = next.is_empty() || !self.stop_row.is_empty() && next <= self.stop_row;
            (!over).then_some((next, false))
        } else {
            let next = region.end_key.clone();
            let behind_stop = !self.stop_row.is_empty()
                && (next > self.stop_row || next == self.stop_row && !self.include_stop_row);
            (!next.is_empty() && !behind_stop).then_some((next, true))
        };
        last
    }

    /// The server says that the whole scan is over.
    pub(crate) fn end(&mut self) -> Option<Row> {
        let last = self.finish_row();
        self.start = None;
        last
    }

    /// The scanner broke. What came of an unfinished row is read again, so that no row is put together from two snapshots; in
    /// pieces, what was handed out is passed over.
    pub(crate) fn interrupted(&mut self) {
        self.pending.clear();
        self.skip_of_row = self.sent_of_row;
    }
}

#[cfg(test)]
mod tests;
