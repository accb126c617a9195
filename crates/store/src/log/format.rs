//! The bytes of the log: segment header, groups, records.
//!
//! ```text
//! segment: header (64) | group* | zeros to the preallocated end
//! header:  "CADALOG1" | version u32 (2; 1 was the same, before there was `log-segments`) | lane u32 | number u64 | salt u64 | synced LSN u64 | crc32 of the 40 bytes before | zeros
//! group:   magic u32 | body length u32 | crc32 u32 | records u32 | last LSN u64 | synced LSN u64 | body | zeros to 8 bytes
//! record:  kind u8 | fields
//! ```
//! Fixed fields are little endian, the rest LEB128 varints. A group's crc is over the segment's salt, the header behind the
//! crc, and the body, so that neither another segment's bytes nor a client's value can pass for a group. A group is what one
//! write (and one fdatasync) made durable; its synced LSN is the highest LSN of its lane that was known to be durable when the
//! group was written, which tells a torn tail from damage (C16). Regions are named by a number that holds inside the segment
//! only and is defined by a record before its first use (C14), so numbers need no home and cannot be reused wrongly.
//! This module must not know of files or tasks.

use bytes::{Buf, Bytes};
use cadastre_types::{Error, Result};
use slatedb::{RowEntry, ValueDeletable};

use crate::packed::{get_bytes, get_varint, put_varint};

pub(crate) const SEGMENT_HEADER_LEN: usize = 64;
pub(crate) const GROUP_HEADER_LEN: usize = 32;
const SEGMENT_MAGIC: &[u8; 8] = b"CADALOG1";
const GROUP_MAGIC: u32 = 0x0cad_a10f;

/// Segments are entered in the list of [`super::registry`] before their first group.
pub(crate) const VERSION: u32 = 2;

/// Segments of a program that kept no list.
pub(crate) const VERSION_UNLISTED: u32 = 1;

/// Groups start at multiples of this, so that they can be looked for behind a hole.
pub(crate) const GROUP_ALIGN: usize = 8;

const KIND_NAME: u8 = 1;
const KIND_ROWS: u8 = 2;
const KIND_FENCE: u8 = 3;
const KIND_FLUSHED: u8 = 4;
const KIND_DELETED: u8 = 5;

const ROW_KIND: u8 = 0x0f;
const ROW_VALUE: u8 = 0;
const ROW_MERGE: u8 = 1;
const ROW_TOMBSTONE: u8 = 2;
const ROW_CREATED: u8 = 0x10;
const ROW_EXPIRES: u8 = 0x20;

