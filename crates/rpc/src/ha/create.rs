//! `create_proxy`: the layers put together from a configuration (P1 to P3).

use std::sync::Arc;

use cadastre_env::{Env, HostPort, Net};
use cadastre_types::{Error, Result};
use cadastre_wire::hadoop::User;

use super::config::Conf;
use super::engine::{Engine, Engines, Target};
use super::lossy::{Loss, LossyEngine};
use super::master_service::MASTER_SERVICE;
use super::method::Protocol;
use super::policy::Policy;
use super::provider::{
    ConfiguredFailover, IpFailover, ObserverReads, ProxyProvider, RequestHedging, StateProbe,
};
use super::proxy::{Caller, Events, Invoker, Policies, Proxy};
use super::settings::{self, DEFAULT_PORT, ProviderKind, Settings};
use crate::hadoop::{
    Alignment, CLIENT_PROTOCOL, ClientProtocolProbe, HA_SERVICE_PROTOCOL, NAMENODE_PROTOCOL,
    plain_policies,
};

/// How many answers of each call are thrown away, for tests (A.7).
const DROP: &str = "dfs.client.test.drop.namenode.response.number";

/// Where the proxy comes from, first to last.
pub enum Source<'a> {
    /// An object handed in; then there is no URI.
    Given(Arc<dyn Caller>),
    /// A new one for this URI, lossy if the configuration says so.
    Uri(&'a str),
}

/// The result.
pub struct Created {
    /// The proxy.
    pub proxy: Arc<dyn Caller>,
    /// Name of the service for delegation tokens; `None` for an object that was handed in.
    pub token_service: Option<String>,
    /// The server's address, or the logical name with the usual port; `None` for an object that was handed in.
    pub address: Option<HostPort>,
}

/// Makes the proxy of a protocol to whatever a URI names: several servers with failover if, and only if, a failover provider is configured
/// for its host; otherwise one server.
///
/// # Errors
/// For a protocol, URI or configuration that cannot be used, with what to do about it. No server is asked yet.
pub async fn create_proxy<E: Env>(
    env: &E,
    conf: &Conf,
    source: Source<'_>,
    protocol: &'static Protocol,
    user: &User,
    engines: &Engines,
    events: Option<Events>,
) -> Result<Created> {
    let uri = match source {
        Source::Given(proxy) if proxy.protocol().name == protocol.name => {
            return Ok(Created {
                proxy,
                token_service: None,
                address: None,
            });
        }
        Source::Given(proxy) => {
            let (given, asked) = (proxy.protocol().name, protocol.name);
            return Err(Error::invalid(format!(
                "the proxy handed in speaks {given}, not {asked}"
            )));
        }
        Source::Uri(uri) => Uri::parse(uri)?,
    };
    let engine = engines.of(protocol, conf)?;
    let lost = conf.small(DROP)?.filter(|tries| *tries > 0);
    let settings = Settings::of(conf, &uri.host)?;
    let maker = Maker {
        env,
        conf,
        uri,
        protocol,
        user,
        engine,
        events,
    };
    match settings {
        Some(settings) => maker.with_failover(settings, lost).await,
        None => maker.plain(lost).await,
    }
}

struct Maker<'a, E> {
    env: &'a E,
    conf: &'a Conf,
    uri: Uri,
    protocol: &'static Protocol,
    user: &'a User,
    engine: Arc<dyn Engine>,
    events: Option<Events>,
}

