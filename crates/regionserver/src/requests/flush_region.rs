//! `AdminService.FlushRegion`.

use std::sync::Arc;

use cadastre_env::{Clock, Env};
use cadastre_rpc::{Call, Reply};
use cadastre_types::Result;
use cadastre_wire::pb;

use crate::server::Server;

use super::{encoded_name, param, reply};

pub(crate) async fn flush_region<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::FlushRegionRequest = param(call)?;
    let hosted = server.regions.find(&encoded_name(&request.region))?;
    if let Some(family) = &request.family {
        hosted.region.descriptor().family(family)?;
    }
    let region = hosted.region.clone();
    server
        .regions
        .on_core(hosted.core, move || {
            Box::pin(async move { region.flush().await })
        })
        .await?;
    // Families share one memtable: all of them are flushed, whichever were named.
    Ok(reply(&pb::FlushRegionResponse {
        last_flush_time: server.env.clock().wall(),
        flushed: Some(true),
        wrote_flush_wal_marker: Some(false),
    }))
}
