//! `rule diff --scan`: what would move of the rows that there are, by walking the tables of a live cluster.

use cadastre_client::Client;
use cadastre_client::sharded::{Census, Step, census};
use cadastre_env::Env;
use cadastre_sharding::versions::Both;
use cadastre_types::Result;
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;

use super::diff::{self, DiffArgs};
use crate::commands::connect::{ClusterArg, cluster};
use crate::commands::output::Output;
use crate::commands::progress::Meter;
use crate::commands::{exit, sharded};

/// Which tables are walked; part of commands that walk.
#[derive(Debug, Clone, Args)]
pub(super) struct ScanArgs {
    /// Walk the rows of the version in force on a live cluster, in place of records from a file
    #[arg(long, conflicts_with = "input")]
    pub(super) scan: bool,
    #[command(flatten)]
    pub(super) clusters: ClustersArgs,
}

/// Clusters that places of a rule name.
#[derive(Debug, Clone, Args)]
pub(super) struct ClustersArgs {
    /// A cluster that the rule's places name; may be given several times
    #[arg(long = "cluster", value_name = "NAME=HOST:PORT,…[/PARENT]", value_parser = cluster, help_heading = "Connection")]
    pub(super) clusters: Vec<ClusterArg>,
}

/// `rule diff OLD NEW --scan`.
pub(super) async fn diff_scan<E: Env>(
    client: &Client<E>,
    args: &DiffArgs,
    output: &mut Output<'_>,
) -> Result<u8> {
    let both = diff::both(&args.old, &args.new).map_err(super::Stop::into_error)?;
    let clusters = &args.scan.clusters.clusters;
    let (all, others) = sharded::connect_all(client, clusters, &args.connect).await?;
    let counted = walk(client, &all, &both, false).await;
    for other in others {
        other.close().await;
    }
    let counted = counted?;
    print(&counted, output);
    Ok(match counted.diff.has_refused() {
        true => exit::NOTHING,
        false => exit::DONE,
    })
}

/// Walks the tables, with a bar for whoever looks.
pub(super) async fn walk<'b, E: Env>(
    client: &Client<E>,
    clusters: &BTreeMap<String, Client<E>>,
    both: &'b Both,
    only_moving: bool,
) -> Result<Census<'b>> {
    let clock = client.env().clock().clone();
    let mut meter = Meter::new(clock, true, 0.0);
    let counted = census(clusters, both, only_moving, |step: &Step<'_>| {
        meter.tell(step.rows, || {
            // Each table counts the same, and a row by its first bytes.
            let in_table = share_of_key(step.row);
            Some((step.tables_done as f64 + in_table) / step.tables.max(1) as f64)
        });
    })
    .await;
    meter.end();
    counted
}

/// How far a key is between the lowest and the highest there can be.
fn share_of_key(key: &[u8]) -> f64 {
    let first = key.iter().take(6);
    let share = first
        .rev()
        .fold(0.0, |sum, byte| (sum + f64::from(*byte)) / 256.0);
    share.clamp(0.0, 1.0)
}

pub(super) fn print(counted: &Census<'_>, output: &mut Output<'_>) {
    diff::print(&counted.diff, output);
    let missing = match counted.missing {
        0 => String::new(),
        n => format!(", {n} do not exist"),
    };
    let strays = match counted.strays {
        0 => String::new(),
        n => format!(
            "; {n} rows are not where the version in force places them, and were not counted"
        ),
    };
    output.answer(
        format!("{} tables walked{missing}{strays}", counted.tables),
        || json!({ "tables": counted.tables, "missing": counted.missing, "strays": counted.strays }),
    );
}
