//! Puts a rule's text together: dimensions for the numbers in names, one line of places for each combination of names.
//!
//! Must not know of the systems that rules are imported from.

use std::fmt::Write as _;

use super::translate::{Alternative, Number, Piece, Translator, quoted};
use super::{ImportError, Imported};

/// One dimension: name, expression, bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) expression: String,
    pub(super) low: i64,
    pub(super) high: i64,
}

/// How the databases, or the tables, are named: by dimensions of their own, in spans of slots with a template each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Naming {
    pub(super) axes: Vec<Axis>,
    pub(super) spans: Vec<Span>,
}

/// A span of slots and their names' template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// One (first, last) for each axis of the naming.
    pub(super) slots: Vec<(i64, i64)>,
    pub(super) template: String,
}

/// Most slots of one rule, as our language has it.
const SLOTS_MAX: i128 = 1 << 20;

impl Naming {
    /// A name that is always the same.
    pub(super) fn constant(name: &str) -> Self {
        Self {
            axes: Vec::new(),
            spans: vec![Span {
                slots: Vec::new(),
                template: escaped(name),
            }],
        }
    }

    /// From names by alternatives; `prefix` begins the names of the dimensions.
    pub(super) fn new(
        prefix: &str,
        line: u32,
        alternatives: &[Alternative],
    ) -> Result<Self, ImportError> {
        match alternatives {
            [only] => Self::single(prefix, line, only),
            _ => Self::several(prefix, line, alternatives),
        }
    }

    fn single(prefix: &str, line: u32, only: &Alternative) -> Result<Self, ImportError> {
        let mut naming = Self::default();
        let mut template = String::new();
        for piece in &only.pieces {
            match piece {
                Piece::Text(text) => template.push_str(&escaped(text)),
                Piece::Number(number, written) => {
                    let name = match naming.axes.len() {
                        0 => prefix.to_owned(),
                        n => format!("{prefix}{}", n + 1),
                    };
                    let (low, high) = bounds(line, number)?;
                    template.push_str(&written.replace('@', &name));
                    naming.axes.push(Axis {
                        name,
                        expression: number.text.clone(),
                        low,
                        high,
                    });
                }
            }
        }
        naming.spans.push(Span {
            slots: naming.axes.iter().map(|it| (it.low, it.high)).collect(),
            template,
        });
        Ok(naming)
    }

    /// All alternatives on one dimension, one behind the other.
    fn several(prefix: &str, line: u32, alternatives: &[Alternative]) -> Result<Self, ImportError> {
        let mut spans = Vec::new();
        let mut expressions = Vec::new();
        let mut next = 0_i64;
        for alternative in alternatives {
            let (number, template) = one_number(line, alternative)?;
            let (low, high) = match &number {
                Some(number) => bounds(line, number)?,
                None => (0, 0),
            };
            let (first, last) = (next, next + (high - low));
            let shift = low - first;
            spans.push(Span {
                slots: vec![(first, last)],
                template: template.replace("@", &shifted(prefix, shift)),
            });
            expressions.push(match number {
                None => first.to_string(),
                Some(number) => match -shift {
                    0 => number.text,
                    up @ 1.. => format!("{} + {up}", number.text),
                    down => format!("{} - {}", number.text, -down),
                },
            });
            next = last + 1;
        }
        let mut expression = expressions.pop().unwrap_or_default();
        for (alternative, text) in alternatives.iter().zip(&expressions).rev() {
            let condition = alternative.condition.as_deref().unwrap_or("true");
            expression = format!("(if {condition} then {text} else {expression})");
        }
        Ok(Self {
            axes: vec![Axis {
                name: prefix.to_owned(),
                expression,
                low: 0,
                high: next - 1,
            }],
            spans,
        })
    }
}

/// `@` of a template in terms of the dimension's own coordinate.
fn shifted(name: &str, shift: i64) -> String {
    match shift {
        0 => name.to_owned(),
        1.. => format!("{name} + {shift}"),
        _ => format!("{name} - {}", -shift),
    }
}

/// The only number of an alternative, and its name's template.
fn one_number(
    line: u32,
    alternative: &Alternative,
) -> Result<(Option<Number>, String), ImportError> {
    let mut found = None;
    let mut template = String::new();
    for piece in &alternative.pieces {
        match piece {
            Piece::Text(text) => template.push_str(&escaped(text)),
            Piece::Number(number, written) => {
                let is_plain = written == "{@}" || written.starts_with("{@:");
                if !is_plain || found.replace(number.clone()).is_some() {
                    return Err(ImportError::new(
                        line,
                        "a name with several numbers in one of several alternatives cannot be imported",
                    ));
                }
                template.push_str(written);
            }
        }
    }
    Ok((found, template))
}

