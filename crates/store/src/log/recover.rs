//! Reading the log at start: which groups are whole, where each lane's tail ends, and whether a bad group is a torn tail or
//! damage (C16).
//!
//! [`judge`] only reads: a damaged log is refused and left as it is. [`super::settle`] then makes of it what the lanes begin with.
//! What is not known to be durable is copied ([`super::tail`]) before it counts. Segments of a program that kept no list of
//! them ([`super::registry`]) are judged by each other: in a lane, what a segment has above the LSN that its successor's header
//! knows to be synced is superseded by such a copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::{Disk, LogFile};
use cadastre_types::{Error, Result};

use super::content::Content;
use super::format::{self, GroupHeader, Record, SEGMENT_HEADER_LEN, SegmentHeader};
use super::index::{GroupRef, Index};
use super::registry::{self, Entry, Loaded, Segments, Stage};
use super::tail::{Tail, UNFINISHED};
use super::{DIR, SEGMENT_BYTES_MAX, segment_path};
use crate::error::from_io;

/// A segment whose header was read.
struct Found<F> {
    header: SegmentHeader,
    file: Arc<F>,
    /// Length of the file.
    len: u64,
    /// What the list says of it, if there is a list.
    entry: Option<Entry>,
}

/// What lies in the log's directory.
struct Listing<F> {
    /// By number, in each lane.
    lanes: BTreeMap<u32, Vec<Found<F>>>,
    garbage: Vec<String>,
    free: BTreeMap<u64, Entry>,
    last_segment: u64,
}

/// A group where it lies, with its body.
pub(super) type Group = (u64, GroupHeader, Bytes);

/// A segment that was read and judged.
struct Scanned<F> {
    /// Groups that stay where they are.
    groups: Vec<Group>,
    /// Their end.
    end: u64,
    /// Whole groups behind it that go, because they are torn off or superseded.
    cut: usize,
    tail: Option<Tail<F>>,
    /// Highest LSN in it, used or not.
    last_lsn: u64,
}

/// What the log knows beside a segment, to judge it by.
#[derive(Clone, Copy)]
struct Beside {
    /// The lane is readable up to here without the segment.
    before: u64,
    /// The LSN up to which a successor knows the lane to be synced, which is all that is in this segment.
    next: Option<u64>,
    /// What the lane knew to be synced.
    mark: u64,
}

/// A segment that stays, up to its end.
pub(super) struct Kept<F> {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<F>,
    /// Length of the file.
    pub(super) len: u64,
    pub(super) end: u64,
    pub(super) last_lsn: u64,
    /// Whole groups behind the end.
    pub(super) cut: usize,
}

/// A log that is not damaged.
pub(crate) struct Judged<F> {
    pub(super) loaded: Option<Loaded<F>>,
    /// Files that no list speaks of and that hold nothing.
    pub(super) garbage: Vec<String>,
    /// Listed segments that hold nothing, or nothing that is needed.
    pub(super) free: BTreeMap<u64, Entry>,
    pub(super) kept: Vec<Kept<F>>,
    /// Tails, with their lanes.
    pub(super) tails: Vec<(u32, Tail<F>)>,
    pub(super) index: Index<F>,
    pub(super) last_lsn: u64,
    pub(super) last_segment: u64,
    /// As in the list.
    pub(super) floors: BTreeMap<u32, u64>,
    /// Up to where each lane is readable, all of which counts.
    pub(super) readable: BTreeMap<u32, u64>,
}

