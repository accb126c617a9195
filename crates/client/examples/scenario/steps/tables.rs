//! Tables, namespaces, families, and what is refused.

use super::*;

impl<E: Env> Scenario<'_, E> {
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

    pub(super) async fn drop_if_there(&self) {
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

    pub(super) async fn tables(&mut self) {
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

    pub(super) async fn errors(&mut self) {
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

    pub(super) async fn families(&mut self) {
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

    pub(super) async fn disable_and_enable(&mut self) {
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

    pub(super) async fn truncate_and_drop(&mut self) {
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
