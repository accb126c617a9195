//! Reading a rule's bytes, which may come from anybody: nothing is believed, nothing is allocated from a number before
//! as many bytes as it claims are known to be there.

use super::{
    FORMAT, MAGIC, RuleHash,
    encode::{self, Part},
    expression,
};
use crate::{
    error::RuleError,
    key::{KeyPart, KeySchema},
    limits,
    place::{Piece, PlaceLine, Template},
    rule::{
        Body, Definition, DefinitionBody, Domain, Expr, Field, Kind, Nodes, NodesAlgorithm,
        NullPolicy, Otherwise, Rule, Statement,
    },
    slot::Dimension,
    value::{Literal, Type},
};

/// Bytes being read.
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    nodes: usize,
}

fn fault<T>(message: &str) -> Result<T, RuleError> {
    Err(RuleError::new(format!("bytecode: {message}")))
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader {
            bytes,
            at: 0,
            nodes: 0,
        }
    }
}

impl Reader<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn hash(&mut self) -> Result<RuleHash, RuleError> {
        match self.take(32)?.try_into() {
            Ok(hash) => Ok(RuleHash(hash)),
            Err(_) => fault("it ends too early"),
        }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Where the next `length` bytes end, if they are there.
    pub(crate) fn end_of(&self, length: usize) -> Result<usize, RuleError> {
        match self.at.checked_add(length) {
            Some(end) if end <= self.bytes.len() => Ok(end),
            _ => fault("it ends too early"),
        }
    }

