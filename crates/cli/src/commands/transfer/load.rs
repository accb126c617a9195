//! `cadastre load`: rows of a file, or of standard input, into a table.
//!
//! A few batches are on their way at one time, while the next one is read elsewhere; nothing is read beyond them, however fast the file
//! and however slow the cluster. When a batch and all before it are acknowledged, the place behind it goes into the state file, at least
//! every second. After a break, `--resume` goes on there: what had been written and not noted is written again, which changes nothing,
//! since it is the same cells (with timestamps of the file's or `--timestamp`, to the letter).

use std::path::{Path, PathBuf};
use std::time::Duration;

use cadastre_client::{Action, Client};
use cadastre_env::{Clock, Env};
use cadastre_types::{Code, Error, ErrorKind, LATEST_TIMESTAMP, Mutation, Result, TableName};
use clap::Args;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};

use super::super::arguments::table_name;
use super::super::connect::ConnectArgs;
use super::super::exit;
use super::super::output::{Output, counted, rate, timestamp_argument, usage};
use super::super::progress::Meter;
use super::input::{self, Batch, Input, Meaning, Position};
use super::state::{StateFile, WRITTEN_EVERY};
use super::{Field, Format, NULL, check_fields, field, told};

/// Arguments of `load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// File to read, `-` for standard input
    file: PathBuf,
    /// Format, if the file's name does not say it
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Fields of a CSV without a first line that names them: `row` for the row key, `-` to pass over
    #[arg(long, value_name = "row,FAMILY:QUALIFIER,…", value_delimiter = ',', value_parser = field)]
    columns: Vec<Field>,
    /// What stands in a CSV for a cell that is not there
    #[arg(long, value_name = "TEXT", default_value = NULL)]
    null: String,
    /// Take the fields of a CSV as they stand, backslashes too
    #[arg(long)]
    plain: bool,
    /// Timestamp of cells that do not say their own, milliseconds; the server's clock without it
    #[arg(long, value_name = "MS", value_parser = timestamp_argument)]
    timestamp: Option<i64>,
    /// Go on where a load of this file was broken off
    #[arg(long, conflicts_with = "restart")]
    resume: bool,
    /// Begin anew, although a load of this file was broken off
    #[arg(long)]
    restart: bool,
    /// Rows of one batch at most
    #[arg(long, value_name = "ROWS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// Batches on their way at one time; 1 keeps rows that stand in the file twice in their order
    #[arg(long, value_name = "BATCHES", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: u32,
    /// Rows after which the state is written; it is at least every second
    #[arg(long, value_name = "ROWS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint: u64,
    #[command(flatten)]
    pub(in super::super) connect: ConnectArgs,
}

/// A batch that was acknowledged: the place behind it.
type Sent = Result<Position>;

pub(in super::super) async fn load<E: Env>(
    client: &Client<E>,
    args: LoadArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let is_stdin = args.file == Path::new("-");
    let format = Format::of(args.format, (!is_stdin).then_some(&args.file))?;
    let state = if is_stdin {
        if args.resume || args.restart {
            return Err(usage(
                "standard input cannot be gone on with: load from a file",
            ));
        }
        None
    } else {
        Some(StateFile::beside(
            &args.file,
            "load",
            request(&args, format),
        ))
    };
    let from = begin(state.as_ref(), &args)?;
    let resumed_at = from.line();
    let (input, from) = open(&args, format, from)?;
    // A table that is not there is told before anything is read.
    client.admin().describe_table(&args.table).await?;
    let size = std::fs::metadata(&args.file)
        .ok()
        .filter(|file| file.is_file() && !is_stdin)
        .map(|file| file.len().max(1));
    let clock = client.env().clock().clone();
    let share = |at: &Position| size.map(|size| at.bytes as f64 / size as f64);
    let before = share(&from).unwrap_or(0.0);
    let mut loading = Loading {
        client,
        table: &args.table,
        state: state.as_ref(),
        acked: from.clone(),
        saved_at: clock.mono(),
        saved_rows: from.rows,
        checkpoint: args.checkpoint,
        meter: Meter::new(clock, size.is_some(), before),
        rows_before: from.rows,
        size,
    };
    // From now on there is something to go on with.
    loading.save(loading.saved_at)?;
    let outcome = loading.run(input, args.in_flight as usize).await;
    loading.end(outcome)?;
    let done = loading.acked.clone();
    let seconds = loading.meter.end();
    if let Some(state) = &state {
        state.remove()?;
    }
    tell(&args, &from, &done, resumed_at, seconds, output);
    Ok(exit::DONE)
}

