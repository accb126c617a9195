//! What a region server answers to calls as they come over the wire: where a scan goes on inside a row (C2, INV-6), what it says of
//! how much was read, aggregations, and its load.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "common/apart.rs"]
mod apart;
#[path = "common/wire.rs"]
mod wire;

use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_types::{Code, limits};
use cadastre_wire::pb;

use wire::{Wire, cell, text};

/// A scan of one row, a cell a result.
fn by_cells() -> pb::Scan {
    pb::Scan {
        batch_size: Some(1),
        ..Default::default()
    }
}

/// Opens a scanner and takes the first cell of a row of three; id and read point.
async fn half_a_row(wire: &Wire) -> (u64, u64) {
    wire.put(&[
        cell("r", "a", "1"),
        cell("r", "b", "1"),
        cell("r", "c", "1"),
    ])
    .await;
    let opened = wire.scan(wire.open(by_cells(), 1)).await.unwrap();
    assert_eq!(wire.values(&opened), ["1"]);
    let first = &opened.answer;
    assert_eq!(first.partial_flag_per_result, [true]);
    (first.scanner_id(), first.mvcc_read_point())
}

/// The whole row as a scanner shows that goes on at a read point, with the point that it says it is at.
async fn again(wire: &Wire, read_point: u64) -> (Vec<String>, u64) {
    let scan = pb::Scan {
        start_row: Some(text("r")),
        mvcc_read_point: Some(read_point),
        ..by_cells()
    };
    let request = pb::ScanRequest {
        close_scanner: Some(true),
        ..wire.open(scan, 10)
    };
    let opened = wire.scan(request).await.unwrap();
    (wire.values(&opened), opened.answer.mvcc_read_point())
}

/// The row changes, and its old values go from memory and files as far as they can.
async fn change(wire: &Wire) {
    wire.put(&[
        cell("r", "a", "2"),
        cell("r", "b", "2"),
        cell("r", "c", "2"),
    ])
    .await;
    wire.flush_and_compact().await;
}

const OLD: [&str; 3] = ["1"; 3];
const NEW: [&str; 3] = ["2"; 3];

#[test]
fn c2_the_rest_of_a_row_is_of_the_moment_of_its_beginning() {
    wire::run(1, |wire| async move {
        // The client lost an answer, and is told so.
        let (id, point) = half_a_row(&wire).await;
        change(&wire).await;
        let error = wire.scan(wire.next(id, 7)).await.unwrap_err();
        assert_eq!(error.code(), Code::OutOfOrderScannerNext);
        assert_eq!(
            again(&wire, point).await,
            (OLD.map(str::to_owned).to_vec(), point)
        );
        // It closes the old one before it opens the new.
        let (id, point) = half_a_row(&wire).await;
        change(&wire).await;
        wire.scan(wire.close(id)).await.unwrap();
        assert_eq!(again(&wire, point).await.0, OLD);
        // What was lost is the row's end, and the scanner with it.
        let (id, point) = half_a_row(&wire).await;
        let rest = wire.scan(wire.next_rows(id, 0, 5)).await.unwrap();
        assert_eq!(rest.answer.more_results_in_region, Some(false));
        change(&wire).await;
        let error = wire.scan(wire.next_rows(id, 0, 5)).await.unwrap_err();
        assert_eq!(error.code(), Code::OutOfOrderScannerNext);
        assert_eq!(again(&wire, point).await.0, OLD);
        // It was slower than its lease.
        let (id, point) = half_a_row(&wire).await;
        change(&wire).await;
        let lease = Duration::from_millis(limits::SCANNER_LEASE_MS);
        wire.env.clock().sleep(lease + lease / 3).await;
        let error = wire.scan(wire.next(id, 0)).await.unwrap_err();
        assert_eq!(error.code(), Code::UnknownScanner);
        assert_eq!(again(&wire, point).await.0, OLD);
        // No moment is kept for ever.
        wire.env.clock().sleep(2 * lease).await;
        let (values, now) = again(&wire, point).await;
        assert_eq!(values, NEW);
        assert!(now > point, "a client can see that it is another moment");
        // A scan that ended between rows leaves none behind.
        let opened = wire.scan(wire.open(by_cells(), 3)).await.unwrap();
        let point = opened.answer.mvcc_read_point();
        wire.scan(wire.close(opened.answer.scanner_id()))
            .await
            .unwrap();
        wire.put(&[cell("r", "a", "3")]).await;
        assert_ne!(again(&wire, point).await.0, NEW);
    });
}

/// Bytes of what the store has of `put` rows, to be compared only with each other.
fn told(metrics: Option<&pb::QueryMetrics>) -> u64 {
    metrics.unwrap().block_bytes_scanned.unwrap()
}

