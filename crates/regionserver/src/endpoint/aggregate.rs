//! `AggregateService`: sums, counts and extremes of one column over the rows of a scan, as HBase's `AggregateImplementation`
//! answers them. One call sees one region; the client puts the regions' answers together.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cadastre_env::{Clock, Env};
use cadastre_types::{Cell, Code, Error, Qualifiers, Result, Scan, limits};
use cadastre_wire::{convert, pb};

use super::interpreter::{Interpreter, Number, add};
use crate::apply::Terms;
use crate::regions::Hosted;
use crate::requests::scan;
use crate::scanners::{Budget, OpenScanner};

pub(super) const SERVICE: &str = "AggregateService";

/// Rows read before other work of the core gets its turn: some tens of microseconds.
const ROWS_AT_ONCE: u32 = 128;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Max,
    Min,
    Sum,
    RowNum,
    Avg,
    Std,
    Median,
}

impl Function {
    /// The function of a method of the service.
    pub(super) fn of(method: &str) -> Option<Self> {
        Some(match method {
            "GetMax" => Self::Max,
            "GetMin" => Self::Min,
            "GetSum" => Self::Sum,
            "GetRowNum" => Self::RowNum,
            "GetAvg" => Self::Avg,
            "GetStd" => Self::Std,
            "GetMedian" => Self::Median,
            _ => return None,
        })
    }
}

/// Runs a function over the rows of the region that the request's scan asks for.
///
/// # Errors
/// Unknown interpreters and families, scans that cannot be; `TimeoutIo` once the client has given up.
pub(super) async fn run<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    function: Function,
    request: pb::AggregateRequest,
    terms: Terms,
) -> Result<pb::AggregateResponse> {
    let interpreter = Interpreter::of(&request.interpreter_class_name)?;
    let mut scan = convert::scan(&request.scan)?;
    let columns = Columns::of(&scan, function)?;
    if function == Function::RowNum {
        leave_out_first_qualifier(&mut scan);
    }
    // An answer in parts goes on behind a row, which a reversed scan cannot be told.
    let partial = request.client_supports_partial_result() && !scan.reversed;
    let limit = Limit::new(env, terms, partial);
    let mut state = State::new(function, interpreter, columns);
    let mut scanner = scan::open_here(env, hosted, scan).await?;
    let next = walk(env, &mut scanner, &limit, &mut state).await?;
    let mut response = state.answer();
    if let Some(next) = next {
        response.next_chunk_start_row = Some(next);
        response.wait_interval_ms = Some(0);
    }
    Ok(response)
}

/// When to stop.
struct Limit {
    /// The client has given up (monotone clock).
    end: Duration,
    /// When to answer with what there is, if the client can take it.
    partial: Option<Duration>,
}

impl Limit {
    fn new<E: Env>(env: &E, terms: Terms, partial: bool) -> Self {
        let now = env.clock().mono();
        let left = terms.call_deadline.saturating_sub(now);
        Self {
            end: terms.call_deadline,
            partial: partial.then(|| now + left / 2),
        }
    }
}

/// Feeds every row to the state. The row to go on with, if the time did not suffice.
async fn walk<E: Env>(
    env: &E,
    scanner: &mut OpenScanner<E>,
    limit: &Limit,
    state: &mut State,
) -> Result<Option<Bytes>> {
    let budget = Budget {
        results: ROWS_AT_ONCE,
        rows: None,
        bytes: limits::SCAN_RESULT_MAX / 16,
        partials: false,
        until: None,
        no_look_ahead: false,
    };
    loop {
        let answer = scanner.next(env, &budget).await?;
        let load = &scanner.hosted;
        load.reads
            .fetch_add(answer.scanned, atomic::Ordering::Relaxed);
        load.filtered
            .fetch_add(answer.filtered, atomic::Ordering::Relaxed);
        for part in &answer.parts {
            state.take(&part.cells)?;
        }
        if !answer.more_in_region {
            if scanner.has_hidden_behind() {
                state.take_end();
            }
            return Ok(None);
        }
        let now = env.clock().mono();
        if now >= limit.end {
            return Err(Error::new(
                Code::TimeoutIo,
                "the aggregation took longer than its caller waits",
            ));
        }
        let last = answer.parts.last();
        if let (Some(partial), Some(last)) = (limit.partial, last)
            && now >= partial
            && !last.partial
        {
            return Ok(Some(row_after(&last.cells[0].row)));
        }
        tokio::task::yield_now().await;
    }
}

