//! From a condition to the few slots that can hold matches (R45, R50, R51; section C3). The answer always covers what
//! is there: a superset, proved, or all slots; never a guess.
//!
//! 1. `conjunct`: the condition becomes alternatives, each of which bounds every field by spans and null.
//! 2. `image`: for each alternative the rule is evaluated on spans instead of values: a superset of the slots.
//! 3. `walk`: the spans are cut into pieces on which the rule is constant, and one value of each combination is evaluated.
//!    A walk that is complete, or that has found all of the superset, is exact.

//!
//! `filter` tests single records, `rows` turns conditions into ranges of row keys and back, `moves` says whether what meets a condition
//! moves between two versions.

mod conjunct;
mod filter;
mod image;
mod linear;
mod looks;
mod moves;
mod numbers;
mod predicate;
mod product;
mod rows;
mod set;
mod texts;
mod trim;
mod walk;

pub use filter::Filter;
pub use moves::{Moves, moves};
pub use predicate::{Comparison, Opaque, Predicate};
pub use rows::{condition_of_rows, rows_of};

use crate::{
    EvalError, Program,
    rule::{Body, NullPolicy, expressions},
    slot::Slot,
    value::{Literal, Type, Value},
};
use conjunct::{Conjunct, FieldSet, Values};
use image::{Answer, Block, Interpreter, Known};
use looks::{Looks, terms};
use product::Parts;
use trim::trim;
use walk::Pieces;

/// Evaluations that one enumeration may spend: some milliseconds.
pub const BUDGET_DEFAULT: usize = 65_536;

/// Most evaluations of a condition times operations of a rule: a second, for rules made to be slow.
const STEPS_MAX: usize = 200_000_000;

/// Most alternatives of a condition times operations of a rule.
const NODES_MAX: usize = 1_000_000;

/// What to do when nothing bounds the slots but their declaration: the table's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unbounded {
    /// All declared slots.
    #[default]
    Allow,
    /// All declared slots, and the caller warns with the cause.
    Warn,
    /// An error that names the cause.
    Refuse,
}

/// How to enumerate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// When nothing bounds the slots.
    pub unbounded: Unbounded,
    /// The field whose order the caller wants rows in.
    pub sort: Option<u16>,
    /// Most evaluations.
    pub budget: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            unbounded: Unbounded::default(),
            sort: None,
            budget: BUDGET_DEFAULT,
        }
    }
}

/// The slots that can hold rows that satisfy a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumeration {
    /// The slots, without repeats: in the order of the sort field if `ordered_by` says so, else ascending.
    pub slots: Vec<Slot>,
    /// Whether each of them can hold a match: a record of it was evaluated for each. If not, some may be visited in vain.
    pub is_exact: bool,
    /// The field in whose order the slots come: all matching rows of one slot sort before all of the next, so that a limit
    /// can stop early.
    pub ordered_by: Option<u16>,
    /// The term at fault when the slots are not exact.
    pub cause: Option<String>,
    /// Nothing bounds the slots, and the policy is to warn of that.
    pub warn: bool,
}

/// The policy refuses a condition under which every slot may hold matches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {slots} slots would be visited, because of {cause}")]
pub struct Refused {
    /// How many slots are declared.
    pub slots: u32,
    /// The term at fault.
    pub cause: String,
}

