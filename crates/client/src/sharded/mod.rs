//! [`ShardedTable`]: a logical table whose rows lie in ordinary tables, on one cluster or several, by a rule (R24 to R31, R44, R48 to R51;
//! rfcs/2026-11-30-sharded-table.md).
//!
//! - `routing`: where a row is and which tables a scan visits, from what is visible of the rule. Pure.
//! - `rows`, `batch`, `scan`, `tables`: what callers use.
//! - `census`: what a new version would move of the rows that there are.
//! - `rules`: where a rule's versions are kept, and how a new one is published. `watch`: a client that follows them.
//!
//! Nothing here retries: the physical tables' own operations do. What moves between two visible versions is held here, before anything is sent.

mod batch;
mod census;
mod routing;
mod rows;
mod rules;
mod scan;
mod tables;
mod watch;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_sharding::versions::View;
use cadastre_sharding::{Place, Program, Unbounded};
use cadastre_types::{Code, Error, Result, TableName};

pub use census::{Census, Step, census};
pub use rules::{LiveClient, RULES_TABLE, RuleCenter, ZNODES};
pub use scan::{Order, ScanOf, ShardedScanner};
pub use tables::Made;
pub use watch::RuleWatch;

use routing::Where;
use watch::{Seen, Visible};

use crate::planted::Planted;
use crate::{Client, notation};

/// How long a row that moves, or a client without a live session, is held before it is refused, ms.
pub const HOLD_MS_DEFAULT: u64 = 10_000;

/// How a sharded table behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardedOptions {
    /// What a scan does when nothing bounds the tables that it visits.
    pub unbounded: Unbounded,
    /// How long what moves is held before it is refused, ms.
    pub hold_ms: u64,
}

impl Default for ShardedOptions {
    fn default() -> Self {
        Self {
            unbounded: Unbounded::default(),
            hold_ms: HOLD_MS_DEFAULT,
        }
    }
}

/// A logical table. Clones are the same one.
pub struct ShardedTable<E: Env> {
    shared: Arc<Shared<E>>,
}

impl<E: Env> Clone for ShardedTable<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

struct Shared<E: Env> {
    /// By the names that the rule's places have; the empty name is the cluster of places without one.
    clusters: BTreeMap<String, Client<E>>,
    rule: Source<E>,
    options: ShardedOptions,
    env: E,
}

/// Where the rule comes from.
enum Source<E: Env> {
    /// One version, for ever: nobody publishes it.
    Fixed(tokio::sync::watch::Receiver<Seen>),
    /// What is published.
    Watched(RuleWatch<E>),
}

impl<E: Env> ShardedTable<E> {
    /// A table by a rule that is not published: this version, for ever.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`] if the rule cannot place rows by their keys, or names a cluster that is not given.
    pub fn fixed(
        program: Arc<Program>,
        clusters: BTreeMap<String, Client<E>>,
        options: ShardedOptions,
    ) -> Result<Self> {
        let visible = Visible::fixed(View::One(program));
        // A sender that is gone: the value stays.
        let (_, seen) = tokio::sync::watch::channel(Seen {
            visible: Some(Arc::new(visible)),
            problem: None,
        });
        Self::open(clusters, Source::Fixed(seen), options)
    }

    /// A table by a rule that is published; its versions are followed.
    ///
    /// # Errors
    /// As [`Self::fixed`]; what keeps the rule from being seen.
    pub async fn watched(
        rule: RuleWatch<E>,
        clusters: BTreeMap<String, Client<E>>,
        options: ShardedOptions,
    ) -> Result<Self> {
        let time = Duration::from_millis(options.hold_ms);
        rule.ready(time).await?;
        Self::open(clusters, Source::Watched(rule), options)
    }

    fn open(
        clusters: BTreeMap<String, Client<E>>,
        rule: Source<E>,
        options: ShardedOptions,
    ) -> Result<Self> {
        let client = clusters.values().next();
        let client = client.ok_or_else(|| Error::invalid("a sharded table needs a cluster"))?;
        let env = client.env().clone();
        let table = Self {
            shared: Arc::new(Shared {
                clusters,
                rule,
                options,
                env,
            }),
        };
        if let Some(visible) = table.seen().borrow().visible.clone() {
            table.check(&visible.view)?;
        }
        Ok(table)
    }

