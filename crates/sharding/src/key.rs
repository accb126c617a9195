//! Key schemas: how a row key holds the fields of a rule, read and written.

use crate::value::{Type, Value};

/// The parts of a row key in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySchema {
    /// Parts.
    pub parts: Vec<KeyPart>,
}

/// One part of a row key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// `fixed f i64`: a scalar in its big-endian bytes, signed ones with the sign bit flipped so that bytes sort as values do;
    /// a uuid in its 16 bytes.
    Fixed {
        /// Field.
        field: u16,
    },
    /// `fixed f 8`: text or bytes of exactly that many bytes.
    Width {
        /// Field.
        field: u16,
        /// Bytes.
        bytes: u16,
    },
    /// `reversed f`: as `Fixed` with all bits flipped, so that the newest comes first.
    Reversed {
        /// Field.
        field: u16,
    },
    /// `until f "|"`: text or bytes up to a separator, or to the end.
    Until {
        /// Field.
        field: u16,
        /// Separator, not empty.
        separator: Vec<u8>,
    },
    /// `decimal f "|"`: an integer in decimal text up to a separator, or to the end.
    Decimal {
        /// Field.
        field: u16,
        /// Separator, not empty.
        separator: Vec<u8>,
    },
    /// `rest f`: what is left, text or bytes.
    Rest {
        /// Field.
        field: u16,
    },
    /// `skip 2`: bytes that the rule does not look at. `skip` alone: all that is left.
    Skip {
        /// Bytes, none = all that is left.
        bytes: Option<u16>,
    },
}

/// The first key behind all keys with this prefix; empty (the open end) if there is none.
#[must_use]
pub fn behind_prefix(prefix: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut end = prefix.into();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// Why a row key does not fit its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Ends before the part.
    #[error("the key ends before part {part}")]
    Short {
        /// Number of the part.
        part: u16,
    },
    /// Bytes are left over.
    #[error("{bytes} bytes are left over")]
    Long {
        /// How many.
        bytes: usize,
    },
    /// The bytes are no value of the field's type.
    #[error("part {part} is no {ty}")]
    Malformed {
        /// Number of the part.
        part: u16,
        /// The type.
        ty: Type,
    },
    /// A value cannot be written so that it can be read again: wrong type or width, a separator inside, null.
    #[error("part {part}: the value cannot stand in the key")]
    Unwritable {
        /// Number of the part.
        part: u16,
    },
}

impl KeySchema {
    /// Reads the fields from a row key into `fields`, which has one value per field of the rule. Fields that the key does
    /// not hold stay as they are.
    pub fn read<'a>(
        &self,
        types: &[Type],
        key: &'a [u8],
        fields: &mut [Value<'a>],
    ) -> Result<(), KeyError> {
        let mut left = key;
        for (at, part) in self.parts.iter().enumerate() {
            let at = u16::try_from(at).unwrap_or(u16::MAX);
            let Some((field, bytes)) = next(part, at, types, &mut left)? else {
                continue;
            };
            let ty = type_of(types, field);
            let value = match part {
                KeyPart::Fixed { .. } => scalar(ty, bytes, false),
                KeyPart::Reversed { .. } => scalar(ty, bytes, true),
                KeyPart::Decimal { .. } => decimal(ty, bytes),
                _ => text(ty, bytes),
            };
            let value = value.ok_or(KeyError::Malformed { part: at, ty })?;
            if let Some(slot) = fields.get_mut(usize::from(field)) {
                *slot = value;
            }
        }
        match left.len() {
            0 => Ok(()),
            bytes => Err(KeyError::Long { bytes }),
        }
    }

    /// The fields that the first `bytes` bytes of a row key hold as a whole; of one with a separator, with its separator.
    pub fn fields_within(
        &self,
        types: &[Type],
        key: &[u8],
        bytes: usize,
    ) -> Result<Vec<u16>, KeyError> {
        let mut held = Vec::new();
        let mut left = key;
        for (at, part) in self.parts.iter().enumerate() {
            let at = u16::try_from(at).unwrap_or(u16::MAX);
            let field = next(part, at, types, &mut left)?;
            if key.len() - left.len() > bytes {
                break;
            }
            held.extend(field.map(|(field, _)| field));
        }
        Ok(held)
    }

