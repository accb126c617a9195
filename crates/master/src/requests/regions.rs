//! Regions: moving them, balancing, when they were compacted; and the list of dead servers.

use std::time::Duration;

use cadastre_rpc::{Call, Reply};
use cadastre_types::{
    Code, EncodedName, Error, RegionInfo, Result, ServerName, TableName, TableState,
};
use cadastre_wire::{convert, pb};

use super::{begin, nonce, param, reply, switches, unknown};
use crate::active::{Active, Answer, decommission_switch};
use crate::assignment;
use crate::catalog::RegionState;
use crate::procedure::{Lock, Nonce, Operation, ProcedureId};
use crate::world::World;

/// How long one look at a moving region waits; then it looks again.
const MOVE_PATIENCE: Duration = Duration::from_secs(60);

/// The region that a client named, and its table's name.
fn named<W: World>(active: &Active<W>, region: &pb::RegionSpecifier) -> Result<RegionInfo> {
    let encoded = EncodedName::from_specifier(&region.value);
    active.with_catalog(|catalog| match catalog.region(&encoded) {
        Some(entry) => Ok(entry.info.clone()),
        None => Err(Error::new(Code::UnknownRegion, encoded.to_string())),
    })
}

/// Answers when the region has moved: the call has no procedure's id that a client could ask for.
pub(super) async fn move_region<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::MoveRegionRequest = param(call)?;
    let region = named(active, &request.region)?;
    let to = request
        .dest_server_name
        .as_ref()
        .map(convert::server_name)
        .transpose()?;
    let live = active.world().servers().borrow().clone();
    // As HBase: a server that is not there means any.
    let to = to.filter(|server| live.contains(server));
    let id = begin_move(active, call, region, to).await?;
    wait(active, id).await?;
    Ok(reply(&pb::MoveRegionResponse {}))
}

async fn begin_move<W: World>(
    active: &Active<W>,
    call: &Call,
    region: RegionInfo,
    to: Option<ServerName>,
) -> Result<ProcedureId> {
    let live = active.placeable();
    let lock = Lock::Table(region.table.clone());
    let encoded = region.encoded_name();
    active
        .submit(
            lock,
            Nonce::default(),
            &call.peer.user,
            move |catalog, _| {
                catalog.expect_state(&region.table, TableState::Enabled)?;
                let entry = catalog
                    .region(&encoded)
                    .ok_or_else(|| Error::new(Code::UnknownRegion, encoded.to_string()))?;
                if entry.state == RegionState::Split {
                    return Err(wrong_state(&entry.info, "SPLIT"));
                }
                let here = entry.open_on().cloned();
                let other = || {
                    live.iter()
                        .find(|server| Some(*server) != here.as_ref())
                        .cloned()
                };
                Ok(Operation::MoveRegion {
                    region: entry.info.clone(),
                    to: to.or_else(other),
                })
            },
        )
        .await
}

/// Evens out the servers' numbers of regions, if the switch allows it, and answers when that is done.
pub(super) async fn balance<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::BalanceRequest = param(call)?;
    let live = active.placeable();
    let in_transition = !active.state().in_transition.is_empty();
    if !switches::get(active, switches::BALANCER) || in_transition && !request.ignore_rit() {
        return Ok(reply(&pb::BalanceResponse {
            balancer_ran: false,
            moves_calculated: Some(0),
            moves_executed: Some(0),
        }));
    }
    let moves = active.with_catalog(|catalog| assignment::balance(catalog, &live));
    let calculated = moves.len() as u32;
    let mut executed = 0;
    if !request.dry_run() {
        for (region, to) in moves {
            let id = begin_move(active, call, region, Some(to)).await?;
            wait(active, id).await?;
            executed += 1;
        }
    }
    Ok(reply(&pb::BalanceResponse {
        balancer_ran: true,
        moves_calculated: Some(calculated),
        moves_executed: Some(executed),
    }))
}

