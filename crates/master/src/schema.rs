//! Whether a table, a family, a namespace or a list of split keys may be: pure checks with HBase's exceptions.
//!
//! Unknown attributes are kept and given back unchanged (hbase-protocol.md 8.4: clients send some that HBase itself does not
//! know). What tunes files that Cadastre does not have is accepted and has no effect. What would be a lie to accept is refused:
//! coprocessors, encryption, region replicas. This module must not know of storage, of servers or of what is running.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cadastre_types::{
    Code, Error, FamilyDescriptor, RegionInfo, Result, TableDescriptor, TableName, limits,
};

/// Most regions a table may be created with: a request frame could hold millions of split keys, and each region costs memory
/// on a server (INV-9). Far above what HBase's own advice (about 100 a server) makes of a large cluster.
pub const REGIONS_PER_TABLE_MAX: usize = 20_000;

/// Most families of a table: ids are 16 bits and every family of a row is a key of the store. HBase's advice is at most 3.
pub const FAMILIES_MAX: usize = 1_000;

/// Most bytes of one descriptor, all names and values together: it goes into each order to open a region.
pub const DESCRIPTOR_BYTES_MAX: usize = 1024 * 1024;

/// The switch that turns HBase's sanity checks off (`hbase.table.sanity.checks`), in a table's configuration or attributes.
const SANITY_SWITCH: &str = "hbase.table.sanity.checks";

/// The attribute that names how HBase keeps track of a store's files.
pub(crate) const STORE_FILE_TRACKER: &str = "hbase.store.file-tracker.impl";

/// The filter of row prefixes, and the setting of a family without which it makes no sense.
const ROW_PREFIX_BLOOM: &str = "ROWPREFIX_FIXED_LENGTH";
const ROW_PREFIX_LENGTH: &str = "RowPrefixBloomFilter.prefix_length";

/// What names a family's codecs; only the first has an effect here.
const COMPRESSION_KEYS: [&str; 4] = [
    "COMPRESSION",
    "COMPRESSION_COMPACT",
    "COMPRESSION_COMPACT_MAJOR",
    "COMPRESSION_COMPACT_MINOR",
];

/// Codecs of HBase that the store does not have.
const LACKING_CODECS: [&str; 4] = ["LZO", "BZIP2", "LZMA", "BROTLI"];

/// HBase's policies of when to split, by the ends of their class names. Tables that are not split may name one all the same.
const SPLIT_POLICIES: [&str; 7] = [
    "BusyRegionSplitPolicy",
    "ConstantSizeRegionSplitPolicy",
    "DelimitedKeyPrefixRegionSplitPolicy",
    "DisabledRegionSplitPolicy",
    "IncreasingToUpperBoundRegionSplitPolicy",
    "KeyPrefixRegionSplitPolicy",
    "SteppingSplitPolicy",
];

/// Trackers of a store's files that a client may ask for.
const TRACKERS: [&str; 2] = ["DEFAULT", "FILE"];

/// The tracker that stands for the way between them, and the settings that name both.
const MIGRATION: &str = "MIGRATION";
pub(crate) const MIGRATION_ENDS: [&str; 2] = [
    "hbase.store.file-tracker.migration.src.impl",
    "hbase.store.file-tracker.migration.dst.impl",
];

/// HBase's lower limits: `hbase.hregion.max.filesize.limit` and `hbase.hregion.memstore.flush.size.limit`.
const MAX_FILESIZE_MIN: i64 = 2 * 1024 * 1024;
const MEMSTORE_FLUSHSIZE_MIN: i64 = 1024 * 1024;

/// HBase's range of a family's BLOCKSIZE.
const BLOCKSIZE_RANGE: std::ops::RangeInclusive<i64> = 1024..=16 * 1024 * 1024;

/// A table as the master keeps it: the descriptor, and the next free family id (C6: ids are never used again, so the
/// number outlives the families).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRecord {
    /// Schema with family ids.
    pub descriptor: TableDescriptor,
    /// Id of the next family that is added, at least 1.
    pub next_family_id: u16,
}

