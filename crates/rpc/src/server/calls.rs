//! A call on its way: waiting, then running inside its connection's task or, if it takes long, in a task of its own. Knows
//! nothing of sockets.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use cadastre_env::{Env, Task};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::frame::Request;
use futures::FutureExt;
use futures::future::BoxFuture;
use metrics::Counter;
use tokio::sync::oneshot;

use super::budget::Share;
use super::{Call, Handler, Reply};

/// How often a call is polled inside its connection's task. A read from memory needs one poll, a write two or three; what needs
/// more gets its own task, so that a long scan does not take its connection's turns from the calls beside it.
const INLINE_POLLS_MAX: u8 = 8;

/// What a call occupies until it is answered.
#[derive(Debug)]
pub(super) struct Place {
    /// Of the server's request bytes.
    pub(super) bytes: Share,
    /// Of the server's calls.
    #[expect(dead_code, reason = "held, not read")]
    pub(super) call: Share,
}

/// A call that has come and not begun.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) arrived: Duration,
    /// On the clock's `mono`.
    pub(super) deadline: Option<Duration>,
    pub(super) place: Place,
}

/// What is needed to answer a running call.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) call_id: u32,
    pub(super) method: String,
    pub(super) arrived: Duration,
    pub(super) started: Duration,
    pub(super) place: Place,
}

type Outcome = BoxFuture<'static, Result<Reply>>;

/// A running call; polled by its connection.
pub(super) struct Running {
    /// Gone once it was handed out.
    origin: Option<Origin>,
    work: Work,
}

enum Work {
    Inline(Outcome, u8),
    Own(
        oneshot::Receiver<Result<Reply>>,
        #[expect(dead_code, reason = "held, not read")] Aborts,
    ),
    Gone,
}

/// What a running call came to.
pub(super) enum Step {
    /// It is done.
    Done(Origin, Result<Reply>),
    /// It needs a task of its own: see [`Running::own`].
    Long(Origin, Outcome),
}

/// Ends the task when the connection ends.
struct Aborts(Task);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Running {
    /// Begins a call. A panic inside it becomes its answer.
    pub(super) fn begin<H: Handler>(
        handler: &Arc<H>,
        panics: &Counter,
        origin: Origin,
        call: Call,
    ) -> Self {
        let handler = Arc::clone(handler);
        let panics = panics.clone();
        let work = async move { handler.call(call).await };
        let guarded = AssertUnwindSafe(work).catch_unwind().map(move |outcome| {
            outcome.unwrap_or_else(|_| {
                panics.increment(1);
                Err(panicked())
            })
        });
        Self {
            origin: Some(origin),
            work: Work::Inline(guarded.boxed(), 0),
        }
    }

    /// Goes on in a task of its own, on the same core.
    pub(super) fn own<E: Env>(env: &E, origin: Origin, work: Outcome) -> Self {
        let (answer, wait) = oneshot::channel();
        let task = env.spawn("rpc-call", async move {
            // Nobody waits if the connection has ended.
            let _ = answer.send(work.await);
        });
        Self {
            origin: Some(origin),
            work: Work::Own(wait, Aborts(task)),
        }
    }
}

/// The answer to a call that panicked. The panic itself was reported by the process's hook.
fn panicked() -> Error {
    Error::new(Code::Internal, "the server failed while it ran the call")
}

impl Future for Running {
    type Output = Step;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Step> {
        let this = &mut *self;
        let outcome = match &mut this.work {
            Work::Inline(work, polls) => match work.as_mut().poll(cx) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending if *polls < INLINE_POLLS_MAX => {
                    *polls += 1;
                    return Poll::Pending;
                }
                Poll::Pending => {
                    let Work::Inline(work, _) = std::mem::replace(&mut this.work, Work::Gone)
                    else {
                        unreachable!("matched above");
                    };
                    return Poll::Ready(Step::Long(this.take_origin(), work));
                }
            },
            // The task only ends without an answer if the whole node ends.
            Work::Own(wait, _) => ready!(wait.poll_unpin(cx)).unwrap_or_else(|_| Err(panicked())),
            Work::Gone => unreachable!("not polled again after it was ready"),
        };
        this.work = Work::Gone;
        Poll::Ready(Step::Done(this.take_origin(), outcome))
    }
}

impl Running {
    fn take_origin(&mut self) -> Origin {
        self.origin
            .take()
            .expect("handed out once, when the call is ready")
    }
}
