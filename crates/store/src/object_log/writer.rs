//! Writing: groups that wait, and the task that puts one after the other. No lock is held while a listener is called: listeners ask back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cadastre_env::{Clock, Env};
use cadastre_types::{Code, Error, Result};
use slatedb::RowEntry;
use slatedb::wal::{
    WalError, WalEvent, WalFlushResult, WalObserver, WalStatus, WalStatusListener, WalWriter,
};
use tokio::sync::{Notify, watch};

use super::{ObjectLog, Put, Shared, content, unavailable};
use crate::log::Encoded;

/// Largest group, bytes, unless one write alone is larger: bounds how long its followers wait.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Objects with rows that were not flushed at which a flush is asked for: bounds what an opener reads back.
const REPLAYED_MAX: u64 = 4096;

/// How long a write waits for room before it is refused.
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// Rows on their way, as one object.
struct Group {
    number: u64,
    encoded: Vec<Encoded>,
    bytes: usize,
    last_sequence: u64,
    /// Nothing may be added.
    sealed: bool,
}

struct Inner {
    closed: Option<WalError>,
    waiting: VecDeque<Group>,
    /// Of all that waits, the group being put included.
    bytes: usize,
    records: usize,
    last_number: u64,
    flushed_number: u64,
    flushed_sequence: Option<u64>,
    listeners: Vec<WalStatusListener>,
}

impl Inner {
    fn status(&self) -> WalStatus {
        WalStatus {
            closed_reason: self.closed.clone(),
            estimated_bytes: self.bytes,
            last_flushed_wal_id: self.flushed_number,
            last_flushed_seq: self.flushed_sequence,
            buffered_wal_entries_count: self.records,
        }
    }
}

/// One writer of one database, from its fence on.
pub(crate) struct WriterState {
    epoch: u64,
    inner: Mutex<Inner>,
    /// There is something to do.
    wake: Notify,
    /// There is room again.
    room: Notify,
    /// The last number that is there; the task's end is told by `closed`.
    flushed: watch::Sender<u64>,
}

impl WriterState {
    pub(super) fn new(epoch: u64, fence: u64) -> Arc<Self> {
        Arc::new(Self {
            epoch,
            inner: Mutex::new(Inner {
                closed: None,
                waiting: VecDeque::new(),
                bytes: 0,
                records: 0,
                last_number: fence,
                flushed_number: fence,
                flushed_sequence: None,
                listeners: Vec::new(),
            }),
            wake: Notify::new(),
            room: Notify::new(),
            flushed: watch::Sender::new(fence),
        })
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("not poisoned")
    }

    /// See [`ObjectLog::admit`].
    pub(super) async fn admit<E: Env>(&self, shared: &Shared<E>, bytes: usize) -> Result<()> {
        let clock = shared.env.clock();
        let until = clock.mono() + ROOM_WAIT;
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // Registers before looking, so that no room is missed.
            room.as_mut().enable();
            {
                let inner = self.inner();
                // The database says why it is closed.
                if inner.closed.is_some()
                    || inner.bytes == 0
                    || inner.bytes + bytes <= shared.queue_bytes_max
                {
                    return Ok(());
                }
            }
            let left = until.saturating_sub(clock.mono());
            if clock.timeout(left, room).await.is_err() {
                return Err(Error::new(
                    Code::RegionTooBusy,
                    format!(
                        "the log of {} has no room: the store is too slow",
                        shared.path
                    ),
                ));
            }
        }
    }

    fn push(&self, write: &[RowEntry]) -> Result<(), WalError> {
        let Some(first) = write.first() else {
            return Ok(());
        };
        let mut inner = self.inner();
        if let Some(reason) = &inner.closed {
            return Err(reason.clone());
        }
        let estimate: usize = write
            .iter()
            .map(|row| row.key.len() + row.value.len())
            .sum();
        let fits = |group: &Group| !group.sealed && group.bytes + estimate <= GROUP_BYTES_MAX;
        if !inner.waiting.back().is_some_and(fits) {
            inner.last_number += 1;
            let number = inner.last_number;
            inner.waiting.push_back(Group {
                number,
                encoded: Vec::new(),
                bytes: 0,
                last_sequence: 0,
                sealed: false,
            });
        }
        let number = inner.last_number;
        let encoded = Encoded::rows(self.epoch, number, first.seq, write);
        let bytes = encoded.len();
        let group = inner.waiting.back_mut().expect("there is one now");
        group.bytes += bytes;
        group.last_sequence = first.seq;
        group.encoded.push(encoded);
        inner.bytes += bytes;
        inner.records += 1;
        drop(inner);
        self.wake.notify_one();
        Ok(())
    }

    /// The next group to be put. It stays counted until it is there.
    fn take(&self) -> Option<Group> {
        let mut inner = self.inner();
        if inner.closed.is_some() {
            return None;
        }
        inner.waiting.pop_front()
    }

    fn done(&self, group: &Group) {
        let (status, listeners) = {
            let mut inner = self.inner();
            inner.flushed_number = group.number;
            inner.flushed_sequence = Some(group.last_sequence);
            inner.bytes -= group.bytes;
            inner.records -= group.encoded.len();
            if inner.closed.is_some() {
                return;
            }
            (inner.status(), inner.listeners.clone())
        };
        self.room.notify_waiters();
        for listener in listeners {
            listener(WalEvent::WalFlushed(status.clone()));
        }
        self.flushed.send_replace(group.number);
    }

    /// Closes; the first reason stays.
    fn close(&self, reason: WalError) {
        let (status, listeners) = {
            let mut inner = self.inner();
            if inner.closed.is_some() {
                return;
            }
            inner.closed = Some(reason);
            (inner.status(), std::mem::take(&mut inner.listeners))
        };
        self.room.notify_waiters();
        self.wake.notify_one();
        // Wakes those who wait for what will not come.
        self.flushed.send_modify(|_| {});
        for listener in listeners {
            listener(WalEvent::WalClosed(status.clone()));
        }
    }

    fn closed(&self) -> Option<WalError> {
        self.inner().closed.clone()
    }

    async fn wait(&self, number: u64) -> Result<(), WalError> {
        let mut flushed = self.flushed.subscribe();
        loop {
            if *flushed.borrow_and_update() >= number {
                return Ok(());
            }
            if let Some(reason) = self.closed() {
                return Err(reason);
            }
            if flushed.changed().await.is_err() {
                return Err(WalError::Closed);
            }
        }
    }

    fn checked_status(&self) -> Result<WalStatus, WalStatus> {
        let status = self.inner().status();
        match status.closed_reason {
            Some(_) => Err(status),
            None => Ok(status),
        }
    }
}

