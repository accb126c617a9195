//! Turning cells into one atomic write: operands, folds, overflow (facts/storage-engine.md, section 2), nonces.
//!
//! Called under the rows' locks. A narrow row's write is an operand and reads nothing. Every [`CHAIN_MAX`]-th write of a key since
//! the last flush reads, trims and puts the whole, so that chains stay short, and then judges whether the row has grown wide.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Mutex;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Cell, Code, Error, LATEST_TIMESTAMP, Qualifiers, Query, Result};
use slatedb::{DbSnapshot, MergeOperator, WriteBatch};

use crate::database::Prepared;
use crate::error::from_slatedb;
use crate::key;
use crate::merge::CellMerge;
use crate::packed::{self, Packed, StoredCell};
use crate::read::{Columns, FamilyCells, RowBudget};
use crate::region::RegionShared;
use crate::retain::{Purpose, Rules, retain};
use crate::row_cache::Entry;

/// Operands of one key in the memtable: a get walks each, 0.4 to 2 us.
const CHAIN_MAX: u8 = 16;

/// A cell with a larger value is an overflow cell at once, bytes.
const CELL_OVERFLOW: usize = 32 * 1024;

/// A family's packed cells move to overflow cells beyond this, bytes and number.
pub(crate) const PACKED_BYTES_MAX: usize = 64 * 1024;
pub(crate) const PACKED_CELLS_MAX: usize = 512;

/// A fold of a row with overflow cells judges its columns when they are at most so many.
const FOLD_COLUMNS_MAX: usize = 8;

/// Largest packed value that a write leaves in the row cache, bytes: it is merged for that, which a large one does not pay for.
const INSTALL_BYTES_MAX: usize = 8 * 1024;

/// Keys whose chains are counted at one time, per region.
const CHAINS_MAX: usize = 65_536;

/// Rows remembered as wide, per region.
const WIDE_MAX: usize = 4096;

/// Stands for the sequence number that the write will get; above all others, so a new cell wins over an old one.
const NEW: u64 = u64::MAX;

#[derive(Default)]
struct Chains {
    /// The flush since which is counted.
    flush: u64,
    /// Operands by hash of the key. Two keys with one hash are folded a little early.
    counts: HashMap<u64, u8, BuildHasherDefault<DefaultHasher>>,
}

/// What a region remembers between writes.
pub(crate) struct WriteState {
    chains: Mutex<Chains>,
    /// Packed keys that are known to have overflow cells: their cells are written there directly.
    wide: Mutex<BTreeSet<Bytes>>,
}

impl WriteState {
    pub(crate) fn new() -> Self {
        Self {
            chains: Mutex::new(Chains::default()),
            wide: Mutex::new(BTreeSet::new()),
        }
    }

    /// Counts a write of a key; true if this one must fold.
    fn fold_now(&self, key: &Bytes, flush: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let mut chains = self.chains.lock().expect("not poisoned");
        if chains.flush != flush || chains.counts.len() >= CHAINS_MAX {
            chains.flush = flush;
            chains.counts.clear();
        }
        let count = chains.counts.entry(hasher.finish()).or_default();
        *count += 1;
        if *count < CHAIN_MAX {
            return false;
        }
        *count = 0;
        true
    }

    fn is_wide(&self, key: &Bytes) -> bool {
        self.wide.lock().expect("not poisoned").contains(key)
    }

    fn set_wide(&self, key: &Bytes) {
        let mut wide = self.wide.lock().expect("not poisoned");
        if wide.len() >= WIDE_MAX {
            // Only a memory: the next fold learns again.
            wide.clear();
        }
        wide.insert(key.clone());
    }

    /// Forgets that a row is wide: it was packed again.
    pub(crate) fn unset_wide(&self, key: &Bytes) {
        self.wide.lock().expect("not poisoned").remove(key);
    }
}

/// One key's change. Cells with sequence [`NEW`] get the write's own.
enum Change {
    /// Adds cells to a packed value without reading it.
    Operand { key: Bytes, packed: Packed },
    /// Replaces a packed value.
    Packed { key: Bytes, packed: Packed },
    /// One overflow cell.
    Overflow { key: Bytes, cell: StoredCell },
    /// One value as it is.
    Plain { key: Bytes, value: Bytes },
    /// Nothing any more.
    Delete { key: Bytes },
}

impl Change {
    /// The key, if it may be one of a packed value.
    fn packed_key(&self) -> Option<&Bytes> {
        match self {
            Self::Operand { key, .. } | Self::Packed { key, .. } | Self::Delete { key } => {
                Some(key)
            }
            // Cells beside a packed value are not cached, and a value that says that there are some is not either.
            Self::Overflow { .. } | Self::Plain { .. } => None,
        }
    }

