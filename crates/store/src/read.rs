//! Reading one row: which families and columns, packed and overflow cells together, and what is kept of them.
//!
//! It must not know of locks or writes.

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{
    Cell, Code, Error, KeepDeletedCells, Qualifiers, Query, Result, TimeRange, limits,
};
use slatedb::config::{ReadOptions, ScanOptions};
use slatedb::{DbIterator, DbSnapshot, KeyValue};

use crate::error::from_slatedb;
use crate::key::{self, Place, RowCodec};
use crate::packed::{self, Packed, StoredCell};
use crate::region::{Found, RegionShared};
use crate::retain::{self, Markers, Purpose, Rules, retain};
use crate::row_cache::{CachedRows, Ticket};
use crate::schema::{Schema, Wanted};

/// Families that are read one by one; more are read with one scan of the row.
const GETS_MAX: usize = 2;

/// Columns of a wide row that are looked up one by one; more are read with one scan of its overflow cells.
const COLUMNS_MAX: usize = 8;

/// Read-ahead for scans of many rows or wide ones, bytes (facts/storage-engine.md, section 3).
pub(crate) const READ_AHEAD: usize = 64 * 1024;

pub(crate) fn read_options(query: &Query) -> ReadOptions {
    ReadOptions {
        cache_blocks: query.cache_blocks,
        ..ReadOptions::default()
    }
}

fn scan_options(query: &Query) -> ScanOptions {
    ScanOptions {
        cache_blocks: query.cache_blocks,
        ..ScanOptions::default()
    }
}

/// The cells of one family as they are stored, both forms merged.
#[derive(Default)]
pub(crate) struct FamilyCells {
    /// Whether the packed value says that there are overflow cells.
    pub(crate) flagged: bool,
    /// The packed value as it is stored, if it came with a scan.
    stored: Option<Bytes>,
    pub(crate) packed: Vec<StoredCell>,
    pub(crate) overflow: Vec<StoredCell>,
}

impl FamilyCells {
    /// What a packed value says.
    pub(crate) fn of_packed(value: Bytes) -> Result<Self> {
        let packed = Packed::decode(value)?;
        Ok(Self {
            flagged: packed.overflow,
            packed: packed.cells,
            ..Self::default()
        })
    }

    /// Adds what is stored at one place of the family.
    fn take(&mut self, place: Place, value: Bytes) -> Result<()> {
        match place {
            Place::Packed { .. } => {
                self.stored = Some(value.clone());
                let packed = Packed::decode(value)?;
                self.packed = packed.cells;
                self.flagged = packed.overflow;
            }
            Place::Overflow {
                qualifier,
                timestamp,
                cell_type,
                ..
            } => self.overflow.push(packed::decode_overflow(
                qualifier, timestamp, cell_type, value,
            )?),
            Place::Nonce => {}
        }
        Ok(())
    }

    /// Whether nothing is stored, neither cells nor markers.
    pub(crate) fn is_empty(&self) -> bool {
        self.packed.is_empty() && self.overflow.is_empty()
    }

    /// Whether the packed value, or its absence, is all there is.
    fn is_packed(&self) -> bool {
        !self.flagged && self.overflow.is_empty()
    }

    /// The cells of the columns before one, of a family whose overflow cells came in order.
    fn before(&self, column: &Bytes) -> Vec<StoredCell> {
        let earlier = |cells: &[StoredCell]| -> Vec<StoredCell> {
            let cells = cells.iter().filter(|cell| cell.qualifier < *column);
            cells.cloned().collect()
        };
        packed::merge(earlier(&self.packed), earlier(&self.overflow))
    }

    /// Leaves only the cells of the columns before one.
    fn cut(&mut self, column: &Bytes) {
        self.packed.retain(|cell| cell.qualifier < *column);
        self.overflow.retain(|cell| cell.qualifier < *column);
    }

    /// One sorted list. Of the same coordinates in both the higher sequence stays.
    pub(crate) fn merged(self) -> Vec<StoredCell> {
        packed::merge(self.packed, self.overflow)
    }
}

/// What was read of a row, by family id. A row's keys come family by family, so the last one is the one that is asked for.
#[derive(Default)]
pub(crate) struct Families(Vec<(u16, FamilyCells)>);

impl Families {
    /// The cells of a family.
    pub(crate) fn at(&mut self, id: u16) -> &mut FamilyCells {
        let at = match self.0.iter().rposition(|(known, _)| *known == id) {
            Some(at) => at,
            None => {
                self.0.push((id, FamilyCells::default()));
                self.0.len() - 1
            }
        };
        &mut self.0[at].1
    }

