//! Power cuts, failing disks, the log's bounds (T1, T2, C13 to C17).

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod common;
#[path = "common/fault.rs"]
mod fault;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Disk, Env};
use cadastre_store::{Region, RegionSpec, RowRange, Store, StoreConfig, WalSync};
use cadastre_types::{
    Code, Durability, FamilyDescriptor, Query, RegionInfo, TableDescriptor, TableName,
};
use common::*;
use fault::{FaultDisk, FaultEnv};
use futures::future::join_all;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;

fn small() -> StoreConfig {
    let mut config = config();
    config.segment_bytes = 64 << 10;
    config.memtable_bytes = 256 << 10;
    config
}

fn region_spec(table: &Arc<TableDescriptor>, id: u64) -> RegionSpec {
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

type Acked = Arc<Mutex<BTreeMap<(u64, String), u64>>>;

/// Writes counted values to rows of a region until something fails, noting what was acknowledged.
async fn writer(
    env: FaultEnv,
    region: Region<FaultEnv>,
    id: u64,
    task: u64,
    acked: Acked,
    from: u64,
) {
    for n in from.. {
        let row = format!("{task}-{}", n % 7);
        let Ok(locks) = region.lock_rows([bytes(&row)].into(), deadline(&env)).await else {
            return;
        };
        let timestamp = locks.timestamp(row.as_bytes());
        let cells = vec![
            put(&row, "f", "n", timestamp, &n.to_string()),
            put(&row, "g", "n", timestamp, &n.to_string()),
        ];
        match locks.write(cells, &[], Durability::SyncWal).await {
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

#[test]
fn acknowledged_writes_survive_power_cuts() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let acked: Acked = Arc::default();
    let mut disk = FaultDisk::default();
    disk.sync_delay_us.store(300, Ordering::SeqCst);
    for round in 0..10_u64 {
        // Another number of cores each time: logs are not tied to it (T2).
        let real = cadastre_env::RealEnv::start(&cadastre_env::RealEnvConfig {
            data_dir: dir.path().to_owned(),
            cores: 1 + (round % 3) as usize,
            background_threads: 1,
        })
        .unwrap();
        let env = FaultEnv::new(real.clone(), disk.clone());
        let (objects, table, acked) =
            (Arc::clone(&objects), Arc::clone(&table), Arc::clone(&acked));
        real.block_on(async move {
            let store = Store::open(env.clone(), objects, small()).await.unwrap();
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
                        from,
                    ));
                }
            }
            // Two crashes without a flush between every other round.
            if round % 2 == 0 {
                regions[&1].flush().await.unwrap();
            }
            let life = Duration::from_millis(60 + round * 7);
            let _ = env.clock().timeout(life, join_all(work)).await;
            // Dropped in the middle: the power goes.
        })
        .unwrap();
        disk = disk.power_cut(round);
        real.shutdown();
    }
    assert!(acked.lock().unwrap().len() > 50, "something was written");
}

#[test]
fn a_failed_sync_ends_the_process_and_acknowledges_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |real| async move {
        let env = FaultEnv::new(real, FaultDisk::default());
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let store = Store::open(env.clone(), objects, small()).await.unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        write(&env, &region, vec![put("a", "f", "q", 1, "1")]).await;
        env.disk.fail_sync.store(true, Ordering::SeqCst);
        let locks = region
            .lock_rows([bytes("a")].into(), deadline(&env))
            .await
            .unwrap();
        let cells = vec![put("a", "f", "q", 2, "2")];
        let answer = env
            .clock()
            .timeout(
                Duration::from_millis(300),
                locks.write(cells, &[], Durability::SyncWal),
            )
            .await;
        assert!(!matches!(answer, Ok(Ok(_))), "acknowledged without a sync");
        assert!(env.exited.load(Ordering::SeqCst));
        // What could still be lost is not read.
        let read = env
            .clock()
            .timeout(
                Duration::from_millis(300),
                region.get(b"a", &Query::default()),
            )
            .await;
        if let Ok(Ok(cells)) = read {
            assert_eq!(show(&cells), ["f:q@1=1"]);
        }
    });
}

