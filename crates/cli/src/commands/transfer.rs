//! `cadastre dump` and `load`: tables as CSV or JSON lines, streamed and resumable. Here is what both agree on: the formats and what a
//! CSV's columns mean.
//!
//! - JSON lines: a row a line, as `scan --json` prints it; every version and timestamp that was asked for, nothing is lost.
//! - CSV: one value a column, named by `--columns row,f:a,f:b` or by the first line. A cell that is not there is `\N`, which no value can
//!   be in HBase's notation; an empty value is an empty field.
//!
//! `state` remembers how far a file is written or loaded; `dump` and `load` do the work.

pub(super) mod dump;
mod input;
pub(super) mod load;
mod state;

use std::ffi::OsStr;
use std::path::Path;

use cadastre_client::notation;
use cadastre_types::{Cell, Code, Error, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::arguments::{Column, column};
use super::output::{column_text, usage};

/// A cell that is not there, in a CSV: a backslash that begins neither `\xNN` nor `\\`, so no value is written so.
const NULL: &str = "\\N";

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// A line for each row, a field for each column.
    Csv,
    /// A JSON object for each row, a line each.
    Jsonl,
}

impl Format {
    /// What was asked for, or what the file's name says.
    fn of(asked: Option<Self>, file: Option<&Path>) -> Result<Self> {
        if let Some(format) = asked {
            return Ok(format);
        }
        let extension = file.and_then(Path::extension).and_then(OsStr::to_str);
        match (file, extension) {
            (_, Some("csv")) => Ok(Self::Csv),
            (_, Some("jsonl" | "ndjson" | "json")) | (None, _) => Ok(Self::Jsonl),
            (Some(file), _) => Err(usage(format!(
                "{} does not say its format: give --format csv or --format jsonl",
                file.display()
            ))),
        }
    }
}

/// What a field of a CSV is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    /// The row key.
    Row,
    /// A column, or in a list of what to dump as JSON a family.
    Column(Column),
    /// Nothing that is loaded.
    Skipped,
}

/// Reads `row`, `-` or a column.
fn field(text: &str) -> Result<Field, String> {
    match text {
        "row" => Ok(Field::Row),
        "-" => Ok(Field::Skipped),
        text => column(text).map(Field::Column),
    }
}

impl Field {
    fn text(&self) -> String {
        match self {
            Self::Row => "row".to_owned(),
            Self::Skipped => "-".to_owned(),
            Self::Column(column) => {
                let family = notation::to_text(&column.family);
                match &column.qualifier {
                    Some(qualifier) => format!("{family}:{}", notation::to_text(qualifier)),
                    None => family,
                }
            }
        }
    }
}

/// Checks what a CSV needs: the row key once, and columns with their qualifiers.
fn check_fields(fields: &[Field]) -> Result<()> {
    let rows = fields.iter().filter(|field| **field == Field::Row).count();
    if rows != 1 {
        return Err(usage(format!(
            "the columns of a CSV name the row key `row` once, not {rows} times"
        )));
    }
    for field in fields {
        if let Field::Column(Column {
            qualifier: None, ..
        }) = field
        {
            let family = field.text();
            return Err(usage(format!(
                "'{family}' is a family: a CSV has columns, as {family}:qualifier"
            )));
        }
    }
    if !fields.iter().any(|field| matches!(field, Field::Column(_))) {
        return Err(usage("a CSV needs a column beside the row key"));
    }
    Ok(())
}

/// A row as a line of JSON has it; `scan --json` writes the same.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRow {
    row: String,
    cells: Vec<JsonCell>,
}

/// A cell of it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonCell {
    column: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    value: String,
}

impl JsonRow {
    fn of(cells: &[Cell]) -> Option<Self> {
        Some(Self {
            row: notation::to_text(&cells.first()?.row),
            cells: cells
                .iter()
                .map(|cell| JsonCell {
                    column: column_text(cell),
                    timestamp: Some(cell.timestamp),
                    value: notation::to_text(&cell.value),
                })
                .collect(),
        })
    }
}

/// A file that cannot be read or written as it must be.
fn file_error(doing: &str, file: &Path, error: &std::io::Error) -> Error {
    let text = format!("{doing} {}: {error}", file.display());
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => usage(text),
        _ => Error::new(Code::Io, text),
    }
}

/// An error with how to go on behind it; its class, which decides the exit code, stays.
fn told(error: &Error, how: &str) -> Error {
    let new = Error::new(error.code(), format!("{}\n{how}", error.message()));
    match error.detail() {
        Some(detail) => new.with_detail(detail.clone()),
        None => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_name_tells_its_format() {
        let of = |name: &str| Format::of(None, Some(Path::new(name)));
        assert_eq!(of("a/b.csv").unwrap(), Format::Csv);
        assert_eq!(of("b.jsonl").unwrap(), Format::Jsonl);
        assert!(of("b.txt").is_err() && of("csv").is_err());
        let asked = Format::of(Some(Format::Csv), Some(Path::new("b.json")));
        assert_eq!(asked.unwrap(), Format::Csv);
        assert_eq!(Format::of(None, None).unwrap(), Format::Jsonl);
    }

    #[test]
    fn columns_of_a_csv_are_checked() {
        let fields = |list: &str| -> Vec<Field> {
            list.split(',').map(|text| field(text).unwrap()).collect()
        };
        for good in ["row,f:a", "f:a,row,-,f:", "row,row:x"] {
            let fields = fields(good);
            check_fields(&fields).unwrap();
            let texts: Vec<String> = fields.iter().map(Field::text).collect();
            assert_eq!(texts.join(","), good);
        }
        for bad in ["f:a", "row", "row,row,f:a", "row,f", "row,-"] {
            assert!(check_fields(&fields(bad)).is_err(), "{bad}");
        }
    }
}
