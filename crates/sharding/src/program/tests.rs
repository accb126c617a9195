//! Tests of evaluation: against a plain walk over the tree, by record and by column.

use proptest::prelude::*;

use super::{Batch, Column, ColumnValues, KeyedError, Program};
use crate::{
    EvalError, Fields, Literal, Rule, Slot, Type, Value,
    function::{self, Zone, calendar},
    random::{self, Flavour, Source},
    rule::{
        Binary, Body, DefinitionBody, Expr, Function, ListRef, NodesFunction, NullPolicy,
        Otherwise, Statement, Unary,
    },
    text::tests::ORDERS,
};

fn program(line: &str) -> Program {
    Program::parse(&format!(
        "rule r version 1; field a: i64; field u: u64; field t: timestamp; field s: string; field b: bytes; \
         dimension d -1000 to 3000; {line} place table \"t\";"
    ))
    .unwrap()
}

/// What an expression of i64 gives, by way of a rule.
fn number(expr: &str, fields: &Fields<'_>) -> Result<i64, EvalError> {
    let program = program(&format!("else ({expr});"));
    let slot = program.evaluate(fields)?;
    Ok(program.shape().coordinate(slot, 0))
}

const ZERO: [Value<'static>; 5] = [
    Value::I64(0),
    Value::U64(0),
    Value::Timestamp(0),
    Value::Str(""),
    Value::Bytes(b""),
];

fn fields<'a>(a: i64, u: u64) -> [Value<'a>; 5] {
    [
        Value::I64(a),
        Value::U64(u),
        Value::Timestamp(0),
        Value::Str(""),
        Value::Bytes(b""),
    ]
}

#[test]
fn r40_arithmetic_is_checked_floors_and_is_never_negative_where_it_must_not_be() {
    let overflow = |operation| Err(EvalError::Overflow { operation });
    let zero = |operation| Err(EvalError::DivisionByZero { operation });
    for (expr, a, u, expected) in [
        ("a % 1024", -1, 0, Ok(1023)),
        ("a % 8 - 10", i64::MIN, 0, Ok(-10)),
        ("a % 7 - 10", -1, 0, Ok(-4)),
        ("a / 2", -3, 0, Ok(-2)),
        ("a / -2", 3, 0, Ok(-2)),
        ("a + 1", i64::MAX, 0, overflow("+")),
        ("a - 1", i64::MIN, 0, overflow("-")),
        ("a * 2", i64::MAX, 0, overflow("*")),
        ("-a", i64::MIN, 0, overflow("-")),
        ("a / -1", i64::MIN, 0, overflow("/")),
        ("a / (a - a)", 1, 0, zero("/")),
        ("a % (a - a)", 1, 0, zero("%")),
        (
            "a % (a - 2)",
            1,
            0,
            Err(EvalError::Argument { function: "%" }),
        ),
        ("abs(a)", i64::MIN, 0, overflow("abs")),
        ("abs(a) - 5", -3, 0, Ok(-2)),
        ("to_i64(u)", 0, u64::MAX, overflow("to_i64")),
        ("to_i64(to_u64(a))", -1, 0, overflow("to_u64")),
        ("to_i64(u + 1)", 0, u64::MAX, overflow("+")),
        ("to_i64(u - 1)", 0, 0, overflow("-")),
        ("to_i64(u * 2)", 0, u64::MAX, overflow("*")),
        ("to_i64(u / (u - u))", 0, 1, zero("/")),
        ("a << 63", 1, 0, overflow("<<")),
        ("a << 64", 1, 0, Err(EvalError::Shift { by: 64 })),
        ("a >> -1", 1, 0, Err(EvalError::Shift { by: -1 })),
        ("a >> 1", -3, 0, Ok(-2)),
        ("to_i64(u >> 63)", 0, u64::MAX, Ok(1)),
        ("to_i64(u << 1)", 0, u64::MAX, overflow("<<")),
        ("min(a, -4)", -3, 0, Ok(-4)),
        ("max(a, -4)", -3, 0, Ok(-3)),
        ("a & 6 | 1 ^ 1", -7, 0, Ok(0)),
        (
            "a",
            5_000,
            0,
            Err(EvalError::OutsideDimension {
                dimension: 0,
                value: 5_000,
            }),
        ),
        ("if a == 0 then 1 else 1 / a", 0, 0, Ok(1)),
        (
            "if a != 0 and 1 / a > 0 or a == 0 then 1 else 0",
            0,
            0,
            Ok(1),
        ),
    ] {
        assert_eq!(number(expr, &fields(a, u)), expected, "{expr} of {a}, {u}");
    }
    let program = program("else (u);");
    assert_eq!(
        program.evaluate(&fields(0, u64::MAX)),
        Err(EvalError::OutsideDimension {
            dimension: 0,
            value: i64::MAX
        })
    );
}

