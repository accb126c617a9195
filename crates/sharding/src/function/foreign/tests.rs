//! Foreign hashes against vectors that their systems publish.

use proptest::prelude::*;

use super::*;

/// JLS-defined: `String.hashCode`'s formula; "Aa" and "BB" are the textbook's collision, the last is
/// `Integer.MIN_VALUE`, for which `Math.abs` is negative (B1, defect 3). `golden/` has 10^4 more, made by a JVM.
#[test]
fn java() {
    assert_eq!(java_string(""), 0);
    assert_eq!(java_string("a"), 97);
    assert_eq!(java_string("Aa"), 2112);
    assert_eq!(java_string("BB"), 2112);
    assert_eq!(java_string("hello"), 99_162_322);
    assert_eq!(java_string("polygenelubricants"), i32::MIN);
    // Two UTF-16 units: 55357 * 31 + 56832.
    assert_eq!(java_string("\u{1F600}"), 1_772_899);
    assert_eq!(java_long(0), 0);
    assert_eq!(java_long(-1), 0);
    assert_eq!(java_long(1 << 32), 1);
    assert_eq!(java_long(i64::MIN), i32::MIN);
    assert_eq!(java_long(5_000_000_000), 705_032_705);
    assert_eq!(java_bytes(b""), 1);
    assert_eq!(java_bytes(&[0xff]), 30);
}

/// `hashint4`: Citus, multi_shard_pruning.sql names those of 1 to 4; the others are PostgreSQL's own answers, checked
/// against a PostgreSQL 15 server when `golden/` was made.
#[test]
fn postgres() {
    let integers = [
        (0, -272_711_505),
        (1, -1_905_060_026),
        (2, 1_134_484_726),
        (3, -28_094_569),
        (4, -1_011_077_333),
        (-1, 385_747_274),
        (-3, -1_044_245_375),
        (5_000_000_000, -694_934_712),
    ];
    for (number, hash) in integers {
        assert_eq!(postgres_integer(number), hash, "hashint8({number})");
    }
    let texts: [(&str, u32); 6] = [
        ("", 2_817_148_525),
        ("a", 1_075_015_857),
        ("abcdefghijk", 2_811_163_603),
        ("hello world!", 1_400_155_871),
        ("hello world!!", 2_176_858_744),
        ("中文😀", 3_467_869_828),
    ];
    for (text, hash) in texts {
        assert_eq!(
            postgres_bytes(text.as_bytes()) as u32,
            hash,
            "hashtext({text})"
        );
    }
    // The low half of the extended hash under seed 0 is the plain hash.
    assert_eq!(postgres_integer_extended(1, 0), -3_670_598_878_359_251_130);
    assert_eq!(postgres_integer_extended(7, 0) as i32, postgres_integer(7));
    assert_eq!(postgres_partition_integer(1, 0), Err(Fault::DivisionByZero));
}

/// `uuid_hash` is `hash_any` of the sixteen bytes, and partitions go by its extended form under PostgreSQL's seed for them. PostgreSQL 15.18
/// gave these (`uuid_hash`, `satisfies_hash_partition`).
#[test]
fn postgres_uuids() {
    let vectors: [(u128, i32, [u32; 3]); 3] = [
        (0, 1_353_656_403, [1, 5, 5]),
        (
            0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11,
            1_154_666_245,
            [0, 0, 16],
        ),
        (u128::MAX, -682_383_255, [1, 1, 1]),
    ];
    for (uuid, hash, partitions) in vectors {
        let bytes = uuid.to_be_bytes();
        assert_eq!(postgres_bytes(&bytes), hash, "{uuid:x}");
        let found = [4, 16, 32].map(|it| postgres_partition_bytes(&bytes, it));
        assert_eq!(found, partitions.map(Ok), "{uuid:x}");
    }
}

/// Citus, multi_shard_pruning.sql: of four shards, -28094569 is in the second, -1905060026 in the first.
#[test]
fn citus() {
    assert_eq!(citus_shard(postgres_integer(3), 4), Ok(1));
    assert_eq!(citus_shard(postgres_integer(1), 4), Ok(0));
    assert_eq!(citus_shard(i32::MIN, 32), Ok(0));
    assert_eq!(citus_shard(i32::MAX, 32), Ok(31));
    // 2^32 is no multiple of 3: the last shard is one wider.
    assert_eq!(citus_shard(i32::MAX, 3), Ok(2));
    assert_eq!(citus_shard(0, 0), Err(Fault::DivisionByZero));
}

