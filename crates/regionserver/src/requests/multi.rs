//! `ClientService.Multi`: actions grouped by region (hbase-protocol.md 4.5; the numbered rules there are kept here).

use std::sync::Arc;

use cadastre_env::Env;
use cadastre_rpc::{Call, Reply};
use cadastre_types::{Cell, Code, Condition, Error, Get, Mutation, Result, limits};
use cadastre_wire::cells::CellReader;
use cadastre_wire::{convert, exception, pb};

use crate::apply::{self, Terms};
use crate::endpoint;
use crate::read::{self, CellSink};
use crate::regions::Hosted;
use crate::server::Server;

use super::{cell_reader, encoded_name, meta_batch, param};

/// Actions one request may hold (INV-9). HBase only warns at 5,000 and takes any number; this bounds memory, not clients.
const ACTIONS_MAX: usize = 1_000_000;

/// What one action asks for.
enum Action {
    Get(Get),
    Mutation(Mutation),
    Call(pb::CoprocessorServiceCall),
    Refused(Error),
}

impl Action {
    fn writes(&self) -> bool {
        matches!(self, Self::Mutation(_) | Self::Call(_))
    }
}

/// What one action came to.
enum Answer {
    Nothing,
    Cells(Vec<Cell>),
    /// Of a get.
    Read(Box<Read>),
    Called(pb::NameBytesPair),
}

/// What a get came to.
struct Read {
    cells: Vec<Cell>,
    /// Only whether there are any is answered.
    existence_only: bool,
    metrics: Option<pb::QueryMetrics>,
}

/// What the actions of one region came to.
enum RegionAnswer {
    /// An answer for each action, by itself.
    Plain(Vec<Result<Answer>>),
    /// One fate for all.
    Atomic {
        processed: bool,
        actions: usize,
        result: Option<Vec<Cell>>,
        metrics: Option<pb::QueryMetrics>,
    },
}

pub(crate) async fn multi<E: Env>(server: &Arc<Server<E>>, call: &Call) -> Result<Reply> {
    let mut request: pb::MultiRequest = param(call)?;
    if request
        .region_action
        .iter()
        .map(|region| region.action.len())
        .sum::<usize>()
        > ACTIONS_MAX
    {
        return Err(Error::new(
            Code::RequestTooBig,
            format!("more than {ACTIONS_MAX} actions"),
        ));
    }
    if let Some(epoch) = request.master_epoch {
        return meta_batch::meta_batch(server, call, &request, epoch).await;
    }
    // The form of clients up to 2.3: one condition for the first region's actions.
    let old_condition = request.condition.take();
    let is_old_form = old_condition.is_some();
    if let (Some(condition), Some(first)) = (old_condition, request.region_action.first_mut()) {
        first.condition.get_or_insert(condition);
    }
    let terms = server.terms(call, request.nonce_group.unwrap_or(0));
    let mut cells = cell_reader(call);
    let mut work = Vec::with_capacity(request.region_action.len());
    for region in &request.region_action {
        // A region that fails must still have its cells taken from the block (rule 2).
        let actions = decode_actions(region, &mut cells)?;
        work.push(run_region(server, region, actions, terms));
    }
    let answers = futures::future::join_all(work).await;
    let mut sink = CellSink::new(&call.peer);
    let mut processed = None;
    let mut results = Vec::with_capacity(answers.len());
    for (region, answer) in request.region_action.iter().zip(answers) {
        if let Ok(RegionAnswer::Atomic {
            processed: done, ..
        }) = &answer
        {
            processed.get_or_insert(*done);
        }
        results.push(region_result(region, answer, &mut sink));
    }
    let response = pb::MultiResponse {
        region_action_result: results,
        processed: processed.filter(|_| is_old_form || request.region_action.len() == 1),
        ..Default::default()
    };
    Ok(Reply {
        body: cadastre_wire::encode(&response),
        cells: sink.finish(),
    })
}

