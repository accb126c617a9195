//! `cadastre status`.

use cadastre_client::{Client, ClusterStatus};
use cadastre_env::Env;
use cadastre_types::{Result, ServerName};
use clap::Args;
use serde_json::json;

use super::connect::ConnectArgs;
use super::exit;
use super::output::{Output, counted};

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

pub(super) async fn status<E: Env>(client: &Client<E>, output: &mut Output<'_>) -> Result<u8> {
    let status = client.admin().cluster_status().await?;
    if output.is_json() {
        output.line(status_json(&status));
    } else {
        print(&status, output);
    }
    Ok(exit::DONE)
}

fn status_json(status: &ClusterStatus) -> serde_json::Value {
    let names =
        |servers: &[ServerName]| servers.iter().map(ToString::to_string).collect::<Vec<_>>();
    json!({
        "version": status.version,
        "cluster_id": status.cluster_id,
        "master": status.master.as_ref().map(ToString::to_string),
        "backup_masters": names(&status.backup_masters),
        "dead_servers": names(&status.dead_servers),
        "regions_in_transition": status.regions_in_transition,
        "region_servers": status.live_servers.iter().map(|live| json!({
            "server": live.server.to_string(),
            "regions": live.regions,
            "requests_per_second": live.requests_per_second,
            "requests_total": live.requests_total,
            "heap_used_mb": live.heap_used_mb,
            "heap_max_mb": live.heap_max_mb,
        })).collect::<Vec<_>>(),
        "tables": status.tables.iter().map(|table| json!({
            "table": table.table.as_str(),
            "regions": table.total,
            "open": table.open,
        })).collect::<Vec<_>>(),
    })
}

fn print(status: &ClusterStatus, output: &mut Output<'_>) {
    output.line(format_args!(
        "cluster {}, HBase {}",
        status.cluster_id, status.version
    ));
    let mut rows = vec![vec![
        "master".to_owned(),
        status
            .master
            .as_ref()
            .map_or("none".to_owned(), ServerName::to_string),
    ]];
    for standby in &status.backup_masters {
        rows.push(vec!["standby master".to_owned(), standby.to_string()]);
    }
    for live in &status.live_servers {
        rows.push(vec![
            "region server".to_owned(),
            live.server.to_string(),
            counted(live.regions as u64, "region"),
            format!("{} requests/s", live.requests_per_second),
        ]);
        // Servers that do not report their memory say 0.
        if live.heap_max_mb > 0
            && let Some(row) = rows.last_mut()
        {
            row.push(format!("{} of {} MB", live.heap_used_mb, live.heap_max_mb));
        }
    }
    for dead in &status.dead_servers {
        rows.push(vec!["dead server".to_owned(), dead.to_string()]);
    }
    for table in &status.tables {
        rows.push(vec![
            "table".to_owned(),
            table.table.to_string(),
            format!("{} of {} regions open", table.open, table.total),
        ]);
    }
    output.table(&rows);
    if status.regions_in_transition > 0 {
        output.line(format_args!(
            "{} in transition",
            counted(status.regions_in_transition as u64, "region")
        ));
    }
}
