//! Following one database's rows through the log, from an LSN on, across segments and restarts: for re-placement and change
//! streams. What a follower has not confirmed is held back from truncation, up to a bound.
//!
//! A follower sees what is durable, in the order of LSNs, each write once. It must not know what keys mean.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Code, Error, Result};
use slatedb::ValueDeletable;

use super::format::{self, Record};
use super::holds::{Hold, Holds};
use super::index::ReplayGroup;
use super::replay::read_group;
use super::{Lane, Shared};

/// A change of one key, as it was written: keys and values are those of a region's database (rfcs: packed rows).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogChange {
    /// The key has this value now.
    Put {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
    },
    /// This operand was added to the key's value.
    Merge {
        /// The key.
        key: Bytes,
        /// The operand.
        value: Bytes,
    },
    /// The key is gone.
    Delete {
        /// The key.
        key: Bytes,
    },
}

/// One atomic write of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogBatch {
    /// Its place in the log.
    pub lsn: u64,
    /// Its sequence number in the region.
    pub sequence: u64,
    /// What it changed.
    pub changes: Vec<LogChange>,
}

/// Reads one region's writes out of the log, one after the other.
pub struct Follower<E: Env> {
    shared: Arc<Shared<E>>,
    lanes: Vec<Arc<Lane>>,
    name: String,
    path: Arc<str>,
    /// The last LSN that was given out.
    given: u64,
    /// Groups up to this LSN are read.
    read: u64,
    /// The newest epoch whose fence was passed: what an older one wrote behind it does not count (C14).
    fence: u64,
    ready: VecDeque<LogBatch>,
    deleted: bool,
}

impl<E: Env> std::fmt::Debug for Follower<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Follower({} of {} at {})",
            self.name, self.path, self.given
        )
    }
}

fn too_far_behind(name: &str) -> Error {
    Error::new(
        Code::LogTruncated,
        format!("the follower {name} is too far behind: what it has not read is not kept any more"),
    )
}

/// Registers a follower, or finds it again.
pub(super) async fn begin<E: Env>(
    shared: Arc<Shared<E>>,
    lanes: Vec<Arc<Lane>>,
    name: &str,
    path: &str,
    after: Option<u64>,
    bytes_max: u64,
) -> Result<Follower<E>> {
    // One change of the file at a time.
    let mut file = shared.holds_file.lock().await;
    let mut holds = shared.holds().clone();
    let given = match (holds.0.get_mut(name), after) {
        (Some(hold), Some(after)) => {
            if hold.lost || after < hold.confirmed {
                return Err(too_far_behind(name));
            }
            if &*hold.path != path {
                return Err(Error::invalid(format!(
                    "the follower {name} is of {}",
                    hold.path
                )));
            }
            hold.confirmed = after;
            hold.bytes_max = bytes_max;
            after
        }
        (None, Some(_)) => {
            return Err(Error::new(
                Code::LogTruncated,
                format!("the follower {name} is not known here: nothing was kept for it"),
            ));
        }
        (old, None) => {
            if old.is_none() {
                holds.check_new(name)?;
            }
            let now = shared.lsn.load(std::sync::atomic::Ordering::SeqCst);
            let hold = Hold {
                path: path.into(),
                confirmed: now,
                bytes_max,
                lost: false,
            };
            holds.0.insert(name.to_owned(), hold);
            now
        }
    };
    file.replace(&shared, holds).await?;
    drop(file);
    Ok(Follower {
        shared,
        lanes,
        name: name.to_owned(),
        path: path.into(),
        given,
        read: given,
        fence: 0,
        ready: VecDeque::new(),
        deleted: false,
    })
}

/// Forgets a follower.
pub(super) async fn end<E: Env>(shared: &Shared<E>, name: &str) -> Result<()> {
    let mut file = shared.holds_file.lock().await;
    let mut holds = shared.holds().clone();
    holds.0.remove(name);
    file.replace(shared, holds).await
}

/// The file of the holds; who has it may change them.
#[derive(Default)]
pub(super) struct HoldsFile(());

