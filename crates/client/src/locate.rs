//! Finding the region that holds a row: cache first, then one look-up for all who wait (requirements.md L7 to L18).
//!
//! 1. A hit in the [`Cache`] asks nobody (L9).
//! 2. A miss waits for its turn in the [`Flights`] queue of the gap between cached regions in which its row lies, and looks in the
//!    cache again. Rows of different gaps lie in different regions, so their look-ups may run at the same time.
//! 3. The leader locates the region of the **tier above** that holds the row's directory entry, by the same function (tiers are
//!    data: `hbase:meta` alone, whose place the registry knows, or a root above it, L6), reads some rows there, and lets [`lookup`] judge them.
//! 4. What the rows say of other regions is cached, too (L11).
//!
//! Everything here is **one** try: nothing sleeps, nothing is repeated; `call` does that. It must not know what the caller
//! wants with the location.

mod cache;
mod dead;
mod flight;
mod lookup;
mod order;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Env, HostPort};
use cadastre_rpc::Connections;
use cadastre_types::{Code, Error, RegionInfo, Result, Scan, ServerName, TableName};
use cadastre_wire::Service;
use futures::FutureExt;
use futures::future::BoxFuture;

pub use cache::Location;
pub(crate) use cache::{Cache, REGIONS_MAX};
pub use lookup::Position;
pub(crate) use order::KeyOrder;

use self::dead::DeadServers;
use self::flight::Flights;
pub(crate) use self::lookup::Wanted;
use self::lookup::{Check, DirectoryRow, Miss, Reading};
use crate::config::ClientConfig;
use crate::notation;
use crate::registry::Registry;
use crate::requests;
use crate::retry::{self, Blame};

/// Rows of one page of a directory scan without prefetch: the region and a few parents that were split lately.
const PAGE_ROWS_MIN: u32 = 3;

/// Pages of one directory scan at most: a row behind more split parents than this is not found, with the error of check e.
const PAGES_MAX: u32 = 100;

/// How long the registry may take to say whether a server is alive, beside the call that failed.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of one directory answer.
const PAGE_BYTES: u64 = 2 * 1024 * 1024;

/// Who said where a region is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The client's own cache: nobody was asked, or somebody else who waited for the same had asked.
    Cache,
    /// ZooKeeper or the RPC registry.
    Registry,
    /// This table of the directory.
    Directory(TableName),
}

/// A location, and who said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Where the region is.
    pub location: Arc<Location>,
    /// Who said so.
    pub source: Source,
}

impl Located {
    fn cached(location: Arc<Location>) -> Self {
        Self {
            location,
            source: Source::Cache,
        }
    }
}

/// One failed try to locate.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    /// Why.
    pub(crate) error: Error,
    /// The region is offline: its table may be disabled.
    pub(crate) may_be_disabled: bool,
    /// It is the answer for every row of the table.
    is_table_wide: bool,
}

impl Failed {
    /// A failure on the way to the directory, which is the same for everybody who wants something of this table.
    fn on_the_way(error: Error) -> Self {
        Self {
            error,
            may_be_disabled: false,
            is_table_wide: true,
        }
    }
}

impl From<Miss> for Failed {
    fn from(miss: Miss) -> Self {
        Self {
            may_be_disabled: miss.may_be_disabled(),
            is_table_wide: miss.is_table_wide(),
            error: miss.error,
        }
    }
}

/// Locations and how they are found.
pub(crate) struct Locator<E: Env> {
    connections: Arc<Connections<E>>,
    registry: Arc<Registry<E>>,
    /// Tables of the directory, top first: the registry knows where the first is, each holds the regions of the next, the last
    /// those of all other tables.
    tiers: Vec<TableName>,
    prefetch_regions: u32,
    cache: RwLock<Cache>,
    dead: RwLock<DeadServers>,
    /// Tables for which nothing is read along (L11).
    without_prefetch: RwLock<BTreeSet<TableName>>,
    /// By table and beginning of the gap.
    flights: Flights<(TableName, Bytes)>,
}

