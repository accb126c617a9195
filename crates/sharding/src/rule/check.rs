//! What makes a rule a rule: types, bounds, one form for one meaning. Text and bytecode both pass here, so that nothing
//! behind it has to doubt. Messages have no place in a text; `text` adds it where it resolves names itself.

use std::collections::BTreeSet;

use super::{
    Binary, Body, Definition, DefinitionBody, Expr, Field, Function, Kind, ListRef, Nodes,
    NodesAlgorithm, NullPolicy, Otherwise, Rule, Statement, Unary,
};
use crate::{
    error::RuleError,
    function::{Maglev, Rendezvous, Ring, Zone},
    key::{KeyPart, KeySchema},
    limits,
    place::{Piece, PlaceLine, Template, WIDTH_MAX},
    slot::Shape,
    value::{Literal, Type},
};

/// A fault of types, without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeFault {
    pub(crate) message: String,
    pub(crate) expected: Vec<String>,
}

impl From<TypeFault> for RuleError {
    fn from(fault: TypeFault) -> RuleError {
        RuleError::new(fault.message).expecting(fault.expected)
    }
}

fn fault<T>(message: impl Into<String>, expected: &[&str]) -> Result<T, TypeFault> {
    Err(TypeFault {
        message: message.into(),
        expected: expected.iter().map(|&it| it.to_owned()).collect(),
    })
}

/// The types of everything that an expression can name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) fields: Vec<Type>,
    pub(crate) locals: Vec<Type>,
    pub(crate) definitions: Vec<DefinitionType>,
}

/// How a definition may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionType {
    /// In `in`.
    List(Type),
    /// Called.
    Function { argument: Type, result: Type },
}

impl DefinitionType {
    pub(crate) fn of(definition: &DefinitionBody) -> DefinitionType {
        match definition {
            DefinitionBody::List(entries) => {
                DefinitionType::List(entries.first().map_or(Type::I64, Literal::ty))
            }
            DefinitionBody::Table { key, result, .. } => DefinitionType::Function {
                argument: *key,
                result: *result,
            },
            DefinitionBody::Ranges { key, .. } => DefinitionType::Function {
                argument: *key,
                result: Type::I64,
            },
            DefinitionBody::Nodes(_) => DefinitionType::Function {
                argument: Type::U64,
                result: Type::U64,
            },
        }
    }
}

impl Scope {
    /// The type of an expression.
    pub(crate) fn type_of(&self, expr: &Expr) -> Result<Type, TypeFault> {
        let below = expr
            .children()
            .into_iter()
            .map(|child| self.type_of(child))
            .collect::<Result<Vec<_>, _>>()?;
        self.node_type(expr, &below)
    }

    /// The type of an expression whose children have these types.
    pub(crate) fn node_type(&self, expr: &Expr, below: &[Type]) -> Result<Type, TypeFault> {
        match (expr, below) {
            (Expr::Literal(literal), _) => match literal.is_in_range() {
                true => Ok(literal.ty()),
                false => fault("the constant is out of range", &[]),
            },
            (Expr::Field(at), _) => named(&self.fields, *at, "field"),
            (Expr::Local(at), _) => named(&self.locals, *at, "let"),
            (Expr::Unary(Unary::Not, _), [Type::Bool]) => Ok(Type::Bool),
            (Expr::Unary(Unary::Not, _), [ty]) => fault(format!("not of {ty}"), &["bool"]),
            (Expr::Unary(Unary::Negate, a), [Type::I64]) => match **a {
                Expr::Literal(Literal::I64(0..)) => {
                    fault("a negated constant is a constant of its own", &[])
                }
                _ => Ok(Type::I64),
            },
            (Expr::Unary(Unary::Negate, _), [ty]) => fault(format!("- of {ty}"), &["i64"]),
            (Expr::Binary(operator, ..), [a, b]) => binary(*operator, *a, *b),
            (Expr::If(_), [condition, a, b]) => match (condition, a == b) {
                (Type::Bool, true) => Ok(*a),
                (Type::Bool, false) => {
                    fault(format!("then has the type {a} and else {b}"), &["one type"])
                }
                _ => fault(format!("a condition of the type {condition}"), &["bool"]),
            },
            (Expr::In(_, list), [ty]) => self.membership(list, *ty),
            (Expr::Call(function, arguments), types) => call(*function, arguments, types),
            (Expr::Lookup(at, _), [ty]) => match self.definition(*at)? {
                DefinitionType::Function { argument, result } if argument == *ty => Ok(result),
                DefinitionType::Function { argument, .. } => {
                    fault(format!("called with {ty}"), &[argument.name()])
                }
                DefinitionType::List(_) => fault("a list cannot be called", &[]),
            },
            _ => fault("the expression is malformed", &[]),
        }
    }

