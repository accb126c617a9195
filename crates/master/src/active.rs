//! The active master's state and how clients' wishes become procedures.
//!
//! 1. `Active::submit` waits for the lock of the table or namespace, so that what is checked stays true.
//! 2. The caller's `plan` checks the wish against the [`Catalog`] and fixes every id; what cannot be is refused at once.
//! 3. The intent is written, the procedure runs in a task of its own (`executor`), the caller gets its id.
//!
//! State lies behind one mutex that is never held over an await. It changes only after what it shows is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cadastre_types::{
    Code, EncodedName, Error, RegionInfo, Result, ServerName, TableName, TableState,
};
use tokio::sync::watch;

use crate::catalog::{Catalog, Change, MetaChange};
use crate::executor::Pauses;
use crate::journal::{self, Counters, Finished, Loaded, Write};
use crate::locks::{Held, Locks};
use crate::metrics;
use crate::procedure::{Lock, Nonce, Operation, Procedure, ProcedureId, Ticket};
use crate::world::World;

/// How long an ended procedure is remembered, ms: as long as its nonce may be repeated
/// ([`limits::NONCE_LIFE_MS`](cadastre_types::limits::NONCE_LIFE_MS)); clients ask for results within seconds.
const FINISHED_LIFE_MS: u64 = cadastre_types::limits::NONCE_LIFE_MS;

/// Most ended procedures remembered (INV-9): about 300 bytes each. The oldest go first.
const FINISHED_MAX: usize = 10_000;

/// Most procedures under way (INV-9): each may hold a list of regions.
const RUNNING_MAX: usize = 1_000;

/// Most ended procedures forgotten with one write.
const FORGET_AT_ONCE: usize = 100;

/// A procedure under way.
pub(crate) struct Running {
    pub(crate) ticket: Ticket,
    pub(crate) operation: Arc<Operation>,
    pub(crate) step: &'static str,
    /// Turns true at its end.
    done: watch::Sender<bool>,
}

/// What the mutex guards.
pub(crate) struct State {
    pub(crate) catalog: Catalog,
    pub(crate) running: BTreeMap<ProcedureId, Running>,
    pub(crate) finished: BTreeMap<ProcedureId, Finished>,
    by_nonce: BTreeMap<Nonce, ProcedureId>,
    counters: Counters,
    pub(crate) switches: BTreeMap<String, bool>,
    /// Servers that have died while this master is active, with when (ms since 1970).
    pub(crate) dead: BTreeMap<ServerName, u64>,
    /// Regions being opened or closed, with since when (ms since 1970).
    pub(crate) in_transition: BTreeMap<EncodedName, (RegionInfo, u64)>,
    /// Epochs of clones that were not opened yet: what their first orders expect. A new master asks instead.
    pub(crate) cloned: BTreeMap<EncodedName, u64>,
    /// Regions that clients have asked to be closed: they are not opened until somebody asks for that, or another master begins.
    pub(crate) unassigned: BTreeSet<EncodedName>,
    /// Regions whose data is being deleted.
    pub(crate) collecting: BTreeSet<EncodedName>,
    /// Tables and namespaces of which the coordination service does not show what is.
    pub(crate) untold: BTreeSet<Lock>,
    /// Whether `hbase:namespace` has been compared with the namespaces.
    pub(crate) namespaces_shown: bool,
}

/// An active master. Clones are the same master.
pub struct Active<W: World> {
    inner: Arc<Inner<W>>,
}

impl<W: World> Clone for Active<W> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

struct Inner<W> {
    world: W,
    /// Set when this master stops: from then on what fails just ends.
    halted: AtomicBool,
    state: Mutex<State>,
    locks: Locks,
}

/// What a caller learns of a procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Unknown, or forgotten.
    NotFound,
    /// Still under way.
    Running(Ticket),
    /// Ended.
    Finished(Finished),
}

