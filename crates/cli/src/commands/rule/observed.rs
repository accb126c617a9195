//! What `rule plan` goes by: how often each slot, each key and each value came, from records, row keys or a file of counts by slot.
//!
//! Must not know what is proposed.

use std::collections::BTreeMap;
use std::path::Path;

use cadastre_sharding::versions::{Load, key_field};
use cadastre_sharding::{Literal, Program, Slot, Value};

use super::Stop;
use super::records::{self, Record, RecordsArgs};

/// Most keys that are counted one by one; beyond it the rare ones are forgotten.
const KEYS_MAX: usize = 10_000;

/// What makes rows one key: fields and their values.
pub(super) type Key = Vec<(u16, Literal)>;

/// What the records show.
pub(super) struct Seen {
    pub(super) load: Load,
    /// How often each key came, by value of the first dimension.
    keys: BTreeMap<(i64, Key), u64>,
    /// For each field whether it grows.
    growth: Vec<Growth>,
}

/// Whether a field's values only grow in the order in which records come, as ids and dates do.
#[derive(Clone, Default)]
struct Growth {
    latest: Option<Literal>,
    rises: bool,
    falls: bool,
}

impl Growth {
    fn see(&mut self, value: &Literal) {
        self.falls |= self.latest.as_ref().is_some_and(|it| value < it);
        self.rises |= self.latest.as_ref().is_some_and(|it| value > it);
        self.latest = Some(value.clone());
    }

    /// What comes behind all values, if they have an order that somebody may count on.
    fn beyond(&self) -> Option<Literal> {
        let next = match self.latest.as_ref().filter(|_| self.rises && !self.falls)? {
            Literal::I64(it) => Literal::I64(it.checked_add(1)?),
            Literal::U64(it) => Literal::U64(it.checked_add(1)?),
            Literal::Date(it) => Literal::Date(it.checked_add(1)?),
            Literal::Timestamp(it) => Literal::Timestamp(it.checked_add(1)?),
            _ => return None,
        };
        next.is_in_range().then_some(next)
    }
}

impl Seen {
    fn nothing(program: &Program) -> Self {
        Self {
            load: Load::default(),
            keys: BTreeMap::new(),
            growth: vec![Growth::default(); program.types().len()],
        }
    }

    /// All slots alike: for who plans blind.
    pub(super) fn alike(program: &Program) -> Self {
        let mut seen = Self::nothing(program);
        for slot in (0..program.shape().slots()).map(Slot) {
            seen.load.add(slot, 1, 0);
        }
        seen
    }

    /// Reads records; a key is the first field that the rule looks at, or what the first `prefix` bytes of row keys hold.
    pub(super) fn records(
        args: &RecordsArgs,
        program: &Program,
        prefix: Option<usize>,
    ) -> Result<Self, Stop> {
        let mut seen = Self::nothing(program);
        let field = key_field(program);
        records::each(args, program, |record| {
            let fields = record.fields();
            match program.evaluate(&fields) {
                Ok(slot) => {
                    seen.load.add(slot, record.count, record.bytes);
                    let key = match prefix {
                        Some(bytes) => prefix_key(program, record, bytes)?,
                        None => key_of(&fields, field),
                    };
                    let first = program.shape().coordinate(slot, 0);
                    seen.count((first, key), record.count);
                    seen.grows(&fields);
                }
                Err(why) => seen.load.refuse(why, record.count),
            }
            Ok(())
        })?;
        Ok(seen)
    }

