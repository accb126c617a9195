//! `cadastre rule check`: everything that a person should know of a rule before anybody uses it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cadastre_sharding::Program;
use cadastre_sharding::lint::{self, Finding, Severity};
use cadastre_sharding::versions::Load;
use cadastre_sharding::{Literal, Type, Value};
use clap::Args;
use serde_json::json;

use super::load::{evenness_text, share};
use super::records::{self, RecordsArgs};
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

#[derive(Debug, Args)]
pub struct FingerprintArgs {
    /// The rule
    rule: PathBuf,
}

pub(super) fn check(args: &CheckArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::program(&args.rule)?;
    let mut findings = lint::findings(&program);
    if !is_repeatable(&args.rule, &program)? {
        findings.push(Finding {
            severity: Severity::Error,
            kind: "not-deterministic",
            message: NOT_REPEATABLE.to_owned(),
        });
    }
    if args.records.input.is_some() {
        samples(args, &program, &mut findings)?;
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

/// What is said of a script that answers now so, now otherwise.
pub(super) const NOT_REPEATABLE: &str = "the script answers differently when it is asked again, or in a second process: it cannot be a rule";

/// B5.11: a script must answer the same when it is asked again, and in another process, with other addresses and other seeds of hash
/// tables. All other rules do by themselves.
pub(super) fn is_repeatable(rule: &Path, program: &Program) -> Result<bool, Stop> {
    if !program.is_script() {
        return Ok(true);
    }
    let fault = |error: std::io::Error| Stop::usage(format!("a second process: {error}"));
    let binary = std::env::current_exe().map_err(fault)?;
    let answer = Command::new(binary)
        .args(["rule", "fingerprint"])
        .arg(rule)
        .output()
        .map_err(fault)?;
    let theirs = String::from_utf8_lossy(&answer.stdout);
    let ours = [(); 2].map(|()| format!("{:016x}", lint::fingerprint(program)));
    Ok(answer.status.success() && ours.iter().all(|it| it == theirs.trim()))
}

pub(super) fn fingerprint(args: &FingerprintArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::program(&args.rule)?;
    output.line(format!("{:016x}", lint::fingerprint(&program)));
    Ok(exit::DONE)
}

fn samples(args: &CheckArgs, program: &Program, findings: &mut Vec<Finding>) -> Result<(), Stop> {
    let mut load = Load::default();
    let mut numeric = NumericText::new(program);
    let rows = records::each(&args.records, program, |record| {
        let fields = record.fields();
        numeric.see(&fields);
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
