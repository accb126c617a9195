//! Fuzzes the store's decoders of bytes on disk: `row_values`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cadastre_store::fuzzing::row_values(data));
