//! HBase RPC as an engine: masters of ours or of HBase through the same loop. What their errors mean stands in the policy's rows H1 to H6.
//!
//! HBase's servers do not know calls by an id, as NameNodes do: what they do once they know by the nonce in the message.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Code, Error, ErrorKind, Result};
use cadastre_wire::Service;
use futures::future::BoxFuture;

use super::engine::{Engine, Target};
use super::failure::{Executed, Failed, Failure};
use super::policy::Class;
use super::proxy::{Call, CallIds, Invoker};
use crate::Connections;

/// The engine.
pub struct HbaseEngine<E: Env> {
    connections: Connections<E>,
    call_timeout: Duration,
    ids: CallIds,
}

impl<E: Env> HbaseEngine<E> {
    /// Over these connections, which carry one user's name. A try may take `call_timeout` (`hbase.rpc.timeout`).
    pub fn new(connections: Connections<E>, call_timeout: Duration) -> Self {
        Self {
            connections,
            call_timeout,
            ids: CallIds::default(),
        }
    }
}

impl<E: Env> Engine for HbaseEngine<E> {
    fn name(&self) -> &'static str {
        "hbase"
    }

    fn ids(&self) -> CallIds {
        self.ids.clone()
    }

    fn proxy(&self, target: Target) -> Result<Arc<dyn Invoker>> {
        let Some(service) = Service::from_name(target.protocol.name) else {
            return Err(Error::unsupported(format!(
                "the protocol {} over HBase RPC",
                target.protocol.name
            )));
        };
        Ok(Arc::new(Remote {
            name: target.address.to_string().into(),
            connections: self.connections.clone(),
            call_timeout: self.call_timeout,
            service,
            target,
        }))
    }
}

struct Remote<E: Env> {
    name: Arc<str>,
    connections: Connections<E>,
    call_timeout: Duration,
    service: Service,
    target: Target,
}

impl<E: Env> Invoker for Remote<E> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            let outcome = self
                .connections
                .call(
                    &self.target.address,
                    self.service,
                    call.method.name,
                    call.body.clone(),
                    Bytes::new(),
                    call.limit(self.call_timeout),
                )
                .await;
            match outcome {
                Ok((body, _)) => Ok(body),
                Err(error) => {
                    let (class, executed) = classify(&error);
                    let error = error.context(&self.name);
                    Err(Failure::new(class, executed, &self.name, error).into())
                }
            }
        })
    }
}

/// What an error of HBase RPC is in the policy's table.
fn classify(error: &Error) -> (Class, Executed) {
    match error.code() {
        Code::NotSent => (Class::NotSent, Executed::No),
        Code::MasterNotRunning => (Class::MasterNotRunning, Executed::No),
        Code::ServerNotRunningYet => (Class::ServerNotRunningYet, Executed::No),
        Code::MasterStopped | Code::RegionServerStopped => (Class::MasterStopped, Executed::No),
        Code::PleaseHold => (Class::PleaseHold, Executed::No),
        Code::CallQueueTooBig | Code::CallDropped => (Class::Overloaded, Executed::No),
        // A deposed master's store refused it; over the wire that has the name of a region that is not served.
        Code::Fenced | Code::MasterDeposed | Code::NotServingRegion | Code::RegionServerAborted => {
            (Class::Fenced, Executed::Maybe)
        }
        Code::OutcomeUnknown => (Class::Socket, Executed::Maybe),
        Code::TimeoutIo => (Class::CallTimeout, Executed::Maybe),
        _ => match error.kind() {
            // An exception of any place inside that may pass, perhaps after the work.
            ErrorKind::Retry | ErrorKind::Relocate | ErrorKind::Failover | ErrorKind::Internal => {
                (Class::OtherIo, Executed::Maybe)
            }
            ErrorKind::Fenced | ErrorKind::Invalid | ErrorKind::TooBig | ErrorKind::Corrupt => {
                (Class::Remote, Executed::Refused)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_class() {
        for code in Code::ALL {
            let (class, executed) = classify(&Error::new(*code, "x"));
            let before_it_began = matches!(
                class,
                Class::NotSent
                    | Class::MasterNotRunning
                    | Class::ServerNotRunningYet
                    | Class::MasterStopped
                    | Class::PleaseHold
                    | Class::Overloaded
            );
            assert_eq!(before_it_began, executed == Executed::No, "{code:?}");
        }
        let of = |code| classify(&Error::new(code, "x")).0;
        assert_eq!(of(Code::TableExists), Class::Remote);
        assert_eq!(of(Code::OutcomeUnknown), Class::Socket);
        assert_eq!(of(Code::Fenced), Class::Fenced);
        assert_eq!(of(Code::MasterDeposed), Class::Fenced);
        // What may pass is not told as a refusal.
        for code in Code::ALL {
            let passes = matches!(
                code.kind(),
                ErrorKind::Retry | ErrorKind::Relocate | ErrorKind::Failover | ErrorKind::Fenced
            );
            assert!(!passes || of(*code) != Class::Remote, "{code:?}");
        }
    }
}
