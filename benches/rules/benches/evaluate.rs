//! What a record costs: our rules beside peers that can be linked, on the same records in the same run.
//!
//! `cargo xtask bench rules`; with `point` for single records, `batch` for columns, `peers`, `enumerate` only those.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench")]

use std::{hint::black_box, sync::Arc};

use cadastre_sharding::{
    Batch, Column, ColumnValues, Predicate, Program, Value,
    enumerate::{Options, enumerate},
    versions::{Both, Comparison},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const TWO_DIMENSIONS: &str = "rule r version 1; field user: i64; field day: i64; dimension s 0 to 1023; \
    dimension d 0 to 30; else (user % 1024, day % 31); place table \"table_{s:4}_{d:2}\";";

const BY_TIME: &str = "rule r version 1; zone \"Asia/Shanghai\"; field user: i64; field gmt: timestamp; \
    dimension s 0 to 1023; dimension d 1 to 31; else (user % 1024, day(gmt)); place table \"table_{s:4}_{d:2}\";";

const HASHED: &str = "rule r version 1; field user: i64; dimension s 0 to 1023; else (xxh3(user) % 1024); \
    place table \"t_{s:4}\";";

const SELLERS: &str = "rule r version 1; field user: i64; field day: i64; dimension s 0 to 1024; dimension d 0 to 30; \
    list big = [2000, 2001, 2002, 3000, 4000, 5000, 6000, 7000]; \
    when user in big then (1024, day % 31); else (user % 1024, day % 31); place table \"t_{s:4}_{d:2}\";";

const MODULO: &str = "rule r version {v}; field user: i64; dimension s 0 to {last}; else (user % {n}); \
    place table \"t_{s:4}\";";

fn modulo(version: u64, n: u64) -> Arc<Program> {
    let text = MODULO
        .replace("{v}", &version.to_string())
        .replace("{last}", &(n - 1).to_string())
        .replace("{n}", &n.to_string());
    Arc::new(Program::parse(&text).unwrap())
}

/// Numbers without a pattern that a branch predictor could learn.
fn numbers(count: usize) -> Vec<i64> {
    let mut state = 42_u64;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as i64
        })
        .collect()
}

fn point(c: &mut Criterion) {
    let mut group = c.benchmark_group("point");
    let users = numbers(4_096);
    for (name, text, timestamps) in [
        ("two dimensions, integers", TWO_DIMENSIONS, false),
        ("by user and day in Shanghai", BY_TIME, true),
        ("hash", HASHED, false),
        ("big sellers", SELLERS, false),
    ] {
        let program = Program::parse(text).unwrap();
        let fields = program.types().len();
        let mut at = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                at = (at + 1) & 4_095;
                let second = match timestamps {
                    true => Value::Timestamp(1_600_000_000_000_000 + users[at] * 1_000),
                    false => Value::I64(users[at] >> 7),
                };
                let record = [Value::I64(users[at]), second];
                black_box(program.evaluate(&record[..fields])).unwrap()
            });
        });
        let mut at = 0;
        group.bench_function(format!("{name}, name"), |b| {
            b.iter(|| {
                at = (at + 1) & 4_095;
                let second = match timestamps {
                    true => Value::Timestamp(1_600_000_000_000_000 + users[at] * 1_000),
                    false => Value::I64(users[at] >> 7),
                };
                let record = [Value::I64(users[at]), second];
                black_box(program.place(&record[..fields]).unwrap().table.len())
            });
        });
    }
    let program = Program::parse(TWO_DIMENSIONS).unwrap();
    let slots: Vec<_> = users
        .iter()
        .map(|user| {
            program
                .evaluate(&[Value::I64(*user), Value::I64(3)])
                .unwrap()
        })
        .collect();
    let mut at = 0;
    group.bench_function("slot map", |b| {
        b.iter(|| {
            at = (at + 1) & 4_095;
            black_box(program.map().id(slots[at]))
        });
    });
    group.finish();
}

