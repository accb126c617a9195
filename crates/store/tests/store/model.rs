//! The read path equals a naive model over random histories: every kind of delete, equal timestamps, versions, TTL with a clock that
//! moves, minimum versions, deleted cells that are kept, markers by the order of writing, flushes and compactions between, rows that
//! turn wide and narrow again, the row cache warm or off, snapshots open. Also who wants only the first columns sees them right, and
//! does not read the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::fault_store::{FaultStore, When};
use crate::scenarios::{region_spec, run_on, small};
use cadastre_env::{Clock, Env};
use cadastre_store::{ReadPoint, Region, RowRange, Store};
use cadastre_types::{Cell, CellType, FamilyDescriptor, Qualifiers, Query, TimeRange};
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
    min_versions: u32,
    /// KEEP_DELETED_CELLS.
    keeps_deleted: bool,
    /// NEW_VERSION_BEHAVIOR.
    by_sequence: bool,
    /// Whether single versions are deleted: what then comes up again is certain only where VERSIONS and MIN_VERSIONS never cut
    /// anything (10.1).
    exact: bool,
}

/// All versions are kept.
const PLAIN: Table = Table {
    versions: 1000,
    ttl: false,
    min_versions: 0,
    keeps_deleted: false,
    by_sequence: false,
    exact: true,
};

const TABLES: [Table; 8] = [
    PLAIN,
    Table {
        versions: 1,
        exact: false,
        ..PLAIN
    },
    Table {
        versions: 3,
        exact: false,
        ..PLAIN
    },
    Table { ttl: true, ..PLAIN },
    Table {
        versions: 3,
        ttl: true,
        min_versions: 1,
        exact: false,
        ..PLAIN
    },
    Table {
        ttl: true,
        min_versions: 2,
        exact: false,
        ..PLAIN
    },
    Table {
        keeps_deleted: true,
        ..PLAIN
    },
    Table {
        by_sequence: true,
        ..PLAIN
    },
];

impl Table {
    /// Whether cells go only because they are deleted or expired, and so reads of a range of timestamps are certain.
    fn cuts_nothing(&self) -> bool {
        self.versions == PLAIN.versions && self.min_versions == 0
    }

    fn family(&self) -> FamilyDescriptor {
        let mut family = FamilyDescriptor::new("f").with("VERSIONS", &self.versions.to_string());
        if self.ttl {
            family = family.with("TTL", &(TTL_MS / 1000).to_string());
        }
        if self.min_versions > 0 {
            family = family.with("MIN_VERSIONS", &self.min_versions.to_string());
        }
        if self.keeps_deleted {
            family = family.with("KEEP_DELETED_CELLS", "TRUE");
        }
        if self.by_sequence {
            family = family.with("NEW_VERSION_BEHAVIOR", "true");
        }
        family
    }
}

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

/// A cell of the model: type, value, and which write it came with.
type Written = (CellType, String, u64);

/// Every cell ever written and not yet dropped for good: by row, qualifier, timestamp and type, the last one written.
#[derive(Debug, Clone)]
struct Model {
    table: Table,
    writes: u64,
    cells: BTreeMap<(u8, String, i64, u8), Written>,
}

impl Model {
    fn new(table: Table) -> Self {
        Self {
            table,
            writes: 0,
            cells: BTreeMap::new(),
        }
    }

    fn write(&mut self, row: u8, cells: &[Cell]) {
        self.writes += 1;
        for cell in cells {
            let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
            let key = (
                row,
                text(&cell.qualifier),
                cell.timestamp,
                cell.cell_type as u8,
            );
            let written = (cell.cell_type, text(&cell.value), self.writes);
            self.cells.insert(key, written);
        }
    }

    /// Whether a marker, by its coordinates, is about a put.
    fn is_about(marker: (&str, i64, CellType), put: (&str, i64)) -> bool {
        let ((column, time, kind), (qualifier, at)) = (marker, put);
        match kind {
            CellType::DeleteFamily => time >= at,
            CellType::DeleteFamilyVersion => time == at,
            CellType::DeleteColumn => column == qualifier && time >= at,
            CellType::Delete => column == qualifier && time == at,
            CellType::Put => false,
        }
    }

    /// Whether a put is hidden from a read of a range of timestamps.
    fn hidden(&self, row: u8, put: (&str, i64), written: u64, range: TimeRange) -> bool {
        let mut cells = self.cells.iter();
        cells.any(|((marked, column, time, _), (kind, _, then))| {
            *marked == row
                && Self::is_about((column, *time, *kind), put)
                // Where deleted cells are kept a read as of an earlier time shows them.
                && (!self.table.keeps_deleted || range.contains(*time))
                && (!self.table.by_sequence || *then >= written)
        })
    }

