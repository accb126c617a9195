//! `cadastre rule plan`: proposals for the next version. Nothing is applied: a person looks at one, compares it with
//! `cadastre rule diff` and publishes it, or not (R36).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use cadastre_sharding::record::TimeUnit;
use cadastre_sharding::versions::{
    Observed, Plan, Proposals, Target, grow, isolate, move_slots, split,
};
use cadastre_sharding::{Literal, Program, RuleError, Slot};
use clap::Args;
use serde_json::json;

use super::observed::{self, Seen};
use super::records::{RecordsArgs, reading};
use super::source::{self, slot_text, title};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

/// A slot is hot from so many times the mean of all slots on.
const HOT: u64 = 2;

/// Proposals are for people: the worst few slots.
const HOTTEST_MAX: usize = 3;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The rule in force
    rule: PathBuf,
    #[command(flatten)]
    records: RecordsArgs,
    /// Counts by slot in place of records: CSV whose header names the rule's dimensions (those behind the first may be left out) and count
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    slots: Option<PathBuf>,
    /// With --format keys: a key that is hot is what the first N bytes of row keys hold [default: the first field that the slot depends on]
    #[arg(long, value_name = "N", requires = "format")]
    prefix: Option<usize>,
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

pub(super) fn plan(args: &PlanArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::program(&args.rule)?;
    let seen = observe(args, &program)?;
    let mut slots = vec![0; program.shape().slots() as usize];
    for (slot, amount) in seen.load.slots() {
        slots[slot.0 as usize] = amount.rows;
    }
    let observed = Observed { slots };
    let mut plans = Vec::new();
    if !args.add.is_empty() {
        let targets: Vec<Target> = args.add.iter().map(|it| target(it)).collect();
        let beyond = args
            .beyond
            .as_deref()
            .map(|it| bound(&program, it))
            .transpose()?
            .or_else(|| seen.beyond(&program));
        let grown = grow(&program, &observed, &targets, beyond);
        let Proposals {
            plans: grown,
            lacks,
        } = grown.map_err(|fault| Stop::refused(fault.to_string()))?;
        if let Some(why) = lacks {
            hint(&why, output);
        }
        plans.extend(grown);
    }
    if let Some(to) = &args.to {
        plans.extend(cool(&program, &observed, &seen, &target(to), output));
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
    Ok(exit::DONE)
}

/// R15: what moves nothing comes first, or what it lacks.
fn hint(why: &str, output: &mut Output<'_>) {
    output.answer(
        format!(
            "# No plan moves nothing: {why}. With --beyond FIELD=VALUE (a field that only grows, and a bound above all there is) \
             the first plan sends what is new to the new places, if the rule ends in a slot."
        ),
        || json!({ "lacks": "--beyond", "why": why }),
    );
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
    match &args.slots {
        Some(file) => observed::counts(file, program),
        // Growth can be planned blind: then all slots count alike.
        None if args.records.input.is_none() && !args.add.is_empty() => Ok(Seen::alike(program)),
        None => Seen::records(&args.records, program, args.prefix),
    }
}

/// For each of the hottest slots (of all that have one first coordinate, since they move together): its hot key alone, if it is one
/// key that makes it hot; else the slot to another cluster, and half of its rows.
fn cool(
    program: &Program,
    observed: &Observed,
    seen: &Seen,
    target: &Target,
    output: &mut Output<'_>,
) -> Vec<Plan> {
    let mut firsts: BTreeMap<i64, u64> = BTreeMap::new();
    let mut clusters: BTreeMap<&str, u64> = BTreeMap::new();
    for (slot, load) in (0..).map(Slot).zip(&observed.slots) {
        let first = firsts
            .entry(program.shape().coordinate(slot, 0))
            .or_default();
        *first = first.saturating_add(*load);
        let cluster = clusters.entry(program.map().place(slot).cluster.as_str());
        let cluster = cluster.or_default();
        *cluster = cluster.saturating_add(*load);
    }
    let total = firsts
        .values()
        .fold(0_u64, |all, it| all.saturating_add(*it));
    let mean = total / firsts.len().max(1) as u64;
    let mut hottest: Vec<(i64, u64)> = firsts.into_iter().collect();
    hottest.sort_by_key(|(first, load)| (Reverse(*load), *first));
    let mut plans = Vec::new();
    for (first, load) in hottest.into_iter().take(HOTTEST_MAX) {
        if load <= mean.saturating_mul(HOT) {
            continue;
        }
        let mut offer = |what: &str, plan: Result<Plan, RuleError>| match plan {
            Ok(plan) => {
                plans.push(plan);
                true
            }
            Err(why) => {
                output.answer(
                    format!("# Slot {first} is hot, but {what}: {why}"),
                    || json!({ "slot": first, "cannot": what, "why": why.to_string() }),
                );
                false
            }
        };
        if let Some((key, count)) = seen.hottest_key(first).filter(|it| it.1 * 2 > load)
            && offer(
                "its hot key cannot be alone",
                isolate(program, key, count, target),
            )
        {
            continue;
        }
        // Alone on its cluster it is as hot on another.
        let cluster = cluster_of(program, first);
        let has_company = clusters.get(cluster.as_str()).is_some_and(|it| *it > load);
        if has_company && cluster != target.cluster {
            offer(
                "it cannot be moved",
                move_slots(program, observed, &[first], target),
            );
        }
        offer(
            "it cannot be split",
            split(program, observed, first, target),
        );
    }
    plans
}

/// The cluster of the first slot that has this first coordinate.
fn cluster_of(program: &Program, first: i64) -> String {
    let slots = (0..program.shape().slots()).map(Slot);
    slots
        .filter(|slot| program.shape().coordinate(*slot, 0) == first)
        .map(|slot| program.map().place(slot).cluster.clone())
        .next()
        .unwrap_or_default()
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
