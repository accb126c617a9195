//! Rows and columns of `hbase:meta` (hbase-protocol.md 6): their order, their keys, and what stands in them. Knows nothing of who
//! stores or serves them.

use std::cmp::Ordering;

use bytes::Bytes;
use cadastre_types::{
    Cell, Error, LATEST_TIMESTAMP, RegionInfo, Result, ServerName, TableName, TableState,
};

use crate::znode::{pbuf, strip_pbuf};
use crate::{convert, decode, encode, pb};

/// Family of the regions' columns.
pub const INFO_FAMILY: &[u8] = b"info";
/// Family of the tables' columns.
pub const TABLE_FAMILY: &[u8] = b"table";
/// The region itself.
pub const REGION_INFO: &[u8] = b"regioninfo";
/// Where it is served: `host:port`.
pub const SERVER: &[u8] = b"server";
/// Start code of that server.
pub const SERVER_START_CODE: &[u8] = b"serverstartcode";
/// Sequence number it was opened with.
pub const OPEN_SEQUENCE_NUMBER: &[u8] = b"seqnumDuringOpen";
/// The server it is meant for: `host,port,startcode`.
pub const SERVER_NAME: &[u8] = b"sn";
/// State, as text.
pub const STATE: &[u8] = b"state";
/// First daughter of a split parent.
pub const SPLIT_A: &[u8] = b"splitA";
/// Second daughter of a split parent.
pub const SPLIT_B: &[u8] = b"splitB";
/// What a merged region was merged from: this, and a number of four digits at least.
const MERGE_PREFIX: &[u8] = b"merge";
/// State of a table, in [`TABLE_FAMILY`].
pub const TABLE_STATE: &[u8] = b"state";

/// Epoch of the newest master that wrote to `hbase:meta`, 8 bytes BE, in [`TABLE_FAMILY`] of [`master_epoch_row`] (C19). HBase knows
/// no such column.
pub const MASTER_EPOCH: &[u8] = b"cadastre-master-epoch";

/// State of a region that nobody has said anything of.
const OFFLINE: &str = "OFFLINE";

/// A row key, cut at its first and its last comma.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowParts<'a> {
    /// Table.
    pub table: &'a [u8],
    /// What follows the first comma; `None` without one (the row of a table's state).
    pub rest: Option<RowRest<'a>>,
}

/// What follows a row key's first comma.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowRest<'a> {
    /// Start key.
    pub start_key: &'a [u8],
    /// What follows the last comma; `None` if the first is also the last.
    pub id: Option<&'a [u8]>,
}

/// Cuts a row key.
pub fn row_parts(row: &[u8]) -> RowParts<'_> {
    let Some(first) = row.iter().position(|b| *b == b',') else {
        return RowParts {
            table: row,
            rest: None,
        };
    };
    let rest = &row[first + 1..];
    let (start_key, id) = match rest.iter().rposition(|b| *b == b',') {
        Some(last) => (&rest[..last], Some(&rest[last + 1..])),
        None => (rest, None),
    };
    RowParts {
        table: &row[..first],
        rest: Some(RowRest { start_key, id }),
    }
}

/// The order of rows of `hbase:meta` (6.4): table, start key, id, each as bytes; a part that is absent comes before every part
/// that is there. Different rows are never equal.
pub fn compare_rows(a: &[u8], b: &[u8]) -> Ordering {
    // The derived order compares part after part, and `None` before `Some`.
    row_parts(a).cmp(&row_parts(b))
}

/// Key of the row of a table's state.
pub fn table_row(table: &TableName) -> Bytes {
    Bytes::copy_from_slice(table.as_str().as_bytes())
}

/// Key of the row that holds the master's epoch: that of the state of `hbase:meta` itself, which HBase never writes. Searches for
/// regions read family `info` and pass it; readers of tables' states ask for a column that it does not have.
pub fn master_epoch_row() -> Bytes {
    table_row(&TableName::meta())
}

/// The cell that holds a master's epoch, timestamp left to the store.
pub fn master_epoch_cell(epoch: u64) -> Cell {
    Cell::put(
        master_epoch_row(),
        Bytes::from_static(TABLE_FAMILY),
        Bytes::from_static(MASTER_EPOCH),
        LATEST_TIMESTAMP,
        Bytes::copy_from_slice(&epoch.to_be_bytes()),
    )
}

