//! Batches, counters, conditions, mixed multi.

use super::*;

impl<E: Env> Scenario<'_, E> {
    pub(super) async fn write_and_read(&mut self) {
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

    async fn increment(&self, row: &str, qualifier: &str, delta: i64) -> Result<i64> {
        self.client
            .increment(self.table, b(row), b("f"), b(qualifier), delta)
            .await
    }

    pub(super) async fn counters(&mut self) {
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
            query_metrics: false,
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

    pub(super) async fn conditions(&mut self) {
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

    pub(super) async fn multi(&mut self) {
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

    pub(super) async fn wrong_family(&mut self) {
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
}