#[test]
fn answers_say_how_much_was_read_where_that_is_asked() {
    wire::run(2, |wire| async move {
        let big = "x".repeat(1000);
        wire.put(&[cell("big", "a", &big), cell("small", "a", "y")])
            .await;
        let get = |row: &'static str, asked: bool| pb::Get {
            row: text(row),
            query_metrics_enabled: asked.then_some(true),
            ..Default::default()
        };
        let of = |answer: pb::GetResponse| answer.result.unwrap().metrics;
        assert_eq!(of(wire.get(get("big", false)).await), None);
        let all = told(of(wire.get(get("big", true)).await).as_ref());
        assert!((1000..1200).contains(&all), "{all}");
        // A filter that drops all of it has read all of it.
        let filtered = pb::Get {
            filter: Some(wire::drops_all()),
            ..get("big", true)
        };
        let answer = wire.get(filtered).await;
        assert_eq!(answer.result.as_ref().unwrap().associated_cell_count(), 0);
        assert_eq!(told(of(answer).as_ref()), all);
        // From the file it is the same.
        wire.flush_and_compact().await;
        assert_eq!(told(of(wire.get(get("big", true)).await).as_ref()), all);
        assert_eq!(told(of(wire.get(get("none", true)).await).as_ref()), 0);
        // In a batch, by action.
        let actions = [get("big", true), get("small", false), get("small", true)];
        let results = wire.gets(&actions).await;
        let metrics = results
            .iter()
            .map(|it| it.result.as_ref().unwrap().metrics.as_ref());
        let metrics: Vec<_> = metrics.map(|it| it.map(|it| told(Some(it)))).collect();
        assert_eq!((metrics[0], metrics[1]), (Some(all), None));
        assert!((1..100).contains(&metrics[2].unwrap()), "{metrics:?}");
        // Of a condition, whether it holds or not, alone and in a batch.
        for (expected, holds) in [(&big[..], true), ("other", false)] {
            let answer = wire.check_and_put("big", expected, Some(true)).await;
            assert_eq!(answer.processed, Some(holds));
            assert!(told(answer.metrics.as_ref()) >= all);
            let answer = wire.check_and_put("big", expected, None).await;
            assert_eq!(answer.metrics, None);
            let result = wire.check_and_put_in_batch("big", expected).await;
            assert_eq!(result.processed, Some(holds));
            let entries = &result.result_or_exception;
            // What was put over again may still be stored.
            assert!((all..5 * all).contains(&told(entries[0].metrics.as_ref())));
        }
    });
}

#[test]
fn scans_say_how_much_was_read() {
    wire::run(3, |wire| async move {
        let big = "x".repeat(1000);
        wire.put(&[
            cell("a", "q", "wanted"),
            cell("b", "q", &big),
            cell("c", "q", "wanted"),
            cell("d", "q", "wanted"),
            cell("e", "q", &big),
        ])
        .await;
        let scan = pb::Scan {
            filter: Some(wire::only_value("wanted")),
            query_metrics_enabled: Some(true),
            ..Default::default()
        };
        let request = pb::ScanRequest {
            track_scan_metrics: Some(true),
            ..wire.open(scan.clone(), 10)
        };
        let opened = wire.scan(request.clone()).await.unwrap();
        assert_eq!(wire.values(&opened), ["wanted"; 3]);
        let answer = &opened.answer;
        let by_result: Vec<u64> = answer
            .query_metrics
            .iter()
            .map(|it| told(Some(it)))
            .collect();
        let [a, c, d] = by_result[..] else {
            panic!("{by_result:?}")
        };
        // The dropped row counts for the result behind it.
        assert!(
            a < 100 && (1000..1200).contains(&c) && d == a,
            "{by_result:?}"
        );
        let metrics = wire::metrics(answer);
        assert_eq!(metrics["ROWS_SCANNED"], 5);
        assert_eq!(metrics["ROWS_FILTERED"], 2);
        assert_eq!(metrics["BLOCK_BYTES_SCANNED"] as u64, a + c + d + c - a);
        assert!(metrics["RPC_SCAN_PROCESSING_TIME"] >= 0);
        assert!(metrics["RPC_SCAN_QUEUE_WAIT_TIME"] >= 0);
        assert_eq!(metrics.len(), 5, "what cannot be told is not said");
        // The same over several calls, and by cells: the first of a row has it all.
        let mut sum = 0;
        let mut opened = wire
            .scan(pb::ScanRequest {
                number_of_rows: Some(1),
                ..request
            })
            .await
            .unwrap();
        let id = opened.answer.scanner_id();
        for seq in 0.. {
            sum += wire::metrics(&opened.answer)["BLOCK_BYTES_SCANNED"] as u64;
            if opened.answer.more_results_in_region == Some(false) {
                break;
            }
            let next = pb::ScanRequest {
                track_scan_metrics: Some(true),
                ..wire.next(id, seq)
            };
            opened = wire.scan(next).await.unwrap();
        }
        assert_eq!(sum, a + c + d + c - a);
        wire.put(&[cell("a", "r", "wanted")]).await;
        let by_cells = pb::Scan {
            batch_size: Some(1),
            ..scan
        };
        let opened = wire.scan(wire.open(by_cells, 2)).await.unwrap();
        let by_result = opened.answer.query_metrics.iter().map(|it| told(Some(it)));
        let by_result: Vec<u64> = by_result.collect();
        assert!(by_result[0] > a && by_result[1] == 0, "{by_result:?}");
    });
}

