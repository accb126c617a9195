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
    /// XXH3, 64 bits, of a value's bytes.
    Xxh3 = 0, "xxh3";
    /// MurmurHash3, 32 bits.
    Murmur3 = 1, "murmur3";
    /// CRC-32 (ISO-HDLC), as MySQL's `crc32`.
    Crc32 = 2, "crc32";
    /// FNV-1a, 64 bits.
    Fnv1a = 3, "fnv1a";
    /// The first 64 bits of SHA-1, big-endian.
    Sha1 = 4, "sha1";
    /// Java's `String.hashCode` (signed 32 bits).
    JavaHash = 5, "java_hash";
    /// Redis Cluster's slot of a key, 0 to 16383, hash tags included.
    RedisSlot = 6, "redis_slot";
    /// PostgreSQL's partition hash.
    PostgresHash = 7, "postgres_hash";
    /// Citus's distribution hash (signed 32 bits).
    CitusHash = 8, "citus_hash";
    /// Vitess's `hash` vindex.
    VitessHash = 9, "vitess_hash";
    /// Jump consistent hash: `jump(h, n)`, 0 to n-1.
    Jump = 10, "jump";

    /// `substring(s, start, length)`, characters, start from 0.
    Substring = 20, "substring";
    /// The first n characters.
    Left = 21, "left";
    /// The last n characters.
    Right = 22, "right";
    /// `split_part(s, separator, n)`: the n-th part, from 1; empty if there is none.
    SplitPart = 23, "split_part";
    /// ASCII letters made small; all else unchanged, since Unicode's tables change.
    Lower = 24, "lower";
    /// ASCII letters made capital.
    Upper = 25, "upper";
    /// The integer that the whole text is, in tens.
    ParseInt = 26, "parse_int";
    /// Length in characters, or bytes of bytes.
    Length = 27, "length";
    /// Decimal text of an integer.
    Text = 28, "text";

    /// Year, 1 to 9999.
    Year = 40, "year";
    /// Quarter, 1 to 4.
    Quarter = 41, "quarter";
    /// Month, 1 to 12.
    Month = 42, "month";
    /// Day of the month, 1 to 31.
    Day = 43, "day";
    /// Day of the week, 1 (Monday) to 7.
    DayOfWeek = 44, "day_of_week";
    /// Day of the year, 1 to 366.
    DayOfYear = 45, "day_of_year";
    /// ISO week, 1 to 53.
    IsoWeek = 46, "iso_week";
    /// Hour of the day, 0 to 23.
    Hour = 47, "hour";
    /// Minute of the hour, 0 to 59.
    Minute = 48, "minute";
    /// Days since 1970-01-01 in the zone.
    Days = 49, "days";
    /// Months since 1970-01 in the zone.
    Months = 50, "months";
    /// ISO weeks since the one that holds 1970-01-01, in the zone.
    Weeks = 51, "weeks";
    /// Hours since 1970-01-01T00:00Z, of no zone.
    Hours = 52, "hours";
    /// Microseconds since 1970-01-01T00:00Z.
    Micros = 53, "micros";
    /// The date in the zone.
    Date = 54, "date";
    /// The timestamp of a number of seconds since 1970.
    FromSeconds = 55, "from_seconds";
    /// The timestamp of a number of milliseconds since 1970.
    FromMillis = 56, "from_millis";
    /// The timestamp of a number of microseconds since 1970.
    FromMicros = 57, "from_micros";

    /// The smaller.
    Min = 70, "min";
    /// The greater.
    Max = 71, "max";
    /// Absolute value, of i64.
    Abs = 72, "abs";
    /// To i64, checked.
    ToI64 = 73, "to_i64";
    /// To u64, checked.
    ToU64 = 74, "to_u64";
    /// The bytes of any value: integers, dates and timestamps as 8 bytes big-endian.
    ToBytes = 75, "to_bytes";
}

impl Function {
    /// The function of that name.
    pub fn from_name(name: &str) -> Option<Function> {
        Function::ALL.iter().copied().find(|it| it.name() == name)
    }

    /// Reads the local calendar, so that a zone may be its last argument.
    pub(crate) const fn has_zone(self) -> bool {
        matches!(
            self,
            Function::Year
                | Function::Quarter
                | Function::Month
                | Function::Day
                | Function::DayOfWeek
                | Function::DayOfYear
                | Function::IsoWeek
                | Function::Hour
                | Function::Minute
                | Function::Days
                | Function::Months
                | Function::Weeks
                | Function::Date
        )
    }

