//! What a person should know of a rule before anybody uses it (issue 6, section 6; B5.9, B5.12).
//!
//! Findings are proved, or shown by an example: the rule is evaluated at the edges of its fields' types and at both sides
//! of every constant it names. Must not know of files or of printing.

use std::collections::{BTreeMap, BTreeSet};

use crate::enumerate::{Options, Predicate, enumerate};
use crate::error::EvalError;
use crate::function::hash::xxh3_64;
use crate::function::nodes::mix;
use crate::limits;
use crate::place::{PlaceLine, Template};
use crate::program::Program;
use crate::rule::{
    Bare, Body, DefinitionBody, Expr, Function, ListRef, Names, NodesAlgorithm, NullPolicy,
    Otherwise, Rule, Statement, expressions, uses_zones, walk,
};
use crate::slot::{Dimension, Slot};
use crate::value::{Literal, Type, Value};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Very likely not what was meant.
    Warning,
    /// Records or queries will fail.
    Error,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Its kind, for programs: it never changes.
    pub kind: &'static str,
    /// What it is, with an example.
    pub message: String,
}

/// Most records that a rule is tried on.
const PROBES_MAX: usize = 4_096;

/// Most interesting values of one field.
const VALUES_MAX: usize = 64;

/// All findings, the worst first.
#[must_use]
pub fn findings(program: &Program) -> Vec<Finding> {
    let rule = program.rule();
    let mut found = Vec::new();
    if program.is_script() {
        found.push(finding(
            Severity::Note,
            "opaque",
            "a script is opaque: conditions on fields without a domain go to all slots".to_owned(),
        ));
    }
    zone(rule, &mut found);
    bounded_load(rule, &mut found);
    numeric_text(rule, &mut found);
    unused_fields(program, &mut found);
    dead_places(program, &mut found);
    unreachable_slots(program, &mut found);
    let probes = probes(program);
    failing_probes(program, &probes, &mut found);
    alternatives(program, &probes, &mut found);
    found.sort_by_key(|it| std::cmp::Reverse(it.severity));
    found
}

fn finding(severity: Severity, kind: &'static str, message: String) -> Finding {
    Finding {
        severity,
        kind,
        message,
    }
}

/// B1, defect 1: whose midnight is meant is said by nobody.
fn zone(rule: &Rule, found: &mut Vec<Finding>) {
    if rule.zone.is_some() {
        return;
    }
    let types: Vec<Type> = rule.fields.iter().map(|it| it.ty).collect();
    let mut names = BTreeSet::new();
    for expr in expressions(rule) {
        walk(expr, &mut |it| {
            if let Expr::Call(function, arguments) = it
                && function.has_zone()
                && arguments.len() == 1
                && !matches!(&arguments[0], Expr::Field(at) if types.get(usize::from(*at)) == Some(&Type::Date))
            {
                names.insert(function.name());
            }
        });
    }
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        let message = format!(
            "no zone is named: {} count in UTC; say `zone \"UTC\";` if that is meant",
            names.join(", ")
        );
        found.push(finding(Severity::Warning, "zone-missing", message));
    }
}

/// What depends on more than the record is no y = F(x).
fn bounded_load(rule: &Rule, found: &mut Vec<Finding>) {
    for definition in &rule.definitions {
        if let DefinitionBody::Nodes(nodes) = &definition.body
            && let NodesAlgorithm::BoundedRing {
                above_mean_percent, ..
            } = nodes.algorithm
        {
            let message = format!(
                "{}: bounded load ({above_mean_percent} % above the mean) is unsafe for stores, since where a key goes depends on the \
                 loads of the moment; this rule's own answers are the ring's without it",
                definition.name
            );
            found.push(finding(Severity::Note, "bounded-load", message));
        }
    }
}

/// The text of a number has several forms, the number has one.
fn numeric_text(rule: &Rule, found: &mut Vec<Finding>) {
    for expr in expressions(rule) {
        walk(expr, &mut |it| {
            if let Expr::Call(function, arguments) = it
                && function.is_hash()
                && matches!(arguments.first(), Some(Expr::Call(Function::Text, _)))
            {
                let message = format!(
                    "{0}(text(…)) hashes the decimal text of a number: {0} of the number itself is faster and has one form",
                    function.name()
                );
                found.push(finding(Severity::Note, "hash-of-numeric-text", message));
            }
        });
    }
}

