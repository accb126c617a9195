//! Reading the log at start: which groups are whole, where each lane's tail ends, and whether a bad group is a torn tail or
//! damage (C16).
//!
//! Nothing is changed on disk before every segment has been judged: a damaged log is refused and left as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::{Disk, LogFile};
use cadastre_types::{Error, Result};

use super::format::{self, GROUP_ALIGN, GroupHeader, Record, SEGMENT_HEADER_LEN, SegmentHeader};
use super::index::{GroupRef, Index};
use super::{DIR, SEGMENT_BYTES_MAX, segment_path};
use crate::error::from_io;

/// What recovery found.
pub(crate) struct Recovered<F> {
    pub(crate) index: Index<F>,
    /// Highest LSN that was ever used, as far as the log knows.
    pub(crate) last_lsn: u64,
    /// Highest segment number.
    pub(crate) last_segment: u64,
    /// What is now durable of each lane.
    pub(crate) lanes: BTreeMap<u32, u64>,
}

/// One segment as it was read.
struct Scanned<F> {
    file: Arc<F>,
    header: SegmentHeader,
    /// Length of the file.
    len: u64,
    bytes: Bytes,
    groups: Vec<(u64, GroupHeader)>,
    /// End of the last whole group.
    end: u64,
    /// Whole groups behind the end, behind a hole.
    beyond: Vec<GroupHeader>,
}

impl<F> Scanned<F> {
    /// The last LSN before the end; of an empty segment, what was durable before it.
    fn last_lsn(&self) -> u64 {
        self.groups
            .last()
            .map_or(self.header.synced_lsn, |(_, group)| group.last_lsn)
    }
}

/// Reads all segments, cuts torn tails, removes spares.
pub(crate) async fn recover<D: Disk>(disk: &D) -> Result<Recovered<D::File>> {
    let names = disk.list(DIR).map_err(|e| from_io("listing the log", &e))?;
    let mut lanes: BTreeMap<u32, Vec<Scanned<D::File>>> = BTreeMap::new();
    let mut index = Index::new();
    let mut spares = Vec::new();
    let mut last_segment = 0;
    for name in &names {
        let Some(number) = super::segment_number(name) else {
            tracing::warn!(name, "a file in the log's directory that is not the log's");
            continue;
        };
        last_segment = last_segment.max(number);
        let path = segment_path(number);
        let file = disk
            .open(&path)
            .await
            .map_err(|e| from_io(&format!("opening {path}"), &e))?;
        match scan(number, file).map_err(|e| e.context(&path))? {
            Some(mut scanned) => {
                add_to_index(&mut index, &scanned)?;
                // All segments at once would take more memory than there is.
                scanned.bytes = Bytes::new();
                lanes.entry(scanned.header.lane).or_default().push(scanned);
            }
            None => spares.push(path),
        }
    }
    for segments in lanes.values() {
        judge(segments)?;
    }
    let mut last_lsn = 0;
    let mut durable = BTreeMap::new();
    for scanned in lanes.values().flatten() {
        let beyond = scanned.beyond.iter().map(|group| group.last_lsn).max();
        last_lsn = last_lsn.max(scanned.last_lsn()).max(beyond.unwrap_or(0));
        cut(scanned).await?;
        durable.insert(scanned.header.lane, scanned.last_lsn());
    }
    for path in &spares {
        disk.remove(path)
            .map_err(|e| from_io(&format!("removing the unused {path}"), &e))?;
    }
    if !names.is_empty() {
        disk.sync_dir(DIR)
            .await
            .map_err(|e| from_io("syncing the log's directory", &e))?;
    }
    Ok(Recovered {
        index,
        last_lsn,
        last_segment,
        lanes: durable,
    })
}

/// Reads one segment; `None` if it was never begun.
fn scan<F: LogFile>(number: u64, file: F) -> Result<Option<Scanned<F>>> {
    let len = file.len().map_err(|e| from_io("its length", &e))?;
    if len > SEGMENT_BYTES_MAX {
        return Err(Error::corrupt(format!(
            "{len} bytes are more than a segment ever has ({SEGMENT_BYTES_MAX})"
        )));
    }
    let bytes = file
        .read(0, len as usize)
        .map_err(|e| from_io("reading it", &e))?;
    let header = match SegmentHeader::decode(&bytes) {
        Ok(Some(header)) => header,
        // Begun, but its header, which is durable before the first group is written, never got there.
        Ok(None) | Err(_) if first_group_candidate(&bytes).is_none() => return Ok(None),
        Ok(None) => return Err(Error::corrupt("the segment has groups but no header")),
        Err(error) => return Err(error),
    };
    if header.number != number {
        return Err(Error::corrupt(format!(
            "the segment's header says number {}",
            header.number
        )));
    }
    let mut groups = Vec::new();
    let mut end = SEGMENT_HEADER_LEN;
    while let Some((group, _)) = bytes
        .get(end..)
        .and_then(|rest| format::group_at(header.salt, rest))
    {
        groups.push((end as u64, group));
        end += group.total_len();
    }
    let beyond = groups_beyond(header.salt, &bytes, end);
    Ok(Some(Scanned {
        file: Arc::new(file),
        header,
        len,
        bytes,
        groups,
        end: end.min(len as usize) as u64,
        beyond,
    }))
}

