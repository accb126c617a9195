//! Rows out of a file: CSV or JSON lines into mutations, a batch at a time, with the place behind each batch. Bounded: a batch has so many
//! rows and bytes, a line so many bytes. It must not know who writes them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cadastre_client::{new_mutation, notation};
use cadastre_types::{Cell, Error, LATEST_TIMESTAMP, Mutation, MutationKind, Result};
use serde::{Deserialize, Serialize};

use super::super::arguments::{Column, full_column};
use super::super::output::usage;
use super::{Field, Format, JsonRow, check_fields, field, file_error};

/// Longest line (CSV: record), bytes: four cells of HBase's largest size, 10 MiB, with each byte written as `\xNN`, are 160 MiB; rows that
/// are wider go through the API.
const LINE_MAX: u64 = 160 << 20;

/// Bytes of a batch beyond which it takes no further row: a quarter of what one request may carry.
const BATCH_BYTES: usize = 1 << 20;

/// Read from the file at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// How far a file has been read or loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Bytes before it.
    pub(super) bytes: u64,
    /// Lines before it.
    pub(super) lines: u64,
    /// Rows before it.
    pub(super) rows: u64,
    /// Lines that hold a row key and no cell.
    pub(super) empty: u64,
    /// A CSV whose lines end with CR LF: its reader ends a record at the CR and counts the line with the LF, which comes with the next
    /// record.
    #[serde(default)]
    pub(super) late_line_ends: bool,
}

impl Position {
    /// The last line before it, from 1; 0 at the beginning.
    pub(super) fn line(&self) -> u64 {
        self.lines + u64::from(self.late_line_ends)
    }

    /// Moves behind a record that was just read; gives the number of the line on which it begins.
    fn pass(&mut self, base: &Self, record: &csv::ByteRecord, at: &csv::Position) -> u64 {
        let inside = record.as_slice().iter().filter(|byte| **byte == b'\n');
        let inside = inside.count() as u64;
        let began = record.position().map_or(1, csv::Position::line);
        if at.line() - began == inside {
            // Its end was not counted: CR LF, or the end of the file.
            self.late_line_ends = true;
        }
        self.bytes = base.bytes + at.byte();
        self.lines = base.lines + at.line() - 1;
        // Blank lines before it were passed over, so its place is told from its end.
        (self.line()).saturating_sub(inside)
    }
}

/// How fields become cells.
#[derive(Debug, Clone)]
pub(super) struct Meaning {
    /// Of a CSV; with JSON lines none.
    pub(super) fields: Vec<Field>,
    /// A cell that is not there.
    pub(super) null: String,
    /// Of cells that do not say their own.
    pub(super) timestamp: i64,
    /// Fields are bytes as they stand, not in HBase's notation.
    pub(super) plain: bool,
}

/// Some rows in the file's order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Each with the number of its line, from 1.
    pub(super) rows: Vec<(u64, Mutation)>,
    /// Behind the last of them.
    pub(super) end: Position,
    /// The file ends here.
    pub(super) is_last: bool,
    /// What is wrong with the line behind these rows; nothing can be read then.
    pub(super) error: Option<Error>,
}

/// A file that is read.
pub(super) struct Input {
    lines: Lines,
    meaning: Meaning,
    batch_rows: usize,
    position: Position,
}

enum Lines {
    Csv {
        reader: Box<csv::Reader<Bounded>>,
        /// Room in the current record.
        left: Arc<AtomicU64>,
        /// Where the reader began.
        base: Position,
        record: csv::ByteRecord,
    },
    Json {
        reader: Box<dyn BufRead + Send>,
        line: Vec<u8>,
    },
}

/// Ends a record that has no end: an open quote would take the rest of the file for one field.
struct Bounded {
    inner: Box<dyn Read + Send>,
    left: Arc<AtomicU64>,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        let left = self.left.load(Ordering::Relaxed);
        if read as u64 > left {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("longer than {LINE_MAX} bytes; is a quote not closed?"),
            ));
        }
        self.left.store(left - read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Opens a file at a position, `-` for standard input, which has only one.
pub(super) fn open(path: &Path, from: &Position) -> Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let open = || -> io::Result<Option<File>> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() && file.metadata()?.len() < from.bytes {
            return Ok(None);
        }
        if from.bytes > 0 {
            file.seek(SeekFrom::Start(from.bytes))?;
        }
        Ok(Some(file))
    };
    match open() {
        Ok(Some(file)) => Ok(Box::new(file)),
        Ok(None) => Err(usage(format!(
            "{} is shorter than what was already loaded of it, {} bytes: it was changed since",
            path.display(),
            from.bytes
        ))),
        Err(error) => Err(file_error("opening", path, &error)),
    }
}