    /// Takes the cells of a family out, if there are any.
    pub(crate) fn take(&mut self, id: u16) -> Option<FamilyCells> {
        let (_, cells) = self.0.iter_mut().find(|(known, _)| *known == id)?;
        Some(std::mem::take(cells))
    }
}

/// When the first columns of a wide family are enough: a filter that lets only those through ends the row behind them.
struct FirstColumns {
    /// How many with something to show.
    wanted: usize,
    /// Columns begun.
    columns: usize,
    last: Option<Bytes>,
    /// Columns read at which the cells are judged next: deleted and expired ones do not count, so it may take more.
    judge_at: usize,
}

impl FirstColumns {
    fn new(wanted: u32) -> Self {
        let wanted = usize::try_from(wanted.max(1)).unwrap_or(usize::MAX);
        Self {
            wanted,
            columns: 0,
            last: None,
            judge_at: wanted,
        }
    }

    /// Whether what was read before an overflow cell of this column is enough; it is cut to whole columns then. `shown` answers the
    /// columns that some cells show.
    fn enough(
        &mut self,
        column: &Bytes,
        cells: &mut FamilyCells,
        shown: impl FnOnce(Vec<StoredCell>) -> usize,
    ) -> bool {
        if self.last.as_ref() == Some(column) {
            return false;
        }
        let whole = self.columns;
        self.columns += 1;
        self.last = Some(column.clone());
        if whole < self.judge_at {
            return false;
        }
        self.judge_at = whole.saturating_mul(2);
        if shown(cells.before(column)) < self.wanted {
            return false;
        }
        cells.cut(column);
        true
    }
}

/// The same for the families of a row, which come one after the other.
pub(crate) struct FirstOfFamilies {
    columns: u32,
    family: u16,
    first: FirstColumns,
}

impl FirstOfFamilies {
    pub(crate) fn new(columns: u32) -> Self {
        Self {
            columns,
            family: 0,
            first: FirstColumns::new(columns),
        }
    }

    /// As [`FirstColumns::enough`].
    pub(crate) fn enough(
        &mut self,
        family: u16,
        column: &Bytes,
        cells: &mut FamilyCells,
        shown: impl FnOnce(Vec<StoredCell>) -> usize,
    ) -> bool {
        if self.family != family {
            self.family = family;
            self.first = FirstColumns::new(self.columns);
        }
        self.first.enough(column, cells, shown)
    }
}

/// How many columns stored cells of a family show.
pub(crate) fn columns_shown(
    row: &Bytes,
    wanted: &Wanted<'_>,
    query: &Query,
    cells: Vec<StoredCell>,
    now: i64,
) -> usize {
    let mut out = Vec::new();
    answer(row, wanted, query, cells, now, &mut out);
    out.chunk_by(|a, b| a.qualifier == b.qualifier).count()
}

/// Counts the bytes of a row that is read whole.
#[derive(Default)]
pub(crate) struct RowBudget(usize);

impl RowBudget {
    /// Bytes so far.
    pub(crate) fn taken(&self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        self.0 += bytes;
        if self.0 > limits::ROW_BYTES_MAX {
            return Err(Error::new(
                Code::RowTooBig,
                format!(
                    "Max row size allowed: {}, but the row is bigger than that",
                    limits::ROW_BYTES_MAX
                ),
            ));
        }
        Ok(())
    }
}

/// What the stored cells of a family answer to a query.
pub(crate) fn answer(
    row: &Bytes,
    wanted: &Wanted<'_>,
    query: &Query,
    cells: Vec<StoredCell>,
    now: i64,
    out: &mut Vec<Cell>,
) {
    let purpose = Purpose::Read {
        time_range: query.time_range_of(&wanted.family.name),
        max_versions: query.max_versions,
        qualifiers: wanted.qualifiers,
        raw: query.raw,
    };
    let kept = retain(cells, wanted.rules, purpose, now);
    out.extend(kept.into_iter().map(|cell| Cell {
        row: row.clone(),
        family: wanted.family.name.clone(),
        qualifier: cell.qualifier,
        timestamp: cell.timestamp,
        cell_type: cell.cell_type,
        value: cell.value,
        tags: cell.tags,
        sequence_id: cell.sequence,
    }));
}

