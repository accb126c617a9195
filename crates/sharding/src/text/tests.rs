//! Tests of the text of rules: round trips, places of faults, texts of strangers.

use proptest::prelude::*;

use super::{parse, parse_bytes};
use crate::{
    code,
    random::{self, Flavour, Source},
};

/// The example of the RFC.
pub(crate) const ORDERS: &str = r#"
rule orders version 3;
zone "Asia/Shanghai" data "2026f";    # part of the text, so of the hash
field user_id: i64;
field gmt: timestamp null slot (0, 1);
field name: string null value "";
dimension shard 0 to 1023;
dimension day 1 to 31;
key fixed user_id, reversed gmt, rest name;
list big = [2001, 2000, 2000];
table home: i64 => i64 { 7 => 3, 5 => 4, else 0 };
ranges chunk: string { 0, "g" => 1, "n" => 4 };
ring nodes { 0, 1 weight 2, 2 to 5 } virtual 64 seed 7;
let h = xxh3(user_id);
when user_id in big then (1023, day(gmt));
when name not in ["x", 'y'] and (user_id < 5 or -user_id > 3) then (nodes(h), 1);
when gmt >= "2012-01-01" and gmt < timestamp "2012-01-02T03:04:05.000006+08:00" then
    (if home(user_id) == 3 then chunk(name) else -(-3), day_of_week(gmt, "UTC"));
else (h % 1024, day(gmt));
place cluster "c{shard / 256}" table "orders_{shard:4}_{day:2}";
place (7, *) table "orders_hot_{day:2}";
place (8 to 9, 1) table "{{x}}{shard / 2 % 3 + 1:2}";
"#;

#[test]
fn r49_the_example_is_read_and_its_canonical_text_means_the_same() {
    let rule = parse(ORDERS).unwrap();
    let text = rule.to_string();
    assert_eq!(parse(&text).unwrap(), rule, "{text}");
    assert_eq!(parse(&text).unwrap().to_string(), text);
    assert_eq!(rule.zone_data.as_deref(), Some("2026f"));
}

#[test]
fn the_canonical_text_of_the_example_does_not_change() {
    random::golden("orders.rule", &parse(ORDERS).unwrap().to_string());
}

/// A rule around one line, with the line's number 6.
fn with(line: &str) -> String {
    format!(
        "rule r version 1;\nfield a: i64;\nfield h: u64;\nfield t: timestamp;\ndimension d 0 to 9;\n{line}\nelse (0);\n\
         place table \"t{{d}}\";\n"
    )
}

#[test]
fn faults_point_at_line_and_column_and_say_what_was_expected() {
    let cases = [
        (
            "when a < then (1);",
            6,
            10,
            "then cannot stand here",
            "a name",
        ),
        ("when a < 1 then 1;", 6, 17, "1 cannot stand here", "("),
        (
            "when a then (1);",
            6,
            6,
            "condition of the type i64",
            "bool",
        ),
        (
            "when a == h then (1);",
            6,
            8,
            "== of i64 and u64",
            "two of one type",
        ),
        ("when b == 1 then (1);", 6, 6, "no field or let b", "a"),
        (
            "when a == 1 then (1, 2);",
            6,
            19,
            "a slot of 2 numbers",
            "1, one for each",
        ),
        (
            "when t > \"2012-13-01\" then (1);",
            6,
            10,
            "is no timestamp",
            "yyyy-mm-dd",
        ),
        ("let x = xxh(a);", 6, 9, "no function xxh", ""),
        (
            "let x = day(a);",
            6,
            9,
            "day of (i64)",
            "(date), (timestamp)",
        ),
        ("let x = hour(t, \"Mars/Base\");", 6, 17, "Mars/Base", ""),
        ("let x = 99999999999999999999;", 6, 9, "does not fit", ""),
        ("let x = \"a\\q\";", 6, 9, "unknown escape", "\\n"),
        (
            "list l = [1, \"a\"];",
            6,
            14,
            "constant of the type string",
            "i64",
        ),
        ("let x = a ? 1;", 6, 11, "no word or sign", ""),
        ("let day = 1;\nlet a = 2;", 7, 1, "declared twice", ""),
        ("when a is null then (1);", 6, 8, "belong in conditions", ""),
        (
            "when a < 1 < 2 then (1);",
            6,
            12,
            "< cannot stand here",
            "then",
        ),
        ("zone \"UTC\"; zone \"UTC\";", 6, 13, "a second zone", ""),
        (
            "place table \"{e}\";",
            6,
            13,
            "there is no dimension e",
            "d",
        ),
    ];
    for (line, at_line, at_column, message, expected) in cases {
        let error = parse(&with(line)).unwrap_err();
        assert_eq!(
            (error.line, error.column),
            (at_line, at_column),
            "{line}: {error}"
        );
        assert!(error.message.contains(message), "{line}: {error}");
        let found = expected.is_empty() || error.expected.iter().any(|it| it.contains(expected));
        assert!(found, "{line}: {error}");
    }
    let error = parse("rule r version 1;\nfield a: i64;\ndimension d 0 to 9;").unwrap_err();
    assert!(error.message.contains("no alternative holds"), "{error}");
    assert_eq!(
        parse("rule r").unwrap_err().message,
        "the text ends too early"
    );
}

