//! Which region goes to which server: pure and deterministic.
//!
//! Must not know of orders or of what a region holds. Regions of one table are spread first, the sum of all second: a new
//! table must not land whole on an empty server.

use std::collections::{BTreeMap, BTreeSet};

use cadastre_types::{EncodedName, RegionInfo, ServerName, TableName, TableState};

use crate::catalog::{Catalog, RegionState};

/// A region that needs a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The region.
    pub info: RegionInfo,
    /// Where it was: a server of the same host and port, started anew, is preferred (its caches and log are there).
    pub last: Option<ServerName>,
    /// A server that has just refused it: taken only if there is no other.
    pub avoid: Option<ServerName>,
    /// The epoch it has, if a server has just said so; else what is written down counts.
    pub epoch: Option<u64>,
}

impl Wanted {
    /// A region that was nowhere yet.
    pub fn new(info: RegionInfo) -> Self {
        Self {
            info,
            last: None,
            avoid: None,
            epoch: None,
        }
    }
}

/// How many regions each server has, in all and by table.
#[derive(Debug, Clone, Default)]
pub struct Loads {
    total: BTreeMap<ServerName, usize>,
    by_table: BTreeMap<(TableName, ServerName), usize>,
}

impl Loads {
    /// Counts the open regions of the live servers.
    pub fn of(catalog: &Catalog, live: &BTreeSet<ServerName>) -> Self {
        let mut loads = Self {
            total: live.iter().map(|server| (server.clone(), 0)).collect(),
            by_table: BTreeMap::new(),
        };
        for region in catalog.regions() {
            if let Some(server) = region.open_on()
                && live.contains(server)
            {
                loads.add(&region.info.table, server);
            }
        }
        loads
    }

    /// Counts one more region.
    pub fn add(&mut self, table: &TableName, server: &ServerName) {
        *self.total.entry(server.clone()).or_default() += 1;
        *self
            .by_table
            .entry((table.clone(), server.clone()))
            .or_default() += 1;
    }

    fn remove(&mut self, table: &TableName, server: &ServerName) {
        if let Some(total) = self.total.get_mut(server) {
            *total = total.saturating_sub(1);
        }
        if let Some(count) = self.by_table.get_mut(&(table.clone(), server.clone())) {
            *count = count.saturating_sub(1);
        }
    }

    fn weight(&self, table: &TableName, server: &ServerName) -> (usize, usize) {
        let of_table = self.by_table.get(&(table.clone(), server.clone()));
        let total = self.total.get(server);
        (
            of_table.copied().unwrap_or_default(),
            total.copied().unwrap_or_default(),
        )
    }
}

/// A server for each region. Empty if there is no server.
pub fn place(wanted: &[Wanted], mut loads: Loads) -> Vec<(RegionInfo, ServerName)> {
    let servers: Vec<ServerName> = loads.total.keys().cloned().collect();
    let mut placed = Vec::with_capacity(wanted.len());
    for region in wanted {
        let again = region.last.as_ref().and_then(|last| {
            servers
                .iter()
                .find(|server| server.host == last.host && server.port == last.port)
                .filter(|server| region.avoid.as_ref() != Some(server))
        });
        let best = again.or_else(|| {
            servers.iter().min_by_key(|server| {
                let avoided = region.avoid.as_ref() == Some(server);
                (avoided, loads.weight(&region.info.table, server), *server)
            })
        });
        let Some(server) = best.cloned() else { break };
        loads.add(&region.info.table, &server);
        placed.push((region.info.clone(), server));
    }
    placed
}

/// Regions that should be served and are not: those of enabled tables that no live server holds. `online` says what the
/// servers that answered hold; a server that did not answer is believed. Only tables for which `ours` is true are looked at.
pub fn homeless(
    catalog: &Catalog,
    live: &BTreeSet<ServerName>,
    online: &BTreeMap<ServerName, BTreeSet<EncodedName>>,
    ours: impl Fn(&TableName) -> bool,
) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for (name, table) in catalog.tables() {
        if table.state != TableState::Enabled || !ours(name) {
            continue;
        }
        for region in catalog.regions_of(name) {
            if region.state == RegionState::Split {
                continue;
            }
            let served = region.open_on().is_some_and(|server| {
                live.contains(server)
                    && online
                        .get(server)
                        .is_none_or(|held| held.contains(&region.info.encoded_name()))
            });
            if !served {
                wanted.push(Wanted {
                    last: region
                        .placement
                        .as_ref()
                        .map(|placement| placement.server.clone()),
                    ..Wanted::new(region.info.clone())
                });
            }
        }
    }
    wanted
}

