//! ClientProtocol: what clients of HDFS ask a NameNode. Every method with its marks (hadoop-ha-rpc.md D); typed are those whose messages
//! the fact sheet gives (F.1, F.2).

use bytes::Bytes;
use cadastre_types::{Code, Error, Result};
use cadastre_wire::hadoop::pb;

use crate::ha::translate::translator;
use crate::ha::{Method, Protocol, ServerState, StateProbe};

/// The protocol.
pub static CLIENT_PROTOCOL: Protocol = Protocol {
    name: "org.apache.hadoop.hdfs.protocol.ClientProtocol",
    interface: "org.apache.hadoop.hdfs.protocolPB.ClientNamenodeProtocolPB",
    version: 1,
    methods: METHODS,
};

/// Of Hadoop 3.4, by their names on the wire.
const METHODS: &[Method] = &[
    Method::at_most_once("create"),
    Method::at_most_once("append"),
    Method::at_most_once("rename"),
    Method::at_most_once("rename2"),
    Method::at_most_once("concat"),
    Method::at_most_once("delete"),
    Method::at_most_once("createSymlink"),
    Method::at_most_once("updatePipeline"),
    Method::at_most_once("saveNamespace"),
    Method::at_most_once("createSnapshot"),
    Method::at_most_once("deleteSnapshot"),
    Method::at_most_once("renameSnapshot"),
    Method::at_most_once("addCacheDirective"),
    Method::at_most_once("modifyCacheDirective"),
    Method::at_most_once("removeCacheDirective"),
    Method::at_most_once("addCachePool"),
    Method::at_most_once("modifyCachePool"),
    Method::at_most_once("removeCachePool"),
    Method::at_most_once("createEncryptionZone"),
    Method::at_most_once("reencryptEncryptionZone"),
    Method::at_most_once("setXAttr"),
    Method::at_most_once("removeXAttr"),
    Method::at_most_once("setErasureCodingPolicy"),
    Method::at_most_once("unsetErasureCodingPolicy"),
    Method::at_most_once("addErasureCodingPolicies"),
    Method::at_most_once("removeErasureCodingPolicy"),
    Method::at_most_once("enableErasureCodingPolicy"),
    Method::at_most_once("disableErasureCodingPolicy"),
    Method::at_most_once("satisfyStoragePolicy"),
    Method::idempotent("setReplication"),
    Method::idempotent("setStoragePolicy"),
    Method::idempotent("unsetStoragePolicy"),
    Method::idempotent("setPermission"),
    Method::idempotent("setOwner"),
    Method::idempotent("setTimes"),
    Method::idempotent("setQuota"),
    Method::idempotent("setAcl"),
    Method::idempotent("modifyAclEntries"),
    Method::idempotent("removeAclEntries"),
    Method::idempotent("removeDefaultAcl"),
    Method::idempotent("removeAcl"),
    Method::idempotent("mkdirs"),
    Method::idempotent("truncate"),
    Method::idempotent("abandonBlock"),
    Method::idempotent("addBlock"),
    Method::idempotent("getAdditionalDatanode"),
    Method::idempotent("complete"),
    Method::idempotent("fsync"),
    Method::idempotent("reportBadBlocks"),
    Method::idempotent("updateBlockForPipeline"),
    Method::idempotent("renewLease"),
    Method::idempotent("recoverLease"),
    Method::idempotent("setSafeMode"),
    Method::idempotent("rollEdits"),
    Method::idempotent("restoreFailedStorage"),
    Method::idempotent("refreshNodes"),
    Method::idempotent("finalizeUpgrade"),
    Method::idempotent("upgradeStatus"),
    Method::idempotent("rollingUpgrade"),
    Method::idempotent("metaSave"),
    Method::idempotent("setBalancerBandwidth"),
    Method::idempotent("getDelegationToken"),
    Method::idempotent("renewDelegationToken"),
    Method::idempotent("cancelDelegationToken"),
    Method::idempotent("allowSnapshot"),
    Method::idempotent("disallowSnapshot"),
    Method::read("getBlockLocations", "ct"),
    Method::read("getFileInfo", "c"),
    Method::read("getFileLinkInfo", "c"),
    Method::read("getLocatedFileInfo", "c"),
    Method::read("getListing", "c"),
    Method::read("getBatchedListing", "c"),
    Method::read("getContentSummary", "c"),
    Method::read("getLinkTarget", "c"),
    Method::read("isFileClosed", "c"),
    Method::read("getServerDefaults", "c"),
    Method::read("getPreferredBlockSize", "c"),
    Method::read("getStoragePolicies", "c"),
    Method::read("getStoragePolicy", "c"),
    Method::read("listCorruptFileBlocks", "c"),
    Method::read("checkAccess", "c"),
    Method::read("getAclStatus", "c"),
    Method::read("getXAttrs", "c"),
    Method::read("listXAttrs", "c"),
    Method::read("getEZForPath", "c"),
    Method::read("listEncryptionZones", "c"),
    Method::read("listReencryptionStatus", "c"),
    Method::read("getDataEncryptionKey", "c"),
    Method::read("getCurrentEditLogTxid", "c"),
    Method::read("getEditsFromTxid", "c"),
    Method::read("getErasureCodingPolicies", "c"),
    Method::read("getErasureCodingPolicy", "c"),
    Method::read("getErasureCodingCodecs", "c"),
    Method::read("getSnapshottableDirListing", "c"),
    Method::read("getSnapshotListing", "c"),
    Method::read("getSnapshotDiffReport", "c"),
    Method::read("getSnapshotDiffReportListing", "c"),
    Method::read("listCacheDirectives", "c"),
    Method::read("listCachePools", "c"),
    Method::read("listOpenFiles", "c"),
    Method::read("getEnclosingRoot", "c"),
    Method::read("getFsStats", ""),
    Method::read("getFsReplicatedBlockStats", ""),
    Method::read("getFsECBlockGroupStats", ""),
    Method::read("getDatanodeReport", ""),
    Method::read("getDatanodeStorageReport", ""),
    Method::read("getECTopologyResultForPolicies", ""),
    Method::read("getHAServiceState", ""),
    Method::read("getSlowDatanodeReport", ""),
    Method::read("getQuotaUsage", "a"),
    Method::read("msync", "a"),
];

