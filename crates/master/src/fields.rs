//! The container of the master's durable values: a version byte, then fields of a tag, a 32-bit big-endian length and bytes.
//!
//! Values hold protobuf messages where HBase has one (`wire::pb`); this is only what holds several of them together. A newer
//! version, an unknown tag or a cut value is an error, never guessed at.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cadastre_types::{Error, Result};

/// The only version so far.
const VERSION: u8 = 1;

/// Writes a value.
#[derive(Debug)]
pub(crate) struct Writer(BytesMut);

impl Writer {
    pub(crate) fn new() -> Self {
        let mut bytes = BytesMut::with_capacity(64);
        bytes.put_u8(VERSION);
        Self(bytes)
    }

    /// Adds a field; tags may repeat.
    pub(crate) fn field(mut self, tag: u8, value: &[u8]) -> Self {
        self.add(tag, value);
        self
    }

    /// The same in place.
    pub(crate) fn add(&mut self, tag: u8, value: &[u8]) {
        let len = u32::try_from(value.len()).expect("descriptors and names are bounded far below");
        self.0.put_u8(tag);
        self.0.put_u32(len);
        self.0.put_slice(value);
    }

    /// Adds a number.
    pub(crate) fn number(self, tag: u8, value: u64) -> Self {
        self.field(tag, &value.to_be_bytes())
    }

    pub(crate) fn finish(self) -> Bytes {
        self.0.freeze()
    }
}

/// The fields of a value, in order.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub(crate) fn read(mut value: Bytes) -> Result<Vec<(u8, Bytes)>> {
    if value.is_empty() {
        return Err(Error::corrupt("an empty value"));
    }
    match value.get_u8() {
        VERSION => {}
        newer => {
            return Err(Error::corrupt(format!(
                "a value of format {newer}; this program knows {VERSION}: a newer one wrote it"
            )));
        }
    }
    let mut fields = Vec::new();
    while value.has_remaining() {
        if value.remaining() < 5 {
            return Err(Error::corrupt("a field is cut"));
        }
        let tag = value.get_u8();
        let len = value.get_u32() as usize;
        if value.remaining() < len {
            return Err(Error::corrupt("a field is cut"));
        }
        fields.push((tag, value.split_to(len)));
    }
    Ok(fields)
}

/// A number written by [`Writer::number`].
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub(crate) fn number(value: &Bytes) -> Result<u64> {
    let bytes: [u8; 8] = value[..]
        .try_into()
        .map_err(|_| Error::corrupt("a number of another width than 8 bytes"))?;
    Ok(u64::from_be_bytes(bytes))
}

/// Text.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt).
pub(crate) fn text(value: &Bytes) -> Result<String> {
    String::from_utf8(value.to_vec()).map_err(|_| Error::corrupt("a text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_both_ways() {
        let value = Writer::new()
            .field(1, b"ab")
            .number(7, 258)
            .field(1, b"")
            .finish();
        assert_eq!(
            &value[..],
            b"\x01\x01\0\0\0\x02ab\x07\0\0\0\x08\0\0\0\0\0\0\x01\x02\x01\0\0\0\0"
        );
        let fields = read(value.clone()).unwrap();
        assert_eq!(fields.len(), 3);
        assert_eq!(number(&fields[1].1).unwrap(), 258);
        for cut in 0..value.len() {
            // A cut never panics; where it falls between two fields it is a shorter value.
            let whole_fields = [1, 8, 21].contains(&cut);
            assert_eq!(read(value.slice(..cut)).is_ok(), whole_fields, "{cut}");
        }
        assert!(read(Bytes::from_static(b"\x02")).is_err());
    }
}
