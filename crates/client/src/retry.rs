//! What to do after a failed try: forget what, wait how long, or give up. Pure: time and randomness are handed in.
//!
//! Flow: a caller makes one [`Retries`] per operation; after each failed try it asks [`blame`] what the error says about the
//! location, and [`Retries::pause`] how long to wait. Nothing here sleeps (only `call` does), and nothing here knows of sockets
//! or of the cache.

use std::time::Duration;

use cadastre_rpc::ha::policy::Failover;
use cadastre_types::{Code, Detail, Error, ErrorKind, MovedTo};

/// HBase's table of factors (`HConstants.RETRY_BACKOFF`), multiplied with the pause; the last one stays.
pub(crate) const BACKOFF_FACTORS: [u32; 13] =
    [1, 2, 3, 5, 10, 20, 40, 100, 100, 100, 100, 200, 200];

/// Largest part of a pause that chance adds to it, as in HBase: callers that failed together do not return together.
pub(crate) const JITTER_MAX: f64 = 0.01;

/// How often and how long to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries of one operation, the first one included (`hbase.client.retries.number`, 15; 31 in older HBase).
    pub tries_max: u32,
    /// Pause that the factors multiply, ms (`hbase.client.pause`).
    pub pause_ms: u64,
    /// The same after a server said that it is overloaded, ms (`hbase.client.pause.server.overloaded`).
    pub pause_overloaded_ms: u64,
    /// The whole operation, all tries and pauses, ms (`hbase.client.operation.timeout`).
    pub operation_timeout_ms: u64,
    /// One try, ms (`hbase.rpc.timeout`).
    pub rpc_timeout_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries_max: 15,
            pause_ms: 100,
            pause_overloaded_ms: 100,
            operation_timeout_ms: 1_200_000,
            rpc_timeout_ms: 60_000,
        }
    }
}

impl RetryPolicy {
    /// The same for calls to the master, whose loop is the HA proxy's: as many tries, and pauses from the same base to the same longest one.
    pub(crate) fn failover(&self) -> Failover {
        let longest = BACKOFF_FACTORS[BACKOFF_FACTORS.len() - 1];
        Failover {
            failovers_max: self.tries_max.saturating_sub(1),
            // The policy counts repeated tries behind the first repeated one.
            retries_max: self.tries_max.saturating_sub(2),
            sleep_base_ms: self.pause_ms,
            sleep_max_ms: self.pause_ms.saturating_mul(u64::from(longest)),
        }
    }
}

/// What an error says about the location that was used (L20). Errors that do not mean "wrong place" blame nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The location may well be right.
    Nothing,
    /// This region is not there.
    Region,
    /// This region is elsewhere, and the error says where.
    Moved(MovedTo),
    /// The server is gone, with all it had.
    Server,
}

/// Class of a quota's refusal; its text ends with how long to wait (hbase-protocol.md 9.1).
const THROTTLED: &str = "quotas.RpcThrottlingException";

/// Class of what is left of a batch in older HBase; the server asks for it at once.
const RETRY_IMMEDIATELY: &str = "RetryImmediatelyException";

/// Whether an error is of this class of the peer's, for classes that have no code of their own.
fn is_class(error: &Error, class: &str) -> bool {
    match error.detail() {
        Some(Detail::Remote { class: of, .. }) => of
            .strip_suffix(class)
            .is_some_and(|package| package.ends_with('.')),
        _ => false,
    }
}

/// How long a quota that refused a call says to wait: `… - wait 1hr, 2mins, 3sec, 4ms`, parts of zero left out.
fn asked_to_wait(error: &Error) -> Option<Duration> {
    if !is_class(error, THROTTLED) {
        return None;
    }
    let (_, parts) = error.message().rsplit_once(" - wait ")?;
    let mut wait = Duration::ZERO;
    for part in parts.split(',') {
        let part = part.trim();
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = part.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let ms = match unit.trim() {
            "hr" | "hrs" => 3_600_000,
            "min" | "mins" => 60_000,
            "sec" | "secs" => 1_000,
            "ms" => 1,
            _ => return None,
        };
        wait = wait.checked_add(Duration::from_millis(number.checked_mul(ms)?))?;
    }
    Some(wait)
}

