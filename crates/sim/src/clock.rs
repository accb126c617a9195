//! Time out of the event queue. Sleeps follow the world's time; only `wall` is skewed (a clock whose skew changes the length of
//! sleeps would test something that no machine does).

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{Either, select};

use cadastre_env::{Clock, Elapsed, Millis};

use crate::hub::{EventKey, Hub, Start};

/// The clock of one start of a node.
#[derive(Debug, Clone)]
pub struct SimClock {
    hub: Arc<Hub>,
    start: Start,
}

impl SimClock {
    pub(crate) fn new(hub: Arc<Hub>, start: Start) -> Self {
        Self { hub, start }
    }
}

impl Clock for SimClock {
    fn wall(&self) -> Millis {
        self.hub.wall(self.start.node)
    }

    fn mono(&self) -> Duration {
        self.hub.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        Sleep::new(&self.hub, self.start, duration)
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        // The future is polled first: what is ready at the deadline counts.
        match select(pin!(future), pin!(self.sleep(duration))).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(((), _)) => Err(Elapsed),
        }
    }
}

/// A timer. It leaves the queue when dropped early.
struct Sleep {
    hub: Arc<Hub>,
    start: Start,
    key: Option<EventKey>,
    fired: oneshot::Receiver<()>,
}

impl Sleep {
    fn new(hub: &Arc<Hub>, start: Start, duration: Duration) -> Self {
        let (fire, fired) = oneshot::channel();
        // A dead start's timers never fire, so they need not stand in the queue.
        let key = hub.is_alive(start).then(|| {
            hub.after(duration, move |_| {
                // Refused only if the sleeper has gone.
                let _ = fire.send(());
                Some(start)
            })
        });
        Self {
            hub: Arc::clone(hub),
            start,
            key,
            fired,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match Pin::new(&mut self.fired).poll(context) {
            Poll::Ready(Ok(())) => {
                self.key = None;
                Poll::Ready(())
            }
            // The sender goes without firing only if the start is dead.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key
            && self.hub.is_alive(self.start)
        {
            self.hub.cancel(key);
        }
    }
}
