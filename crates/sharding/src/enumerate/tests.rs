//! Tests of enumeration: against brute force, and beside TDDL's method.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Comparison, Enumeration, Options, Predicate, Unbounded, enumerate, looks::Looks};
use crate::{
    EvalError, Literal, PlaceLine, Program, Slot, Template, Type, Value,
    function::{Zone, calendar},
    random::{self, Flavour, Source},
    rule::{self, DefinitionBody, Expr, Function, ListRef, Rule},
};

/// How many random cases: 10^5 in CI (`cargo xtask test long`), any number by hand.
fn cases(default: u64) -> u64 {
    let asked = std::env::var("CADASTRE_RULE_CASES").ok();
    asked.and_then(|it| it.parse().ok()).unwrap_or(default)
}

fn program(text: &str) -> Program {
    let rule = crate::text::parse(&format!("rule r version 1; {text} place table \"t\";")).unwrap();
    Program::compile_with(rule, &crate::script::compile).unwrap()
}

fn ask(program: &Program, condition: &str) -> Enumeration {
    let predicate =
        Predicate::parse(program.rule(), condition, Some(1_700_000_000_000_000)).unwrap();
    enumerate(program, &predicate, Options::default()).unwrap()
}

fn coordinates(program: &Program, found: &Enumeration) -> Vec<Vec<i64>> {
    found
        .slots
        .iter()
        .map(|it| program.shape().coordinates(*it))
        .collect()
}

/// TDDL's way (C1): 31 steps of one day; a longer interval is believed to repeat.
fn tddl(low: i64, high: i64, and_upper: bool) -> BTreeSet<i64> {
    let day = |it: i64| calendar::date_of(it).day;
    let mut found: BTreeSet<i64> = (low..=high.min(low + 30)).map(day).collect();
    if and_upper {
        found.insert(day(high));
    }
    found
}

#[test]
fn r50_no_table_is_lost_in_all_87_720_ranges_of_days_where_tddl_loses_some_in_a_quarter() {
    let program = program("field gmt: date; dimension day 1 to 31; else (day(gmt));");
    let first = calendar::day_of(calendar::Date {
        year: 2023,
        month: 1,
        day: 1,
    })
    .unwrap();
    let (mut ranges, mut lossy, mut lossy_with_upper) = (0, 0, 0);
    for low in first..first + 731 {
        for length in 0..120 {
            let high = low + length;
            let expected: BTreeSet<i64> =
                (low..=high).map(|it| calendar::date_of(it).day).collect();
            let predicate =
                Predicate::Between(0, Literal::Date(low as i32), Literal::Date(high as i32));
            let found = enumerate(&program, &predicate, Options::default()).unwrap();
            let days: BTreeSet<i64> = found
                .slots
                .iter()
                .map(|it| program.shape().coordinate(*it, 0))
                .collect();
            assert_eq!(days, expected, "{low} to {high}");
            assert!(found.is_exact);
            ranges += 1;
            lossy += i32::from(!expected.is_subset(&tddl(low, high, false)));
            lossy_with_upper += i32::from(!expected.is_subset(&tddl(low, high, true)));
        }
    }
    // A quarter of what people ask for, silently wrong (C2: 25.6 %, 25.0 %).
    assert_eq!((ranges, lossy), (87_720, 22_436));
    assert_eq!(lossy_with_upper * 1000 / ranges, 249);
}

#[test]
fn the_range_of_c2_that_loses_three_tables_by_tddl() {
    let program = program(
        "zone \"Asia/Shanghai\"; field gmt: timestamp; dimension day 1 to 31; else (day(gmt));",
    );
    let found = ask(&program, "gmt >= '2018-02-01' and gmt < '2018-04-01'");
    assert_eq!(found.slots.len(), 31);
    assert!(found.is_exact);
    let found = ask(&program, "gmt >= '2018-02-01' and gmt < '2018-03-01'");
    assert_eq!(found.slots.len(), 28);
    // The bound is kept to the microsecond: no row of the first of March.
    let found = ask(
        &program,
        "gmt > '2018-02-28T23:59:59.999998' and gmt < '2018-03-01'",
    );
    assert_eq!(coordinates(&program, &found), [[28]]);
    let found = ask(
        &program,
        "gmt > '2018-02-28T23:59:59.999999' and gmt < '2018-03-01'",
    );
    assert_eq!(found.slots, []);
}

