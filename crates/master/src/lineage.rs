//! Regions made of others (rfcs: split and merge): what the driver of a split or merge does at the regions' data, and the janitor that
//! forgets regions that were replaced, once nobody reads their files any more.
//!
//! Which rows of `hbase:meta` change, and when, is [`crate::procedure`]'s affair.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cadastre_types::{Code, EncodedName, Error, RegionInfo, Result, TableName, TableState, limits};

use crate::active::{Active, Answer};
use crate::catalog::{Catalog, Change, RegionEntry, RegionState};
use crate::executor::Pauses;
use crate::procedure::{Lock, Nonce, Operation, ProcedureId};
use crate::requests::janitor_is_on;
use crate::world::World;

/// How often the janitor looks: a region gives up its parents' files about 15 minutes after it was made, and what waits costs space
/// only. HBase's (`hbase.catalogjanitor.interval`) looks every 5 minutes.
const JANITOR_INTERVAL: Duration = Duration::from_secs(60);

/// How long one look waits for a procedure that it began before it begins the next.
const FORGET_PATIENCE: Duration = Duration::from_secs(60);

/// Who the janitor's procedures say has asked for them.
const OWNER: &str = "cadastre-master";

impl<W: World> Active<W> {
    /// Clones closed regions into others.
    ///
    /// # Errors
    /// When the patience has run out, or no other try can help.
    pub(crate) async fn clone_all(
        &self,
        sources: &[RegionInfo],
        targets: &[RegionInfo],
        patience: Duration,
    ) -> Result<()> {
        let deadline = self.world().mono() + patience;
        let mut pauses = Pauses::new();
        loop {
            // Everywhere: an order of an earlier master, whose answer nobody heard, may have opened one on a server that
            // `hbase:meta` never named.
            self.close_everywhere(sources).await;
            let error = match self.world().clone_regions(sources, targets).await {
                Ok(epochs) => {
                    let names = targets.iter().map(RegionInfo::encoded_name);
                    self.state().cloned.extend(names.zip(epochs));
                    return Ok(());
                }
                Err(error) => error,
            };
            tracing::warn!(%error, "regions could not be cloned");
            let left = deadline.saturating_sub(self.world().mono());
            if left.is_zero() || error.code() == Code::Corrupt {
                return Err(error);
            }
            if error.code() == Code::RegionState {
                // The server of a source died with writes that only the log has: opening replays them, closing flushes.
                let opened = self.open_all(sources.to_vec(), None, Some(left)).await?;
                let epochs = opened.iter();
                self.record(epochs.map(|(region, p)| Change::Epoch(region.clone(), p.epoch)))
                    .await;
            } else {
                self.world().sleep(pauses.next()).await;
            }
        }
    }

    /// Takes that back, however long it takes.
    pub(crate) async fn discard_all(&self, sources: &[RegionInfo], targets: &[RegionInfo]) {
        for target in targets {
            self.state().cloned.remove(&target.encoded_name());
        }
        let mut pauses = Pauses::new();
        loop {
            self.close_everywhere(targets).await;
            let Err(error) = self.world().discard_clones(sources, targets).await else {
                return;
            };
            tracing::warn!(%error, "cloned regions could not be discarded; tried again");
            self.world().sleep(pauses.next()).await;
        }
    }

    async fn close_everywhere(&self, regions: &[RegionInfo]) {
        let live = self.world().servers().borrow().clone();
        let orders = live
            .iter()
            .flat_map(|server| regions.iter().map(move |region| (server, region)));
        futures::future::join_all(orders.map(|(server, region)| self.close_on(server, region)))
            .await;
    }

    /// Looks for replaced regions for ever, while the switch is on.
    pub(crate) async fn watch_parents(&self) {
        loop {
            self.world().sleep(JANITOR_INTERVAL).await;
            if janitor_is_on(self) {
                self.forget_parents().await;
            }
        }
    }

    /// One look at everything that waits; how many rows were cleaned.
    pub(crate) async fn forget_parents(&self) -> usize {
        let waiting: BTreeSet<TableName> = self.with_catalog(|catalog| {
            let rows = catalog.regions().filter(|row| waits(row));
            rows.map(|row| row.info.table.clone()).collect()
        });
        let mut cleaned = 0;
        for table in waiting {
            match self.forget_parents_of(&table).await {
                Ok(count) => cleaned += count,
                // The next look tries again.
                Err(error) => {
                    tracing::warn!(%table, %error, "replaced regions are not looked at");
                }
            }
        }
        cleaned
    }

    async fn forget_parents_of(&self, table: &TableName) -> Result<usize> {
        let (served, rows): (Vec<RegionInfo>, Vec<RegionEntry>) = self.with_catalog(|catalog| {
            let served = catalog.served_regions_of(table);
            let rows = catalog.regions_of(table).filter(|row| waits(row));
            (
                served.map(|region| region.info.clone()).collect(),
                rows.cloned().collect(),
            )
        });
        // A region that is made meanwhile borrows only what its sources borrow, which are among these or replaced before.
        let mut lent = BTreeSet::new();
        for region in &served {
            lent.extend(self.world().borrowed_by(region).await?);
        }
        let mut cleaned = 0;
        for row in rows.into_iter().filter(|row| is_free(row, &lent)) {
            let id = match self.begin_forgetting(row).await {
                Err(error) if error.code() == Code::RegionState => continue,
                begun => begun?,
            };
            if let Answer::Finished(finished) = self.result(id, FORGET_PATIENCE).await {
                cleaned += usize::from(finished.failure.is_none());
            }
        }
        Ok(cleaned)
    }

