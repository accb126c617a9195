//! Conditions on the fields of a rule: what a query says about the rows it wants. Typed, n-ary, with open and closed
//! bounds; `now()` is replaced by the caller once per statement (R50, R51). Knows nothing of slots.

use crate::{
    error::RuleError,
    function::{ZONE_DATA_VERSION, Zone, calendar},
    rule::{Binary, DefinitionBody, Expr, Names, Rule, Unary},
    text::{self, At, Fault, RawExpr, RawList, RawLiteral, RawNode, Resolver},
    value::{Literal, Type},
};

/// A condition. Fields are numbers of the rule's fields; literals have the field's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Predicate {
    /// Holds for every row.
    True,
    /// Holds for no row.
    False,
    /// All hold.
    And(Vec<Predicate>),
    /// One holds.
    Or(Vec<Predicate>),
    /// Does not hold. SQL's null logic: a comparison with null is neither true nor false, so `not (a < 1)` selects no null.
    Not(Box<Predicate>),
    /// Field against value.
    Compare(u16, Comparison, Literal),
    /// Field is one of these.
    In(u16, Vec<Literal>),
    /// Field lies between these, both included.
    Between(u16, Literal, Literal),
    /// Text or bytes begin with this (`like 'p%'`).
    Prefix(u16, Literal),
    /// Field is null.
    IsNull(u16),
    /// A condition that enumeration does not understand. It never narrows the tables, but rows are tested by it ([`super::Filter`]).
    Opaque(Opaque),
}

/// A condition that enumeration does not understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Its text.
    pub text: String,
    pub(super) test: Test,
}

/// How a row is tested by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// An expression of type bool.
    Expression(Expr),
    /// A field and the pattern it must be like.
    Like(u16, String),
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

impl Predicate {
    /// Reads a condition in the words of the rule language, with `is null`, `between`, `like` and `now()`, on the fields of
    /// a rule: `gmt > '2012-01-01' and gmt <= now() and user_id in (7, 8)`. `now` is the time of the statement in
    /// microseconds since 1970. What is no comparison of a field with constants becomes [`Predicate::Opaque`].
    pub fn parse(rule: &Rule, condition: &str, now: Option<i64>) -> Result<Predicate, RuleError> {
        let raw = text::parse_condition(condition)?;
        let resolver = Resolver::for_conditions(rule).map_err(RuleError::new)?;
        let reader = Reader {
            rule,
            resolver,
            now,
        };
        reader
            .read(&raw)
            .map_err(|fault| text::located(condition, fault))
    }
}

impl Predicate {
    /// Every field that the condition looks at.
    #[must_use]
    pub fn fields(&self) -> std::collections::BTreeSet<u16> {
        let mut found = std::collections::BTreeSet::new();
        self.collect(&mut found);
        found
    }

    fn collect(&self, found: &mut std::collections::BTreeSet<u16>) {
        match self {
            Predicate::True | Predicate::False => {}
            Predicate::And(terms) | Predicate::Or(terms) => {
                terms.iter().for_each(|it| it.collect(found));
            }
            Predicate::Not(inner) => inner.collect(found),
            Predicate::Compare(at, ..)
            | Predicate::In(at, ..)
            | Predicate::Between(at, ..)
            | Predicate::Prefix(at, ..)
            | Predicate::IsNull(at) => {
                found.insert(*at);
            }
            Predicate::Opaque(opaque) => match &opaque.test {
                Test::Like(at, _) => {
                    found.insert(*at);
                }
                Test::Expression(expr) => crate::rule::walk(expr, &mut |it| {
                    if let Expr::Field(at) = it {
                        found.insert(*at);
                    }
                }),
            },
        }
    }
}

struct Reader<'r> {
    rule: &'r Rule,
    resolver: Resolver,
    now: Option<i64>,
}

