//! Compression of whole cell blocks as Hadoop's codecs do it (hbase-protocol.md 1.3). Knows nothing of cells.

use std::io::{Read, Write};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cadastre_types::{Code, Error, Result};
use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

/// Uncompressed bytes per block that we write. Java's decompressors hold a compressed chunk in a buffer of 256 KiB by default
/// (`io.compression.codec.snappy.buffersize`), and what does not compress grows by up to a sixth.
pub const COMPRESSION_BLOCK: usize = 128 * 1024;

/// How a cell block is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// `SnappyCodec`, in Hadoop's block framing.
    Snappy,
    /// `GzipCodec`.
    Gzip,
    /// `DefaultCodec`: zlib.
    Deflate,
    /// `Lz4Codec`, in Hadoop's block framing.
    Lz4,
}

impl Compressor {
    /// Every compressor.
    pub const ALL: [Self; 4] = [Self::Snappy, Self::Gzip, Self::Deflate, Self::Lz4];

    /// Java class, as a connection header names it.
    pub fn class(self) -> &'static str {
        match self {
            Self::Snappy => "org.apache.hadoop.io.compress.SnappyCodec",
            Self::Gzip => "org.apache.hadoop.io.compress.GzipCodec",
            Self::Deflate => "org.apache.hadoop.io.compress.DefaultCodec",
            Self::Lz4 => "org.apache.hadoop.io.compress.Lz4Codec",
        }
    }

    /// The compressor of this Java class.
    pub fn from_class(class: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|compressor| compressor.class() == class)
    }

    /// Compresses a block.
    ///
    /// # Errors
    /// [`Code::Internal`] if the compressor fails, which none does on bytes in memory.
    pub fn compress(self, bytes: &[u8]) -> Result<Bytes> {
        match self {
            Self::Snappy => in_blocks(bytes, |chunk| {
                snap::raw::Encoder::new()
                    .compress_vec(chunk)
                    .map_err(failed)
            }),
            Self::Lz4 => in_blocks(bytes, |chunk| Ok(lz4_flex::block::compress(chunk))),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).map_err(failed)?;
                Ok(encoder.finish().map_err(failed)?.into())
            }
            Self::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).map_err(failed)?;
                Ok(encoder.finish().map_err(failed)?.into())
            }
        }
    }

    /// Decompresses a block into `limit` bytes at most.
    ///
    /// # Errors
    /// [`Code::RequestTooBig`] over the limit, [`Code::Corrupt`] if the bytes are damaged.
    pub fn decompress(self, bytes: &[u8], limit: usize) -> Result<Bytes> {
        match self {
            Self::Snappy => from_blocks(bytes, limit, |chunk, out| {
                let len = snap::raw::decompress_len(chunk).map_err(damaged)?;
                if len > out.len() {
                    return Err(too_long());
                }
                snap::raw::Decoder::new()
                    .decompress(chunk, out)
                    .map_err(damaged)
            }),
            Self::Lz4 => from_blocks(bytes, limit, |chunk, out| {
                lz4_flex::block::decompress_into(chunk, out).map_err(damaged)
            }),
            Self::Gzip => from_stream(MultiGzDecoder::new(bytes), limit),
            Self::Deflate => from_stream(ZlibDecoder::new(bytes), limit),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(Code::Internal, format!("compressing a cell block: {error}"))
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("damaged compressed cell block: {error}"))
}

fn too_long() -> Error {
    damaged("a chunk is longer than its block")
}

fn over(limit: usize) -> Error {
    Error::new(
        Code::RequestTooBig,
        format!("a cell block decompresses to more than {limit} bytes"),
    )
}

/// Writes blocks of one chunk each: uncompressed length, compressed length, compressed bytes.
fn in_blocks(bytes: &[u8], compress: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<Bytes> {
    let mut out = BytesMut::with_capacity(bytes.len() / 2);
    for block in bytes.chunks(COMPRESSION_BLOCK) {
        let chunk = compress(block)?;
        // Both stay near COMPRESSION_BLOCK: the worst case of Snappy and LZ4 is a sixth more.
        out.put_u32(block.len() as u32);
        out.put_u32(chunk.len() as u32);
        out.put_slice(&chunk);
    }
    Ok(out.freeze())
}

/// Reads blocks of one or more chunks. Space grows only as chunks fill it, so that a false length costs nothing.
fn from_blocks(
    mut bytes: &[u8],
    limit: usize,
    decompress: impl Fn(&[u8], &mut [u8]) -> Result<usize>,
) -> Result<Bytes> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let mut left = take_len(&mut bytes)?;
        if out.len().saturating_add(left) > limit {
            return Err(over(limit));
        }
        while left > 0 {
            let len = take_len(&mut bytes)?;
            let chunk = bytes
                .split_off(..len)
                .ok_or_else(|| damaged("a chunk is longer than the rest"))?;
            // No codec here expands a chunk more than 255 times (LZ4's bound; Snappy's is lower).
            let room = left.min(len.saturating_mul(255));
            let at = out.len();
            out.resize(at + room, 0);
            let written = decompress(chunk, &mut out[at..])?;
            if written == 0 {
                return Err(damaged("an empty chunk"));
            }
            out.truncate(at + written);
            left -= written;
        }
    }
    Ok(out.into())
}

fn take_len(bytes: &mut &[u8]) -> Result<usize> {
    bytes
        .try_get_u32()
        .map(|len| len as usize)
        .map_err(|_| damaged("cut short"))
}

fn from_stream(decoder: impl Read, limit: usize) -> Result<Bytes> {
    let mut out = Vec::new();
    let bound = (limit as u64).saturating_add(1);
    decoder.take(bound).read_to_end(&mut out).map_err(damaged)?;
    if out.len() > limit {
        return Err(over(limit));
    }
    Ok(out.into())
}
