//! `AdminService`'s calls for operators: the log, the block cache, compactions as a whole, logs of slow calls.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Error, Result};
use cadastre_wire::{exception, pb};

use crate::server::Server;

use super::{encoded_name, param, reply};

/// Java class that a list of slow or large calls is sent as (`AdminProtos.SlowLogResponses`).
const SLOW_LOG_ANSWER: &str =
    "org.apache.hadoop.hbase.shaded.protobuf.generated.AdminProtos$SlowLogResponses";

/// What the class of a request for such a list ends in.
const SLOW_LOG_REQUEST: &str = "SlowLogResponseRequest";

pub(crate) async fn call<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        "RollWALWriter" => {
            // Segments end by their size; an order to roll makes everything durable and lets go of what files hold already. No
            // region holds the log back after that.
            server.store.roll_log().await?;
            Ok(reply(&pb::RollWalWriterResponse::default()))
        }
        "CompactionSwitch" => {
            let request: pb::CompactionSwitchRequest = param(call)?;
            Ok(reply(&pb::CompactionSwitchResponse {
                prev_state: server.store.switch_compactions(request.enabled),
            }))
        }
        // No compaction waits in a queue: each is running, or not begun.
        "ClearCompactionQueues" => Ok(reply(&pb::ClearCompactionQueuesResponse::default())),
        "ClearRegionBlockCache" => clear_block_cache(server, call),
        // There is no cache on a device whose files could be named.
        "GetCachedFilesList" => Ok(reply(&pb::GetCachedFilesListResponse::default())),
        // There are no quotas of space: nothing is near or over one.
        "GetSpaceQuotaSnapshots" => Ok(Reply::default()),
        "GetLogEntries" => log_entries(call),
        // As HBase where no slow log is kept.
        "ClearSlowLogsResponses" => Ok(reply(&pb::ClearSlowLogResponses { is_cleaned: false })),
        _ => Err(Error::unsupported(format_args!(
            "{}.{}",
            call.service.name(),
            call.method
        ))),
    }
}

fn clear_block_cache<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::ClearRegionBlockCacheRequest = param(call)?;
    let mut stats = pb::CacheEvictionStats {
        evicted_blocks: Some(0),
        bytes_evicted: Some(0),
        max_cache_size: Some(i64::try_from(server.store.cache_bytes_max()).unwrap_or(i64::MAX)),
        exception: Vec::new(),
    };
    let mut blocks = 0;
    for region in request.region {
        match server.regions.find(&encoded_name(&region)) {
            Ok(hosted) => blocks += hosted.region.clear_cache(),
            Err(error) => stats.exception.push(pb::RegionExceptionMessage {
                exception: exception::to_pair(&error),
                region,
            }),
        }
    }
    stats.evicted_blocks = Some(i64::try_from(blocks).unwrap_or(i64::MAX));
    Ok(reply(&pb::ClearRegionBlockCacheResponse { stats }))
}

/// Slow calls are written to the server's log and not kept for clients, which is HBase's default, too: an empty list.
fn log_entries(call: &Call) -> Result<Reply> {
    let request: pb::LogRequest = param(call)?;
    if !request.log_class_name.ends_with(SLOW_LOG_REQUEST) {
        return Err(Error::invalid(format!(
            "Invalid request params: no log is kept for {}",
            request.log_class_name
        )));
    }
    Ok(reply(&pb::LogEntry {
        log_class_name: SLOW_LOG_ANSWER.to_owned(),
        log_message: bytes::Bytes::new(),
    }))
}
