//! One open region: reading it, and what its writes share.

use std::collections::BTreeSet;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Cell, Code, Error, Query, RegionInfo, Result, TableDescriptor, limits};
use slatedb::DbSnapshot;
use slatedb::config::{DurabilityLevel, ReadOptions};

use crate::clock::RowTimestamps;
use crate::database::{Database, Form};
use crate::error::from_slatedb;
use crate::files::{self, Files};
use crate::key::{self, NONCE_FAMILY, RowCodec};
use crate::locks::{LockTable, RowLocks};
use crate::maintenance;
use crate::merge::CellMerge;
use crate::read::{self, RowRead};
use crate::row_cache::CachedRows;
use crate::scan::{RowRange, Scanner};
use crate::schema::{Schema, Wanted};
use crate::seal;
use crate::store::{RegionSpec, StoreShared, region_path};
use crate::write::WriteState;

/// A region served here. Clones are the same region; it may be used from any core, but works best on its own.
pub struct Region<E: Env> {
    pub(crate) shared: Arc<RegionShared<E>>,
}

impl<E: Env> Clone for Region<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// What handles, scanners and locks of a region share.
pub(crate) struct RegionShared<E: Env> {
    pub(crate) info: RegionInfo,
    schema: RwLock<Arc<Schema>>,
    pub(crate) codec: RowCodec,
    pub(crate) database: Arc<Database<E>>,
    pub(crate) locks: LockTable,
    pub(crate) timestamps: RowTimestamps,
    pub(crate) writes: WriteState,
    pub(crate) rows: CachedRows,
    pub(crate) files: Files,
}

impl<E: Env> RegionShared<E> {
    pub(crate) fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema.read().expect("not poisoned"))
    }

    pub(crate) fn descriptor(&self) -> Arc<TableDescriptor> {
        Arc::clone(&self.schema.read().expect("not poisoned").descriptor)
    }
}

/// A moment of a region, all of which is durable. Clones are the same moment; while one lives, what it shows is kept.
pub struct ReadPoint<E: Env> {
    pub(crate) snapshot: Arc<DbSnapshot>,
    // Keeps the database from being dropped under the snapshot.
    _region: Arc<RegionShared<E>>,
}

impl<E: Env> Clone for ReadPoint<E> {
    fn clone(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            _region: Arc::clone(&self._region),
        }
    }
}

impl<E: Env> ReadPoint<E> {
    /// The last sequence number it shows: HBase's mvcc read point.
    pub fn sequence(&self) -> u64 {
        self.snapshot.seq()
    }
}

/// What was found of one row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Its cells, in HBase's order.
    pub cells: Vec<Cell>,
    /// Bytes of the stored keys and values that the answer was made from, wherever they lay.
    pub bytes_read: u64,
}

/// Load and size of a region, for `GetRegionLoad` and for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegionLoad {
    /// Bytes of its files, about; of a file that it shares with other regions, those of its own rows.
    pub store_file_bytes: u64,
    /// Number of its files.
    pub store_files: u32,
    /// Unflushed bytes, about.
    pub memstore_bytes: u64,
    /// Last sequence number that is in its files.
    pub flushed_sequence: u64,
    /// When its last major compaction ended, ms since 1970; 0 for never.
    pub last_major_compaction_ms: u64,
}

impl<E: Env> Region<E> {
    pub(crate) async fn open(store: Arc<StoreShared<E>>, spec: RegionSpec) -> Result<Self> {
        check_descriptor(&spec.descriptor)?;
        let codec = if spec.info.is_meta() {
            RowCodec::Meta
        } else {
            RowCodec::Plain
        };
        let path = region_path(&spec.info);
        if store.is_open(&path) {
            return Err(Error::invalid(format!("{path} is open here already")));
        }
        seal::check_none(&*store.objects, &path).await?;
        let form = Form {
            codec: Some(codec),
            merge: Some(Arc::new(CellMerge)),
            compression: files::compression(&spec.descriptor),
        };
        let database = Database::open(store, &path, form, spec.expected_epoch).await?;
        let files = Files::load(&database.recipe, &database.db.manifest()).await?;
        let timestamps = RowTimestamps::above(database.clock.seen_ms());
        let rows = CachedRows::new(Arc::clone(&database.store.rows));
        let shared = Arc::new(RegionShared {
            info: spec.info,
            schema: RwLock::new(Arc::new(Schema::new(spec.descriptor))),
            codec,
            database,
            locks: LockTable::new(),
            timestamps,
            writes: WriteState::new(),
            rows,
            files,
        });
        shared.database.belongs_to(&shared);
        Ok(Self { shared })
    }

    /// The region.
    pub fn info(&self) -> &RegionInfo {
        &self.shared.info
    }

    /// Its table as of now.
    pub fn descriptor(&self) -> Arc<TableDescriptor> {
        self.shared.descriptor()
    }

    /// The writer epoch of this open; the next opener's is higher and fences this one (INV-2).
    pub fn epoch(&self) -> u64 {
        self.shared.database.epoch
    }

