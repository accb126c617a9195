//! One connection's task: reads frames for the owner, writes what the outbox holds.
//!
//! It reads only while everything before is written and not too much is in flight: a client that does not read its answers
//! is not read from. It must not know what is in a frame.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Elapsed, Env};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};

use super::outbox::{Closing, Outbox};
use super::{Command, Stream};
use crate::frame::{FrameReader, Incoming};
use crate::tree::ConnectionId;

/// How long a connection that we end waits for the peer to close, so that it gets our last bytes: closing a socket with
/// unread input resets it, and the peer may lose what it has not read yet.
const LINGER: Duration = Duration::from_secs(2);

/// What the peer may still send meanwhile, bytes.
const LINGER_BYTES_MAX: usize = 64 * 1024;

pub(super) struct Connection<E: Env> {
    pub(super) env: E,
    pub(super) id: ConnectionId,
    pub(super) stream: Stream<E>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) owner: mpsc::Sender<Command<Stream<E>>>,
    pub(super) large: Arc<Semaphore>,
    pub(super) in_flight_max: usize,
    pub(super) handshake_timeout: Duration,
    pub(super) stall_timeout: Duration,
}

impl<E: Env> Connection<E> {
    /// Runs until either side ends it, then tells the owner.
    pub(super) async fn run(mut self) {
        if let Err(error) = self.serve().await {
            tracing::debug!(connection = self.id, %error, "connection broke");
        }
        let connection = self.id;
        // An owner that is gone needs no telling.
        let _ = self.owner.send(Command::Gone { connection }).await;
    }

    async fn serve(&mut self) -> io::Result<()> {
        let clock = self.env.clock().clone();
        let mut reader = FrameReader::default();
        let mut deadline = Some(clock.mono() + self.handshake_timeout);
        let mut fresh = true;
        let mut input_open = true;
        loop {
            let work = self.outbox.take();
            if work.closing == Closing::Now {
                return Ok(());
            }
            if !work.bytes.is_empty() {
                self.write(&clock, work.bytes).await?;
                continue;
            }
            if work.closing == Closing::Flushed {
                return self.finish(&clock).await;
            }
            if !input_open && work.in_flight == 0 {
                return Ok(());
            }
            let may_read = input_open && work.in_flight < self.in_flight_max;
            let left = deadline.map(|deadline| deadline.saturating_sub(clock.mono()));
            let incoming = tokio::select! {
                biased;
                () = self.outbox.changed() => continue,
                incoming = reader.next(&mut self.stream, &self.large), if may_read => incoming?,
                () = clock.sleep(left.unwrap_or_default()), if left.is_some() => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            };
            let connection = self.id;
            let command = match incoming {
                Incoming::Started => {
                    deadline.get_or_insert(clock.mono() + self.stall_timeout);
                    continue;
                }
                Incoming::Frame(frame) => Command::Frame {
                    connection,
                    frame,
                    received: clock.mono(),
                },
                Incoming::NoLength(word) if fresh => Command::Word { connection, word },
                Incoming::NoLength(_) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "frame length"));
                }
                Incoming::Closed => {
                    // Half closed: what was asked is still answered (`echo ruok | nc`).
                    input_open = false;
                    deadline = None;
                    continue;
                }
            };
            input_open = matches!(command, Command::Frame { .. });
            fresh = false;
            deadline = None;
            self.outbox.request_handed_over();
            if self.owner.send(command).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn write(&mut self, clock: &E::Clock, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = clock.timeout(self.stall_timeout, self.stream.write(&bytes));
            let written = match written.await {
                Ok(written) => written?,
                Err(Elapsed) => return Err(io::ErrorKind::TimedOut.into()),
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.outbox.sent(written);
            let _ = bytes.split_to(written);
        }
        Ok(())
    }

    /// Closes our side and waits a little for the peer's.
    async fn finish(&mut self, clock: &E::Clock) -> io::Result<()> {
        self.stream.shutdown().await?;
        let stream = &mut self.stream;
        let drain = async move {
            let mut scrap = [0; 256];
            let mut total = 0;
            while total < LINGER_BYTES_MAX {
                match stream.read(&mut scrap).await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => total += read,
                }
            }
        };
        // Either way the connection ends here.
        let _ = clock.timeout(LINGER, drain).await;
        Ok(())
    }
}
