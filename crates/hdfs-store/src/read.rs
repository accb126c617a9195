//! Reading objects: where a file's blocks are, and pieces of them from whichever DataNode answers.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Code, Error, Result};
use cadastre_wire::hadoop::pb;
use cadastre_wire::hadoop::pb::hdfs_file_status_proto::FileType;
use chrono::{DateTime, Utc};
use futures::StreamExt;
use futures::stream;
use object_store::path::Path;
use object_store::{Attributes, GetOptions, GetResult, GetResultPayload, ObjectMeta, PutPayload};

use crate::datanode::PIECE_MAX;
use crate::error::{not_found, of_object};
use crate::namenode::Pauses;
use crate::store::{Shared, e_tag};

/// Times that a piece is asked for of all DataNodes that have it, before it is said to be out of reach.
const ROUNDS: u32 = 4;

/// A file and where its blocks are.
#[derive(Debug)]
pub(crate) struct Located {
    status: pb::HdfsFileStatusProto,
    blocks: Vec<pb::LocatedBlockProto>,
}

impl Located {
    /// Takes a NameNode's answer; `None` for what is no file.
    fn of(path: &str, mut status: pb::HdfsFileStatusProto) -> Result<Option<Self>> {
        if !is_file(&status) {
            return Ok(None);
        }
        if status.ec_policy.is_some() {
            return Err(Error::unsupported(format!("{path}: erasure coding")));
        }
        if status.file_encryption_info.is_some() {
            return Err(Error::unsupported(format!("{path}: encryption")));
        }
        let blocks = status.locations.take().map_or_else(Vec::new, |l| l.blocks);
        let strange = |what: String| Error::new(Code::Io, format!("{path}: {what}"));
        // They cover the file, one after the other.
        let mut at = 0;
        for block in &blocks {
            if block.offset != at {
                return Err(strange(format!(
                    "a block at byte {}, not {at}",
                    block.offset
                )));
            }
            at += block.b.num_bytes();
        }
        if at != status.length {
            let length = status.length;
            return Err(strange(format!(
                "{length} bytes, of which {at} have blocks"
            )));
        }
        Ok(Some(Self { status, blocks }))
    }

    /// The block with a byte that the file has.
    fn block_of(&self, byte: u64) -> &pb::LocatedBlockProto {
        let after = self.blocks.partition_point(|block| block.offset <= byte);
        &self.blocks[after - 1]
    }
}

/// Whether it is what an object can be.
pub(crate) fn is_file(status: &pb::HdfsFileStatusProto) -> bool {
    status.file_type == FileType::IsFile as i32
}

/// What object_store knows of an object.
pub(crate) fn meta(location: Path, status: &pb::HdfsFileStatusProto) -> ObjectMeta {
    let ms = i64::try_from(status.modification_time).unwrap_or(i64::MAX);
    ObjectMeta {
        location,
        last_modified: DateTime::from_timestamp_millis(ms).unwrap_or(DateTime::<Utc>::MAX_UTC),
        size: status.length,
        e_tag: Some(e_tag(status.file_id())),
        version: None,
    }
}

/// A file that is read.
struct Reading<E: Env> {
    shared: Arc<Shared<E>>,
    path: String,
    located: Arc<Located>,
}

