//! The counters of the product's metrics while one world runs: what happened inside that no answer shows. It must not know which
//! counters there are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

use crate::hub::locked;

/// Counts by name, labels aside.
#[derive(Default)]
struct Counters(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = locked(&self.0);
        let count = match counters.get(key.name()) {
            Some(count) => Arc::clone(count),
            None => Arc::clone(counters.entry(key.name().to_owned()).or_default()),
        };
        Counter::from_arc(count)
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Does work on this thread, and gives what it counted.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, BTreeMap<String, u64>) {
    let counters = Counters::default();
    let done = with_local_recorder(&counters, work);
    let counts = locked(&counters.0);
    let counts = counts
        .iter()
        .map(|(name, count)| (name.clone(), count.load(Ordering::Relaxed)));
    (done, counts.collect())
}
