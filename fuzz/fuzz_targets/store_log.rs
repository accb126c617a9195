//! Fuzzes the store's decoders of bytes on disk: `log_segment`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cadastre_store::fuzzing::log_segment(data));
