//! Which segments the log has, and how much of each: kept apart from the segments, so that one that is gone, cut or overwritten is
//! missed (C16), and never taken for one that was not used yet.
//!
//! The file `log-segments` in the data directory, of one fixed length, made whole and renamed into place:
//!
//! ```text
//! file:    slot 0 (128 KiB) | slot 1 (128 KiB) | marks, two of 64 bytes for each lane
//! slot:    "CADASEGS" | version u32 | body length u32 | crc32 u32 (of the generation and the body) | zeros u32 | generation u64 | body
//! body:    lanes u32 | segments u32 | lane* | segment*
//! lane:    number u32 | zeros u32 | floor LSN u64
//! segment: number u64 | salt u64 | lane u32 | stage u32 (1 open, 2 sealed, 3 free) | length u64 | end u64 | last LSN u64
//! mark:    "CADAMARK" | lane u32 | zeros u32 | synced LSN u64 | crc32 u32 (of the 24 bytes before) | zeros
//! ```
//! All little endian. The slots are written in turn and synced before anything happens that they speak of; a torn one leaves the
//! other. A segment is entered when its header is durable, and before its first group; a segment whose rows are in files is
//! entered as free before it is removed. A mark says what a lane knew to be synced, and is itself not synced (it is true all
//! the same): it tells of the last groups, of which no later group does. Marks of one lane are written in turn, too.
//!
//! It must not know of groups, or of what databases are.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use bytes::Buf;
use cadastre_env::{Disk, Env, LogFile};
use cadastre_types::{Error, Result};

use crate::error::from_io;

/// The file, in the data directory itself, so that it does not go with the log's directory.
pub(super) const FILE: &str = "log-segments";
const UNFINISHED: &str = "log-segments.new";

const MAGIC: &[u8; 8] = b"CADASEGS";
const MARK_MAGIC: &[u8; 8] = b"CADAMARK";
const VERSION: u32 = 1;

const SLOT_BYTES: usize = 128 << 10;
const SLOT_HEADER: usize = 32;
const LANE_BYTES: usize = 16;
const SEGMENT_BYTES: usize = 48;
const MARK_BYTES: usize = 64;
const MARK_USED: usize = 28;

/// Lanes at most, now and of former numbers of cores (INV-9).
pub(super) const LANES_MAX: usize = 256;

/// Segments at most (INV-9): what fits in a slot. At 64 MiB each 160 GiB, far beyond where regions are flushed for the log's sake.
pub(super) const SEGMENTS_MAX: usize = 2560;

const FILE_BYTES: usize = 2 * SLOT_BYTES + LANES_MAX * 2 * MARK_BYTES;

const _: () = assert!(
    SLOT_HEADER + 8 + LANES_MAX * LANE_BYTES + SEGMENTS_MAX * SEGMENT_BYTES <= SLOT_BYTES,
    "a slot holds all that may be in it"
);

/// What is known of a segment's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It may be written to, or wait for that.
    Open,
    /// All of it up to here is durable, and nothing behind counts.
    Sealed {
        /// Where its last group ends, bytes.
        end: u64,
        /// The LSN of that, 0 without a group.
        last_lsn: u64,
    },
    /// Nobody needs it; its file may be there or not.
    Free {
        /// The last LSN in it.
        last_lsn: u64,
    },
}

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) lane: u32,
    pub(super) salt: u64,
    /// Its file is at least this long, bytes.
    pub(super) len: u64,
    pub(super) stage: Stage,
}

/// All segments, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Segments {
    /// For each lane that ever was: up to where its log was durable in segments that are gone.
    pub(super) floors: BTreeMap<u32, u64>,
    pub(super) entries: BTreeMap<u64, Entry>,
}

impl Segments {
    /// Forgets a segment whose file is gone for good.
    fn forget(&mut self, number: u64) {
        let Some(entry) = self.entries.remove(&number) else {
            return;
        };
        if let Stage::Free { last_lsn } | Stage::Sealed { last_lsn, .. } = entry.stage {
            let floor = self.floors.entry(entry.lane).or_default();
            *floor = (*floor).max(last_lsn);
        }
    }

