//! An object store whose calls can fail, before or after they had their effect, or take time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cadastre_env::{Clock, RealClock};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::watch;

use crate::fault::Calls;

/// When a call that fails does so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Nothing has happened.
    Before,
    /// It has happened, and the answer is lost.
    After,
}

/// A bucket in memory; clones are the same bucket.
#[derive(Debug, Clone)]
pub(crate) struct FaultStore {
    inner: Arc<InMemory>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) when: When,
    pub(crate) delay_us: Arc<AtomicU64>,
    /// Puts of paths that have this in them wait until it is `None`.
    pub(crate) held: Arc<watch::Sender<Option<String>>>,
}

impl FaultStore {
    pub(crate) fn new(when: When) -> Self {
        Self {
            inner: Arc::new(InMemory::new()),
            calls: Arc::default(),
            when,
            delay_us: Arc::default(),
            held: Arc::new(watch::Sender::new(None)),
        }
    }

    /// The bucket as it is now, which no call on its way reaches any more.
    pub(crate) fn fork(&self) -> Self {
        Self {
            inner: Arc::new(self.inner.fork()),
            ..Self::new(self.when)
        }
    }

    /// Runs a call, or lets it fail.
    async fn call<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let delay = self.delay_us.load(Ordering::SeqCst);
        if delay > 0 {
            RealClock.sleep(Duration::from_micros(delay)).await;
        }
        let fails = self.calls.fails();
        if fails && self.when == When::Before {
            return Err(planted());
        }
        let answer = work.await;
        if fails { Err(planted()) } else { answer }
    }
}

fn planted() -> Error {
    Error::Generic {
        store: "FaultStore",
        source: "a planted failure".into(),
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultStore")
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let passes = |held: &Option<String>| {
            held.as_ref()
                .is_none_or(|text| !location.as_ref().contains(text))
        };
        let _ = self.held.subscribe().wait_for(passes).await;
        self.call(self.inner.put_opts(location, payload, opts))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.call(self.inner.put_multipart_opts(location, opts))
            .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.call(self.inner.get_opts(location, options)).await
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
                    let one = futures::stream::iter([Ok(location.clone())]).boxed();
                    let mut deleting = store.inner.delete_stream(one);
                    store
                        .call(async move { deleting.next().await.unwrap_or(Ok(location)) })
                        .await
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.calls.fails() {
            return futures::stream::iter([Err(planted())]).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.call(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.call(self.inner.copy_opts(from, to, options)).await
    }
}
