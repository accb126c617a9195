//! Where a row is, and which tables a scan visits, from what is visible of a rule. Pure: it must not know of clients or sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_sharding::enumerate::{BUDGET_DEFAULT, Moves, condition_of_rows, moves, rows_of};
use cadastre_sharding::versions::View;
use cadastre_sharding::{
    EvalError, Filter, KeyPart, KeyedError, Options, Place, PlaceId, Predicate, Program, Slot,
    Unbounded, Value, enumerate, limits,
};
use cadastre_types::{Error, Result, Scan};

use super::Order;
use crate::notation;

/// Where a row is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Where {
    /// Here, by every version that is visible.
    At(Place),
    /// In different places by the two versions that are visible; none: one of them has no place for it.
    Moves {
        from: Option<Place>,
        to: Option<Place>,
    },
    /// The rule does not say (`else all`).
    Everywhere,
}

/// `version 3 of the rule orders`: the newest that is visible.
pub(super) fn title(view: &View) -> String {
    let rule = newest(view).rule();
    format!("version {} of the rule {}", rule.version, rule.name)
}

/// The version to come, or the only one.
fn newest(view: &View) -> &Arc<Program> {
    match view {
        View::One(program) => program,
        View::Two(both) => both.new_version(),
    }
}

/// The version in force.
pub(super) fn in_force(view: &View) -> &Arc<Program> {
    match view {
        View::One(program) => program,
        View::Two(both) => both.old(),
    }
}

/// Refuses rules that cannot place rows by their keys.
pub(super) fn check(view: &View) -> Result<()> {
    match view {
        View::One(program) => check_program(program),
        View::Two(both) => {
            check_program(both.old())?;
            check_program(both.new_version())
        }
    }
}

fn check_program(program: &Program) -> Result<()> {
    let rule = program.rule();
    let Some(key) = &rule.key else {
        return Err(Error::invalid(format!(
            "the rule {} does not say how a row key holds its fields: add `key …;` (docs/rules.md)",
            rule.name
        )));
    };
    let held: BTreeSet<u16> = key.fields().collect();
    match program.used_fields().iter().find(|it| !held.contains(it)) {
        None => Ok(()),
        Some(field) => Err(Error::invalid(format!(
            "the rule {} looks at {}, which its row keys do not hold",
            rule.name,
            rule.fields[usize::from(*field)].name
        ))),
    }
}

/// All places that the visible versions have, each once.
pub(super) fn places(view: &View) -> Vec<&Place> {
    match view {
        View::One(program) => program.map().places().iter().collect(),
        View::Two(both) => both.places().iter().collect(),
    }
}

/// Where a row is.
pub(super) fn route(view: &View, row: &[u8]) -> Result<Where> {
    let place = |program: &Program, slot| program.map().place(slot).clone();
    match view {
        View::One(program) => match program.evaluate_key(row) {
            Ok(slot) => Ok(Where::At(place(program, slot))),
            Err(KeyedError::Eval(EvalError::Everywhere)) => Ok(Where::Everywhere),
            Err(fault) => Err(no_place(program, row, fault)),
        },
        View::Two(both) => {
            let (old, new) = (both.old(), both.new_version());
            match (old.evaluate_key(row), new.evaluate_key(row)) {
                (Ok(from), Ok(to)) if both.old_place(from) == both.new_place(to) => {
                    Ok(Where::At(place(old, from)))
                }
                (Err(fault), Err(_)) if fault != KeyedError::Eval(EvalError::Everywhere) => {
                    Err(no_place(old, row, fault))
                }
                (from, to) => Ok(Where::Moves {
                    from: from.ok().map(|slot| place(old, slot)),
                    to: to.ok().map(|slot| place(new, slot)),
                }),
            }
        }
    }
}

fn no_place(program: &Program, row: &[u8], fault: KeyedError) -> Error {
    let rule = program.rule();
    Error::invalid(format!(
        "row '{}' has no place by version {} of the rule {}: {fault}",
        notation::to_text(row),
        rule.version,
        rule.name
    ))
}

