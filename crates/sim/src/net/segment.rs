//! What travels between the two ends of a connection, and what arriving does.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng as _;

use crate::hub::{Hub, Start, between};
use crate::net::{Network, pair, reaches};
use crate::trace::digest;
use crate::world::NodeId;

/// How long after the way is open again what was held is sent again.
const SENT_AGAIN: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_millis(400);

/// How likely a dead process' connection is reset rather than closed, when nothing in it was left unread (that always resets).
const RESET_PROBABILITY: f64 = 0.3;

/// What travels.
#[derive(Debug)]
pub(super) enum Segment {
    Data(Bytes),
    /// No more data from that end.
    Fin,
    /// The connection is over.
    Reset,
    /// So many bytes were read.
    Credit(usize),
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) start: Start,
    pub(super) inbox: VecDeque<Bytes>,
    /// The other end sends no more.
    pub(super) fin: bool,
    pub(super) broken: Option<io::ErrorKind>,
    /// The program has let go of this end.
    pub(super) closed: bool,
    pub(super) fin_sent: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// Bytes this end sent for which no credit has come back.
    pub(super) in_flight: usize,
    /// Bytes this end read for which it has sent no credit.
    pub(super) uncredited: usize,
    /// When the last segment of this end arrives, us: later ones do not overtake it.
    pub(super) last_arrival_us: u64,
    /// Segments of this end that cannot arrive for now.
    held: Vec<Segment>,
    /// When the first of them was held.
    held_since: Duration,
}

impl End {
    pub(super) fn new(start: Start) -> Self {
        Self {
            start,
            inbox: VecDeque::new(),
            fin: false,
            broken: None,
            closed: false,
            fin_sent: false,
            reader: None,
            writer: None,
            in_flight: 0,
            uncredited: 0,
            last_arrival_us: 0,
            held: Vec::new(),
            held_since: Duration::ZERO,
        }
    }

    fn take_wakers(&mut self) -> [Option<Waker>; 2] {
        [self.reader.take(), self.writer.take()]
    }
}

fn wake(wakers: impl IntoIterator<Item = Option<Waker>>) {
    for waker in wakers.into_iter().flatten() {
        waker.wake();
    }
}

impl Network {
    /// Delay after which a segment sent now arrives, behind those sent before.
    fn delay(&mut self, now_us: u64, id: u64, side: usize) -> Option<Duration> {
        let ends = self.connections.get(&id)?;
        let (from, to) = (ends[side].start.node, ends[1 - side].start.node);
        let latency = self.latency(from, to);
        let end = &mut self.connections.get_mut(&id)?[side];
        let arrival = (now_us + latency.as_micros() as u64).max(end.last_arrival_us);
        end.last_arrival_us = arrival;
        Some(Duration::from_micros(arrival - now_us))
    }
}

/// Sends from one side of a connection to the other.
pub(super) fn send(hub: &Arc<Hub>, id: u64, side: usize, segment: Segment) {
    let delay = hub.net().delay(hub.now_us(), id, side);
    if let Some(delay) = delay {
        hub.after(delay, move |hub| arrives(hub, id, side, segment));
    }
}

/// Sends bytes, sometimes in two pieces.
pub(super) fn send_data(hub: &Arc<Hub>, id: u64, side: usize, mut bytes: Bytes) {
    let cut = {
        let mut net = hub.net();
        let splits = net.config.split_probability;
        if bytes.len() > 1 && net.rng.random_bool(splits) {
            net.rng.random_range(1..bytes.len())
        } else {
            0
        }
    };
    if cut > 0 {
        send(hub, id, side, Segment::Data(bytes.split_to(cut)));
    }
    send(hub, id, side, Segment::Data(bytes));
}

fn arrives(hub: &Arc<Hub>, id: u64, side: usize, segment: Segment) -> Option<Start> {
    let (from, to, holds) = {
        let net = hub.net();
        let ends = net.connections.get(&id)?;
        (
            ends[side].start,
            ends[1 - side].start,
            !ends[side].held.is_empty(),
        )
    };
    // What is held goes first, even if the way has just been opened.
    if holds || !reaches(hub, from.node, to.node) {
        hold(hub, id, side, segment);
        return None;
    }
    deliver(hub, id, side, segment)
}

fn deliver(hub: &Arc<Hub>, id: u64, side: usize, segment: Segment) -> Option<Start> {
    let (from, to) = {
        let net = hub.net();
        let ends = net.connections.get(&id)?;
        (ends[side].start, ends[1 - side].start)
    };
    let closed = hub.net().connections.get(&id)?[1 - side].closed;
    if closed || !hub.is_alive(to) {
        // Nobody is there; the kernel says so. It answers no reset with a reset.
        if matches!(segment, Segment::Data(_) | Segment::Fin) && hub.is_alive(from) {
            send(hub, id, 1 - side, Segment::Reset);
        }
        forget_if_over(hub, id);
        return None;
    }
    record(hub, to, id, &segment);
    let wakers = {
        let mut net = hub.net();
        let ends = net.connections.get_mut(&id)?;
        let end = &mut ends[1 - side];
        match segment {
            Segment::Data(bytes) => {
                end.inbox.push_back(bytes);
                [end.reader.take(), None]
            }
            Segment::Fin => {
                end.fin = true;
                end.take_wakers()
            }
            Segment::Reset => {
                end.broken.get_or_insert(io::ErrorKind::ConnectionReset);
                end.take_wakers()
            }
            Segment::Credit(bytes) => {
                assert!(end.in_flight >= bytes, "credit for bytes never sent");
                end.in_flight -= bytes;
                [end.writer.take(), None]
            }
        }
    };
    wake(wakers);
    Some(to)
}

