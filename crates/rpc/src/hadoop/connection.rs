//! One connection to a Hadoop server: a single task that writes calls and pings, reads answers and ties them together by call id
//! (hadoop-ha-rpc.md E). Knows how far each call came, not what is to be done about it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Elapsed, Env, HostPort, Net};
use cadastre_types::{Code, Error};
use cadastre_wire::hadoop::{self as wire, ClientId, Outcome, RemoteException, Response, User};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

use super::engine::HadoopConfig;
use super::{Alignment, classes};
use crate::buffers::{Inbound, LENGTH_BYTES, Outbound};
use crate::ha::policy::Class;
use crate::ha::{Call, Executed, Failure, Protocol};
use crate::header::{self, HEADER_BYTES_MAX, Header};
use crate::stage::Stage;
use crate::timer::Timer;

/// While this much waits to be written, bytes, no further call is taken.
const WRITE_PAUSE_BYTES: usize = 1024 * 1024;

/// Rounds of writing and reading before other tasks get a turn.
const ROUNDS_MAX: usize = 16;

/// A call handed to its connection.
pub(super) struct Outgoing {
    pub(super) call: Call,
    pub(super) alignment: Option<Arc<Alignment>>,
    /// On the clock's `mono`.
    pub(super) deadline: Duration,
    pub(super) stage: Stage,
    pub(super) answer: oneshot::Sender<Result<Bytes, Failure>>,
}

/// Whom the connection is with, and who makes it.
pub(super) struct Peer {
    pub(super) name: Arc<str>,
    pub(super) address: HostPort,
    pub(super) protocol: &'static Protocol,
    pub(super) user: User,
    pub(super) client: ClientId,
}

/// Opens a connection and serves the calls handed to it until it ends.
pub(super) async fn run<E: Env>(
    env: E,
    config: HadoopConfig,
    peer: Peer,
    mut calls: mpsc::Receiver<Outgoing>,
) {
    let (class, why) = match connect(&env, &config, &peer).await {
        Ok(mut stream) => {
            let mut connection = Connection::new(env.clone(), config, peer, calls);
            let end = poll_fn(|cx| connection.poll(cx, &mut stream)).await;
            connection.close(&end);
            return;
        }
        Err(failed) => failed,
    };
    tracing::debug!(to = %peer.name, ?class, why, "cannot connect");
    let failure = Failure::not_sent(class, &peer.name, why);
    calls.close();
    while let Some(call) = calls.recv().await {
        // Callers that have given up do not ask.
        let _ = call.answer.send(Err(failure.clone()));
    }
}

async fn connect<E: Env>(
    env: &E,
    config: &HadoopConfig,
    peer: &Peer,
) -> Result<<E::Net as Net>::Stream, (Class, String)> {
    let connect = async {
        // Each connection asks anew where the name is: a NameNode may have moved.
        let found = env.net().resolve(&peer.address.host).await;
        match found {
            Ok(addresses) if !addresses.is_empty() => {}
            Ok(_) => return Err((Class::UnknownHost, "the name has no address".to_owned())),
            Err(error) => return Err((Class::UnknownHost, error.to_string())),
        }
        let connected = env.net().connect(&peer.address).await;
        connected.map_err(|error| (classes::connect(&error), error.to_string()))
    };
    match env.clock().timeout(config.connect_timeout, connect).await {
        Ok(outcome) => outcome,
        Err(Elapsed) => Err((
            Class::ConnectTimeout,
            format!(
                "no connection within {} ms",
                config.connect_timeout.as_millis()
            ),
        )),
    }
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// It is not needed any more.
    Unused,
    /// The socket's fault.
    Broken(Class, String),
    /// It is no server that we can talk to.
    Foreign(Class, String),
    /// The server refused the connection as a whole.
    Fatal(i32, RemoteException),
}

/// A call whose answer is awaited.
struct Pending {
    /// Bytes that the socket must have taken before the server can know of the call.
    end: u64,
    began: Duration,
    deadline: Duration,
    method: &'static str,
    alignment: Option<Arc<Alignment>>,
    answer: oneshot::Sender<Result<Bytes, Failure>>,
}

