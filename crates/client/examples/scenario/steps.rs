//! The steps, in the order of `tests/clients/java/Scenario.java`.

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

    async fn starts(&self) -> Result<String> {
        let regions = self.client.admin().table_regions(self.table).await?;
        let keys: Vec<String> = regions
            .iter()
            .map(|location| text(&location.region.start_key))
            .collect();
        Ok(keys.join(","))
    }

    async fn table_exists(&self) -> Result<bool> {
        Ok(self.client.table_state(self.table).await?.is_some())
    }

    async fn drop_if_there(&self) {
        let admin = self.client.admin();
        // Each fails if it is not needed.
        let _ = admin.disable_table(self.table).await;
        let _ = admin.delete_table(self.table).await;
    }

    async fn create(&self) -> Result<()> {
        let table = TableDescriptor::new(self.table.clone())
            .with_family(FamilyDescriptor::new("f").with("VERSIONS", "3"))
            .with_family(FamilyDescriptor::new("g"));
        let splits = SPLITS.map(b).to_vec();
        self.client.admin().create_table(&table, splits).await
    }

    async fn tables(&mut self) {
        let admin = self.client.admin();
        let status = admin.cluster_status().await;
        let connected = status.clone().map(|status| !status.cluster_id.is_empty());
        self.checks.check("connect", connected);
        let servers = status.map(|status| !status.live_servers.is_empty());
        self.checks.check("cluster.servers", servers);
        self.checks.check("table.absent", self.table_exists().await);
        let created = match self.create().await {
            Ok(()) => self.starts().await,
            Err(error) => Err(error),
        };
        self.checks.check("table.create", created);
        let again = self.create().await.map(|()| "created");
        self.checks.check("table.create.again", again);
        let families = admin.describe_table(self.table).await.map(|table| {
            let families = table.families.values();
            let texts: Vec<String> = families
                .map(|family| format!("{}:{}", text(&family.name), family.max_versions()))
                .collect();
            texts.join(" ")
        });
        self.checks.check("table.families", families);
        let listed = admin
            .list_tables(false)
            .await
            .map(|tables| tables.iter().any(|table| table.name == *self.table));
        self.checks.check("table.list", listed);
        self.checks.check("namespace", self.namespace().await);
    }

    async fn namespace(&self) -> Result<String> {
        let admin = self.client.admin();
        let name = format!("ns_{}", self.table.qualifier());
        let has = async || {
            let all = admin.list_namespaces().await?;
            Ok::<_, Error>(all.iter().any(|namespace| namespace.name == name))
        };
        admin
            .create_namespace(&Namespace {
                name: name.clone(),
                configuration: std::collections::BTreeMap::new(),
            })
            .await?;
        let there = has().await?;
        admin.delete_namespace(&name).await?;
        Ok(format!("{there} {}", has().await?))
    }

    async fn write_and_read(&mut self) {
        let mut written = Ok(0);
        for from in (0..ROWS).step_by(500) {
            let puts = (from..from + 500)
                .map(|number| Action::Mutate(numbered(number)))
                .collect();
            for answer in self.client.batch(self.table, puts).await {
                written = written.and_then(|count: usize| answer.map(|_| count + 1));
            }
        }
        self.checks.check("write.rows", written);
        let (mut right, mut wrong) = (0, 0);
        for from in (0..ROWS).step_by(500) {
            let gets = (from..from + 500)
                .map(|number| Action::Get(new_get(b(&row(number)))))
                .collect();
            let answers = self.client.batch(self.table, gets).await;
            for (number, answer) in (from..).zip(answers) {
                let good = answer.is_ok_and(|found| is_numbered(&found, number));
                right += usize::from(good);
                wrong += usize::from(!good);
            }
        }
        let read = format!("{right} right, {wrong} wrong");
        self.checks.check("read.rows", Ok(read));
    }

    async fn gets(&mut self) {
        let found = self.get("r01234").await;
        self.checks
            .check("get.row", found.map(|found| with_row(&found)));
        let mut get = new_get(b("r01234"));
        let v = Qualifiers::These([b("v")].into());
        get.query.columns = [(b("f"), v)].into();
        let found = self.client.get(self.table, &get).await;
        self.checks
            .check("get.column", found.map(|found| with_row(&found)));
        get.query.columns = [(b("g"), Qualifiers::All)].into();
        let found = self.client.get(self.table, &get).await;
        self.checks
            .check("get.family", found.map(|found| with_row(&found)));
        let found = self.get("absent").await;
        self.checks
            .check("get.absent", found.map(|found| with_row(&found)));
        let there = self.client.exists(self.table, &new_get(b("r01234"))).await;
        let absent = self.client.exists(self.table, &new_get(b("absent"))).await;
        let both = there.and_then(|there| absent.map(|absent| format!("{there} {absent}")));
        self.checks.check("get.exists", both);
        let gets = ["r00001", "absent", "r09999"]
            .map(|row| Action::Get(new_get(b(row))))
            .to_vec();
        let answers: Result<Vec<Row>> = self
            .client
            .batch(self.table, gets)
            .await
            .into_iter()
            .collect();
        let list = answers.map(|rows| rows.iter().map(with_row).collect::<Vec<_>>().join("; "));
        self.checks.check("get.list", list);
    }

    async fn scans(&mut self) {
        let reversed = |start: &str| Scan {
            start_row: b(start),
            reversed: true,
            ..new_scan()
        };
        let inclusive = Scan {
            include_start_row: false,
            include_stop_row: true,
            ..range("r02400", "r02600")
        };
        let caching = Scan {
            caching: 7,
            ..range("r02480", "r02520")
        };
        let small = Scan {
            max_result_size: 1000,
            ..range("r02400", "r02600")
        };
        for (name, scan, limit) in [
            ("scan.all", new_scan(), None),
            ("scan.range", range("r02400", "r02600"), None),
            ("scan.region", range("r00100", "r00190"), None),
            ("scan.inclusive", inclusive, None),
            ("scan.limit", range("r04990", ""), Some(25)),
            ("scan.caching", caching, None),
            ("scan.reversed", reversed("r05010"), Some(20)),
            ("scan.reversed.all", reversed(""), None),
            ("scan.small.result", small, None),
            ("scan.none", range("s", "t"), None),
        ] {
            let rows = self.rows(scan, limit).await;
            self.checks.check(name, rows);
        }
        let batch = Scan {
            batch: 1,
            ..range("r00010", "r00013")
        };
        let pieces = self.collect(batch).await.map(|pieces| {
            let texts = pieces.iter().map(|piece| {
                let of_cell = |cell: &Cell| format!("{}/{}", text(&cell.row), column(cell));
                piece
                    .cells
                    .iter()
                    .map(of_cell)
                    .collect::<Vec<_>>()
                    .join("+")
            });
            texts.collect::<Vec<_>>().join(" ")
        });
        self.checks.check("scan.batch", pieces);
        let mut family = range("r00000", "r00005");
        family.query.columns = [(b("g"), Qualifiers::All)].into();
        let values = self.collect(family).await.map(|rows| {
            let values = rows.iter().map(|row| text(&row.cells[0].value));
            values.collect::<Vec<_>>().join(" ")
        });
        self.checks.check("scan.family", values);
    }

    async fn collect(&self, scan: Scan) -> Result<Vec<Row>> {
        let mut scanner = self.client.scan(self.table, scan)?;
        let mut rows = Vec::new();
        while let Some(row) = scanner.next().await? {
            rows.push(row);
        }
        Ok(rows)
    }

    async fn filters(&mut self) {
        let prefix = |text: &str| {
            let body = encode(&pb::PrefixFilter {
                prefix: Some(b(text)),
            });
            filter("PrefixFilter", body)
        };
        let seven = comparator("7");
        let seven = filter(
            "SingleColumnValueFilter",
            encode(&pb::SingleColumnValueFilter {
                column_family: Some(b("g")),
                column_qualifier: Some(b("n")),
                compare_op: pb::CompareType::Equal as i32,
                comparator: cadastre_wire::convert::comparator_pb(&seven),
                filter_if_missing: None,
                latest_version_only: None,
            }),
        );
        let both = [prefix("r000"), seven.clone()];
        let list = filter(
            "FilterList",
            encode(&pb::FilterList {
                operator: pb::filter_list::Operator::MustPassAll as i32,
                filters: both.iter().map(cadastre_wire::convert::filter_pb).collect(),
            }),
        );
        for (name, filter) in [
            ("scan.filter.prefix", prefix("r0123")),
            ("scan.filter.value", seven),
            ("scan.filter.list", list),
        ] {
            let scan = Scan {
                filter: Some(filter),
                ..new_scan()
            };
            let rows = self.rows(scan, None).await;
            self.checks.check(name, rows);
        }
    }

    async fn versions(&mut self) {
        let mut ready = Ok(());
        for (timestamp, value) in [(1000, "a"), (2000, "b"), (3000, "c")] {
            let put = self
                .set(put_at("x-versions", "f:v", timestamp, value))
                .await;
            ready = ready.and(put);
        }
        let two = self
            .client
            .get(self.table, &versions("x-versions", 2))
            .await;
        let two = ready.and(two);
        self.checks
            .check("versions.two", two.map(|found| stamps(&found)));
        let all = self.get_all("x-versions").await;
        self.checks
            .check("versions.all", all.map(|found| stamps(&found)));
        for (name, from, to) in [
            ("versions.time.range", 1000, 3000),
            ("versions.timestamp", 2000, 2001),
        ] {
            let mut get = versions("x-versions", ALL_VERSIONS);
            get.query.time_range = TimeRange { from, to };
            let found = self.client.get(self.table, &get).await;
            self.checks.check(name, found.map(|found| stamps(&found)));
        }
        let fourth = self.set(put_at("x-versions", "f:v", 4000, "d")).await;
        let all = fourth.and(self.get_all("x-versions").await);
        self.checks
            .check("versions.fourth", all.map(|found| stamps(&found)));
        let x = self.set(put_at("x-one", "g:v", 1000, "x")).await;
        let y = self.set(put_at("x-one", "g:v", 2000, "y")).await;
        let one = x.and(y).and(self.get_all("x-one").await);
        self.checks
            .check("versions.one", one.map(|found| stamps(&found)));
    }

    async fn increment(&self, row: &str, qualifier: &str, delta: i64) -> Result<i64> {
        self.client
            .increment(self.table, b(row), b("f"), b(qualifier), delta)
            .await
    }

    async fn counters(&mut self) {
        let adds = (0..100).map(|_| self.increment("x-counter", "c", 1));
        let added: Result<Vec<i64>> = futures::future::join_all(adds).await.into_iter().collect();
        let found = added.and(self.get("x-counter").await);
        let count = found.and_then(|found| long(found.value(b"f", b"c")));
        self.checks.check("increment.concurrent", count);
        let seven = self.increment("x-counter", "c", 7).await;
        self.checks.check("increment.result", seven);
        let delta = |qualifier: &str, delta: i64| {
            let mut one = cell("x-counter", &format!("f:{qualifier}"), LATEST_TIMESTAMP, "");
            one.value = Bytes::copy_from_slice(&delta.to_be_bytes());
            one
        };
        let both = Mutation {
            cells: vec![delta("c", 1), delta("d", 5)],
            ..new_mutation(MutationKind::Increment, b("x-counter"))
        };
        let both = self.client.mutate(self.table, both).await.and_then(|row| {
            let (c, d) = (long(row.value(b"f", b"c"))?, long(row.value(b"f", b"d"))?);
            Ok(format!("f:c={c} f:d={d}"))
        });
        self.checks.check("increment.two", both);
        let less = self.increment("x-counter", "c", -10).await;
        self.checks.check("increment.negative", less);
        let ready = self.set(put("x-append", &[("f:v", "ab")])).await;
        let no_number = ready.and(self.increment("x-append", "v", 1).await);
        self.checks.check("increment.not.a.number", no_number);
        let append = Mutation {
            cells: vec![cell("x-append", "f:v", LATEST_TIMESTAMP, "cd")],
            ..new_mutation(MutationKind::Append, b("x-append"))
        };
        let value = |row: Row| text(row.value(b"f", b"v").unwrap_or(&Bytes::new()));
        let appended = self.client.mutate(self.table, append).await;
        self.checks.check("append.result", appended.map(value));
        self.checks
            .check("append.read", self.get("x-append").await.map(value));
    }

    async fn guarded(
        &self,
        op: CompareOp,
        expected: Option<&str>,
        mutation: Mutation,
    ) -> Result<bool> {
        let condition = Condition {
            row: b("x-check"),
            family: b("f"),
            qualifier: b("v"),
            op,
            comparator: Some(match expected {
                Some(value) => comparator(value),
                None => filter("NullComparator", Bytes::new()),
            }),
            filter: None,
            time_range: TimeRange::ALL,
        };
        let done = self
            .client
            .check_and_mutate(self.table, &condition, mutation)
            .await?;
        Ok(done.applied)
    }

    /// Two guarded mutations after each other.
    async fn twice(
        &mut self,
        name: &str,
        op: CompareOp,
        expected: [Option<&str>; 2],
        mutation: Mutation,
    ) {
        let first = self.guarded(op, expected[0], mutation.clone()).await;
        let second = self.guarded(op, expected[1], mutation).await;
        let both = first.and_then(|first| second.map(|second| format!("{first} {second}")));
        self.checks.check(name, both);
    }

    async fn conditions(&mut self) {
        let old = put("x-check", &[("f:v", "old")]);
        self.twice("check.absent", CompareOp::Equal, [None, None], old)
            .await;
        let new = put("x-check", &[("f:v", "new")]);
        let expected = [Some("other"), Some("old")];
        self.twice("check.equal", CompareOp::Equal, expected, new)
            .await;
        let value = self.get("x-check").await;
        let value = value.map(|row| text(row.value(b"f", b"v").unwrap_or(&Bytes::new())));
        self.checks.check("check.value", value);
        let w = put("x-check", &[("f:w", "w")]);
        let expected = [Some("z"), Some("a")];
        self.twice("check.greater", CompareOp::Greater, expected, w)
            .await;
        let delete = new_mutation(MutationKind::Delete, b("x-check"));
        let expected = [Some("old"), Some("new")];
        self.twice("check.delete", CompareOp::Equal, expected, delete)
            .await;
        let ready = self.set(put("x-mutate", &[("f:a", "1")])).await;
        let mutations = vec![
            put("x-mutate", &[("f:b", "2"), ("g:c", "3")]),
            marker("x-mutate", "f:a", LATEST_TIMESTAMP, CellType::DeleteColumn),
        ];
        let done = self.client.mutate_row(self.table, None, mutations).await;
        let found = ready.and(done).and(self.get("x-mutate").await);
        self.checks
            .check("mutate.row", found.map(|found| cells(&found)));
    }

    async fn three_versions(&self, row: &str) -> Result<()> {
        for (timestamp, value) in [(1, "one"), (2, "two"), (3, "three")] {
            self.set(put_at(row, "f:a", timestamp, value)).await?;
        }
        Ok(())
    }

    async fn three_columns(&self, row: &str) -> Result<()> {
        let columns = [("f:a", "a"), ("f:b", "b"), ("g:c", "c")];
        self.set(put(row, &columns)).await
    }

    async fn deletes(&mut self) {
        let latest = LATEST_TIMESTAMP;
        for (name, row, timestamp, cell_type) in [
            (
                "delete.latest.version",
                "x-delete-1",
                latest,
                CellType::Delete,
            ),
            ("delete.exact.version", "x-delete-2", 2, CellType::Delete),
            (
                "delete.column.up.to",
                "x-delete-4",
                2,
                CellType::DeleteColumn,
            ),
        ] {
            let ready = self.three_versions(row).await;
            let done = self.set(marker(row, "f:a", timestamp, cell_type)).await;
            let found = ready.and(done).and(self.get_all(row).await);
            self.checks.check(name, found.map(|found| stamps(&found)));
        }
        for (name, row, column, cell_type) in [
            ("delete.column", "x-delete-3", "f:a", CellType::DeleteColumn),
            ("delete.family", "x-delete-5", "f:", CellType::DeleteFamily),
        ] {
            let ready = self.three_columns(row).await;
            let done = self.set(marker(row, column, latest, cell_type)).await;
            let found = ready.and(done).and(self.get(row).await);
            self.checks.check(name, found.map(|found| cells(&found)));
        }
        let mut raw = range("x-delete-4", "x-delete-5");
        raw.query.raw = true;
        raw.query.max_versions = ALL_VERSIONS;
        let raw = self.collect(raw).await.map(|rows| {
            let all = rows.iter().flat_map(|row| &row.cells);
            let texts = all.map(|cell| format!("{:?}@{}", cell.cell_type, cell.timestamp));
            texts.collect::<Vec<_>>().join(" ")
        });
        self.checks.check("delete.raw", raw);
    }

    async fn more_deletes(&mut self) {
        let six = "x-delete-6";
        let mut ready = Ok(());
        for (column, timestamp, value) in [
            ("f:a", 2, "2"),
            ("f:b", 2, "2"),
            ("g:c", 2, "2"),
            ("f:a", 3, "3"),
        ] {
            ready = ready.and(self.set(put_at(six, column, timestamp, value)).await);
        }
        let done = self
            .set(marker(six, "f:", 2, CellType::DeleteFamilyVersion))
            .await;
        let found = ready.and(done).and(self.get_all(six).await);
        self.checks
            .check("delete.family.version", found.map(|found| cells(&found)));
        let seven = "x-delete-7";
        let ready = self.three_columns(seven).await;
        let done = self.set(new_mutation(MutationKind::Delete, b(seven))).await;
        let found = ready.and(done).and(self.get(seven).await);
        self.checks
            .check("delete.row", found.map(|found| with_row(&found)));
        // In the delete's own millisecond HBase would keep it masked.
        use cadastre_env::Clock;
        let clock = self.client.env().clock().clone();
        clock.sleep(std::time::Duration::from_millis(5)).await;
        let again = self.set(put(seven, &[("f:a", "again")])).await;
        let found = again.and(self.get(seven).await);
        self.checks
            .check("delete.then.put", found.map(|found| cells(&found)));
    }

    async fn multi(&mut self) {
        let mut ready = Ok(());
        for mutation in [
            put("x-multi-2", &[("f:a", "2")]),
            put("x-multi-4", &[("f:v", "x")]),
            put("x-multi-5", &[("f:a", "1")]),
        ] {
            ready = ready.and(self.set(mutation).await);
        }
        let mut five = cell("x-multi-3", "f:c", LATEST_TIMESTAMP, "");
        five.value = Bytes::copy_from_slice(&5_i64.to_be_bytes());
        let actions = vec![
            Action::Mutate(put("x-multi-1", &[("f:a", "1")])),
            Action::Get(new_get(b("r00042"))),
            Action::Mutate(new_mutation(MutationKind::Delete, b("x-multi-2"))),
            Action::Mutate(Mutation {
                cells: vec![five],
                ..new_mutation(MutationKind::Increment, b("x-multi-3"))
            }),
            Action::Mutate(Mutation {
                cells: vec![cell("x-multi-4", "f:v", LATEST_TIMESTAMP, "y")],
                ..new_mutation(MutationKind::Append, b("x-multi-4"))
            }),
        ];
        let answers = self.client.batch(self.table, actions).await;
        // Mutations of one row that apply together are a call of their own here.
        let mutations = vec![
            put("x-multi-5", &[("f:b", "2")]),
            marker("x-multi-5", "f:a", LATEST_TIMESTAMP, CellType::DeleteColumn),
        ];
        let together = self.client.mutate_row(self.table, None, mutations).await;
        let value = |answer: &Result<Row>| match answer {
            Ok(row) => text(row.value(b"f", b"v").unwrap_or(&Bytes::new())),
            Err(error) => class(error),
        };
        let counter = match &answers[3] {
            Ok(row) => long(row.value(b"f", b"c")).map_or("?".to_owned(), |five| five.to_string()),
            Err(error) => class(error),
        };
        let mixed = format!(
            "put={} get={} delete={} increment={counter} append={} rows={}",
            ok(&answers[0]),
            value(&answers[1]),
            ok(&answers[2]),
            value(&answers[4]),
            ok(&together),
        );
        self.checks.check("multi.mixed", ready.map(|()| mixed));
        let read = self.multi_read().await;
        self.checks.check("multi.mixed.read", read);
    }

    async fn multi_read(&self) -> Result<String> {
        Ok(format!(
            "{}; {}; {}; {}; {}",
            cells(&self.get("x-multi-1").await?),
            cells(&self.get("x-multi-2").await?),
            long(self.get("x-multi-3").await?.value(b"f", b"c"))?,
            text(
                self.get("x-multi-4")
                    .await?
                    .value(b"f", b"v")
                    .unwrap_or(&Bytes::new())
            ),
            cells(&self.get("x-multi-5").await?),
        ))
    }

    async fn wrong_family(&mut self) {
        let actions = [
            ("x-wrong-1", "f:a"),
            ("x-wrong-2", "nosuch:a"),
            ("x-wrong-3", "f:a"),
        ]
        .into_iter()
        .zip(["1", "2", "3"])
        .map(|((row, column), value)| Action::Mutate(put(row, &[(column, value)])))
        .collect();
        let answers = self.client.batch(self.table, actions).await;
        let texts: Vec<String> = answers.iter().map(ok).collect();
        self.checks.check("multi.wrong.family", Ok(texts.join(" ")));
        let mut read = Vec::new();
        for row in ["x-wrong-1", "x-wrong-2", "x-wrong-3"] {
            read.push(
                self.get(row)
                    .await
                    .map_or_else(|error| class(&error), |row| cells(&row)),
            );
        }
        self.checks
            .check("multi.wrong.family.read", Ok(read.join("; ")));
    }

    async fn errors(&mut self) {
        let nosuch = TableName::parse(&format!("{}_nosuch", self.table)).expect("legal");
        let found = self.client.get(&nosuch, &new_get(b("a"))).await;
        self.checks
            .check("error.unknown.table", found.map(|found| cells(&found)));
        let written = self.set(put("a", &[("nosuch:a", "a")])).await;
        self.checks
            .check("error.unknown.family.put", written.map(|()| "put"));
        let mut get = new_get(b("a"));
        get.query.columns = [(b("nosuch"), Qualifiers::All)].into();
        let found = self.client.get(self.table, &get).await;
        self.checks
            .check("error.unknown.family.get", found.map(|found| cells(&found)));
        let mut scan = new_scan();
        scan.query.columns = get.query.columns;
        let rows = self.rows(scan, None).await;
        self.checks.check("error.unknown.family.scan", rows);
        let name = TableName::parse("nosuch_namespace:t").expect("legal");
        let table = TableDescriptor::new(name).with_family(FamilyDescriptor::new("f"));
        let created = self.client.admin().create_table(&table, Vec::new()).await;
        self.checks
            .check("error.unknown.namespace", created.map(|()| "created"));
    }

    async fn modify(&self, change: impl Fn(TableDescriptor) -> TableDescriptor) -> Result<String> {
        let admin = self.client.admin();
        let table = admin.describe_table(self.table).await?;
        admin.modify_table(&change(table)).await?;
        let table = admin.describe_table(self.table).await?;
        let names: Vec<String> = table.families.keys().map(|name| text(name)).collect();
        Ok(names.join(" "))
    }

    async fn families(&mut self) {
        let flushed = self.client.admin().flush_table(self.table).await;
        let rows = flushed.and(self.rows(range("r", "s"), None).await);
        self.checks.check("flush", rows);
        let added = self
            .modify(|table| table.with_family(FamilyDescriptor::new("h")))
            .await;
        self.checks.check("family.add", added);
        let written = self.set(put("r00000", &[("h:new", "1")])).await;
        let found = written.and(self.get("r00000").await);
        self.checks
            .check("family.add.write", found.map(|found| cells(&found)));
        let dropped = self
            .modify(|mut table| {
                table.families.remove(&b("h"));
                table
            })
            .await;
        self.checks.check("family.drop", dropped);
    }

    async fn is(&self, state: TableState) -> Result<bool> {
        Ok(self.client.table_state(self.table).await? == Some(state))
    }

    async fn disable_and_enable(&mut self) {
        let admin = self.client.admin();
        let dropped = admin.delete_table(self.table).await;
        self.checks
            .check("drop.enabled", dropped.map(|()| "dropped"));
        let again = admin.enable_table(self.table).await;
        self.checks.check("enable.again", again.map(|()| "enabled"));
        let disabled = admin.disable_table(self.table).await;
        let disabled = disabled.and(self.is(TableState::Disabled).await);
        self.checks.check("disable", disabled);
        let again = admin.disable_table(self.table).await;
        self.checks
            .check("disable.again", again.map(|()| "disabled"));
        let written = self.set(numbered(5000)).await;
        self.checks.check("disable.put", written.map(|()| "put"));
        let enabled = admin.enable_table(self.table).await;
        let enabled = enabled.and(self.is(TableState::Enabled).await);
        self.checks.check("enable", enabled);
        let found = self.get("r05000").await;
        let value = found.map(|row| text(row.value(b"f", b"v").unwrap_or(&Bytes::new())));
        self.checks.check("enable.read", value);
    }

    async fn truncate_and_drop(&mut self) {
        let admin = self.client.admin();
        let disabled = admin.disable_table(self.table).await;
        let truncated = admin.truncate_table(self.table, true).await;
        let rows = disabled
            .and(truncated)
            .and(self.rows(new_scan(), None).await);
        let starts = self.starts().await;
        let both = rows.and_then(|rows| starts.map(|starts| format!("{rows}; {starts}")));
        self.checks.check("truncate", both);
        let disabled = admin.disable_table(self.table).await;
        let dropped = admin.delete_table(self.table).await;
        let there = disabled.and(dropped).and(self.table_exists().await);
        self.checks.check("drop", there);
        let found = self.get("a").await;
        self.checks
            .check("drop.get", found.map(|found| cells(&found)));
    }
}

fn ok<T>(answer: &Result<T>) -> String {
    answer.as_ref().map_or_else(class, |_| "ok".to_owned())
}
