//! The owner of the tree: executes commands, fills outboxes, knows all connections.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, Rng};
use rand::RngCore;
use tokio::sync::{Semaphore, mpsc};

use super::connection::Connection;
use super::outbox::{Closing, Outbox};
use super::words::{self, Client, Latency, Overview};
use super::{Command, ServerConfig, Stream};
use crate::awake::Awake;
use crate::frame::Frame;
use crate::jute::{
    ConnectRequest, ErrorCode, Reader, ReplyHeader, Request, RequestHeader, Response, Unreadable,
};
use crate::tree::{ConnectionId, Now, Output, Tree};

/// Bytes of all frames over 4 KiB that are being read or wait for the owner.
const LARGE_FRAMES_MAX: usize = 32 << 20;

struct Peer {
    address: SocketAddr,
    outbox: Arc<Outbox>,
    established: bool,
    /// No command of it is executed any more; its task ends by itself.
    closed: bool,
    received: u64,
    sent: u64,
}

/// Least time between two lines of the log about what clients do wrong.
const WARNINGS_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Owner<E: Env> {
    env: E,
    config: ServerConfig,
    address: SocketAddr,
    commands: mpsc::Sender<Command<Stream<E>>>,
    tree: Tree,
    peers: BTreeMap<ConnectionId, Peer>,
    per_address: BTreeMap<IpAddr, usize>,
    next_connection: ConnectionId,
    passwords: Rng,
    awake: Awake,
    now: Now,
    large: Arc<Semaphore>,
    unsent: Arc<AtomicUsize>,
    latency: Latency,
    received: u64,
    sent: u64,
    /// When what clients do wrong may be said again (mono), and how often it was not said.
    next_warning: Duration,
    unsaid: u64,
}

impl<E: Env> Owner<E> {
    pub(super) fn new(
        env: E,
        config: ServerConfig,
        address: SocketAddr,
        commands: mpsc::Sender<Command<Stream<E>>>,
    ) -> Self {
        let mono = env.clock().mono();
        let now = Now {
            mono,
            wall: env.clock().wall(),
        };
        Self {
            tree: Tree::new(config.tree.clone(), config.initial_zxid, now),
            passwords: env.rng("coordination.passwords"),
            awake: Awake::new(mono),
            now,
            peers: BTreeMap::new(),
            per_address: BTreeMap::new(),
            next_connection: 1,
            large: Arc::new(Semaphore::new(LARGE_FRAMES_MAX)),
            unsent: Arc::default(),
            latency: Latency::default(),
            received: 0,
            sent: 0,
            next_warning: Duration::ZERO,
            unsaid: 0,
            env,
            config,
            address,
            commands,
        }
    }

    /// The owner will look at the clock again within this time.
    pub(super) fn plan(&mut self, within: Duration) {
        self.awake.plan(self.env.clock().mono() + within);
    }

    /// Looks at the clock.
    pub(super) fn wake(&mut self) {
        self.now = Now {
            mono: self.awake.wake(self.env.clock().mono()),
            wall: self.env.clock().wall(),
        };
    }

    pub(super) fn expire(&mut self) {
        let outputs = self.tree.expire(self.now);
        self.put_out(outputs);
    }

    pub(super) fn handle(&mut self, command: Command<Stream<E>>) {
        match command {
            Command::Accepted { stream, peer } => self.accept(stream, peer),
            Command::Frame {
                connection,
                frame,
                received,
            } => self.frame(connection, frame, received),
            Command::Word { connection, word } => self.word(connection, word),
            Command::Gone { connection } => {
                self.tree.disconnect(connection);
                let Some(peer) = self.peers.remove(&connection) else {
                    return;
                };
                let ip = peer.address.ip();
                let count = self.per_address.entry(ip).or_default();
                *count -= 1;
                if *count == 0 {
                    self.per_address.remove(&ip);
                }
            }
        }
    }

    /// Whether a client's fault may go to the log now, and how many did not since the last one: a client that tries again and again
    /// must not fill the disk.
    fn may_warn(&mut self) -> Option<u64> {
        if self.now.mono < self.next_warning {
            self.unsaid += 1;
            return None;
        }
        self.next_warning = self.now.mono + WARNINGS_EVERY;
        Some(std::mem::take(&mut self.unsaid))
    }

    fn accept(&mut self, stream: Stream<E>, address: SocketAddr) {
        let count = self.per_address.get(&address.ip()).copied().unwrap_or(0);
        if count >= self.config.connections_per_address_max
            || self.peers.len() >= self.config.connections_max
        {
            if let Some(unsaid) = self.may_warn() {
                tracing::warn!(unsaid, %address, count, all = self.peers.len(), "too many connections");
            }
            return;
        }
        *self.per_address.entry(address.ip()).or_default() += 1;
        let id = self.next_connection;
        self.next_connection += 1;
        let outbox = Arc::new(Outbox::new(Arc::clone(&self.unsent)));
        let peer = Peer {
            address,
            outbox: Arc::clone(&outbox),
            established: false,
            closed: false,
            received: 0,
            sent: 0,
        };
        self.peers.insert(id, peer);
        let connection = Connection {
            env: self.env.clone(),
            id,
            stream,
            outbox,
            owner: self.commands.clone(),
            large: Arc::clone(&self.large),
            in_flight_max: self.config.in_flight_max,
            handshake_timeout: Duration::from_millis(self.config.handshake_timeout_ms),
            stall_timeout: Duration::from_millis(self.config.stall_timeout_ms),
        };
        self.env.spawn("coordination-connection", connection.run());
    }

