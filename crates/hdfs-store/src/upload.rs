//! Uploads in parts: a task takes the parts in the order in which they were given and writes block by block, so what is in memory is one block
//! and the parts whose callers wait.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use cadastre_env::Env;
use cadastre_types::{Code, Error, Result};
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};
use tokio::sync::{mpsc, oneshot};

use crate::error::of_write;
use crate::file::{BLOCK_BYTES, FileWriter, failed_before};
use crate::place::Mode;
use crate::store::Shared;

type Answer<T> = oneshot::Sender<object_store::Result<T>>;

enum Order {
    Part(PutPayload, Answer<()>),
    Complete(Answer<PutResult>),
    Abort(Answer<()>),
}

/// The caller's side.
struct Upload {
    location: Path,
    // Not bounded: each part's caller holds it and waits for its answer.
    orders: mpsc::UnboundedSender<Order>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({})", self.location)
    }
}

/// Begins an upload: the file is made, its name comes at the end.
pub(crate) async fn begin<E: Env>(
    shared: &Arc<Shared<E>>,
    location: &Path,
) -> object_store::Result<Box<dyn MultipartUpload>> {
    let failed = |error| of_write(location.as_ref(), error);
    let target = shared.root.file(location).map_err(failed)?;
    let writer = FileWriter::create(shared).await.map_err(failed)?;
    let (orders, taken) = mpsc::unbounded_channel();
    let worker = Worker {
        shared: Arc::clone(shared),
        writer,
        location: location.clone(),
        target,
        buffered: BytesMut::new(),
        failed: None,
    };
    shared.env.spawn("hdfs upload", worker.run(taken));
    Ok(Box::new(Upload {
        location: location.clone(),
        orders,
    }))
}

/// The task's side.
struct Worker<E: Env> {
    shared: Arc<Shared<E>>,
    writer: FileWriter<E>,
    location: Path,
    target: String,
    buffered: BytesMut,
    /// After a failure there is a part missing: nothing goes on.
    failed: Option<Error>,
}

impl<E: Env> Worker<E> {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            // Whoever stopped waiting does not hear the answer.
            match order {
                Order::Part(payload, answer) => {
                    let outcome = self.part(payload).await;
                    let _ = answer.send(outcome.map_err(|error| self.error(error)));
                }
                Order::Complete(answer) => {
                    let outcome = self.complete().await;
                    let done = outcome.is_ok();
                    let _ = answer.send(outcome);
                    if done {
                        return;
                    }
                }
                Order::Abort(answer) => {
                    self.writer.remove().await;
                    let _ = answer.send(Ok(()));
                    return;
                }
            }
        }
        // Dropped by its caller.
        self.writer.remove().await;
    }

    fn error(&self, error: Error) -> object_store::Error {
        of_write(self.location.as_ref(), error)
    }

    async fn part(&mut self, payload: PutPayload) -> Result<()> {
        if self.failed.is_some() {
            return Err(failed_before());
        }
        let outcome = self.take(payload).await;
        if let Err(error) = &outcome {
            self.failed = Some(error.clone());
        }
        outcome
    }

    async fn take(&mut self, payload: PutPayload) -> Result<()> {
        for piece in payload {
            let mut piece: Bytes = piece;
            while self.buffered.len() + piece.len() >= BLOCK_BYTES {
                let rest = piece.split_off(BLOCK_BYTES - self.buffered.len());
                self.buffered.extend_from_slice(&piece);
                let block = self.buffered.split().freeze();
                self.writer.block(&block).await?;
                piece = rest;
            }
            self.buffered.extend_from_slice(&piece);
        }
        Ok(())
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        if let Some(error) = &self.failed {
            return Err(self.error(error.clone()));
        }
        if let Err(error) = self.finish().await {
            self.failed = Some(error.clone());
            return Err(self.error(error));
        }
        self.shared
            .name(&self.writer, &self.location, &self.target, Mode::Overwrite)
            .await
    }

    async fn finish(&mut self) -> Result<()> {
        let rest = self.buffered.split().freeze();
        if !rest.is_empty() {
            self.writer.block(&rest).await?;
        }
        self.writer.complete().await
    }
}

impl Upload {
    async fn ask<T>(&self, order: impl FnOnce(Answer<T>) -> Order) -> object_store::Result<T> {
        let (answer, wait) = oneshot::channel();
        let sent = self.orders.send(order(answer)).is_ok();
        wait_for(&self.location, sent, wait).await
    }
}

async fn wait_for<T>(
    location: &Path,
    sent: bool,
    wait: oneshot::Receiver<object_store::Result<T>>,
) -> object_store::Result<T> {
    let ended = || {
        let error = Error::new(Code::Io, "the upload has ended");
        of_write(location.as_ref(), error)
    };
    if !sent {
        return Err(ended());
    }
    wait.await.unwrap_or_else(|_| Err(ended()))
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (answer, wait) = oneshot::channel();
        // Here, not when it is first waited for: the order of the calls is the order of the parts.
        let sent = self.orders.send(Order::Part(data, answer)).is_ok();
        let location = self.location.clone();
        Box::pin(async move { wait_for(&location, sent, wait).await })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        self.ask(Order::Complete).await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.ask(Order::Abort).await
    }
}