/// Reads and judges all segments, and changes nothing. `listed`: there must be a list of segments, since there was one before.
pub(crate) async fn judge<D: Disk>(disk: &D, listed: bool) -> Result<Judged<D::File>> {
    let loaded = registry::load(disk).await?;
    if listed && loaded.is_none() {
        return Err(Error::corrupt(format!(
            "the file '{}' is missing: which segments the log has is not known",
            registry::FILE
        )));
    }
    let listing = list(disk, loaded.as_ref().map(|loaded| &loaded.segments)).await?;
    let floors = loaded
        .as_ref()
        .map(|loaded| loaded.segments.floors.clone())
        .unwrap_or_default();
    let marks = loaded
        .as_ref()
        .map(|loaded| loaded.marks.clone())
        .unwrap_or_default();
    let mut judged = Judged {
        last_lsn: floors
            .values()
            .chain(marks.values())
            .fold(0, |a, b| a.max(*b)),
        readable: floors.clone(),
        loaded,
        garbage: listing.garbage,
        free: listing.free,
        kept: Vec::new(),
        tails: Vec::new(),
        index: Index::new(),
        last_segment: listing.last_segment,
        floors,
    };
    let nothing = Vec::new();
    let mut lanes: Vec<u32> = listing.lanes.keys().chain(marks.keys()).copied().collect();
    lanes.sort_unstable();
    lanes.dedup();
    for lane in lanes {
        let segments = listing.lanes.get(&lane).unwrap_or(&nothing);
        let mark = marks.get(&lane).copied().unwrap_or(0);
        judged.lane(lane, segments, mark)?;
    }
    Ok(judged)
}

impl<F: LogFile> Judged<F> {
    /// Judges the segments of a lane, which come in the order of their numbers.
    fn lane(&mut self, lane: u32, segments: &[Found<F>], mark: u64) -> Result<()> {
        let mut readable = self.floors.get(&lane).copied().unwrap_or(0);
        for entry in self.free.values().filter(|entry| entry.lane == lane) {
            if let Stage::Free { last_lsn } = entry.stage {
                readable = readable.max(last_lsn);
            }
        }
        for (at, found) in segments.iter().enumerate() {
            let later = &segments[at + 1..];
            let next = synced_by_next(found, later).map_err(|e| e.context(path_of(found)))?;
            if found.entry.is_none() {
                // What was before it went without a note, and its header knows how far that was.
                readable = readable.max(found.header.synced_lsn);
                self.floors.entry(lane).or_insert(readable);
            }
            let beside = Beside {
                before: readable,
                next,
                mark,
            };
            let scanned = scan(found, beside).map_err(|e| {
                let named = later.iter().map(path_of);
                let named = named.fold(path_of(found), |names, name| format!("{names}, {name}"));
                e.context(named)
            })?;
            readable = self.take(lane, found, scanned, readable)?;
        }
        if mark > readable {
            return Err(Error::corrupt(format!(
                "the log of lane {lane} in '{DIR}' was durable up to LSN {mark}, it is readable up to LSN {readable} only"
            )));
        }
        self.readable.insert(lane, readable);
        Ok(())
    }

    /// Takes in what a segment gave; answers up to where its lane is readable now.
    fn take(
        &mut self,
        lane: u32,
        found: &Found<F>,
        scanned: Scanned<F>,
        before: u64,
    ) -> Result<u64> {
        let number = found.header.number;
        self.last_lsn = self.last_lsn.max(scanned.last_lsn);
        let last_of = |groups: &[Group]| groups.last().map_or(0, |(_, group, _)| group.last_lsn);
        let last_lsn = last_of(&scanned.groups);
        let mut readable = before.max(last_lsn);
        if let Some(tail) = scanned.tail {
            readable = readable.max(tail.groups.last().map_or(0, |(_, group)| group.last_lsn));
            self.tails.push((lane, tail));
        }
        if scanned.groups.is_empty() {
            let entry = Entry {
                lane,
                salt: found.header.salt,
                len: 0,
                stage: Stage::Free { last_lsn: 0 },
            };
            self.free.insert(number, entry);
            return Ok(readable);
        }
        add_to_index(&mut self.index, found.header, &found.file, &scanned.groups)?;
        self.kept.push(Kept {
            header: found.header,
            file: Arc::clone(&found.file),
            len: found.len,
            end: scanned.end,
            last_lsn,
            cut: scanned.cut,
        });
        Ok(readable)
    }
}

fn path_of<F>(found: &Found<F>) -> String {
    segment_path(found.header.number)
}

