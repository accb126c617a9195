//! Records as a stream: CSV with a header, JSON lines, or row keys one a line.
//!
//! Nothing is held but one record. A file that is no record stops everything, with its line: a count over half a file
//! would be a lie.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cadastre_client::notation;
use cadastre_env::RealClock;
use cadastre_sharding::Program;
use cadastre_sharding::function::nodes;
use cadastre_sharding::record::{Reading, TimeUnit, text as record_text};
use cadastre_sharding::{Literal, Type, Value};
use clap::{Args, ValueEnum};
use serde_json::Value as Json;

use super::Stop;
use crate::commands::progress::Meter;

/// Longest line of JSON or keys: a record with every field at its longest, escaped.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A header with the fields' names, then records
    Csv,
    /// One object a line, with the fields' names
    Json,
    /// One row key a line in HBase's notation, read by the rule's key schema; behind a tab how many rows or accesses it stands for
    Keys,
}

/// What integers mean as times.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Unit {
    /// Since 1970
    Seconds,
    /// Since 1970, as Java and HBase count
    Millis,
    /// Since 1970
    Micros,
}

/// Where records come from; part of several commands.
#[derive(Debug, Clone, Args)]
pub(super) struct RecordsArgs {
    /// Records; `-` is standard input
    #[arg(value_name = "RECORDS")]
    pub(super) input: Option<PathBuf>,
    /// How they are written [default: by the file's name, else csv]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// What stands for null in CSV, beside an empty cell of any type but text
    #[arg(long, value_name = "TEXT", default_value = "\\N")]
    null: String,
    /// What integers mean where a time is expected
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<Unit>,
    /// Column that says how many rows or accesses a record stands for
    #[arg(long, value_name = "COLUMN")]
    count: Option<String>,
    /// Column that says how many bytes a record has
    #[arg(long, value_name = "COLUMN")]
    bytes: Option<String>,
}

/// A record: one value for each field of the rule.
#[derive(Debug, Clone)]
pub(super) struct Record {
    values: Vec<Option<Literal>>,
    /// The row key that it was read from, if it was.
    pub(super) key: Option<Vec<u8>>,
    /// How many rows or accesses it stands for.
    pub(super) count: u64,
    /// How many bytes it has.
    pub(super) bytes: u64,
}

impl Record {
    /// The values, as a program takes them.
    pub(super) fn fields(&self) -> Vec<Value<'_>> {
        self.values
            .iter()
            .map(|value| value.as_ref().map_or(Value::Null, Literal::value))
            .collect()
    }

    /// A record of values that stands for one row.
    pub(super) fn new(values: Vec<Option<Literal>>) -> Self {
        Self {
            values,
            key: None,
            count: 1,
            bytes: 0,
        }
    }
}

/// How texts are read for a rule: times without a zone are the rule's.
pub(super) fn reading(program: &Program, time_unit: TimeUnit) -> Result<Reading, Stop> {
    let zone = program.rule().load_zone();
    let zone = zone.map_err(|fault| Stop::refused(fault.to_string()))?;
    Ok(Reading { zone, time_unit })
}

