//! What the pure parts of the store cost, each by itself: keys, packed rows, their merging, and what is kept of them.
//!
//! `cargo xtask bench store parts`. The modules are the store's own files; SlateDB has no part in this.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench")]
#![allow(dead_code, reason = "the store calls more of them")]

use std::hint::black_box;

use bytes::Bytes;
use cadastre_types::{CellType, FamilyDescriptor, Qualifiers, TimeRange};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

#[path = "../../../crates/store/src/key.rs"]
mod key;
#[path = "../../../crates/store/src/packed.rs"]
mod packed;
#[path = "../../../crates/store/src/retain.rs"]
mod retain;

use key::RowCodec;
use packed::{Packed, StoredCell};
use retain::{Purpose, Rules};

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn cell(column: usize, timestamp: i64, bytes: usize) -> StoredCell {
    StoredCell {
        qualifier: Bytes::from(format!("q{column:03}")),
        timestamp,
        cell_type: CellType::Put,
        sequence: timestamp.unsigned_abs(),
        tags: Bytes::new(),
        value: Bytes::from(vec![7; bytes]),
    }
}

/// Columns with one version each.
fn row(columns: usize, bytes: usize) -> Vec<StoredCell> {
    (0..columns).map(|column| cell(column, 1, bytes)).collect()
}

const SHAPES: [(&str, usize, usize); 3] = [
    ("1 x 1 kB", 1, 1000),
    ("10 x 100 B", 10, 100),
    ("500 x 100 B", 500, 100),
];

fn keys(c: &mut Criterion) {
    let mut group = c.benchmark_group("keys");
    for (name, row) in [
        ("36 bytes", Bytes::from(vec![b'r'; 36])),
        (
            "36 bytes, 4 of them zero",
            Bytes::from([[0, 1, 2, 3, 4, 5, 6, 7, 8]; 4].concat()),
        ),
    ] {
        group.bench_function(format!("a row's prefix, {name}"), |b| {
            b.iter(|| RowCodec::Plain.prefix(black_box(&row)));
        });
        let prefix = Bytes::from(RowCodec::Plain.prefix(&row));
        group.bench_function(format!("the row of a prefix, {name}"), |b| {
            b.iter(|| RowCodec::Plain.row(black_box(&prefix)).unwrap());
        });
        let packed = key::packed(&prefix, 1);
        group.bench_function(format!("what lies under a key, {name}"), |b| {
            b.iter(|| {
                let len = RowCodec::Plain.prefix_len(black_box(&packed)).unwrap();
                key::place(packed.slice(len..)).unwrap()
            });
        });
    }
    group.finish();
}

fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("packed rows");
    for (name, columns, bytes) in SHAPES {
        let cells = row(columns, bytes);
        group.throughput(Throughput::Elements(columns as u64));
        group.bench_function(format!("encode {name}"), |b| {
            b.iter(|| packed::encode(false, black_box(&cells)));
        });
        let encoded = packed::encode(false, &cells);
        group.bench_function(format!("decode {name}"), |b| {
            b.iter(|| Packed::decode(black_box(&encoded).clone()).unwrap());
        });
        group.bench_function(format!("merge one cell into {name}"), |b| {
            b.iter_batched(
                || (cells.clone(), vec![cell(columns / 2, 2, bytes)]),
                |(older, newer)| packed::merge(older, newer),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn kept(c: &mut Criterion) {
    let mut group = c.benchmark_group("what is kept");
    let plain = Rules::of(&FamilyDescriptor::new("f").with("VERSIONS", "1"));
    let timed = Rules::of(
        &FamilyDescriptor::new("f")
            .with("VERSIONS", "3")
            .with("TTL", "1000"),
    );
    let versions = (0..10).flat_map(|column| {
        (0..3)
            .rev()
            .map(move |at| cell(column, 1_000_000 + at, 100))
    });
    let versions: Vec<StoredCell> = versions.collect();
    let read = Purpose::Read {
        time_range: TimeRange::default(),
        max_versions: 1,
        qualifiers: &Qualifiers::All,
        raw: false,
    };
    let rewrite = Purpose::Rewrite {
        whole: true,
        drop_markers: true,
    };
    for (name, cells, rules, purpose) in [
        ("read of 1 x 1 kB", row(1, 1000), &plain, read),
        ("read of 10 x 100 B", row(10, 100), &plain, read),
        (
            "read of the newest of 3 versions in 10 columns, TTL",
            versions.clone(),
            &timed,
            read,
        ),
        (
            "rewrite of 3 versions in 10 columns, TTL",
            versions,
            &timed,
            rewrite,
        ),
    ] {
        group.throughput(Throughput::Elements(cells.len() as u64));
        group.bench_function(name, |b| {
            b.iter_batched(
                || cells.clone(),
                |cells| retain::retain(cells, rules, purpose, 1_000_100),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(parts, keys, rows, kept);
criterion_main!(parts);
