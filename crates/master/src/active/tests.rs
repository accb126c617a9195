//! The driver in a world in memory: its clock runs only while somebody sleeps, its master can die after any effect.

#![allow(
    clippy::disallowed_methods,
    reason = "the world of these tests is tokio's"
)]

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cadastre_types::{FamilyDescriptor, TableDescriptor};
use cadastre_wire::pb;

use super::*;
use crate::catalog::{MetaChange, Placement, RegionEntry, RegionState};
use crate::lineage::{plan_merge, plan_split};
use crate::namespace_table::NamespaceChange;
use crate::procedure::AlterForm;
use crate::schema::{Namespace, TableRecord, covers, regions_of};
use crate::world::{MetaRow, Notice, OpenOrder, Opening};

/// What lasts when a master dies, and what servers hold.
#[derive(Default)]
struct Lasting {
    kv: BTreeMap<Bytes, Bytes>,
    regions: BTreeMap<EncodedName, RegionEntry>,
    tables: BTreeMap<TableName, TableState>,
    held: BTreeMap<ServerName, BTreeMap<EncodedName, (RegionInfo, Placement)>>,
    /// Epochs as the store has them.
    epochs: BTreeMap<EncodedName, u64>,
    deleted: BTreeSet<EncodedName>,
    /// Regions that were cloned: of what, with the epochs of that.
    clones: BTreeMap<EncodedName, Vec<(EncodedName, u64)>>,
    sealed: BTreeSet<EncodedName>,
    /// Regions whose files are still read by regions that were cloned of them.
    lent: BTreeSet<EncodedName>,
    /// Regions whose server died with writes that only the log has.
    unflushed: BTreeSet<EncodedName>,
    /// Clones that are refused because the store fails.
    cloning_fails: bool,
    meta_place: Option<ServerName>,
    /// The epoch in `hbase:meta`, the one that the store belongs to, and the highest that each server has heard of.
    meta_epoch: u64,
    store_epoch: u64,
    heard: BTreeMap<ServerName, u64>,
    /// Epochs of masters that ended themselves.
    ended: Vec<u64>,
    /// Servers whose next answer to an order to open is lost.
    loses_answer: BTreeSet<ServerName>,
    /// Writes of the master's store that are refused because the disk is full.
    full_for: u32,
    /// Orders to open that were refused for their epoch.
    other_epochs: usize,
    /// Servers that refuse to open.
    refusing: BTreeSet<ServerName>,
    /// What the coordination service shows, and whether it answers.
    shown_tables: BTreeMap<TableName, TableState>,
    shown_namespaces: BTreeMap<String, Namespace>,
    deaf: bool,
    /// Rows of `hbase:namespace`.
    namespace_rows: BTreeMap<String, Bytes>,
}

impl Lasting {
    /// That the coordination service shows what is.
    fn check_shown(&self, catalog: &Catalog) {
        let mut tables = self.tables.clone();
        tables.insert(TableName::meta(), TableState::Enabled);
        assert_eq!(self.shown_tables, tables);
        let shown: Vec<&Namespace> = self.shown_namespaces.values().collect();
        assert_eq!(shown, catalog.namespaces().collect::<Vec<_>>());
        let rows = catalog
            .namespaces()
            .map(|namespace| (namespace.name.clone(), journal::namespace_value(namespace)));
        assert_eq!(self.namespace_rows, rows.collect());
    }
}

/// One master's view of it.
#[derive(Clone)]
pub(crate) struct ModelWorld {
    lasting: Arc<Mutex<Lasting>>,
    servers: watch::Sender<BTreeSet<ServerName>>,
    /// Effects until this master dies.
    life: Arc<AtomicI64>,
    /// The life of the newest master: an older one is refused everywhere (its store is fenced, its epoch too low), as good as
    /// dead.
    newest: Arc<Mutex<Arc<AtomicI64>>>,
    clock_us: Arc<AtomicU64>,
    epoch: Arc<AtomicU64>,
    /// Stands still while it is true, as a stopped process does.
    stopped: Arc<watch::Sender<bool>>,
    /// Where it stops next.
    stops_at: Arc<Mutex<Option<Effect>>>,
}

/// What a master may be stopped before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Journal,
    Meta,
    Open,
    Close,
    Namespace,
    Other,
}

const FOR_EVER: i64 = i64::MAX / 2;

fn server(port: u16) -> ServerName {
    ServerName {
        host: "h".into(),
        port,
        start_code: 1,
    }
}

impl ModelWorld {
    fn new(servers: u16) -> Self {
        let live: BTreeSet<ServerName> = (1..=servers).map(server).collect();
        let lasting = Lasting {
            held: live.iter().map(|s| (s.clone(), BTreeMap::new())).collect(),
            ..Lasting::default()
        };
        Self {
            lasting: Arc::new(Mutex::new(lasting)),
            servers: watch::Sender::new(live),
            life: Arc::new(AtomicI64::new(FOR_EVER)),
            newest: Arc::default(),
            clock_us: Arc::default(),
            epoch: Arc::default(),
            stopped: Arc::new(watch::Sender::new(false)),
            stops_at: Arc::default(),
        }
    }

    /// The same world for another master, whose process knows nothing of the one before.
    fn beside(&self) -> Self {
        Self {
            life: Arc::new(AtomicI64::new(FOR_EVER)),
            epoch: Arc::default(),
            stopped: Arc::new(watch::Sender::new(false)),
            stops_at: Arc::default(),
            ..self.clone()
        }
    }

    /// The same world for another master, that lives so long.
    fn reborn(&self, effects: i64) -> Self {
        let life = Arc::new(AtomicI64::new(effects));
        let before = std::mem::replace(&mut *self.newest.lock().unwrap(), Arc::clone(&life));
        before.store(0, Ordering::SeqCst);
        Self {
            life,
            ..self.beside()
        }
    }

