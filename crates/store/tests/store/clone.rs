//! Regions split and merged: nothing lost, nothing double, whatever was in files, memory and log, over crashes, cuts in the middle of
//! the work, compactions, and the end of the regions that lent their files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::fault_store::{FaultStore, When};
use crate::scenarios::{run_on, small};
use bytes::Bytes;
use cadastre_env::{Clock, Env};
use cadastre_store::{Region, RegionSpec, RowRange, Store, StoreConfig};
use cadastre_types::{
    CellType, Code, Durability, FamilyDescriptor, RegionInfo, TableDescriptor, TableName,
};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn table() -> Arc<TableDescriptor> {
    descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")])
}

fn region(start: &str, end: &str, id: u64) -> RegionInfo {
    let table = TableName::parse("t").unwrap();
    RegionInfo::new(table, bytes(start), bytes(end), id)
}

fn spec_of(info: &RegionInfo) -> RegionSpec {
    RegionSpec {
        info: info.clone(),
        descriptor: table(),
        expected_epoch: None,
    }
}

async fn opened(store: &Store<FaultEnv>, info: &RegionInfo) -> Region<FaultEnv> {
    store.open_region(spec_of(info)).await.unwrap()
}

/// What rows must hold: the value of `f:q`, and the nonces that were used on them.
#[derive(Debug, Clone, Default)]
struct Model {
    values: BTreeMap<String, String>,
    nonces: BTreeMap<String, Vec<u64>>,
    stamps: BTreeMap<String, i64>,
    next: u64,
}

impl Model {
    async fn write(&mut self, env: &FaultEnv, region: &Region<FaultEnv>, row: &str) {
        self.next += 1;
        let n = self.next;
        let locks = region
            .lock_rows([bytes(row)].into(), deadline(env))
            .await
            .unwrap();
        let stamp = locks.timestamp(row.as_bytes());
        let last = self.stamps.insert(row.to_owned(), stamp);
        assert!(last.is_none_or(|last| stamp > last), "{row} goes back (C8)");
        // A value that grows makes the families wide now and then.
        let value = format!("{n}{}", "x".repeat((n % 13 * 40) as usize));
        let cells = vec![
            put(row, "f", "q", stamp, &value),
            put(row, "g", &format!("q{}", n % 50), stamp, "other"),
        ];
        let nonces = [(bytes(row), 7, n)];
        locks
            .write(cells, &nonces, Durability::SyncWal)
            .await
            .unwrap();
        self.values.insert(row.to_owned(), value);
        self.nonces.entry(row.to_owned()).or_default().push(n);
    }

    async fn delete(&mut self, env: &FaultEnv, region: &Region<FaultEnv>, row: &str) {
        let locks = region
            .lock_rows([bytes(row)].into(), deadline(env))
            .await
            .unwrap();
        let stamp = locks.timestamp(row.as_bytes());
        self.stamps.insert(row.to_owned(), stamp);
        let cells = ["f", "g"].map(|f| marker(row, f, "", stamp, CellType::DeleteFamily));
        locks
            .write(cells.to_vec(), &[], Durability::SyncWal)
            .await
            .unwrap();
        self.values.remove(row);
    }

    /// Each row is in exactly the region that has its key, with its newest value, and its last nonces are known there.
    async fn check(&self, env: &FaultEnv, regions: &[Region<FaultEnv>]) {
        let mut seen = BTreeMap::new();
        for region in regions {
            for (row, cells) in scan(region, RowRange::all(), false, &versions(1)).await {
                assert!(region.info().contains(row.as_bytes()), "{row}");
                let value = cells[0].rsplit('=').next().unwrap().to_owned();
                assert!(cells[0].starts_with("f:q@"), "{row}: {cells:?}");
                assert!(seen.insert(row.clone(), value).is_none(), "{row} twice");
            }
            for (row, nonces) in &self.nonces {
                if !region.info().contains(row.as_bytes()) {
                    continue;
                }
                let locks = region
                    .lock_rows([bytes(row)].into(), deadline(env))
                    .await
                    .unwrap();
                for nonce in nonces.iter().rev().take(2) {
                    let known = locks.nonce(row.as_bytes(), 7, *nonce).await.unwrap();
                    assert!(known, "nonce {nonce} of {row} (C7)");
                }
            }
        }
        assert_eq!(seen, self.values);
    }
}

fn row(n: u32) -> String {
    format!("r{n:03}")
}

const ROWS: u32 = 120;

