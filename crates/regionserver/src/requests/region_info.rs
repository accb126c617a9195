//! `AdminService.GetRegionInfo`, `GetOnlineRegion` and `GetStoreFile`.

use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::Result;
use cadastre_wire::pb::get_region_info_response::CompactionState;
use cadastre_wire::{convert, pb};

use crate::regions::Hosted;
use crate::server::Server;

use super::{encoded_name, param, reply};

pub(crate) async fn region_info<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::GetRegionInfoRequest = param(call)?;
    let hosted = server.regions.find(&encoded_name(&request.region))?;
    let asked = request.compaction_state.unwrap_or(false);
    let divisible = !hosted.region.info().is_meta();
    let best_split_row = match divisible && request.best_split_row.unwrap_or(false) {
        true => split_row(server, &hosted).await?,
        false => None,
    };
    Ok(reply(&pb::GetRegionInfoResponse {
        region_info: convert::region_info_pb(hosted.region.info()),
        compaction_state: asked.then(|| state(hosted.compacting()) as i32),
        splittable: Some(divisible),
        mergeable: Some(divisible),
        best_split_row,
    }))
}

/// Where the region would be split, after a flush.
async fn split_row<E: Env>(
    server: &Arc<Server<E>>,
    hosted: &Arc<Hosted<E>>,
) -> Result<Option<Bytes>> {
    let region = hosted.region.clone();
    server
        .regions
        .on_core(hosted.core, move || {
            Box::pin(async move { region.split_row().await })
        })
        .await
}

/// A master that asks says its epoch, so that orders of the one before it are refused from then on (C19).
pub(crate) fn online_regions<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::GetOnlineRegionRequest = param(call)?;
    if request.master_epoch.is_some() {
        server.check_master_epoch(request.master_epoch)?;
    }
    let open = server.regions.open();
    let infos = open
        .iter()
        .map(|hosted| convert::region_info_pb(hosted.region.info()));
    Ok(reply(&pb::GetOnlineRegionResponse {
        region_info: infos.collect(),
    }))
}

/// The files that hold the named families: those of the region, since families share them.
pub(crate) fn store_files<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::GetStoreFileRequest = param(call)?;
    let hosted = server.regions.find(&encoded_name(&request.region))?;
    let descriptor = hosted.region.descriptor();
    for family in &request.family {
        descriptor.family(family)?;
    }
    Ok(reply(&pb::GetStoreFileResponse {
        store_file: hosted.region.file_names()?,
    }))
}

fn state((minor, major): (bool, bool)) -> CompactionState {
    match (minor, major) {
        (false, false) => CompactionState::None,
        (true, false) => CompactionState::Minor,
        (false, true) => CompactionState::Major,
        (true, true) => CompactionState::MajorAndMinor,
    }
}
