//! Helpers of this crate's tests.

use bytes::Bytes;
use cadastre_types::{Cell, CellType};
use proptest::prelude::*;

/// Bytes written as hex digits.
pub(crate) fn unhex(text: &str) -> Bytes {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect::<Vec<u8>>()
        .into()
}

/// Up to `max` arbitrary bytes.
pub(crate) fn any_bytes(min: usize, max: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), min..=max).prop_map(Bytes::from)
}

/// A row of whole tags.
fn any_tags() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any_bytes(1, 10), 0..3).prop_map(|tags| {
        let mut all = Vec::new();
        for tag in tags {
            all.extend_from_slice(&(tag.len() as u16).to_be_bytes());
            all.extend_from_slice(&tag);
        }
        all.into()
    })
}

/// A type that cells may have.
pub(crate) fn any_cell_type() -> impl Strategy<Value = CellType> {
    prop::sample::select(vec![
        CellType::Put,
        CellType::Delete,
        CellType::DeleteColumn,
        CellType::DeleteFamily,
        CellType::DeleteFamilyVersion,
    ])
}

prop_compose! {
    /// A cell as it may come over the wire.
    pub(crate) fn any_cell()(
        row in any_bytes(1, 20),
        family in any_bytes(1, 8),
        qualifier in any_bytes(0, 10),
        timestamp in 0..=i64::MAX,
        cell_type in any_cell_type(),
        value in any_bytes(0, 40),
        tags in any_tags(),
    ) -> Cell {
        Cell { row, family, qualifier, timestamp, cell_type, value, tags, sequence_id: 0 }
    }
}
