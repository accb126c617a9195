//! Whether any record that meets a condition moves between two versions: both rules are walked over pieces on which both are constant.
//! It must not say no where it does not know.

use super::{
    Predicate,
    conjunct::{Conjunct, normal},
    image::{Interpreter, Known},
    looks::Looks,
    zero,
};
use crate::{
    EvalError, Options, Program, enumerate,
    rule::expressions,
    value::{Literal, Value},
    versions::{Both, map_changes},
};

/// What is known of the records that meet a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moves {
    /// None of them moves, certainly.
    None,
    /// Some would, if they were there.
    Some,
    /// Nobody can tell, because of this.
    Unknown(String),
}

/// Whether records that meet a condition move between the two versions, in at most so many evaluations.
#[must_use]
pub fn moves(both: &Both, predicate: &Predicate, budget: usize) -> Moves {
    if let Some(changes) = map_changes(both) {
        let found = match enumerate(
            both.old(),
            predicate,
            Options {
                budget,
                ..Options::default()
            },
        ) {
            Ok(found) => found,
            Err(refused) => return Moves::Unknown(refused.cause),
        };
        // In the order of their slots.
        let moves = |slot| changes.binary_search_by_key(&slot, |it| it.slot).is_ok();
        return match (found.slots.into_iter().any(moves), found.cause) {
            (false, _) => Moves::None,
            (true, None) => Moves::Some,
            (true, Some(cause)) => Moves::Unknown(cause),
        };
    }
    if both.old().is_script() || both.new_version().is_script() {
        return Moves::Unknown("a script".to_owned());
    }
    Walk::new(both, budget).run(predicate)
}

struct Walk<'b> {
    both: &'b Both,
    /// Fields that one of the rules looks at, and what both look at in them.
    looks: Vec<(u16, Looks<'b>)>,
    budget: usize,
}

/// A field and a value of each of its pieces, null among them if it may be.
struct Column {
    field: u16,
    samples: Vec<Option<Literal>>,
    partial: bool,
}

impl<'b> Walk<'b> {
    fn new(both: &'b Both, budget: usize) -> Self {
        let programs = [both.old(), both.new_version()];
        let mut used: Vec<u16> = programs
            .iter()
            .flat_map(|it| it.used_fields())
            .copied()
            .collect();
        used.sort_unstable();
        used.dedup();
        let looks = used.into_iter().map(|field| {
            let looks = programs
                .iter()
                .filter(|it| usize::from(field) < it.types().len());
            let joined = looks.map(|it| Looks::of(it, field)).reduce(Looks::join);
            (field, joined.unwrap_or_default())
        });
        Walk {
            both,
            looks: looks.collect(),
            budget,
        }
    }

    fn run(mut self, predicate: &Predicate) -> Moves {
        let types = self.types();
        let nodes: usize = [self.both.old(), self.both.new_version()]
            .iter()
            .flat_map(|it| expressions(it.rule()))
            .map(|it| it.nodes())
            .sum();
        let normal = normal(predicate, types.1.types(), super::NODES_MAX / nodes.max(1));
        self.budget = self.budget.min(super::STEPS_MAX / nodes.max(1));
        let mut unknown = None;
        for conjunct in &normal.conjuncts {
            match self.conjunct(conjunct, types.1) {
                Moves::None => {}
                Moves::Some => return Moves::Some,
                Moves::Unknown(cause) => unknown = unknown.or(Some(cause)),
            }
        }
        unknown.map_or(Moves::None, Moves::Unknown)
    }

    /// The version with fewer fields, and the one with more.
    fn types(&self) -> (&'b Program, &'b Program) {
        let (old, new) = (self.both.old(), self.both.new_version());
        match old.types().len() <= new.types().len() {
            true => (old, new),
            false => (new, old),
        }
    }

    fn conjunct(&mut self, conjunct: &Conjunct, wide: &Program) -> Moves {
        let sets = conjunct.fields.iter();
        let values: Vec<_> = sets.map(|it| it.values.clone()).collect();
        let can_fail = [self.both.old(), self.both.new_version()].iter().any(|it| {
            let values = values[..it.types().len()].to_vec();
            Interpreter::new(it).answer(Known::new(values)).can_fail
        });
        let budget = self.budget;
        let columns: Vec<Column> = self
            .looks
            .iter()
            .map(|(field, looks)| {
                let at = usize::from(*field);
                let pieces = looks.pieces(&values[at], wide.types()[at], can_fail, budget);
                let null = conjunct.fields[at].null.then_some(None);
                Column {
                    field: *field,
                    samples: null
                        .into_iter()
                        .chain(pieces.samples.into_iter().map(Some))
                        .collect(),
                    partial: pieces.partial,
                }
            })
            .collect();
        self.walk(&columns, wide)
    }

