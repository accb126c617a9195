//! [`Session`]: a small client of ZooKeeper's protocol, for the server roles and tools.
//!
//! One task per session holds the connection: it sends requests in order, pings, reconnects with the same session and sets
//! the watches again. While suspended, requests wait; reads that were in flight are sent again, writes that were in flight
//! end in `OutcomeUnknown`, because nobody can know. The session ends when the server says so; one made by [`Session::connect`]
//! also by itself when the timeout has passed without any server, counted only while this process ran (see `awake`). A lease
//! (C22) is another thing: whoever serves under the session compares [`Session::lease_until`] with the plain monotone clock.
//!
//! It must not know what the znodes mean.

mod connection;
mod driver;
mod watches;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Env, HostPort};
use cadastre_types::{Code, Detail, Error, Result};
use tokio::sync::{mpsc, oneshot, watch};

use crate::jute::{
    Acl, Create, CreateForm, ErrorCode, EventType, FRAME_MAX, Request, Response, Stat,
};
use driver::{Call, Driver};

/// Calls waiting to be sent; more wait in their callers.
const CALLS_MAX: usize = 256;

/// Room in a frame for everything but path and data, bytes.
const FRAME_ROOM: usize = 1_024;

/// Tries to catch a znode between two changes before [`Session::watch_data`] gives up.
const WATCH_TRIES: usize = 32;

/// Where the session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Connected.
    Connected,
    /// No connection; the session may still live.
    Suspended,
    /// The session is over: its ephemerals are gone or will be. Make a new one.
    Expired,
    /// Closed by [`Session::close`], or the last handle is gone.
    Closed,
}

/// Kinds of znodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Stays.
    Persistent,
    /// Goes with the session.
    Ephemeral,
    /// Stays; a number is appended to its name.
    PersistentSequential,
    /// Goes with the session; a number is appended to its name.
    EphemeralSequential,
}

impl Mode {
    fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
        }
    }
}

/// What a watch tells, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// The znode, or its children, changed: read again.
    Event(EventType),
    /// The session ended: nothing will be told any more.
    Lost,
}

/// A one-shot watch. It lives through reconnects.
#[derive(Debug)]
pub struct Watch(oneshot::Receiver<EventType>);

impl Watch {
    /// Waits for the event.
    pub async fn changed(self) -> Watched {
        self.0.await.map_or(Watched::Lost, Watched::Event)
    }
}

/// The part of the session that its handles and its task share.
#[derive(Debug)]
struct Shared {
    state: watch::Sender<State>,
    facts: Mutex<Facts>,
    /// Last contact plus timeout, in ns: read with every call that is served.
    lease_until_ns: AtomicU64,
    password: Mutex<Bytes>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Facts {
    id: i64,
    timeout: Duration,
    last_contact: Duration,
}

impl Shared {
    fn facts(&self) -> Facts {
        *self.facts.lock().expect("nothing panics under this lock")
    }

    fn password(&self) -> Bytes {
        let password = self.password.lock();
        password.expect("nothing panics under this lock").clone()
    }

    fn set_password(&self, password: Bytes) {
        *self
            .password
            .lock()
            .expect("nothing panics under this lock") = password;
    }

    fn with_facts(&self, change: impl FnOnce(&mut Facts)) {
        let mut facts = self.facts.lock().expect("nothing panics under this lock");
        change(&mut facts);
        let lease_until = (facts.last_contact + facts.timeout).as_nanos();
        let lease_until = u64::try_from(lease_until).unwrap_or(u64::MAX);
        self.lease_until_ns.store(lease_until, Ordering::Release);
    }
}

/// A session. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Session {
    shared: Arc<Shared>,
    calls: mpsc::Sender<Call>,
}

/// ZooKeeper's error code in an error that a [`Session`] gave, if it is one.
pub fn error_code(error: &Error) -> Option<ErrorCode> {
    match error.detail() {
        Some(Detail::Remote { class, .. }) => ErrorCode::from_class(class),
        _ => None,
    }
}

fn remote(code: ErrorCode, path: &str) -> Error {
    Error::new(Code::Remote, format!("{path}: {code:?}")).with_detail(Detail::Remote {
        class: code.class().into(),
        do_not_retry: true,
    })
}

fn session_ended(state: State) -> Error {
    Error::new(
        Code::Fenced,
        format!("the coordination session is {state:?}: it has to be made anew"),
    )
}

impl Session {
    /// Makes a session with one of these servers; asks for this timeout, and waits as long for a server to answer. It gives up
    /// when no server has answered for that long: for those who can make another one.
    ///
    /// # Errors
    /// `NotSent` if no server answered.
    pub async fn connect<E: Env>(
        env: E,
        servers: Vec<HostPort>,
        timeout: Duration,
    ) -> Result<Self> {
        Self::begin(env, servers, timeout, false).await
    }

