//! What the active master knows: namespaces, tables and where each region is. A plain value that changes by the same
//! changes that are made durable: [`Change`] goes to the master's own store, [`MetaChange`] to `hbase:meta`.
//!
//! Must not know of procedures, sockets or storage. Nothing here is ahead of what is durable: the driver writes first and
//! applies then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use cadastre_types::{
    Code, EncodedName, Error, RegionInfo, Result, ServerName, TableDescriptor, TableName,
    TableState,
};

use crate::schema::{Namespace, RESERVED_NAMESPACES, TableRecord};

/// Where a region was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// On which server.
    pub server: ServerName,
    /// Sequence number of its first write there; clients order competing locations by it.
    pub open_sequence_number: u64,
    /// The store's writer epoch of this opening (C20).
    pub epoch: u64,
}

/// A change of the master's own store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A table is made or altered.
    PutTable(TableRecord),
    /// A table is gone.
    DeleteTable(TableName),
    /// A namespace is made or altered.
    PutNamespace(Namespace),
    /// A namespace is gone.
    DeleteNamespace(String),
    /// The data of a region that belongs to no table any more is to be deleted.
    Garbage(RegionInfo),
    /// That has been done.
    GarbageDone(RegionInfo),
    /// The epoch that a region's last opening left (C20).
    Epoch(EncodedName, u64),
    /// Nobody will open it any more.
    NoEpoch(EncodedName),
}

/// A change of `hbase:meta`. A list of them is written as one batch (C21).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetaChange {
    /// The region is open there: its whole row.
    Opened(RegionInfo, Placement),
    /// The region is closed; its row still says where it was, since clients' libraries need a server in each row.
    Closed(RegionInfo),
    /// The region's row goes.
    DeleteRegion(RegionInfo),
    /// The region is split into these; nobody serves it any more, and its row stays until nobody reads its files.
    Split(RegionInfo, [RegionInfo; 2]),
    /// The region's row says what it was merged from.
    Merged(RegionInfo, Vec<RegionInfo>),
    /// It does not say so any more; it named so many.
    Unmerged(RegionInfo, usize),
    /// State of a table.
    TableState(TableName, TableState),
    /// The table's row of state goes.
    DeleteTableState(TableName),
}

/// What a region's row of `hbase:meta` says of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionState {
    /// Served by its server.
    Open,
    /// Served by nobody.
    Closed,
    /// A parent that was split; never served again.
    Split,
}

/// A region as last made durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionEntry {
    /// The region.
    pub info: RegionInfo,
    /// Its state.
    pub state: RegionState,
    /// Where it is, or was.
    pub placement: Option<Placement>,
    /// What it was merged from, as long as that data waits to be deleted.
    pub merged_from: Vec<RegionInfo>,
}

impl RegionEntry {
    /// The server that serves it.
    pub fn open_on(&self) -> Option<&ServerName> {
        match self.state {
            RegionState::Open => self.placement.as_ref().map(|placement| &placement.server),
            RegionState::Closed | RegionState::Split => None,
        }
    }
}

/// A region as its row names it once it is split.
pub fn split_parent(info: &RegionInfo) -> RegionInfo {
    RegionInfo {
        offline: true,
        split: true,
        ..info.clone()
    }
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    /// Schema, shared with orders.
    pub descriptor: Arc<TableDescriptor>,
    /// Schema and next family id, as stored.
    pub record: TableRecord,
    /// State as `hbase:meta` has it; `Enabling` until it has one.
    pub state: TableState,
    /// Regions by start key; a split parent stands beside its first daughter.
    regions: BTreeSet<(Bytes, EncodedName)>,
}

/// Everything.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    namespaces: BTreeMap<String, Namespace>,
    tables: BTreeMap<TableName, Table>,
    regions: BTreeMap<EncodedName, RegionEntry>,
    garbage: BTreeMap<EncodedName, RegionInfo>,
    /// Epochs of the regions' last openings, as far as they were written down.
    epochs: BTreeMap<EncodedName, u64>,
}

impl Catalog {
    /// An empty cluster: only the namespaces that always exist.
    pub fn new() -> Self {
        let namespaces = RESERVED_NAMESPACES
            .into_iter()
            .map(|name| (name.to_owned(), Namespace::new(name)))
            .collect();
        Self {
            namespaces,
            ..Self::default()
        }
    }

