//! `ClientService.Scan`: open, next, renew, close.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_rpc::{Call, Reply};
use cadastre_store::RowRange;
use cadastre_types::{Code, Error, Result, Scan, limits};
use cadastre_wire::{convert, pb};

use crate::filter::PerFamily;
use crate::read::{self, CellSink, RowFilter};
use crate::regions::Hosted;
use crate::scanners::{Answer, Budget, Moment, OpenScanner, Part, Taken};
use crate::server::Server;

use super::{encoded_name, param, reply};

/// Rows that are found without reading ahead: a block has room for several small ones.
const FEW_ROWS: u32 = 4;

pub(crate) async fn scan<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::ScanRequest = param(call)?;
    // A continuation may repeat region and scan; the id wins.
    let (id, scanner, opened) = match (request.scanner_id, &request.scan, &request.region) {
        (Some(id), _, _) => match server.scanners.take(id, server.env.clock().mono())? {
            Taken::Open(scanner) => (id, scanner, false),
            Taken::Ended(expected) => return ended(&request, id, expected),
        },
        (None, Some(scan), Some(region)) => {
            let mut scanner = open(server, region, convert::scan(scan)?).await?;
            if wants_few_rows(&request) {
                scanner.read_no_further();
            }
            (server.scanners.reserve()?, Box::new(scanner), true)
        }
        _ => return Err(Error::invalid("Missing required input: scannerId or scan")),
    };
    run(server, call, &request, id, scanner, opened).await
}

/// Whether so few rows are asked for that reading ahead would read blocks for nobody.
fn wants_few_rows(request: &pb::ScanRequest) -> bool {
    let limited = (1..=FEW_ROWS).contains(&request.limit_of_rows());
    let once = request.close_scanner() && request.number_of_rows() <= FEW_ROWS;
    limited || once
}

/// A call on a scanner that ended by itself not long ago: an empty answer, if the call is the one expected.
fn ended(request: &pb::ScanRequest, id: u64, expected: u64) -> Result<Reply> {
    check_sequence(request, expected)?;
    Ok(reply(&pb::ScanResponse {
        scanner_id: Some(id),
        more_results: Some(false),
        more_results_in_region: Some(false),
        ttl: Some(limits::SCANNER_LEASE_MS as u32),
        ..Default::default()
    }))
}

fn check_sequence(request: &pb::ScanRequest, expected: u64) -> Result<()> {
    match request.next_call_seq {
        Some(got) if got != expected => Err(Error::new(
            Code::OutOfOrderScannerNext,
            format!("Expected nextCallSeq: {expected} But the nextCallSeq got from client: {got}"),
        )),
        _ => Ok(()),
    }
}

async fn open<E: Env>(
    server: &Arc<Server<E>>,
    region: &pb::RegionSpecifier,
    scan: Scan,
) -> Result<OpenScanner<E>> {
    let hosted = server.regions.find(&encoded_name(region))?;
    let env = server.env.clone();
    let moment = match scan.mvcc_read_point {
        0 => None,
        sequence => {
            let name = hosted.region.info().encoded_name();
            server.scanners.kept(&name, sequence)
        }
    };
    server
        .regions
        .on_core(hosted.core, move || {
            Box::pin(async move { open_at(&env, &hosted, scan, moment).await })
        })
        .await
}

/// A scanner over a region, as of now; to be called on its core.
///
/// # Errors
/// As [`open_at`].
pub(crate) async fn open_here<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    scan: Scan,
) -> Result<OpenScanner<E>> {
    open_at(env, hosted, scan, None).await
}

/// The same, at a moment of the region if there is one.
///
/// # Errors
/// Unknown families, filters that cannot be or do not go with the scan; the store's.
async fn open_at<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    scan: Scan,
    moment: Option<Moment<E>>,
) -> Result<OpenScanner<E>> {
    read::check_query(&hosted.region.descriptor(), &scan.query)?;
    let mut query = scan.query.clone();
    let per_family = PerFamily {
        limit: scan.store_limit,
        offset: scan.store_offset,
    };
    let encoded = scan.filter.as_ref();
    let filter = RowFilter::take_over(env, encoded, &mut query, per_family, scan.reversed)?;
    if scan.batch > 0 && filter.as_ref().is_some_and(RowFilter::needs_whole_row) {
        return Err(Error::invalid(
            "Cannot set batch on a scan using a filter that returns true for filter.hasFilterRow",
        ));
    }
    let region = &hosted.region;
    let Moment { at, opened } = match moment {
        Some(moment) => moment,
        None => Moment {
            opened: env.clock().mono(),
            at: region.read_point().await?,
        },
    };
    let read_point = at.sequence();
    let mut scanner = region
        .scan(row_range(&scan), scan.reversed, query, at)
        .await?;
    if let Some(first) = filter.as_ref().and_then(RowFilter::columns_wanted) {
        scanner.first_columns(first);
    }
    Ok(OpenScanner::new(
        Arc::clone(hosted),
        scan,
        scanner,
        filter,
        read_point,
        opened,
    ))
}

