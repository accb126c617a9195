//! Conditions on fields and ranges of row keys, each from the other, by a rule's key schema. Both only widen: what they leave out
//! holds no match, certainly; what they leave in has to be looked at.

use super::{
    Predicate,
    conjunct::{Conjunct, Values, normal, whole_numbers},
    image::literal,
    set::Point,
};
use crate::{
    behind_prefix,
    key::{KeyPart, KeySchema, width},
    rule::Rule,
    value::{Literal, Type},
};

/// Alternatives of a condition that are looked at one by one.
const CONJUNCTS_MAX: usize = 64;

/// The row keys that can hold records that satisfy a condition: the first, and the one behind the last (empty: no end). `None` if none can.
#[must_use]
pub fn rows_of(rule: &Rule, predicate: &Predicate) -> Option<(Vec<u8>, Vec<u8>)> {
    let Some(key) = &rule.key else {
        return Some((Vec::new(), Vec::new()));
    };
    let types: Vec<Type> = rule.fields.iter().map(|it| it.ty).collect();
    let normal = normal(predicate, &types, CONJUNCTS_MAX);
    let ranges = normal.conjuncts.iter();
    ranges
        .map(|it| range(key, &types, it))
        .reduce(|(from, to), (start, stop)| {
            let stop = match to.is_empty() || stop.is_empty() {
                true => Vec::new(),
                false => to.max(stop),
            };
            (from.min(start), stop)
        })
}

fn range(key: &KeySchema, types: &[Type], conjunct: &Conjunct) -> (Vec<u8>, Vec<u8>) {
    let mut prefix = Vec::new();
    for part in &key.parts {
        let (field, reversed) = match part {
            KeyPart::Fixed { field } => (field, false),
            KeyPart::Reversed { field } => (field, true),
            KeyPart::Width { field, .. }
            | KeyPart::Until { field, .. }
            | KeyPart::Decimal { field, .. }
            | KeyPart::Rest { field } => (field, false),
            KeyPart::Skip { .. } => break,
        };
        let (Some(set), Some(ty)) = (
            conjunct.fields.get(usize::from(*field)),
            types.get(usize::from(*field)),
        ) else {
            break;
        };
        let go_on = match (part, &set.values) {
            (KeyPart::Fixed { .. } | KeyPart::Reversed { .. }, Values::Scalars(set)) => {
                let Some((low, high)) = set.bounds() else {
                    break;
                };
                scalar(part, &mut prefix, *ty, low, high, reversed)
            }
            (KeyPart::Decimal { separator, .. }, Values::Scalars(set)) => {
                match set.bounds().filter(|(low, high)| low == high) {
                    Some((number, _)) => until(&prefix, number.to_string().as_bytes(), separator),
                    None => break,
                }
            }
            (_, Values::Blobs(set)) => {
                let (Some(first), Some(last)) = (set.spans().first(), set.spans().last()) else {
                    break;
                };
                let point = first.point().filter(|_| set.spans().len() == 1);
                blob(part, &mut prefix, &first.low, last.high.as_ref(), point)
            }
            _ => break,
        };
        match go_on {
            GoOn::Next => {}
            GoOn::Stop => break,
            GoOn::Range(start, stop) => return (start, stop),
        }
    }
    let stop = behind_prefix(prefix.clone());
    (prefix, stop)
}

/// What a part of the key leaves to do.
enum GoOn {
    /// It has one value, which stands in the prefix now.
    Next,
    /// It bounds nothing.
    Stop,
    /// It bounds the rows so.
    Range(Vec<u8>, Vec<u8>),
}

fn scalar(
    part: &KeyPart,
    prefix: &mut Vec<u8>,
    ty: Type,
    low: i128,
    high: i128,
    reversed: bool,
) -> GoOn {
    let whole = whole_numbers(ty);
    if low == whole.low && Some(high + 1) == whole.high {
        return GoOn::Stop;
    }
    let key = |number: i128| -> Option<Vec<u8>> {
        let literal = literal(number, ty)?;
        let (KeyPart::Fixed { field } | KeyPart::Reversed { field }) = part else {
            return None;
        };
        let mut fields = vec![crate::Value::Null; usize::from(*field) + 1];
        fields[usize::from(*field)] = literal.value();
        let mut key = prefix.clone();
        let parts = vec![part.clone()];
        KeySchema { parts }.write(&fields, &mut key).ok()?;
        Some(key)
    };
    match (key(low), key(high)) {
        (Some(only), _) if low == high => {
            *prefix = only;
            GoOn::Next
        }
        (Some(low), Some(high)) if reversed => GoOn::Range(high, behind_prefix(low)),
        (Some(low), Some(high)) => GoOn::Range(low, behind_prefix(high)),
        _ => GoOn::Stop,
    }
}

