//! What lies in which segment: for replay (where are a database's groups) and for truncation (whose unflushed rows hold a
//! segment back, C15).
//!
//! Pure bookkeeping: it must not know of tasks, and touches no file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::format::Record;

/// Where a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupRef {
    /// Bytes from the segment's start.
    pub(crate) offset: u64,
    /// Last LSN in the group.
    pub(crate) last_lsn: u64,
}

/// What one database has in one segment.
#[derive(Debug, Default)]
struct Share {
    /// Its number in this segment.
    id: u32,
    /// Its last LSN here.
    max_lsn: u64,
    /// Its last sequence number here, 0 if it has no rows here.
    max_sequence: u64,
    /// Its last record here that says it is deleted, 0 for none.
    deleted_lsn: u64,
    groups: Vec<GroupRef>,
}

/// One segment.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) lane: u32,
    pub(crate) salt: u64,
    pub(crate) file: Arc<F>,
    /// Nothing is written to it any more.
    pub(crate) sealed: bool,
    databases: BTreeMap<Arc<str>, Share>,
}

/// All segments of a data directory, by number.
#[derive(Debug)]
pub(crate) struct Index<F> {
    segments: BTreeMap<u64, Segment<F>>,
    /// Up to which LSN a database is safe in its own files, by its record at the last close.
    flushed: BTreeMap<Arc<str>, u64>,
    /// Up to which LSN a database is deleted.
    deleted: BTreeMap<Arc<str>, u64>,
}

/// A group to replay.
#[derive(Debug)]
pub(crate) struct ReplayGroup<F> {
    pub(crate) segment: u64,
    pub(crate) salt: u64,
    pub(crate) file: Arc<F>,
    /// The database's number in the segment.
    pub(crate) id: u32,
    pub(crate) at: GroupRef,
}

impl<F> Index<F> {
    pub(crate) fn new() -> Self {
        Self {
            segments: BTreeMap::new(),
            flushed: BTreeMap::new(),
            deleted: BTreeMap::new(),
        }
    }

    pub(crate) fn add_segment(&mut self, number: u64, lane: u32, salt: u64, file: Arc<F>) {
        let segment = Segment {
            lane,
            salt,
            file,
            sealed: false,
            databases: BTreeMap::new(),
        };
        let old = self.segments.insert(number, segment);
        assert!(old.is_none(), "segment numbers are never reused");
    }

    pub(crate) fn seal(&mut self, number: u64) {
        self.segments
            .get_mut(&number)
            .expect("a segment is added before it is sealed")
            .sealed = true;
    }

    fn share(&mut self, number: u64, path: &Arc<str>, lsn: u64) -> &mut Share {
        let segment = self
            .segments
            .get_mut(&number)
            .expect("a segment is added before its groups");
        let share = segment.databases.entry(Arc::clone(path)).or_default();
        share.max_lsn = share.max_lsn.max(lsn);
        share
    }

    /// Notes which number a database has in a segment.
    pub(crate) fn note_name(&mut self, number: u64, path: &Arc<str>, id: u32) {
        self.share(number, path, 0).id = id;
    }

    /// Notes rows or a fence of a database in a group.
    pub(crate) fn note(
        &mut self,
        number: u64,
        path: &Arc<str>,
        at: GroupRef,
        lsn: u64,
        sequence: u64,
    ) {
        let share = self.share(number, path, lsn);
        share.max_sequence = share.max_sequence.max(sequence);
        if share.groups.last() != Some(&at) {
            share.groups.push(at);
        }
    }

    /// Notes that a database is safe in its own files up to an LSN.
    pub(crate) fn note_flushed(&mut self, number: u64, path: &Arc<str>, lsn: u64) {
        self.share(number, path, lsn);
        let known = self.flushed.entry(Arc::clone(path)).or_default();
        *known = (*known).max(lsn);
    }

    /// Notes that a database is deleted up to an LSN, by a record in a group.
    pub(crate) fn note_deleted(&mut self, number: u64, path: &Arc<str>, at: GroupRef, lsn: u64) {
        let share = self.share(number, path, lsn);
        share.deleted_lsn = lsn;
        // Who follows the database reads it.
        if share.groups.last() != Some(&at) {
            share.groups.push(at);
        }
        let known = self.deleted.entry(Arc::clone(path)).or_default();
        *known = (*known).max(lsn);
    }

    /// Notes a record read from a segment.
    pub(crate) fn note_record(
        &mut self,
        number: u64,
        path: &Arc<str>,
        at: GroupRef,
        record: &Record,
    ) {
        match record {
            Record::Name { .. } => {}
            Record::Rows { lsn, sequence, .. } => self.note(number, path, at, *lsn, *sequence),
            Record::Fence { lsn, .. } => self.note(number, path, at, *lsn, 0),
            Record::Flushed { lsn, .. } => self.note_flushed(number, path, *lsn),
            Record::Deleted { lsn, .. } => self.note_deleted(number, path, at, *lsn),
        }
    }

