//! `hbase:meta` over RPC: batches in, rows out. The region is asked for directly where the master itself has opened it; clients
//! look it up, the master knows.
//!
//! A batch is one region's part of one `Multi` of puts and deletes with the master's epoch, which a region server writes as one
//! batch unless a newer master has written (C19). Made a second time it changes nothing but timestamps, so a batch whose outcome
//! is unknown is simply made again.

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{
    Cell, CellType, Code, Durability, Error, LATEST_TIMESTAMP, Mutation, MutationKind, RegionInfo,
    Result, Scan, ServerName, TimeRange,
};
use cadastre_wire::cells::{CellReader, Codec};
use cadastre_wire::meta::{self, MetaEntry};
use cadastre_wire::{Service, convert, exception, pb};

use super::{ORDER_TIMEOUT, RealWorld};
use crate::catalog::{MetaChange, Placement, RegionEntry, RegionState, split_parent};
use crate::world::{MetaRow, World};

/// Rows of one answer when all of a system table is read: some hundred bytes each.
const ROWS_AT_ONCE: u32 = 5_000;

const STATE_OPEN: &str = "OPEN";
const STATE_CLOSED: &str = "CLOSED";
const STATE_SPLIT: &str = "SPLIT";

/// The mutation of one row that a change is.
fn mutation(change: &MetaChange) -> Mutation {
    match change {
        MetaChange::Opened(info, placement) => put(
            meta::region_row(info),
            MetaEntry {
                info: info.clone(),
                server: Some(placement.server.clone()),
                open_seq: placement.open_sequence_number,
                state: STATE_OPEN.to_owned(),
                split_daughters: None,
                merged_from: Vec::new(),
            }
            .to_cells(),
        ),
        MetaChange::Closed(info) => {
            let row = meta::region_row(info);
            let state = info_cell(&row, meta::STATE, STATE_CLOSED);
            put(row, vec![state])
        }
        MetaChange::Split(info, [lower, upper]) => {
            let row = meta::region_row(info);
            let region = |qualifier, info| info_cell(&row, qualifier, meta::region_value(info));
            let cells = vec![
                region(meta::REGION_INFO, &split_parent(info)),
                region(meta::SPLIT_A, lower),
                region(meta::SPLIT_B, upper),
                info_cell(&row, meta::STATE, STATE_SPLIT),
            ];
            put(row, cells)
        }
        MetaChange::Merged(info, from) => {
            let row = meta::region_row(info);
            let cells = from.iter().enumerate();
            let cells = cells.map(|(number, parent)| {
                let qualifier = meta::merge_qualifier(number);
                info_cell(&row, qualifier, meta::region_value(parent))
            });
            put(row.clone(), cells.collect())
        }
        MetaChange::Unmerged(info, count) => {
            let row = meta::region_row(info);
            let gone = (0..*count).map(|number| Cell {
                cell_type: CellType::DeleteColumn,
                ..info_cell(&row, meta::merge_qualifier(number), Bytes::new())
            });
            Mutation {
                cells: gone.collect(),
                ..delete(row.clone())
            }
        }
        MetaChange::DeleteRegion(info) => delete(meta::region_row(info)),
        MetaChange::TableState(table, state) => put(
            meta::table_row(table),
            vec![meta::table_state_cell(table, *state)],
        ),
        MetaChange::DeleteTableState(table) => delete(meta::table_row(table)),
    }
}

fn info_cell(row: &Bytes, qualifier: impl Into<Bytes>, value: impl Into<Bytes>) -> Cell {
    let family = Bytes::from_static(meta::INFO_FAMILY);
    let (qualifier, value) = (qualifier.into(), value.into());
    Cell::put(row.clone(), family, qualifier, LATEST_TIMESTAMP, value)
}

pub(super) fn put(row: Bytes, cells: Vec<Cell>) -> Mutation {
    Mutation {
        row,
        kind: MutationKind::Put,
        cells,
        timestamp: LATEST_TIMESTAMP,
        durability: Durability::UseDefault,
        time_range: TimeRange::ALL,
        nonce: 0,
        return_results: false,
        ttl_ms: None,
    }
}

/// The whole row.
pub(super) fn delete(row: Bytes) -> Mutation {
    Mutation {
        kind: MutationKind::Delete,
        ..put(row, Vec::new())
    }
}

/// A batch on one region with a master's epoch.
fn batch_request(region: &RegionInfo, mutations: &[Mutation], epoch: u64) -> pb::MultiRequest {
    let action = |(index, mutation): (usize, &Mutation)| pb::Action {
        index: Some(index as u32),
        mutation: Some(convert::mutation_pb(mutation)),
        ..Default::default()
    };
    pb::MultiRequest {
        region_action: vec![pb::RegionAction {
            region: convert::region_specifier(region),
            action: mutations.iter().enumerate().map(action).collect(),
            ..Default::default()
        }],
        master_epoch: Some(epoch),
        ..Default::default()
    }
}

