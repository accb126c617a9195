//! Cuts off the values at both ends of a field for which no record has a slot: the years before and behind those that have
//! tables, numbers whose products overflow. What is left has few pieces, and is walked in order.

use super::{
    conjunct::Values,
    image::{Interpreter, Known},
    set::Set,
};
use crate::Program;

/// Fields with fewer values are walked as they are.
const VALUES_MIN: u128 = 1_024;
/// One part in so many of the values is little.
const LITTLE: i128 = 1_024;
/// Evaluations of a record that cost as much as one step on sets.
const SET_COST: usize = 16;

/// The fields' values without the ends that can hold nothing; takes what that costs from the budget, of evaluations of a rule
/// of so many operations.
pub(super) fn trim(
    program: &Program,
    mut fields: Vec<Values>,
    nodes: usize,
    budget: &mut usize,
) -> Vec<Values> {
    for &field in program.used_fields() {
        let at = usize::from(field);
        for from_below in [true, false] {
            let Values::Scalars(set) = &fields[at] else {
                break;
            };
            let Some((low, high)) = set.bounds().filter(|_| set.count() >= VALUES_MIN) else {
                break;
            };
            let mut is_nothing = |part: Set<i128>| {
                let mut fields = fields.clone();
                fields[at] = Values::Scalars(set.intersection(&part));
                if fields[at].is_empty() {
                    return true;
                }
                let answer = Interpreter::new(program).answer(Known::new(fields));
                let left = budget.checked_sub(SET_COST * (1 + answer.work / nodes.max(1)));
                *budget = left.unwrap_or(0);
                left.is_some() && answer.is_nothing()
            };
            // Little to cut off is not worth the search.
            let little = low + (high - low) / LITTLE;
            let probe = match from_below {
                true => Set::closed(low, little),
                false => Set::closed(low + high - little, high),
            };
            if !is_nothing(probe) {
                continue;
            }
            // From `low` to `kept` there is nothing; all of it may be behind `rest`, or nothing.
            let (mut kept, mut rest) = (low, high + 1);
            while kept < rest {
                let middle = kept + (rest - kept + 1) / 2;
                let part = match from_below {
                    true => Set::closed(kept, middle - 1),
                    false => Set::closed(low + high + 1 - middle, low + high - kept),
                };
                match is_nothing(part) {
                    true => kept = middle,
                    false => rest = middle - 1,
                }
            }
            let left = match from_below {
                true => Set::closed(kept, high),
                false => Set::closed(low, low + high - kept),
            };
            fields[at] = Values::Scalars(set.intersection(&left));
        }
    }
    fields
}
