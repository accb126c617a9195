//! A simulated object-store bucket, shared by all nodes of a world.
//!
//! 1. An operation has three parts: request leg, effect, answer leg. It may fail before or after its effect.
//! 2. A node that ends in the answer leg has done it and never knows. In the request leg a coin drawn when the operation began says
//!    whether a change is lost or **lands later**, when another server may own the region: what fencing is for.
//! 3. E-tags come from one counter, lists are in key order, put-if-absent and compare-and-set are atomic, a multipart upload
//!    appears only when completed, attributes are kept (SlateDB finds its own writes by them after a lost answer).
//!
//! It must not know what objects are for.

mod objects;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::channel::oneshot;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use rand::Rng as _;

use cadastre_env::Rng;

use crate::env::SimEnv;
use crate::hub::{Hub, Start, between};
use crate::trace::digest;
use objects::Objects;
use objects::slice;
pub(crate) use objects::{answer_get, clamp, describe, exists, lies_below, missing, one_level};

/// Properties of a bucket.
#[derive(Debug, Clone)]
pub struct BucketConfig {
    /// One leg.
    pub leg: RangeInclusive<Duration>,
    /// How likely the request leg of a change takes much longer: while one object is being written, others of the same node are.
    pub slow_probability: f64,
    /// How much longer.
    pub slow: RangeInclusive<Duration>,
    /// How likely an operation fails, before or after its effect.
    pub failure_probability: f64,
    /// How likely a change that a dying node has sent lands later.
    pub late_probability: f64,
    /// How much later.
    pub late: RangeInclusive<Duration>,
}

impl Default for BucketConfig {
    fn default() -> Self {
        Self {
            leg: Duration::from_micros(200)..=Duration::from_millis(2),
            slow_probability: 0.0,
            slow: Duration::from_millis(20)..=Duration::from_millis(500),
            failure_probability: 0.0,
            late_probability: 0.5,
            late: Duration::from_millis(1)..=Duration::from_millis(200),
        }
    }
}

/// A bucket. It outlives all nodes.
#[derive(Clone)]
pub struct Bucket {
    inner: Arc<Inner>,
}

struct Inner {
    config: BucketConfig,
    data: Mutex<Data>,
}

struct Data {
    rng: Rng,
    objects: Objects,
}

impl Bucket {
    /// An empty bucket of a world. The name separates its random numbers from those of other buckets.
    pub fn new(world: &crate::World, name: &str, config: BucketConfig) -> Self {
        let data = Data {
            rng: world.hub().stream(&format!("bucket {name}"), 0),
            objects: Objects::default(),
        };
        Self {
            inner: Arc::new(Inner {
                config,
                data: Mutex::new(data),
            }),
        }
    }

    /// The bucket as one start of a node sees it.
    pub fn store(&self, env: &SimEnv) -> SimStore {
        SimStore {
            bucket: self.clone(),
            hub: Arc::clone(env.hub()),
            start: env.start(),
        }
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        // The simulator is one thread; a poisoned lock means that it panicked itself.
        self.inner
            .data
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bucket")
    }
}

/// A bucket as one start of a node sees it. After the node has ended every operation waits for ever.
#[derive(Debug, Clone)]
pub struct SimStore {
    bucket: Bucket,
    hub: Arc<Hub>,
    start: Start,
}

/// What was drawn when an operation began.
struct Fate {
    request: Duration,
    answer: Duration,
    fails_before: bool,
    fails_after: bool,
    lands: bool,
    late: Duration,
}

impl Bucket {
    fn fate(&self, changes: bool) -> Fate {
        let config = &self.inner.config;
        let mut data = self.data();
        let rng = &mut data.rng;
        let slow = changes && rng.random_bool(config.slow_probability);
        let more = match slow {
            true => between(rng, &config.slow),
            false => Duration::ZERO,
        };
        let fails = rng.random_bool(config.failure_probability);
        let before = rng.random_bool(0.5);
        Fate {
            request: between(rng, &config.leg) + more,
            answer: between(rng, &config.leg),
            fails_before: fails && before,
            fails_after: fails && !before,
            lands: rng.random_bool(config.late_probability),
            late: between(rng, &config.late),
        }
    }
}

fn failure() -> Error {
    Error::Generic {
        store: "SimStore",
        source: "simulated failure".into(),
    }
}

impl SimStore {
    /// An operation of three parts. `changes` says whether it may still land when the node has ended.
    async fn operate<T: Send + 'static>(
        &self,
        what: String,
        changes: bool,
        effect: impl FnOnce(&mut Objects, Duration) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if !self.hub.is_alive(self.start) {
            return std::future::pending().await;
        }
        let fate = self.bucket.fate(changes);
        let (tell, told) = oneshot::channel();
        let operation = Operation {
            bucket: self.bucket.clone(),
            start: self.start,
            what,
            changes,
            effect,
            tell,
        };
        self.hub
            .after(fate.request, move |hub| operation.arrives(hub, fate));
        match told.await {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => std::future::pending().await,
        }
    }
}

struct Operation<T, F> {
    bucket: Bucket,
    start: Start,
    what: String,
    changes: bool,
    effect: F,
    tell: oneshot::Sender<Result<T>>,
}

