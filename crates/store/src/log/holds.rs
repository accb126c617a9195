//! Who follows the log, and up to where each has confirmed: what is above must not be truncated, up to a bound of bytes.
//!
//! The file `followers` in the data directory, text, written anew and renamed at each change, so that a follower finds what it has
//! not confirmed after a restart, too:
//!
//! ```text
//! cadastre followers
//! NAME PATH CONFIRMED-LSN BYTES-MAX held|lost
//! crc32 0a1b2c3d          (of the bytes before this line)
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cadastre_env::{Disk, LogFile};
use cadastre_types::{Error, Result};

use crate::error::from_io;

const FILE: &str = "followers";
const UNFINISHED: &str = "followers.new";
const TITLE: &str = "cadastre followers";

/// Followers of one data directory at most (INV-9): each holds segments back.
const FOLLOWERS_MAX: usize = 64;

/// Longest name of a follower, bytes.
const NAME_MAX: usize = 64;

/// Longest file that is read, bytes: more than so many followers of the longest paths ever have.
const FILE_MAX: u64 = 8 << 20;

/// What is held back for one follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) path: Arc<str>,
    /// The follower needs nothing up to here any more.
    pub(super) confirmed: u64,
    /// Bytes of segments that are kept for it at most.
    pub(super) bytes_max: u64,
    /// It was too far behind: something that it has not confirmed is gone, or is about to be.
    pub(super) lost: bool,
}

impl Hold {
    /// As [`Holds::wanted_above`], of this one alone.
    pub(super) fn wanted_above(&self, path: &str) -> Option<u64> {
        (!self.lost && &*self.path == path).then_some(self.confirmed)
    }
}

/// All followers by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holds(pub(super) BTreeMap<String, Hold>);

impl Holds {
    /// Refuses names that the file cannot hold, and more followers than there may be.
    pub(super) fn check_new(&self, name: &str) -> Result<()> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(good) {
            return Err(Error::invalid(format!(
                "'{}' is no name of a follower: 1 to {NAME_MAX} letters, digits, '-', '_', '.'",
                name.escape_default()
            )));
        }
        if self.0.len() >= FOLLOWERS_MAX {
            return Err(Error::invalid(format!(
                "{FOLLOWERS_MAX} followers of the log are registered: no more"
            )));
        }
        Ok(())
    }

    /// Above which LSN a database's rows are still wanted; `None` if nobody wants any.
    pub(super) fn wanted_above(&self, path: &str) -> Option<u64> {
        let holds = self.0.values();
        holds.filter_map(|hold| hold.wanted_above(path)).min()
    }

    fn render(&self) -> String {
        let mut text = format!("{TITLE}\n");
        for (name, hold) in &self.0 {
            let state = if hold.lost { "lost" } else { "held" };
            let Hold {
                path,
                confirmed,
                bytes_max,
                ..
            } = hold;
            writeln!(text, "{name} {path} {confirmed} {bytes_max} {state}")
                .expect("writing to a string cannot fail");
        }
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}crc32 {crc:08x}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut holds = Self::default();
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return None;
        }
        for line in lines {
            let fields: Vec<&str> = line.split(' ').collect();
            let [name, path, confirmed, bytes_max, state] = fields[..] else {
                break;
            };
            let hold = Hold {
                path: path.into(),
                confirmed: confirmed.parse().ok()?,
                bytes_max: bytes_max.parse().ok()?,
                lost: state == "lost",
            };
            holds.check_new(name).ok()?;
            holds.0.insert(name.to_owned(), hold);
        }
        // Says it all: every field, their order, the checksum.
        (holds.render() == text).then_some(holds)
    }

    /// Reads the file; none if there is no file.
    pub(super) async fn load<D: Disk>(disk: &D) -> Result<Self> {
        let failed = |error: std::io::Error| from_io(&format!("the file '{FILE}'"), &error);
        let file = match disk.open(FILE).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            file => file.map_err(failed)?,
        };
        let len = file.len().map_err(failed)?;
        let damaged = || Error::corrupt(format!("the file '{FILE}' is damaged"));
        if len > FILE_MAX {
            return Err(damaged());
        }
        let bytes = file.read(0, len as usize).map_err(failed)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
        Self::parse(text).ok_or_else(damaged)
    }

    /// Writes the file, durably.
    pub(super) async fn store<D: Disk>(&self, disk: &D) -> Result<()> {
        let failed = |error: std::io::Error| from_io(&format!("writing the file '{FILE}'"), &error);
        match disk.remove(UNFINISHED) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            // What a crash left, or nothing.
            _ => {}
        }
        let file = disk.create(UNFINISHED, 0).await.map_err(failed)?;
        file.write_at(0, self.render().as_bytes()).map_err(failed)?;
        file.sync_data().await.map_err(failed)?;
        disk.rename(UNFINISHED, FILE).map_err(failed)?;
        disk.sync_dir("").await.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let mut holds = Holds::default();
        let hold = Hold {
            path: "data/default/t/abc".into(),
            confirmed: 7,
            bytes_max: 1 << 30,
            lost: false,
        };
        holds.0.insert("one".to_owned(), hold.clone());
        let lost = Hold { lost: true, ..hold };
        holds.0.insert("two".to_owned(), lost);
        let text = holds.render();
        let expected = "cadastre followers\none data/default/t/abc 7 1073741824 held\n\
                        two data/default/t/abc 7 1073741824 lost\ncrc32 ";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(Holds::parse(&text), Some(holds.clone()));
        assert_eq!(holds.wanted_above("data/default/t/abc"), Some(7));
        assert_eq!(holds.wanted_above("data/default/t/abd"), None);
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(Holds::parse(&changed), None, "byte {at}");
        }
        for bad in ["", "a b", "ä", &"x".repeat(NAME_MAX + 1)] {
            assert!(holds.check_new(bad).is_err(), "{bad}");
        }
    }
}