    /// The packed value that the change, which was written so, leaves where this was before, if it may be cached.
    fn leaves(&self, before: Option<Bytes>, written: Bytes) -> Option<Bytes> {
        let size = |value: &Option<Bytes>| value.as_ref().map_or(0, Bytes::len);
        let value = match self {
            Self::Operand { key, packed }
                if !packed.overflow && written.len() + size(&before) <= INSTALL_BYTES_MAX =>
            {
                // What cannot be merged the next read will tell of.
                CellMerge.merge(key, before, written).ok()?
            }
            Self::Packed { packed, .. } if !packed.overflow => written,
            _ => return None,
        };
        (value.len() <= INSTALL_BYTES_MAX).then_some(value)
    }
}

/// The changes of one write.
#[derive(Default)]
pub(crate) struct Changes {
    changes: Vec<Change>,
    bytes: usize,
    wide: Vec<Bytes>,
}

impl Changes {
    fn push(&mut self, change: Change) {
        self.bytes += match &change {
            Change::Operand { key, packed } | Change::Packed { key, packed } => {
                key.len() + packed.size()
            }
            Change::Overflow { key, cell } => key.len() + cell.size(),
            Change::Plain { key, value } => key.len() + value.len(),
            Change::Delete { key } => key.len(),
        };
        self.changes.push(change);
    }

    /// Writes cells of a family as overflow cells; the packed value must get or have the flag.
    fn push_overflow(&mut self, prefix: &[u8], family: u16, cells: Vec<StoredCell>) {
        for cell in cells {
            let key = overflow_key(prefix, family, &cell);
            self.push(Change::Overflow { key, cell });
        }
    }

    /// The same, for a family whose further cells are to be written so too.
    fn push_wide(&mut self, prefix: &[u8], family: u16, key: Bytes, cells: Vec<StoredCell>) {
        self.push_overflow(prefix, family, cells);
        self.wide.push(key);
    }

    /// Replaces a family's cells by packed ones, when they were overflow cells.
    pub(crate) fn push_narrow(&mut self, key: Bytes, cells: Vec<StoredCell>, old: Vec<Bytes>) {
        for key in old {
            self.push(Change::Delete { key });
        }
        let packed = Packed {
            overflow: false,
            cells,
        };
        self.push(Change::Packed { key, packed });
    }

    /// Writes what was packed as overflow cells, and the packed value as empty.
    pub(crate) fn push_emptied(
        &mut self,
        prefix: &[u8],
        family: u16,
        key: Bytes,
        cells: Vec<StoredCell>,
    ) {
        let packed = Packed {
            overflow: true,
            cells: Vec::new(),
        };
        self.push(Change::Packed {
            key: key.clone(),
            packed,
        });
        self.push_wide(prefix, family, key, cells);
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, key: Bytes) {
        self.push(Change::Delete { key });
    }

    /// What is written; `encoded` gets a value for each [`Change::packed_key`], and it is what is written where the key was `cached`.
    fn batch(&self, sequence: u64, cached: &[Option<Entry>], encoded: &mut Vec<Bytes>) -> Prepared {
        encoded.clear();
        let mut batch = WriteBatch::new();
        let own =
            |packed: &Packed| packed::encode(packed.overflow, &numbered(&packed.cells, sequence));
        let mut keep = |value: Bytes| {
            let is_cached = cached.get(encoded.len()).is_some_and(Option::is_some);
            encoded.push(if is_cached { value } else { Bytes::new() });
        };
        for change in &self.changes {
            match change {
                Change::Operand { key, packed } => {
                    let value = own(packed);
                    batch.merge(key, &value);
                    keep(value);
                }
                Change::Packed { key, packed } => {
                    let value = own(packed);
                    batch.put_bytes(key.clone(), value.clone());
                    keep(value);
                }
                Change::Overflow { key, cell } => batch.put_bytes(
                    key.clone(),
                    packed::encode_overflow(&with_sequence(cell, sequence)),
                ),
                Change::Plain { key, value } => batch.put_bytes(key.clone(), value.clone()),
                Change::Delete { key } => {
                    batch.delete(key);
                    keep(Bytes::new());
                }
            }
        }
        Prepared {
            batch,
            bytes: self.bytes,
            keys: self.changes.len(),
        }
    }
}

/// Cells with the write's sequence number where they have none.
fn numbered(cells: &[StoredCell], sequence: u64) -> Vec<StoredCell> {
    let cells = cells.iter();
    cells.map(|cell| with_sequence(cell, sequence)).collect()
}

