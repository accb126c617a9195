//! `ModifyTable`, `AddColumn`, `DeleteColumn`, `ModifyColumn`, `GetSchemaAlterStatus`.

use bytes::Bytes;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Error, Result, TableDescriptor, TableName, TableState};
use cadastre_wire::{convert, pb};

use super::{begin, nonce, param, reply, tables, user_table};
use crate::active::Active;
use crate::procedure::{AlterForm, Lock, Nonce, Operation, ProcedureId};
use crate::schema::{MIGRATION_ENDS, STORE_FILE_TRACKER, TableRecord, check_tracker};
use crate::world::World;

/// When regions learn of an alteration, and of which tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// They are opened anew; a disabled table has none.
    Now,
    /// When they are opened next.
    Later,
    /// As `Now`, and a disabled table is refused.
    Enabled,
}

async fn alter<W: World>(
    active: &Active<W>,
    call: &Call,
    table: TableName,
    mark: Nonce,
    form: AlterForm,
    reach: Reach,
    change: impl FnOnce(&TableRecord) -> Result<TableRecord> + Send,
) -> Result<ProcedureId> {
    let lock = Lock::Table(table.clone());
    begin(active, call, lock, mark, move |catalog, _| {
        let entry = match reach {
            Reach::Enabled => catalog.expect_state(&table, TableState::Enabled)?,
            Reach::Now | Reach::Later => catalog.table(&table)?,
        };
        let record = change(&entry.record)?;
        // A disabled table has no region that would have to learn of it.
        let reopen = match entry.state {
            TableState::Disabled => Vec::new(),
            _ if record == entry.record || reach == Reach::Later => Vec::new(),
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
    let reopen = request.reopen_regions();
    let descriptor = convert::table_descriptor(&request.table_schema)?;
    if descriptor.name != table {
        return Err(Error::invalid(format!(
            "the new schema is that of {}, not of {table}",
            descriptor.name
        )));
    }
    let form = AlterForm::Table;
    let change = move |record: &TableRecord| {
        if !reopen {
            check_lazy(&record.descriptor, &descriptor)?;
        }
        record.altered(descriptor)
    };
    let how = match reopen {
        true => Reach::Now,
        false => Reach::Later,
    };
    let proc_id = alter(active, call, table, mark, form, how, change).await?;
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
    let proc_id = alter(active, call, table, mark, form, Reach::Now, |record| {
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
    let proc_id = alter(active, call, table, mark, form, Reach::Now, |record| {
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
    let proc_id = alter(active, call, table, mark, form, Reach::Now, |record| {
        record.with_modified(family)
    })
    .await?;
    Ok(reply(&pb::ModifyColumnResponse {
        proc_id: Some(proc_id),
    }))
}

/// What may not be left to the regions' next opening, as HBase has it.
fn check_lazy(old: &TableDescriptor, new: &TableDescriptor) -> Result<()> {
    if !old.families.keys().eq(new.families.keys()) {
        return Err(Error::invalid(
            "Can NOT add/delete/modify column families when reopenRegions is false",
        ));
    }
    if old.attribute("REGION_REPLICATION") != new.attribute("REGION_REPLICATION") {
        return Err(Error::invalid(
            "Can NOT change region replication when reopenRegions is false",
        ));
    }
    Ok(())
}

/// How HBase keeps track of a store's files, which there are none of here: kept as every other attribute.
pub(super) async fn table_tracker<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ModifyTableStoreFileTrackerRequest = param(call)?;
    let table = user_table(&request.table_name, "modify")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let tracker = request.dst_sft;
    let change = move |record: &TableRecord| {
        check_tracker(&tracker)?;
        let mut descriptor = record.descriptor.clone();
        descriptor.attributes.insert(
            Bytes::from_static(STORE_FILE_TRACKER.as_bytes()),
            Bytes::from(tracker),
        );
        // There is nothing to migrate, so a migration that the table was in is over.
        for end in MIGRATION_ENDS {
            descriptor.attributes.remove(end.as_bytes());
        }
        record.altered(descriptor)
    };
    let form = AlterForm::Table;
    let proc_id = alter(active, call, table, mark, form, Reach::Enabled, change).await?;
    Ok(reply(&pb::ModifyTableStoreFileTrackerResponse {
        proc_id: Some(proc_id),
    }))
}

pub(super) async fn family_tracker<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ModifyColumnStoreFileTrackerRequest = param(call)?;
    let table = user_table(&request.table_name, "modify")?;
    let mark = nonce(request.nonce_group, request.nonce);
    let (name, tracker) = (request.family, request.dst_sft);
    let change = move |record: &TableRecord| {
        let mut family = record.descriptor.family(&name)?.clone();
        check_tracker(&tracker)?;
        family
            .configuration
            .insert(STORE_FILE_TRACKER.to_owned(), tracker);
        // As above.
        for end in MIGRATION_ENDS {
            family.configuration.remove(end);
        }
        record.with_modified(family)
    };
    let form = AlterForm::ModifyFamily;
    let proc_id = alter(active, call, table, mark, form, Reach::Enabled, change).await?;
    Ok(reply(&pb::ModifyColumnStoreFileTrackerResponse {
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
