//! The real surroundings: tokio, the operating system's clocks, files below a data directory.
//!
//! Threads: one current-thread runtime per serving core, and one background runtime with a lower scheduling priority for
//! flushes, compactions and the like (design.md section 4). All of them end with [`RealEnv::shutdown`].

#![allow(
    clippy::disallowed_methods,
    reason = "this module is what the other crates must use instead"
)]

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, LocalBoxFuture};
use rand::SeedableRng;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;

use crate::{
    Clock, Disk, DiskLock, Elapsed, Env, HostPort, Listener, LogFile, Millis, Net, Rng, Task,
};

/// Niceness of the background threads: below the serving ones, above idle.
const BACKGROUND_NICE: i32 = 10;

/// File operations of the object store at one time; each takes a thread.
const BLOCKING_THREADS_MAX: usize = 16;

/// A silent connection is probed after this long, then at this interval; so many unanswered probes end it (two minutes in
/// all). Servers never close a connection for being idle, so a vanished peer would hold one for ever without it.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 6;

/// Connections made and not yet accepted. With the usual 128, thousands of clients that connect at once wait a second or more
/// for their repeated SYN. The system cuts it to net.core.somaxconn, which is 4096 by default.
const LISTEN_BACKLOG: u32 = 4096;

/// How the real surroundings are made.
#[derive(Debug, Clone)]
pub struct RealEnvConfig {
    /// The data directory; made when missing.
    pub data_dir: PathBuf,
    /// Serving cores, at least 1.
    pub cores: usize,
    /// Threads of the background runtime, at least 1.
    pub background_threads: usize,
}

type Job = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

/// The real [`Env`].
#[derive(Clone)]
pub struct RealEnv {
    inner: Arc<Inner>,
}

struct Inner {
    net: RealNet,
    clock: RealClock,
    disk: RealDisk,
    cores: Vec<mpsc::UnboundedSender<Job>>,
    background: Handle,
    // Dropped on shutdown only; a runtime must not be dropped inside another.
    runtimes: Mutex<Vec<Runtime>>,
}

impl RealEnv {
    /// Makes the directory and starts the threads.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start(config: &RealEnvConfig) -> io::Result<Self> {
        std::fs::create_dir_all(&config.data_dir)?;
        let background = Builder::new_multi_thread()
            .worker_threads(config.background_threads.max(1))
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("background")
            .on_thread_start(|| {
                // A refusal costs speed, not correctness.
                let _ = rustix::process::setpriority_process(None, BACKGROUND_NICE);
            })
            .enable_all()
            .build()?;
        let cores = (0..config.cores.max(1))
            .map(start_core)
            .collect::<io::Result<_>>()?;
        Ok(Self {
            inner: Arc::new(Inner {
                net: RealNet,
                clock: RealClock,
                disk: RealDisk {
                    root: Arc::from(config.data_dir.as_path()),
                },
                cores,
                background: background.handle().clone(),
                runtimes: Mutex::new(vec![background]),
            }),
        })
    }

    /// Ends the background runtime; call it last, from outside any runtime. Tasks are dropped where they stand.
    pub fn shutdown(&self) {
        let runtimes = std::mem::take(&mut *self.inner.runtimes.lock().expect("not poisoned"));
        for runtime in runtimes {
            runtime.shutdown_background();
        }
    }

    /// Runs a future on serving core 0 and waits for it on this thread, which must not be one of the runtimes'.
    pub fn block_on<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, wait) = std::sync::mpsc::sync_channel(1);
        self.spawn_on(0, "main", move || {
            Box::pin(async move {
                // The receiver only goes away with the process.
                let _ = answer.send(future.await);
            })
        });
        wait.recv().ok()
    }
}

/// A serving core: a thread with a current-thread runtime and a local task set, fed by a queue.
fn start_core(core: usize) -> io::Result<mpsc::UnboundedSender<Job>> {
    let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name(format!("core-{core}"))
        .spawn(move || {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                while let Some(make) = queue.recv().await {
                    tokio::task::spawn_local(make());
                }
            });
        })?;
    Ok(jobs)
}

impl Env for RealEnv {
    type Net = RealNet;
    type Clock = RealClock;
    type Disk = RealDisk;

    fn net(&self) -> &RealNet {
        &self.inner.net
    }

    fn clock(&self) -> &RealClock {
        &self.inner.clock
    }

    fn disk(&self) -> &RealDisk {
        &self.inner.disk
    }

    fn rng(&self, _stream: &str) -> Rng {
        Rng::from_os_rng()
    }

    fn resident_bytes(&self) -> Option<u64> {
        // A line of Linux' own: "VmRSS:     1234 kB".
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }

    fn spawn(
        &self,
        _name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        let (task, abortion) = Task::new();
        tokio::spawn(abortion.over(future));
        task
    }

    fn cores(&self) -> usize {
        self.inner.cores.len()
    }

