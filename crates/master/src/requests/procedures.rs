//! `getProcedureResult`, `GetProcedures`, `GetLocks`, `AbortProcedure`.

use std::time::Duration;

use cadastre_rpc::{Call, Reply};
use cadastre_types::{Error, Result};
use cadastre_wire::pb;

use super::{param, reply};
use crate::active::{Active, Answer};
use crate::journal;
use crate::procedure::Lock;
use crate::world::World;

/// How long a question for a result waits for it. Clients ask again after pauses that grow; an answer at the very end of the
/// procedure spares them. Below the time from which a call counts as slow, and far below any client's time-out.
const RESULT_PATIENCE: Duration = Duration::from_millis(500);

/// What the Java classes of answers about the balancer begin with.
const LOG_ANSWERS: &str = "org.apache.hadoop.hbase.shaded.protobuf.generated.MasterProtos$";

pub(super) async fn result<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    use pb::get_procedure_result_response::State;
    let request: pb::GetProcedureResultRequest = param(call)?;
    let response = match active.result(request.proc_id, RESULT_PATIENCE).await {
        Answer::NotFound => pb::GetProcedureResultResponse {
            state: State::NotFound as i32,
            ..Default::default()
        },
        Answer::Running(ticket) => pb::GetProcedureResultResponse {
            state: State::Running as i32,
            submitted_time: Some(ticket.submitted_ms),
            last_update: Some(ticket.submitted_ms),
            ..Default::default()
        },
        Answer::Finished(finished) => pb::GetProcedureResultResponse {
            state: State::Finished as i32,
            submitted_time: Some(finished.ticket.submitted_ms),
            last_update: Some(finished.finished_ms),
            exception: finished.failure.as_ref().map(journal::foreign_exception),
            ..Default::default()
        },
    };
    Ok(reply(&response))
}

pub(super) fn procedures<W: World>(active: &Active<W>) -> Reply {
    let state = active.state();
    let running = state
        .running
        .values()
        .map(|r| journal::running_message(&r.ticket, r.operation.class_name()));
    let finished = state.finished.values().map(journal::finished_message);
    reply(&pb::GetProceduresResponse {
        procedure: finished.chain(running).collect(),
    })
}

/// The balancer's decisions and refusals are not kept for clients, which is HBase's default, too: an empty list of what was asked for.
pub(super) fn log_entries(call: &Call) -> Result<Reply> {
    let request: pb::LogRequest = param(call)?;
    let kinds = ["BalancerDecisions", "BalancerRejections"];
    let asked = |kind: &&str| request.log_class_name.ends_with(&format!("{kind}Request"));
    let kind = kinds.into_iter().find(asked).ok_or_else(|| {
        Error::invalid(format!(
            "Invalid request params: no log is kept for {}",
            request.log_class_name
        ))
    })?;
    Ok(reply(&pb::LogEntry {
        log_class_name: format!("{LOG_ANSWERS}{kind}Response"),
        log_message: bytes::Bytes::new(),
    }))
}

/// The locks that procedures hold.
pub(super) fn locks<W: World>(active: &Active<W>) -> Reply {
    let state = active.state();
    let lock = state
        .running
        .values()
        .map(|running| {
            let (kind, name) = match running.operation.lock() {
                Lock::Table(table) => (pb::LockedResourceType::Table, table.to_string()),
                Lock::Namespace(name) => (pb::LockedResourceType::Namespace, name),
            };
            let class = running.operation.class_name();
            pb::LockedResource {
                resource_type: kind as i32,
                resource_name: Some(name),
                lock_type: pb::LockType::Exclusive as i32,
                exclusive_lock_owner_procedure: Some(journal::running_message(
                    &running.ticket,
                    class,
                )),
                ..Default::default()
            }
        })
        .collect();
    reply(&pb::GetLocksResponse { lock })
}

/// No procedure is stopped half way: what has begun is done, or takes itself back. HBase answers so for most of its own.
pub(super) fn abort(call: &Call) -> Result<Reply> {
    let _: pb::AbortProcedureRequest = param(call)?;
    Ok(reply(&pb::AbortProcedureResponse {
        is_procedure_aborted: false,
    }))
}
