//! What the master writes down, and reads when it becomes active: keys and values of its own store, as pure functions.
//!
//! | key | value |
//! | --- | --- |
//! | `epoch` | the highest master epoch (C19) |
//! | `epoch/REGION` | the epoch that the region's last opening left (C20), by encoded name |
//! | `counters` | next procedure id, last region id: neither is ever used twice |
//! | `table/NAME` | `TableSchema` with family ids, next family id (C6) |
//! | `namespace/NAME` | `NamespaceDescriptor` |
//! | `procedure/ID` | HBase's `Procedure` message; `state_data` is the intent until it has ended |
//! | `garbage/REGION` | `RegionInfo` of a region whose data is still to be deleted |
//! | `switch/NAME` | one byte, 0 or 1 |
//!
//! Ids in keys are 16 hex digits, so that keys sort as numbers do. This module must not know how the store works.

use std::collections::BTreeMap;

use bytes::Bytes;
use cadastre_types::{EncodedName, Error, RegionInfo, Result, TableName};
use cadastre_wire::{convert, exception, pb};

use crate::catalog::Change;
use crate::fields::{self, Writer};
use crate::procedure::{AlterForm, Nonce, Operation, ProcedureId, Ticket};
use crate::schema::{Namespace, TableRecord};

/// One change of the store: a key, and its value or `None` to remove it. Several make one atomic batch.
pub type Write = (Bytes, Option<Bytes>);

/// A procedure that has ended, kept for a while for those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Who and when.
    pub ticket: Ticket,
    /// HBase's class of it.
    pub class_name: String,
    /// When it ended, ms since 1970.
    pub finished_ms: u64,
    /// Why it failed.
    pub failure: Option<Error>,
}

/// Counters whose values are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Id of the next procedure, from 1.
    pub next_procedure: ProcedureId,
    /// Id of the newest region: a time in ms, or more than one if regions are made faster than that.
    pub last_region: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            next_procedure: 1,
            last_region: 0,
        }
    }
}

/// All that a new active master reads.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The highest epoch used before.
    pub epoch: u64,
    /// Counters.
    pub counters: Counters,
    /// Namespaces, tables, garbage and regions' epochs.
    pub changes: Vec<Change>,
    /// Procedures that have not ended, in the order of their ids.
    pub running: Vec<(Ticket, Operation)>,
    /// Procedures that have.
    pub finished: Vec<Finished>,
    /// Switches that were ever set.
    pub switches: BTreeMap<String, bool>,
}

const EPOCH: &[u8] = b"epoch";
const COUNTERS: &[u8] = b"counters";

fn key(kind: &str, name: &str) -> Bytes {
    format!("{kind}/{name}").into()
}

fn procedure_key(id: ProcedureId) -> Bytes {
    key("procedure", &format!("{id:016x}"))
}

/// A change of namespaces, tables, garbage or regions' epochs.
pub fn change(change: &Change) -> Write {
    match change {
        Change::PutTable(record) => (
            key("table", record.descriptor.name.as_str()),
            Some(table_value(record)),
        ),
        Change::DeleteTable(name) => (key("table", name.as_str()), None),
        Change::PutNamespace(namespace) => (
            key("namespace", &namespace.name),
            Some(Writer::new().field(1, &namespace_value(namespace)).finish()),
        ),
        Change::DeleteNamespace(name) => (key("namespace", name), None),
        Change::Garbage(region) => (
            key("garbage", region.encoded_name().as_str()),
            Some(Writer::new().field(1, &region_bytes(region)).finish()),
        ),
        Change::GarbageDone(region) => (key("garbage", region.encoded_name().as_str()), None),
        Change::Epoch(region, epoch) => (
            key("epoch", region.as_str()),
            Some(Writer::new().number(1, *epoch).finish()),
        ),
        Change::NoEpoch(region) => (key("epoch", region.as_str()), None),
    }
}

/// The epoch of the master that writes it.
pub fn epoch(epoch: u64) -> Write {
    (
        Bytes::from_static(EPOCH),
        Some(Writer::new().number(1, epoch).finish()),
    )
}

