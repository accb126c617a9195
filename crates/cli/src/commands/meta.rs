//! `cadastre meta`: the directory, readable, and whether it covers each table once (INV-1).

use cadastre_client::{Client, Cover, Fault, MetaContent, MetaRow, notation};
use cadastre_env::Env;
use cadastre_types::{Result, TableName, TableState};
use clap::Args;
use serde_json::{Value, json};

use super::arguments::table_name;
use super::connect::ConnectArgs;
use super::exit;
use super::output::{Output, cell_json, counted};
use super::table::state_text;

/// Arguments of `meta`.
#[derive(Debug, Args)]
pub struct MetaArgs {
    /// Only this table
    #[arg(value_parser = table_name)]
    table: Option<TableName>,
    /// Only what is wrong, and how much was looked at
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

/// What was seen.
#[derive(Default)]
struct Seen {
    tables: u64,
    regions: u64,
    /// A table whose state has come, but no region yet.
    without_region: Option<TableName>,
    cover: Cover,
    faults: Vec<String>,
}

/// Faults told one by one; of what is beyond only the number is told. A directory in ruins need not fill the memory.
const FAULTS_MAX: usize = 1000;

impl Seen {
    fn look(&mut self, row: &MetaRow) -> Vec<String> {
        match &row.content {
            MetaContent::Table(table, _) => {
                self.tables += 1;
                let mut told = self.table_ended();
                told.extend(self.cover.end().map(|fault| fault.to_string()));
                self.without_region = Some(table.clone());
                told
            }
            MetaContent::Region {
                info,
                server,
                state,
                is_parent,
                ..
            } => {
                self.regions += 1;
                if self.without_region.as_ref() == Some(&info.table) {
                    self.without_region = None;
                }
                if *is_parent || info.replica_id > 0 {
                    return Vec::new();
                }
                let faults: Vec<Fault> = self.cover.push(info);
                let mut told: Vec<String> = faults.iter().map(ToString::to_string).collect();
                if state == "OPEN" && server.is_none() {
                    told.push(format!("{} is OPEN on no server", info.encoded_name()));
                }
                told
            }
            MetaContent::Other(_, Some(error)) => {
                let key = notation::to_text(&row.key);
                vec![format!("row {key} is damaged: {}", error.message())]
            }
            MetaContent::Other(_, None) => Vec::new(),
        }
    }