/// The slots that records can have: proved to cover all of them.
fn reachable(program: &Program) -> BTreeSet<Slot> {
    // Without a condition and under the policy `allow` nothing is refused.
    match enumerate(program, &Predicate::True, Options::default()) {
        Ok(enumeration) => enumeration.slots.into_iter().collect(),
        Err(_) => (0..program.shape().slots()).map(Slot).collect(),
    }
}

/// Slots that no record can have: dimensions that are too wide, or that depend on each other.
fn unreachable_slots(program: &Program, found: &mut Vec<Finding>) {
    let reachable = reachable(program);
    let all = program.shape().slots();
    let mut missing = (0..all).map(Slot).filter(|slot| !reachable.contains(slot));
    let Some(first) = missing.next() else {
        return;
    };
    let message = format!(
        "{} of {all} slots can hold no record, {:?} for one",
        missing.count() + 1,
        program.shape().coordinates(first)
    );
    found.push(finding(Severity::Note, "unreachable-slots", message));
}

fn unused_fields(program: &Program, found: &mut Vec<Finding>) {
    let used: BTreeSet<u16> = program.used_fields().iter().copied().collect();
    for (field, at) in program.rule().fields.iter().zip(0_u16..) {
        if !used.contains(&at) {
            let message = format!("the field {} decides nothing", field.name);
            found.push(finding(Severity::Note, "unused-field", message));
        }
    }
}

/// Lines of places that later lines cover.
fn dead_places(program: &Program, found: &mut Vec<Finding>) {
    /// Beyond so many comparisons, some seconds, nobody waits for this.
    const COMPARISONS_MAX: u64 = 100_000_000;
    let lines = &program.rule().places;
    if u64::from(program.shape().slots()) * lines.len() as u64 > COMPARISONS_MAX {
        return;
    }
    let mut used = BTreeSet::new();
    for slot in (0..program.shape().slots()).map(Slot) {
        if used.len() == lines.len() {
            return;
        }
        let coordinates = program.shape().coordinates(slot);
        let wins = |line: &PlaceLine| line.matches(&coordinates);
        used.extend(lines.iter().rposition(wins));
    }
    for at in (0..lines.len()).filter(|at| !used.contains(at)) {
        let message = format!(
            "line {} of the places holds no slot: later lines cover it, and the last that matches wins",
            at + 1
        );
        found.push(finding(Severity::Warning, "dead-place", message));
    }
}

/// A record to try.
type Probe = Vec<Literal>;

/// Records at the edges and at both sides of every constant.
fn probes(program: &Program) -> Vec<Probe> {
    let rule = program.rule();
    let mut named: BTreeMap<Type, BTreeSet<Literal>> = BTreeMap::new();
    for literal in constants(rule) {
        named.entry(literal.ty()).or_default().insert(literal);
    }
    let used: BTreeSet<u16> = program.used_fields().iter().copied().collect();
    let values: Vec<Vec<Literal>> = rule
        .fields
        .iter()
        .zip(0_u16..)
        .map(|(field, at)| {
            if !used.contains(&at) {
                return edges(field.ty).into_iter().take(1).collect();
            }
            let domain = field.domain.as_ref();
            let mut all: BTreeSet<Literal> = match domain {
                Some(domain) => [domain.first.clone(), domain.last.clone()].into(),
                None => edges(field.ty).into_iter().collect(),
            };
            let of_type = named.get(&field.ty).into_iter().flatten();
            let inside = of_type.filter(|it| {
                domain.is_none_or(|domain| (&domain.first..=&domain.last).contains(it))
            });
            all.extend(inside.take(VALUES_MAX).cloned());
            all.into_iter().collect()
        })
        .collect();
    combinations(&values)
}

/// All combinations if they are few, else as many mixed ones.
fn combinations(values: &[Vec<Literal>]) -> Vec<Probe> {
    let all = values
        .iter()
        .try_fold(1_usize, |all, values| all.checked_mul(values.len()))
        .unwrap_or(usize::MAX);
    (0..all.min(PROBES_MAX))
        .map(|number| {
            let mut rest = number;
            values
                .iter()
                .zip(0_u64..)
                .map(|(values, field)| {
                    let at = if all <= PROBES_MAX {
                        let at = rest % values.len();
                        rest /= values.len();
                        at
                    } else {
                        // Below the number of values, so it fits.
                        (mix(mix(number as u64) ^ field) % values.len() as u64) as usize
                    };
                    values[at].clone()
                })
                .collect()
        })
        .collect()
}