/// What lasts between two processes.
struct Lasting {
    model: Model,
    infos: Vec<RegionInfo>,
    /// Regions that were replaced and whose data is still there.
    old: Vec<RegionInfo>,
    next_id: u64,
}

struct History {
    env: FaultEnv,
    store: Store<FaultEnv>,
    random: StdRng,
    lasting: Lasting,
    regions: Vec<Region<FaultEnv>>,
}

impl History {
    async fn begin(
        env: FaultEnv,
        objects: Arc<dyn ObjectStore>,
        lasting: Lasting,
        seed: u64,
    ) -> Self {
        let store = Store::open(env.clone(), objects, small()).await.unwrap();
        let mut regions = Vec::new();
        for info in &lasting.infos {
            regions.push(opened(&store, info).await);
        }
        Self {
            env,
            store,
            random: StdRng::seed_from_u64(seed),
            lasting,
            regions,
        }
    }

    fn index_of(&self, row: &str) -> usize {
        let of = |region: &Region<FaultEnv>| region.info().contains(row.as_bytes());
        self.regions.iter().position(of).unwrap()
    }

    /// Closes some regions, makes others of them, opens those.
    async fn replace(&mut self, from: usize, count: usize, targets: Vec<RegionInfo>) {
        let gone: Vec<Region<FaultEnv>> = self.regions.drain(from..from + count).collect();
        let sources: Vec<RegionInfo> = gone.iter().map(|region| region.info().clone()).collect();
        let refused = self.store.clone_regions(&sources, &targets).await;
        assert_eq!(refused.unwrap_err().code(), Code::RegionState, "still open");
        for region in &gone {
            region.close().await.unwrap();
        }
        self.store.clone_regions(&sources, &targets).await.unwrap();
        let epoch = self.store.region_epoch(&targets[0]).await.unwrap();
        for source in &sources {
            let refused = self.store.open_region(spec_of(source)).await;
            assert_eq!(refused.err().unwrap().code(), Code::RegionState, "C20");
        }
        self.lasting.old.extend(sources);
        for (at, target) in targets.iter().enumerate() {
            let spec = RegionSpec {
                expected_epoch: Some(epoch),
                ..spec_of(target)
            };
            let region = self.store.open_region(spec).await.unwrap();
            self.regions.insert(from + at, region);
        }
        self.lasting.infos = self.regions.iter().map(|r| r.info().clone()).collect();
    }

    async fn split(&mut self) {
        let at = row(self.random.random_range(1..ROWS));
        let index = self.index_of(&at);
        let info = self.regions[index].info().clone();
        if info.start_key == at || self.regions.len() >= 6 {
            return;
        }
        self.lasting.next_id += 1;
        let half = |start: Bytes, end: Bytes| RegionInfo {
            start_key: start,
            end_key: end,
            region_id: self.lasting.next_id,
            ..info.clone()
        };
        let halves = vec![
            half(info.start_key.clone(), bytes(&at)),
            half(bytes(&at), info.end_key.clone()),
        ];
        self.replace(index, 1, halves).await;
    }

    async fn merge(&mut self) {
        let count = self.random.random_range(2..=3);
        if self.regions.len() < count {
            return;
        }
        let from = self.random.random_range(0..=self.regions.len() - count);
        self.lasting.next_id += 1;
        let whole = RegionInfo {
            end_key: self.regions[from + count - 1].info().end_key.clone(),
            region_id: self.lasting.next_id,
            ..self.regions[from].info().clone()
        };
        self.replace(from, count, vec![whole]).await;
    }

    async fn step(&mut self) {
        let name = row(self.random.random_range(0..ROWS));
        let index = self.index_of(&name);
        match self.random.random_range(0..100) {
            0..70 => {
                let region = self.regions[index].clone();
                self.lasting.model.write(&self.env, &region, &name).await;
            }
            70..80 => {
                let region = self.regions[index].clone();
                self.lasting.model.delete(&self.env, &region, &name).await;
            }
            80..85 => self.regions[index].flush().await.unwrap(),
            85..88 => self.regions[index].compact(true).await.unwrap(),
            88..94 => self.split().await,
            _ => self.merge().await,
        }
    }

    /// Deletes the regions that nobody reads from any more.
    async fn forget(&mut self) {
        let mut lent = BTreeSet::new();
        for info in &self.lasting.infos {
            lent.extend(self.store.borrowed_by(info).await.unwrap());
        }
        let old = std::mem::take(&mut self.lasting.old);
        for info in old {
            if lent.contains(&info.encoded_name()) {
                self.lasting.old.push(info);
            } else {
                self.store.delete_region(&info).await.unwrap();
            }
        }
    }
}

