//! Reading a range of rows: one scanner per region, one region after the other, rows whole and in order (INV-6).
//!
//! 1. Open on the region that [`Progress`] names; the answer brings the first rows.
//! 2. `next` with rising `next_call_seq` until the region has no more; then the neighbour.
//! 3. When a scanner breaks (unknown, reset, region gone, connection lost) a new one opens behind the last whole row.
//!
//! The scanner of an answered last row is closed by the server; one that is given up early is closed by [`Scanner::close`], or
//! ends with its lease.

mod progress;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{
    Code, EncodedFilter, Error, Query, RegionInfo, Result, Scan, TableName, limits,
};
use futures::Stream;

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
    Scan {
        start_row: Bytes::new(),
        include_start_row: true,
        stop_row: Bytes::new(),
        include_stop_row: false,
        reversed: false,
        query: Query::default(),
        filter: None,
        batch: 0,
        max_result_size: 0,
        store_limit: None,
        store_offset: 0,
        need_cursor_result: false,
        mvcc_read_point: 0,
        caching: 0,
    }
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
    table: TableName,
    scan: Scan,
    progress: Progress,
    open: Option<OpenScanner>,
    ready: VecDeque<Row>,
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
        Ok(Scanner {
            client: self.clone(),
            table: table.clone(),
            progress: Progress::new(&scan, limit),
            scan,
            open: None,
            ready: VecDeque::new(),
        })
    }
}

impl<E: Env> Scanner<E> {
    /// The next row; `None` when there are no more.
    ///
    /// # Errors
    /// The last error, when tries or time are used up, or at once for one that is final.
    pub async fn next(&mut self) -> Result<Option<Row>> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Ok(Some(row));
            }
            if self.progress.start().is_none() {
                return Ok(None);
            }
            self.fetch().await?;
        }
    }

    /// The rows as a stream. It ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Row>> + Send {
        futures::stream::try_unfold(self, |mut scanner| async move {
            let row = scanner.next().await?;
            Ok(row.map(|row| (row, scanner)))
        })
    }

    /// Ends the scan early and tells the server, which otherwise keeps the scanner for its lease. Failing is no loss.
    pub async fn close(mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        if let Ok(timeout) = Attempts::new(&self.client).timeout() {
            let closed = self
                .client
                .send_to_region_server(
                    &open.location,
                    "Scan",
                    requests::close_scanner(open.id),
                    Bytes::new(),
                    timeout,
                )
                .await;
            if let Err(error) = closed {
                tracing::debug!(%error, "a scanner is left to its lease");
            }
        }
    }

    fn rows_per_call(&self) -> u32 {
        match self.scan.caching {
            0 => ROWS_PER_CALL_DEFAULT,
            caching => caching,
        }
    }

    /// Gets one more answer, whatever it takes.
    async fn fetch(&mut self) -> Result<()> {
        let client = self.client.clone();
        let mut attempts = Attempts::new(&client);
        // Of the scanner that broke, for going on inside a row.
        let mut broken: Option<OpenScanner> = None;
        loop {
            let failed = match self.open.take() {
                Some(mut open) => match self.next_call(&attempts, &mut open).await {
                    Ok(answer) => return self.take(open, answer),
                    Err(error) => {
                        self.progress.interrupted();
                        broken = Some(open);
                        error
                    }
                },
                None => match self.open_next(&attempts, broken.as_ref()).await {
                    Ok(Some((open, answer))) => return self.take(open, answer),
                    Ok(None) => return Ok(()),
                    Err(error) => error,
                },
            };
            attempts.after(reopened(failed)).await?;
        }
    }

    async fn next_call(
        &self,
        attempts: &Attempts<'_, E>,
        open: &mut OpenScanner,
    ) -> Result<ScanAnswer> {
        let param = requests::next_rows(
            open.id,
            open.next_call_seq,
            self.rows_per_call(),
            self.progress.rows_left(),
        );
        let timeout = attempts.timeout()?;
        let (body, cells) = self
            .client
            .send_to_region_server(&open.location, "Scan", param, Bytes::new(), timeout)
            .await?;
        open.next_call_seq += 1;
        requests::scan_answer(body, cells)
    }

    async fn open_next(
        &self,
        attempts: &Attempts<'_, E>,
        broken: Option<&OpenScanner>,
    ) -> Result<Option<(OpenScanner, ScanAnswer)>> {
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
        let resume = broken
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
        let open = OpenScanner {
            id: answer
                .scanner_id
                .ok_or_else(|| Error::corrupt("a scanner without an id"))?,
            location,
            next_call_seq: 0,
            read_point: answer.read_point,
        };
        Ok(Some((open, answer)))
    }

    fn take(&mut self, open: OpenScanner, answer: ScanAnswer) -> Result<()> {
        let nothing_came = answer.pieces.is_empty();
        self.ready.extend(self.progress.take(answer.pieces));
        let region_is_done = match answer.more_results_in_region {
            Some(more) => !more,
            // Old servers do not say; an empty answer that is no heartbeat is then the end of the region.
            None => nothing_came && !answer.heartbeat,
        };
        if !answer.more_results {
            self.ready.extend(self.progress.end());
        } else if region_is_done {
            self.ready
                .extend(self.progress.leave_region(&open.location.region));
        } else if self.progress.start().is_some() {
            self.open = Some(open);
        }
        Ok(())
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
