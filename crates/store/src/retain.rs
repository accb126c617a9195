//! What is kept of a family's cells of one row: versions, TTL, minimum versions, markers, time range, columns (C4).
//!
//! One pure function for reads, for the fold on write and for compaction; hbase-protocol.md 10.1 and 10.2 say what it must
//! do. It must not know of keys, of SlateDB or of clocks: the time is given.

use bytes::{Buf, Bytes};
use cadastre_types::{CellType, FamilyDescriptor, KeepDeletedCells, Qualifiers, TimeRange};

use crate::packed::StoredCell;

/// HBase's tag of a cell's own TTL: 8 bytes, BE, ms.
const TAG_TTL: u8 = 8;

/// What a family's descriptor says about keeping cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) max_versions: u32,
    pub(crate) min_versions: u32,
    pub(crate) ttl_ms: Option<i64>,
    pub(crate) keep_deleted: KeepDeletedCells,
    pub(crate) new_version_behavior: bool,
}

impl Rules {
    pub(crate) fn of(family: &FamilyDescriptor) -> Self {
        Self {
            max_versions: family.max_versions(),
            min_versions: family.min_versions(),
            ttl_ms: family.ttl_ms(),
            keep_deleted: family.keep_deleted_cells(),
            new_version_behavior: family.new_version_behavior(),
        }
    }

    fn keeps_deleted(&self) -> bool {
        self.keep_deleted != KeepDeletedCells::False
    }

    /// The oldest timestamp that the family's TTL lets live.
    fn oldest_live(&self, now: i64) -> i64 {
        self.ttl_ms.map_or(i64::MIN, |ttl| now.saturating_sub(ttl))
    }
}

/// Why cells are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// A client reads.
    Read {
        time_range: TimeRange,
        max_versions: u32,
        qualifiers: &'a Qualifiers,
        raw: bool,
    },
    /// A row's family is rewritten, by a fold or a compaction.
    Rewrite {
        /// Whether all cells of the family are at hand. Otherwise versions cannot be counted: a marker somewhere else may hide
        /// some of those here.
        whole: bool,
        /// Whether markers may go: only if nothing older that they hide can be anywhere (C5).
        drop_markers: bool,
    },
}

/// The cells of the family that stay. `cells` are sorted by coordinates, each once; so is the answer.
pub(crate) fn retain(
    cells: Vec<StoredCell>,
    rules: &Rules,
    purpose: Purpose<'_>,
    now: i64,
) -> Vec<StoredCell> {
    match purpose {
        Purpose::Read { raw: true, .. } => read_raw(cells, purpose, now),
        Purpose::Read {
            time_range,
            max_versions,
            qualifiers,
            raw: false,
        } => read(cells, rules, time_range, max_versions, qualifiers, now),
        Purpose::Rewrite {
            whole,
            drop_markers,
        } => rewrite(cells, rules, whole, drop_markers, now),
    }
}

/// Whether a cell has run out for good: its own TTL, or the family's where no minimum of versions lets it live on.
pub(crate) fn expired(cell: &StoredCell, rules: &Rules, now: i64) -> bool {
    own_ttl_over(cell, now) || (rules.min_versions == 0 && cell.timestamp < rules.oldest_live(now))
}

/// Whether the cell's own TTL, if it has one, has run out. It only shortens life and ignores MIN_VERSIONS (10.2).
fn own_ttl_over(cell: &StoredCell, now: i64) -> bool {
    !cell.tags.is_empty()
        && ttl_tag(cell.tags.clone()).is_some_and(|ttl| cell.timestamp.saturating_add(ttl) < now)
}

/// The value of the TTL tag. Tags were checked when they came in; what does not parse here has no TTL.
fn ttl_tag(mut tags: Bytes) -> Option<i64> {
    while tags.len() >= 3 {
        let len = usize::from(tags.get_u16());
        if len == 0 || len > tags.len() {
            return None;
        }
        let mut tag = tags.split_to(len);
        if tag.get_u8() == TAG_TTL {
            return tag.try_get_i64().ok();
        }
    }
    None
}

/// The delete markers that count, of the family or of one column.
#[derive(Default)]
pub(crate) struct Markers {
    /// (timestamp, sequence) of markers that hide everything up to their timestamp.
    up_to: Vec<(i64, u64)>,
    /// (timestamp, sequence) of markers that hide exactly their timestamp.
    exactly: Vec<(i64, u64)>,
}

impl Markers {
    pub(crate) fn add(&mut self, cell: &StoredCell) {
        let list = match cell.cell_type {
            CellType::DeleteFamily | CellType::DeleteColumn => &mut self.up_to,
            CellType::Delete | CellType::DeleteFamilyVersion => &mut self.exactly,
            CellType::Put => unreachable!("only markers are added"),
        };
        list.push((cell.timestamp, cell.sequence));
    }

