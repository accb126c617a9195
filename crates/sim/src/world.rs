//! The world and its conductor: nodes, time, faults, and what counts as a failure of a seed.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Once};
use std::time::Duration;

use futures::future::LocalBoxFuture;
use rand::Rng as _;

use crate::disk::DiskConfig;
use crate::env::SimEnv;
use crate::faults::{Fault, FaultPlan};
use crate::hub::{Hub, Start};
use crate::net::NetConfig;
use crate::node::NodeRuntime;
use crate::trace::Trace;

/// Events of one simulated second beyond which the world counts as livelocked. The busiest honest second measured had about
/// 15,000 (facts/simulation.md section 8).
const EVENTS_PER_SECOND_MAX: u64 = if cfg!(test) { 50_000 } else { 2_000_000 };

/// Most logical cores of a node; the number is drawn at each start.
const CORES_MAX: usize = 4;

/// A node of a world: a machine with a disk, on which one program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

/// Properties of a world that do not change while it runs.
#[derive(Debug, Clone, Default)]
pub struct WorldConfig {
    /// Keep all lines of the trace, not only its hash and its end.
    pub keep_trace: bool,
    /// Network.
    pub net: NetConfig,
    /// Every node's disk.
    pub disk: DiskConfig,
}

/// Why a seed failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Seed of the world.
    pub seed: u64,
    /// Simulated time.
    pub at: Duration,
    /// What happened.
    pub what: String,
    /// The end of the trace; all of it if it was kept.
    pub tail: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.tail {
            writeln!(f, "  {line}")?;
        }
        write!(
            f,
            "seed {} failed at {:?}: {}",
            self.seed, self.at, self.what
        )
    }
}

impl std::error::Error for Failure {}

type Program = Arc<dyn Fn(SimEnv) -> LocalBoxFuture<'static, ()>>;

struct Node {
    program: Program,
    running: Option<(Start, NodeRuntime)>,
    /// Events came while it was paused.
    behind: bool,
    /// How long after a program ended itself it is started again, if it is.
    restarts_after: Option<RangeInclusive<Duration>>,
}

/// A simulated world.
pub struct World {
    hub: Arc<Hub>,
    nodes: Vec<Node>,
    events_this_second: u64,
    second: u64,
    events: u64,
    exits: Vec<Exit>,
}

/// A program that ended itself.
#[derive(Debug, Clone)]
pub struct Exit {
    /// When.
    pub at: Duration,
    /// Which.
    pub node: NodeId,
    /// Why, in its words.
    pub why: String,
}

