//! The read path equals a naive model over random histories: every kind of delete, equal timestamps, versions, TTL with a clock that
//! moves, flushes and compactions between, rows that turn wide and narrow again, the row cache warm, snapshots open. Also who wants
//! only the first columns sees them right, and does not read the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::fault_store::{FaultStore, When};
use crate::scenarios::{region_spec, run_on, small};
use cadastre_env::{Clock, Env};
use cadastre_store::{ReadPoint, Region, RowRange, Store};
use cadastre_types::{Cell, CellType, FamilyDescriptor, Qualifiers, Query};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use proptest::prelude::*;

/// The family's TTL where it has one, ms.
const TTL_MS: i64 = 3_600_000;

/// Cells of one put that makes a row wide.
const MANY: u16 = 520;

/// One step of a history. Timestamps are small numbers, ahead of a base.
#[derive(Debug, Clone)]
enum Step {
    Put {
        row: u8,
        qualifier: u16,
        at: i64,
        large: bool,
    },
    /// Many columns at once.
    PutMany {
        row: u8,
        at: i64,
    },
    Mark {
        row: u8,
        qualifier: u16,
        at: i64,
        kind: CellType,
    },
    Flush,
    Compact {
        major: bool,
    },
    /// The wall clock goes on, minutes.
    Later(i64),
    /// A snapshot is taken, and looked at from then on.
    Pin,
}

/// What a history is played on.
#[derive(Debug, Clone, Copy)]
struct Table {
    versions: u32,
    ttl: bool,
    /// Whether single versions are deleted: what then comes up again is certain only where VERSIONS never cut anything (10.1).
    exact: bool,
}

const TABLES: [Table; 4] = [
    Table {
        versions: 1000,
        ttl: false,
        exact: true,
    },
    Table {
        versions: 1,
        ttl: false,
        exact: false,
    },
    Table {
        versions: 3,
        ttl: false,
        exact: false,
    },
    Table {
        versions: 1000,
        ttl: true,
        exact: true,
    },
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        Just(CellType::Delete),
        Just(CellType::DeleteColumn),
        Just(CellType::DeleteFamily),
        Just(CellType::DeleteFamilyVersion),
    ];
    let step = prop_oneof![
        30 => (0..3_u8, 0..4_u16, 1..9_i64, 0..12_u8).prop_map(|(row, qualifier, at, large)| Step::Put {
            row, qualifier, at, large: large == 0,
        }),
        1 => (0..3_u8, 1..9_i64).prop_map(|(row, at)| Step::PutMany { row, at }),
        8 => (0..3_u8, 0..4_u16, 1..9_i64, kind).prop_map(|(row, qualifier, at, kind)| Step::Mark {
            row, qualifier, at, kind,
        }),
        3 => Just(Step::Flush),
        2 => Just(Step::Compact { major: false }),
        1 => Just(Step::Compact { major: true }),
        1 => (1..40_i64).prop_map(Step::Later),
        2 => Just(Step::Pin),
    ];
    prop::collection::vec(step, 1..90)
}

/// Every cell ever written and not yet dropped for good: by row, qualifier, timestamp and type, the last one written.
#[derive(Debug, Clone, Default)]
struct Model {
    cells: BTreeMap<(u8, String, i64, u8), (CellType, String)>,
}

impl Model {
    fn write(&mut self, row: u8, cells: &[Cell]) {
        for cell in cells {
            let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
            let key = (
                row,
                text(&cell.qualifier),
                cell.timestamp,
                cell.cell_type as u8,
            );
            self.cells.insert(key, (cell.cell_type, text(&cell.value)));
        }
    }

    fn hidden(&self, row: u8, qualifier: &str, at: i64) -> bool {
        self.cells
            .iter()
            .any(|((marked, column, time, _), (kind, _))| {
                *marked == row
                    && match kind {
                        CellType::DeleteFamily => *time >= at,
                        CellType::DeleteFamilyVersion => *time == at,
                        CellType::DeleteColumn => column == qualifier && *time >= at,
                        CellType::Delete => column == qualifier && *time == at,
                        _ => false,
                    }
            })
    }