#[test]
fn r48_r51_two_dimensions_are_enumerated_jointly() {
    let program = program(
        "field user: i64; field gmt: timestamp; dimension db 0 to 3; dimension tb 0 to 7; \
         when user == 2000 then (3, 0); else (user % 4, user % 8);",
    );
    // Not 4 x 8: the same user decides both.
    let found = ask(&program, "user > 3000");
    assert_eq!(found.slots.len(), 8);
    assert!(found.is_exact, "{found:?}");
    let found = ask(&program, "user >= 0");
    assert_eq!((found.slots.len(), found.is_exact), (9, true), "{found:?}");
    let found = ask(&program, "user in (1, 9, 2000)");
    assert_eq!(coordinates(&program, &found), [[1, 1], [3, 0]]);
    let found = ask(&program, "user = 1 and user = 2");
    assert_eq!(found.slots, []);
    let found = ask(&program, "user is null");
    assert_eq!(found.slots, []);
    let found = ask(&program, "not (user != 5) or user between 6 and 6");
    assert_eq!(coordinates(&program, &found), [[1, 5], [2, 6]]);
    // An unknown term in an AND is left out; in an OR it bounds nothing.
    let found = ask(&program, "user = 5 and user % 3 = 1");
    assert_eq!(
        (coordinates(&program, &found), found.is_exact),
        (vec![vec![1, 5]], false)
    );
    assert_eq!(found.cause.as_deref(), Some("user % 3 == 1"));
    let found = ask(&program, "user = 5 or user % 3 = 1");
    assert_eq!((found.slots.len(), found.is_exact), (9, false));
}

#[test]
fn null_goes_where_the_field_says() {
    let program = program(
        "field a: i64 null slot (9); field b: i64 null value 3; field c: i64; dimension d 0 to 9; \
         else (min(a, 0) * 0 + b % 8 + c * 0);",
    );
    let found = ask(&program, "a is null");
    assert_eq!(coordinates(&program, &found), [[9]]);
    let found = ask(&program, "a = 1 and b is null and c = 1");
    assert_eq!(coordinates(&program, &found), [[3]]);
    let found = ask(&program, "a = 1 and b = 4 and c is null");
    assert_eq!(found.slots, []);
    let found = ask(&program, "b = 4");
    assert_eq!(coordinates(&program, &found), [[4], [9]]);
    let found = ask(&program, "not (a < 5) and b = 4 and c = 0");
    assert_eq!(coordinates(&program, &found), [[4]]);
}

#[test]
fn text_ranges_prefixes_and_tables() {
    let program = program(
        "field name: string; field b: bytes; dimension d 0 to 9; \
         ranges chunk: string { 0, 'g' => 1, 'n' => 4, 'na' => 5 }; table t: string => i64 { 'zoe' => 9, else 2 }; \
         when name >= 'z' then (t(name)); when b == bytes \"00\" then (8); else (chunk(name));",
    );
    let found = ask(&program, "name like 'm%'");
    assert_eq!(
        (coordinates(&program, &found), found.is_exact),
        (vec![vec![1], vec![8]], true)
    );
    let found = ask(&program, "name like 'n%' and b > bytes \"00\"");
    assert_eq!(coordinates(&program, &found), [[4], [5]]);
    let found = ask(&program, "name >= 'z'");
    assert_eq!(coordinates(&program, &found), [[2], [9]]);
    let found = ask(&program, "name > 'zoe' and name < 'zog'");
    assert_eq!(coordinates(&program, &found), [[2]]);
    let found = ask(&program, "name in ('a', 'zoe') and b = bytes \"01\"");
    assert_eq!(coordinates(&program, &found), [[0], [9]]);
    let found = ask(&program, "name like 'a_c' and b = bytes \"01\"");
    assert_eq!(
        (coordinates(&program, &found), found.is_exact),
        (vec![vec![0]], false)
    );
}

#[test]
fn hashes_are_exact_for_values_and_all_slots_for_ranges_by_policy() {
    let program = program(
        "field user: i64; field gmt: date; dimension s 0 to 63; dimension d 1 to 31; else (xxh3(user) % 64, day(gmt));",
    );
    let day = "gmt between '2024-01-30' and '2024-02-01'";
    let found = ask(&program, &format!("user in (1, 2, 3) and {day}"));
    assert_eq!((found.slots.len(), found.is_exact), (9, true));
    let found = ask(&program, &format!("user between 1 and 100000 and {day}"));
    assert_eq!(
        (found.slots.len(), found.is_exact),
        (64 * 3, true),
        "all slots were seen"
    );
    let program = self::program("field user: i64; dimension s 0 to 63; else (xxh3(user) % 64);");
    let found = ask(&program, "user > 5");
    assert_eq!(
        (found.slots.len(), found.is_exact),
        (64, true),
        "all slots were seen"
    );
    let program = self::program("field user: string; dimension s 0 to 63; else (xxh3(user) % 64);");
    let predicate = Predicate::parse(program.rule(), "user > 'a'", None).unwrap();
    let mut options = Options::default();
    let found = enumerate(&program, &predicate, options).unwrap();
    assert_eq!(
        (found.slots.len(), found.is_exact, found.warn),
        (64, false, false)
    );
    options.unbounded = Unbounded::Warn;
    assert!(enumerate(&program, &predicate, options).unwrap().warn);
    options.unbounded = Unbounded::Refuse;
    let refused = enumerate(&program, &predicate, options).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "all 64 slots would be visited, because of xxh3(user)"
    );
}

