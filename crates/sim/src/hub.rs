//! What all nodes of a world share: the queue of timed events, who lives, and the data of network, disks and trace.
//!
//! Everything here is data. Code of a node runs only in `node`, and only when the conductor says so. Locks are held for a few
//! lines and never while a waker is called or a value of a node's is dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::channel::oneshot;
use rand::{Rng as _, SeedableRng};

use cadastre_env::{Millis, Rng};

use crate::disk::Drive;
use crate::faults::Fault;
use crate::net::Network;
use crate::trace::Trace;
use crate::world::{NodeId, WorldConfig};

/// Wall clock at the start of every world: a round moment, so that times are easy to read in a trace.
pub(crate) const EPOCH_MS: Millis = 1_700_000_000_000;

/// One start of a node. What belongs to an older start is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Start {
    pub(crate) node: NodeId,
    pub(crate) incarnation: u32,
}

/// What an event does; it names the start that must be run after it, if any.
pub(crate) type Action = Box<dyn FnOnce(&Arc<Hub>) -> Option<Start> + Send>;

/// Place of an event in the queue: time in microseconds, then order of creation.
pub(crate) type EventKey = (u64, u64);

#[derive(Default)]
struct Queue {
    now_us: u64,
    sequence: u64,
    events: BTreeMap<EventKey, Action>,
}

/// What is known of a node outside its program.
#[derive(Debug)]
pub(crate) struct NodeFacts {
    pub(crate) name: Arc<str>,
    pub(crate) incarnation: u32,
    /// The process runs (it may be paused).
    pub(crate) alive: bool,
    /// The machine has power: its kernel answers for dead processes.
    pub(crate) powered: bool,
    pub(crate) paused: bool,
    /// Wall clock minus the world's, ms.
    pub(crate) skew_ms: i64,
    /// The program called `exit`; the conductor has not cleaned up yet.
    pub(crate) exiting: Option<String>,
    /// Who wants to know when the program is asked to stop.
    pub(crate) asks_for_end: Vec<oneshot::Sender<()>>,
    /// Streams of random numbers given out, so that a second one of the same name differs.
    streams: BTreeMap<String, u64>,
}

pub(crate) struct Hub {
    seed: u64,
    pub(crate) config: WorldConfig,
    queue: Mutex<Queue>,
    trace: Mutex<Trace>,
    nodes: Mutex<Vec<NodeFacts>>,
    net: Mutex<Network>,
    drives: Mutex<Vec<Drive>>,
    faults: Mutex<Vec<Fault>>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("seed", &self.seed).finish()
    }
}

