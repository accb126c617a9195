//! `cadastre dump`: a table, or a range of it, into a file or to standard output.
//!
//! Rows are written as they come, one answer of the scan held and one on its way. Into a file: every so many rows, and every second, what
//! is written is made durable and its length and last row go into the state file. A dump that was broken off is cut back to that length and
//! goes on behind that row, so no row is missing and none stands there twice. Each row is whole; the rows of a dump are not of one moment.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cadastre_client::{Client, Scanner, notation};
use cadastre_env::{Clock, Env};
use cadastre_types::{Cell, Code, Error, Result, Scan};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::arguments::{Column, QueryArgs};
use super::super::exit;
use super::super::output::{Output, counted, rate, usage};
use super::super::progress::Meter;
use super::super::scan::RangeArgs;
use super::state::{StateFile, WRITTEN_EVERY};
use super::{Field, Format, JsonRow, NULL, check_fields, field, file_error, told};

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Fields of the CSV in order, `row` for the row key; with JSON lines the families and columns wanted, all without any
    #[arg(long, value_name = "row,FAMILY:QUALIFIER,…", value_delimiter = ',', value_parser = field)]
    columns: Vec<Field>,
    /// File to write; standard output without it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format, if the file's name does not say it [default: jsonl on standard output]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Go on behind the last row of a dump that was broken off
    #[arg(long, requires = "output")]
    resume: bool,
    /// Overwrite the file
    #[arg(long, requires = "output", conflicts_with = "resume")]
    force: bool,
    /// CSV without a first line that names the columns
    #[arg(long)]
    no_header: bool,
    /// What stands in a CSV for a cell that is not there
    #[arg(long, value_name = "TEXT", default_value = NULL)]
    null: String,
    /// Rows after which the state is written; it is at least every second
    #[arg(long, value_name = "ROWS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint: u64,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    pub(in super::super) range: RangeArgs,
}

/// How far the file is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Last row, in HBase's notation.
    last_row: Option<String>,
    /// Length of the file behind it, bytes.
    bytes: u64,
    rows: u64,
}

/// Writes rows and counts bytes.
struct RowWriter<W: Write> {
    out: Layout<Counted<W>>,
    fields: Vec<Field>,
    null: String,
}

enum Layout<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Lines(W),
}

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> RowWriter<W> {
    fn new(format: Format, fields: Vec<Field>, null: String, out: W, bytes: u64) -> Self {
        let out = Counted { out, bytes };
        Self {
            out: match format {
                Format::Csv => Layout::Csv(Box::new(csv::Writer::from_writer(out))),
                Format::Jsonl => Layout::Lines(out),
            },
            fields,
            null,
        }
    }

    fn header(&mut self) -> io::Result<()> {
        match &mut self.out {
            Layout::Csv(csv) => Ok(csv.write_record(self.fields.iter().map(Field::text))?),
            Layout::Lines(_) => Ok(()),
        }
    }

    fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        match &mut self.out {
            Layout::Lines(out) => {
                if let Some(row) = JsonRow::of(cells) {
                    serde_json::to_writer(&mut *out, &row)?;
                    out.write_all(b"\n")?;
                }
                Ok(())
            }
            Layout::Csv(csv) => {
                for field in &self.fields {
                    let text = match field {
                        Field::Row => cells.first().map(|cell| notation::to_text(&cell.row)),
                        Field::Skipped => None,
                        Field::Column(column) => value(cells, column),
                    };
                    csv.write_field(text.as_deref().unwrap_or(&self.null))?;
                }
                Ok(csv.write_record(None::<&[u8]>)?)
            }
        }
    }

    /// Hands everything on; gives the bytes written since the file's beginning.
    fn flush(&mut self) -> io::Result<u64> {
        match &mut self.out {
            Layout::Csv(csv) => {
                csv.flush()?;
                Ok(csv.get_ref().bytes)
            }
            Layout::Lines(out) => {
                out.flush()?;
                Ok(out.bytes)
            }
        }
    }
}

/// The newest value of a column.
fn value(cells: &[Cell], column: &Column) -> Option<String> {
    cells
        .iter()
        .find(|cell| {
            cell.family == column.family && Some(&cell.qualifier) == column.qualifier.as_ref()
        })
        .map(|cell| notation::to_text(&cell.value))
}

