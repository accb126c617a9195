//! One connection: a single task that reads frames, polls the calls they begin, and writes the answers, several at a time. Knows
//! nothing of what the calls do.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Clock, Env, Net};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::Service;
use cadastre_wire::cells::Compressor;
use cadastre_wire::frame::{self, Request};
use cadastre_wire::preamble::ConnectionInfo;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::budget::Share;
use super::calls::{Origin, Place, Running, Step, Waiting};
use super::frames::{Frames, Incoming, overload};
use super::metrics::MethodMetrics;
use super::start::{Start, start};
use super::{Call, HIGH_PRIORITY, Handler, Peer, Reply, Server, stopped};
use crate::buffers::{Inbound, Outbound};
use crate::timer::Timer;

/// While a connection owes its peer more than this, bytes, no further request of it is read or begun.
const WRITE_PAUSE_BYTES: usize = 1024 * 1024;

/// A call's deadline is at least this far off, whatever its caller says (hbase-protocol.md 2.2).
const TIMEOUT_MIN: Duration = Duration::from_millis(20);

/// Rounds of reading, running and writing before the core's other tasks get a turn.
const ROUNDS_MAX: usize = 16;

/// How long a refused peer may go on sending before its socket is closed. Closing at once, with bytes of it unread, would make
/// the system throw away the answer that says why.
const LINGER: Duration = Duration::from_secs(2);

/// Methods of which a connection keeps the metrics at hand.
const METHODS_AT_HAND: usize = 16;

/// Where a connection comes from and where it lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) address: SocketAddr,
    pub(super) core: usize,
}

/// Why a connection is closed: a label of metrics.
type Reason = &'static str;

type Stream<E> = <<E as Env>::Net as Net>::Stream;