#[test]
fn slots_come_in_the_order_of_the_sort_field_where_the_rule_is_monotone() {
    let program =
        program("field gmt: date; field user: i64; dimension m 0 to 11; else (month(gmt) - 1);");
    let sorted = |condition: &str| {
        let predicate = Predicate::parse(program.rule(), condition, None).unwrap();
        let options = Options {
            sort: Some(0),
            ..Options::default()
        };
        enumerate(&program, &predicate, options).unwrap()
    };
    let found = sorted("gmt between '2023-11-15' and '2024-02-15'");
    assert_eq!(coordinates(&program, &found), [[10], [11], [0], [1]]);
    assert_eq!(found.ordered_by, Some(0));
    // The same month twice: rows of January lie before and behind those of June.
    let found = sorted("gmt between '2023-01-15' and '2024-01-15'");
    assert_eq!((found.slots.len(), found.ordered_by), (12, None));
    assert!(found.is_exact);
    let program = self::program(
        "field user: i64; ranges chunk: i64 { 3, 100 => 1, 200 => 2 }; dimension c 0 to 3; else (chunk(user));",
    );
    let predicate = Predicate::parse(program.rule(), "user > 50", None).unwrap();
    let options = Options {
        sort: Some(0),
        ..Options::default()
    };
    let found = enumerate(&program, &predicate, options).unwrap();
    assert_eq!(
        (found.slots, found.ordered_by),
        (vec![Slot(3), Slot(1), Slot(2)], Some(0))
    );
}

#[test]
fn r36_wide_ranges_of_periodic_rules_are_exact_without_walking_them() {
    let program = program(
        "field user: i64; dimension a 0 to 12; dimension b 0 to 9; else (user / 7 % 13, (user + 3) % 5);",
    );
    let found = ask(&program, "user between 0 and 1000000000000");
    assert!(found.is_exact, "{found:?}");
    assert_eq!(found.slots.len(), 13 * 5);
    let program = self::program(
        "field user: i64; dimension a 0 to 3; dimension b 0 to 11; \
         when user < 1000 then (0, 11); else (user % 4, user % 6);",
    );
    let found = ask(&program, "user > 500");
    assert!(found.is_exact, "{found:?}");
    assert_eq!(found.slots.len(), 12 + 1);
}

#[test]
fn clocks_that_are_put_back_lose_no_hour_and_no_day() {
    let zone = Zone::load("America/Sao_Paulo").unwrap();
    let program = program(
        "zone \"America/Sao_Paulo\"; field t: timestamp; dimension d 1 to 31; dimension h 0 to 23; else (day(t), hour(t));",
    );
    // Put back at midnight of 18 February 2018, put forward at midnight of 4 November.
    for around in ["2018-02-17T20:00:00Z", "2018-11-03T20:00:00Z"] {
        let at =
            Predicate::parse(program.rule(), &format!("t = timestamp \"{around}\""), None).unwrap();
        let Predicate::Compare(_, _, Literal::Timestamp(start)) = at else {
            panic!()
        };
        for length in [1, 7, 8, 24, 49] {
            let end = start + length * 3_600_000_000;
            let predicate = Predicate::And(vec![
                Predicate::Compare(0, Comparison::GreaterEqual, Literal::Timestamp(start)),
                Predicate::Compare(0, Comparison::Less, Literal::Timestamp(end)),
            ]);
            let found = enumerate(&program, &predicate, Options::default()).unwrap();
            let expected: BTreeSet<_> = (start..end)
                .step_by(600_000_000)
                .map(|it| {
                    let of = |part| calendar::part(part, it, &zone);
                    vec![of(calendar::Part::DayOfMonth), of(calendar::Part::Hour)]
                })
                .collect();
            let found: BTreeSet<_> = coordinates(&program, &found).into_iter().collect();
            assert_eq!(found, expected);
        }
    }
}

// Random rules and conditions against brute force.

