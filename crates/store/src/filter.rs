//! SlateDB's compaction filter: what compaction drops of rows (facts/storage-engine.md, section 9; C4 to C7).
//!
//! Three rules make it safe. Nothing that an open snapshot may still look at is touched (`retention_min_seq`). Nothing is dropped
//! above the last run, since an older value below would come back. Of a family with overflow cells the filter sees only parts, so
//! its markers stay; it notes the row, and the region rewrites it under its lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use cadastre_types::{CellType, Error, KeepDeletedCells, Result, TableDescriptor};
use slatedb::{
    CompactionFilter, CompactionFilterDecision, CompactionFilterError, CompactionFilterSupplier,
    CompactionJobContext, RowEntry, ValueDeletable,
};

use crate::key::{self, Place, RowCodec};
use crate::nonces::Moment;
use crate::packed::{self, Packed, StoredCell};
use crate::planted::{Plant, Planted};
use crate::retain::{Markers, Purpose, Rules, expired, retain};

/// Wide rows remembered by one compaction; the others wait for the next.
const WIDE_ROWS_MAX: usize = 10_000;

/// Markers of one family of one row that the filter keeps at hand; beyond, its overflow cells are kept as they are.
const MARKERS_MAX: usize = 4096;

/// Packed keys of wide rows that a compaction met.
pub(crate) type WideRows = Arc<Mutex<BTreeSet<Bytes>>>;

/// Makes the filters of one compaction run.
pub(crate) struct CellFilters {
    codec: RowCodec,
    rules: BTreeMap<u16, Rules>,
    /// Whether every file takes part, so that markers may go (a major compaction).
    major: bool,
    /// Whether what runs is the compaction that was asked for. One that a crash interrupted is run first, of other files: newer ones
    /// may have puts that its markers hide.
    own: AtomicBool,
    now: i64,
    moment: Moment,
    /// A planted fault.
    drops_all_markers: bool,
    wide: WideRows,
}

impl CellFilters {
    pub(crate) fn new(
        codec: RowCodec,
        descriptor: &TableDescriptor,
        major: bool,
        now: i64,
        moment: Moment,
        plant: Plant,
        wide: WideRows,
    ) -> Self {
        let rules = descriptor
            .families
            .values()
            .map(|family| (family.id, Rules::of(family)))
            .collect();
        Self {
            codec,
            rules,
            major,
            own: AtomicBool::new(false),
            now,
            moment,
            drops_all_markers: plant.is(Planted::MarkersDroppedBesideOverflow),
            wide,
        }
    }