/// Up to where the next segments of a lane know it to be synced. The first group of a segment is written when all before it is.
fn synced_by_next<F: LogFile>(found: &Found<F>, later: &[Found<F>]) -> Result<Option<u64>> {
    if found.entry.is_none() {
        return Ok(later.first().map(|next| next.header.synced_lsn));
    }
    for next in later {
        let first = first_group(next).map_err(|e| from_io(&path_of(next), &e))?;
        if let Some(group) = first {
            return Ok(Some(group.synced_lsn));
        }
    }
    Ok(None)
}

/// The first group of a segment, if it is whole.
fn first_group<F: LogFile>(found: &Found<F>) -> std::io::Result<Option<GroupHeader>> {
    let at = SEGMENT_HEADER_LEN as u64;
    let head = found.file.read(at, format::GROUP_HEADER_LEN)?;
    let Some(group) = GroupHeader::decode(&head) else {
        return Ok(None);
    };
    if u64::from(group.body_len) > found.len {
        return Ok(None);
    }
    let body_at = at + format::GROUP_HEADER_LEN as u64;
    let body = found.file.read(body_at, group.body_len as usize)?;
    let whole = body.len() == group.body_len as usize && group.matches(found.header.salt, &body);
    Ok(whole.then_some(group))
}

/// Reads the headers of all segments, and compares them with the list.
async fn list<D: Disk>(disk: &D, listed: Option<&Segments>) -> Result<Listing<D::File>> {
    let names = disk.list(DIR).map_err(|e| from_io("listing the log", &e))?;
    let mut listing = Listing {
        lanes: BTreeMap::new(),
        garbage: Vec::new(),
        free: BTreeMap::new(),
        last_segment: 0,
    };
    let entries = listed.map(|listed| &listed.entries);
    let mut missing = entries.cloned().unwrap_or_default();
    for name in &names {
        let unfinished = name.strip_suffix(UNFINISHED);
        let Some(number) = super::segment_number(unfinished.unwrap_or(name)) else {
            tracing::warn!(name, "a file in the log's directory that is not the log's");
            continue;
        };
        listing.last_segment = listing.last_segment.max(number);
        if unfinished.is_some() {
            listing.garbage.push(format!("{DIR}/{name}"));
            continue;
        }
        let path = segment_path(number);
        let entry = missing.remove(&number);
        if let Some(entry) = entry
            && matches!(entry.stage, Stage::Free { .. })
        {
            listing.free.insert(number, entry);
            continue;
        }
        let file = disk
            .open(&path)
            .await
            .map_err(|e| from_io(&format!("opening {path}"), &e))?;
        let found = match (entries, entry) {
            (None, _) => begin(number, file),
            (Some(_), None) => unlisted(number, file).map(|()| None),
            (Some(_), Some(entry)) => begin_listed(number, file, entry).map(Some),
        };
        match found.map_err(|e| e.context(&path))? {
            // Names are sorted, and their numbers have equal lengths.
            Some(found) => {
                let lane = listing.lanes.entry(found.header.lane).or_default();
                lane.push(found);
            }
            None => listing.garbage.push(path),
        }
    }
    for (number, entry) in missing {
        listing.last_segment = listing.last_segment.max(number);
        if !matches!(entry.stage, Stage::Free { .. }) {
            return Err(Error::corrupt(format!(
                "{} is missing: '{}' has it",
                segment_path(number),
                registry::FILE
            )));
        }
        // Removed before the last process could note it.
        listing.free.insert(number, entry);
    }
    Ok(listing)
}

fn check_len<F: LogFile>(file: &F) -> Result<u64> {
    let len = file.len().map_err(|e| from_io("its length", &e))?;
    if len > SEGMENT_BYTES_MAX {
        return Err(Error::corrupt(format!(
            "{len} bytes are more than a segment ever has ({SEGMENT_BYTES_MAX})"
        )));
    }
    Ok(len)
}

fn read_header<F: LogFile>(file: &F) -> Result<Result<Option<SegmentHeader>>> {
    let head = file
        .read(0, SEGMENT_HEADER_LEN)
        .map_err(|e| from_io("reading its header", &e))?;
    Ok(SegmentHeader::decode(&head))
}

