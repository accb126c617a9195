//! Hadoop's IPC, version 9, for simple authentication (hadoop-ha-rpc.md E): a connection's start, requests, answers and pings.
//!
//! Both directions are here: a client writes requests and reads answers, a server of a test does the opposite. Knows where messages
//! lie in a frame, not what methods mean, nor when to send what. SASL is recognised, so that it can be refused by name.

use bytes::{BufMut, Bytes, BytesMut};
use cadastre_types::{Code, Error, Result};
use prost::Message;
use prost::encoding::encode_varint;

use crate::decode;
use crate::frame::delimited;

pub mod transfer;

/// The messages of Hadoop's protocols, generated from `proto/hadoop/`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod pb {
    include!(concat!(env!("OUT_DIR"), "/hadoop.rs"));
}

use pb::rpc_request_header_proto::OperationProto;
use pb::rpc_response_header_proto::RpcStatusProto;

/// The only version that is spoken.
pub const VERSION: u8 = 9;

/// Largest frame either way, bytes (`ipc.maximum.data.length`, `ipc.maximum.response.length`).
pub const FRAME_MAX: usize = 128 * 1024 * 1024;

/// Call id of an error that belongs to the connection: authorization failed, or no call is known.
pub const UNKNOWN_CALL_ID: i32 = -1;
/// Call id of the connection context.
pub const CONTEXT_CALL_ID: i32 = -3;
/// Call id of a ping, which is not answered.
pub const PING_CALL_ID: i32 = -4;
/// Call id of a SASL message.
pub const SASL_CALL_ID: i32 = -33;
/// Retry count where there is none.
pub const NO_RETRY_COUNT: i32 = -1;

/// Bytes of a connection before its first frame.
pub const PREAMBLE_BYTES: usize = 7;

/// Longest exception text that is kept, bytes: the rest of a message is a stack trace at best.
const EXCEPTION_TEXT_MAX: usize = 4096;

const MAGIC: &[u8; 4] = b"hrpc";
const SERVICE_CLASS: u8 = 0;
const AUTH_NONE: u8 = 0;

/// What a server knows a client by, together with the call id, when it looks whether it has done a call before.
pub type ClientId = [u8; 16];

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct User {
    /// In whose name.
    pub effective: String,
    /// Who does it in the other's name; `None` for oneself.
    pub real: Option<String>,
}

impl User {
    /// Somebody in his own name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            effective: name.into(),
            real: None,
        }
    }
}

/// What a client writes first: preamble and connection context. There is no answer to it (E.4).
pub fn connection_start(client: &ClientId, user: &User, protocol: &str) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(MAGIC);
    out.put_slice(&[VERSION, SERVICE_CLASS, AUTH_NONE]);
    let context = pb::IpcConnectionContextProto {
        user_info: Some(pb::UserInformationProto {
            effective_user: Some(user.effective.clone()),
            real_user: user.real.clone(),
        }),
        protocol: Some(protocol.to_owned()),
    };
    let header = request_header(client, CONTEXT_CALL_ID, NO_RETRY_COUNT);
    put_frame(&mut out, |out| {
        put_delimited(out, &header);
        put_delimited(out, &context);
    })
    .expect("a user's and a protocol's name are far smaller than a frame");
    out.freeze()
}

/// Reads a connection's first bytes.
///
/// # Errors
/// [`Code::WrongVersion`] or [`Code::BadAuth`].
pub fn parse_preamble(bytes: &[u8; PREAMBLE_BYTES]) -> Result<()> {
    let [magic @ .., version, _, auth] = bytes;
    if magic != MAGIC || *version != VERSION {
        return Err(Error::new(
            Code::WrongVersion,
            format!(
                "a connection that begins with {bytes:02x?} is not Hadoop IPC version {VERSION}"
            ),
        ));
    }
    if *auth != AUTH_NONE {
        return Err(Error::new(
            Code::BadAuth,
            format!("authentication {auth:#04x} is not supported, only simple (0)"),
        ));
    }
    Ok(())
}

fn request_header(client: &[u8], call_id: i32, retry_count: i32) -> pb::RpcRequestHeaderProto {
    pb::RpcRequestHeaderProto {
        rpc_kind: Some(pb::RpcKindProto::RpcProtocolBuffer as i32),
        rpc_op: Some(OperationProto::RpcFinalPacket as i32),
        call_id,
        client_id: Bytes::copy_from_slice(client),
        retry_count: Some(retry_count),
        ..Default::default()
    }
}

/// A call on its way to a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Whose call; empty makes the server forget that it did it.
    pub client_id: Bytes,
    /// The same over all tries of one call.
    pub call_id: i32,
    /// Tries before this one.
    pub retry_count: i32,
    /// What the client has seen of the namespace (C.7); `None` if nothing yet.
    pub state_id: Option<i64>,
    /// The same behind a router, opaque but for merging.
    pub router_state: Option<Bytes>,
    /// Name of the method.
    pub method: String,
    /// The protocol that declares it, as servers name it.
    pub protocol: String,
    /// That protocol's version.
    pub version: u64,
    /// The request message.
    pub body: Bytes,
}