    /// Takes over a change that is durable in the master's store.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::PutTable(record) => {
                let descriptor = Arc::new(record.descriptor.clone());
                match self.tables.get_mut(&record.descriptor.name) {
                    Some(table) => {
                        table.descriptor = descriptor;
                        table.record = record.clone();
                    }
                    None => {
                        let table = Table {
                            descriptor,
                            record: record.clone(),
                            state: TableState::Enabling,
                            regions: BTreeSet::new(),
                        };
                        self.tables.insert(record.descriptor.name.clone(), table);
                    }
                }
            }
            Change::DeleteTable(name) => {
                if let Some(table) = self.tables.remove(name) {
                    for (_, region) in table.regions {
                        self.regions.remove(&region);
                    }
                }
            }
            Change::PutNamespace(namespace) => {
                self.namespaces
                    .insert(namespace.name.clone(), namespace.clone());
            }
            Change::DeleteNamespace(name) => {
                self.namespaces.remove(name);
            }
            Change::Garbage(region) => {
                self.garbage.insert(region.encoded_name(), region.clone());
            }
            Change::GarbageDone(region) => {
                self.garbage.remove(&region.encoded_name());
            }
            Change::Epoch(region, epoch) => {
                self.epochs.insert(region.clone(), *epoch);
            }
            Change::NoEpoch(region) => {
                self.epochs.remove(region);
            }
        }
    }

    /// Takes over a change that is durable in `hbase:meta`.
    pub fn apply_meta(&mut self, change: &MetaChange) {
        match change {
            MetaChange::Opened(info, placement) => {
                let merged_from = self.merged_from(info);
                self.put_region(RegionEntry {
                    info: info.clone(),
                    state: RegionState::Open,
                    placement: Some(placement.clone()),
                    merged_from,
                });
            }
            MetaChange::Closed(info) => self.put_unserved(info, RegionState::Closed),
            MetaChange::Split(info, _) => {
                self.put_unserved(&split_parent(info), RegionState::Split);
            }
            MetaChange::Merged(info, from) => {
                if let Some(entry) = self.regions.get_mut(&info.encoded_name()) {
                    entry.merged_from.clone_from(from);
                }
            }
            MetaChange::Unmerged(info, _) => {
                if let Some(entry) = self.regions.get_mut(&info.encoded_name()) {
                    entry.merged_from.clear();
                }
            }
            MetaChange::DeleteRegion(info) => {
                let encoded = info.encoded_name();
                self.regions.remove(&encoded);
                if let Some(table) = self.tables.get_mut(&info.table) {
                    table.regions.remove(&(info.start_key.clone(), encoded));
                }
            }
            MetaChange::TableState(name, state) => {
                if let Some(table) = self.tables.get_mut(name) {
                    table.state = *state;
                }
            }
            MetaChange::DeleteTableState(_) => {}
        }
    }

    fn merged_from(&self, info: &RegionInfo) -> Vec<RegionInfo> {
        let entry = self.regions.get(&info.encoded_name());
        entry.map_or_else(Vec::new, |entry| entry.merged_from.clone())
    }

    fn put_unserved(&mut self, info: &RegionInfo, state: RegionState) {
        let placement = self
            .regions
            .get(&info.encoded_name())
            .and_then(|entry| entry.placement.clone());
        self.put_region(RegionEntry {
            info: info.clone(),
            state,
            placement,
            merged_from: self.merged_from(info),
        });
    }

    /// Takes over a region's row as it was read from `hbase:meta`.
    pub fn put_region(&mut self, entry: RegionEntry) {
        let encoded = entry.info.encoded_name();
        if let Some(table) = self.tables.get_mut(&entry.info.table) {
            table
                .regions
                .insert((entry.info.start_key.clone(), encoded.clone()));
        }
        self.regions.insert(encoded, entry);
    }

    /// Namespaces by name.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// A namespace.
    ///
    /// # Errors
    /// [`Code::NamespaceNotFound`].
    pub fn namespace(&self, name: &str) -> Result<&Namespace> {
        self.namespaces
            .get(name)
            .ok_or_else(|| Error::new(Code::NamespaceNotFound, name))
    }

    /// Tables by name.
    pub fn tables(&self) -> impl Iterator<Item = (&TableName, &Table)> {
        self.tables.iter()
    }

    /// A table.
    ///
    /// # Errors
    /// [`Code::TableNotFound`].
    pub fn table(&self, name: &TableName) -> Result<&Table> {
        self.tables
            .get(name)
            .ok_or_else(|| Error::new(Code::TableNotFound, name.to_string()))
    }

    /// Regions of a table in key order; none for an unknown table.
    pub fn regions_of(&self, name: &TableName) -> impl Iterator<Item = &RegionEntry> {
        self.tables
            .get(name)
            .into_iter()
            .flat_map(|table| &table.regions)
            .filter_map(|(_, encoded)| self.regions.get(encoded))
    }

    /// Regions of a table that are to be served, in key order: no split parents.
    pub fn served_regions_of(&self, name: &TableName) -> impl Iterator<Item = &RegionEntry> {
        self.regions_of(name)
            .filter(|region| region.state != RegionState::Split)
    }

    /// A region.
    pub fn region(&self, name: &EncodedName) -> Option<&RegionEntry> {
        self.regions.get(name)
    }

    /// All regions by encoded name.
    pub fn regions(&self) -> impl Iterator<Item = &RegionEntry> {
        self.regions.values()
    }

    /// The epoch that the region's last opening left, as far as it was written down; 0 if none was.
    pub fn epoch(&self, name: &EncodedName) -> u64 {
        self.epochs.get(name).copied().unwrap_or_default()
    }

    /// Regions whose data is still to be deleted.
    pub fn garbage(&self) -> impl Iterator<Item = &RegionInfo> {
        self.garbage.values()
    }

    /// Number of tables in a namespace.
    pub fn tables_in(&self, namespace: &str) -> usize {
        self.tables
            .keys()
            .filter(|name| name.namespace() == namespace)
            .count()
    }

    /// Checks that a table is in the state an operation needs.
    ///
    /// # Errors
    /// [`Code::TableNotFound`], [`Code::TableNotDisabled`] or [`Code::TableNotEnabled`].
    pub fn expect_state(&self, name: &TableName, expected: TableState) -> Result<&Table> {
        let table = self.table(name)?;
        if table.state == expected {
            return Ok(table);
        }
        let code = match expected {
            TableState::Disabled => Code::TableNotDisabled,
            _ => Code::TableNotEnabled,
        };
        Err(Error::new(code, name.to_string()))
    }
}
