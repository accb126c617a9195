//! The object store of one machine: a bucket in front of the simulated disk, so that a power cut hits SSTs and manifests too.
//!
//! A put is write, sync, rename (or link, for put-if-absent), sync of the directory, as `object_store`'s `LocalFileSystem` does with
//! `fsync`; like it this store refuses compare-and-set and attributes. An operation goes on when its caller stops waiting, as
//! work on tokio's blocking pool does. It must not know what objects are for.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    UploadPart,
};

use cadastre_env::{Disk, Env, LogFile};

use crate::bucket::{answer_get, clamp, describe, exists, lies_below, missing, one_level};
use crate::env::SimEnv;
use crate::trace::digest;

/// Marks names of files that are not objects yet; `LocalFileSystem` uses the same sign.
const STAGING_MARK: char = '#';

/// A bucket below a directory of a node's disk.
#[derive(Clone)]
pub struct DiskStore {
    inner: Arc<Inner>,
}

struct Inner {
    env: SimEnv,
    root: String,
    staged: AtomicU64,
}

impl DiskStore {
    /// A bucket in a directory of the disk of one start of a node; the empty name is the whole disk.
    pub fn new(env: SimEnv, root: &str) -> Self {
        Self {
            inner: Arc::new(Inner {
                env,
                root: root.trim_matches('/').to_owned(),
                staged: AtomicU64::new(0),
            }),
        }
    }

    fn path(&self, location: &Path) -> String {
        if self.inner.root.is_empty() {
            return location.to_string();
        }
        format!("{}/{location}", self.inner.root)
    }

    fn dir(path: &str) -> &str {
        path.rsplit_once('/').map_or("", |(dir, _)| dir)
    }

    /// Runs disk work to its end, whether or not the caller goes on waiting.
    async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self.inner.env.background("disk", work).await {
            Some(done) => done,
            None => std::future::pending().await,
        }
    }

    async fn write(self, location: Path, bytes: Bytes, create: bool) -> Result<PutResult> {
        let disk = self.inner.env.disk();
        let path = self.path(&location);
        let number = self.inner.staged.fetch_add(1, Ordering::Relaxed);
        // A number that an earlier start has used may lie about as litter; the start's own time makes it another.
        let begun = self.inner.env.hub().now_us();
        let staging = format!("{path}{STAGING_MARK}{begun}{number:04}");
        let published = async {
            let file = disk.create(&staging, 0).await?;
            file.write_at(0, &bytes)?;
            file.sync_data().await?;
            disk.now(|drive| drive.rename(&staging, &path, create))?;
            disk.sync_dir(Self::dir(&path)).await
        };
        if let Err(error) = published.await {
            // Litter if this fails too; lists pass over it.
            let _ = disk.remove(&staging);
            return Err(if error.kind() == io::ErrorKind::AlreadyExists {
                exists(&location)
            } else {
                failed(error)
            });
        }
        let inode = disk.now(|drive| drive.find(&path)).map_err(failed)?;
        Ok(PutResult {
            e_tag: describe(&location, 0, inode, Duration::ZERO).e_tag,
            version: None,
            extensions: Default::default(),
        })
    }

    /// The description of an object and the bytes that `pick` chooses by it.
    async fn read<T: Send + 'static>(
        &self,
        location: &Path,
        pick: impl FnOnce(&ObjectMeta, &dyn Fn(Range<u64>) -> io::Result<Bytes>) -> Result<T>
        + Send
        + 'static,
    ) -> Result<T> {
        let disk = self.inner.env.disk();
        let (path, at) = (self.path(location), location.clone());
        let read = disk.later(
            |drive| Ok((drive.open_delay(), path)),
            move |drive, path| {
                let inode = drive.find(&path)?;
                let meta = describe(&at, drive.len(inode)?, inode, drive.modified(inode));
                let bytes = |range: Range<u64>| {
                    drive.read(inode, range.start, (range.end - range.start) as usize)
                };
                Ok(pick(&meta, &bytes))
            },
        );
        match read.await {
            Ok(picked) => picked,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(missing(location, "no such file"))
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn read_whole(&self, location: &Path) -> Result<Bytes> {
        self.read(location, |meta, bytes| bytes(0..meta.size).map_err(failed))
            .await
    }

    async fn found(&self, prefix: &Path) -> Result<Vec<ObjectMeta>> {
        let disk = self.inner.env.disk();
        let root = self.inner.root.clone();
        let walked = disk.later(
            |drive| Ok((drive.open_delay(), root)),
            |drive, root| drive.walk(&root),
        );
        let mut found = Vec::new();
        for (path, len, inode, modified) in walked.await.map_err(failed)? {
            let below = path.strip_prefix(&self.inner.root).unwrap_or(&path);
            if below.contains(STAGING_MARK) {
                continue;
            }
            let location = Path::parse(below.trim_start_matches('/'))
                .map_err(|source| Error::InvalidPath { source })?;
            if lies_below(&location, prefix) {
                found.push(describe(&location, len, inode, modified));
            }
        }
        Ok(found)
    }
}

fn failed(error: io::Error) -> Error {
    Error::Generic {
        store: "DiskStore",
        source: Box::new(error),
    }
}

fn refused(what: &str) -> Error {
    Error::NotImplemented {
        operation: what.to_owned(),
        implementer: "DiskStore".to_owned(),
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskStore({})", self.inner.root)
    }
}

impl fmt::Display for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskStore({})", self.inner.root)
    }
}

