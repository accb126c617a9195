//! `cadastre table …`.

use bytes::Bytes;
use cadastre_client::{Client, notation};
use cadastre_env::Env;
use cadastre_types::{Code, FamilyDescriptor, Result, TableDescriptor, TableName, TableState};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::arguments::{bytes, family, key_value, table_name};
use super::connect::ConnectArgs;
use super::output::{Output, counted};
use super::{EXIT_CODES, exit};

/// Work on tables.
#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// Create a table
    #[command(after_help = format!("Examples:\n  cadastre table create t1 f\n  cadastre table create ns:t2 f:VERSIONS=3,TTL=86400 g --splits g,p,'\\xC0'\n\n{EXIT_CODES}"))]
    Create(CreateArgs),
    /// List tables
    #[command(after_help = format!("Example:\n  cadastre table list --json\n\n{EXIT_CODES}"))]
    List(ListArgs),
    /// Show a table's families, attributes and regions
    #[command(after_help = format!("Example:\n  cadastre table describe t1\n\n{EXIT_CODES}"))]
    Describe(NameArgs),
    /// Serve a disabled table again
    #[command(after_help = format!("Example:\n  cadastre table enable t1\n\n{EXIT_CODES}"))]
    Enable(NameArgs),
    /// End serving a table; its data stays
    #[command(after_help = format!("Example:\n  cadastre table disable t1\n\n{EXIT_CODES}"))]
    Disable(NameArgs),
    /// Remove a disabled table and its data
    #[command(after_help = format!("Examples:\n  cadastre table drop t1\n  cadastre table drop t1 --force\n\n{EXIT_CODES}"))]
    Drop(DropArgs),
}

impl TableCommand {
    pub(super) fn connect(&self) -> &ConnectArgs {
        match self {
            Self::Create(args) => &args.connect,
            Self::List(args) => &args.connect,
            Self::Describe(args) | Self::Enable(args) | Self::Disable(args) => &args.connect,
            Self::Drop(args) => &args.name.connect,
        }
    }
}

/// Arguments of `table create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Table, `table` or `namespace:table`
    #[arg(value_parser = table_name)]
    table: TableName,
    /// Families, each with attributes if wanted
    #[arg(required = true, value_name = "FAMILY[:KEY=VALUE,…]", value_parser = family)]
    families: Vec<FamilyDescriptor>,
    /// Keys at which the table is split from the start: n keys make n + 1 regions
    #[arg(long, value_name = "KEY,…", value_delimiter = ',', value_parser = bytes)]
    splits: Vec<Bytes>,
    /// Attribute of the table; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    attribute: Vec<(String, String)>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `table list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// HBase's own tables, too
    #[arg(long)]
    system: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of commands on one table.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Table, `table` or `namespace:table`
    #[arg(value_parser = table_name)]
    table: TableName,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `table drop`.
#[derive(Debug, Args)]
pub struct DropArgs {
    /// Disable it first if it is enabled
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    name: NameArgs,
}

pub(super) async fn run<E: Env>(
    client: &Client<E>,
    command: TableCommand,
    output: &mut Output<'_>,
) -> Result<u8> {
    let admin = client.admin();
    match command {
        TableCommand::Create(args) => return create(client, args, output).await,
        TableCommand::List(args) => return list(client, args.system, output).await,
        TableCommand::Describe(args) => return describe(client, &args.table, output).await,
        TableCommand::Enable(args) => {
            admin.enable_table(&args.table).await?;
            done(output, "enabled", &args.table);
        }
        TableCommand::Disable(args) => {
            admin.disable_table(&args.table).await?;
            done(output, "disabled", &args.table);
        }
        TableCommand::Drop(args) => {
            let table = &args.name.table;
            if args.force {
                match admin.disable_table(table).await {
                    // It was disabled already.
                    Err(error) if error.code() == Code::TableNotEnabled => {}
                    outcome => outcome?,
                }
            }
            admin.delete_table(table).await?;
            done(output, "dropped", table);
        }
    }
    Ok(exit::DONE)
}

fn done(output: &mut Output<'_>, what: &str, table: &TableName) {
    output.answer(
        format_args!("{what} {table}"),
        || json!({ "table": table.as_str(), "done": what }),
    );
}

