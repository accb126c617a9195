//! The simulated network: connections with latency, windows, splitting of what is sent, resets, half-open ends and partitions.
//!
//! 1. A write of a node becomes segments that arrive later, in order, as events; an unread byte counts against the sender's
//!    window until the reader's credit has travelled back.
//! 2. A segment that cannot arrive (partition, machine without power) is held, as TCP would send it again, until the way is open
//!    or the sender gives up.
//! 3. What arrives at an end whose process is gone is answered by a reset, if the machine has power.
//!
//! It must not know what the bytes mean.

mod segment;
mod stream;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures::channel::oneshot;
use rand::Rng as _;

use cadastre_env::{HostPort, Net, Rng};

use crate::hub::{Hub, Start, between};
use crate::world::NodeId;

use segment::{End, Segment};
pub(crate) use segment::{close_all, heal, power_on, reset_between, stop_listening};
pub use stream::{SimListener, SimStream};

/// First port given out for port 0, as Linux does.
const EPHEMERAL_PORT_MIN: u16 = 32_768;

/// Connections that wait to be accepted at one listener; more are refused (Linux: `somaxconn` 4096).
const BACKLOG_MAX: usize = 4096;

/// How often a connection attempt that gets no answer is sent again (Linux begins with 1 s).
const SYN_AGAIN: Duration = Duration::from_secs(1);

/// Properties of the network.
#[derive(Debug, Clone)]
pub struct NetConfig {
    /// One way between two nodes.
    pub latency: RangeInclusive<Duration>,
    /// One way inside a node.
    pub loopback: RangeInclusive<Duration>,
    /// How likely a segment takes much longer.
    pub slow_probability: f64,
    /// How long a slow one takes.
    pub slow: RangeInclusive<Duration>,
    /// Bytes sent and not yet read, per direction.
    pub window_bytes: usize,
    /// How likely a write arrives in two pieces.
    pub split_probability: f64,
    /// After what time without an answer an attempt to connect, or a connection with bytes under way, fails.
    pub gives_up_after: Duration,
}

impl Default for NetConfig {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(50)..=Duration::from_micros(600),
            loopback: Duration::from_micros(5)..=Duration::from_micros(60),
            slow_probability: 0.01,
            slow: Duration::from_millis(2)..=Duration::from_millis(40),
            window_bytes: 64 * 1024,
            split_probability: 0.1,
            gives_up_after: Duration::from_secs(20),
        }
    }
}

struct ListenerState {
    start: Start,
    waiting: VecDeque<(SimStream, SocketAddr)>,
    waker: Option<Waker>,
}

/// All connections and listeners of a world.
pub(crate) struct Network {
    config: NetConfig,
    rng: Rng,
    listeners: BTreeMap<(NodeId, u16), ListenerState>,
    connections: BTreeMap<u64, [End; 2]>,
    next_connection: u64,
    next_port: BTreeMap<NodeId, u16>,
    parted: BTreeSet<(NodeId, NodeId)>,
}

fn pair(a: NodeId, b: NodeId) -> (NodeId, NodeId) {
    (a.min(b), a.max(b))
}

fn address(node: NodeId) -> IpAddr {
    let [high, low] = (node.0 as u16 + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 0, high, low))
}

impl Network {
    pub(crate) fn new(config: NetConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            next_port: BTreeMap::new(),
            parted: BTreeSet::new(),
        }
    }

    pub(crate) fn part(&mut self, a: NodeId, b: NodeId) {
        self.parted.insert(pair(a, b));
    }

    fn latency(&mut self, a: NodeId, b: NodeId) -> Duration {
        if a == b {
            return between(&mut self.rng, &self.config.loopback.clone());
        }
        if self.rng.random_bool(self.config.slow_probability) {
            return between(&mut self.rng, &self.config.slow.clone());
        }
        between(&mut self.rng, &self.config.latency.clone())
    }

    fn free_port(&mut self, node: NodeId) -> u16 {
        let next = self.next_port.entry(node).or_insert(EPHEMERAL_PORT_MIN);
        let port = *next;
        *next = if port == u16::MAX {
            EPHEMERAL_PORT_MIN
        } else {
            port + 1
        };
        port
    }
}

/// Whether a packet from one node reaches the other's kernel.
fn reaches(hub: &Hub, from: NodeId, to: NodeId) -> bool {
    let powered = {
        let nodes = hub.nodes();
        nodes[to.0].powered && nodes[from.0].powered
    };
    powered && (from == to || !hub.net().parted.contains(&pair(from, to)))
}

/// The network as one start of a node sees it.
#[derive(Clone)]
pub struct SimNet {
    hub: Arc<Hub>,
    start: Start,
}

impl SimNet {
    pub(crate) fn new(hub: Arc<Hub>, start: Start) -> Self {
        Self { hub, start }
    }

