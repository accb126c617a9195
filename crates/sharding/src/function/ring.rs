//! The consistent hash ring: virtual nodes with weights on a circle of 64-bit positions (Karger et al., 1997).
//!
//! A key belongs to the first virtual node at or behind its position. A new node takes only from the nodes behind it on
//! the circle, so all others stay open while it is filled (R31). Must not know what a node is.

use super::nodes::{self, Node, NodesFault};

/// Most virtual nodes of a ring: 16 MiB of positions.
pub const POINTS_MAX: u64 = 1 << 20;

/// A ring. Two rings of the same nodes, weights, count of virtual nodes and seed are equal, whatever the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Sorted; apart from the nodes, so that the search touches few cache lines.
    positions: Box<[u64]>,
    nodes: Box<[u32]>,
}

impl Ring {
    /// A ring in which each node has `virtual_nodes` points for each unit of its weight.
    ///
    /// # Errors
    /// What is wrong with the nodes, or [`NodesFault::TooLarge`] above [`POINTS_MAX`].
    pub fn new(named: &[Node], virtual_nodes: u32, seed: u64) -> Result<Self, NodesFault> {
        let named = nodes::checked(named)?;
        let of = |weight: u32| u64::from(weight) * u64::from(virtual_nodes);
        let points: u64 = named.iter().map(|(_, weight)| of(*weight)).sum();
        if points == 0 {
            return Err(NodesFault::NoNode);
        }
        if points > POINTS_MAX {
            return Err(NodesFault::TooLarge {
                points,
                max: POINTS_MAX,
            });
        }
        let mut circle: Vec<(u64, u32)> = named
            .iter()
            .flat_map(|&(node, weight)| {
                // Below POINTS_MAX, so it fits.
                (0..of(weight) as u32).map(move |part| (nodes::node_hash(node, part, seed), node))
            })
            .collect();
        // Two points at one position are as good as impossible; then the lower node has it.
        circle.sort_unstable();
        Ok(Self {
            positions: circle.iter().map(|(position, _)| *position).collect(),
            nodes: circle.iter().map(|(_, node)| *node).collect(),
        })
    }

    /// The node that a hashed key belongs to.
    #[must_use]
    pub fn find(&self, key: u64) -> u32 {
        self.nodes[self.behind(key)]
    }

    /// The index of the first point at or behind a position.
    fn behind(&self, key: u64) -> usize {
        let at = self.positions.partition_point(|position| *position < key);
        if at == self.positions.len() { 0 } else { at }
    }

    /// The points in order: each node's virtual nodes, for pictures and shares.
    pub fn points(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.positions
            .iter()
            .copied()
            .zip(self.nodes.iter().copied())
    }

    /// The nodes in the order in which a key meets them, each once per virtual node: where bounded load goes on.
    fn from(&self, key: u64) -> impl Iterator<Item = u32> + '_ {
        let at = self.behind(key);
        self.nodes[at..].iter().chain(&self.nodes[..at]).copied()
    }
}

/// Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2017), for caches.
///
/// **Unsafe for stores**: the answer depends on the loads at the moment, not on the key alone, so it cannot be y = F(x)
/// (R40). It is no function of the rule language; who spreads cache requests calls it.
#[derive(Debug, Clone)]
pub struct BoundedLoad<'a> {
    /// Where keys lie.
    pub ring: &'a Ring,
    /// How far above the mean a node's load may be, hundredths of the mean: 25 caps each node at 1.25 times the mean.
    pub above_mean_percent: u32,
}

