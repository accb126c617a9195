//! Keeps what is in step with what should be: `hbase:meta` open somewhere, every region of an enabled table served, nothing served
//! that should not be.
//!
//! One pass asks all live servers what they have open, compares that with the catalog under the locks of the tables concerned, and
//! gives orders. It runs when the master becomes active, when a server comes or goes, and from time to time: a region whose server
//! dropped it (fenced, broken) is found by the last. Tables that a procedure works on are left to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cadastre_types::{EncodedName, RegionInfo, Result, ServerName, TableName};
use futures::StreamExt;
use tokio::sync::watch;

use crate::active::Active;
use crate::assignment::{self, Wanted};
use crate::catalog::{Change, MetaChange, Placement};
use crate::executor::Pauses;
use crate::locks::Held;
use crate::metrics;
use crate::world::{MetaRow, Notice, World};

/// How often servers are asked what they have open, if nothing happens.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(10);

/// The same while a region has no server.
const OBSERVE_SOON: Duration = Duration::from_millis(200);

/// Servers asked, and strays closed, at one time.
const ASKED_AT_ONCE: usize = 64;

/// Tries after which `hbase:meta` counts as damaged: a server that refuses is avoided, so others have been asked too.
const META_DAMAGED_TRIES: u32 = 3;

/// Dead servers that are remembered for those who ask (INV-9).
const DEAD_MAX: usize = 1_000;

/// What live servers hold; those that did not answer are absent.
type Online = BTreeMap<ServerName, Vec<RegionInfo>>;

impl<W: World> Active<W> {
    /// Reconciles for ever.
    pub(crate) async fn watch_servers(&self) {
        let mut servers = self.world().servers();
        let mut known = servers.borrow_and_update().clone();
        loop {
            let mut left = self.reconcile().await + self.announce_untold().await;
            left += usize::from(!self.ensure_namespaces().await);
            let pause = if left == 0 {
                OBSERVE_INTERVAL
            } else {
                OBSERVE_SOON
            };
            tokio::select! {
                biased;
                changed = servers.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = self.world().sleep(pause) => {}
            }
            let live = servers.borrow_and_update().clone();
            self.note_dead(&known, &live);
            known = live;
        }
    }

    fn note_dead(&self, before: &BTreeSet<ServerName>, live: &BTreeSet<ServerName>) {
        let now = self.world().wall_ms();
        let mut state = self.state();
        for server in before.difference(live) {
            tracing::warn!(%server, "a region server is gone");
            state.dead.insert(server.clone(), now);
        }
        // As HBase: a server that is back, started anew, is not counted dead any more.
        state.dead.retain(|dead, _| {
            !live
                .iter()
                .any(|server| server.host == dead.host && server.port == dead.port)
        });
        while state.dead.len() > DEAD_MAX {
            state.dead.pop_first();
        }
    }

    /// One pass. Gives the number of regions that are still without a server.
    pub(crate) async fn reconcile(&self) -> usize {
        let online = self.ask_all().await;
        if let Err(error) = self.ensure_meta(&online).await {
            tracing::error!(%error, "hbase:meta cannot be opened");
            self.world().sleep(OBSERVE_INTERVAL).await;
            return 1;
        }
        let live = self.world().servers().borrow().clone();
        let names: BTreeMap<ServerName, BTreeSet<EncodedName>> = online
            .iter()
            .map(|(server, regions)| {
                (
                    server.clone(),
                    regions.iter().map(RegionInfo::encoded_name).collect(),
                )
            })
            .collect();
        let homeless = self.homeless(&live, &names, |_| true);
        let concerned: BTreeSet<TableName> = self.with_catalog(|catalog| {
            let strays = assignment::strays(catalog, &online, |_| true);
            homeless
                .into_iter()
                .map(|wanted| wanted.info.table)
                .chain(strays.into_iter().map(|(_, region)| region.table))
                .collect()
        });
        if concerned.is_empty() {
            metrics::reconciled(live.len(), 0, 0);
            return 0;
        }
        let count = concerned.len();
        let held: BTreeMap<TableName, Held> = concerned
            .into_iter()
            .filter_map(|table| {
                let lock = self.locks().try_table(&table)?;
                Some((table, lock))
            })
            .collect();
        let busy = count - held.len();
        // What was seen may have changed until the locks were taken: the catalog is looked at again under them, and nothing is
        // done to a table whose lock is not held.
        let ours = |table: &TableName| held.contains_key(table);
        let homeless = self.homeless(&live, &names, ours);
        let strays = self.with_catalog(|catalog| assignment::strays(catalog, &online, ours));
        metrics::reconciled(live.len(), homeless.len(), strays.len());
        self.close_strays(strays).await;
        let left = self.reassign(homeless).await;
        drop(held);
        left + busy
    }

