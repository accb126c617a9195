//! What mutations do to rows: checks, resolved timestamps, and the read-modify-write of increments, appends, conditions and
//! deletes of "the newest version" (hbase-protocol.md 4.3 to 4.5, 10; correctness.md C1, C7, C8, C9).
//!
//! Runs on the core that owns the region, inside a task of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_store::RowLocks;
use cadastre_types::{
    Cell, CellType, Code, Columns, Condition, Durability, Error, LATEST_TIMESTAMP, Mutation,
    MutationKind, Qualifiers, Query, Result, TableDescriptor, limits,
};

use crate::condition::{self, ColumnCondition};
use crate::read;
use crate::regions::Hosted;

/// Type byte of a TTL tag, and the length of its type and payload (hbase-protocol.md 3.5).
const TTL_TAG: u8 = 8;
const TTL_TAG_LEN: u16 = 9;

/// Bytes that HBase adds to a cell when it compares it with `hbase.server.keyvalue.maxsize`: the length before a KeyValue.
const CELL_SIZE_OVERHEAD: usize = 4;

/// What a mutation came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Whether the condition held; true without one.
    pub(crate) processed: bool,
    /// The new cells of increments and appends, in HBase's order.
    pub(crate) result: Option<Vec<Cell>>,
    /// Bytes of stored keys and values that were read for the conditions.
    pub(crate) bytes_read: u64,
}

/// What holds for all of a call. Times are those of the monotone clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) nonce_group: u64,
    /// When to stop waiting for a row lock.
    pub(crate) deadline: Duration,
    /// When the caller stops waiting for the answer.
    pub(crate) call_deadline: Duration,
}

/// Checks a client's mutation and completes it.
///
/// # Errors
/// As [`complete`]; `DoNotRetryIo` where only the master writes.
fn prepare<E: Env>(hosted: &Hosted<E>, mutation: Mutation, plain: bool) -> Result<Mutation> {
    if hosted.is_masters_own {
        return Err(Error::invalid(format!(
            "{} is written by the master: ask it to create, modify or delete a namespace",
            hosted.region.info().table
        )));
    }
    complete(hosted, mutation, plain)
}

/// Checks a mutation (`plain`: neither conditional nor part of an atomic action) against the table and completes it: cells of a whole-row delete, the TTL as a tag.
///
/// # Errors
/// HBase's: unknown family, cell too big, empty or too long row, read-only table.
pub(crate) fn complete<E: Env>(
    hosted: &Hosted<E>,
    mut mutation: Mutation,
    plain: bool,
) -> Result<Mutation> {
    let descriptor = hosted.region.descriptor();
    check_row_length(&mutation.row)?;
    let in_region = hosted.check_row(&mutation.row, operation_name(mutation.kind));
    let is_plain = plain && matches!(mutation.kind, MutationKind::Put | MutationKind::Delete);
    // Seen on HBase 2.6.4: a plain put or delete outside the region is refused as insane, all else as sent to the wrong region.
    in_region.map_err(|error| match is_plain {
        true => Error::new(Code::FailedSanityCheck, error.message().to_owned()),
        false => error,
    })?;
    if descriptor.read_only() {
        return Err(Error::invalid("region is read only"));
    }
    if mutation.cells.is_empty() {
        if mutation.kind != MutationKind::Delete {
            return Err(Error::invalid("No columns to insert"));
        }
        mutation.cells = whole_row_markers(&mutation, &descriptor);
    }
    let cell_max = cell_max(&descriptor);
    for cell in &mut mutation.cells {
        descriptor.family(&cell.family)?;
        if cell.timestamp < 0 {
            return Err(Error::invalid(format!(
                "Timestamp cannot be negative. ts={}",
                cell.timestamp
            )));
        }
        if let Some(ttl_ms) = mutation.ttl_ms {
            cell.tags = with_ttl_tag(&cell.tags, ttl_ms);
        }
        if mutation.kind == MutationKind::Put {
            check_cell_size(cell, cell_max)?;
        }
    }
    Ok(mutation)
}

fn operation_name(kind: MutationKind) -> &'static str {
    match kind {
        MutationKind::Put => "put",
        MutationKind::Delete => "delete",
        MutationKind::Increment => "increment",
        MutationKind::Append => "append",
    }
}

