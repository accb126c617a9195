//! HBase's frames for [`multiplex`](crate::multiplex) (hbase-protocol.md 1 and 2), and the opening of a connection.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Clock, Elapsed, Env, HostPort, Net};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::cells::Codec;
use cadastre_wire::frame::{self, CONNECTION_CALL_ID};
use cadastre_wire::preamble::{ConnectionInfo, connection_start};
use cadastre_wire::{Service, pb};
use tokio::sync::mpsc;

use super::{Answer, ClientConfig};
use crate::multiplex::{self, Broken, Dialect, End, Limits, Outgoing};

/// The version we say we are: real servers use all of cell blocks and scanner errors only for clients that name one from 2 on
/// (hbase-protocol.md 11.7).
const VERSION: (u32, u32) = (2, 6);
const VERSION_TEXT: &str = "2.6.4";

/// What one call sends.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) param: Bytes,
    pub(super) cells: Bytes,
}

/// Opens a connection and serves the calls handed to it until it ends.
pub(super) async fn run<E: Env>(
    env: E,
    user: String,
    config: ClientConfig,
    (to, service): (HostPort, Service),
    calls: mpsc::Receiver<Outgoing<Hbase>>,
) {
    let connect = env.net().connect(&to);
    let why = match env.clock().timeout(config.connect_timeout, connect).await {
        Ok(Ok(stream)) => {
            let info = ConnectionInfo {
                user,
                real_user: None,
                service,
                codec: Some(Codec::KeyValue),
                compressor: None,
                version: Some(VERSION),
            };
            let start = connection_start(&info, VERSION_TEXT);
            let limits = Limits {
                idle: config.idle,
                ping: None,
                calls_max: config.calls_max,
                response_bytes_max: config.response_bytes_max,
            };
            let dialect = Hbase { to, next_id: 0 };
            multiplex::serve(env, limits, dialect, &start, stream, calls).await;
            return;
        }
        Ok(Err(error)) => error.to_string(),
        Err(Elapsed) => format!(
            "no connection within {} ms",
            config.connect_timeout.as_millis()
        ),
    };
    let error = Error::new(Code::NotSent, format!("{to}: {why}"));
    tracing::debug!(%to, %service, why, "cannot connect");
    multiplex::refuse(calls, || Err(error.clone())).await;
}

/// The frames of one connection.
pub(super) struct Hbase {
    to: HostPort,
    next_id: u32,
}

impl Dialect for Hbase {
    type Call = Request;
    type Id = u32;
    /// The method.
    type Kept = &'static str;
    type Outcome = Result<Answer>;
    type Response = Result<Answer>;
    type Fatal = Error;

    fn write(
        &mut self,
        buffer: &mut BytesMut,
        call: Request,
        left: Duration,
        is_used: impl Fn(u32) -> bool,
    ) -> Result<(u32, &'static str), Self::Outcome> {
        while self.next_id == CONNECTION_CALL_ID || is_used(self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let call_id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let request = frame::Request {
            call_id,
            method: call.method.to_owned(),
            param: call.param,
            cells: call.cells,
            timeout_ms: Some(u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)),
            priority: None,
        };
        frame::encode_request(buffer, &request).map_err(Err)?;
        Ok((call_id, call.method))
    }

    fn parse(&self, frame: Bytes, is_first: bool) -> Result<(u32, Self::Response), End<Error>> {
        let response = frame::parse_response(frame)
            .map_err(|error| self.unreadable(&error.to_string(), is_first))?;
        if let Err(error) = &response.outcome
            && (response.call_id == CONNECTION_CALL_ID || is_fatal(error))
        {
            return Err(End::Fatal(error.clone()));
        }
        Ok((response.call_id, response.outcome))
    }

    fn id_in_header(header: Bytes) -> Result<u32> {
        let header: pb::ResponseHeader = cadastre_wire::decode(header)?;
        Ok(header.call_id.unwrap_or(0))
    }

    fn unreadable(&self, why: &str, _: bool) -> End<Error> {
        End::Broken(Broken::Unreadable, format!("unreadable answer: {why}"))
    }

    fn answered(&self, _: &Self::Kept, response: Self::Response) -> Self::Outcome {
        response
    }

    fn too_long(&self, method: &Self::Kept, length: usize, max: usize) -> Self::Outcome {
        Err(Error::new(
            Code::RequestTooBig,
            format!(
                "{method} at {}: an answer of {length} bytes is over the limit of {max}",
                self.to
            ),
        ))
    }

    fn broken(&self, method: &Self::Kept, sent: bool, _: Broken, why: &str) -> Self::Outcome {
        let code = if sent {
            Code::OutcomeUnknown
        } else {
            Code::NotSent
        };
        Err(Error::new(code, format!("{method} at {}: {why}", self.to)))
    }

    fn refused(&self, _: u32, _: &Self::Kept, _: bool, _: bool, error: &Error) -> Self::Outcome {
        Err(error.clone())
    }
}

/// Exceptions that end a connection, whatever call they came for (hbase-protocol.md 2.2).
fn is_fatal(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::FatalConnection
            | Code::WrongVersion
            | Code::BadAuth
            | Code::UnknownService
            | Code::UnsupportedCellCodec
            | Code::UnsupportedCompressionCodec
    )
}
