//! Bytes of one message, in and out. The only place where prost's traits are named.

mod check;

use bytes::Bytes;
use cadastre_types::{Error, Result};

pub use check::DECODED_MAX;

/// What every message of [`pb`](crate::pb) is, for generic code; its methods are not to be used outside this crate.
pub trait Message: prost::Message + prost::Name + Default {}

impl<M: prost::Message + prost::Name + Default> Message for M {}

/// Reads a message. Its `bytes` fields are slices of the input, nothing of them is copied.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) if the bytes are no such message, or lack a required field of it;
/// [`Code::RequestTooBig`](cadastre_types::Code::RequestTooBig) if it would take more memory than [`DECODED_MAX`].
pub fn decode<M: Message>(bytes: Bytes) -> Result<M> {
    check::check::<M>(&bytes)?;
    M::decode(bytes).map_err(|error| Error::corrupt(format!("not a valid message: {error}")))
}

/// Writes a message, without a length before it.
pub fn encode<M: Message>(message: &M) -> Bytes {
    message.encode_to_vec().into()
}
