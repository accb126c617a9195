//! Writes: each is one transaction with one zxid, refused ones too; a multi is all or none.

use std::sync::Arc;

use bytes::Bytes;

use super::nodes::Node;
use super::{Now, Output, Tree, path};
use crate::jute::{
    Acl, Create, CreateForm, ErrorCode, EventType, Item, Request, Response, WatcherEvent,
};

/// Permissions.
pub(super) const PERM_READ: i32 = 1;
const PERM_WRITE: i32 = 2;
const PERM_CREATE: i32 = 4;
const PERM_DELETE: i32 = 8;
pub(super) const PERM_ADMIN: i32 = 16;

/// ZooKeeper's own znodes; nobody writes them.
const RESERVED: [&str; 3] = ["/zookeeper", "/zookeeper/config", "/zookeeper/quota"];

/// What a transaction changed, in order, for the watches.
type Changes = Vec<(EventType, String)>;

/// The one transaction being made.
struct Transaction {
    session: i64,
    zxid: i64,
    wall: i64,
    changes: Changes,
}

/// What a creation makes.
struct Kind {
    ephemeral: bool,
    sequential: bool,
    container: bool,
}

impl Kind {
    /// From flags and operation, if they and the path can be.
    fn of(create: &Create) -> Result<Self, ErrorCode> {
        let (ephemeral, sequential, container) = match (create.flags, create.form) {
            // TTL znodes are off in ZooKeeper too unless `extendedTypesEnabled`, with this answer.
            (5 | 6, _) | (_, CreateForm::Ttl(_)) => return Err(ErrorCode::Unimplemented),
            (flags @ 0..=3, CreateForm::Plain | CreateForm::WithStat) => {
                (flags & 1 != 0, flags & 2 != 0, false)
            }
            (4, _) => (false, false, true),
            _ => return Err(ErrorCode::BadArguments),
        };
        // A sequential path may end in `/`: the number is then the whole name.
        let valid = match sequential {
            true => path::valid(&format!("{}1", create.path)),
            false => path::valid(&create.path),
        };
        if !valid {
            return Err(ErrorCode::BadArguments);
        }
        Ok(Self {
            ephemeral,
            sequential,
            container,
        })
    }
}

/// Whether everybody may do this. There are no other identities: lists that name some are refused.
pub(super) fn allowed(acl: &[Acl], perm: i32) -> bool {
    acl.iter().any(|acl| acl.perms & perm != 0)
}

fn check_acl(acl: &[Acl]) -> Result<(), ErrorCode> {
    let known = |acl: &Acl| acl.scheme == "world" && acl.id == "anyone";
    if acl.is_empty() || !acl.iter().all(known) {
        return Err(ErrorCode::InvalidACL);
    }
    Ok(())
}

fn check_version(expected: i32, version: i32) -> Result<(), ErrorCode> {
    if expected != -1 && expected != version {
        return Err(ErrorCode::BadVersion);
    }
    Ok(())
}

fn check_path(path: &str) -> Result<(), ErrorCode> {
    if !path::valid(path) {
        return Err(ErrorCode::BadArguments);
    }
    Ok(())
}

/// Kept data are copied, or a few bytes of a large multi would keep its whole frame in memory.
fn own(data: Option<&Bytes>) -> Option<Bytes> {
    data.map(|data| Bytes::copy_from_slice(data))
}

impl Tree {
    /// Executes a write as one transaction.
    pub(super) fn write(
        &mut self,
        session: i64,
        request: &Request,
        now: Now,
        outputs: &mut Vec<Output>,
    ) -> Result<Response, ErrorCode> {
        self.zxid += 1;
        let mut transaction = Transaction {
            session,
            zxid: self.zxid,
            wall: i64::try_from(now.wall).unwrap_or(i64::MAX),
            changes: Vec::new(),
        };
        let result = match request {
            Request::Multi(items) => self.multi(items, &mut transaction),
            single => self
                .apply(single, &mut transaction)
                .map_err(Failure::Single),
        };
        match result {
            Ok(response) => {
                self.nodes.commit();
                self.notify(&transaction.changes, outputs);
                Ok(response)
            }
            Err(failure) => {
                self.nodes.roll_back();
                match failure {
                    Failure::Single(code) => Err(code),
                    Failure::Multi(items) => Ok(Response::Multi(items)),
                }
            }
        }
    }

