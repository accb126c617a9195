//! `retain` against a naive model written from hbase-protocol.md 10.1 and 10.2: every put is judged by itself, by counting.

use std::collections::BTreeSet;

use bytes::Bytes;
use cadastre_types::{CellType, KeepDeletedCells, Qualifiers, TimeRange};
use proptest::prelude::*;

use super::*;
use crate::packed::{merge, sort, tests::cells};

const NOW: i64 = 20;

fn rules() -> impl Strategy<Value = Rules> {
    let keep = prop_oneof![
        3 => Just(KeepDeletedCells::False),
        1 => Just(KeepDeletedCells::True),
        1 => Just(KeepDeletedCells::Ttl),
    ];
    (
        1..4_u32,
        0..3_u32,
        prop::option::of(5..22_i64),
        keep,
        any::<bool>(),
    )
        .prop_map(
            |(max_versions, min_versions, ttl_ms, keep_deleted, nvb)| Rules {
                max_versions,
                min_versions,
                ttl_ms,
                keep_deleted,
                new_version_behavior: nvb,
            },
        )
}

fn ranges() -> impl Strategy<Value = TimeRange> {
    prop_oneof![
        2 => Just(TimeRange::ALL),
        1 => (0..12_i64, 0..13_i64).prop_map(|(from, to)| TimeRange { from, to }),
    ]
}

fn columns() -> impl Strategy<Value = Qualifiers> {
    let some = prop::collection::btree_set(
        prop_oneof![Just(""), Just("b"), Just("c")].prop_map(|q| Bytes::from_static(q.as_bytes())),
        0..3,
    );
    prop_oneof![2 => Just(Qualifiers::All), 1 => some.prop_map(Qualifiers::These)]
}

/// Makes sequences unique, as they are in one region except inside one write.
fn numbered(mut cells: Vec<StoredCell>, from: u64) -> Vec<StoredCell> {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|at| cells[*at].sequence);
    for (number, at) in order.into_iter().enumerate() {
        cells[at].sequence = from + number as u64;
    }
    cells
}

struct Model<'a> {
    cells: &'a [StoredCell],
    rules: &'a Rules,
    range: TimeRange,
}

impl Model<'_> {
    fn expired(&self, cell: &StoredCell) -> bool {
        self.rules
            .ttl_ms
            .is_some_and(|ttl| cell.timestamp < NOW - ttl)
    }

    fn alive(&self, cell: &StoredCell) -> bool {
        self.rules.min_versions > 0 || !self.expired(cell)
    }

    fn hidden_by(&self, put: &StoredCell, kinds: &[CellType]) -> bool {
        self.cells.iter().any(|marker| {
            kinds.contains(&marker.cell_type)
                && self.alive(marker)
                && (self.rules.keep_deleted == KeepDeletedCells::False
                    || self.range.contains(marker.timestamp))
                && (marker.cell_type.is_family_wide() || marker.qualifier == put.qualifier)
                && match marker.cell_type {
                    CellType::DeleteFamily | CellType::DeleteColumn => {
                        put.timestamp <= marker.timestamp
                    }
                    _ => put.timestamp == marker.timestamp,
                }
                && (!self.rules.new_version_behavior || put.sequence <= marker.sequence)
        })
    }

    fn below(&self, put: &StoredCell) -> bool {
        self.hidden_by(put, &[CellType::DeleteFamily, CellType::DeleteColumn])
    }

    fn at(&self, put: &StoredCell) -> bool {
        self.hidden_by(put, &[CellType::DeleteFamilyVersion, CellType::Delete])
    }

    fn newer<'b>(&'b self, put: &'b StoredCell) -> impl Iterator<Item = &'b StoredCell> {
        self.cells.iter().filter(|other| {
            other.cell_type == CellType::Put
                && other.qualifier == put.qualifier
                && other.timestamp > put.timestamp
        })
    }

    fn candidate(&self, put: &StoredCell) -> bool {
        let crowded_out = self.rules.new_version_behavior
            && self
                .newer(put)
                .filter(|other| self.alive(other) && !self.below(other))
                .count()
                >= self.rules.max_versions as usize;
        self.alive(put)
            && !self.below(put)
            && !self.at(put)
            && !crowded_out
            && self.range.contains(put.timestamp)
    }

    fn shows(&self, put: &StoredCell, max_versions: u32, qualifiers: &Qualifiers) -> bool {
        let wanted = match qualifiers {
            Qualifiers::All => true,
            Qualifiers::These(these) => these.contains(&put.qualifier),
        };
        let rank = self
            .newer(put)
            .filter(|other| self.candidate(other))
            .count();
        put.cell_type == CellType::Put
            && wanted
            && self.candidate(put)
            && rank < max_versions.min(self.rules.max_versions) as usize
            && (!self.expired(put) || rank < self.rules.min_versions as usize)
    }

    fn read(&self, max_versions: u32, qualifiers: &Qualifiers) -> Vec<StoredCell> {
        self.cells
            .iter()
            .filter(|cell| self.shows(cell, max_versions, qualifiers))
            .cloned()
            .collect()
    }
}

fn read_with(
    cells: &[StoredCell],
    rules: &Rules,
    range: TimeRange,
    max_versions: u32,
) -> Vec<StoredCell> {
    let purpose = Purpose::Read {
        time_range: range,
        max_versions,
        qualifiers: &Qualifiers::All,
        raw: false,
    };
    retain(cells.to_vec(), rules, purpose, NOW)
}

