//! Two versions side by side: y0 = F0(x), y1 = F1(x). Equal places: the record stays and is never blocked. Different
//! places: it moves, and is held while both versions are visible (R28, R31, R44, INV-7).

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Batch, Column, EvalError, Fields, Place, PlaceId, Program, RuleError, Slot, rule::Field,
};

/// Two versions of one rule.
#[derive(Clone, Debug)]
pub struct Both {
    old: Arc<Program>,
    new: Arc<Program>,
    /// Every place that either knows, numbered alike for both.
    places: Vec<Place>,
    old_ids: Vec<u32>,
    new_ids: Vec<u32>,
}

/// What two versions say of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Both send it to the same place.
    Stays(PlaceId),
    /// They do not.
    Moves {
        /// By the old version.
        from: PlaceId,
        /// By the new version.
        to: PlaceId,
    },
}

/// A row of a batch that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Number of the row in the batch.
    pub row: usize,
    /// By the old version.
    pub from: PlaceId,
    /// By the new version.
    pub to: PlaceId,
}

/// What became of a batch of rows. Kept and used again, it allocates nothing after the first time.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    old: Batch,
    new: Batch,
    /// Rows that move, ascending.
    pub moved: Vec<Moved>,
    /// Rows that one version has no slot for, ascending.
    pub errors: Vec<(usize, EvalError)>,
}

impl Both {
    /// Two versions of one rule. Fields may be added at the end, so that one record serves both.
    pub fn new(old: Arc<Program>, new: Arc<Program>) -> Result<Both, RuleError> {
        if old.rule().name != new.rule().name {
            return Err(RuleError::new(format!(
                "versions of different rules: {} and {}",
                old.rule().name,
                new.rule().name
            )));
        }
        let pairs = old.rule().fields.iter().zip(&new.rule().fields);
        let same = |(a, b): (&Field, &Field)| a.name == b.name && a.ty == b.ty;
        if let Some((a, b)) = pairs.clone().find(|it| !same(*it)) {
            return Err(RuleError::new(format!(
                "field {}: {} became {}: {}; fields may be added at the end, not changed",
                a.name, a.ty, b.name, b.ty
            )));
        }
        let mut numbers = BTreeMap::new();
        let mut places = Vec::new();
        let mut ids = |program: &Program| -> Vec<u32> {
            let slots = (0..program.map().slots()).map(Slot);
            slots
                .map(|slot| {
                    let place = program.map().place(slot);
                    let next = u32::try_from(places.len()).unwrap_or(u32::MAX);
                    *numbers.entry(place.clone()).or_insert_with(|| {
                        places.push(place.clone());
                        next
                    })
                })
                .collect()
        };
        let old_ids = ids(&old);
        let new_ids = ids(&new);
        Ok(Both {
            old,
            new,
            places,
            old_ids,
            new_ids,
        })
    }

    /// The version in force.
    pub fn old(&self) -> &Arc<Program> {
        &self.old
    }

    /// The version to come.
    pub fn new_version(&self) -> &Arc<Program> {
        &self.new
    }

    /// Every place that either knows; a [`PlaceId`] of this pair is its number here.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// A place.
    pub fn place(&self, id: PlaceId) -> &Place {
        &self.places[id.0 as usize]
    }

    /// The place of a slot of the old version.
    pub fn old_place(&self, slot: Slot) -> PlaceId {
        PlaceId(self.old_ids[slot.0 as usize])
    }

    /// The place of a slot of the new version.
    pub fn new_place(&self, slot: Slot) -> PlaceId {
        PlaceId(self.new_ids[slot.0 as usize])
    }

    /// How many fields a record must have: those of the version that has more.
    pub fn fields(&self) -> usize {
        self.old.types().len().max(self.new.types().len())
    }

    /// Both slots of a record.
    pub fn slots(&self, fields: &Fields<'_>) -> Result<(Slot, Slot), EvalError> {
        if fields.len() != self.fields() {
            return Err(EvalError::FieldCount {
                given: fields.len(),
                declared: self.fields(),
            });
        }
        Ok((
            self.old.evaluate(&fields[..self.old.types().len()])?,
            self.new.evaluate(&fields[..self.new.types().len()])?,
        ))
    }

    /// Whether a record stays or moves.
    pub fn route(&self, fields: &Fields<'_>) -> Result<Route, EvalError> {
        let (old, new) = self.slots(fields)?;
        let (from, to) = (self.old_place(old), self.new_place(new));
        Ok(match from == to {
            true => Route::Stays(from),
            false => Route::Moves { from, to },
        })
    }

    /// Which rows of a batch move. All columns have `rows` rows; there are as many as [`Both::fields`].
    pub fn compare(
        &self,
        columns: &[Column<'_>],
        rows: usize,
        out: &mut Comparison,
    ) -> Result<(), EvalError> {
        out.moved.clear();
        out.errors.clear();
        if columns.len() != self.fields() {
            return Err(EvalError::FieldCount {
                given: columns.len(),
                declared: self.fields(),
            });
        }
        let old = &columns[..self.old.types().len()];
        let new = &columns[..self.new.types().len()];
        self.old.evaluate_batch(old, rows, &mut out.old)?;
        self.new.evaluate_batch(new, rows, &mut out.new)?;
        if !out.old.errors.is_empty() || !out.new.errors.is_empty() {
            out.errors.extend_from_slice(&out.old.errors);
            out.errors.extend_from_slice(&out.new.errors);
            out.errors.sort_by_key(|(row, _)| *row);
            out.errors.dedup_by_key(|(row, _)| *row);
        }
        let pairs = out.old.slots.iter().zip(&out.new.slots);
        for (row, (old, new)) in pairs.enumerate() {
            let (from, to) = (self.old_ids[old.0 as usize], self.new_ids[new.0 as usize]);
            if from != to {
                out.moved.push(Moved {
                    row,
                    from: PlaceId(from),
                    to: PlaceId(to),
                });
            }
        }
        if !out.errors.is_empty() {
            let errors = &out.errors;
            out.moved.retain(|it| {
                errors
                    .binary_search_by_key(&it.row, |(row, _)| *row)
                    .is_err()
            });
        }
        Ok(())
    }
}
