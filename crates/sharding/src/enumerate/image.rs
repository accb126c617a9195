//! Abstract interpretation: what an expression can be when its fields lie in sets. Every answer covers what is possible;
//! what it adds to that is named. Overflowing values are errors of the evaluator and have no slot, so they are cut off.

use std::cell::Cell;

use super::{
    conjunct::{Values, whole_numbers},
    numbers::{
        arithmetic, bounded, closed, combine, compare, compare_blobs, corners, each, floor_divide,
        modulo, rough, truth,
    },
    predicate::{comparison, mirrored},
    set::{Set, Span},
};
use crate::{
    Program,
    function::{Runs, calendar},
    rule::{
        Binary, Body, DefinitionBody, DefinitionType, Expr, Function, ListRef, Names, Otherwise,
        Rule, Scope, Statement, Unary,
    },
    value::{Literal, Type},
};

/// Most operations and spans that one answer may cost: some hundred milliseconds for rules made to be slow.
const WORK_MAX: usize = 4_000_000;
/// Most values, or pairs of values, that are evaluated one by one.
const VALUES_MAX: u128 = 4_096;

/// What is known while statements are followed.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) fields: Vec<Values>,
    locals: Vec<Values>,
}

impl Known {
    pub(super) fn new(fields: Vec<Values>) -> Known {
        Known {
            fields,
            locals: Vec::new(),
        }
    }

    fn is_impossible(&self) -> bool {
        self.fields.iter().any(Values::is_empty)
    }
}

/// A possible slot: the values of each coordinate, inside its dimension.
pub(super) type Block = Vec<Set<i128>>;

/// What the whole rule can answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Blocks whose union covers every possible slot.
    pub(super) blocks: Vec<Block>,
    /// `else all` can be reached.
    pub(super) everywhere: bool,
    /// Some value left the range of its type or dimension: evaluation can fail.
    pub(super) can_fail: bool,
    /// The first expression about which less is known than its fields say.
    pub(super) cause: Option<String>,
    /// Operations that it took.
    pub(super) work: usize,
}

impl Answer {
    /// No record has a slot.
    pub(super) fn is_nothing(&self) -> bool {
        self.blocks.is_empty() && !self.everywhere
    }
}

pub(super) struct Interpreter<'p> {
    program: &'p Program,
    rule: &'p Rule,
    scope: Scope,
    names: Names<'p>,
    can_fail: bool,
    cause: Option<String>,
    /// What was spent of [`WORK_MAX`].
    work: Cell<usize>,
}

fn scalars(values: &Values) -> Set<i128> {
    match values {
        Values::Scalars(it) => it.clone(),
        Values::Blobs(_) => Set::empty(),
    }
}

fn runs(runs: &Runs) -> Vec<Span<i128>> {
    let runs = runs.as_slice().iter();
    runs.map(|it| closed(it.low.into(), it.high.into()))
        .collect()
}