/// Does the condition hold? SQL's logic with unknown. Written anew, beside [`super::Filter`], so that both check each other.
fn holds(predicate: &Predicate, fields: &[Value<'_>]) -> Option<bool> {
    let field = |at: &u16| match fields[usize::from(*at)] {
        Value::Null => None,
        value => Some(value),
    };
    match predicate {
        Predicate::True => Some(true),
        Predicate::False => Some(false),
        Predicate::And(terms) => {
            let mut unknown = false;
            for term in terms {
                match holds(term, fields) {
                    Some(true) => {}
                    Some(false) => return Some(false),
                    None => unknown = true,
                }
            }
            (!unknown).then_some(true)
        }
        Predicate::Or(terms) => {
            let mut unknown = false;
            for term in terms {
                match holds(term, fields) {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => unknown = true,
                }
            }
            (!unknown).then_some(false)
        }
        Predicate::Not(inner) => holds(inner, fields).map(|it| !it),
        Predicate::Compare(at, comparison, literal) => {
            let (value, literal) = (field(at)?, literal.value());
            Some(match comparison {
                Comparison::Equal => value == literal,
                Comparison::NotEqual => value != literal,
                Comparison::Less => value < literal,
                Comparison::LessEqual => value <= literal,
                Comparison::Greater => value > literal,
                Comparison::GreaterEqual => value >= literal,
            })
        }
        Predicate::In(at, list) => {
            let value = field(at)?;
            Some(list.iter().any(|it| it.value() == value))
        }
        Predicate::Between(at, low, high) => {
            let value = field(at)?;
            Some(low.value() <= value && value <= high.value())
        }
        Predicate::Prefix(at, prefix) => {
            let value = field(at)?.to_literal()?;
            Some(value.blob()?.starts_with(prefix.blob()?))
        }
        Predicate::IsNull(at) => Some(field(at).is_none()),
        Predicate::Opaque(_) => Some(true),
    }
}

const HOUR: i64 = 3_600_000_000;

fn shifted(literal: &Literal, by: i64) -> Literal {
    match literal {
        Literal::I64(it) => Literal::I64(it.saturating_add(by)),
        Literal::U64(it) => Literal::U64(it.saturating_add_signed(by)),
        Literal::Date(it) => Literal::Date((i64::from(*it) + by) as i32),
        Literal::Timestamp(it) => Literal::Timestamp(it.saturating_add(by)),
        other => other.clone(),
    }
}

/// A value and values beside it: of each piece between two constants one is among those beside one of them.
fn around(literal: &Literal) -> Vec<Literal> {
    match literal {
        Literal::Bool(_) => vec![Literal::Bool(false), Literal::Bool(true)],
        // Nothing lies between a text and itself with a zero behind it; the text with its last sign raised comes behind all that begin so.
        Literal::Str(text) => {
            let mut beside = vec![text.clone(), format!("{text}\0"), String::new()];
            let mut raised = text.clone();
            let last = raised
                .pop()
                .and_then(|it| char::from_u32(u32::from(it) + 1));
            raised.extend(last);
            beside.push(raised);
            beside.into_iter().map(Literal::Str).collect()
        }
        Literal::Bytes(bytes) => {
            let beside = [bytes.clone(), [&bytes[..], &[0]].concat(), Vec::new()];
            let behind = crate::behind_prefix(&bytes[..]);
            beside
                .into_iter()
                .chain([behind])
                .map(Literal::Bytes)
                .collect()
        }
        Literal::Uuid(uuid) => {
            let number = u128::from_be_bytes(*uuid);
            let beside = [number.saturating_sub(1), number, number.saturating_add(1)];
            beside.map(|it| Literal::Uuid(it.to_be_bytes())).to_vec()
        }
        number => [-1, 0, 1].map(|by| shifted(number, by)).to_vec(),
    }
}

/// A term on one field.
fn term(source: &mut Source<'_>, at: u16, ty: Type, values: &mut Vec<Literal>) -> Predicate {
    let literal = source.literal(ty);
    values.extend(around(&literal));
    match source.below(9) {
        0 => Predicate::IsNull(at),
        1 => {
            let list: Vec<_> = (0..source.below(4)).map(|_| source.literal(ty)).collect();
            values.extend(list.iter().flat_map(around));
            Predicate::In(at, list)
        }
        2 if matches!(ty, Type::Str | Type::Bytes) => Predicate::Prefix(at, literal),
        _ => {
            let comparison = source.pick(&[
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::Less,
                Comparison::LessEqual,
                Comparison::Greater,
                Comparison::GreaterEqual,
            ]);
            Predicate::Compare(at, comparison, literal)
        }
    }
}

fn condition(
    source: &mut Source<'_>,
    program: &Program,
    values: &mut [Vec<Literal>],
    depth: u32,
) -> Predicate {
    match source.below(if depth == 0 { 1 } else { 4 }) {
        1 => Predicate::Not(Box::new(condition(source, program, values, depth - 1))),
        kind @ (2 | 3) => {
            let terms = (0..1 + source.below(3))
                .map(|_| condition(source, program, values, depth - 1))
                .collect();
            if kind == 2 {
                Predicate::And(terms)
            } else {
                Predicate::Or(terms)
            }
        }
        _ => {
            let at = source.below(program.types().len() as u64) as usize;
            term(source, at as u16, program.types()[at], &mut values[at])
        }
    }
}

/// Bounds a field so tightly that all its values, or a value of each piece, can be tried.
fn bounded(source: &mut Source<'_>, at: u16, ty: Type, values: &mut Vec<Literal>) -> Predicate {
    let low = source.literal(ty);
    // Few pieces, whatever the bounds.
    if matches!(ty, Type::Bool | Type::Str | Type::Bytes | Type::Uuid) {
        let high = source.literal(ty);
        let (low, high) = (low.clone().min(high.clone()), low.max(high));
        values.extend([&low, &high].into_iter().flat_map(around));
        return match source.chance(5) {
            true => Predicate::Between(at, low, high),
            false => Predicate::True,
        };
    }
    let (steps, step) = match ty {
        Type::I64 | Type::U64 => (source.below(30) as i64, 1),
        Type::Date => (source.below(70) as i64, 1),
        // Quarters of an hour: no zone changes its offset by less.
        Type::Timestamp => (source.below(120) as i64, HOUR / 4),
        _ => (0, 0),
    };
    let aligned = match &low {
        Literal::Timestamp(it) => Literal::Timestamp(it.div_euclid(HOUR) * HOUR),
        other => other.clone(),
    };
    let within = |it: &Literal| it.is_in_range();
    let high = shifted(&aligned, steps * step);
    let (low, high) = match within(&high) {
        true => (aligned, high),
        false => (low.clone(), low),
    };
    values.extend(
        (0..=steps)
            .map(|it| shifted(&low, it * step))
            .filter(within),
    );
    Predicate::Between(at, low, high)
}

/// The constants that a rule compares with.
fn constants(rule: &Rule) -> Vec<&Literal> {
    let mut constants = Vec::new();
    for expr in rule::expressions(rule) {
        rule::walk(expr, &mut |it| match it {
            Expr::Literal(literal) => constants.push(literal),
            Expr::In(_, ListRef::Inline(list)) => constants.extend(list),
            _ => {}
        });
    }
    for definition in &rule.definitions {
        match &definition.body {
            DefinitionBody::List(list) => constants.extend(list),
            DefinitionBody::Table { entries, .. } => {
                constants.extend(entries.iter().map(|it| &it.0))
            }
            DefinitionBody::Ranges { bounds, .. } => {
                constants.extend(bounds.iter().map(|it| &it.0))
            }
            DefinitionBody::Nodes(_) => {}
        }
    }
    constants
}

struct Case {
    program: Program,
    predicate: Predicate,
    /// For each field the values to try.
    values: Vec<Vec<Option<Literal>>>,
}

fn case(seed: u64, flavour: Flavour) -> Case {
    let mut bytes = Vec::new();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..120 {
        state = crate::function::nodes::mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        bytes.extend(state.to_le_bytes());
    }
    let mut source = Source::new(&bytes);
    let mut rule = random::rule(&mut source, flavour);
    // Slots are asked for, not places: making thousands of names would take most of the time.
    rule.places = vec![PlaceLine {
        slots: Vec::new(),
        cluster: Template::default(),
        table: Template::text("t"),
    }];
    let program = Program::compile(rule).unwrap();
    let mut values = vec![Vec::new(); program.types().len()];
    let mut terms = vec![condition(&mut source, &program, &mut values, 2)];
    if flavour != Flavour::Any {
        for (at, ty) in program.types().iter().enumerate() {
            terms.push(bounded(&mut source, at as u16, *ty, &mut values[at]));
        }
    } else {
        for (at, ty) in program.types().iter().enumerate() {
            values[at].extend((0..6).map(|_| source.literal(*ty)));
        }
    }
    // What the rule itself compares with.
    for literal in constants(program.rule()) {
        for (at, ty) in program.types().iter().enumerate() {
            if literal.ty() == *ty {
                values[at].extend(around(literal));
            }
        }
    }
    let values = values.into_iter().map(|it| {
        let set: BTreeSet<_> = it.into_iter().filter(Literal::is_in_range).collect();
        std::iter::once(None)
            .chain(set.into_iter().map(Some))
            .collect()
    });
    Case {
        program,
        predicate: Predicate::And(terms),
        values: values.collect(),
    }
}

/// The values of each field that the terms on that field alone let through: what they rule out need not be combined with anything.
fn columns(case: &Case) -> Vec<Vec<Value<'_>>> {
    let Predicate::And(terms) = &case.predicate else {
        panic!("a case's condition is an and");
    };
    let of_one_field = |term: &Predicate| match term {
        Predicate::Compare(at, ..)
        | Predicate::In(at, ..)
        | Predicate::Between(at, ..)
        | Predicate::Prefix(at, ..)
        | Predicate::IsNull(at) => Some(usize::from(*at)),
        _ => None,
    };
    let columns = case.values.iter().enumerate().map(|(at, values)| {
        let terms: Vec<_> = terms
            .iter()
            .filter(|it| of_one_field(it) == Some(at))
            .collect();
        let mut record = vec![Value::Null; case.values.len()];
        let values = values
            .iter()
            .map(|it| it.as_ref().map_or(Value::Null, Literal::value));
        let passes = values.filter(|value| {
            record[at] = *value;
            terms.iter().all(|it| holds(it, &record) == Some(true))
        });
        passes.collect()
    });
    columns.collect()
}

