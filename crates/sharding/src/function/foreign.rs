//! Hashes of other systems, bit for bit, so that data placed by them is found and can be moved away from them.
//!
//! Each is written from its published description and tested with published vectors. Opaque to enumeration. Must not
//! know how those systems store or route.

use std::sync::LazyLock;

use des::Des;
use des::cipher::{BlockEncrypt, KeyInit};

use super::Fault;
use super::hash::{self, Tail};

/// Java's `String.hashCode()`: over UTF-16 code units, in 32 bits with wrapping.
#[must_use]
pub fn java_string(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// Java's `Long.hashCode()`. An `Integer` is its own hash.
#[must_use]
pub fn java_long(number: i64) -> i32 {
    // The low half of both halves mixed, as Java's cast to int takes it.
    (number ^ ((number as u64) >> 32) as i64) as i32
}

/// Java's `Arrays.hashCode(byte[])`.
#[must_use]
pub fn java_bytes(bytes: &[u8]) -> i32 {
    bytes.iter().fold(1, |hash: i32, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(*byte as i8))
    })
}

/// PostgreSQL's `hashtext`, `hashbytea`, `uuid_hash` (16 bytes): lookup3 with PostgreSQL's starting value, for
/// collations that compare by bytes.
#[must_use]
pub fn postgres_bytes(bytes: &[u8]) -> i32 {
    Lookup3::of(bytes, 0).c as i32
}

/// PostgreSQL's `hashtextextended`, `hashbyteaextended`, `uuid_hash_extended`.
#[must_use]
pub fn postgres_bytes_extended(bytes: &[u8], seed: u64) -> i64 {
    Lookup3::of(bytes, seed).wide()
}

/// PostgreSQL's `hashint8`, which agrees with `hashint4` and `hashint2` on what they can hold.
#[must_use]
pub fn postgres_integer(number: i64) -> i32 {
    Lookup3::of_word(fold_integer(number), 0).c as i32
}

/// PostgreSQL's `hashint8extended`, which agrees with `hashint4extended` and `hashint2extended`.
#[must_use]
pub fn postgres_integer_extended(number: i64, seed: u64) -> i64 {
    Lookup3::of_word(fold_integer(number), seed).wide()
}

/// The seed that PostgreSQL's hash partitioning gives to the extended hash of each key column.
const POSTGRES_PARTITION_SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// The remainder by which PostgreSQL's `PARTITION BY HASH` chooses among `partitions` for an integer key.
///
/// # Errors
/// [`Fault::DivisionByZero`] if there are no partitions.
pub fn postgres_partition_integer(number: i64, partitions: u32) -> Result<u32, Fault> {
    partition(
        postgres_integer_extended(number, POSTGRES_PARTITION_SEED),
        partitions,
    )
}

/// As [`postgres_partition_integer`], for a text, bytea or (as 16 bytes) uuid key.
///
/// # Errors
/// [`Fault::DivisionByZero`] if there are no partitions.
pub fn postgres_partition_bytes(bytes: &[u8], partitions: u32) -> Result<u32, Fault> {
    partition(
        postgres_bytes_extended(bytes, POSTGRES_PARTITION_SEED),
        partitions,
    )
}

fn partition(hash: i64, partitions: u32) -> Result<u32, Fault> {
    // PostgreSQL combines the columns' hashes from 0 on: for one column that adds this constant.
    let row = (hash as u64).wrapping_add(0x49a0_f4dd_15e5_a8e3);
    let rest = row
        .checked_rem(u64::from(partitions))
        .ok_or(Fault::DivisionByZero)?;
    // Below `partitions`, so it fits.
    Ok(rest as u32)
}

/// Both halves of an integer in one word, so that equal numbers of different widths hash alike.
const fn fold_integer(number: i64) -> u32 {
    let (low, high) = (number as u32, (number >> 32) as u32);
    low ^ if number >= 0 { high } else { !high }
}

/// Bob Jenkins' lookup3 (burtleburtle.net/bob/c/lookup3.c, public domain).
struct Lookup3 {
    a: u32,
    b: u32,
    c: u32,
}

impl Lookup3 {
    fn start(length: usize, seed: u64) -> Self {
        // The golden ratio, the length (modulo 2^32) and PostgreSQL's own constant.
        let all = 0x9e37_79b9_u32
            .wrapping_add(length as u32)
            .wrapping_add(3_923_095);
        let mut state = Self {
            a: all,
            b: all,
            c: all,
        };
        if seed != 0 {
            state.a = state.a.wrapping_add((seed >> 32) as u32);
            state.b = state.b.wrapping_add(seed as u32);
            state.mix();
        }
        state
    }

    fn of(bytes: &[u8], seed: u64) -> Self {
        let mut state = Self::start(bytes.len(), seed);
        let (blocks, rest) = bytes.as_chunks::<12>();
        for block in blocks {
            state.take(*block, 0);
            state.mix();
        }
        let mut last = [0; 12];
        last[..rest.len()].copy_from_slice(rest);
        // The lowest byte of the third word is kept free for the length.
        state.take(last, 8);
        state.finish();
        state
    }

    fn of_word(word: u32, seed: u64) -> Self {
        let mut state = Self::start(4, seed);
        state.a = state.a.wrapping_add(word);
        state.finish();
        state
    }

    fn take(&mut self, block: [u8; 12], shift_third: u32) {
        let (words, _) = block.as_chunks::<4>();
        if let [a, b, c] = words {
            self.a = self.a.wrapping_add(u32::from_le_bytes(*a));
            self.b = self.b.wrapping_add(u32::from_le_bytes(*b));
            self.c = self.c.wrapping_add(u32::from_le_bytes(*c) << shift_third);
        }
    }

