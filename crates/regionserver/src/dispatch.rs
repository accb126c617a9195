//! From a call's service and method to the function that answers it.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Handler, Reply};
use cadastre_types::{Error, Result};
use cadastre_wire::{Service, pb};

use crate::requests::{
    close_region, compact_region, exec_service, flush_region, get, multi, mutate, open_region,
    region_info, region_load, registry, reply, scan, server_info, upkeep,
};
use crate::server::Server;

/// The server as `rpc` sees it.
pub(crate) struct Dispatch<E: Env>(pub(crate) Arc<Server<E>>);

impl<E: Env> Handler for Dispatch<E> {
    fn serves(&self, service: Service) -> bool {
        matches!(
            service,
            Service::Client | Service::Admin | Service::ClientMeta | Service::BootstrapNode
        )
    }

    fn cluster_id(&self) -> String {
        self.0.cluster_id.clone()
    }

    async fn call(&self, call: Call) -> Result<Reply> {
        match call.service {
            Service::Client => client(&self.0, call).await,
            Service::Admin => admin(&self.0, call).await,
            _ => registry_call(&self.0, call).await,
        }
    }
}

fn unknown(call: &Call) -> Error {
    Error::unsupported(format_args!("{}.{}", call.service.name(), call.method))
}

/// A call on data. What was read may be told only while nobody else can have been given the region: the lease is looked at after
/// the read (C22). Before a write it is looked at too, or a client that repeats what is not answered would write each time.
async fn client<E: Env>(server: &Arc<Server<E>>, call: Call) -> Result<Reply> {
    if matches!(call.method.as_str(), "Mutate" | "Multi") {
        server.check_lease()?;
    }
    let answer = execute(server, &call).await;
    server.check_lease()?;
    answer
}

async fn execute<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        "Get" => get::get(server, call).await,
        "Mutate" => mutate::mutate(server, call).await,
        "Multi" => multi::multi(server, call).await,
        "Scan" => scan::scan(server, call).await,
        "ExecService" => exec_service::exec_service(server, call).await,
        "ExecRegionServerService" => exec_service::exec_server_service(call),
        _ => Err(unknown(call)),
    }
}

async fn admin<E: Env>(server: &Arc<Server<E>>, call: Call) -> Result<Reply> {
    match call.method.as_str() {
        "OpenRegion" => open_region::open_region(server, &call).await,
        "CloseRegion" => close_region::close_region(server, &call).await,
        "GetRegionInfo" => region_info::region_info(server, &call).await,
        "GetOnlineRegion" => region_info::online_regions(server, &call),
        "GetRegionLoad" => region_load::region_load(server, &call).await,
        "GetStoreFile" => region_info::store_files(server, &call),
        "FlushRegion" => flush_region::flush_region(server, &call).await,
        "CompactRegion" => compact_region::compact_region(server, &call),
        "GetServerInfo" => Ok(server_info::server_info(server)),
        "StopServer" => server_info::stop_server(server, &call),
        // There is nothing that a running server could read anew; HBase's answer is empty, too.
        "UpdateConfiguration" => Ok(reply(&pb::UpdateConfigurationResponse::default())),
        _ => upkeep::call(server, &call).await,
    }
}

async fn registry_call<E: Env>(server: &Arc<Server<E>>, call: Call) -> Result<Reply> {
    match call.method.as_str() {
        "GetClusterId" => registry::cluster_id(server).await,
        "GetActiveMaster" => registry::active_master(server).await,
        "GetMasters" => registry::masters(server).await,
        "GetMetaRegionLocations" => registry::meta_locations(server).await,
        "GetBootstrapNodes" | "GetAllBootstrapNodes" => registry::bootstrap_nodes(server).await,
        _ => Err(unknown(&call)),
    }
}
