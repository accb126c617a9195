//! One connection of a client, whatever its frames: a single task that writes calls, reads answers and ties them together by call id; and the
//! way of a call to it. What the frames are is a [`Dialect`]'s affair. Nothing is tried again here; a call that no connection has taken
//! yet may change to a new one, which is no second try.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Clock, Elapsed, Env};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::buffers::{Inbound, LENGTH_BYTES, Outbound};
use crate::header::{self, HEADER_BYTES_MAX, Header};
use crate::stage::Stage;
use crate::timer::Timer;

/// While this much waits to be written, bytes, no further call is taken.
const WRITE_PAUSE_BYTES: usize = 1024 * 1024;

/// Rounds of writing and reading before other tasks get a turn.
const ROUNDS_MAX: usize = 16;

/// Calls handed to a connection and not yet taken by it: a short way to wake it, no queue (that is the callers' own waiting).
const HAND_OVER: usize = 64;

/// Connections a call may be handed to. One that closes for being idle, or breaks, at just that moment hands it back.
const HAND_OVERS_MAX: usize = 3;

/// What a connection's limits are (INV-9).
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// A connection without calls is closed after this time.
    pub(crate) idle: Duration,
    /// A connection on which an answer is due and nothing came for so long is pinged.
    pub(crate) ping: Option<Duration>,
    /// Calls waiting for an answer on one connection; further callers wait for their turn.
    pub(crate) calls_max: usize,
    /// Largest answer, bytes.
    pub(crate) response_bytes_max: usize,
}

/// How a connection, or a wait for an answer, broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The peer closed it.
    Closed,
    /// Reading or writing failed.
    Socket,
    /// No answer in time.
    TimedOut,
    /// What came cannot be read.
    Unreadable,
    /// The first that came is nothing that such a server sends.
    Stranger,
}

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End<F> {
    /// It is not needed any more.
    Unused,
    /// It broke.
    Broken(Broken, String),
    /// The peer refused the connection as a whole.
    Fatal(F),
}

/// An answer and whose it is, or the end of the connection.
pub(crate) type Parsed<D> =
    Result<(<D as Dialect>::Id, <D as Dialect>::Response), End<<D as Dialect>::Fatal>>;

/// A kind of frames.
pub(crate) trait Dialect: Send + Sized + 'static {
    /// What is to be sent.
    type Call: Send;
    /// What ties an answer to its call.
    type Id: Ord + Copy + Send;
    /// What is kept of a call until it is answered.
    type Kept: Send;
    /// What a caller gets.
    type Outcome: Send;
    /// An answer that was read.
    type Response;
    /// Why the peer refuses a connection.
    type Fatal: std::fmt::Debug;

    /// Writes a call; `left` is how long its caller waits. `is_used` tells ids of calls that wait.
    ///
    /// # Errors
    /// The outcome of a call that cannot be written.
    fn write(
        &mut self,
        buffer: &mut BytesMut,
        call: Self::Call,
        left: Duration,
        is_used: impl Fn(Self::Id) -> bool,
    ) -> Result<(Self::Id, Self::Kept), Self::Outcome>;

    /// Writes a ping, if [`Limits::ping`] is set.
    fn ping(&self, _: &mut BytesMut) {}

    /// Looks at the first four bytes that ever came.
    ///
    /// # Errors
    /// If they are no such peer's.
    fn greet(&self, _: [u8; LENGTH_BYTES]) -> Result<(), End<Self::Fatal>> {
        Ok(())
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// What ends the connection.
    fn parse(&self, frame: Bytes, is_first: bool) -> Parsed<Self>;

    /// Reads the id in an answer's header.
    ///
    /// # Errors
    /// If it is none.
    fn id_in_header(header: Bytes) -> cadastre_types::Result<Self::Id>;

    /// The end of a connection on which something came that is no answer.
    fn unreadable(&self, why: &str, is_first: bool) -> End<Self::Fatal>;

    /// The answer to a call.
    fn answered(&self, kept: &Self::Kept, response: Self::Response) -> Self::Outcome;

    /// The answer was thrown away, since it is longer than `max`.
    fn too_long(&self, kept: &Self::Kept, length: usize, max: usize) -> Self::Outcome;

    /// There is no answer. `sent`: whether the peer may know of the call.
    fn broken(&self, kept: &Self::Kept, sent: bool, how: Broken, why: &str) -> Self::Outcome;

    /// The peer refused the connection. `answers`: whether it had answered anything before.
    fn refused(
        &self,
        id: Self::Id,
        kept: &Self::Kept,
        sent: bool,
        answers: bool,
        fatal: &Self::Fatal,
    ) -> Self::Outcome;
}

