//! What clients know about a key-value history, and which answers are possible.
//!
//! Writes carry versions (explicit timestamps), so a row is a register in which the greatest version wins, in whatever order
//! attempts land: a write whose outcome is unknown may take effect at any later moment. So a row is known by its *floor*, the
//! greatest version that was acknowledged or seen, and a read is right if it shows a version that was sent and is not under the
//! floor as it stood when the read began. That is linearizability of each row (INV-3, INV-6). Counters take increments exactly
//! once (INV-5): their value lies between what was acknowledged and that plus what is unknown.
//!
//! This module must not know of servers, wires or the simulator.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// An answer that no order of the operations explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// A row: the versions that could be seen.
#[derive(Debug, Default)]
struct Row {
    /// Versions sent and not refused; `None` is a deletion. Those under the floor stay: a read that began before may show them.
    sent: BTreeMap<i64, Option<Bytes>>,
    /// 0: nothing was ever acknowledged or seen.
    floor: i64,
}

#[derive(Debug, Default)]
struct Counter {
    acknowledged: i64,
    /// Begun and neither acknowledged nor refused: each may have happened or happen later.
    open: i64,
    seen: i64,
}

/// What was known when a read began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(i64);

/// All rows and counters.
#[derive(Debug, Default)]
pub struct Model {
    rows: BTreeMap<Bytes, Row>,
    counters: BTreeMap<Bytes, Counter>,
    checked: u64,
}

impl Model {
    /// Nothing written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers checked so far.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// Rows that were ever written, in order.
    pub fn rows(&self) -> impl Iterator<Item = &Bytes> {
        self.rows.keys()
    }

    /// Counters that were ever incremented, in order.
    pub fn counters(&self) -> impl Iterator<Item = &Bytes> {
        self.counters.keys()
    }

    /// A write (or with `None` a deletion) is about to be sent. Versions and values of a row must differ from each other; versions
    /// are above 0.
    pub fn begin_write(&mut self, row: &Bytes, version: i64, value: Option<Bytes>) {
        assert!(version > 0, "versions are above 0");
        let row = self.rows.entry(row.clone()).or_default();
        row.sent.insert(version, value);
    }

    /// The write was acknowledged.
    pub fn acknowledge_write(&mut self, row: &Bytes, version: i64) {
        if let Some(row) = self.rows.get_mut(row) {
            row.floor = row.floor.max(version);
        }
    }

    /// The write was refused for certain: it has no effect, now or later.
    pub fn refuse_write(&mut self, row: &Bytes, version: i64) {
        if let Some(row) = self.rows.get_mut(row) {
            row.sent.remove(&version);
        }
    }

    /// Whether a write to the row may still take effect though it was not acknowledged.
    pub fn has_unknown_writes(&self, row: &Bytes) -> bool {
        let row = self.rows.get(row);
        row.is_some_and(|row| row.sent.keys().any(|version| *version > row.floor))
    }

    /// A read is about to be sent.
    pub fn begin_read(&self, row: &Bytes) -> Ticket {
        Ticket(self.rows.get(row).map_or(0, |row| row.floor))
    }

    /// A read has shown this value, or that there is none.
    ///
    /// # Errors
    /// No order of the operations explains it.
    pub fn end_read(
        &mut self,
        row: &Bytes,
        begun: Ticket,
        seen: Option<&[u8]>,
    ) -> Result<(), Violation> {
        self.checked += 1;
        let state = self.rows.entry(row.clone()).or_default();
        // The smallest version that explains it: "absent" may have several.
        let mut possible = state.sent.range(begun.0..);
        let found = possible.find(|(_, value)| value.as_deref() == seen);
        if let Some((version, _)) = found {
            state.floor = state.floor.max(*version);
            return Ok(());
        }
        if seen.is_none() && begun.0 == 0 {
            return Ok(());
        }
        let possible: Vec<_> = state.sent.range(begun.0..).collect();
        Err(Violation(format!(
            "row {row:?} shows {:?}, but version {} was acknowledged or seen before; possible: {possible:?}",
            seen.map(Bytes::copy_from_slice),
            begun.0,
        )))
    }

    /// An increment by 1 is about to be sent. Returns what was acknowledged before.
    pub fn begin_increment(&mut self, counter: &Bytes) -> Ticket {
        let state = self.counters.entry(counter.clone()).or_default();
        state.open += 1;
        Ticket(state.floor())
    }

