//! Every form of delete.

use super::*;

impl<E: Env> Scenario<'_, E> {
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

    pub(super) async fn deletes(&mut self) {
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

    pub(super) async fn more_deletes(&mut self) {
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
}
