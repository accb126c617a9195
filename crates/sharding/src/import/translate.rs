//! What Groovy expressions of sharding rules mean, in our language: types of columns, bounds of numbers, names in pieces.
//!
//! Keeps the original's answer wherever the original has one; where it has none, or one that depends on the machine,
//! a warning says so. Must not know of XML, YAML or how a rule's text is put together.

mod text;

use std::collections::BTreeMap;

use super::groovy::{Expression, Node};
use super::{ImportError, Options, Warning};

/// The type that the uses of a column show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Integer,
    Text,
    Time,
}

impl ColumnType {
    /// The word of our language.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Integer => "i64",
            Self::Text => "string",
            Self::Time => "timestamp",
        }
    }
}

/// A number: an expression of our language, of type `i64`, and between which bounds it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) text: String,
    pub(super) low: i128,
    pub(super) high: i128,
}

/// Bounds of a number of which nothing is known.
const LEAST: i128 = i64::MIN as i128;
const GREATEST: i128 = i64::MAX as i128;

/// A piece of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// A number, and the template it is written by, in which `@` stands for its dimension.
    Number(Number, String),
}

/// A name, and the condition under which it holds; the last one has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alternative {
    pub(super) condition: Option<String>,
    pub(super) pieces: Vec<Piece>,
}

/// Most alternatives of one name.
const ALTERNATIVES_MAX: usize = 64;

/// Longest text that one expression may become: columns stand where they are used, nothing is doubled without bound.
const TEXT_MAX: usize = 64 * 1024;

pub(super) struct Translator<'a> {
    pub(super) options: &'a Options,
    pub(super) columns: BTreeMap<String, ColumnType>,
    pub(super) warnings: Vec<Warning>,
    /// Some function of the calendar is called.
    pub(super) uses_zone: bool,
}

impl<'a> Translator<'a> {
    pub(super) fn new(options: &'a Options) -> Self {
        Self {
            options,
            columns: BTreeMap::new(),
            warnings: Vec::new(),
            uses_zone: false,
        }
    }