    /// The increment was answered with this value. Two may be answered alike: a repeated one is told the present value.
    ///
    /// # Errors
    /// An increment was lost or doubled.
    pub fn acknowledge_increment(
        &mut self,
        counter: &Bytes,
        begun: Ticket,
        value: i64,
    ) -> Result<(), Violation> {
        self.checked += 1;
        let state = self.counters.entry(counter.clone()).or_default();
        let most = state.acknowledged + state.open;
        if value <= begun.0 || value > most {
            return Err(Violation(format!(
                "counter {counter:?} answers {value}, not in {} to {most}",
                begun.0 + 1
            )));
        }
        state.open -= 1;
        state.acknowledged += 1;
        state.seen = state.seen.max(value);
        Ok(())
    }

    /// The increment was refused for certain.
    pub fn refuse_increment(&mut self, counter: &Bytes) {
        if let Some(state) = self.counters.get_mut(counter) {
            state.open -= 1;
        }
    }

    /// A read of a counter is about to be sent.
    pub fn begin_counter_read(&self, counter: &Bytes) -> Ticket {
        Ticket(self.counters.get(counter).map_or(0, Counter::floor))
    }

    /// A read has shown this value; a counter never written shows 0.
    ///
    /// # Errors
    /// An increment was lost or doubled.
    pub fn end_counter_read(
        &mut self,
        counter: &Bytes,
        begun: Ticket,
        value: i64,
    ) -> Result<(), Violation> {
        self.checked += 1;
        let state = self.counters.entry(counter.clone()).or_default();
        let most = state.acknowledged + state.open;
        if value < begun.0 || value > most {
            return Err(Violation(format!(
                "counter {counter:?} shows {value}, not in {} to {most} ({} acknowledged)",
                begun.0, state.acknowledged
            )));
        }
        state.seen = state.seen.max(value);
        Ok(())
    }
}

impl Counter {
    /// The counter is at least this.
    fn floor(&self) -> i64 {
        self.acknowledged.max(self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn an_acknowledged_write_must_be_seen() {
        let mut model = Model::new();
        let row = bytes("r");
        model.begin_write(&row, 1, Some(bytes("one")));
        let early = model.begin_read(&row);
        model.acknowledge_write(&row, 1);
        model.end_read(&row, early, None).unwrap();
        let late = model.begin_read(&row);
        assert!(model.end_read(&row, late, None).is_err(), "lost");
        model.end_read(&row, late, Some(b"one")).unwrap();
        assert!(
            model.end_read(&row, late, Some(b"two")).is_err(),
            "never written"
        );
    }

    #[test]
    fn an_unknown_write_may_land_late_but_not_vanish() {
        let mut model = Model::new();
        let row = bytes("r");
        model.begin_write(&row, 1, Some(bytes("one")));
        model.acknowledge_write(&row, 1);
        model.begin_write(&row, 2, Some(bytes("two")));
        assert!(model.has_unknown_writes(&row));
        for seen in ["one", "one", "two"] {
            let begun = model.begin_read(&row);
            model.end_read(&row, begun, Some(seen.as_bytes())).unwrap();
        }
        let begun = model.begin_read(&row);
        assert!(
            model.end_read(&row, begun, Some(b"one")).is_err(),
            "went back"
        );
        model.begin_write(&row, 3, None);
        model.refuse_write(&row, 3);
        let begun = model.begin_read(&row);
        assert!(
            model.end_read(&row, begun, None).is_err(),
            "refused, yet done"
        );
    }

    #[test]
    fn increments_count_once() {
        let mut model = Model::new();
        let counter = bytes("c");
        let first = model.begin_increment(&counter);
        let second = model.begin_increment(&counter);
        model.acknowledge_increment(&counter, first, 1).unwrap();
        assert!(
            model.acknowledge_increment(&counter, second, 3).is_err(),
            "more than was sent"
        );
        let read = model.begin_counter_read(&counter);
        model.end_counter_read(&counter, read, 2).unwrap();
        let read = model.begin_counter_read(&counter);
        assert!(
            model.end_counter_read(&counter, read, 1).is_err(),
            "went back"
        );
        assert!(
            model.end_counter_read(&counter, read, 3).is_err(),
            "doubled"
        );
    }
}
