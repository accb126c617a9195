//! What must hold of a message before it is decoded: it takes no more memory than allowed, since two bytes can announce a nested
//! message whose struct takes hundreds (INV-9), and it has its required fields, which the decoder would fill with nothing. Knows
//! shapes of messages, not their meaning.

use bytes::Buf;
use cadastre_types::{Code, Error, Result};
use prost::encoding::decode_varint;

/// Structs of one decoded message at most, bytes: as many as the largest request frame has. A `Multi` of two hundred thousand actions
/// fits (one of HBase's own tests sends 131,074); HBase warns from five thousand (`hbase.rpc.rows.warning.threshold`).
pub const DECODED_MAX: usize = 256 * 1024 * 1024;

/// A vector that grows has up to twice the room it needs.
const VEC_SLACK: usize = 2;

/// A number in a vector, bytes.
const NUMBER: usize = 8;

/// `Bytes` or `String` in a vector, bytes.
const SLICE: usize = 32;

/// One message: what it takes, and the fields that matter here.
struct Shape {
    package: &'static str,
    name: &'static str,
    size: usize,
    fields: &'static [Field],
}

/// A field by which a message takes more memory, or that it must have.
struct Field {
    number: u32,
    name: &'static str,
    required: bool,
    growth: Growth,
}

/// How a field takes memory beyond the message's own size.
#[derive(Clone, Copy)]
enum Growth {
    /// Not at all.
    None,
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

/// Why a walk ended early.
enum Stop {
    /// The decoder will say what is malformed; it allocates nothing behind the place.
    Malformed,
    /// Over [`DECODED_MAX`].
    TooBig,
    /// A required field is missing.
    Missing(&'static Shape, &'static Field),
}

/// Refuses a message that would take more than [`DECODED_MAX`], or that lacks a required field.
pub(super) fn check<M: prost::Name>(bytes: &[u8]) -> Result<()> {
    let mut walk = Walk { left: DECODED_MAX };
    match walk.message(bytes, &SHAPES[ShapeOf::<M>::INDEX]) {
        Ok(()) | Err(Stop::Malformed) => Ok(()),
        Err(Stop::TooBig) => Err(Error::new(
            Code::RequestTooBig,
            format!("a message of {} bytes holds too many elements", bytes.len()),
        )),
        Err(Stop::Missing(shape, field)) => Err(Error::corrupt(format!(
            "a message {} without its required field {}",
            shape.name, field.name
        ))),
    }
}

/// Where a message stands in the table, found by the compiler.
struct ShapeOf<M>(std::marker::PhantomData<M>);

impl<M: prost::Name> ShapeOf<M> {
    const INDEX: usize = find(M::PACKAGE, M::NAME);
}

const fn find(package: &str, name: &str) -> usize {
    let mut at = 0;
    while at < SHAPES.len() {
        if same(SHAPES[at].name.as_bytes(), name.as_bytes())
            && same(SHAPES[at].package.as_bytes(), package.as_bytes())
        {
            return at;
        }
        at += 1;
    }
    panic!("only messages that stand by themselves are decoded, not those nested in others");
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

struct Walk {
    /// Bytes of memory that may still be taken.
    left: usize,
}

impl Walk {
    fn take(&mut self, bytes: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(bytes).ok_or(Stop::TooBig)?;
        Ok(())
    }

    fn message(&mut self, mut bytes: &[u8], shape: &'static Shape) -> Result<(), Stop> {
        // One bit for each field; the build refuses a shape with more.
        let mut seen = 0_u64;
        while !bytes.is_empty() {
            let key = decode_varint(&mut bytes).map_err(malformed)?;
            let number = key >> 3;
            let at = shape
                .fields
                .iter()
                .position(|field| u64::from(field.number) == number);
            let growth = at.map_or(Growth::None, |at| {
                seen |= 1 << at;
                shape.fields[at].growth
            });
            match key & 7 {
                0 => {
                    decode_varint(&mut bytes).map_err(malformed)?;
                    self.number(growth)?;
                }
                1 => {
                    bytes.try_get_u64().map_err(malformed)?;
                    self.number(growth)?;
                }
                2 => {
                    let len = decode_varint(&mut bytes).map_err(malformed)?;
                    let len = usize::try_from(len).map_err(malformed)?;
                    let inner = bytes.split_off(..len).ok_or(Stop::Malformed)?;
                    self.delimited(inner, growth)?;
                }
                // Groups: what is in them counts as if it stood here, which is too much rather than too little.
                3 | 4 => {}
                5 => {
                    bytes.try_get_u32().map_err(malformed)?;
                    self.number(growth)?;
                }
                _ => return Err(Stop::Malformed),
            }
        }
        let missing = |(at, field): &(usize, &Field)| field.required && seen & (1 << at) == 0;
        match shape.fields.iter().enumerate().find(missing) {
            None => Ok(()),
            Some((_, field)) => Err(Stop::Missing(shape, field)),
        }
    }

    fn number(&mut self, growth: Growth) -> Result<(), Stop> {
        match growth {
            Growth::Numbers => self.take(NUMBER * VEC_SLACK),
            _ => Ok(()),
        }
    }

    fn delimited(&mut self, inner: &[u8], growth: Growth) -> Result<(), Stop> {
        match growth {
            Growth::None => Ok(()),
            Growth::Message { index, repeated } => {
                let shape = &SHAPES[index];
                if repeated {
                    self.take(shape.size.saturating_mul(VEC_SLACK))?;
                }
                self.message(inner, shape)
            }
            Growth::Text { repeated } => {
                let element = if repeated { SLICE * VEC_SLACK } else { 0 };
                self.take(inner.len().saturating_add(element))
            }
            Growth::Bytes => self.take(SLICE * VEC_SLACK),
            // A packed number takes one byte at least.
            Growth::Numbers => self.take(inner.len().saturating_mul(NUMBER * VEC_SLACK)),
        }
    }
}

fn malformed<E>(_: E) -> Stop {
    Stop::Malformed
}

#[cfg(test)]
mod tests;
