//! From what the grammar built to a rule: names become numbers, constants get types. Faults point at their place.

use super::{
    literal,
    nodes::nodes_of,
    raw::{
        At, Fault, RawElse, RawExpr, RawItem, RawKeyPart, RawList, RawLiteral, RawNode, RawNull,
        RawRule,
    },
    template::template,
};
use crate::{
    function::{ZONE_DATA_VERSION, Zone},
    key::{KeyPart, KeySchema},
    limits,
    place::PlaceLine,
    rule::{
        Binary, Body, Definition, DefinitionBody, DefinitionType, Domain, Expr, Field, Function,
        Kind, ListRef, NullPolicy, Otherwise, Rule, Scope, Statement, TypeFault, Unary, uses_zones,
    },
    slot::Dimension,
    value::{Literal, Type},
};

/// Everything named so far.
pub(crate) struct Resolver {
    pub(crate) fields: Vec<Field>,
    dimensions: Vec<Dimension>,
    definitions: Vec<Definition>,
    lets: Vec<String>,
    pub(crate) scope: Scope,
    zone: Zone,
    /// Version of the zone data that all zones of the rule are of.
    zone_data: String,
}

/// An expression and its type.
type Typed = (Expr, Type);

impl Fault {
    fn typed(at: usize, fault: TypeFault) -> Fault {
        Fault::new(at, fault.message).expecting(fault.expected)
    }
}

pub(crate) fn resolve(raw: RawRule) -> Result<Rule, Fault> {
    let mut resolver = Resolver {
        fields: Vec::new(),
        dimensions: Vec::new(),
        definitions: Vec::new(),
        lets: Vec::new(),
        scope: Scope::default(),
        zone: Zone::utc(),
        zone_data: ZONE_DATA_VERSION.to_owned(),
    };
    let (zone, zone_data) = resolver.read_zone(&raw.items)?;
    for item in &raw.items {
        resolver.declare(item)?;
    }
    for item in &raw.items {
        resolver.define(item)?;
    }
    let body = resolver.body(&raw)?;
    let mut rule = Rule {
        kind: if raw.is_cache {
            Kind::Cache
        } else {
            Kind::Store
        },
        name: raw.name.it,
        version: raw.version,
        zone,
        zone_data: None,
        key: resolver.key(&raw.items)?,
        places: resolver.places(&raw.items)?,
        fields: resolver.fields,
        dimensions: resolver.dimensions,
        definitions: resolver.definitions,
        body,
    };
    if uses_zones(&rule) {
        rule.zone_data = Some(zone_data.unwrap_or_else(|| ZONE_DATA_VERSION.to_owned()));
    }
    Ok(rule)
}

impl Resolver {
    /// For conditions on the fields of a rule that exists.
    pub(crate) fn for_conditions(rule: &Rule) -> Result<Resolver, String> {
        let data = rule.zone_data.as_deref().unwrap_or(ZONE_DATA_VERSION);
        Ok(Resolver {
            fields: rule.fields.clone(),
            dimensions: Vec::new(),
            definitions: rule.definitions.clone(),
            lets: Vec::new(),
            scope: Scope {
                fields: rule.fields.iter().map(|it| it.ty).collect(),
                locals: Vec::new(),
                definitions: rule
                    .definitions
                    .iter()
                    .map(|it| DefinitionType::of(&it.body))
                    .collect(),
            },
            zone: rule.load_zone().map_err(|fault| fault.message)?,
            zone_data: data.to_owned(),
        })
    }

    fn read_zone(
        &mut self,
        items: &[At<RawItem>],
    ) -> Result<(Option<String>, Option<String>), Fault> {
        let mut found = None;
        for item in items {
            let RawItem::Zone(name, data) = &item.it else {
                continue;
            };
            if found.is_some() {
                return Err(Fault::new(item.at, "a second zone"));
            }
            let version = data.as_ref().map_or(ZONE_DATA_VERSION, |it| it.it.as_str());
            let zone = name.as_ref().map_or("UTC", |it| &it.it);
            let at = name.as_ref().or(data.as_ref()).map_or(item.at, |it| it.at);
            self.zone = Zone::load_version(version, zone)
                .map_err(|fault| Fault::new(at, fault.to_string()))?;
            version.clone_into(&mut self.zone_data);
            found = Some((
                name.as_ref().map(|it| it.it.clone()),
                data.as_ref().map(|it| it.it.clone()),
            ));
        }
        Ok(found.unwrap_or_default())
    }