    fn lasting(&self) -> MutexGuard<'_, Lasting> {
        self.lasting.lock().unwrap()
    }

    /// Does an effect; a master whose life is over never learns of it, nor does another one.
    async fn effect<T>(&self, kind: Effect, effect: impl FnOnce(&mut Lasting) -> T) -> T {
        tokio::task::yield_now().await;
        let stops = self.stops_at.lock().unwrap().take_if(|at| *at == kind);
        if stops.is_some() {
            self.stopped.send_replace(true);
        }
        self.while_stopped().await;
        if self.life.load(Ordering::SeqCst) <= 0 {
            return std::future::pending().await;
        }
        let answer = effect(&mut self.lasting());
        if self.life.fetch_sub(1, Ordering::SeqCst) <= 1 {
            return std::future::pending().await;
        }
        answer
    }

    async fn while_stopped(&self) {
        let mut stopped = self.stopped.subscribe();
        stopped.wait_for(|stopped| !*stopped).await.unwrap();
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// What a server does with the epoch of an order or a question.
    fn hear(&self, lasting: &mut Lasting, server: &ServerName) -> Result<()> {
        let heard = lasting.heard.entry(server.clone()).or_default();
        if self.epoch() < *heard {
            return Err(Error::new(Code::MasterDeposed, "an order too late"));
        }
        *heard = self.epoch();
        Ok(())
    }

    /// That a server has a region open.
    fn find(&self, lasting: &Lasting, server: &ServerName, region: &RegionInfo) -> Result<()> {
        match lasting.held.get(server) {
            None => Err(Error::new(Code::NotSent, "the server is gone")),
            Some(held) if held.contains_key(&region.encoded_name()) => Ok(()),
            Some(_) => Err(Error::new(Code::NotServingRegion, "forgotten")),
        }
    }

    fn is_dead(&self) -> bool {
        self.life.load(Ordering::SeqCst) <= 0
    }

    fn kill_server(&self, name: &ServerName) {
        {
            let mut lasting = self.lasting();
            let held = lasting.held.remove(name).unwrap_or_default();
            lasting.unflushed.extend(held.into_keys());
        }
        self.servers.send_modify(|servers| {
            servers.remove(name);
        });
    }
}

impl World for ModelWorld {
    fn wall_ms(&self) -> u64 {
        1_700_000_000_000 + self.clock_us.load(Ordering::SeqCst) / 1000
    }

    fn mono(&self) -> Duration {
        Duration::from_micros(self.clock_us.load(Ordering::SeqCst))
    }

    async fn sleep(&self, duration: Duration) {
        // Others first, the longer the sleep the more of them.
        for _ in 0..(20 + duration.as_millis() / 5) {
            tokio::task::yield_now().await;
        }
        if self.is_dead() {
            return std::future::pending().await;
        }
        self.while_stopped().await;
        self.clock_us
            .fetch_add(duration.as_micros() as u64, Ordering::SeqCst);
    }

