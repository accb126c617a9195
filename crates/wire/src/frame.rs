//! Request and response frames (hbase-protocol.md 2). Knows where messages and cell blocks lie, not what they mean.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cadastre_types::{Code, Error, Result};
use prost::Message;
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};

use crate::{decode, exception, pb};

/// Call id of what concerns the connection and not a call.
pub const CONNECTION_CALL_ID: u32 = u32::MAX;

/// A request, cut into its parts; all are slices of the frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Ties the answer to it.
    pub call_id: u32,
    /// Bare name of the method, case-sensitive.
    pub method: String,
    /// The request message.
    pub param: Bytes,
    /// Cell block, compressed if the connection says so; empty for none.
    pub cells: Bytes,
    /// How long the caller waits, ms; `None` for ever.
    pub timeout_ms: Option<u32>,
    /// HBase's priority, if the caller set one (2.2).
    pub priority: Option<u32>,
}

/// A frame that cannot be executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct FrameError {
    /// The call to answer, if the frame said which; otherwise the connection is to be closed.
    pub call_id: Option<u32>,
    /// What is wrong.
    pub error: Error,
}

/// Cuts a request frame, without its four bytes of length.
///
/// # Errors
/// Without a call id if not even the header can be read.
pub fn parse_request(mut frame: Bytes) -> Result<Request, FrameError> {
    let header: pb::RequestHeader =
        delimited(&mut frame)
            .and_then(decode)
            .map_err(|error| FrameError {
                call_id: None,
                error: error.context("request header"),
            })?;
    let call_id = header.call_id.unwrap_or(0);
    let failed = |error| FrameError {
        call_id: Some(call_id),
        error,
    };
    if header.request_param != Some(true) {
        return Err(failed(Error::invalid("a call without a parameter")));
    }
    let (param, cells) = param_and_cells(frame, header.cell_block_meta.as_ref()).map_err(failed)?;
    Ok(Request {
        call_id,
        method: header.method_name.unwrap_or_default(),
        param,
        cells,
        timeout_ms: header.timeout.filter(|timeout| *timeout > 0),
        priority: header.priority,
    })
}

fn param_and_cells(mut frame: Bytes, meta: Option<&pb::CellBlockMeta>) -> Result<(Bytes, Bytes)> {
    let announced = varint(&mut frame)?;
    let cells_len = cell_block_len(meta);
    let left = frame.len() as u64;
    if announced > left && cells_len == 0 {
        // hbase-driver writes a length of 128 or more through a UTF-8 encoder, which makes it too long (11.4).
        return Ok((frame, Bytes::new()));
    }
    body_and_cells(frame, announced, cells_len)
}

/// Writes a request frame, its four bytes of length included.
///
/// # Errors
/// [`Code::RequestTooBig`] if it does not fit into a frame.
pub fn encode_request(out: &mut BytesMut, request: &Request) -> Result<()> {
    let header = pb::RequestHeader {
        call_id: Some(request.call_id),
        method_name: Some(request.method.clone()),
        request_param: Some(true),
        cell_block_meta: cell_block_meta(request.cells.len())?,
        priority: request.priority,
        timeout: request.timeout_ms,
        ..Default::default()
    };
    put_frame(out, &header, Some(&request.param), &request.cells)
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The call it answers.
    pub call_id: u32,
    /// Response message and cell block, or the peer's exception.
    pub outcome: Result<(Bytes, Bytes)>,
}

/// Cuts a response frame, without its four bytes of length.
///
/// # Errors
/// [`Code::Corrupt`]: the connection is of no more use.
pub fn parse_response(mut frame: Bytes) -> Result<Response> {
    let header: pb::ResponseHeader = delimited(&mut frame)
        .and_then(decode)
        .map_err(|error| error.context("response header"))?;
    let call_id = header.call_id.unwrap_or(0);
    let outcome = match &header.exception {
        Some(exception) => Err(exception::from_response(exception)),
        None => {
            let announced = varint(&mut frame)?;
            let cells_len = cell_block_len(header.cell_block_meta.as_ref());
            Ok(body_and_cells(frame, announced, cells_len)?)
        }
    };
    Ok(Response { call_id, outcome })
}

