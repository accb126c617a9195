//! Fuzzes rules as bytecode, and rule sets: a fault, or a rule like any other.

#![no_main]

#[allow(dead_code, reason = "the ordinary test run calls the other entries")]
#[path = "../../crates/sharding/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::bytecode(data));