fn blob(
    part: &KeyPart,
    prefix: &mut Vec<u8>,
    low: &[u8],
    high: Option<&Vec<u8>>,
    point: Option<&Vec<u8>>,
) -> GoOn {
    let with = |more: &[u8]| [prefix, more].concat();
    match (part, point) {
        (KeyPart::Fixed { .. }, Some(value)) if value.len() == width(Type::Uuid) => {
            prefix.extend_from_slice(value);
            GoOn::Next
        }
        (KeyPart::Width { bytes, .. }, Some(value)) if value.len() == usize::from(*bytes) => {
            prefix.extend_from_slice(value);
            GoOn::Next
        }
        (KeyPart::Rest { .. }, Some(value)) => {
            GoOn::Range(with(value), with(&value.clone().next()))
        }
        (KeyPart::Until { separator, .. }, Some(value)) => until(prefix, value, separator),
        (KeyPart::Reversed { .. }, _) => GoOn::Stop,
        (
            KeyPart::Width { .. }
            | KeyPart::Rest { .. }
            | KeyPart::Until { .. }
            | KeyPart::Fixed { .. },
            _,
        ) => {
            let Some(high) = high else {
                return match low.is_empty() {
                    true => GoOn::Stop,
                    false => GoOn::Range(with(low), behind_prefix(prefix.clone())),
                };
            };
            let stop = match part {
                // A value may be a beginning of the bound: then what follows it in the key decides.
                KeyPart::Width { bytes, .. } if high.len() > usize::from(*bytes) => {
                    behind_prefix(with(&high[..usize::from(*bytes)]))
                }
                KeyPart::Until { separator, .. } => (0..high.len())
                    .filter(|to| &high[..*to] >= low)
                    .map(|to| behind_prefix(with(&[&high[..to], separator].concat())))
                    .chain([with(high)])
                    .reduce(|a, b| match a.is_empty() || b.is_empty() {
                        true => Vec::new(),
                        false => a.max(b),
                    })
                    .unwrap_or_default(),
                _ => with(high),
            };
            GoOn::Range(with(low), stop)
        }
        _ => GoOn::Stop,
    }
}

/// One value up to a separator, which may be missing at the key's end.
fn until(prefix: &[u8], value: &[u8], separator: &[u8]) -> GoOn {
    let start = [prefix, value].concat();
    let stop = behind_prefix([&start, separator].concat());
    GoOn::Range(start, stop)
}

/// What the rows from `start` to `stop` (excluded; empty: the end) say of the fields at the beginning of their keys.
#[must_use]
pub fn condition_of_rows(rule: &Rule, start: &[u8], stop: &[u8]) -> Predicate {
    let mut terms = Vec::new();
    let mut at = 0;
    for part in rule.key.iter().flat_map(|it| &it.parts) {
        let (KeyPart::Fixed { field } | KeyPart::Reversed { field }) = part else {
            break;
        };
        let Some(ty) = rule.fields.get(usize::from(*field)).map(|it| it.ty) else {
            break;
        };
        let end = at + width(ty);
        if width(ty) == 0 || ty == Type::Uuid || start.len() < at && stop.len() < at {
            break;
        }
        let padded = |key: &[u8], with: u8| -> Vec<u8> {
            let given = key.get(at..end.min(key.len())).unwrap_or_default();
            let mut bytes = given.to_vec();
            bytes.resize(end - at, with);
            bytes
        };
        let low = padded(start, 0);
        let high = match stop.is_empty() {
            true => vec![u8::MAX; end - at],
            false => padded(stop, u8::MAX),
        };
        let is_one = low == high && start.len() >= end && stop.len() >= end;
        let (low, high) = match part {
            KeyPart::Reversed { .. } => (flipped(high), flipped(low)),
            _ => (low, high),
        };
        let (Some(low), Some(high)) = (bound(ty, &low), bound(ty, &high)) else {
            break;
        };
        terms.push(Predicate::Between(*field, low, high));
        if !is_one {
            break;
        }
        at = end;
    }
    match terms.is_empty() {
        true => Predicate::True,
        false => Predicate::And(terms),
    }
}

fn flipped(bytes: Vec<u8>) -> Vec<u8> {
    bytes.into_iter().map(|it| !it).collect()
}

