//! Reading one database's rows back from the log when it is opened.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cadastre_env::LogFile;
use cadastre_types::{Code, Error, Result};
use slatedb::wal::{WalError, WalIterator, WalRows};

use super::format::{self, GROUP_HEADER_LEN, GroupHeader, Record};
use super::index::ReplayGroup;
use super::{SeenByLog, segment_path};
use crate::error::from_io;

/// The rows of one database in the order of their LSNs, without those of deposed writers.
pub(super) struct Replay<F> {
    path: Arc<str>,
    groups: VecDeque<ReplayGroup<F>>,
    /// LSNs up to here are in the database's own files, or belong to a deleted one of the same path.
    after: u64,
    /// The newest epoch whose fence was passed: what an older one wrote behind it was never acknowledged (C14).
    fence: u64,
    ready: VecDeque<WalRows>,
    seen: SeenByLog,
}

impl<F: LogFile> Replay<F> {
    pub(super) fn new(
        path: Arc<str>,
        groups: Vec<ReplayGroup<F>>,
        after: u64,
        seen: SeenByLog,
    ) -> Self {
        let groups = groups
            .into_iter()
            .filter(|group| group.at.last_lsn > after)
            .collect();
        Self {
            path,
            groups,
            after,
            fence: 0,
            ready: VecDeque::new(),
            seen,
        }
    }

    fn take_group(&mut self, group: &ReplayGroup<F>) -> Result<(), WalError> {
        let read = || {
            let (header, body) = read_group(group)?;
            format::records(&header, body)
        };
        let records = read().map_err(|error| {
            if error.code() == Code::Io {
                WalError::Unavailable(Arc::new(error))
            } else {
                WalError::DataError(Arc::new(error))
            }
        })?;
        for record in records {
            match record {
                Record::Rows {
                    id,
                    epoch,
                    lsn,
                    sequence,
                    rows,
                } if id == group.id => {
                    if lsn <= self.after || epoch < self.fence {
                        continue;
                    }
                    let rows = rows.decode(sequence);
                    let created = rows.iter().filter_map(|row| row.create_ts).max();
                    let bytes = rows.iter().map(|row| row.key.len() + row.value.len()).sum();
                    (self.seen)(created.unwrap_or(0), bytes);
                    self.ready.push_back(WalRows {
                        rows,
                        last_consumed_wal_file_id: lsn,
                    });
                }
                Record::Fence { id, epoch, .. } if id == group.id => {
                    self.fence = self.fence.max(epoch);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads a group again; it was whole when it was indexed.
pub(super) fn read_group<F: LogFile>(group: &ReplayGroup<F>) -> Result<(GroupHeader, Bytes)> {
    let place = || format!("{}, byte {}", segment_path(group.segment), group.at.offset);
    let io = |error: std::io::Error| from_io(&place(), &error);
    let damaged = || Error::corrupt(format!("{}: the group cannot be read any more", place()));
    let (file, at) = (&group.file, group.at.offset);
    let head = file.read(at, GROUP_HEADER_LEN).map_err(io)?;
    let header = GroupHeader::decode(&head).ok_or_else(damaged)?;
    if u64::from(header.body_len) > super::SEGMENT_BYTES_MAX {
        return Err(damaged());
    }
    let body = file
        .read(at + GROUP_HEADER_LEN as u64, header.body_len as usize)
        .map_err(io)?;
    if !header.matches(group.salt, &body) {
        return Err(damaged());
    }
    Ok((header, body))
}

#[async_trait]
impl<F: LogFile> WalIterator for Replay<F> {
    async fn next(&mut self) -> Result<Option<WalRows>, WalError> {
        loop {
            if let Some(rows) = self.ready.pop_front() {
                return Ok(Some(rows));
            }
            let Some(group) = self.groups.pop_front() else {
                tracing::debug!(path = %self.path, "replay done");
                return Ok(None);
            };
            self.take_group(&group)?;
            // Long replays must not starve what else runs here.
            tokio::task::yield_now().await;
        }
    }
}