    /// The type of the answer, or none if it does not take these.
    pub(crate) fn result(self, arguments: &[Type]) -> Option<Type> {
        use Type::{Bytes, Date, I64, Str, Timestamp, U64};
        Some(match (self, arguments) {
            (Function::Xxh3 | Function::Murmur3 | Function::Fnv1a, [_] | [_, U64]) => U64,
            (Function::Crc32 | Function::Sha1, [_]) => U64,
            (Function::JavaHash, [Str]) => I64,
            (Function::RedisSlot, [Str | Bytes]) => U64,
            (Function::PostgresHash, [I64 | Str]) => U64,
            (Function::CitusHash, [I64 | Str]) => I64,
            (Function::VitessHash, [U64]) => U64,
            (Function::Jump, [U64, U64]) => U64,
            (Function::Substring, [Str, I64, I64]) => Str,
            (Function::Left | Function::Right, [Str, I64]) => Str,
            (Function::SplitPart, [Str, Str, I64]) => Str,
            (Function::Lower | Function::Upper, [Str]) => Str,
            (Function::ParseInt, [Str]) => I64,
            (Function::Length, [Str | Bytes]) => I64,
            (Function::Text, [I64 | U64]) => Str,
            (Function::Hour | Function::Minute, [Timestamp] | [Timestamp, Str]) => I64,
            (Function::Date, [Timestamp] | [Timestamp, Str]) => Date,
            (it, [Date] | [Timestamp] | [Timestamp, Str]) if it.has_zone() => I64,
            (Function::Hours | Function::Micros, [Timestamp]) => I64,
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

    /// The types of arguments that the function wants where the text does not say: literals take them.
    pub(crate) const fn wanted(self, argument: usize) -> Option<Type> {
        match (self, argument) {
            (Function::Xxh3 | Function::Murmur3 | Function::Fnv1a | Function::Jump, 1) => {
                Some(Type::U64)
            }
            (Function::VitessHash, 0) => Some(Type::U64),
            _ => None,
        }
    }

    /// How many arguments at most.
    pub(crate) const fn arguments_max(self) -> usize {
        match self {
            Function::Substring | Function::SplitPart => 3,
            Function::Xxh3
            | Function::Murmur3
            | Function::Fnv1a
            | Function::Jump
            | Function::Left
            | Function::Right
            | Function::Min
            | Function::Max => 2,
            _ if self.has_zone() => 2,
            _ => 1,
        }
    }

    /// How it is called, for messages.
    pub(crate) const fn usage(self) -> &'static str {
        match self {
            Function::Xxh3 => "xxh3(value) or xxh3(value, seed u64)",
            Function::Murmur3 => "murmur3(value) or murmur3(value, seed u64)",
            Function::Fnv1a => "fnv1a(value) or fnv1a(value, seed u64)",
            Function::Crc32 => "crc32(value)",
            Function::Sha1 => "sha1(value)",
            Function::JavaHash => "java_hash(string)",
            Function::RedisSlot => "redis_slot(string or bytes)",
            Function::PostgresHash => "postgres_hash(i64 or string)",
            Function::CitusHash => "citus_hash(i64 or string)",
            Function::VitessHash => "vitess_hash(u64)",
            Function::Jump => "jump(u64, u64)",
            Function::Substring => "substring(string, i64, i64)",
            Function::Left => "left(string, i64)",
            Function::Right => "right(string, i64)",
            Function::SplitPart => "split_part(string, string, i64)",
            Function::Lower => "lower(string)",
            Function::Upper => "upper(string)",
            Function::ParseInt => "parse_int(string)",
            Function::Length => "length(string or bytes)",
            Function::Text => "text(i64 or u64)",
            Function::Hour => "hour(timestamp) or hour(timestamp, \"zone\")",
            Function::Minute => "minute(timestamp) or minute(timestamp, \"zone\")",
            Function::Date => "date(timestamp) or date(timestamp, \"zone\")",
            Function::Hours => "hours(timestamp)",
            Function::Micros => "micros(timestamp)",
            Function::FromSeconds | Function::FromMillis | Function::FromMicros => {
                "a whole number (i64) since 1970"
            }
            Function::Min | Function::Max => "two scalars of one type",
            Function::Abs => "abs(i64)",
            Function::ToI64 | Function::ToU64 => "an integer",
            Function::ToBytes => "to_bytes(value)",
            _ => "a date, a timestamp, or a timestamp and a \"zone\"",
        }
    }
}