impl<E: Env> Shared<E> {
    pub(crate) async fn get(
        self: &Arc<Self>,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let failed = |error| of_object(location.as_ref(), error);
        let path = self.root.file(location).map_err(failed)?;
        if options.head {
            let status = self.namenode.stat(&path).await.map_err(failed)?;
            let status = status
                .filter(is_file)
                .ok_or_else(|| not_found(location.as_ref()))?;
            let meta = meta(location.clone(), &status);
            options.check_preconditions(&meta)?;
            return Ok(result(meta, 0..0, stream::empty().boxed()));
        }
        let known = match options.range {
            // A file with a range is one of SlateDB's, which are never overwritten.
            Some(_) => self.located.get(&path),
            None => None,
        };
        let located = match known {
            Some(located) => located,
            None => (self.locate(&path).await.map_err(failed)?)
                .ok_or_else(|| not_found(location.as_ref()))?,
        };
        let meta = meta(location.clone(), &located.status);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            None => 0..meta.size,
            Some(range) => {
                range
                    .as_range(meta.size)
                    .map_err(|error| object_store::Error::Generic {
                        store: crate::error::STORE,
                        source: Box::new(error),
                    })?
            }
        };
        let reading = Reading {
            shared: Arc::clone(self),
            path,
            located,
        };
        let location = location.to_string();
        let pieces = stream::try_unfold((reading, range.clone()), move |(mut reading, left)| {
            let location = location.clone();
            async move {
                if left.is_empty() {
                    return Ok(None);
                }
                let piece = left.start..left.end.min(left.start + PIECE_MAX);
                let bytes = reading.piece(piece.clone()).await;
                let bytes = bytes.map_err(|error| of_object(&location, error))?;
                Ok(Some((bytes, (reading, piece.end..left.end))))
            }
        });
        Ok(result(meta, range, pieces.boxed()))
    }

    /// Asks where a file's blocks are, and remembers it.
    async fn locate(&self, path: &str) -> Result<Option<Arc<Located>>> {
        let Some(status) = self.namenode.locate(path).await? else {
            self.located.remove(path);
            return Ok(None);
        };
        let located = Located::of(path, status)?.map(Arc::new);
        if let Some(located) = &located {
            self.located.insert(path.to_owned(), Arc::clone(located));
        }
        Ok(located)
    }
}

fn result(
    meta: ObjectMeta,
    range: Range<u64>,
    stream: stream::BoxStream<'static, object_store::Result<Bytes>>,
) -> GetResult {
    GetResult {
        payload: GetResultPayload::Stream(stream),
        meta,
        range,
        attributes: Attributes::new(),
        extensions: Default::default(),
    }
}

impl<E: Env> Reading<E> {
    /// Bytes that the file has, at most [`PIECE_MAX`].
    async fn piece(&mut self, range: Range<u64>) -> Result<Bytes> {
        let mut pauses = Pauses::new();
        for round in 1.. {
            let error = match self.piece_once(&range).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            self.shared.located.remove(&self.path);
            if round >= ROUNDS {
                return Err(error);
            }
            tracing::info!(path = self.path, %error, "a block is looked for anew");
            pauses.pause(self.shared.env.clock()).await;
            let found = self.shared.locate(&self.path).await?;
            let same = found.filter(|now| {
                let (now, then) = (&now.status, &self.located.status);
                (now.file_id(), now.length) == (then.file_id(), then.length)
            });
            self.located = same.ok_or_else(|| {
                Error::new(
                    Code::Io,
                    format!("{} was overwritten or removed while it was read", self.path),
                )
            })?;
        }
        unreachable!("rounds end by returning");
    }

    async fn piece_once(&self, range: &Range<u64>) -> Result<Bytes> {
        let mut at = range.start;
        let mut pieces = Vec::new();
        while at < range.end {
            let block = self.located.block_of(at);
            let end = range.end.min(block.offset + block.b.num_bytes());
            pieces.push(self.of_block(block, at - block.offset, end - at).await?);
            at = end;
        }
        Ok(PutPayload::from_iter(pieces).into())
    }

    /// From the first DataNode that has it.
    async fn of_block(
        &self,
        block: &pb::LocatedBlockProto,
        offset: u64,
        len: u64,
    ) -> Result<Bytes> {
        let shared = &self.shared;
        let mut failures = Vec::new();
        for place in shared.blocks.order(block) {
            let node = &block.locs[place];
            let read = shared
                .blocks
                .read(block, node, &shared.client, (offset, len));
            match read.await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => failures.push(error),
            }
        }
        // Damage only if nobody has it whole.
        let all_damaged =
            !failures.is_empty() && (failures.iter()).all(|error| error.code() == Code::Corrupt);
        let code = if all_damaged { Code::Corrupt } else { Code::Io };
        let texts: Vec<&str> = failures.iter().map(Error::message).collect();
        Err(Error::new(
            code,
            format!(
                "block {} cannot be read from any DataNode: {}",
                block.b.block_id,
                texts.join("; ")
            ),
        ))
    }
}