fn combinations(columns: &[Vec<Value<'_>>]) -> usize {
    columns.iter().map(Vec::len).product()
}

/// Combinations of values that satisfy the condition, evaluated: all of them, or so many at equal distances.
fn brute_force(case: &Case, columns: &[Vec<Value<'_>>], max: usize) -> Option<BTreeSet<Slot>> {
    let combinations = combinations(columns);
    let mut found = BTreeSet::new();
    let mut fields = vec![Value::Null; columns.len()];
    for number in (0..combinations).step_by(combinations.div_ceil(max).max(1)) {
        let mut rest = number;
        for (field, column) in fields.iter_mut().zip(columns) {
            *field = column[rest % column.len()];
            rest /= column.len();
        }
        if holds(&case.predicate, &fields) != Some(true) {
            continue;
        }
        match case.program.evaluate(&fields) {
            Ok(slot) => {
                found.insert(slot);
            }
            Err(EvalError::Everywhere) => return None,
            Err(_) => {}
        }
    }
    Some(found)
}

/// Seeds that a core takes at a time: long enough not to meet at the counter, short enough that all cores end together.
const SEEDS_AT_ONCE: u64 = 64;

/// Checks every seed, on all cores. Gives how many of them were checks.
fn each_seed(seeds: u64, check: impl Fn(u64) -> bool + Sync) -> u64 {
    let next = AtomicU64::new(0);
    let work = || {
        let mut checked = 0;
        loop {
            let first = next.fetch_add(SEEDS_AT_ONCE, Ordering::Relaxed);
            if first >= seeds {
                return checked;
            }
            let end = seeds.min(first + SEEDS_AT_ONCE);
            checked += (first..end).map(|seed| u64::from(check(seed))).sum::<u64>();
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|it| it.join().unwrap()).sum()
    })
}

#[test]
fn r50_enumeration_covers_brute_force_for_random_rules_and_conditions() {
    each_seed(cases(2_000), |seed| {
        let case = case(seed, Flavour::Any);
        let found = enumerate(
            &case.program,
            &case.predicate,
            Options {
                budget: 2_000,
                ..Options::default()
            },
        );
        let found: BTreeSet<Slot> = found.unwrap().slots.into_iter().collect();
        match brute_force(&case, &columns(&case), 400) {
            Some(expected) => assert!(
                expected.is_subset(&found),
                "seed {seed}: lost {:?}\n{}{:?}",
                expected.difference(&found).collect::<Vec<_>>(),
                case.program.rule(),
                case.predicate
            ),
            None => assert_eq!(
                found.len(),
                case.program.shape().slots() as usize,
                "seed {seed}"
            ),
        }
        true
    });
}

#[test]
fn r50_enumeration_equals_brute_force_without_hashes() {
    let seeds = cases(2_000);
    let vague = AtomicU64::new(0);
    let checked = each_seed(seeds, |seed| {
        let tried = is_exact(seed);
        vague.fetch_add(u64::from(tried == Tried::Vague), Ordering::Relaxed);
        tried != Tried::Not
    });
    assert!(checked * 2 > seeds, "{checked}");
    // What is read from texts can be made to be too much to tell apart.
    let vague = vague.into_inner();
    assert!(vague * TEXTS * 20 < seeds, "{vague}");
}

/// In one case of so many texts are read.
const TEXTS: u64 = 10;

/// How a random case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// It would take too long.
    Not,
    /// The enumeration does not say that it is exact.
    Vague,
    Exact,
}

