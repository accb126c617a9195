//! Writing a rule's bytes. The rule was checked before.

use super::{FORMAT, MAGIC, expression};
use crate::{
    key::{KeyPart, KeySchema},
    place::{Piece, PlaceLine, Template},
    rule::{
        Body, Definition, DefinitionBody, Field, Kind, Nodes, NodesAlgorithm, NullPolicy,
        Otherwise, Rule, Statement,
    },
    value::Literal,
};

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All.
    Whole,
    /// All but version and places.
    Logic,
}

/// Bytes being written.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// LEB128.
    pub(crate) fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// LEB128 of the zigzag form.
    pub(crate) fn signed(&mut self, value: i64) {
        self.unsigned((value << 1 ^ value >> 63) as u64);
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.unsigned(count as u64);
    }

    pub(crate) fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// A literal whose type stands elsewhere.
    pub(crate) fn bare(&mut self, literal: &Literal) {
        match literal {
            Literal::Bool(it) => self.byte(u8::from(*it)),
            Literal::I64(it) | Literal::Timestamp(it) => self.signed(*it),
            Literal::U64(it) => self.unsigned(*it),
            Literal::Str(it) => self.blob(it.as_bytes()),
            Literal::Bytes(it) => self.blob(it),
            Literal::Date(it) => self.signed(i64::from(*it)),
            Literal::Uuid(it) => self.bytes.extend_from_slice(it),
        }
    }

    pub(crate) fn literal(&mut self, literal: &Literal) {
        self.byte(literal.ty() as u8);
        self.bare(literal);
    }

    /// Sorted literals of one type.
    pub(crate) fn list(&mut self, list: &[Literal]) {
        self.count(list.len());
        if let Some(first) = list.first() {
            self.byte(first.ty() as u8);
        }
        for literal in list {
            self.bare(literal);
        }
    }

    fn option<T>(&mut self, option: Option<&T>, write: impl FnOnce(&mut Writer, &T)) {
        self.byte(u8::from(option.is_some()));
        if let Some(it) = option {
            write(self, it);
        }
    }

    fn field(&mut self, field: &Field) {
        self.blob(field.name.as_bytes());
        self.byte(field.ty as u8);
        match &field.null {
            NullPolicy::Error => self.byte(0),
            NullPolicy::Slot(slot) => {
                self.byte(1);
                self.count(slot.len());
                slot.iter().for_each(|it| self.signed(*it));
            }
            NullPolicy::Value(value) => {
                self.byte(2);
                self.bare(value);
            }
        }
        self.option(field.domain.as_ref(), |out, domain| {
            out.bare(&domain.first);
            out.bare(&domain.last);
            out.unsigned(domain.step);
        });
    }

    fn key(&mut self, key: &KeySchema) {
        self.count(key.parts.len());
        for part in &key.parts {
            let (number, field) = match part {
                KeyPart::Fixed { field } => (0, Some(field)),
                KeyPart::Width { field, .. } => (1, Some(field)),
                KeyPart::Reversed { field } => (2, Some(field)),
                KeyPart::Until { field, .. } => (3, Some(field)),
                KeyPart::Decimal { field, .. } => (4, Some(field)),
                KeyPart::Rest { field } => (5, Some(field)),
                KeyPart::Skip { bytes: Some(_) } => (6, None),
                KeyPart::Skip { bytes: None } => (7, None),
            };
            self.byte(number);
            if let Some(field) = field {
                self.unsigned(u64::from(*field));
            }
            match part {
                KeyPart::Width { bytes, .. } | KeyPart::Skip { bytes: Some(bytes) } => {
                    self.unsigned(u64::from(*bytes));
                }
                KeyPart::Until { separator, .. } | KeyPart::Decimal { separator, .. } => {
                    self.blob(separator);
                }
                _ => {}
            }
        }
    }

    fn definition(&mut self, definition: &Definition) {
        self.blob(definition.name.as_bytes());
        match &definition.body {
            DefinitionBody::List(entries) => {
                self.byte(0);
                self.list(entries);
            }
            DefinitionBody::Table {
                key,
                result,
                entries,
                otherwise,
            } => {
                self.byte(1);
                self.byte(*key as u8);
                self.byte(*result as u8);
                self.count(entries.len());
                for (from, to) in entries {
                    self.bare(from);
                    self.bare(to);
                }
                self.bare(otherwise);
            }
            DefinitionBody::Ranges { key, first, bounds } => {
                self.byte(2);
                self.byte(*key as u8);
                self.signed(*first);
                self.count(bounds.len());
                for (bound, value) in bounds {
                    self.bare(bound);
                    self.signed(*value);
                }
            }
            DefinitionBody::Nodes(nodes) => self.nodes(nodes),
        }
    }

    fn nodes(&mut self, nodes: &Nodes) {
        match nodes.algorithm {
            NodesAlgorithm::Ring { virtual_nodes } => {
                self.byte(3);
                self.unsigned(u64::from(virtual_nodes));
            }
            NodesAlgorithm::BoundedRing {
                virtual_nodes,
                above_mean_percent,
            } => {
                self.byte(6);
                self.unsigned(u64::from(virtual_nodes));
                self.unsigned(u64::from(above_mean_percent));
            }
            NodesAlgorithm::Rendezvous => self.byte(4),
            NodesAlgorithm::Maglev { entries } => {
                self.byte(5);
                self.unsigned(entries);
            }
        }
        self.unsigned(nodes.seed);
        self.count(nodes.nodes.len());
        for (node, weight) in &nodes.nodes {
            self.unsigned(u64::from(*node));
            self.unsigned(u64::from(*weight));
        }
    }

    fn body(&mut self, body: &Body) {
        let (statements, otherwise) = match body {
            Body::Script(script) => {
                self.byte(1);
                return self.blob(script.as_bytes());
            }
            Body::Statements(statements, otherwise) => (statements, otherwise),
        };
        self.byte(0);
        self.count(statements.len());
        for statement in statements {
            match statement {
                Statement::Let { name, value } => {
                    self.byte(0);
                    self.blob(name.as_bytes());
                    self.blob(&expression::encode(value));
                }
                Statement::When { condition, slot } => {
                    self.byte(1);
                    self.blob(&expression::encode(condition));
                    for expr in slot {
                        self.blob(&expression::encode(expr));
                    }
                }
            }
        }
        match otherwise {
            Otherwise::Error => self.byte(0),
            Otherwise::All => self.byte(1),
            Otherwise::Slot(slot) => {
                self.byte(2);
                for expr in slot {
                    self.blob(&expression::encode(expr));
                }
            }
        }
    }

    fn place(&mut self, line: &PlaceLine) {
        self.count(line.slots.len());
        for span in &line.slots {
            self.option(span.as_ref(), |out, (first, last)| {
                out.signed(*first);
                out.signed(*last);
            });
        }
        self.template(&line.cluster);
        self.template(&line.table);
    }

    fn template(&mut self, template: &Template) {
        self.count(template.pieces.len());
        for piece in &template.pieces {
            match piece {
                Piece::Text(text) => {
                    self.byte(0);
                    self.blob(text.as_bytes());
                }
                Piece::Coordinate {
                    dimension,
                    divide,
                    modulo,
                    add,
                    width,
                } => {
                    self.byte(1);
                    self.byte(*dimension);
                    self.unsigned(u64::from(*divide));
                    self.unsigned(u64::from(*modulo));
                    self.signed(*add);
                    self.byte(*width);
                }
            }
        }
    }
}

pub(super) fn encode(rule: &Rule, part: Part) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes.extend_from_slice(MAGIC);
    out.byte(FORMAT);
    out.byte(match rule.kind {
        Kind::Store => 0,
        Kind::Cache => 1,
    });
    out.blob(rule.name.as_bytes());
    if part == Part::Whole {
        out.unsigned(rule.version);
    }
    out.option(rule.zone.as_ref(), |out, it| out.blob(it.as_bytes()));
    out.option(rule.zone_data.as_ref(), |out, it| out.blob(it.as_bytes()));
    out.count(rule.fields.len());
    rule.fields.iter().for_each(|it| out.field(it));
    out.count(rule.dimensions.len());
    for dimension in &rule.dimensions {
        out.blob(dimension.name.as_bytes());
        out.signed(dimension.first);
        out.signed(dimension.last);
    }
    out.option(rule.key.as_ref(), |out, it| out.key(it));
    out.count(rule.definitions.len());
    rule.definitions.iter().for_each(|it| out.definition(it));
    out.body(&rule.body);
    if part == Part::Whole {
        out.count(rule.places.len());
        rule.places.iter().for_each(|it| out.place(it));
    }
    out.bytes
}
