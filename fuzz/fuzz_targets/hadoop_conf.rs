//! Fuzzes the reader of Hadoop's configuration files, and what is made of a nameservice's keys.

#![no_main]

#[path = "../../crates/rpc/tests/entry/mod.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::hadoop_conf(data));