impl<W: World> Active<W> {
    /// From what was read. Procedures that had not ended hold their locks when this returns, and run once
    /// [`Self::resume`] is called with what this gives.
    ///
    /// # Errors
    /// If two procedures of the journal need one lock, which cannot be.
    pub(crate) fn new(world: W, loaded: Loaded) -> Result<(Self, Resumed)> {
        let mut catalog = Catalog::new();
        for change in &loaded.changes {
            catalog.apply(change);
        }
        let mut by_nonce = BTreeMap::new();
        let mut remember = |ticket: &Ticket| {
            if ticket.nonce.is_set() {
                by_nonce.insert(ticket.nonce, ticket.id);
            }
        };
        loaded
            .running
            .iter()
            .for_each(|(ticket, _)| remember(ticket));
        loaded.finished.iter().for_each(|f| remember(&f.ticket));
        let finished = loaded.finished.into_iter().map(|f| (f.ticket.id, f));
        let active = Self {
            inner: Arc::new(Inner {
                world,
                halted: AtomicBool::new(false),
                locks: Locks::default(),
                state: Mutex::new(State {
                    catalog,
                    running: BTreeMap::new(),
                    finished: finished.collect(),
                    by_nonce,
                    counters: loaded.counters,
                    switches: loaded.switches,
                    dead: BTreeMap::new(),
                    in_transition: BTreeMap::new(),
                    cloned: BTreeMap::new(),
                    unassigned: BTreeSet::new(),
                    collecting: BTreeSet::new(),
                    untold: BTreeSet::new(),
                    namespaces_shown: false,
                }),
            }),
        };
        let mut resumed = Vec::new();
        for (ticket, operation) in loaded.running {
            let held = active
                .inner
                .locks
                .try_now(&operation.lock())
                .ok_or_else(|| {
                    Error::corrupt(format!(
                        "procedure {} and another one need the same lock",
                        ticket.id
                    ))
                })?;
            let procedure = active.enter(ticket, operation);
            resumed.push((procedure, held));
        }
        Ok((active, Resumed(resumed)))
    }

    /// Goes on with the procedures of an earlier master.
    pub(crate) fn resume(&self, resumed: Resumed) {
        for (procedure, held) in resumed.0 {
            tracing::info!(
                procedure = procedure.ticket.id,
                class = procedure.operation.class_name(),
                "goes on"
            );
            self.run(procedure, held);
        }
    }

    pub(crate) fn world(&self) -> &W {
        &self.inner.world
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.inner.locks
    }

