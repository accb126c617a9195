//! Mutations and their conditions (hbase-protocol.md 4.3, 4.4).

use bytes::{Bytes, BytesMut};
use cadastre_types::{
    Cell, CellType, CompareOp, Condition, Durability, Error, LATEST_TIMESTAMP, Mutation,
    MutationKind, Result, limits,
};
use pb::mutation_proto::column_value::QualifierValue;
use pb::mutation_proto::{ColumnValue, DeleteType, MutationType};

use super::{attribute, comparator_pb, encoded_comparator, encoded_filter, filter_pb, row_key};
use super::{time_range, time_range_pb};
use crate::cells::{CellReader, Codec, tags_are_whole, write_cell};
use crate::pb;

/// Attribute with the life of the cells: 8 bytes, ms.
const TTL: &str = "_ttl";

/// Attribute that says whether new cells are wanted back: one byte, 0 for no.
const RETURN_RESULTS: &str = "_rr_";

/// Reads a mutation, with as many cells from the block as it counts, otherwise with its own.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for a mutation that makes no sense;
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) for damaged or missing cells of the block.
pub fn mutation(mutation: &pb::MutationProto, block: &mut CellReader) -> Result<Mutation> {
    let kind = kind(mutation.mutate_type)?;
    let timestamp = mutation_timestamp(mutation.timestamp)?;
    let counted = usize::try_from(mutation.associated_cell_count()).unwrap_or(0);
    let (row, cells) = if counted > 0 {
        let cells = block.take_cells(counted)?;
        let row = match mutation.row.as_ref().filter(|row| !row.is_empty()) {
            Some(row) => row_key(row)?,
            None => cells
                .first()
                .map(|cell| cell.row.clone())
                .unwrap_or_default(),
        };
        (row.clone(), block_cells(kind, &row, cells)?)
    } else {
        let row = row_key(mutation.row.as_ref().unwrap_or(&Bytes::new()))?;
        let cells = own_cells(kind, &row, timestamp, &mutation.column_value)?;
        (row, cells)
    };
    if cells.is_empty() && kind != MutationKind::Delete {
        return Err(Error::invalid("No columns to insert"));
    }
    Ok(Mutation {
        row,
        kind,
        cells,
        timestamp,
        durability: durability(mutation.durability)?,
        time_range: time_range(mutation.time_range.as_ref())?,
        nonce: mutation.nonce.unwrap_or(0),
        return_results: attribute(&mutation.attribute, RETURN_RESULTS)
            .is_none_or(|value| value[..] != [0]),
        ttl_ms: attribute(&mutation.attribute, TTL).map(ttl).transpose()?,
    })
}

fn kind(code: Option<i32>) -> Result<MutationKind> {
    match code.map(MutationType::try_from) {
        Some(Ok(MutationType::Append)) => Ok(MutationKind::Append),
        Some(Ok(MutationType::Increment)) => Ok(MutationKind::Increment),
        Some(Ok(MutationType::Put)) => Ok(MutationKind::Put),
        Some(Ok(MutationType::Delete)) => Ok(MutationKind::Delete),
        _ => Err(Error::invalid("a mutation of unknown type")),
    }
}

fn durability(code: Option<i32>) -> Result<Durability> {
    use pb::mutation_proto::Durability as Wire;
    Ok(match code.map(Wire::try_from) {
        None | Some(Ok(Wire::UseDefault)) => Durability::UseDefault,
        Some(Ok(Wire::SkipWal)) => Durability::SkipWal,
        Some(Ok(Wire::AsyncWal)) => Durability::AsyncWal,
        Some(Ok(Wire::SyncWal)) => Durability::SyncWal,
        Some(Ok(Wire::FsyncWal)) => Durability::FsyncWal,
        Some(Err(_)) => return Err(Error::invalid("a mutation of unknown durability")),
    })
}

