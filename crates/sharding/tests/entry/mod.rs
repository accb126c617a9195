//! What the fuzz targets of rules run on any bytes. The ordinary test run calls it too, with damaged and arbitrary bytes.

use std::sync::LazyLock;

use cadastre_sharding::{
    Literal, Predicate, Program, Rule, RuleHash, Type, Value, decode, encode,
    enumerate::{Options, enumerate},
    function::Zone,
    import, parse, parse_bytes,
    script::Script,
    versions::RuleSet,
};

/// Evaluations of one enumeration: a target is called thousands of times a second.
const BUDGET: usize = 500;

/// Any text: if it is a rule, everything that can be done with a rule.
pub(crate) fn text(data: &[u8]) {
    match parse_bytes(data) {
        Ok(rule) => whole(&rule),
        Err(error) => assert!(!error.message.is_empty()),
    }
}

/// Any bytes as bytecode and as a rule set.
pub(crate) fn bytecode(data: &[u8]) {
    if let Ok(rule) = decode(data) {
        assert_eq!(
            encode(&rule).ok().as_deref(),
            Some(data),
            "two forms of one rule"
        );
        whole(&rule);
    }
    if let Ok(set) = RuleSet::decode(data) {
        assert_eq!(set.encode(), data, "two forms of one rule set");
    }
}

/// Made once: it has thirty thousand tables to name.
static ORDERS: LazyLock<Program> =
    LazyLock::new(
        || match Program::parse(include_str!("../../testdata/orders.rule")) {
            Ok(program) => program,
            Err(error) => panic!("the test's own rule is none: {error}"),
        },
    );

/// Any text as a condition on a rule that has a bit of everything.
pub(crate) fn condition(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let program = &*ORDERS;
    if let Ok(predicate) = Predicate::parse(program.rule(), text, Some(0)) {
        enumeration(program, &predicate);
    }
}

/// Any text as a document of another system: there is a refusal, or rules in our language that can be printed, written and evaluated like
/// any other. How many rules there are.
pub(crate) fn import(data: &[u8]) -> usize {
    let Ok(text) = std::str::from_utf8(data) else {
        return 0;
    };
    let mut rules = 0;
    let options = import::Options {
        years: Some((2020, 2021)),
        ..import::Options::default()
    };
    for imported in [
        import::tddl(text, &options),
        import::shardingsphere(text, &options),
    ] {
        match imported {
            Ok(imported) => {
                rules += imported.rules.len();
                imported.rules.iter().for_each(|it| imported_rule(&it.text));
            }
            Err(error) => assert!(!error.message.is_empty()),
        }
    }
    rules
}

/// What an importer prints must be a rule. Only our own bounds may refuse it, which say that they are some.
fn imported_rule(text: &str) {
    match parse(text) {
        Ok(rule) => whole(&rule),
        Err(error) => {
            let is_bound = ["more than", "deeper than", "longer than", "bytes"];
            assert!(
                is_bound.iter().any(|it| error.message.contains(it)),
                "what was imported is no rule: {error}\n{text}"
            );
        }
    }
}

/// Any text as a script: it ends, within its memory, with the same answer twice.
pub(crate) fn script(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let fields = [("id".to_owned(), Type::I64), ("name".to_owned(), Type::Str)];
    if let Ok(script) = Script::new(text, &fields, 1, &Zone::utc()) {
        let record = [Value::I64(7), Value::Str("中😀")];
        assert_eq!(script.evaluate(&record), script.evaluate(&record));
    }
}

fn enumeration(program: &Program, predicate: &Predicate) {
    let options = Options {
        budget: BUDGET,
        ..Options::default()
    };
    if let Ok(found) = enumerate(program, predicate, options) {
        assert!(found.slots.iter().all(|it| it.0 < program.shape().slots()));
    }
}

/// Prints, parses, encodes, decodes, compiles, evaluates, enumerates.
fn whole(rule: &Rule) {
    let printed = rule.to_string();
    assert_eq!(
        parse(&printed).as_ref(),
        Ok(rule),
        "the printed text is another rule"
    );
    let Ok(bytes) = encode(rule) else {
        panic!("a rule that was read cannot be written:\n{printed}");
    };
    assert_eq!(decode(&bytes).as_ref(), Ok(rule));
    let slots: u128 = rule
        .dimensions
        .iter()
        .map(|it| u128::from(it.len()))
        .product();
    if slots > 4_096 {
        // Legal, but making a million names takes a fuzzer's second.
        return;
    }
    let Ok(program) = Program::compile(rule.clone()) else {
        // No place for a slot, or a script.
        return;
    };
    assert!(Program::decode(&bytes, RuleHash([0; 32])).is_err());
    for seed in 0..4 {
        let values: Vec<Literal> = rule.fields.iter().map(|it| sample(it.ty, seed)).collect();
        let fields: Vec<Value<'_>> = values.iter().map(Literal::value).collect();
        if let Ok(slot) = program.evaluate(&fields) {
            let place = program.map().place(slot);
            assert!(!place.table.is_empty());
        }
    }
    let _ = program.evaluate(&vec![Value::Null; rule.fields.len()]);
    enumeration(&program, &Predicate::True);
}

/// Values at the edges.
fn sample(ty: Type, seed: usize) -> Literal {
    match ty {
        Type::Bool => Literal::Bool(seed % 2 == 1),
        Type::I64 => Literal::I64([0, i64::MIN, i64::MAX, 2_000][seed % 4]),
        Type::U64 => Literal::U64([0, 1, u64::MAX, 2_000][seed % 4]),
        Type::Str => Literal::Str(["", "中😀", "a-b", "17"][seed % 4].to_owned()),
        Type::Bytes => Literal::Bytes(vec![0xff; seed]),
        Type::Date => Literal::Date([-719_162, 2_932_896, 0, 19_782][seed % 4]),
        Type::Timestamp => Literal::Timestamp(
            [
                -62_135_596_800_000_000,
                253_402_300_799_999_999,
                0,
                1_327_276_800_000_000,
            ][seed % 4],
        ),
        Type::Uuid => Literal::Uuid([seed as u8; 16]),
    }
}
