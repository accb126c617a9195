//! Reads, and the requests that set and remove watches.

use super::nodes::Node;
use super::watches::Kind;
use super::write::{PERM_ADMIN, PERM_READ, allowed};
use super::{ConnectionId, Output, Tree, path};
use crate::jute::{ErrorCode, EventType, Item, Request, Response, SetWatches, WatcherEvent};

impl Tree {
    pub(super) fn read(&mut self, session: i64, request: &Request) -> Result<Response, ErrorCode> {
        match request {
            Request::Exists { path, watch } => {
                // Left on a missing znode too, but not on what can never be one.
                self.watch(session, Kind::Data, path, *watch && path::valid(path))?;
                let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
                Ok(Response::Stat(self.nodes.stat(path, node)))
            }
            Request::GetData { path, watch } => {
                let node = self.readable(path)?;
                let response = Response::Data(node.data.clone(), self.nodes.stat(path, node));
                self.watch(session, Kind::Data, path, *watch)?;
                Ok(response)
            }
            Request::GetChildren { path, watch } => {
                self.readable(path)?;
                self.watch(session, Kind::Child, path, *watch)?;
                Ok(Response::Names(self.nodes.names(path)))
            }
            Request::GetChildren2 { path, watch } => {
                let stat = self.nodes.stat(path, self.readable(path)?);
                self.watch(session, Kind::Child, path, *watch)?;
                Ok(Response::NamesStat(self.nodes.names(path), stat))
            }
            Request::GetAcl { path } => {
                let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
                if !allowed(&node.acl, PERM_READ | PERM_ADMIN) {
                    return Err(ErrorCode::NoAuth);
                }
                let stat = self.nodes.stat(path, node);
                Ok(Response::Acl(node.acl.to_vec(), stat))
            }
            Request::Sync { path } => Ok(Response::Path(path.clone())),
            Request::Ping => Ok(Response::Empty),
            Request::MultiRead(items) => {
                let read = |item: &Request| match self.read(session, &without_watch(item)) {
                    Ok(response) => Item::Done(item.opcode(), response),
                    Err(code) => Item::Failed(code.code()),
                };
                Ok(Response::Multi(items.iter().map(read).collect()))
            }
            Request::GetEphemerals { path } => {
                let own = self.nodes.ephemerals(session);
                let below = own.filter(|ephemeral| ephemeral.starts_with(path.as_str()));
                Ok(Response::Names(below.cloned().collect()))
            }
            Request::GetAllChildrenNumber { path } => {
                self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
                let count = self.nodes.descendants(path);
                Ok(Response::Number(i32::try_from(count).unwrap_or(i32::MAX)))
            }
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn readable(&self, path: &str) -> Result<&Node, ErrorCode> {
        let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        if !allowed(&node.acl, PERM_READ) {
            return Err(ErrorCode::NoAuth);
        }
        Ok(node)
    }

    fn watch(
        &mut self,
        session: i64,
        kind: Kind,
        path: &str,
        wanted: bool,
    ) -> Result<(), ErrorCode> {
        if !wanted {
            return Ok(());
        }
        let over = self.watches.len() >= self.config.watches_max
            || self.watches.count_of(session) >= self.config.watches_per_session_max;
        if over {
            return Err(ErrorCode::QuotaExceeded);
        }
        self.watches.add(session, kind, path);
        Ok(())
    }

    /// Compares each path with what the client saw last: what it missed comes at once, the rest is watched again.
    pub(super) fn set_watches(
        &mut self,
        session: i64,
        connection: ConnectionId,
        watches: &SetWatches,
        outputs: &mut Vec<Output>,
    ) -> Result<Response, ErrorCode> {
        // Zxids of another run that are above ours say nothing about our znodes: all of them are taken as changed.
        let relative = match self.sessions.is_from_elsewhere(session) {
            true => i64::MIN,
            false => watches.relative_zxid,
        };
        let mut tell = |kind, path: &str| {
            let path = path.to_owned();
            let event = WatcherEvent { kind, path };
            outputs.push(Output::Event { connection, event });
        };
        for path in &watches.data {
            match self.nodes.get(path) {
                None => tell(EventType::Deleted, path),
                Some(node) if node.mzxid > relative => tell(EventType::DataChanged, path),
                Some(_) => self.watch(session, Kind::Data, path, true)?,
            }
        }
        for path in &watches.exist {
            match self.nodes.get(path) {
                Some(_) => tell(EventType::Created, path),
                None => self.watch(session, Kind::Data, path, true)?,
            }
        }
        for path in &watches.child {
            match self.nodes.get(path) {
                None => tell(EventType::Deleted, path),
                Some(node) if node.pzxid > relative => tell(EventType::ChildrenChanged, path),
                Some(_) => self.watch(session, Kind::Child, path, true)?,
            }
        }
        let (persistent, recursive) = match &watches.persistent {
            Some((persistent, recursive)) => (persistent.as_slice(), recursive.as_slice()),
            None => (&[][..], &[][..]),
        };
        for path in persistent {
            self.watch(session, Kind::Persistent, path, true)?;
        }
        for path in recursive {
            self.watch(session, Kind::Recursive, path, true)?;
        }
        Ok(Response::Empty)
    }

    pub(super) fn add_watch(
        &mut self,
        session: i64,
        path: &str,
        mode: i32,
    ) -> Result<Response, ErrorCode> {
        let kind = match mode {
            0 => Kind::Persistent,
            1 => Kind::Recursive,
            _ => return Err(ErrorCode::BadArguments),
        };
        if !path::valid(path) {
            return Err(ErrorCode::BadArguments);
        }
        self.watch(session, kind, path, true)?;
        Ok(Response::Number(0))
    }

    pub(super) fn remove_watches(
        &mut self,
        session: i64,
        path: &str,
        kind: i32,
    ) -> Result<Response, ErrorCode> {
        let kinds: &[Kind] = match kind {
            1 => &[Kind::Child],
            2 => &[Kind::Data],
            3 => &[Kind::Data, Kind::Child, Kind::Persistent, Kind::Recursive],
            _ => return Err(ErrorCode::BadArguments),
        };
        let mut removed = false;
        for &kind in kinds {
            removed |= self.watches.remove(session, kind, path);
        }
        match removed {
            true => Ok(Response::Empty),
            false => Err(ErrorCode::NoWatcher),
        }
    }
}

/// A multiRead leaves no watches.
fn without_watch(item: &Request) -> Request {
    match item {
        Request::GetData { path, .. } => Request::GetData {
            path: path.clone(),
            watch: false,
        },
        Request::GetChildren { path, .. } => Request::GetChildren {
            path: path.clone(),
            watch: false,
        },
        other => other.clone(),
    }
}
