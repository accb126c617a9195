//! Constants from their text: dates, timestamps, uuids, bytes in hexadecimal.

use crate::{
    function::{
        Zone,
        calendar::{self, Date},
    },
    limits,
    value::{Literal, Type},
};

/// The constant of a type that a quoted text stands for; timestamps without an offset are local to the zone.
pub(crate) fn from_text(ty: Type, text: &str, zone: &Zone) -> Option<Literal> {
    let literal = match ty {
        Type::Str => Literal::Str(text.to_owned()),
        Type::Bytes => Literal::Bytes(hex(text)?),
        Type::Date => Literal::Date(i32::try_from(date(text)?).ok()?),
        Type::Timestamp => Literal::Timestamp(timestamp(text, zone)?),
        Type::Uuid => Literal::Uuid(uuid(text)?),
        Type::Bool | Type::I64 | Type::U64 => return None,
    };
    literal.is_in_range().then_some(literal)
}

/// How the text of a constant of that type looks.
pub(crate) fn form(ty: Type) -> &'static str {
    match ty {
        Type::Bytes => "hexadecimal digits, two for each byte",
        Type::Date => "yyyy-mm-dd, years 0001 to 9999",
        Type::Timestamp => {
            "yyyy-mm-dd or yyyy-mm-ddThh:mm:ss, then .ffffff and Z or +hh:mm if wanted"
        }
        Type::Uuid => "a uuid",
        _ => "text",
    }
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// Days since 1970.
fn date(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-');
    let mut part = |width: usize| {
        let part = parts.next()?;
        (part.len() == width).then(|| digits(part)).flatten()
    };
    let date = Date {
        year: part(4)?,
        month: part(2)?,
        day: part(2)?,
    };
    let days = calendar::day_of(date).ok()?;
    // A day past the end of its month would count on into the next.
    (calendar::date_of(days) == date).then_some(days)
}

/// Microseconds since 1970.
fn timestamp(text: &str, zone: &Zone) -> Option<i64> {
    let (day, time) = match text.split_once(['T', ' ']) {
        Some((day, time)) => (day, time),
        None => (text, "00:00:00"),
    };
    let (time, offset) = match time.find(['Z', '+', '-']) {
        Some(at) => (&time[..at], Some(offset(&time[at..])?)),
        None => (time, None),
    };
    let (time, micros) = match time.split_once('.') {
        Some((time, fraction)) => (time, fraction_micros(fraction)?),
        None => (time, 0),
    };
    let mut parts = time.splitn(3, ':');
    let mut part = |max: i64| {
        let part = parts.next()?;
        let value = digits(part)?;
        (part.len() == 2 && value <= max).then_some(value)
    };
    let (hour, minute) = (part(23)?, part(59)?);
    let second = part(59)?;
    let local = date(day)? * 86_400 + hour * 3_600 + minute * 60 + second;
    let seconds = match offset {
        Some(offset) => local - offset,
        None => zone.earliest(local),
    };
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

fn fraction_micros(fraction: &str) -> Option<i64> {
    if fraction.len() > 6 {
        return None;
    }
    let missing = u32::try_from(6 - fraction.len()).ok()?;
    digits(fraction)?.checked_mul(10_i64.pow(missing))
}

/// Seconds ahead of UTC.
fn offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours_count, minutes_count) = (digits(hours)?, digits(minutes)?);
    let fits = hours.len() == 2 && minutes.len() == 2 && hours_count <= 18 && minutes_count <= 59;
    fits.then_some(sign * (hours_count * 3_600 + minutes_count * 60))
}

pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) || bytes.len() > 2 * limits::STRING_BYTES_MAX {
        return None;
    }
    let digit = |it: u8| char::from(it).to_digit(16);
    bytes
        .chunks(2)
        .map(|pair| {
            let byte = digit(pair[0])? << 4 | digit(pair[1])?;
            u8::try_from(byte).ok()
        })
        .collect()
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let plain: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = plain.iter().map(|it| it.len()).collect();
    if lengths != [8, 4, 4, 4, 12] {
        return None;
    }
    hex(&plain.concat())?.try_into().ok()
}
