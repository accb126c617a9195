//! Faults that tests plant, to see that the test suite finds each (correctness.md, T10).
//!
//! Which one is chosen at run time, in `StoreConfig::planted`; that there is anything to choose, by the feature `planted-faults`,
//! which only test builds have. Without it [`Plant::is`] is `false` for the compiler, too.

#[cfg(all(feature = "planted-faults", not(debug_assertions)))]
compile_error!("planted faults are for test builds: a release must not have them");

/// A fault that can be planted.
#[cfg_attr(
    not(feature = "planted-faults"),
    allow(unreachable_pub, reason = "exported with the feature only")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A second opener leaves the first one's writer as it is (INV-2, C14).
    NoFence,
    /// The log tells of a group before it is synced (INV-3).
    AcknowledgeBeforeSync,
    /// The row cache takes what a reader found though a write of the row began since (INV-6).
    CacheFillWithoutTicket,
    /// A read under row locks sees what is durable only (C1, INV-5).
    DurableReadUnderLock,
    /// Compaction drops the markers of a family that has overflow cells (C5).
    MarkersDroppedBesideOverflow,
    /// Every log counts its own LSNs (C13).
    LsnsPerLog,
    /// A region server answers though its session may be over (C22): of the crate `regionserver`.
    #[cfg(feature = "planted-faults")]
    AnswerWithoutLease,
}

/// Which fault is planted, if any.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Plant(#[cfg(feature = "planted-faults")] pub(crate) Option<Planted>);

impl Plant {
    /// Whether it is this one.
    #[cfg(feature = "planted-faults")]
    pub(crate) fn is(self, fault: Planted) -> bool {
        self.0 == Some(fault)
    }

    /// Whether it is this one: no.
    #[cfg(not(feature = "planted-faults"))]
    pub(crate) const fn is(self, _: Planted) -> bool {
        false
    }
}
