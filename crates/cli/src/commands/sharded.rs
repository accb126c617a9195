//! `--rule`: the table of a command is a logical one, whose rows lie in many tables by a rule. Commands on rows work on a [`Target`],
//! whichever of both it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cadastre_client::sharded::{
    HOLD_MS_DEFAULT, Order, RuleCenter, RuleWatch, ScanOf, ShardedOptions, ShardedScanner,
    ShardedTable,
};
use cadastre_client::{Client, Row, Scanner};
use cadastre_env::Env;
use cadastre_sharding::versions::{RuleSet, State};
use cadastre_sharding::{Program, Unbounded};
use cadastre_types::{Error, Get, Mutation, Result, Scan, TableName};
use clap::{Args, ValueEnum};

use super::connect::{ClusterArg, ConnectArgs, cluster};
use super::output::usage;
use super::rule::{Stop, source};

/// What makes a table a logical one; part of each command on rows.
#[derive(Debug, Clone, Args)]
pub(super) struct RuleArgs {
    /// The table is spread over many by this rule: a file, or the name of a published one
    #[arg(long, value_name = "FILE|NAME", help_heading = "Sharded tables")]
    rule: Option<String>,
    /// A cluster that the rule's places name; may be given several times
    #[arg(
        long = "cluster",
        value_name = "NAME=HOST:PORT,…[/PARENT]",
        value_parser = cluster,
        help_heading = "Sharded tables",
        requires = "rule"
    )]
    clusters: Vec<ClusterArg>,
    /// How long rows that move to another place are held before they are refused, ms
    #[arg(
        long,
        value_name = "MS",
        default_value_t = HOLD_MS_DEFAULT,
        help_heading = "Sharded tables",
        hide_default_value = true
    )]
    hold_ms: u64,
}

/// Which rows of a logical table, and in which order; part of the commands that read many.
#[derive(Debug, Clone, Args)]
pub(super) struct ConditionArgs {
    /// Only rows whose fields meet this condition, in the words of the rule language
    #[arg(
        long = "where",
        value_name = "CONDITION",
        help_heading = "Sharded tables",
        requires = "rule"
    )]
    condition: Option<String>,
    /// Rows by their keys, or table by table in the rule's order
    #[arg(
        long,
        value_name = "ORDER",
        default_value = "row",
        help_heading = "Sharded tables"
    )]
    order: OrderArg,
    /// What to do if nothing bounds the tables
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "warn",
        help_heading = "Sharded tables"
    )]
    unbounded: UnboundedArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    /// By the rows' keys
    Row,
    /// Table by table
    Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnboundedArg {
    /// Visit all tables
    Allow,
    /// Visit all tables and say why
    Warn,
    /// Refuse, and say why
    Refuse,
}

impl RuleArgs {
    /// Opens the command's table.
    pub(super) async fn open<'c, E: Env>(
        &self,
        client: &'c Client<E>,
        table: &TableName,
        connect: &ConnectArgs,
        condition: Option<&ConditionArgs>,
    ) -> Result<Target<'c, E>> {
        let Some(rule) = &self.rule else {
            return Ok(Target::Plain(client, table.clone()));
        };
        let options = ShardedOptions {
            unbounded: match condition.map(|it| it.unbounded) {
                None | Some(UnboundedArg::Warn) => Unbounded::Warn,
                Some(UnboundedArg::Allow) => Unbounded::Allow,
                Some(UnboundedArg::Refuse) => Unbounded::Refuse,
            },
            hold_ms: self.hold_ms,
        };
        let opened = open_table(client, rule, &self.clusters, connect, options).await?;
        match opened.name == table.as_str() {
            true => Ok(Target::Sharded(Box::new(opened))),
            false => {
                let name = opened.name.clone();
                opened.close().await;
                Err(usage(format!(
                    "the rule is of the table {name}, not {table}"
                )))
            }
        }
    }

    /// Whether the table is a logical one.
    pub(super) fn is_given(&self) -> bool {
        self.rule.is_some()
    }
}

/// A logical table and the clients that it needs.
pub(super) struct Opened<E: Env> {
    pub(super) table: ShardedTable<E>,
    pub(super) name: String,
    others: Vec<Client<E>>,
}

impl<E: Env> Opened<E> {
    pub(super) async fn close(self) {
        self.table.close().await;
        for client in self.others {
            client.close().await;
        }
    }
}

/// Clients of the clusters that places can name; the command's own for places that name none.
pub(super) async fn connect_all<E: Env>(
    client: &Client<E>,
    clusters: &[ClusterArg],
    connect: &ConnectArgs,
) -> Result<(BTreeMap<String, Client<E>>, Vec<Client<E>>)> {
    let mut all = BTreeMap::from([(String::new(), client.clone())]);
    let mut others = Vec::new();
    for cluster in clusters {
        let other = connect.open_cluster(client.env().clone(), cluster).await?;
        others.push(other.clone());
        if all.insert(cluster.name.clone(), other).is_some() {
            return Err(usage(format!("cluster {} is given twice", cluster.name)));
        }
    }
    Ok((all, others))
}

