//! Row locks (C9), and what is done under them: timestamps, reads at memory level (C1), nonces (C7), writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_types::{Cell, Code, Durability, Error, Query, Result};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use crate::error::from_slatedb;
use crate::key;
use crate::planted::Planted;
use crate::read::{self, RowRead};
use crate::region::{Found, RegionShared};
use crate::store::WalSync;
use crate::write;

/// One row's lock and how many hold or want it.
struct Entry {
    lock: Arc<tokio::sync::Mutex<()>>,
    users: usize,
}

/// The locks of a region's rows that somebody holds or wants.
pub(crate) struct LockTable(Arc<Mutex<BTreeMap<Bytes, Entry>>>);

impl LockTable {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(BTreeMap::new())))
    }

    /// Registers interest in a row's lock.
    pub(crate) fn join(&self, row: &Bytes) -> (Arc<tokio::sync::Mutex<()>>, Interest) {
        let mut table = self.0.lock().expect("not poisoned");
        let entry = table.entry(row.clone()).or_insert_with(|| Entry {
            lock: Arc::new(tokio::sync::Mutex::new(())),
            users: 0,
        });
        entry.users += 1;
        let interest = Interest {
            table: Arc::clone(&self.0),
            row: row.clone(),
        };
        (Arc::clone(&entry.lock), interest)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Keeps a row's lock in the table while somebody holds or waits for it.
pub(crate) struct Interest {
    table: Arc<Mutex<BTreeMap<Bytes, Entry>>>,
    row: Bytes,
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut table = self.table.lock().expect("not poisoned");
        let entry = table
            .get_mut(&self.row)
            .expect("an entry lives as long as its users");
        entry.users -= 1;
        if entry.users == 0 {
            table.remove(&self.row);
        }
    }
}

/// A locked row. The guard is dropped before the interest, so that whoever comes next finds the same lock.
struct Held {
    _guard: OwnedMutexGuard<()>,
    _interest: Interest,
}

/// Locked rows of one region. Dropping unlocks them.
pub struct RowLocks<E: Env> {
    region: Arc<RegionShared<E>>,
    rows: BTreeSet<Bytes>,
    held: Vec<Held>,
    /// The highest sequence number that may have been seen through these locks.
    seen: AtomicU64,
    /// Bytes of stored keys and values that were read.
    bytes_read: AtomicU64,
    _open: OwnedSemaphorePermit,
}

impl<E: Env> RowLocks<E> {
    pub(crate) async fn acquire(
        region: Arc<RegionShared<E>>,
        rows: BTreeSet<Bytes>,
        deadline: Duration,
        open: OwnedSemaphorePermit,
    ) -> Result<Self> {
        let clock = region.database.store.env.clock().clone();
        let mut held = Vec::with_capacity(rows.len());
        for row in &rows {
            let (lock, interest) = region.locks.join(row);
            let guard = match Arc::clone(&lock).try_lock_owned() {
                Ok(guard) => guard,
                Err(_) => {
                    let left = deadline.saturating_sub(clock.mono());
                    clock
                        .timeout(left, lock.lock_owned())
                        .await
                        .map_err(|_| timed_out(row))?
                }
            };
            held.push(Held {
                _guard: guard,
                _interest: interest,
            });
        }
        Ok(Self {
            region,
            rows,
            held,
            seen: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            _open: open,
        })
    }

    /// The rows, in order.
    pub fn rows(&self) -> &BTreeSet<Bytes> {
        &self.rows
    }

    fn check_locked(&self, row: &[u8]) -> Result<()> {
        if self.rows.contains(row) {
            return Ok(());
        }
        Err(Error::new(
            Code::Internal,
            format!("row '{}' is not locked", row.escape_ascii()),
        ))
    }

    /// A timestamp for cells of this row that came without one, ms: higher than every one given out for the row before, unless
    /// the row is written more often than once a millisecond for many seconds (C8). Ask once per atomic operation.
    pub fn timestamp(&self, row: &[u8]) -> i64 {
        let clock = &self.region.database.clock;
        let timestamp = self.region.timestamps.next(row, clock.wall_ms());
        // So it is in manifest and log, and the next opener goes on above it.
        clock.raise(timestamp);
        timestamp
    }