    fn hit(
        list: &[(i64, u64)],
        by_sequence: bool,
        sequence: u64,
        at: impl Fn(i64) -> bool,
    ) -> bool {
        list.iter()
            .any(|(ts, seq)| at(*ts) && (!by_sequence || *seq >= sequence))
    }

    /// Whether an up-to marker hides the put; with new version behaviour only one written after it does.
    fn hides_up_to(&self, put: &StoredCell, by_sequence: bool) -> bool {
        Self::hit(&self.up_to, by_sequence, put.sequence, |ts| {
            ts >= put.timestamp
        })
    }

    fn hides_exactly(&self, put: &StoredCell, by_sequence: bool) -> bool {
        Self::hit(&self.exactly, by_sequence, put.sequence, |ts| {
            ts == put.timestamp
        })
    }

    pub(crate) fn hides(&self, put: &StoredCell, by_sequence: bool) -> bool {
        self.hides_up_to(put, by_sequence) || self.hides_exactly(put, by_sequence)
    }
}

/// The markers of the whole family for which `counts` holds.
fn family_markers(cells: &[StoredCell], counts: impl Fn(&StoredCell) -> bool) -> Markers {
    let mut markers = Markers::default();
    for cell in cells {
        if cell.cell_type.is_family_wide() && counts(cell) {
            markers.add(cell);
        }
    }
    markers
}

/// End of the column that starts at `from`.
fn column_end(cells: &[StoredCell], from: usize) -> usize {
    let qualifier = &cells[from].qualifier;
    cells[from..]
        .iter()
        .position(|cell| cell.qualifier != *qualifier)
        .map_or(cells.len(), |at| from + at)
}

/// Keeps the cells whose flag is set.
fn select(cells: Vec<StoredCell>, keep: &[bool]) -> Vec<StoredCell> {
    let mut flags = keep.iter();
    let mut cells = cells;
    cells.retain(|_| *flags.next().expect("a flag for each cell"));
    cells
}

/// Markers and hidden cells too; the family's TTL and versions do not count, the cell's own TTL does.
fn read_raw(mut cells: Vec<StoredCell>, purpose: Purpose<'_>, now: i64) -> Vec<StoredCell> {
    let Purpose::Read {
        time_range,
        max_versions,
        qualifiers,
        ..
    } = purpose
    else {
        unreachable!("called for reads only")
    };
    let mut column: Option<Bytes> = None;
    let mut versions = 0_u32;
    cells.retain(|cell| {
        if !time_range.contains(cell.timestamp)
            || own_ttl_over(cell, now)
            || !wanted(qualifiers, cell)
        {
            return false;
        }
        if column.as_ref() != Some(&cell.qualifier) {
            column = Some(cell.qualifier.clone());
            versions = 0;
        }
        if cell.cell_type.is_delete() {
            return true;
        }
        versions = versions.saturating_add(1);
        versions <= max_versions
    });
    cells
}

fn wanted(qualifiers: &Qualifiers, cell: &StoredCell) -> bool {
    match qualifiers {
        Qualifiers::All => true,
        Qualifiers::These(these) => these.contains(&cell.qualifier),
    }
}

fn read(
    cells: Vec<StoredCell>,
    rules: &Rules,
    time_range: TimeRange,
    max_versions: u32,
    qualifiers: &Qualifiers,
    now: i64,
) -> Vec<StoredCell> {
    let oldest_live = rules.oldest_live(now);
    // With MIN_VERSIONS an expired cell may live, and so may what hides it.
    let gone = |cell: &StoredCell| expired(cell, rules, now);
    let counts = |cell: &StoredCell| {
        !gone(cell) && (!rules.keeps_deleted() || time_range.contains(cell.timestamp))
    };
    let family = family_markers(&cells, counts);
    let by_sequence = rules.new_version_behavior;
    let versions_max = max_versions.min(rules.max_versions);
    let mut keep = vec![false; cells.len()];
    let mut from = 0;
    while from < cells.len() {
        let to = column_end(&cells, from);
        if wanted(qualifiers, &cells[from]) {
            let column = column_markers(&cells[from..to], counts);
            let mut versions = 0_u32;
            // With new version behaviour: how many newer versions there are or were.
            let mut stored = 0_u32;
            for at in from..to {
                let cell = &cells[at];
                if cell.cell_type.is_delete() || gone(cell) {
                    continue;
                }
                if column.hides_up_to(cell, by_sequence) || family.hides_up_to(cell, by_sequence) {
                    continue;
                }
                stored += 1;
                if by_sequence && stored > rules.max_versions {
                    break;
                }
                if column.hides_exactly(cell, by_sequence)
                    || family.hides_exactly(cell, by_sequence)
                {
                    continue;
                }
                // The time range is tested before versions are counted (10.1).
                if !time_range.contains(cell.timestamp) {
                    continue;
                }
                versions += 1;
                if versions > versions_max {
                    break;
                }
                keep[at] = cell.timestamp >= oldest_live || versions <= rules.min_versions;
            }
        }
        from = to;
    }
    select(cells, &keep)
}