    /// What a read shows: per row, in HBase's order, at most so many versions of each column.
    fn read(&self, now: i64, versions: u32, range: TimeRange) -> Shown {
        let table = self.table;
        let mut rows = Shown::new();
        let mut shown: BTreeMap<(u8, &str), u32> = BTreeMap::new();
        // Newest first inside a column.
        let mut puts: Vec<_> = self
            .cells
            .iter()
            .filter(|(_, (kind, _, _))| *kind == CellType::Put)
            .collect();
        puts.sort_by_key(|((row, qualifier, at, _), _)| (*row, qualifier.clone(), -at));
        for ((row, qualifier, at, _), (_, value, written)) in puts {
            let expired = table.ttl && *at < now - TTL_MS;
            if expired && table.min_versions == 0
                || self.hidden(*row, (qualifier, *at), *written, range)
                || !range.contains(*at)
            {
                continue;
            }
            let count = shown.entry((*row, qualifier)).or_default();
            *count += 1;
            if *count > versions.min(table.versions) || expired && *count > table.min_versions {
                continue;
            }
            let line = format!("f:{qualifier}@{at}={value}");
            rows.entry(*row).or_default().push(line);
        }
        rows
    }

    /// A major compaction: markers go, and what they hid. Where deleted cells are kept only markers go that hide nothing.
    fn compact(&mut self) {
        let all = self.clone();
        let puts = |row: u8| {
            let cells = all.cells.iter();
            cells.filter(move |((of, ..), (kind, ..))| *of == row && *kind == CellType::Put)
        };
        self.cells
            .retain(|(row, qualifier, at, _), (kind, _, written)| {
                if *kind == CellType::Put {
                    return all.table.keeps_deleted
                        || !all.hidden(*row, (qualifier, *at), *written, TimeRange::ALL);
                }
                let marker = (qualifier.as_str(), *at, *kind);
                all.table.keeps_deleted
                    && puts(*row).any(|((_, column, time, _), _)| {
                        Self::is_about(marker, (column.as_str(), *time))
                    })
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
    query: &Query,
    reversed: bool,
) -> Shown {
    let scanner = region.scan(RowRange::all(), reversed, query.clone(), at);
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
                first_of(&show(&first.await.unwrap().cells), columns),
                first_of(expected.get(&row).map_or(&[], Vec::as_slice), columns),
                "row {row}, {columns} columns"
            );
        }
    }
}

/// Everything that can be asked equals the model.
async fn compare(region: &Region<FaultEnv>, model: &Model, base: i64, now: i64) {
    for max in [1, 2, 9] {
        let expected = model.read(now, max, TimeRange::ALL);
        compare_query(region, &expected, &versions(max)).await;
        compare_first(region, &expected, max).await;
    }
    if !model.table.cuts_nothing() {
        return;
    }
    for (from, to) in [(0, 5), (3, 7), (6, 20)] {
        let time_range = TimeRange {
            from: base + from * APART_MS,
            to: base + to * APART_MS,
        };
        let query = Query {
            time_range,
            ..versions(2)
        };
        let expected = model.read(now, 2, time_range);
        compare_query(region, &expected, &query).await;
    }
}

/// Scans, and gets of rows and of columns.
async fn compare_query(region: &Region<FaultEnv>, expected: &Shown, query: &Query) {
    for reversed in [false, true] {
        let at = region.read_point().await.unwrap();
        let seen = scan_rows(region, at, query, reversed).await;
        assert_eq!(seen, *expected, "scan by {query:?}");
    }
    for row in 0..3 {
        let of_row = expected.get(&row).cloned().unwrap_or_default();
        // Twice: from the database, and maybe from the row cache.
        for _ in 0..2 {
            let seen = get(region, &row_name(row), query).await;
            assert_eq!(seen, of_row, "row {row} by {query:?}");
        }
        for qualifier in 0..4 {
            let column = name(qualifier);
            let these = Qualifiers::These(BTreeSet::from([bytes(&column)]));
            let query = Query {
                columns: BTreeMap::from([(bytes("f"), these)]),
                ..query.clone()
            };
            let prefix = format!("f:{column}@");
            let of_column = of_row.iter().filter(|line| line.starts_with(&prefix));
            let of_column: Vec<String> = of_column.cloned().collect();
            let seen = get(region, &row_name(row), &query).await;
            assert_eq!(seen, of_column, "row {row} by {query:?}");
        }
    }
}

/// Timestamps of a history are so far apart, ms.
const APART_MS: i64 = 10 * 60_000;

