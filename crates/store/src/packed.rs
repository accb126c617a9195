//! The value of a packed key: a family's cells of one row, sorted, in one value; and the value of an overflow cell.
//!
//! ```text
//! packed:   version 01 | flags (bit 0: the family has overflow cells) | cell*
//! cell:     varint qualifier length, qualifier | timestamp (8, BE) | type, bit 7 set if tags follow | varint sequence
//!           | [varint tags length, tags] | varint value length, value
//! overflow: version 01 | varint sequence | varint tags length, tags | value
//! ```
//! Cells stand in HBase's order: qualifier ascending, then timestamp, type descending; no two with the same three. Varints
//! are LEB128. This module must not know of keys, of SlateDB or of what is kept.

use std::cmp::Ordering;

use bytes::{Buf, Bytes};
use cadastre_types::{CellType, Error, Result};

const VERSION: u8 = 1;
const FLAG_OVERFLOW: u8 = 1;
const TYPE_HAS_TAGS: u8 = 0x80;

/// Bytes of a packed cell beside qualifier, tags and value, at most.
const CELL_OVERHEAD_MAX: usize = 5 + 8 + 1 + 10 + 5 + 5;

/// A cell as it is stored: its row and family are its key's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredCell {
    pub(crate) qualifier: Bytes,
    pub(crate) timestamp: i64,
    pub(crate) cell_type: CellType,
    pub(crate) sequence: u64,
    pub(crate) tags: Bytes,
    pub(crate) value: Bytes,
}

impl StoredCell {
    /// HBase's order inside a family of a row, without sequence: equal means the same coordinates.
    pub(crate) fn cmp_coordinates(&self, other: &Self) -> Ordering {
        self.qualifier
            .cmp(&other.qualifier)
            .then_with(|| other.timestamp.cmp(&self.timestamp))
            .then_with(|| other.cell_type.code().cmp(&self.cell_type.code()))
    }

    /// Bytes this cell takes in a packed value, about.
    pub(crate) fn size(&self) -> usize {
        self.qualifier.len() + self.tags.len() + self.value.len() + 20
    }
}

/// A family's packed cells of one row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Packed {
    /// Whether there are overflow cells too.
    pub(crate) overflow: bool,
    /// Sorted, coordinates unique.
    pub(crate) cells: Vec<StoredCell>,
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a varint; `None` if it is cut off or longer than a u64.
pub(crate) fn get_varint(bytes: &mut Bytes) -> Option<u64> {
    let mut number = 0_u64;
    for at in 0..10 {
        let byte = *bytes.get(at)?;
        let part = u64::from(byte & 0x7f);
        if at == 9 && part > 1 {
            return None;
        }
        number |= part << (7 * at);
        if byte & 0x80 == 0 {
            bytes.advance(at + 1);
            return Some(number);
        }
    }
    None
}

/// Reads a length and that many bytes, zero copy.
pub(crate) fn get_bytes(bytes: &mut Bytes) -> Option<Bytes> {
    let len = usize::try_from(get_varint(bytes)?).ok()?;
    if len > bytes.len() {
        return None;
    }
    Some(bytes.split_to(len))
}

fn damaged() -> Error {
    Error::corrupt("a stored cell cannot be decoded")
}

fn check_version(bytes: &mut Bytes) -> Result<()> {
    match bytes.first() {
        Some(&VERSION) => {
            bytes.advance(1);
            Ok(())
        }
        Some(newer) if *newer > VERSION => Err(Error::corrupt(format!(
            "stored cells have format version {newer}, this program knows up to {VERSION}"
        ))),
        _ => Err(damaged()),
    }
}

impl Packed {
    /// Decodes; qualifiers, tags and values share the input's memory.
    pub(crate) fn decode(mut bytes: Bytes) -> Result<Self> {
        check_version(&mut bytes)?;
        let flags = bytes.try_get_u8().map_err(|_| damaged())?;
        if flags & !FLAG_OVERFLOW != 0 {
            return Err(damaged());
        }
        let mut cells = Vec::new();
        while !bytes.is_empty() {
            let cell = get_cell(&mut bytes).ok_or_else(damaged)?;
            cells.push(cell);
        }
        Ok(Self {
            overflow: flags & FLAG_OVERFLOW != 0,
            cells,
        })
    }