#[async_trait]
impl ObjectStore for DiskStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        if !opts.attributes.is_empty() {
            return Err(refused("attributes"));
        }
        let create = match opts.mode {
            PutMode::Overwrite => false,
            PutMode::Create => true,
            PutMode::Update(_) => return Err(refused("compare-and-set")),
        };
        let bytes: Bytes = payload.into();
        self.inner.env.note(format_args!(
            "store puts {location} {} bytes {:016x}",
            bytes.len(),
            digest(&bytes)
        ));
        let work = self.clone().write(location.clone(), bytes, create);
        self.detached(work).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !opts.attributes.is_empty() {
            return Err(refused("attributes"));
        }
        Ok(Box::new(Upload {
            store: self.clone(),
            location: location.clone(),
            parts: Vec::new(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.read(location, move |meta, bytes| {
            answer_get(
                meta.clone(),
                |range| bytes(range).map_err(failed),
                Default::default(),
                &options,
            )
        })
        .await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let ranges = ranges.to_vec();
        self.read(location, move |meta, bytes| {
            ranges
                .into_iter()
                .map(|range| bytes(clamp(range, meta.size)?).map_err(failed))
                .collect()
        })
        .await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        locations
            .then(move |location| {
                let store = store.clone();
                async move {
                    let location = location?;
                    store
                        .inner
                        .env
                        .note(format_args!("store deletes {location}"));
                    let removed = store.inner.env.disk().remove(&store.path(&location));
                    match removed {
                        Ok(()) => Ok(location),
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {
                            Err(missing(&location, "no such file"))
                        }
                        Err(error) => Err(failed(error)),
                    }
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = self.clone();
        let prefix = prefix.cloned().unwrap_or_default();
        futures::stream::once(async move { store.found(&prefix).await })
            .flat_map(|found| match found {
                Ok(found) => futures::stream::iter(found).map(Ok).boxed(),
                Err(error) => futures::stream::iter([Err(error)]).boxed(),
            })
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned().unwrap_or_default();
        Ok(one_level(&prefix, self.found(&prefix).await?))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let create = matches!(options.mode, CopyMode::Create);
        let bytes = self.read_whole(from).await?;
        let work = self.clone().write(to.clone(), bytes, create);
        self.detached(work).await.map(|_| ())
    }
}

/// A multipart upload: gathered in memory, written at its completion.
#[derive(Debug)]
struct Upload {
    store: DiskStore,
    location: Path,
    parts: Vec<Bytes>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.parts.push(data.into());
        Box::pin(futures::future::ready(Ok(())))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let bytes: Vec<u8> = self.parts.iter().flatten().copied().collect();
        self.store.inner.env.note(format_args!(
            "store completes {} {} bytes {:016x}",
            self.location,
            bytes.len(),
            digest(&bytes)
        ));
        let work = self
            .store
            .clone()
            .write(self.location.clone(), bytes.into(), false);
        self.store.detached(work).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.parts.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
