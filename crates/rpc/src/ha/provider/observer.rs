//! Reads from observers (C.4): servers that follow the active one and answer reads, never behind what this client has seen.
//!
//! That the answers are not behind is the servers' doing, by the state that the engine sends along (C.7). Here is decided who is asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Elapsed};
use cadastre_types::Result;
use futures::future::BoxFuture;

use super::{ProxyProvider, ServerState, StateProbe};
use crate::ha::failure::Failed;
use crate::ha::method::Method;
use crate::ha::policy::{Class, Counts, Decision, Failover, Policy};
use crate::ha::proxy::{Call, CallIds, Invoker};

/// When observers are asked, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverSettings {
    /// Before a read, the active one is asked how far it is if that is longer ago than this; `None` for only once
    /// (`dfs.client.failover.observer.auto-msync-period.<ns>`).
    pub auto_msync: Option<Duration>,
    /// If nobody was an observer, nobody is asked for so long (`dfs.client.failover.observer.probe.retry.period`).
    pub probe_again: Duration,
    /// How long a server may take to say what it is; `None` for as long as any call
    /// (`dfs.client.failover.namenode.ha-state.probe.timeout`).
    pub probe_timeout: Option<Duration>,
}

impl Default for ObserverSettings {
    fn default() -> Self {
        Self {
            auto_msync: None,
            probe_again: Duration::from_secs(600),
            probe_timeout: None,
        }
    }
}

/// The provider: one invoker for ever, over another provider for the active server.
pub struct ObserverReads<C> {
    reader: Arc<Reader<C>>,
}

impl<C: Clock> ObserverReads<C> {
    /// Reads from any of `servers` that is an observer; all else, and reads if there is none, from `inner`.
    pub fn new(
        clock: C,
        servers: Vec<Arc<dyn Invoker>>,
        inner: Box<dyn ProxyProvider>,
        probe: Arc<dyn StateProbe>,
        ids: CallIds,
        settings: ObserverSettings,
    ) -> Self {
        let name = format!("observers before {}", inner.current().name());
        Self {
            reader: Arc::new(Reader {
                name: name.into(),
                clock,
                servers,
                inner,
                probe,
                ids,
                settings,
                state: Mutex::default(),
            }),
        }
    }
}

impl<C: Clock> ProxyProvider for ObserverReads<C> {
    fn servers(&self) -> usize {
        self.reader.inner.servers()
    }

    /// A read may have been answered by an observer.
    fn shows_active(&self, method: &Method) -> bool {
        !method.may_be_observed()
    }

    fn current(&self) -> Arc<dyn Invoker> {
        Arc::clone(&self.reader) as Arc<dyn Invoker>
    }

    fn fail_over(&self, _: &Arc<dyn Invoker>) {
        let active = self.reader.inner.current();
        self.reader.inner.fail_over(&active);
    }
}

struct Reader<C> {
    name: Arc<str>,
    clock: C,
    servers: Vec<Arc<dyn Invoker>>,
    inner: Box<dyn ProxyProvider>,
    probe: Arc<dyn StateProbe>,
    ids: CallIds,
    settings: ObserverSettings,
    state: Mutex<State>,
}

/// Never held over an await.
#[derive(Default)]
struct State {
    /// Which of the servers is asked.
    at: usize,
    /// What it said it is; `None` until it was asked.
    known: Option<ServerState>,
    /// When the active one last said how far it is.
    msynced: Option<Duration>,
    /// No observer is looked for before.
    not_before: Option<Duration>,
}

impl<C: Clock> Reader<C> {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it is held")
    }

    fn looks_for_observers(&self) -> bool {
        let not_before = self.state().not_before;
        not_before.is_none_or(|until| self.clock.mono() >= until)
    }

    fn needs_msync(&self) -> bool {
        match (self.state().msynced, self.settings.auto_msync) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(last), Some(period)) => self.clock.mono().saturating_sub(last) >= period,
        }
    }

    fn extra(&self, call: &Call, (method, body): (&'static crate::ha::Method, Bytes)) -> Call {
        Call {
            protocol: call.protocol,
            method,
            body,
            // One of its own: one id never names two calls.
            id: self.ids.draw(),
            retry: 0,
            left: call.left,
        }
    }

    async fn active(&self, call: &Call) -> Result<Bytes, Failed> {
        let answer = self.inner.current().invoke(call).await?;
        self.state().msynced = Some(self.clock.mono());
        Ok(answer)
    }

    /// Leaves a server, unless somebody has already.
    fn leave(&self, at: usize) {
        let mut state = self.state();
        if state.at == at {
            state.at = (at + 1) % self.servers.len();
            state.known = None;
        }
    }

    /// What a server is; `None` if it does not say.
    async fn ask_state(&self, at: usize, call: &Call) -> Option<ServerState> {
        let question = self.extra(call, self.probe.request());
        let asking = self.servers[at].invoke(&question);
        let answer = match self.settings.probe_timeout {
            None => asking.await,
            Some(limit) => match self.clock.timeout(limit, asking).await {
                Ok(answer) => answer,
                Err(Elapsed) => return None,
            },
        };
        match answer {
            Ok(answer) => self.probe.state(answer).ok(),
            Err(failed) if failed.first().class == Class::Standby => Some(ServerState::Standby),
            Err(_) => None,
        }
    }

    /// The server to ask and what it is, asking it if that is not known.
    async fn here(&self, call: &Call) -> (usize, Option<ServerState>) {
        let (at, known) = {
            let state = self.state();
            (state.at, state.known)
        };
        if known.is_some() {
            return (at, known);
        }
        let said = self.ask_state(at, call).await;
        let mut state = self.state();
        if state.at == at {
            state.known = said;
        }
        (at, said)
    }

    /// An observer's answer, or error if it is final; `None` if the active one is to be asked.
    async fn observed(&self, call: &Call) -> Option<Result<Bytes, Failed>> {
        // Whether to leave an observer: one failover is allowed, and this is none yet.
        let leaves = Policy::failover(Failover {
            failovers_max: 1,
            ..Failover::default()
        });
        let mut failed_observers = 0;
        for _ in 0..self.servers.len() {
            let (at, state) = self.here(call).await;
            if state != Some(ServerState::Observer) {
                self.leave(at);
                continue;
            }
            let failed = match self.servers[at].invoke(call).await {
                Ok(answer) => return Some(Ok(answer)),
                Err(failed) => failed,
            };
            if failed.first().class == Class::ObserverRetryOnActive {
                return None;
            }
            let counts = Counts::default();
            let (action, _) = leaves.decide_all(failed.all(), counts, call.method.mark, || 0.0);
            if action.decision == Decision::Fail {
                return Some(Err(failed));
            }
            failed_observers += 1;
            self.leave(at);
        }
        if failed_observers == 0 {
            self.state().not_before = Some(self.clock.mono() + self.settings.probe_again);
        }
        None
    }
}

impl<C: Clock> Invoker for Reader<C> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            if call.method.may_be_observed() && self.looks_for_observers() {
                if let Some(msync) = self.probe.msync().filter(|_| self.needs_msync()) {
                    // Its failure is the call's: the loop fails the active one over and comes back.
                    self.active(&self.extra(call, msync)).await?;
                }
                if let Some(outcome) = self.observed(call).await {
                    return outcome;
                }
            }
            self.active(call).await
        })
    }
}