/// The first row key behind a row.
fn row_after(row: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(row.len() + 1);
    next.put_slice(row);
    next.put_u8(0);
    next.freeze()
}

/// The columns that a function tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    /// Every cell is a weight, too: a second column was named. HBase takes each cell for both.
    weighted: bool,
}

impl Columns {
    /// # Errors
    /// A scan without a family.
    fn of(scan: &Scan, function: Function) -> Result<Self> {
        let first = scan.query.columns.values().next();
        if first.is_none() && function != Function::RowNum {
            return Err(Error::invalid("an aggregation needs a column family"));
        }
        let weighted = matches!(first, Some(Qualifiers::These(these)) if these.len() > 1);
        Ok(Self { weighted })
    }
}

/// HBase takes the first qualifier out of the scan before it counts: named alone, every row with a cell of the family counts.
fn leave_out_first_qualifier(scan: &mut Scan) {
    if let Some(qualifiers) = scan.query.columns.values_mut().next()
        && let Qualifiers::These(these) = qualifiers
    {
        these.pop_first();
        if these.is_empty() {
            *qualifiers = Qualifiers::All;
        }
    }
}

/// What has been computed so far.
struct State {
    function: Function,
    interpreter: Interpreter,
    columns: Columns,
    /// The extreme, or the sum.
    main: Option<Number>,
    /// The sum of squares, or of weights.
    second: Option<Number>,
    rows: i64,
}

impl State {
    fn new(function: Function, interpreter: Interpreter, columns: Columns) -> Self {
        Self {
            function,
            interpreter,
            columns,
            main: None,
            second: None,
            rows: 0,
        }
    }

    /// Takes a row in, or a batch of it.
    fn take(&mut self, row: &[Cell]) -> Result<()> {
        self.rows += 1;
        if self.function == Function::RowNum {
            return Ok(());
        }
        let mut of_row = None;
        for cell in row {
            let value = self.interpreter.value(cell)?;
            match self.function {
                Function::Max => self.keep(value, Ordering::Greater),
                Function::Min => self.keep(value, Ordering::Less),
                _ => of_row = add(of_row, value),
            }
        }
        match self.function {
            Function::Sum | Function::Avg => self.main = add(self.main.take(), of_row),
            Function::Std => {
                let square = of_row.as_ref().map(Number::square);
                self.main = add(self.main.take(), of_row);
                self.second = add(self.second.take(), square);
            }
            Function::Median => {
                if self.columns.weighted {
                    self.second = add(self.second.take(), of_row.clone());
                }
                self.main = add(self.main.take(), of_row);
            }
            Function::Max | Function::Min | Function::RowNum => {}
        }
        Ok(())
    }

    /// Takes in that the last row was not known to be the last: HBase's endpoint asks once more where rows are stored behind it that
    /// show nothing, and counts what it does not get as a row with averages and standard deviations, not with counts.
    fn take_end(&mut self) {
        self.rows += i64::from(self.function != Function::RowNum);
    }

    fn keep(&mut self, value: Option<Number>, wins: Ordering) {
        if let Some(value) = value
            && self
                .main
                .as_ref()
                .is_none_or(|best| value.compare(best) == wins)
        {
            self.main = Some(value);
        }
    }

