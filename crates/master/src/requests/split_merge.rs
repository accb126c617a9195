//! `SplitRegion`, `MergeTableRegions`, `RunCatalogScan` (hbase-protocol.md 8.8).

use std::collections::BTreeSet;

use bytes::Bytes;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{
    Code, EncodedName, Error, RegionInfo, Result, TableDescriptor, TableName, TableState,
};
use cadastre_wire::{convert, pb};

use super::{begin, check_user_table, nonce, param, reply, switches};
use crate::active::Active;
use crate::catalog::Catalog;
use crate::lineage::{plan_merge, plan_split};
use crate::procedure::Lock;
use crate::world::World;

/// Regions of one merge (INV-9): each is a row of one batch on `hbase:meta`, and a merge column.
const MERGED_MAX: usize = 1_000;

/// Attributes by which a table refuses to be split or merged.
const SPLIT_ENABLED: &str = "SPLIT_ENABLED";
const MERGE_ENABLED: &str = "MERGE_ENABLED";

fn allows(descriptor: &TableDescriptor, attribute: &str) -> bool {
    !descriptor
        .attribute(attribute)
        .is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

fn check_allowed(catalog: &Catalog, table: &TableName, attribute: &str, doing: &str) -> Result<()> {
    if allows(&catalog.table(table)?.descriptor, attribute) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{doing} is disabled for the table {table} ({attribute} = false)"
    )))
}

/// A table may say by its policy that it is never split; that holds for splits that somebody asks for, too.
const SPLIT_POLICY: &str = "SPLIT_POLICY";
const NEVER_SPLIT: &str = "org.apache.hadoop.hbase.regionserver.DisabledRegionSplitPolicy";

fn check_splittable(catalog: &Catalog, table: &TableName) -> Result<()> {
    check_allowed(catalog, table, SPLIT_ENABLED, "Splitting")?;
    let policy = catalog.table(table)?.descriptor.attribute(SPLIT_POLICY);
    if policy.is_some_and(|policy| policy == NEVER_SPLIT) {
        return Err(Error::invalid(format!(
            "the regions of {table} are not splittable ({SPLIT_POLICY} = {NEVER_SPLIT})"
        )));
    }
    Ok(())
}

fn switched_off(doing: &str, regions: &str) -> Error {
    Error::invalid(format!(
        "{doing} of {regions} failed: the switch is off (splitormerge_switch)"
    ))
}

/// Splits a region, at the row that the client names or in its middle.
pub(super) async fn split<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::SplitTableRegionRequest = param(call)?;
    let mark = nonce(request.nonce_group, request.nonce);
    if let Some(proc_id) = active.known(mark) {
        return Ok(reply(&pb::SplitTableRegionResponse {
            proc_id: Some(proc_id),
        }));
    }
    let region = convert::region_info(&request.region_info)?;
    let encoded = region.encoded_name();
    check_user_table(&region.table, "split")?;
    if region.replica_id != 0 {
        return Err(Error::invalid(
            "a replica cannot be split: it follows its region",
        ));
    }
    if !switches::get(active, switches::SPLIT) {
        return Err(switched_off("Split", encoded.as_str()));
    }
    let row = match request.split_row.filter(|row| !row.is_empty()) {
        Some(row) => row,
        None => middle(active, &encoded).await?,
    };
    let table = region.table;
    let lock = Lock::Table(table.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, region_id| {
        check_splittable(catalog, &table)?;
        plan_split(catalog, &encoded, &row, region_id)
    })
    .await?;
    Ok(reply(&pb::SplitTableRegionResponse {
        proc_id: Some(proc_id),
    }))
}

