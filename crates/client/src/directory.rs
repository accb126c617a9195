//! The directory as it is: rows of `hbase:meta`, read in order and bounded in memory, for whoever wants to see or check them
//! (requirements.md L2 to L4). Looking up a single row is `locate`'s affair.

use std::collections::BTreeMap;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{
    Cell, Error, Qualifiers, Query, Result, Scan, ServerName, TableName, TableState,
};
use cadastre_wire::meta::{self, MetaEntry};

use crate::Client;
use crate::scan::{Scanner, new_scan};

/// Rows of one answer: some 100 kB.
const ROWS_PER_CALL: u32 = 200;

/// A row of `hbase:meta`.
#[derive(Debug, Clone, PartialEq)]
pub struct MetaRow {
    /// Row key.
    pub key: Bytes,
    /// What it says.
    pub content: MetaContent,
}

/// What a row of `hbase:meta` says.
#[derive(Debug, Clone, PartialEq)]
pub enum MetaContent {
    /// A region and where it is.
    Region {
        /// The region.
        info: cadastre_types::RegionInfo,
        /// Where it is served, or is meant to be.
        server: Option<ServerName>,
        /// Sequence number it was opened with.
        open_seq: u64,
        /// HBase's name of its state.
        state: String,
        /// Whether it was split or merged away, so that others hold its rows.
        is_parent: bool,
    },
    /// The state of a table.
    Table(TableName, TableState),
    /// Cells of another kind, or none that can be read: why.
    Other(Vec<Cell>, Option<Error>),
}

impl MetaRow {
    fn from_cells(cells: Vec<Cell>) -> Self {
        let key = cells
            .first()
            .map_or_else(Bytes::new, |cell| cell.row.clone());
        let content = match Self::content(&key, &cells) {
            Ok(Some(content)) => content,
            Ok(None) => MetaContent::Other(cells, None),
            Err(error) => MetaContent::Other(cells, Some(error)),
        };
        Self { key, content }
    }

    fn content(key: &[u8], cells: &[Cell]) -> Result<Option<MetaContent>> {
        if let Some(entry) = MetaEntry::from_cells(cells)? {
            let is_parent = entry.info.split
                || entry.split_daughters.is_some()
                || matches!(entry.state.as_str(), "SPLIT" | "MERGED");
            return Ok(Some(MetaContent::Region {
                info: entry.info,
                server: entry.server,
                open_seq: entry.open_seq,
                state: entry.state,
                is_parent,
            }));
        }
        let Some(state) = meta::table_state_from_cells(cells)? else {
            return Ok(None);
        };
        let name = std::str::from_utf8(key)
            .map_err(|_| Error::corrupt("a table's state under a name that is not UTF-8"))?;
        Ok(Some(MetaContent::Table(TableName::parse(name)?, state)))
    }
}

/// Rows of `hbase:meta`, in its order.
pub struct DirectoryScanner<E: Env>(Scanner<E>);

impl<E: Env> DirectoryScanner<E> {
    /// The next row, `None` when there are no more.
    ///
    /// # Errors
    /// As [`Scanner::next`].
    pub async fn next(&mut self) -> Result<Option<MetaRow>> {
        let row = self.0.next().await?;
        Ok(row.map(|row| MetaRow::from_cells(row.cells)))
    }
}

impl<E: Env> Client<E> {
    /// Reads the directory: of one table, or all of it.
    ///
    /// # Errors
    /// None before the first row.
    pub fn directory(&self, table: Option<&TableName>) -> Result<DirectoryScanner<E>> {
        let families = [meta::INFO_FAMILY, meta::TABLE_FAMILY]
            .map(|family| (Bytes::from_static(family), Qualifiers::All));
        let (start_row, stop_row) = match table {
            // The row of the table's state comes right before its regions.
            Some(table) => (meta::table_row(table), meta::behind_table(table)),
            None => (Bytes::new(), Bytes::new()),
        };
        let scan = Scan {
            start_row,
            stop_row,
            caching: ROWS_PER_CALL,
            query: Query {
                columns: BTreeMap::from(families),
                ..Query::default()
            },
            ..new_scan()
        };
        Ok(DirectoryScanner(self.scan(&TableName::meta(), scan)?))
    }

    /// Start keys of a table's regions in order, whatever state they are in; for knowing how far a pass over the table has come.
    ///
    /// # Errors
    /// As [`Scanner::next`].
    pub async fn region_starts(&self, table: &TableName) -> Result<Vec<Bytes>> {
        let mut rows = self.directory(Some(table))?;
        let mut starts = Vec::new();
        while let Some(row) = rows.next().await? {
            if let MetaContent::Region {
                info,
                is_parent: false,
                ..
            } = row.content
            {
                starts.push(info.start_key);
            }
        }
        Ok(starts)
    }
}

#[cfg(test)]
mod tests {
    use cadastre_types::RegionInfo;

    use super::*;

    #[test]
    fn rows_say_what_they_are() {
        let name = TableName::parse("t").unwrap();
        let entry = MetaEntry {
            info: RegionInfo::new(name.clone(), Bytes::new(), Bytes::new(), 1),
            server: Some(ServerName::parse("h,1,2").unwrap()),
            open_seq: 7,
            state: "OPEN".to_owned(),
            split_daughters: None,
            merged_from: Vec::new(),
        };
        let row = MetaRow::from_cells(entry.to_cells());
        assert_eq!(row.key, entry.info.name());
        assert!(matches!(
            row.content,
            MetaContent::Region {
                open_seq: 7,
                is_parent: false,
                ..
            }
        ));
        let mut parent = entry.clone();
        parent.state = "SPLIT".to_owned();
        assert!(matches!(
            MetaRow::from_cells(parent.to_cells()).content,
            MetaContent::Region {
                is_parent: true,
                ..
            }
        ));
        let state = meta::table_state_cell(&name, TableState::Disabled);
        assert_eq!(
            MetaRow::from_cells(vec![state]).content,
            MetaContent::Table(name, TableState::Disabled)
        );
        let mut cells = entry.to_cells();
        for cell in &mut cells {
            cell.value = Bytes::from_static(b"x");
        }
        assert!(matches!(
            MetaRow::from_cells(cells).content,
            MetaContent::Other(_, Some(_))
        ));
        let other = vec![meta::master_epoch_cell(3)];
        assert_eq!(
            MetaRow::from_cells(other.clone()).content,
            MetaContent::Other(other, None)
        );
    }
}
