//! How a try ends that has no answer. Knows what happened, not what to do about it: that is for the policy.

use std::fmt;
use std::sync::Arc;

use cadastre_types::{Code, Error};

use super::policy::Class;

/// Members of a failure that are kept: as many servers as are ever asked at once.
pub(crate) const MEMBERS_MAX: usize = 16;

/// Whether a failed try may have done something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executed {
    /// Never: it was not sent, or the server refused it before it looked whether it had done it before.
    No,
    /// Perhaps: it was sent, and nothing is known of it.
    Maybe,
    /// The method itself said no, after the server had looked whether it had done this call before.
    Refused,
}

/// One server's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Row of the policy's table.
    pub class: Class,
    /// Whether it may have been done.
    pub executed: Executed,
    /// The server.
    pub from: Arc<str>,
    /// What to tell the caller.
    pub error: Error,
}

impl Failure {
    /// A failure of a server.
    pub fn new(class: Class, executed: Executed, from: &Arc<str>, error: Error) -> Self {
        Self {
            class,
            executed,
            from: Arc::clone(from),
            error,
        }
    }

    /// The call was never in the server's hands.
    pub fn not_sent(class: Class, from: &Arc<str>, why: impl fmt::Display) -> Self {
        let error = Error::new(Code::NotSent, format!("{from}: {why}"));
        Self::new(class, Executed::No, from, error)
    }

    /// The call was sent and not answered.
    pub fn unknown(class: Class, from: &Arc<str>, why: impl fmt::Display) -> Self {
        let error = Error::new(Code::OutcomeUnknown, format!("{from}: {why}"));
        Self::new(class, Executed::Maybe, from, error)
    }
}

/// A try's failures: of one server, or of several that were asked at once (B.5). Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed(Vec<Failure>);

impl Failed {
    /// Several servers' failures, in the order in which the servers are configured.
    ///
    /// # Panics
    /// Without any: whoever asked nobody has no failure.
    pub fn several(mut failures: Vec<Failure>) -> Self {
        assert!(!failures.is_empty(), "a failed try has a failure");
        failures.truncate(MEMBERS_MAX);
        Self(failures)
    }

    /// The first.
    pub fn first(&self) -> &Failure {
        &self.0[0]
    }

    /// All.
    pub fn all(&self) -> &[Failure] {
        &self.0
    }

    /// Whether any of them may have been done.
    pub fn may_be_executed(&self) -> bool {
        self.0
            .iter()
            .any(|failure| failure.executed == Executed::Maybe)
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self(vec![failure])
    }
}