    /// Six steps; after each the three words take each other's places, so that all six are written alike.
    fn mix(&mut self) {
        for bits in [4, 6, 8, 16, 19, 4] {
            self.a = self.a.wrapping_sub(self.c) ^ self.c.rotate_left(bits);
            self.c = self.c.wrapping_add(self.b);
            (self.a, self.b, self.c) = (self.b, self.c, self.a);
        }
    }

    fn finish(&mut self) {
        for bits in [14, 11, 25, 16, 4, 14, 24] {
            self.c = (self.c ^ self.b).wrapping_sub(self.b.rotate_left(bits));
            (self.a, self.b, self.c) = (self.b, self.c, self.a);
        }
        // Seven turns: one more than twice round.
        (self.a, self.b, self.c) = (self.c, self.a, self.b);
    }

    const fn wide(&self) -> i64 {
        (((self.b as u64) << 32) | self.c as u64) as i64
    }
}

/// The shard of a hash distributed Citus table: which of `shards` equal ranges of 32 bits a hash of
/// [`postgres_integer`] or [`postgres_bytes`] lies in; the last range takes the rest.
///
/// # Errors
/// [`Fault::DivisionByZero`] if there are no shards.
pub fn citus_shard(hash: i32, shards: u32) -> Result<u32, Fault> {
    let width = (1_u64 << 32)
        .checked_div(u64::from(shards))
        .ok_or(Fault::DivisionByZero)?;
    let from_least = (i64::from(hash) - i64::from(i32::MIN)).unsigned_abs();
    // At most `shards`, which is cut off.
    Ok((from_least / width).min(u64::from(shards) - 1) as u32)
}

/// Slots of a Redis cluster.
pub const REDIS_SLOTS: u16 = 16_384;

/// A key's slot in a Redis cluster: CRC-16/XMODEM of the key, or of what stands in its first pair of braces unless that
/// is empty (redis.io, cluster specification, "hash tags").
#[must_use]
pub fn redis_slot(key: &[u8]) -> u16 {
    let tagged = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let tag = &key[open + 1..];
        let length = tag.iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &tag[..length])
    });
    crc16_xmodem(tagged.unwrap_or(key)) % REDIS_SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, nothing reflected, from 0.
fn crc16_xmodem(bytes: &[u8]) -> u16 {
    static TABLE: [u16; 256] = crc16_table();
    bytes.iter().fold(0, |crc, byte| {
        (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

/// The keyspace id of Vitess' `hash` vindex: the number encrypted by triple DES under the key of zeroes, which is DES
/// under that key since the middle step undoes the first. Vitess compares it as bytes, most significant first.
#[must_use]
pub fn vitess_hash(number: u64) -> u64 {
    static CIPHER: LazyLock<Des> = LazyLock::new(|| Des::new(&[0; 8].into()));
    let mut block = number.to_be_bytes().into();
    CIPHER.encrypt_block(&mut block);
    u64::from_be_bytes(block.into())
}

/// The keyspace id of Vitess' `xxhash` vindex: XXH64, least significant byte first.
#[must_use]
pub fn vitess_xxhash(bytes: &[u8]) -> u64 {
    hash::xxh64(bytes, 0).swap_bytes()
}

/// The first eight bytes of the keyspace id of Vitess' `binary_md5` vindex; shards of fewer than 2^64 need no more.
#[must_use]
pub fn vitess_binary_md5(bytes: &[u8]) -> u64 {
    hash::md5_high(bytes, 0)
}

/// The keyspace id of Vitess' `reverse_bits` vindex.
#[must_use]
pub const fn vitess_reverse_bits(number: u64) -> u64 {
    number.reverse_bits()
}

/// Which of `shards` equal ranges of keyspace ids an id lies in.
///
/// # Errors
/// [`Fault::DivisionByZero`] if there are no shards.
pub fn vitess_shard(keyspace_id: u64, shards: u32) -> Result<u32, Fault> {
    if shards == 0 {
        return Err(Fault::DivisionByZero);
    }
    // Below `shards`, so it fits.
    Ok(((u128::from(keyspace_id) * u128::from(shards)) >> 64) as u32)
}

/// MySQL's `CRC32()` of a text in UTF-8 or of bytes.
#[must_use]
pub fn mysql_crc32(bytes: &[u8]) -> u32 {
    // 32 bits by its nature.
    hash::crc32(bytes, 0) as u32
}

/// Kafka's `murmur2`: the hash of a record's key in the Java client's default partitioner.
#[must_use]
pub fn kafka_murmur2(bytes: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let (words, rest) = bytes.as_chunks::<4>();
    // The length counts modulo 2^32.
    let mut hash = SEED ^ bytes.len() as u32;
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(M);
        let word = (word ^ (word >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    (hash ^ (hash >> 15)) as i32
}

/// The partition that Kafka's Java client chooses for a record with this key.
///
/// # Errors
/// [`Fault::DivisionByZero`] if there are no partitions.
pub fn kafka_partition(key: &[u8], partitions: u32) -> Result<u32, Fault> {
    let positive = kafka_murmur2(key) as u32 & 0x7fff_ffff;
    positive
        .checked_rem(partitions)
        .ok_or(Fault::DivisionByZero)
}

/// The token of Cassandra's and ScyllaDB's `Murmur3Partitioner`: MurmurHash3 with sign-extended last bytes, the least
/// token replaced by the greatest.
#[must_use]
pub fn cassandra_token(key: &[u8]) -> i64 {
    match hash::murmur3_x64_128(key, 0, Tail::SignExtended).0 as i64 {
        i64::MIN => i64::MAX,
        token => token,
    }
}

#[cfg(test)]
mod tests;