    /// The groups that hold something of a database, in the order of its LSNs. One database is in one lane at a time and its
    /// next lane begins after all it had in the last one is durable, so the order of the groups' last LSNs is that order.
    pub(crate) fn groups_of(&self, path: &str) -> Vec<ReplayGroup<F>> {
        let mut groups: Vec<_> = self
            .segments
            .iter()
            .filter_map(|(number, segment)| {
                let share = segment.databases.get(path)?;
                Some(share.groups.iter().map(move |at| ReplayGroup {
                    segment: *number,
                    salt: segment.salt,
                    file: Arc::clone(&segment.file),
                    id: share.id,
                    at: *at,
                }))
            })
            .flatten()
            .collect();
        groups.sort_by_key(|group| (group.at.last_lsn, group.segment, group.at.offset));
        groups
    }

    /// The first group behind an LSN that holds something of a database, and its lane.
    pub(crate) fn next_group(&self, path: &str, after: u64) -> Option<(u32, ReplayGroup<F>)> {
        let groups = self.segments.iter().filter_map(|(number, segment)| {
            let share = segment.databases.get(path)?;
            let next = share.groups.partition_point(|at| at.last_lsn <= after);
            let at = *share.groups.get(next)?;
            let group = ReplayGroup {
                segment: *number,
                salt: segment.salt,
                file: Arc::clone(&segment.file),
                id: share.id,
                at,
            };
            Some((segment.lane, group))
        });
        groups.min_by_key(|(_, group)| group.at.last_lsn)
    }

    /// Up to which LSN a database of this path was deleted, 0 for never.
    pub(crate) fn deleted_up_to(&self, path: &str) -> u64 {
        self.deleted.get(path).copied().unwrap_or(0)
    }

    /// Whether a database has rows in the log that are not known to be in its own files. `replay_after` is the LSN that its manifest
    /// says. True also for some that are: what a crash left is known only once the database is opened again.
    pub(crate) fn has_unflushed(&self, path: &str, replay_after: u64) -> bool {
        let flushed = self.flushed.get(path).copied().unwrap_or(0);
        let safe = replay_after.max(flushed).max(self.deleted_up_to(path));
        self.segments.values().any(|segment| {
            let share = segment.databases.get(path);
            share.is_some_and(|share| share.max_sequence > 0 && share.max_lsn > safe)
        })
    }

    fn released(
        &self,
        number: u64,
        segment: &Segment<F>,
        flushed_sequence: &impl Fn(&str) -> Option<u64>,
        wanted_above: &impl Fn(&str) -> Option<u64>,
    ) -> Result<(), Option<Arc<str>>> {
        for (path, share) in &segment.databases {
            let safe = share.max_sequence == 0
                || share.max_lsn <= self.deleted_up_to(path)
                || share.max_lsn <= self.flushed.get(path).copied().unwrap_or(0)
                || flushed_sequence(path).is_some_and(|flushed| flushed >= share.max_sequence);
            // What says that a database is deleted stays until everything it speaks of is gone.
            let speaks_of = |older: &Segment<F>| {
                older
                    .databases
                    .get(path)
                    .is_some_and(|other| other.max_lsn < share.deleted_lsn)
            };
            let needed = share.deleted_lsn > 0
                && self
                    .segments
                    .iter()
                    .any(|(other, older)| *other != number && speaks_of(older));
            if !safe || needed {
                return Err(Some(Arc::clone(path)));
            }
        }
        let wanted = segment.databases.iter().any(|(path, share)| {
            !share.groups.is_empty()
                && wanted_above(path).is_some_and(|confirmed| share.max_lsn > confirmed)
        });
        if wanted { Err(None) } else { Ok(()) }
    }

    /// The sealed segments that nobody needs, oldest first in each lane, and the databases that hold back the oldest others.
    /// `flushed_sequence` tells up to where an open database's rows are in its own files, `wanted_above` behind which LSN they are
    /// held back all the same, for followers, which no flush changes.
    pub(crate) fn releasable(
        &self,
        flushed_sequence: impl Fn(&str) -> Option<u64>,
        wanted_above: impl Fn(&str) -> Option<u64>,
    ) -> (Vec<u64>, Vec<Arc<str>>) {
        let mut free = Vec::new();
        let mut pinned_by = Vec::new();
        let mut stuck_lanes = std::collections::BTreeSet::new();
        for (number, segment) in &self.segments {
            if !segment.sealed || stuck_lanes.contains(&segment.lane) {
                continue;
            }
            match self.released(*number, segment, &flushed_sequence, &wanted_above) {
                Ok(()) => free.push(*number),
                Err(path) => {
                    stuck_lanes.insert(segment.lane);
                    pinned_by.extend(path);
                }
            }
        }
        (free, pinned_by)
    }

