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
    fn damaged_documents_of_others_do_no_harm(which in 0_usize..2, at in any::<prop::sample::Index>(), with in "[ -~\n]{0,6}", cut in 0_usize..8) {
        let document = [TDDL, SHARDINGSPHERE][which].as_bytes();
        let at = at.index(document.len());
        let end = (at + cut).min(document.len());
        entry::import(&[&document[..at], with.as_bytes(), &document[end..]].concat());
    }

    #[test]
    fn scripts_of_any_words_do_no_harm(words in prop::collection::vec(prop::sample::select(SCRIPT_WORDS), 0..12)) {
        entry::script(words.join(" ").as_bytes());
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        entry::text(&bytes);
        entry::bytecode(&bytes);
        entry::condition(&bytes);
        entry::import(&bytes);
        entry::script(&bytes);
    }

    #[test]
    fn conditions_of_any_words_do_no_harm(words in prop::collection::vec(prop::sample::select(WORDS), 0..30)) {
        entry::condition(words.join(" ").as_bytes());
    }
}

#[test]
fn whole_documents_of_others_are_imported() {
    assert_eq!(entry::import(TDDL.as_bytes()), 2);
    assert_eq!(entry::import(SHARDINGSPHERE.as_bytes()), 2);
}

const TDDL: &str = r##"<beans>
<bean id="t" class="com.taobao.tddl.rule.TableRule">
<property name="dbNamePattern" value="G_{00}"/>
<property name="dbRuleArray" value="Math.abs(#seller#.hashCode()) % 4"/>
<property name="tbRuleArray"><value>if (#id,1_number,1024# == 7) return "t_hot"; return "t_" + (#id# % 24)</value></property>
</bean>
<bean id="log" class="TableRule"><property name="tbRuleArray" value='"log_" + yyyymm(#gmt,1_date,31#)'/></bean>
</beans>"##;

const SHARDINGSPHERE: &str = "rules:
- !SHARDING
  tables:
    t:
      actualDataNodes: ds_${0..1}.t_${0..3}
      databaseStrategy: {standard: {shardingColumn: user, shardingAlgorithmName: inline}}
      tableStrategy: {standard: {shardingColumn: id, shardingAlgorithmName: mod}}
  autoTables:
    a:
      actualDataSources: 'first, second'
      shardingStrategy: {standard: {shardingColumn: n, shardingAlgorithmName: range}}
  shardingAlgorithms:
    inline: {type: INLINE, props: {algorithm-expression: 'ds_${user % 2}'}}
    mod: {type: MOD, props: {sharding-count: 4}}
    range: {type: BOUNDARY_RANGE, props: {sharding-ranges: '10,20'}}
";

const SCRIPT_WORDS: &[&str] = &[
    "id",
    "name",
    "+",
    "%",
    "7",
    "(",
    ")",
    "[",
    "]",
    "let x =",
    ";",
    "if",
    "{",
    "}",
    "else",
    "loop",
    "while",
    "true",
    "fn f()",
    "f()",
    "x",
    "x +=",
    "xxh3(name)",
    ".len()",
    "#{ a: 1 }",
    "\"text\"",
    "throw",
    "return",
    "modulo(id, 7)",
    "for k in",
];

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
