//! What an expression does with one number, its subject: `scale * x + shift` exactly, or what repeats after some steps of it.
//! The subject is a field, or a number that is read from a text. Knows nothing of pieces.

use std::rc::Rc;

use super::{
    conjunct::{number, whole_numbers},
    numbers::floor_divide,
    set::Span,
};
use crate::{
    Program,
    rule::{Binary, DefinitionBody, DefinitionType, Expr, Function, ListRef, Scope, Unary},
    value::{Literal, Type},
};

/// Greatest period that is looked for: beyond, no walk would stay in its budget.
pub(super) const PERIOD_MAX: i128 = 1 << 24;
/// Greatest scale and shift: products of two of them fit.
const COEFFICIENT_MAX: i128 = 1 << 62;

/// `scale * x + shift`, without regard to the range of its type: where that is left is a break of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Linear {
    pub(super) scale: i128,
    pub(super) shift: i128,
}

impl Linear {
    fn new(scale: i128, shift: i128) -> Option<Linear> {
        // A constant of u64 may be twice as great as a coefficient that is multiplied on.
        let fits = scale.abs() <= COEFFICIENT_MAX && shift.abs() <= COEFFICIENT_MAX << 20;
        fits.then_some(Linear { scale, shift })
    }

    fn constant(shift: i128) -> Linear {
        Linear { scale: 0, shift }
    }

    pub(super) fn at(self, x: i128) -> i128 {
        self.scale * x + self.shift
    }

    pub(super) fn minus(self, by: i128) -> Linear {
        Linear {
            scale: self.scale,
            shift: self.shift - by,
        }
    }

    fn combined(self, other: Linear, sign: i128) -> Option<Linear> {
        Linear::new(
            self.scale + sign * other.scale,
            self.shift + sign * other.shift,
        )
    }

    fn times(self, by: i128) -> Option<Linear> {
        Linear::new(self.scale.checked_mul(by)?, self.shift.checked_mul(by)?)
    }

    /// The first subject behind which it is no longer below zero, and the first behind zero (of a rising one; of a falling one alike).
    pub(super) fn roots(self) -> Option<[i128; 2]> {
        let (scale, shift) = match self.scale {
            0 => return None,
            1.. => (self.scale, self.shift),
            _ => (-self.scale, -self.shift),
        };
        let at = floor_divide(-shift, scale);
        let first = if at * scale == -shift { at } else { at + 1 };
        Some([first, at + 1])
    }

    /// The next subject at which it has passed into the next multiple of `by`.
    pub(super) fn next_multiple(self, x: i128, by: i128) -> i128 {
        let of = floor_divide(self.at(x), by);
        match self.scale > 0 {
            true => self.reach((of + 1) * by),
            // Falling: the first that is below the multiple that it is in.
            false => floor_divide(self.shift - of * by, -self.scale) + 1,
        }
    }

    /// The first subject at which a rising one is not below the value.
    pub(super) fn reach(self, value: i128) -> i128 {
        -floor_divide(self.shift - value, self.scale)
    }
}

/// One subject in one rule, perhaps on a stretch of its values on which no comparison changes.
pub(super) struct Lens<'p> {
    pub(super) program: &'p Program,
    pub(super) scope: Rc<Scope>,
    pub(super) subject: Expr,
    pub(super) stretch: Option<(i128, i128)>,
    /// What is read from the subject as a text: it is told apart by itself, beside the number.
    pub(super) apart: Vec<Expr>,
}

impl<'p> Lens<'p> {
    pub(super) fn new(program: &'p Program, subject: Expr) -> Lens<'p> {
        let definitions = program.rule().definitions.iter();
        Lens {
            program,
            scope: Rc::new(Scope {
                fields: program.types().to_vec(),
                // Names are replaced by what they stand for.
                locals: Vec::new(),
                definitions: definitions.map(|it| DefinitionType::of(&it.body)).collect(),
            }),
            subject,
            stretch: None,
            apart: Vec::new(),
        }
    }

    /// The same subject on a stretch of its values, or on all.
    pub(super) fn on(&self, stretch: Option<(i128, i128)>) -> Lens<'p> {
        Lens {
            program: self.program,
            scope: Rc::clone(&self.scope),
            subject: self.subject.clone(),
            stretch,
            apart: Vec::new(),
        }
    }

    pub(super) fn is_subject(&self, expr: &Expr) -> bool {
        *expr == self.subject
    }

    pub(super) fn type_of(&self, expr: &Expr) -> Type {
        // The rule was checked.
        self.scope.type_of(expr).unwrap_or(Type::I64)
    }

