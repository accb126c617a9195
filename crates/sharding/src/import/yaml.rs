//! YAML as a tree with lines, bounded in depth and size; aliases, which can multiply a document, are refused.
//!
//! Must not know what the document says.

use saphyr_parser::{Event, Parser};

use super::{ImportError, limits};

/// A value and the line it begins in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Yaml {
    pub(super) line: u32,
    /// `SHARDING` of `!SHARDING`.
    pub(super) tag: Option<String>,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Scalar(String),
    List(Vec<Yaml>),
    /// In the document's order; keys are scalars and different.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// The value of a key; `None` if there is none, or this is no map.
    pub(super) fn get(&self, key: &str) -> Option<&Yaml> {
        self.entries()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The entries of a map; none of anything else.
    pub(super) fn entries(&self) -> &[(String, Yaml)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Result<&str, ImportError> {
        match &self.value {
            Value::Scalar(text) => Ok(text),
            _ => Err(ImportError::new(
                self.line,
                "a plain value is expected here",
            )),
        }
    }

    /// The text of a key's scalar.
    pub(super) fn text_of(&self, key: &str) -> Result<&str, ImportError> {
        self.get(key)
            .ok_or_else(|| ImportError::new(self.line, format!("'{key}' is missing")))?
            .text()
    }
}

/// A collection that is not closed yet.
struct Open {
    yaml: Yaml,
    /// The key whose value comes next.
    key: Option<String>,
}

/// Reads the first document of a text.
pub(super) fn parse(text: &str) -> Result<Yaml, ImportError> {
    let mut open: Vec<Open> = Vec::new();
    let mut nodes = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|fault| {
            ImportError::new(line_of(fault.marker().line()), format!("no YAML: {fault}"))
        })?;
        let line = line_of(span.start.line());
        let (tag, value, is_closed) = match event {
            Event::Scalar(text, _, _, tag) => (tag, Value::Scalar(text.into_owned()), true),
            Event::SequenceStart(_, tag) => (tag, Value::List(Vec::new()), false),
            Event::MappingStart(_, tag) => (tag, Value::Map(Vec::new()), false),
            Event::SequenceEnd | Event::MappingEnd => {
                // The parser pairs starts and ends.
                if let Some(done) = open.pop()
                    && let Some(root) = place(&mut open, done.yaml)?
                {
                    return Ok(root);
                }
                continue;
            }
            Event::Alias(_) => {
                return Err(ImportError::new(
                    line,
                    "an alias (*name) cannot be imported",
                ));
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => continue,
        };
        nodes += 1;
        if nodes > limits::NODES_MAX || open.len() >= limits::DEPTH_MAX {
            let message = format!(
                "more than {} values, or deeper than {}",
                limits::NODES_MAX,
                limits::DEPTH_MAX
            );
            return Err(ImportError::new(line, message));
        }
        let tag = tag.map(|tag| tag.suffix.clone());
        let yaml = Yaml { line, tag, value };
        if !is_closed {
            open.push(Open { yaml, key: None });
        } else if let Some(root) = place(&mut open, yaml)? {
            return Ok(root);
        }
    }
    Err(ImportError::new(1, "the document is empty"))
}

/// Puts a whole value where it belongs; gives it back if it is the document itself.
fn place(open: &mut [Open], yaml: Yaml) -> Result<Option<Yaml>, ImportError> {
    let Some(parent) = open.last_mut() else {
        return Ok(Some(yaml));
    };
    match &mut parent.yaml.value {
        Value::List(items) => items.push(yaml),
        Value::Map(entries) => match parent.key.take() {
            Some(key) => entries.push((key, yaml)),
            None => {
                let key = yaml.text()?.to_owned();
                if entries.iter().any(|(name, _)| *name == key) {
                    return Err(ImportError::new(
                        yaml.line,
                        format!("the key '{key}' stands there twice"),
                    ));
                }
                parent.key = Some(key);
            }
        },
        Value::Scalar(_) => {}
    }
    Ok(None)
}

fn line_of(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}
