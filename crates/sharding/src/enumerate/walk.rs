//! Walking over the pieces on which a rule is constant, one evaluation each: exact, jointly over all fields and
//! dimensions. Between two breaks of a field (constants that it is compared with, calendar units, multiples of a
//! divisor) nothing that the rule looks at changes; where the rule looks at the field's every value, the walk goes value by
//! value, or over one period if it repeats.

use super::{
    conjunct::{Values, number},
    image::{blob_literal, literal},
    numbers::floor_divide,
    set::{Point, Set},
};
use crate::{
    Program,
    function::{
        Zone,
        calendar::{self, Date, Part, Unit},
    },
    rule::{
        Binary, Body, DefinitionBody, Domain, Expr, Function, ListRef, Otherwise, Statement, Unary,
        expressions,
    },
    value::{Literal, Type},
};

/// Greatest period that is looked for: beyond, no walk would stay in its budget.
const PERIOD_MAX: i128 = 1 << 24;

/// What a rule looks at in one field.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Every value by itself.
    pub(super) every: bool,
    /// Changes at these numbers.
    at: Vec<i128>,
    /// Changes at these texts, bytes or uuids.
    at_blobs: Vec<Vec<u8>>,
    /// Changes at the multiples of these.
    multiples: Vec<i128>,
    /// Changes with these units of the calendar.
    units: Vec<(Unit, Zone)>,
    /// Repeats after this many, apart from the changes above, as long as nothing overflows.
    period: Option<i128>,
}

/// The pieces of a field, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    /// A value of each.
    pub(super) samples: Vec<Literal>,
    /// There are more than were asked for, or some of which no value can be told.
    pub(super) partial: bool,
    /// Some values stand for others far away (a period): the order of pieces is not the order of values.
    pub(super) reduced: bool,
}

impl Looks {
    /// What the rule looks at in a field.
    pub(super) fn of(program: &Program, field: u16) -> Looks {
        let mut looks = Looks::default();
        for expr in expressions(program.rule()) {
            looks.visit(program, field, expr);
        }
        looks.at.sort_unstable();
        looks.at.dedup();
        looks.at_blobs.sort_unstable();
        looks.at_blobs.dedup();
        looks.multiples.sort_unstable();
        looks.multiples.dedup();
        if looks.units.is_empty() {
            looks.period = period(program, field);
        }
        looks
    }

    /// What two rules look at, together.
    pub(super) fn join(mut self, other: Looks) -> Looks {
        self.every |= other.every;
        self.at.extend(other.at);
        self.at.sort_unstable();
        self.at.dedup();
        self.at_blobs.extend(other.at_blobs);
        self.at_blobs.sort_unstable();
        self.at_blobs.dedup();
        self.multiples.extend(other.multiples);
        self.multiples.sort_unstable();
        self.multiples.dedup();
        self.units.extend(other.units);
        self.period = match (self.period, other.period) {
            (Some(a), Some(b)) if self.units.is_empty() => least_multiple(a, b),
            _ => None,
        };
        self
    }

    fn visit(&mut self, program: &Program, field: u16, expr: &Expr) {
        let is_field = |it: &Expr| is_field(it, field);
        match expr {
            Expr::Field(at) if *at == field => self.every = true,
            // The field itself under a condition: what is asked of the one is asked of the other.
            Expr::Binary(..) | Expr::In(..) | Expr::Lookup(..) | Expr::Call(..)
                if expr.children().iter().any(|it| is_choice(it, field)) =>
            {
                for simpler in unfold(expr, field) {
                    self.visit(program, field, &simpler);
                }
            }
            Expr::Binary(operator, a, b) if operator.is_comparison() => match (&**a, &**b) {
                (a, Expr::Literal(it)) | (Expr::Literal(it), a) if is_field(a) => self.point(it),
                (a, b) => {
                    self.visit(program, field, a);
                    self.visit(program, field, b);
                }
            },
            Expr::Binary(Binary::Divide, a, b) if is_field(a) => match positive(b) {
                Some(by) => self.multiples.push(by),
                None => self.every = true,
            },
            Expr::Binary(Binary::ShiftRight, a, b) if is_field(a) => match positive(b) {
                Some(by @ ..=62) => self.multiples.push(1 << by),
                _ => self.every = true,
            },
            Expr::In(a, list) if is_field(a) => {
                let list = match list {
                    ListRef::Inline(list) => list.as_slice(),
                    ListRef::Named(at) => match definition(program, *at) {
                        Some(DefinitionBody::List(list)) => list.as_slice(),
                        _ => &[],
                    },
                };
                list.iter().for_each(|it| self.point(it));
            }
            Expr::Lookup(at, a) if is_field(a) => match definition(program, *at) {
                Some(DefinitionBody::Table { entries, .. }) => {
                    entries.iter().for_each(|(key, _)| self.point(key));
                }
                Some(DefinitionBody::Ranges { bounds, .. }) => {
                    bounds.iter().for_each(|(bound, _)| self.begins(bound));
                }
                _ => self.every = true,
            },
            Expr::Call(function, arguments)
                if function.has_zone() && arguments.first().is_some_and(is_field) =>
            {
                self.calendar(program, *function, arguments);
            }
            other => {
                for child in other.children() {
                    self.visit(program, field, child);
                }
            }
        }
    }

