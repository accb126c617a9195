//! Fuzzes the script tier: whatever a script says, it ends, within its memory, and does no harm.

#![no_main]

#[allow(dead_code, reason = "the ordinary test run calls the other entries")]
#[path = "../../crates/sharding/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::script(data));
