//! Histories that tests run as they are, and that the tests of planted faults (T10) run with a fault, which must show. Each
//! panics when it sees something wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, RealEnv, RealEnvConfig};
use cadastre_store::{Region, RegionSpec, RowLocks, RowRange, Store, StoreConfig};
use cadastre_types::{
    Cell, CellType, Durability, FamilyDescriptor, Qualifiers, Query, RegionInfo, TableDescriptor,
    TableName,
};
use futures::future::join_all;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};

/// Changes the settings of a history's stores: plants a fault, or nothing.
pub(crate) type Tune = fn(&mut StoreConfig);

pub(crate) fn as_it_is(_: &mut StoreConfig) {}

pub(crate) fn small() -> StoreConfig {
    let mut config = config();
    config.segment_bytes = 64 << 10;
    config.memtable_bytes = 256 << 10;
    config.sst_bytes = 16 << 10;
    config
}

/// What a client may ask for. All of it is acknowledged when it is as durable as [`Durability::SyncWal`] (C1).
pub(crate) const DURABILITIES: [Durability; 4] = [
    Durability::SyncWal,
    Durability::FsyncWal,
    Durability::AsyncWal,
    Durability::SkipWal,
];

fn tuned(tune: Tune) -> StoreConfig {
    let mut config = small();
    tune(&mut config);
    config
}

pub(crate) fn region_spec(table: &Arc<TableDescriptor>, id: u64) -> RegionSpec {
    RegionSpec {
        info: RegionInfo::new(
            TableName::parse("t").unwrap(),
            Bytes::new(),
            Bytes::new(),
            id,
        ),
        descriptor: Arc::clone(table),
        expected_epoch: None,
    }
}

pub(crate) async fn lock(
    env: &FaultEnv,
    region: &Region<FaultEnv>,
    row: &str,
) -> RowLocks<FaultEnv> {
    let rows = [bytes(row)].into();
    region.lock_rows(rows, deadline(env)).await.unwrap()
}

/// Runs on core 0 of fresh surroundings with so many cores; what is left open then is as after a crash.
pub(crate) fn run_on<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    cores: usize,
    disk: FaultDisk,
    program: impl FnOnce(FaultEnv) -> F,
) -> T {
    let dir = tempfile::tempdir().unwrap();
    let real = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores,
        background_threads: 1,
    })
    .unwrap();
    let answer = real.block_on(program(FaultEnv::new(real.clone(), disk)));
    real.shutdown();
    answer.expect("the program panicked")
}

async fn on_core<T: Send + 'static>(
    env: &FaultEnv,
    core: usize,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let (tell, told) = tokio::sync::oneshot::channel();
    env.spawn_on(core, "test", move || {
        Box::pin(async move {
            let _ = tell.send(work.await);
        })
    });
    told.await.expect("the core's task panicked")
}

fn two_families() -> Arc<TableDescriptor> {
    descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")])
}

type Acked = Arc<Mutex<BTreeMap<(u64, String), u64>>>;

/// Writes counted values to rows of a region until something fails, noting what was acknowledged.
async fn writer(
    env: FaultEnv,
    region: Region<FaultEnv>,
    id: u64,
    task: u64,
    acked: Acked,
    numbers: std::ops::Range<u64>,
) {
    for n in numbers {
        let row = format!("{task}-{}", n % 7);
        let Ok(locks) = region.lock_rows([bytes(&row)].into(), deadline(&env)).await else {
            return;
        };
        let timestamp = locks.timestamp(row.as_bytes());
        let cells = vec![
            put(&row, "f", "n", timestamp, &n.to_string()),
            put(&row, "g", "n", timestamp, &n.to_string()),
        ];
        let durability = DURABILITIES[((task + n) % 4) as usize];
        match locks.write(cells, &[], durability).await {
            Ok(_) => {
                acked.lock().unwrap().insert((id, row), n);
            }
            Err(_) => return,
        }
    }
}

