//! Calls: order, deadlines, exceptions, cell blocks, stop.

use std::sync::atomic::Ordering;

use cadastre_types::{Code, LATEST_TIMESTAMP};
use cadastre_wire::cells::Compressor;
use cadastre_wire::frame::Request;
use cadastre_wire::preamble::ConnectionInfo;

use crate::harness::{Served, compressed, encoded, info, request};

#[test]
fn answers_come_when_they_are_ready() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    raw.send(1, "Wait", "");
    raw.send(2, "Echo", "two");
    raw.send(3, "Echo", "three");
    assert_eq!(raw.expect(2), "two");
    assert_eq!(raw.expect(3), "three");
    served.open_gate();
    assert_eq!(raw.expect(1), "open");
}

#[test]
fn many_calls_in_one_write() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    let mut all = Vec::new();
    for call_id in 0..2000 {
        all.extend_from_slice(&encoded(&request(call_id, "Echo", &call_id.to_string())));
    }
    raw.write(&all);
    for call_id in 0..2000 {
        assert_eq!(raw.expect(call_id), call_id.to_string());
    }
}

#[test]
fn a_call_knows_who_calls() {
    let served = Served::start(|_| {});
    let mut cores = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let mut raw = served.client_as(&ConnectionInfo {
            version: Some((2, 6)),
            ..info()
        });
        raw.write(&encoded(&Request {
            priority: Some(200),
            timeout_ms: Some(60_000),
            ..request(5, "Who", "")
        }));
        let who = raw.expect(5);
        let (before, after) = who.split_once(" root ").unwrap();
        let (core, after) = after.split_once(' ').unwrap();
        assert_eq!(
            (before, after),
            ("Client", "Some((2, 6)) 200 Some(KeyValue) true")
        );
        cores.insert(core.to_owned());
    }
    assert_eq!(cores.len(), 2, "connections go round the cores");
}

#[test]
fn exceptions_and_panics_are_answers() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    raw.send(1, "Fail", "");
    assert_eq!(raw.expect_error(1).code(), Code::TableNotFound);
    raw.send(2, "Panic", "");
    let error = raw.expect_error(2);
    assert!(error.message().contains("failed while it ran"), "{error}");
    raw.send(3, "NoSuchMethod", "");
    let error = raw.expect_error(3);
    assert!(error.message().contains("NoSuchMethod"), "{error}");
    raw.send(4, "Echo", "still here");
    assert_eq!(raw.expect(4), "still here");
}

#[test]
fn a_long_call_gets_its_own_task() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    // In one write: the second must be there before the first has ended.
    let calls = [("1000", 1), ("2", 2)];
    let calls = calls.map(|(times, id)| encoded(&request(id, "Yield", times)));
    raw.write(&calls.concat());
    let short = raw.expect(2);
    assert_eq!(raw.expect(1), short, "on the same core");
}

#[test]
fn a_call_that_is_too_late_is_dropped() {
    let served = Served::start(|config| config.connection_running_max = 1);
    let mut raw = served.client();
    raw.send(1, "Sleep", "60");
    raw.write(&encoded(&Request {
        timeout_ms: Some(1),
        ..request(2, "Count", "")
    }));
    raw.write(&encoded(&Request {
        timeout_ms: Some(60_000),
        ..request(3, "Count", "")
    }));
    assert_eq!(raw.expect(1), "slept");
    assert_eq!(raw.expect(3), "1");
    assert_eq!(served.toy.counted.load(Ordering::SeqCst), 1);
}

#[test]
fn cell_blocks_travel_as_declared() {
    let served = Served::start(|_| {});
    let cells = vec![7; 100_000];
    let all = [
        Compressor::Snappy,
        Compressor::Gzip,
        Compressor::Deflate,
        Compressor::Lz4,
    ];
    for compressor in all {
        let mut raw = served.client_as(&compressed(compressor));
        raw.write(&encoded(&Request {
            cells: compressor.compress(&cells).unwrap(),
            ..request(1, "Echo", "x")
        }));
        let (body, answered) = raw.receive().outcome.unwrap();
        assert_eq!(body, b"x"[..]);
        assert!(answered.len() < cells.len() / 4);
        assert_eq!(
            compressor.decompress(&answered, cells.len()).unwrap(),
            cells
        );
        raw.write(&encoded(&Request {
            cells: vec![0xff; 50].into(),
            ..request(2, "Echo", "x")
        }));
        raw.expect_error(2);
        raw.send(3, "Echo", "x");
        assert_eq!(raw.expect(3), "x");
    }
    let mut raw = served.client();
    raw.write(&encoded(&Request {
        cells: cells.clone().into(),
        ..request(1, "Echo", "x")
    }));
    assert_eq!(raw.receive().outcome.unwrap().1, cells);
    let mut raw = served.client_as(&ConnectionInfo {
        codec: None,
        ..info()
    });
    raw.write(&encoded(&Request {
        cells: cells.into(),
        ..request(1, "Echo", "x")
    }));
    assert_eq!(raw.expect_error(1).code(), Code::DoNotRetryIo);
}

#[test]
fn a_half_closed_client_gets_its_answers() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    raw.send(1, "Sleep", "20");
    raw.send(2, "Echo", "x");
    raw.finish();
    assert_eq!(raw.expect(2), "x");
    assert_eq!(raw.expect(1), "slept");
    raw.expect_closed();
}

#[test]
fn calls_end_with_their_connection() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    raw.send(1, "Wait", "");
    raw.send(2, "LongWait", "");
    served.wait_began(2);
    // Linger 0: the connection is reset, not closed in good order.
    rustix::net::sockopt::set_socket_linger(&raw.0, Some(std::time::Duration::ZERO)).unwrap();
    drop(raw);
    served.wait_dropped(2);
}

#[test]
fn stop_finishes_what_runs() {
    let served = Served::start(|_| {});
    let mut idle = served.client();
    let mut busy = served.client();
    idle.send(1, "Echo", "");
    idle.expect(1);
    busy.send(1, "Wait", "");
    served.wait_began(1);
    served.stop();
    idle.expect_closed();
    busy.send(2, "Echo", "");
    assert_eq!(busy.expect_error(2).code(), Code::RegionServerStopped);
    // Refused once the listening socket is closed.
    while std::net::TcpStream::connect(served.address).is_ok() {}
    served.open_gate();
    assert_eq!(busy.expect(1), "open");
    busy.expect_closed();
    served.wait_ended();
}

#[test]
fn stop_does_not_wait_for_ever() {
    let served = Served::start(|config| config.drain = std::time::Duration::from_millis(50));
    let mut raw = served.client();
    raw.send(1, "Wait", "");
    served.wait_began(1);
    served.stop();
    served.wait_ended();
    raw.expect_closed();
    assert_eq!(*served.toy.dropped.borrow(), 1);
}

#[test]
fn calls_may_have_any_id() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    for call_id in [0, 1, u32::MAX - 1, u32::MAX] {
        raw.send(call_id, "Echo", &LATEST_TIMESTAMP.to_string());
        raw.expect(call_id);
    }
}
