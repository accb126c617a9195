//! Hadoop's frames for [`multiplex`](crate::multiplex) (hadoop-ha-rpc.md E), and the opening of a connection. Knows how far each call came, not
//! what is to be done about it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Clock, Elapsed, Env, HostPort, Net};
use cadastre_types::{Code, Error};
use cadastre_wire::hadoop::{self as wire, ClientId, RemoteException, Response, User};
use tokio::sync::mpsc;

use super::engine::HadoopConfig;
use super::{Alignment, classes};
use crate::buffers::LENGTH_BYTES;
use crate::ha::policy::Class;
use crate::ha::{Call, Executed, Failure, Protocol};
use crate::multiplex::{self, Broken, Dialect, End, Limits, Outgoing};

/// Whom the connection is with, and who makes it.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) name: Arc<str>,
    pub(super) address: HostPort,
    pub(super) protocol: &'static Protocol,
    pub(super) user: User,
    pub(super) client: ClientId,
}

/// Opens a connection and serves the calls handed to it until it ends.
pub(super) async fn run<E: Env>(
    env: E,
    config: HadoopConfig,
    peer: Peer,
    calls: mpsc::Receiver<Outgoing<Hadoop>>,
) {
    match connect(&env, &config, &peer).await {
        Ok(stream) => {
            let limits = Limits {
                idle: config.idle,
                ping: config.ping,
                calls_max: config.calls_max,
                response_bytes_max: config.response_bytes_max,
            };
            let start = wire::connection_start(&peer.client, &peer.user, peer.protocol.name);
            let client_id = Bytes::copy_from_slice(&peer.client);
            let dialect = Hadoop { peer, client_id };
            multiplex::serve(env, limits, dialect, &start, stream, calls).await;
        }
        Err((class, why)) => {
            tracing::debug!(to = %peer.name, ?class, why, "cannot connect");
            let failure = Failure::not_sent(class, &peer.name, why);
            multiplex::refuse(calls, || Err(failure.clone())).await;
        }
    }
}

async fn connect<E: Env>(
    env: &E,
    config: &HadoopConfig,
    peer: &Peer,
) -> Result<<E::Net as Net>::Stream, (Class, String)> {
    let connect = async {
        // Each connection asks anew where the name is: a NameNode may have moved.
        let found = env.net().resolve(&peer.address.host).await;
        match found {
            Ok(addresses) if !addresses.is_empty() => {}
            Ok(_) => return Err((Class::UnknownHost, "the name has no address".to_owned())),
            Err(error) => return Err((Class::UnknownHost, error.to_string())),
        }
        let connected = env.net().connect(&peer.address).await;
        connected.map_err(|error| (classes::connect(&error), error.to_string()))
    };
    match env.clock().timeout(config.connect_timeout, connect).await {
        Ok(outcome) => outcome,
        Err(Elapsed) => Err((
            Class::ConnectTimeout,
            format!(
                "no connection within {} ms",
                config.connect_timeout.as_millis()
            ),
        )),
    }
}

/// The frames of one connection.
pub(super) struct Hadoop {
    peer: Peer,
    /// The same in every request: it is not copied for each.
    client_id: Bytes,
}

/// Why a server refuses a connection.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is no server that we can talk to.
    Foreign(Class, String),
    /// It said so, and for which call.
    Fatal(i32, RemoteException),
}

/// What is kept of a call.
pub(super) struct Kept {
    method: &'static str,
    alignment: Option<Arc<Alignment>>,
}

impl Dialect for Hadoop {
    type Call = (Call, Option<Arc<Alignment>>);
    type Id = i32;
    type Kept = Kept;
    type Outcome = Result<Bytes, Failure>;
    type Response = Response;
    type Fatal = Refusal;

    fn write(
        &mut self,
        buffer: &mut BytesMut,
        (call, alignment): Self::Call,
        _: Duration,
        _: impl Fn(i32) -> bool,
    ) -> Result<(i32, Kept), Self::Outcome> {
        let seen = alignment.as_ref().map(|seen| seen.to_send());
        let (state_id, router_state) = seen.unwrap_or_default();
        let request = wire::Request {
            client_id: self.client_id.clone(),
            call_id: call.id,
            retry_count: i32::try_from(call.retry).unwrap_or(i32::MAX),
            state_id,
            router_state,
            method: call.method.name.to_owned(),
            protocol: call.protocol.name.to_owned(),
            version: call.protocol.version,
            body: call.body,
        };
        if let Err(error) = wire::encode_request(buffer, &request) {
            let failure = Failure::new(Class::Other, Executed::No, &self.peer.name, error);
            return Err(Err(failure));
        }
        let method = call.method.name;
        Ok((call.id, Kept { method, alignment }))
    }

