//! Scanning rows of a region in either order through one snapshot.
//!
//! It must not know of filters, batches or limits: those are the region server's.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_types::{Cell, Error, Query, Result};
use slatedb::config::ScanOptions;
use slatedb::{DbIterator, DbSnapshot, IterationOrder, KeyValue};

use crate::error::from_slatedb;
use crate::key::{self, Place, RowCodec};
use crate::read::{self, Families, FirstOfFamilies, READ_AHEAD, RowBudget};
use crate::region::{ReadPoint, RegionShared};

/// Rows to scan, in row order whatever the direction: `start` is the lower end. Empty = open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowRange {
    /// Lower end.
    pub start: Bytes,
    /// Whether the lower end itself belongs to it.
    pub include_start: bool,
    /// Upper end.
    pub stop: Bytes,
    /// Whether the upper end itself belongs to it.
    pub include_stop: bool,
}

impl RowRange {
    /// Every row.
    pub fn all() -> Self {
        Self {
            start: Bytes::new(),
            include_start: true,
            stop: Bytes::new(),
            include_stop: false,
        }
    }

    /// The range as keys.
    fn keys(&self, codec: RowCodec) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let lower = match (self.start.is_empty(), self.include_start) {
            (true, _) => Bound::Unbounded,
            (false, true) => Bound::Included(codec.prefix(&self.start)),
            (false, false) => Bound::Included(key::after_row(&codec.prefix(&self.start))),
        };
        let upper = match (self.stop.is_empty(), self.include_stop) {
            (true, _) => Bound::Unbounded,
            (false, false) => Bound::Excluded(codec.prefix(&self.stop)),
            (false, true) => Bound::Excluded(key::after_row(&codec.prefix(&self.stop))),
        };
        (lower, upper)
    }
}

/// How long a scanner keeps its core before others get a turn (C11).
const TURN: Duration = Duration::from_micros(500);

/// Whether the range holds no key at all: SlateDB refuses such ranges.
fn is_empty(lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower), Bound::Excluded(upper)) => lower >= upper,
        _ => false,
    }
}

/// Rows that are passed one by one before the scanner seeks: a seek costs about as much as some entries.
const PASSED_BEFORE_SEEK: u32 = 8;

/// What to do with a row whose key is known and whose cells are not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Its cells are wanted.
    Read,
    /// Nothing of it is wanted.
    Pass,
    /// Nothing is wanted of it and of any row before this one. Only a hint: rows before it may be asked about all the same.
    PassUntil(Bytes),
}

/// What came of one stored row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Its cells, in HBase's order; never empty.
    Row(Vec<Cell>),
    /// It was read and shows nothing, but has stored cells or markers of the families that are asked for.
    Hidden,
    /// It has nothing of what is asked for.
    Empty,
    /// It was not wanted.
    Passed,
    /// There is no row left.
    End,
}

/// Rows one after the other, as of its read point.
pub struct Scanner<E: Env> {
    region: Arc<RegionShared<E>>,
    at: ReadPoint<E>,
    query: Arc<Query>,
    reversed: bool,
    range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    /// The prefix of the row that is behind it, if it is not taken out of the range yet.
    behind: Option<Bytes>,
    entries: Option<DbIterator>,
    /// When `entries` was made (mono): replaced files live only so long (C12).
    made: Duration,
    /// Since when it has had the core to itself (mono).
    turn: Duration,
    /// The first entry of the next row, read already.
    ahead: Option<KeyValue>,
    /// Rows passed in a row with a hint to where the next is.
    passed: u32,
    read_ahead: usize,
    /// Of each family the first so many columns are enough.
    first_columns: Option<u32>,
    /// Bytes of stored keys and values of the rows behind it.
    bytes_read: u64,
    done: bool,
}

impl<E: Env> Scanner<E> {
    pub(crate) fn new(
        region: Arc<RegionShared<E>>,
        range: &RowRange,
        reversed: bool,
        query: Query,
        at: ReadPoint<E>,
    ) -> Result<Self> {
        region.schema().wanted(&query)?;
        let range = range.keys(region.codec);
        Ok(Self {
            done: is_empty(&range.0, &range.1),
            region,
            at,
            query: Arc::new(query),
            reversed,
            range,
            behind: None,
            entries: None,
            made: Duration::ZERO,
            turn: Duration::ZERO,
            ahead: None,
            passed: 0,
            read_ahead: READ_AHEAD,
            first_columns: None,
            bytes_read: 0,
        })
    }