#[test]
fn fields_are_held_against_their_declaration() {
    let program = program("when a == 1 then (1); when t < \"2020-01-01\" then (0); else error;");
    assert_eq!(program.evaluate(&ZERO), Ok(Slot(1_000)));
    assert_eq!(
        program.evaluate(&ZERO[..2]),
        Err(EvalError::FieldCount {
            given: 2,
            declared: 5
        })
    );
    let mut fields = ZERO;
    fields[0] = Value::Null;
    assert_eq!(program.evaluate(&fields), Err(EvalError::Null { field: 0 }));
    fields[0] = Value::U64(1);
    assert_eq!(
        program.evaluate(&fields),
        Err(EvalError::WrongType {
            field: 0,
            given: Type::U64,
            declared: Type::I64
        })
    );
    let mut fields = ZERO;
    fields[2] = Value::Timestamp(i64::MAX);
    assert_eq!(
        program.evaluate(&fields),
        Err(EvalError::FieldRange { field: 2 })
    );
    fields[2] = Value::Timestamp(1_600_000_000_000_000);
    assert_eq!(program.evaluate(&fields), Err(EvalError::NoAlternative));
    // The rule does not look at u.
    let mut fields = ZERO;
    fields[1] = Value::Null;
    assert_eq!(program.evaluate(&fields), Ok(Slot(1_000)));
}

#[test]
fn r48_r49_two_dimensions_and_padded_names() {
    let program = Program::parse(
        "rule r version 1; field userid: i64; field gmt: timestamp; dimension shard 0 to 1023; \
         dimension day 1 to 31; else (userid % 1024, day(gmt)); \
         place table \"table_{shard:4}_{day:2}\";",
    )
    .unwrap();
    let gmt = Value::Timestamp(1_327_276_800_000_000);
    let place = program.place(&[Value::I64(1025), gmt]).unwrap();
    assert_eq!(place.table, "table_0001_23");
    assert_eq!(program.map().places().len(), 1024 * 31);
}