    /// The value by itself is another piece than what lies around it.
    fn point(&mut self, literal: &Literal) {
        match (number(literal), literal.blob()) {
            (Some(number), _) => self.at.extend([number, number + 1]),
            (None, blob) => {
                let blob = blob.unwrap_or_default().to_vec();
                self.at_blobs.extend([blob.next(), blob]);
            }
        }
    }

    /// A new piece begins with the value.
    fn begins(&mut self, literal: &Literal) {
        match (number(literal), literal.blob()) {
            (Some(number), _) => self.at.push(number),
            (None, blob) => self.at_blobs.push(blob.unwrap_or_default().to_vec()),
        }
    }

    fn calendar(&mut self, program: &Program, function: Function, arguments: &[Expr]) {
        let unit = match (
            crate::program::part(function),
            crate::program::unit(function),
        ) {
            (Some(part), _) => unit_of(part),
            (None, Some(unit)) => unit,
            (None, None) => return self.every = true,
        };
        let rule = program.rule();
        let name = match arguments.get(1) {
            Some(Expr::Literal(Literal::Str(zone))) => zone.as_str(),
            _ => rule.zone.as_deref().unwrap_or("UTC"),
        };
        let zones = program.code().map_or(&[][..], |it| it.zones.as_slice());
        // A date has no zone, so that its program may have none.
        let zone = zones.iter().find(|it| it.name() == name).cloned();
        self.units.push((unit, zone.unwrap_or_else(Zone::utc)));
    }

    /// The pieces of a set of values, at most `max`.
    pub(super) fn pieces(&self, values: &Values, ty: Type, can_fail: bool, max: usize) -> Pieces {
        match values {
            Values::Scalars(set) => self.scalar_pieces(set, ty, can_fail, max),
            Values::Blobs(set) => self.blob_pieces(set, ty, max),
        }
    }

    fn scalar_pieces(&self, set: &Set<i128>, ty: Type, can_fail: bool, max: usize) -> Pieces {
        let mut pieces = Pieces::default();
        for (low, high) in set.runs() {
            let mut from = low;
            while from <= high && !pieces.partial {
                let next = self.at.partition_point(|at| *at <= from);
                let to = self.at.get(next).map_or(high, |at| (at - 1).min(high));
                self.stretch(from, to, ty, can_fail, max, &mut pieces);
                from = to + 1;
            }
        }
        pieces
    }

    /// Pieces of a stretch without a constant in it; one period stands for all of it, if there is one.
    fn stretch(
        &self,
        low: i128,
        high: i128,
        ty: Type,
        can_fail: bool,
        max: usize,
        pieces: &mut Pieces,
    ) {
        let mut high = high;
        if let (Some(period), false) = (self.period, can_fail)
            && high - low >= period
        {
            high = low + period - 1;
            pieces.reduced = true;
        }
        let mut from = low;
        while from <= high {
            let sample = literal(from, ty).filter(|_| pieces.samples.len() < max);
            let Some(sample) = sample else {
                pieces.partial = true;
                return;
            };
            pieces.samples.push(sample);
            let next = match self.every {
                true => from + 1,
                false => self.next_break(from, ty).unwrap_or(high + 1),
            };
            from = next.max(from + 1);
        }
    }

    /// Where the next piece begins, constants left aside.
    fn next_break(&self, from: i128, ty: Type) -> Option<i128> {
        let multiples = self.multiples.iter();
        let multiples = multiples.map(|by| (floor_divide(from, *by) + 1) * by);
        let units = self.units.iter().filter_map(|(unit, zone)| {
            let from = i64::try_from(from).ok()?;
            match ty {
                Type::Date => next_day(*unit, from).map(i128::from),
                _ => next_moment(*unit, from, zone).map(i128::from),
            }
        });
        multiples.chain(units).min()
    }

