//! Types, values of fields and constants of rules. Knows nothing of expressions.

use std::fmt;

use crate::limits;

/// The types of the language (B5.2). No floats: their rounding differs between platforms, and NaN has no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Type {
    /// `bool`
    Bool = 0,
    /// `i64`
    I64 = 1,
    /// `u64`
    U64 = 2,
    /// `string`: UTF-8, compared by bytes.
    Str = 3,
    /// `bytes`
    Bytes = 4,
    /// `date`: days since 1970-01-01.
    Date = 5,
    /// `timestamp`: microseconds since 1970-01-01 UTC.
    Timestamp = 6,
    /// `uuid`: 16 bytes, compared as bytes.
    Uuid = 7,
}

impl Type {
    /// All types in the order of their numbers.
    pub const ALL: [Type; 8] = [
        Type::Bool,
        Type::I64,
        Type::U64,
        Type::Str,
        Type::Bytes,
        Type::Date,
        Type::Timestamp,
        Type::Uuid,
    ];

    /// The word of the language.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::I64 => "i64",
            Type::U64 => "u64",
            Type::Str => "string",
            Type::Bytes => "bytes",
            Type::Date => "date",
            Type::Timestamp => "timestamp",
            Type::Uuid => "uuid",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Type> {
        Type::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The type of that number in bytecode.
    pub fn from_number(number: u8) -> Option<Type> {
        Type::ALL.get(usize::from(number)).copied()
    }

    /// Kept in 64 bits (everything but strings, bytes and uuids).
    pub const fn is_scalar(self) -> bool {
        !matches!(self, Type::Str | Type::Bytes | Type::Uuid)
    }

    /// `i64` or `u64`.
    pub const fn is_integer(self) -> bool {
        matches!(self, Type::I64 | Type::U64)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of a field of a record, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value<'a> {
    /// Absent, or SQL's null.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// Text.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// A UUID in the order of its text.
    Uuid([u8; 16]),
}

impl Value<'_> {
    /// The type, or none for null.
    pub const fn ty(&self) -> Option<Type> {
        Some(match self {
            Value::Null => return None,
            Value::Bool(_) => Type::Bool,
            Value::I64(_) => Type::I64,
            Value::U64(_) => Type::U64,
            Value::Str(_) => Type::Str,
            Value::Bytes(_) => Type::Bytes,
            Value::Date(_) => Type::Date,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Uuid(_) => Type::Uuid,
        })
    }

    /// An owned copy, or none for null.
    pub fn to_literal(&self) -> Option<Literal> {
        Some(match *self {
            Value::Null => return None,
            Value::Bool(it) => Literal::Bool(it),
            Value::I64(it) => Literal::I64(it),
            Value::U64(it) => Literal::U64(it),
            Value::Str(it) => Literal::Str(it.to_owned()),
            Value::Bytes(it) => Literal::Bytes(it.to_vec()),
            Value::Date(it) => Literal::Date(it),
            Value::Timestamp(it) => Literal::Timestamp(it),
            Value::Uuid(it) => Literal::Uuid(it),
        })
    }
}

/// The fields of one record in the order in which the rule declares them.
pub type Fields<'a> = [Value<'a>];

/// A constant of a rule or a bound of a condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Literal {
    /// `true`, `false`
    Bool(bool),
    /// `-5`
    I64(i64),
    /// `5u`, or `5` beside something unsigned
    U64(u64),
    /// `"text"`
    Str(String),
    /// `bytes "0a0b"`
    Bytes(Vec<u8>),
    /// `date "2012-01-31"`
    Date(i32),
    /// `timestamp "2012-01-31T00:00:00Z"`
    Timestamp(i64),
    /// `uuid "…"`
    Uuid([u8; 16]),
}

impl Literal {
    /// The type.
    pub const fn ty(&self) -> Type {
        match self {
            Literal::Bool(_) => Type::Bool,
            Literal::I64(_) => Type::I64,
            Literal::U64(_) => Type::U64,
            Literal::Str(_) => Type::Str,
            Literal::Bytes(_) => Type::Bytes,
            Literal::Date(_) => Type::Date,
            Literal::Timestamp(_) => Type::Timestamp,
            Literal::Uuid(_) => Type::Uuid,
        }
    }

    /// The same as a borrowed value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Literal::Bool(it) => Value::Bool(*it),
            Literal::I64(it) => Value::I64(*it),
            Literal::U64(it) => Value::U64(*it),
            Literal::Str(it) => Value::Str(it),
            Literal::Bytes(it) => Value::Bytes(it),
            Literal::Date(it) => Value::Date(*it),
            Literal::Timestamp(it) => Value::Timestamp(*it),
            Literal::Uuid(it) => Value::Uuid(*it),
        }
    }

    /// Whether a rule may hold it: lengths and years.
    pub fn is_in_range(&self) -> bool {
        match self {
            Literal::Str(it) => it.len() <= limits::STRING_BYTES_MAX,
            Literal::Bytes(it) => it.len() <= limits::STRING_BYTES_MAX,
            Literal::Date(it) => (limits::DATE_MIN..=limits::DATE_MAX).contains(it),
            Literal::Timestamp(it) => (limits::TIMESTAMP_MIN..=limits::TIMESTAMP_MAX).contains(it),
            _ => true,
        }
    }

    /// The 64 bits of a scalar as the evaluator keeps them, or none for strings, bytes and uuids.
    pub(crate) fn scalar(&self) -> Option<u64> {
        Some(match self {
            Literal::Bool(it) => u64::from(*it),
            Literal::I64(it) | Literal::Timestamp(it) => *it as u64,
            Literal::U64(it) => *it,
            Literal::Date(it) => i64::from(*it) as u64,
            Literal::Str(_) | Literal::Bytes(_) | Literal::Uuid(_) => return None,
        })
    }

    /// The bytes of a string, byte string or uuid, or none for scalars.
    pub(crate) fn blob(&self) -> Option<&[u8]> {
        match self {
            Literal::Str(it) => Some(it.as_bytes()),
            Literal::Bytes(it) => Some(it),
            Literal::Uuid(it) => Some(it),
            _ => None,
        }
    }
}
