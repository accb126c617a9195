//! What Hadoop's keys say about one nameservice (hadoop-ha-rpc.md A.2 to A.8), checked: what contradicts itself is refused with key and file.

use std::time::Duration;

use cadastre_env::HostPort;
use cadastre_types::{Error, Result};

use super::config::Conf;
use super::failure::MEMBERS_MAX;
use super::policy::{Failover, LinearRandom, Policy};
use super::provider::ObserverSettings;
use super::proxy::Policies;
use crate::hadoop::HadoopConfig;

const NAMESERVICES: &str = "dfs.nameservices";
const NAMENODES: &str = "dfs.ha.namenodes.";
const PROVIDER: &str = "dfs.client.failover.proxy.provider.";
const RPC_ADDRESS: &str = "dfs.namenode.rpc-address";
const AUXILIARY_PORTS: &str = "dfs.namenode.rpc-address.auxiliary-ports";

/// The port of a NameNode where none is given.
pub const DEFAULT_PORT: u16 = 8020;

/// A call without a time-out of its own still ends (INV-9): `ipc.client.rpc-timeout.ms` 0 means this.
const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// How the current server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// One after the other.
    Configured,
    /// All at once the first time.
    Hedging,
    /// One address that moves.
    Ip,
    /// Reads from observers, the rest one after the other.
    ObserverReads,
    /// Reads from observers, the rest from one address that moves.
    ObserverReadsWithIp,
}

/// Last part of a class name, and what it is here.
const PROVIDERS: &[(&str, ProviderKind)] = &[
    ("ConfiguredFailoverProxyProvider", ProviderKind::Configured),
    ("RequestHedgingProxyProvider", ProviderKind::Hedging),
    ("IPFailoverProxyProvider", ProviderKind::Ip),
    ("ObserverReadProxyProvider", ProviderKind::ObserverReads),
    (
        "ObserverReadProxyProviderWithIPFailover",
        ProviderKind::ObserverReadsWithIp,
    ),
];

/// A logical name and its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameService {
    /// Its name.
    pub name: String,
    /// Id and address of each NameNode, in configured order.
    pub servers: Vec<(String, HostPort)>,
}

/// All that is configured for a nameservice with failover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Which servers.
    pub nameservice: NameService,
    /// How they are chosen.
    pub kind: ProviderKind,
    /// Numbers of the policy.
    pub failover: Failover,
    /// Starts anywhere instead of with the first (`dfs.client.failover.random.order`).
    pub random_order: bool,
    /// Each host stands for all its addresses (`dfs.client.failover.resolve-needed.<ns>`).
    pub resolve_needed: bool,
    /// The address that moves (`dfs.client.failover.ipfailover.virtual-address.<ns>`).
    pub virtual_address: Option<HostPort>,
    /// Of observer reads.
    pub observers: ObserverSettings,
    /// How long a repeated call may be known again, if the servers' setting is known (`dfs.namenode.retrycache.expirytime.millis`).
    pub remembered: Option<Duration>,
}

impl Settings {
    /// What is configured for a URI's host; `None` without a failover provider, which alone decides (P1).
    ///
    /// # Errors
    /// For what is missing, unknown or contradictory, with key and file.
    pub fn of(conf: &Conf, host: &str) -> Result<Option<Self>> {
        let key = format!("{PROVIDER}{host}");
        let Some(class) = conf.get(&key)? else {
            return no_provider(conf, host, &key).map(|()| None);
        };
        let last = class.trim().rsplit(['.', '$']).next().unwrap_or_default();
        let Some((_, kind)) = PROVIDERS.iter().find(|(name, _)| *name == last) else {
            let known: Vec<&str> = PROVIDERS.iter().map(|(name, _)| *name).collect();
            return Err(Error::invalid(format!(
                "{}: the provider '{class}' is not known; known are {}",
                conf.origin(&key),
                known.join(", ")
            )));
        };
        let virtual_address = virtual_address(conf, host, *kind)?;
        let nameservice = match kind {
            ProviderKind::Ip => NameService {
                name: host.to_owned(),
                servers: Vec::new(),
            },
            _ => nameservice(conf, host)?,
        };
        let own_order = format!("dfs.client.failover.random.order.{host}");
        let random_order = match conf.flag(&own_order)? {
            Some(own) => own,
            None => conf
                .flag("dfs.client.failover.random.order")?
                .unwrap_or(true),
        };
        let resolve_needed = format!("dfs.client.failover.resolve-needed.{host}");
        Ok(Some(Self {
            nameservice,
            kind: *kind,
            failover: failover(conf)?,
            random_order,
            resolve_needed: conf.flag(&resolve_needed)?.unwrap_or(false),
            virtual_address,
            observers: observers(conf, host)?,
            remembered: remembered(conf)?,
        }))
    }