/// Standard output as the commands see it.
struct ToOutput<'a, 'b>(&'a mut Output<'b>);

impl Write for ToOutput<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.raw(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Handed over when the command ends, as all output is.
        Ok(())
    }
}

/// What is dumped, worked out from the arguments.
struct Plan {
    format: Format,
    fields: Vec<Field>,
    scan: Scan,
    header: bool,
    null: String,
    checkpoint: u64,
    range: RangeArgs,
}

impl Plan {
    fn new(args: DumpArgs) -> Result<Self> {
        let format = Format::of(args.format, args.output.as_deref())?;
        let mut fields = args.columns;
        if format == Format::Csv {
            if !fields.contains(&Field::Row) {
                fields.insert(0, Field::Row);
            }
            if fields.len() == 1 {
                return Err(usage(
                    "a CSV needs its columns: give --columns row,f:a,f:b (or --format jsonl)",
                ));
            }
            check_fields(&fields)?;
            if args.query.versions() > 1 {
                return Err(usage(
                    "a CSV has one value for each column: --versions needs --format jsonl",
                ));
            }
        }
        let columns: Vec<Column> = fields
            .iter()
            .filter_map(|field| match field {
                Field::Column(column) => Some(column.clone()),
                Field::Row | Field::Skipped => None,
            })
            .collect();
        let mut scan = Scan {
            query: args.query.query(&columns),
            ..args.range.scan(false)?
        };
        // Everything is read once: what others need stays in the server's cache.
        scan.query.cache_blocks = false;
        Ok(Self {
            format,
            fields,
            scan,
            header: format == Format::Csv && !args.no_header,
            null: args.null,
            checkpoint: args.checkpoint,
            range: args.range,
        })
    }

    /// What a resumed dump must agree in.
    fn request(&self) -> Value {
        let time = self.scan.query.time_range;
        json!({
            "dump": self.range.table().as_str(),
            "format": self.format,
            "columns": self.fields.iter().map(Field::text).collect::<Vec<_>>(),
            "start": notation::to_text(&self.scan.start_row),
            "stop": notation::to_text(&self.scan.stop_row),
            "versions": self.scan.query.max_versions,
            "time_range": [time.from, time.to],
            "header": self.header,
            "null": self.null,
        })
    }

    fn scanner<E: Env>(&self, client: &Client<E>, position: &Position) -> Result<Scanner<E>> {
        let mut scan = self.scan.clone();
        if let Some(row) = &position.last_row {
            scan.start_row = notation::from_text(row)?;
            scan.include_start_row = false;
        }
        client.scan(self.range.table(), scan)
    }

    fn writer<W: Write>(&self, out: W, bytes: u64) -> RowWriter<W> {
        RowWriter::new(
            self.format,
            self.fields.clone(),
            self.null.clone(),
            out,
            bytes,
        )
    }
}

pub(in super::super) async fn dump<E: Env>(
    client: &Client<E>,
    args: DumpArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let (resume, force) = (args.resume, args.force);
    let file = args.output.clone();
    let plan = Plan::new(args)?;
    // A table that is not there is told before a file is made.
    client.admin().describe_table(plan.range.table()).await?;
    let Some(path) = file else {
        return to_output(client, &plan, output).await;
    };
    let state = StateFile::beside(&path, "dump", plan.request());
    let (file, position) = open(&path, &state, resume, force)?;
    let resumed_at = position.rows;
    let mut saver = Saver {
        sync: file
            .try_clone()
            .map_err(|error| file_error("opening", &path, &error))?,
        path: &path,
        state: &state,
        clock: client.env().clock().clone(),
        at: client.env().clock().mono(),
        position,
        since: 0,
    };
    let mut writer = plan.writer(BufWriter::new(file), saver.position.bytes);
    let seconds = to_file(client, &plan, &mut writer, &mut saver).await?;
    state.remove()?;
    let rows = saver.position.rows;
    let mut told = rate(rows - resumed_at, seconds);
    if resumed_at > 0 {
        told.push_str(&format!(", resumed behind {}", counted(resumed_at, "row")));
    }
    output.answer(
        format_args!(
            "dumped {} to {}: {told}",
            plan.range.table(),
            path.display()
        ),
        || {
            json!({
                "table": plan.range.table().as_str(),
                "done": "dumped",
                "rows": rows - resumed_at,
                "rows_in_all": rows,
                "resumed_behind": resumed_at,
                "bytes": saver.position.bytes,
                "seconds": (seconds * 1000.0).round() / 1000.0,
            })
        },
    );
    Ok(exit::DONE)
}

