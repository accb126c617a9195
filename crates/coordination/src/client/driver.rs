//! The session's task: connects, pings, sends calls, matches answers, reconnects, expires.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Elapsed, Env, HostPort, Rng};
use cadastre_types::{Code, Error, Result};
use rand::Rng as _;
use tokio::sync::{mpsc, oneshot};

use super::connection::Connection;
use super::watches::{ClientWatches, Kind};
use super::{Shared, State};
use crate::awake::Awake;
use crate::jute::{
    ConnectRequest, ErrorCode, EventType, Reader, ReplyHeader, Request, Response, WatcherEvent,
    XID_EVENT, XID_PING, XID_SET_WATCHES,
};

/// First and last pause between tries to connect; each is drawn from half of it to all of it.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Requests sent and not answered; the server takes 64 of a connection, real ones 1,000 in all.
const IN_FLIGHT_MAX: usize = 64;

/// Longest wait between two looks at the clock, so that time in which the process did not run is seen as such.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// One request of a handle.
pub(super) struct Call {
    pub(super) request: Request,
    /// To be told when the watch that the request leaves fires.
    pub(super) watch: Option<oneshot::Sender<EventType>>,
    pub(super) answer: oneshot::Sender<Result<Result<Response, ErrorCode>>>,
}

struct Sent {
    xid: i32,
    at: Duration,
    /// `None`: a ping or setWatches.
    call: Option<Call>,
}

/// Why a connection ended.
enum Ended {
    /// Try again.
    Broken(String),
    /// The session is over.
    Over(State),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

pub(super) struct Driver<E: Env> {
    env: E,
    servers: Vec<HostPort>,
    next_server: usize,
    asked_timeout: Duration,
    /// Never given up by itself once it was made.
    held: bool,
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Call>,
    /// Reads to be sent again on the next connection, in order.
    again: VecDeque<Call>,
    sent: VecDeque<Sent>,
    watches: ClientWatches,
    last_zxid: i64,
    xid: i32,
    rng: Rng,
    awake: Awake,
    /// In time awake: the last answer of any server, for expiry.
    last_answer: Duration,
    /// In monotone time: the last frame received, for silence.
    last_heard: Duration,
    /// In monotone time: the last ping sent.
    last_ping: Duration,
}

impl<E: Env> Driver<E> {
    pub(super) fn new(
        env: E,
        servers: Vec<HostPort>,
        asked_timeout: Duration,
        held: bool,
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Call>,
    ) -> Self {
        let mut rng = env.rng("coordination.session");
        let mono = env.clock().mono();
        Self {
            next_server: rng.random_range(0..servers.len()),
            servers,
            asked_timeout,
            held,
            shared,
            queue,
            again: VecDeque::new(),
            sent: VecDeque::new(),
            watches: ClientWatches::default(),
            last_zxid: 0,
            xid: 0,
            rng,
            awake: Awake::new(mono),
            last_answer: mono,
            last_heard: mono,
            last_ping: mono,
            env,
        }
    }

    fn mono(&self) -> Duration {
        self.env.clock().mono()
    }

    fn timeout(&self) -> Duration {
        match self.shared.facts().timeout {
            Duration::ZERO => self.asked_timeout,
            agreed => agreed,
        }
    }

    pub(super) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        let over = loop {
            let mono = self.mono();
            let silent = self.awake.wake(mono).saturating_sub(self.last_answer);
            let mut left = self.timeout().saturating_sub(silent);
            if left.is_zero() {
                if !self.is_held() {
                    break State::Expired;
                }
                left = self.timeout();
            }
            let heard_before = self.last_heard;
            match self.connection(left).await {
                Ended::Over(state) => break state,
                Ended::Broken(why) => {
                    tracing::info!(%why, "no connection to a coordination server");
                    // Requests wait while suspended; whoever holds a lease looks at `last_contact`.
                    self.shared.state.send_if_modified(|state| {
                        std::mem::replace(state, State::Suspended) != State::Suspended
                    });
                    self.break_off();
                }
            }
            if self.last_heard > heard_before {
                pause = PAUSE_MIN;
            }
            if self.queue.is_closed() && self.queue.is_empty() {
                break State::Closed;
            }
            self.wait(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        };
        tracing::info!(state = ?over, session = format_args!("{:#x}", self.shared.facts().id), "session over");
        // The state first: whoever sees its call or watch end finds out why.
        self.shared.state.send_replace(over);
        // What waits is answered by its channels' end.
    }

    /// Whether a server may still be waited for beyond the timeout: the session was made, and somebody has it.
    fn is_held(&self) -> bool {
        self.held && self.shared.facts().id != 0 && !self.queue.is_closed()
    }

