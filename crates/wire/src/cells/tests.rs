//! Golden bytes of section 12, round trips, damage, and allocations.

use cadastre_types::Code;
use proptest::prelude::*;

use super::*;
use crate::testing::{any_bytes, any_cell, unhex};

fn block(cells: &[Cell], codec: Codec) -> Bytes {
    let mut out = BytesMut::new();
    for cell in cells {
        let before = out.len();
        write_cell(&mut out, cell, codec);
        assert_eq!(out.len() - before, cell_len(cell, codec));
    }
    out.freeze()
}

fn small() -> Cell {
    let part = |text: &'static str| Bytes::from_static(text.as_bytes());
    Cell::put(part("r"), part("f"), part("q"), 1, part("v"))
}

#[test]
fn golden_block() {
    let golden = unhex("000000180000000f0000000100017201667100000000000000010476");
    assert_eq!(block(&[small()], Codec::KeyValue), golden);
    let read: Vec<Cell> = CellReader::new(golden, Codec::KeyValue)
        .collect::<Result<_>>()
        .unwrap();
    assert_eq!(read, [small()]);
}

#[test]
fn tags_travel_only_with_their_codec() {
    let mut cell = small();
    cell.tags = unhex("0009080000000000000010");
    assert_eq!(
        block(&[cell.clone()], Codec::KeyValue),
        block(&[small()], Codec::KeyValue)
    );
    let golden =
        unhex("000000250000000f0000000100017201667100000000000000010476000b0009080000000000000010");
    assert_eq!(block(&[cell.clone()], Codec::KeyValueWithTags), golden);
    let mut reader = CellReader::new(golden.clone(), Codec::KeyValueWithTags);
    assert_eq!(reader.next().unwrap().unwrap(), cell);
    assert!(reader.next().is_none());
    // With the plain codec there is nothing behind the value.
    let error = CellReader::new(golden, Codec::KeyValue).next().unwrap();
    assert_eq!(error.unwrap_err().code(), Code::Corrupt);
}

#[test]
fn counting_and_skipping() {
    let all = block(&[small(), small(), small()], Codec::KeyValue);
    let mut reader = CellReader::new(all, Codec::KeyValue);
    reader.skip_cells(1).unwrap();
    assert_eq!(reader.take_cells(2).unwrap(), [small(), small()]);
    assert_eq!(reader.remaining(), 0);
    assert!(reader.take_cells(0).unwrap().is_empty());
    assert!(reader.take_cells(1).is_err());
    assert!(reader.skip_cells(1).is_err());
    assert!(CellReader::empty().take_cells(usize::MAX).is_err());
}

#[test]
fn impossible_cells_are_refused() {
    let good = block(&[small()], Codec::KeyValue);
    let damaged = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        let mut reader = CellReader::new(bytes.into(), Codec::KeyValue);
        let error = reader.next().unwrap().unwrap_err();
        assert!(reader.next().is_none(), "an error ends the block");
        error
    };
    // Lengths of block, key, value, row and family; the type.
    for (at, byte) in [
        (3, 0x17),
        (3, 0x19),
        (0, 0xff),
        (7, 0),
        (4, 0xff),
        (8, 0xff),
        (11, 2),
    ] {
        assert_eq!(damaged(at, byte).code(), Code::Corrupt, "{at} {byte}");
    }
    for (at, byte) in [
        (13, 0),
        (13, 9),
        (12, 0xff),
        (15, 0x80),
        (15, 3),
        (26, 0),
        (26, 255),
    ] {
        assert_eq!(damaged(at, byte).code(), Code::Corrupt, "{at} {byte}");
    }
}

#[test]
fn writing_into_room_allocates_nothing_and_reading_copies_nothing() {
    let cells = vec![small(); 100];
    let mut out = BytesMut::with_capacity(100 * cell_len(&small(), Codec::KeyValue));
    let written = allocation_counter::measure(|| {
        for cell in &cells {
            write_cell(&mut out, cell, Codec::KeyValue);
        }
    });
    assert_eq!(written.count_total, 0);
    // One small allocation turns a `BytesMut` into something shared; the cells themselves need none.
    let mut reader = CellReader::new(Bytes::from(out.to_vec()), Codec::KeyValue);
    assert!(reader.next().unwrap().is_ok());
    let read = allocation_counter::measure(|| {
        assert_eq!(reader.by_ref().filter(|cell| cell.is_ok()).count(), 99);
    });
    assert_eq!(read.count_total, 0);
}

