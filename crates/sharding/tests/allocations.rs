//! What evaluating costs in allocations: nothing, names included (issue 6, section 2).
#![allow(clippy::unwrap_used, reason = "a test")]

use cadastre_sharding::versions::{Both, Comparison};
use cadastre_sharding::{Batch, Column, ColumnValues, Program, Value};
use std::sync::Arc;

fn allocations(what: impl FnOnce()) -> u64 {
    allocation_counter::measure(what).count_total
}

/// R49: `table_0001_23`.
fn program(version: u32, users: u32) -> Program {
    let text = format!(
        "rule t version {version}; zone \"Asia/Shanghai\"; field user: i64; field gmt: timestamp; field name: string; \
         dimension u 0 to 2047; dimension d 1 to 31; key fixed user, reversed gmt, rest name; list big = [2000, 2001]; \
         when user in big and name != 'x' then (user % 2, 1); else (user % {users}, day(gmt)); place table \"table_{{u:4}}_{{d:2}}\";"
    );
    Program::parse(&text).unwrap()
}

#[test]
fn records_keys_and_names_allocate_nothing() {
    let program = program(1, 1024);
    let fields = [
        Value::I64(1),
        Value::Timestamp(1_327_276_800_000_000),
        Value::Str("a"),
    ];
    let mut key = Vec::new();
    let schema = program.rule().key.as_ref().unwrap();
    schema.write(&fields, &mut key).unwrap();
    // Once before: what is made at first use is not a record's.
    assert_eq!(program.place(&fields).unwrap().table, "table_0001_23");
    let count = allocations(|| {
        assert_eq!(program.place(&fields).unwrap().table, "table_0001_23");
        let slot = program.evaluate_key(&key).unwrap();
        assert_eq!(program.map().place(slot).table, "table_0001_23");
    });
    assert_eq!(count, 0);
}

#[test]
fn batches_allocate_nothing_after_the_first() {
    let (old, new) = (Arc::new(program(1, 1024)), Arc::new(program(2, 2048)));
    let rows = 4_096;
    let users: Vec<i64> = (0..rows as i64).map(|it| it * 7_919).collect();
    let times: Vec<i64> = (0..rows as i64).map(|it| it * 86_400_000_000).collect();
    let names: Vec<&str> = vec!["a"; rows];
    let columns = [
        Column::new(ColumnValues::I64(&users)),
        Column::new(ColumnValues::Timestamp(&times)),
        Column::new(ColumnValues::Str(&names)),
    ];
    let mut batch = Batch::default();
    old.evaluate_batch(&columns, rows, &mut batch).unwrap();
    let both = Both::new(Arc::clone(&old), new).unwrap();
    let mut compared = Comparison::default();
    both.compare(&columns, rows, &mut compared).unwrap();
    assert!(!compared.moved.is_empty());
    let count = allocations(|| {
        old.evaluate_batch(&columns, rows, &mut batch).unwrap();
        both.compare(&columns, rows, &mut compared).unwrap();
    });
    assert_eq!(count, 0);
}
