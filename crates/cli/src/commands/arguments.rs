//! Arguments with a form of their own: bytes, columns, families, time ranges.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cadastre_client::notation;
use cadastre_types::{
    Columns, Error, FamilyDescriptor, Qualifiers, Query, Result, TableName, TimeRange,
};
use clap::Args;

/// Bytes in HBase's notation.
pub(super) fn bytes(text: &str) -> Result<Bytes, String> {
    notation::from_text(text).map_err(|error| error.message().to_owned())
}

/// A table's name.
pub(super) fn table_name(text: &str) -> Result<TableName, String> {
    TableName::parse(text).map_err(|error| error.message().to_owned())
}

/// A family, or a column of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) family: Bytes,
    /// `None`: the whole family. An empty one is a real qualifier.
    pub(super) qualifier: Option<Bytes>,
}

/// Reads `family` or `family:qualifier`. Only the first colon counts: qualifiers may have some.
pub(super) fn column(text: &str) -> Result<Column, String> {
    let (family, qualifier) = match text.split_once(':') {
        Some((family, qualifier)) => (family, Some(bytes(qualifier)?)),
        None => (text, None),
    };
    if family.is_empty() {
        return Err(format!("'{text}' names no family: write family:qualifier"));
    }
    Ok(Column {
        family: bytes(family)?,
        qualifier,
    })
}

/// Reads a column that must have a qualifier, as a put needs.
pub(super) fn full_column(text: &str) -> Result<(Bytes, Bytes)> {
    match column(text) {
        Ok(Column {
            family,
            qualifier: Some(qualifier),
        }) => Ok((family, qualifier)),
        Ok(_) => Err(Error::invalid(format!(
            "'{text}' is a family: write family:qualifier (family: for the empty qualifier)"
        ))),
        Err(why) => Err(Error::invalid(why)),
    }
}

/// Reads a family with attributes: `f`, or `f:VERSIONS=3,TTL=86400`.
pub(super) fn family(text: &str) -> Result<FamilyDescriptor, String> {
    let (name, attributes) = text.split_once(':').unwrap_or((text, ""));
    if name.is_empty() {
        return Err(format!("'{text}' names no family"));
    }
    let mut family = FamilyDescriptor::new(bytes(name)?);
    for attribute in attributes.split(',').filter(|text| !text.is_empty()) {
        let (key, value) = key_value(attribute)?;
        family = family.with(&key.to_ascii_uppercase(), &value);
    }
    Ok(family)
}

/// Reads `KEY=VALUE`.
pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is not KEY=VALUE")),
    }
}

/// Reads `FROM..TO` in milliseconds, either end left out for the open end.
pub(super) fn time_range(text: &str) -> Result<TimeRange, String> {
    let bad = || format!("'{text}' is not FROM..TO in milliseconds since 1970");
    let (from, to) = text.split_once("..").ok_or_else(bad)?;
    let end = |text: &str, open| match text {
        "" => Ok(open),
        text => text.parse::<i64>().map_err(|_| bad()),
    };
    let range = TimeRange {
        from: end(from, 0)?,
        to: end(to, i64::MAX)?,
    };
    if range.from < 0 || range.from >= range.to {
        return Err(bad());
    }
    Ok(range)
}

/// What to read of each row; part of the commands that read.
#[derive(Debug, Clone, Args)]
pub(super) struct QueryArgs {
    /// Versions of each column at most
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    versions: u32,
    /// Only timestamps in FROM..TO, milliseconds, TO not included; either may be left out
    #[arg(long, value_name = "FROM..TO", value_parser = time_range)]
    time_range: Option<TimeRange>,
}

impl QueryArgs {
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        Self {
            versions: 1,
            time_range: None,
        }
    }

    /// Versions of each column at most.
    pub(super) fn versions(&self) -> u32 {
        self.versions
    }

    /// The query, for these columns; none means all.
    pub(super) fn query(&self, columns: &[Column]) -> Query {
        Query {
            columns: wanted(columns),
            time_range: self.time_range.unwrap_or_default(),
            max_versions: self.versions,
            ..Query::default()
        }
    }
}

/// Families and columns by family; a family that is named alone is wanted whole, whatever else is said of it.
fn wanted(columns: &[Column]) -> Columns {
    let mut by_family: BTreeMap<Bytes, Qualifiers> = BTreeMap::new();
    for column in columns {
        let held = by_family
            .entry(column.family.clone())
            .or_insert_with(|| Qualifiers::These(BTreeSet::new()));
        match (held, &column.qualifier) {
            (held, None) => *held = Qualifiers::All,
            (Qualifiers::These(these), Some(qualifier)) => {
                these.insert(qualifier.clone());
            }
            (Qualifiers::All, Some(_)) => {}
        }
    }
    by_family
}
