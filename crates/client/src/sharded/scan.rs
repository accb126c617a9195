//! Scans: the few tables that can hold matches, in row order or in the rule's order.
//!
//! One table after the other where that is the right order: the next is opened when the one before has no more rows, so that a
//! limit opens no more tables than it needs. Else all of them are open, and the lowest row comes next.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_sharding::versions::{Both, View};
use cadastre_sharding::{Place, PlaceId};
use cadastre_types::{Error, Result, Scan};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use std::sync::Arc;

use super::routing::{self, Asked, Plan};
use super::{Decision, Effect, InUse, ShardedTable};
use crate::row::Row;
use crate::scan::Scanner;

/// Tables that are merged at most: two answers of each are held.
pub(super) const MERGED_MAX: usize = 1_024;

/// Tables that are asked at one time.
const ASKED_AT_ONCE: usize = 16;

/// Bytes of all answers of a merged scan that are asked for together (each table's share is not below [`ANSWER_BYTES_MIN`]).
const ANSWERS_BYTES: u64 = 64 << 20;

/// Bytes of an answer at least.
const ANSWER_BYTES_MIN: u64 = 64 << 10;

/// Below this a limit says how many rows a first answer should bring.
const LIMIT_TOLD_MAX: u64 = 10_000;

/// In which order rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By their keys.
    #[default]
    Row,
    /// By the rule's slots, and in each by their keys: one table after the other.
    Rule,
}

/// What a scan of a sharded table asks for.
#[derive(Debug, Clone)]
pub struct ScanOf {
    /// Rows, columns, filter, direction. Offsets and limits of it count in each table.
    pub scan: Scan,
    /// A condition on the rule's fields, in the words of the rule language: only rows that meet it come.
    pub condition: Option<String>,
    /// Rows at most.
    pub limit: Option<u64>,
    /// Their order.
    pub order: Order,
}

impl ScanOf {
    /// All that a scan of one table would ask for.
    pub fn of(scan: Scan) -> Self {
        Self {
            scan,
            condition: None,
            limit: None,
            order: Order::Row,
        }
    }
}

/// A scan that goes on. Rows come with [`ShardedScanner::next`] or as a stream.
pub struct ShardedScanner<E: Env> {
    table: ShardedTable<E>,
    asked: Asked,
    plan: Arc<Plan>,
    /// The revision under which the plan is known to be right.
    revision: u64,
    scan: Scan,
    left: Option<u64>,
    feed: Feed<E>,
}

enum Feed<E: Env> {
    Serial {
        waiting: VecDeque<PlaceId>,
        open: Option<(PlaceId, Scanner<E>)>,
        /// Tables that were opened so far.
        opened: usize,
    },
    Merged(Merge<E>),
}

/// Tables that are open together.
struct Merge<E: Env> {
    sources: Vec<MergeSource<E>>,
    /// The next row of each, by key.
    heads: BTreeSet<(Bytes, usize)>,
    /// Of these the next row is not known yet.
    unknown: Vec<usize>,
    reversed: bool,
}

struct MergeSource<E: Env> {
    place: PlaceId,
    scanner: Scanner<E>,
    head: Option<Row>,
    ended: bool,
}

impl<E: Env> ShardedTable<E> {
    /// Scans the table. Which tables that visits is known when this returns; nothing is asked of them yet.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`](cadastre_types::Code::DoNotRetryIo) for a condition that cannot be, or, by the table's policy, one
    /// that bounds no tables; [`Code::RegionTooBusy`](cadastre_types::Code::RegionTooBusy) if rows that it asks for move, and
    /// were held.
    pub async fn scan(&self, of: ScanOf) -> Result<ShardedScanner<E>> {
        let (from, to) = Asked::rows(&of.scan);
        let wall_ms = self.shared.env.clock().wall();
        let asked = Asked {
            condition: of.condition,
            now_us: i64::try_from(wall_ms)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000),
            from,
            to,
            reversed: of.scan.reversed,
            order: of.order,
            unbounded: self.shared.options.unbounded,
        };
        let until = self.held_until();
        let decided = self.settled(until, |view| match asked.held(view)? {
            Some(why) => Ok(Decision::Hold(why)),
            None => asked.plan(view).map(Decision::Go),
        });
        let (used, plan) = decided.await?;
        if let Some(cause) = &plan.warning {
            tracing::warn!(%cause, tables = plan.places.len(), "nothing bounds the tables of a scan");
        }
        let scan = narrowed(&of.scan, &plan, of.limit);
        let feed = self.feed(&plan, &scan)?;
        Ok(ShardedScanner {
            table: self.clone(),
            asked,
            plan: Arc::new(plan),
            revision: used.visible.revision,
            scan,
            left: of.limit,
            feed,
        })
    }

    fn feed(&self, plan: &Plan, scan: &Scan) -> Result<Feed<E>> {
        if plan.serial {
            return Ok(Feed::Serial {
                waiting: plan.places.iter().copied().collect(),
                open: None,
                opened: 0,
            });
        }
        let tables = plan.places.len();
        if tables > MERGED_MAX {
            return Err(Error::invalid(format!(
                "{tables} tables would have to be open together for rows in order, at most {MERGED_MAX} can: bound the rule's fields by a \
                 condition, or take rows in the rule's order"
            )));
        }
        let mut scan = scan.clone();
        let share = ANSWERS_BYTES / tables.max(1) as u64;
        scan.max_result_size = match scan.max_result_size {
            0 => share.clamp(ANSWER_BYTES_MIN, crate::SCAN_RESULT_BYTES_DEFAULT),
            asked => asked,
        };
        let sources: Result<Vec<_>> = plan
            .places
            .iter()
            .map(|place| {
                let (client, table) = self.at(plan.place(*place))?;
                Ok(MergeSource {
                    place: *place,
                    scanner: client.scan(&table, scan.clone())?,
                    head: None,
                    ended: false,
                })
            })
            .collect();
        let sources = sources?;
        Ok(Feed::Merged(Merge {
            unknown: (0..sources.len()).collect(),
            sources,
            heads: BTreeSet::new(),
            reversed: scan.reversed,
        }))
    }
}

