//! `ClientMetaService` on a region server: the registry for clients that do not speak ZooKeeper (hbase-protocol.md 7.2). Every
//! answer is read from the coordination service, which is the truth.

use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_rpc::Reply;
use cadastre_types::{RegionInfo, Result, ServerName};
use cadastre_wire::{convert, pb, znode};

use crate::server::Server;

use super::reply;

async fn read<E: Env>(server: &Arc<Server<E>>, path: &str) -> Result<Option<Bytes>> {
    let path = format!("{}/{path}", server.parent);
    Ok(server.session.get(&path).await?.map(|(data, _)| data))
}

async fn master<E: Env>(server: &Arc<Server<E>>) -> Result<Option<ServerName>> {
    read(server, "master")
        .await?
        .map(|data| znode::read_master(&data))
        .transpose()
}

pub(crate) async fn cluster_id<E: Env>(server: &Arc<Server<E>>) -> Result<Reply> {
    let id = read(server, "hbaseid")
        .await?
        .map(|data| znode::read_cluster_id(&data))
        .transpose()?;
    Ok(reply(&pb::GetClusterIdResponse { cluster_id: id }))
}

pub(crate) async fn active_master<E: Env>(server: &Arc<Server<E>>) -> Result<Reply> {
    let server_name = master(server).await?.as_ref().map(convert::server_name_pb);
    Ok(reply(&pb::GetActiveMasterResponse { server_name }))
}

pub(crate) async fn masters<E: Env>(server: &Arc<Server<E>>) -> Result<Reply> {
    let entry = |name: &ServerName, is_active| pb::GetMastersResponseEntry {
        server_name: convert::server_name_pb(name),
        is_active,
    };
    let mut master_servers: Vec<_> = master(server)
        .await?
        .iter()
        .map(|name| entry(name, true))
        .collect();
    for name in names(server, "backup-masters").await? {
        master_servers.push(entry(&name, false));
    }
    Ok(reply(&pb::GetMastersResponse { master_servers }))
}

pub(crate) async fn meta_locations<E: Env>(server: &Arc<Server<E>>) -> Result<Reply> {
    let data = read(server, "meta-region-server").await?;
    let place = data
        .map(|data| znode::read_meta_region_server(&data))
        .transpose()?;
    let is_open = |(_, state): &&(ServerName, pb::region_state::State)| {
        *state == pb::region_state::State::Open
    };
    let meta_locations = place
        .iter()
        .filter(is_open)
        .map(|(name, _)| pb::RegionLocation {
            region_info: convert::region_info_pb(&RegionInfo::meta()),
            server_name: Some(convert::server_name_pb(name)),
            seq_num: 0,
        });
    Ok(reply(&pb::GetMetaRegionLocationsResponse {
        meta_locations: meta_locations.collect(),
    }))
}

pub(crate) async fn bootstrap_nodes<E: Env>(server: &Arc<Server<E>>) -> Result<Reply> {
    let nodes = names(server, "rs").await?;
    Ok(reply(&pb::GetBootstrapNodesResponse {
        server_name: nodes.iter().map(convert::server_name_pb).collect(),
    }))
}

/// Server names that are children of a znode. Names that are none are not ours and are left out.
async fn names<E: Env>(server: &Arc<Server<E>>, path: &str) -> Result<Vec<ServerName>> {
    let children = server
        .session
        .children(&format!("{}/{path}", server.parent))
        .await?;
    let children = children.unwrap_or_default();
    Ok(children
        .iter()
        .filter_map(|name| ServerName::parse(name).ok())
        .collect())
}