    /// The policies of these numbers.
    pub fn policies(&self) -> Policies {
        let policies = Policies::all(Policy::failover(self.failover.clone()));
        Policies {
            remembered: self.remembered.unwrap_or(policies.remembered),
            ..policies
        }
    }
}

/// A name that is configured as a nameservice and has no provider would be looked for as a host, in vain (A.2).
fn no_provider(conf: &Conf, host: &str, key: &str) -> Result<()> {
    let listed = conf.list(NAMESERVICES)?.iter().any(|name| name == host);
    let namenodes = format!("{NAMENODES}{host}");
    let what = if listed {
        NAMESERVICES
    } else if conf.get(&namenodes)?.is_some() {
        &namenodes
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "{}: '{host}' is a nameservice, but {key} is not set, so nothing says how to fail over; set it to \
         org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
        conf.origin(what)
    )))
}

fn nameservice(conf: &Conf, host: &str) -> Result<NameService> {
    let names = conf.list(NAMESERVICES)?;
    if !names.iter().any(|name| name == host) {
        return Err(Error::invalid(format!(
            "{} does not list '{host}', but {} is set",
            conf.origin(NAMESERVICES),
            conf.origin(&format!("{PROVIDER}{host}"))
        )));
    }
    let ids_key = format!("{NAMENODES}{host}");
    let ids = conf.list(&ids_key)?;
    if ids.is_empty() {
        return Err(Error::invalid(format!(
            "{} names no NameNode of '{host}', but {} is set",
            conf.origin(&ids_key),
            conf.origin(&format!("{PROVIDER}{host}"))
        )));
    }
    if ids.len() > MEMBERS_MAX {
        return Err(Error::invalid(format!(
            "{}: {} NameNodes are more than {MEMBERS_MAX}",
            conf.origin(&ids_key),
            ids.len()
        )));
    }
    let mut servers: Vec<(String, HostPort)> = Vec::new();
    for id in ids {
        let address = namenode(conf, host, &id, &ids_key)?;
        if let Some((other, _)) = servers.iter().find(|(_, known)| *known == address) {
            return Err(Error::invalid(format!(
                "{}: {id} and {other} have the same address {address}",
                conf.origin(&format!("{RPC_ADDRESS}.{host}.{id}"))
            )));
        }
        servers.push((id, address));
    }
    Ok(NameService {
        name: host.to_owned(),
        servers,
    })
}

fn namenode(conf: &Conf, host: &str, id: &str, ids_key: &str) -> Result<HostPort> {
    let key = format!("{RPC_ADDRESS}.{host}.{id}");
    let Some(text) = conf.get(&key)? else {
        return Err(Error::invalid(format!(
            "{} lists {id}, but {key} is not set",
            conf.origin(ids_key)
        )));
    };
    let (text, is_uri) = match text.trim().split_once("://") {
        Some((_, rest)) => (rest.trim_end_matches('/').to_owned(), true),
        None => (text.trim().to_owned(), false),
    };
    let Some(mut address) = HostPort::parse(&text) else {
        return Err(Error::invalid(format!(
            "{}: '{text}' is not host:port",
            conf.origin(&key)
        )));
    };
    // As in Hadoop, these count only for an address with a scheme (A.3).
    let ports = format!("{AUXILIARY_PORTS}.{host}.{id}");
    if is_uri && let Some(port) = conf.list(&ports)?.first() {
        address.port = port
            .parse()
            .map_err(|_| Error::invalid(format!("{}: '{port}' is no port", conf.origin(&ports))))?;
    }
    Ok(address)
}

fn virtual_address(conf: &Conf, host: &str, kind: ProviderKind) -> Result<Option<HostPort>> {
    if kind != ProviderKind::ObserverReadsWithIp {
        return Ok(None);
    }
    let key = format!("dfs.client.failover.ipfailover.virtual-address.{host}");
    let text = conf.get(&key)?.unwrap_or_default();
    let rest = text.split_once("://").map_or(&*text, |(_, rest)| rest);
    match HostPort::parse(rest.trim_end_matches('/')) {
        Some(address) => Ok(Some(address)),
        None => Err(Error::invalid(format!(
            "{}: '{text}' is no URI with host and port, and {} needs one",
            conf.origin(&key),
            conf.origin(&format!("{PROVIDER}{host}"))
        ))),
    }
}

fn failover(conf: &Conf) -> Result<Failover> {
    const BASE: &str = "dfs.client.failover.sleep.base.millis";
    const MAX: &str = "dfs.client.failover.sleep.max.millis";
    let default = Failover::default();
    let numbers = Failover {
        failovers_max: (conf.small("dfs.client.failover.max.attempts")?)
            .unwrap_or(default.failovers_max),
        retries_max: (conf.small("dfs.client.retry.max.attempts")?).unwrap_or(default.retries_max),
        sleep_base_ms: conf.number(BASE)?.unwrap_or(default.sleep_base_ms),
        sleep_max_ms: conf.number(MAX)?.unwrap_or(default.sleep_max_ms),
    };
    if numbers.sleep_base_ms > numbers.sleep_max_ms {
        return Err(Error::invalid(format!(
            "{} is {} ms, more than {} with {} ms",
            conf.origin(BASE),
            numbers.sleep_base_ms,
            conf.origin(MAX),
            numbers.sleep_max_ms
        )));
    }
    Ok(numbers)
}

