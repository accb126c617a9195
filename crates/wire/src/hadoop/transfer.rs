//! The data transfer protocol between clients and DataNodes, version 28: operations, their answers, packets, checksums, acks.
//!
//! Both directions are here, so that a test can be the DataNode. Knows where bytes lie, not when to send what. Everything is plain: SASL and
//! encryption come before it and are somebody else's.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cadastre_types::{Error, Result};

use super::{pb, put_delimited};
use crate::Message;

/// The only version that is spoken.
pub const VERSION: u16 = 28;

/// Code of the operation that writes a block.
pub const WRITE_BLOCK: u8 = 80;
/// Code of the operation that reads one.
pub const READ_BLOCK: u8 = 81;

/// Bytes of an operation before its message: version and code.
pub const OP_BYTES: usize = 3;

/// Largest message that is taken, bytes: answers and acks have some hundred.
pub const MESSAGE_MAX: usize = 1 << 20;

/// Bytes of a message's length at most.
pub const LENGTH_BYTES_MAX: usize = 4;

/// Bytes of a packet before its header: the length of what follows the header, the header's length.
pub const PACKET_START_BYTES: usize = 6;

/// Largest packet, bytes; DataNodes take no larger ones either.
pub const PACKET_MAX: usize = 16 << 20;

/// Largest header of a packet, bytes; today's have 25 to 33.
const PACKET_HEADER_MAX: usize = 1024;

/// Sequence number of a packet, or ack, that only says that somebody is there.
pub const HEARTBEAT: i64 = -1;

/// Bytes of one checksum.
const SUM_BYTES: usize = 4;

/// Bytes for which there may be one checksum, at most.
const CHUNK_MAX: u32 = 1 << 24;

/// Writes an operation: its code and its message.
pub fn put_operation(out: &mut BytesMut, code: u8, message: &impl Message) {
    out.put_u16(VERSION);
    out.put_u8(code);
    put_delimited(out, message);
}

/// Writes a message with its length before it.
pub fn put_message(out: &mut BytesMut, message: &impl Message) {
    put_delimited(out, message);
}

/// Reads the start of an operation: its code.
///
/// # Errors
/// [`cadastre_types::Code::Corrupt`] for another version.
pub fn operation(start: [u8; OP_BYTES]) -> Result<u8> {
    let [high, low, code] = start;
    let version = u16::from_be_bytes([high, low]);
    if version != VERSION {
        return Err(Error::corrupt(format!(
            "data transfer version {version}, not {VERSION}"
        )));
    }
    Ok(code)
}

/// Reads a message's length from its first bytes; `None` if there are not enough of them yet.
///
/// # Errors
/// [`cadastre_types::Code::Corrupt`] over [`MESSAGE_MAX`].
pub fn message_length(start: &[u8]) -> Result<Option<usize>> {
    let mut length = 0_usize;
    for (at, byte) in start.iter().take(LENGTH_BYTES_MAX).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            if length > MESSAGE_MAX {
                break;
            }
            return Ok(Some(length));
        }
    }
    if start.len() < LENGTH_BYTES_MAX && start.iter().all(|byte| byte & 0x80 != 0) {
        return Ok(None);
    }
    Err(Error::corrupt(format!(
        "a DataNode's message over {MESSAGE_MAX} bytes"
    )))
}

/// How a block's bytes are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    kind: pb::ChecksumTypeProto,
    /// Bytes with one checksum; only the last chunk of a block may have fewer.
    chunk: u32,
}

impl Checksum {
    /// CRC-32C over chunks of so many bytes: what Hadoop writes.
    ///
    /// # Errors
    /// [`cadastre_types::Code::Corrupt`] for a size that cannot be.
    pub fn crc32c(chunk: u32) -> Result<Self> {
        Self::new(pb::ChecksumTypeProto::ChecksumCrc32c, chunk)
    }

    fn new(kind: pb::ChecksumTypeProto, chunk: u32) -> Result<Self> {
        if chunk == 0 || chunk > CHUNK_MAX {
            return Err(Error::corrupt(format!(
                "checksums of chunks of {chunk} bytes"
            )));
        }
        Ok(Self { kind, chunk })
    }