/// That a row key is neither empty nor over HBase's limit.
pub(crate) fn check_row_length(row: &[u8]) -> Result<()> {
    match row.len() {
        0 => Err(Error::invalid("Row length is 0")),
        length if length > limits::ROW_MAX => Err(Error::invalid(format!(
            "Row length {length} is > {}",
            limits::ROW_MAX
        ))),
        _ => Ok(()),
    }
}

fn cell_max(descriptor: &TableDescriptor) -> usize {
    const KEY: &str = "hbase.server.keyvalue.maxsize";
    descriptor
        .attribute(KEY)
        .or_else(|| descriptor.configuration.get(KEY).map(String::as_str))
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(limits::CELL_MAX_DEFAULT)
}

fn check_cell_size(cell: &Cell, cell_max: usize) -> Result<()> {
    let size = cell.key_value_len() + CELL_SIZE_OVERHEAD;
    if cell_max > 0 && size > cell_max {
        return Err(Error::invalid(format!(
            "Cell[{}/{}:{}/{}/{:?}/vlen={}] with size {size} exceeds limit of {cell_max} bytes",
            String::from_utf8_lossy(&cell.row),
            String::from_utf8_lossy(&cell.family),
            String::from_utf8_lossy(&cell.qualifier),
            cell.timestamp,
            cell.cell_type,
            cell.value.len(),
        )));
    }
    Ok(())
}

fn with_ttl_tag(tags: &Bytes, ttl_ms: u64) -> Bytes {
    let mut tagged = Vec::with_capacity(tags.len() + 11);
    tagged.extend_from_slice(tags);
    tagged.extend_from_slice(&TTL_TAG_LEN.to_be_bytes());
    tagged.push(TTL_TAG);
    tagged.extend_from_slice(&ttl_ms.to_be_bytes());
    tagged.into()
}

fn whole_row_markers(mutation: &Mutation, descriptor: &TableDescriptor) -> Vec<Cell> {
    let marker = |family: &Bytes| Cell {
        cell_type: CellType::DeleteFamily,
        ..Cell::put(
            mutation.row.clone(),
            family.clone(),
            Bytes::new(),
            mutation.timestamp,
            Bytes::new(),
        )
    };
    descriptor.families.keys().map(marker).collect()
}

/// Whether a mutation can be written without reading its row.
pub(crate) fn is_blind(mutation: &Mutation) -> bool {
    match mutation.kind {
        MutationKind::Put => true,
        MutationKind::Delete => !mutation.cells.iter().any(deletes_newest),
        MutationKind::Increment | MutationKind::Append => false,
    }
}

fn deletes_newest(cell: &Cell) -> bool {
    cell.cell_type == CellType::Delete && cell.timestamp == LATEST_TIMESTAMP
}

/// Gives "now" to the cells that want it.
pub(crate) fn stamp(cells: &mut [Cell], now: i64) {
    for cell in cells {
        if cell.timestamp == LATEST_TIMESTAMP {
            cell.timestamp = now;
        }
    }
}

fn strongest(descriptor: &TableDescriptor, asked: impl Iterator<Item = Durability>) -> Durability {
    let strength = |durability| match durability {
        Durability::SkipWal => 0,
        Durability::AsyncWal => 1,
        Durability::UseDefault | Durability::SyncWal => 2,
        Durability::FsyncWal => 3,
    };
    asked
        .map(|durability| match durability {
            Durability::UseDefault => descriptor.durability(),
            durability => durability,
        })
        .max_by_key(|durability| strength(*durability))
        .unwrap_or_default()
}

/// Applies mutations that need no atomicity among themselves, in order, and gives an outcome for each. Neighbours that can be
/// written without a read go into one batch.
pub(crate) async fn batch<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    mutations: Vec<Mutation>,
    terms: Terms,
) -> Vec<Result<Outcome>> {
    let mut outcomes: Vec<Option<Result<Outcome>>> = Vec::new();
    outcomes.resize_with(mutations.len(), || None);
    let mut blind: Vec<(usize, Mutation)> = Vec::new();
    for (index, mutation) in mutations.into_iter().enumerate() {
        match prepare(hosted, mutation, true) {
            Err(error) => outcomes[index] = Some(Err(error)),
            Ok(mutation) if is_blind(&mutation) => blind.push((index, mutation)),
            Ok(mutation) => {
                write_blind(hosted, &mut blind, &mut outcomes, terms).await;
                let work = Work::of_row(mutation.row.clone(), vec![mutation], None, terms);
                outcomes[index] = Some(apply_prepared(env, hosted, work, terms).await);
            }
        }
    }
    write_blind(hosted, &mut blind, &mut outcomes, terms).await;
    outcomes
        .into_iter()
        .map(|outcome| outcome.expect("every mutation was refused, written or applied above"))
        .collect()
}

