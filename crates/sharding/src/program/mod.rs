//! A rule made ready: checked, encoded, hashed, its names made, its expressions lowered to instructions over two typed
//! stacks. Compiled once, then evaluated for every record. Knows nothing of versions or conditions.

mod applied;
mod batch;
mod lookup;
mod lower;
mod op;
mod run;

pub use batch::{Batch, Column, ColumnValues};

pub(crate) use lower::{part, unit};

use std::collections::BTreeSet;

use crate::{
    code::{self, RuleHash},
    error::{EvalError, RuleError, ScriptFault},
    function::ring::BoundedLoad,
    limits,
    place::{Place, PlaceId, SlotMap},
    rule::{self, Body, DefinitionBody, Expr, NodesAlgorithm, NullPolicy, Rule, expressions, walk},
    slot::{Shape, Slot},
    value::{Fields, Type, Value},
};

/// A rule ready for evaluation.
#[derive(Debug)]
pub struct Program {
    rule: Rule,
    shape: Shape,
    map: SlotMap,
    bytes: Vec<u8>,
    hash: RuleHash,
    logic_hash: RuleHash,
    types: Vec<Type>,
    /// The fields that the rule looks at, ascending: only these are checked for null and type.
    used: Vec<u16>,
    body: ProgramBody,
}

#[derive(Debug)]
enum ProgramBody {
    Code(op::Code),
    Script(Box<dyn ScriptBody>),
}

/// A compiled script: the tier for any function at all. It must be a pure function of the fields.
pub trait ScriptBody: std::fmt::Debug + Send + Sync {
    /// One number per dimension.
    fn evaluate(&self, fields: &Fields<'_>) -> Result<Vec<i64>, ScriptFault>;
}

/// Compiles a script for a rule: what the script tier offers to [`Program::compile_with`].
pub type ScriptCompiler<'c> = &'c dyn Fn(&Rule, &str) -> Result<Box<dyn ScriptBody>, RuleError>;

impl Program {
    /// Compiles a rule of statements.
    pub fn compile(rule: Rule) -> Result<Program, RuleError> {
        Program::compile_with(rule, &|_, _| {
            Err(RuleError::new(
                "a script needs the script tier to compile it",
            ))
        })
    }

    /// Compiles a rule of statements or a script.
    pub fn compile_with(rule: Rule, scripts: ScriptCompiler<'_>) -> Result<Program, RuleError> {
        let scope = rule::check(&rule)?;
        let bytes = code::encode(&rule)?;
        let shape = Shape::new(rule.dimensions.clone())?;
        let map = SlotMap::new(&shape, &rule.places)?;
        let body = match &rule.body {
            Body::Statements(..) => ProgramBody::Code(lower::lower(&rule, &scope, &shape)?),
            Body::Script(text) => ProgramBody::Script(scripts(&rule, text)?),
        };
        Ok(Program {
            hash: code::hash(&bytes),
            logic_hash: code::logic_hash(&rule),
            types: rule.fields.iter().map(|it| it.ty).collect(),
            used: used_fields(&rule),
            shape,
            map,
            bytes,
            body,
            rule,
        })
    }

    /// Reads and compiles a text.
    pub fn parse(text: &str) -> Result<Program, RuleError> {
        Program::compile(crate::text::parse(text)?)
    }

    /// Decodes and compiles published bytes; refuses them if their hash is another than the published one.
    pub fn decode(bytes: &[u8], published: RuleHash) -> Result<Program, RuleError> {
        Program::compile(decode(bytes, published)?)
    }

    /// The same, for rules that may be scripts.
    pub fn decode_with(
        bytes: &[u8],
        published: RuleHash,
        scripts: ScriptCompiler<'_>,
    ) -> Result<Program, RuleError> {
        Program::compile_with(decode(bytes, published)?, scripts)
    }

    /// The rule.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The declared topology.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where each slot lives.
    pub fn map(&self) -> &SlotMap {
        &self.map
    }

    /// The canonical bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The hash of the canonical bytes.
    pub fn hash(&self) -> RuleHash {
        self.hash
    }

    /// The hash of all that decides the slot, without version and places.
    pub fn logic_hash(&self) -> RuleHash {
        self.logic_hash
    }

    /// The types of the fields.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// The fields that the rule looks at, ascending.
    pub fn used_fields(&self) -> &[u16] {
        &self.used
    }

    /// The ring of that name with a bound on loads, without any load yet; none if the rule has no such ring. It is for
    /// whoever spreads requests over caches: [`Program::evaluate`] knows nothing of loads.
    pub fn bounded(&self, name: &str) -> Option<BoundedLoad> {
        let definition = self.rule.definitions.iter().find(|it| it.name == name)?;
        let DefinitionBody::Nodes(nodes) = &definition.body else {
            return None;
        };
        let NodesAlgorithm::BoundedRing {
            virtual_nodes,
            above_mean_percent,
        } = nodes.algorithm
        else {
            return None;
        };
        // The rule's check has built the same ring.
        BoundedLoad::new(&nodes.nodes, virtual_nodes, nodes.seed, above_mean_percent).ok()
    }

    /// Whether the slot follows from a script, into which nothing can look.
    pub fn is_script(&self) -> bool {
        matches!(self.body, ProgramBody::Script(_))
    }

    /// The slot of a record (R39, R40).
    pub fn evaluate(&self, fields: &Fields<'_>) -> Result<Slot, EvalError> {
        if fields.len() != self.types.len() {
            return Err(EvalError::FieldCount {
                given: fields.len(),
                declared: self.types.len(),
            });
        }
        if let Some(slot) = self.bind(|field| fields[usize::from(field)])? {
            return Ok(slot);
        }
        match &self.body {
            ProgramBody::Code(code) => code.run(&run::Record {
                fields,
                nulls: &code.nulls,
            }),
            ProgramBody::Script(script) => self.evaluate_script(&**script, fields),
        }
    }

