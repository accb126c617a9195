//! Surroundings for tests: real loopback sockets, a clock moved by hand.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cadastre_env::{
    Clock, Elapsed, Env, HostPort, Millis, Net, RealDisk, RealEnv, RealEnvConfig, RealListener,
    RealNet, Rng, Task,
};
use futures::future::{BoxFuture, Either, LocalBoxFuture, select};
use rand::SeedableRng;
use tokio::sync::watch;

/// Steps in which [`TestEnv::pass`] moves the clock: below every tick of server and client.
const STEP: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub(crate) struct ManualClock {
    mono: Arc<watch::Sender<Duration>>,
    wall: Arc<watch::Sender<Millis>>,
}

impl Clock for ManualClock {
    fn wall(&self) -> Millis {
        *self.wall.borrow()
    }

    fn mono(&self) -> Duration {
        *self.mono.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let mut mono = self.mono.subscribe();
        let until = *mono.borrow() + duration;
        // The sender lives in self.
        let _ = mono.wait_for(|now| *now >= until).await;
    }

    async fn timeout<F: Future + Send>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed>
    where
        F::Output: Send,
    {
        let sleep = std::pin::pin!(self.sleep(duration));
        match select(std::pin::pin!(future), sleep).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(_) => Err(Elapsed),
        }
    }
}

/// Loopback; connecting can be switched off.
#[derive(Clone)]
pub(crate) struct TestNet {
    pub(crate) reachable: Arc<AtomicBool>,
}

impl Net for TestNet {
    type Stream = tokio::net::TcpStream;
    type Listener = RealListener;

    async fn listen(&self, at: SocketAddr) -> io::Result<RealListener> {
        RealNet.listen(at).await
    }

    async fn connect(&self, to: &HostPort) -> io::Result<Self::Stream> {
        if !self.reachable.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        RealNet.connect(to).await
    }

    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        RealNet.resolve(host).await
    }
}

#[derive(Clone)]
pub(crate) struct TestEnv {
    real: RealEnv,
    clock: ManualClock,
    net: TestNet,
}

impl TestEnv {
    pub(crate) fn set_wall(&self, wall: Millis) {
        self.clock.wall.send_replace(wall);
    }

    /// Lets time pass in small steps, with the tasks running between them.
    pub(crate) async fn pass(&self, time: Duration) {
        let until = self.clock.mono() + time;
        while self.clock.mono() < until {
            self.clock.mono.send_modify(|mono| *mono += STEP);
            self.clock.wall.send_modify(|wall| *wall += 100);
            self.settle().await;
        }
    }

    /// A suspend: time passes at once, nothing runs meanwhile.
    pub(crate) fn jump(&self, time: Duration) {
        self.clock.mono.send_modify(|mono| *mono += time);
    }

    /// Lets tasks and loopback sockets come to rest: enough turns for the runtime to look at its sockets (every 61) a few times.
    pub(crate) async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Lets time pass until something is so.
    pub(crate) async fn pass_until(&self, what: &str, mut is: impl FnMut() -> bool) {
        for _ in 0..5_000 {
            if is() {
                return;
            }
            self.pass(STEP).await;
        }
        panic!("never: {what}");
    }

    /// A connection whether or not [`TestEnv::reachable`].
    pub(crate) async fn raw(&self, to: &HostPort) -> tokio::net::TcpStream {
        RealNet.connect(to).await.unwrap()
    }

    pub(crate) fn reachable(&self, reachable: bool) {
        self.net.reachable.store(reachable, Ordering::SeqCst);
    }
}

impl Env for TestEnv {
    type Net = TestNet;
    type Clock = ManualClock;
    type Disk = RealDisk;

    fn net(&self) -> &TestNet {
        &self.net
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn disk(&self) -> &RealDisk {
        self.real.disk()
    }

    fn rng(&self, stream: &str) -> Rng {
        Rng::seed_from_u64(stream.len() as u64)
    }

    fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
        self.real.spawn(name, future)
    }

    fn cores(&self) -> usize {
        1
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

    fn exit(&self, why: &str) -> ! {
        panic!("{why}");
    }
}

/// Runs a test on a runtime of its own; the whole of it may take 60 s of real time.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(TestEnv) -> F) {
    let dir = tempfile::tempdir().unwrap();
    let real = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().into(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let env = TestEnv {
        real: real.clone(),
        clock: ManualClock {
            mono: Arc::new(watch::Sender::new(Duration::from_secs(1_000))),
            wall: Arc::new(watch::Sender::new(1_796_000_000_000)),
        },
        net: TestNet {
            reachable: Arc::new(AtomicBool::new(true)),
        },
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    #[allow(
        clippy::disallowed_methods,
        reason = "a hanging test must end, in real time"
    )]
    runtime.block_on(async {
        let limited = tokio::time::timeout(Duration::from_secs(60), test(env));
        limited.await.expect("the test hangs");
    });
    drop(runtime);
    real.shutdown();
}