impl TableRecord {
    /// A new table: checks the descriptor and numbers its families from 1.
    ///
    /// # Errors
    /// What [`check_table`] says.
    pub fn create(mut descriptor: TableDescriptor) -> Result<Self> {
        // HBase 2.5 and later write it into every new table, and tests and tools compare whole descriptors.
        descriptor
            .attributes
            .entry(Bytes::from_static(STORE_FILE_TRACKER.as_bytes()))
            .or_insert_with(|| Bytes::from_static(b"DEFAULT"));
        let tracker = descriptor.attribute(STORE_FILE_TRACKER);
        if tracker.is_some_and(|tracker| tracker.eq_ignore_ascii_case(MIGRATION)) {
            return Err(Error::invalid(format!(
                "{MIGRATION} is no store file tracker of a new table."
            )));
        }
        let empty = Self {
            descriptor: TableDescriptor::new(descriptor.name.clone()),
            next_family_id: 1,
        };
        empty.altered(descriptor)
    }

    /// The same table with another descriptor: families that stay keep their ids, new ones get new ids, in the order of
    /// their names.
    ///
    /// # Errors
    /// What [`check_table`] says; [`Code::DoNotRetryIo`] once all ids are used up.
    pub fn altered(&self, mut descriptor: TableDescriptor) -> Result<Self> {
        check_table(&descriptor)?;
        let mut next = self.next_family_id;
        for (name, family) in &mut descriptor.families {
            family.id = match self.descriptor.families.get(name) {
                Some(old) => old.id,
                None => {
                    let id = next;
                    next = next.checked_add(1).ok_or_else(|| {
                        Error::invalid("this table has had too many families; create another one")
                    })?;
                    id
                }
            };
            assert!(family.id > 0 && family.id < next, "C6: an id of its own");
        }
        Ok(Self {
            descriptor,
            next_family_id: next,
        })
    }

    /// The same table with one more family.
    ///
    /// # Errors
    /// [`Code::InvalidFamilyOperation`] if it is there already, and what [`check_table`] says.
    pub fn with_added(&self, family: FamilyDescriptor) -> Result<Self> {
        if self.descriptor.families.contains_key(&family.name) {
            return Err(family_error(format!(
                "Column family '{}' in table '{}' already exists so cannot be added",
                text(&family.name),
                self.descriptor.name
            )));
        }
        self.altered(self.descriptor.clone().with_family(family))
    }

    /// The same table with one family changed.
    ///
    /// # Errors
    /// [`Code::InvalidFamilyOperation`] if it is not there, and what [`check_table`] says.
    pub fn with_modified(&self, family: FamilyDescriptor) -> Result<Self> {
        self.expect_family(&family.name, "modified")?;
        self.altered(self.descriptor.clone().with_family(family))
    }

    /// The same table without a family.
    ///
    /// # Errors
    /// [`Code::InvalidFamilyOperation`] if it is not there or the only one.
    pub fn without(&self, family: &[u8]) -> Result<Self> {
        self.expect_family(family, "deleted")?;
        if self.descriptor.families.len() == 1 {
            return Err(family_error(format!(
                "Family '{}' is the only column family in the table, so it cannot be deleted",
                text(family)
            )));
        }
        let mut descriptor = self.descriptor.clone();
        descriptor.families.remove(family);
        self.altered(descriptor)
    }

    fn expect_family(&self, family: &[u8], done: &str) -> Result<()> {
        if self.descriptor.families.contains_key(family) {
            return Ok(());
        }
        Err(family_error(format!(
            "Family '{}' does not exist, so it cannot be {done}",
            text(family)
        )))
    }
}

/// A namespace: its name and free settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Namespace {
    /// Name.
    pub name: String,
    /// Free settings.
    pub configuration: BTreeMap<String, String>,
}

impl Namespace {
    /// A namespace without settings.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            configuration: BTreeMap::new(),
        }
    }
}

/// The namespaces that always exist and cannot be removed.
pub const RESERVED_NAMESPACES: [&str; 2] = ["default", "hbase"];

