//! Golden bytes of section 12, and round trips.

use proptest::prelude::*;

use super::*;
use crate::encode;
use crate::testing::unhex;

/// A frame without its length, which must be right.
fn body(frame: &[u8]) -> Bytes {
    let (length, rest) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, rest.len());
    Bytes::copy_from_slice(rest)
}

#[test]
fn golden_request() {
    let golden = unhex("000000141208011a0c476574436c75737465724964200100");
    // The golden bytes have one varint before the message's empty body, and the header's length in front.
    let request = Request {
        call_id: 1,
        method: "GetClusterId".to_owned(),
        ..Default::default()
    };
    let mut out = BytesMut::new();
    encode_request(&mut out, &request).unwrap();
    assert_eq!(&out[..], &golden[..]);
    assert_eq!(parse_request(body(&golden)).unwrap(), request);
}

#[test]
fn golden_response() {
    let golden = unhex("00000008020801040a026331");
    let message = encode(&pb::GetClusterIdResponse {
        cluster_id: Some("c1".to_owned()),
    });
    let mut out = BytesMut::new();
    encode_response(&mut out, 1, Ok((&message, &[])));
    assert_eq!(&out[..], &golden[..]);
    let parsed = parse_response(body(&golden)).unwrap();
    assert_eq!(parsed.call_id, 1);
    assert_eq!(parsed.outcome.unwrap(), (message, Bytes::new()));
}

#[test]
fn exceptions_have_no_body() {
    let error = Error::new(Code::TableNotFound, "t");
    let mut out = BytesMut::new();
    encode_response(&mut out, 7, Err(&error));
    let mut frame = body(&out);
    let header: pb::ResponseHeader = decode(delimited(&mut frame).unwrap()).unwrap();
    assert!(header.exception.is_some() && frame.is_empty());
    let parsed = parse_response(body(&out)).unwrap();
    assert_eq!((parsed.call_id, parsed.outcome), (7, Err(error)));
}

/// hbase-driver's request: a header length of one byte, and a parameter length whose bytes went through a UTF-8 encoder.
fn python_request(param: &[u8]) -> Bytes {
    let header = encode(&pb::RequestHeader {
        call_id: Some(512),
        method_name: Some("Mutate".to_owned()),
        request_param: Some(true),
        ..Default::default()
    });
    let mut length = Vec::new();
    encode_varint(param.len() as u64, &mut length);
    let length: String = length.iter().map(|b| char::from(*b)).collect();
    let mut frame = vec![header.len() as u8];
    frame.extend_from_slice(&header);
    frame.extend_from_slice(length.as_bytes());
    frame.extend_from_slice(param);
    frame.into()
}

#[test]
fn too_long_parameter_lengths_of_hbase_driver_are_taken() {
    for len in [
        0, 1, 127, 128, 200, 255, 256, 16_383, 16_384, 20_000, 2_100_000,
    ] {
        let param = vec![0xab; len];
        let request = parse_request(python_request(&param)).unwrap();
        assert_eq!(request.param.len(), len);
        assert_eq!((request.call_id, &request.method[..]), (512, "Mutate"));
    }
    let mut length = Vec::new();
    encode_varint(200, &mut length);
    let text: String = length.iter().map(|b| char::from(*b)).collect();
    assert_eq!(text.as_bytes(), [0xc3, 0x88, 0x01]);
}

#[test]
fn a_false_length_beside_a_cell_block_is_refused() {
    let header = pb::RequestHeader {
        call_id: Some(3),
        method_name: Some("Multi".to_owned()),
        request_param: Some(true),
        cell_block_meta: Some(pb::CellBlockMeta { length: Some(4) }),
        ..Default::default()
    };
    for (announced, given) in [(100_u64, 10), (5, 10), (u64::MAX, 10)] {
        let mut frame = BytesMut::new();
        encode_varint(header.encoded_len() as u64, &mut frame);
        header.encode(&mut frame).unwrap();
        encode_varint(announced, &mut frame);
        frame.put_bytes(0, given + 4);
        let error = parse_request(frame.freeze()).unwrap_err();
        assert_eq!(error.call_id, Some(3));
        assert_eq!(error.error.code(), Code::Corrupt);
    }
}

#[test]
fn a_call_without_parameter_is_refused_by_its_id() {
    let header = pb::RequestHeader {
        call_id: Some(9),
        method_name: Some("Get".to_owned()),
        ..Default::default()
    };
    let mut frame = BytesMut::new();
    encode_varint(header.encoded_len() as u64, &mut frame);
    header.encode(&mut frame).unwrap();
    let error = parse_request(frame.freeze()).unwrap_err();
    assert_eq!(
        (error.call_id, error.error.code()),
        (Some(9), Code::DoNotRetryIo)
    );
    assert_eq!(parse_request(Bytes::new()).unwrap_err().call_id, None);
}

#[test]
fn parts_are_slices_of_the_frame() {
    let request = Request {
        call_id: 1,
        method: "Multi".to_owned(),
        param: Bytes::from_static(b"param"),
        cells: Bytes::from_static(b"cells"),
        timeout_ms: None,
        priority: None,
    };
    let mut out = BytesMut::new();
    encode_request(&mut out, &request).unwrap();
    let frame = body(&out);
    let inside = frame.as_ptr_range();
    let parsed = parse_request(frame).unwrap();
    for part in [&parsed.param, &parsed.cells] {
        assert!(inside.contains(&part.as_ptr()));
    }
}

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

proptest! {
    #[test]
    fn requests_come_back(
        call_id: u32,
        method in "[A-Za-z]{0,20}",
        param in bytes(300),
        cells in bytes(300),
        timeout_ms in prop::option::of(1..=u32::MAX),
        priority: Option<u32>,
    ) {
        let request = Request { call_id, method, param, cells, timeout_ms, priority };
        let mut out = BytesMut::new();
        encode_request(&mut out, &request).unwrap();
        prop_assert_eq!(parse_request(body(&out)).unwrap(), request);
    }

    #[test]
    fn responses_come_back(call_id: u32, message in bytes(300), cells in bytes(300)) {
        let mut out = BytesMut::new();
        encode_response(&mut out, call_id, Ok((&message, &cells)));
        let expected = Response { call_id, outcome: Ok((message, cells)) };
        prop_assert_eq!(parse_response(body(&out)).unwrap(), expected);
    }
}