fn only_puts(cells: Vec<StoredCell>) -> Vec<StoredCell> {
    let mut cells = cells;
    cells.retain(|cell| cell.cell_type == CellType::Put);
    cells
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reads_equal_the_model(
        cells in cells(), rules in rules(), range in ranges(), max in 1..4_u32, columns in columns(),
    ) {
        let cells = numbered(cells, 1);
        let mut cells = cells;
        cells.iter_mut().for_each(|cell| cell.tags = Bytes::new());
        let model = Model { cells: &cells, rules: &rules, range };
        let purpose = Purpose::Read { time_range: range, max_versions: max, qualifiers: &columns, raw: false };
        prop_assert_eq!(retain(cells.clone(), &rules, purpose, NOW), model.read(max, &columns));
    }

    /// A fold, and a major compaction, change no answer; a fold also none after more puts.
    #[test]
    fn rewriting_a_whole_family_is_invisible(
        cells in cells(), more in cells(), rules in rules(), drop_markers in any::<bool>(),
    ) {
        let cells = numbered(cells, 1);
        let more = numbered(only_puts(more), 1000);
        let purpose = Purpose::Rewrite { whole: true, drop_markers };
        let kept = retain(cells.clone(), &rules, purpose, NOW);
        for max in 1..4 {
            prop_assert_eq!(
                read_with(&kept, &rules, TimeRange::ALL, max),
                read_with(&cells, &rules, TimeRange::ALL, max)
            );
            if !drop_markers {
                let (with, without) = (merge(kept.clone(), more.clone()), merge(cells.clone(), more.clone()));
                prop_assert_eq!(
                    read_with(&with, &rules, TimeRange::ALL, max),
                    read_with(&without, &rules, TimeRange::ALL, max)
                );
            }
        }
        if drop_markers && rules.keep_deleted == KeepDeletedCells::False {
            prop_assert!(kept.iter().all(|cell| cell.cell_type == CellType::Put));
        }
    }

    /// Rewriting a part changes no answer whatever older and newer cells there are, markers included.
    #[test]
    fn rewriting_a_part_is_invisible(
        older in cells(), part in cells(), newer in cells(), rules in rules(), range in ranges(), max in 1..4_u32,
    ) {
        let older = numbered(older, 1);
        let part = numbered(part, 1000);
        let newer = numbered(newer, 2000);
        let purpose = Purpose::Rewrite { whole: false, drop_markers: false };
        let kept = retain(part.clone(), &rules, purpose, NOW);
        let around = |middle: Vec<StoredCell>| merge(merge(older.clone(), middle), newer.clone());
        prop_assert_eq!(
            read_with(&around(kept), &rules, range, max),
            read_with(&around(part), &rules, range, max)
        );
    }

    #[test]
    fn rewriting_twice_is_rewriting_once(cells in cells(), rules in rules(), whole in any::<bool>()) {
        let purpose = Purpose::Rewrite { whole, drop_markers: false };
        let once = retain(numbered(cells, 1), &rules, purpose, NOW);
        prop_assert_eq!(retain(once.clone(), &rules, purpose, NOW), once);
    }
}

fn put(qualifier: &'static str, timestamp: i64) -> StoredCell {
    StoredCell {
        qualifier: Bytes::from_static(qualifier.as_bytes()),
        timestamp,
        cell_type: CellType::Put,
        sequence: 1,
        tags: Bytes::new(),
        value: Bytes::new(),
    }
}

const PLAIN: Rules = Rules {
    max_versions: 1,
    min_versions: 0,
    ttl_ms: None,
    keep_deleted: KeepDeletedCells::False,
    new_version_behavior: false,
};

#[test]
fn a_cells_own_ttl_only_shortens() {
    let mut tagged = put("q", 10);
    // Tag: length of type and payload, type 8, 5 ms.
    tagged.tags = Bytes::from_static(b"\0\x09\x08\0\0\0\0\0\0\0\x05");
    let cells = vec![tagged];
    let at = |now| {
        let purpose = Purpose::Read {
            time_range: TimeRange::ALL,
            max_versions: 1,
            qualifiers: &Qualifiers::All,
            raw: false,
        };
        let forever = Rules {
            min_versions: 1,
            ..PLAIN
        };
        retain(cells.clone(), &forever, purpose, now).len()
    };
    assert_eq!((at(15), at(16)), (1, 0));
}

#[test]
fn raw_shows_markers_and_hidden_cells_but_only_so_many_versions() {
    let mut marker = put("q", 9);
    marker.cell_type = CellType::DeleteColumn;
    let cells = sort(vec![put("q", 8), put("q", 7), marker, put("r", 1)]);
    let raw = |max_versions| {
        let purpose = Purpose::Read {
            time_range: TimeRange::ALL,
            max_versions,
            qualifiers: &Qualifiers::All,
            raw: true,
        };
        retain(cells.clone(), &PLAIN, purpose, NOW).len()
    };
    assert_eq!((raw(u32::MAX), raw(1)), (4, 3));
}

#[test]
fn a_hot_cell_is_trimmed_to_its_versions() {
    let cells = sort((0..600).map(|at| put("q", at)).collect());
    let purpose = Purpose::Rewrite {
        whole: true,
        drop_markers: false,
    };
    assert_eq!(retain(cells, &PLAIN, purpose, NOW), [put("q", 599)]);
}

#[test]
fn dominated_markers_go_in_a_fold() {
    let markers: Vec<_> = (0..100)
        .map(|at| StoredCell {
            cell_type: CellType::DeleteColumn,
            ..put("q", at)
        })
        .collect();
    let purpose = Purpose::Rewrite {
        whole: true,
        drop_markers: false,
    };
    let kept = retain(sort(markers), &PLAIN, purpose, NOW);
    let timestamps: BTreeSet<i64> = kept.iter().map(|cell| cell.timestamp).collect();
    assert_eq!(timestamps, BTreeSet::from([99]));
}
