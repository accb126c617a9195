//! Golden bytes both ways (hadoop-ha-rpc.md E.10; the same bytes were taken by real NameNodes), and what is refused.

use super::*;
use crate::testing::unhex;

const CLIENT: ClientId = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const CLIENT_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";

const PREAMBLE: &str = "68727063090000";
const CONTEXT: &str = "000000551a0802100018052210000102030405060708090a0b0c0d0e0f28013912070a05616c6963651a2e6f72672e6170616368652e6861646f6f702e686466732e70726f746f636f6c2e436c69656e7450726f746f636f6c";
const CALL: &str = "0000005f1a0802100018002210000102030405060708090a0b0c0d0e0f28003f0a0b67657446696c65496e666f122e6f72672e6170616368652e6861646f6f702e686466732e70726f746f636f6c2e436c69656e7450726f746f636f6c1801030a012f";
const CALL_AGAIN: &str = "0000005f1a0802100018002210000102030405060708090a0b0c0d0e0f28023f0a0b67657446696c65496e666f122e6f72672e6170616368652e6861646f6f702e686466732e70726f746f636f6c2e436c69656e7450726f746f636f6c1801030a012f";
const PING: &str = "0000001b1a0802100018072210000102030405060708090a0b0c0d0e0f2801";
const NEGOTIATE: &str = "0000000e0a08021000184122002801021001";
const STANDBY: &str = "000000807f08001001180922266f72672e6170616368652e6861646f6f702e6970632e5374616e646279457863657074696f6e2a394f7065726174696f6e2063617465676f72792052454144206973206e6f7420737570706f7274656420696e207374617465207374616e64627930013a10000102030405060708090a0b0c0d0e0f4000";
const EMPTY: &str = "0000001c1a0800100018093a10000102030405060708090a0b0c0d0e0f400000";
const MISMATCH: &str = "0000003f3e08ffffffff0f1002180922296f72672e6170616368652e6861646f6f702e6970632e5250432456657273696f6e4d69736d617463682a0178300e3a004001";

fn body(golden: &str) -> Bytes {
    unhex(golden).slice(4..)
}

fn get_file_info(retry_count: i32) -> Request {
    Request {
        client_id: Bytes::copy_from_slice(&CLIENT),
        call_id: 0,
        retry_count,
        method: "getFileInfo".to_owned(),
        protocol: CLIENT_PROTOCOL.to_owned(),
        version: 1,
        body: crate::encode(&pb::GetFileInfoRequestProto {
            src: "/".to_owned(),
        }),
        ..Request::default()
    }
}

fn answer(call_id: i32, outcome: Outcome) -> Response {
    Response {
        call_id,
        retry_count: 0,
        client_id: Bytes::copy_from_slice(&CLIENT),
        state_id: None,
        router_state: None,
        outcome,
    }
}

#[test]
fn a_connection_starts() {
    let user = User::new("alice");
    let start = connection_start(&CLIENT, &user, CLIENT_PROTOCOL);
    assert_eq!(start, [unhex(PREAMBLE), unhex(CONTEXT)].concat());
    assert_eq!(parse_preamble(start.first_chunk().unwrap()), Ok(()));
    let incoming = parse_incoming(body(CONTEXT)).unwrap();
    assert_eq!(
        incoming,
        Incoming::Context(user, CLIENT_PROTOCOL.to_owned())
    );
    // Somebody for somebody else.
    let proxied = User {
        effective: "bob".to_owned(),
        real: Some("root".to_owned()),
    };
    let start = connection_start(&CLIENT, &proxied, "p");
    let context = start.slice(PREAMBLE_BYTES + 4..);
    let incoming = parse_incoming(context).unwrap();
    assert_eq!(incoming, Incoming::Context(proxied, "p".to_owned()));
}

#[test]
fn foreign_starts_are_refused() {
    for (start, code) in [
        (b"hrpc\x08\0\0", Code::WrongVersion),
        (b"HBas\x09\0\0", Code::WrongVersion),
        (b"hrpc\x09\0\xdf", Code::BadAuth),
    ] {
        assert_eq!(parse_preamble(start).unwrap_err().code(), code);
    }
    let error = parse_incoming(body(NEGOTIATE)).unwrap_err();
    assert_eq!(error.code(), Code::BadAuth);
    assert!(foreign(*b"HTTP").unwrap().contains("web port"));
    assert_eq!(foreign([0, 0, 0, 9]), None);
}

