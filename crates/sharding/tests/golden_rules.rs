//! R40, R47: rules give what they gave when golden/rules.tsv was written. With CADASTRE_WRITE_GOLDEN set it is written.
//!
//! One line for each rule and record: rule, fields, answer, separated by tabs. `-` is null, text and bytes are in hexadecimal behind `s:` and `b:`, the rest as
//! docs/rules.md writes it. The answer is a slot's coordinates, or `!` and what is wrong.
#![allow(clippy::unwrap_used, reason = "a test: a malformed file shall fail it")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cadastre_sharding::function::nodes::mix;
use cadastre_sharding::rule::Function;
use cadastre_sharding::{Literal, Program, Type, Value, limits, parse, record, script};

/// Random records, beside the hard ones, over the rules together that were frozen first.
const RANDOM: usize = 10_000;

/// How many rules, in the order of their files, were frozen first.
const FIRST: usize = 11;

/// Random records of each rule that came later.
const LATER: usize = 300;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// All rules by name.
fn rules() -> Vec<(String, Program)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder().join("rules"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let program = Program::compile_with(parse(&text).unwrap(), &script::compile).unwrap();
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                program,
            )
        })
        .collect()
}

/// Values at the edges of a type.
fn hard(ty: Type) -> Vec<Option<Literal>> {
    let of = |all: Vec<Literal>| all.into_iter().map(Some).chain([None]).collect();
    match ty {
        Type::Bool => of(vec![Literal::Bool(false), Literal::Bool(true)]),
        Type::I64 => of([
            0,
            1,
            -1,
            7,
            9,
            999_999,
            1_000_000,
            2_000,
            2_001,
            i64::MIN,
            i64::MAX,
        ]
        .map(Literal::I64)
        .to_vec()),
        Type::U64 => of([0, 1, 3, u64::MAX, 1 << 63].map(Literal::U64).to_vec()),
        Type::Str => of([
            "",
            "a",
            "Aa",
            "BB",
            "polygenelubricants",
            "中文😀",
            "\u{20BB7}",
            "{a}b",
            "ABC-DE-F",
            "g",
            "n\0",
        ]
        .map(|it| Literal::Str(it.to_owned()))
        .to_vec()),
        Type::Bytes => of([b"".as_slice(), b"\0", b"\xff\xfe\xfd"]
            .map(|it| Literal::Bytes(it.to_vec()))
            .to_vec()),
        // Leap days, ends of ISO years.
        Type::Date => of([
            0,
            -1,
            11_016,
            19_782,
            14_612,
            20_454,
            limits::DATE_MIN,
            limits::DATE_MAX,
        ]
        .map(Literal::Date)
        .to_vec()),
        // Jumps of New York's and Shanghai's clocks, leap days, the ends of what there is.
        Type::Timestamp => of([
            0,
            -1,
            1_772_953_199_999_999,
            1_772_953_200_000_000,
            1_793_509_200_000_000,
            1_709_222_399_999_999,
            1_709_222_400_000_000,
            951_782_400_000_000,
            limits::TIMESTAMP_MIN,
            limits::TIMESTAMP_MAX,
        ]
        .map(Literal::Timestamp)
        .to_vec()),
        Type::Uuid => of(vec![Literal::Uuid([0; 16]), Literal::Uuid([0xff; 16])]),
    }
}