/// Reads all records and calls `take` for each; progress is shown when a terminal is there.
pub(super) fn each(
    args: &RecordsArgs,
    program: &Program,
    mut take: impl FnMut(&Record) -> Result<(), Stop>,
) -> Result<u64, Stop> {
    let path = args.input.as_deref().unwrap_or(Path::new("-"));
    let fault = |error: std::io::Error| Stop::usage(format!("{}: {error}", path.display()));
    let done = Arc::new(AtomicU64::new(0));
    let (input, size): (Box<dyn Read>, Option<u64>) = if path == Path::new("-") {
        (Box::new(std::io::stdin()), None)
    } else {
        let file = File::open(path).map_err(fault)?;
        let size = file.metadata().map_err(fault)?.len();
        (Box::new(file), Some(size))
    };
    let input = BufReader::new(Counting {
        input,
        done: Arc::clone(&done),
    });
    let columns = Columns::new(args, program)?;
    let mut meter = Meter::new(RealClock, size.is_some(), 0.0);
    let mut rows = 0_u64;
    let mut take = |record: &Record| {
        rows += 1;
        meter.tell(rows, || {
            let size = size.filter(|size| *size > 0)?;
            Some(done.load(Ordering::Relaxed) as f64 / size as f64)
        });
        take(record)
    };
    let outcome = match args.format(path) {
        Format::Csv => csv_records(input, &columns, &mut take),
        Format::Json => lines(input, |line, text| {
            take(&columns.json(text).map_err(|fault| at_line(line, fault))?)
        }),
        Format::Keys => lines(input, |line, text| {
            take(&columns.key(text).map_err(|fault| at_line(line, fault))?)
        }),
    };
    meter.end();
    outcome.map_err(|stop| Stop {
        message: format!("{}: {}", path.display(), stop.message),
        ..stop
    })?;
    Ok(rows)
}

impl RecordsArgs {
    fn format(&self, path: &Path) -> Format {
        let by_name = match path.extension().and_then(|it| it.to_str()) {
            Some("json" | "jsonl" | "ndjson") => Format::Json,
            Some("keys") => Format::Keys,
            _ => Format::Csv,
        };
        self.format.unwrap_or(by_name)
    }

    pub(super) fn time_unit(&self) -> TimeUnit {
        match self.time_unit {
            None => TimeUnit::Refused,
            Some(Unit::Seconds) => TimeUnit::Seconds,
            Some(Unit::Millis) => TimeUnit::Millis,
            Some(Unit::Micros) => TimeUnit::Micros,
        }
    }
}

/// Counts the bytes that were read, for progress.
struct Counting {
    input: Box<dyn Read>,
    done: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn at_line(line: u64, fault: String) -> Stop {
    Stop::usage(format!("line {line}: {fault}"))
}

/// Calls `take` for each line that is not empty.
fn lines(
    mut input: impl BufRead,
    mut take: impl FnMut(u64, &str) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        let read = (&mut input)
            .take(LINE_BYTES_MAX)
            .read_line(&mut text)
            .map_err(|error| at_line(line, error.to_string()))?;
        if read == 0 {
            break;
        }
        if read as u64 == LINE_BYTES_MAX && !text.ends_with('\n') {
            return Err(at_line(line, format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.is_empty() {
            take(line, text)?;
        }
    }
    Ok(())
}

fn csv_records(
    input: impl Read,
    columns: &Columns<'_>,
    take: &mut impl FnMut(&Record) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(input);
    let fault = |error: csv::Error| Stop::usage(error.to_string());
    let header = reader.headers().map_err(fault)?.clone();
    let places = columns.places(&header)?;
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).map_err(fault)? {
        let line = row.position().map_or(0, csv::Position::line);
        let record = columns
            .csv(&places, &row)
            .map_err(|fault| at_line(line, fault))?;
        take(&record)?;
    }
    Ok(())
}

/// What of a record belongs where.
struct Columns<'a> {
    program: &'a Program,
    reading: Reading,
    null: &'a str,
    count: Option<&'a str>,
    bytes: Option<&'a str>,
    /// Fields that the rule looks at: these must be there.
    used: Vec<bool>,
}

/// Where in a row of CSV each field stands, and how often and how large it is.
struct Places {
    fields: Vec<Option<usize>>,
    count: Option<usize>,
    bytes: Option<usize>,
}

impl<'a> Columns<'a> {
    fn new(args: &'a RecordsArgs, program: &'a Program) -> Result<Self, Stop> {
        let mut used = vec![false; program.types().len()];
        for field in program.used_fields() {
            used[usize::from(*field)] = true;
        }
        Ok(Self {
            program,
            reading: reading(program, args.time_unit())?,
            null: &args.null,
            count: args.count.as_deref(),
            bytes: args.bytes.as_deref(),
            used,
        })
    }