fn column_markers(column: &[StoredCell], counts: impl Fn(&StoredCell) -> bool) -> Markers {
    let mut markers = Markers::default();
    for cell in column {
        if cell.cell_type.is_delete() && !cell.cell_type.is_family_wide() && counts(cell) {
            markers.add(cell);
        }
    }
    markers
}

fn rewrite(
    cells: Vec<StoredCell>,
    rules: &Rules,
    whole: bool,
    drop_markers: bool,
    now: i64,
) -> Vec<StoredCell> {
    let versions_max = if whole { rules.max_versions } else { u32::MAX };
    // Which versions are the newest few is not known from a part.
    if !whole && rules.min_versions > 0 {
        return cells;
    }
    let oldest_live = rules.oldest_live(now);
    let gone = |cell: &StoredCell| expired(cell, rules, now);
    let family = family_markers(&cells, |cell| !gone(cell));
    let by_sequence = rules.new_version_behavior;
    let mut keep = vec![false; cells.len()];
    let mut from = 0;
    while from < cells.len() {
        let to = column_end(&cells, from);
        let column = column_markers(&cells[from..to], |cell| !gone(cell));
        // Versions at all, for reads as of an earlier time where deleted cells are kept, and those that now show.
        let mut all = 0_u32;
        let mut showing = 0_u32;
        // As `showing`, but for what an exact marker hides with new version behaviour: that still counts as a version.
        let mut stored = 0_u32;
        for at in from..to {
            let cell = &cells[at];
            if cell.cell_type.is_delete() || gone(cell) {
                continue;
            }
            let up_to =
                column.hides_up_to(cell, by_sequence) || family.hides_up_to(cell, by_sequence);
            let hidden = column.hides(cell, by_sequence) || family.hides(cell, by_sequence);
            all += 1;
            if !hidden || (by_sequence && !up_to) {
                stored += 1;
            }
            if !hidden {
                showing += 1;
                keep[at] = stored <= versions_max
                    && (cell.timestamp >= oldest_live || showing <= rules.min_versions);
            } else if rules.keeps_deleted() {
                keep[at] = all <= versions_max
                    && (cell.timestamp >= oldest_live || all <= rules.min_versions);
            } else if by_sequence && !up_to {
                // Stays as long as its marker does: otherwise an older one would come up again.
                keep[at] = !drop_markers && stored <= versions_max;
            }
        }
        from = to;
    }
    keep_markers(&cells, &mut keep, rules, drop_markers, &gone);
    select(cells, &keep)
}

/// Marks the markers that stay.
fn keep_markers(
    cells: &[StoredCell],
    keep: &mut [bool],
    rules: &Rules,
    drop_markers: bool,
    gone: &impl Fn(&StoredCell) -> bool,
) {
    for at in 0..cells.len() {
        let marker = &cells[at];
        if !marker.cell_type.is_delete() || gone(marker) {
            continue;
        }
        keep[at] = if !drop_markers {
            !dominated(cells, at, rules, gone)
        } else if rules.keeps_deleted() {
            // Deleted cells are kept as far as VERSIONS allow; a marker stays as long as it hides one of them.
            (0..cells.len()).any(|put| {
                keep[put]
                    && cells[put].cell_type == CellType::Put
                    && hides_alone(marker, &cells[put])
            })
        } else {
            false
        };
    }
}

fn hides_alone(marker: &StoredCell, put: &StoredCell) -> bool {
    (marker.cell_type.is_family_wide() || marker.qualifier == put.qualifier)
        && match marker.cell_type {
            CellType::DeleteFamily | CellType::DeleteColumn => marker.timestamp >= put.timestamp,
            CellType::Delete | CellType::DeleteFamilyVersion => marker.timestamp == put.timestamp,
            CellType::Put => false,
        }
}

/// Whether another marker hides all that this one can ever hide. Not judged where the order of writing or the time range of a
/// read makes a difference between the two, nor where the other may expire first.
fn dominated(
    cells: &[StoredCell],
    at: usize,
    rules: &Rules,
    gone: &impl Fn(&StoredCell) -> bool,
) -> bool {
    if rules.new_version_behavior || rules.keeps_deleted() {
        return false;
    }
    let marker = &cells[at];
    cells.iter().enumerate().any(|(other_at, other)| {
        other_at != at
            && matches!(
                other.cell_type,
                CellType::DeleteFamily | CellType::DeleteColumn
            )
            && (other.cell_type == CellType::DeleteFamily
                || (!marker.cell_type.is_family_wide() && other.qualifier == marker.qualifier))
            && !gone(other)
            && other.tags.is_empty()
            && (other.timestamp > marker.timestamp
                || (other.timestamp == marker.timestamp
                    && other.cell_type.code() > marker.cell_type.code()))
    })
}

#[cfg(test)]
mod tests;
