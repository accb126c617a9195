//! Time inside a region (C8): a clock that never goes back for SlateDB, and timestamps that never repeat for a row.
//!
//! SlateDB's writer sleeps and then closes the database when the clock stands behind its last tick, so the clock handed to it
//! starts at the maximum of the wall clock and all that manifest and log have seen. This module must not know of regions.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cadastre_env::Clock;
use chrono::{DateTime, Utc};
use slatedb_common::clock::{SystemClock, SystemClockTicker};

/// How far the timestamps of a row may run ahead of the clock, ms. A row can be written more often than once a millisecond
/// for this long before timestamps begin to repeat.
pub(crate) const DRIFT_MAX_MS: i64 = 10_000;

/// Rows share this many last timestamps by hash. Sharing costs nothing but drift of a row next to a hot one.
const ROW_SLOTS: usize = 256;

/// A clock that is ahead of the wall clock goes on at this part of its speed: so the wall clock catches up, and yet what SlateDB
/// names by the time (SSTs, compactions) comes in order. With a clock that stands still a compaction may get a name below
/// the last one's, and SlateDB then forgets it before anybody has seen its end.
const AHEAD_PART: u32 = 2;

/// SlateDB's clock for one database.
#[derive(Debug)]
pub(crate) struct RegionClock<C> {
    clock: C,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// The last time told to SlateDB, and the floor for the next, ms.
    last: i64,
    /// While the wall clock is not above that: since when (mono) it is what the clock shows.
    since: Option<Duration>,
}

impl<C: Clock> RegionClock<C> {
    pub(crate) fn new(clock: C) -> Arc<Self> {
        Arc::new(Self {
            clock,
            told: Mutex::default(),
        })
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().expect("not poisoned")
    }

    /// Makes sure that no time before this one is told any more, ms.
    pub(crate) fn raise(&self, to: i64) {
        let mut told = self.told();
        if to > told.last {
            told.last = to;
            told.since = None;
        }
    }

    /// The time, ms since 1970; never goes back, and never stands still.
    pub(crate) fn now_ms(&self) -> i64 {
        let wall = self.wall_ms();
        let mut told = self.told();
        if wall > told.last {
            told.last = wall;
            told.since = None;
            return wall;
        }
        let now = self.clock.mono();
        let since = *told.since.get_or_insert(now);
        let passed = now.saturating_sub(since) / AHEAD_PART;
        let ms = u32::try_from(passed.as_millis()).unwrap_or(u32::MAX);
        if ms > 0 {
            told.last = told.last.saturating_add(i64::from(ms));
            told.since = Some(since + Duration::from_millis(ms.into()) * AHEAD_PART);
        }
        told.last
    }

    /// The latest time that was told or raised to, ms.
    pub(crate) fn seen_ms(&self) -> i64 {
        self.told().last
    }

    /// The wall clock as it is, ms since 1970: what expiry is measured by.
    pub(crate) fn wall_ms(&self) -> i64 {
        i64::try_from(self.clock.wall()).unwrap_or(i64::MAX)
    }
}

impl<C: Clock> SystemClock for RegionClock<C> {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.now_ms()).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.clock.sleep(duration))
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

/// The last timestamp given out to the rows of one slot.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    last: i64,
    /// Whether a delete was written since at `last`: then the next write must not repeat it, or the delete would hide it.
    deleted: bool,
}

/// Timestamps for cells that came without one.
#[derive(Debug)]
pub(crate) struct RowTimestamps {
    /// The lowest that is given out: above what was seen in manifest and log at open.
    floor: i64,
    slots: Mutex<Vec<Slot>>,
}

impl RowTimestamps {
    /// Timestamps above everything written before.
    pub(crate) fn above(seen: i64) -> Self {
        Self {
            floor: seen.saturating_add(1),
            slots: Mutex::new(vec![Slot::default(); ROW_SLOTS]),
        }
    }

    fn slot(row: &[u8]) -> usize {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        (hasher.finish() % ROW_SLOTS as u64) as usize
    }