/// A region of an enabled table is assigned by itself; asked for it, the master looks at once.
pub(super) async fn assign_region<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::AssignRegionRequest = param(call)?;
    let region = named(active, &request.region)?;
    active.with_catalog(|c| {
        c.expect_state(&region.table, TableState::Enabled)
            .map(|_| ())
    })?;
    let encoded = region.encoded_name();
    let open = active.with_catalog(|c| c.region(&encoded).is_some_and(|r| r.open_on().is_some()));
    if !active.state().unassigned.remove(&encoded) && open {
        return Err(wrong_state(&region, "OPEN"));
    }
    active.reconcile().await;
    Ok(reply(&pb::AssignRegionResponse {}))
}

/// HBase's words for a region that is not in the state that a call is for.
pub(super) fn wrong_state(region: &RegionInfo, state: &str) -> Error {
    Error::new(
        Code::RegionState,
        format!(
            "Unexpected state for {}, state={state}",
            region.encoded_name()
        ),
    )
}

/// Closes a region and leaves it closed until it is assigned, its table is enabled anew, or another master begins.
pub(super) async fn unassign_region<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::UnassignRegionRequest = param(call)?;
    let region = named(active, &request.region)?;
    let lock = Lock::Table(region.table.clone());
    let encoded = region.encoded_name();
    // Before it is closed, or the next pass of the reconciliation opens it again.
    let first = active.state().unassigned.insert(encoded.clone());
    let begun = active
        .submit(
            lock,
            Nonce::default(),
            &call.peer.user,
            move |catalog, _| {
                catalog.expect_state(&region.table, TableState::Enabled)?;
                let entry = catalog
                    .region(&encoded)
                    .ok_or_else(|| Error::new(Code::UnknownRegion, encoded.to_string()))?;
                if entry.open_on().is_none() {
                    return Err(wrong_state(&region, "CLOSED"));
                }
                Ok(Operation::UnassignRegion { region })
            },
        )
        .await;
    match begun {
        Ok(id) => wait(active, id).await?,
        Err(error) => {
            if first {
                let region = EncodedName::from_specifier(&request.region.value);
                active.state().unassigned.remove(&region);
            }
            return Err(error);
        }
    }
    Ok(reply(&pb::UnassignRegionResponse {}))
}

/// HBase forgets where a region is without closing it, to repair what this master repairs by itself.
pub(super) fn offline_region<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::OfflineRegionRequest = param(call)?;
    named(active, &request.region)?;
    Err(unknown(call))
}

/// Replaces a region by an empty one.
pub(super) async fn truncate_region<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::TruncateRegionRequest = param(call)?;
    let region = convert::region_info(&request.region_info)?;
    super::check_user_table(&region.table, "truncate")?;
    let encoded = region.encoded_name();
    let mark = nonce(request.nonce_group, request.nonce);
    let lock = Lock::Table(region.table.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, region_id| {
        catalog.expect_state(&region.table, TableState::Enabled)?;
        let entry = catalog
            .region(&encoded)
            .ok_or_else(|| Error::new(Code::UnknownRegion, encoded.to_string()))?;
        if entry.state == RegionState::Split {
            return Err(wrong_state(&region, "SPLIT"));
        }
        let (old, ancestors) = (entry.info.clone(), entry.merged_from.clone());
        let new = RegionInfo::new(
            old.table.clone(),
            old.start_key.clone(),
            old.end_key.clone(),
            region_id,
        );
        Ok(Operation::TruncateRegion {
            old,
            new,
            ancestors,
        })
    })
    .await?;
    Ok(reply(&pb::TruncateRegionResponse {
        proc_id: Some(proc_id),
    }))
}

/// Takes servers out of those that get regions; with `offload`, moves what they have to others.
pub(super) async fn decommission<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::DecommissionRegionServersRequest = param(call)?;
    let live = active.world().servers().borrow().clone();
    for name in &request.server_name {
        let server = convert::server_name(name)?;
        // As HBase: one that is not there is passed over.
        if live.contains(&server) {
            let switch = decommission_switch(&server);
            active.set_switch(&switch, false, true).await;
        }
    }
    let gone = active.decommissioned();
    let left = active.placeable();
    if request.offload && left.is_disjoint(&gone) {
        let moving: Vec<RegionInfo> = active.with_catalog(|catalog| {
            catalog
                .regions()
                .filter(|region| region.open_on().is_some_and(|server| gone.contains(server)))
                .map(|region| region.info.clone())
                .collect()
        });
        for region in moving {
            // One that is gone or disabled by now has left by itself.
            match begin_move(active, call, region, None).await {
                Ok(id) => wait(active, id).await?,
                Err(error) => tracing::info!(%error, "a region does not move any more"),
            }
        }
    }
    Ok(reply(&pb::DecommissionRegionServersResponse {}))
}

