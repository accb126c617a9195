//! Running a compiled rule on one record. No loops: instructions run at most once each, since jumps go forward only. No
//! allocation but by the functions that make new text. What the type check proved is not checked again; should it be
//! wrong after all, slices panic rather than answer a wrong slot.

use std::borrow::Cow;

use super::op::{Axis, Building, Code, Op};
use crate::{
    error::EvalError,
    function::{Fault, arithmetic, calendar, foreign, hash, nodes, text},
    limits,
    rule::{Binary, Function},
    slot::Slot,
    value::{Fields, Literal, Value},
};

/// Where the instructions find the fields. They were bound before: right types, nulls decided.
pub(crate) trait Source<'a> {
    /// The 64 bits of a scalar field.
    fn scalar(&self, field: u16) -> u64;
    /// The bytes of a text, bytes or uuid field.
    fn blob(&self, field: u16) -> &'a [u8];
}

/// The fields of one record.
pub(crate) struct Record<'a> {
    pub(crate) fields: &'a Fields<'a>,
    pub(crate) nulls: &'a [Option<Literal>],
}

impl<'a> Source<'a> for Record<'a> {
    #[inline]
    fn scalar(&self, field: u16) -> u64 {
        match self.fields[usize::from(field)] {
            Value::I64(it) | Value::Timestamp(it) => it as u64,
            Value::U64(it) => it,
            Value::Date(it) => i64::from(it) as u64,
            Value::Bool(it) => u64::from(it),
            _ => default(self.nulls, field)
                .and_then(Literal::scalar)
                .unwrap_or(0),
        }
    }

    #[inline]
    fn blob(&self, field: u16) -> &'a [u8] {
        match &self.fields[usize::from(field)] {
            Value::Str(it) => it.as_bytes(),
            Value::Bytes(it) => it,
            Value::Uuid(it) => it,
            _ => default(self.nulls, field)
                .and_then(Literal::blob)
                .unwrap_or(&[]),
        }
    }
}

pub(crate) fn default(nulls: &[Option<Literal>], field: u16) -> Option<&Literal> {
    nulls.get(usize::from(field)).and_then(Option::as_ref)
}

type Blob<'a> = Cow<'a, [u8]>;

/// Both stacks. The lowest places are the lets.
struct Stack<'a, const SCALARS: usize, const BLOBS: usize> {
    scalars: [u64; SCALARS],
    /// The scalar on top lives here, not in the array.
    top: u64,
    height: usize,
    blobs: [Blob<'a>; BLOBS],
    blob_height: usize,
}

impl<'a, const SCALARS: usize, const BLOBS: usize> Stack<'a, SCALARS, BLOBS> {
    fn new(locals: usize, blob_locals: usize) -> Self {
        Stack {
            scalars: [0; SCALARS],
            top: 0,
            height: locals,
            blobs: [const { Cow::Borrowed(&[] as &[u8]) }; BLOBS],
            blob_height: blob_locals,
        }
    }

    #[inline(always)]
    fn push(&mut self, scalar: u64) {
        self.scalars[self.height] = self.top;
        self.height += 1;
        self.top = scalar;
    }

    #[inline(always)]
    fn pop(&mut self) -> u64 {
        let popped = self.top;
        self.height -= 1;
        self.top = self.scalars[self.height];
        popped
    }

    fn push_blob(&mut self, blob: Blob<'a>) {
        self.blobs[self.blob_height] = blob;
        self.blob_height += 1;
    }

    fn pop_blob(&mut self) -> Blob<'a> {
        self.blob_height -= 1;
        std::mem::take(&mut self.blobs[self.blob_height])
    }
}

/// Enough for rules as people write them; zeroing more costs more than the rest of the evaluation.
const SMALL_SCALARS: usize = 16;
const SMALL_BLOBS: usize = 8;
/// Enough for any rule: lets, open operands, and one for the spilled top.
const MOST: usize = limits::STATEMENTS_MAX + limits::STACK_MAX + 1;

/// Operands of one function and one over.
const MOST_OPERANDS: usize = 4;