    fn definition(&self, at: u16) -> Result<DefinitionType, TypeFault> {
        match self.definitions.get(usize::from(at)) {
            Some(definition) => Ok(*definition),
            None => fault(format!("there is no definition {at}"), &[]),
        }
    }

    fn membership(&self, list: &ListRef, ty: Type) -> Result<Type, TypeFault> {
        let of = match list {
            ListRef::Inline(entries) => sorted(entries, "the list")?,
            ListRef::Named(at) => match self.definition(*at)? {
                DefinitionType::List(of) => of,
                DefinitionType::Function { .. } => return fault("not a list", &["a list"]),
            },
        };
        if of == ty {
            Ok(Type::Bool)
        } else {
            fault(format!("{ty} in a list of {of}"), &[ty.name()])
        }
    }
}

fn named(types: &[Type], at: u16, what: &str) -> Result<Type, TypeFault> {
    match types.get(usize::from(at)) {
        Some(ty) => Ok(*ty),
        None => fault(format!("there is no {what} {at}"), &[]),
    }
}

fn binary(operator: Binary, a: Type, b: Type) -> Result<Type, TypeFault> {
    if a != b {
        return fault(
            format!("{} of {a} and {b}", operator.sign()),
            &["two of one type (to_i64 and to_u64 convert)"],
        );
    }
    let (fits, expected, result): (bool, &[&str], Type) = match operator {
        Binary::Or | Binary::And => (a == Type::Bool, &["bool"], Type::Bool),
        _ if operator.is_comparison() => (true, &[], Type::Bool),
        _ => (a.is_integer(), &["i64", "u64"], a),
    };
    if fits {
        Ok(result)
    } else {
        fault(format!("{} of {a}", operator.sign()), expected)
    }
}

fn call(function: Function, arguments: &[Expr], types: &[Type]) -> Result<Type, TypeFault> {
    let Some(result) = function.result(types) else {
        let given: Vec<_> = types.iter().map(|it| it.name()).collect();
        return fault(
            format!("{} of ({})", function.name(), given.join(", ")),
            &[function.usage()],
        );
    };
    if let (true, Some(zone)) = (function.has_zone(), arguments.get(1)) {
        let Expr::Literal(Literal::Str(_)) = zone else {
            return fault("a time zone must be a constant", &["a \"zone\""]);
        };
    }
    Ok(result)
}

/// The type of entries that must be sorted, different and of one type.
fn sorted(entries: &[Literal], what: &str) -> Result<Type, TypeFault> {
    let Some(first) = entries.first() else {
        return fault(format!("{what} is empty"), &["at least one value"]);
    };
    let ty = first.ty();
    if let Some(other) = entries.iter().find(|it| it.ty() != ty || !it.is_in_range()) {
        return fault(
            format!(
                "{what} holds {} beside {ty}, or it is out of range",
                other.ty()
            ),
            &[ty.name()],
        );
    }
    if entries.windows(2).any(|pair| pair[0] >= pair[1]) {
        return fault(format!("{what} is not sorted, or repeats a value"), &[]);
    }
    Ok(ty)
}

