//! `ClientService.Mutate`: one mutation, with or without a condition.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{MutationKind, Result};
use cadastre_wire::{convert, pb};

use crate::server::Server;
use crate::{apply, read};

use super::{cell_reader, encoded_name, param, reply};

pub(crate) async fn mutate<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::MutateRequest = param(call)?;
    let hosted = server.regions.find(&encoded_name(&request.region))?;
    let mut cells = cell_reader(call);
    let mutation = convert::mutation(&request.mutation, &mut cells)?;
    let condition = request
        .condition
        .as_ref()
        .map(convert::condition)
        .transpose()?;
    let conditional = condition.is_some();
    let query_metrics = condition.as_ref().is_some_and(|it| it.query_metrics);
    let terms = server.terms(call, request.nonce_group.unwrap_or(0));
    let grows = matches!(
        mutation.kind,
        MutationKind::Increment | MutationKind::Append
    );
    let row = mutation.row.clone();
    let env = server.env.clone();
    let outcome = server
        .regions
        .on_core(hosted.core, move || {
            Box::pin(async move {
                match condition {
                    Some(condition) => {
                        let condition = Some(condition);
                        apply::atomic(&env, &hosted, &row, vec![mutation], condition, terms).await
                    }
                    None => apply::one(&env, &hosted, mutation, terms).await,
                }
            })
        })
        .await?;
    // An unconditional increment or append leaves `processed` unset; see hbase-protocol.md 4.3, "Answers".
    Ok(reply(&pb::MutateResponse {
        result: outcome.result.as_deref().map(convert::result_pb),
        processed: (conditional || !grows).then_some(outcome.processed),
        metrics: read::query_metrics(query_metrics, outcome.bytes_read),
    }))
}