/// What is read of one row.
pub(crate) struct RowRead<'a> {
    pub(crate) codec: RowCodec,
    pub(crate) schema: &'a Schema,
    pub(crate) row: &'a Bytes,
    pub(crate) query: &'a Query,
    /// For TTL, ms.
    pub(crate) now: i64,
    /// Of each family the first so many columns are enough; more may come.
    pub(crate) first_columns: Option<u32>,
}

/// Leave to make cache entries of what is read of a row.
pub(crate) struct Fill<'a> {
    rows: &'a CachedRows,
    ticket: Ticket,
}

impl<'a> Fill<'a> {
    /// `None` while writes of the row are not durable. Before the snapshot is taken.
    pub(crate) fn begin<E: Env>(region: &'a RegionShared<E>, row: &[u8]) -> Option<Self> {
        let rows = &region.rows;
        let ticket = rows.ticket(&region.codec.prefix(row), region.database.durable())?;
        Some(Self { rows, ticket })
    }
}

impl<'a> RowRead<'a> {
    pub(crate) fn wanted(&self) -> Result<Vec<Wanted<'a>>> {
        self.schema.wanted(self.query)
    }

    /// What a family's packed value, or its absence, answers by itself; `None` if there are overflow cells.
    pub(crate) fn packed(
        &self,
        wanted: &Wanted<'_>,
        value: Option<Bytes>,
    ) -> Result<Option<Vec<Cell>>> {
        let mut out = Vec::new();
        if let Some(value) = value {
            let packed = Packed::decode(value)?;
            if packed.overflow {
                return Ok(None);
            }
            answer(
                self.row,
                wanted,
                self.query,
                packed.cells,
                self.now,
                &mut out,
            );
        }
        Ok(Some(out))
    }

    /// The same, where that family is all that is asked for.
    pub(crate) fn only(
        &self,
        wanted: &Wanted<'_>,
        key: &Bytes,
        value: Option<Bytes>,
    ) -> Result<Option<Found>> {
        let bytes_read = value.as_ref().map_or(0, |value| key.len() + value.len()) as u64;
        let cells = self.packed(wanted, value)?;
        Ok(cells.map(|cells| Found { cells, bytes_read }))
    }

    /// What the row cache answers, if it holds all that is asked for, durable and of one moment (C2).
    pub(crate) fn cached(&self, fill: Option<&Fill<'_>>) -> Result<Option<Found>> {
        let Some(fill) = fill else {
            return Ok(None);
        };
        // With the ticket all of the row is durable.
        let entry = |key: &Bytes| fill.rows.get(key, || u64::MAX);
        let found = self.of_entries(entry)?;
        Ok(found.filter(|_| fill.rows.holds(fill.ticket)))
    }

    /// The same, durable or not, for who holds the row's lock; with the highest sequence number that was seen.
    pub(crate) fn cached_locked(&self, rows: &CachedRows) -> Result<Option<(Found, u64)>> {
        let mut seen = 0;
        let found = self.of_entries(|key| {
            let entry = rows.get_locked(key)?;
            seen = seen.max(entry.sequence);
            Some(entry.value)
        })?;
        Ok(found.map(|found| (found, seen)))
    }

    fn of_entries(
        &self,
        mut entry: impl FnMut(&Bytes) -> Option<Option<Bytes>>,
    ) -> Result<Option<Found>> {
        let wanted = self.wanted()?;
        if self.query.raw {
            return Ok(None);
        }
        let prefix = self.codec.prefix(self.row);
        let mut all = Found::default();
        for family in &wanted {
            let key = key::packed(&prefix, family.family.id);
            let Some(value) = entry(&key) else {
                return Ok(None);
            };
            let Some(found) = self.only(family, &key, value)? else {
                return Ok(None);
            };
            all.cells.extend(found.cells);
            all.bytes_read += found.bytes_read;
        }
        Ok(Some(all))
    }

    /// What the database shows at a snapshot.
    pub(crate) async fn stored(
        &self,
        snapshot: &DbSnapshot,
        fill: Option<&Fill<'_>>,
    ) -> Result<Found> {
        let mut budget = RowBudget::default();
        let cells = self.stored_cells(snapshot, fill, &mut budget).await?;
        Ok(Found {
            cells,
            bytes_read: budget.taken(),
        })
    }

    async fn stored_cells(
        &self,
        snapshot: &DbSnapshot,
        fill: Option<&Fill<'_>>,
        budget: &mut RowBudget,
    ) -> Result<Vec<Cell>> {
        let (query, now) = (self.query, self.now);
        let wanted = self.wanted()?;
        let prefix = self.codec.prefix(self.row);
        let mut out = Vec::new();
        if prefix.len() + 3 > key::KEY_MAX {
            // Such a row cannot have been written.
            return Ok(out);
        }
        if wanted.len() > GETS_MAX {
            let mut families = whole_row(snapshot, &prefix, query, budget).await?;
            for family in &wanted {
                let cells = families.take(family.family.id).unwrap_or_default();
                if let (Some(fill), true) = (fill, query.cache_blocks && cells.is_packed()) {
                    let key = key::packed(&prefix, family.family.id);
                    fill.rows.fill(fill.ticket, key, cells.stored.as_ref());
                }
                answer(self.row, family, query, cells.merged(), now, &mut out);
            }
            return Ok(out);
        }
        for family in &wanted {
            let key = key::packed(&prefix, family.family.id);
            let value = snapshot
                .get_with_options(&key, &read_options(query))
                .await
                .map_err(|e| from_slatedb(&e))?;
            budget.take(value.as_ref().map_or(0, |value| key.len() + value.len()))?;
            if let Some(cells) = self.packed(family, value.clone())? {
                if let (Some(fill), true) = (fill, query.cache_blocks) {
                    fill.rows.fill(fill.ticket, key, value.as_ref());
                }
                out.extend(cells);
                continue;
            }
            let Some(value) = value else { continue };
            let mut cells = FamilyCells::of_packed(value)?;
            let columns = Columns {
                family: family.family.id,
                qualifiers: family.qualifiers,
                stop: Stop::of(family.rules, query, &family.family.name, now),
            };
            match self.first_columns.filter(|_| !query.raw) {
                None => {
                    columns
                        .load(snapshot, &prefix, query, budget, &mut cells)
                        .await?;
                }
                Some(first) => {
                    self.load_first(snapshot, &prefix, family, first, budget, &mut cells)
                        .await?;
                }
            }
            answer(self.row, family, query, cells.merged(), now, &mut out);
        }
        Ok(out)
    }

    /// Adds the overflow cells of the first columns that show something.
    async fn load_first(
        &self,
        snapshot: &DbSnapshot,
        prefix: &[u8],
        wanted: &Wanted<'_>,
        first: u32,
        budget: &mut RowBudget,
        cells: &mut FamilyCells,
    ) -> Result<()> {
        let mut first = FirstColumns::new(first);
        let whole = key::overflow_prefix(prefix, wanted.family.id);
        let mut entries = scan(snapshot, &whole, self.query).await?;
        while let Some(entry) = next(&mut entries).await? {
            budget.take(entry.key.len() + entry.value.len())?;
            let place = key::place(entry.key.slice(prefix.len()..))?;
            let shown = |cells| columns_shown(self.row, wanted, self.query, cells, self.now);
            if let Place::Overflow { qualifier, .. } = &place
                && first.enough(qualifier, cells, shown)
            {
                break;
            }
            cells.take(place, entry.value)?;
        }
        Ok(())
    }
}

