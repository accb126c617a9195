//! What to do after a failed try. Pure: counters and chance are handed in, nothing is slept here.
//!
//! [`TABLE`] is hadoop-ha-rpc.md B.3 as data, with rows for HBase's masters; [`Policy::decide`] reads its answer there, first match wins.
//! Where we differ from Hadoop stands in the row (and in rfcs/2026-11-30-ha-proxy.md).

use std::fmt;
use std::time::Duration;

use super::failure::Failure;
use super::method::Mark;

/// What kind of failure a try ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The peers could not agree on who is who.
    Sasl,
    /// Nobody listens there.
    Refused,
    /// The name has no address.
    UnknownHost,
    /// No way to that machine or network.
    NoRoute,
    /// No connection in time.
    ConnectTimeout,
    /// Anything else before the request's first byte was written.
    NotSent,
    /// The peer closed while an answer was due.
    Eof,
    /// The server is not active.
    Standby,
    /// An observer that wants the active one asked.
    ObserverRetryOnActive,
    /// The server says: again, here.
    Retriable,
    /// The token is not valid; found on our side.
    InvalidToken,
    /// Not allowed to connect; found on our side.
    AccessControl,
    /// The connection broke after the request was sent.
    Socket,
    /// No answer in time.
    CallTimeout,
    /// Another fault of reading or writing: a bad length, an answer that cannot be read.
    OtherIo,
    /// The namespace takes no writes for now.
    SafeMode,
    /// Any other exception of the server.
    Remote,
    /// Not a fault of input or output: a request that cannot be written, a bug.
    Other,
    /// HBase: there is no master, or not here.
    MasterNotRunning,
    /// HBase: a standby master, or one that has not started.
    ServerNotRunningYet,
    /// HBase: the master stops.
    MasterStopped,
    /// HBase: the master was deposed while it worked on this.
    Fenced,
    /// HBase: the master is starting.
    PleaseHold,
    /// HBase: too many calls wait there.
    Overloaded,
}

/// What to do. Ordered: of several failures' decisions the greatest counts (B.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Tell the caller.
    Fail,
    /// The same server again.
    Retry,
    /// Another server, and again.
    FailOver,
}

/// Which count makes the delay grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayBy {
    /// No delay.
    Nothing,
    /// Failovers of this call: the first is without a delay.
    Failovers,
    /// All earlier tries of this call.
    Retries,
}

/// When a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The caller stopped waiting: its future was dropped, and nothing is decided any more.
    Cancelled,
    /// As many failovers as allowed.
    FailoversUsedUp,
    /// More tries at the same server than allowed.
    RetriesUsedUp,
    /// A failure of this class.
    Is(Class),
}

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number in B.3; `H` rows are HBase's.
    pub id: &'static str,
    /// When it counts.
    pub when: When,
    /// For an idempotent method.
    pub idempotent: Decision,
    /// For an at-most-once method.
    pub at_most_once: Decision,
    /// For a method with neither mark.
    pub neither: Decision,
    /// What the delay grows by.
    pub delay: DelayBy,
}

impl Row {
    /// The decision for a method with this mark.
    pub fn decision(&self, mark: Mark) -> Decision {
        match mark {
            Mark::Idempotent => self.idempotent,
            Mark::AtMostOnce => self.at_most_once,
            Mark::Neither => self.neither,
        }
    }
}

const fn row(id: &'static str, when: When, all: Decision, delay: DelayBy) -> Row {
    Row {
        id,
        when,
        idempotent: all,
        at_most_once: all,
        neither: all,
        delay,
    }
}

/// Fails over only what may be done twice.
const fn doubtful(id: &'static str, class: Class) -> Row {
    Row {
        id,
        when: When::Is(class),
        idempotent: Decision::FailOver,
        at_most_once: Decision::FailOver,
        neither: Decision::Fail,
        delay: DelayBy::Retries,
    }
}

use Class as C;
use Decision::{Fail, FailOver, Retry};
use DelayBy::{Failovers, Nothing, Retries};
use When::Is;