fn tell(
    args: &LoadArgs,
    from: &Position,
    done: &Position,
    resumed_at: u64,
    seconds: f64,
    output: &mut Output<'_>,
) {
    let mut text = format!(
        "loaded {} from {}: {}",
        args.table,
        args.file.display(),
        rate(done.rows - from.rows, seconds)
    );
    if resumed_at > 0 {
        text.push_str(&format!(", resumed behind line {resumed_at}"));
    }
    if done.empty > 0 {
        let empty = counted(done.empty, "line");
        text.push_str(&format!(", {empty} without a cell passed over"));
    }
    output.answer(text, || {
        json!({
            "table": args.table.as_str(),
            "done": "loaded",
            "rows": done.rows - from.rows,
            "rows_in_all": done.rows,
            "lines": done.line(),
            "resumed_behind_line": resumed_at,
            "lines_without_cells": done.empty,
            "seconds": (seconds * 1000.0).round() / 1000.0,
        })
    });
}

/// What a resumed load must agree in.
fn request(args: &LoadArgs, format: Format) -> Value {
    json!({
        "load": args.table.as_str(),
        "format": format,
        "columns": args.columns.iter().map(Field::text).collect::<Vec<_>>(),
        "null": args.null,
        "plain": args.plain,
        "timestamp": args.timestamp,
    })
}

/// Where to begin.
fn begin(state: Option<&StateFile>, args: &LoadArgs) -> Result<Position> {
    let Some(state) = state else {
        return Ok(Position::default());
    };
    if args.restart {
        state.remove()?;
        return Ok(Position::default());
    }
    match (state.read()?, args.resume) {
        (Some(position), true) => Ok(position),
        (None, false) => Ok(Position::default()),
        (Some(position), false) => Err(usage(format!(
            "a load of {} was broken off behind line {}: --resume goes on there, --restart begins anew",
            args.file.display(),
            position.line()
        ))),
        (None, true) => Err(usage(format!(
            "there is no {}: the load was not broken off, or never begun",
            state.path().display()
        ))),
    }
}

/// The rows behind a position, and the position itself: behind the first line, if that names the columns.
fn open(args: &LoadArgs, format: Format, from: Position) -> Result<(Input, Position)> {
    let mut fields = args.columns.clone();
    let mut from = from;
    let reader = if format == Format::Jsonl {
        if !fields.is_empty() {
            return Err(usage(
                "lines of JSON name their columns: --columns is for a CSV",
            ));
        }
        input::open(&args.file, &from)?
    } else if fields.is_empty() {
        if args.file == Path::new("-") {
            return Err(usage("a CSV from standard input needs --columns"));
        }
        let start = Position::default();
        let (named, behind) = input::header(input::open(&args.file, &start)?)?;
        fields = named;
        if from.bytes == 0 {
            from = behind;
        }
        input::open(&args.file, &from)?
    } else {
        check_fields(&fields)?;
        input::open(&args.file, &from)?
    };
    let meaning = Meaning {
        fields,
        null: args.null.clone(),
        timestamp: args.timestamp.unwrap_or(LATEST_TIMESTAMP),
        plain: args.plain,
    };
    let input = Input::new(format, reader, meaning, args.batch as usize, from.clone());
    Ok((input, from))
}

