//! `HbckService`: repairs that operators ask for. Two of its calls have a meaning here: the check, and the state of a table.
//!
//! The others mend what cannot be: a procedure that hangs for ever, a region whose row was written by hand, a server that died and was
//! never cleaned up after. They are refused as what is not supported.

use std::collections::BTreeMap;

use bytes::Bytes;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{EncodedName, Error, RegionInfo, Result, TableName, TableState};
use cadastre_wire::{convert, pb};

use super::{nonce, param, regions, reply, tables, unknown, user_table};
use crate::active::Active;
use crate::catalog::{Catalog, RegionEntry, RegionState};
use crate::locks::Held;
use crate::metrics;
use crate::world::{MetaRow, World};

/// Faults told one by one in the log; of what is beyond only the number is (INV-9).
const TOLD_MAX: usize = 100;

pub(super) async fn call<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    match call.method.as_str() {
        "RunHbckChore" => {
            run_chore(active).await?;
            Ok(reply(&pb::RunHbckChoreResponse { ran: true }))
        }
        "SetTableStateInMeta" => set_table_state(active, call).await,
        _ => Err(unknown(call)),
    }
}

/// Compares `hbase:meta` with what the master knows, and what servers have open with both; mends the latter, tells the rest. Tables that a
/// procedure works on are left to it.
///
/// # Errors
/// If `hbase:meta` cannot be read.
async fn run_chore<W: World>(active: &Active<W>) -> Result<()> {
    let faults = {
        let names: Vec<TableName> =
            active.with_catalog(|catalog| catalog.tables().map(|(name, _)| name.clone()).collect());
        let held: BTreeMap<TableName, Held> = names
            .into_iter()
            .filter_map(|table| {
                let lock = active.locks().try_table(&table)?;
                Some((table, lock))
            })
            .collect();
        let rows = active.world().read_meta().await?;
        let ours = |table: &TableName| held.contains_key(table);
        active.with_catalog(|catalog| faults(catalog, rows, ours))
    };
    metrics::checked(faults.len());
    for fault in faults.iter().take(TOLD_MAX) {
        tracing::error!(%fault, "the check found a fault");
    }
    tracing::info!(faults = faults.len(), "hbase:meta was checked");
    active.reconcile().await;
    Ok(())
}

/// What is wrong with the rows of `hbase:meta`, of those tables that are looked at.
fn faults(catalog: &Catalog, rows: Vec<MetaRow>, ours: impl Fn(&TableName) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut regions: BTreeMap<EncodedName, RegionEntry> = BTreeMap::new();
    for row in rows {
        match row {
            MetaRow::Table(table, state) if ours(&table) => {
                let known = catalog.table(&table).map(|entry| entry.state);
                if known.as_ref().ok() != Some(&state) {
                    found.push(format!("{table} is {state:?} in hbase:meta, not {known:?}"));
                }
            }
            MetaRow::Region(entry) if ours(&entry.info.table) => {
                regions.insert(entry.info.encoded_name(), entry);
            }
            // Of a table that the master does not know; those of busy tables may change just now.
            MetaRow::Table(table, _) if catalog.table(&table).is_err() => {
                found.push(format!("{table} has a state in hbase:meta and is no table"));
            }
            MetaRow::Region(entry) if catalog.table(&entry.info.table).is_err() => {
                let (region, table) = (entry.info.encoded_name(), entry.info.table);
                found.push(format!(
                    "{region} is a region of {table}, which is no table"
                ));
            }
            MetaRow::Table(..) | MetaRow::Region(_) => {}
        }
    }
    for known in catalog.regions().filter(|known| ours(&known.info.table)) {
        let encoded = known.info.encoded_name();
        match regions.remove(&encoded) {
            Some(row) if row.state == known.state && row.open_on() == known.open_on() => {}
            row => found.push(format!(
                "{encoded} of {}: hbase:meta says {:?}, the master knows {:?}",
                known.info.table,
                row.as_ref().map(place),
                place(known)
            )),
        }
    }
    for (encoded, row) in regions {
        let table = row.info.table;
        found.push(format!("{encoded} of {table} is not known to the master"));
    }
    for (table, _) in catalog.tables().filter(|(table, _)| ours(table)) {
        // Where the next region must begin; nowhere behind the last one (INV-1).
        let mut next = Some(Bytes::new());
        for region in catalog.served_regions_of(table) {
            let RegionInfo {
                start_key, end_key, ..
            } = &region.info;
            if next.as_ref() != Some(start_key) {
                let encoded = region.info.encoded_name();
                found.push(format!(
                    "{encoded} of {table} does not begin where the region before it ends"
                ));
            }
            next = (!end_key.is_empty()).then(|| end_key.clone());
        }
        if next.is_some() {
            found.push(format!("no region of {table} reaches its end"));
        }
    }
    found
}

fn place(entry: &RegionEntry) -> (RegionState, Option<String>) {
    (entry.state, entry.open_on().map(ToString::to_string))
}

