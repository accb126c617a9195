//! Plans and routes without any server.

use cadastre_sharding::versions::Both;

use super::*;
use crate::new_scan;

fn program(text: &str) -> Arc<Program> {
    Arc::new(Program::parse(text).unwrap())
}

fn one(text: &str) -> View {
    View::One(program(text))
}

fn two(old: &str, new: &str) -> View {
    View::Two(Both::new(program(old), program(new)).unwrap())
}

fn asked(condition: &str) -> Asked {
    Asked {
        condition: (!condition.is_empty()).then(|| condition.to_owned()),
        now_us: 0,
        from: Vec::new(),
        to: Vec::new(),
        reversed: false,
        order: Order::Row,
        unbounded: Unbounded::Allow,
    }
}

fn tables(plan: &Plan) -> Vec<&str> {
    let places = plan.places.iter().map(|it| plan.place(*it));
    places.map(|it| it.table.as_str()).collect()
}

fn id(number: i64) -> Vec<u8> {
    ((number as u64) ^ (1 << 63)).to_be_bytes().to_vec()
}

/// The seed's worked example: id % 1, then id % 2.
fn r67() -> View {
    let rule = |version: u32, modulus: u32| {
        format!(
            "rule w version {version}; field id: i64; key fixed id; dimension n 0 to 1; else (id % {modulus}); \
             place table \"w_{{n}}\";"
        )
    };
    two(&rule(1, 1), &rule(2, 2))
}

#[test]
fn r67_what_stays_goes_on_and_what_moves_is_told_from_where_to_where() {
    let view = r67();
    let place = |table: &str| Place {
        cluster: String::new(),
        table: table.to_owned(),
    };
    for (number, moves) in [(0, false), (1, true), (3, true), (4, false)] {
        let expected = match moves {
            false => Where::At(place("w_0")),
            true => Where::Moves {
                from: Some(place("w_0")),
                to: Some(place("w_1")),
            },
        };
        assert_eq!(route(&view, &id(number)).unwrap(), expected, "{number}");
    }
    assert!(asked("id in (0, 2, 4)").held(&view).unwrap().is_none());
    let held = asked("id in (0, 1)").held(&view).unwrap().unwrap();
    assert!(held.contains("version 2 of the rule w"), "{held}");
    assert!(asked("").held(&view).unwrap().is_some());
    // By the range of rows alone.
    let range = Asked {
        from: id(4),
        to: id(5),
        ..asked("")
    };
    assert!(range.held(&view).unwrap().is_some(), "5 is a superset's");
    assert!(asked("id = 4").held(&view).unwrap().is_none());
    assert!(route(&view, b"short").is_err());
}

#[test]
fn tables_come_in_row_order_where_the_key_begins_so() {
    let rule = |key: &str| {
        format!(
            "rule r version 1; zone \"UTC\"; field t: timestamp; field id: i64; key {key}; dimension d 0 to 11; \
             else (month(t) - 1); place table \"t_{{d}}\";"
        )
    };
    let in_november =
        "t between timestamp '2023-11-15T00:00:00Z' and timestamp '2024-02-15T00:00:00Z'";
    let view = one(&rule("fixed t, fixed id"));
    let plan = asked(in_november).plan(&view).unwrap();
    assert_eq!(
        (tables(&plan), plan.serial),
        (vec!["t_10", "t_11", "t_0", "t_1"], true)
    );
    assert!(
        !plan.from.is_empty() && !plan.to.is_empty(),
        "the rows are bounded, too"
    );
    let down = Asked {
        reversed: true,
        ..asked(in_november)
    };
    assert_eq!(
        tables(&down.plan(&view).unwrap()),
        ["t_1", "t_0", "t_11", "t_10"]
    );
    let view = one(&rule("reversed t, fixed id"));
    let plan = asked(in_november).plan(&view).unwrap();
    assert_eq!(
        (tables(&plan), plan.serial),
        (vec!["t_1", "t_0", "t_11", "t_10"], true)
    );
    // The key begins with something else: merged; or by the rule, if the caller wants that.
    let view = one(&rule("fixed id, fixed t"));
    let plan = asked(in_november).plan(&view).unwrap();
    assert_eq!((plan.places.len(), plan.serial), (4, false));
    let by_rule = Asked {
        order: Order::Rule,
        ..asked(in_november)
    };
    assert!(by_rule.plan(&view).unwrap().serial);
    // One table for several slots that do not follow each other: merged.
    let view = one(
        "rule r version 1; field a: i64; key fixed a; ranges c: i64 { 0, 10 => 1, 20 => 2 }; dimension d 0 to 2; else (c(a)); \
         place table \"t_{d % 2}\";",
    );
    let plan = asked("").plan(&view).unwrap();
    assert_eq!((tables(&plan), plan.serial), (vec!["t_0", "t_1"], false));
}