    fn ping(&self, buffer: &mut BytesMut) {
        wire::encode_ping(buffer, &self.peer.client);
    }

    fn greet(&self, first: [u8; LENGTH_BYTES]) -> Result<(), End<Refusal>> {
        match wire::foreign(first) {
            Some(what) => {
                let why = format!("there answers {what}");
                Err(End::Fatal(Refusal::Foreign(Class::Other, why)))
            }
            None => Ok(()),
        }
    }

    fn parse(&self, frame: Bytes, is_first: bool) -> Result<(i32, Response), End<Refusal>> {
        let response = wire::parse_response(frame)
            .map_err(|error| self.unreadable(error.message(), is_first))?;
        if !response.client_id.is_empty() && response.client_id != self.client_id {
            return Err(self.unreadable("it is for another client", is_first));
        }
        if let wire::Outcome::Fatal(exception) = response.outcome {
            return Err(End::Fatal(Refusal::Fatal(response.call_id, exception)));
        }
        if response.call_id == wire::SASL_CALL_ID {
            let why =
                "the server wants SASL (Kerberos or tokens), which is not supported".to_owned();
            return Err(End::Fatal(Refusal::Foreign(Class::Sasl, why)));
        }
        Ok((response.call_id, response))
    }

    fn id_in_header(header: Bytes) -> cadastre_types::Result<i32> {
        wire::response_call_id(header)
    }

    fn unreadable(&self, why: &str, is_first: bool) -> End<Refusal> {
        if is_first {
            let why = format!("what answers there is no Hadoop IPC server: {why}");
            return End::Broken(Broken::Stranger, why);
        }
        End::Broken(Broken::Unreadable, format!("unreadable answer: {why}"))
    }

    fn answered(&self, kept: &Kept, response: Response) -> Self::Outcome {
        match response.outcome {
            wire::Outcome::Success(body) => {
                if let Some(alignment) = &kept.alignment
                    && let Err(error) = alignment.answered(response.state_id, response.router_state)
                {
                    // The call was done; what was not understood is only how far the server is.
                    tracing::warn!(to = %self.peer.name, %error, "unreadable state of a namespace");
                }
                Ok(body)
            }
            wire::Outcome::Error(exception) | wire::Outcome::Fatal(exception) => {
                Err(classes::remote(&self.peer.name, &exception))
            }
        }
    }

    fn too_long(&self, kept: &Kept, length: usize, max: usize) -> Self::Outcome {
        let error = Error::new(
            Code::RequestTooBig,
            format!(
                "{} at {}: an answer of {length} bytes is over the limit of {max}",
                kept.method, self.peer.name
            ),
        );
        // It was done; asking again would bring the same.
        let name = &self.peer.name;
        Err(Failure::new(Class::Other, Executed::Refused, name, error))
    }

    fn broken(&self, kept: &Kept, sent: bool, how: Broken, why: &str) -> Self::Outcome {
        let why = format!("{}: {why}", kept.method);
        let class = match how {
            Broken::Closed => Class::Eof,
            Broken::Socket => Class::Socket,
            Broken::TimedOut => Class::CallTimeout,
            Broken::Unreadable => Class::OtherIo,
            Broken::Stranger => Class::Other,
        };
        Err(if sent {
            Failure::unknown(class, &self.peer.name, why)
        } else {
            Failure::not_sent(Class::NotSent, &self.peer.name, why)
        })
    }

    fn refused(
        &self,
        id: i32,
        kept: &Kept,
        sent: bool,
        answers: bool,
        refusal: &Refusal,
    ) -> Self::Outcome {
        let name = &self.peer.name;
        match refusal {
            Refusal::Foreign(class, why) => Err(Failure::not_sent(*class, name, why)),
            // This call was refused, or nothing was taken on this connection at all.
            Refusal::Fatal(of, exception) if *of == id || (*of < 0 && !answers) => Err(Failure {
                executed: Executed::No,
                ..classes::remote(name, exception)
            }),
            // Another call's fault ended the connection: of this one nothing is known.
            Refusal::Fatal(_, exception) => {
                let why = format!("{}: {}", exception.class, exception.message);
                self.broken(kept, sent, Broken::Socket, &why)
            }
        }
    }
}