/// A tenth less than the servers' own: a try takes its way, too.
fn remembered(conf: &Conf) -> Result<Option<Duration>> {
    let time = conf.number("dfs.namenode.retrycache.expirytime.millis")?;
    Ok(time.map(|ms| Duration::from_millis(ms / 10 * 9)))
}

fn observers(conf: &Conf, host: &str) -> Result<ObserverSettings> {
    let default = ObserverSettings::default();
    let period = format!("dfs.client.failover.observer.auto-msync-period.{host}");
    Ok(ObserverSettings {
        auto_msync: conf.time(&period)?.flatten(),
        probe_again: (conf.time("dfs.client.failover.observer.probe.retry.period")?)
            .flatten()
            .unwrap_or(default.probe_again),
        probe_timeout: (conf.time("dfs.client.failover.namenode.ha-state.probe.timeout")?)
            .flatten()
            .filter(|limit| !limit.is_zero()),
    })
}

/// The policy for one server without others (A.6).
pub(super) fn plain_policy(conf: &Conf) -> Result<Policy> {
    const SPEC: &str = "dfs.client.retry.policy.spec";
    if conf.flag("dfs.client.retry.policy.enabled")? != Some(true) {
        return Ok(Policy::TryOnce);
    }
    let Some(text) = conf.get(SPEC)? else {
        return Ok(Policy::Plain(LinearRandom::default()));
    };
    match LinearRandom::parse(&text) {
        Some(linear) => Ok(Policy::Plain(linear)),
        None => Err(Error::invalid(format!(
            "{}: '{text}' is no list of pairs of sleep in ms and count",
            conf.origin(SPEC)
        ))),
    }
}

/// Keys of sleeps below the loop: there are none (P17).
const FOLDED: &[&str] = &[
    "ipc.client.connect.max.retries",
    "ipc.client.connect.max.retries.on.timeouts",
    "ipc.client.connect.retry.interval",
    "ipc.client.connect.max.retries.on.sasl",
    "dfs.client.failover.connection.retries",
    "dfs.client.failover.connection.retries.on.timeouts",
];

/// Settings of a kind that is not there: key, the only value that is taken, and why.
const ONLY: &[(&str, &str, &str)] = &[
    (
        "hadoop.security.authentication",
        "simple",
        "Kerberos is not supported yet",
    ),
    (
        "hadoop.rpc.protection",
        "authentication",
        "integrity and privacy are not supported yet",
    ),
];

/// Limits of connections (A.8, E.8); adds what does not count to the warnings.
///
/// # Errors
/// For values that cannot be read, and for security, which is not there.
pub fn connections(conf: &mut Conf) -> Result<HadoopConfig> {
    for (key, only, why) in ONLY {
        if let Some(value) = conf.get(key)?
            && value.trim() != *only
        {
            let origin = conf.origin(key);
            return Err(Error::unsupported(format!("{origin}: '{value}' ({why})")));
        }
    }
    for key in FOLDED {
        if conf.number(key)?.is_some_and(|value| value > 0) {
            conf.warn(format!(
                "{} does not count: tries are made by the retry loop alone",
                conf.origin(key)
            ));
        }
    }
    let default = HadoopConfig::default();
    let ms = |key: &str, default: Duration| -> Result<Duration> {
        Ok(conf.number(key)?.map_or(default, Duration::from_millis))
    };
    let pings = conf.flag("ipc.client.ping")?.unwrap_or(true);
    let interval = ms("ipc.ping.interval", Duration::from_secs(60))?;
    let call_timeout = match ms("ipc.client.rpc-timeout.ms", default.call_timeout)? {
        Duration::ZERO if !pings => interval,
        Duration::ZERO => CALL_TIMEOUT_MAX,
        given => given.min(CALL_TIMEOUT_MAX),
    };
    let response = conf.number("ipc.maximum.response.length")?;
    Ok(HadoopConfig {
        connect_timeout: ms("ipc.client.connect.timeout", default.connect_timeout)?,
        call_timeout,
        idle: ms("ipc.client.connection.maxidletime", default.idle)?,
        ping: (pings && !interval.is_zero()).then_some(interval),
        response_bytes_max: response
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|bytes| *bytes > 0)
            .map_or(default.response_bytes_max, |bytes| {
                bytes.min(default.response_bytes_max)
            }),
        ..default
    })
}

#[cfg(test)]
mod tests;
