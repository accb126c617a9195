//! One timer for all the reasons a connection may have to wake up. Knows no reasons.

use std::task::{Context, Poll};
use std::time::Duration;

use cadastre_env::Clock;
use futures::FutureExt;
use futures::future::BoxFuture;

/// A timer whose aim moves, mostly away: it is set anew only when it has run out, or for an earlier aim. So a connection that
/// is busy pays nothing for it.
#[derive(Default)]
pub(crate) struct Timer {
    set: Option<(Duration, BoxFuture<'static, ()>)>,
}

impl Timer {
    /// Ready once this moment of the clock's `mono` has come. `None` never is.
    pub(crate) fn poll<C: Clock>(
        &mut self,
        cx: &mut Context<'_>,
        clock: &C,
        at: Option<Duration>,
    ) -> Poll<()> {
        let Some(at) = at else {
            self.set = None;
            return Poll::Pending;
        };
        loop {
            if self.set.as_ref().is_none_or(|(set, _)| *set > at) {
                let now = clock.mono();
                if at <= now {
                    self.set = None;
                    return Poll::Ready(());
                }
                let clock = clock.clone();
                let sleep = async move { clock.sleep(at - now).await };
                self.set = Some((at, sleep.boxed()));
            }
            let (_, sleep) = self.set.as_mut().expect("set above");
            if sleep.poll_unpin(cx).is_pending() {
                return Poll::Pending;
            }
            self.set = None;
        }
    }
}
