//! Regions made of others (rfcs: split and merge): parts of one, or the union of several, as SlateDB's clones. A clone shares its
//! sources' files until a compaction has rewritten them; then it gives them up, and they may be deleted.
//!
//! Sources are closed and flushed. They are sealed ([`seal`]) before the first clone, so that a clone that is found there is known
//! to be of what the source holds now: a source that was opened since has no seal. It must not know of tables' schemas or of
//! `hbase:meta`.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Code, EncodedName, Error, RegionInfo, Result};
use futures::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use rand::RngCore;
use slatedb::VersionedManifest;
use slatedb::{CloneSourceSpec, admin::AdminBuilder};
use slatedb_common::clock::SystemClock;

use crate::clock::RegionClock;
use crate::error::{from_object_store, from_slatedb};
use crate::files;
use crate::key::RowCodec;
use crate::manifest;
use crate::seal;
use crate::store::{Store, region_path};

/// Keys from, and up to.
type Keys = (Bound<Bytes>, Bound<Bytes>);

impl<E: Env> Store<E> {
    /// Makes regions out of closed ones, which are never opened again: each target gets of every source the rows that lie in it. The
    /// targets are new, cover what the sources cover, and are opened afterwards. Done before is done. Answers the epoch that each target
    /// has, which its first opening is to expect (C20).
    ///
    /// # Errors
    /// [`Code::RegionState`] if a source is open, sealed for other targets, or has writes in the log that its files lack (then it must be
    /// opened, which replays them, and closed once more); `Io`; `Corrupt`.
    pub async fn clone_regions(
        &self,
        sources: &[RegionInfo],
        targets: &[RegionInfo],
    ) -> Result<Vec<u64>> {
        check_kin(sources, targets)?;
        let text = seal::text(targets);
        let objects = &*self.shared.objects;
        let mut sealed = true;
        for source in sources {
            let path = region_path(source);
            if self.shared.is_open(&path) {
                return Err(not_ready(format!("{path} is open")));
            }
            match seal::read(objects, &path).await? {
                Some(there) if there == text => {}
                Some(other) => return Err(seal::refusal(&path, Some(&other))),
                None => sealed = false,
            }
        }
        if !sealed {
            for source in sources {
                self.check_flushed(&region_path(source)).await?;
            }
            // What is there of them is of an earlier state of the sources.
            for target in targets {
                self.delete_clone(target).await?;
            }
            for source in sources {
                seal::put(objects, &region_path(source), &text).await?;
            }
        }
        let mut epochs = Vec::with_capacity(targets.len());
        for target in targets {
            self.clone_one(sources, target).await?;
            epochs.push(self.region_epoch(target).await?);
        }
        Ok(epochs)
    }

    /// Takes [`Self::clone_regions`] back: the targets, which are closed, go, and then the sources may be opened again.
    ///
    /// # Errors
    /// If a target is open here; `Io`.
    pub async fn discard_clones(
        &self,
        sources: &[RegionInfo],
        targets: &[RegionInfo],
    ) -> Result<()> {
        for target in targets {
            self.delete_clone(target).await?;
        }
        let text = seal::text(targets);
        for source in sources {
            let path = region_path(source);
            match seal::read(&*self.shared.objects, &path).await? {
                Some(there) if there == text => {
                    seal::remove(&*self.shared.objects, &path).await?;
                }
                Some(other) => return Err(seal::refusal(&path, Some(&other))),
                None => {}
            }
        }
        Ok(())
    }

    /// The regions whose files a region still reads, by encoded name; none for one that was never opened or cloned.
    ///
    /// # Errors
    /// `Corrupt` for a damaged manifest, `Io`.
    pub async fn borrowed_by(&self, info: &RegionInfo) -> Result<BTreeSet<EncodedName>> {
        let manifest = self.read_manifest(&region_path(info)).await?;
        let lenders = manifest.iter().flat_map(|manifest| manifest.external_dbs());
        Ok(lenders
            .map(|lender| {
                let name = lender.path.rsplit('/').next().unwrap_or_default();
                EncodedName::from_specifier(name.as_bytes())
            })
            .collect())
    }

    /// The newest manifest of a database, if there is one.
    pub(crate) async fn read_manifest(&self, path: &str) -> Result<Option<VersionedManifest>> {
        manifest::newest(&self.shared.env, &self.shared.objects, path).await
    }

