//! The loop: one call, as many tries as the policy allows, one call id (P6 to P15). Knows neither messages nor sockets.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Rng};
use cadastre_types::{Code, Detail, Error, Result};
use futures::future::BoxFuture;
use rand::Rng as _;
use tokio::sync::Notify;

use super::failure::{Executed, Failed, Failure, MEMBERS_MAX};
use super::method::{Mark, Method, Protocol};
use super::policy::{Action, Counts, Decision, Policy};
use super::provider::ProxyProvider;

/// One try of a call, as it goes to a server.
#[derive(Debug, Clone)]
pub struct Call {
    /// Whose method.
    pub protocol: &'static Protocol,
    /// Which.
    pub method: &'static Method,
    /// The request message.
    pub body: Bytes,
    /// The same over all tries (P15).
    pub id: i32,
    /// Tries before this one.
    pub retry: u32,
    /// What is left of the caller's own time, if that is bounded: an engine waits no longer, even if it may.
    pub left: Option<Duration>,
}

impl Call {
    /// How long one try may take: an engine's own limit, or less if the caller has less time.
    pub(crate) fn limit(&self, of_engine: Duration) -> Duration {
        self.left.map_or(of_engine, |left| left.min(of_engine))
    }
}

/// Call ids of a client: one counter for all that share a client id, since a server knows a call by both.
#[derive(Debug, Clone, Default)]
pub struct CallIds(Arc<AtomicU32>);

impl CallIds {
    /// An id that no other call has until two thousand million calls later.
    pub fn draw(&self) -> i32 {
        // Negative ids mean something else (hadoop-ha-rpc.md E.3).
        (self.0.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1)).cast_signed()
    }
}

/// Something that takes one try of a call to a server: an engine's proxy, or a layer over such.
pub trait Invoker: Send + Sync {
    /// The server, for people.
    fn name(&self) -> &Arc<str>;
    /// One try.
    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>>;
}

/// What translators stand on: calls of one protocol that succeed or fail for good.
pub trait Caller: Send + Sync {
    /// Which protocol.
    fn protocol(&self) -> &'static Protocol;
    /// Calls a method.
    ///
    /// # Errors
    /// What the server answered, [`Code::NotSent`], or [`Code::OutcomeUnknown`] if it may have been done.
    fn call<'a>(&'a self, method: &'static Method, body: Bytes) -> BoxFuture<'a, Result<Bytes>>;
}

/// Policies of a proxy (P6).
#[derive(Debug, Clone)]
pub struct Policies {
    /// For methods without one of their own.
    pub default: Policy,
    /// By method's name.
    pub by_method: BTreeMap<&'static str, Policy>,
    /// How long servers know a call again (`dfs.namenode.retrycache.expirytime.millis`): an at-most-once call that may have been done longer ago
    /// is not repeated.
    pub remembered: Duration,
    /// Time of a call with all its tries and pauses (`hbase.client.operation.timeout`); Hadoop has no such bound.
    pub time: Option<Duration>,
}

/// A little less than the ten minutes for which a NameNode remembers calls: a try takes its way, too.
const REMEMBERED: Duration = Duration::from_secs(9 * 60);

impl Policies {
    /// One for all methods.
    pub fn all(default: Policy) -> Self {
        Self {
            default,
            by_method: BTreeMap::new(),
            remembered: REMEMBERED,
            time: None,
        }
    }

    fn of(&self, method: &Method) -> &Policy {
        self.by_method.get(method.name).unwrap_or(&self.default)
    }
}

/// What a proxy does, for traces.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A try begins.
    Try {
        /// The call.
        call: &'a Call,
        /// Where to.
        server: &'a str,
    },
    /// A try failed.
    Failed {
        /// The call.
        call: &'a Call,
        /// How.
        failed: &'a Failed,
        /// What is done about it.
        action: &'a Action,
    },
    /// Another server is the current one from now on.
    FailedOver {
        /// Which was.
        from: &'a str,
        /// Which is.
        to: &'a str,
        /// Failovers of this proxy so far.
        count: u64,
    },
    /// While this call waited to fail over, another one was answered by the current server: this one goes there, too.
    Stays {
        /// Which is current.
        with: &'a str,
    },
    /// Somebody else had failed over already.
    FoundFailedOver {
        /// Which is current.
        to: &'a str,
    },
    /// The call has its answer.
    Answered {
        /// The call.
        call: &'a Call,
        /// From where.
        server: &'a str,
    },
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Try { call, server } => write!(
                f,
                "{} call {} try {} to {server}",
                call.method.name, call.id, call.retry
            ),
            Self::Failed {
                call,
                failed,
                action,
            } => {
                write!(f, "{} call {} failed:", call.method.name, call.id)?;
                for failure in failed.all() {
                    write!(f, " [{:?} {}]", failure.class, failure.error.message())?;
                }
                write!(
                    f,
                    " row {}: {:?} after {} ms",
                    action.row,
                    action.decision,
                    action.delay.as_millis()
                )
            }
            Self::FailedOver { from, to, count } => {
                write!(f, "failed over from {from} to {to} (failover {count})")
            }
            Self::Stays { with } => write!(f, "somebody else was answered by {with}: stays there"),
            Self::FoundFailedOver { to } => write!(f, "somebody else failed over to {to}"),
            Self::Answered { call, server } => write!(
                f,
                "{} call {} answered by {server} after {} retries",
                call.method.name, call.id, call.retry
            ),
        }
    }
}

