//! `cadastre scan` and `count`: many rows.

use bytes::Bytes;
use cadastre_client::{Client, first_key_only_filter, new_scan, notation};
use cadastre_env::Env;
use cadastre_sharding::behind_prefix;
use cadastre_types::{Error, ErrorKind, Result, Scan, TableName};
use clap::Args;
use serde_json::json;

use super::arguments::{Column, QueryArgs, bytes, column, table_name};
use super::connect::ConnectArgs;
use super::exit;
use super::output::{Output, column_text, rate, row_json, usage};
use super::progress::{Meter, Track};
use super::sharded::{AnyScanner, ConditionArgs, RuleArgs, Target};

/// Which rows; part of both commands.
#[derive(Debug, Args)]
pub(super) struct RangeArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// First row
    #[arg(long, value_name = "ROW", value_parser = bytes, default_value = "", hide_default_value = true)]
    start: Bytes,
    /// Row to stop before
    #[arg(long, value_name = "ROW", value_parser = bytes, default_value = "", hide_default_value = true)]
    stop: Bytes,
    /// Only rows that begin with this
    #[arg(long, value_name = "PREFIX", value_parser = bytes, conflicts_with_all = ["start", "stop"])]
    prefix: Option<Bytes>,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

impl RangeArgs {
    /// The table.
    pub(super) fn table(&self) -> &TableName {
        &self.table
    }

    /// First row, and the row to stop before; empty for the open ends.
    pub(super) fn ends(&self) -> Result<(Bytes, Bytes)> {
        let scan = self.scan(false)?;
        Ok((scan.start_row, scan.stop_row))
    }

    /// How a row's place in the range is told as a share of it, where the range's rows lie in one table.
    pub(super) async fn track<E: Env>(&self, client: &Client<E>) -> Result<Track> {
        let (start, stop) = self.ends()?;
        let regions = client.region_starts(&self.table).await?;
        Ok(Track::new(&regions, &start, &stop))
    }

    /// The scan of the range; for a descending one the ends are exchanged.
    pub(super) fn scan(&self, reversed: bool) -> Result<Scan> {
        let (start_row, stop_row) = match &self.prefix {
            Some(prefix) => (prefix.clone(), behind_prefix(&prefix[..]).into()),
            None => (self.start.clone(), self.stop.clone()),
        };
        if !reversed {
            if !stop_row.is_empty() && start_row > stop_row {
                return Err(usage("--start lies behind --stop"));
            }
            return Ok(Scan {
                start_row,
                stop_row,
                ..new_scan()
            });
        }
        if self.prefix.is_some() {
            // From behind the prefix down to it.
            return Ok(Scan {
                start_row: stop_row,
                include_start_row: false,
                stop_row: start_row,
                include_stop_row: true,
                reversed: true,
                ..new_scan()
            });
        }
        if !start_row.is_empty() && start_row < stop_row {
            return Err(usage(
                "with --reversed rows descend: --start lies before --stop",
            ));
        }
        Ok(Scan {
            start_row,
            stop_row,
            reversed: true,
            ..new_scan()
        })
    }
}

/// Arguments of `scan`.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// Only these families and columns; may be given several times
    #[arg(long = "column", value_name = "FAMILY[:QUALIFIER]", value_parser = column)]
    columns: Vec<Column>,
    /// Rows at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Descending, from --start down to --stop
    #[arg(long)]
    reversed: bool,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    condition: ConditionArgs,
    #[command(flatten)]
    pub(super) range: RangeArgs,
}

/// Arguments of `count`.
#[derive(Debug, Args)]
pub struct CountArgs {
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    condition: ConditionArgs,
    #[command(flatten)]
    pub(super) range: RangeArgs,
}

pub(super) async fn scan<E: Env>(
    client: &Client<E>,
    args: ScanArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let scan = Scan {
        query: args.query.query(&args.columns),
        ..args.range.scan(args.reversed)?
    };
    let range = &args.range;
    let opened = args
        .rule
        .open(client, &range.table, &range.connect, Some(&args.condition));
    let target = opened.await?;
    let printed = async {
        let mut scanner = target.scan(scan, args.limit, &args.condition).await?;
        let printed = print(&mut scanner, output).await;
        if output.is_broken() {
            scanner.close().await;
        }
        printed
    }
    .await;
    target.close().await;
    match printed? {
        0 if !output.is_broken() => Ok(exit::NOTHING),
        _ => Ok(exit::DONE),
    }
}

/// Prints rows until there are no more, or nobody takes them.
async fn print<E: Env>(scanner: &mut AnyScanner<E>, output: &mut Output<'_>) -> Result<u64> {
    let mut rows = 0_u64;
    while let Some(row) = scanner.next().await? {
        rows += 1;
        if output.is_json() {
            output.line(row_json(&row.cells));
        } else {
            for cell in &row.cells {
                output.line(format_args!(
                    "{}  {}  {}  {}",
                    notation::to_text(&cell.row),
                    column_text(cell),
                    cell.timestamp,
                    notation::to_text(&cell.value)
                ));
            }
        }
        if output.is_broken() {
            break;
        }
    }
    Ok(rows)
}

pub(super) async fn count<E: Env>(
    client: &Client<E>,
    args: CountArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let clock = client.env().clock().clone();
    // Only for the eyes: asked for when somebody looks. Of a logical table the regions are many tables'; there keys alone tell, and how
    // many of the tables are done.
    let track = match (Meter::<E::Clock>::is_seen(), args.rule.is_given()) {
        (false, _) => None,
        (true, false) => Some(args.range.track(client).await?),
        (true, true) => {
            let (start, stop) = args.range.ends()?;
            Some(Track::new(&[], &start, &stop))
        }
    };
    let range = &args.range;
    let opened = args
        .rule
        .open(client, &range.table, &range.connect, Some(&args.condition));
    let target = opened.await?;
    let mut meter = Meter::new(clock, track.is_some(), 0.0);
    let counted = async {
        let mut rows = 0_u64;
        let mut scanner = counting_scanner(&target, &args, true).await?;
        loop {
            let row = match scanner.next().await {
                Ok(row) => row,
                // A server without this filter: then whole rows are read, if nothing was counted yet.
                Err(error) if rows == 0 && is_refused(&error) => {
                    scanner = counting_scanner(&target, &args, false).await?;
                    scanner.next().await?
                }
                Err(error) => return Err(error),
            };
            let Some(row) = row else {
                return Ok(rows);
            };
            rows += 1;
            meter.tell(rows, || {
                Some(scanner.share(track.as_ref()?.share(row.key()?)))
            });
        }
    }
    .await;
    let seconds = meter.end();
    target.close().await;
    let rows = counted?;
    output.answer(rate(rows, seconds), || {
        json!({
            "table": args.range.table.as_str(),
            "rows": rows,
            "seconds": (seconds * 1000.0).round() / 1000.0,
        })
    });
    Ok(exit::DONE)
}

async fn counting_scanner<E: Env>(
    target: &Target<'_, E>,
    args: &CountArgs,
    filtered: bool,
) -> Result<AnyScanner<E>> {
    let mut scan = args.range.scan(false)?;
    scan.filter = filtered.then(first_key_only_filter);
    // A count reads everything once: what others need stays in the cache.
    scan.query.cache_blocks = false;
    target.scan(scan, None, &args.condition).await
}

fn is_refused(error: &Error) -> bool {
    use cadastre_types::Code;
    error.kind() == ErrorKind::Invalid
        && !matches!(
            error.code(),
            Code::TableNotFound | Code::TableNotEnabled | Code::AccessDenied
        )
}
