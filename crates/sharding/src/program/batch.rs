//! Many records at once, column by column: for migrators that evaluate two versions of a rule over every row. Rules
//! without branches run each instruction over a block of rows before the next, which the compiler turns into vector
//! code; others run row by row. Both answer exactly what [`Program::evaluate`] answers.

use super::{
    Program, ProgramBody,
    op::{Axis, Code, Op},
    run::{self, Source},
};
use crate::{
    error::EvalError,
    rule::NullPolicy,
    slot::Slot,
    value::{Literal, Type, Value},
};

/// One field of many records.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// The values; those of null rows do not matter.
    pub values: ColumnValues<'a>,
    /// Which rows are null; none if no row is.
    pub nulls: Option<&'a [bool]>,
}

/// Values of one type.
#[derive(Clone, Copy, Debug)]
pub enum ColumnValues<'a> {
    /// `bool`
    Bool(&'a [bool]),
    /// `i64`
    I64(&'a [i64]),
    /// `u64`
    U64(&'a [u64]),
    /// `string`
    Str(&'a [&'a str]),
    /// `bytes`
    Bytes(&'a [&'a [u8]]),
    /// `date`
    Date(&'a [i32]),
    /// `timestamp`
    Timestamp(&'a [i64]),
    /// `uuid`
    Uuid(&'a [[u8; 16]]),
}

/// What became of many records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The slot of each row; meaningless where there is an error.
    pub slots: Vec<Slot>,
    /// Rows without a slot, ascending, and why.
    pub errors: Vec<(usize, EvalError)>,
}

impl ColumnValues<'_> {
    fn len(&self) -> usize {
        match self {
            ColumnValues::Bool(it) => it.len(),
            ColumnValues::I64(it) | ColumnValues::Timestamp(it) => it.len(),
            ColumnValues::U64(it) => it.len(),
            ColumnValues::Str(it) => it.len(),
            ColumnValues::Bytes(it) => it.len(),
            ColumnValues::Date(it) => it.len(),
            ColumnValues::Uuid(it) => it.len(),
        }
    }

    fn ty(&self) -> Type {
        match self {
            ColumnValues::Bool(_) => Type::Bool,
            ColumnValues::I64(_) => Type::I64,
            ColumnValues::U64(_) => Type::U64,
            ColumnValues::Str(_) => Type::Str,
            ColumnValues::Bytes(_) => Type::Bytes,
            ColumnValues::Date(_) => Type::Date,
            ColumnValues::Timestamp(_) => Type::Timestamp,
            ColumnValues::Uuid(_) => Type::Uuid,
        }
    }
}

impl<'a> Column<'a> {
    /// A column without nulls.
    pub fn new(values: ColumnValues<'a>) -> Column<'a> {
        Column {
            values,
            nulls: None,
        }
    }

    fn value(&self, row: usize) -> Value<'a> {
        if self.nulls.is_some_and(|nulls| nulls[row]) {
            return Value::Null;
        }
        match self.values {
            ColumnValues::Bool(it) => Value::Bool(it[row]),
            ColumnValues::I64(it) => Value::I64(it[row]),
            ColumnValues::U64(it) => Value::U64(it[row]),
            ColumnValues::Str(it) => Value::Str(it[row]),
            ColumnValues::Bytes(it) => Value::Bytes(it[row]),
            ColumnValues::Date(it) => Value::Date(it[row]),
            ColumnValues::Timestamp(it) => Value::Timestamp(it[row]),
            ColumnValues::Uuid(it) => Value::Uuid(it[row]),
        }
    }
}

/// One row of columns.
struct Row<'a, 'c> {
    columns: &'c [Column<'a>],
    nulls: &'a [Option<Literal>],
    row: usize,
}

impl<'a> Source<'a> for Row<'a, '_> {
    #[inline]
    fn scalar(&self, field: u16) -> u64 {
        match self.columns[usize::from(field)].value(self.row) {
            Value::I64(it) | Value::Timestamp(it) => it as u64,
            Value::U64(it) => it,
            Value::Date(it) => i64::from(it) as u64,
            Value::Bool(it) => u64::from(it),
            _ => run::default(self.nulls, field)
                .and_then(Literal::scalar)
                .unwrap_or(0),
        }
    }

