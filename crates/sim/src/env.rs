//! [`Env`] for one start of a simulated node. It ties the parts together and must not know how they work.

use std::future::Future;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{BoxFuture, LocalBoxFuture};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use cadastre_env::{Env, Rng, Task};

use crate::clock::SimClock;
use crate::disk::SimDisk;
use crate::hub::{Hub, Start};
use crate::net::SimNet;
use crate::node::{Job, NodeRuntime};

/// The surroundings of one start of a node.
#[derive(Clone)]
pub struct SimEnv {
    inner: Arc<Inner>,
}

struct Inner {
    hub: Arc<Hub>,
    start: Start,
    net: SimNet,
    clock: SimClock,
    disk: SimDisk,
    handle: Handle,
    jobs: mpsc::UnboundedSender<Job>,
    cores: usize,
}

/// What ends a task that called `exit`; it is no panic of a program's, and no hook is called for it.
struct NodeExit;

impl SimEnv {
    pub(crate) fn new(hub: &Arc<Hub>, start: Start, runtime: &NodeRuntime, cores: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                hub: Arc::clone(hub),
                start,
                net: SimNet::new(Arc::clone(hub), start),
                clock: SimClock::new(Arc::clone(hub), start),
                disk: SimDisk::new(Arc::clone(hub), start),
                handle: runtime.handle(),
                jobs: runtime.jobs(),
                cores,
            }),
        }
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }

    pub(crate) fn start(&self) -> Start {
        self.inner.start
    }

    /// Waits until the program is asked to stop, as a signal would.
    pub fn terminated(&self) -> impl Future<Output = ()> + Send + 'static {
        let (ask, asked) = oneshot::channel();
        if self.inner.hub.is_alive(self.inner.start) {
            let mut nodes = self.inner.hub.nodes();
            nodes[self.inner.start.node.0].asks_for_end.push(ask);
        }
        async move {
            if asked.await.is_err() {
                // Only a dead start is never asked.
                std::future::pending().await
            }
        }
    }

    /// Puts a line into the trace: what a client was answered, for instance.
    pub fn note(&self, what: impl std::fmt::Display) {
        self.inner
            .hub
            .record(self.inner.start, format_args!("{what}"));
    }
}

impl Env for SimEnv {
    type Net = SimNet;
    type Clock = SimClock;
    type Disk = SimDisk;

    fn net(&self) -> &SimNet {
        &self.inner.net
    }

    fn clock(&self) -> &SimClock {
        &self.inner.clock
    }

    fn disk(&self) -> &SimDisk {
        &self.inner.disk
    }

    fn rng(&self, stream: &str) -> Rng {
        self.inner.hub.node_stream(self.inner.start.node, stream)
    }

    fn spawn(
        &self,
        _name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        let (task, abortion) = Task::new();
        // By the node's own handle: a destructor may spawn while the runtime is being dropped.
        self.inner.handle.spawn(abortion.over(future));
        task
    }

    fn cores(&self) -> usize {
        self.inner.cores
    }

    fn spawn_on(
        &self,
        core: usize,
        _name: &'static str,
        make: impl FnOnce() -> LocalBoxFuture<'static, ()> + Send + 'static,
    ) -> Task {
        assert!(
            core < self.inner.cores,
            "core {core} of {}",
            self.inner.cores
        );
        let (task, abortion) = Task::new();
        let job: Job = Box::new(move || Box::pin(abortion.over(make())));
        // Refused only when the node has ended.
        let _ = self.inner.jobs.send(job);
        task
    }

    fn background<T: Send + 'static>(
        &self,
        _name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, Option<T>> {
        let task = self.inner.handle.spawn(future);
        Box::pin(async move { task.await.ok() })
    }

    fn exit(&self, why: &str) -> ! {
        self.inner.hub.exit(self.inner.start, why);
        std::panic::resume_unwind(Box::new(NodeExit));
    }
}
