//! The log of a database whose objects are shared by machines: objects `<database>/log/<number>`, each put if absent, one at a time
//! (rfcs/2026-11-30-regions-on-hdfs.md, C18). What waits while one is written is the next: group commit without timers.
//!
//! Numbers have no gaps. An opener takes the next number with a fence, so the older writer finds its number taken and its database closes
//! (INV-2). SlateDB sees it through its WAL traits; a number is what it calls a WAL file id. This module must not know of cells or regions.

mod admin;
mod content;
mod replay;
mod writer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_types::{Code, Error, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use slatedb::wal::{WalError, WriterInit, WriterInitResult, WriterManifest};

use crate::error::from_object_store;
use crate::log::{SeenByLog, latest_tick};
use crate::manifest;
use crate::numbered::{name, number};
pub(crate) use admin::ObjectAdmin;
use replay::Replay;
use writer::{Writer, WriterState};

/// Folder of a database's log, beside SlateDB's own.
const FOLDER: &str = "log";

/// Objects of the log that one look removes at most, so that it ends soon (INV-9).
const REMOVED_MAX: usize = 2000;

/// Pauses between tries of an object store that fails.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long the object store may fail before the database closes. Below it are the object store's own tries.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What the parts share.
pub(crate) struct Shared<E: Env> {
    env: E,
    objects: Arc<dyn ObjectStore>,
    path: Arc<str>,
    /// Encoded writes that wait at most, bytes.
    queue_bytes_max: usize,
    /// Age below which objects stay, seen by this process: longer than any stalled process may live.
    min_age: Duration,
    /// Objects that are there, and since when this process knows it (mono).
    known: Mutex<BTreeMap<u64, Duration>>,
    state: Mutex<Option<Arc<WriterState>>>,
}

/// The log of one open database.
pub(crate) struct ObjectLog<E: Env>(Arc<Shared<E>>);

impl<E: Env> Clone for ObjectLog<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What SlateDB is given to open a database with.
pub(crate) struct ObjectWal<E: Env> {
    log: ObjectLog<E>,
    seen: SeenByLog,
}

fn unavailable(error: Error) -> WalError {
    if error.code() == Code::Corrupt {
        return WalError::DataError(Arc::new(error));
    }
    WalError::Unavailable(Arc::new(error))
}

/// How a put ended.
#[derive(Debug, PartialEq, Eq)]
enum Put {
    Done,
    /// Somebody else has the number.
    Taken,
}

impl<E: Env> ObjectLog<E> {
    pub(crate) fn new(
        env: E,
        objects: Arc<dyn ObjectStore>,
        path: &str,
        queue_bytes_max: usize,
        min_age: Duration,
    ) -> Self {
        Self(Arc::new(Shared {
            env,
            objects,
            path: path.into(),
            queue_bytes_max,
            min_age,
            known: Mutex::default(),
            state: Mutex::default(),
        }))
    }

    /// What SlateDB is given.
    pub(crate) fn wal(&self, seen: SeenByLog) -> ObjectWal<E> {
        ObjectWal {
            log: self.clone(),
            seen,
        }
    }

    /// Waits until a write of so many bytes may wait with the others.
    ///
    /// # Errors
    /// `RegionTooBusy` when the object store cannot follow.
    pub(crate) async fn admit(&self, bytes: usize) -> Result<()> {
        let state = self.0.writer();
        let Some(state) = state else {
            return Ok(());
        };
        state.admit(&self.0, bytes).await
    }

    /// As [`Self::truncate`], up to the number that the written manifest says, which is read if there is something to remove: what SlateDB
    /// tells of its files is ahead of that while it writes one (C15).
    pub(crate) async fn truncate_written(&self, told: u64) -> Result<usize> {
        let shared = &self.0;
        if shared.old(told).is_empty() {
            return Ok(0);
        }
        let written = manifest::newest(&shared.env, &shared.objects, &shared.path).await?;
        match written {
            Some(written) => self.truncate(told.min(written.replay_after_wal_id())).await,
            None => Ok(0),
        }
    }

