//! What a rule looks at in one field: where comparisons change, the units and multiples in which it counts, after how many
//! values it repeats, and the numbers and parts that it reads from a text. Between two breaks nothing that the rule looks at
//! changes.

use std::rc::Rc;

use super::{
    conjunct::number,
    linear::{Lens, Linear, Repeats, least_multiple, positive},
    set::Point,
    texts::{Ask, Chain, Of},
};
use crate::{
    Program,
    function::{
        Zone,
        calendar::{self, Date, Part, Unit},
    },
    limits,
    rule::{Binary, Body, DefinitionBody, Expr, Function, Otherwise, Statement},
    value::{Literal, Type},
};

/// Most operations times stretches that are looked at one by one.
const STRETCH_NODES_MAX: usize = 1_000_000;
/// How often a stretch is cut at comparisons that only show on it.
const CUTS_MAX: usize = 4;

/// An expression of a rule's body; names in it are replaced by what they stand for.
pub(super) struct Term {
    pub(super) expr: Expr,
    pub(super) role: Role,
}

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A name stands for it.
    Name,
    /// Of an alternative.
    Condition,
    /// The coordinate of a dimension, and the dimension's bounds.
    Coordinate { at: usize, first: i128, last: i128 },
}

/// What a rule looks at between two comparisons.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    /// Every value by itself.
    pub(super) every: bool,
    /// Changes at the multiples of these.
    multiples: Vec<(Linear, i128)>,
    /// Changes with these units of the calendar.
    units: Vec<(Linear, Unit, Option<Zone>)>,
    /// Repeats after this many.
    repeats: Option<Repeats>,
}

impl Steps {
    /// Where the next piece begins, comparisons left aside.
    pub(super) fn next_break(&self, from: i128) -> Option<i128> {
        if self.every {
            return Some(from + 1);
        }
        let multiples = self
            .multiples
            .iter()
            .map(|(of, by)| of.next_multiple(from, *by));
        let units = self.units.iter().filter_map(|(of, unit, zone)| {
            let at = i64::try_from(of.at(from)).ok()?;
            let next = match zone {
                Some(zone) => next_moment(*unit, at, zone),
                None => next_day(*unit, at),
            };
            Some(of.reach(next?.into()))
        });
        multiples.chain(units).min()
    }

    /// After how many values the rule repeats, if it does so for certain or nothing fails.
    pub(super) fn period(&self, can_fail: bool) -> Option<i128> {
        let repeats = self.repeats.filter(|it| it.is_safe || !can_fail);
        repeats
            .filter(|_| self.units.is_empty())
            .map(|it| it.period)
    }

    fn join(mut self, other: Steps) -> Steps {
        self.every |= other.every;
        self.multiples.extend(other.multiples);
        self.units.extend(other.units);
        self.repeats = match (self.repeats, other.repeats) {
            (Some(a), Some(b)) => least_multiple(a.period, b.period).map(|period| Repeats {
                period,
                is_safe: a.is_safe && b.is_safe,
            }),
            _ => None,
        };
        self
    }
}

/// What was found by looking through a rule once.
#[derive(Default)]
struct Found {
    at: Vec<i128>,
    at_blobs: Vec<Vec<u8>>,
    steps: Steps,
    /// Parts of the text, and the constants that they are compared with.
    parts: Vec<(Chain, Vec<Vec<u8>>)>,
    /// Numbers that are read from the text.
    numbers: Vec<Expr>,
    /// Those numbers, and what compares parts.
    apart: Vec<Expr>,
    /// Depends on which stretch it is.
    by_stretch: bool,
}

/// A subject in one rule.
struct View<'p> {
    lens: Lens<'p>,
    terms: Rc<[Term]>,
}

/// What rules look at in a subject.
#[derive(Default)]
pub(super) struct Looks<'p> {
    /// Every value by itself, somewhere.
    pub(super) every: bool,
    /// Changes at these numbers.
    pub(super) at: Vec<i128>,
    /// Changes at these texts, bytes or uuids.
    pub(super) at_blobs: Vec<Vec<u8>>,
    /// What is asked of the subject as a text.
    pub(super) asks: Vec<Ask<'p>>,
    steps: Steps,
    by_stretch: bool,
    views: Vec<View<'p>>,
}

