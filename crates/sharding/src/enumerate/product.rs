//! Dimensions that have nothing in common but what decides between alternatives: each is walked by itself, and all that they
//! can be are the products. Twenty users and all days are twenty and thirty-one evaluations, not six hundred.

use super::{
    Column, Slots,
    looks::{Role, Term},
    zero,
};
use crate::{
    EvalError, Program,
    rule::{Expr, walk},
    slot::Slot,
    value::{Literal, Value},
};

/// How many samples are tried until all dimensions have a value that is no error.
const BASES_MAX: usize = 256;

/// Which columns decide about what: positions in the columns.
pub(super) struct Parts {
    /// Used by a condition or by several dimensions.
    shared: Vec<usize>,
    /// By dimension.
    own: Vec<Vec<usize>>,
}

impl Parts {
    /// How the columns fall apart, if that is of any use.
    pub(super) fn of(terms: &[Term], columns: &[Column], dimensions: usize) -> Option<Parts> {
        let mut users: Vec<Vec<bool>> = vec![vec![false; dimensions]; columns.len()];
        let mut shared = vec![false; columns.len()];
        let uses = |expr: &Expr| {
            let mut used = vec![false; columns.len()];
            walk(expr, &mut |it| {
                if let Expr::Field(field) = it {
                    let columns = columns.iter().zip(&mut used);
                    columns
                        .filter(|(it, _)| it.field == *field)
                        .for_each(|(_, used)| *used = true);
                }
            });
            used
        };
        for term in terms {
            let used = uses(&term.expr);
            for column in (0..columns.len()).filter(|it| used[*it]) {
                match term.role {
                    Role::Coordinate { at, .. } => users[column][at] = true,
                    Role::Condition => shared[column] = true,
                    Role::Name => {}
                }
            }
        }
        let only = |column: usize| {
            let mut users = users[column]
                .iter()
                .enumerate()
                .filter(|(_, it)| **it)
                .map(|(at, _)| at);
            users.next().filter(|_| users.next().is_none())
        };
        // A name fails for all who are evaluated behind it: it must belong to one dimension alone, or to what all share.
        for term in terms.iter().filter(|it| it.role == Role::Name) {
            let used = uses(&term.expr);
            let used: Vec<_> = (0..columns.len()).filter(|it| used[*it]).collect();
            let mut of: Vec<_> = used
                .iter()
                .map(|it| only(*it).filter(|_| !shared[*it]))
                .collect();
            of.dedup();
            if of.len() > 1 || of.contains(&None) {
                used.into_iter().for_each(|it| shared[it] = true);
            }
        }
        let mut parts = Parts {
            shared: Vec::new(),
            own: vec![Vec::new(); dimensions],
        };
        for (column, shared) in shared.iter().enumerate() {
            match only(column).filter(|_| !shared) {
                Some(dimension) => parts.own[dimension].push(column),
                None => parts.shared.push(column),
            }
        }
        let useful = parts.own.iter().filter(|it| !it.is_empty()).count() > 1;
        useful.then_some(parts)
    }

    /// Every slot, if it can be told within the budget.
    pub(super) fn slots(
        &self,
        program: &Program,
        columns: &[Column],
        budget: &mut usize,
    ) -> Option<Slots> {
        let count = |of: &[usize]| {
            let lengths = of.iter().map(|it| columns[*it].pieces.samples.len());
            lengths.fold(1_usize, usize::saturating_mul)
        };
        let each = self
            .own
            .iter()
            .map(|it| count(it))
            .fold(BASES_MAX, usize::saturating_add);
        *budget = budget.checked_sub(count(&self.shared).checked_mul(each)?)?;
        let mut found = Slots::none(program.shape().slots());
        let defaults: Vec<Literal> = program.types().iter().map(|ty| zero(*ty)).collect();
        let mut fields: Vec<Value<'_>> = defaults.iter().map(Literal::value).collect();
        for number in 0..count(&self.shared) {
            set(&mut fields, columns, &self.shared, number);
            self.product(program, columns, &mut fields, &mut found)?;
        }
        Some(found)
    }

    /// The slots for one choice of what is shared.
    fn product<'c>(
        &self,
        program: &Program,
        columns: &'c [Column],
        fields: &mut Vec<Value<'c>>,
        found: &mut Slots,
    ) -> Option<()> {
        let own = || self.own.iter().flatten();
        let longest = own().map(|it| columns[*it].pieces.samples.len()).max()?;
        let tries = longest.min(BASES_MAX);
        let base = (0..tries).find(|number| {
            for column in own() {
                let samples = &columns[*column].pieces.samples;
                fields[usize::from(columns[*column].field)] =
                    samples[number % samples.len()].value();
            }
            program.evaluate(fields).is_ok()
        });
        // None of them may be possible, or nobody knows: whole walks have to tell.
        base?;
        let base = fields.clone();
        let shape = program.shape();
        let mut sums = vec![0_u32];
        for (dimension, own) in self.own.iter().enumerate() {
            fields.clone_from(&base);
            let mut steps = Vec::new();
            let combinations = own
                .iter()
                .map(|it| columns[*it].pieces.samples.len())
                .product();
            for number in 0..combinations {
                set(fields, columns, own, number);
                match program.evaluate(fields) {
                    Ok(slot) => {
                        let first = shape.dimensions()[dimension].first;
                        // Inside the dimension, so below the number of slots.
                        let index =
                            u32::try_from(shape.coordinate(slot, dimension) - first).ok()?;
                        steps.push(index * shape.stride(dimension));
                    }
                    Err(EvalError::Everywhere) => return None,
                    Err(_) => {}
                }
            }
            steps.sort_unstable();
            steps.dedup();
            sums = sums
                .iter()
                .flat_map(|sum| steps.iter().map(move |it| sum + it))
                .collect();
        }
        for slot in sums {
            found.add(Slot(slot));
        }
        Some(())
    }
}

/// Sets the columns to their combination of that number.
fn set<'c>(fields: &mut [Value<'c>], columns: &'c [Column], of: &[usize], number: usize) {
    let mut rest = number;
    for at in of {
        let samples = &columns[*at].pieces.samples;
        fields[usize::from(columns[*at].field)] = samples[rest % samples.len()].value();
        rest /= samples.len();
    }
}
