//! Judging what the tier above says about a row: from directory rows to a location or to one exact error (requirements.md L15,
//! L16). Pure: the rows are handed in; how they were read, and who waits for them, is `locate`'s affair.
//!
//! 1. [`plan`] says how to read: closest at or before (a reversed scan), or forward where the neighbour is known.
//! 2. [`judge`] goes over the rows, skips split parents, and applies the checks a to h.
//! 3. [`usable`] gives everything in those rows that may be cached besides (prefetch, L11).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_types::{
    Cell, Code, Error, Qualifiers, Query, RegionInfo, Result, Scan, ServerName, TableName, limits,
};
use cadastre_wire::meta::{self, MetaEntry};

use super::cache::{Gap, Location};
use super::order::KeyOrder;
use crate::notation;
use crate::scan::new_scan;

/// Which region of a table is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The one that holds the row.
    Holding,
    /// The one that ends at the row or holds what comes right before it; for the empty row the table's last one. What a
    /// descending scan asks for.
    Before,
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Table.
    pub table: &'a TableName,
    /// Order of its row keys.
    pub order: KeyOrder,
    /// Row.
    pub row: &'a Bytes,
    /// Region relative to the row.
    pub position: Position,
    /// Replica.
    pub replica: u32,
}

impl Wanted<'_> {
    fn is_met_by(&self, region: &RegionInfo) -> bool {
        match self.position {
            Position::Holding => self.order.contains(region, self.row),
            Position::Before => {
                let begins_before = self.row.is_empty()
                    || region.start_key.is_empty()
                    || self.order.compare(&region.start_key, self.row).is_lt();
                let reaches = region.end_key.is_empty()
                    || !self.row.is_empty()
                        && self.order.compare(&region.end_key, self.row).is_ge();
                begins_before && reaches
            }
        }
    }

    fn row_text(&self) -> String {
        let row = notation::to_text(self.row);
        match self.position {
            Position::Holding => format!("row '{row}'"),
            Position::Before => format!("what comes before row '{row}'"),
        }
    }
}

/// How the tier above is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Closest at or before, then backwards.
    Reversed,
    /// Forward from the region that starts at this key.
    Forward(Bytes),
}

/// How to read for a row, given what is cached around it.
///
/// One scan has to find the row and to bring neighbours (L10, L11). Backwards finds any row. Forwards brings what an ascending
/// reader needs next, but finds the row only if the start key of its region, or of one just before it, is known: at the
/// table's beginning, right at the end of a cached region, and behind everything that is cached.
pub(crate) fn plan(wanted: &Wanted<'_>, gap: &Gap, prefetch: bool) -> Reading {
    if wanted.position == Position::Before || !prefetch {
        return Reading::Reversed;
    }
    if wanted.row.is_empty() {
        return Reading::Forward(Bytes::new());
    }
    match &gap.previous_end {
        Some(end) if !end.is_empty() && (end == wanted.row || !gap.has_next) => {
            Reading::Forward(end.clone())
        }
        _ => Reading::Reversed,
    }
}

/// Key in the tier above where the search begins: closest at or before it is the region's entry.
pub(crate) fn directory_key(wanted: &Wanted<'_>) -> Bytes {
    let row = searchable(wanted.table, wanted.row);
    match wanted.position {
        Position::Holding => meta::lookup_start(wanted.table, row),
        Position::Before => meta::lookup_before_start(wanted.table, row),
    }
}

/// As much of a row as fits into a directory key. No region's start key is longer, since its name is such a key itself; so what
/// is cut off never decides which region holds the row.
fn searchable<'a>(table: &TableName, row: &'a [u8]) -> &'a [u8] {
    /// Two commas and 14 digits.
    const AROUND: usize = 16;
    let room = limits::ROW_MAX.saturating_sub(table.as_str().len() + AROUND);
    &row[..row.len().min(room)]
}

/// Reads backwards from where the row's region stands.
pub(crate) fn reversed_scan(wanted: &Wanted<'_>) -> Scan {
    Scan {
        start_row: directory_key(wanted),
        stop_row: meta::first_of_table(wanted.table),
        include_stop_row: true,
        reversed: true,
        ..info_scan()
    }
}

/// Reads forward from the region that starts at this key.
pub(crate) fn forward_scan(table: &TableName, start_key: &[u8]) -> Scan {
    let start_row = if start_key.is_empty() {
        meta::first_of_table(table)
    } else {
        meta::lookup_before_start(table, searchable(table, start_key))
    };
    Scan {
        start_row,
        stop_row: meta::behind_table(table),
        ..info_scan()
    }
}

fn info_scan() -> Scan {
    let info = Bytes::from_static(meta::INFO_FAMILY);
    Scan {
        query: Query {
            columns: BTreeMap::from([(info, Qualifiers::All)]),
            ..Query::default()
        },
        ..new_scan()
    }
}

