//! What a task does with the regions: random operations, each told to the model before it begins and when it is answered.
//!
//! Rows are written in two families at once with explicit timestamps, which are the model's versions; so a torn row shows as two
//! values. Counters take the store's timestamps, which must not go back (C8), and nonces, which must be known for good (C7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::Rng as _;

use cadastre_env::{Clock, Env, Rng};
use cadastre_store::{Region, RowRange};
use cadastre_types::{Cell, CellType, Code, Durability, Error, Query};

use super::{Shared, deadline};
use crate::env::SimEnv;
use crate::hub::locked;
use crate::model::{Model, Ticket};

pub(super) const FIRST: &[u8] = b"f";
pub(super) const SECOND: &[u8] = b"g";
const QUALIFIER: &[u8] = b"q";

/// Rows and counters, each in one of the regions.
const ROWS: usize = 40;
const COUNTERS: usize = 6;

/// Largest value but for a few, and of the few, bytes: some rows overflow their packed form.
const VALUE_BYTES: usize = 400;
const LARGE_VALUE_BYTES: usize = 40_000;

/// Rows of a batch at most.
const BATCH_MAX: usize = 5;

/// Longest pause of a task between two operations, us.
const PAUSE_US: u64 = 1_500;

/// Pause after a failure, and between two looks at what must still be read.
const AGAIN: Duration = Duration::from_millis(5);

/// The group of all nonces.
const NONCE_GROUP: u64 = 7;

fn row_key(number: usize) -> Bytes {
    format!("r-{number:02}").into_bytes().into()
}

fn counter_key(number: usize) -> Bytes {
    format!("c-{number:02}").into_bytes().into()
}

pub(super) struct Worker {
    env: SimEnv,
    regions: Vec<Region<SimEnv>>,
    shared: Arc<Mutex<Shared>>,
    rng: Rng,
}

impl Worker {
    pub(super) fn new(
        env: SimEnv,
        regions: Vec<Region<SimEnv>>,
        shared: Arc<Mutex<Shared>>,
        number: usize,
    ) -> Self {
        Self {
            rng: env.rng(&format!("work {number}")),
            env,
            regions,
            shared,
        }
    }

    fn region(&self, number: usize) -> &Region<SimEnv> {
        &self.regions[number % self.regions.len()]
    }

    /// Works until the faults are over and enough is done.
    pub(super) async fn work(mut self, operations: u64) {
        loop {
            {
                let shared = locked(&self.shared);
                if shared.calm && shared.answered >= operations {
                    return;
                }
            }
            let mut pause = Duration::from_micros(self.rng.random_range(0..PAUSE_US));
            if let Err(error) = self.operation().await {
                self.failed(&error);
                pause += AGAIN;
            }
            self.env.clock().sleep(pause).await;
        }
    }

    fn failed(&self, error: &Error) {
        {
            let mut shared = locked(&self.shared);
            let code = format!("{:?}", error.code());
            *shared.failed.entry(code).or_default() += 1;
            shared.last_error = Some(error.to_string());
        }
        self.env.note(format_args!("failed: {error}"));
        if matches!(error.code(), Code::NotServingRegion | Code::Fenced) {
            self.env.exit(&format!("a region has closed: {error}"));
        }
    }

    async fn operation(&mut self) -> Result<(), Error> {
        let row = self.rng.random_range(0..ROWS);
        match self.rng.random_range(0..1000) {
            0..300 => self.put(1).await,
            300..350 => self.put(BATCH_MAX).await,
            350..400 => self.delete(row).await,
            400..700 => self.get(row).await,
            700..880 => self.increment(row % COUNTERS).await,
            880..940 => self.read_counter(row % COUNTERS).await,
            940..995 => {
                let reversed = self.rng.random_bool(0.3);
                self.scan(row % self.regions.len(), reversed).await
            }
            995..998 => self.region(row).flush().await,
            _ => {
                let major = self.rng.random_bool(0.5);
                self.region(row).compact(major).await
            }
        }?;
        locked(&self.shared).answered += 1;
        Ok(())
    }

    fn value(&mut self, version: i64) -> Bytes {
        let most = if self.rng.random_bool(0.01) {
            LARGE_VALUE_BYTES
        } else {
            VALUE_BYTES
        };
        let mut value = format!("{version} ").into_bytes();
        let size = self.rng.random_range(0..most).max(value.len());
        value.resize(size, b'.');
        value.into()
    }

    fn next_version(&self) -> i64 {
        let mut shared = locked(&self.shared);
        shared.versions += 1;
        shared.versions
    }

