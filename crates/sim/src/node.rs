//! A running start of a node: its runtime, and "run until idle". It must not know of faults or of the queue.
//!
//! Idle is what tokio calls parking: the hook before it sets a flag and wakes the future given to `block_on`, which then returns
//! instead of the thread going to sleep (facts/simulation.md section 5; tokio 1.54 or newer).

#![allow(
    clippy::disallowed_methods,
    reason = "the tasks of a node are spawned here"
)]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::future::LocalBoxFuture;
use futures::task::AtomicWaker;
use rand::RngCore;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use cadastre_env::Rng;

/// Makes a local task; sent to the node's runtime from wherever `spawn_on` is called.
pub(crate) type Job = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

#[derive(Default)]
struct Idle {
    parked: AtomicBool,
    /// A thread was started: somebody used the blocking pool, whose speed is the machine's.
    blocked: AtomicBool,
    waker: AtomicWaker,
}

/// The runtime of one start of a node. Dropping it drops every task of the node.
pub(crate) struct NodeRuntime {
    // In this order: local tasks go first.
    local: Option<LocalSet>,
    runtime: Runtime,
    idle: Arc<Idle>,
    jobs: mpsc::UnboundedSender<Job>,
}

impl NodeRuntime {
    pub(crate) fn new(mut rng: Rng) -> Self {
        let idle = Arc::new(Idle::default());
        let (hook, alarm) = (Arc::clone(&idle), Arc::clone(&idle));
        let mut seed = [0; 16];
        rng.fill_bytes(&mut seed);
        let runtime = Builder::new_current_thread()
            .rng_seed(tokio::runtime::RngSeed::from_bytes(&seed))
            // No timer: whoever sleeps with tokio itself panics, which fails the seed. In SlateDB that is one place, reached only
            // when a clock that was handed in goes back (C8); in our crates it would be a mistake. (tokio's paused clock would
            // hide both, and its feature `test-util` would be unified into every other crate of the workspace.)
            .on_thread_start(move || alarm.blocked.store(true, Ordering::Relaxed))
            .on_thread_park(move || {
                hook.parked.store(true, Ordering::Relaxed);
                hook.waker.wake();
            })
            .build()
            .expect("a runtime without I/O needs nothing of the operating system");
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        let local = LocalSet::new();
        local.spawn_local(async move {
            while let Some(make) = queue.recv().await {
                tokio::task::spawn_local(make());
            }
        });
        Self {
            local: Some(local),
            runtime,
            idle,
            jobs,
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    pub(crate) fn jobs(&self) -> mpsc::UnboundedSender<Job> {
        self.jobs.clone()
    }

    /// Adds the node's program; it runs at the next [`Self::run_until_idle`].
    pub(crate) fn spawn_main(&self, program: LocalBoxFuture<'static, ()>) {
        if let Some(local) = &self.local {
            local.spawn_local(program);
        }
    }

    /// Whether a task has used tokio's blocking pool: then nothing is repeatable any more.
    pub(crate) fn has_blocked(&self) -> bool {
        self.idle.blocked.load(Ordering::Relaxed)
    }

    /// Runs every task that can run, and those they wake.
    pub(crate) fn run_until_idle(&self) {
        let Some(local) = &self.local else { return };
        let idle = Arc::clone(&self.idle);
        idle.parked.store(false, Ordering::Relaxed);
        local.block_on(
            &self.runtime,
            poll_fn(|context| {
                idle.waker.register(context.waker());
                if idle.parked.swap(false, Ordering::Relaxed) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }),
        );
    }
}

impl Drop for NodeRuntime {
    fn drop(&mut self) {
        // Destructors of local tasks may look for the runtime.
        let _inside = self.runtime.enter();
        self.local = None;
    }
}
