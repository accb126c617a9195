//! ShardingSphere's algorithms: which number, or which name, they give.
//!
//! Must not know of tables.

use std::fmt::Write as _;

use crate::function::Zone;
use crate::function::calendar::{self, Date};
use crate::import::emit::Naming;
use crate::import::translate::{Alternative, ColumnType, Number, Piece, Translator};
use crate::import::yaml::Yaml;
use crate::import::{ImportError, limits};

use super::integer;

/// An algorithm's type and its properties.
pub(super) struct Algorithm<'a> {
    pub(super) kind: String,
    line: u32,
    props: Option<&'a Yaml>,
}

impl<'a> Algorithm<'a> {
    pub(super) fn read(of: &'a Yaml) -> Result<Self, ImportError> {
        Ok(Self {
            kind: of.text_of("type")?.to_ascii_uppercase(),
            line: of.line,
            props: of.get("props"),
        })
    }

    fn prop(&self, key: &str) -> Result<&'a str, ImportError> {
        match self.props {
            Some(props) => props.text_of(key),
            None => Err(ImportError::new(
                self.line,
                format!("the algorithm {} has no props", self.kind),
            )),
        }
    }

    fn prop_or(&self, key: &str, default: &'a str) -> Result<&'a str, ImportError> {
        match self.props.and_then(|props| props.get(key)) {
            Some(value) => value.text(),
            None => Ok(default),
        }
    }

    fn number_prop(&self, key: &str) -> Result<i64, ImportError> {
        let text = self.prop(key)?;
        text.trim().parse().map_err(|_| {
            ImportError::new(self.line, format!("'{key}' is '{text}', no whole number"))
        })
    }

    fn fault(&self, message: impl Into<String>) -> ImportError {
        ImportError::new(self.line, message)
    }

    /// The line and text of an inline expression, if it is one.
    pub(super) fn inline(&self) -> Result<Option<(u32, &'a str)>, ImportError> {
        if !matches!(self.kind.as_str(), "INLINE" | "COMPLEX_INLINE") {
            return Ok(None);
        }
        let text = self.prop("algorithm-expression")?;
        let line = self
            .props
            .and_then(|props| props.get("algorithm-expression"))
            .map_or(self.line, |it| it.line);
        Ok(Some((line, text)))
    }

    /// The number of an algorithm that numbers its tables from 0; a table of bounds goes into `definitions`.
    pub(super) fn number(
        &self,
        translator: &mut Translator<'_>,
        definitions: &mut String,
        column: &str,
        name: &str,
    ) -> Result<Number, ImportError> {
        match self.kind.as_str() {
            "MOD" | "HASH_MOD" => self.modulo(translator, column),
            "VOLUME_RANGE" => {
                let (low, high) = (
                    self.number_prop("range-lower")?,
                    self.number_prop("range-upper")?,
                );
                let volume = self.number_prop("sharding-volume")?;
                let bounds = self.bounds(low, high, volume)?;
                let column = integer(translator, self.line, column)?;
                let bounds = bounds.iter().map(i64::to_string).collect();
                Ok(ranges(definitions, name, "i64", &column, bounds))
            }
            "BOUNDARY_RANGE" => {
                let bounds = self.prop("sharding-ranges")?.split(',').map(|text| {
                    text.trim()
                        .parse::<i64>()
                        .map_err(|_| self.fault(format!("the bound '{text}' is no whole number")))
                });
                let bounds: Vec<i64> = bounds.collect::<Result<_, _>>()?;
                if bounds.windows(2).any(|pair| pair[0] >= pair[1]) {
                    return Err(self.fault("the bounds of sharding-ranges do not rise"));
                }
                let column = integer(translator, self.line, column)?;
                let bounds = bounds.iter().map(i64::to_string).collect();
                Ok(ranges(definitions, name, "i64", &column, bounds))
            }
            "AUTO_INTERVAL" => self.auto_interval(translator, definitions, column, name),
            other => Err(self.fault(format!("the algorithm {other} cannot be imported"))),
        }
    }

    fn modulo(&self, translator: &mut Translator<'_>, column: &str) -> Result<Number, ImportError> {
        let count = self.number_prop("sharding-count")?;
        if count < 1 {
            return Err(self.fault("sharding-count must be above 0"));
        }
        for unknown in ["start-offset", "stop-offset"] {
            if self.prop_or(unknown, "0")?.trim() != "0" {
                return Err(self.fault(format!("'{unknown}' cannot be imported")));
            }
        }
        let text = if self.kind == "MOD" {
            format!("({} % {count})", integer(translator, self.line, column)?)
        } else if translator.options.integers.contains(column) {
            translator.warn(
                self.line,
                format!("'{column}' is hashed as Java's Long; an Integer's hash differs where it is negative"),
            );
            format!(
                "(abs(java_hash({})) % {count})",
                integer(translator, self.line, column)?
            )
        } else {
            translator.warn(
                self.line,
                format!(
                    "'{column}' is hashed as text; if it is a number, say so (--integer {column})"
                ),
            );
            let column = translator.column(self.line, column, ColumnType::Text)?;
            format!("(abs(java_hash({column})) % {count})")
        };
        Ok(Number::of(text, 0, i128::from(count) - 1))
    }

    /// The bounds from `low` on in steps, `high` being the last; as many as tables are allowed.
    fn bounds(&self, low: i64, high: i64, step: i64) -> Result<Vec<i64>, ImportError> {
        let span = i128::from(high) - i128::from(low);
        if step < 1 || span < 1 || span / i128::from(step) >= limits::NAMES_MAX as i128 {
            return Err(self.fault(format!(
                "the bounds {low} to {high} in steps of {step} are no tables, or too many"
            )));
        }
        let mut bounds = Vec::new();
        let mut next = low;
        while next < high {
            bounds.push(next);
            match next.checked_add(step) {
                Some(after) => next = after,
                None => break,
            }
        }
        bounds.push(high);
        Ok(bounds)
    }

    fn zone(&self, translator: &mut Translator<'_>) -> Result<Zone, ImportError> {
        translator.uses_zone = true;
        let name = translator.options.zone.as_deref().unwrap_or("UTC");
        Zone::load(name).map_err(|fault| self.fault(fault.to_string()))
    }

    fn auto_interval(
        &self,
        translator: &mut Translator<'_>,
        definitions: &mut String,
        column: &str,
        name: &str,
    ) -> Result<Number, ImportError> {
        let zone = self.zone(translator)?;
        let moment = |key| Ok::<_, ImportError>(zone.earliest(self.local(self.prop(key)?)?));
        let (low, high) = (moment("datetime-lower")?, moment("datetime-upper")?);
        let step = self.number_prop("sharding-seconds")?;
        let bounds = self.bounds(low, high, step)?;
        let column = translator.column(self.line, column, ColumnType::Time)?;
        let bounds = bounds
            .iter()
            .map(|it| format!("timestamp \"{}\"", utc(*it)))
            .collect();
        Ok(ranges(definitions, name, "timestamp", &column, bounds))
    }

    /// `yyyy-MM-dd HH:mm:ss`, seconds since 1970 by the local clock.
    fn local(&self, text: &str) -> Result<i64, ImportError> {
        let fault = || self.fault(format!("'{text}' is no time such as 2020-01-31 00:00:00"));
        let numbers: Vec<i64> = text
            .trim()
            .split(['-', ' ', ':', 'T'])
            .map(|it| it.parse().map_err(|_| fault()))
            .collect::<Result<_, _>>()?;
        let (date, clock) = match numbers.as_slice() {
            [year, month, day] => ([*year, *month, *day], 0),
            [year, month, day, hour, minute, second]
                if (0..24).contains(hour)
                    && (0..60).contains(minute)
                    && (0..60).contains(second) =>
            {
                ([*year, *month, *day], hour * 3_600 + minute * 60 + second)
            }
            _ => return Err(fault()),
        };
        let [year, month, day] = date;
        if !(1..=9999).contains(&year) || !(1..=31).contains(&day) {
            return Err(fault());
        }
        let days = calendar::day_of(Date { year, month, day }).map_err(|_| fault())?;
        Ok(days * 86_400 + clock)
    }

    /// Names that end in a date.
    pub(super) fn interval(
        &self,
        translator: &mut Translator<'_>,
        column: &str,
        prefix: &str,
        names: &[String],
    ) -> Result<Naming, ImportError> {
        self.zone(translator)?;
        if self.prop_or("datetime-interval-amount", "1")?.trim() != "1" {
            return Err(self.fault("'datetime-interval-amount' other than 1 cannot be imported"));
        }
        let pattern = self.prop("sharding-suffix-pattern")?;
        let unit = self
            .prop_or("datetime-interval-unit", "DAYS")?
            .to_ascii_uppercase();
        let first = self.local(self.prop("datetime-lower")?)?;
        let last = match self.props.and_then(|props| props.get("datetime-upper")) {
            Some(upper) => self.local(upper.text()?)?,
            // Without an upper bound the original goes on until now.
            None => {
                let (_, year) = translator.years(self.line, "INTERVAL without datetime-upper")?;
                self.local(&format!("{year}-12-31"))?
            }
        };
        let (first, last) = (
            calendar::date_of(first.div_euclid(86_400)),
            calendar::date_of(last.div_euclid(86_400)),
        );
        let column = translator.column(self.line, column, ColumnType::Time)?;
        let pieces = self.dated(pattern, &unit, &column, first, last)?;
        let stem = self.stem(names, pattern)?;
        let pieces = [vec![Piece::Text(stem)], pieces].concat();
        Naming::new(
            prefix,
            self.line,
            &[Alternative {
                condition: None,
                pieces,
            }],
        )
    }

    /// What the names have in front of the date; they are checked to be as long as the pattern says.
    fn stem(&self, names: &[String], pattern: &str) -> Result<String, ImportError> {
        let name = names
            .first()
            .ok_or_else(|| self.fault("there are no names"))?;
        name.len()
            .checked_sub(pattern.len())
            .and_then(|at| name.get(..at))
            .map(str::to_owned)
            .ok_or_else(|| self.fault(format!("'{name}' does not end as '{pattern}' says")))
    }

    fn dated(
        &self,
        pattern: &str,
        unit: &str,
        column: &str,
        first: Date,
        last: Date,
    ) -> Result<Vec<Piece>, ImportError> {
        let number = |text: &str, low: i64, high: i64| {
            Number::of(format!("{text}({column})"), low.into(), high.into())
        };
        let separator = |text: &str| match text {
            "" => Vec::new(),
            text => vec![Piece::Text(text.to_owned())],
        };
        let Some(rest) = pattern.strip_prefix("yyyy") else {
            return Err(self.fault(format!("the pattern '{pattern}' cannot be imported")));
        };
        if rest.is_empty() && unit == "YEARS" {
            let years = number("year", first.year, last.year);
            return Ok(vec![Piece::Number(years, "{@:4}".to_owned())]);
        }
        let Some((between, rest)) = rest.split_once("MM") else {
            return Err(self.fault(format!(
                "the pattern '{pattern}' of {unit} cannot be imported"
            )));
        };
        if rest.is_empty() && unit == "MONTHS" {
            let month = |date: Date| (date.year - 1970) * 12 + date.month - 1;
            let months = number("months", month(first), month(last));
            let template = format!("{{@ / 12 + 1970:4}}{between}{{@ % 12 + 1:2}}");
            return Ok(vec![Piece::Number(months, template)]);
        }
        if let (Some((second, "")), "DAYS") = (rest.split_once("dd"), unit) {
            let year = Piece::Number(number("year", first.year, last.year), "{@:4}".to_owned());
            let month = Piece::Number(number("month", 1, 12), "{@:2}".to_owned());
            let day = Piece::Number(number("day", 1, 31), "{@:2}".to_owned());
            return Ok([
                vec![year],
                separator(between),
                vec![month],
                separator(second),
                vec![day],
            ]
            .concat());
        }
        Err(self.fault(format!(
            "the pattern '{pattern}' of {unit} cannot be imported"
        )))
    }
}

/// Defines bounds, and calls them: 0 below the first, then one more at each.
fn ranges(
    definitions: &mut String,
    name: &str,
    ty: &str,
    column: &str,
    bounds: Vec<String>,
) -> Number {
    let count = bounds.len();
    let _ = write!(definitions, "ranges {name}: {ty} {{ 0");
    for (at, bound) in bounds.into_iter().enumerate() {
        let _ = write!(definitions, ", {bound} => {}", at + 1);
    }
    definitions.push_str(" };\n");
    Number::of(format!("{name}({column})"), 0, count as i128)
}

/// Seconds since 1970 as our language writes a timestamp.
fn utc(seconds: i64) -> String {
    let date = calendar::date_of(seconds.div_euclid(86_400));
    let clock = seconds.rem_euclid(86_400);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        date.year,
        date.month,
        date.day,
        clock / 3_600,
        clock / 60 % 60,
        clock % 60
    )
}