#[test]
fn what_has_no_place_in_a_line_is_refused_too() {
    for (line, message) in [
        ("dimension e 5 to 4;", "a slot of 1 numbers"),
        ("field c: i64 null slot (10);", "is no slot"),
        ("field c: i64 domain 5 to 1;", "domain"),
        ("key rest a;", "does not fit"),
        ("key fixed a, fixed a;", "twice"),
        ("key until a \"|\";", "does not fit"),
        ("maglev m { 0, 1 } entries 7;", "cache rules only"),
        ("ring r { 0, 1 } bounded 25;", "cache rules only"),
        ("rendezvous r { 0, 1 } bounded 25;", "no such option"),
        ("ring r { 0, 1 } bounded 4294967296;", "32 bits"),
        ("ring r { 0, 1 } virtual 99999999;", "points"),
        ("ring r { 1, 1 };", "different"),
        (
            "table x: i64 => i64 { 1 => 1, 1 => 2, else 0 };",
            "different",
        ),
        ("list x = [1]; list x = [2];", "twice"),
        ("place (10) table \"t\";", "leaves dimension"),
        ("place table \"\";", "no name"),
    ] {
        let error = parse(&with(line)).unwrap_err();
        assert!(error.to_string().contains(message), "{line}: {error}");
    }
}

#[test]
fn texts_of_strangers_end_in_a_clear_error_not_in_a_fallen_stack() {
    let sum = format!("let x = a{};", " + a".repeat(1_000_000));
    let parentheses = format!("let x = {}a{};", "(".repeat(10_000), ")".repeat(10_000));
    let nots = format!("let x = {}a == 1;", "not ".repeat(10_000));
    let negations = format!("let x = {}a;", "-".repeat(10_000));
    let ifs = format!(
        "let x = {}1{};",
        "if a == 1 then ".repeat(10_000),
        " else 2".repeat(10_000)
    );
    let calls = format!("let x = {}a{};", "abs(".repeat(10_000), ")".repeat(10_000));
    let open = format!("let x = {}", "(".repeat(100_000));
    let wide = format!("let x = {};", vec!["(a+a)"; 40_000].join("*"));
    let ranges: String = (0..20_000)
        .map(|it| format!("let x{it} = a + 1 + 2 + 3;"))
        .collect();
    for line in [sum, nots, negations, ifs, calls, open, wide, ranges] {
        let error = parse(&with(&line)).unwrap_err();
        assert!(error.line == 0 || error.line >= 6, "{error}");
    }
    let rule = parse(&with("")).unwrap();
    let condition = |text: &str| crate::Predicate::parse(&rule, text, Some(0));
    for text in [
        format!("a = 1{}", " or a = 1".repeat(1_000_000)),
        format!("a=1{}", " or a=1".repeat(500_000)),
        format!("a = 1{}", "+1".repeat(1_000_000)),
        format!("a in (1{})", ",1".repeat(2_000_000)),
        format!("{}a = 1", "not ".repeat(10_000)),
        format!("{}a = 1{}", "(not ".repeat(10_000), ")".repeat(10_000)),
        format!("{}a = 1", "(".repeat(1_000_000)),
        format!("a = {}1", "-".repeat(10_000)),
        format!("{}a{} = 1", "abs(".repeat(10_000), ")".repeat(10_000)),
    ] {
        let error = condition(&text).unwrap_err();
        assert!(
            !error.message.is_empty() && error.message.len() < 1_000,
            "{error}"
        );
    }
    // Parentheses mean nothing once they are read.
    parse(&with(&parentheses)).unwrap();
    let long = " ".repeat(crate::limits::TEXT_BYTES_MAX + 1);
    assert!(parse(&long).unwrap_err().message.contains("bytes"));
    assert!(
        parse_bytes(b"rule \xff")
            .unwrap_err()
            .message
            .contains("UTF-8")
    );
    let list: Vec<_> = (0..100_000).map(|it| it.to_string()).collect();
    parse(&with(&format!("list l = [{}];", list.join(",")))).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 2_000 } else { 20_000 }))]

    #[test]
    fn parsing_what_was_printed_gives_the_same_rule(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let rule = random::rule(&mut Source::new(&bytes), Flavour::Any);
        if crate::rule::check(&rule).is_ok() {
            let text = rule.to_string();
            prop_assert_eq!(&parse(&text).map_err(|it| format!("{it}\n{text}")).unwrap(), &rule);
            let bytes = code::encode(&rule).unwrap();
            prop_assert_eq!(&code::decode(&bytes).unwrap(), &rule);
        } else {
            prop_assert!(false, "{:?}\n{}", crate::rule::check(&rule), rule);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_words_of_the_language_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..60)) {
        let _ = parse(&format!("rule r version 1; {}", words.join(" ")));
        let _ = parse(&with(&words.join(" ")));
    }
}

const WORDS: &[&str] = &[
    "field",
    "a",
    ":",
    "i64",
    ";",
    "dimension",
    "to",
    "9",
    "let",
    "x",
    "=",
    "(",
    ")",
    "if",
    "then",
    "else",
    "when",
    "in",
    "[",
    "]",
    "not",
    "and",
    "-",
    "+",
    "%",
    "18446744073709551615",
    "\"t\"",
    "place",
    "table",
    "{",
    "}",
    "=>",
    ",",
    "null",
    "value",
    "slot",
    "key",
    "fixed",
    "ring",
    "weight",
    "day",
    "t",
    "==",
    "<",
    "date",
    "error",
    "list",
    "zone",
    "script",
    "all",
    "0",
    "1u",
];