impl Code {
    /// The slot of a record.
    #[inline]
    pub(crate) fn run<'a>(&'a self, source: &impl Source<'a>) -> Result<Slot, EvalError> {
        let small = self.scalars_max < SMALL_SCALARS;
        match (small, self.blobs_max) {
            (true, 0) => self.run_in::<SMALL_SCALARS, 0>(source),
            (true, ..=SMALL_BLOBS) => self.run_in::<SMALL_SCALARS, SMALL_BLOBS>(source),
            _ => self.run_large(source),
        }
    }

    /// A rule of thousands of lets is legal and may be slow: its stacks take 260 KiB.
    #[cold]
    #[inline(never)]
    fn run_large<'a>(&'a self, source: &impl Source<'a>) -> Result<Slot, EvalError> {
        if self.blobs_max <= 64 && self.scalars_max < 256 {
            return self.run_in::<256, 64>(source);
        }
        self.run_in::<MOST, MOST>(source)
    }

    fn run_in<'a, const SCALARS: usize, const BLOBS: usize>(
        &'a self,
        source: &impl Source<'a>,
    ) -> Result<Slot, EvalError> {
        let mut stack = Stack::<SCALARS, BLOBS>::new(self.locals, self.blob_locals);
        self.execute(&mut stack, source)
    }

    /// The one value that an expression without a slot leaves, as both stacks hold it.
    pub(crate) fn run_expression<'a>(
        &'a self,
        source: &impl Source<'a>,
    ) -> Result<(u64, Vec<u8>), EvalError> {
        let mut stack = Stack::<MOST_OPERANDS, MOST_OPERANDS>::new(0, 0);
        self.execute(&mut stack, source)?;
        let blob = stack.blobs.first().map(|it| it.to_vec());
        Ok((stack.top, blob.unwrap_or_default()))
    }

    #[inline(always)]
    fn execute<'a, const SCALARS: usize, const BLOBS: usize>(
        &'a self,
        stack: &mut Stack<'a, SCALARS, BLOBS>,
        source: &impl Source<'a>,
    ) -> Result<Slot, EvalError> {
        let mut slot = Building::default();
        let mut at = 0;
        loop {
            let op = self.ops[at];
            at += 1;
            match op {
                Op::Const(it) => stack.push(it),
                Op::Field(it) => stack.push(source.scalar(it)),
                Op::Local(it) => stack.push(stack.scalars[usize::from(it)]),
                Op::SetLocal(it) => {
                    let value = stack.pop();
                    stack.scalars[usize::from(it)] = value;
                }
                Op::Signed(operator) => {
                    let b = stack.pop() as i64;
                    stack.top = signed(operator, stack.top as i64, b)?;
                }
                Op::Unsigned(operator) => {
                    let b = stack.pop();
                    stack.top = unsigned(operator, stack.top, b)?;
                }
                Op::SignedConst(operator, b) => {
                    stack.top = signed(operator, stack.top as i64, b)?;
                }
                Op::UnsignedConst(operator, b) => stack.top = unsigned(operator, stack.top, b)?,
                Op::Mask(mask) => stack.top &= mask,
                Op::FieldMask(it, mask) => stack.push(source.scalar(it) & mask),
                Op::ModuloSigned(by) => stack.top = (stack.top as i64).rem_euclid(by) as u64,
                Op::ModuloUnsigned(by) => stack.top %= by,
                Op::FieldModuloSigned(it, by) => {
                    stack.push((source.scalar(it) as i64).rem_euclid(by) as u64);
                }
                Op::FieldModuloUnsigned(it, by) => stack.push(source.scalar(it) % by),
                Op::Negate => stack.top = negate(stack.top)?,
                Op::Not => stack.top ^= 1,
                Op::Jump(to) => at = to as usize,
                Op::Unless(to) => {
                    if stack.pop() == 0 {
                        at = to as usize;
                    }
                }
                Op::And(to) => {
                    if stack.top == 0 {
                        at = to as usize;
                    } else {
                        stack.pop();
                    }
                }
                Op::Or(to) => {
                    if stack.top != 0 {
                        at = to as usize;
                    } else {
                        stack.pop();
                    }
                }
                Op::Dimension(dimension, is_signed) => {
                    let axis = &self.axes[usize::from(dimension)];
                    let value = stack.pop();
                    slot.0 += coordinate(value, is_signed, axis, dimension)?;
                }
                Op::Done => return Ok(slot.slot()),
                Op::NoAlternative => return Err(EvalError::NoAlternative),
                Op::Everywhere => return Err(EvalError::Everywhere),
                other => self.call(other, stack, source)?,
            }
        }
    }

    /// The longer instructions, apart so that the loop stays small.
    fn call<'a, const SCALARS: usize, const BLOBS: usize>(
        &'a self,
        op: Op,
        stack: &mut Stack<'a, SCALARS, BLOBS>,
        source: &impl Source<'a>,
    ) -> Result<(), EvalError> {
        match op {
            Op::Part(part, zone) => {
                let zone = &self.zones[usize::from(zone)];
                stack.top = calendar::part(part, stack.top as i64, zone) as u64;
            }
            Op::Index(unit, zone) => {
                let zone = &self.zones[usize::from(zone)];
                stack.top = calendar::index(unit, stack.top as i64, zone) as u64;
            }
            Op::DatePart(part) => {
                stack.top = calendar::part_of_day(part, stack.top as i64) as u64;
            }
            Op::DateIndex(unit) => {
                let index = calendar::index_of_day(unit, stack.top as i64);
                stack.top = index.map_err(|it| fault(it, "date"))? as u64;
            }
            Op::HashScalar(function) => {
                stack.top = hash_of(function, &stack.top.to_be_bytes(), 0);
            }
            Op::HashScalarSeeded(function) => {
                let seed = stack.pop();
                stack.top = hash_of(function, &stack.top.to_be_bytes(), seed);
            }
            Op::HashBlob(function) => {
                let blob = stack.pop_blob();
                stack.push(hash_of(function, &blob, 0));
            }
            Op::HashBlobSeeded(function) => {
                let blob = stack.pop_blob();
                stack.top = hash_of(function, &blob, stack.top);
            }
            Op::Scalars(function, is_signed) => scalars(function, is_signed, stack)?,
            Op::LookupScalar(lookup) => self.lookup_scalar(lookup, stack),
            Op::LookupBlob(lookup) => self.lookup_blob(lookup, stack),
            Op::Blob(it) => stack.push_blob(Cow::Borrowed(&self.blobs[it as usize])),
            Op::FieldBlob(it) => stack.push_blob(Cow::Borrowed(source.blob(it))),
            Op::LocalBlob(it) => {
                let blob = stack.blobs[usize::from(it)].clone();
                stack.push_blob(blob);
            }
            Op::SetLocalBlob(it) => {
                let blob = stack.pop_blob();
                stack.blobs[usize::from(it)] = blob;
            }
            Op::Blobs(operator) => {
                let b = stack.pop_blob();
                let a = stack.pop_blob();
                stack.push(u64::from(compare(operator, &a, &b)));
            }
            Op::BytesLength => {
                let blob = stack.pop_blob();
                stack.push(blob.len() as u64);
            }
            Op::JavaBytes => {
                let blob = stack.pop_blob();
                stack.push(i64::from(foreign::java_bytes(&blob)) as u64);
            }
            Op::BlobToScalar(function) => blob_to_scalar(function, stack)?,
            Op::ToBlob(function, is_signed) => to_blob(function, is_signed, stack)?,
            // All others are in the loop.
            _ => return Err(EvalError::NoAlternative),
        }
        Ok(())
    }

    fn lookup_scalar<'a, const S: usize, const B: usize>(
        &'a self,
        at: u32,
        stack: &mut Stack<'a, S, B>,
    ) {
        let lookup = &self.lookups[at as usize];
        if lookup.answers_blobs() {
            let key = stack.pop();
            stack.push_blob(Cow::Borrowed(lookup.scalar_to_blob(key)));
        } else {
            stack.top = lookup.scalar_to_scalar(stack.top);
        }
    }

    fn lookup_blob<'a, const S: usize, const B: usize>(
        &'a self,
        at: u32,
        stack: &mut Stack<'a, S, B>,
    ) {
        let lookup = &self.lookups[at as usize];
        let key = stack.pop_blob();
        if lookup.answers_blobs() {
            stack.push_blob(Cow::Borrowed(lookup.blob_to_blob(&key)));
        } else {
            stack.push(lookup.blob_to_scalar(&key));
        }
    }
}