    /// The compaction that was asked for is the next to run.
    pub(crate) fn begin_own(&self) {
        self.own.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl CompactionFilterSupplier for CellFilters {
    async fn create_compaction_filter(
        &self,
        context: &CompactionJobContext,
    ) -> Result<Box<dyn CompactionFilter>, CompactionFilterError> {
        Ok(Box::new(CellFilter {
            codec: self.codec,
            rules: self.rules.clone(),
            last_run: context.is_dest_last_run,
            major: self.major && self.own.load(Ordering::SeqCst) && context.is_dest_last_run,
            now: self.now,
            moment: self.moment,
            drops_all_markers: self.drops_all_markers,
            touch_up_to: context.retention_min_seq.unwrap_or(u64::MAX),
            wide: Arc::clone(&self.wide),
            row: None,
        }))
    }
}

/// The wide family of a row that the filter is in.
struct WideRow {
    /// Row prefix and family id.
    prefix: Bytes,
    /// Its markers: packed ones, and overflow ones met so far.
    family: Markers,
    columns: BTreeMap<Bytes, Markers>,
    markers: usize,
    /// Its packed puts, which count as versions.
    packed: Vec<StoredCell>,
    /// The column that is being counted, and its visible puts so far.
    column: Option<Bytes>,
    versions: u32,
    /// The next packed put of the column.
    next_packed: usize,
}

struct CellFilter {
    codec: RowCodec,
    rules: BTreeMap<u16, Rules>,
    last_run: bool,
    major: bool,
    now: i64,
    moment: Moment,
    drops_all_markers: bool,
    touch_up_to: u64,
    wide: WideRows,
    row: Option<WideRow>,
}

fn failed(error: Error) -> CompactionFilterError {
    CompactionFilterError::FilterError(Box::new(error))
}

#[async_trait]
impl CompactionFilter for CellFilter {
    async fn filter(
        &mut self,
        entry: &RowEntry,
    ) -> Result<CompactionFilterDecision, CompactionFilterError> {
        self.decide(entry).map_err(failed)
    }

    async fn on_compaction_end(&mut self) -> Result<(), CompactionFilterError> {
        Ok(())
    }
}

impl CellFilter {
    fn decide(&mut self, entry: &RowEntry) -> Result<CompactionFilterDecision> {
        let (ValueDeletable::Value(value) | ValueDeletable::Merge(value)) = &entry.value else {
            return Ok(CompactionFilterDecision::Keep);
        };
        let row_len = self
            .codec
            .prefix_len(&entry.key)
            .ok_or_else(|| Error::corrupt("a stored key has no row"))?;
        let place = key::place(entry.key.slice(row_len..))?;
        if entry.seq > self.touch_up_to {
            return Ok(CompactionFilterDecision::Keep);
        }
        match place {
            Place::Nonce => self.nonce(value),
            Place::Packed { family } => self.packed(entry, row_len, family, value),
            Place::Overflow {
                family,
                qualifier,
                timestamp,
                cell_type,
            } => {
                let cell = packed::decode_overflow(qualifier, timestamp, cell_type, value.clone())?;
                Ok(self.overflow(&entry.key.slice(..row_len + 2), family, cell))
            }
        }
    }

    fn nonce(&self, value: &Bytes) -> Result<CompactionFilterDecision> {
        if self.last_run && self.moment.is_over(value)? {
            return Ok(CompactionFilterDecision::Drop);
        }
        Ok(CompactionFilterDecision::Keep)
    }

    fn packed(
        &mut self,
        entry: &RowEntry,
        row_len: usize,
        family: u16,
        value: &Bytes,
    ) -> Result<CompactionFilterDecision> {
        self.row = None;
        let Some(rules) = self.rules.get(&family).copied() else {
            // A family that was removed: its cells are nobody's (C6).
            return Ok(self.drop_if_last());
        };
        let packed = Packed::decode(value.clone())?;
        let purpose = Purpose::Rewrite {
            whole: self.last_run && !packed.overflow,
            drop_markers: self.major && (!packed.overflow || self.drops_all_markers),
        };
        let before = packed.cells.len();
        let kept = retain(packed.cells, &rules, purpose, self.now);
        if packed.overflow {
            self.enter_wide(entry, row_len, &kept);
        } else if kept.is_empty() && self.last_run {
            return Ok(CompactionFilterDecision::Drop);
        }
        // With no base below, a merged operand is the whole value: as a value it ends later walks.
        let becomes_value = self.last_run && matches!(entry.value, ValueDeletable::Merge(_));
        if kept.len() == before && !becomes_value {
            return Ok(CompactionFilterDecision::Keep);
        }
        let value = packed::encode(packed.overflow, &kept);
        let value = if becomes_value || matches!(entry.value, ValueDeletable::Value(_)) {
            ValueDeletable::Value(value)
        } else {
            ValueDeletable::Merge(value)
        };
        Ok(CompactionFilterDecision::Modify(value))
    }

    fn drop_if_last(&self) -> CompactionFilterDecision {
        if self.last_run {
            CompactionFilterDecision::Drop
        } else {
            CompactionFilterDecision::Keep
        }
    }

    /// Remembers what the packed value of a wide family says about its overflow cells, which come next.
    fn enter_wide(&mut self, entry: &RowEntry, row_len: usize, cells: &[StoredCell]) {
        {
            let mut wide = self.wide.lock().expect("not poisoned");
            if wide.len() < WIDE_ROWS_MAX {
                wide.insert(entry.key.clone());
            }
        }
        let mut row = WideRow {
            prefix: entry.key.slice(..row_len + 2),
            family: Markers::default(),
            columns: BTreeMap::new(),
            markers: 0,
            packed: Vec::new(),
            column: None,
            versions: 0,
            next_packed: 0,
        };
        for cell in cells {
            if cell.cell_type == CellType::Put {
                row.packed.push(cell.clone());
            } else {
                row.add_marker(cell);
            }
        }
        self.row = Some(row);
    }

    fn overflow(
        &mut self,
        prefix: &Bytes,
        family: u16,
        cell: StoredCell,
    ) -> CompactionFilterDecision {
        let Some(rules) = self.rules.get(&family).copied() else {
            return self.drop_if_last();
        };
        if !self.last_run {
            return CompactionFilterDecision::Keep;
        }
        let gone = expired(&cell, &rules, self.now);
        if gone {
            return CompactionFilterDecision::Drop;
        }
        // Only with the packed value and everything since seen by this very filter is the history of a column known (an
        // interrupted compaction resumes in the middle of a row).
        let Some(row) = self.row.as_mut().filter(|row| row.prefix == *prefix) else {
            return CompactionFilterDecision::Keep;
        };
        if cell.cell_type.is_delete() {
            row.add_marker(&cell);
            return CompactionFilterDecision::Keep;
        }
        if rules.new_version_behavior || row.markers > MARKERS_MAX {
            return CompactionFilterDecision::Keep;
        }
        if row.shows(&cell, &rules) {
            CompactionFilterDecision::Keep
        } else {
            CompactionFilterDecision::Drop
        }
    }
}

impl WideRow {
    fn add_marker(&mut self, cell: &StoredCell) {
        self.markers += 1;
        if self.markers > MARKERS_MAX {
            return;
        }
        if cell.cell_type.is_family_wide() {
            self.family.add(cell);
        } else {
            let column = self.columns.entry(cell.qualifier.clone()).or_default();
            column.add(cell);
        }
    }

    fn hides(&self, put: &StoredCell) -> bool {
        self.family.hides(put, false)
            || self
                .columns
                .get(&put.qualifier)
                .is_some_and(|column| column.hides(put, false))
    }

    /// Whether a put, met in the order of keys, is among the family's VERSIONS newest ones that no marker hides. All markers that
    /// can hide it have been met: they stand before it, or in the packed value.
    fn shows(&mut self, put: &StoredCell, rules: &Rules) -> bool {
        if self.column.as_ref() != Some(&put.qualifier) {
            self.column = Some(put.qualifier.clone());
            self.versions = 0;
            self.next_packed = self
                .packed
                .partition_point(|cell| cell.qualifier < put.qualifier);
        }
        while let Some(newer) = self.packed.get(self.next_packed)
            && newer.qualifier == put.qualifier
            && newer.timestamp > put.timestamp
        {
            self.next_packed += 1;
            if rules.keep_deleted != KeepDeletedCells::False || !self.hides(newer) {
                self.versions = self.versions.saturating_add(1);
            }
        }
        if rules.keep_deleted == KeepDeletedCells::False && self.hides(put) {
            return false;
        }
        self.versions = self.versions.saturating_add(1);
        // Written again in the other form: one version, of which a read takes the later write. Which one that is, is settled where the row is
        // rewritten; if one of them went here, the other might be the older.
        let is_packed_too = self.packed.get(self.next_packed).is_some_and(|packed| {
            packed.qualifier == put.qualifier && packed.timestamp == put.timestamp
        });
        if is_packed_too {
            self.next_packed += 1;
        }
        is_packed_too || self.versions <= rules.max_versions
    }
}
