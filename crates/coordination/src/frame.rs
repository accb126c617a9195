//! Reads frames off a stream, bounded, holding no buffer between frames, so that 10,000 idle connections cost little.
//!
//! Every step may be cancelled without loss, so that it can stand in a `select!`. It must not know what is in a frame.

use std::io;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::jute::FRAME_MAX;

/// Frames up to this many bytes need no permit: nearly all requests are pings and reads of a path.
const SMALL: usize = 4_096;

/// How much of a large frame's buffer is allocated at a time, bytes: what the peer only announces costs nothing.
const GROW: usize = 64 * 1024;

/// A whole frame, and its share of the budget for large ones.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A frame has begun: from here a deadline makes sense.
    Started,
    /// A whole frame.
    Frame(Frame),
    /// Four bytes that are no length: a four-letter word, or garbage.
    NoLength([u8; 4]),
    /// The peer closed.
    Closed,
}

#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    header: [u8; 4],
    have: usize,
    body: Option<Body>,
}

#[derive(Debug)]
struct Body {
    length: usize,
    buffer: BytesMut,
    permit: Option<OwnedSemaphorePermit>,
}

impl FrameReader {
    /// The next thing. `large` holds one permit per byte that all frames over 4 KiB together may take.
    pub(crate) async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        large: &Arc<Semaphore>,
    ) -> io::Result<Incoming> {
        if self.body.is_none() {
            while self.have < 4 {
                let read = stream.read(&mut self.header[self.have..]).await?;
                if read == 0 {
                    return Ok(Incoming::Closed);
                }
                self.have += read;
            }
            self.have = 0;
            let length = usize::try_from(i32::from_be_bytes(self.header));
            let Some(length) = length.ok().filter(|&length| length <= FRAME_MAX) else {
                return Ok(Incoming::NoLength(self.header));
            };
            self.body = Some(Body {
                length,
                buffer: BytesMut::new(),
                permit: None,
            });
            return Ok(Incoming::Started);
        }
        let body = self.body.as_mut().expect("checked above");
        if body.length > SMALL && body.permit.is_none() {
            let bytes = u32::try_from(body.length).expect("at most FRAME_MAX");
            let permit = Arc::clone(large).acquire_many_owned(bytes).await;
            body.permit = Some(permit.map_err(io::Error::other)?);
        }
        while body.buffer.len() < body.length {
            let missing = body.length - body.buffer.len();
            if body.buffer.capacity() == body.buffer.len() {
                body.buffer.reserve(missing.min(GROW));
            }
            let read = stream
                .read_buf(&mut (&mut body.buffer).limit(missing))
                .await?;
            if read == 0 {
                return Ok(Incoming::Closed);
            }
        }
        let body = self.body.take().expect("it was there");
        Ok(Incoming::Frame(Frame {
            bytes: body.buffer.freeze(),
            permit: body.permit,
        }))
    }
}
