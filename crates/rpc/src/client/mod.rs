//! The client: calls to other servers over multiplexed connections that open when they are needed and close when they are not.
//!
//! One connection per address and service. An error says how far the call came: [`Code::NotSent`] was never in the server's
//! hands, [`Code::OutcomeUnknown`] may have been executed, everything else is the server's own answer. Nothing is tried again
//! here; a call that no connection has taken yet may change to a new one, which is no second try.

mod config;
mod connection;
mod registry;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Elapsed, Env, HostPort};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::Service;
use tokio::sync::{Semaphore, mpsc, oneshot};

use self::connection::Outgoing;
use crate::stage::Stage;

pub use config::ClientConfig;

/// Calls handed to a connection and not yet taken by it: a short way to wake it, no queue (that is the callers' own waiting).
const HAND_OVER: usize = 64;

/// Connections a call may be handed to. One that closes for being idle, or breaks, at just that moment hands it back.
const HAND_OVERS_MAX: usize = 3;

/// Message and cell block of an answer.
pub type Answer = (Bytes, Bytes);

/// Connections to other servers; clones share them.
#[derive(Clone)]
pub struct Connections<E: Env> {
    shared: Arc<Shared<E>>,
}

struct Shared<E> {
    env: E,
    user: String,
    config: ClientConfig,
    open: Mutex<BTreeMap<(HostPort, Service), Channel>>,
}

/// The way to one connection's task.
#[derive(Clone)]
struct Channel {
    calls: mpsc::Sender<Outgoing>,
    places: Arc<Semaphore>,
}

impl<E: Env> Connections<E> {
    /// None open yet. `user` is who the servers see.
    pub fn new(env: E, user: impl Into<String>) -> Self {
        Self::with_config(env, user, ClientConfig::default())
    }

    /// The same with limits of one's own.
    pub fn with_config(env: E, user: impl Into<String>, config: ClientConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                env,
                user: user.into(),
                config,
                open: Mutex::default(),
            }),
        }
    }

    /// Calls a method and waits for its answer, not longer than `timeout`, which the server is told too.
    ///
    /// # Errors
    /// [`Code::NotSent`], [`Code::OutcomeUnknown`], [`Code::RequestTooBig`] for an answer over the limit, or what the server
    /// answered.
    pub async fn call(
        &self,
        to: &HostPort,
        service: Service,
        method: &'static str,
        param: Bytes,
        cells: Bytes,
        timeout: Duration,
    ) -> Result<Answer> {
        let clock = self.shared.env.clock();
        let stage = Stage::new();
        let _abandons = stage.abandon_on_drop();
        let request = Request {
            method,
            param,
            cells,
            deadline: clock.mono() + timeout,
        };
        match clock
            .timeout(timeout, self.ask(to, service, &request, &stage))
            .await
        {
            Ok(outcome) => outcome,
            Err(Elapsed) => Err(not_answered(
                &stage,
                to,
                method,
                &format!("no answer within {} ms", timeout.as_millis()),
            )),
        }
    }

    async fn ask(
        &self,
        to: &HostPort,
        service: Service,
        request: &Request,
        stage: &Stage,
    ) -> Result<Answer> {
        for _ in 0..HAND_OVERS_MAX {
            let channel = self.channel(to, service);
            let Ok(_place) = channel.places.acquire().await else {
                continue;
            };
            let (answer, wait) = oneshot::channel();
            let outgoing = Outgoing {
                method: request.method,
                param: request.param.clone(),
                cells: request.cells.clone(),
                deadline: request.deadline,
                stage: stage.clone(),
                answer,
            };
            if channel.calls.send(outgoing).await.is_err() {
                continue;
            }
            match wait.await {
                Ok(outcome) => return outcome,
                // The connection ended without having taken the call.
                Err(_) if !stage.is_sent() => {}
                Err(_) => break,
            }
        }
        Err(not_answered(
            stage,
            to,
            request.method,
            "the connection ended",
        ))
    }

    /// The connection for these, a new one if there is none.
    fn channel(&self, to: &HostPort, service: Service) -> Channel {
        let mut open = self
            .shared
            .open
            .lock()
            .expect("nothing panics while it is held");
        let key = (to.clone(), service);
        if let Some(channel) = open.get(&key)
            && !channel.calls.is_closed()
        {
            return channel.clone();
        }
        open.retain(|_, channel| !channel.calls.is_closed());
        let (calls, taken) = mpsc::channel(HAND_OVER);
        let channel = Channel {
            calls,
            places: Arc::new(Semaphore::new(self.shared.config.calls_max)),
        };
        let Shared {
            env, user, config, ..
        } = &*self.shared;
        env.spawn(
            "rpc-client",
            connection::run(
                env.clone(),
                user.clone(),
                config.clone(),
                key.clone(),
                taken,
            ),
        );
        open.insert(key, channel.clone());
        channel
    }

    /// Asks a server for its cluster's id by the `Regist` preamble (hbase-protocol.md 1.5), over a connection of its own. `None`:
    /// the server is too old to know that preamble.
    ///
    /// # Errors
    /// [`Code::NotSent`], [`Code::OutcomeUnknown`] or what the server answered.
    pub async fn registry_cluster_id(
        &self,
        to: &HostPort,
        timeout: Duration,
    ) -> Result<Option<String>> {
        let clock = self.shared.env.clock();
        match clock
            .timeout(timeout, registry::cluster_id(&self.shared.env, to))
            .await
        {
            Ok(outcome) => outcome,
            Err(Elapsed) => Err(Error::new(
                Code::OutcomeUnknown,
                format!("{to}: no cluster id within {} ms", timeout.as_millis()),
            )),
        }
    }
}

/// What one call sends.
struct Request {
    method: &'static str,
    param: Bytes,
    cells: Bytes,
    deadline: Duration,
}

/// The error of a call without an answer. After this it is not sent any more, if it was not before.
fn not_answered(stage: &Stage, to: &HostPort, method: &str, why: &str) -> Error {
    let code = if stage.abandon() {
        Code::NotSent
    } else {
        Code::OutcomeUnknown
    };
    Error::new(code, format!("{method} at {to}: {why}"))
}