impl<'p> Looks<'p> {
    /// What the rule looks at in a field.
    pub(super) fn of(program: &'p Program, field: u16) -> Looks<'p> {
        Looks::of_subject(program, Expr::Field(field), terms(program))
    }

    fn of_subject(program: &'p Program, subject: Expr, terms: Rc<[Term]>) -> Looks<'p> {
        let nodes: usize = terms.iter().map(|it| it.expr.nodes()).sum();
        let view = View {
            lens: Lens::new(program, subject),
            terms,
        };
        let mut found = view.look(None);
        found.at.sort_unstable();
        found.at.dedup();
        found.at_blobs.sort_unstable();
        found.at_blobs.dedup();
        let mut asks: Vec<Ask<'p>> = Vec::new();
        for expr in found.numbers {
            let Some((chain, of)) = view.number(&expr) else {
                continue;
            };
            let looks = Looks::of_subject(program, expr, Rc::clone(&view.terms));
            asks.push(Ask::number(chain, of, looks));
        }
        asks.extend(
            found
                .parts
                .into_iter()
                .map(|(chain, points)| Ask::part(chain, points)),
        );
        Looks {
            every: found.steps.every,
            by_stretch: found.by_stretch && found.at.len() * nodes <= STRETCH_NODES_MAX,
            at: found.at,
            at_blobs: found.at_blobs,
            asks,
            steps: found.steps,
            views: vec![view],
        }
    }

    /// What two rules look at, together.
    pub(super) fn join(mut self, other: Looks<'p>) -> Looks<'p> {
        self.every |= other.every;
        self.at.extend(other.at);
        self.at.sort_unstable();
        self.at.dedup();
        self.at_blobs.extend(other.at_blobs);
        self.at_blobs.sort_unstable();
        self.at_blobs.dedup();
        self.asks.extend(other.asks);
        self.steps = self.steps.join(other.steps);
        self.by_stretch |= other.by_stretch;
        self.views.extend(other.views);
        self
    }

    /// The stretches of a run of numbers between comparisons, and what is looked at on each.
    pub(super) fn stretches(
        &self,
        low: i128,
        high: i128,
        each: &mut dyn FnMut(i128, i128, &Steps),
    ) {
        self.cut(&self.at, low, high, CUTS_MAX, each);
    }

    fn cut(
        &self,
        at: &[i128],
        low: i128,
        high: i128,
        cuts: usize,
        each: &mut dyn FnMut(i128, i128, &Steps),
    ) {
        let mut from = low;
        while from <= high {
            let next = at.partition_point(|at| *at <= from);
            let to = at.get(next).map_or(high, |at| (at - 1).min(high));
            if !self.by_stretch || from == to {
                each(from, to, &self.steps);
            } else {
                let (steps, mut at) = self.look(from, to);
                at.retain(|at| from < *at && *at <= to);
                match at.is_empty() || cuts == 0 {
                    true => each(from, to, &steps),
                    false => self.cut(&at, from, to, cuts - 1, each),
                }
            }
            from = to + 1;
        }
    }

    /// What all rules look at on a stretch, and comparisons that show only there.
    fn look(&self, low: i128, high: i128) -> (Steps, Vec<i128>) {
        let mut at = Vec::new();
        let views = self.views.iter().map(|view| {
            let found = view.look(Some((low, high)));
            at.extend(found.at);
            found.steps
        });
        let steps = views.reduce(Steps::join).unwrap_or_default();
        at.sort_unstable();
        at.dedup();
        (steps, at)
    }
}

impl View<'_> {
    fn look(&self, stretch: Option<(i128, i128)>) -> Found {
        let mut looking = Looking {
            lens: self.lens.on(stretch),
            found: Found::default(),
        };
        for term in &*self.terms {
            looking.term(term);
        }
        looking.lens.apart = std::mem::take(&mut looking.found.apart);
        let exprs = self.terms.iter().map(|it| &it.expr);
        looking.found.steps.repeats = looking.lens.period(exprs);
        looking.found
    }

    /// How a number is read from the text.
    fn number(&self, expr: &Expr) -> Option<(Chain, Of)> {
        let looking = Looking {
            lens: self.lens.on(None),
            found: Found::default(),
        };
        looking.number(expr)
    }
}

/// Looks through the expressions of a rule.
struct Looking<'p> {
    lens: Lens<'p>,
    found: Found,
}

impl Looking<'_> {
    fn term(&mut self, term: &Term) {
        self.lens.range_breaks(&term.expr, &mut self.found.at);
        if let Role::Coordinate { first, last, .. } = term.role {
            match self.lens.direction(&term.expr) {
                None | Some(0) => {}
                Some(direction) => {
                    self.found.by_stretch = true;
                    self.leaves(&term.expr, direction, first, last);
                    let outside = self.lens.bounds(&term.expr);
                    if outside.is_some_and(|(low, high)| high < first || low > last) {
                        return;
                    }
                }
            }
        }
        self.visit(&term.expr);
    }