/// Where something that begins like a group is.
fn first_group_candidate(bytes: &[u8]) -> Option<usize> {
    (SEGMENT_HEADER_LEN..bytes.len())
        .step_by(GROUP_ALIGN)
        .find(|at| GroupHeader::decode(&bytes[*at..]).is_some())
}

/// Whole groups behind a place where there should be one and is none.
fn groups_beyond(salt: u64, bytes: &[u8], end: usize) -> Vec<GroupHeader> {
    let mut found = Vec::new();
    let mut at = end + GROUP_ALIGN;
    while at < bytes.len() {
        // Most of what is here are zeros.
        if bytes[at] == 0 {
            at += GROUP_ALIGN;
            continue;
        }
        match format::group_at(salt, &bytes[at..]) {
            Some((group, _)) => {
                at += group.total_len();
                found.push(group);
            }
            None => at += GROUP_ALIGN,
        }
    }
    found
}

/// Refuses a lane in which something is missing that a later group knows to have been durable.
fn judge<F>(segments: &[Scanned<F>]) -> Result<()> {
    for (at, segment) in segments.iter().enumerate() {
        let known = segment.last_lsn();
        let next = segments.get(at + 1);
        let later = next.map(|next| next.header.synced_lsn);
        let claims = segment.beyond.iter().map(|group| group.synced_lsn);
        if let Some(claimed) = claims.chain(later).max()
            && claimed > known
        {
            return Err(Error::corrupt(format!(
                "{} is damaged at byte {}: records up to LSN {claimed} were durable, it is readable up to LSN {known} only",
                segment_path(segment.header.number),
                segment.end
            )));
        }
    }
    Ok(())
}

/// Adds the whole groups of a segment to the index.
fn add_to_index<F>(index: &mut Index<F>, scanned: &Scanned<F>) -> Result<()> {
    let number = scanned.header.number;
    let file = Arc::clone(&scanned.file);
    index.add_segment(number, scanned.header.lane, scanned.header.salt, file);
    index.seal(number);
    let mut names: BTreeMap<u32, Arc<str>> = BTreeMap::new();
    for (offset, group) in &scanned.groups {
        let at = GroupRef {
            offset: *offset,
            last_lsn: group.last_lsn,
        };
        let start = *offset as usize + format::GROUP_HEADER_LEN;
        let body = scanned.bytes.slice(start..start + group.body_len as usize);
        let place = || format!("{}, byte {offset}", segment_path(number));
        for record in format::records(group, body).map_err(|e| e.context(place()))? {
            if let Record::Name { id, path } = &record {
                let path: Arc<str> = path.as_str().into();
                index.note_name(number, &path, *id);
                names.insert(*id, path);
                continue;
            }
            let path = names.get(&record_id(&record)).ok_or_else(|| {
                Error::corrupt("a record of an unnamed database").context(place())
            })?;
            index.note_record(number, path, at, &record);
        }
    }
    Ok(())
}

fn record_id(record: &Record) -> u32 {
    match record {
        Record::Name { id, .. }
        | Record::Rows { id, .. }
        | Record::Fence { id, .. }
        | Record::Flushed { id, .. }
        | Record::Deleted { id, .. } => *id,
    }
}

/// Cuts a segment behind its last whole group, durably: what never was durable must not come back later. What is whole is made
/// durable too: after a mere kill it may still be in the page cache only, and it is about to be replayed and read.
async fn cut<F: LogFile>(scanned: &Scanned<F>) -> Result<()> {
    let path = segment_path(scanned.header.number);
    if !scanned.beyond.is_empty() {
        let groups = scanned.beyond.len();
        tracing::warn!(path, groups, "cutting groups that were never durable");
    }
    if scanned.end != scanned.len {
        scanned
            .file
            .truncate(scanned.end)
            .map_err(|e| from_io(&format!("cutting {path}"), &e))?;
    }
    scanned
        .file
        .sync_data()
        .await
        .map_err(|e| from_io(&format!("syncing {path}"), &e))
}

#[cfg(test)]
mod tests;