/// Whether a name can stand in a text.
pub(crate) fn is_name(name: &str) -> bool {
    const WORDS: &[&str] = &[
        "and", "or", "not", "in", "if", "then", "else", "when", "let", "is", "between", "true",
        "false",
    ];
    let mut bytes = name.bytes();
    name.len() <= limits::NAME_BYTES_MAX
        && bytes
            .next()
            .is_some_and(|it| it.is_ascii_alphabetic() || it == b'_')
        && bytes.all(|it| it.is_ascii_alphanumeric() || it == b'_')
        && !WORDS.contains(&name)
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), RuleError> {
    if holds {
        Ok(())
    } else {
        Err(RuleError::new(message()))
    }
}

/// Checks the whole of a rule. What passes can be printed, encoded, compiled and evaluated.
pub(crate) fn check(rule: &Rule) -> Result<Scope, RuleError> {
    require(is_name(&rule.name), || {
        format!("'{}' is no name", rule.name)
    })?;
    let shape = Shape::new(rule.dimensions.clone())?;
    names(rule)?;
    for field in &rule.fields {
        check_field(field, &shape)?;
    }
    if let Some(key) = &rule.key {
        check_key(key, &rule.fields)?;
    }
    let mut entries = 0;
    for definition in &rule.definitions {
        entries += check_definition(definition, rule.kind)?;
    }
    require(entries <= limits::ENTRIES_MAX, || {
        format!("more than {} entries", limits::ENTRIES_MAX)
    })?;
    let scope = check_body(rule)?;
    check_zones(rule)?;
    require(rule.places.len() <= limits::PLACES_MAX, || {
        format!("more than {} lines of places", limits::PLACES_MAX)
    })?;
    for line in &rule.places {
        check_place(line, &shape)?;
    }
    Ok(scope)
}

fn names(rule: &Rule) -> Result<(), RuleError> {
    require(rule.fields.len() <= limits::FIELDS_MAX, || {
        format!("more than {} fields", limits::FIELDS_MAX)
    })?;
    require(rule.definitions.len() <= limits::DEFINITIONS_MAX, || {
        format!("more than {} definitions", limits::DEFINITIONS_MAX)
    })?;
    let fields = rule.fields.iter().map(|it| &it.name);
    let lets = match &rule.body {
        Body::Statements(statements, _) => statements.as_slice(),
        Body::Script(_) => &[],
    };
    let lets = lets.iter().filter_map(|it| match it {
        Statement::Let { name, .. } => Some(name),
        Statement::When { .. } => None,
    });
    let mut values = BTreeSet::new();
    for name in fields.chain(lets) {
        require(is_name(name), || format!("'{name}' is no name"))?;
        require(values.insert(name), || format!("{name} is declared twice"))?;
    }
    let mut definitions = BTreeSet::new();
    for Definition { name, .. } in &rule.definitions {
        require(is_name(name), || format!("'{name}' is no name"))?;
        require(
            definitions.insert(name) && Function::from_name(name).is_none(),
            || format!("{name} is defined twice, or is a built-in function"),
        )?;
    }
    let mut dimensions = BTreeSet::new();
    for dimension in &rule.dimensions {
        let name = &dimension.name;
        require(is_name(name) && dimensions.insert(name), || {
            format!("dimension {name}: no name, or declared twice")
        })?;
    }
    Ok(())
}

fn check_field(field: &Field, shape: &Shape) -> Result<(), RuleError> {
    let name = &field.name;
    match &field.null {
        NullPolicy::Error => {}
        NullPolicy::Slot(coordinates) => {
            require(shape.slot(coordinates).is_ok(), || {
                format!("field {name}: {coordinates:?} is no slot")
            })?;
        }
        NullPolicy::Value(value) => {
            require(value.ty() == field.ty && value.is_in_range(), || {
                format!("field {name}: the value for null is no {}", field.ty)
            })?;
        }
    }
    let Some(domain) = &field.domain else {
        return Ok(());
    };
    let steppable = matches!(
        field.ty,
        Type::I64 | Type::U64 | Type::Date | Type::Timestamp
    );
    require(
        steppable
            && domain.first.ty() == field.ty
            && domain.last.ty() == field.ty
            && domain.first.is_in_range()
            && domain.last.is_in_range()
            && domain.first <= domain.last
            && domain.step > 0,
        || {
            format!(
                "field {name}: its domain is no span of {} in steps",
                field.ty
            )
        },
    )
}

