//! Versions of a rule: which are in force (R24 to R29), what two of them do with a record (R44), what differs between
//! them (R30), and proposals for the next one (R36, R54). All of it values and pure functions: who keeps the set, who
//! watches it and who copies rows is others' business.

mod both;
mod diff;
mod plan;
mod set;

pub use both::{Both, Comparison, Moved, Route};
pub use diff::{
    Count, Diff, Evenness, MapChange, PairLoad, PlaceLoad, Report, SlotLoad, map_changes,
};
pub use plan::{Observed, Plan, Target, grow, isolate, move_slots, split};
pub use set::{
    Acknowledgements, Action, Entry, HISTORY_MAX, RuleSet, SetError, State, VersionEntry, View,
};

#[cfg(test)]
mod tests;
