//! From the typed tree to instructions. Operations with constants, and on fields, are fused; jumps go forward only, so
//! that a program runs each instruction at most once.

use super::{
    lookup::Lookup,
    op::{Axis, Code, Op},
};
use crate::{
    error::RuleError,
    function::{
        ZONE_DATA_VERSION, Zone,
        calendar::{Part, Unit},
    },
    rule::{
        Binary, Body, Definition, DefinitionType, Expr, Function, ListRef, NullPolicy, Otherwise,
        Rule, Scope, Statement, Unary,
    },
    slot::Shape,
    value::{Literal, Type},
};

struct Lowering<'r> {
    rule: &'r Rule,
    scope: &'r Scope,
    code: Code,
    /// Where each let is: its number among those of its stack.
    locals: Vec<u16>,
    scalars: usize,
    blobs: usize,
    /// Where the last jump lands: what stands before must not be fused with what follows.
    landing: usize,
}

pub(super) fn lower(rule: &Rule, scope: &Scope, shape: &Shape) -> Result<Code, RuleError> {
    let mut lookups = Vec::new();
    for Definition { name, body } in &rule.definitions {
        let lookup = Lookup::new(body);
        lookups.push(lookup.map_err(|it| RuleError::new(format!("{name}: {it}")))?);
    }
    let axes = shape.dimensions().iter().enumerate();
    let axes = axes.map(|(at, dimension)| Axis {
        first: dimension.first,
        last: dimension.last,
        stride: shape.stride(at),
    });
    let nulls = rule.fields.iter().map(|field| match &field.null {
        NullPolicy::Value(value) => Some(value.clone()),
        NullPolicy::Error | NullPolicy::Slot(_) => None,
    });
    let is_scalar = |it: &&Type| it.is_scalar();
    let locals = scope.locals.iter().filter(is_scalar).count();
    let blob_locals = scope.locals.len() - locals;
    let mut lowering = Lowering {
        rule,
        scope,
        code: Code {
            ops: Vec::new(),
            blobs: Vec::new(),
            lookups,
            zones: Vec::new(),
            axes: axes.collect(),
            nulls: nulls.collect(),
            locals,
            blob_locals,
            scalars_max: locals,
            blobs_max: blob_locals,
        },
        locals: Vec::new(),
        scalars: locals,
        blobs: blob_locals,
        landing: 0,
    };
    lowering.body()?;
    Ok(lowering.code)
}

fn scope_of(rule: &Rule, fields: &[Type]) -> Scope {
    let definitions = rule.definitions.iter();
    Scope {
        fields: fields.to_vec(),
        locals: Vec::new(),
        definitions: definitions.map(|it| DefinitionType::of(&it.body)).collect(),
    }
}

/// The type of an expression on fields of these types.
pub(super) fn type_of(rule: &Rule, types: &[Type], expr: &Expr) -> Option<Type> {
    scope_of(rule, types).type_of(expr).ok()
}

/// One operation on fields of these types, and no slot.
pub(super) fn lower_operation(rule: &Rule, types: &[Type], expr: &Expr) -> Result<Code, RuleError> {
    let scope = scope_of(rule, types);
    let mut lookups = Vec::with_capacity(rule.definitions.len());
    for (at, definition) in rule.definitions.iter().enumerate() {
        // Only what is called: a ring takes its time to build.
        let is_called = matches!(expr, Expr::Lookup(it, _) if usize::from(*it) == at);
        lookups.push(match is_called {
            true => Lookup::new(&definition.body).map_err(RuleError::new)?,
            false => Lookup::list(&[]),
        });
    }
    let mut lowering = Lowering {
        rule,
        scope: &scope,
        code: Code {
            ops: Vec::new(),
            blobs: Vec::new(),
            lookups,
            zones: Vec::new(),
            axes: Vec::new(),
            nulls: Vec::new(),
            locals: 0,
            blob_locals: 0,
            scalars_max: 0,
            blobs_max: 0,
        },
        locals: Vec::new(),
        scalars: 0,
        blobs: 0,
        landing: 0,
    };
    lowering.expr(expr)?;
    lowering.emit(Op::Done);
    Ok(lowering.code)
}

