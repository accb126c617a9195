//! Znodes with their indexes (children, ephemerals by session), byte count, and an undo log for one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::path;
use crate::jute::{Acl, Stat};

/// Allowance per znode for the maps' own memory, bytes: two map entries, a set entry and the counters, rounded up.
const NODE_OVERHEAD: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) data: Option<Bytes>,
    pub(super) acl: Arc<[Acl]>,
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) ctime: i64,
    pub(super) mtime: i64,
    pub(super) version: i32,
    pub(super) aversion: i32,
    /// Children ever created: the next sequence number.
    pub(super) created: i32,
    /// Session, or 0.
    pub(super) owner: i64,
    pub(super) container: bool,
}

impl Node {
    fn bytes(&self, path: &str) -> usize {
        let acl = self
            .acl
            .iter()
            .map(|acl| acl.scheme.len() + acl.id.len() + 16);
        NODE_OVERHEAD
            + 2 * path.len()
            + self.data.as_ref().map_or(0, Bytes::len)
            + acl.sum::<usize>()
    }
}

#[derive(Debug)]
pub(super) struct Nodes {
    map: BTreeMap<String, Node>,
    children: BTreeMap<String, BTreeSet<String>>,
    ephemerals: BTreeMap<i64, BTreeSet<String>>,
    ephemerals_count: usize,
    emptied_containers: BTreeSet<String>,
    bytes: usize,
    /// What each touched path held before the transaction, oldest first.
    undo: Vec<(String, Option<Node>)>,
}

impl Nodes {
    pub(super) fn new() -> Self {
        let mut nodes = Self {
            map: BTreeMap::new(),
            children: BTreeMap::new(),
            ephemerals: BTreeMap::new(),
            ephemerals_count: 0,
            emptied_containers: BTreeSet::new(),
            bytes: 0,
            undo: Vec::new(),
        };
        let acl: Arc<[Acl]> = Acl::open().into();
        let node = Node {
            data: Some(Bytes::new()),
            acl,
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime: 0,
            mtime: 0,
            version: 0,
            aversion: 0,
            created: 0,
            owner: 0,
            container: false,
        };
        // As recorded: all of it is 0, but aversion of the configuration is -1.
        let mut config = node.clone();
        config.aversion = -1;
        let mut zookeeper = node.clone();
        zookeeper.created = 1;
        nodes.put("/", node.clone());
        nodes.put("/zookeeper", zookeeper);
        nodes.put("/zookeeper/config", config);
        nodes.put("/zookeeper/quota", node);
        nodes.commit();
        nodes
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn ephemerals_count(&self) -> usize {
        self.ephemerals_count
    }

    pub(super) fn get(&self, path: &str) -> Option<&Node> {
        self.map.get(path)
    }

    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let names = self.children.get(path);
        names.map_or_else(Vec::new, |names| names.iter().cloned().collect())
    }

    pub(super) fn has_children(&self, path: &str) -> bool {
        self.children.contains_key(path)
    }

    pub(super) fn ephemerals(&self, session: i64) -> impl Iterator<Item = &String> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// Number of znodes below a path.
    pub(super) fn descendants(&self, path: &str) -> usize {
        if path == "/" {
            return self.map.len() - 1;
        }
        let prefix = format!("{path}/");
        let below = self.map.range(prefix.clone()..);
        below
            .take_while(|(path, _)| path.starts_with(&prefix))
            .count()
    }

    pub(super) fn stat(&self, path: &str, node: &Node) -> Stat {
        let children = self.children.get(path).map_or(0, BTreeSet::len);
        let num_children = i32::try_from(children).unwrap_or(i32::MAX);
        Stat {
            czxid: node.czxid,
            mzxid: node.mzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            // Creations plus deletions, where deletions = creations - children.
            cversion: node.created.wrapping_mul(2).wrapping_sub(num_children),
            aversion: node.aversion,
            ephemeral_owner: node.owner,
            data_length: node
                .data
                .as_ref()
                .map_or(0, |data| i32::try_from(data.len()).unwrap_or(i32::MAX)),
            num_children,
            pzxid: node.pzxid,
        }
    }

    /// Inserts or replaces within the transaction.
    pub(super) fn put(&mut self, path: &str, node: Node) {
        let before = self.swap(path, Some(node));
        self.undo.push((path.to_owned(), before));
    }

    /// Takes away within the transaction.
    pub(super) fn remove(&mut self, path: &str) {
        let before = self.swap(path, None);
        self.undo.push((path.to_owned(), before));
    }

    /// The transaction stands.
    pub(super) fn commit(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        for (removed, _) in undo {
            let Some((parent, _)) = path::split(&removed) else {
                continue;
            };
            if self.map.get(parent).is_some_and(|node| node.container)
                && !self.has_children(parent)
                && !self.map.contains_key(&removed)
            {
                self.emptied_containers.insert(parent.to_owned());
            }
        }
    }

    /// The transaction never was.
    pub(super) fn roll_back(&mut self) {
        while let Some((path, before)) = self.undo.pop() {
            self.swap(&path, before);
        }
    }

    /// Containers that lost their last child since the last call and are still empty.
    pub(super) fn take_emptied_containers(&mut self) -> Vec<String> {
        let mut emptied = Vec::from_iter(std::mem::take(&mut self.emptied_containers));
        emptied.retain(|path| {
            let container = self.map.get(path).is_some_and(|node| node.container);
            container && !self.has_children(path)
        });
        emptied
    }

    /// The one place that changes map, indexes and counts together.
    fn swap(&mut self, path: &str, node: Option<Node>) -> Option<Node> {
        let added = node.as_ref().map_or(0, |node| node.bytes(path));
        let owner = node.as_ref().map_or(0, |node| node.owner);
        let exists = node.is_some();
        let before = match node {
            Some(node) => self.map.insert(path.to_owned(), node),
            None => self.map.remove(path),
        };
        let removed = before.as_ref().map_or(0, |node| node.bytes(path));
        self.bytes = self.bytes + added - removed;
        let owner_before = before.as_ref().map_or(0, |node| node.owner);
        if owner != owner_before {
            self.index_ephemeral(path, owner_before, false);
            self.index_ephemeral(path, owner, true);
        }
        if let Some((parent, name)) = path::split(path) {
            if exists && before.is_none() {
                let names = self.children.entry(parent.to_owned()).or_default();
                names.insert(name.to_owned());
            } else if !exists && let Some(names) = self.children.get_mut(parent) {
                names.remove(name);
                if names.is_empty() {
                    self.children.remove(parent);
                }
            }
        }
        before
    }

    fn index_ephemeral(&mut self, path: &str, session: i64, add: bool) {
        if session == 0 {
            return;
        }
        let paths = self.ephemerals.entry(session).or_default();
        if add {
            self.ephemerals_count += usize::from(paths.insert(path.to_owned()));
        } else {
            self.ephemerals_count -= usize::from(paths.remove(path));
        }
        if paths.is_empty() {
            self.ephemerals.remove(&session);
        }
    }
}
