//! `ClientMetaService` on the master: the registry for clients that do not speak ZooKeeper (hbase-protocol.md 7.2). A standby
//! answers too. Every answer is read from the coordination service, which is the truth.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{RegionInfo, Result};
use cadastre_wire::{convert, pb};

use super::{reply, unknown};
use crate::start::Shared;

pub(super) async fn call<E: Env>(shared: &Arc<Shared<E>>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        "GetClusterId" => Ok(reply(&pb::GetClusterIdResponse {
            cluster_id: Some(shared.cluster_id.clone()),
        })),
        "GetActiveMaster" => active_master(shared).await,
        "GetMasters" => masters(shared).await,
        "GetMetaRegionLocations" => meta_locations(shared).await,
        "GetBootstrapNodes" => bootstrap_nodes(shared).await,
        _ => Err(unknown(call)),
    }
}

async fn active_master<E: Env>(shared: &Arc<Shared<E>>) -> Result<Reply> {
    let active = shared.znodes.active_master().await?;
    Ok(reply(&pb::GetActiveMasterResponse {
        server_name: active.as_ref().map(convert::server_name_pb),
    }))
}

async fn masters<E: Env>(shared: &Arc<Shared<E>>) -> Result<Reply> {
    let active = shared.znodes.active_master().await?;
    let backups = shared.znodes.servers_below("backup-masters").await?;
    let entry = |name, is_active| pb::GetMastersResponseEntry {
        server_name: convert::server_name_pb(name),
        is_active,
    };
    let active = active.iter().map(|name| entry(name, true));
    let backups = backups.iter().map(|name| entry(name, false));
    Ok(reply(&pb::GetMastersResponse {
        master_servers: active.chain(backups).collect(),
    }))
}

async fn meta_locations<E: Env>(shared: &Arc<Shared<E>>) -> Result<Reply> {
    let place = shared.znodes.meta_place().await?;
    let location = |name| pb::RegionLocation {
        region_info: convert::region_info_pb(&RegionInfo::meta()),
        server_name: Some(convert::server_name_pb(name)),
        seq_num: 0,
    };
    Ok(reply(&pb::GetMetaRegionLocationsResponse {
        meta_locations: place.iter().map(location).collect(),
    }))
}

async fn bootstrap_nodes<E: Env>(shared: &Arc<Shared<E>>) -> Result<Reply> {
    let servers = shared.znodes.servers_below("rs").await?;
    Ok(reply(&pb::GetBootstrapNodesResponse {
        server_name: servers.iter().map(convert::server_name_pb).collect(),
    }))
}
