//! Many actions on many rows, grouped by the places of their rows.

use std::collections::BTreeMap;

use cadastre_env::Env;
use cadastre_sharding::Place;
use cadastre_sharding::versions::View;
use cadastre_types::{Code, Error, Result};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::routing::{self, Where};
use super::{Decision, Effect, InUse, ShardedTable, everywhere, moves};
use crate::requests::{Action, check_row};
use crate::row::Row;

/// Tables that a batch works on at one time; each has up to 16 requests on their way.
const TABLES_MAX: usize = 16;

impl<E: Env> ShardedTable<E> {
    /// Does many actions and answers each, in the given order. Actions are independent: there is no order between rows and no
    /// atomicity beyond a row's. Those whose rows move are held together, once the others are done.
    ///
    /// # Errors
    /// None for the whole: each action has its own.
    pub async fn batch(&self, actions: Vec<Action>) -> Vec<Result<Row>> {
        let mut answers: Vec<Option<Result<Row>>> = vec![None; actions.len()];
        // Actions that move wait from here on, all of them together.
        let until = self.held_until();
        let mut open: Vec<usize> = (0..actions.len()).collect();
        while !open.is_empty() {
            let decided = self
                .settled(until, |view| Ok(sort_out(view, &actions, &open)))
                .await;
            let (used, sorted) = match decided {
                Ok(decided) => decided,
                Err(error) => {
                    for at in open.drain(..) {
                        answers[at] = Some(Err(error.clone()));
                    }
                    break;
                }
            };
            for (at, error) in sorted.refused {
                answers[at] = Some(Err(error));
            }
            open = sorted.held;
            let mut running: Vec<BoxFuture<'_, Answered>> = Vec::new();
            for (place, indexes) in sorted.groups {
                let part = indexes.iter().map(|at| actions[*at].clone()).collect();
                running.push(self.part(&used, place, indexes, part).boxed());
            }
            let mut running = futures::stream::iter(running).buffer_unordered(TABLES_MAX);
            while let Some((indexes, outcome)) = running.next().await {
                match outcome {
                    Ok(rows) => {
                        for (at, row) in indexes.into_iter().zip(rows) {
                            answers[at] = Some(row);
                        }
                    }
                    Err(error) => {
                        for at in indexes {
                            answers[at] = Some(Err(error.clone()));
                        }
                    }
                }
            }
        }
        let missing = || Err(Error::new(Code::Internal, "an action without an answer"));
        answers
            .into_iter()
            .map(|it| it.unwrap_or_else(missing))
            .collect()
    }

    async fn part(
        &self,
        used: &InUse,
        place: Place,
        indexes: Vec<usize>,
        part: Vec<Action>,
    ) -> Answered {
        let (client, table) = match self.at(&place) {
            Ok(at) => at,
            Err(error) => return (indexes, Err(error)),
        };
        let batch = async { Ok(client.batch(&table, part).await) };
        let outcome = self.during(used, Effect::Write, batch).await;
        (indexes, outcome)
    }
}

/// Actions by their place in the batch, and what one table answered to them.
type Answered = (Vec<usize>, Result<Vec<Result<Row>>>);

/// What becomes of the open actions under one version.
#[derive(Default)]
struct Sorted {
    groups: BTreeMap<Place, Vec<usize>>,
    refused: Vec<(usize, Error)>,
    /// Their rows move.
    held: Vec<usize>,
}

/// Goes on if any action can, or can never.
fn sort_out(view: &View, actions: &[Action], open: &[usize]) -> Decision<Sorted> {
    let mut sorted = Sorted::default();
    let mut why = String::new();
    for at in open {
        let row = actions[*at].row();
        match check_row(row).and_then(|()| routing::route(view, row)) {
            Ok(Where::At(place)) => sorted.groups.entry(place).or_default().push(*at),
            Ok(Where::Moves { from, to }) => {
                if why.is_empty() {
                    why = moves(row, view, from, to);
                }
                sorted.held.push(*at);
            }
            Ok(Where::Everywhere) => sorted.refused.push((*at, everywhere(row))),
            Err(error) => sorted.refused.push((*at, error)),
        }
    }
    match sorted.groups.is_empty() && sorted.refused.is_empty() {
        true => Decision::Hold(why),
        false => Decision::Go(sorted),
    }
}
