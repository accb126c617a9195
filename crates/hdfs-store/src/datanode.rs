//! DataNodes: blocks' bytes, one operation at a time over one connection. Knows no NameNode and no files.

mod connection;
mod read;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cadastre_env::{Clock, Env, HostPort, Net};
use cadastre_types::{Error, Result};
use cadastre_wire::hadoop::pb;

use connection::Connection;

/// Largest piece that one read asks for, bytes: it is held in memory.
pub(crate) const PIECE_MAX: u64 = 8 << 20;

/// Time for a connection to open.
const CONNECT: Duration = Duration::from_secs(10);

/// A DataNode from which nothing came for so long while something was due is given up. Longer than a disk takes for a sync.
const SILENCE: Duration = Duration::from_secs(20);

/// Connections without work are kept for so long. DataNodes close them after four seconds (`dfs.datanode.socket.reuse.keepalive`).
const IDLE: Duration = Duration::from_secs(2);

/// Idle connections to one DataNode, and DataNodes with any (INV-9).
const IDLE_MAX: usize = 4;
const NODES_MAX: usize = 1024;

/// For so long a DataNode that failed is asked last.
const AVOIDED: Duration = Duration::from_secs(30);

/// Why a block could not be written.
#[derive(Debug)]
pub(crate) struct NotWritten {
    /// Whose fault it was, as far as it is known: a place in the block's locations.
    pub(crate) culprit: Option<usize>,
    /// What happened.
    pub(crate) error: Error,
}

/// Where blocks' bytes are.
#[async_trait]
pub(crate) trait Blocks: Send + Sync {
    /// Writes a whole new block to its DataNodes, onto their disks.
    async fn write(
        &self,
        block: &pb::LocatedBlockProto,
        client: &str,
        data: &Bytes,
    ) -> Result<(), NotWritten>;

    /// Reads bytes of a block from one of its DataNodes. At most [`PIECE_MAX`].
    async fn read(
        &self,
        block: &pb::LocatedBlockProto,
        node: &pb::DatanodeInfoProto,
        client: &str,
        (offset, len): (u64, u64),
    ) -> Result<Bytes>;

    /// Places in a block's locations, those that failed lately last.
    fn order(&self, block: &pb::LocatedBlockProto) -> Vec<usize> {
        (0..block.locs.len()).collect()
    }
}

type Idle<S> = BTreeMap<HostPort, Vec<(Duration, Connection<S>)>>;

/// Real ones.
pub(crate) struct DataNodes<E: Env> {
    env: E,
    /// Connect to names instead of addresses (`dfs.client.use.datanode.hostname`).
    by_name: bool,
    idle: Mutex<Idle<<E::Net as Net>::Stream>>,
    failed: Mutex<BTreeMap<HostPort, Duration>>,
}

impl<E: Env> DataNodes<E> {
    pub(crate) fn new(env: E, by_name: bool) -> Arc<Self> {
        Arc::new(Self {
            env,
            by_name,
            idle: Mutex::default(),
            failed: Mutex::default(),
        })
    }

    fn address(&self, node: &pb::DatanodeInfoProto) -> Result<HostPort> {
        let host = if self.by_name {
            &node.id.host_name
        } else {
            &node.id.ip_addr
        };
        match u16::try_from(node.id.xfer_port) {
            Ok(port) if port > 0 && !host.is_empty() => Ok(HostPort::new(host.clone(), port)),
            _ => Err(Error::corrupt(format!(
                "a DataNode at '{host}' port {}",
                node.id.xfer_port
            ))),
        }
    }

    async fn connect(&self, to: &HostPort) -> Result<Connection<<E::Net as Net>::Stream>> {
        let opening = self.env.net().connect(to);
        let opened = match self.env.clock().timeout(CONNECT, opening).await {
            Ok(opened) => opened.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no connection within {} s", CONNECT.as_secs())),
        };
        opened.map(Connection::new).map_err(|why| {
            self.note_failure(to);
            connection::broken(to, &why)
        })
    }

    /// An idle connection, the youngest first.
    fn take_idle(&self, to: &HostPort) -> Option<Connection<<E::Net as Net>::Stream>> {
        let oldest = self.env.clock().mono().saturating_sub(IDLE);
        let mut idle = self.idle.lock().expect("nothing panics while it is held");
        let (since, connection) = idle.get_mut(to)?.pop()?;
        (since >= oldest).then_some(connection)
    }

    fn keep_idle(&self, to: &HostPort, connection: Connection<<E::Net as Net>::Stream>) {
        let now = self.env.clock().mono();
        let oldest = now.saturating_sub(IDLE);
        let mut idle = self.idle.lock().expect("nothing panics while it is held");
        idle.retain(|_, kept| {
            kept.retain(|(since, _)| *since >= oldest);
            !kept.is_empty()
        });
        if idle.len() < NODES_MAX {
            let kept = idle.entry(to.clone()).or_default();
            if kept.len() < IDLE_MAX {
                kept.push((now, connection));
            }
        }
    }

    fn note_failure(&self, of: &HostPort) {
        let now = self.env.clock().mono();
        let mut failed = self.failed.lock().expect("nothing panics while it is held");
        failed.retain(|_, when| now.saturating_sub(*when) < AVOIDED);
        if failed.len() < NODES_MAX {
            failed.insert(of.clone(), now);
        }
    }

    fn failed_lately(&self, node: &pb::DatanodeInfoProto) -> bool {
        let Ok(address) = self.address(node) else {
            return true;
        };
        let now = self.env.clock().mono();
        let failed = self.failed.lock().expect("nothing panics while it is held");
        failed
            .get(&address)
            .is_some_and(|when| now.saturating_sub(*when) < AVOIDED)
    }
}

#[async_trait]
impl<E: Env> Blocks for DataNodes<E> {
    async fn write(
        &self,
        block: &pb::LocatedBlockProto,
        client: &str,
        data: &Bytes,
    ) -> Result<(), NotWritten> {
        write::write(self, block, client, data).await
    }

    async fn read(
        &self,
        block: &pb::LocatedBlockProto,
        node: &pb::DatanodeInfoProto,
        client: &str,
        (offset, len): (u64, u64),
    ) -> Result<Bytes> {
        assert!(len <= PIECE_MAX, "whoever cuts pieces knows the limit");
        read::read(self, block, node, client, (offset, len)).await
    }

    fn order(&self, block: &pb::LocatedBlockProto) -> Vec<usize> {
        let mut places: Vec<usize> = (0..block.locs.len()).collect();
        places.sort_by_key(|place| self.failed_lately(&block.locs[*place]));
        places
    }
}

/// The header of an operation.
fn header(block: &pb::LocatedBlockProto, client: &str) -> pb::ClientOperationHeaderProto {
    pb::ClientOperationHeaderProto {
        base_header: pb::BaseHeaderProto {
            block: block.b.clone(),
            token: Some(block.block_token.clone()),
        },
        client_name: client.to_owned(),
    }
}

#[cfg(test)]
mod tests;