    fn multi(
        &mut self,
        items: &[Request],
        transaction: &mut Transaction,
    ) -> Result<Response, Failure> {
        let mut done = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match self.apply(item, transaction) {
                Ok(response) => done.push(Item::Done(item.opcode(), response)),
                Err(code) => {
                    // 0 before the culprit, its error, -2 behind it.
                    let skipped = ErrorCode::RuntimeInconsistency.code();
                    let failed = (0..items.len()).map(|at| match at.cmp(&index) {
                        std::cmp::Ordering::Less => Item::Failed(0),
                        std::cmp::Ordering::Equal => Item::Failed(code.code()),
                        std::cmp::Ordering::Greater => Item::Failed(skipped),
                    });
                    return Err(Failure::Multi(failed.collect()));
                }
            }
        }
        Ok(Response::Multi(done))
    }

    fn apply(
        &mut self,
        request: &Request,
        transaction: &mut Transaction,
    ) -> Result<Response, ErrorCode> {
        match request {
            Request::Create(create) => self.create(create, transaction),
            Request::Delete { path, version } => self.delete(path, *version, transaction),
            Request::Check { path, version } => {
                check_path(path)?;
                let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
                check_version(*version, node.version)?;
                Ok(Response::Empty)
            }
            Request::SetData {
                path,
                data,
                version,
            } => self.set_data(path, data.as_ref(), *version, transaction),
            Request::SetAcl { path, acl, version } => {
                check_path(path)?;
                check_acl(acl)?;
                let node = self.writable(path, PERM_ADMIN)?;
                check_version(*version, node.aversion)?;
                let mut node = node.clone();
                node.acl = acl.as_slice().into();
                node.aversion = node.aversion.wrapping_add(1);
                self.replace(path, node)
            }
            _ => Err(ErrorCode::BadArguments),
        }
    }

    fn writable(&self, path: &str, perm: i32) -> Result<&Node, ErrorCode> {
        let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        if RESERVED.contains(&path) || !allowed(&node.acl, perm) {
            return Err(ErrorCode::NoAuth);
        }
        Ok(node)
    }

    fn replace(&mut self, path: &str, node: Node) -> Result<Response, ErrorCode> {
        let stat = self.nodes.stat(path, &node);
        self.nodes.put(path, node);
        self.check_limits()?;
        Ok(Response::Stat(stat))
    }

    fn check_limits(&self) -> Result<(), ErrorCode> {
        let over =
            self.nodes.len() > self.config.znodes_max || self.nodes.bytes() > self.config.bytes_max;
        if over {
            return Err(ErrorCode::QuotaExceeded);
        }
        Ok(())
    }

    fn create(
        &mut self,
        create: &Create,
        transaction: &mut Transaction,
    ) -> Result<Response, ErrorCode> {
        let kind = Kind::of(create)?;
        check_acl(&create.acl)?;
        if create.path == "/" && !kind.sequential {
            return Err(ErrorCode::NodeExists);
        }
        let (parent_path, _) = create
            .path
            .rsplit_once('/')
            .expect("a valid path has a slash");
        let parent_path = if parent_path.is_empty() {
            "/"
        } else {
            parent_path
        };
        let parent = self.nodes.get(parent_path).ok_or(ErrorCode::NoNode)?;
        if !allowed(&parent.acl, PERM_CREATE) {
            return Err(ErrorCode::NoAuth);
        }
        let path = match kind.sequential {
            true => format!("{}{:010}", create.path, parent.created),
            false => create.path.clone(),
        };
        if self.nodes.get(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if parent.owner != 0 {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let mut parent = parent.clone();
        parent.created = parent.created.wrapping_add(1);
        parent.pzxid = transaction.zxid;
        self.nodes.put(parent_path, parent);
        let node = Node {
            data: own(create.data.as_ref()),
            acl: Arc::from(create.acl.as_slice()),
            czxid: transaction.zxid,
            mzxid: transaction.zxid,
            pzxid: transaction.zxid,
            ctime: transaction.wall,
            mtime: transaction.wall,
            version: 0,
            aversion: 0,
            created: 0,
            owner: if kind.ephemeral {
                transaction.session
            } else {
                0
            },
            container: kind.container,
        };
        let stat = self.nodes.stat(&path, &node);
        self.nodes.put(&path, node);
        self.check_limits()?;
        let changes = &mut transaction.changes;
        changes.push((EventType::Created, path.clone()));
        changes.push((EventType::ChildrenChanged, parent_path.to_owned()));
        Ok(match create.form {
            CreateForm::Plain => Response::Path(path),
            _ => Response::PathStat(path, stat),
        })
    }

    fn delete(
        &mut self,
        path: &str,
        version: i32,
        transaction: &mut Transaction,
    ) -> Result<Response, ErrorCode> {
        check_path(path)?;
        let (parent_path, _) = path::split(path).ok_or(ErrorCode::BadArguments)?;
        let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        let parent = self.nodes.get(parent_path).ok_or(ErrorCode::NoNode)?;
        if RESERVED.contains(&path) || !allowed(&parent.acl, PERM_DELETE) {
            return Err(ErrorCode::NoAuth);
        }
        check_version(version, node.version)?;
        if self.nodes.has_children(path) {
            return Err(ErrorCode::NotEmpty);
        }
        let parent_path = parent_path.to_owned();
        self.unlink(
            path,
            &parent_path,
            transaction.zxid,
            &mut transaction.changes,
        );
        Ok(Response::Empty)
    }

    fn unlink(&mut self, path: &str, parent_path: &str, zxid: i64, changes: &mut Changes) {
        let parent = self.nodes.get(parent_path);
        let mut parent = parent.expect("a znode has a parent").clone();
        parent.pzxid = zxid;
        self.nodes.put(parent_path, parent);
        self.nodes.remove(path);
        changes.push((EventType::Deleted, path.to_owned()));
        changes.push((EventType::ChildrenChanged, parent_path.to_owned()));
    }

    fn set_data(
        &mut self,
        path: &str,
        data: Option<&Bytes>,
        version: i32,
        transaction: &mut Transaction,
    ) -> Result<Response, ErrorCode> {
        check_path(path)?;
        let node = self.writable(path, PERM_WRITE)?;
        check_version(version, node.version)?;
        let mut node = node.clone();
        node.data = own(data);
        node.version = node.version.wrapping_add(1);
        node.mzxid = transaction.zxid;
        node.mtime = transaction.wall;
        let changed = (EventType::DataChanged, path.to_owned());
        let response = self.replace(path, node)?;
        transaction.changes.push(changed);
        Ok(response)
    }

    /// With the zxid of the session's end.
    pub(super) fn delete_ephemerals(&mut self, session: i64, outputs: &mut Vec<Output>) {
        let paths = Vec::from_iter(self.nodes.ephemerals(session).cloned());
        self.delete_all(&paths, outputs);
    }

    pub(super) fn delete_empty_containers(&mut self, outputs: &mut Vec<Output>) {
        for path in self.nodes.take_emptied_containers() {
            self.zxid += 1;
            self.delete_all(&[path], outputs);
        }
    }

    /// Deletes znodes without children on the server's own account, with the current zxid.
    fn delete_all(&mut self, paths: &[String], outputs: &mut Vec<Output>) {
        let mut changes = Changes::new();
        for path in paths {
            let (parent, _) = path::split(path).expect("the root is never ephemeral");
            let parent = parent.to_owned();
            self.unlink(path, &parent, self.zxid, &mut changes);
        }
        self.nodes.commit();
        self.notify(&changes, outputs);
    }

    fn notify(&mut self, changes: &Changes, outputs: &mut Vec<Output>) {
        for (kind, path) in changes {
            for session in self.watches.trigger(*kind, path) {
                let Some(connection) = self.sessions.connection_of(session) else {
                    continue;
                };
                let event = WatcherEvent {
                    kind: *kind,
                    path: path.clone(),
                };
                outputs.push(Output::Event { connection, event });
            }
        }
    }
}

enum Failure {
    Single(ErrorCode),
    Multi(Vec<Item>),
}
