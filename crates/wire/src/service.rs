//! The services a connection can be for (hbase-protocol.md 1.2).

use std::fmt;

/// A service; each connection carries the methods of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// Data: get, mutate, multi, scan.
    Client,
    /// Work on the regions of one server.
    Admin,
    /// Tables, namespaces, placement.
    Master,
    /// The registry: cluster id, active master, place of `hbase:meta`.
    ClientMeta,
    /// Locks held through the master.
    Lock,
    /// Repairs.
    Hbck,
    /// Reports of region servers to the master.
    RegionServerStatus,
    /// Bootstrap nodes, between servers.
    BootstrapNode,
}

impl Service {
    /// Every service.
    pub const ALL: &[Self] = &[
        Self::Client,
        Self::Admin,
        Self::Master,
        Self::ClientMeta,
        Self::Lock,
        Self::Hbck,
        Self::RegionServerStatus,
        Self::BootstrapNode,
    ];

    /// As a connection header names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "ClientService",
            Self::Admin => "AdminService",
            Self::Master => "MasterService",
            Self::ClientMeta => "ClientMetaService",
            Self::Lock => "LockService",
            Self::Hbck => "HbckService",
            Self::RegionServerStatus => "RegionServerStatusService",
            Self::BootstrapNode => "BootstrapNodeService",
        }
    }

    /// The service of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|service| service.name() == name)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for service in Service::ALL {
            assert_eq!(Service::from_name(service.name()), Some(*service));
        }
        assert_eq!(Service::from_name("clientservice"), None);
    }
}
