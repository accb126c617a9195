//! A set of integers as sorted runs: what enumeration needs of the image of a range (rules-and-migration.md, C3).
//!
//! Must not know what the integers mean.

/// Sorted runs of integers that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    runs: Vec<Run>,
}

/// All integers from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First integer.
    pub low: i64,
    /// Last integer; never below `low`.
    pub high: i64,
}

impl Runs {
    /// No integer at all.
    #[must_use]
    pub const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// All integers from `low` to `high`; none if `low` is above `high`.
    #[must_use]
    pub fn of(low: i64, high: i64) -> Self {
        let mut runs = Self::new();
        runs.add(low, high);
        runs
    }

    /// Adds all integers from `low` to `high`; nothing if `low` is above `high`.
    pub fn add(&mut self, low: i64, high: i64) {
        if low > high {
            return;
        }
        // The runs that overlap or touch the new one are those from `from` to `to`.
        let from = self
            .runs
            .partition_point(|run| run.high < low && run.high.saturating_add(1) < low);
        let to = self
            .runs
            .partition_point(|run| run.low <= high || run.low.saturating_sub(1) <= high);
        let mut merged = Run { low, high };
        if let Some(touched) = self.runs.get(from..to)
            && let (Some(first), Some(last)) = (touched.first(), touched.last())
        {
            merged.low = merged.low.min(first.low);
            merged.high = merged.high.max(last.high);
        }
        self.runs.splice(from..to.max(from), [merged]);
    }

    /// Adds another set's integers.
    pub fn join(&mut self, other: &Self) {
        for run in &other.runs {
            self.add(run.low, run.high);
        }
    }

    /// Whether `value` is in the set.
    #[must_use]
    pub fn contains(&self, value: i64) -> bool {
        self.covers(value, value)
    }

    /// Whether all integers from `low` to `high` are in the set.
    #[must_use]
    pub fn covers(&self, low: i64, high: i64) -> bool {
        let at = self.runs.partition_point(|run| run.high < low);
        self.runs
            .get(at)
            .is_some_and(|run| run.low <= low && high <= run.high)
    }

    /// The runs, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Run] {
        &self.runs
    }

    /// Whether there is no integer at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many integers there are.
    #[must_use]
    pub fn count(&self) -> u128 {
        self.runs
            .iter()
            .map(|run| u128::from(run.low.abs_diff(run.high)) + 1)
            .sum()
    }

    /// Every integer, in order. Whoever takes them all asks [`Runs::count`] first.
    pub fn values(&self) -> impl Iterator<Item = i64> + '_ {
        self.runs.iter().flat_map(|run| run.low..=run.high)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_runs_is_a_set(parts in prop::collection::vec((-30_i64..30, -2_i64..6), 0..20)) {
            let mut runs = Runs::new();
            let mut model = BTreeSet::new();
            for (low, length) in parts {
                runs.add(low, low + length);
                model.extend(low..=low + length);
            }
            prop_assert_eq!(runs.values().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(runs.count(), model.len() as u128);
            for value in -40..40 {
                prop_assert_eq!(runs.contains(value), model.contains(&value));
            }
            for pair in runs.as_slice().windows(2) {
                prop_assert!(pair[0].high + 1 < pair[1].low, "runs do not touch");
            }
        }
    }

    #[test]
    fn the_ends_of_the_integers() {
        let mut runs = Runs::of(i64::MIN, i64::MIN);
        runs.add(i64::MAX, i64::MAX);
        assert_eq!(runs.as_slice().len(), 2);
        runs.add(i64::MIN + 1, i64::MAX - 1);
        assert_eq!(runs, Runs::of(i64::MIN, i64::MAX));
        assert_eq!(runs.count(), 1 << 64);
        runs.add(i64::MIN, i64::MAX);
        assert_eq!(runs.as_slice().len(), 1);
    }
}
