//! Open scanners, their leases, and the walk that fills one answer (hbase-protocol.md 4.6).
//!
//! A scanner is taken out of the table while a call runs on it, so that a second call at the same time is refused and a lease never
//! runs out under a call.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_store::{Choice, ReadPoint, Scanner, Step};
use cadastre_types::{Cell, Code, EncodedName, Error, Result, Scan, limits};

use crate::filter::{Filtered, PerFamily, Start};
use crate::read::RowFilter;
use crate::regions::Hosted;

/// Scanners one server holds at most (INV-9); each keeps a snapshot of its region.
const SCANNERS_MAX: usize = 100_000;

/// Scanners that ended by themselves, or with their regions, and whose ids are still known, so that a late close is answered kindly.
const CLOSED_REMEMBERED: usize = 1_000;

/// Read points that are kept for clients inside a row (INV-9); each holds back the old versions of its region. The oldest goes first.
const KEPT_MAX: usize = 1_000;

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
    /// The row that the filter wants next: HBase seeks there, and does not count the rows before it.
    heading_for: Option<Bytes>,
    /// The next row, or what is left of it, if it has been read already.
    ahead: Option<Row>,
    /// No row is left but `ahead`.
    exhausted: bool,
    /// Stored rows were stepped over behind the last one that gave something out.
    hidden_behind: bool,
    /// The last call began inside a row: a client that did not get its answer is there still.
    began_inside: bool,
    /// Expected in the next call's `next_call_seq`.
    pub(crate) next_call_seq: u64,
    pub(crate) read_point: u64,
}

