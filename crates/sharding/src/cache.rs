//! Caches (R19 to R23): their contents are snapshots that can be read again, so that a map may be changed at once; but what
//! cannot be found is read from the database, which must not be crushed by it. Hence the change in steps, the read from
//! the old owner, and the simulation of both beforehand.

use std::collections::BTreeMap;

use crate::{
    EvalError, Fields, PlaceId, Value,
    function::hash::xxh3_64,
    versions::{Both, Route},
};

/// A change of the map in steps: at step 0 the old version decides, at the last step the new one, in between a growing
/// share of the keys that move.
#[derive(Clone, Debug)]
pub struct Gradual {
    both: Both,
    steps: u32,
}

/// Where a key is, and where it was before this change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRoute {
    /// Where it is read and written.
    pub place: PlaceId,
    /// Where a miss may be read from before the database is asked: the old owner. Writes must invalidate it there.
    pub former: Option<PlaceId>,
}

impl Gradual {
    /// A change in so many steps, at least one.
    pub fn new(both: Both, steps: u32) -> Gradual {
        Gradual {
            both,
            steps: steps.max(1),
        }
    }

    /// The two versions.
    pub fn versions(&self) -> &Both {
        &self.both
    }

    /// The number of the last step.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Where a key is at a step. A key switches once, and stays switched at every later step.
    pub fn route(&self, step: u32, fields: &Fields<'_>) -> Result<CacheRoute, EvalError> {
        Ok(match self.both.route(fields)? {
            Route::Stays(place) => CacheRoute {
                place,
                former: None,
            },
            Route::Moves { from, to } => {
                let turn = key_of(fields) % u64::from(self.steps);
                match turn < u64::from(step) {
                    true => CacheRoute {
                        place: to,
                        former: Some(from),
                    },
                    false => CacheRoute {
                        place: from,
                        former: None,
                    },
                }
            }
        })
    }
}

/// A key's hash: of all its fields, by a seed that no rule uses by itself, so that the turn is independent of the place.
fn key_of(fields: &Fields<'_>) -> u64 {
    const SEED: u64 = 0x6361_6368_6500;
    fields.iter().fold(SEED, |seed, field| match field {
        Value::Null => seed.wrapping_add(1),
        Value::Bool(it) => xxh3_64(&[u8::from(*it)], seed),
        Value::I64(it) | Value::Timestamp(it) => xxh3_64(&it.to_be_bytes(), seed),
        Value::U64(it) => xxh3_64(&it.to_be_bytes(), seed),
        Value::Date(it) => xxh3_64(&it.to_be_bytes(), seed),
        Value::Str(it) => xxh3_64(it.as_bytes(), seed),
        Value::Bytes(it) => xxh3_64(it, seed),
        Value::Uuid(it) => xxh3_64(it, seed),
    })
}

/// What became of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Found where it should be.
    Hit,
    /// Found at the old owner.
    Former,
    /// Read from the database.
    Miss,
}

/// Reads of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// Reads.
    pub reads: u64,
    /// Found where they should be.
    pub hits: u64,
    /// Found at the old owner.
    pub former: u64,
    /// Read from the database: its load.
    pub misses: u64,
}

/// Simulated cache nodes that forget what was not read for longest.
#[derive(Clone, Debug)]
pub struct Simulation {
    change: Gradual,
    read_former: bool,
    capacity: usize,
    nodes: Vec<Node>,
    reads: u64,
    steps: Vec<StepReport>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    last_read: BTreeMap<u64, u64>,
    by_age: BTreeMap<u64, u64>,
}

impl Node {
    /// Reads a key at a time; whether it was there.
    fn read(&mut self, key: u64, now: u64) -> bool {
        let Some(before) = self.last_read.get_mut(&key) else {
            return false;
        };
        self.by_age.remove(before);
        *before = now;
        self.by_age.insert(now, key);
        true
    }

    fn fill(&mut self, key: u64, now: u64, capacity: usize) {
        if self.last_read.len() >= capacity
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.last_read.remove(&oldest);
        }
        self.last_read.insert(key, now);
        self.by_age.insert(now, key);
    }
}

impl Simulation {
    /// Empty nodes that hold so many keys each; on a miss they ask the old owner first, or do not.
    pub fn new(change: Gradual, capacity: usize, read_former: bool) -> Simulation {
        let steps = change.steps as usize + 1;
        Simulation {
            nodes: vec![Node::default(); change.both.places().len()],
            steps: vec![StepReport::default(); steps],
            change,
            read_former,
            capacity: capacity.max(1),
            reads: 0,
        }
    }

