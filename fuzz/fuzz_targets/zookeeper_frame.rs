//! Fuzzes the decoders of ZooKeeper's requests and answers.

#![no_main]

#[path = "../../crates/coordination/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::zookeeper_frame(data));