    pub(super) fn definition(&self, at: u16) -> Option<&'p DefinitionBody> {
        let definition = self.program.rule().definitions.get(usize::from(at));
        definition.map(|it| &it.body)
    }

    /// The list that `in` looks into.
    pub(super) fn list<'l>(&self, list: &'l ListRef) -> &'l [Literal]
    where
        'p: 'l,
    {
        match list {
            ListRef::Inline(list) => list,
            ListRef::Named(at) => match self.definition(*at) {
                Some(DefinitionBody::List(list)) => list,
                _ => &[],
            },
        }
    }

    pub(super) fn linear(&self, expr: &Expr) -> Option<Linear> {
        if self.is_subject(expr) {
            let number = self.type_of(expr).is_scalar();
            return number.then_some(Linear { scale: 1, shift: 0 });
        }
        match expr {
            Expr::Literal(literal) => number(literal).map(Linear::constant),
            Expr::Unary(Unary::Negate, a) => self.linear(a)?.times(-1),
            Expr::Binary(Binary::Add, a, b) => self.linear(a)?.combined(self.linear(b)?, 1),
            Expr::Binary(Binary::Subtract, a, b) => self.linear(a)?.combined(self.linear(b)?, -1),
            Expr::Binary(Binary::Multiply, a, b) => {
                let (a, b) = (self.linear(a)?, self.linear(b)?);
                match (a.scale, b.scale) {
                    (0, _) => b.times(a.shift),
                    (_, 0) => a.times(b.shift),
                    _ => None,
                }
            }
            Expr::Binary(Binary::ShiftLeft, a, b) => match self.linear(b)? {
                Linear {
                    scale: 0,
                    shift: by @ 0..=61,
                } => self.linear(a)?.times(1 << by),
                _ => None,
            },
            Expr::If(parts) => match self.truth(&parts[0])? {
                true => self.linear(&parts[1]),
                false => self.linear(&parts[2]),
            },
            Expr::Call(function, arguments) => self.linear_call(*function, arguments),
            _ => None,
        }
    }

    fn linear_call(&self, function: Function, arguments: &[Expr]) -> Option<Linear> {
        let a = || self.linear(arguments.first()?);
        match function {
            Function::Micros | Function::ToI64 | Function::ToU64 | Function::FromMicros => a(),
            Function::FromMillis => a()?.times(1_000),
            Function::FromSeconds => a()?.times(1_000_000),
            Function::Abs => {
                let a = a()?;
                match self.side(a)? {
                    true => Some(a),
                    false => a.times(-1),
                }
            }
            Function::Min | Function::Max => {
                let (a, b) = (a()?, self.linear(arguments.get(1)?)?);
                let above = self.side(a.combined(b, -1)?)?;
                Some(if above == (function == Function::Max) {
                    a
                } else {
                    b
                })
            }
            _ => None,
        }
    }

    /// Its values at both ends of the stretch; those of a constant wherever it is.
    fn signs(&self, of: Linear) -> Option<(i128, i128)> {
        match (of.scale, self.stretch) {
            (0, _) => Some((of.shift, of.shift)),
            (_, Some((low, high))) => Some((of.at(low), of.at(high))),
            (_, None) => None,
        }
    }

    /// Whether it is nowhere below zero on the stretch, or else nowhere above; none if neither.
    fn side(&self, of: Linear) -> Option<bool> {
        let (a, b) = self.signs(of)?;
        match a.min(b) >= 0 {
            true => Some(true),
            false => (a.max(b) <= 0).then_some(false),
        }
    }

    /// Whether a condition holds on the whole stretch, or nowhere on it.
    fn truth(&self, condition: &Expr) -> Option<bool> {
        match condition {
            Expr::Literal(Literal::Bool(it)) => Some(*it),
            Expr::Unary(Unary::Not, a) => Some(!self.truth(a)?),
            Expr::Binary(Binary::And, a, b) => Some(self.truth(a)? && self.truth(b)?),
            Expr::Binary(Binary::Or, a, b) => Some(self.truth(a)? || self.truth(b)?),
            Expr::Binary(operator, a, b) if operator.is_comparison() => {
                let ends = self.signs(self.linear(a)?.combined(self.linear(b)?, -1)?)?;
                let holds = |it: i128| match operator {
                    Binary::Equal => it == 0,
                    Binary::NotEqual => it != 0,
                    Binary::Less => it < 0,
                    Binary::LessEqual => it <= 0,
                    Binary::Greater => it > 0,
                    _ => it >= 0,
                };
                let crosses = (ends.0 < 0) != (ends.1 < 0) || (ends.0 > 0) != (ends.1 > 0);
                (!crosses || ends.0 == ends.1).then(|| holds(ends.0))
            }
            _ => None,
        }
    }

    /// Least and greatest value on the stretch, if that can be told; without regard to the type's range.
    pub(super) fn bounds(&self, expr: &Expr) -> Option<(i128, i128)> {
        if let Some(linear) = self.linear(expr) {
            let (a, b) = self.signs(linear)?;
            return Some((a.min(b), a.max(b)));
        }
        let Expr::Binary(operator, a, b) = expr else {
            return None;
        };
        let by = positive(b);
        let a = self.bounds(a);
        Some(match (operator, by, a) {
            (Binary::Modulo, Some(by), _) => (0, by - 1),
            (Binary::Divide, Some(by), Some((low, high))) => {
                (floor_divide(low, by), floor_divide(high, by))
            }
            (Binary::ShiftRight, Some(by @ 0..=63), Some((low, high))) => (low >> by, high >> by),
            (Binary::Add, _, Some((low, high))) => {
                let b = self.bounds(b)?;
                (low + b.0, high + b.1)
            }
            (Binary::Subtract, _, Some((low, high))) => {
                let b = self.bounds(b)?;
                (low - b.1, high - b.0)
            }
            (Binary::Multiply, _, Some((low, high))) => {
                let b = self.bounds(b)?;
                let products = [(low, b.0), (low, b.1), (high, b.0), (high, b.1)];
                let products = products.into_iter().map(|(a, b)| a.checked_mul(b));
                let products: Vec<i128> = products.collect::<Option<_>>()?;
                (*products.iter().min()?, *products.iter().max()?)
            }
            (Binary::ShiftLeft, Some(by @ 0..=61), Some((low, high))) => {
                (low.checked_mul(1 << by)?, high.checked_mul(1 << by)?)
            }
            (Binary::BitAnd | Binary::BitOr | Binary::BitXor, _, Some((0.., high))) => {
                let b = self.bounds(b).filter(|it| it.0 >= 0)?;
                // No bit above the highest of both.
                (
                    0,
                    (1_i128 << (128 - high.max(b.1).leading_zeros()).min(126)) - 1,
                )
            }
            _ => return None,
        })
    }

    /// Which way it goes with the subject, never back: 1 up, -1 down, 0 not at all.
    pub(super) fn direction(&self, expr: &Expr) -> Option<i128> {
        if let Some(linear) = self.linear(expr) {
            return Some(linear.scale.signum());
        }
        let Expr::Binary(operator, a, b) = expr else {
            return None;
        };
        let constant = |it: &Expr| self.linear(it).filter(|it| it.scale == 0);
        match operator {
            Binary::Divide | Binary::ShiftRight => {
                positive(b)?;
                self.direction(a)
            }
            Binary::Add => match constant(a) {
                Some(_) => self.direction(b),
                None => constant(b).and_then(|_| self.direction(a)),
            },
            Binary::Subtract => constant(b).and_then(|_| self.direction(a)),
            _ => None,
        }
    }

    /// Where the values of linear parts leave the range of their type, which is an error there and none beside.
    pub(super) fn range_breaks(&self, expr: &Expr, breaks: &mut Vec<i128>) {
        let checked = match expr {
            Expr::Unary(Unary::Negate, _) => true,
            Expr::Binary(operator, ..) => operator.is_arithmetic(),
            Expr::Call(function, _) => matches!(
                function,
                Function::Abs
                    | Function::Micros
                    | Function::ToI64
                    | Function::ToU64
                    | Function::FromMicros
                    | Function::FromMillis
                    | Function::FromSeconds
            ),
            _ => false,
        };
        if checked && let Some(linear) = self.linear(expr).filter(|it| it.scale != 0) {
            let Span { low, high } = whole_numbers(self.type_of(expr));
            for end in [Some(low), high].into_iter().flatten() {
                breaks.extend(linear.minus(end).roots().into_iter().flatten());
            }
        }
        for child in expr.children() {
            self.range_breaks(child, breaks);
        }
    }

    /// After how many subjects all of these repeat on the stretch, where no break lies between.
    pub(super) fn period<'e>(&self, exprs: impl Iterator<Item = &'e Expr>) -> Option<Repeats> {
        let mut repeats = Repeats {
            period: 1,
            is_safe: true,
        };
        for expr in exprs {
            let of = self.dependence(expr, &mut repeats.is_safe)?;
            if of.slope != 0 {
                return None;
            }
            repeats.period = least_multiple(repeats.period, of.step)?;
        }
        Some(repeats)
    }

    fn dependence(&self, expr: &Expr, safe: &mut bool) -> Option<Dependence> {
        if let Some(linear) = self.linear(expr) {
            return Some(Dependence {
                step: 1,
                slope: linear.scale,
            });
        }
        if self.apart.contains(expr) {
            return Some(CONSTANT);
        }
        let mut of = |it: &Expr| self.dependence(it, safe);
        match expr {
            Expr::Literal(_) | Expr::Field(_) => Some(CONSTANT),
            // A name whose expression was too large to put in its place.
            Expr::Local(_) => None,
            // Between two breaks a comparison with a constant does not change; of other things it repeats if both sides do.
            Expr::Binary(operator, a, b) if operator.is_comparison() => {
                match (self.linear(a), self.linear(b)) {
                    (Some(_), Some(_)) => Some(CONSTANT),
                    _ => repeating(&[of(a)?, of(b)?]),
                }
            }
            // The entries of a list or table are breaks too.
            Expr::In(a, _) if self.linear(a).is_some() => Some(CONSTANT),
            Expr::Lookup(at, a) if self.linear(a).is_some() => match self.definition(*at)? {
                DefinitionBody::Table { .. } | DefinitionBody::Ranges { .. } => Some(CONSTANT),
                _ => repeating(&[of(a)?]),
            },
            Expr::Unary(Unary::Negate, a) => {
                let a = of(a)?;
                self.is_safe(expr, a, safe);
                Some(Dependence {
                    step: a.step,
                    slope: -a.slope,
                })
            }
            Expr::Binary(operator, a, b) => {
                let commutes = [
                    Binary::Multiply,
                    Binary::BitAnd,
                    Binary::BitOr,
                    Binary::BitXor,
                ];
                let (a, b) = match &**a {
                    Expr::Literal(_) if commutes.contains(operator) => (b, a),
                    _ => (a, b),
                };
                let result = arithmetic(*operator, of(a)?, of(b)?, b)?;
                self.is_safe(expr, result, safe);
                Some(result)
            }
            Expr::Call(Function::Micros | Function::ToI64 | Function::ToU64, arguments) => {
                let a = of(arguments.first()?)?;
                self.is_safe(expr, a, safe);
                Some(a)
            }
            other => {
                let children: Option<Vec<_>> = other.children().into_iter().map(of).collect();
                repeating(&children?)
            }
        }
    }

    /// What grows with the subject without being linear may leave its type's range somewhere, which does not repeat.
    fn is_safe(&self, expr: &Expr, of: Dependence, safe: &mut bool) {
        if of.slope == 0 || !*safe {
            return;
        }
        let Span { low, high } = whole_numbers(self.type_of(expr));
        *safe = self
            .bounds(expr)
            .is_some_and(|(a, b)| low <= a && high.is_none_or(|high| b < high));
    }
}