impl<E: Env> Maker<'_, E> {
    async fn with_failover(self, mut settings: Settings, lost: Option<u32>) -> Result<Created> {
        let is_logical = settings.kind != ProviderKind::Ip;
        if let Some(port) = self.uri.port.filter(|port| *port != DEFAULT_PORT)
            && is_logical
        {
            return Err(Error::invalid(format!(
                "hdfs://{}:{port}: '{0}' is a logical name (dfs.client.failover.proxy.provider.{0}), which has no port",
                self.uri.host
            )));
        }
        let mut engine = Arc::clone(&self.engine);
        if let Some(tries) = lost {
            // So many tries fail for nothing.
            settings.failover.retries_max = settings.failover.retries_max.max(tries + 1);
            engine = Arc::new(LossyEngine::new(engine, tries, Loss::Retriable));
        }
        let address = HostPort::new(&*self.uri.host, self.uri.port.unwrap_or(DEFAULT_PORT));
        let token_service = if is_logical {
            format!("ha-hdfs:{}", self.uri.host)
        } else {
            self.service_of(&address).await
        };
        let provider = self.provider(&settings, &*engine, &address).await?;
        let proxy = Proxy::new(
            self.env.clock().clone(),
            self.protocol,
            provider,
            settings.policies(),
            engine.ids(),
            self.env.rng("ha-delays"),
            self.events,
        );
        Ok(Created {
            proxy: Arc::new(proxy),
            token_service: Some(token_service),
            address: Some(address),
        })
    }

    async fn provider(
        &self,
        settings: &Settings,
        engine: &dyn Engine,
        address: &HostPort,
    ) -> Result<Box<dyn ProxyProvider>> {
        let observes = matches!(
            settings.kind,
            ProviderKind::ObserverReads | ProviderKind::ObserverReadsWithIp
        );
        // One view for all servers: what one has shown another must not take back.
        let alignment = observes.then(|| Arc::new(Alignment::default()));
        let make = |address: &HostPort| self.invoker(engine, address, alignment.as_ref());
        let mut servers = Vec::new();
        for address in self.addresses(settings).await? {
            servers.push(make(&address)?);
        }
        let mut chance = self.env.rng("ha-order");
        let mut in_order = |servers: Vec<Arc<dyn Invoker>>| -> Box<dyn ProxyProvider> {
            if settings.random_order {
                Box::new(ConfiguredFailover::shuffled(servers, &mut chance))
            } else {
                Box::new(ConfiguredFailover::new(servers))
            }
        };
        let inner: Box<dyn ProxyProvider> = match settings.kind {
            ProviderKind::Configured => return Ok(in_order(servers)),
            ProviderKind::Ip => return Ok(Box::new(IpFailover(make(address)?))),
            ProviderKind::Hedging => {
                let probe = self.probe();
                let provider = RequestHedging::new(servers, probe, engine.ids());
                return Ok(Box::new(provider));
            }
            ProviderKind::ObserverReads => in_order(servers.clone()),
            ProviderKind::ObserverReadsWithIp => {
                let moving = (settings.virtual_address.as_ref())
                    .expect("settings with this kind have the address");
                Box::new(IpFailover(make(moving)?))
            }
        };
        // Observers answer ClientProtocol only; other protocols always ask the active one (C.4).
        let Some(probe) = self.probe() else {
            return Ok(inner);
        };
        Ok(Box::new(ObserverReads::new(
            self.env.clock().clone(),
            servers,
            inner,
            probe,
            engine.ids(),
            settings.observers.clone(),
        )))
    }

    fn probe(&self) -> Option<Arc<dyn StateProbe>> {
        (self.protocol.name == CLIENT_PROTOCOL.name)
            .then(|| Arc::new(ClientProtocolProbe) as Arc<dyn StateProbe>)
    }

    fn invoker(
        &self,
        engine: &dyn Engine,
        address: &HostPort,
        alignment: Option<&Arc<Alignment>>,
    ) -> Result<Arc<dyn Invoker>> {
        engine.proxy(Target {
            address: address.clone(),
            protocol: self.protocol,
            user: self.user.clone(),
            alignment: alignment.cloned(),
        })
    }

    /// The servers' addresses; each host as all that it stands for, if that is wanted.
    async fn addresses(&self, settings: &Settings) -> Result<Vec<HostPort>> {
        let mut all = Vec::new();
        for (id, address) in &settings.nameservice.servers {
            if !settings.resolve_needed {
                all.push(address.clone());
                continue;
            }
            let found = self.env.net().resolve(&address.host).await;
            let found = found.map_err(|error| {
                Error::invalid(format!(
                    "{id} of {}: {} has no address: {error}",
                    settings.nameservice.name, address.host
                ))
            })?;
            let at = |ip: &std::net::IpAddr| HostPort::new(ip.to_string(), address.port);
            all.extend(found.iter().map(at));
        }
        // More than are ever asked at once are not used.
        all.truncate(super::failure::MEMBERS_MAX);
        Ok(all)
    }

    async fn plain(self, lost: Option<u32>) -> Result<Created> {
        if lost.is_some() {
            tracing::warn!("{DROP} counts only with failover; nothing is dropped");
        }
        if self.uri.scheme != "hdfs" && self.protocol.name != MASTER_SERVICE.name {
            return Err(Error::invalid(format!(
                "{}://{}: the scheme of {} is hdfs",
                self.uri.scheme, self.uri.host, self.protocol.name
            )));
        }
        let policies = self.plain_policies()?;
        let address = HostPort::new(&*self.uri.host, self.uri.port.unwrap_or(DEFAULT_PORT));
        let invoker = self.invoker(&*self.engine, &address, None)?;
        let token_service = self.service_of(&address).await;
        let proxy = Proxy::new(
            self.env.clock().clone(),
            self.protocol,
            Box::new(IpFailover(invoker)),
            policies,
            self.engine.ids(),
            self.env.rng("ha-delays"),
            self.events,
        );
        Ok(Created {
            proxy: Arc::new(proxy),
            token_service: Some(token_service),
            address: Some(address),
        })
    }

    /// By protocol (P2, A.5).
    fn plain_policies(&self) -> Result<Policies> {
        let name = self.protocol.name;
        if name == CLIENT_PROTOCOL.name {
            Ok(Policies::all(settings::plain_policy(self.conf)?))
        } else if name == NAMENODE_PROTOCOL.name {
            Ok(plain_policies())
        } else if name == HA_SERVICE_PROTOCOL.name || name == MASTER_SERVICE.name {
            Ok(Policies::all(Policy::TryOnce))
        } else {
            Err(Error::unsupported(format!(
                "a proxy of the protocol {name}"
            )))
        }
    }

    /// As Hadoop names a single server in its tokens: by its address, or by name where that is not known.
    async fn service_of(&self, address: &HostPort) -> String {
        match self.env.net().resolve(&address.host).await.as_deref() {
            Ok([ip, ..]) => HostPort::new(ip.to_string(), address.port).to_string(),
            _ => address.to_string(),
        }
    }
}