    fn find(&self, host: &str) -> io::Result<NodeId> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.find_address(ip);
        }
        if host == "localhost" {
            return Ok(self.start.node);
        }
        let nodes = self.hub.nodes();
        let found = nodes.iter().position(|facts| &*facts.name == host);
        found.map(NodeId).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("no host is called '{host}'"),
            )
        })
    }

    fn find_address(&self, ip: IpAddr) -> io::Result<NodeId> {
        if ip.is_loopback() {
            return Ok(self.start.node);
        }
        let count = self.hub.nodes().len();
        (0..count)
            .map(NodeId)
            .find(|node| address(*node) == ip)
            .ok_or_else(|| io::ErrorKind::HostUnreachable.into())
    }
}

impl Net for SimNet {
    type Stream = SimStream;
    type Listener = SimListener;

    async fn listen(&self, at: SocketAddr) -> io::Result<SimListener> {
        let node = self.start.node;
        if !at.ip().is_unspecified() && self.find_address(at.ip()).ok() != Some(node) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let mut net = self.hub.net();
        let port = match at.port() {
            0 => loop {
                let port = net.free_port(node);
                if !net.listeners.contains_key(&(node, port)) {
                    break port;
                }
            },
            port => port,
        };
        if net.listeners.contains_key(&(node, port)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let state = ListenerState {
            start: self.start,
            waiting: VecDeque::new(),
            waker: None,
        };
        net.listeners.insert((node, port), state);
        Ok(SimListener::new(
            Arc::clone(&self.hub),
            self.start,
            SocketAddr::new(at.ip(), port),
        ))
    }

    async fn connect(&self, to: &HostPort) -> io::Result<SimStream> {
        let server = self.find(&to.host)?;
        let (answer, wait) = oneshot::channel();
        if self.hub.is_alive(self.start) {
            let (latency, port) = {
                let mut net = self.hub.net();
                let latency = net.latency(self.start.node, server);
                (latency, net.free_port(self.start.node))
            };
            let attempt = Attempt {
                client: self.start,
                from: SocketAddr::new(address(self.start.node), port),
                server,
                port: to.port,
                answer,
                gives_up_at: self.hub.now() + self.hub.net().config.gives_up_after,
            };
            self.hub.after(latency, move |hub| attempt.arrives(hub));
        }
        match wait.await {
            Ok(answer) => answer,
            // Only the answers of a dead start are dropped.
            Err(oneshot::Canceled) => std::future::pending().await,
        }
    }

    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![address(self.find(host)?)])
    }
}

/// A connection attempt on its way.
struct Attempt {
    client: Start,
    from: SocketAddr,
    server: NodeId,
    port: u16,
    answer: oneshot::Sender<io::Result<SimStream>>,
    gives_up_at: Duration,
}

impl Attempt {
    fn arrives(self, hub: &Arc<Hub>) -> Option<Start> {
        if !reaches(hub, self.client.node, self.server) {
            if hub.now() + SYN_AGAIN < self.gives_up_at {
                hub.after(SYN_AGAIN, move |hub| self.arrives(hub));
            } else {
                let left = self.gives_up_at.saturating_sub(hub.now());
                self.answer(hub, left, Err(io::ErrorKind::TimedOut.into()));
            }
            return None;
        }
        let mut net = hub.net();
        let latency = net.latency(self.server, self.client.node);
        let listener = net.listeners.get(&(self.server, self.port));
        let acceptor = listener
            .filter(|listener| hub.is_alive(listener.start))
            .filter(|listener| listener.waiting.len() < BACKLOG_MAX)
            .map(|listener| listener.start);
        let Some(acceptor) = acceptor else {
            drop(net);
            self.answer(hub, latency, Err(io::ErrorKind::ConnectionRefused.into()));
            return None;
        };
        net.next_connection += 1;
        let id = net.next_connection;
        net.connections
            .insert(id, [End::new(self.client), End::new(acceptor)]);
        let server_end = SimStream::new(Arc::clone(hub), acceptor, id, 1);
        let client_end = SimStream::new(Arc::clone(hub), self.client, id, 0);
        let waker = net
            .listeners
            .get_mut(&(self.server, self.port))
            .and_then(|listener| {
                listener.waiting.push_back((server_end, self.from));
                listener.waker.take()
            });
        drop(net);
        hub.record(acceptor, format_args!("connection {id} from {}", self.from));
        self.answer(hub, latency, Ok(client_end));
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(acceptor)
    }

    fn answer(self, hub: &Hub, after: Duration, answer: io::Result<SimStream>) {
        hub.after(after, move |hub| {
            if !hub.is_alive(self.client) {
                return None;
            }
            // Nobody waits any more: an established connection is closed by dropping it.
            drop(self.answer.send(answer));
            Some(self.client)
        });
    }
}
