//! Tables and families by descriptor.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Code, Durability, Error, Result, limits};

/// Name of the table of regions.
pub const META_TABLE: &str = "hbase:meta";

/// Name of the table of namespaces.
const NAMESPACE_TABLE: &str = "hbase:namespace";

const DEFAULT_NAMESPACE: &str = "default";

/// A table's name: `table` in the default namespace, `ns:table` otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName(Arc<str>);

impl TableName {
    /// `hbase:meta`.
    pub fn meta() -> Self {
        Self(META_TABLE.into())
    }

    /// `hbase:namespace`.
    pub fn namespaces() -> Self {
        Self(NAMESPACE_TABLE.into())
    }

    /// Reads `table` or `ns:table`.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`] for names that HBase refuses.
    pub fn parse(text: &str) -> Result<Self> {
        match text.split_once(':') {
            Some((namespace, qualifier)) => Self::new(namespace, qualifier),
            None => Self::new(DEFAULT_NAMESPACE, text),
        }
    }

    /// From its two parts.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`] for names that HBase refuses.
    pub fn new(namespace: &str, qualifier: &str) -> Result<Self> {
        let bad = |why: &str| {
            Err(Error::invalid(format!(
                "illegal table name '{namespace}:{qualifier}': {why}"
            )))
        };
        let legal = |c: char| c.is_alphanumeric() || c == '_';
        if namespace.is_empty() || !namespace.chars().all(legal) {
            return bad("a namespace has letters, digits and '_'");
        }
        if qualifier.is_empty() || !qualifier.chars().all(|c| legal(c) || c == '-' || c == '.') {
            return bad("a table qualifier has letters, digits, '_', '-' and '.'");
        }
        if qualifier.starts_with(['.', '-']) {
            return bad("a table qualifier starts with a letter, a digit or '_'");
        }
        if namespace.len() + qualifier.len() > limits::ROW_MAX / 2 {
            return bad("too long");
        }
        Ok(if namespace == DEFAULT_NAMESPACE {
            Self(qualifier.into())
        } else {
            Self(format!("{namespace}:{qualifier}").into())
        })
    }

    /// Namespace.
    pub fn namespace(&self) -> &str {
        self.0
            .split_once(':')
            .map_or(DEFAULT_NAMESPACE, |(namespace, _)| namespace)
    }

    /// Name inside the namespace.
    pub fn qualifier(&self) -> &str {
        self.0
            .split_once(':')
            .map_or(&self.0, |(_, qualifier)| qualifier)
    }

    /// As HBase writes it: without the default namespace.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it lies in the reserved namespace `hbase`.
    pub fn is_system(&self) -> bool {
        self.namespace() == "hbase"
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// State of a table (`TableState.State`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableState {
    /// Served.
    Enabled,
    /// Not served.
    Disabled,
    /// On the way to disabled.
    Disabling,
    /// On the way to enabled.
    Enabling,
}

/// KEEP_DELETED_CELLS of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepDeletedCells {
    /// Markers hide, compaction drops.
    False,
    /// A marker counts only inside the read's time range; compaction keeps deleted cells as far as VERSIONS allow.
    True,
    /// As true, until the TTL runs out.
    Ttl,
}

/// How the files of a family are compressed; the stronger the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4.
    Lz4,
    /// Snappy.
    Snappy,
    /// Deflate in zlib's frame, for GZ.
    Zlib,
    /// Zstandard, and BZIP2, LZMA and BROTLI, which are slower for the same size.
    Zstd,
}

/// A column family: what the client sent, unknown keys included, and typed access to what changes semantics
/// (hbase-protocol.md 8.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyDescriptor {
    /// Name.
    pub name: Bytes,
    /// Number inside the table, never reused (C6). Given by the master; 0 until then.
    pub id: u16,
    /// Attributes as text bytes, in the order of their keys.
    pub attributes: BTreeMap<Bytes, Bytes>,
    /// Free settings.
    pub configuration: BTreeMap<String, String>,
}

impl FamilyDescriptor {
    /// A family with HBase's defaults.
    pub fn new(name: impl Into<Bytes>) -> Self {
        Self {
            name: name.into(),
            id: 0,
            attributes: BTreeMap::new(),
            configuration: BTreeMap::new(),
        }
    }

