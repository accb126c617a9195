//! The cluster as the master sees it (hbase-protocol.md 8.7).

use cadastre_env::Env;
use cadastre_rpc::ha::MasterService;
use cadastre_types::{Result, ServerName, TableName};
use cadastre_wire::{convert, pb};

use super::Admin;

/// A region server as the master sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveServer {
    /// Which.
    pub server: ServerName,
    /// Regions it serves.
    pub regions: usize,
    /// Requests per second.
    pub requests_per_second: u64,
    /// Requests since its start.
    pub requests_total: u64,
    /// Memory in use, MB.
    pub heap_used_mb: u32,
    /// Memory at most, MB.
    pub heap_max_mb: u32,
}

/// Regions of one table by state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRegions {
    /// Table.
    pub table: TableName,
    /// Served.
    pub open: u32,
    /// All.
    pub total: u32,
}

/// The cluster as the master sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// HBase version that it speaks.
    pub version: String,
    /// Id.
    pub cluster_id: String,
    /// Active master.
    pub master: Option<ServerName>,
    /// Standby masters.
    pub backup_masters: Vec<ServerName>,
    /// Region servers.
    pub live_servers: Vec<LiveServer>,
    /// Servers that died.
    pub dead_servers: Vec<ServerName>,
    /// Regions that are on their way.
    pub regions_in_transition: usize,
    /// Regions by table.
    pub tables: Vec<TableRegions>,
}

impl<E: Env> Admin<E> {
    /// The cluster as the master sees it.
    ///
    /// # Errors
    /// What the master says.
    pub async fn cluster_status(&self) -> Result<ClusterStatus> {
        let request = pb::GetClusterStatusRequest {
            options: Vec::new(),
        };
        let answer = self.master().get_cluster_status(request).await?;
        cluster_status(answer.cluster_status)
    }
}

fn cluster_status(status: pb::ClusterStatus) -> Result<ClusterStatus> {
    let servers = |names: &[pb::ServerName]| -> Result<Vec<ServerName>> {
        names.iter().map(convert::server_name).collect()
    };
    let live_servers = status
        .live_servers
        .iter()
        .map(|live| {
            let load = &live.server_load;
            Ok(LiveServer {
                server: convert::server_name(&live.server)?,
                regions: load.region_loads.len(),
                requests_per_second: load.number_of_requests(),
                requests_total: load.total_number_of_requests(),
                heap_used_mb: load.used_heap_mb(),
                heap_max_mb: load.max_heap_mb(),
            })
        })
        .collect::<Result<_>>()?;
    let tables = status
        .table_region_states_count
        .iter()
        .map(|count| {
            Ok(TableRegions {
                table: convert::table_name(&count.table_name)?,
                open: count.region_states_count.open_regions,
                total: count.region_states_count.total_regions,
            })
        })
        .collect::<Result<_>>()?;
    Ok(ClusterStatus {
        version: status
            .hbase_version
            .map(|version| version.version)
            .unwrap_or_default(),
        cluster_id: status
            .cluster_id
            .map(|id| id.cluster_id)
            .unwrap_or_default(),
        master: status
            .master
            .as_ref()
            .map(convert::server_name)
            .transpose()?,
        backup_masters: servers(&status.backup_masters)?,
        live_servers,
        dead_servers: servers(&status.dead_servers)?,
        regions_in_transition: status.regions_in_transition.len(),
        tables,
    })
}
