//! What a client does: random operations, each told to the model before it is sent and when it is answered.
//!
//! Rows are written in two families at once with explicit timestamps, which are the model's versions; so a torn row shows as two
//! values, and a late attempt never hides a newer one. Counters are incremented with the server's timestamps, which must not go
//! back (C8). An operation that fails is unknown, whatever the error: nothing is assumed of the product.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::Rng as _;

use cadastre_client::{
    Action, Client, ClientConfig, Registry, RetryPolicy, Row, ZNODE_PARENT_DEFAULT, new_get,
    new_mutation, new_scan,
};
use cadastre_env::{Clock, Env, HostPort, Rng};
use cadastre_types::{
    Cell, Code, Error, FamilyDescriptor, Mutation, MutationKind, Scan, TableDescriptor, TableName,
};

use crate::cluster::churn::Churn;
use crate::cluster::reshape::Reshape;
use crate::cluster::{MASTER_PORT, REGION_SERVER_PORT, SERVER, ZOOKEEPER_PORT};
use crate::env::SimEnv;
use crate::hub::locked;
use crate::model::{Model, Ticket};

/// Rows of the table, split into regions at every tenth.
const ROWS: u32 = 40;

/// Counters, in the same table.
const COUNTERS: u32 = 6;

/// Largest value but for a few, bytes.
const VALUE_BYTES: usize = 400;

/// Largest of the few, bytes: some rows overflow their packed form.
const LARGE_VALUE_BYTES: usize = 40_000;

/// Actions of a batch at most.
const BATCH_MAX: u32 = 6;

/// Longest pause of a client between two operations, us: as many operations as a seed can pay for, over all its faults.
const PAUSE_US: u64 = 16_000;

/// Pause between two looks at what the other clients are to be done with.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Tries of each read at the end; each takes up to the client's own deadline.
const FINAL_TRIES: usize = 10;

/// Pause between two looks at regions that do not tile yet.
const FINAL_PAUSE: Duration = Duration::from_secs(1);

/// What all clients of a run share.
pub(super) struct Shared {
    pub(super) model: Model,
    versions: i64,
    /// Value and timestamp of each counter as last seen.
    stamps: BTreeMap<Bytes, (i64, i64)>,
    pub(super) violation: Option<String>,
    pub(super) ready: bool,
    /// No more faults will come.
    pub(super) calm: bool,
    pub(super) done: usize,
    pub(super) finale: bool,
    pub(super) finished: bool,
    pub(super) answered: u64,
    pub(super) failed: BTreeMap<String, u64>,
    /// Changes of the table's regions, by kind.
    pub(super) reshaped: BTreeMap<&'static str, u64>,
    pub(super) last_error: Option<String>,
}

impl Shared {
    pub(super) fn new() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            model: Model::new(),
            versions: 0,
            stamps: BTreeMap::new(),
            violation: None,
            ready: false,
            calm: false,
            done: 0,
            finale: false,
            finished: false,
            answered: 0,
            failed: BTreeMap::new(),
            reshaped: BTreeMap::new(),
            last_error: None,
        }))
    }

    fn judge<E: std::fmt::Display>(&mut self, verdict: Result<(), E>) {
        if let Err(violation) = verdict {
            self.violation.get_or_insert_with(|| violation.to_string());
        }
    }
}

const FIRST: &[u8] = b"f";
const SECOND: &[u8] = b"g";
const QUALIFIER: &[u8] = b"q";

fn row_key(number: u32) -> Bytes {
    format!("r-{number:02}").into_bytes().into()
}

fn counter_key(number: u32) -> Bytes {
    format!("c-{number:02}").into_bytes().into()
}

/// A row or a counter.
pub(super) fn random_key(rng: &mut Rng) -> Bytes {
    if rng.random_bool(0.2) {
        counter_key(rng.random_range(0..COUNTERS))
    } else {
        row_key(rng.random_range(0..ROWS))
    }
}

