//! Reads the header at the front of a frame that is not going to be taken whole. Knows nothing of limits on frames.

use bytes::Bytes;
use cadastre_types::Result;

/// A header must lie within this many bytes. Peers send under 1 KiB, trace context, attributes and exception texts of ordinary
/// length included.
pub(crate) const HEADER_BYTES_MAX: usize = 16 * 1024;

/// A length of up to [`HEADER_BYTES_MAX`] takes this many bytes at most.
const LENGTH_BYTES_MAX: usize = 3;

/// What the first bytes of a frame hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Header<M> {
    /// The whole header.
    Whole(M),
    /// More bytes are needed.
    Incomplete,
    /// No header.
    Bad,
}

/// Reads the delimited header that `come`, the bytes that have come of a frame, begins with.
pub(crate) fn read<M>(come: &[u8], decode: impl FnOnce(Bytes) -> Result<M>) -> Header<M> {
    let mut len = 0_usize;
    for (at, byte) in come.iter().take(LENGTH_BYTES_MAX).enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 != 0 {
            continue;
        }
        if len > HEADER_BYTES_MAX {
            return Header::Bad;
        }
        let Some(header) = come.get(at + 1..at + 1 + len) else {
            return Header::Incomplete;
        };
        return decode(Bytes::copy_from_slice(header)).map_or(Header::Bad, Header::Whole);
    }
    if come.len() < LENGTH_BYTES_MAX {
        Header::Incomplete
    } else {
        Header::Bad
    }
}

#[cfg(test)]
mod tests {
    use cadastre_types::Error;

    use super::*;

    fn front(come: &[u8]) -> Header<Bytes> {
        read(come, Ok)
    }

    #[test]
    fn lengths_of_one_to_three_bytes() {
        assert_eq!(front(&[]), Header::Incomplete);
        assert_eq!(front(&[0, 9]), Header::Whole(Bytes::new()));
        assert_eq!(front(&[2, 8]), Header::Incomplete);
        assert_eq!(
            front(&[2, 8, 1, 9]),
            Header::Whole(Bytes::from_static(&[8, 1]))
        );
        assert_eq!(front(&[0x80]), Header::Incomplete);
        let mut long = vec![0x80, 0x01];
        long.extend([7; 128]);
        assert_eq!(front(&long), Header::Whole(vec![7; 128].into()));
        assert_eq!(front(&[0xff, 0xff, 0xff, 0xff]), Header::Bad);
        assert_eq!(front(&[0xff, 0xff, 0x7f]), Header::Bad);
        let bad = read(&[1, 1], |_| Err::<(), _>(Error::corrupt("no")));
        assert_eq!(bad, Header::Bad);
    }
}
