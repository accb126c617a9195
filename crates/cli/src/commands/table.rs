//! `cadastre table …`.

use bytes::Bytes;
use cadastre_client::sharded::Made;
use cadastre_client::{Client, notation};
use cadastre_env::Env;
use cadastre_types::{
    Code, FamilyDescriptor, Result, ServerName, TableDescriptor, TableName, TableState,
};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::arguments::{bytes, family, key_value, table_name};
use super::connect::ConnectArgs;
use super::output::{Output, counted, usage};
use super::sharded::{RuleArgs, Target};
use super::{EXIT_CODES, exit};

/// Work on tables.
#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// Create a table
    #[command(after_help = format!("Examples:\n  cadastre table create t1 f\n  cadastre table create ns:t2 f:VERSIONS=3,TTL=86400 g --splits g,p,'\\xC0'\n  cadastre table create orders f --rule orders.rule          # every table that the rule names\n\n{EXIT_CODES}"))]
    Create(CreateArgs),
    /// List tables
    #[command(after_help = format!("Example:\n  cadastre table list --json\n\n{EXIT_CODES}"))]
    List(ListArgs),
    /// Show a table's families, attributes and regions
    #[command(after_help = format!("Example:\n  cadastre table describe t1\n\n{EXIT_CODES}"))]
    Describe(NameArgs),
    /// Change families and attributes of a table
    #[command(after_help = format!("Examples:\n  cadastre table alter t1 f:VERSIONS=5 newfamily\n  cadastre table alter t1 --drop-family old --attribute DURABILITY=ASYNC_WAL\n\n{EXIT_CODES}"))]
    Alter(AlterArgs),
    /// Serve a disabled table again
    #[command(after_help = format!("Example:\n  cadastre table enable t1\n\n{EXIT_CODES}"))]
    Enable(NameArgs),
    /// End serving a table; its data stays
    #[command(after_help = format!("Example:\n  cadastre table disable t1\n\n{EXIT_CODES}"))]
    Disable(NameArgs),
    /// Remove a disabled table and its data
    #[command(after_help = format!("Examples:\n  cadastre table drop t1\n  cadastre table drop t1 --force\n  cadastre table drop orders --force --rule orders\n\n{EXIT_CODES}"))]
    Drop(DropArgs),
    /// Empty a disabled table; it is enabled then
    #[command(after_help = format!("Example:\n  cadastre table truncate t1 --force --keep-splits\n\n{EXIT_CODES}"))]
    Truncate(TruncateArgs),
    /// Write what a table has in memory to its files
    #[command(after_help = format!("Example:\n  cadastre table flush t1\n\n{EXIT_CODES}"))]
    Flush(NameArgs),
    /// Have the servers compact a table; they go on after the command has ended
    #[command(after_help = format!("Example:\n  cadastre table compact t1 --family f --major\n\n{EXIT_CODES}"))]
    Compact(CompactArgs),
    /// Move the region that holds a row to another server
    #[command(after_help = format!("Examples:\n  cadastre table move t1 row1\n  cadastre table move t1 row1 --to host2,16020,1700000000000\n\n{EXIT_CODES}"))]
    Move(MoveArgs),
    /// Split the region that holds a row, at that row or in its middle; clients go on meanwhile
    #[command(after_help = format!("Examples:\n  cadastre table split t1 row5\n  cadastre table split t1 row5 --middle\n\n{EXIT_CODES}"))]
    Split(SplitArgs),
    /// Merge the regions from the one that holds a row to the one that holds another; clients go on meanwhile
    #[command(after_help = format!("Example:\n  cadastre table merge t1 row1 row5\n\n{EXIT_CODES}"))]
    Merge(MergeArgs),
    /// Even out the number of regions on the servers
    #[command(after_help = format!("Example:\n  cadastre table balance --dry-run\n\n{EXIT_CODES}"))]
    Balance(BalanceArgs),
}

