//! Reading the log at start: which groups are whole, where each lane's tail ends, and whether a bad group is a torn tail or
//! damage (C16).
//!
//! Nothing is changed on disk before every segment has been judged: a damaged log is refused and left as it is. What is not
//! known to be durable is copied ([`super::tail`]) before it counts. In a lane, what a segment has above the LSN that its
//! successor's header knows to be synced is superseded by such a copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::{Disk, Env, LogFile};
use cadastre_types::{Error, Result};

use super::content::Content;
use super::format::{self, GroupHeader, Record, SEGMENT_HEADER_LEN, SegmentHeader};
use super::index::{GroupRef, Index};
use super::tail::{self, Tail, UNFINISHED};
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

/// A segment whose header was read.
struct Found<F> {
    header: SegmentHeader,
    file: Arc<F>,
    /// Length of the file.
    len: u64,
}

/// What lies in the log's directory.
struct Listing<F> {
    /// By number, in each lane.
    lanes: BTreeMap<u32, Vec<Found<F>>>,
    /// Files that hold nothing: segments never begun, copies never finished.
    useless: Vec<String>,
    last_segment: u64,
}

/// A segment that was read and judged.
struct Scanned<F> {
    header: SegmentHeader,
    file: Arc<F>,
    len: u64,
    /// Groups that stay where they are.
    groups: Vec<(u64, GroupHeader, Bytes)>,
    /// Their end.
    end: u64,
    /// Whole groups behind it that go, because they are torn off or superseded.
    cut: usize,
    tail: Option<Tail<F>>,
    /// Highest LSN in it, used or not.
    last_lsn: u64,
}

/// Reads all segments, copies and cuts tails, removes what is useless.
pub(crate) async fn recover<E: Env>(env: &E) -> Result<Recovered<<E::Disk as Disk>::File>> {
    let disk = env.disk();
    let listing = list(disk).await?;
    let mut index = Index::new();
    let mut durable = BTreeMap::new();
    let mut last_lsn = 0;
    let (mut tails, mut cuts) = (Vec::new(), Vec::new());
    for (lane, segments) in &listing.lanes {
        let mut known = 0;
        for (at, found) in segments.iter().enumerate() {
            let next = segments.get(at + 1).map(|next| next.header.synced_lsn);
            let mut scanned = scan(found, next).map_err(|e| e.context(path_of(found)))?;
            add_to_index(&mut index, scanned.header, &scanned.file, &scanned.groups)?;
            last_lsn = last_lsn.max(scanned.last_lsn);
            let last = scanned.groups.last().map(|(_, group, _)| group.last_lsn);
            known = known.max(last.unwrap_or(0)).max(scanned.header.synced_lsn);
            // All segments at once would take more memory than there is.
            scanned.groups = Vec::new();
            tails.extend(scanned.tail.take().map(|tail| (*lane, tail)));
            if scanned.end != scanned.len {
                cuts.push(scanned);
            }
        }
        durable.insert(*lane, known);
    }
    // From here on the disk is changed. First what makes room.
    for path in &listing.useless {
        disk.remove(path)
            .map_err(|e| from_io(&format!("removing the unused {path}"), &e))?;
    }
    let mut last_segment = listing.last_segment;
    for (lane, tail) in &tails {
        last_segment += 1;
        let copied = tail::copy(env, *lane, last_segment, tail).await?;
        add_to_index(&mut index, copied.header, &copied.file, &copied.groups)?;
        let last = copied.groups.last().map(|(_, group, _)| group.last_lsn);
        durable.insert(*lane, last.expect("a tail has groups"));
    }
    if !listing.lanes.is_empty() || !listing.useless.is_empty() {
        // Before the cuts: what was copied, now or by an earlier start, must be there whatever comes.
        disk.sync_dir(DIR)
            .await
            .map_err(|e| from_io("syncing the log's directory", &e))?;
    }
    for scanned in &cuts {
        cut(scanned).await?;
    }
    Ok(Recovered {
        index,
        last_lsn,
        last_segment,
        lanes: durable,
    })
}