/// Opens a logical table by a rule's file or name. A file must be what is published, if a rule of its name is.
pub(super) async fn open_table<E: Env>(
    client: &Client<E>,
    rule: &str,
    clusters: &[ClusterArg],
    connect: &ConnectArgs,
    options: ShardedOptions,
) -> Result<Opened<E>> {
    let file = is_file(rule).then(|| PathBuf::from(rule));
    let program = file.as_deref().map(program).transpose()?;
    let name = program.as_ref().map_or(rule, |it| it.rule().name.as_str());
    let name = name.to_owned();
    let published = RuleCenter::published(client, &name).await?;
    let (all, others) = connect_all(client, clusters, connect).await?;
    let table = match (program, published) {
        (Some(program), None) => ShardedTable::fixed(Arc::new(program), all, options)?,
        (program, Some(published)) => {
            if let (Some(program), Some(file)) = (&program, &file) {
                same_as_published(program, file, &published)?;
            }
            let watch = RuleWatch::start(client, &name, &label());
            ShardedTable::watched(watch, all, options).await?
        }
        (None, None) => {
            return Err(Error::invalid(format!(
                "{rule} is no file, and no rule of this name is published: `cadastre rule publish FILE` publishes one"
            )));
        }
    };
    Ok(Opened {
        table,
        name,
        others,
    })
}

/// Names of rules are words; everything else is a file, and so is a word that is one.
pub(super) fn is_file(rule: &str) -> bool {
    rule.contains(['.', '/']) || Path::new(rule).is_file()
}

/// Reads and compiles a rule's file.
pub(super) fn program(path: &Path) -> Result<Program> {
    source::program(path).map_err(Stop::into_error)
}

/// What publishers are told about this process.
pub(super) fn label() -> String {
    format!("cadastre, process {}", std::process::id())
}

/// A node refuses a rule whose hash differs from the published one.
fn same_as_published(program: &Program, file: &Path, published: &RuleSet) -> Result<()> {
    let known = match published.state() {
        State::One(current) => vec![current],
        State::Two { current, next } => vec![current, next],
    };
    if known.iter().any(|it| it.hash == program.hash()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the rule {} is published, as version {} with the hash {}; {} is version {} with the hash {}. `cadastre rule publish` publishes a new \
         version; --rule {} goes by the published one",
        published.name(),
        published.current().version,
        published.current().hash,
        file.display(),
        program.rule().version,
        program.hash(),
        published.name()
    )))
}

/// What a command on rows works on.
pub(super) enum Target<'c, E: Env> {
    /// A table.
    Plain(&'c Client<E>, TableName),
    /// A logical table.
    Sharded(Box<Opened<E>>),
}

/// A scan of either.
pub(super) enum AnyScanner<E: Env> {
    Plain(Box<Scanner<E>>),
    Sharded(Box<ShardedScanner<E>>),
}

impl<E: Env> AnyScanner<E> {
    pub(super) async fn next(&mut self) -> Result<Option<Row>> {
        match self {
            Self::Plain(scanner) => scanner.next().await,
            Self::Sharded(scanner) => scanner.next().await,
        }
    }

    /// How far it has come, if of the table that is read now so much is done.
    pub(super) fn share(&self, in_table: f64) -> f64 {
        match self {
            Self::Plain(_) => in_table,
            Self::Sharded(scanner) => scanner.share(in_table),
        }
    }

    pub(super) async fn close(self) {
        match self {
            Self::Plain(scanner) => scanner.close().await,
            Self::Sharded(scanner) => scanner.close().await,
        }
    }
}

impl<E: Env> Target<'_, E> {
    pub(super) async fn get(&self, get: &Get) -> Result<Row> {
        match self {
            Self::Plain(client, table) => client.get(table, get).await,
            Self::Sharded(opened) => opened.table.get(get).await,
        }
    }

    pub(super) async fn mutate(&self, mutation: Mutation) -> Result<Row> {
        match self {
            Self::Plain(client, table) => client.mutate(table, mutation).await,
            Self::Sharded(opened) => opened.table.mutate(mutation).await,
        }
    }

    pub(super) async fn increment(
        &self,
        row: Bytes,
        (family, qualifier): (Bytes, Bytes),
        delta: i64,
    ) -> Result<i64> {
        match self {
            Self::Plain(client, table) => {
                client.increment(table, row, family, qualifier, delta).await
            }
            Self::Sharded(opened) => {
                let table = &opened.table;
                table.increment(row, family, qualifier, delta).await
            }
        }
    }

    pub(super) async fn append(
        &self,
        row: Bytes,
        (family, qualifier): (Bytes, Bytes),
        value: Bytes,
    ) -> Result<Bytes> {
        match self {
            Self::Plain(client, table) => client.append(table, row, family, qualifier, value).await,
            Self::Sharded(opened) => {
                let table = &opened.table;
                table.append(row, family, qualifier, value).await
            }
        }
    }

    #[allow(clippy::print_stderr, reason = "a warning beside the command's answer")]
    pub(super) async fn scan(
        &self,
        scan: Scan,
        limit: Option<u64>,
        condition: &ConditionArgs,
    ) -> Result<AnyScanner<E>> {
        match self {
            Self::Plain(client, table) => {
                let scanner = client.scan_limited(table, scan, limit)?;
                Ok(AnyScanner::Plain(Box::new(scanner)))
            }
            Self::Sharded(opened) => {
                let of = ScanOf {
                    condition: condition.condition.clone(),
                    limit,
                    order: match condition.order {
                        OrderArg::Row => Order::Row,
                        OrderArg::Rule => Order::Rule,
                    },
                    ..ScanOf::of(scan)
                };
                let scanner = opened.table.scan(of).await?;
                if let Some(cause) = scanner.warning() {
                    eprintln!(
                        "warning: {} tables are visited: nothing bounds them, because of {cause}",
                        scanner.places().len()
                    );
                }
                Ok(AnyScanner::Sharded(Box::new(scanner)))
            }
        }
    }

    /// Ends what the table needs of its own.
    pub(super) async fn close(self) {
        if let Self::Sharded(opened) = self {
            opened.close().await;
        }
    }
}