/// Applies one mutation.
///
/// # Errors
/// As [`batch`].
pub(crate) async fn one<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    mutation: Mutation,
    terms: Terms,
) -> Result<Outcome> {
    let mut outcomes = batch(env, hosted, vec![mutation], terms).await;
    outcomes
        .pop()
        .expect("a batch has an outcome for each mutation")
}

async fn write_blind<E: Env>(
    hosted: &Arc<Hosted<E>>,
    blind: &mut Vec<(usize, Mutation)>,
    outcomes: &mut [Option<Result<Outcome>>],
    terms: Terms,
) {
    if blind.is_empty() {
        return;
    }
    let (indexes, mutations): (Vec<usize>, Vec<Mutation>) = blind.drain(..).unzip();
    let written = write_all(hosted, mutations, terms).await;
    for index in indexes {
        let outcome = Outcome {
            processed: true,
            ..Outcome::default()
        };
        outcomes[index] = Some(written.clone().map(|()| outcome));
    }
}

async fn write_all<E: Env>(
    hosted: &Arc<Hosted<E>>,
    mutations: Vec<Mutation>,
    terms: Terms,
) -> Result<()> {
    let rows: BTreeSet<Bytes> = mutations.iter().map(|m| m.row.clone()).collect();
    let locks = hosted.region.lock_rows(rows, terms.deadline).await?;
    let durability = strongest(
        &hosted.region.descriptor(),
        mutations.iter().map(|m| m.durability),
    );
    hosted
        .writes
        .fetch_add(mutations.len() as u64, Ordering::Relaxed);
    let mut cells = Vec::new();
    for mut mutation in mutations {
        stamp(&mut mutation.cells, locks.timestamp(&mutation.row));
        cells.append(&mut mutation.cells);
    }
    locks.write(cells, &[], durability).await?;
    Ok(())
}

/// Applies mutations of one row atomically, if the condition holds.
///
/// # Errors
/// As [`prepare`]; `DoNotRetryIo` for values that cannot be added to; the store's.
pub(crate) async fn atomic<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    row: &Bytes,
    mutations: Vec<Mutation>,
    condition: Option<Condition>,
    terms: Terms,
) -> Result<Outcome> {
    let mutations = mutations
        .into_iter()
        .map(|mutation| {
            if mutation.row != *row {
                return Err(Error::invalid(
                    "Action's getRow must match: the mutations of one atomic action are of one row",
                ));
            }
            prepare(hosted, mutation, false)
        })
        .collect::<Result<Vec<_>>>()?;
    if let Some(condition) = &condition
        && condition.row != *row
    {
        return Err(Error::invalid(
            "Action's getRow must match the condition's row",
        ));
    }
    let work = Work::of_row(row.clone(), mutations, condition, terms);
    apply_prepared(env, hosted, work, terms).await
}

/// Applies mutations of rows of one region atomically, if every condition holds (`MultiRowMutationService`). `nonce` marks the
/// whole, 0 for none.
///
/// # Errors
/// As [`atomic`]. A row outside the region is `WrongRegion` if it is the first one, since the region may have moved, and else
/// `DoNotRetryIo`: the rows do not lie in one region.
pub(crate) async fn rows<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    mutations: Vec<Mutation>,
    conditions: Vec<Condition>,
    nonce: u64,
    terms: Terms,
) -> Result<Outcome> {
    let info = hosted.region.info();
    let outside = |row: &[u8]| !info.is_meta() && !info.contains(row);
    if let Some(at) = mutations.iter().position(|m| outside(&m.row)) {
        let code = match at {
            0 => Code::WrongRegion,
            _ => Code::DoNotRetryIo,
        };
        let row = mutations[at].row.escape_ascii();
        return Err(Error::new(
            code,
            format!("Requested row out of range '{row}'"),
        ));
    }
    let mutations = mutations
        .into_iter()
        .map(|mutation| prepare(hosted, mutation, false))
        .collect::<Result<Vec<_>>>()?;
    let changed = mutations.iter().map(|mutation| &mutation.row);
    let looked_at = conditions.iter().map(|condition| &condition.row);
    let rows: BTreeSet<Bytes> = changed.chain(looked_at).cloned().collect();
    // Nothing to change and nothing to hold: HBase has done that.
    let Some(first) = rows.first() else {
        return Ok(Outcome {
            processed: true,
            ..Outcome::default()
        });
    };
    let nonces = match nonce {
        0 => Vec::new(),
        nonce => vec![(first.clone(), terms.nonce_group, nonce)],
    };
    let work = Work {
        rows,
        mutations,
        conditions,
        nonces,
        several_rows: true,
    };
    apply_prepared(env, hosted, work, terms).await
}

