//! Our built-in functions for scripts, under the names that rules have for them.
//!
//! Hashes come as non-negative numbers of 63 bits (the 64 bits shifted right by one): a script has no unsigned numbers,
//! and a negative rest would be no slot. Must not know of limits.

use rhai::{Blob, Engine, EvalAltResult, ImmutableString};

use crate::function::calendar::{self, Part, Unit};
use crate::function::{Fault, Zone, arithmetic, foreign, hash, nodes, text};

/// The result of a function that can fail.
type Outcome<T> = Result<T, Box<EvalAltResult>>;

fn failed(fault: Fault) -> Box<EvalAltResult> {
    fault.to_string().into()
}

/// A hash of our own in what a script can hold.
fn positive(hash: u64) -> i64 {
    (hash >> 1) as i64
}

/// A hash function of bytes with a seed.
type Hash = fn(&[u8], u64) -> u64;

const HASHES: [(&str, Hash); 8] = [
    ("xxh3", hash::xxh3_64),
    ("xxh64", hash::xxh64),
    ("murmur3_128", hash::murmur3_128),
    ("fnv1a", hash::fnv1a_64),
    ("siphash13", hash::siphash13),
    ("siphash24", hash::siphash24),
    ("md5", hash::md5_high),
    ("sha1", hash::sha1_high),
];

/// Hashes of 32 bits, which need no shift.
const NARROW_HASHES: [(&str, Hash); 3] = [
    ("crc32", hash::crc32),
    ("murmur3", hash::murmur3_32),
    ("xxh32", hash::xxh32),
];

const PARTS: [(&str, Part); 11] = [
    ("year", Part::Year),
    ("quarter", Part::Quarter),
    ("month", Part::Month),
    ("day", Part::DayOfMonth),
    ("day_of_week", Part::DayOfWeek),
    ("day_of_year", Part::DayOfYear),
    ("iso_week", Part::Week),
    ("iso_week_year", Part::WeekYear),
    ("hour", Part::Hour),
    ("minute", Part::Minute),
    ("second", Part::Second),
];

const UNITS: [(&str, Unit); 8] = [
    ("years", Unit::Year),
    ("quarters", Unit::Quarter),
    ("months", Unit::Month),
    ("weeks", Unit::Week),
    ("days", Unit::Day),
    ("hours", Unit::Hour),
    ("minutes", Unit::Minute),
    ("seconds", Unit::Second),
];

pub(super) fn register(engine: &mut Engine, zone: &Zone) {
    for (name, hash) in HASHES {
        register_hash(engine, name, move |bytes| positive(hash(bytes, 0)));
    }
    for (name, hash) in NARROW_HASHES {
        register_hash(engine, name, move |bytes| hash(bytes, 0) as i64);
    }
    engine
        .register_fn("java_hash", |it: ImmutableString| {
            i64::from(foreign::java_string(&it))
        })
        .register_fn("java_hash", |it: i64| i64::from(foreign::java_long(it)))
        .register_fn("redis_slot", |it: ImmutableString| {
            i64::from(foreign::redis_slot(it.as_bytes()))
        })
        .register_fn("jump", |key: i64, buckets: i64| -> Outcome<i64> {
            match u32::try_from(buckets) {
                Ok(buckets @ 1..) => Ok(nodes::jump(key as u64, buckets).into()),
                _ => Err(failed(Fault::OutOfRange)),
            }
        })
        .register_fn("modulo", |a: i64, b: i64| {
            arithmetic::modulo(a, b).map_err(failed)
        })
        .register_fn("floor_divide", |a: i64, b: i64| {
            arithmetic::floor_divide(a, b).map_err(failed)
        })
        // Rhai's own follow Unicode's tables, which change.
        .register_fn("to_lower", |it: ImmutableString| text::lower(&it))
        .register_fn("to_upper", |it: ImmutableString| text::upper(&it))
        .register_fn("make_lower", |it: &mut ImmutableString| {
            *it = text::lower(it).into()
        })
        .register_fn("make_upper", |it: &mut ImmutableString| {
            *it = text::upper(it).into()
        })
        .register_fn("parse_int", |it: ImmutableString| {
            text::parse_integer(&it).map_err(failed)
        });
    for (name, part) in PARTS {
        let zone = zone.clone();
        engine.register_fn(name, move |micros: i64| calendar::part(part, micros, &zone));
        // Days, as a date field gives them.
        engine.register_fn(format!("{name}_of_date"), move |day: i64| {
            calendar::part_of_day(part, day)
        });
    }
    for (name, unit) in UNITS {
        let zone = zone.clone();
        engine.register_fn(name, move |micros: i64| {
            calendar::index(unit, micros, &zone)
        });
    }
}

/// A hash of texts, of bytes, and of integers as eight bytes, the most significant first.
fn register_hash(
    engine: &mut Engine,
    name: &str,
    hash: impl Fn(&[u8]) -> i64 + Copy + Send + Sync + 'static,
) {
    engine
        .register_fn(name, move |it: ImmutableString| hash(it.as_bytes()))
        .register_fn(name, move |it: Blob| hash(&it))
        .register_fn(name, move |it: i64| hash(&hash::integer_bytes(it)));
}
