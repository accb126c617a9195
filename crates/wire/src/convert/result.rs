//! Cells inside messages, and results (hbase-protocol.md 3.3, 4.2).

use bytes::Bytes;
use cadastre_types::{Cell, CellType, Error, Result, limits};

use crate::cells::CellReader;
use crate::pb;

/// Reads a cell.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) for a type that is never stored, or a row or family of impossible length.
pub fn cell(cell: &pb::Cell) -> Result<Cell> {
    let part = |bytes: &Option<Bytes>| bytes.clone().unwrap_or_default();
    let code = cell.cell_type.unwrap_or(i32::from(CellType::Put.code()));
    let cell_type = u8::try_from(code)
        .ok()
        .and_then(CellType::from_code)
        .ok_or_else(|| Error::corrupt(format!("cell type {code} is never stored")))?;
    let row = part(&cell.row);
    let family = part(&cell.family);
    if row.is_empty() || row.len() > limits::ROW_MAX || family.len() > limits::FAMILY_MAX {
        return Err(Error::corrupt("a cell with an impossible row or family"));
    }
    Ok(Cell {
        row,
        family,
        qualifier: part(&cell.qualifier),
        // Java's signed number in an unsigned field.
        timestamp: cell.timestamp.unwrap_or(0).cast_signed(),
        cell_type,
        value: part(&cell.value),
        tags: part(&cell.tags),
        sequence_id: 0,
    })
}

/// Writes a cell with all its parts, since the npm and Python clients read them without asking. Tags stay here, as with
/// `KeyValueCodec`.
pub fn cell_pb(cell: &Cell) -> pb::Cell {
    pb::Cell {
        row: Some(cell.row.clone()),
        family: Some(cell.family.clone()),
        qualifier: Some(cell.qualifier.clone()),
        timestamp: Some(cell.timestamp.cast_unsigned()),
        cell_type: Some(i32::from(cell.cell_type.code())),
        value: Some(cell.value.clone()),
        tags: None,
    }
}

/// Reads the cells of a result, from the message or, by their count, from the cell block. Flags (`exists`, `partial`, …) are
/// plain fields of the message.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) for damaged cells, or fewer than announced.
pub fn result(result: &pb::Result, block: &mut CellReader) -> Result<Vec<Cell>> {
    let mut cells = match usize::try_from(result.associated_cell_count()) {
        Ok(0) | Err(_) => Vec::new(),
        Ok(count) => block.take_cells(count)?,
    };
    for inline in &result.cell {
        cells.push(cell(inline)?);
    }
    Ok(cells)
}

/// A result with its cells inside the message.
pub fn result_pb(cells: &[Cell]) -> pb::Result {
    pb::Result {
        cell: cells.iter().map(cell_pb).collect(),
        ..Default::default()
    }
}

/// A result whose cells are in the cell block.
///
/// # Errors
/// [`Code::RequestTooBig`](cadastre_types::Code::RequestTooBig) if there are more than a result can count.
pub fn result_by_count(count: usize) -> Result<pb::Result> {
    let count = i32::try_from(count).map_err(|_| {
        Error::new(
            cadastre_types::Code::RequestTooBig,
            format!("{count} cells in one result"),
        )
    })?;
    Ok(pb::Result {
        associated_cell_count: Some(count),
        ..Default::default()
    })
}
