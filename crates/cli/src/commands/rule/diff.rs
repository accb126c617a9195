//! `cadastre rule diff`: what moves between two versions, from where to where (R44, R67).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cadastre_sharding::versions::{Both, Diff, MapChange, map_changes};
use clap::Args;
use serde_json::json;

use super::load::{evenness_json, evenness_text, hottest_texts};
use super::records::{self, RecordsArgs};
use super::source::{self, title};
use super::{Outcome, Stop, exit};
use crate::commands::connect::ConnectArgs;
use crate::commands::output::Output;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The version in force
    pub(super) old: PathBuf,
    /// The version to come
    pub(super) new: PathBuf,
    #[command(flatten)]
    records: RecordsArgs,
    #[command(flatten)]
    pub(super) scan: super::census::ScanArgs,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

pub(super) fn diff(args: &DiffArgs, output: &mut Output<'_>) -> Outcome {
    let both = both(&args.old, &args.new)?;
    let changes = map_changes(&both);
    if let Some(changes) = &changes {
        by_slots(&both, changes, output);
    }
    if args.records.input.is_some() {
        return by_records(args, &both, output);
    }
    if changes.is_some() {
        return Ok(exit::DONE);
    }
    Err(Stop::usage(
        "the versions differ in more than their places: what moves shows only on records (give a file of them, or -) or on the rows that there \
         are (--scan)",
    ))
}

/// Two versions of one rule.
pub(super) fn both(old: &Path, new: &Path) -> Result<Both, Stop> {
    let (old, new) = (source::program(old)?, source::program(new)?);
    Both::new(Arc::new(old), Arc::new(new)).map_err(|fault| Stop::refused(fault.to_string()))
}

/// Only the map differs: exact, without any record.
fn by_slots(both: &Both, changes: &[MapChange], output: &mut Output<'_>) {
    let mut pairs: BTreeMap<(String, String), u64> = BTreeMap::new();
    let name = |id| both.place(id).to_string();
    for change in changes {
        *pairs
            .entry((name(change.from), name(change.to)))
            .or_default() += 1;
    }
    let (moved, all) = (changes.len(), both.old().shape().slots());
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

fn by_records(args: &DiffArgs, both: &Both, output: &mut Output<'_>) -> Outcome {
    let mut diff = Diff::new(both);
    let wide = match both.old().types().len() > both.new_version().types().len() {
        true => both.old(),
        false => both.new_version(),
    };
    records::each(&args.records, wide, |record| {
        diff.add(&record.fields(), record.count, record.bytes);
        Ok(())
    })?;
    print(&diff, output);
    Ok(match diff.has_refused() {
        true => exit::FOUND,
        false => exit::DONE,
    })
}

/// What rows do, as a table or JSON lines.
pub(super) fn print(diff: &Diff<'_>, output: &mut Output<'_>) {
    let both = diff.both();
    let (old, new) = (both.old(), both.new_version());
    let (stays, moves) = (diff.stays(), diff.moves());
    let all = stays.rows.saturating_add(moves.rows);
    let share = 100.0 * moves.rows as f64 / all.max(1) as f64;
    output.answer(
        format!(
            "{} to {}: {} of {all} rows move ({share:.2} %), {} bytes",
            title(old),
            title(new),
            moves.rows,
            moves.bytes
        ),
        || {
            json!({
                "rows": all,
                "moved_rows": moves.rows,
                "moved_bytes": moves.bytes,
                "stays_rows": stays.rows,
            })
        },
    );
    print_pairs(diff, output);
    let sides = [
        ("before", "old", old, diff.old()),
        ("after", "new", new, diff.new_version()),
    ];
    for (when, _, program, load) in &sides {
        let even = load.evenness(program);
        let hottest = hottest_texts(load, program);
        output.answer(
            format!(
                "{when}: {}; hottest slots {}",
                evenness_text(even),
                hottest.join(", ")
            ),
            || json!({ "when": when, "evenness": evenness_json(even), "hottest": hottest }),
        );
    }
    for (_, which, _, load) in &sides {
        for (why, count) in load.refused() {
            output.answer(
                format!("{count} rows are refused by the {which} version: {why}"),
                || json!({ "refused_by": which, "rows": count, "why": why }),
            );
        }
    }
}

fn print_pairs(diff: &Diff<'_>, output: &mut Output<'_>) {
    let name = |id| diff.both().place(id).to_string();
    let pairs = diff.pairs().iter();
    let mut pairs: Vec<_> = pairs
        .map(|((from, to), count)| (name(*from), name(*to), count))
        .collect();
    pairs.sort_unstable_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    if output.is_json() {
        for (from, to, count) in pairs {
            output
                .line(json!({ "from": from, "to": to, "rows": count.rows, "bytes": count.bytes }));
        }
    } else if !pairs.is_empty() {
        let mut rows = vec![["from", "to", "rows", "bytes"].map(str::to_owned).to_vec()];
        rows.extend(pairs.into_iter().map(|(from, to, count)| {
            let (rows, bytes) = (count.rows.to_string(), count.bytes.to_string());
            vec![from, to, rows, bytes]
        }));
        output.table(&rows);
    }
}
