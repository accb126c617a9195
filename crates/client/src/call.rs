//! Making a region call until it succeeds: the only place of the client that sleeps before a retry (requirements.md L17, L18, L20). Calls to
//! the master have their own loop, the HA proxy (`master`); neither is ever inside of the other.
//!
//! 1. [`Attempts`] holds the tries, pauses and deadline of one operation; [`Attempts::after`] is the sleep.
//! 2. A region call locates, sends, and on failure forgets exactly what the error says is wrong; then again from the start.
//!
//! Dropping the future ends everything at once: no task runs behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_types::{Code, Error, Get, Qualifiers, RegionInfo, Result, TableName, TableState};
use cadastre_wire::{Service, meta};
use rand::Rng;

use crate::Client;
use crate::data::new_get;
use crate::locate::{Located, Location, Locator, Position, Wanted, address};
use crate::requests::GetRequest;
use crate::retry::{self, Retries};

/// First pause while a procedure runs. A table of ours is created within some ten milliseconds.
const POLL_FIRST: Duration = Duration::from_millis(5);

/// Longest pause while a procedure runs.
const POLL_LONGEST: Duration = Duration::from_millis(500);

/// A request to the server of one region.
pub trait RegionRequest: Sync {
    /// What it answers.
    type Answer: Send;

    /// Service that has the method.
    fn service(&self) -> Service {
        Service::Client
    }

    /// Method.
    fn method(&self) -> &'static str;

    /// Message and cell block, for the region that was found.
    ///
    /// # Errors
    /// If the request cannot be written.
    fn encode(&self, region: &RegionInfo) -> Result<(Bytes, Bytes)>;

    /// Reads the answer.
    ///
    /// # Errors
    /// If the answer is damaged, or is an error in the form of an answer.
    fn decode(&self, body: Bytes, cells: Bytes) -> Result<Self::Answer>;

    /// Whether twice has the same effect as once, so that a try of unknown outcome may be repeated (INV-5).
    fn is_repeatable(&self) -> bool {
        true
    }
}

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) table: &'a TableName,
    pub(crate) row: &'a Bytes,
    pub(crate) position: Position,
    pub(crate) replica: u32,
}

impl<'a> Target<'a> {
    pub(crate) fn row(table: &'a TableName, row: &'a Bytes) -> Self {
        Self {
            table,
            row,
            position: Position::Holding,
            replica: 0,
        }
    }

    pub(crate) fn wanted<E: Env>(self, locator: &Locator<E>) -> Wanted<'a> {
        locator.wanted(self.table, self.row, self.position, self.replica)
    }
}

/// The tries of one operation.
pub(crate) struct Attempts<'a, E: Env> {
    client: &'a Client<E>,
    retries: Retries,
}

impl<'a, E: Env> Attempts<'a, E> {
    pub(crate) fn new(client: &'a Client<E>) -> Self {
        let now = client.shared.env.clock().mono();
        Self {
            client,
            retries: Retries::new(&client.shared.config.retry, now),
        }
    }

    /// Part of the operation succeeded: the tries count anew, the deadline stays.
    pub(crate) fn progressed(&mut self) {
        self.retries.progressed();
    }

    /// Time for one try.
    pub(crate) fn timeout(&self) -> Result<Duration> {
        self.retries
            .try_timeout(self.client.shared.env.clock().mono())
    }

    /// Waits as long as is right after this error.
    ///
    /// # Errors
    /// The error, if there is to be no other try.
    pub(crate) async fn after(&mut self, error: Error) -> Result<()> {
        let clock = self.client.shared.env.clock();
        let chance = self.client.chance();
        tracing::debug!(%error, failures = self.retries.failures(), "a try failed");
        let pause = self.retries.pause(error, clock.mono(), chance)?;
        if !pause.is_zero() {
            clock.sleep(pause).await;
        }
        Ok(())
    }

    /// A location from the cache.
    pub(crate) fn cached(&self, target: Target<'_>) -> Option<Arc<Location>> {
        let locator = &self.client.shared.locator;
        locator.cached(&target.wanted(locator))
    }