#[test]
fn a_full_disk_refuses_writes_and_service_returns() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |real| async move {
        let env = FaultEnv::new(real, FaultDisk::default());
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let mut config = small();
        config.low_space_bytes = 1;
        let store = Store::open(env.clone(), objects, config).await.unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        write(&env, &region, vec![put("a", "f", "q", 1, "1")]).await;
        env.disk.full.store(true, Ordering::SeqCst);
        let value = "x".repeat(8000);
        let mut written = 0;
        let error = loop {
            let row = format!("r{written}");
            let locks = region
                .lock_rows([bytes(&row)].into(), deadline(&env))
                .await
                .unwrap();
            let cells = vec![put(&row, "f", "q", 1, &value)];
            match locks.write(cells, &[], Durability::SyncWal).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), Code::RegionTooBusy, "{error}");
        // Everything acknowledged is there, and reads go on.
        let rows = scan(&region, RowRange::all(), false, &Query::default()).await;
        assert_eq!(rows.len(), written + 1);
        env.disk.full.store(false, Ordering::SeqCst);
        region.flush().await.unwrap();
        for _ in 0..200 {
            let locks = region
                .lock_rows([bytes("back")].into(), deadline(&env))
                .await
                .unwrap();
            let cells = vec![put("back", "f", "q", 1, "1")];
            if locks.write(cells, &[], Durability::SyncWal).await.is_ok() {
                store.close().await.unwrap();
                return;
            }
            env.clock().sleep(Duration::from_millis(50)).await;
        }
        panic!("service did not return");
    });
}

#[test]
fn the_log_stays_bounded_with_idle_regions() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |real| async move {
        let env = FaultEnv::new(real, FaultDisk::default());
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let mut config = small();
        config.segments_max = 4;
        let store = Store::open(env.clone(), objects, config).await.unwrap();
        let mut idle = Vec::new();
        for id in 2..30 {
            let region = store.open_region(region_spec(&table, id)).await.unwrap();
            write(&env, &region, vec![put("idle", "f", "q", 1, "1")]).await;
            idle.push(region);
        }
        let hot = store.open_region(region_spec(&table, 1)).await.unwrap();
        let value = "x".repeat(4000);
        for n in 0..600 {
            let cells = vec![put(&format!("r{n}"), "f", "q", 1, &value)];
            write(&env, &hot, cells).await;
        }
        for _ in 0..100 {
            if env.disk.bytes() <= 8 * (64 << 10) {
                break;
            }
            write(&env, &hot, vec![put("r", "f", "q", 1, &value)]).await;
            env.clock().sleep(Duration::from_millis(20)).await;
        }
        assert!(
            env.disk.bytes() <= 8 * (64 << 10),
            "{} bytes of log",
            env.disk.bytes()
        );
        for region in &idle {
            assert_eq!(get(region, "idle", &Query::default()).await, ["f:q@1=1"]);
        }
        store.close().await.unwrap();
    });
}

#[test]
fn a_deleted_region_stays_deleted_and_its_path_can_be_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    for round in 0..3 {
        let (objects, disk, table) = (Arc::clone(&objects), disk.clone(), Arc::clone(&table));
        run(dir.path(), move |real| async move {
            let env = FaultEnv::new(real, disk);
            let store = Store::open(env.clone(), Arc::clone(&objects), small())
                .await
                .unwrap();
            let spec = region_spec(&table, 1);
            if round > 0 {
                // The last round's rows were neither flushed nor closed: they are in the log only.
                store.delete_region(&spec.info).await.unwrap();
                store.delete_region(&spec.info).await.unwrap();
            }
            let region = store.open_region(spec).await.unwrap();
            let rows = scan(&region, RowRange::all(), false, &Query::default()).await;
            assert!(rows.is_empty(), "round {round}: {rows:?}");
            write(&env, &region, vec![put("a", "f", "q", 1, "1")]).await;
            assert!(
                store.delete_region(region.info()).await.is_err(),
                "it is open"
            );
        });
    }
}