    /// What a DataNode says it is.
    ///
    /// # Errors
    /// [`cadastre_types::Code::Corrupt`] for a kind or size that cannot be.
    pub fn of(message: &pb::ChecksumProto) -> Result<Self> {
        let kind = pb::ChecksumTypeProto::try_from(message.r#type)
            .map_err(|_| Error::corrupt(format!("checksums of kind {}", message.r#type)))?;
        Self::new(kind, message.bytes_per_checksum)
    }

    /// The same as a message.
    pub fn message(self) -> pb::ChecksumProto {
        pb::ChecksumProto {
            r#type: self.kind as i32,
            bytes_per_checksum: self.chunk,
        }
    }

    /// Bytes with one checksum.
    pub fn chunk(self) -> usize {
        // At most CHUNK_MAX.
        self.chunk as usize
    }

    fn sum(self, chunk: &[u8]) -> Option<u32> {
        match self.kind {
            pb::ChecksumTypeProto::ChecksumNull => None,
            pb::ChecksumTypeProto::ChecksumCrc32 => Some(crc32fast::hash(chunk)),
            pb::ChecksumTypeProto::ChecksumCrc32c => Some(crc32c::crc32c(chunk)),
        }
    }

    fn sums_len(self, data: usize) -> usize {
        match self.kind {
            pb::ChecksumTypeProto::ChecksumNull => 0,
            _ => data.div_ceil(self.chunk()) * SUM_BYTES,
        }
    }

    fn put_sums(self, out: &mut BytesMut, data: &[u8]) {
        for chunk in data.chunks(self.chunk()) {
            if let Some(sum) = self.sum(chunk) {
                out.put_u32(sum);
            }
        }
    }
}

/// A piece of a block on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Where in the block its data begins, bytes.
    pub offset: u64,
    /// Its number.
    pub seqno: i64,
    /// Whether the block ends with it; it has no data then.
    pub last: bool,
    /// Whether DataNodes are to have all so far on disk before they ack.
    pub sync: bool,
    /// Its data.
    pub data: Bytes,
    sums: Bytes,
}

impl Packet {
    /// Whether its data is what was written.
    ///
    /// # Errors
    /// [`cadastre_types::Code::Corrupt`], with where in the block.
    pub fn check(&self, checksum: Checksum) -> Result<()> {
        if self.sums.len() != checksum.sums_len(self.data.len()) {
            return Err(Error::corrupt(format!(
                "{} bytes of checksums for {} bytes of data",
                self.sums.len(),
                self.data.len()
            )));
        }
        let mut sums = &self.sums[..];
        for (at, chunk) in self.data.chunks(checksum.chunk()).enumerate() {
            if let Some(sum) = checksum.sum(chunk)
                && sums.get_u32() != sum
            {
                let byte = self.offset + (at * checksum.chunk()) as u64;
                return Err(Error::corrupt(format!(
                    "the checksum at byte {byte} of the block is wrong"
                )));
            }
        }
        Ok(())
    }
}

/// Writes a packet with its checksums.
///
/// # Panics
/// For more data than a packet takes ([`PACKET_MAX`]).
pub fn put_packet(
    out: &mut BytesMut,
    checksum: Checksum,
    (offset, seqno): (u64, i64),
    (last, sync): (bool, bool),
    data: &[u8],
) {
    let length = SUM_BYTES + checksum.sums_len(data.len()) + data.len();
    assert!(length <= PACKET_MAX, "whoever cuts packets knows the limit");
    let header = crate::encode(&pb::PacketHeaderProto {
        offset_in_block: offset.cast_signed(),
        seqno,
        last_packet_in_block: last,
        data_len: i32::try_from(data.len()).expect("below PACKET_MAX"),
        // Left out where it is not wanted, as older DataNodes expect.
        sync_block: sync.then_some(true),
    });
    out.reserve(PACKET_START_BYTES + header.len() + length);
    // The length counts itself, but neither the header nor its length.
    out.put_u32(u32::try_from(length).expect("below PACKET_MAX"));
    out.put_u16(u16::try_from(header.len()).expect("a header has some thirty bytes"));
    out.put_slice(&header);
    checksum.put_sums(out, data);
    out.put_slice(data);
}

/// How long the rest of a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketLength {
    header: usize,
    body: usize,
}

impl PacketLength {
    /// Reads a packet's first bytes.
    ///
    /// # Errors
    /// [`cadastre_types::Code::Corrupt`] over [`PACKET_MAX`].
    pub fn parse(start: [u8; PACKET_START_BYTES]) -> Result<Self> {
        let [a, b, c, d, e, f] = start;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let header = usize::from(u16::from_be_bytes([e, f]));
        if !(SUM_BYTES..=PACKET_MAX).contains(&length) || header > PACKET_HEADER_MAX {
            return Err(Error::corrupt(format!(
                "a packet of {length} bytes with a header of {header}"
            )));
        }
        Ok(Self {
            header,
            body: length - SUM_BYTES,
        })
    }

    /// Bytes that follow.
    pub fn rest(self) -> usize {
        self.header + self.body
    }
}

/// Cuts what follows a packet's first bytes.
///
/// # Errors
/// [`cadastre_types::Code::Corrupt`].
///
/// # Panics
/// If it is not [`PacketLength::rest`] bytes.
pub fn parse_packet(length: PacketLength, mut rest: Bytes) -> Result<Packet> {
    assert_eq!(rest.len(), length.rest(), "as many as were to be read");
    let header: pb::PacketHeaderProto = crate::decode(rest.split_to(length.header))?;
    let data = usize::try_from(header.data_len).unwrap_or(usize::MAX);
    let (Ok(offset), true) = (u64::try_from(header.offset_in_block), data <= length.body) else {
        return Err(Error::corrupt(format!(
            "a packet at byte {} with {} bytes of {}",
            header.offset_in_block, header.data_len, length.body
        )));
    };
    let sums = rest.split_to(length.body - data);
    Ok(Packet {
        offset,
        seqno: header.seqno,
        last: header.last_packet_in_block,
        sync: header.sync_block.unwrap_or(false),
        data: rest,
        sums,
    })
}

#[cfg(test)]
mod tests;
