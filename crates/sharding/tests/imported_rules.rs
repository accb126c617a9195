//! Rules of TDDL and ShardingSphere, imported, place records where the originals do.
#![allow(
    clippy::unwrap_used,
    reason = "a test: a malformed document shall fail it"
)]

use cadastre_sharding::import::{Options, shardingsphere, tddl};
use cadastre_sharding::{Program, Value, parse};
use proptest::prelude::*;

fn options() -> Options {
    Options {
        zone: Some("Asia/Shanghai".to_owned()),
        years: Some((2010, 2029)),
        ..Options::default()
    }
}

fn program(text: &str) -> Program {
    let rule = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Program::compile(rule).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The cluster and table of a record whose fields are named.
fn place(program: &Program, fields: &[(&str, Value<'_>)]) -> String {
    let mut values = vec![Value::Null; program.types().len()];
    for (name, value) in fields {
        values[usize::from(program.rule().field(name).unwrap())] = *value;
    }
    let place = program.place(&values).unwrap();
    format!("{} {}", place.cluster, place.table)
}

fn tddl_rule(properties: &str) -> Program {
    let xml = format!("<beans><bean id=\"t\" class=\"TableRule\">{properties}</bean></beans>");
    program(&tddl(&xml, &options()).unwrap().rules[0].text)
}

fn array(kind: &str, body: &str) -> String {
    format!("<property name=\"{kind}RuleArray\"><value>{body}</value></property>")
}

/// 2012-01-23T18:00:00Z: the 24th in Shanghai, a Tuesday.
const TIME: Value<'_> = Value::Timestamp(1_327_341_600_000_000);

#[test]
fn the_seeds_own_example() {
    // R49: table + "_" + #userid# % 1024 + "_" + dayofmonth(#gmt#).
    let rule = tddl_rule(&array(
        "tb",
        "\"table_\" + placeHolder(4, #userid,1,1024# % 1024) + \"_\" + dayofmonth(#gmt,1_date,31#)",
    ));
    assert_eq!(
        place(&rule, &[("userid", Value::I64(1)), ("gmt", TIME)]),
        " table_0001_24"
    );
    assert_eq!(
        place(&rule, &[("userid", Value::I64(-1)), ("gmt", TIME)]),
        " table_1023_24"
    );
}

#[test]
fn tddl_places() {
    let (db, tb) = ("\"G_\" + (#id,24# % 3 + 1)", "\"t_\" + (#id,24# % 24)");
    let rule = tddl_rule(&[array("db", db), array("tb", tb)].concat());
    assert_eq!(place(&rule, &[("id", Value::I64(23))]), "G_3 t_23");
    let rule = tddl_rule(&array("tb", "\"log_\" + yyyymm(#gmt#)"));
    assert_eq!(place(&rule, &[("gmt", TIME)]), " log_201201");
    let rule = tddl_rule(&array("tb", "\"log_\" + dayofweek(#gmt#)"));
    assert_eq!(place(&rule, &[("gmt", TIME)]), " log_2");
    let rule = tddl_rule(&array("tb", "\"log_\" + halfayear(#gmt#) + quarter(#gmt#)"));
    assert_eq!(place(&rule, &[("gmt", TIME)]), " log_11");
    // Java: "polygenelubricants".hashCode() is the least integer, whose abs is itself.
    let rule = tddl_rule(&array("tb", "\"t_\" + Math.abs(#name#.hashCode()) % 10"));
    assert_eq!(place(&rule, &[("name", Value::Str("hello"))]), " t_2");
    assert_eq!(
        place(&rule, &[("name", Value::Str("polygenelubricants"))]),
        " t_8"
    );
    let pattern = "<property name=\"tbNamePattern\" value=\"t_{0000}\"/>";
    let rule = tddl_rule(&format!("{pattern}{}", array("tb", "rightCut(#id#, 2, 2)")));
    assert_eq!(place(&rule, &[("id", Value::I64(123_456))]), " t_0034");
    let rule = tddl_rule(&array(
        "tb",
        "if (#seller# == 2000) return \"t_hot\"; if (#seller# &gt; 9000) return \"t_big_\" + #seller# % 2; return \"t_\" + #seller# % 4",
    ));
    let of = |seller| place(&rule, &[("seller", Value::I64(seller))]);
    assert_eq!(
        [of(2_000), of(9_001), of(9_000), of(3)],
        [" t_hot", " t_big_1", " t_0", " t_3"]
    );
}

#[test]
fn shardingsphere_places() {
    let document = "
rules:
- !SHARDING
  tables:
    t_order:
      actualDataNodes: ds_${0..1}.t_order_${0..3}
      databaseStrategy: {standard: {shardingColumn: user_id, shardingAlgorithmName: inline}}
      tableStrategy: {standard: {shardingColumn: order_id, shardingAlgorithmName: mod}}
    t_log:
      actualDataNodes: ds_0.t_log_${2011..2012}${['01','02','03']}
      tableStrategy: {standard: {shardingColumn: at, shardingAlgorithmName: month}}
  autoTables:
    t_auto:
      actualDataSources: 'first, second'
      shardingStrategy: {standard: {shardingColumn: n, shardingAlgorithmName: range}}
  shardingAlgorithms:
    inline: {type: INLINE, props: {algorithm-expression: 'ds_${user_id % 2}'}}
    mod: {type: MOD, props: {sharding-count: 4}}
    range: {type: BOUNDARY_RANGE, props: {sharding-ranges: '10,20'}}
    month:
      type: INTERVAL
      props: {datetime-lower: '2011-01-01 00:00:00', datetime-upper: '2012-12-31 00:00:00', sharding-suffix-pattern: yyyyMM, datetime-interval-unit: MONTHS}
";
    let import = shardingsphere(document, &options()).unwrap();
    let [order, log, auto] = &import.rules[..] else {
        panic!("three tables");
    };
    let order = program(&order.text);
    let ids = [("user_id", Value::I64(7)), ("order_id", Value::I64(6))];
    assert_eq!(place(&order, &ids), "ds_1 t_order_2");
    assert_eq!(
        place(&program(&log.text), &[("at", TIME)]),
        "ds_0 t_log_201201"
    );
    let auto = program(&auto.text);
    let of = |n| place(&auto, &[("n", Value::I64(n))]);
    assert_eq!(
        [of(9), of(10), of(19), of(20)],
        [
            "first t_auto_0",
            "second t_auto_1",
            "second t_auto_1",
            "first t_auto_2"
        ]
    );
}

/// An expression of Groovy on one column, and what Java makes of it for numbers that are not negative.
#[derive(Debug, Clone)]
enum Groovy {
    Id,
    Number(i64),
    Add(Box<Groovy>, Box<Groovy>),
    Times(Box<Groovy>, i64),
    Modulo(Box<Groovy>, i64),
    Divide(Box<Groovy>, i64),
    Choose(Box<Groovy>, i64, Box<Groovy>, Box<Groovy>),
}

impl Groovy {
    fn text(&self) -> String {
        match self {
            Self::Id => "#id,1_number,1024#".to_owned(),
            Self::Number(it) => it.to_string(),
            Self::Add(a, b) => format!("({} + {})", a.text(), b.text()),
            Self::Times(a, n) => format!("{} * {n}", a.text()),
            Self::Modulo(a, n) => format!("({}) % {n}", a.text()),
            Self::Divide(a, n) => format!("({}).intdiv({n})", a.text()),
            Self::Choose(a, n, yes, no) => {
                format!("(({}) &gt; {n} ? {} : {})", a.text(), yes.text(), no.text())
            }
        }
    }

    fn java(&self, id: i64) -> i64 {
        match self {
            Self::Id => id,
            Self::Number(it) => *it,
            Self::Add(a, b) => a.java(id) + b.java(id),
            Self::Times(a, n) => a.java(id) * n,
            Self::Modulo(a, n) => a.java(id) % n,
            Self::Divide(a, n) => a.java(id) / n,
            Self::Choose(a, n, yes, no) => {
                if a.java(id) > *n {
                    yes.java(id)
                } else {
                    no.java(id)
                }
            }
        }
    }
}

fn groovy() -> impl Strategy<Value = Groovy> {
    let leaf = prop_oneof![Just(Groovy::Id), (0_i64..1_000).prop_map(Groovy::Number)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.prop_map(Box::new);
        prop_oneof![
            (boxed.clone(), boxed.clone()).prop_map(|(a, b)| Groovy::Add(a, b)),
            (boxed.clone(), 1_i64..9).prop_map(|(a, n)| Groovy::Times(a, n)),
            (boxed.clone(), 1_i64..1_000).prop_map(|(a, n)| Groovy::Modulo(a, n)),
            (boxed.clone(), 1_i64..100).prop_map(|(a, n)| Groovy::Divide(a, n)),
            (boxed.clone(), 0_i64..500, boxed.clone(), boxed)
                .prop_map(|(a, n, yes, no)| Groovy::Choose(a, n, yes, no)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn imported_arithmetic_is_the_originals(expression in groovy(), ids in prop::collection::vec(0_i64..1_000_000_000, 1..20)) {
        let body = format!("\"t_\" + (#id# * 0 + {}) % 37", expression.text());
        let rule = tddl_rule(&array("tb", &body));
        for id in ids {
            let expected = format!(" t_{}", expression.java(id) % 37);
            prop_assert_eq!(place(&rule, &[("id", Value::I64(id))]), expected, "{}", rule.rule());
        }
    }
}
