//! Rendezvous hashing, "highest random weight" (Thaler and Ravishankar, 1998), with weights.
//!
//! Any node may come or go, and only its own keys move; each look-up asks every node. The weighted form wants logarithms,
//! which differ between platforms in floating point: here they are whole numbers from a fixed algorithm. Must not know
//! what a node is.

use std::sync::LazyLock;

use super::nodes::{self, Node, NodesFault};

/// Nodes to choose among by rendezvous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    nodes: Box<[Candidate]>,
    /// All weights equal: the highest hash wins, and no logarithm is needed.
    even: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    node: u32,
    weight: u32,
    hash: u64,
}

impl Rendezvous {
    /// Nodes with their weights: a node of weight 2 gets twice the keys of one of weight 1.
    ///
    /// # Errors
    /// What is wrong with the nodes.
    pub fn new(named: &[Node], seed: u64) -> Result<Self, NodesFault> {
        let nodes: Box<[Candidate]> = nodes::checked(named)?
            .into_iter()
            .map(|(node, weight)| Candidate {
                node,
                weight,
                hash: nodes::node_hash(node, 0, seed),
            })
            .collect();
        let even = nodes
            .windows(2)
            .all(|pair| pair[0].weight == pair[1].weight);
        Ok(Self { nodes, even })
    }

    /// The node that a hashed key belongs to.
    #[must_use]
    pub fn find(&self, key: u64) -> u32 {
        let mut best = self.nodes[0];
        let mut best_hash = nodes::mix(key ^ best.hash);
        for candidate in &self.nodes[1..] {
            let hash = nodes::mix(key ^ candidate.hash);
            if self.beats((hash, candidate.weight), (best_hash, best.weight)) {
                (best, best_hash) = (*candidate, hash);
            }
        }
        best.node
    }

    /// Whether the first (hash, weight) draws the key from the second. On a tie the earlier, lower node keeps it.
    fn beats(&self, new: (u64, u32), old: (u64, u32)) -> bool {
        if self.even || new.1 == old.1 {
            return new.0 > old.0;
        }
        // -ln(hash / 2^64) / weight is exponentially distributed with rate `weight`; the least one wins with the
        // probability that the weights say. Compared by cross multiplication: at most 2^62 * 2^16.
        let left = u128::from(distance(new.0)) * u128::from(old.1);
        let right = u128::from(distance(old.0)) * u128::from(new.1);
        left < right
    }
}

/// Bits behind the point of a [`distance`].
const FRACTION_BITS: u32 = 56;

/// Steps in which the logarithm between two powers of two is tabled; between them it is a straight line, within 2^-25.
const STEPS_BITS: u32 = 11;

/// -log2(hash / 2^64), with [`FRACTION_BITS`] bits behind the point; never increasing in `hash`, at most 64.
fn distance(hash: u64) -> u64 {
    let hash = hash.max(1);
    let leading = hash.leading_zeros();
    // Without its leading one: the fraction of a number from 1 to 2.
    let fraction = (hash << leading) << 1;
    // The top bits choose the step; below 2^11, so it fits.
    let step = (fraction >> (64 - STEPS_BITS)) as usize;
    let rest = (fraction << STEPS_BITS) >> STEPS_BITS;
    let (low, high) = (LOGARITHMS[step], LOGARITHMS[step + 1]);
    let within = (u128::from(high - low) * u128::from(rest)) >> (64 - STEPS_BITS);
    let logarithm = low + within as u64;
    (u64::from(leading) << FRACTION_BITS) + ((1 << FRACTION_BITS) - logarithm)
}

/// log2(1 + i / 2^11) with [`FRACTION_BITS`] bits behind the point, for i from 0 to 2^11.
static LOGARITHMS: LazyLock<Box<[u64]>> =
    LazyLock::new(|| (0..=1_u64 << STEPS_BITS).map(logarithm).collect());

/// One entry, by the schoolbook method: squaring a number from 1 to 2 yields the next bit of its logarithm.
fn logarithm(step: u64) -> u64 {
    const POINT: u32 = 62;
    let mut number = (1_u64 << POINT) + (step << (POINT - STEPS_BITS));
    if number >> (POINT + 1) == 1 {
        return 1 << FRACTION_BITS;
    }
    let mut bits = 0_u64;
    for _ in 0..FRACTION_BITS {
        let square = (u128::from(number) * u128::from(number)) >> POINT;
        let over = square >> (POINT + 1) == 1;
        bits = (bits << 1) | u64::from(over);
        // From 1 to 4 before, so from 1 to 2 after; it fits.
        number = if over { square >> 1 } else { square } as u64;
    }
    bits
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::function::nodes::mix;

    #[test]
    fn logarithms_are_right() {
        for hash in [1, 2, 3, 1 << 20, (1 << 63) + 12_345, u64::MAX, u64::MAX / 3] {
            let want = 64.0 - (hash as f64).log2();
            let got = distance(hash) as f64 / (1_u64 << FRACTION_BITS) as f64;
            assert!((want - got).abs() < 1e-7, "{hash}: {want} {got}");
        }
        assert_eq!(distance(0), 64 << FRACTION_BITS);
        assert_eq!(distance(1 << 63), 1 << FRACTION_BITS);
    }

    #[test]
    fn load_follows_weight() {
        let nodes = Rendezvous::new(&[(0, 1), (1, 2), (2, 4)], 0).unwrap();
        let mut load = BTreeMap::new();
        for key in (0..70_000).map(mix) {
            *load.entry(nodes.find(key)).or_insert(0) += 1;
        }
        assert!((9_600..10_400).contains(&load[&0]), "{load:?}");
        assert!((19_400..20_600).contains(&load[&1]), "{load:?}");
        assert!((39_300..40_700).contains(&load[&2]), "{load:?}");
    }

    proptest! {
        #[test]
        fn distances_fall(a: u64, b: u64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(distance(low) >= distance(high));
            prop_assert!(distance(low.saturating_add(1)) <= distance(low));
        }

        #[test]
        fn a_node_that_leaves_gives_its_keys_and_no_others(gone in 0_u32..5, even: bool, key: u64, seed: u64) {
            let all: Vec<Node> = (0..5).map(|node| (node, if even { 3 } else { node + 1 })).collect();
            let rest: Vec<Node> = all.iter().copied().filter(|(node, _)| *node != gone).collect();
            let before = Rendezvous::new(&all, seed).unwrap().find(key);
            let after = Rendezvous::new(&rest, seed).unwrap().find(key);
            prop_assert!(before == after || before == gone);
        }

        #[test]
        fn more_weight_only_draws_keys(key: u64, seed: u64) {
            let light = Rendezvous::new(&[(0, 1), (1, 1), (2, 1)], seed).unwrap().find(key);
            let heavy = Rendezvous::new(&[(0, 1), (1, 5), (2, 1)], seed).unwrap().find(key);
            prop_assert!(light == heavy || heavy == 1);
        }
    }
}
