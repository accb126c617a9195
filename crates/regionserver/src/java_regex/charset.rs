//! How the bytes of a value become text: the charsets that every Java has.

use std::borrow::Cow;

/// A charset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    Utf8,
    Latin1,
    Ascii,
    /// The byte order as the text says itself; most significant first if it does not.
    Utf16,
    Utf16Be,
    Utf16Le,
}

impl Charset {
    /// By Java's name or one of its aliases. Without a name, and for one that cannot be a name, it is UTF-8, as in HBase.
    pub(super) fn of(name: &str) -> Result<Self, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-+.:_".contains(c);
        let begins = |c: char| c.is_ascii_alphanumeric();
        if !name.starts_with(begins) || !name.chars().all(is_name) {
            return Ok(Self::Utf8);
        }
        Ok(match name.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" | "unicode-1-1-utf-8" => Self::Utf8,
            "iso-8859-1" | "iso8859-1" | "iso8859_1" | "iso_8859-1" | "iso_8859_1"
            | "iso_8859-1:1987" | "iso-ir-100" | "8859_1" | "latin1" | "l1" | "ibm819"
            | "ibm-819" | "cp819" | "819" | "csisolatin1" => Self::Latin1,
            "us-ascii" | "ascii" | "ascii7" | "iso646-us" | "iso_646.irv:1991"
            | "iso_646.irv:1983" | "ansi_x3.4-1968" | "ansi_x3.4-1986" | "iso-ir-6" | "646"
            | "ibm367" | "cp367" | "csascii" | "us" | "default" => Self::Ascii,
            "utf-16" | "utf_16" | "utf16" | "unicode" | "unicodebig" => Self::Utf16,
            "utf-16be" | "utf_16be" | "iso-10646-ucs-2" | "x-utf-16be" | "unicodebigunmarked" => {
                Self::Utf16Be
            }
            "utf-16le" | "utf_16le" | "x-utf-16le" | "unicodelittleunmarked" => Self::Utf16Le,
            _ => return Err(format!("the charset {name} is not known here")),
        })
    }

    /// The text, with U+FFFD for what is none.
    pub(super) fn decode(self, value: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Utf8 => String::from_utf8_lossy(value),
            Self::Latin1 | Self::Ascii if value.is_ascii() => String::from_utf8_lossy(value),
            Self::Latin1 => Cow::Owned(value.iter().copied().map(char::from).collect()),
            Self::Ascii => {
                Cow::Owned(String::from_iter(value.iter().map(
                    |byte| match byte.is_ascii() {
                        true => char::from(*byte),
                        false => char::REPLACEMENT_CHARACTER,
                    },
                )))
            }
            Self::Utf16 => Cow::Owned(match value {
                [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
                [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
                _ => utf16(value, u16::from_be_bytes),
            }),
            Self::Utf16Be => Cow::Owned(utf16(value, u16::from_be_bytes)),
            Self::Utf16Le => Cow::Owned(utf16(value, u16::from_le_bytes)),
        }
    }
}

/// Java takes half a character together with the unit behind it for one that is none.
fn utf16(value: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, odd) = value.as_chunks::<2>();
    let mut units = pairs.iter().map(|pair| unit(*pair));
    let mut text = String::with_capacity(value.len());
    while let Some(first) = units.next() {
        let decoded = match first {
            0xd800..=0xdbff => {
                let both = [Some(first), units.next()];
                let mut decoded = char::decode_utf16(both.into_iter().flatten());
                decoded.next().and_then(Result::ok)
            }
            _ => char::from_u32(first.into()),
        };
        text.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    if !odd.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
}
