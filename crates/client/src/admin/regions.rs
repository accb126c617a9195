//! Work on regions: flush and compact at their servers, move and balance by way of the master (hbase-protocol.md 8.8, 8.10).

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_rpc::ha::MasterService;
use cadastre_types::{RegionInfo, Result, ServerName, TableName};
use cadastre_wire::{Service, convert, decode, encode, pb};

use super::Admin;
use crate::call::RegionRequest;

/// What a run of the balancer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balanced {
    /// Whether it ran: it does not when it is switched off, or while regions are in transition.
    pub ran: bool,
    /// Moves that it found worth making, if the master says.
    pub moves_planned: Option<u32>,
    /// Moves made, if the master says.
    pub moves_made: Option<u32>,
}

struct FlushRequest;

impl RegionRequest for FlushRequest {
    type Answer = ();

    fn service(&self) -> Service {
        Service::Admin
    }

    fn method(&self) -> &'static str {
        "FlushRegion"
    }

    fn encode(&self, region: &RegionInfo) -> Result<(Bytes, Bytes)> {
        let request = pb::FlushRegionRequest {
            region: convert::region_specifier(region),
            if_older_than_ts: None,
            write_flush_wal_marker: None,
            family: None,
        };
        Ok((encode(&request), Bytes::new()))
    }

    fn decode(&self, body: Bytes, _cells: Bytes) -> Result<()> {
        decode::<pb::FlushRegionResponse>(body).map(|_| ())
    }
}

struct CompactRequest {
    major: bool,
    family: Option<Bytes>,
}

impl RegionRequest for CompactRequest {
    type Answer = ();

    fn service(&self) -> Service {
        Service::Admin
    }

    fn method(&self) -> &'static str {
        "CompactRegion"
    }

    fn encode(&self, region: &RegionInfo) -> Result<(Bytes, Bytes)> {
        let request = pb::CompactRegionRequest {
            region: convert::region_specifier(region),
            major: Some(self.major),
            family: self.family.clone(),
        };
        Ok((encode(&request), Bytes::new()))
    }

    fn decode(&self, body: Bytes, _cells: Bytes) -> Result<()> {
        decode::<pb::CompactRegionResponse>(body).map(|_| ())
    }
}

impl<E: Env> Admin<E> {
    /// Writes what the region that holds a row has in memory to its files.
    ///
    /// # Errors
    /// The last error of the tries.
    pub async fn flush_region(&self, table: &TableName, row: &Bytes) -> Result<()> {
        self.client.region_call(table, row, &FlushRequest).await
    }

    /// Asks the server of the region that holds a row to compact it, a family or all; it goes on after the answer. `major` rewrites all
    /// files into one and drops what is deleted.
    ///
    /// # Errors
    /// The last error of the tries.
    pub async fn compact_region(
        &self,
        table: &TableName,
        row: &Bytes,
        family: Option<Bytes>,
        major: bool,
    ) -> Result<()> {
        let request = CompactRequest { major, family };
        self.client.region_call(table, row, &request).await
    }

    /// The same for every region of a table; gives their number.
    ///
    /// # Errors
    /// The last error of the tries, at the first region that fails.
    pub async fn compact_table(
        &self,
        table: &TableName,
        family: Option<Bytes>,
        major: bool,
    ) -> Result<usize> {
        let regions = self.table_regions(table).await?;
        for location in &regions {
            let row = &location.region.start_key;
            self.compact_region(table, row, family.clone(), major)
                .await?;
        }
        Ok(regions.len())
    }

