//! `CreateTable`, `EnableTable`, `DisableTable`, `DeleteTable`, `truncateTable`.

use bytes::Bytes;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Code, Error, RegionInfo, Result, TableName, TableState};
use cadastre_wire::{convert, pb};

use super::{begin, nonce, param, reply, user_table};
use crate::active::Active;
use crate::catalog::Catalog;
use crate::procedure::{Lock, Nonce, Operation, ProcedureId};
use crate::schema::{TableRecord, regions_of};
use crate::world::World;

pub(super) async fn create<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::CreateTableRequest = param(call)?;
    let descriptor = convert::table_descriptor(&request.table_schema)?;
    let table = descriptor.name.clone();
    if table == TableName::meta() {
        return Err(Error::new(Code::TableExists, table.to_string()));
    }
    let mark = nonce(request.nonce_group, request.nonce);
    let split_keys = request.split_keys;
    let lock = Lock::Table(table.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, region_id| {
        catalog.namespace(table.namespace())?;
        if catalog.table(&table).is_ok() {
            return Err(Error::new(Code::TableExists, table.to_string()));
        }
        Ok(Operation::CreateTable {
            record: TableRecord::create(descriptor)?,
            regions: regions_of(&table, split_keys, region_id)?,
        })
    })
    .await?;
    Ok(reply(&pb::CreateTableResponse {
        proc_id: Some(proc_id),
    }))
}

/// Regions of a table that are to be served.
pub(super) fn regions(catalog: &Catalog, table: &TableName) -> Vec<RegionInfo> {
    catalog
        .served_regions_of(table)
        .map(|region| region.info.clone())
        .collect()
}

/// All regions of a table that have data: split parents, and what regions were merged from, included.
fn all_regions(catalog: &Catalog, table: &TableName) -> Vec<RegionInfo> {
    catalog
        .regions_of(table)
        .flat_map(|region| std::iter::once(&region.info).chain(&region.merged_from))
        .cloned()
        .collect()
}

pub(super) async fn enable<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::EnableTableRequest = param(call)?;
    let table = user_table(&request.table_name, "enable")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let proc_id = begin_enable(active, call, table, mark).await?;
    Ok(reply(&pb::EnableTableResponse {
        proc_id: Some(proc_id),
    }))
}

/// Begins to enable a table that is disabled.
pub(super) async fn begin_enable<W: World>(
    active: &Active<W>,
    call: &Call,
    table: TableName,
    mark: Nonce,
) -> Result<ProcedureId> {
    let lock = Lock::Table(table.clone());
    begin(active, call, lock, mark, move |catalog, _| {
        catalog.expect_state(&table, TableState::Disabled)?;
        Ok(Operation::EnableTable {
            regions: regions(catalog, &table),
            table,
        })
    })
    .await
}

pub(super) async fn disable<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::DisableTableRequest = param(call)?;
    let table = user_table(&request.table_name, "disable")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let proc_id = begin_disable(active, call, table, mark).await?;
    Ok(reply(&pb::DisableTableResponse {
        proc_id: Some(proc_id),
    }))
}

/// Begins to disable a table that is enabled.
pub(super) async fn begin_disable<W: World>(
    active: &Active<W>,
    call: &Call,
    table: TableName,
    mark: Nonce,
) -> Result<ProcedureId> {
    let lock = Lock::Table(table.clone());
    begin(active, call, lock, mark, move |catalog, _| {
        catalog.expect_state(&table, TableState::Enabled)?;
        Ok(Operation::DisableTable {
            regions: regions(catalog, &table),
            table,
        })
    })
    .await
}

pub(super) async fn delete<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::DeleteTableRequest = param(call)?;
    let table = user_table(&request.table_name, "delete")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let lock = Lock::Table(table.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, _| {
        catalog.expect_state(&table, TableState::Disabled)?;
        Ok(Operation::DeleteTable {
            regions: all_regions(catalog, &table),
            table,
        })
    })
    .await?;
    Ok(reply(&pb::DeleteTableResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) async fn truncate<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::TruncateTableRequest = param(call)?;
    let table = user_table(&request.table_name, "truncate")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let preserve = request.preserve_splits();
    let lock = Lock::Table(table.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, region_id| {
        catalog.expect_state(&table, TableState::Disabled)?;
        let split_keys: Vec<Bytes> = regions(catalog, &table)
            .into_iter()
            .map(|region| region.start_key)
            .filter(|key| preserve && !key.is_empty())
            .collect();
        Ok(Operation::TruncateTable {
            old: all_regions(catalog, &table),
            new: regions_of(&table, split_keys, region_id)?,
            table,
        })
    })
    .await?;
    Ok(reply(&pb::TruncateTableResponse {
        proc_id: Some(proc_id),
    }))
}
