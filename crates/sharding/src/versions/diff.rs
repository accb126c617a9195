//! What differs between two versions, before anything is started (R30, R43): exactly and without looking at data when only the
//! map changed, by evaluating rows or samples otherwise.

use std::{cmp::Reverse, collections::BTreeMap};

use super::both::Both;
use crate::{EvalError, Fields, PlaceId, Slot};

/// A slot that another place is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapChange {
    /// The slot.
    pub slot: Slot,
    /// By the old version.
    pub from: PlaceId,
    /// By the new version.
    pub to: PlaceId,
}

/// Every slot that moves, if the versions differ by their map only; none if their logic differs, so that only rows can
/// tell.
pub fn map_changes(both: &Both) -> Option<Vec<MapChange>> {
    let (old, new) = (both.old(), both.new_version());
    if old.logic_hash() != new.logic_hash() {
        return None;
    }
    let slots = (0..old.map().slots()).map(Slot);
    let changes = slots.filter_map(|slot| {
        let (from, to) = (both.old_place(slot), both.new_place(slot));
        (from != to).then_some(MapChange { slot, from, to })
    });
    Some(changes.collect())
}

/// Rows, bytes and accesses, as far as the caller knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What moves from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLoad {
    /// By the old version.
    pub from: PlaceId,
    /// By the new version.
    pub to: PlaceId,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a place holds before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceLoad {
    /// The place.
    pub place: PlaceId,
    /// Rows by the old version.
    pub rows_before: u64,
    /// Bytes by the old version.
    pub bytes_before: u64,
    /// Rows by the new version.
    pub rows_after: u64,
    /// Bytes by the new version.
    pub bytes_after: u64,
}

/// What a slot of the new version holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLoad {
    /// The slot.
    pub slot: Slot,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

/// How evenly rows lie over the places that a version uses (R18): 1000 would be the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evenness {
    /// The fullest place, thousandths of the mean.
    pub max_permille: u64,
    /// The emptiest place, thousandths of the mean.
    pub min_permille: u64,
    /// Places.
    pub places: usize,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Rows evaluated.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Rows that move.
    pub rows_moved: u64,
    /// Bytes of them.
    pub bytes_moved: u64,
    /// From where to where, most bytes first.
    pub pairs: Vec<PairLoad>,
    /// Every place, by number.
    pub places: Vec<PlaceLoad>,
    /// By the old version.
    pub before: Evenness,
    /// By the new version.
    pub after: Evenness,
    /// The fullest slots of the new version, fullest first.
    pub hottest: Vec<SlotLoad>,
    /// Rows without a slot, by cause, and the number of the first of each.
    pub errors: Vec<(EvalError, u64, u64)>,
}

/// Most kinds of errors that are told apart.
const ERRORS_MAX: usize = 64;

/// Rows being compared.
#[derive(Debug)]
pub struct Diff<'b> {
    both: &'b Both,
    total: Count,
    pairs: BTreeMap<(PlaceId, PlaceId), Count>,
    old_places: Vec<Count>,
    new_places: Vec<Count>,
    slots: Vec<Count>,
    errors: Vec<(EvalError, u64, u64)>,
    /// Rows given, with and without a slot.
    given: u64,
}

impl<'b> Diff<'b> {
    /// Nothing compared yet.
    pub fn new(both: &'b Both) -> Diff<'b> {
        let places = both.places().len();
        Diff {
            both,
            total: Count::default(),
            pairs: BTreeMap::new(),
            old_places: vec![Count::default(); places],
            new_places: vec![Count::default(); places],
            slots: vec![Count::default(); both.new_version().map().slots() as usize],
            errors: Vec::new(),
            given: 0,
        }
    }

    /// One row of so many bytes. A row that a version has no slot for is counted as an error.
    pub fn add(&mut self, fields: &Fields<'_>, bytes: u64) {
        self.given += 1;
        match self.both.slots(fields) {
            Ok((old, new)) => self.add_slots(old, new, bytes),
            Err(error) => match self.errors.iter().position(|(it, ..)| *it == error) {
                Some(at) => self.errors[at].1 += 1,
                None if self.errors.len() < ERRORS_MAX => self.errors.push((error, 1, self.given)),
                None => {}
            },
        }
    }

    fn add_slots(&mut self, old: Slot, new: Slot, bytes: u64) {
        let (from, to) = (self.both.old_place(old), self.both.new_place(new));
        self.total.add(bytes);
        self.old_places[from.0 as usize].add(bytes);
        self.new_places[to.0 as usize].add(bytes);
        self.slots[new.0 as usize].add(bytes);
        if from != to {
            self.pairs.entry((from, to)).or_default().add(bytes);
        }
    }

    /// What was found so far, with so many of the hottest slots.
    pub fn report(&self, hottest: usize) -> Report {
        let mut pairs: Vec<_> = self
            .pairs
            .iter()
            .map(|((from, to), count)| PairLoad {
                from: *from,
                to: *to,
                rows: count.rows,
                bytes: count.bytes,
            })
            .collect();
        pairs.sort_by_key(|it| Reverse((it.bytes, it.rows)));
        let mut slots: Vec<_> = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, count)| count.rows > 0)
            .map(|(at, count)| SlotLoad {
                slot: Slot(u32::try_from(at).unwrap_or(u32::MAX)),
                rows: count.rows,
                bytes: count.bytes,
            })
            .collect();
        slots.sort_by_key(|it| Reverse((it.bytes, it.rows)));
        slots.truncate(hottest);
        let both = self.both;
        let old_used = used(both, |slot| both.old_place(slot), both.old().map().slots());
        let new_used = used(
            both,
            |slot| both.new_place(slot),
            both.new_version().map().slots(),
        );
        Report {
            rows: self.total.rows,
            bytes: self.total.bytes,
            rows_moved: pairs.iter().map(|it| it.rows).sum(),
            bytes_moved: pairs.iter().map(|it| it.bytes).sum(),
            before: evenness(&self.old_places, &old_used),
            after: evenness(&self.new_places, &new_used),
            places: self.place_loads(),
            pairs,
            hottest: slots,
            errors: self.errors.clone(),
        }
    }

    fn place_loads(&self) -> Vec<PlaceLoad> {
        let pairs = self.old_places.iter().zip(&self.new_places).enumerate();
        pairs
            .map(|(at, (before, after))| PlaceLoad {
                place: PlaceId(u32::try_from(at).unwrap_or(u32::MAX)),
                rows_before: before.rows,
                bytes_before: before.bytes,
                rows_after: after.rows,
                bytes_after: after.bytes,
            })
            .collect()
    }
}

/// Which places a version uses at all.
fn used(both: &Both, place: impl Fn(Slot) -> PlaceId, slots: u32) -> Vec<bool> {
    let mut used = vec![false; both.places().len()];
    for slot in (0..slots).map(Slot) {
        used[place(slot).0 as usize] = true;
    }
    used
}

fn evenness(places: &[Count], used: &[bool]) -> Evenness {
    let rows = || {
        places
            .iter()
            .zip(used)
            .filter(|(_, it)| **it)
            .map(|(it, _)| it.rows)
    };
    let count = rows().count();
    let total = u128::from(rows().sum::<u64>());
    let permille = |rows: u64| {
        let share = (u128::from(rows) * count as u128 * 1000).checked_div(total);
        share.map_or(1000, |it| u64::try_from(it).unwrap_or(u64::MAX))
    };
    Evenness {
        max_permille: permille(rows().max().unwrap_or(0)),
        min_permille: permille(rows().min().unwrap_or(0)),
        places: count,
    }
}