    /// The next timestamp for a row at this wall time, ms. It never goes back for the row, and repeats only when the row is
    /// [`DRIFT_MAX_MS`] ahead of the clock and was not deleted from at that very timestamp.
    pub(crate) fn next(&self, row: &[u8], wall: i64) -> i64 {
        let mut slots = self.slots.lock().expect("not poisoned");
        let slot = &mut slots[Self::slot(row)];
        let base = wall.max(self.floor);
        let mut next = base.max(slot.last.saturating_add(1));
        if next > base.saturating_add(DRIFT_MAX_MS) && !slot.deleted {
            next = slot.last;
            metrics::counter!("cadastre_store_timestamps_repeated").increment(1);
        }
        if next != slot.last {
            slot.deleted = false;
        }
        slot.last = next;
        next
    }

    /// Tells that a delete marker was written to the row at or after its last timestamp.
    pub(crate) fn deleted(&self, row: &[u8]) {
        self.slots.lock().expect("not poisoned")[Self::slot(row)].deleted = true;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn a_row_never_goes_back_nor_repeats_within_the_drift() {
        let stamps = RowTimestamps::above(1_000);
        let first = stamps.next(b"r", 500);
        assert_eq!(first, 1_001, "above what was seen before");
        let mut last = first;
        for wall in [500, 500, 2_000, 100, 100] {
            let next = stamps.next(b"r", wall);
            assert!(next > last);
            last = next;
        }
    }

    #[test]
    fn drift_is_bounded_but_a_delete_never_hides_what_comes_after_it() {
        let stamps = RowTimestamps::above(0);
        let wall = 5_000;
        for _ in 0..DRIFT_MAX_MS * 2 {
            stamps.next(b"r", wall);
        }
        let at = stamps.next(b"r", wall);
        assert_eq!(at, wall + DRIFT_MAX_MS);
        stamps.deleted(b"r");
        assert_eq!(stamps.next(b"r", wall), at + 1);
        assert_eq!(stamps.next(b"r", wall), at + 1, "and repeats again");
    }

    /// Wall clock, and ms of the monotone one.
    #[derive(Debug, Clone)]
    struct Jumping(Arc<AtomicI64>, Arc<AtomicI64>);

    impl Clock for Jumping {
        fn wall(&self) -> u64 {
            self.0.load(Ordering::SeqCst) as u64
        }
        fn mono(&self) -> Duration {
            Duration::from_millis(self.1.load(Ordering::SeqCst) as u64)
        }
        async fn sleep(&self, _: Duration) {}
        async fn timeout<F: Future + Send>(
            &self,
            _: Duration,
            future: F,
        ) -> Result<F::Output, cadastre_env::Elapsed>
        where
            F::Output: Send,
        {
            Ok(future.await)
        }
    }

    #[test]
    fn the_region_clock_does_not_follow_a_step_back() {
        let wall = Arc::new(AtomicI64::new(10_000));
        let mono = Arc::new(AtomicI64::new(0));
        let clock = RegionClock::new(Jumping(Arc::clone(&wall), Arc::clone(&mono)));
        assert_eq!(clock.now_ms(), 10_000);
        wall.store(1_000, Ordering::SeqCst);
        assert_eq!(clock.now_ms(), 10_000);
        clock.raise(20_000);
        assert_eq!(clock.now_ms(), 20_000);
        wall.store(30_000, Ordering::SeqCst);
        assert_eq!(clock.now_ms(), 30_000);
        // Behind it goes on, but slower, until the wall clock is there.
        wall.store(1_000, Ordering::SeqCst);
        for (passed, shows) in [
            (0, 30_000),
            (1, 30_000),
            (2, 30_001),
            (3, 30_001),
            (100, 30_050),
        ] {
            mono.store(passed, Ordering::SeqCst);
            assert_eq!(clock.now_ms(), shows, "after {passed} ms");
        }
        wall.store(30_051, Ordering::SeqCst);
        assert_eq!(clock.now_ms(), 30_051);
        clock.raise(40_000);
        mono.store(1_000, Ordering::SeqCst);
        assert_eq!(clock.now_ms(), 40_000);
        mono.store(1_200, Ordering::SeqCst);
        assert_eq!(clock.now_ms(), 40_100);
    }
}
