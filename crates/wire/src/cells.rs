//! Cell blocks: cells outside the messages (hbase-protocol.md 1.3 and 3). Knows nothing of which message a cell belongs to.

/// How the cells of a block are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// `KeyValueCodec`: tags are dropped.
    KeyValue,
    /// `KeyValueCodecWithTags`.
    KeyValueWithTags,
}

impl Codec {
    /// Java class, as a connection header names it.
    pub fn class(self) -> &'static str {
        match self {
            Self::KeyValue => "org.apache.hadoop.hbase.codec.KeyValueCodec",
            Self::KeyValueWithTags => "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags",
        }
    }

    /// The codec of this Java class.
    pub fn from_class(class: &str) -> Option<Self> {
        [Self::KeyValue, Self::KeyValueWithTags]
            .into_iter()
            .find(|codec| codec.class() == class)
    }
}

/// How a cell block is compressed as a whole, in the block framing of Hadoop's codecs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// `SnappyCodec`.
    Snappy,
    /// `GzipCodec`.
    Gzip,
    /// `DefaultCodec`: zlib.
    Deflate,
    /// `Lz4Codec`.
    Lz4,
}

impl Compressor {
    const ALL: [Self; 4] = [Self::Snappy, Self::Gzip, Self::Deflate, Self::Lz4];

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
}