struct Connection<E: Env> {
    env: E,
    config: HadoopConfig,
    peer: Peer,
    calls: mpsc::Receiver<Outgoing>,
    /// No further calls are taken.
    closing: bool,
    inbound: Inbound,
    outbound: Outbound,
    /// Bytes of an answer over the limit still to be thrown away.
    skip: usize,
    pending: BTreeMap<i32, Pending>,
    /// Answers so far: a peer with none may not be a Hadoop server at all.
    answers: u64,
    last_used: Duration,
    last_read: Duration,
    last_ping: Duration,
    /// When to look for calls, pings and a connection whose time is over; not later than the first of them.
    wake_at: Duration,
    timer: Timer,
}

impl<E: Env> Connection<E> {
    fn new(env: E, config: HadoopConfig, peer: Peer, calls: mpsc::Receiver<Outgoing>) -> Self {
        let mut outbound = Outbound::default();
        let start = wire::connection_start(&peer.client, &peer.user, peer.protocol.name);
        outbound.buffer().extend_from_slice(&start);
        let now = env.clock().mono();
        Self {
            env,
            config,
            peer,
            calls,
            closing: false,
            inbound: Inbound::default(),
            outbound,
            skip: 0,
            pending: BTreeMap::new(),
            answers: 0,
            last_used: now,
            last_read: now,
            last_ping: now,
            wake_at: now,
            timer: Timer::default(),
        }
    }