struct Row {
    cells: Vec<Cell>,
    /// Cells of it that were sent already.
    sent: usize,
    /// Bytes that were read for it and for the rows before it that gave nothing out, and that no result has told yet.
    bytes_read: u64,
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
    /// Bytes of stored keys and values that were read for it.
    pub(crate) bytes_read: u64,
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
    /// Bytes of stored keys and values that this call read, of rows that the filter dropped, too.
    pub(crate) bytes_read: u64,
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
            heading_for: None,
            ahead: None,
            exhausted: false,
            hidden_behind: false,
            began_inside: false,
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
        let read_before = self.scanner.bytes_read();
        self.began_inside = self.is_half_sent();
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
        answer.bytes_read = self.scanner.bytes_read() - read_before;
        answer.scan_over = self.filtered_out && answer.parts.is_empty();
        Ok(answer)
    }

    /// Whether a row was read of which nothing was given out.
    fn has_row_untouched(&self) -> bool {
        self.ahead.as_ref().is_some_and(|row| row.sent == 0)
    }

    /// Whether a row was given out in part.
    fn is_half_sent(&self) -> bool {
        self.ahead.as_ref().is_some_and(|row| row.sent > 0)
    }

    /// The moment at which its client may have to go on inside a row, unless it was held long enough already.
    fn inside_row(&self, now: Duration) -> Option<Moment<E>> {
        let inside = self.began_inside || self.is_half_sent();
        let is_held = inside && !self.hosted.region.is_closed() && now < self.ends();
        is_held.then(|| Moment {
            at: self.scanner.read_point().clone(),
            opened: self.opened,
        })
    }

    /// Whether the region, once all of it was read, has stored rows behind the last one that gave something out.
    pub(crate) fn has_hidden_behind(&self) -> bool {
        self.hidden_behind
    }

    fn is_late(&self, env: &E, budget: &Budget) -> bool {
        budget
            .until
            .is_some_and(|until| env.clock().mono() >= until)
    }

    /// Reads the next row into `ahead`; false at the end, or when the time is up.
    async fn read_ahead(&mut self, env: &E, budget: &Budget, answer: &mut Answer) -> Result<bool> {
        let read_before = self.scanner.bytes_read();
        let mut again = false;
        while !self.exhausted {
            if self.filter.as_ref().is_some_and(RowFilter::is_over) {
                self.filtered_out = true;
                self.exhausted = true;
                break;
            }
            // A filter may reject for very long: the client must hear from us in time.
            if again && self.is_late(env, budget) {
                return Ok(false);
            }
            again = true;
            let passed = match self.read_row().await? {
                Some(passed) => passed,
                None if self.exhausted => break,
                // A row of which nothing is to be seen.
                None => continue,
            };
            let cells = match passed {
                Filtered::Row(cells) => cells,
                Filtered::Nothing => {
                    answer.scanned += 1;
                    answer.filtered += 1;
                    continue;
                }
                Filtered::End => {
                    let filter = self.filter.as_ref();
                    answer.scanned += u64::from(filter.is_some_and(RowFilter::reads_its_last_row));
                    answer.filtered += 1;
                    self.filtered_out = true;
                    self.exhausted = true;
                    break;
                }
            };
            answer.scanned += 1;
            if !cells.is_empty() {
                self.hidden_behind = false;
                self.ahead = Some(Row {
                    cells,
                    sent: 0,
                    bytes_read: self.scanner.bytes_read() - read_before,
                });
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What passes of the next stored row; `None` if it has nothing to show, and at the end. Not to be called of a filter that is over: HBase
    /// would not see that row.
    async fn read_row(&mut self) -> Result<Option<Filtered>> {
        let Some(filter) = &mut self.filter else {
            let all = PerFamily {
                limit: self.scan.store_limit,
                offset: self.scan.store_offset,
            };
            let step = self.scanner.next_step(&mut |_| Choice::Read).await?;
            self.exhausted |= matches!(step, Step::End);
            self.hidden_behind |= !matches!(step, Step::Empty | Step::End);
            return Ok(match step {
                Step::Row(cells) => Some(Filtered::Row(all.keep(cells))),
                Step::Hidden | Step::Empty | Step::Passed | Step::End => None,
            });
        };
        let mut start = Start::Pass;
        let mut wanted_next = None;
        let mut choose = |row: &Bytes| {
            let (choice, said) = filter.choose(row);
            start = said;
            if let Choice::PassUntil(next) = &choice {
                wanted_next = Some(next.clone());
            }
            choice
        };
        let step = self.scanner.next_step(&mut choose).await?;
        let on_the_way = wanted_next.is_some() && wanted_next == self.heading_for;
        self.heading_for = wanted_next;
        self.hidden_behind |= !matches!(step, Step::Empty | Step::End);
        Ok(match (step, start) {
            (Step::End, _) => {
                self.exhausted = true;
                None
            }
            (_, Start::End) => Some(Filtered::End),
            (Step::Row(cells), _) => Some(filter.rest(cells)),
            (Step::Passed, _) if on_the_way => None,
            (Step::Passed, _) => Some(Filtered::Nothing),
            (Step::Hidden | Step::Empty, _) => None,
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
        let bytes_read = std::mem::take(&mut row.bytes_read);
        if !partial {
            answer.rows += 1;
            self.ahead = None;
        }
        answer.parts.push(Part {
            cells,
            partial,
            bytes_read,
        });
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

/// A moment of a region that is held for scanners.
#[derive(Clone)]
pub(crate) struct Moment<E: Env> {
    pub(crate) at: ReadPoint<E>,
    /// When the first scanner was opened at it (monotone clock): the age of all.
    pub(crate) opened: Duration,
}

/// A region's name, and the sequence number of a moment of it.
type MomentName = (EncodedName, u64);

struct Inner<E: Env> {
    slots: BTreeMap<u64, Slot<E>>,
    /// Read points of scanners that have gone and whose clients may be inside a row, each until the monotone clock shows a time.
    kept: BTreeMap<MomentName, (Moment<E>, Duration)>,
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

impl<E: Env> Inner<E> {
    /// Keeps the read point of a scanner whose client may be inside a row; what had to go for it.
    fn keep(&mut self, scanner: &OpenScanner<E>, now: Duration) -> Option<(Moment<E>, Duration)> {
        let moment = scanner.inside_row(now)?;
        let name = (
            scanner.hosted.region.info().encoded_name(),
            moment.at.sequence(),
        );
        let mut gone = None;
        if self.kept.len() >= KEPT_MAX && !self.kept.contains_key(&name) {
            let oldest = self.kept.iter().min_by_key(|(_, (_, until))| *until);
            let oldest = oldest.map(|(name, _)| name.clone());
            gone = oldest.and_then(|name| self.kept.remove(&name));
        }
        let lease = Duration::from_millis(limits::SCANNER_LEASE_MS);
        let until = (now + lease).min(scanner.ends());
        self.kept.insert(name, (moment, until)).or(gone)
    }
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
            kept: BTreeMap::new(),
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

    /// Forgets a scanner that is at hand, as [`Self::remove`] does. If its client may be inside a row its read point is kept for one
    /// more lease: the next scanner goes on in that row, and what it adds must be of the same moment (INV-6).
    pub(crate) fn retire(
        &self,
        id: u64,
        scanner: &OpenScanner<E>,
        ended: Option<u64>,
        now: Duration,
    ) {
        self.remove(id, ended);
        // Dropped outside the lock: a snapshot may be released.
        let _replaced = self.inner().keep(scanner, now);
    }

    /// The read point that a scanner of this region had, while it is kept.
    pub(crate) fn kept(&self, name: &EncodedName, sequence: u64) -> Option<Moment<E>> {
        let inner = self.inner();
        let (moment, _) = inner.kept.get(&(name.clone(), sequence))?;
        Some(moment.clone())
    }

    /// Drops scanners whose lease has run out, or which are too old, and read points that were kept long enough.
    pub(crate) fn expire(&self, now: Duration) {
        let mut released = Vec::new();
        let expired: Vec<Slot<E>> = {
            let mut inner = self.inner();
            let over: Vec<MomentName> = inner
                .kept
                .iter()
                .filter(|(_, (_, until))| *until <= now)
                .map(|(name, _)| name.clone())
                .collect();
            released.extend(over.iter().filter_map(|name| inner.kept.remove(name)));
            let ids: Vec<u64> = inner
                .slots
                .iter()
                .filter(|(_, slot)| matches!(slot, Slot::Idle(_, until) if *until <= now))
                .map(|(id, _)| *id)
                .collect();
            let slots: Vec<Slot<E>> = ids.iter().filter_map(|id| inner.slots.remove(id)).collect();
            for slot in &slots {
                if let Slot::Idle(scanner, _) = slot {
                    released.extend(inner.keep(scanner, now));
                }
            }
            slots
        };
        // Dropped outside the lock: a scanner's end releases its snapshot.
        drop((expired, released));
    }

    /// Drops the idle scanners of a region that closes.
    pub(crate) fn drop_region(&self, name: &EncodedName) {
        let mut released = Vec::new();
        let dropped: Vec<Slot<E>> = {
            let mut inner = self.inner();
            let of_region: Vec<MomentName> = inner
                .kept
                .keys()
                .filter(|(region, _)| region == name)
                .cloned()
                .collect();
            released.extend(of_region.iter().filter_map(|name| inner.kept.remove(name)));
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
        drop((dropped, released));
    }
}

#[cfg(test)]
mod tests;
