//! Golden bytes both ways, and decoders against damaged ones; against arbitrary bytes: `tests/frames.rs`.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

/// Bytes of hex digits.
pub(crate) fn hex(digits: &str) -> Bytes {
    let digit = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(digit).collect()
}

/// Kind, name and bytes of every recorded frame.
pub(crate) fn golden_frames() -> impl Iterator<Item = (&'static str, &'static str, Bytes)> {
    let lines = include_str!("golden.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        (word(), word(), hex(word()))
    })
}

/// A recorded request (`request`), reply (`reply`, whatever its opcode) or event by name, with its length.
pub(crate) fn golden(kind: &str, name: &str) -> Bytes {
    let found = golden_frames().find(|(k, n, _)| k.split(':').next() == Some(kind) && *n == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}")).2
}

fn body(frame: &Bytes) -> Bytes {
    let length = u32::from_be_bytes(frame[..4].try_into().unwrap());
    assert_eq!(length as usize, frame.len() - 4, "the length prefix");
    frame.slice(4..)
}

fn encoded(encode: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    encode(&mut out);
    out.freeze()
}

#[test]
fn golden_bytes_both_ways() {
    let mut seen = 0;
    for (kind, name, frame) in golden_frames() {
        let mut reader = Reader::new(body(&frame));
        let again = match kind.split(':').collect::<Vec<_>>()[..] {
            ["connect"] => {
                let request = ConnectRequest::decode(body(&frame)).unwrap();
                encoded(|out| request.encode(out))
            }
            ["connected"] => {
                let response = ConnectResponse::decode(body(&frame)).unwrap();
                encoded(|out| response.encode(out))
            }
            ["request"] => {
                let header = RequestHeader::decode(&mut reader).unwrap();
                let request = Request::decode(header.opcode, &mut reader).unwrap();
                assert_eq!(reader.remaining(), 0, "{name}: all is read");
                assert_eq!(request.opcode(), header.opcode, "{name}");
                encoded(|out| request.encode(header.xid, out))
            }
            ["reply", opcode] => {
                let header = ReplyHeader::decode(&mut reader).unwrap();
                let opcode = opcode.parse().unwrap();
                let answer =
                    (header.err == 0).then(|| Response::decode(opcode, &mut reader).unwrap());
                assert_eq!(reader.remaining(), 0, "{name}: all is read");
                encoded(|out| Response::encode_reply(header, answer.as_ref(), out))
            }
            ["event"] => {
                let header = ReplyHeader::decode(&mut reader).unwrap();
                assert_eq!((header.xid, header.zxid, header.err), (XID_EVENT, -1, 0));
                let event = WatcherEvent::decode(&mut reader).unwrap().unwrap();
                encoded(|out| event.encode(out))
            }
            _ => panic!("unknown kind {kind}"),
        };
        assert_eq!(again, frame, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 61, "every recorded frame is looked at");
}

#[test]
fn recorded_requests_say_what_they_say() {
    let decode = |name| {
        let mut reader = Reader::new(body(&golden("request", name)));
        let header = RequestHeader::decode(&mut reader).unwrap();
        (
            header.xid,
            Request::decode(header.opcode, &mut reader).unwrap(),
        )
    };
    let connect = ConnectRequest::decode(body(&golden("connect", "connect-java"))).unwrap();
    assert_eq!(
        (connect.timeout_ms, connect.read_only),
        (90_000, Some(false))
    );
    let connect = ConnectRequest::decode(body(&golden("connect", "connect-go"))).unwrap();
    assert_eq!((connect.timeout_ms, connect.read_only), (30_000, None));
    let create = Create {
        form: CreateForm::Plain,
        path: "/t/s-".into(),
        data: None,
        acl: Acl::open(),
        flags: 3,
    };
    assert_eq!(decode("create-s-ephemeral"), (11, Request::Create(create)));
    let watches = SetWatches {
        relative_zxid: 0x23f,
        data: vec!["/hbase/master".into()],
        exist: vec!["/hbase/nothere".into()],
        child: vec!["/hbase/rs".into()],
        persistent: Some((vec!["/hbase/replication".into()], vec![])),
    };
    assert_eq!(decode("set-watches2"), (46, Request::SetWatches(watches)));
    assert_eq!(
        decode("multi-read").1,
        Request::MultiRead(vec![
            Request::GetData {
                path: "/t".into(),
                watch: false
            },
            Request::GetChildren {
                path: "/t".into(),
                watch: false
            },
        ])
    );
}

#[test]
fn what_is_announced_but_missing_allocates_nothing() {
    let strings = |count: &str| Reader::new(hex(count)).strings();
    assert!(
        strings("7fffffff").is_err(),
        "2 billion strings in no bytes"
    );
    assert!(strings("fffffffe").is_err(), "a negative count");
    assert_eq!(strings("ffffffff"), Ok(vec![]), "null");
    let buffer = |length: &str| Reader::new(hex(length)).buffer();
    assert!(buffer("7fffffff").is_err());
    assert!(buffer("fffffffe").is_err());
    assert_eq!(buffer("ffffffff"), Ok(None));
    assert_eq!(buffer("00000000"), Ok(Some(Bytes::new())));
    let nested = Request::Multi(vec![Request::Multi(vec![])]);
    let frame = encoded(|out| nested.encode(1, out));
    let mut reader = Reader::new(frame.slice(12..));
    assert!(Request::decode(op::MULTI, &mut reader).is_err());
    // sync without a path is taken (recorded as allowed).
    let sync = Request::decode(op::SYNC, &mut Reader::new(Bytes::new()));
    assert_eq!(sync, Ok(Request::Sync { path: "".into() }));
    assert_eq!(
        Request::decode(77, &mut Reader::new(Bytes::new())),
        Err(Unreadable::Unknown)
    );
}

#[test]
fn error_codes_go_both_ways() {
    for &code in ErrorCode::ALL {
        assert_eq!(ErrorCode::from_code(code.code()), Some(code));
        assert_eq!(ErrorCode::from_class(code.class()), Some(code));
    }
    assert_eq!(
        ErrorCode::NodeExists.class(),
        "org.apache.zookeeper.KeeperException$NodeExistsException"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Damage near real frames reaches deeper than noise does.
    #[test]
    fn damaged_frames_never_panic(at in 0..61_usize, changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let (kind, _, frame) = golden_frames().nth(at).unwrap();
        let mut bytes = frame[4..].to_vec();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let bytes = Bytes::from(bytes);
        let _ = ConnectRequest::decode(bytes.clone());
        let _ = ConnectResponse::decode(bytes.clone());
        let mut reader = Reader::new(bytes.clone());
        if let Ok(header) = RequestHeader::decode(&mut reader) {
            let _ = Request::decode(header.opcode, &mut reader);
        }
        let mut reader = Reader::new(bytes);
        if ReplyHeader::decode(&mut reader).is_ok() {
            let opcode = kind.split(':').nth(1).map_or(14, |opcode| opcode.parse().unwrap());
            let _ = Response::decode(opcode, &mut reader);
        }
    }
}
