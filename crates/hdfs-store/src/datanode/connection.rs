//! One connection to a DataNode: messages and packets in and out, each within a time. Knows no operations.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use cadastre_env::{Clock, HostPort};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::Message;
use cadastre_wire::hadoop::transfer::{self, Packet, PacketLength};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// What is read from the socket at one time at least, bytes.
const READ_BYTES: usize = 64 * 1024;

/// A connection, and what was read from it and not yet used.
pub(super) struct Connection<S> {
    pub(super) stream: S,
    pub(super) inbound: BytesMut,
}

/// A failure of a connection.
pub(super) fn broken(peer: &HostPort, why: &impl std::fmt::Display) -> Error {
    Error::new(Code::Io, format!("DataNode {peer}: {why}"))
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            inbound: BytesMut::new(),
        }
    }
}

/// The reading half of a connection.
pub(super) struct Reader<'a, R, C> {
    pub(super) stream: R,
    pub(super) inbound: &'a mut BytesMut,
    pub(super) clock: &'a C,
    pub(super) peer: &'a HostPort,
    /// Longest time without a byte while one is due.
    pub(super) silence: Duration,
}

impl<R: AsyncRead + Unpin + Send, C: Clock> Reader<'_, R, C> {
    /// Reads until there are so many bytes.
    async fn fill(&mut self, wanted: usize) -> Result<()> {
        while self.inbound.len() < wanted {
            let missing = wanted - self.inbound.len();
            self.inbound.reserve(missing.max(READ_BYTES));
            let reading = self.stream.read_buf(self.inbound);
            let got = match self.clock.timeout(self.silence, reading).await {
                Ok(got) => got,
                Err(_) => {
                    let why = format!("silent for {} s", self.silence.as_secs());
                    return Err(broken(self.peer, &why));
                }
            };
            match got {
                Ok(0) => {
                    let end: io::Error = io::ErrorKind::UnexpectedEof.into();
                    return Err(broken(self.peer, &end));
                }
                Ok(_) => {}
                Err(error) => return Err(broken(self.peer, &error)),
            }
        }
        Ok(())
    }

    async fn take(&mut self, wanted: usize) -> Result<Bytes> {
        self.fill(wanted).await?;
        Ok(self.inbound.split_to(wanted).freeze())
    }

    /// The next message.
    pub(super) async fn message<M: Message>(&mut self) -> Result<M> {
        let mut prefix = 1;
        let length = loop {
            self.fill(prefix).await?;
            let start = &self.inbound[..prefix];
            match transfer::message_length(start).map_err(|error| self.of_peer(error))? {
                Some(length) => break length,
                None => prefix += 1,
            }
        };
        self.inbound.advance(prefix);
        let bytes = self.take(length).await?;
        cadastre_wire::decode(bytes).map_err(|error| self.of_peer(error))
    }

    /// The next packet, not checked yet.
    pub(super) async fn packet(&mut self) -> Result<Packet> {
        self.fill(transfer::PACKET_START_BYTES).await?;
        let start = (self.inbound.first_chunk()).expect("as many were read");
        let length = PacketLength::parse(*start).map_err(|error| self.of_peer(error))?;
        self.inbound.advance(transfer::PACKET_START_BYTES);
        let rest = self.take(length.rest()).await?;
        transfer::parse_packet(length, rest).map_err(|error| self.of_peer(error))
    }

    pub(super) fn of_peer(&self, error: Error) -> Error {
        error.context(format!("DataNode {}", self.peer))
    }
}
