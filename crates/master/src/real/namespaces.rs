//! Rows of `hbase:namespace` over RPC, where the master itself has the region open.

use std::collections::BTreeMap;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Cell, Error, LATEST_TIMESTAMP, Mutation, RegionInfo, Result, ServerName};

use super::RealWorld;
use super::meta::{delete, put};
use crate::journal::namespace_value;
use crate::namespace_table::{FAMILY, NamespaceChange, QUALIFIER};

fn mutation(change: &NamespaceChange) -> Mutation {
    let row = Bytes::from(change.name().to_owned());
    match change {
        NamespaceChange::Put(namespace) => {
            let cell = Cell::put(
                row.clone(),
                Bytes::from_static(FAMILY),
                Bytes::from_static(QUALIFIER),
                LATEST_TIMESTAMP,
                namespace_value(namespace),
            );
            put(row, vec![cell])
        }
        NamespaceChange::Delete(_) => delete(row),
    }
}

impl<E: Env> RealWorld<E> {
    pub(super) async fn write_namespace_rows(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        changes: &[NamespaceChange],
    ) -> Result<()> {
        let mutations: Vec<Mutation> = changes.iter().map(mutation).collect();
        self.write_batch(server, region, &mutations).await
    }

    pub(super) async fn read_namespace_rows(
        &self,
        server: &ServerName,
        region: &RegionInfo,
    ) -> Result<BTreeMap<String, Bytes>> {
        let rows = self.read_region(server, region).await?;
        rows.iter()
            .filter(|cells| !cells.is_empty())
            .map(|cells| row(cells))
            .collect()
    }
}

fn row(cells: &[Cell]) -> Result<(String, Bytes)> {
    let name = String::from_utf8(cells[0].row.to_vec())
        .map_err(|_| Error::corrupt("a row of hbase:namespace names no namespace"))?;
    let is_value = |cell: &&Cell| cell.family == FAMILY && cell.qualifier == QUALIFIER;
    let value = cells.iter().find(is_value);
    Ok((
        name,
        value.map(|cell| cell.value.clone()).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Namespace;

    /// As HBase 2.6.4 writes it: no magic before the message.
    #[test]
    fn a_row_is_as_hbase_has_it() {
        let mut namespace = Namespace::new("n");
        namespace.configuration.insert("k".into(), "v".into());
        let put = mutation(&NamespaceChange::Put(namespace));
        assert_eq!(put.row, "n");
        let [cell] = &put.cells[..] else {
            panic!("one cell")
        };
        assert_eq!(
            (&cell.family[..], &cell.qualifier[..]),
            (&b"info"[..], &b"d"[..])
        );
        assert_eq!(&cell.value[..], b"\x0a\x01n\x12\x06\x0a\x01k\x12\x01v");
        assert_eq!(
            row(&put.cells).unwrap(),
            ("n".to_owned(), cell.value.clone())
        );
        let gone = mutation(&NamespaceChange::Delete("n".into()));
        assert!(gone.cells.is_empty() && gone.row == "n");
    }
}
