//! `cadastre rule import`: rules of other systems, printed in our language.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cadastre_sharding::import::{self as importers, Imported, Options, limits};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Outcome, Stop, exit, source};
use crate::commands::output::Output;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    /// TDDL's XML
    Tddl,
    /// ShardingSphere's YAML
    Shardingsphere,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The document
    document: PathBuf,
    /// Whose rules it holds [default: by the file's name: .xml is TDDL's, .yaml is ShardingSphere's]
    #[arg(long)]
    system: Option<System>,
    /// Only this table
    #[arg(long)]
    table: Option<String>,
    /// Time zone of dates; the original takes each machine's own
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// First and last year of tables named by year
    #[arg(long, value_name = "FIRST..LAST", value_parser = years)]
    years: Option<(i64, i64)>,
    /// A column that holds whole numbers though it is only hashed
    #[arg(long, value_name = "COLUMN")]
    integer: Vec<String>,
    /// Answer as JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

fn years(text: &str) -> Result<(i64, i64), String> {
    let parsed = text
        .split_once("..")
        .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match parsed {
        Some((first, last)) if 1 <= first && first <= last && last <= 9999 => Ok((first, last)),
        _ => Err(format!("'{text}' is no span of years such as 2020..2030")),
    }
}

pub(super) fn import(args: &ImportArgs, output: &mut Output<'_>) -> Outcome {
    let name = args.document.display();
    let bytes = source::read(&args.document, limits::DOCUMENT_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Stop::usage(format!(
            "{name}: not UTF-8; convert it first, with iconv for one"
        ))
    })?;
    let options = Options {
        zone: args.zone.clone(),
        years: args.years,
        integers: args.integer.iter().cloned().collect::<BTreeSet<_>>(),
    };
    let by_name = args.document.extension().and_then(|it| it.to_str());
    let import = match (args.system, by_name) {
        (Some(System::Tddl), _) | (None, Some("xml")) => importers::tddl(&text, &options),
        (Some(System::Shardingsphere), _) | (None, Some("yaml" | "yml")) => {
            importers::shardingsphere(&text, &options)
        }
        _ => {
            return Err(Stop::usage(format!(
                "{name}: say whose rules these are (--system)"
            )));
        }
    };
    let import = import.map_err(|fault| Stop::refused(format!("{name}: {fault}")))?;
    let wanted = |rule: &&Imported| args.table.as_ref().is_none_or(|table| *table == rule.table);
    let rules: Vec<&Imported> = import.rules.iter().filter(wanted).collect();
    if rules.is_empty() {
        return Err(Stop::refused(format!("{name}: there is no such table")));
    }
    for warning in &import.warnings {
        output.answer(
            format!("# Line {}: {}.", warning.line, warning.message),
            || json!({ "line": warning.line, "warning": warning.message }),
        );
    }
    for rule in rules {
        // What we print must be right by our own measure.
        cadastre_sharding::parse(&rule.text).map_err(|fault| {
            Stop::refused(format!(
                "{name}: the table {} makes no rule: {fault}",
                rule.table
            ))
        })?;
        output.answer(&rule.text, || {
            let warnings: Vec<_> = rule
                .warnings
                .iter()
                .map(|it| json!({ "line": it.line, "message": it.message }))
                .collect();
            json!({ "table": rule.table, "text": rule.text, "warnings": warnings })
        });
    }
    Ok(exit::DONE)
}