/// Checks a namespace that a client wants to create.
///
/// # Errors
/// [`Code::DoNotRetryIo`] for an illegal name or too many settings.
pub fn check_namespace(namespace: &Namespace) -> Result<()> {
    let name = &namespace.name;
    // The rule for a namespace is that of the first part of a table's name.
    TableName::new(name, "t").map_err(|_| {
        Error::invalid(format!(
            "Illegal namespace name '{name}': namespaces have letters, digits and '_'"
        ))
    })?;
    let bytes: usize = namespace
        .configuration
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes + name.len() > DESCRIPTOR_BYTES_MAX {
        return Err(Error::invalid("the namespace's configuration is too large"));
    }
    Ok(())
}

/// Checks a whole table descriptor (HBase's `TableDescriptorChecker`).
///
/// # Errors
/// [`Code::DoNotRetryIo`] with what is wrong.
pub fn check_table(descriptor: &TableDescriptor) -> Result<()> {
    if descriptor.families.is_empty() {
        return Err(insane("Table should have at least one column family."));
    }
    if descriptor.families.len() > FAMILIES_MAX {
        return Err(insane(format!(
            "Table has {} column families, more than {FAMILIES_MAX}.",
            descriptor.families.len()
        )));
    }
    if bytes_of(descriptor) > DESCRIPTOR_BYTES_MAX {
        return Err(insane("The table descriptor is too large."));
    }
    check_promises(descriptor)?;
    for family in descriptor.families.values() {
        check_family_name(&family.name)?;
        check_family_semantics(family)?;
    }
    let switched_off = descriptor
        .configuration
        .get(SANITY_SWITCH)
        .map(String::as_str)
        .or_else(|| descriptor.attribute(SANITY_SWITCH))
        .is_some_and(|text| text.eq_ignore_ascii_case("false"));
    if switched_off {
        return Ok(());
    }
    check_table_sizes(descriptor)?;
    check_classes(descriptor)?;
    check_data_tiering(descriptor)?;
    descriptor
        .families
        .values()
        .try_for_each(check_family_tuning)
}

/// What Cadastre does not do and a client would rely on.
fn check_promises(descriptor: &TableDescriptor) -> Result<()> {
    for key in descriptor.attributes.keys() {
        let key = text(key);
        if key.to_ascii_lowercase().starts_with("coprocessor$") {
            check_coprocessor(descriptor.attribute(&key).unwrap_or_default(), &key)?;
        }
    }
    let replicas = table_number(descriptor, "REGION_REPLICATION")?.unwrap_or(1);
    if replicas != 1 {
        return Err(insane(format!(
            "REGION_REPLICATION {replicas} is not supported by Cadastre: a region has one replica."
        )));
    }
    one_of(
        descriptor.attribute("DURABILITY"),
        &[
            "USE_DEFAULT",
            "SKIP_WAL",
            "ASYNC_WAL",
            "SYNC_WAL",
            "FSYNC_WAL",
        ],
        "DURABILITY",
    )
}

/// The endpoints that every region has, whether its table names them or not.
const ENDPOINTS: [&str; 2] = [
    "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint",
    "org.apache.hadoop.hbase.coprocessor.AggregateImplementation",
];

/// A coprocessor of a table: `path|class|priority|arguments`.
fn check_coprocessor(value: &str, key: &str) -> Result<()> {
    let class = value.split('|').nth(1).unwrap_or_default().trim();
    if ENDPOINTS.contains(&class) {
        return Ok(());
    }
    Err(insane(format!(
        "The coprocessor {class} cannot be loaded ({key}): there is no JVM, only {}.",
        ENDPOINTS.join(" and ")
    )))
}

/// What HBase would have to load by its name.
fn check_classes(descriptor: &TableDescriptor) -> Result<()> {
    if let Some(class) = descriptor.attribute("SPLIT_POLICY") {
        let short = class.strip_prefix("org.apache.hadoop.hbase.regionserver.");
        if !short.is_some_and(|short| SPLIT_POLICIES.contains(&short)) {
            return Err(insane(format!(
                "Unable to load configured region split policy '{class}'."
            )));
        }
    }
    let of_table = |key: &str| {
        descriptor
            .attribute(key)
            .or_else(|| descriptor.configuration.get(key).map(String::as_str))
    };
    check_trackers(&of_table)?;
    descriptor.families.values().try_for_each(|family| {
        check_trackers(&|key: &str| {
            let own = family.configuration.get(key).map(String::as_str);
            own.or_else(|| of_table(key))
        })
    })
}

