//! Time in which this process ran. A suspended laptop or a stopped process must not look like silence of the others.
//!
//! Server and client count session timeouts on it. Leases (C22) never do: they use the plain monotone clock.

use std::time::Duration;

/// Waits end this much late without being called lost time: a loaded machine, not a suspended one.
const LATENESS_MAX: Duration = Duration::from_secs(1);

/// The monotone clock less the time lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awake {
    planned: Duration,
    lost: Duration,
}

impl Awake {
    pub(crate) fn new(mono: Duration) -> Self {
        Self {
            planned: mono,
            lost: Duration::ZERO,
        }
    }

    /// The caller will be back at this time at the latest.
    pub(crate) fn plan(&mut self, mono: Duration) {
        self.planned = mono;
    }

    /// The caller is back; if much later than planned, the time between is lost. Gives the time awake.
    pub(crate) fn wake(&mut self, mono: Duration) -> Duration {
        let late = mono.saturating_sub(self.planned);
        if late > LATENESS_MAX {
            tracing::warn!(
                late_ms = late.as_millis(),
                "the process did not run for a while"
            );
            self.lost += late;
            self.planned = mono;
        }
        mono.saturating_sub(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspended_time_does_not_count_and_lateness_does() {
        let s = Duration::from_secs;
        let mut awake = Awake::new(s(100));
        awake.plan(s(101));
        assert_eq!(awake.wake(s(101)), s(101));
        awake.plan(s(102));
        assert_eq!(awake.wake(s(103)), s(103), "a second late is only late");
        awake.plan(s(104));
        assert_eq!(awake.wake(s(3_704)), s(104), "an hour of suspend");
        assert_eq!(awake.wake(s(3_705)), s(105));
    }
}
