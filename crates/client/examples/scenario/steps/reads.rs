//! Gets, scans, filters, versions.

use super::*;

impl<E: Env> Scenario<'_, E> {
    pub(super) async fn gets(&mut self) {
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

    pub(super) async fn scans(&mut self) {
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

    pub(super) async fn collect(&self, scan: Scan) -> Result<Vec<Row>> {
        let mut scanner = self.client.scan(self.table, scan)?;
        let mut rows = Vec::new();
        while let Some(row) = scanner.next().await? {
            rows.push(row);
        }
        Ok(rows)
    }

    pub(super) async fn filters(&mut self) {
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

    pub(super) async fn versions(&mut self) {
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
}
