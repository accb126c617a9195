//! Tests of bytecode: golden bytes, damage, round trips.

use proptest::prelude::*;

use super::{decode, encode};
use crate::{
    Program, Value,
    function::hash::{integer_bytes, xxh3_64},
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

/// R40: a bound on loads is a part of the rule, and rules without one are what they were.
#[test]
fn a_bound_on_loads_has_bytes_of_its_own_and_changes_no_answer() {
    let rule = |bound: &str| {
        let text = format!(
            "cache rule c version 1; field id: i64; dimension n 0 to 3; ring r {{ 0, 1 weight 2, 2, 3 }} virtual 64 {bound} seed 5; \
             else (r(xxh3(id))); place table \"c{{n}}\";"
        );
        let rule = parse(&text).unwrap();
        assert_eq!(parse(&rule.to_string()).unwrap(), rule);
        let bytes = encode(&rule).unwrap();
        assert_eq!(decode(&bytes).unwrap(), rule);
        (bytes, Program::compile(rule).unwrap())
    };
    let ((plain, without), (bounded, with)) = (rule(""), rule("bounded 25"));
    let differ = plain.iter().zip(&bounded).position(|(a, b)| a != b);
    let at = differ.unwrap();
    // Definition 6 in place of 3, and the bound behind the points.
    assert_eq!((plain[at], bounded[at], bounded[at + 2]), (3, 6, 25));
    assert_eq!(
        plain[at + 1..],
        [&bounded[at + 1..=at + 1], &bounded[at + 3..]].concat()
    );
    assert!(without.bounded("r").is_none() && with.bounded("x").is_none());
    let mut balance = with.bounded("r").unwrap();
    for id in 0..1_000 {
        let fields = [Value::I64(id)];
        let slot = without.evaluate(&fields).unwrap();
        assert_eq!(with.evaluate(&fields).unwrap(), slot);
        // With room enough the node is the rule's own.
        let node = balance.assign(xxh3_64(&integer_bytes(id), 0));
        balance.release(node);
        assert_eq!(node, slot.0);
    }
    for _ in 0..1_000 {
        balance.assign(0);
    }
    // 25 % above a fifth for each unit of weight.
    let loads = [0, 1, 2, 3].map(|node| balance.load(node));
    assert_eq!(loads.iter().sum::<u64>(), 1_000);
    for (load, cap) in loads.iter().zip([250, 500, 250, 250]) {
        assert!(*load <= cap, "{loads:?}");
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