    fn blob(&self, field: u16) -> &'a [u8] {
        let column = &self.columns[usize::from(field)];
        match (column.value(self.row), column.values) {
            (Value::Str(it), _) => it.as_bytes(),
            (Value::Bytes(it), _) => it,
            (Value::Uuid(_), ColumnValues::Uuid(all)) => &all[self.row],
            _ => run::default(self.nulls, field)
                .and_then(Literal::blob)
                .unwrap_or(&[]),
        }
    }
}

/// Rows of a block: some columns of the stack then fit the first level cache together.
const BLOCK: usize = 256;

impl Program {
    /// The slots of many records, given by column, into `out`, which is cleared first. All columns have `rows` rows.
    pub fn evaluate_batch(
        &self,
        columns: &[Column<'_>],
        rows: usize,
        out: &mut Batch,
    ) -> Result<(), EvalError> {
        out.slots.clear();
        out.errors.clear();
        self.check_columns(columns, rows)?;
        out.slots.resize(rows, Slot(0));
        let straight = match &self.body {
            ProgramBody::Code(code) if code.is_straight() && self.is_plain(columns) => Some(code),
            _ => None,
        };
        let mut from = 0;
        while from < rows {
            let to = (from + BLOCK).min(rows);
            let done = straight
                .is_some_and(|code| block(code, columns, from, &mut out.slots[from..to]).is_ok());
            if !done {
                self.row_by_row(columns, from..to, out);
            }
            from = to;
        }
        Ok(())
    }

    fn check_columns(&self, columns: &[Column<'_>], rows: usize) -> Result<(), EvalError> {
        if columns.len() != self.types.len() {
            return Err(EvalError::FieldCount {
                given: columns.len(),
                declared: self.types.len(),
            });
        }
        for (at, (column, declared)) in columns.iter().zip(&self.types).enumerate() {
            let field = u16::try_from(at).unwrap_or(u16::MAX);
            let given = column.values.ty();
            if given != *declared {
                return Err(EvalError::WrongType {
                    field,
                    given,
                    declared: *declared,
                });
            }
            let short = column.nulls.is_some_and(|it| it.len() < rows);
            if short || column.values.len() < rows {
                return Err(EvalError::FieldRange { field });
            }
        }
        Ok(())
    }

    /// No field that the rule uses can be null or out of range.
    fn is_plain(&self, columns: &[Column<'_>]) -> bool {
        self.used.iter().all(|field| {
            let column = &columns[usize::from(*field)];
            column.nulls.is_none()
                && matches!(
                    column.values,
                    ColumnValues::I64(_)
                        | ColumnValues::U64(_)
                        | ColumnValues::Bool(_)
                        | ColumnValues::Timestamp(_)
                        | ColumnValues::Date(_)
                )
        })
    }

    fn row_by_row(&self, columns: &[Column<'_>], rows: std::ops::Range<usize>, out: &mut Batch) {
        for row in rows {
            match self.evaluate_row(columns, row) {
                Ok(slot) => out.slots[row] = slot,
                Err(error) => {
                    out.slots[row] = Slot(0);
                    out.errors.push((row, error));
                }
            }
        }
    }

    fn evaluate_row(&self, columns: &[Column<'_>], row: usize) -> Result<Slot, EvalError> {
        if let Some(slot) = self.bind(|field| columns[usize::from(field)].value(row))? {
            return Ok(slot);
        }
        match &self.body {
            ProgramBody::Code(code) => code.run(&Row {
                columns,
                nulls: &code.nulls,
                row,
            }),
            ProgramBody::Script(script) => {
                let fields: Vec<_> = columns.iter().map(|it| it.value(row)).collect();
                self.evaluate_script(&**script, &fields)
            }
        }
    }

    /// Whether a null in the field is no error.
    pub fn allows_null(&self, field: u16) -> bool {
        let field = self.rule.fields.get(usize::from(field));
        field.is_some_and(|it| it.null != NullPolicy::Error)
    }
}

/// A block has an error somewhere: it is done again row by row, which finds and tells it.
struct Failed;

type Lane = [u64; BLOCK];

/// Runs every instruction over the rows of one block.
fn block(
    code: &Code,
    columns: &[Column<'_>],
    from: usize,
    slots: &mut [Slot],
) -> Result<(), Failed> {
    let rows = slots.len();
    let mut lanes: Vec<Lane> = vec![[0; BLOCK]; code.scalars_max.max(1)];
    let mut height = code.locals;
    slots.fill(Slot(0));
    for op in &code.ops {
        match *op {
            Op::Const(it) => {
                lanes[height][..rows].fill(it);
                height += 1;
            }
            Op::Field(it) => {
                load(&columns[usize::from(it)], from, &mut lanes[height][..rows])?;
                height += 1;
            }
            Op::FieldMask(it, mask) => {
                load(&columns[usize::from(it)], from, &mut lanes[height][..rows])?;
                each(&mut lanes[height][..rows], |a| a & mask);
                height += 1;
            }
            Op::FieldModuloSigned(it, by) => {
                load(&columns[usize::from(it)], from, &mut lanes[height][..rows])?;
                each(&mut lanes[height][..rows], |a| modulo(a as i64, by));
                height += 1;
            }
            Op::FieldModuloUnsigned(it, by) => {
                load(&columns[usize::from(it)], from, &mut lanes[height][..rows])?;
                each(&mut lanes[height][..rows], |a| modulo_unsigned(a, by));
                height += 1;
            }
            Op::Local(it) => {
                lanes[height] = lanes[usize::from(it)];
                height += 1;
            }
            Op::SetLocal(it) => {
                height -= 1;
                lanes[usize::from(it)] = lanes[height];
            }
            Op::Dimension(dimension, is_signed) => {
                height -= 1;
                let axis = &code.axes[usize::from(dimension)];
                place(&lanes[height][..rows], is_signed, axis, slots)?;
            }
            Op::Done => return Ok(()),
            Op::Signed(_) | Op::Unsigned(_) | Op::Scalars(..) | Op::HashScalarSeeded(_) => {
                height = combine(*op, &mut lanes, height, rows)?;
            }
            other => {
                let top = height.checked_sub(1).ok_or(Failed)?;
                on_top(code, other, &mut lanes[top][..rows])?;
            }
        }
    }
    Err(Failed)
}

fn load(column: &Column<'_>, from: usize, lane: &mut [u64]) -> Result<(), Failed> {
    let to = from + lane.len();
    match column.values {
        ColumnValues::I64(it) => copy(&it[from..to], lane, |it| it as u64),
        ColumnValues::U64(it) => lane.copy_from_slice(&it[from..to]),
        ColumnValues::Bool(it) => copy(&it[from..to], lane, u64::from),
        ColumnValues::Timestamp(it) => {
            use crate::limits::{TIMESTAMP_MAX, TIMESTAMP_MIN};
            let it = &it[from..to];
            let fits = it
                .iter()
                .all(|it| (TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(it));
            if !fits {
                return Err(Failed);
            }
            copy(it, lane, |it| it as u64);
        }
        ColumnValues::Date(it) => {
            use crate::limits::{DATE_MAX, DATE_MIN};
            let it = &it[from..to];
            if !it.iter().all(|it| (DATE_MIN..=DATE_MAX).contains(it)) {
                return Err(Failed);
            }
            copy(it, lane, |it| i64::from(it) as u64);
        }
        ColumnValues::Str(_) | ColumnValues::Bytes(_) | ColumnValues::Uuid(_) => {
            return Err(Failed);
        }
    }
    Ok(())
}

fn copy<T: Copy>(from: &[T], lane: &mut [u64], convert: impl Fn(T) -> u64) {
    for (to, from) in lane.iter_mut().zip(from) {
        *to = convert(*from);
    }
}

#[inline(always)]
fn each(lane: &mut [u64], of: impl Fn(u64) -> u64) {
    for value in lane {
        *value = of(*value);
    }
}

/// Divisions of 32 bits cost half as much as those of 64.
#[inline(always)]
fn modulo(a: i64, by: i64) -> u64 {
    match (u32::try_from(a), u32::try_from(by)) {
        (Ok(a), Ok(by)) if by > 0 => u64::from(a % by),
        _ => a.rem_euclid(by) as u64,
    }
}

#[inline(always)]
fn modulo_unsigned(a: u64, by: u64) -> u64 {
    match (u32::try_from(a), u32::try_from(by)) {
        (Ok(a), Ok(by)) if by > 0 => u64::from(a % by),
        _ => a % by,
    }
}

fn each_checked(
    lane: &mut [u64],
    of: impl Fn(u64) -> Result<u64, EvalError>,
) -> Result<(), Failed> {
    for value in lane {
        *value = of(*value).map_err(|_| Failed)?;
    }
    Ok(())
}

/// Adds a coordinate to every slot.
fn place(lane: &[u64], is_signed: bool, axis: &Axis, slots: &mut [Slot]) -> Result<(), Failed> {
    for (slot, value) in slots.iter_mut().zip(lane) {
        slot.0 += run::coordinate(*value, is_signed, axis, 0).map_err(|_| Failed)?;
    }
    Ok(())
}

/// Instructions that change the top.
fn on_top(code: &Code, op: Op, lane: &mut [u64]) -> Result<(), Failed> {
    match op {
        Op::Mask(mask) => each(lane, |a| a & mask),
        Op::ModuloSigned(by) => each(lane, |a| modulo(a as i64, by)),
        Op::ModuloUnsigned(by) => each(lane, |a| modulo_unsigned(a, by)),
        Op::Not => each(lane, |a| a ^ 1),
        Op::Negate => each_checked(lane, run::negate)?,
        Op::SignedConst(operator, b) => {
            each_checked(lane, |a| run::signed(operator, a as i64, b))?;
        }
        Op::UnsignedConst(operator, b) => each_checked(lane, |a| run::unsigned(operator, a, b))?,
        Op::HashScalar(function) => {
            each(lane, |a| run::hash_of(function, &a.to_be_bytes(), 0));
        }
        Op::Part(part, zone) => {
            let zone = &code.zones[usize::from(zone)];
            each(lane, |a| {
                crate::function::calendar::part(part, a as i64, zone) as u64
            });
        }
        Op::Index(unit, zone) => {
            let zone = &code.zones[usize::from(zone)];
            each(lane, |a| {
                crate::function::calendar::index(unit, a as i64, zone) as u64
            });
        }
        Op::DatePart(part) => {
            each(lane, |a| {
                crate::function::calendar::part_of_day(part, a as i64) as u64
            });
        }
        Op::LookupScalar(at) => {
            let lookup = &code.lookups[at as usize];
            each(lane, |a| lookup.scalar_to_scalar(a));
        }
        _ => return Err(Failed),
    }
    Ok(())
}

/// Instructions that take two, or one and look like it. Answers the new height.
fn combine(op: Op, lanes: &mut [Lane], height: usize, rows: usize) -> Result<usize, Failed> {
    let takes_two = !matches!(
        op,
        Op::Scalars(function, _) if function.arguments_max() == 1
    );
    let below = height
        .checked_sub(1 + usize::from(takes_two))
        .ok_or(Failed)?;
    let (lower, upper) = lanes.split_at_mut(below + 1);
    let a = &mut lower[below][..rows];
    let zeros = [0; BLOCK];
    let b = upper.first().filter(|_| takes_two).unwrap_or(&zeros);
    for (a, b) in a.iter_mut().zip(b) {
        let value = match op {
            Op::Signed(operator) => run::signed(operator, *a as i64, *b as i64),
            Op::Unsigned(operator) => run::unsigned(operator, *a, *b),
            Op::Scalars(function, is_signed) => run::scalar_function(function, is_signed, *a, *b),
            Op::HashScalarSeeded(function) => Ok(run::hash_of(function, &a.to_be_bytes(), *b)),
            _ => return Err(Failed),
        };
        *a = value.map_err(|_| Failed)?;
    }
    Ok(below + 1)
}
