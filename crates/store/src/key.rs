//! Keys of a region's database: an escaped row, a family id, and what is stored there.
//!
//! ```text
//! row prefix | family id (2, BE) | 00                                              packed cells of the family
//! row prefix | family id (2, BE) | 01 | qualifier 00 00 | ~timestamp (8) | ~type    one overflow cell
//! row prefix | FF FF             | 02 | nonce group (8, BE) | nonce (8, BE)         effect of a nonce (C7)
//! ```
//! A row prefix is self-delimiting, so one row is exactly one prefix, and byte order of prefixes is the table's row order:
//! plain byte order for user tables, the comparator of hbase-protocol.md 6.4 for `hbase:meta`. In escaped bytes 00 becomes
//! 00 FF and the end is 00 00. This module must not know of SlateDB's calls or of what values mean.

use bytes::{Buf, Bytes};
use cadastre_types::{CellType, Error, Result, limits};

/// Longest key SlateDB takes, bytes (asserted there).
pub(crate) const KEY_MAX: usize = 65_535;

/// The family id under which nonces live; the master never gives it to a family.
pub(crate) const NONCE_FAMILY: u16 = 0xffff;

const PACKED: u8 = 0;
const OVERFLOW: u8 = 1;
const NONCE: u8 = 2;

/// Family id, kind, ~timestamp, ~type, and the end of the qualifier.
const OVERFLOW_REST: usize = 2 + 1 + 2 + 8 + 1;

/// How rows become key prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowCodec {
    /// Byte order.
    Plain,
    /// Table part, start-key part and id part, cut at the first and the last comma.
    Meta,
}