/// The slots that can hold rows that satisfy a condition.
pub fn enumerate(
    program: &Program,
    predicate: &Predicate,
    options: Options,
) -> Result<Enumeration, Refused> {
    let nodes: usize = expressions(program.rule())
        .iter()
        .map(|it| it.nodes())
        .sum();
    let normal = conjunct::normal(predicate, program.types(), NODES_MAX / nodes.max(1));
    let looks = program.used_fields().iter();
    let looks = looks.map(|it| (*it, Looks::of(program, *it)));
    let mut search = Search {
        program,
        looks: looks.collect(),
        sort: options.sort,
        nodes,
        budget: options.budget.min(STEPS_MAX / nodes.max(1)),
        found: Slots::none(program.shape().slots()),
        order: Vec::new(),
        ordered: options.sort.is_some() && normal.conjuncts.len() <= 1,
        exact: normal.cause.is_none(),
        cause: normal.cause,
    };
    for conjunct in &normal.conjuncts {
        search.conjunct(conjunct);
    }
    let all = program.shape().slots();
    let unbounded = !search.exact && search.found.count() == all && all > 1;
    let cause = (!search.exact).then(|| {
        let cause = search.cause.take();
        cause.unwrap_or_else(|| format!("more than {} evaluations", options.budget))
    });
    if let (true, Unbounded::Refuse, Some(cause)) = (unbounded, options.unbounded, &cause) {
        return Err(Refused {
            slots: all,
            cause: cause.clone(),
        });
    }
    let (slots, ordered) = search.slots();
    Ok(Enumeration {
        slots,
        is_exact: cause.is_none(),
        ordered_by: options.sort.filter(|_| ordered),
        cause,
        warn: unbounded && options.unbounded == Unbounded::Warn,
    })
}

/// A set of slots.
struct Slots {
    bits: Vec<bool>,
    count: u32,
}

impl Slots {
    fn none(slots: u32) -> Slots {
        Slots {
            bits: vec![false; slots as usize],
            count: 0,
        }
    }

    fn count(&self) -> u32 {
        self.count
    }

    fn add(&mut self, slot: Slot) -> bool {
        let bit = &mut self.bits[slot.0 as usize];
        let is_new = !std::mem::replace(bit, true);
        self.count += u32::from(is_new);
        is_new
    }

    fn add_all(&mut self) {
        self.bits.fill(true);
        self.count = u32::try_from(self.bits.len()).unwrap_or(u32::MAX);
    }

    fn values(&self) -> impl Iterator<Item = Slot> + '_ {
        let set = self.bits.iter().enumerate().filter(|(_, it)| **it);
        set.filter_map(|(at, _)| u32::try_from(at).ok().map(Slot))
    }
}

struct Search<'p> {
    program: &'p Program,
    looks: Vec<(u16, Looks<'p>)>,
    sort: Option<u16>,
    /// Operations of the rule.
    nodes: usize,
    budget: usize,
    found: Slots,
    /// Slot, first and last piece of the sort field in which it was found.
    order: Vec<(Slot, usize, usize)>,
    ordered: bool,
    exact: bool,
    cause: Option<String>,
}

