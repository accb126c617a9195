//! The canonical text of a rule: parsing it gives the same rule again, character for character the same on every
//! platform. Knows the grammar, not how it is parsed.

use std::fmt::{self, Display, Formatter};

use super::{
    Binary, Body, Definition, DefinitionBody, Expr, Field, Kind, ListRef, Nodes, NodesAlgorithm,
    NullPolicy, Otherwise, Rule, Statement, Unary,
};
use crate::{
    function::calendar,
    key::KeyPart,
    place::{Piece, PlaceLine, Template},
    value::{Literal, Type},
};

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::Cache {
            f.write_str("cache ")?;
        }
        writeln!(f, "rule {} version {};", self.name, self.version)?;
        match (&self.zone, &self.zone_data) {
            (None, None) => {}
            (Some(zone), None) => writeln!(f, "zone {};", Quoted(zone))?,
            (None, Some(data)) => writeln!(f, "zone data {};", Quoted(data))?,
            (Some(zone), Some(data)) => {
                writeln!(f, "zone {} data {};", Quoted(zone), Quoted(data))?;
            }
        }
        for field in &self.fields {
            write_field(field, f)?;
        }
        for dimension in &self.dimensions {
            let (name, first, last) = (&dimension.name, dimension.first, dimension.last);
            writeln!(f, "dimension {name} {first} to {last};")?;
        }
        if let Some(key) = &self.key {
            let parts = key.parts.iter().map(|part| KeyText(part, &self.fields));
            writeln!(f, "key {};", Joined(parts.collect()))?;
        }
        for definition in &self.definitions {
            write_definition(definition, f)?;
        }
        write_body(self, f)?;
        for line in &self.places {
            write_place(line, self, f)?;
        }
        Ok(())
    }
}

fn write_field(field: &Field, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "field {}: {}", field.name, field.ty)?;
    match &field.null {
        NullPolicy::Error => {}
        NullPolicy::Slot(slot) => write!(f, " null slot ({})", Joined(slot.clone()))?,
        NullPolicy::Value(value) => write!(f, " null value {}", Bare(value))?,
    }
    if let Some(domain) = &field.domain {
        let (first, last) = (Bare(&domain.first), Bare(&domain.last));
        write!(f, " domain {first} to {last}")?;
        if domain.step != 1 {
            write!(f, " step {}", domain.step)?;
        }
    }
    writeln!(f, ";")
}

fn write_definition(definition: &Definition, f: &mut Formatter<'_>) -> fmt::Result {
    let name = &definition.name;
    match &definition.body {
        DefinitionBody::List(entries) => {
            let ty = entries.first().map_or(Type::I64, Literal::ty);
            let entries = Joined(entries.iter().map(Bare).collect());
            writeln!(f, "list {name}: {ty} = [{entries}];")
        }
        DefinitionBody::Table {
            key,
            result,
            entries,
            otherwise,
        } => {
            write!(f, "table {name}: {key} => {result} {{ ")?;
            for (from, to) in entries {
                write!(f, "{} => {}, ", Bare(from), Bare(to))?;
            }
            writeln!(f, "else {} }};", Bare(otherwise))
        }
        DefinitionBody::Ranges { key, first, bounds } => {
            write!(f, "ranges {name}: {key} {{ {first}")?;
            for (bound, value) in bounds {
                write!(f, ", {} => {value}", Bare(bound))?;
            }
            writeln!(f, " }};")
        }
        DefinitionBody::Nodes(nodes) => write_nodes(name, nodes, f),
    }
}