    /// What a read shows: per row, in HBase's order, at most so many versions of each column.
    fn read(&self, table: Table, now: i64, versions: u32) -> BTreeMap<u8, Vec<String>> {
        let mut rows: BTreeMap<u8, Vec<String>> = BTreeMap::new();
        let mut shown: BTreeMap<(u8, &str), u32> = BTreeMap::new();
        // Newest first inside a column.
        let mut puts: Vec<_> = self
            .cells
            .iter()
            .filter(|(_, (kind, _))| *kind == CellType::Put)
            .collect();
        puts.sort_by_key(|((row, qualifier, at, _), _)| (*row, qualifier.clone(), -at));
        for ((row, qualifier, at, _), (_, value)) in puts {
            let expired = table.ttl && *at < now - TTL_MS;
            if expired || self.hidden(*row, qualifier, *at) {
                continue;
            }
            let count = shown.entry((*row, qualifier)).or_default();
            *count += 1;
            if *count <= versions.min(table.versions) {
                let line = format!("f:{qualifier}@{at}={value}");
                rows.entry(*row).or_default().push(line);
            }
        }
        rows
    }

    /// A major compaction: markers go, and what they hid.
    fn compact(&mut self) {
        let all = self.clone();
        self.cells.retain(|(row, qualifier, at, _), (kind, _)| {
            *kind == CellType::Put && !all.hidden(*row, qualifier, *at)
        });
    }
}

fn name(qualifier: u16) -> String {
    if qualifier == 0 {
        String::new()
    } else {
        format!("q{qualifier:03}")
    }
}

fn row_name(row: u8) -> String {
    format!("r{row}")
}

/// The cells that a step writes.
fn cells_of(step: &Step, base: i64, number: usize, exact: bool) -> Option<(u8, Vec<Cell>)> {
    match step {
        Step::Put {
            row,
            qualifier,
            at,
            large,
        } => {
            let padding = if *large {
                "P".repeat(33_000)
            } else {
                String::new()
            };
            let value = format!("{number}{padding}");
            let cell = put(&row_name(*row), "f", &name(*qualifier), base + at, &value);
            Some((*row, vec![cell]))
        }
        Step::PutMany { row, at } => {
            let cell = |q| put(&row_name(*row), "f", &name(q), base + at, "m");
            Some((*row, (1..=MANY).map(cell).collect()))
        }
        Step::Mark {
            row,
            qualifier,
            at,
            kind,
        } => {
            let kind = match kind {
                CellType::Delete if !exact => CellType::DeleteColumn,
                CellType::DeleteFamilyVersion if !exact => CellType::DeleteFamily,
                kind => *kind,
            };
            let qualifier = if kind.is_family_wide() {
                String::new()
            } else {
                name(*qualifier)
            };
            Some((
                *row,
                vec![marker(&row_name(*row), "f", &qualifier, base + at, kind)],
            ))
        }
        _ => None,
    }
}

type Shown = BTreeMap<u8, Vec<String>>;

/// Rows that a scan shows.
async fn scan_rows(
    region: &Region<FaultEnv>,
    at: ReadPoint<FaultEnv>,
    max: u32,
    reversed: bool,
) -> Shown {
    let scanner = region.scan(RowRange::all(), reversed, versions(max), at);
    let mut scanner = scanner.await.unwrap();
    let mut rows = Vec::new();
    while let Some(cells) = scanner.next_row().await.unwrap() {
        rows.push((cells[0].row[1] - b'0', show(&cells)));
    }
    let in_order = rows
        .windows(2)
        .all(|pair| (pair[0].0 < pair[1].0) != reversed);
    assert!(in_order, "rows in order");
    rows.into_iter().collect()
}

/// The lines of the first columns.
fn first_of(lines: &[String], columns: u32) -> Vec<String> {
    let column = |line: &String| line.split('@').next().unwrap().to_owned();
    let mut seen: Vec<String> = lines.iter().map(column).collect();
    seen.dedup();
    seen.truncate(columns as usize);
    let first = lines.iter().filter(|line| seen.contains(&column(line)));
    first.cloned().collect()
}