    /// Where the gap between cached regions begins in which the target lies; targets of different gaps lie in different regions.
    pub(crate) fn gap_start(&self, target: Target<'_>) -> Bytes {
        let locator = &self.client.shared.locator;
        locator.gap_start(&target.wanted(locator))
    }

    /// Locates, once.
    pub(crate) async fn locate(&self, target: Target<'_>) -> Result<Arc<Location>> {
        if let Some(found) = self.cached(target) {
            return Ok(found);
        }
        Ok(self.locate_with_source(target).await?.location)
    }

    /// Locates, once, and says who knew. The wait for others who look up is bounded by the operation's deadline, too.
    pub(crate) async fn locate_with_source(&self, target: Target<'_>) -> Result<Located> {
        let shared = &self.client.shared;
        let now = shared.env.clock().mono();
        let timeout = self.retries.try_timeout(now)?;
        let left = self.retries.deadline().saturating_sub(now);
        let looking = shared
            .locator
            .locate(target.wanted(&shared.locator), timeout);
        let found = shared
            .env
            .clock()
            .timeout(left, looking)
            .await
            .map_err(|_| {
                Error::new(
                    Code::TimeoutIo,
                    format!(
                        "no location in {} within the operation's time",
                        target.table
                    ),
                )
            })?;
        match found {
            Ok(found) => Ok(found),
            Err(failed) if failed.may_be_disabled => {
                self.refuse_if_disabled(target.table, timeout).await?;
                Err(failed.error)
            }
            Err(failed) => Err(failed.error),
        }
    }

    /// A region that is offline may be one of a disabled table; then waiting is in vain.
    async fn refuse_if_disabled(&self, table: &TableName, timeout: Duration) -> Result<()> {
        // If the state cannot be read, the region's being offline is what the caller is told.
        match self.client.table_state_once(table, timeout).await {
            Ok(Some(TableState::Disabled)) => Err(Error::new(
                Code::TableNotEnabled,
                format!("{table} is disabled"),
            )),
            _ => Ok(()),
        }
    }
}

/// A try that failed.
struct Failure {
    error: Error,
    /// Another try would risk doing it twice.
    is_final: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            is_final: false,
        }
    }
}

impl<E: Env> Client<E> {
    /// Makes a request to the region that holds a row, until it succeeds or its time or tries are over.
    ///
    /// # Errors
    /// The last error. [`Code::OutcomeUnknown`] if it may have been executed and must not be repeated.
    pub async fn region_call<R: RegionRequest>(
        &self,
        table: &TableName,
        row: &Bytes,
        request: &R,
    ) -> Result<R::Answer> {
        let (answer, _) = self.call_target(Target::row(table, row), request).await?;
        Ok(answer)
    }

    /// The same for any target; says which location answered.
    pub(crate) async fn call_target<R: RegionRequest>(
        &self,
        target: Target<'_>,
        request: &R,
    ) -> Result<(R::Answer, Arc<Location>)> {
        let mut attempts = Attempts::new(self);
        loop {
            match self.try_target(&attempts, target, request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.is_final => return Err(failure.error),
                Err(failure) => attempts.after(failure.error).await?,
            }
        }
    }

    async fn try_target<R: RegionRequest>(
        &self,
        attempts: &Attempts<'_, E>,
        target: Target<'_>,
        request: &R,
    ) -> Result<(R::Answer, Arc<Location>), Failure> {
        let location = attempts.locate(target).await?;
        let timeout = attempts.timeout()?;
        match self.call_located(&location, request, timeout).await {
            Ok(answer) => Ok((answer, location)),
            Err(error) => Err(Failure {
                is_final: !request.is_repeatable() && retry::may_be_executed(&error),
                error,
            }),
        }
    }