#[test]
fn averages_count_the_end_that_was_not_foreseen() {
    wire::run(4, |wire| async move {
        let number =
            |row: &str, n: i64| cell_of(row, "q", Bytes::copy_from_slice(&n.to_be_bytes()));
        wire.put(&[number("1", 10), number("2", 20)]).await;
        let rows = |answer: &pb::AggregateResponse| {
            let bytes = answer.second_part.clone().unwrap();
            i64::from_be_bytes(bytes[..].try_into().unwrap())
        };
        let scan = || pb::Scan {
            column: vec![pb::Column {
                family: text("f"),
                qualifier: vec![text("q")],
            }],
            ..Default::default()
        };
        assert_eq!(rows(&wire.aggregate("GetAvg", scan()).await), 2);
        // Another family's row is in no store that is read.
        wire.put(&[wire::cell_in("g", "3", "q", "x")]).await;
        assert_eq!(rows(&wire.aggregate("GetAvg", scan()).await), 2);
        // A row without the column in between is not the end.
        wire.put(&[cell("15", "other", "x")]).await;
        assert_eq!(rows(&wire.aggregate("GetAvg", scan()).await), 2);
        // One behind the last: HBase asks for it and counts the empty answer.
        wire.put(&[cell("3", "other", "x"), cell("4", "other", "x")])
            .await;
        let averaged = wire.aggregate("GetAvg", scan()).await;
        assert_eq!(rows(&averaged), 3);
        assert_eq!(rows(&wire.aggregate("GetStd", scan()).await), 3);
        let until = |row: &str| pb::Scan {
            stop_row: Some(Bytes::copy_from_slice(row.as_bytes())),
            ..scan()
        };
        assert_eq!(rows(&wire.aggregate("GetAvg", until("3")).await), 2);
        assert_eq!(rows(&wire.aggregate("GetAvg", until("4")).await), 3);
        // A filter that knows that it has seen all: nobody asks.
        let page = pb::Scan {
            filter: Some(wire::page(2)),
            ..scan()
        };
        assert_eq!(rows(&wire.aggregate("GetAvg", page).await), 2);
        // A count leaves it out, and where there is nothing nothing is said.
        let count = wire.aggregate("GetRowNum", scan()).await;
        assert_eq!(&count.first_part[0][..], 5_i64.to_be_bytes());
        let nothing = wire.aggregate("GetAvg", until("1")).await;
        assert_eq!(nothing, pb::AggregateResponse::default());
    });
}

fn cell_of(row: &str, qualifier: &str, value: Bytes) -> cadastre_types::Cell {
    cadastre_types::Cell {
        value,
        ..cell(row, qualifier, "")
    }
}

#[test]
fn a_region_s_load_is_true() {
    wire::run(5, |wire| async move {
        wire.put(&[cell("a", "q", "1")]).await;
        let (before, server) = wire.region_load().await;
        let point = wire.scan(wire.open(pb::Scan::default(), 1)).await.unwrap();
        let point = point.answer.mvcc_read_point();
        assert!(before.complete_sequence_id() < point, "nothing is flushed");
        wire.flush_and_compact().await;
        let (after, _) = wire.region_load().await;
        assert!(after.complete_sequence_id() >= point, "all is in files");
        assert_eq!(
            after.compaction_state(),
            pb::region_load::CompactionState::None
        );
        assert_eq!(after.data_locality, Some(1.0), "this store is a directory");
        assert_eq!(server.max_heap_mb(), 64);
        // Requests per second, over the last ten to twenty of them.
        for _ in 0..40 {
            for _ in 0..10 {
                wire.put(&[cell("a", "q", "2")]).await;
            }
            wire.env.clock().sleep(Duration::from_secs(1)).await;
        }
        let (_, server) = wire.region_load().await;
        assert!(
            (8..=12).contains(&server.number_of_requests()),
            "{server:?}"
        );
    });
}