    /// Bytes of the encoded form, about.
    pub(crate) fn size(&self) -> usize {
        self.cells.iter().map(StoredCell::size).sum()
    }
}

/// Encodes sorted cells.
pub(crate) fn encode(overflow: bool, cells: &[StoredCell]) -> Bytes {
    let payload: usize = cells
        .iter()
        .map(|c| c.qualifier.len() + c.tags.len() + c.value.len() + CELL_OVERHEAD_MAX)
        .sum();
    let mut out = Vec::with_capacity(2 + payload);
    out.push(VERSION);
    out.push(if overflow { FLAG_OVERFLOW } else { 0 });
    for cell in cells {
        put_varint(&mut out, cell.qualifier.len() as u64);
        out.extend_from_slice(&cell.qualifier);
        out.extend_from_slice(&cell.timestamp.to_be_bytes());
        let tagged = if cell.tags.is_empty() {
            0
        } else {
            TYPE_HAS_TAGS
        };
        out.push(cell.cell_type.code() | tagged);
        put_varint(&mut out, cell.sequence);
        if tagged != 0 {
            put_varint(&mut out, cell.tags.len() as u64);
            out.extend_from_slice(&cell.tags);
        }
        put_varint(&mut out, cell.value.len() as u64);
        out.extend_from_slice(&cell.value);
    }
    out.into()
}

fn get_cell(bytes: &mut Bytes) -> Option<StoredCell> {
    let qualifier = get_bytes(bytes)?;
    let timestamp = bytes.try_get_i64().ok()?;
    let code = bytes.try_get_u8().ok()?;
    let cell_type = CellType::from_code(code & !TYPE_HAS_TAGS)?;
    let sequence = get_varint(bytes)?;
    let tags = if code & TYPE_HAS_TAGS != 0 {
        get_bytes(bytes)?
    } else {
        Bytes::new()
    };
    let value = get_bytes(bytes)?;
    Some(StoredCell {
        qualifier,
        timestamp,
        cell_type,
        sequence,
        tags,
        value,
    })
}

/// The value of an overflow cell's key.
pub(crate) fn encode_overflow(cell: &StoredCell) -> Bytes {
    let mut out = Vec::with_capacity(1 + 10 + 5 + cell.tags.len() + cell.value.len());
    out.push(VERSION);
    put_varint(&mut out, cell.sequence);
    put_varint(&mut out, cell.tags.len() as u64);
    out.extend_from_slice(&cell.tags);
    out.extend_from_slice(&cell.value);
    out.into()
}

/// An overflow cell from what its key says and its value.
pub(crate) fn decode_overflow(
    qualifier: Bytes,
    timestamp: i64,
    cell_type: CellType,
    mut value: Bytes,
) -> Result<StoredCell> {
    check_version(&mut value)?;
    let sequence = get_varint(&mut value).ok_or_else(damaged)?;
    let tags = get_bytes(&mut value).ok_or_else(damaged)?;
    Ok(StoredCell {
        qualifier,
        timestamp,
        cell_type,
        sequence,
        tags,
        value,
    })
}

/// Merges two sorted lists; of two cells with the same coordinates the one with the higher sequence stays, at equal
/// sequences the one of `newer`.
pub(crate) fn merge(older: Vec<StoredCell>, newer: Vec<StoredCell>) -> Vec<StoredCell> {
    if older.is_empty() {
        return newer;
    }
    if newer.is_empty() {
        return older;
    }
    let mut merged = Vec::with_capacity(older.len() + newer.len());
    let mut older = older.into_iter().peekable();
    let mut newer = newer.into_iter().peekable();
    while let (Some(left), Some(right)) = (older.peek(), newer.peek()) {
        match left.cmp_coordinates(right) {
            Ordering::Less => merged.extend(older.next()),
            Ordering::Greater => merged.extend(newer.next()),
            Ordering::Equal if left.sequence > right.sequence => {
                newer.next();
            }
            Ordering::Equal => {
                older.next();
            }
        }
    }
    merged.extend(older);
    merged.extend(newer);
    merged
}

