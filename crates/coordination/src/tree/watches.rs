//! Watches by path and by session: one-shot data and child watches, persistent and recursive ones.

use std::collections::{BTreeMap, BTreeSet};

use super::path;
use crate::jute::EventType;

/// The tables. An exists watch is a data watch: on a missing znode it waits for its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Data,
    Child,
    Persistent,
    Recursive,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    by_path: BTreeMap<Kind, BTreeMap<String, BTreeSet<i64>>>,
    by_session: BTreeMap<i64, BTreeSet<(Kind, String)>>,
    count: usize,
}

impl Watches {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn count_of(&self, session: i64) -> usize {
        self.by_session.get(&session).map_or(0, BTreeSet::len)
    }

    pub(super) fn add(&mut self, session: i64, kind: Kind, path: &str) {
        let sessions = self.by_path.entry(kind).or_default();
        if !sessions.entry(path.to_owned()).or_default().insert(session) {
            return;
        }
        self.count += 1;
        let own = self.by_session.entry(session).or_default();
        own.insert((kind, path.to_owned()));
    }

    /// Whether there was one.
    pub(super) fn remove(&mut self, session: i64, kind: Kind, path: &str) -> bool {
        let Some(own) = self.by_session.get_mut(&session) else {
            return false;
        };
        if !own.remove(&(kind, path.to_owned())) {
            return false;
        }
        if own.is_empty() {
            self.by_session.remove(&session);
        }
        self.unlink(session, kind, path);
        true
    }

    /// Drops all watches of a session.
    pub(super) fn forget(&mut self, session: i64) {
        for (kind, path) in self.by_session.remove(&session).unwrap_or_default() {
            self.unlink(session, kind, &path);
        }
    }

    fn unlink(&mut self, session: i64, kind: Kind, path: &str) {
        self.count -= 1;
        let Some(paths) = self.by_path.get_mut(&kind) else {
            return;
        };
        if let Some(sessions) = paths.get_mut(path) {
            sessions.remove(&session);
            if sessions.is_empty() {
                paths.remove(path);
            }
        }
    }

    fn at(&self, kind: Kind, path: &str) -> BTreeSet<i64> {
        let paths = self.by_path.get(&kind);
        let sessions = paths.and_then(|paths| paths.get(path));
        sessions.cloned().unwrap_or_default()
    }

    /// Who is to be told of something, each session once; one-shot watches are used up.
    pub(super) fn trigger(&mut self, event: EventType, path: &str) -> BTreeSet<i64> {
        let mut told = self.at(Kind::Persistent, path);
        let once: &[Kind] = match event {
            EventType::Created | EventType::DataChanged => &[Kind::Data],
            EventType::Deleted => &[Kind::Data, Kind::Child],
            EventType::ChildrenChanged => &[Kind::Child],
        };
        for &kind in once {
            for session in self.at(kind, path) {
                self.remove(session, kind, path);
                told.insert(session);
            }
        }
        // Recursive watches are told of every znode below, and so not of a changed list of children.
        if event != EventType::ChildrenChanged && self.by_path.contains_key(&Kind::Recursive) {
            for above in path::with_ancestors(path) {
                told.extend(self.at(Kind::Recursive, above));
            }
        }
        told
    }
}
