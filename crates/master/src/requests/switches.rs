//! Switches that HBase's operators turn, kept durably and answered truthfully; and the chores that they are for.
//!
//! A switch is remembered though what it switches may not exist yet (there is no normalizer, for instance): it says whether that
//! may run, and a client that turned it off finds it off. Asking for a run of what does not exist is refused.

use cadastre_rpc::{Call, Reply};
use cadastre_types::{Result, TableDescriptor};
use cadastre_wire::pb;

use super::{param, reply, unknown};
use crate::active::Active;
use crate::world::World;

/// A switch: its name in the store and its value until somebody turns it, which is HBase's.
#[derive(Clone, Copy)]
pub(super) struct Switch(&'static str, bool);

pub(super) const BALANCER: Switch = Switch("balancer", true);
const NORMALIZER: Switch = Switch("normalizer", true);
pub(super) const CATALOG_JANITOR: Switch = Switch("catalog-janitor", true);
pub(super) const SPLIT: Switch = Switch("split", true);
pub(super) const MERGE: Switch = Switch("merge", true);
const CLEANER: Switch = Switch("cleaner", true);
const SNAPSHOT_CLEANUP: Switch = Switch("snapshot-cleanup", true);
const PEER_MODIFICATION: Switch = Switch("peer-modification", true);

async fn set<W: World>(active: &Active<W>, switch: Switch, on: bool) -> bool {
    active.set_switch(switch.0, switch.1, on).await
}

pub(super) fn get<W: World>(active: &Active<W>, switch: Switch) -> bool {
    active.switch(switch.0, switch.1)
}

fn switch_of(kind: i32) -> Switch {
    match pb::MasterSwitchType::try_from(kind) {
        Ok(pb::MasterSwitchType::Merge) => MERGE,
        _ => SPLIT,
    }
}

pub(super) async fn call<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        "SetBalancerRunning" => {
            let request: pb::SetBalancerRunningRequest = param(call)?;
            let before = set(active, BALANCER, request.on).await;
            Ok(reply(&pb::SetBalancerRunningResponse {
                prev_balance_value: Some(before),
            }))
        }
        "IsBalancerEnabled" => Ok(reply(&pb::IsBalancerEnabledResponse {
            enabled: get(active, BALANCER),
        })),
        "SetNormalizerRunning" => {
            let request: pb::SetNormalizerRunningRequest = param(call)?;
            let before = set(active, NORMALIZER, request.on).await;
            Ok(reply(&pb::SetNormalizerRunningResponse {
                prev_normalizer_value: Some(before),
            }))
        }
        "IsNormalizerEnabled" => Ok(reply(&pb::IsNormalizerEnabledResponse {
            enabled: get(active, NORMALIZER),
        })),
        "EnableCatalogJanitor" => {
            let request: pb::EnableCatalogJanitorRequest = param(call)?;
            let before = set(active, CATALOG_JANITOR, request.enable).await;
            Ok(reply(&pb::EnableCatalogJanitorResponse {
                prev_value: Some(before),
            }))
        }
        "IsCatalogJanitorEnabled" => Ok(reply(&pb::IsCatalogJanitorEnabledResponse {
            value: get(active, CATALOG_JANITOR),
        })),
        "SetSplitOrMergeEnabled" => set_split_or_merge(active, call).await,
        "IsSplitOrMergeEnabled" => {
            let request: pb::IsSplitOrMergeEnabledRequest = param(call)?;
            Ok(reply(&pb::IsSplitOrMergeEnabledResponse {
                enabled: get(active, switch_of(request.switch_type)),
            }))
        }
        // Tables that ask for it would have to be split and merged; no others are looked at.
        "Normalize" => {
            let asks = |d: &TableDescriptor| d.attribute("NORMALIZATION_ENABLED") == Some("true");
            let any = active.with_catalog(|c| c.tables().any(|(_, t)| asks(&t.descriptor)));
            let on = get(active, NORMALIZER);
            if any && on {
                return Err(unknown(call));
            }
            Ok(reply(&pb::NormalizeResponse { normalizer_ran: on }))
        }
        // As HBase where quotas are not enabled.
        "SwitchRpcThrottle" => Ok(reply(&pb::SwitchRpcThrottleResponse {
            previous_rpc_throttle_enabled: false,
        })),
        "IsRpcThrottleEnabled" => Ok(reply(&pb::IsRpcThrottleEnabledResponse {
            rpc_throttle_enabled: false,
        })),
        "SwitchExceedThrottleQuota" => Ok(reply(&pb::SwitchExceedThrottleQuotaResponse {
            previous_exceed_throttle_quota_enabled: false,
        })),
        "ReplicationPeerModificationSwitch" => {
            let request: pb::ReplicationPeerModificationSwitchRequest = param(call)?;
            Ok(reply(&pb::ReplicationPeerModificationSwitchResponse {
                previous_value: set(active, PEER_MODIFICATION, request.on).await,
            }))
        }
        "IsReplicationPeerModificationEnabled" => {
            Ok(reply(&pb::IsReplicationPeerModificationEnabledResponse {
                enabled: get(active, PEER_MODIFICATION),
            }))
        }
        _ => cleaners(active, call).await,
    }
}

async fn set_split_or_merge<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::SetSplitOrMergeEnabledRequest = param(call)?;
    let mut prev_value = Vec::new();
    for kind in request.switch_types.into_iter().take(2) {
        prev_value.push(set(active, switch_of(kind), request.enabled).await);
    }
    Ok(reply(&pb::SetSplitOrMergeEnabledResponse { prev_value }))
}

async fn cleaners<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        "SetCleanerChoreRunning" => {
            let request: pb::SetCleanerChoreRunningRequest = param(call)?;
            let before = set(active, CLEANER, request.on).await;
            Ok(reply(&pb::SetCleanerChoreRunningResponse {
                prev_value: Some(before),
            }))
        }
        "IsCleanerChoreEnabled" => Ok(reply(&pb::IsCleanerChoreEnabledResponse {
            value: get(active, CLEANER),
        })),
        // What is there to clean are the regions of deleted tables.
        "RunCleanerChore" => {
            active.collect_garbage();
            Ok(reply(&pb::RunCleanerChoreResponse {
                cleaner_chore_ran: true,
            }))
        }
        "SwitchSnapshotCleanup" => {
            let request: pb::SetSnapshotCleanupRequest = param(call)?;
            let before = set(active, SNAPSHOT_CLEANUP, request.enabled).await;
            Ok(reply(&pb::SetSnapshotCleanupResponse {
                prev_snapshot_cleanup: before,
            }))
        }
        "IsSnapshotCleanupEnabled" => Ok(reply(&pb::IsSnapshotCleanupEnabledResponse {
            enabled: get(active, SNAPSHOT_CLEANUP),
        })),
        _ => Err(unknown(call)),
    }
}
