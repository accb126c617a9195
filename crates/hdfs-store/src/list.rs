//! Listing objects: folder by folder, page by page; the order is that of the names' bytes in each folder, and a folder's objects come where its
//! name does.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Error, Result};
use cadastre_wire::hadoop::pb;
use cadastre_wire::hadoop::pb::hdfs_file_status_proto::FileType;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};

use crate::error::of_object;
use crate::names::is_temporary;
use crate::read::{is_file, meta};
use crate::store::Shared;

/// Folders within folders (INV-9): object names here have less than ten parts.
const DEPTH_MAX: usize = 100;

/// Objects and folders of one level at most: it is for catalogues, and all of it is in memory.
const LEVEL_MAX: usize = 1_000_000;

/// A folder on the way.
struct Folder {
    /// On HDFS.
    path: String,
    /// Below the root; empty for the root itself.
    relative: String,
    /// The last name that was given.
    after: Bytes,
    page: VecDeque<pb::HdfsFileStatusProto>,
    more: bool,
}

impl Folder {
    fn new(path: String, relative: String, after: Bytes) -> Self {
        Self {
            path,
            relative,
            after,
            page: VecDeque::new(),
            more: true,
        }
    }

    /// The next thing in it and its name below the root.
    async fn next<E: Env>(
        &mut self,
        shared: &Shared<E>,
    ) -> Result<Option<(String, pb::HdfsFileStatusProto)>> {
        loop {
            if let Some(status) = self.page.pop_front() {
                let Ok(name) = std::str::from_utf8(&status.path) else {
                    tracing::debug!(
                        folder = self.path,
                        "a name that is no text, not an object's"
                    );
                    continue;
                };
                // A file itself has no name in its own listing: it is not below itself.
                if name.is_empty() {
                    continue;
                }
                let name = if self.relative.is_empty() {
                    name.to_owned()
                } else {
                    format!("{}/{name}", self.relative)
                };
                if !is_temporary(&name) {
                    return Ok(Some((name, status)));
                }
                continue;
            }
            if !self.more {
                return Ok(None);
            }
            let Some((page, more)) = shared.namenode.list(&self.path, &self.after).await? else {
                return Ok(None);
            };
            let last = page.last().map(|status| status.path.clone());
            // No further without a new name, whatever the NameNode says of more.
            self.more = more && last.as_ref().is_some_and(|last| *last > self.after);
            self.after = last.unwrap_or_default();
            self.page = page.into();
        }
    }
}

/// A walk through all below a folder.
struct Walk<E: Env> {
    shared: Arc<Shared<E>>,
    folders: Vec<Folder>,
    offset: Option<Path>,
}

impl<E: Env> Walk<E> {
    fn new(shared: &Arc<Shared<E>>, prefix: Option<&Path>, offset: Option<Path>) -> Result<Self> {
        let path = shared.root.folder(prefix)?;
        let relative = prefix.map_or_else(String::new, ToString::to_string);
        let after = offset
            .as_ref()
            .map_or_else(Bytes::new, |offset| start_after(&relative, offset));
        Ok(Self {
            shared: Arc::clone(shared),
            folders: vec![Folder::new(path, relative, after)],
            offset,
        })
    }

    async fn next(&mut self) -> Result<Option<ObjectMeta>> {
        loop {
            let depth = self.folders.len();
            let Some(folder) = self.folders.last_mut() else {
                return Ok(None);
            };
            let Some((name, status)) = folder.next(&self.shared).await? else {
                self.folders.pop();
                continue;
            };
            if status.file_type == FileType::IsDir as i32 {
                if depth >= DEPTH_MAX {
                    let path = &folder.path;
                    return Err(Error::invalid(format!(
                        "{path}: more than {DEPTH_MAX} folders within each other"
                    )));
                }
                let path = format!("{}/{name}", self.shared.root.path());
                self.folders.push(Folder::new(path, name, Bytes::new()));
                continue;
            }
            if let Some(found) = self.object(name, &status) {
                return Ok(Some(found));
            }
        }
    }

    fn object(&self, name: String, status: &pb::HdfsFileStatusProto) -> Option<ObjectMeta> {
        if !is_file(status) {
            return None;
        }
        let location = location(name)?;
        if self
            .offset
            .as_ref()
            .is_some_and(|offset| location <= *offset)
        {
            return None;
        }
        Some(meta(location, status))
    }
}

/// The name behind which a folder's objects can be behind the offset: only if the offset lies right in it, so that no folder is skipped
/// whose objects are.
fn start_after(folder: &str, offset: &Path) -> Bytes {
    let in_folder = match folder {
        "" => Some(offset.as_ref()),
        _ => offset
            .as_ref()
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/')),
    };
    match in_folder {
        Some(name) if !name.contains('/') => Bytes::copy_from_slice(name.as_bytes()),
        _ => Bytes::new(),
    }
}

/// An object's name, if it can be one's.
fn location(name: String) -> Option<Path> {
    Path::parse(&name)
        .inspect_err(|error| tracing::debug!(name, %error, "a file that is no object"))
        .ok()
}

/// All objects below a prefix, those up to `offset` left out.
pub(crate) fn all<E: Env>(
    shared: &Arc<Shared<E>>,
    prefix: Option<&Path>,
    offset: Option<Path>,
) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
    let place = prefix.map_or_else(String::new, ToString::to_string);
    let walk = match Walk::new(shared, prefix, offset) {
        Ok(walk) => walk,
        Err(error) => return stream::once(async move { Err(of_object(&place, error)) }).boxed(),
    };
    stream::try_unfold(walk, |mut walk| async move {
        Ok(walk.next().await?.map(|found| (found, walk)))
    })
    .map_err(move |error| of_object(&place, error))
    .boxed()
}

/// Objects right below a prefix, and the prefixes that go on.
pub(crate) async fn one_level<E: Env>(
    shared: &Arc<Shared<E>>,
    prefix: Option<&Path>,
) -> object_store::Result<ListResult> {
    let place = prefix.map_or_else(String::new, ToString::to_string);
    level(shared, prefix)
        .await
        .map_err(|error| of_object(&place, error))
}

async fn level<E: Env>(shared: &Arc<Shared<E>>, prefix: Option<&Path>) -> Result<ListResult> {
    let mut walk = Walk::new(shared, prefix, None)?;
    let mut found = ListResult {
        common_prefixes: Vec::new(),
        objects: Vec::new(),
        extensions: Default::default(),
    };
    let mut folder = walk.folders.remove(0);
    while let Some((name, status)) = folder.next(shared).await? {
        if status.file_type == FileType::IsDir as i32 {
            found.common_prefixes.extend(location(name));
        } else if let Some(object) = walk.object(name, &status) {
            found.objects.push(object);
        }
        if found.objects.len() + found.common_prefixes.len() > LEVEL_MAX {
            return Err(Error::invalid(format!(
                "{}: more than {LEVEL_MAX} names",
                folder.path
            )));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_offsets_own_folder_is_entered_in_the_middle() {
        let after = |folder: &str, offset: &str| start_after(folder, &Path::from(offset));
        assert_eq!(after("a/log", "a/log/0007"), "0007");
        assert_eq!(after("", "x"), "x");
        assert_eq!(after("a", "a/log/0007"), "");
        assert_eq!(after("a/lo", "a/log/0007"), "");
        assert_eq!(after("b", "a/x"), "");
    }
}
