//! Bytes of one message, in and out. The only place where prost's traits are named.

use bytes::Bytes;
use cadastre_types::{Error, Result};

/// What every message of [`pb`](crate::pb) is, for generic code; to be used with [`decode`] and [`encode`] only.
pub use prost::Message;

/// Reads a message. Its `bytes` fields are slices of the input, nothing of them is copied.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) if the bytes are no such message.
pub fn decode<M: Message + Default>(bytes: Bytes) -> Result<M> {
    M::decode(bytes).map_err(|error| Error::corrupt(format!("not a valid message: {error}")))
}

/// Writes a message, without a length before it.
pub fn encode<M: Message>(message: &M) -> Bytes {
    message.encode_to_vec().into()
}