/// redis.io, cluster specification: the check value of "123456789" is 0x31C3, and its examples of hash tags; slots as
/// `CLUSTER KEYSLOT` documents them.
#[test]
fn redis() {
    assert_eq!(crc16_xmodem(b"123456789"), 0x31C3);
    assert_eq!(redis_slot(b"somekey"), 11_058);
    assert_eq!(redis_slot(b"foo{hash_tag}"), 2_515);
    assert_eq!(redis_slot(b"bar{hash_tag}"), 2_515);
    assert_eq!(redis_slot(b"foo"), 12_182);
    assert_eq!(redis_slot(b"{user1000}.following"), redis_slot(b"user1000"));
    assert_eq!(
        redis_slot(b"foo{}{bar}"),
        crc16_xmodem(b"foo{}{bar}") % REDIS_SLOTS
    );
    assert_eq!(redis_slot(b"foo{{bar}}zap"), redis_slot(b"{bar"));
    assert_eq!(redis_slot(b"foo{bar}{zap}"), redis_slot(b"bar"));
    assert_eq!(redis_slot(b""), 0);
}

/// Vitess, hash_test.go and vschema tests (also cashapp/misk, `VitessHashTest`); NIST SP 800-17 table A.1 for powers of two.
#[test]
fn vitess() {
    let vectors = [
        (1, 0x166b_40b4_4aba_4bd6),
        (2, 0x06e7_ea22_ce92_708f),
        (3, 0x4eb1_90c9_a2fa_169c),
        (4, 0xd2fd_8867_d50d_2dfe),
        (5, 0x70bb_023c_810c_a87a),
        (1 << 63, 0x95f8_a5e5_dd31_d900),
    ];
    for (number, id) in vectors {
        assert_eq!(vitess_hash(number), id, "hash({number})");
    }
    // reverse_bits_test.go: ids 1 to 6.
    let reversed = [0x80, 0x40, 0xc0, 0x20, 0xa0, 0x60_u64];
    for (number, byte) in (1..).zip(reversed) {
        assert_eq!(vitess_reverse_bits(number), byte << 56);
    }
    assert_eq!(
        vitess_reverse_bits(0x0123_4567_89ab_cdef),
        0xf7b3_d591_e6a2_c480
    );
    assert_eq!(vitess_reverse_bits(u64::MAX << 1), u64::MAX >> 1);
    assert_eq!(vitess_shard(0, 4), Ok(0));
    assert_eq!(vitess_shard(0x7fff_ffff_ffff_ffff, 2), Ok(0));
    assert_eq!(vitess_shard(0x8000_0000_0000_0000, 2), Ok(1));
    assert_eq!(vitess_shard(u64::MAX, 3), Ok(2));
    assert_eq!(vitess_shard(1, 0), Err(Fault::DivisionByZero));
}

/// Kafka, `UtilsTest.testMurmur2`.
#[test]
fn kafka() {
    let vectors: [(&[u8], i32); 6] = [
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"a-little-bit-long-string", -985_981_536),
        (b"a-little-bit-longer-string", -1_486_304_829),
        (
            b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
            -58_897_971,
        ),
        (b"abc", 479_470_107),
    ];
    for (key, hash) in vectors {
        assert_eq!(kafka_murmur2(key), hash);
    }
    assert_eq!(kafka_partition(b"21", 16), Ok(12));
    assert_eq!(kafka_partition(b"21", 0), Err(Fault::DivisionByZero));
}

/// Cassandra's drivers (python-driver, test_metadata.py; ruby-driver, murmur3_spec.rb).
#[test]
fn cassandra() {
    let vectors: [(Vec<u8>, i64); 6] = [
        (b"123".to_vec(), -7_468_325_962_851_647_638),
        (
            b"\x00\xff\x10\xfa\x99".repeat(10),
            5_837_342_703_291_459_765,
        ),
        (b"\xfe".repeat(8), -8_927_430_733_708_461_935),
        (b"\x10".repeat(8), 1_446_172_840_243_228_796),
        (b"9223372036854775807".to_vec(), 7_162_290_910_810_015_547),
        ((1..=16).collect(), -5_563_837_382_979_743_776),
    ];
    for (key, token) in vectors {
        assert_eq!(cassandra_token(&key), token);
    }
}

/// The CRC catalogue's check value, and the MySQL manual's example of `CRC32()`.
#[test]
fn mysql() {
    assert_eq!(mysql_crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(mysql_crc32(b"MySQL"), 3_259_397_556);
    assert_eq!(mysql_crc32(b"mysql"), 2_501_908_538);
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), text in "\\PC{0,20}", number: i64, count: u32) {
        let _ = (java_string(&text), java_long(number), java_bytes(&bytes));
        let _ = (postgres_bytes_extended(&bytes, number as u64), postgres_integer_extended(number, count.into()));
        let _ = (vitess_hash(number as u64), vitess_xxhash(&bytes), vitess_binary_md5(&bytes), cassandra_token(&bytes));
        prop_assert!(redis_slot(&bytes) < REDIS_SLOTS);
        prop_assert_eq!(postgres_bytes_extended(&bytes, 0) as i32, postgres_bytes(&bytes));
        for shard in [
            citus_shard(number as i32, count),
            vitess_shard(number as u64, count),
            kafka_partition(&bytes, count),
            postgres_partition_integer(number, count),
            postgres_partition_bytes(&bytes, count),
        ] {
            prop_assert_eq!(shard.is_ok_and(|shard| shard < count), count > 0);
        }
    }
}
