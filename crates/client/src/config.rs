//! Settings of the client, with HBase's keys and defaults.

use cadastre_env::HostPort;
use cadastre_types::{Error, Result, TableName};

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
    /// Tables of the directory, top first (L5, L6): the registry knows where the first one's only region is, each holds the places of the
    /// next one's regions, the last those of all other tables'. `hbase:meta` alone since HBase 0.96; with a root before it,
    /// `hbase:meta` may have many regions.
    pub tiers: Vec<TableName>,
    /// Bytes of actions in one Multi request (`hbase.client.max.perrequest.heapsize`).
    pub batch_bytes: usize,
    /// Bytes of one scan answer, unless the scan says otherwise (`hbase.client.scanner.max.result.size`).
    pub scan_result_bytes: u64,
    /// Whether a scan asks for its next answer while the caller still takes rows of the one before
    /// (`hbase.client.scanner.async.prefetch`, off in HBase); holds two answers instead of one.
    pub scan_prefetch: bool,
    /// Largest cell sent, bytes (`hbase.client.keyvalue.maxsize`).
    pub cell_max: usize,
    /// ZooKeeper session time-out, ms (`zookeeper.session.timeout`).
    pub zookeeper_timeout_ms: u64,
    /// Bootstrap servers asked at once (`hbase.client.bootstrap.hedged.fanout`), at least 1.
    pub hedged_fanout: usize,
    /// A fault for a test to find.
    #[cfg(feature = "planted-faults")]
    pub planted: Option<crate::Planted>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            user: "cadastre".to_owned(),
            retry: RetryPolicy::default(),
            prefetch_regions: PREFETCH_DEFAULT,
            cached_regions_max: crate::locate::REGIONS_MAX,
            tiers: vec![TableName::meta()],
            batch_bytes: BATCH_BYTES_DEFAULT,
            scan_result_bytes: SCAN_RESULT_BYTES_DEFAULT,
            scan_prefetch: true,
            cell_max: CELL_MAX_DEFAULT,
            zookeeper_timeout_ms: ZOOKEEPER_TIMEOUT_MS_DEFAULT,
            hedged_fanout: HEDGED_FANOUT_DEFAULT,
            #[cfg(feature = "planted-faults")]
            planted: None,
        }
    }
}

impl ClientConfig {
    /// Refuses settings that cannot be.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) that says which.
    pub(crate) fn check(&self) -> Result<()> {
        if self.cached_regions_max == 0 || self.retry.tries_max == 0 {
            return Err(Error::invalid(
                "a client needs room for a location and a try",
            ));
        }
        match &self.tiers[..] {
            [meta] if *meta == TableName::meta() => Ok(()),
            [root, meta] if *meta == TableName::meta() && root != meta => Ok(()),
            _ => Err(Error::invalid(
                "the directory is hbase:meta, or another table and hbase:meta",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_ends_with_meta() {
        let root = TableName::parse("hbase:root").unwrap();
        for (tiers, good) in [
            (vec![TableName::meta()], true),
            (vec![root.clone(), TableName::meta()], true),
            (vec![], false),
            (vec![root.clone()], false),
            (vec![TableName::meta(), TableName::meta()], false),
            (vec![root.clone(), root, TableName::meta()], false),
        ] {
            let config = ClientConfig {
                tiers,
                ..ClientConfig::default()
            };
            assert_eq!(config.check().is_ok(), good, "{:?}", config.tiers);
        }
    }

    /// `docs/client.md` shows every setting with its default.
    #[test]
    fn the_settings_are_documented() {
        let docs = include_str!("../../../docs/client.md");
        let ClientConfig {
            user: _,
            retry,
            prefetch_regions,
            cached_regions_max,
            tiers,
            batch_bytes,
            scan_result_bytes,
            scan_prefetch,
            cell_max,
            zookeeper_timeout_ms,
            hedged_fanout,
            #[cfg(feature = "planted-faults")]
                planted: _,
        } = ClientConfig::default();
        for (name, default) in [
            ("retry.tries_max", retry.tries_max.to_string()),
            ("retry.pause_ms", retry.pause_ms.to_string()),
            (
                "retry.pause_overloaded_ms",
                retry.pause_overloaded_ms.to_string(),
            ),
            (
                "retry.operation_timeout_ms",
                retry.operation_timeout_ms.to_string(),
            ),
            ("retry.rpc_timeout_ms", retry.rpc_timeout_ms.to_string()),
            ("prefetch_regions", prefetch_regions.to_string()),
            ("cached_regions_max", cached_regions_max.to_string()),
            ("tiers", tiers[0].to_string()),
            ("batch_bytes", batch_bytes.to_string()),
            ("scan_result_bytes", scan_result_bytes.to_string()),
            ("scan_prefetch", scan_prefetch.to_string()),
            ("cell_max", cell_max.to_string()),
            ("zookeeper_timeout_ms", zookeeper_timeout_ms.to_string()),
            ("hedged_fanout", hedged_fanout.to_string()),
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
