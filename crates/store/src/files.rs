//! What is known of a region's files beside their cells: when they were last merged as one, what they hold uncompressed, their
//! names; and which compression its table asks for.
//!
//! The time of the last major compaction is an object of its own, `major`, beside SlateDB's: text, so that a person can read it.
//!
//! ```text
//! cadastre major compaction
//! format 1
//! ended 1764486000000     (ms since 1970)
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cadastre_types::{Compression, Error, Result, TableDescriptor};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slatedb::SstReader;
use slatedb::config::CompressionCodec;

use crate::db::Recipe;
use crate::error::{from_object_store, from_slatedb};

/// Name of the object.
const FILE: &str = "major";

const HEAD: &str = "cadastre major compaction\nformat 1\nended ";

/// HBase's setting of how many files a minor compaction takes at least, and its older name.
const COMPACTION_MIN: [&str; 2] = [
    "hbase.hstore.compaction.min",
    "hbase.hstore.compactionThreshold",
];

/// Longest such object that is read, bytes; ours has about 60.
const FILE_MAX: u64 = 1024;

/// What a region remembers of its files.
#[derive(Default)]
pub(crate) struct Files {
    /// When the last major compaction ended, ms since 1970; 0 for never.
    major: AtomicU64,
    /// Bytes that files hold uncompressed, by their ids. Files never change.
    raw: Mutex<BTreeMap<String, u64>>,
}

fn object(region: &Path) -> Path {
    region.clone().join(FILE)
}

impl Files {
    /// What an earlier opening left.
    pub(crate) async fn load(recipe: &Recipe) -> Result<Self> {
        let files = Self::default();
        files.major.store(
            read(&*recipe.objects, &recipe.path).await?,
            Ordering::Relaxed,
        );
        Ok(files)
    }

    /// When the last major compaction ended, ms since 1970; 0 for never.
    pub(crate) fn major(&self) -> u64 {
        self.major.load(Ordering::Relaxed)
    }

