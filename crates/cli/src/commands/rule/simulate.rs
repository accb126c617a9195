//! `cadastre rule simulate`: the load of each place, before and after a change, as a table or a picture.

use std::path::PathBuf;
use std::sync::Arc;

use cadastre_sharding::Program;
use cadastre_sharding::versions::Load;
use clap::Args;
use serde_json::json;

use super::load::{evenness_json, evenness_text, hottest_texts, rows_by_place};
use super::records::{self, Record, RecordsArgs};
use super::source::{self, title};
use super::steps;
use super::svg::{self, Bar};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The rule
    pub(super) rule: PathBuf,
    #[command(flatten)]
    pub(super) records: RecordsArgs,
    /// Another version, for what is after
    #[arg(long, value_name = "RULE")]
    new: Option<PathBuf>,
    /// So many made-up records in place of a file
    #[arg(long, value_name = "N", conflicts_with = "input")]
    pub(super) synthetic: Option<u64>,
    /// Of cache rules: change to --new in so many steps, read all records in each, and show what each sends to the database
    #[arg(long, value_name = "N", requires = "new", conflicts_with = "svg", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    steps: Option<u32>,
    /// With --steps: most keys that each node holds; what was not read for longest is forgotten [default: all]
    #[arg(long, value_name = "N", requires = "steps")]
    pub(super) keys: Option<usize>,
    /// With --steps: ask the old owner before the database
    #[arg(long, requires = "steps")]
    pub(super) old_owner: bool,
    /// Draw the load into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Answer as JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

/// A version and its load.
struct Side {
    program: Arc<Program>,
    load: Load,
}

impl Side {
    fn new(path: &std::path::Path) -> Result<Self, Stop> {
        Ok(Self {
            program: Arc::new(source::program(path)?),
            load: Load::default(),
        })
    }

    fn take(&mut self, record: &Record) {
        match self.program.evaluate(&record.fields()) {
            Ok(slot) => self.load.add(slot, record.count, record.bytes),
            Err(why) => self.load.refuse(why, record.count),
        }
    }
}

pub(super) fn simulate(args: &SimulateArgs, output: &mut Output<'_>) -> Outcome {
    if let (Some(steps), Some(new)) = (args.steps, &args.new) {
        return steps::steps(args, new, steps, output);
    }
    let mut before = Side::new(&args.rule)?;
    let mut after = args.new.as_deref().map(Side::new).transpose()?;
    if let Some(after) = &after {
        same_fields(&before.program, &after.program)?;
    }
    let mut take = |before: &mut Side, record: &Record| {
        before.take(record);
        if let Some(after) = &mut after {
            after.take(record);
        }
    };
    let shape = Arc::clone(&before.program);
    let taken = |record: &Record| {
        take(&mut before, record);
        Ok(())
    };
    match args.synthetic {
        Some(number) => records::each_synthetic(&shape, number, taken)?,
        None => records::each(&args.records, &shape, taken)?,
    };
    let bars = bars(&before, after.as_ref());
    table(output, &bars, after.is_some());
    summary(output, "before", &before);
    if let Some(after) = &after {
        summary(output, "after", after);
    }
    if let Some(path) = &args.svg {
        draw(path, &before, after.as_ref(), bars)?;
    }
    let refused = |side: &Side| !side.load.refused().is_empty();
    let any = refused(&before) || after.as_ref().is_some_and(refused);
    Ok(if any { exit::FOUND } else { exit::DONE })
}

/// Two versions can be compared only on the same fields.
pub(super) fn same_fields(old: &Program, new: &Program) -> Result<(), Stop> {
    let fields = |program: &Program| -> Vec<(String, _)> {
        let fields = &program.rule().fields;
        fields.iter().map(|it| (it.name.clone(), it.ty)).collect()
    };
    if fields(old) == fields(new) {
        return Ok(());
    }
    Err(Stop::refused(format!(
        "{} and {} declare different fields: records cannot be read for both",
        title(old),
        title(new)
    )))
}

fn bars(before: &Side, after: Option<&Side>) -> Vec<Bar> {
    let old = rows_by_place(&before.load, &before.program);
    let new = after.map(|side| rows_by_place(&side.load, &side.program));
    let mut names: Vec<&String> = old.keys().collect();
    names.extend(new.iter().flat_map(|it| it.keys()));
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| Bar {
            name: name.clone(),
            before: old.get(name).copied().unwrap_or(0),
            after: new.as_ref().map(|new| new.get(name).copied().unwrap_or(0)),
        })
        .collect()
}

fn table(output: &mut Output<'_>, bars: &[Bar], both: bool) {
    if output.is_json() {
        for bar in bars {
            output.line(json!({ "place": bar.name, "before": bar.before, "after": bar.after }));
        }
        return;
    }
    let mut rows = vec![vec!["place".to_owned(), "before".to_owned()]];
    if both {
        rows[0].push("after".to_owned());
    }
    rows.extend(bars.iter().map(|bar| {
        let mut row = vec![bar.name.clone(), bar.before.to_string()];
        row.extend(bar.after.map(|it| it.to_string()));
        row
    }));
    output.table(&rows);
}

fn summary(output: &mut Output<'_>, when: &str, side: &Side) {
    let even = side.load.evenness(&side.program);
    let texts = hottest_texts(&side.load, &side.program);
    output.answer(
        format!(
            "{when} ({}): {}; hottest slots {}",
            title(&side.program),
            evenness_text(even),
            texts.join(", ")
        ),
        || json!({ "when": when, "version": side.program.rule().version, "evenness": evenness_json(even), "hottest": texts }),
    );
    for (why, count) in side.load.refused() {
        output.answer(
            format!("{when}: {count} records refused: {why}"),
            || json!({ "when": when, "refused": count, "why": why }),
        );
    }
}

fn draw(
    path: &std::path::Path,
    before: &Side,
    after: Option<&Side>,
    mut bars: Vec<Bar>,
) -> Result<(), Stop> {
    let all = bars.len();
    if all > svg::BARS_MAX {
        // The heaviest tell most.
        bars.sort_by_key(|bar| std::cmp::Reverse(bar.before.max(bar.after.unwrap_or(0))));
        bars.truncate(svg::BARS_MAX);
    }
    let shown = match all - bars.len() {
        0 => String::new(),
        left => format!(" ({left} lighter places left out)"),
    };
    let heading = format!("Rows by place, {}{shown}", before.program.rule().name);
    let (old, new) = (
        title(&before.program),
        after.map(|side| title(&side.program)),
    );
    let picture = svg::picture(&heading, (&old, new.as_deref()), &bars);
    std::fs::write(path, picture)
        .map_err(|error| Stop::usage(format!("{}: {error}", path.display())))
}