/// Gives a server regions again; those that are named are moved to it.
pub(super) async fn recommission<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::RecommissionRegionServerRequest = param(call)?;
    let server = convert::server_name(&request.server_name)?;
    let live = active.world().servers().borrow().clone();
    if live.contains(&server) {
        let switch = decommission_switch(&server);
        active.set_switch(&switch, false, false).await;
        for region in &request.region {
            let region = named(active, region)?;
            let id = begin_move(active, call, region, Some(server.clone())).await?;
            wait(active, id).await?;
        }
    }
    Ok(reply(&pb::RecommissionRegionServerResponse {}))
}

pub(super) fn decommissioned<W: World>(active: &Active<W>) -> Reply {
    let servers = active.decommissioned();
    reply(&pb::ListDecommissionedRegionServersResponse {
        server_name: servers.iter().map(convert::server_name_pb).collect(),
    })
}

/// Waits for a procedure's end, however long that takes.
///
/// # Errors
/// What it failed with.
pub(super) async fn wait<W: World>(active: &Active<W>, id: ProcedureId) -> Result<()> {
    loop {
        match active.result(id, MOVE_PATIENCE).await {
            Answer::Running(_) => {}
            Answer::NotFound => return Ok(()),
            Answer::Finished(finished) => {
                return finished.failure.map_or(Ok(()), Err);
            }
        }
    }
}

/// The oldest last major compaction of a table's regions, ms; 0 if one has never had any (HBase's answer, too).
async fn oldest<W: World>(
    active: &Active<W>,
    table: &TableName,
    only: Option<&EncodedName>,
) -> Result<i64> {
    let live = active.world().servers().borrow().clone();
    let mut oldest: Option<u64> = None;
    for server in &live {
        for load in active.world().loads(server).await?.region_loads {
            let encoded = EncodedName::from_specifier(&load.region_specifier.value);
            let of_table = active.with_catalog(|catalog| {
                catalog
                    .region(&encoded)
                    .is_some_and(|entry| entry.info.table == *table)
            });
            if of_table && only.is_none_or(|only| *only == encoded) {
                let at = load.last_major_compaction_ts();
                oldest = Some(oldest.map_or(at, |before| before.min(at)));
            }
        }
    }
    Ok(i64::try_from(oldest.unwrap_or(0)).unwrap_or(i64::MAX))
}

pub(super) async fn major_compaction<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::MajorCompactionTimestampRequest = param(call)?;
    let table = convert::table_name(&request.table_name)?;
    Ok(reply(&pb::MajorCompactionTimestampResponse {
        compaction_timestamp: oldest(active, &table, None).await?,
    }))
}

pub(super) async fn major_compaction_of_region<W: World>(
    active: &Active<W>,
    call: &Call,
) -> Result<Reply> {
    let request: pb::MajorCompactionTimestampForRegionRequest = param(call)?;
    let encoded = EncodedName::from_specifier(&request.region.value);
    let table = active.with_catalog(|c| c.region(&encoded).map(|entry| entry.info.table.clone()));
    let compaction_timestamp = match table {
        Some(table) => oldest(active, &table, Some(&encoded)).await?,
        None => 0,
    };
    Ok(reply(&pb::MajorCompactionTimestampResponse {
        compaction_timestamp,
    }))
}

/// Forgets dead servers; answers with those that were not known as dead.
pub(super) fn clear_dead_servers<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ClearDeadServersRequest = param(call)?;
    let mut state = active.state();
    let mut left = Vec::new();
    for name in request.server_name {
        let server = convert::server_name(&name)?;
        if state.dead.remove(&server).is_none() {
            left.push(name);
        }
    }
    Ok(reply(&pb::ClearDeadServersResponse { server_name: left }))
}