impl<E: Env> Locator<E> {
    pub(crate) fn new(
        connections: Arc<Connections<E>>,
        registry: Arc<Registry<E>>,
        config: &ClientConfig,
    ) -> Self {
        Self {
            connections,
            registry,
            tiers: config.tiers.clone(),
            prefetch_regions: config.prefetch_regions,
            cache: RwLock::new(Cache::new(config.cached_regions_max)),
            dead: RwLock::default(),
            without_prefetch: RwLock::default(),
            flights: Flights::default(),
        }
    }

    // A panic inside the cache's own functions is a broken invariant of it; a poisoned lock would only spread that to every
    // later call, while each entry is checked again by the server it names.
    fn cache(&self) -> RwLockReadGuard<'_, Cache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache_mut(&self) -> RwLockWriteGuard<'_, Cache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_dead(&self, server: &ServerName) -> bool {
        self.dead
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(server)
    }

    /// What to look for, with the order of the table's keys.
    pub(crate) fn wanted<'a>(
        &self,
        table: &'a TableName,
        row: &'a Bytes,
        position: Position,
        replica: u32,
    ) -> Wanted<'a> {
        Wanted {
            table,
            order: self.order(table),
            row,
            position,
            replica,
        }
    }

    fn order(&self, table: &TableName) -> KeyOrder {
        match self.tiers.iter().rev().position(|tier| tier == table) {
            None => KeyOrder::Plain,
            Some(0) => KeyOrder::Meta,
            // [`ClientConfig::tiers`] has two at most.
            Some(_) => KeyOrder::Root,
        }
    }

    /// The table that holds this table's regions; `None` if the registry knows them.
    fn tier_above(&self, table: &TableName) -> Option<&TableName> {
        match self.tiers.iter().position(|tier| tier == table) {
            Some(at) => at.checked_sub(1).map(|above| &self.tiers[above]),
            None => self.tiers.last(),
        }
    }

    /// A location from the cache (L7).
    pub(crate) fn cached(&self, wanted: &Wanted<'_>) -> Option<Arc<Location>> {
        let cache = self.cache();
        match wanted.position {
            Position::Holding => cache.get(wanted.table, wanted.row, wanted.replica),
            Position::Before => cache.get_before(wanted.table, wanted.row, wanted.replica),
        }
    }

    /// Drops what is cached for the row, so that the next look-up is a real one (L12).
    pub(crate) fn drop_cached(&self, wanted: &Wanted<'_>) {
        if let Some(location) = self.cached(wanted) {
            self.cache_mut().clear_location(&location);
        }
    }

    /// Where the gap begins in which a row lies: rows of different gaps lie in different regions.
    pub(crate) fn gap_start(&self, wanted: &Wanted<'_>) -> Bytes {
        let before = wanted.position == Position::Before;
        self.cache().gap_start(wanted.table, wanted.row, before)
    }

    /// One try to locate, by cache or look-up.
    pub(crate) fn locate<'a>(
        &'a self,
        wanted: Wanted<'a>,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Located, Failed>> {
        async move {
            if let Some(found) = self.cached(&wanted) {
                return Ok(Located::cached(found));
            }
            let mut key = (wanted.table.clone(), self.gap_start(&wanted));
            let turn = loop {
                let turn = self.flights.turn(&key).await;
                let turn = turn.map_err(Failed::on_the_way)?;
                if let Some(found) = self.cached(&wanted) {
                    return Ok(Located::cached(found));
                }
                // While it waited the gap has become smaller: others may be looking up the same under the new one. Each round means
                // that something was learnt, and the caller's deadline bounds them.
                let gap = self.gap_start(&wanted);
                if gap == key.1 {
                    break turn;
                }
                key.1 = gap;
            };
            let outcome = match self.tier_above(wanted.table) {
                None => self
                    .ask_registry(&wanted, timeout)
                    .await
                    .map(|location| (location, Source::Registry)),
                Some(above) => self
                    .ask_directory(above, &wanted, timeout)
                    .await
                    .map(|location| (location, Source::Directory(above.clone()))),
            };
            if let Err(failed) = &outcome
                && failed.is_table_wide
            {
                turn.fail_all(failed.error.clone());
            }
            let (location, source) = outcome?;
            Ok(Located { location, source })
        }
        .boxed()
    }

    async fn ask_registry(
        &self,
        wanted: &Wanted<'_>,
        timeout: Duration,
    ) -> Result<Arc<Location>, Failed> {
        if wanted.replica > 0 {
            let text = format!("replica {} of {}", wanted.replica, wanted.table);
            return Err(Failed::on_the_way(Error::unsupported(text)));
        }
        let place = self
            .registry
            .meta_place(timeout)
            .await
            .map_err(Failed::on_the_way)?;
        if self.is_dead(&place.server) {
            return Err(Failed::on_the_way(Error::new(
                Code::RegionServerStopped,
                format!("{} is on {}, but it is dead", wanted.table, place.server),
            )));
        }
        let location = Location {
            region: Arc::new(RegionInfo {
                table: wanted.table.clone(),
                ..RegionInfo::meta()
            }),
            server: place.server,
            open_seq: place.open_seq,
        };
        Ok(self.cache_mut().insert(wanted.order, location))
    }

    async fn ask_directory(
        &self,
        above: &TableName,
        wanted: &Wanted<'_>,
        timeout: Duration,
    ) -> Result<Arc<Location>, Failed> {
        let prefetch = self.prefetch_regions > 0 && !self.skips_prefetch(wanted.table);
        let gap = self.cache().gap(wanted.table, wanted.row);
        let page_rows = if prefetch {
            self.prefetch_regions.max(PAGE_ROWS_MIN)
        } else {
            PAGE_ROWS_MIN
        };
        if let Reading::Forward(from) = lookup::plan(wanted, &gap, prefetch) {
            let scan = lookup::forward_scan(wanted.table, &from);
            let page = self
                .read_page(above, scan, Position::Holding, page_rows, timeout)
                .await?;
            // Otherwise the row lies further on than what was read; then only the reversed scan can judge.
            if let Ok(found) = self.judge(wanted, &page.rows) {
                return Ok(found);
            }
        }
        let mut scan = lookup::reversed_scan(wanted);
        let mut position = Position::Holding;
        let mut rows = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = self
                .read_page(above, scan.clone(), position, page_rows, timeout)
                .await?;
            let last_key = page.rows.last().map(|row| row.key.clone());
            rows.extend(page.rows);
            let miss = match self.judge(wanted, &rows) {
                Ok(found) => return Ok(found),
                Err(miss) => miss,
            };
            let goes_on = matches!(miss.check, Check::ParentOnly | Check::NoRow);
            match (page.rest, last_key) {
                // Only a heartbeat came.
                (Rest::Here, None) if goes_on => continue,
                (Rest::Here, Some(key)) if goes_on => scan.start_row = key,
                (Rest::Before(start), _) if goes_on => {
                    scan.start_row = start;
                    position = Position::Before;
                }
                _ => return Err(self.missed(above, wanted, miss)),
            }
            scan.include_start_row = false;
        }
        match self.judge(wanted, &rows) {
            Ok(found) => Ok(found),
            Err(miss) => Err(self.missed(above, wanted, miss)),
        }
    }

    /// Judges rows and caches what is usable in them.
    fn judge(&self, wanted: &Wanted<'_>, rows: &[DirectoryRow]) -> Result<Arc<Location>, Miss> {
        let is_dead = |server: &ServerName| self.is_dead(server);
        let found = lookup::judge(wanted, rows, is_dead);
        let others = lookup::usable(wanted.table, rows, is_dead);
        let mut cache = self.cache_mut();
        for other in others {
            cache.insert(wanted.order, other);
        }
        found.map(|location| cache.insert(wanted.order, location))
    }

    /// Check c, d and h: the directory itself may have been asked at the wrong place.
    fn missed(&self, above: &TableName, wanted: &Wanted<'_>, miss: Miss) -> Failed {
        if miss.relocates_above() {
            let key = lookup::directory_key(wanted);
            self.cache_mut().clear_row(above, &key, None);
        }
        miss.into()
    }

    async fn read_page(
        &self,
        above: &TableName,
        scan: Scan,
        position: Position,
        rows: u32,
        timeout: Duration,
    ) -> Result<Page, Failed> {
        let wanted = self.wanted(above, &scan.start_row, position, 0);
        // L12: the tier above is located in one try as well.
        let location = self
            .locate(wanted, timeout)
            .await
            .map_err(|failed| Failed::on_the_way(failed.error))?
            .location;
        let answer = match self.scan_once(&location, &scan, rows, timeout).await {
            Ok(answer) => answer,
            Err(error) => {
                self.directory_failed(&location, &error).await;
                let key = notation::to_text(&scan.start_row);
                return Err(Failed::on_the_way(error.context(format_args!(
                    "reading {above} on {} for {key}",
                    location.server
                ))));
            }
        };
        let has_more = answer
            .more_results_in_region
            .unwrap_or(answer.pieces.len() >= rows as usize);
        let start = &location.region.start_key;
        let rest = if has_more {
            Rest::Here
        } else if start.is_empty() || self.order(above).compare(start, &scan.stop_row).is_le() {
            Rest::Nothing
        } else {
            Rest::Before(start.clone())
        };
        let rows = answer
            .pieces
            .iter()
            .map(|piece| DirectoryRow::from_cells(&piece.cells))
            .collect();
        Ok(Page { rows, rest })
    }

    /// Check i: whatever failed, the tier above is located anew, unless its server only has too much to do.
    async fn directory_failed(&self, location: &Location, error: &Error) {
        if retry::blame(error) == Blame::Nothing && !retry::is_overload(error) {
            self.cache_mut().clear_location(location);
        } else {
            self.forget_and_confirm(location, error).await;
        }
    }

    async fn scan_once(
        &self,
        location: &Location,
        scan: &Scan,
        rows: u32,
        timeout: Duration,
    ) -> Result<requests::ScanAnswer> {
        let scan = Scan {
            max_result_size: PAGE_BYTES,
            caching: rows,
            ..scan.clone()
        };
        let param = requests::open_scanner(&location.region, &scan, rows, None, true);
        let (body, cells) = self
            .connections
            .call(
                &address(&location.server),
                Service::Client,
                "Scan",
                param,
                Bytes::new(),
                timeout,
            )
            .await?;
        requests::scan_answer(body, cells)
    }

    /// Forgets exactly what an error says is wrong (L20); if it is the server, asks the registry whether it is dead (L19).
    pub(crate) async fn forget_and_confirm(&self, location: &Location, error: &Error) {
        let Some(server) = self.forget(location, error) else {
            return;
        };
        // No answer is no news: the directory is asked next, in any case.
        if let Ok(Some(false)) = self.registry.is_alive(&server, ALIVE_TIMEOUT).await {
            self.dead
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(&server);
        }
    }

    /// Gives the server, if it is the server that is wrong.
    fn forget(&self, location: &Location, error: &Error) -> Option<ServerName> {
        match retry::blame(error) {
            Blame::Nothing => None,
            Blame::Region => {
                self.cache_mut().clear_location(location);
                None
            }
            Blame::Moved(to) => {
                let mut cache = self.cache_mut();
                if self.is_dead(&to.server) || cache.moved(location, &to).is_none() {
                    cache.clear_location(location);
                }
                None
            }
            Blame::Server => {
                let cleared = self.cache_mut().clear_server(&location.server);
                // Whoever finds nothing left to clear comes late: another caller has seen to it.
                (cleared > 0).then(|| location.server.clone())
            }
        }
    }

    fn skips_prefetch(&self, table: &TableName) -> bool {
        self.without_prefetch
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(table)
    }

    /// Switches prefetch for a table (L11).
    pub(crate) fn set_prefetch(&self, table: &TableName, on: bool) {
        let mut without = self
            .without_prefetch
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if on {
            without.remove(table);
        } else {
            without.insert(table.clone());
        }
    }

    /// Changes the cache directly (L13).
    pub(crate) fn clear(&self, what: impl FnOnce(&mut Cache)) {
        what(&mut self.cache_mut());
    }

    /// Regions in the cache.
    pub(crate) fn cached_regions(&self) -> usize {
        self.cache().len()
    }
}

/// One answer of a directory scan.
struct Page {
    rows: Vec<DirectoryRow>,
    rest: Rest,
}

/// Where a reversed scan of the directory goes on.
enum Rest {
    /// In the same region.
    Here,
    /// In the region of the directory before the one that starts at this key: a table's regions may stand in two of them (L6).
    Before(Bytes),
    /// Nowhere: the table's first key was reached.
    Nothing,
}

/// Where a server listens.
pub(crate) fn address(server: &ServerName) -> HostPort {
    HostPort::new(server.host.clone(), server.port)
}
