//! Golden bytes, round trips and garbage.

use bytes::Bytes;
use proptest::prelude::*;
use slatedb::{RowEntry, ValueDeletable};

use super::*;

fn row(key: &'static [u8], value: ValueDeletable, seq: u64, times: bool) -> RowEntry {
    RowEntry {
        key: Bytes::from_static(key),
        value,
        seq,
        create_ts: times.then_some(258),
        expire_ts: None,
    }
}

fn group(records: &[(u32, Encoded)], salt: u64, last: u64, synced: u64) -> Vec<u8> {
    let mut builder = GroupBuilder::new();
    builder.name(1, "data/x");
    for (id, record) in records {
        builder.record(*id, record);
    }
    builder.finish(salt, last, synced)
}

fn decode(salt: u64, bytes: &[u8]) -> Vec<Record> {
    let (header, body) = group_at(salt, bytes).expect("a whole group");
    records(&header, Bytes::copy_from_slice(body)).unwrap()
}

/// The bytes on disk: these values must never change.
#[test]
fn golden() {
    let header = SegmentHeader {
        version: VERSION,
        lane: 2,
        number: 3,
        salt: 4,
        synced_lsn: 5,
    };
    let bytes = header.encode();
    assert_eq!(
        &bytes[..40],
        b"CADALOG1\x02\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0"
    );
    assert_eq!(bytes[40..44], crc32fast::hash(&bytes[..40]).to_le_bytes());
    assert_eq!(SegmentHeader::decode(&bytes).unwrap(), Some(header));

    let rows = [
        row(
            b"k",
            ValueDeletable::Merge(Bytes::from_static(b"v")),
            300,
            true,
        ),
        row(b"d", ValueDeletable::Tombstone, 300, false),
    ];
    let bytes = group(&[(1, Encoded::rows(1, 9, 300, &rows))], 7, 9, 8);
    assert_eq!(&bytes[..8], b"\x0f\xa1\xad\x0c\x20\0\0\0");
    assert_eq!(
        &bytes[12..32],
        b"\x02\0\0\0\x09\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0"
    );
    assert_eq!(
        &bytes[32..],
        b"\x01\x01\x06data/x\
          \x02\x01\x01\x09\xac\x02\x02\
          \x11\x02\x01\0\0\0\0\0\0\x01k\x01v\
          \x02\x01d\
          \0\0\0\0\0"[..]
            .get(..bytes.len() - 32)
            .unwrap()
    );
}

#[test]
fn records_come_back() {
    let rows = vec![
        row(
            b"a",
            ValueDeletable::Value(Bytes::from_static(b"1")),
            5,
            true,
        ),
        row(b"b", ValueDeletable::Merge(Bytes::new()), 5, true),
        row(b"c", ValueDeletable::Tombstone, 5, false),
    ];
    let written = [
        (1, Encoded::fence(3, 10)),
        (1, Encoded::rows(3, 11, 5, &rows)),
        (1, Encoded::flushed(12)),
        (1, Encoded::deleted(13)),
    ];
    let read = decode(42, &group(&written, 42, 13, 0));
    assert_eq!(read.len(), 5);
    assert_eq!(
        read[0],
        Record::Name {
            id: 1,
            path: "data/x".to_owned()
        }
    );
    assert_eq!(
        read[1],
        Record::Fence {
            id: 1,
            epoch: 3,
            lsn: 10
        }
    );
    let Record::Rows {
        epoch: 3,
        lsn: 11,
        sequence: 5,
        rows: got,
        ..
    } = &read[2]
    else {
        panic!("{:?}", read[2]);
    };
    assert_eq!(got.decode(5), rows);
    assert_eq!(read[3], Record::Flushed { id: 1, lsn: 12 });
    assert_eq!(read[4], Record::Deleted { id: 1, lsn: 13 });
}

#[test]
fn a_group_of_another_segment_or_a_changed_one_is_none() {
    let bytes = group(&[(1, Encoded::fence(1, 2))], 1, 2, 0);
    assert!(group_at(1, &bytes).is_some());
    assert!(group_at(2, &bytes).is_none());
    // The zeros behind the body are padding, not part of the group.
    let body_end = GROUP_HEADER_LEN + GroupHeader::decode(&bytes).unwrap().body_len as usize;
    for at in 0..body_end {
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        assert!(group_at(1, &changed).is_none(), "byte {at}");
    }
}

#[test]
fn headers_are_judged() {
    assert_eq!(SegmentHeader::decode(&[0; 64]).unwrap(), None);
    assert_eq!(SegmentHeader::decode(b"short").unwrap(), None);
    let good = SegmentHeader {
        version: VERSION,
        lane: 0,
        number: 1,
        salt: 2,
        synced_lsn: 3,
    }
    .encode();
    for at in 0..44 {
        let mut bad = good;
        bad[at] ^= 1;
        assert!(SegmentHeader::decode(&bad).is_err(), "byte {at}");
    }
    let mut newer = good;
    newer[8] = 3;
    let crc = crc32fast::hash(&newer[..40]);
    newer[40..44].copy_from_slice(&crc.to_le_bytes());
    let error = SegmentHeader::decode(&newer).unwrap_err();
    assert!(error.message().contains("version 3"), "{error}");
}

proptest! {
    #[test]
    fn t11_garbage_is_an_error_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0..4_u32) {
        let _ = SegmentHeader::decode(&bytes);
        let _ = group_at(0, &bytes);
        let header = GroupHeader { body_len: bytes.len() as u32, crc: 0, records: count, last_lsn: 0, synced_lsn: 0 };
        // A right checksum over wrong records cannot crash either.
        if let Ok(records) = records(&header, bytes.into()) {
            for record in records {
                if let Record::Rows { rows, sequence, .. } = record {
                    rows.decode(sequence);
                }
            }
        }
    }
}