    /// The same, but once made it is held on to until a server says that it is over, however long none answers: for the roles of
    /// a cluster, which stop answering then but do not end (C22).
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn hold<E: Env>(env: E, servers: Vec<HostPort>, timeout: Duration) -> Result<Self> {
        Self::begin(env, servers, timeout, true).await
    }

    async fn begin<E: Env>(
        env: E,
        servers: Vec<HostPort>,
        timeout: Duration,
        held: bool,
    ) -> Result<Self> {
        if servers.is_empty() {
            return Err(Error::invalid("no coordination server is named"));
        }
        let shared = Arc::new(Shared {
            state: watch::Sender::new(State::Suspended),
            facts: Mutex::new(Facts::default()),
            lease_until_ns: AtomicU64::new(0),
            password: Mutex::new(Bytes::from_static(&[0; 16])),
        });
        let (calls, queue) = mpsc::channel(CALLS_MAX);
        let mut states = shared.state.subscribe();
        let names = servers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let shared_too = Arc::clone(&shared);
        let driver = Driver::new(env.clone(), servers, timeout, held, shared_too, queue);
        env.spawn("coordination-session", driver.run());
        // The task gives up by itself after the timeout, or dies with its node.
        match states.wait_for(|state| *state != State::Suspended).await {
            Ok(state) if *state == State::Connected => {}
            _ => {
                return Err(Error::new(
                    Code::NotSent,
                    format!("no coordination server answers at {}", names.join(", ")),
                ));
            }
        }
        Ok(Self { shared, calls })
    }

    /// Where the session stands.
    pub fn state(&self) -> State {
        *self.shared.state.borrow()
    }

    /// To wait for changes of the state.
    pub fn states(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }

    /// The session's id, as in [`Stat::ephemeral_owner`].
    pub fn id(&self) -> i64 {
        self.shared.facts().id
    }

    /// The timeout the server agreed to.
    pub fn timeout(&self) -> Duration {
        self.shared.facts().timeout
    }

    /// When the last answered ping (or other request: each renews the session) was **sent**, on `env`'s monotone clock. The
    /// session is certainly alive until this plus [`Session::timeout`] (C22).
    pub fn last_contact(&self) -> Duration {
        self.shared.facts().last_contact
    }

    /// Until when the session is certainly alive, on `env`'s monotone clock, which runs while the machine is suspended: whoever
    /// serves under the session answers only before (C22). One atomic read.
    pub fn lease_until(&self) -> Duration {
        Duration::from_nanos(self.shared.lease_until_ns.load(Ordering::Acquire))
    }

    async fn call(&self, request: Request) -> Result<Result<Response, ErrorCode>> {
        self.call_watching(request, None).await
    }

    async fn call_watching(
        &self,
        request: Request,
        watch: Option<oneshot::Sender<EventType>>,
    ) -> Result<Result<Response, ErrorCode>> {
        let (answer, answered) = oneshot::channel();
        let call = Call {
            request,
            watch,
            answer,
        };
        if self.calls.send(call).await.is_err() {
            return Err(session_ended(self.state()));
        }
        match answered.await {
            Ok(answer) => answer,
            Err(_) => Err(session_ended(self.state())),
        }
    }

    /// Makes a znode; gives its path, with the number if sequential. `error_code`: `NodeExists`, `NoNode` (no parent).
    pub async fn create(&self, path: &str, data: impl Into<Bytes>, mode: Mode) -> Result<String> {
        let data = data.into();
        check_size(path, data.len())?;
        let create = Create {
            form: CreateForm::Plain,
            path: path.into(),
            data: Some(data),
            acl: Acl::open(),
            flags: mode.flags(),
        };
        match self.call(Request::Create(create)).await? {
            Ok(Response::Path(path)) => Ok(path),
            other => Err(unexpected(path, other)),
        }
    }

    /// Sets the data if the version is this one (`None`: any). `error_code`: `NoNode`, `BadVersion`.
    pub async fn set(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        version: Option<i32>,
    ) -> Result<Stat> {
        let data = data.into();
        check_size(path, data.len())?;
        let request = Request::SetData {
            path: path.into(),
            data: Some(data),
            version: version.unwrap_or(-1),
        };
        match self.call(request).await? {
            Ok(Response::Stat(stat)) => Ok(stat),
            other => Err(unexpected(path, other)),
        }
    }

    /// Deletes if the version is this one (`None`: any). `error_code`: `NoNode`, `BadVersion`, `NotEmpty`.
    pub async fn delete(&self, path: &str, version: Option<i32>) -> Result<()> {
        let request = Request::Delete {
            path: path.into(),
            version: version.unwrap_or(-1),
        };
        match self.call(request).await? {
            Ok(_) => Ok(()),
            other => Err(unexpected(path, other)),
        }
    }

    /// Data (null reads as empty) and Stat; `None` if there is no such znode.
    pub async fn get(&self, path: &str) -> Result<Option<(Bytes, Stat)>> {
        self.get_watching(path, None).await
    }