#[test]
fn the_range_of_rows_narrows_the_tables() {
    let view = one(
        "rule r version 1; field a: i64; key fixed a; ranges c: i64 { 0, 10 => 1, 20 => 2 }; dimension d 0 to 2; else (c(a)); \
         place table \"t_{d}\";",
    );
    let rows = |from: Vec<u8>, to: Vec<u8>| Asked {
        from,
        to,
        ..asked("")
    };
    assert_eq!(tables(&rows(id(0), id(9)).plan(&view).unwrap()), ["t_0"]);
    assert_eq!(
        tables(&rows(id(12), Vec::new()).plan(&view).unwrap()),
        ["t_1", "t_2"]
    );
    assert_eq!(
        tables(&asked("a = 5 and a = 6").plan(&view).unwrap()),
        [""; 0]
    );
    let both = Asked {
        from: id(12),
        ..asked("a < 15")
    };
    let plan = both.plan(&view).unwrap();
    assert_eq!(tables(&plan), ["t_1"]);
    assert_eq!((plan.from, plan.to), (id(12), id(15)));
}

#[test]
fn what_is_not_the_scan_s_is_not_shown() {
    let view = one(
        "rule r version 1; field a: i64; key fixed a; dimension d 0 to 2; else (a % 3); place table \"t_{d}\";",
    );
    let plan = asked("a % 2 = 0").plan(&view).unwrap();
    let place = |at: usize| plan.places[at];
    assert!(plan.takes(&id(4), place(1)).unwrap());
    assert!(
        !plan.takes(&id(4), place(2)).unwrap(),
        "the rule places it elsewhere"
    );
    assert!(!plan.takes(&id(7), place(1)).unwrap(), "the condition");
    assert!(!plan.takes(b"x", place(1)).unwrap(), "no key of this rule");
}

#[test]
fn what_bounds_nothing_is_named_or_refused() {
    let view = one(
        "rule r version 1; field s: string; key rest s; dimension d 0 to 3; else (xxh3(s) % 4); place table \"t_{d}\";",
    );
    let by = |unbounded| Asked {
        unbounded,
        ..asked("s > 'a'")
    };
    let plan = by(Unbounded::Warn).plan(&view).unwrap();
    assert_eq!(
        (plan.places.len(), plan.warning.as_deref()),
        (4, Some("xxh3(s)"))
    );
    assert_eq!(by(Unbounded::Allow).plan(&view).unwrap().warning, None);
    let error = by(Unbounded::Refuse).plan(&view).unwrap_err();
    assert!(error.message().contains("because of xxh3(s)"), "{error}");
    // A term that is not understood bounds nothing, but rows are tested by it.
    let opaque = Asked {
        unbounded: Unbounded::Refuse,
        ..asked("length(s) = 2")
    };
    let error = opaque.plan(&view).unwrap_err();
    assert!(error.message().contains("length(s) == 2"), "{error}");
}

#[test]
fn rules_that_cannot_place_rows_are_refused() {
    let no_key =
        one("rule r version 1; field a: i64; dimension d 0 to 2; else (a % 3); place table \"t\";");
    assert!(check(&no_key).unwrap_err().message().contains("add `key"));
    let outside = one(
        "rule r version 1; field a: i64; field b: i64; key fixed a; dimension d 0 to 2; else (b % 3); place table \"t\";",
    );
    assert!(
        check(&outside)
            .unwrap_err()
            .message()
            .contains("looks at b")
    );
    let view = one(
        "rule r version 1; field a: i64; field b: i64; key fixed a; dimension d 0 to 2; else (a % 3); place table \"t\";",
    );
    check(&view).unwrap();
    let error = asked("b = 1").plan(&view).unwrap_err();
    assert!(error.message().contains("on b"), "{error}");
}

#[test]
fn both_ways_of_a_scan_are_one_range() {
    let scan = |start: &'static str, stop: &'static str, reversed| Scan {
        start_row: Bytes::from(start),
        stop_row: Bytes::from(stop),
        reversed,
        ..new_scan()
    };
    let rows = |scan: &Scan| Asked::rows(scan);
    assert_eq!(rows(&scan("b", "d", false)), (b"b".to_vec(), b"d".to_vec()));
    assert_eq!(
        rows(&scan("d", "b", true)),
        (b"b\0".to_vec(), b"d\0".to_vec())
    );
    assert_eq!(rows(&scan("", "", true)), (Vec::new(), Vec::new()));
    let included = Scan {
        include_start_row: false,
        include_stop_row: true,
        ..scan("b", "d", false)
    };
    assert_eq!(rows(&included), (b"b\0".to_vec(), b"d\0".to_vec()));
}
