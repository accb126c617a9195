//! Settings of the client, with HBase's keys and defaults.

use cadastre_env::HostPort;

use crate::retry::RetryPolicy;

/// Regions read along on a cache miss (`hbase.client.locate.prefetch.limit`).
pub const PREFETCH_DEFAULT: u32 = 10;

/// Bytes of actions in one Multi request (`hbase.client.max.perrequest.heapsize`, 4 MiB).
pub const BATCH_BYTES_DEFAULT: usize = 4 * 1024 * 1024;

/// Bytes of one scan answer (`hbase.client.scanner.max.result.size`, 2 MiB).
pub const SCAN_RESULT_BYTES_DEFAULT: u64 = 2 * 1024 * 1024;

/// Largest cell sent, bytes (`hbase.client.keyvalue.maxsize`).
pub const CELL_MAX_DEFAULT: usize = cadastre_types::limits::CELL_MAX_DEFAULT;

/// ZooKeeper session time-out, ms (`zookeeper.session.timeout`).
pub const ZOOKEEPER_TIMEOUT_MS_DEFAULT: u64 = 90_000;

/// Bootstrap servers asked at once (`hbase.client.bootstrap.hedged.fanout`).
pub const HEDGED_FANOUT_DEFAULT: usize = 2;

/// Parent of HBase's znodes (`zookeeper.znode.parent`).
pub const ZNODE_PARENT_DEFAULT: &str = "/hbase";

/// Who says where `hbase:meta` and the active master are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registry {
    /// ZooKeeper's servers, and the parent of HBase's znodes.
    ZooKeeper(Vec<HostPort>, String),
    /// Masters or region servers, over `ClientMetaService`.
    Rpc(Vec<HostPort>),
}

/// Settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// User name that is told to servers.
    pub user: String,
    /// Tries, pauses and times of an operation.
    pub retry: RetryPolicy,
    /// Regions read along on a cache miss (`hbase.client.locate.prefetch.limit`); 0 for none.
    pub prefetch_regions: u32,
    /// Regions held in the location cache.
    pub cached_regions_max: usize,
    /// Bytes of actions in one Multi request (`hbase.client.max.perrequest.heapsize`).
    pub batch_bytes: usize,
    /// Bytes of one scan answer, unless the scan says otherwise (`hbase.client.scanner.max.result.size`).
    pub scan_result_bytes: u64,
    /// Largest cell sent, bytes (`hbase.client.keyvalue.maxsize`).
    pub cell_max: usize,
    /// ZooKeeper session time-out, ms (`zookeeper.session.timeout`).
    pub zookeeper_timeout_ms: u64,
    /// Bootstrap servers asked at once (`hbase.client.bootstrap.hedged.fanout`), at least 1.
    pub hedged_fanout: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            user: "cadastre".to_owned(),
            retry: RetryPolicy::default(),
            prefetch_regions: PREFETCH_DEFAULT,
            cached_regions_max: crate::locate::REGIONS_MAX,
            batch_bytes: BATCH_BYTES_DEFAULT,
            scan_result_bytes: SCAN_RESULT_BYTES_DEFAULT,
            cell_max: CELL_MAX_DEFAULT,
            zookeeper_timeout_ms: ZOOKEEPER_TIMEOUT_MS_DEFAULT,
            hedged_fanout: HEDGED_FANOUT_DEFAULT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/client.md` shows every setting with its default.
    #[test]
    fn the_settings_are_documented() {
        let docs = include_str!("../../../docs/client.md");
        let ClientConfig {
            user: _,
            retry,
            prefetch_regions,
            cached_regions_max,
            batch_bytes,
            scan_result_bytes,
            cell_max,
            zookeeper_timeout_ms,
            hedged_fanout,
        } = ClientConfig::default();
        for (name, default) in [
            ("retry.tries_max", u64::from(retry.tries_max)),
            ("retry.pause_ms", retry.pause_ms),
            ("retry.pause_overloaded_ms", retry.pause_overloaded_ms),
            ("retry.operation_timeout_ms", retry.operation_timeout_ms),
            ("retry.rpc_timeout_ms", retry.rpc_timeout_ms),
            ("prefetch_regions", u64::from(prefetch_regions)),
            ("cached_regions_max", cached_regions_max as u64),
            ("batch_bytes", batch_bytes as u64),
            ("scan_result_bytes", scan_result_bytes),
            ("cell_max", cell_max as u64),
            ("zookeeper_timeout_ms", zookeeper_timeout_ms),
            ("hedged_fanout", hedged_fanout as u64),
        ] {
            let line = docs
                .lines()
                .find(|line| line.starts_with(&format!("| `{name}` |")))
                .unwrap_or_else(|| panic!("{name} is not in docs/client.md"));
            assert!(line.ends_with(&format!("| {default} |")), "{line}");
        }
        let factors = crate::retry::BACKOFF_FACTORS.map(|factor| factor.to_string());
        assert!(docs.contains(&factors.join(", ")));
    }
}
