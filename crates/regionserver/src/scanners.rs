//! Open scanners, their leases, and the walk that fills one answer (hbase-protocol.md 4.6).
//!
//! A scanner is taken out of the table while a call runs on it, so that a second call at the same time is refused and a lease never
//! runs out under a call.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_store::{Scanner, Step};
use cadastre_types::{Cell, Code, EncodedName, Error, Result, Scan, limits};

use crate::filter::{Filtered, Start};
use crate::read::{self, RowFilter};
use crate::regions::Hosted;

/// Scanners one server holds at most (INV-9); each keeps a snapshot of its region.
const SCANNERS_MAX: usize = 100_000;

/// Scanners that ended by themselves, or with their regions, and whose ids are still known, so that a late close is answered kindly.
const CLOSED_REMEMBERED: usize = 1_000;

/// One open scanner.
pub(crate) struct OpenScanner<E: Env> {
    pub(crate) hosted: Arc<Hosted<E>>,
    /// Monotone clock when it was opened: it ends [`limits::SCANNER_AGE_MAX_MS`] later.
    opened: Duration,
    pub(crate) scan: Scan,
    scanner: Scanner<E>,
    filter: Option<RowFilter>,
    /// The filter said that nothing more will pass, in other regions neither.
    filtered_out: bool,
    /// The next row, or what is left of it, if it has been read already.
    ahead: Option<Row>,
    /// No row is left but `ahead`.
    exhausted: bool,
    /// Expected in the next call's `next_call_seq`.
    pub(crate) next_call_seq: u64,
    pub(crate) read_point: u64,
}

struct Row {
    cells: Vec<Cell>,
    /// Cells of it that were sent already.
    sent: usize,
}

/// What one call may take.
pub(crate) struct Budget {
    /// Results.
    pub(crate) results: u32,
    /// Whole rows, if limited.
    pub(crate) rows: Option<u32>,
    /// Bytes of cells.
    pub(crate) bytes: usize,
    /// A row may be cut at the byte budget.
    pub(crate) partials: bool,
    /// When to answer with what there is (monotone clock), if heartbeats are allowed.
    pub(crate) until: Option<Duration>,
    /// Do not look whether another row follows: nobody will ask.
    pub(crate) no_look_ahead: bool,
}

/// One result.
pub(crate) struct Part {
    pub(crate) cells: Vec<Cell>,
    /// More cells of the same row follow.
    pub(crate) partial: bool,
}

/// What one call came to.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) parts: Vec<Part>,
    /// Whole rows among them (the last part of a row counts it).
    pub(crate) rows: u32,
    /// More rows may follow in this region.
    pub(crate) more_in_region: bool,
    /// The time was up.
    pub(crate) heartbeat: bool,
    /// The filter ended the whole scan.
    pub(crate) scan_over: bool,
    /// Rows read from the store by this call.
    pub(crate) scanned: u64,
    /// Rows of them that the filter dropped.
    pub(crate) filtered: u64,
    /// Row reached, for a cursor.
    pub(crate) cursor: Option<Bytes>,
}

impl<E: Env> OpenScanner<E> {
    pub(crate) fn new(
        hosted: Arc<Hosted<E>>,
        scan: Scan,
        scanner: Scanner<E>,
        filter: Option<RowFilter>,
        read_point: u64,
        opened: Duration,
    ) -> Self {
        Self {
            hosted,
            opened,
            scan,
            scanner,
            filter,
            filtered_out: false,
            ahead: None,
            exhausted: false,
            next_call_seq: 0,
            read_point,
        }
    }

    /// When it ends however often it is called (monotone clock).
    fn ends(&self) -> Duration {
        self.opened + Duration::from_millis(limits::SCANNER_AGE_MAX_MS)
    }

    /// For a caller that wants few rows. Before the first is read.
    pub(crate) fn read_no_further(&mut self) {
        self.scanner.read_no_further();
    }

    /// Reads rows until the budget is used up, the region ends or the time is up.
    pub(crate) async fn next(&mut self, env: &E, budget: &Budget) -> Result<Answer> {
        let mut answer = Answer::default();
        let mut bytes = 0;
        // A row counts as scanned by the call that gives it out, not by the one that has looked ahead.
        answer.scanned += u64::from(self.has_row_untouched());
        loop {
            let full = answer.parts.len() as u64 >= u64::from(budget.results)
                || budget.rows.is_some_and(|rows| answer.rows >= rows)
                || bytes >= budget.bytes;
            if full && (budget.no_look_ahead || self.ahead.is_some()) {
                answer.more_in_region = self.ahead.is_some() || !self.exhausted;
                break;
            }
            if self.ahead.is_none() && !self.read_ahead(env, budget, &mut answer).await? {
                answer.heartbeat = !self.exhausted;
                answer.more_in_region = answer.heartbeat;
                break;
            }
            if full {
                answer.more_in_region = true;
                break;
            }
            bytes += self.take_part(budget, bytes, &mut answer);
            if self.is_late(env, budget) {
                answer.heartbeat = self.ahead.is_some() || !self.exhausted;
                answer.more_in_region = answer.heartbeat;
                break;
            }
        }
        answer.scanned -= u64::from(self.has_row_untouched());
        answer.scan_over = self.filtered_out && answer.parts.is_empty();
        Ok(answer)
    }

