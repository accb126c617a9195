//! Names, descriptors and states of tables.

use std::collections::BTreeSet;

use cadastre_rpc::{Call, Reply};
use cadastre_types::{Error, Result, TableDescriptor, TableName, TableState};
use cadastre_wire::{convert, pb};
use regex::{Regex, RegexBuilder};

use super::{param, reply};
use crate::active::Active;
use crate::catalog::Catalog;
use crate::world::World;

/// Largest compiled pattern, bytes (INV-9).
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Which tables a client wants.
struct Wish {
    names: Vec<TableName>,
    pattern: Option<Regex>,
    namespace: Option<String>,
    system: bool,
}

impl Wish {
    fn new(
        names: &[pb::TableName],
        regex: Option<&String>,
        namespace: Option<String>,
        system: bool,
    ) -> Result<Self> {
        Ok(Self {
            names: names
                .iter()
                .map(convert::table_name)
                .collect::<Result<_>>()?,
            pattern: regex.map(|text| pattern(text)).transpose()?,
            namespace: namespace.filter(|name| !name.is_empty()),
            system,
        })
    }

    fn wants(&self, name: &TableName) -> bool {
        (self.system || !name.is_system())
            && self
                .namespace
                .as_ref()
                .is_none_or(|ns| ns == name.namespace())
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| matches(pattern, name))
    }

    /// The tables, `hbase:meta` among them, in the order of their names; those that were named in the order in which they were.
    fn tables(&self, catalog: &Catalog) -> Vec<TableDescriptor> {
        let meta = TableDescriptor::meta();
        if !self.names.is_empty() {
            // Each once, or a request of one name many times would take memory without bound.
            let mut seen = BTreeSet::new();
            let names = self.names.iter().filter(|name| seen.insert(*name));
            return names
                .filter_map(|name| match *name == meta.name {
                    true => Some(meta.clone()),
                    false => catalog.table(name).ok().map(|t| (*t.descriptor).clone()),
                })
                .collect();
        }
        let mut found: Vec<TableDescriptor> = catalog
            .tables()
            .map(|(_, table)| &*table.descriptor)
            .chain([&meta])
            .filter(|descriptor| self.wants(&descriptor.name))
            .cloned()
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

/// A Java pattern that must match the whole name. What the two languages do not share is refused.
fn pattern(text: &str) -> Result<Regex> {
    RegexBuilder::new(&format!("^(?:{text})$"))
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| Error::invalid(format!("the pattern '{text}' cannot be used: {error}")))
}

/// Tables of the default namespace go by both their names (8.5).
fn matches(pattern: &Regex, name: &TableName) -> bool {
    pattern.is_match(name.as_str())
        || name.namespace() == "default" && pattern.is_match(&format!("default:{name}"))
}

fn schemas(tables: &[TableDescriptor]) -> Vec<pb::TableSchema> {
    tables
        .iter()
        .map(|table| convert::table_schema(table, false))
        .collect()
}

fn table_names(tables: &[TableDescriptor]) -> Vec<pb::TableName> {
    tables
        .iter()
        .map(|table| convert::table_name_pb(&table.name))
        .collect()
}

pub(super) fn descriptors<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::GetTableDescriptorsRequest = param(call)?;
    let system = request.include_sys_tables();
    let wish = Wish::new(
        &request.table_names,
        request.regex.as_ref(),
        request.namespace,
        system,
    )?;
    let tables = active.with_catalog(|catalog| wish.tables(catalog));
    Ok(reply(&pb::GetTableDescriptorsResponse {
        table_schema: schemas(&tables),
    }))
}

pub(super) fn names<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::GetTableNamesRequest = param(call)?;
    let system = request.include_sys_tables();
    let wish = Wish::new(&[], request.regex.as_ref(), request.namespace, system)?;
    let tables = active.with_catalog(|catalog| wish.tables(catalog));
    Ok(reply(&pb::GetTableNamesResponse {
        table_names: table_names(&tables),
    }))
}

