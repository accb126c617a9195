//! Does the commands of procedures: orders to servers, batches on `hbase:meta`, writes of the master's store. Every command is
//! tried until it succeeds; only an opening that may fail is given up after [`OPEN_PATIENCE`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_types::{
    Code, EncodedName, Error, ErrorKind, RegionInfo, Result, ServerName, TableDescriptor,
    TableName, TableState,
};
use futures::StreamExt;

use crate::active::Active;
use crate::assignment::{self, Loads, Wanted};
use crate::catalog::{Change, MetaChange, Placement};
use crate::locks::Held;
use crate::metrics;
use crate::procedure::{Command, Event, Operation, Procedure};
use crate::world::{OpenOrder, Opening, World};

/// Regions in one order to open: enough that a server overlaps their openings, few enough that one order stays small.
const REGIONS_PER_ORDER: usize = 32;

/// Orders under way at one time for one procedure or one reassignment.
const ORDERS_AT_ONCE: usize = 16;

/// Tries to flush a region whose server answers but cannot now.
const FLUSH_TRIES: usize = 10;

/// Closings and flushings under way at one time for one procedure.
const CLOSES_AT_ONCE: usize = 64;

/// How long the creation or truncation of a table tries to open its regions before it is taken back. Below the time that Java's
/// clients wait for a procedure (`hbase.client.sync.wait.timeout.msec`, 10 min).
const OPEN_PATIENCE: Duration = Duration::from_secs(60);

/// Tries of [`Active::try_commit`]: about 0.1 s, after which where `hbase:meta` is should be looked at.
const META_TRIES: u32 = 3;

/// First and longest pause between tries.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Growing pauses.
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Self {
        Self(PAUSE_FIRST)
    }

    pub(crate) fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(PAUSE_MAX);
        now
    }
}

/// How long clients find regions closed that are being split or merged: from the closing to the batch on `hbase:meta`.
#[derive(Default)]
struct Hold(Option<Duration>);

impl Hold {
    fn begins(&mut self, world: &impl World, procedure: &Procedure, command: &Command) {
        let replaces = !procedure.operation.sources().is_empty();
        if replaces && self.0.is_none() && matches!(command, Command::Close(_)) {
            self.0 = Some(world.mono());
        }
    }

    fn ended(&mut self, world: &impl World, procedure: &Procedure) {
        if matches!(procedure.command(), Some(Command::Commit(_)))
            && let Some(since) = self.0.take()
        {
            let held = world.mono().saturating_sub(since);
            metrics::held(held);
            tracing::info!(
                procedure = procedure.ticket.id,
                held_us = held.as_micros() as u64,
                "regions were replaced"
            );
        }
    }
}

/// What one round of openings came to.
#[derive(Default)]
pub(crate) struct Round {
    pub(crate) opened: BTreeMap<EncodedName, Placement>,
    pub(crate) left: Vec<Wanted>,
    /// What no other try can open, and why.
    pub(crate) damaged: BTreeMap<EncodedName, Error>,
}

impl<W: World> Active<W> {
    /// Runs a procedure to its end, holding its lock.
    pub(crate) async fn execute(&self, mut procedure: Procedure, held: Held) {
        let started = self.world().mono();
        let mut hold = Hold::default();
        while let Some(command) = procedure.command() {
            hold.begins(self.world(), &procedure, &command);
            if let Some(running) = self.state().running.get_mut(&procedure.ticket.id) {
                running.step = procedure.step_name();
            }
            let event = self.execute_command(&procedure, command).await;
            hold.ended(self.world(), &procedure);
            procedure = procedure.on(event);
        }
        let took = self.world().mono().saturating_sub(started);
        metrics::procedure_ended(&procedure.operation, took);
        tracing::info!(
            procedure = procedure.ticket.id,
            class = procedure.operation.class_name(),
            table = procedure.operation.table().map(ToString::to_string),
            took_ms = took.as_millis() as u64,
            "finished"
        );
        drop(held);
        self.collect_garbage();
    }

