//! Reading a range of rows: one scanner per region, one region after the other, rows whole and in order (INV-6).
//!
//! 1. Open on the region that [`Progress`] names; the answer brings the first rows.
//! 2. `next` with rising `next_call_seq` until the region has no more; then the neighbour.
//! 3. When a scanner breaks (unknown, reset, region gone, connection lost) a new one opens behind the last whole row.
//!
//! While the caller takes rows of one answer a task asks for the next one: one try, and at most two answers are held. What it fails with
//! counts as the first failure of the tries that begin when the caller waits. It is a task, since whatever waits in the client (for a
//! turn to look up, for a place on a connection) must go on when its turn comes, even if this caller does not look.
//!
//! The scanner of an answered last row is closed by the server; one that is given up early is closed by [`Scanner::close`], or
//! ends with its lease.

mod progress;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, Task};
use cadastre_types::{Code, EncodedFilter, Error, RegionInfo, Result, Scan, TableName, limits};
use futures::Stream;
use tokio::sync::oneshot;

pub(crate) use self::progress::Piece;
use self::progress::{Progress, Start};
use crate::Client;
use crate::call::{Attempts, RegionRequest, Target};
use crate::locate::Location;
use crate::requests::{self, ScanAnswer};
use crate::row::Row;

/// Rows asked for in one call if the scan does not say (`hbase.client.scanner.caching`): all that fit the answer's bytes.
const ROWS_PER_CALL_DEFAULT: u32 = i32::MAX as u32;

/// A scan of everything, ascending.
pub fn new_scan() -> Scan {
    Scan::whole()
}

/// HBase's filter that lets only the first cell of each row through: what counting rows needs.
pub fn first_key_only_filter() -> EncodedFilter {
    EncodedFilter {
        class: "org.apache.hadoop.hbase.filter.FirstKeyOnlyFilter".to_owned(),
        body: Bytes::new(),
    }
}

/// A scan that goes on. Rows come with [`Scanner::next`] or as a stream.
pub struct Scanner<E: Env> {
    client: Client<E>,
    ready: VecDeque<Row>,
    state: State<E>,
    prefetch: bool,
}

enum State<E: Env> {
    /// Nobody reads, but for the caller.
    Idle(Box<Reader<E>>),
    /// The next answer was asked for before its rows were wanted.
    Ahead(Ahead<E>),
    /// The task ended without an answer: the process ends.
    Gone,
}

/// A reader that comes back with what it got.
type Returned<E> = (Box<Reader<E>>, Result<Vec<Row>>);

/// A try for the next answer.
struct Ahead<E: Env> {
    answer: oneshot::Receiver<Returned<E>>,
    task: Task,
}

impl<E: Env> Drop for Ahead<E> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The part of a scan that talks to servers.
struct Reader<E: Env> {
    client: Client<E>,
    table: TableName,
    scan: Scan,
    progress: Progress,
    open: Option<OpenScanner>,
    /// The scanner that broke last, for going on inside a row.
    broken: Option<OpenScanner>,
    /// A call is on its way; still so at the next one, it was given up half way, and what it brought is lost.
    is_calling: bool,
}

struct OpenScanner {
    location: Arc<Location>,
    id: u64,
    /// Of the next call; the open is not counted.
    next_call_seq: u64,
    read_point: u64,
}

/// Opens a scanner on one region.
struct OpenRequest<'a> {
    scan: &'a Scan,
    start: &'a Start,
    /// Region and read point of a scanner that broke inside a row.
    resume: Option<(&'a RegionInfo, u64)>,
    rows: u32,
    limit: Option<u64>,
}

impl RegionRequest for OpenRequest<'_> {
    type Answer = ScanAnswer;

    fn method(&self) -> &'static str {
        "Scan"
    }

    fn encode(&self, region: &RegionInfo) -> Result<(Bytes, Bytes)> {
        // A read point is one region's; after a split the row is read at a new one.
        let read_point = self
            .resume
            .filter(|(broken, _)| *broken == region)
            .map_or(0, |(_, read_point)| read_point);
        let scan = Scan {
            start_row: self.start.row.clone(),
            include_start_row: self.start.include,
            mvcc_read_point: read_point,
            ..self.scan.clone()
        };
        let param = requests::open_scanner(region, &scan, self.rows, self.limit, false);
        Ok((param, Bytes::new()))
    }

    fn decode(&self, body: Bytes, cells: Bytes) -> Result<ScanAnswer> {
        requests::scan_answer(body, cells)
    }
}

