//! Sets of values as sorted, disjoint half-open spans: numbers as `i128`, text and bytes by their bytes. Knows nothing of
//! rules.

/// What can be an end of a span.
pub(super) trait Point: Ord + Clone + std::fmt::Debug {
    /// The next greater value: none lies between.
    fn next(&self) -> Self;
}

impl Point for i128 {
    fn next(&self) -> i128 {
        self + 1
    }
}

impl Point for Vec<u8> {
    fn next(&self) -> Vec<u8> {
        let mut next = Vec::with_capacity(self.len() + 1);
        next.extend_from_slice(self);
        next.push(0);
        next
    }
}

/// From `low`, included, to `high`, excluded; without end if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span<T> {
    pub(super) low: T,
    pub(super) high: Option<T>,
}

impl<T: Point> Span<T> {
    fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    /// The only value, if it is one.
    pub(super) fn point(&self) -> Option<&T> {
        (self.high.as_ref() == Some(&self.low.next())).then_some(&self.low)
    }

    pub(super) fn contains(&self, value: &T) -> bool {
        self.low <= *value && self.high.as_ref().is_none_or(|high| value < high)
    }
}

/// Sorted spans that neither overlap nor touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set<T> {
    spans: Vec<Span<T>>,
}

impl<T: Point> Set<T> {
    pub(super) fn empty() -> Set<T> {
        Set { spans: Vec::new() }
    }

    pub(super) fn span(low: T, high: Option<T>) -> Set<T> {
        Set::from_spans(vec![Span { low, high }])
    }

    pub(super) fn point(value: T) -> Set<T> {
        let high = Some(value.next());
        Set::span(value, high)
    }

    /// In any order, overlapping or not.
    pub(super) fn from_spans(mut spans: Vec<Span<T>>) -> Set<T> {
        spans.retain(|it| !it.is_empty());
        spans.sort_by(|a, b| a.low.cmp(&b.low));
        let mut merged: Vec<Span<T>> = Vec::with_capacity(spans.len());
        for span in spans {
            match merged.last_mut() {
                Some(last) if last.high.as_ref().is_none_or(|high| span.low <= *high) => {
                    last.high = match (last.high.take(), span.high) {
                        (Some(a), Some(b)) => Some(a.max(b)),
                        _ => None,
                    };
                }
                _ => merged.push(span),
            }
        }
        Set { spans: merged }
    }

    pub(super) fn spans(&self) -> &[Span<T>] {
        &self.spans
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(super) fn contains(&self, value: &T) -> bool {
        let after = self.spans.partition_point(|it| it.low <= *value);
        after
            .checked_sub(1)
            .is_some_and(|at| self.spans[at].contains(value))
    }

    /// Whether any value lies from `low`, included, to `high`, excluded; none is no bound.
    pub(super) fn overlaps(&self, low: Option<&T>, high: Option<&T>) -> bool {
        let first = low.map_or(0, |low| {
            let ends_before = |it: &Span<T>| it.high.as_ref().is_some_and(|high| high <= low);
            self.spans.partition_point(ends_before)
        });
        let span = self.spans.get(first);
        span.is_some_and(|it| high.is_none_or(|high| it.low < *high))
    }

    pub(super) fn union(&self, other: &Set<T>) -> Set<T> {
        let mut spans = self.spans.clone();
        spans.extend_from_slice(&other.spans);
        Set::from_spans(spans)
    }

    pub(super) fn intersection(&self, other: &Set<T>) -> Set<T> {
        let (mut a, mut b) = (0, 0);
        let mut spans = Vec::new();
        while let (Some(x), Some(y)) = (self.spans.get(a), other.spans.get(b)) {
            let low = x.low.clone().max(y.low.clone());
            let high = match (&x.high, &y.high) {
                (Some(p), Some(q)) => Some(p.min(q).clone()),
                (one, None) | (None, one) => one.clone(),
            };
            // The one that ends first is done with.
            match (&x.high, &y.high) {
                (Some(p), Some(q)) if p <= q => a += 1,
                (Some(_), None) => a += 1,
                _ => b += 1,
            }
            let span = Span { low, high };
            if !span.is_empty() {
                spans.push(span);
            }
        }
        Set { spans }
    }

    /// All of `whole` that is not in here.
    pub(super) fn complement(&self, whole: &Span<T>) -> Set<T> {
        let mut spans = Vec::new();
        let mut low = Some(whole.low.clone());
        for span in &self.spans {
            if let Some(low) = low.take() {
                spans.push(Span {
                    low,
                    high: Some(span.low.clone()),
                });
            }
            low = span.high.clone();
        }
        if let Some(low) = low {
            spans.push(Span {
                low,
                high: whole.high.clone(),
            });
        }
        let whole = Set {
            spans: vec![whole.clone()],
        };
        Set::from_spans(spans).intersection(&whole)
    }
}

impl Set<i128> {
    /// From `low` to `high`, both included.
    pub(super) fn closed(low: i128, high: i128) -> Set<i128> {
        Set::span(low, Some(high + 1))
    }