fn mutation_timestamp(timestamp: Option<u64>) -> Result<i64> {
    match timestamp {
        // All bits set is how clients with unsigned numbers may write "latest".
        None | Some(u64::MAX) => Ok(LATEST_TIMESTAMP),
        Some(timestamp) => not_negative(timestamp.cast_signed()),
    }
}

fn not_negative(timestamp: i64) -> Result<i64> {
    if timestamp < 0 {
        return Err(Error::invalid(format!(
            "Timestamp cannot be negative. ts={timestamp}"
        )));
    }
    Ok(timestamp)
}

/// A negative life is over at once, as in HBase.
fn ttl(value: &Bytes) -> Result<u64> {
    let bytes = <[u8; 8]>::try_from(&value[..])
        .map_err(|_| Error::invalid(format!("attribute {TTL} has {} bytes, not 8", value.len())))?;
    Ok(u64::try_from(i64::from_be_bytes(bytes)).unwrap_or(0))
}

/// Cells of the block: all must be of the mutation's row and fit its kind.
fn block_cells(kind: MutationKind, row: &Bytes, mut cells: Vec<Cell>) -> Result<Vec<Cell>> {
    for cell in &mut cells {
        if cell.row != *row {
            return Err(Error::invalid(format!(
                "a cell of row '{}' in a mutation of row '{}'",
                cell.row.escape_ascii(),
                row.escape_ascii()
            )));
        }
        // One allocation less to keep alive, and it compares faster.
        cell.row = row.clone();
        cell.timestamp = match cell.timestamp {
            -1 => LATEST_TIMESTAMP,
            timestamp => not_negative(timestamp)?,
        };
        match (kind, cell.cell_type.is_delete()) {
            (MutationKind::Delete, false) => {
                return Err(Error::invalid("a value among the markers of a delete"));
            }
            (MutationKind::Increment | MutationKind::Append, true) => {
                return Err(Error::invalid("a delete marker in an increment or append"));
            }
            _ => {}
        }
        check_cell(kind, cell)?;
    }
    Ok(cells)
}

/// Rules that hold for cells from either place.
fn check_cell(kind: MutationKind, cell: &mut Cell) -> Result<()> {
    if cell.family.is_empty() || cell.family.len() > limits::FAMILY_MAX {
        return Err(Error::invalid("a family has 1 to 127 bytes"));
    }
    if cell.cell_type.is_family_wide() {
        cell.qualifier = Bytes::new();
    }
    if kind == MutationKind::Increment && cell.value.len() != 8 {
        return Err(Error::invalid(format!(
            "an increment is a number of 8 bytes, not {}",
            cell.value.len()
        )));
    }
    if cell.tags.len() > usize::from(u16::MAX) || !tags_are_whole(&cell.tags) {
        return Err(Error::invalid("damaged tags"));
    }
    Ok(())
}

fn own_cells(
    kind: MutationKind,
    row: &Bytes,
    timestamp: i64,
    columns: &[ColumnValue],
) -> Result<Vec<Cell>> {
    let mut cells = Vec::with_capacity(columns.iter().map(|it| it.qualifier_value.len()).sum());
    for column in columns {
        // A delete without cells means the whole row, which nobody means who names a family.
        if column.qualifier_value.is_empty() {
            return Err(Error::invalid("a family without columns in a mutation"));
        }
        for value in &column.qualifier_value {
            cells.push(own_cell(kind, row, timestamp, &column.family, value)?);
        }
    }
    Ok(cells)
}

fn own_cell(
    kind: MutationKind,
    row: &Bytes,
    timestamp: i64,
    family: &Bytes,
    value: &QualifierValue,
) -> Result<Cell> {
    let cell_type = own_type(kind, value.delete_type)?;
    if cell_type == CellType::Put && value.value.is_none() {
        return Err(Error::invalid("Missing required field: qualifier value"));
    }
    let mut cell = Cell {
        row: row.clone(),
        family: family.clone(),
        qualifier: value.qualifier.clone().unwrap_or_default(),
        timestamp: match value.timestamp {
            None => timestamp,
            some => mutation_timestamp(some)?,
        },
        cell_type,
        value: value.value.clone().unwrap_or_default(),
        tags: value.tags.clone().unwrap_or_default(),
        sequence_id: 0,
    };
    check_cell(kind, &mut cell)?;
    Ok(cell)
}