/// Who wants only the first columns of each row sees those; more may come.
async fn compare_first(region: &Region<FaultEnv>, expected: &Shown, max: u32) {
    for columns in [1, 3] {
        let at = region.read_point().await.unwrap();
        let scanner = region.scan(RowRange::all(), false, versions(max), at);
        let mut scanner = scanner.await.unwrap();
        scanner.first_columns(columns);
        let mut seen = Shown::new();
        while let Some(cells) = scanner.next_row().await.unwrap() {
            let lines = first_of(&show(&cells), columns);
            seen.insert(cells[0].row[1] - b'0', lines);
        }
        let wanted = expected
            .iter()
            .map(|(row, lines)| (*row, first_of(lines, columns)));
        assert_eq!(seen, wanted.collect(), "scan of {columns} columns");
        for row in 0..3 {
            let name = row_name(row);
            let query = versions(max);
            let first = region.get_first(name.as_bytes(), &query, Some(columns));
            assert_eq!(
                first_of(&show(&first.await.unwrap()), columns),
                first_of(expected.get(&row).map_or(&[], Vec::as_slice), columns),
                "row {row}, {columns} columns"
            );
        }
    }
}

/// Everything that can be asked equals the model.
async fn compare(region: &Region<FaultEnv>, model: &Model, table: Table, now: i64) {
    for max in [1, 2, 9] {
        let expected = model.read(table, now, max);
        for reversed in [false, true] {
            let at = region.read_point().await.unwrap();
            assert_eq!(
                scan_rows(region, at, max, reversed).await,
                expected,
                "scan, {max} versions"
            );
        }
        compare_first(region, &expected, max).await;
        for row in 0..3 {
            let of_row = expected.get(&row).cloned().unwrap_or_default();
            // Twice: from the database, and maybe from the row cache.
            for _ in 0..2 {
                assert_eq!(
                    get(region, &row_name(row), &versions(max)).await,
                    of_row,
                    "row {row}"
                );
            }
            for qualifier in 0..4 {
                let column = name(qualifier);
                let query = Query {
                    columns: BTreeMap::from([(
                        bytes("f"),
                        Qualifiers::These(BTreeSet::from([bytes(&column)])),
                    )]),
                    ..versions(max)
                };
                let prefix = format!("f:{column}@");
                let of_column = of_row.iter().filter(|line| line.starts_with(&prefix));
                let expected: Vec<String> = of_column.cloned().collect();
                assert_eq!(
                    get(region, &row_name(row), &query).await,
                    expected,
                    "row {row} {column}"
                );
            }
        }
    }
}

async fn play(env: FaultEnv, steps: Vec<Step>, table: Table) {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut family = FamilyDescriptor::new("f").with("VERSIONS", &table.versions.to_string());
    if table.ttl {
        family = family.with("TTL", &(TTL_MS / 1000).to_string());
    }
    let store = Store::open(env.clone(), objects, small()).await.unwrap();
    let region = store
        .open_region(region_spec(&descriptor(vec![family]), 1))
        .await
        .unwrap();
    // Cells get old one after the other, an hour from now at the earliest; real time must not decide.
    let begun = i64::try_from(env.clock().wall()).unwrap();
    let minute = 60_000;
    let base = begun - TTL_MS + 10 * minute;
    let base = base - base % minute;
    let mut model = Model::default();
    let mut pins: Vec<(ReadPoint<FaultEnv>, Model)> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let now = i64::try_from(env.clock().wall()).unwrap();
        // Timestamps are ten minutes apart from each other where cells get old.
        let spread = |step: &Step| match step.clone() {
            Step::Put {
                row,
                qualifier,
                at,
                large,
            } => Step::Put {
                row,
                qualifier,
                at: at * 10 * minute,
                large,
            },
            Step::PutMany { row, at } => Step::PutMany {
                row,
                at: at * 10 * minute,
            },
            Step::Mark {
                row,
                qualifier,
                at,
                kind,
            } => Step::Mark {
                row,
                qualifier,
                at: at * 10 * minute,
                kind,
            },
            other => other,
        };
        if let Some((row, cells)) = cells_of(&spread(step), base, number, table.exact) {
            model.write(row, &cells);
            write(&env, &region, cells).await;
            continue;
        }
        match step {
            Step::Flush => region.flush().await.unwrap(),
            Step::Compact { major } => {
                // A major compaction drops what no snapshot could see at the last flush: certain only if there was none.
                let major = *major && pins.is_empty();
                if major {
                    model.compact();
                }
                region.flush().await.unwrap();
                region.compact(major).await.unwrap();
                compare(&region, &model, table, now).await;
            }
            Step::Later(minutes) => {
                // Half a minute off every timestamp's end, so that the test's own time makes no difference.
                env.clock
                    .step_ms
                    .fetch_add(minutes * minute, Ordering::SeqCst);
            }
            Step::Pin => {
                let at = region.read_point().await.unwrap();
                pins.push((at, model.clone()));
                compare(&region, &model, table, now).await;
            }
            _ => {}
        }
        for (at, then) in &pins {
            let now = i64::try_from(env.clock().wall()).unwrap();
            let seen = scan_rows(&region, at.clone(), 9, false).await;
            assert_eq!(seen, then.read(table, now, 9), "an open snapshot changed");
        }
    }
    let now = i64::try_from(env.clock().wall()).unwrap();
    compare(&region, &model, table, now).await;
    drop(pins);
    store.close().await.unwrap();
}

