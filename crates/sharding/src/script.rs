//! The script tier: "any function at all" of the fields, in rhai, sandboxed and bounded (R33, B5.11).
//!
//! A script sees the fields as variables and answers a slot: an array with one integer for each dimension, or one integer
//! if there is one dimension. It has no clock, no randomness, no files, no modules, no floats, no output; operations,
//! depth and sizes are bounded. Points and versions of it are compared as of any rule; enumeration knows nothing of its
//! inside, and steps through declared domains. At load it is run twice, by two engines built one after the other, on
//! values at the edges of each field's type; the command line runs it in a second process too. Must not know of
//! statements, slots' places or row keys.

mod library;

use std::fmt;
use std::sync::Arc;

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicBlobPackage, BasicIteratorPackage, BasicMapPackage,
    BasicStringPackage, LogicPackage, MoreStringPackage, Package as _,
};
use rhai::{AST, Dynamic, Engine, EvalAltResult, OptimizationLevel, Scope};

use crate::error::{RuleError, ScriptFault};
use crate::function::Zone;
use crate::limits;
use crate::program::ScriptBody;
use crate::rule::Rule;
use crate::value::{Fields, Type, Value};

/// Most operations of one evaluation: about a millisecond.
pub const OPERATIONS_MAX: u64 = 20_000;

/// Deepest calls of a script's own functions. Each takes stack, and scripts of people have a few.
const CALLS_MAX: usize = 16;

/// Deepest expression, outside and inside of functions.
const EXPRESSION_DEPTH_MAX: usize = 32;

/// Longest array and largest map; strings may be as long as fields.
const ELEMENTS_MAX: usize = 1_024;

/// Most variables at a time.
const VARIABLES_MAX: usize = 256;

/// Most functions of one script.
const FUNCTIONS_MAX: usize = 64;

/// Most combinations of edge values that a script is run on at load.
const SAMPLES_MAX: usize = 64;

/// A compiled script. Cheap to clone.
#[derive(Clone)]
pub struct Script {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    ast: AST,
    fields: Vec<(String, Type)>,
    dimensions: usize,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("fields", &self.inner.fields)
            .finish_non_exhaustive()
    }
}

impl Script {
    /// Compiles a script over these fields, and checks that two engines give the same answers.
    ///
    /// # Errors
    /// What is wrong with the text, with its line and column in the script; or that it answers differently when run twice.
    pub fn new(
        text: &str,
        fields: &[(String, Type)],
        dimensions: usize,
        zone: &Zone,
    ) -> Result<Self, RuleError> {
        let script = Self::compile(text, fields, dimensions, zone)?;
        let again = Self::compile(text, fields, dimensions, zone)?;
        for sample in samples(fields) {
            if script.evaluate(&sample) != again.evaluate(&sample) {
                return Err(RuleError::new(format!(
                    "the script answers differently when it is run twice, for {sample:?}"
                )));
            }
        }
        Ok(script)
    }

    fn compile(
        text: &str,
        fields: &[(String, Type)],
        dimensions: usize,
        zone: &Zone,
    ) -> Result<Self, RuleError> {
        if text.is_empty() || text.len() > limits::SCRIPT_BYTES_MAX {
            return Err(RuleError::new(format!(
                "a script has 1 to {} bytes",
                limits::SCRIPT_BYTES_MAX
            )));
        }
        let engine = engine(zone);
        let mut scope = Scope::new();
        for (name, _) in fields {
            scope.push_constant_dynamic(name.as_str(), Dynamic::UNIT);
        }
        let ast = engine
            .compile_with_scope(&scope, text)
            .map_err(|fault| RuleError::new(format!("script: {fault}")))?;
        Ok(Self {
            inner: Arc::new(Inner {
                engine,
                ast,
                fields: fields.to_vec(),
                dimensions,
            }),
        })
    }