impl<'p> Interpreter<'p> {
    pub(super) fn new(program: &'p Program) -> Interpreter<'p> {
        let rule = program.rule();
        Interpreter {
            program,
            rule,
            scope: Scope {
                fields: program.types().to_vec(),
                locals: Vec::new(),
                definitions: rule
                    .definitions
                    .iter()
                    .map(|it| DefinitionType::of(&it.body))
                    .collect(),
            },
            names: Names::of(rule),
            can_fail: false,
            cause: None,
            work: Cell::new(0),
        }
    }

    fn spend(&self, work: usize) {
        self.work.set(self.work.get().saturating_add(work));
    }

    fn is_exhausted(&self) -> bool {
        self.work.get() > WORK_MAX
    }

    /// What the rule can answer for these fields.
    pub(super) fn answer(mut self, mut known: Known) -> Answer {
        let mut answer = Answer::default();
        let Body::Statements(statements, otherwise) = &self.rule.body else {
            // Nobody can look into a script; which field has too many values to try is for the walk to say.
            answer.everywhere = true;
            return answer;
        };
        for statement in statements {
            if known.is_impossible() {
                break;
            }
            if self.is_exhausted() {
                answer.everywhere = true;
                answer.cause = Some(format!("a rule that takes more than {WORK_MAX} steps"));
                return self.finish(answer);
            }
            match statement {
                Statement::Let { value, .. } => {
                    let values = self.expr(value, &known);
                    let ty = self.type_of(value);
                    self.scope.locals.push(ty);
                    known.locals.push(values);
                }
                Statement::When { condition, slot } => {
                    let holds = scalars(&self.expr(condition, &known));
                    if holds.contains(&1) {
                        let then = self.refine(condition, true, &known);
                        answer.blocks.extend(self.slot(slot, &then));
                    }
                    if !holds.contains(&0) {
                        return self.finish(answer);
                    }
                    known = self.refine(condition, false, &known);
                }
            }
        }
        if !known.is_impossible() {
            match otherwise {
                Otherwise::Error => {}
                Otherwise::All => answer.everywhere = true,
                Otherwise::Slot(slot) => answer.blocks.extend(self.slot(slot, &known)),
            }
        }
        self.finish(answer)
    }

    fn finish(self, mut answer: Answer) -> Answer {
        answer.can_fail = self.can_fail;
        answer.cause = answer.cause.or(self.cause);
        answer.work = self.work.get();
        answer
    }

    fn slot(&mut self, slot: &[Expr], known: &Known) -> Option<Block> {
        if known.is_impossible() {
            return None;
        }
        let mut image = Vec::with_capacity(slot.len());
        for (at, expr) in slot.iter().enumerate() {
            let dimension = &self.rule.dimensions[at];
            let values = scalars(&self.expr(expr, known));
            let inside = Set::closed(dimension.first.into(), dimension.last.into());
            let inside = values.intersection(&inside);
            self.can_fail |= inside != values;
            if inside.is_empty() {
                return None;
            }
            image.push(inside);
        }
        Some(image)
    }

    fn type_of(&self, expr: &Expr) -> Type {
        // The rule was checked.
        self.scope.type_of(expr).unwrap_or(Type::I64)
    }

    fn blame(&mut self, expr: &Expr) {
        if self.cause.is_none() {
            self.cause = Some(self.names.text(expr));
        }
    }

    /// All of a type, because nothing better is known.
    fn lost(&mut self, expr: &Expr) -> Values {
        self.blame(expr);
        Values::all(self.type_of(expr))
    }

    /// Cuts off what leaves a type's range: evaluating it is an error.
    fn clip(&mut self, set: Set<i128>, ty: Type) -> Values {
        let clipped = set.intersection(&Set::from_spans(vec![whole_numbers(ty)]));
        self.can_fail |= clipped != set;
        Values::Scalars(clipped)
    }

    fn expr(&mut self, expr: &Expr, known: &Known) -> Values {
        if self.is_exhausted() {
            return self.lost(expr);
        }
        let values = self.evaluate(expr, known);
        self.spend(1 + values.size());
        values
    }

    fn evaluate(&mut self, expr: &Expr, known: &Known) -> Values {
        match expr {
            Expr::Literal(literal) => Values::one_of(std::slice::from_ref(literal), literal.ty()),
            Expr::Field(at) => known.fields[usize::from(*at)].clone(),
            Expr::Local(at) => known.locals[usize::from(*at)].clone(),
            Expr::Unary(Unary::Not, a) => {
                let a = scalars(&self.expr(a, known));
                Values::Scalars(truth(a.contains(&0), a.contains(&1)))
            }
            Expr::Unary(Unary::Negate, a) => {
                let a = scalars(&self.expr(a, known));
                let negated = a.runs().map(|(low, high)| closed(-high, -low)).collect();
                self.clip(bounded(negated), Type::I64)
            }
            Expr::Binary(Binary::And, a, b) => {
                let left = scalars(&self.expr(a, known));
                if !left.contains(&1) {
                    return Values::Scalars(left);
                }
                let known = self.refine(a, true, known);
                let right = scalars(&self.expr(b, &known));
                let no = left.contains(&0) || right.contains(&0);
                Values::Scalars(truth(right.contains(&1), no))
            }
            Expr::Binary(Binary::Or, a, b) => {
                let left = scalars(&self.expr(a, known));
                if !left.contains(&0) {
                    return Values::Scalars(left);
                }
                let known = self.refine(a, false, known);
                let right = scalars(&self.expr(b, &known));
                let yes = left.contains(&1) || right.contains(&1);
                Values::Scalars(truth(yes, right.contains(&0)))
            }
            Expr::Binary(operator, a, b) => self.binary(expr, *operator, a, b, known),
            Expr::If(parts) => self.choice(parts, known),
            Expr::In(a, list) => {
                let a_set = self.expr(a, known);
                let list = match list {
                    ListRef::Inline(list) => list,
                    ListRef::Named(at) => match &self.rule.definitions[usize::from(*at)].body {
                        DefinitionBody::List(list) => list,
                        _ => return Values::Scalars(truth(true, true)),
                    },
                };
                let inside = Values::one_of(list, self.type_of(a));
                let yes = !a_set.intersection(&inside).is_empty();
                let no = !a_set
                    .intersection(&inside.complement(self.type_of(a)))
                    .is_empty();
                Values::Scalars(truth(yes, no))
            }
            Expr::Lookup(at, a) => {
                let key = self.expr(a, known);
                self.lookup(expr, *at, &key, self.type_of(a))
            }
            Expr::Call(function, arguments) => self.call(expr, *function, arguments, known),
        }
    }

    fn choice(&mut self, parts: &[Expr; 3], known: &Known) -> Values {
        let [condition, then, otherwise] = parts;
        let holds = scalars(&self.expr(condition, known));
        let mut branch = |wanted: bool, expr: &Expr| {
            let known = self.refine(condition, wanted, known);
            (holds.contains(&i128::from(wanted)) && !known.is_impossible())
                .then(|| self.expr(expr, &known))
        };
        let (a, b) = (branch(true, then), branch(false, otherwise));
        match (a, b) {
            (Some(a), Some(b)) => a.union(&b),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => {
                Values::all(self.type_of(then)).intersection(&nothing(self.type_of(then)))
            }
        }
    }

    /// What is known of the fields where a condition holds, or does not.
    fn refine(&self, condition: &Expr, wanted: bool, known: &Known) -> Known {
        self.spend(known.fields.iter().map(Values::size).sum());
        match (condition, wanted) {
            (Expr::Unary(Unary::Not, inner), _) => self.refine(inner, !wanted, known),
            (Expr::Binary(Binary::And, a, b), true) | (Expr::Binary(Binary::Or, a, b), false) => {
                self.refine(b, wanted, &self.refine(a, wanted, known))
            }
            (Expr::Binary(operator, a, b), _) if operator.is_comparison() => match (&**a, &**b) {
                (Expr::Field(at), Expr::Literal(it)) => narrow(known, *at, *operator, it, wanted),
                (Expr::Literal(it), Expr::Field(at)) => {
                    narrow(known, *at, mirrored(*operator), it, wanted)
                }
                _ => known.clone(),
            },
            (Expr::In(a, list), _) => match (&**a, list) {
                (Expr::Field(at), ListRef::Inline(list)) => self.within(known, *at, list, wanted),
                (Expr::Field(at), ListRef::Named(definition)) => {
                    match &self.rule.definitions[usize::from(*definition)].body {
                        DefinitionBody::List(list) => self.within(known, *at, list, wanted),
                        _ => known.clone(),
                    }
                }
                _ => known.clone(),
            },
            (Expr::Field(at), _) => narrow(known, *at, Binary::Equal, &Literal::Bool(true), wanted),
            _ => known.clone(),
        }
    }

    fn within(&self, known: &Known, field: u16, list: &[Literal], wanted: bool) -> Known {
        let ty = self.scope.fields[usize::from(field)];
        let inside = Values::one_of(list, ty);
        let inside = if wanted {
            inside
        } else {
            inside.complement(ty)
        };
        let mut known = known.clone();
        let field = &mut known.fields[usize::from(field)];
        *field = field.intersection(&inside);
        known
    }

    fn binary(
        &mut self,
        expr: &Expr,
        operator: Binary,
        a: &Expr,
        b: &Expr,
        known: &Known,
    ) -> Values {
        let (x, y) = (self.expr(a, known), self.expr(b, known));
        let (x, y) = match (x, y) {
            (Values::Scalars(x), Values::Scalars(y)) => (x, y),
            (Values::Blobs(x), Values::Blobs(y)) => {
                return Values::Scalars(compare_blobs(operator, &x, &y));
            }
            _ => return self.lost(expr),
        };
        if x.is_empty() || y.is_empty() {
            return Values::Scalars(Set::empty());
        }
        if operator.is_comparison() {
            return Values::Scalars(compare(operator, &x, &y));
        }
        let ty = self.type_of(a);
        if x.count().saturating_mul(y.count()) <= VALUES_MAX {
            return self.pairs(operator, &x, &y, ty);
        }
        let one = (y.count() == 1).then(|| y.bounds().map_or(0, |(it, _)| it));
        let image = match (operator, one) {
            (Binary::Add, _) => combine(&x, &y, |a, b| (a.0 + b.0, a.1 + b.1)),
            (Binary::Subtract, _) => combine(&x, &y, |a, b| (a.0 - b.1, a.1 - b.0)),
            (Binary::Multiply, _) => {
                self.blame(expr);
                combine(&x, &y, corners(|a, b| a.saturating_mul(b)))
            }
            (Binary::Divide, Some(by)) if by != 0 => each(&x, |low, high| {
                let (low, high) = (floor_divide(low, by), floor_divide(high, by));
                vec![closed(low.min(high), low.max(high))]
            }),
            (Binary::Modulo, Some(by)) if by > 0 => each(&x, |low, high| modulo(low, high, by)),
            (Binary::ShiftRight, Some(by @ 0..=63)) => {
                each(&x, |low, high| vec![closed(low >> by, high >> by)])
            }
            (Binary::ShiftLeft, Some(by @ 0..=63)) => {
                self.blame(expr);
                each(&x, |low, high| vec![closed(low << by, high << by)])
            }
            (Binary::BitAnd, Some(mask)) if mask >= 0 && (mask + 1) & mask == 0 => {
                each(&x, |low, high| modulo(low, high, mask + 1))
            }
            _ => {
                self.blame(expr);
                let never = [Binary::BitAnd, Binary::BitOr, Binary::BitXor];
                self.can_fail |= !never.contains(&operator);
                rough(operator, &x, &y, ty)
            }
        };
        self.clip(image, ty)
    }

    /// Every pair of values.
    fn pairs(&mut self, operator: Binary, x: &Set<i128>, y: &Set<i128>, ty: Type) -> Values {
        self.spend(usize::try_from(x.count().saturating_mul(y.count())).unwrap_or(usize::MAX));
        let mut points = Vec::new();
        for a in x.values() {
            for b in y.values() {
                match arithmetic(operator, a, b) {
                    Some(value) => points.push(closed(value, value)),
                    None => self.can_fail = true,
                }
            }
        }
        self.clip(bounded(points), ty)
    }

    fn lookup(&mut self, expr: &Expr, at: u16, key: &Values, ty: Type) -> Values {
        match &self.rule.definitions[usize::from(at)].body {
            DefinitionBody::Table {
                entries,
                otherwise,
                result,
                ..
            } => {
                self.spend(entries.len());
                let hit = entries.iter().filter(|(from, _)| key.contains(from));
                let mut answers: Vec<Literal> = hit.map(|(_, to)| to.clone()).collect();
                let keys: Vec<_> = entries.iter().map(|(from, _)| from.clone()).collect();
                let others = Values::one_of(&keys, ty).complement(ty);
                if !key.intersection(&others).is_empty() {
                    answers.push(otherwise.clone());
                }
                Values::one_of(&answers, *result)
            }
            DefinitionBody::Ranges { first, bounds, .. } => {
                self.spend(bounds.len());
                let mut answers = Vec::new();
                let (mut answer, mut low) = (*first, None);
                for (bound, next) in bounds {
                    if key.overlaps(low, Some(bound)) {
                        answers.push(Literal::I64(answer));
                    }
                    (answer, low) = (*next, Some(bound));
                }
                if key.overlaps(low, None) {
                    answers.push(Literal::I64(answer));
                }
                Values::one_of(&answers, Type::I64)
            }
            DefinitionBody::Nodes(nodes) => {
                if let Some(values) = self.one_by_one(expr, std::slice::from_ref(key)) {
                    return values;
                }
                self.blame(expr);
                let nodes = nodes.nodes.iter().filter(|(_, weight)| *weight > 0);
                let nodes: Vec<_> = nodes.map(|(it, _)| Literal::U64(u64::from(*it))).collect();
                Values::one_of(&nodes, Type::U64)
            }
            DefinitionBody::List(_) => self.lost(expr),
        }
    }

    fn call(
        &mut self,
        expr: &Expr,
        function: Function,
        arguments: &[Expr],
        known: &Known,
    ) -> Values {
        let sets: Vec<_> = arguments.iter().map(|it| self.expr(it, known)).collect();
        if sets.iter().any(Values::is_empty) {
            return nothing(self.type_of(expr));
        }
        if function.has_zone() {
            return self.calendar(expr, function, arguments, &sets);
        }
        if let Some(image) = self.arithmetic_call(function, &sets, arguments) {
            return image;
        }
        if let Some(values) = self.one_by_one(expr, &sets) {
            return values;
        }
        if let (Function::Left | Function::Substring, Some(prefix)) =
            (function, common_prefix(function, &sets))
        {
            return Values::Blobs(Set::point(prefix));
        }
        self.blame(expr);
        self.can_fail = true;
        let top = match function {
            Function::Jump | Function::VitessShard => scalars(&sets[1])
                .bounds()
                .map(|(_, most)| Set::closed(0, (most - 1).max(0))),
            Function::PostgresPartition | Function::CitusShard | Function::KafkaPartition => {
                let most = scalars(&sets[1]).bounds();
                most.map(|(_, most)| Set::closed(0, (most - 1).max(0)))
            }
            Function::RedisSlot => Some(Set::closed(0, 16_383)),
            Function::Crc32
            | Function::Xxh32
            | Function::Murmur3
            | Function::Fnv1aNarrow
            | Function::MysqlCrc32 => Some(Set::closed(0, u32::MAX.into())),
            Function::JavaHash | Function::PostgresHash => {
                Some(Set::closed(i32::MIN.into(), i32::MAX.into()))
            }
            Function::Length => Some(Set::closed(0, i64::from(u16::MAX).into())),
            _ => None,
        };
        match top {
            Some(set) => Values::Scalars(set),
            None => Values::all(self.type_of(expr)),
        }
    }

    /// Functions that keep the order of numbers.
    fn arithmetic_call(
        &mut self,
        function: Function,
        sets: &[Values],
        arguments: &[Expr],
    ) -> Option<Values> {
        let Some(Values::Scalars(a)) = sets.first() else {
            return None;
        };
        let scaled = |by: i128| each(a, |low, high| vec![closed(low * by, high * by)]);
        Some(match function {
            Function::Micros | Function::ToI64 => self.clip(a.clone(), Type::I64),
            Function::ToU64 => self.clip(a.clone(), Type::U64),
            Function::FromMicros => self.clip(a.clone(), Type::Timestamp),
            // Between two of them lie other moments, which is no harm: they lie in the same pieces, or are added.
            Function::FromMillis => self.clip(scaled(1_000), Type::Timestamp),
            Function::FromSeconds => self.clip(scaled(1_000_000), Type::Timestamp),
            Function::Abs => {
                let image = each(a, |low, high| {
                    let negative = closed(-high.min(0), -low.min(0));
                    let positive = closed(low.max(0), high.max(0));
                    match (low < 0, high >= 0) {
                        (true, true) => vec![negative, positive],
                        (true, false) => vec![negative],
                        _ => vec![positive],
                    }
                });
                self.clip(image, Type::I64)
            }
            Function::Min | Function::Max => {
                let b = scalars(&sets[1]);
                let ((a_low, a_high), (b_low, b_high)) = (a.bounds()?, b.bounds()?);
                let both = a.union(&b);
                let reach = match function {
                    Function::Min => Set::closed(a_low.min(b_low), a_high.min(b_high)),
                    _ => Set::closed(a_low.max(b_low), a_high.max(b_high)),
                };
                self.clip(both.intersection(&reach), self.type_of(&arguments[0]))
            }
            _ => return None,
        })
    }

    fn calendar(
        &mut self,
        expr: &Expr,
        function: Function,
        arguments: &[Expr],
        sets: &[Values],
    ) -> Values {
        let Values::Scalars(a) = &sets[0] else {
            return self.lost(expr);
        };
        let part = crate::program::part(function);
        let unit = crate::program::unit(function);
        let narrow = |it: i128| i64::try_from(it).unwrap_or(i64::MAX);
        let ends = a.runs().map(|(low, high)| (narrow(low), narrow(high)));
        let mut spans = Vec::new();
        if self.type_of(&arguments[0]) == Type::Date {
            for (low, high) in ends {
                spans.extend(match (part, unit) {
                    (Some(part), _) => runs(&calendar::part_image_of_days(part, low, high)),
                    (None, Some(unit)) => {
                        let of = |day| calendar::index_of_day(unit, day).unwrap_or(day);
                        vec![closed(of(low).into(), of(high).into())]
                    }
                    (None, None) => return self.lost(expr),
                });
            }
            return Values::Scalars(bounded(spans));
        }
        let zone = match arguments.get(1) {
            Some(Expr::Literal(Literal::Str(zone))) => zone.as_str(),
            _ => self.rule.zone.as_deref().unwrap_or("UTC"),
        };
        let zones = self.program.code().map(|it| it.zones.as_slice());
        let zone = zones.and_then(|zones| zones.iter().find(|it| it.name() == zone));
        let Some(zone) = zone else {
            return self.lost(expr);
        };
        for (low, high) in ends {
            spans.extend(runs(&match (part, unit) {
                (Some(part), _) => calendar::part_image(part, low, high, zone),
                (None, Some(unit)) => calendar::index_image(unit, low, high, zone),
                (None, None) => return self.lost(expr),
            }));
        }
        Values::Scalars(bounded(spans))
    }

    /// Evaluates a function for every combination of its arguments' values, if they are few, by the evaluator itself.
    fn one_by_one(&mut self, expr: &Expr, sets: &[Values]) -> Option<Values> {
        if sets.iter().any(Values::is_empty) {
            return Some(nothing(self.type_of(expr)));
        }
        let mut columns: Vec<Vec<Literal>> = Vec::with_capacity(sets.len());
        let types: Vec<Type> = expr
            .children()
            .into_iter()
            .map(|it| self.type_of(it))
            .collect();
        let mut combinations = 1_u128;
        for (set, ty) in sets.iter().zip(&types) {
            let values = literals(set, *ty)?;
            combinations = combinations.saturating_mul(values.len() as u128);
            columns.push(values);
        }
        if combinations > VALUES_MAX {
            return None;
        }
        self.spend(usize::try_from(combinations).unwrap_or(usize::MAX));
        let mut answers = Vec::new();
        let mut at = vec![0; columns.len()];
        let applied = self.program.applied(expr, &types)?;
        'all: loop {
            let arguments = at.iter().zip(&columns).map(|(at, it)| it[*at].value());
            match applied.apply(&arguments.collect::<Vec<_>>()) {
                Some(answer) => answers.push(answer),
                None => self.can_fail = true,
            }
            for position in (0..at.len()).rev() {
                at[position] += 1;
                if at[position] < columns[position].len() {
                    continue 'all;
                }
                at[position] = 0;
            }
            break;
        }
        Some(Values::one_of(&answers, self.type_of(expr)))
    }
}