/// What a failed data call says about its location.
pub(crate) fn blame(error: &Error) -> Blame {
    if is_class(error, THROTTLED) || is_class(error, RETRY_IMMEDIATELY) {
        return Blame::Nothing;
    }
    match error.code() {
        Code::RegionMoved => match error.detail() {
            Some(Detail::Moved(to)) => Blame::Moved(to.clone()),
            _ => Blame::Region,
        },
        Code::NotServingRegion | Code::WrongRegion | Code::RegionOffline | Code::Fenced => {
            Blame::Region
        }
        Code::RegionServerStopped
        | Code::RegionServerAborted
        | Code::ServerNotRunningYet
        | Code::NotSent => Blame::Server,
        // A class that we do not know but that HBase calls retryable: HBase's client forgets the region, too.
        Code::Remote if error.kind() == ErrorKind::Retry => Blame::Region,
        _ => Blame::Nothing,
    }
}

/// How soon the next try may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Never,
    AtOnce,
    Paused,
    PausedOverloaded,
    /// As long as the server said.
    Asked(Duration),
}

fn urgency(error: &Error) -> Urgency {
    if let Some(wait) = asked_to_wait(error) {
        return Urgency::Asked(wait);
    }
    if is_class(error, RETRY_IMMEDIATELY) {
        return Urgency::AtOnce;
    }
    match error.code() {
        // What is left of a batch; the server asks for it at once.
        Code::MultiActionResultTooLarge => Urgency::AtOnce,
        Code::CallQueueTooBig | Code::CallDropped => Urgency::PausedOverloaded,
        _ => match error.kind() {
            ErrorKind::Retry | ErrorKind::Relocate | ErrorKind::Failover | ErrorKind::Fenced => {
                Urgency::Paused
            }
            ErrorKind::Invalid | ErrorKind::TooBig | ErrorKind::Corrupt | ErrorKind::Internal => {
                Urgency::Never
            }
        },
    }
}

/// Whether an error says that a server has too much to do, and nothing else.
pub(crate) fn is_overload(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::CallQueueTooBig | Code::CallDropped | Code::RegionTooBusy
    ) || is_class(error, THROTTLED)
}

/// Whether a call may have been executed although it failed with this: repeating it is safe only if twice is as good as once
/// (INV-5). Refusals that a server makes before it begins are not among them.
pub(crate) fn may_be_executed(error: &Error) -> bool {
    if is_class(error, THROTTLED) || is_class(error, RETRY_IMMEDIATELY) {
        return false;
    }
    match error.code() {
        Code::OutcomeUnknown | Code::Io | Code::RegionServerAborted | Code::Internal => true,
        Code::Remote => error.kind() == ErrorKind::Retry,
        _ => false,
    }
}

/// Whether an error may pass if the call is made again.
pub(crate) fn is_retryable(error: &Error) -> bool {
    urgency(error) != Urgency::Never
}

/// The tries of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Retries {
    policy: RetryPolicy,
    deadline: Duration,
    failures: u32,
    relocated: bool,
}

impl Retries {
    /// Starts an operation at this moment of the monotone clock.
    pub(crate) fn new(policy: &RetryPolicy, now: Duration) -> Self {
        Self {
            deadline: now + Duration::from_millis(policy.operation_timeout_ms),
            policy: policy.clone(),
            failures: 0,
            relocated: false,
        }
    }

    /// When the operation ends in any case.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Tries that failed so far.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Part of the operation succeeded: the tries count anew, the deadline stays.
    pub(crate) fn progressed(&mut self) {
        self.failures = 0;
    }

    /// How long one try may take.
    ///
    /// # Errors
    /// [`Code::TimeoutIo`] when no time is left.
    pub(crate) fn try_timeout(&self, now: Duration) -> Result<Duration, Error> {
        let left = self.deadline.saturating_sub(now);
        if left.is_zero() {
            return Err(Error::new(
                Code::TimeoutIo,
                format!(
                    "the operation's {} ms are over",
                    self.policy.operation_timeout_ms
                ),
            ));
        }
        Ok(left.min(Duration::from_millis(self.policy.rpc_timeout_ms)))
    }

