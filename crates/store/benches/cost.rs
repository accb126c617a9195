//! What the store costs: processor time of the whole process per operation and latencies, in the units of facts/storage-engine.md, for one
//! region on a local disk. Not criterion: what counts is the processor time of serving core, log and background together.
//!
//! ```text
//! cargo bench -p cadastre-store --bench cost -- [FILTER]       every group whose name contains FILTER; a Markdown table
//! COST_DIR=/mnt/disk  where the data goes (default: the system's temporary folder)
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench is a tool of the workbench: it measures real time, prints, and ends at the first failure"
)]

#[path = "../tests/store/common.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cadastre_env::{Env, RealEnv};
use cadastre_store::{Region, RegionSpec, RowRange, Store, StoreConfig, WalSync};
use cadastre_types::{
    Cell, Durability, FamilyDescriptor, Query, RegionInfo, TableDescriptor, TableName,
};
use common::{bytes, deadline, descriptor, env, local, spec};
use rustix::time::{ClockId, clock_gettime};
use slatedb::admin::AdminBuilder;
use slatedb::config::CheckpointOptions;

/// As in the server (facts/storage-engine.md, section 3).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows of a table that fits in memory: 100 MB.
const ROWS: u32 = 100_000;

/// Rows of the table that is flushed while it is read: 128 MB.
const FLUSHED_ROWS: u32 = 128 * 1024;

/// How often a step is repeated that takes milliseconds.
const STEPS: u32 = 50;

/// How long one line is measured.
const LINE: Duration = Duration::from_secs(2);

/// One table's rows.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    OneByOneKb,
    TenBy100B,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::OneByOneKb => "1 × 1 kB",
            Self::TenBy100B => "10 × 100 B",
        }
    }

    fn cells(self, row: &Bytes, timestamp: i64) -> Vec<Cell> {
        let (columns, len) = match self {
            Self::OneByOneKb => (1, 1000),
            Self::TenBy100B => (10, 100),
        };
        // Not compressible, and not equal from row to row.
        let mut state = crc(row) | 1;
        let mut value = Vec::with_capacity(len);
        while value.len() < len {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            value.extend_from_slice(&state.to_le_bytes());
        }
        value.truncate(len);
        let value = Bytes::from(value);
        (0..columns)
            .map(|column| {
                Cell::put(
                    row.clone(),
                    bytes("f"),
                    bytes(&format!("q{column}")),
                    timestamp,
                    value.clone(),
                )
            })
            .collect()
    }
}

fn crc(row: &[u8]) -> u64 {
    row.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn key(n: u32) -> Bytes {
    bytes(&format!("row{n:012}"))
}

/// A number below `of`, different each time.
fn some(state: &mut u64, of: u32) -> u32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    u32::try_from((*state >> 33) % u64::from(of)).unwrap()
}

/// Processor time of the process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Measures operations, each of which may count for several.
struct Meter {
    begun: Instant,
    cpu: Duration,
    latencies: Vec<Duration>,
    /// Processor and real time of the steps alone, where something else goes on between them.
    steps: Option<(Duration, Duration)>,
}

impl Meter {
    fn start() -> Self {
        Self {
            begun: Instant::now(),
            cpu: cpu(),
            latencies: Vec::new(),
            steps: None,
        }
    }

    /// Measures one step; what goes on between steps is not counted.
    async fn step<T>(&mut self, work: impl Future<Output = T>) -> T {
        let (begun, spent) = (Instant::now(), cpu());
        let done = work.await;
        self.lap(begun);
        let (all_spent, all_wall) = self.steps.get_or_insert_default();
        *all_spent += cpu() - spent;
        *all_wall += begun.elapsed();
        done
    }

    fn goes_on(&self) -> bool {
        self.begun.elapsed() < LINE
    }

    fn lap(&mut self, since: Instant) {
        self.latencies.push(since.elapsed());
    }