    /// HBase's open sequence number: above every sequence number written before this open.
    pub fn open_sequence_number(&self) -> u64 {
        self.shared.database.opened_at + 1
    }

    /// Whether it was closed here, or a newer opener fenced it, or a fault closed it: drop it then.
    pub fn is_closed(&self) -> bool {
        self.shared.database.is_closed()
    }

    /// Its load.
    pub fn load(&self) -> RegionLoad {
        let database = &self.shared.database;
        let manifest = database.db.manifest();
        let mut load = RegionLoad {
            memstore_bytes: database.unflushed_bytes(),
            flushed_sequence: manifest.last_l0_seq(),
            last_major_compaction_ms: self.shared.files.major(),
            ..RegionLoad::default()
        };
        for view in manifest.all_sst_views() {
            load.store_files += 1;
            load.store_file_bytes += self.shared.files.bytes(view);
        }
        load
    }

    /// Bytes of keys and values in its files, before compression. Reads the statistics of files that it did not know yet.
    ///
    /// # Errors
    /// `NotServingRegion` once closed, `Io`.
    pub async fn raw_file_bytes(&self) -> Result<u64> {
        let database = &self.shared.database;
        let _open = database.begin().await?;
        let manifest = database.db.manifest();
        let files = &self.shared.files;
        files.raw_bytes(&database.recipe, &manifest).await
    }

    /// Names of its files in the object store.
    ///
    /// # Errors
    /// For files that SlateDB cannot name.
    pub fn file_names(&self) -> Result<Vec<String>> {
        let database = &self.shared.database;
        files::names(&database.recipe, &database.db.manifest())
    }

