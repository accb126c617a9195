//! Every decoder on arbitrary bytes, and on good bytes with damage: none panics, none allocates beyond its bound.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of the test functions"
)]

mod entry;

use bytes::{Bytes, BytesMut};
use cadastre_types::{Cell, Code, Error, FamilyDescriptor, RegionInfo, TableDescriptor, TableName};
use cadastre_wire::cells::{Codec, Compressor, write_cell};
use cadastre_wire::{
    Message, convert, encode, exception, frame, hadoop, meta, pb, preamble, znode,
};
use entry::Entry;
use proptest::prelude::*;

/// What a decoder may hold whatever the input: its error's text, small messages.
const BASE: u64 = 16 * 1024;

/// What the libraries of gzip and zlib set up per stream, both ways.
const COMPRESSOR_STATE: u64 = 1024 * 1024;

fn check(entry: &Entry, data: &[u8]) {
    let seen = allocation_counter::measure(|| entry::run(entry.name, data));
    let base = match entry.name {
        "compressed" => BASE + COMPRESSOR_STATE + 4 * entry::DECOMPRESSED_MAX as u64,
        _ => BASE,
    };
    let bound = base + entry.bytes_per_byte * data.len() as u64;
    assert!(
        seen.bytes_max <= bound,
        "{} held {} bytes for {} of input",
        entry.name,
        seen.bytes_max,
        data.len()
    );
}

fn with_block(message: &impl Message, block: &[u8]) -> Vec<u8> {
    let message = encode(message);
    let len = (message.len() as u16).to_be_bytes();
    [&len[..], &message, block].concat()
}

/// Good inputs of every decoder, to be damaged.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let part = |text: &'static str| Bytes::from_static(text.as_bytes());
    let cell = Cell::put(part("row"), part("f"), part("q"), 5, part("12345678"));
    let mut block = BytesMut::new();
    write_cell(&mut block, &cell, Codec::KeyValueWithTags);
    write_cell(&mut block, &cell, Codec::KeyValueWithTags);
    let mutation = pb::MutationProto {
        row: Some(part("row")),
        mutate_type: Some(pb::mutation_proto::MutationType::Put as i32),
        associated_cell_count: Some(1),
        ..Default::default()
    };
    let mut inline = mutation.clone();
    inline.associated_cell_count = None;
    inline.column_value = vec![pb::mutation_proto::ColumnValue {
        family: part("f"),
        qualifier_value: vec![pb::mutation_proto::column_value::QualifierValue {
            qualifier: Some(part("q")),
            value: Some(part("12345678")),
            timestamp: Some(7),
            delete_type: None,
            tags: None,
        }],
    }];
    let info = RegionInfo::new(TableName::parse("ns:t").unwrap(), part("a"), part("b"), 7);
    let region = convert::region_specifier(&info);
    let condition = pb::Condition {
        row: part("row"),
        family: Some(part("f")),
        compare_type: Some(2),
        ..Default::default()
    };
    let mutate = pb::MutateRequest {
        region: region.clone(),
        mutation: inline,
        condition: Some(condition),
        nonce_group: None,
    };
    let get = pb::Get {
        row: part("row"),
        column: vec![pb::Column {
            family: part("f"),
            qualifier: vec![part("q")],
        }],
        ..Default::default()
    };
    let action = |mutation, get| pb::Action {
        index: Some(1),
        mutation,
        get,
        service_call: None,
    };
    let multi = pb::MultiRequest {
        region_action: vec![pb::RegionAction {
            region: region.clone(),
            action: vec![
                action(Some(mutation), None),
                action(None, Some(get.clone())),
            ],
            ..Default::default()
        }],
        ..Default::default()
    };
    let scan = pb::ScanRequest {
        region: Some(region.clone()),
        scan: Some(pb::Scan {
            start_row: Some(part("a")),
            stop_row: Some(part("a")),
            attribute: vec![pb::NameBytesPair {
                name: "_raw_".to_owned(),
                value: Some(part("\u{1}")),
            }],
            time_range: Some(pb::TimeRange::default()),
            ..Default::default()
        }),
        ..Default::default()
    };
    let table = TableDescriptor::new(info.table.clone())
        .with_family(FamilyDescriptor::new("f").with("VERSIONS", "3"));
    let entry = meta::MetaEntry {
        info: info.clone(),
        server: cadastre_types::ServerName::parse("h,1,2").ok(),
        open_seq: 3,
        state: "OPEN".to_owned(),
        split_daughters: None,
        merged_from: Vec::new(),
    };
    let mut row = BytesMut::new();
    for cell in entry.to_cells() {
        write_cell(&mut row, &cell, Codec::KeyValue);
    }
    let mut request = BytesMut::new();
    frame::encode_request(
        &mut request,
        &frame::Request {
            call_id: 5,
            method: "Multi".to_owned(),
            param: encode(&multi),
            cells: block.clone().freeze(),
            timeout_ms: Some(100),
            priority: None,
        },
    )
    .unwrap();
    let mut response = BytesMut::new();
    frame::encode_response(&mut response, 5, Ok((b"body", &block)));
    let error = Error::new(Code::TableNotFound, "t");
    let start = preamble::connection_start(
        &preamble::ConnectionInfo {
            user: "root".to_owned(),
            real_user: None,
            service: cadastre_wire::Service::Client,
            codec: Some(Codec::KeyValue),
            compressor: None,
            version: Some((2, 6)),
        },
        "2.6.4",
    );
    let writer = znode::Writer { id: "m", salt: 1 };
    let mut all = vec![
        ("request_frame", request[4..].to_vec()),
        ("response_frame", response[4..].to_vec()),
        ("preamble", [&start[..6], &start[10..]].concat()),
        ("cell_block", [&[1], &block[..]].concat()),
        ("mutate", with_block(&mutate, &block)),
        ("multi", with_block(&multi, &block)),
        ("get", encode(&pb::GetRequest { region, get }).to_vec()),
        ("scan", encode(&scan).to_vec()),
        (
            "result",
            with_block(&convert::result_by_count(2).unwrap(), &block),
        ),
        ("result", with_block(&convert::result_pb(&[cell]), &[])),
        (
            "schema",
            encode(&convert::table_schema(&table, true)).to_vec(),
        ),
        ("names", encode(&convert::region_info_pb(&info)).to_vec()),
        (
            "exception",
            encode(&exception::to_response(&error)).to_vec(),
        ),
        ("meta_row", row.to_vec()),
        ("znode", znode::cluster_id(writer, "c1").to_vec()),
    ];
    all.extend(hadoop_seeds());
    for (pick, compressor) in (0..).zip(Compressor::ALL) {
        let compressed = compressor.compress(&block.repeat(20)).unwrap();
        all.push(("compressed", [&[pick], &compressed[..]].concat()));
    }
    all
}