/// The columns in a CSV's first line, and the position behind it.
pub(super) fn header(reader: Box<dyn Read + Send>) -> Result<(Vec<Field>, Position)> {
    let mut input = Input::new(
        Format::Csv,
        reader,
        Meaning {
            fields: Vec::new(),
            null: String::new(),
            timestamp: 0,
            plain: false,
        },
        1,
        Position::default(),
    );
    let Lines::Csv { reader, record, .. } = &mut input.lines else {
        return Err(usage("not a CSV"));
    };
    let found = reader
        .read_byte_record(record)
        .map_err(|error| usage(format!("line 1: {error}")))?;
    if !found {
        return Err(usage(
            "the file is empty: it has not even a line of columns",
        ));
    }
    let fields = record
        .iter()
        .map(|text| {
            let text = std::str::from_utf8(text).map_err(|_| usage("line 1 is not UTF-8"))?;
            field(text).map_err(|why| {
                usage(format!(
                    "line 1 must name the columns, as row,f:a,f:b: {why}. If it is a row already, name them with --columns"
                ))
            })
        })
        .collect::<Result<Vec<Field>>>()?;
    check_fields(&fields).map_err(|error| error.context("line 1"))?;
    let mut position = Position::default();
    position.pass(&Position::default(), record, reader.position());
    Ok((fields, position))
}

impl Input {
    /// Reads on behind a position, at which the reader stands.
    pub(super) fn new(
        format: Format,
        reader: Box<dyn Read + Send>,
        meaning: Meaning,
        batch_rows: usize,
        position: Position,
    ) -> Self {
        let lines = match format {
            Format::Csv => {
                let left = Arc::new(AtomicU64::new(LINE_MAX));
                let bounded = Bounded {
                    inner: reader,
                    left: Arc::clone(&left),
                };
                let reader = csv::ReaderBuilder::new()
                    .has_headers(false)
                    // Our own check says more.
                    .flexible(true)
                    .buffer_capacity(BUFFER_BYTES)
                    .from_reader(bounded);
                Lines::Csv {
                    reader: Box::new(reader),
                    left,
                    base: position.clone(),
                    record: csv::ByteRecord::new(),
                }
            }
            Format::Jsonl => Lines::Json {
                reader: Box::new(BufReader::with_capacity(BUFFER_BYTES, reader)),
                line: Vec::new(),
            },
        };
        Self {
            lines,
            meaning,
            batch_rows,
            position,
        }
    }

    /// The next rows. Blocks; behind the end or an error it must not be called again.
    pub(super) fn next_batch(&mut self) -> Batch {
        let mut batch = Batch::default();
        let mut bytes = 0;
        while batch.rows.len() < self.batch_rows && bytes < BATCH_BYTES {
            match self.next_row() {
                Ok(Some((line, cells))) => {
                    if let Some(mutation) = put(cells) {
                        bytes += weight(&mutation);
                        batch.rows.push((line, mutation));
                        self.position.rows += 1;
                    } else {
                        self.position.empty += 1;
                    }
                }
                Ok(None) => {
                    batch.is_last = true;
                    break;
                }
                Err(error) => {
                    batch.error = Some(error);
                    break;
                }
            }
        }
        // A line that is wrong has not moved it.
        batch.end = self.position.clone();
        batch
    }