impl TableCommand {
    pub(super) fn connect(&self) -> &ConnectArgs {
        match self {
            Self::Create(args) => &args.connect,
            Self::List(args) => &args.connect,
            Self::Describe(args) | Self::Enable(args) | Self::Disable(args) | Self::Flush(args) => {
                &args.connect
            }
            Self::Alter(args) => &args.name.connect,
            Self::Drop(args) => &args.name.connect,
            Self::Truncate(args) => &args.name.connect,
            Self::Compact(args) => &args.name.connect,
            Self::Move(args) => &args.connect,
            Self::Split(args) => &args.connect,
            Self::Merge(args) => &args.connect,
            Self::Balance(args) => &args.connect,
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
    rule: RuleArgs,
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
    rule: RuleArgs,
    #[command(flatten)]
    name: NameArgs,
}

/// Arguments of `table alter`.
#[derive(Debug, Args)]
pub struct AlterArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Families to make, or to change: attributes that are not named stay
    #[arg(value_name = "FAMILY[:KEY=VALUE,…]", value_parser = family)]
    families: Vec<FamilyDescriptor>,
    /// Family to remove with its data; may be given several times
    #[arg(long, value_name = "FAMILY", value_parser = bytes)]
    drop_family: Vec<Bytes>,
    /// Attribute of the table to set; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    attribute: Vec<(String, String)>,
    /// Attribute of the table to remove; may be given several times
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
}

/// Arguments of `table truncate`.
#[derive(Debug, Args)]
pub struct TruncateArgs {
    /// Keep the regions as they are; one region without it
    #[arg(long)]
    keep_splits: bool,
    /// Disable it first if it is enabled
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    name: NameArgs,
}

/// Arguments of `table compact`.
#[derive(Debug, Args)]
pub struct CompactArgs {
    /// Only this family
    #[arg(long, value_name = "FAMILY", value_parser = bytes)]
    family: Option<Bytes>,
    /// Rewrite all files into one, without what is deleted
    #[arg(long)]
    major: bool,
    #[command(flatten)]
    name: NameArgs,
}

/// Arguments of `table move`.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// A row of the region
    #[arg(value_parser = bytes)]
    row: Bytes,
    /// Server, as `cadastre status` names it; any other one without it
    #[arg(long, value_name = "HOST,PORT,STARTCODE", value_parser = server_name)]
    to: Option<ServerName>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `table split`.
#[derive(Debug, Args)]
pub struct SplitArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// The first row of the upper half
    #[arg(value_parser = bytes)]
    row: Bytes,
    /// Not at the row, but in the middle of the data of the region that holds it
    #[arg(long)]
    middle: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `table merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Table
    #[arg(value_parser = table_name)]
    table: TableName,
    /// A row of the first region
    #[arg(value_parser = bytes)]
    from: Bytes,
    /// A row of the last region
    #[arg(value_parser = bytes)]
    to: Bytes,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `table balance`.
#[derive(Debug, Args)]
pub struct BalanceArgs {
    /// Only say what would be moved
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

fn server_name(text: &str) -> Result<ServerName, String> {
    ServerName::parse(text).map_err(|error| error.message().to_owned())
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
        TableCommand::Drop(args) if args.rule.is_given() => {
            return drop_all(client, &args, output).await;
        }
        TableCommand::Drop(args) => {
            let table = &args.name.table;
            if args.force {
                disable_if_enabled(client, table).await?;
            }
            admin.delete_table(table).await?;
            done(output, "dropped", table);
        }
        TableCommand::Truncate(args) => {
            let table = &args.name.table;
            if args.force {
                disable_if_enabled(client, table).await?;
            }
            admin.truncate_table(table, args.keep_splits).await?;
            done(output, "truncated", table);
        }
        TableCommand::Alter(args) => return alter(client, args, output).await,
        TableCommand::Flush(args) => {
            admin.flush_table(&args.table).await?;
            done(output, "flushed", &args.table);
        }
        TableCommand::Compact(args) => return compact(client, args, output).await,
        TableCommand::Move(args) => return move_region(client, args, output).await,
        TableCommand::Split(args) => {
            let table = &args.table;
            admin.split_region(table, &args.row, args.middle).await?;
            done(output, "split a region of", table);
        }
        TableCommand::Merge(args) => return merge(client, args, output).await,
        TableCommand::Balance(args) => return balance(client, args.dry_run, output).await,
    }
    Ok(exit::DONE)
}

async fn disable_if_enabled<E: Env>(client: &Client<E>, table: &TableName) -> Result<()> {
    match client.admin().disable_table(table).await {
        // It was disabled already.
        Err(error) if error.code() == Code::TableNotEnabled => Ok(()),
        outcome => outcome,
    }
}

/// Puts the changes on a table as it is: what is not named stays.
fn altered(mut table: TableDescriptor, args: AlterArgs) -> Result<TableDescriptor> {
    for name in &args.drop_family {
        if table.families.remove(name).is_none() {
            let name = notation::to_text(name);
            return Err(usage(format!("{} has no family {name}", table.name)));
        }
    }
    for change in args.families {
        if let Some(family) = table.families.get_mut(&change.name) {
            family.attributes.extend(change.attributes);
        } else {
            table = table.with_family(change);
        }
    }
    for (key, value) in args.attribute {
        table
            .attributes
            .insert(key.to_ascii_uppercase().into(), value.into());
    }
    for key in &args.unset {
        let key = Bytes::from(key.to_ascii_uppercase());
        if table.attributes.remove(&key).is_none() {
            let key = notation::to_text(&key);
            return Err(usage(format!("{} has no attribute {key}", table.name)));
        }
    }
    Ok(table)
}

async fn alter<E: Env>(client: &Client<E>, args: AlterArgs, output: &mut Output<'_>) -> Result<u8> {
    let name = args.name.table.clone();
    let admin = client.admin();
    let before = admin.describe_table(&name).await?;
    let after = altered(before.clone(), args)?;
    if before == after {
        return Err(usage(format!("{name} is already so")));
    }
    admin.modify_table(&after).await?;
    done(output, "altered", &name);
    Ok(exit::DONE)
}

async fn compact<E: Env>(
    client: &Client<E>,
    args: CompactArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let table = &args.name.table;
    let regions = client
        .admin()
        .compact_table(table, args.family, args.major)
        .await?;
    output.answer(
        format_args!("asked for {table}: {}", counted(regions as u64, "region")),
        || json!({ "table": table.as_str(), "done": "compaction asked for", "regions": regions }),
    );
    Ok(exit::DONE)
}

async fn move_region<E: Env>(
    client: &Client<E>,
    args: MoveArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let table = &args.table;
    let admin = client.admin();
    admin
        .move_region(table, &args.row, args.to.as_ref())
        .await?;
    let now = client.locate(table, &args.row, true).await?;
    let region = now.region.encoded_name();
    output.answer(
        format_args!("region {region} is on {}", now.server),
        || json!({ "region": region.as_str(), "server": now.server.to_string() }),
    );
    Ok(exit::DONE)
}

async fn merge<E: Env>(client: &Client<E>, args: MergeArgs, output: &mut Output<'_>) -> Result<u8> {
    let table = &args.table;
    let admin = client.admin();
    let regions = admin.merge_regions(table, &args.from, &args.to).await?;
    output.answer(
        format_args!("merged {} of {table}", counted(regions as u64, "region")),
        || json!({ "table": table.as_str(), "done": "merged", "regions": regions }),
    );
    Ok(exit::DONE)
}

async fn balance<E: Env>(client: &Client<E>, dry_run: bool, output: &mut Output<'_>) -> Result<u8> {
    let outcome = client.admin().balance(dry_run).await?;
    let moves = if dry_run {
        outcome.moves_planned
    } else {
        outcome.moves_made
    };
    let text = match (outcome.ran, dry_run, moves) {
        (false, ..) => "did not run: the balancer is off, or regions are in transition".to_owned(),
        (true, true, Some(moves)) => format!("would move {}", counted(moves.into(), "region")),
        (true, false, Some(moves)) => format!("moved {}", counted(moves.into(), "region")),
        (true, _, None) => "balanced".to_owned(),
    };
    output.answer(text, || {
        json!({
            "ran": outcome.ran,
            "moves_planned": outcome.moves_planned,
            "moves_made": outcome.moves_made,
        })
    });
    Ok(if outcome.ran {
        exit::DONE
    } else {
        exit::FAILED
    })
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
    if args.rule.is_given() {
        let target = args
            .rule
            .open(client, &args.table, &args.connect, None)
            .await?;
        return create_all(target, &table, &splits, output).await;
    }
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

/// Makes every physical table of a logical one.
async fn create_all<E: Env>(
    target: Target<'_, E>,
    table: &TableDescriptor,
    splits: &[Bytes],
    output: &mut Output<'_>,
) -> Result<u8> {
    let Target::Sharded(opened) = target else {
        return Err(usage("a logical table needs --rule"));
    };
    let made = opened.table.create_tables(table, splits, |_| {}).await;
    opened.close().await;
    all_done("created", &table.name, made?, output)
}

/// Drops every physical table of a logical one.
async fn drop_all<E: Env>(
    client: &Client<E>,
    args: &DropArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let name = &args.name.table;
    if !args.force {
        return Err(usage(format!(
            "{name} is many tables, which would have to be disabled one by one: --force disables and drops all"
        )));
    }
    let target = args
        .rule
        .open(client, name, &args.name.connect, None)
        .await?;
    let Target::Sharded(opened) = target else {
        return Err(usage("a logical table needs --rule"));
    };
    let dropped = opened.table.drop_tables(|_| {}).await;
    opened.close().await;
    all_done("dropped", name, dropped?, output)
}

fn all_done(what: &str, name: &TableName, made: Made, output: &mut Output<'_>) -> Result<u8> {
    let before = match made.before {
        0 => String::new(),
        before => format!(" ({before} were so before)"),
    };
    output.answer(
        format_args!("{what} {name}: {}{before}", counted(made.done as u64, "table")),
        || json!({ "table": name.as_str(), "done": what, "tables": made.done, "before": made.before }),
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

pub(super) fn state_text(state: Option<TableState>) -> &'static str {
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
