//! One caller looks up, the others wait on it (L10): per key a queue, whose first is the leader.
//!
//! A waiter that gets its turn looks in the cache again before it looks up itself, so a thousand callers for the rows of one
//! region make one look-up. A leader that is cancelled leaves the queue like one that is done: the next takes over (L18). A
//! failure that holds for the whole table is handed to everybody who was waiting when it came. This module must not know what
//! is looked up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use cadastre_types::Error;
use tokio::sync::OwnedMutexGuard;

/// The queues, by key. A key without callers has none.
#[derive(Debug)]
pub(crate) struct Flights<K: Ord + Clone> {
    by_key: Mutex<BTreeMap<K, Arc<Flight>>>,
}

impl<K: Ord + Clone> Default for Flights<K> {
    fn default() -> Self {
        Self {
            by_key: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Flight {
    turn: Arc<tokio::sync::Mutex<()>>,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    count: u64,
    last: Option<Error>,
}

impl Flight {
    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures
            .lock()
            .expect("nothing panics while it holds this lock")
    }
}

/// The caller's place in a queue; leaving it removes an empty queue.
struct Place<'a, K: Ord + Clone> {
    flights: &'a Flights<K>,
    key: K,
    flight: Arc<Flight>,
}

impl<K: Ord + Clone> Drop for Place<'_, K> {
    fn drop(&mut self) {
        let mut by_key = self.flights.lock();
        // The map and this place hold it: nobody else waits, and nobody can come while the map is locked.
        if Arc::strong_count(&self.flight) == 2 {
            by_key.remove(&self.key);
        }
    }
}

/// The right to look up. Dropping it, done or cancelled, gives the turn to the next.
pub(crate) struct Turn<'a, K: Ord + Clone> {
    // Dropped first: the turn is given up before the place.
    _turn: OwnedMutexGuard<()>,
    place: Place<'a, K>,
}

impl<K: Ord + Clone> Turn<'_, K> {
    /// Ends the turn and hands a failure to everybody who waits now.
    pub(crate) fn fail_all(self, error: Error) {
        let mut failures = self.place.flight.failures();
        failures.count += 1;
        failures.last = Some(error);
    }
}

impl<K: Ord + Clone> Flights<K> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Arc<Flight>>> {
        self.by_key
            .lock()
            .expect("nothing panics while it holds this lock")
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// What a leader handed to all who waited.
    pub(crate) async fn turn(&self, key: &K) -> Result<Turn<'_, K>, Error> {
        let flight = Arc::clone(self.lock().entry(key.clone()).or_default());
        let seen = flight.failures().count;
        let place = Place {
            flights: self,
            key: key.clone(),
            flight,
        };
        let turn = Arc::clone(&place.flight.turn).lock_owned().await;
        {
            let failures = place.flight.failures();
            if failures.count > seen
                && let Some(error) = &failures.last
            {
                return Err(error.clone());
            }
        }
        Ok(Turn { _turn: turn, place })
    }

    /// Keys that somebody leads or waits for.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use cadastre_types::Code;
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_cancelled_leader_is_taken_over_and_empty_queues_go() {
        let flights = Flights::<u8>::default();
        let leader = flights.turn(&1).now_or_never().unwrap().unwrap();
        let mut second = Box::pin(flights.turn(&1));
        let mut third = Box::pin(flights.turn(&1));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        assert!(
            flights.turn(&2).now_or_never().is_some(),
            "another key does not wait"
        );
        drop(second);
        drop(leader);
        let third = third.now_or_never().expect("its turn").unwrap();
        assert_eq!(flights.len(), 1);
        drop(third);
        assert_eq!(flights.len(), 0);
    }

    #[test]
    fn a_failure_reaches_those_who_waited_and_nobody_later() {
        let flights = Flights::<u8>::default();
        let leader = flights.turn(&1).now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(flights.turn(&1))).collect();
        for waiter in &mut waiting {
            assert!(waiter.now_or_never().is_none());
        }
        leader.fail_all(Error::new(Code::TableNotFound, "t"));
        let mut late = Box::pin(flights.turn(&1));
        assert!((&mut late).now_or_never().is_none(), "queued behind them");
        for waiter in waiting {
            let failed = waiter.now_or_never().expect("its turn").err();
            assert_eq!(failed.map(|error| error.code()), Some(Code::TableNotFound));
        }
        assert!(late.now_or_never().expect("its turn").is_ok());
        assert_eq!(flights.len(), 0);
    }
}
