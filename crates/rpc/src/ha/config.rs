//! Hadoop's configuration files as keys and values that know where they came from (core-site.xml, hdfs-site.xml). Pure: `cli` reads the files.
//!
//! As in Hadoop: later files win, unless the earlier value was final; `${other.key}` is replaced. Unlike in Hadoop, what cannot be read is
//! an error that names key and file.

use std::collections::BTreeMap;
use std::time::Duration;

use cadastre_types::{Error, Result};

/// Largest file, bytes; Hadoop's own defaults are a tenth of it.
const FILE_MAX: usize = 4 * 1024 * 1024;

/// Nodes of an XML tree; each takes some memory.
const NODES_MAX: u32 = 200_000;

/// `${…}` inside of `${…}`, as in Hadoop.
const SUBSTITUTIONS_MAX: usize = 20;

/// Longest value after all substitutions, bytes.
const VALUE_MAX: usize = 64 * 1024;

#[derive(Debug, Clone)]
struct Value {
    text: String,
    file: String,
    is_final: bool,
}

/// A configuration.
#[derive(Debug, Clone, Default)]
pub struct Conf {
    values: BTreeMap<String, Value>,
    warnings: Vec<String>,
}

impl Conf {
    /// Takes the properties of a file on top of those there are.
    ///
    /// # Errors
    /// If the file is no configuration; says which file, and where in it.
    pub fn read(&mut self, file: &str, xml: &str) -> Result<()> {
        let bad = |why: String| Error::invalid(format!("{file}: {why}"));
        if xml.len() > FILE_MAX {
            return Err(bad(format!("{} bytes are over {FILE_MAX}", xml.len())));
        }
        let options = roxmltree::ParsingOptions {
            nodes_limit: NODES_MAX,
            ..Default::default()
        };
        let tree = roxmltree::Document::parse_with_options(xml, options)
            .map_err(|error| bad(error.to_string()))?;
        let root = tree.root_element();
        if root.tag_name().name() != "configuration" {
            let name = root.tag_name().name();
            return Err(bad(format!("<{name}> in place of <configuration>")));
        }
        for node in root.children().filter(roxmltree::Node::is_element) {
            match node.tag_name().name() {
                "property" => self.property(file, node)?,
                "include" => {
                    return Err(bad(
                        "xi:include is not supported; give both files by name".to_owned()
                    ));
                }
                other => return Err(bad(format!("<{other}> in place of <property>"))),
            }
        }
        Ok(())
    }

    fn property(&mut self, file: &str, node: roxmltree::Node<'_, '_>) -> Result<()> {
        let child = |name: &str| {
            (node
                .children()
                .find(|child| child.tag_name().name() == name))
            .map(|child| child.text().unwrap_or_default().trim())
            .or_else(|| node.attribute(name))
        };
        let Some(name) = child("name").filter(|name| !name.is_empty()) else {
            // Counts from the file's beginning: not for every property.
            let line = node.document().text_pos_at(node.range().start).row;
            let text = format!("{file}: the property in line {line} has no name");
            return Err(Error::invalid(text));
        };
        let Some(text) = child("value") else {
            // As in Hadoop: a property without a value is none.
            return Ok(());
        };
        if let Some(before) = self.values.get(name).filter(|before| before.is_final) {
            if before.text != text {
                self.warnings.push(format!(
                    "{name} in {file} does not count: it is final in {}",
                    before.file
                ));
            }
            return Ok(());
        }
        let is_final = child("final") == Some("true");
        self.put(name, text, file, is_final);
        Ok(())
    }

    /// Sets a value, whatever was there. `from` says where it came from, for messages.
    pub fn set(&mut self, key: &str, value: &str, from: &str) {
        self.put(key, value, from, false);
    }

    fn put(&mut self, key: &str, text: &str, file: &str, is_final: bool) {
        let value = Value {
            text: text.to_owned(),
            file: file.to_owned(),
            is_final,
        };
        self.values.insert(key.to_owned(), value);
    }

    /// What Hadoop would only log.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds such a line.
    pub fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    /// Key and file, for messages.
    pub fn origin(&self, key: &str) -> String {
        match self.values.get(key) {
            Some(value) => format!("{key} in {}", value.file),
            None => format!("{key} (not set)"),
        }
    }

    /// A value, with what it refers to put in its place.
    ///
    /// # Errors
    /// If it refers to itself, to too many others, or grows too long.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        let Some(value) = self.values.get(key) else {
            return Ok(None);
        };
        let mut text = value.text.clone();
        for _ in 0..SUBSTITUTIONS_MAX {
            let Some(replaced) = self.substitute(&text) else {
                return Ok(Some(text));
            };
            if replaced.len() > VALUE_MAX {
                break;
            }
            text = replaced;
        }
        Err(Error::invalid(format!(
            "{}: '{}' refers to itself, or to too much",
            self.origin(key),
            value.text
        )))
    }

    /// Replaces the first reference that has a value; others stay as they are, as in Hadoop.
    fn substitute(&self, text: &str) -> Option<String> {
        let mut from = 0;
        while let Some(start) = text[from..].find("${") {
            let start = from + start;
            let end = start + text[start..].find('}')?;
            if let Some(value) = self.values.get(&text[start + 2..end]) {
                return Some([&text[..start], &value.text, &text[end + 1..]].concat());
            }
            from = end;
        }
        None
    }

    fn parsed<T>(
        &self,
        key: &str,
        what: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.get(key)? else {
            return Ok(None);
        };
        match parse(text.trim()) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::invalid(format!(
                "{}: '{text}' is not {what}",
                self.origin(key)
            ))),
        }
    }

    /// A whole number from 0 on.
    ///
    /// # Errors
    /// If it is something else.
    pub fn number(&self, key: &str) -> Result<Option<u64>> {
        self.parsed(key, "a whole number from 0 on", |text| {
            match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        })
    }

    /// A number that fits into 32 bits.
    ///
    /// # Errors
    /// If it is something else.
    pub fn small(&self, key: &str) -> Result<Option<u32>> {
        match self.number(key)?.map(u32::try_from).transpose() {
            Ok(number) => Ok(number),
            Err(_) => Err(Error::invalid(format!("{}: too large", self.origin(key)))),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.parsed(key, "true or false", |text| match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// A time with Hadoop's units (`10s`, `500ms`); without one, ms. `Ok(Some(None))`: negative, which means switched off.
    ///
    /// # Errors
    /// If it is something else.
    pub fn time(&self, key: &str) -> Result<Option<Option<Duration>>> {
        self.parsed(key, "a time such as 500, 500ms, 10s", parse_time)
    }

    /// Words between commas, without those that are empty.
    ///
    /// # Errors
    /// See [`Conf::get`].
    pub fn list(&self, key: &str) -> Result<Vec<String>> {
        let text = self.get(key)?.unwrap_or_default();
        let words = text.split(',').map(str::trim);
        Ok(words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect())
    }

    /// The rest of each key that begins so.
    pub fn suffixes<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        (self.values.range(prefix.to_owned()..)).map_while(move |(key, _)| key.strip_prefix(prefix))
    }
}

fn parse_time(text: &str) -> Option<Option<Duration>> {
    let digits = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let number: i64 = text[..digits].trim().parse().ok()?;
    let Ok(number) = u64::try_from(number) else {
        return Some(None);
    };
    let nanos_each: u64 = match &text[digits..] {
        "ns" => 1,
        "us" => 1000,
        "" | "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    Some(Some(Duration::from_nanos(number.checked_mul(nanos_each)?)))
}

#[cfg(test)]
mod tests;
