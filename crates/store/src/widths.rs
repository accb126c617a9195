//! Rewriting families of rows that have overflow cells, under the row's lock: dropping their markers (C5) and the way back to
//! packed cells once they are narrow again (C4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_types::{Error, Query, Result};

use crate::key;
use crate::packed::{self, StoredCell};
use crate::read::{self, FamilyCells, RowBudget};
use crate::region::RegionShared;
use crate::retain::{Purpose, Rules, retain};
use crate::write::{self, Changes, PACKED_BYTES_MAX, PACKED_CELLS_MAX};

/// How long a row's lock is waited for; a busy row is left to the next major compaction.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Overflow cells deleted in one write at most, so that a row of any width fits in the log's records.
const DELETES_MAX: usize = 2000;

/// A family becomes packed again below this part of the limits at which it becomes wide, so that it does not swing.
const NARROW_PART: usize = 4;

/// Rewrites the families of these packed keys.
pub(crate) async fn rewrite<E: Env>(
    region: &Arc<RegionShared<E>>,
    keys: BTreeSet<Bytes>,
) -> Result<()> {
    for key in keys {
        // A close waits for us.
        if region.database.is_closed() {
            return Ok(());
        }
        let row_len = region
            .codec
            .prefix_len(&key)
            .ok_or_else(|| Error::corrupt("a stored key has no row"))?;
        let prefix = key.slice(..row_len);
        let row = region.codec.row(&prefix)?;
        let clock = region.database.store.env.clock();
        let (lock, _interest) = region.locks.join(&row);
        let Ok(_guard) = clock.timeout(LOCK_WAIT, lock.lock_owned()).await else {
            tracing::debug!("a wide row is busy: not rewritten now");
            continue;
        };
        rewrite_locked(region, &prefix, &key).await?;
    }
    Ok(())
}

async fn rewrite_locked<E: Env>(
    region: &RegionShared<E>,
    prefix: &[u8],
    key: &Bytes,
) -> Result<()> {
    let snapshot = region.database.snapshot()?;
    let query = Query {
        cache_blocks: false,
        ..Query::default()
    };
    let mut budget = RowBudget::default();
    let mut families = read::whole_row(&snapshot, prefix, &query, &mut budget).await?;
    let id = u16::from_be_bytes([key[prefix.len()], key[prefix.len() + 1]]);
    let Some(cells) = families.take(id) else {
        return Ok(());
    };
    let schema = region.schema();
    let Some(rules) = schema.rules(id) else {
        return Ok(());
    };
    rewrite_family(region, prefix, key, id, rules, cells).await
}

fn overflow_key(prefix: &[u8], family: u16, cell: &StoredCell) -> Bytes {
    key::overflow(
        prefix,
        family,
        &cell.qualifier,
        cell.timestamp,
        cell.cell_type,
    )
}

async fn rewrite_family<E: Env>(
    region: &RegionShared<E>,
    prefix: &[u8],
    key: &Bytes,
    id: u16,
    rules: &Rules,
    cells: FamilyCells,
) -> Result<()> {
    // With their sequences: a packed cell may have replaced an overflow cell of the same coordinates.
    let old: BTreeMap<Bytes, u64> = cells
        .overflow
        .iter()
        .map(|cell| (overflow_key(prefix, id, cell), cell.sequence))
        .collect();
    let all = packed::merge(cells.packed, cells.overflow);
    let purpose = Purpose::Rewrite {
        whole: true,
        drop_markers: true,
    };
    let kept = retain(all.clone(), rules, purpose, region.database.clock.wall_ms());
    let kept_keys: BTreeSet<Bytes> = kept
        .iter()
        .map(|cell| overflow_key(prefix, id, cell))
        .collect();
    // Puts that nobody can see go first, in pieces; the markers that hide them go last, in one write with the rest.
    let (markers, puts): (Vec<StoredCell>, Vec<StoredCell>) =
        all.into_iter().partition(|cell| cell.cell_type.is_delete());
    let gone = |cells: &[StoredCell]| -> Vec<Bytes> {
        let keys = cells.iter().map(|cell| overflow_key(prefix, id, cell));
        keys.filter(|key| old.contains_key(key) && !kept_keys.contains(key))
            .collect()
    };
    for part in gone(&puts).chunks(DELETES_MAX) {
        let mut changes = Changes::default();
        for key in part {
            changes.delete(key.clone());
        }
        write::apply(region, &changes).await?;
    }
    let size: usize = kept.iter().map(StoredCell::size).sum();
    let narrow = size <= PACKED_BYTES_MAX / NARROW_PART
        && kept.len() <= PACKED_CELLS_MAX / NARROW_PART
        && markers.len() <= DELETES_MAX;
    let mut changes = Changes::default();
    if narrow {
        let rest: Vec<Bytes> = old
            .keys()
            .filter(|key| kept_keys.contains(*key))
            .cloned()
            .chain(gone(&markers))
            .collect();
        changes.push_narrow(key.clone(), kept, rest);
        write::apply(region, &changes).await?;
        region.writes.unset_wide(key);
        return Ok(());
    }
    // Still wide: everything that stays is an overflow cell already or becomes one, and the packed value is empty. Markers go
    // with this write, after the puts that they hid; as many as one write takes, the others with the next rewrite.
    let moved: Vec<StoredCell> = kept
        .into_iter()
        .filter(|cell| old.get(&overflow_key(prefix, id, cell)) != Some(&cell.sequence))
        .collect();
    for key in gone(&markers).into_iter().take(DELETES_MAX) {
        changes.delete(key);
    }
    changes.push_emptied(prefix, id, key.clone(), moved);
    write::apply(region, &changes).await.map(|_| ())
}
