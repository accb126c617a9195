//! HBase's MasterService: every method of hbase-protocol.md 8.1, with its marks (P13), and typed calls of those whose messages `wire` has.
//!
//! HBase marks nothing itself. What is marked at-most-once here carries a nonce, which the master's procedures are known by; the caller
//! must set one, the same over all tries, as every client of ours does. What creates, removes, moves or triggers something without a nonce
//! is marked by neither.

use cadastre_wire::pb;

use super::method::{Method, Protocol};
use super::translate::translator;

/// The protocol.
pub static MASTER_SERVICE: Protocol = Protocol {
    name: "MasterService",
    interface: "org.apache.hadoop.hbase.shaded.protobuf.generated.MasterProtos$MasterService$BlockingInterface",
    version: 1,
    methods: METHODS,
};

const METHODS: &[Method] = &[
    Method::read("GetSchemaAlterStatus", "a"),
    Method::read("GetTableDescriptors", "a"),
    Method::read("GetTableNames", "a"),
    Method::read("GetClusterStatus", "a"),
    Method::read("IsMasterRunning", "a"),
    Method::at_most_once("AddColumn"),
    Method::at_most_once("DeleteColumn"),
    Method::at_most_once("ModifyColumn"),
    Method::unmarked("MoveRegion"),
    Method::at_most_once("MergeTableRegions"),
    Method::idempotent("AssignRegion"),
    Method::idempotent("UnassignRegion"),
    Method::idempotent("OfflineRegion"),
    Method::at_most_once("SplitRegion"),
    Method::at_most_once("DeleteTable"),
    Method::at_most_once("truncateTable"),
    Method::at_most_once("EnableTable"),
    Method::at_most_once("DisableTable"),
    Method::at_most_once("ModifyTable"),
    Method::at_most_once("CreateTable"),
    Method::idempotent("Shutdown"),
    Method::idempotent("StopMaster"),
    Method::read("IsMasterInMaintenanceMode", "a"),
    Method::unmarked("Balance"),
    Method::idempotent("SetBalancerRunning"),
    Method::read("IsBalancerEnabled", "a"),
    Method::idempotent("SetSplitOrMergeEnabled"),
    Method::read("IsSplitOrMergeEnabled", "a"),
    Method::unmarked("Normalize"),
    Method::idempotent("SetNormalizerRunning"),
    Method::read("IsNormalizerEnabled", "a"),
    Method::idempotent("RunCatalogScan"),
    Method::idempotent("EnableCatalogJanitor"),
    Method::read("IsCatalogJanitorEnabled", "a"),
    Method::idempotent("RunCleanerChore"),
    Method::idempotent("SetCleanerChoreRunning"),
    Method::read("IsCleanerChoreEnabled", "a"),
    Method::unmarked("ExecMasterService"),
    Method::at_most_once("Snapshot"),
    Method::read("GetCompletedSnapshots", "a"),
    Method::unmarked("DeleteSnapshot"),
    Method::read("IsSnapshotDone", "a"),
    Method::at_most_once("RestoreSnapshot"),
    Method::idempotent("SwitchSnapshotCleanup"),
    Method::read("IsSnapshotCleanupEnabled", "a"),
    Method::unmarked("ExecProcedure"),
    Method::unmarked("ExecProcedureWithRet"),
    Method::read("IsProcedureDone", "a"),
    Method::at_most_once("ModifyNamespace"),
    Method::at_most_once("CreateNamespace"),
    Method::at_most_once("DeleteNamespace"),
    Method::read("GetNamespaceDescriptor", "a"),
    Method::read("ListNamespaceDescriptors", "a"),
    Method::read("ListTableDescriptorsByNamespace", "a"),
    Method::read("ListTableNamesByNamespace", "a"),
    Method::read("GetTableState", "a"),
    Method::idempotent("SetQuota"),
    Method::read("getLastMajorCompactionTimestamp", "a"),
    Method::read("getLastMajorCompactionTimestampForRegion", "a"),
    Method::read("getProcedureResult", "a"),
    Method::read("getSecurityCapabilities", "a"),
    Method::idempotent("AbortProcedure"),
    Method::read("GetProcedures", "a"),
    Method::read("GetLocks", "a"),
    Method::unmarked("AddReplicationPeer"),
    Method::unmarked("RemoveReplicationPeer"),
    Method::idempotent("EnableReplicationPeer"),
    Method::idempotent("DisableReplicationPeer"),
    Method::read("GetReplicationPeerConfig", "a"),
    Method::idempotent("UpdateReplicationPeerConfig"),
    Method::read("ListReplicationPeers", "a"),
    Method::read("ListDecommissionedRegionServers", "a"),
    Method::idempotent("DecommissionRegionServers"),
    Method::idempotent("RecommissionRegionServer"),
    Method::read("GetSpaceQuotaRegionSizes", "a"),
    Method::read("GetQuotaStates", "a"),
    Method::idempotent("ClearDeadServers"),
    Method::idempotent("SwitchRpcThrottle"),
    Method::read("IsRpcThrottleEnabled", "a"),
    Method::idempotent("SwitchExceedThrottleQuota"),
    Method::idempotent("Grant"),
    Method::idempotent("Revoke"),
    Method::read("GetUserPermissions", "a"),
    Method::read("HasUserPermissions", "a"),
    Method::read("ListNamespaces", "a"),
    Method::read("GetLogEntries", "a"),
    Method::unmarked("ModifyTableStoreFileTracker"),
    Method::unmarked("ModifyColumnStoreFileTracker"),
    Method::idempotent("FlushMasterStore"),
    Method::read("ListTableDescriptorsByState", "a"),
    Method::read("ListTableNamesByState", "a"),
    Method::at_most_once("TruncateRegion"),
    Method::at_most_once("FlushTable"),
    Method::read("IsReplicationPeerEnabled", "a"),
    Method::idempotent("ReplicationPeerModificationSwitch"),
    Method::read("GetReplicationPeerModificationProcedures", "a"),
    Method::read("IsReplicationPeerModificationEnabled", "a"),
    Method::unmarked("ReopenTableRegions"),
    Method::unmarked("TransitReplicationPeerSyncReplicationState"),
    Method::read("GetRSGroupInfo", "a"),
    Method::read("GetRSGroupInfoOfTable", "a"),
    Method::read("GetRSGroupInfoOfServer", "a"),
    Method::unmarked("MoveServers"),
    Method::unmarked("AddRSGroup"),
    Method::unmarked("RemoveRSGroup"),
    Method::unmarked("BalanceRSGroup"),
    Method::read("ListRSGroupInfos", "a"),
    Method::unmarked("RemoveServers"),
    Method::read("ListTablesInRSGroup", "a"),
    Method::read("GetConfiguredNamespacesAndTablesInRSGroup", "a"),
    Method::unmarked("RenameRSGroup"),
    Method::idempotent("UpdateRSGroupConfig"),
    Method::unmarked("rollAllWALWriters"),
    Method::unmarked("RestoreBackupSystemTable"),
    Method::unmarked("RefreshMeta"),
    Method::unmarked("RefreshHFiles"),
];