/// The parts of a URI that count here.
struct Uri {
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl Uri {
    fn parse(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(format!(
                "'{text}' is no URI such as hdfs://name/ or hdfs://host:8020/"
            ))
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let authority = rest.split('/').next().unwrap_or_default();
        let (host, port) = match HostPort::parse(authority) {
            Some(HostPort { host, port }) => (host, Some(port)),
            None if authority.contains(':') => return Err(bad()),
            None => (authority.to_owned(), None),
        };
        if scheme.is_empty() || host.is_empty() || host.contains(char::is_whitespace) {
            return Err(bad());
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            host,
            port: port.filter(|port| *port > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        let parts = |text| {
            let uri = Uri::parse(text).unwrap();
            (uri.scheme, uri.host, uri.port)
        };
        let part = str::to_owned;
        assert_eq!(parts("hdfs://ns"), (part("hdfs"), part("ns"), None));
        assert_eq!(parts("hdfs://ns/a:b"), (part("hdfs"), part("ns"), None));
        assert_eq!(parts("hdfs://h:1/"), (part("hdfs"), part("h"), Some(1)));
        assert_eq!(parts("x://[::1]:2"), (part("x"), part("::1"), Some(2)));
        for bad in [
            "ns",
            "hdfs://",
            "hdfs:///a",
            "://a",
            "hdfs://a:b",
            "hdfs://a b",
        ] {
            assert!(Uri::parse(bad).is_err(), "{bad}");
        }
    }
}
