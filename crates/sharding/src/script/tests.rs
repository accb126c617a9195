//! Scripts: what they may do, what they may not, and that no text and no record harms.

use proptest::prelude::*;

use super::*;

fn fields() -> Vec<(String, Type)> {
    [
        ("user_id", Type::I64),
        ("name", Type::Str),
        ("gmt", Type::Timestamp),
    ]
    .map(|(name, ty)| (name.to_owned(), ty))
    .to_vec()
}

fn script(text: &str) -> Result<Script, RuleError> {
    Script::new(text, &fields(), 1, &Zone::load("Asia/Shanghai").unwrap())
}

fn of(script: &Script, user_id: i64, name: &str, gmt: i64) -> Result<Vec<i64>, ScriptFault> {
    script.evaluate(&[Value::I64(user_id), Value::Str(name), Value::Timestamp(gmt)])
}

fn answer(text: &str) -> Result<Vec<i64>, ScriptFault> {
    of(&script(text).unwrap(), 2_000, "Ada", 0)
}

#[test]
fn r33_any_script_is_a_rule() {
    let text = r#"
        const BIG = [2000, 2001];
        fn vip(id) { id == 7 }
        if user_id in BIG { 1023 }
        else if vip(user_id) { 1022 }
        else if name.starts_with("test_") { 1021 }
        else { modulo(user_id, 1000) }
    "#;
    // A script's functions do not see its constants; `in` does.
    let script = script(text).unwrap();
    assert_eq!(of(&script, 2_000, "", 0), Ok(vec![1_023]));
    assert_eq!(of(&script, 7, "", 0), Ok(vec![1_022]));
    assert_eq!(of(&script, 8, "test_x", 0), Ok(vec![1_021]));
    assert_eq!(of(&script, -1, "", 0), Ok(vec![999]));
}

#[test]
fn several_dimensions() {
    let text = "[xxh3(user_id) % 16, day(gmt)]";
    let script = Script::new(text, &fields(), 2, &Zone::load("Asia/Shanghai").unwrap()).unwrap();
    let of = |gmt| script.evaluate(&[Value::I64(5), Value::Str(""), Value::Timestamp(gmt)]);
    let slot = of(951_840_000_000_000).unwrap();
    // 2000-02-29T16:00:00Z is the first of March in Shanghai.
    assert_eq!(slot[1], 1);
    assert!((0..16).contains(&slot[0]));
}

#[test]
fn the_library_is_ours() {
    assert_eq!(answer("java_hash(name)"), Ok(vec![foreign("Ada")]));
    assert_eq!(answer("crc32(\"123456789\")"), Ok(vec![0xcbf4_3926]));
    assert_eq!(answer("jump(42, 57)"), Ok(vec![43]));
    assert_eq!(answer("modulo(-1, 4)"), Ok(vec![3]));
    assert_eq!(answer("hour(gmt)"), Ok(vec![8]));
    assert_eq!(answer("parse_int(\"-12\")"), Ok(vec![-12]));
    // Kelvin's sign is a K for Unicode, and for ASCII none.
    assert_eq!(
        answer("if \"\u{212A}\".to_lower() == \"k\" { 1 } else { 0 }"),
        Ok(vec![0])
    );
}

fn foreign(text: &str) -> i64 {
    crate::function::foreign::java_string(text).into()
}

#[test]
fn what_a_script_may_not() {
    for text in [
        "timestamp()",
        "sleep(1)",
        "rand()",
        "import \"x\" as y; 1",
        "eval(\"1\")",
        "print(1); 1",
        "debug(1); 1",
        "open_file(\"/etc/passwd\")",
        "exit(1)",
        "1.5",
        "1 +",
        "nobody",
        "",
    ] {
        let outcome = script(text).map(|script| of(&script, 0, "", 0));
        assert!(
            matches!(outcome, Err(_) | Ok(Err(ScriptFault::Failed))),
            "{text}: {outcome:?}"
        );
    }
}

#[test]
fn a_script_is_bounded() {
    for text in [
        "loop {}",
        "let n = 0; while true { n += 1 } n",
        "fn f(n) { f(n + 1) } f(0)",
        "let s = \"x\"; loop { s += s; }",
        "let a = [1]; loop { a += a; }",
        "let a = []; loop { a.push(a); }",
        "let m = #{}; for i in 0..100000 { m[`${i}`] = i; } 1",
        "\"x\".pad(1000000000, \"y\"); 1",
        "let b = blob(1000000000); 1",
        "let a = []; a.pad(1000000000, 1); 1",
    ] {
        assert_eq!(answer(text), Err(ScriptFault::Limit), "{text}");
    }
    let deep = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(script(&deep).is_err());
    let long = format!("1{}", " + 1".repeat(10_000));
    assert!(script(&long).is_err());
    assert!(script(&" ".repeat(limits::SCRIPT_BYTES_MAX + 1)).is_err());
    let many: String = (0..100).map(|at| format!("fn f{at}() {{ 1 }}\n")).collect();
    assert!(script(&format!("{many}1")).is_err());
}

#[test]
fn what_is_no_slot() {
    for text in [
        "\"1\"",
        "[1, 2]",
        "[]",
        "()",
        "true",
        "#{}",
        "[\"1\"]",
        "let x = 1;",
    ] {
        assert_eq!(answer(text), Err(ScriptFault::Answer), "{text}");
    }
    for text in [
        "9223372036854775807 + user_id",
        "1 / 0",
        "1 % 0",
        "[1][5]",
        "throw 1",
        "modulo(1, 0)",
    ] {
        assert_eq!(answer(text), Err(ScriptFault::Failed), "{text}");
    }
    assert_eq!(
        script("\"x\" + user_id").unwrap().explain(&[
            Value::I64(1),
            Value::Str(""),
            Value::Timestamp(0)
        ]),
        Err("the answer x1 is no slot of 1 dimensions".to_owned())
    );
    let too_large = Script::new("1", &[("u".to_owned(), Type::U64)], 1, &Zone::utc()).unwrap();
    assert_eq!(
        too_large.evaluate(&[Value::U64(u64::MAX)]),
        Err(ScriptFault::Failed)
    );
}

#[test]
fn a_fault_says_where_it_is() {
    let error = script("let x = 1;\nx +* 2").unwrap_err();
    assert!(error.message.contains("line 2"), "{}", error.message);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_and_no_record_harms(text in "\\PC{0,80}", user_id: i64, name in "\\PC{0,20}", gmt: i64) {
        if let Ok(script) = script(&text) {
            let _ = of(&script, user_id, &name, gmt);
        }
    }

    #[test]
    fn the_same_record_has_the_same_slot(user_id: i64, name in "\\PC{0,20}", gmt: i64) {
        const TEXT: &str = "let m = #{ a: 3, b: 1 }; let s = 0; for k in m.keys() { s = s * 7 + xxh3(k + name) % 5; } \
                            modulo(user_id, 100) + s + day(gmt)";
        let (one, two) = (script(TEXT).unwrap(), script(TEXT).unwrap());
        let first = of(&one, user_id, &name, gmt);
        prop_assert!(first.is_ok());
        prop_assert_eq!(&first, &of(&two, user_id, &name, gmt));
        prop_assert_eq!(&first, &of(&one, user_id, &name, gmt));
    }
}