/// Who is told of events.
pub type Events = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// The retry and failover loop; clones are the same.
#[derive(Clone)]
pub struct Proxy<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    clock: C,
    protocol: &'static Protocol,
    provider: Box<dyn ProxyProvider>,
    policies: Policies,
    ids: CallIds,
    chance: Mutex<Rng>,
    events: Option<Events>,
    guard: Mutex<Guard>,
    /// Calls that wait before a failover, and what ends their wait early.
    waiting: AtomicUsize,
    answered: Notify,
}

/// What P14 guards. Never held over an await.
struct Guard {
    current: Arc<dyn Invoker>,
    failovers: u64,
}

impl<C: Clock> Proxy<C> {
    /// A loop over a provider's servers.
    pub fn new(
        clock: C,
        protocol: &'static Protocol,
        provider: Box<dyn ProxyProvider>,
        policies: Policies,
        ids: CallIds,
        chance: Rng,
        events: Option<Events>,
    ) -> Self {
        let guard = Guard {
            current: provider.current(),
            failovers: 0,
        };
        Self {
            shared: Arc::new(Shared {
                clock,
                protocol,
                provider,
                policies,
                ids,
                chance: Mutex::new(chance),
                events,
                guard: Mutex::new(guard),
                waiting: AtomicUsize::default(),
                answered: Notify::new(),
            }),
        }
    }

    /// Failovers so far.
    pub fn failovers(&self) -> u64 {
        self.shared.guard().failovers
    }

    /// Name of the current server.
    pub fn current(&self) -> Arc<str> {
        Arc::clone(self.shared.guard().current.name())
    }

    /// [`Caller::call`] as a future of the caller's own, which is not boxed: the loop allocates nothing.
    ///
    /// # Errors
    /// As there.
    pub async fn call_unboxed(&self, method: &'static Method, body: Bytes) -> Result<Bytes> {
        let shared = &*self.shared;
        let policy = shared.policies.of(method);
        let mut call = Call {
            protocol: shared.protocol,
            method,
            body,
            id: shared.ids.draw(),
            retry: 0,
            left: shared.policies.time,
        };
        let mut progress = Progress::default();
        let start = shared.clock.mono();
        let mut began = start;
        loop {
            let (server, seen) = shared.current();
            shared.tell(Event::Try {
                call: &call,
                server: server.name(),
            });
            let failed = match server.invoke(&call).await {
                Ok(answer) => {
                    shared.tell(Event::Answered {
                        call: &call,
                        server: server.name(),
                    });
                    shared.wake_others(method, seen);
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            progress.note(&failed, began);
            let chance = || shared.chance();
            let (mut action, which) =
                policy.decide_all(failed.all(), progress.counts, method.mark, chance);
            if let Some(time) = shared.policies.time {
                action.end_by(time, shared.clock.mono() - start);
            }
            let at_once = progress.elsewhere_first(&action, shared.provider.servers());
            if at_once {
                action.delay = Duration::ZERO;
            }
            shared.tell(Event::Failed {
                call: &call,
                failed: &failed,
                action: &action,
            });
            if action.decision == Decision::Fail {
                return Err(progress.verdict(method, &failed.all()[which], &action));
            }
            // Before the check of the guard: who wakes late finds the work done. Woken early only every other time: an answer that says
            // nothing about this call must not make it spin.
            let may_wake = action.decision == Decision::FailOver && !progress.woken;
            let woken = shared.pause(action.delay, may_wake).await;
            if !action.delay.is_zero() {
                progress.woken = woken;
                progress.asked = 0;
            }
            began = shared.clock.mono();
            call.left = (shared.policies.time).map(|time| time.saturating_sub(began - start));
            if method.mark == Mark::AtMostOnce
                && progress.in_doubt_for(began) >= shared.policies.remembered
            {
                return Err(progress.forgotten(method));
            }
            call.retry += 1;
            if action.decision == Decision::FailOver {
                if woken {
                    shared.stay();
                } else {
                    shared.fail_over(seen);
                }
            }
            // Asking the others in between counts as one try with the one before it: as long as Hadoop's loop, this one lasts.
            if !at_once {
                progress.counts.retries += 1;
                progress.counts.failovers += u32::from(action.decision == Decision::FailOver);
            }
        }
    }
}

impl<C: Clock> Caller for Proxy<C> {
    fn protocol(&self) -> &'static Protocol {
        self.shared.protocol
    }

    fn call<'a>(&'a self, method: &'static Method, body: Bytes) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(self.call_unboxed(method, body))
    }
}

