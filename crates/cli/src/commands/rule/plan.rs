//! `cadastre rule plan`: proposals for the next version. Nothing is applied: a person looks at one, compares it with
//! `cadastre rule diff` and publishes it, or not (R36).

use std::collections::BTreeMap;
use std::path::PathBuf;

use cadastre_sharding::record::TimeUnit;
use cadastre_sharding::versions::{Load, Observed, Plan, Target, grow, isolate, split};
use cadastre_sharding::{Literal, Program, RuleError, Slot};
use clap::Args;
use serde_json::json;

use super::records::{self, RecordsArgs, reading};
use super::source::{self, slot_text, title};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

/// A slot is hot from so many times the mean of all slots on.
const HOT: u64 = 2;

/// Most values of a field that are counted one by one; beyond it the rare ones are forgotten.
const VALUES_MAX: usize = 10_000;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The rule in force
    rule: PathBuf,
    #[command(flatten)]
    records: RecordsArgs,
    /// A new cluster that joins; may be given several times
    #[arg(long, value_name = "CLUSTER")]
    add: Vec<String>,
    /// A field that grows with time, and a bound above all there is: rows from it on may go to the new places. Without it, a field that
    /// only grows in the order of the records, and what comes behind its last value
    #[arg(long, value_name = "FIELD=VALUE", requires = "add")]
    beyond: Option<String>,
    /// Where a hot slot, or a hot key, is to go
    #[arg(long, value_name = "CLUSTER", required_unless_present = "add")]
    to: Option<String>,
    /// Answer as JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

/// What the records show.
struct Seen {
    load: Load,
    /// How often each value of the first field that the rule looks at came.
    values: BTreeMap<Literal, (u64, Slot)>,
    /// For each field whether it grows.
    growth: Vec<Growth>,
}

/// Whether a field's values only grow in the order in which records come, as ids and dates do.
#[derive(Clone, Default)]
struct Growth {
    latest: Option<Literal>,
    rises: bool,
    falls: bool,
}

impl Growth {
    fn see(&mut self, value: &Literal) {
        self.falls |= self.latest.as_ref().is_some_and(|it| value < it);
        self.rises |= self.latest.as_ref().is_some_and(|it| value > it);
        self.latest = Some(value.clone());
    }

    /// What comes behind all values, if they have an order that somebody may count on.
    fn beyond(&self) -> Option<Literal> {
        let next = match self.latest.as_ref().filter(|_| self.rises && !self.falls)? {
            Literal::I64(it) => Literal::I64(it.checked_add(1)?),
            Literal::U64(it) => Literal::U64(it.checked_add(1)?),
            Literal::Date(it) => Literal::Date(it.checked_add(1)?),
            Literal::Timestamp(it) => Literal::Timestamp(it.checked_add(1)?),
            _ => return None,
        };
        next.is_in_range().then_some(next)
    }
}

pub(super) fn plan(args: &PlanArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::program(&args.rule)?;
    let seen = observe(args, &program)?;
    let mut slots = vec![0; program.shape().slots() as usize];
    for (slot, amount) in seen.load.slots() {
        slots[slot.0 as usize] = amount.rows;
    }
    let observed = Observed { slots };
    let refused = |error: RuleError| Stop::refused(error.to_string());
    let mut plans = Vec::new();
    let mut all_move = false;
    if !args.add.is_empty() {
        let targets: Vec<Target> = args.add.iter().map(|it| target(it)).collect();
        let beyond = args
            .beyond
            .as_deref()
            .map(|it| bound(&program, it))
            .transpose()?
            .or_else(|| seen.beyond(&program));
        all_move = beyond.is_none();
        plans.extend(grow(&program, &observed, &targets, beyond).map_err(refused)?);
    }
    if let Some(to) = &args.to {
        plans.extend(cool(&program, &observed, &seen, &target(to)).map_err(refused)?);
    }
    if plans.is_empty() {
        output.answer(
            "no slot is hot: there is nothing to propose",
            || json!({ "plans": 0 }),
        );
        return Ok(exit::DONE);
    }
    for (plan, number) in plans.iter().zip(1_u64..) {
        print(output, &program, plan, number);
    }
    if all_move {
        output.answer(
            "# No field only grows in the order of the records. With --beyond FIELD=VALUE the first plan would move nothing.",
            || json!({ "plans": plans.len(), "lacks": "--beyond" }),
        );
    }
    Ok(exit::DONE)
}

fn target(cluster: &str) -> Target {
    Target {
        cluster: cluster.to_owned(),
        table: None,
    }
}

fn bound(program: &Program, text: &str) -> Result<(u16, Literal), Stop> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Stop::usage(format!("'{text}' is not FIELD=VALUE")))?;
    let field = program
        .rule()
        .field(name)
        .ok_or_else(|| Stop::usage(format!("the rule has no field '{name}'")))?;
    let ty = program.types()[usize::from(field)];
    let value = reading(program, TimeUnit::Refused)?
        .value(ty, value)
        .map_err(Stop::usage)?;
    Ok((field, value))
}