impl Lowering<'_> {
    fn body(&mut self) -> Result<(), RuleError> {
        let Body::Statements(statements, otherwise) = &self.rule.body else {
            return Err(RuleError::new("a script has no instructions"));
        };
        for statement in statements {
            match statement {
                Statement::Let { value, .. } => self.set_local(value)?,
                Statement::When { condition, slot } => {
                    self.expr(condition)?;
                    let skip = self.jump(Op::Unless);
                    self.pop();
                    self.slot(slot)?;
                    self.land(skip);
                }
            }
        }
        match otherwise {
            Otherwise::Error => self.emit(Op::NoAlternative),
            Otherwise::All => self.emit(Op::Everywhere),
            Otherwise::Slot(slot) => self.slot(slot)?,
        }
        Ok(())
    }

    fn set_local(&mut self, value: &Expr) -> Result<(), RuleError> {
        let ty = self.expr(value)?;
        let before = &self.scope.locals[..self.locals.len()];
        let same = before.iter().filter(|it| it.is_scalar() == ty.is_scalar());
        let at = number(same.count());
        self.locals.push(at);
        if ty.is_scalar() {
            self.emit(Op::SetLocal(at));
            self.pop();
        } else {
            self.emit(Op::SetLocalBlob(at));
            self.blobs -= 1;
        }
        Ok(())
    }

    fn slot(&mut self, slot: &[Expr]) -> Result<(), RuleError> {
        for (at, expr) in slot.iter().enumerate() {
            let ty = self.expr(expr)?;
            let dimension = u8::try_from(at).unwrap_or(u8::MAX);
            self.emit(Op::Dimension(dimension, ty == Type::I64));
            self.pop();
        }
        self.emit(Op::Done);
        Ok(())
    }

    fn emit(&mut self, op: Op) {
        self.code.ops.push(op);
    }

    fn push(&mut self) {
        self.scalars += 1;
        self.code.scalars_max = self.code.scalars_max.max(self.scalars);
    }

    fn pop(&mut self) {
        self.scalars -= 1;
    }

    fn push_blob(&mut self) {
        self.blobs += 1;
        self.code.blobs_max = self.code.blobs_max.max(self.blobs);
    }

    /// Emits a jump whose target is not known yet.
    fn jump(&mut self, op: impl Fn(u32) -> Op) -> usize {
        self.emit(op(0));
        self.code.ops.len() - 1
    }

    /// The jump lands here.
    fn land(&mut self, at: usize) {
        self.landing = self.code.ops.len();
        let here = u32::try_from(self.landing).unwrap_or(u32::MAX);
        self.code.ops[at] = match self.code.ops[at] {
            Op::Jump(_) => Op::Jump(here),
            Op::Unless(_) => Op::Unless(here),
            Op::And(_) => Op::And(here),
            Op::Or(_) => Op::Or(here),
            other => other,
        };
    }

    fn expr(&mut self, expr: &Expr) -> Result<Type, RuleError> {
        match expr {
            Expr::Literal(literal) => {
                self.literal(literal);
                Ok(literal.ty())
            }
            Expr::Field(at) => {
                let ty = self.scope.fields[usize::from(*at)];
                self.load(ty, Op::Field(*at), Op::FieldBlob(*at));
                Ok(ty)
            }
            Expr::Local(at) => {
                let ty = self.scope.locals[usize::from(*at)];
                let at = self.locals[usize::from(*at)];
                self.load(ty, Op::Local(at), Op::LocalBlob(at));
                Ok(ty)
            }
            Expr::Unary(operator, a) => {
                let ty = self.expr(a)?;
                self.emit(match operator {
                    Unary::Negate => Op::Negate,
                    Unary::Not => Op::Not,
                });
                Ok(ty)
            }
            Expr::Binary(operator, a, b) => self.binary(*operator, a, b),
            Expr::If(parts) => self.choice(parts),
            Expr::In(a, list) => {
                let ty = self.expr(a)?;
                let at = match list {
                    ListRef::Named(at) => u32::from(*at),
                    ListRef::Inline(entries) => {
                        self.code.lookups.push(Lookup::list(entries));
                        u32::try_from(self.code.lookups.len() - 1).unwrap_or(u32::MAX)
                    }
                };
                self.lookup(at, ty, Type::Bool);
                Ok(Type::Bool)
            }
            Expr::Lookup(at, a) => {
                let ty = self.expr(a)?;
                let result = match self.scope.definitions[usize::from(*at)] {
                    DefinitionType::Function { result, .. } => result,
                    DefinitionType::List(_) => Type::Bool,
                };
                self.lookup(u32::from(*at), ty, result);
                Ok(result)
            }
            Expr::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    fn literal(&mut self, literal: &Literal) {
        match (literal.scalar(), literal.blob()) {
            (_, Some(blob)) => {
                let at = u32::try_from(self.code.blobs.len()).unwrap_or(u32::MAX);
                self.code.blobs.push(blob.into());
                self.emit(Op::Blob(at));
                self.push_blob();
            }
            (scalar, None) => {
                self.emit(Op::Const(scalar.unwrap_or(0)));
                self.push();
            }
        }
    }

    fn load(&mut self, ty: Type, scalar: Op, blob: Op) {
        if ty.is_scalar() {
            self.emit(scalar);
            self.push();
        } else {
            self.emit(blob);
            self.push_blob();
        }
    }

    fn lookup(&mut self, at: u32, from: Type, to: Type) {
        if from.is_scalar() {
            self.emit(Op::LookupScalar(at));
            self.pop();
        } else {
            self.emit(Op::LookupBlob(at));
            self.blobs -= 1;
        }
        if to.is_scalar() {
            self.push();
        } else {
            self.push_blob();
        }
    }

    fn choice(&mut self, parts: &[Expr; 3]) -> Result<Type, RuleError> {
        let [condition, then, otherwise] = parts;
        self.expr(condition)?;
        let unless = self.jump(Op::Unless);
        self.pop();
        let before = (self.scalars, self.blobs);
        self.expr(then)?;
        let skip = self.jump(Op::Jump);
        self.land(unless);
        (self.scalars, self.blobs) = before;
        let ty = self.expr(otherwise)?;
        self.land(skip);
        Ok(ty)
    }

    fn binary(&mut self, operator: Binary, a: &Expr, b: &Expr) -> Result<Type, RuleError> {
        let ty = self.expr(a)?;
        if let Binary::And | Binary::Or = operator {
            let skip = match operator {
                Binary::And => self.jump(Op::And),
                _ => self.jump(Op::Or),
            };
            self.pop();
            self.expr(b)?;
            self.land(skip);
            return Ok(Type::Bool);
        }
        let result = if operator.is_comparison() {
            Type::Bool
        } else {
            ty
        };
        if !ty.is_scalar() {
            self.expr(b)?;
            self.emit(Op::Blobs(operator));
            self.blobs -= 2;
            self.push();
            return Ok(result);
        }
        let is_signed = matches!(ty, Type::I64 | Type::Date | Type::Timestamp);
        if let Expr::Literal(literal) = b {
            self.with_constant(operator, literal.scalar().unwrap_or(0), is_signed);
            return Ok(result);
        }
        self.expr(b)?;
        self.emit(match is_signed {
            true => Op::Signed(operator),
            false => Op::Unsigned(operator),
        });
        self.pop();
        Ok(result)
    }

    /// Top with a constant, fused with the load of a field before it.
    fn with_constant(&mut self, operator: Binary, constant: u64, is_signed: bool) {
        let signed = constant as i64;
        let is_modulus =
            operator == Binary::Modulo && if is_signed { signed > 0 } else { constant > 0 };
        let op = match (is_modulus, is_signed) {
            // The remainder of a power of two is the low bits, of negative numbers too.
            (true, _) if constant.is_power_of_two() => Op::Mask(constant - 1),
            (true, true) => Op::ModuloSigned(signed),
            (true, false) => Op::ModuloUnsigned(constant),
            (false, true) => Op::SignedConst(operator, signed),
            (false, false) => Op::UnsignedConst(operator, constant),
        };
        let before = self.code.ops.get(self.landing..).and_then(<[Op]>::last);
        let fused = match (before, op) {
            (Some(Op::Field(at)), Op::Mask(mask)) => Op::FieldMask(*at, mask),
            (Some(Op::Field(at)), Op::ModuloSigned(by)) => Op::FieldModuloSigned(*at, by),
            (Some(Op::Field(at)), Op::ModuloUnsigned(by)) => Op::FieldModuloUnsigned(*at, by),
            _ => return self.emit(op),
        };
        self.code.ops.pop();
        self.emit(fused);
    }

    fn call(&mut self, function: Function, arguments: &[Expr]) -> Result<Type, RuleError> {
        let zone = match (function.has_zone(), arguments) {
            (true, [_, Expr::Literal(Literal::Str(zone))]) => Some(zone.as_str()),
            _ => None,
        };
        let arguments = if zone.is_some() {
            &arguments[..1]
        } else {
            arguments
        };
        let mut types = Vec::with_capacity(arguments.len());
        for argument in arguments {
            types.push(self.expr(argument)?);
        }
        let result = function.result(&types).ok_or_else(|| {
            RuleError::new(format!("{} is called with wrong types", function.name()))
        })?;
        let op = self.operation(function, &types, zone)?;
        self.emit(op);
        for ty in &types {
            match ty.is_scalar() {
                true => self.pop(),
                false => self.blobs -= 1,
            }
        }
        match result.is_scalar() {
            true => self.push(),
            false => self.push_blob(),
        }
        Ok(result)
    }

    fn operation(
        &mut self,
        function: Function,
        types: &[Type],
        zone: Option<&str>,
    ) -> Result<Op, RuleError> {
        let scalars = types.iter().all(|it| it.is_scalar());
        let signed = types.first() != Some(&Type::U64);
        if function.is_hash() {
            return Ok(match (types, scalars) {
                ([_], true) => Op::HashScalar(function),
                ([_], false) => Op::HashBlob(function),
                (_, true) => Op::HashScalarSeeded(function),
                (_, false) => Op::HashBlobSeeded(function),
            });
        }
        if function.has_zone() {
            let on_date = types.first() == Some(&Type::Date);
            return Ok(match (part(function), unit(function), on_date) {
                (Some(part), _, true) => Op::DatePart(part),
                (_, Some(unit), true) => Op::DateIndex(unit),
                (Some(part), _, false) => Op::Part(part, self.zone(zone)?),
                (_, Some(unit), false) => Op::Index(unit, self.zone(zone)?),
                (None, None, _) => {
                    return Err(RuleError::new("a calendar function without a meaning"));
                }
            });
        }
        Ok(match function {
            Function::Substring
            | Function::Left
            | Function::Right
            | Function::SplitPart
            | Function::Lower
            | Function::Upper => Op::ToBlob(function, signed),
            Function::Text => Op::ToBlob(function, signed),
            // The flag: the eight bytes of a scalar, or a blob as it is.
            Function::ToBytes => Op::ToBlob(function, scalars),
            _ if scalars => Op::Scalars(function, signed),
            Function::Length if types == [Type::Bytes] => Op::BytesLength,
            Function::JavaHash if types == [Type::Bytes] => Op::JavaBytes,
            _ => Op::BlobToScalar(function),
        })
    }

    fn zone(&mut self, named: Option<&str>) -> Result<u16, RuleError> {
        let name = named.or(self.rule.zone.as_deref()).unwrap_or("UTC");
        if let Some(at) = self.code.zones.iter().position(|it| it.name() == name) {
            return Ok(number(at));
        }
        let data = self.rule.zone_data.as_deref().unwrap_or(ZONE_DATA_VERSION);
        let zone = Zone::load_version(data, name).map_err(|it| RuleError::new(it.to_string()))?;
        self.code.zones.push(zone);
        Ok(number(self.code.zones.len() - 1))
    }
}

fn number(at: usize) -> u16 {
    // Below every limit on what is counted.
    u16::try_from(at).unwrap_or(u16::MAX)
}

/// The part of date and time that a function answers.
pub(crate) fn part(function: Function) -> Option<Part> {
    Some(match function {
        Function::Year => Part::Year,
        Function::Quarter => Part::Quarter,
        Function::Month => Part::Month,
        Function::Day => Part::DayOfMonth,
        Function::DayOfWeek => Part::DayOfWeek,
        Function::DayOfYear => Part::DayOfYear,
        Function::IsoWeek => Part::Week,
        Function::IsoWeekYear => Part::WeekYear,
        Function::Hour => Part::Hour,
        Function::Minute => Part::Minute,
        Function::Second => Part::Second,
        _ => return None,
    })
}

/// The unit that a function counts.
pub(crate) fn unit(function: Function) -> Option<Unit> {
    Some(match function {
        Function::Years => Unit::Year,
        Function::Quarters => Unit::Quarter,
        Function::Months => Unit::Month,
        Function::Weeks => Unit::Week,
        Function::Days | Function::Date => Unit::Day,
        Function::Hours => Unit::Hour,
        Function::Minutes => Unit::Minute,
        Function::Seconds => Unit::Second,
        _ => return None,
    })
}
