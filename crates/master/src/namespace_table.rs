//! The table `hbase:namespace`: a row for each namespace, as HBase's clients and tools read it.
//!
//! Truth is the master's store; the table shows it. A procedure on a namespace writes the row before it ends, so rows change in the
//! order in which procedures end; whoever begins to lead makes the table if there is none and compares all of it. No client writes
//! there: region servers refuse it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cadastre_types::{
    Code, Error, ErrorKind, FamilyDescriptor, RegionInfo, Result, ServerName, TableDescriptor,
    TableName,
};

use crate::active::{Active, Answer};
use crate::catalog::Catalog;
use crate::executor::Pauses;
use crate::journal::namespace_value;
use crate::procedure::{Lock, Nonce, Operation};
use crate::schema::{Namespace, TableRecord, regions_of};
use crate::world::World;

/// Its one family and column.
pub(crate) const FAMILY: &[u8] = b"info";
pub(crate) const QUALIFIER: &[u8] = b"d";

/// How long the start waits for the table to be made; it is made all the same if that takes longer.
const CREATION_PATIENCE: Duration = Duration::from_secs(10);

/// Who the table's procedure says has asked for it.
const OWNER: &str = "cadastre-master";

/// A change of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceChange {
    /// The row of a namespace as it is now.
    Put(Namespace),
    /// The namespace of this name is gone.
    Delete(String),
}

impl NamespaceChange {
    /// The namespace's name, which is the row.
    pub fn name(&self) -> &str {
        match self {
            Self::Put(namespace) => &namespace.name,
            Self::Delete(name) => name,
        }
    }
}

/// HBase 2.6.4's descriptor of it.
fn descriptor() -> TableDescriptor {
    let family = FamilyDescriptor::new(FAMILY)
        .with("VERSIONS", "10")
        .with("IN_MEMORY", "true")
        .with("BLOCKSIZE", "8192");
    TableDescriptor::new(TableName::namespaces()).with_family(family)
}

/// The open regions of the table and where they are.
fn places(catalog: &Catalog) -> Vec<(ServerName, RegionInfo)> {
    let table = TableName::namespaces();
    catalog
        .regions_of(&table)
        .filter_map(|entry| Some((entry.open_on()?.clone(), entry.info.clone())))
        .collect()
}

/// What makes rows equal to what is true.
fn differences(
    truth: &BTreeMap<String, Namespace>,
    rows: &BTreeMap<String, Bytes>,
) -> Vec<NamespaceChange> {
    let missing = truth
        .values()
        .filter(|namespace| rows.get(&namespace.name) != Some(&namespace_value(namespace)))
        .map(|namespace| NamespaceChange::Put(namespace.clone()));
    let gone = rows
        .keys()
        .filter(|name| !truth.contains_key(*name))
        .map(|name| NamespaceChange::Delete(name.clone()));
    missing.chain(gone).collect()
}

impl<W: World> Active<W> {
    /// Writes a row, however long it takes: until then the procedure that changes the namespace does not end.
    pub(crate) async fn write_namespace(&self, change: &NamespaceChange) {
        let mut pauses = Pauses::new();
        while let Err(error) = self.try_write_namespace(change).await {
            if !matches!(
                error.kind(),
                ErrorKind::Retry | ErrorKind::Relocate | ErrorKind::Failover
            ) {
                tracing::error!(%error, namespace = change.name(), "hbase:namespace does not take a row; it is left as it is");
                return;
            }
            tracing::warn!(%error, namespace = change.name(), "hbase:namespace could not be written; tried again");
            self.world().sleep(pauses.next()).await;
        }
    }

    async fn try_write_namespace(&self, change: &NamespaceChange) -> Result<()> {
        let places = self.with_catalog(places);
        let place = places
            .iter()
            .find(|(_, region)| region.contains(change.name().as_bytes()));
        let Some((server, region)) = place else {
            return Err(Error::new(
                Code::NoServerForRegion,
                "hbase:namespace is open nowhere",
            ));
        };
        let changes = std::slice::from_ref(change);
        let written = self.world().write_namespaces(server, region, changes);
        self.heed(written.await).await
    }