/// The constants of a rule, with their neighbours.
fn constants(rule: &Rule) -> Vec<Literal> {
    let mut all = Vec::new();
    for expr in expressions(rule) {
        walk(expr, &mut |it| match it {
            Expr::Literal(literal) => all.push(literal.clone()),
            Expr::In(_, ListRef::Inline(entries)) => all.extend(entries.iter().cloned()),
            _ => {}
        });
    }
    for definition in &rule.definitions {
        match &definition.body {
            DefinitionBody::List(entries) => all.extend(entries.iter().take(VALUES_MAX).cloned()),
            DefinitionBody::Table { entries, .. } => {
                all.extend(entries.iter().take(VALUES_MAX).map(|it| it.0.clone()));
            }
            DefinitionBody::Ranges { bounds, .. } => {
                all.extend(bounds.iter().take(VALUES_MAX).map(|it| it.0.clone()));
            }
            DefinitionBody::Nodes(_) => {}
        }
    }
    let near: Vec<Literal> = all.iter().flat_map(neighbours).collect();
    all.extend(near);
    all.retain(Literal::is_in_range);
    all
}

fn neighbours(literal: &Literal) -> Vec<Literal> {
    match literal {
        Literal::I64(it) => vec![
            Literal::I64(it.saturating_sub(1)),
            Literal::I64(it.saturating_add(1)),
        ],
        Literal::U64(it) => vec![
            Literal::U64(it.saturating_sub(1)),
            Literal::U64(it.saturating_add(1)),
        ],
        Literal::Date(it) => vec![
            Literal::Date(it.saturating_sub(1)),
            Literal::Date(it.saturating_add(1)),
        ],
        Literal::Timestamp(it) => vec![
            Literal::Timestamp(it.saturating_sub(1)),
            Literal::Timestamp(it.saturating_add(1)),
        ],
        Literal::Str(it) => vec![Literal::Str(format!("{it}\0"))],
        Literal::Bytes(it) => vec![Literal::Bytes([it.as_slice(), &[0]].concat())],
        Literal::Bool(_) | Literal::Uuid(_) => Vec::new(),
    }
}

fn edges(ty: Type) -> Vec<Literal> {
    match ty {
        Type::Bool => vec![Literal::Bool(false), Literal::Bool(true)],
        Type::I64 => [0, 1, -1, 12_345, i64::MIN, i64::MAX]
            .map(Literal::I64)
            .to_vec(),
        Type::U64 => [0, 1, 12_345, u64::MAX].map(Literal::U64).to_vec(),
        Type::Str => ["", "a", "42", "Ada|7|x", "中文😀"]
            .map(|it| Literal::Str(it.to_owned()))
            .to_vec(),
        Type::Bytes => [b"".as_slice(), b"\x00", b"\xff\xfe", b"abc"]
            .map(|it| Literal::Bytes(it.to_vec()))
            .to_vec(),
        Type::Date => [0, limits::DATE_MIN, limits::DATE_MAX, 11_016, 19_782]
            .map(Literal::Date)
            .to_vec(),
        Type::Timestamp => [
            0,
            limits::TIMESTAMP_MIN,
            limits::TIMESTAMP_MAX,
            951_782_400_000_000,
            1_709_251_199_000_000,
        ]
        .map(Literal::Timestamp)
        .to_vec(),
        Type::Uuid => vec![Literal::Uuid([0; 16]), Literal::Uuid([0xff; 16])],
    }
}

/// The record of a probe, for people: `user_id = 7, name = "a"`; only fields that the rule looks at.
fn shown(program: &Program, probe: &Probe) -> String {
    let fields = &program.rule().fields;
    let parts: Vec<String> = program
        .used_fields()
        .iter()
        .map(|at| {
            let at = usize::from(*at);
            format!("{} = {}", fields[at].name, Bare(&probe[at]))
        })
        .collect();
    parts.join(", ")
}

fn evaluate(program: &Program, probe: &Probe) -> Result<Slot, EvalError> {
    let values: Vec<Value<'_>> = probe.iter().map(Literal::value).collect();
    program.evaluate(&values)
}