/// The tracker of a store's files, and where it is HBase's way from one to the other, these two.
fn check_trackers<'a>(setting: &impl Fn(&str) -> Option<&'a str>) -> Result<()> {
    let Some(tracker) = setting(STORE_FILE_TRACKER) else {
        return Ok(());
    };
    if !tracker.eq_ignore_ascii_case(MIGRATION) {
        return check_tracker(tracker);
    }
    MIGRATION_ENDS
        .iter()
        .try_for_each(|key| match setting(key) {
            Some(end) => check_tracker(end),
            None => Err(Error::invalid(format!(
                "The store file tracker {MIGRATION} needs {key}."
            ))),
        })
}

/// Whether a client may ask for this tracker of a store's files.
///
/// # Errors
/// [`Code::DoNotRetryIo`].
pub(crate) fn check_tracker(name: &str) -> Result<()> {
    match TRACKERS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
    {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "The store file tracker {name} cannot be used: it is one of {}.",
            TRACKERS.join(", ")
        ))),
    }
}

/// HBase's data tiering by time needs its compaction by time.
fn check_data_tiering(descriptor: &TableDescriptor) -> Result<()> {
    const KIND: &str = "hbase.hstore.datatiering.type";
    const ENGINE: &str = "hbase.hstore.engine.class";
    const DATE_TIERED: &str = "org.apache.hadoop.hbase.regionserver.DateTieredStoreEngine";
    for family in descriptor.families.values() {
        let setting = |key: &str| {
            family
                .configuration
                .get(key)
                .or_else(|| descriptor.configuration.get(key))
                .map(String::as_str)
                .or_else(|| family.attribute(key))
                .or_else(|| descriptor.attribute(key))
        };
        let tiered = setting(KIND).is_some_and(|kind| kind.eq_ignore_ascii_case("TIME_RANGE"));
        if tiered && setting(ENGINE) != Some(DATE_TIERED) {
            return Err(insane(
                "Time Range Data Tiering should be enabled with Date Tiered Compaction.",
            ));
        }
    }
    Ok(())
}

/// HBase's rule for a family's name (hbase-protocol.md 10.4).
///
/// # Errors
/// [`Code::DoNotRetryIo`].
pub fn check_family_name(name: &[u8]) -> Result<()> {
    let why = if name.is_empty() {
        "Column Family name can not be empty"
    } else if name.len() > limits::FAMILY_MAX {
        "Column Family name is longer than 127 bytes"
    } else if name[0] == b'.' {
        "Family names cannot start with a period"
    } else if name
        .iter()
        .any(|b| b.is_ascii_control() || matches!(b, b':' | b'\\' | b'/'))
    {
        "Illegal character. Family names cannot contain control characters or colons"
    } else if name == b"recovered.edits" {
        "Family name cannot be: recovered.edits"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("{why}: '{}'", text(name))))
}

/// What changes answers to clients: checked always.
fn check_family_semantics(family: &FamilyDescriptor) -> Result<()> {
    let name = text(&family.name);
    let number = |key: &str| family_number(family, key);
    let versions = number("VERSIONS")?.unwrap_or(1);
    let min_versions = number("MIN_VERSIONS")?.unwrap_or(0);
    if versions <= 0 || versions > i64::from(i32::MAX) {
        return Err(insane(format!(
            "Max versions for column family {name} must be positive."
        )));
    }
    if min_versions < 0 {
        return Err(insane(format!(
            "Min versions for column family {name} must be positive."
        )));
    }
    if min_versions > 0 && min_versions > versions {
        return Err(insane(format!(
            "Min versions for column family {name} must not be more than its max versions."
        )));
    }
    // Negative means for ever, as the client library's own constant.
    if number("TTL")? == Some(0) {
        return Err(insane(format!(
            "TTL for column family {name} must be positive."
        )));
    }
    one_of(
        family.attribute("KEEP_DELETED_CELLS"),
        &["FALSE", "TRUE", "TTL"],
        "KEEP_DELETED_CELLS",
    )?;
    if family
        .attribute("ENCRYPTION")
        .is_some_and(|text| !text.is_empty() && !text.eq_ignore_ascii_case("NONE"))
    {
        return Err(insane(format!(
            "Encryption of column family {name} is not supported by Cadastre."
        )));
    }
    check_compression(family)
}

