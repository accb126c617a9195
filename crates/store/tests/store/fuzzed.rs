//! Damaged bytes on disk are read or refused, never a crash (T11): the golden log's segments, changed at random. Run by
//! `cargo xtask test`: `cargo test --workspace --features cadastre-sim/planted-faults,cadastre-store/fuzzing --test store fuzzed`; `/fuzz` goes deeper.

use std::path::Path;

use cadastre_env::Rng;
use cadastre_store::fuzzing;
use rand::{Rng as _, SeedableRng};

/// Changed copies of each segment.
const COPIES: u64 = 3000;

/// Bytes of a segment that matter: its groups are at its beginning.
const BYTES_MAX: usize = 8 << 10;

fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..5) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = rng.random(),
            2 => bytes.truncate(at.max(1)),
            3 => {
                let to = (at + rng.random_range(1..600)).min(bytes.len());
                bytes[at..to].fill(0);
            }
            _ => {
                let from = rng.random_range(0..bytes.len());
                let len = rng.random_range(1..64).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
        }
    }
}

#[test]
fn t11_a_damaged_segment_is_read_or_refused() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/1/log");
    let mut rng = Rng::seed_from_u64(11);
    let mut segments = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let mut whole = std::fs::read(entry.unwrap().path()).unwrap();
        whole.truncate(BYTES_MAX);
        if whole.iter().all(|byte| *byte == 0) {
            continue;
        }
        segments += 1;
        fuzzing::log_segment(&whole);
        for _ in 0..COPIES {
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut rng);
            fuzzing::log_segment(&bytes);
            // Rows, operands and everything else that a segment holds, at any place.
            let at = rng.random_range(0..bytes.len());
            fuzzing::row_values(&bytes[at..]);
        }
    }
    assert!(segments > 0);
}
