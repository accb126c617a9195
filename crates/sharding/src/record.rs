//! Values of fields from text, as files of records hold them: CSV cells, JSON values, answers of databases.
//!
//! A text that is no value of the field's type is refused with the form that was expected, never guessed. Must not know
//! of files or of rules.

use crate::function::{Zone, text as numbers};
use crate::rule::{date, timestamp};
use crate::text::{form, from_text};
use crate::value::{Literal, Type};

/// What a bare integer means where a time is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nothing: integers are refused, since nobody can tell seconds from milliseconds.
    #[default]
    Refused,
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970, as Java and HBase count.
    Millis,
    /// Microseconds since 1970.
    Micros,
}

/// How texts are read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The zone of times that name none.
    pub zone: Zone,
    /// What integers mean as times.
    pub time_unit: TimeUnit,
}

impl Reading {
    /// The value of a type that a text stands for.
    ///
    /// # Errors
    /// What was expected instead.
    pub fn value(&self, ty: Type, text: &str) -> Result<Literal, String> {
        let refused = |expected: &str| Err(format!("'{}' is no {ty}: {expected}", shortened(text)));
        let value = match ty {
            Type::Bool => match text {
                "true" | "TRUE" | "1" => Some(Literal::Bool(true)),
                "false" | "FALSE" | "0" => Some(Literal::Bool(false)),
                _ => return refused("true or false"),
            },
            Type::I64 => match numbers::parse_integer(text) {
                Ok(number) => Some(Literal::I64(number)),
                Err(_) => return refused("a whole number of 64 bits"),
            },
            Type::U64 => match text.parse() {
                Ok(number) => Some(Literal::U64(number)),
                Err(_) => return refused("a whole number of 64 bits without a sign"),
            },
            Type::Timestamp => match self.time(text)? {
                Some(time) => Some(time),
                None => from_text(ty, text, &self.zone),
            },
            Type::Str | Type::Bytes | Type::Date | Type::Uuid => from_text(ty, text, &self.zone),
        };
        match value {
            Some(value) if value.is_in_range() => Ok(value),
            _ => refused(form(ty)),
        }
    }

    /// A time that is written as an integer; `None` if it is not.
    fn time(&self, text: &str) -> Result<Option<Literal>, String> {
        let Ok(number) = numbers::parse_integer(text) else {
            return Ok(None);
        };
        let factor = match self.time_unit {
            TimeUnit::Refused => {
                return Err(format!(
                    "{text} may be seconds or milliseconds since 1970: say which (--time-unit)"
                ));
            }
            TimeUnit::Seconds => 1_000_000,
            TimeUnit::Millis => 1_000,
            TimeUnit::Micros => 1,
        };
        number
            .checked_mul(factor)
            .map(|micros| Some(Literal::Timestamp(micros)))
            .ok_or_else(|| format!("{text} is far out of any calendar"))
    }
}

/// A value as a text that [`Reading::value`] reads again.
#[must_use]
pub fn text(value: &Literal) -> String {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
    match value {
        Literal::Bool(it) => it.to_string(),
        Literal::I64(it) => it.to_string(),
        Literal::U64(it) => it.to_string(),
        Literal::Str(it) => it.clone(),
        Literal::Bytes(it) => hex(it),
        Literal::Date(it) => date(i64::from(*it)),
        Literal::Timestamp(it) => timestamp(*it),
        Literal::Uuid(it) => {
            let hex = hex(it);
            let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
            parts.join("-")
        }
    }
}

/// The beginning of a text that stands in a message.
fn shortened(text: &str) -> String {
    const LENGTH_MAX: usize = 40;
    let mut short: String = text.chars().take(LENGTH_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(time_unit: TimeUnit) -> Reading {
        Reading {
            zone: Zone::load("Asia/Shanghai").unwrap(),
            time_unit,
        }
    }

    #[test]
    fn texts_are_values_of_their_type() {
        let strict = reading(TimeUnit::Refused);
        let value = |ty, text| strict.value(ty, text).unwrap();
        assert_eq!(value(Type::I64, "-7"), Literal::I64(-7));
        assert_eq!(
            value(Type::U64, "18446744073709551615"),
            Literal::U64(u64::MAX)
        );
        assert_eq!(value(Type::Bool, "true"), Literal::Bool(true));
        assert_eq!(value(Type::Str, ""), Literal::Str(String::new()));
        assert_eq!(value(Type::Bytes, "0aff"), Literal::Bytes(vec![0x0a, 0xff]));
        assert_eq!(value(Type::Date, "1970-01-02"), Literal::Date(1));
        // Midnight in Shanghai.
        assert_eq!(
            value(Type::Timestamp, "1970-01-01 08:00:00"),
            Literal::Timestamp(0)
        );
        assert_eq!(
            value(Type::Timestamp, "1970-01-01T00:00:01Z"),
            Literal::Timestamp(1_000_000)
        );
        let millis = reading(TimeUnit::Millis);
        assert_eq!(
            millis.value(Type::Timestamp, "5"),
            Ok(Literal::Timestamp(5_000))
        );
    }

    #[test]
    fn values_go_through_text() {
        let micros = reading(TimeUnit::Refused);
        for value in [
            Literal::Bool(true),
            Literal::I64(i64::MIN),
            Literal::U64(u64::MAX),
            Literal::Str("a\"b\n中😀".to_owned()),
            Literal::Bytes(vec![0, 0xff]),
            Literal::Date(-719_162),
            Literal::Timestamp(-1),
            Literal::Timestamp(253_402_300_799_999_999),
            Literal::Uuid(*b"0123456789abcdef"),
        ] {
            assert_eq!(micros.value(value.ty(), &text(&value)), Ok(value.clone()));
        }
    }

    #[test]
    fn what_is_no_value_is_refused_with_what_was_expected() {
        let strict = reading(TimeUnit::Refused);
        for (ty, text, expected) in [
            (Type::I64, "1.0", "'1.0' is no i64: a whole number"),
            (Type::I64, "", "'' is no i64"),
            (Type::U64, "-1", "without a sign"),
            (Type::Timestamp, "1700000000", "say which (--time-unit)"),
            (Type::Date, "2023-02-29", "yyyy-mm-dd"),
            (Type::Bytes, "0", "hexadecimal digits"),
        ] {
            let error = strict.value(ty, text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let seconds = reading(TimeUnit::Seconds);
        assert!(
            seconds
                .value(Type::Timestamp, "9223372036854775807")
                .is_err()
        );
        assert!(seconds.value(Type::Timestamp, "999999999999").is_err());
        assert!(
            strict
                .value(Type::I64, &"9".repeat(1_000))
                .unwrap_err()
                .len()
                < 200
        );
    }
}
