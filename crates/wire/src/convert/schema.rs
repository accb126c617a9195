//! Tables and families as described (hbase-protocol.md 8.4). What attributes mean is `types`' affair; unknown ones are kept.

use std::collections::BTreeMap;

use bytes::Bytes;
use cadastre_types::{
    Error, FamilyDescriptor, Result, TableDescriptor, TableName, TableState, limits,
};

use crate::pb;

/// Reads a table's schema.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) without a legal name, or with a family that is illegal or there twice.
pub fn table_descriptor(schema: &pb::TableSchema) -> Result<TableDescriptor> {
    let name = schema
        .table_name
        .as_ref()
        .ok_or_else(|| Error::invalid("a table schema without a name"))?;
    let mut table = TableDescriptor::new(super::table_name(name)?);
    table.attributes = attributes(&schema.attributes);
    table.configuration = configuration(&schema.configuration);
    for family in &schema.column_families {
        let family = family_descriptor(family)?;
        let name = family.name.clone();
        if table.families.insert(name.clone(), family).is_some() {
            return Err(twice(&table.name, &name));
        }
    }
    Ok(table)
}

fn twice(table: &TableName, family: &[u8]) -> Error {
    Error::invalid(format!(
        "family '{}' is named twice in the schema of {table}",
        family.escape_ascii()
    ))
}

/// Writes a table's schema; `with_ids` says whether our own numbers of the families go along, which is only for our own servers
/// and files, never for a client.
pub fn table_schema(table: &TableDescriptor, with_ids: bool) -> pb::TableSchema {
    pb::TableSchema {
        table_name: Some(super::table_name_pb(&table.name)),
        attributes: attributes_pb(&table.attributes),
        column_families: table
            .families
            .values()
            .map(|family| family_schema(family, with_ids))
            .collect(),
        configuration: configuration_pb(&table.configuration),
    }
}

/// Reads a family.
///
/// # Errors
/// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for a name that HBase refuses (10.4).
pub fn family_descriptor(schema: &pb::ColumnFamilySchema) -> Result<FamilyDescriptor> {
    family_name(&schema.name)?;
    let id = schema.family_id();
    Ok(FamilyDescriptor {
        name: schema.name.clone(),
        id: u16::try_from(id)
            .map_err(|_| Error::corrupt(format!("family number {id} is too large")))?,
        attributes: attributes(&schema.attributes),
        configuration: configuration(&schema.configuration),
    })
}

/// Writes a family; see [`table_schema`] for `with_id`.
pub fn family_schema(family: &FamilyDescriptor, with_id: bool) -> pb::ColumnFamilySchema {
    pb::ColumnFamilySchema {
        name: family.name.clone(),
        attributes: attributes_pb(&family.attributes),
        configuration: configuration_pb(&family.configuration),
        family_id: with_id.then_some(u32::from(family.id)),
    }
}

fn family_name(name: &[u8]) -> Result<()> {
    let bad = |why: &str| {
        Err(Error::invalid(format!(
            "illegal family name '{}': {why}",
            name.escape_ascii()
        )))
    };
    if name.is_empty() || name.len() > limits::FAMILY_MAX {
        return bad("it has 1 to 127 bytes");
    }
    if name.starts_with(b".") {
        return bad("it does not start with a dot");
    }
    if name
        .iter()
        .any(|b| b.is_ascii_control() || matches!(b, b':' | b'\\' | b'/'))
    {
        return bad("it has no control characters and none of ':', '\\' and '/'");
    }
    Ok(())
}

fn attributes(pairs: &[pb::BytesBytesPair]) -> BTreeMap<Bytes, Bytes> {
    pairs
        .iter()
        .map(|pair| (pair.first.clone(), pair.second.clone()))
        .collect()
}

fn attributes_pb(attributes: &BTreeMap<Bytes, Bytes>) -> Vec<pb::BytesBytesPair> {
    attributes
        .iter()
        .map(|(first, second)| pb::BytesBytesPair {
            first: first.clone(),
            second: second.clone(),
        })
        .collect()
}

fn configuration(pairs: &[pb::NameStringPair]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|pair| (pair.name.clone(), pair.value.clone()))
        .collect()
}

fn configuration_pb(configuration: &BTreeMap<String, String>) -> Vec<pb::NameStringPair> {
    configuration
        .iter()
        .map(|(name, value)| pb::NameStringPair {
            name: name.clone(),
            value: value.clone(),
        })
        .collect()
}

/// Reads a table's state.
///
/// # Errors
/// [`Code::Corrupt`](cadastre_types::Code::Corrupt) for a state that does not exist.
pub fn table_state(state: &pb::TableState) -> Result<TableState> {
    use pb::table_state::State;
    Ok(match State::try_from(state.state) {
        Ok(State::Enabled) => TableState::Enabled,
        Ok(State::Disabled) => TableState::Disabled,
        Ok(State::Disabling) => TableState::Disabling,
        Ok(State::Enabling) => TableState::Enabling,
        Err(_) => {
            return Err(Error::corrupt(format!(
                "table state {} is unknown",
                state.state
            )));
        }
    })
}

/// Writes a table's state.
pub fn table_state_pb(state: TableState) -> pb::TableState {
    use pb::table_state::State;
    let state = match state {
        TableState::Enabled => State::Enabled,
        TableState::Disabled => State::Disabled,
        TableState::Disabling => State::Disabling,
        TableState::Enabling => State::Enabling,
    };
    pb::TableState {
        state: state as i32,
    }
}