    /// Removes objects up to a number whose rows are all in the database's own files. Not before they are old: a stalled writer of before
    /// our fence must find its number taken. How many.
    async fn truncate(&self, replay_after: u64) -> Result<usize> {
        let shared = &self.0;
        let gone = shared.old(replay_after);
        let paths: Vec<_> = gone
            .iter()
            .map(|number| Ok(shared.object(*number)))
            .collect();
        let mut removing = shared
            .objects
            .delete_stream(futures::stream::iter(paths).boxed());
        while let Some(removed) = removing.next().await {
            match removed {
                // Somebody else's removal, or one that was interrupted.
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(from_object_store(&error)),
            }
        }
        let mut known = shared.known();
        for number in &gone {
            known.remove(number);
        }
        Ok(gone.len())
    }
}

impl<E: Env> Shared<E> {
    /// Objects up to a number that are old enough to go, the first of them.
    fn old(&self, last: u64) -> Vec<u64> {
        let oldest = self.env.clock().mono().saturating_sub(self.min_age);
        let known = self.known();
        let old = known.range(..=last).filter(|(_, since)| **since <= oldest);
        old.map(|(number, _)| *number).take(REMOVED_MAX).collect()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Duration>> {
        self.known.lock().expect("not poisoned")
    }

    fn writer(&self) -> Option<Arc<WriterState>> {
        self.state.lock().expect("not poisoned").clone()
    }

    fn folder(&self) -> Path {
        Path::from(&*self.path).join(FOLDER)
    }

    fn object(&self, number: u64) -> Path {
        self.folder().join(name(number))
    }

    /// The numbers that are there.
    async fn numbers(&self) -> Result<Vec<u64>> {
        let folder = self.folder();
        let objects: Vec<_> = self
            .objects
            .list(Some(&folder))
            .try_collect()
            .await
            .map_err(|error| from_object_store(&error))?;
        let mut numbers = Vec::with_capacity(objects.len());
        for object in objects {
            let name = object.location.filename().unwrap_or_default();
            numbers.push(number(name).ok_or_else(|| {
                Error::corrupt(format!("'{}' is no part of a log", object.location))
            })?);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    async fn get(&self, number: u64) -> Result<Option<Bytes>> {
        let path = self.object(number);
        let found = match self.objects.get(&path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(|error| from_object_store(&error))?,
        };
        if found.meta.size > content::OBJECT_MAX {
            return Err(Error::corrupt(format!(
                "'{path}' has {} bytes",
                found.meta.size
            )));
        }
        let bytes = found.bytes().await;
        bytes.map(Some).map_err(|error| from_object_store(&error))
    }

    /// Puts an object unless its number is taken; again as long as it is not known whether it is there. What is there is compared: an
    /// object holds its writer's epoch, so the same bytes are ours.
    async fn put(&self, number: u64, bytes: &Bytes) -> Result<Put> {
        let path = self.object(number);
        let clock = self.env.clock();
        let until = clock.mono() + PATIENCE;
        let mut pause = PAUSE_MIN;
        loop {
            let options = PutMode::Create.into();
            let outcome = self.objects.put_opts(&path, bytes.clone().into(), options);
            let error = match outcome.await {
                Ok(_) => break,
                Err(object_store::Error::AlreadyExists { .. }) => match self.get(number).await {
                    Ok(there) if there.as_ref() == Some(bytes) => break,
                    // Removed again: long after it was taken.
                    Ok(_) => return Ok(Put::Taken),
                    Err(error) => error,
                },
                Err(error) => from_object_store(&error),
            };
            if clock.mono() >= until {
                return Err(error);
            }
            tracing::warn!(%path, %error, "the log cannot be written; trying again");
            clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.known().insert(number, clock.mono());
        Ok(Put::Done)
    }

    /// The epoch of the last opening, wherever it was.
    async fn last_epoch(&self) -> Result<u64> {
        let newest = manifest::newest(&self.env, &self.objects, &self.path).await?;
        Ok(newest.map_or(0, |manifest| manifest.writer_epoch()))
    }
}

#[async_trait]
impl<E: Env> WriterInit for ObjectWal<E> {
    async fn fence_and_init(
        &self,
        manifest: &mut WriterManifest,
    ) -> Result<WriterInitResult, WalError> {
        let shared = &self.log.0;
        (self.seen)(latest_tick(&manifest.manifest()), 0);
        let there = shared.numbers().await.map_err(unavailable)?;
        let mut next = there
            .last()
            .copied()
            .unwrap_or(0)
            .max(manifest.replay_after_wal_id())
            + 1;
        let epoch = manifest.epoch();
        loop {
            let fence = content::fence(&shared.path, epoch, next);
            let put = shared.put(next, &fence).await.map_err(unavailable)?;
            if put == Put::Done {
                break;
            }
            // The older writer was faster; a newer one would have taken the manifest, too.
            manifest.refresh().await?;
            next += 1;
        }
        let replay_after = manifest.replay_after_wal_id();
        {
            let now = shared.env.clock().mono();
            let mut known = shared.known();
            for number in there.into_iter().chain(replay_after + 1..=next) {
                known.entry(number).or_insert(now);
            }
        }
        let state = WriterState::new(epoch, next);
        *shared.state.lock().expect("not poisoned") = Some(Arc::clone(&state));
        let replay = Replay::new(
            self.log.clone(),
            replay_after + 1..next,
            Arc::clone(&self.seen),
        );
        Ok(WriterInitResult {
            replay_iterator: Box::new(replay),
            wal_writer: Box::new(Writer::start(self.log.clone(), state)),
        })
    }
}

#[cfg(test)]
mod tests;