/// # Errors
/// The first that any part of the batch met.
fn check_batch(response: &pb::MultiResponse) -> Result<()> {
    for region in &response.region_action_result {
        if let Some(pair) = &region.exception {
            return Err(exception::from_pair(pair));
        }
        let failed = region
            .result_or_exception
            .iter()
            .find_map(|result| result.exception.as_ref());
        if let Some(pair) = failed {
            return Err(exception::from_pair(pair));
        }
    }
    Ok(())
}

impl<E: Env> RealWorld<E> {
    fn meta_server(&self) -> Result<ServerName> {
        self.meta_place()
            .ok_or_else(|| Error::new(Code::NoServerForRegion, "hbase:meta is open nowhere"))
    }

    /// Without changes it only raises the epoch.
    pub(super) async fn write_meta_rows(&self, changes: &[MetaChange]) -> Result<()> {
        let server = self.meta_server()?;
        let mutations: Vec<Mutation> = changes.iter().map(mutation).collect();
        self.write_batch(&server, &RegionInfo::meta(), &mutations)
            .await
    }

    /// One batch on a region of a system table.
    pub(super) async fn write_batch(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        mutations: &[Mutation],
    ) -> Result<()> {
        let request = batch_request(region, mutations, self.inner.epoch);
        let param = cadastre_wire::encode(&request);
        let (body, _) = self
            .call(server, Service::Client, "Multi", param, ORDER_TIMEOUT)
            .await?;
        check_batch(&cadastre_wire::decode(body)?)
    }

    pub(super) async fn read_meta_rows(&self) -> Result<Vec<MetaRow>> {
        let server = self.meta_server()?;
        let rows = self.read_region(&server, &RegionInfo::meta()).await?;
        let rows = rows.iter().map(|cells| decode_row(cells));
        rows.filter_map(Result::transpose).collect()
    }

    /// Every row of a region of a system table.
    pub(super) async fn read_region(
        &self,
        server: &ServerName,
        region: &RegionInfo,
    ) -> Result<Vec<Vec<Cell>>> {
        let mut rows = Vec::new();
        let mut request = pb::ScanRequest {
            region: Some(convert::region_specifier(region)),
            scan: Some(convert::scan_pb(&whole_table())),
            number_of_rows: Some(ROWS_AT_ONCE),
            next_call_seq: Some(0),
            client_handles_partials: Some(false),
            client_handles_heartbeats: Some(false),
            ..Default::default()
        };
        for sequence in 1.. {
            let param = cadastre_wire::encode(&request);
            let (body, cells) = self
                .call(server, Service::Client, "Scan", param, ORDER_TIMEOUT)
                .await?;
            let response: pb::ScanResponse = cadastre_wire::decode(body)?;
            split_rows(&response, cells, &mut rows)?;
            let more = response.more_results.unwrap_or(true)
                && response.more_results_in_region.unwrap_or(true);
            let Some(scanner) = response.scanner_id.filter(|_| more) else {
                break;
            };
            request = pb::ScanRequest {
                scanner_id: Some(scanner),
                number_of_rows: Some(ROWS_AT_ONCE),
                next_call_seq: Some(sequence),
                ..Default::default()
            };
        }
        Ok(rows)
    }
}

fn whole_table() -> Scan {
    Scan {
        caching: ROWS_AT_ONCE,
        ..Scan::whole()
    }
}

fn split_rows(response: &pb::ScanResponse, block: Bytes, rows: &mut Vec<Vec<Cell>>) -> Result<()> {
    let mut reader = CellReader::new(block, Codec::KeyValue);
    for count in &response.cells_per_result {
        rows.push(reader.take_cells(*count as usize)?);
    }
    for result in &response.results {
        rows.push(convert::result(result, &mut reader)?);
    }
    Ok(())
}

/// What a row says; nothing for a row that is neither a region's nor a table's.
fn decode_row(cells: &[Cell]) -> Result<Option<MetaRow>> {
    if let Some(entry) = MetaEntry::from_cells(cells)? {
        let state = match entry.state.as_str() {
            STATE_OPEN => RegionState::Open,
            STATE_SPLIT => RegionState::Split,
            _ => RegionState::Closed,
        };
        return Ok(Some(MetaRow::Region(RegionEntry {
            info: entry.info,
            state,
            placement: entry.server.map(|server| Placement {
                server,
                open_sequence_number: entry.open_seq,
                // Only the master that gave the order knows it.
                epoch: 0,
            }),
            merged_from: entry.merged_from,
        })));
    }
    let Some(state) = meta::table_state_from_cells(cells)? else {
        return Ok(None);
    };
    let row = cells
        .first()
        .map(|cell| cell.row.clone())
        .unwrap_or_default();
    let name = std::str::from_utf8(&row)
        .map_err(|_| Error::corrupt("a row of hbase:meta names a table that is not UTF-8"))?;
    Ok(Some(MetaRow::Table(
        cadastre_types::TableName::parse(name)?,
        state,
    )))
}

#[cfg(test)]
mod tests;