async fn create<E: Env>(
    client: &Client<E>,
    args: CreateArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let mut table = TableDescriptor::new(args.table.clone());
    for family in args.families {
        table = table.with_family(family);
    }
    for (key, value) in args.attribute {
        table
            .attributes
            .insert(key.to_ascii_uppercase().into(), value.into());
    }
    let mut splits = args.splits;
    splits.sort();
    splits.dedup();
    let regions = splits.len() + 1;
    client.admin().create_table(&table, splits).await?;
    let name = &args.table;
    let text = if regions == 1 {
        format!("created {name}")
    } else {
        format!("created {name} with {}", counted(regions as u64, "region"))
    };
    output.answer(
        text,
        || json!({ "table": name.as_str(), "done": "created", "regions": regions }),
    );
    Ok(exit::DONE)
}

async fn list<E: Env>(client: &Client<E>, system: bool, output: &mut Output<'_>) -> Result<u8> {
    let tables = client.admin().list_tables(system).await?;
    if output.is_json() {
        for table in &tables {
            output.line(descriptor_json(table));
        }
        return Ok(exit::DONE);
    }
    let rows: Vec<Vec<String>> = tables
        .iter()
        .map(|table| {
            let families: Vec<String> = table
                .families
                .keys()
                .map(|name| notation::to_text(name))
                .collect();
            vec![table.name.to_string(), families.join(" ")]
        })
        .collect();
    output.table(&rows);
    Ok(exit::DONE)
}

fn state_text(state: Option<TableState>) -> &'static str {
    match state {
        Some(TableState::Enabled) => "enabled",
        Some(TableState::Disabled) => "disabled",
        Some(TableState::Disabling) => "disabling",
        Some(TableState::Enabling) => "enabling",
        None => "unknown",
    }
}

async fn describe<E: Env>(
    client: &Client<E>,
    table: &TableName,
    output: &mut Output<'_>,
) -> Result<u8> {
    let admin = client.admin();
    let descriptor = admin.describe_table(table).await?;
    let state = client.table_state(table).await?;
    // Regions of a table that is not enabled have no place.
    let regions = if state == Some(TableState::Enabled) {
        admin.table_regions(table).await?
    } else {
        Vec::new()
    };
    if output.is_json() {
        let mut value = descriptor_json(&descriptor);
        value["state"] = json!(state_text(state));
        value["regions"] = regions
            .iter()
            .map(|location| {
                json!({
                    "name": location.region.encoded_name().as_str(),
                    "start": notation::to_text(&location.region.start_key),
                    "end": notation::to_text(&location.region.end_key),
                    "server": location.server.to_string(),
                })
            })
            .collect();
        output.line(value);
        return Ok(exit::DONE);
    }
    output.line(format_args!("{table}, {}", state_text(state)));
    for (key, value) in &descriptor.attributes {
        output.line(format_args!("  {}", pair_text(key, value)));
    }
    for family in descriptor.families.values() {
        let attributes: Vec<String> = family
            .attributes
            .iter()
            .map(|(key, value)| pair_text(key, value))
            .collect();
        let name = notation::to_text(&family.name);
        let line = format!("  family {name}  {}", attributes.join(", "));
        output.line(line.trim_end());
    }
    let rows: Vec<Vec<String>> = regions
        .iter()
        .map(|location| {
            let key = |key: &Bytes| format!("'{}'", notation::to_text(key));
            vec![
                format!("  region {}", location.region.encoded_name()),
                format!(
                    "{} to {}",
                    key(&location.region.start_key),
                    key(&location.region.end_key)
                ),
                format!("on {}", location.server.host_port()),
            ]
        })
        .collect();
    output.table(&rows);
    Ok(exit::DONE)
}

fn pair_text(key: &Bytes, value: &Bytes) -> String {
    format!("{}={}", notation::to_text(key), notation::to_text(value))
}

fn attributes_json<'a>(attributes: impl IntoIterator<Item = (&'a Bytes, &'a Bytes)>) -> Value {
    let pairs: Map<String, Value> = attributes
        .into_iter()
        .map(|(key, value)| (notation::to_text(key), json!(notation::to_text(value))))
        .collect();
    Value::Object(pairs)
}

fn descriptor_json(table: &TableDescriptor) -> Value {
    let families: Vec<Value> = table
        .families
        .values()
        .map(|family| {
            json!({
                "name": notation::to_text(&family.name),
                "attributes": attributes_json(&family.attributes),
                "configuration": family.configuration,
            })
        })
        .collect();
    json!({
        "table": table.name.as_str(),
        "attributes": attributes_json(&table.attributes),
        "configuration": table.configuration,
        "families": families,
    })
}
