//! One connection of a client: a single task that writes calls, reads answers and ties them together by call id.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Elapsed, Env, HostPort, Net};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::cells::Codec;
use cadastre_wire::frame::{self, CONNECTION_CALL_ID};
use cadastre_wire::preamble::{ConnectionInfo, connection_start};
use cadastre_wire::{Service, pb};
use tokio::sync::{mpsc, oneshot};

use super::{Answer, ClientConfig};
use crate::buffers::{Inbound, LENGTH_BYTES, Outbound};
use crate::header::{self, HEADER_BYTES_MAX, Header};
use crate::stage::Stage;
use crate::timer::Timer;

/// While this much waits to be written, bytes, no further call is taken.
const WRITE_PAUSE_BYTES: usize = 1024 * 1024;

/// Rounds of writing and reading before other tasks get a turn.
const ROUNDS_MAX: usize = 16;

/// The version we say we are: real servers use all of cell blocks and scanner errors only for clients that name one from 2 on
/// (hbase-protocol.md 11.7).
const VERSION: (u32, u32) = (2, 6);
const VERSION_TEXT: &str = "2.6.4";

/// A call handed to its connection.
pub(super) struct Outgoing {
    pub(super) method: &'static str,
    pub(super) param: Bytes,
    pub(super) cells: Bytes,
    /// On the clock's `mono`.
    pub(super) deadline: Duration,
    pub(super) stage: Stage,
    pub(super) answer: oneshot::Sender<Result<Answer>>,
}

/// Opens a connection and serves the calls handed to it until it ends.
pub(super) async fn run<E: Env>(
    env: E,
    user: String,
    config: ClientConfig,
    (to, service): (HostPort, Service),
    mut calls: mpsc::Receiver<Outgoing>,
) {
    let connect = env.net().connect(&to);
    let why = match env.clock().timeout(config.connect_timeout, connect).await {
        Ok(Ok(mut stream)) => {
            let mut connection = Connection::new(env.clone(), user, config, to, service, calls);
            let end = poll_fn(|cx| connection.poll(cx, &mut stream)).await;
            connection.close(&end);
            return;
        }
        Ok(Err(error)) => error.to_string(),
        Err(Elapsed) => format!(
            "no connection within {} ms",
            config.connect_timeout.as_millis()
        ),
    };
    let error = Error::new(Code::NotSent, format!("{to}: {why}"));
    tracing::debug!(%to, %service, why, "cannot connect");
    calls.close();
    while let Some(call) = calls.recv().await {
        // Callers that have given up do not ask.
        let _ = call.answer.send(Err(error.clone()));
    }
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// It is not needed any more.
    Unused,
    /// The socket's fault.
    Broken(String),
    /// The peer refused the connection as a whole.
    Fatal(Error),
}

/// A call whose answer is awaited.
struct Pending {
    /// Bytes that the socket must have taken before the server can know of the call.
    end: u64,
    began: Duration,
    deadline: Duration,
    method: &'static str,
    answer: oneshot::Sender<Result<Answer>>,
}

struct Connection<E: Env> {
    env: E,
    config: ClientConfig,
    to: HostPort,
    service: Service,
    calls: mpsc::Receiver<Outgoing>,
    /// No further calls are taken.
    closing: bool,
    inbound: Inbound,
    outbound: Outbound,
    /// Bytes of an answer over the limit still to be thrown away.
    skip: usize,
    pending: BTreeMap<u32, Pending>,
    next_id: u32,
    last_used: Duration,
    last_read: Duration,
    /// When to look for calls and a connection whose time is over; not later than the first of them.
    wake_at: Duration,
    timer: Timer,
}

impl<E: Env> Connection<E> {
    fn new(
        env: E,
        user: String,
        config: ClientConfig,
        to: HostPort,
        service: Service,
        calls: mpsc::Receiver<Outgoing>,
    ) -> Self {
        let info = ConnectionInfo {
            user,
            real_user: None,
            service,
            codec: Some(Codec::KeyValue),
            compressor: None,
            version: Some(VERSION),
        };
        let mut outbound = Outbound::default();
        outbound
            .buffer()
            .extend_from_slice(&connection_start(&info, VERSION_TEXT));
        let now = env.clock().mono();
        Self {
            env,
            config,
            to,
            service,
            calls,
            closing: false,
            inbound: Inbound::default(),
            outbound,
            skip: 0,
            pending: BTreeMap::new(),
            next_id: 0,
            last_used: now,
            last_read: now,
            wake_at: now,
            timer: Timer::default(),
        }
    }