/// The store's ranges go from the lower row to the upper one in both directions.
fn row_range(scan: &Scan) -> RowRange {
    let first = (scan.start_row.clone(), scan.include_start_row);
    let last = (scan.stop_row.clone(), scan.include_stop_row);
    let ((start, include_start), (stop, include_stop)) = if scan.reversed {
        (last, first)
    } else {
        (first, last)
    };
    RowRange {
        start,
        include_start,
        stop,
        include_stop,
    }
}

async fn run<E: Env>(
    server: &Arc<Server<E>>,
    call: &Call,
    request: &pb::ScanRequest,
    id: u64,
    mut scanner: Box<OpenScanner<E>>,
    opened: bool,
) -> Result<Reply> {
    // Asked of the region itself: a look-up by its name would cost a hash of the name for every call.
    if scanner.hosted.region.is_closed() {
        server.scanners.remove(id, None);
        return Err(Error::new(
            Code::NotServingRegion,
            format!(
                "{} is not online on this server",
                scanner.hosted.region.info().encoded_name()
            ),
        ));
    }
    if !opened {
        if let Err(error) = check_sequence(request, scanner.next_call_seq) {
            // HBase closes it: client and server disagree on what was sent.
            let now = server.env.clock().mono();
            server.scanners.retire(id, &scanner, None, now);
            return Err(error);
        }
        if request.next_call_seq.is_some() {
            scanner.next_call_seq += 1;
        }
    }
    let wanted = match request.number_of_rows {
        Some(rows) => rows,
        None => u32::from(!request.close_scanner()),
    };
    if request.renew() || wanted == 0 {
        return Ok(without_rows(server, request, id, scanner));
    }
    let budget = budget(server, call, request, &scanner.scan, wanted);
    let env = server.env.clone();
    let core = scanner.hosted.core;
    let walked = server
        .regions
        .on_core(core, move || {
            Box::pin(async move {
                let answer = scanner.next(&env, &budget).await;
                Ok((scanner, answer))
            })
        })
        .await;
    let (scanner, answer) = match walked {
        Ok((scanner, Ok(answer))) => (scanner, answer),
        Ok((scanner, Err(error))) => {
            let now = server.env.clock().mono();
            server.scanners.retire(id, &scanner, None, now);
            return Err(broken(error));
        }
        Err(error) => {
            server.scanners.remove(id, None);
            return Err(broken(error));
        }
    };
    scanner
        .hosted
        .reads
        .fetch_add(answer.scanned, Ordering::Relaxed);
    scanner
        .hosted
        .filtered
        .fetch_add(answer.filtered, Ordering::Relaxed);
    Ok(answer_with_rows(
        server, call, request, id, scanner, opened, answer,
    ))
}

/// What a client must hear when a scanner broke in its middle: open a new one behind the last row.
fn broken(error: Error) -> Error {
    match error.code() {
        Code::NotServingRegion | Code::RowTooBig | Code::DoNotRetryIo => error,
        _ => Error::new(
            Code::ScannerReset,
            format!("Scanner is closed on the server-side: {}", error.message()),
        ),
    }
}

fn without_rows<E: Env>(
    server: &Arc<Server<E>>,
    request: &pb::ScanRequest,
    id: u64,
    scanner: Box<OpenScanner<E>>,
) -> Reply {
    let mut response = pb::ScanResponse {
        scanner_id: Some(id),
        ttl: Some(limits::SCANNER_LEASE_MS as u32),
        mvcc_read_point: request.scanner_id.is_none().then_some(scanner.read_point),
        ..Default::default()
    };
    if request.renew() {
        server.scanners.put(id, scanner, server.env.clock().mono());
        return reply(&response);
    }
    response.more_results = Some(true);
    response.more_results_in_region = Some(!request.close_scanner());
    let now = server.env.clock().mono();
    if request.close_scanner() {
        let ended = Some(scanner.next_call_seq);
        server.scanners.retire(id, &scanner, ended, now);
        response.more_results = Some(false);
    } else {
        server.scanners.put(id, scanner, now);
    }
    reply(&response)
}

