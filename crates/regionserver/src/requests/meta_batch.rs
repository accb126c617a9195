//! `ClientService.Multi` with a master's epoch: a batch on `hbase:meta` or `hbase:namespace` (C19).

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Error, Mutation, Result};
use cadastre_wire::{convert, pb};

use crate::guarded;
use crate::server::Server;

use super::{cell_reader, encoded_name, reply};

pub(crate) async fn meta_batch<E: Env>(
    server: &Arc<Server<E>>,
    call: &Call,
    request: &pb::MultiRequest,
    epoch: u64,
) -> Result<Reply> {
    server.check_master_epoch(Some(epoch))?;
    let [batch] = &request.region_action[..] else {
        return Err(Error::invalid("a master's batch is of one region"));
    };
    let hosted = server.regions.find(&encoded_name(&batch.region))?;
    let mutations = mutations(call, batch)?;
    let terms = server.terms(call, 0);
    let core = hosted.core;
    let here = Arc::clone(server);
    server
        .regions
        .on_core(core, move || {
            Box::pin(async move { guarded::write(&here, &hosted, mutations, epoch, terms).await })
        })
        .await?;
    Ok(reply(&pb::MultiResponse {
        region_action_result: vec![pb::RegionActionResult::default()],
        ..Default::default()
    }))
}

fn mutations(call: &Call, batch: &pb::RegionAction) -> Result<Vec<Mutation>> {
    let mut cells = cell_reader(call);
    let mutation = |action: &pb::Action| match &action.mutation {
        Some(mutation) => convert::mutation(mutation, &mut cells),
        None => Err(Error::invalid("a master's batch has mutations only")),
    };
    batch.action.iter().map(mutation).collect()
}
