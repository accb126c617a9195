//! The start codes of a data directory's servers: each start's is above every earlier one's, whatever the wall clock did, since
//! clients that know an old start for dead take a lower one for dead, too (facts/hbase-protocol.md; requirements.md L19).
//!
//! The file `starts` holds two slots, 4 KiB apart, written in turn, so that a torn write leaves the other one whole:
//!
//! ```text
//! slot: "CADASTR2" | generation u64 | start code u64 | crc32 of the 24 bytes before      (little endian)
//! ```
//! "CADASTRT" instead: written by a program that kept no list of the log's segments. So a list that is gone is missed.

use std::io::ErrorKind;

use bytes::Buf;
use cadastre_env::{Clock, Disk, Env, LogFile};
use cadastre_types::{Error, Result};

use crate::error::from_io;

/// The file, in the data directory itself.
const FILE: &str = "starts";

const MAGIC: &[u8; 8] = b"CADASTR2";
const MAGIC_UNLISTED: &[u8; 8] = b"CADASTRT";
const SLOT_LEN: usize = 28;

/// Distance of the slots: no sector or page holds both.
const SLOT_DISTANCE: u64 = 4096;

/// How far a start code lies above the last one when the wall clock stands behind that, ms. More than 1, since the embedded
/// coordination server's zxids begin at the start code, 2^20 of them to a millisecond (C23).
const STEP_MS: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    generation: u64,
    start_code: u64,
    /// Whether the log has a list of its segments.
    listed: bool,
}

impl Slot {
    fn encode(&self) -> Vec<u8> {
        let magic = if self.listed { MAGIC } else { MAGIC_UNLISTED };
        let mut out = magic.to_vec();
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.start_code.to_le_bytes());
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..SLOT_LEN)?;
        let (head, mut crc) = bytes.split_at(SLOT_LEN - 4);
        if crc.get_u32_le() != crc32fast::hash(head) {
            return None;
        }
        let (magic, mut fields) = head.split_at(MAGIC.len());
        let listed = magic == MAGIC;
        if !listed && magic != MAGIC_UNLISTED {
            return None;
        }
        Some(Self {
            generation: fields.get_u64_le(),
            start_code: fields.get_u64_le(),
            listed,
        })
    }
}

/// What the starts before left.
pub(crate) struct Starts<F> {
    file: Option<F>,
    last: Option<Slot>,
}

/// Reads the file, and changes nothing.
///
/// # Errors
/// `Corrupt`, naming the file; `Io`.
pub(crate) async fn read<D: Disk>(disk: &D) -> Result<Starts<D::File>> {
    let file = match disk.open(FILE).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Starts {
                file: None,
                last: None,
            });
        }
        file => file.map_err(failed)?,
    };
    let mut last = None;
    let mut damaged = 0;
    for slot in 0..2 {
        let bytes = file.read(slot * SLOT_DISTANCE, SLOT_LEN).map_err(failed)?;
        let decoded = Slot::decode(&bytes);
        damaged += u32::from(decoded.is_none() && bytes.iter().any(|byte| *byte != 0));
        last = last.max(decoded);
    }
    // One alone is the very first write, torn: then no server has had a start code yet.
    if last.is_none() && damaged > 1 {
        return Err(Error::corrupt(format!(
            "the file '{FILE}' is damaged: no start code can be read"
        )));
    }
    Ok(Starts {
        file: Some(file),
        last,
    })
}

fn failed(error: std::io::Error) -> Error {
    from_io(&format!("the file '{FILE}'"), &error)
}

impl<F: LogFile> Starts<F> {
    /// Whether an earlier start has seen a list of the log's segments.
    pub(crate) fn listed(&self) -> bool {
        self.last.is_some_and(|last| last.listed)
    }

    /// Takes the next start code: the wall clock, ms since 1970, or above the last one. Durable when this returns; the list of the
    /// log's segments is there by now.
    pub(crate) async fn take<E>(self, env: &E) -> Result<u64>
    where
        E: Env,
        E::Disk: Disk<File = F>,
    {
        let disk = env.disk();
        let file = match self.file {
            Some(file) => file,
            None => disk.create(FILE, 2 * SLOT_DISTANCE).await.map_err(failed)?,
        };
        let slot = next_slot(self.last, env.clock().wall());
        let at = slot.generation % 2 * SLOT_DISTANCE;
        file.write_at(at, &slot.encode()).map_err(failed)?;
        file.sync_data().await.map_err(failed)?;
        disk.sync_dir("").await.map_err(failed)?;
        Ok(slot.start_code)
    }
}

fn next_slot(last: Option<Slot>, wall: u64) -> Slot {
    let (generation, start_code) = match last {
        None => (1, wall),
        Some(last) if wall > last.start_code => (last.generation + 1, wall),
        Some(last) => (last.generation + 1, last.start_code + STEP_MS),
    };
    Slot {
        generation,
        start_code,
        listed: true,
    }
}

#[cfg(test)]
mod tests {
    use cadastre_env::{RealEnv, RealEnvConfig};

    use super::*;

    #[test]
    fn golden() {
        let slot = Slot {
            generation: 2,
            start_code: 1_700_000_000_000,
            listed: true,
        };
        let unlisted = Slot {
            listed: false,
            ..slot
        };
        let bytes = unlisted.encode();
        assert_eq!(bytes[..8], *b"CADASTRT");
        assert_eq!(Slot::decode(&bytes), Some(unlisted));
        let bytes = slot.encode();
        assert_eq!(
            bytes[..24],
            *b"CADASTR2\x02\0\0\0\0\0\0\0\x00\x68\xe5\xcf\x8b\x01\0\0"
        );
        assert_eq!(Slot::decode(&bytes), Some(slot));
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 4;
            assert_eq!(Slot::decode(&bytes), None, "byte {at}");
        }
    }

    async fn next(env: &RealEnv) -> Result<u64> {
        read(env.disk()).await?.take(env).await
    }

    #[test]
    fn codes_grow_and_a_damaged_slot_is_the_older_one_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let env = RealEnv::start(&RealEnvConfig {
            data_dir: dir.path().to_owned(),
            cores: 1,
            background_threads: 1,
        })
        .unwrap();
        let here = env.clone();
        env.block_on(async move {
            let mut last = 0;
            for _ in 0..5 {
                let code = next(&here).await.unwrap();
                assert!(code > last);
                last = code;
            }
            let file = here.disk().open(FILE).await.unwrap();
            // A start far in the future, as seen by a clock that went back since.
            let slot = Slot {
                generation: 6,
                start_code: last + 3_600_000,
                listed: true,
            };
            file.write_at(0, &slot.encode()).unwrap();
            let behind = next(&here).await.unwrap();
            assert_eq!(behind, last + 3_600_000 + STEP_MS);
            // The newer slot is torn: the other one counts.
            file.write_at(SLOT_DISTANCE + 10, b"torn").unwrap();
            assert_eq!(next(&here).await.unwrap(), behind);
            for at in [0, SLOT_DISTANCE] {
                file.write_at(at + 8, b"damaged").unwrap();
            }
            let error = next(&here).await.unwrap_err();
            assert!(error.message().contains("'starts'"), "{error}");
        });
        env.shutdown();
    }
}