/// How many slots a coordinate is away from the first.
#[inline(always)]
pub(super) fn coordinate(
    value: u64,
    is_signed: bool,
    axis: &Axis,
    dimension: u8,
) -> Result<u32, EvalError> {
    let fits = is_signed || value <= i64::MAX as u64;
    let value = value as i64;
    if !fits || value < axis.first || value > axis.last {
        return Err(EvalError::OutsideDimension {
            dimension,
            value: if fits { value } else { i64::MAX },
        });
    }
    // No overflow: the difference is below the number of slots, and so is the product.
    Ok((value.wrapping_sub(axis.first)) as u32 * axis.stride)
}

#[inline(always)]
pub(super) fn negate(value: u64) -> Result<u64, EvalError> {
    match (value as i64).checked_neg() {
        Some(it) => Ok(it as u64),
        None => Err(EvalError::Overflow { operation: "-" }),
    }
}

fn fault(fault: Fault, function: &'static str) -> EvalError {
    match fault {
        Fault::Overflow => EvalError::Overflow {
            operation: function,
        },
        Fault::DivisionByZero => EvalError::DivisionByZero {
            operation: function,
        },
        Fault::NotANumber => EvalError::NotAnInteger,
        _ => EvalError::Argument { function },
    }
}

#[inline(always)]
pub(super) fn signed(operator: Binary, a: i64, b: i64) -> Result<u64, EvalError> {
    let overflow = EvalError::Overflow {
        operation: operator.sign(),
    };
    let value = match operator {
        Binary::Equal => return Ok(u64::from(a == b)),
        Binary::NotEqual => return Ok(u64::from(a != b)),
        Binary::Less => return Ok(u64::from(a < b)),
        Binary::LessEqual => return Ok(u64::from(a <= b)),
        Binary::Greater => return Ok(u64::from(a > b)),
        Binary::GreaterEqual => return Ok(u64::from(a >= b)),
        Binary::Add => a.checked_add(b).ok_or(overflow)?,
        Binary::Subtract => a.checked_sub(b).ok_or(overflow)?,
        Binary::Multiply => a.checked_mul(b).ok_or(overflow)?,
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::Divide => arithmetic::floor_divide(a, b).map_err(|it| fault(it, "/"))?,
        Binary::Modulo => arithmetic::modulo(a, b).map_err(|it| fault(it, "%"))?,
        Binary::ShiftLeft | Binary::ShiftRight => {
            shift_range(b as u64)?;
            match operator {
                Binary::ShiftLeft => arithmetic::shift_left(a, b).map_err(|it| fault(it, "<<"))?,
                _ => a >> b,
            }
        }
        // Truth values are never signed.
        Binary::And | Binary::Or => return Err(overflow),
    };
    Ok(value as u64)
}