    /// Fields and dimensions.
    fn declare(&mut self, item: &At<RawItem>) -> Result<(), Fault> {
        match &item.it {
            RawItem::Field {
                name,
                ty,
                null,
                domain,
            } => {
                if self.fields.len() == limits::FIELDS_MAX {
                    return Err(Fault::new(
                        item.at,
                        format!("more than {} fields", limits::FIELDS_MAX),
                    ));
                }
                let ty = type_of(ty)?;
                let null = match null {
                    RawNull::Unsaid | RawNull::Error => NullPolicy::Error,
                    RawNull::Slot(slot) => NullPolicy::Slot(slot.clone()),
                    RawNull::Value(value) => NullPolicy::Value(self.literal(value, Some(ty))?),
                };
                let domain = match domain {
                    None => None,
                    Some((first, last, step)) => Some(Domain {
                        first: self.literal(first, Some(ty))?,
                        last: self.literal(last, Some(ty))?,
                        step: *step,
                    }),
                };
                self.scope.fields.push(ty);
                self.fields.push(Field {
                    name: name.clone(),
                    ty,
                    null,
                    domain,
                });
            }
            RawItem::Dimension(name, first, last) => self.dimensions.push(Dimension {
                name: name.clone(),
                first: *first,
                last: *last,
            }),
            _ => {}
        }
        Ok(())
    }

    fn define(&mut self, item: &At<RawItem>) -> Result<(), Fault> {
        let (name, body) = match &item.it {
            RawItem::List(name, ty, entries) => {
                let ty = ty.as_ref().map(type_of).transpose()?;
                (name, DefinitionBody::List(self.list(entries, ty)?))
            }
            RawItem::Table {
                name,
                key,
                result,
                entries,
                otherwise,
            } => {
                let (key, result) = (type_of(key)?, type_of(result)?);
                let mut pairs = Vec::with_capacity(entries.len());
                for (from, to) in entries {
                    pairs.push((
                        self.literal(from, Some(key))?,
                        self.literal(to, Some(result))?,
                    ));
                }
                pairs.sort();
                let otherwise = self.literal(otherwise, Some(result))?;
                let body = DefinitionBody::Table {
                    key,
                    result,
                    entries: pairs,
                    otherwise,
                };
                (name, body)
            }
            RawItem::Ranges {
                name,
                key,
                first,
                bounds,
            } => {
                let key = type_of(key)?;
                let mut pairs = Vec::with_capacity(bounds.len());
                for (bound, value) in bounds {
                    let literal = self.literal(bound, Some(key))?;
                    if pairs.last().is_some_and(|(before, _)| *before >= literal) {
                        return Err(Fault::new(bound.at, "the bounds do not ascend"));
                    }
                    pairs.push((literal, *value));
                }
                let body = DefinitionBody::Ranges {
                    key,
                    first: *first,
                    bounds: pairs,
                };
                (name, body)
            }
            RawItem::Nodes {
                algorithm,
                name,
                nodes,
                options,
            } => (
                name,
                DefinitionBody::Nodes(nodes_of(*algorithm, nodes, options)?),
            ),
            _ => return Ok(()),
        };
        if Function::from_name(name).is_some() {
            return Err(Fault::new(
                item.at,
                format!("{name} is a built-in function"),
            ));
        }
        self.scope.definitions.push(DefinitionType::of(&body));
        self.definitions.push(Definition {
            name: name.clone(),
            body,
        });
        Ok(())
    }

    /// Sorted, without repeats.
    fn list(&self, entries: &[At<RawLiteral>], ty: Option<Type>) -> Result<Vec<Literal>, Fault> {
        let mut wanted = ty;
        let mut list = Vec::with_capacity(entries.len());
        for entry in entries {
            let literal = self.literal(entry, wanted)?;
            wanted = Some(literal.ty());
            list.push(literal);
        }
        list.sort();
        list.dedup();
        Ok(list)
    }

