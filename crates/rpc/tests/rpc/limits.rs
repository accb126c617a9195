//! Garbage, truncated and oversize frames, full queues, slow and many clients.

use std::time::Duration;

use cadastre_types::Code;
use cadastre_wire::frame::Request;

use crate::harness::{Served, encoded, request};

#[test]
fn garbage_closes_the_connection() {
    let served = Served::start(|_| {});
    let cases: [&[u8]; 6] = [
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x80\x00\x00\x00\x00",
        b"\x00\x00\x00\x03\xff\xff\xff",
        b"\x00\x00\x00\x02\x05\x08",
        b"\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    for bytes in cases {
        let mut raw = served.client();
        raw.write(bytes);
        raw.expect_closed();
    }
}

#[test]
fn a_bad_parameter_is_answered() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    // Call 9, without request_param.
    raw.write(b"\x00\x00\x00\x09\x08\x08\x09\x1a\x04Echo");
    assert_eq!(raw.expect_error(9).code(), Code::DoNotRetryIo);
    raw.send(10, "Echo", "x");
    assert_eq!(raw.expect(10), "x");
}

#[test]
fn a_truncated_frame_is_dropped() {
    let served = Served::start(|_| {});
    let mut raw = served.client();
    let frame = encoded(&request(1, "Count", ""));
    raw.write(&frame[..frame.len() - 1]);
    raw.finish();
    raw.expect_closed();
    assert_eq!(
        served.toy.counted.load(std::sync::atomic::Ordering::SeqCst),
        0
    );
}

#[test]
fn an_oversize_frame_is_refused_by_its_header() {
    let served = Served::start(|config| config.request_bytes_max = 1000);
    let mut raw = served.client();
    raw.send(1, "Echo", &"x".repeat(900));
    raw.expect(1);
    let frame = encoded(&request(2, "Echo", &"x".repeat(10_000_000)));
    // The rest never comes: the server does not need it.
    raw.write(&frame[..40]);
    let error = raw.expect_error(2);
    assert_eq!(error.code(), Code::RequestTooBig);
    raw.finish();
    raw.expect_closed();
    // The answer also reaches a client that is busy writing.
    let mut raw = served.client();
    raw.write(&frame);
    assert_eq!(raw.expect_error(2).code(), Code::RequestTooBig);
    raw.expect_closed();
}

#[test]
fn decompressed_cells_are_bounded() {
    use cadastre_wire::cells::Compressor::Gzip;
    let served = Served::start(|config| config.request_bytes_max = 100_000);
    let mut raw = served.client_as(&crate::harness::compressed(Gzip));
    raw.write(&encoded(&Request {
        cells: Gzip.compress(&vec![0; 1_000_000]).unwrap(),
        ..request(1, "Echo", "")
    }));
    raw.expect_error(1);
    raw.send(2, "Echo", "x");
    assert_eq!(raw.expect(2), "x");
}

#[test]
fn request_bytes_in_flight_are_bounded() {
    let served = Served::start(|config| config.request_bytes_in_flight_max = 200_000);
    let mut one = served.client();
    let mut two = served.client();
    one.send(1, "Wait", &"x".repeat(150_000));
    served.wait_began(1);
    two.send(2, "Echo", &"x".repeat(150_000));
    assert_eq!(two.expect_error(2).code(), Code::CallQueueTooBig);
    two.send(3, "Echo", "small");
    assert_eq!(two.expect(3), "small");
    served.open_gate();
    one.expect(1);
    two.send(4, "Echo", &"x".repeat(150_000));
    assert_eq!(two.expect(4).len(), 150_000);
}

#[test]
fn request_bytes_of_a_connection_are_bounded() {
    let served = Served::start(|config| config.connection_request_bytes_max = 1000);
    let mut one = served.client();
    one.send(1, "Wait", &"x".repeat(600));
    one.send(2, "Echo", &"x".repeat(600));
    assert_eq!(one.expect_error(2).code(), Code::CallQueueTooBig);
    let mut two = served.client();
    two.send(3, "Echo", &"x".repeat(600));
    two.expect(3);
    served.open_gate();
    one.expect(1);
}