    fn walk(&mut self, columns: &[Column], wide: &Program) -> Moves {
        let defaults: Vec<Literal> = wide.types().iter().map(|ty| zero(*ty)).collect();
        let mut fields: Vec<Value<'_>> = defaults.iter().map(Literal::value).collect();
        let name = |it: &Column| wide.rule().fields[usize::from(it.field)].name.clone();
        let unknown = || {
            let widest = columns
                .iter()
                .max_by_key(|it| (it.partial, it.samples.len()));
            Moves::Unknown(format!(
                "the values of {}",
                widest.map_or_else(String::new, name)
            ))
        };
        let combinations = columns.iter().map(|it| it.samples.len());
        let combinations = combinations.fold(1_usize, usize::saturating_mul);
        for number in 0..combinations {
            let Some(left) = self.budget.checked_sub(1) else {
                return unknown();
            };
            self.budget = left;
            let mut rest = number;
            for column in columns {
                let sample = &column.samples[rest % column.samples.len()];
                rest /= column.samples.len();
                fields[usize::from(column.field)] =
                    sample.as_ref().map_or(Value::Null, Literal::value);
            }
            let (old, new) = (self.both.old(), self.both.new_version());
            let of = |program: &Program| program.evaluate(&fields[..program.types().len()]);
            match (of(old), of(new)) {
                (Ok(old), Ok(new)) if self.both.old_place(old) == self.both.new_place(new) => {}
                (Err(EvalError::Everywhere), _) | (_, Err(EvalError::Everywhere)) => {
                    return Moves::Unknown("else all".to_owned());
                }
                // Such a record cannot be stored, before as after.
                (Err(_), Err(_)) => {}
                _ => return Moves::Some,
            }
        }
        match columns.iter().any(|it| it.partial) {
            true => unknown(),
            false => Moves::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::enumerate::BUDGET_DEFAULT;

    fn both(old: &str, new: &str) -> Both {
        let program = |version: u32, text: &str| {
            let text = format!(
                "rule r version {version}; field id: i64; field name: string; dimension n 0 to 5; {text}"
            );
            Arc::new(Program::parse(&text).unwrap())
        };
        Both::new(program(1, old), program(2, new)).unwrap()
    }

    fn ask(both: &Both, condition: &str) -> Moves {
        let predicate = Predicate::parse(both.new_version().rule(), condition, None).unwrap();
        moves(both, &predicate, BUDGET_DEFAULT)
    }

    #[test]
    fn r31_what_stays_is_known_to_stay() {
        // R16, example 7 of docs/rules.md: ids from 1000 on go to six tables.
        let grown = both(
            "else (id % 4); place table \"t_{n}\";",
            "when id < 1000 then (id % 4); else (id % 6); place table \"t_{n}\";",
        );
        assert_eq!(ask(&grown, "id < 1000"), Moves::None);
        assert_eq!(ask(&grown, "id <= 1000"), Moves::Some, "1000 % 6 = 4");
        assert_eq!(ask(&grown, "id between 0 and 1003"), Moves::Some);
        assert_eq!(ask(&grown, "id in (1008, 1009, 1)"), Moves::None);
        assert_eq!(ask(&grown, "id = 1003 or id = 1"), Moves::Some);
        assert_eq!(ask(&grown, "id = 1 and id = 2"), Moves::None);
        assert_eq!(ask(&grown, "true"), Moves::Some);
        // A map alone.
        let moved = both(
            "else (id % 6); place table \"t_{n}\";",
            "else (id % 6); place table \"t_{n}\"; place (5) table \"t_x\";",
        );
        assert_eq!(ask(&moved, "id in (0, 1, 2)"), Moves::None);
        assert_eq!(ask(&moved, "id in (4, 5)"), Moves::Some);
        assert_eq!(ask(&moved, "name = 'a'"), Moves::Some);
    }

    #[test]
    fn what_cannot_be_known_is_not_said_to_stay() {
        let hashed = both(
            "else (xxh3(name) % 4); place table \"t_{n}\";",
            "else (xxh3(name) % 5); place table \"t_{n}\";",
        );
        let Moves::Unknown(cause) = ask(&hashed, "name > 'a'") else {
            panic!("a hash of a range");
        };
        assert_eq!(cause, "the values of name");
        let stays = (0..100).find(|it| {
            let h = crate::function::hash::xxh3_64(format!("k{it}").as_bytes(), 0);
            h % 4 == h % 5
        });
        let stays = stays.unwrap();
        assert_eq!(ask(&hashed, &format!("name = 'k{stays}'")), Moves::None);
        // Where one of them refuses a record that the other takes.
        let narrower = both(
            "else (id % 6); place table \"t\";",
            "when id < 5 then (id % 6); else error; place table \"t\";",
        );
        assert_eq!(ask(&narrower, "id < 5"), Moves::None);
        assert_eq!(ask(&narrower, "id = 5"), Moves::Some);
    }
}