fn random(ty: Type, at: u64) -> Option<Literal> {
    let random = mix(at);
    let bytes = |seed: u64| mix(seed).to_be_bytes();
    let small = (random >> 32) as usize % 12;
    if random.is_multiple_of(64) {
        return None;
    }
    Some(match ty {
        Type::Bool => Literal::Bool(random & 2 == 2),
        // Half of them small.
        Type::I64 => Literal::I64((random as i64) >> if random & 1 == 0 { 48 } else { 0 }),
        Type::U64 => Literal::U64(random >> if random & 1 == 0 { 48 } else { 0 }),
        Type::Str => {
            const LETTERS: [char; 16] = [
                'a', 'b', 'g', 'm', 'n', 'z', 'A', 'Z', '0', '9', '-', '{', '}', 'é', '中', '😀',
            ];
            let letters = (0..small as u64).map(|step| LETTERS[(mix(random ^ step) % 16) as usize]);
            Literal::Str(letters.collect())
        }
        Type::Bytes => Literal::Bytes(bytes(random)[..small.min(8)].to_vec()),
        // 1970 to 2069.
        Type::Date => Literal::Date((random % 36_500) as i32),
        Type::Timestamp => Literal::Timestamp((random % 3_155_760_000_000_000) as i64),
        Type::Uuid => {
            let both = [bytes(random), bytes(!random)].concat();
            Literal::Uuid(both.try_into().unwrap())
        }
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

fn cell(value: Option<&Literal>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Literal::Str(it)) => format!("s:{}", hex(it.as_bytes())),
        Some(Literal::Bytes(it)) => format!("b:{}", hex(it)),
        Some(other) => record::text(other),
    }
}

fn answer(program: &Program, values: &[Option<Literal>]) -> String {
    let fields: Vec<Value<'_>> = values
        .iter()
        .map(|it| it.as_ref().map_or(Value::Null, Literal::value))
        .collect();
    match program.evaluate(&fields) {
        Ok(slot) => {
            let numbers = program.shape().coordinates(slot);
            let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
            numbers.join(",")
        }
        Err(error) => format!("!{error}"),
    }
}

/// Everything the file says: rules with their hashes, then records with their answers.
fn everything() -> String {
    let rules = rules();
    let mut file = String::new();
    for (name, program) in &rules {
        writeln!(file, "rule\t{name}\t{}", program.hash()).unwrap();
    }
    for (number, (name, program)) in rules.iter().enumerate() {
        let mut records: Vec<Vec<Option<Literal>>> = Vec::new();
        let types = program.types();
        for (field, ty) in types.iter().enumerate() {
            // Each hard value beside a different choice of the others.
            for (at, value) in hard(*ty).into_iter().enumerate() {
                let others =
                    |it: usize| hard(types[it]).swap_remove((at * 3 + it) % hard(types[it]).len());
                let mut record: Vec<_> = (0..types.len()).map(others).collect();
                record[field] = value;
                records.push(record);
            }
        }
        let random_records = match number {
            0 => RANDOM / FIRST + RANDOM % FIRST,
            1..FIRST => RANDOM / FIRST,
            _ => LATER,
        };
        for at in 0..random_records {
            let seed = |field: usize| mix(((number * 100_000 + at) as u64) << 8 | field as u64);
            records.push(
                types
                    .iter()
                    .enumerate()
                    .map(|(field, ty)| random(*ty, seed(field)))
                    .collect(),
            );
        }
        for record in records {
            let cells: Vec<String> = record.iter().map(|it| cell(it.as_ref())).collect();
            writeln!(
                file,
                "{name}\t{}\t{}",
                cells.join("\t"),
                answer(program, &record)
            )
            .unwrap();
        }
    }
    file
}

/// R47: what runs in other languages, too, calls every function.
#[test]
fn r47_every_function_is_called_by_a_golden_rule() {
    let texts: Vec<String> = rules().iter().map(|it| it.1.rule().to_string()).collect();
    let is_called = |name: &str| {
        let call = format!("{name}(");
        texts.iter().any(|text| {
            text.match_indices(&call).any(|(at, _)| {
                let before = text[..at].chars().next_back();
                before.is_none_or(|it| !it.is_ascii_alphanumeric() && it != '_')
            })
        })
    };
    let missing: Vec<&str> = Function::ALL
        .iter()
        .map(|it| it.name())
        .filter(|name| !is_called(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(!is_called("no_function") && !is_called("h3"));
}

#[test]
fn r40_rules_give_what_they_gave() {
    let path = folder().join("rules.tsv");
    let now = everything();
    if std::env::var_os("CADASTRE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let then = std::fs::read_to_string(&path).unwrap();
    for (now, then) in now.lines().zip(then.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(now.lines().count(), then.lines().count());
    assert!(now.lines().count() > RANDOM);
}