    /// Puts some rows of one region, all or nothing.
    async fn put(&mut self, most: usize) -> Result<(), Error> {
        let region = self.rng.random_range(0..self.regions.len());
        let count = self.rng.random_range(1..=most);
        let own: Vec<usize> = (region..ROWS).step_by(self.regions.len()).collect();
        let rows: BTreeSet<usize> = (0..count)
            .map(|_| own[self.rng.random_range(0..own.len())])
            .collect();
        let mut cells = Vec::new();
        let mut begun = Vec::new();
        for number in rows {
            let (row, version) = (row_key(number), self.next_version());
            let value = self.value(version);
            for family in [FIRST, SECOND] {
                cells.push(cell(&row, family, version, value.clone()));
            }
            locked(&self.shared)
                .model
                .begin_write(&row, version, Some(value));
            begun.push((row, version));
        }
        self.write(region, cells, begun).await
    }

    async fn delete(&mut self, number: usize) -> Result<(), Error> {
        let row = row_key(number);
        // A put that lands after a major compaction has dropped a later marker comes back, in HBase too.
        if locked(&self.shared).model.has_unknown_writes(&row) {
            return Ok(());
        }
        let version = self.next_version();
        locked(&self.shared).model.begin_write(&row, version, None);
        let marker = |family| Cell {
            qualifier: Bytes::new(),
            cell_type: CellType::DeleteFamily,
            ..cell(&row, family, version, Bytes::new())
        };
        let cells = vec![marker(FIRST), marker(SECOND)];
        let region = number % self.regions.len();
        self.write(region, cells, vec![(row.clone(), version)])
            .await
    }

    async fn write(
        &mut self,
        region: usize,
        cells: Vec<Cell>,
        begun: Vec<(Bytes, i64)>,
    ) -> Result<(), Error> {
        // All are judged alike: less than SyncWal is acknowledged when it is as durable (C1).
        let durability = match self.rng.random_range(0..4) {
            0 => Durability::FsyncWal,
            1 => Durability::AsyncWal,
            2 => Durability::SkipWal,
            _ => Durability::SyncWal,
        };
        let rows = begun.iter().map(|(row, _)| row.clone()).collect();
        let locks = self.regions[region].lock_rows(rows, deadline(&self.env));
        locks.await?.write(cells, &[], durability).await?;
        let mut shared = locked(&self.shared);
        for (row, version) in &begun {
            shared.model.acknowledge_write(row, *version);
        }
        drop(shared);
        self.env.note(format_args!("wrote {begun:?}"));
        Ok(())
    }

    async fn get(&self, number: usize) -> Result<(), Error> {
        let row = row_key(number);
        let begun = locked(&self.shared).model.begin_read(&row);
        let cells = self.region(number).get(&row, &Query::default()).await?;
        self.judge_row(&row, begun, &cells);
        Ok(())
    }

    fn judge_row(&self, row: &Bytes, begun: Ticket, cells: &[Cell]) {
        let mut shared = locked(&self.shared);
        let verdict = judge_row(&mut shared.model, row, begun, cells);
        shared.judge(verdict);
    }

    /// Adds one, once; now and then the same call comes a second time, and must be known.
    async fn increment(&mut self, number: usize) -> Result<(), Error> {
        let counter = counter_key(number);
        let (begun, nonce) = {
            let mut shared = locked(&self.shared);
            shared.nonces += 1;
            (shared.model.begin_increment(&counter), shared.nonces)
        };
        let region = self.region(number);
        let rows = || BTreeSet::from([counter.clone()]);
        let locks = region.lock_rows(rows(), deadline(&self.env)).await?;
        let old = locks.read(&counter, &Query::default()).await?;
        let Some(old) = counter_of(&old) else {
            self.not_a_number(&counter);
            return Ok(());
        };
        let next = old.0 + 1;
        let at = locks.timestamp(&counter);
        let value = Bytes::copy_from_slice(&next.to_be_bytes());
        let cells = vec![cell(&counter, FIRST, at, value)];
        let nonces = [(counter.clone(), NONCE_GROUP, nonce)];
        locks.write(cells, &nonces, Durability::SyncWal).await?;
        {
            let mut shared = locked(&self.shared);
            let verdict = shared.model.acknowledge_increment(&counter, begun, next);
            shared.judge(verdict);
        }
        self.env
            .note(format_args!("incremented {counter:?} {next}"));
        if self.rng.random_bool(0.1) {
            let locks = self.region(number).lock_rows(rows(), deadline(&self.env));
            let locks = locks.await?;
            let known = locks.nonce(&counter, NONCE_GROUP, nonce).await?;
            locks.settle().await?;
            if !known {
                let what = format!("nonce {nonce} of {counter:?} is forgotten");
                locked(&self.shared).violation.get_or_insert(what);
            }
        }
        Ok(())
    }

