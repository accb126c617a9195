//! `cadastre rule diff`: what moves between two versions, from where to where (R44, R67).

use std::collections::BTreeMap;
use std::path::PathBuf;

use cadastre_sharding::Program;
use cadastre_sharding::{EvalError, Slot};
use clap::Args;
use serde_json::json;

use super::load::{Amount, Load, evenness, slot_amount_text};
use super::records::{self, RecordsArgs};
use super::simulate::same_fields;
use super::source::{self, place_text, title};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

/// Slots that are named as the hottest.
const HOTTEST: usize = 5;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The version in force
    old: PathBuf,
    /// The version to come
    new: PathBuf,
    #[command(flatten)]
    records: RecordsArgs,
    /// Answer as JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn diff(args: &DiffArgs, output: &mut Output<'_>) -> Outcome {
    let (old, new) = (source::program(&args.old)?, source::program(&args.new)?);
    same_fields(&old, &new)?;
    let is_map_only = old.logic_hash() == new.logic_hash();
    if is_map_only {
        by_slots(&old, &new, output);
    }
    if args.records.input.is_some() {
        return by_records(args, &old, &new, output);
    }
    if is_map_only {
        return Ok(exit::DONE);
    }
    Err(Stop::usage(
        "the versions differ in more than their places: what moves shows only on records (give a file of them, or -)",
    ))
}

/// Only the map differs: exact, without any record.
fn by_slots(old: &Program, new: &Program, output: &mut Output<'_>) {
    let mut pairs: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut moved = 0_u64;
    for slot in (0..old.shape().slots()).map(Slot) {
        let (from, to) = (place_text(old, slot), place_text(new, slot));
        if from != to {
            moved += 1;
            *pairs.entry((from, to)).or_default() += 1;
        }
    }
    let all = old.shape().slots();
    output.answer(
        format!("only places differ: {moved} of {all} slots move"),
        || json!({ "slots": all, "moved_slots": moved }),
    );
    if output.is_json() {
        for ((from, to), slots) in &pairs {
            output.line(json!({ "from": from, "to": to, "slots": slots }));
        }
    } else if !pairs.is_empty() {
        let mut rows = vec![["from", "to", "slots"].map(str::to_owned).to_vec()];
        rows.extend(
            pairs
                .into_iter()
                .map(|((from, to), slots)| vec![from, to, slots.to_string()]),
        );
        output.table(&rows);
    }
}

/// What records do.
#[derive(Default)]
struct Moves {
    pairs: BTreeMap<(String, String), Amount>,
    stays: Amount,
    moves: Amount,
    /// Refused by one version and not by the other: (records, what the one says).
    refused: BTreeMap<(&'static str, String), u64>,
    old: Load,
    new: Load,
}

fn by_records(args: &DiffArgs, old: &Program, new: &Program, output: &mut Output<'_>) -> Outcome {
    let mut moves = Moves::default();
    records::each(&args.records, old, |record| {
        let fields = record.fields();
        let outcomes = (old.evaluate(&fields), new.evaluate(&fields));
        moves.take((old, new), outcomes, record.count, record.bytes);
        Ok(())
    })?;
    moves.print(old, new, output);
    Ok(if moves.refused.is_empty() {
        exit::DONE
    } else {
        exit::FOUND
    })
}

impl Moves {
    fn take(
        &mut self,
        (old, new): (&Program, &Program),
        outcomes: (Result<Slot, EvalError>, Result<Slot, EvalError>),
        rows: u64,
        bytes: u64,
    ) {
        match outcomes {
            (Ok(before), Ok(after)) => {
                self.old.add(before, rows, bytes);
                self.new.add(after, rows, bytes);
                let (from, to) = (old.map().place(before), new.map().place(after));
                if from == to {
                    self.stays.add(rows, bytes);
                } else {
                    self.moves.add(rows, bytes);
                    self.pairs
                        .entry((place_text(old, before), place_text(new, after)))
                        .or_default()
                        .add(rows, bytes);
                }
            }
            (before, after) => {
                for (which, outcome) in [("old", before), ("new", after)] {
                    if let Err(why) = outcome {
                        *self.refused.entry((which, why.to_string())).or_default() += rows;
                    }
                }
            }
        }
    }

    fn print(&self, old: &Program, new: &Program, output: &mut Output<'_>) {
        let all = self.stays.rows.saturating_add(self.moves.rows);
        let share = 100.0 * self.moves.rows as f64 / all.max(1) as f64;
        output.answer(
            format!(
                "{} to {}: {} of {all} rows move ({share:.2} %), {} bytes",
                title(old),
                title(new),
                self.moves.rows,
                self.moves.bytes
            ),
            || {
                json!({
                    "rows": all,
                    "moved_rows": self.moves.rows,
                    "moved_bytes": self.moves.bytes,
                    "stays_rows": self.stays.rows,
                })
            },
        );
        self.print_pairs(output);
        for (when, program, load) in [("before", old, &self.old), ("after", new, &self.new)] {
            let even = evenness(&load.places(program));
            let hottest: Vec<String> = load
                .hottest(HOTTEST)
                .iter()
                .map(|(slot, amount)| slot_amount_text(program, *slot, *amount))
                .collect();
            output.answer(
                format!(
                    "{when}: {}; hottest slots {}",
                    even.text(),
                    hottest.join(", ")
                ),
                || json!({ "when": when, "evenness": even.json(), "hottest": hottest }),
            );
        }
        for ((which, why), count) in &self.refused {
            output.answer(
                format!("{count} rows are refused by the {which} version: {why}"),
                || json!({ "refused_by": which, "rows": count, "why": why }),
            );
        }
    }

    fn print_pairs(&self, output: &mut Output<'_>) {
        if output.is_json() {
            for ((from, to), amount) in &self.pairs {
                output.line(
                    json!({ "from": from, "to": to, "rows": amount.rows, "bytes": amount.bytes }),
                );
            }
        } else if !self.pairs.is_empty() {
            let mut rows = vec![["from", "to", "rows", "bytes"].map(str::to_owned).to_vec()];
            rows.extend(self.pairs.iter().map(|((from, to), amount)| {
                let (rows, bytes) = (amount.rows.to_string(), amount.bytes.to_string());
                vec![from.clone(), to.clone(), rows, bytes]
            }));
            output.table(&rows);
        }
    }
}