/// Plays a history; how often its rows turned wide, and narrow.
async fn play(env: FaultEnv, steps: Vec<Step>, table: Table, row_cache: bool) -> Turns {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut config = small();
    if !row_cache {
        config.row_cache_bytes = 0;
    }
    let store = Store::open(env.clone(), objects, config).await.unwrap();
    let region = store
        .open_region(region_spec(&descriptor(vec![table.family()]), 1))
        .await
        .unwrap();
    let following = store.follow("widths", region.info(), None, 1 << 30);
    let mut following = following.await.unwrap();
    // Cells get old one after the other, an hour from now at the earliest; real time must not decide.
    let begun = i64::try_from(env.clock().wall()).unwrap();
    let minute = 60_000;
    // Half a minute off, so that the test's own time makes no difference.
    let base = begun - TTL_MS + 10 * minute + minute / 2;
    let mut model = Model::new(table);
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
                at: at * APART_MS,
                large,
            },
            Step::PutMany { row, at } => Step::PutMany {
                row,
                at: at * APART_MS,
            },
            Step::Mark {
                row,
                qualifier,
                at,
                kind,
            } => Step::Mark {
                row,
                qualifier,
                at: at * APART_MS,
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
                compare(&region, &model, base, now).await;
            }
            Step::Later(minutes) => {
                env.clock
                    .step_ms
                    .fetch_add(minutes * minute, Ordering::SeqCst);
            }
            Step::Pin => {
                let at = region.read_point().await.unwrap();
                pins.push((at, model.clone()));
                compare(&region, &model, base, now).await;
            }
            _ => {}
        }
        for (at, then) in &pins {
            let now = i64::try_from(env.clock().wall()).unwrap();
            let seen = scan_rows(&region, at.clone(), &versions(9), false).await;
            let expected = then.read(now, 9, TimeRange::ALL);
            assert_eq!(seen, expected, "an open snapshot changed");
        }
    }
    let now = i64::try_from(env.clock().wall()).unwrap();
    compare(&region, &model, base, now).await;
    drop(pins);
    write(&env, &region, vec![put("end", "f", "q", base, "")]).await;
    let turned = turns(&mut following, "end").await;
    store.close().await.unwrap();
    turned
}

/// A history in which rows turn wide and narrow again, with cells on either side of each turn.
fn turning() -> Vec<Step> {
    let put = |row, qualifier, at| Step::Put {
        row,
        qualifier,
        at,
        large: false,
    };
    let large = |row, qualifier, at| Step::Put {
        row,
        qualifier,
        at,
        large: true,
    };
    let many = |row, at| Step::PutMany { row, at };
    let mark = |row, qualifier, at, kind| Step::Mark {
        row,
        qualifier,
        at,
        kind,
    };
    let compact = |major| Step::Compact { major };
    vec![
        put(0, 1, 2),
        many(0, 1),
        large(1, 3, 2),
        put(1, 0, 1),
        Step::Flush,
        many(0, 2),
        put(0, 2, 3),
        mark(0, 2, 2, CellType::Delete),
        mark(1, 3, 1, CellType::DeleteColumn),
        compact(false),
        mark(0, 0, 4, CellType::DeleteFamily),
        put(0, 1, 3),
        mark(1, 3, 3, CellType::DeleteColumn),
        compact(true),
        put(0, 1, 5),
        put(0, 3, 4),
        put(1, 3, 5),
        Step::Later(25),
        many(0, 6),
        mark(0, 3, 6, CellType::DeleteFamilyVersion),
        large(1, 1, 6),
        Step::Flush,
        put(0, 1, 7),
        compact(true),
        mark(0, 0, 7, CellType::DeleteFamily),
        mark(1, 0, 6, CellType::DeleteFamily),
        put(1, 1, 8),
        Step::Later(20),
        compact(true),
        put(0, 2, 8),
        many(2, 8),
    ]
}

/// Overflow is crossed both ways, on each kind of table, with the row cache and without.
#[test]
fn reads_equal_the_model_while_rows_turn_wide_and_narrow() {
    let dir = tempfile::tempdir().unwrap();
    let real = env(dir.path());
    // Those with a TTL alone differ in nothing from those with minimum versions that this history would show.
    for (table, row_cache) in [(0, true), (2, false), (5, true), (6, false), (7, true)] {
        let table = TABLES[table];
        let here = FaultEnv::new(real.clone(), FaultDisk::default());
        let played = real.block_on(play(here, turning(), table, row_cache));
        let turned = played.unwrap_or_else(|| panic!("{table:?}, see above"));
        assert!(turned.wide >= 3, "{table:?}: {turned:?}");
        // A row whose deleted cells are kept stays wide.
        let narrow = if table.keeps_deleted { 0 } else { 3 };
        assert!(turned.narrow >= narrow, "{table:?}: {turned:?}");
    }
    real.shutdown();
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
    let cases = (steps(), 0..TABLES.len(), any::<bool>());
    let result = runner.run(&cases, |(steps, table, row_cache)| {
        let here = FaultEnv::new(real.clone(), FaultDisk::default());
        let played = real.block_on(play(here, steps, TABLES[table], row_cache));
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
            let cells = cells.unwrap().cells;
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
