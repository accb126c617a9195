//! Surroundings whose disk forgets what was not synced, tears it, and can fail (T1).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{
    Clock, Disk, DiskLock, Elapsed, Env, LogFile, Millis, RealClock, RealEnv, RealNet, Rng, Task,
};
use futures::future::{BoxFuture, LocalBoxFuture};
use rand::{Rng as _, SeedableRng};

const SECTOR: usize = 512;

#[derive(Default, Clone)]
struct Content {
    durable: Vec<u8>,
    /// What a reader sees.
    seen: Vec<u8>,
    /// Sectors that differ, maybe.
    unsynced: BTreeSet<usize>,
    /// Sectors whose sync failed: they read well, and no later sync means them (C17).
    doomed: BTreeSet<usize>,
}

impl Content {
    fn sector(&self, sector: usize) -> Range<usize> {
        let from = (sector * SECTOR).min(self.seen.len());
        from..(from + SECTOR).min(self.seen.len())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if bytes.is_empty() {
            return;
        }
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[at..end].copy_from_slice(bytes);
        for sector in at / SECTOR..=(end - 1) / SECTOR {
            self.unsynced.insert(sector);
            self.doomed.remove(&sector);
        }
    }
}

type Inode = Arc<Mutex<Content>>;

#[derive(Default)]
struct Files {
    files: BTreeMap<String, Inode>,
    /// Names whose directory was not synced since they were made, and what they were called before.
    unsynced_names: BTreeMap<String, Option<String>>,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// For a reason of its own.
    Broken,
    /// No space is left.
    Full,
}

impl Failure {
    pub(crate) fn error(self, what: &str) -> io::Error {
        match self {
            Self::Broken => io::Error::other(format!("a planted failure of {what}")),
            Self::Full => io::ErrorKind::StorageFull.into(),
        }
    }
}

/// Calls of a disk or a bucket, of which one may be chosen to fail.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    made: AtomicU64,
    fail_at: AtomicU64,
    /// Calls from the failing one on that fail with it.
    many: AtomicU64,
    /// Only those fail that need space, for want of it.
    full: AtomicBool,
}

impl Calls {
    /// Lets the n-th call from now on fail, and no other; 0 for none.
    pub(crate) fn fail(&self, n: u64) {
        self.fail_many(n, 1);
    }

    /// Lets so many calls from the n-th on fail; 0 for none.
    pub(crate) fn fail_many(&self, n: u64, many: u64) {
        self.choose(n, many, false);
    }

    /// No space is left from the n-th call on, for so many calls.
    pub(crate) fn fill(&self, n: u64, many: u64) {
        self.choose(n, many, true);
    }

    fn choose(&self, n: u64, many: u64, full: bool) {
        self.made.store(0, Ordering::SeqCst);
        self.many.store(many, Ordering::SeqCst);
        self.full.store(full, Ordering::SeqCst);
        self.fail_at.store(n, Ordering::SeqCst);
    }

    /// Calls since then.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Counts a call; whether and how it is to fail.
    fn next(&self) -> Option<Failure> {
        let call = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        let first = self.fail_at.load(Ordering::SeqCst);
        let hit = first > 0 && (first..first + self.many.load(Ordering::SeqCst)).contains(&call);
        hit.then(|| match self.full.load(Ordering::SeqCst) {
            true => Failure::Full,
            false => Failure::Broken,
        })
    }

    /// Counts a call that needs no space; how it fails, if it does.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.next().filter(|failure| *failure != Failure::Full)
    }

    /// The same for one that needs space.
    pub(crate) fn failure_with_space(&self) -> Option<Failure> {
        self.next()
    }

    fn check(&self, what: &str) -> io::Result<()> {
        self.failure()
            .map_or(Ok(()), |failure| Err(failure.error(what)))
    }

    fn check_with_space(&self, what: &str) -> io::Result<()> {
        self.failure_with_space()
            .map_or(Ok(()), |failure| Err(failure.error(what)))
    }
}

