//! Tests of bytecode: golden bytes, damage, round trips.

use proptest::prelude::*;

use super::{decode, encode};
use crate::{
    random::{self, Flavour, Source},
    text::{parse, tests::ORDERS},
};

fn orders() -> Vec<u8> {
    encode(&parse(ORDERS).unwrap()).unwrap()
}

#[test]
fn bytes_and_hash_of_a_rule_never_change() {
    let bytes = orders();
    let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    random::golden("orders.hex", &format!("{hex}\n"));
    random::golden("orders.sha256", &format!("{}\n", super::hash(&bytes)));
}

#[test]
fn no_damage_goes_unseen_or_panics() {
    let bytes = orders();
    let rule = decode(&bytes).unwrap();
    for length in 0..bytes.len() {
        decode(&bytes[..length]).unwrap_err();
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            if let Ok(other) = decode(&damaged) {
                assert_ne!(other, rule);
                assert_eq!(encode(&other).unwrap(), damaged);
                assert_eq!(parse(&other.to_string()).unwrap(), other);
            }
        }
    }
}

#[test]
fn logic_hash_leaves_version_and_places_out() {
    let text = ORDERS;
    let rule = parse(text).unwrap();
    let moved = parse(
        &text
            .replace("version 3", "version 4")
            .replace("orders_hot", "elsewhere"),
    )
    .unwrap();
    let other = parse(&text.replace("h % 1024", "h % 1023")).unwrap();
    assert_eq!(super::logic_hash(&rule), super::logic_hash(&moved));
    assert_ne!(super::logic_hash(&rule), super::logic_hash(&other));
    assert_ne!(encode(&rule).unwrap(), encode(&moved).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_000 } else { 20_000 }))]

    #[test]
    fn damaged_code_is_refused_or_a_rule_like_any_other(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 1..5),
    ) {
        let rule = random::rule(&mut Source::new(&bytes), Flavour::Any);
        let mut code = encode(&rule).unwrap();
        let at = at.index(code.len());
        let end = (at + with.len()).min(code.len());
        code.splice(at..end, with);
        if let Ok(other) = decode(&code) {
            let text = other.to_string();
            prop_assert_eq!(&parse(&text).map_err(|it| format!("{it}\n{text}")).unwrap(), &other);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut code = b"CDRULE\x01".to_vec();
        code.extend(bytes);
        let _ = decode(&code);
    }
}
