//! Rows that are written and read.

use bytes::Bytes;
use cadastre_types::Cell;

use crate::common::bytes;

/// One table's rows.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    OneByOneKb,
    TenBy100B,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneByOneKb => "1 × 1 kB",
            Self::TenBy100B => "10 × 100 B",
        }
    }

    pub(crate) fn cells(self, row: &Bytes, timestamp: i64) -> Vec<Cell> {
        let (columns, len) = match self {
            Self::OneByOneKb => (1, 1000),
            Self::TenBy100B => (10, 100),
        };
        // Not compressible, and not equal from row to row.
        let mut state = crc(row) | 1;
        let mut value = Vec::with_capacity(len);
        while value.len() < len {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            value.extend_from_slice(&state.to_le_bytes());
        }
        value.truncate(len);
        let value = Bytes::from(value);
        (0..columns)
            .map(|column| {
                Cell::put(
                    row.clone(),
                    bytes("f"),
                    bytes(&format!("q{column}")),
                    timestamp,
                    value.clone(),
                )
            })
            .collect()
    }
}

fn crc(row: &[u8]) -> u64 {
    row.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

pub(crate) fn key(n: u32) -> Bytes {
    bytes(&format!("row{n:012}"))
}

/// A number below `of`, different each time.
pub(crate) fn some(state: &mut u64, of: u32) -> u32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    u32::try_from((*state >> 33) % u64::from(of)).unwrap()
}
