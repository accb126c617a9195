//! Fuzzes the importers of rules: whatever a document holds, there is a rule that parses or a refusal.

#![no_main]

#[allow(dead_code, reason = "the ordinary test run calls the other entries")]
#[path = "../../crates/sharding/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    entry::import(data);
});
