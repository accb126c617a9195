//! `AdminService.CompactRegion`: answers at once, as HBase does; the compaction goes on in the background.

use std::sync::Arc;

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
    let major = request.major.unwrap_or(false);
    let region = hosted.region.clone();
    server.env.spawn_on(hosted.core, "compact", move || {
        Box::pin(async move {
            if let Err(error) = region.compact(major).await {
                tracing::warn!(region = %region.info().encoded_name(), %error, "a compaction failed");
            }
        })
    });
    Ok(reply(&pb::CompactRegionResponse::default()))
}