#[inline(always)]
pub(super) fn unsigned(operator: Binary, a: u64, b: u64) -> Result<u64, EvalError> {
    let overflow = EvalError::Overflow {
        operation: operator.sign(),
    };
    let by_zero = EvalError::DivisionByZero {
        operation: operator.sign(),
    };
    Ok(match operator {
        Binary::Equal => u64::from(a == b),
        Binary::NotEqual => u64::from(a != b),
        Binary::Less => u64::from(a < b),
        Binary::LessEqual => u64::from(a <= b),
        Binary::Greater => u64::from(a > b),
        Binary::GreaterEqual => u64::from(a >= b),
        Binary::Add => a.checked_add(b).ok_or(overflow)?,
        Binary::Subtract => a.checked_sub(b).ok_or(overflow)?,
        Binary::Multiply => a.checked_mul(b).ok_or(overflow)?,
        Binary::BitAnd | Binary::And => a & b,
        Binary::BitOr | Binary::Or => a | b,
        Binary::BitXor => a ^ b,
        Binary::Divide => a.checked_div(b).ok_or(by_zero)?,
        Binary::Modulo => a.checked_rem(b).ok_or(by_zero)?,
        Binary::ShiftRight => a >> shift_range(b)?,
        Binary::ShiftLeft => {
            let by = shift_range(b)?;
            let shifted = a << by;
            if shifted >> by == a {
                shifted
            } else {
                return Err(overflow);
            }
        }
    })
}

fn shift_range(by: u64) -> Result<u32, EvalError> {
    match by {
        0..=63 => Ok(by as u32),
        _ => Err(EvalError::Shift { by: by as i64 }),
    }
}

