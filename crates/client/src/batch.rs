//! Many actions on many rows: grouped by server, sent as Multi, each action retried by itself (hbase-protocol.md 4.5).
//!
//! 1. Each action that has no answer yet is located, cold rows of different regions at the same time; actions of one server go together,
//!    up to a size.
//! 2. The requests of a round run at the same time; answers are sorted back by index.
//! 3. What failed and may be repeated is located anew in the next round, after one pause for the whole round. An increment
//!    keeps its nonce; what may have been done and must not be done twice ends with what is known (INV-5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::Env;
use cadastre_types::{Code, Error, RegionInfo, Result, ServerName, TableName};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use crate::Client;
use crate::call::{Attempts, Target};
use crate::locate::Location;
use crate::requests::{self, Action, RegionAnswer, check_row};
use crate::retry;
use crate::row::Row;

/// Requests of one batch on their way at one time (`hbase.client.max.total.tasks` is 100 for a whole client).
const REQUESTS_MAX: usize = 16;

/// Look-ups of one batch on their way at one time (`hbase.client.meta.max.concurrent.locate.per.table`, 8).
const LOOKUPS_MAX: usize = 8;

/// Actions of one request: HBase's servers warn beyond 5,000 (`hbase.rpc.rows.warning.threshold`).
const ACTIONS_MAX: usize = 5_000;

/// Part of a round that goes to one server in one request.
#[derive(Default)]
struct Part {
    /// In the order of the request.
    regions: Vec<(Arc<Location>, Vec<usize>)>,
    /// Place in `regions` by start key.
    by_start: BTreeMap<Bytes, usize>,
    actions: usize,
    bytes: usize,
}

impl Part {
    fn push(&mut self, location: &Arc<Location>, index: usize, bytes: usize) {
        self.actions += 1;
        self.bytes += bytes;
        let start = &location.region.start_key;
        if let Some(place) = self.by_start.get(start)
            && self.regions[*place].0.region == location.region
        {
            self.regions[*place].1.push(index);
            return;
        }
        self.by_start.insert(start.clone(), self.regions.len());
        self.regions.push((Arc::clone(location), vec![index]));
    }
}

/// What a round left of the batch.
#[derive(Default)]
struct Round {
    /// Actions to be tried again.
    again: Vec<usize>,
    /// The error that decides the pause.
    error: Option<Error>,
}

impl Round {
    fn again(&mut self, index: usize, error: Error) {
        self.again.push(index);
        self.error = Some(match self.error.take() {
            Some(held) if !retry::is_overload(&error) => held,
            _ => error,
        });
    }
}

