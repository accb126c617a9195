//! Request hedging (C.2): ask all servers at once the first time, then stay with the one that answered.
//!
//! Unlike with Hadoop, only reads are sent to several: a call that changes something goes to the server that answered before, or that says
//! of itself that it is the active one.

use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use cadastre_types::{Code, Error, Result};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use super::{ProxyProvider, ServerState, StateProbe};
use crate::ha::failure::{Executed, Failed, Failure, MEMBERS_MAX};
use crate::ha::policy::Class;
use crate::ha::proxy::{Call, CallIds, Invoker};

/// The provider.
pub struct RequestHedging {
    all: Vec<Arc<dyn Invoker>>,
    probe: Option<Arc<dyn StateProbe>>,
    ids: CallIds,
    round: Mutex<Arc<Round>>,
}

impl RequestHedging {
    /// Over these servers. Without a probe, calls that must not be done twice try one server after the other.
    ///
    /// # Panics
    /// Without a server, or with more than are asked at once.
    pub fn new(
        all: Vec<Arc<dyn Invoker>>,
        probe: Option<Arc<dyn StateProbe>>,
        ids: CallIds,
    ) -> Self {
        assert!(
            (1..=MEMBERS_MAX).contains(&all.len()),
            "a configuration with fewer or more servers is refused"
        );
        let round = Arc::new(Round::new(all.clone(), &probe, &ids));
        Self {
            all,
            probe,
            ids,
            round: Mutex::new(round),
        }
    }
}

impl ProxyProvider for RequestHedging {
    fn current(&self) -> Arc<dyn Invoker> {
        let round = self.round.lock().expect("nothing panics while it is held");
        Arc::clone(&round) as Arc<dyn Invoker>
    }

    /// The next round leaves out whom this one stayed with. If that was nobody, or there is nobody else, all are asked again.
    fn fail_over(&self, _: &Arc<dyn Invoker>) {
        let mut round = self.round.lock().expect("nothing panics while it is held");
        let failed = round.used();
        let others: Vec<Arc<dyn Invoker>> = (self.all.iter())
            .filter(|server| failed.as_ref() != Some(server.name()))
            .cloned()
            .collect();
        let targets = if others.is_empty() {
            self.all.clone()
        } else {
            others
        };
        *round = Arc::new(Round::new(targets, &self.probe, &self.ids));
    }
}

/// From one failover to the next.
struct Round {
    name: Arc<str>,
    targets: Vec<Arc<dyn Invoker>>,
    probe: Option<Arc<dyn StateProbe>>,
    ids: CallIds,
    /// Who answered.
    winner: OnceLock<usize>,
    /// Who was asked alone last, or could not say what another said.
    asked: Mutex<Option<usize>>,
}

impl Round {
    fn new(
        targets: Vec<Arc<dyn Invoker>>,
        probe: &Option<Arc<dyn StateProbe>>,
        ids: &CallIds,
    ) -> Self {
        let names: Vec<&str> = targets.iter().map(|target| &**target.name()).collect();
        Self {
            name: names.join("|").into(),
            targets,
            probe: probe.clone(),
            ids: ids.clone(),
            winner: OnceLock::new(),
            asked: Mutex::new(None),
        }
    }

    fn used(&self) -> Option<Arc<str>> {
        let alone = (self.targets.len() == 1).then_some(0);
        let asked = *self.asked.lock().expect("nothing panics while it is held");
        let at = self.winner.get().copied().or(asked).or(alone)?;
        Some(Arc::clone(self.targets[at].name()))
    }

    async fn ask(&self, at: usize, call: &Call) -> Result<Bytes, Failed> {
        *self.asked.lock().expect("nothing panics while it is held") = Some(at);
        let answer = self.targets[at].invoke(call).await?;
        // The first to succeed stays.
        let _ = self.winner.set(at);
        Ok(answer)
    }

    /// Asks all at once; the first success is the answer, and the other tries are given up.
    async fn hedge(&self, call: &Call) -> Result<Bytes, Failed> {
        let mut running: FuturesUnordered<_> = (self.targets.iter().enumerate())
            .map(|(at, target)| async move { (at, target.invoke(call).await) })
            .collect();
        let mut failures = Vec::new();
        while let Some((at, outcome)) = running.next().await {
            match outcome {
                Ok(answer) => {
                    let _ = self.winner.set(at);
                    return Ok(answer);
                }
                Err(failed) => failures.push((at, failed)),
            }
        }
        failures.sort_by_key(|(at, _)| *at);
        // If one says no and means it, the next round leaves out one that could not say.
        let refused = |failed: &Failed| failed.first().executed == Executed::Refused;
        if failures.iter().any(|(_, failed)| refused(failed)) {
            let could_not = failures.iter().find(|(_, failed)| !refused(failed));
            *self.asked.lock().expect("nothing panics while it is held") =
                could_not.map(|(at, _)| *at);
        }
        let failures = failures.iter().flat_map(|(_, failed)| failed.all());
        Err(Failed::several(failures.cloned().collect()))
    }

    /// The server that says it is active.
    async fn active(&self, probe: &dyn StateProbe, call: &Call) -> Result<usize, Failed> {
        let (method, body) = probe.request();
        let mut running: FuturesUnordered<_> = (self.targets.iter().enumerate())
            .map(|(at, target)| {
                let question = Call {
                    protocol: call.protocol,
                    method,
                    body: body.clone(),
                    id: self.ids.draw(),
                    retry: 0,
                    left: call.left,
                };
                async move { (at, target.invoke(&question).await) }
            })
            .collect();
        let mut failures = Vec::new();
        while let Some((at, outcome)) = running.next().await {
            let from = self.targets[at].name();
            match outcome.map(|answer| probe.state(answer)) {
                Ok(Ok(ServerState::Active)) => return Ok(at),
                Ok(Ok(state)) => {
                    let error = Error::new(Code::Io, format!("{from}: it is {state:?}"));
                    failures.push((
                        at,
                        Failure::new(Class::Standby, Executed::No, from, error).into(),
                    ));
                }
                Ok(Err(error)) => {
                    failures.push((
                        at,
                        Failure::new(Class::NotSent, Executed::No, from, error).into(),
                    ));
                }
                Err(failed) => failures.push((at, not_the_call(&failed))),
            }
        }
        failures.sort_by_key(|(at, _)| *at);
        let failures = failures.iter().flat_map(|(_, failed)| failed.all());
        Err(Failed::several(failures.cloned().collect()))
    }
}

/// A probe failed, so the call itself was not sent to anybody.
fn not_the_call(failed: &Failed) -> Failed {
    let failures = failed.all().iter().map(|failure| Failure {
        class: match failure.class {
            Class::Eof | Class::Socket | Class::CallTimeout | Class::OtherIo => Class::NotSent,
            class => class,
        },
        executed: Executed::No,
        ..failure.clone()
    });
    Failed::several(failures.collect())
}

impl Invoker for Round {
    fn name(&self) -> &Arc<str> {
        match self.winner.get() {
            Some(at) => self.targets[*at].name(),
            None => &self.name,
        }
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            if self.targets.len() == 1 {
                return self.ask(0, call).await;
            }
            if let Some(at) = self.winner.get() {
                return self.ask(*at, call).await;
            }
            if call.method.read.is_some() {
                return self.hedge(call).await;
            }
            let at = match &self.probe {
                Some(probe) => self.active(&**probe, call).await?,
                None => 0,
            };
            self.ask(at, call).await
        })
    }
}
