//! Regions: moving them, balancing, when they were compacted; and the list of dead servers.

use std::time::Duration;

use cadastre_rpc::{Call, Reply};
use cadastre_types::{
    Code, EncodedName, Error, RegionInfo, Result, ServerName, TableName, TableState,
};
use cadastre_wire::{convert, pb};

use super::{param, reply, switches};
use crate::active::{Active, Answer};
use crate::assignment;
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
    let live = active.world().servers().borrow().clone();
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
    let live = active.world().servers().borrow().clone();
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
    active.reconcile().await;
    Ok(reply(&pb::AssignRegionResponse {}))
}

async fn wait<W: World>(active: &Active<W>, id: ProcedureId) -> Result<()> {
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
    active.with_catalog(|catalog| catalog.table(table).map(|_| ()))?;
    let live = active.world().servers().borrow().clone();
    let mut oldest: Option<u64> = None;
    for server in &live {
        for load in active.world().loads(server).await? {
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
    let region = named(active, &request.region)?;
    let encoded = region.encoded_name();
    Ok(reply(&pb::MajorCompactionTimestampResponse {
        compaction_timestamp: oldest(active, &region.table, Some(&encoded)).await?,
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