/// A disk in memory; clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct FaultDisk {
    files: Arc<Mutex<Files>>,
    pub(crate) sync_delay_us: Arc<AtomicU64>,
    pub(crate) fail_sync: Arc<AtomicBool>,
    pub(crate) full: Arc<AtomicBool>,
    pub(crate) calls: Arc<Calls>,
    locked: Arc<AtomicBool>,
}

impl FaultDisk {
    /// What is left after a power cut: each unsynced sector is there or not by a coin, new names too.
    pub(crate) fn power_cut(&self, seed: u64) -> Self {
        let mut coins = Rng::seed_from_u64(seed);
        let old = self.files.lock().unwrap();
        let mut files = BTreeMap::new();
        'files: for (name, inode) in &old.files {
            let content = inode.lock().unwrap();
            let mut name = name.clone();
            while let Some(before) = old.unsynced_names.get(&name) {
                if coins.random_bool(0.5) {
                    break;
                }
                match before {
                    Some(before) => name.clone_from(before),
                    None => continue 'files,
                }
            }
            let mut left = content.durable.clone();
            if content.seen.len() > left.len() && coins.random_bool(0.5) {
                left.resize(content.seen.len(), 0);
            }
            for sector in content.unsynced.union(&content.doomed) {
                let range = content.sector(*sector);
                let range = range.start..range.end.min(left.len());
                if range.start < range.end && coins.random_bool(0.5) {
                    left[range.clone()].copy_from_slice(&content.seen[range]);
                }
            }
            let content = Content {
                durable: left.clone(),
                seen: left,
                ..Content::default()
            };
            files.insert(name, Arc::new(Mutex::new(content)));
        }
        Self {
            files: Arc::new(Mutex::new(Files {
                files,
                unsynced_names: BTreeMap::new(),
            })),
            sync_delay_us: Arc::clone(&self.sync_delay_us),
            ..Self::default()
        }
    }

    /// The disk as the next process finds it: the last one's locks are gone, its writes are not.
    pub(crate) fn process_ended(&self) -> Self {
        let old = self.files.lock().unwrap();
        // Copied, so that what still runs of the old process reaches nothing.
        let copy = |inode: &Inode| Arc::new(Mutex::new(inode.lock().unwrap().clone()));
        let files = Files {
            files: old
                .files
                .iter()
                .map(|(name, inode)| (name.clone(), copy(inode)))
                .collect(),
            unsynced_names: old.unsynced_names.clone(),
        };
        Self {
            files: Arc::new(Mutex::new(files)),
            sync_delay_us: Arc::clone(&self.sync_delay_us),
            ..Self::default()
        }
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> usize {
        let files = self.files.lock().unwrap();
        let inodes = files.files.values();
        inodes.map(|inode| inode.lock().unwrap().seen.len()).sum()
    }

    /// Bytes of the log's segments.
    pub(crate) fn log_bytes(&self) -> usize {
        let files = self.files.lock().unwrap();
        let segments = files
            .files
            .iter()
            .filter(|(name, _)| name.starts_with("log/"));
        segments
            .map(|(_, inode)| inode.lock().unwrap().seen.len())
            .sum()
    }

    /// Changes bytes of a file as a bad disk would.
    pub(crate) fn damage(&self, name: &str, from: usize, len: usize) {
        let files = self.files.lock().unwrap();
        let mut content = files.files[name].lock().unwrap();
        for at in from..from + len {
            content.durable[at] ^= 0x55;
            content.seen[at] ^= 0x55;
        }
    }

    /// Puts other bytes in the place of a file's, as a bad disk or a bad hand would; `None` takes the file away.
    pub(crate) fn replace(&self, name: &str, bytes: Option<Vec<u8>>) {
        let mut files = self.files.lock().unwrap();
        let Some(bytes) = bytes else {
            files.files.remove(name);
            return;
        };
        let content = Content {
            durable: bytes.clone(),
            seen: bytes,
            ..Content::default()
        };
        let inode = Arc::new(Mutex::new(content));
        files.files.insert(name.to_owned(), inode);
    }

    /// Every file as a reader sees it.
    pub(crate) fn image(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.files.lock().unwrap();
        let files = files.files.iter();
        files
            .map(|(name, inode)| (name.clone(), inode.lock().unwrap().seen.clone()))
            .collect()
    }

    fn file(&self, inode: &Inode) -> FaultFile {
        FaultFile {
            disk: self.clone(),
            inode: Arc::clone(inode),
        }
    }
}