#[test]
fn rows_stay_whole_over_splits_merges_and_crashes() {
    for seed in 0..8 {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let mut disk = FaultDisk::default();
        let mut lasting = Lasting {
            model: Model::default(),
            infos: vec![region("", "", 1)],
            old: Vec::new(),
            next_id: 1,
        };
        for life in 0..4 {
            let objects = Arc::clone(&objects);
            let cores = 1 + life as usize % 2;
            lasting = run_on(cores, disk.clone(), move |env| async move {
                let mut history = History::begin(env, objects, lasting, seed * 100 + life).await;
                for _ in 0..120 {
                    history.step().await;
                }
                history
                    .lasting
                    .model
                    .check(&history.env, &history.regions)
                    .await;
                history.forget().await;
                if life % 2 == 0 {
                    history.store.close().await.unwrap();
                }
                history.lasting
            });
            disk = disk.process_ended();
        }
    }
}

/// Files small enough that a few hundred rows have several blocks.
async fn fill(env: &FaultEnv, region: &Region<FaultEnv>, model: &mut Model) {
    for n in 0..ROWS {
        for _ in 0..4 {
            model.write(env, region, &row(n)).await;
        }
    }
}

fn halves(at: &Bytes) -> [RegionInfo; 2] {
    let at = String::from_utf8(at.to_vec()).unwrap();
    [region("", &at, 2), region(&at, "", 2)]
}

#[test]
fn a_region_gives_up_its_sources_once_its_files_are_its_own() {
    run_on(1, FaultDisk::default(), move |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let config = StoreConfig {
            checkpoint_lifetime_ms: 300,
            garbage_min_age_ms: 300,
            ..small()
        };
        let store = Store::open(env.clone(), Arc::clone(&objects), config)
            .await
            .unwrap();
        let parent = opened(&store, &region("", "", 1)).await;
        let mut model = Model::default();
        assert_eq!(parent.split_row().await.unwrap(), None, "it is empty");
        model.write(&env, &parent, &row(3)).await;
        assert_eq!(parent.split_row().await.unwrap(), None, "too small");
        fill(&env, &parent, &mut model).await;
        parent.compact(true).await.unwrap();
        let at = parent.split_row().await.unwrap().unwrap();
        assert!(at > row(ROWS / 4).as_bytes() && at < row(ROWS * 3 / 4).as_bytes());
        let whole = parent.load();
        let raw = parent.raw_file_bytes().await.unwrap();
        store.switch_compactions(false);
        parent.close().await.unwrap();
        let [lower, upper] = halves(&at);
        let sources = [parent.info().clone()];
        store
            .clone_regions(&sources, &[lower.clone(), upper.clone()])
            .await
            .unwrap();
        let regions = [opened(&store, &lower).await, opened(&store, &upper).await];
        model.check(&env, &regions).await;
        // One block lies in both halves.
        let sum: u64 = regions.iter().map(|r| r.load().store_file_bytes).sum();
        assert!(sum >= whole.store_file_bytes * 9 / 10, "{sum} {whole:?}");
        assert!(sum <= whole.store_file_bytes * 3 / 2, "{sum} {whole:?}");
        let mut raw_sum = 0;
        for region in &regions {
            raw_sum += region.raw_file_bytes().await.unwrap();
            assert_eq!(
                region.load().last_major_compaction_ms,
                whole.last_major_compaction_ms
            );
            let name = sources[0].encoded_name();
            assert!(region.file_names().unwrap()[0].contains(name.as_str()));
        }
        assert!(raw_sum >= raw * 9 / 10 && raw_sum <= raw * 3 / 2);
        let lender = BTreeSet::from([sources[0].encoded_name()]);
        assert_eq!(store.borrowed_by(&lower).await.unwrap(), lender);
        // From here on it goes by itself.
        store.switch_compactions(true);
        let until = env.clock().mono() + Duration::from_secs(60);
        for info in [&lower, &upper] {
            while !store.borrowed_by(info).await.unwrap().is_empty() {
                assert!(env.clock().mono() < until, "it borrows for ever");
                store.roll_log().await.unwrap();
                env.clock().sleep(Duration::from_millis(50)).await;
            }
        }
        store.delete_region(&sources[0]).await.unwrap();
        model.check(&env, &regions).await;
        for region in &regions {
            region.clear_cache();
            region.compact(true).await.unwrap();
        }
        model.check(&env, &regions).await;
        store.close().await.unwrap();
    });
}