/// Brings a table into a state, its regions with it, and answers with the one it had. HBase only writes the row and leaves the regions as they
/// are; here a table whose state and regions disagree cannot be, so its repair has nothing else to do.
async fn set_table_state<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::SetTableStateInMetaRequest = param(call)?;
    let table = user_table(&request.table_name, "set the state of")?;
    let wanted = convert::table_state(&request.table_state)?;
    let before = active.table_state(&table)?;
    if before != wanted {
        let mark = nonce(None, None);
        let id = match wanted {
            TableState::Enabled => tables::begin_enable(active, call, table, mark).await?,
            TableState::Disabled => tables::begin_disable(active, call, table, mark).await?,
            TableState::Enabling | TableState::Disabling => {
                return Err(Error::invalid(
                    "a table is only ENABLING or DISABLING while a procedure brings it there",
                ));
            }
        };
        regions::wait(active, id).await?;
    }
    Ok(reply(&pb::GetTableStateResponse {
        table_state: convert::table_state_pb(before),
    }))
}

#[cfg(test)]
mod tests {
    use cadastre_types::{FamilyDescriptor, ServerName, TableDescriptor};

    use super::*;
    use crate::catalog::{Change, MetaChange, Placement};
    use crate::schema::{TableRecord, regions_of};

    fn table(name: &str) -> TableName {
        TableName::parse(name).unwrap()
    }

    /// A cluster of one table with two regions, open on a server, and the rows of `hbase:meta` that say so.
    fn cluster() -> (Catalog, Vec<MetaRow>) {
        let name = table("t");
        let mut catalog = Catalog::new();
        let descriptor = TableDescriptor::new(name.clone()).with_family(FamilyDescriptor::new("f"));
        catalog.apply(&Change::PutTable(TableRecord::create(descriptor).unwrap()));
        let placement = Placement {
            server: ServerName {
                host: "h".into(),
                port: 1,
                start_code: 1,
            },
            open_sequence_number: 1,
            epoch: 1,
        };
        for info in regions_of(&name, vec!["m".into()], 1).unwrap() {
            catalog.apply_meta(&MetaChange::Opened(info, placement.clone()));
        }
        catalog.apply_meta(&MetaChange::TableState(name.clone(), TableState::Enabled));
        let mut rows: Vec<MetaRow> = catalog
            .regions()
            .map(|entry| MetaRow::Region(entry.clone()))
            .collect();
        rows.push(MetaRow::Table(name, TableState::Enabled));
        (catalog, rows)
    }

    fn first_region(rows: &mut [MetaRow]) -> &mut RegionEntry {
        let region = rows.iter_mut().find_map(|row| match row {
            MetaRow::Region(entry) => Some(entry),
            MetaRow::Table(..) => None,
        });
        region.unwrap()
    }

    #[test]
    fn faults_of_meta_are_found() {
        let (catalog, rows) = cluster();
        assert_eq!(faults(&catalog, rows, |_| true), Vec::<String>::new());
        let finds = |change: fn(&mut Vec<MetaRow>), part: &str| {
            let (catalog, mut rows) = cluster();
            change(&mut rows);
            let found = faults(&catalog, rows.clone(), |_| true);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(part), "{found:?}");
            // Not of a table that somebody works on.
            faults(&catalog, rows, |_| false)
        };
        let busy = [
            finds(|rows| drop(rows.remove(0)), "says None"),
            finds(
                |rows| first_region(rows).state = RegionState::Closed,
                "Closed",
            ),
            finds(
                |rows| first_region(rows).placement.as_mut().unwrap().server.port = 2,
                "h,2,1",
            ),
            finds(
                |rows| {
                    let name = TableName::parse("t").unwrap();
                    rows.pop();
                    rows.push(MetaRow::Table(name, TableState::Disabled));
                },
                "Disabled",
            ),
            finds(
                |rows| {
                    let mut more = first_region(rows).clone();
                    more.info.region_id = 77;
                    rows.push(MetaRow::Region(more));
                },
                "not known",
            ),
        ];
        assert!(busy.iter().all(Vec::is_empty), "{busy:?}");
    }

    #[test]
    fn holes_and_strangers_are_found() {
        let (mut catalog, mut rows) = cluster();
        let gone = first_region(&mut rows).info.clone();
        catalog.apply_meta(&MetaChange::DeleteRegion(gone.clone()));
        rows.retain(|row| !matches!(row, MetaRow::Region(entry) if entry.info == gone));
        let found = faults(&catalog, rows, |_| true);
        assert_eq!(found.len(), 1, "a hole: {found:?}");
        let strange = RegionInfo::new(table("other"), "".into(), "".into(), 3);
        let row = MetaRow::Region(RegionEntry {
            info: strange,
            state: RegionState::Closed,
            placement: None,
            merged_from: Vec::new(),
        });
        let found = faults(&Catalog::new(), vec![row], |_| false);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("no table"), "{found:?}");
    }
}