#[test]
fn r42_exceptions_and_the_example_of_the_rfc() {
    let program = Program::parse(ORDERS).unwrap();
    let gmt = Value::Timestamp(1_327_276_800_000_000);
    let slot = |user, gmt, name| {
        let slot = program
            .evaluate(&[Value::I64(user), gmt, Value::Str(name)])
            .unwrap();
        (
            program.shape().coordinates(slot),
            program.map().place(slot).clone(),
        )
    };
    let (coordinates, place) = slot(2000, gmt, "x");
    assert_eq!(coordinates, [1023, 23]);
    assert_eq!(
        (place.cluster.as_str(), place.table.as_str()),
        ("c3", "orders_1023_23")
    );
    let hash = function::hash::xxh3_64(&77_i64.to_be_bytes(), 0);
    assert_eq!(slot(77, gmt, "x").0, [(hash % 1024) as i64, 23]);
    assert_eq!(slot(77, Value::Null, "x").0, [0, 1]);
    // 2012-01-01 12:00 in Shanghai, a Sunday in UTC too: home(7) is 3, so the chunk of the name decides.
    let new_year = Value::Timestamp(1_325_390_400_000_000);
    assert_eq!(slot(7, new_year, "x").0, [4, 7]);
    assert_eq!(slot(8, new_year, "y").0, [3, 7]);
    assert_eq!(
        program
            .map()
            .place(program.shape().slot(&[7, 9]).unwrap())
            .table,
        "orders_hot_09"
    );
    assert_eq!(
        program
            .map()
            .place(program.shape().slot(&[9, 1]).unwrap())
            .table,
        "{x}02"
    );
    let key = {
        let mut key = Vec::new();
        let fields = [Value::I64(77), gmt, Value::Str("x")];
        program
            .rule()
            .key
            .as_ref()
            .unwrap()
            .write(&fields, &mut key)
            .unwrap();
        key
    };
    assert_eq!(
        program.evaluate_key(&key).unwrap(),
        program
            .evaluate(&[Value::I64(77), gmt, Value::Str("x")])
            .unwrap()
    );
    assert!(matches!(
        program.evaluate_key(&key[..9]),
        Err(KeyedError::Key(_))
    ));
}

#[test]
fn a_jump_that_lands_between_a_field_and_an_operation_is_not_fused_away() {
    let program = program("else ((if a > 5 then 7 else a) % 4);");
    for (a, expected) in [(6, 3), (5, 1), (-1, 3)] {
        let slot = program.evaluate(&fields(a, 0)).unwrap();
        assert_eq!(program.shape().coordinate(slot, 0), expected);
    }
}

#[test]
fn published_bytes_of_another_hash_are_refused() {
    let program = Program::parse(ORDERS).unwrap();
    let again = Program::decode(program.bytes(), program.hash()).unwrap();
    assert_eq!(again.rule(), program.rule());
    let error = Program::decode(program.bytes(), program.logic_hash()).unwrap_err();
    assert!(error.message.contains("hash"), "{error}");
}

// The model: the tree, walked with the plainest means.

struct Walker<'r> {
    rule: &'r Rule,
    fields: Vec<Literal>,
    locals: Vec<Literal>,
}

impl Walker<'_> {
    fn expr(&self, expr: &Expr) -> Option<Literal> {
        Some(match expr {
            Expr::Literal(it) => it.clone(),
            Expr::Field(at) => self.fields[usize::from(*at)].clone(),
            Expr::Local(at) => self.locals[usize::from(*at)].clone(),
            Expr::Unary(Unary::Not, a) => Literal::Bool(self.expr(a)? == Literal::Bool(false)),
            Expr::Unary(Unary::Negate, a) => match self.expr(a)? {
                Literal::I64(it) => Literal::I64(it.checked_neg()?),
                _ => unreachable!(),
            },
            Expr::Binary(Binary::And, a, b) => match self.expr(a)? {
                Literal::Bool(true) => self.expr(b)?,
                no => no,
            },
            Expr::Binary(Binary::Or, a, b) => match self.expr(a)? {
                Literal::Bool(false) => self.expr(b)?,
                yes => yes,
            },
            Expr::Binary(operator, a, b) => binary(*operator, self.expr(a)?, self.expr(b)?)?,
            Expr::If(parts) => match self.expr(&parts[0])? {
                Literal::Bool(true) => self.expr(&parts[1])?,
                _ => self.expr(&parts[2])?,
            },
            Expr::In(a, ListRef::Inline(list)) => Literal::Bool(list.contains(&self.expr(a)?)),
            Expr::In(a, ListRef::Named(at)) => {
                let DefinitionBody::List(list) = &self.rule.definitions[usize::from(*at)].body
                else {
                    unreachable!()
                };
                Literal::Bool(list.contains(&self.expr(a)?))
            }
            Expr::Lookup(at, a) => {
                self.lookup(&self.rule.definitions[usize::from(*at)].body, self.expr(a)?)
            }
            Expr::Call(function, arguments) => {
                let arguments: Option<Vec<_>> = arguments.iter().map(|it| self.expr(it)).collect();
                call(
                    *function,
                    &arguments?,
                    self.rule.zone.as_deref().unwrap_or("UTC"),
                )?
            }
        })
    }

    fn lookup(&self, body: &DefinitionBody, key: Literal) -> Literal {
        match body {
            DefinitionBody::Table {
                entries, otherwise, ..
            } => entries
                .iter()
                .find(|(it, _)| *it == key)
                .map_or(otherwise, |(_, it)| it)
                .clone(),
            DefinitionBody::Ranges { first, bounds, .. } => Literal::I64(
                bounds
                    .iter()
                    .rev()
                    .find(|(bound, _)| *bound <= key)
                    .map_or(*first, |(_, it)| *it),
            ),
            DefinitionBody::Nodes(nodes) => match key {
                Literal::U64(hash) => {
                    Literal::U64(u64::from(NodesFunction::new(nodes).unwrap().find(hash)))
                }
                _ => unreachable!(),
            },
            DefinitionBody::List(_) => unreachable!(),
        }
    }
}