#[test]
fn calls_are_bounded() {
    let served = Served::start(|config| {
        config.connection_calls_max = 3;
        config.calls_in_flight_max = 8;
    });
    let mut one = served.client();
    for call_id in 0..4 {
        one.send(call_id, "Wait", "");
    }
    assert_eq!(one.expect_error(3).code(), Code::CallQueueTooBig);
    let mut two = served.client();
    for call_id in 0..3 {
        two.send(call_id, "Wait", "");
    }
    served.wait_began(6);
    let mut three = served.client();
    three.send(6, "Wait", "");
    served.wait_began(7);
    three.send(7, "Echo", "");
    assert_eq!(three.expect_error(7).code(), Code::CallQueueTooBig);
    // The last place is for those of high priority.
    three.write(&encoded(&Request {
        priority: Some(200),
        ..request(8, "Echo", "first")
    }));
    assert_eq!(three.expect(8), "first");
    served.open_gate();
    three.expect(6);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let served = Served::start(|config| config.write_stall = Duration::from_millis(100));
    let mut raw = served.client();
    raw.send(1, "Wait", "");
    for call_id in 2..10 {
        raw.send(call_id, "Big", "8000000");
    }
    // The call that waits is dropped with its connection.
    served.wait_dropped(1);
}

#[test]
fn answers_not_taken_are_bounded() {
    let served = Served::start(|config| config.connection_response_bytes_max = 20_000_000);
    let mut raw = served.client();
    raw.send(1, "Wait", "");
    for call_id in 2..10 {
        raw.send(call_id, "Late", "8000000");
    }
    served.wait_dropped(1);
    // Calls that are answered at once are not begun while the reader is behind: it gets them all.
    let mut raw = served.client();
    for call_id in 0..10 {
        raw.send(call_id, "Big", "8000000");
    }
    for call_id in 0..10 {
        raw.expect(call_id);
    }
    // One at a time is no fault.
    let mut raw = served.client();
    for call_id in 2..10 {
        raw.send(call_id, "Big", "30000000");
        raw.expect(call_id);
    }
}

#[test]
fn a_frame_must_go_on() {
    let served = Served::start(|config| config.read_stall = Duration::from_millis(50));
    let mut raw = served.client();
    raw.send(1, "Sleep", "150");
    raw.expect(1);
    raw.write(&encoded(&request(2, "Echo", "x"))[..9]);
    raw.expect_closed();
}

#[test]
fn idle_connections_are_closed_only_if_asked() {
    let served = Served::start(|config| config.idle = Some(Duration::from_millis(50)));
    let mut raw = served.client();
    raw.send(1, "Sleep", "150");
    raw.expect(1);
    raw.expect_closed();
}

#[test]
fn connections_are_bounded() {
    let served = Served::start(|config| config.connections_max = 2);
    let mut one = served.client();
    let mut two = served.client();
    for raw in [&mut one, &mut two] {
        raw.send(1, "Echo", "x");
        raw.expect(1);
    }
    served.connect().expect_closed();
    drop(one);
    // The place becomes free once the server has seen the end.
    loop {
        let mut raw = served.client();
        raw.send(1, "Echo", "x");
        let mut first = [0];
        if matches!(std::io::Read::read(&mut raw.0, &mut first), Ok(1)) {
            break;
        }
    }
}

/// Two descriptors a connection: both ends are here.
#[test]
fn a_thousand_connections() {
    const COUNT: u64 = 1000;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit {
            current: limit.maximum.or(Some(65_536)),
            ..limit
        },
    )
    .unwrap();
    let served = Served::start(|_| {});
    let mut all: Vec<_> = (0..COUNT).map(|_| served.client()).collect();
    for round in 0..2 {
        for raw in &mut all {
            raw.send(round, "Echo", "x");
        }
        for raw in &mut all {
            assert_eq!(raw.expect(round), "x");
        }
    }
    served.stop();
    served.wait_ended();
}