fn nothing(ty: Type) -> Values {
    Values::one_of(&[], ty)
}

/// The values of a set one by one, if they are few.
pub(super) fn literals(set: &Values, ty: Type) -> Option<Vec<Literal>> {
    match set {
        Values::Scalars(set) if set.count() <= VALUES_MAX => {
            set.values().map(|it| literal(it, ty)).collect()
        }
        Values::Scalars(_) => None,
        Values::Blobs(set) => set
            .spans()
            .iter()
            .map(|it| blob_literal(it.point()?.clone(), ty))
            .collect(),
    }
}

/// The constant of a number.
pub(super) fn literal(number: i128, ty: Type) -> Option<Literal> {
    Some(match ty {
        Type::Bool => Literal::Bool(number != 0),
        Type::I64 => Literal::I64(i64::try_from(number).ok()?),
        Type::U64 => Literal::U64(u64::try_from(number).ok()?),
        Type::Date => Literal::Date(i32::try_from(number).ok()?),
        Type::Timestamp => Literal::Timestamp(i64::try_from(number).ok()?),
        Type::Str | Type::Bytes | Type::Uuid => return None,
    })
}

pub(super) fn blob_literal(blob: Vec<u8>, ty: Type) -> Option<Literal> {
    Some(match ty {
        Type::Str => Literal::Str(String::from_utf8(blob).ok()?),
        Type::Bytes => Literal::Bytes(blob),
        Type::Uuid => Literal::Uuid(blob.try_into().ok()?),
        _ => return None,
    })
}