/// Longest path of a database in the log, bytes: namespace and table take at most half a row key, and this bounds what a
/// damaged record can make us believe.
const PATH_MAX: usize = 64 * 1024;

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// [`VERSION`], or an older one.
    pub(crate) version: u32,
    /// Which writer's log this is a part of.
    pub(crate) lane: u32,
    /// Number in the data directory, also in the file's name.
    pub(crate) number: u64,
    /// Random; salts the checksums.
    pub(crate) salt: u64,
    /// Everything of the lane up to here was durable when the segment was made.
    pub(crate) synced_lsn: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut out = [0; SEGMENT_HEADER_LEN];
        out[..8].copy_from_slice(SEGMENT_MAGIC);
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[12..16].copy_from_slice(&self.lane.to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..32].copy_from_slice(&self.salt.to_le_bytes());
        out[32..40].copy_from_slice(&self.synced_lsn.to_le_bytes());
        let crc = crc32fast::hash(&out[..40]);
        out[40..44].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` for zeros: a file that was made and got no header.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(bytes) = bytes.get(..SEGMENT_HEADER_LEN) else {
            return Ok(None);
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut fields = &bytes[8..44];
        let version = fields.get_u32_le();
        let header = Self {
            version,
            lane: fields.get_u32_le(),
            number: fields.get_u64_le(),
            salt: fields.get_u64_le(),
            synced_lsn: fields.get_u64_le(),
        };
        let whole = fields.get_u32_le() == crc32fast::hash(&bytes[..40]);
        if &bytes[..8] != SEGMENT_MAGIC || !whole {
            return Err(Error::corrupt("the segment's header is damaged"));
        }
        if !(VERSION_UNLISTED..=VERSION).contains(&version) {
            return Err(Error::corrupt(format!(
                "the segment has format version {version}, this program knows up to {VERSION}"
            )));
        }
        Ok(Some(header))
    }
}

/// A group's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub(crate) body_len: u32,
    pub(crate) crc: u32,
    pub(crate) records: u32,
    pub(crate) last_lsn: u64,
    pub(crate) synced_lsn: u64,
}

impl GroupHeader {
    /// Reads a header; `None` if there is none here.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bytes = bytes.get(..GROUP_HEADER_LEN)?;
        if bytes.get_u32_le() != GROUP_MAGIC {
            return None;
        }
        Some(Self {
            body_len: bytes.get_u32_le(),
            crc: bytes.get_u32_le(),
            records: bytes.get_u32_le(),
            last_lsn: bytes.get_u64_le(),
            synced_lsn: bytes.get_u64_le(),
        })
    }

    /// Bytes of the whole group in the file.
    pub(crate) fn total_len(&self) -> usize {
        (GROUP_HEADER_LEN + self.body_len as usize).next_multiple_of(GROUP_ALIGN)
    }

    /// Whether header and body are as they were written.
    pub(crate) fn matches(&self, salt: u64, body: &[u8]) -> bool {
        self.crc == group_crc(salt, self.records, self.last_lsn, self.synced_lsn, body)
    }
}

fn group_crc(salt: u64, records: u32, last_lsn: u64, synced_lsn: u64, body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&salt.to_le_bytes());
    crc.update(&records.to_le_bytes());
    crc.update(&last_lsn.to_le_bytes());
    crc.update(&synced_lsn.to_le_bytes());
    crc.update(body);
    crc.finalize()
}

/// Reads the group at the start of `bytes` if it is whole.
pub(crate) fn group_at(salt: u64, bytes: &[u8]) -> Option<(GroupHeader, &[u8])> {
    let header = GroupHeader::decode(bytes)?;
    let body = bytes
        .get(GROUP_HEADER_LEN..)?
        .get(..header.body_len as usize)?;
    header.matches(salt, body).then_some((header, body))
}

/// Builds one group.
pub(crate) struct GroupBuilder {
    bytes: Vec<u8>,
    records: u32,
}

impl GroupBuilder {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; GROUP_HEADER_LEN],
            records: 0,
        }
    }

    /// Defines the segment's number of a database.
    pub(crate) fn name(&mut self, id: u32, path: &str) {
        self.bytes.push(KIND_NAME);
        put_varint(&mut self.bytes, u64::from(id));
        put_varint(&mut self.bytes, path.len() as u64);
        self.bytes.extend_from_slice(path.as_bytes());
        self.records += 1;
    }

    /// Adds a record of a database.
    pub(crate) fn record(&mut self, id: u32, record: &Encoded) {
        self.bytes.push(record.kind);
        put_varint(&mut self.bytes, u64::from(id));
        self.bytes.extend_from_slice(&record.rest);
        self.records += 1;
    }

    /// Adds records as another group has them.
    pub(crate) fn records(&mut self, count: u32, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        self.records += count;
    }

    /// The group's bytes.
    pub(crate) fn finish(mut self, salt: u64, last_lsn: u64, synced_lsn: u64) -> Vec<u8> {
        let body_len = self.bytes.len() - GROUP_HEADER_LEN;
        let crc = group_crc(
            salt,
            self.records,
            last_lsn,
            synced_lsn,
            &self.bytes[GROUP_HEADER_LEN..],
        );
        let header = &mut self.bytes[..GROUP_HEADER_LEN];
        header[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
        let body_len = u32::try_from(body_len).expect("a group is far below 4 GiB");
        header[4..8].copy_from_slice(&body_len.to_le_bytes());
        header[8..12].copy_from_slice(&crc.to_le_bytes());
        header[12..16].copy_from_slice(&self.records.to_le_bytes());
        header[16..24].copy_from_slice(&last_lsn.to_le_bytes());
        header[24..32].copy_from_slice(&synced_lsn.to_le_bytes());
        self.bytes
            .resize(self.bytes.len().next_multiple_of(GROUP_ALIGN), 0);
        self.bytes
    }
}

/// A record but for its database's number, which is known only when it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    kind: u8,
    rest: Vec<u8>,
}

impl Encoded {
    fn new(kind: u8, fields: &[u64]) -> Self {
        let mut rest = Vec::with_capacity(fields.len() * 5);
        for field in fields {
            put_varint(&mut rest, *field);
        }
        Self { kind, rest }
    }

    /// Bytes in a group, at most.
    pub(crate) fn len(&self) -> usize {
        1 + 5 + self.rest.len()
    }

    /// The rows of one write, which all have the same sequence number.
    pub(crate) fn rows(epoch: u64, lsn: u64, sequence: u64, rows: &[RowEntry]) -> Self {
        let payload: usize = rows.iter().map(|r| r.key.len() + r.value.len() + 32).sum();
        let mut rest = Vec::with_capacity(payload + 40);
        put_varint(&mut rest, epoch);
        put_varint(&mut rest, lsn);
        put_varint(&mut rest, sequence);
        put_varint(&mut rest, rows.len() as u64);
        for row in rows {
            assert_eq!(row.seq, sequence, "one write has one sequence number");
            put_row(&mut rest, row);
        }
        Self {
            kind: KIND_ROWS,
            rest,
        }
    }

    /// From here on only this epoch (or a newer one) writes to the database.
    pub(crate) fn fence(epoch: u64, lsn: u64) -> Self {
        Self::new(KIND_FENCE, &[epoch, lsn])
    }

    /// Everything of the database up to this LSN is in its own files.
    pub(crate) fn flushed(lsn: u64) -> Self {
        Self::new(KIND_FLUSHED, &[lsn])
    }

    /// The database is deleted; nothing of it up to this LSN counts any more.
    pub(crate) fn deleted(lsn: u64) -> Self {
        Self::new(KIND_DELETED, &[lsn])
    }
}

fn put_row(out: &mut Vec<u8>, row: &RowEntry) {
    let (kind, value) = match &row.value {
        ValueDeletable::Value(value) => (ROW_VALUE, Some(value)),
        ValueDeletable::Merge(value) => (ROW_MERGE, Some(value)),
        ValueDeletable::Tombstone => (ROW_TOMBSTONE, None),
    };
    let created = if row.create_ts.is_some() {
        ROW_CREATED
    } else {
        0
    };
    let expires = if row.expire_ts.is_some() {
        ROW_EXPIRES
    } else {
        0
    };
    out.push(kind | created | expires);
    for time in [row.create_ts, row.expire_ts].into_iter().flatten() {
        out.extend_from_slice(&time.to_le_bytes());
    }
    put_varint(out, row.key.len() as u64);
    out.extend_from_slice(&row.key);
    if let Some(value) = value {
        put_varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

/// A decoded record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    /// Defines a number.
    Name {
        id: u32,
        path: String,
    },
    /// Rows; their bytes are still encoded, most readers want one database's only.
    Rows {
        id: u32,
        epoch: u64,
        lsn: u64,
        sequence: u64,
        rows: EncodedRows,
    },
    Fence {
        id: u32,
        epoch: u64,
        lsn: u64,
    },
    Flushed {
        id: u32,
        lsn: u64,
    },
    Deleted {
        id: u32,
        lsn: u64,
    },
}

/// The rows of a record, checked for shape, not yet built.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncodedRows {
    count: usize,
    bytes: Bytes,
}

impl EncodedRows {
    /// Builds the rows. Keys and values are copied: a slice would keep the whole group in memory.
    pub(crate) fn decode(&self, sequence: u64) -> Vec<RowEntry> {
        let mut bytes = self.bytes.clone();
        (0..self.count)
            .map(|_| get_row(&mut bytes, sequence).expect("checked when the record was read"))
            .collect()
    }
}

fn get_row(bytes: &mut Bytes, sequence: u64) -> Option<RowEntry> {
    let flags = bytes.try_get_u8().ok()?;
    let mut time = |flag| match flags & flag {
        0 => Some(None),
        _ => bytes.try_get_i64_le().ok().map(Some),
    };
    let create_ts = time(ROW_CREATED)?;
    let expire_ts = time(ROW_EXPIRES)?;
    let copied = |bytes: &mut Bytes| get_bytes(bytes).map(|part| Bytes::copy_from_slice(&part));
    let key = copied(bytes)?;
    let value = match flags & ROW_KIND {
        ROW_VALUE => ValueDeletable::Value(copied(bytes)?),
        ROW_MERGE => ValueDeletable::Merge(copied(bytes)?),
        ROW_TOMBSTONE => ValueDeletable::Tombstone,
        _ => return None,
    };
    Some(RowEntry {
        key,
        value,
        seq: sequence,
        create_ts,
        expire_ts,
    })
}

/// Steps over a row without building it.
fn skip_row(bytes: &mut Bytes) -> Option<()> {
    let flags = bytes.try_get_u8().ok()?;
    for flag in [ROW_CREATED, ROW_EXPIRES] {
        if flags & flag != 0 {
            bytes.try_get_i64_le().ok()?;
        }
    }
    get_bytes(bytes)?;
    match flags & ROW_KIND {
        ROW_VALUE | ROW_MERGE => get_bytes(bytes).map(drop),
        ROW_TOMBSTONE => Some(()),
        _ => None,
    }
}

/// The records of a group whose checksum was right. What does not parse is damage all the same, or a newer format.
pub(crate) fn records(header: &GroupHeader, body: Bytes) -> Result<Vec<Record>> {
    let damaged = || Error::corrupt("a record of the log cannot be decoded");
    let mut body = body;
    let mut records = Vec::new();
    for _ in 0..header.records {
        records.push(get_record(&mut body).ok_or_else(damaged)?);
    }
    if !body.is_empty() {
        return Err(damaged());
    }
    Ok(records)
}

fn get_record(body: &mut Bytes) -> Option<Record> {
    let kind = body.try_get_u8().ok()?;
    let id = u32::try_from(get_varint(body)?).ok()?;
    Some(match kind {
        KIND_NAME => {
            let path = get_bytes(body)?;
            if path.len() > PATH_MAX {
                return None;
            }
            let path = String::from_utf8(path.to_vec()).ok()?;
            Record::Name { id, path }
        }
        KIND_ROWS => {
            let epoch = get_varint(body)?;
            let lsn = get_varint(body)?;
            let sequence = get_varint(body)?;
            let count = usize::try_from(get_varint(body)?).ok()?;
            let mut rest = body.clone();
            for _ in 0..count {
                skip_row(&mut rest)?;
            }
            let bytes = body.split_to(body.len() - rest.len());
            let rows = EncodedRows { count, bytes };
            Record::Rows {
                id,
                epoch,
                lsn,
                sequence,
                rows,
            }
        }
        KIND_FENCE => {
            let epoch = get_varint(body)?;
            let lsn = get_varint(body)?;
            Record::Fence { id, epoch, lsn }
        }
        KIND_FLUSHED => {
            let lsn = get_varint(body)?;
            Record::Flushed { id, lsn }
        }
        KIND_DELETED => {
            let lsn = get_varint(body)?;
            Record::Deleted { id, lsn }
        }
        _ => return None,
    })
}

/// Reads bytes as the records of a group whose checksum was right.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_records(data: &[u8]) {
    let Some((count, body)) = data.split_first() else {
        return;
    };
    let header = GroupHeader {
        body_len: u32::try_from(body.len()).unwrap_or(u32::MAX),
        crc: 0,
        records: u32::from(*count),
        last_lsn: 0,
        synced_lsn: 0,
    };
    for record in records(&header, Bytes::copy_from_slice(body)).unwrap_or_default() {
        if let Record::Rows { rows, sequence, .. } = record {
            rows.decode(sequence);
        }
    }
}

#[cfg(test)]
mod tests;
