//! Filters by their meaning, on rows of a few cells.

use std::collections::BTreeSet;

use super::column::*;
use super::list::{And, Or};
use super::row::*;
use super::value::*;
use super::*;
use crate::comparator::Comparator;
use cadastre_types::CompareOp;
use cadastre_wire::pb;

fn cell(
    family: &'static str,
    qualifier: &'static str,
    timestamp: i64,
    value: &'static str,
) -> Cell {
    let text = |s: &'static str| Bytes::from_static(s.as_bytes());
    Cell::put(
        text("row"),
        text(family),
        text(qualifier),
        timestamp,
        text(value),
    )
}

fn row() -> Vec<Cell> {
    vec![
        cell("a", "x", 3, "x3"),
        cell("a", "x", 2, "x2"),
        cell("a", "y", 3, "y3"),
        cell("b", "x", 1, "bx1"),
        cell("b", "z", 9, "bz9"),
    ]
}

fn values(filter: &mut dyn Filter, max_versions: u32) -> Vec<String> {
    match apply(filter, row(), max_versions, PerFamily::default()) {
        Filtered::Row(cells) => cells
            .iter()
            .map(|c| String::from_utf8_lossy(&c.value).into_owned())
            .collect(),
        Filtered::Nothing => vec![],
        Filtered::End => vec!["END".to_owned()],
    }
}

fn test(op: CompareOp, expected: &'static str) -> Test {
    Test {
        op,
        comparator: Some(Comparator::Binary(Bytes::from_static(expected.as_bytes()))),
    }
}

#[test]
fn versions_count_what_the_filter_lets_through() {
    let mut older = Value(test(CompareOp::Equal, "x2"));
    assert_eq!(values(&mut older, 1), ["x2"]);
    let mut all = KeyOnly {
        length_as_value: false,
    };
    assert_eq!(values(&mut all, 1).len(), 4);
}

/// As HBase: one version more than is wanted is shown to the filter, and none behind that.
#[test]
fn a_filter_sees_one_version_more_than_is_wanted() {
    let versions: Vec<Cell> = [4, 3, 2]
        .into_iter()
        .zip(["four", "three", "two"])
        .map(|(timestamp, value)| cell("a", "x", timestamp, value))
        .collect();
    let sees = |value, max_versions| {
        let mut any_version = single(CompareOp::Equal, value, "x", false);
        any_version.latest_version_only = false;
        match apply(
            &mut any_version,
            versions.clone(),
            max_versions,
            PerFamily::default(),
        ) {
            Filtered::Row(cells) => cells.len(),
            _ => 0,
        }
    };
    assert_eq!(
        [sees("four", 1), sees("three", 1), sees("two", 1)],
        [1, 1, 0]
    );
    assert_eq!([sees("three", 2), sees("two", 2)], [2, 2]);
}

#[test]
fn operators_read_part_op_comparator() {
    assert_eq!(
        values(&mut Qualifier(test(CompareOp::Less, "y")), 9),
        ["x3", "x2", "bx1"]
    );
    assert_eq!(
        values(&mut Qualifier(test(CompareOp::Greater, "x")), 9),
        ["y3", "bz9"]
    );
    assert_eq!(
        values(&mut Family(test(CompareOp::NotEqual, "a")), 9),
        ["bx1", "bz9"]
    );
}

#[test]
fn counting_filters() {
    assert_eq!(values(&mut FirstKeyOnly::default(), 9), ["x3"]);
    let mut page = ColumnPagination {
        limit: 2,
        offset: 1,
        column_offset: None,
        count: 0,
    };
    assert_eq!(values(&mut page, 9), ["y3", "bx1"], "over families");
    let named = Some(Bytes::from_static(b"y"));
    let mut page = ColumnPagination {
        limit: 2,
        offset: 0,
        column_offset: named,
        count: 0,
    };
    assert_eq!(values(&mut page, 9), ["y3", "bx1"]);
    let mut count = ColumnCountGet { limit: 3, count: 0 };
    assert_eq!(values(&mut count, 9), ["x3", "y3", "bx1"]);
    assert!(count.all_remaining_filtered());
    let mut pages = Page {
        size: 1,
        accepted: 0,
    };
    assert_eq!(values(&mut pages, 1).len(), 4);
    assert_eq!(values(&mut pages, 1), ["END"]);
}