/// Every acknowledged value, or a later one that was on its way, is there, and no row is half written.
async fn check(regions: &BTreeMap<u64, Region<FaultEnv>>, acked: &Acked) {
    let expected = acked.lock().unwrap().clone();
    for ((id, row), at_least) in expected {
        let cells = regions[&id]
            .get(row.as_bytes(), &Query::default())
            .await
            .unwrap();
        assert_eq!(cells.len(), 2, "row {row} of {id}");
        let number =
            |at: usize| -> u64 { String::from_utf8_lossy(&cells[at].value).parse().unwrap() };
        assert!(
            number(0) >= at_least,
            "row {row} of {id}: {} < {at_least}",
            number(0)
        );
        assert_eq!(number(0), number(1), "half a row");
    }
}

/// The power goes again and again under many writers; what was acknowledged is there afterwards.
pub(crate) fn power_cuts(seed: u64, rounds: u64, tune: Tune) {
    let table = two_families();
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let acked: Acked = Arc::default();
    let mut disk = FaultDisk::default();
    disk.sync_delay_us.store(300, Ordering::SeqCst);
    for round in 0..rounds {
        let (objects, table, acked) =
            (Arc::clone(&objects), Arc::clone(&table), Arc::clone(&acked));
        // Another number of cores each time: logs are not tied to it (T2).
        run_on(1 + (round % 3) as usize, disk.clone(), |env| async move {
            let store = Store::open(env.clone(), objects, tuned(tune))
                .await
                .unwrap();
            let mut regions = BTreeMap::new();
            for id in 1..=3 {
                regions.insert(
                    id,
                    store.open_region(region_spec(&table, id)).await.unwrap(),
                );
            }
            check(&regions, &acked).await;
            let mut work = Vec::new();
            for (id, region) in &regions {
                for task in 0..4 {
                    let from = round * 1_000_000;
                    work.push(writer(
                        env.clone(),
                        region.clone(),
                        *id,
                        task,
                        Arc::clone(&acked),
                        from..u64::MAX,
                    ));
                }
            }
            // Two crashes without a flush between every other round.
            if round % 2 == 0 {
                regions[&1].flush().await.unwrap();
            }
            let life = Duration::from_millis(60 + round % 10 * 7);
            let _ = env.clock().timeout(life, join_all(work)).await;
            // Dropped in the middle: the power goes.
        });
        disk = disk.power_cut(seed * 1000 + round);
    }
    assert!(acked.lock().unwrap().len() > 50, "something was written");
}

/// Regions come back on other cores, of which there are more or fewer, crash after crash, nothing flushed between.
pub(crate) fn moving_cores(seed: u64, tune: Tune) {
    let table = two_families();
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let acked: Acked = Arc::default();
    let mut disk = FaultDisk::default();
    for round in 0..6_u64 {
        let (objects, table, acked) =
            (Arc::clone(&objects), Arc::clone(&table), Arc::clone(&acked));
        let cores = [3, 2, 3, 1, 3, 2][round as usize];
        run_on(cores, disk.clone(), |env| async move {
            let store = Store::open(env.clone(), objects, tuned(tune))
                .await
                .unwrap();
            let mut regions = BTreeMap::new();
            for id in 1..=4 {
                let core = (id + round + seed) as usize % cores;
                let (store, spec) = (store.clone(), region_spec(&table, id));
                let opened = on_core(&env, core, async move { store.open_region(spec).await });
                regions.insert(id, opened.await.unwrap());
            }
            check(&regions, &acked).await;
            for (id, region) in &regions {
                // Some write much more than others, so that their logs would be at other LSNs.
                let numbers = round * 1000..round * 1000 + 10 * id * id;
                let acked = Arc::clone(&acked);
                writer(env.clone(), region.clone(), *id, 0, acked, numbers).await;
            }
            check(&regions, &acked).await;
        });
        disk = if round % 2 == 0 {
            disk.process_ended()
        } else {
            disk.power_cut(seed * 1000 + round)
        };
    }
}