/// A file of it.
pub(crate) struct FaultFile {
    disk: FaultDisk,
    inode: Inode,
}

impl FaultFile {
    fn content(&self) -> std::sync::MutexGuard<'_, Content> {
        self.inode.lock().unwrap()
    }
}

impl LogFile for FaultFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.disk.calls.check_with_space("write") {
            // Torn: a part of it may be there.
            self.content().write(at as usize, &bytes[..bytes.len() / 2]);
            return Err(error);
        }
        self.content().write(at as usize, bytes);
        Ok(())
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Bytes> {
        self.disk.calls.check("read")?;
        let content = self.content();
        let from = (at as usize).min(content.seen.len());
        let to = from.saturating_add(len).min(content.seen.len());
        Ok(Bytes::copy_from_slice(&content.seen[from..to]))
    }

    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        self.disk.calls.check("seek")?;
        let content = self.content();
        let data = |sector: &usize| {
            content.seen[content.sector(*sector)]
                .iter()
                .any(|b| *b != 0)
        };
        let sectors = content.seen.len().div_ceil(SECTOR);
        let Some(first) = (from as usize / SECTOR..sectors).find(data) else {
            return Ok(None);
        };
        let end = (first..sectors)
            .find(|sector| !data(sector))
            .unwrap_or(sectors);
        let end = (end * SECTOR).min(content.seen.len()) as u64;
        Ok(Some(((first * SECTOR) as u64).max(from)..end))
    }

    async fn sync_data(&self) -> io::Result<()> {
        // What was written before the call, after its latency.
        let before = self.content().clone();
        let delay = self.disk.sync_delay_us.load(Ordering::SeqCst);
        if delay > 0 {
            RealClock.sleep(Duration::from_micros(delay)).await;
        }
        let mut content = self.content();
        if self.disk.calls.failure().is_some() || self.disk.fail_sync.load(Ordering::SeqCst) {
            for sector in &before.unsynced {
                content.unsynced.remove(sector);
                content.doomed.insert(*sector);
            }
            return Err(io::Error::other("a planted failure of fdatasync"));
        }
        content.durable.resize(before.seen.len(), 0);
        for sector in &before.unsynced {
            let range = before.sector(*sector);
            content.durable[range.clone()].copy_from_slice(&before.seen[range.clone()]);
            if content.seen.get(range.clone()) == before.seen.get(range) {
                content.unsynced.remove(sector);
            }
        }
        Ok(())
    }

    fn truncate(&self, to: u64) -> io::Result<()> {
        self.disk.calls.check("truncate")?;
        let mut content = self.content();
        content.seen.resize(to as usize, 0);
        let first = (to as usize).div_ceil(SECTOR);
        content.unsynced.split_off(&first);
        content.doomed.split_off(&first);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content().seen.len() as u64)
    }
}

impl Disk for FaultDisk {
    type File = FaultFile;

    async fn create(&self, path: &str, preallocate: u64) -> io::Result<FaultFile> {
        self.calls.check_with_space("create")?;
        if self.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut files = self.files.lock().unwrap();
        if files.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let zeros = vec![0; preallocate as usize];
        let inode = Arc::new(Mutex::new(Content {
            durable: zeros.clone(),
            seen: zeros,
            ..Content::default()
        }));
        files.files.insert(path.to_owned(), Arc::clone(&inode));
        files.unsynced_names.insert(path.to_owned(), None);
        Ok(self.file(&inode))
    }