impl<E: Env> Client<E> {
    /// Scans a table. Nothing is asked before the first row is.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`] for row keys that cannot be.
    pub fn scan(&self, table: &TableName, scan: Scan) -> Result<Scanner<E>> {
        self.scan_limited(table, scan, None)
    }

    /// The same, ending after this many rows.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`] for row keys that cannot be.
    pub fn scan_limited(
        &self,
        table: &TableName,
        mut scan: Scan,
        limit: Option<u64>,
    ) -> Result<Scanner<E>> {
        if scan.start_row.len() > limits::ROW_MAX || scan.stop_row.len() > limits::ROW_MAX {
            return Err(Error::invalid(format!(
                "a row of a scan is longer than {}",
                limits::ROW_MAX
            )));
        }
        if scan.max_result_size == 0 {
            scan.max_result_size = self.shared.config.scan_result_bytes;
        }
        let reader = Reader {
            client: self.clone(),
            table: table.clone(),
            progress: Progress::new(&scan, limit),
            scan,
            open: None,
            broken: None,
            is_calling: false,
        };
        Ok(Scanner {
            client: self.clone(),
            ready: VecDeque::new(),
            state: State::Idle(Box::new(reader)),
            prefetch: self.shared.config.scan_prefetch,
        })
    }
}

impl<E: Env> Scanner<E> {
    /// The next row; `None` when there are no more. Given up half way, it loses no row.
    ///
    /// # Errors
    /// The last error, when tries or time are used up, or at once for one that is final. Going on after an error is a new attempt
    /// behind the last row.
    pub async fn next(&mut self) -> Result<Option<Row>> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Ok(Some(row));
            }
            let failed = match &mut self.state {
                State::Idle(_) => None,
                State::Ahead(ahead) => {
                    let Ok((reader, outcome)) = (&mut ahead.answer).await else {
                        self.state = State::Gone;
                        continue;
                    };
                    self.state = State::Idle(reader);
                    match outcome {
                        Ok(rows) => {
                            self.took(rows);
                            continue;
                        }
                        Err(error) => Some(error),
                    }
                }
                State::Gone => return Err(Error::new(Code::Internal, "the scan broke off")),
            };
            let State::Idle(reader) = &mut self.state else {
                continue;
            };
            if reader.progress.start().is_none() {
                return Ok(None);
            }
            let rows = reader.fetch(failed).await?;
            self.took(rows);
        }
    }

    /// Rows to be handed out; while they are, the next ones are asked for.
    fn took(&mut self, rows: Vec<Row>) {
        self.ready.extend(rows);
        if !self.prefetch || self.ready.is_empty() {
            return;
        }
        let mut reader = match std::mem::replace(&mut self.state, State::Gone) {
            State::Idle(reader) if reader.progress.start().is_some() => reader,
            other => {
                self.state = other;
                return;
            }
        };
        let (answered, answer) = oneshot::channel();
        let task = self.client.shared.env.spawn("scan-ahead", async move {
            let client = reader.client.clone();
            let outcome = reader.try_once(&Attempts::new(&client)).await;
            // If nobody waits any more the scan was dropped.
            let _ = answered.send((reader, outcome));
        });
        self.state = State::Ahead(Ahead { answer, task });
    }

    /// The rows as a stream. It ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Row>> + Send {
        futures::stream::try_unfold(self, |mut scanner| async move {
            let row = scanner.next().await?;
            Ok(row.map(|row| (row, scanner)))
        })
    }

    /// Ends the scan early and tells the server, which otherwise keeps the scanner for its lease. Failing is no loss.
    pub async fn close(self) {
        let time = Duration::from_millis(self.client.shared.config.retry.rpc_timeout_ms);
        let clock = self.client.shared.env.clock().clone();
        let mut reader = match self.state {
            State::Idle(reader) => reader,
            // Which scanner is open is known with the answer.
            State::Ahead(mut ahead) => match clock.timeout(time, &mut ahead.answer).await {
                Ok(Ok((reader, _))) => reader,
                _ => return,
            },
            State::Gone => return,
        };
        let Some(open) = reader.open.take() else {
            return;
        };
        let closed = self
            .client
            .send_to_region_server(
                &open.location,
                "Scan",
                requests::close_scanner(open.id),
                Bytes::new(),
                time,
            )
            .await;
        if let Err(error) = closed {
            tracing::debug!(%error, "a scanner is left to its lease");
        }
    }
}