impl<C> Shared<C> {
    fn guard(&self) -> std::sync::MutexGuard<'_, Guard> {
        self.guard
            .lock()
            .expect("providers do not panic in failing over")
    }

    /// The current server, and the failovers so far.
    fn current(&self) -> (Arc<dyn Invoker>, u64) {
        let guard = self.guard();
        (Arc::clone(&guard.current), guard.failovers)
    }

    /// Fails over, unless somebody has since `seen`: a late failure must not undo it (P14).
    fn fail_over(&self, seen: u64) {
        let mut guard = self.guard();
        let from = Arc::clone(guard.current.name());
        let mine = guard.failovers == seen;
        if mine {
            self.provider.fail_over(&guard.current);
            guard.failovers += 1;
        }
        guard.current = self.provider.current();
        let (to, count) = (Arc::clone(guard.current.name()), guard.failovers);
        drop(guard);
        self.tell(if mine {
            Event::FailedOver {
                from: &from,
                to: &to,
                count,
            }
        } else {
            Event::FoundFailedOver { to: &to }
        });
    }

    /// Takes the current server, whoever made it that.
    fn stay(&self) {
        let with = Arc::clone(self.guard().current.name());
        self.tell(Event::Stays { with: &with });
    }

    /// A call was answered under this count of failovers: who waits to fail over need not wait any longer.
    fn wake_others(&self, method: &Method, seen: u64) {
        if self.waiting.load(Ordering::Relaxed) > 0
            && self.provider.shows_active(method)
            && self.guard().failovers == seen
        {
            self.answered.notify_waiters();
        }
    }

    fn chance(&self) -> f64 {
        (self.chance.lock().expect("drawing does not panic")).random()
    }

    fn tell(&self, event: Event<'_>) {
        tracing::trace!(protocol = self.protocol.name, "{event}");
        if let Some(events) = &self.events {
            events(&event);
        }
    }
}

impl<C: Clock> Shared<C> {
    /// Sleeps; if `may_wake`, until another call is answered at the longest. Tells whether one was.
    async fn pause(&self, delay: Duration, may_wake: bool) -> bool {
        if delay.is_zero() {
            return false;
        }
        if !may_wake {
            self.clock.sleep(delay).await;
            return false;
        }
        let mut answered = pin!(self.answered.notified());
        // From here on no answer is missed.
        answered.as_mut().enable();
        let _waits = Waits::new(&self.waiting);
        tokio::select! {
            biased;
            () = answered => true,
            () = self.clock.sleep(delay) => false,
        }
    }
}

/// Counted as long as it lives, so that a caller that is gone does not count.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of a call after its failed tries.
#[derive(Default)]
struct Progress {
    counts: Counts,
    /// Tries since the last pause.
    asked: usize,
    /// The last pause was cut short by another call's answer.
    woken: bool,
    /// When the first try began that may have been done.
    maybe_since: Option<Duration>,
    /// The last failure of each server.
    last: BTreeMap<Arc<str>, String>,
}

impl Progress {
    fn note(&mut self, failed: &Failed, began: Duration) {
        if failed.may_be_executed() {
            self.maybe_since.get_or_insert(began);
        }
        for failure in failed.all() {
            if self.last.len() < MEMBERS_MAX || self.last.contains_key(&failure.from) {
                self.last.insert(
                    Arc::clone(&failure.from),
                    failure.error.message().to_owned(),
                );
            }
        }
    }

    /// Whether another server is asked before the pause. Counts the try that failed.
    fn elsewhere_first(&mut self, action: &Action, servers: usize) -> bool {
        self.asked += 1;
        action.elsewhere_first && !action.delay.is_zero() && self.asked < servers
    }

    fn in_doubt_for(&self, now: Duration) -> Duration {
        let since = self.maybe_since.unwrap_or(now);
        now.saturating_sub(since)
    }

    /// So long ago that no server would know it again: a repeated call could be done twice.
    fn forgotten(&self, method: &Method) -> Error {
        let mut text = format!(
            "{}: the outcome is unknown, it may have been done too long ago to be asked for again",
            method.name
        );
        for last in self.last.values() {
            text.push_str(&format!("; {last}"));
        }
        Error::new(Code::OutcomeUnknown, text)
    }

    /// What the caller is told. A call that may have been done is told to have failed only if the method itself said so to a
    /// repeated call, which its server had looked up before (INV-5).
    fn verdict(self, method: &Method, failure: &Failure, action: &Action) -> Error {
        let settled = failure.executed == Executed::Refused && method.mark != Mark::Neither;
        let unknown = method.read.is_none() && self.maybe_since.is_some() && !settled;
        if !unknown && action.reason.is_none() {
            return failure.error.clone();
        }
        let mut text = method.name.to_owned();
        if unknown {
            text.push_str(": the outcome is unknown, it may have been done");
        }
        if let Some(reason) = action.reason {
            text.push_str(&format!(": {reason}"));
        }
        for last in self.last.values() {
            text.push_str(&format!("; {last}"));
        }
        if unknown {
            return Error::new(Code::OutcomeUnknown, text);
        }
        let error = Error::new(failure.error.code(), text);
        match failure.error.detail() {
            Some(detail) => error.with_detail(Detail::clone(detail)),
            None => error,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
