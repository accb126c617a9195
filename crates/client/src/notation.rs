//! HBase's notation of bytes as text: printable ASCII as it is, everything else and the backslash as `\xNN`
//! (`Bytes.toStringBinary`). Used in messages and by the command line; it must not know what the bytes mean.

use std::fmt::Write;

use bytes::Bytes;
use cadastre_types::{Error, Result};

/// Bytes as text.
pub fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if (b' '..=b'~').contains(&byte) && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02X}");
        }
    }
    text
}

/// Text as bytes. `\xNN` and `\\` are read as one byte, everything else as its UTF-8 bytes.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) if a backslash begins anything else: most likely a quoting mistake
/// in a shell, which must not silently become a row key.
pub fn from_text(text: &str) -> Result<Bytes> {
    from_bytes(text.as_bytes())
}

/// The same for text of any encoding: bytes that are not ASCII are taken as they are.
///
/// # Errors
/// As [`from_text`].
pub fn from_bytes(text: &[u8]) -> Result<Bytes> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        match tail {
            [b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [b'x', high, low, after @ ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                    return Err(malformed(text));
                };
                // Two hex digits fit a byte.
                bytes.push((high * 16 + low) as u8);
                rest = after;
            }
            _ => return Err(malformed(text)),
        }
    }
    Ok(bytes.into())
}

fn malformed(text: &[u8]) -> Error {
    /// Of a long value the beginning is enough to find it.
    const SHOWN: usize = 200;
    let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
    Error::invalid(format!(
        "'{shown}' has a backslash that begins neither \\xNN nor \\\\"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_written_as_hbase_writes_them() {
        assert_eq!(to_text(b"a b~\\\0\xff"), "a b~\\x5C\\x00\\xFF");
        assert_eq!(
            &from_text("a\\x00\\xfF\\\\é").unwrap()[..],
            b"a\0\xff\\\xc3\xa9"
        );
        assert_eq!(&from_bytes(b"\xe9\\x00").unwrap()[..], b"\xe9\0");
        for bad in ["\\", "\\x", "\\x0", "\\x0g", "\\n", "a\\x+1"] {
            assert!(from_text(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_string_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(&from_text(&to_text(&bytes)).unwrap()[..], &bytes[..]);
        }
    }
}
