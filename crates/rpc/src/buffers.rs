//! Bytes between a socket and a connection's logic: what came in and is not yet consumed, what is still to be written.
//!
//! An idle connection holds no buffer at all (10,000 of them must be cheap): reads go into one scratch buffer per thread and are
//! copied from there, so that a connection owns memory only for the part of a frame that has come. Must not know what the bytes
//! mean beyond the four bytes of length before a frame.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Size of a thread's scratch buffer, bytes: one read takes what a socket's buffer usually holds.
const SCRATCH_BYTES: usize = 64 * 1024;

/// A frame of which at least this much is missing is read straight into its own buffer, bytes.
const DIRECT_BYTES: usize = 32 * 1024;

/// By how much that buffer grows at a time at most, bytes: what a peer announces is no reason to allocate it.
const DIRECT_STEP: usize = 256 * 1024;

/// Length of the length before a frame.
pub(crate) const LENGTH_BYTES: usize = 4;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice());
}

/// What came in and is not yet consumed.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    bytes: BytesMut,
}

impl Inbound {
    /// Bytes waiting to be consumed.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The waiting bytes.
    pub(crate) fn peek(&self) -> &[u8] {
        &self.bytes
    }

    /// The length at the front, if all four bytes have come.
    pub(crate) fn peek_length(&self) -> Option<u32> {
        let length: &[u8; LENGTH_BYTES] = self.bytes.first_chunk()?;
        Some(u32::from_be_bytes(*length))
    }

    /// Takes bytes from the front; `len` must not be more than [`Inbound::len`].
    pub(crate) fn take(&mut self, len: usize) -> Bytes {
        let taken = self.bytes.split_to(len).freeze();
        self.shrink();
        taken
    }

    /// Drops bytes from the front; `len` must not be more than [`Inbound::len`].
    pub(crate) fn skip(&mut self, len: usize) {
        self.bytes.advance(len);
        self.shrink();
    }

    /// Gives the memory back once everything is consumed.
    fn shrink(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
        }
    }

    /// Reads once. `missing` says how many bytes the frame at the front still lacks; 0 if unknown. 0 read = end of stream.
    pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        missing: usize,
    ) -> Poll<io::Result<usize>> {
        if missing >= DIRECT_BYTES {
            self.bytes.reserve(missing.min(DIRECT_STEP));
            // The future holds nothing between polls.
            return pin!(stream.read_buf(&mut self.bytes)).poll(cx);
        }
        with_scratch(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
            self.bytes.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }

    /// Reads once and forgets what was read, for what is not worth keeping. 0 read = end of stream.
    pub(crate) fn poll_discard<S: AsyncRead + Unpin>(
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<usize>> {
        with_scratch(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }
}

fn with_scratch<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    // Never borrowed twice: the work is one poll of a socket, which calls nothing of ours.
    SCRATCH.with(|scratch| work(&mut scratch.borrow_mut()))
}

/// What is still to be written.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    bytes: BytesMut,
    /// Bytes handed to the socket since the start.
    written: u64,
}

impl Outbound {
    /// Bytes waiting to be written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Where to append.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Bytes that the socket has taken since the connection's start.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes that the socket will have taken once everything is written.
    pub(crate) fn end(&self) -> u64 {
        self.written + self.bytes.len() as u64
    }

    /// Writes as much as the socket takes. Ready when all is written.
    pub(crate) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<()>> {
        while !self.bytes.is_empty() {
            let count = ready!(Pin::new(&mut *stream).poll_write(cx, &self.bytes))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.bytes.advance(count);
            self.written += count as u64;
        }
        // Also what lies before the last byte written is given back.
        self.bytes = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::FutureExt;

    use super::*;

    fn now<T>(future: impl Future<Output = io::Result<T>>) -> T {
        future.now_or_never().unwrap().unwrap()
    }

    #[test]
    fn frames_are_cut_and_memory_is_given_back() {
        let mut stream: &[u8] = b"\0\0\0\x02ab\0\0";
        let mut inbound = Inbound::default();
        assert_eq!(inbound.peek_length(), None);
        let read = now(poll_fn(|cx| inbound.poll_fill(cx, &mut stream, 0)));
        assert_eq!((read, inbound.peek_length()), (8, Some(2)));
        inbound.skip(LENGTH_BYTES);
        assert_eq!(inbound.take(2), b"ab"[..]);
        assert_eq!((inbound.len(), inbound.peek_length()), (2, None));
        inbound.skip(2);
        assert_eq!(inbound.bytes.capacity(), 0);
    }

    #[test]
    fn a_large_frame_is_read_in_steps() {
        let source = vec![7; 3 * DIRECT_STEP];
        let mut stream = source.as_slice();
        let mut inbound = Inbound::default();
        while inbound.len() < source.len() {
            let missing = usize::MAX - inbound.len();
            now(poll_fn(|cx| inbound.poll_fill(cx, &mut stream, missing)));
            assert!(inbound.bytes.capacity() <= 2 * inbound.len() + DIRECT_STEP);
        }
        assert_eq!(inbound.peek(), source);
    }

    #[test]
    fn written_bytes_are_counted() {
        let mut outbound = Outbound::default();
        outbound.buffer().extend_from_slice(&[1; 5000]);
        assert_eq!((outbound.len(), outbound.end()), (5000, 5000));
        let mut sink = Vec::new();
        now(poll_fn(|cx| outbound.poll_write(cx, &mut sink)));
        assert_eq!(
            (outbound.len(), outbound.written(), sink.len()),
            (0, 5000, 5000)
        );
        assert_eq!(outbound.bytes.capacity(), 0);
    }
}
