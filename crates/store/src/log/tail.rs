//! Writing a log's tail anew at start. What the last process wrote and did not live to see synced may lie in the page cache only,
//! and be marked clean there after a write that failed (Linux forgets such pages' dirt): then it reads well, a second fsync
//! proves nothing, and the next power cut takes it. So it is copied into a file of its own, which is made durable, before it
//! is served, and only then cut from where it was.
//!
//! The copy appears all at once, by a rename, and counts once it is in the list of segments ([`super::registry`]), which says in the
//! same moment that the original ends before the tail: so a crash between the copy and the cut shows nothing twice. Its
//! groups know all of the copy as synced, which is true of a file that is only seen whole; no other group knows itself to be.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::{Disk, Env, LogFile};
use cadastre_types::{Error, Result};
use rand::RngCore;

use super::format::{
    GROUP_HEADER_LEN, GroupBuilder, GroupHeader, SEGMENT_HEADER_LEN, SegmentHeader, VERSION,
};
use super::segment_path;
use crate::error::from_io;

/// Ending of a copy that is not finished.
pub(super) const UNFINISHED: &str = ".new";

/// Groups of a lane that are not known to be durable. Their bytes stay in the file until they are copied: without fdatasync they
/// can be a whole segment, on every core.
pub(super) struct Tail<F> {
    pub(super) file: Arc<F>,
    pub(super) salt: u64,
    /// The last LSN before them, which is.
    pub(super) synced_lsn: u64,
    /// Databases that were named before them.
    pub(super) names: BTreeMap<u32, Arc<str>>,
    /// Where each is.
    pub(super) groups: Vec<(u64, GroupHeader)>,
}

/// A copy, durable but for its name.
pub(super) struct Copied<F> {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<F>,
    /// Where which group lies now.
    pub(super) groups: Vec<(u64, GroupHeader, Bytes)>,
    /// Their end, which is the file's.
    pub(super) end: u64,
    pub(super) last_lsn: u64,
}

/// Copies a tail into a segment of this number. The directory is to be synced afterwards.
pub(super) async fn copy<E: Env>(
    env: &E,
    lane: u32,
    number: u64,
    tail: &Tail<<E::Disk as Disk>::File>,
) -> Result<Copied<<E::Disk as Disk>::File>> {
    let disk = env.disk();
    let path = segment_path(number);
    let unfinished = format!("{path}{UNFINISHED}");
    let failed =
        |error: std::io::Error| from_io(&format!("copying the log's tail to {path}"), &error);
    let salt = env.rng(&format!("log segment {number}")).next_u64();
    let header = SegmentHeader {
        version: VERSION,
        lane,
        number,
        salt,
        synced_lsn: tail.synced_lsn,
    };
    let last_lsn = tail.groups.last().map_or(0, |(_, group)| group.last_lsn);
    let file = disk.create(&unfinished, 0).await.map_err(failed)?;
    file.write_at(0, &header.encode()).map_err(failed)?;
    let mut at = SEGMENT_HEADER_LEN as u64;
    let mut names = Some(&tail.names);
    let mut groups = Vec::with_capacity(tail.groups.len());
    for (from, group) in &tail.groups {
        let body = tail
            .file
            .read(from + GROUP_HEADER_LEN as u64, group.body_len as usize)
            .map_err(failed)?;
        if !group.matches(tail.salt, &body) {
            return Err(Error::corrupt(format!(
                "the log's tail changed while it was read, at byte {from}"
            )));
        }
        let mut builder = GroupBuilder::new();
        // Numbers hold inside one segment only: the first group defines all that the old one had.
        for (id, path) in names.take().into_iter().flatten() {
            builder.name(*id, path);
        }
        builder.records(group.records, &body);
        let bytes = builder.finish(salt, group.last_lsn, last_lsn);
        file.write_at(at, &bytes).map_err(failed)?;
        let whole = super::format::group_at(salt, &bytes);
        let (group, body) = whole.expect("just built");
        groups.push((at, group, Bytes::copy_from_slice(body)));
        at += bytes.len() as u64;
    }
    file.sync_data().await.map_err(failed)?;
    disk.rename(&unfinished, &path).map_err(failed)?;
    tracing::debug!(path, groups = groups.len(), "the log's tail was copied");
    Ok(Copied {
        header,
        file: Arc::new(file),
        groups,
        end: at,
        last_lsn,
    })
}
