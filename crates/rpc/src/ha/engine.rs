//! Engines by protocol (P3): what turns calls into a kind of frames. Knows no kind itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cadastre_env::HostPort;
use cadastre_types::{Error, Result};
use cadastre_wire::hadoop::User;

use super::config::Conf;
use super::method::Protocol;
use super::proxy::{CallIds, Invoker};
use crate::hadoop::Alignment;

/// A server, and how it is talked to (P4).
#[derive(Debug, Clone)]
pub struct Target {
    /// Where; the name is resolved anew for each connection, so a server may move.
    pub address: HostPort,
    /// For what.
    pub protocol: &'static Protocol,
    /// In whose name.
    pub user: User,
    /// What the client has seen, for servers that follow.
    pub alignment: Option<Arc<Alignment>>,
}

/// Makes proxies to single servers.
pub trait Engine: Send + Sync {
    /// For people.
    fn name(&self) -> &'static str;
    /// Call ids of the client that this engine is to its servers.
    fn ids(&self) -> CallIds;
    /// A proxy. Connects to nobody yet.
    ///
    /// # Errors
    /// If the engine cannot carry the protocol.
    fn proxy(&self, target: Target) -> Result<Arc<dyn Invoker>>;
}

/// Class names of engines that are known and refused, with the reason.
const REFUSED: &[(&str, &str)] = &[(
    "WritableRpcEngine",
    "the old Writable encoding is not supported; a NameNode since Hadoop 2 does not need it",
)];

/// Configuration keys that name a protocol's engine begin so.
const KEY: &str = "rpc.engine.";

/// The registry.
pub struct Engines {
    by_name: BTreeMap<String, Arc<dyn Engine>>,
    default: Arc<dyn Engine>,
    chosen: Mutex<BTreeMap<&'static str, Arc<dyn Engine>>>,
}

impl Engines {
    /// A registry with the engine of protocols for which nothing is configured.
    pub fn new(default: Arc<dyn Engine>) -> Self {
        Self {
            by_name: BTreeMap::new(),
            default,
            chosen: Mutex::default(),
        }
    }

    /// Knows an engine by a name, which the last part of a Java class name is.
    pub fn with(mut self, name: impl Into<String>, engine: Arc<dyn Engine>) -> Self {
        self.by_name.insert(name.into(), engine);
        self
    }

    /// Hadoop's names for the engine of protocol buffers.
    pub fn with_hadoop(self, engine: &Arc<dyn Engine>) -> Self {
        self.with("ProtobufRpcEngine2", Arc::clone(engine))
            .with("ProtobufRpcEngine", Arc::clone(engine))
    }

    /// Sets a protocol's engine, whatever is configured.
    pub fn set(&self, protocol: &'static Protocol, engine: Arc<dyn Engine>) {
        self.chosen().insert(protocol.name, engine);
    }

    /// A protocol's engine: set before, configured by `rpc.engine.<protocol>`, or the default. The choice stays.
    ///
    /// # Errors
    /// If the configured one is not known; says key and file.
    pub fn of(&self, protocol: &'static Protocol, conf: &Conf) -> Result<Arc<dyn Engine>> {
        if let Some(engine) = self.chosen().get(protocol.name) {
            return Ok(Arc::clone(engine));
        }
        let engine = self.configured(protocol, conf)?;
        self.set(protocol, Arc::clone(&engine));
        Ok(engine)
    }

    fn chosen(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Arc<dyn Engine>>> {
        self.chosen.lock().expect("nothing panics while it is held")
    }

    fn configured(&self, protocol: &Protocol, conf: &Conf) -> Result<Arc<dyn Engine>> {
        for name in [protocol.interface, protocol.name] {
            let key = format!("{KEY}{name}");
            let Some(class) = conf.get(&key)? else {
                continue;
            };
            let last = class.rsplit(['.', '$']).next().unwrap_or_default();
            if let Some(engine) = self.by_name.get(last) {
                return Ok(Arc::clone(engine));
            }
            let why = REFUSED.iter().find(|(name, _)| *name == last).map_or_else(
                || {
                    let known: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
                    format!("the engines that are known are {}", known.join(", "))
                },
                |(_, why)| (*why).to_owned(),
            );
            return Err(Error::invalid(format!(
                "{}: the engine '{class}' cannot be used: {why}",
                conf.origin(&key)
            )));
        }
        Ok(Arc::clone(&self.default))
    }
}
