//! `GetClusterStatus`: what the master knows, and the loads of the live servers, asked when they are wanted.
//!
//! Fields 14 and 15 changed their meaning between 2.6 and 3.0 (hbase-protocol.md 8.7): they are never sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Result, ServerName, TableState};
use cadastre_wire::{convert, pb};
use futures::StreamExt;

use super::{param, reply};
use crate::active::Active;
use crate::catalog::RegionState;
use crate::start::Shared;
use crate::world::World;

/// Servers asked for their loads at one time.
const ASKED_AT_ONCE: usize = 32;

/// The HBase version whose behaviour is offered; shown by the shell, compared by tools.
const HBASE_VERSION: &str = "2.6.4";

/// Which parts are wanted; no option means all.
struct Wanted(BTreeSet<i32>);

impl Wanted {
    fn has(&self, option: pb::Option) -> bool {
        self.0.is_empty() || self.0.contains(&(option as i32))
    }
}

pub(super) async fn cluster_status<E: Env, W: World>(
    shared: &Arc<Shared<E>>,
    active: &Active<W>,
    call: &Call,
) -> Result<Reply> {
    use pb::Option as Part;
    let request: pb::GetClusterStatusRequest = param(call)?;
    let wanted = Wanted(request.options.into_iter().collect());
    let live = active.world().servers().borrow().clone();
    let mut status = pb::ClusterStatus::default();
    if wanted.has(Part::HbaseVersion) {
        status.hbase_version = Some(pb::HBaseVersionFileContent {
            version: HBASE_VERSION.to_owned(),
        });
    }
    if wanted.has(Part::ClusterId) {
        status.cluster_id = Some(pb::ClusterId {
            cluster_id: shared.cluster_id.clone(),
        });
    }
    if wanted.has(Part::Master) {
        status.master = Some(convert::server_name_pb(&shared.name));
    }
    if wanted.has(Part::BackupMasters) {
        let backups = shared.znodes.servers_below("backup-masters").await?;
        status.backup_masters = backups.iter().map(convert::server_name_pb).collect();
    }
    if wanted.has(Part::ServersName) {
        status.servers_name = live.iter().map(convert::server_name_pb).collect();
    }
    if wanted.has(Part::BalancerOn) {
        status.balancer_on = Some(active.switch("balancer", true));
    }
    if wanted.has(Part::MasterInfoPort) {
        // There is none; HBase without one says so, too.
        status.master_info_port = Some(0);
    }
    known(active, &wanted, &mut status);
    if wanted.has(Part::LiveServers) {
        status.live_servers = live_servers(active, live).await;
    }
    Ok(reply(&pb::GetClusterStatusResponse {
        cluster_status: status,
    }))
}

/// What stands in the master's state.
fn known<W: World>(active: &Active<W>, wanted: &Wanted, status: &mut pb::ClusterStatus) {
    use pb::Option as Part;
    let state = active.state();
    if wanted.has(Part::DeadServers) {
        status.dead_servers = state.dead.keys().map(convert::server_name_pb).collect();
    }
    if wanted.has(Part::RegionsInTransition) {
        status.regions_in_transition = state
            .in_transition
            .values()
            .map(|(info, since_ms)| pb::RegionInTransition {
                spec: convert::region_specifier(info),
                region_state: pb::RegionState {
                    region_info: convert::region_info_pb(info),
                    state: pb::region_state::State::Opening as i32,
                    stamp: Some(*since_ms),
                },
            })
            .collect();
    }
    if wanted.has(Part::Tasks) {
        status.master_tasks = state
            .running
            .values()
            .map(|running| pb::ServerTask {
                description: running.operation.class_name(),
                status: running.step.to_owned(),
                state: pb::server_task::State::Running as i32,
                start_time: Some(running.ticket.submitted_ms),
                completion_time: None,
            })
            .collect();
    }
    if wanted.has(Part::TableToRegionsCount) {
        for (name, table) in state.catalog.tables() {
            let mut count = pb::RegionStatesCount::default();
            for region in state.catalog.regions_of(name) {
                count.total_regions += 1;
                match region.state {
                    RegionState::Open => count.open_regions += 1,
                    RegionState::Split => count.split_regions += 1,
                    RegionState::Closed if table.state == TableState::Disabled => {
                        count.closed_regions += 1;
                    }
                    RegionState::Closed => count.regions_in_transition += 1,
                }
            }
            status
                .table_region_states_count
                .push(pb::TableRegionStatesCount {
                    table_name: convert::table_name_pb(name),
                    region_states_count: count,
                });
        }
    }
}

/// Loads of the live servers. One that does not answer is shown with the regions that the master gave it.
async fn live_servers<W: World>(
    active: &Active<W>,
    live: BTreeSet<ServerName>,
) -> Vec<pb::LiveServerInfo> {
    let answers: BTreeMap<ServerName, pb::ServerLoad> = futures::stream::iter(live)
        .map(|server| async move {
            let load = match active.world().loads(&server).await {
                Ok(load) => load,
                Err(error) => {
                    tracing::warn!(%server, %error, "a server does not tell its load");
                    pb::ServerLoad {
                        region_loads: assigned(active, &server),
                        ..Default::default()
                    }
                }
            };
            (server, load)
        })
        .buffer_unordered(ASKED_AT_ONCE)
        .collect()
        .await;
    let now = active.world().wall_ms();
    answers
        .into_iter()
        .map(|(server, load)| {
            let sum = |count: fn(&pb::RegionLoad) -> u64| {
                load.region_loads.iter().map(count).sum::<u64>()
            };
            let reads = sum(pb::RegionLoad::read_requests_count);
            let writes = sum(pb::RegionLoad::write_requests_count);
            pb::LiveServerInfo {
                server: convert::server_name_pb(&server),
                server_load: pb::ServerLoad {
                    number_of_requests: Some(load.number_of_requests()),
                    total_number_of_requests: Some(reads + writes),
                    read_requests_count: Some(reads),
                    write_requests_count: Some(writes),
                    used_heap_mb: Some(load.used_heap_mb()),
                    max_heap_mb: Some(load.max_heap_mb()),
                    report_start_time: Some(server.start_code),
                    report_end_time: Some(now),
                    region_loads: load.region_loads,
                    ..Default::default()
                },
            }
        })
        .collect()
}

fn assigned<W: World>(active: &Active<W>, server: &ServerName) -> Vec<pb::RegionLoad> {
    active.with_catalog(|catalog| {
        catalog
            .regions()
            .filter(|region| region.open_on() == Some(server))
            .map(|region| pb::RegionLoad {
                region_specifier: convert::region_specifier(&region.info),
                ..Default::default()
            })
            .collect()
    })
}