fn check_key(key: &KeySchema, fields: &[Field]) -> Result<(), RuleError> {
    let mut seen = BTreeSet::new();
    require(
        !key.parts.is_empty() && key.parts.len() <= 2 * limits::FIELDS_MAX,
        || "the key has no parts, or too many".to_owned(),
    )?;
    for field in key.fields() {
        require(
            usize::from(field) < fields.len() && seen.insert(field),
            || format!("key: field {field} does not exist, or stands there twice"),
        )?;
    }
    let ty = |field: &u16| fields[usize::from(*field)].ty;
    for (at, part) in key.parts.iter().enumerate() {
        let is_last = at + 1 == key.parts.len();
        let is_separator = |it: &[u8]| !it.is_empty() && it.len() <= limits::SEPARATOR_BYTES_MAX;
        let is_text = |field: &u16| matches!(ty(field), Type::Str | Type::Bytes);
        let fits = match part {
            KeyPart::Fixed { field } | KeyPart::Reversed { field } => !is_text(field),
            KeyPart::Width { field, bytes } => is_text(field) && *bytes > 0,
            KeyPart::Until { field, separator } => is_text(field) && is_separator(separator),
            KeyPart::Decimal { field, separator } => {
                ty(field).is_integer()
                    && is_separator(separator)
                    && !separator
                        .iter()
                        .any(|it| it.is_ascii_digit() || *it == b'-')
            }
            KeyPart::Rest { field } => is_text(field) && is_last,
            KeyPart::Skip { bytes: Some(bytes) } => *bytes > 0,
            KeyPart::Skip { bytes: None } => is_last,
        };
        require(fits, || {
            format!(
                "key: part {} does not fit its field: text and bytes are read with a width, until a \
                 separator or as the rest, integers with decimal, everything else fixed or reversed; \
                 rest and skip without a number come last",
                at + 1
            )
        })?;
    }
    Ok(())
}

/// How many entries the definition has.
fn check_definition(definition: &Definition, kind: Kind) -> Result<usize, RuleError> {
    let name = &definition.name;
    match &definition.body {
        DefinitionBody::List(entries) => {
            sorted(entries, name)?;
            Ok(entries.len())
        }
        DefinitionBody::Table {
            key,
            result,
            entries,
            otherwise,
        } => {
            let is_sorted = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let fits = entries.iter().all(|(from, to)| {
                from.ty() == *key && to.ty() == *result && from.is_in_range() && to.is_in_range()
            });
            require(
                is_sorted && fits && otherwise.ty() == *result && otherwise.is_in_range(),
                || format!("{name}: keys must be different {key}, answers {result}"),
            )?;
            Ok(entries.len())
        }
        DefinitionBody::Ranges { key, bounds, .. } => {
            let is_sorted = bounds.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let fits = bounds
                .iter()
                .all(|(bound, _)| bound.ty() == *key && bound.is_in_range());
            require(is_sorted && fits && *key != Type::Bool, || {
                format!("{name}: bounds must be {key}, ascending")
            })?;
            Ok(bounds.len())
        }
        DefinitionBody::Nodes(nodes) => {
            require(
                kind == Kind::Cache || !matches!(nodes.algorithm, NodesAlgorithm::Maglev { .. }),
                || {
                    format!(
                        "{name}: maglev is legal in cache rules only, it moves more than it must"
                    )
                },
            )?;
            let is_bounded = matches!(nodes.algorithm, NodesAlgorithm::BoundedRing { .. });
            require(kind == Kind::Cache || !is_bounded, || {
                format!(
                    "{name}: bounded load is legal in cache rules only, its answer depends on more than the record"
                )
            })?;
            require(
                nodes.nodes.windows(2).all(|pair| pair[0].0 < pair[1].0),
                || format!("{name}: nodes must be different and sorted"),
            )?;
            NodesFunction::new(nodes)
                .map_err(|message| RuleError::new(format!("{name}: {message}")))?;
            Ok(nodes.nodes.len())
        }
    }
}