translator! {
    /// Calls of ClientProtocol. Nothing of transport or retries shows here.
    trait ClientProtocol;
    /// ClientProtocol over any [`Caller`](crate::ha::Caller).
    struct ClientProtocolClient over CLIENT_PROTOCOL;
    get_file_info "getFileInfo" GetFileInfoRequestProto => GetFileInfoResponseProto;
    get_listing "getListing" GetListingRequestProto => GetListingResponseProto;
    mkdirs "mkdirs" MkdirsRequestProto => MkdirsResponseProto;
    create "create" CreateRequestProto => CreateResponseProto;
    add_block "addBlock" AddBlockRequestProto => AddBlockResponseProto;
    complete "complete" CompleteRequestProto => CompleteResponseProto;
    rename "rename" RenameRequestProto => RenameResponseProto;
    rename2 "rename2" Rename2RequestProto => Rename2ResponseProto;
    delete "delete" DeleteRequestProto => DeleteResponseProto;
    get_block_locations "getBlockLocations" GetBlockLocationsRequestProto => GetBlockLocationsResponseProto;
    set_replication "setReplication" SetReplicationRequestProto => SetReplicationResponseProto;
    set_permission "setPermission" SetPermissionRequestProto => SetPermissionResponseProto;
    set_owner "setOwner" SetOwnerRequestProto => SetOwnerResponseProto;
    set_times "setTimes" SetTimesRequestProto => SetTimesResponseProto;
    get_server_defaults "getServerDefaults" GetServerDefaultsRequestProto => GetServerDefaultsResponseProto;
    get_fs_stats "getFsStats" GetFsStatusRequestProto => GetFsStatsResponseProto;
    get_content_summary "getContentSummary" GetContentSummaryRequestProto => GetContentSummaryResponseProto;
    renew_lease "renewLease" RenewLeaseRequestProto => RenewLeaseResponseProto;
    set_safe_mode "setSafeMode" SetSafeModeRequestProto => SetSafeModeResponseProto;
    msync "msync" MsyncRequestProto => MsyncResponseProto;
    get_ha_service_state "getHAServiceState" HaServiceStateRequestProto => HaServiceStateResponseProto;
    append "append" AppendRequestProto => AppendResponseProto;
    abandon_block "abandonBlock" AbandonBlockRequestProto => AbandonBlockResponseProto;
    get_additional_datanode "getAdditionalDatanode" GetAdditionalDatanodeRequestProto => GetAdditionalDatanodeResponseProto;
    update_block_for_pipeline "updateBlockForPipeline" UpdateBlockForPipelineRequestProto => UpdateBlockForPipelineResponseProto;
    update_pipeline "updatePipeline" UpdatePipelineRequestProto => UpdatePipelineResponseProto;
    fsync "fsync" FsyncRequestProto => FsyncResponseProto;
    recover_lease "recoverLease" RecoverLeaseRequestProto => RecoverLeaseResponseProto;
    concat "concat" ConcatRequestProto => ConcatResponseProto;
    truncate "truncate" TruncateRequestProto => TruncateResponseProto;
    create_symlink "createSymlink" CreateSymlinkRequestProto => CreateSymlinkResponseProto;
    get_link_target "getLinkTarget" GetLinkTargetRequestProto => GetLinkTargetResponseProto;
    is_file_closed "isFileClosed" IsFileClosedRequestProto => IsFileClosedResponseProto;
    create_snapshot "createSnapshot" CreateSnapshotRequestProto => CreateSnapshotResponseProto;
    delete_snapshot "deleteSnapshot" DeleteSnapshotRequestProto => DeleteSnapshotResponseProto;
    rename_snapshot "renameSnapshot" RenameSnapshotRequestProto => RenameSnapshotResponseProto;
    allow_snapshot "allowSnapshot" AllowSnapshotRequestProto => AllowSnapshotResponseProto;
    disallow_snapshot "disallowSnapshot" DisallowSnapshotRequestProto => DisallowSnapshotResponseProto;
    set_quota "setQuota" SetQuotaRequestProto => SetQuotaResponseProto;
    save_namespace "saveNamespace" SaveNamespaceRequestProto => SaveNamespaceResponseProto;
    roll_edits "rollEdits" RollEditsRequestProto => RollEditsResponseProto;
    get_datanode_report "getDatanodeReport" GetDatanodeReportRequestProto => GetDatanodeReportResponseProto;
    get_located_file_info "getLocatedFileInfo" GetLocatedFileInfoRequestProto => GetLocatedFileInfoResponseProto;
}