    fn body(&mut self, raw: &RawRule) -> Result<Body, Fault> {
        let mut statements = Vec::new();
        let mut otherwise = None;
        let mut script = None;
        for item in &raw.items {
            let at = item.at;
            let decides = matches!(
                item.it,
                RawItem::Let(..) | RawItem::When(..) | RawItem::Else(_) | RawItem::Script(_)
            );
            if !decides {
                continue;
            }
            if otherwise.is_some() || script.is_some() {
                return Err(Fault::new(
                    at,
                    "a statement behind else or a script is never reached",
                ));
            }
            match &item.it {
                RawItem::Let(name, value) => {
                    let (value, ty) = self.expr(value, None)?;
                    if self.lets.contains(name) || self.fields.iter().any(|it| it.name == *name) {
                        return Err(Fault::new(at, format!("{name} is declared twice")));
                    }
                    self.lets.push(name.clone());
                    self.scope.locals.push(ty);
                    statements.push(Statement::Let {
                        name: name.clone(),
                        value,
                    });
                }
                RawItem::When(condition, slot) => {
                    let condition = self.condition(condition)?;
                    let slot = self.slot(slot, at)?;
                    statements.push(Statement::When { condition, slot });
                }
                RawItem::Else(RawElse::Error) => otherwise = Some(Otherwise::Error),
                RawItem::Else(RawElse::All) => otherwise = Some(Otherwise::All),
                RawItem::Else(RawElse::Slot(slot)) => {
                    otherwise = Some(Otherwise::Slot(self.slot(slot, at)?));
                }
                RawItem::Script(text) if statements.is_empty() => script = Some(text.clone()),
                _ => {
                    return Err(Fault::new(
                        at,
                        "a rule has statements or a script, not both",
                    ));
                }
            }
        }
        match (otherwise, script) {
            (_, Some(script)) => Ok(Body::Script(script)),
            (Some(otherwise), None) => Ok(Body::Statements(statements, otherwise)),
            (None, None) => Err(Fault::new(
                raw.name.at,
                "the rule does not say what happens when no alternative holds",
            )
            .expecting(["else error;", "else all;", "else (…);", "script \"…\";"])),
        }
    }

    fn condition(&self, raw: &RawExpr) -> Result<Expr, Fault> {
        match self.expr(raw, Some(Type::Bool))? {
            (condition, Type::Bool) => Ok(condition),
            (_, ty) => {
                Err(Fault::new(raw.at, format!("a condition of the type {ty}")).expecting(["bool"]))
            }
        }
    }

    fn slot(&self, raw: &[RawExpr], at: usize) -> Result<Vec<Expr>, Fault> {
        if raw.len() != self.dimensions.len() {
            return Err(Fault::new(
                raw.first().map_or(at, |it| it.at),
                format!("a slot of {} numbers", raw.len()),
            )
            .expecting([format!("{}, one for each dimension", self.dimensions.len())]));
        }
        raw.iter()
            .map(|raw| match self.expr(raw, None)? {
                (expr, ty) if ty.is_integer() => Ok(expr),
                (_, ty) => Err(Fault::new(raw.at, format!("a slot's number is {ty}"))
                    .expecting(["i64", "u64"])),
            })
            .collect()
    }