    /// How long to wait before the next try. `chance` lies in `0.0..1.0`.
    ///
    /// The first wrong location is corrected without a pause (L20: one wasted round trip and no more); from then on pauses
    /// grow, so that two servers that point at each other do not spin.
    ///
    /// # Errors
    /// The given error, with the number of tries if there were several, when there is to be no other try.
    pub(crate) fn pause(
        &mut self,
        error: Error,
        now: Duration,
        chance: f64,
    ) -> Result<Duration, Error> {
        let urgency = urgency(&error);
        self.failures += 1;
        if urgency == Urgency::Never {
            return Err(error);
        }
        if self.failures >= self.policy.tries_max {
            return Err(self.given_up(error, "no tries are left"));
        }
        let first_relocation = !self.relocated && blame(&error) != Blame::Nothing;
        self.relocated |= first_relocation;
        let failures = self.failures - 1;
        let pause = match urgency {
            Urgency::Never | Urgency::AtOnce => Duration::ZERO,
            Urgency::Paused if first_relocation => Duration::ZERO,
            Urgency::Paused => grown(self.policy.pause_ms, failures, chance),
            Urgency::PausedOverloaded => grown(self.policy.pause_overloaded_ms, failures, chance),
            Urgency::Asked(wait) => jittered(wait, chance),
        };
        if now + pause >= self.deadline {
            let why = match urgency {
                Urgency::Asked(_) => "the wait it asks for is longer than the operation's time",
                _ => "the operation's time is over",
            };
            return Err(self.given_up(error, why));
        }
        Ok(pause)
    }

    fn given_up(&self, error: Error, why: &str) -> Error {
        error.context(format_args!("after {} tries, {why}", self.failures))
    }
}

/// A pause after `failures` earlier ones, with its jitter.
fn grown(base_ms: u64, failures: u32, chance: f64) -> Duration {
    let at = (failures as usize).min(BACKOFF_FACTORS.len() - 1);
    let pause = Duration::from_millis(base_ms.saturating_mul(u64::from(BACKOFF_FACTORS[at])));
    jittered(pause, chance)
}

