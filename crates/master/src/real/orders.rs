//! Orders and questions to region servers: `AdminService`. Each order names the start of the server it is meant for, and carries
//! the master's epoch (C19).

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Code, Error, RegionInfo, Result, ServerName};
use cadastre_wire::pb::open_region_response::RegionOpeningState;
use cadastre_wire::{Service, convert, pb};

use super::{ASK_TIMEOUT, ORDER_TIMEOUT, RealWorld};
use crate::catalog::Placement;
use crate::world::{OpenOrder, Opening, World};

impl<E: Env> RealWorld<E> {
    pub(super) async fn order_open(
        &self,
        server: &ServerName,
        orders: &[OpenOrder],
    ) -> Result<Vec<Opening>> {
        let request = open_request(server, orders, self.inner.epoch, self.wall_ms());
        let param = cadastre_wire::encode(&request);
        let (body, _) = self
            .call(server, Service::Admin, "OpenRegion", param, ORDER_TIMEOUT)
            .await?;
        let response: pb::OpenRegionResponse = cadastre_wire::decode(body)?;
        let count = orders.len();
        if [
            response.opening_state.len(),
            response.epoch.len(),
            response.open_sequence_number.len(),
            response.damage.len(),
        ] != [count; 4]
        {
            return Err(Error::corrupt(format!(
                "{server} answers an order for {count} regions with another number"
            )));
        }
        let states = response
            .opening_state
            .iter()
            .zip(response.epoch)
            .zip(response.open_sequence_number)
            .zip(response.damage);
        Ok(states
            .map(|(((state, epoch), open_sequence_number), damage)| {
                match RegionOpeningState::try_from(*state) {
                    Ok(RegionOpeningState::Opened | RegionOpeningState::AlreadyOpened) => {
                        Opening::Open(Placement {
                            server: server.clone(),
                            open_sequence_number,
                            epoch,
                        })
                    }
                    Ok(RegionOpeningState::FailedOpening) if epoch > 0 => {
                        Opening::OtherEpoch(epoch)
                    }
                    _ => Opening::Failed((!damage.is_empty()).then(|| Error::corrupt(damage))),
                }
            })
            .collect())
    }

    pub(super) async fn order_close(&self, server: &ServerName, region: &RegionInfo) -> Result<()> {
        let request = close_request(server, region, self.inner.epoch);
        let param = cadastre_wire::encode(&request);
        let answer = self
            .call(server, Service::Admin, "CloseRegion", param, ORDER_TIMEOUT)
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Code::NotServingRegion => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn order_flush(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        family: Option<Bytes>,
    ) -> Result<()> {
        let request = pb::FlushRegionRequest {
            region: convert::region_specifier(region),
            family,
            ..Default::default()
        };
        let param = cadastre_wire::encode(&request);
        self.call(server, Service::Admin, "FlushRegion", param, ORDER_TIMEOUT)
            .await?;
        Ok(())
    }

    pub(super) async fn ask_online(&self, server: &ServerName) -> Result<Vec<RegionInfo>> {
        let param = cadastre_wire::encode(&pb::GetOnlineRegionRequest {
            master_epoch: Some(self.inner.epoch),
        });
        let (body, _) = self
            .call(
                server,
                Service::Admin,
                "GetOnlineRegion",
                param,
                ASK_TIMEOUT,
            )
            .await?;
        let response: pb::GetOnlineRegionResponse = cadastre_wire::decode(body)?;
        response
            .region_info
            .iter()
            .map(convert::region_info)
            .collect()
    }

    pub(super) async fn ask_split_row(
        &self,
        server: &ServerName,
        region: &RegionInfo,
    ) -> Result<Option<Bytes>> {
        let param = cadastre_wire::encode(&pb::GetRegionInfoRequest {
            region: convert::region_specifier(region),
            best_split_row: Some(true),
            ..Default::default()
        });
        // The server flushes first.
        let (body, _) = self
            .call(
                server,
                Service::Admin,
                "GetRegionInfo",
                param,
                ORDER_TIMEOUT,
            )
            .await?;
        let response: pb::GetRegionInfoResponse = cadastre_wire::decode(body)?;
        Ok(response.best_split_row.filter(|row| !row.is_empty()))
    }

    pub(super) async fn ask_loads(&self, server: &ServerName) -> Result<pb::ServerLoad> {
        let param = cadastre_wire::encode(&pb::GetRegionLoadRequest::default());
        let (body, _) = self
            .call(server, Service::Admin, "GetRegionLoad", param, ASK_TIMEOUT)
            .await?;
        let response: pb::GetRegionLoadResponse = cadastre_wire::decode(body)?;
        Ok(pb::ServerLoad {
            region_loads: response.region_loads,
            ..response.server_load.unwrap_or_default()
        })
    }
}

fn open_request(
    server: &ServerName,
    orders: &[OpenOrder],
    epoch: u64,
    now_ms: u64,
) -> pb::OpenRegionRequest {
    pb::OpenRegionRequest {
        open_info: orders
            .iter()
            .map(|order| pb::open_region_request::RegionOpenInfo {
                region: convert::region_info_pb(&order.info),
                table_schema: Some(convert::table_schema(&order.descriptor, true)),
                expected_epoch: Some(order.expected_epoch),
                ..Default::default()
            })
            .collect(),
        server_start_code: Some(server.start_code),
        master_system_time: Some(now_ms),
        master_epoch: Some(epoch),
        ..Default::default()
    }
}

fn close_request(server: &ServerName, region: &RegionInfo, epoch: u64) -> pb::CloseRegionRequest {
    pb::CloseRegionRequest {
        region: convert::region_specifier(region),
        server_start_code: Some(server.start_code),
        transition_in_zk: Some(false),
        master_epoch: Some(epoch),
        ..Default::default()
    }
}
