//! Golden bytes of section 12, and bad starts of 1.6.

use super::*;
use crate::testing::unhex;

fn root(version: Option<(u32, u32)>) -> ConnectionInfo {
    ConnectionInfo {
        user: "root".to_owned(),
        real_user: None,
        service: Service::Client,
        codec: Some(Codec::KeyValue),
        compressor: None,
        version,
    }
}

#[test]
fn golden_start() {
    let start = connection_start(&root(None), "");
    let preamble = unhex("484261730050");
    let header = unhex(
        "000000440a060a04726f6f74120d436c69656e74536572766963651a2b6f72672e6170616368652e6861646f\
         6f702e68626173652e636f6465632e4b657956616c7565436f646563",
    );
    assert_eq!(&start[..], [&preamble[..], &header[..]].concat());
    let first = <[u8; PREAMBLE_LEN]>::try_from(&preamble[..]).unwrap();
    assert_eq!(
        Preamble::parse(&first).unwrap(),
        Preamble::Hbase(Auth::Simple)
    );
    assert_eq!(connection_header(header.slice(4..)).unwrap(), root(None));
}

#[test]
fn golden_registry_answer() {
    let mut out = BytesMut::new();
    registry_answer(&mut out, "c1");
    assert_eq!(&out[..], &unhex("0000000c0608ffffffff0f040a026331")[..]);
}

#[test]
fn special_words_and_bad_starts() {
    assert_eq!(Preamble::parse(b"Regist").unwrap(), Preamble::Registry);
    assert_eq!(Preamble::parse(b"Securi").unwrap(), Preamble::Security);
    for code in [0x51, 0x52] {
        let start = [b'H', b'B', b'a', b's', 0, code];
        assert_eq!(
            Preamble::parse(&start).unwrap(),
            Preamble::Hbase(Auth::Sasl(code))
        );
    }
    let bad = |start: &[u8; 6]| Preamble::parse(start).unwrap_err();
    let error = bad(b"GET / ");
    assert_eq!(error.code(), Code::FatalConnection);
    assert!(error.message().starts_with("Expected HEADER="));
    assert_eq!(bad(b"HBas\x01\x50").code(), Code::WrongVersion);
    assert_eq!(bad(b"HBas\x00\x4f").code(), Code::BadAuth);

    // The client looks at class and beginning of the text, which therefore has no class before it.
    let mut out = BytesMut::new();
    frame::encode_response(&mut out, frame::CONNECTION_CALL_ID, Err(&error));
    let response = frame::parse_response(out.freeze().slice(4..)).unwrap();
    assert_eq!((response.call_id, response.outcome), (u32::MAX, Err(error)));

    let mut out = BytesMut::new();
    security_answer(&mut out);
    let response = frame::parse_response(out.freeze().slice(4..)).unwrap();
    assert_eq!(
        response.outcome.unwrap_err().code(),
        Code::SecurityNotEnabled
    );
}

#[test]
fn headers_that_close_the_connection() {
    let header = |change: fn(&mut pb::ConnectionHeader)| {
        let mut header = pb::ConnectionHeader {
            service_name: Some("ClientService".to_owned()),
            ..Default::default()
        };
        change(&mut header);
        connection_header(encode(&header))
    };
    let code = |change| header(change).unwrap_err().code();
    assert_eq!(code(|it| it.service_name = None), Code::UnknownService);
    assert_eq!(
        code(|it| it.service_name = Some("X".to_owned())),
        Code::UnknownService
    );
    assert_eq!(
        code(|it| it.cell_block_codec_class = Some("X".to_owned())),
        Code::UnsupportedCellCodec
    );
    assert_eq!(
        code(|it| {
            it.cell_block_codec_class = Some(Codec::KeyValue.class().to_owned());
            it.cell_block_compressor_class = Some("X".to_owned());
        }),
        Code::UnsupportedCompressionCodec
    );
    assert_eq!(
        code(|it| it.cell_block_compressor_class = Some(Compressor::Gzip.class().to_owned())),
        Code::UnsupportedCompressionCodec
    );
    // An empty codec class switches cell blocks off.
    let plain = header(|it| it.cell_block_codec_class = Some(String::new())).unwrap();
    assert_eq!(
        (plain.codec, plain.version, &plain.user[..]),
        (None, None, "")
    );
    let big = vec![0; CONNECTION_HEADER_MAX + 1];
    assert_eq!(
        connection_header(big.into()).unwrap_err().code(),
        Code::RequestTooBig
    );
}

#[test]
fn versions() {
    let info = root(Some((2, 6)));
    let start = connection_start(&info, "2.6.4");
    let back = connection_header(start.slice(PREAMBLE_LEN + 4..)).unwrap();
    assert_eq!(back, info);
    let text = |text: &str| {
        version(&pb::VersionInfo {
            version: text.to_owned(),
            ..Default::default()
        })
    };
    assert_eq!(text("2.4.18"), Some((2, 4)));
    assert_eq!(text("3.0.0-beta-1"), Some((3, 0)));
    assert_eq!(text("unknown"), None);
}