/// The counters.
pub fn counters(counters: Counters) -> Write {
    let value = Writer::new()
        .number(1, counters.next_procedure)
        .number(2, counters.last_region)
        .finish();
    (Bytes::from_static(COUNTERS), Some(value))
}

/// A switch.
pub fn switch(name: &str, on: bool) -> Write {
    (
        key("switch", name),
        Some(Writer::new().field(1, &[u8::from(on)]).finish()),
    )
}

/// A procedure that begins.
pub fn intent(ticket: &Ticket, operation: &Operation) -> Write {
    let message = pb::Procedure {
        state: pb::ProcedureState::Runnable as i32,
        last_update: ticket.submitted_ms,
        state_data: Some(operation_value(operation)),
        ..procedure_message(ticket, operation.class_name())
    };
    procedure_write(ticket.id, &message)
}

/// A procedure that has ended.
pub fn outcome(finished: &Finished) -> Write {
    let message = finished_message(finished);
    procedure_write(finished.ticket.id, &message)
}

/// A procedure that nobody will ask for any more.
pub fn forget(id: ProcedureId) -> Write {
    (procedure_key(id), None)
}

fn procedure_write(id: ProcedureId, message: &pb::Procedure) -> Write {
    let value = Writer::new()
        .field(1, &cadastre_wire::encode(message))
        .finish();
    (procedure_key(id), Some(value))
}

fn procedure_message(ticket: &Ticket, class_name: String) -> pb::Procedure {
    pb::Procedure {
        class_name,
        proc_id: ticket.id,
        submitted_time: ticket.submitted_ms,
        owner: Some(ticket.owner.clone()),
        nonce_group: Some(ticket.nonce.group),
        nonce: Some(ticket.nonce.nonce),
        ..Default::default()
    }
}

/// A running procedure as clients see it (`GetProcedures`).
pub fn running_message(ticket: &Ticket, class_name: String) -> pb::Procedure {
    pb::Procedure {
        state: pb::ProcedureState::Runnable as i32,
        last_update: ticket.submitted_ms,
        ..procedure_message(ticket, class_name)
    }
}

/// An ended procedure as clients see it and as it is kept.
pub fn finished_message(finished: &Finished) -> pb::Procedure {
    let state = match finished.failure {
        None => pb::ProcedureState::Success,
        Some(_) => pb::ProcedureState::Rolledback,
    };
    pb::Procedure {
        state: state as i32,
        last_update: finished.finished_ms,
        exception: finished.failure.as_ref().map(foreign_exception),
        ..procedure_message(&finished.ticket, finished.class_name.clone())
    }
}

/// An error as procedures' results carry it: Java builds `class_name` with `message`.
pub fn foreign_exception(error: &Error) -> pb::ForeignExceptionMessage {
    // The one table of classes; its text starts with the class, which Java adds itself.
    let pair = exception::to_pair(error);
    pb::ForeignExceptionMessage {
        source: Some("master".to_owned()),
        generic_exception: Some(pb::GenericExceptionMessage {
            class_name: Some(pair.name),
            message: Some(error.message().to_owned()),
            ..Default::default()
        }),
    }
}

fn failure_of(message: &pb::ForeignExceptionMessage) -> Error {
    let generic = message.generic_exception.clone().unwrap_or_default();
    exception::from_pair(&pb::NameBytesPair {
        name: generic.class_name.unwrap_or_default(),
        value: Some(generic.message.unwrap_or_default().into()),
    })
}

fn table_value(record: &TableRecord) -> Bytes {
    Writer::new()
        .field(1, &schema_bytes(record))
        .number(2, u64::from(record.next_family_id))
        .finish()
}

fn schema_bytes(record: &TableRecord) -> Bytes {
    cadastre_wire::encode(&convert::table_schema(&record.descriptor, true))
}

fn region_bytes(region: &RegionInfo) -> Bytes {
    cadastre_wire::encode(&convert::region_info_pb(region))
}

/// A namespace's message, as `hbase:namespace` has it too.
pub fn namespace_value(namespace: &Namespace) -> Bytes {
    cadastre_wire::encode(&namespace_pb(namespace))
}

