//! What to do after a failed try: forget what, wait how long, or give up. Pure: time and randomness are handed in.
//!
//! Flow: a caller makes one [`Retries`] per operation; after each failed try it asks [`blame`] what the error says about the
//! location, and [`Retries::pause`] how long to wait. Nothing here sleeps (only `call` does), and nothing here knows of sockets
//! or of the cache.

use std::time::Duration;

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

/// What a failed data call says about its location.
pub(crate) fn blame(error: &Error) -> Blame {
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
}

fn urgency(error: &Error) -> Urgency {
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
    )
}

/// Whether a call may have been executed although it failed with this: repeating it is safe only if twice is as good as once
/// (INV-5). Refusals that a server makes before it begins are not among them.
pub(crate) fn may_be_executed(error: &Error) -> bool {
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
        let base_ms = match urgency {
            Urgency::Never | Urgency::AtOnce => 0,
            Urgency::Paused if first_relocation => 0,
            Urgency::Paused => self.policy.pause_ms,
            Urgency::PausedOverloaded => self.policy.pause_overloaded_ms,
        };
        let pause = grown(base_ms, self.failures - 1, chance);
        if now + pause >= self.deadline {
            return Err(self.given_up(error, "the operation's time is over"));
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

    #[test]
    fn the_first_wrong_location_costs_no_pause_and_the_second_does() {
        let mut retries = Retries::new(&RetryPolicy::default(), Duration::ZERO);
        let first = retries.pause(moved(), Duration::ZERO, 0.5).unwrap();
        assert_eq!(first, Duration::ZERO);
        assert!(retries.pause(moved(), Duration::ZERO, 0.5).unwrap() >= Duration::from_millis(200));
    }

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
        /// Jitter only lengthens, by 1 % at most.
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