fn batch(c: &mut Criterion) {
    const ROWS: usize = 65_536;
    let users = numbers(ROWS);
    let days: Vec<i64> = users.iter().map(|it| it >> 7).collect();
    let times: Vec<i64> = users
        .iter()
        .map(|it| 1_600_000_000_000_000 + it * 1_000)
        .collect();
    let mut group = c.benchmark_group("batch");
    group.throughput(Throughput::Elements(ROWS as u64));
    let mut out = Batch::default();
    for (name, text, columns) in [
        (
            "two dimensions, integers",
            TWO_DIMENSIONS,
            vec![ColumnValues::I64(&users), ColumnValues::I64(&days)],
        ),
        (
            "by user and day in Shanghai",
            BY_TIME,
            vec![ColumnValues::I64(&users), ColumnValues::Timestamp(&times)],
        ),
        ("hash", HASHED, vec![ColumnValues::I64(&users)]),
        (
            "big sellers",
            SELLERS,
            vec![ColumnValues::I64(&users), ColumnValues::I64(&days)],
        ),
    ] {
        let program = Program::parse(text).unwrap();
        let columns: Vec<_> = columns.into_iter().map(Column::new).collect();
        group.bench_function(name, |b| {
            b.iter(|| program.evaluate_batch(&columns, ROWS, &mut out).unwrap());
        });
    }
    for (name, old, new) in [
        ("compare, id % 1024 with id % 2048", 1_024, 2_048),
        ("compare, id % 4 with id % 6", 4, 6),
    ] {
        let both = Both::new(modulo(1, old), modulo(2, new)).unwrap();
        let columns = [Column::new(ColumnValues::I64(&users))];
        let mut out = Comparison::default();
        group.bench_function(name, |b| {
            b.iter(|| both.compare(&columns, ROWS, &mut out).unwrap());
        });
    }
    group.finish();
}

/// The same two remainders in languages that can be linked, each compiled once.
fn peers(c: &mut Criterion) {
    let users = numbers(4_096);
    let mut group = c.benchmark_group("peers");
    let program = Program::parse(TWO_DIMENSIONS).unwrap();
    let mut at = 0;
    group.bench_function("cadastre", |b| {
        b.iter(|| {
            at = (at + 1) & 4_095;
            black_box(program.evaluate(&[Value::I64(users[at]), Value::I64(users[at] >> 7)]))
                .unwrap()
        });
    });

    let cel = cel_interpreter::Program::compile("(user % 1024) * 31 + day % 31").unwrap();
    group.bench_function("cel-interpreter", |b| {
        b.iter(|| {
            at = (at + 1) & 4_095;
            let mut context = cel_interpreter::Context::default();
            context.add_variable_from_value("user", users[at]);
            context.add_variable_from_value("day", users[at] >> 7);
            black_box(cel.execute(&context)).unwrap()
        });
    });

    let tree: evalexpr::Node =
        evalexpr::build_operator_tree("(user % 1024) * 31 + day % 31").unwrap();
    group.bench_function("evalexpr", |b| {
        use evalexpr::ContextWithMutableVariables;
        let mut context: evalexpr::HashMapContext = evalexpr::HashMapContext::new();
        b.iter(|| {
            at = (at + 1) & 4_095;
            context
                .set_value("user".to_owned(), evalexpr::Value::Int(users[at]))
                .unwrap();
            context
                .set_value("day".to_owned(), evalexpr::Value::Int(users[at] >> 7))
                .unwrap();
            black_box(tree.eval_with_context(&context)).unwrap()
        });
    });

    let engine = rhai::Engine::new();
    let ast = engine.compile("(user % 1024) * 31 + day % 31").unwrap();
    group.bench_function("rhai", |b| {
        b.iter(|| {
            at = (at + 1) & 4_095;
            let mut scope = rhai::Scope::new();
            scope.push("user", users[at]);
            scope.push("day", users[at] >> 7);
            black_box(engine.eval_ast_with_scope::<i64>(&mut scope, &ast)).unwrap()
        });
    });
    group.finish();
}

fn enumeration(c: &mut Criterion) {
    let mut group = c.benchmark_group("enumerate");
    let program = Program::parse(BY_TIME).unwrap();
    for (name, condition) in [
        (
            "one user, a month",
            "user = 7 and gmt >= '2024-02-01' and gmt < '2024-03-01'",
        ),
        (
            "ten users, a day",
            "user in (1,2,3,4,5,6,7,8,9,10) and gmt >= '2024-02-01' and gmt < '2024-02-02'",
        ),
        (
            "all users, a day",
            "gmt >= '2024-02-01' and gmt < '2024-02-02'",
        ),
    ] {
        let predicate = Predicate::parse(program.rule(), condition, None).unwrap();
        group.bench_function(name, |b| {
            b.iter(|| enumerate(&program, &predicate, Options::default()).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, point, batch, peers, enumeration);
criterion_main!(benches);