    fn table_ended(&mut self) -> Vec<String> {
        let table = self.without_region.take();
        table
            .map(|table| format!("table {table} has a state and no region"))
            .into_iter()
            .collect()
    }
}

pub(super) async fn meta<E: Env>(
    client: &Client<E>,
    args: MetaArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let mut rows = client.directory(args.table.as_ref())?;
    let mut seen = Seen::default();
    let mut faults = 0_u64;
    while let Some(row) = rows.next().await? {
        if !args.check {
            if output.is_json() {
                output.line(row_value(&row));
            } else {
                output.line(row_text(&row));
            }
        }
        let told = seen.look(&row);
        keep(&mut seen.faults, &mut faults, told);
        if output.is_broken() {
            return Ok(exit::DONE);
        }
    }
    let mut told = seen.table_ended();
    told.extend(seen.cover.end().map(|fault| fault.to_string()));
    keep(&mut seen.faults, &mut faults, told);
    if seen.regions == 0 && seen.tables == 0 {
        return Ok(exit::NOTHING);
    }
    end(output, &seen, faults);
    Ok(if faults == 0 {
        exit::DONE
    } else {
        exit::FAILED
    })
}

fn keep(faults: &mut Vec<String>, count: &mut u64, told: Vec<String>) {
    *count += told.len() as u64;
    let room = FAULTS_MAX.saturating_sub(faults.len());
    faults.extend(told.into_iter().take(room));
}

fn end(output: &mut Output<'_>, seen: &Seen, faults: u64) {
    if output.is_json() {
        output.line(json!({
            "tables": seen.tables,
            "regions": seen.regions,
            "faults": faults,
            "told": seen.faults,
        }));
        return;
    }
    for fault in &seen.faults {
        output.line(format_args!("FAULT {fault}"));
    }
    let verdict = if faults == 0 {
        "every key lies in exactly one region".to_owned()
    } else {
        counted(faults, "fault")
    };
    output.line(format_args!(
        "{}, {}: {verdict}",
        counted(seen.tables, "table"),
        counted(seen.regions, "region")
    ));
}

fn row_text(row: &MetaRow) -> String {
    let key = notation::to_text(&row.key);
    match &row.content {
        MetaContent::Table(table, state) => {
            format!("table {table}  {}", state_text(Some(*state)))
        }
        MetaContent::Region {
            info,
            server,
            open_seq,
            state,
            is_parent,
        } => {
            let place = server
                .as_ref()
                .map_or("no server".to_owned(), |server| format!("on {server}"));
            let parent = if *is_parent { "  parent" } else { "" };
            format!(
                "  {key}  to '{}'  {state}  {place}  seq {open_seq}{parent}",
                notation::to_text(&info.end_key)
            )
        }
        MetaContent::Other(cells, error) => {
            let what = counted(cells.len() as u64, "cell");
            let damaged = error.as_ref().map_or("", |_| ", damaged");
            format!("other {key}  {what}{damaged}")
        }
    }
}

fn row_value(row: &MetaRow) -> Value {
    let key = notation::to_text(&row.key);
    match &row.content {
        MetaContent::Table(table, state) => {
            let state: TableState = *state;
            json!({ "row": key, "table": table.as_str(), "state": state_text(Some(state)) })
        }
        MetaContent::Region {
            info,
            server,
            open_seq,
            state,
            is_parent,
        } => json!({
            "row": key,
            "table": info.table.as_str(),
            "region": info.encoded_name().as_str(),
            "start": notation::to_text(&info.start_key),
            "end": notation::to_text(&info.end_key),
            "replica": info.replica_id,
            "state": state,
            "server": server.as_ref().map(ToString::to_string),
            "open_seq": open_seq,
            "parent": is_parent,
        }),
        MetaContent::Other(cells, error) => json!({
            "row": key,
            "cells": cells.iter().map(cell_json).collect::<Vec<_>>(),
            "damaged": error.as_ref().map(|error| error.message().to_owned()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cadastre_types::{RegionInfo, ServerName};

    use super::*;

    fn region(table: &str, start: &str, end: &str) -> MetaRow {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let table = TableName::parse(table).unwrap();
        let info = RegionInfo::new(table, bytes(start), bytes(end), 1);
        MetaRow {
            key: info.name(),
            content: MetaContent::Region {
                info,
                server: Some(ServerName::parse("h,1,1").unwrap()),
                open_seq: 1,
                state: "OPEN".to_owned(),
                is_parent: false,
            },
        }
    }

    fn state(table: &str) -> MetaRow {
        let table = TableName::parse(table).unwrap();
        MetaRow {
            key: Bytes::copy_from_slice(table.as_str().as_bytes()),
            content: MetaContent::Table(table, TableState::Enabled),
        }
    }

    fn faults(rows: &[MetaRow]) -> Vec<String> {
        let mut seen = Seen::default();
        let mut told: Vec<String> = rows.iter().flat_map(|row| seen.look(row)).collect();
        told.extend(seen.table_ended());
        told.extend(seen.cover.end().map(|fault| fault.to_string()));
        told
    }

    /// INV-1, as `meta` tells it.
    #[test]
    fn what_is_wrong_is_told() {
        let good = [
            state("t"),
            region("t", "", "m"),
            region("t", "m", ""),
            state("u"),
            region("u", "", ""),
        ];
        assert_eq!(faults(&good), [""; 0]);
        assert_eq!(faults(&good[..2]), ["hole in t: no region from 'm' to ''"]);
        assert_eq!(
            faults(&[good[0].clone(), good[2].clone(), good[3].clone()]),
            [
                "hole in t: no region from '' to 'm'",
                "table u has a state and no region"
            ]
        );
        // The last hole of a table is told when the next one's state comes.
        let told = faults(&[
            good[0].clone(),
            good[1].clone(),
            good[3].clone(),
            good[4].clone(),
        ]);
        assert_eq!(told, ["hole in t: no region from 'm' to ''"]);
        let mut parent = region("t", "", "");
        if let MetaContent::Region { is_parent, .. } = &mut parent.content {
            *is_parent = true;
        }
        let mut with_parent = good.to_vec();
        with_parent.insert(1, parent);
        assert_eq!(faults(&with_parent), [""; 0]);
        let mut homeless = region("t", "", "");
        if let MetaContent::Region { server, .. } = &mut homeless.content {
            *server = None;
        }
        assert!(faults(&[homeless])[0].ends_with("is OPEN on no server"));
    }
}