    /// For a caller that looks only at so many first columns of each family: the others of a wide row may be left out. Backwards it
    /// has no effect.
    pub fn first_columns(&mut self, first: u32) {
        self.first_columns = Some(first).filter(|_| !self.reversed && !self.query.raw);
    }

    /// For a caller that wants few rows: nothing is read beyond the blocks they are in. To be called before the first row.
    pub fn read_no_further(&mut self) {
        self.read_ahead = 1;
    }

    /// Its read point.
    pub fn read_point(&self) -> &ReadPoint<E> {
        &self.at
    }

    /// Bytes of the stored keys and values of the rows it has left behind, wherever they lay and whatever came of them.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The next row that has something to show; cells in HBase's order.
    ///
    /// # Errors
    /// `NotServingRegion` once the region is closed, `RowTooBig` over [`cadastre_types::limits::ROW_BYTES_MAX`], `Corrupt`, `Io`.
    pub async fn next_row(&mut self) -> Result<Option<Vec<Cell>>> {
        loop {
            match self.next_step(&mut |_| Choice::Read).await? {
                Step::Row(cells) => return Ok(Some(cells)),
                Step::Hidden | Step::Empty | Step::Passed => {}
                Step::End => return Ok(None),
            }
        }
    }

    /// The next stored row, if it is wanted: `choose` is asked by its key before its cells are looked at.
    ///
    /// # Errors
    /// As [`Self::next_row`].
    pub async fn next_step(
        &mut self,
        choose: &mut (dyn FnMut(&Bytes) -> Choice + Send),
    ) -> Result<Step> {
        let _open = self.region.database.begin().await?;
        if self.done {
            return Ok(Step::End);
        }
        let now = self.region.database.store.env.clock().mono();
        if now.saturating_sub(self.turn) > TURN {
            // Cached blocks never make it wait: the other regions of this core would (C11).
            tokio::task::yield_now().await;
            self.turn = self.region.database.store.env.clock().mono();
        }
        self.refresh(now).await?;
        let Some(first) = self.next_entry().await? else {
            self.done = true;
            return Ok(Step::End);
        };
        let codec = self.region.codec;
        let len = codec
            .prefix_len(&first.key)
            .ok_or_else(|| Error::corrupt("a stored key has no row"))?;
        let prefix = first.key.slice(..len);
        let size = (first.key.len() + first.value.len()) as u64;
        // Backwards the marks of nonces come first, though cells may follow.
        if !self.reversed && key::place(first.key.slice(len..))? == Place::Nonce {
            self.bytes_read += size;
            self.pass(&prefix).await?;
            return Ok(Step::Empty);
        }
        let row = codec.row(&prefix)?;
        match choose(&row) {
            Choice::Read => {
                self.passed = 0;
                let step = self.read(first, &prefix, &row).await?;
                self.behind = Some(prefix);
                Ok(step)
            }
            Choice::Pass => {
                self.bytes_read += size;
                self.pass(&prefix).await?;
                Ok(Step::Passed)
            }
            Choice::PassUntil(next) => {
                self.bytes_read += size;
                self.pass_until(&prefix, &row, &next).await?;
                Ok(Step::Passed)
            }
        }
    }

    /// Leaves a row behind without looking at what it holds.
    async fn pass(&mut self, prefix: &Bytes) -> Result<()> {
        while let Some(next) = self.next_entry().await? {
            if !next.key.starts_with(prefix) {
                self.ahead = Some(next);
                break;
            }
            self.bytes_read += (next.key.len() + next.value.len()) as u64;
        }
        self.behind = Some(prefix.clone());
        Ok(())
    }

    /// Leaves a row behind; after some of them, all before `next`. SlateDB seeks only forward, and only user regions sort their rows as bytes.
    async fn pass_until(&mut self, prefix: &Bytes, row: &Bytes, next: &Bytes) -> Result<()> {
        self.passed += 1;
        let seeks = !self.reversed && self.region.codec == RowCodec::Plain && next > row;
        if !seeks || self.passed <= PASSED_BEFORE_SEEK {
            return self.pass(prefix).await;
        }
        self.passed = 0;
        self.behind = None;
        let target = self.region.codec.prefix(next);
        self.range.0 = Bound::Included(target.clone());
        if is_empty(&self.range.0, &self.range.1) {
            self.done = true;
            return Ok(());
        }
        if let Some(entries) = &mut self.entries {
            entries.seek(target).await.map_err(|e| from_slatedb(&e))?;
        }
        Ok(())
    }

