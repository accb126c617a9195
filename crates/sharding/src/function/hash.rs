//! Hashes of bytes for rules of one's own: stable on every platform and for ever, each by its published definition.
//!
//! The result is always unsigned: the negative magnitudes of Java's hashes (B1, defect 3) cannot happen. Opaque to
//! enumeration, all of them. Must not know of the systems whose hashes [`super::foreign`] imitates.

use md5::{Digest as _, Md5};
use sha1::Sha1;
use siphasher::sip::{SipHasher13, SipHasher24};
use std::hash::Hasher as _;
use xxhash_rust::{xxh3, xxh32, xxh64};

/// How an integer is hashed: eight bytes, the most significant first, as HBase's `Bytes.toBytes(long)` writes it.
#[must_use]
pub const fn integer_bytes(number: i64) -> [u8; 8] {
    number.to_be_bytes()
}

/// XXH3, 64 bits, of xxHash 0.8: the one to take if nothing speaks for another.
#[must_use]
pub fn xxh3_64(bytes: &[u8], seed: u64) -> u64 {
    xxh3::xxh3_64_with_seed(bytes, seed)
}

/// XXH64.
#[must_use]
pub fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    xxh64::xxh64(bytes, seed)
}

/// XXH32; only the low 32 bits of the seed count.
#[must_use]
pub fn xxh32(bytes: &[u8], seed: u64) -> u64 {
    u64::from(xxh32::xxh32(bytes, seed as u32))
}

/// SipHash-1-3 with the key (seed, 0).
#[must_use]
pub fn siphash13(bytes: &[u8], seed: u64) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(seed, 0);
    hasher.write(bytes);
    hasher.finish()
}

/// SipHash-2-4 with the key (seed, 0).
#[must_use]
pub fn siphash24(bytes: &[u8], seed: u64) -> u64 {
    siphash24_keyed(bytes, seed, 0)
}

/// SipHash-2-4 with both halves of its key.
#[must_use]
pub fn siphash24_keyed(bytes: &[u8], low: u64, high: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(low, high);
    hasher.write(bytes);
    hasher.finish()
}

/// FNV-1a, 64 bits, from its own starting value changed by the seed; seed 0 is the published function.
#[must_use]
pub fn fnv1a_64(bytes: &[u8], seed: u64) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// FNV-1a, 32 bits; of the seed only the low 32 bits count, 0 is the published function.
#[must_use]
pub fn fnv1a_32(bytes: &[u8], seed: u64) -> u64 {
    let hash = bytes.iter().fold(0x811c_9dc5 ^ seed as u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    u64::from(hash)
}

/// CRC-32 (zlib's, MySQL's `CRC32()`), continued from the seed's low 32 bits as zlib's `crc32(seed, bytes)` does.
#[must_use]
pub fn crc32(bytes: &[u8], seed: u64) -> u64 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed as u32);
    hasher.update(bytes);
    u64::from(hasher.finalize())
}

/// MurmurHash3_x86_32 (Appleby); only the low 32 bits of the seed count.
#[must_use]
pub fn murmur3_32(bytes: &[u8], seed: u64) -> u64 {
    const C1: u32 = 0xcc9e_2d51;
    const C2: u32 = 0x1b87_3593;
    let scramble = |word: u32| word.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = seed as u32;
    for word in words {
        hash ^= scramble(u32::from_le_bytes(*word));
        hash = hash
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash ^= scramble(u32::from_le_bytes(last));
    }
    // The length counts modulo 2^32, as in the original's `int len`.
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    u64::from(hash ^ (hash >> 16))
}

/// The first 64 bits of MurmurHash3_x64_128 (Appleby); only the low 32 bits of the seed count.
#[must_use]
pub fn murmur3_128(bytes: &[u8], seed: u64) -> u64 {
    murmur3_x64_128(bytes, seed as u32, Tail::Unsigned).0
}

/// How the last bytes of a text, fewer than sixteen, enter MurmurHash3_x64_128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// As published.
    Unsigned,
    /// As Cassandra does: Java's bytes have a sign, which spills into the bytes above.
    SignExtended,
}

pub(super) fn murmur3_x64_128(bytes: &[u8], seed: u32, tail: Tail) -> (u64, u64) {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let first = |word: u64| word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let second = |word: u64| word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let (mut h1, mut h2) = (u64::from(seed), u64::from(seed));
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        let (low, high) = halves(*block);
        h1 ^= first(low);
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= second(high);
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (mut low, mut high) = (0_u64, 0_u64);
    for (at, byte) in rest.iter().enumerate() {
        let wide = match tail {
            Tail::Unsigned => u64::from(*byte),
            Tail::SignExtended => i64::from(*byte as i8) as u64,
        };
        let half = if at < 8 { &mut low } else { &mut high };
        *half ^= wide << (8 * (at % 8));
    }
    h2 ^= second(high);
    h1 ^= first(low);
    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (murmur3_mix(h1), murmur3_mix(h2));
    h1 = h1.wrapping_add(h2);
    (h1, h2.wrapping_add(h1))
}

