//! An object store whose calls can fail, before or after they had their effect, or take time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cadastre_env::{Clock, RealClock};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use tokio::sync::watch;

use crate::fault::{Calls, Failure};

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
    /// Bytes that gets have answered.
    pub(crate) read_bytes: Arc<AtomicU64>,
    /// Puts of paths that have this in them wait until it is `None`.
    pub(crate) held: Arc<watch::Sender<Option<String>>>,
    /// So many of them are let through first.
    pub(crate) let_through: Arc<AtomicU64>,
    /// Puts that wait now.
    pub(crate) waiting: Arc<AtomicU64>,
}

impl FaultStore {
    pub(crate) fn new(when: When) -> Self {
        Self {
            inner: Arc::new(InMemory::new()),
            calls: Arc::default(),
            when,
            delay_us: Arc::default(),
            read_bytes: Arc::default(),
            held: Arc::new(watch::Sender::new(None)),
            let_through: Arc::default(),
            waiting: Arc::default(),
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
        let failure = self.calls.failure();
        self.run(failure, work).await
    }

    /// The same for one that needs space.
    async fn call_with_space<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let failure = self.calls.failure_with_space();
        self.run(failure, work).await
    }

    async fn run<T>(
        &self,
        failure: Option<Failure>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let delay = self.delay_us.load(Ordering::SeqCst);
        if delay > 0 {
            RealClock.sleep(Duration::from_micros(delay)).await;
        }
        let Some(failure) = failure else {
            return work.await;
        };
        // What finds no space has no effect.
        if self.when == When::After && failure == Failure::Broken {
            work.await?;
        }
        Err(planted(failure))
    }

    /// Waits while puts of the path are held.
    async fn pass(&self, location: &Path) {
        let matches = |held: &Option<String>| {
            held.as_ref()
                .is_some_and(|text| location.as_ref().contains(text))
        };
        let mut held = self.held.subscribe();
        let one_less = |left: u64| left.checked_sub(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        if !matches(&held.borrow()) || self.let_through.fetch_update(set, get, one_less).is_ok() {
            return;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let passes = |held: &Option<String>| !matches(held);
        let _ = held.wait_for(passes).await;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

fn planted(failure: Failure) -> Error {
    Error::Generic {
        store: "FaultStore",
        source: failure.error("the bucket").into(),
    }
}

/// An upload in parts, each part of which is a call.
#[derive(Debug)]
struct FaultUpload {
    store: FaultStore,
    inner: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (store, part) = (self.store.clone(), self.inner.put_part(data));
        async move { store.call_with_space(part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let store = self.store.clone();
        store.call_with_space(self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let store = self.store.clone();
        store.call(self.inner.abort()).await
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
        self.pass(location).await;
        self.call_with_space(self.inner.put_opts(location, payload, opts))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.pass(location).await;
        let begun = self.call_with_space(self.inner.put_multipart_opts(location, opts));
        Ok(Box::new(FaultUpload {
            inner: begun.await?,
            store: self.clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.call(self.inner.get_opts(location, options)).await?;
        let bytes = found.range.end - found.range.start;
        self.read_bytes.fetch_add(bytes, Ordering::SeqCst);
        Ok(found)
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
        let Some(failure) = self.calls.failure() else {
            return self.inner.list(prefix);
        };
        let fails = futures::stream::iter([Err(planted(failure))]);
        match self.when {
            When::Before => fails.boxed(),
            // The end of the answer is lost.
            When::After => self.inner.list(prefix).chain(fails).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.call(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.call_with_space(self.inner.copy_opts(from, to, options))
            .await
    }
}
