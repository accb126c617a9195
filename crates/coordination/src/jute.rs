//! ZooKeeper's wire format: frames and jute records, both directions, as plain values.
//!
//! A frame is an int32 length and that many bytes (zookeeper-protocol.md, section 3). Everything here is a function of bytes:
//! this module must not know of sockets, sessions or the tree. Input is never trusted: a length is checked against what is
//! left of the frame before anything is allocated.

mod record;
mod request;
mod response;
#[cfg(test)]
pub(crate) mod tests;

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub use record::{
    Acl, ConnectRequest, ConnectResponse, ErrorCode, EventType, OPEN_ACL_PERMS, Stat, WatcherEvent,
};
pub use request::{Create, CreateForm, Request, RequestHeader, SetWatches, Unreadable, op};
pub use response::{Item, ReplyHeader, Response};

/// Longest frame, bytes without its length: `jute.maxbuffer` (0xfffff); real servers close the connection above it.
pub const FRAME_MAX: usize = 1_048_575;

/// Header xid of a watch event.
pub const XID_EVENT: i32 = -1;
/// Xid of a ping.
pub const XID_PING: i32 = -2;
/// Xid of an `auth` request.
pub const XID_AUTH: i32 = -4;
/// Xid of `setWatches` as the Rust crate and our client send it.
pub const XID_SET_WATCHES: i32 = -8;

/// Bytes that are not what they should be; says what was being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed ZooKeeper record: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads jute primitives from one frame, without copying buffers.
#[derive(Debug, Clone)]
pub struct Reader {
    rest: Bytes,
}

impl Reader {
    /// Over a frame without its length.
    pub fn new(frame: Bytes) -> Self {
        Self { rest: frame }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn need(&self, bytes: usize, what: &'static str) -> Result<(), Malformed> {
        if self.rest.len() < bytes {
            return Err(Malformed(what));
        }
        Ok(())
    }

    /// An int32.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        self.need(4, "int")?;
        Ok(self.rest.get_i32())
    }

    /// An int64.
    pub fn long(&mut self) -> Result<i64, Malformed> {
        self.need(8, "long")?;
        Ok(self.rest.get_i64())
    }

    /// One byte; anything but 0 is true.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        self.need(1, "bool")?;
        Ok(self.rest.get_u8() != 0)
    }

    /// A buffer; null and empty are kept apart.
    pub fn buffer(&mut self) -> Result<Option<Bytes>, Malformed> {
        let length = self.int()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Malformed("buffer length"))?;
        self.need(length, "buffer")?;
        Ok(Some(self.rest.split_to(length)))
    }

    /// A string; null reads as the empty one, which is no valid path.
    pub fn string(&mut self) -> Result<String, Malformed> {
        let bytes = self.buffer()?.unwrap_or_default();
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Malformed("string is not UTF-8")),
        }
    }

    /// A vector whose items take `item_min` bytes each at least; null reads as empty.
    pub fn vector<T>(
        &mut self,
        item_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.int()?;
        if count == -1 {
            return Ok(Vec::new());
        }
        let count = usize::try_from(count).map_err(|_| Malformed("vector count"))?;
        // What cannot be there is refused before it is allocated.
        self.need(count.saturating_mul(item_min.max(1)), "vector")?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A vector of strings.
    pub fn strings(&mut self) -> Result<Vec<String>, Malformed> {
        self.vector(4, Self::string)
    }
}

/// Writes jute primitives.
pub(crate) trait Writer {
    fn int(&mut self, value: i32);
    fn long(&mut self, value: i64);
    fn bool(&mut self, value: bool);
    fn buffer(&mut self, value: Option<&[u8]>);
    fn string(&mut self, value: &str);
    fn strings(&mut self, values: &[String]);
}

/// Lengths on the wire are int32: whatever is longer than a frame cannot be sent and is stopped before it gets here.
fn wire_length(length: usize) -> i32 {
    i32::try_from(length).expect("data in the tree and in requests is bounded far below 2 GiB")
}

impl Writer for BytesMut {
    fn int(&mut self, value: i32) {
        self.put_i32(value);
    }

    fn long(&mut self, value: i64) {
        self.put_i64(value);
    }

    fn bool(&mut self, value: bool) {
        self.put_u8(u8::from(value));
    }

    fn buffer(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.put_i32(-1),
            Some(bytes) => {
                self.put_i32(wire_length(bytes.len()));
                self.put_slice(bytes);
            }
        }
    }

    fn string(&mut self, value: &str) {
        self.buffer(Some(value.as_bytes()));
    }

    fn strings(&mut self, values: &[String]) {
        self.put_i32(wire_length(values.len()));
        for value in values {
            self.string(value);
        }
    }
}

/// Appends a frame: the length first, then what `body` writes.
pub(crate) fn frame(out: &mut BytesMut, body: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    body(out);
    let length = wire_length(out.len() - start - 4);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
