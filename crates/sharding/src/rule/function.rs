//! The built-in functions' names, numbers and types. What they compute lies in `program` and `function`.

use crate::value::Type;

macro_rules! functions {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A built-in function (B5.4). Numbers stand in bytecode and never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Function { $($(#[$doc])* $variant = $number,)* }

        impl Function {
            /// All.
            pub const ALL: &'static [Function] = &[$(Function::$variant,)*];

            /// The word of the language.
            pub const fn name(self) -> &'static str {
                match self { $(Function::$variant => $name,)* }
            }

            /// The function of that number in bytecode.
            pub fn from_number(number: u8) -> Option<Function> {
                match number { $($number => Some(Function::$variant),)* _ => None }
            }
        }
    };
}

functions! {
    /// XXH3, 64 bits: the hash to take if nothing speaks for another.
    Xxh3 = 0, "xxh3";
    /// XXH64.
    Xxh64 = 1, "xxh64";
    /// XXH32.
    Xxh32 = 2, "xxh32";
    /// MurmurHash3, 32 bits.
    Murmur3 = 3, "murmur3";
    /// MurmurHash3 for 64-bit machines, the first 64 of 128 bits.
    Murmur3Wide = 4, "murmur3_128";
    /// CRC-32 (ISO-HDLC).
    Crc32 = 5, "crc32";
    /// FNV-1a, 64 bits.
    Fnv1a = 6, "fnv1a";
    /// FNV-1a, 32 bits.
    Fnv1aNarrow = 7, "fnv1a_32";
    /// SipHash-1-3.
    SipHash13 = 8, "siphash13";
    /// SipHash-2-4.
    SipHash24 = 9, "siphash24";
    /// The first 64 bits of MD5, big-endian.
    Md5 = 10, "md5";
    /// The first 64 bits of SHA-1, big-endian.
    Sha1 = 11, "sha1";
    /// Java's `hashCode` of a String, a Long or `Arrays.hashCode` of bytes (signed 32 bits).
    JavaHash = 12, "java_hash";
    /// Redis Cluster's slot of a key, 0 to 16383, hash tags included.
    RedisSlot = 13, "redis_slot";
    /// PostgreSQL's `hashint8`, `hashtext` … (signed 32 bits).
    PostgresHash = 14, "postgres_hash";
    /// PostgreSQL's partition of a value: `postgres_partition(value, partitions)`.
    PostgresPartition = 15, "postgres_partition";
    /// Citus's shard of a value: `citus_shard(value, shards)`.
    CitusShard = 16, "citus_shard";
    /// Vitess's `hash` vindex: the keyspace id.
    VitessHash = 17, "vitess_hash";
    /// Vitess's `xxhash` vindex.
    VitessXxhash = 18, "vitess_xxhash";
    /// Vitess's `binary_md5` vindex, the first 64 bits.
    VitessMd5 = 19, "vitess_md5";
    /// Vitess's `reverse_bits` vindex.
    VitessReverseBits = 20, "vitess_reverse_bits";
    /// Vitess's shard of a keyspace id among equal ones: `vitess_shard(id, shards)`.
    VitessShard = 21, "vitess_shard";
    /// MySQL's `CRC32` of a text.
    MysqlCrc32 = 22, "mysql_crc32";
    /// Kafka's default partitioner: `kafka_partition(key, partitions)`.
    KafkaPartition = 23, "kafka_partition";
    /// Cassandra's Murmur3 token.
    CassandraToken = 24, "cassandra_token";
    /// Jump consistent hash: `jump(h, n)`, 0 to n-1.
    Jump = 25, "jump";

    /// `substring(s, start, length)`, characters, start from 0.
    Substring = 40, "substring";
    /// The first n characters.
    Left = 41, "left";
    /// The last n characters.
    Right = 42, "right";
    /// `split_part(s, separator, n)`: the n-th part, from 1; empty if there is none.
    SplitPart = 43, "split_part";
    /// ASCII letters made small; all else unchanged, since Unicode's tables change.
    Lower = 44, "lower";
    /// ASCII letters made capital.
    Upper = 45, "upper";
    /// The integer that the whole text is, in tens.
    ParseInt = 46, "parse_int";
    /// Length in characters, or bytes of bytes.
    Length = 47, "length";
    /// Decimal text of an integer.
    Text = 48, "text";

    /// Year, 1 to 9999.
    Year = 60, "year";
    /// Quarter, 1 to 4.
    Quarter = 61, "quarter";
    /// Month, 1 to 12.
    Month = 62, "month";
    /// Day of the month, 1 to 31.
    Day = 63, "day";
    /// Day of the week, 1 (Monday) to 7.
    DayOfWeek = 64, "day_of_week";
    /// Day of the year, 1 to 366.
    DayOfYear = 65, "day_of_year";
    /// ISO week, 1 to 53.
    IsoWeek = 66, "iso_week";
    /// The year that the ISO week belongs to.
    IsoWeekYear = 67, "iso_week_year";
    /// Hour of the day, 0 to 23.
    Hour = 68, "hour";
    /// Minute of the hour, 0 to 59.
    Minute = 69, "minute";
    /// Second of the minute, 0 to 59.
    Second = 70, "second";
    /// Years since 1970.
    Years = 71, "years";
    /// Quarters since 1970.
    Quarters = 72, "quarters";
    /// Months since January 1970.
    Months = 73, "months";
    /// Weeks since the one, from Monday, that holds 1970-01-01.
    Weeks = 74, "weeks";
    /// Days since 1970-01-01.
    Days = 75, "days";
    /// Hours of the clock since 1970-01-01T00:00.
    Hours = 76, "hours";
    /// Minutes of the clock since 1970-01-01T00:00.
    Minutes = 77, "minutes";
    /// Seconds of the clock since 1970-01-01T00:00.
    Seconds = 78, "seconds";
    /// The date in the zone.
    Date = 79, "date";
    /// Microseconds since 1970-01-01T00:00Z.
    Micros = 80, "micros";
    /// The timestamp of a number of seconds since 1970.
    FromSeconds = 81, "from_seconds";
    /// The timestamp of a number of milliseconds since 1970.
    FromMillis = 82, "from_millis";
    /// The timestamp of a number of microseconds since 1970.
    FromMicros = 83, "from_micros";

    /// The smaller.
    Min = 100, "min";
    /// The greater.
    Max = 101, "max";
    /// Absolute value, of i64.
    Abs = 102, "abs";
    /// To i64, checked.
    ToI64 = 103, "to_i64";
    /// To u64, checked.
    ToU64 = 104, "to_u64";
    /// The bytes of any value: scalars as 8 bytes big-endian.
    ToBytes = 105, "to_bytes";
}

impl Function {
    /// The function of that name.
    pub fn from_name(name: &str) -> Option<Function> {
        Function::ALL.iter().copied().find(|it| it.name() == name)
    }

    /// Reads the local calendar, so that a zone may follow its timestamp.
    pub(crate) const fn has_zone(self) -> bool {
        self as u8 >= Function::Year as u8 && self as u8 <= Function::Date as u8
    }

    /// A hash of any value with an optional seed.
    pub(crate) const fn is_hash(self) -> bool {
        self as u8 <= Function::Sha1 as u8
    }

    /// Reads the clock, which dates have not.
    const fn needs_clock(self) -> bool {
        matches!(
            self,
            Function::Hour
                | Function::Minute
                | Function::Second
                | Function::Hours
                | Function::Minutes
                | Function::Seconds
                | Function::Date
        )
    }

    /// The type of the answer, or none if it does not take these.
    pub(crate) fn result(self, arguments: &[Type]) -> Option<Type> {
        use Type::{Bytes, Date, I64, Str, Timestamp, U64, Uuid};
        Some(match (self, arguments) {
            (it, [_] | [_, U64]) if it.is_hash() => U64,
            (Function::JavaHash, [Str | Bytes | I64]) => I64,
            (Function::RedisSlot, [Str | Bytes]) => U64,
            (Function::PostgresHash, [I64 | Str | Bytes | Uuid]) => I64,
            (
                Function::PostgresPartition | Function::CitusShard,
                [I64 | Str | Bytes | Uuid, U64],
            ) => U64,
            (Function::VitessHash | Function::VitessReverseBits, [U64]) => U64,
            (Function::VitessXxhash | Function::VitessMd5, [Str | Bytes]) => U64,
            (Function::VitessShard | Function::Jump, [U64, U64]) => U64,
            (Function::MysqlCrc32, [Str | Bytes]) => U64,
            (Function::KafkaPartition, [Str | Bytes, U64]) => U64,
            (Function::CassandraToken, [Str | Bytes]) => I64,
            (Function::Substring, [Str, I64, I64]) => Str,
            (Function::Left | Function::Right, [Str, I64]) => Str,
            (Function::SplitPart, [Str, Str, I64]) => Str,
            (Function::Lower | Function::Upper, [Str]) => Str,
            (Function::ParseInt, [Str]) => I64,
            (Function::Length, [Str | Bytes]) => I64,
            (Function::Text, [I64 | U64]) => Str,
            (Function::Date, [Timestamp] | [Timestamp, Str]) => Date,
            (it, [Timestamp] | [Timestamp, Str]) if it.has_zone() => I64,
            (it, [Date]) if it.has_zone() && !it.needs_clock() => I64,
            (Function::Micros, [Timestamp]) => I64,
            (Function::FromSeconds | Function::FromMillis | Function::FromMicros, [I64]) => {
                Timestamp
            }
            (Function::Min | Function::Max, [a, b]) if a == b && a.is_scalar() => *a,
            (Function::Abs, [I64]) => I64,
            (Function::ToI64, [I64 | U64]) => I64,
            (Function::ToU64, [I64 | U64]) => U64,
            (Function::ToBytes, [_]) => Bytes,
            _ => return None,
        })
    }

    /// The type of an argument that is the same for all calls: literals without a suffix take it.
    pub(crate) const fn wanted(self, argument: usize) -> Option<Type> {
        match (self, argument) {
            (
                Function::Jump
                | Function::VitessShard
                | Function::PostgresPartition
                | Function::CitusShard
                | Function::KafkaPartition,
                1,
            ) => Some(Type::U64),
            (
                Function::Jump
                | Function::VitessShard
                | Function::VitessHash
                | Function::VitessReverseBits,
                0,
            ) => Some(Type::U64),
            (it, 1) if it.is_hash() => Some(Type::U64),
            _ => None,
        }
    }

    /// How many arguments at most.
    pub(crate) const fn arguments_max(self) -> usize {
        match self {
            Function::Substring | Function::SplitPart => 3,
            Function::PostgresPartition
            | Function::CitusShard
            | Function::VitessShard
            | Function::KafkaPartition
            | Function::Jump
            | Function::Left
            | Function::Right
            | Function::Min
            | Function::Max => 2,
            _ if self.has_zone() || self.is_hash() => 2,
            _ => 1,
        }
    }

    /// What it takes, for messages.
    pub(crate) const fn usage(self) -> &'static str {
        match self {
            Function::JavaHash => "(string, bytes or i64)",
            Function::RedisSlot
            | Function::VitessXxhash
            | Function::VitessMd5
            | Function::MysqlCrc32
            | Function::CassandraToken
            | Function::Length => "(string or bytes)",
            Function::PostgresHash => "(i64, string, bytes or uuid)",
            Function::PostgresPartition | Function::CitusShard => {
                "(i64, string, bytes or uuid; u64)"
            }
            Function::VitessHash | Function::VitessReverseBits => "(u64)",
            Function::VitessShard | Function::Jump => "(u64, u64)",
            Function::KafkaPartition => "(string or bytes, u64)",
            Function::Substring => "(string, i64, i64)",
            Function::Left | Function::Right => "(string, i64)",
            Function::SplitPart => "(string, string, i64)",
            Function::Lower | Function::Upper | Function::ParseInt => "(string)",
            Function::Text | Function::ToI64 | Function::ToU64 => "(i64 or u64)",
            Function::Micros => "(timestamp)",
            Function::FromSeconds | Function::FromMillis | Function::FromMicros | Function::Abs => {
                "(i64)"
            }
            Function::Min | Function::Max => "(two scalars of one type)",
            Function::ToBytes => "(any value)",
            _ if self.is_hash() => "(any value) or (any value, seed u64)",
            _ if self.needs_clock() => "(timestamp) or (timestamp, \"zone\")",
            _ => "(date), (timestamp) or (timestamp, \"zone\")",
        }
    }
}