/// A function from hash to node, built.
#[derive(Clone, Debug)]
pub(crate) enum NodesFunction {
    Ring(Ring),
    Rendezvous(Rendezvous),
    Maglev(Maglev),
}

impl NodesFunction {
    pub(crate) fn new(nodes: &Nodes) -> Result<NodesFunction, String> {
        let seed = nodes.seed;
        match nodes.algorithm {
            NodesAlgorithm::Ring { virtual_nodes }
            | NodesAlgorithm::BoundedRing { virtual_nodes, .. } => {
                Ring::new(&nodes.nodes, virtual_nodes, seed).map(NodesFunction::Ring)
            }
            NodesAlgorithm::Rendezvous => {
                Rendezvous::new(&nodes.nodes, seed).map(NodesFunction::Rendezvous)
            }
            NodesAlgorithm::Maglev { entries } => {
                Maglev::new(&nodes.nodes, entries, seed).map(NodesFunction::Maglev)
            }
        }
        .map_err(|fault| fault.to_string())
    }

    pub(crate) fn find(&self, hash: u64) -> u32 {
        match self {
            NodesFunction::Ring(it) => it.find(hash),
            NodesFunction::Rendezvous(it) => it.find(hash),
            NodesFunction::Maglev(it) => it.find(hash),
        }
    }
}

fn check_body(rule: &Rule) -> Result<Scope, RuleError> {
    let mut scope = Scope {
        fields: rule.fields.iter().map(|it| it.ty).collect(),
        locals: Vec::new(),
        definitions: rule
            .definitions
            .iter()
            .map(|it| DefinitionType::of(&it.body))
            .collect(),
    };
    let (statements, otherwise) = match &rule.body {
        Body::Script(script) => {
            require(
                !script.is_empty() && script.len() <= limits::SCRIPT_BYTES_MAX,
                || format!("a script has 1 to {} bytes", limits::SCRIPT_BYTES_MAX),
            )?;
            return Ok(scope);
        }
        Body::Statements(statements, otherwise) => (statements, otherwise),
    };
    require(statements.len() <= limits::STATEMENTS_MAX, || {
        format!("more than {} statements", limits::STATEMENTS_MAX)
    })?;
    let mut nodes = 0;
    for statement in statements {
        match statement {
            Statement::Let { value, .. } => {
                let ty = check_expr(value, &scope, &mut nodes)?;
                scope.locals.push(ty);
            }
            Statement::When { condition, slot } => {
                let ty = check_expr(condition, &scope, &mut nodes)?;
                require(ty == Type::Bool, || format!("a condition of the type {ty}"))?;
                check_slot(slot, &scope, rule.dimensions.len(), &mut nodes)?;
            }
        }
    }
    if let Otherwise::Slot(slot) = otherwise {
        check_slot(slot, &scope, rule.dimensions.len(), &mut nodes)?;
    }
    Ok(scope)
}

fn check_slot(
    slot: &[Expr],
    scope: &Scope,
    dimensions: usize,
    nodes: &mut usize,
) -> Result<(), RuleError> {
    require(slot.len() == dimensions, || {
        format!(
            "a slot of {} numbers where the rule has {dimensions} dimensions",
            slot.len()
        )
    })?;
    for expr in slot {
        let ty = check_expr(expr, scope, nodes)?;
        require(ty.is_integer(), || {
            format!("a slot's number has the type {ty}, must be i64 or u64")
        })?;
    }
    Ok(())
}