fn single(
    op: CompareOp,
    value: &'static str,
    qualifier: &'static str,
    missing: bool,
) -> SingleColumnValue {
    SingleColumnValue {
        column: Column {
            family: Bytes::from_static(b"a"),
            qualifier: Bytes::from_static(qualifier.as_bytes()),
        },
        test: test(op, value),
        drop_if_missing: missing,
        latest_version_only: true,
        exclude: false,
        found: false,
        matched: false,
    }
}

#[test]
fn single_column_value() {
    assert_eq!(
        values(&mut single(CompareOp::Equal, "x3", "x", false), 1).len(),
        4
    );
    assert!(values(&mut single(CompareOp::Equal, "x2", "x", false), 1).is_empty());
    assert_eq!(
        values(&mut single(CompareOp::Equal, "q", "none", false), 1).len(),
        4
    );
    assert!(values(&mut single(CompareOp::Equal, "q", "none", true), 1).is_empty());
    let mut exclude = single(CompareOp::Equal, "x3", "x", false);
    exclude.exclude = true;
    assert_eq!(values(&mut exclude, 1), ["y3", "bx1", "bz9"]);
    let mut any_version = single(CompareOp::Equal, "x2", "x", false);
    any_version.latest_version_only = false;
    assert!(!values(&mut any_version, 9).is_empty());
}

#[test]
fn lists() {
    let x: fn() -> Box<dyn Filter> = || Box::new(Qualifier(test(CompareOp::Equal, "x")));
    let old: fn() -> Box<dyn Filter> = || Box::new(Timestamps([1, 2].into()));
    assert_eq!(values(&mut And(vec![x(), old()]), 9), ["x2", "bx1"]);
    let z: Box<dyn Filter> = Box::new(Qualifier(test(CompareOp::Equal, "z")));
    assert_eq!(
        values(&mut Or::new(vec![old(), z]), 9),
        ["x2", "bx1", "bz9"]
    );
    assert_eq!(values(&mut And(vec![]), 9).len(), 5);
    assert_eq!(values(&mut Or::new(vec![]), 9).len(), 5);
    // A member of OR that said "next row" is not asked again in that family, the other still is.
    let first: Box<dyn Filter> = Box::new(FirstKeyOnly::default());
    let y: Box<dyn Filter> = Box::new(Qualifier(test(CompareOp::Equal, "y")));
    assert_eq!(values(&mut Or::new(vec![first, y]), 9), ["x3", "y3"]);
}

/// A list asks about a row only until that is decided: a page behind counts none of the rows that another filter has dropped.
#[test]
fn pages_in_lists() {
    let page = |size| -> Box<dyn Filter> { Box::new(Page { size, accepted: 0 }) };
    let rows = |filter: &mut dyn Filter| {
        let passed = |values: Vec<String>| !values.is_empty() && values != ["END"];
        (0..6).filter(|_| passed(values(filter, 1))).count()
    };
    let never: Box<dyn Filter> = Box::new(single(CompareOp::Equal, "q", "x", true));
    let mut list = And(vec![never, page(1)]);
    assert_eq!(rows(&mut list), 0);
    assert!(!list.all_remaining_filtered(), "nothing was counted");
    let mut pages = Or::new(vec![page(1), page(2)]);
    assert_eq!(rows(&mut pages), 3, "one of the first, two of the second");
}

