//! `MultiRowMutationService.MutateRows`: mutations of several rows of one region, all or nothing, if every condition holds.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_types::{Error, Result};
use cadastre_wire::cells::CellReader;
use cadastre_wire::{convert, pb};

use crate::apply::{self, Terms};
use crate::regions::Hosted;

pub(super) const SERVICE: &str = "MultiRowMutationService";
pub(super) const METHOD: &str = "MutateRows";

/// Mutations of one request (INV-9): each locks a row. The bytes are bounded by the frame and by the log's record.
const MUTATIONS_MAX: usize = 100_000;

pub(super) async fn mutate_rows<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    request: pb::MutateRowsRequest,
    terms: Terms,
) -> Result<pb::MutateRowsResponse> {
    if request.mutation_request.len() + request.condition.len() > MUTATIONS_MAX {
        return Err(Error::invalid(format!(
            "more than {MUTATIONS_MAX} mutations and conditions at once"
        )));
    }
    // The request lies inside another message, so its cells do, too.
    let mut cells = CellReader::empty();
    let mutations = request
        .mutation_request
        .iter()
        .map(|mutation| {
            convert::mutation(mutation, &mut cells).map_err(|error| Error::invalid(error.message()))
        })
        .collect::<Result<Vec<_>>>()?;
    let conditions = request
        .condition
        .iter()
        .map(convert::condition)
        .collect::<Result<Vec<_>>>()?;
    let terms = Terms {
        nonce_group: request.nonce_group(),
        ..terms
    };
    let outcome = apply::rows(env, hosted, mutations, conditions, request.nonce(), terms).await?;
    Ok(pb::MutateRowsResponse {
        processed: Some(outcome.processed),
    })
}
