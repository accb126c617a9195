//! `FlushTable` (2.6 and later), and its older form: `ExecProcedure` with `flush-table-proc`, then `IsProcedureDone`.

use bytes::Bytes;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Error, Result, TableName, TableState};
use cadastre_wire::{convert, pb};

use super::{begin, nonce, param, reply, tables};
use crate::active::Active;
use crate::procedure::{Lock, Nonce, Operation, ProcedureId};
use crate::world::World;

/// Signature of the one generic procedure that there is.
const FLUSH_SIGNATURE: &str = "flush-table-proc";

/// Setting of its configuration that names families, separated by commas.
const FAMILY_SETTING: &str = "family";

/// How long a client of the older form should wait at most, ms (`hbase.flush.master.timeout.millis`).
const EXPECTED_TIMEOUT_MS: i64 = 600_000;

async fn flush<W: World>(
    active: &Active<W>,
    call: &Call,
    table: TableName,
    families: Vec<Bytes>,
    mark: Nonce,
) -> Result<ProcedureId> {
    let lock = Lock::Table(table.clone());
    begin(active, call, lock, mark, move |catalog, _| {
        let entry = catalog.expect_state(&table, TableState::Enabled)?;
        for family in &families {
            entry.descriptor.family(family)?;
        }
        Ok(Operation::FlushTable {
            regions: tables::regions(catalog, &table),
            families,
            table,
        })
    })
    .await
}

pub(super) async fn flush_table<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::FlushTableRequest = param(call)?;
    let table = convert::table_name(&request.table_name)?;
    let mark = nonce(request.nonce_group, request.nonce);
    let proc_id = flush(active, call, table, request.column_family, mark).await?;
    Ok(reply(&pb::FlushTableResponse {
        proc_id: Some(proc_id),
    }))
}

fn flush_of(procedure: &pb::ProcedureDescription) -> Result<TableName> {
    if procedure.signature != FLUSH_SIGNATURE {
        return Err(Error::unsupported(format_args!(
            "the procedure '{}'",
            procedure.signature
        )));
    }
    TableName::parse(procedure.instance())
}

pub(super) async fn exec_procedure<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ExecProcedureRequest = param(call)?;
    let table = flush_of(&request.procedure)?;
    let families = request
        .procedure
        .configuration
        .iter()
        .filter(|pair| pair.name == FAMILY_SETTING)
        .flat_map(|pair| pair.value.split(','))
        .filter(|name| !name.is_empty())
        .map(|name| Bytes::copy_from_slice(name.as_bytes()))
        .collect();
    flush(active, call, table, families, Nonce::default()).await?;
    Ok(reply(&pb::ExecProcedureResponse {
        expected_timeout: Some(EXPECTED_TIMEOUT_MS),
        ..Default::default()
    }))
}

/// Whether no flush of the table is under way.
pub(super) fn is_procedure_done<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::IsProcedureDoneRequest = param(call)?;
    let procedure = request
        .procedure
        .ok_or_else(|| Error::invalid("which procedure?"))?;
    let table = flush_of(&procedure)?;
    let flushing = active.state().running.values().any(
        |running| matches!(&*running.operation, Operation::FlushTable { table: t, .. } if *t == table),
    );
    Ok(reply(&pb::IsProcedureDoneResponse {
        done: Some(!flushing),
        snapshot: Some(procedure),
    }))
}