    /// One read at a step; a step beyond the last is the last.
    pub fn read(&mut self, step: u32, fields: &Fields<'_>) -> Result<Access, EvalError> {
        let step = step.min(self.change.steps);
        let route = self.change.route(step, fields)?;
        let key = key_of(fields);
        self.reads += 1;
        let now = self.reads;
        let access = if self.nodes[route.place.0 as usize].read(key, now) {
            Access::Hit
        } else {
            let former = route.former.filter(|_| self.read_former);
            let found = former.is_some_and(|it| self.nodes[it.0 as usize].read(key, now));
            self.nodes[route.place.0 as usize].fill(key, now, self.capacity);
            match found {
                true => Access::Former,
                false => Access::Miss,
            }
        };
        let report = &mut self.steps[step as usize];
        report.reads += 1;
        match access {
            Access::Hit => report.hits += 1,
            Access::Former => report.former += 1,
            Access::Miss => report.misses += 1,
        }
        Ok(access)
    }

    /// So many reads of one key, one behind the other: all but the first find it.
    pub fn read_times(
        &mut self,
        step: u32,
        fields: &Fields<'_>,
        times: u64,
    ) -> Result<(), EvalError> {
        let Some(others) = times.checked_sub(1) else {
            return Ok(());
        };
        self.read(step, fields)?;
        let report = &mut self.steps[step.min(self.change.steps) as usize];
        report.reads = report.reads.saturating_add(others);
        report.hits = report.hits.saturating_add(others);
        Ok(())
    }

    /// What happened at each step.
    pub fn report(&self) -> &[StepReport] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Access, Gradual, Simulation};
    use crate::{Program, Value, versions::Both};

    fn rule(version: u64, body: &str) -> Arc<Program> {
        let text = format!(
            "cache rule c version {version}; field id: i64; dimension n 0 to 15; {body} place table \"cache{{n}}\";"
        );
        Arc::new(Program::parse(&text).unwrap())
    }

    fn both(old: &str, new: &str) -> Both {
        Both::new(rule(1, old), rule(2, new)).unwrap()
    }

    const KEYS: i64 = 4_000;

    /// Every key once at each of these steps; the share of misses at each, in permille.
    fn misses(change: Gradual, steps: &[u32], read_former: bool) -> Vec<u64> {
        let mut simulation = Simulation::new(change, 100_000, read_former);
        for &step in steps {
            for id in 0..KEYS {
                simulation.read(step, &[Value::I64(id)]).unwrap();
            }
        }
        let report = simulation.report();
        steps
            .iter()
            .map(|it| report[*it as usize].misses * 1000 / KEYS as u64)
            .collect()
    }

    #[test]
    fn r21_from_four_to_eight_at_once_half_of_the_entries_are_not_found() {
        let change = Gradual::new(both("else (id % 4);", "else (id % 8);"), 1);
        assert_eq!(misses(change.clone(), &[0, 1], false), [1000, 500]);
        // R22: unless the old owner is asked.
        assert_eq!(misses(change, &[0, 1], true), [1000, 0]);
    }

    #[test]
    fn r22_r23_in_steps_each_costs_its_share() {
        let change = Gradual::new(both("else (id % 4);", "else (id % 8);"), 10);
        let found = misses(change, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], false);
        assert_eq!(found[0], 1000);
        assert!(
            found[1..].iter().all(|it| (35..=65).contains(it)),
            "{found:?}"
        );
    }

    #[test]
    fn r22_a_ring_or_maglev_loses_little_more_than_the_new_node_takes() {
        for (kind, options, most) in [("ring", "virtual 256", 75), ("maglev", "", 75)] {
            let of = |nodes: &str| format!("{kind} r {{ {nodes} }} {options}; else (r(xxh3(id)));");
            let change = Gradual::new(both(&of("0 to 14"), &of("0 to 15")), 1);
            let found = misses(change, &[0, 1], false);
            // A sixteenth is 62.
            assert!((50..=most + 20).contains(&found[1]), "{kind}: {found:?}");
        }
    }

    #[test]
    fn many_reads_of_one_key_miss_once() {
        let change = Gradual::new(both("else (id % 4);", "else (id % 8);"), 1);
        let mut simulation = Simulation::new(change, 10, false);
        for (step, times) in [(0, 3), (1, 5), (1, 0), (7, 1)] {
            simulation
                .read_times(step, &[Value::I64(4)], times)
                .unwrap();
        }
        let report = simulation.report();
        let seen: Vec<_> = report.iter().map(|it| (it.reads, it.misses)).collect();
        assert_eq!(seen, [(3, 1), (6, 1)]);
    }

    #[test]
    fn nodes_forget_what_was_not_read_for_longest() {
        let change = Gradual::new(both("else (0);", "else (0);"), 1);
        let mut simulation = Simulation::new(change, 2, false);
        let mut read = |id| simulation.read(0, &[Value::I64(id)]).unwrap();
        assert_eq!(
            [1, 2, 1, 3, 1, 2].map(&mut read),
            [
                Access::Miss,
                Access::Miss,
                Access::Hit,
                Access::Miss,
                Access::Hit,
                Access::Miss
            ]
        );
    }
}