fn write_nodes(name: &str, nodes: &Nodes, f: &mut Formatter<'_>) -> fmt::Result {
    let word = match nodes.algorithm {
        NodesAlgorithm::Ring { .. } | NodesAlgorithm::BoundedRing { .. } => "ring",
        NodesAlgorithm::Rendezvous => "rendezvous",
        NodesAlgorithm::Maglev { .. } => "maglev",
    };
    write!(f, "{word} {name} {{ ")?;
    let mut left = nodes.nodes.as_slice();
    while let Some(&(first, weight)) = left.first() {
        // Neighbours of one weight are written as a span.
        let mut length = 1;
        let mut last = first;
        while let Some(&(next, same)) = left.get(length)
            && same == weight
            && Some(next) == last.checked_add(1)
        {
            last = next;
            length += 1;
        }
        write!(f, "{first}")?;
        if last > first {
            write!(f, " to {last}")?;
        }
        if weight != 1 {
            write!(f, " weight {weight}")?;
        }
        left = &left[length..];
        f.write_str(if left.is_empty() { " " } else { ", " })?;
    }
    f.write_str("}")?;
    match nodes.algorithm {
        NodesAlgorithm::Ring { virtual_nodes } => write!(f, " virtual {virtual_nodes}")?,
        NodesAlgorithm::BoundedRing {
            virtual_nodes,
            above_mean_percent,
        } => write!(f, " virtual {virtual_nodes} bounded {above_mean_percent}")?,
        NodesAlgorithm::Rendezvous => {}
        NodesAlgorithm::Maglev { entries } => write!(f, " entries {entries}")?,
    }
    if nodes.seed != 0 {
        write!(f, " seed {}", nodes.seed)?;
    }
    writeln!(f, ";")
}

fn write_body(rule: &Rule, f: &mut Formatter<'_>) -> fmt::Result {
    let (statements, otherwise) = match &rule.body {
        Body::Script(script) => return writeln!(f, "script {};", Quoted(script)),
        Body::Statements(statements, otherwise) => (statements, otherwise),
    };
    let names = Names::of(rule);
    let slot = |exprs: &[Expr]| {
        let exprs: Vec<_> = exprs.iter().map(|it| names.text(it)).collect();
        format!("({})", exprs.join(", "))
    };
    for statement in statements {
        match statement {
            Statement::Let { name, value } => writeln!(f, "let {name} = {};", names.text(value))?,
            Statement::When {
                condition,
                slot: exprs,
            } => writeln!(f, "when {} then {};", names.text(condition), slot(exprs))?,
        }
    }
    match otherwise {
        Otherwise::Error => writeln!(f, "else error;"),
        Otherwise::All => writeln!(f, "else all;"),
        Otherwise::Slot(exprs) => writeln!(f, "else {};", slot(exprs)),
    }
}

fn write_place(line: &PlaceLine, rule: &Rule, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("place ")?;
    if !line.slots.is_empty() {
        let spans = line.slots.iter().map(|span| match span {
            None => "*".to_owned(),
            Some((first, last)) if first == last => first.to_string(),
            Some((first, last)) => format!("{first} to {last}"),
        });
        write!(f, "({}) ", Joined(spans.collect()))?;
    }
    if !line.cluster.pieces.is_empty() {
        write!(f, "cluster {} ", Quoted(&template(&line.cluster, rule)))?;
    }
    writeln!(f, "table {};", Quoted(&template(&line.table, rule)))
}

fn template(template: &Template, rule: &Rule) -> String {
    let mut text = String::new();
    for piece in &template.pieces {
        match piece {
            Piece::Text(it) => text.push_str(&it.replace('{', "{{").replace('}', "}}")),
            Piece::Coordinate {
                dimension,
                divide,
                modulo,
                add,
                width,
            } => {
                let name = rule.dimensions.get(usize::from(*dimension));
                text.push('{');
                text.push_str(name.map_or("", |it| &it.name));
                if *divide != 1 {
                    text.push_str(&format!(" / {divide}"));
                }
                if *modulo != 0 {
                    text.push_str(&format!(" % {modulo}"));
                }
                match *add {
                    0 => {}
                    add @ 1.. => text.push_str(&format!(" + {add}")),
                    add => text.push_str(&format!(" - {}", add.unsigned_abs())),
                }
                if *width != 0 {
                    text.push_str(&format!(":{width}"));
                }
                text.push('}');
            }
        }
    }
    text
}