    /// An expression and its type; `wanted` is what constants without a type of their own become.
    pub(crate) fn expr(&self, raw: &RawExpr, wanted: Option<Type>) -> Result<(Expr, Type), Fault> {
        let at = raw.at;
        let (expr, below) = match &raw.node {
            RawNode::Literal(literal) => {
                (Expr::Literal(self.constant(literal, at, wanted)?), vec![])
            }
            RawNode::Name(name) => (self.name(name, at)?, vec![]),
            RawNode::Unary(operator, a) => {
                let (a, ty) = self.expr(a, wanted)?;
                (Expr::Unary(*operator, Box::new(a)), vec![ty])
            }
            RawNode::Binary(operator, a, b) => {
                let wanted = wanted.filter(|_| operator.is_arithmetic());
                let ((a, a_ty), (b, b_ty)) = self.pair(a, b, wanted)?;
                (
                    Expr::Binary(*operator, Box::new(a), Box::new(b)),
                    vec![a_ty, b_ty],
                )
            }
            RawNode::If(parts) => {
                let [condition, a, b] = &**parts;
                let condition = self.condition(condition)?;
                let ((a, a_ty), (b, b_ty)) = self.pair(a, b, wanted)?;
                (
                    Expr::If(Box::new([condition, a, b])),
                    vec![Type::Bool, a_ty, b_ty],
                )
            }
            RawNode::In(a, negated, list) => return self.membership(a, *negated, list, at),
            RawNode::Between(a, negated, low, high) => {
                return self.between(a, *negated, low, high, at);
            }
            RawNode::Call(name, arguments) => self.call(name, arguments, at)?,
            RawNode::Like(..) | RawNode::IsNull(..) => {
                return Err(Fault::new(
                    at,
                    "like and is null belong in conditions of queries; a rule's fields say what null \
                     means where they are declared",
                ));
            }
        };
        let ty = self
            .scope
            .node_type(&expr, &below)
            .map_err(|fault| Fault::typed(at, fault))?;
        Ok((expr, ty))
    }

    /// Two expressions of one type: the one that does not follow from its own parts follows the other.
    fn pair(
        &self,
        a: &RawExpr,
        b: &RawExpr,
        wanted: Option<Type>,
    ) -> Result<(Typed, Typed), Fault> {
        if is_flexible(a) && !is_flexible(b) {
            let b = self.expr(b, wanted)?;
            return Ok((self.expr(a, Some(b.1))?, b));
        }
        let a = self.expr(a, wanted)?;
        let b = self.expr(b, Some(a.1))?;
        Ok((a, b))
    }

    fn name(&self, name: &str, at: usize) -> Result<Expr, Fault> {
        let number = |it: usize| u16::try_from(it).unwrap_or(u16::MAX);
        if let Some(field) = self.fields.iter().position(|it| it.name == name) {
            return Ok(Expr::Field(number(field)));
        }
        if let Some(local) = self.lets.iter().position(|it| it == name) {
            return Ok(Expr::Local(number(local)));
        }
        let known = self.fields.iter().map(|it| &it.name).chain(&self.lets);
        Err(Fault::new(at, format!("there is no field or let {name} here")).expecting(known))
    }

    fn definition(&self, name: &str) -> Option<u16> {
        let at = self.definitions.iter().position(|it| it.name == name)?;
        u16::try_from(at).ok()
    }

    fn call(
        &self,
        name: &str,
        arguments: &[RawExpr],
        at: usize,
    ) -> Result<(Expr, Vec<Type>), Fault> {
        if let Some(definition) = self.definition(name) {
            let [argument] = arguments else {
                return Err(Fault::new(at, format!("{name} takes one argument")));
            };
            let wanted = match self.scope.definitions.get(usize::from(definition)) {
                Some(DefinitionType::Function { argument, .. }) => Some(*argument),
                _ => None,
            };
            let (argument, ty) = self.expr(argument, wanted)?;
            return Ok((Expr::Lookup(definition, Box::new(argument)), vec![ty]));
        }
        let Some(function) = Function::from_name(name) else {
            let first = name.as_bytes().first();
            let near = Function::ALL
                .iter()
                .map(|it| it.name())
                .chain(self.definitions.iter().map(|it| it.name.as_str()))
                .filter(|it| it.as_bytes().first() == first);
            return Err(Fault::new(at, format!("there is no function {name}")).expecting(near));
        };
        if arguments.len() > function.arguments_max() {
            return Err(
                Fault::new(at, format!("{name} of {} arguments", arguments.len()))
                    .expecting([function.usage()]),
            );
        }
        if let (Function::Min | Function::Max, [a, b]) = (function, arguments) {
            let ((a, a_ty), (b, b_ty)) = self.pair(a, b, None)?;
            return Ok((Expr::Call(function, vec![a, b]), vec![a_ty, b_ty]));
        }
        let mut exprs = Vec::with_capacity(arguments.len());
        let mut types = Vec::with_capacity(arguments.len());
        for (number, argument) in arguments.iter().enumerate() {
            let (expr, ty) = self.expr(argument, function.wanted(number))?;
            if function.has_zone()
                && number == 1
                && let Expr::Literal(Literal::Str(zone)) = &expr
            {
                Zone::load_version(&self.zone_data, zone)
                    .map_err(|fault| Fault::new(argument.at, fault.to_string()))?;
            }
            exprs.push(expr);
            types.push(ty);
        }
        Ok((Expr::Call(function, exprs), types))
    }

