//! How far a dump or a load has come, in a small file beside the data, so that the next run goes on there.
//!
//! The file is written whole under another name and then put in place: it is the old one or the new one, whenever the process ends. It also
//! holds what was asked for; going on with something else would mix two dumps in one file, and is refused.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cadastre_types::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::output::usage;
use super::file_error;

/// At most so much work is done again after a kill.
pub(super) const WRITTEN_EVERY: Duration = Duration::from_secs(1);

/// The file.
#[derive(Debug, Clone)]
pub(super) struct StateFile {
    path: PathBuf,
    /// What was asked for.
    request: Value,
}

#[derive(Serialize, Deserialize)]
struct Content<P> {
    request: Value,
    position: P,
}

impl StateFile {
    /// The one that belongs to a data file: its name and what is done with it.
    pub(super) fn beside(data: &Path, doing: &str, request: Value) -> Self {
        let mut name = data.as_os_str().to_owned();
        name.push(format!(".{doing}-state"));
        Self {
            path: name.into(),
            request,
        }
    }

    /// Where.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The position of the run before, `None` if none was interrupted.
    ///
    /// # Errors
    /// If the file cannot be read, or is of another request.
    pub(super) fn read<P: DeserializeOwned>(&self) -> Result<Option<P>> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error("reading", &self.path, &error)),
        };
        let content: Content<P> = serde_json::from_slice(&bytes).map_err(|error| {
            usage(format!(
                "{} is damaged ({error}): remove it and begin anew",
                self.path.display()
            ))
        })?;
        if content.request != self.request {
            return Err(usage(format!(
                "{} belongs to another request, {}, not {}: give the same arguments, or begin anew",
                self.path.display(),
                content.request,
                self.request
            )));
        }
        Ok(Some(content.position))
    }

    /// Puts a new position in place; what it names must be durable already.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write<P: Serialize>(&self, position: &P) -> Result<()> {
        let content = serde_json::json!({ "request": self.request, "position": position });
        let mut new = self.path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let put = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(content.to_string().as_bytes())?;
            file.sync_data()?;
            std::fs::rename(&new, &self.path)
        };
        put().map_err(|error| file_error("writing", &self.path, &error))
    }

    /// The work is done: there is nothing to go on with.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(super) fn remove(&self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(file_error("removing", &self.path, &error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_position_is_read_by_the_same_request_only() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("t.csv");
        let file = StateFile::beside(&data, "dump", json!({ "table": "t" }));
        assert!(file.path().ends_with("t.csv.dump-state"));
        assert_eq!(file.read::<u64>().unwrap(), None);
        file.write(&7_u64).unwrap();
        file.write(&8_u64).unwrap();
        assert_eq!(file.read::<u64>().unwrap(), Some(8));
        let other = StateFile::beside(&data, "dump", json!({ "table": "u" }));
        assert!(other.read::<u64>().is_err());
        std::fs::write(file.path(), "{").unwrap();
        assert!(
            file.read::<u64>()
                .unwrap_err()
                .message()
                .contains("damaged")
        );
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(file.read::<u64>().unwrap(), None);
        let nowhere = StateFile::beside(&dir.path().join("no/t"), "dump", json!({}));
        assert!(nowhere.write(&1_u64).is_err());
    }
}
