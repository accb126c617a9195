//! What differs between two versions, before anything is started (R30, R43): exactly and without looking at data when only the
//! map changed, by evaluating rows or samples otherwise.

use std::collections::BTreeMap;

use super::both::Both;
use super::load::{Count, Load};
use crate::{Fields, PlaceId, Slot};

/// A slot that lives elsewhere by the other version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapChange {
    /// The slot, the same by both.
    pub slot: Slot,
    /// Where it is.
    pub from: PlaceId,
    /// Where it goes.
    pub to: PlaceId,
}

/// The slots that move, if nothing but the map changed: then every row keeps its slot, and this is exact. `None` if the
/// decision itself differs.
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

/// Counts what rows do, one after the other. Rows that one of the versions refuses are counted as refused by it, and nowhere else.
#[derive(Debug)]
pub struct Diff<'b> {
    both: &'b Both,
    stays: Count,
    moves: Count,
    pairs: BTreeMap<(PlaceId, PlaceId), Count>,
    old: Load,
    new: Load,
}

impl<'b> Diff<'b> {
    /// Nothing was counted.
    pub fn new(both: &'b Both) -> Diff<'b> {
        Diff {
            both,
            stays: Count::default(),
            moves: Count::default(),
            pairs: BTreeMap::new(),
            old: Load::default(),
            new: Load::default(),
        }
    }

    /// Rows with these fields (as many as the version with more of them has), their bytes together.
    pub fn add(&mut self, fields: &Fields<'_>, rows: u64, bytes: u64) {
        let (old, new) = (self.both.old(), self.both.new_version());
        let of = |program: &crate::Program| {
            let own = fields.get(..program.types().len()).unwrap_or(fields);
            program.evaluate(own)
        };
        self.count(of(old), of(new), rows, bytes);
    }

    /// A row by its key, which each version reads by its own key schema.
    pub fn add_key(&mut self, key: &[u8], bytes: u64) {
        let (old, new) = (self.both.old(), self.both.new_version());
        self.count(old.evaluate_key(key), new.evaluate_key(key), 1, bytes);
    }

    fn count<E: ToString>(
        &mut self,
        old: Result<Slot, E>,
        new: Result<Slot, E>,
        rows: u64,
        bytes: u64,
    ) {
        match (old, new) {
            (Ok(old), Ok(new)) => {
                self.old.add(old, rows, bytes);
                self.new.add(new, rows, bytes);
                let (from, to) = (self.both.old_place(old), self.both.new_place(new));
                if from == to {
                    self.stays.add(rows, bytes);
                } else {
                    self.moves.add(rows, bytes);
                    self.pairs.entry((from, to)).or_default().add(rows, bytes);
                }
            }
            (old, new) => {
                if let Err(why) = old {
                    self.old.refuse(why.to_string(), rows);
                }
                if let Err(why) = new {
                    self.new.refuse(why.to_string(), rows);
                }
            }
        }
    }

    /// The two versions.
    pub fn both(&self) -> &'b Both {
        self.both
    }

    /// What stays where it is.
    pub fn stays(&self) -> Count {
        self.stays
    }

    /// What moves.
    pub fn moves(&self) -> Count {
        self.moves
    }

    /// What moves from where to where, by places of [`Both::places`].
    pub fn pairs(&self) -> &BTreeMap<(PlaceId, PlaceId), Count> {
        &self.pairs
    }

    /// The load by the version in force, and what it refuses.
    pub fn old(&self) -> &Load {
        &self.old
    }

    /// The load by the version to come, and what it refuses.
    pub fn new_version(&self) -> &Load {
        &self.new
    }

    /// Whether a version refuses any row.
    pub fn has_refused(&self) -> bool {
        !self.old.refused().is_empty() || !self.new.refused().is_empty()
    }
}