/// One client's program.
pub(super) async fn run(env: SimEnv, number: usize, operations: u32, shared: Arc<Mutex<Shared>>) {
    let mut worker = match Worker::new(env, shared) {
        Ok(worker) => worker,
        Err(error) => panic!("a client with sensible settings was refused: {error}"),
    };
    if number == 0 {
        worker.create_table().await;
    }
    worker.until(|shared| shared.ready).await;
    let churn = (number == 1).then(|| Churn::begin(&worker));
    let reshape = (number == 2).then(|| Reshape::begin(&worker));
    let mut left = operations;
    while left > 0 || !locked(&worker.shared).calm {
        worker.operation().await;
        left = left.saturating_sub(1);
        let pause = Duration::from_micros(worker.rng.random_range(0..PAUSE_US));
        worker.env.clock().sleep(pause).await;
    }
    if let Some(churn) = churn {
        churn.await;
    }
    if let Some(reshape) = reshape {
        reshape.await;
    }
    locked(&worker.shared).done += 1;
    if number == 0 {
        worker.until(|shared| shared.finale).await;
        worker.read_everything().await;
        locked(&worker.shared).finished = true;
    }
}

/// A client and what it knows.
pub(super) struct Worker {
    pub(super) env: SimEnv,
    rng: Rng,
    pub(super) client: Client<SimEnv>,
    pub(super) table: TableName,
    pub(super) shared: Arc<Mutex<Shared>>,
}

impl Worker {
    fn new(env: SimEnv, shared: Arc<Mutex<Shared>>) -> Result<Self, Error> {
        let mut rng = env.rng("workload");
        let at = |port| vec![HostPort::new(SERVER, port)];
        let registry = match rng.random_range(0..3) {
            0 => Registry::Rpc(at(MASTER_PORT)),
            1 => Registry::Rpc(at(REGION_SERVER_PORT)),
            _ => Registry::ZooKeeper(at(ZOOKEEPER_PORT), ZNODE_PARENT_DEFAULT.to_owned()),
        };
        let config = ClientConfig {
            retry: RetryPolicy {
                tries_max: 50,
                pause_ms: 10,
                pause_overloaded_ms: 20,
                operation_timeout_ms: 10_000,
                rpc_timeout_ms: 1_000,
            },
            zookeeper_timeout_ms: 10_000,
            ..ClientConfig::default()
        };
        let client = Client::connect(env.clone(), registry, config)?;
        let table = TableName::parse("sim")?;
        Ok(Self {
            env,
            rng,
            client,
            table,
            shared,
        })
    }

    async fn until(&self, holds: impl Fn(&Shared) -> bool) {
        while !holds(&locked(&self.shared)) {
            self.env.clock().sleep(LOOK_AGAIN).await;
        }
    }

    /// Counts an answer, puts it into the trace and gives it back.
    fn told<T>(&self, what: &str, key: &Bytes, answer: Result<T, Error>) -> Option<T> {
        let mut shared = locked(&self.shared);
        match answer {
            Ok(answer) => {
                shared.answered += 1;
                Some(answer)
            }
            Err(error) => {
                let code = format!("{:?}", error.code());
                *shared.failed.entry(code).or_default() += 1;
                shared.last_error = Some(format!("{what} {key:?}: {error}"));
                drop(shared);
                self.env
                    .note(format_args!("{what} {key:?} failed: {error}"));
                None
            }
        }
    }

    async fn create_table(&self) {
        let mut table = TableDescriptor::new(self.table.clone());
        for family in [FIRST, SECOND] {
            table = table.with_family(FamilyDescriptor::new(family));
        }
        let splits = (1..4).map(|tenth| row_key(tenth * 10)).collect::<Vec<_>>();
        loop {
            let created = self
                .client
                .admin()
                .create_table(&table, splits.clone())
                .await;
            match created {
                Ok(()) => break,
                // An earlier try of unknown outcome.
                Err(error) if error.code() == Code::TableExists => break,
                Err(error) => {
                    self.told::<()>("create", &Bytes::new(), Err(error));
                }
            }
            self.env.clock().sleep(LOOK_AGAIN).await;
        }
        locked(&self.shared).ready = true;
    }