fn hadoop_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let request = hadoop::Request {
        client_id: Bytes::from_static(b"0123456789abcdef"),
        call_id: 5,
        retry_count: 2,
        state_id: Some(7),
        method: "mkdirs".to_owned(),
        protocol: "org.apache.hadoop.hdfs.protocol.ClientProtocol".to_owned(),
        version: 1,
        body: Bytes::from_static(b"body"),
        ..Default::default()
    };
    let mut call = BytesMut::new();
    hadoop::encode_request(&mut call, &request).unwrap();
    let response = |outcome| {
        let mut out = BytesMut::new();
        let response = hadoop::Response {
            call_id: 5,
            retry_count: 2,
            client_id: request.client_id.clone(),
            state_id: Some(7),
            router_state: None,
            outcome,
        };
        hadoop::encode_response(&mut out, &response).unwrap();
        out[4..].to_vec()
    };
    let thrown = hadoop::RemoteException {
        class: "java.io.IOException".to_owned(),
        message: "no".to_owned(),
        detail: 1,
    };
    let status = hadoop::pb::HdfsFileStatusProto {
        file_type: 1,
        path: Bytes::from_static(b"p"),
        owner: "o".to_owned(),
        group: "g".to_owned(),
        ..Default::default()
    };
    let mut packet = BytesMut::new();
    let checksum = hadoop::transfer::Checksum::crc32c(512).unwrap();
    hadoop::transfer::put_packet(&mut packet, checksum, (0, 1), (false, true), b"data");
    let listing = hadoop::pb::GetListingResponseProto {
        dir_list: Some(hadoop::pb::DirectoryListingProto {
            partial_listing: vec![status.clone(), status],
            remaining_entries: 0,
        }),
    };
    vec![
        ("hadoop_request", call[4..].to_vec()),
        (
            "hadoop_response",
            response(hadoop::Outcome::Success("ok".into())),
        ),
        ("hadoop_response", response(hadoop::Outcome::Error(thrown))),
        ("hadoop_messages", encode(&listing).to_vec()),
        ("hadoop_transfer", packet.to_vec()),
    ]
}

fn find(name: &str) -> &'static Entry {
    entry::ALL.iter().find(|entry| entry.name == name).unwrap()
}

#[test]
fn good_bytes_pass() {
    for (name, bytes) in seeds() {
        check(find(name), &bytes);
    }
    for entry in entry::ALL {
        assert!(
            seeds().iter().any(|seed| seed.0 == entry.name),
            "{}",
            entry.name
        );
        check(entry, &[]);
    }
}

#[test]
fn every_cut_and_every_flipped_byte() {
    for (name, bytes) in seeds() {
        let entry = find(name);
        for at in 0..bytes.len() {
            check(entry, &bytes[..at]);
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                check(entry, &damaged);
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes(data in prop::collection::vec(any::<u8>(), 0..600)) {
        for entry in entry::ALL {
            check(entry, &data);
        }
    }

    /// Small bytes are field keys and lengths more often than large ones.
    #[test]
    fn arbitrary_small_bytes(data in prop::collection::vec(0_u8..64, 0..300)) {
        for entry in entry::ALL {
            check(entry, &data);
        }
    }

    #[test]
    fn good_bytes_damaged_in_many_places(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        insert in prop::collection::vec(any::<u8>(), 0..8),
        at: prop::sample::Index,
    ) {
        let seeds = seeds();
        let (name, mut bytes) = seeds[which.index(seeds.len())].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let at = at.index(bytes.len());
        bytes.splice(at..at, insert);
        check(find(name), &bytes);
    }
}
