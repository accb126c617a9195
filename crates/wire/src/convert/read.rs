//! Gets, scans and what they share (hbase-protocol.md 4.2, 4.6).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cadastre_types::{
    Columns, EncodedFilter, Error, Get, Qualifiers, Query, Result, Scan, TimeRange,
};

use super::{attribute, row_bound, row_key};
use crate::pb;

/// Attribute of a raw scan: one byte, not 0.
const RAW: &str = "_raw_";

/// Reads a get.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for rows, time ranges and counts that make no sense.
pub fn get(get: &pb::Get) -> Result<Get> {
    Ok(Get {
        row: row_key(&get.row)?,
        query: Query {
            columns: columns(&get.column),
            time_range: time_range(get.time_range.as_ref())?,
            family_time_ranges: family_time_ranges(&get.cf_time_range)?,
            max_versions: max_versions(get.max_versions())?,
            raw: false,
            cache_blocks: get.cache_blocks(),
        },
        filter: get.filter.as_ref().map(encoded_filter),
        store_limit: store_limit(get.store_limit),
        store_offset: count(get.store_offset),
        existence_only: get.existence_only(),
        closest_row_before: get.closest_row_before(),
        query_metrics: get.query_metrics_enabled(),
    })
}

/// Writes a get.
pub fn get_pb(get: &Get) -> pb::Get {
    pb::Get {
        row: get.row.clone(),
        column: columns_pb(&get.query.columns),
        filter: get.filter.as_ref().map(filter_pb),
        time_range: time_range_pb(get.query.time_range),
        max_versions: Some(get.query.max_versions),
        cache_blocks: Some(get.query.cache_blocks),
        store_limit: get.store_limit,
        store_offset: some_unless_zero(get.store_offset),
        existence_only: get.existence_only.then_some(true),
        closest_row_before: get.closest_row_before.then_some(true),
        cf_time_range: family_time_ranges_pb(&get.query.family_time_ranges),
        query_metrics_enabled: get.query_metrics.then_some(true),
        ..Default::default()
    }
}

/// Reads a scan.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for rows, time ranges and counts that make no sense, and for a raw
/// scan of named columns.
pub fn scan(scan: &pb::Scan) -> Result<Scan> {
    let bound = |row: &Option<Bytes>| row_bound(row.as_ref().unwrap_or(&Bytes::new()));
    let start_row = bound(&scan.start_row)?;
    let stop_row = bound(&scan.stop_row)?;
    // Clients from before the flag mean a get of this row.
    let is_get = !start_row.is_empty() && start_row == stop_row;
    let raw =
        attribute(&scan.attribute, RAW).is_some_and(|value| value.len() == 1 && value[0] != 0);
    let columns = columns(&scan.column);
    if raw && columns.values().any(|it| *it != Qualifiers::All) {
        return Err(Error::invalid("Cannot specify any column for a raw scan"));
    }
    Ok(Scan {
        start_row,
        include_start_row: scan.include_start_row(),
        stop_row,
        include_stop_row: scan.include_stop_row.unwrap_or(is_get),
        reversed: scan.reversed(),
        query: Query {
            columns,
            time_range: time_range(scan.time_range.as_ref())?,
            family_time_ranges: family_time_ranges(&scan.cf_time_range)?,
            max_versions: max_versions(scan.max_versions())?,
            raw,
            cache_blocks: scan.cache_blocks(),
        },
        filter: scan.filter.as_ref().map(encoded_filter),
        batch: count(scan.batch_size),
        max_result_size: scan
            .max_result_size
            .filter(|size| i64::try_from(*size).is_ok())
            .unwrap_or(0),
        store_limit: store_limit(scan.store_limit),
        store_offset: count(scan.store_offset),
        need_cursor_result: scan.need_cursor_result(),
        mvcc_read_point: scan.mvcc_read_point(),
        caching: count(scan.caching),
        query_metrics: scan.query_metrics_enabled(),
    })
}

/// Writes a scan.
pub fn scan_pb(scan: &Scan) -> pb::Scan {
    let attribute = scan.query.raw.then(|| pb::NameBytesPair {
        name: RAW.to_owned(),
        // Java's true.
        value: Some(Bytes::from_static(&[0xff])),
    });
    pb::Scan {
        column: columns_pb(&scan.query.columns),
        attribute: attribute.into_iter().collect(),
        start_row: Some(scan.start_row.clone()),
        stop_row: Some(scan.stop_row.clone()),
        filter: scan.filter.as_ref().map(filter_pb),
        time_range: time_range_pb(scan.query.time_range),
        max_versions: Some(scan.query.max_versions),
        cache_blocks: Some(scan.query.cache_blocks),
        batch_size: some_unless_zero(scan.batch),
        max_result_size: (scan.max_result_size > 0).then_some(scan.max_result_size),
        store_limit: scan.store_limit,
        store_offset: some_unless_zero(scan.store_offset),
        reversed: scan.reversed.then_some(true),
        caching: some_unless_zero(scan.caching),
        cf_time_range: family_time_ranges_pb(&scan.query.family_time_ranges),
        mvcc_read_point: (scan.mvcc_read_point > 0).then_some(scan.mvcc_read_point),
        include_start_row: Some(scan.include_start_row),
        include_stop_row: Some(scan.include_stop_row),
        need_cursor_result: scan.need_cursor_result.then_some(true),
        query_metrics_enabled: scan.query_metrics.then_some(true),
        ..Default::default()
    }
}

