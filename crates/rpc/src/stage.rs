//! Who decides whether a call is sent: its connection by taking it, or its caller by giving up. Knows no calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How far a call has come. Its caller and its connection both hold it, and only one of them can decide.
#[derive(Debug, Clone)]
pub(crate) struct Stage(Arc<AtomicU8>);

const WAITING: u8 = 0;
const SENT: u8 = 1;
const ABANDONED: u8 = 2;

impl Stage {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(WAITING)))
    }

    fn leave_waiting(&self, to: u8) -> bool {
        self.0
            .compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The connection takes it; `false` if its caller has given up.
    pub(crate) fn send(&self) -> bool {
        self.leave_waiting(SENT)
    }

    /// The caller gives up; `true` if that is soon enough that it is never sent.
    pub(crate) fn abandon(&self) -> bool {
        self.leave_waiting(ABANDONED) || self.0.load(Ordering::Acquire) == ABANDONED
    }

    /// Whether the connection has taken it.
    pub(crate) fn is_sent(&self) -> bool {
        self.0.load(Ordering::Acquire) == SENT
    }

    /// Gives up when the caller's future is dropped.
    pub(crate) fn abandon_on_drop(&self) -> impl Drop + use<> {
        struct Guard(Stage);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.abandon();
            }
        }
        Guard(self.clone())
    }
}