impl<E: Env> Client<E> {
    /// Does many actions and answers each, in the given order. Actions are independent: there is no order between rows and no
    /// atomicity beyond a row's.
    ///
    /// # Errors
    /// None for the whole: each action has its own.
    pub async fn batch(&self, table: &TableName, actions: Vec<Action>) -> Vec<Result<Row>> {
        let mut answers: Vec<Option<Result<Row>>> = Vec::with_capacity(actions.len());
        let mut checked = Vec::with_capacity(actions.len());
        for action in actions {
            let action = match action {
                Action::Get(get) => check_row(&get.row).map(|()| Action::Get(get)),
                Action::Mutate(mutation) => self.checked(mutation).map(Action::Mutate),
            };
            answers.push(action.as_ref().err().cloned().map(Err));
            // A refused action keeps its place; its answer is there already.
            checked.push(action.ok());
        }
        let mut open: Vec<usize> = (0..checked.len())
            .filter(|index| answers[*index].is_none())
            .collect();
        let mut attempts = Attempts::new(self);
        while !open.is_empty() {
            let round = self
                .round(&attempts, table, &checked, &open, &mut answers)
                .await;
            // A server that answers a part each time ("too large, send the rest again") is not one that fails each time.
            if round.again.len() < open.len() {
                attempts.progressed();
            }
            open = round.again;
            let Some(error) = round.error else {
                continue;
            };
            if let Err(error) = attempts.after(error).await {
                for index in open.drain(..) {
                    answers[index] = Some(Err(error.clone()));
                }
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.expect("the loop ends when every action has its answer"))
            .collect()
    }

    async fn round(
        &self,
        attempts: &Attempts<'_, E>,
        table: &TableName,
        actions: &[Option<Action>],
        open: &[usize],
        answers: &mut [Option<Result<Row>>],
    ) -> Round {
        let mut round = Round::default();
        let parts = self
            .group(attempts, table, actions, open, answers, &mut round)
            .await;
        let timeout = match attempts.timeout() {
            Ok(timeout) => timeout,
            Err(error) => {
                for index in parts.iter().flat_map(indexes) {
                    answers[index] = Some(Err(error.clone()));
                }
                return round;
            }
        };
        let mut running = futures::stream::iter(parts)
            .map(|part| async move {
                let outcome = self.send_part(&part, actions, timeout).await;
                (part, outcome)
            })
            .buffer_unordered(REQUESTS_MAX);
        while let Some((part, outcome)) = running.next().await {
            match outcome {
                Ok(regions) => {
                    for ((location, indexes), region) in part.regions.iter().zip(regions) {
                        self.sort_in(location, indexes, region, actions, answers, &mut round)
                            .await;
                    }
                }
                Err(error) => {
                    for index in indexes(&part) {
                        settle(index, Err(error.clone()), actions, answers, &mut round);
                    }
                }
            }
        }
        // Answers come in any order; the next round must not depend on it.
        round.again.sort_unstable();
        round
    }

    /// Locates the open actions and packs them into requests. After one failed look-up the others of the round are taken from
    /// the cache only: a table that is gone or a directory that is down is asked once, not once per action.
    async fn group(
        &self,
        attempts: &Attempts<'_, E>,
        table: &TableName,
        actions: &[Option<Action>],
        open: &[usize],
        answers: &mut [Option<Result<Row>>],
        round: &mut Round,
    ) -> Vec<Part> {
        let mut failed = self.locate_cold(attempts, table, actions, open).await;
        let mut full = Vec::new();
        let mut filling: BTreeMap<ServerName, Part> = BTreeMap::new();
        for &index in open {
            let Some(action) = &actions[index] else {
                continue;
            };
            let target = Target::row(table, action.row());
            let found = match (attempts.cached(target), &failed) {
                (Some(location), _) => Ok(location),
                (None, Some(error)) => Err(error.clone()),
                (None, None) => attempts.locate(target).await,
            };
            let location = match found {
                Ok(location) => location,
                Err(error) => {
                    failed = Some(error.clone());
                    settle_unsent(index, error, answers, round);
                    continue;
                }
            };
            let part = filling.entry(location.server.clone()).or_default();
            let bytes = action.weight();
            let is_full = part.actions > 0
                && (part.actions >= ACTIONS_MAX
                    || part.bytes + bytes > self.shared.config.batch_bytes);
            if is_full {
                full.push(std::mem::take(part));
            }
            part.push(&location, index, bytes);
        }
        full.extend(filling.into_values());
        full
    }

    /// Locates the rows that are not cached, each region once: rows of one gap between cached regions may lie in one region, so a
    /// single one of them is looked up, the middle one; rows of different gaps do not, so their look-ups run at the same time. What
    /// was read along decides what is still cold. Gives the first failure.
    async fn locate_cold(
        &self,
        attempts: &Attempts<'_, E>,
        table: &TableName,
        actions: &[Option<Action>],
        open: &[usize],
    ) -> Option<Error> {
        let is_cold = |row: &&Bytes| attempts.cached(Target::row(table, row)).is_none();
        let rows = open
            .iter()
            .filter_map(|index| actions[*index].as_ref().map(Action::row));
        let mut cold: BTreeSet<&Bytes> = rows.filter(is_cold).collect();
        while !cold.is_empty() {
            let mut gaps: BTreeMap<Bytes, Vec<&Bytes>> = BTreeMap::new();
            for row in &cold {
                let gap = attempts.gap_start(Target::row(table, row));
                gaps.entry(gap).or_default().push(row);
            }
            let middles: Vec<&Bytes> = gaps.values().map(|rows| rows[rows.len() / 2]).collect();
            let lookups: Vec<BoxFuture<'_, Result<Arc<Location>>>> = middles
                .iter()
                .map(|row| attempts.locate(Target::row(table, row)).boxed())
                .collect();
            let found: Vec<Result<Arc<Location>>> = futures::stream::iter(lookups)
                .buffered(LOOKUPS_MAX)
                .collect()
                .await;
            if let Some(error) = found.into_iter().find_map(Result::err) {
                return Some(error);
            }
            // In a cache that is smaller than the batch a row may be cold again already: it had its look-up.
            for row in middles {
                cold.remove(row);
            }
            cold.retain(is_cold);
        }
        None
    }

    async fn send_part(
        &self,
        part: &Part,
        actions: &[Option<Action>],
        timeout: Duration,
    ) -> Result<Vec<RegionAnswer>> {
        let regions = part.regions.iter().map(|(location, indexes)| {
            let actions = indexes
                .iter()
                .filter_map(|index| Some((*index, actions[*index].as_ref()?)))
                .collect();
            let region: &RegionInfo = &location.region;
            (region, actions)
        });
        let (param, cells) = requests::multi(regions, self.shared.nonce_group)?;
        let Some((location, _)) = part.regions.first() else {
            return Ok(Vec::new());
        };
        let (body, cells) = self
            .send_to_region_server(location, "Multi", param, cells, timeout)
            .await?;
        requests::multi_answer(body, cells, part.regions.len())
    }

    /// Gives one region's actions their answers.
    async fn sort_in(
        &self,
        location: &Location,
        indexes: &[usize],
        region: RegionAnswer,
        actions: &[Option<Action>],
        answers: &mut [Option<Result<Row>>],
        round: &mut Round,
    ) {
        let outcomes = match region {
            Ok(outcomes) => outcomes,
            Err(error) => {
                self.forget(location, &error).await;
                for index in indexes {
                    settle(*index, Err(error.clone()), actions, answers, round);
                }
                return;
            }
        };
        let mut missing: BTreeSet<usize> = indexes.iter().copied().collect();
        for (index, outcome) in outcomes {
            // An index that was not asked for is the server's mistake and no reason to touch another action.
            if !missing.remove(&index) {
                continue;
            }
            if let Err(error) = &outcome {
                self.forget(location, error).await;
            }
            settle(index, outcome, actions, answers, round);
        }
        for index in missing {
            let error = Error::new(
                Code::OutcomeUnknown,
                format!("no answer for the action from {}", location.server),
            );
            settle(index, Err(error), actions, answers, round);
        }
    }
}

fn indexes(part: &Part) -> impl Iterator<Item = usize> + '_ {
    part.regions
        .iter()
        .flat_map(|(_, indexes)| indexes.iter().copied())
}

/// Answers an action that was not sent, or puts it into the next round.
fn settle_unsent(
    index: usize,
    error: Error,
    answers: &mut [Option<Result<Row>>],
    round: &mut Round,
) {
    if retry::is_retryable(&error) {
        round.again(index, error);
    } else {
        answers[index] = Some(Err(error));
    }
}

/// Answers an action, or puts it into the next round.
fn settle(
    index: usize,
    outcome: Result<Row>,
    actions: &[Option<Action>],
    answers: &mut [Option<Result<Row>>],
    round: &mut Round,
) {
    let repeatable = actions[index].as_ref().is_some_and(Action::is_repeatable);
    match outcome {
        Err(error)
            if retry::is_retryable(&error) && (repeatable || !retry::may_be_executed(&error)) =>
        {
            round.again(index, error);
        }
        outcome => answers[index] = Some(outcome),
    }
}
