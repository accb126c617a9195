//! Sessions: ids, passwords, timeouts, and which connection each is on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Millis;

use super::ConnectionId;
use crate::jute::ConnectRequest;

/// Length of a password.
pub(crate) const PASSWORD_BYTES: usize = 16;

/// Server number in the top byte of session ids, as a standalone ZooKeeper's.
const SERVER_ID: i64 = 1 << 56;

/// Adopted sessions whose end is remembered; when full no more are adopted, so that none comes to life again.
const ENDED_MAX: usize = 100_000;

#[derive(Debug)]
struct Session {
    password: Bytes,
    timeout_ms: u32,
    expires: Duration,
    connection: Option<ConnectionId>,
    adopted: bool,
    from_elsewhere: bool,
}

/// What a connect request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    New,
    Known(i64),
    Adoptable,
    Refused,
}

#[derive(Debug)]
pub(super) struct Sessions {
    map: BTreeMap<i64, Session>,
    connections: BTreeMap<ConnectionId, i64>,
    expiry: BTreeSet<(Duration, i64)>,
    first_id: i64,
    next_id: i64,
    ended_adopted: BTreeSet<i64>,
}

impl Sessions {
    /// Ids begin with 40 bits of the wall clock's ms, so that they differ from those of earlier runs.
    pub(super) fn new(wall: Millis) -> Self {
        let millis = i64::try_from(wall & 0xff_ffff_ffff).expect("40 bits fit");
        let first_id = SERVER_ID | (millis << 16);
        Self {
            map: BTreeMap::new(),
            connections: BTreeMap::new(),
            expiry: BTreeSet::new(),
            first_id,
            next_id: first_id,
            ended_adopted: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn lookup(&self, request: &ConnectRequest, adopt: bool) -> Lookup {
        if request.session_id == 0 {
            return Lookup::New;
        }
        if let Some(session) = self.map.get(&request.session_id) {
            // The password first: real servers kick the owner off even for a wrong one.
            if session.password == request.password {
                return Lookup::Known(request.session_id);
            }
            return Lookup::Refused;
        }
        let adoptable = adopt
            && request.read_only.is_none()
            && request.password.len() == PASSWORD_BYTES
            && (1..self.first_id).contains(&request.session_id)
            && self.ended_adopted.len() < ENDED_MAX
            && !self.ended_adopted.contains(&request.session_id);
        if adoptable {
            Lookup::Adoptable
        } else {
            Lookup::Refused
        }
    }

    pub(super) fn make(
        &mut self,
        connection: ConnectionId,
        password: [u8; PASSWORD_BYTES],
        timeout_ms: u32,
        now: Duration,
    ) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        let password = Bytes::copy_from_slice(&password);
        self.insert(id, connection, password, timeout_ms, now, false);
        id
    }

    pub(super) fn adopt(
        &mut self,
        request: &ConnectRequest,
        connection: ConnectionId,
        timeout_ms: u32,
        now: Duration,
    ) -> i64 {
        let password = Bytes::copy_from_slice(&request.password);
        let id = request.session_id;
        self.insert(id, connection, password, timeout_ms, now, true);
        id
    }

    fn insert(
        &mut self,
        id: i64,
        connection: ConnectionId,
        password: Bytes,
        timeout_ms: u32,
        now: Duration,
        adopted: bool,
    ) {
        let expires = now + Duration::from_millis(timeout_ms.into());
        let session = Session {
            password,
            timeout_ms,
            expires,
            connection: Some(connection),
            adopted,
            from_elsewhere: false,
        };
        let before = self.map.insert(id, session);
        assert!(before.is_none(), "a session id is given once");
        self.expiry.insert((expires, id));
        self.connections.insert(connection, id);
    }

    /// Moves a session to a connection; gives the one it was on.
    pub(super) fn attach(
        &mut self,
        id: i64,
        connection: ConnectionId,
        now: Duration,
    ) -> Option<ConnectionId> {
        let session = self.map.get_mut(&id)?;
        let displaced = session.connection.replace(connection);
        if let Some(displaced) = displaced {
            self.connections.remove(&displaced);
        }
        self.connections.insert(connection, id);
        self.touch(connection, now);
        displaced
    }

    pub(super) fn detach(&mut self, connection: ConnectionId) -> Option<i64> {
        let id = self.connections.remove(&connection)?;
        let session = self.map.get_mut(&id)?;
        session.connection = None;
        Some(id)
    }

    pub(super) fn of(&self, connection: ConnectionId) -> Option<i64> {
        self.connections.get(&connection).copied()
    }

    pub(super) fn connection_of(&self, id: i64) -> Option<ConnectionId> {
        self.map.get(&id)?.connection
    }

    /// A sign of life: the timeout counts from now.
    pub(super) fn touch(&mut self, connection: ConnectionId, now: Duration) -> Option<i64> {
        let id = self.of(connection)?;
        let session = self.map.get_mut(&id)?;
        let expires = now + Duration::from_millis(session.timeout_ms.into());
        if expires > session.expires {
            self.expiry.remove(&(session.expires, id));
            self.expiry.insert((expires, id));
            session.expires = expires;
        }
        Some(id)
    }

    pub(super) fn credentials(&self, id: i64) -> (Bytes, i32) {
        let session = &self.map[&id];
        let timeout_ms = i32::try_from(session.timeout_ms).unwrap_or(i32::MAX);
        (session.password.clone(), timeout_ms)
    }

    /// Whether the connection's client had seen higher zxids than ours: then its zxids say nothing about our znodes.
    pub(super) fn is_from_elsewhere(&self, id: i64) -> bool {
        self.map.get(&id).is_some_and(|s| s.from_elsewhere)
    }

    pub(super) fn set_from_elsewhere(&mut self, id: i64, value: bool) {
        if let Some(session) = self.map.get_mut(&id) {
            session.from_elsewhere = value;
        }
    }

    pub(super) fn due(&self, now: Duration) -> Option<i64> {
        let &(expires, id) = self.expiry.first()?;
        (expires <= now).then_some(id)
    }

    pub(super) fn next_expiry(&self) -> Option<Duration> {
        self.expiry.first().map(|&(expires, _)| expires)
    }

    /// Takes a session away; gives the connection it was on.
    pub(super) fn end(&mut self, id: i64) -> Option<ConnectionId> {
        let session = self.map.remove(&id)?;
        self.expiry.remove(&(session.expires, id));
        if session.adopted {
            self.ended_adopted.insert(id);
        }
        if let Some(connection) = session.connection {
            self.connections.remove(&connection);
        }
        session.connection
    }
}