    /// The next line that is not blank: its number and its cells.
    fn next_row(&mut self) -> Result<Option<(u64, Vec<Cell>)>> {
        match &mut self.lines {
            Lines::Csv {
                reader,
                left,
                base,
                record,
            } => {
                left.store(LINE_MAX, Ordering::Relaxed);
                let found = reader.read_byte_record(record).map_err(|error| {
                    let line = base.lines + reader.position().line();
                    usage(format!("line {line}: {}", csv_text(&error)))
                })?;
                if !found {
                    return Ok(None);
                }
                let mut behind = self.position.clone();
                let line = behind.pass(base, record, reader.position());
                let cells = of_record(record, &self.meaning)
                    .map_err(|error| error.context(format_args!("line {line}")))?;
                self.position = behind;
                Ok(Some((line, cells)))
            }
            Lines::Json { reader, line } => loop {
                line.clear();
                let number = self.position.lines + 1;
                let failed = |why: String| usage(format!("line {number}: {why}"));
                let read = (&mut *reader)
                    .take(LINE_MAX + 1)
                    .read_until(b'\n', line)
                    .map_err(|error| failed(error.to_string()))?;
                if read == 0 {
                    return Ok(None);
                }
                if read as u64 > LINE_MAX {
                    return Err(failed(format!("longer than {LINE_MAX} bytes")));
                }
                if line.trim_ascii().is_empty() {
                    self.position.bytes += read as u64;
                    self.position.lines += 1;
                    continue;
                }
                let cells = of_json(line, &self.meaning)
                    .map_err(|error| error.context(format_args!("line {number}")))?;
                self.position.bytes += read as u64;
                self.position.lines += 1;
                return Ok(Some((number, cells)));
            },
        }
    }
}

fn csv_text(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    }
}

fn put(cells: Vec<Cell>) -> Option<Mutation> {
    let row = cells.first()?.row.clone();
    Some(Mutation {
        cells,
        ..new_mutation(MutationKind::Put, row)
    })
}

fn weight(mutation: &Mutation) -> usize {
    mutation.cells.iter().map(Cell::key_value_len).sum()
}

/// The cells of one record of a CSV.
fn of_record(record: &csv::ByteRecord, meaning: &Meaning) -> Result<Vec<Cell>> {
    let fields = &meaning.fields;
    if record.len() != fields.len() {
        return Err(usage(format!(
            "{} fields, but {} columns: {}",
            record.len(),
            fields.len(),
            fields.iter().map(Field::text).collect::<Vec<_>>().join(",")
        )));
    }
    let bytes = |text: &[u8]| {
        if meaning.plain {
            Ok(Bytes::copy_from_slice(text))
        } else {
            notation::from_bytes(text)
        }
    };
    let mut row = Bytes::new();
    for (field, text) in fields.iter().zip(record) {
        if *field == Field::Row {
            row = bytes(text)?;
        }
    }
    if row.is_empty() {
        return Err(usage("the row key is empty"));
    }
    let mut cells = Vec::new();
    for (field, text) in fields.iter().zip(record) {
        let Field::Column(Column {
            family,
            qualifier: Some(qualifier),
        }) = field
        else {
            continue;
        };
        if text == meaning.null.as_bytes() {
            continue;
        }
        let value = bytes(text).map_err(|error| error.context(field.text()))?;
        cells.push(Cell::put(
            row.clone(),
            family.clone(),
            qualifier.clone(),
            meaning.timestamp,
            value,
        ));
    }
    Ok(cells)
}