fn halves(block: [u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(block);
    (both as u64, (both >> 64) as u64)
}

const fn murmur3_mix(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

/// The first 64 bits of MD5, most significant byte first; a seed other than 0 is hashed before the bytes, as eight
/// bytes, most significant first.
#[must_use]
pub fn md5_high(bytes: &[u8], seed: u64) -> u64 {
    let mut hasher = Md5::new();
    if seed != 0 {
        hasher.update(seed.to_be_bytes());
    }
    hasher.update(bytes);
    high(&hasher.finalize())
}

/// The first 64 bits of SHA-1, with the seed as [`md5_high`].
#[must_use]
pub fn sha1_high(bytes: &[u8], seed: u64) -> u64 {
    let mut hasher = Sha1::new();
    if seed != 0 {
        hasher.update(seed.to_be_bytes());
    }
    hasher.update(bytes);
    high(&hasher.finalize())
}

/// The first eight bytes of a digest, which has at least sixteen.
fn high(digest: &[u8]) -> u64 {
    digest
        .iter()
        .take(8)
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Hash = fn(&[u8], u64) -> u64;

    const ALL: [Hash; 12] = [
        xxh3_64,
        xxh64,
        xxh32,
        siphash13,
        siphash24,
        fnv1a_64,
        fnv1a_32,
        crc32,
        murmur3_32,
        murmur3_128,
        md5_high,
        sha1_high,
    ];

    /// SMHasher's verification value (github.com/aappleby/smhasher, KeysetTest.cpp): the hash of the hashes of 256 keys of
    /// 0 to 255 bytes under seeds 256 to 1. It pins the whole of a hash in 32 bits.
    fn verification(bits: usize, hash: impl Fn(&[u8], u64) -> Vec<u8>) -> u32 {
        let mut all = Vec::new();
        let mut key = Vec::new();
        for length in 0..=255_u8 {
            let digest = hash(&key, 256 - u64::from(length));
            assert_eq!(digest.len() * 8, bits);
            all.extend(digest);
            key.push(length);
        }
        let last = hash(&all, 0);
        u32::from_le_bytes([last[0], last[1], last[2], last[3]])
    }

    #[test]
    fn smhasher_verifies_murmur3() {
        let short = |bytes: &[u8], seed| (murmur3_32(bytes, seed) as u32).to_le_bytes().to_vec();
        assert_eq!(verification(32, short), 0xB0F5_7EE3);
        let long = |bytes: &[u8], seed: u64| {
            let (h1, h2) = murmur3_x64_128(bytes, seed as u32, Tail::Unsigned);
            [h1.to_le_bytes(), h2.to_le_bytes()].concat()
        };
        assert_eq!(verification(128, long), 0x6384_BA69);
    }

    /// The same value for the hashes of libraries (rurban/smhasher, main.cpp, table of hashes).
    #[test]
    fn smhasher_verifies_xxhash() {
        let x32 = |bytes: &[u8], seed| (xxh32(bytes, seed) as u32).to_le_bytes().to_vec();
        assert_eq!(verification(32, x32), 0xBA88_B743);
        let x64 = |bytes: &[u8], seed| xxh64(bytes, seed).to_le_bytes().to_vec();
        assert_eq!(verification(64, x64), 0x024B_7CF4);
        let x3 = |bytes: &[u8], seed| xxh3_64(bytes, seed).to_le_bytes().to_vec();
        assert_eq!(verification(64, x3), 0x9A63_6405);
    }

    /// The SipHash paper, appendix A: key 00..0f, message 00..0e.
    #[test]
    fn the_siphash_papers_example() {
        let message: Vec<u8> = (0..15).collect();
        let hash = siphash24_keyed(&message, 0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(hash, 0xa129_ca61_49be_45e5);
    }

    /// The reference implementation's (github.com/veorq/SipHash) under the key 0, as OCaml's tests of its own hash give them; CPython 3.11's
    /// `hash(bytes)` with PYTHONHASHSEED=0, which is the same function; Rust's own hasher, of any length.
    #[test]
    fn published_siphash13() {
        assert_eq!(siphash13(b"", 0), 0xd1fb_a762_150c_532c);
        assert_eq!(siphash13(b"\0", 0), 0x68a9_1412_8e01_e473);
        assert_eq!(siphash13(b"a", 0), 4_644_417_185_603_328_019);
        assert_eq!(siphash13(b"abc", 0), 13_851_880_170_939_887_858);
        assert_eq!(siphash13(b"foobar", 0), 8_590_807_648_758_176_564);
        assert_eq!(siphash13(b"hello world!", 0), 839_851_713_330_019_024);
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..=256 {
            let mut theirs = std::hash::DefaultHasher::new();
            theirs.write(&bytes[..length]);
            assert_eq!(siphash13(&bytes[..length], 0), theirs.finish());
        }
    }

    /// draft-eastlake-fnv, section 6; RFC 1321, appendix A.5; FIPS 180; the CRC catalogue's check value.
    #[test]
    fn published_values() {
        assert_eq!(fnv1a_64(b"", 0), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(b"a", 0), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(b"foobar", 0), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a_32(b"", 0), 0x811c_9dc5);
        assert_eq!(fnv1a_32(b"foobar", 0), 0xbf9c_f968);
        assert_eq!(crc32(b"123456789", 0), 0xcbf4_3926);
        assert_eq!(md5_high(b"", 0), 0xd41d_8cd9_8f00_b204);
        assert_eq!(md5_high(b"abc", 0), 0x9001_5098_3cd2_4fb0);
        assert_eq!(sha1_high(b"abc", 0), 0xa999_3e36_4706_816a);
        assert_eq!(xxh64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxh3_64(b"", 0), 0x2d06_8005_38d3_94c2);
    }

    proptest! {
        #[test]
        fn nothing_panics_and_all_depends_on_the_input_alone(bytes in prop::collection::vec(any::<u8>(), 0..300), seed: u64) {
            // At another address and alignment the answer is the same.
            let shifted = [&[7], bytes.as_slice()].concat();
            for hash in ALL {
                prop_assert_eq!(hash(&bytes, seed), hash(&shifted[1..], seed));
            }
        }
    }
}