/// HBase tries a codec before it takes it, whether its other checks are on or off, and has none of these either unless somebody installs
/// its library. What was taken for another one would be described as what the files are not.
fn check_compression(family: &FamilyDescriptor) -> Result<()> {
    for key in COMPRESSION_KEYS {
        let asked = family.attribute(key).unwrap_or_default().trim();
        if LACKING_CODECS
            .iter()
            .any(|it| it.eq_ignore_ascii_case(asked))
        {
            return Err(Error::invalid(format!(
                "Compression algorithm '{}' of column family {} has no codec in Cadastre: NONE, GZ, LZ4, SNAPPY and ZSTD have",
                asked.to_ascii_lowercase(),
                text(&family.name),
            )));
        }
    }
    Ok(())
}

/// What only tunes files: checked as HBase does, unless its checks are switched off.
fn check_family_tuning(family: &FamilyDescriptor) -> Result<()> {
    let name = text(&family.name);
    let number = |key: &str| family_number(family, key);
    if let Some(size) = number("BLOCKSIZE")?
        && !BLOCKSIZE_RANGE.contains(&size)
    {
        return Err(insane(format!(
            "Block size for column family {name}  must be between 1K and 16MB."
        )));
    }
    if number("REPLICATION_SCOPE")?.is_some_and(|scope| scope < 0) {
        return Err(insane(format!(
            "Replication scope for column family {name} is invalid."
        )));
    }
    if number("DFS_REPLICATION")?.is_some_and(|copies| copies < 0) {
        return Err(insane(format!(
            "HFile Replication for column family {name}  must be greater than zero."
        )));
    }
    let named = |key: &str, values: &[&str]| one_of(family.attribute(key), values, key);
    named("BLOOMFILTER", &["NONE", "ROW", "ROWCOL", ROW_PREFIX_BLOOM])?;
    let prefix = family.configuration.get(ROW_PREFIX_LENGTH);
    if family
        .attribute("BLOOMFILTER")
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case(ROW_PREFIX_BLOOM))
        && !prefix.is_some_and(|length| length.parse().is_ok_and(|length: u16| length > 0))
    {
        return Err(insane(format!(
            "Failed to get bloom filter param: {ROW_PREFIX_LENGTH} of column family {name}."
        )));
    }
    for key in COMPRESSION_KEYS {
        named(key, &["NONE", "GZ", "SNAPPY", "LZ4", "ZSTD"])?;
    }
    named(
        "DATA_BLOCK_ENCODING",
        &["NONE", "PREFIX", "DIFF", "FAST_DIFF", "ROW_INDEX_V1"],
    )?;
    named(
        "IN_MEMORY_COMPACTION",
        &["NONE", "BASIC", "EAGER", "ADAPTIVE"],
    )
}

fn check_table_sizes(descriptor: &TableDescriptor) -> Result<()> {
    for (key, least, words) in [
        (
            "MAX_FILESIZE",
            MAX_FILESIZE_MIN,
            "hbase.hregion.max.filesize",
        ),
        (
            "MEMSTORE_FLUSHSIZE",
            MEMSTORE_FLUSHSIZE_MIN,
            "hbase.hregion.memstore.flush.size",
        ),
    ] {
        // A negative size means that the server's own holds.
        if let Some(size) = table_number(descriptor, key)?
            && (0..least).contains(&size)
        {
            return Err(insane(format!(
                "{key} for table descriptor or \"{words}\" ({size}) is too small, which might cause very frequent flushing or splitting."
            )));
        }
    }
    Ok(())
}