/// Writes an answer: message and cell block, or an exception. A message or block that does not fit into a frame is answered
/// with [`Code::RequestTooBig`]; callers bound their answers long before.
pub fn encode_response(out: &mut BytesMut, call_id: u32, outcome: Result<(&[u8], &[u8]), &Error>) {
    let refused;
    let error = match outcome {
        Ok((body, cells)) => match put_answer(out, call_id, body, cells) {
            Ok(()) => return,
            Err(error) => {
                refused = error;
                &refused
            }
        },
        Err(error) => error,
    };
    let header = pb::ResponseHeader {
        call_id: Some(call_id),
        exception: Some(exception::to_response(error)),
        cell_block_meta: None,
    };
    put_frame(out, &header, None, &[]).expect("a message's text is far smaller than a frame");
}

fn put_answer(out: &mut BytesMut, call_id: u32, body: &[u8], cells: &[u8]) -> Result<()> {
    let header = pb::ResponseHeader {
        call_id: Some(call_id),
        exception: None,
        cell_block_meta: cell_block_meta(cells.len())?,
    };
    put_frame(out, &header, Some(body), cells)
}

fn put_frame(
    out: &mut BytesMut,
    header: &impl Message,
    body: Option<&[u8]>,
    cells: &[u8],
) -> Result<()> {
    let delimited_len = |len: usize| encoded_len_varint(len as u64) + len;
    let header_len = header.encoded_len();
    let total =
        delimited_len(header_len) + body.map_or(0, |body| delimited_len(body.len())) + cells.len();
    // Java reads the length as a signed number.
    let length = i32::try_from(total).map_err(|_| too_big(total))?;
    out.reserve(4 + total);
    out.put_i32(length);
    encode_varint(header_len as u64, out);
    header
        .encode(out)
        .expect("a BytesMut grows as it is written");
    if let Some(body) = body {
        encode_varint(body.len() as u64, out);
        out.put_slice(body);
    }
    out.put_slice(cells);
    Ok(())
}

fn cell_block_meta(len: usize) -> Result<Option<pb::CellBlockMeta>> {
    if len == 0 {
        return Ok(None);
    }
    let length = u32::try_from(len).map_err(|_| too_big(len))?;
    Ok(Some(pb::CellBlockMeta {
        length: Some(length),
    }))
}

fn too_big(len: usize) -> Error {
    Error::new(
        Code::RequestTooBig,
        format!("{len} bytes do not fit into a frame"),
    )
}

fn cell_block_len(meta: Option<&pb::CellBlockMeta>) -> u64 {
    u64::from(meta.and_then(|meta| meta.length).unwrap_or(0))
}

/// Message and cell block must fill the frame exactly.
fn body_and_cells(mut frame: Bytes, body_len: u64, cells_len: u64) -> Result<(Bytes, Bytes)> {
    let left = frame.len() as u64;
    if body_len.checked_add(cells_len) != Some(left) {
        return Err(Error::corrupt(format!(
            "a message of {body_len} bytes and a cell block of {cells_len} do not fill the {left} bytes of the frame"
        )));
    }
    // Not over `left`, which came from a usize.
    let body = frame.split_to(body_len as usize);
    Ok((body, frame))
}

fn varint(frame: &mut Bytes) -> Result<u64> {
    decode_varint(frame).map_err(|error| Error::corrupt(format!("length: {error}")))
}

pub(crate) fn delimited(frame: &mut Bytes) -> Result<Bytes> {
    let len = varint(frame)?;
    if len > frame.remaining() as u64 {
        return Err(Error::corrupt(format!(
            "a message of {len} bytes in {} bytes",
            frame.remaining()
        )));
    }
    Ok(frame.split_to(len as usize))
}

#[cfg(test)]
mod tests;
