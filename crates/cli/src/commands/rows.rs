//! `cadastre put`, `get` and `delete`: one row.

use bytes::Bytes;
use cadastre_client::{Client, delete_cell, new_get, new_mutation, notation};
use cadastre_env::Env;
use cadastre_types::{
    Cell, CellType, Get, LATEST_TIMESTAMP, Mutation, MutationKind, Result, TableName,
};
use clap::Args;
use serde_json::json;

use super::arguments::{Column, QueryArgs, bytes, column, full_column, table_name};
use super::connect::ConnectArgs;
use super::exit;
use super::output::{Output, column_text, counted, row_json, timestamp_argument, usage};
use super::sharded::RuleArgs;

/// Arguments of `put`.
#[derive(Debug, Args)]
pub struct PutArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// Row key
    #[arg(value_parser = bytes)]
    row: Bytes,
    /// Columns and their values, in turn
    #[arg(required = true, num_args = 2.., value_name = "FAMILY:QUALIFIER VALUE")]
    cells: Vec<String>,
    /// Timestamp of the cells, milliseconds; the server's clock without it
    #[arg(long, value_name = "MS", value_parser = timestamp_argument)]
    timestamp: Option<i64>,
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Arguments of `get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// Row key
    #[arg(value_parser = bytes)]
    row: Bytes,
    /// Families and columns; all without any
    #[arg(value_name = "FAMILY[:QUALIFIER]", value_parser = column)]
    columns: Vec<Column>,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// Arguments of `delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// Row key
    #[arg(value_parser = bytes)]
    row: Bytes,
    /// Families and columns; the whole row without any
    #[arg(value_name = "FAMILY[:QUALIFIER]", value_parser = column)]
    columns: Vec<Column>,
    /// Delete what is not newer than this, milliseconds; everything without it
    #[arg(long, value_name = "MS", value_parser = timestamp_argument)]
    timestamp: Option<i64>,
    /// Delete one version only: the newest, or the one with exactly the timestamp
    #[arg(long)]
    one_version: bool,
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

pub(super) async fn put<E: Env>(
    client: &Client<E>,
    args: PutArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let timestamp = args.timestamp.unwrap_or(LATEST_TIMESTAMP);
    let (pairs, rest) = args.cells.as_chunks::<2>();
    if let [column] = rest {
        return Err(usage(format!("'{column}' has no value")));
    }
    let cells = pairs
        .iter()
        .map(|[column, value]| {
            let (family, qualifier) = full_column(column)?;
            let value = notation::from_text(value)?;
            Ok(Cell::put(
                args.row.clone(),
                family,
                qualifier,
                timestamp,
                value,
            ))
        })
        .collect::<Result<Vec<_>>>()?;
    let count = cells.len();
    let put = Mutation {
        cells,
        ..new_mutation(MutationKind::Put, args.row.clone())
    };
    let target = args
        .rule
        .open(client, &args.table, &args.connect, None)
        .await?;
    let done = target.mutate(put).await;
    target.close().await;
    done?;
    let row = notation::to_text(&args.row);
    output.answer(
        format_args!("put {} into {row}", counted(count as u64, "cell")),
        || json!({ "row": row, "done": "put", "cells": count }),
    );
    Ok(exit::DONE)
}

pub(super) async fn get<E: Env>(
    client: &Client<E>,
    args: GetArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let get = Get {
        query: args.query.query(&args.columns),
        ..new_get(args.row)
    };
    let target = args
        .rule
        .open(client, &args.table, &args.connect, None)
        .await?;
    let row = target.get(&get).await;
    target.close().await;
    let row = row?;
    if row.is_empty() {
        return Ok(exit::NOTHING);
    }
    if output.is_json() {
        output.line(row_json(&row.cells));
        return Ok(exit::DONE);
    }
    let lines: Vec<Vec<String>> = row
        .cells
        .iter()
        .map(|cell| {
            vec![
                column_text(cell),
                cell.timestamp.to_string(),
                notation::to_text(&cell.value),
            ]
        })
        .collect();
    output.table(&lines);
    Ok(exit::DONE)
}

pub(super) async fn delete<E: Env>(
    client: &Client<E>,
    args: DeleteArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let timestamp = args.timestamp.unwrap_or(LATEST_TIMESTAMP);
    if args.one_version && args.columns.is_empty() {
        return Err(usage("--one-version needs a column or family"));
    }
    let cells = args
        .columns
        .iter()
        .map(|column| {
            let (qualifier, cell_type) = match (&column.qualifier, args.one_version) {
                (Some(qualifier), true) => (qualifier.clone(), CellType::Delete),
                (Some(qualifier), false) => (qualifier.clone(), CellType::DeleteColumn),
                (None, true) if args.timestamp.is_none() => {
                    return Err(usage("--one-version of a family needs --timestamp"));
                }
                (None, true) => (Bytes::new(), CellType::DeleteFamilyVersion),
                (None, false) => (Bytes::new(), CellType::DeleteFamily),
            };
            Ok(delete_cell(
                args.row.clone(),
                column.family.clone(),
                qualifier,
                timestamp,
                cell_type,
            ))
        })
        .collect::<Result<Vec<_>>>()?;
    let mutation = Mutation {
        cells,
        timestamp,
        ..new_mutation(MutationKind::Delete, args.row.clone())
    };
    let target = args
        .rule
        .open(client, &args.table, &args.connect, None)
        .await?;
    let done = target.mutate(mutation).await;
    target.close().await;
    done?;
    let row = notation::to_text(&args.row);
    output.answer(
        format_args!("deleted from {row}"),
        || json!({ "row": row, "done": "deleted" }),
    );
    Ok(exit::DONE)
}
