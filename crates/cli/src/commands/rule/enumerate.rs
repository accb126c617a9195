//! `cadastre rule enumerate`: the few places that can hold rows that meet a condition.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cadastre_env::{Clock, RealClock};
use cadastre_sharding::enumerate::{self as enumeration, BUDGET_DEFAULT, Options};
use cadastre_sharding::{Predicate, Unbounded};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::source::{self, place_text, slot_text};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

/// What to do when nothing bounds the slots.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Policy {
    /// All slots
    Allow,
    /// All slots, with a warning
    Warn,
    /// None, and exit code 1
    Refuse,
}

#[derive(Debug, Args)]
pub struct EnumerateArgs {
    /// The rule
    rule: PathBuf,
    /// The condition: and, or, not, =, !=, <, <=, >, >=, in, between, like 'p%', is null, now()
    condition: String,
    /// If all slots may hold matches
    #[arg(long, default_value = "warn", value_name = "POLICY")]
    unbounded: Policy,
    /// Field in whose order rows are wanted: slots come in it, if the rule keeps it
    #[arg(long, value_name = "FIELD")]
    sort: Option<String>,
    /// Most evaluations
    #[arg(long, default_value_t = BUDGET_DEFAULT, value_name = "N")]
    budget: usize,
    /// Slots too, not places alone
    #[arg(long)]
    slots: bool,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn enumerate(args: &EnumerateArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::program(&args.rule)?;
    let micros = i64::try_from(RealClock.wall())
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000);
    let predicate = Predicate::parse(program.rule(), &args.condition, Some(micros))
        .map_err(|fault| Stop::usage(format!("the condition: {fault}")))?;
    let sort = match &args.sort {
        None => None,
        Some(name) => Some(
            program
                .rule()
                .field(name)
                .ok_or_else(|| Stop::usage(format!("the rule has no field '{name}'")))?,
        ),
    };
    let options = Options {
        unbounded: match args.unbounded {
            Policy::Allow => Unbounded::Allow,
            Policy::Warn => Unbounded::Warn,
            Policy::Refuse => Unbounded::Refuse,
        },
        sort,
        budget: args.budget,
    };
    let found = enumeration::enumerate(&program, &predicate, options)
        .map_err(|refused| Stop::refused(refused.to_string()))?;
    // Places in the order in which their first slot comes.
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for slot in &found.slots {
        let name = place_text(&program, *slot);
        let at = *seen.entry(name.clone()).or_insert_with(|| {
            places.push((name, Vec::new()));
            places.len() - 1
        });
        places[at].1.push(slot_text(&program, *slot));
    }
    if output.is_json() {
        let places: Vec<_> = places
            .iter()
            .map(|(name, slots)| json!({ "place": name, "slots": slots }))
            .collect();
        output.line(json!({
            "slots": found.slots.len(),
            "of": program.shape().slots(),
            "exact": found.is_exact,
            "ordered_by": found.ordered_by.map(|at| program.rule().fields[usize::from(at)].name.clone()),
            "cause": found.cause,
            "places": places,
        }));
        return Ok(exit::DONE);
    }
    for (name, slots) in &places {
        if args.slots {
            output.line(format!("{name}  {}", slots.join(" ")));
        } else {
            output.line(name);
        }
    }
    let exact = if found.is_exact {
        "exact"
    } else {
        "perhaps too many"
    };
    output.line(format!(
        "{} of {} places, {} of {} slots, {exact}",
        places.len(),
        program.map().places().len(),
        found.slots.len(),
        program.shape().slots()
    ));
    if let Some(cause) = &found.cause {
        let what = if found.warn {
            "warning: all slots"
        } else {
            "not exact"
        };
        output.line(format!("{what}, because of {cause}"));
    }
    if found.ordered_by.is_some() {
        output.line("in the order asked for: a limit can stop early");
    }
    Ok(exit::DONE)
}