/// Writes a request, its length included.
///
/// # Errors
/// [`Code::RequestTooBig`] over [`FRAME_MAX`]; nothing is written then.
pub fn encode_request(out: &mut BytesMut, request: &Request) -> Result<()> {
    let header = pb::RpcRequestHeaderProto {
        state_id: request.state_id,
        router_federated_state: request.router_state.clone(),
        ..request_header(&request.client_id, request.call_id, request.retry_count)
    };
    let method = pb::RequestHeaderProto {
        method_name: request.method.clone(),
        declaring_class_protocol_name: request.protocol.clone(),
        client_protocol_version: request.version,
    };
    put_frame(out, |out| {
        put_delimited(out, &header);
        put_delimited(out, &method);
        encode_varint(request.body.len() as u64, out);
        out.put_slice(&request.body);
    })
}

/// Writes a ping, its length included.
pub fn encode_ping(out: &mut BytesMut, client: &ClientId) {
    let header = request_header(client, PING_CALL_ID, NO_RETRY_COUNT);
    put_frame(out, |out| put_delimited(out, &header)).expect("a header is smaller than a frame");
}

/// What a server reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// Who connects, and for which protocol.
    Context(User, String),
    /// A call.
    Call(Request),
    /// Nothing to be done.
    Ping,
}

/// Cuts a frame from a client, without its four bytes of length.
///
/// # Errors
/// [`Code::Corrupt`] if it is none, [`Code::BadAuth`] for SASL.
pub fn parse_incoming(mut frame: Bytes) -> Result<Incoming> {
    let header: pb::RpcRequestHeaderProto = message(&mut frame, "request header")?;
    if header.rpc_kind != Some(pb::RpcKindProto::RpcProtocolBuffer as i32)
        || header.rpc_op.unwrap_or(0) != OperationProto::RpcFinalPacket as i32
    {
        return Err(Error::corrupt(
            "only whole packets of protocol buffers are taken",
        ));
    }
    let incoming = match header.call_id {
        PING_CALL_ID => Incoming::Ping,
        SASL_CALL_ID => return Err(Error::new(Code::BadAuth, "SASL is not supported")),
        CONTEXT_CALL_ID => {
            let context: pb::IpcConnectionContextProto = message(&mut frame, "context")?;
            let user = context.user_info.unwrap_or_default();
            let user = User {
                effective: user.effective_user.unwrap_or_default(),
                real: user.real_user,
            };
            Incoming::Context(user, context.protocol.unwrap_or_default())
        }
        call_id => {
            let method: pb::RequestHeaderProto = message(&mut frame, "method")?;
            Incoming::Call(Request {
                client_id: header.client_id,
                call_id,
                retry_count: header.retry_count.unwrap_or(NO_RETRY_COUNT),
                state_id: header.state_id,
                router_state: header.router_federated_state,
                method: method.method_name,
                protocol: method.declaring_class_protocol_name,
                version: method.client_protocol_version,
                body: delimited(&mut frame)?,
            })
        }
    };
    nothing_left(&frame)?;
    Ok(incoming)
}

/// What a server says of a call it did not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteException {
    /// Java class.
    pub class: String,
    /// Its message, without the stack trace.
    pub message: String,
    /// `RpcErrorCodeProto`; 1 if the method itself threw it.
    pub detail: i32,
}