/// Writes all rows behind the position; gives the seconds it took. Whatever ends it, the state says how far it came.
async fn to_file<E: Env, W: Write>(
    client: &Client<E>,
    plan: &Plan,
    writer: &mut RowWriter<W>,
    saver: &mut Saver<'_, E::Clock>,
) -> Result<f64> {
    let path = saver.path;
    let failed = |error: io::Error| file_error("writing", path, &error);
    if plan.header && saver.position.bytes == 0 {
        writer.header().map_err(failed)?;
    }
    // From now on there is something to go on with.
    saver.save(writer)?;
    let mut pass = Pass::begin(client, plan, &saver.position).await?;
    loop {
        match pass.next().await {
            Ok(Some(row)) => {
                writer.row(&row.cells).map_err(failed)?;
                saver.passed(&row.cells);
                if saver.is_due(plan.checkpoint) {
                    saver.save(writer)?;
                }
            }
            Ok(None) => {
                saver.save(writer)?;
                return Ok(pass.meter.end());
            }
            Err(error) => {
                saver.save(writer)?;
                let rows = counted(saver.position.rows, "row");
                return Err(told(
                    &error,
                    &format!("{rows} are written; go on with --resume"),
                ));
            }
        }
    }
}

async fn to_output<E: Env>(client: &Client<E>, plan: &Plan, output: &mut Output<'_>) -> Result<u8> {
    let mut pass = Pass::begin(client, plan, &Position::default()).await?;
    let mut writer = plan.writer(ToOutput(output), 0);
    if plan.header && writer.header().is_err() {
        // Nobody reads it any more; the output keeps the error for its end.
        return Ok(exit::DONE);
    }
    while let Some(row) = pass.next().await? {
        if writer.row(&row.cells).is_err() {
            pass.scanner.close().await;
            return Ok(exit::DONE);
        }
    }
    let done = writer.flush();
    pass.meter.end();
    done.map_or(Ok(exit::DONE), |_| Ok(exit::DONE))
}

/// A scan with its progress.
struct Pass<E: Env> {
    scanner: Scanner<E>,
    meter: Meter<E::Clock>,
    track: Option<super::super::progress::Track>,
    rows: u64,
}

impl<E: Env> Pass<E> {
    async fn begin(client: &Client<E>, plan: &Plan, position: &Position) -> Result<Self> {
        let track = if Meter::<E::Clock>::is_seen() {
            Some(plan.range.track(client).await?)
        } else {
            None
        };
        let scanner = plan.scanner(client, position)?;
        let before = match (&track, &position.last_row) {
            (Some(track), Some(row)) => track.share(&notation::from_text(row)?),
            _ => 0.0,
        };
        Ok(Self {
            scanner,
            meter: Meter::new(client.env().clock().clone(), track.is_some(), before),
            track,
            rows: 0,
        })
    }

    async fn next(&mut self) -> Result<Option<cadastre_client::Row>> {
        let row = self.scanner.next().await?;
        if let Some(row) = &row {
            self.rows += 1;
            let track = self.track.as_ref();
            self.meter
                .tell(self.rows, || Some(track?.share(row.key()?)));
        }
        Ok(row)
    }
}

/// Keeps the state file up.
struct Saver<'a, C: Clock> {
    path: &'a Path,
    sync: File,
    state: &'a StateFile,
    position: Position,
    clock: C,
    since: u64,
    at: Duration,
}

impl<C: Clock> Saver<'_, C> {
    fn passed(&mut self, cells: &[Cell]) {
        let key = cells.first().map(|cell| notation::to_text(&cell.row));
        self.position.last_row = key;
        self.position.rows += 1;
        self.since += 1;
    }

    fn is_due(&self, checkpoint: u64) -> bool {
        self.since >= checkpoint || self.clock.mono().saturating_sub(self.at) >= WRITTEN_EVERY
    }

    /// First the rows, then that they are there.
    fn save<W: Write>(&mut self, writer: &mut RowWriter<W>) -> Result<()> {
        let durable = |sync: &File, writer: &mut RowWriter<W>| -> io::Result<u64> {
            let bytes = writer.flush()?;
            sync.sync_data()?;
            Ok(bytes)
        };
        self.position.bytes = durable(&self.sync, writer)
            .map_err(|error| file_error("writing", self.path, &error))?;
        self.since = 0;
        self.at = self.clock.mono();
        self.state.write(&self.position)
    }
}