    fn frame(&mut self, connection: ConnectionId, frame: Frame, received: Duration) {
        let Some(peer) = self.peers.get_mut(&connection) else {
            return;
        };
        if peer.closed {
            return;
        }
        peer.received += 1;
        self.received += 1;
        if peer.established {
            self.request(connection, frame.bytes);
        } else {
            self.connect(connection, frame.bytes);
        }
        let waited = self.env.clock().mono().saturating_sub(received);
        self.latency.add(waited);
        drop(frame.permit);
    }

    fn connect(&mut self, connection: ConnectionId, frame: Bytes) {
        let request = match ConnectRequest::decode(frame) {
            Ok(request) => request,
            Err(error) => {
                if let Some(unsaid) = self.may_warn() {
                    tracing::warn!(unsaid, connection, %error, "bad connect request");
                }
                return self.close(connection, Closing::Flushed);
            }
        };
        let mut password = [0; 16];
        self.passwords.fill_bytes(&mut password);
        let (response, outputs) = self.tree.connect(connection, &request, password, self.now);
        self.put_out(outputs);
        let Some(response) = response else {
            if let Some(unsaid) = self.may_warn() {
                tracing::warn!(unsaid, connection, "too many sessions");
            }
            return self.close(connection, Closing::Flushed);
        };
        self.append(connection, 1, |out| response.encode(out));
        if response.session_id == 0 {
            tracing::info!(
                session = format_args!("{:#x}", request.session_id),
                "unknown or expired session"
            );
            return self.close(connection, Closing::Flushed);
        }
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.established = true;
        }
    }

    fn request(&mut self, connection: ConnectionId, frame: Bytes) {
        let mut reader = Reader::new(frame);
        let header = match RequestHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => {
                if let Some(unsaid) = self.may_warn() {
                    tracing::warn!(unsaid, connection, %error, "bad request header");
                }
                return self.close(connection, Closing::Flushed);
            }
        };
        self.tree.touch(connection, self.now);
        let (zxid, result, close) = match Request::decode(header.opcode, &mut reader) {
            Ok(Request::WhoAmI) => {
                let ip = self.peers[&connection].address.ip().to_string();
                let ids = Response::Ids(vec![("ip".into(), ip)]);
                (self.tree.zxid(), Ok(ids), false)
            }
            Ok(request) => {
                let (reply, outputs) = self.tree.request(connection, &request, self.now);
                self.put_out(outputs);
                (reply.zxid, reply.result, reply.close)
            }
            Err(Unreadable::Unknown) => {
                if let Some(unsaid) = self.may_warn() {
                    tracing::warn!(
                        unsaid,
                        connection,
                        opcode = header.opcode,
                        "unknown operation"
                    );
                }
                (-1, Err(ErrorCode::Unimplemented), true)
            }
            Err(Unreadable::Malformed(error)) => {
                if let Some(unsaid) = self.may_warn() {
                    tracing::warn!(unsaid, connection, opcode = header.opcode, %error, "bad request");
                }
                (self.tree.zxid(), Err(ErrorCode::MarshallingError), false)
            }
        };
        let reply = ReplyHeader {
            xid: header.xid,
            zxid,
            err: result.as_ref().err().map_or(0, |code| code.code()),
        };
        self.append(connection, 1, |out| {
            Response::encode_reply(reply, result.as_ref().ok(), out);
        });
        if close {
            self.close(connection, Closing::Flushed);
        }
    }

    fn word(&mut self, connection: ConnectionId, word: [u8; 4]) {
        let text = words::answer(&word, || self.overview());
        match text {
            Some(text) => {
                self.append(connection, 1, |out| out.extend_from_slice(text.as_bytes()));
            }
            None => tracing::debug!(connection, ?word, "neither a frame nor a known word"),
        }
        self.close(connection, Closing::Flushed);
    }

    fn overview(&self) -> Overview {
        let clients = self.peers.iter().filter(|(_, peer)| !peer.closed);
        let clients = clients.map(|(_, peer)| Client {
            address: peer.address,
            established: peer.established,
            queued: peer.outbox.in_flight(),
            received: peer.received,
            sent: peer.sent,
        });
        Overview {
            clients: clients.collect(),
            figures: self.tree.figures(),
            latency: self.latency,
            received: self.received,
            sent: self.sent,
            address: self.address,
            config: self.config.clone(),
        }
    }

    fn put_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Event { connection, event } => {
                    self.append(connection, 0, |out| event.encode(out));
                }
                Output::Close { connection } => self.close(connection, Closing::Flushed),
            }
        }
    }

    fn append(
        &mut self,
        connection: ConnectionId,
        answers: usize,
        encode: impl FnOnce(&mut bytes::BytesMut),
    ) {
        let Some(peer) = self.peers.get_mut(&connection) else {
            return;
        };
        peer.sent += 1;
        self.sent += 1;
        let address = peer.address;
        if !peer.outbox.append(answers, encode) {
            if let Some(unsaid) = self.may_warn() {
                tracing::warn!(unsaid, %address, "the client does not read its answers");
            }
            self.close(connection, Closing::Now);
        }
    }

    /// Nothing of the connection is executed any more. What it had is released when its task ends.
    fn close(&mut self, connection: ConnectionId, how: Closing) {
        if let Some(peer) = self.peers.get_mut(&connection) {
            peer.closed = true;
            peer.outbox.close(how);
        }
        self.tree.disconnect(connection);
    }
}

impl<E: Env> Drop for Owner<E> {
    fn drop(&mut self) {
        for peer in self.peers.values() {
            peer.outbox.close(Closing::Now);
        }
    }
}
