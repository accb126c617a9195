//! What operations make of sets of numbers and texts. Every answer covers what is possible. Knows nothing of rules.

use super::{
    conjunct::whole_numbers,
    predicate::mirrored,
    set::{Point, Set, Span},
};
use crate::{rule::Binary, value::Type};

/// Most spans of a set; beyond, they are joined from the least to the greatest.
const SPANS_MAX: usize = 4_096;

pub(super) fn truth(can_be_true: bool, can_be_false: bool) -> Set<i128> {
    match (can_be_true, can_be_false) {
        (true, true) => Set::closed(0, 1),
        (true, false) => Set::point(1),
        (false, true) => Set::point(0),
        (false, false) => Set::empty(),
    }
}

pub(super) fn bounded(spans: Vec<Span<i128>>) -> Set<i128> {
    let set = Set::from_spans(spans);
    match set.bounds() {
        Some((low, high)) if set.spans().len() > SPANS_MAX => Set::closed(low, high),
        _ => set,
    }
}

pub(super) fn closed(low: i128, high: i128) -> Span<i128> {
    Span {
        low,
        high: Some(high + 1),
    }
}

pub(super) fn each(x: &Set<i128>, of: impl Fn(i128, i128) -> Vec<Span<i128>>) -> Set<i128> {
    bounded(x.runs().flat_map(|(low, high)| of(low, high)).collect())
}

pub(super) type Run = (i128, i128);

/// Every run with every run, joined if they are too many.
pub(super) fn combine(x: &Set<i128>, y: &Set<i128>, of: impl Fn(Run, Run) -> Run) -> Set<i128> {
    let whole = |set: &Set<i128>| set.bounds().into_iter().collect::<Vec<_>>();
    let (a, b) = match x.spans().len() * y.spans().len() > SPANS_MAX {
        true => (whole(x), whole(y)),
        false => (x.runs().collect(), y.runs().collect()),
    };
    let mut spans = Vec::new();
    for a in &a {
        for b in &b {
            let (low, high) = of(*a, *b);
            spans.push(closed(low, high));
        }
    }
    bounded(spans)
}

pub(super) fn corners(of: impl Fn(i128, i128) -> i128) -> impl Fn(Run, Run) -> Run {
    move |a, b| {
        let all = [of(a.0, b.0), of(a.0, b.1), of(a.1, b.0), of(a.1, b.1)];
        let low = all.iter().copied().fold(i128::MAX, i128::min);
        let high = all.iter().copied().fold(i128::MIN, i128::max);
        // One more must fit behind it.
        (low, high.min(i128::MAX - 1))
    }
}

pub(super) fn floor_divide(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if a % b != 0 && (a < 0) != (b < 0) {
        quotient - 1
    } else {
        quotient
    }
}

/// The remainders of a run of numbers: one or two runs, or all.
pub(super) fn modulo(low: i128, high: i128, by: i128) -> Vec<Span<i128>> {
    if high - low + 1 >= by {
        return vec![closed(0, by - 1)];
    }
    let (first, last) = (low.rem_euclid(by), high.rem_euclid(by));
    match first <= last {
        true => vec![closed(first, last)],
        false => vec![closed(0, last), closed(first, by - 1)],
    }
}

pub(super) fn compare(operator: Binary, x: &Set<i128>, y: &Set<i128>) -> Set<i128> {
    let (Some((x_low, x_high)), Some((y_low, y_high))) = (x.bounds(), y.bounds()) else {
        return Set::empty();
    };
    let can_equal = !x.intersection(y).is_empty();
    let can_differ = x.count() > 1 || y.count() > 1 || x_low != y_low;
    match operator {
        Binary::Equal => truth(can_equal, can_differ),
        Binary::NotEqual => truth(can_differ, can_equal),
        Binary::Less => truth(x_low < y_high, x_high >= y_low),
        Binary::LessEqual => truth(x_low <= y_high, x_high > y_low),
        Binary::Greater => truth(x_high > y_low, x_low <= y_high),
        _ => truth(x_high >= y_low, x_low < y_high),
    }
}

pub(super) fn compare_blobs(operator: Binary, x: &Set<Vec<u8>>, y: &Set<Vec<u8>>) -> Set<i128> {
    // Exact where one side is a point, which covers conditions on fields.
    let point = |set: &Set<Vec<u8>>| match set.spans() {
        [one] => one.point().cloned(),
        _ => None,
    };
    let (set, point, operator) = match (point(x), point(y)) {
        (_, Some(point)) => (x, point, operator),
        (Some(point), None) => (y, point, mirrored(operator)),
        (None, None) => return truth(true, true),
    };
    let all = Span {
        low: Vec::new(),
        high: None,
    };
    let inside = match operator {
        Binary::Equal | Binary::NotEqual => Set::point(point),
        Binary::Less => Set::span(Vec::new(), Some(point)),
        Binary::LessEqual => Set::span(Vec::new(), Some(point.next())),
        Binary::Greater => Set::span(point.next(), None),
        _ => Set::span(point, None),
    };
    let yes = !set.intersection(&inside).is_empty();
    let no = !set.intersection(&inside.complement(&all)).is_empty();
    match operator {
        Binary::NotEqual => truth(no, yes),
        _ => truth(yes, no),
    }
}

/// One operation, or none if it is an error; the range of the type is checked by the caller.
pub(super) fn arithmetic(operator: Binary, a: i128, b: i128) -> Option<i128> {
    Some(match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a.checked_mul(b)?,
        Binary::Divide if b != 0 => floor_divide(a, b),
        Binary::Modulo if b > 0 => a.rem_euclid(b),
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::ShiftLeft if (0..=63).contains(&b) => a << b,
        Binary::ShiftRight if (0..=63).contains(&b) => a >> b,
        _ => return None,
    })
}

/// What can be said of the rest.
pub(super) fn rough(operator: Binary, x: &Set<i128>, y: &Set<i128>, ty: Type) -> Set<i128> {
    let whole = Set::from_spans(vec![whole_numbers(ty)]);
    let (Some((x_low, x_high)), Some((y_low, y_high))) = (x.bounds(), y.bounds()) else {
        return Set::empty();
    };
    let positive = x_low >= 0 && y_low >= 0;
    let bits = |it: i128| (1_i128 << (128 - it.max(0).leading_zeros()).min(64)) - 1;
    match operator {
        Binary::Modulo if y_high > 0 => {
            let most = match x_low >= 0 {
                true => (y_high - 1).min(x_high),
                false => y_high - 1,
            };
            Set::closed(0, most)
        }
        Binary::BitAnd if y_low >= 0 => Set::closed(0, y_high),
        Binary::BitAnd if x_low >= 0 => Set::closed(0, x_high),
        Binary::BitOr | Binary::BitXor if positive => Set::closed(0, bits(x_high.max(y_high))),
        Binary::ShiftRight if x_low >= 0 => Set::closed(0, x_high),
        Binary::Divide if x_low >= 0 && y_low > 0 => {
            Set::closed(floor_divide(x_low, y_high), floor_divide(x_high, y_low))
        }
        _ => whole,
    }
}