    fn membership(
        &self,
        a: &RawExpr,
        negated: bool,
        list: &RawList,
        at: usize,
    ) -> Result<(Expr, Type), Fault> {
        let (a, ty) = self.expr(a, None)?;
        let list = match list {
            RawList::Inline(entries) => ListRef::Inline(self.list(entries, Some(ty))?),
            RawList::Named(name) => {
                let lists = self
                    .definitions
                    .iter()
                    .filter(|it| matches!(it.body, DefinitionBody::List(_)));
                let definition = self.definition(&name.it).ok_or_else(|| {
                    Fault::new(name.at, format!("there is no list {}", name.it))
                        .expecting(lists.map(|it| &it.name))
                })?;
                ListRef::Named(definition)
            }
        };
        let expr = Expr::In(Box::new(a), list);
        self.scope
            .node_type(&expr, &[ty])
            .map_err(|fault| Fault::typed(at, fault))?;
        Ok((negate_if(negated, expr), Type::Bool))
    }

    fn between(
        &self,
        a: &RawExpr,
        negated: bool,
        low: &At<RawLiteral>,
        high: &At<RawLiteral>,
        at: usize,
    ) -> Result<(Expr, Type), Fault> {
        let (a, ty) = self.expr(a, None)?;
        let low = self.literal(low, Some(ty))?;
        let high = self.literal(high, Some(ty))?;
        if low.ty() != ty || high.ty() != ty {
            return Err(Fault::new(at, format!("{ty} between other types")).expecting([ty]));
        }
        let compare =
            |sign, bound| Expr::Binary(sign, Box::new(a.clone()), Box::new(Expr::Literal(bound)));
        let expr = Expr::Binary(
            Binary::And,
            Box::new(compare(Binary::GreaterEqual, low)),
            Box::new(compare(Binary::LessEqual, high)),
        );
        Ok((negate_if(negated, expr), Type::Bool))
    }

    pub(crate) fn literal(
        &self,
        raw: &At<RawLiteral>,
        wanted: Option<Type>,
    ) -> Result<Literal, Fault> {
        let literal = self.constant(&raw.it, raw.at, wanted)?;
        match wanted {
            Some(ty) if ty != literal.ty() => Err(Fault::new(
                raw.at,
                format!("a constant of the type {}", literal.ty()),
            )
            .expecting([ty])),
            _ => Ok(literal),
        }
    }

    fn constant(
        &self,
        raw: &RawLiteral,
        at: usize,
        wanted: Option<Type>,
    ) -> Result<Literal, Fault> {
        let too_big = || Fault::new(at, "the number does not fit its type");
        let text = |ty: Type, text: &str| {
            literal::from_text(ty, text, &self.zone).ok_or_else(|| {
                Fault::new(at, format!("'{text}' is no {ty}")).expecting([literal::form(ty)])
            })
        };
        match (raw, wanted) {
            (RawLiteral::Bool(it), _) => Ok(Literal::Bool(*it)),
            (RawLiteral::Number(false, magnitude, is_unsigned), wanted)
                if *is_unsigned || wanted == Some(Type::U64) =>
            {
                Ok(Literal::U64(*magnitude))
            }
            (RawLiteral::Number(true, _, true), _) => Err(too_big()),
            (RawLiteral::Number(is_negative, magnitude, _), _) => {
                let value = i128::from(*magnitude) * if *is_negative { -1 } else { 1 };
                i64::try_from(value)
                    .map(Literal::I64)
                    .map_err(|_| too_big())
            }
            (RawLiteral::Text(it), Some(ty @ (Type::Date | Type::Timestamp | Type::Uuid))) => {
                text(ty, it)
            }
            (RawLiteral::Text(it), _) => text(Type::Str, it),
            (RawLiteral::Typed(name, it), _) => match Type::from_name(name) {
                Some(ty @ (Type::Date | Type::Timestamp | Type::Uuid | Type::Bytes)) => {
                    text(ty, it)
                }
                _ => Err(Fault::new(at, format!("{name} before a text")).expecting([
                    "date",
                    "timestamp",
                    "uuid",
                    "bytes",
                ])),
            },
        }
    }