/// # Errors
/// Only if the cell block itself is damaged: then no later action can be read.
fn decode_actions(region: &pb::RegionAction, cells: &mut CellReader) -> Result<Vec<Action>> {
    let mut actions = Vec::with_capacity(region.action.len());
    for action in &region.action {
        actions.push(match (&action.mutation, &action.get) {
            (Some(mutation), _) => match convert::mutation(mutation, cells) {
                Ok(mutation) => Action::Mutation(mutation),
                Err(error) if error.code() == Code::Corrupt => return Err(error),
                Err(error) => Action::Refused(error),
            },
            (None, Some(get)) => match convert::get(get) {
                Ok(get) => Action::Get(get),
                Err(error) => Action::Refused(error),
            },
            (None, None) => match &action.service_call {
                Some(call) => Action::Call(call.clone()),
                None => Action::Refused(Error::invalid("an action must be a get or a mutation")),
            },
        });
    }
    Ok(actions)
}

async fn run_region<E: Env>(
    server: &Arc<Server<E>>,
    region: &pb::RegionAction,
    actions: Vec<Action>,
    terms: Terms,
) -> Result<RegionAnswer> {
    let hosted = server.regions.find(&encoded_name(&region.region))?;
    let atomic = region.atomic() || region.condition.is_some();
    let condition = region
        .condition
        .as_ref()
        .map(convert::condition)
        .transpose()?;
    let env = server.env.clone();
    // Lookups run here, whichever core the region lives on: they spawn no tasks.
    let is_read = !atomic && !actions.iter().any(Action::writes);
    if is_read {
        return Ok(RegionAnswer::Plain(
            run_plain(&env, &hosted, actions, terms).await,
        ));
    }
    let core = hosted.core;
    server
        .regions
        .on_core(core, move || {
            Box::pin(async move {
                if atomic {
                    run_atomic(&env, &hosted, actions, condition, terms).await
                } else {
                    Ok(RegionAnswer::Plain(
                        run_plain(&env, &hosted, actions, terms).await,
                    ))
                }
            })
        })
        .await
}

