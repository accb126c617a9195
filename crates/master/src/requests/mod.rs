//! What clients ask of a master: `MasterService`, `HbckService` and `ClientMetaService` (hbase-protocol.md 7.2, 8). One file per topic; each
//! function decodes a call, checks it against the catalog, and answers or begins a procedure.
//!
//! What is not there is refused as HBase refuses an unknown method, so that every client shows it instead of retrying.

mod absent;
mod alter;
mod cluster_status;
mod flush;
mod hbck;
mod listing;
mod namespaces;
mod procedures;
mod regions;
mod registry;
mod split_merge;
mod switches;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_rpc::{Call, Handler, Reply};
use cadastre_types::{Code, Error, RegionInfo, Result, TableName};
use cadastre_wire::{Message, Service, convert, pb};

use crate::active::Active;
use crate::procedure::{Lock, Nonce, Operation, ProcedureId};
use crate::start::{Phase, Shared};
use crate::world::World;

/// How long a call waits for the procedure it has begun before it answers with the procedure's id: most are done by then, and the
/// client's first question for the result finds it. Without it clients that poll pause longer than the work takes.
const PROMPT: Duration = Duration::from_millis(50);

/// Start key of the region that stands for a table's large objects (HBase's `MobConstants.MOB_REGION_NAME`).
const LARGE_OBJECTS: &[u8] = b".mob";

/// The master as `rpc` sees it.
pub(crate) struct Dispatch<E: Env>(pub(crate) Arc<Shared<E>>);

impl<E: Env> Handler for Dispatch<E> {
    fn serves(&self, service: Service) -> bool {
        matches!(
            service,
            Service::Master | Service::ClientMeta | Service::Admin | Service::Hbck
        )
    }

    fn cluster_id(&self) -> String {
        self.0.cluster_id.clone()
    }

    async fn call(&self, call: Call) -> Result<Reply> {
        match call.service {
            Service::ClientMeta => registry::call(&self.0, &call).await,
            Service::Admin => server_call(&self.0, &call),
            Service::Hbck => hbck::call(self.0.active()?, &call).await,
            _ => master_call(&self.0, &call).await,
        }
    }
}

/// `AdminService`: HBase's master is a server, too, which serves no region.
fn server_call<E: Env>(shared: &Arc<Shared<E>>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        // There is nothing that a running master could read anew; HBase's answer is empty, too.
        "UpdateConfiguration" => Ok(reply(&pb::UpdateConfigurationResponse::default())),
        "GetServerInfo" => Ok(reply(&pb::GetServerInfoResponse {
            server_info: pb::ServerInfo {
                server_name: convert::server_name_pb(&shared.name),
                webui_port: None,
            },
        })),
        "GetOnlineRegion" => Ok(reply(&pb::GetOnlineRegionResponse::default())),
        "GetRegionLoad" => Ok(reply(&pb::GetRegionLoadResponse::default())),
        "GetRegionInfo" => large_objects(shared, call),
        "CompactRegion" | "FlushRegion" | "GetStoreFile" => Err(serves_no_region(shared)),
        _ => Err(unknown(call)),
    }
}

fn serves_no_region<E: Env>(shared: &Arc<Shared<E>>) -> Error {
    Error::new(
        Code::NotServingRegion,
        format!("{} is a master and serves no region", shared.name),
    )
}

/// Clients ask the master how the compaction of a table's large objects goes, by a region of that name which nobody serves. Large
/// objects lie in the regions' own files here, so none goes on.
fn large_objects<E: Env>(shared: &Arc<Shared<E>>, call: &Call) -> Result<Reply> {
    let request: pb::GetRegionInfoRequest = param(call)?;
    let name = request.region.value;
    let parts = cadastre_wire::meta::row_parts(&name);
    if parts
        .rest
        .is_none_or(|rest| rest.start_key != LARGE_OBJECTS)
    {
        return Err(serves_no_region(shared));
    }
    let table = TableName::parse(&String::from_utf8_lossy(parts.table))?;
    let start = Bytes::from_static(LARGE_OBJECTS);
    let info = RegionInfo::new(table, start, Bytes::new(), 0);
    Ok(reply(&pb::GetRegionInfoResponse {
        region_info: convert::region_info_pb(&info),
        compaction_state: Some(pb::get_region_info_response::CompactionState::None as i32),
        ..Default::default()
    }))
}