/// When enough of a column has been read: a wide row's column may have very many versions.
pub(crate) struct Stop {
    rules: Rules,
    versions: u32,
    time_range: TimeRange,
    now: i64,
}

impl Stop {
    /// `None` where the newest cells do not decide.
    fn of(rules: &Rules, query: &Query, family: &[u8], now: i64) -> Option<Self> {
        if query.raw || rules.new_version_behavior || rules.min_versions > 0 {
            return None;
        }
        Some(Self {
            rules: *rules,
            versions: query.max_versions.min(rules.max_versions),
            time_range: query.time_range_of(family),
            now,
        })
    }

    /// Whether a put is one of those that are asked for, as far as expiry and time range go.
    fn counts(&self, put: &StoredCell) -> bool {
        self.time_range.contains(put.timestamp) && !retain::expired(put, &self.rules, self.now)
    }

    /// Whether a marker hides anything in this read (10.2).
    fn marks(&self, marker: &StoredCell) -> bool {
        !retain::expired(marker, &self.rules, self.now)
            && (self.rules.keep_deleted == KeepDeletedCells::False
                || self.time_range.contains(marker.timestamp))
    }
}

/// Which overflow cells of a family are read.
pub(crate) struct Columns<'a> {
    pub(crate) family: u16,
    pub(crate) qualifiers: &'a Qualifiers,
    pub(crate) stop: Option<Stop>,
}