/// The names that expressions refer to by number.
pub(crate) struct Names<'r> {
    rule: &'r Rule,
    lets: Vec<&'r str>,
}

impl<'r> Names<'r> {
    pub(crate) fn of(rule: &'r Rule) -> Names<'r> {
        let lets = match &rule.body {
            Body::Statements(statements, _) => statements
                .iter()
                .filter_map(|it| match it {
                    Statement::Let { name, .. } => Some(name.as_str()),
                    Statement::When { .. } => None,
                })
                .collect(),
            Body::Script(_) => Vec::new(),
        };
        Names { rule, lets }
    }

    /// The text of an expression.
    pub(crate) fn text(&self, expr: &Expr) -> String {
        let mut text = String::new();
        self.write(expr, LOOSEST, false, &mut text);
        text
    }

    fn field(&self, at: u16) -> &str {
        self.rule
            .fields
            .get(usize::from(at))
            .map_or("?", |it| it.name.as_str())
    }

    fn definition(&self, at: u16) -> &str {
        self.rule
            .definitions
            .get(usize::from(at))
            .map_or("?", |it| it.name.as_str())
    }

    /// `level`: how tightly it must bind not to need parentheses. `bare`: whether an unsigned constant needs no suffix.
    fn write(&self, expr: &Expr, level: u8, bare: bool, out: &mut String) {
        let own = level_of(expr);
        if own < level {
            out.push('(');
            self.write(expr, LOOSEST, bare, out);
            out.push(')');
            return;
        }
        match expr {
            Expr::Literal(literal) if bare => out.push_str(&Bare(literal).to_string()),
            Expr::Literal(literal) => out.push_str(&literal.to_string()),
            Expr::Field(at) => out.push_str(self.field(*at)),
            Expr::Local(at) => out.push_str(self.lets.get(usize::from(*at)).unwrap_or(&"?")),
            Expr::Unary(Unary::Negate, a) => {
                out.push('-');
                self.write(a, own, false, out);
            }
            Expr::Unary(Unary::Not, a) => {
                out.push_str("not ");
                self.write(a, own, false, out);
            }
            Expr::Binary(operator, a, b) => self.write_binary(*operator, a, b, out),
            Expr::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                out.push_str("if ");
                self.write(condition, LOOSEST, false, out);
                out.push_str(" then ");
                self.write(then, LOOSEST, false, out);
                out.push_str(" else ");
                self.write(otherwise, LOOSEST, false, out);
            }
            Expr::In(a, list) => {
                self.write(a, own + 1, false, out);
                out.push_str(" in ");
                match list {
                    ListRef::Named(at) => out.push_str(self.definition(*at)),
                    ListRef::Inline(entries) if is_constant(a) => {
                        out.push_str(&format!("[{}]", Joined(entries.iter().collect())));
                    }
                    ListRef::Inline(entries) => {
                        let entries = Joined(entries.iter().map(Bare).collect());
                        out.push_str(&format!("[{entries}]"));
                    }
                }
            }
            Expr::Call(function, arguments) => {
                out.push_str(function.name());
                self.write_arguments(arguments, |at| function.wanted(at).is_some(), out);
            }
            Expr::Lookup(at, argument) => {
                out.push_str(self.definition(*at));
                self.write_arguments(std::slice::from_ref(&**argument), |_| false, out);
            }
        }
    }

    fn write_binary(&self, operator: Binary, a: &Expr, b: &Expr, out: &mut String) {
        let own = operator.level();
        // Comparisons do not chain, so that their left side must bind tighter too.
        let left = own + u8::from(operator.is_comparison());
        self.write(a, left, !is_constant(b), out);
        out.push(' ');
        out.push_str(operator.sign());
        out.push(' ');
        self.write(b, own + 1, !is_constant(a), out);
    }

    fn write_arguments(&self, arguments: &[Expr], bare: impl Fn(usize) -> bool, out: &mut String) {
        out.push('(');
        for (at, argument) in arguments.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            self.write(argument, LOOSEST, bare(at), out);
        }
        out.push(')');
    }
}