fn check_expr(expr: &Expr, scope: &Scope, nodes: &mut usize) -> Result<Type, RuleError> {
    require(expr.depth() <= limits::DEPTH_MAX, || {
        format!("the expression is deeper than {}", limits::DEPTH_MAX)
    })?;
    *nodes += expr.nodes();
    require(*nodes <= limits::NODES_MAX, || {
        format!("the rule has more than {} operations", limits::NODES_MAX)
    })?;
    Ok(scope.type_of(expr)?)
}

/// All expressions of a rule, outermost.
pub(crate) fn expressions(rule: &Rule) -> Vec<&Expr> {
    let Body::Statements(statements, otherwise) = &rule.body else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for statement in statements {
        match statement {
            Statement::Let { value, .. } => all.push(value),
            Statement::When { condition, slot } => {
                all.push(condition);
                all.extend(slot);
            }
        }
    }
    if let Otherwise::Slot(slot) = otherwise {
        all.extend(slot);
    }
    all
}

/// Calls `visit` for the expression and everything inside it.
pub(crate) fn walk<'r>(expr: &'r Expr, visit: &mut impl FnMut(&'r Expr)) {
    visit(expr);
    for child in expr.children() {
        walk(child, visit);
    }
}

/// Whether the rule calls, or as a script may call, a function that depends on time zone data.
pub(crate) fn uses_zones(rule: &Rule) -> bool {
    // A script may call any of them; which ones it does cannot be seen from outside.
    let mut uses = matches!(rule.body, Body::Script(_));
    for expr in expressions(rule) {
        walk(expr, &mut |it| {
            uses |= matches!(it, Expr::Call(function, _) if function.has_zone());
        });
    }
    uses
}

fn check_zones(rule: &Rule) -> Result<(), RuleError> {
    require(rule.zone_data.is_some() == uses_zones(rule), || {
        "zone data belongs to rules that call calendar functions, and only to them".to_owned()
    })?;
    let Some(version) = &rule.zone_data else {
        return rule.load_zone().map(drop);
    };
    let mut zones = BTreeSet::from([rule.zone.as_deref().unwrap_or("UTC")]);
    for expr in expressions(rule) {
        walk(expr, &mut |it| {
            if let Expr::Call(function, arguments) = it
                && function.has_zone()
                && let Some(Expr::Literal(Literal::Str(zone))) = arguments.get(1)
            {
                zones.insert(zone);
            }
        });
    }
    for zone in zones {
        Zone::load_version(version, zone).map_err(|fault| RuleError::new(fault.to_string()))?;
    }
    Ok(())
}

fn check_place(line: &PlaceLine, shape: &Shape) -> Result<(), RuleError> {
    let dimensions = shape.dimensions();
    require(
        line.slots.is_empty()
            || line.slots.len() == dimensions.len() && line.slots.iter().any(Option::is_some),
        || "place: one span or * for each dimension, or nothing for all slots".to_owned(),
    )?;
    for (span, dimension) in line.slots.iter().zip(dimensions) {
        if let Some((first, last)) = span {
            require(
                dimension.first <= *first && first <= last && *last <= dimension.last,
                || {
                    format!(
                        "place: {first} to {last} leaves dimension {}",
                        dimension.name
                    )
                },
            )?;
        }
    }
    check_template(&line.cluster, dimensions.len())?;
    require(!line.table.pieces.is_empty(), || {
        "place: the table has no name".to_owned()
    })?;
    check_template(&line.table, dimensions.len())
}

fn check_template(template: &Template, dimensions: usize) -> Result<(), RuleError> {
    let mut after_text = false;
    for piece in &template.pieces {
        let fits = match piece {
            Piece::Text(text) => !std::mem::replace(&mut after_text, true) && !text.is_empty(),
            Piece::Coordinate {
                dimension,
                divide,
                add,
                width,
                ..
            } => {
                after_text = false;
                usize::from(*dimension) < dimensions
                    && *divide > 0
                    && add.unsigned_abs() <= u64::from(u32::MAX)
                    && *width <= WIDTH_MAX
            }
        };
        require(
            fits && template.pieces.len() <= limits::NAME_BYTES_MAX,
            || "place: malformed name".to_owned(),
        )?;
    }
    Ok(())
}