fn path_of<F>(found: &Found<F>) -> String {
    segment_path(found.header.number)
}

/// Reads the headers of all segments.
async fn list<D: Disk>(disk: &D) -> Result<Listing<D::File>> {
    let names = disk.list(DIR).map_err(|e| from_io("listing the log", &e))?;
    let mut listing = Listing {
        lanes: BTreeMap::new(),
        useless: Vec::new(),
        last_segment: 0,
    };
    for name in &names {
        let unfinished = name.strip_suffix(UNFINISHED);
        let Some(number) = super::segment_number(unfinished.unwrap_or(name)) else {
            tracing::warn!(name, "a file in the log's directory that is not the log's");
            continue;
        };
        listing.last_segment = listing.last_segment.max(number);
        if unfinished.is_some() {
            listing.useless.push(format!("{DIR}/{name}"));
            continue;
        }
        let path = segment_path(number);
        let file = disk
            .open(&path)
            .await
            .map_err(|e| from_io(&format!("opening {path}"), &e))?;
        match begin(number, file).map_err(|e| e.context(&path))? {
            // Names are sorted, and their numbers have equal lengths.
            Some(found) => {
                let lane = listing.lanes.entry(found.header.lane).or_default();
                lane.push(found);
            }
            None => listing.useless.push(path),
        }
    }
    Ok(listing)
}

/// Reads one segment's header; `None` if it was never begun.
fn begin<F: LogFile>(number: u64, file: F) -> Result<Option<Found<F>>> {
    let len = file.len().map_err(|e| from_io("its length", &e))?;
    if len > SEGMENT_BYTES_MAX {
        return Err(Error::corrupt(format!(
            "{len} bytes are more than a segment ever has ({SEGMENT_BYTES_MAX})"
        )));
    }
    let head = file
        .read(0, SEGMENT_HEADER_LEN)
        .map_err(|e| from_io("reading its header", &e))?;
    let header = match SegmentHeader::decode(&head) {
        Ok(Some(header)) => header,
        // Begun, but its header, which is durable before the first group is written, never got there.
        other => {
            let content = Content::read(&file, len).map_err(|e| from_io("reading it", &e))?;
            if !content.has_candidate(SEGMENT_HEADER_LEN as u64) {
                return Ok(None);
            }
            return Err(match other {
                Err(error) => error,
                Ok(_) => Error::corrupt("the segment has groups but no header"),
            });
        }
    };
    if header.number != number {
        return Err(Error::corrupt(format!(
            "the segment's header says number {}",
            header.number
        )));
    }
    Ok(Some(Found {
        header,
        file: Arc::new(file),
        len,
    }))
}

/// Reads a segment and judges it by what it and the lane's next header know to be synced.
fn scan<F: LogFile>(found: &Found<F>, next: Option<u64>) -> Result<Scanned<F>> {
    let header = found.header;
    let content = Content::read(&*found.file, found.len).map_err(|e| from_io("reading it", &e))?;
    let mut groups = Vec::new();
    let mut end = SEGMENT_HEADER_LEN as u64;
    while let Some((group, body)) = content.group(header.salt, end) {
        groups.push((end, group, body));
        end += group.total_len() as u64;
    }
    let beyond = content.groups_beyond(header.salt, end);
    let whole = groups.iter().map(|(_, group, _)| group);
    let claims = whole.clone().chain(&beyond).map(|group| group.synced_lsn);
    let synced = claims.chain(next).fold(header.synced_lsn, u64::max);
    let lsns = whole.chain(&beyond).map(|group| group.last_lsn);
    let last_lsn = lsns.fold(header.synced_lsn, u64::max);
    let readable = groups
        .last()
        .map_or(header.synced_lsn, |(_, group, _)| group.last_lsn);
    if synced > readable {
        return Err(Error::corrupt(format!(
            "the segment is damaged at byte {end}: records up to LSN {synced} were durable, it is readable up to LSN {readable} only"
        )));
    }
    // What a successor supersedes goes; what nobody knows to be durable is the tail.
    let kept = groups.partition_point(|(_, group, _)| group.last_lsn <= next.unwrap_or(synced));
    let above = groups.split_off(kept);
    let end = above.first().map_or(end, |(start, _, _)| *start);
    let tail = if next.is_some() || above.is_empty() {
        None
    } else {
        Some(tail_of(found, &groups, &above)?)
    };
    let superseded = if tail.is_some() { 0 } else { above.len() };
    Ok(Scanned {
        header,
        file: Arc::clone(&found.file),
        len: found.len,
        groups,
        end: end.min(found.len),
        cut: beyond.len() + superseded,
        tail,
        last_lsn,
    })
}