    fn blob_pieces(&self, set: &Set<Vec<u8>>, ty: Type, max: usize) -> Pieces {
        let mut pieces = Pieces::default();
        for span in set.spans() {
            let mut from = span.low.clone();
            loop {
                let next = self.at_blobs.partition_point(|at| *at <= from);
                let next = self.at_blobs.get(next);
                let end = match (next, &span.high) {
                    (Some(next), Some(high)) => Some(next.min(high)),
                    (one, other) => one.or(other.as_ref()),
                };
                // Where every text counts by itself, a piece is a single one or cannot be told.
                let is_point = end == Some(&from.next());
                if pieces.samples.len() >= max || self.every && !is_point {
                    pieces.partial = true;
                    return pieces;
                }
                // A span may hold no value of the type, such as half a character: then there is no piece.
                pieces.samples.extend(sample_between(&from, end, ty));
                match next {
                    Some(next) if span.high.as_ref().is_none_or(|high| next < high) => {
                        from = next.clone();
                    }
                    _ => break,
                }
            }
        }
        pieces
    }
}

/// The values that a script's field can have by its declaration; without one, only single values can be told.
pub(super) fn declared(domain: Option<&Domain>, values: &Values, ty: Type, max: usize) -> Pieces {
    let mut pieces = Pieces::default();
    let (Some(domain), Values::Scalars(set)) = (domain, values) else {
        match super::image::literals(values, ty) {
            Some(samples) => pieces.samples = samples,
            None => pieces.partial = true,
        }
        return pieces;
    };
    let (first, last) = (number(&domain.first), number(&domain.last));
    let (Some(first), Some(last)) = (first, last) else {
        pieces.partial = true;
        return pieces;
    };
    let step = i128::from(domain.step);
    for (low, high) in set.intersection(&Set::closed(first, last)).runs() {
        // The first of the declared values that is not below the run.
        let mut value = first - floor_divide(first - low, step) * step;
        while value <= high {
            let sample = literal(value, ty).filter(|_| pieces.samples.len() < max);
            let Some(sample) = sample else {
                pieces.partial = true;
                return pieces;
            };
            pieces.samples.push(sample);
            value += step;
        }
    }
    // A value that is not declared may be in a row after all: only a single one can be asked of the script itself.
    let undeclared = set.intersection(&Set::closed(first, last)) != *set;
    pieces.partial |= undeclared && set.count() > 1;
    if undeclared && set.count() == 1 {
        pieces.samples = super::image::literals(values, ty).unwrap_or_default();
    }
    pieces
}

fn is_field(expr: &Expr, field: u16) -> bool {
    matches!(expr, Expr::Field(at) if *at == field)
}

/// `if … then` the field, or something else that is no more than a name or a constant.
fn is_choice(expr: &Expr, field: u16) -> bool {
    let Expr::If(parts) = expr else {
        return false;
    };
    let [_, a, b] = &**parts;
    let leaf = |it: &Expr| matches!(it, Expr::Field(_) | Expr::Literal(_) | Expr::Local(_));
    leaf(a) && leaf(b) && (is_field(a, field) || is_field(b, field))
}