translator! {
    /// Calls of MasterService whose messages are in `wire`. What is marked at-most-once must carry a nonce.
    trait MasterService;
    /// MasterService over any [`Caller`](crate::ha::Caller).
    struct MasterServiceClient over MASTER_SERVICE;
    get_schema_alter_status "GetSchemaAlterStatus" GetSchemaAlterStatusRequest => GetSchemaAlterStatusResponse;
    get_table_descriptors "GetTableDescriptors" GetTableDescriptorsRequest => GetTableDescriptorsResponse;
    get_table_names "GetTableNames" GetTableNamesRequest => GetTableNamesResponse;
    get_cluster_status "GetClusterStatus" GetClusterStatusRequest => GetClusterStatusResponse;
    is_master_running "IsMasterRunning" IsMasterRunningRequest => IsMasterRunningResponse;
    add_column "AddColumn" AddColumnRequest => AddColumnResponse;
    delete_column "DeleteColumn" DeleteColumnRequest => DeleteColumnResponse;
    modify_column "ModifyColumn" ModifyColumnRequest => ModifyColumnResponse;
    move_region "MoveRegion" MoveRegionRequest => MoveRegionResponse;
    split_region "SplitRegion" SplitTableRegionRequest => SplitTableRegionResponse;
    merge_table_regions "MergeTableRegions" MergeTableRegionsRequest => MergeTableRegionsResponse;
    assign_region "AssignRegion" AssignRegionRequest => AssignRegionResponse;
    unassign_region "UnassignRegion" UnassignRegionRequest => UnassignRegionResponse;
    offline_region "OfflineRegion" OfflineRegionRequest => OfflineRegionResponse;
    delete_table "DeleteTable" DeleteTableRequest => DeleteTableResponse;
    truncate_table "truncateTable" TruncateTableRequest => TruncateTableResponse;
    enable_table "EnableTable" EnableTableRequest => EnableTableResponse;
    disable_table "DisableTable" DisableTableRequest => DisableTableResponse;
    modify_table "ModifyTable" ModifyTableRequest => ModifyTableResponse;
    create_table "CreateTable" CreateTableRequest => CreateTableResponse;
    shutdown "Shutdown" ShutdownRequest => ShutdownResponse;
    stop_master "StopMaster" StopMasterRequest => StopMasterResponse;
    balance "Balance" BalanceRequest => BalanceResponse;
    set_balancer_running "SetBalancerRunning" SetBalancerRunningRequest => SetBalancerRunningResponse;
    is_balancer_enabled "IsBalancerEnabled" IsBalancerEnabledRequest => IsBalancerEnabledResponse;
    set_split_or_merge_enabled "SetSplitOrMergeEnabled" SetSplitOrMergeEnabledRequest => SetSplitOrMergeEnabledResponse;
    is_split_or_merge_enabled "IsSplitOrMergeEnabled" IsSplitOrMergeEnabledRequest => IsSplitOrMergeEnabledResponse;
    normalize "Normalize" NormalizeRequest => NormalizeResponse;
    set_normalizer_running "SetNormalizerRunning" SetNormalizerRunningRequest => SetNormalizerRunningResponse;
    is_normalizer_enabled "IsNormalizerEnabled" IsNormalizerEnabledRequest => IsNormalizerEnabledResponse;
    run_catalog_scan "RunCatalogScan" RunCatalogScanRequest => RunCatalogScanResponse;
    enable_catalog_janitor "EnableCatalogJanitor" EnableCatalogJanitorRequest => EnableCatalogJanitorResponse;
    is_catalog_janitor_enabled "IsCatalogJanitorEnabled" IsCatalogJanitorEnabledRequest => IsCatalogJanitorEnabledResponse;
    run_cleaner_chore "RunCleanerChore" RunCleanerChoreRequest => RunCleanerChoreResponse;
    set_cleaner_chore_running "SetCleanerChoreRunning" SetCleanerChoreRunningRequest => SetCleanerChoreRunningResponse;
    is_cleaner_chore_enabled "IsCleanerChoreEnabled" IsCleanerChoreEnabledRequest => IsCleanerChoreEnabledResponse;
    snapshot "Snapshot" SnapshotRequest => SnapshotResponse;
    get_completed_snapshots "GetCompletedSnapshots" GetCompletedSnapshotsRequest => GetCompletedSnapshotsResponse;
    delete_snapshot "DeleteSnapshot" DeleteSnapshotRequest => DeleteSnapshotResponse;
    is_snapshot_done "IsSnapshotDone" IsSnapshotDoneRequest => IsSnapshotDoneResponse;
    restore_snapshot "RestoreSnapshot" RestoreSnapshotRequest => RestoreSnapshotResponse;
    switch_snapshot_cleanup "SwitchSnapshotCleanup" SetSnapshotCleanupRequest => SetSnapshotCleanupResponse;
    is_snapshot_cleanup_enabled "IsSnapshotCleanupEnabled" IsSnapshotCleanupEnabledRequest => IsSnapshotCleanupEnabledResponse;
    exec_procedure "ExecProcedure" ExecProcedureRequest => ExecProcedureResponse;
    is_procedure_done "IsProcedureDone" IsProcedureDoneRequest => IsProcedureDoneResponse;
    modify_namespace "ModifyNamespace" ModifyNamespaceRequest => ModifyNamespaceResponse;
    create_namespace "CreateNamespace" CreateNamespaceRequest => CreateNamespaceResponse;
    delete_namespace "DeleteNamespace" DeleteNamespaceRequest => DeleteNamespaceResponse;
    get_namespace_descriptor "GetNamespaceDescriptor" GetNamespaceDescriptorRequest => GetNamespaceDescriptorResponse;
    list_namespace_descriptors "ListNamespaceDescriptors" ListNamespaceDescriptorsRequest => ListNamespaceDescriptorsResponse;
    list_table_descriptors_by_namespace "ListTableDescriptorsByNamespace" ListTableDescriptorsByNamespaceRequest => ListTableDescriptorsByNamespaceResponse;
    list_table_names_by_namespace "ListTableNamesByNamespace" ListTableNamesByNamespaceRequest => ListTableNamesByNamespaceResponse;
    get_table_state "GetTableState" GetTableStateRequest => GetTableStateResponse;
    get_last_major_compaction_timestamp "getLastMajorCompactionTimestamp" MajorCompactionTimestampRequest => MajorCompactionTimestampResponse;
    get_last_major_compaction_timestamp_for_region "getLastMajorCompactionTimestampForRegion" MajorCompactionTimestampForRegionRequest => MajorCompactionTimestampResponse;
    get_procedure_result "getProcedureResult" GetProcedureResultRequest => GetProcedureResultResponse;
    abort_procedure "AbortProcedure" AbortProcedureRequest => AbortProcedureResponse;
    get_procedures "GetProcedures" GetProceduresRequest => GetProceduresResponse;
    get_locks "GetLocks" GetLocksRequest => GetLocksResponse;
    add_replication_peer "AddReplicationPeer" AddReplicationPeerRequest => AddReplicationPeerResponse;
    remove_replication_peer "RemoveReplicationPeer" RemoveReplicationPeerRequest => RemoveReplicationPeerResponse;
    enable_replication_peer "EnableReplicationPeer" EnableReplicationPeerRequest => EnableReplicationPeerResponse;
    disable_replication_peer "DisableReplicationPeer" DisableReplicationPeerRequest => DisableReplicationPeerResponse;
    get_replication_peer_config "GetReplicationPeerConfig" GetReplicationPeerConfigRequest => GetReplicationPeerConfigResponse;
    update_replication_peer_config "UpdateReplicationPeerConfig" UpdateReplicationPeerConfigRequest => UpdateReplicationPeerConfigResponse;
    list_replication_peers "ListReplicationPeers" ListReplicationPeersRequest => ListReplicationPeersResponse;
    list_decommissioned_region_servers "ListDecommissionedRegionServers" ListDecommissionedRegionServersRequest => ListDecommissionedRegionServersResponse;
    decommission_region_servers "DecommissionRegionServers" DecommissionRegionServersRequest => DecommissionRegionServersResponse;
    recommission_region_server "RecommissionRegionServer" RecommissionRegionServerRequest => RecommissionRegionServerResponse;
    clear_dead_servers "ClearDeadServers" ClearDeadServersRequest => ClearDeadServersResponse;
    list_namespaces "ListNamespaces" ListNamespacesRequest => ListNamespacesResponse;
    modify_table_store_file_tracker "ModifyTableStoreFileTracker" ModifyTableStoreFileTrackerRequest => ModifyTableStoreFileTrackerResponse;
    modify_column_store_file_tracker "ModifyColumnStoreFileTracker" ModifyColumnStoreFileTrackerRequest => ModifyColumnStoreFileTrackerResponse;
    flush_master_store "FlushMasterStore" FlushMasterStoreRequest => FlushMasterStoreResponse;
    list_table_descriptors_by_state "ListTableDescriptorsByState" ListTableDescriptorsByStateRequest => ListTableDescriptorsByStateResponse;
    list_table_names_by_state "ListTableNamesByState" ListTableNamesByStateRequest => ListTableNamesByStateResponse;
    truncate_region "TruncateRegion" TruncateRegionRequest => TruncateRegionResponse;
    flush_table "FlushTable" FlushTableRequest => FlushTableResponse;
    replication_peer_modification_switch "ReplicationPeerModificationSwitch" ReplicationPeerModificationSwitchRequest => ReplicationPeerModificationSwitchResponse;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ha::Mark;

    #[test]
    fn every_method_is_there_once() {
        let names: BTreeSet<&str> = METHODS.iter().map(|method| method.name).collect();
        // As many as hbase-protocol.md 8.1 lists.
        assert_eq!((names.len(), METHODS.len()), (116, 116));
        assert!(TYPED.iter().all(|name| names.contains(name)));
    }

    /// A mark at-most-once is only as good as the nonce in the message.
    #[test]
    fn what_is_done_once_has_a_nonce() {
        let marked = METHODS
            .iter()
            .filter(|method| method.mark == Mark::AtMostOnce);
        let file = include_str!("../../../wire/proto/master.proto");
        for method in marked {
            let message = match method.name {
                "SplitRegion" => "SplitTableRegion".to_owned(),
                "truncateTable" => "TruncateTable".to_owned(),
                name => name.to_owned(),
            };
            // Messages that nobody of ours sends yet have no file.
            let Some(at) = file.find(&format!("message {message}Request {{")) else {
                continue;
            };
            let fields = file[at..].split('}').next().unwrap();
            assert!(fields.contains(" nonce = "), "{message}");
        }
    }
}