    async fn execute_command(&self, procedure: &Procedure, command: Command) -> Event {
        match command {
            Command::Close(regions) => {
                self.close_all(regions).await;
                Event::Done
            }
            Command::Clone { sources, targets } => {
                match self.clone_all(&sources, &targets, OPEN_PATIENCE).await {
                    Ok(()) => Event::Done,
                    Err(error) => Event::Failed(error),
                }
            }
            Command::Discard { sources, targets } => {
                self.discard_all(&sources, &targets).await;
                Event::Done
            }
            Command::Open { regions, on } => {
                // What comes of a region opens where that was: its server has the files in its caches. On the way back each source
                // does so by itself.
                let on = on.or_else(|| match procedure.goes_back() {
                    false => self.server_of(procedure.operation.sources().first()?),
                    true => None,
                });
                let patience = procedure.can_fail().then_some(OPEN_PATIENCE);
                match self.open_all(regions, on, patience).await {
                    Ok(placements) => Event::Opened(placements),
                    Err(error) => Event::Failed(error),
                }
            }
            Command::Flush { regions, families } => {
                self.flush_all(regions, families).await;
                Event::Done
            }
            Command::Namespace(change) => {
                self.write_namespace(&change).await;
                Event::Done
            }
            Command::Commit(changes) => {
                self.commit(&changes).await;
                Event::Done
            }
            Command::Finish { changes, failure } => {
                self.finish(procedure, changes, failure).await;
                Event::Done
            }
        }
    }

    /// Writes a batch to `hbase:meta`, however long it takes, and takes it over.
    pub(crate) async fn commit(&self, changes: &[MetaChange]) {
        let mut pauses = Pauses::new();
        while let Err(error) = self.heed(self.world().write_meta(changes).await).await {
            let pause = pauses.next();
            metrics::meta_write_failed();
            tracing::warn!(%error, ?pause, "hbase:meta could not be written; tried again");
            self.world().sleep(pause).await;
        }
        self.apply_meta(changes);
    }

    /// The same, given up after a few tries; false then. For whoever must not wait for `hbase:meta`, since it is the one that
    /// gets `hbase:meta` a server.
    pub(crate) async fn try_commit(&self, changes: &[MetaChange]) -> bool {
        let mut pauses = Pauses::new();
        for _ in 0..META_TRIES {
            match self.heed(self.world().write_meta(changes).await).await {
                Ok(()) => {
                    self.apply_meta(changes);
                    return true;
                }
                Err(error) => {
                    metrics::meta_write_failed();
                    tracing::warn!(%error, "hbase:meta could not be written");
                    self.world().sleep(pauses.next()).await;
                }
            }
        }
        false
    }

    /// Opens every region somewhere.
    ///
    /// # Errors
    /// Only with a `patience`, when it has run out.
    pub(crate) async fn open_all(
        &self,
        regions: Vec<RegionInfo>,
        on: Option<ServerName>,
        patience: Option<Duration>,
    ) -> Result<BTreeMap<EncodedName, Placement>> {
        let deadline = patience.map(|patience| self.world().mono() + patience);
        let mut wanted: Vec<Wanted> = regions.into_iter().map(|r| self.wanted(r, &on)).collect();
        let mut opened = BTreeMap::new();
        let mut pauses = Pauses::new();
        loop {
            let round = self.open_round(wanted).await;
            opened.extend(round.opened);
            wanted = round.left;
            if wanted.is_empty() {
                return Ok(opened);
            }
            if deadline.is_some_and(|deadline| self.world().mono() >= deadline) {
                return Err(Error::new(
                    Code::Io,
                    format!(
                        "{} regions could not be opened, {} the first",
                        wanted.len(),
                        wanted[0].info.encoded_name()
                    ),
                ));
            }
            self.world().sleep(pauses.next()).await;
        }
    }

    /// A region that is to be opened: on the named server if there is one, else where it was.
    fn wanted(&self, info: RegionInfo, on: &Option<ServerName>) -> Wanted {
        let last = on.clone().or_else(|| self.server_of(&info));
        Wanted {
            last,
            epoch: self.state().cloned.remove(&info.encoded_name()),
            ..Wanted::new(info)
        }
    }

    /// The server that a region is on, or was.
    fn server_of(&self, info: &RegionInfo) -> Option<ServerName> {
        self.with_catalog(|catalog| {
            let region = catalog.region(&info.encoded_name())?;
            Some(region.placement.as_ref()?.server.clone())
        })
    }