/// The value of a bound, moved inside of what the type can hold.
fn bound(ty: Type, bytes: &[u8]) -> Option<Literal> {
    let number = bytes
        .iter()
        .fold(0_i128, |sum, it| sum << 8 | i128::from(*it));
    let number = match ty {
        Type::Bool | Type::U64 => number,
        Type::Date => number - (1 << 31),
        Type::I64 | Type::Timestamp => number - (1 << 63),
        Type::Str | Type::Bytes | Type::Uuid => return None,
    };
    let whole = whole_numbers(ty);
    let last = whole.high.map_or(i128::MAX, |high| high - 1);
    literal(number.clamp(whole.low, last), ty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Value, enumerate::Filter};

    fn rule(key: &str) -> Rule {
        crate::parse(&format!(
            "rule r version 1; field a: i64; field t: timestamp; field s: string; key {key}; dimension n 0 to 1; \
             else (a % 2 + length(s) * 0 + micros(t) * 0); place table \"t\";"
        ))
        .unwrap()
    }

    fn rows(key: &str, condition: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let rule = rule(key);
        rows_of(&rule, &Predicate::parse(&rule, condition, None).unwrap())
    }

    #[test]
    fn conditions_become_ranges_of_keys() {
        let number = |it: i64| ((it as u64) ^ (1 << 63)).to_be_bytes().to_vec();
        let all = Some((Vec::new(), Vec::new()));
        let key = "fixed a, until s \"|\", fixed t";
        assert_eq!(rows(key, "s = 'x'"), all);
        assert_eq!(rows(key, "a = 7"), Some((number(7), number(8))));
        assert_eq!(rows(key, "a > 7 and a <= 9"), Some((number(8), number(10))));
        assert_eq!(rows(key, "a in (3, 5)"), Some((number(3), number(6))));
        assert_eq!(rows(key, "a = 1 and a = 2"), None);
        let with = |more: &[u8]| [&number(7)[..], more].concat();
        assert_eq!(
            rows(key, "a = 7 and s = 'x'"),
            Some((with(b"x"), with(b"x}")))
        );
        assert_eq!(
            rows("until s \"|\", fixed a, fixed t", "s like 'ab%'"),
            Some((b"ab".to_vec(), b"ac".to_vec()))
        );
        assert_eq!(
            rows("until s \"|\", fixed a, fixed t", "s between 'a' and 'ab'"),
            // `a|…` lies behind `ab|…`.
            Some((b"a".to_vec(), b"a}".to_vec()))
        );
        assert_eq!(
            rows(
                "fixed t, fixed a, rest s",
                "t >= timestamp '2024-01-01T00:00:00Z'"
            )
            .map(|it| it.1.is_empty()),
            Some(false)
        );
        assert_eq!(
            rows("decimal a \"|\", fixed t, rest s", "a = -5"),
            Some((b"-5".to_vec(), b"-5}".to_vec()))
        );
    }

    const KEYS: [&str; 6] = [
        "fixed a, reversed t, rest s",
        "reversed t, fixed a, rest s",
        "until s \"|\", fixed a, fixed t",
        "fixed a, until s \"ab\", fixed t",
        "decimal a \"|\", fixed t, rest s",
        "fixed a, fixed t, until s \"|\"",
    ];

    proptest! {
        /// No row that matches lies outside of the range; no row of a range is outside of its condition.
        #[test]
        fn nothing_is_lost(
            key in 0..KEYS.len(),
            a in -3_i64..4, t in -3_i64..4, s in "[ab|]{0,3}",
            low in -3_i64..4, high in -3_i64..4, text in "[ab|]{0,3}", form in 0..6,
            start in proptest::collection::vec(any::<u8>(), 0..12),
            stop in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let rule = rule(KEYS[key]);
            let condition = match form {
                0 => format!("a between {low} and {high} and s >= '{text}'"),
                1 => format!("a = {low} and s < '{text}'"),
                2 => format!("a = {low} and s like '{text}%'"),
                3 => format!("s = '{text}' or a > {high}"),
                4 => format!("micros(t) = {low} and a >= {high} and s > '{text}'"),
                _ => format!("not (a < {low}) and s <= '{text}'"),
            };
            let predicate = Predicate::parse(&rule, &condition, None).unwrap();
            let schema = rule.key.as_ref().unwrap();
            let fields = [Value::I64(a), Value::Timestamp(t), Value::Str(&s)];
            let mut row = Vec::new();
            if schema.write(&fields, &mut row).is_err() {
                return Ok(());
            }
            let within = |row: &[u8], start: &[u8], stop: &[u8]| {
                row >= start && (stop.is_empty() || row < stop)
            };
            let holds = |it: &Predicate| Filter::new(&rule, it).unwrap().matches(&fields).unwrap();
            if holds(&predicate) {
                let (start, stop) = rows_of(&rule, &predicate).unwrap();
                prop_assert!(within(&row, &start, &stop), "{condition}: {row:?} {start:?} {stop:?}");
            }
            for (start, stop) in [(&start, &stop), (&row, &stop), (&start, &row)] {
                if within(&row, start, stop) {
                    let condition = condition_of_rows(&rule, start, stop);
                    prop_assert!(holds(&condition), "{condition:?}: {row:?} {start:?} {stop:?}");
                }
            }
        }
    }
}