impl Search<'_> {
    fn slots(self) -> (Vec<Slot>, bool) {
        let slots: Vec<_> = self.found.values().collect();
        if slots.len() <= 1 {
            return (slots, self.sort.is_some());
        }
        let mut order = self.order;
        order.sort_by_key(|(_, first, _)| *first);
        let strict = order.windows(2).all(|pair| pair[0].2 < pair[1].1);
        match self.ordered && self.exact && strict && order.len() == slots.len() {
            true => (order.into_iter().map(|(slot, ..)| slot).collect(), true),
            false => (slots, false),
        }
    }

    fn blame(&mut self, cause: Option<String>) {
        self.exact = false;
        if self.cause.is_none() {
            self.cause = cause;
        }
    }

    fn conjunct(&mut self, conjunct: &Conjunct) {
        let Some(fields) = self.decide_null(conjunct) else {
            return;
        };
        let mut fields = fields;
        let mut answer = Interpreter::new(self.program).answer(Known::new(fields.clone()));
        if answer.is_nothing() {
            return;
        }
        let mut columns = self.pieces(&fields, answer.can_fail);
        let script = self.program.is_script();
        if !script && columns.iter().any(|it| it.pieces.partial) {
            fields = trim(self.program, fields, self.nodes, &mut self.budget);
            answer = Interpreter::new(self.program).answer(Known::new(fields.clone()));
            columns = self.pieces(&fields, answer.can_fail);
        }
        let superset = self.superset(&answer);
        if superset.count() == 0 && !answer.everywhere {
            return;
        }
        let partial = columns.iter().any(|it| it.pieces.partial);
        let mut walk = Walk {
            program: self.program,
            columns: &columns,
            found: Slots::none(self.program.shape().slots()),
            order: Vec::new(),
            everywhere: false,
        };
        let may_stop = self.sort.is_none() && !answer.everywhere && !script;
        let goal = may_stop.then(|| superset.count());
        let budget = self.budget;
        let complete = walk.run(&mut self.budget, goal) && !partial;
        let all_found = !answer.everywhere && !script && walk.found.count() == superset.count();
        if walk.everywhere {
            self.found.add_all();
            self.ordered = false;
            return;
        }
        if complete || all_found {
            let reduced = columns.first().is_some_and(|it| it.pieces.reduced);
            let sorts = columns
                .first()
                .is_some_and(|it| Some(it.field) == self.sort);
            self.ordered &= complete && !reduced && sorts;
            walk.found.values().for_each(|it| {
                self.found.add(it);
            });
            self.order.append(&mut walk.order);
            return;
        }
        self.ordered = false;
        if !partial && !script {
            // The whole walk was too long; dimensions by themselves may not be.
            self.budget = budget;
            if let Some(found) = self.product(&columns) {
                found.values().for_each(|it| {
                    self.found.add(it);
                });
                return;
            }
        }
        let cause = answer.cause.or_else(|| self.widest(&columns));
        self.blame(cause);
        match answer.everywhere || script {
            true => self.found.add_all(),
            false => superset.values().for_each(|it| {
                self.found.add(it);
            }),
        }
    }

    fn product(&mut self, columns: &[Column]) -> Option<Slots> {
        let dimensions = self.program.shape().dimensions().len();
        let parts = Parts::of(&terms(self.program), columns, dimensions)?;
        parts.slots(self.program, columns, &mut self.budget)
    }

    /// What null decides before the rule does; the values that are left for the rule, or none if none are.
    fn decide_null(&mut self, conjunct: &Conjunct) -> Option<Vec<Values>> {
        let program = self.program;
        let used = program.used_fields();
        let bounds = conjunct.fields.iter().zip(program.types()).enumerate();
        let mut fields: Vec<Values> = bounds
            .map(
                |(at, (set, ty))| match used.iter().any(|it| usize::from(*it) == at) {
                    true => set.values.clone(),
                    // What the rule does not look at cannot make anything impossible, null least of all.
                    false => Values::all(*ty),
                },
            )
            .collect();
        for &field in program.used_fields() {
            let at = usize::from(field);
            let FieldSet { values, null } = &conjunct.fields[at];
            if *null {
                match &program.rule().fields[at].null {
                    NullPolicy::Error => {}
                    NullPolicy::Value(value) => {
                        let value = Values::one_of(std::slice::from_ref(value), value.ty());
                        fields[at] = values.union(&value);
                    }
                    NullPolicy::Slot(slot) => {
                        if let Ok(slot) = program.shape().slot(slot) {
                            self.found.add(slot);
                            self.ordered = false;
                        }
                    }
                }
            }
            if fields[at].is_empty() {
                return None;
            }
        }
        Some(fields)
    }

    fn superset(&self, answer: &Answer) -> Slots {
        let shape = self.program.shape();
        let mut slots = Slots::none(shape.slots());
        for block in &answer.blocks {
            if slots.count() == shape.slots() {
                break;
            }
            add_block(self.program, block, 0, 0, &mut slots);
        }
        slots
    }

    /// The pieces of every field that the rule looks at, the sort field first.
    fn pieces(&self, fields: &[Values], can_fail: bool) -> Vec<Column> {
        let mut looks: Vec<&(u16, Looks<'_>)> = self.looks.iter().collect();
        looks.sort_by_key(|(field, _)| Some(*field) != self.sort);
        let rule = self.program.rule();
        let column = |(field, looks): &(u16, Looks<'_>)| {
            let at = usize::from(*field);
            let ty = self.program.types()[at];
            let pieces = match &rule.body {
                Body::Script(_) => {
                    let domain = rule.fields[at].domain.as_ref();
                    walk::declared(domain, &fields[at], ty, self.budget)
                }
                Body::Statements(..) => looks.pieces(&fields[at], ty, can_fail, self.budget),
            };
            Column {
                field: *field,
                pieces,
            }
        };
        looks.into_iter().map(column).collect()
    }

    fn widest(&self, columns: &[Column]) -> Option<String> {
        let widest = columns
            .iter()
            .max_by_key(|it| (it.pieces.partial, it.pieces.samples.len()))?;
        let field = &self.program.rule().fields[usize::from(widest.field)];
        Some(format!("the values of {}", field.name))
    }
}