/// A call handed to its connection.
pub(crate) struct Outgoing<D: Dialect> {
    call: D::Call,
    /// On the clock's `mono`.
    deadline: Duration,
    stage: Stage,
    answer: oneshot::Sender<D::Outcome>,
}

/// The way to one connection's task.
pub(crate) struct Channel<D: Dialect> {
    calls: mpsc::Sender<Outgoing<D>>,
    places: Arc<Semaphore>,
}

impl<D: Dialect> Clone for Channel<D> {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            places: Arc::clone(&self.places),
        }
    }
}

impl<D: Dialect> Channel<D> {
    /// A way for so many calls, and its other end.
    pub(crate) fn new(calls_max: usize) -> (Self, mpsc::Receiver<Outgoing<D>>) {
        let (calls, taken) = mpsc::channel(HAND_OVER);
        let places = Arc::new(Semaphore::new(calls_max));
        (Self { calls, places }, taken)
    }
}

/// Open connections by what they are shared by.
pub(crate) struct Pool<K, D: Dialect> {
    open: Mutex<BTreeMap<K, Channel<D>>>,
}

impl<K, D: Dialect> Default for Pool<K, D> {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
        }
    }
}

/// There are as many connections as there may be.
pub(crate) struct Full;

impl<K: Ord + Clone, D: Dialect> Pool<K, D> {
    /// The connection for a key, a new one if there is none: `open` starts its task.
    ///
    /// # Errors
    /// [`Full`] at `most` connections.
    pub(crate) fn channel(
        &self,
        key: &K,
        most: usize,
        open: impl FnOnce() -> Channel<D>,
    ) -> Result<Channel<D>, Full> {
        let mut channels = self.open.lock().expect("nothing panics while it is held");
        if let Some(channel) = channels.get(key)
            && !channel.calls.is_closed()
        {
            return Ok(channel.clone());
        }
        channels.retain(|_, channel| !channel.calls.is_closed());
        if channels.len() >= most {
            return Err(Full);
        }
        let channel = open();
        channels.insert(key.clone(), channel.clone());
        Ok(channel)
    }
}

/// No connection answered. Whether the call may still be sent is decided by the stage.
pub(crate) enum Unanswered<E> {
    /// Not within the time.
    Elapsed,
    /// The connections ended.
    Ended,
    /// There is none.
    None(E),
}

/// Hands a call to a connection and waits for its answer, not longer than `limit`.
pub(crate) async fn ask<D: Dialect, C: Clock, E: Send>(
    clock: &C,
    limit: Duration,
    stage: &Stage,
    call: impl Fn() -> D::Call + Send,
    channel: impl Fn() -> Result<Channel<D>, E> + Send,
) -> Result<D::Outcome, Unanswered<E>> {
    let _abandons = stage.abandon_on_drop();
    let deadline = clock.mono() + limit;
    // The connection ends a call that it has taken; this ends one that waits for its turn.
    let asking = hand_over(deadline, stage, call, channel);
    match clock.timeout(limit, asking).await {
        Ok(outcome) => outcome,
        Err(Elapsed) => Err(Unanswered::Elapsed),
    }
}

async fn hand_over<D: Dialect, E>(
    deadline: Duration,
    stage: &Stage,
    call: impl Fn() -> D::Call + Send,
    channel: impl Fn() -> Result<Channel<D>, E> + Send,
) -> Result<D::Outcome, Unanswered<E>> {
    for _ in 0..HAND_OVERS_MAX {
        let channel = channel().map_err(Unanswered::None)?;
        let Ok(_place) = channel.places.acquire().await else {
            continue;
        };
        let (answer, wait) = oneshot::channel();
        let outgoing = Outgoing {
            call: call(),
            deadline,
            stage: stage.clone(),
            answer,
        };
        if channel.calls.send(outgoing).await.is_err() {
            continue;
        }
        match wait.await {
            Ok(outcome) => return Ok(outcome),
            // The connection ended without having taken the call.
            Err(_) if !stage.is_sent() => {}
            Err(_) => break,
        }
    }
    Err(Unanswered::Ended)
}

/// Serves the calls handed to it over a stream that is open, until that ends. `start` is sent first.
pub(crate) async fn serve<E: Env, D: Dialect, S: AsyncRead + AsyncWrite + Unpin>(
    env: E,
    limits: Limits,
    dialect: D,
    start: &[u8],
    mut stream: S,
    calls: mpsc::Receiver<Outgoing<D>>,
) {
    let mut connection = Connection::new(env, limits, dialect, start, calls);
    let end = poll_fn(|cx| connection.poll(cx, &mut stream)).await;
    connection.close(&end);
}