    /// Whether a row was read of which nothing was given out.
    fn has_row_untouched(&self) -> bool {
        self.ahead.as_ref().is_some_and(|row| row.sent == 0)
    }

    fn is_late(&self, env: &E, budget: &Budget) -> bool {
        budget
            .until
            .is_some_and(|until| env.clock().mono() >= until)
    }

    /// Reads the next row into `ahead`; false at the end, or when the time is up.
    async fn read_ahead(&mut self, env: &E, budget: &Budget, answer: &mut Answer) -> Result<bool> {
        while !self.exhausted {
            if self.is_late(env, budget) {
                // A filter may reject for very long: the client must hear from us in time.
                return Ok(false);
            }
            let passed = match self.read_row().await? {
                Some(passed) => passed,
                None if self.exhausted => break,
                // A row of which nothing is to be seen.
                None => continue,
            };
            answer.scanned += 1;
            let cells = match passed {
                Filtered::Row(cells) => cells,
                Filtered::Nothing => {
                    answer.filtered += 1;
                    continue;
                }
                Filtered::End => {
                    self.filtered_out = true;
                    self.exhausted = true;
                    break;
                }
            };
            let cells =
                read::limit_per_family(cells, self.scan.store_limit, self.scan.store_offset);
            if !cells.is_empty() {
                self.ahead = Some(Row { cells, sent: 0 });
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What passes of the next stored row; `None` if it has nothing to show, and at the end.
    async fn read_row(&mut self) -> Result<Option<Filtered>> {
        let Some(filter) = &mut self.filter else {
            let row = self.scanner.next_row().await?;
            self.exhausted |= row.is_none();
            return Ok(row.map(Filtered::Row));
        };
        let mut start = Start::Pass;
        let mut choose = |row: &Bytes| {
            let (choice, said) = filter.choose(row);
            start = said;
            choice
        };
        let step = self.scanner.next_step(&mut choose).await?;
        Ok(match (step, start) {
            (Step::End, _) => {
                self.exhausted = true;
                None
            }
            (_, Start::End) => Some(Filtered::End),
            (Step::Row(cells), _) => Some(filter.rest(cells)),
            (Step::Passed, _) => Some(Filtered::Nothing),
            (Step::Empty, _) => None,
        })
    }

    /// Moves the next result from `ahead` to the answer; the bytes it takes.
    fn take_part(&mut self, budget: &Budget, used: usize, answer: &mut Answer) -> usize {
        let row = self.ahead.as_mut().expect("the caller has read ahead");
        let left = &row.cells[row.sent..];
        let mut count = match self.scan.batch {
            0 => left.len(),
            batch => left.len().min(batch as usize),
        };
        let mut bytes = 0;
        for (at, cell) in left[..count].iter().enumerate() {
            if budget.partials && at > 0 && used + bytes >= budget.bytes {
                count = at;
                break;
            }
            bytes += cell.key_value_len();
        }
        let partial = count < left.len();
        answer.cursor = Some(left[0].row.clone());
        let cells = if row.sent == 0 && !partial {
            std::mem::take(&mut row.cells)
        } else {
            left[..count].to_vec()
        };
        row.sent += count;
        if !partial {
            answer.rows += 1;
            self.ahead = None;
        }
        answer.parts.push(Part { cells, partial });
        bytes
    }
}

enum Slot<E: Env> {
    /// At rest, until the monotone clock shows this.
    Idle(Box<OpenScanner<E>>, Duration),
    /// A call is running on it.
    Busy,
}

/// The table of scanners.
pub(crate) struct Scanners<E: Env> {
    inner: Mutex<Inner<E>>,
    /// Upper half of every id: a scanner of another server, or of this one before a restart, is unknown here.
    prefix: u64,
}

struct Inner<E: Env> {
    slots: BTreeMap<u64, Slot<E>>,
    closed: VecDeque<(u64, u64)>,
    /// Scanners whose regions have gone from here.
    orphaned: VecDeque<u64>,
    next: u32,
}

/// In HBase's words.
fn unknown(id: u64) -> Error {
    Error::new(
        Code::UnknownScanner,
        format!(
            "Unknown scanner '{id}'. This can happen due to any of the following reasons: a) Scanner id given is wrong, b) Scanner lease expired because of long wait between consecutive client checkins, c) Server may be closing down, d) RegionServer restart during upgrade."
        ),
    )
}

/// What a call on a scanner's id finds.
pub(crate) enum Taken<E: Env> {
    Open(Box<OpenScanner<E>>),
    /// It ended by itself not long ago; the sequence number it expected.
    Ended(u64),
}

impl<E: Env> Scanners<E> {
    pub(crate) fn new(prefix: u32) -> Self {
        let inner = Inner {
            slots: BTreeMap::new(),
            closed: VecDeque::new(),
            orphaned: VecDeque::new(),
            next: 1,
        };
        Self {
            inner: Mutex::new(inner),
            prefix: u64::from(prefix) << 32,
        }
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner<E>> {
        self.inner.lock().expect("not poisoned")
    }

    /// A new id, whose scanner counts as busy until it is put back.
    ///
    /// # Errors
    /// `CallQueueTooBig` at the limit.
    pub(crate) fn reserve(&self) -> Result<u64> {
        let mut inner = self.inner();
        if inner.slots.len() >= SCANNERS_MAX {
            return Err(Error::new(
                Code::CallQueueTooBig,
                format!("this server has {SCANNERS_MAX} open scanners, its limit"),
            ));
        }
        let id = self.prefix | u64::from(inner.next);
        inner.next = inner.next.wrapping_add(1);
        inner.slots.insert(id, Slot::Busy);
        Ok(id)
    }

    /// Takes a scanner out for a call.
    ///
    /// # Errors
    /// `UnknownScanner`, for one that is too old too; `NotServingRegion` if its region has been closed since; `LeaseException` while
    /// another call runs on it.
    pub(crate) fn take(&self, id: u64, now: Duration) -> Result<Taken<E>> {
        let mut inner = self.inner();
        if matches!(inner.slots.get(&id), Some(Slot::Idle(scanner, _)) if scanner.ends() <= now) {
            let ended = inner.slots.remove(&id);
            // Dropped outside the lock: a scanner's end releases its snapshot.
            drop(inner);
            drop(ended);
            metrics::counter!("cadastre_scanners_ended_by_age_total").increment(1);
            return Err(unknown(id));
        }
        if !inner.slots.contains_key(&id) && inner.orphaned.contains(&id) {
            return Err(Error::new(
                Code::NotServingRegion,
                format!("the region of the scanner '{id}' is not served here any more"),
            ));
        }
        match inner.slots.get_mut(&id) {
            Some(slot @ Slot::Idle(..)) => match std::mem::replace(slot, Slot::Busy) {
                Slot::Idle(scanner, _) => Ok(Taken::Open(scanner)),
                Slot::Busy => unreachable!("matched above"),
            },
            Some(Slot::Busy) => Err(Error::new(
                Code::LeaseException,
                format!("lease '{id}' does not exist"),
            )),
            None => match inner.closed.iter().find(|(closed, _)| *closed == id) {
                Some((_, seq)) => Ok(Taken::Ended(*seq)),
                None => Err(unknown(id)),
            },
        }
    }

    /// Puts a scanner back with a new lease, which does not make it older than a scanner may be.
    pub(crate) fn put(&self, id: u64, scanner: Box<OpenScanner<E>>, now: Duration) {
        let until = (now + Duration::from_millis(limits::SCANNER_LEASE_MS)).min(scanner.ends());
        self.inner().slots.insert(id, Slot::Idle(scanner, until));
    }

    /// Forgets a scanner; one that ended by itself is remembered for a while with the sequence number it expected.
    pub(crate) fn remove(&self, id: u64, ended: Option<u64>) {
        let mut inner = self.inner();
        inner.slots.remove(&id);
        if let Some(seq) = ended {
            if inner.closed.len() >= CLOSED_REMEMBERED {
                inner.closed.pop_front();
            }
            inner.closed.push_back((id, seq));
        }
    }

    /// Drops scanners whose lease has run out, or which are too old.
    pub(crate) fn expire(&self, now: Duration) {
        let expired: Vec<Slot<E>> = {
            let mut inner = self.inner();
            let ids: Vec<u64> = inner
                .slots
                .iter()
                .filter(|(_, slot)| matches!(slot, Slot::Idle(_, until) if *until <= now))
                .map(|(id, _)| *id)
                .collect();
            ids.iter().filter_map(|id| inner.slots.remove(id)).collect()
        };
        // Dropped outside the lock: a scanner's end releases its snapshot.
        drop(expired);
    }

    /// Drops the idle scanners of a region that closes.
    pub(crate) fn drop_region(&self, name: &EncodedName) {
        let dropped: Vec<Slot<E>> = {
            let mut inner = self.inner();
            let ids: Vec<u64> = inner
                .slots
                .iter()
                .filter(|(_, slot)| {
                    matches!(slot, Slot::Idle(scanner, _) if scanner.hosted.region.info().encoded_name() == *name)
                })
                .map(|(id, _)| *id)
                .collect();
            inner.orphaned.extend(&ids);
            let over = inner.orphaned.len().saturating_sub(CLOSED_REMEMBERED);
            inner.orphaned.drain(..over);
            ids.iter().filter_map(|id| inner.slots.remove(id)).collect()
        };
        drop(dropped);
    }
}

#[cfg(test)]
mod tests;