    async fn get_watching(
        &self,
        path: &str,
        watch: Option<oneshot::Sender<EventType>>,
    ) -> Result<Option<(Bytes, Stat)>> {
        let request = Request::GetData {
            path: path.into(),
            watch: watch.is_some(),
        };
        match self.call_watching(request, watch).await? {
            Ok(Response::Data(data, stat)) => Ok(Some((data.unwrap_or_default(), stat))),
            Err(ErrorCode::NoNode) => Ok(None),
            other => Err(unexpected(path, other)),
        }
    }

    /// Stat; `None` if there is no such znode.
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>> {
        self.exists_watching(path, None).await
    }

    async fn exists_watching(
        &self,
        path: &str,
        watch: Option<oneshot::Sender<EventType>>,
    ) -> Result<Option<Stat>> {
        let request = Request::Exists {
            path: path.into(),
            watch: watch.is_some(),
        };
        match self.call_watching(request, watch).await? {
            Ok(Response::Stat(stat)) => Ok(Some(stat)),
            Err(ErrorCode::NoNode) => Ok(None),
            other => Err(unexpected(path, other)),
        }
    }

    /// Names of the children, sorted; `None` if there is no such znode.
    pub async fn children(&self, path: &str) -> Result<Option<Vec<String>>> {
        self.children_watching(path, None).await
    }

    async fn children_watching(
        &self,
        path: &str,
        watch: Option<oneshot::Sender<EventType>>,
    ) -> Result<Option<Vec<String>>> {
        let request = Request::GetChildren {
            path: path.into(),
            watch: watch.is_some(),
        };
        match self.call_watching(request, watch).await? {
            Ok(Response::Names(mut names)) => {
                names.sort_unstable();
                Ok(Some(names))
            }
            Err(ErrorCode::NoNode) => Ok(None),
            other => Err(unexpected(path, other)),
        }
    }

    /// [`Session::get`], and a watch for the next change of the data, for the deletion, or for the creation if there is none.
    pub async fn watch_data(&self, path: &str) -> Result<(Option<(Bytes, Stat)>, Watch)> {
        for _ in 0..WATCH_TRIES {
            let (tell, told) = oneshot::channel();
            let found = self.get_watching(path, Some(tell)).await?;
            if found.is_some() {
                return Ok((found, Watch(told)));
            }
            // A getData that finds nothing leaves no watch; exists does.
            let (none, watch) = self.watch_exists(path).await?;
            if none.is_none() {
                return Ok((None, watch));
            }
        }
        Err(Error::new(Code::Io, format!("{path} comes and goes")))
    }

    /// [`Session::exists`], and a watch for the creation, or for the next change of the data or the deletion.
    pub async fn watch_exists(&self, path: &str) -> Result<(Option<Stat>, Watch)> {
        let (tell, told) = oneshot::channel();
        let found = self.exists_watching(path, Some(tell)).await?;
        Ok((found, Watch(told)))
    }

    /// [`Session::children`], and a watch for the next creation or deletion of a child, for the deletion of the znode, or for
    /// its creation if there is none.
    pub async fn watch_children(&self, path: &str) -> Result<(Option<Vec<String>>, Watch)> {
        for _ in 0..WATCH_TRIES {
            let (tell, told) = oneshot::channel();
            let found = self.children_watching(path, Some(tell)).await?;
            if found.is_some() {
                return Ok((found, Watch(told)));
            }
            let (none, watch) = self.watch_exists(path).await?;
            if none.is_none() {
                return Ok((None, watch));
            }
        }
        Err(Error::new(Code::Io, format!("{path} comes and goes")))
    }

    /// Ends the session on the server: its ephemerals go at once. Waits for the server's answer only while connected; else the
    /// session is closed when a server can be reached, or expires.
    pub async fn close(self) {
        if self.state() == State::Connected {
            match self.call(Request::CloseSession).await {
                Ok(Ok(_)) => {}
                Ok(Err(code)) => tracing::warn!(?code, "closing the session is refused"),
                Err(error) => tracing::info!(%error, "closing the session"),
            }
            return;
        }
        let (answer, _) = oneshot::channel();
        let call = Call {
            request: Request::CloseSession,
            watch: None,
            answer,
        };
        // A full queue, or a task that has ended: the session expires by itself.
        let _ = self.calls.try_send(call);
    }
}

fn check_size(path: &str, data: usize) -> Result<()> {
    if path.len() + data + FRAME_ROOM > FRAME_MAX {
        return Err(Error::new(
            Code::RequestTooBig,
            format!("{path}: {data} bytes are too many for a znode"),
        ));
    }
    Ok(())
}

fn unexpected(path: &str, answer: Result<Response, ErrorCode>) -> Error {
    match answer {
        Err(code) => remote(code, path),
        Ok(_) => Error::corrupt(format!(
            "{path}: the coordination server answers another request than was asked"
        )),
    }
}
