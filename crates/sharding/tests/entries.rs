//! The entries of the fuzz targets, called with damaged and arbitrary bytes: total on everything.
#![allow(clippy::unwrap_used, reason = "a test")]

mod entry;

use cadastre_sharding::{encode, parse};
use proptest::prelude::*;

const ORDERS: &str = include_str!("../testdata/orders.rule");

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn damaged_text_does_no_harm(at in any::<prop::sample::Index>(), with in "[ -~]{0,6}", cut in 0_usize..8) {
        let at = at.index(ORDERS.len());
        let end = (at + cut).min(ORDERS.len());
        let text = [&ORDERS.as_bytes()[..at], with.as_bytes(), &ORDERS.as_bytes()[end..]].concat();
        entry::text(&text);
    }

    #[test]
    fn damaged_bytecode_does_no_harm(at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..4)) {
        let mut bytes = encode(&parse(ORDERS).unwrap()).unwrap();
        let at = at.index(bytes.len());
        let end = (at + 2).min(bytes.len());
        bytes.splice(at..end, with);
        entry::bytecode(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        entry::text(&bytes);
        entry::bytecode(&bytes);
        entry::condition(&bytes);
    }

    #[test]
    fn conditions_of_any_words_do_no_harm(words in prop::collection::vec(prop::sample::select(WORDS), 0..30)) {
        entry::condition(words.join(" ").as_bytes());
    }
}

const WORDS: &[&str] = &[
    "user_id",
    "gmt",
    "name",
    "and",
    "or",
    "not",
    "=",
    "<",
    ">=",
    "!=",
    "in",
    "(",
    ")",
    ",",
    "[",
    "]",
    "5",
    "-7",
    "'2012-01-01'",
    "'n%'",
    "like",
    "is",
    "null",
    "between",
    "now()",
    "big",
    "day(gmt)",
    "true",
    "18446744073709551615",
];