/// Sorts cells of one write and keeps the last of those with the same coordinates (10.5: in one batch the last one wins).
pub(crate) fn sort(mut cells: Vec<StoredCell>) -> Vec<StoredCell> {
    // Stable, so equal coordinates stay in the order of the request.
    cells.sort_by(StoredCell::cmp_coordinates);
    cells.reverse();
    cells.dedup_by(|next, kept| next.cmp_coordinates(kept) == Ordering::Equal);
    cells.reverse();
    cells
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn cells() -> impl Strategy<Value = Vec<StoredCell>> {
        let kind = prop_oneof![
            6 => Just(CellType::Put),
            1 => Just(CellType::Delete),
            1 => Just(CellType::DeleteColumn),
            1 => Just(CellType::DeleteFamily),
            1 => Just(CellType::DeleteFamilyVersion),
        ];
        let cell = (0..3_u8, 0..12_i64, kind, 1..500_u64, 0..4_usize);
        prop::collection::vec(cell, 0..14).prop_map(|cells| {
            let cells = cells
                .into_iter()
                .map(|(q, timestamp, cell_type, sequence, n)| {
                    let qualifier = if q == 0 || cell_type.is_family_wide() {
                        Bytes::new()
                    } else {
                        Bytes::from(vec![b'a' + q])
                    };
                    StoredCell {
                        qualifier,
                        timestamp,
                        cell_type,
                        sequence,
                        tags: Bytes::from(vec![9; n / 3]),
                        value: Bytes::from(vec![7; n]),
                    }
                });
            sort(cells.collect())
        })
    }

    proptest! {
        #[test]
        fn round_trip(cells in cells(), overflow in any::<bool>()) {
            let packed = Packed { overflow, cells };
            prop_assert_eq!(Packed::decode(encode(packed.overflow, &packed.cells)).unwrap(), packed);
        }

        #[test]
        fn t11_damaged_values_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Packed::decode(bytes.clone().into());
            let _ = decode_overflow(Bytes::new(), 0, CellType::Put, bytes.into());
        }

        #[test]
        fn cut_values_are_errors(cells in cells(), cut in 0..100_usize) {
            let whole = encode(false, &cells);
            let got = Packed::decode(whole.slice(..cut % whole.len()));
            // A cut between cells cannot be seen here: SlateDB's block checksums are for that.
            if let Ok(got) = got {
                prop_assert!(got.cells.len() < cells.len() || cells.is_empty());
            }
        }

        #[test]
        fn merge_is_associative_and_keeps_the_highest_sequence(a in cells(), b in cells(), c in cells()) {
            let left = merge(merge(a.clone(), b.clone()), c.clone());
            let right = merge(a.clone(), merge(b.clone(), c.clone()));
            prop_assert_eq!(&left, &right);
            for cell in a.iter().chain(&b).chain(&c) {
                let kept = left.iter().find(|k| k.cmp_coordinates(cell) == Ordering::Equal).unwrap();
                prop_assert!(kept.sequence >= cell.sequence);
            }
            prop_assert!(left.is_sorted_by(|x, y| x.cmp_coordinates(y) == Ordering::Less));
        }
    }

    /// The bytes on disk: these values must never change.
    #[test]
    fn golden() {
        let cell = StoredCell {
            qualifier: Bytes::from_static(b"q"),
            timestamp: 258,
            cell_type: CellType::Put,
            sequence: 300,
            tags: Bytes::new(),
            value: Bytes::from_static(b"val"),
        };
        let tagged = StoredCell {
            qualifier: Bytes::from_static(b"r"),
            cell_type: CellType::DeleteColumn,
            tags: Bytes::from_static(b"\0\x02\x08x"),
            value: Bytes::new(),
            ..cell.clone()
        };
        assert_eq!(
            &encode(true, &[cell.clone(), tagged.clone()])[..],
            b"\x01\x01\x01q\0\0\0\0\0\0\x01\x02\x04\xac\x02\x03val\
              \x01r\0\0\0\0\0\0\x01\x02\x8c\xac\x02\x04\0\x02\x08x\0"
        );
        assert_eq!(
            &encode_overflow(&tagged)[..],
            b"\x01\xac\x02\x04\0\x02\x08x"
        );
        assert_eq!(&encode(false, &[])[..], b"\x01\0");
        let newer = Packed::decode(Bytes::from_static(b"\x02\0")).unwrap_err();
        assert!(newer.message().contains("version 2"), "{newer}");
    }
}