impl<E: Env> Reader<E> {
    fn rows_per_call(&self) -> u32 {
        match self.scan.caching {
            0 => ROWS_PER_CALL_DEFAULT,
            caching => caching,
        }
    }

    /// Gets one more answer, whatever it takes. `failed` is what a try before has failed with.
    async fn fetch(&mut self, failed: Option<Error>) -> Result<Vec<Row>> {
        let client = self.client.clone();
        let mut attempts = Attempts::new(&client);
        let mut failed = failed;
        loop {
            if let Some(error) = failed {
                attempts.after(reopened(error)).await?;
            }
            match self.try_once(&attempts).await {
                Ok(rows) => return Ok(rows),
                Err(error) => failed = Some(error),
            }
        }
    }

    /// One try for one more answer; gives the rows that it completes.
    async fn try_once(&mut self, attempts: &Attempts<'_, E>) -> Result<Vec<Row>> {
        if std::mem::replace(&mut self.is_calling, true) {
            self.give_up_scanner();
        }
        let answered = if self.open.is_some() {
            self.next_call(attempts).await.map(Some)
        } else {
            self.open_next(attempts).await
        };
        self.is_calling = false;
        match answered {
            Ok(Some(answer)) => {
                self.broken = None;
                Ok(self.take(answer))
            }
            Ok(None) => Ok(Vec::new()),
            Err(error) => {
                self.give_up_scanner();
                Err(error)
            }
        }
    }

    /// The next scanner opens behind the last row that was handed out.
    fn give_up_scanner(&mut self) {
        if let Some(open) = self.open.take() {
            self.progress.interrupted();
            self.broken = Some(open);
        }
    }

    async fn next_call(&mut self, attempts: &Attempts<'_, E>) -> Result<ScanAnswer> {
        let (rows, limit) = (self.rows_per_call(), self.progress.rows_left());
        let open = self
            .open
            .as_mut()
            .ok_or_else(|| Error::new(Code::Internal, "no scanner is open"))?;
        let param = requests::next_rows(open.id, open.next_call_seq, rows, limit);
        let timeout = attempts.timeout()?;
        let (body, cells) = self
            .client
            .send_to_region_server(&open.location, "Scan", param, Bytes::new(), timeout)
            .await?;
        open.next_call_seq += 1;
        requests::scan_answer(body, cells)
    }

    async fn open_next(&mut self, attempts: &Attempts<'_, E>) -> Result<Option<ScanAnswer>> {
        let Some(start) = self.progress.start() else {
            return Ok(None);
        };
        let target = Target {
            table: &self.table,
            row: &start.row,
            position: start.position,
            replica: 0,
        };
        let location = attempts.locate(target).await?;
        let resume = self
            .broken
            .as_ref()
            .filter(|_| self.progress.is_inside_row())
            .map(|open| (&*open.location.region, open.read_point));
        let request = OpenRequest {
            scan: &self.scan,
            start: &start,
            resume,
            rows: self.rows_per_call(),
            limit: self.progress.rows_left(),
        };
        let timeout = attempts.timeout()?;
        let answer = self
            .client
            .call_located(&location, &request, timeout)
            .await?;
        self.open = Some(OpenScanner {
            id: answer
                .scanner_id
                .ok_or_else(|| Error::corrupt("a scanner without an id"))?,
            location,
            next_call_seq: 0,
            read_point: answer.read_point,
        });
        Ok(Some(answer))
    }

    fn take(&mut self, answer: ScanAnswer) -> Vec<Row> {
        let nothing_came = answer.pieces.is_empty();
        let mut rows = self.progress.take(answer.pieces);
        let region_is_done = match answer.more_results_in_region {
            Some(more) => !more,
            // Old servers do not say; an empty answer that is no heartbeat is then the end of the region.
            None => nothing_came && !answer.heartbeat,
        };
        let open = self.open.take();
        if !answer.more_results {
            rows.extend(self.progress.end());
        } else if region_is_done {
            if let Some(open) = open {
                rows.extend(self.progress.leave_region(&open.location.region));
            }
        } else if self.progress.start().is_some() {
            self.open = open;
        }
        rows
    }
}

/// What a broken scanner's error means for the tries: a new scanner may well succeed.
fn reopened(error: Error) -> Error {
    match error.code() {
        Code::UnknownScanner
        | Code::ScannerReset
        | Code::OutOfOrderScannerNext
        | Code::LeaseException => {
            Error::new(Code::NotServingRegion, format!("scanner lost: {error}"))
        }
        _ => error,
    }
}