    async fn operation(&mut self) {
        match self.rng.random_range(0..100) {
            0..35 => self.put().await,
            35..40 => self.delete().await,
            40..65 => self.get().await,
            65..80 => self.increment().await,
            80..85 => self.get_counter().await,
            85..95 => self.batch().await,
            _ => self.scan().await,
        }
    }

    fn random_row(&mut self) -> Bytes {
        row_key(self.rng.random_range(0..ROWS))
    }

    fn random_value(&mut self, version: i64) -> Bytes {
        let most = if self.rng.random_bool(0.02) {
            LARGE_VALUE_BYTES
        } else {
            VALUE_BYTES
        };
        let mut value = format!("{version} ").into_bytes();
        let size = self.rng.random_range(0..most).max(value.len());
        value.resize(size, b'.');
        value.into()
    }

    /// A put of both families, told to the model as begun.
    fn begin_put(&mut self, row: &Bytes) -> (i64, Mutation) {
        let version = self.next_version();
        let value = self.random_value(version);
        let cell = |family: &'static [u8]| {
            Cell::put(
                row.clone(),
                Bytes::from_static(family),
                Bytes::from_static(QUALIFIER),
                version,
                value.clone(),
            )
        };
        let mutation = Mutation {
            cells: vec![cell(FIRST), cell(SECOND)],
            ..new_mutation(MutationKind::Put, row.clone())
        };
        let mut shared = locked(&self.shared);
        shared.model.begin_write(row, version, Some(value));
        (version, mutation)
    }

    fn next_version(&self) -> i64 {
        let mut shared = locked(&self.shared);
        shared.versions += 1;
        shared.versions
    }

    fn end_write(&self, row: &Bytes, version: i64, answer: Result<Row, Error>) {
        if self.told("write", row, answer).is_some() {
            self.env.note(format_args!("wrote {row:?} {version}"));
            locked(&self.shared).model.acknowledge_write(row, version);
        }
    }

    async fn put(&mut self) {
        let row = self.random_row();
        let (version, mutation) = self.begin_put(&row);
        let answer = self.client.mutate(&self.table, mutation).await;
        self.end_write(&row, version, answer);
    }

    async fn delete(&mut self) {
        let row = self.random_row();
        // A put that lands after a major compaction has dropped a later marker comes back, in HBase too.
        if locked(&self.shared).model.has_unknown_writes(&row) {
            return;
        }
        let version = self.next_version();
        locked(&self.shared).model.begin_write(&row, version, None);
        let mutation = Mutation {
            timestamp: version,
            ..new_mutation(MutationKind::Delete, row.clone())
        };
        let answer = self.client.mutate(&self.table, mutation).await;
        self.end_write(&row, version, answer);
    }

    /// What a row shows, to the model.
    fn end_read(&self, row: &Bytes, begun: Ticket, seen: &[Cell]) {
        let value = |family: &[u8]| {
            let mut cells = seen.iter();
            cells.find(|cell| cell.family == family).cloned()
        };
        let (first, second) = (value(FIRST), value(SECOND));
        let content = |cell: &Option<Cell>| cell.as_ref().map(|c| (c.timestamp, c.value.clone()));
        let mut shared = locked(&self.shared);
        if content(&first) != content(&second) {
            let what = format!("row {row:?} is torn: {first:?} and {second:?}");
            shared.violation.get_or_insert(what);
            return;
        }
        let verdict = shared
            .model
            .end_read(row, begun, first.as_ref().map(|cell| &cell.value[..]));
        shared.judge(verdict);
        drop(shared);
        let version = first.map(|cell| cell.timestamp);
        self.env.note(format_args!("read {row:?} {version:?}"));
    }

    async fn get(&mut self) {
        let row = self.random_row();
        self.get_row(&row).await;
    }

    async fn get_row(&self, row: &Bytes) -> bool {
        let begun = locked(&self.shared).model.begin_read(row);
        let answer = self.client.get(&self.table, &new_get(row.clone())).await;
        let answer = self.told("get", row, answer);
        if let Some(seen) = &answer {
            self.end_read(row, begun, &seen.cells);
        }
        answer.is_some()
    }

    async fn increment(&mut self) {
        let counter = counter_key(self.rng.random_range(0..COUNTERS));
        let begun = locked(&self.shared).model.begin_increment(&counter);
        let (family, qualifier) = (Bytes::from_static(FIRST), Bytes::from_static(QUALIFIER));
        let answer = self
            .client
            .increment(&self.table, counter.clone(), family, qualifier, 1)
            .await;
        if let Some(value) = self.told("increment", &counter, answer) {
            self.env
                .note(format_args!("incremented {counter:?} {value}"));
            let mut shared = locked(&self.shared);
            let verdict = shared.model.acknowledge_increment(&counter, begun, value);
            shared.judge(verdict);
        }
    }

    async fn get_counter(&mut self) {
        let counter = counter_key(self.rng.random_range(0..COUNTERS));
        self.read_counter(&counter).await;
    }

    async fn read_counter(&self, counter: &Bytes) -> bool {
        let (begun, stamp) = {
            let shared = locked(&self.shared);
            let stamp = shared.stamps.get(counter).copied();
            (shared.model.begin_counter_read(counter), stamp)
        };
        let answer = self
            .client
            .get(&self.table, &new_get(counter.clone()))
            .await;
        let Some(seen) = self.told("get", counter, answer) else {
            return false;
        };
        let cell = seen.cells.first();
        let value = cell.map_or(Some(0), |cell| {
            Some(i64::from_be_bytes(cell.value[..].try_into().ok()?))
        });
        let mut shared = locked(&self.shared);
        let Some(value) = value else {
            let what = format!("counter {counter:?} is no number: {cell:?}");
            shared.violation.get_or_insert(what);
            return true;
        };
        let verdict = shared.model.end_counter_read(counter, begun, value);
        shared.judge(verdict);
        let now = (value, cell.map_or(0, |cell| cell.timestamp));
        if let Some(before) = stamp
            && now.1 < before.1
        {
            let what = format!("counter {counter:?} goes back in time: {before:?}, then {now:?}");
            shared.violation.get_or_insert(what);
        }
        let latest = shared.stamps.entry(counter.clone()).or_insert(now);
        *latest = (*latest).max(now);
        drop(shared);
        self.env.note(format_args!("read {counter:?} {now:?}"));
        true
    }

    async fn batch(&mut self) {
        let mut actions = BTreeMap::new();
        for _ in 0..self.rng.random_range(1..=BATCH_MAX) {
            let row = self.random_row();
            if actions.contains_key(&row) {
                continue;
            }
            let planned = if self.rng.random_bool(0.6) {
                let (version, mutation) = self.begin_put(&row);
                (Begun::Write(version), Action::Mutate(mutation))
            } else {
                let ticket = locked(&self.shared).model.begin_read(&row);
                (Begun::Read(ticket), Action::Get(new_get(row.clone())))
            };
            actions.insert(row, planned);
        }
        let (rows, planned): (Vec<Bytes>, Vec<_>) = actions.into_iter().unzip();
        let (begun, actions): (Vec<Begun>, Vec<Action>) = planned.into_iter().unzip();
        let answers = self.client.batch(&self.table, actions).await;
        assert_eq!(answers.len(), rows.len(), "an answer for each action");
        for ((row, begun), answer) in rows.iter().zip(begun).zip(answers) {
            match begun {
                Begun::Write(version) => self.end_write(row, version, answer),
                Begun::Read(ticket) => {
                    if let Some(seen) = self.told("batch", row, answer) {
                        self.end_read(row, ticket, &seen.cells);
                    }
                }
            }
        }
    }

    async fn scan(&mut self) {
        let (from, to) = (
            self.rng.random_range(0..ROWS),
            self.rng.random_range(0..=ROWS),
        );
        let reversed = self.rng.random_bool(0.3);
        let caching = self.rng.random_range(1..20);
        self.scan_range(from.min(to), from.max(to), reversed, caching)
            .await;
    }

    /// Scans rows `from..to`: whole, in order, once, and none missing.
    async fn scan_range(&self, from: u32, to: u32, reversed: bool, caching: u32) -> bool {
        if from == to {
            return true;
        }
        let mut expected: BTreeMap<Bytes, Ticket> = {
            let shared = locked(&self.shared);
            let rows = (from..to).map(row_key);
            rows.map(|row| (row.clone(), shared.model.begin_read(&row)))
                .collect()
        };
        let (start, stop, include_start) = if reversed {
            (row_key(to), row_key(from), false)
        } else {
            (row_key(from), row_key(to), true)
        };
        let scan = Scan {
            start_row: start,
            include_start_row: include_start,
            stop_row: stop,
            include_stop_row: reversed,
            reversed,
            caching,
            ..new_scan()
        };
        let name = Bytes::from_static(b"scan");
        let scanner = self.client.scan(&self.table, scan);
        let Some(mut scanner) = self.told("scan", &name, scanner) else {
            return false;
        };
        let mut last: Option<Bytes> = None;
        loop {
            let next = scanner.next().await;
            let Some(next) = self.told("scan", &name, next) else {
                return false;
            };
            let Some(row) = next else { break };
            let Some(key) = row.key().cloned() else {
                continue;
            };
            let in_order = last
                .as_ref()
                .is_none_or(|last| if reversed { key < *last } else { key > *last });
            match expected.remove(&key) {
                Some(ticket) if in_order => self.end_read(&key, ticket, &row.cells),
                _ => {
                    let what = format!("a scan shows {key:?} after {last:?}, reversed: {reversed}");
                    locked(&self.shared).violation.get_or_insert(what);
                    return true;
                }
            }
            last = Some(key);
        }
        for (row, ticket) in expected {
            self.end_read(&row, ticket, &[]);
        }
        true
    }

    /// The judgement: every row and counter, by get and by scan.
    async fn read_everything(&self) {
        for number in 0..ROWS {
            let row = row_key(number);
            self.insist(async || self.get_row(&row).await).await;
        }
        for number in 0..COUNTERS {
            let counter = counter_key(number);
            self.insist(async || self.read_counter(&counter).await)
                .await;
        }
        self.insist(async || self.regions_tile().await).await;
        for reversed in [false, true] {
            self.insist(async || self.scan_range(0, ROWS, reversed, 7).await)
                .await;
        }
    }

    /// Whether the regions of the table cover every key once.
    async fn regions_tile(&self) -> bool {
        let name = Bytes::from_static(b"regions");
        let regions = self.client.admin().table_regions(&self.table).await;
        let Some(regions) = self.told("regions", &name, regions) else {
            return false;
        };
        let mut next = Some(Bytes::new());
        let in_order = regions.iter().all(|location| {
            let region = &location.region;
            let follows = next.as_ref() == Some(&region.start_key);
            next = (!region.end_key.is_empty()).then(|| region.end_key.clone());
            follows
        });
        if in_order && next.is_none() {
            return true;
        }
        let shown: Vec<_> = regions.iter().map(|at| at.region.clone()).collect();
        locked(&self.shared).last_error = Some(format!("the regions do not tile: {shown:?}"));
        // A change of unknown outcome may still be going on.
        self.env.clock().sleep(FINAL_PAUSE).await;
        false
    }

    async fn insist(&self, read: impl AsyncFn() -> bool) {
        for _ in 0..FINAL_TRIES {
            if read().await {
                return;
            }
        }
        let mut shared = locked(&self.shared);
        let what = format!("not readable at the end: {:?}", shared.last_error);
        shared.violation.get_or_insert(what);
    }
}

/// What the model gave when an action of a batch began.
enum Begun {
    Write(i64),
    Read(Ticket),
}
