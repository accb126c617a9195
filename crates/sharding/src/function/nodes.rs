//! What ring, rendezvous and Maglev have in common: nodes with weights, the mixing of hashes, and jump hash, which
//! needs neither.
//!
//! Must not know what a node is: a slot of a store, a cache server, a machine.

/// A node to choose among: its number and its weight.
pub type Node = (u32, u32);

/// Most nodes of a ring, a rendezvous or a Maglev table; more than any cluster has machines, and rendezvous asks each.
pub const NODES_MAX: usize = 1 << 16;

/// Heaviest node. Sums of all weights and products with table sizes then stay far below 64 bits.
pub const WEIGHT_MAX: u32 = 1 << 16;

/// Why nodes cannot be chosen among.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodesFault {
    /// No node, so no answer.
    #[error("there is no node of a weight above 0")]
    NoNode,
    /// More than [`NODES_MAX`].
    #[error("more than {NODES_MAX} nodes")]
    TooMany,
    /// The same number twice.
    #[error("node {0} is named twice")]
    Twice(u32),
    /// Heavier than [`WEIGHT_MAX`].
    #[error("node {0} is heavier than {WEIGHT_MAX}")]
    TooHeavy(u32),
    /// A table or a ring larger than allowed.
    #[error("{points} points are more than {max}")]
    TooLarge {
        /// How many the nodes and weights would need.
        points: u64,
        /// How many there may be.
        max: u64,
    },
    /// A Maglev table's size must be prime and above the number of nodes.
    #[error("a table of {0} entries: it must be a prime number above the number of nodes")]
    NotPrime(u64),
}

/// The nodes of a weight above 0, by number, so that the order they were named in cannot matter.
pub(super) fn checked(nodes: &[Node]) -> Result<Vec<Node>, NodesFault> {
    if nodes.len() > NODES_MAX {
        return Err(NodesFault::TooMany);
    }
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    for pair in sorted.windows(2) {
        if pair[0].0 == pair[1].0 {
            return Err(NodesFault::Twice(pair[0].0));
        }
    }
    if let Some((node, _)) = sorted.iter().find(|(_, weight)| *weight > WEIGHT_MAX) {
        return Err(NodesFault::TooHeavy(*node));
    }
    sorted.retain(|(_, weight)| *weight > 0);
    if sorted.is_empty() {
        return Err(NodesFault::NoNode);
    }
    Ok(sorted)
}

/// Mixes a 64-bit number so that every bit of it reaches every bit of the result: Stafford's "mix 13", the finalizer
/// of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). It is one to one.
#[must_use]
pub const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The hash of a node's `part`: where a virtual node lies, where a table's permutation starts.
pub(super) const fn node_hash(node: u32, part: u32, seed: u64) -> u64 {
    // 0x9e37… is 2^64 divided by the golden ratio, SplitMix64's step.
    let number = ((node as u64) << 32) | part as u64;
    mix(mix(number.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(seed))
}

/// Jump consistent hash (Lamping and Veach, 2014): a bucket from 0 to `buckets - 1`; bucket 0 if there are none.
/// With one bucket more, a share of 1/(buckets + 1) of the keys moves, all of it to the new bucket.
///
/// Only the last bucket can come or go, so a bucket is a slot rather than a machine. The two operations on `f64` are
/// correctly rounded by IEEE 754, hence the same everywhere.
#[must_use]
pub fn jump(key: u64, buckets: u32) -> u32 {
    let mut state = key;
    let mut bucket = 0_u32;
    let mut next = 0_u64;
    while next < u64::from(buckets) {
        // Below `buckets`, so it fits.
        bucket = next as u32;
        state = state
            .wrapping_mul(2_862_933_555_777_941_757)
            .wrapping_add(1);
        let divisor = ((state >> 33) + 1) as f64;
        // At most 2^32 * 2^31, far inside what a 64-bit integer holds.
        next = ((f64::from(bucket) + 1.0) * ((1_u64 << 31) as f64 / divisor)) as u64;
    }
    bucket
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// dgryski/go-jump's jump_test.go and whitfin/jumper's tests, both "compiled from various other libraries".
    #[test]
    fn published_jumps() {
        let vectors = [
            (1, 1, 0),
            (42, 57, 43),
            (0xDEAD_10CC, 1, 0),
            (0xDEAD_10CC, 666, 361),
            (256, 1024, 520),
            (0, 2, 0),
            (4, 2, 1),
            (7, 2, 0),
            (1, 128, 55),
            (129, 128, 120),
            (128, 100_000_000, 38_172_097),
            (128, 2_147_483_648, 1_644_467_860),
            (u64::MAX, 128, 92),
        ];
        for (key, buckets, bucket) in vectors {
            assert_eq!(jump(key, buckets), bucket, "jump({key}, {buckets})");
        }
        assert_eq!(jump(5, 0), 0);
    }

    proptest! {
        #[test]
        fn a_jump_stays_or_goes_to_the_new_bucket(key: u64, buckets in 1_u32..5000) {
            let (before, after) = (jump(key, buckets), jump(key, buckets + 1));
            prop_assert!(before < buckets);
            prop_assert!(after == before || after == buckets);
        }

        #[test]
        fn any_number_of_buckets_ends(key: u64, buckets: u32) {
            prop_assert!(jump(key, buckets) < buckets.max(1));
        }
    }

    /// SplitMix64 from seed 1234567 (rosettacode.org, "Pseudo-random numbers/Splitmix64").
    #[test]
    fn published_mixes() {
        let mut state = 1_234_567_u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        };
        assert_eq!(next(), 6_457_827_717_110_365_317);
        assert_eq!(next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn nodes_are_checked() {
        assert_eq!(checked(&[]), Err(NodesFault::NoNode));
        assert_eq!(checked(&[(1, 0)]), Err(NodesFault::NoNode));
        assert_eq!(checked(&[(1, 1), (1, 2)]), Err(NodesFault::Twice(1)));
        assert_eq!(
            checked(&[(1, WEIGHT_MAX + 1)]),
            Err(NodesFault::TooHeavy(1))
        );
        assert_eq!(checked(&[(2, 1), (1, 3), (4, 0)]), Ok(vec![(1, 3), (2, 1)]));
        let many: Vec<Node> = (0..=NODES_MAX as u32).map(|node| (node, 1)).collect();
        assert_eq!(checked(&many), Err(NodesFault::TooMany));
    }
}