fn in_namespace(catalog: &Catalog, namespace: String) -> Result<Vec<TableDescriptor>> {
    catalog.namespace(&namespace)?;
    Ok(Wish::new(&[], None, Some(namespace), true)?.tables(catalog))
}

pub(super) fn descriptors_by_namespace<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ListTableDescriptorsByNamespaceRequest = param(call)?;
    let tables = active.with_catalog(|c| in_namespace(c, request.namespace_name))?;
    Ok(reply(&pb::ListTableDescriptorsByNamespaceResponse {
        table_schema: schemas(&tables),
    }))
}

pub(super) fn names_by_namespace<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ListTableNamesByNamespaceRequest = param(call)?;
    let tables = active.with_catalog(|c| in_namespace(c, request.namespace_name))?;
    Ok(reply(&pb::ListTableNamesByNamespaceResponse {
        table_name: table_names(&tables),
    }))
}

/// Tables that are enabled, or disabled; `hbase:meta`, which always is, is not counted, as in HBase.
fn in_state(catalog: &Catalog, enabled: bool) -> Vec<TableDescriptor> {
    let wanted = match enabled {
        true => TableState::Enabled,
        false => TableState::Disabled,
    };
    catalog
        .tables()
        .filter(|(_, table)| table.state == wanted)
        .map(|(_, table)| (*table.descriptor).clone())
        .collect()
}

pub(super) fn descriptors_by_state<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ListTableDescriptorsByStateRequest = param(call)?;
    let tables = active.with_catalog(|catalog| in_state(catalog, request.is_enabled));
    Ok(reply(&pb::ListTableDescriptorsByStateResponse {
        table_schema: schemas(&tables),
    }))
}

pub(super) fn names_by_state<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::ListTableNamesByStateRequest = param(call)?;
    let tables = active.with_catalog(|catalog| in_state(catalog, request.is_enabled));
    Ok(reply(&pb::ListTableNamesByStateResponse {
        table_names: table_names(&tables),
    }))
}

pub(super) fn state<W: World>(active: &Active<W>, call: &Call) -> Result<Reply> {
    let request: pb::GetTableStateRequest = param(call)?;
    let table = convert::table_name(&request.table_name)?;
    let state = if table == TableName::meta() {
        TableState::Enabled
    } else {
        active.table_state(&table)?
    };
    Ok(reply(&pb::GetTableStateResponse {
        table_state: convert::table_state_pb(state),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        let name = |text: &str| TableName::parse(text).unwrap();
        let hit = |text: &str, table: &str| matches(&pattern(text).unwrap(), &name(table));
        assert!(hit(".*", "t"));
        assert!(hit("t|u", "u"));
        assert!(!hit("t", "tt"));
        assert!(!hit("a|t", "tt"));
        assert!(hit("default:t", "t"));
        assert!(hit("ns:.*", "ns:t"));
        assert!(!hit("t", "ns:t"));
        assert!(pattern("(").is_err());
        assert!(pattern("a{1000}{1000}").is_err(), "a pattern is bounded");
    }

    #[test]
    fn wishes() {
        let wish = |regex: Option<&str>, namespace: Option<&str>, system| {
            let regex = regex.map(str::to_owned);
            Wish::new(&[], regex.as_ref(), namespace.map(str::to_owned), system).unwrap()
        };
        let names = |wish: &Wish| -> Vec<String> {
            wish.tables(&Catalog::new())
                .iter()
                .map(|t| t.name.to_string())
                .collect()
        };
        assert!(names(&wish(None, None, false)).is_empty());
        assert_eq!(names(&wish(None, None, true)), ["hbase:meta"]);
        assert_eq!(names(&wish(None, Some("hbase"), true)), ["hbase:meta"]);
        assert!(names(&wish(None, Some("other"), true)).is_empty());
        let named = Wish::new(
            &[convert::table_name_pb(&TableName::meta())],
            None,
            None,
            false,
        )
        .unwrap();
        assert_eq!(names(&named), ["hbase:meta"]);
    }
}
