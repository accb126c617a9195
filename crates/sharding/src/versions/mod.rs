//! Versions of a rule: which are in force (R24 to R29), what two of them do with a record (R44), what differs between
//! them (R30), and proposals for the next one (R36, R54). All of it values and pure functions: who keeps the set, who
//! watches it and who copies rows is others' business.

mod both;
mod diff;
mod load;
mod plan;
mod set;

pub use both::{Both, Comparison, Moved, Route};
pub use diff::{Diff, MapChange, map_changes};
pub use load::{Count, Evenness, Load};
pub use plan::{Observed, Plan, Proposals, Target, grow, isolate, key_field, move_slots, split};
pub use set::{
    Acknowledgements, Action, Entry, HISTORY_MAX, RuleSet, SetError, State, VersionEntry, View,
};

#[cfg(test)]
mod tests;