    fn key(&self, items: &[At<RawItem>]) -> Result<Option<KeySchema>, Fault> {
        let mut key = None;
        for item in items {
            let RawItem::Key(raw) = &item.it else {
                continue;
            };
            if key.is_some() {
                return Err(Fault::new(item.at, "a second key"));
            }
            let parts = raw
                .iter()
                .map(|part| self.key_part(part))
                .collect::<Result<_, _>>()?;
            key = Some(KeySchema { parts });
        }
        Ok(key)
    }

    fn key_part(&self, part: &At<RawKeyPart>) -> Result<KeyPart, Fault> {
        let field = |name: &String| match self.name(name, part.at) {
            Ok(Expr::Field(field)) => Ok(field),
            _ => Err(Fault::new(part.at, format!("there is no field {name}"))
                .expecting(self.fields.iter().map(|it| &it.name))),
        };
        let width = |it: u64| {
            u16::try_from(it).map_err(|_| Fault::new(part.at, "a width of more than 65535 bytes"))
        };
        let separator = |it: &At<RawLiteral>| match self.literal(it, None)? {
            Literal::Str(text) => Ok(text.into_bytes()),
            Literal::Bytes(bytes) => Ok(bytes),
            _ => Err(Fault::new(it.at, "no separator").expecting(["\"text\"", "bytes \"hex\""])),
        };
        Ok(match &part.it {
            RawKeyPart::Fixed(name, None) => KeyPart::Fixed {
                field: field(name)?,
            },
            RawKeyPart::Fixed(name, Some(bytes)) => KeyPart::Width {
                field: field(name)?,
                bytes: width(*bytes)?,
            },
            RawKeyPart::Reversed(name) => KeyPart::Reversed {
                field: field(name)?,
            },
            RawKeyPart::Until(name, it) => KeyPart::Until {
                field: field(name)?,
                separator: separator(it)?,
            },
            RawKeyPart::Decimal(name, it) => KeyPart::Decimal {
                field: field(name)?,
                separator: separator(it)?,
            },
            RawKeyPart::Rest(name) => KeyPart::Rest {
                field: field(name)?,
            },
            RawKeyPart::Skip(bytes) => KeyPart::Skip {
                bytes: bytes.map(width).transpose()?,
            },
        })
    }

    fn places(&self, items: &[At<RawItem>]) -> Result<Vec<PlaceLine>, Fault> {
        let mut lines = Vec::new();
        for item in items {
            let RawItem::Place {
                slots,
                cluster,
                table,
            } = &item.it
            else {
                continue;
            };
            let cluster = match cluster {
                Some(text) => template(text, &self.dimensions)?,
                None => Default::default(),
            };
            let all = slots.iter().all(Option::is_none);
            lines.push(PlaceLine {
                slots: if all { Vec::new() } else { slots.clone() },
                cluster,
                table: template(table, &self.dimensions)?,
            });
        }
        Ok(lines)
    }
}

/// Numbers and quoted text without a type of their own, and what is calculated from such.
fn is_flexible(raw: &RawExpr) -> bool {
    match &raw.node {
        RawNode::Literal(RawLiteral::Number(_, _, is_unsigned)) => !is_unsigned,
        RawNode::Literal(RawLiteral::Text(_)) => true,
        RawNode::Unary(Unary::Negate, a) => is_flexible(a),
        RawNode::Binary(operator, a, b) => {
            operator.is_arithmetic() && is_flexible(a) && is_flexible(b)
        }
        _ => false,
    }
}

fn negate_if(negated: bool, expr: Expr) -> Expr {
    match negated {
        true => Expr::Unary(Unary::Not, Box::new(expr)),
        false => expr,
    }
}

fn type_of(name: &At<String>) -> Result<Type, Fault> {
    Type::from_name(&name.it).ok_or_else(|| {
        Fault::new(name.at, format!("there is no type {}", name.it)).expecting(Type::ALL)
    })
}