fn binary(operator: Binary, a: Literal, b: Literal) -> Option<Literal> {
    let wide = |it: &Literal| match it {
        Literal::I64(it) => i128::from(*it),
        Literal::U64(it) => i128::from(*it),
        _ => 0,
    };
    let (x, y) = (wide(&a), wide(&b));
    let value = match operator {
        Binary::Equal => return Some(Literal::Bool(a == b)),
        Binary::NotEqual => return Some(Literal::Bool(a != b)),
        Binary::Less => return Some(Literal::Bool(a < b)),
        Binary::LessEqual => return Some(Literal::Bool(a <= b)),
        Binary::Greater => return Some(Literal::Bool(a > b)),
        Binary::GreaterEqual => return Some(Literal::Bool(a >= b)),
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x.checked_mul(y)?,
        Binary::Divide if y == 0 => return None,
        Binary::Divide => {
            (x - x.rem_euclid(y.abs())) / y - i128::from(y < 0 && x.rem_euclid(-y) != 0)
        }
        Binary::Modulo if y <= 0 => return None,
        Binary::Modulo => x.rem_euclid(y),
        Binary::BitAnd => x & y,
        Binary::BitOr => x | y,
        Binary::BitXor => x ^ y,
        Binary::ShiftLeft | Binary::ShiftRight if !(0..=63).contains(&y) => return None,
        Binary::ShiftLeft => x << y,
        Binary::ShiftRight => x >> y,
        Binary::And | Binary::Or => unreachable!(),
    };
    match a {
        Literal::I64(_) => i64::try_from(value).ok().map(Literal::I64),
        _ => u64::try_from(value).ok().map(Literal::U64),
    }
}