    fn grows(&mut self, fields: &[Value<'_>]) {
        for (growth, value) in self.growth.iter_mut().zip(fields) {
            if let Some(value) = value.to_literal() {
                growth.see(&value);
            }
        }
    }

    /// A field that grows, one that the rule looks at if there is one, and a bound above all that was seen of it.
    pub(super) fn beyond(&self, program: &Program) -> Option<(u16, Literal)> {
        let used = program.used_fields().iter().copied();
        let all = (0_u16..).take(self.growth.len());
        used.chain(all)
            .find_map(|at| Some((at, self.growth[usize::from(at)].beyond()?)))
    }

    /// Counts a key; when there are too many, all that came once so far are forgotten, and the others lose one: what is
    /// frequent is never forgotten (Misra and Gries, 1982).
    fn count(&mut self, key: (i64, Key), rows: u64) {
        if key.1.is_empty() {
            return;
        }
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(&key) {
            self.keys.retain(|_, count| {
                *count = count.saturating_sub(1);
                *count > 0
            });
        }
        let counted = self.keys.entry(key).or_default();
        *counted = counted.saturating_add(rows);
    }

    /// The most frequent key of a value of the first dimension.
    pub(super) fn hottest_key(&self, first: i64) -> Option<(&Key, u64)> {
        self.keys
            .iter()
            .filter(|((at, _), _)| *at == first)
            .max_by_key(|(_, count)| **count)
            .map(|((_, key), count)| (key, *count))
    }
}

fn key_of(fields: &[Value<'_>], field: Option<u16>) -> Key {
    let value = |at: u16| Some((at, fields.get(usize::from(at))?.to_literal()?));
    field.and_then(value).into_iter().collect()
}

/// The fields that the beginning of a row key holds.
fn prefix_key(program: &Program, record: &Record, bytes: usize) -> Result<Key, Stop> {
    let (Some(schema), Some(key)) = (&program.rule().key, &record.key) else {
        return Err(Stop::usage("--prefix is of row keys: --format keys"));
    };
    let held = schema
        .fields_within(program.types(), key, bytes)
        .map_err(|fault| Stop::usage(fault.to_string()))?;
    if held.is_empty() {
        return Err(Stop::usage(format!(
            "the first {bytes} bytes of a row key hold no whole field"
        )));
    }
    let fields = record.fields();
    let value = |at: u16| Some((at, fields.get(usize::from(at))?.to_literal()?));
    Ok(held.into_iter().filter_map(value).collect())
}

/// Reads counts by slot: CSV whose header names the rule's dimensions, of which those behind the first may be left out, and `count`.
pub(super) fn counts(path: &Path, program: &Program) -> Result<Seen, Stop> {
    let named = |fault: String| Stop::usage(format!("{}: {fault}", path.display()));
    let fault = |error: csv::Error| named(error.to_string());
    let mut reader = csv::ReaderBuilder::new()
        .flexible(false)
        .trim(csv::Trim::All)
        .from_path(path)
        .map_err(fault)?;
    let header = reader.headers().map_err(fault)?.clone();
    let find = |name: &str| header.iter().position(|it| it == name);
    let wanted = |name: &str| {
        find(name).ok_or_else(|| named(format!("the header names no column '{name}'")))
    };
    let dimensions = program.shape().dimensions();
    let count = wanted("count")?;
    let mut places = vec![Some(wanted(&dimensions[0].name)?)];
    places.extend(dimensions[1..].iter().map(|it| find(&it.name)));
    let mut seen = Seen::nothing(program);
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).map_err(fault)? {
        let line = row.position().map_or(0, csv::Position::line);
        let cell = |at: usize| row.get(at).unwrap_or_default();
        let bad = |text: &str| named(format!("line {line}: '{text}' is no number"));
        let number = |text: &str| text.parse::<i64>().map_err(|_| bad(text));
        let coordinates = places
            .iter()
            .zip(dimensions)
            .map(|(at, dimension)| match at {
                Some(at) => number(cell(*at)),
                // Slots move by their first coordinate: any of the others will do.
                None => Ok(dimension.first),
            });
        let coordinates: Vec<i64> = coordinates.collect::<Result<_, _>>()?;
        let slot = program
            .shape()
            .slot(&coordinates)
            .map_err(|_| named(format!("line {line}: {coordinates:?} is no slot")))?;
        let count = cell(count).parse().map_err(|_| bad(cell(count)))?;
        seen.load.add(slot, count, 0);
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frequent_is_never_forgotten() {
        let program = Program::parse(
            "rule r version 1; field id: i64; dimension d 0 to 1; else (0); place table \"t_{d}\";",
        )
        .unwrap();
        let mut seen = Seen::nothing(&program);
        let key = |number| (0, vec![(0, Literal::I64(number))]);
        for number in 0..50_000_i64 {
            seen.count(key(number), 1);
            if number % 10 == 0 {
                seen.count(key(-7), 5);
            }
        }
        assert!(seen.keys.len() <= KEYS_MAX);
        assert_eq!(seen.hottest_key(0).unwrap().0, &key(-7).1);
        assert_eq!(seen.hottest_key(1), None);
    }
}