/// The regions of a new table: one more than there are split keys, in key order, all with one id.
///
/// # Errors
/// [`Code::DoNotRetryIo`] for empty, doubled, too long or too many split keys.
pub fn regions_of(
    table: &TableName,
    mut split_keys: Vec<Bytes>,
    region_id: u64,
) -> Result<Vec<RegionInfo>> {
    if split_keys.len() >= REGIONS_PER_TABLE_MAX {
        return Err(Error::invalid(format!(
            "{} split keys: a table is created with at most {REGIONS_PER_TABLE_MAX} regions",
            split_keys.len()
        )));
    }
    split_keys.sort();
    for key in &split_keys {
        if key.is_empty() {
            return Err(Error::invalid(
                "Empty split key must not be passed in the split keys.",
            ));
        }
        if key.len() > limits::ROW_MAX {
            return Err(Error::invalid(format!(
                "a split key has {} bytes; a row key has at most {}",
                key.len(),
                limits::ROW_MAX
            )));
        }
    }
    if let Some(pair) = split_keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::invalid(format!(
            "All split keys must be unique, found duplicate key: {}",
            text(&pair[0])
        )));
    }
    let starts = std::iter::once(Bytes::new()).chain(split_keys.iter().cloned());
    let ends = split_keys.iter().cloned().chain([Bytes::new()]);
    Ok(starts
        .zip(ends)
        .map(|(start, end)| RegionInfo::new(table.clone(), start, end, region_id))
        .collect())
}

/// Whether regions cover every key once (INV-1): sorted by start key, each ends where the next one starts.
pub fn covers(regions: &[RegionInfo]) -> bool {
    let sorted: BTreeSet<(&Bytes, &Bytes)> = regions
        .iter()
        .map(|region| (&region.start_key, &region.end_key))
        .collect();
    let mut at: Option<&Bytes> = None;
    for (start, end) in &sorted {
        let follows = match at {
            None => start.is_empty(),
            Some(end_before) => !end_before.is_empty() && end_before == *start,
        };
        if !follows {
            return false;
        }
        at = Some(end);
    }
    sorted.len() == regions.len() && at.is_some_and(Bytes::is_empty)
}

fn bytes_of(descriptor: &TableDescriptor) -> usize {
    let attributes = |map: &BTreeMap<Bytes, Bytes>| -> usize {
        map.iter().map(|(key, value)| key.len() + value.len()).sum()
    };
    let settings = |map: &BTreeMap<String, String>| -> usize {
        map.iter().map(|(key, value)| key.len() + value.len()).sum()
    };
    let families: usize = descriptor
        .families
        .values()
        .map(|family| {
            family.name.len() + attributes(&family.attributes) + settings(&family.configuration)
        })
        .sum();
    families + attributes(&descriptor.attributes) + settings(&descriptor.configuration)
}

fn table_number(descriptor: &TableDescriptor, key: &str) -> Result<Option<i64>> {
    number(descriptor.attributes.get(key.as_bytes()), key)
}

fn family_number(family: &FamilyDescriptor, key: &str) -> Result<Option<i64>> {
    number(family.attributes.get(key.as_bytes()), key)
}

fn number(value: Option<&Bytes>, key: &str) -> Result<Option<i64>> {
    let Some(value) = value else { return Ok(None) };
    let parsed = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    match parsed {
        Some(number) => Ok(Some(number)),
        None => Err(insane(format!(
            "{key} must be a number, not '{}'.",
            text(value)
        ))),
    }
}

fn one_of(value: Option<&str>, allowed: &[&str], key: &str) -> Result<()> {
    match value {
        Some(text) if !allowed.iter().any(|a| a.eq_ignore_ascii_case(text.trim())) => Err(insane(
            format!("{key} is one of {}, not '{text}'.", allowed.join(", ")),
        )),
        _ => Ok(()),
    }
}

/// HBase adds to what fails its sanity checks how they are switched off.
fn insane(why: impl Into<String>) -> Error {
    Error::invalid(format!(
        "{} Set {SANITY_SWITCH} to false at conf or table descriptor if you want to bypass sanity checks",
        why.into()
    ))
}

fn family_error(why: String) -> Error {
    Error::new(Code::InvalidFamilyOperation, why)
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests;
