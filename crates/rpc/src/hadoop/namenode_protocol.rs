//! NamenodeProtocol: what balancers, backup and standby NameNodes ask a NameNode.

use std::collections::BTreeMap;

use cadastre_wire::hadoop::pb;

use crate::ha::policy::Policy;
use crate::ha::translate::translator;
use crate::ha::{Method, Policies, Protocol};

/// The protocol.
pub static NAMENODE_PROTOCOL: Protocol = Protocol {
    name: "org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol",
    interface: "org.apache.hadoop.hdfs.protocolPB.NamenodeProtocolPB",
    version: 1,
    methods: METHODS,
};

/// Of Hadoop 3.4: 11 idempotent, 3 at most once (hadoop-ha-rpc.md D).
const METHODS: &[Method] = &[
    Method::read("getBlocks", "a"),
    Method::read("getBlockKeys", "a"),
    Method::read("getTransactionId", "a"),
    Method::read("getMostRecentCheckpointTxId", "a"),
    Method::idempotent("rollEditLog"),
    Method::read("versionRequest", "a"),
    Method::idempotent("errorReport"),
    Method::idempotent("registerSubordinateNamenode"),
    Method::at_most_once("startCheckpoint"),
    Method::at_most_once("endCheckpoint"),
    Method::read("getEditLogManifest", "a"),
    Method::read("isUpgradeFinalized", "a"),
    Method::read("isRollingUpgrade", "a"),
    Method::at_most_once("getNextSPSPath"),
];

/// Without HA: two methods are tried five times, the others once (hadoop-ha-rpc.md A.5).
pub fn plain_policies() -> Policies {
    let five = Policy::Exponential {
        tries: 5,
        base_ms: 200,
    };
    Policies {
        by_method: BTreeMap::from([("getBlocks", five.clone()), ("getBlockKeys", five)]),
        ..Policies::all(Policy::TryOnce)
    }
}

translator! {
    /// Calls of NamenodeProtocol.
    trait NamenodeProtocol;
    /// NamenodeProtocol over any [`Caller`](crate::ha::Caller).
    struct NamenodeProtocolClient over NAMENODE_PROTOCOL;
    get_blocks "getBlocks" GetBlocksRequestProto => GetBlocksResponseProto;
    get_block_keys "getBlockKeys" GetBlockKeysRequestProto => GetBlockKeysResponseProto;
    get_transaction_id "getTransactionId" GetTransactionIdRequestProto => GetTransactionIdResponseProto;
    get_most_recent_checkpoint_tx_id "getMostRecentCheckpointTxId" GetMostRecentCheckpointTxIdRequestProto => GetMostRecentCheckpointTxIdResponseProto;
    roll_edit_log "rollEditLog" RollEditLogRequestProto => RollEditLogResponseProto;
    version_request "versionRequest" VersionRequestProto => VersionResponseProto;
    error_report "errorReport" ErrorReportRequestProto => ErrorReportResponseProto;
    register_subordinate_namenode "registerSubordinateNamenode" RegisterRequestProto => RegisterResponseProto;
    start_checkpoint "startCheckpoint" StartCheckpointRequestProto => StartCheckpointResponseProto;
    end_checkpoint "endCheckpoint" EndCheckpointRequestProto => EndCheckpointResponseProto;
    get_edit_log_manifest "getEditLogManifest" GetEditLogManifestRequestProto => GetEditLogManifestResponseProto;
    is_upgrade_finalized "isUpgradeFinalized" IsUpgradeFinalizedRequestProto => IsUpgradeFinalizedResponseProto;
    is_rolling_upgrade "isRollingUpgrade" IsRollingUpgradeRequestProto => IsRollingUpgradeResponseProto;
    get_next_sps_path "getNextSPSPath" GetNextSpsPathRequestProto => GetNextSpsPathResponseProto;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ha::Mark;

    #[test]
    fn every_method_is_marked_and_typed() {
        assert_eq!(TYPED.len(), METHODS.len());
        let of = |mark| METHODS.iter().filter(|method| method.mark == mark).count();
        assert_eq!((of(Mark::Idempotent), of(Mark::AtMostOnce)), (11, 3));
    }
}
