//! Faults, and plans of them drawn from the seed. What a fault does is the world's affair.

use std::time::Duration;

use rand::Rng as _;

use cadastre_env::Rng;

use crate::world::NodeId;

/// What can happen to a node or between two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The machine gets power if it had none, and the program starts; nothing if it runs.
    Start {
        /// Which.
        node: NodeId,
    },
    /// `kill -9`: connections are closed by the kernel, files keep what was written.
    Crash {
        /// Which.
        node: NodeId,
    },
    /// SIGTERM: the program is asked to stop ([`SimEnv::terminated`](crate::SimEnv::terminated)).
    Terminate {
        /// Which.
        node: NodeId,
    },
    /// The machine stops: connections stay half open, unsynced bytes and directory entries are kept or lost by coin.
    PowerCut {
        /// Which.
        node: NodeId,
    },
    /// The process stands still (SIGSTOP, a long stall) and then goes on.
    Pause {
        /// Which.
        node: NodeId,
        /// How long.
        lasts: Duration,
    },
    /// The end of a pause.
    Resume {
        /// Which.
        node: NodeId,
    },
    /// Nothing passes between two nodes.
    Partition {
        /// One.
        a: NodeId,
        /// The other.
        b: NodeId,
        /// How long.
        lasts: Duration,
    },
    /// The end of a partition.
    Heal {
        /// One.
        a: NodeId,
        /// The other.
        b: NodeId,
    },
    /// Every connection between two nodes is reset.
    ResetConnections {
        /// One.
        a: NodeId,
        /// The other.
        b: NodeId,
    },
    /// The wall clock jumps.
    ClockStep {
        /// Which.
        node: NodeId,
        /// How far, ms.
        by_ms: i64,
    },
    /// The disk has no space left.
    DiskFull {
        /// Which.
        node: NodeId,
        /// How long.
        lasts: Duration,
    },
    /// The next sync of a file fails, and what it should have made durable never will be.
    SyncFailure {
        /// Which.
        node: NodeId,
    },
}

/// How often what happens to one server, relative to each other; and how far apart.
#[derive(Debug, Clone)]
pub struct FaultRates {
    /// Time between two faults.
    pub every: std::ops::RangeInclusive<Duration>,
    /// How long a node stays down, a pause or a partition lasts.
    pub lasts: std::ops::RangeInclusive<Duration>,
    /// Weight of a crash.
    pub crash: u32,
    /// Weight of a power cut.
    pub power_cut: u32,
    /// Weight of a pause.
    pub pause: u32,
    /// Weight of a partition from one client.
    pub partition: u32,
    /// Weight of reset connections.
    pub reset: u32,
    /// Weight of a step of the wall clock.
    pub clock_step: u32,
    /// Weight of a stop by request.
    pub terminate: u32,
    /// Weight of a full disk.
    pub disk_full: u32,
    /// Weight of a failed sync.
    pub sync_failure: u32,
    /// How far the clock steps, ms.
    pub clock_step_ms: std::ops::RangeInclusive<i64>,
}

impl Default for FaultRates {
    fn default() -> Self {
        Self {
            every: Duration::from_millis(100)..=Duration::from_millis(800),
            lasts: Duration::from_millis(5)..=Duration::from_millis(800),
            crash: 4,
            power_cut: 3,
            pause: 2,
            partition: 2,
            reset: 2,
            clock_step: 1,
            terminate: 1,
            disk_full: 1,
            sync_failure: 1,
            clock_step_ms: -3_600_000..=3_600_000,
        }
    }
}

impl FaultRates {
    /// Nothing happens; for choosing what does.
    pub fn none() -> Self {
        Self {
            crash: 0,
            power_cut: 0,
            pause: 0,
            partition: 0,
            reset: 0,
            clock_step: 0,
            terminate: 0,
            disk_full: 0,
            sync_failure: 0,
            ..Self::default()
        }
    }
}

/// Faults at their times.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    faults: Vec<(Duration, Fault)>,
}

impl FaultPlan {
    /// An empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fault at a time counted from when the plan is followed.
    pub fn at(mut self, when: Duration, fault: Fault) -> Self {
        self.faults.push((when, fault));
        self
    }

    /// Draws faults of a server and between it and its clients until a time. Nothing is down, parted or paused at the end by
    /// more than `rates.lasts`.
    pub fn draw(
        rng: &mut Rng,
        until: Duration,
        server: NodeId,
        clients: &[NodeId],
        rates: &FaultRates,
    ) -> Self {
        let mut plan = Self::new();
        let mut at = crate::hub::between(rng, &rates.every);
        while at < until {
            let lasts = crate::hub::between(rng, &rates.lasts);
            plan.draw_one(rng, at, lasts, server, clients, rates);
            // One at a time: a crash of a node that is down would only be a shorter plan.
            at += lasts + crate::hub::between(rng, &rates.every);
        }
        plan
    }

    fn draw_one(
        &mut self,
        rng: &mut Rng,
        at: Duration,
        lasts: Duration,
        node: NodeId,
        clients: &[NodeId],
        rates: &FaultRates,
    ) {
        let weights = [
            rates.crash,
            rates.power_cut,
            rates.pause,
            rates.partition,
            rates.reset,
            rates.clock_step,
            rates.terminate,
            rates.disk_full,
            rates.sync_failure,
        ];
        let total: u32 = weights.iter().sum();
        if total == 0 {
            return;
        }
        let mut drawn = rng.random_range(0..total);
        let kind = weights.iter().position(|weight| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        });
        let other = (!clients.is_empty()).then(|| clients[rng.random_range(0..clients.len())]);
        let fault = match (kind, other) {
            (Some(0), _) => Fault::Crash { node },
            (Some(1), _) => Fault::PowerCut { node },
            (Some(2), _) => Fault::Pause { node, lasts },
            (Some(3), Some(b)) => Fault::Partition { a: node, b, lasts },
            (Some(4), Some(b)) => Fault::ResetConnections { a: node, b },
            (Some(6), _) => Fault::Terminate { node },
            (Some(7), _) => Fault::DiskFull { node, lasts },
            (Some(8), _) => Fault::SyncFailure { node },
            _ => {
                let by_ms = rng.random_range(rates.clock_step_ms.clone());
                Fault::ClockStep { node, by_ms }
            }
        };
        let down = matches!(fault, Fault::Crash { .. } | Fault::PowerCut { .. });
        self.faults.push((at, fault));
        if down {
            self.faults.push((at + lasts, Fault::Start { node }));
        }
    }

    /// When the last fault is over, counted from when the plan is followed.
    pub fn ends_after(&self, rates: &FaultRates) -> Duration {
        let last = self.faults.iter().map(|(at, _)| *at).max();
        last.unwrap_or_default() + *rates.lasts.end()
    }

    /// The faults in the order they were added.
    pub fn faults(&self) -> &[(Duration, Fault)] {
        &self.faults
    }
}
