//! Preambles, connection header, first frames (hbase-protocol.md 1 and 12).

use std::time::Duration;

use cadastre_types::Code;
use cadastre_wire::Service;
use cadastre_wire::frame::CONNECTION_CALL_ID;
use cadastre_wire::preamble::{ConnectionInfo, connection_start};

use crate::harness::{Served, hex, info};

const HEADER: &str = "000000440a060a04726f6f74120d436c69656e74536572766963651a2b6f72672e6170616368652e6861646f6f702e68626173652e636f6465632e4b657956616c7565436f646563";
const GET_CLUSTER_ID: &str = "000000141208011a0c476574436c75737465724964200100";
const CLUSTER_ID: &str = "00000008020801040a026331";

/// The header's message begins after the delimiter that the vector's request carries.
fn get_cluster_id() -> Vec<u8> {
    hex(GET_CLUSTER_ID)
}

#[test]
fn golden_bytes() {
    let served = Served::start(|_| {});
    let mut raw = served.connect();
    raw.write(&hex("484261730050"));
    raw.write(&hex(HEADER));
    raw.write(&get_cluster_id());
    assert_eq!(raw.read(12), hex(CLUSTER_ID));
    // One byte at a time it is the same.
    let mut raw = served.connect();
    let all = [hex("484261730050"), hex(HEADER), get_cluster_id()].concat();
    for byte in all {
        raw.write(&[byte]);
    }
    assert_eq!(raw.read(12), hex(CLUSTER_ID));
}

#[test]
fn registry_preamble() {
    let served = Served::start(|_| {});
    let mut raw = served.connect();
    raw.write(b"Regist");
    assert_eq!(raw.read(16), hex("0000000c0608ffffffff0f040a026331"));
    raw.expect_closed();
}

#[test]
fn security_preamble_then_an_ordinary_one() {
    let served = Served::start(|_| {});
    let mut raw = served.connect();
    raw.write(b"Securi");
    let error = raw.expect_error(CONNECTION_CALL_ID);
    assert!(error.to_string().contains("SecurityNotEnabled"), "{error}");
    raw.write(&connection_start(&info(), "2.6.4"));
    raw.send(3, "Echo", "x");
    assert_eq!(raw.expect(3), "x");
}

#[test]
fn sasl_is_told_to_be_simple() {
    let served = Served::start(|_| {});
    for code in [0x51, 0x52] {
        let mut raw = served.connect();
        raw.write(&[b'H', b'B', b'a', b's', 0, code]);
        raw.write(&[0, 0, 0, 5, 1, 2, 3, 4, 5]);
        raw.write(&hex(HEADER));
        raw.write(&get_cluster_id());
        assert_eq!(raw.read(8), hex("00000000ffffffa8"));
        assert_eq!(raw.read(12), hex(CLUSTER_ID));
    }
    let mut raw = served.connect();
    raw.write(&[b'H', b'B', b'a', b's', 0, 0x51, 0x7f, 0, 0, 0, 1]);
    assert_eq!(raw.read(8), hex("00000000ffffffa8"));
    raw.expect_closed();
}

#[test]
fn bad_preambles_are_answered_and_closed() {
    let served = Served::start(|_| {});
    let cases: [(&[u8], Code); 4] = [
        (b"GET / HTTP/1.1\r\n\r\n", Code::FatalConnection),
        (b"hrpc\x09\x00\x00", Code::FatalConnection),
        (b"HBas\x01\x50", Code::WrongVersion),
        (b"HBas\x00\x4f", Code::BadAuth),
    ];
    for (bytes, code) in cases {
        let mut raw = served.connect();
        raw.write(bytes);
        let error = raw.expect_error(CONNECTION_CALL_ID);
        assert_eq!(error.code(), code);
        if code == Code::FatalConnection {
            assert!(
                error
                    .message()
                    .starts_with("Expected HEADER=HBas but received HEADER="),
                "{error}"
            );
        }
        raw.finish();
        raw.expect_closed();
    }
}

#[test]
fn bad_headers_are_closed_without_a_reply() {
    let served = Served::start(|_| {});
    let start = |info: &ConnectionInfo| connection_start(info, "2.6.4").to_vec();
    let not_served = ConnectionInfo {
        service: Service::Lock,
        ..info()
    };
    let replaced = |from: &str, to: &str| {
        let text = start(&info());
        let at = text
            .windows(from.len())
            .position(|window| window == from.as_bytes())
            .unwrap();
        let mut text = text;
        text[at..at + from.len()].copy_from_slice(to.as_bytes());
        text
    };
    let cases = [
        start(&not_served),
        replaced("ClientService", "ClientServicf"),
        replaced("KeyValueCodec", "KeyValueCodeX"),
        b"HBas\x00\x50\x00\x00\x00\x03\xff\xff\xff".to_vec(),
        b"HBas\x00\x50\xff\xff\xff\xff".to_vec(),
        b"HBas\x00\x50\x00\x02\x00\x00".to_vec(),
    ];
    for bytes in cases {
        let mut raw = served.connect();
        raw.write(&bytes);
        raw.expect_closed();
    }
}

#[test]
fn a_silent_client_is_closed() {
    let served = Served::start(|config| config.start_timeout = Duration::from_millis(50));
    let mut silent = served.connect();
    let mut half = served.connect();
    half.write(b"HBas\x00\x50\x00\x00\x00\x44\x0a");
    silent.expect_closed();
    half.expect_closed();
    // After the start, silence is allowed.
    let mut raw = served.client();
    raw.send(1, "Sleep", "100");
    raw.expect(1);
}

#[test]
fn a_client_that_leaves_at_once_is_no_fault() {
    let served = Served::start(|_| {});
    drop(served.connect());
    let mut raw = served.connect();
    raw.write(b"HB");
    raw.finish();
    raw.expect_closed();
}