fn with_sequence(cell: &StoredCell, sequence: u64) -> StoredCell {
    let mut cell = cell.clone();
    if cell.sequence == NEW {
        cell.sequence = sequence;
    }
    cell
}

/// Writes cells and nonces in one batch; answers the sequence number once it is visible in memory.
pub(crate) async fn write<E: Env>(
    region: &RegionShared<E>,
    cells: Vec<Cell>,
    nonces: &[(Bytes, u64, u64)],
) -> Result<u64> {
    let schema = region.schema();
    if schema.descriptor.read_only() && !region.info.is_meta() {
        return Err(Error::invalid("region is read only"));
    }
    let deleted: BTreeSet<Bytes> = cells
        .iter()
        .filter(|cell| cell.cell_type.is_delete())
        .map(|cell| cell.row.clone())
        .collect();
    let mut changes = Changes::default();
    for ((row, family), cells) in group(region, cells)? {
        let (family, rules) = schema.family(&family)?;
        let prefix = region.codec.prefix(&row);
        change_family(region, &mut changes, &prefix, family.id, rules, cells).await?;
    }
    let now = region.database.moment();
    for (row, group, nonce) in nonces {
        let key = key::nonce(&region.codec.prefix(row), *group, *nonce);
        let value = now.stamp();
        changes.push(Change::Plain { key, value });
    }
    let written = apply(region, &changes).await?;
    for row in &deleted {
        region.timestamps.deleted(row);
    }
    Ok(written)
}

/// Lets changes of locked rows in and writes them.
pub(crate) async fn apply<E: Env>(region: &RegionShared<E>, changes: &Changes) -> Result<u64> {
    let database = &region.database;
    database.admit(changes.bytes, changes.changes.len()).await?;
    let prefix_of = |key: &'_ Bytes| -> usize {
        let len = region.codec.prefix_len(key);
        len.expect("a key that was made here has a row prefix")
    };
    let packed = || changes.changes.iter().filter_map(Change::packed_key);
    let prefixes = packed().map(|key| &key[..prefix_of(key)]);
    let (writing, old) = region.rows.begin_write(prefixes, packed());
    let mut encoded = Vec::new();
    let prepare = |sequence| changes.batch(sequence, &old, &mut encoded);
    let written = match database.write(prepare).await {
        Ok(sequence) => sequence,
        Err(error) => {
            if error.code() == Code::RegionTooBusy {
                writing.refused();
            }
            return Err(error);
        }
    };
    // A write has one change of each packed key.
    let cached = changes
        .changes
        .iter()
        .filter_map(|change| Some((change, change.packed_key()?)));
    for (((change, key), old), value) in cached.zip(old).zip(encoded) {
        if let Some(old) = old
            && let Some(value) = change.leaves(old.value, value)
        {
            writing.install(key.clone(), value, written);
        }
    }
    writing.written(written);
    for key in &changes.wide {
        region.writes.set_wide(key);
    }
    Ok(written)
}

type Grouped = BTreeMap<(Bytes, Bytes), Vec<StoredCell>>;

/// Cells by row and family, checked.
fn group<E: Env>(region: &RegionShared<E>, cells: Vec<Cell>) -> Result<Grouped> {
    let mut grouped = Grouped::new();
    for cell in cells {
        key::check(region.codec, &cell.row, &cell.qualifier)?;
        if cell.timestamp == LATEST_TIMESTAMP {
            return Err(Error::new(
                Code::Internal,
                "a cell came to the store without a timestamp",
            ));
        }
        if cell.cell_type.is_family_wide() && !cell.qualifier.is_empty() {
            return Err(Error::invalid("a marker of a whole family has a qualifier"));
        }
        let stored = StoredCell {
            qualifier: cell.qualifier,
            timestamp: cell.timestamp,
            cell_type: cell.cell_type,
            sequence: NEW,
            tags: cell.tags,
            value: cell.value,
        };
        grouped
            .entry((cell.row, cell.family))
            .or_default()
            .push(stored);
    }
    Ok(grouped
        .into_iter()
        .map(|(at, cells)| (at, packed::sort(cells)))
        .collect())
}

