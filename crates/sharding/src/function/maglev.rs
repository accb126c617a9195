//! Maglev's lookup table (Eisenbud et al., NSDI 2016, section 3.4), with weights, for caches.
//!
//! The fastest look-up and the most even load; a change of the nodes moves a little more than it must, so it is for
//! caches and not for stores. Must not know what a node is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::nodes::{self, Node, NodesFault};

/// Entries of a table if nothing else is said: the paper's small size, prime.
pub const SIZE_DEFAULT: u64 = 65_537;

/// Most entries of a table: 4 MiB.
pub const SIZE_MAX: u64 = 1 << 20;

/// A filled table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maglev {
    table: Box<[u32]>,
}

/// The order in which a node wants the table's entries: every entry once, since the size is prime.
#[derive(Debug, Clone, Copy)]
struct Wish {
    next: u64,
    skip: u64,
}

impl Maglev {
    /// Fills a table of `size` entries, a prime number.
    ///
    /// # Errors
    /// What is wrong with the nodes; [`NodesFault::TooLarge`], [`NodesFault::NotPrime`].
    pub fn new(named: &[Node], size: u64, seed: u64) -> Result<Self, NodesFault> {
        let named = nodes::checked(named)?;
        if size > SIZE_MAX {
            return Err(NodesFault::TooLarge {
                points: size,
                max: SIZE_MAX,
            });
        }
        if !is_prime(size) || size <= named.len() as u64 {
            return Err(NodesFault::NotPrime(size));
        }
        let wishes = named.iter().map(|(node, _)| Wish {
            next: nodes::node_hash(*node, 0, seed) % size,
            skip: nodes::node_hash(*node, 1, seed) % (size - 1) + 1,
        });
        Ok(Self {
            table: fill(&named, wishes.collect(), size).into(),
        })
    }

    /// The node that a hashed key belongs to.
    #[must_use]
    pub fn find(&self, key: u64) -> u32 {
        // Below the table's length, so it fits.
        self.table[(key % self.table.len() as u64) as usize]
    }

    /// The table's entries, for shares and pictures.
    #[must_use]
    pub fn entries(&self) -> &[u32] {
        &self.table
    }
}

/// The nodes take turns; each takes the first free entry in its own order. A node of half the greatest weight takes
/// part in every second round. Rounds in which most sit out cost nothing: the heap holds each node's next round.
fn fill(named: &[Node], mut wishes: Vec<Wish>, size: u64) -> Vec<u32> {
    let heaviest = named.iter().map(|(_, weight)| *weight).max().unwrap_or(1);
    // Turn number `turn` of a node of this weight; at most SIZE_MAX * WEIGHT_MAX.
    let round = |turn: u64, weight: u32| (turn * u64::from(heaviest)).div_ceil(u64::from(weight));
    let mut turns = vec![1_u64; named.len()];
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = named
        .iter()
        .enumerate()
        .map(|(at, (_, weight))| Reverse((round(1, *weight), at)))
        .collect();
    let mut table = vec![None; size as usize];
    let mut free = size;
    while free > 0 {
        let Some(Reverse((_, at))) = next.pop() else {
            break;
        };
        let (node, weight) = named[at];
        let wish = &mut wishes[at];
        while table[wish.next as usize].is_some() {
            wish.next = (wish.next + wish.skip) % size;
        }
        table[wish.next as usize] = Some(node);
        free -= 1;
        turns[at] += 1;
        next.push(Reverse((round(turns[at], weight), at)));
    }
    // Every entry is taken when none is free.
    table.into_iter().flatten().collect()
}

/// By trial division: the size is bounded.
fn is_prime(number: u64) -> bool {
    number >= 2
        && (2..)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Table 1 of the paper: seven entries, three nodes, then without the second.
    #[test]
    fn the_papers_example() {
        let wish = |next, skip| Wish { next, skip };
        let (b0, b1, b2) = (wish(3, 4), wish(0, 2), wish(3, 1));
        let before = fill(&[(0, 1), (1, 1), (2, 1)], vec![b0, b1, b2], 7);
        assert_eq!(before, [1, 0, 1, 0, 2, 2, 0]);
        let after = fill(&[(0, 1), (2, 1)], vec![b0, b2], 7);
        assert_eq!(after, [0, 0, 0, 0, 2, 2, 2]);
    }

    #[test]
    fn sizes_are_checked() {
        let nodes = [(0, 1), (1, 1)];
        for size in [0, 1, 2, 4, 65_536] {
            assert_eq!(
                Maglev::new(&nodes, size, 0),
                Err(NodesFault::NotPrime(size))
            );
        }
        assert!(Maglev::new(&nodes, 3, 0).is_ok());
        assert!(matches!(
            Maglev::new(&nodes, SIZE_MAX + 7, 0),
            Err(NodesFault::TooLarge { .. })
        ));
    }

    #[test]
    fn load_follows_weight_to_the_entry() {
        let table = Maglev::new(&[(0, 1), (1, 2), (2, 4)], SIZE_DEFAULT, 0).unwrap();
        let mut load = BTreeMap::new();
        for node in table.entries() {
            *load.entry(*node).or_insert(0_i64) += 1;
        }
        for (node, weight) in [(0, 1), (1, 2), (2, 4)] {
            assert!((load[&node] - weight * 65_537 / 7).abs() <= 2, "{load:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_nodes_fill_a_table(nodes in prop::collection::btree_map(any::<u32>(), 0_u32..5, 0..20), key: u64, seed: u64) {
            let named: Vec<Node> = nodes.clone().into_iter().collect();
            match Maglev::new(&named, 251, seed) {
                Ok(table) => {
                    prop_assert_eq!(table.entries().len(), 251);
                    prop_assert!(nodes[&table.find(key)] > 0);
                }
                Err(fault) => prop_assert_eq!(fault, NodesFault::NoNode),
            }
        }
    }
}
