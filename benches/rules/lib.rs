//! What rules cost beside their peers: see `benches/evaluate.rs`. `cargo xtask bench rules`.