/// A delete without a type deletes one version; a put with a type carries a marker along.
fn own_type(kind: MutationKind, delete_type: Option<i32>) -> Result<CellType> {
    let marker = match (kind, delete_type) {
        (MutationKind::Append | MutationKind::Increment, _) | (MutationKind::Put, None) => {
            return Ok(CellType::Put);
        }
        (_, marker) => marker.unwrap_or(DeleteType::DeleteOneVersion as i32),
    };
    Ok(match DeleteType::try_from(marker) {
        Ok(DeleteType::DeleteOneVersion) => CellType::Delete,
        Ok(DeleteType::DeleteMultipleVersions) => CellType::DeleteColumn,
        Ok(DeleteType::DeleteFamily) => CellType::DeleteFamily,
        Ok(DeleteType::DeleteFamilyVersion) => CellType::DeleteFamilyVersion,
        Err(_) => return Err(Error::invalid("a delete of unknown type")),
    })
}

/// Writes a mutation with its cells inside the message, as single calls do.
pub fn mutation_pb(mutation: &Mutation) -> pb::MutationProto {
    let mut columns: Vec<ColumnValue> = Vec::new();
    for cell in &mutation.cells {
        let value = QualifierValue {
            qualifier: Some(cell.qualifier.clone()),
            value: Some(cell.value.clone()),
            timestamp: Some(cell.timestamp.cast_unsigned()),
            delete_type: delete_type(cell.cell_type).map(|marker| marker as i32),
            tags: (!cell.tags.is_empty()).then(|| cell.tags.clone()),
        };
        // The order of the cells is kept: only neighbours share a family's entry.
        match columns.last_mut() {
            Some(last) if last.family == cell.family => last.qualifier_value.push(value),
            _ => columns.push(ColumnValue {
                family: cell.family.clone(),
                qualifier_value: vec![value],
            }),
        }
    }
    pb::MutationProto {
        column_value: columns,
        ..without_cells(mutation)
    }
}

/// Writes a mutation whose cells go into the block, as lists of mutations do.
pub fn mutation_pb_cells(
    mutation: &Mutation,
    block: &mut BytesMut,
    codec: Codec,
) -> pb::MutationProto {
    for cell in &mutation.cells {
        write_cell(block, cell, codec);
    }
    let count = i32::try_from(mutation.cells.len());
    pb::MutationProto {
        associated_cell_count: Some(count.expect("cells of one mutation fit into memory")),
        ..without_cells(mutation)
    }
}

fn without_cells(mutation: &Mutation) -> pb::MutationProto {
    use pb::mutation_proto::Durability as Wire;
    let kind = match mutation.kind {
        MutationKind::Append => MutationType::Append,
        MutationKind::Increment => MutationType::Increment,
        MutationKind::Put => MutationType::Put,
        MutationKind::Delete => MutationType::Delete,
    };
    let durability = match mutation.durability {
        Durability::UseDefault => Wire::UseDefault,
        Durability::SkipWal => Wire::SkipWal,
        Durability::AsyncWal => Wire::AsyncWal,
        Durability::SyncWal => Wire::SyncWal,
        Durability::FsyncWal => Wire::FsyncWal,
    };
    let pair = |name: &str, value: Bytes| pb::NameBytesPair {
        name: name.to_owned(),
        value: Some(value),
    };
    let ttl = mutation.ttl_ms.map(|ttl| {
        let ttl = i64::try_from(ttl).unwrap_or(i64::MAX);
        pair(TTL, Bytes::copy_from_slice(&ttl.to_be_bytes()))
    });
    let no_results =
        (!mutation.return_results).then(|| pair(RETURN_RESULTS, Bytes::from_static(&[0])));
    pb::MutationProto {
        row: Some(mutation.row.clone()),
        mutate_type: Some(kind as i32),
        timestamp: (mutation.timestamp != LATEST_TIMESTAMP)
            .then_some(mutation.timestamp.cast_unsigned()),
        attribute: ttl.into_iter().chain(no_results).collect(),
        durability: Some(durability as i32),
        time_range: time_range_pb(mutation.time_range),
        nonce: (mutation.nonce != 0).then_some(mutation.nonce),
        ..Default::default()
    }
}