fn number(cell: &Cell) -> u64 {
    String::from_utf8_lossy(&cell.value).parse().unwrap()
}

fn one_family() -> Query {
    Query {
        columns: BTreeMap::from([(bytes("f"), Qualifiers::All)]),
        ..Query::default()
    }
}

/// What a power cut would leave at a moment, and the least that the counter must show then.
struct PowerCut {
    disk: FaultDisk,
    objects: InMemory,
    least: u64,
}

/// Slow syncs, every durability: counters are exact, rows of two families and wide ones never torn, and what was read without a
/// write after it is durable once that has settled.
pub(crate) fn slow_syncs(tune: Tune) {
    let disk = FaultDisk::default();
    disk.sync_delay_us.store(5000, Ordering::SeqCst);
    let cuts = run_on(2, disk, move |env| mixed_durabilities(env, tune));
    assert!(!cuts.is_empty(), "nothing has settled");
    for cut in cuts {
        run_on(1, cut.disk, move |env| async move {
            let objects: Arc<dyn ObjectStore> = Arc::new(cut.objects);
            let store = Store::open(env.clone(), objects, small()).await.unwrap();
            let table = two_families();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            let cells = region.get(b"one", &one_family()).await.unwrap();
            let left = cells.first().map_or(0, number);
            let least = cut.least;
            assert!(left >= least, "{least} was told, {left} is left");
        });
    }
}

async fn mixed_durabilities(env: FaultEnv, tune: Tune) -> Vec<PowerCut> {
    const TASKS: u64 = 8;
    const ROUNDS: u64 = 25;
    let objects = Arc::new(InMemory::new());
    let bucket = Arc::clone(&objects);
    let store = Store::open(env.clone(), bucket, tuned(tune)).await.unwrap();
    let region = store
        .open_region(region_spec(&two_families(), 1))
        .await
        .unwrap();
    let cuts = Mutex::new(Vec::new());
    let work = (0..TASKS).map(|task| {
        let (env, region, objects, cuts) = (&env, &region, &objects, &cuts);
        async move {
            for round in 0..ROUNDS {
                let durability = DURABILITIES[((task + round) % 4) as usize];
                // A counter of one family, and one of both.
                let locks = lock(env, region, "one").await;
                let old = locks.read(b"one", &one_family()).await.unwrap();
                let old = old.first().map_or(0, number);
                if (task + round) % 8 == 0 {
                    // As a condition that is not met: what was seen is answered, and nothing is written.
                    locks.settle().await.unwrap();
                    if task == 0 {
                        cuts.lock().unwrap().push(PowerCut {
                            disk: env.disk.power_cut(round),
                            objects: objects.fork(),
                            least: old,
                        });
                    }
                    let seen = region.get(b"one", &one_family()).await.unwrap();
                    let seen = seen.first().map_or(0, number);
                    assert!(seen >= old, "{old} is told of, others see {seen}");
                }
                let next = (old + 1).to_string();
                let at = locks.timestamp(b"one");
                let cells = vec![put("one", "f", "n", at, &next)];
                locks.write(cells, &[], durability).await.unwrap();
                let locks = lock(env, region, "two").await;
                let old = locks.read(b"two", &Query::default()).await.unwrap();
                let next = (old.first().map_or(0, number) + 1).to_string();
                let at = locks.timestamp(b"two");
                let mut cells = vec![put("two", "f", "n", at, &next)];
                cells.push(put("two", "g", "n", at, &next));
                locks.write(cells, &[], durability).await.unwrap();
                // What was just acknowledged is read, and whole.
                let seen = region.get(b"two", &Query::default()).await.unwrap();
                assert_eq!(seen.len(), 2);
                assert_eq!(seen[0].value, seen[1].value, "torn between two families");
                assert!(number(&seen[0]) >= next.parse().unwrap());
            }
        }
    });
    futures::join!(join_all(work), wide_rewritten(&env, &region));
    for row in ["one", "two"] {
        let cells = region.get(row.as_bytes(), &one_family()).await.unwrap();
        assert_eq!(number(&cells[0]), TASKS * ROUNDS, "counter {row}");
    }
    store.close().await.unwrap();
    cuts.into_inner().unwrap()
}