/// Adds what a write of one family of one row changes.
async fn change_family<E: Env>(
    region: &RegionShared<E>,
    changes: &mut Changes,
    prefix: &[u8],
    family: u16,
    rules: &Rules,
    cells: Vec<StoredCell>,
) -> Result<()> {
    let key = key::packed(prefix, family);
    if region.writes.is_wide(&key) {
        changes.push_wide(prefix, family, key, cells);
        return Ok(());
    }
    if region.writes.fold_now(&key, region.database.flushes()) {
        return fold(region, changes, prefix, family, rules, cells).await;
    }
    let (large, small): (Vec<_>, Vec<_>) = cells
        .into_iter()
        .partition(|cell| cell.value.len() > CELL_OVERFLOW);
    let packed = Packed {
        overflow: !large.is_empty(),
        cells: small,
    };
    let many = packed.size() > PACKED_BYTES_MAX || packed.cells.len() > PACKED_CELLS_MAX;
    if many {
        let flag = Packed {
            overflow: true,
            cells: Vec::new(),
        };
        changes.push(Change::Operand {
            key: key.clone(),
            packed: flag,
        });
        let all = packed::merge(packed.cells, large);
        changes.push_wide(prefix, family, key, all);
        return Ok(());
    }
    changes.push(Change::Operand { key, packed });
    // One large cell does not make the row wide.
    changes.push_overflow(prefix, family, large);
    Ok(())
}

/// Reads what is stored of the family, adds the cells, trims, and puts the whole: packed, or as overflow cells when it has
/// grown wide.
async fn fold<E: Env>(
    region: &RegionShared<E>,
    changes: &mut Changes,
    prefix: &[u8],
    family: u16,
    rules: &Rules,
    cells: Vec<StoredCell>,
) -> Result<()> {
    let key = key::packed(prefix, family);
    let snapshot = region.database.snapshot()?;
    let value = snapshot.get(&key).await.map_err(|e| from_slatedb(&e))?;
    let mut old = match value {
        Some(value) => FamilyCells::of_packed(value)?,
        None => FamilyCells::default(),
    };
    let flagged = old.flagged;
    let whole = !flagged || load_columns(&snapshot, prefix, family, &cells, &mut old).await?;
    // With their sequences: a packed cell may have replaced an overflow cell of the same coordinates.
    let stored: BTreeMap<Bytes, u64> = old
        .overflow
        .iter()
        .map(|cell| (overflow_key(prefix, family, cell), cell.sequence))
        .collect();
    let mut all = packed::merge(packed::merge(old.packed, old.overflow), cells);
    if whole {
        // Trimmed before it is counted (C4). Markers stay: a put with an old timestamp that comes later must stay hidden until
        // a major compaction (10.1).
        let purpose = Purpose::Rewrite {
            whole: true,
            drop_markers: false,
        };
        all = retain(all, rules, purpose, region.database.clock.wall_ms());
    }
    // What is an overflow cell already stays one; what no longer is goes.
    let stays =
        |cell: &StoredCell| stored.get(&overflow_key(prefix, family, cell)) == Some(&cell.sequence);
    let (staying, placed): (Vec<_>, Vec<_>) = all.into_iter().partition(|cell| stays(cell));
    let staying: BTreeSet<Bytes> = staying
        .iter()
        .map(|cell| overflow_key(prefix, family, cell))
        .collect();
    for key in stored.keys().filter(|key| !staying.contains(*key)) {
        changes.delete(key.clone());
    }
    place(changes, prefix, family, key, flagged, placed);
    Ok(())
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

/// Reads the overflow cells of the columns at hand; false if these are too many to judge them here.
async fn load_columns(
    snapshot: &DbSnapshot,
    prefix: &[u8],
    family: u16,
    cells: &[StoredCell],
    old: &mut FamilyCells,
) -> Result<bool> {
    let these: BTreeSet<Bytes> = old
        .packed
        .iter()
        .chain(cells)
        .map(|cell| cell.qualifier.clone())
        .collect();
    if these.len() > FOLD_COLUMNS_MAX {
        return Ok(false);
    }
    let qualifiers = Qualifiers::These(these);
    let columns = Columns {
        family,
        qualifiers: &qualifiers,
        stop: None,
    };
    let mut budget = RowBudget::default();
    columns
        .load(snapshot, prefix, &Query::default(), &mut budget, old)
        .await?;
    Ok(true)
}

/// Puts a family's cells that are not overflow cells already: packed, or as overflow cells when they are too many or too large.
fn place(
    changes: &mut Changes,
    prefix: &[u8],
    family: u16,
    key: Bytes,
    flagged: bool,
    cells: Vec<StoredCell>,
) {
    let (large, small): (Vec<_>, Vec<_>) = cells
        .into_iter()
        .partition(|cell| cell.value.len() > CELL_OVERFLOW);
    let size: usize = small.iter().map(StoredCell::size).sum();
    if size > PACKED_BYTES_MAX || small.len() > PACKED_CELLS_MAX {
        changes.push_emptied(prefix, family, key, packed::merge(small, large));
        return;
    }
    let packed = Packed {
        overflow: flagged || !large.is_empty(),
        cells: small,
    };
    changes.push(Change::Packed { key, packed });
    changes.push_overflow(prefix, family, large);
}