fn narrow(known: &Known, field: u16, operator: Binary, literal: &Literal, wanted: bool) -> Known {
    let inside = Values::compared(comparison(operator), literal);
    let inside = match wanted {
        true => inside,
        false => inside.complement(literal.ty()),
    };
    let mut known = known.clone();
    let field = &mut known.fields[usize::from(field)];
    *field = field.intersection(&inside);
    known
}

/// The text that all texts of a set begin with, if it is as long as the function takes from there.
fn common_prefix(function: Function, sets: &[Values]) -> Option<Vec<u8>> {
    let Values::Blobs(texts) = sets.first()? else {
        return None;
    };
    let count = |set: &Values| {
        let set = scalars(set);
        (set.count() == 1)
            .then(|| set.bounds().map(|(it, _)| it))
            .flatten()
    };
    let length = match function {
        Function::Left => count(sets.get(1)?)?,
        _ if count(sets.get(1)?)? == 0 => count(sets.get(2)?)?,
        _ => return None,
    };
    let low = &texts.spans().first()?.low;
    let high = texts.spans().last()?.high.clone()?;
    let text = std::str::from_utf8(low).ok()?;
    let length = usize::try_from(length).ok()?;
    let prefix: String = text.chars().take(length).collect();
    if prefix.chars().count() < length || prefix.is_empty() {
        return None;
    }
    let all = Values::prefix_end(&prefix)?;
    (high <= all).then(|| prefix.into_bytes())
}