fn call(function: Function, arguments: &[Literal], zone: &str) -> Option<Literal> {
    let bytes = |it: &Literal| match it.blob() {
        Some(blob) => blob.to_vec(),
        None => it.scalar().unwrap().to_be_bytes().to_vec(),
    };
    let seed = match arguments.get(1) {
        Some(Literal::U64(seed)) => *seed,
        _ => 0,
    };
    let text = |it: &Literal| match it {
        Literal::Str(it) => it.clone(),
        _ => unreachable!(),
    };
    let i64_of = |it: &Literal| match it {
        Literal::I64(it) => *it,
        _ => unreachable!(),
    };
    let count = |it: &Literal| i64_of(it) as usize;
    Some(match function {
        Function::Xxh3 => Literal::U64(function::hash::xxh3_64(&bytes(&arguments[0]), seed)),
        Function::Crc32 => Literal::U64(function::hash::crc32(&bytes(&arguments[0]), seed)),
        Function::Fnv1a => Literal::U64(function::hash::fnv1a_64(&bytes(&arguments[0]), seed)),
        Function::Murmur3 => Literal::U64(function::hash::murmur3_32(&bytes(&arguments[0]), seed)),
        Function::Jump => match arguments {
            [Literal::U64(key), Literal::U64(n)] => {
                Literal::U64(u64::from(function::nodes::jump(*key, *n as u32)))
            }
            _ => unreachable!(),
        },
        Function::JavaHash => Literal::I64(i64::from(function::foreign::java_string(&text(
            &arguments[0],
        )))),
        Function::Length => Literal::I64(text(&arguments[0]).chars().count() as i64),
        Function::ParseInt => {
            Literal::I64(function::text::parse_integer(&text(&arguments[0])).ok()?)
        }
        Function::Lower => Literal::Str(text(&arguments[0]).to_ascii_lowercase()),
        Function::Upper => Literal::Str(text(&arguments[0]).to_ascii_uppercase()),
        Function::Left => Literal::Str(
            text(&arguments[0])
                .chars()
                .take(count(&arguments[1]))
                .collect(),
        ),
        Function::Right => {
            let text: Vec<char> = text(&arguments[0]).chars().collect();
            let from = text.len().saturating_sub(count(&arguments[1]));
            Literal::Str(text[from..].iter().collect())
        }
        Function::Substring => {
            let text = text(&arguments[0]);
            let part = text.chars().skip(count(&arguments[1]));
            Literal::Str(part.take(count(&arguments[2])).collect())
        }
        Function::Text => match &arguments[0] {
            Literal::I64(it) => Literal::Str(it.to_string()),
            _ => unreachable!(),
        },
        Function::SplitPart => {
            let (text, separator) = (text(&arguments[0]), text(&arguments[1]));
            let part = text.split(&separator).nth(count(&arguments[2]) - 1);
            Literal::Str(part.unwrap_or_default().to_owned())
        }
        Function::Abs => Literal::I64(i64_of(&arguments[0]).checked_abs()?),
        Function::Micros => match arguments[0] {
            Literal::Timestamp(it) => Literal::I64(it),
            _ => unreachable!(),
        },
        Function::FromMicros | Function::FromMillis | Function::FromSeconds => {
            let by = match function {
                Function::FromMicros => 1,
                Function::FromMillis => 1_000,
                _ => 1_000_000,
            };
            let moment = Literal::Timestamp(i64_of(&arguments[0]).checked_mul(by)?);
            moment.is_in_range().then_some(moment)?
        }
        Function::Min => arguments.iter().min().unwrap().clone(),
        Function::Max => arguments.iter().max().unwrap().clone(),
        Function::ToI64 => match arguments[0] {
            Literal::U64(it) => Literal::I64(i64::try_from(it).ok()?),
            _ => arguments[0].clone(),
        },
        Function::ToU64 => match arguments[0] {
            Literal::I64(it) => Literal::U64(u64::try_from(it).ok()?),
            _ => arguments[0].clone(),
        },
        _ => {
            let zone = match arguments.get(1) {
                Some(Literal::Str(zone)) => Zone::load(zone).unwrap(),
                _ => Zone::load(zone).unwrap(),
            };
            let part = super::lower::part(function);
            let unit = super::lower::unit(function);
            if let (Function::Date, Literal::Timestamp(it)) = (function, &arguments[0]) {
                let day = calendar::index(calendar::Unit::Day, *it, &zone);
                return Some(Literal::Date(i32::try_from(day).unwrap()));
            }
            Literal::I64(match (&arguments[0], part, unit) {
                (Literal::Timestamp(it), Some(part), _) => calendar::part(part, *it, &zone),
                (Literal::Timestamp(it), None, Some(unit)) => calendar::index(unit, *it, &zone),
                (Literal::Date(it), Some(part), _) => calendar::part_of_day(part, i64::from(*it)),
                (Literal::Date(it), None, Some(unit)) => {
                    calendar::index_of_day(unit, i64::from(*it)).unwrap()
                }
                _ => unreachable!("{function:?}"),
            })
        }
    })
}