    fn spawn_on(
        &self,
        core: usize,
        _name: &'static str,
        make: impl FnOnce() -> LocalBoxFuture<'static, ()> + Send + 'static,
    ) -> Task {
        let (task, abortion) = Task::new();
        let job: Job = Box::new(move || Box::pin(abortion.over(make())));
        // A core ends with the process only.
        let _ = self.inner.cores[core].send(job);
        task
    }

    fn background<T: Send + 'static>(
        &self,
        _name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, Option<T>> {
        let task = self.inner.background.spawn(future);
        Box::pin(async move { task.await.ok() })
    }

    fn exit(&self, why: &str) -> ! {
        tracing::error!(why, "the process ends itself");
        std::process::abort();
    }
}

/// The operating system's clocks.
#[derive(Debug, Clone)]
pub struct RealClock;

impl Clock for RealClock {
    fn wall(&self) -> Millis {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // Before 1970 only if the clock is broken; 0 then.
        now.map_or(0, |now| now.as_millis() as Millis)
    }

    fn mono(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        tokio::time::timeout(duration, future)
            .await
            .map_err(|_| Elapsed)
    }
}

/// TCP.
#[derive(Debug, Clone)]
pub struct RealNet;

impl Net for RealNet {
    type Stream = TcpStream;
    type Listener = RealListener;

    async fn listen(&self, at: SocketAddr) -> io::Result<RealListener> {
        let socket = match at {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // As TcpListener::bind does: a restarted server gets its port back.
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        let listener = socket.listen(LISTEN_BACKLOG)?;
        let at = listener.local_addr()?;
        Ok(RealListener { listener, at })
    }

    async fn connect(&self, to: &HostPort) -> io::Result<TcpStream> {
        let stream = TcpStream::connect((to.host.as_str(), to.port)).await?;
        prepare(&stream)?;
        Ok(stream)
    }

    fn adopt(&self, stream: TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream.into_std()?)
    }

    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found: BTreeSet<IpAddr> = tokio::net::lookup_host((host, 0))
            .await?
            .map(|address| address.ip())
            .collect();
        Ok(found.into_iter().collect())
    }
}

/// Small writes go at once, and a peer whose machine vanished is noticed.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;

    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    Ok(())
}

/// A listening TCP socket.
#[derive(Debug)]
pub struct RealListener {
    listener: TcpListener,
    at: SocketAddr,
}

impl Listener for RealListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, from) = self.listener.accept().await?;
        prepare(&stream)?;
        Ok((stream, from))
    }

    fn local_addr(&self) -> SocketAddr {
        self.at
    }
}

/// Files below the data directory.
#[derive(Debug, Clone)]
pub struct RealDisk {
    root: Arc<Path>,
}

impl RealDisk {
    /// A path from outside never leaves the data directory: `..` and absolute paths are refused.
    fn path(&self, path: &str) -> io::Result<PathBuf> {
        let relative = Path::new(path);
        let plain = relative.components().all(|part| {
            matches!(
                part,
                std::path::Component::Normal(_) | std::path::Component::CurDir
            )
        });
        if !plain {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("'{path}' does not lie inside the data directory"),
            ));
        }
        Ok(self.root.join(relative))
    }
}

/// Runs file work off the serving threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

impl Disk for RealDisk {
    type File = RealFile;