#[test]
fn a_damaged_log_and_cluster_file_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    {
        let (objects, disk) = (Arc::clone(&objects), disk.clone());
        run(dir.path(), move |real| async move {
            let env = FaultEnv::new(real, disk);
            let store = Store::open(env.clone(), objects, small()).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            for n in 0..20 {
                write(&env, &region, vec![put(&format!("r{n}"), "f", "q", 1, "1")]).await;
            }
        });
    }
    let name = {
        let names = disk.list("log").unwrap();
        format!("log/{}", names[0])
    };
    disk.damage(&name, 200, 4);
    let before = disk.bytes();
    {
        let (objects, disk, name) = (Arc::clone(&objects), disk.clone(), name.clone());
        run(dir.path(), move |real| async move {
            let env = FaultEnv::new(real, disk);
            let error = Store::open(env, objects, small()).await.err().unwrap();
            assert_eq!(error.code(), Code::Corrupt, "{error}");
            assert!(error.message().contains(&name), "{error}");
        });
    }
    assert_eq!(disk.bytes(), before);
    disk.damage(&name, 200, 4);
    run(dir.path(), move |real| async move {
        let path = Path::from("cluster");
        let newer = "cadastre store\nformat 99\n";
        use object_store::ObjectStoreExt;
        objects.put(&path, newer.into()).await.unwrap();
        let env = FaultEnv::new(real, disk);
        let error = Store::open(env, Arc::clone(&objects), small())
            .await
            .err()
            .unwrap();
        assert!(error.message().contains("'cluster'"), "{error}");
        let left = objects.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(&left[..], newer.as_bytes());
    });
}

#[test]
fn write_mode_syncs_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    let mut config = small();
    config.wal_sync = WalSync::Write;
    {
        let (objects, disk, table, config) = (
            Arc::clone(&objects),
            disk.clone(),
            Arc::clone(&table),
            config.clone(),
        );
        run(dir.path(), move |real| async move {
            let env = FaultEnv::new(real, disk);
            let store = Store::open(env.clone(), objects, config).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            write(&env, &region, vec![put("a", "f", "q", 1, "1")]).await;
            let locks = region
                .lock_rows([bytes("b")].into(), deadline(&env))
                .await
                .unwrap();
            let cells = vec![put("b", "f", "q", 1, "1")];
            locks.write(cells, &[], Durability::FsyncWal).await.unwrap();
            assert_eq!(get(&region, "b", &Query::default()).await, ["f:q@1=1"]);
        });
    }
    let disk = disk.power_cut(1);
    run(dir.path(), move |real| async move {
        let env = FaultEnv::new(real, disk);
        let store = Store::open(env.clone(), objects, config).await.unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        assert_eq!(get(&region, "b", &Query::default()).await, ["f:q@1=1"]);
        assert_eq!(get(&region, "a", &Query::default()).await, ["f:q@1=1"]);
    });
}

/// The wall clock is stepped by an hour both ways, while a region is open and between two opens (T7, C8).
#[test]
fn a_stepped_clock_stops_nothing() {
    const HOUR_MS: i64 = 3_600_000;
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    let mut last = 0;
    for steps in [[0, -HOUR_MS, HOUR_MS], [-HOUR_MS, 0, -2 * HOUR_MS]] {
        let (objects, disk, table) = (Arc::clone(&objects), disk.clone(), Arc::clone(&table));
        last = run(dir.path(), move |real| async move {
            let env = FaultEnv::new(real, disk);
            env.clock.step_ms.store(steps[0], Ordering::SeqCst);
            let store = Store::open(env.clone(), objects, small()).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            let began = env.clock().mono();
            let mut last = last;
            for step in steps {
                env.clock.step_ms.store(step, Ordering::SeqCst);
                for _ in 0..50 {
                    let locks = region
                        .lock_rows([bytes("r")].into(), deadline(&env))
                        .await
                        .unwrap();
                    let at = locks.timestamp(b"r");
                    assert!(at > last, "{at} after {last}");
                    last = at;
                    let cells = vec![put("r", "f", "q", at, "1")];
                    locks.write(cells, &[], Durability::SyncWal).await.unwrap();
                }
                region.flush().await.unwrap();
                region.compact(true).await.unwrap();
            }
            let took = env.clock().mono().saturating_sub(began);
            assert!(
                took < Duration::from_secs(9),
                "it waited for the clock: {took:?}"
            );
            store.close().await.unwrap();
            last
        });
    }
}