impl BoundedLoad<'_> {
    /// The node for one more request of this key, among `nodes` nodes that hold `total` requests by now; `load` gives a
    /// node's own. The first node in ring order below the cap; the key's own node if all are full.
    pub fn find(&self, key: u64, nodes: u32, total: u64, load: impl Fn(u32) -> u64) -> u32 {
        let share = u128::from(total) + 1;
        let percent = 100 + u128::from(self.above_mean_percent);
        // Rounded up, so that there is always room: the caps together are above the total.
        let cap = (share * percent).div_ceil(100 * u128::from(nodes.max(1)));
        self.ring
            .from(key)
            .find(|node| u128::from(load(*node)) < cap)
            .unwrap_or_else(|| self.ring.find(key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::function::nodes::mix;

    fn ring(nodes: &[Node]) -> Ring {
        Ring::new(nodes, 128, 0).unwrap()
    }

    #[test]
    fn order_does_not_matter() {
        assert_eq!(ring(&[(1, 1), (2, 3)]), ring(&[(2, 3), (1, 1)]));
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(Ring::new(&[(1, 1)], 0, 0), Err(NodesFault::NoNode));
        assert_eq!(
            Ring::new(&[(1, 65536)], u32::MAX, 0),
            Err(NodesFault::TooLarge {
                points: 65536 * u64::from(u32::MAX),
                max: POINTS_MAX
            })
        );
    }

    #[test]
    fn r31_a_new_node_takes_only_from_others_and_gives_nothing_between_them() {
        let before = ring(&[(0, 1), (1, 1), (2, 1), (3, 1)]);
        let after = ring(&[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
        let mut moved = 0;
        for key in (0..20_000).map(mix) {
            if before.find(key) != after.find(key) {
                assert_eq!(after.find(key), 4);
                moved += 1;
            }
        }
        // A fifth of 20,000 is 4,000; 128 virtual nodes spread within some percent.
        assert!((3_000..5_000).contains(&moved), "{moved} moved");
    }

    #[test]
    fn load_follows_weight() {
        let ring = Ring::new(&[(0, 1), (1, 2), (2, 4)], 256, 7).unwrap();
        let mut load = BTreeMap::new();
        for key in (0..70_000).map(mix) {
            *load.entry(ring.find(key)).or_insert(0) += 1;
        }
        assert!((8_000..12_000).contains(&load[&0]), "{load:?}");
        assert!((17_000..23_000).contains(&load[&1]), "{load:?}");
        assert!((36_000..44_000).contains(&load[&2]), "{load:?}");
    }

    #[test]
    fn bounded_load_caps_every_node() {
        let ring = ring(&[(0, 1), (1, 1), (2, 1), (3, 1)]);
        let bounded = BoundedLoad {
            ring: &ring,
            above_mean_percent: 25,
        };
        let mut load = BTreeMap::new();
        // One hot key alone: the overflow goes on round the ring.
        for total in 0..10_000_u64 {
            let node = bounded.find(42, 4, total, |node| load.get(&node).copied().unwrap_or(0));
            *load.entry(node).or_insert(0_u64) += 1;
        }
        assert!(load.values().all(|load| *load <= 3_125), "{load:?}");
        assert_eq!(load.values().sum::<u64>(), 10_000);
    }

    proptest! {
        #[test]
        fn a_ring_agrees_with_a_plain_search(nodes in prop::collection::btree_map(0_u32..50, 1_u32..4, 1..10), key: u64, seed: u64) {
            let named: Vec<Node> = nodes.into_iter().collect();
            let ring = Ring::new(&named, 3, seed).unwrap();
            let circle: Vec<(u64, u32)> = ring.points().collect();
            let plain = circle.iter().find(|(position, _)| *position >= key).unwrap_or(&circle[0]).1;
            prop_assert_eq!(ring.find(key), plain);
            for (position, node) in circle {
                prop_assert_eq!(ring.find(position), node);
            }
        }

        #[test]
        fn a_node_that_leaves_gives_its_keys_and_no_others(gone in 0_u32..5, key: u64) {
            let all = [(0, 1), (1, 1), (2, 2), (3, 1), (4, 1)];
            let rest: Vec<Node> = all.into_iter().filter(|(node, _)| *node != gone).collect();
            let (before, after) = (ring(&all).find(key), ring(&rest).find(key));
            prop_assert!(before == after || before == gone);
        }
    }
}