/// What is applied at once.
struct Work {
    /// Every row that is looked at or changed.
    rows: BTreeSet<Bytes>,
    /// Prepared mutations.
    mutations: Vec<Mutation>,
    /// All must hold.
    conditions: Vec<Condition>,
    /// Row, group, nonce.
    nonces: Vec<(Bytes, u64, u64)>,
    /// Conditions are those of `MutateRows`.
    several_rows: bool,
}

impl Work {
    fn of_row(
        row: Bytes,
        mutations: Vec<Mutation>,
        condition: Option<Condition>,
        terms: Terms,
    ) -> Self {
        let nonces = mutations
            .iter()
            .filter(|m| m.nonce != 0)
            .map(|m| (row.clone(), terms.nonce_group, m.nonce))
            .collect();
        Self {
            rows: [row].into(),
            mutations,
            conditions: condition.into_iter().collect(),
            nonces,
            several_rows: false,
        }
    }
}

async fn apply_prepared<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    work: Work,
    terms: Terms,
) -> Result<Outcome> {
    let Work {
        rows,
        mutations,
        conditions,
        nonces,
        several_rows,
    } = work;
    let locks = hosted.region.lock_rows(rows, terms.deadline).await?;
    for (row, group, nonce) in &nonces {
        if locks.nonce(row, *group, *nonce).await? {
            metrics::counter!("cadastre_nonces_known_total").increment(1);
            return repeat_answer(&locks, &mutations).await;
        }
    }
    let mut stamps: BTreeMap<Bytes, i64> = locks
        .rows()
        .iter()
        .map(|row| (row.clone(), locks.timestamp(row)))
        .collect();
    for condition in &conditions {
        let (holds, seen) = check(env, hosted, &locks, condition, several_rows).await?;
        if !holds {
            locks.settle().await?;
            return Ok(Outcome {
                bytes_read: locks.bytes_read(),
                ..Outcome::default()
            });
        }
        // A guarded put must not be shadowed by the cell it replaces.
        if let (Some(stamp), Some(seen)) = (stamps.get_mut(&condition.row), seen) {
            *stamp = seen.max(*stamp);
        }
    }
    let durability = strongest(
        &hosted.region.descriptor(),
        mutations.iter().map(|m| m.durability),
    );
    let bytes_read = locks.bytes_read();
    let cell_max = cell_max(&hosted.region.descriptor());
    hosted
        .writes
        .fetch_add(locks.rows().len() as u64, Ordering::Relaxed);
    let mut cells = Vec::new();
    let mut result: Option<Vec<Cell>> = None;
    for mutation in mutations {
        let wants_result = mutation.return_results;
        let now = stamps[&mutation.row];
        let (mut written, answered) = change(&locks, mutation, now, cell_max).await?;
        cells.append(&mut written);
        if let Some(answered) = answered {
            result
                .get_or_insert_default()
                .extend(if wants_result { answered } else { Vec::new() });
        }
    }
    if cells.is_empty() {
        locks.settle().await?;
    } else {
        locks.write(cells, &nonces, durability).await?;
    }
    if let Some(result) = &mut result {
        result.sort_by(Cell::cmp_hbase);
    }
    Ok(Outcome {
        processed: true,
        result,
        bytes_read,
    })
}

