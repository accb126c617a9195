//! Lists of filters: all must pass, or one.

use bytes::Bytes;
use cadastre_types::Cell;

use super::{Filter, Step, Verdict};

/// Every filter must let a cell through. Asking stops at the first reject, so order matters for filters that count.
pub(super) struct And(pub(super) Vec<Box<dyn Filter>>);

impl Filter for And {
    fn reset(&mut self) {
        self.0.iter_mut().for_each(|filter| filter.reset());
    }
    fn all_remaining_filtered(&self) -> bool {
        self.0.iter().any(|filter| filter.all_remaining_filtered())
    }
    fn drops_row_key(&mut self, row: &[u8]) -> bool {
        let mut drop = false;
        for filter in &mut self.0 {
            // Each must see the key: its state depends on it.
            drop |= filter.all_remaining_filtered() | filter.drops_row_key(row);
        }
        drop
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        let mut all = Verdict::INCLUDE;
        for filter in &mut self.0 {
            if filter.all_remaining_filtered() {
                return Verdict::NEXT_ROW;
            }
            let verdict = filter.cell(cell);
            all = Verdict {
                include: verdict.include,
                step: all.step.max(verdict.step),
            };
            if !verdict.include {
                break;
            }
        }
        all
    }
    fn transform(&self, cell: Cell) -> Cell {
        self.0
            .iter()
            .fold(cell, |cell, filter| filter.transform(cell))
    }
    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        self.0.iter_mut().for_each(|filter| filter.row_cells(cells));
    }
    fn drops_row(&mut self) -> bool {
        // Those behind the first that drops it do not see the row: a page does not count it.
        self.0.iter_mut().any(|filter| filter.drops_row())
    }
    fn needs_whole_row(&self) -> bool {
        self.0.iter().any(|filter| filter.needs_whole_row())
    }
    fn columns_wanted(&self) -> Option<u32> {
        // Those behind it see only what it lets through; it must see every cell itself.
        let mut of_cells = self.0.iter().filter(|filter| !filter.judges_whole_rows());
        of_cells.next()?.columns_wanted()
    }
    fn judges_whole_rows(&self) -> bool {
        self.0.iter().all(|filter| filter.judges_whole_rows())
    }
}

/// One filter and how far it said one could go on without asking it.
pub(super) struct Member {
    filter: Box<dyn Filter>,
    step: Step,
    column: (Bytes, Bytes),
    included: bool,
}

impl Member {
    fn wants(&self, cell: &Cell) -> bool {
        let same_family = self.column.0 == cell.family;
        match self.step {
            Step::Cell => true,
            Step::Column => !(same_family && self.column.1 == cell.qualifier),
            Step::Row => !same_family,
        }
    }
}

/// One filter must let a cell through; the most inclusive answer holds.
pub(super) struct Or(Vec<Member>);

impl Or {
    pub(super) fn new(filters: Vec<Box<dyn Filter>>) -> Self {
        let member = |filter| Member {
            filter,
            step: Step::Cell,
            column: (Bytes::new(), Bytes::new()),
            included: false,
        };
        Self(filters.into_iter().map(member).collect())
    }
}

impl Filter for Or {
    fn reset(&mut self) {
        for member in &mut self.0 {
            member.filter.reset();
            member.step = Step::Cell;
            member.included = false;
        }
    }
    fn all_remaining_filtered(&self) -> bool {
        !self.0.is_empty()
            && self
                .0
                .iter()
                .all(|member| member.filter.all_remaining_filtered())
    }
    fn drops_row_key(&mut self, row: &[u8]) -> bool {
        let mut drop = !self.0.is_empty();
        for member in &mut self.0 {
            let filter = &mut member.filter;
            drop &= filter.all_remaining_filtered() || filter.drops_row_key(row);
        }
        drop
    }
    fn cell(&mut self, cell: &Cell) -> Verdict {
        if self.0.is_empty() {
            return Verdict::INCLUDE;
        }
        let mut any = Verdict::NEXT_ROW;
        for member in &mut self.0 {
            member.included = false;
            let verdict = if member.filter.all_remaining_filtered() {
                Verdict::NEXT_ROW
            } else if member.wants(cell) {
                let verdict = member.filter.cell(cell);
                member.step = verdict.step;
                member.column = (cell.family.clone(), cell.qualifier.clone());
                member.included = verdict.include;
                verdict
            } else {
                Verdict {
                    include: false,
                    step: member.step,
                }
            };
            any = Verdict {
                include: any.include | verdict.include,
                step: any.step.min(verdict.step),
            };
        }
        any
    }
    fn transform(&self, cell: Cell) -> Cell {
        self.0
            .iter()
            .filter(|member| member.included)
            .fold(cell, |cell, member| member.filter.transform(cell))
    }
    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        self.0
            .iter_mut()
            .for_each(|member| member.filter.row_cells(cells));
    }
    fn drops_row(&mut self) -> bool {
        // Those behind the first that keeps it do not see the row.
        !self.0.is_empty() && self.0.iter_mut().all(|member| member.filter.drops_row())
    }
    fn needs_whole_row(&self) -> bool {
        self.0.iter().any(|member| member.filter.needs_whole_row())
    }
}
