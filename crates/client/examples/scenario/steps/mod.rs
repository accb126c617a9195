//! The steps, in the order of `tests/clients/java/Scenario.java`; here what they share.

mod deletes;
mod reads;
mod tables;
mod writes;

use bytes::Bytes;
use cadastre_client::{
    Action, Client, Namespace, Row, delete_cell, new_get, new_mutation, new_scan,
};
use cadastre_env::Env;
use cadastre_types::{
    Cell, CellType, CompareOp, Condition, EncodedFilter, Error, FamilyDescriptor, Get,
    LATEST_TIMESTAMP, Mutation, MutationKind, Qualifiers, Result, Scan, TableDescriptor, TableName,
    TableState, TimeRange,
};
use cadastre_wire::{encode, pb};

use crate::checks::{Checks, class};

const ROWS: usize = 10_000;
const SPLITS: [&str; 3] = ["r02500", "r05000", "r07500"];
const PACKAGE: &str = "org.apache.hadoop.hbase.filter.";

struct Scenario<'a, E: Env> {
    client: &'a Client<E>,
    table: &'a TableName,
    checks: Checks,
}

pub(crate) async fn run<E: Env>(client: &Client<E>, table: &TableName, expected: &str) -> Checks {
    let mut scenario = Scenario {
        client,
        table,
        checks: Checks::new(expected),
    };
    scenario.drop_if_there().await;
    scenario.tables().await;
    scenario.write_and_read().await;
    scenario.gets().await;
    scenario.scans().await;
    scenario.filters().await;
    scenario.versions().await;
    scenario.counters().await;
    scenario.conditions().await;
    scenario.deletes().await;
    scenario.more_deletes().await;
    scenario.multi().await;
    scenario.wrong_family().await;
    scenario.errors().await;
    scenario.families().await;
    scenario.disable_and_enable().await;
    scenario.truncate_and_drop().await;
    scenario.checks.end()
}

fn b(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn row(number: usize) -> String {
    format!("r{number:05}")
}

fn cell(row: &str, column: &str, timestamp: i64, value: &str) -> Cell {
    let (family, qualifier) = column.split_once(':').expect("family:qualifier");
    Cell::put(b(row), b(family), b(qualifier), timestamp, b(value))
}

fn put(row: &str, columns: &[(&str, &str)]) -> Mutation {
    let cells = columns
        .iter()
        .map(|(column, value)| cell(row, column, LATEST_TIMESTAMP, value));
    Mutation {
        cells: cells.collect(),
        ..new_mutation(MutationKind::Put, b(row))
    }
}

fn put_at(row: &str, column: &str, timestamp: i64, value: &str) -> Mutation {
    Mutation {
        cells: vec![cell(row, column, timestamp, value)],
        ..new_mutation(MutationKind::Put, b(row))
    }
}

fn marker(row: &str, column: &str, timestamp: i64, cell_type: CellType) -> Mutation {
    let (family, qualifier) = column.split_once(':').expect("family:qualifier");
    Mutation {
        cells: vec![delete_cell(
            b(row),
            b(family),
            b(qualifier),
            timestamp,
            cell_type,
        )],
        ..new_mutation(MutationKind::Delete, b(row))
    }
}

fn numbered(number: usize) -> Mutation {
    put(
        &row(number),
        &[
            ("f:v", &format!("value-{number:05}")),
            ("g:n", &(number % 10).to_string()),
        ],
    )
}

fn is_numbered(found: &Row, number: usize) -> bool {
    found.cells.len() == 2
        && found.key() == Some(&b(&row(number)))
        && found.value(b"f", b"v") == Some(&b(&format!("value-{number:05}")))
        && found.value(b"g", b"n") == Some(&b(&(number % 10).to_string()))
}

fn column(cell: &Cell) -> String {
    format!("{}:{}", text(&cell.family), text(&cell.qualifier))
}

fn joined(cells: &[Cell], each: impl Fn(&Cell) -> String) -> String {
    if cells.is_empty() {
        return "empty".to_owned();
    }
    cells.iter().map(each).collect::<Vec<_>>().join(" ")
}

fn cells(found: &Row) -> String {
    joined(&found.cells, |cell| {
        format!("{}={}", column(cell), text(&cell.value))
    })
}

fn stamps(found: &Row) -> String {
    joined(&found.cells, |cell| {
        format!("{}={}", cell.timestamp, text(&cell.value))
    })
}

fn with_row(found: &Row) -> String {
    found.key().map_or("empty".to_owned(), |key| {
        format!("{} {}", text(key), cells(found))
    })
}

fn long(value: Option<&Bytes>) -> Result<i64> {
    value
        .and_then(|value| Some(i64::from_be_bytes(value[..].try_into().ok()?)))
        .ok_or_else(|| Error::corrupt("not a counter"))
}

fn versions(row: &str, max_versions: u32) -> Get {
    let mut get = new_get(b(row));
    get.query.max_versions = max_versions;
    get
}

const ALL_VERSIONS: u32 = i32::MAX as u32;

fn range(start: &str, stop: &str) -> Scan {
    Scan {
        start_row: b(start),
        stop_row: b(stop),
        ..new_scan()
    }
}

fn filter(name: &str, body: Bytes) -> EncodedFilter {
    EncodedFilter {
        class: format!("{PACKAGE}{name}"),
        body,
    }
}

fn comparator(value: &str) -> EncodedFilter {
    let body = encode(&pb::BinaryComparator {
        comparable: pb::ByteArrayComparable {
            value: Some(b(value)),
        },
    });
    filter("BinaryComparator", body)
}

impl<E: Env> Scenario<'_, E> {
    async fn get(&self, row: &str) -> Result<Row> {
        self.client.get(self.table, &new_get(b(row))).await
    }

    async fn get_all(&self, row: &str) -> Result<Row> {
        self.client
            .get(self.table, &versions(row, ALL_VERSIONS))
            .await
    }

    /// A change that is not itself checked.
    async fn set(&self, mutation: Mutation) -> Result<()> {
        self.client.mutate(self.table, mutation).await.map(|_| ())
    }

    async fn rows(&self, scan: Scan, limit: Option<u64>) -> Result<String> {
        let reversed = scan.reversed;
        let mut scanner = self.client.scan_limited(self.table, scan, limit)?;
        let (mut count, mut first, mut last, mut order) = (0, None, Bytes::new(), true);
        while let Some(found) = scanner.next().await? {
            let key = found.key().expect("rows have cells").clone();
            if first.is_none() {
                first = Some(key.clone());
            } else if reversed {
                order &= key < last;
            } else {
                order &= key > last;
            }
            last = key;
            count += 1;
        }
        let Some(first) = first else {
            return Ok("0 rows".to_owned());
        };
        let order = if order { "in order" } else { "out of order" };
        Ok(format!(
            "{count} rows, {} to {}, {order}",
            text(&first),
            text(&last)
        ))
    }
}

fn ok<T>(answer: &Result<T>) -> String {
    answer.as_ref().map_or_else(class, |_| "ok".to_owned())
}