/// The operation with the first choice inside it replaced by its condition apart, and each of its branches.
fn unfold(expr: &Expr, field: u16) -> Vec<Expr> {
    let chosen = expr.children().iter().position(|it| is_choice(it, field));
    let (Some(at), children) = (chosen, expr.children()) else {
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

/// A value of the type in the span, if there is one: the least of them.
fn sample_between(from: &[u8], end: Option<&Vec<u8>>, ty: Type) -> Option<Literal> {
    let sample = match ty {
        Type::Uuid => {
            let mut uuid = from.to_vec();
            let cut = uuid.len() > 16;
            uuid.resize(16, 0);
            if cut {
                // The next one: add one to the whole.
                let at = uuid.iter().rposition(|it| *it < 0xff)?;
                uuid[at] += 1;
                uuid[at + 1..].fill(0);
            }
            uuid
        }
        _ => from.to_vec(),
    };
    if end.is_some_and(|end| sample >= *end) {
        return None;
    }
    blob_literal(sample, ty)
}

fn definition(program: &Program, at: u16) -> Option<&DefinitionBody> {
    program
        .rule()
        .definitions
        .get(usize::from(at))
        .map(|it| &it.body)
}

fn positive(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Literal(literal) => number(literal).filter(|it| *it > 0),
        _ => None,
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

/// How an expression depends on one field: `f(x + n * step) = f(x) + n * slope`. A slope of zero is a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dependence {
    step: i128,
    slope: i128,
}

const CONSTANT: Dependence = Dependence { step: 1, slope: 0 };

/// After how many values of a field the whole rule repeats, where no constant lies between and nothing overflows.
fn period(program: &Program, field: u16) -> Option<i128> {
    let Body::Statements(statements, otherwise) = &program.rule().body else {
        return None;
    };
    let mut locals = Vec::new();
    let mut period = 1;
    let mut join = |of: Dependence| {
        period = least_multiple(period, of.step)?;
        (of.slope == 0).then_some(())
    };
    for statement in statements {
        match statement {
            Statement::Let { value, .. } => locals.push(dependence(value, field, &locals)),
            Statement::When { condition, slot } => {
                for expr in std::iter::once(condition).chain(slot) {
                    join(dependence(expr, field, &locals)?)?;
                }
            }
        }
    }
    if let Otherwise::Slot(slot) = otherwise {
        for expr in slot {
            join(dependence(expr, field, &locals)?)?;
        }
    }
    Some(period)
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

fn least_multiple(a: i128, b: i128) -> Option<i128> {
    let multiple = (a / gcd(a, b)).checked_mul(b)?;
    (multiple <= PERIOD_MAX).then_some(multiple)
}

fn dependence(expr: &Expr, field: u16, locals: &[Option<Dependence>]) -> Option<Dependence> {
    let of = |it: &Expr| dependence(it, field, locals);
    match expr {
        Expr::Literal(_) => Some(CONSTANT),
        Expr::Field(at) if *at == field => Some(Dependence { step: 1, slope: 1 }),
        Expr::Field(_) => Some(CONSTANT),
        Expr::Local(at) => *locals.get(usize::from(*at))?,
        Expr::Unary(Unary::Negate, a) => {
            let a = of(a)?;
            Some(Dependence {
                step: a.step,
                slope: -a.slope,
            })
        }
        // Comparisons with constants do not change between two breaks; of other things they repeat if both sides do.
        Expr::Binary(operator, a, b) if operator.is_comparison() => {
            let bare = |it: &Expr| is_field(it, field);
            match (&**a, &**b) {
                (a, Expr::Literal(_)) | (Expr::Literal(_), a) if bare(a) => Some(CONSTANT),
                (a, b) => repeating(&[of(a)?, of(b)?]),
            }
        }
        // The entries of a list are breaks too.
        Expr::In(a, _) if matches!(**a, Expr::Field(at) if at == field) => Some(CONSTANT),
        Expr::Binary(operator, a, b) => arithmetic(*operator, of(a)?, of(b)?, b),
        Expr::Call(Function::Micros | Function::ToI64 | Function::ToU64, arguments) => {
            of(arguments.first()?)
        }
        other => {
            let children: Option<Vec<_>> = other.children().into_iter().map(of).collect();
            repeating(&children?)
        }
    }
}

/// Of things that repeat, whatever is done with them.
fn repeating(parts: &[Dependence]) -> Option<Dependence> {
    let mut step = 1;
    for part in parts {
        if part.slope != 0 {
            return None;
        }
        step = least_multiple(step, part.step)?;
    }
    Some(Dependence { step, slope: 0 })
}

fn arithmetic(operator: Binary, a: Dependence, b: Dependence, right: &Expr) -> Option<Dependence> {
    let by = match right {
        Expr::Literal(literal) => number(literal).filter(|it| *it > 0),
        _ => None,
    };
    match (operator, by) {
        (Binary::Add | Binary::Subtract, _) => {
            let step = least_multiple(a.step, b.step)?;
            let sign = if operator == Binary::Add { 1 } else { -1 };
            let slope = a.slope.checked_mul(step / a.step)?;
            let other = b.slope.checked_mul(step / b.step)?;
            Some(Dependence {
                step,
                slope: slope.checked_add(sign * other)?,
            })
        }
        (Binary::Multiply, Some(by)) => Some(Dependence {
            step: a.step,
            slope: a.slope.checked_mul(by)?,
        }),
        (Binary::Divide, Some(by)) => {
            let step = a.step.checked_mul(by / gcd(a.slope, by))?;
            let slope = a.slope / gcd(a.slope, by);
            (step <= PERIOD_MAX).then_some(Dependence { step, slope })
        }
        (Binary::Modulo, Some(by)) => {
            let step = a.step.checked_mul(by / gcd(a.slope, by))?;
            (step <= PERIOD_MAX).then_some(Dependence { step, slope: 0 })
        }
        _ => repeating(&[a, b]),
    }
}
