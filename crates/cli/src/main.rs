//! Placeholder until its author lands it.
fn main() {}