/// Serves one connection to its end.
pub(super) async fn run<E: Env, H: Handler>(
    server: &Arc<Server<E, H>>,
    stream: Stream<E>,
    at: At,
    stop: watch::Receiver<bool>,
) {
    let reason = match server.env.net().adopt(stream) {
        Ok(mut stream) => {
            let reason = run_stream(server, &mut stream, at, stop).await;
            if let Close { linger: true, .. } = reason {
                linger(server, &mut stream).await;
            }
            reason.reason
        }
        Err(error) => {
            tracing::warn!(address = %at.address, %error, "cannot take over a connection");
            "failed"
        }
    };
    server.metrics.closed(reason);
    tracing::debug!(server = server.config.name, address = %at.address, reason, "connection closed");
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Close {
    reason: Reason,
    /// There is an answer that the peer must be able to read.
    linger: bool,
}

fn close(reason: Reason) -> Close {
    Close {
        reason,
        linger: false,
    }
}

async fn run_stream<E: Env, H: Handler>(
    server: &Arc<Server<E, H>>,
    stream: &mut Stream<E>,
    at: At,
    stop: watch::Receiver<bool>,
) -> Close {
    let mut inbound = Inbound::default();
    let mut stop = stopped(stop).boxed();
    let started = {
        let start = start(stream, &mut inbound, &*server.handler);
        // Boxed: its memory is needed for a moment, the connection's for hours.
        let start = Box::pin(
            server
                .env
                .clock()
                .timeout(server.config.start_timeout, start),
        );
        tokio::select! {
            biased;
            () = &mut stop => return close("stopped"),
            started = start => started,
        }
    };
    let info = match started {
        Ok(Ok(Start::Ready(info))) => info,
        Ok(Ok(Start::Answered(reason))) => {
            return Close {
                reason,
                linger: true,
            };
        }
        Ok(Ok(Start::Close(reason))) => return close(reason),
        Ok(Err(error)) => {
            tracing::debug!(address = %at.address, %error, "connection broke at its start");
            return close("broken");
        }
        Err(_) => return close("slow start"),
    };
    let mut connection = Connection::new(Arc::clone(server), info, at, inbound, stop);
    let end = poll_fn(|cx| connection.poll(cx, stream)).await;
    if end.reason != "closed by the peer" && end.reason != "stopped" {
        tracing::info!(server = server.config.name, address = %at.address, user = connection.peer.user, reason = end.reason, "closing a connection");
    }
    end
}

/// Ends our side, then reads on until the peer has ended too, or [`LINGER`] is over.
async fn linger<E: Env, H>(server: &Server<E, H>, stream: &mut Stream<E>) {
    let until_closed = async {
        stream.shutdown().await?;
        while poll_fn(|cx| Inbound::poll_discard(cx, stream)).await? > 0 {}
        std::io::Result::Ok(())
    };
    // However it ends, the socket is closed now.
    let _ = server.env.clock().timeout(LINGER, until_closed).await;
}

struct Connection<E: Env, H> {
    server: Arc<Server<E, H>>,
    service: Service,
    compressor: Option<Compressor>,
    peer: Arc<Peer>,
    inbound: Inbound,
    outbound: Outbound,
    frames: Frames,
    waiting: VecDeque<Waiting>,
    running: FuturesUnordered<Running>,
    /// Bytes of the requests waiting and running.
    request_bytes: usize,
    /// What is still to be written, drawn from the server's answer bytes.
    owed: Share,
    /// Frames are read. Not any more after the end of the stream, or after one that was too big.
    reads: bool,
    /// The server stops: calls that come are refused.
    stopping: bool,
    stop: BoxFuture<'static, ()>,
    /// How the connection is closed once everything is answered.
    ending: Option<Close>,
    drain_until: Option<Duration>,
    last_read: Duration,
    last_written: Duration,
    timer: Timer,
    methods: Vec<Arc<MethodMetrics>>,
}

impl<E: Env, H: Handler> Connection<E, H> {
    fn new(
        server: Arc<Server<E, H>>,
        info: ConnectionInfo,
        at: At,
        inbound: Inbound,
        stop: BoxFuture<'static, ()>,
    ) -> Self {
        let now = server.env.clock().mono();
        let config = &server.config;
        Self {
            service: info.service,
            compressor: info.compressor,
            peer: Arc::new(Peer {
                user: info.user,
                codec: info.codec,
                version: info.version,
                address: at.address,
                core: at.core,
            }),
            inbound,
            outbound: Outbound::default(),
            frames: Frames::new(
                config.request_bytes_max,
                config.connection_request_bytes_max,
                &server.request_bytes,
            ),
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
            request_bytes: 0,
            owed: Share::new(&server.response_bytes),
            reads: true,
            stopping: false,
            stop,
            ending: None,
            drain_until: None,
            last_read: now,
            last_written: now,
            timer: Timer::default(),
            methods: Vec::new(),
            server,
        }
    }

    fn now(&self) -> Duration {
        self.server.env.clock().mono()
    }

    /// Does what can be done now; ready when the connection is to be closed.
    fn poll(&mut self, cx: &mut Context<'_>, stream: &mut Stream<E>) -> Poll<Close> {
        if !self.stopping && self.stop.poll_unpin(cx).is_ready() {
            self.stopping = true;
            self.end(close("stopped"));
            if let Err(close) = self.refuse_waiting() {
                return Poll::Ready(close);
            }
        }
        for _ in 0..ROUNDS_MAX {
            match self.round(cx, stream) {
                Ok(true) => {}
                Ok(false) => return self.poll_timer(cx),
                Err(close) => return Poll::Ready(close),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One round; tells whether anything moved.
    fn round(&mut self, cx: &mut Context<'_>, stream: &mut Stream<E>) -> Result<bool, Close> {
        let mut moved = self.take_frames()?;
        moved |= self.begin_calls(cx)?;
        moved |= self.poll_running(cx)?;
        moved |= self.poll_write(cx, stream)?;
        if let Some(close) = self.ending
            && self.waiting.is_empty()
            && self.running.is_empty()
            && self.outbound.len() == 0
        {
            return Err(close);
        }
        moved |= self.poll_read(cx, stream)?;
        Ok(moved)
    }

    /// The connection is to be closed once everything is answered.
    fn end(&mut self, how: Close) {
        self.ending.get_or_insert(how);
        let drain = self.server.config.drain;
        self.drain_until
            .get_or_insert(self.server.env.clock().mono() + drain);
    }

    /// The server stops before these calls have begun.
    fn refuse_waiting(&mut self) -> Result<(), Close> {
        while let Some(call) = self.waiting.pop_front() {
            self.leave(&call.place);
            self.refuse(call.request.call_id, &self.is_stopping())?;
        }
        Ok(())
    }

    fn is_stopping(&self) -> Error {
        let (name, address) = (&self.server.config.name, self.server.address);
        Error::new(
            Code::RegionServerStopped,
            format!("{name} at {address} is stopping"),
        )
    }

    fn takes_requests(&self) -> bool {
        self.reads && self.outbound.len() < WRITE_PAUSE_BYTES
    }

    fn take_frames(&mut self) -> Result<bool, Close> {
        let mut moved = false;
        while self.takes_requests() {
            match self.frames.next(&mut self.inbound, self.request_bytes) {
                Incoming::Incomplete => break,
                Incoming::Frame(frame, bytes) => self.take_request(frame, bytes)?,
                Incoming::Refused(call_id, error) => self.refuse(call_id, &error)?,
                Incoming::TooBig(call_id, error) => {
                    self.refuse(call_id, &error)?;
                    self.reads = false;
                    self.end(Close {
                        reason: "request too big",
                        linger: true,
                    });
                }
                Incoming::Broken(reason) => return Err(close(reason)),
            }
            moved = true;
        }
        Ok(moved)
    }

    fn take_request(&mut self, frame: Bytes, mut bytes: Share) -> Result<(), Close> {
        let mut request = match frame::parse_request(frame) {
            Ok(request) => request,
            Err(refused) => {
                let Some(call_id) = refused.call_id else {
                    tracing::info!(address = %self.peer.address, error = %refused.error, "unreadable request");
                    return Err(close("unreadable header"));
                };
                return self.refuse(call_id, &refused.error);
            }
        };
        if self.stopping {
            return self.refuse(request.call_id, &self.is_stopping());
        }
        if let Err(error) = self.unpack(&mut request, &mut bytes) {
            return self.refuse(request.call_id, &error);
        }
        let mut call = Share::new(&self.server.calls);
        let max = self.server.calls.max();
        let max = match request.priority {
            Some(HIGH_PRIORITY..) => max,
            _ => max - max / 8,
        };
        let here = self.waiting.len() + self.running.len();
        if here >= self.server.config.connection_calls_max || !call.grow_within(1, max) {
            let error = overload("too many calls are waiting");
            return self.refuse(request.call_id, &error);
        }
        self.request_bytes += bytes.held();
        self.server.metrics.calls_in_flight.increment(1.0);
        let arrived = self.now();
        let deadline = request
            .timeout_ms
            .map(|ms| arrived + Duration::from_millis(ms.into()).max(TIMEOUT_MIN));
        self.waiting.push_back(Waiting {
            request,
            arrived,
            deadline,
            place: Place { bytes, call },
        });
        Ok(())
    }

    /// Decompresses a request's cell block.
    fn unpack(&self, request: &mut Request, bytes: &mut Share) -> Result<()> {
        if request.cells.is_empty() {
            return Ok(());
        }
        if self.peer.codec.is_none() {
            return Err(Error::invalid(
                "a cell block on a connection that declared no codec",
            ));
        }
        if let Some(compressor) = self.compressor {
            let max = self.server.config.request_bytes_max;
            request.cells = compressor.decompress(&request.cells, max)?;
            if !bytes.grow(request.cells.len()) {
                return Err(overload(
                    "the bytes of requests in flight are at their limit",
                ));
            }
        }
        Ok(())
    }

    /// Begins calls that wait, oldest first. Each is polled before the next begins: calls that are answered at once must not
    /// all be in memory with their answers before the first is written.
    fn begin_calls(&mut self, cx: &mut Context<'_>) -> Result<bool, Close> {
        let mut moved = false;
        while self.running.len() < self.server.config.connection_running_max
            && self.outbound.len() < WRITE_PAUSE_BYTES
        {
            let Some(call) = self.waiting.pop_front() else {
                break;
            };
            moved = true;
            self.begin(call);
            self.poll_running(cx)?;
        }
        Ok(moved)
    }

    fn begin(&mut self, call: Waiting) {
        let Waiting {
            request,
            arrived,
            deadline,
            place,
        } = call;
        let started = self.now();
        if deadline.is_some_and(|deadline| deadline <= started) {
            // Its caller has gone: no answer (2.2).
            self.server.metrics.expired.increment(1);
            self.leave(&place);
            tracing::debug!(address = %self.peer.address, method = request.method, "dropped an expired call");
            return;
        }
        let waited = started.saturating_sub(arrived);
        self.server
            .metrics
            .queue_seconds
            .record(waited.as_secs_f64());
        let origin = Origin {
            call_id: request.call_id,
            method: request.method.clone(),
            arrived,
            started,
            place,
        };
        let call = Call {
            service: self.service,
            method: request.method,
            param: request.param,
            cells: request.cells,
            deadline,
            priority: request.priority.unwrap_or(0),
            arrived,
            started,
            peer: Arc::clone(&self.peer),
        };
        let server = &self.server;
        self.running.push(Running::begin(
            &server.handler,
            &server.metrics.panics,
            origin,
            call,
        ));
    }

    /// A call gives up its place.
    fn leave(&mut self, place: &Place) {
        self.request_bytes -= place.bytes.held();
        self.server.metrics.calls_in_flight.decrement(1.0);
    }

    fn poll_running(&mut self, cx: &mut Context<'_>) -> Result<bool, Close> {
        let mut moved = false;
        while let Poll::Ready(Some(step)) = self.running.poll_next_unpin(cx) {
            moved = true;
            match step {
                Step::Done(origin, outcome) => self.finish(&origin, outcome)?,
                Step::Long(origin, work) => {
                    let own = Running::own(&self.server.env, origin, work);
                    self.running.push(own);
                }
            }
        }
        Ok(moved)
    }

    /// Answers a call.
    fn finish(&mut self, origin: &Origin, outcome: Result<Reply>) -> Result<(), Close> {
        self.leave(&origin.place);
        let outcome = outcome.and_then(|reply| self.pack(reply));
        let took = self.now().saturating_sub(origin.started);
        self.method(&origin.method, outcome.is_ok()).answered(took);
        let before = self.outbound.len();
        match &outcome {
            Ok(Reply { body, cells }) => {
                self.send(|out| frame::encode_response(out, origin.call_id, Ok((body, cells))))?;
            }
            Err(error) => self.refuse(origin.call_id, error)?,
        }
        self.log_slow(origin, took, self.outbound.len() - before);
        Ok(())
    }

    /// Compresses an answer's cell block.
    fn pack(&self, mut reply: Reply) -> Result<Reply> {
        if reply.cells.is_empty() {
            return Ok(reply);
        }
        if self.peer.codec.is_none() {
            // The handler's fault; the peer could not read it.
            return Err(Error::new(
                Code::Internal,
                "a cell block for a connection that declared no codec",
            ));
        }
        if let Some(compressor) = self.compressor {
            reply.cells = compressor.compress(&reply.cells)?;
        }
        Ok(reply)
    }

    /// Answers a call with an exception.
    fn refuse(&mut self, call_id: u32, error: &Error) -> Result<(), Close> {
        self.server.metrics.exception(error.code());
        self.send(|out| frame::encode_response(out, call_id, Err(error)))
    }

    /// Appends an answer. A peer that does not take what it is owed is closed: the answers are in memory.
    fn send(&mut self, encode: impl FnOnce(&mut BytesMut)) -> Result<(), Close> {
        let before = self.outbound.len();
        if before == 0 {
            self.last_written = self.now();
        }
        encode(self.outbound.buffer());
        let added = self.outbound.len() - before;
        if !self.owed.grow(added) {
            if before > WRITE_PAUSE_BYTES {
                return Err(close("slow reader"));
            }
            self.owed.grow_anyway(added);
        }
        // A single answer over the limit is the handler's choice; two are the reader's fault.
        if before > 0 && self.outbound.len() > self.server.config.connection_response_bytes_max {
            return Err(close("slow reader"));
        }
        Ok(())
    }

    fn log_slow(&self, origin: &Origin, took: Duration, answer_bytes: usize) {
        let config = &self.server.config;
        if took < config.slow_call && answer_bytes < config.large_answer_bytes {
            return;
        }
        let waited = origin.started.saturating_sub(origin.arrived);
        tracing::warn!(
            server = config.name,
            service = %self.service,
            method = origin.method,
            peer = %self.peer.address,
            user = self.peer.user,
            call_ms = took.as_millis() as u64,
            queue_ms = waited.as_millis() as u64,
            request_bytes = origin.place.bytes.held(),
            answer_bytes,
            "slow call"
        );
    }

    fn method(&mut self, method: &str, succeeded: bool) -> Arc<MethodMetrics> {
        if let Some(known) = self.methods.iter().find(|it| it.method == method) {
            return Arc::clone(known);
        }
        let found = self.server.metrics.method(self.service, method, succeeded);
        if found.method == method && self.methods.len() < METHODS_AT_HAND {
            self.methods.push(Arc::clone(&found));
        }
        found
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, stream: &mut Stream<E>) -> Result<bool, Close> {
        let before = self.outbound.len();
        if before == 0 {
            return Ok(false);
        }
        let polled = self.outbound.poll_write(cx, stream);
        let after = self.outbound.len();
        self.owed.shrink_to(after);
        if after < before {
            self.server.metrics.sent.increment((before - after) as u64);
            self.last_written = self.now();
        }
        if let Poll::Ready(Err(error)) = polled {
            tracing::debug!(address = %self.peer.address, %error, "cannot write");
            return Err(close("broken"));
        }
        Ok(after < before)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, stream: &mut Stream<E>) -> Result<bool, Close> {
        if !self.takes_requests() {
            return Ok(false);
        }
        let missing = self.frames.missing(&self.inbound);
        match self.inbound.poll_fill(cx, stream, missing) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) => {
                self.reads = false;
                let truncated = self.frames.in_frame(&self.inbound);
                self.end(close(if truncated {
                    "truncated"
                } else {
                    "closed by the peer"
                }));
                Ok(true)
            }
            Poll::Ready(Ok(count)) => {
                self.server.metrics.received.increment(count as u64);
                self.last_read = self.now();
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                tracing::debug!(address = %self.peer.address, %error, "cannot read");
                Err(close("broken"))
            }
        }
    }

    /// Closes a connection whose time is up.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Close> {
        let next = self.next_timeout();
        let clock = self.server.env.clock();
        match self.timer.poll(cx, clock, next.map(|(at, _)| at)) {
            Poll::Ready(()) => Poll::Ready(close(next.map_or("idle", |(_, reason)| reason))),
            Poll::Pending => Poll::Pending,
        }
    }

    /// When the connection is to be closed if nothing moves until then, and why.
    fn next_timeout(&self) -> Option<(Duration, Reason)> {
        let config = &self.server.config;
        let owes = self.outbound.len() > 0;
        let in_frame = self.takes_requests() && self.frames.in_frame(&self.inbound);
        let idle = !owes && self.waiting.is_empty() && self.running.is_empty();
        let moved = self.last_read.max(self.last_written);
        [
            self.drain_until.map(|at| (at, "drain timeout")),
            owes.then(|| (self.last_written + config.write_stall, "slow reader")),
            in_frame.then(|| (self.last_read + config.read_stall, "slow writer")),
            config
                .idle
                .filter(|_| idle)
                .map(|idle| (moved + idle, "idle")),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl<E: Env, H> Drop for Connection<E, H> {
    fn drop(&mut self) {
        let left = self.waiting.len() + self.running.len();
        self.server.metrics.calls_in_flight.decrement(left as f64);
    }
}
