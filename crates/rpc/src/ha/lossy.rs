//! Lossy proxies for tests (A.7): a server's answer is thrown away, as if it had been lost on the way. The call was done.

use std::sync::Arc;

use bytes::Bytes;
use cadastre_types::{Code, Error, Result};
use futures::future::BoxFuture;

use super::engine::{Engine, Target};
use super::failure::{Executed, Failed, Failure};
use super::method::Mark;
use super::policy::Class;
use super::proxy::{Call, CallIds, Invoker};

/// How an answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// As with Hadoop's: the caller is told to try the same server again; not of a method without a mark, which would be done twice.
    Retriable,
    /// The connection broke after the call was sent.
    Connection,
}

/// Loses the answers of the first tries of each call.
pub struct Lossy {
    inner: Arc<dyn Invoker>,
    tries: u32,
    loss: Loss,
}

impl Lossy {
    /// Loses the answers of so many tries of each call (`dfs.client.test.drop.namenode.response.number`).
    pub fn new(inner: Arc<dyn Invoker>, tries: u32, loss: Loss) -> Self {
        Self { inner, tries, loss }
    }
}

impl Invoker for Lossy {
    fn name(&self) -> &Arc<str> {
        self.inner.name()
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            let answer = self.inner.invoke(call).await?;
            if call.retry >= self.tries {
                return Ok(answer);
            }
            let why = format!("{}: the answer was thrown away", call.method.name);
            Err(match self.loss {
                Loss::Retriable if call.method.mark != Mark::Neither => {
                    let error = Error::new(Code::OutcomeUnknown, why);
                    Failure::new(Class::Retriable, Executed::Maybe, self.name(), error).into()
                }
                Loss::Retriable | Loss::Connection => {
                    Failure::unknown(Class::Socket, self.name(), why).into()
                }
            })
        })
    }
}

/// An engine whose proxies are lossy.
pub struct LossyEngine {
    inner: Arc<dyn Engine>,
    tries: u32,
    loss: Loss,
}

impl LossyEngine {
    /// See [`Lossy::new`].
    pub fn new(inner: Arc<dyn Engine>, tries: u32, loss: Loss) -> Self {
        Self { inner, tries, loss }
    }
}

impl Engine for LossyEngine {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn ids(&self) -> CallIds {
        self.inner.ids()
    }

    fn proxy(&self, target: Target) -> Result<Arc<dyn Invoker>> {
        let inner = self.inner.proxy(target)?;
        Ok(Arc::new(Lossy::new(inner, self.tries, self.loss)))
    }
}