/// What a scan asks for, as the rule sees it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// In the words of the rule language.
    pub(super) condition: Option<String>,
    /// What `now()` is, microseconds since 1970.
    pub(super) now_us: i64,
    /// First row.
    pub(super) from: Vec<u8>,
    /// The row behind the last; empty: no end.
    pub(super) to: Vec<u8>,
    pub(super) reversed: bool,
    pub(super) order: Order,
    pub(super) unbounded: Unbounded,
}

/// Which tables a scan visits, and what it looks at in them.
#[derive(Debug)]
pub(super) struct Plan {
    /// The version that it goes by.
    pub(super) program: Arc<Program>,
    /// In the order in which they are visited; none if no row can match.
    pub(super) places: Vec<PlaceId>,
    /// Whether one after the other is right; else they are merged.
    pub(super) serial: bool,
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
    filter: Filter,
    /// Nothing bounds the tables, because of this term, and the policy is to warn.
    pub(super) warning: Option<String>,
}

impl Asked {
    /// First row and the row behind the last, whichever way the scan goes.
    pub(super) fn rows(scan: &Scan) -> (Vec<u8>, Vec<u8>) {
        let behind = |row: &Bytes| [row, &[0][..]].concat();
        let bound = |row: &Bytes, and_behind: bool| match (row.is_empty(), and_behind) {
            (true, _) => Vec::new(),
            (false, true) => behind(row),
            (false, false) => row.to_vec(),
        };
        match scan.reversed {
            false => (
                bound(&scan.start_row, !scan.include_start_row),
                bound(&scan.stop_row, scan.include_stop_row),
            ),
            true => (
                bound(&scan.stop_row, !scan.include_stop_row),
                bound(&scan.start_row, scan.include_start_row),
            ),
        }
    }

    /// The condition and what the range of rows says, on fields that are never null, since keys hold them.
    fn predicate(&self, program: &Program) -> Result<(Predicate, Filter)> {
        let rule = program.rule();
        let asked = match &self.condition {
            None => Predicate::True,
            Some(text) => Predicate::parse(rule, text, Some(self.now_us))
                .map_err(|fault| Error::invalid(format!("the condition: {fault}")))?,
        };
        let held: BTreeSet<u16> = rule.key.iter().flat_map(|it| it.fields()).collect();
        if let Some(field) = asked.fields().into_iter().find(|it| !held.contains(it)) {
            return Err(Error::invalid(format!(
                "the condition is on {}, which row keys do not hold",
                rule.fields[usize::from(field)].name
            )));
        }
        let filter = Filter::new(rule, &asked)
            .map_err(|fault| Error::invalid(format!("the condition: {fault}")))?;
        let mut terms = vec![asked, condition_of_rows(rule, &self.from, &self.to)];
        terms.extend(held.into_iter().map(|it| {
            let is_null = Predicate::IsNull(it);
            Predicate::Not(Box::new(is_null))
        }));
        Ok((Predicate::And(terms), filter))
    }

    /// Why the scan has to wait: a record that meets its condition may move.
    pub(super) fn held(&self, view: &View) -> Result<Option<String>> {
        let View::Two(both) = view else {
            return Ok(None);
        };
        let (predicate, _) = self.predicate(both.old())?;
        let rows = match moves(both, &predicate, BUDGET_DEFAULT) {
            Moves::None => return Ok(None),
            Moves::Some => "rows that the scan asks for move".to_owned(),
            Moves::Unknown(cause) => {
                format!("rows that the scan asks for may move (nobody can tell because of {cause})")
            }
        };
        let title = title(view);
        Ok(Some(format!(
            "{rows} with {title}, which is not in force yet"
        )))
    }