/// FailoverOnNetworkException (P7 to P12). First match wins.
pub const TABLE: &[Row] = &[
    row("0", When::Cancelled, Fail, Nothing),
    row("1", When::FailoversUsedUp, Fail, Nothing),
    row("2", When::RetriesUsedUp, Fail, Nothing),
    row("3", Is(C::Sasl), Fail, Nothing),
    row("4a", Is(C::Refused), FailOver, Failovers),
    row("4b", Is(C::UnknownHost), FailOver, Failovers),
    row("4c", Is(C::NoRoute), FailOver, Failovers),
    row("4d", Is(C::ConnectTimeout), FailOver, Failovers),
    // Hadoop has no such row: it guesses from the exception. That nothing was sent is known here.
    row("4d'", Is(C::NotSent), FailOver, Failovers),
    // Hadoop fails over a method with neither mark, too, and may do it twice (B.3, note on 4e).
    Row {
        id: "4e",
        when: Is(C::Eof),
        idempotent: FailOver,
        at_most_once: FailOver,
        neither: Fail,
        delay: Failovers,
    },
    row("4f, 4g", Is(C::Standby), FailOver, Failovers),
    row("4g'", Is(C::ObserverRetryOnActive), FailOver, Failovers),
    row("5", Is(C::Retriable), Retry, Retries),
    row("6", Is(C::InvalidToken), Fail, Nothing),
    row("7", Is(C::AccessControl), Fail, Nothing),
    doubtful("8a", C::Socket),
    doubtful("8b", C::CallTimeout),
    doubtful("8c", C::OtherIo),
    row("9a", Is(C::Remote), Fail, Nothing),
    row("9a'", Is(C::SafeMode), Fail, Nothing),
    row("9b", Is(C::Other), Fail, Nothing),
    row("H1", Is(C::MasterNotRunning), FailOver, Failovers),
    row("H2", Is(C::ServerNotRunningYet), FailOver, Failovers),
    row("H3", Is(C::MasterStopped), FailOver, Failovers),
    // What it had begun the next master goes on with.
    doubtful("H4", C::Fenced),
    row("H5", Is(C::PleaseHold), Retry, Retries),
    row("H6", Is(C::Overloaded), Retry, Retries),
];

/// Numbers of FailoverOnNetworkException.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failover {
    /// Failovers of one call (`dfs.client.failover.max.attempts`).
    pub failovers_max: u32,
    /// Tries of one call at the same server (`dfs.client.retry.max.attempts`).
    pub retries_max: u32,
    /// What delays grow from, ms (`dfs.client.failover.sleep.base.millis`).
    pub sleep_base_ms: u64,
    /// What they grow to, before chance, ms (`dfs.client.failover.sleep.max.millis`).
    pub sleep_max_ms: u64,
}

impl Default for Failover {
    /// Hadoop's defaults (A.8).
    fn default() -> Self {
        Self {
            failovers_max: 15,
            retries_max: 10,
            sleep_base_ms: 500,
            sleep_max_ms: 15_000,
        }
    }
}

/// Pairs of sleep and count (`dfs.client.retry.policy.spec`), for a server without others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearRandom(pub Vec<(u64, u32)>);

/// Pairs in a specification at most.
const PAIRS_MAX: usize = 64;

impl Default for LinearRandom {
    fn default() -> Self {
        Self(vec![(10_000, 6), (60_000, 10)])
    }
}

