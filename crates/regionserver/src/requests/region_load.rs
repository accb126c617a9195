//! `AdminService.GetRegionLoad`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::Result;
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
        region_loads.push(load(&hosted).await);
    }
    Ok(reply(&pb::GetRegionLoadResponse { region_loads }))
}

/// What HBase's clients and shell show of a region.
pub(crate) async fn load<E: Env>(hosted: &Hosted<E>) -> pb::RegionLoad {
    let load = hosted.region.load();
    // A region that closes at this moment has no answer any more; what its files take on disk stands for it.
    let raw_bytes = match hosted.region.raw_file_bytes().await {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::debug!(region = %hosted.region.info().encoded_name(), %error, "its size is not known");
            load.store_file_bytes
        }
    };
    // Sizes in MB as HBase counts them: a file smaller than one counts as none.
    let mb = |bytes: u64| Some(u32::try_from(bytes / MIB).unwrap_or(u32::MAX));
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
        complete_sequence_id: Some(hosted.region.open_sequence_number()),
        last_major_compaction_ts: Some(load.last_major_compaction_ms),
        // Data lies on this machine.
        data_locality: Some(1.0),
        ..Default::default()
    }
}
