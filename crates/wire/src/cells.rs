//! Cell blocks: cells outside the messages (hbase-protocol.md 1.3 and 3). Knows nothing of which message a cell belongs to.

mod compress;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cadastre_types::{Cell, CellType, Error, Result, limits};

pub use compress::{COMPRESSION_BLOCK, Compressor};

/// Bytes of a block's cell beside its row, family, qualifier and value: block length, key length, value length, row length,
/// family length, timestamp, type.
const CELL_OVERHEAD: usize = 4 + KEY_VALUE_OVERHEAD;
const KEY_VALUE_OVERHEAD: usize = 4 + 4 + KEY_OVERHEAD;
const KEY_OVERHEAD: usize = 2 + 1 + STAMP_AND_TYPE;
const STAMP_AND_TYPE: usize = 8 + 1;

/// Bytes of the smallest cell a block can hold: what bounds how many cells some bytes can be.
pub const CELL_MIN: usize = CELL_OVERHEAD + 1;

/// How the cells of a block are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// `KeyValueCodec`: tags are dropped.
    #[default]
    KeyValue,
    /// `KeyValueCodecWithTags`.
    KeyValueWithTags,
}

impl Codec {
    /// Java class, as a connection header names it.
    pub fn class(self) -> &'static str {
        match self {
            Self::KeyValue => "org.apache.hadoop.hbase.codec.KeyValueCodec",
            Self::KeyValueWithTags => "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags",
        }
    }

    /// The codec of this Java class.
    pub fn from_class(class: &str) -> Option<Self> {
        [Self::KeyValue, Self::KeyValueWithTags]
            .into_iter()
            .find(|codec| codec.class() == class)
    }
}

/// Bytes that [`write_cell`] will write.
pub fn cell_len(cell: &Cell, codec: Codec) -> usize {
    4 + cell.key_value_len() + tags_len(cell, codec)
}

fn tags_len(cell: &Cell, codec: Codec) -> usize {
    if codec == Codec::KeyValueWithTags && !cell.tags.is_empty() {
        2 + cell.tags.len()
    } else {
        0
    }
}

/// Appends a cell to a block.
///
/// # Panics
/// If the cell has a part that no KeyValue can hold; cells are checked when they come in.
pub fn write_cell(out: &mut BytesMut, cell: &Cell, codec: Codec) {
    assert!(
        cell.row.len() <= limits::ROW_MAX
            && cell.family.len() <= limits::FAMILY_MAX
            && cell.tags.len() <= usize::from(u16::MAX),
        "a cell within its limits"
    );
    let tags = tags_len(cell, codec);
    let len = cell.key_value_len() + tags;
    let key_len = KEY_OVERHEAD + cell.row.len() + cell.family.len() + cell.qualifier.len();
    let length = i32::try_from(len).expect("a cell is far smaller than 2 GiB");
    out.reserve(4 + len);
    out.put_i32(length);
    // Both are parts of `len`.
    out.put_u32(key_len as u32);
    out.put_u32(cell.value.len() as u32);
    out.put_u16(cell.row.len() as u16);
    out.put_slice(&cell.row);
    out.put_u8(cell.family.len() as u8);
    out.put_slice(&cell.family);
    out.put_slice(&cell.qualifier);
    out.put_i64(cell.timestamp);
    out.put_u8(cell.cell_type.code());
    out.put_slice(&cell.value);
    if tags > 0 {
        out.put_u16(cell.tags.len() as u16);
        out.put_slice(&cell.tags);
    }
}

/// The cells of a block, one after the other; their parts are slices of the block. After an error it ends.
#[derive(Debug, Clone)]
pub struct CellReader {
    rest: Bytes,
    codec: Codec,
}

impl CellReader {
    /// Reads a block, already decompressed.
    pub fn new(block: Bytes, codec: Codec) -> Self {
        Self { rest: block, codec }
    }

    /// A reader of nothing, for connections without cell blocks.
    pub fn empty() -> Self {
        Self::new(Bytes::new(), Codec::KeyValue)
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads exactly `count` cells.
    ///
    /// # Errors
    /// [`Code::Corrupt`](cadastre_types::Code::Corrupt) if there are fewer, or if one is damaged.
    pub fn take_cells(&mut self, count: usize) -> Result<Vec<Cell>> {
        let possible = self.rest.len() / CELL_MIN;
        if count > possible {
            return Err(Error::corrupt(format!(
                "{count} cells announced, but {} bytes hold {possible} at most",
                self.rest.len()
            )));
        }
        let mut cells = Vec::with_capacity(count);
        for at in 0..count {
            cells.push(self.next().unwrap_or_else(|| {
                Err(Error::corrupt(format!(
                    "{count} cells announced, but the block ends after {at}"
                )))
            })?);
        }
        Ok(cells)
    }

    /// Passes over `count` cells of a request part that is not to be executed.
    ///
    /// # Errors
    /// [`Code::Corrupt`](cadastre_types::Code::Corrupt) if there are fewer.
    pub fn skip_cells(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            match self.peek() {
                Some(at) => self.rest.advance(at?.end),
                None => return Err(Error::corrupt("fewer cells in the block than announced")),
            }
        }
        Ok(())
    }

