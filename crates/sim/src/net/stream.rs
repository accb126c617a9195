//! The ends of a connection and the listening socket, as a node's program holds them.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use cadastre_env::Listener;

use crate::hub::{Hub, Start};
use crate::net::Segment;
use crate::net::segment::{forget_if_over, send, send_data};

/// One end of a simulated connection. Dropping it closes it; what a dead node drops has no effect.
pub struct SimStream {
    hub: Arc<Hub>,
    start: Start,
    id: u64,
    side: usize,
}

impl SimStream {
    pub(super) fn new(hub: Arc<Hub>, start: Start, id: u64, side: usize) -> Self {
        Self {
            hub,
            start,
            id,
            side,
        }
    }

    /// Takes what has arrived; `None` if there is nothing yet.
    fn take(&self, context: &Context<'_>, buffer: &mut ReadBuf<'_>) -> Option<io::Result<usize>> {
        let mut net = self.hub.net();
        let Some(ends) = net.connections.get_mut(&self.id) else {
            return Some(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let end = &mut ends[self.side];
        let mut taken = 0;
        while buffer.remaining() > 0
            && let Some(first) = end.inbox.front_mut()
        {
            let count = first.len().min(buffer.remaining());
            buffer.put_slice(&first[..count]);
            first.advance(count);
            taken += count;
            if first.is_empty() {
                end.inbox.pop_front();
            }
        }
        if taken > 0 || buffer.remaining() == 0 {
            end.uncredited += taken;
            return Some(Ok(taken));
        }
        if let Some(broken) = end.broken {
            return Some(Err(broken.into()));
        }
        if end.fin {
            return Some(Ok(0));
        }
        end.reader = Some(context.waker().clone());
        None
    }

    /// Sends credit for what was read, a quarter of a window at a time: the writer waits only for a full window.
    fn credit(&self) {
        let credit = {
            let mut net = self.hub.net();
            let enough = net.config.window_bytes / 4;
            let Some(ends) = net.connections.get_mut(&self.id) else {
                return;
            };
            let end = &mut ends[self.side];
            if end.uncredited < enough.max(1) {
                return;
            }
            std::mem::take(&mut end.uncredited)
        };
        send(&self.hub, self.id, self.side, Segment::Credit(credit));
    }

    /// How many bytes may be sent now; `None` if none.
    fn room(&self, context: &Context<'_>) -> Option<io::Result<usize>> {
        let mut net = self.hub.net();
        let window = net.config.window_bytes;
        let Some(ends) = net.connections.get_mut(&self.id) else {
            return Some(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let end = &mut ends[self.side];
        if let Some(broken) = end.broken {
            return Some(Err(broken.into()));
        }
        if end.fin_sent {
            return Some(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if end.in_flight >= window {
            end.writer = Some(context.waker().clone());
            return None;
        }
        Some(Ok(window - end.in_flight))
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.hub.is_alive(self.start) {
            return Poll::Pending;
        }
        match self.take(context, buffer) {
            None => Poll::Pending,
            Some(taken) => {
                self.credit();
                Poll::Ready(taken.map(|_| ()))
            }
        }
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.hub.is_alive(self.start) {
            return Poll::Pending;
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = match self.room(context) {
            None => return Poll::Pending,
            Some(Err(error)) => return Poll::Ready(Err(error)),
            Some(Ok(room)) => room.min(bytes.len()),
        };
        if let Some(ends) = self.hub.net().connections.get_mut(&self.id) {
            ends[self.side].in_flight += room;
        }
        let bytes = Bytes::copy_from_slice(&bytes[..room]);
        send_data(&self.hub, self.id, self.side, bytes);
        Poll::Ready(Ok(room))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.hub.is_alive(self.start) {
            let first = match self.hub.net().connections.get_mut(&self.id) {
                Some(ends) => !std::mem::replace(&mut ends[self.side].fin_sent, true),
                None => false,
            };
            if first {
                send(&self.hub, self.id, self.side, Segment::Fin);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        if !self.hub.is_alive(self.start) {
            return;
        }
        let last = {
            let mut net = self.hub.net();
            let Some(ends) = net.connections.get_mut(&self.id) else {
                return;
            };
            let end = &mut ends[self.side];
            end.closed = true;
            if !end.inbox.is_empty() {
                // As Linux does when a socket is closed with unread bytes.
                Some(Segment::Reset)
            } else if end.fin_sent || end.broken.is_some() {
                None
            } else {
                Some(Segment::Fin)
            }
        };
        if let Some(last) = last {
            send(&self.hub, self.id, self.side, last);
        }
        forget_if_over(&self.hub, self.id);
    }
}

/// A simulated listening socket.
pub struct SimListener {
    hub: Arc<Hub>,
    start: Start,
    at: SocketAddr,
}

impl SimListener {
    pub(super) fn new(hub: Arc<Hub>, start: Start, at: SocketAddr) -> Self {
        Self { hub, start, at }
    }
}

impl Listener for SimListener {
    type Stream = SimStream;

    fn accept(&mut self) -> impl Future<Output = io::Result<(SimStream, SocketAddr)>> + Send {
        let key = (self.start.node, self.at.port());
        let hub = &self.hub;
        let start = self.start;
        poll_fn(move |context| {
            let mut net = hub.net();
            // Gone only with the process.
            let Some(state) = net.listeners.get_mut(&key).filter(|l| l.start == start) else {
                return Poll::Pending;
            };
            match state.waiting.pop_front() {
                Some(accepted) => Poll::Ready(Ok(accepted)),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    fn local_addr(&self) -> SocketAddr {
        self.at
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        if self.hub.is_alive(self.start) {
            let key = (self.start.node, self.at.port());
            let removed = self.hub.net().listeners.remove(&key);
            // Connections that nobody accepted are closed, outside the lock.
            drop(removed);
        }
    }
}
