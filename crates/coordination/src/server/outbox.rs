//! What the owner has for a connection to send: bytes, and whether to close behind them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

/// Unsent bytes of one connection: as many as the requests it may have in flight can bring.
const UNSENT_MAX: usize = 64 << 20;

/// Unsent bytes of all connections.
const UNSENT_TOTAL_MAX: usize = 256 << 20;

/// Whether and how the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closing {
    No,
    /// When all is sent.
    Flushed,
    /// At once.
    Now,
}

#[derive(Debug)]
struct State {
    buffer: BytesMut,
    /// Bytes appended and not yet written to the socket, those taken included.
    unsent: usize,
    /// Requests handed to the owner and not answered.
    in_flight: usize,
    closing: Closing,
}

/// Shared by the owner and the connection's task.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Notify,
    total: Arc<AtomicUsize>,
}

/// What the connection's task finds.
pub(super) struct Work {
    pub(super) bytes: Bytes,
    pub(super) in_flight: usize,
    pub(super) closing: Closing,
}

impl Outbox {
    /// `total` counts the unsent bytes of all connections.
    pub(super) fn new(total: Arc<AtomicUsize>) -> Self {
        Self {
            state: Mutex::new(State {
                buffer: BytesMut::new(),
                unsent: 0,
                in_flight: 0,
                closing: Closing::No,
            }),
            changed: Notify::new(),
            total,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Appends; `answers` requests are done with it. False: the connection does not drain and is to be given up.
    pub(super) fn append(&self, answers: usize, encode: impl FnOnce(&mut BytesMut)) -> bool {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(answers);
        if state.closing != Closing::No {
            return true;
        }
        if state.unsent > UNSENT_MAX || self.total.load(Ordering::Relaxed) > UNSENT_TOTAL_MAX {
            return false;
        }
        let before = state.buffer.len();
        encode(&mut state.buffer);
        let added = state.buffer.len() - before;
        state.unsent += added;
        self.total.fetch_add(added, Ordering::Relaxed);
        drop(state);
        self.changed.notify_one();
        true
    }

    pub(super) fn close(&self, how: Closing) {
        let mut state = self.state();
        state.closing = state.closing.max(how);
        drop(state);
        self.changed.notify_one();
    }

    /// One more request is with the owner.
    pub(super) fn request_handed_over(&self) {
        self.state().in_flight += 1;
    }

    pub(super) fn in_flight(&self) -> usize {
        self.state().in_flight
    }

    /// Takes what there is to send; the buffer's memory goes with it.
    pub(super) fn take(&self) -> Work {
        let mut state = self.state();
        Work {
            bytes: std::mem::take(&mut state.buffer).freeze(),
            in_flight: state.in_flight,
            closing: state.closing,
        }
    }

    /// So many bytes are on the socket.
    pub(super) fn sent(&self, bytes: usize) {
        self.state().unsent -= bytes;
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Waits until the owner did something. May wake without reason.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let unsent = self.state().unsent;
        self.total.fetch_sub(unsent, Ordering::Relaxed);
    }
}
