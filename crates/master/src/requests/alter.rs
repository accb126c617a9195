//! `ModifyTable`, `AddColumn`, `DeleteColumn`, `ModifyColumn`, `GetSchemaAlterStatus`.

use cadastre_rpc::{Call, Reply};
use cadastre_types::{Error, Result, TableName, TableState};
use cadastre_wire::{convert, pb};

use super::{begin, nonce, param, reply, tables, user_table};
use crate::active::Active;
use crate::procedure::{AlterForm, Lock, Nonce, Operation, ProcedureId};
use crate::schema::TableRecord;
use crate::world::World;

async fn alter<W: World>(
    active: &Active<W>,
    call: &Call,
    table: TableName,
    mark: Nonce,
    form: AlterForm,
    change: impl FnOnce(&TableRecord) -> Result<TableRecord> + Send,
) -> Result<ProcedureId> {
    let lock = Lock::Table(table.clone());
    begin(active, call, lock, mark, move |catalog, _| {
        let entry = catalog.table(&table)?;
        let record = change(&entry.record)?;
        // A disabled table has no region that would have to learn of it.
        let reopen = match entry.state {
            TableState::Disabled => Vec::new(),
            _ if record == entry.record => Vec::new(),
            _ => tables::regions(catalog, &table),
        };
        Ok(Operation::AlterTable {
            form,
            record,
            reopen,
        })
    })
    .await
}

pub(super) async fn modify_table<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ModifyTableRequest = param(call)?;
    let table = user_table(&request.table_name, "modify")?;
    let mark = nonce(request.nonce_group, request.nonce);
    if !request.reopen_regions() {
        return Err(Error::unsupported(
            "changing a table without opening its regions anew",
        ));
    }
    let descriptor = convert::table_descriptor(&request.table_schema)?;
    if descriptor.name != table {
        return Err(Error::invalid(format!(
            "the new schema is that of {}, not of {table}",
            descriptor.name
        )));
    }
    let form = AlterForm::Table;
    let proc_id = alter(active, call, table, mark, form, |record| {
        record.altered(descriptor)
    })
    .await?;
    Ok(reply(&pb::ModifyTableResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) async fn add_family<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::AddColumnRequest = param(call)?;
    let table = user_table(&request.table_name, "modify")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let family = convert::family_descriptor(&request.column_families)?;
    let form = AlterForm::AddFamily;
    let proc_id = alter(active, call, table, mark, form, |record| {
        record.with_added(family)
    })
    .await?;
    Ok(reply(&pb::AddColumnResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) async fn delete_family<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::DeleteColumnRequest = param(call)?;
    let table = user_table(&request.table_name, "modify")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let name = request.column_name;
    let form = AlterForm::DeleteFamily;
    let proc_id = alter(active, call, table, mark, form, |record| {
        record.without(&name)
    })
    .await?;
    Ok(reply(&pb::DeleteColumnResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) async fn modify_family<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ModifyColumnRequest = param(call)?;
    let table = user_table(&request.table_name, "modify")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let family = convert::family_descriptor(&request.column_families)?;
    let form = AlterForm::ModifyFamily;
    let proc_id = alter(active, call, table, mark, form, |record| {
        record.with_modified(family)
    })
    .await?;
    Ok(reply(&pb::ModifyColumnResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) fn status<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::GetSchemaAlterStatusRequest = param(call)?;
    let table = convert::table_name(&request.table_name)?;
    let (left, total) = active.alter_status(&table)?;
    Ok(reply(&pb::GetSchemaAlterStatusResponse {
        yet_to_update_regions: Some(left),
        total_regions: Some(total),
    }))
}