    /// One request to a known location; forgets it if the error says that it is wrong.
    pub(crate) async fn call_located<R: RegionRequest>(
        &self,
        location: &Location,
        request: &R,
        timeout: Duration,
    ) -> Result<R::Answer> {
        let (param, cells) = request.encode(&location.region)?;
        let (body, cells) = self
            .send(
                location,
                request.service(),
                request.method(),
                param,
                cells,
                timeout,
            )
            .await?;
        request.decode(body, cells)
    }

    /// One call of `ClientService`; forgets the location if the error says that it is wrong.
    pub(crate) async fn send_to_region_server(
        &self,
        location: &Location,
        method: &'static str,
        param: Bytes,
        cells: Bytes,
        timeout: Duration,
    ) -> Result<(Bytes, Bytes)> {
        self.send(location, Service::Client, method, param, cells, timeout)
            .await
    }

    async fn send(
        &self,
        location: &Location,
        service: Service,
        method: &'static str,
        param: Bytes,
        cells: Bytes,
        timeout: Duration,
    ) -> Result<(Bytes, Bytes)> {
        let to = address(&location.server);
        let answer = self
            .shared
            .connections
            .call(&to, service, method, param, cells, timeout)
            .await;
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.forget(location, &error).await;
                Err(error.context(format_args!("{method} on {}", location.server)))
            }
        }
    }

    /// Forgets what an error says is wrong with a location (L20).
    pub(crate) async fn forget(&self, location: &Location, error: &Error) {
        self.shared
            .locator
            .forget_and_confirm(location, error)
            .await;
    }

    /// State of a table as `hbase:meta` has it, in one try; `None` if the table does not exist.
    async fn table_state_once(
        &self,
        table: &TableName,
        timeout: Duration,
    ) -> Result<Option<TableState>> {
        let meta = TableName::meta();
        let get = table_state_get(table);
        let wanted = self
            .shared
            .locator
            .wanted(&meta, &get.row, Position::Holding, 0);
        let located = self.shared.locator.locate(wanted, timeout).await;
        let location = located.map_err(|failed| failed.error)?.location;
        let row = self
            .call_located(&location, &GetRequest(&get), timeout)
            .await?;
        meta::table_state_from_cells(&row.cells)
    }

    /// State of a table as `hbase:meta` has it; `None` if the table does not exist.
    ///
    /// # Errors
    /// The last error of the tries.
    pub async fn table_state(&self, table: &TableName) -> Result<Option<TableState>> {
        let meta = TableName::meta();
        let get = table_state_get(table);
        let row = self.region_call(&meta, &get.row, &GetRequest(&get)).await?;
        meta::table_state_from_cells(&row.cells)
    }

    /// Asks again and again, with growing pauses, until there is an answer or the operation's time is over.
    pub(crate) async fn poll<T, F: Future<Output = Result<Option<T>>>>(
        &self,
        what: &str,
        ask: impl Fn() -> F,
    ) -> Result<T> {
        let clock = self.shared.env.clock();
        let time = Duration::from_millis(self.shared.config.retry.operation_timeout_ms);
        let deadline = clock.mono() + time;
        let mut pause = POLL_FIRST;
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            if clock.mono() + pause >= deadline {
                return Err(Error::new(
                    Code::TimeoutIo,
                    format!("{what} is not done within {} ms", time.as_millis()),
                ));
            }
            clock.sleep(pause).await;
            pause = (pause * 3 / 2).min(POLL_LONGEST);
        }
    }

    /// A number in `0.0..1.0`.
    fn chance(&self) -> f64 {
        let mut rng = self
            .shared
            .rng
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        rng.random()
    }

    /// A nonce: random, never 0.
    pub(crate) fn nonce(&self) -> u64 {
        let mut rng = self
            .shared
            .rng
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        rng.random::<u64>().max(1)
    }
}

fn table_state_get(table: &TableName) -> Get {
    let family = Bytes::from_static(meta::TABLE_FAMILY);
    let qualifier = Bytes::from_static(meta::TABLE_STATE);
    let mut get = new_get(meta::table_row(table));
    get.query.columns = BTreeMap::from([(family, Qualifiers::These(BTreeSet::from([qualifier])))]);
    get
}
