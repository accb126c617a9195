//! The object store as SlateDB gets it: a read beyond the end of an object is damage, and said at once.
//!
//! SlateDB repeats what fails in the object store without end, which is right for a full disk or a network, but an object that was
//! cut off would hang every read of it. It must not know what objects hold.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use slatedb_common::retry::NonRetryable;

/// An object store whose cut off objects are told from trouble that may pass.
#[derive(Debug)]
pub(crate) struct Objects(Arc<dyn ObjectStore>);

impl Objects {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self(objects))
    }

    /// What a failed read of a range means: nothing new, or that the object has no such bytes.
    async fn judge(&self, location: &Path, range: &GetRange, error: Error) -> Error {
        let Error::Generic { store, .. } = error else {
            return error;
        };
        let size = match self.0.head(location).await {
            Ok(meta) => meta.size,
            Err(_) => return error,
        };
        let wanted = match range {
            GetRange::Bounded(range) => range.end,
            GetRange::Offset(offset) => *offset,
            // Any object has a suffix.
            GetRange::Suffix(_) => return error,
        };
        if wanted <= size {
            return error;
        }
        let why = format!("{location} is cut off: it has {size} bytes, and {wanted} are wanted");
        Error::Generic {
            store,
            source: Box::new(NonRetryable(why.into())),
        }
    }
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Objects {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.0.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let Some(range) = options.range.clone() else {
            return self.0.get_opts(location, options).await;
        };
        match self.0.get_opts(location, options).await {
            Err(error) => Err(self.judge(location, &range, error).await),
            // A store may give what there is of a range; SlateDB would ask for the rest again and again.
            Ok(got) => match range {
                GetRange::Bounded(range) if range.end > got.meta.size => {
                    let short = Error::Generic {
                        store: "Objects",
                        source: "a short answer".into(),
                    };
                    Err(self.judge(location, &GetRange::Bounded(range), short).await)
                }
                _ => Ok(got),
            },
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.0.get_ranges(location, ranges).await {
            Err(error) => {
                let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
                Err(self
                    .judge(location, &GetRange::Bounded(0..end), error)
                    .await)
            }
            got => got,
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn what_is_cut_off_is_said_and_not_tried_again() {
        let objects = Objects::new(Arc::new(InMemory::new()));
        let path = Path::from("some/object");
        objects.put(&path, "0123456789".into()).await.unwrap();
        assert_eq!(
            &objects.get_range(&path, 2..10).await.unwrap()[..],
            b"23456789"
        );
        for beyond in [8..11, 10..12, 20..30] {
            let error = objects.get_range(&path, beyond).await.unwrap_err();
            assert!(NonRetryable::find(&error).is_some(), "{error}");
            assert!(error.to_string().contains("some/object"), "{error}");
        }
        let missing = objects.get_range(&Path::from("no"), 0..1).await;
        assert!(matches!(missing, Err(Error::NotFound { .. })));
    }
}