    /// Forgets a segment whose file is gone.
    pub(crate) fn remove(&mut self, number: u64) {
        self.segments.remove(&number);
        let named: std::collections::BTreeSet<Arc<str>> = self
            .segments
            .values()
            .flat_map(|segment| segment.databases.keys().map(Arc::clone))
            .collect();
        self.flushed.retain(|path, _| named.contains(path));
        self.deleted.retain(|path, _| named.contains(path));
    }

    /// Number of segments.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> Arc<str> {
        name.into()
    }

    fn at(offset: u64, last_lsn: u64) -> GroupRef {
        GroupRef { offset, last_lsn }
    }

    fn index(segments: &[(u64, u32)]) -> Index<()> {
        let mut index = Index::new();
        for (number, lane) in segments {
            index.add_segment(*number, *lane, 0, Arc::new(()));
            index.seal(*number);
        }
        index
    }

    #[test]
    fn a_segment_goes_when_all_in_it_is_flushed_and_all_before_it_is_gone() {
        let mut index = index(&[(1, 0), (2, 0), (3, 1)]);
        let (a, b) = (path("a"), path("b"));
        index.note(1, &a, at(64, 5), 5, 50);
        index.note(1, &b, at(64, 5), 4, 7);
        index.note(2, &a, at(64, 9), 9, 60);
        index.note(3, &a, at(64, 12), 12, 70);
        let none = |_: &str| None;
        let (free, pinned) = index.releasable(none, none);
        assert!(free.is_empty());
        assert_eq!(pinned, [Arc::clone(&a), Arc::clone(&a)]);
        // `b` idle with one unflushed row holds everything of the lane back.
        let a_flushed = |path: &str| (path == "a").then_some(70);
        let (free, pinned) = index.releasable(a_flushed, none);
        assert_eq!((free, pinned), (vec![3], vec![Arc::clone(&b)]));
        let both = |path: &str| Some(if path == "a" { 65 } else { 7 });
        assert_eq!(index.releasable(both, none).0, [1, 2]);
        // Somebody follows `b` and has not seen its last row.
        let wanted = |path: &str| (path == "b").then_some(3);
        assert_eq!(
            index.releasable(both, wanted),
            (vec![], vec![Arc::clone(&a)])
        );
        let (lane, group) = index.next_group("a", 5).unwrap();
        assert_eq!((lane, group.segment, group.at.last_lsn), (0, 2, 9));
        assert!(index.next_group("a", 12).is_none());
    }

    #[test]
    fn records_of_closed_and_deleted_databases_free_segments() {
        let mut index = index(&[(1, 0), (2, 1)]);
        let a = path("a");
        index.note(1, &a, at(64, 5), 5, 50);
        index.note_deleted(2, &a, at(64, 9), 9);
        assert_eq!(index.deleted_up_to("a"), 9);
        // The deletion itself is needed as long as segment 1 exists.
        assert_eq!(index.releasable(|_| None, |_| None).0, [1]);
        index.remove(1);
        assert_eq!(index.releasable(|_| None, |_| None).0, [2]);
        index.remove(2);
        assert_eq!(index.deleted_up_to("a"), 0);
    }

    #[test]
    fn rows_that_are_in_no_file_are_known() {
        let mut index = index(&[(1, 0), (2, 0)]);
        let a = path("a");
        assert!(!index.has_unflushed("a", 0));
        index.note(1, &a, at(64, 2), 2, 0);
        assert!(!index.has_unflushed("a", 0), "a fence is no row");
        index.note(1, &a, at(64, 5), 5, 50);
        assert!(index.has_unflushed("a", 4));
        assert!(!index.has_unflushed("a", 5), "the manifest has it");
        index.note_flushed(1, &a, 6);
        assert!(!index.has_unflushed("a", 0));
        index.note(2, &a, at(64, 8), 8, 51);
        assert!(index.has_unflushed("a", 0));
        index.note_deleted(2, &a, at(64, 9), 9);
        assert!(!index.has_unflushed("a", 0));
    }

    #[test]
    fn groups_come_in_order_over_lanes() {
        let mut index = index(&[(1, 1), (2, 0)]);
        let a = path("a");
        index.note(2, &a, at(64, 3), 3, 1);
        index.note(1, &a, at(64, 8), 8, 3);
        index.note(2, &a, at(128, 6), 5, 2);
        index.note(2, &a, at(128, 6), 6, 2);
        let order: Vec<_> = index.groups_of("a").iter().map(|g| g.at.last_lsn).collect();
        assert_eq!(order, [3, 6, 8]);
    }
}