    /// The state. Never keep it over an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().expect("no holder panics")
    }

    /// Looks at the catalog.
    pub(crate) fn with_catalog<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        look(&self.state().catalog)
    }

    /// Begins what `plan` makes of the catalog, under the lock. `plan` gets a fresh region id. A repeated nonce gives the
    /// procedure of the first call.
    ///
    /// # Errors
    /// What `plan` says; [`Code::CallQueueTooBig`] if too much is under way; [`Code::RegionTooBusy`] while the disk is full.
    pub(crate) async fn submit(
        &self,
        lock: Lock,
        nonce: Nonce,
        owner: &str,
        plan: impl FnOnce(&Catalog, u64) -> Result<Operation> + Send,
    ) -> Result<ProcedureId> {
        if let Some(id) = self.known(nonce) {
            return Ok(id);
        }
        let held = self.inner.locks.take(&lock).await?;
        // The first call may have had the lock until now.
        if let Some(id) = self.known(nonce) {
            return Ok(id);
        }
        let now = self.world().wall_ms();
        let (ticket, operation, batch) = {
            let mut state = self.state();
            if state.running.len() >= RUNNING_MAX {
                return Err(Error::new(
                    Code::CallQueueTooBig,
                    format!("{RUNNING_MAX} procedures are under way; try again later"),
                ));
            }
            let region_id = now.max(state.counters.last_region + 1);
            let operation = plan(&state.catalog, region_id)?;
            assert_eq!(operation.lock(), lock, "the lock is the operation's");
            let ticket = Ticket {
                id: state.counters.next_procedure,
                submitted_ms: now,
                owner: owner.to_owned(),
                nonce,
            };
            state.counters = Counters {
                next_procedure: ticket.id + 1,
                last_region: region_id,
            };
            let mut batch = vec![journal::counters(state.counters)];
            if !operation.is_single_write() {
                batch.push(journal::intent(&ticket, &operation));
            }
            batch.extend(operation.begin().iter().map(journal::change));
            (ticket, operation, batch)
        };
        let id = ticket.id;
        // In a task: a client that hangs up must not leave the intent written and nobody at work on it.
        let active = self.clone();
        let (tell, told) = tokio::sync::oneshot::channel();
        self.world().spawn("submit", async move {
            // What is a single write is written with its outcome.
            if !operation.is_single_write() {
                if let Err(error) = active.try_write(batch).await {
                    // The caller may be gone.
                    let _ = tell.send(Err(error));
                    return;
                }
                for change in operation.begin() {
                    active.state().catalog.apply(&change);
                }
            }
            let procedure = active.enter(ticket, operation);
            // The caller may be gone.
            let _ = tell.send(Ok(()));
            active.execute(procedure, held).await;
        });
        told.await
            .map_err(|_| Error::new(Code::MasterStopped, "the master is stopping"))??;
        Ok(id)
    }

    /// The procedure that a call with this nonce has begun before: what it asks for may not be there any more.
    pub(crate) fn known(&self, nonce: Nonce) -> Option<ProcedureId> {
        nonce
            .is_set()
            .then(|| self.state().by_nonce.get(&nonce).copied())?
    }

    fn enter(&self, ticket: Ticket, operation: Operation) -> Procedure {
        let procedure = Procedure::new(ticket.clone(), operation);
        let mut state = self.state();
        if ticket.nonce.is_set() {
            state.by_nonce.insert(ticket.nonce, ticket.id);
        }
        let running = Running {
            operation: Arc::new(procedure.operation.clone()),
            step: procedure.step_name(),
            done: watch::Sender::new(false),
            ticket: ticket.clone(),
        };
        state.running.insert(ticket.id, running);
        metrics::procedures_running(state.running.len());
        procedure
    }

    fn run(&self, procedure: Procedure, held: Held) {
        let active = self.clone();
        self.world().spawn("procedure", async move {
            active.execute(procedure, held).await;
        });
    }

    /// Writes to the master's store, once. A store that fails is the end of this master: what it believes and what is durable
    /// could differ from then on.
    ///
    /// # Errors
    /// [`Code::RegionTooBusy`]: nothing has happened, and it may be tried again (C17).
    async fn try_write(&self, batch: Vec<Write>) -> Result<()> {
        match self.world().journal(batch).await {
            Err(error) if error.code() != Code::RegionTooBusy => {
                self.cannot_go_on(error.context("the master's store")).await;
                Ok(())
            }
            written => written,
        }
    }

    /// The same, however long the disk is full.
    pub(crate) async fn write(&self, batch: Vec<Write>) {
        let mut pauses = Pauses::new();
        while let Err(error) = self.try_write(batch.clone()).await {
            tracing::warn!(%error, "the master's store takes no writes; tried again");
            self.world().sleep(pauses.next()).await;
        }
    }

    /// Writes changes down and takes them over.
    pub(crate) async fn record(&self, changes: impl IntoIterator<Item = Change>) {
        let changes: Vec<Change> = changes.into_iter().collect();
        self.write(changes.iter().map(journal::change).collect())
            .await;
        let mut state = self.state();
        for change in &changes {
            state.catalog.apply(change);
        }
    }

    /// Gives an answer on, unless it says that a newer master has taken over: that is the end of this one (C19).
    pub(crate) async fn heed<T>(&self, answer: Result<T>) -> Result<T> {
        if let Err(error) = &answer
            && error.code() == Code::MasterDeposed
        {
            self.cannot_go_on(error.clone()).await;
        }
        answer
    }

    /// The end of this master, by an error that no other try can mend. Never returns: the process ends, or is ending.
    pub(crate) async fn cannot_go_on(&self, error: Error) {
        if self.inner.halted.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.world().fatal(&error);
    }

    /// Lets procedures under way end, but not longer than `patience`, and begins none any more.
    pub(crate) async fn halt(&self, patience: Duration) {
        let deadline = self.world().mono() + patience;
        loop {
            let next = self.state().running.keys().next().copied();
            let now = self.world().mono();
            match next {
                Some(id) if now < deadline => self.result(id, deadline - now).await,
                _ => break,
            };
        }
        self.inner.halted.store(true, Ordering::SeqCst);
    }

    /// Takes over what is durable in `hbase:meta`.
    pub(crate) fn apply_meta(&self, changes: &[MetaChange]) {
        let mut state = self.state();
        for change in changes {
            if let MetaChange::Opened(region, _) | MetaChange::DeleteRegion(region) = change {
                state.unassigned.remove(&region.encoded_name());
            }
            state.catalog.apply_meta(change);
        }
    }

    /// Writes the end of a procedure, tells the coordination service, then those who wait, and forgets old procedures.
    pub(crate) async fn finish(
        &self,
        procedure: &Procedure,
        changes: Vec<Change>,
        failure: Option<Error>,
    ) {
        let now = self.world().wall_ms();
        let finished = Finished {
            ticket: procedure.ticket.clone(),
            class_name: procedure.operation.class_name(),
            finished_ms: now,
            failure,
        };
        let (old, counters) = {
            let state = self.state();
            (too_old(&state.finished, now), state.counters)
        };
        let mut batch = vec![journal::outcome(&finished), journal::counters(counters)];
        batch.extend(changes.iter().map(journal::change));
        batch.extend(old.iter().copied().map(journal::forget));
        self.write(batch).await;
        {
            let mut state = self.state();
            for change in &changes {
                state.catalog.apply(change);
            }
        }
        self.announce(&procedure.operation).await;
        let mut state = self.state();
        for id in old {
            if let Some(finished) = state.finished.remove(&id) {
                state.by_nonce.remove(&finished.ticket.nonce);
            }
        }
        let id = finished.ticket.id;
        state.finished.insert(id, finished);
        if let Some(running) = state.running.remove(&id) {
            running.done.send_replace(true);
        }
        metrics::procedures_running(state.running.len());
    }

    /// What has become of a procedure. Waits for its end, but not longer than `patience`.
    pub(crate) async fn result(&self, id: ProcedureId, patience: Duration) -> Answer {
        let done = self.state().running.get(&id).map(|r| r.done.subscribe());
        if let Some(mut done) = done {
            tokio::select! {
                biased;
                // A dropped sender is an end, too.
                _ = done.wait_for(|done| *done) => {}
                () = self.world().sleep(patience) => {}
            }
        }
        let state = self.state();
        if let Some(finished) = state.finished.get(&id) {
            return Answer::Finished(finished.clone());
        }
        match state.running.get(&id) {
            Some(running) => Answer::Running(running.ticket.clone()),
            None => Answer::NotFound,
        }
    }

    /// A table's state, with that it is on its way to the other one.
    ///
    /// # Errors
    /// [`Code::TableNotFound`].
    pub(crate) fn table_state(&self, table: &TableName) -> Result<TableState> {
        let state = self.state();
        let settled = state.catalog.table(table)?.state;
        let on_its_way = state
            .running
            .values()
            .find_map(|running| match &*running.operation {
                Operation::DisableTable { table: t, .. } if t == table => {
                    Some(TableState::Disabling)
                }
                Operation::EnableTable { table: t, .. } if t == table => Some(TableState::Enabling),
                _ => None,
            });
        Ok(on_its_way.unwrap_or(settled))
    }

    /// Sets a switch durably and gives its value before.
    pub(crate) async fn set_switch(&self, name: &str, default: bool, on: bool) -> bool {
        self.write(vec![journal::switch(name, on)]).await;
        let before = self.state().switches.insert(name.to_owned(), on);
        before.unwrap_or(default)
    }

    /// Live servers that clients have decommissioned: they get no regions while there are others.
    pub(crate) fn decommissioned(&self) -> BTreeSet<ServerName> {
        let live = self.world().servers().borrow().clone();
        live.into_iter()
            .filter(|server| self.switch(&decommission_switch(server), false))
            .collect()
    }

    /// Live servers that regions may be given to.
    pub(crate) fn placeable(&self) -> BTreeSet<ServerName> {
        let live = self.world().servers().borrow().clone();
        let gone = self.decommissioned();
        let left: BTreeSet<ServerName> = live.difference(&gone).cloned().collect();
        // A cluster that serves from a server that was to be spared is better than one that does not serve.
        if left.is_empty() { live } else { left }
    }

    /// A switch.
    pub(crate) fn switch(&self, name: &str, default: bool) -> bool {
        self.state().switches.get(name).copied().unwrap_or(default)
    }
}

/// Name of the switch that says that a server is decommissioned. It ends with the server's start.
pub(crate) fn decommission_switch(server: &ServerName) -> String {
    format!("decommissioned {server}")
}

/// Procedures to go on with, their locks held.
pub(crate) struct Resumed(Vec<(Procedure, Held)>);

/// Ended procedures that may be forgotten now; a few at a time, so that no write grows large.
fn too_old(finished: &BTreeMap<ProcedureId, Finished>, now_ms: u64) -> Vec<ProcedureId> {
    let over = finished.len().saturating_sub(FINISHED_MAX);
    finished
        .values()
        .enumerate()
        .filter(|(index, f)| {
            *index < over || f.finished_ms.saturating_add(FINISHED_LIFE_MS) < now_ms
        })
        .take(FORGET_AT_ONCE)
        .map(|(_, f)| f.ticket.id)
        .collect()
}

#[cfg(test)]
pub(crate) mod tests;