/// A namespace as clients see it.
pub fn namespace_pb(namespace: &Namespace) -> pb::NamespaceDescriptor {
    pb::NamespaceDescriptor {
        name: namespace.name.clone().into(),
        configuration: namespace
            .configuration
            .iter()
            .map(|(name, value)| pb::NameStringPair {
                name: name.clone(),
                value: value.clone(),
            })
            .collect(),
    }
}

/// A namespace as a client sent it, or as it was stored.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) if the name is not text.
pub fn namespace_from(descriptor: &pb::NamespaceDescriptor) -> Result<Namespace> {
    Ok(Namespace {
        name: String::from_utf8(descriptor.name.to_vec())
            .map_err(|_| Error::invalid("Illegal namespace name: not UTF-8"))?,
        configuration: descriptor
            .configuration
            .iter()
            .map(|pair| (pair.name.clone(), pair.value.clone()))
            .collect(),
    })
}

/// Tags of an operation's fields. Never given another meaning.
mod tag {
    pub(super) const KIND: u8 = 1;
    pub(super) const TABLE: u8 = 2;
    pub(super) const SCHEMA: u8 = 3;
    pub(super) const NEXT_FAMILY_ID: u8 = 4;
    pub(super) const REGION: u8 = 5;
    pub(super) const OLD_REGION: u8 = 6;
    pub(super) const FORM: u8 = 7;
    pub(super) const NAMESPACE: u8 = 8;
    pub(super) const NAME: u8 = 9;
    pub(super) const FAMILY: u8 = 10;
    pub(super) const SERVER: u8 = 11;
    pub(super) const ANCESTOR: u8 = 12;
    pub(super) const SPLIT: u8 = 13;
}

/// Kinds of operations as stored. Never given another meaning.
mod kind {
    pub(super) const CREATE_TABLE: u8 = 1;
    pub(super) const ENABLE_TABLE: u8 = 2;
    pub(super) const DISABLE_TABLE: u8 = 3;
    pub(super) const DELETE_TABLE: u8 = 4;
    pub(super) const TRUNCATE_TABLE: u8 = 5;
    pub(super) const ALTER_TABLE: u8 = 6;
    pub(super) const CREATE_NAMESPACE: u8 = 7;
    pub(super) const MODIFY_NAMESPACE: u8 = 8;
    pub(super) const DELETE_NAMESPACE: u8 = 9;
    pub(super) const FLUSH_TABLE: u8 = 10;
    pub(super) const MOVE_REGION: u8 = 11;
    pub(super) const TRUNCATE_REGION: u8 = 12;
    pub(super) const UNASSIGN_REGION: u8 = 13;
    pub(super) const SPLIT_REGION: u8 = 14;
    pub(super) const MERGE_REGIONS: u8 = 15;
    pub(super) const FORGET_PARENTS: u8 = 16;
}