    fn encode(&self, generation: u64) -> Vec<u8> {
        let mut body = Vec::with_capacity(8 + self.entries.len() * SEGMENT_BYTES);
        let count = |len: usize| u32::try_from(len).expect("bounded");
        body.extend_from_slice(&count(self.floors.len()).to_le_bytes());
        body.extend_from_slice(&count(self.entries.len()).to_le_bytes());
        for (lane, floor) in &self.floors {
            body.extend_from_slice(&lane.to_le_bytes());
            body.extend_from_slice(&[0; 4]);
            body.extend_from_slice(&floor.to_le_bytes());
        }
        for (number, entry) in &self.entries {
            let (stage, end, last_lsn) = match entry.stage {
                Stage::Open => (1_u32, 0, 0),
                Stage::Sealed { end, last_lsn } => (2, end, last_lsn),
                Stage::Free { last_lsn } => (3, 0, last_lsn),
            };
            body.extend_from_slice(&number.to_le_bytes());
            body.extend_from_slice(&entry.salt.to_le_bytes());
            body.extend_from_slice(&entry.lane.to_le_bytes());
            body.extend_from_slice(&stage.to_le_bytes());
            for field in [entry.len, end, last_lsn] {
                body.extend_from_slice(&field.to_le_bytes());
            }
        }
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&count(body.len()).to_le_bytes());
        out.extend_from_slice(&slot_crc(generation, &body).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&generation.to_le_bytes());
        out.extend_from_slice(&body);
        assert!(out.len() <= SLOT_BYTES, "lanes and segments are bounded");
        out
    }

    /// Reads a slot; `None` if it is not whole.
    ///
    /// # Errors
    /// For a newer version.
    fn decode(slot: &[u8]) -> Result<Option<(u64, Self)>> {
        let Some(mut fields) = slot.strip_prefix(MAGIC) else {
            return Ok(None);
        };
        if fields.len() < SLOT_HEADER - MAGIC.len() {
            return Ok(None);
        }
        let version = fields.get_u32_le();
        let (len, crc, zeros) = (
            fields.get_u32_le() as usize,
            fields.get_u32_le(),
            fields.get_u32_le(),
        );
        let generation = fields.get_u64_le();
        let whole = fields
            .get(..len)
            .filter(|body| zeros == 0 && slot_crc(generation, body) == crc);
        let Some(body) = whole else {
            return Ok(None);
        };
        if version != VERSION {
            return Err(Error::corrupt(format!(
                "the file '{FILE}' has format version {version}, this program knows {VERSION}"
            )));
        }
        Ok(Self::decode_body(body).map(|segments| (generation, segments)))
    }

    fn decode_body(mut body: &[u8]) -> Option<Self> {
        let mut segments = Self::default();
        let lanes = body.try_get_u32_le().ok()? as usize;
        let entries = body.try_get_u32_le().ok()? as usize;
        let bytes = lanes.checked_mul(LANE_BYTES)? + entries.checked_mul(SEGMENT_BYTES)?;
        if lanes > LANES_MAX || entries > SEGMENTS_MAX || body.len() != bytes {
            return None;
        }
        for _ in 0..lanes {
            let (lane, _) = (body.get_u32_le(), body.get_u32_le());
            segments.floors.insert(lane, body.get_u64_le());
        }
        for _ in 0..entries {
            let number = body.get_u64_le();
            let salt = body.get_u64_le();
            let (lane, stage) = (body.get_u32_le(), body.get_u32_le());
            let (len, end, last_lsn) = (body.get_u64_le(), body.get_u64_le(), body.get_u64_le());
            let stage = match stage {
                1 => Stage::Open,
                2 => Stage::Sealed { end, last_lsn },
                3 => Stage::Free { last_lsn },
                _ => return None,
            };
            let entry = Entry {
                lane,
                salt,
                len,
                stage,
            };
            segments.entries.insert(number, entry);
        }
        (segments.floors.len() == lanes && segments.entries.len() == entries).then_some(segments)
    }
}

fn slot_crc(generation: u64, body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&generation.to_le_bytes());
    crc.update(body);
    crc.finalize()
}

fn slot_at(generation: u64) -> u64 {
    generation % 2 * SLOT_BYTES as u64
}

fn mark_at(lane: u32, turn: u64) -> u64 {
    (2 * SLOT_BYTES) as u64 + (u64::from(lane) * 2 + turn % 2) * MARK_BYTES as u64
}

