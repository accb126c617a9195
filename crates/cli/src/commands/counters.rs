//! `cadastre incr` and `append`: changes that depend on what is there, done at the server, once (INV-5).

use bytes::Bytes;
use cadastre_client::{Client, notation};
use cadastre_env::Env;
use cadastre_types::{Result, TableName};
use clap::Args;
use serde_json::json;

use super::arguments::{bytes, full_column, table_name};
use super::connect::ConnectArgs;
use super::exit;
use super::output::Output;
use super::sharded::RuleArgs;

/// Arguments of `incr`.
#[derive(Debug, Args)]
pub struct IncrArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// Row key
    #[arg(value_parser = bytes)]
    row: Bytes,
    /// The counter
    #[arg(value_name = "FAMILY:QUALIFIER")]
    column: String,
    /// What to add; may be negative
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    delta: i64,
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Arguments of `append`.
#[derive(Debug, Args)]
pub struct AppendArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// Row key
    #[arg(value_parser = bytes)]
    row: Bytes,
    /// The column
    #[arg(value_name = "FAMILY:QUALIFIER")]
    column: String,
    /// What to put behind its value
    #[arg(value_parser = bytes)]
    value: Bytes,
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

pub(super) async fn incr<E: Env>(
    client: &Client<E>,
    args: IncrArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let column = full_column(&args.column)?;
    let row = notation::to_text(&args.row);
    let target = args
        .rule
        .open(client, &args.table, &args.connect, None)
        .await?;
    let value = target.increment(args.row, column, args.delta).await;
    target.close().await;
    let value = value?;
    output.answer(
        value,
        || json!({ "row": row, "column": args.column, "value": value }),
    );
    Ok(exit::DONE)
}

pub(super) async fn append<E: Env>(
    client: &Client<E>,
    args: AppendArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let column = full_column(&args.column)?;
    let row = notation::to_text(&args.row);
    let target = args
        .rule
        .open(client, &args.table, &args.connect, None)
        .await?;
    let value = target.append(args.row, column, args.value).await;
    target.close().await;
    let value = notation::to_text(&value?);
    output.answer(
        &value,
        || json!({ "row": row, "column": args.column, "value": value }),
    );
    Ok(exit::DONE)
}