    /// Makes the table if there is none, and its rows equal to the namespaces. Gives whether they are: what could not be done is
    /// done later.
    pub(crate) async fn ensure_namespaces(&self) -> bool {
        if self.state().namespaces_shown {
            return true;
        }
        let shown = match self.show_namespaces().await {
            Ok(shown) => shown,
            Err(error) => {
                tracing::warn!(%error, "hbase:namespace does not show the namespaces yet");
                false
            }
        };
        self.state().namespaces_shown = shown;
        shown
    }

    async fn show_namespaces(&self) -> Result<bool> {
        let table = TableName::namespaces();
        if self.with_catalog(|catalog| catalog.table(&table).is_err()) {
            self.create_namespace_table().await?;
        }
        let mut rows = BTreeMap::new();
        for (server, region) in self.with_catalog(places) {
            let read = self.world().read_namespaces(&server, &region).await;
            rows.extend(self.heed(read).await?);
        }
        let truth = self.with_catalog(|catalog| {
            let namespaces = catalog.namespaces().cloned();
            namespaces.map(|ns| (ns.name.clone(), ns)).collect()
        });
        let mut shown = true;
        for change in differences(&truth, &rows) {
            let lock = Lock::Namespace(change.name().to_owned());
            // Whoever holds it writes the row.
            let Some(_held) = self.locks().try_now(&lock) else {
                shown = false;
                continue;
            };
            // It may have changed until the lock was taken.
            let now = self.with_catalog(|catalog| match catalog.namespace(change.name()) {
                Ok(namespace) => NamespaceChange::Put(namespace.clone()),
                Err(_) => NamespaceChange::Delete(change.name().to_owned()),
            });
            self.try_write_namespace(&now).await?;
        }
        Ok(shown)
    }

    async fn create_namespace_table(&self) -> Result<()> {
        let table = TableName::namespaces();
        let lock = Lock::Table(table.clone());
        let id = self
            .submit(lock, Nonce::default(), OWNER, move |catalog, region_id| {
                if catalog.table(&table).is_ok() {
                    return Err(Error::new(Code::TableExists, table.to_string()));
                }
                Ok(Operation::CreateTable {
                    record: TableRecord::create(descriptor())?,
                    regions: regions_of(&table, Vec::new(), region_id)?,
                })
            })
            .await?;
        match self.result(id, CREATION_PATIENCE).await {
            Answer::Finished(finished) => finished.failure.map_or(Ok(()), Err),
            Answer::Running(_) | Answer::NotFound => Err(Error::new(
                Code::RegionOpening,
                "hbase:namespace is still being made",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_what_is_true() {
        let named = |name: &str, setting: &str| {
            let mut namespace = Namespace::new(name);
            namespace.configuration.insert("k".into(), setting.into());
            namespace
        };
        let truth: BTreeMap<String, Namespace> = ["same", "changed", "missing"]
            .map(|name| (name.to_owned(), named(name, "new")))
            .into();
        let rows: BTreeMap<String, Bytes> = [("same", "new"), ("changed", "old"), ("gone", "old")]
            .map(|(name, setting)| (name.to_owned(), namespace_value(&named(name, setting))))
            .into();
        assert_eq!(
            differences(&truth, &rows),
            [
                NamespaceChange::Put(named("changed", "new")),
                NamespaceChange::Put(named("missing", "new")),
                NamespaceChange::Delete("gone".into()),
            ]
        );
    }

    #[test]
    fn the_table_may_be() {
        let record = TableRecord::create(descriptor()).unwrap();
        assert_eq!(record.descriptor.name.as_str(), "hbase:namespace");
        assert_eq!(record.descriptor.families[FAMILY].max_versions(), 10);
    }
}