/// The scan of each table: the range that can hold matches, and about as many rows as are wanted.
fn narrowed(scan: &Scan, plan: &Plan, limit: Option<u64>) -> Scan {
    let (from, to) = (Bytes::from(plan.from.clone()), Bytes::from(plan.to.clone()));
    let mut scan = scan.clone();
    if let (0, Some(limit)) = (scan.caching, limit.filter(|it| *it <= LIMIT_TOLD_MAX)) {
        scan.caching = u32::try_from(limit.max(1)).unwrap_or(0);
    }
    match scan.reversed {
        false => Scan {
            start_row: from,
            include_start_row: true,
            stop_row: to,
            include_stop_row: false,
            ..scan
        },
        true => Scan {
            include_start_row: to.is_empty(),
            start_row: to,
            stop_row: from,
            include_stop_row: true,
            ..scan
        },
    }
}

/// The share of so many tables that is done, if of the last that was opened `in_table` is.
fn share(opened: usize, tables: usize, in_table: f64) -> f64 {
    match opened {
        0 => 0.0,
        _ => ((opened - 1) as f64 + in_table) / tables.max(opened) as f64,
    }
}

impl<E: Env> ShardedScanner<E> {
    /// The tables that it visits, in the order in which they are visited.
    pub fn places(&self) -> impl ExactSizeIterator<Item = &Place> {
        self.plan.places.iter().map(|it| self.plan.place(*it))
    }

    /// How many of them it has opened so far.
    pub fn opened(&self) -> usize {
        match &self.feed {
            Feed::Serial { opened, .. } => *opened,
            Feed::Merged(merge) => merge.sources.len(),
        }
    }

    /// How far it has come, 0 to 1: tables that are read one after the other count the same, and of the one that is read now `in_table` is
    /// done. Of tables that are read together `in_table` is that of all.
    pub fn share(&self, in_table: f64) -> f64 {
        match &self.feed {
            Feed::Serial { opened, .. } => share(*opened, self.plan.places.len(), in_table),
            Feed::Merged(_) => in_table,
        }
    }

    /// The term because of which nothing bounds the tables, if the policy is to warn of that.
    pub fn warning(&self) -> Option<&str> {
        self.plan.warning.as_deref()
    }

