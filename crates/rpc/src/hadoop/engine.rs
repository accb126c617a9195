//! The engine for Hadoop's IPC: proxies to servers over shared connections. One engine is one client to a server: one client id, one counter
//! of call ids (hadoop-ha-rpc.md A.9, B.7).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Elapsed, Env};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::hadoop::{self as wire, ClientId, User};
use futures::future::BoxFuture;
use rand::RngCore;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::connection::{self, Outgoing};
use crate::ha::policy::Class;
use crate::ha::{Call, CallIds, Engine, Failed, Failure, Invoker, Target};
use crate::stage::Stage;

/// Calls handed to a connection and not yet taken by it: a short way to wake it, no queue (that is the callers' own waiting).
const HAND_OVER: usize = 64;

/// Connections a call may be handed to. One that closes for being idle, or breaks, at just that moment hands it back.
const HAND_OVERS_MAX: usize = 3;

/// Connections of an engine (INV-9): more servers, users and protocols than one client has.
const CONNECTIONS_MAX: usize = 256;

/// Limits of an engine's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HadoopConfig {
    /// Time for a connection to open (`ipc.client.connect.timeout`).
    pub connect_timeout: Duration,
    /// Time for an answer (`ipc.client.rpc-timeout.ms`).
    pub call_timeout: Duration,
    /// A connection without calls is closed after this time (`ipc.client.connection.maxidletime`).
    pub idle: Duration,
    /// A connection on which an answer is due and nothing came for so long is pinged, so that a peer that is gone is noticed
    /// (`ipc.client.ping`, `ipc.ping.interval`).
    pub ping: Option<Duration>,
    /// Calls waiting for an answer on one connection; further callers wait for their turn.
    pub calls_max: usize,
    /// Largest answer, bytes (`ipc.maximum.response.length`).
    pub response_bytes_max: usize,
}

impl Default for HadoopConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(20),
            call_timeout: Duration::from_secs(120),
            idle: Duration::from_secs(10),
            ping: Some(Duration::from_secs(60)),
            calls_max: 1024,
            response_bytes_max: wire::FRAME_MAX,
        }
    }
}

/// The engine; clones are the same.
#[derive(Clone)]
pub struct HadoopEngine<E: Env> {
    shared: Arc<Shared<E>>,
}

struct Shared<E> {
    env: E,
    client: ClientId,
    ids: CallIds,
    config: HadoopConfig,
    open: Mutex<BTreeMap<Key, Channel>>,
}

/// What a connection is shared by (P4).
type Key = (cadastre_env::HostPort, &'static str, User);

/// The way to one connection's task.
#[derive(Clone)]
struct Channel {
    calls: mpsc::Sender<Outgoing>,
    places: Arc<Semaphore>,
}

impl<E: Env> HadoopEngine<E> {
    /// An engine with a client id of its own.
    pub fn new(env: E, config: HadoopConfig) -> Self {
        let mut client = ClientId::default();
        env.rng("hadoop-client-id").fill_bytes(&mut client);
        Self {
            shared: Arc::new(Shared {
                env,
                client,
                ids: CallIds::default(),
                config,
                open: Mutex::default(),
            }),
        }
    }
}

impl<E: Env> Engine for HadoopEngine<E> {
    fn name(&self) -> &'static str {
        "hadoop"
    }

    fn ids(&self) -> CallIds {
        self.shared.ids.clone()
    }

    fn proxy(&self, target: Target) -> Result<Arc<dyn Invoker>> {
        Ok(Arc::new(Remote {
            name: target.address.to_string().into(),
            shared: Arc::clone(&self.shared),
            target,
        }))
    }
}

/// The proxy to one server.
struct Remote<E: Env> {
    name: Arc<str>,
    shared: Arc<Shared<E>>,
    target: Target,
}

impl<E: Env> Invoker for Remote<E> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move { Ok(self.ask_in_time(call).await?) })
    }
}

impl<E: Env> Remote<E> {
    async fn ask_in_time(&self, call: &Call) -> Result<Bytes, Failure> {
        let clock = self.shared.env.clock();
        let stage = Stage::new();
        let _abandons = stage.abandon_on_drop();
        // The connection ends a call that it has taken; this ends one that waits for its turn.
        let limit = self.shared.config.call_timeout;
        let limit = call.left.map_or(limit, |left| left.min(limit));
        let deadline = clock.mono() + limit;
        match clock.timeout(limit, self.ask(call, deadline, &stage)).await {
            Ok(outcome) => outcome,
            Err(Elapsed) => {
                let why = format!(
                    "{}: no answer within {} ms",
                    call.method.name,
                    limit.as_millis()
                );
                Err(self.not_answered(&stage, Class::CallTimeout, &why))
            }
        }
    }

    async fn ask(&self, call: &Call, deadline: Duration, stage: &Stage) -> Result<Bytes, Failure> {
        for _ in 0..HAND_OVERS_MAX {
            let channel = self.channel()?;
            let Ok(_place) = channel.places.acquire().await else {
                continue;
            };
            let (answer, wait) = oneshot::channel();
            let outgoing = Outgoing {
                call: call.clone(),
                alignment: self.target.alignment.clone(),
                deadline,
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
        let why = format!("{}: the connection ended", call.method.name);
        Err(self.not_answered(stage, Class::Socket, &why))
    }

    /// The failure of a call without an answer. After this it is not sent any more, if it was not before.
    fn not_answered(&self, stage: &Stage, class: Class, why: &str) -> Failure {
        if stage.abandon() {
            Failure::not_sent(Class::NotSent, &self.name, why)
        } else {
            Failure::unknown(class, &self.name, why)
        }
    }

    /// The connection to the server, a new one if there is none.
    fn channel(&self) -> Result<Channel, Failure> {
        let Shared {
            env, config, open, ..
        } = &*self.shared;
        let mut open = open.lock().expect("nothing panics while it is held");
        let Target {
            address,
            protocol,
            user,
            ..
        } = &self.target;
        let key = (address.clone(), protocol.name, user.clone());
        if let Some(channel) = open.get(&key)
            && !channel.calls.is_closed()
        {
            return Ok(channel.clone());
        }
        open.retain(|_, channel| !channel.calls.is_closed());
        if open.len() >= CONNECTIONS_MAX {
            let error = Error::new(
                Code::NotSent,
                format!("{}: {CONNECTIONS_MAX} connections are open", self.name),
            );
            let no = crate::ha::Executed::No;
            return Err(Failure::new(Class::Other, no, &self.name, error));
        }
        let (calls, taken) = mpsc::channel(HAND_OVER);
        let channel = Channel {
            calls,
            places: Arc::new(Semaphore::new(config.calls_max)),
        };
        let peer = connection::Peer {
            name: Arc::clone(&self.name),
            address: address.clone(),
            protocol,
            user: user.clone(),
            client: self.shared.client,
        };
        env.spawn(
            "hadoop-client",
            connection::run(env.clone(), config.clone(), peer, taken),
        );
        open.insert(key, channel.clone());
        Ok(channel)
    }
}