    /// One order to each server that regions are meant for. What failed is left, with what is to be avoided next time.
    pub(crate) async fn open_round(&self, wanted: Vec<Wanted>) -> Round {
        let live = self.placeable();
        let now = self.world().wall_ms();
        let placed = {
            let mut state = self.state();
            for region in &wanted {
                state
                    .in_transition
                    .insert(region.info.encoded_name(), (region.info.clone(), now));
            }
            assignment::place(&wanted, Loads::of(&state.catalog, &live))
        };
        let mut round = Round::default();
        if placed.is_empty() {
            round.left = wanted;
            return round;
        }
        let mut by_server: BTreeMap<ServerName, Vec<Wanted>> = BTreeMap::new();
        for (region, (_, server)) in wanted.into_iter().zip(placed) {
            by_server.entry(server).or_default().push(region);
        }
        let orders: Vec<(ServerName, Vec<Wanted>)> = by_server
            .into_iter()
            .flat_map(|(server, regions)| {
                let chunks = regions.chunks(REGIONS_PER_ORDER).map(<[_]>::to_vec);
                let chunks: Vec<_> = chunks.map(|chunk| (server.clone(), chunk)).collect();
                chunks
            })
            .collect();
        let answers = futures::stream::iter(orders)
            .map(|(server, regions)| self.order(server, regions))
            .buffer_unordered(ORDERS_AT_ONCE)
            .collect::<Vec<Round>>()
            .await;
        for answer in answers {
            round.opened.extend(answer.opened);
            round.left.extend(answer.left);
            round.damaged.extend(answer.damaged);
        }
        let mut state = self.state();
        for opened in round.opened.keys() {
            state.in_transition.remove(opened);
        }
        round
    }

