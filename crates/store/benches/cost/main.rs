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

mod alone;
mod background;
#[path = "../../tests/store/common.rs"]
mod common;
mod meter;
mod reads;
mod regions;
mod rows;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cadastre_env::RealEnv;
use cadastre_store::{Region, Store, StoreConfig, WalSync};
use cadastre_types::{Cell, Durability, FamilyDescriptor, TableDescriptor};

use common::{deadline, descriptor, env, local};
use rows::{Shape, key};

/// As in the server (facts/storage-engine.md, section 3).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows of a table that fits in memory: 100 MB.
const ROWS: u32 = 100_000;

fn config(sync: WalSync) -> StoreConfig {
    StoreConfig {
        wal_sync: sync,
        low_space_bytes: 0,
        ..StoreConfig::new(1 << 30)
    }
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

fn group<F: Future<Output = ()> + Send + 'static>(
    name: &str,
    work: impl FnOnce(RealEnv, PathBuf) -> F,
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
        group("reads", move |env, dir| reads::reads(env, dir, shape));
    }
    for sync in [WalSync::Write, WalSync::Fdatasync] {
        group("puts", move |env, dir| writes::puts(env, dir, sync));
    }
    group("puts alone", alone::puts);
    group("wide", writes::wide);
    group("background", background::background);
    group("steps", regions::steps);
    for count in [500, 2000] {
        // By itself, memory can be told: "idle 500".
        group(&format!("idle {count}"), move |env, dir| {
            regions::idle(env, dir, count)
        });
    }
}