/// Enumerates a random case and tries it out.
fn is_exact(seed: u64) -> Tried {
    // Texts take longer by far.
    let flavour = if seed.is_multiple_of(TEXTS) {
        Flavour::Texts
    } else {
        Flavour::Exact
    };
    let case = case(seed, flavour);
    let columns = columns(&case);
    if combinations(&columns) > 30_000 {
        return Tried::Not;
    }
    let found = enumerate(&case.program, &case.predicate, Options::default()).unwrap();
    let slots: BTreeSet<Slot> = found.slots.iter().copied().collect();
    let about = || {
        format!(
            "seed {seed}\n{}{:?}\n{found:?}",
            case.program.rule(),
            case.predicate
        )
    };
    let looks = case.program.used_fields().iter();
    let looks = looks.map(|it| {
        (
            case.program.types()[usize::from(*it)],
            Looks::of(&case.program, *it),
        )
    });
    let looks: Vec<_> = looks.collect();
    // A moment that the rule looks at to the microsecond, not by the calendar, makes ranges as wide as any hash; so does a text that it looks
    // at in itself, not by comparing it or reading from it.
    let by_values = looks.iter().any(|(ty, looks)| {
        matches!(ty, Type::Timestamp | Type::Str | Type::Bytes | Type::Uuid) && looks.every
    });
    // Moments are tried every quarter of an hour.
    let fine = [
        Function::Micros,
        Function::Minute,
        Function::Minutes,
        Function::Second,
        Function::Seconds,
    ];
    let mut finely = false;
    for expr in rule::expressions(case.program.rule()) {
        rule::walk(expr, &mut |it| {
            finely |= matches!(it, Expr::Call(function, _) if fine.contains(function));
        });
    }
    // Nobody can try all texts.
    let by_texts = looks.iter().any(|(_, looks)| !looks.asks.is_empty());
    // Before there was standard time clocks differed by odd seconds: quarters of an hour do not try every hour then.
    let before_standard_time = matches!(&case.predicate, Predicate::And(terms) if terms.iter().any(
        |it| matches!(it, Predicate::Between(_, Literal::Timestamp(..0), _)),
    ));
    match brute_force(&case, &columns, usize::MAX) {
        Some(expected) if by_values || by_texts || finely || before_standard_time => {
            assert!(expected.is_subset(&slots), "{}", about())
        }
        Some(expected) => assert_eq!(slots, expected, "{}", about()),
        None => assert_eq!(
            slots.len(),
            case.program.shape().slots() as usize,
            "{}",
            about()
        ),
    }
    assert!(
        found.is_exact || by_values || by_texts || finely,
        "{}",
        about()
    );
    match found.is_exact || by_values || finely {
        true => Tried::Exact,
        false => Tried::Vague,
    }
}