async fn run_atomic<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    actions: Vec<Action>,
    condition: Option<Condition>,
    terms: Terms,
) -> Result<RegionAnswer> {
    let count = actions.len();
    let mutations = actions
        .into_iter()
        .map(|action| match action {
            Action::Mutation(mutation) => Ok(mutation),
            Action::Refused(error) => Err(error),
            Action::Get(_) | Action::Call(_) => {
                Err(Error::invalid("Atomic put and/or delete only, not a Get"))
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let row = match (&condition, mutations.first()) {
        (Some(condition), _) => condition.row.clone(),
        (None, Some(first)) => first.row.clone(),
        (None, None) => return Err(Error::invalid("an atomic action without mutations")),
    };
    let query_metrics = condition.as_ref().is_some_and(|it| it.query_metrics);
    let outcome = apply::atomic(env, hosted, &row, mutations, condition, terms).await?;
    Ok(RegionAnswer::Atomic {
        processed: outcome.processed,
        actions: count,
        result: outcome.result,
        metrics: read::query_metrics(query_metrics, outcome.bytes_read),
    })
}

/// Gets and calls of endpoints first, as the region stood before the request, then the mutations in order: HBase, too, applies a
/// request's puts behind them.
async fn run_plain<E: Env>(
    env: &E,
    hosted: &Arc<Hosted<E>>,
    actions: Vec<Action>,
    terms: Terms,
) -> Vec<Result<Answer>> {
    let mut answers: Vec<Option<Result<Answer>>> = Vec::new();
    answers.resize_with(actions.len(), || None);
    let mut mutations = Vec::new();
    let mut read_bytes = 0;
    for (index, action) in actions.into_iter().enumerate() {
        match action {
            Action::Refused(error) => answers[index] = Some(Err(error)),
            Action::Mutation(mutation) => mutations.push((index, mutation)),
            Action::Get(_) | Action::Call(_) if read_bytes > limits::SCAN_RESULT_MAX => {
                answers[index] = Some(Err(Error::new(
                    Code::MultiActionResultTooLarge,
                    format!("Max size exceeded: {read_bytes} bytes"),
                )));
            }
            Action::Get(get) => {
                // Cached rows never make it wait: others on this core must get their turn all the same (C11).
                tokio::task::coop::consume_budget().await;
                let answer = read::get(env, hosted, &get).await.map(|found| {
                    read_bytes += found.cells.iter().map(Cell::key_value_len).sum::<usize>();
                    Answer::Read(Box::new(Read {
                        cells: found.cells,
                        existence_only: get.existence_only,
                        metrics: read::query_metrics(get.query_metrics, found.bytes_read),
                    }))
                });
                answers[index] = Some(answer);
            }
            Action::Call(call) => {
                let answer = endpoint::call(env, hosted, &call, terms).await;
                read_bytes += answer.as_ref().map_or(0, |value| value.value().len());
                answers[index] = Some(answer.map(Answer::Called));
            }
        }
    }
    let (indexes, mutations): (Vec<usize>, Vec<Mutation>) = mutations.into_iter().unzip();
    for (index, outcome) in indexes
        .into_iter()
        .zip(apply::batch(env, hosted, mutations, terms).await)
    {
        answers[index] = Some(outcome.map(|outcome| match outcome.result {
            Some(cells) => Answer::Cells(cells),
            None => Answer::Nothing,
        }));
    }
    answers
        .into_iter()
        .map(|answer| answer.expect("every action was refused, read or written above"))
        .collect()
}

fn region_result(
    region: &pb::RegionAction,
    answer: Result<RegionAnswer>,
    sink: &mut CellSink<'_>,
) -> pb::RegionActionResult {
    match answer {
        Err(error) => pb::RegionActionResult {
            exception: Some(exception::to_pair(&error)),
            ..Default::default()
        },
        // Indexes by position, the cells inline with entry 0 (rule 7 and "Atomic").
        Ok(RegionAnswer::Atomic {
            processed,
            actions,
            result,
            metrics,
        }) => {
            let mut entries: Vec<pb::ResultOrException> = (0..actions as u32)
                .map(|index| pb::ResultOrException {
                    index: Some(index),
                    result: (index > 0 || result.is_none()).then(pb::Result::default),
                    ..Default::default()
                })
                .collect();
            if let Some(first) = entries.first_mut() {
                first.metrics = metrics;
                if let Some(cells) = &result {
                    first.result = Some(convert::result_pb(cells));
                }
            }
            pb::RegionActionResult {
                result_or_exception: entries,
                processed: Some(processed),
                ..Default::default()
            }
        }
        // `processed` stays unset (rule 5); the index is the client's, else the position (rule 4).
        Ok(RegionAnswer::Plain(answers)) => pb::RegionActionResult {
            result_or_exception: region
                .action
                .iter()
                .zip(answers)
                .enumerate()
                .map(|(position, (action, answer))| {
                    let index = Some(action.index.unwrap_or(position as u32));
                    action_result(index, answer, sink)
                })
                .collect(),
            ..Default::default()
        },
    }
}

fn action_result(
    index: Option<u32>,
    answer: Result<Answer>,
    sink: &mut CellSink<'_>,
) -> pb::ResultOrException {
    let mut entry = pb::ResultOrException {
        index,
        ..Default::default()
    };
    match answer {
        Err(error) => entry.exception = Some(exception::to_pair(&error)),
        Ok(Answer::Nothing) => entry.result = Some(pb::Result::default()),
        Ok(Answer::Cells(cells)) => entry.result = Some(sink.result(&cells)),
        Ok(Answer::Called(value)) => {
            entry.service_result = Some(pb::CoprocessorServiceResult { value: Some(value) });
        }
        Ok(Answer::Read(read)) => {
            let mut result = match read.existence_only {
                true => pb::Result {
                    exists: Some(!read.cells.is_empty()),
                    ..Default::default()
                },
                false => sink.result(&read.cells),
            };
            result.metrics = read.metrics;
            entry.result = Some(result);
        }
    }
    entry
}

#[cfg(test)]
mod tests;
