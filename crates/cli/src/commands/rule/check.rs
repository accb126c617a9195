//! `cadastre rule check`: everything that a person should know of a rule before anybody uses it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cadastre_sharding::Program;
use cadastre_sharding::lint::{self, Finding, Severity};
use cadastre_sharding::versions::Load;
use cadastre_sharding::{Literal, Type, Value};
use clap::Args;
use serde_json::json;

use super::load::{evenness_text, share};
use super::records::{self, RecordsArgs};
use super::second::{self, Second};
use super::source::{self, title};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

/// Above this share of the mean a place is said to be heavy.
const SKEW_MAX: f64 = 1.5;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The rule
    rule: PathBuf,
    #[command(flatten)]
    records: RecordsArgs,
    /// Answer as JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn check(args: &CheckArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::unrepeated(&args.rule)?;
    let mut findings = lint::findings(&program);
    let second = second::own()?.filter(|_| program.is_script());
    let mut second = second
        .map(|command| Second::start(command, &program))
        .transpose()?;
    if args.records.input.is_some() {
        samples(args, &program, second.as_mut(), &mut findings)?;
    }
    if let Some(second) = second
        && !second.agrees()?
    {
        findings.push(Finding {
            severity: Severity::Error,
            kind: "not-deterministic",
            message: second::NOT_REPEATABLE.to_owned(),
        });
    }
    findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
    let rule = program.rule();
    output.answer(
        format!(
            "{}: {} slots in {} places, hash {}",
            title(&program),
            program.shape().slots(),
            program.map().places().len(),
            program.hash()
        ),
        || {
            json!({
                "rule": rule.name,
                "version": rule.version,
                "slots": program.shape().slots(),
                "places": program.map().places().len(),
                "hash": program.hash().to_string(),
                "logic_hash": program.logic_hash().to_string(),
            })
        },
    );
    for it in &findings {
        let (severity, kind) = (it.severity.name(), it.kind);
        output.answer(
            format!("{severity} [{kind}]: {}", it.message),
            || json!({ "severity": severity, "kind": kind, "message": it.message }),
        );
    }
    if findings.is_empty() {
        output.answer("nothing to complain of", || json!({ "findings": 0 }));
    }
    let is_bad = findings.iter().any(|it| it.severity > Severity::Note);
    Ok(if is_bad { exit::FOUND } else { exit::DONE })
}

fn samples(
    args: &CheckArgs,
    program: &Program,
    mut second: Option<&mut Second<'_>>,
    findings: &mut Vec<Finding>,
) -> Result<(), Stop> {
    let mut load = Load::default();
    let mut numeric = NumericText::new(program);
    let rows = records::each(&args.records, program, |record| {
        let fields = record.fields();
        numeric.see(&fields);
        if let Some(second) = &mut second {
            second.sample(record);
        }
        match program.evaluate(&fields) {
            Ok(slot) => load.add(slot, record.count, record.bytes),
            Err(why) => load.refuse(why, record.count),
        }
        Ok(())
    })?;
    for (why, count) in load.refused() {
        findings.push(Finding {
            severity: Severity::Error,
            kind: "sample-refused",
            message: format!("{count} samples have no place: {why}"),
        });
    }
    findings.extend(numeric.finding(program));
    let places = load.places(program);
    let even = load.evenness(program);
    let worth = rows >= 10 * places.len() as u64;
    if places.len() > 1 && share(even.max_permille) > SKEW_MAX && worth {
        let heaviest = places.iter().max_by_key(|(_, count)| count.rows);
        let name = heaviest.map_or_else(String::new, |(place, _)| place.to_string());
        findings.push(Finding {
            severity: Severity::Warning,
            kind: "skew",
            message: format!("the samples are uneven: {}, at {name}", evenness_text(even)),
        });
    }
    Ok(())
}

/// Texts that are hashed although all of them are numbers: "7" and "007" are one number and two texts.
struct NumericText {
    fields: BTreeSet<u16>,
    seen: bool,
}

impl NumericText {
    fn new(program: &Program) -> Self {
        let hashed = lint::hashed_fields(program.rule());
        let is_text = |at: &u16| program.types().get(usize::from(*at)) == Some(&Type::Str);
        Self {
            fields: hashed.into_iter().filter(is_text).collect(),
            seen: false,
        }
    }

    fn see(&mut self, fields: &[Value<'_>]) {
        self.seen = true;
        self.fields.retain(|at| match fields.get(usize::from(*at)) {
            Some(Value::Str(text)) => text.parse::<i64>().is_ok(),
            _ => false,
        });
    }

    fn finding(&self, program: &Program) -> Option<Finding> {
        let first = self.fields.first().filter(|_| self.seen)?;
        let field = program.rule().fields.get(usize::from(*first))?;
        Some(Finding {
            severity: Severity::Warning,
            kind: "hash-of-numeric-text",
            message: format!(
                "{} is hashed as text, and all samples are numbers: \"7\" and \"007\" would be in different places; declare it as {}",
                field.name,
                Literal::I64(0).ty()
            ),
        })
    }
}