    async fn begin_forgetting(&self, row: RegionEntry) -> Result<ProcedureId> {
        let lock = Lock::Table(row.info.table.clone());
        self.submit(lock, Nonce::default(), OWNER, move |catalog, _| {
            let same = |there: &RegionEntry| {
                there.state == row.state && there.merged_from == row.merged_from
            };
            let there = catalog.region(&row.info.encoded_name());
            if !there.is_some_and(same) {
                return Err(Error::new(
                    Code::RegionState,
                    format!("{} has changed", row.info.encoded_name()),
                ));
            }
            Ok(Operation::ForgetParents {
                split: row.state == RegionState::Split,
                region: row.info,
                ancestors: row.merged_from,
            })
        })
        .await
    }
}

/// Whether a row says of regions that wait to be deleted.
fn waits(row: &RegionEntry) -> bool {
    row.state == RegionState::Split || !row.merged_from.is_empty()
}

/// Whether nobody reads the files of those regions.
fn is_free(row: &RegionEntry, lent: &BTreeSet<EncodedName>) -> bool {
    let free = |region: &RegionInfo| !lent.contains(&region.encoded_name());
    (row.state != RegionState::Split || free(&row.info)) && row.merged_from.iter().all(free)
}

/// A plan to split a region of an enabled table at a row.
///
/// # Errors
/// HBase's, for a row that is no place to split at.
pub(crate) fn plan_split(
    catalog: &Catalog,
    region: &EncodedName,
    row: &Bytes,
    region_id: u64,
) -> Result<Operation> {
    let parent = servable(catalog, region)?.info.clone();
    if *row == parent.start_key {
        return Err(Error::invalid(format!(
            "Split row is equal to the start key of {region}: {}",
            row.escape_ascii()
        )));
    }
    if !parent.contains(row) {
        return Err(Error::invalid(format!(
            "Split row {} is not inside of {region}",
            row.escape_ascii()
        )));
    }
    if row.len() > limits::ROW_MAX {
        return Err(Error::invalid(format!(
            "Split row of {} bytes; a row key has at most {}",
            row.len(),
            limits::ROW_MAX
        )));
    }
    let half = |start: &Bytes, end: &Bytes| {
        RegionInfo::new(parent.table.clone(), start.clone(), end.clone(), region_id)
    };
    let daughters = [half(&parent.start_key, row), half(row, &parent.end_key)];
    Ok(Operation::SplitRegion { parent, daughters })
}

/// A plan to merge regions of an enabled table.
///
/// # Errors
/// HBase's, for regions that are not neighbours.
pub(crate) fn plan_merge(
    catalog: &Catalog,
    regions: &[EncodedName],
    region_id: u64,
) -> Result<Operation> {
    let mut entries = Vec::with_capacity(regions.len());
    for region in regions {
        entries.push(servable(catalog, region)?);
    }
    entries.sort_by(|a, b| a.info.start_key.cmp(&b.info.start_key));
    for pair in entries.windows(2) {
        let [before, behind] = [&pair[0].info, &pair[1].info];
        if before.end_key.is_empty() || before.end_key != behind.start_key {
            return Err(Error::new(
                Code::MergeRegion,
                format!(
                    "Unable to merge regions that are not adjacent: {}, {}",
                    before.encoded_name(),
                    behind.encoded_name()
                ),
            ));
        }
    }
    let [first, .., last] = &entries[..] else {
        return Err(Error::new(
            Code::MergeRegion,
            "a merge takes two regions or more",
        ));
    };
    let child = RegionInfo::new(
        first.info.table.clone(),
        first.info.start_key.clone(),
        last.info.end_key.clone(),
        region_id,
    );
    let parents: Vec<RegionInfo> = entries.iter().map(|entry| entry.info.clone()).collect();
    let older = entries.iter().flat_map(|entry| &entry.merged_from).cloned();
    Ok(Operation::MergeRegions {
        ancestors: parents.iter().cloned().chain(older).collect(),
        parents,
        child,
    })
}

/// A region that is open, of a table that is enabled.
fn servable<'a>(catalog: &'a Catalog, region: &EncodedName) -> Result<&'a RegionEntry> {
    let entry = catalog
        .region(region)
        .ok_or_else(|| Error::new(Code::UnknownRegion, region.to_string()))?;
    catalog.expect_state(&entry.info.table, TableState::Enabled)?;
    if entry.open_on().is_none() {
        let state = match entry.state {
            RegionState::Split => "SPLIT",
            _ => "CLOSED",
        };
        return Err(Error::new(
            Code::RegionState,
            format!("{region} is not OPEN; state={state}"),
        ));
    }
    Ok(entry)
}
