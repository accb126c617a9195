//! The client's one-shot watches: who waits for what, and what to set again on a new connection.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::jute::{EventType, SetWatches, WatcherEvent};

/// Bytes of paths in one `setWatches`, so that its frame stays far below the limit.
const PATHS_BYTES_MAX: usize = 128 * 1024;

/// As the server keeps them; which one a request leaves depends on its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// On a znode that is there.
    Data,
    /// On a znode that is missing.
    Exist,
    /// On the children.
    Child,
}

#[derive(Debug, Default)]
pub(super) struct ClientWatches {
    waiting: BTreeMap<(Kind, String), Vec<oneshot::Sender<EventType>>>,
}

impl ClientWatches {
    pub(super) fn add(&mut self, kind: Kind, path: &str, tell: oneshot::Sender<EventType>) {
        let waiting = self.waiting.entry((kind, path.to_owned())).or_default();
        // Who asks again and again without waiting must not fill memory.
        waiting.retain(|tell| !tell.is_closed());
        waiting.push(tell);
    }

    pub(super) fn fire(&mut self, event: &WatcherEvent) {
        let kinds: &[Kind] = match event.kind {
            EventType::Created | EventType::DataChanged => &[Kind::Data, Kind::Exist],
            EventType::Deleted => &[Kind::Data, Kind::Exist, Kind::Child],
            EventType::ChildrenChanged => &[Kind::Child],
        };
        for &kind in kinds {
            let key = (kind, event.path.clone());
            for tell in self.waiting.remove(&key).unwrap_or_default() {
                // Nobody waits any more: fine.
                let _ = tell.send(event.kind);
            }
        }
    }

    /// The requests that set all watches again after a reconnect.
    pub(super) fn set_again(&mut self, relative_zxid: i64) -> Vec<SetWatches> {
        self.waiting.retain(|_, waiting| {
            waiting.retain(|tell| !tell.is_closed());
            !waiting.is_empty()
        });
        let mut requests = Vec::new();
        let mut bytes = 0;
        for (kind, path) in self.waiting.keys() {
            if requests.is_empty() || bytes + path.len() > PATHS_BYTES_MAX {
                requests.push(SetWatches {
                    relative_zxid,
                    ..SetWatches::default()
                });
                bytes = 0;
            }
            let request = requests.last_mut().expect("one was pushed");
            bytes += path.len() + 4;
            match kind {
                Kind::Data => request.data.push(path.clone()),
                Kind::Exist => request.exist.push(path.clone()),
                Kind::Child => request.child.push(path.clone()),
            }
        }
        requests
    }
}
