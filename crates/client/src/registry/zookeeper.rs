//! ZooKeeper as the registry: the znodes that HBase's servers keep (hbase-protocol.md 7.1).
//!
//! One session, made with the first question and kept; a new one when it has expired. A short-lived client closes it, others hold
//! one connection to one server.

use std::time::Duration;

use bytes::Bytes;
use cadastre_coordination::{Session, State};
use cadastre_env::{Clock, Env, HostPort};
use cadastre_types::{Code, Error, Result, ServerName};
use cadastre_wire::{pb, znode};
use tokio::sync::Mutex;

use super::MetaPlace;

/// How long a closing session is waited for; it ends by its time-out in any case.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct ZooKeeperRegistry<E: Env> {
    env: E,
    servers: Vec<HostPort>,
    parent: String,
    session_timeout: Duration,
    // An async lock: callers that come together wait for one session instead of making several.
    session: Mutex<Option<Session>>,
}

impl<E: Env> ZooKeeperRegistry<E> {
    pub(super) fn new(
        env: E,
        servers: Vec<HostPort>,
        parent: String,
        session_timeout: Duration,
    ) -> Self {
        Self {
            env,
            servers,
            parent: parent.trim_end_matches('/').to_owned(),
            session_timeout,
            session: Mutex::new(None),
        }
    }

    pub(super) async fn meta_place(&self, timeout: Duration) -> Result<MetaPlace> {
        let value = self
            .read("meta-region-server", timeout)
            .await?
            .ok_or_else(|| Error::new(Code::Io, "ZooKeeper does not say who serves hbase:meta"))?;
        let (server, state) = znode::read_meta_region_server(&value)?;
        if state != pb::region_state::State::Open {
            return Err(Error::new(
                Code::Io,
                format!("hbase:meta is not open yet on {server}"),
            ));
        }
        Ok(MetaPlace {
            server,
            open_seq: 0,
        })
    }

    pub(super) async fn active_master(&self, timeout: Duration) -> Result<ServerName> {
        match self.read("master", timeout).await? {
            Some(value) => znode::read_master(&value),
            None => Err(Error::new(
                Code::MasterNotRunning,
                "ZooKeeper knows no active master",
            )),
        }
    }

    pub(super) async fn cluster_id(&self, timeout: Duration) -> Result<String> {
        match self.read("hbaseid", timeout).await? {
            Some(value) => znode::read_cluster_id(&value),
            None => Err(Error::new(
                Code::Io,
                "ZooKeeper does not know the cluster's id",
            )),
        }
    }

    pub(super) async fn is_alive(&self, server: &ServerName, timeout: Duration) -> Result<bool> {
        let found = self.read(&format!("rs/{server}"), timeout).await?;
        Ok(found.is_some())
    }

    /// A session of the caller's own, with this registry's servers and time-out.
    pub(super) async fn new_session(&self) -> Result<Session> {
        Session::connect(self.env.clone(), self.servers.clone(), self.session_timeout).await
    }

    pub(super) async fn close(&self) {
        let session = self.session.lock().await.take();
        if let Some(session) = session {
            // Answered or not: there is nothing left to do.
            let _ = self
                .env
                .clock()
                .timeout(CLOSE_TIMEOUT, session.close())
                .await;
        }
    }

    /// A znode's value, `None` if there is none.
    async fn read(&self, name: &str, timeout: Duration) -> Result<Option<Bytes>> {
        let path = format!("{}/{name}", self.parent);
        let read = async {
            let session = self.session(timeout).await?;
            let found = session.get(&path).await.map_err(passing)?;
            Ok(found.map(|(value, _)| value))
        };
        match self.env.clock().timeout(timeout, read).await {
            Ok(answer) => {
                answer.map_err(|error: Error| error.context(format_args!("reading {path}")))
            }
            Err(_) => Err(Error::new(
                Code::Io,
                format!(
                    "ZooKeeper did not answer {path} within {} ms",
                    timeout.as_millis()
                ),
            )),
        }
    }

    async fn session(&self, timeout: Duration) -> Result<Session> {
        let mut held = self.session.lock().await;
        if let Some(session) = held.as_ref()
            && matches!(session.state(), State::Connected | State::Suspended)
        {
            return Ok(session.clone());
        }
        *held = None;
        let connect =
            Session::connect(self.env.clone(), self.servers.clone(), self.session_timeout);
        let session = match self.env.clock().timeout(timeout, connect).await {
            Ok(session) => session?,
            Err(_) => {
                let servers: Vec<String> = self.servers.iter().map(HostPort::to_string).collect();
                return Err(Error::new(
                    Code::NotSent,
                    format!("no ZooKeeper server answers at {}", servers.join(",")),
                ));
            }
        };
        *held = Some(session.clone());
        Ok(session)
    }
}

/// An error of a session ends the session, not the question: the next try makes a new one.
fn passing(error: Error) -> Error {
    Error::new(Code::Io, error.to_string())
}
