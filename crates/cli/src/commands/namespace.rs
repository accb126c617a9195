//! `cadastre namespace …`.

use std::collections::BTreeMap;

use cadastre_client::{Client, Namespace};
use cadastre_env::Env;
use cadastre_types::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::arguments::key_value;
use super::connect::ConnectArgs;
use super::output::{Output, usage};
use super::{EXIT_CODES, exit};

/// Work on namespaces.
#[derive(Debug, Subcommand)]
pub enum NamespaceCommand {
    /// Create a namespace
    #[command(after_help = format!("Example:\n  cadastre namespace create sales --set owner=kim\n\n{EXIT_CODES}"))]
    Create(CreateArgs),
    /// List namespaces
    #[command(after_help = format!("Example:\n  cadastre namespace list --json\n\n{EXIT_CODES}"))]
    List(ListArgs),
    /// Show a namespace's settings and tables
    #[command(after_help = format!("Example:\n  cadastre namespace describe sales\n\n{EXIT_CODES}"))]
    Describe(NameArgs),
    /// Change a namespace's settings
    #[command(after_help = format!("Example:\n  cadastre namespace alter sales --set owner=lee --unset note\n\n{EXIT_CODES}"))]
    Alter(AlterArgs),
    /// Remove an empty namespace
    #[command(after_help = format!("Example:\n  cadastre namespace drop sales\n\n{EXIT_CODES}"))]
    Drop(NameArgs),
}

impl NamespaceCommand {
    pub(super) fn connect(&self) -> &ConnectArgs {
        match self {
            Self::Create(args) => &args.name.connect,
            Self::List(args) => &args.connect,
            Self::Describe(args) | Self::Drop(args) => &args.connect,
            Self::Alter(args) => &args.name.connect,
        }
    }
}

/// Arguments of commands on one namespace.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Namespace
    name: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `namespace create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Setting; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    name: NameArgs,
}

/// Arguments of `namespace list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `namespace alter`.
#[derive(Debug, Args)]
pub struct AlterArgs {
    /// Setting to make or change; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Setting to remove; may be given several times
    #[arg(long = "unset", value_name = "KEY")]
    unset: Vec<String>,
    #[command(flatten)]
    name: NameArgs,
}

pub(super) async fn run<E: Env>(
    client: &Client<E>,
    command: NamespaceCommand,
    output: &mut Output<'_>,
) -> Result<u8> {
    let admin = client.admin();
    match command {
        NamespaceCommand::Create(args) => {
            let namespace = Namespace {
                name: args.name.name,
                configuration: args.set.into_iter().collect(),
            };
            admin.create_namespace(&namespace).await?;
            done(output, "created", &namespace.name);
        }
        NamespaceCommand::List(_) => {
            for namespace in admin.list_namespaces().await? {
                output.answer(&namespace.name, || namespace_json(&namespace));
            }
        }
        NamespaceCommand::Describe(args) => describe(client, &args.name, output).await?,
        NamespaceCommand::Alter(args) => {
            if args.set.is_empty() && args.unset.is_empty() {
                return Err(usage("nothing to alter: give --set or --unset"));
            }
            let mut namespace = admin.describe_namespace(&args.name.name).await?;
            namespace.configuration.extend(args.set);
            for key in &args.unset {
                if namespace.configuration.remove(key).is_none() {
                    return Err(usage(format!("{} has no setting '{key}'", namespace.name)));
                }
            }
            admin.modify_namespace(&namespace).await?;
            done(output, "altered", &namespace.name);
        }
        NamespaceCommand::Drop(args) => {
            admin.delete_namespace(&args.name).await?;
            done(output, "dropped", &args.name);
        }
    }
    Ok(exit::DONE)
}

fn done(output: &mut Output<'_>, what: &str, name: &str) {
    output.answer(
        format_args!("{what} {name}"),
        || json!({ "namespace": name, "done": what }),
    );
}

async fn describe<E: Env>(client: &Client<E>, name: &str, output: &mut Output<'_>) -> Result<()> {
    let admin = client.admin();
    let namespace = admin.describe_namespace(name).await?;
    let tables: Vec<String> = admin
        .list_tables(true)
        .await?
        .into_iter()
        .filter(|table| table.name.namespace() == name)
        .map(|table| table.name.to_string())
        .collect();
    if output.is_json() {
        let mut value = namespace_json(&namespace);
        value["tables"] = json!(tables);
        output.line(value);
        return Ok(());
    }
    output.line(&namespace.name);
    for (key, value) in &namespace.configuration {
        output.line(format_args!("  {key}={value}"));
    }
    for table in tables {
        output.line(format_args!("  table {table}"));
    }
    Ok(())
}

fn namespace_json(namespace: &Namespace) -> Value {
    let configuration: &BTreeMap<String, String> = &namespace.configuration;
    json!({ "namespace": namespace.name, "configuration": configuration })
}
