//! Writing a file that has no name yet: block by block, each of them to other DataNodes if it fails. Must not know under which name it ends.

use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Code, Error, Result};
use cadastre_wire::hadoop::pb;

use crate::error::{Refusal, refusal};
use crate::namenode::{OpenFile, Pauses};
use crate::store::Shared;

/// Size of a block, bytes. Small enough to be held in memory while it is written, so that one that fails is written anew; a multiple of
/// every checksum's chunk.
pub(crate) const BLOCK_BYTES: usize = 16 << 20;

/// Tries of a block: more than DataNodes fail at one time.
const TRIES: u32 = 6;

/// Tries of a file's name, of which each is used once.
const NAME_TRIES: u32 = 3;

/// A file that is being written by this client alone. Dropped unfinished it stays, until it is old (see `clean`).
pub(crate) struct FileWriter<E: Env> {
    shared: Arc<Shared<E>>,
    file: OpenFile,
    last: Option<pb::ExtendedBlockProto>,
}

impl<E: Env> FileWriter<E> {
    pub(crate) async fn create(shared: &Arc<Shared<E>>) -> Result<Self> {
        let mut tries = 0;
        loop {
            let path = shared.next_temporary();
            let made = shared
                .namenode
                .create(
                    &path,
                    &shared.client,
                    (shared.replication, BLOCK_BYTES as u64),
                )
                .await;
            let error = match made {
                Ok(file) => {
                    shared.renew_leases().await;
                    return Ok(Self {
                        shared: Arc::clone(shared),
                        file,
                        last: None,
                    });
                }
                Err(error) => error,
            };
            tries += 1;
            match refusal(&error) {
                _ if tries >= NAME_TRIES => return Err(error),
                // Somebody removed the folder.
                Some(Refusal::Missing) => {
                    let folder = shared.root.temporary();
                    shared.namenode.make_folder(&folder).await?;
                }
                // Made perhaps, and not known to us: another name is as good.
                _ if error.code() == Code::OutcomeUnknown => {}
                _ => return Err(error),
            }
        }
    }

    /// The file as its NameNode knows it.
    pub(crate) fn file(&self) -> &OpenFile {
        &self.file
    }

    /// Appends a block, onto the disks of its DataNodes. All but the last have [`BLOCK_BYTES`].
    pub(crate) async fn block(&mut self, data: &Bytes) -> Result<()> {
        assert!(
            data.len() <= BLOCK_BYTES,
            "whoever cuts blocks knows the size"
        );
        let shared = &self.shared;
        let mut exclude: Vec<pb::DatanodeInfoProto> = Vec::new();
        let mut pauses = Pauses::new();
        let mut tries = 0;
        loop {
            tries += 1;
            shared.renew_leases().await;
            let added = shared
                .namenode
                .add_block(&self.file, &shared.client, self.last.as_ref(), &exclude)
                .await;
            let failed = match added {
                Ok(mut located) => match self.write(&located, data, &mut exclude).await {
                    Ok(()) => {
                        located.b.num_bytes = Some(data.len() as u64);
                        self.last = Some(located.b);
                        return Ok(());
                    }
                    Err(error) => error,
                },
                // Too few are left, or none at all yet.
                Err(error) if refusal(&error) == Some(Refusal::Other) => {
                    exclude.clear();
                    error
                }
                Err(error) => return Err(error),
            };
            if tries >= TRIES {
                return Err(failed);
            }
            tracing::info!(file = self.file.path, error = %failed, "a block is written anew");
            metrics::counter!("cadastre_hdfs_blocks_rewritten").increment(1);
            pauses.pause(shared.env.clock()).await;
        }
    }

    /// Writes a block, or gives it back and notes who is to be left out the next time.
    async fn write(
        &self,
        located: &pb::LocatedBlockProto,
        data: &Bytes,
        exclude: &mut Vec<pb::DatanodeInfoProto>,
    ) -> Result<()> {
        let shared = &self.shared;
        let written = shared.blocks.write(located, &shared.client, data).await;
        let Err(failure) = written else {
            return Ok(());
        };
        shared
            .namenode
            .abandon(&self.file, &shared.client, &located.b)
            .await?;
        let culprit = failure.culprit.and_then(|place| located.locs.get(place));
        exclude.extend(culprit.or(located.locs.first()).cloned());
        Err(failure.error)
    }

    /// Closes the file.
    pub(crate) async fn complete(&self) -> Result<()> {
        let shared = &self.shared;
        shared
            .namenode
            .complete(&self.file, &shared.client, self.last.as_ref())
            .await
    }

    /// Removes the file, or leaves it to the cleaner if that fails.
    pub(crate) async fn remove(&self) {
        self.shared.remove_temporary(&self.file.path).await;
    }

    /// All of an object's bytes as a closed file.
    pub(crate) async fn whole(shared: &Arc<Shared<E>>, data: Bytes) -> Result<Self> {
        let mut writer = Self::create(shared).await?;
        match writer.fill(data).await {
            Ok(()) => Ok(writer),
            Err(error) => {
                writer.remove().await;
                Err(error)
            }
        }
    }

    async fn fill(&mut self, mut data: Bytes) -> Result<()> {
        while !data.is_empty() {
            let block = data.split_to(data.len().min(BLOCK_BYTES));
            self.block(&block).await?;
        }
        self.complete().await
    }
}

/// An error for a writer that was used after it failed.
pub(crate) fn failed_before() -> Error {
    Error::new(Code::Io, "the upload failed before")
}
