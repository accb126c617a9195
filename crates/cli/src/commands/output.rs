//! Printing: text for people, JSON for programs. The first failed write is kept and ends the command's printing.

use std::io::{self, BufWriter, Write};

use cadastre_client::notation;
use cadastre_types::{Cell, Error, Result};
use serde_json::{Value, json};

/// Where answers go.
pub(super) struct Output<'a> {
    out: BufWriter<&'a mut (dyn Write + Send)>,
    json: bool,
    failed: Option<io::Error>,
}

impl<'a> Output<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), json: bool) -> Self {
        Self {
            out: BufWriter::new(out),
            json,
            failed: None,
        }
    }

    /// Whether JSON is wanted.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether nobody takes the output any more.
    pub(super) fn is_broken(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes a line.
    pub(super) fn line(&mut self, line: impl std::fmt::Display) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{line}").err();
        }
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// The first failure of all writes.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.failed.is_none() {
            self.failed = self.out.write_all(bytes).err();
        }
        match &self.failed {
            // The error itself is kept for the end.
            Some(error) => Err(error.kind().into()),
            None => Ok(()),
        }
    }

    /// Writes the text or the JSON value, whichever is wanted.
    pub(super) fn answer(&mut self, text: impl std::fmt::Display, value: impl FnOnce() -> Value) {
        if self.json {
            self.line(value());
        } else {
            self.line(text);
        }
    }

    /// Writes rows of text with aligned columns.
    pub(super) fn table(&mut self, rows: &[Vec<String>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|text| text.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in rows {
            let mut line = String::new();
            for (column, text) in row.iter().enumerate() {
                line.push_str(text);
                // The last column needs no padding.
                if column + 1 < row.len() {
                    let padding = widths[column] - text.chars().count() + 2;
                    line.extend(std::iter::repeat_n(' ', padding));
                }
            }
            self.line(line);
        }
    }

    /// Hands over what is buffered so far, for whoever follows.
    pub(super) fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
    }

    /// Hands over what is still buffered.
    ///
    /// # Errors
    /// The first failure of all writes.
    pub(super) fn end(mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

/// `family:qualifier` in HBase's notation.
pub(super) fn column_text(cell: &Cell) -> String {
    let (family, qualifier) = (
        notation::to_text(&cell.family),
        notation::to_text(&cell.qualifier),
    );
    format!("{family}:{qualifier}")
}

/// A cell as JSON.
pub(super) fn cell_json(cell: &Cell) -> Value {
    json!({
        "column": column_text(cell),
        "timestamp": cell.timestamp,
        "value": notation::to_text(&cell.value),
    })
}

/// A row as JSON.
pub(super) fn row_json(cells: &[Cell]) -> Value {
    json!({
        "row": cells.first().map(|cell| notation::to_text(&cell.row)),
        "cells": cells.iter().map(cell_json).collect::<Vec<_>>(),
    })
}

/// A number of things.
pub(super) fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Seconds and rate in few digits, for progress and summaries.
pub(super) fn rate(rows: u64, seconds: f64) -> String {
    let counted = counted(rows, "row");
    // Of so short a time no rate can be told.
    if seconds < 0.1 {
        return format!("{counted}, {:.0} ms", seconds * 1000.0);
    }
    format!(
        "{counted}, {seconds:.1} s, {:.0} rows/s",
        rows as f64 / seconds
    )
}

/// A time in milliseconds as the cell's timestamp says it.
pub(super) fn timestamp_argument(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(timestamp) if timestamp >= 0 => Ok(timestamp),
        _ => Err(format!(
            "'{text}' is not a timestamp in milliseconds since 1970"
        )),
    }
}

/// An error that is the user's to correct.
pub(super) fn usage(text: impl Into<String>) -> Error {
    Error::invalid(text)
}
