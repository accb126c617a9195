//! Golden bytes both ways, and what is refused. The same bytes were taken by real DataNodes (`crates/hdfs-store/tests/hdfs`).

use cadastre_types::Code;
use proptest::prelude::*;

use super::*;
use crate::testing::unhex;

fn block() -> pb::ExtendedBlockProto {
    pb::ExtendedBlockProto {
        pool_id: "BP-1".to_owned(),
        block_id: 7,
        generation_stamp: 1001,
        num_bytes: None,
    }
}

fn header() -> pb::ClientOperationHeaderProto {
    pb::ClientOperationHeaderProto {
        base_header: pb::BaseHeaderProto {
            block: block(),
            token: None,
        },
        client_name: "c".to_owned(),
    }
}

fn checksum() -> Checksum {
    Checksum::crc32c(4).unwrap()
}

#[test]
fn operations() {
    let mut out = BytesMut::new();
    let request = pb::OpReadBlockProto {
        header: header(),
        offset: 5,
        len: 6,
        send_checksums: None,
    };
    put_operation(&mut out, READ_BLOCK, &request);
    let golden = "001c51180a120a0d0a0b0a0442502d31100718e90712016310051806";
    assert_eq!(out, unhex(golden));
    assert_eq!(operation([0, 28, 81]).unwrap(), READ_BLOCK);
    assert_eq!(operation([0, 27, 81]).unwrap_err().code(), Code::Corrupt);
}

#[test]
fn lengths_of_messages() {
    assert_eq!(message_length(&[]).unwrap(), None);
    assert_eq!(message_length(&[5]).unwrap(), Some(5));
    assert_eq!(message_length(&[0xac]).unwrap(), None);
    assert_eq!(message_length(&[0xac, 0x02]).unwrap(), Some(300));
    assert_eq!(
        message_length(&[0x80, 0x80, 0x40]).unwrap(),
        Some(MESSAGE_MAX)
    );
    for bad in [&[0x81, 0x80, 0x40][..], &[0xff; 4], &[0xff; 9]] {
        assert_eq!(message_length(bad).unwrap_err().code(), Code::Corrupt);
    }
}

#[test]
fn packets() {
    let mut out = BytesMut::new();
    put_packet(&mut out, checksum(), (9, 1), (false, false), b"123456789");
    // Length 4 + 3 sums + 9 bytes; a header of 25; the sums of "1234", "5678" and "9".
    let head = "00000019001909090000000000000011010000000000000018002509000000";
    assert_eq!(out[..31], unhex(head)[..]);
    assert_eq!(out[31..35], crc32c::crc32c(b"1234").to_be_bytes());
    assert_eq!(&out[43..], b"123456789");
    let packet = parse(&out).unwrap();
    packet.check(checksum()).unwrap();
    assert_eq!((packet.offset, packet.seqno), (9, 1));
    assert_eq!((packet.last, packet.sync), (false, false));
    let mut out = BytesMut::new();
    put_packet(&mut out, checksum(), (9, -1), (true, true), b"");
    let golden = "00000004001b09090000000000000011ffffffffffffffff180125000000002801";
    assert_eq!(out, unhex(golden));
    let packet = parse(&out).unwrap();
    assert!(packet.last && packet.sync && packet.seqno == HEARTBEAT);
}

/// The check value of CRC-32C.
#[test]
fn the_checksum_is_castagnolis() {
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
}

fn parse(bytes: &[u8]) -> Result<Packet> {
    let (start, rest) = bytes.split_first_chunk().unwrap();
    let length = PacketLength::parse(*start)?;
    parse_packet(length, Bytes::copy_from_slice(rest))
}

#[test]
fn damage_is_found() {
    let mut whole = BytesMut::new();
    put_packet(
        &mut whole,
        checksum(),
        (8, 3),
        (false, false),
        b"0123456789",
    );
    for at in 31..whole.len() {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0x10;
        let error = parse(&bytes).unwrap().check(checksum()).unwrap_err();
        assert_eq!(error.code(), Code::Corrupt, "{at}");
    }
    let packet = parse(&whole).unwrap();
    assert!(packet.check(Checksum::crc32c(5).unwrap()).is_err());
    // More data than there are bytes, a place before the block, too long, no room for its own length.
    for (at, value) in [(27, 0x7f), (30, 0x80), (14, 0x80), (0, 0x7f)] {
        let mut bytes = whole.to_vec();
        bytes[at] = value;
        assert!(parse(&bytes).is_err(), "{at}");
    }
    assert!(PacketLength::parse([0, 0, 0, 3, 0, 0]).is_err());
    assert!(PacketLength::parse([0, 0, 0, 4, 0xff, 0]).is_err());
}

#[test]
fn kinds_of_checksums() {
    let message = |kind, bytes_per_checksum| pb::ChecksumProto {
        r#type: kind,
        bytes_per_checksum,
    };
    assert!(Checksum::of(&message(9, 512)).is_err());
    assert!(Checksum::of(&message(2, 0)).is_err());
    assert!(Checksum::of(&message(2, u32::MAX)).is_err());
    for kind in 0..3 {
        let checksum = Checksum::of(&message(kind, 3)).unwrap();
        assert_eq!(checksum.message(), message(kind, 3));
        let mut out = BytesMut::new();
        put_packet(&mut out, checksum, (0, 0), (false, false), b"abcdefgh");
        parse(&out).unwrap().check(checksum).unwrap();
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 6..200)) {
        let (start, rest) = bytes.split_first_chunk().unwrap();
        // Nothing here may panic; what parses has no more bytes than it came with.
        if let Ok(length) = PacketLength::parse(*start) && length.rest() == rest.len() {
            let packet = parse_packet(length, Bytes::copy_from_slice(rest));
            prop_assert!(packet.map_or(true, |packet| packet.data.len() <= rest.len()));
        }
        let _ = message_length(&bytes);
    }

    #[test]
    fn packets_come_back(data in prop::collection::vec(any::<u8>(), 0..5000), chunk in 1_u32..600, offset in 0..u64::MAX / 2) {
        let checksum = Checksum::crc32c(chunk).unwrap();
        let mut out = BytesMut::new();
        put_packet(&mut out, checksum, (offset, 4), (false, true), &data);
        let packet = parse(&out).unwrap();
        packet.check(checksum).unwrap();
        prop_assert_eq!((&packet.data[..], packet.offset, packet.sync), (&data[..], offset, true));
    }
}
