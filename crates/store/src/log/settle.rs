//! Making of a log that was read and judged ([`super::recover`]) what the lanes begin with: tails are copied, the list of segments is
//! written, and then, not before, what it no longer has is cut and removed. A crash anywhere leaves a log that says the same.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use cadastre_env::{Disk, Env, LogFile};
use cadastre_types::{Error, Result};

use super::format::SEGMENT_HEADER_LEN;
use super::index::Index;
use super::recover::{Judged, Kept, add_to_index};
use super::registry::{Entry, LANES_MAX, Registry, Segments, Stage};
use super::tail;
use super::{DIR, segment_path};
use crate::error::from_io;

/// What the lanes begin with.
pub(crate) struct Settled<F> {
    pub(super) index: Index<F>,
    pub(super) registry: Registry<F>,
    /// Highest LSN that was ever used, as far as the log knows.
    pub(super) last_lsn: u64,
    /// Highest segment number.
    pub(super) last_segment: u64,
    /// What is now durable of each lane.
    pub(super) lanes: BTreeMap<u32, u64>,
}

/// Changes the disk; until here nothing did.
pub(super) async fn settle<E: Env>(
    env: &E,
    judged: Judged<<E::Disk as Disk>::File>,
    lanes: u32,
) -> Result<Settled<<E::Disk as Disk>::File>> {
    if lanes as usize > LANES_MAX {
        return Err(Error::invalid(format!(
            "{lanes} serving cores are more than {LANES_MAX}"
        )));
    }
    let disk = env.disk();
    // First what makes room.
    for path in &judged.garbage {
        disk.remove(path)
            .map_err(|e| from_io(&format!("removing the unused {path}"), &e))?;
    }
    let (mut index, mut last_segment) = (judged.index, judged.last_segment);
    let mut segments = Segments {
        floors: judged.floors,
        entries: judged.free,
    };
    for kept in &judged.kept {
        let stage = Stage::Sealed {
            end: kept.end,
            last_lsn: kept.last_lsn,
        };
        segments
            .entries
            .insert(kept.header.number, entry(&kept.header, kept.end, stage));
    }
    for (lane, tail) in &judged.tails {
        last_segment += 1;
        let copied = tail::copy(env, *lane, last_segment, tail).await?;
        add_to_index(&mut index, copied.header, &copied.file, &copied.groups)?;
        let stage = Stage::Sealed {
            end: copied.end,
            last_lsn: copied.last_lsn,
        };
        segments
            .entries
            .insert(last_segment, entry(&copied.header, copied.end, stage));
    }
    if !judged.tails.is_empty() || !judged.garbage.is_empty() {
        // What the list is about to have must be there whatever comes.
        sync_dir(disk).await?;
    }
    for lane in (0..lanes).chain(judged.readable.keys().copied()) {
        segments.floors.entry(lane).or_default();
    }
    let marks = segments.floors.iter().filter_map(|(lane, floor)| {
        let durable = judged.readable.get(lane).copied().unwrap_or(*floor);
        ((*lane as usize) < LANES_MAX).then_some((*lane, durable))
    });
    let marks: BTreeMap<u32, u64> = marks.collect();
    let free = free_of(&segments);
    let registry = Registry::begin(disk, judged.loaded, segments, &marks).await?;
    for number in &free {
        remove_free(disk, *number)?;
    }
    if !free.is_empty() {
        sync_dir(disk).await?;
        registry.forget(&free);
    }
    for kept in judged.kept.iter().filter(|kept| kept.end != kept.len) {
        cut(kept).await?;
    }
    Ok(Settled {
        index,
        registry,
        last_lsn: judged.last_lsn,
        last_segment,
        lanes: judged.readable,
    })
}

fn entry(header: &super::format::SegmentHeader, len: u64, stage: Stage) -> Entry {
    Entry {
        lane: header.lane,
        salt: header.salt,
        len,
        stage,
    }
}

fn free_of(segments: &Segments) -> Vec<u64> {
    let free = segments.entries.iter();
    let free = free.filter(|(_, entry)| matches!(entry.stage, Stage::Free { .. }));
    free.map(|(number, _)| *number).collect()
}

async fn sync_dir<D: Disk>(disk: &D) -> Result<()> {
    disk.sync_dir(DIR)
        .await
        .map_err(|e| from_io("syncing the log's directory", &e))
}

/// Removes the file of a segment that the list has as free, if it is still there.
pub(super) fn remove_free<D: Disk>(disk: &D, number: u64) -> Result<()> {
    let path = segment_path(number);
    match disk.remove(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(from_io(&format!("removing {path}"), &error))
        }
        _ => Ok(()),
    }
}

/// Cuts a segment behind what stays, durably: what was never durable, or is in a copy now, must not come back later.
async fn cut<F: LogFile>(kept: &Kept<F>) -> Result<()> {
    let path = segment_path(kept.header.number);
    if kept.cut > 0 {
        let groups = kept.cut;
        tracing::warn!(path, groups, "cutting groups that were never durable");
    }
    assert!(
        kept.end >= SEGMENT_HEADER_LEN as u64,
        "the header of a segment stays"
    );
    kept.file
        .truncate(kept.end)
        .map_err(|e| from_io(&format!("cutting {path}"), &e))?;
    kept.file
        .sync_data()
        .await
        .map_err(|e| from_io(&format!("syncing {path}"), &e))
}
