//! The frame reader over whole, cut, oversize and garbage input.

use bytes::BytesMut;
use cadastre_wire::frame::{Request, encode_request};
use proptest::prelude::*;

use super::*;

const FRAME_MAX: usize = 2000;

fn frame(call_id: u32, len: usize) -> Vec<u8> {
    let mut out = BytesMut::new();
    let request = Request {
        call_id,
        method: "Echo".to_owned(),
        param: vec![b'x'; len].into(),
        ..Default::default()
    };
    encode_request(&mut out, &request).unwrap();
    out.to_vec()
}

/// Feeds bytes in pieces; gives the call ids taken, and those refused.
struct Feed {
    inbound: Inbound,
    frames: Frames,
    budget: Arc<Budget>,
    shares: Vec<Share>,
    taken: Vec<u32>,
    refused: Vec<(u32, Code)>,
    broken: bool,
}

impl Feed {
    fn new(connection_max: usize, budget: usize) -> Self {
        let budget = Budget::new(budget);
        Self {
            inbound: Inbound::default(),
            frames: Frames::new(FRAME_MAX, connection_max, &budget),
            budget,
            shares: Vec::new(),
            taken: Vec::new(),
            refused: Vec::new(),
            broken: false,
        }
    }

    fn feed(&mut self, mut piece: &[u8]) {
        use futures::FutureExt;
        while !piece.is_empty() && !self.broken {
            let missing = self.frames.missing(&self.inbound);
            let fill = std::future::poll_fn(|cx| self.inbound.poll_fill(cx, &mut piece, missing));
            fill.now_or_never().unwrap().unwrap();
            self.take();
        }
    }

    fn take(&mut self) {
        loop {
            let in_flight = self.shares.iter().map(Share::held).sum();
            match self.frames.next(&mut self.inbound, in_flight) {
                Incoming::Frame(frame, share) => {
                    assert_eq!(share.held(), frame.len());
                    let request = cadastre_wire::frame::parse_request(frame).unwrap();
                    self.taken.push(request.call_id);
                    self.shares.push(share);
                }
                Incoming::Refused(call_id, error) | Incoming::TooBig(call_id, error) => {
                    self.refused.push((call_id, error.code()));
                }
                Incoming::Broken(_) => {
                    self.broken = true;
                    return;
                }
                Incoming::Incomplete => return,
            }
            assert!(self.budget.used() <= self.budget.max());
        }
    }
}

#[test]
fn a_stream_goes_on_behind_what_was_refused() {
    let mut feed = Feed::new(1000, 1500);
    for (call_id, len) in [(1, 600), (2, 600), (3, 100), (4, 1900), (5, 2500), (6, 10)] {
        feed.feed(&frame(call_id, len));
    }
    assert_eq!(feed.taken, [1, 3, 6]);
    let overload = Code::CallQueueTooBig;
    assert_eq!(
        feed.refused,
        [(2, overload), (4, overload), (5, Code::RequestTooBig)]
    );
    assert!(!feed.frames.in_frame(&feed.inbound));
    feed.shares.clear();
    assert_eq!(feed.budget.used(), 0);
}

#[test]
fn a_refused_frame_needs_a_readable_header() {
    for start in [
        &b"\x7f\xff\xff\xff\x03\xff\xff\xff"[..],
        b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let mut feed = Feed::new(1000, 1000);
        feed.feed(start);
        assert!(feed.broken);
    }
    let mut feed = Feed::new(1000, 1000);
    feed.feed(&frame(5, 5000)[..6]);
    assert!(!feed.broken && feed.refused.is_empty() && feed.frames.in_frame(&feed.inbound));
}

proptest! {
    /// However the bytes are cut, the same frames come out; those that fit are taken, the others are refused, in order.
    #[test]
    fn cuts_do_not_matter(
        lens in prop::collection::vec(0..3000_usize, 1..20),
        cuts in prop::collection::vec(1..4000_usize, 1..40),
    ) {
        let mut bytes = Vec::new();
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for (call_id, len) in (0..).zip(&lens) {
            let frame = frame(call_id, *len);
            if frame.len() - LENGTH_BYTES <= FRAME_MAX {
                taken.push(call_id);
            } else {
                refused.push((call_id, Code::RequestTooBig));
            }
            bytes.extend(frame);
        }
        let mut feed = Feed::new(usize::MAX, usize::MAX);
        let mut cuts = cuts.iter().cycle();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            feed.feed(piece);
            rest = behind;
        }
        prop_assert_eq!(feed.taken, taken);
        prop_assert_eq!(feed.refused, refused);
        prop_assert!(!feed.broken && !feed.frames.in_frame(&feed.inbound));
    }

    /// Any bytes: no panic, never more drawn than allowed.
    #[test]
    fn garbage(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20)) {
        let mut feed = Feed { taken: Vec::new(), ..Feed::new(1000, 1500) };
        for piece in pieces {
            let mut piece = piece;
            if let Some(first) = piece.first_mut() {
                // Lengths that are not refused at once.
                *first &= 1;
            }
            let mut bytes = piece.as_slice();
            while !bytes.is_empty() && !feed.broken {
                use futures::FutureExt;
                let fill = std::future::poll_fn(|cx| feed.inbound.poll_fill(cx, &mut bytes, 0));
                fill.now_or_never().unwrap().unwrap();
                loop {
                    match feed.frames.next(&mut feed.inbound, 0) {
                        Incoming::Incomplete => break,
                        Incoming::Broken(_) => { feed.broken = true; break; }
                        Incoming::Frame(..) | Incoming::Refused(..) | Incoming::TooBig(..) => {}
                    }
                    prop_assert!(feed.budget.used() <= feed.budget.max());
                }
            }
        }
    }
}
