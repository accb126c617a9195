//! Load: how many rows and bytes each slot and place holds under one version, how even that is, and what the version refuses.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Place, PlaceId, Program, Slot};

/// Rows and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Rows, or accesses.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    /// Adds; stays at the largest number there is.
    pub fn add(&mut self, rows: u64, bytes: u64) {
        self.rows = self.rows.saturating_add(rows);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Reasons that are counted apart; a closed set of messages but for numbers in them.
const REASONS_MAX: usize = 100;

/// Counts under one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    slots: BTreeMap<Slot, Count>,
    refused: BTreeMap<String, u64>,
}

/// How even the places of a version are, in thousandths of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evenness {
    /// The fullest place.
    pub max_permille: u64,
    /// The emptiest place.
    pub min_permille: u64,
    /// Places.
    pub places: usize,
    /// Places without any row.
    pub empty: usize,
}

impl Load {
    /// Rows of a slot.
    pub fn add(&mut self, slot: Slot, rows: u64, bytes: u64) {
        self.slots.entry(slot).or_default().add(rows, bytes);
    }

    /// Rows that the version refuses.
    pub fn refuse(&mut self, why: impl ToString, rows: u64) {
        let mut why = why.to_string();
        if self.refused.len() >= REASONS_MAX && !self.refused.contains_key(&why) {
            "other reasons".clone_into(&mut why);
        }
        let refused = self.refused.entry(why).or_default();
        *refused = refused.saturating_add(rows);
    }

    /// What was refused, by what the version said.
    pub fn refused(&self) -> &BTreeMap<String, u64> {
        &self.refused
    }

    /// Every slot that has rows.
    pub fn slots(&self) -> &BTreeMap<Slot, Count> {
        &self.slots
    }

    /// The load of every place that the version has, the empty ones too.
    pub fn places<'p>(&self, program: &'p Program) -> Vec<(&'p Place, Count)> {
        let places = program.map().places().iter();
        let mut loads: Vec<_> = places.map(|it| (it, Count::default())).collect();
        for (slot, count) in &self.slots {
            let PlaceId(place) = program.map().id(*slot);
            loads[place as usize].1.add(count.rows, count.bytes);
        }
        loads
    }

    /// The slots with most rows.
    pub fn hottest(&self, count: usize) -> Vec<(Slot, Count)> {
        let mut slots: Vec<_> = self.slots.iter().map(|it| (*it.0, *it.1)).collect();
        slots.sort_by_key(|(slot, count)| (Reverse(count.rows), *slot));
        slots.truncate(count);
        slots
    }

    /// How even the version's places are; of no rows at all, as even as can be.
    pub fn evenness(&self, program: &Program) -> Evenness {
        let places = self.places(program);
        let rows = || places.iter().map(|(_, count)| count.rows);
        let total: u128 = rows().map(u128::from).sum();
        let permille = |rows: Option<u64>| {
            let share = u128::from(rows.unwrap_or(0)) * places.len() as u128 * 1000;
            let share = share.checked_div(total);
            share.map_or(1000, |it| u64::try_from(it).unwrap_or(u64::MAX))
        };
        Evenness {
            max_permille: permille(rows().max()),
            min_permille: permille(rows().min()),
            places: places.len(),
            empty: rows().filter(|rows| *rows == 0).count(),
        }
    }
}
