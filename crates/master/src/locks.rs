//! Who may work on a table or a namespace: fair asynchronous locks by name, made when asked for and forgotten when free.
//!
//! An operation on a table holds the table's lock alone and its namespace's lock shared, so that the namespace stays; an
//! operation on a namespace holds that alone. The namespace comes first, always: no two can wait for each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cadastre_types::{Code, Error, Result, TableName};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::procedure::Lock;

/// Names that may be locked or waited for at once (INV-9): each costs a few hundred bytes, and names come from clients.
const NAMES_MAX: usize = 100_000;

type Named = Arc<RwLock<()>>;

/// All locks.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    by_name: Mutex<BTreeMap<(Kind, String), Named>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Namespace,
    Table,
}

/// A lock that is held until dropped.
#[derive(Debug)]
pub(crate) struct Held {
    _shared: Option<OwnedRwLockReadGuard<()>>,
    _alone: OwnedRwLockWriteGuard<()>,
}

impl Locks {
    /// Waits for a lock; callers get it in the order in which they came.
    ///
    /// # Errors
    /// [`Code::CallQueueTooBig`] if too many names are locked.
    pub(crate) async fn take(&self, lock: &Lock) -> Result<Held> {
        match lock {
            Lock::Namespace(name) => Ok(Held {
                _shared: None,
                _alone: self.named(Kind::Namespace, name)?.write_owned().await,
            }),
            Lock::Table(table) => {
                let namespace = self.named(Kind::Namespace, table.namespace())?;
                let table = self.named(Kind::Table, table.as_str())?;
                Ok(Held {
                    _shared: Some(namespace.read_owned().await),
                    _alone: table.write_owned().await,
                })
            }
        }
    }

    /// A lock, unless somebody holds it.
    pub(crate) fn try_now(&self, lock: &Lock) -> Option<Held> {
        match lock {
            Lock::Table(table) => self.try_table(table),
            Lock::Namespace(name) => Some(Held {
                _shared: None,
                _alone: self
                    .named(Kind::Namespace, name)
                    .ok()?
                    .try_write_owned()
                    .ok()?,
            }),
        }
    }

    /// The table's lock, unless somebody holds it or its namespace's.
    pub(crate) fn try_table(&self, table: &TableName) -> Option<Held> {
        let namespace = self.named(Kind::Namespace, table.namespace()).ok()?;
        let table = self.named(Kind::Table, table.as_str()).ok()?;
        Some(Held {
            _shared: Some(namespace.try_read_owned().ok()?),
            _alone: table.try_write_owned().ok()?,
        })
    }

    fn named(&self, kind: Kind, name: &str) -> Result<Named> {
        let mut by_name = self.by_name.lock().expect("no holder panics");
        let key = (kind, name.to_owned());
        if let Some(named) = by_name.get(&key) {
            return Ok(Arc::clone(named));
        }
        // A lock that only the map knows is free.
        by_name.retain(|_, named| Arc::strong_count(named) > 1);
        if by_name.len() >= NAMES_MAX {
            return Err(Error::new(
                Code::CallQueueTooBig,
                "too many operations are waiting for tables",
            ));
        }
        let named = Named::default();
        by_name.insert(key, Arc::clone(&named));
        Ok(named)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_table_is_locked_alone_and_keeps_its_namespace() {
        let locks = Locks::default();
        let table = |name: &str| Lock::Table(TableName::parse(name).unwrap());
        let take = |lock: &Lock| locks.take(lock).now_or_never().map(Result::unwrap);
        let first = take(&table("ns:a")).expect("free");
        let other = take(&table("ns:b")).expect("another table of the namespace");
        assert!(take(&table("ns:a")).is_none());
        assert!(
            locks
                .try_table(&TableName::parse("ns:a").unwrap())
                .is_none()
        );
        assert!(take(&Lock::Namespace("ns".into())).is_none());
        drop((first, other));
        let whole = take(&Lock::Namespace("ns".into())).expect("free again");
        assert!(take(&table("ns:a")).is_none());
        assert!(take(&table("a")).is_some(), "another namespace");
        drop(whole);
        assert!(
            locks
                .try_table(&TableName::parse("ns:a").unwrap())
                .is_some()
        );
        let _one = take(&table("x"));
        assert!(
            locks.by_name.lock().unwrap().len() <= 2,
            "free names are forgotten"
        );
    }
}
