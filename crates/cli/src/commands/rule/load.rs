//! Load: how many rows and bytes each place and slot holds, and how even that is. Pure.

use std::collections::BTreeMap;

use cadastre_sharding::Program;
use cadastre_sharding::Slot;
use serde_json::{Value as Json, json};

use super::source::{place_text, slot_text};

/// Rows and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, rows: u64, bytes: u64) {
        self.rows = self.rows.saturating_add(rows);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Counts under one rule.
#[derive(Debug, Default)]
pub(super) struct Load {
    slots: BTreeMap<Slot, Amount>,
    /// Records that the rule refuses, by what it says.
    refused: BTreeMap<String, u64>,
}

/// How even a load is: shares of the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evenness {
    /// The heaviest place over the mean.
    pub(super) highest: f64,
    /// The lightest place over the mean.
    pub(super) lowest: f64,
    /// Places without any row.
    pub(super) empty: usize,
}

impl Load {
    pub(super) fn add(&mut self, slot: Slot, rows: u64, bytes: u64) {
        self.slots.entry(slot).or_default().add(rows, bytes);
    }

    pub(super) fn refuse(&mut self, why: impl ToString, rows: u64) {
        // A closed set of messages but for numbers in them: enough to see, never without bound.
        const REASONS_MAX: usize = 100;
        let mut why = why.to_string();
        if self.refused.len() >= REASONS_MAX && !self.refused.contains_key(&why) {
            "other reasons".clone_into(&mut why);
        }
        *self.refused.entry(why).or_default() += rows;
    }

    pub(super) fn refused(&self) -> &BTreeMap<String, u64> {
        &self.refused
    }

    pub(super) fn slots(&self) -> &BTreeMap<Slot, Amount> {
        &self.slots
    }

    /// The load of every place that the rule has, by name; the empty ones too.
    pub(super) fn places(&self, program: &Program) -> BTreeMap<String, Amount> {
        let mut places: BTreeMap<String, Amount> = BTreeMap::new();
        for slot in (0..program.shape().slots()).map(Slot) {
            let amount = self.slots.get(&slot).copied().unwrap_or_default();
            places
                .entry(place_text(program, slot))
                .or_default()
                .add(amount.rows, amount.bytes);
        }
        places
    }

    /// The slots with most rows.
    pub(super) fn hottest(&self, count: usize) -> Vec<(Slot, Amount)> {
        let mut slots: Vec<(Slot, Amount)> = self.slots.iter().map(|it| (*it.0, *it.1)).collect();
        slots.sort_by_key(|(slot, amount)| (std::cmp::Reverse(amount.rows), *slot));
        slots.truncate(count);
        slots
    }
}

/// How even places are; of no rows at all, as even as can be.
pub(super) fn evenness(places: &BTreeMap<String, Amount>) -> Evenness {
    let rows = || places.values().map(|amount| amount.rows);
    let mean = rows().sum::<u64>() as f64 / places.len().max(1) as f64;
    let share = |rows: Option<u64>| {
        if mean == 0.0 {
            1.0
        } else {
            rows.unwrap_or(0) as f64 / mean
        }
    };
    Evenness {
        highest: share(rows().max()),
        lowest: share(rows().min()),
        empty: rows().filter(|rows| *rows == 0).count(),
    }
}

impl Evenness {
    pub(super) fn text(self) -> String {
        let empty = match self.empty {
            0 => String::new(),
            n => format!(", {n} empty"),
        };
        format!(
            "heaviest {:.2} of the mean, lightest {:.2}{empty}",
            self.highest, self.lowest
        )
    }

    pub(super) fn json(self) -> Json {
        json!({ "highest": self.highest, "lowest": self.lowest, "empty": self.empty })
    }
}

/// `(7, 31) 12 rows`
pub(super) fn slot_amount_text(program: &Program, slot: Slot, amount: Amount) -> String {
    format!("{} {} rows", slot_text(program, slot), amount.rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_is_told_in_means() {
        let of = |rows: &[u64]| {
            let named = rows.iter().enumerate();
            evenness(
                &named
                    .map(|(at, rows)| {
                        (
                            at.to_string(),
                            Amount {
                                rows: *rows,
                                bytes: 0,
                            },
                        )
                    })
                    .collect(),
            )
        };
        assert_eq!(
            of(&[1, 3]),
            Evenness {
                highest: 1.5,
                lowest: 0.5,
                empty: 0
            }
        );
        assert_eq!(
            of(&[0, 4]),
            Evenness {
                highest: 2.0,
                lowest: 0.0,
                empty: 1
            }
        );
        assert_eq!(
            of(&[0, 0]).text(),
            "heaviest 1.00 of the mean, lightest 1.00, 2 empty"
        );
        assert_eq!(of(&[]).highest, 1.0);
    }

    #[test]
    fn reasons_are_bounded() {
        let mut load = Load::default();
        for number in 0..1_000 {
            load.refuse(format!("reason {number}"), 1);
        }
        assert_eq!(load.refused().len(), 101);
        assert_eq!(load.refused()["other reasons"], 900);
    }
}