/// Tells everybody who is waiting for a connection that did not come about.
pub(crate) async fn refuse<D: Dialect>(
    mut calls: mpsc::Receiver<Outgoing<D>>,
    outcome: impl Fn() -> D::Outcome,
) {
    calls.close();
    while let Some(call) = calls.recv().await {
        // Callers that have given up do not ask.
        let _ = call.answer.send(outcome());
    }
}

/// A call whose answer is awaited.
struct Pending<D: Dialect> {
    /// Bytes that the socket must have taken before the server can know of the call.
    end: u64,
    began: Duration,
    deadline: Duration,
    kept: D::Kept,
    answer: oneshot::Sender<D::Outcome>,
}

struct Connection<E: Env, D: Dialect> {
    env: E,
    limits: Limits,
    dialect: D,
    calls: mpsc::Receiver<Outgoing<D>>,
    /// No further calls are taken.
    closing: bool,
    inbound: Inbound,
    outbound: Outbound,
    /// Bytes of an answer over the limit still to be thrown away.
    skip: usize,
    pending: BTreeMap<D::Id, Pending<D>>,
    /// The peer has answered something: it is what it should be.
    answered: bool,
    last_used: Duration,
    last_read: Duration,
    last_ping: Duration,
    /// When to look for calls, pings and a connection whose time is over; not later than the first of them.
    wake_at: Duration,
    timer: Timer,
}

impl<E: Env, D: Dialect> Connection<E, D> {
    fn new(
        env: E,
        limits: Limits,
        dialect: D,
        start: &[u8],
        calls: mpsc::Receiver<Outgoing<D>>,
    ) -> Self {
        let mut outbound = Outbound::default();
        outbound.buffer().extend_from_slice(start);
        let now = env.clock().mono();
        Self {
            env,
            limits,
            dialect,
            calls,
            closing: false,
            inbound: Inbound::default(),
            outbound,
            skip: 0,
            pending: BTreeMap::new(),
            answered: false,
            last_used: now,
            last_read: now,
            last_ping: now,
            wake_at: now,
            timer: Timer::default(),
        }
    }