impl World {
    /// An empty world.
    pub fn new(seed: u64, config: WorldConfig) -> Self {
        catch_panics();
        PANICS.with_borrow_mut(Vec::clear);
        Self {
            hub: Hub::new(seed, config),
            nodes: Vec::new(),
            events_this_second: 0,
            second: 0,
            events: 0,
            exits: Vec::new(),
        }
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// A machine that runs this program at every start. Other nodes find it by its name. It does not run yet.
    pub fn add_node(
        &mut self,
        name: &str,
        program: impl Fn(SimEnv) -> LocalBoxFuture<'static, ()> + 'static,
    ) -> NodeId {
        let node = self.hub.add_node(name);
        self.nodes.push(Node {
            program: Arc::new(program),
            running: None,
            behind: false,
            restarts_after: None,
        });
        node
    }

    /// A program that ends itself is started again some time later, as a supervisor would.
    pub fn supervise(&mut self, node: NodeId, restarts_after: RangeInclusive<Duration>) {
        self.nodes[node.0].restarts_after = Some(restarts_after);
    }

    /// Programs that ended themselves.
    pub fn exits(&self) -> &[Exit] {
        &self.exits
    }

    /// Lets the faults of a plan happen at their times, counted from now.
    pub fn follow(&self, plan: &FaultPlan) {
        for (at, fault) in plan.faults() {
            let fault = fault.clone();
            self.hub.after(*at, move |hub| {
                hub.command(fault);
                None
            });
        }
    }

    /// Does a fault (or a start) now.
    pub fn apply(&mut self, fault: &Fault) {
        let line = format!("{fault:?}");
        self.hub.record_as("world", format_args!("{line}"));
        match *fault {
            Fault::Start { node } => self.start(node),
            Fault::Crash { node } => self.end(node, false),
            Fault::PowerCut { node } => self.end(node, true),
            Fault::Terminate { node } => self.terminate(node),
            Fault::Pause { node, lasts } => {
                self.hub.nodes()[node.0].paused = true;
                self.hub.after(lasts, move |hub| {
                    hub.command(Fault::Resume { node });
                    None
                });
            }
            Fault::Resume { node } => self.resume(node),
            Fault::Partition { a, b, lasts } => {
                self.hub.net().part(a, b);
                self.hub.after(lasts, move |hub| {
                    hub.command(Fault::Heal { a, b });
                    None
                });
            }
            Fault::Heal { a, b } => crate::net::heal(&self.hub, a, b),
            Fault::ResetConnections { a, b } => crate::net::reset_between(&self.hub, a, b),
            Fault::ClockStep { node, by_ms } => self.hub.nodes()[node.0].skew_ms += by_ms,
            Fault::DiskFull { node, lasts } => {
                self.hub.drive(node, |drive| drive.set_full(true));
                self.hub.after(lasts, move |hub| {
                    hub.drive(node, |drive| drive.set_full(false));
                    None
                });
            }
            Fault::SyncFailure { node } => self.hub.drive(node, |drive| drive.fail_next_sync()),
        }
    }

    /// Whether a node's process runs.
    pub fn is_running(&self, node: NodeId) -> bool {
        self.hub.nodes()[node.0].alive
    }

    fn start(&mut self, node: NodeId) {
        let start = {
            let mut nodes = self.hub.nodes();
            let facts = &mut nodes[node.0];
            if facts.alive {
                return;
            }
            facts.incarnation += 1;
            facts.alive = true;
            facts.powered = true;
            facts.paused = false;
            facts.exiting = None;
            facts.asks_for_end.clear();
            Start {
                node,
                incarnation: facts.incarnation,
            }
        };
        crate::net::power_on(&self.hub, node);
        let cores = self
            .hub
            .node_stream(node, "cores")
            .random_range(1..=CORES_MAX);
        let runtime = NodeRuntime::new(self.hub.node_stream(node, "tokio"));
        let env = SimEnv::new(&self.hub, start, &runtime, cores);
        let program = self.nodes[node.0].program.clone();
        runtime.spawn_main(program(env));
        self.nodes[node.0].running = Some((start, runtime));
        self.run_node(start);
    }

    /// A crash of the process, or of the machine.
    fn end(&mut self, node: NodeId, power_cut: bool) {
        let start = {
            let mut nodes = self.hub.nodes();
            let facts = &mut nodes[node.0];
            facts.exiting = None;
            facts.paused = false;
            let start = facts.alive.then_some(Start {
                node,
                incarnation: facts.incarnation,
            });
            // From here on, nothing of this start has an effect, its destructors included.
            facts.alive = false;
            facts.powered = !power_cut;
            start
        };
        if let Some(start) = start {
            crate::net::stop_listening(&self.hub, start);
            if !power_cut {
                crate::net::close_all(&self.hub, start);
            }
        }
        self.hub.drive(node, |drive| {
            drive.process_ended();
            if power_cut {
                drive.cut_power();
            }
        });
        RUNS_NODE.set(true);
        self.nodes[node.0].running = None;
        RUNS_NODE.set(false);
    }

    fn terminate(&mut self, node: NodeId) {
        let asked = std::mem::take(&mut self.hub.nodes()[node.0].asks_for_end);
        for ask in asked {
            // Refused only if nobody listens any more.
            let _ = ask.send(());
        }
        if let Some((start, _)) = &self.nodes[node.0].running {
            let start = *start;
            self.run_node(start);
        }
    }

    fn resume(&mut self, node: NodeId) {
        self.hub.nodes()[node.0].paused = false;
        if std::mem::take(&mut self.nodes[node.0].behind)
            && let Some((start, _)) = &self.nodes[node.0].running
        {
            let start = *start;
            self.run_node(start);
        }
    }

    fn run_node(&mut self, start: Start) {
        let paused = {
            let nodes = self.hub.nodes();
            let facts = &nodes[start.node.0];
            if !facts.alive || facts.incarnation != start.incarnation {
                return;
            }
            facts.paused
        };
        let node = &mut self.nodes[start.node.0];
        if paused {
            node.behind = true;
            return;
        }
        if let Some((_, runtime)) = &node.running {
            RUNS_NODE.set(true);
            runtime.run_until_idle();
            RUNS_NODE.set(false);
            if runtime.has_blocked() {
                let what = "a node used spawn_blocking, whose time is the machine's".to_owned();
                PANICS.with_borrow_mut(|panics| panics.push(what));
            }
        }
        let exiting = self.hub.nodes()[start.node.0].exiting.take();
        if let Some(why) = exiting {
            self.exited(start.node, why);
        }
    }

    fn exited(&mut self, node: NodeId, why: String) {
        self.end(node, false);
        self.exits.push(Exit {
            at: self.now(),
            node,
            why,
        });
        if let Some(range) = &self.nodes[node.0].restarts_after {
            let mut rng = self.hub.node_stream(node, "restarts");
            let pause = crate::hub::between(&mut rng, range);
            self.hub.after(pause, move |hub| {
                hub.command(Fault::Start { node });
                None
            });
        }
    }

    /// Runs for a simulated time.
    ///
    /// # Errors
    /// A node's task panicked, or the world does not get on.
    pub fn run_for(&mut self, duration: Duration) -> Result<(), Failure> {
        let until = self.now() + duration;
        self.run_until(until, |_| false).map(|_| ())
    }

    /// Runs until something holds, looked at after every event, or a simulated time has passed; tells which.
    ///
    /// # Errors
    /// As [`Self::run_for`].
    pub fn run_while(
        &mut self,
        duration: Duration,
        mut goes_on: impl FnMut(&World) -> bool,
    ) -> Result<bool, Failure> {
        let until = self.now() + duration;
        self.run_until(until, |world| !goes_on(world))
    }

    fn run_until(
        &mut self,
        until: Duration,
        mut done: impl FnMut(&World) -> bool,
    ) -> Result<bool, Failure> {
        let until_us = until.as_micros() as u64;
        loop {
            for fault in self.hub.take_commands() {
                self.apply(&fault);
            }
            self.check_panics()?;
            if done(self) {
                return Ok(true);
            }
            let Some(action) = self.hub.next_event(until_us) else {
                return Ok(false);
            };
            self.count_event()?;
            let hub = Arc::clone(&self.hub);
            if let Some(start) = action(&hub) {
                self.run_node(start);
            }
        }
    }

    fn count_event(&mut self) -> Result<(), Failure> {
        let second = self.now().as_secs();
        if second != self.second {
            self.second = second;
            self.events_this_second = 0;
        }
        self.events += 1;
        self.events_this_second += 1;
        if self.events_this_second > EVENTS_PER_SECOND_MAX {
            return Err(self.failure("livelock: too many events in one simulated second"));
        }
        Ok(())
    }

    fn check_panics(&self) -> Result<(), Failure> {
        let panics = PANICS.with_borrow_mut(std::mem::take);
        match panics.first() {
            Some(first) => Err(self.failure(first)),
            None => Ok(()),
        }
    }

    /// A failure at this moment, for checkers.
    pub fn failure(&self, what: impl fmt::Display) -> Failure {
        let trace = self.hub.trace();
        let tail = match trace.lines() {
            [] => trace.tail().map(str::to_owned).collect(),
            lines => lines.to_vec(),
        };
        drop(trace);
        Failure {
            seed: self.hub.seed(),
            at: self.now(),
            what: what.to_string(),
            tail,
        }
    }

    /// Simulated time since the world began.
    pub fn now(&self) -> Duration {
        self.hub.now()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Looks at the trace.
    pub fn with_trace<T>(&self, look: impl FnOnce(&Trace) -> T) -> T {
        look(&self.hub.trace())
    }

    /// A stream of random numbers of the world's own, for workloads and plans.
    pub fn rng(&self, purpose: &str) -> cadastre_env::Rng {
        self.hub.stream(purpose, 1)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Nodes end without a word: streams and timers of theirs must not act while their runtimes go.
        for facts in self.hub.nodes().iter_mut() {
            facts.alive = false;
        }
        RUNS_NODE.set(true);
        self.nodes.clear();
        RUNS_NODE.set(false);
        self.hub.clear();
    }
}

thread_local! {
    // Panics of node tasks on this thread. A hook is needed: SlateDB catches the panics of its own tasks.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static RUNS_NODE: Cell<bool> = const { Cell::new(false) };
}

/// Installs, once per process, a panic hook that notes panics of nodes and leaves all others to the hook before it.
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if RUNS_NODE.get() {
                let trace = std::backtrace::Backtrace::capture();
                let line = format!("a task panicked: {info}\n{trace}");
                PANICS.with_borrow_mut(|panics| panics.push(line));
            } else {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests;