/// The process ends at each call to the object store; then the work is done again.
#[test]
fn cloning_and_taking_it_back_may_be_cut_anywhere() {
    let parent = region("", "", 1);
    let at = bytes(&row(ROWS / 2));
    for (when, back) in [
        (When::Before, false),
        (When::After, false),
        (When::Before, true),
        (When::After, true),
    ] {
        for cut in 1.. {
            let (parent, targets) = (parent.clone(), halves(&at));
            let cut_off = cut_once(when, back, cut, parent, targets);
            if !cut_off {
                break;
            }
            assert!(cut < 500, "it never ends");
        }
    }
}

/// Whether the work was cut off at this call.
fn cut_once(
    when: When,
    back: bool,
    cut: u64,
    parent: RegionInfo,
    targets: [RegionInfo; 2],
) -> bool {
    let bucket = FaultStore::new(when);
    let disk = FaultDisk::default();
    let (first, info, wanted) = (bucket.clone(), parent.clone(), targets.clone());
    let (model, cut_off) = run_on(1, disk.clone(), move |env| async move {
        let calls = Arc::clone(&first.calls);
        let store = Store::open(env.clone(), Arc::new(first), small())
            .await
            .unwrap();
        store.switch_compactions(false);
        let region = opened(&store, &info).await;
        let mut model = Model::default();
        for n in (0..ROWS).step_by(10) {
            model.write(&env, &region, &row(n)).await;
        }
        region.close().await.unwrap();
        let sources = [info];
        if back {
            store.clone_regions(&sources, &wanted).await.unwrap();
        }
        calls.fail_many(cut, u64::MAX / 2);
        let worker = store.clone();
        let work = async move {
            match back {
                true => worker.discard_clones(&sources, &wanted).await,
                false => worker.clone_regions(&sources, &wanted).await.map(drop),
            }
        };
        let work = std::pin::pin!(work);
        let cut_off = async {
            while calls.made() < cut {
                env.clock().sleep(Duration::from_millis(1)).await;
            }
        };
        let done = match futures::future::select(work, std::pin::pin!(cut_off)).await {
            futures::future::Either::Left((answer, _)) => answer.is_ok(),
            futures::future::Either::Right(_) => false,
        };
        (model, !done)
    });
    bucket.calls.fail(0);
    run_on(1, disk.process_ended(), move |env| async move {
        let store = Store::open(env.clone(), Arc::new(bucket), small())
            .await
            .unwrap();
        let sources = [parent.clone()];
        let mut model = model;
        if back {
            store.discard_clones(&sources, &targets).await.unwrap();
            let region = opened(&store, &parent).await;
            model.check(&env, std::slice::from_ref(&region)).await;
            // What is written now is in what is cloned next, whatever was there before.
            model.write(&env, &region, &row(1)).await;
            region.close().await.unwrap();
        }
        store.clone_regions(&sources, &targets).await.unwrap();
        let mut regions = Vec::new();
        for target in &targets {
            regions.push(opened(&store, target).await);
        }
        model.check(&env, &regions).await;
        store.close().await.unwrap();
    });
    cut_off
}

#[test]
fn what_only_the_log_has_is_not_left_behind() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    let bucket = Arc::clone(&objects);
    let mut model = run_on(1, disk.clone(), move |env| async move {
        let store = Store::open(env.clone(), bucket, small()).await.unwrap();
        let region = opened(&store, &region("", "", 1)).await;
        let mut model = Model::default();
        for n in 0..10 {
            model.write(&env, &region, &row(n)).await;
        }
        model
    });
    run_on(1, disk.process_ended(), move |env| async move {
        let store = Store::open(env.clone(), objects, small()).await.unwrap();
        let sources = [region("", "", 1)];
        let targets = halves(&bytes(&row(5)));
        let refused = store.clone_regions(&sources, &targets).await.unwrap_err();
        assert_eq!(refused.code(), Code::RegionState, "{refused}");
        // Not sealed: it can be opened, which replays the log.
        let parent = opened(&store, &sources[0]).await;
        model.write(&env, &parent, &row(11)).await;
        parent.close().await.unwrap();
        store.clone_regions(&sources, &targets).await.unwrap();
        let regions = [
            opened(&store, &targets[0]).await,
            opened(&store, &targets[1]).await,
        ];
        model.check(&env, &regions).await;
        let other = [region("", "", 9)];
        let refused = store.clone_regions(&sources, &other).await.unwrap_err();
        assert_eq!(refused.code(), Code::RegionState, "sealed for others");
        store.close().await.unwrap();
    });
}