fn bounds(line: u32, number: &Number) -> Result<(i64, i64), ImportError> {
    let unbounded = || {
        ImportError::new(
            line,
            format!(
                "{} has no bounds that a number of tables could have",
                number.text
            ),
        )
    };
    if number.high - number.low >= SLOTS_MAX {
        return Err(unbounded());
    }
    let low = i64::try_from(number.low).map_err(|_| unbounded())?;
    let high = i64::try_from(number.high).map_err(|_| unbounded())?;
    Ok((low, high))
}

/// Text in a template: braces are doubled.
pub(super) fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// The rule's text.
pub(super) fn rule(
    source: &str,
    line: u32,
    table: &str,
    mut translator: Translator<'_>,
    databases: Option<&Naming>,
    tables: &Naming,
    definitions: &str,
) -> Result<Imported, ImportError> {
    let zone = translator.options.zone.clone();
    if translator.uses_zone && zone.is_none() {
        translator.warn(
            line,
            format!("{source} counts days in the time zone of each machine (B1, defect 1); here in UTC unless a zone is given"),
        );
    }
    let empty = Naming::default();
    let database = databases.unwrap_or(&empty);
    let axes: Vec<&Axis> = database.axes.iter().chain(&tables.axes).collect();
    let slots = axes.iter().fold(1_i128, |all, axis| {
        all.saturating_mul(i128::from(axis.high - axis.low) + 1)
    });
    if slots > SLOTS_MAX {
        return Err(ImportError::new(
            line,
            format!("the table '{table}' has more than {SLOTS_MAX} slots"),
        ));
    }
    let name = rule_name(line, table)?;
    let mut text = format!("# The table {name}, imported from {source}.\n");
    for warning in &translator.warnings {
        // To a String nothing can fail.
        let _ = writeln!(
            text,
            "# Line {}: {}.",
            warning.line,
            warning.message.replace('\n', " ")
        );
    }
    let _ = writeln!(text, "rule {name} version 1;");
    if translator.uses_zone {
        let _ = writeln!(text, "zone {};", quoted(zone.as_deref().unwrap_or("UTC")));
    }
    for (column, ty) in &translator.columns {
        let _ = writeln!(text, "field {column}: {};", ty.name());
    }
    if axes.is_empty() {
        text.push_str("dimension only 0 to 0;\n");
    }
    for axis in &axes {
        let _ = writeln!(
            text,
            "dimension {} {} to {};",
            axis.name, axis.low, axis.high
        );
    }
    text.push_str(definitions);
    let expressions: Vec<&str> = axes.iter().map(|axis| axis.expression.as_str()).collect();
    let slot = if axes.is_empty() {
        "0".to_owned()
    } else {
        expressions.join(", ")
    };
    let _ = writeln!(text, "else ({slot});");
    places(&mut text, database, tables, databases.is_some());
    Ok(Imported {
        table: table.to_owned(),
        text,
        warnings: translator.warnings,
    })
}

fn places(text: &mut String, databases: &Naming, tables: &Naming, has_databases: bool) {
    let no_span = [Span {
        slots: Vec::new(),
        template: String::new(),
    }];
    let outer = if has_databases {
        databases.spans.as_slice()
    } else {
        &no_span
    };
    let all = outer.len() == 1 && tables.spans.len() == 1;
    for database in outer {
        for table in &tables.spans {
            text.push_str("place ");
            if !all {
                let spans = database.slots.iter().chain(&table.slots);
                let spans: Vec<String> = spans.map(|it| format!("{} to {}", it.0, it.1)).collect();
                let _ = write!(text, "({}) ", spans.join(", "));
            }
            if has_databases {
                let _ = write!(text, "cluster {} ", quoted(&database.template));
            }
            let _ = writeln!(text, "table {};", quoted(&table.template));
        }
    }
}

fn rule_name(line: u32, table: &str) -> Result<String, ImportError> {
    let fits = table.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && table
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits {
        Ok(table.to_owned())
    } else {
        Err(ImportError::new(
            line,
            format!("the table '{table}' has no name that a rule can have"),
        ))
    }
}