fn compare(operator: Binary, a: &[u8], b: &[u8]) -> bool {
    match operator {
        Binary::Equal => a == b,
        Binary::NotEqual => a != b,
        Binary::Less => a < b,
        Binary::LessEqual => a <= b,
        Binary::Greater => a > b,
        _ => a >= b,
    }
}

pub(super) fn hash_of(function: Function, bytes: &[u8], seed: u64) -> u64 {
    match function {
        Function::Xxh3 => hash::xxh3_64(bytes, seed),
        Function::Xxh64 => hash::xxh64(bytes, seed),
        Function::Xxh32 => hash::xxh32(bytes, seed),
        Function::Murmur3 => hash::murmur3_32(bytes, seed),
        Function::Murmur3Wide => hash::murmur3_128(bytes, seed),
        Function::Crc32 => hash::crc32(bytes, seed),
        Function::Fnv1a => hash::fnv1a_64(bytes, seed),
        Function::Fnv1aNarrow => hash::fnv1a_32(bytes, seed),
        Function::SipHash13 => hash::siphash13(bytes, seed),
        Function::SipHash24 => hash::siphash24(bytes, seed),
        Function::Md5 => hash::md5_high(bytes, seed),
        _ => hash::sha1_high(bytes, seed),
    }
}

/// A count of buckets, shards or partitions.
fn buckets(count: u64, function: Function) -> Result<u32, EvalError> {
    match u32::try_from(count) {
        Ok(count @ 1..) => Ok(count),
        _ => Err(EvalError::Argument {
            function: function.name(),
        }),
    }
}

fn scalars<const S: usize, const B: usize>(
    function: Function,
    is_signed: bool,
    stack: &mut Stack<'_, S, B>,
) -> Result<(), EvalError> {
    let two = matches!(
        function,
        Function::Jump
            | Function::VitessShard
            | Function::PostgresPartition
            | Function::CitusShard
            | Function::Min
            | Function::Max
    );
    let b = if two { stack.pop() } else { 0 };
    let a = stack.top;
    stack.top = scalar_function(function, is_signed, a, b)?;
    Ok(())
}

/// A function of one or two scalars.
pub(super) fn scalar_function(
    function: Function,
    is_signed: bool,
    a: u64,
    b: u64,
) -> Result<u64, EvalError> {
    let signed = a as i64;
    let name = function.name();
    let argument = EvalError::Argument { function: name };
    let overflow = EvalError::Overflow { operation: name };
    let timestamp = |scale: i64| {
        signed
            .checked_mul(scale)
            .filter(|it| (limits::TIMESTAMP_MIN..=limits::TIMESTAMP_MAX).contains(it))
            .map(|it| it as u64)
            .ok_or(argument)
    };
    Ok(match function {
        Function::Jump => u64::from(nodes::jump(a, buckets(b, function)?)),
        Function::VitessHash => foreign::vitess_hash(a),
        Function::VitessReverseBits => foreign::vitess_reverse_bits(a),
        Function::VitessShard => {
            let shard = foreign::vitess_shard(a, buckets(b, function)?);
            u64::from(shard.map_err(|it| fault(it, name))?)
        }
        Function::JavaHash => i64::from(foreign::java_long(signed)) as u64,
        Function::PostgresHash => i64::from(foreign::postgres_integer(signed)) as u64,
        Function::PostgresPartition => {
            let partition = foreign::postgres_partition_integer(signed, buckets(b, function)?);
            u64::from(partition.map_err(|it| fault(it, name))?)
        }
        Function::CitusShard => {
            let hash = foreign::postgres_integer(signed);
            let shard = foreign::citus_shard(hash, buckets(b, function)?);
            u64::from(shard.map_err(|it| fault(it, name))?)
        }
        Function::Micros => a,
        Function::FromMicros => timestamp(1)?,
        Function::FromMillis => timestamp(1_000)?,
        Function::FromSeconds => timestamp(1_000_000)?,
        Function::Min if is_signed => signed.min(b as i64) as u64,
        Function::Min => a.min(b),
        Function::Max if is_signed => signed.max(b as i64) as u64,
        Function::Max => a.max(b),
        Function::Abs => signed.checked_abs().ok_or(overflow)? as u64,
        Function::ToI64 if is_signed => a,
        Function::ToI64 => i64::try_from(a).map_err(|_| overflow)? as u64,
        Function::ToU64 if is_signed => u64::try_from(signed).map_err(|_| overflow)?,
        Function::ToU64 => a,
        _ => return Err(argument),
    })
}