    /// Writes the row key of these fields; skipped bytes are zero. The inverse of [`KeySchema::read`].
    pub fn write(&self, fields: &[Value<'_>], key: &mut Vec<u8>) -> Result<(), KeyError> {
        for (at, part) in self.parts.iter().enumerate() {
            let fault = KeyError::Unwritable {
                part: u16::try_from(at).unwrap_or(u16::MAX),
            };
            let value = |field: &u16| fields.get(usize::from(*field)).copied().ok_or(fault);
            match part {
                KeyPart::Fixed { field } => {
                    write_scalar(value(field)?, false, key).ok_or(fault)?;
                }
                KeyPart::Reversed { field } => {
                    write_scalar(value(field)?, true, key).ok_or(fault)?;
                }
                KeyPart::Width { field, bytes } => {
                    let blob = blob(value(field)?).ok_or(fault)?;
                    if blob.len() != usize::from(*bytes) {
                        return Err(fault);
                    }
                    key.extend_from_slice(blob);
                }
                KeyPart::Until { field, separator } => {
                    let blob = blob(value(field)?).ok_or(fault)?;
                    if position(blob, separator).is_some() {
                        return Err(fault);
                    }
                    key.extend_from_slice(blob);
                    if at + 1 < self.parts.len() {
                        key.extend_from_slice(separator);
                    }
                }
                KeyPart::Decimal { field, separator } => {
                    match value(field)? {
                        Value::I64(it) => key.extend_from_slice(it.to_string().as_bytes()),
                        Value::U64(it) => key.extend_from_slice(it.to_string().as_bytes()),
                        _ => return Err(fault),
                    }
                    if at + 1 < self.parts.len() {
                        key.extend_from_slice(separator);
                    }
                }
                KeyPart::Rest { field } => {
                    key.extend_from_slice(blob(value(field)?).ok_or(fault)?);
                }
                KeyPart::Skip { bytes: Some(bytes) } => {
                    key.resize(key.len() + usize::from(*bytes), 0);
                }
                KeyPart::Skip { bytes: None } => {}
            }
        }
        Ok(())
    }

    /// The fields that the key holds.
    pub fn fields(&self) -> impl Iterator<Item = u16> + '_ {
        self.parts.iter().filter_map(|part| match part {
            KeyPart::Fixed { field }
            | KeyPart::Width { field, .. }
            | KeyPart::Reversed { field }
            | KeyPart::Until { field, .. }
            | KeyPart::Decimal { field, .. }
            | KeyPart::Rest { field } => Some(*field),
            KeyPart::Skip { .. } => None,
        })
    }
}

/// Takes a part from what is left of a key: its field and bytes; none if it is skipped.
fn next<'a>(
    part: &KeyPart,
    at: u16,
    types: &[Type],
    left: &mut &'a [u8],
) -> Result<Option<(u16, &'a [u8])>, KeyError> {
    let short = KeyError::Short { part: at };
    Ok(match part {
        KeyPart::Fixed { field } | KeyPart::Reversed { field } => {
            let bytes = take(left, width(type_of(types, *field))).ok_or(short)?;
            Some((*field, bytes))
        }
        KeyPart::Width { field, bytes } => {
            Some((*field, take(left, usize::from(*bytes)).ok_or(short)?))
        }
        KeyPart::Until { field, separator } | KeyPart::Decimal { field, separator } => {
            Some((*field, until(left, separator)))
        }
        KeyPart::Rest { field } => Some((*field, std::mem::take(left))),
        KeyPart::Skip { bytes: Some(bytes) } => {
            take(left, usize::from(*bytes)).ok_or(short)?;
            None
        }
        KeyPart::Skip { bytes: None } => {
            *left = &[];
            None
        }
    })
}

fn type_of(types: &[Type], field: u16) -> Type {
    types
        .get(usize::from(field))
        .copied()
        .unwrap_or(Type::Bytes)
}