impl LinearRandom {
    /// Reads `sleep-ms,count,sleep-ms,count…`. `None` if it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<u64> = text
            .split(',')
            .map(|word| word.trim().parse().ok().filter(|number| *number > 0))
            .collect::<Option<_>>()?;
        if !numbers.len().is_multiple_of(2) || numbers.len() > 2 * PAIRS_MAX {
            return None;
        }
        let pair = |pair: &[u64]| Some((pair[0], u32::try_from(pair[1]).ok()?));
        numbers.chunks(2).map(pair).collect::<Option<_>>().map(Self)
    }

    /// Sleep after so many earlier tries; `None` when they are used up. The first pair is used once more than it says, as in Hadoop (A.6).
    fn sleep(&self, retries: u32, chance: f64) -> Option<Duration> {
        let mut index = retries;
        for (sleep_ms, count) in &self.0 {
            if index <= *count {
                return Some(jittered(*sleep_ms, chance));
            }
            index -= count;
        }
        None
    }
}

/// When to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// Never (`TRY_ONCE_THEN_FAIL`).
    TryOnce,
    /// [`TABLE`]; where it fails for the server's own exception, the fallback decides.
    FailoverOnNetwork(Failover, Box<Policy>),
    /// For one server without others (A.6, `dfs.client.retry.policy.enabled`).
    Plain(LinearRandom),
    /// So many tries, each pause up to twice the last one (A.5: NamenodeProtocol's `getBlocks`, `getBlockKeys`).
    Exponential {
        /// Tries in all.
        tries: u32,
        /// First pause, ms.
        base_ms: u64,
    },
}

/// Counts of one call before the failure in question is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Earlier tries.
    pub retries: u32,
    /// Failovers among them.
    pub failovers: u32,
}

/// What is to be done about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// What.
    pub decision: Decision,
    /// After how long.
    pub delay: Duration,
    /// Row of [`TABLE`], or the policy's name.
    pub row: &'static str,
    /// Why no more tries are made, if that is for their number.
    pub reason: Option<Exhausted>,
    /// This server cannot do it now, and another one that was not asked yet may: that one first, then the delay.
    pub elsewhere_first: bool,
}

impl Action {
    /// Gives up what would go on after the call's own time.
    pub(super) fn end_by(&mut self, time: Duration, spent: Duration) {
        if self.decision != Fail && spent + self.delay >= time {
            self.decision = Fail;
            self.delay = Duration::ZERO;
            self.reason = Some(Exhausted::Time(time));
        }
    }

    fn fail(row: &'static str) -> Self {
        Self {
            decision: Fail,
            delay: Duration::ZERO,
            row,
            reason: None,
            elsewhere_first: false,
        }
    }
}

/// Tries (P8) or time are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// Count and limit.
    Failovers(u32, u32),
    /// Count and limit.
    Retries(u32, u32),
    /// The limit.
    Time(Duration),
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, count, max) = match self {
            Self::Failovers(count, max) => ("failovers", count, max),
            Self::Retries(count, max) => ("retries", count, max),
            Self::Time(limit) => {
                return write!(f, "the operation's {} ms are over", limit.as_millis());
            }
        };
        write!(f, "{what} ({count}) exceeded maximum allowed ({max})")
    }
}

impl Policy {
    /// The usual one for interchangeable servers.
    pub fn failover(numbers: Failover) -> Self {
        Self::FailoverOnNetwork(numbers, Box::new(Self::TryOnce))
    }

    /// What to do about one failure. `chance` lies in `0.0..1.0`.
    pub fn decide(&self, class: Class, counts: Counts, mark: Mark, chance: f64) -> Action {
        match self {
            Self::TryOnce => Action::fail("try once"),
            Self::FailoverOnNetwork(numbers, fallback) => {
                let action = by_table(numbers, class, counts, mark, chance);
                match class {
                    C::Remote | C::SafeMode | C::Other if action.reason.is_none() => {
                        let row = action.row;
                        let action = fallback.decide(class, counts, mark, chance);
                        Action { row, ..action }
                    }
                    _ => action,
                }
            }
            Self::Plain(linear) => plain(linear, class, counts, mark, chance),
            Self::Exponential { tries, base_ms } => {
                if class == C::Other || counts.retries + 1 >= *tries {
                    return Action::fail("exponential");
                }
                let sleep_ms = base_ms.saturating_mul(power(counts.retries + 1));
                Action {
                    decision: Retry,
                    delay: jittered(sleep_ms, chance),
                    ..Action::fail("exponential")
                }
            }
        }
    }