fn slots(program: &Program, condition: &str) -> (usize, bool) {
    let found = ask(program, condition);
    (found.slots.len(), found.is_exact)
}

#[test]
fn r50_parts_of_texts_and_numbers_in_them_are_exact_for_ranges() {
    let program = |rule: &str| self::program(&format!("field s: string; field n: i64; {rule}"));
    let rule = program("dimension d 0 to 15; else (parse_int(substring(s, 1, 3)) % 16);");
    assert_eq!(slots(&rule, "s >= 'a100' and s < 'a104'"), (4, true));
    assert_eq!(slots(&rule, "s like 'a1%'"), (16, true));
    assert_eq!(
        slots(&rule, "s > 'a-' and s < 'a-2'"),
        (16, true),
        "a-0 to a-9, a-10 to a-19"
    );
    assert_eq!(slots(&rule, "s between 'a998' and 'a999zz'"), (2, true));
    assert_eq!(slots(&rule, "s != 'a100'"), (16, true));
    assert_eq!(
        slots(&rule, "s >= 'ax' and s < 'ay'"),
        (0, true),
        "no number"
    );
    let rule = program("dimension d 0 to 9; else (parse_int(right(s, 1)));");
    assert_eq!(slots(&rule, "s like 'order-%'"), (10, true));
    assert_eq!(
        slots(&rule, "s between '5' and '7'"),
        (10, true),
        "55 ends in 5, 57 in 7"
    );
    let rule = program(
        "dimension d 0 to 2; when lower(left(s, 2)) == 'eu' then (1); when upper(split_part(s, '-', 2)) in ['US', 'CA'] then (2); else (0);",
    );
    assert_eq!(slots(&rule, "s like 'EU%'"), (1, true));
    assert_eq!(
        coordinates(&rule, &ask(&rule, "s between 'x-a' and 'x-b'")),
        [[0]]
    );
    assert_eq!(
        coordinates(&rule, &ask(&rule, "s between 'x-a' and 'x-d'")),
        [[0], [2]]
    );
    assert_eq!(slots(&rule, "not s between 'a' and 'z'"), (3, true));
    let rule = program("dimension d 0 to 1; when to_bytes(s) < bytes \"6d\" then (0); else (1);");
    assert_eq!(slots(&rule, "s like 'a%'"), (1, true));
    assert_eq!(slots(&rule, "s > 'a'"), (2, true));
    let rule = program("dimension d 0 to 7; else (length(s) % 8);");
    assert_eq!(slots(&rule, "s like 'abc%'"), (8, true));
    assert_eq!(slots(&rule, "s between 'abc' and 'abc'"), (1, true));
    let rule = program(
        "dimension d 0 to 9; dimension e 0 to 3; else (parse_int(right(text(n), 1)), n % 4);",
    );
    // The last digit and the remainder by four have the parity in common.
    assert_eq!(slots(&rule, "n > 1000"), (20, true));
    assert_eq!(slots(&rule, "n between 100 and 103"), (4, true));
    let rule = program("dimension d 0 to 31; else (parse_int(split_part(s, '-', 2)));");
    assert_eq!(slots(&rule, "s like 'user-%'"), (32, true));
    assert_eq!(
        slots(&rule, "s between 'user-7' and 'user-9'"),
        (3, true),
        "no 70"
    );
}