/// Adds every slot of a block, dimension by dimension.
fn add_block(program: &Program, block: &Block, dimension: usize, base: u32, slots: &mut Slots) {
    let Some(values) = block.get(dimension) else {
        slots.add(Slot(base));
        return;
    };
    let shape = program.shape();
    let first = i128::from(shape.dimensions()[dimension].first);
    for value in values.values() {
        // Inside the dimension, so below the number of slots.
        let index = u32::try_from(value - first).unwrap_or(0);
        let base = base + index * shape.stride(dimension);
        add_block(program, block, dimension + 1, base, slots);
    }
}

/// A field and its pieces.
struct Column {
    field: u16,
    pieces: Pieces,
}

/// One evaluation for each combination of pieces.
struct Walk<'p> {
    program: &'p Program,
    columns: &'p [Column],
    found: Slots,
    order: Vec<(Slot, usize, usize)>,
    everywhere: bool,
}

impl Walk<'_> {
    /// Whether every combination was evaluated. Stops when as many slots as the goal were found.
    fn run(&mut self, budget: &mut usize, goal: Option<u32>) -> bool {
        if self.columns.iter().any(|it| it.pieces.samples.is_empty()) {
            return true;
        }
        let defaults: Vec<Literal> = self.program.types().iter().map(|ty| zero(*ty)).collect();
        let mut fields: Vec<Value<'_>> = defaults.iter().map(Literal::value).collect();
        let mut at = vec![0; self.columns.len()];
        let mut places = vec![usize::MAX; self.found.bits.len()];
        loop {
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            for (column, at) in self.columns.iter().zip(&at) {
                fields[usize::from(column.field)] = column.pieces.samples[*at].value();
            }
            match self.program.evaluate(&fields) {
                Ok(slot) => {
                    self.note(slot, at.first().copied().unwrap_or(0), &mut places);
                    if goal.is_some_and(|goal| self.found.count() >= goal) {
                        return false;
                    }
                }
                Err(EvalError::Everywhere) => {
                    self.everywhere = true;
                    return false;
                }
                // Such a record cannot be stored, so it is nowhere.
                Err(_) => {}
            }
            if !self.advance(&mut at) {
                return true;
            }
        }
    }

    /// The next combination: the last field changes first.
    fn advance(&self, at: &mut [usize]) -> bool {
        for (at, column) in at.iter_mut().zip(self.columns).rev() {
            *at += 1;
            if *at < column.pieces.samples.len() {
                return true;
            }
            *at = 0;
        }
        false
    }

    fn note(&mut self, slot: Slot, piece: usize, places: &mut [usize]) {
        if self.found.add(slot) {
            places[slot.0 as usize] = self.order.len();
            self.order.push((slot, piece, piece));
        } else {
            let (_, _, last) = &mut self.order[places[slot.0 as usize]];
            *last = (*last).max(piece);
        }
    }
}

/// A value for fields that the rule does not look at.
fn zero(ty: Type) -> Literal {
    match ty {
        Type::Bool => Literal::Bool(false),
        Type::I64 => Literal::I64(0),
        Type::U64 => Literal::U64(0),
        Type::Str => Literal::Str(String::new()),
        Type::Bytes => Literal::Bytes(Vec::new()),
        Type::Date => Literal::Date(0),
        Type::Timestamp => Literal::Timestamp(0),
        Type::Uuid => Literal::Uuid([0; 16]),
    }
}

#[cfg(test)]
mod tests;