/// The answer to a repeated nonce: the first try took effect, so the values stand in the row (C7).
async fn repeat_answer<E: Env>(locks: &RowLocks<E>, mutations: &[Mutation]) -> Result<Outcome> {
    let mut wanted: BTreeMap<&Bytes, Columns> = BTreeMap::new();
    for mutation in mutations {
        if matches!(
            mutation.kind,
            MutationKind::Increment | MutationKind::Append
        ) && mutation.return_results
        {
            add_columns(wanted.entry(&mutation.row).or_default(), &mutation.cells);
        }
    }
    let mut result = Vec::new();
    for (row, columns) in wanted {
        let query = Query {
            columns,
            ..Query::default()
        };
        result.extend(locks.read(row, &query).await?);
    }
    locks.settle().await?;
    let answers = mutations
        .iter()
        .any(|m| matches!(m.kind, MutationKind::Increment | MutationKind::Append));
    Ok(Outcome {
        processed: true,
        result: answers.then_some(result),
        bytes_read: locks.bytes_read(),
    })
}

/// Whether a condition holds, and the timestamp of the cell that was looked at.
async fn check<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    locks: &RowLocks<E>,
    condition: &Condition,
    several_rows: bool,
) -> Result<(bool, Option<i64>)> {
    let row = &condition.row;
    if let Some(filter) = &condition.filter {
        let found =
            read::locked_row_with_filter(env, locks, row, filter, condition.time_range).await?;
        return Ok((
            !found.is_empty(),
            found.iter().map(|cell| cell.timestamp).max(),
        ));
    }
    hosted.region.descriptor().family(&condition.family)?;
    let decoded = ColumnCondition::decode(condition)?;
    let cells = locks.read(row, &condition::query(condition)).await?;
    let cell = cells.first();
    let holds = match several_rows {
        true => decoded.holds_in_rows(cell),
        false => decoded.holds(cell),
    };
    Ok((holds, cell.map(|cell| cell.timestamp)))
}

/// One mutation under the lock: the cells to write, and for increments and appends the cells to answer with.
async fn change<E: Env>(
    locks: &RowLocks<E>,
    mut mutation: Mutation,
    now: i64,
    cell_max: usize,
) -> Result<(Vec<Cell>, Option<Vec<Cell>>)> {
    let row = &mutation.row;
    match mutation.kind {
        MutationKind::Put => {
            stamp(&mut mutation.cells, now);
            Ok((mutation.cells, None))
        }
        MutationKind::Delete => {
            if mutation.cells.iter().any(deletes_newest) {
                find_newest(locks, row, &mut mutation.cells).await?;
            }
            stamp(&mut mutation.cells, now);
            Ok((mutation.cells, None))
        }
        MutationKind::Increment | MutationKind::Append => {
            let mut columns = Columns::new();
            add_columns(&mut columns, &mutation.cells);
            let query = Query {
                columns,
                time_range: mutation.time_range,
                ..Query::default()
            };
            let old = locks.read(row, &query).await?;
            let old: BTreeMap<(&[u8], &[u8]), &Cell> = old
                .iter()
                .map(|cell| ((&cell.family[..], &cell.qualifier[..]), cell))
                .collect();
            let mut written = Vec::with_capacity(mutation.cells.len());
            let mut answered = Vec::with_capacity(mutation.cells.len());
            for delta in &mutation.cells {
                let old = old.get(&(&delta.family[..], &delta.qualifier[..])).copied();
                let (cell, changed) = match mutation.kind {
                    MutationKind::Increment => increment(old, delta, now)?,
                    _ => (append(old, delta, now), true),
                };
                check_grown_size(&cell, cell_max)?;
                if changed {
                    written.push(cell.clone());
                }
                answered.push(cell);
            }
            Ok((written, Some(answered)))
        }
    }
}

fn check_grown_size(cell: &Cell, cell_max: usize) -> Result<()> {
    let size = cell.key_value_len() + CELL_SIZE_OVERHEAD;
    if cell_max > 0 && size > cell_max {
        return Err(Error::invalid(format!(
            "Cell with size {size} exceeds limit of {cell_max} bytes in row {}",
            String::from_utf8_lossy(&cell.row)
        )));
    }
    Ok(())
}

fn add_columns(columns: &mut Columns, cells: &[Cell]) {
    for cell in cells {
        let entry = columns
            .entry(cell.family.clone())
            .or_insert_with(|| Qualifiers::These(BTreeSet::new()));
        if let Qualifiers::These(these) = entry {
            these.insert(cell.qualifier.clone());
        }
    }
}