    /// The row as the last write left it, durable or not (C1): before anything of it is answered, [`Self::write`] or
    /// [`Self::settle`] must have succeeded.
    ///
    /// # Errors
    /// As [`Region::get`](crate::Region::get).
    pub async fn read(&self, row: &[u8], query: &Query) -> Result<Vec<Cell>> {
        self.check_locked(row)?;
        let database = &self.region.database;
        if database
            .store
            .config
            .plant()
            .is(Planted::DurableReadUnderLock)
        {
            let shared = Arc::clone(&self.region);
            return crate::Region { shared }.get(row, query).await;
        }
        let at = RowRead {
            codec: self.region.codec,
            schema: &self.region.schema(),
            row: &Bytes::copy_from_slice(row),
            query,
            now: database.clock.wall_ms(),
            first_columns: None,
        };
        // The lock keeps others away: an entry is what the last write left, as the memory level shows it.
        if let Some((found, seen)) = at.cached_locked(&self.region.rows)? {
            self.seen.fetch_max(seen, Ordering::SeqCst);
            return Ok(self.take(found));
        }
        let fill = read::Fill::begin(&self.region, row);
        let snapshot = database.snapshot()?;
        self.seen.fetch_max(snapshot.seq(), Ordering::SeqCst);
        Ok(self.take(at.stored(&snapshot, fill.as_ref()).await?))
    }

    fn take(&self, found: Found) -> Vec<Cell> {
        self.bytes_read
            .fetch_add(found.bytes_read, Ordering::Relaxed);
        found.cells
    }

    /// Bytes of the stored keys and values of cells that [`Self::read`] has looked at.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Whether the operation with this nonce was done on the row, unless that was certainly more than 30 minutes ago (C7).
    ///
    /// # Errors
    /// `NotServingRegion` once closed, `Io`, `Corrupt`.
    pub async fn nonce(&self, row: &[u8], group: u64, nonce: u64) -> Result<bool> {
        self.check_locked(row)?;
        let database = &self.region.database;
        let snapshot = database.snapshot()?;
        self.seen.fetch_max(snapshot.seq(), Ordering::SeqCst);
        let key = key::nonce(&self.region.codec.prefix(row), group, nonce);
        let value = snapshot.get(&key).await.map_err(|e| from_slatedb(&e))?;
        let Some(value) = value else {
            return Ok(false);
        };
        Ok(!database.moment().is_over(&value)?)
    }

    /// Writes cells of the locked rows and notes nonces (row, group, nonce), all or nothing. The locks are released as soon as
    /// the next locker would see the write; the answer, its sequence number, comes when it and all that was seen under the
    /// locks is as durable as asked. Less than [`Durability::SyncWal`] makes no difference here: a client must be able to read
    /// its own writes, and only durable ones are read (C1).
    ///
    /// # Errors
    /// `RegionTooBusy` before anything happened; `NoSuchColumnFamily`; `NotServingRegion` or `Fenced` when the region closed: then
    /// the write may or may not be seen later.
    pub async fn write(
        self,
        cells: Vec<Cell>,
        nonces: &[(Bytes, u64, u64)],
        durability: Durability,
    ) -> Result<u64> {
        for cell in &cells {
            self.check_locked(&cell.row)?;
        }
        for (row, _, _) in nonces {
            self.check_locked(row)?;
        }
        if cells.is_empty() && nonces.is_empty() {
            self.settle().await?;
            return Ok(self.seen.load(Ordering::SeqCst));
        }
        let region = Arc::clone(&self.region);
        let sequence = write::write(&region, cells, nonces).await?;
        // The permit stays, so that a close waits for the answer.
        let Self { held, _open, .. } = self;
        drop(held);
        let database = &region.database;
        if durability == Durability::FsyncWal
            && database.store.config.wal_sync == WalSync::Write
            && database.object_log.is_none()
        {
            database.lane.sync().await?;
        }
        database.wait_durable(sequence).await?;
        Ok(sequence)
    }

    /// Waits until everything that was read under these locks is durable: before a failed condition is answered (C1).
    ///
    /// # Errors
    /// `NotServingRegion` or `Fenced` when the region closed.
    pub async fn settle(&self) -> Result<()> {
        let seen = self.seen.load(Ordering::SeqCst);
        self.region.database.wait_durable(seen).await
    }
}

fn timed_out(row: &[u8]) -> Error {
    Error::new(
        Code::TimeoutIo,
        format!("Timed out waiting for lock for row: {}", row.escape_ascii()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_forgets_rows_nobody_wants() {
        let table = LockTable::new();
        let row = Bytes::from_static(b"r");
        let (first, one) = table.join(&row);
        let (second, two) = table.join(&row);
        assert!(Arc::ptr_eq(&first, &second));
        drop(one);
        assert_eq!(table.len(), 1);
        drop(two);
        assert_eq!(table.len(), 0);
    }
}
