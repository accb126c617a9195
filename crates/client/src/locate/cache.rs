//! The cache of locations: per table an ordered map from start key to region, and per region the server of each replica.
//!
//! Rules (requirements.md L7, L8, L13): a look-up takes the greatest start key that is not above the row **and** checks the end
//! key; a region that is put in evicts whatever it overlaps; of one region, a location with a lower open sequence number never
//! replaces one with a higher; clearing takes away exactly what is named. Pure and synchronous; it must not know of sockets,
//! of who asks, or of how locations are found.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_types::{MovedTo, RegionInfo, ServerName, TableName};

use super::order::KeyOrder;

/// Regions held at most (INV-9). At some 400 bytes each this is 80 MB in a client that really uses 200,000 regions; beyond it
/// the regions that were put in first go first.
pub(crate) const REGIONS_MAX: usize = 200_000;

/// Where one replica of a region is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The region; its replica id is that of this location.
    pub region: Arc<RegionInfo>,
    /// The server, one start of it.
    pub server: ServerName,
    /// Open sequence number, orders competing locations of one region; 0 if unknown.
    pub open_seq: u64,
}

impl Location {
    /// Replica id.
    pub fn replica(&self) -> u32 {
        self.region.replica_id
    }
}

/// A start key that knows its table's order. The empty one is the least in each.
#[derive(Debug, Clone)]
struct StartKey(KeyOrder, Bytes);

impl Ord for StartKey {
    fn cmp(&self, other: &Self) -> Ordering {
        assert_eq!(self.0, other.0, "keys of one table have one order");
        match (self.1.is_empty(), other.1.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.0.compare(&self.1, &other.1),
        }
    }
}

impl PartialOrd for StartKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for StartKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for StartKey {}

#[derive(Debug)]
struct Entry {
    /// The default replica's info, which names the region.
    region: Arc<RegionInfo>,
    replicas: BTreeMap<u32, Arc<Location>>,
    /// Its place in [`Cache::by_age`].
    age: u64,
}

#[derive(Debug)]
struct Table {
    order: KeyOrder,
    regions: BTreeMap<StartKey, Entry>,
}

/// What is known of the neighbourhood of a row that is not cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    /// End key of the nearest cached region before the row.
    pub previous_end: Option<Bytes>,
    /// Whether a cached region lies behind the row.
    pub has_next: bool,
}

/// Locations of all tables.
#[derive(Debug)]
pub(crate) struct Cache {
    tables: BTreeMap<TableName, Table>,
    /// Which region was put in when, oldest first.
    by_age: BTreeMap<u64, (TableName, StartKey)>,
    next_age: u64,
    regions_max: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(REGIONS_MAX)
    }
}

impl Cache {
    /// An empty cache for this many regions.
    pub(crate) fn new(regions_max: usize) -> Self {
        assert!(regions_max > 0, "a cache for no regions finds nothing");
        Self {
            tables: BTreeMap::new(),
            by_age: BTreeMap::new(),
            next_age: 0,
            regions_max,
        }
    }

    /// Regions held.
    pub(crate) fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Where the replica of the region that holds the row is.
    pub(crate) fn get(
        &self,
        table: &TableName,
        row: &Bytes,
        replica: u32,
    ) -> Option<Arc<Location>> {
        let table = self.tables.get(table)?;
        let key = StartKey(table.order, row.clone());
        let (_, entry) = table.regions.range(..=key).next_back()?;
        if !table.order.contains(&entry.region, row) {
            return None;
        }
        entry.replicas.get(&replica).cloned()
    }

    /// Where the replica of the region is that ends where or behind where the row begins: what a descending scan reads after
    /// it has left the region that starts at `row`. An empty row stands for the end of the table.
    pub(crate) fn get_before(
        &self,
        table: &TableName,
        row: &Bytes,
        replica: u32,
    ) -> Option<Arc<Location>> {
        let table = self.tables.get(table)?;
        let last = if row.is_empty() {
            table.regions.iter().next_back()
        } else {
            let key = StartKey(table.order, row.clone());
            table.regions.range(..key).next_back()
        };
        let (_, entry) = last?;
        let end = &entry.region.end_key;
        let reaches = end.is_empty() || !row.is_empty() && table.order.compare(end, row).is_ge();
        reaches.then(|| entry.replicas.get(&replica).cloned())?
    }