    /// Where a coordinate enters and leaves its dimension: outside all is an error, whatever the value.
    fn leaves(&mut self, expr: &Expr, direction: i128, first: i128, last: i128) {
        let value = |lens: &Lens<'_>, at: i128| {
            let lens = lens.on(Some((at, at)));
            lens.bounds(expr).map(|(it, _)| it * direction)
        };
        let ends = match direction {
            1 => [first, last + 1],
            _ => [-last, 1 - first],
        };
        let (whole_low, whole_high) = match self.lens.stretch {
            Some(stretch) => stretch,
            None => (i128::from(i64::MIN), i128::from(u64::MAX)),
        };
        for end in ends {
            // The first subject whose value is not below the end.
            let (mut low, mut high) = (whole_low, whole_high + 1);
            while low < high {
                let middle = low + (high - low) / 2;
                match value(&self.lens, middle) {
                    Some(it) if it >= end => high = middle,
                    Some(_) => low = middle + 1,
                    None => return,
                }
            }
            if low <= whole_high && low > whole_low {
                self.found.at.push(low);
            }
        }
    }

    fn visit(&mut self, expr: &Expr) {
        if self.lens.is_subject(expr) {
            self.found.steps.every = true;
            return;
        }
        if self.number(expr).is_some() {
            if !self.found.numbers.contains(expr) {
                self.found.numbers.push(expr.clone());
                self.found.apart.push(expr.clone());
            }
            return;
        }
        match expr {
            // The subject itself under a condition: what is asked of the one is asked of the other.
            Expr::Binary(..) | Expr::In(..) | Expr::Lookup(..) | Expr::Call(..)
                if expr.children().iter().any(|it| self.is_choice(it)) =>
            {
                self.found.by_stretch = true;
                for simpler in self.unfold(expr) {
                    self.visit(&simpler);
                }
            }
            Expr::Binary(operator, a, b) if operator.is_comparison() => self.comparison(expr, a, b),
            Expr::Binary(Binary::Divide, a, b) => match (self.lens.linear(a), positive(b)) {
                (Some(of), Some(by)) => self.multiples(of, by),
                _ => self.children(expr),
            },
            Expr::Binary(Binary::ShiftRight, a, b) => match (self.lens.linear(a), positive(b)) {
                (Some(of), Some(by @ ..=62)) => self.multiples(of, 1 << by),
                _ => self.children(expr),
            },
            Expr::In(a, list) => {
                let entries: Vec<_> = self.lens.list(list).iter().collect();
                if !self.points(expr, a, entries, true) {
                    self.visit(a);
                }
            }
            Expr::Lookup(at, a) => {
                let looked_up = match self.lens.definition(*at) {
                    Some(DefinitionBody::Table { entries, .. }) => {
                        self.points(expr, a, entries.iter().map(|(key, _)| key).collect(), true)
                    }
                    Some(DefinitionBody::Ranges { bounds, .. }) => {
                        self.points(expr, a, bounds.iter().map(|(key, _)| key).collect(), false)
                    }
                    _ => false,
                };
                if !looked_up {
                    self.visit(a);
                }
            }
            Expr::Call(function, arguments) if function.has_zone() => {
                if !self.calendar(*function, arguments) {
                    self.children(expr);
                }
            }
            Expr::Call(Function::Abs | Function::Min | Function::Max, arguments) => {
                self.kink(arguments);
                self.children(expr);
            }
            _ => {
                self.found.by_stretch |= matches!(expr, Expr::If(_));
                self.children(expr);
            }
        }
    }

    fn children(&mut self, expr: &Expr) {
        for child in expr.children() {
            self.visit(child);
        }
    }

    /// Where one of two linear things overtakes the other, or one changes its sign.
    fn kink(&mut self, arguments: &[Expr]) {
        let mut sides = arguments.iter().map(|it| self.lens.linear(it));
        let difference = match (sides.next().flatten(), sides.next()) {
            (Some(a), None) => Some(a),
            (Some(a), Some(Some(b))) => Some(Linear {
                scale: a.scale - b.scale,
                shift: a.shift - b.shift,
            }),
            _ => None,
        };
        self.found.by_stretch = true;
        self.found
            .at
            .extend(difference.and_then(Linear::roots).into_iter().flatten());
    }

    fn multiples(&mut self, of: Linear, by: i128) {
        if of.scale != 0 {
            self.found.steps.multiples.push((of, by));
        }
    }

    fn comparison(&mut self, expr: &Expr, a: &Expr, b: &Expr) {
        if let (Some(x), Some(y)) = (self.lens.linear(a), self.lens.linear(b)) {
            let difference = Linear {
                scale: x.scale - y.scale,
                shift: x.shift - y.shift,
            };
            self.found
                .at
                .extend(difference.roots().into_iter().flatten());
            return;
        }
        let compared = match (a, b) {
            (a, Expr::Literal(it)) | (Expr::Literal(it), a) => self.points(expr, a, vec![it], true),
            _ => false,
        };
        if !compared {
            self.children(expr);
        }
    }

    /// The constants that something is compared with, by the whole expression; false if they cannot be traced back to the subject.
    ///
    /// With `apart` the constant itself is another piece than what lies behind it.
    fn points(&mut self, whole: &Expr, of: &Expr, constants: Vec<&Literal>, apart: bool) -> bool {
        if let Some(linear) = self.lens.linear(of) {
            let numbers = constants.into_iter().filter_map(number);
            let roots = numbers.filter_map(|it| linear.minus(it).roots());
            self.found.at.extend(roots.flatten());
            return true;
        }
        let blobs = constants
            .iter()
            .filter_map(|it| it.blob())
            .map(<[u8]>::to_vec);
        if self.lens.is_subject(of) || self.is_bytes_of_subject(of, &constants) {
            for blob in blobs {
                self.found.at_blobs.extend(apart.then(|| blob.next()));
                self.found.at_blobs.push(blob);
            }
            return true;
        }
        match self.chain(of) {
            Some(chain) => {
                self.found.parts.push((chain, blobs.collect()));
                self.found.apart.push(whole.clone());
                true
            }
            None => false,
        }
    }

    /// The subject's bytes, which lie among other bytes as the subject does; a text among such that are texts.
    fn is_bytes_of_subject(&self, expr: &Expr, constants: &[&Literal]) -> bool {
        let Expr::Call(Function::ToBytes, arguments) = expr else {
            return false;
        };
        let text = |it: &&Literal| std::str::from_utf8(it.blob().unwrap_or_default()).is_ok();
        arguments.first().is_some_and(|it| {
            self.lens.is_subject(it)
                && match self.lens.type_of(it) {
                    Type::Str => constants.iter().all(text),
                    ty => !ty.is_scalar(),
                }
        })
    }

    fn calendar(&mut self, function: Function, arguments: &[Expr]) -> bool {
        let unit = match (
            crate::program::part(function),
            crate::program::unit(function),
        ) {
            (Some(part), _) => unit_of(part),
            (None, Some(unit)) => unit,
            (None, None) => return false,
        };
        let Some(argument) = arguments.first() else {
            return false;
        };
        let Some(of) = self.lens.linear(argument).filter(|it| it.scale >= 0) else {
            return false;
        };
        if of.scale == 0 {
            return true;
        }
        if self.lens.type_of(argument) == Type::Date {
            self.found.steps.units.push((of, unit, None));
            return true;
        }
        let program = self.lens.program;
        let name = match arguments.get(1) {
            Some(Expr::Literal(Literal::Str(zone))) => zone.as_str(),
            _ => program.rule().zone.as_deref().unwrap_or("UTC"),
        };
        let zones = program.code().map_or(&[][..], |it| it.zones.as_slice());
        let Some(zone) = zones.iter().find(|it| it.name() == name) else {
            return false;
        };
        self.found.steps.units.push((of, unit, Some(zone.clone())));
        true
    }

    /// A number that is read from a text: how its digits or characters come from the subject.
    fn number(&self, expr: &Expr) -> Option<(Chain, Of)> {
        match expr {
            Expr::Call(Function::ParseInt, arguments) => {
                Some((self.text(arguments.first()?)?, Of::Digits))
            }
            Expr::Call(Function::Length, arguments) => {
                let argument = arguments.first()?;
                let bytes =
                    self.lens.is_subject(argument) && self.lens.type_of(argument) == Type::Bytes;
                let chain = bytes.then(Chain::default).or_else(|| self.text(argument));
                Some((chain?, Of::Length))
            }
            _ => None,
        }
    }

    /// The subject as a text, or a part of it.
    fn text(&self, expr: &Expr) -> Option<Chain> {
        match self.lens.is_subject(expr) && self.lens.type_of(expr) == Type::Str {
            true => Some(Chain::default()),
            false => self.chain(expr),
        }
    }

    /// A part of the subject as a text: not the subject as it is.
    fn chain(&self, expr: &Expr) -> Option<Chain> {
        let Expr::Call(function, arguments) = expr else {
            return None;
        };
        let inner = arguments.first()?;
        if *function == Function::Text {
            let whole = self.lens.is_subject(inner) && matches!(self.lens.subject, Expr::Field(_));
            return whole.then(Chain::default);
        }
        let count = |at: usize| match arguments.get(at) {
            Some(Expr::Literal(Literal::I64(it))) => u64::try_from(*it).ok(),
            _ => None,
        };
        let chain = || self.text(inner);
        Some(match function {
            Function::Left => chain()?.left(count(1)?),
            Function::Right => chain()?.right(count(1)?),
            Function::Substring => chain()?.behind(count(1)?).left(count(2)?),
            Function::SplitPart => match arguments.get(1) {
                Some(Expr::Literal(Literal::Str(separator))) => {
                    chain()?.part(separator, count(2)?.checked_sub(1)?)
                }
                _ => return None,
            },
            Function::Lower => chain()?.lower(),
            Function::Upper => chain()?.upper(),
            _ => return None,
        })
    }

    /// `if … then` the subject, or something else that is no more than a name or a constant.
    fn is_choice(&self, expr: &Expr) -> bool {
        let Expr::If(parts) = expr else {
            return false;
        };
        let [_, a, b] = &**parts;
        let leaf = |it: &Expr| {
            self.lens.is_subject(it)
                || matches!(it, Expr::Field(_) | Expr::Literal(_) | Expr::Local(_))
        };
        leaf(a) && leaf(b) && (self.lens.is_subject(a) || self.lens.is_subject(b))
    }

    /// The operation with the first choice inside it replaced by its condition apart, and each of its branches.
    fn unfold(&self, expr: &Expr) -> Vec<Expr> {
        let children = expr.children();
        let Some(at) = children.iter().position(|it| self.is_choice(it)) else {
            return Vec::new();
        };
        let Expr::If(parts) = children[at] else {
            return Vec::new();
        };
        let [condition, a, b] = &**parts;
        let with = |branch: &Expr| {
            let mut children = expr.children().into_iter().cloned().collect::<Vec<_>>();
            children[at] = branch.clone();
            expr.with_children(children)
        };
        [Some(condition.clone()), with(a), with(b)]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// All expressions of a rule's body, names replaced; names stay where that would make too much of them.
pub(super) fn terms(program: &Program) -> Rc<[Term]> {
    let rule = program.rule();
    let Body::Statements(statements, otherwise) = &rule.body else {
        return Rc::new([]);
    };
    let mut names = Names::default();
    let mut terms = Vec::new();
    let slots = |names: &mut Names, slot: &[Expr], terms: &mut Vec<Term>| {
        for (at, (expr, dimension)) in slot.iter().zip(&rule.dimensions).enumerate() {
            terms.push(Term {
                expr: names.replaced(expr),
                role: Role::Coordinate {
                    at,
                    first: dimension.first.into(),
                    last: dimension.last.into(),
                },
            });
        }
    };
    for statement in statements {
        match statement {
            Statement::Let { value, .. } => {
                let expr = names.replaced(value);
                names.add(&expr);
                terms.push(Term {
                    expr,
                    role: Role::Name,
                });
            }
            Statement::When { condition, slot } => {
                terms.push(Term {
                    expr: names.replaced(condition),
                    role: Role::Condition,
                });
                slots(&mut names, slot, &mut terms);
            }
        }
    }
    if let Otherwise::Slot(slot) = otherwise {
        slots(&mut names, slot, &mut terms);
    }
    terms.into()
}

/// What names stand for, as long as putting it in their place stays small.
#[derive(Default)]
struct Names {
    values: Vec<Option<Expr>>,
    nodes: usize,
}

impl Names {
    fn add(&mut self, value: &Expr) {
        let small =
            value.depth() <= limits::DEPTH_MAX / 2 && value.nodes() <= limits::NODES_MAX / 64;
        self.values.push(small.then(|| value.clone()));
    }

    fn replaced(&mut self, expr: &Expr) -> Expr {
        match expr {
            Expr::Literal(_) | Expr::Field(_) => expr.clone(),
            Expr::Local(at) => match self.values.get(usize::from(*at)) {
                Some(Some(value)) => {
                    let nodes = value.nodes();
                    if self.nodes + nodes > limits::NODES_MAX {
                        return expr.clone();
                    }
                    self.nodes += nodes;
                    value.clone()
                }
                _ => expr.clone(),
            },
            other => {
                let children = other.children().into_iter();
                let children = children.map(|it| self.replaced(it)).collect();
                other
                    .with_children(children)
                    .unwrap_or_else(|| other.clone())
            }
        }
    }
}

/// The unit within which a part does not change.
fn unit_of(part: Part) -> Unit {
    match part {
        Part::Year => Unit::Year,
        Part::Quarter => Unit::Quarter,
        Part::Month => Unit::Month,
        Part::DayOfMonth | Part::DayOfWeek | Part::DayOfYear => Unit::Day,
        Part::Week | Part::WeekYear => Unit::Week,
        Part::Hour => Unit::Hour,
        Part::Minute => Unit::Minute,
        Part::Second => Unit::Second,
    }
}

/// The first day of the next unit.
fn next_day(unit: Unit, day: i64) -> Option<i64> {
    let date = calendar::date_of(day);
    let first = |months: i64| {
        let months = date.year * 12 + months;
        let date = Date {
            year: months.div_euclid(12),
            month: months.rem_euclid(12) + 1,
            day: 1,
        };
        calendar::day_of(date).ok()
    };
    match unit {
        Unit::Year => first(12),
        Unit::Quarter => first((date.month - 1) / 3 * 3 + 3),
        Unit::Month => first(date.month),
        Unit::Week => Some(day + 8 - calendar::day_of_week(day)),
        Unit::Day | Unit::Hour | Unit::Minute | Unit::Second => Some(day + 1),
    }
}

/// The first moment of the next unit by a zone's clocks, or at which they are put forward or back.
fn next_moment(unit: Unit, micros: i64, zone: &Zone) -> Option<i64> {
    const DAY: i64 = 86_400;
    let seconds = micros.div_euclid(1_000_000);
    let offset = i64::from(zone.offset_seconds(seconds));
    let local = seconds + offset;
    let boundary = match unit {
        Unit::Second => local + 1,
        Unit::Minute => (local.div_euclid(60) + 1) * 60,
        Unit::Hour => (local.div_euclid(3_600) + 1) * 3_600,
        _ => next_day(unit, local.div_euclid(DAY))? * DAY,
    };
    let next = match zone.next_transition(seconds) {
        Some(transition) => transition.min(boundary - offset),
        None => boundary - offset,
    };
    next.checked_mul(1_000_000)
}
