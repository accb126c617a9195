//! Fuzzes the decoder `hadoop_transfer` of `wire`.

#![no_main]

#[allow(dead_code, reason = "bounds of memory are checked by the ordinary test run")]
#[path = "../../crates/wire/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run("hadoop_transfer", data));