async fn master_call<E: Env>(shared: &Arc<Shared<E>>, call: &Call) -> Result<Reply> {
    if call.method == "IsMasterRunning" {
        let phase = *shared.phase.borrow();
        if phase == Phase::StandBy {
            shared.active()?;
        }
        return Ok(reply(&pb::IsMasterRunningResponse {
            is_master_running: phase != Phase::Stopped,
        }));
    }
    let active = shared.active()?;
    match call.method.as_str() {
        "Shutdown" | "StopMaster" => stop(shared, call),
        "GetClusterStatus" => cluster_status::cluster_status(shared, active, call).await,
        method if method.starts_with("Get") || method.starts_with("List") => {
            question(active, call).await
        }
        _ => work(active, call).await,
    }
}

/// The end of the cluster, or of this master: on one machine they are one process.
fn stop<E: Env>(shared: &Arc<Shared<E>>, call: &Call) -> Result<Reply> {
    tracing::info!(method = call.method, by = call.peer.user, "asked to stop");
    shared.stop_asked.send_replace(true);
    // Both answers are empty.
    Ok(Reply::default())
}

/// Calls that only look.
async fn question<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        "GetSchemaAlterStatus" => alter::status(active, call),
        "GetTableDescriptors" => listing::descriptors(active, call),
        "GetTableNames" => listing::names(active, call),
        "GetTableState" => listing::state(active, call),
        "ListTableDescriptorsByNamespace" => listing::descriptors_by_namespace(active, call),
        "ListTableNamesByNamespace" => listing::names_by_namespace(active, call),
        "ListTableDescriptorsByState" => listing::descriptors_by_state(active, call),
        "ListTableNamesByState" => listing::names_by_state(active, call),
        "GetNamespaceDescriptor" => namespaces::descriptor(active, call),
        "ListNamespaceDescriptors" => Ok(namespaces::descriptors(active)),
        "ListNamespaces" => Ok(namespaces::names(active)),
        "GetProcedures" => Ok(procedures::procedures(active)),
        "GetLogEntries" => procedures::log_entries(call),
        // Lists that are empty because what they list does not exist here: an empty message.
        "GetLocks" => Ok(procedures::locks(active)),
        "ListReplicationPeers"
        | "GetCompletedSnapshots"
        | "GetReplicationPeerModificationProcedures"
        | "GetSpaceQuotaRegionSizes"
        | "GetQuotaStates" => Ok(Reply::default()),
        "GetReplicationPeerConfig" => absent::peer(call),
        "ListDecommissionedRegionServers" => Ok(regions::decommissioned(active)),
        _ => Err(unknown(call)),
    }
}