/// What clients send as the mask of `r?1`, and of a key that is fixed whole.
#[test]
fn masks_of_fuzzy_rows_in_all_their_forms() {
    let key = |mask: &[u8], v2| {
        let pair = pb::BytesBytesPair {
            first: Bytes::from_static(b"r?1"),
            second: Bytes::copy_from_slice(mask),
        };
        super::decode::fuzzy_key(&pair, v2)
    };
    let middle = vec![Some(b'r'), None, Some(b'1')];
    let fixed = vec![Some(b'r'), Some(b'?'), Some(b'1')];
    const FIXED: u8 = u8::MAX;
    for (mask, v2) in [
        (&[0, 1, 0], false),
        (&[0, 1, 0], true),
        (&[FIXED, 0, FIXED], false),
        (&[FIXED, 2, FIXED], true),
    ] {
        assert_eq!(key(mask, v2), middle, "{mask:?}, {v2}");
    }
    for (mask, v2) in [
        (&[0, 0, 0], false),
        (&[0, 0, 0], true),
        (&[FIXED, FIXED, FIXED], false),
        (&[FIXED, FIXED, FIXED], true),
    ] {
        assert_eq!(key(mask, v2), fixed, "{mask:?}, {v2}");
    }
    assert_eq!(key(&[2, 2, 2], true), [None, None, None]);
}

#[test]
fn rows_by_key() {
    let prefix = |text: &'static str| Prefix {
        prefix: Bytes::from_static(text.as_bytes()),
        reversed: false,
        passed: false,
        drop: true,
    };
    assert_eq!(values(&mut prefix("ro"), 1).len(), 4);
    assert!(values(&mut prefix("rz"), 1).is_empty(), "not reached yet");
    assert_eq!(values(&mut prefix("ra"), 1), ["END"]);
    let fuzzy = |last: u8| FuzzyRow {
        keys: vec![vec![Some(b'r'), None, Some(last)]],
        reversed: false,
    };
    assert_eq!(values(&mut fuzzy(b'w'), 1).len(), 4);
    assert!(values(&mut fuzzy(b'x'), 1).is_empty());
}

/// Every row of up to three bytes out of 0, 1 and 255, in order.
fn small_rows() -> Vec<Vec<u8>> {
    let mut rows = vec![Vec::new()];
    for length in 0..3 {
        let longer: Vec<Vec<u8>> = rows
            .iter()
            .filter(|row| row.len() == length)
            .flat_map(|row| [0, 1, u8::MAX].map(|byte| [&row[..], &[byte]].concat()))
            .collect();
        rows.extend(longer);
    }
    rows.sort();
    rows.retain(|row| !row.is_empty());
    rows
}

/// What passes if every row is shown to the filter, and if rows are skipped as it says.
fn check_skips(make: impl Fn() -> Box<dyn Filter>) {
    let cell = |row: &[u8]| Cell {
        row: Bytes::copy_from_slice(row),
        ..row_cell()
    };
    let passes = |filter: &mut dyn Filter, row: &[u8]| {
        matches!(
            apply(filter, vec![cell(row)], 1, PerFamily::default()),
            Filtered::Row(_)
        )
    };
    let rows = small_rows();
    let mut all = make();
    let expected: Vec<&Vec<u8>> = rows.iter().filter(|row| passes(&mut *all, row)).collect();
    let mut skipping = make();
    let (mut found, mut from) = (Vec::new(), Bytes::new());
    for row in &rows {
        if row[..] < from[..] {
            continue;
        }
        match skipping.skips(row) {
            Skips::No if passes(&mut *skipping, row) => found.push(row),
            Skips::No => {}
            Skips::Until(next) => {
                assert!(next[..] > row[..], "a hint leads forward");
                from = next;
            }
            Skips::Rest => break,
        }
    }
    assert_eq!(found, expected);
}

fn row_cell() -> Cell {
    cell("a", "x", 1, "v")
}