fn delete_type(cell_type: CellType) -> Option<DeleteType> {
    Some(match cell_type {
        CellType::Put => return None,
        CellType::Delete => DeleteType::DeleteOneVersion,
        CellType::DeleteColumn => DeleteType::DeleteMultipleVersions,
        CellType::DeleteFamily => DeleteType::DeleteFamily,
        CellType::DeleteFamilyVersion => DeleteType::DeleteFamilyVersion,
    })
}

/// Reads a condition.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for a condition that makes no sense.
pub fn condition(condition: &pb::Condition) -> Result<Condition> {
    let filter = condition.filter.as_ref().map(encoded_filter);
    let op = match (condition.compare_type, &filter) {
        (Some(code), _) => compare_op(code)?,
        (None, Some(_)) => CompareOp::Equal,
        (None, None) => {
            return Err(Error::invalid(
                "a condition needs a filter or a way to compare",
            ));
        }
    };
    Ok(Condition {
        row: row_key(&condition.row)?,
        family: condition.family.clone().unwrap_or_default(),
        qualifier: condition.qualifier.clone().unwrap_or_default(),
        op,
        comparator: condition.comparator.as_ref().map(encoded_comparator),
        filter,
        time_range: time_range(condition.time_range.as_ref())?,
        query_metrics: condition.query_metrics_enabled(),
    })
}

/// Reads a comparison; filters use the same codes.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for an unknown one.
pub fn compare_op(code: i32) -> Result<CompareOp> {
    Ok(match pb::CompareType::try_from(code) {
        Ok(pb::CompareType::Less) => CompareOp::Less,
        Ok(pb::CompareType::LessOrEqual) => CompareOp::LessOrEqual,
        Ok(pb::CompareType::Equal) => CompareOp::Equal,
        Ok(pb::CompareType::NotEqual) => CompareOp::NotEqual,
        Ok(pb::CompareType::GreaterOrEqual) => CompareOp::GreaterOrEqual,
        Ok(pb::CompareType::Greater) => CompareOp::Greater,
        Ok(pb::CompareType::NoOp) => CompareOp::NoOp,
        Err(_) => return Err(Error::invalid(format!("comparison {code} is unknown"))),
    })
}

/// Writes a condition.
pub fn condition_pb(condition: &Condition) -> pb::Condition {
    let op = match condition.op {
        CompareOp::Less => pb::CompareType::Less,
        CompareOp::LessOrEqual => pb::CompareType::LessOrEqual,
        CompareOp::Equal => pb::CompareType::Equal,
        CompareOp::NotEqual => pb::CompareType::NotEqual,
        CompareOp::GreaterOrEqual => pb::CompareType::GreaterOrEqual,
        CompareOp::Greater => pb::CompareType::Greater,
        CompareOp::NoOp => pb::CompareType::NoOp,
    };
    pb::Condition {
        row: condition.row.clone(),
        family: Some(condition.family.clone()),
        qualifier: Some(condition.qualifier.clone()),
        compare_type: Some(op as i32),
        comparator: condition.comparator.as_ref().map(comparator_pb),
        time_range: time_range_pb(condition.time_range),
        filter: condition.filter.as_ref().map(filter_pb),
        query_metrics_enabled: condition.query_metrics.then_some(true),
    }
}