impl Reader<'_> {
    fn read(&self, raw: &RawExpr) -> Result<Predicate, Fault> {
        Ok(match &raw.node {
            RawNode::Binary(Binary::And, a, b) => {
                Predicate::And(vec![self.read(a)?, self.read(b)?])
            }
            RawNode::Binary(Binary::Or, a, b) => Predicate::Or(vec![self.read(a)?, self.read(b)?]),
            RawNode::Unary(Unary::Not, a) => Predicate::Not(Box::new(self.read(a)?)),
            RawNode::Literal(RawLiteral::Bool(true)) => Predicate::True,
            RawNode::Literal(RawLiteral::Bool(false)) => Predicate::False,
            RawNode::Name(_) => match self.field(raw) {
                Some((field, Type::Bool)) => {
                    Predicate::Compare(field, Comparison::Equal, Literal::Bool(true))
                }
                _ => self.opaque(raw)?,
            },
            RawNode::Binary(operator, a, b) if operator.is_comparison() => {
                self.comparison(raw, *operator, a, b)?
            }
            RawNode::In(a, negated, list) => {
                let Some((field, ty)) = self.field(a) else {
                    return self.opaque(raw);
                };
                negate_if(*negated, Predicate::In(field, self.list(list, ty)?))
            }
            RawNode::Between(a, negated, low, high) => {
                let Some((field, ty)) = self.field(a) else {
                    return self.opaque(raw);
                };
                let low = self.resolver.literal(low, Some(ty))?;
                let high = self.resolver.literal(high, Some(ty))?;
                negate_if(*negated, Predicate::Between(field, low, high))
            }
            RawNode::Like(a, negated, pattern) => {
                let Some((field, Type::Str)) = self.field(a) else {
                    return Err(Fault::new(raw.at, "like is of a field of text"));
                };
                negate_if(*negated, self.like(field, pattern)?)
            }
            RawNode::IsNull(a, negated) => match self.field(a) {
                Some((field, _)) => negate_if(*negated, Predicate::IsNull(field)),
                None => return Err(Fault::new(raw.at, "is null is of a field")),
            },
            _ => self.opaque(raw)?,
        })
    }

    fn field(&self, raw: &RawExpr) -> Option<(u16, Type)> {
        let RawNode::Name(name) = &raw.node else {
            return None;
        };
        let field = self.rule.field(name)?;
        Some((field, self.rule.fields[usize::from(field)].ty))
    }

    /// The constant that a side of a comparison is.
    fn constant(&self, raw: &RawExpr, ty: Type) -> Result<Option<Literal>, Fault> {
        match &raw.node {
            RawNode::Literal(literal) => {
                let literal = At {
                    at: raw.at,
                    it: literal.clone(),
                };
                Ok(Some(self.resolver.literal(&literal, Some(ty))?))
            }
            RawNode::Call(name, arguments) if name == "now" && arguments.is_empty() => {
                let now = self
                    .now
                    .ok_or_else(|| Fault::new(raw.at, "now() has no value here"))?;
                match ty {
                    Type::Timestamp => Ok(Some(Literal::Timestamp(now))),
                    Type::Date => Ok(Some(Literal::Date(self.today(now)))),
                    _ => Err(Fault::new(raw.at, format!("now() beside {ty}"))
                        .expecting([Type::Timestamp, Type::Date])),
                }
            }
            _ => Ok(None),
        }
    }

    /// The date of now in the rule's zone.
    fn today(&self, now: i64) -> i32 {
        let zone = self.rule.zone.as_deref().unwrap_or("UTC");
        let data = self.rule.zone_data.as_deref().unwrap_or(ZONE_DATA_VERSION);
        let zone = Zone::load_version(data, zone).unwrap_or_else(|_| Zone::utc());
        let day = calendar::index(calendar::Unit::Day, now, &zone);
        i32::try_from(day).unwrap_or(i32::MAX)
    }

    fn comparison(
        &self,
        raw: &RawExpr,
        operator: Binary,
        a: &RawExpr,
        b: &RawExpr,
    ) -> Result<Predicate, Fault> {
        let (field, constant, operator) = match (self.field(a), self.field(b)) {
            (Some(field), None) => (field, b, operator),
            (None, Some(field)) => (field, a, mirrored(operator)),
            _ => return self.opaque(raw),
        };
        Ok(match self.constant(constant, field.1)? {
            Some(literal) => Predicate::Compare(field.0, comparison(operator), literal),
            None => self.opaque(raw)?,
        })
    }

    fn list(&self, list: &RawList, ty: Type) -> Result<Vec<Literal>, Fault> {
        match list {
            RawList::Inline(entries) => entries
                .iter()
                .map(|it| self.resolver.literal(it, Some(ty)))
                .collect(),
            RawList::Named(name) => {
                let definitions = self.rule.definitions.iter();
                let found = definitions.filter(|it| it.name == name.it);
                let mut found = found.filter_map(|it| match &it.body {
                    DefinitionBody::List(list) => Some(list.clone()),
                    _ => None,
                });
                let list = found
                    .next_back()
                    .ok_or_else(|| Fault::new(name.at, format!("there is no list {}", name.it)))?;
                match list.iter().all(|it| it.ty() == ty) {
                    true => Ok(list),
                    false => Err(Fault::new(name.at, "the list has another type").expecting([ty])),
                }
            }
        }
    }

    /// `'p%'` bounds a text; what stands behind the first wildcard does not.
    fn like(&self, field: u16, pattern: &At<RawLiteral>) -> Result<Predicate, Fault> {
        let Literal::Str(pattern) = self.resolver.literal(pattern, Some(Type::Str))? else {
            return Err(Fault::new(pattern.at, "like is followed by a text"));
        };
        let Some(wildcard) = pattern.find(['%', '_']) else {
            return Ok(Predicate::Compare(
                field,
                Comparison::Equal,
                Literal::Str(pattern),
            ));
        };
        let (prefix, rest) = pattern.split_at(wildcard);
        let prefix = Predicate::Prefix(field, Literal::Str(prefix.to_owned()));
        Ok(match rest {
            "%" => prefix,
            _ => Predicate::And(vec![
                prefix,
                Predicate::Opaque(Opaque {
                    text: format!("like {}", crate::rule::Quoted(&pattern)),
                    test: Test::Like(field, pattern.clone()),
                }),
            ]),
        })
    }

    fn opaque(&self, raw: &RawExpr) -> Result<Predicate, Fault> {
        let (expr, ty): (Expr, Type) = self.resolver.expr(raw, Some(Type::Bool))?;
        match ty {
            Type::Bool => Ok(Predicate::Opaque(Opaque {
                text: Names::of(self.rule).text(&expr),
                test: Test::Expression(expr),
            })),
            ty => {
                Err(Fault::new(raw.at, format!("a condition of the type {ty}"))
                    .expecting([Type::Bool]))
            }
        }
    }
}

fn negate_if(negated: bool, predicate: Predicate) -> Predicate {
    match negated {
        true => Predicate::Not(Box::new(predicate)),
        false => predicate,
    }
}

pub(super) fn mirrored(operator: Binary) -> Binary {
    match operator {
        Binary::Less => Binary::Greater,
        Binary::LessEqual => Binary::GreaterEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterEqual => Binary::LessEqual,
        same => same,
    }
}

pub(super) fn comparison(operator: Binary) -> Comparison {
    match operator {
        Binary::Equal => Comparison::Equal,
        Binary::NotEqual => Comparison::NotEqual,
        Binary::Less => Comparison::Less,
        Binary::LessEqual => Comparison::LessEqual,
        Binary::Greater => Comparison::Greater,
        _ => Comparison::GreaterEqual,
    }
}