    pub(crate) fn count_node(&mut self) -> Result<(), RuleError> {
        self.nodes += 1;
        if self.nodes > limits::NODES_MAX {
            return Err(RuleError::new(format!(
                "bytecode: more than {} operations",
                limits::NODES_MAX
            )));
        }
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<&[u8], RuleError> {
        let end = self.end_of(length)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, RuleError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn unsigned(&mut self) -> Result<u64, RuleError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return fault("a number of more than 64 bits");
            }
            value |= bits << shift;
            if byte < 0x80 {
                return match byte == 0 && shift > 0 {
                    true => fault("a number longer than it must be"),
                    false => Ok(value),
                };
            }
        }
        fault("a number of more than 64 bits")
    }

    pub(crate) fn signed(&mut self) -> Result<i64, RuleError> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A count of things, each of which takes at least a byte.
    pub(crate) fn count(&mut self, max: usize) -> Result<usize, RuleError> {
        let count = self.unsigned()?;
        let left = self.bytes.len() - self.at;
        match usize::try_from(count) {
            Ok(count) if count <= max && count <= left => Ok(count),
            _ => fault("a count over its limit"),
        }
    }

    pub(crate) fn small(&mut self) -> Result<u16, RuleError> {
        match u16::try_from(self.unsigned()?) {
            Ok(small) => Ok(small),
            Err(_) => fault("a number over its limit"),
        }
    }

    fn narrow(&mut self) -> Result<u32, RuleError> {
        match u32::try_from(self.unsigned()?) {
            Ok(narrow) => Ok(narrow),
            Err(_) => fault("a number over its limit"),
        }
    }

    pub(crate) fn blob(&mut self, max: usize) -> Result<Vec<u8>, RuleError> {
        let length = self.count(max)?;
        Ok(self.take(length)?.to_vec())
    }

    fn text(&mut self, max: usize) -> Result<String, RuleError> {
        String::from_utf8(self.blob(max)?).or_else(|_| fault("text that is not UTF-8"))
    }

    pub(crate) fn name(&mut self) -> Result<String, RuleError> {
        self.text(limits::NAME_BYTES_MAX)
    }

    fn flag(&mut self) -> Result<bool, RuleError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => fault("a flag that is neither 0 nor 1"),
        }
    }

    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, RuleError>,
    ) -> Result<Option<T>, RuleError> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn many<T>(
        &mut self,
        max: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, RuleError>,
    ) -> Result<Vec<T>, RuleError> {
        let count = self.count(max)?;
        (0..count).map(|_| read(self)).collect()
    }

    fn ty(&mut self) -> Result<Type, RuleError> {
        match Type::from_number(self.byte()?) {
            Some(ty) => Ok(ty),
            None => fault("an unknown type"),
        }
    }

    fn bare(&mut self, ty: Type) -> Result<Literal, RuleError> {
        Ok(match ty {
            Type::Bool => Literal::Bool(self.flag()?),
            Type::I64 => Literal::I64(self.signed()?),
            Type::U64 => Literal::U64(self.unsigned()?),
            Type::Str => Literal::Str(self.text(limits::STRING_BYTES_MAX)?),
            Type::Bytes => Literal::Bytes(self.blob(limits::STRING_BYTES_MAX)?),
            Type::Date => match i32::try_from(self.signed()?) {
                Ok(days) => Literal::Date(days),
                Err(_) => return fault("a date out of range"),
            },
            Type::Timestamp => Literal::Timestamp(self.signed()?),
            Type::Uuid => match self.take(16)?.try_into() {
                Ok(uuid) => Literal::Uuid(uuid),
                Err(_) => return fault("it ends too early"),
            },
        })
    }

    pub(crate) fn literal(&mut self) -> Result<Literal, RuleError> {
        let ty = self.ty()?;
        self.bare(ty)
    }

    pub(crate) fn list(&mut self) -> Result<Vec<Literal>, RuleError> {
        let count = self.count(limits::ENTRIES_MAX)?;
        if count == 0 {
            return fault("an empty list");
        }
        let ty = self.ty()?;
        (0..count).map(|_| self.bare(ty)).collect()
    }

    fn field(&mut self) -> Result<Field, RuleError> {
        let name = self.name()?;
        let ty = self.ty()?;
        let null = match self.byte()? {
            0 => NullPolicy::Error,
            1 => NullPolicy::Slot(self.many(limits::DIMENSIONS_MAX, Self::signed)?),
            2 => NullPolicy::Value(self.bare(ty)?),
            _ => return fault("an unknown policy for null"),
        };
        let domain = self.option(|it| {
            Ok(Domain {
                first: it.bare(ty)?,
                last: it.bare(ty)?,
                step: it.unsigned()?,
            })
        })?;
        Ok(Field {
            name,
            ty,
            null,
            domain,
        })
    }

    fn dimension(&mut self) -> Result<Dimension, RuleError> {
        Ok(Dimension {
            name: self.name()?,
            first: self.signed()?,
            last: self.signed()?,
        })
    }

    fn key(&mut self) -> Result<KeySchema, RuleError> {
        let separator = |it: &mut Self| it.blob(limits::SEPARATOR_BYTES_MAX);
        let parts = self.many(2 * limits::FIELDS_MAX, |it| {
            Ok(match it.byte()? {
                0 => KeyPart::Fixed { field: it.small()? },
                1 => KeyPart::Width {
                    field: it.small()?,
                    bytes: it.small()?,
                },
                2 => KeyPart::Reversed { field: it.small()? },
                3 => KeyPart::Until {
                    field: it.small()?,
                    separator: separator(it)?,
                },
                4 => KeyPart::Decimal {
                    field: it.small()?,
                    separator: separator(it)?,
                },
                5 => KeyPart::Rest { field: it.small()? },
                6 => KeyPart::Skip {
                    bytes: Some(it.small()?),
                },
                7 => KeyPart::Skip { bytes: None },
                _ => return fault("an unknown part of a key"),
            })
        })?;
        Ok(KeySchema { parts })
    }

    fn definition(&mut self) -> Result<Definition, RuleError> {
        let name = self.name()?;
        let body = match self.byte()? {
            0 => DefinitionBody::List(self.list()?),
            1 => {
                let (key, result) = (self.ty()?, self.ty()?);
                DefinitionBody::Table {
                    key,
                    result,
                    entries: self.many(limits::ENTRIES_MAX, |it| {
                        Ok((it.bare(key)?, it.bare(result)?))
                    })?,
                    otherwise: self.bare(result)?,
                }
            }
            2 => {
                let key = self.ty()?;
                DefinitionBody::Ranges {
                    key,
                    first: self.signed()?,
                    bounds: self
                        .many(limits::ENTRIES_MAX, |it| Ok((it.bare(key)?, it.signed()?)))?,
                }
            }
            3 => {
                let virtual_nodes = self.narrow()?;
                self.nodes(NodesAlgorithm::Ring { virtual_nodes })?
            }
            4 => self.nodes(NodesAlgorithm::Rendezvous)?,
            5 => {
                let entries = self.unsigned()?;
                self.nodes(NodesAlgorithm::Maglev { entries })?
            }
            6 => {
                let virtual_nodes = self.narrow()?;
                let above_mean_percent = self.narrow()?;
                self.nodes(NodesAlgorithm::BoundedRing {
                    virtual_nodes,
                    above_mean_percent,
                })?
            }
            _ => return fault("an unknown definition"),
        };
        Ok(Definition { name, body })
    }

    fn nodes(&mut self, algorithm: NodesAlgorithm) -> Result<DefinitionBody, RuleError> {
        let seed = self.unsigned()?;
        let nodes = self.many(limits::ENTRIES_MAX, |it| Ok((it.narrow()?, it.narrow()?)))?;
        Ok(DefinitionBody::Nodes(Nodes {
            algorithm,
            nodes,
            seed,
        }))
    }

    fn expr(&mut self) -> Result<Expr, RuleError> {
        let length = self.count(limits::CODE_BYTES_MAX)?;
        expression::decode(self, length)
    }

    fn slot(&mut self, dimensions: usize) -> Result<Vec<Expr>, RuleError> {
        (0..dimensions).map(|_| self.expr()).collect()
    }

    fn body(&mut self, dimensions: usize) -> Result<Body, RuleError> {
        if self.flag()? {
            return Ok(Body::Script(self.text(limits::SCRIPT_BYTES_MAX)?));
        }
        let statements = self.many(limits::STATEMENTS_MAX, |it| {
            Ok(match it.byte()? {
                0 => Statement::Let {
                    name: it.name()?,
                    value: it.expr()?,
                },
                1 => Statement::When {
                    condition: it.expr()?,
                    slot: it.slot(dimensions)?,
                },
                _ => return fault("an unknown statement"),
            })
        })?;
        let otherwise = match self.byte()? {
            0 => Otherwise::Error,
            1 => Otherwise::All,
            2 => Otherwise::Slot(self.slot(dimensions)?),
            _ => return fault("an unknown else"),
        };
        Ok(Body::Statements(statements, otherwise))
    }

    fn place(&mut self) -> Result<PlaceLine, RuleError> {
        Ok(PlaceLine {
            slots: self.many(limits::DIMENSIONS_MAX, |it| {
                it.option(|it| Ok((it.signed()?, it.signed()?)))
            })?,
            cluster: self.template()?,
            table: self.template()?,
        })
    }

    fn template(&mut self) -> Result<Template, RuleError> {
        let pieces = self.many(limits::NAME_BYTES_MAX, |it| {
            Ok(match it.flag()? {
                false => Piece::Text(it.name()?),
                true => Piece::Coordinate {
                    dimension: it.byte()?,
                    divide: it.narrow()?,
                    modulo: it.narrow()?,
                    add: it.signed()?,
                    width: it.byte()?,
                },
            })
        })?;
        Ok(Template { pieces })
    }

    fn rule(&mut self) -> Result<Rule, RuleError> {
        if self.take(MAGIC.len())? != MAGIC {
            return fault("these bytes are no rule");
        }
        let format = self.byte()?;
        if format != FORMAT {
            return fault(&format!("format {format}; this version reads {FORMAT}"));
        }
        let kind = match self.flag()? {
            false => Kind::Store,
            true => Kind::Cache,
        };
        let name = self.name()?;
        let version = self.unsigned()?;
        let zone = self.option(Self::name)?;
        let zone_data = self.option(Self::name)?;
        let fields = self.many(limits::FIELDS_MAX, Self::field)?;
        let dimensions = self.many(limits::DIMENSIONS_MAX, Self::dimension)?;
        let key = self.option(Self::key)?;
        let definitions = self.many(limits::DEFINITIONS_MAX, Self::definition)?;
        let body = self.body(dimensions.len())?;
        let places = self.many(limits::PLACES_MAX, Self::place)?;
        Ok(Rule {
            kind,
            name,
            version,
            zone,
            zone_data,
            fields,
            dimensions,
            key,
            definitions,
            body,
            places,
        })
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Rule, RuleError> {
    if bytes.len() > limits::CODE_BYTES_MAX {
        return fault("longer than its limit");
    }
    let mut reader = Reader::new(bytes);
    let rule = reader.rule()?;
    if reader.at != bytes.len() {
        return fault("bytes are left over");
    }
    crate::rule::check(&rule)?;
    if encode::encode(&rule, Part::Whole) != bytes {
        return fault("not the canonical form");
    }
    Ok(rule)
}