    /// Makes the iterator, or makes it again before the files it reads may be gone (C12).
    async fn refresh(&mut self, now: Duration) -> Result<()> {
        let store = &self.region.database.store;
        let life = store.config.checkpoint_lifetime() / 2;
        if self.entries.is_some() && now.saturating_sub(self.made) < life {
            return Ok(());
        }
        self.ahead = None;
        self.made = now;
        self.narrow();
        if is_empty(&self.range.0, &self.range.1) {
            self.done = true;
            self.entries = None;
            return Ok(());
        }
        let options = ScanOptions {
            cache_blocks: self.query.cache_blocks,
            read_ahead_bytes: self.read_ahead,
            order: if self.reversed {
                IterationOrder::Descending
            } else {
                IterationOrder::Ascending
            },
            ..ScanOptions::default()
        };
        let snapshot: &DbSnapshot = &self.at.snapshot;
        let entries = snapshot
            .scan_with_options(self.range.clone(), &options)
            .await
            .map_err(|e| from_slatedb(&e))?;
        self.entries = Some(entries);
        Ok(())
    }

    /// Takes the rows that are behind it out of the range, so that a new iterator goes on there. Not after each row: few scanners live
    /// longer than an iterator.
    fn narrow(&mut self) {
        let Some(prefix) = self.behind.take() else {
            return;
        };
        if self.reversed {
            self.range.1 = Bound::Excluded(prefix.to_vec());
        } else {
            self.range.0 = Bound::Included(key::after_row(&prefix));
        }
    }

    async fn next_entry(&mut self) -> Result<Option<KeyValue>> {
        if let Some(entry) = self.ahead.take() {
            return Ok(Some(entry));
        }
        match &mut self.entries {
            Some(entries) => read::next(entries).await,
            None => Ok(None),
        }
    }

    /// What a row shows whose first entry has been read, by one schema and at one moment. Of a wide family no more is read than the first
    /// columns that are enough.
    async fn read(&mut self, first: KeyValue, prefix: &Bytes, row: &Bytes) -> Result<Step> {
        let (schema, query) = (self.region.schema(), Arc::clone(&self.query));
        let now = self.region.database.clock.wall_ms();
        let wanted = schema.wanted(&query)?;
        let mut first_columns = self.first_columns.map(FirstOfFamilies::new);
        let mut families = Families::default();
        let mut budget = RowBudget::default();
        let mut next = Some(first);
        while let Some(entry) = next {
            if !entry.key.starts_with(prefix) {
                self.ahead = Some(entry);
                break;
            }
            budget.take(entry.key.len() + entry.value.len())?;
            let place = key::place(entry.key.slice(prefix.len()..))?;
            let enough = match (&mut first_columns, &place) {
                (
                    Some(first),
                    Place::Overflow {
                        family, qualifier, ..
                    },
                ) => {
                    let wanted = wanted.iter().find(|it| it.family.id == *family);
                    // Of a family that is not wanted nothing is enough already.
                    let enough = wanted.is_none_or(|wanted| {
                        let cells = families.at(*family);
                        first.enough(*family, qualifier, cells, |cells| {
                            read::columns_shown(row, wanted, &query, cells, now)
                        })
                    });
                    enough.then_some(*family)
                }
                _ => None,
            };
            match (enough, &mut self.entries) {
                (Some(family), Some(entries)) => {
                    let target = key::after_family(prefix, family);
                    entries.seek(target).await.map_err(|e| from_slatedb(&e))?;
                }
                (Some(_), None) => {}
                (None, _) => read::collect(&mut families, place, entry.value)?,
            }
            next = self.next_entry().await?;
        }
        self.bytes_read += budget.taken();
        let mut out = Vec::new();
        let mut is_stored = false;
        for wanted in &wanted {
            if let Some(mut cells) = families.take(wanted.family.id) {
                if self.reversed {
                    cells.overflow.reverse();
                }
                is_stored |= !cells.is_empty();
                read::answer(row, wanted, &query, cells.merged(), now, &mut out);
            }
        }
        Ok(match (out.is_empty(), is_stored) {
            (false, _) => Step::Row(out),
            (true, true) => Step::Hidden,
            (true, false) => Step::Empty,
        })
    }
}
