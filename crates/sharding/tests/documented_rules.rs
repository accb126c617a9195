//! Every rule in docs/rules.md is a rule, has nothing to complain of, and gives what stands under it.
#![allow(
    clippy::unwrap_used,
    reason = "a test: a malformed document shall fail it"
)]

use cadastre_sharding::enumerate::{Options, enumerate};
use cadastre_sharding::function::Zone;
use cadastre_sharding::lint::{self, Severity};
use cadastre_sharding::record::{Reading, TimeUnit};
use cadastre_sharding::{Literal, Predicate, Program, Slot, Value, decode, encode, parse, script};

const DOCUMENT: &str = include_str!("../../../docs/rules.md");

/// The fenced blocks of a kind, in order, with the number of the line they begin in.
fn blocks<'a>(kinds: &'a [&str]) -> impl Iterator<Item = (&'a str, usize, String)> + 'a {
    let mut lines = DOCUMENT.lines().zip(1..);
    std::iter::from_fn(move || {
        loop {
            let (line, at) = lines.next()?;
            let Some(kind) = line
                .strip_prefix("```")
                .and_then(|kind| kinds.iter().find(|it| **it == kind))
            else {
                continue;
            };
            let body: Vec<&str> = lines
                .by_ref()
                .map(|it| it.0)
                .take_while(|it| *it != "```")
                .collect();
            return Some((*kind, at, body.join("\n")));
        }
    })
}

fn compile(text: &str) -> Program {
    Program::compile_with(parse(text).unwrap(), &script::compile).unwrap()
}

fn place(program: &Program, slot: Slot) -> String {
    let place = program.map().place(slot);
    match place.cluster.as_str() {
        "" => place.table.clone(),
        cluster => format!("{cluster}/{}", place.table),
    }
}

/// What the rule gives for the left side of a line.
fn answer(program: &Program, question: &str) -> String {
    if let Some(condition) = question.strip_prefix("where ") {
        let predicate = Predicate::parse(program.rule(), condition, None).unwrap();
        let found = enumerate(program, &predicate, Options::default()).unwrap();
        let mut places: Vec<String> = Vec::new();
        for slot in found.slots {
            let name = place(program, slot);
            if !places.contains(&name) {
                places.push(name);
            }
        }
        if places.len() > 10 {
            return format!("{} places", places.len());
        }
        return places.join(" ");
    }
    let zone = program.rule().zone.as_deref().unwrap_or("UTC");
    let reading = Reading {
        zone: Zone::load(zone).unwrap(),
        time_unit: TimeUnit::Refused,
    };
    let mut values: Vec<Option<Literal>> = vec![None; program.types().len()];
    for part in question.split(' ') {
        let (name, text) = part.split_once('=').unwrap();
        let at = usize::from(program.rule().field(name).unwrap());
        values[at] = Some(reading.value(program.types()[at], text).unwrap());
    }
    let fields: Vec<Value<'_>> = values
        .iter()
        .map(|it| it.as_ref().map_or(Value::Null, Literal::value))
        .collect();
    match program.evaluate(&fields) {
        Ok(slot) => place(program, slot),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_document_says_what_rules_give() {
    let mut program = None;
    let (mut rules, mut answers, mut wrong) = (0, 0, Vec::new());
    for (kind, line, body) in blocks(&["rule", "gives"]) {
        if kind == "rule" {
            program = Some(compile(&body));
            rules += 1;
            continue;
        }
        let program = program.as_ref().unwrap();
        for text in body.lines() {
            let (question, expected) = text.split_once(" => ").unwrap();
            let given = answer(program, question);
            answers += 1;
            if given != expected {
                wrong.push(format!("below line {line}: {question} => {given}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        rules >= 10 && answers >= 25,
        "{rules} rules, {answers} answers"
    );
}

#[test]
fn documented_rules_are_good_ones() {
    for (_, line, body) in blocks(&["rule"]) {
        let program = compile(&body);
        let bad: Vec<_> = lint::findings(&program)
            .into_iter()
            .filter(|it| it.severity > Severity::Note)
            .map(|it| it.message)
            .collect();
        // Months and negative slots far from now are refused: said in the text.
        let meant = |it: &String| it.contains("outside its dimension") && body.contains("months(");
        assert!(bad.iter().all(meant), "line {line}: {bad:?}");
        let rule = program.rule();
        assert_eq!(&parse(&rule.to_string()).unwrap(), rule, "line {line}");
        assert_eq!(
            &decode(&encode(rule).unwrap()).unwrap(),
            rule,
            "line {line}"
        );
    }
}
