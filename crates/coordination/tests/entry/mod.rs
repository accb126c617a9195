//! What is read of a peer's ZooKeeper frames, as a function of their bytes. The fuzz target `zookeeper_frame` in `/fuzz` and the ordinary test
//! run both call it; it panics when a promise is broken.

use bytes::Bytes;
use cadastre_coordination::jute::{
    ConnectRequest, ConnectResponse, Reader, ReplyHeader, Request, RequestHeader, Response,
    WatcherEvent,
};

/// Any bytes, of which the first is an operation's code and the others a frame without its length: a record, or refused.
pub(crate) fn zookeeper_frame(data: &[u8]) {
    let Some((opcode, frame)) = data.split_first() else {
        return;
    };
    // From -128 to 127: every code that ZooKeeper has, and some that it has not.
    let opcode = i32::from(opcode.cast_signed());
    let bytes = Bytes::copy_from_slice(frame);
    let _ = ConnectRequest::decode(bytes.clone());
    let _ = ConnectResponse::decode(bytes.clone());
    let _ = RequestHeader::decode(&mut Reader::new(bytes.clone()));
    let _ = ReplyHeader::decode(&mut Reader::new(bytes.clone()));
    let _ = WatcherEvent::decode(&mut Reader::new(bytes.clone()));
    let _ = Request::decode(opcode, &mut Reader::new(bytes.clone()));
    let _ = Response::decode(opcode, &mut Reader::new(bytes));
}
