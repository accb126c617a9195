//! The embedded server: sockets and tasks around [`crate::Tree`].
//!
//! 1. One task accepts; the peer's address is checked against the limits by the owner.
//! 2. One task per connection reads frames and writes what its outbox holds.
//! 3. One owner has the tree and executes everything in the order of one bounded queue, so that events come before the reply
//!    to the write that caused them, and before any later read that shows it.
//!
//! The owner never waits for a connection: it appends to outboxes, which are bounded, and closes those that do not drain. It
//! must not know what the znodes mean. Nothing is kept on disk: see [`crate::Tree`].

mod connection;
mod outbox;
mod owner;
#[cfg(test)]
mod tests;
mod words;

use std::net::SocketAddr;
use std::time::Duration;

use cadastre_env::{Clock, Env, Listener, Net, Task};
use tokio::sync::{mpsc, watch};

use crate::frame::Frame;
use crate::tree::{ConnectionId, TreeConfig};
use owner::Owner;

/// Commands waiting for the owner; with small frames 16 MiB at most, large ones have their own budget.
const COMMANDS_MAX: usize = 4_096;

/// Commands executed before time is looked at again.
const COMMANDS_AT_ONCE: usize = 256;

/// Longest time between two looks at the clock for expired sessions: less than any timeout by far.
const TICK: Duration = Duration::from_millis(500);

/// Pause after a failed accept (too many open files): it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits and rules of the server (INV-9).
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Zxids go on above this one; see [`crate::initial_zxid`] (C23).
    pub initial_zxid: i64,
    /// The tree's.
    pub tree: TreeConfig,
    /// Connections of one address: HBase's own server allows 300 (`hbase.zookeeper.property.maxClientCnxns`).
    pub connections_per_address_max: usize,
    /// Connections in all.
    pub connections_max: usize,
    /// Requests of one connection that are read but not answered.
    pub in_flight_max: usize,
    /// How long a connection may take for its first frame, ms.
    pub handshake_timeout_ms: u64,
    /// How long a frame may take once begun, and a write may stand still, ms.
    pub stall_timeout_ms: u64,
}

impl ServerConfig {
    /// Defaults.
    pub fn new(initial_zxid: i64) -> Self {
        Self {
            initial_zxid,
            tree: TreeConfig::default(),
            connections_per_address_max: 300,
            // 10,000 connections and half as many again; each idle one costs a few kB.
            connections_max: 15_000,
            // Answers of 1 MiB each must fit an outbox.
            in_flight_max: 64,
            handshake_timeout_ms: 10_000,
            // As long as the shortest-lived patience of a client for a connect response (10 s) three times over.
            stall_timeout_ms: 30_000,
        }
    }
}

/// What connections and the accepting task tell the owner.
enum Command<S> {
    Accepted {
        stream: S,
        peer: SocketAddr,
    },
    Frame {
        connection: ConnectionId,
        frame: Frame,
        received: Duration,
    },
    Word {
        connection: ConnectionId,
        word: [u8; 4],
    },
    Gone {
        connection: ConnectionId,
    },
}

type Stream<E> = <<E as Env>::Net as Net>::Stream;

/// Serves until told to stop (or until the other end of `stop` is gone), then closes all connections. Sessions and znodes go
/// with the future.
pub async fn serve<E: Env>(
    env: E,
    listener: <E::Net as Net>::Listener,
    config: ServerConfig,
    mut stop: watch::Receiver<bool>,
) {
    let (commands, mut queue) = mpsc::channel(COMMANDS_MAX);
    let address = listener.local_addr();
    let accepting = Accepting(env.spawn(
        "coordination-accept",
        accept(env.clone(), listener, commands.clone()),
    ));
    let mut owner = Owner::new(env.clone(), config, address, commands);
    let mut batch = Vec::new();
    loop {
        owner.plan(TICK);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            _ = queue.recv_many(&mut batch, COMMANDS_AT_ONCE) => {}
            () = env.clock().sleep(TICK) => {}
        }
        owner.wake();
        for command in batch.drain(..) {
            owner.handle(command);
        }
        owner.expire();
    }
    drop(accepting);
    tracing::info!(%address, "coordination server stopped");
}

/// Ends the accepting task, and with it the listening socket, when the server goes.
struct Accepting(Task);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept<E: Env>(
    env: E,
    mut listener: <E::Net as Net>::Listener,
    commands: mpsc::Sender<Command<Stream<E>>>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let accepted = Command::Accepted { stream, peer };
                if commands.send(accepted).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                env.clock().sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