fn operation_value(operation: &Operation) -> Bytes {
    let of = |kind: u8| Writer::new().field(tag::KIND, &[kind]);
    let with_regions = |mut writer: Writer, regions: &[RegionInfo], tag: u8| {
        for region in regions {
            writer.add(tag, &region_bytes(region));
        }
        writer
    };
    let with_record = |writer: Writer, record: &TableRecord| {
        writer
            .field(tag::SCHEMA, &schema_bytes(record))
            .number(tag::NEXT_FAMILY_ID, u64::from(record.next_family_id))
    };
    let of_table = |kind: u8, table: &TableName, regions: &[RegionInfo]| {
        let writer = of(kind).field(tag::TABLE, table.as_str().as_bytes());
        with_regions(writer, regions, tag::REGION)
    };
    match operation {
        Operation::CreateTable { record, regions } => with_regions(
            with_record(of(kind::CREATE_TABLE), record),
            regions,
            tag::REGION,
        ),
        Operation::EnableTable { table, regions } => of_table(kind::ENABLE_TABLE, table, regions),
        Operation::DisableTable { table, regions } => of_table(kind::DISABLE_TABLE, table, regions),
        Operation::DeleteTable { table, regions } => of_table(kind::DELETE_TABLE, table, regions),
        Operation::TruncateTable { table, old, new } => with_regions(
            of_table(kind::TRUNCATE_TABLE, table, new),
            old,
            tag::OLD_REGION,
        ),
        Operation::AlterTable {
            form,
            record,
            reopen,
        } => with_regions(
            with_record(of(kind::ALTER_TABLE), record).field(tag::FORM, &[form_code(*form)]),
            reopen,
            tag::REGION,
        ),
        Operation::CreateNamespace(namespace) => {
            of(kind::CREATE_NAMESPACE).field(tag::NAMESPACE, &namespace_value(namespace))
        }
        Operation::ModifyNamespace(namespace) => {
            of(kind::MODIFY_NAMESPACE).field(tag::NAMESPACE, &namespace_value(namespace))
        }
        Operation::DeleteNamespace(name) => {
            of(kind::DELETE_NAMESPACE).field(tag::NAME, name.as_bytes())
        }
        Operation::FlushTable {
            table,
            families,
            regions,
        } => {
            let mut writer = of_table(kind::FLUSH_TABLE, table, regions);
            families
                .iter()
                .for_each(|family| writer.add(tag::FAMILY, family));
            writer
        }
        Operation::TruncateRegion {
            old,
            new,
            ancestors,
        } => {
            let old_and_new = with_regions(
                of_table(kind::TRUNCATE_REGION, &old.table, std::slice::from_ref(new)),
                std::slice::from_ref(old),
                tag::OLD_REGION,
            );
            with_regions(old_and_new, ancestors, tag::ANCESTOR)
        }
        Operation::SplitRegion { parent, daughters } => with_regions(
            of_table(kind::SPLIT_REGION, &parent.table, daughters),
            std::slice::from_ref(parent),
            tag::OLD_REGION,
        ),
        Operation::MergeRegions {
            parents,
            child,
            ancestors,
        } => {
            let old_and_new = with_regions(
                of_table(
                    kind::MERGE_REGIONS,
                    &child.table,
                    std::slice::from_ref(child),
                ),
                parents,
                tag::OLD_REGION,
            );
            with_regions(old_and_new, ancestors, tag::ANCESTOR)
        }
        Operation::ForgetParents {
            region,
            split,
            ancestors,
        } => {
            let row = of_table(
                kind::FORGET_PARENTS,
                &region.table,
                std::slice::from_ref(region),
            );
            let row = row.field(tag::SPLIT, &[u8::from(*split)]);
            with_regions(row, ancestors, tag::ANCESTOR)
        }
        Operation::UnassignRegion { region } => of_table(
            kind::UNASSIGN_REGION,
            &region.table,
            std::slice::from_ref(region),
        ),
        Operation::MoveRegion { region, to } => {
            let mut writer = of(kind::MOVE_REGION).field(tag::REGION, &region_bytes(region));
            if let Some(server) = to {
                let name = cadastre_wire::encode(&convert::server_name_pb(server));
                writer.add(tag::SERVER, &name);
            }
            writer
        }
    }
    .finish()
}

fn form_code(form: AlterForm) -> u8 {
    match form {
        AlterForm::Table => 0,
        AlterForm::AddFamily => 1,
        AlterForm::DeleteFamily => 2,
        AlterForm::ModifyFamily => 3,
    }
}

fn form_of(code: u8) -> Result<AlterForm> {
    Ok(match code {
        0 => AlterForm::Table,
        1 => AlterForm::AddFamily,
        2 => AlterForm::DeleteFamily,
        3 => AlterForm::ModifyFamily,
        other => return Err(Error::corrupt(format!("form {other} of an alteration"))),
    })
}

/// The fields of an operation as they were read.
#[derive(Default)]
struct Parts {
    kind: u8,
    table: Option<TableName>,
    schema: Option<Bytes>,
    next_family_id: u64,
    regions: Vec<RegionInfo>,
    old_regions: Vec<RegionInfo>,
    form: u8,
    namespace: Option<Bytes>,
    name: Option<String>,
    families: Vec<Bytes>,
    server: Option<Bytes>,
    ancestors: Vec<RegionInfo>,
    split: bool,
}

fn one_byte(value: &Bytes) -> Result<u8> {
    match value[..] {
        [byte] => Ok(byte),
        _ => Err(Error::corrupt("a field that should have one byte")),
    }
}

