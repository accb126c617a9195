//! Reading a database's rows back from its objects when it is opened.

use std::ops::Range;

use async_trait::async_trait;
use cadastre_env::Env;
use cadastre_types::{Error, Result};
use slatedb::wal::{WalError, WalIterator, WalRows};

use super::content::{self, Content};
use super::{ObjectLog, unavailable};
use crate::log::SeenByLog;

/// The rows of some numbers, object by object.
pub(super) struct Replay<E: Env> {
    log: ObjectLog<E>,
    left: Range<u64>,
    epoch: u64,
    seen: SeenByLog,
}

impl<E: Env> Replay<E> {
    pub(super) fn new(log: ObjectLog<E>, numbers: Range<u64>, seen: SeenByLog) -> Self {
        Self {
            log,
            left: numbers,
            epoch: 0,
            seen,
        }
    }

    async fn read(&mut self, number: u64) -> Result<Content> {
        let shared = &self.log.0;
        let path = &shared.path;
        let bytes = shared.get(number).await?.ok_or_else(|| {
            Error::corrupt(format!("object {number} of the log of '{path}' is missing"))
        })?;
        let content = content::decode(path, number, &bytes)?;
        if content.epoch < self.epoch {
            return Err(Error::corrupt(format!(
                "object {number} of the log of '{path}' is by an older writer than those before it"
            )));
        }
        self.epoch = content.epoch;
        Ok(content)
    }
}

#[async_trait]
impl<E: Env> WalIterator for Replay<E> {
    async fn next(&mut self) -> Result<Option<WalRows>, WalError> {
        while let Some(number) = self.left.next() {
            let Content { rows, .. } = self.read(number).await.map_err(unavailable)?;
            if rows.is_empty() {
                continue;
            }
            let created = rows.iter().filter_map(|row| row.create_ts).max();
            let bytes = rows.iter().map(|row| row.key.len() + row.value.len()).sum();
            (self.seen)(created.unwrap_or(0), bytes);
            return Ok(Some(WalRows {
                rows,
                last_consumed_wal_file_id: number,
            }));
        }
        Ok(None)
    }
}
