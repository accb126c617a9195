//! `AdminService.CompactRegion`: answers at once, as HBase does; the compaction goes on in the background.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::Result;
use cadastre_wire::pb;

use crate::server::Server;

use super::{encoded_name, param, reply};

pub(crate) fn compact_region<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::CompactRegionRequest = param(call)?;
    let hosted = server.regions.find(&encoded_name(&request.region))?;
    if let Some(family) = &request.family {
        hosted.region.descriptor().family(family)?;
    }
    // As HBase: asked for while compactions are switched off, none begins.
    if !server.store.compactions_on() {
        return Ok(reply(&pb::CompactRegionResponse::default()));
    }
    let major = request.major.unwrap_or(false);
    let core = hosted.core;
    // Counted before the answer, so that who asks for the state afterwards sees it.
    let kind = usize::from(major);
    hosted.compactions[kind].fetch_add(1, Ordering::SeqCst);
    server.env.spawn_on(core, "compact", move || {
        Box::pin(async move {
            if let Err(error) = hosted.region.compact(major).await {
                tracing::warn!(region = %hosted.region.info().encoded_name(), %error, "a compaction failed");
            }
            hosted.compactions[kind].fetch_sub(1, Ordering::SeqCst);
        })
    });
    Ok(reply(&pb::CompactRegionResponse::default()))
}