    fn poll<S>(&mut self, cx: &mut Context<'_>, stream: &mut S) -> Poll<End>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
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
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
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
        match (read, written) {
            (Poll::Ready(Ok(0)), _) => Err(End::Broken("closed by the server".to_owned())),
            (Poll::Ready(Err(error)), _) => Err(End::Broken(error.to_string())),
            // What the server said before it closed is worth more than the error of a write.
            (Poll::Pending, Poll::Ready(Err(error))) => Err(End::Broken(error.to_string())),
            _ => Ok(moved),
        }
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
    fn send(&mut self, call: Outgoing) {
        let now = self.env.clock().mono();
        let left = call.deadline.saturating_sub(now);
        if left.is_zero() || !call.stage.send() {
            return;
        }
        self.forget_abandoned();
        let call_id = self.new_id();
        let request = frame::Request {
            call_id,
            method: call.method.to_owned(),
            param: call.param,
            cells: call.cells,
            timeout_ms: Some(u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)),
            priority: None,
        };
        if let Err(error) = frame::encode_request(self.outbound.buffer(), &request) {
            // Its caller may have given up.
            let _ = call.answer.send(Err(error));
            return;
        }
        self.last_used = now;
        self.wake_at = self.wake_at.min(call.deadline);
        self.pending.insert(
            call_id,
            Pending {
                end: self.outbound.end(),
                began: now,
                deadline: call.deadline,
                method: call.method,
                answer: call.answer,
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

    fn new_id(&mut self) -> u32 {
        loop {
            let id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            if id != CONNECTION_CALL_ID && !self.pending.contains_key(&id) {
                return id;
            }
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
            let response = frame::parse_response(self.inbound.take(length))
                .map_err(|error| End::Broken(error.to_string()))?;
            self.answer(response)?;
        }
    }

    fn answer(&mut self, response: frame::Response) -> Result<(), End> {
        if let Err(error) = &response.outcome
            && (response.call_id == CONNECTION_CALL_ID || is_fatal(error))
        {
            return Err(End::Fatal(error.clone()));
        }
        self.last_used = self.last_read;
        // None: it came too late, and its call has been given up.
        if let Some(call) = self.pending.remove(&response.call_id) {
            let _ = call.answer.send(response.outcome);
        }
        if self.pending.is_empty() {
            self.wake_at = self.wake_at.min(self.last_used + self.config.idle);
        }
        Ok(())
    }

    /// Fails the call whose answer is over the limit; `false` if its header has not come yet.
    fn refuse_answer(&mut self, length: usize) -> Result<bool, End> {
        let come = &self.inbound.peek()[LENGTH_BYTES..];
        let call_id = match header::read(come, cadastre_wire::decode::<pb::ResponseHeader>) {
            Header::Whole(header) => header.call_id.unwrap_or(0),
            Header::Incomplete if come.len() < HEADER_BYTES_MAX => return Ok(false),
            Header::Incomplete | Header::Bad => {
                return Err(End::Broken("unreadable answer".to_owned()));
            }
        };
        self.inbound.skip(LENGTH_BYTES);
        self.skip = length;
        if let Some(call) = self.pending.remove(&call_id) {
            let max = self.config.response_bytes_max;
            let error = Error::new(
                Code::RequestTooBig,
                format!(
                    "{} at {}: an answer of {length} bytes is over the limit of {max}",
                    call.method, self.to
                ),
            );
            let _ = call.answer.send(Err(error));
        }
        Ok(true)
    }

    /// Gives up calls whose time is over, and a connection that is idle or whose server is silent.
    fn wake(&mut self) {
        let now = self.env.clock().mono();
        let idle_at = self.last_used + self.config.idle;
        if self.pending.is_empty() && idle_at <= now {
            self.stop_taking();
            return;
        }
        let over: Vec<u32> = (self.pending.iter())
            .filter(|(_, call)| call.deadline <= now)
            .map(|(id, _)| *id)
            .collect();
        let written = self.outbound.written();
        for id in over {
            let Some(call) = self.pending.remove(&id) else {
                continue;
            };
            // Nothing was heard since the call began: perhaps the server's machine is gone. Later calls had better find out by
            // connecting anew; what is pending here may still be answered.
            if self.last_read < call.began && !self.closing {
                self.stop_taking();
            }
            call.broken(&self.to, written, "no answer in time");
        }
        let deadline = self.pending.values().map(|call| call.deadline).min();
        self.wake_at = deadline.unwrap_or(idle_at);
    }

    fn stop_taking(&mut self) {
        self.closing = true;
        self.calls.close();
    }

    /// Tells the callers. What was handed over and not taken goes back to its callers by being dropped.
    fn close(mut self, end: &End) {
        self.calls.close();
        tracing::debug!(to = %self.to, service = %self.service, ?end, "connection ended");
        let written = self.outbound.written();
        for call in self.pending.into_values() {
            match end {
                End::Fatal(error) => {
                    let _ = call.answer.send(Err(error.clone()));
                }
                End::Broken(why) => call.broken(&self.to, written, why),
                End::Unused => unreachable!("a connection ends unused only without calls"),
            }
        }
    }
}

impl Pending {
    /// Fails the call without the server's word. `written`: bytes that the socket has taken.
    fn broken(self, to: &HostPort, written: u64, why: &str) {
        let code = if self.end <= written {
            Code::OutcomeUnknown
        } else {
            Code::NotSent
        };
        let error = Error::new(code, format!("{} at {to}: {why}", self.method));
        // Its caller may have given up.
        let _ = self.answer.send(Err(error));
    }
}

/// Exceptions that end a connection, whatever call they came for (hbase-protocol.md 2.2).
fn is_fatal(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::FatalConnection
            | Code::WrongVersion
            | Code::BadAuth
            | Code::UnknownService
            | Code::UnsupportedCellCodec
            | Code::UnsupportedCompressionCodec
    )
}