    /// The parts of the answer; empty where there was nothing to compute with, but for counts and medians.
    fn answer(self) -> pb::AggregateResponse {
        let rows = Bytes::copy_from_slice(&self.rows.to_be_bytes());
        let numbers = |numbers: [Option<Number>; 2]| -> Vec<Bytes> {
            numbers.into_iter().flatten().map(|n| n.encode()).collect()
        };
        let mut response = pb::AggregateResponse::default();
        match (self.function, self.main) {
            (Function::RowNum, _) => response.first_part = vec![rows],
            // HBase's fails in a region without values; zero adds nothing to the other regions' sums.
            (Function::Median, sum) => {
                let sum = sum.unwrap_or_else(|| self.interpreter.zero());
                let weights = self.second.unwrap_or_else(|| self.interpreter.least());
                response.first_part = numbers([Some(sum), Some(weights)]);
            }
            (_, None) => {}
            (Function::Max | Function::Min | Function::Sum, main) => {
                response.first_part = numbers([main, None]);
            }
            (Function::Avg, main) => {
                response.first_part = numbers([main, None]);
                response.second_part = Some(rows);
            }
            (Function::Std, main) => {
                response.first_part = numbers([main, self.second]);
                response.second_part = Some(rows);
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[i64]) -> Vec<Cell> {
        let text = Bytes::from_static;
        values
            .iter()
            .map(|value| {
                let value = Bytes::copy_from_slice(&value.to_be_bytes());
                Cell::put(text(b"r"), text(b"f"), text(b"q"), 1, value)
            })
            .collect()
    }

    fn answer(function: Function, weighted: bool, rows: &[&[i64]]) -> pb::AggregateResponse {
        let mut state = State::new(function, Interpreter::Long, Columns { weighted });
        for values in rows {
            state.take(&row(values)).unwrap();
        }
        state.answer()
    }

    fn long(number: i64) -> Bytes {
        Number::Long(number).encode()
    }

    #[test]
    fn every_function() {
        let rows: &[&[i64]] = &[&[3], &[-1, 5], &[2]];
        let of = |function| answer(function, false, rows);
        assert_eq!(of(Function::Max).first_part, [long(5)]);
        assert_eq!(of(Function::Min).first_part, [long(-1)]);
        assert_eq!(of(Function::Sum).first_part, [long(9)]);
        let three = Some(Bytes::copy_from_slice(&3_i64.to_be_bytes()));
        assert_eq!(of(Function::RowNum).first_part[0], three.clone().unwrap());
        let avg = of(Function::Avg);
        assert_eq!(
            (avg.first_part, avg.second_part),
            (vec![long(9)], three.clone())
        );
        let std = of(Function::Std);
        assert_eq!(std.first_part, [long(9), long(9 + 16 + 4)]);
        assert_eq!(std.second_part, three);
        assert_eq!(of(Function::Median).first_part, [long(9), long(i64::MIN)]);
        let weighted = answer(Function::Median, true, rows);
        assert_eq!(weighted.first_part, [long(9), long(9)]);
    }

    #[test]
    fn the_end_that_was_not_foreseen_counts_as_a_row_of_nothing() {
        for function in [Function::Avg, Function::Std] {
            let mut state = State::new(function, Interpreter::Long, Columns { weighted: false });
            state.take(&row(&[3])).unwrap();
            state.take_end();
            let two = Bytes::copy_from_slice(&2_i64.to_be_bytes());
            let answer = state.answer();
            assert_eq!(answer.first_part[0], long(3));
            assert_eq!(answer.second_part, Some(two), "{function:?}");
        }
        let mut count = State::new(
            Function::RowNum,
            Interpreter::Long,
            Columns { weighted: false },
        );
        count.take(&row(&[3])).unwrap();
        count.take_end();
        assert_eq!(&count.answer().first_part[0][..], 1_i64.to_be_bytes());
    }

    #[test]
    fn a_region_without_values() {
        for function in [
            Function::Max,
            Function::Min,
            Function::Sum,
            Function::Avg,
            Function::Std,
        ] {
            assert_eq!(
                answer(function, false, &[]),
                pb::AggregateResponse::default(),
                "{function:?}"
            );
        }
        let count = answer(Function::RowNum, false, &[]);
        assert_eq!(&count.first_part[0][..], [0; 8]);
        let median = answer(Function::Median, false, &[]);
        assert_eq!(median.first_part, [long(0), long(i64::MIN)]);
    }

    #[test]
    fn a_count_leaves_the_first_qualifier_out() {
        let mut scan = convert::scan(&pb::Scan::default()).unwrap();
        let f = Bytes::from_static(b"f");
        let these = |names: &[&'static str]| {
            Qualifiers::These(
                names
                    .iter()
                    .map(|n| Bytes::from_static(n.as_bytes()))
                    .collect(),
            )
        };
        scan.query.columns.insert(f.clone(), these(&["a", "b"]));
        leave_out_first_qualifier(&mut scan);
        assert_eq!(scan.query.columns[&f], these(&["b"]));
        leave_out_first_qualifier(&mut scan);
        assert_eq!(scan.query.columns[&f], Qualifiers::All);
    }

    #[test]
    fn the_row_behind_a_row() {
        assert_eq!(&row_after(b"a")[..], b"a\0");
    }
}
