//! `AdminService.CloseRegion`: a region is flushed while it serves until little is left, then closes (C11).

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Code, EncodedName, Error, Result};
use cadastre_wire::pb;

use crate::regions::Regions;
use crate::scanners::Scanners;
use crate::server::Server;

use super::{encoded_name, param, reply};

/// What a region that closes in order has left to flush at most when it stops to serve, bytes (C11): a few tens of ms.
const LEFT_MAX: u64 = 4 << 20;

/// Flushes of a region that goes on serving before it closes. Each leaves what was written while it ran; where clients write faster
/// than that becomes little, the close itself ends it.
const FLUSHES_MAX: usize = 4;

/// How a region is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Flushed while it serves, until little is left.
    InOrder,
    /// At once: the server has ended, and nobody is served meanwhile; perhaps it is another server's by now.
    AtOnce,
}

pub(crate) async fn close_region<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::CloseRegionRequest = param(call)?;
    server.check_master_epoch(request.master_epoch)?;
    let (regions, scanners) = (&server.regions, &server.scanners);
    let name = encoded_name(&request.region);
    let closed = close(regions, scanners, &name, Closing::InOrder).await?;
    if closed.is_none() {
        return Err(Error::new(
            Code::NotServingRegion,
            format!("{name} is not online on {}", server.name),
        ));
    }
    Ok(reply(&pb::CloseRegionResponse { closed: true }))
}

/// Closes a region: it is not found from now on, its scanners end, what is in memory is flushed. How many bytes that was, about;
/// `None` if it was not open.
///
/// # Errors
/// As the store's close; the region is not served any more all the same.
pub(crate) async fn close<E: Env>(
    regions: &Regions<E>,
    scanners: &Scanners<E>,
    name: &EncodedName,
    how: Closing,
) -> Result<Option<u64>> {
    if how == Closing::InOrder {
        flush_while_open(regions, name).await;
    }
    let Some(hosted) = regions.begin_close(name) else {
        return Ok(None);
    };
    let left = hosted.region.load().memstore_bytes;
    scanners.drop_region(name);
    let region = hosted.region.clone();
    let closed = regions
        .on_core(hosted.core, move || {
            Box::pin(async move { region.close().await })
        })
        .await;
    // Closed or broken, the region is not ours any more; the next opening replays the log.
    regions.settle(name, None);
    closed
        .map(|()| Some(left))
        .map_err(|error| error.context(format_args!("closing region {name}")))
}

/// Makes what is left to flush little while the region serves: clients would wait for it (C11).
async fn flush_while_open<E: Env>(regions: &Regions<E>, name: &EncodedName) {
    for _ in 0..FLUSHES_MAX {
        let Ok(hosted) = regions.find(name) else {
            return;
        };
        if hosted.region.load().memstore_bytes <= LEFT_MAX {
            return;
        }
        let region = hosted.region.clone();
        let flushed = regions.on_core(hosted.core, move || {
            Box::pin(async move { region.flush().await })
        });
        if let Err(error) = flushed.await {
            // The close flushes too, and tells what is wrong.
            tracing::warn!(%error, region = %name, "flushing before a close failed");
            return;
        }
    }
}

#[cfg(test)]
mod tests;
