//! Uploads in parts: a task takes the parts in the order in which they were given and writes block by block, so what is in memory is one block
//! and the parts whose callers wait.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Code, Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
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
        buffered: Vec::new(),
        buffered_bytes: 0,
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
    /// Pieces of the block that is not full yet.
    buffered: Vec<Bytes>,
    buffered_bytes: usize,
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
            while self.buffered_bytes + piece.len() >= BLOCK_BYTES {
                let rest = piece.split_off(BLOCK_BYTES - self.buffered_bytes);
                self.buffer(piece);
                self.write_buffered().await?;
                piece = rest;
            }
            self.buffer(piece);
        }
        Ok(())
    }

    fn buffer(&mut self, piece: Bytes) {
        self.buffered_bytes += piece.len();
        self.buffered.push(piece);
    }

    /// Writes what is buffered as a block. A payload of one piece is not copied for it.
    async fn write_buffered(&mut self) -> Result<()> {
        self.buffered_bytes = 0;
        let block: Bytes = PutPayload::from_iter(self.buffered.drain(..)).into();
        self.writer.block(&block).await
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
        if self.buffered_bytes > 0 {
            self.write_buffered().await?;
        }
        self.writer.complete().await
    }
}

impl Upload {
    /// Gives an order now, whenever its outcome is waited for: the order of the calls is the order of the parts.
    fn ask<T: Send + 'static>(
        &self,
        order: impl FnOnce(Answer<T>) -> Order,
    ) -> BoxFuture<'static, object_store::Result<T>> {
        let (answer, wait) = oneshot::channel();
        // A task that has ended drops it, and with it the answer's sender.
        let _ = self.orders.send(order(answer));
        let location = self.location.clone();
        let ended = move |_| {
            let error = Error::new(Code::Io, "the upload has ended");
            Err(of_write(location.as_ref(), error))
        };
        Box::pin(wait.map(|answered| answered.unwrap_or_else(ended)))
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.ask(|answer| Order::Part(data, answer))
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        self.ask(Order::Complete).await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.ask(Order::Abort).await
    }
}
