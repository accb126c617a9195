//! Clock, randomness, tasks, network and disk as traits, and their real forms.
//!
//! A node's program is `async fn run(env: impl Env, config)`; `cli` calls it with [`RealEnv`], the simulator with its own. So
//! whatever a node does that another run of the program could see differently goes through here, and clippy's
//! `disallowed_methods` keeps it so in all other crates. This crate must not know of storage formats or protocols.
//!
//! The object store is not part of [`Env`]: `store` takes one ready made.

mod real;

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, LocalBoxFuture};
use tokio::io::{AsyncRead, AsyncWrite};

pub use real::{RealClock, RealDisk, RealEnv, RealEnvConfig, RealFile, RealListener, RealNet};

/// Milliseconds since 1970.
pub type Millis = u64;

/// A stream of random numbers for one purpose. Good enough for session passwords; not for keys.
pub type Rng = rand::rngs::StdRng;

/// A node's surroundings: one value per node and start of it; clones are the same surroundings.
pub trait Env: Clone + Send + Sync + 'static {
    /// Sockets.
    type Net: Net;
    /// Time.
    type Clock: Clock;
    /// Log segments and the data directory's lock.
    type Disk: Disk;

    /// Sockets.
    fn net(&self) -> &Self::Net;
    /// Time.
    fn clock(&self) -> &Self::Clock;
    /// Files.
    fn disk(&self) -> &Self::Disk;
    /// A stream of random numbers. One per purpose, so that a new draw here does not shift the draws there.
    fn rng(&self, stream: &str) -> Rng;
    /// Runs a task on the runtime of the caller. It is dropped with the node.
    fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task;
    /// Number of serving cores, at least 1.
    fn cores(&self) -> usize;
    /// Runs a task on a serving core (`core < cores()`); what it makes need not be `Send`.
    fn spawn_on(
        &self,
        core: usize,
        name: &'static str,
        make: impl FnOnce() -> LocalBoxFuture<'static, ()> + Send + 'static,
    ) -> Task;
    /// Runs a future on the background runtime, which never serves requests, and gives its answer. The future goes on if the
    /// caller stops waiting. `None` only if the node ends or the future panicked.
    fn background<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, Option<T>>;
    /// Memory that the process has, bytes; `None` where that cannot be told.
    fn resident_bytes(&self) -> Option<u64> {
        None
    }
    /// Ends the node at once, as a crash would (C17, C18): nothing is flushed or answered any more.
    fn exit(&self, why: &str) -> !;
}

/// A running task. Dropping the handle lets it run on.
#[derive(Debug)]
pub struct Task(futures::future::AbortHandle);

impl Task {
    /// A handle, and what turns the future it belongs to into one that ends when the handle says so. The future may be made
    /// later and elsewhere.
    pub fn new() -> (Self, Abortion) {
        let (handle, registration) = futures::future::AbortHandle::new_pair();
        (Self(handle), Abortion(registration))
    }

    /// Ends the task at its next await, or before it starts.
    pub fn abort(&self) {
        self.0.abort();
    }
}

/// The other end of a [`Task`].
#[derive(Debug)]
pub struct Abortion(futures::future::AbortRegistration);

impl Abortion {
    /// The future to spawn in place of this one.
    pub async fn over(self, future: impl Future<Output = ()>) {
        // Ended or aborted: nobody asks which.
        let _ = futures::future::Abortable::new(future, self.0).await;
    }
}

/// The time ran out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

/// Time.
pub trait Clock: Clone + Send + Sync + Debug + 'static {
    /// Wall clock; may jump both ways and differs between nodes. Never measure with it.
    fn wall(&self) -> Millis;
    /// Since some moment before the node's start; never goes back, and runs while the machine is suspended (leases, C22).
    fn mono(&self) -> Duration;
    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
    /// Waits for a future, but not longer than this.
    fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + Send
    where
        F::Output: Send;
}

