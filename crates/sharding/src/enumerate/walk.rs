//! Walking over the pieces on which a rule is constant, one evaluation each: exact, jointly over all fields and
//! dimensions. Between two breaks of a field nothing that the rule looks at changes; where the rule looks at the field's
//! every value, the walk goes value by value, or over one period if it repeats; a text has a piece for each combination of
//! what the rule reads from it.

use super::{
    conjunct::{Values, number},
    image::{blob_literal, literal, literals},
    looks::{Looks, Steps},
    numbers::floor_divide,
    set::{Point, Set},
    texts::{self, Texts},
};
use crate::{
    rule::Domain,
    value::{Literal, Type},
};

/// The pieces of a field, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    /// A value of each.
    pub(super) samples: Vec<Literal>,
    /// There are more than were asked for, or some of which no value can be told.
    pub(super) partial: bool,
    /// Some values stand for others far away (a period, texts): the order of pieces is not the order of values.
    pub(super) reduced: bool,
}

impl Looks<'_> {
    /// The pieces of a set of values, at most `max`.
    pub(super) fn pieces(&self, values: &Values, ty: Type, can_fail: bool, max: usize) -> Pieces {
        if !self.asks.is_empty()
            && (!self.every || ty.is_scalar())
            && let Some(pieces) = self.text_pieces(values, ty, max)
        {
            return pieces;
        }
        match values {
            Values::Scalars(set) => self.scalar_pieces(set, ty, can_fail, max),
            Values::Blobs(set) => self.blob_pieces(set, ty, max),
        }
    }

    fn scalar_pieces(&self, set: &Set<i128>, ty: Type, can_fail: bool, max: usize) -> Pieces {
        let mut pieces = Pieces::default();
        for (low, high) in set.runs() {
            self.stretches(low, high, &mut |low, high, steps| {
                // Texts of numbers that were too much to tell apart: every number has its own.
                let every = !self.asks.is_empty();
                stretch(steps, every, (low, high), ty, can_fail, max, &mut pieces);
            });
        }
        pieces
    }

    /// A text for each combination of what is read from it.
    fn text_pieces(&self, values: &Values, ty: Type, max: usize) -> Option<Pieces> {
        // Few values are simpler than what is read from them.
        let few = literals(values, ty).filter(|it| it.len() <= FEW);
        if let Some(samples) = few {
            return Some(Pieces {
                samples,
                ..Pieces::default()
            });
        }
        let (texts, whole) = match values {
            Values::Scalars(set) => (Texts::Decimals(set), Some(self)),
            Values::Blobs(set) => {
                let bytes = ty != Type::Str;
                (Texts::Spans { set, bytes }, None)
            }
        };
        let samples = texts::samples(&self.asks, &self.at_blobs, whole, &texts, max)?;
        let samples = samples.into_iter().map(|it| match ty.is_scalar() {
            true => literal(std::str::from_utf8(&it).ok()?.parse().ok()?, ty),
            false => blob_literal(it, ty),
        });
        Some(Pieces {
            samples: samples.collect::<Option<_>>()?,
            partial: false,
            reduced: true,
        })
    }

    fn blob_pieces(&self, set: &Set<Vec<u8>>, ty: Type, max: usize) -> Pieces {
        // What is read from texts was too much to tell apart: every text has its own.
        let every = self.every || !self.asks.is_empty();
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
                if pieces.samples.len() >= max || every && !is_point {
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

/// So few texts are evaluated one by one.
const FEW: usize = 64;

/// Pieces of a stretch without a comparison in it; one period stands for all of it, if there is one.
fn stretch(
    steps: &Steps,
    every: bool,
    (low, high): (i128, i128),
    ty: Type,
    can_fail: bool,
    max: usize,
    pieces: &mut Pieces,
) {
    if pieces.partial {
        return;
    }
    let mut high = high;
    if let Some(period) = steps.period(can_fail).filter(|it| *it > 1 && !every)
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
        let next = match every {
            true => from + 1,
            false => steps.next_break(from).unwrap_or(high + 1),
        };
        from = next.max(from + 1);
    }
}

/// The values that a script's field can have by its declaration, which evaluation holds it to; without one, only few values can be told.
pub(super) fn declared(domain: Option<&Domain>, values: &Values, ty: Type, max: usize) -> Pieces {
    let mut pieces = Pieces::default();
    let (Some(domain), Values::Scalars(set)) = (domain, values) else {
        match literals(values, ty) {
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
    pieces
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