    /// Remembers that a major compaction ended.
    pub(crate) async fn set_major(&self, recipe: &Recipe, ended: i64) -> Result<()> {
        let ended = u64::try_from(ended).unwrap_or(0);
        recipe
            .objects
            .put(&object(&recipe.path), render(ended).into_bytes().into())
            .await
            .map_err(|e| from_object_store(&e))?;
        self.major.store(ended, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes of keys and values in a database's files, before compression.
    pub(crate) async fn raw_bytes(
        &self,
        recipe: &Recipe,
        manifest: &slatedb::VersionedManifest,
    ) -> Result<u64> {
        let reader = SstReader::new(recipe.path.clone(), Arc::clone(&recipe.objects), None, None);
        let known = std::mem::take(&mut *self.raw.lock().expect("not poisoned"));
        let mut now = BTreeMap::new();
        for view in manifest.all_sst_views() {
            let file = reader
                .open_with_handle(view.sst.clone())
                .map_err(|e| from_slatedb(&e))?;
            let id = file.id().to_string();
            let bytes = match known.get(&id) {
                Some(bytes) => *bytes,
                None => match file.stats().await {
                    Ok(Some(stats)) => stats.raw_key_size + stats.raw_val_size,
                    Ok(None) => view.estimate_size(),
                    Err(error) => return Err(from_slatedb(&error)),
                },
            };
            now.insert(id, bytes);
        }
        let sum = now.values().sum();
        *self.raw.lock().expect("not poisoned") = now;
        Ok(sum)
    }
}

/// Names of a database's files.
pub(crate) fn names(recipe: &Recipe, manifest: &slatedb::VersionedManifest) -> Result<Vec<String>> {
    let reader = SstReader::new(recipe.path.clone(), Arc::clone(&recipe.objects), None, None);
    manifest
        .all_sst_views()
        .map(|view| {
            let file = reader
                .open_with_handle(view.sst.clone())
                .map_err(|e| from_slatedb(&e))?;
            Ok(format!("{}/compacted/{}.sst", recipe.path, file.id()))
        })
        .collect()
}

async fn read(objects: &dyn ObjectStore, region: &Path) -> Result<u64> {
    let path = object(region);
    let found = match objects.get(&path).await {
        Err(object_store::Error::NotFound { .. }) => return Ok(0),
        found => found.map_err(|e| from_object_store(&e))?,
    };
    if found.meta.size > FILE_MAX {
        return Err(damaged(&path));
    }
    let bytes = found.bytes().await.map_err(|e| from_object_store(&e))?;
    parse(&bytes).ok_or_else(|| damaged(&path))
}

fn damaged(path: &Path) -> Error {
    Error::corrupt(format!("the file '{path}' is damaged"))
}

fn render(ended: u64) -> String {
    format!("{HEAD}{ended}\n")
}

fn parse(bytes: &[u8]) -> Option<u64> {
    let ended = bytes.strip_prefix(HEAD.as_bytes())?.strip_suffix(b"\n")?;
    std::str::from_utf8(ended).ok()?.parse().ok()
}

/// How a table's files are compressed. Families share their files, so the strongest that a family asks for holds for all.
pub(crate) fn compression(descriptor: &TableDescriptor) -> Option<CompressionCodec> {
    let families = descriptor.families.values();
    let strongest = families.map(|family| family.compression()).max()?;
    match strongest {
        Compression::None => None,
        Compression::Lz4 => Some(CompressionCodec::Lz4),
        Compression::Snappy => Some(CompressionCodec::Snappy),
        Compression::Zlib => Some(CompressionCodec::Zlib),
        Compression::Zstd => Some(CompressionCodec::Zstd),
    }
}

/// Files from which a minor compaction begins, where the table or a family says so: a family's word goes before the table's, and the
/// least of the families' holds, since they share their files.
pub(crate) fn compaction_min(descriptor: &TableDescriptor) -> Option<usize> {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<usize>().ok());
    let of_table = COMPACTION_MIN.iter().find_map(|key| {
        number(descriptor.configuration.get(*key).map(String::as_str))
            .or_else(|| number(descriptor.attribute(key)))
    });
    let families = descriptor.families.values().map(|family| {
        let own = COMPACTION_MIN.iter().find_map(|key| {
            number(family.configuration.get(*key).map(String::as_str))
                .or_else(|| number(family.attribute(key)))
        });
        own.or(of_table)
    });
    families.flatten().min().map(|least| least.max(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadastre_types::{FamilyDescriptor, TableName};

    #[test]
    fn golden() {
        let text = "cadastre major compaction\nformat 1\nended 1764486000000\n";
        assert_eq!(render(1_764_486_000_000), text);
        assert_eq!(parse(text.as_bytes()), Some(1_764_486_000_000));
    }

    #[test]
    fn damage_is_found() {
        for bad in [
            "",
            "cadastre major compaction\nformat 2\nended 1\n",
            "cadastre major compaction\nformat 1\nended 1",
            "cadastre major compaction\nformat 1\nended -1\n",
            "cadastre major compaction\nformat 1\nended \n",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_familys_least_number_of_files_goes_before_the_tables() {
        let key = COMPACTION_MIN[0];
        let plain = TableDescriptor::new(TableName::parse("t").unwrap());
        let family = |name: &'static str| FamilyDescriptor::new(name);
        assert_eq!(
            compaction_min(&plain.clone().with_family(family("f"))),
            None
        );
        let mut table = plain.with_family(family("f"));
        table.attributes.insert(key.into(), "5".into());
        assert_eq!(compaction_min(&table), Some(5));
        let table = table.with_family(family("g").with(key, "1"));
        assert_eq!(
            compaction_min(&table),
            Some(2),
            "one file is merged already"
        );
    }

    #[test]
    fn the_strongest_of_the_families_holds() {
        let table = |kinds: &[&str]| {
            let name = TableName::parse("t").unwrap();
            let mut table = TableDescriptor::new(name);
            for (at, kind) in kinds.iter().enumerate() {
                let family = FamilyDescriptor::new(format!("f{at}")).with("COMPRESSION", kind);
                table = table.with_family(family);
            }
            table
        };
        let of = |kinds: &[&str]| compression(&table(kinds));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["NONE"]), None);
        assert_eq!(of(&["NONE", "LZ4"]), Some(CompressionCodec::Lz4));
        assert_eq!(of(&["LZ4", "ZSTD", "GZ"]), Some(CompressionCodec::Zstd));
        assert_eq!(of(&["gz", "SNAPPY"]), Some(CompressionCodec::Zlib));
    }
}