struct Loading<'a, E: Env> {
    client: &'a Client<E>,
    table: &'a TableName,
    state: Option<&'a StateFile>,
    /// Behind the last batch that was acknowledged with all before it.
    acked: Position,
    saved_at: Duration,
    saved_rows: u64,
    checkpoint: u64,
    meter: Meter<E::Clock>,
    rows_before: u64,
    size: Option<u64>,
}

/// What comes back from reading: the input with its next batch. `None` if the reader broke off.
type Read = BoxFuture<'static, Option<(Box<Input>, Batch)>>;

impl<E: Env> Loading<'_, E> {
    /// Reads and sends until the end or the first failure.
    async fn run(&mut self, input: Input, in_flight: usize) -> Result<()> {
        let client = self.client;
        let mut reading: Option<Read> = Some(read(client, Box::new(input)));
        let mut sending: FuturesOrdered<BoxFuture<'_, Sent>> = FuturesOrdered::new();
        let mut bad_line = None;
        loop {
            let may_read = reading.is_some() && sending.len() < in_flight;
            if !may_read && sending.is_empty() {
                break;
            }
            let next_read = async {
                match &mut reading {
                    Some(reading) if may_read => reading.await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(sent) = sending.next(), if !sending.is_empty() => {
                    self.acknowledged(sent?)?;
                }
                read_on = next_read => {
                    let Some((input, batch)) = read_on else {
                        return Err(Error::new(Code::Internal, "the reader broke off"));
                    };
                    bad_line = batch.error;
                    reading = (!batch.is_last && bad_line.is_none())
                        .then(|| read(client, input));
                    let rows = batch.rows;
                    sending.push_back(send(client, self.table, rows, batch.end).boxed());
                }
            }
        }
        bad_line.map_or(Ok(()), Err)
    }

    fn acknowledged(&mut self, position: Position) -> Result<()> {
        self.acked = position;
        let now = self.client.env().clock().mono();
        if now.saturating_sub(self.saved_at) >= WRITTEN_EVERY
            || self.acked.rows - self.saved_rows >= self.checkpoint
        {
            self.save(now)?;
        }
        let (bytes, size) = (self.acked.bytes, self.size);
        self.meter.tell(self.acked.rows - self.rows_before, || {
            Some(bytes as f64 / size? as f64)
        });
        Ok(())
    }

    fn save(&mut self, now: Duration) -> Result<()> {
        self.saved_at = now;
        self.saved_rows = self.acked.rows;
        match self.state {
            Some(state) => state.write(&self.acked),
            None => Ok(()),
        }
    }

    /// After a failure: notes how far it came, and says how to go on.
    fn end(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            return Ok(());
        };
        let now = self.client.env().clock().mono();
        self.save(now)?;
        let lines = self.acked.line();
        let how = match (self.state, error.kind()) {
            (None, _) => "",
            (Some(_), ErrorKind::Invalid | ErrorKind::TooBig) => {
                "; correct what is behind it and go on with --resume"
            }
            (Some(_), _) => "; go on with --resume",
        };
        let how = format!("Everything up to line {lines} is loaded{how}");
        Err(told(&error, &how))
    }
}

/// Reads the next batch where blocking does no harm.
fn read<E: Env>(client: &Client<E>, mut input: Box<Input>) -> Read {
    client.env().background("load", async move {
        let batch = input.next_batch();
        (input, batch)
    })
}

/// Writes a batch; the first row that fails is named.
async fn send<E: Env>(
    client: &Client<E>,
    table: &TableName,
    rows: Vec<(u64, Mutation)>,
    end: Position,
) -> Sent {
    let (lines, actions): (Vec<u64>, Vec<Action>) = rows
        .into_iter()
        .map(|(line, mutation)| (line, Action::Mutate(mutation)))
        .unzip();
    let answers = client.batch(table, actions).await;
    for (line, answer) in lines.into_iter().zip(answers) {
        answer.map_err(|error| error.context(format_args!("line {line}")))?;
    }
    Ok(end)
}