/// Calls that change something, and those with names of their own.
async fn work<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        "CreateTable" => tables::create(active, call).await,
        "EnableTable" => tables::enable(active, call).await,
        "DisableTable" => tables::disable(active, call).await,
        "DeleteTable" => tables::delete(active, call).await,
        "truncateTable" => tables::truncate(active, call).await,
        "ModifyTable" => alter::modify_table(active, call).await,
        "AddColumn" => alter::add_family(active, call).await,
        "DeleteColumn" => alter::delete_family(active, call).await,
        "ModifyColumn" => alter::modify_family(active, call).await,
        "ModifyTableStoreFileTracker" => alter::table_tracker(active, call).await,
        "ModifyColumnStoreFileTracker" => alter::family_tracker(active, call).await,
        "ExecMasterService" => exec_service(call),
        "CreateNamespace" => namespaces::create(active, call).await,
        "ModifyNamespace" => namespaces::modify(active, call).await,
        "DeleteNamespace" => namespaces::delete(active, call).await,
        "FlushTable" => flush::flush_table(active, call).await,
        "ExecProcedure" => flush::exec_procedure(active, call).await,
        "IsProcedureDone" => flush::is_procedure_done(active, call),
        "getProcedureResult" => procedures::result(active, call).await,
        "AbortProcedure" => procedures::abort(call),
        "MoveRegion" => regions::move_region(active, call).await,
        "Balance" => regions::balance(active, call).await,
        "AssignRegion" => regions::assign_region(active, call).await,
        "UnassignRegion" => regions::unassign_region(active, call).await,
        "OfflineRegion" => regions::offline_region(active, call),
        "TruncateRegion" => regions::truncate_region(active, call).await,
        "SplitRegion" => split_merge::split(active, call).await,
        "MergeTableRegions" => split_merge::merge(active, call).await,
        "RunCatalogScan" => split_merge::run_catalog_scan(active).await,
        "DecommissionRegionServers" => regions::decommission(active, call).await,
        "RecommissionRegionServer" => regions::recommission(active, call).await,
        "getLastMajorCompactionTimestamp" => regions::major_compaction(active, call).await,
        "getLastMajorCompactionTimestampForRegion" => {
            regions::major_compaction_of_region(active, call).await
        }
        "RemoveReplicationPeer"
        | "EnableReplicationPeer"
        | "DisableReplicationPeer"
        | "IsReplicationPeerEnabled" => absent::peer(call),
        "DeleteSnapshot" | "RestoreSnapshot" => absent::snapshot(call),
        "IsSnapshotDone" => absent::snapshot_done(call),
        // What the master writes is durable before it is answered: nothing waits to be flushed.
        "FlushMasterStore" => Ok(reply(&pb::FlushMasterStoreResponse {})),
        "ClearDeadServers" => regions::clear_dead_servers(active, call),
        "IsMasterInMaintenanceMode" => Ok(reply(&pb::IsInMaintenanceModeResponse {
            in_maintenance_mode: false,
        })),
        "getSecurityCapabilities" => Ok(reply(&pb::SecurityCapabilitiesResponse {
            capabilities: vec![
                pb::security_capabilities_response::Capability::SimpleAuthentication as i32,
            ],
        })),
        _ => switches::call(active, call).await,
    }
}

/// There is no endpoint of the master.
fn exec_service(call: &Call) -> Result<Reply> {
    let request: pb::CoprocessorServiceRequest = param(call)?;
    Err(Error::new(
        Code::UnknownProtocol,
        format!(
            "No registered Master Coprocessor Endpoint found for {}",
            request.call.service_name
        ),
    ))
}

/// Whether regions that were replaced are forgotten without being asked.
pub(crate) fn janitor_is_on<W: World>(active: &Active<W>) -> bool {
    switches::get(active, switches::CATALOG_JANITOR)
}

fn unknown(call: &Call) -> Error {
    Error::unsupported(format_args!("{}.{}", call.service.name(), call.method))
}

/// Decodes the parameter of a call.
fn param<M: Default + Message>(call: &Call) -> Result<M> {
    // A message that cannot be read is the caller's fault, and no retry makes it better.
    cadastre_wire::decode(call.param.clone()).map_err(|error| Error::invalid(error.message()))
}

/// An answer without cells.
fn reply<M: Message>(message: &M) -> Reply {
    Reply {
        body: cadastre_wire::encode(message),
        cells: Bytes::new(),
    }
}

/// A table that clients may change: those that the cluster itself keeps are not. Others in their namespace are, as in HBase.
fn user_table(name: &pb::TableName, doing: &str) -> Result<TableName> {
    let table = convert::table_name(name)?;
    check_user_table(&table, doing)?;
    Ok(table)
}

fn check_user_table(table: &TableName, doing: &str) -> Result<()> {
    if *table == TableName::meta() || *table == TableName::namespaces() {
        return Err(Error::new(
            Code::Constraint,
            format!("Cannot {doing} catalog table {table}"),
        ));
    }
    Ok(())
}

fn nonce(group: Option<u64>, nonce: Option<u64>) -> Nonce {
    Nonce {
        group: group.unwrap_or(0),
        nonce: nonce.unwrap_or(0),
    }
}

/// Begins a procedure on a table and waits for it a moment.
async fn begin<W: World>(
    active: &Active<W>,
    call: &Call,
    lock: Lock,
    nonce: Nonce,
    plan: impl FnOnce(&crate::catalog::Catalog, u64) -> Result<Operation> + Send,
) -> Result<ProcedureId> {
    let id = active.submit(lock, nonce, &call.peer.user, plan).await?;
    active.result(id, PROMPT).await;
    Ok(id)
}

#[cfg(test)]
mod tests;
