//! Regions: open, close, checkpoint, clone, and what idle ones cost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Env, RealEnv};
use cadastre_store::{RegionSpec, Store, WalSync};
use cadastre_types::{Durability, RegionInfo, TableName};
use slatedb::admin::AdminBuilder;
use slatedb::config::CheckpointOptions;

use crate::common::local;
use crate::meter::{Meter, cpu, head};
use crate::rows::{Shape, key};
use crate::{ROWS, load, put, store, table};

/// How often a step is repeated that takes milliseconds. Not oftener: nothing collects old manifests here, and each step reads their list.
const STEPS: u32 = 5;

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

pub(crate) async fn idle(env: RealEnv, dir: PathBuf, count: u32) {
    let store = store(&env, &dir, WalSync::Write).await;
    head(&format!("{count} regions, each with 10 kB"));
    let before = resident_mib();
    let tasks_before = tasks(&env).await;
    let mut regions = Vec::new();
    let mut meter = Meter::start();
    for n in 0..count {
        let opening = store.open_region(region_of(n));
        regions.push(meter.step(opening).await.unwrap());
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
        meter.step(region.flush()).await.unwrap();
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
        meter.step(region.close()).await.unwrap();
    }
    meter.print("close", 1);
    drop(regions);
    let mut meter = Meter::start();
    for n in 0..count {
        meter.step(store.open_region(region_of(n))).await.unwrap();
    }
    meter.print("open again", 1);
    println!(
        "\nIdle: {:.2} ms of processor a second, {memory} MiB and {tasks} tasks more, {files} file descriptors.",
        idle.as_secs_f64() * 100.0
    );
    store.close().await.unwrap();
}

/// Steps in the life of a region.
pub(crate) async fn steps(env: RealEnv, dir: PathBuf) {
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