    /// How many values, saturated; spans without end do not occur among numbers.
    pub(super) fn count(&self) -> u128 {
        self.spans
            .iter()
            .map(|it| it.high.map_or(u128::MAX, |high| high.abs_diff(it.low)))
            .fold(0, u128::saturating_add)
    }

    /// Least and greatest value.
    pub(super) fn bounds(&self) -> Option<(i128, i128)> {
        let first = self.spans.first()?;
        let last = self.spans.last()?;
        Some((first.low, last.high.map_or(i128::MAX, |it| it - 1)))
    }

    /// Least and greatest value of each span.
    pub(super) fn runs(&self) -> impl Iterator<Item = (i128, i128)> + '_ {
        self.spans
            .iter()
            .map(|it| (it.low, it.high.map_or(i128::MAX, |high| high - 1)))
    }

    /// Every value in order: ask for the count first.
    pub(super) fn values(&self) -> impl Iterator<Item = i128> + '_ {
        self.runs().flat_map(|(low, high)| low..=high)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Set, Span};

    fn set(parts: &[(i128, i128)]) -> (Set<i128>, BTreeSet<i128>) {
        let spans = parts.iter().map(|(low, length)| Span {
            low: *low,
            high: Some(low + length),
        });
        let model = parts.iter().flat_map(|(low, length)| *low..low + length);
        (Set::from_spans(spans.collect()), model.collect())
    }

    proptest! {
        #[test]
        fn a_set_of_spans_is_a_set(
            a in prop::collection::vec((-20_i128..20, -1_i128..6), 0..8),
            b in prop::collection::vec((-20_i128..20, -1_i128..6), 0..8),
        ) {
            let ((a, x), (b, y)) = (set(&a), set(&b));
            prop_assert_eq!(a.values().collect::<BTreeSet<_>>(), x.clone());
            prop_assert_eq!(a.union(&b), set(&x.union(&y).map(|it| (*it, 1)).collect::<Vec<_>>()).0);
            prop_assert_eq!(a.intersection(&b), set(&x.intersection(&y).map(|it| (*it, 1)).collect::<Vec<_>>()).0);
            let whole = Span { low: -25, high: Some(30) };
            let rest: Vec<_> = (-25..30).filter(|it| !x.contains(it)).map(|it| (it, 1)).collect();
            prop_assert_eq!(a.complement(&whole), set(&rest).0);
            prop_assert!((-30..40).all(|it| a.contains(&it) == x.contains(&it)));
            for low in -22..22 {
                let found = a.overlaps(Some(&low), Some(&(low + 3)));
                prop_assert_eq!(found, (low..low + 3).any(|it| x.contains(&it)));
                prop_assert_eq!(a.overlaps(None, Some(&low)), (-30..low).any(|it| x.contains(&it)));
            }
        }
    }
}
