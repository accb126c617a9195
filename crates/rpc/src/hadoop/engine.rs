//! The engine for Hadoop's IPC: proxies to servers over shared connections. One engine is one client to a server: one client id, one counter
//! of call ids (hadoop-ha-rpc.md A.9, B.7).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Env, HostPort};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::hadoop::{self as wire, ClientId, User};
use futures::future::BoxFuture;
use rand::RngCore;

use super::Alignment;
use super::connection::{self, Hadoop};
use crate::ha::policy::Class;
use crate::ha::{Call, CallIds, Engine, Executed, Failed, Failure, Invoker, Protocol, Target};
use crate::multiplex::{self, Channel, Full, Pool, Unanswered};
use crate::stage::Stage;

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
    open: Pool<Key, Hadoop>,
}

/// What a connection is shared by (P4).
type Key = (HostPort, &'static str, User);

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
                open: Pool::default(),
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
            key: (target.address, target.protocol.name, target.user),
            protocol: target.protocol,
            alignment: target.alignment,
        }))
    }
}

/// The proxy to one server.
struct Remote<E: Env> {
    name: Arc<str>,
    shared: Arc<Shared<E>>,
    /// Made once: each call looks for its connection by it.
    key: Key,
    protocol: &'static Protocol,
    alignment: Option<Arc<Alignment>>,
}

impl<E: Env> Invoker for Remote<E> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move { Ok(self.ask(call).await?) })
    }
}

impl<E: Env> Remote<E> {
    async fn ask(&self, call: &Call) -> Result<Bytes, Failure> {
        let limit = call.limit(self.shared.config.call_timeout);
        let clock = self.shared.env.clock();
        let stage = Stage::new();
        let outgoing = || (call.clone(), self.alignment.clone());
        let asked = multiplex::ask(clock, limit, &stage, outgoing, || self.channel());
        let (class, why) = match asked.await {
            Ok(outcome) => return outcome,
            Err(Unanswered::None(failure)) => return Err(failure),
            Err(Unanswered::Elapsed) => (
                Class::CallTimeout,
                format!("no answer within {} ms", limit.as_millis()),
            ),
            Err(Unanswered::Ended) => (Class::Socket, "the connection ended".to_owned()),
        };
        let why = format!("{}: {why}", call.method.name);
        // After this it is not sent any more, if it was not before.
        Err(if stage.abandon() {
            Failure::not_sent(Class::NotSent, &self.name, why)
        } else {
            Failure::unknown(class, &self.name, why)
        })
    }

    /// The connection to the server, a new one if there is none.
    fn channel(&self) -> Result<Channel<Hadoop>, Failure> {
        let Shared {
            env, config, open, ..
        } = &*self.shared;
        let (address, _, user) = &self.key;
        let connect = || {
            let (channel, taken) = Channel::new(config.calls_max);
            let peer = connection::Peer {
                name: Arc::clone(&self.name),
                address: address.clone(),
                protocol: self.protocol,
                user: user.clone(),
                client: self.shared.client,
            };
            env.spawn(
                "hadoop-client",
                connection::run(env.clone(), config.clone(), peer, taken),
            );
            channel
        };
        open.channel(&self.key, CONNECTIONS_MAX, connect)
            .map_err(|Full| {
                let error = Error::new(
                    Code::NotSent,
                    format!("{}: {CONNECTIONS_MAX} connections are open", self.name),
                );
                Failure::new(Class::Other, Executed::No, &self.name, error)
            })
    }
}