fn some_unless_zero(count: u32) -> Option<u32> {
    (count > 0).then_some(count)
}

/// A count that is a signed number in Java, where negative means none.
fn count(count: Option<u32>) -> u32 {
    count
        .filter(|count| i32::try_from(*count).is_ok())
        .unwrap_or(0)
}

fn store_limit(limit: Option<u32>) -> Option<u32> {
    limit.filter(|limit| i32::try_from(*limit).is_ok())
}

fn max_versions(versions: u32) -> Result<u32> {
    if versions == 0 {
        return Err(Error::invalid("maxVersions must be positive"));
    }
    Ok(versions)
}

/// In Java a column of a family replaces "the whole family" asked before, and the other way round.
fn columns(columns: &[pb::Column]) -> Columns {
    let mut read = Columns::new();
    for column in columns {
        if column.qualifier.is_empty() {
            read.insert(column.family.clone(), Qualifiers::All);
            continue;
        }
        let these = column.qualifier.iter().cloned();
        match read.get_mut(&column.family) {
            Some(Qualifiers::These(known)) => known.extend(these),
            _ => {
                let these: BTreeSet<Bytes> = these.collect();
                read.insert(column.family.clone(), Qualifiers::These(these));
            }
        }
    }
    read
}

/// A family with an empty set of qualifiers could not be told from the whole family, so it is left out: it asks for nothing.
fn columns_pb(columns: &Columns) -> Vec<pb::Column> {
    columns
        .iter()
        .filter_map(|(family, qualifiers)| {
            let qualifier = match qualifiers {
                Qualifiers::All => Vec::new(),
                Qualifiers::These(these) if these.is_empty() => return None,
                Qualifiers::These(these) => these.iter().cloned().collect(),
            };
            Some(pb::Column {
                family: family.clone(),
                qualifier,
            })
        })
        .collect()
}

/// Reads a time range; absent, or empty as gohbase sends it, means all time. A `to` beyond Java's largest number means no upper
/// bound.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for negative times, and for a range that ends before it starts.
pub fn time_range(range: Option<&pb::TimeRange>) -> Result<TimeRange> {
    let Some(range) = range else {
        return Ok(TimeRange::ALL);
    };
    let from = i64::try_from(range.from.unwrap_or(0))
        .map_err(|_| Error::invalid("Timestamp cannot be negative"))?;
    let to = range
        .to
        .map_or(i64::MAX, |to| i64::try_from(to).unwrap_or(i64::MAX));
    if to < from {
        return Err(Error::invalid("maxStamp is smaller than minStamp"));
    }
    Ok(TimeRange { from, to })
}

/// Writes a time range, all time as its absence.
pub fn time_range_pb(range: TimeRange) -> Option<pb::TimeRange> {
    (range != TimeRange::ALL).then(|| bounds_pb(range))
}

fn bounds_pb(range: TimeRange) -> pb::TimeRange {
    pb::TimeRange {
        from: Some(range.from.max(0).unsigned_abs()),
        to: Some(range.to.max(0).unsigned_abs()),
    }
}

fn family_time_ranges(ranges: &[pb::ColumnFamilyTimeRange]) -> Result<BTreeMap<Bytes, TimeRange>> {
    ranges
        .iter()
        .map(|range| {
            Ok((
                range.column_family.clone(),
                time_range(Some(&range.time_range))?,
            ))
        })
        .collect()
}

fn family_time_ranges_pb(ranges: &BTreeMap<Bytes, TimeRange>) -> Vec<pb::ColumnFamilyTimeRange> {
    ranges
        .iter()
        .map(|(family, range)| pb::ColumnFamilyTimeRange {
            column_family: family.clone(),
            time_range: bounds_pb(*range),
        })
        .collect()
}

/// A filter as it came; decoding it is its evaluator's work.
pub fn encoded_filter(filter: &pb::Filter) -> EncodedFilter {
    EncodedFilter {
        class: filter.name.clone(),
        body: filter.serialized_filter.clone().unwrap_or_default(),
    }
}

/// Writes a filter.
pub fn filter_pb(filter: &EncodedFilter) -> pb::Filter {
    pb::Filter {
        name: filter.class.clone(),
        serialized_filter: Some(filter.body.clone()),
    }
}

/// A comparator as it came.
pub fn encoded_comparator(comparator: &pb::Comparator) -> EncodedFilter {
    EncodedFilter {
        class: comparator.name.clone(),
        body: comparator.serialized_comparator.clone().unwrap_or_default(),
    }
}

/// Writes a comparator.
pub fn comparator_pb(comparator: &EncodedFilter) -> pb::Comparator {
    pb::Comparator {
        name: comparator.class.clone(),
        serialized_comparator: Some(comparator.body.clone()),
    }
}