fn parts_of(value: Bytes) -> Result<Parts> {
    let mut parts = Parts::default();
    for (tag, value) in fields::read(value)? {
        match tag {
            tag::KIND => parts.kind = one_byte(&value)?,
            tag::TABLE => parts.table = Some(TableName::parse(&fields::text(&value)?)?),
            tag::SCHEMA => parts.schema = Some(value),
            tag::NEXT_FAMILY_ID => parts.next_family_id = fields::number(&value)?,
            tag::REGION => parts.regions.push(region_from(value)?),
            tag::OLD_REGION => parts.old_regions.push(region_from(value)?),
            tag::FORM => parts.form = one_byte(&value)?,
            tag::NAMESPACE => parts.namespace = Some(value),
            tag::NAME => parts.name = Some(fields::text(&value)?),
            tag::FAMILY => parts.families.push(value),
            tag::SERVER => parts.server = Some(value),
            tag::ANCESTOR => parts.ancestors.push(region_from(value)?),
            tag::SPLIT => parts.split = one_byte(&value)? == 1,
            unknown => return Err(Error::corrupt(format!("field {unknown} of an operation"))),
        }
    }
    Ok(parts)
}

fn operation_from(value: Bytes) -> Result<Operation> {
    let parts = parts_of(value)?;
    let missing = || Error::corrupt("an operation lacks a field");
    let table = || parts.table.clone().ok_or_else(missing);
    let record = || {
        let schema = parts.schema.clone().ok_or_else(missing)?;
        table_record(schema, parts.next_family_id)
    };
    let namespace = || {
        let bytes = parts.namespace.clone().ok_or_else(missing)?;
        namespace_from(&cadastre_wire::decode(bytes)?)
    };
    let regions = parts.regions.clone();
    Ok(match parts.kind {
        kind::CREATE_TABLE => Operation::CreateTable {
            record: record()?,
            regions,
        },
        kind::ENABLE_TABLE => Operation::EnableTable {
            table: table()?,
            regions,
        },
        kind::DISABLE_TABLE => Operation::DisableTable {
            table: table()?,
            regions,
        },
        kind::DELETE_TABLE => Operation::DeleteTable {
            table: table()?,
            regions,
        },
        kind::TRUNCATE_TABLE => Operation::TruncateTable {
            table: table()?,
            old: parts.old_regions,
            new: regions,
        },
        kind::ALTER_TABLE => Operation::AlterTable {
            form: form_of(parts.form)?,
            record: record()?,
            reopen: regions,
        },
        kind::CREATE_NAMESPACE => Operation::CreateNamespace(namespace()?),
        kind::MODIFY_NAMESPACE => Operation::ModifyNamespace(namespace()?),
        kind::DELETE_NAMESPACE => Operation::DeleteNamespace(parts.name.ok_or_else(missing)?),
        kind::FLUSH_TABLE => Operation::FlushTable {
            table: table()?,
            families: parts.families,
            regions,
        },
        kind::TRUNCATE_REGION => Operation::TruncateRegion {
            old: parts.old_regions.into_iter().next().ok_or_else(missing)?,
            new: regions.into_iter().next().ok_or_else(missing)?,
            ancestors: parts.ancestors,
        },
        kind::SPLIT_REGION => Operation::SplitRegion {
            parent: parts.old_regions.into_iter().next().ok_or_else(missing)?,
            daughters: regions.try_into().map_err(|_| missing())?,
        },
        kind::MERGE_REGIONS => Operation::MergeRegions {
            parents: parts.old_regions,
            child: regions.into_iter().next().ok_or_else(missing)?,
            ancestors: parts.ancestors,
        },
        kind::FORGET_PARENTS => Operation::ForgetParents {
            region: regions.into_iter().next().ok_or_else(missing)?,
            split: parts.split,
            ancestors: parts.ancestors,
        },
        kind::UNASSIGN_REGION => Operation::UnassignRegion {
            region: regions.into_iter().next().ok_or_else(missing)?,
        },
        kind::MOVE_REGION => Operation::MoveRegion {
            region: regions.into_iter().next().ok_or_else(missing)?,
            to: match parts.server {
                Some(name) => Some(convert::server_name(&cadastre_wire::decode(name)?)?),
                None => None,
            },
        },
        other => return Err(Error::corrupt(format!("operation of kind {other}"))),
    })
}