    /// Prints the line: processor time per `each` of an operation's `units`.
    fn print(mut self, what: &str, units: u32) {
        let whole = (cpu() - self.cpu, self.begun.elapsed());
        let (spent, wall) = self.steps.unwrap_or(whole);
        let operations = u32::try_from(self.latencies.len()).unwrap().max(1);
        self.latencies.sort_unstable();
        let at = |part: f64| {
            let index = ((self.latencies.len() as f64 * part) as usize)
                .min(self.latencies.len().saturating_sub(1));
            self.latencies.get(index).copied().unwrap_or_default()
        };
        println!(
            "| {what} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} |",
            micros(spent) / f64::from(operations) / f64::from(units),
            micros(wall) / f64::from(operations) / f64::from(units),
            micros(at(0.5)),
            micros(at(0.99)),
            f64::from(operations) * f64::from(units) / wall.as_secs_f64(),
        );
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn head(title: &str) {
    println!("\n### {title}\n");
    println!("| what | CPU µs/unit | wall µs/unit | p50 µs/op | p99 µs/op | units/s |");
    println!("| --- | --- | --- | --- | --- | --- |");
}

fn config(sync: WalSync) -> StoreConfig {
    StoreConfig {
        wal_sync: sync,
        low_space_bytes: 0,
        ..StoreConfig::new(1 << 30)
    }
}

/// Gets that find their block in the block cache, as those of a table whose rows do not fit in the row cache.
async fn block_gets(env: &RealEnv, dir: &Path) {
    let config = StoreConfig {
        row_cache_bytes: 0,
        ..config(WalSync::Write)
    };
    let store = Store::open(env.clone(), local(dir), config).await.unwrap();
    let region = store.open_region(spec(&table())).await.unwrap();
    gets(&region, "get, its block cached", true).await;
    store.close().await.unwrap();
}

async fn store(env: &RealEnv, dir: &Path, sync: WalSync) -> Store<RealEnv> {
    Store::open(env.clone(), local(dir), config(sync))
        .await
        .unwrap()
}

fn table() -> Arc<TableDescriptor> {
    descriptor(vec![FamilyDescriptor::new("f").with("VERSIONS", "1")])
}

async fn put(env: &RealEnv, region: &Region<RealEnv>, cells: Vec<Cell>, how: Durability) {
    let rows = cells.iter().map(|cell| cell.row.clone()).collect();
    let locks = region.lock_rows(rows, deadline(env)).await.unwrap();
    locks.write(cells, &[], how).await.unwrap();
}

async fn load(env: &RealEnv, region: &Region<RealEnv>, rows: u32, shape: Shape) {
    for from in (0..rows).step_by(100) {
        let cells = (from..(from + 100).min(rows)).flat_map(|n| shape.cells(&key(n), 1));
        put(env, region, cells.collect(), Durability::SyncWal).await;
    }
}

async fn gets(region: &Region<RealEnv>, what: &str, cache: bool) {
    let query = Query {
        cache_blocks: cache,
        ..Query::default()
    };
    let mut state = 1;
    if cache {
        // Warm.
        for n in 0..ROWS {
            region.get(&key(n), &query).await.unwrap();
        }
    }
    let mut meter = Meter::start();
    while meter.goes_on() {
        let row = key(some(&mut state, ROWS));
        let since = Instant::now();
        assert!(!region.get(&row, &query).await.unwrap().is_empty());
        meter.lap(since);
    }
    meter.print(what, 1);
}

async fn multi_gets(region: &Region<RealEnv>) {
    let mut state = 1;
    let mut meter = Meter::start();
    while meter.goes_on() {
        let rows: Vec<Bytes> = (0..20).map(|_| key(some(&mut state, ROWS))).collect();
        let since = Instant::now();
        for row in &rows {
            region.get(row, &Query::default()).await.unwrap();
        }
        meter.lap(since);
    }
    meter.print("multi-get of 20 cached rows, a row", 20);
}

async fn scans(region: &Region<RealEnv>, rows: u32) {
    let mut state = 1;
    let mut meter = Meter::start();
    while meter.goes_on() {
        let range = RowRange {
            start: key(some(&mut state, ROWS - 200)),
            ..RowRange::all()
        };
        let since = Instant::now();
        let at = region.read_point().await.unwrap();
        let mut scanner = region
            .scan(range, false, Query::default(), at)
            .await
            .unwrap();
        for _ in 0..rows {
            scanner.next_row().await.unwrap().unwrap();
        }
        meter.lap(since);
    }
    meter.print(&format!("scan of {rows} rows, a scan"), 1);
}

async fn full_scan(region: &Region<RealEnv>) {
    let query = Query {
        cache_blocks: false,
        ..Query::default()
    };
    let mut meter = Meter::start();
    let at = region.read_point().await.unwrap();
    let mut scanner = region
        .scan(RowRange::all(), false, query, at)
        .await
        .unwrap();
    let mut since = Instant::now();
    while scanner.next_row().await.unwrap().is_some() {
        meter.lap(since);
        since = Instant::now();
    }
    meter.print("full scan, a row", 1);
}

async fn reads(env: RealEnv, dir: std::path::PathBuf, shape: Shape) {
    let store = store(&env, &dir, WalSync::Write).await;
    let region = store.open_region(spec(&table())).await.unwrap();
    load(&env, &region, ROWS, shape).await;
    region.flush().await.unwrap();
    region.compact(true).await.unwrap();
    head(&format!(
        "Reads: {ROWS} rows of {}, one sorted run",
        shape.name()
    ));
    gets(&region, "get, nothing cached (page cache)", false).await;
    gets(&region, "get, in the row cache", true).await;
    multi_gets(&region).await;
    scans(&region, 1).await;
    scans(&region, 100).await;
    full_scan(&region).await;
    store.close().await.unwrap();
    block_gets(&env, &dir).await;
}

async fn puts(env: RealEnv, dir: std::path::PathBuf, sync: WalSync) {
    let store = store(&env, &dir, sync).await;
    let region = store.open_region(spec(&table())).await.unwrap();
    head(&format!("Writes of 1 kB rows, --wal-sync {sync:?}"));
    let modes = [
        Durability::SyncWal,
        Durability::FsyncWal,
        Durability::AsyncWal,
        Durability::SkipWal,
    ];
    let mut n = 0;
    for how in modes {
        for batch in [1, 10, 100] {
            let mut meter = Meter::start();
            while meter.goes_on() {
                let cells: Vec<Cell> = (n..n + batch)
                    .flat_map(|n| Shape::OneByOneKb.cells(&key(n), 1))
                    .collect();
                n += batch;
                let since = Instant::now();
                put(&env, &region, cells, how).await;
                meter.lap(since);
            }
            meter.print(&format!("{how:?}, {batch} rows a batch, a row"), batch);
        }
    }
    increments(&env, &region).await;
    store.close().await.unwrap();
}

async fn increments(env: &RealEnv, region: &Region<RealEnv>) {
    let mut meter = Meter::start();
    let mut value = 0;
    while meter.goes_on() {
        let since = Instant::now();
        let locks = region
            .lock_rows([bytes("counter")].into(), deadline(env))
            .await
            .unwrap();
        locks.read(b"counter", &Query::default()).await.unwrap();
        value += 1;
        let at = locks.timestamp(b"counter");
        let cell = Cell::put(
            bytes("counter"),
            bytes("f"),
            bytes("n"),
            at,
            Bytes::copy_from_slice(&i64::to_be_bytes(value)),
        );
        locks
            .write(vec![cell], &[], Durability::SyncWal)
            .await
            .unwrap();
        meter.lap(since);
    }
    meter.print("increment of one hot cell", 1);
}

async fn wide(env: RealEnv, dir: std::path::PathBuf) {
    let store = store(&env, &dir, WalSync::Write).await;
    let region = store.open_region(spec(&table())).await.unwrap();
    head("One row of 100,000 columns of 100 B");
    let column = |n: u32| {
        let value = Bytes::from(vec![7; 100]);
        Cell::put(
            bytes("wide"),
            bytes("f"),
            bytes(&format!("q{n:06}")),
            1,
            value,
        )
    };
    for from in (0..100_000).step_by(1000) {
        let cells = (from..from + 1000).map(column).collect();
        put(&env, &region, cells, Durability::SyncWal).await;
    }
    region.flush().await.unwrap();
    let mut state = 1;
    let mut meter = Meter::start();
    while meter.goes_on() {
        let qualifier = bytes(&format!("q{:06}", some(&mut state, 100_000)));
        let query = Query {
            columns: [(
                bytes("f"),
                cadastre_types::Qualifiers::These([qualifier].into()),
            )]
            .into(),
            ..Query::default()
        };
        let since = Instant::now();
        assert_eq!(region.get(b"wide", &query).await.unwrap().len(), 1);
        meter.lap(since);
    }
    meter.print("get of one column", 1);
    let mut meter = Meter::start();
    while meter.goes_on() {
        let since = Instant::now();
        let cells = vec![column(some(&mut state, 100_000))];
        put(&env, &region, cells, Durability::SyncWal).await;
        meter.lap(since);
    }
    meter.print("put of one column", 1);
    let mut meter = Meter::start();
    let since = Instant::now();
    let all = region.get(b"wide", &Query::default()).await.unwrap();
    meter.lap(since);
    meter.print(
        "get of the whole row, a column",
        u32::try_from(all.len()).unwrap(),
    );
    store.close().await.unwrap();
}

/// Gets of cached rows while something runs in the background.
async fn gets_meanwhile(region: &Region<RealEnv>, what: &str, work: impl Future<Output = ()>) {
    let mut state = 1;
    let mut meter = Meter::start();
    tokio::pin!(work);
    loop {
        let row = key(some(&mut state, FLUSHED_ROWS));
        let since = Instant::now();
        region.get(&row, &Query::default()).await.unwrap();
        meter.lap(since);
        tokio::select! {
            biased;
            () = &mut work => break,
            () = tokio::task::yield_now() => {}
        }
    }
    meter.print(what, 1);
}

async fn background(env: RealEnv, dir: std::path::PathBuf) {
    let mut config = config(WalSync::Write);
    config.memtable_bytes = 1 << 30;
    config.unflushed_bytes = 2 << 30;
    let store = Store::open(env.clone(), local(&dir), config).await.unwrap();
    let region = store.open_region(spec(&table())).await.unwrap();
    head("Flush and compaction, and gets meanwhile");
    load(&env, &region, FLUSHED_ROWS, Shape::OneByOneKb).await;
    gets_meanwhile(&region, "a get during the flush of 128 MB", async {
        region.flush().await.unwrap();
    })
    .await;
    for what in ["flush, a MB", "compaction of two files, a MB"] {
        load(&env, &region, FLUSHED_ROWS, Shape::OneByOneKb).await;
        let mut meter = Meter::start();
        let since = Instant::now();
        if what.starts_with("flush") {
            region.flush().await.unwrap();
            meter.lap(since);
            meter.print(what, 128);
        } else {
            region.flush().await.unwrap();
            let mut meter = Meter::start();
            let since = Instant::now();
            region.compact(true).await.unwrap();
            meter.lap(since);
            meter.print(what, 128 * 3);
        }
    }
    load(&env, &region, FLUSHED_ROWS, Shape::OneByOneKb).await;
    region.flush().await.unwrap();
    gets_meanwhile(&region, "a get during a compaction of 256 MB", async {
        region.compact(true).await.unwrap();
    })
    .await;
    store.close().await.unwrap();
}

fn region_of(n: u32) -> RegionSpec {
    let (start, end) = (key(n), key(n + 1));
    RegionSpec {
        info: RegionInfo::new(TableName::parse("t").unwrap(), start, end, 1),
        descriptor: table(),
        expected_epoch: None,
    }
}

fn resident_mib() -> i64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: i64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096 / (1 << 20)
}

/// Tasks of tokio that are alive: the background's and the first core's.
async fn tasks(env: &RealEnv) -> usize {
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let background = env.background("tasks", async move { alive() }).await;
    background.unwrap() + alive()
}

async fn idle(env: RealEnv, dir: std::path::PathBuf, count: u32) {
    let store = store(&env, &dir, WalSync::Write).await;
    head(&format!("{count} regions, each with 10 kB"));
    let before = resident_mib();
    let tasks_before = tasks(&env).await;
    let mut regions = Vec::new();
    let mut meter = Meter::start();
    for n in 0..count {
        let since = Instant::now();
        regions.push(store.open_region(region_of(n)).await.unwrap());
        meter.lap(since);
    }
    meter.print("open of a new region", 1);
    for (n, region) in regions.iter().enumerate() {
        let row = key(u32::try_from(n).unwrap());
        for column in 0..10 {
            let cell = Shape::OneByOneKb.cells(&row, column);
            put(&env, region, cell, Durability::SyncWal).await;
        }
    }
    let mut meter = Meter::start();
    for region in &regions {
        let since = Instant::now();
        region.flush().await.unwrap();
        meter.lap(since);
    }
    meter.print("flush of 10 kB", 1);
    let spent = cpu();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let idle = cpu() - spent;
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let memory = resident_mib() - before;
    let tasks = tasks(&env).await - tasks_before;
    let mut meter = Meter::start();
    for region in &regions {
        let since = Instant::now();
        region.close().await.unwrap();
        meter.lap(since);
    }
    meter.print("close", 1);
    drop(regions);
    let mut meter = Meter::start();
    for n in 0..count {
        let since = Instant::now();
        store.open_region(region_of(n)).await.unwrap();
        meter.lap(since);
    }
    meter.print("open again", 1);
    println!(
        "\nIdle: {:.2} ms of processor a second, {memory} MiB and {tasks} tasks more, {files} file descriptors.",
        idle.as_secs_f64() * 100.0
    );
    store.close().await.unwrap();
}

/// Steps in the life of a region.
async fn steps(env: RealEnv, dir: std::path::PathBuf) {
    let store = store(&env, &dir, WalSync::Write).await;
    let whole = RegionInfo::new(
        TableName::parse("t").unwrap(),
        Bytes::new(),
        Bytes::new(),
        1,
    );
    let of = |info: &RegionInfo| RegionSpec {
        info: info.clone(),
        descriptor: table(),
        expected_epoch: None,
    };
    let region = store.open_region(of(&whole)).await.unwrap();
    load(&env, &region, ROWS, Shape::OneByOneKb).await;
    region.flush().await.unwrap();
    region.compact(true).await.unwrap();
    region.close().await.unwrap();
    head("Open, close, checkpoint and clone of a region of 100 MB");
    let (mut open, mut close) = (Meter::start(), Meter::start());
    for _ in 0..STEPS {
        let region = open.step(store.open_region(of(&whole))).await.unwrap();
        close.step(region.close()).await.unwrap();
    }
    open.print("open", 1);
    close.print("close with nothing to flush", 1);
    let mut close = Meter::start();
    for n in 0..STEPS {
        let region = store.open_region(of(&whole)).await.unwrap();
        for row in 0..1000 {
            let cells = Shape::OneByOneKb.cells(&key(row), i64::from(n) + 2);
            put(&env, &region, cells, Durability::SyncWal).await;
        }
        close.step(region.close()).await.unwrap();
    }
    close.print("close with 1 MB to flush", 1);
    checkpoints(&dir, &whole).await;
    clones(&store, &whole).await;
    store.close().await.unwrap();
}

/// SlateDB's checkpoints of a closed region: what a clone makes of its source.
async fn checkpoints(dir: &Path, info: &RegionInfo) {
    let path = format!("data/default/t/{}", info.encoded_name());
    let options = CheckpointOptions {
        lifetime: Some(Duration::from_secs(1)),
        ..CheckpointOptions::default()
    };
    let admin = AdminBuilder::new(path, local(dir)).build();
    let mut meter = Meter::start();
    for _ in 0..STEPS {
        let making = admin.create_detached_checkpoint(&options);
        meter.step(making).await.unwrap();
    }
    meter.print("checkpoint", 1);
}

/// Two clones of half the keys each, and their taking back, which is not counted.
async fn clones(store: &Store<RealEnv>, parent: &RegionInfo) {
    let middle = key(ROWS / 2);
    let half = |start: Bytes, end: Bytes| RegionInfo::new(parent.table.clone(), start, end, 2);
    let halves = [
        half(Bytes::new(), middle.clone()),
        half(middle, Bytes::new()),
    ];
    let sources = std::slice::from_ref(parent);
    let mut meter = Meter::start();
    for _ in 0..STEPS {
        let cloning = store.clone_regions(sources, &halves);
        meter.step(cloning).await.unwrap();
        store.discard_clones(sources, &halves).await.unwrap();
    }
    meter.print("split into two clones, a clone", 2);
}

fn group<F: Future<Output = ()> + Send + 'static>(
    name: &str,
    work: impl FnOnce(RealEnv, std::path::PathBuf) -> F,
) {
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    if wanted.is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let root = std::env::var_os("COST_DIR").map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(root).unwrap();
    let env = env(dir.path());
    env.block_on(work(env.clone(), dir.path().to_owned()))
        .expect("the group ended before its end");
    env.shutdown();
}

fn main() {
    for shape in [Shape::OneByOneKb, Shape::TenBy100B] {
        group("reads", move |env, dir| reads(env, dir, shape));
    }
    for sync in [WalSync::Write, WalSync::Fdatasync] {
        group("puts", move |env, dir| puts(env, dir, sync));
    }
    group("wide", wide);
    group("background", background);
    group("steps", steps);
    for count in [500, 2000] {
        group("idle", move |env, dir| idle(env, dir, count));
    }
}