fn encode_mark(lane: u32, synced: u64) -> [u8; MARK_BYTES] {
    let mut out = [0; MARK_BYTES];
    out[..8].copy_from_slice(MARK_MAGIC);
    out[8..12].copy_from_slice(&lane.to_le_bytes());
    out[16..24].copy_from_slice(&synced.to_le_bytes());
    let crc = crc32fast::hash(&out[..24]);
    out[24..MARK_USED].copy_from_slice(&crc.to_le_bytes());
    out
}

fn decode_mark(lane: u32, bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; MARK_BYTES] = bytes.try_into().ok()?;
    let mut synced = &bytes[16..24];
    let synced = synced.get_u64_le();
    (*bytes == encode_mark(lane, synced)).then_some(synced)
}

/// What the file said at the start.
pub(super) struct Loaded<F> {
    file: F,
    generation: u64,
    pub(super) segments: Segments,
    /// What each lane knew to be synced.
    pub(super) marks: BTreeMap<u32, u64>,
}

/// Reads the file; `None` if there is none.
pub(super) async fn load<D: Disk>(disk: &D) -> Result<Option<Loaded<D::File>>> {
    let failed = |error: io::Error| from_io(&format!("the file '{FILE}'"), &error);
    let file = match disk.open(FILE).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let len = file.len().map_err(failed)?;
    if len != FILE_BYTES as u64 {
        return Err(Error::corrupt(format!(
            "the file '{FILE}' is damaged: it has {len} bytes instead of {FILE_BYTES}"
        )));
    }
    let bytes = file.read(0, FILE_BYTES).map_err(failed)?;
    if bytes.len() != FILE_BYTES {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    let (generation, segments, marks) = decode(&bytes)?;
    Ok(Some(Loaded {
        file,
        generation,
        segments,
        marks,
    }))
}

type Decoded = (u64, Segments, BTreeMap<u32, u64>);

fn decode(bytes: &[u8]) -> Result<Decoded> {
    let mut newest: Option<(u64, Segments)> = None;
    for slot in bytes[..2 * SLOT_BYTES].chunks_exact(SLOT_BYTES) {
        if let Some(whole) = Segments::decode(slot)?
            && newest.as_ref().is_none_or(|best| best.0 < whole.0)
        {
            newest = Some(whole);
        }
    }
    let damaged =
        |what: &str| Error::corrupt(format!("the file '{FILE}' is damaged: {what} can be read"));
    let (generation, segments) = newest.ok_or_else(|| damaged("no list of segments"))?;
    let mut marks = BTreeMap::new();
    for lane in segments.floors.keys().copied() {
        if lane as usize >= LANES_MAX {
            // Of a program that had no marks.
            continue;
        }
        let mark = (0..2).filter_map(|turn| {
            let at = mark_at(lane, turn) as usize;
            decode_mark(lane, &bytes[at..at + MARK_BYTES])
        });
        let mark = mark.max();
        marks.insert(lane, mark.ok_or_else(|| damaged("no mark of a lane"))?);
    }
    Ok((generation, segments, marks))
}

/// The file while the store is open.
pub(super) struct Registry<F> {
    file: F,
    segments: Mutex<Segments>,
    /// The generation on disk; who has it may write the next one.
    generation: tokio::sync::Mutex<u64>,
}

impl<F: LogFile> Registry<F> {
    /// Begins a new list after a start, durably, with a mark for each of its lanes.
    pub(super) async fn begin<D: Disk<File = F>>(
        disk: &D,
        loaded: Option<Loaded<F>>,
        segments: Segments,
        marks: &BTreeMap<u32, u64>,
    ) -> Result<Self> {
        let failed = |error: io::Error| from_io(&format!("writing the file '{FILE}'"), &error);
        if segments.floors.len() > LANES_MAX || segments.entries.len() > SEGMENTS_MAX {
            return Err(Error::invalid(format!(
                "the log has {} lanes and {} segments: more than {LANES_MAX} and {SEGMENTS_MAX}",
                segments.floors.len(),
                segments.entries.len()
            )));
        }
        let (file, generation, is_new) = match loaded {
            Some(old) => {
                // What was read may lie in the page cache only, after a sync that failed: until it is written again no sync means
                // it, and the new list, should it be torn, would leave one that is older still.
                let bytes = old.segments.encode(old.generation);
                let at = slot_at(old.generation);
                old.file.write_at(at, &bytes).map_err(failed)?;
                old.file.sync_data().await.map_err(failed)?;
                (old.file, old.generation + 1, false)
            }
            None => {
                match disk.remove(UNFINISHED) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(failed(error));
                    }
                    // What a crash left, or nothing.
                    _ => {}
                }
                let made = disk.create(UNFINISHED, FILE_BYTES as u64).await;
                (made.map_err(failed)?, 1, true)
            }
        };
        let bytes = segments.encode(generation);
        file.write_at(slot_at(generation), &bytes).map_err(failed)?;
        for (lane, synced) in marks {
            for turn in 0..2 {
                let mark = encode_mark(*lane, *synced);
                file.write_at(mark_at(*lane, turn), &mark).map_err(failed)?;
            }
        }
        file.sync_data().await.map_err(failed)?;
        if is_new {
            disk.rename(UNFINISHED, FILE).map_err(failed)?;
            disk.sync_dir("").await.map_err(failed)?;
        }
        Ok(Self {
            file,
            segments: Mutex::new(segments),
            generation: tokio::sync::Mutex::new(generation),
        })
    }

    fn segments(&self) -> std::sync::MutexGuard<'_, Segments> {
        self.segments.lock().expect("not poisoned")
    }

    /// Refuses one more segment when there are too many.
    pub(super) fn check_room(&self) -> io::Result<()> {
        // Every lane may make one at the same time, and the next start copy one.
        let most = SEGMENTS_MAX - 2 * LANES_MAX;
        if self.segments().entries.len() >= most {
            return Err(io::Error::other(format!(
                "{most} segments of the log are in use: no more"
            )));
        }
        Ok(())
    }

    /// Enters a segment whose header is durable; durable with the next [`Self::commit`].
    pub(super) fn add(&self, number: u64, entry: Entry) {
        self.segments().entries.insert(number, entry);
    }

    /// Notes where a segment ends; durable with the next [`Self::commit`].
    pub(super) fn seal(&self, number: u64, end: u64, last_lsn: u64) {
        let mut segments = self.segments();
        let entry = segments.entries.get_mut(&number);
        let entry = entry.expect("a segment is entered before it is used");
        entry.stage = Stage::Sealed { end, last_lsn };
    }

    /// Notes that nobody needs these segments any more.
    pub(super) fn free(&self, numbers: &[u64]) {
        let mut segments = self.segments();
        for number in numbers {
            if let Some(entry) = segments.entries.get_mut(number)
                && let Stage::Sealed { last_lsn, .. } = entry.stage
            {
                entry.stage = Stage::Free { last_lsn };
            }
        }
    }

    /// Forgets segments whose files are gone, durably so; durable with the next [`Self::commit`], which need not be soon.
    pub(super) fn forget(&self, numbers: &[u64]) {
        let mut segments = self.segments();
        for number in numbers {
            segments.forget(*number);
        }
    }

    /// Makes all notes durable. A failed sync ends the process: what is on the disk then is unknown (C17).
    pub(super) async fn commit<E: Env>(&self, env: &E) -> io::Result<()> {
        let mut generation = self.generation.lock().await;
        let next = *generation + 1;
        let bytes = self.segments().encode(next);
        self.file.write_at(slot_at(next), &bytes)?;
        if let Err(error) = self.file.sync_data().await {
            env.exit(&format!("fdatasync of '{FILE}': {error}"));
        }
        *generation = next;
        Ok(())
    }

    /// Writes down what a lane knows to be synced. It need not be durable to be true.
    pub(super) fn mark(&self, lane: u32, turn: u64, synced: u64) -> io::Result<()> {
        self.file
            .write_at(mark_at(lane, turn), &encode_mark(lane, synced))
    }
}

/// Reads bytes as the file.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(data: &[u8]) {
    let mut bytes = vec![0; FILE_BYTES];
    let len = data.len().min(SLOT_BYTES);
    bytes[..len].copy_from_slice(&data[..len]);
    // A refusal is as good as an answer here.
    let _ = decode(&bytes);
    let _ = Segments::decode_body(data);
}

#[cfg(test)]
mod tests;