#[test]
fn compressors_by_class() {
    for compressor in Compressor::ALL {
        assert_eq!(Compressor::from_class(compressor.class()), Some(compressor));
    }
    assert_eq!(
        Compressor::from_class("org.apache.hadoop.io.compress.BZip2Codec"),
        None
    );
    for codec in [Codec::KeyValue, Codec::KeyValueWithTags] {
        assert_eq!(Codec::from_class(codec.class()), Some(codec));
    }
}

#[test]
fn golden_snappy_and_lz4_framing() {
    // Uncompressed length, compressed length; then Snappy's own length and one literal.
    let golden = unhex("0000000300000005030861");
    let golden = [&golden[..], b"bc"].concat();
    assert_eq!(
        &Compressor::Snappy.compress(b"abc").unwrap()[..],
        &golden[..]
    );
    assert_eq!(
        &Compressor::Snappy.decompress(&golden, 3).unwrap()[..],
        b"abc"
    );
    // LZ4: a token that says three literals.
    let golden = [&unhex("000000030000000430")[..], b"abc"].concat();
    assert_eq!(&Compressor::Lz4.compress(b"abc").unwrap()[..], &golden[..]);
    assert_eq!(&Compressor::Lz4.decompress(&golden, 3).unwrap()[..], b"abc");
    // A block in two chunks, as Java writes large ones.
    let chunks = [
        &unhex("0000000600000005030861")[..],
        b"bc",
        &unhex("00000005030864")[..],
        b"ef",
    ];
    assert_eq!(
        &Compressor::Snappy.decompress(&chunks.concat(), 6).unwrap()[..],
        b"abcdef"
    );
}

#[test]
fn what_decompresses_to_too_much_is_refused() {
    let zeros = vec![0; 1024 * 1024];
    for compressor in Compressor::ALL {
        let compressed = compressor.compress(&zeros).unwrap();
        assert!(compressed.len() < zeros.len() / 10);
        assert_eq!(
            compressor.decompress(&compressed, zeros.len()).unwrap(),
            zeros
        );
        let error = compressor
            .decompress(&compressed, zeros.len() - 1)
            .unwrap_err();
        assert_eq!(error.code(), Code::RequestTooBig, "{compressor:?}");
        let cut = &compressed[..compressed.len() - 1];
        assert!(
            compressor.decompress(cut, zeros.len()).is_err(),
            "{compressor:?}"
        );
    }
    // A huge length with nothing behind costs nothing.
    for compressor in [Compressor::Snappy, Compressor::Lz4] {
        let false_length = unhex("7fffffff00000001007fffffff");
        let read = allocation_counter::measure(|| {
            assert!(compressor.decompress(&false_length, usize::MAX).is_err());
        });
        assert!(read.bytes_max < 4096, "{compressor:?}: {}", read.bytes_max);
    }
}

proptest! {
    #[test]
    fn cells_come_back(cells in prop::collection::vec(any_cell(), 0..6)) {
        let with_tags = block(&cells, Codec::KeyValueWithTags);
        let mut reader = CellReader::new(with_tags, Codec::KeyValueWithTags);
        prop_assert_eq!(&reader.take_cells(cells.len()).unwrap(), &cells);
        let read: Vec<Cell> = CellReader::new(block(&cells, Codec::KeyValue), Codec::KeyValue)
            .collect::<Result<_>>()
            .unwrap();
        let bare: Vec<Cell> = cells
            .into_iter()
            .map(|cell| Cell { tags: Bytes::new(), ..cell })
            .collect();
        prop_assert_eq!(read, bare);
    }

    #[test]
    fn blocks_come_back_compressed(
        bytes in any_bytes(0, 2000),
        repeat in 1_usize..200,
        compressor in prop::sample::select(Compressor::ALL.to_vec()),
    ) {
        let bytes = bytes.repeat(repeat);
        let compressed = compressor.compress(&bytes).unwrap();
        prop_assert_eq!(compressor.decompress(&compressed, bytes.len()).unwrap(), bytes);
    }
}