#[test]
fn reads_equal_a_naive_model_over_random_histories() {
    let cases = std::env::var("CADASTRE_MODEL_CASES").map_or(12, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let real = env(dir.path());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        max_shrink_iters: 60,
        ..ProptestConfig::default()
    });
    let result = runner.run(&(steps(), 0..TABLES.len()), |(steps, table)| {
        let here = FaultEnv::new(real.clone(), FaultDisk::default());
        let played = real.block_on(play(here, steps, TABLES[table]));
        prop_assert!(played.is_some(), "the history failed, see above");
        Ok(())
    });
    real.shutdown();
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn of_a_wide_row_only_the_first_columns_are_read() {
    const CHUNKS: u32 = 20;
    let bucket = FaultStore::new(When::Before);
    let calls = Arc::clone(&bucket.calls);
    run_on(1, FaultDisk::default(), move |env| async move {
        let store = Store::open(env.clone(), Arc::new(bucket), config())
            .await
            .unwrap();
        let table = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        let value = "v".repeat(100);
        for chunk in 0..CHUNKS {
            let cell = |n: u32| put("wide", "f", &format!("q{:05}", chunk * 520 + n), 1, &value);
            write(&env, &region, (0..520).map(cell).collect()).await;
        }
        let others = vec![
            put("wide", "g", "x", 1, "g"),
            put("wider", "f", "a", 1, "next"),
        ];
        write(&env, &region, others).await;
        region.flush().await.unwrap();
        let mut read = Vec::new();
        for first in [None, Some(1), Some(3)] {
            region.clear_cache();
            calls.fail(0);
            let cells = region.get_first(b"wide", &Query::default(), first).await;
            let by_get = calls.made();
            let cells = cells.unwrap();
            assert_eq!(
                cells.last().unwrap().value,
                "g",
                "the other family is there"
            );
            region.clear_cache();
            calls.fail(0);
            let at = region.read_point().await.unwrap();
            let scanner = region.scan(RowRange::all(), false, Query::default(), at);
            let mut scanner = scanner.await.unwrap();
            if let Some(first) = first {
                scanner.first_columns(first);
            }
            let row = scanner.next_row().await.unwrap().unwrap();
            let by_scan = calls.made();
            assert_eq!(show(&row), show(&cells));
            let next = scanner.next_row().await.unwrap().unwrap();
            assert_eq!(show(&next), ["f:a@1=next"]);
            read.push((cells.len(), by_get, by_scan));
        }
        let [(all, gets, scans), one, three] = read[..] else {
            unreachable!("three reads")
        };
        assert_eq!((all, one.0, three.0), (CHUNKS as usize * 520 + 1, 2, 4));
        for (_, by_get, by_scan) in [one, three] {
            assert!(by_get * 5 < gets, "{by_get} of {gets} calls of the bucket");
            assert!(
                by_scan * 2 < scans,
                "{by_scan} of {scans} calls of the bucket"
            );
        }
        store.close().await.unwrap();
    });
}