impl<T: Send + 'static, F: FnOnce(&mut Objects, Duration) -> Result<T> + Send + 'static>
    Operation<T, F>
{
    fn arrives(self, hub: &Arc<Hub>, fate: Fate) -> Option<Start> {
        if !hub.is_alive(self.start) {
            if self.changes && fate.lands {
                hub.after(fate.late, move |hub| {
                    hub.record_as("bucket", format_args!("late {}", self.what));
                    // The node is dead: nobody to tell.
                    let _ = (self.effect)(&mut self.bucket.data().objects, hub.now());
                    None
                });
            }
            return None;
        }
        let done = if fate.fails_before {
            Err(failure())
        } else {
            (self.effect)(&mut self.bucket.data().objects, hub.now())
        };
        let outcome = match &done {
            Ok(_) if fate.fails_after => "done, answer lost",
            Ok(_) => "done",
            Err(Error::NotFound { .. }) => "not found",
            Err(Error::AlreadyExists { .. }) => "exists",
            Err(Error::Precondition { .. }) => "precondition",
            Err(_) => "failed",
        };
        hub.record(self.start, format_args!("bucket {}: {outcome}", self.what));
        let answer = if fate.fails_after {
            Err(failure())
        } else {
            done
        };
        let (start, tell) = (self.start, self.tell);
        hub.after(fate.answer, move |_| {
            // Refused only if the caller has gone.
            let _ = tell.send(answer);
            Some(start)
        });
        None
    }
}

impl fmt::Display for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}

pub(crate) fn joined(payload: PutPayload) -> Bytes {
    payload.into()
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let bytes = joined(payload);
        let what = format!(
            "put {location} {} bytes {:016x} {:?}",
            bytes.len(),
            digest(&bytes),
            opts.mode
        );
        let location = location.clone();
        self.operate(what, true, move |objects, now| {
            objects.put(&location, bytes, opts.mode, opts.attributes, now)
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let what = format!("begin upload {location}");
        self.operate(what, false, |_, _| Ok(())).await?;
        Ok(Box::new(Upload {
            store: self.clone(),
            location: location.clone(),
            options: opts,
            next: 0,
            parts: Arc::default(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let what = format!("get {location} {:?}", options.range);
        let location = location.clone();
        self.operate(what, false, move |objects, _| {
            let object = objects.find(&location)?;
            let (meta, attributes) = (object.meta(&location), object.attributes.clone());
            answer_get(
                meta,
                |range| slice(&object.bytes, range),
                attributes,
                &options,
            )
        })
        .await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let what = format!("get {location} {ranges:?}");
        let (location, ranges) = (location.clone(), ranges.to_vec());
        self.operate(what, false, move |objects, _| {
            let object = objects.find(&location)?;
            ranges
                .into_iter()
                .map(|range| slice(&object.bytes, range))
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
                    let what = format!("delete {location}");
                    let gone = location.clone();
                    store
                        .operate(what, true, move |objects, _| {
                            objects.delete(&gone);
                            Ok(())
                        })
                        .await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = self.clone();
        let prefix = prefix.cloned().unwrap_or_default();
        let listed = async move {
            let what = format!("list {prefix}");
            store
                .operate(what, false, move |objects, _| Ok(objects.list(&prefix)))
                .await
        };
        futures::stream::once(listed)
            .flat_map(|listed| match listed {
                Ok(found) => futures::stream::iter(found).map(Ok).boxed(),
                Err(error) => futures::stream::iter([Err(error)]).boxed(),
            })
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned().unwrap_or_default();
        let what = format!("list level {prefix}");
        self.operate(what, false, move |objects, _| {
            Ok(one_level(&prefix, objects.list(&prefix)))
        })
        .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let what = format!("copy {from} to {to}");
        let (from, to) = (from.clone(), to.clone());
        self.operate(what, true, move |objects, now| {
            objects.copy(&from, &to, matches!(options.mode, CopyMode::Create), now)
        })
        .await
    }
}

/// A multipart upload; nothing of it is seen before it is completed.
struct Upload {
    store: SimStore,
    location: Path,
    options: PutMultipartOptions,
    next: usize,
    parts: Arc<Mutex<BTreeMap<usize, Bytes>>>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({})", self.location)
    }
}

fn parts_of(parts: &Mutex<BTreeMap<usize, Bytes>>) -> MutexGuard<'_, BTreeMap<usize, Bytes>> {
    parts
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let number = self.next;
        self.next += 1;
        let bytes = joined(data);
        let parts = Arc::clone(&self.parts);
        let store = self.store.clone();
        let what = format!(
            "put part {number} of {} {} bytes {:016x}",
            self.location,
            bytes.len(),
            digest(&bytes)
        );
        Box::pin(async move {
            store
                .operate(what, false, move |_, _| {
                    parts_of(&parts).insert(number, bytes);
                    Ok(())
                })
                .await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let what = format!("complete upload {}", self.location);
        let location = self.location.clone();
        let attributes = self.options.attributes.clone();
        let parts = Arc::clone(&self.parts);
        let expected = self.next;
        self.store
            .operate(what, true, move |objects, now| {
                let parts = parts_of(&parts);
                if parts.len() != expected {
                    return Err(failure());
                }
                let bytes: Vec<u8> = parts.values().flatten().copied().collect();
                let mode = object_store::PutMode::Overwrite;
                objects.put(&location, bytes.into(), mode, attributes, now)
            })
            .await
    }

    async fn abort(&mut self) -> Result<()> {
        let parts = Arc::clone(&self.parts);
        let what = format!("abort upload {}", self.location);
        self.store
            .operate(what, false, move |_, _| {
                parts_of(&parts).clear();
                Ok(())
            })
            .await
    }
}

#[cfg(test)]
mod tests;