fn check_number(number: u64, header: &SegmentHeader) -> Result<()> {
    if header.number != number {
        return Err(Error::corrupt(format!(
            "the segment's header says number {}",
            header.number
        )));
    }
    Ok(())
}

/// Reads the header of a segment of a program that kept no list; `None` if it was never begun.
fn begin<F: LogFile>(number: u64, file: F) -> Result<Option<Found<F>>> {
    let len = check_len(&file)?;
    let header = match read_header(&file)? {
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
    check_number(number, &header)?;
    if header.version != format::VERSION_UNLISTED {
        return Err(Error::corrupt(format!(
            "the file '{}', which has the segments, is missing",
            registry::FILE
        )));
    }
    Ok(Some(Found {
        header,
        file: Arc::new(file),
        len,
        entry: None,
    }))
}

/// Looks at a file that the list does not have: one that was made and not entered, or a copy of a tail whose start did not live
/// to enter it. Anything else is not ours to remove.
fn unlisted<F: LogFile>(number: u64, file: F) -> Result<()> {
    let len = check_len(&file)?;
    let header = read_header(&file)?;
    let content = Content::read(&file, len).map_err(|e| from_io("reading it", &e))?;
    let start = SEGMENT_HEADER_LEN as u64;
    if !content.has_candidate(start) {
        return Ok(());
    }
    if let Some(header) = header? {
        check_number(number, &header)?;
        let first = content.group(header.salt, start);
        if first.is_some_and(|(group, _)| group.synced_lsn >= group.last_lsn) {
            return Ok(());
        }
    }
    Err(Error::corrupt(format!(
        "the segment holds records, and '{}' does not have it",
        registry::FILE
    )))
}

/// Reads the header of a segment that the list has.
fn begin_listed<F: LogFile>(number: u64, file: F, entry: Entry) -> Result<Found<F>> {
    let len = check_len(&file)?;
    if len < entry.len {
        return Err(Error::corrupt(format!(
            "the segment has {len} bytes, it was made with {}",
            entry.len
        )));
    }
    let header = read_header(&file)??;
    let header = header.ok_or_else(|| Error::corrupt("the segment's header is gone"))?;
    check_number(number, &header)?;
    if (header.lane, header.salt) != (entry.lane, entry.salt) {
        return Err(Error::corrupt(format!(
            "the segment is another one than '{}' has under its number",
            registry::FILE
        )));
    }
    Ok(Found {
        header,
        file: Arc::new(file),
        len,
        entry: Some(entry),
    })
}

/// Reads the groups of a segment from its beginning, up to a place.
fn read_groups(content: &Content, salt: u64, stop: u64) -> (Vec<Group>, u64) {
    let mut groups = Vec::new();
    let mut end = SEGMENT_HEADER_LEN as u64;
    while end < stop
        && let Some((group, body)) = content.group(salt, end)
    {
        groups.push((end, group, body));
        end += group.total_len() as u64;
    }
    (groups, end)
}

/// Reads a segment and judges it.
fn scan<F: LogFile>(found: &Found<F>, beside: Beside) -> Result<Scanned<F>> {
    if let Some(Entry {
        stage: Stage::Sealed { end, last_lsn },
        ..
    }) = found.entry
    {
        return scan_sealed(found, end, last_lsn);
    }
    let header = found.header;
    let content = Content::read(&*found.file, found.len).map_err(|e| from_io("reading it", &e))?;
    let (mut groups, end) = read_groups(&content, header.salt, found.len);
    let beyond = content.groups_beyond(header.salt, end);
    let whole = groups.iter().map(|(_, group, _)| group);
    let claims = whole.clone().chain(&beyond).map(|group| group.synced_lsn);
    // The mark may speak of what is in the next segments.
    let known = beside.next.unwrap_or(beside.mark);
    let synced = claims.fold(header.synced_lsn.max(known), u64::max);
    let lsns = whole.chain(&beyond).map(|group| group.last_lsn);
    let last_lsn = lsns.fold(header.synced_lsn, u64::max);
    let readable = groups
        .last()
        .map_or(beside.before, |(_, group, _)| group.last_lsn);
    if synced > readable {
        return Err(Error::corrupt(format!(
            "the segment is damaged at byte {end}: records up to LSN {synced} were durable, it is readable up to LSN {readable} only"
        )));
    }
    // What a successor supersedes goes; what nobody knows to be durable is the tail.
    let kept =
        groups.partition_point(|(_, group, _)| group.last_lsn <= beside.next.unwrap_or(synced));
    let above = groups.split_off(kept);
    let end = above.first().map_or(end, |(start, _, _)| *start);
    let tail = if beside.next.is_some() || above.is_empty() {
        None
    } else {
        Some(tail_of(found, &groups, &above, beside.before)?)
    };
    let superseded = if tail.is_some() { 0 } else { above.len() };
    if superseded > 0 && found.entry.is_some() {
        return Err(Error::corrupt(format!(
            "the segment has records above LSN {known}, where the next one begins"
        )));
    }
    Ok(Scanned {
        groups,
        end: end.min(found.len),
        cut: beyond.len() + superseded,
        tail,
        last_lsn,
    })
}

/// Reads a segment that is known to have been durable up to its end.
fn scan_sealed<F: LogFile>(found: &Found<F>, sealed: u64, last_lsn: u64) -> Result<Scanned<F>> {
    let content = Content::read(&*found.file, found.len).map_err(|e| from_io("reading it", &e))?;
    let (groups, end) = read_groups(&content, found.header.salt, sealed);
    let last = groups.last().map_or(0, |(_, group, _)| group.last_lsn);
    if end != sealed || last != last_lsn {
        return Err(Error::corrupt(format!(
            "the segment is damaged at byte {end}: it was durable up to byte {sealed}, LSN {last_lsn}, it is readable up to LSN {last} only"
        )));
    }
    Ok(Scanned {
        groups,
        end,
        cut: 0,
        tail: None,
        last_lsn,
    })
}

/// The groups above what is known to be durable.
fn tail_of<F>(found: &Found<F>, kept: &[Group], above: &[Group], before: u64) -> Result<Tail<F>> {
    let mut names = BTreeMap::new();
    for (_, group, body) in kept {
        for record in format::records(group, body.clone())? {
            if let Record::Name { id, path } = record {
                names.insert(id, path.as_str().into());
            }
        }
    }
    let synced_lsn = kept.last().map_or(before, |(_, group, _)| group.last_lsn);
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
pub(super) fn add_to_index<F>(
    index: &mut Index<F>,
    header: SegmentHeader,
    file: &Arc<F>,
    groups: &[Group],
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

/// Reads bytes as a segment, of a log with a list and of one without. What is kept and what is cut do not overlap.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_segment(data: &[u8]) {
    registry::fuzz(data);
    let image = || Image(Bytes::copy_from_slice(data));
    let number = data.get(16..24).map_or(0, |bytes| {
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    });
    // Refusals are as good as answers here and below.
    let _ = begin(number, image());
    let _ = unlisted(number, image());
    let Ok(Ok(Some(header))) = read_header(&image()) else {
        return;
    };
    let len = data.len() as u64;
    let sealed = Stage::Sealed {
        end: len,
        last_lsn: header.synced_lsn,
    };
    let listed = [Some(Stage::Open), Some(sealed), None].map(|stage| {
        stage.map(|stage| Entry {
            lane: header.lane,
            salt: header.salt,
            len,
            stage,
        })
    });
    for entry in listed {
        for next in [None, Some(header.synced_lsn)] {
            let found = Found {
                header,
                file: Arc::new(image()),
                len,
                entry,
            };
            let beside = Beside {
                before: header.synced_lsn,
                next,
                mark: 0,
            };
            let Ok(scanned) = scan(&found, beside) else {
                continue;
            };
            assert!(scanned.end <= len.max(SEGMENT_HEADER_LEN as u64));
            let _ = add_to_index(&mut Index::new(), header, &found.file, &scanned.groups);
        }
    }
}

#[cfg(test)]
mod tests;
