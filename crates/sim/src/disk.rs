//! A node's disk: what is durable, what is only written, and what a power cut leaves of it.
//!
//! 1. A file is durable bytes and a list of changes not yet synced; reads see both.
//! 2. `sync` takes what was changed before its call, waits, then moves it over. A node that ends meanwhile has synced nothing.
//! 3. At a power cut each 512-byte sector of unsynced bytes is kept or lost by its own coin, and so is each entry of a directory
//!    that was not synced.
//! 4. After a failed sync the bytes stay readable while the process lives and never become durable: a second sync that succeeds
//!    does not mean them (what Linux does to dirty pages; C17).
//!
//! It must not know what files are for.

mod drive;
mod file;

use std::future::Future;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;

use cadastre_env::{Disk, DiskLock};

use crate::hub::{Hub, Start};
pub(crate) use drive::Drive;
pub use file::SimFile;

/// Properties of every disk of a world.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// Bytes of all files together.
    pub capacity_bytes: u64,
    /// Opening or making a file.
    pub open: RangeInclusive<Duration>,
    /// A sync.
    pub sync: RangeInclusive<Duration>,
    /// How likely a sync takes much longer.
    pub slow_probability: f64,
    /// How long a slow one takes.
    pub slow: RangeInclusive<Duration>,
    /// Whether bytes whose sync failed stay in the kernel's cache when the process ends, so that the next start reads what is
    /// not on the disk and never will be. Linux may do either.
    pub unsyncable_stay: bool,
}

impl Default for DiskConfig {
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            open: Duration::from_micros(10)..=Duration::from_micros(100),
            sync: Duration::from_micros(100)..=Duration::from_millis(2),
            slow_probability: 0.02,
            slow: Duration::from_millis(5)..=Duration::from_millis(30),
            unsyncable_stay: false,
        }
    }
}

/// The disk as one start of a node sees it.
#[derive(Clone)]
pub struct SimDisk {
    hub: Arc<Hub>,
    start: Start,
}

impl SimDisk {
    pub(crate) fn new(hub: Arc<Hub>, start: Start) -> Self {
        Self { hub, start }
    }

    /// A call that takes no time. A dead start's calls do nothing.
    pub(crate) fn now<T>(&self, work: impl FnOnce(&mut Drive) -> io::Result<T>) -> io::Result<T> {
        if !self.hub.is_alive(self.start) {
            return Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the node has ended",
            ));
        }
        self.hub.drive(self.start.node, work)
    }

    /// A call that takes time: `begin` now, `finish` with what it gave after the delay that `begin` names, unless the node has
    /// ended by then.
    pub(crate) fn later<A: Send + 'static, T: Send + 'static>(
        &self,
        begin: impl FnOnce(&mut Drive) -> io::Result<(Duration, A)>,
        finish: impl FnOnce(&mut Drive, A) -> io::Result<T> + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        let begun = self.now(begin);
        let (hub, start) = (Arc::clone(&self.hub), self.start);
        let (tell, told) = oneshot::channel();
        match begun {
            Ok((delay, state)) => {
                hub.after(delay, move |hub| {
                    if hub.is_alive(start) {
                        let done = hub.drive(start.node, |drive| finish(drive, state));
                        // Refused only if the caller has gone; the work is done all the same.
                        let _ = tell.send(done);
                    }
                    Some(start)
                });
            }
            Err(error) if hub.is_alive(start) => {
                let _ = tell.send(Err(error));
            }
            // A dead start waits for ever.
            Err(_) => drop(tell),
        }
        async move {
            match told.await {
                Ok(done) => done,
                Err(oneshot::Canceled) => std::future::pending().await,
            }
        }
    }

    fn file(&self, inode: u64) -> SimFile {
        SimFile::new(self.clone(), inode)
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    async fn create(&self, path: &str, preallocate: u64) -> io::Result<SimFile> {
        self.hub
            .record(self.start, format_args!("disk creates {path}"));
        let path = path.to_owned();
        let made = self.later(
            |drive| Ok((drive.open_delay(), path)),
            move |drive, path| drive.create(&path, preallocate),
        );
        Ok(self.file(made.await?))
    }

    async fn open(&self, path: &str) -> io::Result<SimFile> {
        let path = path.to_owned();
        let opened = self.later(
            |drive| Ok((drive.open_delay(), path)),
            |drive, path| drive.find(&path),
        );
        Ok(self.file(opened.await?))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.now(|drive| drive.list(dir))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.hub
            .record(self.start, format_args!("disk removes {path}"));
        self.now(|drive| drive.remove(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.hub
            .record(self.start, format_args!("disk renames {from} to {to}"));
        self.now(|drive| drive.rename(from, to, false))
    }

    async fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let synced = self.later(
            |drive| Ok((drive.sync_delay(), drive.begin_sync_dir(dir)?)),
            |drive, begun| drive.finish_sync_dir(begun),
        );
        synced.await
    }

    fn lock(&self, path: &str) -> io::Result<DiskLock> {
        self.now(|drive| drive.lock(path, self.start))?;
        Ok(DiskLock::new(Held {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.now(|drive| Ok(drive.free_bytes()))
    }
}

/// A held lock of a file.
struct Held {
    disk: SimDisk,
    path: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        // A dead node's locks went with it.
        let _ = self.disk.now(|drive| {
            drive.unlock(&self.path);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests;
