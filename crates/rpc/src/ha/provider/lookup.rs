//! Servers of which somebody else knows who is active: HBase's masters by ZooKeeper's `/hbase/master`, or by the RPC registry.
//!
//! Asked when nobody is known, and again after a failover; in between the answer stays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::HostPort;
use cadastre_types::Result;
use futures::future::BoxFuture;

use super::ProxyProvider;
use crate::ha::engine::{Engine, Target};
use crate::ha::failure::{Executed, Failed, Failure};
use crate::ha::policy::Class;
use crate::ha::proxy::{Call, Invoker};

/// Knows the active server.
pub trait Lookup: Send + Sync {
    /// Where it is now. `left` is what is left of the caller's time, if that is bounded.
    ///
    /// # Errors
    /// If nobody is active, or nobody who knows is reached.
    fn active(&self, left: Option<Duration>) -> BoxFuture<'_, Result<HostPort>>;
}

/// The provider.
pub struct ActiveByLookup {
    asking: Arc<Asking>,
}

impl ActiveByLookup {
    /// Over an engine; the target's address is replaced by what is looked up, and names the group of servers in messages until then.
    pub fn new(lookup: Arc<dyn Lookup>, engine: Arc<dyn Engine>, target: Target) -> Self {
        Self {
            asking: Arc::new(Asking {
                name: target.address.to_string().into(),
                lookup,
                engine,
                target,
                known: Mutex::default(),
            }),
        }
    }
}

impl ProxyProvider for ActiveByLookup {
    fn current(&self) -> Arc<dyn Invoker> {
        match self.asking.known() {
            Some(server) => server,
            None => Arc::clone(&self.asking) as Arc<dyn Invoker>,
        }
    }

    /// Forgets who it was: the next try asks.
    fn fail_over(&self, _: &Arc<dyn Invoker>) {
        *self.asking.lock() = None;
    }
}

struct Asking {
    name: Arc<str>,
    lookup: Arc<dyn Lookup>,
    engine: Arc<dyn Engine>,
    target: Target,
    known: Mutex<Option<Arc<dyn Invoker>>>,
}

impl Asking {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<dyn Invoker>>> {
        self.known.lock().expect("nothing panics while it is held")
    }

    fn known(&self) -> Option<Arc<dyn Invoker>> {
        self.lock().clone()
    }

    async fn server(&self, left: Option<Duration>) -> Result<Arc<dyn Invoker>> {
        if let Some(server) = self.known() {
            return Ok(server);
        }
        let address = self.lookup.active(left).await?;
        let server = self.engine.proxy(Target {
            address,
            ..self.target.clone()
        })?;
        *self.lock() = Some(Arc::clone(&server));
        Ok(server)
    }
}

impl Invoker for Asking {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            match self.server(call.left).await {
                Ok(server) => server.invoke(call).await,
                Err(error) => {
                    // Whatever it is, the call was sent to nobody.
                    let error = error.context("who is active");
                    let class = Class::MasterNotRunning;
                    Err(Failure::new(class, Executed::No, &self.name, error).into())
                }
            }
        })
    }
}
