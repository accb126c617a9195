//! `cadastre locate`: which server serves a row, or every region of a table, and who said so.

use bytes::Bytes;
use cadastre_client::{Client, Located, MetaContent, Source, notation};
use cadastre_env::Env;
use cadastre_types::{Code, Error, RegionInfo, Result, TableName};
use clap::Args;
use serde_json::{Value, json};

use super::arguments::{bytes, table_name};
use super::connect::ConnectArgs;
use super::exit;
use super::output::Output;

/// Arguments of `locate`.
#[derive(Debug, Args)]
pub struct LocateArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// Row keys, looked up one after the other; without any, all regions of the table
    #[arg(value_name = "ROW", value_parser = bytes)]
    rows: Vec<Bytes>,
    /// Ask the directory even for what an earlier row has brought along
    #[arg(long)]
    reload: bool,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

pub(super) async fn locate<E: Env>(
    client: &Client<E>,
    args: LocateArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    if args.rows.is_empty() {
        return regions(client, &args.table, output).await;
    }
    let mut lines = Vec::new();
    for row in &args.rows {
        let located = client
            .locate_with_source(&args.table, row, args.reload, true)
            .await?;
        if output.is_json() {
            output.line(located_json(row, &located));
        } else {
            lines.push(located_text(row, &located));
        }
    }
    output.table(&lines);
    Ok(exit::DONE)
}

/// Who said where a region is, and whether anybody had to be asked.
fn source_text(source: &Source) -> String {
    match source {
        Source::Cache => "cached".to_owned(),
        Source::Registry => "from the registry".to_owned(),
        Source::Directory(table) => format!("from {table}"),
    }
}

fn range_text(region: &RegionInfo) -> String {
    let key = |key: &Bytes| format!("'{}'", notation::to_text(key));
    format!("{} to {}", key(&region.start_key), key(&region.end_key))
}

fn region_json(region: &RegionInfo) -> Value {
    json!({
        "region": region.encoded_name().as_str(),
        "start": notation::to_text(&region.start_key),
        "end": notation::to_text(&region.end_key),
    })
}

fn located_text(row: &Bytes, located: &Located) -> Vec<String> {
    let location = &located.location;
    vec![
        notation::to_text(row),
        format!("region {}", location.region.encoded_name()),
        range_text(&location.region),
        format!("on {}", location.server),
        format!("seq {}", location.open_seq),
        source_text(&located.source),
    ]
}

fn located_json(row: &Bytes, located: &Located) -> Value {
    let location = &located.location;
    let mut value = region_json(&location.region);
    value["row"] = json!(notation::to_text(row));
    value["server"] = json!(location.server.to_string());
    value["open_seq"] = json!(location.open_seq);
    value["cached"] = json!(located.source == Source::Cache);
    value["source"] = json!(match &located.source {
        Source::Cache => "cache",
        Source::Registry => "registry",
        Source::Directory(table) => table.as_str(),
    });
    value
}

/// Every region that counts, as the directory has it; also those without a server.
async fn regions<E: Env>(
    client: &Client<E>,
    table: &TableName,
    output: &mut Output<'_>,
) -> Result<u8> {
    if *table == TableName::meta() {
        // The directory does not hold itself.
        let row = Bytes::new();
        let located = client.locate_with_source(table, &row, true, true).await?;
        if output.is_json() {
            output.line(located_json(&row, &located));
        } else {
            output.table(&[located_text(&row, &located)]);
        }
        return Ok(exit::DONE);
    }
    let mut rows = client.directory(Some(table))?;
    let mut lines = Vec::new();
    let mut found = false;
    while let Some(row) = rows.next().await? {
        let MetaContent::Region {
            info,
            server,
            open_seq,
            state,
            is_parent: false,
        } = row.content
        else {
            continue;
        };
        found = true;
        let server = server.map(|server| server.to_string());
        if output.is_json() {
            let mut value = region_json(&info);
            value["server"] = json!(server);
            value["open_seq"] = json!(open_seq);
            value["state"] = json!(state);
            value["replica"] = json!(info.replica_id);
            output.line(value);
        } else {
            lines.push(vec![
                format!("region {}", info.encoded_name()),
                range_text(&info),
                server.map_or("on no server".to_owned(), |server| format!("on {server}")),
                state,
            ]);
        }
    }
    if !found {
        return Err(Error::new(Code::TableNotFound, table.to_string()));
    }
    output.table(&lines);
    Ok(exit::DONE)
}