    pub(super) fn warn(&mut self, line: u32, message: impl Into<String>) {
        let warning = Warning {
            line,
            message: message.into(),
        };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// A column by its name (of TDDL's `#id?,1_number,1024#` the first part), used as a type.
    pub(super) fn column(
        &mut self,
        line: u32,
        name: &str,
        wanted: ColumnType,
    ) -> Result<String, ImportError> {
        let name = column_name(name);
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
        if !is_name || RESERVED.contains(&name) {
            return Err(ImportError::new(
                line,
                format!(
                    "the column '{name}' cannot be a field: its name is no name of our language"
                ),
            ));
        }
        match self.columns.get(name) {
            Some(known) if *known != wanted => Err(ImportError::new(
                line,
                format!(
                    "the column '{name}' is used as {} and as {}",
                    known.name(),
                    wanted.name()
                ),
            )),
            _ => {
                self.columns.insert(name.to_owned(), wanted);
                Ok(name.to_owned())
            }
        }
    }

    fn known(&self, expression: &Expression) -> Option<ColumnType> {
        match &expression.node {
            Node::Column(name) => self.columns.get(column_name(name)).copied(),
            _ => None,
        }
    }

    /// The name that an expression makes, by alternatives.
    pub(super) fn names(
        &mut self,
        expression: &Expression,
    ) -> Result<Vec<Alternative>, ImportError> {
        let line = expression.line;
        match &expression.node {
            Node::Conditional(parts) if is_text(expression) => {
                let [condition, then, otherwise] = parts.as_ref();
                let condition = self.condition(condition)?;
                let mut all = Vec::new();
                for inner in self.names(then)? {
                    let both = match inner.condition {
                        Some(inner) => format!("({condition}) and ({inner})"),
                        None => condition.clone(),
                    };
                    all.push(Alternative {
                        condition: Some(both),
                        pieces: inner.pieces,
                    });
                }
                all.extend(self.names(otherwise)?);
                if all.len() > ALTERNATIVES_MAX {
                    let message = format!("more than {ALTERNATIVES_MAX} alternatives");
                    return Err(ImportError::new(line, message));
                }
                Ok(all)
            }
            Node::Binary("+", left, right) if is_text(left) || is_text(right) => {
                let (left, right) = (self.names(left)?, self.names(right)?);
                match (left.as_slice(), right.as_slice()) {
                    ([only], _) => Ok(right
                        .into_iter()
                        .map(|it| joined(only, it.condition.clone(), &only.pieces, &it.pieces))
                        .collect()),
                    (_, [only]) => Ok(left
                        .into_iter()
                        .map(|it| joined(only, it.condition.clone(), &it.pieces, &only.pieces))
                        .collect()),
                    _ => Err(ImportError::new(
                        line,
                        "two conditionals in one name cannot be imported",
                    )),
                }
            }
            _ => Ok(vec![Alternative {
                condition: None,
                pieces: self.pieces(expression)?,
            }]),
        }
    }

    fn pieces(&mut self, expression: &Expression) -> Result<Vec<Piece>, ImportError> {
        if let Node::Text(text) = &expression.node {
            return Ok(vec![Piece::Text(text.clone())]);
        }
        if let Node::Call(name, receiver, arguments) = &expression.node {
            match (name.as_str(), receiver, arguments.as_slice()) {
                ("toString", Some(inner), []) => return self.pieces(inner),
                ("String.valueOf", None, [inner]) => return self.pieces(inner),
                ("placeHolder", None, [width, number]) => {
                    let width = self.constant(width, 1, 18)?;
                    let number = self.number(number)?;
                    return Ok(vec![Piece::Number(number, format!("{{@:{width}}}"))]);
                }
                ("mm" | "yyyymm" | "yyyy_mm" | "yymm" | "yy_mm", None, [date]) => {
                    return self.dated(expression.line, name, date);
                }
                _ => {}
            }
        }
        Ok(vec![Piece::Number(
            self.number(expression)?,
            "{@}".to_owned(),
        )])
    }

    /// TDDL's names by year and month.
    fn dated(
        &mut self,
        line: u32,
        function: &str,
        date: &Expression,
    ) -> Result<Vec<Piece>, ImportError> {
        let column = self.time(date)?;
        let month = Piece::Number(
            Number {
                text: format!("month({column})"),
                low: 1,
                high: 12,
            },
            "{@:2}".to_owned(),
        );
        let separator = if function.contains('_') { "_" } else { "" };
        if function == "mm" {
            return Ok(vec![month]);
        }
        if function.starts_with("yyyy") {
            // Months since 1970: one dimension, of which year and month are both read.
            let (first, last) = self.years(line, function)?;
            let months = Number {
                text: format!("months({column})"),
                low: (i128::from(first) - 1970) * 12,
                high: (i128::from(last) - 1970) * 12 + 11,
            };
            let template = format!("{{@ / 12 + 1970:4}}{separator}{{@ % 12 + 1:2}}");
            return Ok(vec![Piece::Number(months, template)]);
        }
        self.warn(
            line,
            format!("{function} does not pad years below 10 (B1, defect 2); neither does this"),
        );
        let year = self.year_of_century(&column);
        let mut pieces = vec![Piece::Number(year, "{@}".to_owned())];
        if !separator.is_empty() {
            pieces.push(Piece::Text(separator.to_owned()));
        }
        pieces.push(month);
        Ok(pieces)
    }

    fn year_of_century(&self, column: &str) -> Number {
        Number {
            text: format!("(year({column}) % 100)"),
            low: 0,
            high: 99,
        }
    }

    pub(super) fn years(&self, line: u32, function: &str) -> Result<(i64, i64), ImportError> {
        self.options.years.ok_or_else(|| {
            ImportError::new(
                line,
                format!("{function} makes tables without end: say which years there are (--years 2020..2030)"),
            )
        })
    }

    /// A column that holds a time.
    pub(super) fn time(&mut self, expression: &Expression) -> Result<String, ImportError> {
        let Node::Column(name) = &expression.node else {
            return Err(ImportError::new(
                expression.line,
                "a function of the calendar can be imported only of a column",
            ));
        };
        self.uses_zone = true;
        self.column(expression.line, name, ColumnType::Time)
    }

    fn constant(&self, expression: &Expression, low: i64, high: i64) -> Result<i64, ImportError> {
        match expression.node {
            Node::Integer(number) if (low..=high).contains(&number) => Ok(number),
            _ => Err(ImportError::new(
                expression.line,
                format!("a number from {low} to {high} must stand here"),
            )),
        }
    }

    pub(super) fn number(&mut self, expression: &Expression) -> Result<Number, ImportError> {
        let number = self.unbounded_number(expression)?;
        if number.text.len() > TEXT_MAX {
            return Err(ImportError::new(
                expression.line,
                "the expression becomes too long",
            ));
        }
        Ok(number)
    }

    fn unbounded_number(&mut self, expression: &Expression) -> Result<Number, ImportError> {
        let line = expression.line;
        match &expression.node {
            Node::Integer(value) => Ok(Number::constant(*value)),
            Node::Column(name) => {
                let text = self.column(line, name, ColumnType::Integer)?;
                Ok(Number::any(text))
            }
            Node::Negate(inner) => {
                let inner = self.number(inner)?;
                Ok(Number::of(
                    format!("-({})", inner.text),
                    -inner.high,
                    -inner.low,
                ))
            }
            // Both are the identity on whole numbers that fit.
            Node::Cast(ty, inner) if ty != "String" => self.whole(inner),
            Node::Binary(sign, left, right) => self.binary(line, sign, left, right),
            Node::Conditional(parts) => {
                let [condition, then, otherwise] = parts.as_ref();
                let condition = self.condition(condition)?;
                let (a, b) = (self.number(then)?, self.number(otherwise)?);
                Ok(Number::of(
                    format!("(if {condition} then {} else {})", a.text, b.text),
                    a.low.min(b.low),
                    a.high.max(b.high),
                ))
            }
            Node::Call(name, receiver, arguments) => {
                self.call(line, name, receiver.as_deref(), arguments)
            }
            Node::Text(text) => Err(ImportError::new(
                line,
                format!("the text \"{text}\" where a number is expected"),
            )),
            Node::Not(_) => Err(ImportError::new(line, "'!' of a number")),
            Node::Cast(..) => Err(ImportError::new(line, "a text where a number is expected")),
        }
    }

    /// A number of which Groovy takes the whole part: only here is `/` a division of whole numbers.
    fn whole(&mut self, inner: &Expression) -> Result<Number, ImportError> {
        match &inner.node {
            Node::Binary("/", left, right) => self.divide(inner.line, left, right),
            _ => self.number(inner),
        }
    }

    fn binary(
        &mut self,
        line: u32,
        sign: &str,
        left: &Expression,
        right: &Expression,
    ) -> Result<Number, ImportError> {
        if sign == "/" {
            return Err(ImportError::new(
                line,
                "Groovy's '/' gives fractions, which name no table: only .intdiv() and (long) (a / b) can be imported",
            ));
        }
        if sign == "%" {
            return self.modulo(line, left, right);
        }
        let (a, b) = (self.number(left)?, self.number(right)?);
        let (low, high) = match sign {
            "+" => (a.low + b.low, a.high + b.high),
            "-" => (a.low - b.high, a.high - b.low),
            "*" => {
                let corners =
                    [a.low, a.high].map(|it| [it.saturating_mul(b.low), it.saturating_mul(b.high)]);
                let corners = corners.as_flattened();
                let least = corners.iter().min().copied().unwrap_or(LEAST);
                (least, corners.iter().max().copied().unwrap_or(GREATEST))
            }
            _ => {
                return Err(ImportError::new(
                    line,
                    format!("'{sign}' of numbers cannot be imported"),
                ));
            }
        };
        if low < LEAST || high > GREATEST {
            self.warn(
                line,
                "the arithmetic may overflow: Java wraps, or counts in 32 bits (B1, defect 4); here such a record is refused",
            );
        }
        Ok(Number::of(
            format!("({} {sign} {})", a.text, b.text),
            low,
            high,
        ))
    }

    fn modulo(
        &mut self,
        line: u32,
        left: &Expression,
        right: &Expression,
    ) -> Result<Number, ImportError> {
        let (a, b) = (self.number(left)?, self.number(right)?);
        if b.low < 1 {
            return Err(ImportError::new(
                line,
                "a modulus that is not a number above 0 cannot be imported",
            ));
        }
        if a.low < 0 {
            self.warn(
                line,
                format!(
                    "a negative {} gives a negative rest there, and a table that does not exist; here the rest is from 0 on",
                    a.text
                ),
            );
        }
        let text = format!("({} % {})", a.text, b.text);
        if a.low >= 0 && a.high < b.low {
            return Ok(Number::of(text, a.low, a.high));
        }
        Ok(Number::of(text, 0, b.high - 1))
    }

    fn divide(
        &mut self,
        line: u32,
        left: &Expression,
        right: &Expression,
    ) -> Result<Number, ImportError> {
        let (a, b) = (self.number(left)?, self.number(right)?);
        if b.low < 1 {
            return Err(ImportError::new(
                line,
                "a divisor that is not a number above 0 cannot be imported",
            ));
        }
        if a.low < 0 {
            self.warn(
                line,
                format!(
                    "a negative {} is rounded towards 0 there, down here",
                    a.text
                ),
            );
        }
        let low = a.low.div_euclid(b.low).min(a.low.div_euclid(b.high));
        let high = a.high.div_euclid(b.low).max(a.high.div_euclid(b.high));
        Ok(Number::of(format!("({} / {})", a.text, b.text), low, high))
    }

    fn call(
        &mut self,
        line: u32,
        name: &str,
        receiver: Option<&Expression>,
        arguments: &[Expression],
    ) -> Result<Number, ImportError> {
        match (name, receiver, arguments) {
            ("intdiv", Some(left), [right]) => self.divide(line, left, right),
            ("longValue" | "intValue" | "toLong" | "toInteger", Some(inner), []) => {
                self.whole(inner)
            }
            ("Long.valueOf" | "Integer.valueOf", None, [inner]) => self.whole(inner),
            ("Long.parseLong" | "Integer.parseInt", None, [inner]) => {
                let text = self.text(inner)?;
                Ok(Number::any(format!("parse_int({text})")))
            }
            ("hashCode", Some(inner), []) => self.hash_code(line, inner),
            ("abs", Some(inner), []) | ("Math.abs", None, [inner]) => self.absolute(line, inner),
            ("Math.floorMod", None, [left, right]) => {
                let (a, b) = (self.number(left)?, self.number(right)?);
                if b.low < 1 {
                    return Err(ImportError::new(line, "a modulus that is not above 0"));
                }
                Ok(Number::of(
                    format!("({} % {})", a.text, b.text),
                    0,
                    b.high - 1,
                ))
            }
            ("right", None, [number, size]) => {
                let size = self.constant(size, 1, 18)?;
                let modulus = Expression {
                    line,
                    node: Node::Integer(10_i64.pow(size as u32)),
                };
                self.modulo(line, number, &modulus)
            }
            ("rightCut", None, [number, from, size]) => {
                let (from, size) = (self.constant(from, 0, 18)?, self.constant(size, 1, 18)?);
                let ten = |power: i64| Expression {
                    line,
                    node: Node::Integer(10_i64.pow(power as u32)),
                };
                let cut = self.divide(line, number, &ten(from))?;
                let power = 10_i128.pow(size as u32);
                Ok(Number::of(
                    format!("({} % {power})", cut.text),
                    0,
                    power - 1,
                ))
            }
            (_, None, [date, rest @ ..]) if is_calendar(name) => {
                self.calendar(line, name, date, rest)
            }
            _ => Err(ImportError::new(
                line,
                format!("the function '{name}' cannot be imported"),
            )),
        }
    }

    fn hash_code(&mut self, line: u32, inner: &Expression) -> Result<Number, ImportError> {
        let is_number = match &inner.node {
            Node::Column(name) => {
                self.options.integers.contains(column_name(name))
                    || self.known(inner) == Some(ColumnType::Integer)
            }
            _ => false,
        };
        let of = if is_number {
            self.warn(
                line,
                "hashCode of a number: taken as Java's Long; an Integer's differs where it is negative",
            );
            self.number(inner)?.text
        } else {
            self.text(inner)?
        };
        Ok(Number::of(
            format!("java_hash({of})"),
            i32::MIN.into(),
            i32::MAX.into(),
        ))
    }

    fn absolute(&mut self, line: u32, inner: &Expression) -> Result<Number, ImportError> {
        let is_hash = matches!(&inner.node, Node::Call(name, ..) if name == "hashCode");
        let inner = self.number(inner)?;
        if is_hash {
            self.warn(
                line,
                "Math.abs of the least 32-bit hash stays negative there (B1, defect 3); here it is positive",
            );
        }
        let high = inner.low.abs().max(inner.high.abs());
        let low = if inner.low <= 0 && inner.high >= 0 {
            0
        } else {
            inner.low.abs().min(inner.high.abs())
        };
        Ok(Number::of(format!("abs({})", inner.text), low, high))
    }

    /// TDDL's functions of the calendar that are numbers.
    fn calendar(
        &mut self,
        line: u32,
        name: &str,
        date: &Expression,
        rest: &[Expression],
    ) -> Result<Number, ImportError> {
        // The half and the quarter of a month, which there is counted from 0 (B1, defect 2).
        if let ("quarter" | "halfayear", Node::Call(..) | Node::Integer(_)) = (name, &date.node) {
            return Err(ImportError::new(
                line,
                format!(
                    "'{name}' of a number counts months from 0 while month() counts from 1 (B1, defect 2): give it the column"
                ),
            ));
        }
        let column = self.time(date)?;
        let (text, low, high) = match (name, rest) {
            ("month", []) => (format!("month({column})"), 1, 12),
            ("date" | "dayofmonth" | "day", []) => (format!("day({column})"), 1, 31),
            ("yy", []) => {
                self.warn(
                    line,
                    "yy does not pad years below 10 (B1, defect 2); neither does this",
                );
                return Ok(self.year_of_century(&column));
            }
            ("yyyy" | "year", []) => {
                let (first, last) = self.years(line, name)?;
                (format!("year({column})"), first.into(), last.into())
            }
            // Java counts from Sunday, 1; TDDL's short form from Sunday, 0.
            ("dayofweek", []) => (format!("(day_of_week({column}) % 7)"), 0, 6),
            ("dayofweek", [offset]) => {
                let offset = self.offset(offset)?;
                let text = format!("(day_of_week({column}) % 7 + ({}))", offset + 1);
                (text, i128::from(offset) + 1, i128::from(offset) + 7)
            }
            ("week", []) => {
                self.warn(
                    line,
                    "week is the day of the week there, from Sunday, 1; so it is here",
                );
                (format!("(day_of_week({column}) % 7 + 1)"), 1, 7)
            }
            ("quarter", []) => (format!("quarter({column})"), 1, 4),
            ("halfayear", []) => (format!("((month({column}) - 1) / 6 + 1)"), 1, 2),
            _ => {
                return Err(ImportError::new(
                    line,
                    format!("the function '{name}' cannot be imported with these arguments"),
                ));
            }
        };
        Ok(Number::of(text, low, high))
    }

    fn offset(&self, expression: &Expression) -> Result<i64, ImportError> {
        match &expression.node {
            Node::Negate(inner) => Ok(-self.constant(inner, 0, 1_000)?),
            _ => self.constant(expression, 0, 1_000),
        }
    }
}

impl Number {
    fn constant(value: i64) -> Self {
        let text = if value < 0 {
            format!("({value})")
        } else {
            value.to_string()
        };
        Self::of(text, value.into(), value.into())
    }