    /// The plan by the version in force.
    pub(super) fn plan(&self, view: &View) -> Result<Plan> {
        let program = Arc::clone(in_force(view));
        let rule = program.rule();
        let (predicate, filter) = self.predicate(&program)?;
        let first = rule.key.as_ref().and_then(|it| it.parts.first());
        // Fields whose order is the rows' order, or its contrary.
        let sort = match first {
            Some(KeyPart::Fixed { field } | KeyPart::Width { field, .. }) => Some((*field, false)),
            Some(KeyPart::Reversed { field }) => Some((*field, true)),
            Some(KeyPart::Rest { field }) => Some((*field, false)),
            _ => None,
        };
        let options = Options {
            unbounded: self.unbounded,
            sort: sort.map(|it| it.0).filter(|_| self.order == Order::Row),
            budget: BUDGET_DEFAULT,
        };
        let mut found = enumerate(&program, &predicate, options).map_err(|refused| {
            Error::invalid(format!(
                "{refused}: bound the rule's fields by a condition, or let the scan visit all tables"
            ))
        })?;
        let warning = found.cause.take().filter(|_| found.warn);
        if let (Some((_, descending)), Some(_)) = (sort, found.ordered_by)
            && descending != self.reversed
        {
            found.slots.reverse();
        }
        let (places, again) = distinct(&program, &found.slots);
        let serial = match self.order {
            Order::Rule => true,
            Order::Row => places.len() <= 1 || found.ordered_by.is_some() && !again,
        };
        let (from, to) = match rows_of(rule, &predicate) {
            None => return Ok(self.nothing(&program, filter)),
            Some(rows) => both_ranges((&self.from, &self.to), rows),
        };
        if !to.is_empty() && from >= to {
            return Ok(self.nothing(&program, filter));
        }
        Ok(Plan {
            places,
            serial,
            from,
            to,
            filter,
            warning,
            program,
        })
    }

    fn nothing(&self, program: &Arc<Program>, filter: Filter) -> Plan {
        Plan {
            program: Arc::clone(program),
            places: Vec::new(),
            serial: true,
            from: self.from.clone(),
            to: self.to.clone(),
            filter,
            warning: None,
        }
    }
}

/// The places of slots in order, each once, and whether one came again after another.
fn distinct(program: &Program, slots: &[Slot]) -> (Vec<PlaceId>, bool) {
    let mut held = BTreeSet::new();
    let mut places = Vec::new();
    let (mut last, mut again) = (None, false);
    for slot in slots {
        let id = program.map().id(*slot);
        if held.insert(id) {
            places.push(id);
        } else {
            again |= last != Some(id);
        }
        last = Some(id);
    }
    (places, again)
}

/// What lies in both ranges; an empty end is none.
fn both_ranges(a: (&[u8], &[u8]), b: (Vec<u8>, Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    let to = match (a.1.is_empty(), b.1.is_empty()) {
        (true, _) => b.1,
        (false, true) => a.1.to_vec(),
        (false, false) => b.1.min(a.1.to_vec()),
    };
    (b.0.max(a.0.to_vec()), to)
}

impl Plan {
    /// A place of it.
    pub(super) fn place(&self, id: PlaceId) -> &Place {
        &self.program.map().places()[id.0 as usize]
    }

    /// Whether a row of a table is one of the scan's: it meets the condition, and the rule places it there. What a move has left
    /// behind, or brings, is not seen.
    pub(super) fn takes(&self, row: &[u8], place: PlaceId) -> Result<bool> {
        let mut room = [Value::Null; limits::FIELDS_MAX];
        // A row that no client of this rule has written is none of the scan's.
        let Ok(fields) = self.program.read_key(row, &mut room) else {
            return Ok(false);
        };
        match self.program.evaluate(fields) {
            Ok(slot) if self.program.map().id(slot) == place => {}
            Err(EvalError::Everywhere) => {}
            Ok(_) | Err(_) => return Ok(false),
        }
        self.filter.matches(fields).map_err(|fault| {
            Error::invalid(format!(
                "the condition cannot be evaluated for row '{}': {fault}",
                notation::to_text(row)
            ))
        })
    }
}

#[cfg(test)]
mod tests;
