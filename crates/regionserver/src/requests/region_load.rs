//! `AdminService.GetRegionLoad`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cadastre_env::{Clock, Env};
use cadastre_rpc::{Call, Reply};
use cadastre_types::Result;
use cadastre_wire::pb::region_load::CompactionState;
use cadastre_wire::{convert, pb};

use crate::regions::Hosted;
use crate::server::Server;

use super::{param, reply};

const MIB: u64 = 1024 * 1024;

pub(crate) async fn region_load<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::GetRegionLoadRequest = param(call)?;
    let table = request
        .table_name
        .as_ref()
        .map(convert::table_name)
        .transpose()?;
    let wanted = |hosted: &Arc<Hosted<E>>| {
        table
            .as_ref()
            .is_none_or(|table| hosted.region.info().table == *table)
    };
    let mut region_loads = Vec::new();
    for hosted in server.regions.open().into_iter().filter(wanted) {
        region_loads.push(load(server, &hosted).await);
    }
    Ok(reply(&pb::GetRegionLoadResponse {
        region_loads,
        server_load: Some(server_load(server)),
    }))
}

/// Sizes in MB as HBase counts them: what is smaller than one counts as none.
fn mb(bytes: u64) -> Option<u32> {
    Some(u32::try_from(bytes / MIB).unwrap_or(u32::MAX))
}

/// What the master shows of this server. Memory is that of the process, which several servers may share.
fn server_load<E: Env>(server: &Server<E>) -> pb::ServerLoad {
    let now = server.env.clock().mono();
    pb::ServerLoad {
        number_of_requests: Some(server.rate.per_second(now, server.regions.requests())),
        used_heap_mb: mb(server.env.resident_bytes().unwrap_or(0)),
        max_heap_mb: mb(server.store.memory_bytes()),
        ..Default::default()
    }
}

/// What HBase's clients and shell show of a region.
async fn load<E: Env>(server: &Server<E>, hosted: &Hosted<E>) -> pb::RegionLoad {
    let load = hosted.region.load();
    // A region that closes at this moment has no answer any more; what its files take on disk stands for it.
    let raw_bytes = match hosted.region.raw_file_bytes().await {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::debug!(region = %hosted.region.info().encoded_name(), %error, "its size is not known");
            load.store_file_bytes
        }
    };
    let compaction_state = match hosted.compacting() {
        (false, false) => CompactionState::None,
        (true, false) => CompactionState::Minor,
        (false, true) => CompactionState::Major,
        (true, true) => CompactionState::MajorAndMinor,
    };
    pb::RegionLoad {
        region_specifier: pb::RegionSpecifier {
            r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
            value: hosted.region.info().name(),
        },
        stores: Some(hosted.region.descriptor().families.len() as u32),
        storefiles: Some(load.store_files),
        store_uncompressed_size_mb: mb(raw_bytes),
        storefile_size_mb: mb(load.store_file_bytes),
        mem_store_size_mb: mb(load.memstore_bytes),
        read_requests_count: Some(hosted.reads.load(Ordering::Relaxed)),
        filtered_read_requests_count: Some(hosted.filtered.load(Ordering::Relaxed)),
        write_requests_count: Some(hosted.writes.load(Ordering::Relaxed)),
        complete_sequence_id: Some(load.flushed_sequence),
        last_major_compaction_ts: Some(load.last_major_compaction_ms),
        // Where the blocks of a file lie only HDFS knows.
        data_locality: (!server.store.is_shared()).then_some(1.0),
        compaction_state: Some(compaction_state as i32),
        region_size_mb: mb(load.store_file_bytes),
        ..Default::default()
    }
}