fn budget<E: Env>(
    server: &Arc<Server<E>>,
    call: &Call,
    request: &pb::ScanRequest,
    scan: &Scan,
    wanted: u32,
) -> Budget {
    let bytes = match scan.max_result_size {
        0 => limits::SCAN_RESULT_MAX,
        asked => usize::try_from(asked)
            .unwrap_or(usize::MAX)
            .min(limits::SCAN_RESULT_MAX),
    };
    let now = server.env.clock().mono();
    // Half of what the client waits for, so that the heartbeat arrives in time.
    let patience = call
        .deadline
        .map_or(Duration::MAX, |deadline| deadline.saturating_sub(now));
    let patience = patience.min(Duration::from_millis(limits::SCANNER_LEASE_MS)) / 2;
    Budget {
        results: wanted,
        rows: Some(request.limit_of_rows()).filter(|rows| *rows > 0),
        bytes,
        partials: request.client_handles_partials(),
        until: (request.client_handles_partials() && request.client_handles_heartbeats())
            .then_some(now + patience),
        no_look_ahead: request.close_scanner(),
    }
}

fn answer_with_rows<E: Env>(
    server: &Arc<Server<E>>,
    call: &Call,
    request: &pb::ScanRequest,
    id: u64,
    scanner: Box<OpenScanner<E>>,
    opened: bool,
    answer: Answer,
) -> Reply {
    let limit_reached = request.limit_of_rows() > 0 && answer.rows >= request.limit_of_rows();
    let mut response = pb::ScanResponse {
        scanner_id: Some(id),
        ttl: Some(limits::SCANNER_LEASE_MS as u32),
        more_results: Some(!limit_reached && !answer.scan_over),
        more_results_in_region: Some(answer.more_in_region),
        heartbeat_message: answer.heartbeat.then_some(true),
        mvcc_read_point: opened.then_some(scanner.read_point),
        ..Default::default()
    };
    if answer.heartbeat && scanner.scan.need_cursor_result {
        response.cursor = answer
            .cursor
            .clone()
            .map(|row| pb::Cursor { row: Some(row) });
    }
    if request.track_scan_metrics() {
        let now = server.env.clock().mono();
        response.scan_metrics = Some(metrics(call, &answer, now));
    }
    let cells = put_results(call, &mut response, &answer.parts);
    let told = |part: &Part| read::query_metrics(scanner.scan.query_metrics, part.bytes_read);
    response.query_metrics = answer.parts.iter().filter_map(told).collect();
    let now = server.env.clock().mono();
    if answer.scan_over || limit_reached || !answer.more_in_region || request.close_scanner() {
        let ended = Some(scanner.next_call_seq);
        server.scanners.retire(id, &scanner, ended, now);
    } else {
        server.scanners.put(id, scanner, now);
    }
    Reply {
        body: cadastre_wire::encode(&response),
        cells,
    }
}

fn put_results(call: &Call, response: &mut pb::ScanResponse, parts: &[Part]) -> Bytes {
    let mut sink = CellSink::new(&call.peer);
    for part in parts {
        if sink.uses_block() {
            sink.push(&part.cells);
            response.cells_per_result.push(part.cells.len() as u32);
            response.partial_flag_per_result.push(part.partial);
        } else {
            let partial = Some(part.partial);
            response.results.push(pb::Result {
                partial,
                ..convert::result_pb(&part.cells)
            });
        }
    }
    sink.finish()
}

/// What HBase names so and can be told here. Which bytes came from files, from the cache or from memory the store does not say.
fn metrics(call: &Call, answer: &Answer, now: Duration) -> pb::ScanMetrics {
    let ms = |from: Duration, to: Duration| to.saturating_sub(from).as_millis() as u64;
    let pair = |name: &str, value: u64| pb::NameInt64Pair {
        name: Some(name.to_owned()),
        value: Some(value as i64),
    };
    pb::ScanMetrics {
        metrics: vec![
            pair("ROWS_SCANNED", answer.scanned),
            pair("ROWS_FILTERED", answer.filtered),
            pair("BLOCK_BYTES_SCANNED", answer.bytes_read),
            pair("RPC_SCAN_PROCESSING_TIME", ms(call.started, now)),
            pair("RPC_SCAN_QUEUE_WAIT_TIME", ms(call.arrived, call.started)),
        ],
    }
}

#[cfg(test)]
mod tests;