    /// What to do about a try that asked several servers: the greatest decision, the first of equals, and the longest delay of those
    /// that do not fail (B.5). The second value is the failure that decided.
    pub fn decide_all(
        &self,
        failures: &[Failure],
        counts: Counts,
        mark: Mark,
        mut chance: impl FnMut() -> f64,
    ) -> (Action, usize) {
        let mut decided: Option<(Action, usize)> = None;
        let mut longest = Duration::ZERO;
        for (at, failure) in failures.iter().enumerate() {
            let action = self.decide(failure.class, counts, mark, chance());
            longest = longest.max(action.delay);
            if decided
                .as_ref()
                .is_none_or(|(so_far, _)| action.decision > so_far.decision)
            {
                decided = Some((action, at));
            }
        }
        let (mut action, at) = decided.unwrap_or_else(|| (Action::fail("nothing failed"), 0));
        action.delay = longest;
        (action, at)
    }
}

fn by_table(numbers: &Failover, class: Class, counts: Counts, mark: Mark, chance: f64) -> Action {
    let failovers_used_up = counts.failovers >= numbers.failovers_max;
    let here = counts.retries.saturating_sub(counts.failovers);
    let retries_used_up = here > numbers.retries_max;
    let counts_for = |row: &&Row| match row.when {
        // Nobody asks after the caller has gone.
        When::Cancelled => false,
        When::FailoversUsedUp => failovers_used_up,
        When::RetriesUsedUp => retries_used_up,
        Is(of) => of == class,
    };
    let row = (TABLE.iter().find(counts_for)).expect("a test sees that every class has its row");
    let grows = match row.delay {
        Nothing => 0,
        Failovers => counts.failovers,
        Retries => counts.retries,
    };
    let decision = row.decision(mark);
    Action {
        decision,
        delay: match decision {
            Fail => Duration::ZERO,
            Retry | FailOver => delay(numbers, grows, chance),
        },
        row: row.id,
        elsewhere_first: decision == FailOver && row.delay == Failovers,
        reason: match row.when {
            When::FailoversUsedUp => Some(Exhausted::Failovers(
                counts.failovers,
                numbers.failovers_max,
            )),
            When::RetriesUsedUp => Some(Exhausted::Retries(here, numbers.retries_max)),
            When::Cancelled | Is(_) => None,
        },
    }
}

fn plain(linear: &LinearRandom, class: Class, counts: Counts, mark: Mark, chance: f64) -> Action {
    let again = match class {
        C::Remote | C::Other | C::Sasl | C::AccessControl | C::InvalidToken => false,
        // Hadoop repeats these for every method; what must not be done twice is not repeated here.
        C::Eof | C::Socket | C::CallTimeout | C::OtherIo | C::Fenced => mark != Mark::Neither,
        _ => true,
    };
    match linear.sleep(counts.retries, chance).filter(|_| again) {
        Some(delay) => Action {
            decision: Retry,
            delay,
            ..Action::fail("linear random")
        },
        None => Action::fail("linear random"),
    }
}

/// B.4: nothing at first, then doubling up to the maximum, and chance on top of that.
pub fn delay(numbers: &Failover, n: u32, chance: f64) -> Duration {
    if n == 0 {
        return Duration::ZERO;
    }
    let grown = numbers.sleep_base_ms.saturating_mul(power(n));
    jittered(grown.min(numbers.sleep_max_ms), chance)
}

fn power(n: u32) -> u64 {
    1_u64.checked_shl(n).unwrap_or(u64::MAX)
}

/// Between half and one and a half of it.
fn jittered(ms: u64, chance: f64) -> Duration {
    // Sleeps of centuries are cut: a Duration takes no more.
    const MAX_MS: u64 = 1000 * 60 * 60 * 24 * 365;
    Duration::from_millis(ms.min(MAX_MS)).mul_f64(0.5 + chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