    /// Regions that need a server, but for those that are to stay closed.
    fn homeless(
        &self,
        live: &BTreeSet<ServerName>,
        names: &BTreeMap<ServerName, BTreeSet<EncodedName>>,
        ours: impl Fn(&TableName) -> bool,
    ) -> Vec<Wanted> {
        let state = self.state();
        assignment::homeless(&state.catalog, live, names, ours)
            .into_iter()
            .filter(|wanted| !state.unassigned.contains(&wanted.info.encoded_name()))
            .collect()
    }

    async fn ask_all(&self) -> Online {
        let live = self.world().servers().borrow().clone();
        let answers = futures::stream::iter(live)
            .map(|server| async move {
                match self.heed(self.world().online(&server).await).await {
                    Ok(regions) => Some((server, regions)),
                    Err(error) => {
                        tracing::warn!(%server, %error, "a server does not say what it has open");
                        None
                    }
                }
            })
            .buffer_unordered(ASKED_AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        answers.into_iter().flatten().collect()
    }

    async fn close_strays(&self, strays: Vec<(ServerName, RegionInfo)>) {
        futures::stream::iter(strays)
            .for_each_concurrent(ASKED_AT_ONCE, |(server, region)| async move {
                let encoded = region.encoded_name();
                tracing::warn!(%server, region = %encoded, "a server holds a region that is not its own; it is closed");
                if let Err(error) = self.heed(self.world().close(&server, &region).await).await {
                    tracing::warn!(%server, region = %encoded, %error, "it did not close");
                }
            })
            .await;
    }

    /// Opens regions and writes their places; what failed is left to the next pass.
    async fn reassign(&self, homeless: Vec<Wanted>) -> usize {
        if homeless.is_empty() {
            return 0;
        }
        let regions: BTreeMap<EncodedName, RegionInfo> = homeless
            .iter()
            .map(|wanted| (wanted.info.encoded_name(), wanted.info.clone()))
            .collect();
        tracing::info!(regions = regions.len(), "regions need a server");
        let mut wanted = homeless;
        // A second try at once: a server that refused is then avoided.
        for _ in 0..2 {
            let round = self.open_round(wanted).await;
            self.record_epochs(&round.opened).await;
            let changes: Vec<MetaChange> = round
                .opened
                .into_iter()
                .filter_map(|(encoded, placement)| {
                    let region = regions.get(&encoded)?;
                    Some(MetaChange::Opened(region.clone(), placement))
                })
                .collect();
            // The next pass finds what could not be written: regions held that nobody knows of, and closes them.
            if !changes.is_empty() && !self.try_commit(&changes).await {
                return changes.len() + round.left.len();
            }
            wanted = round.left;
            if wanted.is_empty() {
                break;
            }
        }
        wanted.len()
    }

    /// Has `hbase:meta` open on a live server; waits for one.
    ///
    /// # Errors
    /// If it is damaged, wherever it is tried.
    async fn ensure_meta(&self, online: &Online) -> Result<()> {
        let live = self.world().servers().borrow().clone();
        let served = self.world().meta_place().is_some_and(|server| {
            live.contains(&server)
                && online
                    .get(&server)
                    .is_none_or(|regions| regions.iter().any(RegionInfo::is_meta))
        });
        if served {
            return Ok(());
        }
        let mut damaged = 0;
        let mut wanted = vec![Wanted {
            last: self.world().meta_place(),
            ..Wanted::new(RegionInfo::meta())
        }];
        let mut pauses = Pauses::new();
        loop {
            let round = self.open_round(wanted).await;
            self.record_epochs(&round.opened).await;
            if let Some((_, placement)) = round.opened.into_iter().next() {
                let server = placement.server;
                tracing::info!(%server, "hbase:meta is open");
                self.place_meta(server).await;
                return Ok(());
            }
            if let Some((_, error)) = round.damaged.into_iter().next() {
                damaged += 1;
                if damaged == META_DAMAGED_TRIES {
                    return Err(error);
                }
            }
            wanted = round.left;
            self.world().sleep(pauses.next()).await;
        }
    }

    /// Clients find `hbase:meta` by this notice alone, so it is repeated until it is written.
    async fn place_meta(&self, server: ServerName) {
        self.world().set_meta_place(Some(server.clone()));
        let mut pauses = Pauses::new();
        loop {
            let notice = Notice::MetaPlace(server.clone());
            let Err(error) = self.heed(self.world().announce(notice).await).await else {
                return;
            };
            tracing::warn!(%error, "the place of hbase:meta could not be written; tried again");
            self.world().sleep(pauses.next()).await;
        }
    }

    /// Waits until so many servers are alive.
    pub(crate) async fn wait_for_servers(&self, count: usize) {
        let mut servers: watch::Receiver<BTreeSet<ServerName>> = self.world().servers();
        // The sender lives as long as the world.
        let _ = servers.wait_for(|servers| servers.len() >= count).await;
    }

    /// Writes down what epochs openings have left, before anything says that the regions are open (C20).
    async fn record_epochs(&self, opened: &BTreeMap<EncodedName, Placement>) {
        let epochs = opened.iter();
        self.record(epochs.map(|(region, p)| Change::Epoch(region.clone(), p.epoch)))
            .await;
    }

    /// Has `hbase:meta` open, and takes it over: from then on whatever an earlier master still writes is refused (C19).
    ///
    /// # Errors
    /// If it could not be written.
    pub(crate) async fn take_meta(&self) -> Result<()> {
        // Asking tells every live server this master's epoch: orders of an earlier master are refused from then on.
        let online = self.ask_all().await;
        self.ensure_meta(&online).await?;
        self.heed(self.world().claim_meta().await).await?;
        // Written anew even if it says the same: what an earlier master has still to write there is refused then.
        if let Some(server) = self.world().meta_place() {
            self.place_meta(server).await;
        }
        Ok(())
    }

    /// Reads `hbase:meta` into the catalog. A row that belongs to no table of ours is left alone and said.
    pub(crate) async fn load_meta(&self) -> Result<()> {
        let rows = self.world().read_meta().await?;
        let mut unknown: BTreeMap<TableName, usize> = BTreeMap::new();
        let mut state = self.state();
        for row in rows {
            match row {
                MetaRow::Region(entry) if state.catalog.table(&entry.info.table).is_ok() => {
                    state.catalog.put_region(entry);
                }
                MetaRow::Table(table, table_state) if state.catalog.table(&table).is_ok() => {
                    let change = MetaChange::TableState(table, table_state);
                    state.catalog.apply_meta(&change);
                }
                MetaRow::Region(entry) => *unknown.entry(entry.info.table).or_default() += 1,
                MetaRow::Table(table, _) => *unknown.entry(table).or_default() += 1,
            }
        }
        for (table, rows) in unknown {
            tracing::error!(%table, rows, "hbase:meta has rows of a table that the master does not know");
        }
        Ok(())
    }
}
