//! Fuzzes rules as text: a fault with its place, or a rule that can be printed, encoded, compiled and evaluated.

#![no_main]

#[allow(dead_code, reason = "the ordinary test run calls the other entries")]
#[path = "../../crates/sharding/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::text(data));