/// The master's epoch from the cells of its row, newest first; 0 if no master has written one.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) for a damaged value.
pub fn master_epoch_from_cells(cells: &[Cell]) -> Result<u64> {
    newest(cells, TABLE_FAMILY, MASTER_EPOCH).map_or(Ok(0), number)
}

/// Key of a region's row: the name of its default replica.
pub fn region_row(info: &RegionInfo) -> Bytes {
    RegionInfo {
        replica_id: 0,
        ..info.clone()
    }
    .name()
}

fn key(table: &TableName, start_key: &[u8], end: &[u8]) -> Bytes {
    let table = table.as_str().as_bytes();
    [table, b",", start_key, end].concat().into()
}

/// Where a reversed look-up of a row starts, inclusive: behind every region that could hold it. It ends at
/// [`first_of_table`], inclusive.
pub fn lookup_start(table: &TableName, row: &[u8]) -> Bytes {
    key(table, row, b",99999999999999")
}

/// Where a reversed look-up of the region *before* a row starts, inclusive; an empty row means the last region of the table.
pub fn lookup_before_start(table: &TableName, row: &[u8]) -> Bytes {
    if row.is_empty() {
        let table = table.as_str().as_bytes();
        return [table, b"\0"].concat().into();
    }
    key(table, row, b",00000000000000")
}

/// Key before every region of a table, and behind the row of its state.
pub fn first_of_table(table: &TableName) -> Bytes {
    key(table, b"", b",")
}

/// Key behind every region of a table, exclusive end of a forward scan: the table's name followed by a space.
pub fn behind_table(table: &TableName) -> Bytes {
    let table = table.as_str().as_bytes();
    [table, b" ,,"].concat().into()
}

/// What a region's row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaEntry {
    /// The region.
    pub info: RegionInfo,
    /// Where it is, or is meant to be, served.
    pub server: Option<ServerName>,
    /// Sequence number it was opened with; orders locations that compete.
    pub open_seq: u64,
    /// Its state by HBase's name: `OPEN`, `OPENING`, `CLOSED`, `SPLIT`, …
    pub state: String,
    /// The daughters of a split parent.
    pub split_daughters: Option<(RegionInfo, RegionInfo)>,
    /// What it was merged from, as long as that is not cleaned up.
    pub merged_from: Vec<RegionInfo>,
}

/// Column of one of the regions that a region was merged from, counted from 0.
pub fn merge_qualifier(number: usize) -> Bytes {
    let prefix = String::from_utf8_lossy(MERGE_PREFIX);
    format!("{prefix}{number:04}").into()
}

fn is_merge_qualifier(qualifier: &[u8]) -> bool {
    let number = qualifier.strip_prefix(MERGE_PREFIX);
    number.is_some_and(|number| number.len() >= 4 && number.iter().all(u8::is_ascii_digit))
}