    fn places(&self, header: &csv::StringRecord) -> Result<Places, Stop> {
        let find = |name: &str| header.iter().position(|it| it.trim() == name);
        let wanted = |name: &str| {
            find(name).ok_or_else(|| Stop::usage(format!("the header names no column '{name}'")))
        };
        let fields = self.program.rule().fields.iter().zip(&self.used);
        let fields = fields.map(|(field, used)| match find(&field.name) {
            None if *used => wanted(&field.name).map(Some),
            place => Ok(place),
        });
        Ok(Places {
            fields: fields.collect::<Result<_, _>>()?,
            count: self.count.map(wanted).transpose()?,
            bytes: self.bytes.map(wanted).transpose()?,
        })
    }

    fn csv(&self, places: &Places, row: &csv::StringRecord) -> Result<Record, String> {
        let cell = |at: Option<usize>| at.and_then(|at| row.get(at));
        let fields = places.fields.iter().zip(self.program.types());
        let values = fields.map(|(at, ty)| match cell(*at) {
            None => Ok(None),
            Some(text) if text == self.null => Ok(None),
            Some("") if !matches!(ty, Type::Str | Type::Bytes) => Ok(None),
            Some(text) => self.reading.value(*ty, text).map(Some),
        });
        let number = |at: Option<usize>, default| match cell(at) {
            Some(text) => text
                .parse::<u64>()
                .map_err(|_| format!("'{text}' is no count")),
            None => Ok(default),
        };
        Ok(Record {
            values: values.collect::<Result<_, _>>()?,
            key: None,
            count: number(places.count, 1)?,
            bytes: number(places.bytes, 0)?,
        })
    }

    fn json(&self, text: &str) -> Result<Record, String> {
        let object: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !object.is_object() {
            return Err("a line is no JSON object".to_owned());
        }
        let fields = self.program.rule().fields.iter().zip(&self.used);
        let values = fields.map(|(field, used)| match object.get(&field.name) {
            None if *used => Err(format!("there is no '{}'", field.name)),
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => self.reading.value(field.ty, text).map(Some),
            Some(other @ (Json::Number(_) | Json::Bool(_))) => {
                self.reading.value(field.ty, &other.to_string()).map(Some)
            }
            Some(_) => Err(format!("'{}' is no plain value", field.name)),
        });
        let number = |name: Option<&str>, default| match name {
            None => Ok(default),
            Some(name) => object
                .get(name)
                .and_then(Json::as_u64)
                .ok_or_else(|| format!("'{name}' is no count")),
        };
        Ok(Record {
            values: values.collect::<Result<_, _>>()?,
            key: None,
            count: number(self.count, 1)?,
            bytes: number(self.bytes, 0)?,
        })
    }

