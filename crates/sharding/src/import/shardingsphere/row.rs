//! Row expressions: `ds_${0..1}.t_${['a', 'b']}` as lists of names, `ds_${user_id % 2}` as a name by rule.
//!
//! Must not know of algorithms.

use crate::import::translate::{Alternative, Piece, Translator};
use crate::import::{ImportError, groovy, limits};

/// A part of a row expression: text, or what stands between `${` (or `$->{`) and `}`.
enum Part<'a> {
    Text(&'a str),
    Code(&'a str),
}

fn parts(line: u32, text: &str) -> Result<Vec<Part<'_>>, ImportError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, code) = rest.split_at(at);
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        let inner = code
            .strip_prefix("${")
            .or_else(|| code.strip_prefix("$->{"))
            .ok_or_else(|| ImportError::new(line, "a '$' that begins no expression"))?;
        let (inner, after) = inner
            .split_once('}')
            .ok_or_else(|| ImportError::new(line, "an expression without its '}'"))?;
        parts.push(Part::Code(inner));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    Ok(parts)
}

/// All names that a list of row expressions stands for.
pub(super) fn expand(line: u32, text: &str) -> Result<Vec<String>, ImportError> {
    let mut all = Vec::new();
    for one in split(text) {
        let mut names = vec![String::new()];
        for part in parts(line, one.trim())? {
            let choices = match part {
                Part::Text(text) => vec![text.to_owned()],
                Part::Code(code) => choices(line, code.trim())?,
            };
            if names.len() * choices.len() > limits::NAMES_MAX {
                let message = format!("'{one}' stands for more than {} names", limits::NAMES_MAX);
                return Err(ImportError::new(line, message));
            }
            names = names
                .iter()
                .flat_map(|name| choices.iter().map(move |choice| format!("{name}{choice}")))
                .collect();
        }
        all.extend(names);
        if all.len() > limits::NAMES_MAX {
            let message = format!("more than {} names", limits::NAMES_MAX);
            return Err(ImportError::new(line, message));
        }
    }
    Ok(all)
}

/// At commas outside of braces and brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut all) = (0_u32, 0, Vec::new());
    for (at, it) in text.char_indices() {
        match it {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                all.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[from..]);
    all
}

/// `0..3`, or `['a', 'b']`.
fn choices(line: u32, code: &str) -> Result<Vec<String>, ImportError> {
    let fault = || {
        ImportError::new(
            line,
            format!("'{code}' is neither a range such as 0..3 nor a list such as ['a', 'b']"),
        )
    };
    if let Some(list) = code.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        return Ok(list
            .split(',')
            .map(|item| item.trim().trim_matches(['\'', '"']).to_owned())
            .collect());
    }
    let (first, last) = code.split_once("..").ok_or_else(fault)?;
    let first: u32 = first.trim().parse().map_err(|_| fault())?;
    let last: u32 = last.trim().parse().map_err(|_| fault())?;
    let fits = first <= last && ((last - first) as usize) < limits::NAMES_MAX;
    if !fits {
        return Err(fault());
    }
    Ok((first..=last).map(|it| it.to_string()).collect())
}

/// The name that an inline expression makes of columns.
pub(super) fn names(
    translator: &mut Translator<'_>,
    line: u32,
    text: &str,
) -> Result<Vec<Alternative>, ImportError> {
    let mut all = vec![Alternative {
        condition: None,
        pieces: Vec::new(),
    }];
    for part in parts(line, text)? {
        let next = match part {
            Part::Text(text) => vec![Alternative {
                condition: None,
                pieces: vec![Piece::Text(text.to_owned())],
            }],
            Part::Code(code) => translator.names(&groovy::parse(code, line)?)?,
        };
        if all.len() > 1 && next.len() > 1 {
            return Err(ImportError::new(
                line,
                "two conditionals in one name cannot be imported",
            ));
        }
        all = all
            .iter()
            .flat_map(|name| {
                next.iter().map(move |more| Alternative {
                    condition: name.condition.clone().or_else(|| more.condition.clone()),
                    pieces: [name.pieces.as_slice(), more.pieces.as_slice()].concat(),
                })
            })
            .collect();
    }
    Ok(all)
}
