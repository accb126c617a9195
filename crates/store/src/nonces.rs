//! How long a nonce counts (C7, INV-5): at least half an hour, whatever the wall clock does.
//!
//! A wall clock that steps forward must not make a region forget what a client may still repeat. So a nonce carries the epoch of
//! the writer and how long that had been open, and its age is known from below: in the same epoch by that clock, which only runs
//! on; in a later one it is at least as old as the open. An expiry is late by the time before the last open, never early.
//!
//! ```text
//! value 2: 2 | epoch (8, BE) | ms since the open (8, BE)
//! value 1: 1 | wall clock, ms (8, BE)                       (written by versions before 0.2; older than any open)
//! ```

use bytes::{Buf, Bytes};
use cadastre_types::{Error, Result, limits};

const VERSION: u8 = 2;
const VERSION_WALL: u8 = 1;

/// A moment of an open region: what nonces are stamped with and measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Writer epoch of the open.
    pub(crate) epoch: u64,
    /// Time since it, ms, by the monotone clock.
    pub(crate) open_ms: u64,
}

impl Moment {
    /// The value of a nonce that is used now.
    pub(crate) fn stamp(&self) -> Bytes {
        let mut value = Vec::with_capacity(17);
        value.push(VERSION);
        value.extend_from_slice(&self.epoch.to_be_bytes());
        value.extend_from_slice(&self.open_ms.to_be_bytes());
        value.into()
    }

    /// Whether a nonce of this value is certainly older than [`limits::NONCE_LIFE_MS`].
    pub(crate) fn is_over(&self, mut value: &[u8]) -> Result<bool> {
        let damaged = |_| Error::corrupt("a stored nonce cannot be decoded");
        let age = match value.try_get_u8().map_err(damaged)? {
            VERSION => {
                let epoch = value.try_get_u64().map_err(damaged)?;
                let open_ms = value.try_get_u64().map_err(damaged)?;
                if epoch == self.epoch {
                    self.open_ms.saturating_sub(open_ms)
                } else {
                    self.open_ms
                }
            }
            VERSION_WALL => {
                value.try_get_i64().map_err(damaged)?;
                self.open_ms
            }
            _ => return Err(Error::corrupt("a stored nonce has an unknown version")),
        };
        Ok(age > limits::NONCE_LIFE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let moment = Moment {
            epoch: 3,
            open_ms: 1000,
        };
        let expected = [2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 3, 0xe8];
        assert_eq!(moment.stamp()[..], expected);
        assert!(moment.is_over(b"\x09").is_err());
        assert!(moment.is_over(&expected[..16]).is_err());
        assert!(moment.is_over(b"").is_err());
    }

    #[test]
    fn a_nonce_is_over_only_when_that_is_certain() {
        let at = |epoch, open_ms| Moment { epoch, open_ms };
        let life = limits::NONCE_LIFE_MS;
        let stamp = at(7, 5_000).stamp();
        let wall = [&[1][..], &0_i64.to_be_bytes()].concat();
        for (now, over) in [
            (at(7, 5_000), false),
            (at(7, 5_000 + life), false),
            (at(7, 5_001 + life), true),
            // Another open: its own age is what is sure.
            (at(8, 5_001), false),
            (at(8, life), false),
            (at(8, life + 1), true),
        ] {
            assert_eq!(now.is_over(&stamp).unwrap(), over, "{now:?}");
        }
        assert!(!at(8, life).is_over(&wall).unwrap());
        assert!(at(8, life + 1).is_over(&wall).unwrap());
    }
}
