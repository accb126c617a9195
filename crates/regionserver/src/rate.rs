//! Requests per second, by looks at a counter. Pure.

use std::sync::Mutex;
use std::time::Duration;

/// A look at a counter: when (monotone clock), and what it showed.
type Look = (Duration, u64);

/// The last two looks, which are one period apart: what is told spans one to two periods.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    looks: Mutex<[Look; 2]>,
}

impl Rate {
    /// Notes what the counter shows, once a period.
    pub(crate) fn look(&self, now: Duration, count: u64) {
        let mut looks = self.looks.lock().expect("not poisoned");
        *looks = [looks[1], (now, count)];
    }

    /// What was counted a second since the look before the last one. A counter of regions goes back when one leaves: then it is 0.
    pub(crate) fn per_second(&self, now: Duration, count: u64) -> u64 {
        let [(since, before), _] = *self.looks.lock().expect("not poisoned");
        let passed = now.saturating_sub(since).as_secs_f64();
        if passed < 1.0 {
            return 0;
        }
        (count.saturating_sub(before) as f64 / passed).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_spans_the_last_two_periods() {
        let rate = Rate::default();
        let at = Duration::from_secs;
        assert_eq!(rate.per_second(at(0), 5), 0, "no time has passed");
        assert_eq!(rate.per_second(at(5), 50), 10, "since the start");
        rate.look(at(10), 100);
        rate.look(at(20), 400);
        assert_eq!(rate.per_second(at(20), 400), 30);
        assert_eq!(rate.per_second(at(25), 400), 20);
        rate.look(at(30), 400);
        assert_eq!(rate.per_second(at(30), 400), 0, "nothing of late");
        assert_eq!(rate.per_second(at(31), 100), 0, "a region has gone");
    }
}