fn region_from(value: Bytes) -> Result<RegionInfo> {
    convert::region_info(&cadastre_wire::decode(value)?)
}

fn table_record(schema: Bytes, next_family_id: u64) -> Result<TableRecord> {
    let schema: pb::TableSchema = cadastre_wire::decode(schema)?;
    let record = TableRecord {
        descriptor: convert::table_descriptor(&schema)?,
        next_family_id: u16::try_from(next_family_id)
            .map_err(|_| Error::corrupt("a family id over 16 bits"))?,
    };
    let mut ids: Vec<u16> = record
        .descriptor
        .families
        .values()
        .map(|family| family.id)
        .collect();
    ids.sort_unstable();
    let own = ids.windows(2).all(|pair| pair[0] != pair[1]);
    let known = ids.iter().all(|id| (1..record.next_family_id).contains(id));
    if own && known {
        Ok(record)
    } else {
        Err(Error::corrupt("families without an id of their own (C6)"))
    }
}

/// Reads everything.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt), naming the key: a master does not start on what it does not understand.
pub fn load(records: Vec<(Bytes, Bytes)>) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    for (key, value) in records {
        let name = String::from_utf8_lossy(&key).into_owned();
        load_one(&mut loaded, &name, value)
            .map_err(|error| Error::corrupt(format!("master/{name}: {}", error.message())))?;
    }
    for (ticket, _) in &loaded.running {
        loaded.counters.next_procedure = loaded.counters.next_procedure.max(ticket.id + 1);
    }
    for finished in &loaded.finished {
        loaded.counters.next_procedure = loaded.counters.next_procedure.max(finished.ticket.id + 1);
    }
    Ok(loaded)
}

fn load_one(loaded: &mut Loaded, key: &str, value: Bytes) -> Result<()> {
    let fields = fields::read(value)?;
    let field = |tag: u8| {
        fields
            .iter()
            .find(|(t, _)| *t == tag)
            .map(|(_, value)| value.clone())
            .ok_or_else(|| Error::corrupt(format!("field {tag} is missing")))
    };
    match key.split_once('/') {
        None if key == "epoch" => loaded.epoch = fields::number(&field(1)?)?,
        None if key == "counters" => {
            loaded.counters = Counters {
                next_procedure: fields::number(&field(1)?)?,
                last_region: fields::number(&field(2)?)?,
            };
        }
        Some(("table", _)) => {
            let record = table_record(field(1)?, fields::number(&field(2)?)?)?;
            loaded.changes.push(Change::PutTable(record));
        }
        Some(("namespace", _)) => {
            let namespace = namespace_from(&cadastre_wire::decode(field(1)?)?)?;
            loaded.changes.push(Change::PutNamespace(namespace));
        }
        Some(("garbage", _)) => loaded
            .changes
            .push(Change::Garbage(region_from(field(1)?)?)),
        Some(("epoch", region)) => {
            let name = EncodedName::from_specifier(region.as_bytes());
            if name.as_str() != region {
                return Err(Error::corrupt("the epoch of no region"));
            }
            let epoch = fields::number(&field(1)?)?;
            loaded.changes.push(Change::Epoch(name, epoch));
        }
        Some(("switch", name)) => {
            let on = one_byte(&field(1)?)? == 1;
            loaded.switches.insert(name.to_owned(), on);
        }
        Some(("procedure", _)) => load_procedure(loaded, cadastre_wire::decode(field(1)?)?)?,
        _ => return Err(Error::corrupt("an unknown key")),
    }
    Ok(())
}

fn load_procedure(loaded: &mut Loaded, message: pb::Procedure) -> Result<()> {
    let ticket = Ticket {
        id: message.proc_id,
        submitted_ms: message.submitted_time,
        owner: message.owner.clone().unwrap_or_default(),
        nonce: Nonce {
            group: message.nonce_group(),
            nonce: message.nonce(),
        },
    };
    match message.state_data {
        Some(intent) => loaded.running.push((ticket, operation_from(intent)?)),
        None => loaded.finished.push(Finished {
            ticket,
            class_name: message.class_name,
            finished_ms: message.last_update,
            failure: message.exception.as_ref().map(failure_of),
        }),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