fn str_of(blob: &[u8]) -> &str {
    // Only text is given to functions of text; it was valid when it came in.
    std::str::from_utf8(blob).unwrap_or("")
}

fn blob_to_scalar<const S: usize, const B: usize>(
    function: Function,
    stack: &mut Stack<'_, S, B>,
) -> Result<(), EvalError> {
    let blob = stack.pop_blob();
    let name = function.name();
    let sharded = matches!(
        function,
        Function::PostgresPartition | Function::CitusShard | Function::KafkaPartition
    );
    let count = if sharded {
        buckets(stack.pop(), function)?
    } else {
        1
    };
    let value = match function {
        Function::JavaHash => i64::from(foreign::java_string(str_of(&blob))) as u64,
        Function::RedisSlot => u64::from(foreign::redis_slot(&blob)),
        Function::PostgresHash => i64::from(foreign::postgres_bytes(&blob)) as u64,
        Function::PostgresPartition => {
            let partition = foreign::postgres_partition_bytes(&blob, count);
            u64::from(partition.map_err(|it| fault(it, name))?)
        }
        Function::CitusShard => {
            let shard = foreign::citus_shard(foreign::postgres_bytes(&blob), count);
            u64::from(shard.map_err(|it| fault(it, name))?)
        }
        Function::KafkaPartition => {
            let partition = foreign::kafka_partition(&blob, count);
            u64::from(partition.map_err(|it| fault(it, name))?)
        }
        Function::VitessXxhash => foreign::vitess_xxhash(&blob),
        Function::VitessMd5 => foreign::vitess_binary_md5(&blob),
        Function::MysqlCrc32 => u64::from(foreign::mysql_crc32(&blob)),
        Function::CassandraToken => foreign::cassandra_token(&blob) as u64,
        Function::Length => text::length(str_of(&blob)),
        Function::ParseInt => {
            text::parse_integer(str_of(&blob)).map_err(|it| fault(it, name))? as u64
        }
        _ => return Err(EvalError::Argument { function: name }),
    };
    stack.push(value);
    Ok(())
}

/// A part of a text, still borrowed if the text was.
fn part_of<'a>(blob: Blob<'a>, part: impl Fn(&str) -> &str) -> Blob<'a> {
    match blob {
        Cow::Borrowed(it) => Cow::Borrowed(part(str_of(it)).as_bytes()),
        Cow::Owned(it) => Cow::Owned(part(str_of(&it)).as_bytes().to_vec()),
    }
}

fn to_blob<const S: usize, const B: usize>(
    function: Function,
    is_signed: bool,
    stack: &mut Stack<'_, S, B>,
) -> Result<(), EvalError> {
    let argument = EvalError::Argument {
        function: function.name(),
    };
    let count = |it: u64| u64::try_from(it as i64).map_err(|_| argument);
    let blob = match function {
        Function::Text if is_signed => Cow::Owned((stack.pop() as i64).to_string().into_bytes()),
        Function::Text => Cow::Owned(stack.pop().to_string().into_bytes()),
        Function::ToBytes if is_signed => Cow::Owned(stack.pop().to_be_bytes().to_vec()),
        Function::ToBytes => stack.pop_blob(),
        Function::Left => {
            let n = count(stack.pop())?;
            part_of(stack.pop_blob(), |it| text::left(it, n))
        }
        Function::Right => {
            let n = count(stack.pop())?;
            part_of(stack.pop_blob(), |it| text::right(it, n))
        }
        Function::Substring => {
            let n = count(stack.pop())?;
            let start = count(stack.pop())?;
            part_of(stack.pop_blob(), |it| text::substring(it, start, n))
        }
        Function::SplitPart => {
            let at = count(stack.pop())?.checked_sub(1).ok_or(argument)?;
            let separator = stack.pop_blob();
            let separator = str_of(&separator);
            part_of(stack.pop_blob(), |it| text::split_part(it, separator, at))
        }
        Function::Lower => Cow::Owned(text::lower(str_of(&stack.pop_blob())).into_bytes()),
        Function::Upper => Cow::Owned(text::upper(str_of(&stack.pop_blob())).into_bytes()),
        _ => return Err(argument),
    };
    stack.push_blob(blob);
    Ok(())
}
