//! `cadastre rule bench`: how fast a rule is evaluated on this machine.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use cadastre_env::{Clock, RealClock};
use cadastre_sharding::Value;
use clap::Args;
use serde_json::json;

use super::records::{self, Record, RecordsArgs};
use super::source::{self, title};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;
use crate::commands::progress::Meter;

/// Records that are kept for measuring: they fit into the cache of any core.
const RECORDS_MAX: usize = 4_096;

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The rule
    rule: PathBuf,
    #[command(flatten)]
    records: RecordsArgs,
    /// How long to measure
    #[arg(long, default_value_t = 2, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn bench(args: &BenchArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::program(&args.rule)?;
    let mut kept: Vec<Record> = Vec::new();
    if args.records.input.is_some() {
        records::each(&args.records, &program, |record| {
            if kept.len() < RECORDS_MAX {
                kept.push(record.clone());
            }
            Ok(())
        })?;
    } else {
        kept.extend(records::synthetic(&program, RECORDS_MAX as u64));
    }
    if kept.is_empty() {
        return Err(Stop::usage("there are no records"));
    }
    let fields: Vec<Vec<Value<'_>>> = kept.iter().map(Record::fields).collect();
    let refused = fields
        .iter()
        .filter(|it| program.evaluate(it).is_err())
        .count();
    // The best of many short rounds: the machine may do other things, too.
    let clock = RealClock;
    let whole = Duration::from_secs(args.seconds);
    let start = clock.mono();
    let end = start + whole;
    let mut meter = Meter::new(RealClock, true, 0.0);
    let (mut best, mut rounds) = (Duration::MAX, 0_u64);
    while clock.mono() < end || rounds == 0 {
        let began = clock.mono();
        for record in &fields {
            // Refused or not: the answer only has to be made.
            let _ = black_box(program.evaluate(black_box(record)));
        }
        best = best.min(clock.mono().saturating_sub(began));
        rounds += 1;
        meter.tell(rounds * fields.len() as u64, || {
            Some(began.saturating_sub(start).as_secs_f64() / whole.as_secs_f64())
        });
    }
    meter.end();
    let nanos = best.as_nanos() as f64 / fields.len() as f64;
    output.answer(
        format!(
            "{}: {nanos:.1} ns for a record, {:.1} million a second on one core (best of {rounds} rounds of {} records, {refused} \
             refused)",
            title(&program),
            1_000.0 / nanos,
            fields.len()
        ),
        || {
            json!({
                "rule": program.rule().name,
                "ns": nanos,
                "records": fields.len(),
                "rounds": rounds,
                "refused": refused,
            })
        },
    );
    Ok(exit::DONE)
}