/// Opens the file where it is to be gone on with.
fn open(path: &Path, state: &StateFile, resume: bool, force: bool) -> Result<(File, Position)> {
    if !resume {
        let mut options = OpenOptions::new();
        options.write(true);
        if force {
            state.remove()?;
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        return match options.open(path) {
            Ok(file) => Ok((file, Position::default())),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(usage(format!(
                "{} is there already: --resume goes on with a dump that was broken off, --force overwrites it",
                path.display()
            ))),
            Err(error) => Err(file_error("opening", path, &error)),
        };
    }
    let position: Position = state.read()?.ok_or_else(|| {
        usage(format!(
            "there is no {}: the dump was not broken off, or never begun",
            state.path().display()
        ))
    })?;
    let cut = || -> io::Result<Option<File>> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        if file.metadata()?.len() < position.bytes {
            return Ok(None);
        }
        // What was written behind the last state may end in the middle of a row.
        file.set_len(position.bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Some(file))
    };
    match cut() {
        Ok(Some(file)) => Ok((file, position)),
        Ok(None) => Err(Error::new(
            Code::DoNotRetryIo,
            format!(
                "{} is shorter than its state says, {} bytes: it was changed since; begin anew with --force",
                path.display(),
                position.bytes
            ),
        )),
        Err(error) => Err(file_error("opening", path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn cell(row: &'static str, qualifier: &'static str, value: &'static [u8]) -> Cell {
        let b = Bytes::from_static;
        Cell::put(
            b(row.as_bytes()),
            b(b"f"),
            b(qualifier.as_bytes()),
            7,
            b(value),
        )
    }

    fn written(format: Format, list: &str, rows: &[Vec<Cell>]) -> String {
        let fields = list.split(',').map(|text| field(text).unwrap()).collect();
        let mut bytes = Vec::new();
        let mut writer = RowWriter::new(format, fields, NULL.to_owned(), &mut bytes, 0);
        writer.header().unwrap();
        for row in rows {
            writer.row(row).unwrap();
        }
        let counted = writer.flush().unwrap();
        drop(writer);
        assert_eq!(counted, bytes.len() as u64);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn rows_are_written_in_both_formats() {
        let rows = [
            vec![cell("a,\"", "x", b"1\n2"), cell("a,\"", "y", b"")],
            vec![cell("b\0", "y", b"\xff\\N")],
        ];
        assert_eq!(
            written(Format::Csv, "row,f:y,-,f:x", &rows),
            "row,f:y,-,f:x\n\"a,\"\"\",,\\N,1\\x0A2\nb\\x00,\\xFF\\x5CN,\\N,\\N\n"
        );
        assert_eq!(
            written(Format::Jsonl, "row", &rows[1..]),
            "{\"row\":\"b\\\\x00\",\"cells\":[{\"column\":\"f:y\",\"timestamp\":7,\"value\":\"\\\\xFF\\\\x5CN\"}]}\n"
        );
    }

    #[test]
    fn a_file_is_never_overwritten_by_mistake_and_cut_where_it_was_durable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let state = StateFile::beside(&path, "dump", json!({}));
        assert!(
            open(&path, &state, true, false).is_err(),
            "nothing to resume"
        );
        open(&path, &state, false, false).unwrap();
        assert!(open(&path, &state, false, false).is_err());
        std::fs::write(&path, "0123456789").unwrap();
        let position = Position {
            last_row: Some("r".to_owned()),
            bytes: 4,
            rows: 1,
        };
        state.write(&position).unwrap();
        let (mut file, found) = open(&path, &state, true, false).unwrap();
        assert_eq!(found, position);
        file.write_all(b"x").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123x");
        std::fs::write(&path, "01").unwrap();
        assert!(open(&path, &state, true, false).is_err(), "shortened since");
        open(&path, &state, false, true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        assert_eq!(state.read::<Position>().unwrap(), None);
    }
}