/// Where to connect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl HostPort {
    /// From its parts.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Reads `host:port` (`[v6]:port` too).
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.trim().rsplit_once(':')?;
        let host = host
            .strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'))
            .unwrap_or(host);
        if host.is_empty() {
            return None;
        }
        Some(Self::new(host, port.parse().ok()?))
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Sockets. Only `rpc`, `coordination` and `gateway` use them.
pub trait Net: Clone + Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// A listening socket.
    type Listener: Listener<Stream = Self::Stream>;

    /// Listens; port 0 takes any free one.
    fn listen(&self, at: SocketAddr) -> impl Future<Output = io::Result<Self::Listener>> + Send;
    /// Connects; sends small writes at once (no Nagle).
    fn connect(&self, to: &HostPort) -> impl Future<Output = io::Result<Self::Stream>> + Send;
    /// Gives a connection that was accepted on another core to the caller's: from now on its wake-ups come from the runtime that
    /// reads it, not by way of the accepting one.
    ///
    /// # Errors
    /// What the operating system says; the connection is closed then.
    fn adopt(&self, stream: Self::Stream) -> io::Result<Self::Stream> {
        Ok(stream)
    }
    /// Addresses of a host.
    fn resolve(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// A listening socket.
pub trait Listener: Send + 'static {
    /// A connection.
    type Stream;
    /// The next connection and who made it.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
    /// Where it listens.
    fn local_addr(&self) -> SocketAddr;
}

/// Files of the log and small files beside them. Paths are relative to the node's data directory and use `/`.
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: LogFile;

    /// Makes a file that must not exist yet, with space for `preallocate` bytes reserved (its length is that, zero-filled).
    /// Its directory is made when missing. Durable only after [`Disk::sync_dir`].
    fn create(
        &self,
        path: &str,
        preallocate: u64,
    ) -> impl Future<Output = io::Result<Self::File>> + Send;
    /// Opens a file for reading and writing.
    fn open(&self, path: &str) -> impl Future<Output = io::Result<Self::File>> + Send;
    /// Names in a directory, sorted; empty if it does not exist.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Gives a file another name in its directory, all or nothing; what had that name is gone. Durable only after
    /// [`Disk::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes creations, removals and renames in a directory durable.
    fn sync_dir(&self, dir: &str) -> impl Future<Output = io::Result<()>> + Send;
    /// Takes the exclusive lock of a file (made when missing); `WouldBlock` if another process has it.
    fn lock(&self, path: &str) -> io::Result<DiskLock>;
    /// Bytes that can still be written.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// An exclusive lock; released when dropped.
pub struct DiskLock(#[allow(dead_code, reason = "held, not read")] Box<dyn Send + Sync>);

impl DiskLock {
    /// Wraps whatever holds the lock.
    pub fn new(holder: impl Send + Sync + 'static) -> Self {
        Self(Box::new(holder))
    }
}

impl Debug for DiskLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DiskLock")
    }
}

/// An open file. One writer; the committer of the log is a task, so that one code serves the real and the simulated form.
pub trait LogFile: Send + Sync + 'static {
    /// Writes all bytes at an offset; not durable yet.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads up to `len` bytes at an offset; fewer only at the end of the file.
    fn read(&self, at: u64, len: usize) -> io::Result<Bytes>;
    /// The next bytes at or behind an offset that may be something else than zeros, `None` if there are none: what lies between
    /// is a hole (`SEEK_DATA`), as most of a preallocated file is. A file system without holes answers the rest of the file.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        let len = self.len()?;
        Ok((from < len).then_some(from..len))
    }
    /// Makes what was written before this call durable (fdatasync).
    fn sync_data(&self) -> impl Future<Output = io::Result<()>> + Send;
    /// Cuts or extends the file.
    fn truncate(&self, to: u64) -> io::Result<()>;
    /// Length, bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the length is 0.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
