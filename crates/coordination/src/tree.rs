//! The embedded server's state as a pure machine: (state, request, now) → reply, events, connections to close.
//!
//! Znodes, sessions, ephemerals, sequence numbers, watches, multi (zookeeper-protocol.md, sections 2, 4 and 5). It must not
//! know of sockets, tasks or clocks: time comes in as [`Now`], passwords as bytes. All of it is in memory and gone with the
//! process: the znodes of HBase are made anew by master and region servers at start. What survives a restart is only that no
//! zxid that a client has seen comes again (C23).
//!
//! Watches belong to a connection, as in ZooKeeper; since a session has at most one connection they are kept by session and
//! dropped when the connection goes.

mod nodes;
mod path;
mod read;
mod sessions;
mod watches;
mod write;

#[cfg(test)]
mod tests;

use std::time::Duration;

use cadastre_env::Millis;

use crate::jute::{ConnectRequest, ConnectResponse, ErrorCode, Request, Response, WatcherEvent};
use nodes::Nodes;
use sessions::{Lookup, Sessions};
use watches::Watches;

/// A connection's number, given by the driver, never used twice.
pub type ConnectionId = u64;

/// The time, from `env`'s clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For session timeouts.
    pub mono: Duration,
    /// For ctime and mtime, ms since 1970.
    pub wall: Millis,
}

/// Limits and rules (INV-9).
#[derive(Debug, Clone)]
pub struct TreeConfig {
    /// Shortest session timeout, ms.
    pub session_timeout_min_ms: u32,
    /// Longest session timeout, ms.
    pub session_timeout_max_ms: u32,
    /// Sessions at one time.
    pub sessions_max: usize,
    /// Znodes.
    pub znodes_max: usize,
    /// Bytes of paths, data and access control lists, with an allowance per znode.
    pub bytes_max: usize,
    /// Watches of one session.
    pub watches_per_session_max: usize,
    /// Watches of all sessions.
    pub watches_max: usize,
    /// Take sessions of an earlier run from clients that send no readOnly byte as if known. See [`Tree::connect`].
    pub adopt_sessions: bool,
}

impl Default for TreeConfig {
    fn default() -> Self {
        Self {
            // 2 and 20 ticks of 2,000 ms, as HBase's and ZooKeeper's own default.
            session_timeout_min_ms: 4_000,
            session_timeout_max_ms: 40_000,
            // Above the default of connections, since a session outlives its connection by up to 40 s.
            sessions_max: 100_000,
            // HBase keeps one znode per table, server and namespace: 100 times the largest cluster known.
            znodes_max: 1_000_000,
            // A sixteenth of the process's default memory (1 GiB).
            bytes_max: 64 << 20,
            // A session of our own roles has one per server; a setWatches frame cannot carry many more.
            watches_per_session_max: 50_000,
            watches_max: 500_000,
            adopt_sessions: true,
        }
    }
}

/// What the driver has to do, in this order, before it sends the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a watch event.
    Event {
        /// To whom.
        connection: ConnectionId,
        /// What.
        event: WatcherEvent,
    },
    /// Close a connection; its session moved or ended.
    Close {
        /// Which.
        connection: ConnectionId,
    },
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// For the header.
    pub zxid: i64,
    /// Body or error.
    pub result: Result<Response, ErrorCode>,
    /// Close the connection behind the reply.
    pub close: bool,
}

/// Numbers for the four-letter words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Last zxid given.
    pub zxid: i64,
    /// Znodes, `/` and `/zookeeper` included.
    pub znodes: usize,
    /// Ephemeral ones.
    pub ephemerals: usize,
    /// Bytes as limited by [`TreeConfig::bytes_max`].
    pub bytes: usize,
    /// Watches.
    pub watches: usize,
    /// Sessions.
    pub sessions: usize,
}

/// Highest zxid that a client can raise ours to: half of what there is. The clock's zxids reach it in the year 2109, and a
/// client that lies cannot use the numbers up.
const ZXID_TAKEN_MAX: i64 = i64::MAX / 2;