impl MetaEntry {
    /// The row's cells in HBase's order, timestamps left to the store.
    pub fn to_cells(&self) -> Vec<Cell> {
        let row = region_row(&self.info);
        let cell = |qualifier: &'static [u8], value: Bytes| {
            let family = Bytes::from_static(INFO_FAMILY);
            let qualifier = Bytes::from_static(qualifier);
            Cell::put(row.clone(), family, qualifier, LATEST_TIMESTAMP, value)
        };
        let number = |number: u64| Bytes::copy_from_slice(&number.to_be_bytes());
        let mut cells = vec![
            cell(REGION_INFO, region_value(&self.info)),
            cell(STATE, self.state.clone().into()),
        ];
        if let Some(server) = &self.server {
            cells.extend([
                cell(SERVER, server.host_port().into()),
                cell(SERVER_START_CODE, number(server.start_code)),
                cell(OPEN_SEQUENCE_NUMBER, number(self.open_seq)),
                cell(SERVER_NAME, server.to_string().into()),
            ]);
        }
        if let Some((a, b)) = &self.split_daughters {
            cells.extend([
                cell(SPLIT_A, region_value(a)),
                cell(SPLIT_B, region_value(b)),
            ]);
        }
        for (number, parent) in self.merged_from.iter().enumerate() {
            let family = Bytes::from_static(INFO_FAMILY);
            let (qualifier, value) = (merge_qualifier(number), region_value(parent));
            let merged = Cell::put(row.clone(), family, qualifier, LATEST_TIMESTAMP, value);
            cells.push(merged);
        }
        cells.sort_by(Cell::cmp_hbase);
        cells
    }

    /// Reads a row's cells, newest version first; `None` if it is no region's row. A row without a state counts as offline, one
    /// without a sequence number as 0.
    ///
    /// # Errors
    /// [`Code::Corrupt`](cadastre_types::Code::Corrupt) for a value that is not what its column holds.
    pub fn from_cells(cells: &[Cell]) -> Result<Option<Self>> {
        let column = |qualifier: &[u8]| newest(cells, INFO_FAMILY, qualifier);
        let Some(info) = column(REGION_INFO) else {
            return Ok(None);
        };
        let server = match (column(SERVER), column(SERVER_START_CODE)) {
            (Some(server), Some(start_code)) => Some(place(server, start_code)?),
            _ => None,
        };
        let daughters = match (column(SPLIT_A), column(SPLIT_B)) {
            (Some(a), Some(b)) => Some((region(a)?, region(b)?)),
            _ => None,
        };
        let mut parents: Vec<&Bytes> = cells
            .iter()
            .filter(|cell| cell.family == INFO_FAMILY && is_merge_qualifier(&cell.qualifier))
            .map(|cell| &cell.qualifier)
            .collect();
        parents.dedup();
        let parents = parents.into_iter().filter_map(|parent| column(parent));
        Ok(Some(Self {
            merged_from: parents.map(region).collect::<Result<_>>()?,
            info: region(info)?,
            server,
            open_seq: column(OPEN_SEQUENCE_NUMBER)
                .map(number)
                .transpose()?
                .unwrap_or(0),
            state: match column(STATE) {
                Some(state) => text(state)?.to_owned(),
                None => OFFLINE.to_owned(),
            },
            split_daughters: daughters,
        }))
    }
}

/// Value of the newest cell of a column that is not empty: Java takes an empty value for a missing one.
fn newest<'a>(cells: &'a [Cell], family: &[u8], qualifier: &[u8]) -> Option<&'a Bytes> {
    cells
        .iter()
        .find(|cell| {
            cell.family == family && cell.qualifier == qualifier && !cell.cell_type.is_delete()
        })
        .map(|cell| &cell.value)
        .filter(|value| !value.is_empty())
}

/// A region as a value of meta: magic, then the message.
pub fn region_value(info: &RegionInfo) -> Bytes {
    pbuf(&encode(&convert::region_info_pb(info)))
}

/// Reads a value written by [`region_value`].
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) if it is none.
pub fn region(value: &Bytes) -> Result<RegionInfo> {
    let info: pb::RegionInfo = decode(strip_pbuf(value.clone())?)?;
    convert::region_info(&info).map_err(|error| Error::corrupt(error.message()))
}

fn place(server: &[u8], start_code: &[u8]) -> Result<ServerName> {
    let server = text(server)?;
    let (host, port) = server
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty())
        .ok_or_else(|| Error::corrupt(format!("'{server}' in meta is not host:port")))?;
    Ok(ServerName {
        host: host.to_owned(),
        port: port
            .parse()
            .map_err(|_| Error::corrupt(format!("'{server}' in meta has no port")))?,
        start_code: number(start_code)?,
    })
}

fn number(value: impl AsRef<[u8]>) -> Result<u64> {
    let value = value.as_ref();
    <[u8; 8]>::try_from(value)
        .map(u64::from_be_bytes)
        .map_err(|_| Error::corrupt(format!("a number in meta has {} bytes, not 8", value.len())))
}

fn text(value: &[u8]) -> Result<&str> {
    std::str::from_utf8(value).map_err(|_| Error::corrupt("a text in meta is not UTF-8"))
}

/// The cell that holds a table's state, timestamp left to the store.
pub fn table_state_cell(table: &TableName, state: TableState) -> Cell {
    Cell::put(
        table_row(table),
        Bytes::from_static(TABLE_FAMILY),
        Bytes::from_static(TABLE_STATE),
        LATEST_TIMESTAMP,
        // Unlike a region's values this one has no magic.
        encode(&convert::table_state_pb(state)),
    )
}

/// A table's state from the cells of its row, newest first; `None` if they do not say.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) for a damaged value.
pub fn table_state_from_cells(cells: &[Cell]) -> Result<Option<TableState>> {
    newest(cells, TABLE_FAMILY, TABLE_STATE)
        .map(|value| convert::table_state(&decode(value.clone())?))
        .transpose()
}

#[cfg(test)]
mod tests;