/// Regions that a server holds and should not: of no table, or open somewhere else, or closed. Only tables for which `ours` is
/// true are looked at; `hbase:meta` is the driver's affair.
pub fn strays(
    catalog: &Catalog,
    online: &BTreeMap<ServerName, Vec<RegionInfo>>,
    ours: impl Fn(&TableName) -> bool,
) -> Vec<(ServerName, RegionInfo)> {
    let mut strays = Vec::new();
    for (server, regions) in online {
        for info in regions {
            let belongs = catalog
                .region(&info.encoded_name())
                .is_some_and(|region| region.open_on() == Some(server));
            if !belongs && !info.is_meta() && ours(&info.table) {
                strays.push((server.clone(), info.clone()));
            }
        }
    }
    strays
}

/// Moves that even out the number of regions of the live servers: from the fullest to the emptiest until no server has two
/// more than another one. Of a full server's regions those go whose table is most frequent there.
pub fn balance(catalog: &Catalog, live: &BTreeSet<ServerName>) -> Vec<(RegionInfo, ServerName)> {
    let mut loads = Loads::of(catalog, live);
    let mut on_server: BTreeMap<&ServerName, Vec<&RegionInfo>> = BTreeMap::new();
    for region in catalog.regions() {
        if let Some(server) = region.open_on()
            && live.contains(server)
        {
            on_server.entry(server).or_default().push(&region.info);
        }
    }
    let mut moves = Vec::new();
    loop {
        let by_load = |server: &&ServerName| loads.total.get(*server).copied().unwrap_or(0);
        let Some(fullest) = live.iter().max_by_key(by_load) else {
            break;
        };
        let Some(emptiest) = live.iter().min_by_key(by_load) else {
            break;
        };
        if by_load(&fullest) < by_load(&emptiest) + 2 {
            break;
        }
        let here = on_server.entry(fullest).or_default();
        let best = (0..here.len()).max_by_key(|index| loads.weight(&here[*index].table, fullest));
        let Some(index) = best else { break };
        let region = here.swap_remove(index);
        loads.remove(&region.table, fullest);
        loads.add(&region.table, emptiest);
        moves.push((region.clone(), emptiest.clone()));
    }
    moves
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::catalog::{Change, MetaChange, Placement};
    use crate::schema::{TableRecord, regions_of};
    use cadastre_types::{FamilyDescriptor, TableDescriptor};

    fn server(port: u16, start_code: u64) -> ServerName {
        ServerName {
            host: "h".into(),
            port,
            start_code,
        }
    }

    fn table(name: &str) -> TableName {
        TableName::parse(name).unwrap()
    }

    fn wanted(name: &str, regions: u8) -> Vec<Wanted> {
        let keys = (1..regions).map(|i| Bytes::from(vec![i])).collect();
        regions_of(&table(name), keys, 1)
            .unwrap()
            .into_iter()
            .map(Wanted::new)
            .collect()
    }

    fn live(servers: &[ServerName]) -> BTreeSet<ServerName> {
        servers.iter().cloned().collect()
    }

    #[test]
    fn a_new_table_is_spread_even_beside_a_full_server() {
        let servers = live(&[server(1, 1), server(2, 1), server(3, 1)]);
        let mut loads = Loads::of(&Catalog::new(), &servers);
        for _ in 0..50 {
            loads.add(&table("old"), &server(1, 1));
        }
        let placed = place(&wanted("new", 9), loads);
        for s in &servers {
            assert_eq!(placed.iter().filter(|(_, on)| on == s).count(), 3, "{s}");
        }
        assert!(place(&wanted("new", 3), Loads::default()).is_empty());
    }

    #[test]
    fn a_restarted_server_gets_its_regions_back() {
        let servers = live(&[server(1, 9), server(2, 9)]);
        let mut regions = wanted("t", 4);
        for region in &mut regions {
            region.last = Some(server(2, 1));
        }
        let placed = place(&regions, Loads::of(&Catalog::new(), &servers));
        assert!(placed.iter().all(|(_, on)| *on == server(2, 9)));
        for region in &mut regions {
            region.avoid = Some(server(2, 9));
        }
        let placed = place(&regions, Loads::of(&Catalog::new(), &servers));
        assert!(placed.iter().all(|(_, on)| *on == server(1, 9)));
        let only = live(&[server(2, 9)]);
        let placed = place(&regions, Loads::of(&Catalog::new(), &only));
        assert_eq!(placed.len(), 4, "a server that refused is better than none");
    }

    fn open_everywhere(catalog: &mut Catalog, name: &str, on: &ServerName, state: TableState) {
        let descriptor = TableDescriptor::new(table(name)).with_family(FamilyDescriptor::new("f"));
        catalog.apply(&Change::PutTable(TableRecord::create(descriptor).unwrap()));
        for region in wanted(name, 3) {
            let placement = Placement {
                server: on.clone(),
                open_sequence_number: 1,
                epoch: 1,
            };
            catalog.apply_meta(&MetaChange::Opened(region.info, placement));
        }
        catalog.apply_meta(&MetaChange::TableState(table(name), state));
    }

    #[test]
    fn regions_of_dead_or_forgetful_servers_are_homeless() {
        let mut catalog = Catalog::new();
        open_everywhere(&mut catalog, "dead", &server(1, 1), TableState::Enabled);
        open_everywhere(&mut catalog, "alive", &server(2, 1), TableState::Enabled);
        open_everywhere(&mut catalog, "off", &server(1, 1), TableState::Disabled);
        open_everywhere(&mut catalog, "busy", &server(1, 1), TableState::Enabled);
        let ours = |name: &TableName| *name != table("busy");
        let servers = live(&[server(2, 1)]);
        let names = |online: &BTreeMap<_, _>| -> Vec<String> {
            homeless(&catalog, &servers, online, ours)
                .iter()
                .map(|wanted| wanted.info.table.to_string())
                .collect()
        };
        assert_eq!(names(&BTreeMap::new()), ["dead"; 3]);
        let held = |names: &[&str]| -> Vec<RegionInfo> {
            names
                .iter()
                .map(|name| wanted(name, 3).remove(0).info)
                .collect()
        };
        let mut held_by_2 = held(&["dead", "alive", "off", "busy", "gone"]);
        held_by_2.push(RegionInfo::meta());
        let online = BTreeMap::from([(server(2, 1), held_by_2)]);
        let stray: Vec<String> = strays(&catalog, &online, ours)
            .iter()
            .map(|(_, info)| info.table.to_string())
            .collect();
        assert_eq!(stray, ["dead", "off", "gone"]);
        let forgetful = BTreeMap::from([(server(2, 1), BTreeSet::new())]);
        assert_eq!(
            names(&forgetful),
            ["alive", "alive", "alive", "dead", "dead", "dead"]
        );
    }

    #[test]
    fn balancing_evens_out_and_then_rests() {
        let mut catalog = Catalog::new();
        open_everywhere(&mut catalog, "a", &server(1, 1), TableState::Enabled);
        open_everywhere(&mut catalog, "b", &server(1, 1), TableState::Enabled);
        let servers = live(&[server(1, 1), server(2, 1), server(3, 1)]);
        let moves = balance(&catalog, &servers);
        assert_eq!(moves.len(), 4, "six regions on three servers");
        for (region, to) in moves {
            let placement = Placement {
                server: to,
                open_sequence_number: 2,
                epoch: 2,
            };
            catalog.apply_meta(&MetaChange::Opened(region, placement));
        }
        for s in &servers {
            let count = catalog.regions().filter(|r| r.open_on() == Some(s)).count();
            assert_eq!(count, 2, "{s}");
        }
        assert!(balance(&catalog, &servers).is_empty());
        assert!(balance(&catalog, &live(&[server(1, 1)])).is_empty());
        assert!(balance(&Catalog::new(), &BTreeSet::new()).is_empty());
    }
}