/// Puts group after group until the writer is closed.
async fn run<E: Env>(log: ObjectLog<E>, state: Arc<WriterState>) {
    let shared = &log.0;
    let clock = shared.env.clock();
    // When the put of the last object began: until half the garbage's age after that nobody can have taken a number and given it free again.
    let mut proven = clock.mono();
    while state.closed().is_none() {
        let Some(group) = state.take() else {
            state.wake.notified().await;
            continue;
        };
        let began = clock.mono();
        let bytes = content::encode(&shared.path, group.number, &group.encoded);
        let outcome = match shared.put(group.number, &bytes).await {
            Ok(Put::Taken) => Err(WalError::Fenced),
            Ok(Put::Done) if clock.mono().saturating_sub(proven) < shared.min_age / 2 => Ok(()),
            // So long ago that a fence may be gone again.
            Ok(Put::Done) => match shared.last_epoch().await {
                Ok(epoch) if epoch > state.epoch => Err(WalError::Fenced),
                Ok(_) => Ok(()),
                Err(error) => Err(unavailable(error)),
            },
            Err(error) => Err(unavailable(error)),
        };
        match outcome {
            Ok(()) => {
                proven = began;
                state.done(&group);
            }
            Err(reason) => {
                tracing::warn!(path = %shared.path, number = group.number, %reason, "the log ends");
                metrics::counter!("cadastre_store_object_logs_ended").increment(1);
                state.close(reason);
            }
        }
    }
}

/// SlateDB's side of an open database.
pub(super) struct Writer(Arc<WriterState>);

impl Writer {
    pub(super) fn start<E: Env>(log: ObjectLog<E>, state: Arc<WriterState>) -> Self {
        let env = log.0.env.clone();
        env.spawn("object log", run(log, Arc::clone(&state)));
        Self(state)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.close(WalError::Closed);
    }
}

#[async_trait]
impl WalWriter for Writer {
    async fn append(&mut self, write_batch: &[RowEntry]) -> Result<(), WalError> {
        self.0.push(write_batch)
    }

    async fn flush(&mut self) -> Result<WalFlushResult, WalError> {
        let number = {
            let mut inner = self.0.inner();
            // What comes later has a higher number.
            if let Some(group) = inner.waiting.back_mut() {
                group.sealed = true;
            }
            inner.last_number
        };
        let state = Arc::clone(&self.0);
        Ok(WalFlushResult {
            wal_id: number,
            completion: Box::pin(async move { state.wait(number).await }),
        })
    }

    fn should_flush_memtable(&self, replay_after_wal_id: u64) -> bool {
        self.0
            .inner()
            .last_number
            .saturating_sub(replay_after_wal_id)
            > REPLAYED_MAX
    }

    fn observer(&self) -> Box<dyn WalObserver> {
        Box::new(Observer(Arc::clone(&self.0)))
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.checked_status()
    }

    async fn close(&mut self) -> Result<(), WalError> {
        self.0.close(WalError::Closed);
        Ok(())
    }
}

struct Observer(Arc<WriterState>);

impl WalObserver for Observer {
    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.checked_status()
    }

    fn subscribe(&self, listener: WalStatusListener) -> Result<(), WalError> {
        let mut inner = self.0.inner();
        if let Some(reason) = &inner.closed {
            return Err(reason.clone());
        }
        inner.listeners.push(listener);
        Ok(())
    }
}