/// Bytes that a fixed value takes.
pub(crate) fn width(ty: Type) -> usize {
    match ty {
        Type::Bool => 1,
        Type::Date => 4,
        Type::I64 | Type::U64 | Type::Timestamp => 8,
        Type::Uuid => 16,
        // Refused when the rule is checked; no bytes, so that nothing can be read.
        Type::Str | Type::Bytes => 0,
    }
}

fn take<'a>(left: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (head, tail) = left.split_at_checked(bytes)?;
    *left = tail;
    Some(head)
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len().max(1))
        .position(|window| window == needle)
}

fn until<'a>(left: &mut &'a [u8], separator: &[u8]) -> &'a [u8] {
    match position(left, separator) {
        Some(at) => {
            let head = &left[..at];
            *left = &left[at + separator.len()..];
            head
        }
        None => std::mem::take(left),
    }
}

fn scalar<'a>(ty: Type, bytes: &[u8], reversed: bool) -> Option<Value<'a>> {
    let flip = if reversed { !0 } else { 0 };
    if ty == Type::Uuid {
        let mut uuid: [u8; 16] = bytes.try_into().ok()?;
        for byte in &mut uuid {
            *byte ^= flip as u8;
        }
        return Some(Value::Uuid(uuid));
    }
    let mut number = 0_u64;
    for byte in bytes {
        number = number << 8 | u64::from(*byte ^ flip as u8);
    }
    Some(match ty {
        Type::Bool => match number {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            _ => return None,
        },
        Type::Date => Value::Date((number as u32 ^ (1 << 31)) as i32),
        Type::I64 => Value::I64((number ^ (1 << 63)) as i64),
        Type::Timestamp => Value::Timestamp((number ^ (1 << 63)) as i64),
        Type::U64 => Value::U64(number),
        Type::Str | Type::Bytes | Type::Uuid => return None,
    })
}

fn write_scalar(value: Value<'_>, reversed: bool, key: &mut Vec<u8>) -> Option<()> {
    let from = key.len();
    match value {
        Value::Bool(it) => key.push(u8::from(it)),
        Value::Date(it) => key.extend_from_slice(&(it as u32 ^ (1 << 31)).to_be_bytes()),
        Value::I64(it) | Value::Timestamp(it) => {
            key.extend_from_slice(&(it as u64 ^ (1 << 63)).to_be_bytes());
        }
        Value::U64(it) => key.extend_from_slice(&it.to_be_bytes()),
        Value::Uuid(it) => key.extend_from_slice(&it),
        Value::Null | Value::Str(_) | Value::Bytes(_) => return None,
    }
    if reversed {
        for byte in &mut key[from..] {
            *byte = !*byte;
        }
    }
    Some(())
}

fn text(ty: Type, bytes: &[u8]) -> Option<Value<'_>> {
    match ty {
        Type::Str => std::str::from_utf8(bytes).ok().map(Value::Str),
        Type::Bytes => Some(Value::Bytes(bytes)),
        _ => None,
    }
}

fn blob(value: Value<'_>) -> Option<&[u8]> {
    match value {
        Value::Str(it) => Some(it.as_bytes()),
        Value::Bytes(it) => Some(it),
        _ => None,
    }
}

/// Only the text that writing gives is read, so that one value has one key: no sign `+`, no leading zeros.
fn decimal<'a>(ty: Type, bytes: &[u8]) -> Option<Value<'a>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits == "0" && text == "0"
        || digits.bytes().all(|it| it.is_ascii_digit()) && !digits.starts_with('0');
    if !plain {
        return None;
    }
    match ty {
        Type::I64 => text.parse().ok().map(Value::I64),
        Type::U64 => text.parse().ok().map(Value::U64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_prefix() {
        let behind = |prefix: &[u8]| behind_prefix(prefix);
        assert_eq!(behind(b"ab"), b"ac");
        assert_eq!(behind(b"a\xff\xff"), b"b");
        assert_eq!(behind(b"\xff"), b"");
        assert_eq!(behind(b""), b"");
    }
}