#[test]
fn rows_that_a_filter_skips_would_not_have_passed() {
    let wants = [None, Some(0), Some(1), Some(u8::MAX)];
    let keys: Vec<FuzzyKey> = wants
        .iter()
        .flat_map(|a| wants.map(|b| vec![*a, b]))
        .chain(wants.map(|c| vec![None, c, Some(1)]))
        .chain([vec![], vec![Some(1)]])
        .collect();
    for (first, second) in keys.iter().zip(keys.iter().rev()) {
        for keys in [vec![first.clone()], vec![first.clone(), second.clone()]] {
            check_skips(|| {
                Box::new(FuzzyRow {
                    keys: keys.clone(),
                    reversed: false,
                })
            });
        }
    }
    for prefix in small_rows() {
        check_skips(|| {
            Box::new(Prefix {
                prefix: prefix.clone().into(),
                reversed: false,
                passed: false,
                drop: true,
            })
        });
    }
    let rows = small_rows();
    for (at, start) in rows.iter().enumerate() {
        let range = |start: &[u8], start_inclusive, stop: &[u8]| Range {
            start: Bytes::copy_from_slice(start),
            start_inclusive,
            stop: Bytes::copy_from_slice(stop),
            stop_inclusive: false,
        };
        let stop = rows.get(at + 2).cloned().unwrap_or_default();
        check_skips(|| {
            Box::new(MultiRowRange {
                ranges: vec![range(&[0, 1], true, &[1]), range(start, false, &stop)],
                reversed: false,
                done: false,
                drop: false,
            })
        });
    }
}

#[test]
fn wrappers() {
    let inner: Box<dyn Filter> = Box::new(Value(test(CompareOp::NotEqual, "y3")));
    assert!(values(&mut Skip { inner, drop: false }, 1).is_empty());
    let inner: Box<dyn Filter> = Box::new(Value(test(CompareOp::NotEqual, "y3")));
    let mut until = WhileMatch { inner, done: false };
    assert_eq!(
        values(&mut until, 1),
        ["x3"],
        "the rest of the row goes with the rest of the scan"
    );
    assert_eq!(values(&mut until, 1), ["END"]);
}

#[test]
fn dependent_column() {
    let mut filter = DependentColumn {
        column: Column {
            family: Bytes::from_static(b"a"),
            qualifier: Bytes::from_static(b"y"),
        },
        test: None,
        drop_reference: true,
        stamps: std::collections::BTreeSet::new(),
    };
    assert_eq!(values(&mut filter, 9), ["x3"]);
}

#[test]
fn filters_say_how_many_columns_they_look_at() {
    fn first() -> Box<dyn Filter> {
        Box::new(FirstKeyOnly::default())
    }
    fn pages() -> Box<dyn Filter> {
        Box::new(Page {
            size: 5,
            accepted: 0,
        })
    }
    fn keys() -> Box<dyn Filter> {
        Box::new(KeyOnly {
            length_as_value: false,
        })
    }
    fn value() -> Box<dyn Filter> {
        Box::new(Value(test(CompareOp::Equal, "x2")))
    }
    fn of_column(limit: i64, offset: i64, column_offset: Option<Bytes>) -> Box<dyn Filter> {
        Box::new(ColumnPagination {
            limit,
            offset,
            column_offset,
            count: 0,
        })
    }
    let and = |filters| Box::new(And(filters)) as Box<dyn Filter>;
    let cases: Vec<(Box<dyn Filter>, Option<u32>)> = vec![
        (first(), Some(1)),
        (Box::new(ColumnCountGet { limit: 3, count: 0 }), Some(4)),
        (of_column(3, 2, None), Some(5)),
        (of_column(i64::MAX, 2, None), None),
        (of_column(3, 0, Some(Bytes::from_static(b"c"))), None),
        (keys(), None),
        (value(), None),
        // RowCounter's.
        (and(vec![first(), keys()]), Some(1)),
        (and(vec![pages(), keys(), first()]), Some(1)),
        (and(vec![and(vec![pages()]), first(), value()]), Some(1)),
        // The first value that agrees may stand anywhere.
        (and(vec![value(), first()]), None),
        (and(vec![]), None),
        (Box::new(Or::new(vec![first(), first()])), None),
    ];
    for (at, (filter, wanted)) in cases.iter().enumerate() {
        assert_eq!(filter.columns_wanted(), *wanted, "case {at}");
    }
}