const LOOSEST: u8 = 0;
const NEGATIVE: u8 = 11;
const TIGHTEST: u8 = 12;

fn level_of(expr: &Expr) -> u8 {
    match expr {
        Expr::If(_) => LOOSEST,
        Expr::Unary(Unary::Not, _) => 3,
        Expr::In(..) => 4,
        Expr::Binary(operator, ..) => operator.level(),
        Expr::Unary(Unary::Negate, _) | Expr::Literal(Literal::I64(..0)) => NEGATIVE,
        _ => TIGHTEST,
    }
}

/// Made of constants only, so that its type does not follow from a name.
pub(crate) fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) => true,
        Expr::Field(_) | Expr::Local(_) => false,
        _ => expr.children().into_iter().all(is_constant),
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::U64(it) => write!(f, "{it}u"),
            _ => Bare(self).fmt(f),
        }
    }
}

/// A literal where its type is known: unsigned numbers without their suffix.
pub(crate) struct Bare<'l>(pub(crate) &'l Literal);

impl Display for Bare<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Literal::Bool(it) => write!(f, "{it}"),
            Literal::I64(it) => write!(f, "{it}"),
            Literal::U64(it) => write!(f, "{it}"),
            Literal::Str(it) => Quoted(it).fmt(f),
            Literal::Bytes(it) => {
                f.write_str("bytes \"")?;
                for byte in it {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("\"")
            }
            Literal::Date(it) => write!(f, "date \"{}\"", date(i64::from(*it))),
            Literal::Timestamp(it) => write!(f, "timestamp \"{}\"", timestamp(*it)),
            Literal::Uuid(it) => {
                f.write_str("uuid \"")?;
                for (at, byte) in it.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("\"")
            }
        }
    }
}

/// `2012-01-31` of days since 1970.
pub(crate) fn date(days: i64) -> String {
    let date = calendar::date_of(days);
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// `2012-01-31T00:00:00Z` of microseconds since 1970, with six digits more if there are any.
pub(crate) fn timestamp(micros: i64) -> String {
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let fraction = match fraction {
        0 => String::new(),
        micros => format!(".{micros:06}"),
    };
    format!(
        "{}T{hour:02}:{minute:02}:{second:02}{fraction}Z",
        date(days)
    )
}

/// Text in quotes, with escapes.
pub(crate) struct Quoted<'t>(pub(crate) &'t str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                '\0' => f.write_str("\\0")?,
                '\\' | '"' => write!(f, "\\{character}")?,
                it if it.is_control() => write!(f, "\\u{{{:x}}}", u32::from(it))?,
                it => write!(f, "{it}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Things with commas between.
struct Joined<T>(Vec<T>);

impl<T: Display> Display for Joined<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, it) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            it.fmt(f)?;
        }
        Ok(())
    }
}

struct KeyText<'r>(&'r KeyPart, &'r [Field]);

impl Display for KeyText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |field: &u16| {
            self.1
                .get(usize::from(*field))
                .map_or("?", |it| it.name.as_str())
        };
        let separator = |it: &[u8]| match std::str::from_utf8(it) {
            Ok(text) => Quoted(text).to_string(),
            Err(_) => Literal::Bytes(it.to_vec()).to_string(),
        };
        match self.0 {
            KeyPart::Fixed { field } => write!(f, "fixed {}", name(field)),
            KeyPart::Width { field, bytes } => write!(f, "fixed {} {bytes}", name(field)),
            KeyPart::Reversed { field } => write!(f, "reversed {}", name(field)),
            KeyPart::Until {
                field,
                separator: it,
            } => write!(f, "until {} {}", name(field), separator(it)),
            KeyPart::Decimal {
                field,
                separator: it,
            } => write!(f, "decimal {} {}", name(field), separator(it)),
            KeyPart::Rest { field } => write!(f, "rest {}", name(field)),
            KeyPart::Skip { bytes: Some(bytes) } => write!(f, "skip {bytes}"),
            KeyPart::Skip { bytes: None } => f.write_str("skip"),
        }
    }
}
