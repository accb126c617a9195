//! Tests of the check: no false refusals, no way around it, and sizes that are true.

use bytes::Bytes;

use super::*;
use crate::{decode, encode, pb};

#[test]
fn shapes_are_sorted_and_sizes_are_upper_bounds() {
    assert!(SHAPES.is_sorted_by(|a, b| (a.package, a.name) < (b.package, b.name)));
    let size = |name: &str| {
        SHAPES
            .iter()
            .find(|shape| shape.package == "hbase.pb" && shape.name == name)
            .map(|shape| shape.size)
            .unwrap()
    };
    let checks = [
        ("Action", size_of::<pb::Action>()),
        ("MutationProto", size_of::<pb::MutationProto>()),
        (
            "MutationProto.ColumnValue.QualifierValue",
            size_of::<pb::mutation_proto::column_value::QualifierValue>(),
        ),
        ("RegionAction", size_of::<pb::RegionAction>()),
        ("Cell", size_of::<pb::Cell>()),
        ("Result", size_of::<pb::Result>()),
        ("ResultOrException", size_of::<pb::ResultOrException>()),
        ("Get", size_of::<pb::Get>()),
        ("Scan", size_of::<pb::Scan>()),
        ("RegionInfo", size_of::<pb::RegionInfo>()),
        ("RegionLoad", size_of::<pb::RegionLoad>()),
        ("ServerLoad", size_of::<pb::ServerLoad>()),
        ("TableSchema", size_of::<pb::TableSchema>()),
        ("NameBytesPair", size_of::<pb::NameBytesPair>()),
        ("BytesBytesPair", size_of::<pb::BytesBytesPair>()),
        ("TableName", size_of::<pb::TableName>()),
    ];
    for (name, real) in checks {
        assert!(
            real <= size(name),
            "{name}: {real} bytes, {} said",
            size(name)
        );
    }
}

#[test]
fn empty_elements_in_masses_are_refused() {
    // MultiRequest { regionAction: [{ action: [{}, {}, …] }] }
    let actions = [0x1a_u8, 0x00].repeat(4_000_000);
    let mut message = vec![0x0a];
    prost::encoding::encode_varint(actions.len() as u64, &mut message);
    message.extend_from_slice(&actions);
    let error = decode::<pb::MultiRequest>(message.into()).unwrap_err();
    assert_eq!(error.code(), Code::RequestTooBig);

    // The same behind the start of a group.
    let mut hidden = vec![0x7b];
    hidden.extend([0x0a, 0x00].repeat(4_000_000));
    let error = decode::<pb::MultiResponse>(hidden.into()).unwrap_err();
    assert_eq!(error.code(), Code::RequestTooBig);

    // Numbers, packed.
    let mut packed = vec![0x0a];
    let numbers = vec![1_u8; 40_000_000];
    prost::encoding::encode_varint(numbers.len() as u64, &mut packed);
    packed.extend_from_slice(&numbers);
    let error = decode::<pb::TimestampsFilter>(packed.into()).unwrap_err();
    assert_eq!(error.code(), Code::RequestTooBig);
}

#[test]
fn large_honest_messages_pass() {
    let value = Bytes::from(vec![7; 10 * 1024 * 1024]);
    let put = pb::MutationProto {
        row: Some(Bytes::from_static(b"r")),
        column_value: vec![pb::mutation_proto::ColumnValue {
            family: Bytes::from_static(b"f"),
            qualifier_value: vec![Default::default(); 1000],
        }],
        attribute: vec![pb::NameBytesPair {
            name: "a".to_owned(),
            value: Some(value),
        }],
        ..Default::default()
    };
    let action = pb::Action {
        index: Some(1),
        mutation: Some(put),
        ..Default::default()
    };
    let request = pb::MultiRequest {
        region_action: vec![pb::RegionAction {
            action: vec![action; 20],
            ..Default::default()
        }],
        ..Default::default()
    };
    let gets = pb::Action {
        index: Some(1),
        get: Some(pb::Get {
            row: Bytes::from_static(b"r"),
            ..Default::default()
        }),
        ..Default::default()
    };
    let many = pb::MultiRequest {
        region_action: vec![pb::RegionAction {
            action: vec![gets; 20_000],
            ..Default::default()
        }],
        ..Default::default()
    };
    for request in [request, many] {
        assert_eq!(
            decode::<pb::MultiRequest>(encode(&request)).unwrap(),
            request
        );
    }
}

#[test]
fn required_fields_are_required_at_every_depth() {
    let missing = |error: cadastre_types::Error| {
        assert_eq!(error.code(), Code::Corrupt);
        error.message().to_owned()
    };
    assert_eq!(
        missing(decode::<pb::GetRequest>(Bytes::new()).unwrap_err()),
        "a message GetRequest without its required field region"
    );
    // Its region is there, but not the region's value.
    assert_eq!(
        missing(decode::<pb::GetRequest>(Bytes::from_static(&[0x0a, 2, 8, 1])).unwrap_err()),
        "a message RegionSpecifier without its required field value"
    );
    assert_eq!(
        missing(decode::<pb::MultiRequest>(Bytes::from_static(&[0x0a, 0])).unwrap_err()),
        "a message RegionAction without its required field region"
    );
    // What the encoder writes always has them.
    for bytes in [
        encode(&pb::GetRequest::default()),
        encode(&pb::OpenRegionRequest {
            open_info: vec![Default::default()],
            ..Default::default()
        }),
    ] {
        assert!(!bytes.is_empty());
    }
    assert!(decode::<pb::GetRequest>(encode(&pb::GetRequest::default())).is_ok());
    assert!(decode::<pb::ScanRequest>(Bytes::new()).is_ok());
}