/// One example of each way to fail.
fn failing_probes(program: &Program, probes: &[Probe], found: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for probe in probes {
        let Err(error) = evaluate(program, probe) else {
            continue;
        };
        let (severity, kind, what) = match error {
            EvalError::NoAlternative => (
                Severity::Warning,
                "not-covered",
                "no alternative holds and the rule says `else error`",
            ),
            EvalError::OutsideDimension { .. } => (
                Severity::Error,
                "outside-dimension",
                "the slot lies outside its dimension",
            ),
            EvalError::Overflow { .. } | EvalError::Shift { .. } => {
                (Severity::Warning, "overflow", "the arithmetic overflows")
            }
            EvalError::DivisionByZero { .. } => {
                (Severity::Warning, "division-by-zero", "division by zero")
            }
            EvalError::NotAnInteger => (
                Severity::Note,
                "not-an-integer",
                "parse_int is given text that is no number",
            ),
            EvalError::Argument { .. } => (
                Severity::Warning,
                "argument",
                "a function's argument is out of its range",
            ),
            EvalError::Script(_) => (Severity::Warning, "script-fails", "the script fails"),
            // Else `all` is meant; the others cannot come of probes.
            _ => continue,
        };
        if seen.insert(kind) {
            let message = format!("{what}: {error}, for {}", shown(program, probe));
            found.push(finding(severity, kind, message));
        }
    }
}

/// Which alternatives decide nothing: asked of the same rule with the number of the alternative for its slot.
fn alternatives(program: &Program, probes: &[Probe], found: &mut Vec<Finding>) {
    let rule = program.rule();
    let Body::Statements(statements, _) = &rule.body else {
        return;
    };
    let count = statements
        .iter()
        .filter(|it| matches!(it, Statement::When { .. }))
        .count();
    if count == 0 {
        return;
    }
    let Ok(numbered) = Program::compile(numbered(rule, count)) else {
        return;
    };
    let mut reached: BTreeSet<u32> = probes
        .iter()
        .filter_map(|probe| evaluate(&numbered, probe).ok())
        .map(|slot| slot.0)
        .collect();
    // What probes missed, enumeration may show to be impossible.
    let possible = reachable(&numbered);
    let last = u32::try_from(count).unwrap_or(u32::MAX);
    for alternative in 0..=last {
        if reached.remove(&alternative) {
            continue;
        }
        let name = if alternative == last {
            "`else`".to_owned()
        } else {
            format!("alternative {}", alternative + 1)
        };
        if !possible.contains(&Slot(alternative)) {
            let message = format!("{name} can never decide: those before it leave nothing");
            found.push(finding(Severity::Warning, "dead-alternative", message));
        } else {
            let message = format!(
                "{name} decided none of {} records at the edges of everything the rule names",
                probes.len()
            );
            found.push(finding(Severity::Note, "rare-alternative", message));
        }
    }
}

/// The same decision with the number of the alternative in place of the slot.
fn numbered(rule: &Rule, count: usize) -> Rule {
    let number = |at: usize| {
        vec![Expr::Literal(Literal::I64(
            i64::try_from(at).unwrap_or(i64::MAX),
        ))]
    };
    let mut rule = rule.clone();
    rule.dimensions = vec![Dimension {
        name: "alternative".to_owned(),
        first: 0,
        last: i64::try_from(count).unwrap_or(i64::MAX),
    }];
    for field in &mut rule.fields {
        if let NullPolicy::Slot(_) = field.null {
            field.null = NullPolicy::Error;
        }
    }
    if let Body::Statements(statements, otherwise) = &mut rule.body {
        let mut at = 0;
        for statement in statements {
            if let Statement::When { slot, .. } = statement {
                *slot = number(at);
                at += 1;
            }
        }
        *otherwise = Otherwise::Slot(number(count));
    }
    // What called the calendar may be gone with the slots.
    if !uses_zones(&rule) {
        rule.zone_data = None;
    }
    rule.places = vec![PlaceLine {
        slots: Vec::new(),
        cluster: Template::default(),
        table: Template::text("alternative"),
    }];
    rule
}

/// The fields whose own value a hash is taken of.
#[must_use]
pub fn hashed_fields(rule: &Rule) -> BTreeSet<u16> {
    let mut fields = BTreeSet::new();
    for expr in expressions(rule) {
        walk(expr, &mut |it| {
            if let Expr::Call(function, arguments) = it
                && (function.is_hash() || *function == Function::JavaHash)
                && let Some(Expr::Field(at)) = arguments.first()
            {
                fields.insert(*at);
            }
        });
    }
    fields
}