impl RemoteException {
    /// Whether the method was reached: everything else was refused by the layers before it.
    pub fn is_of_method(&self) -> bool {
        self.detail == pb::rpc_response_header_proto::RpcErrorCodeProto::ErrorApplication as i32
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The response message.
    Success(Bytes),
    /// This call failed.
    Error(RemoteException),
    /// The connection failed, with every call on it.
    Fatal(RemoteException),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The call it answers, or one of the negative ids.
    pub call_id: i32,
    /// As the request had it.
    pub retry_count: i32,
    /// As the request had it; may be empty.
    pub client_id: Bytes,
    /// What the server has done to the namespace, if it tells.
    pub state_id: Option<i64>,
    /// The same behind a router.
    pub router_state: Option<Bytes>,
    /// How it ended.
    pub outcome: Outcome,
}

/// Cuts an answer, without its four bytes of length.
///
/// # Errors
/// [`Code::Corrupt`]: the connection is of no more use.
pub fn parse_response(mut frame: Bytes) -> Result<Response> {
    let header: pb::RpcResponseHeaderProto = message(&mut frame, "response header")?;
    let outcome = match RpcStatusProto::try_from(header.status) {
        Ok(RpcStatusProto::Success) => Outcome::Success(delimited(&mut frame)?),
        Ok(RpcStatusProto::Error) => Outcome::Error(exception(&header)),
        Ok(RpcStatusProto::Fatal) => Outcome::Fatal(exception(&header)),
        Err(_) => {
            return Err(Error::corrupt(format!(
                "an answer of status {}",
                header.status
            )));
        }
    };
    nothing_left(&frame)?;
    Ok(Response {
        // Sent as an unsigned number, meant as a signed one (E.3).
        call_id: header.call_id.cast_signed(),
        retry_count: header.retry_count.unwrap_or(NO_RETRY_COUNT),
        client_id: header.client_id.unwrap_or_default(),
        state_id: header.state_id,
        router_state: header.router_federated_state,
        outcome,
    })
}

/// The call that an answer is for, from its header alone.
///
/// # Errors
/// [`Code::Corrupt`].
pub fn response_call_id(header: Bytes) -> Result<i32> {
    let header: pb::RpcResponseHeaderProto = decode(header)?;
    Ok(header.call_id.cast_signed())
}

fn exception(header: &pb::RpcResponseHeaderProto) -> RemoteException {
    let text = header.error_msg.as_deref().unwrap_or("no message");
    RemoteException {
        class: cut(header.exception_class_name.as_deref().unwrap_or("no class")).to_owned(),
        message: cut(text.split("\n\tat ").next().unwrap_or_default()).to_owned(),
        detail: header.error_detail.unwrap_or(0),
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(EXCEPTION_TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Writes an answer, its length included.
///
/// # Errors
/// [`Code::RequestTooBig`] over [`FRAME_MAX`].
pub fn encode_response(out: &mut BytesMut, response: &Response) -> Result<()> {
    let (status, exception) = match &response.outcome {
        Outcome::Success(_) => (RpcStatusProto::Success, None),
        Outcome::Error(exception) => (RpcStatusProto::Error, Some(exception)),
        Outcome::Fatal(exception) => (RpcStatusProto::Fatal, Some(exception)),
    };
    let header = pb::RpcResponseHeaderProto {
        call_id: response.call_id.cast_unsigned(),
        status: status as i32,
        server_ipc_version_num: Some(u32::from(VERSION)),
        exception_class_name: exception.map(|exception| exception.class.clone()),
        error_msg: exception.map(|exception| exception.message.clone()),
        error_detail: exception.map(|exception| exception.detail),
        client_id: Some(response.client_id.clone()),
        retry_count: Some(response.retry_count),
        state_id: response.state_id,
        router_federated_state: response.router_state.clone(),
    };
    put_frame(out, |out| {
        put_delimited(out, &header);
        if let Outcome::Success(body) = &response.outcome {
            encode_varint(body.len() as u64, out);
            out.put_slice(body);
        }
    })
}

/// Both states of a namespace behind a router as one: of each nameservice the later (C.7).
///
/// # Errors
/// [`Code::Corrupt`].
pub fn merge_router_state(a: Bytes, b: Bytes) -> Result<Bytes> {
    let mut merged: pb::RouterFederatedStateProto = decode(a)?;
    let newer: pb::RouterFederatedStateProto = decode(b)?;
    for (nameservice, state) in newer.namespace_state_ids {
        let kept = merged
            .namespace_state_ids
            .entry(nameservice)
            .or_insert(state);
        *kept = state.max(*kept);
    }
    Ok(crate::encode(&merged))
}

/// What a peer is that answers with these bytes in place of the length of a frame, if it can be told.
pub fn foreign(first: [u8; 4]) -> Option<&'static str> {
    match &first {
        b"HTTP" => Some("an HTTP server: this is the NameNode's web port, not its RPC port"),
        [0xff, 0xff, 0xff, 0xff] => Some("a Hadoop server older than IPC version 9"),
        [0x15 | 0x16, 0x03, ..] => Some("a TLS server"),
        _ => None,
    }
}

fn message<M: crate::Message>(frame: &mut Bytes, what: &str) -> Result<M> {
    delimited(frame)
        .and_then(decode)
        .map_err(|error| error.context(what))
}

fn nothing_left(frame: &Bytes) -> Result<()> {
    if frame.is_empty() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{} bytes left over in a frame",
        frame.len()
    )))
}

fn put_delimited(out: &mut BytesMut, message: &impl Message) {
    message
        .encode_length_delimited(out)
        .expect("a BytesMut grows as it is written");
}

fn put_frame(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> Result<()> {
    const LENGTH_BYTES: usize = 4;
    let start = out.len();
    out.put_u32(0);
    write(out);
    let length = out.len() - start - LENGTH_BYTES;
    if length > FRAME_MAX {
        out.truncate(start);
        return Err(Error::new(
            Code::RequestTooBig,
            format!("a frame of {length} bytes is over the limit of {FRAME_MAX}"),
        ));
    }
    let length = u32::try_from(length).expect("FRAME_MAX fits");
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