    /// The slot's coordinates of a record, fields in the order of the declaration. The caller has decided about nulls.
    ///
    /// # Errors
    /// [`ScriptFault`].
    pub fn evaluate(&self, fields: &[Value<'_>]) -> Result<Vec<i64>, ScriptFault> {
        let answer = self.run(fields).map_err(|fault| kind(&fault))?;
        self.slot(answer).ok_or(ScriptFault::Answer)
    }

    /// As [`Script::evaluate`], with the engine's own words for people.
    ///
    /// # Errors
    /// What went wrong, with the line and column in the script.
    pub fn explain(&self, fields: &[Value<'_>]) -> Result<Vec<i64>, String> {
        let answer = self.run(fields).map_err(|fault| fault.to_string())?;
        let text = answer.to_string();
        self.slot(answer).ok_or_else(|| {
            format!(
                "the answer {text} is no slot of {} dimensions",
                self.inner.dimensions
            )
        })
    }

    fn run(&self, fields: &[Value<'_>]) -> Result<Dynamic, Box<EvalAltResult>> {
        let inner = &*self.inner;
        let mut scope = Scope::with_capacity(inner.fields.len());
        for ((name, _), value) in inner.fields.iter().zip(fields) {
            scope.push_constant_dynamic(name.as_str(), dynamic(value)?);
        }
        inner
            .engine
            .eval_ast_with_scope::<Dynamic>(&mut scope, &inner.ast)
    }

    fn slot(&self, answer: Dynamic) -> Option<Vec<i64>> {
        let slot = match answer.as_int() {
            Ok(number) => vec![number],
            Err(_) => answer
                .into_array()
                .ok()?
                .into_iter()
                .map(|it| it.as_int().ok())
                .collect::<Option<_>>()?,
        };
        (slot.len() == self.inner.dimensions).then_some(slot)
    }
}

impl ScriptBody for Script {
    fn evaluate(&self, fields: &Fields<'_>) -> Result<Vec<i64>, ScriptFault> {
        Script::evaluate(self, fields)
    }
}

/// Compiles a rule's script, for [`Program::compile_with`](crate::program::Program::compile_with): calendar functions
/// count in the rule's zone, by the rule's version of the time zone data.
///
/// # Errors
/// As [`Script::new`].
pub fn compile(rule: &Rule, text: &str) -> Result<Box<dyn ScriptBody>, RuleError> {
    let fields: Vec<(String, Type)> = rule
        .fields
        .iter()
        .map(|field| (field.name.clone(), field.ty))
        .collect();
    let zone = rule.load_zone()?;
    Ok(Box::new(Script::new(
        text,
        &fields,
        rule.dimensions.len(),
        &zone,
    )?))
}

/// An engine with nothing in it but arithmetic, texts, arrays, maps and our own functions. The core package of rhai is left
/// out: it can sleep.
fn engine(zone: &Zone) -> Engine {
    let mut engine = Engine::new_raw();
    ArithmeticPackage::new().register_into_engine(&mut engine);
    LogicPackage::new().register_into_engine(&mut engine);
    BasicStringPackage::new().register_into_engine(&mut engine);
    MoreStringPackage::new().register_into_engine(&mut engine);
    BasicIteratorPackage::new().register_into_engine(&mut engine);
    BasicArrayPackage::new().register_into_engine(&mut engine);
    BasicBlobPackage::new().register_into_engine(&mut engine);
    BasicMapPackage::new().register_into_engine(&mut engine);
    library::register(&mut engine, zone);
    engine
        .set_optimization_level(OptimizationLevel::None)
        .set_max_operations(OPERATIONS_MAX)
        .set_max_call_levels(CALLS_MAX)
        .set_max_expr_depths(EXPRESSION_DEPTH_MAX, EXPRESSION_DEPTH_MAX)
        .set_max_string_size(limits::STRING_BYTES_MAX)
        .set_max_array_size(ELEMENTS_MAX)
        .set_max_map_size(ELEMENTS_MAX)
        .set_max_variables(VARIABLES_MAX)
        .set_max_functions(FUNCTIONS_MAX)
        .set_strict_variables(true)
        .set_allow_shadowing(true)
        // A user's operator on numbers would make two scripts of one text differ.
        .set_fast_operators(true)
        .disable_symbol("eval")
        .disable_symbol("print")
        .disable_symbol("debug");
    engine
}

/// A field as a script sees it: dates as days and times as microseconds since 1970, uuids as sixteen bytes.
fn dynamic(value: &Value<'_>) -> Result<Dynamic, Box<EvalAltResult>> {
    Ok(match *value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(it) => it.into(),
        Value::I64(it) | Value::Timestamp(it) => it.into(),
        Value::U64(it) => i64::try_from(it)
            .map_err(|_| format!("{it} is above what a script can hold"))?
            .into(),
        Value::Str(it) => it.into(),
        Value::Bytes(it) => Dynamic::from_blob(it.to_vec()),
        Value::Date(it) => i64::from(it).into(),
        Value::Uuid(it) => Dynamic::from_blob(it.to_vec()),
    })
}

fn kind(fault: &EvalAltResult) -> ScriptFault {
    match fault {
        EvalAltResult::ErrorTooManyOperations(_)
        | EvalAltResult::ErrorTooManyVariables(_)
        | EvalAltResult::ErrorStackOverflow(_)
        | EvalAltResult::ErrorDataTooLarge(..) => ScriptFault::Limit,
        EvalAltResult::ErrorInFunctionCall(_, _, inner, _) => kind(inner),
        _ => ScriptFault::Failed,
    }
}

/// Records at the edges of the fields' types, all fields moving on together.
fn samples(fields: &[(String, Type)]) -> Vec<Vec<Value<'static>>> {
    let longest = fields
        .iter()
        .map(|(_, ty)| edges(*ty).len())
        .max()
        .unwrap_or(1);
    (0..(longest * 3).min(SAMPLES_MAX))
        .map(|sample| {
            let of = |(at, (_, ty)): (usize, &(String, Type))| {
                let edges = edges(*ty);
                // Each field at a pace of its own, so that the edges meet in several ways.
                edges[(sample * (at + 1) + at) % edges.len()]
            };
            fields.iter().enumerate().map(of).collect()
        })
        .collect()
}

fn edges(ty: Type) -> Vec<Value<'static>> {
    match ty {
        Type::Bool => vec![Value::Bool(false), Value::Bool(true)],
        Type::I64 => [0, 1, -1, 7, 1_000, i64::MIN, i64::MAX, 2_000]
            .map(Value::I64)
            .to_vec(),
        Type::U64 => [0, 1, 7, 1_000, u64::MAX >> 1, u64::MAX]
            .map(Value::U64)
            .to_vec(),
        Type::Str => ["", "a", "Aa", "42", "中文😀", "x|y|z"]
            .map(Value::Str)
            .to_vec(),
        Type::Bytes => [b"".as_slice(), b"\x00", b"\xff\xfe", b"abc"]
            .map(Value::Bytes)
            .to_vec(),
        Type::Date => [0, -1, limits::DATE_MIN, limits::DATE_MAX, 11_016]
            .map(Value::Date)
            .to_vec(),
        Type::Timestamp => [
            0,
            -1,
            limits::TIMESTAMP_MIN,
            limits::TIMESTAMP_MAX,
            951_782_400_000_000,
        ]
        .map(Value::Timestamp)
        .to_vec(),
        Type::Uuid => vec![Value::Uuid([0; 16]), Value::Uuid([0xff; 16])],
    }
}

#[cfg(test)]
mod tests;