/// How often something repeats, and whether nothing of it can overflow on the stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeats {
    pub(super) period: i128,
    pub(super) is_safe: bool,
}

/// `f(x + n * step) = f(x) + n * slope`. A slope of zero is a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dependence {
    step: i128,
    slope: i128,
}

const CONSTANT: Dependence = Dependence { step: 1, slope: 0 };

pub(super) fn positive(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Literal(literal) => number(literal).filter(|it| *it > 0),
        _ => None,
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

pub(super) fn least_multiple(a: i128, b: i128) -> Option<i128> {
    let multiple = (a / gcd(a, b)).checked_mul(b)?;
    (multiple <= PERIOD_MAX).then_some(multiple)
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
    let literal = match right {
        Expr::Literal(literal) => number(literal),
        _ => None,
    };
    let by = literal.filter(|it| *it > 0);
    // After these many steps it has gone on by a multiple of this.
    let whole = |of: i128| -> Option<(i128, i128)> {
        let step = a.step.checked_mul(of / gcd(a.slope, of))?;
        (step <= PERIOD_MAX).then_some((step, a.slope / gcd(a.slope, of)))
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
        (Binary::ShiftLeft, _) if literal.is_some_and(|it| (0..=61).contains(&it)) => {
            Some(Dependence {
                step: a.step,
                slope: a.slope.checked_mul(1 << literal?)?,
            })
        }
        (Binary::Divide, Some(by)) => {
            let (step, slope) = whole(by)?;
            Some(Dependence { step, slope })
        }
        (Binary::ShiftRight, Some(by @ ..=24)) => {
            let (step, slope) = whole(1 << by)?;
            Some(Dependence { step, slope })
        }
        (Binary::Modulo, Some(by)) => {
            let (step, _) = whole(by)?;
            Some(Dependence { step, slope: 0 })
        }
        (Binary::BitAnd | Binary::BitOr | Binary::BitXor, _) if literal.is_some() => {
            let constant = literal?;
            // Above its highest bit the constant is all zeroes, or all ones if it is negative.
            let bits = if constant < 0 { !constant } else { constant };
            let unit = 1_i128.checked_shl(128 - bits.leading_zeros())?;
            let (step, times) = whole(unit)?;
            let slope = match (operator, constant < 0) {
                (Binary::BitAnd, false) | (Binary::BitOr, true) => 0,
                (Binary::BitXor, true) => times.checked_mul(-unit)?,
                _ => times.checked_mul(unit)?,
            };
            Some(Dependence { step, slope })
        }
        _ => repeating(&[a, b]),
    }
}
