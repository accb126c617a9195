//! `cadastre rule simulate --steps`: a cache whose map changes in steps, and what each step sends to the database (R22, R23).

use std::path::Path;

use cadastre_sharding::cache::{Gradual, Simulation, StepReport};
use cadastre_sharding::rule::Kind;
use cadastre_sharding::versions::Load;
use serde_json::json;

use super::diff;
use super::records;
use super::simulate::SimulateArgs;
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

pub(super) fn steps(
    args: &SimulateArgs,
    new: &Path,
    steps: u32,
    output: &mut Output<'_>,
) -> Outcome {
    let both = diff::both(&args.rule, new)?;
    if [both.old(), both.new_version()]
        .iter()
        .any(|it| it.rule().kind != Kind::Cache)
    {
        return Err(Stop::refused(
            "only a cache changes in steps of its own: what it has lost can be read again. A store's rows are held and copied \
             (cadastre rule publish)",
        ));
    }
    let wide = match both.old().types().len() > both.new_version().types().len() {
        true => both.old(),
        false => both.new_version(),
    };
    let wide = std::sync::Arc::clone(wide);
    let capacity = args.keys.unwrap_or(usize::MAX);
    let mut simulation = Simulation::new(Gradual::new(both, steps), capacity, args.old_owner);
    let mut load = Load::default();
    for step in 0..=steps {
        let mut take = |record: &records::Record| {
            if let Err(why) = simulation.read_times(step, &record.fields(), record.count) {
                load.refuse(why, record.count);
            }
            Ok(())
        };
        match (args.synthetic, &args.records.input) {
            (Some(number), _) => records::each_synthetic(&wide, number, &mut take)?,
            (None, Some(path)) if path != Path::new("-") => {
                records::each(&args.records, &wide, &mut take)?
            }
            _ => {
                return Err(Stop::usage(
                    "each step reads all records again: give a file of them, or --synthetic",
                ));
            }
        };
    }
    print(simulation.report(), output);
    for (why, count) in load.refused() {
        output.answer(
            format!("{count} reads refused: {why}"),
            || json!({ "refused": count, "why": why }),
        );
    }
    Ok(match load.refused().is_empty() {
        true => exit::DONE,
        false => exit::FOUND,
    })
}

fn percent(report: &StepReport) -> f64 {
    100.0 * report.misses as f64 / report.reads.max(1) as f64
}

fn print(report: &[StepReport], output: &mut Output<'_>) {
    if output.is_json() {
        for (it, step) in report.iter().zip(0_u32..) {
            output.line(json!({
                "step": step, "reads": it.reads, "hits": it.hits, "former": it.former, "misses": it.misses,
                "miss_percent": percent(it),
            }));
        }
        return;
    }
    let header = ["step", "reads", "hits", "old owner", "misses", "missed"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.iter().zip(0_u32..).map(|(it, step)| {
        let numbers = [it.reads, it.hits, it.former, it.misses];
        let mut row = vec![step.to_string()];
        row.extend(numbers.iter().map(u64::to_string));
        row.push(format!("{:.2} %", percent(it)));
        row
    }));
    output.table(&rows);
    // Step 0 fills empty nodes.
    let worst = report
        .iter()
        .zip(0_u32..)
        .skip(1)
        .max_by(|(a, _), (b, _)| percent(a).total_cmp(&percent(b)));
    if let Some((worst, step)) = worst {
        output.line(format!(
            "step 0 fills empty nodes by the old version; the worst of the others is step {step}: {:.2} % of its reads miss",
            percent(worst)
        ));
    }
}