impl HoldsFile {
    /// Puts other holds in the place of the present ones, durably, unless nothing changes.
    pub(super) async fn replace<E: Env>(&mut self, shared: &Shared<E>, holds: Holds) -> Result<()> {
        if *shared.holds() == holds {
            return Ok(());
        }
        holds.store(shared.env.disk()).await?;
        *shared.holds() = holds;
        Ok(())
    }
}

impl<E: Env> Follower<E> {
    /// The LSN of the last batch that was given out, or where it began: what to resume from.
    pub fn position(&self) -> u64 {
        self.given
    }

    /// The next write, once there is one that is durable; `None` when the region was deleted.
    ///
    /// # Errors
    /// `LogTruncated` when it is too far behind: it has to begin again from the region's data. `Io`, `Corrupt`.
    pub async fn next(&mut self) -> Result<Option<LogBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.given = batch.lsn;
                return Ok(Some(batch));
            }
            if self.deleted {
                return Ok(None);
            }
            let shared = Arc::clone(&self.shared);
            let written = shared.followed.notified();
            tokio::pin!(written);
            // Registers before looking, so that no group is missed.
            written.as_mut().enable();
            let hold = shared.holds().0.get(&self.name).cloned();
            if hold.is_none_or(|hold| hold.lost) {
                return Err(too_far_behind(&self.name));
            }
            match self.next_group() {
                Some(group) => self.take(&group)?,
                None => written.await,
            }
        }
    }

    /// Everything up to this LSN is safe with the follower: it need not be kept any more, now or after a restart. Durable when
    /// this returns.
    ///
    /// # Errors
    /// `LogTruncated`, when it was too late; `Io`.
    pub async fn confirm(&self, lsn: u64) -> Result<()> {
        let mut file = self.shared.holds_file.lock().await;
        let mut holds = self.shared.holds().clone();
        match holds.0.get_mut(&self.name) {
            Some(hold) if !hold.lost => hold.confirmed = hold.confirmed.max(lsn.min(self.given)),
            _ => return Err(too_far_behind(&self.name)),
        }
        file.replace(&self.shared, holds).await
    }

    /// The next group with something of the database, if it is durable.
    fn next_group(&self) -> Option<ReplayGroup<<E::Disk as cadastre_env::Disk>::File>> {
        let index = self.shared.index.lock().expect("not poisoned");
        let (lane, group) = index.next_group(&self.path, self.read)?;
        let lane = usize::try_from(lane)
            .ok()
            .and_then(|lane| self.lanes.get(lane));
        // What recovery found, and the lanes of cores that are no more, is durable.
        let durable = lane.is_none_or(|lane| lane.durable_lsn() >= group.at.last_lsn);
        durable.then_some(group)
    }

    fn take<F: cadastre_env::LogFile>(&mut self, group: &ReplayGroup<F>) -> Result<()> {
        let (header, body) = read_group(group)?;
        for record in format::records(&header, body)? {
            match record {
                Record::Rows {
                    id,
                    epoch,
                    lsn,
                    sequence,
                    rows,
                } if id == group.id && lsn > self.given && epoch >= self.fence => {
                    let rows = rows.decode(sequence).into_iter();
                    let changes = rows.map(|row| match row.value {
                        ValueDeletable::Value(value) => LogChange::Put {
                            key: row.key,
                            value,
                        },
                        ValueDeletable::Merge(value) => LogChange::Merge {
                            key: row.key,
                            value,
                        },
                        ValueDeletable::Tombstone => LogChange::Delete { key: row.key },
                    });
                    self.ready.push_back(LogBatch {
                        lsn,
                        sequence,
                        changes: changes.collect(),
                    });
                }
                Record::Fence { id, epoch, .. } if id == group.id => {
                    self.fence = self.fence.max(epoch);
                }
                Record::Deleted { id, lsn } if id == group.id && lsn > self.given => {
                    self.deleted = true;
                }
                _ => {}
            }
        }
        self.read = header.last_lsn;
        Ok(())
    }
}