    fn poll<S>(&mut self, cx: &mut Context<'_>, stream: &mut S) -> Poll<End>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        for _ in 0..ROUNDS_MAX {
            match self.round(cx, stream) {
                Err(end) => return Poll::Ready(end),
                Ok(true) => {}
                Ok(false) => {
                    let next = Some(self.wake_at);
                    if self.timer.poll(cx, self.env.clock(), next).is_pending() {
                        return Poll::Pending;
                    }
                    self.wake();
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One round; tells whether anything moved.
    fn round<S>(&mut self, cx: &mut Context<'_>, stream: &mut S) -> Result<bool, End>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut moved = self.take_calls(cx);
        if self.closing && self.pending.is_empty() {
            return Err(End::Unused);
        }
        let before = self.outbound.len();
        let written = self.outbound.poll_write(cx, stream);
        moved |= self.outbound.len() < before;
        let missing = self.missing();
        let read = self.inbound.poll_fill(cx, stream, missing);
        if let Poll::Ready(Ok(1..)) = read {
            moved = true;
            self.last_read = self.env.clock().mono();
            self.take_answers()?;
        }
        let socket = |error: std::io::Error| End::Broken(Class::Socket, error.to_string());
        match (read, written) {
            (Poll::Ready(Ok(0)), _) => Err(End::Broken(Class::Eof, self.closed())),
            (Poll::Ready(Err(error)), _) => Err(socket(error)),
            // What the server said before it closed is worth more than the error of a write.
            (Poll::Pending, Poll::Ready(Err(error))) => Err(socket(error)),
            _ => Ok(moved),
        }
    }

    fn closed(&self) -> String {
        if self.answers == 0 {
            return "closed by the server before any answer (is this a NameNode's RPC port?)"
                .to_owned();
        }
        "closed by the server".to_owned()
    }

    fn take_calls(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while !self.closing && self.outbound.len() < WRITE_PAUSE_BYTES {
            match self.calls.poll_recv(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(call)) => self.send(call),
                // Nobody is left who could call.
                Poll::Ready(None) => self.closing = true,
            }
            moved = true;
        }
        moved
    }

    /// Writes a call to the buffer.
    fn send(&mut self, outgoing: Outgoing) {
        let now = self.env.clock().mono();
        if outgoing.deadline <= now || !outgoing.stage.send() {
            return;
        }
        self.forget_abandoned();
        let Call {
            method,
            protocol,
            body,
            id,
            retry,
            left: _,
        } = outgoing.call;
        let seen = outgoing.alignment.as_ref().map(|seen| seen.to_send());
        let (state_id, router_state) = seen.unwrap_or_default();
        let request = wire::Request {
            client_id: Bytes::copy_from_slice(&self.peer.client),
            call_id: id,
            retry_count: i32::try_from(retry).unwrap_or(i32::MAX),
            state_id,
            router_state,
            method: method.name.to_owned(),
            protocol: protocol.name.to_owned(),
            version: protocol.version,
            body,
        };
        if let Err(error) = wire::encode_request(self.outbound.buffer(), &request) {
            let failure = Failure::new(Class::Other, Executed::No, &self.peer.name, error);
            // Its caller may have given up.
            let _ = outgoing.answer.send(Err(failure));
            return;
        }
        self.last_used = now;
        self.wake_at = self.wake_at.min(outgoing.deadline);
        if let Some(ping) = self.config.ping {
            self.wake_at = self.wake_at.min(now + ping);
        }
        // An earlier try of the same call, whose caller has gone, gives way: either answer is an answer to the call.
        self.pending.insert(
            id,
            Pending {
                end: self.outbound.end(),
                began: now,
                deadline: outgoing.deadline,
                method: method.name,
                alignment: outgoing.alignment,
                answer: outgoing.answer,
            },
        );
    }

    /// Callers that were dropped leave their calls behind until the deadline. They hold no place, so their number must be
    /// bounded here.
    fn forget_abandoned(&mut self) {
        if self.pending.len() >= 2 * self.config.calls_max {
            self.pending.retain(|_, call| !call.answer.is_closed());
        }
    }

    /// How many bytes the answer at the front still lacks.
    fn missing(&self) -> usize {
        match self.inbound.peek_length() {
            Some(length) if self.skip == 0 => usize::try_from(length)
                .unwrap_or(usize::MAX)
                .min(self.config.response_bytes_max)
                .saturating_add(LENGTH_BYTES)
                .saturating_sub(self.inbound.len()),
            _ => 0,
        }
    }

    /// Takes the answers that have come whole.
    fn take_answers(&mut self) -> Result<(), End> {
        loop {
            let skipped = self.skip.min(self.inbound.len());
            self.inbound.skip(skipped);
            self.skip -= skipped;
            let Some(length) = self.inbound.peek_length().filter(|_| self.skip == 0) else {
                return Ok(());
            };
            if self.answers == 0
                && let Some(what) = wire::foreign(length.to_be_bytes())
            {
                let why = format!("there answers {what}");
                return Err(End::Foreign(Class::Other, why));
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > self.config.response_bytes_max {
                if !self.refuse_answer(length)? {
                    return Ok(());
                }
                continue;
            }
            if self.inbound.len() - LENGTH_BYTES < length {
                return Ok(());
            }
            self.inbound.skip(LENGTH_BYTES);
            let response = wire::parse_response(self.inbound.take(length))
                .map_err(|error| self.unreadable(error.message()))?;
            self.answer(response)?;
        }
    }

    /// What cannot be read as an answer: before the first one, the peer is somebody else.
    fn unreadable(&self, why: &str) -> End {
        if self.answers == 0 {
            let why = format!("what answers there is no Hadoop IPC server: {why}");
            return End::Broken(Class::Other, why);
        }
        End::Broken(Class::OtherIo, format!("unreadable answer: {why}"))
    }

    fn answer(&mut self, response: Response) -> Result<(), End> {
        if !response.client_id.is_empty() && response.client_id != self.peer.client[..] {
            return Err(self.unreadable("it is for another client"));
        }
        if let Outcome::Fatal(exception) = response.outcome {
            return Err(End::Fatal(response.call_id, exception));
        }
        if response.call_id == wire::SASL_CALL_ID {
            let why =
                "the server wants SASL (Kerberos or tokens), which is not supported".to_owned();
            return Err(End::Foreign(Class::Sasl, why));
        }
        self.answers += 1;
        self.last_used = self.last_read;
        // None: it came too late, and its call has been given up.
        if let Some(call) = self.pending.remove(&response.call_id) {
            let outcome = self.outcome(&call, response);
            let _ = call.answer.send(outcome);
        }
        if self.pending.is_empty() {
            self.wake_at = self.wake_at.min(self.last_used + self.config.idle);
        }
        Ok(())
    }

    fn outcome(&self, call: &Pending, response: Response) -> Result<Bytes, Failure> {
        match response.outcome {
            Outcome::Success(body) => {
                if let Some(alignment) = &call.alignment
                    && let Err(error) = alignment.answered(response.state_id, response.router_state)
                {
                    // The call was done; what was not understood is only how far the server is.
                    tracing::warn!(to = %self.peer.name, %error, "unreadable state of a namespace");
                }
                Ok(body)
            }
            Outcome::Error(exception) | Outcome::Fatal(exception) => {
                Err(classes::remote(&self.peer.name, &exception))
            }
        }
    }

    /// Fails the call whose answer is over the limit; `false` if its header has not come yet.
    fn refuse_answer(&mut self, length: usize) -> Result<bool, End> {
        let come = &self.inbound.peek()[LENGTH_BYTES..];
        let call_id = match header::read(come, wire::response_call_id) {
            Header::Whole(call_id) => call_id,
            Header::Incomplete if come.len() < HEADER_BYTES_MAX => return Ok(false),
            Header::Incomplete | Header::Bad => {
                return Err(self.unreadable(&format!("a frame of {length} bytes")));
            }
        };
        self.inbound.skip(LENGTH_BYTES);
        self.skip = length;
        self.answers += 1;
        if let Some(call) = self.pending.remove(&call_id) {
            let max = self.config.response_bytes_max;
            let error = Error::new(
                Code::RequestTooBig,
                format!(
                    "{} at {}: an answer of {length} bytes is over the limit of {max}",
                    call.method, self.peer.name
                ),
            );
            // It was done; asking again would bring the same.
            let failure = Failure::new(Class::Other, Executed::Refused, &self.peer.name, error);
            let _ = call.answer.send(Err(failure));
        }
        Ok(true)
    }

    /// Gives up calls whose time is over, pings a silent server, and ends a connection that is idle.
    fn wake(&mut self) {
        let now = self.env.clock().mono();
        let idle_at = self.last_used + self.config.idle;
        if self.pending.is_empty() && idle_at <= now {
            self.stop_taking();
            return;
        }
        let over: Vec<i32> = (self.pending.iter())
            .filter(|(_, call)| call.deadline <= now)
            .map(|(id, _)| *id)
            .collect();
        let written = self.outbound.written();
        for id in over {
            let Some(call) = self.pending.remove(&id) else {
                continue;
            };
            // Nothing was heard since the call began: the server is paused, or its machine gone. Later calls had better find out by
            // connecting anew; what is pending here may still be answered.
            if self.last_read < call.began && !self.closing {
                self.stop_taking();
            }
            let why = format!("no answer within {} ms", (now - call.began).as_millis());
            call.broken(&self.peer.name, written, Class::CallTimeout, &why);
        }
        let deadline = self.pending.values().map(|call| call.deadline).min();
        self.wake_at = match deadline {
            None => idle_at,
            Some(deadline) => deadline.min(self.ping(now)),
        };
    }

    /// Pings if it is time to, and says when the next time comes. Only with answers due: an idle connection is closed instead.
    fn ping(&mut self, now: Duration) -> Duration {
        let Some(interval) = self.config.ping else {
            return Duration::MAX;
        };
        let due = self.last_read.max(self.last_ping).max(self.last_used) + interval;
        if due > now {
            return due;
        }
        wire::encode_ping(self.outbound.buffer(), &self.peer.client);
        self.last_ping = now;
        now + interval
    }

    fn stop_taking(&mut self) {
        self.closing = true;
        self.calls.close();
    }

    /// Tells the callers. What was handed over and not taken goes back to its callers by being dropped.
    fn close(mut self, end: &End) {
        self.calls.close();
        tracing::debug!(to = %self.peer.name, ?end, "connection ended");
        let written = self.outbound.written();
        let name = &self.peer.name;
        for (id, call) in self.pending {
            match end {
                End::Broken(class, why) => call.broken(name, written, *class, why),
                End::Foreign(class, why) => {
                    let failure = Failure::not_sent(*class, name, why);
                    let _ = call.answer.send(Err(failure));
                }
                // This call was refused, or nothing was taken on this connection at all.
                End::Fatal(of, exception) if *of == id || (*of < 0 && self.answers == 0) => {
                    let failure = Failure {
                        executed: Executed::No,
                        ..classes::remote(name, exception)
                    };
                    let _ = call.answer.send(Err(failure));
                }
                // Another call's fault ended the connection: of this one nothing is known.
                End::Fatal(_, exception) => {
                    let why = format!("{}: {}", exception.class, exception.message);
                    call.broken(name, written, Class::Socket, &why);
                }
                End::Unused => unreachable!("a connection ends unused only without calls"),
            }
        }
    }
}

impl Pending {
    /// Fails the call without the server's word. `written`: bytes that the socket has taken.
    fn broken(self, name: &Arc<str>, written: u64, class: Class, why: &str) {
        let why = format!("{}: {why}", self.method);
        let failure = if self.end <= written {
            Failure::unknown(class, name, why)
        } else {
            Failure::not_sent(Class::NotSent, name, why)
        };
        // Its caller may have given up.
        let _ = self.answer.send(Err(failure));
    }
}