    /// Null and types, before anything is evaluated (B5.6): the slot, if null decides.
    fn bind<'a>(&self, value: impl Fn(u16) -> Value<'a>) -> Result<Option<Slot>, EvalError> {
        for &field in &self.used {
            let value = value(field);
            let declared = self.types[usize::from(field)];
            match (value, declared) {
                (Value::I64(_), Type::I64)
                | (Value::U64(_), Type::U64)
                | (Value::Bool(_), Type::Bool)
                | (Value::Uuid(_), Type::Uuid) => {}
                (Value::Null, _) => match &self.rule.fields[usize::from(field)].null {
                    NullPolicy::Error => return Err(EvalError::Null { field }),
                    NullPolicy::Value(_) => {}
                    // The rule's check has seen to it that this is a slot.
                    NullPolicy::Slot(slot) => return Ok(self.shape.slot(slot).ok()),
                },
                _ => check_value(value, declared, field)?,
            }
        }
        Ok(None)
    }

    fn evaluate_script(
        &self,
        script: &dyn ScriptBody,
        fields: &Fields<'_>,
    ) -> Result<Slot, EvalError> {
        let mut bound = fields.to_vec();
        for (value, field) in bound.iter_mut().zip(&self.rule.fields) {
            if let (Value::Null, NullPolicy::Value(literal)) = (&value, &field.null) {
                *value = literal.value();
            }
        }
        for (at, (value, field)) in bound.iter().zip(&self.rule.fields).enumerate() {
            if field.domain.as_ref().is_some_and(|it| !it.contains(value)) {
                let field = u16::try_from(at).unwrap_or(u16::MAX);
                return Err(EvalError::FieldRange { field });
            }
        }
        let slot = script.evaluate(&bound).map_err(EvalError::Script)?;
        if slot.len() != self.shape.dimensions().len() {
            return Err(EvalError::Script(ScriptFault::Answer));
        }
        self.shape
            .slot(&slot)
            .map_err(|at| EvalError::OutsideDimension {
                dimension: u8::try_from(at).unwrap_or(u8::MAX),
                value: slot[at],
            })
    }

    /// The slot of a row key by the rule's key schema. Fields that the key does not hold are null.
    pub fn evaluate_key(&self, key: &[u8]) -> Result<Slot, KeyedError> {
        let mut room = [Value::Null; limits::FIELDS_MAX];
        Ok(self.evaluate(self.read_key(key, &mut room)?)?)
    }

    /// The fields of a row key by the rule's key schema; those that the key does not hold are null.
    pub fn read_key<'k, 'r>(
        &self,
        key: &'k [u8],
        room: &'r mut [Value<'k>; limits::FIELDS_MAX],
    ) -> Result<&'r Fields<'k>, KeyedError> {
        let schema = self.rule.key.as_ref().ok_or(KeyedError::NoSchema)?;
        let fields = &mut room[..self.types.len()];
        schema.read(&self.types, key, fields)?;
        Ok(fields)
    }

    /// The number of a record's place.
    pub fn place_id(&self, fields: &Fields<'_>) -> Result<PlaceId, EvalError> {
        Ok(self.map.id(self.evaluate(fields)?))
    }

    /// A record's place.
    pub fn place(&self, fields: &Fields<'_>) -> Result<&Place, EvalError> {
        Ok(self.map.place(self.evaluate(fields)?))
    }

    pub(crate) fn code(&self) -> Option<&op::Code> {
        match &self.body {
            ProgramBody::Code(code) => Some(code),
            ProgramBody::Script(_) => None,
        }
    }
}

fn decode(bytes: &[u8], published: RuleHash) -> Result<Rule, RuleError> {
    let found = code::hash(bytes);
    if found != published {
        return Err(RuleError::new(format!(
            "the rule's hash is {found}, published was {published}"
        )));
    }
    code::decode(bytes)
}

/// Why a row key has no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyedError {
    /// The rule declares no key.
    #[error("the rule does not say how a row key holds its fields")]
    NoSchema,
    /// The key does not fit.
    #[error(transparent)]
    Key(#[from] crate::key::KeyError),
    /// The fields have no slot.
    #[error(transparent)]
    Eval(#[from] EvalError),
}

/// Types whose values have a range, and wrong types.
fn check_value(value: Value<'_>, declared: Type, field: u16) -> Result<(), EvalError> {
    let given = value.ty().unwrap_or(declared);
    if given != declared {
        return Err(EvalError::WrongType {
            field,
            given,
            declared,
        });
    }
    let fits = match value {
        Value::Date(it) => (limits::DATE_MIN..=limits::DATE_MAX).contains(&it),
        Value::Timestamp(it) => (limits::TIMESTAMP_MIN..=limits::TIMESTAMP_MAX).contains(&it),
        Value::Str(it) => it.len() <= limits::STRING_BYTES_MAX,
        Value::Bytes(it) => it.len() <= limits::STRING_BYTES_MAX,
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(EvalError::FieldRange { field })
    }
}

/// The fields that a rule's expressions name; all of them for a script.
fn used_fields(rule: &Rule) -> Vec<u16> {
    if let Body::Script(_) = rule.body {
        return (0..rule.fields.len())
            .filter_map(|it| u16::try_from(it).ok())
            .collect();
    }
    let mut used = BTreeSet::new();
    for expr in expressions(rule) {
        walk(expr, &mut |it| {
            if let Expr::Field(at) = it {
                used.insert(*at);
            }
        });
    }
    used.into_iter().collect()
}

#[cfg(test)]
mod tests;
