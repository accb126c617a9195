//! `AdminService.OpenRegion`: only the master asks for it, with the schema and the expected epoch (C20).

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_store::RegionSpec;
use cadastre_types::{Code, Error, ErrorKind, Result};
use cadastre_wire::pb::open_region_response::RegionOpeningState;
use cadastre_wire::{convert, pb};

use crate::regions::Hosted;
use crate::server::Server;

use super::{param, reply};

/// How an opening ended: the state, the region's epoch (0 if unknown) and its open sequence number.
type Opened = (RegionOpeningState, u64, u64);

/// What the master must know of a failure: that no other try, here or elsewhere, can succeed, and why.
fn damage(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::Internal => error.message().to_owned(),
        _ => String::new(),
    }
}

pub(crate) async fn open_region<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::OpenRegionRequest = param(call)?;
    server.check_master_epoch(request.master_epoch)?;
    if let Some(start_code) = request.server_start_code
        && start_code != server.name.start_code
    {
        return Err(Error::invalid(format!(
            "this RPC was intended for a different server with startcode {start_code}, this server is {}",
            server.name
        )));
    }
    let openings = request
        .open_info
        .into_iter()
        .map(|info| open_one(server, info));
    let mut response = pb::OpenRegionResponse::default();
    for opened in futures::future::join_all(openings).await {
        let mut damaged = String::new();
        let (state, epoch, sequence) = opened.unwrap_or_else(|error| {
            tracing::error!(%error, "a region failed to open");
            damaged = damage(&error);
            (RegionOpeningState::FailedOpening, 0, 0)
        });
        response.damage.push(damaged);
        response.opening_state.push(state as i32);
        response.epoch.push(epoch);
        response.open_sequence_number.push(sequence);
    }
    Ok(reply(&response))
}

async fn open_one<E: Env>(
    server: &Arc<Server<E>>,
    open: pb::open_region_request::RegionOpenInfo,
) -> Result<Opened> {
    let info = convert::region_info(&open.region)?;
    let schema = open.table_schema.as_ref().ok_or_else(|| {
        Error::new(
            Code::DoNotRetryIo,
            "an order to open a region must carry the table's schema",
        )
    })?;
    let Some(expected_epoch) = open.expected_epoch else {
        return Err(Error::invalid(
            "an order to open a region must carry the region's epoch",
        ));
    };
    let descriptor = Arc::new(convert::table_descriptor(schema)?);
    let name = info.encoded_name();
    let Some(core) = server.regions.reserve(&name)? else {
        let hosted = server.regions.find(&name)?;
        return Ok((
            RegionOpeningState::AlreadyOpened,
            hosted.region.epoch(),
            hosted.region.open_sequence_number(),
        ));
    };
    let spec = RegionSpec {
        info: info.clone(),
        descriptor,
        expected_epoch: Some(expected_epoch),
    };
    let store = server.store.clone();
    let region = server
        .regions
        .on_core(core, move || {
            Box::pin(async move { store.open_region(spec).await })
        })
        .await;
    match region {
        Ok(region) => {
            let opened = (
                RegionOpeningState::Opened,
                region.epoch(),
                region.open_sequence_number(),
            );
            let hosted = Hosted::new(region, core);
            server.regions.settle(&name, Some(hosted));
            Ok(opened)
        }
        Err(error) => {
            server.regions.settle(&name, None);
            let error = error.context(format_args!("opening region {name}"));
            if error.code() != Code::Fenced {
                return Err(error);
            }
            // Another opening came before, perhaps one whose answer was lost: the master must know which epoch it left (C20).
            let epoch = server.store.region_epoch(&info).await?;
            tracing::warn!(%error, expected_epoch, epoch, "a region has another epoch than the order says");
            Ok((RegionOpeningState::FailedOpening, epoch, 0))
        }
    }
}
