//! What configurations mean, and which contradict themselves.

use super::*;

const BASE: &[(&str, &str)] = &[
    ("dfs.nameservices", "other, ns"),
    ("dfs.ha.namenodes.ns", "nn0, nn1"),
    ("dfs.namenode.rpc-address.ns.nn0", "a:8020"),
    ("dfs.namenode.rpc-address.ns.nn1", "hdfs://b:8021/"),
    (
        "dfs.client.failover.proxy.provider.ns",
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    ),
];

fn conf(changes: &[(&str, &str)]) -> Conf {
    let mut conf = Conf::default();
    for (key, value) in BASE.iter().chain(changes) {
        conf.set(key, value, "hdfs-site.xml");
    }
    conf
}

fn without(gone: &str) -> Conf {
    let mut conf = Conf::default();
    for (key, value) in BASE.iter().filter(|(key, _)| *key != gone) {
        conf.set(key, value, "hdfs-site.xml");
    }
    conf
}

fn refused(conf: &Conf, says: &[&str]) {
    let error = Settings::of(conf, "ns").unwrap_err();
    for says in says {
        assert!(error.message().contains(says), "{error} lacks '{says}'");
    }
}

#[test]
fn a_usual_one() {
    let settings = Settings::of(&conf(&[]), "ns").unwrap().unwrap();
    let servers = vec![
        ("nn0".to_owned(), HostPort::new("a", 8020)),
        ("nn1".to_owned(), HostPort::new("b", 8021)),
    ];
    assert_eq!(settings.nameservice.servers, servers);
    assert_eq!(settings.kind, ProviderKind::Configured);
    assert_eq!(settings.failover, Failover::default());
    assert!(settings.random_order && !settings.resolve_needed);
    assert_eq!(settings.observers, ObserverSettings::default());
    assert_eq!(settings.remembered, None);
}

#[test]
fn every_key() {
    let settings = Settings::of(
        &conf(&[
            ("dfs.client.failover.max.attempts", "3"),
            ("dfs.client.retry.max.attempts", "4"),
            ("dfs.client.failover.sleep.base.millis", "5"),
            ("dfs.client.failover.sleep.max.millis", "6"),
            ("dfs.client.failover.random.order", "true"),
            ("dfs.client.failover.random.order.ns", "false"),
            ("dfs.client.failover.resolve-needed.ns", "true"),
            (
                "dfs.namenode.rpc-address.auxiliary-ports.ns.nn1",
                "9000,9001",
            ),
            (
                "dfs.namenode.rpc-address.auxiliary-ports.ns.nn0",
                "9000,9001",
            ),
            (
                "dfs.client.failover.proxy.provider.ns",
                "x.ObserverReadProxyProviderWithIPFailover",
            ),
            (
                "dfs.client.failover.ipfailover.virtual-address.ns",
                "hdfs://v:8020",
            ),
            ("dfs.client.failover.observer.auto-msync-period.ns", "500ms"),
            ("dfs.client.failover.observer.probe.retry.period", "1m"),
            ("dfs.client.failover.namenode.ha-state.probe.timeout", "2s"),
            ("dfs.namenode.retrycache.expirytime.millis", "1000"),
        ]),
        "ns",
    )
    .unwrap()
    .unwrap();
    let numbers = Failover {
        failovers_max: 3,
        retries_max: 4,
        sleep_base_ms: 5,
        sleep_max_ms: 6,
    };
    assert_eq!(settings.failover, numbers);
    assert!(!settings.random_order && settings.resolve_needed);
    assert_eq!(settings.kind, ProviderKind::ObserverReadsWithIp);
    assert_eq!(settings.virtual_address, Some(HostPort::new("v", 8020)));
    // Auxiliary ports count for an address with a scheme only.
    let ports: Vec<u16> = (settings.nameservice.servers.iter())
        .map(|(_, address)| address.port)
        .collect();
    assert_eq!(ports, [8020, 9000]);
    let observers = ObserverSettings {
        auto_msync: Some(Duration::from_millis(500)),
        probe_again: Duration::from_secs(60),
        probe_timeout: Some(Duration::from_secs(2)),
    };
    assert_eq!(settings.observers, observers);
    assert_eq!(settings.policies().remembered, Duration::from_millis(900));
}