    fn not_a_number(&self, counter: &Bytes) {
        let what = format!("counter {counter:?} is no number");
        locked(&self.shared).violation.get_or_insert(what);
    }

    async fn read_counter(&self, number: usize) -> Result<(), Error> {
        let counter = counter_key(number);
        let (begun, stamp) = {
            let shared = locked(&self.shared);
            let stamp = shared.stamps.get(&counter).copied();
            (shared.model.begin_counter_read(&counter), stamp)
        };
        let cells = self.region(number).get(&counter, &Query::default()).await?;
        let Some(now) = counter_of(&cells) else {
            self.not_a_number(&counter);
            return Ok(());
        };
        let mut shared = locked(&self.shared);
        let verdict = shared.model.end_counter_read(&counter, begun, now.0);
        shared.judge(verdict);
        if let Some(before) = stamp
            && now.1 < before.1
        {
            let what = format!("counter {counter:?} goes back in time: {before:?}, then {now:?}");
            shared.violation.get_or_insert(what);
        }
        let latest = shared.stamps.entry(counter).or_insert(now);
        *latest = (*latest).max(now);
        Ok(())
    }

    /// Scans a region: whole rows, in order, each once, and none missing.
    async fn scan(&self, number: usize, reversed: bool) -> Result<(), Error> {
        let mut expected: BTreeMap<Bytes, Ticket> = {
            let shared = locked(&self.shared);
            let rows = (number..ROWS).step_by(self.regions.len()).map(row_key);
            rows.map(|row| (row.clone(), shared.model.begin_read(&row)))
                .collect()
        };
        let region = &self.regions[number];
        let at = region.read_point().await?;
        let scanner = region.scan(RowRange::all(), reversed, Query::default(), at);
        let mut scanner = scanner.await?;
        let mut last: Option<Bytes> = None;
        while let Some(cells) = scanner.next_row().await? {
            let Some(row) = cells.first().map(|cell| cell.row.clone()) else {
                continue;
            };
            let in_order = last
                .as_ref()
                .is_none_or(|last| if reversed { row < *last } else { row > *last });
            let ticket = expected.remove(&row);
            let is_counter = row.starts_with(b"c");
            match ticket {
                Some(ticket) if in_order => self.judge_row(&row, ticket, &cells),
                None if in_order && is_counter => {}
                _ => {
                    let what = format!("a scan shows {row:?} after {last:?}, reversed: {reversed}");
                    locked(&self.shared).violation.get_or_insert(what);
                    return Ok(());
                }
            }
            last = Some(row);
        }
        for (row, ticket) in expected {
            self.judge_row(&row, ticket, &[]);
        }
        Ok(())
    }

    /// Every row and counter, by get and by scan, until each could be read.
    pub(super) async fn read_everything(&self) {
        for number in 0..ROWS {
            self.insist(async || self.get(number).await).await;
        }
        for number in 0..COUNTERS {
            self.insist(async || self.read_counter(number).await).await;
        }
        for region in 0..self.regions.len() {
            self.insist(async || self.scan(region, region % 2 == 1).await)
                .await;
        }
    }

    async fn insist(&self, read: impl AsyncFn() -> Result<(), Error>) {
        while let Err(error) = read().await {
            self.failed(&error);
            self.env.clock().sleep(AGAIN).await;
        }
    }
}

fn cell(row: &Bytes, family: &'static [u8], timestamp: i64, value: Bytes) -> Cell {
    let (family, qualifier) = (Bytes::from_static(family), Bytes::from_static(QUALIFIER));
    Cell::put(row.clone(), family, qualifier, timestamp, value)
}

/// Value and timestamp of a counter; `None` if it is no number.
fn counter_of(cells: &[Cell]) -> Option<(i64, i64)> {
    let Some(cell) = cells.first() else {
        return Some((0, 0));
    };
    let value = cell.value[..].try_into().ok()?;
    Some((i64::from_be_bytes(value), cell.timestamp))
}

/// What a row of two families shows: the same in both, and possible.
fn judge_row(model: &mut Model, row: &Bytes, begun: Ticket, seen: &[Cell]) -> Result<(), String> {
    let content = |family: &[u8]| {
        let mut cells = seen.iter();
        let cell = cells.find(|cell| cell.family == family)?;
        Some((cell.timestamp, cell.value.clone()))
    };
    let (first, second) = (content(FIRST), content(SECOND));
    if first != second {
        return Err(format!("row {row:?} is torn: {first:?} and {second:?}"));
    }
    let shown = first.as_ref().map(|(_, value)| &value[..]);
    let verdict = model.end_read(row, begun, shown);
    verdict.map_err(|violation| violation.to_string())
}
