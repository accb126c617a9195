//! `AdminService.GetServerInfo`, `UpdateConfiguration`, `StopServer`.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::Result;
use cadastre_wire::{convert, pb};

use crate::server::Server;

use super::{param, reply};

pub(crate) fn server_info<E: Env>(server: &Arc<Server<E>>) -> Reply {
    reply(&pb::GetServerInfoResponse {
        server_info: pb::ServerInfo {
            server_name: convert::server_name_pb(&server.name),
            webui_port: None,
        },
    })
}

pub(crate) fn stop_server<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::StopServerRequest = param(call)?;
    tracing::info!(
        reason = request.reason,
        by = call.peer.user,
        "asked to stop"
    );
    server.request_stop();
    Ok(reply(&pb::StopServerResponse::default()))
}