fn cells(names: &[(&'static str, &'static str)]) -> Vec<Cell> {
    let cells = names.iter();
    cells
        .map(|(family, qualifier)| cell(family, qualifier, 1, qualifier))
        .collect()
}

fn names(cells: &[Cell]) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let cells = cells.iter();
    cells
        .map(|c| text(&c.family) + &text(&c.qualifier))
        .collect()
}

fn limit(limit: Option<u32>, offset: u32) -> PerFamily {
    PerFamily { limit, offset }
}

#[test]
fn limits_count_per_family() {
    let row = || cells(&[("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("b", "2")]);
    let kept = |per_family: PerFamily| names(&per_family.keep(row()));
    // With a filter that lets everything through, too.
    let everything = || InclusiveStop {
        stop: Bytes::from_static(b"z"),
        reversed: false,
        done: false,
    };
    let passed = |per_family: PerFamily| match apply(&mut everything(), row(), 1, per_family) {
        Filtered::Row(cells) => names(&cells),
        Filtered::Nothing => vec![],
        Filtered::End => vec!["END".to_owned()],
    };
    for (per_family, expected) in [
        (limit(Some(1), 1), &["a2", "b2"][..]),
        (limit(None, 2), &["a3"]),
        (limit(Some(2), 0), &["a1", "a2", "b1", "b2"]),
        (limit(Some(0), 0), &["a1", "b1"]),
        (limit(Some(0), 2), &["a3"]),
        (limit(None, 3), &[]),
        (limit(None, 0), &["a1", "a2", "a3", "b1", "b2"]),
    ] {
        assert_eq!(kept(per_family), expected, "{per_family:?}");
        assert_eq!(passed(per_family), expected, "{per_family:?}");
    }
}

/// As HBase's store scanner: cells are counted before a filter thins the row out, and what is behind the limit is never looked at.
#[test]
fn limits_come_before_whole_rows_are_thinned_out() {
    let column = || Column {
        family: Bytes::from_static(b"a"),
        qualifier: Bytes::from_static(b"2"),
    };
    let single = |exclude: bool, value: &'static str| SingleColumnValue {
        column: column(),
        test: test(CompareOp::Equal, value),
        drop_if_missing: true,
        latest_version_only: true,
        exclude,
        found: false,
        matched: false,
    };
    let row = || cells(&[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]);
    let passed = |filter: &mut dyn Filter, limit, offset| {
        let per_family = PerFamily { limit, offset };
        match apply(filter, row(), 1, per_family) {
            Filtered::Row(cells) => names(&cells),
            Filtered::Nothing => vec!["NOTHING".to_owned()],
            Filtered::End => vec!["END".to_owned()],
        }
    };
    // The column that is left out counts.
    assert_eq!(passed(&mut single(true, "2"), Some(2), 0), ["a1"]);
    assert_eq!(passed(&mut single(true, "2"), Some(2), 1), ["a3"]);
    // Found though the offset leaves it out; missing where the limit does.
    assert_eq!(passed(&mut single(false, "2"), Some(1), 2), ["a3"]);
    assert_eq!(passed(&mut single(false, "2"), Some(1), 0), ["NOTHING"]);
    assert_eq!(passed(&mut single(false, "other"), Some(4), 0), ["NOTHING"]);
    let mut dependent = DependentColumn {
        column: column(),
        test: None,
        drop_reference: true,
        stamps: BTreeSet::new(),
    };
    assert_eq!(passed(&mut dependent, Some(2), 0), ["a1", "a3"]);
    assert_eq!(passed(&mut dependent, Some(1), 0), ["NOTHING"]);
}
