//! Surroundings whose disk forgets what was not synced, tears it, and can fail (T1).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
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
}

#[derive(Default)]
struct Files {
    files: BTreeMap<String, Content>,
    /// Names whose directory was not synced since they were made.
    unsynced_names: BTreeSet<String>,
}

/// A disk in memory; clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct FaultDisk {
    files: Arc<Mutex<Files>>,
    pub(crate) sync_delay_us: Arc<AtomicU64>,
    pub(crate) fail_sync: Arc<AtomicBool>,
    pub(crate) full: Arc<AtomicBool>,
    locked: Arc<AtomicBool>,
}

impl FaultDisk {
    /// What is left after a power cut: each unsynced sector is there or not by a coin, new names too.
    pub(crate) fn power_cut(&self, seed: u64) -> Self {
        let mut coins = Rng::seed_from_u64(seed);
        let old = self.files.lock().unwrap();
        let mut files = BTreeMap::new();
        for (name, content) in &old.files {
            if old.unsynced_names.contains(name) && coins.random_bool(0.5) {
                continue;
            }
            let mut left = content.durable.clone();
            if content.seen.len() > left.len() && coins.random_bool(0.5) {
                left.resize(content.seen.len(), 0);
            }
            for sector in &content.unsynced {
                let from = sector * SECTOR;
                let to = (from + SECTOR).min(content.seen.len()).min(left.len());
                if from < to && coins.random_bool(0.5) {
                    left[from..to].copy_from_slice(&content.seen[from..to]);
                }
            }
            files.insert(
                name.clone(),
                Content {
                    durable: left.clone(),
                    seen: left,
                    unsynced: BTreeSet::new(),
                },
            );
        }
        Self {
            files: Arc::new(Mutex::new(Files {
                files,
                unsynced_names: BTreeSet::new(),
            })),
            sync_delay_us: Arc::clone(&self.sync_delay_us),
            ..Self::default()
        }
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> usize {
        let files = self.files.lock().unwrap();
        files.files.values().map(|content| content.seen.len()).sum()
    }

    /// Changes bytes of a file as a bad disk would.
    pub(crate) fn damage(&self, name: &str, from: usize, len: usize) {
        let mut files = self.files.lock().unwrap();
        let content = files.files.get_mut(name).unwrap();
        for at in from..from + len {
            content.durable[at] ^= 0x55;
            content.seen[at] ^= 0x55;
        }
    }
}

/// A file of it.
pub(crate) struct FaultFile {
    disk: FaultDisk,
    name: String,
}

impl FaultFile {
    fn with<T>(&self, work: impl FnOnce(&mut Content) -> T) -> io::Result<T> {
        let mut files = self.disk.files.lock().unwrap();
        files
            .files
            .get_mut(&self.name)
            .map(work)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl LogFile for FaultFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = at as usize;
        self.with(|content| {
            let end = at + bytes.len();
            if content.seen.len() < end {
                content.seen.resize(end, 0);
            }
            content.seen[at..end].copy_from_slice(bytes);
            content.unsynced.extend(at / SECTOR..=(end - 1) / SECTOR);
        })
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Bytes> {
        self.with(|content| {
            let from = (at as usize).min(content.seen.len());
            let to = from.saturating_add(len).min(content.seen.len());
            Bytes::copy_from_slice(&content.seen[from..to])
        })
    }

    async fn sync_data(&self) -> io::Result<()> {
        // What was written before the call, after its latency.
        let before = self.with(|content| (content.seen.clone(), content.unsynced.clone()))?;
        let delay = self.disk.sync_delay_us.load(Ordering::SeqCst);
        if delay > 0 {
            RealClock.sleep(Duration::from_micros(delay)).await;
        }
        if self.disk.fail_sync.load(Ordering::SeqCst) {
            return Err(io::Error::other("a planted failure of fdatasync"));
        }
        self.with(|content| {
            let (seen, unsynced) = before;
            content.durable.resize(seen.len(), 0);
            for sector in &unsynced {
                let from = sector * SECTOR;
                let to = (from + SECTOR).min(seen.len());
                content.durable[from..to].copy_from_slice(&seen[from..to]);
                if content.seen[from..to] == seen[from..to] {
                    content.unsynced.remove(sector);
                }
            }
        })
    }

    fn truncate(&self, to: u64) -> io::Result<()> {
        self.with(|content| {
            content.seen.resize(to as usize, 0);
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|content| content.seen.len() as u64)
    }
}

impl Disk for FaultDisk {
    type File = FaultFile;

    async fn create(&self, path: &str, preallocate: u64) -> io::Result<FaultFile> {
        if self.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut files = self.files.lock().unwrap();
        if files.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let zeros = vec![0; preallocate as usize];
        let content = Content {
            durable: zeros.clone(),
            seen: zeros,
            unsynced: BTreeSet::new(),
        };
        files.files.insert(path.to_owned(), content);
        files.unsynced_names.insert(path.to_owned());
        Ok(FaultFile {
            disk: self.clone(),
            name: path.to_owned(),
        })
    }

    async fn open(&self, path: &str) -> io::Result<FaultFile> {
        if !self.files.lock().unwrap().files.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(FaultFile {
            disk: self.clone(),
            name: path.to_owned(),
        })
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let prefix = format!("{dir}/");
        let files = self.files.lock().unwrap();
        let names = files.files.keys();
        Ok(names
            .filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned))
            .collect())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        files.unsynced_names.remove(path);
        match files.files.remove(path) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    async fn sync_dir(&self, _dir: &str) -> io::Result<()> {
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

/// A wall clock that can be stepped; time itself runs on.
#[derive(Clone, Debug, Default)]
pub(crate) struct SteppedClock {
    pub(crate) step_ms: Arc<AtomicI64>,
}

impl Clock for SteppedClock {
    fn wall(&self) -> Millis {
        RealClock
            .wall()
            .saturating_add_signed(self.step_ms.load(Ordering::SeqCst))
    }

    fn mono(&self) -> Duration {
        RealClock.mono()
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
