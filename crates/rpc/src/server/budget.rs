//! A bounded sum that many connections draw from: bytes or calls in flight. Knows nothing of what is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bounded sum.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    used: AtomicUsize,
}

impl Budget {
    /// A sum that starts at 0.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            used: AtomicUsize::new(0),
        })
    }

    /// The bound.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// What is drawn now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn draw(&self, amount: usize, max: usize) -> bool {
        // Only the sum matters, nothing is ordered by it.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(amount).filter(|sum| *sum <= max)
            })
            .is_ok()
    }
}

/// What one holder has drawn; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    held: usize,
}

impl Share {
    /// Nothing yet.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            held: 0,
        }
    }

    /// What this holder has.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Draws more, unless that passes the budget's bound.
    pub(crate) fn grow(&mut self, by: usize) -> bool {
        self.grow_within(by, self.budget.max)
    }

    /// Draws more, unless that passes a bound of the caller's.
    pub(crate) fn grow_within(&mut self, by: usize, max: usize) -> bool {
        let drawn = self.budget.draw(by, max);
        if drawn {
            self.held += by;
        }
        drawn
    }

    /// Draws more in any case: for what is already there and must be counted.
    pub(crate) fn grow_anyway(&mut self, by: usize) {
        self.budget.used.fetch_add(by, Ordering::Relaxed);
        self.held += by;
    }

    /// Gives back all but this much.
    pub(crate) fn shrink_to(&mut self, held: usize) {
        assert!(held <= self.held, "a share gives back what it holds");
        self.budget
            .used
            .fetch_sub(self.held - held, Ordering::Relaxed);
        self.held = held;
    }

    /// Moves what this one holds out of it.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            budget: Arc::clone(&self.budget),
            held: std::mem::take(&mut self.held),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_everything_comes_back() {
        let budget = Budget::new(10);
        let mut one = Share::new(&budget);
        let mut two = Share::new(&budget);
        assert!(one.grow(6));
        assert!(!two.grow(5));
        assert!(!two.grow(usize::MAX));
        assert!(!two.grow_within(1, 6));
        assert!(two.grow(4));
        one.shrink_to(1);
        assert_eq!((one.held(), budget.used()), (1, 5));
        two.grow_anyway(100);
        let moved = two.take();
        assert_eq!((two.held(), moved.held(), budget.used()), (0, 104, 105));
        drop(moved);
        drop(one);
        drop(two);
        assert_eq!(budget.used(), 0);
    }
}
