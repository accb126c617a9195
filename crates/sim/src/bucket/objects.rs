//! The objects of a bucket and what each operation does to them, as plain functions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use futures::stream::StreamExt;
use object_store::path::Path;
use object_store::{
    Attributes, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, ObjectMeta,
    PutMode, PutResult, Result,
};

use crate::hub::EPOCH_MS;

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) bytes: Bytes,
    pub(super) attributes: Attributes,
    e_tag: u64,
    modified: Duration,
}

impl Object {
    pub(super) fn meta(&self, location: &Path) -> ObjectMeta {
        describe(location, self.bytes.len() as u64, self.e_tag, self.modified)
    }
}

/// The description of an object, stamped with simulated time: with the real date garbage collection would never find anything
/// old (facts/simulation.md section 2).
pub(crate) fn describe(location: &Path, size: u64, e_tag: u64, modified: Duration) -> ObjectMeta {
    let since_1970 = Duration::from_millis(EPOCH_MS) + modified;
    ObjectMeta {
        location: location.clone(),
        last_modified: (UNIX_EPOCH + since_1970).into(),
        size,
        e_tag: Some(format!("\"{e_tag}\"")),
        version: None,
    }
}

/// All objects of a bucket.
#[derive(Debug, Default)]
pub(super) struct Objects {
    objects: BTreeMap<Path, Object>,
    next_e_tag: u64,
}

impl Objects {
    pub(super) fn find(&self, location: &Path) -> Result<&Object> {
        self.objects
            .get(location)
            .ok_or_else(|| missing(location, "no such object"))
    }

    pub(super) fn put(
        &mut self,
        location: &Path,
        bytes: Bytes,
        mode: PutMode,
        attributes: Attributes,
        now: Duration,
    ) -> Result<PutResult> {
        let old = self.objects.get(location);
        match mode {
            PutMode::Overwrite => {}
            PutMode::Create if old.is_some() => return Err(exists(location)),
            PutMode::Create => {}
            PutMode::Update(expected) => {
                let found = old.and_then(|old| old.meta(location).e_tag);
                if found.is_none() || found != expected.e_tag {
                    return Err(Error::Precondition {
                        path: location.to_string(),
                        source: format!("{found:?} is not {:?}", expected.e_tag).into(),
                    });
                }
            }
        }
        self.next_e_tag += 1;
        let object = Object {
            bytes,
            attributes,
            e_tag: self.next_e_tag,
            modified: now,
        };
        let e_tag = object.meta(location).e_tag;
        self.objects.insert(location.clone(), object);
        Ok(PutResult {
            e_tag,
            version: None,
            extensions: Default::default(),
        })
    }

    /// Deleting what is not there succeeds, as on S3.
    pub(super) fn delete(&mut self, location: &Path) {
        self.objects.remove(location);
    }

    pub(super) fn copy(
        &mut self,
        from: &Path,
        to: &Path,
        create: bool,
        now: Duration,
    ) -> Result<()> {
        let object = self.find(from)?.clone();
        let mode = if create {
            PutMode::Create
        } else {
            PutMode::Overwrite
        };
        self.put(to, object.bytes, mode, object.attributes, now)?;
        Ok(())
    }

    /// What lies below a prefix, in key order.
    pub(super) fn list(&self, prefix: &Path) -> Vec<ObjectMeta> {
        let objects = self.objects.iter();
        objects
            .filter(|(path, _)| lies_below(path, prefix))
            .map(|(path, object)| object.meta(path))
            .collect()
    }
}

/// Whether a path lies below a prefix; prefixes count in whole parts, and nothing lies below itself.
pub(crate) fn lies_below(path: &Path, prefix: &Path) -> bool {
    path.prefix_match(prefix)
        .is_some_and(|mut rest| rest.next().is_some())
}

pub(crate) fn missing(location: &Path, why: &str) -> Error {
    Error::NotFound {
        path: location.to_string(),
        source: why.to_owned().into(),
    }
}

pub(crate) fn exists(location: &Path) -> Error {
    Error::AlreadyExists {
        path: location.to_string(),
        source: "object exists".into(),
    }
}

fn wrong_range(source: impl std::fmt::Display) -> Error {
    Error::Generic {
        store: "sim",
        source: source.to_string().into(),
    }
}

/// A range as far as the object goes; one that begins behind its end is an error.
pub(crate) fn clamp(range: Range<u64>, len: u64) -> Result<Range<u64>> {
    GetRange::Bounded(range).as_range(len).map_err(wrong_range)
}

/// A range of an object's bytes, cut at its end.
pub(super) fn slice(bytes: &Bytes, range: Range<u64>) -> Result<Bytes> {
    let found = clamp(range, bytes.len() as u64)?;
    Ok(bytes.slice(found.start as usize..found.end as usize))
}

/// The answer to a get, its bytes taken by `read`.
pub(crate) fn answer_get(
    meta: ObjectMeta,
    read: impl FnOnce(Range<u64>) -> Result<Bytes>,
    attributes: Attributes,
    options: &GetOptions,
) -> Result<GetResult> {
    options.check_preconditions(&meta)?;
    let range = match &options.range {
        Some(range) => range.as_range(meta.size).map_err(wrong_range)?,
        None => 0..meta.size,
    };
    let part = if options.head {
        Bytes::new()
    } else {
        read(range.clone())?
    };
    let payload = futures::stream::once(futures::future::ready(Ok(part))).boxed();
    Ok(GetResult {
        payload: GetResultPayload::Stream(payload),
        meta,
        range,
        attributes,
        extensions: Default::default(),
    })
}

/// A listing with everything below the next level folded into common prefixes.
pub(crate) fn one_level(prefix: &Path, found: Vec<ObjectMeta>) -> ListResult {
    let mut common_prefixes = BTreeSet::new();
    let mut objects = Vec::new();
    for meta in found {
        let deeper = meta.location.prefix_match(prefix).and_then(|mut rest| {
            let first = rest.next()?;
            rest.next().map(|_| prefix.clone().join(first))
        });
        match deeper {
            Some(common) => {
                common_prefixes.insert(common);
            }
            None => objects.push(meta),
        }
    }
    ListResult {
        objects,
        common_prefixes: common_prefixes.into_iter().collect(),
        extensions: Default::default(),
    }
}
