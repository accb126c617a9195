//! Faults that tests plant, to see that the simulator finds each (correctness.md, T10). Which one is chosen at run time, in
//! `ClientConfig::planted`; that there is anything to choose, by the feature `planted-faults`, which only test builds have.

use cadastre_env::Env;

use crate::Client;

#[cfg(all(feature = "planted-faults", not(debug_assertions)))]
compile_error!("planted faults are for test builds: a release must not have them");

/// A fault that can be planted.
#[cfg_attr(
    not(feature = "planted-faults"),
    allow(unreachable_pub, reason = "exported with the feature only")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A client of a published rule goes on although its session may be over (R29).
    ServeWithoutLease,
    /// It says that it has seen a version while operations of its own still go by the one before (R71).
    AcknowledgeAtOnce,
    /// It reads and writes rows that move while two versions are visible (R28).
    HoldNothing,
}

impl<E: Env> Client<E> {
    /// Whether this fault is planted.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn has(&self, fault: Planted) -> bool {
        self.shared.config.planted == Some(fault)
    }

    /// Whether this fault is planted: no.
    #[cfg(not(feature = "planted-faults"))]
    pub(crate) const fn has(&self, _: Planted) -> bool {
        false
    }
}
