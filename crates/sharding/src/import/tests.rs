//! Importers: what they print, what they warn of, what they refuse; that nothing makes them panic.

use proptest::prelude::*;

use super::*;

/// cpsing/tddl, tddl-rule/src/test/resources/local/tddl-rule.xml has this form.
const TDDL: &str = r##"<?xml version="1.0" encoding="gb2312"?>
<!DOCTYPE beans PUBLIC "-//SPRING//DTD BEAN//EN" "http://www.springframework.org/dtd/spring-beans.dtd">
<beans>
  <bean id="root" class="com.taobao.tddl.rule.VirtualTableRoot" init-method="init">
    <property name="dbType" value="MYSQL" />
    <property name="tableRules"><map><entry key="nserch" value-ref="bean1" /></map></property>
  </bean>
  <bean id="bean1" class="com.taobao.tddl.rule.TableRule">
    <property name="tbRuleArray">
      <value>"nserch_" + (#message_id,1_number,24# % 24)</value>
    </property>
    <property name="dbRuleArray">
      <value><![CDATA[ return "NSEARCH_GROUP_" + (#message_id,24# % 3 + 1); ]]></value>
    </property>
    <property name="allowFullTableScan" value="true"/>
  </bean>
</beans>"##;

fn bean(properties: &str) -> String {
    format!("<beans>\n<bean id=\"t\" class=\"TableRule\">\n{properties}\n</bean></beans>")
}

fn rule_array(kind: &str, body: &str) -> String {
    let body = body.replace('&', "&amp;").replace('<', "&lt;");
    format!("<property name=\"{kind}RuleArray\"><value>{body}</value></property>")
}

fn options() -> Options {
    Options {
        zone: Some("Asia/Shanghai".to_owned()),
        years: Some((2020, 2029)),
        ..Options::default()
    }
}

fn tddl_text(properties: &str) -> String {
    tddl(&bean(properties), &options()).unwrap().rules[0]
        .text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn tddl_error(properties: &str) -> String {
    tddl(&bean(properties), &Options::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn tddls_own_example() {
    let import = tddl(TDDL, &Options::default()).unwrap();
    let rule = &import.rules[0];
    assert_eq!(rule.table, "nserch");
    assert!(
        rule.text.ends_with(
            "rule nserch version 1;\nfield message_id: i64;\ndimension db 1 to 3;\ndimension tb 0 to 23;\n\
             else (((message_id % 3) + 1), (message_id % 24));\n\
             place cluster \"NSEARCH_GROUP_{db}\" table \"nserch_{tb}\";\n"
        ),
        "{}",
        rule.text
    );
    let lines: Vec<u32> = rule.warnings.iter().map(|it| it.line).collect();
    // The rest of a negative number, on both lines; steps and counts; full scans; conditions, Groovy, null.
    assert_eq!(lines, [13, 10, 8, 15, 8, 8, 8]);
    let full_scan = &rule.warnings[3].message;
    assert!(full_scan.contains("--unbounded allow"), "{full_scan}");
    let refused = TDDL.replace("allowFullTableScan", "disableFullTableScan");
    let refused = tddl(&refused, &Options::default()).unwrap();
    let full_scan = &refused.rules[0].warnings[3].message;
    assert!(full_scan.contains("--unbounded refuse"), "{full_scan}");
}

#[test]
fn tddl_with_dates_and_patterns() {
    let text = tddl_text(&format!(
        "<property name=\"dbNamePattern\" value=\"G_{{00}}\"/>{}{}",
        rule_array("db", "Math.abs(#seller#.hashCode()) % 4"),
        rule_array(
            "tb",
            "\"log_\" + placeHolder(4, #id,1024# % 1024) + \"_\" + yyyymm(#gmt#)"
        ),
    ));
    assert_eq!(
        text,
        "rule t version 1;\nzone \"Asia/Shanghai\";\nfield gmt: timestamp;\nfield id: i64;\nfield seller: string;\n\
         dimension db 0 to 3;\ndimension tb 0 to 1023;\ndimension tb2 600 to 719;\n\
         else ((abs(java_hash(seller)) % 4), (id % 1024), months(gmt));\n\
         place cluster \"G_{db:2}\" table \"log_{tb:4}_{tb2 / 12 + 1970:4}{tb2 % 12 + 1:2}\";\n"
    );
}

#[test]
fn tddl_with_a_seller_who_lives_alone() {
    let text = tddl_text(&rule_array(
        "tb",
        "if (#seller# == 2000) { return \"t_special\"; } else { return \"t_\" + #seller# % 4; }",
    ));
    assert_eq!(
        text,
        "rule t version 1;\nfield seller: i64;\ndimension tb 0 to 4;\n\
         else ((if (seller == 2000) then 0 else (seller % 4) + 1));\n\
         place (0 to 0) table \"t_special\";\nplace (1 to 4) table \"t_{tb - 1}\";\n"
    );
}

#[test]
fn tddl_functions() {
    for (groovy, ours, low, high) in [
        ("dayofweek(#d#)", "(day_of_week(d) % 7)", 0, 6),
        ("dayofweek(#d#, 0)", "(day_of_week(d) % 7 + (1))", 1, 7),
        ("week(#d#)", "(day_of_week(d) % 7 + 1)", 1, 7),
        ("date(#d#) - 1", "(day(d) - 1)", 0, 30),
        ("quarter(#d#)", "quarter(d)", 1, 4),
        ("halfayear(#d#)", "((month(d) - 1) / 6 + 1)", 1, 2),
        ("#id#.intdiv(100) % 8", "((id / 100) % 8)", 0, 7),
        ("(long) (#id# / 100) % 8", "((id / 100) % 8)", 0, 7),
        ("right(#id#, 2)", "(id % 100)", 0, 99),
        ("rightCut(#id#, 2, 3)", "((id / 100) % 1000)", 0, 999),
        (
            "Long.parseLong(#s#.substring(0, 2)) % 10",
            "(parse_int(substring(s, 0, 2)) % 10)",
            0,
            9,
        ),
        ("#a# > 5 ? 1 : 0", "(if (a > 5) then 1 else 0)", 0, 1),
    ] {
        let text = tddl_text(&rule_array("tb", &format!("\"t_\" + ({groovy})")));
        assert!(
            text.contains(&format!("else ({ours});")),
            "{groovy}: {text}"
        );
        assert!(
            text.contains(&format!("dimension tb {low} to {high};")),
            "{groovy}: {text}"
        );
    }
}

#[test]
fn what_tddl_gets_wrong_is_warned_of() {
    let properties = rule_array(
        "tb",
        "\"t_\" + Math.abs(#s#.hashCode()) % 4 + yy(#d,1_date,31#) + (#i# * 5) % 3",
    );
    let import = tddl(&bean(&properties), &Options::default()).unwrap();
    let all: Vec<&str> = import.rules[0]
        .warnings
        .iter()
        .map(|it| it.message.as_str())
        .collect();
    for defect in [
        "defect 1",
        "defect 2",
        "defect 3",
        "defect 4",
        "defect 5",
        "defect 6",
        "defects 7 and 8",
        "defect 9",
        "defect 10",
    ] {
        assert!(
            all.iter().any(|it| it.contains(defect)),
            "{defect}: {all:?}"
        );
    }
}

#[test]
fn what_tddl_has_and_we_have_not_is_refused_by_name() {
    let cases = [
        (
            "<property name=\"tableSlotMap\" ref=\"x\"/>",
            "line 3: the property 'tableSlotMap' cannot be imported",
        ),
        (
            "<property name=\"extraPackages\" value=\"x\"/>",
            "line 3: the property 'extraPackages' cannot be imported",
        ),
        (
            "<property name=\"broadcast\" value=\"true\"/>",
            "line 3: a broadcast table is on every database and has no rule",
        ),
        ("", "line 2: the table 't' has no rule"),
    ];
    for (properties, message) in cases {
        assert_eq!(tddl_error(properties), message);
    }
    let bodies = [
        (
            "def x = 1; return x",
            "the statement 'def' cannot be imported",
        ),
        (
            "\"t_\" + AppUtils.format(#id#)",
            "the function 'AppUtils.format' cannot be imported",
        ),
        ("\"t_\" + #id# / 4", "Groovy's '/' gives fractions"),
        ("\"t_\" + #id#", "id has no bounds"),
        (
            "\"t_\" + #id# % 0",
            "a modulus that is not a number above 0",
        ),
        ("\"t_\" + yyyy(#d#)", "yyyy makes tables without end"),
        ("\"t_\" + quarter(month(#d#))", "(B1, defect 2)"),
        (
            "\"t_\" + (#a# % 2) + (#a# == \"x\" ? 1 : 0)",
            "used as i64 and as string",
        ),
        ("\"t_${id}\"", "with \\ or $ cannot be imported"),
        ("\"t_\" + (1", "the end where ')' is expected"),
        (
            "\"t_\" + #between# % 2",
            "the column 'between' cannot be a field",
        ),
        (" ", "the expression ends too early"),
    ];
    for (body, message) in bodies {
        let error = tddl_error(&rule_array("tb", body));
        assert!(
            error.starts_with("line 3: ") && error.contains(message),
            "{body}: {error}"
        );
    }
    let nested = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(tddl_error(&rule_array("tb", &nested)).contains("longer than"));
    let nested = format!("{}1{}", "(".repeat(1_000), ")".repeat(1_000));
    assert!(tddl_error(&rule_array("tb", &nested)).contains("deeper than 64"));
    assert!(tddl("<beans>", &Options::default()).is_err());
    assert_eq!(
        tddl(
            &" ".repeat(limits::DOCUMENT_BYTES_MAX + 1),
            &Options::default()
        )
        .unwrap_err()
        .line,
        1
    );
    // "Billion laughs": entities that multiply.
    let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \
                \"&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;\"><!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;\"><!ENTITY e \
                \"&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;\">]><beans>&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;</beans>";
    assert!(tddl(bomb, &Options::default()).is_err());
}

const SHARDINGSPHERE: &str = r"
rules:
- !SHARDING
  tables:
    t_order:
      actualDataNodes: ds_${0..1}.t_order_${0..3}
      databaseStrategy:
        standard:
          shardingColumn: user_id
          shardingAlgorithmName: by_user
      tableStrategy:
        standard:
          shardingColumn: order_id
          shardingAlgorithmName: by_order
    t_log:
      actualDataNodes: ds_0.t_log_${2024..2025}${['01','02','03']}
      tableStrategy:
        standard:
          shardingColumn: created
          shardingAlgorithmName: by_month
  autoTables:
    t_auto:
      actualDataSources: ds_${0..1}
      shardingStrategy:
        standard:
          shardingColumn: name
          shardingAlgorithmName: hashed
  bindingTables:
    - t_order,t_order_item
  shardingAlgorithms:
    by_user:
      type: INLINE
      props:
        algorithm-expression: ds_${user_id % 2}
    by_order:
      type: MOD
      props:
        sharding-count: 4
    hashed:
      type: HASH_MOD
      props:
        sharding-count: 4
    by_month:
      type: INTERVAL
      props:
        datetime-pattern: yyyy-MM-dd HH:mm:ss
        datetime-lower: '2024-01-01 00:00:00'
        datetime-upper: '2025-12-31 23:59:59'
        sharding-suffix-pattern: yyyyMM
        datetime-interval-unit: MONTHS
";

fn plain(rule: &Imported) -> String {
    let lines = rule.text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn shardingspheres_algorithms() {
    let import = shardingsphere(SHARDINGSPHERE, &options()).unwrap();
    let texts: Vec<String> = import.rules.iter().map(plain).collect();
    assert_eq!(
        texts[0],
        "rule t_order version 1;\nfield order_id: i64;\nfield user_id: i64;\ndimension db 0 to 1;\n\
         dimension tb 0 to 3;\nelse ((user_id % 2), (order_id % 4));\n\
         place cluster \"ds_{db}\" table \"t_order_{tb}\";\n"
    );
    assert_eq!(
        texts[1],
        "rule t_log version 1;\nzone \"Asia/Shanghai\";\nfield created: timestamp;\ndimension tb 648 to 671;\n\
         else (months(created));\n\
         place cluster \"ds_0\" table \"t_log_{tb / 12 + 1970:4}{tb % 12 + 1:2}\";\n"
    );
    assert_eq!(
        texts[2],
        "rule t_auto version 1;\nfield name: string;\ndimension tb 0 to 3;\nelse ((abs(java_hash(name)) % 4));\n\
         place cluster \"ds_{tb % 2}\" table \"t_auto_{tb}\";\n"
    );
    assert_eq!(
        import.warnings,
        [Warning {
            line: 29,
            message: "'bindingTables' places no rows by rule and is left out".to_owned()
        }]
    );
}

#[test]
fn what_stands_beside_the_rule_of_sharding_is_named() {
    let document = SHARDINGSPHERE.replacen(
        "rules:\n",
        "databaseName: d\nrules:\n- !READWRITE_SPLITTING\n  dataSources: {a: {}}\n",
        1,
    );
    let import = shardingsphere(&format!("{document}- !SHARDING\n  x: 1\n"), &options()).unwrap();
    assert_eq!(import.rules.len(), 3);
    let told: Vec<String> = import
        .warnings
        .iter()
        .map(|it| format!("{}: {}", it.line, it.message))
        .collect();
    let left_out = |what: &str| told.iter().any(|it| it.contains(what));
    for what in [
        "'databaseName' places no rows",
        "the rule '!READWRITE_SPLITTING' places no rows by rule and is left out",
        "a second '!SHARDING'",
        "'bindingTables'",
    ] {
        assert!(left_out(what), "{what}: {told:?}");
    }
    assert_eq!(told.len(), 4);
}

fn auto(algorithm: &str) -> Result<Import, ImportError> {
    let text = format!(
        "autoTables:\n  t:\n    actualDataSources: a, b\n    shardingStrategy:\n      standard:\n        \
         shardingColumn: c\n        shardingAlgorithmName: x\nshardingAlgorithms:\n  x:\n    type: {algorithm}\n"
    );
    shardingsphere(&text, &options())
}

#[test]
fn shardingspheres_ranges() {
    let volume =
        auto("VOLUME_RANGE\n    props: {range-lower: 10, range-upper: 45, sharding-volume: 10}")
            .unwrap();
    assert_eq!(
        plain(&volume.rules[0]),
        "rule t version 1;\nfield c: i64;\ndimension tb 0 to 5;\n\
         ranges tb_of: i64 { 0, 10 => 1, 20 => 2, 30 => 3, 40 => 4, 45 => 5 };\nelse (tb_of(c));\n\
         place (0 to 0) cluster \"a\" table \"t_{tb}\";\nplace (1 to 1) cluster \"b\" table \"t_{tb}\";\n\
         place (2 to 2) cluster \"a\" table \"t_{tb}\";\nplace (3 to 3) cluster \"b\" table \"t_{tb}\";\n\
         place (4 to 4) cluster \"a\" table \"t_{tb}\";\nplace (5 to 5) cluster \"b\" table \"t_{tb}\";\n"
    );
    let boundary = auto("BOUNDARY_RANGE\n    props: {sharding-ranges: '-1, 5, 10'}").unwrap();
    assert!(
        boundary.rules[0]
            .text
            .contains("ranges tb_of: i64 { 0, -1 => 1, 5 => 2, 10 => 3 };")
    );
    let interval = auto(
        "AUTO_INTERVAL\n    props: {datetime-lower: '2024-01-01 00:00:00', datetime-upper: '2024-01-03 00:00:00', \
         sharding-seconds: 86400}",
    )
    .unwrap();
    // Midnight in Shanghai.
    assert!(
        interval.rules[0].text.contains(
            "ranges tb_of: timestamp { 0, timestamp \"2023-12-31T16:00:00Z\" => 1, timestamp \"2024-01-01T16:00:00Z\" => 2, \
             timestamp \"2024-01-02T16:00:00Z\" => 3 };"
        ),
        "{}",
        interval.rules[0].text
    );
}

#[test]
fn what_shardingsphere_has_and_we_have_not_is_refused_by_name() {
    let algorithms = [
        (
            "CLASS_BASED\n    props: {strategy: standard}",
            "the algorithm CLASS_BASED cannot be imported",
        ),
        (
            "COSID_MOD\n    props: {mod: 4}",
            "the algorithm COSID_MOD cannot be imported",
        ),
        (
            "MOD\n    props: {sharding-count: 0}",
            "sharding-count must be above 0",
        ),
        ("MOD", "the algorithm MOD has no props"),
        ("MOD\n    props: {}", "'sharding-count' is missing"),
        (
            "MOD\n    props: {sharding-count: 4, start-offset: 2}",
            "'start-offset' cannot be imported",
        ),
        (
            "VOLUME_RANGE\n    props: {range-lower: 0, range-upper: 9223372036854775807, sharding-volume: 1}",
            "are no tables, or too many",
        ),
    ];
    for (algorithm, message) in algorithms {
        let error = auto(algorithm).unwrap_err().to_string();
        assert!(error.contains(message), "{algorithm}: {error}");
    }
    for (text, message) in [
        (
            "rules:\n- !READWRITE_SPLITTING\n  x: 1\n",
            "there is no rule '!SHARDING'",
        ),
        (
            "tables:\n  t: &a\n    actualDataNodes: x.y\n  u: *a\n",
            "line 4: an alias (*name) cannot be imported",
        ),
        (
            "tables:\n  t: {actualDataNodes: 'd${0..9}.t${0..99999}'}\n",
            "'0..99999' is neither a range",
        ),
        (
            "tables:\n  t: {actualDataNodes: 'd${0..999}.t${0..999}'}\n",
            "more than 65536 names",
        ),
        (
            "tables:\n  t: {actualDataNodes: 'd${0..1}.t'}\n",
            "several data sources and no strategy",
        ),
        (
            "tables:\n  t: {x: 1, x: 2}\n",
            "the key 'x' stands there twice",
        ),
        ("a: [", "no YAML"),
        ("", "the document is empty"),
    ] {
        let error = shardingsphere(text, &Options::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    let deep = format!("tables: {}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(shardingsphere(&deep, &Options::default()).is_err());
}

proptest! {
    #[test]
    fn no_document_makes_an_importer_panic(text in "\\PC{0,200}", at in 0_usize..3_000, gone in 0_usize..50) {
        let _ = (tddl(&text, &options()), shardingsphere(&text, &options()));
        for document in [TDDL, SHARDINGSPHERE] {
            // A real one with a hole, filled with anything.
            let chars: Vec<char> = document.chars().collect();
            let at = at % chars.len();
            let before: String = chars[..at].iter().collect();
            let after: String = chars[(at + gone).min(chars.len())..].iter().collect();
            let _ = tddl(&format!("{before}{text}{after}"), &options());
            let _ = shardingsphere(&format!("{before}{text}{after}"), &options());
            let _ = shardingsphere(&format!("{before}{after}"), &options());
        }
    }

    #[test]
    fn no_expression_makes_an_importer_panic(text in "[#a-z0-9 +%*/().?:\"&|<>=!-]{0,60}") {
        let _ = tddl(&bean(&rule_array("tb", &text)), &options());
        let _ = tddl(&bean(&rule_array("tb", &format!("\"t_\" + ({text}) % 7"))), &options());
    }
}