#[test]
fn r50_wide_ranges_are_exact_through_scales_shifts_kinks_and_bits() {
    let one = |rule: &str, condition: &str| {
        let rule = program(&format!(
            "field n: i64; field m: i64; field at: timestamp; {rule}"
        ));
        slots(&rule, condition)
    };
    let month = "dimension d 1 to 12; else (month(from_seconds(n)));";
    assert_eq!(
        one(month, "n between 1767225600 and 1772323199"),
        (2, true),
        "January and February of 2026"
    );
    assert_eq!(
        one("dimension d 0 to 15; else (n * 4 % 16);", "n > 5"),
        (4, true)
    );
    assert_eq!(
        one("dimension d 0 to 15; else ((n << 2) % 16);", "n != 5"),
        (4, true)
    );
    assert_eq!(
        one("dimension d 0 to 15; else (n & 5);", "n >= 0"),
        (4, true)
    );
    assert_eq!(
        one("dimension d 0 to 15; else ((n | 3) % 16);", "n >= 0"),
        (4, true)
    );
    assert_eq!(
        one(
            "dimension d 0 to 3; dimension e 0 to 5; else (abs(n) % 4, abs(n) % 6);",
            "n < 7"
        ),
        (12, true)
    );
    assert_eq!(
        one(
            "dimension d 0 to 3; dimension e 0 to 5; else ((n + 1) % 4, (n + 1) % 6);",
            "n > 7"
        ),
        (12, true)
    );
    assert_eq!(
        one(
            "dimension d 0 to 3; dimension e 0 to 5; else (-n % 4, max(n, 100) % 6);",
            "n > 7"
        ),
        (14, true)
    );
    assert_eq!(
        one("dimension d 0 to 63; else ((n + 5) / 1000000);", "n >= 0"),
        (64, true)
    );
    assert_eq!(
        one(
            "dimension d 0 to 9; let k = n / 1000; when k == 3 then (9); else (k % 8);",
            "n > 10"
        ),
        (9, true)
    );
}

#[test]
fn one_sided_conditions_on_time_come_in_order() {
    let rule =
        program("field at: timestamp; field n: i64; dimension m 0 to 35; else (months(at) - 672);");
    let predicate = Predicate::parse(rule.rule(), "at >= '2028-01-01'", None).unwrap();
    let options = Options {
        sort: Some(0),
        ..Options::default()
    };
    let found = enumerate(&rule, &predicate, options).unwrap();
    assert_eq!(
        (found.slots.len(), found.is_exact, found.ordered_by),
        (12, true, Some(0))
    );
}

#[test]
fn dimensions_with_nothing_in_common_are_walked_by_themselves() {
    let rule = program(
        "field user: i64; field at: date; dimension d 0 to 1023; dimension day 1 to 31; else (user % 1024, day(at));",
    );
    let users: Vec<String> = (0..300).map(|it| (it * 7).to_string()).collect();
    let condition = format!(
        "user in ({}) and at >= '2026-01-01' and at < '2028-01-01'",
        users.join(", ")
    );
    assert_eq!(slots(&rule, &condition), (300 * 31, true));
}

#[test]
fn a_script_s_domain_holds_for_its_records_and_ranges() {
    let rule = program(
        "field t: timestamp domain timestamp \"2026-01-01\" to timestamp \"2026-12-31\" step 86400000000; field code: i64; \
         dimension d 0 to 1; script \"[modulo(t / 86400000000, 2)]\";",
    );
    let day = 1_767_225_600_000_000;
    let slot = |at: i64| rule.evaluate(&[Value::Timestamp(at), Value::I64(1)]);
    assert_eq!(slot(day), Ok(Slot(0)));
    // No row can hold what the domain does not, so that a range misses none.
    for beside in [day - 86_400_000_000, day + 1, day + 366 * 86_400_000_000] {
        assert_eq!(slot(beside), Err(EvalError::FieldRange { field: 0 }));
    }
    assert_eq!(
        slots(
            &rule,
            "code = 1 and t > '2026-01-02T10:00:00' and t < '2026-01-02T18:00:00'"
        ),
        (0, true)
    );
    assert_eq!(
        slots(
            &rule,
            "code = 1 and t between '2026-01-02T10:00:00' and '2026-01-03T10:00:00'"
        ),
        (1, true)
    );
    assert_eq!(slots(&rule, "code = 1 and t >= '2026-12-31'"), (1, true));
    assert_eq!(slots(&rule, "code = 1 and t < '2027-03-31'"), (2, true));
    let found = ask(&rule, "t >= '2026-12-31'");
    assert_eq!(
        (found.slots.len(), found.is_exact, found.cause.as_deref()),
        (2, false, Some("the values of code"))
    );
}