    /// Refuses a rule that cannot be used here. Also asked of each version that comes later, where it is first used.
    fn check(&self, view: &View) -> Result<()> {
        routing::check(view)?;
        for place in routing::places(view) {
            self.cluster(&place.cluster)?;
            table_name(place)?;
        }
        Ok(())
    }

    fn seen(&self) -> tokio::sync::watch::Receiver<Seen> {
        match &self.shared.rule {
            Source::Fixed(seen) => seen.clone(),
            Source::Watched(rule) => rule.seen(),
        }
    }

    /// The version, or both, that are visible now; none while nobody knows.
    pub fn view(&self) -> Option<View> {
        let seen = self.seen();
        let seen = seen.borrow();
        seen.visible.as_ref().map(|it| it.view.clone())
    }

    /// Ends following the rule, and tells the coordination service so. The clusters' clients are the caller's to close. Only the last clone does it.
    pub async fn close(self) {
        let Some(shared) = Arc::into_inner(self.shared) else {
            return;
        };
        if let Source::Watched(rule) = shared.rule {
            rule.close().await;
        }
    }

    /// The table's options.
    pub fn options(&self) -> ShardedOptions {
        self.shared.options
    }

    fn cluster(&self, name: &str) -> Result<&Client<E>> {
        self.shared.clusters.get(name).ok_or_else(|| {
            let named = match name {
                "" => "the rule has places without a cluster".to_owned(),
                name => format!("the rule places rows on the cluster {name}"),
            };
            let known: Vec<&str> = self.shared.clusters.keys().map(String::as_str).collect();
            Error::invalid(format!("{named}; known are: {}", known.join(", ")))
        })
    }

    /// Where a row is now. Nothing is asked of any server.
    ///
    /// # Errors
    /// If the rule has no place for the row, or it moves.
    pub async fn locate(&self, row: &Bytes) -> Result<Place> {
        let held = self.held_until();
        match self.route(row, held).await? {
            (_, Where::At(place)) => Ok(place),
            (_, Where::Everywhere) => Err(everywhere(row)),
            (_, Where::Moves { .. }) => Err(Error::new(Code::Internal, "a row that moves went on")),
        }
    }

    /// When what is held is refused, on the monotone clock.
    fn held_until(&self) -> Duration {
        let hold = Duration::from_millis(self.shared.options.hold_ms);
        self.shared.env.clock().mono() + hold
    }

    /// Where a row is, and what keeps the version in use that says so. Waits while it moves, or nothing is visible.
    async fn route(&self, row: &Bytes, until: Duration) -> Result<(InUse, Where)> {
        self.settled(until, |view| match routing::route(view, row)? {
            Where::Moves {
                from: Some(from), ..
            } if self.has(Planted::HoldNothing) => Ok(Decision::Go(Where::At(from))),
            Where::Moves { from, to } => Ok(Decision::Hold(moves(row, view, from, to))),
            place => Ok(Decision::Go(place)),
        })
        .await
    }

    /// Decides by what is visible, again at each change, until something can go on or the time is over.
    async fn settled<T>(
        &self,
        until: Duration,
        decide: impl Fn(&View) -> Result<Decision<T>>,
    ) -> Result<(InUse, T)> {
        self.settled_by(until, |visible| decide(&visible.view))
            .await
    }

    async fn settled_by<T>(
        &self,
        until: Duration,
        decide: impl Fn(&Visible) -> Result<Decision<T>>,
    ) -> Result<(InUse, T)> {
        let clock = self.shared.env.clock();
        let mut seen = self.seen();
        loop {
            let now = seen.borrow_and_update().clone();
            let why = match InUse::of(&now, &seen) {
                Some(used) if self.is_alive(&used) => match decide(&used.visible)? {
                    Decision::Go(it) => return Ok((used, it)),
                    Decision::Hold(why) => why,
                },
                // Another version came in between.
                None if now.visible.is_some() => continue,
                _ => now.unknown(),
            };
            let left = until.saturating_sub(clock.mono());
            if left.is_zero() {
                let hold_ms = self.shared.options.hold_ms;
                return Err(Error::new(
                    Code::RegionTooBusy,
                    format!("{why}; held for {hold_ms} ms, nothing was sent"),
                ));
            }
            // A session that lives again is no change of what is visible.
            let step = left.min(ALIVE_EVERY);
            if let Ok(Err(_)) = clock.timeout(step, seen.changed()).await {
                return Err(Error::new(
                    Code::NotSent,
                    format!("{why}, and the rule is not followed any more"),
                ));
            }
        }
    }

