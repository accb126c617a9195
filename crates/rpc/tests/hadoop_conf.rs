//! Hadoop's configuration files with damage, and made of arbitrary pieces: none makes the reader panic, or hold more than its bound.

mod entry;

use proptest::prelude::*;

/// Both of a pair, with everything that a file can have.
const CORE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- comment -->
<configuration>
  <property><name>fs.defaultFS</name><value>hdfs://ns</value><final>true</final></property>
  <property name="ipc.client.rpc-timeout.ms" value="10000"/>
  <property><name>ipc.client.connect.timeout</name><value>5s</value></property>
  <property><name>a</name><value>${b}-${none}-${b}</value></property>
  <property><name>b</name><value><![CDATA[x]]>&lt;</value></property>
  <property><name>loop</name><value>${loop}</value></property>
  <property><name>empty</name></property>
</configuration>
"#;

const HDFS: &str = r#"<configuration>
  <property><name>fs.defaultFS</name><value>hdfs://other</value></property>
  <property><name>dfs.nameservices</name><value>ns, other</value></property>
  <property><name>dfs.ha.namenodes.ns</name><value>nn0,nn1</value></property>
  <property><name>dfs.namenode.rpc-address.ns.nn0</name><value>one:8020</value></property>
  <property><name>dfs.namenode.rpc-address.ns.nn1</name><value>hdfs://two:${port}</value></property>
  <property><name>port</name><value>8020</value></property>
  <property><name>dfs.client.failover.proxy.provider.ns</name><value>org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider</value></property>
  <property><name>dfs.client.failover.max.attempts</name><value>0x0f</value></property>
  <property><name>dfs.client.failover.random.order</name><value>false</value></property>
</configuration>
"#;

/// What is held whatever the input: values are cut at 64 KiB, and a replacement holds two.
const BASE: u64 = 512 * 1024;

/// For each byte of input: the parser's nodes and attributes (about a hundred bytes for four of input), keys and values.
const BYTES_PER_BYTE: u64 = 400;

fn good() -> Vec<u8> {
    [CORE.as_bytes(), HDFS.as_bytes()].join(&0)
}

fn check(data: &[u8]) {
    let seen = allocation_counter::measure(|| entry::hadoop_conf(data));
    let bound = BASE + BYTES_PER_BYTE * data.len() as u64;
    assert!(
        seen.bytes_max <= bound,
        "{} bytes held for {} of input",
        seen.bytes_max,
        data.len()
    );
}

#[test]
fn good_files_damaged_anywhere() {
    let bytes = good();
    check(&bytes);
    for at in 0..bytes.len() {
        check(&bytes[..at]);
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x01;
        check(&damaged);
        damaged[at] = b'$';
        check(&damaged);
    }
}

/// What grows when it is replaced stops at a bound; entities, which could, are refused.
#[test]
fn nothing_explodes() {
    let value = |name: usize| {
        let next = "${v".to_owned() + &(name + 1).to_string() + "}";
        let text = next.repeat(10);
        format!("<property><name>v{name}</name><value>{text}</value></property>")
    };
    let values: String = (0..30).map(value).collect();
    check(format!("<configuration>{values}</configuration>").as_bytes());
    let entities = "<!DOCTYPE c [<!ENTITY a \"0123456789\">]>";
    let many = "&a;".repeat(1000);
    let text = format!(
        "{entities}<configuration><property><name>x</name><value>{many}</value></property></configuration>"
    );
    check(text.as_bytes());
    let deep = "<property>".repeat(10_000);
    check(format!("<configuration>{deep}").as_bytes());
    // Many properties cost as much as there are.
    let many = "<property><name>k</name><value>v</value></property>".repeat(50_000);
    check(format!("<configuration>{many}</configuration>").as_bytes());
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("<configuration>".to_owned()),
        Just("</configuration>".to_owned()),
        Just("<property>".to_owned()),
        Just("</property>".to_owned()),
        "<(name|value|final)>[a-z.$\\{\\}0-9 ,:/-]{0,12}</(name|value|final)>",
        Just("<name>dfs.ha.namenodes.ns</name>".to_owned()),
        Just("<name>dfs.client.failover.proxy.provider.ns</name>".to_owned()),
        Just("<value>x.RequestHedgingProxyProvider</value>".to_owned()),
        Just("<name>dfs.client.failover.sleep.base.millis</name>".to_owned()),
        Just("\0".to_owned()),
        "\\PC{0,5}",
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes(data in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&data);
    }

    #[test]
    fn pieces_of_files_in_any_order(pieces in prop::collection::vec(piece(), 0..25)) {
        check(pieces.concat().as_bytes());
    }

    /// Well-formed files with arbitrary values.
    #[test]
    fn arbitrary_properties(properties in prop::collection::vec(
        ("(a|b|port|dfs.nameservices|dfs.ha.namenodes.ns|dfs.client.failover.max.attempts|dfs.client.failover.proxy.provider.ns|ipc.ping.interval)",
         "[a-z0-9.,:${} -]{0,20}"), 0..8)) {
        let properties: String = properties
            .iter()
            .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"))
            .collect();
        check(format!("<configuration>{properties}</configuration>").as_bytes());
        check(format!("{HDFS}\0<configuration>{properties}</configuration>").as_bytes());
    }
}