/// A row of the tier above.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryRow {
    /// Row key.
    pub key: Bytes,
    /// The default replica's entry; `None` if the row has no `regioninfo`, an error if that is unreadable.
    pub entry: Result<Option<MetaEntry>>,
    /// Server and open sequence number of the other replicas.
    pub replicas: BTreeMap<u32, (Option<ServerName>, u64)>,
}

impl DirectoryRow {
    /// Reads the cells of one row (hbase-protocol.md 6.3).
    pub(crate) fn from_cells(cells: &[Cell]) -> Self {
        Self {
            key: cells
                .first()
                .map_or_else(Bytes::new, |cell| cell.row.clone()),
            entry: MetaEntry::from_cells(cells),
            replicas: replicas(cells),
        }
    }
}

/// Replicas above 0: columns `server_0001`, `serverstartcode_0001`, `seqnumDuringOpen_0001`, the number in 4 upper-case hex digits.
fn replicas(cells: &[Cell]) -> BTreeMap<u32, (Option<ServerName>, u64)> {
    /// Host and port, start code, open sequence number.
    type Parts = (Option<(String, u16)>, Option<u64>, u64);
    let mut parts: BTreeMap<u32, Parts> = BTreeMap::new();
    for cell in cells {
        let Some((column, digits)) = split_replica(&cell.qualifier) else {
            continue;
        };
        let part = parts.entry(digits).or_default();
        match column {
            b"server" => part.0 = host_port(&cell.value),
            b"serverstartcode" => part.1 = number(&cell.value),
            b"seqnumDuringOpen" => part.2 = number(&cell.value).unwrap_or(0),
            _ => {}
        }
    }
    let place = |(host_port, start_code, open_seq)| {
        let server = match (host_port, start_code) {
            (Some((host, port)), Some(start_code)) => Some(ServerName {
                host,
                port,
                start_code,
            }),
            _ => None,
        };
        (server, open_seq)
    };
    parts
        .into_iter()
        .map(|(replica, part)| (replica, place(part)))
        .collect()
}

fn split_replica(qualifier: &[u8]) -> Option<(&[u8], u32)> {
    let at = qualifier.len().checked_sub(5)?;
    let digits = qualifier[at..].strip_prefix(b"_")?;
    let digits = std::str::from_utf8(digits).ok()?;
    let replica = u32::from_str_radix(digits, 16).ok()?;
    (replica > 0).then_some((&qualifier[..at], replica))
}

fn host_port(value: &[u8]) -> Option<(String, u16)> {
    let (host, port) = std::str::from_utf8(value).ok()?.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

/// The checks of requirements.md L16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// No row at all.
    NoRow,
    /// A region of another table.
    OtherTable,
    /// No row's region holds the row.
    Hole,
    /// `regioninfo` missing or unreadable.
    Unreadable,
    /// Only a split or merged parent.
    ParentOnly,
    /// Offline; the table may be disabled.
    Offline,
    /// No server.
    NoServer,
    /// A server known to be dead.
    DeadServer,
}

/// Why there is no location, and what the next try must do differently.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Miss {
    /// Which check.
    pub check: Check,
    /// For the caller.
    pub error: Error,
}

impl Miss {
    /// Whether the tier above may be wrong itself and must be located anew (L16, last column).
    pub(crate) fn relocates_above(&self) -> bool {
        matches!(
            self.check,
            Check::Hole | Check::Unreadable | Check::DeadServer
        )
    }

    /// Whether it is the answer for every row of the table, and so for everybody who waited.
    pub(crate) fn is_table_wide(&self) -> bool {
        matches!(self.check, Check::NoRow | Check::OtherTable)
    }

    /// Whether a disabled table looks like this.
    pub(crate) fn may_be_disabled(&self) -> bool {
        self.check == Check::Offline
    }
}

/// What the state of a region in the directory says about asking its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Maybe,
    Parent,
    Offline,
    NotYet,
}

/// Reads `info:state` (`RegionState.State`); absent in old clusters.
fn served(entry: &MetaEntry) -> Served {
    if entry.info.split || entry.split_daughters.is_some() {
        return Served::Parent;
    }
    if entry.info.offline {
        return Served::Offline;
    }
    match entry.state.as_str() {
        "SPLIT" | "MERGED" => Served::Parent,
        "CLOSED" | "FAILED_CLOSE" => Served::Offline,
        "PENDING_OPEN" | "OPENING" | "FAILED_OPEN" | "SPLITTING_NEW" | "MERGING_NEW"
        | "ABNORMALLY_CLOSED" => Served::NotYet,
        // OPEN; on the way out (CLOSING, SPLITTING, MERGING …) it answers until it is closed; OFFLINE is also what a row without
        // a state counts as. If a server is named, it is asked.
        _ => Served::Maybe,
    }
}

