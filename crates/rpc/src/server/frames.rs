//! Cuts the incoming bytes of a started connection into request frames, within limits. Pure: bytes in, frames and refusals
//! out. Knows a request's header only as far as its call id, which a refused frame must be answered with.
//!
//! A frame that may not be taken, for its size or for what is already in flight, is never buffered: its header is read, the
//! rest is thrown away as it comes.

use std::sync::Arc;

use bytes::Bytes;
use cadastre_types::{Code, Error};
use cadastre_wire::pb;

use super::budget::{Budget, Share};
use crate::buffers::{Inbound, LENGTH_BYTES};
use crate::header::{self, HEADER_BYTES_MAX, Header};

/// What stands at the front of the stream.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A whole frame, without its length, and what it has drawn from the server's bytes.
    Frame(Bytes, Share),
    /// A frame that is not taken now: answer this call; the stream goes on.
    Refused(u32, Error),
    /// A frame that is never taken: answer this call, then close.
    TooBig(u32, Error),
    /// No frame can be found any more: close.
    Broken(&'static str),
    /// More bytes must come first.
    Incomplete,
}

/// Where the stream stands.
#[derive(Debug)]
enum State {
    /// Before a frame's length.
    Length,
    /// In a frame that is taken.
    Body { len: usize },
    /// In a frame that is not: what is left of it, and the answer that still waits for the call id.
    Skip { left: usize, why: Option<Why> },
}

#[derive(Debug, Clone, Copy)]
enum Why {
    TooBig { len: usize },
    Overload,
}

/// The cutter of one connection.
#[derive(Debug)]
pub(super) struct Frames {
    frame_max: usize,
    connection_max: usize,
    state: State,
    /// What the frame that is coming has drawn.
    share: Share,
}

impl Frames {
    /// At the start of a stream of frames.
    pub(super) fn new(frame_max: usize, connection_max: usize, budget: &Arc<Budget>) -> Self {
        Self {
            frame_max,
            connection_max,
            state: State::Length,
            share: Share::new(budget),
        }
    }

    /// Whether a frame has begun and not ended.
    pub(super) fn in_frame(&self, inbound: &Inbound) -> bool {
        inbound.len() > 0 || !matches!(self.state, State::Length)
    }

    /// How many bytes the frame at the front still lacks; 0 if that is unknown or they are not kept.
    pub(super) fn missing(&self, inbound: &Inbound) -> usize {
        match self.state {
            State::Body { len } => len.saturating_sub(inbound.len()),
            State::Length | State::Skip { .. } => 0,
        }
    }

    /// Takes what stands at the front. `in_flight`: bytes of the connection's frames taken before and not yet answered.
    pub(super) fn next(&mut self, inbound: &mut Inbound, in_flight: usize) -> Incoming {
        loop {
            match self.state {
                State::Length => {
                    let Some(length) = inbound.peek_length() else {
                        return Incoming::Incomplete;
                    };
                    if let Some(broken) = self.begin(length) {
                        return broken;
                    }
                    inbound.skip(LENGTH_BYTES);
                }
                State::Body { len } => {
                    if !self.draw(inbound.len().min(len), in_flight) {
                        self.share.shrink_to(0);
                        self.state = State::Skip {
                            left: len,
                            why: Some(Why::Overload),
                        };
                        continue;
                    }
                    if inbound.len() < len {
                        return Incoming::Incomplete;
                    }
                    self.state = State::Length;
                    return Incoming::Frame(inbound.take(len), self.share.take());
                }
                State::Skip {
                    left,
                    why: Some(why),
                } => return self.refuse(inbound, left, why),
                State::Skip { left, why: None } => {
                    let come = inbound.len().min(left);
                    inbound.skip(come);
                    if come < left {
                        self.state = State::Skip {
                            left: left - come,
                            why: None,
                        };
                        return Incoming::Incomplete;
                    }
                    self.state = State::Length;
                }
            }
        }
    }

    /// Looks at a frame's length.
    fn begin(&mut self, length: u32) -> Option<Incoming> {
        // Java reads it as a signed number.
        let Some(len) = i32::try_from(length)
            .ok()
            .and_then(|it| usize::try_from(it).ok())
        else {
            return Some(Incoming::Broken("negative frame length"));
        };
        if len == 0 {
            return Some(Incoming::Broken("empty frame"));
        }
        self.state = if len > self.frame_max {
            State::Skip {
                left: len,
                why: Some(Why::TooBig { len }),
            }
        } else {
            State::Body { len }
        };
        None
    }

    /// Accounts for the part of the frame that has come.
    fn draw(&mut self, come: usize, in_flight: usize) -> bool {
        let more = come.saturating_sub(self.share.held());
        in_flight.saturating_add(come) <= self.connection_max && self.share.grow(more)
    }

    /// Finds the call id of a frame that is not taken.
    fn refuse(&mut self, inbound: &Inbound, left: usize, why: Why) -> Incoming {
        let come = inbound.len().min(left);
        let call_id = match header::read(
            &inbound.peek()[..come],
            cadastre_wire::decode::<pb::RequestHeader>,
        ) {
            Header::Whole(header) => header.call_id.unwrap_or(0),
            Header::Incomplete if come < left && come < HEADER_BYTES_MAX => {
                return Incoming::Incomplete;
            }
            Header::Incomplete | Header::Bad => return Incoming::Broken("unreadable header"),
        };
        self.state = State::Skip { left, why: None };
        match why {
            Why::TooBig { len } => Incoming::TooBig(call_id, too_big(len, self.frame_max)),
            Why::Overload => Incoming::Refused(
                call_id,
                overload("the bytes of requests in flight are at their limit"),
            ),
        }
    }
}

/// The error of a frame over the limit.
fn too_big(len: usize, max: usize) -> Error {
    Error::new(
        Code::RequestTooBig,
        format!("a request of {len} bytes is over the limit of {max} (hbase.ipc.max.request.size)"),
    )
}

/// The error of what is refused for now.
pub(super) fn overload(what: &str) -> Error {
    Error::new(Code::CallQueueTooBig, format!("{what}; try again later"))
}

#[cfg(test)]
mod tests;