    fn key(&self, text: &str) -> Result<Record, String> {
        let schema = self
            .program
            .rule()
            .key
            .as_ref()
            .ok_or("the rule does not say how a row key holds its fields")?;
        // A key's own tab is `\x09` in this notation.
        let (text, count) = match text.split_once('\t') {
            Some((key, count)) => {
                let number = count.trim().parse::<u64>();
                (key, number.map_err(|_| format!("'{count}' is no count"))?)
            }
            None => (text, 1),
        };
        let key = notation::from_text(text).map_err(|error| error.message().to_owned())?;
        let mut values = vec![Value::Null; self.program.types().len()];
        schema
            .read(self.program.types(), &key, &mut values)
            .map_err(|error| error.to_string())?;
        Ok(Record {
            values: values.iter().map(Value::to_literal).collect(),
            bytes: count.saturating_mul(key.len() as u64),
            key: Some(key.to_vec()),
            count,
        })
    }
}

/// Calls `take` for each record that [`json_of`] wrote, one a line.
pub(super) fn each_json(
    program: &Program,
    input: impl BufRead,
    mut take: impl FnMut(&Record) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let columns = Columns {
        program,
        reading: reading(program, TimeUnit::Refused)?,
        null: "",
        count: None,
        bytes: None,
        used: vec![false; program.types().len()],
    };
    lines(input, |line, text| {
        take(&columns.json(text).map_err(|fault| at_line(line, fault))?)
    })
}

/// A record as a line of JSON.
pub(super) fn json_of(program: &Program, record: &Record) -> Json {
    let fields = program.rule().fields.iter().zip(&record.values);
    let text = |value: &Option<Literal>| value.as_ref().map(record_text);
    let members = fields.map(|(field, value)| (field.name.clone(), text(value).into()));
    Json::Object(members.collect())
}

/// Calls `take` for each of so many made-up records, with progress as [`each`] shows it.
pub(super) fn each_synthetic(
    program: &Program,
    number: u64,
    mut take: impl FnMut(&Record) -> Result<(), Stop>,
) -> Result<u64, Stop> {
    let mut meter = Meter::new(RealClock, true, 0.0);
    let mut outcome = Ok(number);
    for (record, done) in synthetic(program, number).zip(1_u64..) {
        meter.tell(done, || Some(done as f64 / number as f64));
        if let Err(stop) = take(&record) {
            outcome = Err(stop);
            break;
        }
    }
    meter.end();
    outcome
}

/// So many records that nobody has: integers and texts all over, times within a domain or the years 2000 to 2029.
pub(super) fn synthetic(program: &Program, number: u64) -> impl Iterator<Item = Record> + '_ {
    (0..number).map(move |at| {
        let fields = program.rule().fields.iter().zip(1_u64..);
        let values = fields.map(|(field, number)| {
            let random = nodes::mix(nodes::mix(at) ^ number);
            Some(made_up(field.ty, field.domain.as_ref(), at, random))
        });
        Record::new(values.collect())
    })
}

/// Users count up from 0; everything else is random.
fn made_up(
    ty: Type,
    domain: Option<&cadastre_sharding::rule::Domain>,
    at: u64,
    random: u64,
) -> Literal {
    const FROM_2000: i64 = 946_684_800;
    const THIRTY_YEARS: u64 = 30 * 365 * 86_400;
    let between = |low: i64, high: i64| {
        let span = u64::try_from(i128::from(high) - i128::from(low)).unwrap_or(u64::MAX);
        low.wrapping_add_unsigned(random % span.saturating_add(1).max(1))
    };
    match (ty, domain.map(|it| (&it.first, &it.last))) {
        (Type::I64, Some((Literal::I64(low), Literal::I64(high)))) => {
            Literal::I64(between(*low, *high))
        }
        (Type::U64, Some((Literal::U64(low), Literal::U64(high)))) => {
            Literal::U64(low + random % (high - low).saturating_add(1).max(1))
        }
        (Type::Date, Some((Literal::Date(low), Literal::Date(high)))) => {
            // Between two dates, so it fits.
            Literal::Date(between(i64::from(*low), i64::from(*high)) as i32)
        }
        (Type::Timestamp, Some((Literal::Timestamp(low), Literal::Timestamp(high)))) => {
            Literal::Timestamp(between(*low, *high))
        }
        (Type::Bool, _) => Literal::Bool(random & 1 == 1),
        (Type::I64, _) => Literal::I64((at & i64::MAX as u64) as i64),
        (Type::U64, _) => Literal::U64(at),
        (Type::Str, _) => Literal::Str(format!("user-{random:x}")),
        (Type::Bytes, _) => Literal::Bytes(random.to_be_bytes().to_vec()),
        (Type::Date, _) => Literal::Date((random % (THIRTY_YEARS / 86_400)) as i32 + 10_957),
        (Type::Timestamp, _) => {
            Literal::Timestamp((FROM_2000 + (random % THIRTY_YEARS) as i64) * 1_000_000)
        }
        (Type::Uuid, _) => {
            let both = u128::from(random) << 64 | u128::from(nodes::mix(random));
            Literal::Uuid(both.to_be_bytes())
        }
    }
}