/// A number that stands for many answers of a rule. Two processes that disagree on one of them disagree on it (B5.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of all answers at the edges of everything a rule names.
    #[must_use]
    pub fn of_edges(program: &Program) -> Self {
        let mut all = Self(0);
        for probe in probes(program) {
            let values: Vec<Value<'_>> = probe.iter().map(Literal::value).collect();
            all.add(program, &values);
        }
        all
    }

    /// And of this record's.
    pub fn add(&mut self, program: &Program, fields: &[Value<'_>]) {
        let answer = match program.evaluate(fields) {
            Ok(slot) => u64::from(slot.0),
            Err(error) => xxh3_64(error.to_string().as_bytes(), 1),
        };
        self.0 = mix(self.0 ^ mix(answer));
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Says which alternative decides about a record.
#[derive(Debug)]
pub struct Explainer<'p> {
    program: &'p Program,
    /// The same rule with the number of the alternative for its slot; none for scripts.
    numbered: Option<Program>,
    /// The alternatives' conditions.
    conditions: Vec<String>,
}

/// Why a record is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Because {
    /// The alternative that decides, from 1; none if `else`, null or a script does, or nothing.
    pub alternative: Option<u32>,
    /// In words.
    pub text: String,
}

impl<'p> Explainer<'p> {
    /// Prepares a rule for being explained.
    #[must_use]
    pub fn new(program: &'p Program) -> Self {
        let rule = program.rule();
        let names = Names::of(rule);
        let conditions: Vec<String> = match &rule.body {
            Body::Statements(statements, _) => statements
                .iter()
                .filter_map(|it| match it {
                    Statement::When { condition, .. } => Some(names.text(condition)),
                    Statement::Let { .. } => None,
                })
                .collect(),
            Body::Script(_) => Vec::new(),
        };
        let numbered = match &rule.body {
            Body::Statements(..) => Program::compile(numbered(rule, conditions.len())).ok(),
            Body::Script(_) => None,
        };
        Self {
            program,
            numbered,
            conditions,
        }
    }