/// The cells of one line of JSON.
fn of_json(line: &[u8], meaning: &Meaning) -> Result<Vec<Cell>> {
    let row: JsonRow = serde_json::from_slice(line).map_err(|error| {
        usage(format!(
            "{error}; a line is {{\"row\":\"r\",\"cells\":[{{\"column\":\"f:q\",\"value\":\"v\"}}]}}"
        ))
    })?;
    let key = notation::from_text(&row.row)?;
    if key.is_empty() {
        return Err(usage("the row key is empty"));
    }
    row.cells
        .into_iter()
        .map(|cell| {
            let (family, qualifier) = full_column(&cell.column)?;
            let timestamp = match cell.timestamp {
                Some(timestamp) if (0..LATEST_TIMESTAMP).contains(&timestamp) => timestamp,
                Some(timestamp) => {
                    return Err(usage(format!("{timestamp} is no timestamp")));
                }
                None => meaning.timestamp,
            };
            let value =
                notation::from_text(&cell.value).map_err(|error| error.context(&cell.column))?;
            Ok(Cell::put(key.clone(), family, qualifier, timestamp, value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::NULL;
    use super::*;

    fn meaning(columns: &str) -> Meaning {
        Meaning {
            fields: columns
                .split(',')
                .map(|text| field(text).unwrap())
                .collect(),
            null: NULL.to_owned(),
            timestamp: LATEST_TIMESTAMP,
            plain: false,
        }
    }

    fn input(format: Format, columns: &str, text: &str, from: &Position, rows: usize) -> Input {
        let rest = text.as_bytes()[from.bytes as usize..].to_vec();
        let reader = Box::new(io::Cursor::new(rest));
        Input::new(format, reader, meaning(columns), rows, from.clone())
    }

    fn texts(batch: &Batch) -> Vec<String> {
        let cell = |cell: &Cell| {
            let (row, value) = (notation::to_text(&cell.row), notation::to_text(&cell.value));
            format!("{row} {} {value}", notation::to_text(&cell.qualifier))
        };
        batch
            .rows
            .iter()
            .flat_map(|(line, row)| {
                row.cells
                    .iter()
                    .map(move |one| format!("{line}: {}", cell(one)))
            })
            .collect()
    }

    const CSV: &str = "a,1,\\N\n\n\"b,\"\"\",\\x00\\\\,\n c,\\N,\\N\nd,\u{e9},x";

    #[test]
    fn a_csv_becomes_cells() {
        let mut input = input(Format::Csv, "row,f:x,f:y", CSV, &Position::default(), 100);
        let batch = input.next_batch();
        assert_eq!(
            texts(&batch),
            [
                "1: a x 1",
                "3: b,\" x \\x00\\x5C",
                "3: b,\" y ",
                "5: d x \\xC3\\xA9",
                "5: d y x"
            ]
        );
        assert!(batch.is_last && batch.error.is_none());
        assert_eq!((batch.end.rows, batch.end.empty), (3, 1));
        assert_eq!(batch.end.bytes, CSV.len() as u64);
    }

    #[test]
    fn lines_of_json_become_cells() {
        let text = "{\"row\":\"a\\\\x00\",\"cells\":[{\"column\":\"f:q:r\",\"timestamp\":7,\"value\":\"v\"}]}\n\n{\"row\":\"b\",\"cells\":[{\"column\":\"f:\",\"value\":\"\"}]}";
        let mut input = input(Format::Jsonl, "row", text, &Position::default(), 100);
        let batch = input.next_batch();
        assert_eq!(texts(&batch), ["1: a\\x00 q:r v", "3: b  "]);
        let stamps: Vec<i64> = batch
            .rows
            .iter()
            .map(|(_, row)| row.cells[0].timestamp)
            .collect();
        assert_eq!(stamps, [7, LATEST_TIMESTAMP]);
        assert_eq!((batch.end.bytes, batch.end.lines), (text.len() as u64, 3));
    }

    #[test]
    fn what_is_wrong_names_its_line_and_keeps_what_came_before() {
        for (format, text, said) in [
            (
                Format::Csv,
                "a,1\nb,2\nc\n",
                "line 3: 1 fields, but 2 columns: row,f:x",
            ),
            (
                Format::Csv,
                "a,1\nb,2\nc,\\q\n",
                "line 3: f:x: '\\q' has a backslash",
            ),
            (
                Format::Csv,
                "a,1\nb,2\n,3\n",
                "line 3: the row key is empty",
            ),
            (Format::Jsonl, "", ""),
        ] {
            let mut input = input(format, "row,f:x", text, &Position::default(), 100);
            let batch = input.next_batch();
            match batch.error {
                Some(error) => {
                    assert!(error.message().contains(said), "{error} / {said}");
                    assert_eq!(
                        (batch.rows.len(), batch.end.bytes, batch.end.lines),
                        (2, 8, 2)
                    );
                }
                None => assert_eq!(text, ""),
            }
        }
        let good = "{\"row\":\"a\",\"cells\":[]}\n";
        for bad in [
            "{",
            "{\"row\":\"\",\"cells\":[]}",
            "{\"row\":\"a\",\"cells\":[{\"column\":\"f\",\"value\":\"\"}]}",
            "{\"row\":\"a\",\"cells\":[{\"column\":\"f:q\",\"value\":\"\\\\q\"}]}",
            "{\"row\":\"a\",\"cells\":[{\"column\":\"f:q\",\"value\":\"\",\"timestamp\":-1}]}",
            "{\"row\":\"a\",\"cells\":[],\"more\":1}",
        ] {
            let text = format!("{good}{bad}\n");
            let mut input = input(Format::Jsonl, "row", &text, &Position::default(), 100);
            let batch = input.next_batch();
            let error = batch.error.unwrap();
            assert!(error.message().starts_with("line 2: "), "{error}");
            assert_eq!(batch.end.bytes, good.len() as u64);
        }
    }

    #[test]
    fn lines_are_counted_whatever_ends_them() {
        for end in ["\n", "\r\n"] {
            let text = ["a,1", "\"b\n\",2", "c,3", "bad", "d,4", ""].join(end);
            // The second record takes two lines.
            for batch_rows in [1, 2, 100] {
                let mut position = Position::default();
                let error = loop {
                    let mut next = input(Format::Csv, "row,f:x", &text, &position, batch_rows);
                    let batch = next.next_batch();
                    position = batch.end.clone();
                    if let Some(error) = batch.error {
                        break error;
                    }
                };
                assert!(error.message().starts_with("line 5: "), "{error} {end:?}");
                assert_eq!(
                    (position.line(), position.rows),
                    (4, 3),
                    "{end:?} {batch_rows}"
                );
            }
        }
    }

    #[test]
    fn a_record_without_an_end_does_not_fill_the_memory() {
        struct Endless(bool);
        impl Read for Endless {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                into.fill(b'x');
                if std::mem::take(&mut self.0) {
                    into[0] = b'"';
                }
                Ok(into.len())
            }
        }
        for format in [Format::Csv, Format::Jsonl] {
            let reader = Box::new(Endless(true));
            let mut input = Input::new(format, reader, meaning("row,f:x"), 10, Position::default());
            let error = input.next_batch().error.unwrap();
            assert!(error.message().contains("longer than"), "{error}");
        }
    }

    #[test]
    fn a_first_line_names_the_columns() {
        let read = |text: &'static str| header(Box::new(io::Cursor::new(text)));
        let (fields, position) = read("row,-,f:a\nx,,1\n").unwrap();
        assert_eq!(fields.len(), 3);
        assert_eq!((position.bytes, position.lines), (10, 1));
        assert!(read("").is_err());
        let error = read("x,1\n").unwrap_err();
        assert!(error.message().contains("row key `row` once"), "{error}");
        let error = read("row,:b\n").unwrap_err();
        assert!(error.message().contains("--columns"), "{error}");
    }

    proptest! {
        /// Wherever it is broken off between two batches, what follows is read the same: no row missing, none twice.
        #[test]
        fn reading_goes_on_at_every_position(
            rows in proptest::collection::vec(("[a-c\",\\n ]{1,4}", "[x\",\\\\ ]{0,3}"), 1..12),
            blank in 0_usize..12,
            batch_rows in 1_usize..4,
            csv in any::<bool>(),
        ) {
            let mut text = Vec::new();
            let format = if csv { Format::Csv } else { Format::Jsonl };
            for (at, (row, value)) in rows.iter().enumerate() {
                let (row, value) = (notation::to_text(row.as_bytes()), notation::to_text(value.as_bytes()));
                if csv {
                    let mut writer = csv::Writer::from_writer(&mut text);
                    writer.write_record([row, value]).unwrap();
                    writer.flush().unwrap();
                } else {
                    let cell = super::super::JsonCell { column: "f:x".to_owned(), timestamp: None, value };
                    serde_json::to_writer(&mut text, &JsonRow { row, cells: vec![cell] }).unwrap();
                    text.push(b'\n');
                }
                if at == blank {
                    text.push(b'\n');
                }
            }
            let text = String::from_utf8(text).unwrap();
            let mut whole = input(format, "row,f:x", &text, &Position::default(), 1000);
            let whole = whole.next_batch();
            prop_assert!(whole.error.is_none(), "{:?}", whole.error);
            prop_assert_eq!(whole.rows.len(), rows.len());
            let (mut position, mut seen) = (Position::default(), Vec::new());
            loop {
                let mut next = input(format, "row,f:x", &text, &position, batch_rows);
                let batch = next.next_batch();
                seen.extend(texts(&batch));
                position = batch.end.clone();
                if batch.is_last {
                    break;
                }
            }
            prop_assert_eq!(seen, texts(&whole));
            prop_assert_eq!(position, whole.end);
        }
    }
}
