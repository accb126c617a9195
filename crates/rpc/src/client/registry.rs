//! The `Regist` preamble as a client (hbase-protocol.md 1.5).

use std::future::poll_fn;

use cadastre_env::{Env, HostPort, Net};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::{frame, pb};
use tokio::io::AsyncWriteExt;

use crate::buffers::{Inbound, LENGTH_BYTES};

const PREAMBLE: &[u8] = b"Regist";

/// Largest answer taken, bytes: it holds one id, or an exception's text.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How the text of a server's exception begins that does not know the preamble.
const TOO_OLD: &str = "Expected HEADER=";

/// Asks for the cluster id. The caller bounds the time.
pub(super) async fn cluster_id<E: Env>(env: &E, to: &HostPort) -> Result<Option<String>> {
    let unsent = |error| Error::new(Code::NotSent, format!("{to}: {error}"));
    let mut stream = env.net().connect(to).await.map_err(unsent)?;
    stream.write_all(PREAMBLE).await.map_err(unsent)?;
    let broken = |what: &str| Error::new(Code::OutcomeUnknown, format!("{to}: {what}"));
    let mut inbound = Inbound::default();
    loop {
        if let Some(length) = inbound.peek_length() {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > ANSWER_BYTES_MAX {
                return Err(broken("the answer for a cluster id is too big"));
            }
            if inbound.len() - LENGTH_BYTES >= length {
                inbound.skip(LENGTH_BYTES);
                return answer(frame::parse_response(inbound.take(length))?);
            }
        }
        let read = poll_fn(|cx| inbound.poll_fill(cx, &mut stream, 0)).await;
        if read.map_err(|error| broken(&error.to_string()))? == 0 {
            return Err(broken("closed without a cluster id"));
        }
    }
}

fn answer(response: frame::Response) -> Result<Option<String>> {
    match response.outcome {
        Ok((body, _)) => {
            let answer: pb::GetConnectionRegistryResponse = cadastre_wire::decode(body)?;
            Ok(Some(answer.cluster_id))
        }
        Err(error)
            if error.code() == Code::FatalConnection && error.message().starts_with(TOO_OLD) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