    async fn create(&self, path: &str, preallocate: u64) -> io::Result<RealFile> {
        let path = self.path(path)?;
        blocking(move || {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path)?;
            if preallocate > 0 {
                rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, preallocate)?;
            }
            Ok(RealFile(Arc::new(file)))
        })
        .await
    }

    async fn open(&self, path: &str) -> io::Result<RealFile> {
        let path = self.path(path)?;
        blocking(move || {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            Ok(RealFile(Arc::new(file)))
        })
        .await
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.path(dir)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = BTreeSet::new();
        for entry in entries {
            names.insert(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names.into_iter().collect())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from)?, self.path(to)?)
    }

    async fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let path = self.path(dir)?;
        blocking(move || File::open(path)?.sync_all()).await
    }

    fn lock(&self, path: &str) -> io::Result<DiskLock> {
        let path = self.path(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.try_lock()?;
        Ok(DiskLock::new(file))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&*self.root)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// An open file.
#[derive(Debug)]
pub struct RealFile(Arc<File>);

impl LogFile for RealFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Bytes> {
        let left = self.0.metadata()?.len().saturating_sub(at);
        let mut buffer = vec![0; len.min(usize::try_from(left).unwrap_or(usize::MAX))];
        self.0.read_exact_at(&mut buffer, at)?;
        Ok(buffer.into())
    }

    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        let len = self.len()?;
        if from >= len {
            return Ok(None);
        }
        let data = match seek(&*self.0, SeekFrom::Data(from)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(None),
            // A file system that does not know of holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(from..len)),
            Err(error) => return Err(error.into()),
        };
        let hole = match seek(&*self.0, SeekFrom::Hole(data)) {
            Ok(hole) => hole,
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => len,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(data..hole))
    }

    async fn sync_data(&self) -> io::Result<()> {
        let file = Arc::clone(&self.0);
        blocking(move || file.sync_data()).await
    }

    fn truncate(&self, to: u64) -> io::Result<()> {
        self.0.set_len(to)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> (RealEnv, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let config = RealEnvConfig {
            data_dir: dir.path().join("data"),
            cores: 2,
            background_threads: 1,
        };
        (RealEnv::start(&config).unwrap(), dir)
    }

    #[test]
    fn work_runs_on_the_named_core_and_in_the_background() {
        let (env, _dir) = env();
        let here = env.clone();
        let names = env.block_on(async move {
            let name = || std::thread::current().name().unwrap_or_default().to_owned();
            let (tell, told) = tokio::sync::oneshot::channel();
            here.spawn_on(1, "test", move || {
                Box::pin(async move {
                    let _ = tell.send(name());
                })
            });
            let background = here
                .background("test", async move { name() })
                .await
                .unwrap();
            (name(), told.await.unwrap(), background)
        });
        assert_eq!(
            names,
            Some(("core-0".into(), "core-1".into(), "background".into()))
        );
        env.shutdown();
    }

    #[test]
    fn aborting_a_core_task_drops_it() {
        let (env, _dir) = env();
        let here = env.clone();
        env.block_on(async move {
            let (tell, told) = tokio::sync::oneshot::channel::<()>();
            let task = here.spawn_on(1, "test", move || {
                Box::pin(async move {
                    let _held = tell;
                    std::future::pending::<()>().await;
                })
            });
            task.abort();
            assert!(told.await.is_err(), "the sender is dropped with the task");
        });
        env.shutdown();
    }

    #[test]
    fn files_stay_inside_the_data_directory_and_lock_once() {
        let (env, _dir) = env();
        let here = env.clone();
        env.block_on(async move {
            let disk = here.disk();
            for outside in ["../x", "/etc/passwd", "a/../../x"] {
                assert!(disk.open(outside).await.is_err(), "{outside}");
            }
            let file = disk.create("log/1", 4096).await.unwrap();
            assert!(disk.create("log/1", 0).await.is_err(), "a second creation");
            assert_eq!(file.len().unwrap(), 4096);
            file.write_at(10, b"abc").unwrap();
            file.sync_data().await.unwrap();
            disk.sync_dir("log").await.unwrap();
            assert_eq!(
                &disk.open("log/1").await.unwrap().read(10, 3).unwrap()[..],
                b"abc"
            );
            assert_eq!(
                &file.read(4095, 100).unwrap()[..],
                b"\0",
                "short at the end"
            );
            assert_eq!(disk.list("log").unwrap(), ["1"]);
            disk.rename("log/1", "log/2").unwrap();
            assert!(disk.rename("log/2", "../2").is_err());
            assert_eq!(disk.list("log").unwrap(), ["2"]);
            assert!(disk.list("none").unwrap().is_empty());
            let lock = disk.lock("LOCK").unwrap();
            assert_eq!(
                disk.lock("LOCK").unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
            drop(lock);
            disk.lock("LOCK").unwrap();
        });
        env.shutdown();
    }

    /// Whatever the file system knows of holes, what it passes over are zeros, and the end is the end.
    #[test]
    fn holes_are_zeros() {
        let (env, _dir) = env();
        let here = env.clone();
        env.block_on(async move {
            const LEN: u64 = 4 << 20;
            let file = here.disk().create("holes", LEN).await.unwrap();
            for at in [0, 5, 1 << 20, LEN - 3] {
                file.write_at(at, b"abc").unwrap();
            }
            let (mut at, mut seen) = (0, 0);
            while let Some(data) = file.next_data(at).unwrap() {
                assert!(data.start >= at && data.end > data.start && data.end <= LEN);
                let between = file.read(at, (data.start - at) as usize).unwrap();
                assert!(between.iter().all(|byte| *byte == 0));
                let bytes = file.read(data.start, (data.end - data.start) as usize);
                seen += bytes.unwrap().iter().filter(|byte| **byte != 0).count();
                at = data.end;
            }
            assert_eq!(seen, 12);
            assert!(file.next_data(LEN).unwrap().is_none());
        });
        env.shutdown();
    }

    #[test]
    fn the_network_answers() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (env, _dir) = env();
        let here = env.clone();
        env.block_on(async move {
            let net = here.net().clone();
            let mut listener = net.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let port = listener.local_addr().port();
            let mut client = net
                .connect(&HostPort::new("127.0.0.1", port))
                .await
                .unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            client.write_all(b"hello").await.unwrap();
            let mut read = [0; 5];
            server.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"hello");
        });
        env.shutdown();
    }
}