impl Columns<'_> {
    /// Adds the overflow cells to the packed ones.
    pub(crate) async fn load(
        &self,
        snapshot: &DbSnapshot,
        prefix: &[u8],
        query: &Query,
        budget: &mut RowBudget,
        cells: &mut FamilyCells,
    ) -> Result<()> {
        let Qualifiers::These(these) = self.qualifiers else {
            return self.load_all(snapshot, prefix, query, budget, cells).await;
        };
        if these.len() > COLUMNS_MAX {
            return self.load_all(snapshot, prefix, query, budget, cells).await;
        }
        // Markers of the whole family stand under the empty qualifier, so that is read first and whole.
        let none = Bytes::new();
        self.load_column(snapshot, prefix, &none, None, query, budget, cells)
            .await?;
        for column in these.iter().filter(|column| !column.is_empty()) {
            let stop = self.stop.as_ref();
            self.load_column(snapshot, prefix, column, stop, query, budget, cells)
                .await?;
        }
        Ok(())
    }

    async fn load_all(
        &self,
        snapshot: &DbSnapshot,
        prefix: &[u8],
        query: &Query,
        budget: &mut RowBudget,
        cells: &mut FamilyCells,
    ) -> Result<()> {
        let whole = key::overflow_prefix(prefix, self.family);
        let mut entries = scan(snapshot, &whole, query).await?;
        while let Some(entry) = next(&mut entries).await? {
            budget.take(entry.key.len() + entry.value.len())?;
            cells.take(key::place(entry.key.slice(prefix.len()..))?, entry.value)?;
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "the state of one read")]
    async fn load_column(
        &self,
        snapshot: &DbSnapshot,
        prefix: &[u8],
        column: &Bytes,
        stop: Option<&Stop>,
        query: &Query,
        budget: &mut RowBudget,
        cells: &mut FamilyCells,
    ) -> Result<()> {
        let mut markers = Markers::default();
        if let Some(stop) = stop {
            for cell in cells.packed.iter().chain(&cells.overflow) {
                let speaks = cell.cell_type.is_family_wide() || cell.qualifier == *column;
                if cell.cell_type.is_delete() && speaks && stop.marks(cell) {
                    markers.add(cell);
                }
            }
        }
        let mut enough = stop.map(|stop| stop.versions);
        let whole = key::overflow_column(prefix, self.family, column);
        let mut entries = scan(snapshot, &whole, query).await?;
        while enough != Some(0)
            && let Some(entry) = next(&mut entries).await?
        {
            budget.take(entry.key.len() + entry.value.len())?;
            cells.take(key::place(entry.key.slice(prefix.len()..))?, entry.value)?;
            let (Some(stop), Some(left), Some(cell)) =
                (stop, enough.as_mut(), cells.overflow.last())
            else {
                continue;
            };
            if cell.cell_type.is_delete() {
                if stop.marks(cell) {
                    markers.add(cell);
                }
            } else if stop.counts(cell) && !markers.hides(cell, false) {
                *left -= 1;
            }
        }
        Ok(())
    }
}

async fn scan(snapshot: &DbSnapshot, prefix: &[u8], query: &Query) -> Result<DbIterator> {
    snapshot
        .scan_prefix_with_options(prefix, .., &scan_options(query))
        .await
        .map_err(|e| from_slatedb(&e))
}

/// The next entry of a scan.
pub(crate) async fn next(entries: &mut DbIterator) -> Result<Option<KeyValue>> {
    entries.next().await.map_err(|e| from_slatedb(&e))
}

/// All families of a row in one scan, by id.
pub(crate) async fn whole_row(
    snapshot: &DbSnapshot,
    prefix: &[u8],
    query: &Query,
    budget: &mut RowBudget,
) -> Result<Families> {
    let mut families = Families::default();
    let mut entries = scan(snapshot, prefix, query).await?;
    while let Some(entry) = next(&mut entries).await? {
        budget.take(entry.key.len() + entry.value.len())?;
        collect(
            &mut families,
            key::place(entry.key.slice(prefix.len()..))?,
            entry.value,
        )?;
    }
    Ok(families)
}

/// Adds one entry of a row to what was read of it.
pub(crate) fn collect(families: &mut Families, place: Place, value: Bytes) -> Result<()> {
    match place {
        Place::Packed { family } | Place::Overflow { family, .. } => {
            families.at(family).take(place, value)
        }
        Place::Nonce => Ok(()),
    }
}