    async fn order(&self, server: ServerName, regions: Vec<Wanted>) -> Round {
        let mut round = Round::default();
        let mut orders = Vec::with_capacity(regions.len());
        let mut ordered = Vec::with_capacity(regions.len());
        self.with_catalog(|catalog| {
            for region in regions {
                let descriptor = if region.info.is_meta() {
                    Arc::new(TableDescriptor::meta())
                } else {
                    let table = catalog.table(&region.info.table);
                    let table = table.expect("a table stays while its lock is held");
                    Arc::clone(&table.descriptor)
                };
                let written = catalog.epoch(&region.info.encoded_name());
                orders.push(OpenOrder {
                    info: region.info.clone(),
                    descriptor,
                    expected_epoch: region.epoch.unwrap_or(written),
                });
                ordered.push(region);
            }
        });
        match self.heed(self.world().open(&server, &orders).await).await {
            Ok(answers) => {
                let expected = orders.iter().map(|order| order.expected_epoch);
                for ((region, answer), expected) in ordered.into_iter().zip(answers).zip(expected) {
                    match answer {
                        Opening::Open(placement) => {
                            round.opened.insert(region.info.encoded_name(), placement);
                        }
                        // The answer to an earlier order was lost, or never written down. The next order is as safe as this
                        // one: it is refused if yet another opening comes before it (C20).
                        Opening::OtherEpoch(epoch) if epoch != expected => {
                            round.left.push(Wanted {
                                last: Some(server.clone()),
                                epoch: Some(epoch),
                                ..region
                            })
                        }
                        failed => {
                            if let Opening::Failed(Some(error)) = failed {
                                round.damaged.insert(region.info.encoded_name(), error);
                            }
                            round.left.push(Wanted {
                                avoid: Some(server.clone()),
                                ..region
                            });
                        }
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%server, %error, "an order to open regions failed");
                // It may have been executed: while the server lives it is asked again, and says what is open already.
                round.left.extend(ordered.into_iter().map(|region| Wanted {
                    last: Some(server.clone()),
                    ..region
                }));
            }
        }
        round
    }

    /// Closes regions wherever they may be open. A dead server needs no order: the store fences it at the next opening.
    async fn close_all(&self, regions: Vec<RegionInfo>) {
        let now = self.world().wall_ms();
        futures::stream::iter(regions)
            .for_each_concurrent(CLOSES_AT_ONCE, |region| async move {
                let encoded = region.encoded_name();
                let known = {
                    let mut state = self.state();
                    state
                        .in_transition
                        .insert(encoded.clone(), (region.clone(), now));
                    state.catalog.region(&encoded).cloned()
                };
                match known.as_ref().and_then(|entry| entry.open_on()) {
                    Some(server) => self.close_on(server, &region).await,
                    // An opening that was taken back: any server may have it.
                    None => {
                        let live = self.world().servers().borrow().clone();
                        for server in &live {
                            self.close_on(server, &region).await;
                        }
                    }
                }
                self.state().in_transition.remove(&encoded);
            })
            .await;
    }

    pub(crate) async fn close_on(&self, server: &ServerName, region: &RegionInfo) {
        let mut pauses = Pauses::new();
        while self.world().servers().borrow().contains(server) {
            match self.heed(self.world().close(server, region).await).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%server, region = %region.encoded_name(), %error, "a region did not close");
                    self.world().sleep(pauses.next()).await;
                }
            }
        }
    }

    /// Flushes regions where they are. A region that is not there any more is not waited for: its closing flushed it, or its
    /// server died and the log has it; and it could not be opened elsewhere before this procedure gives the table's lock back.
    async fn flush_all(&self, regions: Vec<RegionInfo>, families: Vec<Bytes>) {
        let families = &families;
        futures::stream::iter(regions)
            .for_each_concurrent(CLOSES_AT_ONCE, |region| async move {
                let mut pauses = Pauses::new();
                for _ in 0..FLUSH_TRIES {
                    let server = self.with_catalog(|catalog| {
                        let entry = catalog.region(&region.encoded_name())?;
                        entry.open_on().cloned()
                    });
                    let Some(server) = server else { return };
                    // A region whose server is gone has nothing in memory, and comes back only when this table's lock is free.
                    if !self.world().servers().borrow().contains(&server) {
                        return;
                    }
                    match self.flush_one(&server, &region, families).await {
                        Ok(()) => return,
                        Err(error) if error.code() == Code::NotServingRegion => return,
                        Err(error) => {
                            tracing::warn!(%server, region = %region.encoded_name(), %error, "a region was not flushed");
                            if matches!(error.kind(), ErrorKind::Relocate | ErrorKind::Failover) {
                                return;
                            }
                            self.world().sleep(pauses.next()).await;
                        }
                    }
                }
            })
            .await;
    }

    async fn flush_one(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        families: &[Bytes],
    ) -> Result<()> {
        if families.is_empty() {
            return self.world().flush(server, region, None).await;
        }
        for family in families {
            self.world()
                .flush(server, region, Some(family.clone()))
                .await?;
        }
        Ok(())
    }

    /// Deletes the data of regions that belong to no table any more, beside everything else.
    pub(crate) fn collect_garbage(&self) {
        let garbage: Vec<RegionInfo> = {
            let mut state = self.state();
            let all: Vec<RegionInfo> = state.catalog.garbage().cloned().collect();
            all.into_iter()
                .filter(|region| state.collecting.insert(region.encoded_name()))
                .collect()
        };
        if garbage.is_empty() {
            return;
        }
        let active = self.clone();
        self.world().spawn("garbage", async move {
            active.delete_data_of(garbage).await;
        });
    }

    async fn delete_data_of(&self, garbage: Vec<RegionInfo>) {
        let mut done = Vec::new();
        for region in &garbage {
            match self.delete_data_of_one(region).await {
                Ok(()) => done.extend([
                    Change::GarbageDone(region.clone()),
                    Change::NoEpoch(region.encoded_name()),
                ]),
                // Tried again with the next garbage, or by the next master.
                Err(error) => {
                    tracing::warn!(region = %region.encoded_name(), %error, "the data of a deleted region stays for now");
                }
            }
        }
        self.record(done).await;
        let mut state = self.state();
        for region in &garbage {
            state.collecting.remove(&region.encoded_name());
        }
    }

    /// A region is closed everywhere before its data goes: an order of an earlier master, whose answer nobody heard, may have
    /// opened it on a server that `hbase:meta` never named.
    async fn delete_data_of_one(&self, region: &RegionInfo) -> Result<()> {
        let live = self.world().servers().borrow().clone();
        for server in &live {
            self.heed(self.world().close(server, region).await).await?;
        }
        self.world().delete_data(region).await
    }

    /// Regions of a table that an alteration has not reached yet, and all of them.
    pub(crate) fn alter_status(&self, table: &TableName) -> Result<(u32, u32)> {
        let state = self.state();
        let entry = state.catalog.table(table)?;
        let total = match entry.state {
            TableState::Disabled => 0,
            _ => state.catalog.served_regions_of(table).count() as u32,
        };
        let altering = state.running.values().any(|running| {
            matches!(&*running.operation, Operation::AlterTable { record, .. } if record.descriptor.name == *table)
        });
        Ok((if altering { total } else { 0 }, total))
    }
}