/// The simulator is one thread: a poisoned lock means that it panicked itself, and that panic is the one to read.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Hub {
    pub(crate) fn new(seed: u64, config: WorldConfig) -> Arc<Self> {
        let trace = Trace::new(config.keep_trace);
        let net = Network::new(config.net.clone(), derive(seed, "network", 0));
        Arc::new(Self {
            seed,
            config,
            queue: Mutex::default(),
            trace: Mutex::new(trace),
            nodes: Mutex::default(),
            net: Mutex::new(net),
            drives: Mutex::default(),
            faults: Mutex::default(),
        })
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    // Time and events.

    pub(crate) fn now_us(&self) -> u64 {
        locked(&self.queue).now_us
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_micros(self.now_us())
    }

    pub(crate) fn wall(&self, node: NodeId) -> Millis {
        let skew = locked(&self.nodes)[node.0].skew_ms;
        (EPOCH_MS + self.now_us() / 1000).saturating_add_signed(skew)
    }

    /// Puts an event behind all others of the same time.
    pub(crate) fn after(
        &self,
        delay: Duration,
        action: impl FnOnce(&Arc<Hub>) -> Option<Start> + Send + 'static,
    ) -> EventKey {
        let mut queue = locked(&self.queue);
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        queue.sequence += 1;
        let key = (queue.now_us.saturating_add(delay_us), queue.sequence);
        queue.events.insert(key, Box::new(action));
        key
    }

    pub(crate) fn cancel(&self, key: EventKey) {
        let action = locked(&self.queue).events.remove(&key);
        // Dropped outside the lock: it may hold values whose destructors come back here.
        drop(action);
    }

    /// Takes the next event not after `until_us` and sets the time to it; without one the time becomes `until_us`.
    pub(crate) fn next_event(&self, until_us: u64) -> Option<Action> {
        let mut queue = locked(&self.queue);
        match queue.events.first_entry() {
            Some(first) if first.key().0 <= until_us => {
                let (key, action) = first.remove_entry();
                assert!(key.0 >= queue.now_us, "time goes back");
                queue.now_us = key.0;
                Some(action)
            }
            _ => {
                queue.now_us = queue.now_us.max(until_us);
                None
            }
        }
    }

    /// Forgets all events, at the end of a world.
    pub(crate) fn clear(&self) {
        let events = std::mem::take(&mut locked(&self.queue).events);
        drop(events);
    }

    pub(crate) fn command(&self, fault: Fault) {
        locked(&self.faults).push(fault);
    }

    pub(crate) fn take_commands(&self) -> Vec<Fault> {
        std::mem::take(&mut *locked(&self.faults))
    }

    // Randomness.

    /// A stream of the world's own, for one purpose.
    pub(crate) fn stream(&self, purpose: &str, number: u64) -> Rng {
        derive(self.seed, purpose, number)
    }

    /// A stream of a node's; each call gives another one, over restarts too.
    pub(crate) fn node_stream(&self, node: NodeId, purpose: &str) -> Rng {
        let number = {
            let mut nodes = locked(&self.nodes);
            let streams = &mut nodes[node.0].streams;
            let number = streams.entry(purpose.to_owned()).or_default();
            *number += 1;
            *number
        };
        derive(self.seed, &format!("{}/{purpose}", node.0), number)
    }

    // Nodes.

    pub(crate) fn nodes(&self) -> MutexGuard<'_, Vec<NodeFacts>> {
        locked(&self.nodes)
    }

    pub(crate) fn add_node(&self, name: &str) -> NodeId {
        let mut nodes = locked(&self.nodes);
        let node = NodeId(nodes.len());
        nodes.push(NodeFacts {
            name: name.into(),
            incarnation: 0,
            alive: false,
            powered: true,
            paused: false,
            skew_ms: 0,
            exiting: None,
            asks_for_end: Vec::new(),
            streams: BTreeMap::new(),
        });
        locked(&self.drives).push(Drive::new(
            self.config.disk.clone(),
            derive(self.seed, "disk", node.0 as u64),
        ));
        node
    }

    pub(crate) fn is_alive(&self, start: Start) -> bool {
        let nodes = locked(&self.nodes);
        let facts = &nodes[start.node.0];
        facts.alive && facts.incarnation == start.incarnation && facts.exiting.is_none()
    }

    /// From now on nothing that this start does has an effect; the conductor clears it away at its next step.
    pub(crate) fn exit(&self, start: Start, why: &str) {
        if !self.is_alive(start) {
            return;
        }
        self.record(start, format_args!("exit: {why}"));
        locked(&self.nodes)[start.node.0].exiting = Some(why.to_owned());
    }

    // Parts.

    pub(crate) fn net(&self) -> MutexGuard<'_, Network> {
        locked(&self.net)
    }

    pub(crate) fn drive<T>(&self, node: NodeId, work: impl FnOnce(&mut Drive) -> T) -> T {
        let now = self.now();
        let mut drives = locked(&self.drives);
        let drive = &mut drives[node.0];
        drive.set_now(now);
        work(drive)
    }

    // Trace.

    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        locked(&self.trace)
    }

    /// Records what a node did; what a dead start does has no effect and leaves no line.
    pub(crate) fn record(&self, start: Start, what: fmt::Arguments<'_>) {
        if self.is_alive(start) {
            let name = Arc::clone(&locked(&self.nodes)[start.node.0].name);
            self.record_as(&name, what);
        }
    }

    pub(crate) fn record_as(&self, who: &str, what: fmt::Arguments<'_>) {
        let now = self.now_us();
        locked(&self.trace).record(now, who, what);
    }
}

fn derive(seed: u64, purpose: &str, number: u64) -> Rng {
    // Fixed keys, as in the trace.
    let mut hash = DefaultHasher::new();
    (seed, purpose, number).hash(&mut hash);
    Rng::seed_from_u64(hash.finish())
}

/// A duration between two bounds, in microseconds' steps.
pub(crate) fn between(rng: &mut Rng, range: &std::ops::RangeInclusive<Duration>) -> Duration {
    let from = range.start().as_micros() as u64;
    let to = (range.end().as_micros() as u64).max(from);
    Duration::from_micros(rng.random_range(from..=to))
}