/// Where the region's server would split it.
async fn middle<W: World>(active: &Active<W>, region: &EncodedName) -> Result<Bytes> {
    // What cannot be split anywhere is refused before a server is asked; the row stands for any.
    let (info, server) = active.with_catalog(|catalog| {
        let entry = catalog
            .region(region)
            .ok_or_else(|| Error::new(Code::UnknownRegion, region.to_string()))?;
        check_splittable(catalog, &entry.info.table)?;
        let table = &entry.info.table;
        catalog.expect_state(table, TableState::Enabled)?;
        let server = entry.open_on().cloned();
        let server = server.ok_or_else(|| super::regions::wrong_state(&entry.info, "CLOSED"))?;
        Ok::<_, Error>((entry.info.clone(), server))
    })?;
    let row = active.world().split_row(&server, &info).await?;
    row.ok_or_else(|| {
        Error::invalid(format!(
            "Region {region} is not splittable: it is too small to have a middle; name a row to split it at"
        ))
    })
}

/// Merges regions that are neighbours. Forced or not is the same: regions that are not neighbours would overlap (C24).
pub(super) async fn merge<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::MergeTableRegionsRequest = param(call)?;
    let mark = nonce(request.nonce_group, request.nonce);
    // Asked first: the regions are gone if it was done.
    if let Some(proc_id) = active.known(mark) {
        return Ok(reply(&pb::MergeTableRegionsResponse {
            proc_id: Some(proc_id),
        }));
    }
    let regions: Vec<EncodedName> = request
        .region
        .iter()
        .take(MERGED_MAX + 1)
        .map(|region| EncodedName::from_specifier(&region.value))
        .collect();
    let infos = active.with_catalog(|catalog| named(catalog, &regions))?;
    let table = check_mergeable(&infos)?;
    if !switches::get(active, switches::MERGE) {
        let names: Vec<&str> = regions.iter().map(EncodedName::as_str).collect();
        return Err(switched_off("Merge", &names.join(", ")));
    }
    let lock = Lock::Table(table.clone());
    let proc_id = begin(active, call, lock, mark, move |catalog, region_id| {
        check_allowed(catalog, &table, MERGE_ENABLED, "Merging")?;
        plan_merge(catalog, &regions, region_id)
    })
    .await?;
    Ok(reply(&pb::MergeTableRegionsResponse {
        proc_id: Some(proc_id),
    }))
}

fn named(catalog: &Catalog, regions: &[EncodedName]) -> Result<Vec<RegionInfo>> {
    regions
        .iter()
        .map(|region| match catalog.region(region) {
            Some(entry) => Ok(entry.info.clone()),
            None => Err(Error::new(Code::UnknownRegion, region.to_string())),
        })
        .collect()
}

/// Two regions or more, of one table that is not the cluster's own, each once; the table.
fn check_mergeable(regions: &[RegionInfo]) -> Result<TableName> {
    let refused = |why: String| Err(Error::new(Code::MergeRegion, why));
    let [first, _, ..] = regions else {
        return refused(format!(
            "a merge takes two regions or more, not {}",
            regions.len()
        ));
    };
    if regions.len() > MERGED_MAX {
        return refused(format!("a merge takes {MERGED_MAX} regions at most"));
    }
    check_user_table(&first.table, "merge regions of")?;
    if let Some(other) = regions.iter().find(|other| other.table != first.table) {
        return refused(format!(
            "regions of two tables cannot be merged: {} and {}",
            first.table, other.table
        ));
    }
    let names: BTreeSet<EncodedName> = regions.iter().map(RegionInfo::encoded_name).collect();
    if names.len() != regions.len() {
        return refused("a region cannot be merged with itself".to_owned());
    }
    Ok(first.table.clone())
}

/// The janitor's look, now; how many rows of `hbase:meta` it has cleaned.
pub(super) async fn run_catalog_scan<W: World>(active: &Active<W>) -> Result<Reply> {
    let cleaned = active.forget_parents().await;
    Ok(reply(&pb::RunCatalogScanResponse {
        scan_result: Some(i32::try_from(cleaned).unwrap_or(i32::MAX)),
    }))
}
