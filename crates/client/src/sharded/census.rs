//! What two versions would do with the rows that there are: the real tables are walked, nothing is estimated (R30, R43).

use std::collections::{BTreeMap, BTreeSet};

use cadastre_env::Env;
use cadastre_sharding::versions::{Both, Diff, map_changes};
use cadastre_sharding::{Place, PlaceId};
use cadastre_types::{Code, Error, Result};

use super::table_name;
use crate::scan::new_scan;
use crate::{Client, Row};

/// What was found.
#[derive(Debug)]
pub struct Census<'b> {
    /// Rows and bytes that stay, and that move, from where to where.
    pub diff: Diff<'b>,
    /// Rows of a table that the version in force places elsewhere, or nowhere: left by a move, or written by somebody without the rule.
    pub strays: u64,
    /// Tables that were walked.
    pub tables: usize,
    /// Tables that do not exist.
    pub missing: usize,
}

/// How far a census is.
#[derive(Debug)]
pub struct Step<'s> {
    /// Where it is.
    pub place: &'s Place,
    /// Tables that are done.
    pub tables_done: usize,
    /// Tables in all.
    pub tables: usize,
    /// Rows so far.
    pub rows: u64,
    /// The last row.
    pub row: &'s [u8],
}

/// Walks every table that the version in force has; if `only_moving`, those only that hold slots which move, if nothing but the map differs.
///
/// # Errors
/// What the tables' clusters say; a place on a cluster that is not given.
pub async fn census<'b, E: Env>(
    clusters: &BTreeMap<String, Client<E>>,
    both: &'b Both,
    only_moving: bool,
    mut progress: impl FnMut(&Step<'_>) + Send,
) -> Result<Census<'b>> {
    let places = walked(both, only_moving);
    let mut census = Census {
        diff: Diff::new(both),
        strays: 0,
        tables: 0,
        missing: 0,
    };
    let mut rows = 0;
    for (at, id) in places.iter().enumerate() {
        let place = both.place(*id);
        let client = clusters
            .get(&place.cluster)
            .ok_or_else(|| Error::invalid(format!("the cluster of {place} is not given")))?;
        let mut scan = new_scan();
        // Everything is read once: what others need stays in the cache.
        scan.query.cache_blocks = false;
        // A row moves with all its versions. HBase's readAllVersions asks for as many.
        scan.query.max_versions = i32::MAX as u32;
        let mut scanner = client.scan(&table_name(place)?, scan)?;
        loop {
            let row = match scanner.next().await {
                Err(error) if error.code() == Code::TableNotFound => {
                    census.missing += 1;
                    break;
                }
                row => row.map_err(|error| error.context(place))?,
            };
            let Some(row) = row else {
                census.tables += 1;
                break;
            };
            let Some(key) = row.key() else {
                continue;
            };
            rows += 1;
            match both.old().evaluate_key(key) {
                Ok(slot) if both.old_place(slot) == *id => {
                    census.diff.add_key(key, bytes(&row));
                }
                _ => census.strays += 1,
            }
            progress(&Step {
                place,
                tables_done: at,
                tables: places.len(),
                rows,
                row: key,
            });
        }
    }
    Ok(census)
}

fn walked(both: &Both, only_moving: bool) -> Vec<PlaceId> {
    let old = both.old();
    let all = || (0..old.map().slots()).map(cadastre_sharding::Slot);
    let ids: BTreeSet<PlaceId> = match map_changes(both).filter(|_| only_moving) {
        Some(changes) => changes.into_iter().map(|it| it.from).collect(),
        None => all().map(|slot| both.old_place(slot)).collect(),
    };
    ids.into_iter().collect()
}

/// The size of all versions of a row's cells, bytes as HBase counts a cell; delete markers and what they cover are not read.
fn bytes(row: &Row) -> u64 {
    row.cells
        .iter()
        .map(|cell| cell.key_value_len() as u64)
        .sum()
}