#[test]
fn requests() {
    for (golden, retry_count) in [(CALL, 0), (CALL_AGAIN, 1)] {
        let request = get_file_info(retry_count);
        let mut out = BytesMut::new();
        encode_request(&mut out, &request).unwrap();
        assert_eq!(out, unhex(golden));
        assert_eq!(
            parse_incoming(body(golden)).unwrap(),
            Incoming::Call(request)
        );
    }
    let mut out = BytesMut::new();
    encode_ping(&mut out, &CLIENT);
    assert_eq!(out, unhex(PING));
    assert_eq!(parse_incoming(body(PING)).unwrap(), Incoming::Ping);
}

#[test]
fn a_request_carries_what_the_client_has_seen() {
    let request = Request {
        state_id: Some(-7),
        router_state: Some(Bytes::from_static(b"opaque")),
        ..get_file_info(3)
    };
    let mut out = BytesMut::new();
    encode_request(&mut out, &request).unwrap();
    let incoming = parse_incoming(out.freeze().slice(4..)).unwrap();
    assert_eq!(incoming, Incoming::Call(request));
}

#[test]
fn a_request_over_the_limit_leaves_nothing_behind() {
    let mut out = BytesMut::from(&b"before"[..]);
    let request = Request {
        body: vec![0; FRAME_MAX].into(),
        ..get_file_info(0)
    };
    let error = encode_request(&mut out, &request).unwrap_err();
    assert_eq!(error.code(), Code::RequestTooBig);
    assert_eq!(out, &b"before"[..]);
}

#[test]
fn answers() {
    let standby = RemoteException {
        class: "org.apache.hadoop.ipc.StandbyException".to_owned(),
        message: "Operation category READ is not supported in state standby".to_owned(),
        detail: 1,
    };
    let mismatch = RemoteException {
        class: "org.apache.hadoop.ipc.RPC$VersionMismatch".to_owned(),
        message: "x".to_owned(),
        detail: 14,
    };
    assert!(standby.is_of_method() && !mismatch.is_of_method());
    let fatal = Response {
        client_id: Bytes::new(),
        retry_count: NO_RETRY_COUNT,
        ..answer(UNKNOWN_CALL_ID, Outcome::Fatal(mismatch))
    };
    for (golden, response) in [
        (STANDBY, answer(0, Outcome::Error(standby))),
        (EMPTY, answer(0, Outcome::Success(Bytes::new()))),
        (MISMATCH, fatal),
    ] {
        assert_eq!(parse_response(body(golden)).unwrap(), response);
        let mut out = BytesMut::new();
        encode_response(&mut out, &response).unwrap();
        assert_eq!(out, unhex(golden));
    }
    // The header says whose answer it is, before the rest has come.
    let header = body(MISMATCH).slice(1..);
    assert_eq!(response_call_id(header), Ok(UNKNOWN_CALL_ID));
}

#[test]
fn a_stack_trace_is_cut_off() {
    let thrown = RemoteException {
        class: "java.io.IOException".to_owned(),
        message: "no\nsecond line\n\tat org.example.A.b(A.java:1)\n\tat c".to_owned(),
        detail: 1,
    };
    let mut out = BytesMut::new();
    encode_response(&mut out, &answer(1, Outcome::Error(thrown))).unwrap();
    let Outcome::Error(read) = parse_response(out.freeze().slice(4..)).unwrap().outcome else {
        panic!("an error stays one");
    };
    assert_eq!(read.message, "no\nsecond line");
    let long = "é".repeat(EXCEPTION_TEXT_MAX);
    assert_eq!(cut(&long).len(), EXCEPTION_TEXT_MAX);
    assert_eq!(cut(&long[2..]).len(), EXCEPTION_TEXT_MAX);
}

#[test]
fn left_over_and_missing_bytes_are_refused() {
    for golden in [CONTEXT, CALL, PING] {
        let longer = [&body(golden)[..], b"\0"].concat();
        assert!(parse_incoming(longer.into()).is_err());
    }
    for golden in [STANDBY, EMPTY, MISMATCH] {
        let whole = body(golden);
        let longer = [&whole[..], b"\0"].concat();
        assert!(parse_response(longer.into()).is_err());
        for cut in 0..whole.len() {
            assert!(
                parse_response(whole.slice(..cut)).is_err(),
                "{golden} {cut}"
            );
        }
    }
}

#[test]
fn router_states_are_merged() {
    let state = |pairs: &[(&str, i64)]| {
        crate::encode(&pb::RouterFederatedStateProto {
            namespace_state_ids: pairs
                .iter()
                .map(|(name, id)| ((*name).to_owned(), *id))
                .collect(),
        })
    };
    let merged = merge_router_state(
        state(&[("a", 5), ("b", 1)]),
        state(&[("a", 3), ("b", 2), ("c", 9)]),
    );
    assert_eq!(merged, Ok(state(&[("a", 5), ("b", 2), ("c", 9)])));
    assert!(merge_router_state(state(&[]), Bytes::from_static(b"\x0a\x05a")).is_err());
}