    /// A row at which it may be split into halves, by what is in its files after a flush; `None` if it is too small to have one.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub async fn split_row(&self) -> Result<Option<Bytes>> {
        let shared = &self.shared;
        if shared.info.is_meta() {
            return Ok(None);
        }
        let database = &shared.database;
        let _open = database.begin().await?;
        database.flush().await?;
        let manifest = database.db.manifest();
        shared
            .files
            .middle_row(&database.recipe, &manifest, shared.codec, &shared.info)
            .await
    }

    /// Takes its blocks out of the block cache; how many they were.
    pub fn clear_cache(&self) -> u64 {
        let database = &self.shared.database;
        database.store.cache.clear(database.recipe.cache_id)
    }

    /// Writes what is in memory to files.
    ///
    /// # Errors
    /// `NotServingRegion` once closed, `Fenced`, `Io`.
    pub async fn flush(&self) -> Result<()> {
        let _open = self.shared.database.begin().await?;
        self.shared.database.flush().await
    }

    /// Merges files: with `major` all of them, dropping what is deleted, expired or over VERSIONS; else those that are worth it.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub async fn compact(&self, major: bool) -> Result<()> {
        let _open = self.shared.database.begin().await?;
        maintenance::compact_region(&self.shared, major).await
    }

    /// Lets what runs finish, flushes and closes. Closed before is closed.
    ///
    /// # Errors
    /// As the flush's; the region is closed all the same.
    pub async fn close(&self) -> Result<()> {
        self.shared.database.close().await
    }

    /// Serves by a changed descriptor from now on. Family ids must be the old ones for the families that stay (C6).
    ///
    /// # Errors
    /// For a descriptor that cannot be served.
    pub async fn alter(&self, descriptor: Arc<TableDescriptor>) -> Result<()> {
        check_descriptor(&descriptor)?;
        *self.shared.schema.write().expect("not poisoned") = Arc::new(Schema::new(descriptor));
        self.shared.rows.forget_all();
        Ok(())
    }

    /// This moment, once all of it is durable (C2).
    ///
    /// # Errors
    /// `NotServingRegion` once closed, `Fenced`.
    pub async fn read_point(&self) -> Result<ReadPoint<E>> {
        let _open = self.shared.database.begin().await?;
        Ok(ReadPoint {
            snapshot: self.shared.database.durable_snapshot().await?,
            _region: Arc::clone(&self.shared),
        })
    }

    fn check_row(&self, row: &[u8]) -> Result<()> {
        if self.shared.info.is_meta() || self.shared.info.contains(row) {
            return Ok(());
        }
        Err(wrong_region(&self.shared.info, row, "get"))
    }

    /// The row's durable cells in HBase's order: family name, qualifier, timestamp descending.
    ///
    /// # Errors
    /// `WrongRegion`, `NoSuchColumnFamily`, `NotServingRegion` once closed, `RowTooBig`, `Corrupt`, `Io`.
    pub async fn get(&self, row: &[u8], query: &Query) -> Result<Vec<Cell>> {
        Ok(self.get_first(row, query, None).await?.cells)
    }

    /// As [`Self::get`], for a caller that looks only at so many first columns of each family: a wide row may be answered without the
    /// others.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_first(
        &self,
        row: &[u8],
        query: &Query,
        first_columns: Option<u32>,
    ) -> Result<Found> {
        self.check_row(row)?;
        let database = &self.shared.database;
        let _open = database.begin().await?;
        let schema = self.shared.schema();
        let at = RowRead {
            codec: self.shared.codec,
            schema: &schema,
            row: &Bytes::copy_from_slice(row),
            query,
            now: database.clock.wall_ms(),
            first_columns,
        };
        if let [only] = &at.wanted()?[..]
            && let Some(found) = self.get_packed(&at, only).await?
        {
            return Ok(found);
        }
        let fill = read::Fill::begin(&self.shared, row);
        if let Some(found) = at.cached(fill.as_ref())? {
            return Ok(found);
        }
        let snapshot = database.durable_snapshot().await?;
        at.stored(&snapshot, fill.as_ref()).await
    }

    /// One family that is packed: one lookup, whose one moment is chosen by SlateDB among the durable ones. `None` if it takes
    /// more, which must then be read at one moment (C2).
    async fn get_packed(&self, at: &RowRead<'_>, only: &Wanted<'_>) -> Result<Option<Found>> {
        let prefix = at.codec.prefix(at.row);
        let key = key::packed(&prefix, only.family.id);
        if at.row.is_empty() || at.row.len() > limits::ROW_MAX || key.len() > key::KEY_MAX {
            return Ok(Some(Found::default()));
        }
        let (database, rows) = (&self.shared.database, &self.shared.rows);
        if !at.query.raw
            && let Some(value) = rows.get(&key, || database.durable())
        {
            return at.only(only, &key, value);
        }
        let ticket = rows.ticket(&prefix, database.durable());
        database.tell_durable();
        let options = ReadOptions {
            durability_filter: DurabilityLevel::Remote,
            ..read::read_options(at.query)
        };
        let value = database
            .db
            .get_with_options(&key, &options)
            .await
            .map_err(|e| from_slatedb(&e))?;
        let found = at.only(only, &key, value.clone())?;
        if let (Some(ticket), Some(_), true) = (ticket, &found, at.query.cache_blocks) {
            rows.fill(ticket, key, value.as_ref());
        }
        Ok(found)
    }

    /// As [`Self::get`], at a read point.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_at(&self, row: &[u8], query: &Query, at: &ReadPoint<E>) -> Result<Vec<Cell>> {
        self.check_row(row)?;
        let database = &self.shared.database;
        let _open = database.begin().await?;
        let read = RowRead {
            codec: self.shared.codec,
            schema: &self.shared.schema(),
            row: &Bytes::copy_from_slice(row),
            query,
            now: database.clock.wall_ms(),
            first_columns: None,
        };
        Ok(read.stored(&at.snapshot, None).await?.cells)
    }

    /// Rows of a range in either order, at a read point. The range is not cut to the region: no other rows are here.
    ///
    /// # Errors
    /// `NoSuchColumnFamily`, `NotServingRegion` once closed.
    pub async fn scan(
        &self,
        range: RowRange,
        reversed: bool,
        query: Query,
        at: ReadPoint<E>,
    ) -> Result<Scanner<E>> {
        let _open = self.shared.database.begin().await?;
        Scanner::new(Arc::clone(&self.shared), &range, reversed, query, at)
    }

    /// Locks rows, in key order (C9), waiting until the deadline (mono).
    ///
    /// # Errors
    /// `TimeoutIo` at the deadline, `WrongRegion` for rows outside, `NotServingRegion` once closed.
    pub async fn lock_rows(
        &self,
        rows: BTreeSet<Bytes>,
        deadline: Duration,
    ) -> Result<RowLocks<E>> {
        for row in &rows {
            key::check(self.shared.codec, row, b"")?;
            if !self.shared.info.is_meta() && !self.shared.info.contains(row) {
                return Err(wrong_region(&self.shared.info, row, "mutation"));
            }
        }
        let open = self.shared.database.begin().await?;
        RowLocks::acquire(Arc::clone(&self.shared), rows, deadline, open).await
    }
}

/// HBase's words for a row outside the region.
fn wrong_region(info: &RegionInfo, row: &[u8], operation: &str) -> Error {
    Error::new(
        Code::WrongRegion,
        format!(
            "Requested row out of range for {operation} on HRegion {}, startKey='{}', getEndKey()='{}', row='{}'",
            String::from_utf8_lossy(&info.name()),
            info.start_key.escape_ascii(),
            info.end_key.escape_ascii(),
            row.escape_ascii()
        ),
    )
}

/// Every family needs an id of its own, which is part of the keys.
fn check_descriptor(descriptor: &TableDescriptor) -> Result<()> {
    let mut ids = BTreeSet::new();
    for (name, family) in &descriptor.families {
        if family.id == 0 || family.id == NONCE_FAMILY || !ids.insert(family.id) {
            return Err(Error::invalid(format!(
                "family {} of {} has no id of its own",
                String::from_utf8_lossy(name),
                descriptor.name
            )));
        }
    }
    Ok(())
}