    /// Where the next cell begins and ends, behind its length.
    fn peek(&self) -> Option<Result<std::ops::Range<usize>>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self
            .rest
            .first_chunk::<4>()
            .and_then(|len| usize::try_from(u32::from_be_bytes(*len)).ok())
            .and_then(|len| len.checked_add(4))
            .filter(|end| *end <= self.rest.len());
        Some(match end {
            Some(end) => Ok(4..end),
            None => Err(Error::corrupt("a cell is longer than its block")),
        })
    }
}

impl Iterator for CellReader {
    type Item = Result<Cell>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.peek()?.and_then(|at| {
            let end = at.end;
            let parts = Parts::read(&self.rest[at], self.codec)?;
            let cell = parts.of(&self.rest);
            self.rest.advance(end);
            Ok(cell)
        });
        if read.is_err() {
            self.rest = Bytes::new();
        }
        Some(read)
    }
}

/// A cell whose parts still lie in the block.
struct Parts<'a> {
    row: &'a [u8],
    family: &'a [u8],
    qualifier: &'a [u8],
    timestamp: i64,
    cell_type: CellType,
    value: &'a [u8],
    tags: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Reads one KeyValue that fills its bytes.
    fn read(mut raw: &'a [u8], codec: Codec) -> Result<Self> {
        if raw.len() < KEY_VALUE_OVERHEAD {
            return Err(damaged("shorter than its fixed parts"));
        }
        let key_len = raw.get_u32() as usize;
        let value_len = raw.get_u32() as usize;
        let key = raw.split_off(..key_len);
        let value = raw.split_off(..value_len);
        let (Some(mut key), Some(value)) = (key, value) else {
            return Err(damaged("key and value are longer than the cell"));
        };
        let tags = tags(raw, codec)?;
        if key.len() < KEY_OVERHEAD {
            return Err(damaged("key shorter than its fixed parts"));
        }
        let row_len = usize::from(key.get_u16());
        if row_len == 0 || row_len > limits::ROW_MAX {
            return Err(damaged("row length"));
        }
        // What must still follow the row: family length, timestamp, type.
        if key.len() < row_len + KEY_OVERHEAD - 2 {
            return Err(damaged("row longer than the key"));
        }
        let (row, mut key) = key.split_at(row_len);
        let family_len = usize::from(key.get_u8());
        if family_len > limits::FAMILY_MAX || key.len() < family_len + STAMP_AND_TYPE {
            return Err(damaged("family length"));
        }
        let (family, key) = key.split_at(family_len);
        let (qualifier, mut key) = key.split_at(key.len() - STAMP_AND_TYPE);
        let timestamp = key.get_i64();
        let code = key.get_u8();
        let cell_type = CellType::from_code(code)
            .ok_or_else(|| damaged(&format!("type {code} is never sent")))?;
        Ok(Self {
            row,
            family,
            qualifier,
            timestamp,
            cell_type,
            value,
            tags,
        })
    }

    /// The cell, its parts as slices of the block that they lie in.
    fn of(&self, block: &Bytes) -> Cell {
        Cell {
            row: block.slice_ref(self.row),
            family: block.slice_ref(self.family),
            qualifier: block.slice_ref(self.qualifier),
            timestamp: self.timestamp,
            cell_type: self.cell_type,
            value: block.slice_ref(self.value),
            tags: block.slice_ref(self.tags),
            sequence_id: 0,
        }
    }
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("damaged cell: {what}"))
}

fn tags(mut rest: &[u8], codec: Codec) -> Result<&[u8]> {
    if rest.is_empty() {
        return Ok(rest);
    }
    if codec == Codec::KeyValueWithTags
        && rest.len() >= 2
        && usize::from(rest.get_u16()) == rest.len()
        && tags_are_whole(rest)
    {
        return Ok(rest);
    }
    Err(damaged("tags"))
}

/// Whether these bytes are a row of whole tags: 2-byte length of type and payload, type, payload (3.5).
pub fn tags_are_whole(mut tags: &[u8]) -> bool {
    while !tags.is_empty() {
        let Some((len, rest)) = tags.split_first_chunk::<2>() else {
            return false;
        };
        let len = usize::from(u16::from_be_bytes(*len));
        if len == 0 || len > rest.len() {
            return false;
        }
        tags = &rest[len..];
    }
    true
}

#[cfg(test)]
mod tests;