    async fn check_flushed(&self, path: &str) -> Result<()> {
        let manifest = self
            .read_manifest(path)
            .await?
            .filter(VersionedManifest::initialized)
            .ok_or_else(|| Error::corrupt(format!("{path} has no manifest")))?;
        if self.shared.has_unflushed(path, &manifest).await? {
            return Err(not_ready(format!(
                "{path} has writes that are in the log only"
            )));
        }
        Ok(())
    }

    async fn clone_one(&self, sources: &[RegionInfo], target: &RegionInfo) -> Result<()> {
        let path = region_path(target);
        match self.read_manifest(&path).await? {
            Some(manifest) if manifest.initialized() => return Ok(()),
            // Half made: nobody has opened it.
            Some(_) => self.delete_clone(target).await?,
            None => {}
        }
        let mut parts = Vec::new();
        let mut ticks = 0;
        let mut major = u64::MAX;
        for source in sources {
            let Some(keys) = keys_of_both(source, target) else {
                continue;
            };
            let from = region_path(source);
            let manifest = self.read_manifest(&from).await?;
            ticks = ticks.max(manifest.map_or(0, |manifest| manifest.last_l0_clock_tick()));
            major = major.min(files::read_major(&*self.shared.objects, &from).await?);
            parts.push(CloneSourceSpec::new(from).with_projection_range(keys));
        }
        // First, since a clone that is there is whole.
        if major > 0 {
            files::write_major(&*self.shared.objects, &path, major).await?;
        }
        let mut parts = parts.into_iter();
        let first = parts
            .next()
            .ok_or_else(|| Error::invalid(format!("no source has rows of {path}")))?;
        let clock = RegionClock::new(self.shared.env.clock().clone());
        clock.raise(ticks);
        let seed = self.seed(&format!("clone {path}"));
        let objects = Arc::clone(&self.shared.objects);
        let log = self.shared.wal_admin();
        let cloning = {
            let path = path.clone();
            self.shared.env.background("clone", async move {
                let clock: Arc<dyn SystemClock> = clock;
                let admin = AdminBuilder::new(path, objects)
                    .with_wal_admin(log)
                    .with_system_clock(Arc::clone(&clock))
                    .with_seed(seed)
                    .build();
                parts
                    .fold(
                        admin.create_clone_builder_from_source(first),
                        slatedb::admin::CloneBuilder::with_source,
                    )
                    .with_system_clock(clock)
                    .with_seed(seed)
                    .build()
                    .await
            })
        };
        cloning
            .await
            .ok_or_else(|| interrupted("cloning a region"))?
            .map_err(|error| from_slatedb(&error).context(format!("cloning {path}")))
    }

    fn seed(&self, what: &str) -> u64 {
        let number = self.shared.next_open();
        let mut stream = self.shared.env.rng(&format!("{what} {number}"));
        stream.next_u64()
    }

    /// Deletes what is there of a target, so that it can be made at the same place again.
    async fn delete_clone(&self, target: &RegionInfo) -> Result<()> {
        let prefix = Path::from(region_path(target));
        let mut listing = self.shared.objects.list(Some(&prefix));
        match listing.next().await {
            None => Ok(()),
            Some(Err(error)) => Err(from_object_store(&error)),
            Some(Ok(_)) => {
                drop(listing);
                self.delete_region(target).await
            }
        }
    }

    /// Takes away what keeps the files that a database borrows, before the database is deleted: a source that is opened again would
    /// otherwise keep them for ever.
    pub(crate) async fn give_back(&self, path: &str) -> Result<()> {
        // A manifest that cannot be read must not keep a region from being deleted.
        let manifest = match self.read_manifest(path).await {
            Err(error) if error.code() == Code::Corrupt => {
                tracing::warn!(path, %error, "what it borrows is not known");
                return Ok(());
            }
            manifest => manifest?,
        };
        let lenders = manifest.iter().flat_map(|manifest| manifest.external_dbs());
        let pins: Vec<_> = lenders
            .filter_map(|lender| Some((lender.path.clone(), lender.final_checkpoint_id?)))
            .collect();
        for (lender, pin) in pins {
            if self.read_manifest(&lender).await?.is_none() {
                continue;
            }
            let objects = Arc::clone(&self.shared.objects);
            let clock = RegionClock::new(self.shared.env.clock().clone());
            let seed = self.seed(&format!("give back {path}"));
            let giving = self.shared.env.background("give back", async move {
                let admin = AdminBuilder::new(lender, objects)
                    .with_system_clock(clock)
                    .with_seed(seed)
                    .build();
                admin.delete_checkpoint(pin).await
            });
            giving
                .await
                .ok_or_else(|| interrupted("giving files back"))?
                .map_err(|error| from_slatedb(&error).context(path))?;
        }
        Ok(())
    }
}