/// Rewrites a wide row again and again while a task of this core and one of another read it: whole, or not there yet.
async fn wide_rewritten(env: &FaultEnv, region: &Region<FaultEnv>) {
    const WIDE: usize = 600;
    const TIMES: u64 = 20;
    let (region_there, region_here) = (region.clone(), region.clone());
    let there = on_core(env, 1, read_wide(region_there, WIDE, TIMES));
    let here = read_wide(region_here, WIDE, TIMES);
    let writer = async {
        for n in 1..=TIMES {
            let value = n.to_string();
            let cell = |q| put("wide", "f", &format!("q{q:04}"), n as i64, &value);
            let locks = lock(env, region, "wide").await;
            locks
                .write((0..WIDE).map(cell).collect(), &[], Durability::AsyncWal)
                .await
                .unwrap();
        }
    };
    futures::join!(there, here, writer);
}

/// Reads the wide row by get and by scan until it is as the last write made it.
async fn read_wide(region: Region<FaultEnv>, wide: usize, last: u64) {
    let mut newest = 0;
    while newest < last {
        let got = region.get(b"wide", &Query::default()).await.unwrap();
        let at = region.read_point().await.unwrap();
        let range = RowRange {
            start: bytes("wide"),
            include_start: true,
            stop: bytes("wide"),
            include_stop: true,
        };
        let scanner = region.scan(range, false, Query::default(), at).await;
        let scanned = scanner.unwrap().next_row().await.unwrap();
        for cells in [got, scanned.unwrap_or_default()] {
            assert!([0, wide].contains(&cells.len()), "{} cells", cells.len());
            let values: BTreeSet<u64> = cells.iter().map(number).collect();
            assert!(values.len() <= 1, "a wide row is torn: {values:?}");
            let now = values.first().copied().unwrap_or(0);
            assert!(now >= newest, "the wide row shows {now} after {newest}");
            newest = now;
        }
        tokio::task::yield_now().await;
    }
}

/// A marker beside overflow cells, through compactions: what it hides never comes back (C5).
pub(crate) fn markers_beside_overflow(tune: Tune) {
    run_on(1, FaultDisk::default(), |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let table = descriptor(vec![FamilyDescriptor::new("f").with("VERSIONS", "3")]);
        let store = Store::open(env.clone(), objects, tuned(tune))
            .await
            .unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        let large = "L".repeat(40_000);
        for (at, flushes) in [(5, true), (6, false)] {
            write(&env, &region, vec![put("r", "f", "big", at, &large)]).await;
            write(&env, &region, vec![put("r", "f", "small", at, "s")]).await;
            if flushes {
                region.flush().await.unwrap();
            }
        }
        let kinds = [
            marker("r", "f", "big", 6, CellType::DeleteColumn),
            marker("r", "f", "", 5, CellType::DeleteFamily),
        ];
        write(&env, &region, kinds.to_vec()).await;
        let expected = ["f:small@6=s"];
        assert_eq!(get(&region, "r", &versions(9)).await, expected);
        for major in [true, false, true] {
            region.flush().await.unwrap();
            region.compact(major).await.unwrap();
            let seen = get(&region, "r", &versions(9)).await;
            assert_eq!(
                seen.len(),
                1,
                "deleted cells came back: {} cells",
                seen.len()
            );
            assert_eq!(seen, expected);
        }
        store.close().await.unwrap();
    });
}