    fn spawn(&self, _name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    fn fatal(&self, error: &Error) -> ! {
        self.life.store(0, Ordering::SeqCst);
        self.lasting().ended.push(self.epoch());
        panic!("{error}")
    }

    async fn journal(&self, batch: Vec<Write>) -> Result<()> {
        self.effect(Effect::Journal, |lasting| {
            if lasting.store_epoch > self.epoch() {
                return Err(Error::new(Code::Fenced, "a newer master has the store"));
            }
            if lasting.full_for > 0 {
                lasting.full_for -= 1;
                return Err(Error::new(Code::RegionTooBusy, "the disk is full"));
            }
            for (key, value) in batch {
                match value {
                    Some(value) => lasting.kv.insert(key, value),
                    None => lasting.kv.remove(&key),
                };
            }
            Ok(())
        })
        .await
    }

    async fn claim_meta(&self) -> Result<()> {
        self.write_meta(&[]).await
    }

    async fn write_meta(&self, changes: &[MetaChange]) -> Result<()> {
        let changes = changes.to_vec();
        self.effect(Effect::Meta, |lasting| {
            let meta = RegionInfo::meta().encoded_name();
            let served = lasting.meta_place.as_ref().is_some_and(|place| {
                lasting
                    .held
                    .get(place)
                    .is_some_and(|held| held.contains_key(&meta))
            });
            if !served {
                return Err(Error::new(Code::NotServingRegion, "hbase:meta"));
            }
            if lasting.meta_epoch > self.epoch() {
                return Err(Error::new(Code::MasterDeposed, "a write too late"));
            }
            lasting.meta_epoch = self.epoch();
            for change in changes {
                match change {
                    MetaChange::Opened(info, placement) => {
                        let old = lasting.regions.get(&info.encoded_name());
                        let entry = RegionEntry {
                            merged_from: old.map_or_else(Vec::new, |o| o.merged_from.clone()),
                            info,
                            state: RegionState::Open,
                            placement: Some(placement),
                        };
                        lasting.regions.insert(entry.info.encoded_name(), entry);
                    }
                    MetaChange::Split(info, _) => {
                        let entry = lasting.regions.get_mut(&info.encoded_name());
                        let entry = entry.expect("only what has a row is split");
                        entry.state = RegionState::Split;
                        entry.info = crate::catalog::split_parent(&info);
                    }
                    MetaChange::Merged(info, from) => {
                        let entry = lasting.regions.get_mut(&info.encoded_name());
                        entry.expect("its row was just written").merged_from = from;
                    }
                    MetaChange::Unmerged(info, count) => {
                        let entry = lasting.regions.get_mut(&info.encoded_name());
                        let entry = entry.expect("only what has a row is cleaned");
                        assert!(entry.merged_from.is_empty() || entry.merged_from.len() == count);
                        entry.merged_from.clear();
                    }
                    MetaChange::Closed(info) => {
                        let entry = lasting.regions.get_mut(&info.encoded_name());
                        entry.expect("only what has a row is closed").state = RegionState::Closed;
                    }
                    MetaChange::DeleteRegion(info) => {
                        lasting.regions.remove(&info.encoded_name());
                    }
                    MetaChange::TableState(table, state) => {
                        lasting.tables.insert(table, state);
                    }
                    MetaChange::DeleteTableState(table) => {
                        lasting.tables.remove(&table);
                    }
                }
            }
            Ok(())
        })
        .await
    }

    async fn read_meta(&self) -> Result<Vec<MetaRow>> {
        let lasting = self.lasting();
        let regions = lasting.regions.values().cloned().map(|mut entry| {
            if let Some(placement) = &mut entry.placement {
                placement.epoch = 0;
            }
            MetaRow::Region(entry)
        });
        let tables = lasting.tables.iter();
        let tables = tables.map(|(name, state)| MetaRow::Table(name.clone(), *state));
        Ok(regions.chain(tables).collect())
    }

    fn set_meta_place(&self, server: Option<ServerName>) {
        self.lasting().meta_place = server;
    }

    fn meta_place(&self) -> Option<ServerName> {
        self.lasting().meta_place.clone()
    }

    fn servers(&self) -> watch::Receiver<BTreeSet<ServerName>> {
        self.servers.subscribe()
    }

    async fn open(&self, server: &ServerName, orders: &[OpenOrder]) -> Result<Vec<Opening>> {
        let orders = orders.to_vec();
        self.effect(Effect::Open, |lasting| {
            self.hear(lasting, server)?;
            if lasting.refusing.contains(server) {
                return Ok(vec![Opening::Failed(None); orders.len()]);
            }
            for order in &orders {
                let name = order.info.encoded_name();
                assert!(!lasting.sealed.contains(&name), "C20");
                lasting.unflushed.remove(&name);
                for (source, epoch) in lasting.clones.get(&name).into_iter().flatten() {
                    let now = lasting.epochs.get(source);
                    assert!(now.is_none_or(|now| now == epoch), "a stale clone");
                }
            }
            let Lasting { held, epochs, .. } = lasting;
            let Some(here) = held.get_mut(server) else {
                return Err(Error::new(Code::NotSent, "the server is gone"));
            };
            let opened: Vec<_> = orders
                .into_iter()
                .map(|order| open_one(server, here, epochs, order))
                .collect();
            let others = opened
                .iter()
                .filter(|answer| matches!(answer, Opening::OtherEpoch(_)));
            lasting.other_epochs += others.count();
            if lasting.loses_answer.remove(server) {
                return Err(Error::new(Code::OutcomeUnknown, "the answer is lost"));
            }
            Ok(opened)
        })
        .await
    }

    async fn close(&self, server: &ServerName, region: &RegionInfo) -> Result<()> {
        self.effect(Effect::Close, |lasting| {
            self.hear(lasting, server)?;
            if let Some(held) = lasting.held.get_mut(server) {
                held.remove(&region.encoded_name());
            }
            Ok(())
        })
        .await
    }

    async fn flush(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        _: Option<Bytes>,
    ) -> Result<()> {
        self.effect(Effect::Other, |lasting| match lasting.held.get(server) {
            None => Err(Error::new(Code::NotSent, "the server is gone")),
            Some(held) if held.contains_key(&region.encoded_name()) => Ok(()),
            Some(_) => Err(Error::new(Code::NotServingRegion, "forgotten")),
        })
        .await
    }

    async fn online(&self, server: &ServerName) -> Result<Vec<RegionInfo>> {
        let mut lasting = self.lasting();
        self.hear(&mut lasting, server)?;
        match lasting.held.get(server) {
            Some(held) => Ok(held.values().map(|(info, _)| info.clone()).collect()),
            None => Err(Error::new(Code::NotSent, "the server is gone")),
        }
    }

    async fn loads(&self, _: &ServerName) -> Result<pb::ServerLoad> {
        Ok(pb::ServerLoad::default())
    }

    async fn split_row(&self, _: &ServerName, region: &RegionInfo) -> Result<Option<Bytes>> {
        // Half of the alphabet is in the first region.
        Ok(region
            .start_key
            .is_empty()
            .then(|| Bytes::from_static(b"d")))
    }

    async fn clone_regions(
        &self,
        sources: &[RegionInfo],
        targets: &[RegionInfo],
    ) -> Result<Vec<u64>> {
        self.effect(Effect::Other, |lasting| {
            let names: Vec<_> = sources.iter().map(RegionInfo::encoded_name).collect();
            for name in &names {
                let mut held = lasting.held.values();
                assert!(!held.any(|held| held.contains_key(name)), "it is open");
            }
            if lasting.cloning_fails {
                return Err(Error::new(Code::Io, "the store fails"));
            }
            if !names.iter().all(|name| lasting.sealed.contains(name)) {
                if names.iter().any(|name| lasting.unflushed.contains(name)) {
                    return Err(Error::new(Code::RegionState, "the log has more"));
                }
                for target in targets {
                    lasting.clones.remove(&target.encoded_name());
                }
                lasting.sealed.extend(names.iter().cloned());
            }
            let epochs = names
                .iter()
                .map(|name| (name.clone(), lasting.epochs[name]));
            let epochs: Vec<_> = epochs.collect();
            for target in targets {
                let name = target.encoded_name();
                if !lasting.clones.contains_key(&name) {
                    lasting.epochs.insert(name.clone(), epochs[0].1);
                    lasting.clones.insert(name, epochs.clone());
                }
            }
            lasting.lent.extend(names);
            let targets = targets.iter().map(RegionInfo::encoded_name);
            Ok(targets.map(|name| lasting.epochs[&name]).collect())
        })
        .await
    }

    async fn discard_clones(&self, sources: &[RegionInfo], targets: &[RegionInfo]) -> Result<()> {
        self.effect(Effect::Other, |lasting| {
            for target in targets {
                let name = target.encoded_name();
                let mut held = lasting.held.values();
                assert!(!held.any(|held| held.contains_key(&name)), "it is open");
                lasting.clones.remove(&name);
                lasting.epochs.remove(&name);
            }
            for source in sources {
                lasting.sealed.remove(&source.encoded_name());
                lasting.lent.remove(&source.encoded_name());
            }
        })
        .await;
        Ok(())
    }

    async fn borrowed_by(&self, region: &RegionInfo) -> Result<BTreeSet<EncodedName>> {
        let lasting = self.lasting();
        let mut lenders = BTreeSet::new();
        let mut left = vec![region.encoded_name()];
        while let Some(name) = left.pop() {
            for (source, _) in lasting.clones.get(&name).into_iter().flatten() {
                lenders.insert(source.clone());
                left.push(source.clone());
            }
        }
        Ok(lenders.intersection(&lasting.lent).cloned().collect())
    }

    async fn delete_data(&self, region: &RegionInfo) -> Result<()> {
        self.effect(Effect::Other, |lasting| {
            let open = lasting
                .held
                .values()
                .any(|held| held.contains_key(&region.encoded_name()));
            assert!(!open, "the data of an open region is never deleted");
            lasting.deleted.insert(region.encoded_name());
        })
        .await;
        Ok(())
    }

    async fn write_namespaces(
        &self,
        server: &ServerName,
        region: &RegionInfo,
        changes: &[NamespaceChange],
    ) -> Result<()> {
        let changes = changes.to_vec();
        self.effect(Effect::Namespace, |lasting| {
            self.hear(lasting, server)?;
            self.find(lasting, server, region)?;
            for change in changes {
                match change {
                    NamespaceChange::Put(namespace) => lasting
                        .namespace_rows
                        .insert(namespace.name.clone(), journal::namespace_value(&namespace)),
                    NamespaceChange::Delete(name) => lasting.namespace_rows.remove(&name),
                };
            }
            Ok(())
        })
        .await
    }

    async fn read_namespaces(
        &self,
        server: &ServerName,
        region: &RegionInfo,
    ) -> Result<BTreeMap<String, Bytes>> {
        let lasting = self.lasting();
        self.find(&lasting, server, region)?;
        Ok(lasting.namespace_rows.clone())
    }

    async fn announce(&self, notice: Notice) -> Result<()> {
        self.effect(Effect::Other, |lasting| {
            if lasting.deaf {
                return Err(Error::new(Code::TimeoutIo, "no answer"));
            }
            if lasting.store_epoch > self.epoch() {
                return Err(Error::new(Code::MasterDeposed, "a notice too late"));
            }
            match notice {
                Notice::Table(table, state) => {
                    lasting.shown_tables.insert(table, state);
                }
                Notice::TableGone(table) => {
                    lasting.shown_tables.remove(&table);
                }
                Notice::Namespace(namespace) => {
                    let name = namespace.name.clone();
                    lasting.shown_namespaces.insert(name, namespace);
                }
                Notice::NamespaceGone(name) => {
                    lasting.shown_namespaces.remove(&name);
                }
                Notice::MetaPlace(_) => {}
            }
            Ok(())
        })
        .await
    }

    async fn announced(&self) -> Result<BTreeSet<Lock>> {
        let lasting = self.lasting();
        let tables = lasting.shown_tables.keys().cloned().map(Lock::Table);
        let namespaces = lasting.shown_namespaces.keys().cloned();
        Ok(tables.chain(namespaces.map(Lock::Namespace)).collect())
    }
}

fn open_one(
    server: &ServerName,
    here: &mut BTreeMap<EncodedName, (RegionInfo, Placement)>,
    epochs: &mut BTreeMap<EncodedName, u64>,
    order: OpenOrder,
) -> Opening {
    let encoded = order.info.encoded_name();
    let mut families = order.descriptor.families.values();
    assert!(families.all(|family| family.id > 0));
    if let Some((_, placement)) = here.get(&encoded) {
        return Opening::Open(placement.clone());
    }
    let epoch = epochs.entry(encoded.clone()).or_default();
    if order.expected_epoch != *epoch {
        return Opening::OtherEpoch(*epoch);
    }
    *epoch += 1;
    let placement = Placement {
        server: server.clone(),
        open_sequence_number: *epoch * 10,
        epoch: *epoch,
    };
    here.insert(encoded, (order.info, placement.clone()));
    Opening::Open(placement)
}

/// A master on what lasts, as `start` makes one.
async fn master(world: ModelWorld) -> Active<ModelWorld> {
    let records = world.lasting().kv.clone().into_iter().collect();
    let loaded = journal::load(records).unwrap();
    let epoch = loaded.epoch + 1;
    world.epoch.store(epoch, Ordering::SeqCst);
    world.lasting().store_epoch = epoch;
    world.journal(vec![journal::epoch(epoch)]).await.unwrap();
    let (active, resumed) = Active::new(world, loaded).unwrap();
    active.take_meta().await.unwrap();
    active.load_meta().await.unwrap();
    active.resume(resumed);
    active.reconcile().await;
    active.ensure_namespaces().await;
    active.announce_all().await;
    active.collect_garbage();
    let watching = active.clone();
    tokio::spawn(async move { watching.watch_servers().await });
    active
}

/// A master of an empty cluster with so many servers.
pub(crate) async fn new_master(servers: u16) -> Active<ModelWorld> {
    master(ModelWorld::new(servers).reborn(FOR_EVER)).await
}

async fn settle(active: &Active<ModelWorld>) {
    for _ in 0..100_000 {
        tokio::task::yield_now().await;
        if active.world().is_dead() {
            return;
        }
        let state = active.state();
        if state.running.is_empty() && state.collecting.is_empty() {
            return;
        }
    }
    panic!("procedures do not end");
}

/// Whether everything gets its place. Passes beside this one hold locks now and then.
async fn reconciled(active: &Active<ModelWorld>) -> bool {
    for _ in 0..100 {
        if active.reconcile().await == 0 {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

fn name() -> TableName {
    TableName::parse("ns:t").unwrap()
}

/// What a client asks for; planned from the catalog, as the requests do.
#[derive(Debug, Clone, Copy)]
enum Wish {
    Namespace,
    Create,
    AddFamily,
    DropFamily,
    Flush,
    Move,
    TruncateRegion,
    Split,
    Merge,
    Forget,
    Disable,
    Enable,
    Truncate,
    Delete,
    DeleteNamespace,
}

fn plan(wish: Wish, catalog: &Catalog, region_id: u64) -> Result<Operation> {
    let table = name();
    let regions = || -> Vec<RegionInfo> {
        catalog
            .served_regions_of(&table)
            .map(|entry| entry.info.clone())
            .collect()
    };
    let all = || -> Vec<RegionInfo> {
        let all = catalog.regions_of(&table);
        all.flat_map(|entry| std::iter::once(&entry.info).chain(&entry.merged_from))
            .cloned()
            .collect()
    };
    let keys = || vec![Bytes::from_static(b"g"), Bytes::from_static(b"p")];
    Ok(match wish {
        Wish::Namespace => Operation::CreateNamespace(Namespace::new("ns")),
        Wish::DeleteNamespace => Operation::DeleteNamespace("ns".into()),
        Wish::Create => {
            if catalog.table(&table).is_ok() {
                return Err(Error::new(Code::TableExists, table.to_string()));
            }
            let family = FamilyDescriptor::new("f");
            Operation::CreateTable {
                record: TableRecord::create(TableDescriptor::new(name()).with_family(family))?,
                regions: regions_of(&table, keys(), region_id)?,
            }
        }
        Wish::AddFamily => {
            let entry = catalog.table(&table)?;
            Operation::AlterTable {
                form: AlterForm::AddFamily,
                record: entry.record.with_added(FamilyDescriptor::new("g"))?,
                reopen: match entry.state {
                    TableState::Disabled => Vec::new(),
                    _ => regions(),
                },
            }
        }
        Wish::DropFamily => {
            let entry = catalog.expect_state(&table, TableState::Disabled)?;
            Operation::AlterTable {
                form: AlterForm::DeleteFamily,
                record: entry.record.without(b"g")?,
                reopen: Vec::new(),
            }
        }
        Wish::Flush => {
            catalog.expect_state(&table, TableState::Enabled)?;
            Operation::FlushTable {
                table: name(),
                families: Vec::new(),
                regions: regions(),
            }
        }
        Wish::Move => {
            catalog.expect_state(&table, TableState::Enabled)?;
            Operation::MoveRegion {
                region: regions().remove(0),
                to: Some(server(2)),
            }
        }
        Wish::TruncateRegion => {
            catalog.expect_state(&table, TableState::Enabled)?;
            let old = regions().remove(0);
            let (start, end) = (old.start_key.clone(), old.end_key.clone());
            let ancestors = catalog.region(&old.encoded_name()).unwrap();
            Operation::TruncateRegion {
                ancestors: ancestors.merged_from.clone(),
                new: RegionInfo::new(table, start, end, region_id),
                old,
            }
        }
        Wish::Split => {
            catalog.expect_state(&table, TableState::Enabled)?;
            let first = regions().remove(0);
            // Deeper each time.
            let depth = first.end_key.len();
            let row = Bytes::from(vec![b"c"[0]; depth]);
            plan_split(catalog, &first.encoded_name(), &row, region_id)?
        }
        Wish::Merge => {
            catalog.expect_state(&table, TableState::Enabled)?;
            let names: Vec<_> = regions().iter().map(RegionInfo::encoded_name).collect();
            plan_merge(catalog, &names[..names.len().min(2)], region_id)?
        }
        Wish::Forget => {
            let mut rows = catalog.regions_of(&table);
            let waiting =
                rows.find(|row| row.state == RegionState::Split || !row.merged_from.is_empty());
            let row = waiting.ok_or_else(|| Error::new(Code::RegionState, "nothing waits"))?;
            Operation::ForgetParents {
                region: row.info.clone(),
                split: row.state == RegionState::Split,
                ancestors: row.merged_from.clone(),
            }
        }
        Wish::Disable => {
            catalog.expect_state(&table, TableState::Enabled)?;
            Operation::DisableTable {
                regions: regions(),
                table,
            }
        }
        Wish::Enable => {
            catalog.expect_state(&table, TableState::Disabled)?;
            Operation::EnableTable {
                regions: regions(),
                table,
            }
        }
        Wish::Truncate => {
            catalog.expect_state(&table, TableState::Disabled)?;
            Operation::TruncateTable {
                old: all(),
                new: regions_of(&table, keys(), region_id)?,
                table,
            }
        }
        Wish::Delete => {
            catalog.expect_state(&table, TableState::Disabled)?;
            Operation::DeleteTable {
                regions: all(),
                table,
            }
        }
    })
}

async fn submit(active: &Active<ModelWorld>, wish: Wish, nonce: u64) -> Result<ProcedureId> {
    let lock = match wish {
        Wish::Namespace | Wish::DeleteNamespace => Lock::Namespace("ns".into()),
        _ => Lock::Table(name()),
    };
    let nonce = Nonce { group: 1, nonce };
    active
        .submit(lock, nonce, "me", move |catalog, id| {
            plan(wish, catalog, id)
        })
        .await
}

/// What clients and people see once all is quiet, and that it fits together.
fn summary(world: &ModelWorld) -> String {
    let lasting = world.lasting();
    let records = lasting.kv.clone().into_iter().collect();
    let loaded = journal::load(records).unwrap();
    assert!(loaded.running.is_empty());
    assert!(
        !loaded
            .changes
            .iter()
            .any(|change| matches!(change, Change::Garbage(_))),
        "garbage is collected"
    );
    let mut changes = loaded.changes;
    changes.retain(|change| match change {
        Change::Epoch(region, epoch) => {
            let is_meta = *region == RegionInfo::meta().encoded_name();
            assert!(is_meta || lasting.regions.contains_key(region), "C20");
            assert!(*epoch <= lasting.epochs[region], "C20");
            false
        }
        _ => true,
    });
    let ended: Vec<_> = loaded
        .finished
        .iter()
        .map(|f| (f.ticket.id, &f.failure))
        .collect();
    let mut holders: BTreeMap<EncodedName, Vec<&ServerName>> = BTreeMap::new();
    for (server, held) in &lasting.held {
        for (encoded, (info, _)) in held {
            if !info.is_meta() {
                holders.entry(encoded.clone()).or_default().push(server);
            }
        }
    }
    if !lasting.deaf {
        let mut catalog = Catalog::new();
        changes.iter().for_each(|change| catalog.apply(change));
        lasting.check_shown(&catalog);
    }
    let served = lasting.regions.values();
    let served = served.filter(|region| region.state != RegionState::Split);
    let infos: Vec<RegionInfo> = served.map(|r| r.info.clone()).collect();
    for table in lasting.tables.keys() {
        let infos: Vec<RegionInfo> = infos
            .iter()
            .filter(|r| r.table == *table)
            .cloned()
            .collect();
        assert!(covers(&infos), "INV-1");
    }
    let mut open = 0;
    for (encoded, entry) in &lasting.regions {
        match entry.open_on() {
            Some(server) => {
                open += 1;
                assert_eq!(holders.get(encoded), Some(&vec![server]), "INV-2, INV-4");
            }
            None => assert_eq!(holders.get(encoded), None),
        }
    }
    assert_eq!(holders.len(), open, "no strays");
    let bounds: Vec<_> = infos.iter().map(|r| (&r.start_key, &r.end_key)).collect();
    let sorted: BTreeSet<_> = bounds.into_iter().collect();
    format!(
        "{:?} {ended:?} {:?} {sorted:?} open {open} deleted {}",
        changes,
        lasting.tables,
        lasting.deleted.len()
    )
}

const LIFE: [Wish; 22] = [
    Wish::Namespace,
    Wish::Create,
    Wish::AddFamily,
    Wish::Flush,
    Wish::Move,
    Wish::TruncateRegion,
    Wish::Split,
    Wish::Merge,
    Wish::Disable,
    Wish::DropFamily,
    Wish::Enable,
    Wish::Forget,
    Wish::Forget,
    Wish::Split,
    Wish::Disable,
    Wish::Truncate,
    Wish::Split,
    Wish::Merge,
    Wish::TruncateRegion,
    Wish::Disable,
    Wish::Delete,
    Wish::DeleteNamespace,
];

async fn live(world: &ModelWorld, wishes: usize) -> Active<ModelWorld> {
    let active = master(world.reborn(FOR_EVER)).await;
    for (index, wish) in LIFE.iter().take(wishes).enumerate() {
        submit(&active, *wish, index as u64 + 1).await.unwrap();
        settle(&active).await;
    }
    active
}

#[tokio::test]
async fn a_master_may_die_after_any_effect() {
    for (index, wish) in LIFE.iter().enumerate() {
        let uncut = ModelWorld::new(2);
        live(&uncut, index + 1).await;
        let expected = summary(&uncut);
        for effects in 1..40 {
            let world = ModelWorld::new(2);
            live(&world, index).await;
            let doomed = master(world.reborn(FOR_EVER)).await;
            settle(&doomed).await;
            doomed.world().life.store(effects, Ordering::SeqCst);
            let nonce = index as u64 + 1;
            let asking = doomed.clone();
            let wish = *wish;
            tokio::spawn(async move { submit(&asking, wish, nonce).await });
            settle(&doomed).await;
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            settle(&doomed).await;
            let survived = !doomed.world().is_dead();
            let heir = master(world.reborn(FOR_EVER)).await;
            settle(&heir).await;
            // The client asks again, with the same nonce.
            submit(&heir, wish, nonce).await.unwrap();
            settle(&heir).await;
            heir.reconcile().await;
            assert_eq!(
                summary(&world),
                expected,
                "{wish:?}, dead after {effects} effects"
            );
            if survived {
                break;
            }
            assert!(effects < 39, "{wish:?} never ends");
        }
    }
}

/// A master stops between what it has read and its next write or order; a new one takes over and finishes; when the old one goes
/// on, whatever it still does is refused, and it ends.
#[tokio::test]
async fn t8_a_master_that_was_stopped_and_replaced_is_refused_when_it_goes_on() {
    let mut stopped = BTreeMap::new();
    for (index, wish) in LIFE.iter().enumerate() {
        let uncut = ModelWorld::new(2);
        live(&uncut, index + 1).await;
        let expected = summary(&uncut);
        for effect in [
            Effect::Journal,
            Effect::Meta,
            Effect::Open,
            Effect::Close,
            Effect::Namespace,
        ] {
            let world = ModelWorld::new(2);
            let old = live(&world, index).await;
            *old.world().stops_at.lock().unwrap() = Some(effect);
            let nonce = index as u64 + 1;
            let (asking, wish) = (old.clone(), *wish);
            tokio::spawn(async move { submit(&asking, wish, nonce).await });
            for _ in 0..10_000 {
                if *old.world().stopped.borrow() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            if !*old.world().stopped.borrow() {
                // This wish needs no such effect.
                continue;
            }
            *stopped.entry(format!("{effect:?}")).or_insert(0) += 1;
            let heir = master(world.beside()).await;
            settle(&heir).await;
            submit(&heir, wish, nonce).await.unwrap();
            settle(&heir).await;
            heir.reconcile().await;
            assert_eq!(summary(&world), expected, "{wish:?} stopped at {effect:?}");
            old.world().stopped.send_replace(false);
            for _ in 0..2_000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(summary(&world), expected, "{wish:?} stopped at {effect:?}");
            let ended = world.lasting().ended.clone();
            assert_eq!(ended, [old.world().epoch()], "{wish:?} at {effect:?}");
        }
    }
    // Every kind was tried, with as many wishes as have it.
    assert_eq!(
        stopped.values().copied().collect::<Vec<i32>>(),
        [16, 22, 18, 2, 12],
        "{stopped:?}"
    );
}

/// Clients look right after an answer, and do not ask again.
#[tokio::test]
async fn what_a_procedure_did_is_shown_when_its_end_is_answered() {
    let world = ModelWorld::new(2);
    let active = live(&world, 0).await;
    for (index, wish) in LIFE.iter().enumerate() {
        let id = submit(&active, *wish, index as u64 + 1).await.unwrap();
        while !matches!(
            active.result(id, Duration::from_secs(1)).await,
            Answer::Finished(_)
        ) {}
        let catalog = active.with_catalog(Clone::clone);
        world.lasting().check_shown(&catalog);
    }
}

#[tokio::test]
async fn a_coordination_service_that_is_away_stops_no_procedure_and_is_told_when_it_is_back() {
    let world = ModelWorld::new(2);
    let active = live(&world, 1).await;
    world.lasting().deaf = true;
    for (nonce, wish) in [Wish::Create, Wish::Disable].into_iter().enumerate() {
        let id = submit(&active, wish, 90 + nonce as u64).await.unwrap();
        settle(&active).await;
        let ended = active.result(id, Duration::ZERO).await;
        assert!(matches!(ended, Answer::Finished(f) if f.failure.is_none()));
    }
    assert!(!world.lasting().shown_tables.contains_key(&name()));
    assert_eq!(active.announce_untold().await, 1);
    world.lasting().deaf = false;
    assert_eq!(active.announce_untold().await, 0);
    summary(&world);
    // What was gone while no master could say so is taken away by the next one.
    let stale = TableName::parse("stale").unwrap();
    let lost = TableName::parse("ns:t").unwrap();
    world
        .lasting()
        .shown_tables
        .insert(stale, TableState::Enabled);
    world.lasting().shown_tables.remove(&lost);
    let heir = master(world.reborn(FOR_EVER)).await;
    settle(&heir).await;
    summary(&world);
}

/// A directory from before `hbase:namespace` was a table, and one whose table shows something else.
#[tokio::test]
async fn the_table_of_namespaces_is_made_and_mended_by_whoever_begins_to_lead() {
    let world = ModelWorld::new(2);
    live(&world, 1).await;
    let expected = summary(&world);
    {
        let mut lasting = world.lasting();
        lasting.namespace_rows.remove("ns");
        lasting.namespace_rows.insert("other".into(), Bytes::new());
        let value = lasting.namespace_rows.get_mut("default").unwrap();
        *value = Bytes::new();
    }
    let heir = master(world.reborn(FOR_EVER)).await;
    settle(&heir).await;
    assert_eq!(summary(&world), expected);
    assert!(heir.ensure_namespaces().await);
    let table = heir.with_catalog(|catalog| {
        let table = catalog.table(&TableName::namespaces())?;
        Ok::<_, Error>((
            table.state,
            catalog.regions_of(&TableName::namespaces()).count(),
        ))
    });
    assert_eq!(table.unwrap(), (TableState::Enabled, 1));
}

#[tokio::test]
async fn c20_an_opening_whose_answer_was_lost_does_not_stand_in_the_way_of_the_next() {
    let world = ModelWorld::new(2);
    let active = live(&world, 1).await;
    world.lasting().loses_answer = [server(1), server(2)].into();
    submit(&active, Wish::Create, 70).await.unwrap();
    settle(&active).await;
    summary(&world);
    submit(&active, Wish::Disable, 71).await.unwrap();
    settle(&active).await;
    // The server that opened dies before it is asked again: the other one finds epochs that nobody has written down.
    let others: Vec<ServerName> = world.servers.borrow().iter().cloned().collect();
    world.lasting().loses_answer = others.iter().cloned().collect();
    let asking = active.clone();
    tokio::spawn(async move { submit(&asking, Wish::Enable, 72).await });
    let lost = loop {
        tokio::task::yield_now().await;
        let left = world.lasting().loses_answer.clone();
        if let Some(lost) = others.iter().find(|server| !left.contains(server)) {
            break lost.clone();
        }
    };
    world.kill_server(&lost);
    world.lasting().loses_answer.clear();
    settle(&active).await;
    active.reconcile().await;
    summary(&world);
    let heir = master(world.reborn(FOR_EVER)).await;
    settle(&heir).await;
    summary(&world);
    let epochs = world.lasting().epochs.clone();
    for (region, epoch) in &epochs {
        assert_eq!(heir.with_catalog(|catalog| catalog.epoch(region)), *epoch);
    }
    // An order from before that arrives now finds that others came first.
    let entry = world.lasting().regions.values().next().cloned().unwrap();
    let left = world.servers.borrow().iter().next().cloned().unwrap();
    heir.world().close(&left, &entry.info).await.unwrap();
    let descriptor = heir.with_catalog(|c| Arc::clone(&c.table(&name()).unwrap().descriptor));
    let late = OpenOrder {
        info: entry.info.clone(),
        descriptor,
        expected_epoch: 0,
    };
    let epoch = epochs[&entry.info.encoded_name()];
    assert_eq!(
        heir.world().open(&left, &[late]).await.unwrap(),
        [Opening::OtherEpoch(epoch)]
    );
}

#[tokio::test]
async fn a_full_disk_is_waited_for() {
    let world = ModelWorld::new(1);
    let active = live(&world, 1).await;
    world.lasting().full_for = 1;
    let refused = submit(&active, Wish::Create, 80).await.unwrap_err();
    assert_eq!(refused.code(), Code::RegionTooBusy, "clients repeat it");
    submit(&active, Wish::Create, 80).await.unwrap();
    settle(&active).await;
    // What has begun goes on when there is space again.
    submit(&active, Wish::Disable, 81).await.unwrap();
    world.lasting().full_for = 20;
    settle(&active).await;
    assert!(!active.set_switch("some", false, true).await);
    summary(&world);
    assert!(world.lasting().ended.is_empty());
}

#[tokio::test]
async fn a_repeated_nonce_is_the_same_procedure() {
    let world = ModelWorld::new(1);
    let active = live(&world, 1).await;
    let (first, second) = tokio::join!(
        submit(&active, Wish::Create, 77),
        submit(&active, Wish::Create, 77)
    );
    assert_eq!(first.unwrap(), second.unwrap());
    settle(&active).await;
    let heir = master(world.reborn(FOR_EVER)).await;
    let again = submit(&heir, Wish::Create, 77).await.unwrap();
    assert!(matches!(
        heir.result(again, Duration::ZERO).await,
        Answer::Finished(Finished { failure: None, .. })
    ));
    let other = submit(&heir, Wish::Create, 78).await.unwrap_err();
    assert_eq!(other.code(), Code::TableExists);
}

#[tokio::test]
async fn regions_of_a_dead_server_move_and_strays_are_closed() {
    let world = ModelWorld::new(2);
    let active = live(&world, 2).await;
    let meta_on = world.meta_place().unwrap();
    world.kill_server(&meta_on);
    assert_eq!(active.reconcile().await, 0);
    assert_ne!(world.meta_place().unwrap(), meta_on, "hbase:meta too");
    summary(&world);
    // A server drops a region, as if fenced, and holds one that is not its own.
    let left = server(if meta_on == server(1) { 2 } else { 1 });
    {
        let mut lasting = world.lasting();
        let held = lasting.held.get_mut(&left).unwrap();
        let first = held
            .keys()
            .find(|name| name.as_str() != "1588230740")
            .unwrap()
            .clone();
        let (_, placement) = held.remove(&first).unwrap();
        let stray = RegionInfo::new(name(), Bytes::new(), Bytes::new(), 3);
        held.insert(stray.encoded_name(), (stray, placement));
    }
    assert_eq!(active.reconcile().await, 0);
    summary(&world);
    // The last server dies: nothing can be done until one comes.
    world.kill_server(&left);
    let waiting = active.clone();
    let pass = tokio::spawn(async move { waiting.reconcile().await });
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!pass.is_finished());
    world.lasting().held.insert(server(9), BTreeMap::new());
    world.servers.send_modify(|servers| {
        servers.insert(server(9));
    });
    pass.await.unwrap();
    assert!(reconciled(&active).await);
    summary(&world);
}

#[tokio::test]
async fn a_server_that_refuses_is_avoided_and_a_table_that_opens_nowhere_is_taken_back() {
    let world = ModelWorld::new(2);
    let active = live(&world, 1).await;
    world.lasting().refusing.insert(server(1));
    submit(&active, Wish::Create, 50).await.unwrap();
    settle(&active).await;
    let user_regions = |held: &BTreeMap<EncodedName, (RegionInfo, Placement)>| {
        held.values()
            .filter(|(info, _)| info.table == name())
            .count()
    };
    assert_eq!(user_regions(&world.lasting().held[&server(2)]), 3);
    submit(&active, Wish::Disable, 51).await.unwrap();
    submit(&active, Wish::Delete, 52).await.unwrap();
    settle(&active).await;
    world.lasting().refusing.insert(server(2));
    let id = submit(&active, Wish::Create, 53).await.unwrap();
    loop {
        match active.result(id, Duration::from_secs(1)).await {
            Answer::Running(_) => {}
            Answer::Finished(finished) => {
                assert_eq!(finished.failure.unwrap().code(), Code::Io);
                break;
            }
            Answer::NotFound => panic!("a procedure is remembered"),
        }
    }
    settle(&active).await;
    assert!(active.with_catalog(|catalog| catalog.table(&name()).is_err()));
    let left: Vec<RegionEntry> = world.lasting().regions.values().cloned().collect();
    assert!(left.iter().all(|region| region.info.table != name()));
    assert!(active.state().in_transition.is_empty());
    world.lasting().refusing.clear();
    submit(&active, Wish::Create, 54).await.unwrap();
    settle(&active).await;
    summary(&world);
}

#[tokio::test]
async fn old_procedures_are_forgotten() {
    let world = ModelWorld::new(1);
    let active = live(&world, 1).await;
    let old = submit(&active, Wish::Create, 60).await.unwrap();
    settle(&active).await;
    let life = Duration::from_millis(FINISHED_LIFE_MS + 1);
    world.sleep(life).await;
    let new = submit(&active, Wish::Disable, 61).await.unwrap();
    settle(&active).await;
    assert_eq!(active.result(old, Duration::ZERO).await, Answer::NotFound);
    assert!(matches!(
        active.result(new, Duration::ZERO).await,
        Answer::Finished(_)
    ));
    let records = world.lasting().kv.clone().into_iter().collect();
    let loaded = journal::load(records).unwrap();
    assert_eq!(loaded.finished.len(), 1);
    assert_eq!(loaded.counters.next_procedure, new + 1);
}

/// A small stream of numbers; a seed that failed fails again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        // Constants of Knuth's MMIX; the high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A wish that makes sense now, or at least may be refused.
fn random_wish(numbers: &mut Numbers, active: &Active<ModelWorld>) -> Wish {
    use Wish::{
        AddFamily, Create, Delete, Disable, DropFamily, Enable, Flush, Forget, Merge, Move, Split,
        Truncate,
    };
    let state = active.with_catalog(|catalog| catalog.table(&name()).ok().map(|t| t.state));
    let choices: &[Wish] = match state {
        None => &[Create],
        Some(TableState::Disabled) => &[Enable, Truncate, Delete, DropFamily],
        Some(_) => &[
            Disable, Disable, Flush, Move, AddFamily, Split, Split, Merge, Merge, Forget,
        ],
    };
    choices[numbers.below(choices.len() as u64) as usize]
}

/// One event of a history: servers come, go and forget; masters die in the middle of what they do.
async fn random_event(
    numbers: &mut Numbers,
    world: &ModelWorld,
    active: Active<ModelWorld>,
    next_port: &mut u16,
) -> Active<ModelWorld> {
    match numbers.below(8) {
        0 => {
            let victim = {
                let live = world.servers.borrow();
                let index = numbers.below(live.len() as u64) as usize;
                live.iter().nth(index).cloned().unwrap()
            };
            let comer = server(*next_port);
            *next_port += 1;
            world.lasting().held.insert(comer.clone(), BTreeMap::new());
            world.servers.send_modify(|servers| {
                servers.insert(comer);
            });
            world.kill_server(&victim);
            active
        }
        1 => {
            let mut lasting = world.lasting();
            let index = numbers.below(lasting.held.len() as u64) as usize;
            let held = lasting.held.values_mut().nth(index).unwrap();
            held.pop_first();
            drop(lasting);
            active
        }
        2 => {
            let effects = 1 + numbers.below(12) as i64;
            active.world().life.store(effects, Ordering::SeqCst);
            for _ in 0..20 {
                if active.world().is_dead() {
                    break;
                }
                let wish = random_wish(numbers, &active);
                let asking = active.clone();
                let nonce = 1_000_000 + numbers.below(1_000_000);
                tokio::spawn(async move { submit(&asking, wish, nonce).await });
                let passing = active.clone();
                tokio::spawn(async move { passing.reconcile().await });
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            }
            master(world.reborn(FOR_EVER)).await
        }
        3 => {
            active.reconcile().await;
            active
        }
        _ => {
            let wish = random_wish(numbers, &active);
            // Refusals are answers, too.
            let _ = submit(&active, wish, numbers.below(u64::from(u32::MAX))).await;
            if numbers.below(3) > 0 {
                settle(&active).await;
            }
            active
        }
    }
}

/// Seeds to run: a few, or `CADASTRE_MASTER_SEEDS=FROM..TO` of them.
fn seeds() -> std::ops::Range<u64> {
    let Ok(wanted) = std::env::var("CADASTRE_MASTER_SEEDS") else {
        return 0..25;
    };
    let (from, to) = wanted.split_once("..").expect("FROM..TO");
    from.parse().unwrap()..to.parse().unwrap()
}

#[tokio::test]
async fn random_histories_end_in_a_whole_cluster() {
    for seed in seeds() {
        let mut numbers = Numbers(seed);
        let world = ModelWorld::new(3);
        let mut active = live(&world, 1).await;
        let mut next_port = 10;
        for _ in 0..25 {
            active = random_event(&mut numbers, &world, active, &mut next_port).await;
        }
        settle(&active).await;
        active.collect_garbage();
        settle(&active).await;
        assert!(reconciled(&active).await, "seed {seed}");
        let whole = std::panic::AssertUnwindSafe(|| summary(&world));
        assert!(std::panic::catch_unwind(whole).is_ok(), "seed {seed}");
    }
}

/// A master of a table with three regions.
async fn with_table() -> (ModelWorld, Active<ModelWorld>) {
    let world = ModelWorld::new(2);
    let active = live(&world, 2).await;
    (world, active)
}

async fn ended(active: &Active<ModelWorld>, wish: Wish, nonce: u64) -> Option<Code> {
    let id = submit(active, wish, nonce).await.unwrap();
    settle(active).await;
    match active.result(id, Duration::ZERO).await {
        Answer::Finished(finished) => finished.failure.map(|error| error.code()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_split_that_the_store_refuses_is_taken_back() {
    let (world, active) = with_table().await;
    let before = summary(&world);
    let places = |world: &ModelWorld| -> BTreeMap<EncodedName, ServerName> {
        let lasting = world.lasting();
        let held = lasting.held.iter();
        held.flat_map(|(server, here)| here.keys().map(move |name| (name.clone(), server.clone())))
            .collect()
    };
    let placed = places(&world);
    let servers: BTreeSet<_> = placed.values().collect();
    assert!(servers.len() > 1, "parents of a merge lie apart");
    world.lasting().cloning_fails = true;
    for (nonce, wish) in [(90, Wish::Split), (91, Wish::Merge)] {
        assert_eq!(ended(&active, wish, nonce).await, Some(Code::Io));
    }
    assert_eq!(places(&world), placed, "each where it was");
    world.lasting().cloning_fails = false;
    settle(&active).await;
    assert!(world.lasting().sealed.is_empty());
    let bounds = |text: &str| text[text.find("Enabled").unwrap()..].to_owned();
    assert_eq!(
        bounds(&summary(&world)).replace("deleted 3", "deleted 0"),
        bounds(&before)
    );
    assert_eq!(ended(&active, Wish::Split, 92).await, None);
    summary(&world);
}

/// A clone has its source's epoch from the start, and the first order expects it.
#[tokio::test]
async fn no_order_of_a_split_or_merge_is_refused_for_its_epoch() {
    let (world, active) = with_table().await;
    for (nonce, wish) in [(90, Wish::Split), (91, Wish::Merge), (92, Wish::Split)] {
        assert_eq!(ended(&active, wish, nonce).await, None);
    }
    assert_eq!(world.lasting().other_epochs, 0);
}

/// The log of a server that died has writes that are in no file yet: the region is opened once more before it is cloned.
#[tokio::test]
async fn what_only_the_log_has_is_replayed_before_a_split() {
    let (world, active) = with_table().await;
    let first = {
        let lasting = world.lasting();
        let mut regions = lasting.regions.values();
        let is_first =
            |region: &&RegionEntry| region.info.table == name() && region.info.start_key.is_empty();
        let first = regions.find(is_first);
        first.unwrap().info.encoded_name()
    };
    let before = world.lasting().epochs[&first];
    world.lasting().unflushed.insert(first.clone());
    assert_eq!(ended(&active, Wish::Split, 90).await, None);
    let lasting = world.lasting();
    assert!(lasting.unflushed.is_empty());
    assert_eq!(lasting.epochs[&first], before + 1, "opened once");
    assert!(lasting.sealed.contains(&first));
    drop(lasting);
    summary(&world);
}

#[tokio::test]
async fn the_janitor_waits_until_nobody_reads_a_parents_files() {
    let (world, active) = with_table().await;
    assert_eq!(active.forget_parents().await, 0, "there is nothing");
    assert_eq!(ended(&active, Wish::Split, 90).await, None);
    let first = world.lasting().sealed.clone();
    assert_eq!(active.forget_parents().await, 0, "both daughters borrow");
    // Merged at once, and split and merged again: what waits is carried on.
    for (nonce, wish) in [(91, Wish::Merge), (92, Wish::Split), (93, Wish::Merge)] {
        assert_eq!(ended(&active, wish, nonce).await, None);
    }
    let all = world.lasting().sealed.clone();
    assert_eq!(all.len(), 6);
    assert_eq!(active.forget_parents().await, 0);
    for parent in &first {
        world.lasting().lent.remove(parent);
    }
    assert_eq!(active.forget_parents().await, 1);
    settle(&active).await;
    let deleted = world.lasting().deleted.clone();
    let replaced: BTreeSet<EncodedName> = deleted.intersection(&all).cloned().collect();
    assert_eq!(replaced, first, "the others are read");
    let heir = master(world.reborn(FOR_EVER)).await;
    assert_eq!(heir.forget_parents().await, 0);
    world.lasting().lent.clear();
    // The middle generation with what it was merged from, and what the last one was merged from.
    assert_eq!(heir.forget_parents().await, 2);
    settle(&heir).await;
    assert!(all.is_subset(&world.lasting().deleted));
    assert_eq!(heir.forget_parents().await, 0);
    summary(&world);
    assert_eq!(ended(&heir, Wish::Disable, 94).await, None);
    assert_eq!(ended(&heir, Wish::Delete, 95).await, None);
    let lasting = world.lasting();
    let mut left = lasting.regions.values();
    assert!(!left.any(|region| region.info.table == name()));
}