fn interrupted(what: &str) -> Error {
    Error::new(Code::Internal, format!("{what} was interrupted"))
}

fn not_ready(why: String) -> Error {
    Error::new(
        Code::RegionState,
        format!("{why}: it must be closed, with everything in its files, before it is cloned"),
    )
}

/// Sources and targets are of one user table, and each is there once.
fn check_kin(sources: &[RegionInfo], targets: &[RegionInfo]) -> Result<()> {
    let names: BTreeSet<EncodedName> = sources
        .iter()
        .chain(targets)
        .map(RegionInfo::encoded_name)
        .collect();
    let table = sources.first().map(|source| &source.table);
    let kin = sources
        .iter()
        .chain(targets)
        .all(|region| Some(&region.table) == table && !region.is_meta());
    if targets.is_empty() || !kin || names.len() != sources.len() + targets.len() {
        return Err(Error::invalid(
            "regions are cloned from other regions of one user table, each once",
        ));
    }
    Ok(())
}

/// The keys of the rows that lie in both regions; `None` if there are none.
fn keys_of_both(a: &RegionInfo, b: &RegionInfo) -> Option<Keys> {
    let start = a.start_key.clone().max(b.start_key.clone());
    let end = match (a.end_key.is_empty(), b.end_key.is_empty()) {
        (true, _) => b.end_key.clone(),
        (false, true) => a.end_key.clone(),
        (false, false) => a.end_key.clone().min(b.end_key.clone()),
    };
    if !end.is_empty() && start >= end {
        return None;
    }
    let key = |row: &Bytes| Bytes::from(RowCodec::Plain.prefix(row));
    let from = match start.is_empty() {
        true => Bound::Unbounded,
        false => Bound::Included(key(&start)),
    };
    let to = match end.is_empty() {
        true => Bound::Unbounded,
        false => Bound::Excluded(key(&end)),
    };
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use cadastre_types::TableName;

    use super::*;

    fn region(start: &'static str, end: &'static str, id: u64) -> RegionInfo {
        let table = TableName::parse("t").unwrap();
        let (start, end) = (start.as_bytes(), end.as_bytes());
        RegionInfo::new(
            table,
            Bytes::from_static(start),
            Bytes::from_static(end),
            id,
        )
    }

    #[test]
    fn keys_are_cut_at_rows() {
        let keys = |a: (&'static str, &'static str), b: (&'static str, &'static str)| {
            keys_of_both(&region(a.0, a.1, 1), &region(b.0, b.1, 2))
        };
        let included = |key: &'static [u8]| Bound::Included(Bytes::from_static(key));
        let excluded = |key: &'static [u8]| Bound::Excluded(Bytes::from_static(key));
        let all = Some((Bound::Unbounded, Bound::Unbounded));
        assert_eq!(keys(("", ""), ("", "")), all);
        let lower = Some((Bound::Unbounded, excluded(b"m\0\0")));
        assert_eq!(keys(("", ""), ("", "m")), lower);
        let upper = Some((included(b"m\0\0"), Bound::Unbounded));
        assert_eq!(keys(("", ""), ("m", "")), upper);
        let middle = Some((included(b"g\0\0"), excluded(b"m\0\0")));
        assert_eq!(keys(("g", "z"), ("", "m")), middle);
        assert_eq!(keys(("g", "m"), ("", "")), middle);
        assert_eq!(keys(("a", "m"), ("m", "")), None);
        assert_eq!(keys(("m", ""), ("a", "m")), None);
    }

    #[test]
    fn only_kin_is_cloned() {
        let (parent, a, b) = (region("", "", 1), region("", "m", 2), region("m", "", 2));
        let one = std::slice::from_ref(&parent);
        assert!(check_kin(one, &[a.clone(), b.clone()]).is_ok());
        assert!(check_kin(&[a.clone(), b.clone()], one).is_ok());
        assert!(check_kin(one, &[a.clone(), a.clone()]).is_err());
        assert!(check_kin(one, one).is_err());
        assert!(check_kin(one, &[]).is_err());
        assert!(check_kin(&[], &[a]).is_err());
        let other = RegionInfo {
            table: TableName::parse("other").unwrap(),
            ..b
        };
        assert!(check_kin(one, &[other]).is_err());
        assert!(check_kin(&[RegionInfo::meta()], &[parent]).is_err());
    }
}