#[test]
fn the_provider_alone_decides() {
    assert_eq!(Settings::of(&conf(&[]), "host.example"), Ok(None));
    // A nameservice without provider is refused instead of being looked for as a host.
    let key = "dfs.client.failover.proxy.provider.ns";
    let says = [
        key,
        "dfs.nameservices in hdfs-site.xml",
        "ConfiguredFailover",
    ];
    refused(&without(key), &says);
    let mut unlisted = Conf::default();
    unlisted.set("dfs.ha.namenodes.ns", "nn0", "f.xml");
    refused(&unlisted, &["dfs.ha.namenodes.ns in f.xml", key]);
}

#[test]
fn contradictions_are_named() {
    refused(
        &without("dfs.nameservices"),
        &[
            "dfs.nameservices (not set)",
            "proxy.provider.ns in hdfs-site.xml",
        ],
    );
    refused(
        &without("dfs.ha.namenodes.ns"),
        &["dfs.ha.namenodes.ns (not set)"],
    );
    refused(
        &without("dfs.namenode.rpc-address.ns.nn1"),
        &["lists nn1", "dfs.namenode.rpc-address.ns.nn1 is not set"],
    );
    for (key, value, says) in [
        ("dfs.namenode.rpc-address.ns.nn1", "a:8020", "same address"),
        ("dfs.namenode.rpc-address.ns.nn1", "a", "not host:port"),
        ("dfs.client.failover.proxy.provider.ns", "x.Y", "'x.Y'"),
        (
            "dfs.client.failover.proxy.provider.ns",
            "RouterObserverReadProxyProvider",
            "known are",
        ),
        ("dfs.client.failover.max.attempts", "many", "'many'"),
        (
            "dfs.client.failover.sleep.base.millis",
            "20000",
            "more than",
        ),
        ("dfs.client.failover.random.order", "maybe", "'maybe'"),
    ] {
        refused(&conf(&[(key, value)]), &[says, "hdfs-site.xml"]);
    }
    let ids: Vec<String> = (0..=MEMBERS_MAX).map(|id| format!("n{id}")).collect();
    refused(&conf(&[("dfs.ha.namenodes.ns", &ids.join(","))]), &["17"]);
    let key = "dfs.client.failover.proxy.provider.ns";
    let class = "ObserverReadProxyProviderWithIPFailover";
    refused(&conf(&[(key, class)]), &["virtual-address.ns (not set)"]);
}

#[test]
fn limits_of_connections() {
    assert_eq!(connections(&mut conf(&[])), Ok(HadoopConfig::default()));
    let mut conf = conf(&[
        ("ipc.client.rpc-timeout.ms", "0"),
        ("ipc.client.ping", "false"),
        ("ipc.ping.interval", "7000"),
        ("ipc.client.connect.timeout", "1000"),
        ("ipc.client.connection.maxidletime", "2000"),
        ("ipc.maximum.response.length", "4096"),
        ("ipc.client.connect.max.retries", "50"),
    ]);
    let config = connections(&mut conf).unwrap();
    let expected = HadoopConfig {
        connect_timeout: Duration::from_secs(1),
        call_timeout: Duration::from_secs(7),
        idle: Duration::from_secs(2),
        ping: None,
        response_bytes_max: 4096,
        ..HadoopConfig::default()
    };
    assert_eq!(config, expected);
    let warning = "ipc.client.connect.max.retries in hdfs-site.xml does not count";
    assert!(conf.warnings()[0].starts_with(warning));
    conf.set("ipc.client.ping", "true", "f");
    let config = connections(&mut conf).unwrap();
    assert_eq!(config.call_timeout, CALL_TIMEOUT_MAX);
    assert_eq!(config.ping, Some(Duration::from_secs(7)));
}

#[test]
fn security_is_refused() {
    for (key, value) in [
        ("hadoop.security.authentication", "kerberos"),
        ("hadoop.rpc.protection", "privacy"),
    ] {
        let error = connections(&mut conf(&[(key, value)])).unwrap_err();
        assert!(error.message().contains(&format!("{key} in hdfs-site.xml")));
    }
}

#[test]
fn one_server_without_others() {
    let policy = |changes: &[(&str, &str)]| plain_policy(&conf(changes));
    assert_eq!(policy(&[]), Ok(Policy::TryOnce));
    let on = ("dfs.client.retry.policy.enabled", "true");
    assert_eq!(policy(&[on]), Ok(Policy::Plain(LinearRandom::default())));
    let spec = ("dfs.client.retry.policy.spec", "10,2");
    let given = Policy::Plain(LinearRandom(vec![(10, 2)]));
    assert_eq!(policy(&[on, spec]), Ok(given));
    let error = policy(&[on, ("dfs.client.retry.policy.spec", "10")]).unwrap_err();
    assert!(error.message().contains("hdfs-site.xml"));
}