fn observe(args: &PlanArgs, program: &Program) -> Result<Seen, Stop> {
    let mut seen = Seen {
        load: Load::default(),
        values: BTreeMap::new(),
        growth: vec![Growth::default(); program.types().len()],
    };
    if args.records.input.is_none() && !args.add.is_empty() {
        // Growth can be planned blind: then all slots count alike.
        for slot in (0..program.shape().slots()).map(Slot) {
            seen.load.add(slot, 1, 0);
        }
        return Ok(seen);
    }
    let first = program.used_fields().first().copied();
    records::each(&args.records, program, |record| {
        let fields = record.fields();
        match program.evaluate(&fields) {
            Ok(slot) => {
                seen.load.add(slot, record.count, record.bytes);
                let value = first.and_then(|at| fields.get(usize::from(at))?.to_literal());
                if let Some(value) = value {
                    seen.count(value, record.count, slot);
                }
                for (growth, value) in seen.growth.iter_mut().zip(&fields) {
                    if let Some(value) = value.to_literal() {
                        growth.see(&value);
                    }
                }
            }
            Err(why) => seen.load.refuse(why, record.count),
        }
        Ok(())
    })?;
    Ok(seen)
}

impl Seen {
    /// A field that grows, one that the rule looks at if there is one, and a bound above all that was seen of it.
    fn beyond(&self, program: &Program) -> Option<(u16, Literal)> {
        let used = program.used_fields().iter().copied();
        let all = (0_u16..).take(self.growth.len());
        used.chain(all)
            .find_map(|at| Some((at, self.growth[usize::from(at)].beyond()?)))
    }

    /// Counts a value; when there are too many, all that came once so far are forgotten, and the others lose one: what is
    /// frequent is never forgotten (Misra and Gries, 1982).
    fn count(&mut self, value: Literal, rows: u64, slot: Slot) {
        if self.values.len() >= VALUES_MAX && !self.values.contains_key(&value) {
            self.values.retain(|_, (count, _)| {
                *count = count.saturating_sub(1);
                *count > 0
            });
        }
        let counted = self.values.entry(value).or_insert((0, slot));
        counted.0 = counted.0.saturating_add(rows);
    }

    /// The most frequent value of a slot.
    fn hottest_value(&self, slot: Slot) -> Option<(&Literal, u64)> {
        self.values
            .iter()
            .filter(|(_, (_, at))| *at == slot)
            .max_by_key(|(_, (count, _))| *count)
            .map(|(value, (count, _))| (value, *count))
    }
}

/// For each of the hottest slots: its hot key alone, if it is one key that makes it hot, else half of its rows.
fn cool(
    program: &Program,
    observed: &Observed,
    seen: &Seen,
    target: &Target,
) -> Result<Vec<Plan>, RuleError> {
    /// Proposals are for people: the worst few.
    const PLANS_MAX: usize = 3;
    let mean = observed.slots.iter().sum::<u64>() / observed.slots.len().max(1) as u64;
    let mut plans = Vec::new();
    for (slot, amount) in seen.load.hottest(PLANS_MAX) {
        if amount.rows <= mean.saturating_mul(HOT) {
            continue;
        }
        let field = program.used_fields().first().copied();
        match (field, seen.hottest_value(slot)) {
            (Some(field), Some((value, count))) if count * 2 > amount.rows => {
                plans.push(isolate(program, field, value.clone(), target)?);
            }
            _ => {
                let first = program.shape().coordinate(slot, 0);
                plans.push(split(program, observed, first, target)?);
            }
        }
    }
    Ok(plans)
}

fn print(output: &mut Output<'_>, program: &Program, plan: &Plan, number: u64) {
    if output.is_json() {
        let moved: Vec<String> = plan
            .slots_moved
            .iter()
            .map(|it| slot_text(program, *it))
            .collect();
        output.line(json!({
            "plan": number,
            "title": plan.title,
            "reason": plan.reason,
            "moved_slots": moved,
            "moved_load": plan.load_moved,
            "version": plan.rule.version,
            "text": plan.rule.to_string(),
        }));
        return;
    }
    output.line(format!(
        "# Plan {number} for {}: {}",
        title(program),
        plan.title
    ));
    output.line(format!("# {}", plan.reason));
    output.line(format!(
        "# {} slots move, {} of what was counted at most",
        plan.slots_moved.len(),
        plan.load_moved
    ));
    output.line(&plan.rule);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frequent_is_never_forgotten() {
        let mut seen = Seen {
            load: Load::default(),
            values: BTreeMap::new(),
            growth: Vec::new(),
        };
        for number in 0..50_000_i64 {
            seen.count(Literal::I64(number), 1, Slot(0));
            if number % 10 == 0 {
                seen.count(Literal::I64(-7), 5, Slot(0));
            }
        }
        assert!(seen.values.len() <= VALUES_MAX);
        assert_eq!(seen.hottest_value(Slot(0)).unwrap().0, &Literal::I64(-7));
        assert_eq!(seen.hottest_value(Slot(1)), None);
    }
}
