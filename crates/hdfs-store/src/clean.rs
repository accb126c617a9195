//! Removing what writers left that died: files without a name that are old.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_types::Result;

use crate::store::Shared;

/// Age from which such a file is nobody's any more: longer than any process is stalled and comes back, and longer than clocks are apart.
/// NameNodes give a dead writer's file up after 20 minutes.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// How often it is looked for.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Pages of a listing in one look (INV-9): a thousand names each; the next look goes on, since what was found is gone.
const PAGES_MAX: usize = 1000;

/// Looks now and from time to time, as long as the store is used.
pub(crate) fn start<E: Env>(shared: &Arc<Shared<E>>) {
    let weak = Arc::downgrade(shared);
    let clock = shared.env.clock().clone();
    shared.env.spawn("hdfs cleaner", run(weak, clock));
}

async fn run<E: Env>(weak: Weak<Shared<E>>, clock: E::Clock) {
    loop {
        let Some(shared) = weak.upgrade() else {
            return;
        };
        match clean(&shared, OLD).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "files that dead writers left"),
            // The next look finds them, too.
            Err(error) => tracing::warn!(%error, "looking for what dead writers left"),
        }
        drop(shared);
        clock.sleep(INTERVAL).await;
    }
}

/// Removes files without a name that were last changed so long ago. How many.
pub(crate) async fn clean<E: Env>(shared: &Shared<E>, old: Duration) -> Result<usize> {
    let folder = shared.root.temporary();
    let now = shared.env.clock().wall();
    let old = u64::try_from(old.as_millis()).unwrap_or(u64::MAX);
    let mut after = Bytes::new();
    let mut removed = 0;
    for _ in 0..PAGES_MAX {
        let Some((page, more)) = shared.namenode.list(&folder, &after).await? else {
            break;
        };
        let Some(last) = page.last() else {
            break;
        };
        after = last.path.clone();
        for status in &page {
            let Ok(name) = std::str::from_utf8(&status.path) else {
                continue;
            };
            let age = now.saturating_sub(status.modification_time);
            // Our own are alive, whatever the clocks say.
            if age < old || name.starts_with(&shared.client) {
                continue;
            }
            removed += usize::from(shared.namenode.remove(&format!("{folder}/{name}")).await?);
        }
        if !more {
            break;
        }
    }
    Ok(removed)
}
