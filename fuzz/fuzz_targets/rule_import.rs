//! Fuzzes the importers of rules: whatever a document holds, there is a rule that parses or a refusal.

#![no_main]

use cadastre_sharding::import::{Options, shardingsphere, tddl};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let options = Options {
        years: Some((2020, 2021)),
        ..Options::default()
    };
    for import in [tddl(text, &options), shardingsphere(text, &options)] {
        for rule in import.map_or_else(|_| Vec::new(), |it| it.rules) {
            // What is printed is a rule, or one that our own bounds refuse.
            let _ = cadastre_sharding::parse(&rule.text);
        }
    }
});
