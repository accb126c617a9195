//! Templates of names: `table_{shard:4}_{day:2}`.

use super::raw::{At, Fault};
use crate::{
    limits,
    place::{Piece, Template, WIDTH_MAX},
    slot::Dimension,
};

/// Reads a template. All of its faults point at its beginning: inside a quoted text there may be escapes.
pub(crate) fn template(text: &At<String>, dimensions: &[Dimension]) -> Result<Template, Fault> {
    if text.it.len() > limits::NAME_BYTES_MAX {
        return Err(Fault::new(
            text.at,
            format!("a name longer than {} bytes", limits::NAME_BYTES_MAX),
        ));
    }
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text.it.as_str();
    while let Some(character) = rest.chars().next() {
        let doubled = rest.get(1..).is_some_and(|it| it.starts_with(character));
        match character {
            '{' | '}' if doubled => {
                plain.push(character);
                rest = &rest[2..];
            }
            '{' => {
                let (inner, after) = rest[1..].split_once('}').ok_or_else(|| {
                    Fault::new(text.at, "a { without its }").expecting(["}", "{{ for a brace"])
                })?;
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(coordinate(inner, text.at, dimensions)?);
                rest = after;
            }
            '}' => {
                return Err(Fault::new(text.at, "a } without its {").expecting(["}} for a brace"]));
            }
            _ => {
                plain.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(Template { pieces })
}

/// `shard / 256 % 4 + 1:2`
fn coordinate(inner: &str, at: usize, dimensions: &[Dimension]) -> Result<Piece, Fault> {
    let malformed = || {
        Fault::new(at, format!("{{{inner}}} is no coordinate")).expecting([
            "{dimension}",
            "{dimension / n}",
            "{dimension % n}",
            "{dimension + n}",
            "{dimension:digits}, in this order",
        ])
    };
    let (formula, width) = match inner.split_once(':') {
        Some((formula, width)) => (formula, width.trim().parse().map_err(|_| malformed())?),
        None => (inner, 0),
    };
    if width > WIDTH_MAX {
        return Err(malformed());
    }
    let name_end = formula.find(['/', '%', '+', '-']).unwrap_or(formula.len());
    let (name, mut rest) = formula.split_at(name_end);
    let name = name.trim();
    let dimension = dimensions
        .iter()
        .position(|it| it.name == name)
        .and_then(|it| u8::try_from(it).ok())
        .ok_or_else(|| {
            Fault::new(at, format!("there is no dimension {name}"))
                .expecting(dimensions.iter().map(|it| &it.name))
        })?;
    let (mut divide, mut modulo, mut add) = (1, 0, 0_i64);
    let mut stage = 0;
    while !rest.trim().is_empty() {
        rest = rest.trim_start();
        let sign = rest.as_bytes()[0];
        let end = rest[1..]
            .find(['/', '%', '+', '-'])
            .map_or(rest.len(), |it| it + 1);
        let number: u32 = rest[1..end].trim().parse().map_err(|_| malformed())?;
        let order = match sign {
            b'/' => 1,
            b'%' => 2,
            _ => 3,
        };
        if order <= stage || order < 3 && number == 0 {
            return Err(malformed());
        }
        stage = order;
        match sign {
            b'/' => divide = number,
            b'%' => modulo = number,
            b'+' => add = i64::from(number),
            _ => add = -i64::from(number),
        }
        rest = &rest[end..];
    }
    Ok(Piece::Coordinate {
        dimension,
        divide,
        modulo,
        add,
        width,
    })
}