fn record(hub: &Hub, to: Start, id: u64, segment: &Segment) {
    match segment {
        Segment::Data(bytes) => hub.record(
            to,
            format_args!("net {id} gets {} bytes {:016x}", bytes.len(), digest(bytes)),
        ),
        other => hub.record(to, format_args!("net {id} gets {other:?}")),
    }
}

/// Keeps a segment back, as TCP would send it again; after a time without success the sender gives up.
fn hold(hub: &Arc<Hub>, id: u64, side: usize, segment: Segment) {
    let first = {
        let mut net = hub.net();
        let Some(ends) = net.connections.get_mut(&id) else {
            return;
        };
        let end = &mut ends[side];
        end.held.push(segment);
        let first = end.held.len() == 1;
        if first {
            end.held_since = hub.now();
        }
        first.then_some(net.config.gives_up_after)
    };
    if let Some(gives_up_after) = first {
        hub.after(gives_up_after, move |hub| {
            let (start, wakers) = {
                let mut net = hub.net();
                let end = &mut net.connections.get_mut(&id)?[side];
                // Or held anew, which another event looks after.
                if end.held.is_empty() || hub.now() < end.held_since + gives_up_after {
                    return None;
                }
                end.broken.get_or_insert(io::ErrorKind::TimedOut);
                (end.start, end.take_wakers())
            };
            hub.record(start, format_args!("net {id} timed out"));
            wake(wakers);
            Some(start)
        });
    }
}

/// Sends again, some time from now, what is held on the connections that `which` picks by the nodes of their ends.
fn release(hub: &Arc<Hub>, which: impl Fn(NodeId, NodeId) -> bool) {
    let mut released = Vec::new();
    {
        let mut net = hub.net();
        let Network {
            connections, rng, ..
        } = &mut *net;
        for (id, ends) in connections.iter_mut() {
            let picked = which(ends[0].start.node, ends[1].start.node);
            for (side, end) in ends.iter().enumerate() {
                if picked && !end.held.is_empty() {
                    released.push((*id, side, between(rng, &SENT_AGAIN)));
                }
            }
        }
    }
    for (id, side, delay) in released {
        hub.after(delay, move |hub| send_again(hub, id, side));
    }
}

fn send_again(hub: &Arc<Hub>, id: u64, side: usize) -> Option<Start> {
    let (from, to) = {
        let net = hub.net();
        let ends = net.connections.get(&id)?;
        (ends[side].start.node, ends[1 - side].start)
    };
    if !reaches(hub, from, to.node) {
        return None;
    }
    let held = std::mem::take(&mut hub.net().connections.get_mut(&id)?[side].held);
    for segment in held {
        deliver(hub, id, side, segment);
    }
    Some(to)
}

/// Ends a partition.
pub(crate) fn heal(hub: &Arc<Hub>, a: NodeId, b: NodeId) {
    hub.net().parted.remove(&pair(a, b));
    release(hub, |one, other| pair(one, other) == pair(a, b));
}

/// A machine has power again: what was sent to its old processes is sent again, and meets a kernel that knows nothing of it.
pub(crate) fn power_on(hub: &Arc<Hub>, node: NodeId) {
    release(hub, |one, other| one == node || other == node);
}

/// Listening ends with the process, whatever ended it.
pub(crate) fn stop_listening(hub: &Hub, start: Start) {
    let dropped: Vec<_> = {
        let mut net = hub.net();
        let listeners = std::mem::take(&mut net.listeners);
        let (mine, others) = listeners
            .into_iter()
            .partition(|(_, listener)| listener.start == start);
        net.listeners = others;
        let mine: std::collections::BTreeMap<_, _> = mine;
        mine.into_values().collect()
    };
    // Outside the lock: what nobody accepted are streams.
    drop(dropped);
}

/// The kernel closes what a dead process had open, in the order it was made.
pub(crate) fn close_all(hub: &Arc<Hub>, start: Start) {
    let mut closed = Vec::new();
    {
        let mut net = hub.net();
        let Network {
            connections, rng, ..
        } = &mut *net;
        for (id, ends) in connections.iter_mut() {
            for (side, end) in ends.iter_mut().enumerate() {
                if end.start == start && !end.closed {
                    end.closed = true;
                    let unread = !end.inbox.is_empty();
                    closed.push((*id, side, unread || rng.random_bool(RESET_PROBABILITY)));
                }
            }
        }
    }
    for (id, side, reset) in closed {
        let last = if reset { Segment::Reset } else { Segment::Fin };
        send(hub, id, side, last);
    }
}

/// Resets every connection between two nodes, at both ends.
pub(crate) fn reset_between(hub: &Arc<Hub>, a: NodeId, b: NodeId) {
    let ids: Vec<u64> = {
        let net = hub.net();
        let found = net
            .connections
            .iter()
            .filter(|(_, ends)| pair(ends[0].start.node, ends[1].start.node) == pair(a, b));
        found.map(|(id, _)| *id).collect()
    };
    for id in ids {
        send(hub, id, 0, Segment::Reset);
        send(hub, id, 1, Segment::Reset);
    }
}

/// Drops a connection that nobody can use any more. Segments still under way find nothing.
pub(super) fn forget_if_over(hub: &Hub, id: u64) {
    let over = {
        let net = hub.net();
        net.connections.get(&id).is_some_and(|ends| {
            ends.iter()
                .all(|end| end.closed || !hub.is_alive(end.start))
        })
    };
    let forgotten = over.then(|| hub.net().connections.remove(&id));
    drop(forgotten);
}