    /// Why a record is where it is, or is nowhere.
    #[must_use]
    pub fn because(&self, fields: &[Value<'_>]) -> Because {
        let says = |alternative, text: String| Because { alternative, text };
        let rule = self.program.rule();
        for at in self.program.used_fields() {
            let at = usize::from(*at);
            let (Some(field), Some(Value::Null)) = (rule.fields.get(at), fields.get(at)) else {
                continue;
            };
            match &field.null {
                NullPolicy::Error => return says(None, format!("{} is null", field.name)),
                NullPolicy::Slot(_) => {
                    return says(None, format!("{} is null, which has a slot", field.name));
                }
                NullPolicy::Value(_) => {}
            }
        }
        let Some(numbered) = &self.numbered else {
            return says(None, "the script decides".to_owned());
        };
        match numbered.evaluate(fields) {
            Ok(Slot(at)) => match self.conditions.get(at as usize) {
                Some(condition) => {
                    let number = at + 1;
                    says(
                        Some(number),
                        format!("alternative {number} holds: when {condition}"),
                    )
                }
                None if self.conditions.is_empty() => {
                    says(None, "there is but one alternative".to_owned())
                }
                None => says(None, "no alternative holds: else".to_owned()),
            },
            Err(error) => says(None, format!("no alternative can be told: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<&'static str> {
        let program = Program::parse(text).unwrap();
        findings(&program).into_iter().map(|it| it.kind).collect()
    }

    #[test]
    fn a_good_rule_has_no_findings() {
        let rule = "rule t version 1; field id: i64; dimension n 0 to 7; else (id % 8); place table \"t_{n}\";";
        assert_eq!(kinds(rule), Vec::<&str>::new());
    }

    #[test]
    fn each_kind_of_finding() {
        let with = |items: &str, dimension: &str, body: &str| {
            format!(
                "rule t version 1; {items} dimension n {dimension}; {body} place table \"t_{{n}}\";"
            )
        };
        let id = "field id: i64;";
        let cases = [
            (
                "zone-missing",
                with("field d: timestamp;", "1 to 31", "else (day(d));"),
            ),
            (
                "hash-of-numeric-text",
                with(id, "0 to 7", "else (crc32(text(id)) % 8);"),
            ),
            (
                "unused-field",
                with(
                    "field id: i64; field x: string;",
                    "0 to 7",
                    "else (id % 8);",
                ),
            ),
            (
                "not-covered",
                with(id, "0 to 7", "when id >= 0 then (id % 8); else error;"),
            ),
            ("outside-dimension", with(id, "0 to 6", "else (id % 8);")),
            ("overflow", with(id, "0 to 7", "else ((id + 1) % 8);")),
            (
                "division-by-zero",
                with(id, "0 to 1", "else (if 10 / id > 3 then 1 else 0);"),
            ),
            (
                "not-an-integer",
                with("field s: string;", "0 to 7", "else (parse_int(s) % 8);"),
            ),
            (
                "bounded-load",
                format!(
                    "cache {}",
                    with(
                        id,
                        "0 to 1",
                        "ring r { 0, 1 } bounded 25; else (r(xxh3(id)));"
                    )
                ),
            ),
            ("unreachable-slots", with(id, "0 to 9", "else (id % 8);")),
            (
                "dead-place",
                with(
                    id,
                    "0 to 7",
                    "else (id % 8); place (1) table \"x\"; place table \"y\";",
                ),
            ),
        ];
        for (kind, rule) in cases {
            assert!(kinds(&rule).contains(&kind), "{kind}: {:?}", kinds(&rule));
        }
    }

    #[test]
    fn alternatives_that_never_or_seldom_decide() {
        let rule = |body: &str| {
            let text = format!(
                "rule t version 1; field id: i64; dimension n 0 to 9; {body} place table \"t_{{n}}\";"
            );
            let all = kinds(&text);
            all.into_iter()
                .filter(|it| it.ends_with("alternative"))
                .collect::<Vec<_>>()
        };
        // Shown by calculation that there is no such record.
        let dead = "when id >= 0 then (1); when id in [5, 6] then (2); else (3);";
        assert_eq!(rule(dead), ["dead-alternative"]);
        assert_eq!(
            rule("when id >= 0 then (1); when id < 0 then (2); else (3);"),
            ["dead-alternative"]
        );
        // None of the records at the edges: some other may well be one.
        let rare = "when xxh3(id) % 1000000 == 7 then (1); else (3);";
        assert_eq!(rule(rare), ["rare-alternative"]);
        assert_eq!(rule("when id >= 0 then (1); else (3);"), Vec::<&str>::new());
    }

    #[test]
    fn scripts_and_arguments_that_fail() {
        let rule = "rule t version 1; field id: i64; dimension n 0 to 9; else (day_of_week(from_seconds(id))); place table \"t_{n}\";";
        assert!(kinds(rule).contains(&"argument"), "{:?}", kinds(rule));
        let script = |text: &str| {
            let text = format!(
                "rule t version 1; field id: i64; dimension n 0 to 9; script \"{text}\"; place table \"t_{{n}}\";"
            );
            let rule = crate::parse(&text).unwrap();
            let program = Program::compile_with(rule, &crate::script::compile).unwrap();
            findings(&program)
                .into_iter()
                .map(|it| it.kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(script("modulo(id, 10)"), ["opaque"]);
        assert_eq!(
            script("if id == 12345 { throw 1 } 0"),
            ["script-fails", "opaque"]
        );
    }

    #[test]
    fn a_record_is_explained() {
        let program = Program::parse(
            "rule t version 1; field id: i64; field x: i64 null slot (9); dimension n 0 to 9; list big = [7, 8]; \
             when id in big then (1); when x > 3 then (2); else (3); place table \"t_{n}\";",
        )
        .unwrap();
        let explainer = Explainer::new(&program);
        let because = |id, x| explainer.because(&[id, x]);
        assert_eq!(
            because(Value::I64(7), Value::I64(0)),
            Because {
                alternative: Some(1),
                text: "alternative 1 holds: when id in big".to_owned()
            }
        );
        assert_eq!(because(Value::I64(1), Value::I64(4)).alternative, Some(2));
        assert_eq!(
            because(Value::I64(1), Value::I64(0)).text,
            "no alternative holds: else"
        );
        assert_eq!(because(Value::Null, Value::I64(0)).text, "id is null");
        assert_eq!(
            because(Value::I64(1), Value::Null).text,
            "x is null, which has a slot"
        );
    }

    #[test]
    fn fingerprints_tell_rules_apart() {
        let of = |slots: u32| {
            let text = format!(
                "rule t version 1; field id: i64; dimension n 0 to 99; else (id % {slots}); place table \"t_{{n}}\";"
            );
            Fingerprint::of_edges(&Program::parse(&text).unwrap())
        };
        assert_eq!(of(8), of(8));
        assert_ne!(of(8), of(9));
        assert!(!hashed_fields(
            Program::parse("rule t version 1; field s: string; dimension n 0 to 7; else (xxh3(s) % 8); place table \"t\";")
                .unwrap()
                .rule()
        )
        .is_empty());
    }
}
