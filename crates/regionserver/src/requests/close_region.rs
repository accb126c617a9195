//! `AdminService.CloseRegion`.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Code, EncodedName, Error, Result};
use cadastre_wire::pb;

use crate::server::Server;

use super::{encoded_name, param, reply};

pub(crate) async fn close_region<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::CloseRegionRequest = param(call)?;
    server.check_master_epoch(request.master_epoch)?;
    if !close(server, &encoded_name(&request.region)).await? {
        return Err(Error::new(
            Code::NotServingRegion,
            format!(
                "{} is not online on {}",
                encoded_name(&request.region),
                server.name
            ),
        ));
    }
    Ok(reply(&pb::CloseRegionResponse { closed: true }))
}

/// Closes a region: it is not found from now on, its scanners end, what is in memory is flushed. False if it was not open.
pub(crate) async fn close<E: Env>(server: &Arc<Server<E>>, name: &EncodedName) -> Result<bool> {
    let Some(hosted) = server.regions.begin_close(name) else {
        return Ok(false);
    };
    server.scanners.drop_region(name);
    let region = hosted.region.clone();
    let closed = server
        .regions
        .on_core(hosted.core, move || {
            Box::pin(async move { region.close().await })
        })
        .await;
    // Closed or broken, the region is not ours any more; the next opening replays the log.
    server.regions.settle(name, None);
    closed
        .map(|()| true)
        .map_err(|error| error.context(format_args!("closing region {name}")))
}