    /// Moves the region that holds a row to a server, or to any other one with `None`. The move is over when this returns. The call has no
    /// nonce in HBase, so it is not made again if its answer is lost.
    ///
    /// # Errors
    /// [`Code::OutcomeUnknown`](cadastre_types::Code::OutcomeUnknown) if it may have been done,
    /// [`Code::UnknownRegion`](cadastre_types::Code::UnknownRegion) and what else the master says.
    pub async fn move_region(
        &self,
        table: &TableName,
        row: &Bytes,
        to: Option<&ServerName>,
    ) -> Result<()> {
        let located = self.client.locate(table, row, true).await?;
        let encoded = located.region.encoded_name();
        let request = pb::MoveRegionRequest {
            region: pb::RegionSpecifier {
                r#type: pb::region_specifier::RegionSpecifierType::EncodedRegionName as i32,
                value: Bytes::copy_from_slice(encoded.as_str().as_bytes()),
            },
            dest_server_name: to.map(convert::server_name_pb),
        };
        self.master().move_region(request).await?;
        self.client.clear_region(&located.region);
        Ok(())
    }

    /// Splits the region that holds a row: at that row, or with `middle` where its server finds the middle of its data. Clients may read and write
    /// meanwhile.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) if it cannot be split there, and what else the master says.
    pub async fn split_region(&self, table: &TableName, row: &Bytes, middle: bool) -> Result<()> {
        let located = self.client.locate(table, row, true).await?;
        let request = pb::SplitTableRegionRequest {
            region_info: convert::region_info_pb(&located.region),
            split_row: (!middle).then(|| row.clone()),
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().split_region(request).await?;
        self.wait("split", answer.proc_id).await?;
        self.client.clear_region(&located.region);
        Ok(())
    }

    /// Merges the regions from the one that holds a row to the one that holds another; gives their number.
    ///
    /// # Errors
    /// [`Code::MergeRegion`](cadastre_types::Code::MergeRegion) if that is one region, and what else the master says.
    pub async fn merge_regions(
        &self,
        table: &TableName,
        from: &Bytes,
        to: &Bytes,
    ) -> Result<usize> {
        let all = self.table_regions(table).await?;
        let regions: Vec<&RegionInfo> = all
            .iter()
            .map(|location| &*location.region)
            .filter(|region| {
                let ends_before = !region.end_key.is_empty() && region.end_key <= *from;
                !ends_before && region.start_key <= *to
            })
            .collect();
        let request = pb::MergeTableRegionsRequest {
            region: regions
                .iter()
                .map(|region| pb::RegionSpecifier {
                    r#type: pb::region_specifier::RegionSpecifierType::EncodedRegionName as i32,
                    value: region.encoded_name().as_str().to_owned().into(),
                })
                .collect(),
            forcible: None,
            nonce_group: Some(self.nonce_group()),
            nonce: Some(self.client.nonce()),
        };
        let answer = self.master().merge_table_regions(request).await?;
        self.wait("merge", answer.proc_id).await?;
        for region in &regions {
            self.client.clear_region(region);
        }
        Ok(regions.len())
    }

    /// Runs the balancer. `dry_run` only says what it would do; servers before HBase 2.5 do not know that and move.
    ///
    /// # Errors
    /// What the master says.
    pub async fn balance(&self, dry_run: bool) -> Result<Balanced> {
        let request = pb::BalanceRequest {
            ignore_rit: None,
            dry_run: dry_run.then_some(true),
        };
        let answer = self.master().balance(request).await?;
        Ok(Balanced {
            ran: answer.balancer_ran,
            moves_planned: answer.moves_calculated,
            moves_made: answer.moves_executed,
        })
    }

    /// Switches the balancer; gives how it was.
    ///
    /// # Errors
    /// What the master says.
    pub async fn set_balancer(&self, on: bool) -> Result<bool> {
        let request = pb::SetBalancerRunningRequest {
            on,
            synchronous: Some(true),
        };
        let answer = self.master().set_balancer_running(request).await?;
        Ok(answer.prev_balance_value.unwrap_or(false))
    }

    /// Whether the balancer is switched on.
    ///
    /// # Errors
    /// What the master says.
    pub async fn balancer_is_on(&self) -> Result<bool> {
        let request = pb::IsBalancerEnabledRequest {};
        let answer = self.master().is_balancer_enabled(request).await?;
        Ok(answer.enabled)
    }
}
