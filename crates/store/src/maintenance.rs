//! What keeps the store healthy without being asked: flushes by budget, compaction, truncation of the log.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cadastre_env::{Clock, Env};
use cadastre_types::Result;

use crate::region::RegionShared;
use crate::store::StoreShared;

/// How often maintenance looks around when nothing wakes it.
const INTERVAL: Duration = Duration::from_secs(10);

/// Starts the store's maintenance task on the calling runtime.
pub(crate) fn start<E: Env>(store: &Arc<StoreShared<E>>) {
    let weak = Arc::downgrade(store);
    let clock = store.env.clock().clone();
    store.env.spawn("store maintenance", run(weak, clock));
}

async fn run<E: Env>(weak: Weak<StoreShared<E>>, clock: E::Clock) {
    loop {
        let Some(store) = weak.upgrade() else {
            return;
        };
        if store.closed.load(Ordering::SeqCst) {
            return;
        }
        turn(&store).await;
        let wake = Arc::clone(&store.wake);
        // Not held while waiting: a store that nobody uses any more ends.
        drop(store);
        // Woken or not, it looks around.
        let _ = clock.timeout(INTERVAL, wake.notified()).await;
    }
}

async fn turn<E: Env>(_store: &Arc<StoreShared<E>>) {}

pub(crate) async fn compact_region<E: Env>(
    _region: &Arc<RegionShared<E>>,
    _major: bool,
) -> Result<()> {
    Ok(())
}