/// The coordinates by the model, or none for any error.
pub(crate) fn model(rule: &Rule, record: &Fields<'_>, used: &[u16]) -> Option<Vec<i64>> {
    let mut fields = Vec::new();
    for (at, (value, field)) in record.iter().zip(&rule.fields).enumerate() {
        let is_used = used.contains(&(at as u16));
        fields.push(match (value.to_literal(), &field.null) {
            (Some(literal), _) => literal,
            (None, NullPolicy::Value(literal)) => literal.clone(),
            (None, NullPolicy::Slot(slot)) if is_used => return Some(slot.clone()),
            (None, NullPolicy::Error) if is_used => return None,
            _ => Literal::Bool(false),
        });
    }
    let Body::Statements(statements, otherwise) = &rule.body else {
        unreachable!()
    };
    let mut walker = Walker {
        rule,
        fields,
        locals: Vec::new(),
    };
    let slot = |walker: &Walker<'_>, slot: &[Expr]| -> Option<Vec<i64>> {
        let mut coordinates = Vec::new();
        for (expr, dimension) in slot.iter().zip(&rule.dimensions) {
            let value = match walker.expr(expr)? {
                Literal::I64(it) => it,
                Literal::U64(it) => i64::try_from(it).ok()?,
                _ => unreachable!(),
            };
            if value < dimension.first || value > dimension.last {
                return None;
            }
            coordinates.push(value);
        }
        Some(coordinates)
    };
    for statement in statements {
        match statement {
            Statement::Let { value, .. } => {
                let value = walker.expr(value)?;
                walker.locals.push(value);
            }
            Statement::When {
                condition,
                slot: exprs,
            } => {
                if walker.expr(condition)? == Literal::Bool(true) {
                    return slot(&walker, exprs);
                }
            }
        }
    }
    match otherwise {
        Otherwise::Slot(exprs) => slot(&walker, exprs),
        _ => None,
    }
}

/// A record for a rule, with a null now and then.
pub(crate) fn record(source: &mut Source<'_>, rule: &Rule) -> Vec<Option<Literal>> {
    rule.fields
        .iter()
        .map(|field| (!source.chance(1)).then(|| source.literal(field.ty)))
        .collect()
}

pub(crate) fn values(record: &[Option<Literal>]) -> Vec<Value<'_>> {
    record
        .iter()
        .map(|it| it.as_ref().map_or(Value::Null, Literal::value))
        .collect()
}