    fn poll<S>(&mut self, cx: &mut Context<'_>, stream: &mut S) -> Poll<End<D::Fatal>>
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
    fn round<S>(&mut self, cx: &mut Context<'_>, stream: &mut S) -> Result<bool, End<D::Fatal>>
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
        let socket = |error: std::io::Error| End::Broken(Broken::Socket, error.to_string());
        match (read, written) {
            (Poll::Ready(Ok(0)), _) => Err(End::Broken(Broken::Closed, self.closed().to_owned())),
            (Poll::Ready(Err(error)), _) => Err(socket(error)),
            // What the server said before it closed is worth more than the error of a write.
            (Poll::Pending, Poll::Ready(Err(error))) => Err(socket(error)),
            _ => Ok(moved),
        }
    }

    fn closed(&self) -> &'static str {
        if self.answered {
            "closed by the server"
        } else {
            "closed by the server before any answer (is this the right RPC port?)"
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
    fn send(&mut self, outgoing: Outgoing<D>) {
        let now = self.env.clock().mono();
        let left = outgoing.deadline.saturating_sub(now);
        if left.is_zero() || !outgoing.stage.send() {
            return;
        }
        self.forget_abandoned();
        let pending = &self.pending;
        let written = self
            .dialect
            .write(self.outbound.buffer(), outgoing.call, left, |id| {
                pending.contains_key(&id)
            });
        let (id, kept) = match written {
            Ok(written) => written,
            Err(outcome) => {
                // Its caller may have given up.
                let _ = outgoing.answer.send(outcome);
                return;
            }
        };
        self.last_used = now;
        self.wake_at = self.wake_at.min(outgoing.deadline);
        if let Some(ping) = self.limits.ping {
            self.wake_at = self.wake_at.min(now + ping);
        }
        // An earlier try of the same call, whose caller has gone, gives way: either answer is an answer to the call.
        self.pending.insert(
            id,
            Pending {
                end: self.outbound.end(),
                began: now,
                deadline: outgoing.deadline,
                kept,
                answer: outgoing.answer,
            },
        );
    }

    /// Callers that were dropped leave their calls behind until the deadline. They hold no place, so their number must be
    /// bounded here.
    fn forget_abandoned(&mut self) {
        if self.pending.len() >= 2 * self.limits.calls_max {
            self.pending.retain(|_, call| !call.answer.is_closed());
        }
    }

    /// How many bytes the answer at the front still lacks.
    fn missing(&self) -> usize {
        match self.inbound.peek_length() {
            Some(length) if self.skip == 0 => usize::try_from(length)
                .unwrap_or(usize::MAX)
                .min(self.limits.response_bytes_max)
                .saturating_add(LENGTH_BYTES)
                .saturating_sub(self.inbound.len()),
            _ => 0,
        }
    }

    /// Takes the answers that have come whole.
    fn take_answers(&mut self) -> Result<(), End<D::Fatal>> {
        loop {
            let skipped = self.skip.min(self.inbound.len());
            self.inbound.skip(skipped);
            self.skip -= skipped;
            let Some(length) = self.inbound.peek_length().filter(|_| self.skip == 0) else {
                return Ok(());
            };
            if !self.answered {
                self.dialect.greet(length.to_be_bytes())?;
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > self.limits.response_bytes_max {
                if !self.throw_away(length)? {
                    return Ok(());
                }
                continue;
            }
            if self.inbound.len() - LENGTH_BYTES < length {
                return Ok(());
            }
            self.inbound.skip(LENGTH_BYTES);
            let frame = self.inbound.take(length);
            let (id, response) = self.dialect.parse(frame, !self.answered)?;
            self.answered = true;
            self.last_used = self.last_read;
            // None: it came too late, and its call has been given up; or nobody has asked for it.
            if let Some(call) = self.pending.remove(&id) {
                let outcome = self.dialect.answered(&call.kept, response);
                let _ = call.answer.send(outcome);
            }
            if self.pending.is_empty() {
                self.wake_at = self.wake_at.min(self.last_used + self.limits.idle);
            }
        }
    }

    /// Fails the call whose answer is over the limit; `false` if its header has not come yet.
    fn throw_away(&mut self, length: usize) -> Result<bool, End<D::Fatal>> {
        let come = &self.inbound.peek()[LENGTH_BYTES..];
        let id = match header::read(come, D::id_in_header) {
            Header::Whole(id) => id,
            Header::Incomplete if come.len() < HEADER_BYTES_MAX => return Ok(false),
            Header::Incomplete | Header::Bad => {
                let why = format!("a frame of {length} bytes");
                return Err(self.dialect.unreadable(&why, !self.answered));
            }
        };
        self.inbound.skip(LENGTH_BYTES);
        self.skip = length;
        self.answered = true;
        if let Some(call) = self.pending.remove(&id) {
            let max = self.limits.response_bytes_max;
            let outcome = self.dialect.too_long(&call.kept, length, max);
            let _ = call.answer.send(outcome);
        }
        Ok(true)
    }

    /// Gives up calls whose time is over, pings a silent server, and ends a connection that is idle.
    fn wake(&mut self) {
        let now = self.env.clock().mono();
        let idle_at = self.last_used + self.limits.idle;
        if self.pending.is_empty() && idle_at <= now {
            self.stop_taking();
            return;
        }
        let over: Vec<D::Id> = (self.pending.iter())
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
            let sent = call.end <= written;
            let outcome = (self.dialect).broken(&call.kept, sent, Broken::TimedOut, &why);
            // Its caller may have given up.
            let _ = call.answer.send(outcome);
        }
        let deadline = self.pending.values().map(|call| call.deadline).min();
        self.wake_at = match deadline {
            None => idle_at,
            Some(deadline) => deadline.min(self.ping(now)),
        };
    }

    /// Pings if it is time to, and says when the next time comes. Only with answers due: an idle connection is closed instead.
    fn ping(&mut self, now: Duration) -> Duration {
        let Some(interval) = self.limits.ping else {
            return Duration::MAX;
        };
        let due = self.last_read.max(self.last_ping).max(self.last_used) + interval;
        if due > now {
            return due;
        }
        self.dialect.ping(self.outbound.buffer());
        self.last_ping = now;
        now + interval
    }

    fn stop_taking(&mut self) {
        self.closing = true;
        self.calls.close();
    }

    /// Tells the callers. What was handed over and not taken goes back to its callers by being dropped.
    fn close(mut self, end: &End<D::Fatal>) {
        self.calls.close();
        tracing::debug!(?end, "connection ended");
        let written = self.outbound.written();
        for (id, call) in self.pending {
            let sent = call.end <= written;
            let outcome = match end {
                End::Broken(how, why) => self.dialect.broken(&call.kept, sent, *how, why),
                End::Fatal(fatal) => {
                    (self.dialect).refused(id, &call.kept, sent, self.answered, fatal)
                }
                End::Unused => unreachable!("a connection ends unused only without calls"),
            };
            // Its caller may have given up.
            let _ = call.answer.send(outcome);
        }
    }
}