    /// The same with an attribute set.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.attributes.insert(
            Bytes::copy_from_slice(key.as_bytes()),
            Bytes::copy_from_slice(value.as_bytes()),
        );
        self
    }

    /// An attribute as text.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .get(key.as_bytes())
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    fn number<T: std::str::FromStr>(&self, key: &str, default: T) -> T {
        self.attribute(key)
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(default)
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.attribute(key)
            .map_or(default, |text| text.trim().eq_ignore_ascii_case("true"))
    }

    /// VERSIONS, at least 1.
    pub fn max_versions(&self) -> u32 {
        self.number("VERSIONS", 1_u32).max(1)
    }

    /// MIN_VERSIONS.
    pub fn min_versions(&self) -> u32 {
        self.number("MIN_VERSIONS", 0)
    }

    /// TTL in ms, `None` for ever.
    pub fn ttl_ms(&self) -> Option<i64> {
        match self.number("TTL", i64::from(i32::MAX)) {
            seconds if seconds < 0 || seconds >= i64::from(i32::MAX) => None,
            seconds => Some(seconds * 1000),
        }
    }

    /// KEEP_DELETED_CELLS.
    pub fn keep_deleted_cells(&self) -> KeepDeletedCells {
        match self
            .attribute("KEEP_DELETED_CELLS")
            .map(|text| text.trim().to_ascii_uppercase())
        {
            Some(text) if text == "TRUE" => KeepDeletedCells::True,
            Some(text) if text == "TTL" => KeepDeletedCells::Ttl,
            _ => KeepDeletedCells::False,
        }
    }

    /// COMPRESSION.
    pub fn compression(&self) -> Compression {
        let text = self.attribute("COMPRESSION").unwrap_or_default();
        match text.trim().to_ascii_uppercase().as_str() {
            "LZ4" => Compression::Lz4,
            "SNAPPY" => Compression::Snappy,
            "GZ" => Compression::Zlib,
            "ZSTD" => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// NEW_VERSION_BEHAVIOR: markers hide by order of writing.
    pub fn new_version_behavior(&self) -> bool {
        self.flag("NEW_VERSION_BEHAVIOR", false)
    }
}

/// A table's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescriptor {
    /// Name.
    pub name: TableName,
    /// Attributes as text bytes.
    pub attributes: BTreeMap<Bytes, Bytes>,
    /// Families by name.
    pub families: BTreeMap<Bytes, FamilyDescriptor>,
    /// Free settings.
    pub configuration: BTreeMap<String, String>,
}

impl TableDescriptor {
    /// A table without families.
    pub fn new(name: TableName) -> Self {
        Self {
            name,
            attributes: BTreeMap::new(),
            families: BTreeMap::new(),
            configuration: BTreeMap::new(),
        }
    }

    /// The same with one more family.
    pub fn with_family(mut self, family: FamilyDescriptor) -> Self {
        self.families.insert(family.name.clone(), family);
        self
    }

    /// An attribute as text.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .get(key.as_bytes())
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// READONLY.
    pub fn read_only(&self) -> bool {
        self.attribute("READONLY")
            .is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
    }

    /// DURABILITY, with `UseDefault` read as sync.
    pub fn durability(&self) -> Durability {
        match self
            .attribute("DURABILITY")
            .map(|text| text.trim().to_ascii_uppercase())
            .as_deref()
        {
            Some("SKIP_WAL") => Durability::SkipWal,
            Some("ASYNC_WAL") => Durability::AsyncWal,
            Some("FSYNC_WAL") => Durability::FsyncWal,
            _ => Durability::SyncWal,
        }
    }

    /// The family of this name.
    ///
    /// # Errors
    /// [`Code::NoSuchColumnFamily`] with HBase's words.
    pub fn family(&self, name: &[u8]) -> Result<&FamilyDescriptor> {
        self.families.get(name).ok_or_else(|| {
            Error::new(
                Code::NoSuchColumnFamily,
                format!(
                    "Column family {} does not exist in table {}",
                    String::from_utf8_lossy(name),
                    self.name
                ),
            )
        })
    }

    /// The descriptor of `hbase:meta` (hbase-protocol.md 6.1). Family ids are part of the format of the region's rows.
    pub fn meta() -> Self {
        let family = |name: &'static str, id, versions: &str| {
            let mut family = FamilyDescriptor::new(name.as_bytes())
                .with("VERSIONS", versions)
                .with("IN_MEMORY", "true")
                .with("BLOCKSIZE", "8192");
            family.id = id;
            family
        };
        Self::new(TableName::meta())
            .with_family(family("info", 1, "3"))
            .with_family(family("table", 2, "3"))
            .with_family(family("rep_barrier", 3, "2147483647"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let plain = TableName::parse("t-1.x").unwrap();
        assert_eq!(
            (plain.namespace(), plain.qualifier(), plain.as_str()),
            ("default", "t-1.x", "t-1.x")
        );
        assert_eq!(
            TableName::parse("default:t").unwrap(),
            TableName::parse("t").unwrap()
        );
        let spaced = TableName::parse("ns:t").unwrap();
        assert_eq!((spaced.namespace(), spaced.qualifier()), ("ns", "t"));
        for bad in ["", ":", "a:", ":t", "a b", ".t", "-t", "a:b:c", "t\0"] {
            assert!(TableName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn family_attributes_have_defaults_and_limits() {
        let plain = FamilyDescriptor::new("f");
        assert_eq!(
            (plain.max_versions(), plain.min_versions(), plain.ttl_ms()),
            (1, 0, None)
        );
        let set = FamilyDescriptor::new("f")
            .with("VERSIONS", "3")
            .with("TTL", "5")
            .with("KEEP_DELETED_CELLS", "true");
        assert_eq!((set.max_versions(), set.ttl_ms()), (3, Some(5000)));
        assert_eq!(set.keep_deleted_cells(), KeepDeletedCells::True);
        assert_eq!(
            FamilyDescriptor::new("f")
                .with("TTL", "2147483647")
                .ttl_ms(),
            None
        );
        assert_eq!(FamilyDescriptor::new("f").with("TTL", "-1").ttl_ms(), None);
    }
}