    /// Whether the client's session certainly lives.
    fn is_alive(&self, used: &InUse) -> bool {
        let now = self.shared.env.clock().mono();
        let session = used.visible.session.as_ref();
        session.is_none_or(|session| now < session.lease_until())
            || self.has(Planted::ServeWithoutLease)
    }

    /// Whether this fault is planted.
    fn has(&self, fault: Planted) -> bool {
        self.shared.clusters.values().any(|it| it.has(fault))
    }

    /// Client and table of a place.
    fn at(&self, place: &Place) -> Result<(&Client<E>, TableName)> {
        Ok((self.cluster(&place.cluster)?, table_name(place)?))
    }

    /// Waits for an operation under a version, not longer than the client certainly is one that counts.
    async fn during<T>(
        &self,
        used: &InUse,
        effect: Effect,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(session) = &used.visible.session else {
            return operation.await;
        };
        if self.has(Planted::ServeWithoutLease) {
            return operation.await;
        }
        let clock = self.shared.env.clock();
        let mut operation = std::pin::pin!(operation);
        loop {
            let left = session.lease_until().saturating_sub(clock.mono());
            if left.is_zero() {
                return Err(lost(effect));
            }
            // Looked at before every step: what stood still (a stopped process) must not send now what it was about to send then.
            let steps = poll_fn(|context| match clock.mono() < session.lease_until() {
                true => operation.as_mut().poll(context).map(Some),
                false => Poll::Ready(None),
            });
            tokio::select! {
                biased;
                outcome = steps => match outcome {
                    Some(outcome) => return outcome,
                    None => return Err(lost(effect)),
                },
                () = clock.sleep(left) => {}
            }
        }
    }
}

/// How often a client that waits looks whether its session lives again.
const ALIVE_EVERY: Duration = Duration::from_millis(100);

/// What an operation does to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
}

/// Whether something can go on under what is visible.
enum Decision<T> {
    Go(T),
    /// Why not.
    Hold(String),
}

/// A version in use: as long as this lives, the client does not say that it has seen the next one.
struct InUse {
    visible: Arc<Visible>,
    _counted: tokio::sync::watch::Receiver<()>,
}

impl InUse {
    /// None if nothing is visible, or something else by now.
    fn of(now: &Seen, seen: &tokio::sync::watch::Receiver<Seen>) -> Option<Self> {
        let visible = Arc::clone(now.visible.as_ref()?);
        let counted = visible.in_use.subscribe();
        // Counted first, looked second: whoever waits for those who use an old version has replaced it before.
        let is_newest = seen
            .borrow()
            .visible
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(it, &visible));
        is_newest.then_some(Self {
            visible,
            _counted: counted,
        })
    }
}

fn table_name(place: &Place) -> Result<TableName> {
    TableName::parse(&place.table)
        .map_err(|error| error.context(format_args!("the rule's table {}", place.table)))
}

fn moves(row: &[u8], view: &View, from: Option<Place>, to: Option<Place>) -> String {
    let text =
        |place: Option<Place>| place.map_or_else(|| "nowhere".to_owned(), |it| it.to_string());
    format!(
        "row '{}' moves from {} to {} with {}, which is not in force yet",
        notation::to_text(row),
        text(from),
        text(to),
        routing::title(view)
    )
}

fn everywhere(row: &[u8]) -> Error {
    Error::invalid(format!(
        "the rule says for row '{}' that it may be anywhere: it can be read, not written",
        notation::to_text(row)
    ))
}

/// The client may have been left out of a change of the rule.
fn lost(effect: Effect) -> Error {
    let text = "the session with the coordination service may be over, and with it the rule's version that this operation goes by";
    match effect {
        Effect::Read => Error::new(Code::Io, text),
        Effect::Write => Error::new(
            Code::OutcomeUnknown,
            format!("{text}: it may have been executed"),
        ),
    }
}