/// Gives each "delete the newest version" the timestamp of that version: of the n-th newest if a column is named n times. What
/// is not found stays at LATEST and becomes "now".
async fn find_newest<E: Env>(locks: &RowLocks<E>, row: &Bytes, cells: &mut [Cell]) -> Result<()> {
    let mut named: BTreeMap<(Bytes, Bytes), u32> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| deletes_newest(cell)) {
        *named
            .entry((cell.family.clone(), cell.qualifier.clone()))
            .or_default() += 1;
    }
    let mut found: BTreeMap<(Bytes, Bytes), Vec<i64>> = BTreeMap::new();
    for ((family, qualifier), times) in named {
        let query = Query {
            columns: [(
                family.clone(),
                Qualifiers::These([qualifier.clone()].into()),
            )]
            .into(),
            max_versions: times,
            ..Query::default()
        };
        let versions = locks.read(row, &query).await?;
        let stamps = versions.iter().map(|cell| cell.timestamp).rev().collect();
        found.insert((family, qualifier), stamps);
    }
    for cell in cells.iter_mut().filter(|cell| deletes_newest(cell)) {
        // Newest last, so that each further naming of the column takes the next older one.
        let stamps = found.get_mut(&(cell.family.clone(), cell.qualifier.clone()));
        if let Some(timestamp) = stamps.and_then(Vec::pop) {
            cell.timestamp = timestamp;
        }
    }
    Ok(())
}

/// Timestamp of a cell that replaces another: above it, so that it is not shadowed, and at least now, whatever the client gave. Where
/// there is nothing to replace the client's own holds.
fn replacing(old: Option<&Cell>, delta: &Cell, now: i64) -> i64 {
    match old {
        Some(old) => now.max(old.timestamp.saturating_add(1)),
        None if delta.timestamp == LATEST_TIMESTAMP => now,
        None => delta.timestamp,
    }
}

/// The new cell, and whether it must be written: a delta of 0 changes nothing.
fn increment(old: Option<&Cell>, delta: &Cell, now: i64) -> Result<(Cell, bool)> {
    let number = |cell: &Cell| -> Result<i64> {
        let bytes: [u8; 8] = cell.value[..].try_into().map_err(|_| {
            Error::invalid(format!(
                "Field is not a long, it's {} bytes wide",
                cell.value.len()
            ))
        })?;
        Ok(i64::from_be_bytes(bytes))
    };
    let by = number(delta)?;
    let sum = old.map_or(Ok(0), number)?.wrapping_add(by);
    if let Some(old) = old
        && by == 0
    {
        return Ok((old.clone(), false));
    }
    let value = Bytes::copy_from_slice(&sum.to_be_bytes());
    Ok((
        Cell {
            value,
            ..replacement(old, delta, now)
        },
        true,
    ))
}

fn append(old: Option<&Cell>, delta: &Cell, now: i64) -> Cell {
    let value = match old {
        Some(old) => [&old.value[..], &delta.value[..]].concat().into(),
        None => delta.value.clone(),
    };
    Cell {
        value,
        ..replacement(old, delta, now)
    }
}

/// The delta's cell at its new timestamp. The old cell's tags are carried on, but for a TTL when the delta brings its own.
fn replacement(old: Option<&Cell>, delta: &Cell, now: i64) -> Cell {
    let mut tags = Vec::new();
    if let Some(old) = old {
        let replaced = tag_list(&delta.tags).any(|(tag_type, _)| tag_type == TTL_TAG);
        for (tag_type, tag) in tag_list(&old.tags) {
            if !(replaced && tag_type == TTL_TAG) {
                tags.extend_from_slice(tag);
            }
        }
    }
    tags.extend_from_slice(&delta.tags);
    Cell {
        timestamp: replacing(old, delta, now),
        cell_type: CellType::Put,
        tags: tags.into(),
        sequence_id: 0,
        ..delta.clone()
    }
}

