//! Golden bytes, torn slots, damage.

use super::*;

fn some() -> Segments {
    let entry = |stage| Entry {
        lane: 1,
        salt: 7,
        len: 0x1000,
        stage,
    };
    Segments {
        floors: BTreeMap::from([(0, 0), (1, 5)]),
        entries: BTreeMap::from([
            (2, entry(Stage::Free { last_lsn: 6 })),
            (
                3,
                entry(Stage::Sealed {
                    end: 0x200,
                    last_lsn: 9,
                }),
            ),
            (4, entry(Stage::Open)),
        ]),
    }
}

fn image(slots: [Option<(u64, Segments)>; 2], marks: &[(u32, u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    for (generation, segments) in slots.into_iter().flatten() {
        let slot = segments.encode(generation);
        let at = slot_at(generation) as usize;
        bytes[at..at + slot.len()].copy_from_slice(&slot);
    }
    for (lane, turn, synced) in marks {
        let at = mark_at(*lane, *turn) as usize;
        bytes[at..at + MARK_BYTES].copy_from_slice(&encode_mark(*lane, *synced));
    }
    bytes
}

/// The bytes on disk: these values must never change.
#[test]
fn golden() {
    let bytes = some().encode(3);
    let body = &bytes[32..];
    assert_eq!(bytes[..16], *b"CADASEGS\x01\0\0\0\xb8\0\0\0");
    let crc = slot_crc(3, body).to_le_bytes();
    assert_eq!(bytes[16..20], crc);
    assert_eq!(bytes[20..32], *b"\0\0\0\0\x03\0\0\0\0\0\0\0");
    assert_eq!(body[..8], *b"\x02\0\0\0\x03\0\0\0");
    assert_eq!(body[24..40], *b"\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0");
    let sealed = b"\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\
                   \0\x10\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\x09\0\0\0\0\0\0\0";
    assert_eq!(body[88..136], *sealed);
    assert_eq!(Segments::decode(&bytes).unwrap(), Some((3, some())));
    let mark = encode_mark(2, 258);
    assert_eq!(
        mark[..24],
        *b"CADAMARK\x02\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0"
    );
    assert_eq!(decode_mark(2, &mark), Some(258));
    assert_eq!(decode_mark(1, &mark), None, "another lane's");
}

#[test]
fn any_changed_bit_is_seen() {
    let bytes = some().encode(3);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let read = Segments::decode(&changed);
        assert!(!matches!(read, Ok(Some(_))), "byte {at}");
    }
    let mark = encode_mark(2, 258);
    for at in 0..mark.len() {
        let mut changed = mark;
        changed[at] ^= 0x10;
        assert_eq!(decode_mark(2, &changed), None, "byte {at}");
    }
}

#[test]
fn the_newest_whole_slot_and_the_highest_mark_count() {
    let (old, new) = (Segments::default(), some());
    let marks = [(0, 0, 1), (0, 1, 2), (1, 1, 9), (1, 0, 8)];
    let both = image([Some((4, old.clone())), Some((5, new.clone()))], &marks);
    let (generation, segments, marks_read) = decode(&both).unwrap();
    assert_eq!((generation, segments), (5, new));
    assert_eq!(marks_read, BTreeMap::from([(0, 2), (1, 9)]));
    let mut torn = both.clone();
    torn[SLOT_BYTES + 50] ^= 1;
    let (generation, segments, _) = decode(&torn).unwrap();
    assert_eq!((generation, segments), (4, old));
    torn[33] ^= 1;
    let error = decode(&torn).unwrap_err();
    assert!(error.message().contains(FILE), "{error}");
    // One mark is enough, none is not.
    let mut unmarked = both;
    let (from, to) = (mark_at(1, 0) as usize, mark_at(1, 1) as usize);
    unmarked[to] ^= 1;
    assert_eq!(decode(&unmarked).unwrap().2[&1], 8);
    unmarked[from] ^= 1;
    assert!(decode(&unmarked).is_err());
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = some().encode(3);
    bytes[8] = 2;
    let error = Segments::decode(&bytes).unwrap_err();
    assert!(error.message().contains("version 2"), "{error}");
}

#[test]
fn what_is_forgotten_raises_the_floor() {
    let mut segments = some();
    segments.forget(2);
    assert_eq!(segments.floors[&1], 6);
    segments.forget(3);
    segments.forget(4);
    segments.forget(77);
    assert_eq!(segments.floors[&1], 9);
    assert!(segments.entries.is_empty());
}
