//! Who the current server is, and which comes next (P16). A new way of choosing is one more implementation of [`ProxyProvider`].

mod hedging;
mod lookup;
mod observer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use cadastre_env::Rng;
use cadastre_types::Result;
use rand::seq::SliceRandom;

pub use hedging::RequestHedging;
pub use lookup::{ActiveByLookup, Lookup};
pub use observer::{ObserverReads, ObserverSettings};

use super::method::Method;
use super::proxy::Invoker;

/// Chooses servers. The loop calls it under its guard, so it decides at once and waits for nothing.
pub trait ProxyProvider: Send + Sync {
    /// The server to use now.
    fn current(&self) -> Arc<dyn Invoker>;
    /// The current one, which this is, failed: take another.
    fn fail_over(&self, failed: &Arc<dyn Invoker>);
    /// How many servers there are to fail over among, as far as that is known here.
    fn servers(&self) -> usize {
        1
    }
    /// Whether an answer to this method shows that the current server is active; not where others answer, too.
    fn shows_active(&self, _: &Method) -> bool {
        true
    }
}

/// The servers in order, from the first or from any one, round and round (C.1).
pub struct ConfiguredFailover {
    servers: Vec<Arc<dyn Invoker>>,
    at: AtomicUsize,
}

impl ConfiguredFailover {
    /// In the given order.
    ///
    /// # Panics
    /// Without a server.
    pub fn new(servers: Vec<Arc<dyn Invoker>>) -> Self {
        assert!(!servers.is_empty(), "a provider has a server");
        Self {
            servers,
            at: AtomicUsize::new(0),
        }
    }

    /// In an order that chance gives, once.
    ///
    /// # Panics
    /// Without a server.
    pub fn shuffled(mut servers: Vec<Arc<dyn Invoker>>, chance: &mut Rng) -> Self {
        servers.shuffle(chance);
        Self::new(servers)
    }
}

impl ProxyProvider for ConfiguredFailover {
    fn servers(&self) -> usize {
        self.servers.len()
    }

    fn current(&self) -> Arc<dyn Invoker> {
        Arc::clone(&self.servers[self.at.load(Ordering::Acquire) % self.servers.len()])
    }

    fn fail_over(&self, _: &Arc<dyn Invoker>) {
        // Only one at a time: the loop's guard is held.
        let next = (self.at.load(Ordering::Acquire) + 1) % self.servers.len();
        self.at.store(next, Ordering::Release);
    }
}

/// One name whose address the network moves (C.3): a connection is resolved anew, so failing over means trying again.
pub struct IpFailover(pub Arc<dyn Invoker>);

impl ProxyProvider for IpFailover {
    fn current(&self) -> Arc<dyn Invoker> {
        Arc::clone(&self.0)
    }

    fn fail_over(&self, _: &Arc<dyn Invoker>) {}
}

/// What a server is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// Not started.
    Initializing,
    /// Does everything.
    Active,
    /// Follows, and serves nobody.
    Standby,
    /// Follows, and serves reads.
    Observer,
}

/// How a protocol's servers are asked what they are.
pub trait StateProbe: Send + Sync {
    /// A read that a server answers in every state.
    fn request(&self) -> (&'static Method, Bytes);
    /// What it says.
    ///
    /// # Errors
    /// If it cannot be read.
    fn state(&self, answer: Bytes) -> Result<ServerState>;
    /// A call that does nothing but tell how far the active one is; `None` if there are no observers in this protocol.
    fn msync(&self) -> Option<(&'static Method, Bytes)>;
}

#[cfg(test)]
mod tests;