    /// The next row; `None` when there are no more. Given up half way, it loses no row.
    ///
    /// # Errors
    /// Those of [`Scanner::next`]; if the rule has changed so that rows of this scan move or have moved: a new scan is needed then.
    pub async fn next(&mut self) -> Result<Option<Row>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let used = self.used().await?;
        loop {
            let next = self.feed.next(&self.table, &self.plan, &self.scan);
            let found = self.table.during(&used, Effect::Read, next).await?;
            let Some((row, place)) = found else {
                return Ok(None);
            };
            let Some(key) = row.key() else {
                continue;
            };
            if !self.plan.takes(key, place)? {
                continue;
            }
            if let (Some(left), false) = (&mut self.left, row.partial) {
                *left -= 1;
            }
            return Ok(Some(row));
        }
    }

    /// A version under which the scan may go on: the one that it began with, or one by which none of its rows moves.
    async fn used(&mut self) -> Result<InUse> {
        let until = self.table.held_until();
        let (asked, plan, revision) = (&self.asked, &self.plan, self.revision);
        let decided = self.table.settled_by(until, |visible| {
            let view = &visible.view;
            if visible.revision == revision {
                return Ok(Decision::Go(()));
            }
            if let Some(why) = asked.held(view)? {
                return Ok(Decision::Hold(why));
            }
            let now = routing::in_force(view);
            if now.hash() == plan.program.hash() {
                return Ok(Decision::Go(()));
            }
            let both = Both::new(Arc::clone(&plan.program), Arc::clone(now));
            let unmoved = match both {
                Ok(both) => asked.held(&View::Two(both))?.is_none(),
                Err(_) => false,
            };
            match unmoved {
                true => Ok(Decision::Go(())),
                false => Err(Error::invalid(format!(
                    "the rule {} went from version {} to {} during a scan, and rows of the scan moved: begin it again",
                    now.rule().name,
                    plan.program.rule().version,
                    now.rule().version
                ))),
            }
        });
        let (used, ()) = decided.await?;
        self.revision = used.visible.revision;
        Ok(used)
    }

    /// The rows as a stream. It ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Row>> + Send {
        futures::stream::try_unfold(self, |mut scanner| async move {
            let row = scanner.next().await?;
            Ok(row.map(|row| (row, scanner)))
        })
    }

    /// Ends the scan early and tells the servers, which otherwise keep scanners for their leases. Failing is no loss.
    pub async fn close(self) {
        let open: Vec<Scanner<E>> = match self.feed {
            Feed::Serial { open, .. } => open.into_iter().map(|it| it.1).collect(),
            Feed::Merged(merge) => merge.sources.into_iter().map(|it| it.scanner).collect(),
        };
        let closing = open.into_iter().map(Scanner::close);
        let closing = futures::stream::iter(closing).buffer_unordered(ASKED_AT_ONCE);
        closing.collect::<Vec<()>>().await;
    }
}

impl<E: Env> Feed<E> {
    /// The next row, and the place that it is from.
    async fn next(
        &mut self,
        table: &ShardedTable<E>,
        plan: &Plan,
        scan: &Scan,
    ) -> Result<Option<(Row, PlaceId)>> {
        match self {
            Self::Merged(merge) => merge.next(plan).await,
            Self::Serial {
                waiting,
                open,
                opened,
            } => loop {
                if let Some((place, scanner)) = open {
                    let next = scanner.next().await;
                    match next.map_err(|error| told(error, plan.place(*place)))? {
                        Some(row) => return Ok(Some((row, *place))),
                        None => *open = None,
                    }
                }
                let Some(place) = waiting.pop_front() else {
                    return Ok(None);
                };
                let (client, name) = table.at(plan.place(place))?;
                *open = Some((place, client.scan(&name, scan.clone())?));
                *opened += 1;
            },
        }
    }
}

impl<E: Env> Merge<E> {
    async fn next(&mut self, plan: &Plan) -> Result<Option<(Row, PlaceId)>> {
        match self.unknown[..] {
            [] => {}
            [at] => self.sources[at].ask(plan).await?,
            _ => {
                let mut asked: Vec<BoxFuture<'_, Result<()>>> = Vec::new();
                for (at, source) in self.sources.iter_mut().enumerate() {
                    if self.unknown.contains(&at) {
                        asked.push(source.ask(plan).boxed());
                    }
                }
                let mut asked = futures::stream::iter(asked).buffer_unordered(ASKED_AT_ONCE);
                while let Some(answer) = asked.next().await {
                    answer?;
                }
            }
        }
        for at in std::mem::take(&mut self.unknown) {
            if let Some(key) = self.sources[at].head.as_ref().and_then(Row::key) {
                self.heads.insert((key.clone(), at));
            }
        }
        let next = match self.reversed {
            false => self.heads.pop_first(),
            true => self.heads.pop_last(),
        };
        let Some((_, at)) = next else {
            return Ok(None);
        };
        self.unknown.push(at);
        let source = &mut self.sources[at];
        let row = source.head.take();
        Ok(row.map(|row| (row, source.place)))
    }
}

impl<E: Env> MergeSource<E> {
    async fn ask(&mut self, plan: &Plan) -> Result<()> {
        // An empty row has no key to be put in order by.
        while self.head.as_ref().is_none_or(Row::is_empty) && !self.ended {
            let next = self.scanner.next().await;
            self.head = next.map_err(|error| told(error, plan.place(self.place)))?;
            self.ended = self.head.is_none();
        }
        Ok(())
    }
}

fn told(error: Error, place: &Place) -> Error {
    error.context(format_args!("scanning {place}"))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn tables_that_are_done_tell_the_share() {
        assert_eq!(share(0, 4, 0.0), 0.0);
        assert_eq!(share(1, 4, 0.0), 0.0);
        assert_eq!(share(1, 4, 0.5), 0.125);
        assert_eq!(share(3, 4, 0.0), 0.5);
        assert_eq!(share(4, 4, 1.0), 1.0);
    }
}