    /// What is cached beside a row that is not.
    pub(crate) fn gap(&self, table: &TableName, row: &Bytes) -> Gap {
        let Some(table) = self.tables.get(table) else {
            return Gap {
                previous_end: None,
                has_next: false,
            };
        };
        let key = StartKey(table.order, row.clone());
        let previous = table.regions.range(..=key.clone()).next_back();
        let behind = (std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded);
        Gap {
            previous_end: previous.map(|(_, entry)| entry.region.end_key.clone()),
            has_next: table.regions.range(behind).next().is_some(),
        }
    }

    /// Where the gap begins in which a row lies that is not cached: the end of the nearest cached region before it, empty for the
    /// beginning of the table. Rows of different gaps lie in different regions for certain, since a region lies between them.
    /// `before` asks for what comes right before the row; then the empty row stands for the end of the table.
    pub(crate) fn gap_start(&self, table: &TableName, row: &Bytes, before: bool) -> Bytes {
        let Some(table) = self.tables.get(table) else {
            return Bytes::new();
        };
        let key = StartKey(table.order, row.clone());
        let previous = match (before, row.is_empty()) {
            (true, true) => table.regions.iter().next_back(),
            (true, false) => table.regions.range(..key).next_back(),
            (false, _) => table.regions.range(..=key).next_back(),
        };
        previous.map_or_else(Bytes::new, |(_, entry)| entry.region.end_key.clone())
    }

    /// Puts a location in and gives the one that is held then: the given one, or for the same region a newer one (L8).
    pub(crate) fn insert(&mut self, order: KeyOrder, location: Location) -> Arc<Location> {
        let name = location.region.table.clone();
        let start = StartKey(order, location.region.start_key.clone());
        self.evict_overlapping(order, &location.region);
        let table = self.tables.entry(name.clone()).or_insert_with(|| Table {
            order,
            regions: BTreeMap::new(),
        });
        assert_eq!(table.order, order, "a table's order never changes");
        let replica = location.replica();
        let location = Arc::new(location);
        let held = if let Some(entry) = table.regions.get_mut(&start) {
            match entry.replicas.get(&replica) {
                Some(held) if held.open_seq > location.open_seq => Arc::clone(held),
                _ => {
                    entry.replicas.insert(replica, Arc::clone(&location));
                    location
                }
            }
        } else {
            let age = self.next_age;
            self.next_age += 1;
            let entry = Entry {
                region: Arc::new(default_replica(&location.region)),
                replicas: BTreeMap::from([(replica, Arc::clone(&location))]),
                age,
            };
            table.regions.insert(start.clone(), entry);
            self.by_age.insert(age, (name, start));
            location
        };
        while self.by_age.len() > self.regions_max {
            self.remove_oldest();
        }
        held
    }

    /// Takes what a `RegionMovedException` said about a cached location; gives the new one if it counts (L8, L20).
    pub(crate) fn moved(&mut self, from: &Location, to: &MovedTo) -> Option<Arc<Location>> {
        let table = self.tables.get_mut(&from.region.table)?;
        let start = StartKey(table.order, from.region.start_key.clone());
        let entry = table.regions.get_mut(&start)?;
        if !same_region(&entry.region, &from.region) {
            return None;
        }
        let held = entry.replicas.get(&from.replica())?;
        if held.open_seq > to.sequence_number {
            return None;
        }
        let new = Arc::new(Location {
            region: Arc::clone(&held.region),
            server: to.server.clone(),
            open_seq: to.sequence_number,
        });
        entry.replicas.insert(from.replica(), Arc::clone(&new));
        Some(new)
    }

    /// Forgets one replica's location, if it is still the one that was found wrong: what somebody else has learnt since stays.
    pub(crate) fn clear_location(&mut self, wrong: &Location) {
        let Some(table) = self.tables.get_mut(&wrong.region.table) else {
            return;
        };
        let start = StartKey(table.order, wrong.region.start_key.clone());
        let Some(entry) = table.regions.get_mut(&start) else {
            return;
        };
        let same = |held: &Arc<Location>| {
            held.region == wrong.region
                && held.server == wrong.server
                && held.open_seq <= wrong.open_seq
        };
        if entry.replicas.get(&wrong.replica()).is_some_and(same) {
            entry.replicas.remove(&wrong.replica());
            if entry.replicas.is_empty() {
                self.remove(&wrong.region.table.clone(), &start);
            }
        }
    }