/// Asks a NameNode what it is by ClientProtocol, which answers in every state.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientProtocolProbe;

impl StateProbe for ClientProtocolProbe {
    fn request(&self) -> (&'static Method, Bytes) {
        const METHOD: &Method = CLIENT_PROTOCOL.method("getHAServiceState");
        let body = cadastre_wire::encode(&pb::HaServiceStateRequestProto {});
        (METHOD, body)
    }

    fn state(&self, answer: Bytes) -> Result<ServerState> {
        let answer: pb::HaServiceStateResponseProto = cadastre_wire::decode(answer)?;
        server_state(answer.state)
    }

    fn msync(&self) -> Option<(&'static Method, Bytes)> {
        const METHOD: &Method = CLIENT_PROTOCOL.method("msync");
        Some((METHOD, cadastre_wire::encode(&pb::MsyncRequestProto {})))
    }
}

/// What a NameNode's number means.
///
/// # Errors
/// [`Code::Corrupt`] for a number that has no meaning.
pub fn server_state(number: i32) -> Result<ServerState> {
    match pb::HaServiceStateProto::try_from(number) {
        Ok(pb::HaServiceStateProto::Initializing) => Ok(ServerState::Initializing),
        Ok(pb::HaServiceStateProto::Active) => Ok(ServerState::Active),
        Ok(pb::HaServiceStateProto::Standby) => Ok(ServerState::Standby),
        Ok(pb::HaServiceStateProto::Observer) => Ok(ServerState::Observer),
        Err(_) => Err(Error::new(
            Code::Corrupt,
            format!("a NameNode of state {number}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ha::Mark;

    #[test]
    fn marks_are_complete() {
        let names: BTreeSet<&str> = METHODS.iter().map(|method| method.name).collect();
        // 112 declarations in Hadoop 3.4.0, two of which are listOpenFiles (D).
        assert_eq!((names.len(), METHODS.len()), (111, 111));
        let of = |mark| METHODS.iter().filter(|method| method.mark == mark).count();
        assert_eq!(of(Mark::AtMostOnce), 29);
        assert_eq!(of(Mark::Idempotent), 82);
        assert_eq!(of(Mark::Neither), 0);
        let reads = METHODS.iter().filter(|method| method.read.is_some());
        assert_eq!(reads.count(), 45);
        assert!(TYPED.iter().all(|name| names.contains(name)));
    }

    /// By name, as hadoop-ha-rpc.md F.1 and F.2 list them.
    #[test]
    fn what_the_fact_sheet_gives_is_typed() {
        const F1: &str = "getFileInfo getListing mkdirs create addBlock complete rename rename2 delete getBlockLocations setReplication \
            setPermission setOwner setTimes getServerDefaults getFsStats getContentSummary renewLease setSafeMode msync getHAServiceState";
        const F2: &str = "append abandonBlock getAdditionalDatanode updateBlockForPipeline updatePipeline fsync recoverLease concat truncate \
            createSymlink getLinkTarget isFileClosed createSnapshot deleteSnapshot renameSnapshot allowSnapshot disallowSnapshot setQuota \
            saveNamespace rollEdits getDatanodeReport";
        let both = F1.split_whitespace().chain(F2.split_whitespace());
        let wanted: BTreeSet<&str> = both.collect();
        assert_eq!(wanted.len(), 42);
        let typed: BTreeSet<&str> = TYPED.iter().copied().collect();
        assert_eq!(wanted.difference(&typed).collect::<Vec<_>>(), [&""; 0]);
    }

    #[test]
    fn states() {
        let probe = ClientProtocolProbe;
        let state = |number| probe.state(Bytes::from(vec![8, number]));
        assert_eq!(state(1), Ok(ServerState::Active));
        assert_eq!(state(2), Ok(ServerState::Standby));
        assert_eq!(state(3), Ok(ServerState::Observer));
        assert_eq!(state(0), Ok(ServerState::Initializing));
        assert!(state(9).is_err());
        assert!(probe.request().0.read.is_some());
    }
}
