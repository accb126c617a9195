//! `cadastre rule explain` and `eval`: records and their places.

use std::path::PathBuf;

use cadastre_sharding::Program;
use cadastre_sharding::lint::Explainer;
use cadastre_sharding::record::{Reading, TimeUnit};
use cadastre_sharding::versions::Load;
use cadastre_sharding::{EvalError, Literal, Slot, Value};
use clap::Args;
use serde_json::{Map, Value as Json, json};

use super::records::{self, Record, RecordsArgs, reading};
use super::source::{self, place_text, slot_json, slot_text, title, value_text};
use super::{Outcome, Stop, exit};
use crate::commands::output::Output;

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The rule
    rule: PathBuf,
    /// Fields as FIELD=VALUE; a field that is not named is null
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn explain(args: &ExplainArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::program(&args.rule)?;
    let record = named_fields(&program, &args.fields)?;
    let fields = record.fields();
    let outcome = program.evaluate(&fields);
    let because = Explainer::new(&program).because(&fields);
    if output.is_json() {
        let mut answer = json!({
            "rule": program.rule().name,
            "version": program.rule().version,
            "hash": program.hash().to_string(),
            "fields": fields_json(&program, &fields),
            "alternative": because.alternative,
            "because": because.text,
        });
        match &outcome {
            Ok(slot) => merge(&mut answer, slot_json(&program, *slot)),
            Err(why) => merge(&mut answer, json!({ "error": why_text(&program, why) })),
        }
        output.line(answer);
    } else {
        output.line(format!("{}, hash {}", title(&program), program.hash()));
        for (field, value) in program.rule().fields.iter().zip(&fields) {
            output.line(format!("  {} = {}", field.name, value_text(value)));
        }
        output.line(format!("  {}", because.text));
        match &outcome {
            Ok(slot) => output.line(format!(
                "slot {} at {}",
                slot_text(&program, *slot),
                place_text(&program, *slot)
            )),
            Err(why) => output.line(format!("no slot: {}", why_text(&program, why))),
        }
    }
    Ok(if outcome.is_ok() {
        exit::DONE
    } else {
        exit::FOUND
    })
}

/// An error with the field's name in place of its number.
pub(super) fn why_text(program: &Program, why: &EvalError) -> String {
    let name = |field: u16| {
        program
            .rule()
            .fields
            .get(usize::from(field))
            .map_or("", |it| it.name.as_str())
    };
    match why {
        EvalError::Null { field } => format!("{} is null", name(*field)),
        EvalError::FieldRange { field } => format!("{} is out of range", name(*field)),
        other => other.to_string(),
    }
}

fn named_fields(program: &Program, named: &[String]) -> Result<Record, Stop> {
    let reading = reading(program, TimeUnit::Refused)?;
    let mut values = vec![None; program.types().len()];
    for text in named {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Stop::usage(format!("'{text}' is not FIELD=VALUE")))?;
        let field = program
            .rule()
            .field(name)
            .ok_or_else(|| Stop::usage(format!("the rule has no field '{name}'")))?;
        let at = usize::from(field);
        values[at] = Some(one(&reading, program, at, value)?);
    }
    Ok(Record::new(values))
}

fn one(reading: &Reading, program: &Program, at: usize, text: &str) -> Result<Literal, Stop> {
    reading
        .value(program.types()[at], text)
        .map_err(Stop::usage)
}

fn merge(answer: &mut Json, more: Json) {
    if let (Json::Object(answer), Json::Object(more)) = (answer, more) {
        answer.extend(more);
    }
}

fn fields_json(program: &Program, fields: &[Value<'_>]) -> Json {
    let named = program.rule().fields.iter().zip(fields);
    let of = |value: &Value<'_>| match value {
        Value::Null => Json::Null,
        Value::Bool(it) => json!(it),
        Value::I64(it) => json!(it),
        Value::U64(it) => json!(it),
        other => json!(value_text(other)),
    };
    Json::Object(
        named
            .map(|(field, value)| (field.name.clone(), of(value)))
            .collect::<Map<_, _>>(),
    )
}

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The rule
    rule: PathBuf,
    #[command(flatten)]
    records: RecordsArgs,
    /// Answer as JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn eval(args: &EvalArgs, output: &mut Output<'_>) -> Outcome {
    let program = source::program(&args.rule)?;
    let mut load = Load::default();
    let names: Vec<&str> = program
        .rule()
        .fields
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    if !output.is_json() {
        output.line(format!("{}\tslot\tplace", names.join("\t")));
    }
    records::each(&args.records, &program, |record| {
        let fields = record.fields();
        let outcome = program.evaluate(&fields);
        match &outcome {
            Ok(slot) => load.add(*slot, record.count, record.bytes),
            Err(why) => load.refuse(why, record.count),
        }
        print(output, &program, &fields, &outcome);
        // Nobody reads on: no reason to go on.
        if output.is_broken() {
            return Err(Stop {
                code: exit::DONE,
                message: String::new(),
            });
        }
        Ok(())
    })
    .or_else(|stop| {
        if stop.code == exit::DONE {
            Ok(0)
        } else {
            Err(stop)
        }
    })?;
    Ok(if load.refused().is_empty() {
        exit::DONE
    } else {
        exit::FOUND
    })
}

fn print(
    output: &mut Output<'_>,
    program: &Program,
    fields: &[Value<'_>],
    outcome: &Result<Slot, EvalError>,
) {
    if output.is_json() {
        let mut answer = json!({ "fields": fields_json(program, fields) });
        match outcome {
            Ok(slot) => merge(&mut answer, slot_json(program, *slot)),
            Err(why) => merge(&mut answer, json!({ "error": why_text(program, why) })),
        }
        output.line(answer);
        return;
    }
    let values: Vec<String> = fields.iter().map(value_text).collect();
    let answer = match outcome {
        Ok(slot) => format!(
            "{}\t{}",
            slot_text(program, *slot),
            place_text(program, *slot)
        ),
        Err(why) => format!("-\t{}", why_text(program, why)),
    };
    output.line(format!("{}\t{answer}", values.join("\t")));
}