/// Zxid to start from: the start code, ms since 1970, `<< 20`; above those of every earlier run, since start codes grow (C23).
pub fn initial_zxid(start_code: Millis) -> i64 {
    let shifted = i64::try_from(start_code.min(1 << 42)).expect("42 bits fit") << 20;
    shifted.min(ZXID_TAKEN_MAX)
}

/// How long an emptied container is left alone, as ZooKeeper's `znode.container.checkIntervalMs`.
const CONTAINER_CHECK: Duration = Duration::from_secs(60);

/// The state machine.
#[derive(Debug)]
pub struct Tree {
    config: TreeConfig,
    zxid: i64,
    nodes: Nodes,
    sessions: Sessions,
    watches: Watches,
    containers_checked: Duration,
}

impl Tree {
    /// An empty tree: `/`, `/zookeeper`, `/zookeeper/config`, `/zookeeper/quota`.
    pub fn new(config: TreeConfig, initial_zxid: i64, now: Now) -> Self {
        Self {
            zxid: initial_zxid.clamp(0, ZXID_TAKEN_MAX),
            nodes: Nodes::new(),
            sessions: Sessions::new(now.wall),
            watches: Watches::default(),
            containers_checked: now.mono,
            config,
        }
    }

    /// Answers the first frame of a connection; `None`: close without an answer (too many sessions). `password` is a fresh
    /// random one, used if a session is made.
    ///
    /// Never refuses for `lastZxidSeen`, but goes on above it (C23): real servers close such a connection, and long-lived
    /// clients then hang. A session this run knows nothing of is answered with session 0 ("expired"), which makes clients
    /// start afresh, with one exception: a session that this run can never have had, from a client that sends no readOnly
    /// byte (Node, Go), is taken as if known, because Node's answer to an expiry is 20 s without ZooKeeper. It sets its
    /// watches again and notices nothing. Its ephemerals are gone, which is why clients that could have a use for them (Java,
    /// ours) are told the truth. A session that ended in this run is never taken again.
    pub fn connect(
        &mut self,
        connection: ConnectionId,
        request: &ConnectRequest,
        password: [u8; sessions::PASSWORD_BYTES],
        now: Now,
    ) -> (Option<ConnectResponse>, Vec<Output>) {
        let from_elsewhere = request.last_zxid_seen > self.zxid;
        if from_elsewhere {
            self.zxid = self.zxid.max(request.last_zxid_seen.min(ZXID_TAKEN_MAX));
        }
        let mut outputs = Vec::new();
        let timeout_ms = u32::try_from(request.timeout_ms).unwrap_or(0).clamp(
            self.config.session_timeout_min_ms,
            self.config.session_timeout_max_ms,
        );
        let session = match self.sessions.lookup(request, self.config.adopt_sessions) {
            Lookup::Refused => return (Some(refusal(request)), outputs),
            Lookup::Known(session) => {
                if let Some(displaced) = self.sessions.attach(session, connection, now.mono) {
                    self.watches.forget(session);
                    outputs.push(Output::Close {
                        connection: displaced,
                    });
                }
                session
            }
            Lookup::New | Lookup::Adoptable if self.sessions.len() >= self.config.sessions_max => {
                return (None, outputs);
            }
            Lookup::New => {
                self.zxid += 1;
                self.sessions
                    .make(connection, password, timeout_ms, now.mono)
            }
            Lookup::Adoptable => {
                self.zxid += 1;
                self.sessions
                    .adopt(request, connection, timeout_ms, now.mono)
            }
        };
        self.sessions.set_from_elsewhere(session, from_elsewhere);
        let (password, timeout_ms) = self.sessions.credentials(session);
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id: session,
            password,
            read_only: request.read_only.map(|_| false),
        };
        (Some(response), outputs)
    }

    /// The connection is gone; its session lives on until its timeout, its watches do not.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        if let Some(session) = self.sessions.detach(connection) {
            self.watches.forget(session);
        }
    }

    /// Session of a connection.
    pub fn session_of(&self, connection: ConnectionId) -> Option<i64> {
        self.sessions.of(connection)
    }

    /// Counts a frame of a connection as a sign of life of its session, whatever is in it.
    pub fn touch(&mut self, connection: ConnectionId, now: Now) {
        self.sessions.touch(connection, now.mono);
    }

    /// Last zxid given.
    pub fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Executes one request. Events and closings come before the reply.
    pub fn request(
        &mut self,
        connection: ConnectionId,
        request: &Request,
        now: Now,
    ) -> (Reply, Vec<Output>) {
        let mut outputs = Vec::new();
        let Some(session) = self.sessions.touch(connection, now.mono) else {
            let reply = Reply {
                zxid: self.zxid,
                result: Err(ErrorCode::SessionExpired),
                close: true,
            };
            return (reply, outputs);
        };
        let mut close = false;
        let mut zxid = None;
        let result = match request {
            Request::Create(_)
            | Request::Delete { .. }
            | Request::Check { .. }
            | Request::SetData { .. }
            | Request::SetAcl { .. }
            | Request::Multi(_) => self.write(session, request, now, &mut outputs),
            Request::CloseSession => {
                close = true;
                self.end_session(session, false, &mut outputs);
                Ok(Response::Empty)
            }
            Request::Auth { scheme, .. } => {
                // Digest identities are taken and lead to nothing: access control lists with them are refused.
                zxid = Some(0);
                close = scheme != "digest";
                match close {
                    false => Ok(Response::Empty),
                    true => Err(ErrorCode::AuthFailed),
                }
            }
            Request::Sasl { .. } => {
                zxid = Some(0);
                Ok(Response::Token(None))
            }
            Request::SetWatches(watches) => {
                let result = self.set_watches(session, connection, watches, &mut outputs);
                // Clients take an error for success and believe in their watches; a closed connection they understand.
                close = result.is_err();
                result
            }
            Request::AddWatch { path, mode } => self.add_watch(session, path, *mode),
            Request::RemoveWatches { path, kind } => self.remove_watches(session, path, *kind),
            read => self.read(session, read),
        };
        let reply = Reply {
            zxid: zxid.unwrap_or(self.zxid),
            result,
            close,
        };
        (reply, outputs)
    }

    /// Ends sessions whose time is up, and deletes emptied containers.
    pub fn expire(&mut self, now: Now) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some(session) = self.sessions.due(now.mono) {
            tracing::info!(session = format_args!("{session:#x}"), "session expired");
            self.end_session(session, true, &mut outputs);
        }
        if now.mono >= self.containers_checked + CONTAINER_CHECK {
            self.containers_checked = now.mono;
            self.delete_empty_containers(&mut outputs);
        }
        outputs
    }

    /// When the next session's time is up, unless it shows life.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.sessions.next_expiry()
    }

    fn end_session(&mut self, session: i64, close: bool, outputs: &mut Vec<Output>) {
        self.zxid += 1;
        self.watches.forget(session);
        let connection = self.sessions.end(session);
        self.delete_ephemerals(session, outputs);
        if let (true, Some(connection)) = (close, connection) {
            outputs.push(Output::Close { connection });
        }
    }

    /// Numbers for the four-letter words.
    pub fn figures(&self) -> Figures {
        Figures {
            zxid: self.zxid,
            znodes: self.nodes.len(),
            ephemerals: self.nodes.ephemerals_count(),
            bytes: self.nodes.bytes(),
            watches: self.watches.len(),
            sessions: self.sessions.len(),
        }
    }

    /// Watches of a connection.
    pub fn watches_of(&self, connection: ConnectionId) -> usize {
        self.sessions
            .of(connection)
            .map_or(0, |session| self.watches.count_of(session))
    }
}

/// Session unknown or expired.
fn refusal(request: &ConnectRequest) -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout_ms: 0,
        session_id: 0,
        password: vec![0; sessions::PASSWORD_BYTES].into(),
        read_only: request.read_only.map(|_| false),
    }
}
