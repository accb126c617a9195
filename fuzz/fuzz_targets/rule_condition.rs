//! Fuzzes conditions: whatever a query says, enumeration ends in its budget and answers slots that exist.

#![no_main]

#[allow(dead_code, reason = "the ordinary test run calls the other entries")]
#[path = "../../crates/sharding/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::condition(data));