/// The groups above what is known to be durable.
fn tail_of<F>(
    found: &Found<F>,
    kept: &[(u64, GroupHeader, Bytes)],
    above: &[(u64, GroupHeader, Bytes)],
) -> Result<Tail<F>> {
    let mut names = BTreeMap::new();
    for (_, group, body) in kept {
        for record in format::records(group, body.clone())? {
            if let Record::Name { id, path } = record {
                names.insert(id, path.as_str().into());
            }
        }
    }
    let synced_lsn = kept
        .last()
        .map_or(found.header.synced_lsn, |(_, group, _)| group.last_lsn);
    let groups = above.iter().map(|(at, group, _)| (*at, *group));
    Ok(Tail {
        file: Arc::clone(&found.file),
        salt: found.header.salt,
        synced_lsn,
        names,
        groups: groups.collect(),
    })
}

/// Adds the groups of a segment to the index.
fn add_to_index<F>(
    index: &mut Index<F>,
    header: SegmentHeader,
    file: &Arc<F>,
    groups: &[(u64, GroupHeader, Bytes)],
) -> Result<()> {
    let number = header.number;
    index.add_segment(number, header.lane, header.salt, Arc::clone(file));
    index.seal(number);
    let mut names: BTreeMap<u32, Arc<str>> = BTreeMap::new();
    for (offset, group, body) in groups {
        let at = GroupRef {
            offset: *offset,
            last_lsn: group.last_lsn,
        };
        let place = || format!("{}, byte {offset}", segment_path(number));
        let records = format::records(group, body.clone()).map_err(|e| e.context(place()))?;
        for record in records {
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

/// Cuts a segment behind what stays, durably: what was never durable, or is in a copy now, must not come back later.
async fn cut<F: LogFile>(scanned: &Scanned<F>) -> Result<()> {
    let path = segment_path(scanned.header.number);
    if scanned.cut > 0 {
        let groups = scanned.cut;
        tracing::warn!(path, groups, "cutting groups that were never durable");
    }
    scanned
        .file
        .truncate(scanned.end)
        .map_err(|e| from_io(&format!("cutting {path}"), &e))?;
    scanned
        .file
        .sync_data()
        .await
        .map_err(|e| from_io(&format!("syncing {path}"), &e))
}

/// A file in memory.
#[cfg(feature = "fuzzing")]
struct Image(Bytes);

#[cfg(feature = "fuzzing")]
impl LogFile for Image {
    fn write_at(&self, _: u64, _: &[u8]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn read(&self, at: u64, len: usize) -> std::io::Result<Bytes> {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.0.len());
        Ok(self
            .0
            .slice(from..from.saturating_add(len).min(self.0.len())))
    }

    fn sync_data(&self) -> impl Future<Output = std::io::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    fn truncate(&self, _: u64) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// Reads bytes as a segment. What is kept and what is cut do not overlap.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_segment(data: &[u8]) {
    let file = Image(Bytes::copy_from_slice(data));
    let number = data.get(16..24).map_or(0, |bytes| {
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    });
    let Ok(Some(found)) = begin(number, file) else {
        return;
    };
    for next in [None, Some(found.header.synced_lsn)] {
        let Ok(scanned) = scan(&found, next) else {
            continue;
        };
        assert!(scanned.end <= scanned.len.max(SEGMENT_HEADER_LEN as u64));
        // Records that cannot be read are refused.
        let _ = add_to_index(
            &mut Index::new(),
            scanned.header,
            &scanned.file,
            &scanned.groups,
        );
    }
}

#[cfg(test)]
mod tests;
