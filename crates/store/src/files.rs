//! What is known of a region's files beside their cells: when they were last merged as one, what they hold uncompressed, how much
//! of them is the region's, where its middle is, their names; and which compression its table asks for.
//!
//! The time of the last major compaction is an object of its own, `major`, beside SlateDB's: text, so that a person can read it.
//!
//! ```text
//! cadastre major compaction
//! format 1
//! ended 1764486000000     (ms since 1970)
//! ```

use std::collections::BTreeMap;
use std::ops::{Range, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cadastre_types::{Compression, Error, RegionInfo, Result, TableDescriptor};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slatedb::config::CompressionCodec;
use slatedb::manifest::SsTableView;
use slatedb::{SstFile, SstIndex, SstReader, VersionedManifest};

use crate::db::Recipe;
use crate::error::{from_object_store, from_slatedb};
use crate::key::RowCodec;

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
    /// How much of a file that it shares with others is the region's, by the file's place in the manifest.
    parts: Mutex<BTreeMap<String, Part>>,
}

/// Blocks of a file that hold something of a region, and all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    blocks: u64,
    all: u64,
}

impl Part {
    fn of(self, bytes: u64) -> u64 {
        let part = u128::from(bytes) * u128::from(self.blocks) / u128::from(self.all.max(1));
        u64::try_from(part).expect("a part is no more than the whole")
    }
}

fn object(region: &Path) -> Path {
    region.clone().join(FILE)
}

/// The database that a file lies in: the region's own, or the one that it is borrowed from.
fn home(recipe: &Recipe, manifest: &VersionedManifest, view: &SsTableView) -> Path {
    let mut lenders = manifest.external_dbs().iter();
    let lender = lenders.find(|lender| lender.sst_ids.contains(&view.sst.id));
    lender.map_or_else(
        || recipe.path.clone(),
        |lender| Path::from(lender.path.as_str()),
    )
}

fn open(recipe: &Recipe, manifest: &VersionedManifest, view: &SsTableView) -> Result<SstFile> {
    let home = home(recipe, manifest, view);
    SstReader::new(home, Arc::clone(&recipe.objects), None, None)
        .open_with_handle(view.sst.clone())
        .map_err(|e| from_slatedb(&e))
}

async fn index(
    recipe: &Recipe,
    manifest: &VersionedManifest,
    view: &SsTableView,
) -> Result<SstIndex> {
    let file = open(recipe, manifest, view)?;
    file.index().await.map_err(|e| from_slatedb(&e))
}

/// The blocks of a file that can hold something of what a region sees of it.
fn blocks_inside(view: &SsTableView, index: &SstIndex) -> Range<usize> {
    let Some(seen) = view.visible_range() else {
        return 0..index.len();
    };
    let before = |key: &[u8]| match seen.start_bound() {
        std::ops::Bound::Unbounded => false,
        std::ops::Bound::Included(start) | std::ops::Bound::Excluded(start) => key <= &start[..],
    };
    let not_behind = |key: &[u8]| match seen.end_bound() {
        std::ops::Bound::Unbounded => true,
        std::ops::Bound::Included(end) => key <= &end[..],
        std::ops::Bound::Excluded(end) => key < &end[..],
    };
    // The block before the first that begins inside may reach into the range.
    let from = index.partition_point(before).saturating_sub(1);
    from..index.partition_point(not_behind).max(from)
}

impl Files {
    /// What an earlier opening left.
    pub(crate) async fn load(recipe: &Recipe, manifest: &VersionedManifest) -> Result<Self> {
        let files = Self::default();
        files.measure(recipe, manifest).await?;
        files.major.store(
            read(&*recipe.objects, &recipe.path).await?,
            Ordering::Relaxed,
        );
        Ok(files)
    }

    /// Learns how much of the files that a region shares with others is its own. Only cloning makes such, and that is before the
    /// region is opened.
    async fn measure(&self, recipe: &Recipe, manifest: &VersionedManifest) -> Result<()> {
        let shared = manifest.all_sst_views();
        for view in shared.filter(|view| view.visible_range().is_some()) {
            let index = index(recipe, manifest, view).await?;
            let part = Part {
                blocks: blocks_inside(view, &index).len() as u64,
                all: index.len() as u64,
            };
            let mut parts = self.parts.lock().expect("not poisoned");
            parts.insert(view.id.to_string(), part);
        }
        Ok(())
    }