    /// A pause, drawn so that many clients do not come back together.
    async fn wait(&mut self, pause: Duration) {
        let pause = self.rng.random_range(pause / 2..=pause);
        self.awake.plan(self.mono() + pause);
        self.env.clock().sleep(pause).await;
    }

    /// One connection from its beginning to its end.
    async fn connection(&mut self, left: Duration) -> Ended {
        match self.connected(left).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    async fn connected(&mut self, left: Duration) -> Result<std::convert::Infallible, Ended> {
        let mut connection = self.greet(left).await?;
        for watches in self.watches.set_again(self.last_zxid) {
            let request = Request::SetWatches(watches);
            connection.queue(XID_SET_WATCHES, &request);
            self.sent.push_back(Sent {
                xid: XID_SET_WATCHES,
                at: self.mono(),
                call: None,
            });
        }
        self.ping(&mut connection);
        loop {
            self.refill(&mut connection);
            self.flush(&mut connection).await?;
            let wait = self.wait_left()?;
            self.awake.plan(self.mono() + wait);
            let clock = self.env.clock().clone();
            let may_send = self.sent.len() < IN_FLIGHT_MAX;
            tokio::select! {
                biased;
                frame = connection.next() => {
                    let frame = frame?;
                    self.awake_now();
                    self.frame(frame)?;
                }
                call = self.queue.recv(), if may_send => match call {
                    Some(call) => self.send(&mut connection, call),
                    None => return Err(Ended::Over(State::Closed)),
                },
                () = clock.sleep(wait) => {}
            }
            self.awake_now();
            if self.mono() >= self.last_ping + self.timeout() / 3 {
                self.ping(&mut connection);
            }
        }
    }

    fn awake_now(&mut self) -> Duration {
        let mono = self.mono();
        let awake = self.awake.wake(mono);
        // Nobody could be heard while we did not run.
        self.awake.plan(mono + WAIT_MAX);
        awake
    }

    /// Time until the next ping; an error once the server has been silent for too long.
    fn wait_left(&self) -> Result<Duration, Ended> {
        let mono = self.mono();
        let silence_max = self.timeout() * 2 / 3;
        let silent = mono.saturating_sub(self.last_heard);
        // After a suspend the last frame is long ago; it is silence only if a ping sent since then finds no answer.
        let waiting = self.sent.front().map(|sent| mono.saturating_sub(sent.at));
        if silent >= silence_max && waiting.is_some_and(|waiting| waiting >= silence_max / 2) {
            return Err(Ended::Broken("the server is silent".into()));
        }
        let ping = (self.last_ping + self.timeout() / 3).saturating_sub(mono);
        Ok(ping.clamp(Duration::from_millis(1), WAIT_MAX))
    }

    async fn greet(&mut self, left: Duration) -> Result<Connection<E>, Ended> {
        let server = self.servers[self.next_server % self.servers.len()].clone();
        self.next_server = self.next_server.wrapping_add(1);
        let facts = self.shared.facts();
        let at = self.mono();
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout_ms: i32::try_from(self.asked_timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: facts.id,
            password: self.shared.password(),
            read_only: Some(false),
        };
        let env = self.env.clone();
        let exchange = async {
            let mut connection = Connection::open(&env, &server).await?;
            let response = connection.greet(&request).await?;
            io::Result::Ok((connection, response))
        };
        // A silent server must not use up the time that another could answer in.
        let limit = (self.timeout() / 3).min(left).max(PAUSE_MIN);
        self.awake.plan(at + limit);
        let (connection, response) = match self.env.clock().timeout(limit, exchange).await {
            Ok(answered) => answered?,
            Err(Elapsed) => {
                let why = format!("{server} does not answer");
                return Err(Ended::Broken(why));
            }
        };
        let Ok(timeout_ms @ 1..) = u64::try_from(response.timeout_ms) else {
            return Err(Ended::Over(State::Expired));
        };
        if response.session_id == 0 {
            return Err(Ended::Over(State::Expired));
        }
        self.shared.set_password(response.password);
        self.last_answer = self.awake_now();
        self.last_heard = self.mono();
        self.shared.with_facts(|facts| {
            facts.id = response.session_id;
            facts.timeout = Duration::from_millis(timeout_ms);
            facts.last_contact = facts.last_contact.max(at);
        });
        tracing::debug!(%server, session = format_args!("{:#x}", response.session_id), "connected");
        self.shared.state.send_replace(State::Connected);
        Ok(connection)
    }

    async fn flush(&mut self, connection: &mut Connection<E>) -> Result<(), Ended> {
        let limit = self.timeout() * 2 / 3;
        self.awake.plan(self.mono() + limit);
        match self.env.clock().timeout(limit, connection.flush()).await {
            Ok(flushed) => Ok(flushed?),
            Err(Elapsed) => Err(Ended::Broken("the server takes nothing".into())),
        }
    }

    fn ping(&mut self, connection: &mut Connection<E>) {
        let at = self.mono();
        self.last_ping = at;
        connection.queue(XID_PING, &Request::Ping);
        self.sent.push_back(Sent {
            xid: XID_PING,
            at,
            call: None,
        });
    }

    /// Sends again what was in flight on the last connection, and whatever else waits.
    fn refill(&mut self, connection: &mut Connection<E>) {
        while self.sent.len() < IN_FLIGHT_MAX {
            let call = match self.again.pop_front() {
                Some(call) => call,
                None => match self.queue.try_recv() {
                    Ok(call) => call,
                    Err(_) => return,
                },
            };
            self.send(connection, call);
        }
    }

    fn send(&mut self, connection: &mut Connection<E>, call: Call) {
        // Nobody waits for the answer any more; but a session that is to be closed is closed.
        if call.answer.is_closed() && call.request != Request::CloseSession {
            return;
        }
        // Xids of requests are positive; those below 0 mean something.
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        connection.queue(self.xid, &call.request);
        self.sent.push_back(Sent {
            xid: self.xid,
            at: self.mono(),
            call: Some(call),
        });
    }

    fn frame(&mut self, frame: Bytes) -> Result<(), Ended> {
        let malformed = |error: crate::jute::Malformed| Ended::Broken(error.to_string());
        self.last_heard = self.mono();
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::decode(&mut reader).map_err(malformed)?;
        if header.xid == XID_EVENT {
            if let Some(event) = WatcherEvent::decode(&mut reader).map_err(malformed)? {
                self.watches.fire(&event);
            }
            return Ok(());
        }
        // Answers come in the order of the requests.
        let Some(sent) = self.sent.pop_front().filter(|sent| sent.xid == header.xid) else {
            return Err(Ended::Broken(format!("xid {} out of order", header.xid)));
        };
        self.last_zxid = self.last_zxid.max(header.zxid);
        self.last_answer = self.awake_now();
        self.shared
            .with_facts(|facts| facts.last_contact = facts.last_contact.max(sent.at));
        let code = match header.err {
            0 => None,
            err if err == ErrorCode::SessionExpired.code() => {
                return Err(Ended::Over(State::Expired));
            }
            err => Some(ErrorCode::from_code(err).ok_or(err)),
        };
        let Some(call) = sent.call else {
            return Ok(());
        };
        let closing = call.request == Request::CloseSession;
        let answer = match code {
            None => Ok(Ok(
                Response::decode(call.request.opcode(), &mut reader).map_err(malformed)?
            )),
            Some(Ok(code)) => Ok(Err(code)),
            Some(Err(err)) => Err(Error::new(
                Code::Remote,
                format!("the coordination server answers with error {err}"),
            )),
        };
        self.answer(call, answer);
        match closing {
            true => Err(Ended::Over(State::Closed)),
            false => Ok(()),
        }
    }

    fn answer(&mut self, call: Call, answer: Result<Result<Response, ErrorCode>>) {
        if let (Some(tell), Ok(answer)) = (call.watch, &answer) {
            match (&call.request, answer) {
                (Request::Exists { path, .. }, Err(ErrorCode::NoNode)) => {
                    self.watches.add(Kind::Exist, path, tell);
                }
                (Request::Exists { path, .. } | Request::GetData { path, .. }, Ok(_)) => {
                    self.watches.add(Kind::Data, path, tell);
                }
                (Request::GetChildren { path, .. }, Ok(_)) => {
                    self.watches.add(Kind::Child, path, tell);
                }
                // Refused: there is no watch.
                _ => {}
            }
        }
        // Whoever asked may have gone.
        let _ = call.answer.send(answer);
    }

    /// The connection is gone: reads are kept to be sent again, of writes nobody knows whether they were done.
    fn break_off(&mut self) {
        let mut again = VecDeque::new();
        for sent in std::mem::take(&mut self.sent) {
            let Some(call) = sent.call else { continue };
            let read = matches!(
                call.request,
                Request::GetData { .. } | Request::Exists { .. } | Request::GetChildren { .. }
            );
            if read {
                again.push_back(call);
                continue;
            }
            let error = Error::new(
                Code::OutcomeUnknown,
                "the connection to the coordination server broke: the write may have been done",
            );
            // Whoever asked may have gone.
            let _ = call.answer.send(Err(error));
        }
        again.append(&mut self.again);
        self.again = again;
    }
}