fn miss(check: Check, code: Code, text: String) -> Miss {
    Miss {
        check,
        error: Error::new(code, text),
    }
}

/// The entry of a row, if it is one and of the table (checks b and d).
fn readable<'a>(table: &TableName, row: &'a DirectoryRow) -> Result<&'a MetaEntry, Miss> {
    let key = notation::to_text(&row.key);
    let why = match &row.entry {
        Ok(Some(entry)) if entry.info.table == *table => return Ok(entry),
        Ok(Some(entry)) => {
            let text = format!("Table '{table}' was not found, got: {}.", entry.info.table);
            return Err(miss(Check::OtherTable, Code::TableNotFound, text));
        }
        Ok(None) => String::new(),
        Err(error) => format!(": {error}"),
    };
    let text = format!("RegionInfo null in {table}, directory row '{key}'{why}");
    Err(miss(Check::Unreadable, Code::Io, text))
}

/// Finds the wanted region in rows of the tier above, nearest first.
///
/// # Errors
/// The first check that fails (L16).
pub(crate) fn judge(
    wanted: &Wanted<'_>,
    rows: &[DirectoryRow],
    is_dead: impl Fn(&ServerName) -> bool,
) -> Result<Location, Miss> {
    let table = wanted.table;
    if rows.is_empty() {
        return Err(miss(Check::NoRow, Code::TableNotFound, table.to_string()));
    }
    let mut parent = None;
    for row in rows {
        let entry = readable(table, row)?;
        if !wanted.is_met_by(&entry.info) {
            continue;
        }
        let key = notation::to_text(&row.key);
        if served(entry) == Served::Parent {
            parent.get_or_insert(key);
            continue;
        }
        let what = format!("region {key}, which holds {}", wanted.row_text());
        return usable_location(wanted, row, entry, &what, is_dead);
    }
    Err(match parent {
        Some(key) => miss(
            Check::ParentOnly,
            Code::RegionOffline,
            format!(
                "only the split parent {key} holds {}; its daughters should be online soon",
                wanted.row_text()
            ),
        ),
        None => miss(
            Check::Hole,
            Code::Io,
            format!("Unable to find region for {} in {table}", wanted.row_text()),
        ),
    })
}

/// The location in the row of the wanted region (checks f, g and h).
fn usable_location(
    wanted: &Wanted<'_>,
    row: &DirectoryRow,
    entry: &MetaEntry,
    what: &str,
    is_dead: impl Fn(&ServerName) -> bool,
) -> Result<Location, Miss> {
    match served(entry) {
        Served::Offline => {
            let text = format!("{what} is offline; its table may be disabled");
            return Err(miss(Check::Offline, Code::RegionOffline, text));
        }
        Served::NotYet => {
            let text = format!("{what} is in state {}: no server yet", entry.state);
            return Err(miss(Check::NoServer, Code::NoServerForRegion, text));
        }
        Served::Parent | Served::Maybe => {}
    }
    let replica = wanted.replica;
    let Some(location) = location(row, entry, replica) else {
        let text = format!("no server address listed for replica {replica} of {what}");
        return Err(miss(Check::NoServer, Code::NoServerForRegion, text));
    };
    if is_dead(&location.server) {
        let text = format!("{what} is on {}, but it is dead", location.server);
        return Err(miss(Check::DeadServer, Code::RegionServerStopped, text));
    }
    Ok(location)
}

/// The location of a replica in a row, if a server is named.
fn location(row: &DirectoryRow, entry: &MetaEntry, replica: u32) -> Option<Location> {
    let (server, open_seq) = if replica == 0 {
        (entry.server.clone()?, entry.open_seq)
    } else {
        let (server, open_seq) = row.replicas.get(&replica)?;
        (server.clone()?, *open_seq)
    };
    Some(Location {
        region: Arc::new(RegionInfo {
            replica_id: replica,
            ..entry.info.clone()
        }),
        server,
        open_seq,
    })
}

/// Everything in the rows that can be cached: served regions of the table, on servers not known to be dead.
pub(crate) fn usable(
    table: &TableName,
    rows: &[DirectoryRow],
    is_dead: impl Fn(&ServerName) -> bool,
) -> Vec<Location> {
    let mut found = Vec::new();
    for row in rows {
        let Ok(Some(entry)) = &row.entry else {
            continue;
        };
        if entry.info.table != *table || served(entry) != Served::Maybe {
            continue;
        }
        let others = row.replicas.keys().copied();
        for replica in std::iter::once(0).chain(others) {
            found.extend(
                location(row, entry, replica).filter(|location| !is_dead(&location.server)),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests;
