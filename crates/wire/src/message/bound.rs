//! What a message will take in memory, found before it is decoded. Two bytes can announce a nested message whose struct takes
//! hundreds, so a bound on the frame alone does not bound the memory (INV-9). Knows shapes of messages, not their meaning.

use bytes::Buf;
use cadastre_types::{Code, Error, Result};
use prost::encoding::decode_varint;

/// Structs of one decoded message at most, bytes. A `Multi` of some fifty thousand actions fits; HBase warns from five thousand
/// (`hbase.rpc.rows.warning.threshold`).
pub const DECODED_MAX: usize = 64 * 1024 * 1024;

/// Messages up to this length are decoded without a look: even if every two bytes were the largest struct, they would stay near
/// [`DECODED_MAX`].
const UNCHECKED_MAX: usize = 64 * 1024;

/// A vector that grows has up to twice the room it needs.
const VEC_SLACK: usize = 2;

/// A number in a vector, bytes.
const NUMBER: usize = 8;

/// `Bytes` or `String` in a vector, bytes.
const SLICE: usize = 32;

/// One message: what it takes, and the fields by which it takes more.
struct Shape {
    name: &'static str,
    size: usize,
    grows: &'static [(i32, Growth)],
}

/// How a field takes memory beyond the message's own size.
#[derive(Clone, Copy)]
enum Growth {
    /// A message inside; its own size counts only if it is an element of a vector.
    Message { index: usize, repeated: bool },
    /// Text is copied.
    Text { repeated: bool },
    /// Elements that are slices.
    Bytes,
    /// Elements that are numbers, packed or not.
    Numbers,
}

include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// Refuses a message that would take more than [`DECODED_MAX`].
pub(super) fn check<M: prost::Name>(bytes: &[u8]) -> Result<()> {
    if bytes.len() <= UNCHECKED_MAX {
        return Ok(());
    }
    let name = M::full_name();
    let index = SHAPES
        .binary_search_by(|shape| shape.name.cmp(&name))
        .expect("every message is generated together with its shape");
    let mut budget = Budget {
        left: DECODED_MAX,
        over: false,
    };
    // What is malformed is found by the decoder, which allocates nothing behind the place.
    let _ = budget.walk(bytes, &SHAPES[index]);
    if budget.over {
        return Err(Error::new(
            Code::RequestTooBig,
            format!("a message of {} bytes holds too many elements", bytes.len()),
        ));
    }
    Ok(())
}

struct Budget {
    left: usize,
    over: bool,
}

impl Budget {
    /// `None` once there is nothing more to take.
    fn take(&mut self, bytes: usize) -> Option<()> {
        let left = self.left.checked_sub(bytes);
        self.over |= left.is_none();
        self.left = left?;
        Some(())
    }

    /// Walks over a message; `None` at its first malformed byte, or when the budget is used up.
    fn walk(&mut self, mut bytes: &[u8], shape: &Shape) -> Option<()> {
        while !bytes.is_empty() {
            let key = decode_varint(&mut bytes).ok()?;
            let number = i32::try_from(key >> 3).ok()?;
            let growth = shape.grows.iter().find(|it| it.0 == number).map(|it| it.1);
            match key & 7 {
                0 => {
                    decode_varint(&mut bytes).ok()?;
                    self.one_number(growth)?;
                }
                1 => {
                    bytes.try_get_u64().ok()?;
                    self.one_number(growth)?;
                }
                2 => {
                    let len = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                    let inner = bytes.split_off(..len)?;
                    self.delimited(inner, growth)?;
                }
                // Groups: what is in them counts as if it stood here, which is too much rather than too little.
                3 | 4 => {}
                5 => {
                    bytes.try_get_u32().ok()?;
                    self.one_number(growth)?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn one_number(&mut self, growth: Option<Growth>) -> Option<()> {
        match growth {
            Some(Growth::Numbers) => self.take(NUMBER * VEC_SLACK),
            _ => Some(()),
        }
    }

    fn delimited(&mut self, inner: &[u8], growth: Option<Growth>) -> Option<()> {
        match growth {
            None => Some(()),
            Some(Growth::Message { index, repeated }) => {
                let shape = &SHAPES[index];
                if repeated {
                    self.take(shape.size.saturating_mul(VEC_SLACK))?;
                }
                self.walk(inner, shape)
            }
            Some(Growth::Text { repeated }) => {
                let element = if repeated { SLICE * VEC_SLACK } else { 0 };
                self.take(inner.len().saturating_add(element))
            }
            Some(Growth::Bytes) => self.take(SLICE * VEC_SLACK),
            // A packed number takes one byte at least.
            Some(Growth::Numbers) => self.take(inner.len().saturating_mul(NUMBER * VEC_SLACK)),
        }
    }
}

#[cfg(test)]
mod tests;