/// The same records as columns, the answers compared one by one.
fn check_batch(program: &Program, records: &[Vec<Option<Literal>>]) {
    let rows = records.len();
    let nulls: Vec<Vec<bool>> = (0..program.types().len())
        .map(|at| records.iter().map(|it| it[at].is_none()).collect())
        .collect();
    macro_rules! column {
        ($at:expr, $variant:ident, $default:expr) => {
            records
                .iter()
                .map(|it| match &it[$at] {
                    Some(Literal::$variant(it)) => it.clone(),
                    _ => $default,
                })
                .collect::<Vec<_>>()
        };
    }
    let fields = program.types().len();
    let bools: Vec<_> = (0..fields).map(|at| column!(at, Bool, false)).collect();
    let signed: Vec<_> = (0..fields).map(|at| column!(at, I64, 0)).collect();
    let unsigned: Vec<_> = (0..fields).map(|at| column!(at, U64, 0)).collect();
    let texts: Vec<_> = (0..fields)
        .map(|at| column!(at, Str, String::new()))
        .collect();
    let blobs: Vec<_> = (0..fields)
        .map(|at| column!(at, Bytes, Vec::new()))
        .collect();
    let dates: Vec<_> = (0..fields).map(|at| column!(at, Date, 0)).collect();
    let times: Vec<_> = (0..fields).map(|at| column!(at, Timestamp, 0)).collect();
    let uuids: Vec<_> = (0..fields).map(|at| column!(at, Uuid, [0; 16])).collect();
    let texts: Vec<Vec<&str>> = texts
        .iter()
        .map(|it| it.iter().map(String::as_str).collect())
        .collect();
    let blobs: Vec<Vec<&[u8]>> = blobs
        .iter()
        .map(|it| it.iter().map(Vec::as_slice).collect())
        .collect();
    let columns: Vec<Column<'_>> = (0..fields)
        .map(|at| Column {
            values: match program.types()[at] {
                Type::Bool => ColumnValues::Bool(&bools[at]),
                Type::I64 => ColumnValues::I64(&signed[at]),
                Type::U64 => ColumnValues::U64(&unsigned[at]),
                Type::Str => ColumnValues::Str(&texts[at]),
                Type::Bytes => ColumnValues::Bytes(&blobs[at]),
                Type::Date => ColumnValues::Date(&dates[at]),
                Type::Timestamp => ColumnValues::Timestamp(&times[at]),
                Type::Uuid => ColumnValues::Uuid(&uuids[at]),
            },
            nulls: nulls[at].contains(&true).then_some(nulls[at].as_slice()),
        })
        .collect();
    let mut batch = Batch::default();
    program.evaluate_batch(&columns, rows, &mut batch).unwrap();
    let mut errors = batch.errors.iter();
    for (row, record) in records.iter().enumerate() {
        match program.evaluate(&values(record)) {
            Ok(slot) => assert_eq!(batch.slots[row], slot),
            Err(error) => assert_eq!(errors.next(), Some(&(row, error))),
        }
    }
    assert_eq!(errors.next(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 2_000 } else { 20_000 }))]

    #[test]
    fn r39_a_compiled_rule_answers_what_its_tree_says(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        more in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let rule = random::rule(&mut Source::new(&bytes), Flavour::Any);
        let program = Program::compile(rule).unwrap();
        let mut source = Source::new(&more);
        let records: Vec<_> = (0..10).map(|_| record(&mut source, program.rule())).collect();
        for record in &records {
            let values = values(record);
            let found = program.evaluate(&values);
            let expected = model(program.rule(), &values, program.used_fields());
            prop_assert_eq!(
                found.ok().map(|it| program.shape().coordinates(it)),
                expected,
                "{:?} {:?}\n{}", found, values, program.rule()
            );
        }
        check_batch(&program, &records);
    }

    #[test]
    fn straight_rules_run_in_blocks_and_answer_the_same(
        numbers in prop::collection::vec((any::<i64>(), -62_135_596_800_000_000_i64..253_402_300_799_999_999), 1..700),
    ) {
        let program = Program::parse(
            "rule r version 1; field a: i64; field t: timestamp; dimension s 0 to 63; dimension d 1 to 31; \
             let h = a / 3; else (xxh3(h) % 64, day(t));  place table \"t\";",
        ).unwrap();
        let records: Vec<_> = numbers
            .iter()
            .map(|(a, t)| vec![Some(Literal::I64(*a)), Some(Literal::Timestamp(*t))])
            .collect();
        check_batch(&program, &records);
    }
}

/// Issue 6, section 7: slots times lines, and names as long as they may be.
#[test]
fn slot_maps_of_strangers_are_bounded() {
    let rule = |places: &str| {
        Program::parse(&format!(
            "rule r version 1; field id: i64; dimension a 0 to 1048575; else (id % 1048576); {places}"
        ))
    };
    let refused = |places: &str| rule(places).unwrap_err().to_string();
    let long = "x".repeat(200);
    assert!(refused(&format!("place table \"{long}{{a}}\";")).contains("67108864 bytes together"));
    let many = "{a}".repeat(17);
    assert!(refused(&format!("place table \"{many}\";")).contains("16777216 pieces together"));
    let again = "place table \"t\";".repeat(10);
    assert!(refused(&again).contains("most of them again and again"));
    // One name for all is no burden.
    assert_eq!(
        rule(&format!("place table \"{long}\";"))
            .unwrap()
            .map()
            .places()
            .len(),
        1
    );
}
