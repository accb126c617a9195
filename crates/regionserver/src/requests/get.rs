//! `ClientService.Get`.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::Result;
use cadastre_wire::{convert, pb};

use crate::read::{self, CellSink};
use crate::server::Server;

use super::{encoded_name, param};

/// Version from which a client's Get answers may carry a cell block (hbase-protocol.md 4.2).
const BLOCK_SINCE: (u32, u32) = (1, 3);

pub(crate) async fn get<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::GetRequest = param(call)?;
    let hosted = server.regions.find(&encoded_name(&request.region))?;
    let get = convert::get(&request.get)?;
    // Here, whichever core the region lives on: a lookup spawns no tasks, and two wake-ups cost more than it does.
    let found = read::get(&server.env, &hosted, &get).await?;
    let row = &found.cells;
    let in_block = call
        .peer
        .version
        .is_some_and(|version| version >= BLOCK_SINCE);
    let mut sink = CellSink::new(&call.peer);
    let mut result = if get.existence_only {
        pb::Result {
            exists: Some(!row.is_empty()),
            ..Default::default()
        }
    } else if in_block {
        sink.result(row)
    } else {
        convert::result_pb(row)
    };
    result.metrics = read::query_metrics(get.query_metrics, found.bytes_read);
    let response = pb::GetResponse {
        result: Some(result),
    };
    Ok(Reply {
        body: cadastre_wire::encode(&response),
        cells: sink.finish(),
    })
}