    fn any(text: String) -> Self {
        Self::of(text, LEAST, GREATEST)
    }

    /// Bounds stay inside 64 bits: what would leave them is refused when it happens.
    pub(super) fn of(text: String, low: i128, high: i128) -> Self {
        Self {
            text,
            low: low.clamp(LEAST, GREATEST),
            high: high.clamp(LEAST, GREATEST),
        }
    }
}

/// Words that no field can be called.
const RESERVED: &[&str] = &[
    "and", "or", "not", "in", "if", "then", "else", "when", "let", "is", "between", "true", "false",
];

pub(super) fn column_name(parameter: &str) -> &str {
    let name = parameter.split(',').next().unwrap_or_default().trim();
    name.strip_suffix('?').unwrap_or(name)
}

fn is_calendar(name: &str) -> bool {
    matches!(
        name,
        "month"
            | "date"
            | "dayofmonth"
            | "day"
            | "yy"
            | "yyyy"
            | "year"
            | "dayofweek"
            | "week"
            | "quarter"
            | "halfayear"
    )
}

/// Whether Groovy's `+` concatenates because of this side.
fn is_text(expression: &Expression) -> bool {
    match &expression.node {
        Node::Text(_) => true,
        Node::Binary("+", left, right) => is_text(left) || is_text(right),
        Node::Conditional(parts) => is_text(&parts[1]) || is_text(&parts[2]),
        Node::Cast(ty, _) => ty == "String",
        Node::Call(name, ..) => matches!(
            name.as_str(),
            "toString"
                | "String.valueOf"
                | "placeHolder"
                | "mm"
                | "yyyymm"
                | "yyyy_mm"
                | "yymm"
                | "yy_mm"
                | "substring"
        ),
        _ => false,
    }
}

fn joined(
    only: &Alternative,
    condition: Option<String>,
    left: &[Piece],
    right: &[Piece],
) -> Alternative {
    Alternative {
        condition: condition.or_else(|| only.condition.clone()),
        pieces: [left, right].concat(),
    }
}

/// A text between quotes of our language.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for it in text.chars() {
        match it {
            '"' | '\\' => quoted.extend(['\\', it]),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push(it),
        }
    }
    quoted.push('"');
    quoted
}