/// What lies under a key, behind its row prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Packed {
        family: u16,
    },
    Overflow {
        family: u16,
        qualifier: Bytes,
        timestamp: i64,
        cell_type: CellType,
    },
    Nonce,
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for part in bytes.split_inclusive(|byte| *byte == 0) {
        out.extend_from_slice(part);
        if part.last() == Some(&0) {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// Length of an escaped string with its end, at the start of `key`.
fn escaped_len(key: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += key.get(at..)?.iter().position(|byte| *byte == 0)?;
        match key.get(at + 1)? {
            0 => return Some(at + 2),
            0xff => at += 2,
            _ => return None,
        }
    }
}

/// Undoes [`escape`] for exactly one escaped string; shares memory when nothing was escaped.
fn unescape(escaped: Bytes) -> Bytes {
    let body = escaped.slice(..escaped.len() - 2);
    if !body.contains(&0) {
        return body;
    }
    let mut plain = Vec::with_capacity(body.len());
    let mut after_zero = false;
    for byte in body.iter().copied() {
        if !(after_zero && byte == 0xff) {
            plain.push(byte);
        }
        after_zero = byte == 0 && !after_zero;
    }
    plain.into()
}

impl RowCodec {
    /// Part of the name of the prefix filter: a change of one must change the other.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "cadastre-row-1",
            Self::Meta => "cadastre-meta-row-1",
        }
    }

    /// The prefix of a row's keys.
    pub(crate) fn prefix(self, row: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(row.len() + 8);
        match self {
            Self::Plain => escape(row, &mut out),
            Self::Meta => {
                let first = row.iter().position(|byte| *byte == b',');
                escape(&row[..first.unwrap_or(row.len())], &mut out);
                // A row without commas sorts before every row of its table that has some.
                let Some(first) = first else {
                    out.push(0);
                    return out;
                };
                out.push(1);
                let rest = &row[first + 1..];
                match rest.iter().rposition(|byte| *byte == b',') {
                    None => {
                        escape(rest, &mut out);
                        out.push(0);
                    }
                    Some(last) => {
                        escape(&rest[..last], &mut out);
                        out.push(1);
                        escape(&rest[last + 1..], &mut out);
                    }
                }
            }
        }
        out
    }

    /// Length of the row prefix of a key, or of a scan prefix that holds one whole.
    pub(crate) fn prefix_len(self, key: &[u8]) -> Option<usize> {
        let first = escaped_len(key)?;
        if self == Self::Plain {
            return Some(first);
        }
        match key.get(first)? {
            0 => Some(first + 1),
            1 => {
                let start = first + 1;
                let second = start + escaped_len(&key[start..])?;
                match key.get(second)? {
                    0 => Some(second + 1),
                    1 => Some(second + 1 + escaped_len(&key[second + 1..])?),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The row behind a prefix of exactly [`Self::prefix_len`] bytes.
    pub(crate) fn row(self, prefix: &Bytes) -> Result<Bytes> {
        let damaged = || Error::corrupt("a stored row prefix cannot be decoded");
        if self == Self::Plain {
            return Ok(unescape(prefix.clone()));
        }
        let first = escaped_len(prefix).ok_or_else(damaged)?;
        let mut row = unescape(prefix.slice(..first)).to_vec();
        if prefix.get(first) == Some(&0) {
            return Ok(row.into());
        }
        let rest = prefix.slice(first + 1..);
        let second = escaped_len(&rest).ok_or_else(damaged)?;
        row.push(b',');
        row.extend_from_slice(&unescape(rest.slice(..second)));
        if rest.get(second) == Some(&1) {
            row.push(b',');
            row.extend_from_slice(&unescape(rest.slice(second + 1..)));
        }
        Ok(row.into())
    }

    /// A row at which keys may be parted: its prefix is not above `key`, which may be cut off at its end, as those of an SST's index
    /// are, and above every key that is below all keys that begin so. `None` for an empty key.
    pub(crate) fn boundary_row(self, key: &Bytes) -> Option<Bytes> {
        if let Some(len) = self.prefix_len(key) {
            return self.row(&key.slice(..len)).ok();
        }
        assert_eq!(self, Self::Plain, "hbase:meta is never parted");
        // A zero alone at the end is half of an escape or of the row's end.
        let zeros = key.iter().rev().take_while(|byte| **byte == 0).count();
        let body = key.slice(..key.len() - zeros.min(1));
        (!body.is_empty()).then(|| unescape([&body[..], &[0, 0]].concat().into()))
    }
}

/// The first key after every key of a row with this prefix. A prefix never ends in FF.
pub(crate) fn after_row(prefix: &[u8]) -> Vec<u8> {
    let mut after = prefix.to_vec();
    let last = after.last_mut().expect("a row prefix is never empty");
    assert!(*last < 0xff, "a row prefix ends in 00 or 01");
    *last += 1;
    after
}

/// Key of a family's packed cells.
pub(crate) fn packed(prefix: &[u8], family: u16) -> Bytes {
    let mut key = Vec::with_capacity(prefix.len() + 3);
    key.extend_from_slice(prefix);
    key.extend_from_slice(&family.to_be_bytes());
    key.push(PACKED);
    key.into()
}

/// Prefix of a family's overflow cells.
pub(crate) fn overflow_prefix(prefix: &[u8], family: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(prefix.len() + 32);
    key.extend_from_slice(prefix);
    key.extend_from_slice(&family.to_be_bytes());
    key.push(OVERFLOW);
    key
}

/// A key behind all of a family.
pub(crate) fn after_family(prefix: &[u8], family: u16) -> Vec<u8> {
    let mut key = overflow_prefix(prefix, family);
    *key.last_mut().expect("it ends in the kind") = OVERFLOW + 1;
    key
}

/// Prefix of one column's overflow cells.
pub(crate) fn overflow_column(prefix: &[u8], family: u16, qualifier: &[u8]) -> Vec<u8> {
    let mut key = overflow_prefix(prefix, family);
    escape(qualifier, &mut key);
    key
}

/// Key of one overflow cell.
pub(crate) fn overflow(
    prefix: &[u8],
    family: u16,
    qualifier: &[u8],
    timestamp: i64,
    cell_type: CellType,
) -> Bytes {
    let mut key = overflow_column(prefix, family, qualifier);
    // Newest first, negative timestamps last.
    key.extend_from_slice(&(!(timestamp as u64 ^ (1 << 63))).to_be_bytes());
    key.push(!cell_type.code());
    key.into()
}

/// Key of a nonce.
pub(crate) fn nonce(prefix: &[u8], group: u64, nonce: u64) -> Bytes {
    let mut key = prefix.to_vec();
    key.extend_from_slice(&NONCE_FAMILY.to_be_bytes());
    key.push(NONCE);
    key.extend_from_slice(&group.to_be_bytes());
    key.extend_from_slice(&nonce.to_be_bytes());
    key.into()
}

/// Reads what is behind the row prefix (`rest` starts there).
pub(crate) fn place(mut rest: Bytes) -> Result<Place> {
    let damaged = || Error::corrupt("a stored key cannot be decoded");
    if rest.len() < 3 {
        return Err(damaged());
    }
    let family = rest.get_u16();
    match rest.get_u8() {
        PACKED if rest.is_empty() => Ok(Place::Packed { family }),
        NONCE if rest.len() == 16 && family == NONCE_FAMILY => Ok(Place::Nonce),
        OVERFLOW => {
            let end = escaped_len(&rest).ok_or_else(damaged)?;
            if rest.len() != end + 9 {
                return Err(damaged());
            }
            let qualifier = unescape(rest.split_to(end));
            let timestamp = (!rest.get_u64() ^ (1 << 63)) as i64;
            let cell_type = CellType::from_code(!rest.get_u8()).ok_or_else(damaged)?;
            Ok(Place::Overflow {
                family,
                qualifier,
                timestamp,
                cell_type,
            })
        }
        _ => Err(damaged()),
    }
}

/// Refuses what cannot be stored under a key: empty and over-long rows (HBase's words), and rows and qualifiers that are too
/// long together once escaped. Every cell must be able to become an overflow cell.
pub(crate) fn check(codec: RowCodec, row: &[u8], qualifier: &[u8]) -> Result<()> {
    if row.is_empty() {
        return Err(Error::invalid("Row length is 0"));
    }
    if row.len() > limits::ROW_MAX {
        return Err(Error::invalid(format!(
            "Row length {} is > {}",
            row.len(),
            limits::ROW_MAX
        )));
    }
    let zeros = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == 0).count();
    let ends = if codec == RowCodec::Meta { 8 } else { 2 };
    let total = row.len() + zeros(row) + ends + qualifier.len() + zeros(qualifier) + OVERFLOW_REST;
    if total > KEY_MAX {
        return Err(Error::invalid(format!(
            "Row of {} bytes and qualifier of {} bytes are together over the limit: escaped they take {total} bytes of {KEY_MAX}",
            row.len(),
            qualifier.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use cadastre_types::Cell;
    use proptest::prelude::*;

    use super::*;
    use crate::packed::{self, StoredCell};

    /// The comparator of hbase-protocol.md 6.4, written from its text. `None` for an id means "not even a second comma".
    fn compare_meta(left: &[u8], right: &[u8]) -> Ordering {
        type Parts<'a> = (&'a [u8], Option<(&'a [u8], Option<&'a [u8]>)>);
        fn parts(row: &[u8]) -> Parts<'_> {
            let Some(first) = row.iter().position(|b| *b == b',') else {
                return (row, None);
            };
            let last = row.iter().rposition(|b| *b == b',').unwrap();
            if first == last {
                return (&row[..first], Some((&row[first + 1..], None)));
            }
            let id = &row[last + 1..];
            (&row[..first], Some((&row[first + 1..last], Some(id))))
        }
        parts(left).cmp(&parts(right))
    }

    /// Row, qualifier, timestamp, type.
    type Coordinates = (Vec<u8>, Vec<u8>, i64, CellType);

    /// Two of them are often alike in some.
    fn coordinates() -> impl Strategy<Value = Coordinates> {
        let short = || prop_oneof![prop::collection::vec(0..2_u8, 0..3), rows()];
        let timestamp = prop_oneof![-2..3_i64, Just(i64::MIN), Just(i64::MAX), any::<i64>()];
        let kind = prop::sample::select(vec![
            CellType::Put,
            CellType::Delete,
            CellType::DeleteFamilyVersion,
            CellType::DeleteColumn,
            CellType::DeleteFamily,
        ]);
        (short(), short(), timestamp, kind)
    }

    fn stored((_, qualifier, timestamp, kind): &Coordinates) -> StoredCell {
        StoredCell {
            qualifier: qualifier.clone().into(),
            timestamp: *timestamp,
            cell_type: *kind,
            sequence: 1,
            tags: Bytes::new(),
            value: Bytes::new(),
        }
    }

    fn rows() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            Just(0_u8),
            Just(1),
            Just(b','),
            Just(b'+'),
            Just(0xff),
            any::<u8>()
        ];
        prop::collection::vec(byte, 0..12)
    }

    proptest! {
        #[test]
        fn plain_order_and_round_trip(a in rows(), b in rows()) {
            let codec = RowCodec::Plain;
            let (ka, kb) = (codec.prefix(&a), codec.prefix(&b));
            prop_assert_eq!(ka.cmp(&kb), a.cmp(&b));
            prop_assert_eq!(codec.prefix_len(&packed(&ka, 7)), Some(ka.len()));
            prop_assert_eq!(&codec.row(&ka.into()).unwrap()[..], &a[..]);
        }

        #[test]
        fn meta_order_and_round_trip(a in rows(), b in rows()) {
            let codec = RowCodec::Meta;
            let (ka, kb) = (codec.prefix(&a), codec.prefix(&b));
            prop_assert_eq!(ka.cmp(&kb), compare_meta(&a, &b));
            prop_assert_eq!(codec.prefix_len(&packed(&ka, 7)), Some(ka.len()));
            prop_assert_eq!(&codec.row(&ka.into()).unwrap()[..], &a[..]);
        }

        #[test]
        fn rows_do_not_overlap(a in rows(), b in rows(), meta in any::<bool>()) {
            let codec = if meta { RowCodec::Meta } else { RowCodec::Plain };
            prop_assume!(a != b);
            let (a, b) = (codec.prefix(&a), codec.prefix(&b));
            prop_assert!(!a.starts_with(&b) && !b.starts_with(&a));
            let end = after_row(&a);
            prop_assert!(packed(&a, 0xffff)[..] < end[..]);
            prop_assert_eq!(packed(&b, 0)[..] < end[..], b < a);
        }

        #[test]
        fn a_boundary_parts_what_is_before_a_key_from_what_is_not(
            a in rows(),
            b in rows(),
            place in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let codec = RowCodec::Plain;
            let (a, b) = (codec.prefix(&a), codec.prefix(&b));
            prop_assume!(a < b);
            let (before, behind) = ([&a[..], &place].concat(), [&b[..], &place].concat());
            // As an index does: the shortest beginning that is above what is before.
            let cut = (1..=behind.len()).find(|cut| behind[..*cut] > before[..]).unwrap();
            let row = codec.boundary_row(&Bytes::copy_from_slice(&behind[..cut]));
            if let Some(row) = row {
                let prefix = codec.prefix(&row);
                prop_assert!(before < prefix && prefix <= behind, "{:?}", row);
            } else {
                prop_assert!(cut == 1 && behind[0] == 0);
            }
        }

        #[test]
        fn overflow_round_trip(row in rows(), qualifier in rows(), timestamp in any::<i64>()) {
            let prefix = RowCodec::Plain.prefix(&row);
            let key = overflow(&prefix, 9, &qualifier, timestamp, CellType::DeleteColumn);
            let expected = Place::Overflow {
                family: 9,
                qualifier: qualifier.into(),
                timestamp,
                cell_type: CellType::DeleteColumn,
            };
            prop_assert_eq!(place(key.slice(prefix.len()..)).unwrap(), expected);
        }

        /// Keys of two cells, HBase's comparator and the order inside a packed value agree (C10).
        #[test]
        fn overflow_keys_packed_cells_and_hbases_comparator_have_one_order(
            a in coordinates(),
            b in coordinates(),
        ) {
            let key = |(row, qualifier, timestamp, kind): &Coordinates| {
                overflow(&RowCodec::Plain.prefix(row), 3, qualifier, *timestamp, *kind)
            };
            let cell = |(row, qualifier, timestamp, kind): &Coordinates| {
                let (row, qualifier) = (row.clone().into(), qualifier.clone().into());
                let cell = Cell::put(row, "f".into(), qualifier, *timestamp, Bytes::new());
                Cell { cell_type: *kind, ..cell }
            };
            let order = key(&a).cmp(&key(&b));
            prop_assert_eq!(order, cell(&a).cmp_hbase(&cell(&b)));
            if a.0 != b.0 {
                return Ok(());
            }
            let (a, b) = (stored(&a), stored(&b));
            let sorted = packed::sort(vec![b.clone(), a.clone()]);
            let expected = match order {
                Ordering::Less => vec![a, b],
                Ordering::Equal => vec![a],
                Ordering::Greater => vec![b, a],
            };
            prop_assert_eq!(sorted, expected);
        }

        #[test]
        fn garbage_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = place(bytes.clone().into());
            let _ = RowCodec::Meta.prefix_len(&bytes);
            let _ = RowCodec::Plain.prefix_len(&bytes);
        }
    }

    #[test]
    fn overflow_order_is_hbase_order() {
        let key = |q: &[u8], ts, t| overflow(b"r\0\0", 1, q, ts, t);
        let order = [
            key(b"", 5, CellType::DeleteFamily),
            key(b"", 5, CellType::Put),
            key(b"a", 9, CellType::Put),
            key(b"a", 5, CellType::Delete),
            key(b"a", 5, CellType::Put),
            key(b"a", -5, CellType::Put),
            key(b"a\0", 9, CellType::Put),
            key(b"b", 9, CellType::Put),
        ];
        assert!(order.is_sorted());
    }

    /// The bytes on disk: these values must never change.
    #[test]
    fn golden() {
        let prefix = RowCodec::Plain.prefix(b"r\0w");
        assert_eq!(prefix, b"r\0\xffw\0\0");
        assert_eq!(&packed(&prefix, 0x0102)[..], b"r\0\xffw\0\0\x01\x02\0");
        assert_eq!(
            &overflow(b"r\0\0", 3, b"q", 1, CellType::Put)[..],
            b"r\0\0\0\x03\x01q\0\0\x7f\xff\xff\xff\xff\xff\xff\xfe\xfb"
        );
        assert_eq!(
            &nonce(b"r\0\0", 1, 2)[..],
            b"r\0\0\xff\xff\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02"
        );
        let meta = |row: &[u8]| RowCodec::Meta.prefix(row);
        assert_eq!(meta(b"t"), b"t\0\0\0");
        assert_eq!(meta(b"t,a"), b"t\0\0\x01a\0\0\0");
        assert_eq!(meta(b"t,a,b,9"), b"t\0\0\x01a,b\0\0\x019\0\0");
        assert!(meta(b"t,a,1") < meta(b"t,a+,1"));
    }

    #[test]
    fn limits() {
        assert!(check(RowCodec::Plain, b"", b"").is_err());
        assert!(check(RowCodec::Plain, &[1; 32_767], &[1; 32_000]).is_ok());
        assert!(check(RowCodec::Plain, &[1; 32_768], b"").is_err());
        assert!(check(RowCodec::Plain, &[0; 32_767], b"").is_err());
    }
}