    fn part_of(&self, view: &SsTableView, bytes: u64) -> u64 {
        let parts = self.parts.lock().expect("not poisoned");
        // Most regions share none.
        if parts.is_empty() {
            return bytes;
        }
        let part = parts.get(&view.id.to_string());
        part.map_or(bytes, |part| part.of(bytes))
    }

    /// Bytes of a file that are the region's, about.
    pub(crate) fn bytes(&self, view: &SsTableView) -> u64 {
        self.part_of(view, view.estimate_size())
    }

    /// A row near the middle of a region's largest file, with rows before it; `None` if the files are too small to have one.
    pub(crate) async fn middle_row(
        &self,
        recipe: &Recipe,
        manifest: &VersionedManifest,
        codec: RowCodec,
        region: &RegionInfo,
    ) -> Result<Option<Bytes>> {
        let largest = manifest.all_sst_views().max_by_key(|view| self.bytes(view));
        let Some(view) = largest else {
            return Ok(None);
        };
        let index = index(recipe, manifest, view).await?;
        let inside = blocks_inside(view, &index);
        let middle = inside.start + inside.len().div_ceil(2);
        let first = view.sst.info.first_entry.as_ref();
        let first = first.and_then(|key| codec.boundary_row(key));
        let row = |block: usize| {
            let (_, key) = index.get(block)?;
            let row = codec.boundary_row(&Bytes::copy_from_slice(key))?;
            let cuts = row > region.start_key
                && region.contains(&row)
                && first.as_ref().is_none_or(|first| row > *first);
            cuts.then_some(row)
        };
        // The first block's key says nothing, and a row may fill many blocks.
        let upwards = middle..inside.end;
        let downwards = (inside.start + 1..middle).rev();
        Ok(upwards.chain(downwards).find_map(row))
    }

    /// When the last major compaction ended, ms since 1970; 0 for never.
    pub(crate) fn major(&self) -> u64 {
        self.major.load(Ordering::Relaxed)
    }

    /// Remembers that a major compaction ended.
    pub(crate) async fn set_major(&self, recipe: &Recipe, ended: i64) -> Result<()> {
        let ended = u64::try_from(ended).unwrap_or(0);
        write(&*recipe.objects, &recipe.path, ended).await?;
        self.major.store(ended, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes of keys and values in a database's files, before compression.
    pub(crate) async fn raw_bytes(
        &self,
        recipe: &Recipe,
        manifest: &VersionedManifest,
    ) -> Result<u64> {
        let known = std::mem::take(&mut *self.raw.lock().expect("not poisoned"));
        let mut now = BTreeMap::new();
        let mut sum = 0;
        for view in manifest.all_sst_views() {
            let id = format!("{:?}", view.sst.id);
            let bytes = match known.get(&id) {
                Some(bytes) => *bytes,
                None => match open(recipe, manifest, view)?.stats().await {
                    Ok(Some(stats)) => stats.raw_key_size + stats.raw_val_size,
                    Ok(None) => view.estimate_size(),
                    Err(error) => return Err(from_slatedb(&error)),
                },
            };
            now.insert(id, bytes);
            sum += self.part_of(view, bytes);
        }
        *self.raw.lock().expect("not poisoned") = now;
        Ok(sum)
    }
}

/// Names of a database's files.
pub(crate) fn names(recipe: &Recipe, manifest: &VersionedManifest) -> Result<Vec<String>> {
    manifest
        .all_sst_views()
        .map(|view| {
            let file = open(recipe, manifest, view)?;
            let home = home(recipe, manifest, view);
            Ok(format!("{home}/compacted/{}.sst", file.id()))
        })
        .collect()
}

/// When the last major compaction of a region's files ended, ms since 1970; 0 for never.
pub(crate) async fn read_major(objects: &dyn ObjectStore, region: &str) -> Result<u64> {
    read(objects, &Path::from(region)).await
}

/// Says when it ended, for a region that is not open.
pub(crate) async fn write_major(objects: &dyn ObjectStore, region: &str, ended: u64) -> Result<()> {
    write(objects, &Path::from(region), ended).await
}

async fn write(objects: &dyn ObjectStore, region: &Path, ended: u64) -> Result<()> {
    let text = render(ended).into_bytes();
    let written = objects.put(&object(region), text.into()).await;
    written.map(|_| ()).map_err(|e| from_object_store(&e))
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
    fn a_part_is_never_more_than_the_whole() {
        let part = |blocks, all| Part { blocks, all };
        assert_eq!(part(1, 4).of(100), 25);
        assert_eq!(part(4, 4).of(u64::MAX), u64::MAX);
        assert_eq!(part(0, 0).of(100), 0);
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