fn jittered(pause: Duration, chance: f64) -> Duration {
    // Longer than any operation may take, and short enough to be multiplied.
    const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);
    let pause = pause.min(LONGEST);
    pause + pause.mul_f64(JITTER_MAX * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use cadastre_types::ServerName;
    use proptest::prelude::*;

    use super::*;

    fn error(code: Code) -> Error {
        Error::new(code, "x")
    }

    fn moved() -> Error {
        error(Code::RegionMoved).with_detail(Detail::Moved(MovedTo {
            server: ServerName::parse("h,1,1").unwrap(),
            sequence_number: 7,
        }))
    }

    /// L20: only errors that mean "wrong place" may cost a cached location.
    #[test]
    fn overload_and_time_outs_blame_nothing() {
        for code in [
            Code::RegionTooBusy,
            Code::RegionOpening,
            Code::CallQueueTooBig,
            Code::CallDropped,
            Code::MultiActionResultTooLarge,
            Code::TimeoutIo,
            Code::OutcomeUnknown,
            Code::PleaseHold,
            Code::Io,
            Code::RequestTooBig,
        ] {
            assert_eq!(blame(&error(code)), Blame::Nothing, "{code:?}");
        }
        assert!(matches!(blame(&moved()), Blame::Moved(_)));
        assert_eq!(blame(&error(Code::RegionMoved)), Blame::Region);
        assert_eq!(blame(&error(Code::NotServingRegion)), Blame::Region);
        assert_eq!(blame(&error(Code::NotSent)), Blame::Server);
        assert_eq!(blame(&error(Code::RegionServerAborted)), Blame::Server);
    }

    fn throttled(text: &str) -> Error {
        Error::new(Code::Remote, text).with_detail(Detail::Remote {
            class: "org.apache.hadoop.hbase.quotas.RpcThrottlingException".to_owned(),
            do_not_retry: false,
        })
    }

    /// L17, L20: a quota's refusal says itself how long to wait, and nothing about the place.
    #[test]
    fn a_throttled_call_waits_as_long_as_it_was_told() {
        let policy = RetryPolicy::default();
        let wait = |text: &str| {
            let mut retries = Retries::new(&policy, Duration::ZERO);
            let pause = retries.pause(throttled(text), Duration::ZERO, 0.0);
            pause.unwrap().as_millis()
        };
        let what = "number of requests exceeded";
        assert_eq!(wait(&format!("{what} - wait 1sec, 4ms")), 1004);
        assert_eq!(
            wait(&format!("Get on h: {what} - wait 2mins, 0ms")),
            120_000
        );
        assert_eq!(wait(&format!("{what} - wait 250ms")), 250);
        // Without a time that can be read it is any other pause.
        for text in [
            what,
            "x - wait ",
            "x - wait soon",
            "x - wait 9999999999999999hr",
        ] {
            assert_eq!(wait(text), 100, "{text}");
        }
        let refused = throttled("x - wait 30mins, 0ms");
        assert_eq!(blame(&refused), Blame::Nothing);
        assert!(is_overload(&refused) && !may_be_executed(&refused));
        let mut retries = Retries::new(&policy, Duration::ZERO);
        let error = retries.pause(refused, Duration::ZERO, 0.0).unwrap_err();
        assert!(
            error.message().contains("longer than the operation's time"),
            "{error}"
        );
        let other = Error::new(Code::Remote, "x - wait 5ms").with_detail(Detail::Remote {
            class: "org.example.NotquotasRpcThrottlingException".to_owned(),
            do_not_retry: false,
        });
        assert_eq!(asked_to_wait(&other), None);
    }

    /// L17: pauses grow by HBase's factors, and the tries end.
    #[test]
    fn pauses_follow_the_table() {
        let policy = RetryPolicy::default();
        let mut retries = Retries::new(&policy, Duration::ZERO);
        for factor in BACKOFF_FACTORS {
            let pause = retries
                .pause(error(Code::RegionTooBusy), Duration::ZERO, 0.0)
                .unwrap();
            assert_eq!(pause.as_millis() as u64, 100 * u64::from(factor));
        }
        // Failure 14 still pauses, the 15th try is the last.
        retries
            .pause(error(Code::RegionTooBusy), Duration::ZERO, 0.0)
            .unwrap();
        let last = retries
            .pause(error(Code::RegionTooBusy), Duration::ZERO, 0.0)
            .unwrap_err();
        assert_eq!(last.code(), Code::RegionTooBusy);
        assert!(last.message().contains("after 15 tries"), "{last}");
    }

    /// L20: one wasted round trip and no more.
    #[test]
    fn the_first_wrong_location_costs_no_pause_and_the_second_does() {
        let mut retries = Retries::new(&RetryPolicy::default(), Duration::ZERO);
        let first = retries.pause(moved(), Duration::ZERO, 0.5).unwrap();
        assert_eq!(first, Duration::ZERO);
        assert!(retries.pause(moved(), Duration::ZERO, 0.5).unwrap() >= Duration::from_millis(200));
    }

    /// L16 a, L17: what is final ends it at once, and the deadline stands above all.
    #[test]
    fn final_errors_and_the_deadline_end_it() {
        let mut retries = Retries::new(&RetryPolicy::default(), Duration::ZERO);
        let table = retries
            .pause(error(Code::TableNotFound), Duration::ZERO, 0.5)
            .unwrap_err();
        assert_eq!((table.code(), table.message()), (Code::TableNotFound, "x"));
        let end = retries.deadline();
        assert!(
            retries
                .pause(error(Code::Io), end - Duration::from_millis(50), 0.0)
                .is_err()
        );
        assert!(retries.try_timeout(end).is_err());
        let little = Duration::from_millis(5);
        assert_eq!(retries.try_timeout(end - little).unwrap(), little);
        assert_eq!(
            retries.try_timeout(Duration::ZERO).unwrap(),
            Duration::from_secs(60)
        );
    }

    proptest! {
        /// L17: jitter only lengthens, by 1 % at most.
        #[test]
        fn jitter_is_bounded(base in 0_u64..100_000, failures in 0_u32..40, chance in 0.0..1.0_f64) {
            let plain = grown(base, failures, 0.0);
            let jittered = grown(base, failures, chance);
            prop_assert!(jittered >= plain);
            prop_assert!(jittered <= plain + plain.mul_f64(JITTER_MAX + 1e-9));
        }

        /// Every code either is final or pauses within the table.
        #[test]
        fn every_code_has_an_answer(code in proptest::sample::select(Code::ALL)) {
            let mut retries = Retries::new(&RetryPolicy::default(), Duration::ZERO);
            match retries.pause(error(code), Duration::ZERO, 0.0) {
                Ok(pause) => prop_assert!(pause <= Duration::from_millis(100)),
                Err(error) => prop_assert!(!is_retryable(&error)),
            }
        }
    }
}