/// Type and whole bytes of each tag (hbase-protocol.md 3.5). Ends at what is no tag: tags are checked where they come in.
fn tag_list(mut tags: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (length, _) = tags.split_first_chunk::<2>()?;
        let (tag, rest) = tags.split_at_checked(2 + usize::from(u16::from_be_bytes(*length)))?;
        tags = rest;
        Some((*tag.get(2)?, tag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: &[u8], timestamp: i64) -> Cell {
        let text = Bytes::from_static;
        Cell::put(
            text(b"r"),
            text(b"f"),
            text(b"q"),
            timestamp,
            Bytes::copy_from_slice(value),
        )
    }

    #[test]
    fn increments_add_wrap_and_never_hide_behind_the_old_cell() {
        let delta = cell(&2_i64.to_be_bytes(), LATEST_TIMESTAMP);
        let (first, _) = increment(None, &delta, 100).unwrap();
        assert_eq!(
            (&first.value[..], first.timestamp),
            (&2_i64.to_be_bytes()[..], 100)
        );
        let (second, _) = increment(Some(&first), &delta, 100).unwrap();
        assert_eq!(
            (&second.value[..], second.timestamp),
            (&4_i64.to_be_bytes()[..], 101)
        );
        let (wrapped, _) = increment(Some(&cell(&i64::MAX.to_be_bytes(), 7)), &delta, 100).unwrap();
        assert_eq!(&wrapped.value[..], (i64::MIN + 1).to_be_bytes());
        let zero = cell(&0_i64.to_be_bytes(), LATEST_TIMESTAMP);
        assert!(
            !increment(Some(&first), &zero, 200).unwrap().1,
            "nothing to write"
        );
    }

    #[test]
    fn what_is_not_a_number_is_refused_in_hbases_words() {
        let delta = cell(&1_i64.to_be_bytes(), LATEST_TIMESTAMP);
        let error = increment(Some(&cell(b"1", 5)), &delta, 10).unwrap_err();
        assert_eq!(error.message(), "Field is not a long, it's 1 bytes wide");
    }

    #[test]
    fn appends_join_and_keep_tags() {
        let mut old = cell(b"ab", 5);
        old.tags = Bytes::from_static(&[0, 2, 9, 1]);
        let new = append(Some(&old), &cell(b"c", LATEST_TIMESTAMP), 10);
        assert_eq!(
            (&new.value[..], new.timestamp, &new.tags),
            (&b"abc"[..], 10, &old.tags)
        );
    }

    #[test]
    fn a_new_ttl_takes_the_place_of_the_old_one() {
        let mut old = cell(b"ab", 5);
        old.tags = with_ttl_tag(&Bytes::from_static(&[0, 2, 9, 1]), 1000);
        let mut delta = cell(b"c", LATEST_TIMESTAMP);
        delta.tags = with_ttl_tag(&Bytes::new(), 7);
        let new = append(Some(&old), &delta, 10);
        assert_eq!(
            new.tags,
            with_ttl_tag(&Bytes::from_static(&[0, 2, 9, 1]), 7)
        );
    }

    #[test]
    fn a_timestamp_of_the_clients_own_is_taken_where_nothing_is_replaced() {
        let delta = cell(b"b", 999);
        assert_eq!(append(None, &delta, 10_000).timestamp, 999);
        assert_eq!(
            append(Some(&cell(b"a", 5)), &delta, 10_000).timestamp,
            10_000
        );
        let later = append(Some(&cell(b"a", 20_000)), &delta, 10_000);
        assert_eq!(later.timestamp, 20_001);
        let number = cell(&1_i64.to_be_bytes(), 5);
        let by = cell(&1_i64.to_be_bytes(), 999);
        assert_eq!(
            increment(Some(&number), &by, 10_000).unwrap().0.timestamp,
            10_000
        );
    }

    #[test]
    fn a_ttl_becomes_a_tag() {
        let tags = with_ttl_tag(&Bytes::new(), 1000);
        assert_eq!(&tags[..], [0, 9, 8, 0, 0, 0, 0, 0, 0, 3, 0xe8]);
    }

    #[test]
    fn the_strongest_durability_wins() {
        let descriptor = TableDescriptor::new(cadastre_types::TableName::parse("t").unwrap());
        let of = |asked: &[Durability]| strongest(&descriptor, asked.iter().copied());
        assert_eq!(of(&[Durability::SkipWal]), Durability::SkipWal);
        assert_eq!(
            of(&[Durability::SkipWal, Durability::UseDefault]),
            Durability::SyncWal
        );
        assert_eq!(
            of(&[Durability::FsyncWal, Durability::AsyncWal]),
            Durability::FsyncWal
        );
    }
}
