//! A segment's bytes without its holes: most of a preallocated file was never written, and a start must not read it.
//!
//! A hole is zeros, nothing else: a power cut may leave one anywhere in what was not synced, and a file system may make one of
//! zeros that were written. This module must not know of lanes or of what is durable.

use std::io;

use bytes::Bytes;
use cadastre_env::LogFile;

use super::format::{GROUP_ALIGN, GROUP_HEADER_LEN, GroupHeader};

/// Runs of data that are no further apart than this are read as one, bytes: a seek costs more than the zeros between.
const GAP: u64 = 64 * 1024;

/// What a file holds.
pub(super) struct Content {
    len: u64,
    /// Runs by where they begin.
    runs: Vec<(u64, Bytes)>,
}

impl Content {
    /// Reads a file of this length.
    pub(super) fn read<F: LogFile>(file: &F, len: u64) -> io::Result<Self> {
        let mut ranges: Vec<std::ops::Range<u64>> = Vec::new();
        let mut at = 0;
        while at < len
            && let Some(data) = file.next_data(at)?
        {
            at = data.end.max(at + 1);
            match ranges.last_mut() {
                Some(last) if data.start.saturating_sub(last.end) <= GAP => last.end = data.end,
                _ => ranges.push(data),
            }
        }
        let runs = ranges.into_iter().map(|range| {
            let bytes = file.read(range.start, (range.end - range.start) as usize)?;
            Ok((range.start, bytes))
        });
        Ok(Self {
            len,
            runs: runs.collect::<io::Result<_>>()?,
        })
    }

    /// Bytes at an offset, holes as zeros; `None` if they do not lie inside the file.
    fn get(&self, at: u64, len: usize) -> Option<Bytes> {
        let end = at.checked_add(len as u64).filter(|end| *end <= self.len)?;
        let next = self.runs.partition_point(|(start, _)| *start <= at);
        if let Some((start, bytes)) = next.checked_sub(1).map(|run| &self.runs[run])
            && end <= start + bytes.len() as u64
        {
            let from = (at - start) as usize;
            return Some(bytes.slice(from..from + len));
        }
        let mut whole = vec![0; len];
        for (start, bytes) in &self.runs[next.saturating_sub(1)..] {
            let from = at.max(*start);
            let to = end.min(start + bytes.len() as u64);
            if from < to {
                let part = &bytes[(from - start) as usize..(to - start) as usize];
                whole[(from - at) as usize..(to - at) as usize].copy_from_slice(part);
            }
            if *start >= end {
                break;
            }
        }
        Some(whole.into())
    }

    /// The group at an offset, with its body, if it is whole.
    pub(super) fn group(&self, salt: u64, at: u64) -> Option<(GroupHeader, Bytes)> {
        let header = GroupHeader::decode(&self.get(at, GROUP_HEADER_LEN)?)?;
        let body = self.get(at + GROUP_HEADER_LEN as u64, header.body_len as usize)?;
        header.matches(salt, &body).then_some((header, body))
    }

    /// Places at or behind an offset where something begins like a group.
    fn candidates(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let align = GROUP_ALIGN as u64;
        self.runs.iter().flat_map(move |(start, bytes)| {
            let first = (*start).max(from).next_multiple_of(align);
            let end = start + bytes.len() as u64;
            (first..end)
                .step_by(GROUP_ALIGN)
                // Most of what is here are zeros.
                .filter(move |at| bytes[(at - start) as usize] != 0)
                .filter(|at| {
                    let head = self.get(*at, GROUP_HEADER_LEN);
                    head.is_some_and(|head| GroupHeader::decode(&head).is_some())
                })
        })
    }

    /// Whether anything behind an offset begins like a group.
    pub(super) fn has_candidate(&self, from: u64) -> bool {
        self.candidates(from).next().is_some()
    }

    /// Whole groups behind a place where there should be one and is none.
    pub(super) fn groups_beyond(&self, salt: u64, end: u64) -> Vec<GroupHeader> {
        let mut found = Vec::new();
        let mut behind = end;
        for at in self.candidates(end + GROUP_ALIGN as u64) {
            if at < behind {
                continue;
            }
            if let Some((group, _)) = self.group(salt, at) {
                behind = at + group.total_len() as u64;
                found.push(group);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::ops::Range;

    use super::*;

    /// Bytes with chosen holes in what is told of them.
    struct Sparse(Vec<u8>, Vec<Range<u64>>);

    impl LogFile for Sparse {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn read(&self, at: u64, len: usize) -> io::Result<Bytes> {
            Ok(Bytes::copy_from_slice(
                &self.0[at as usize..at as usize + len],
            ))
        }
        fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
            let next = self.1.iter().find(|range| range.end > from);
            Ok(next.map(|range| range.start.max(from)..range.end))
        }
        fn sync_data(&self) -> impl Future<Output = io::Result<()>> + Send {
            std::future::ready(Ok(()))
        }
        fn truncate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
    }

    #[test]
    fn holes_are_zeros_wherever_they_are() {
        let len = 5 * GAP as usize;
        let mut bytes = vec![0; len];
        let ranges = vec![8..20, GAP * 2..GAP * 2 + 100, GAP * 4..len as u64];
        for range in &ranges {
            bytes[range.start as usize..range.end as usize].fill(7);
        }
        let file = Sparse(bytes.clone(), ranges);
        let content = Content::read(&file, len as u64).unwrap();
        assert_eq!(content.runs.len(), 3);
        for at in [
            0,
            7,
            8,
            19,
            20,
            1000,
            GAP * 2 - 1,
            GAP * 2 + 99,
            GAP * 4 - 3,
        ] {
            for some in [1, 2, 50, GAP as usize, 2 * GAP as usize] {
                let expected = bytes.get(at as usize..at as usize + some);
                let got = content.get(at, some);
                assert_eq!(got.as_deref(), expected, "{some} bytes at {at}");
            }
        }
        assert_eq!(content.get(0, len).as_deref(), Some(&bytes[..]));
        assert!(content.get(1, len).is_none());
    }
}
