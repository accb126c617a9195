//! A connection's start (hbase-protocol.md 1): preambles and connection header, up to the first request frame.

use std::io;

use std::future::poll_fn;

use bytes::BytesMut;
use cadastre_wire::frame::{self, CONNECTION_CALL_ID};
use cadastre_wire::preamble::{
    Auth, CONNECTION_HEADER_MAX, ConnectionInfo, PREAMBLE_LEN, Preamble, SASL_SWITCH_TO_SIMPLE,
    connection_header, registry_answer, security_answer,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::Handler;
use crate::buffers::{Inbound, LENGTH_BYTES};

/// Largest SASL token skipped, bytes: Kerberos tickets with many groups come near 64 KiB.
const SASL_TOKEN_MAX: usize = 64 * 1024;

/// How a start ended.
#[derive(Debug)]
pub(super) enum Start {
    /// Requests follow.
    Ready(ConnectionInfo),
    /// Everything there is to say was written: let the peer read it, then close.
    Answered(&'static str),
    /// Close without a reply.
    Close(&'static str),
}

/// Reads preamble and header, answering as HBase does (1.4 to 1.6). The caller bounds the time.
///
/// # Errors
/// The socket's.
pub(super) async fn start<S, H>(
    stream: &mut S,
    inbound: &mut Inbound,
    handler: &H,
) -> io::Result<Start>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    H: Handler,
{
    loop {
        if !need(stream, inbound, PREAMBLE_LEN).await? {
            return Ok(Start::Close("closed by the peer"));
        }
        let word = *inbound
            .peek()
            .first_chunk::<PREAMBLE_LEN>()
            .expect("as many bytes are there");
        inbound.skip(PREAMBLE_LEN);
        match Preamble::parse(&word) {
            Ok(Preamble::Hbase(Auth::Simple)) => return header(stream, inbound, handler).await,
            Ok(Preamble::Hbase(Auth::Sasl(_))) => {
                stream.write_all(&SASL_SWITCH_TO_SIMPLE).await?;
                if !skip_token(stream, inbound).await? {
                    return Ok(Start::Close("bad SASL token"));
                }
                return header(stream, inbound, handler).await;
            }
            Ok(Preamble::Registry) => {
                answer(stream, |out| registry_answer(out, &handler.cluster_id())).await?;
                return Ok(Start::Answered("registry"));
            }
            Ok(Preamble::Security) => answer(stream, security_answer).await?,
            Err(error) => {
                tracing::info!(%error, "refused a connection's start");
                answer(stream, |out| {
                    frame::encode_response(out, CONNECTION_CALL_ID, Err(&error));
                })
                .await?;
                return Ok(Start::Answered("bad preamble"));
            }
        }
    }
}

async fn header<S, H>(stream: &mut S, inbound: &mut Inbound, handler: &H) -> io::Result<Start>
where
    S: AsyncRead + Unpin + Send,
    H: Handler,
{
    let Some(len) = length(stream, inbound).await? else {
        return Ok(Start::Close("closed by the peer"));
    };
    if len > CONNECTION_HEADER_MAX {
        tracing::info!(len, "refused a connection header for its size");
        return Ok(Start::Close("bad header"));
    }
    if !need(stream, inbound, len).await? {
        return Ok(Start::Close("closed by the peer"));
    }
    match connection_header(inbound.take(len)) {
        Ok(info) if handler.serves(info.service) => Ok(Start::Ready(info)),
        Ok(info) => {
            tracing::info!(service = %info.service, "refused a connection for a service not served here");
            Ok(Start::Close("unknown service"))
        }
        Err(error) => {
            tracing::info!(%error, "refused a connection header");
            Ok(Start::Close("bad header"))
        }
    }
}

async fn skip_token<S: AsyncRead + Unpin + Send>(
    stream: &mut S,
    inbound: &mut Inbound,
) -> io::Result<bool> {
    let Some(len) = length(stream, inbound).await? else {
        return Ok(false);
    };
    if len > SASL_TOKEN_MAX || !need(stream, inbound, len).await? {
        return Ok(false);
    }
    inbound.skip(len);
    Ok(true)
}

/// The length that comes next; `None` at the end of the stream.
async fn length<S: AsyncRead + Unpin + Send>(
    stream: &mut S,
    inbound: &mut Inbound,
) -> io::Result<Option<usize>> {
    if !need(stream, inbound, LENGTH_BYTES).await? {
        return Ok(None);
    }
    let length = inbound.peek_length();
    inbound.skip(LENGTH_BYTES);
    // What does not fit is over every limit.
    Ok(length.map(|length| usize::try_from(length).unwrap_or(usize::MAX)))
}

/// Reads until this many bytes are there; `false` at the end of the stream. Callers have bounded the number.
async fn need<S: AsyncRead + Unpin + Send>(
    stream: &mut S,
    inbound: &mut Inbound,
    len: usize,
) -> io::Result<bool> {
    while inbound.len() < len {
        if poll_fn(|cx| inbound.poll_fill(cx, stream, 0)).await? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn answer<S: AsyncWrite + Unpin + Send>(
    stream: &mut S,
    write: impl FnOnce(&mut BytesMut),
) -> io::Result<()> {
    let mut out = BytesMut::new();
    write(&mut out);
    stream.write_all(&out).await
}
