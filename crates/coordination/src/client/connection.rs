//! One connection of a session: frames out, frames in, and the connect exchange.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Env, HostPort, Net};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Semaphore;

use crate::frame::{FrameReader, Incoming};
use crate::jute::{ConnectRequest, ConnectResponse, FRAME_MAX, Request};

type Stream<E> = <<E as Env>::Net as Net>::Stream;

pub(super) struct Connection<E: Env> {
    reader: ReadHalf<Stream<E>>,
    writer: WriteHalf<Stream<E>>,
    frames: FrameReader,
    room: Arc<Semaphore>,
    out: BytesMut,
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<E: Env> Connection<E> {
    pub(super) async fn open(env: &E, server: &HostPort) -> io::Result<Self> {
        let stream = env.net().connect(server).await?;
        let (reader, writer) = tokio::io::split(stream);
        Ok(Self {
            reader,
            writer,
            frames: FrameReader::default(),
            // One frame at a time; it is gone before the next is read.
            room: Arc::new(Semaphore::new(FRAME_MAX)),
            out: BytesMut::new(),
        })
    }

    /// The connect exchange.
    pub(super) async fn greet(&mut self, request: &ConnectRequest) -> io::Result<ConnectResponse> {
        request.encode(&mut self.out);
        self.flush().await?;
        let frame = self.next().await?;
        ConnectResponse::decode(frame).map_err(invalid)
    }

    /// Queues a request; nothing leaves before [`Connection::flush`].
    pub(super) fn queue(&mut self, xid: i32, request: &Request) {
        request.encode(xid, &mut self.out);
    }

    /// Writes what is queued.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        self.writer.write_all(&out).await
    }

    /// The next frame. May be cancelled without loss.
    pub(super) async fn next(&mut self) -> io::Result<Bytes> {
        loop {
            match self.frames.next(&mut self.reader, &self.room).await? {
                Incoming::Started => {}
                Incoming::Frame(frame) => return Ok(frame.bytes),
                Incoming::NoLength(_) => return Err(invalid("a frame over the limit")),
                Incoming::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}