/// A region is opened on another core while its last owner has a write on the way to a slow disk: the write is refused, or the
/// new owner shows it.
pub(crate) fn deposed_writer(tune: Tune) {
    const PAUSE: Duration = Duration::from_millis(5);
    run_on(2, FaultDisk::default(), |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let table = two_families();
        let store = Store::open(env.clone(), objects, tuned(tune))
            .await
            .unwrap();
        let old = store.open_region(region_spec(&table, 1)).await.unwrap();
        let beside = store.open_region(region_spec(&table, 2)).await.unwrap();
        let other = {
            let (store, spec) = (store.clone(), region_spec(&table, 3));
            on_core(
                &env,
                1,
                async move { store.open_region(spec).await.unwrap() },
            )
            .await
        };
        for region in [&old, &beside, &other] {
            write(&env, region, vec![put("r", "f", "q", 1, "1")]).await;
        }
        env.disk.sync_delay_us.store(50_000, Ordering::SeqCst);
        // The old owner's log is busy with a neighbour's write, so ours waits for its turn.
        let mut answers = Vec::new();
        for region in [&beside, &old] {
            let locks = lock(&env, region, "r").await;
            let (tell, told) = tokio::sync::oneshot::channel();
            env.spawn("writer", async move {
                let cells = vec![put("r", "f", "q", 2, "2")];
                let _ = tell.send(locks.write(cells, &[], Durability::SyncWal).await);
            });
            env.clock().sleep(PAUSE).await;
            answers.push(told);
        }
        // The new owner's log is quick.
        env.disk.sync_delay_us.store(0, Ordering::SeqCst);
        let mut closing = Box::pin(old.close());
        assert!(futures::poll!(&mut closing).is_pending());
        let new = {
            let (store, spec) = (store.clone(), region_spec(&table, 1));
            on_core(
                &env,
                1,
                async move { store.open_region(spec).await.unwrap() },
            )
            .await
        };
        assert_eq!(new.epoch(), old.epoch() + 1);
        let late = answers.pop().unwrap().await.unwrap();
        let shown = get(&new, "r", &Query::default()).await;
        if late.is_ok() {
            assert_eq!(shown, ["f:q@2=2"], "an acknowledged write is lost");
        }
        write(&env, &new, vec![put("r", "f", "q", 3, "3")]).await;
        // How it ends is the deposed one's affair.
        let _ = env.clock().timeout(Duration::from_secs(5), closing).await;
        assert_eq!(get(&new, "r", &Query::default()).await, ["f:q@3=3"]);
    });
}

/// Readers of other cores beside the writer of one hot row: no reader sees it go back.
pub(crate) fn hot_row(tune: Tune) {
    const WRITES: u64 = 3000;
    const READERS: usize = 2;
    run_on(1 + READERS, FaultDisk::default(), |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let store = Store::open(env.clone(), objects, tuned(tune))
            .await
            .unwrap();
        let region = store
            .open_region(region_spec(&two_families(), 1))
            .await
            .unwrap();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let mut readers = Vec::new();
        for reader in 0..READERS {
            let (region, acknowledged) = (region.clone(), Arc::clone(&acknowledged));
            let (done, wait) = tokio::sync::oneshot::channel();
            let work = async move {
                let mut seen = 0;
                while seen < WRITES {
                    let least = acknowledged.load(Ordering::SeqCst).max(seen);
                    let cells = region.get(b"hot", &one_family()).await.unwrap();
                    let now = cells.first().map_or(0, number);
                    assert!(now >= least, "the hot row shows {now} after {least}");
                    seen = now;
                    tokio::task::yield_now().await;
                }
                let _ = done.send(());
            };
            env.spawn_on(1 + reader, "reader", move || Box::pin(work));
            readers.push(wait);
        }
        for n in 1..=WRITES {
            let locks = lock(&env, &region, "hot").await;
            let at = locks.timestamp(b"hot");
            let cells = vec![put("hot", "f", "n", at, &n.to_string())];
            locks.write(cells, &[], Durability::SyncWal).await.unwrap();
            acknowledged.store(n, Ordering::SeqCst);
            if n % 500 == 0 {
                region.flush().await.unwrap();
            }
        }
        for reader in readers {
            reader.await.expect("a reader saw something wrong");
        }
        store.close().await.unwrap();
    });
}
