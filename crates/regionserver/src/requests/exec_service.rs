//! `ClientService.ExecService` and `ExecRegionServerService`: calls of endpoints.

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::pb;

use crate::endpoint;
use crate::server::Server;

use super::{encoded_name, param, reply};

pub(crate) async fn exec_service<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let request: pb::CoprocessorServiceRequest = param(call)?;
    let hosted = server.regions.find(&encoded_name(&request.region))?;
    let terms = server.terms(call, 0);
    let env = server.env.clone();
    let name = hosted.region.info().name();
    let value = server
        .regions
        .on_core(hosted.core, move || {
            Box::pin(async move { endpoint::call(&env, &hosted, &request.call, terms).await })
        })
        .await?;
    // HBase answers with the region's whole name, however it was named.
    Ok(reply(&pb::CoprocessorServiceResponse {
        region: pb::RegionSpecifier {
            r#type: pb::region_specifier::RegionSpecifierType::RegionName as i32,
            value: name,
        },
        value,
    }))
}

/// There is no endpoint of a whole server.
pub(crate) fn exec_server_service(call: &Call) -> Result<Reply> {
    let request: pb::CoprocessorServiceRequest = param(call)?;
    Err(Error::new(
        Code::UnknownProtocol,
        format!(
            "No registered coprocessor executorService found for {}",
            request.call.service_name
        ),
    ))
}