    /// Forgets one replica of the region that holds a row, whatever it is (L12); every replica with `None`.
    pub(crate) fn clear_row(&mut self, name: &TableName, row: &Bytes, replica: Option<u32>) {
        let Some(table) = self.tables.get_mut(name) else {
            return;
        };
        let key = StartKey(table.order, row.clone());
        let Some((start, entry)) = table.regions.range_mut(..=key).next_back() else {
            return;
        };
        if !table.order.contains(&entry.region, row) {
            return;
        }
        match replica {
            Some(replica) => {
                entry.replicas.remove(&replica);
            }
            None => entry.replicas.clear(),
        }
        if entry.replicas.is_empty() {
            let start = start.clone();
            self.remove(name, &start);
        }
    }

    /// Forgets a region with all its replicas.
    pub(crate) fn clear_region(&mut self, region: &RegionInfo) {
        let Some(table) = self.tables.get(&region.table) else {
            return;
        };
        let start = StartKey(table.order, region.start_key.clone());
        let held = table.regions.get(&start);
        if held.is_some_and(|entry| same_region(&entry.region, region)) {
            self.remove(&region.table, &start);
        }
    }

    /// Forgets everything on one start of a server; another start on the same port stays. Gives the number of locations.
    pub(crate) fn clear_server(&mut self, server: &ServerName) -> usize {
        let mut empty = Vec::new();
        let mut cleared = 0;
        for (name, table) in &mut self.tables {
            for (start, entry) in &mut table.regions {
                let before = entry.replicas.len();
                entry.replicas.retain(|_, held| held.server != *server);
                cleared += before - entry.replicas.len();
                if entry.replicas.is_empty() {
                    empty.push((name.clone(), start.clone()));
                }
            }
        }
        for (name, start) in empty {
            self.remove(&name, &start);
        }
        cleared
    }

    /// Forgets a table.
    pub(crate) fn clear_table(&mut self, name: &TableName) {
        if let Some(table) = self.tables.remove(name) {
            for entry in table.regions.values() {
                self.by_age.remove(&entry.age);
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.tables.clear();
        self.by_age.clear();
    }

    /// Takes out every region that overlaps this one and is another.
    fn evict_overlapping(&mut self, order: KeyOrder, region: &RegionInfo) {
        let Some(table) = self.tables.get(&region.table) else {
            return;
        };
        let start = StartKey(order, region.start_key.clone());
        // Regions of the map never overlap each other: besides the nearest one before, only those that start inside can.
        let before = table.regions.range(..start.clone()).next_back();
        let inside = table
            .regions
            .range(start..)
            .take_while(|(_, entry)| order.overlap(&entry.region, region));
        let gone: Vec<StartKey> = before
            .into_iter()
            .chain(inside)
            .filter(|(_, entry)| {
                order.overlap(&entry.region, region) && !same_region(&entry.region, region)
            })
            .map(|(start, _)| start.clone())
            .collect();
        for start in gone {
            self.remove(&region.table, &start);
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((_, (name, start))) = self.by_age.pop_first() {
            self.remove(&name, &start);
        }
    }

    fn remove(&mut self, name: &TableName, start: &StartKey) {
        let Some(table) = self.tables.get_mut(name) else {
            return;
        };
        if let Some(entry) = table.regions.remove(start) {
            self.by_age.remove(&entry.age);
        }
        if table.regions.is_empty() {
            self.tables.remove(name);
        }
    }
}

/// The region's info as its default replica has it.
fn default_replica(region: &RegionInfo) -> RegionInfo {
    RegionInfo {
        replica_id: 0,
        ..region.clone()
    }
}

/// Whether two infos name the same region, replicas aside. A split or offline flag does not make it another one.
fn same_region(a: &RegionInfo, b: &RegionInfo) -> bool {
    a.region_id == b.region_id && a.start_key == b.start_key && a.end_key == b.end_key
}

#[cfg(test)]
mod tests;
