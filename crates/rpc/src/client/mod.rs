//! The client: calls to other servers over multiplexed connections that open when they are needed and close when they are not.
//!
//! One connection per address and service. An error says how far the call came: [`Code::NotSent`] was never in the server's
//! hands, [`Code::OutcomeUnknown`] may have been executed, everything else is the server's own answer. Nothing is tried again
//! here; a call that no connection has taken yet may change to a new one, which is no second try.

mod config;
mod connection;
mod registry;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Elapsed, Env, HostPort};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::Service;

use self::connection::{Hbase, Request};
use crate::multiplex::{self, Channel, Full, Pool, Unanswered};
use crate::stage::Stage;

pub use config::ClientConfig;

/// Connections of a client (INV-9): more servers than a cluster has.
const CONNECTIONS_MAX: usize = 16 * 1024;

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
    open: Pool<(HostPort, Service), Hbase>,
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
                open: Pool::default(),
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
        let stage = Stage::new();
        let request = || Request {
            method,
            param: param.clone(),
            cells: cells.clone(),
        };
        let clock = self.shared.env.clock();
        let asked = multiplex::ask(clock, timeout, &stage, request, || {
            self.channel(to, service)
        });
        let why = match asked.await {
            Ok(outcome) => return outcome,
            Err(Unanswered::None(error)) => return Err(error),
            Err(Unanswered::Elapsed) => format!("no answer within {} ms", timeout.as_millis()),
            Err(Unanswered::Ended) => "the connection ended".to_owned(),
        };
        // After this it is not sent any more, if it was not before.
        let code = if stage.abandon() {
            Code::NotSent
        } else {
            Code::OutcomeUnknown
        };
        Err(Error::new(code, format!("{method} at {to}: {why}")))
    }

    /// The connection for these, a new one if there is none.
    fn channel(&self, to: &HostPort, service: Service) -> Result<Channel<Hbase>> {
        let Shared {
            env,
            user,
            config,
            open,
        } = &*self.shared;
        let connect = || {
            let (channel, taken) = Channel::new(config.calls_max);
            let at = (to.clone(), service);
            env.spawn(
                "rpc-client",
                connection::run(env.clone(), user.clone(), config.clone(), at, taken),
            );
            channel
        };
        open.channel(&(to.clone(), service), CONNECTIONS_MAX, connect)
            .map_err(|Full| {
                Error::new(
                    Code::NotSent,
                    format!("{to}: {CONNECTIONS_MAX} connections are open"),
                )
            })
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
