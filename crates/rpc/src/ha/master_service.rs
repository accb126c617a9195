//! HBase's MasterService: every method of hbase-protocol.md 8.1, with its marks (P13). Knows no messages.
//!
//! HBase marks nothing itself. What is marked at-most-once here carries a nonce, which the master's procedures are known by; the caller
//! must set one, the same over all tries, as every client of ours does. What creates, removes, moves or triggers something without a nonce
//! is marked by neither.

use super::method::{Method, Protocol};

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