    async fn open(&self, path: &str) -> io::Result<FaultFile> {
        self.calls.check("open")?;
        let files = self.files.lock().unwrap();
        match files.files.get(path) {
            Some(inode) => Ok(self.file(inode)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.calls.check("list")?;
        let prefix = format!("{dir}/");
        let files = self.files.lock().unwrap();
        let names = files.files.keys();
        Ok(names
            .filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned))
            .collect())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.calls.check("remove")?;
        let mut files = self.files.lock().unwrap();
        files.unsynced_names.remove(path);
        match files.files.remove(path) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.calls.check_with_space("rename")?;
        let mut files = self.files.lock().unwrap();
        let inode = files.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.files.insert(to.to_owned(), inode);
        let before = Some(from.to_owned());
        files.unsynced_names.insert(to.to_owned(), before);
        Ok(())
    }

    async fn sync_dir(&self, _dir: &str) -> io::Result<()> {
        self.calls.check("sync of a directory")?;
        self.files.lock().unwrap().unsynced_names.clear();
        Ok(())
    }

    fn lock(&self, _path: &str) -> io::Result<DiskLock> {
        struct Unlock(Arc<AtomicBool>);
        impl Drop for Unlock {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        if self.locked.swap(true, Ordering::SeqCst) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(DiskLock::new(Unlock(Arc::clone(&self.locked))))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(if self.full.load(Ordering::SeqCst) {
            0
        } else {
            u64::MAX
        })
    }
}

/// A wall clock that can be stepped; time itself runs on, and can be made to leap.
#[derive(Clone, Debug, Default)]
pub(crate) struct SteppedClock {
    pub(crate) step_ms: Arc<AtomicI64>,
    /// How far the monotone clock has leapt; sleeps are not shortened by it.
    pub(crate) leap_ms: Arc<AtomicU64>,
}

impl Clock for SteppedClock {
    fn wall(&self) -> Millis {
        RealClock
            .wall()
            .saturating_add_signed(self.step_ms.load(Ordering::SeqCst))
    }

    fn mono(&self) -> Duration {
        RealClock.mono() + Duration::from_millis(self.leap_ms.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        RealClock.sleep(duration)
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        RealClock.timeout(duration, future).await
    }
}

/// The real surroundings over the faulty disk.
#[derive(Clone)]
pub(crate) struct FaultEnv {
    pub(crate) real: RealEnv,
    pub(crate) disk: FaultDisk,
    pub(crate) clock: SteppedClock,
    pub(crate) exited: Arc<AtomicBool>,
}

impl FaultEnv {
    pub(crate) fn new(real: RealEnv, disk: FaultDisk) -> Self {
        Self {
            real,
            disk,
            clock: SteppedClock::default(),
            exited: Arc::new(AtomicBool::new(false)),
        }
    }
}

impl Env for FaultEnv {
    type Net = RealNet;
    type Clock = SteppedClock;
    type Disk = FaultDisk;

    fn net(&self) -> &RealNet {
        self.real.net()
    }

    fn clock(&self) -> &SteppedClock {
        &self.clock
    }

    fn disk(&self) -> &FaultDisk {
        &self.disk
    }

    fn rng(&self, stream: &str) -> Rng {
        self.real.rng(stream)
    }

    fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
        self.real.spawn(name, future)
    }

    fn cores(&self) -> usize {
        self.real.cores()
    }

    fn spawn_on(
        &self,
        core: usize,
        name: &'static str,
        make: impl FnOnce() -> LocalBoxFuture<'static, ()> + Send + 'static,
    ) -> Task {
        self.real.spawn_on(core, name, make)
    }

    fn background<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, Option<T>> {
        self.real.background(name, future)
    }

    /// Ends the task that called, which never goes on: what the others still do is as from a process that is gone.
    fn exit(&self, why: &str) -> ! {
        self.exited.store(true, Ordering::SeqCst);
        panic!("exit: {why}");
    }
}
