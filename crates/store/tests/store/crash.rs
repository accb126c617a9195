//! Power cuts, failing disks, the log's bounds (T1, T2, C13 to C17).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::*;
use crate::fault::{FaultDisk, FaultEnv};
use crate::fault_store::{FaultStore, When};
use crate::scenarios::{self, lock, region_spec, run_on, small};
use cadastre_env::{Clock, Env};
use cadastre_store::{RowRange, Store, StoreConfig, WalSync};
use cadastre_types::{Code, Durability, FamilyDescriptor, Query, TableDescriptor};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;

#[test]
fn t1_acknowledged_writes_survive_power_cuts() {
    scenarios::power_cuts(0, 10, scenarios::as_it_is);
}

/// What a failed sync left in the page cache reads well, is served, and must then survive the next power cut, though the kernel
/// takes it for written.
#[test]
fn t1_what_a_failed_sync_left_is_durable_before_it_is_served() {
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    for seed in 0..20 {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let disk = FaultDisk::default();
        {
            let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
            run_on(1, disk.clone(), |env| async move {
                let store = Store::open(env.clone(), objects, small()).await.unwrap();
                let region = store.open_region(region_spec(&table, 1)).await.unwrap();
                write(&env, &region, vec![put("a", "f", "q", 1, "1")]).await;
                env.disk.fail_sync.store(true, Ordering::SeqCst);
                let locks = lock(&env, &region, "a").await;
                let cells = vec![put("a", "f", "q", 2, "2")];
                let late = locks.write(cells, &[], Durability::SyncWal);
                let _ = env.clock().timeout(Duration::from_millis(30), late).await;
                assert!(env.exited.load(Ordering::SeqCst));
            });
        }
        // The machine stays up.
        let disk = disk.process_ended();
        {
            let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
            run_on(2, disk.clone(), |env| async move {
                let store = Store::open(env.clone(), objects, small()).await.unwrap();
                let region = store.open_region(region_spec(&table, 1)).await.unwrap();
                assert_eq!(get(&region, "a", &Query::default()).await, ["f:q@2=2"]);
                write(&env, &region, vec![put("b", "f", "q", 1, "1")]).await;
            });
        }
        let disk = disk.power_cut(seed);
        let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
        run_on(1, disk, |env| async move {
            let store = Store::open(env.clone(), objects, small()).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            assert_eq!(get(&region, "a", &Query::default()).await, ["f:q@2=2"]);
            assert_eq!(get(&region, "b", &Query::default()).await, ["f:q@1=1"]);
        });
    }
}

#[test]
fn t2_regions_come_back_on_other_cores_crash_after_crash() {
    for seed in 0..2 {
        scenarios::moving_cores(seed, scenarios::as_it_is);
    }
}

#[test]
fn t3_slow_syncs_lose_no_count_and_tear_no_row() {
    scenarios::slow_syncs(scenarios::as_it_is);
}

#[test]
fn t4_markers_beside_overflow_hide_for_good() {
    scenarios::markers_beside_overflow(scenarios::as_it_is);
}

#[test]
fn a_deposed_writers_write_is_refused_or_seen() {
    scenarios::deposed_writer(scenarios::as_it_is);
}

#[test]
fn a_hot_row_never_goes_back_for_readers_of_other_cores() {
    scenarios::hot_row(scenarios::as_it_is);
}

#[test]
fn t1_a_failed_sync_ends_the_process_and_acknowledges_nothing() {
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
fn t2_the_log_stays_bounded_with_idle_regions() {
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run(dir.path(), |real| async move {
        let env = FaultEnv::new(real, FaultDisk::default());
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let mut config = small();
        config.segments_max = 4;
        let store = Store::open(env.clone(), objects, config).await.unwrap();
        let mut idle = Vec::new();
        for id in 2..502 {
            let region = store.open_region(region_spec(&table, id)).await.unwrap();
            write(&env, &region, vec![put("idle", "f", "q", 1, "1")]).await;
            idle.push(region);
        }
        let hot = store.open_region(region_spec(&table, 1)).await.unwrap();
        let value = "x".repeat(4000);
        let big = async |n: u64| {
            let cells = vec![put(&format!("r{}", n % 1000), "f", "q", 1, &value)];
            write(&env, &hot, cells).await;
            env.disk.log_bytes()
        };
        // Until each idle region is flushed once. A turn of the maintenance flushes 64 of them, and then the hot one, whose writes
        // wait when three of its memtables are unflushed.
        let mut peak = 0;
        let mut written = 0;
        while written % 100 > 0 || idle.iter().any(|idle| idle.load().memstore_bytes > 0) {
            peak = peak.max(big(written).await);
            written += 1;
        }
        let turn = 3 * (256 << 10);
        let most = (500 / 64 + 2) * turn;
        assert!(peak <= most, "{peak} bytes of log, at most {most}");
        // From then on: what one turn has not flushed yet, what the last one has not truncated yet, and the segments that may stay.
        let mut peak = 0;
        let most = 2 * turn + (4 + 4) * (64 << 10);
        for n in 0..2000 {
            let now = big(written + n).await;
            // The first turn truncates what the others have flushed.
            if n >= 400 {
                peak = peak.max(now);
            }
        }
        assert!(peak <= most, "{peak} bytes of log, at most {most}");
        for _ in 0..500 {
            if env.disk.log_bytes() <= 8 * (64 << 10) {
                break;
            }
            write(&env, &hot, vec![put("r", "f", "q", 1, &value)]).await;
            env.clock().sleep(Duration::from_millis(20)).await;
        }
        assert!(
            env.disk.log_bytes() <= 8 * (64 << 10),
            "{} bytes of log",
            env.disk.log_bytes()
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
    let mut disk = FaultDisk::default();
    for round in 0..3 {
        disk = disk.process_ended();
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
    let disk = disk.process_ended();
    // The other core's has no group.
    let image = disk.image();
    let mut written = image
        .iter()
        .filter(|(name, bytes)| name.starts_with("log/") && !is_spare(bytes));
    let (name, _) = written.next().unwrap();
    let name = name.clone();
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
    let disk = disk.process_ended();
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

/// After a kill, each file of the log is damaged in each way that no power cut damages it: refused by name, and nothing is written
/// (C16). Every row is in the log only, so what is taken for a torn tail would be lost.
#[test]
fn c16_no_damage_of_the_log_is_taken_for_a_torn_tail() {
    type Damage = fn(&[u8]) -> Option<Vec<u8>>;
    let damages: [(&str, Damage); 6] = [
        ("taken away", |_| None),
        ("emptied", |_| Some(Vec::new())),
        ("zeroed", |bytes| Some(vec![0; bytes.len()])),
        ("its last byte cut off", |bytes| {
            Some(bytes[..bytes.len() - 1].to_vec())
        }),
        ("cut in half", |bytes| {
            Some(bytes[..bytes.len() / 2].to_vec())
        }),
        ("its groups zeroed", |bytes| {
            let mut bytes = bytes.to_vec();
            bytes[64..].fill(0);
            Some(bytes)
        }),
    ];
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    let (bucket, here) = (Arc::clone(&objects), Arc::clone(&table));
    run_on(1, disk.clone(), move |env| async move {
        let store = Store::open(env.clone(), bucket, small()).await.unwrap();
        let region = store.open_region(region_spec(&here, 1)).await.unwrap();
        for n in 0..12 {
            let value = "x".repeat(20_000);
            write(
                &env,
                &region,
                vec![put(&format!("r{n}"), "f", "q", 1, &value)],
            )
            .await;
        }
        // A mark is written when there is nothing else to do.
        env.clock().sleep(Duration::from_millis(50)).await;
    });
    let killed = disk.process_ended();
    let good = killed.image();
    let of_log = |name: &&String| name.starts_with("log");
    let files: Vec<&String> = good.keys().filter(of_log).collect();
    assert!(files.len() >= 5, "{files:?}");
    for name in files {
        for (what, damage) in &damages {
            let bytes = damage(&good[name]);
            if bytes.as_ref() == Some(&good[name])
                || *what == "its groups zeroed" && is_spare(&good[name])
            {
                continue;
            }
            let disk = killed.process_ended();
            disk.replace(name, bytes);
            let before = disk.image();
            let (bucket, kept) = (Arc::clone(&objects), disk.clone());
            let opened = run_on(1, disk, move |env| async move {
                Store::open(env, bucket, small()).await.map(drop)
            });
            let error = opened.err().unwrap_or_else(|| panic!("{name} {what}"));
            assert_eq!(error.code(), Code::Corrupt, "{name} {what}: {error}");
            assert!(
                error.message().contains(name.as_str()),
                "{name} {what}: {error}"
            );
            assert_eq!(
                without_lock(kept.image()),
                without_lock(before),
                "{name} {what}"
            );
        }
    }
    run_on(1, killed, move |env| async move {
        let store = Store::open(env.clone(), objects, small()).await.unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        let rows = scan(&region, RowRange::all(), false, &Query::default()).await;
        assert_eq!(rows.len(), 12, "nothing is damaged");
    });
}

/// Whether a segment has no group yet.
fn is_spare(segment: &[u8]) -> bool {
    segment[64..].iter().all(|byte| *byte == 0)
}

type Image = std::collections::BTreeMap<String, Vec<u8>>;

fn without_lock(mut image: Image) -> Image {
    image.remove("LOCK");
    image
}

/// A damaged database without which nothing can start is refused before anything is written.
#[test]
fn a_damaged_database_at_the_root_is_refused_and_all_is_left_as_it_is() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    let bucket = Arc::clone(&objects);
    run_on(1, disk.clone(), move |env| async move {
        let store = Store::open(env.clone(), bucket, small()).await.unwrap();
        let kv = store.open_kv("master").await.unwrap();
        let value = |n: u32| Some(bytes(&"v".repeat(100 + n as usize)));
        let rows = (0..100).map(|n| (bytes(&format!("k{n:03}")), value(n)));
        kv.write(rows.collect()).await.unwrap();
        store.close().await.unwrap();
    });
    let killed = disk.process_ended();
    let listed = futures::executor::block_on(listed(&objects, "master"));
    let newest = listed
        .iter()
        .filter(|name| name.ends_with(".manifest"))
        .max();
    let file = listed.iter().find(|name| name.ends_with(".sst"));
    for name in [newest.unwrap(), file.unwrap()] {
        let path = Path::from(name.as_str());
        let good = futures::executor::block_on(read_object(&objects, &path));
        // The end of an SST says where its index is, as the manifest does, and is not needed.
        let end = name.ends_with(".manifest").then_some(good.len() - 1);
        for at in [0, good.len() / 3, good.len() / 2].into_iter().chain(end) {
            let mut bad = good.to_vec();
            bad[at] ^= 0x41;
            futures::executor::block_on(put_object(&objects, &path, bad.into()));
            let disk = killed.process_ended();
            let (before, kept) = (disk.image(), disk.clone());
            let names = futures::executor::block_on(all(&objects));
            let bucket = Arc::clone(&objects);
            let opened = run_on(1, disk, move |env| async move {
                Store::open(env, bucket, small()).await.map(drop)
            });
            let error = opened.err().unwrap_or_else(|| panic!("{name}, byte {at}"));
            assert!(
                error.message().contains("'master'"),
                "{name}, byte {at}: {error}"
            );
            assert_eq!(
                without_lock(kept.image()),
                without_lock(before),
                "{name}, byte {at}"
            );
            assert_eq!(futures::executor::block_on(all(&objects)), names);
        }
        futures::executor::block_on(put_object(&objects, &path, good));
    }
    run_on(1, killed, move |env| async move {
        Store::open(env, objects, small()).await.unwrap();
    });
}

async fn listed(objects: &Arc<dyn ObjectStore>, prefix: &str) -> Vec<String> {
    use futures::TryStreamExt;
    let prefix = (!prefix.is_empty()).then(|| Path::from(prefix));
    let objects = objects.list(prefix.as_ref()).try_collect::<Vec<_>>();
    let objects = objects.await.unwrap();
    objects
        .iter()
        .map(|object| object.location.to_string())
        .collect()
}

async fn all(objects: &Arc<dyn ObjectStore>) -> Vec<String> {
    let mut names = listed(objects, "").await;
    names.sort();
    names
}

async fn read_object(objects: &Arc<dyn ObjectStore>, path: &Path) -> bytes::Bytes {
    use object_store::ObjectStoreExt;
    objects.get(path).await.unwrap().bytes().await.unwrap()
}

async fn put_object(objects: &Arc<dyn ObjectStore>, path: &Path, bytes: bytes::Bytes) {
    use object_store::ObjectStoreExt;
    objects.put(path, bytes.into()).await.unwrap();
}

/// Writes in the mode that hands them to the operating system only, of every durability; the bucket and the disk as the process leaves
/// them.
fn write_mode_life(kinds: &'static [(&'static str, Durability)]) -> (InMemory, FaultDisk) {
    let objects = Arc::new(InMemory::new());
    let disk = FaultDisk::default();
    let bucket = Arc::clone(&objects);
    run_on(1, disk.clone(), move |env| async move {
        let store = Store::open(env.clone(), bucket, write_mode());
        let store = store.await.unwrap();
        let region = store.open_region(region_spec(&one(), 1)).await.unwrap();
        for (row, kind) in kinds {
            let locks = lock(&env, &region, row).await;
            let cells = vec![put(row, "f", "q", 1, "1")];
            locks.write(cells, &[], *kind).await.unwrap();
            assert_eq!(get(&region, row, &Query::default()).await, ["f:q@1=1"]);
        }
    });
    (objects.fork(), disk)
}

/// Which of the rows are left.
fn write_mode_left(objects: InMemory, disk: FaultDisk, rows: &[&'static str]) -> Vec<&'static str> {
    let rows = rows.to_vec();
    run_on(2, disk, move |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(objects);
        let store = Store::open(env.clone(), objects, write_mode());
        let store = store.await.unwrap();
        let region = store.open_region(region_spec(&one(), 1)).await.unwrap();
        let mut left = Vec::new();
        for row in rows {
            let cells = get(&region, row, &Query::default()).await;
            assert!(cells.is_empty() || cells == ["f:q@1=1"], "{cells:?}");
            if !cells.is_empty() {
                left.push(row);
            }
        }
        left
    })
}

fn write_mode() -> StoreConfig {
    let mut config = small();
    config.wal_sync = WalSync::Write;
    config
}

fn one() -> Arc<TableDescriptor> {
    descriptor(vec![FamilyDescriptor::new("f")])
}

/// After a power cut what was written with FSYNC_WAL is there, and all before it; what came later may be gone, and is with some seed:
/// otherwise this would show nothing.
#[test]
fn write_mode_syncs_when_asked() {
    let kinds = &[
        ("a", Durability::SyncWal),
        ("b", Durability::FsyncWal),
        ("c", Durability::SyncWal),
    ];
    let (objects, disk) = write_mode_life(kinds);
    let mut lost = 0;
    for seed in 0..20 {
        let left = write_mode_left(objects.fork(), disk.power_cut(seed), &["a", "b", "c"]);
        assert_eq!(left[..2], ["a", "b"], "seed {seed}");
        lost += 3 - left.len();
    }
    assert!(lost > 0, "nothing was ever lost");
}

/// A process that ends takes nothing with it that was acknowledged; SKIP_WAL may be an exception, and is none here (C1).
#[test]
fn write_mode_survives_the_end_of_the_process() {
    let kinds = &[
        ("sync", Durability::SyncWal),
        ("async", Durability::AsyncWal),
        ("skip", Durability::SkipWal),
        ("fsync", Durability::FsyncWal),
        ("last", Durability::AsyncWal),
    ];
    let (objects, disk) = write_mode_life(kinds);
    let rows = ["sync", "async", "skip", "fsync", "last"];
    let left = write_mode_left(objects, disk.process_ended(), &rows);
    let promised = left.iter().filter(|row| **row != "skip").count();
    assert_eq!(promised, rows.len() - 1, "{left:?}");
}

/// The wall clock is stepped by an hour both ways, while a region is open and between two opens (T7, C8).
#[test]
fn t7_a_stepped_clock_stops_nothing() {
    const HOUR_MS: i64 = 3_600_000;
    let dir = tempfile::tempdir().unwrap();
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut disk = FaultDisk::default();
    let mut last = 0;
    for steps in [[0, -HOUR_MS, HOUR_MS], [-HOUR_MS, 0, -2 * HOUR_MS]] {
        disk = disk.process_ended();
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

/// A step of the wall clock between two tries of a call, by more than a nonce lives, either way, with and without a crash
/// between: the second try is known (C7).
#[test]
fn t7_a_stepped_clock_forgets_no_nonce() {
    const HOUR_MS: i64 = 3_600_000;
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut disk = FaultDisk::default();
    for (round, step) in [(0, HOUR_MS), (1, 0), (2, -HOUR_MS), (3, 24 * HOUR_MS)] {
        let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
        run_on(1, disk.clone(), move |env| async move {
            env.clock.step_ms.store(step / 2, Ordering::SeqCst);
            let store = Store::open(env.clone(), objects, small()).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            let locks = lock(&env, &region, "r").await;
            for nonce in 0..round {
                assert!(
                    locks.nonce(b"r", 7, nonce).await.unwrap(),
                    "{nonce} in {round}"
                );
            }
            let cells = vec![put("r", "f", "q", 1, "1")];
            let nonces = [(bytes("r"), 7, round)];
            locks
                .write(cells, &nonces, Durability::SyncWal)
                .await
                .unwrap();
            env.clock.step_ms.store(step, Ordering::SeqCst);
            region.compact(true).await.unwrap();
            let locks = lock(&env, &region, "r").await;
            assert!(locks.nonce(b"r", 7, round).await.unwrap(), "step {step}");
        });
        disk = disk.process_ended();
    }
}

/// After its time, which is not the wall clock's, a nonce is forgotten, and a major compaction drops it (C7).
#[test]
fn a_nonce_is_forgotten_after_its_time() {
    const MINUTE_MS: u64 = 60_000;
    let life = cadastre_types::limits::NONCE_LIFE_MS;
    run_on(1, FaultDisk::default(), move |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let store = Store::open(env.clone(), objects, small()).await.unwrap();
        let region = store.open_region(region_spec(&one(), 1)).await.unwrap();
        for row in ["r", "s"] {
            let nonces = [(bytes(row), 7, 1)];
            let locks = lock(&env, &region, row).await;
            locks
                .write(Vec::new(), &nonces, Durability::SyncWal)
                .await
                .unwrap();
        }
        for (leap, known) in [(life - MINUTE_MS, true), (2 * MINUTE_MS, false)] {
            env.clock.leap_ms.fetch_add(leap, Ordering::SeqCst);
            for compacted in [false, true] {
                if compacted {
                    region.compact(true).await.unwrap();
                    let bytes = region.load().store_file_bytes;
                    assert_eq!(bytes > 0, known, "{bytes} bytes of files");
                }
                for row in ["r", "s"] {
                    let locks = lock(&env, &region, row).await;
                    let seen = locks.nonce(row.as_bytes(), 7, 1).await.unwrap();
                    assert_eq!(seen, known, "compacted: {compacted}");
                }
            }
        }
        // And it may be used again.
        let locks = lock(&env, &region, "r").await;
        let nonces = [(bytes("r"), 7, 1)];
        locks
            .write(Vec::new(), &nonces, Durability::SyncWal)
            .await
            .unwrap();
        let locks = lock(&env, &region, "r").await;
        assert!(locks.nonce(b"r", 7, 1).await.unwrap());
        drop(locks);
        store.close().await.unwrap();
    });
}

/// The log begins anew, on a disk that knows nothing of the last one: LSNs go on above those that the manifests of regions know, or a
/// replay would skip rows (C13).
#[test]
fn c13_lsns_go_on_above_those_of_manifests() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (bucket, table) = (Arc::clone(&objects), one());
    run_on(1, FaultDisk::default(), move |env| async move {
        let store = Store::open(env.clone(), bucket, small()).await.unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        for n in 0..300 {
            write(&env, &region, vec![put("old", "f", "q", n, "old")]).await;
        }
        region.flush().await.unwrap();
    });
    let mut disk = FaultDisk::default();
    for round in 0..3_u64 {
        let (bucket, table) = (Arc::clone(&objects), one());
        run_on(1, disk.clone(), move |env| async move {
            let store = Store::open(env.clone(), bucket, small()).await.unwrap();
            // One that was never there before takes an LSN of the new log first.
            let fresh = store.open_region(region_spec(&table, 2)).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            assert_eq!(get(&region, "old", &Query::default()).await.len(), 1);
            for (region, name) in [(&region, "new"), (&fresh, "fresh")] {
                for earlier in 0..round {
                    let row = format!("{name}-{earlier}");
                    let cells = get(region, &row, &Query::default()).await;
                    assert_eq!(cells, ["f:q@1=1"], "{row} is lost");
                }
                let row = format!("{name}-{round}");
                write(&env, region, vec![put(&row, "f", "q", 1, "1")]).await;
            }
        });
        disk = disk.power_cut(round);
    }
}

/// A region goes back and forth between owners whose clocks are five seconds apart: timestamps of a row never go back, and writes
/// never wait for the clock (C8).
#[test]
fn t7_owners_five_seconds_apart() {
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut disk = FaultDisk::default();
    let mut last = 0;
    for round in 0..4_u64 {
        let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
        last = run_on(1, disk.clone(), move |env| async move {
            let apart = if round % 2 == 0 { 5_000 } else { 0 };
            env.clock.step_ms.store(apart, Ordering::SeqCst);
            let store = Store::open(env.clone(), objects, small()).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            let mut last = last;
            for _ in 0..20 {
                let locks = lock(&env, &region, "r").await;
                let at = locks.timestamp(b"r");
                assert!(at > last, "{at} after {last}");
                last = at;
                let cells = vec![put("r", "f", "q", at, "1")];
                locks.write(cells, &[], Durability::SyncWal).await.unwrap();
            }
            if round < 2 {
                store.close().await.unwrap();
            }
            last
        });
        disk = disk.process_ended();
    }
}

/// Operations of [`t5_a_hot_row_stays_bounded`]; the whole 200,000 with `CADASTRE_T5_OPERATIONS=200000`, as `cargo xtask test` has
/// it.
const HOT_OPERATIONS: i64 = 8_000;

/// Operations between two looks at what they cost.
const HOT_LOOK: i64 = 10_000;

/// Bytes of the log, as [`t5_a_hot_row_stays_bounded`] has it: its segments, a spare one and one that is just being filled.
const HOT_LOG_BYTES_MAX: usize = 8 * (64 << 10);

/// Bytes that a write of the hot row leaves in files at most while a scanner that is older than it is open: its operand, every
/// sixteenth time the whole of both columns, and what an index says of them.
const HOT_KEPT_BYTES: u64 = 160;

/// Calls of the object store and bytes read by one get of the hot row with nothing in memory, however often the row was written: of
/// each file its footer, index and filter, and one block.
const HOT_GET_CALLS_MAX: u64 = 64;
const HOT_GET_BYTES_MAX: u64 = 512 << 10;

/// What the hot row costs after so many writes with a scanner open that is older than all of them (T5).
async fn check_hot_row(
    env: &FaultEnv,
    region: &cadastre_store::Region<FaultEnv>,
    bucket: &FaultStore,
    written: i64,
) {
    region.flush().await.unwrap();
    check_log(env).await;
    let at = region.read_point().await.unwrap();
    let (mut calls, mut bytes) = (u64::MAX, u64::MAX);
    // A compaction may be under way beside some of them.
    for _ in 0..5 {
        region.clear_cache();
        bucket.calls.fail(0);
        bucket.read_bytes.store(0, Ordering::SeqCst);
        let cells = region.get_at(b"hot", &versions(9), &at).await.unwrap();
        assert_eq!(cells.len(), 2, "one version each");
        calls = calls.min(bucket.calls.made());
        bytes = bytes.min(bucket.read_bytes.load(Ordering::SeqCst));
    }
    let load = region.load();
    let kept = load.store_file_bytes / u64::try_from(written).unwrap();
    let what = format!("{written} writes: a get made {calls} calls for {bytes} bytes, {load:?}");
    assert!((1..=HOT_GET_CALLS_MAX).contains(&calls), "{what}");
    assert!(bytes <= HOT_GET_BYTES_MAX, "{what}");
    assert!(kept <= HOT_KEPT_BYTES, "{what}");
}

async fn check_log(env: &FaultEnv) {
    for _ in 0..500 {
        if env.disk.log_bytes() <= HOT_LOG_BYTES_MAX {
            return;
        }
        env.clock().sleep(Duration::from_millis(100)).await;
    }
    panic!("{} bytes of log", env.disk.log_bytes());
}

/// One row takes puts and increments without end while a scanner is open: the log and the cost of a get stay bounded, the row's bytes
/// by the writes that the scanner has seen pass; the scanner's moment stays what it was; and when it ends its row is small again.
#[test]
fn t5_a_hot_row_stays_bounded() {
    let operations = std::env::var("CADASTRE_T5_OPERATIONS")
        .map_or(HOT_OPERATIONS, |text| text.parse().unwrap());
    let table = descriptor(vec![FamilyDescriptor::new("f")]);
    run_on(1, FaultDisk::default(), move |env| async move {
        let bucket = FaultStore::new(When::Before);
        let mut config = small();
        config.segments_max = 4;
        let store = Store::open(env.clone(), Arc::new(bucket.clone()), config)
            .await
            .unwrap();
        let region = store.open_region(region_spec(&table, 1)).await.unwrap();
        write(&env, &region, vec![put("hot", "f", "c", 1, "0")]).await;
        let at = region.read_point().await.unwrap();
        let mut scanner = region
            .scan(RowRange::all(), false, versions(9), at.clone())
            .await
            .unwrap();
        let look = HOT_LOOK.min(operations / 4);
        let mut n = 0;
        let mut looked = 0;
        while n < operations {
            if n >= looked + look {
                looked = n;
                check_hot_row(&env, &region, &bucket, n).await;
            }
            let locks = lock(&env, &region, "hot").await;
            let at = locks.timestamp(b"hot");
            let cell = if n % 2 == 0 {
                put("hot", "f", "p", at, &n.to_string())
            } else {
                let old = locks.read(b"hot", &Query::default()).await.unwrap();
                let count = String::from_utf8_lossy(&old[0].value)
                    .parse::<i64>()
                    .unwrap();
                assert_eq!(count, n / 2);
                put("hot", "f", "c", at, &(count + 1).to_string())
            };
            match locks.write(vec![cell], &[], Durability::SyncWal).await {
                Ok(_) => n += 1,
                // Flushes are behind, as on a busy machine: clients wait and try again.
                Err(error) if error.code() == Code::RegionTooBusy => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(
            get(&region, "hot", &versions(9)).await.len(),
            2,
            "one version each"
        );
        let old = show(&scanner.next_row().await.unwrap().unwrap());
        assert_eq!(old, ["f:c@1=0"], "as of its moment");
        drop((scanner, at));
        region.flush().await.unwrap();
        region.compact(true).await.unwrap();
        let load = region.load();
        assert!(
            load.store_file_bytes < 4000,
            "{load:?}: old versions were kept"
        );
        check_log(&env).await;
        store.close().await.unwrap();
    });
}

/// The process dies in the middle of compactions, again and again; the next one finds what was left of them, takes it over or
/// begins anew, and no read shows a difference.
#[test]
fn t4_compactions_interrupted_by_crashes_change_nothing() {
    const ROWS: u64 = 30;
    let table = descriptor(vec![FamilyDescriptor::new("f").with("VERSIONS", "2")]);
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut disk = FaultDisk::default();
    for round in 0..8_u64 {
        let (objects, table) = (Arc::clone(&objects), Arc::clone(&table));
        run_on(1, disk.clone(), move |env| async move {
            // A compaction without a sign of life is taken over after ten seconds.
            let later = i64::try_from(round).unwrap() * 15_000;
            env.clock.step_ms.store(later, Ordering::SeqCst);
            let mut config = small();
            config.compact_at_files = 64;
            let store = Store::open(env.clone(), objects, config).await.unwrap();
            let region = store.open_region(region_spec(&table, 1)).await.unwrap();
            let at = i64::try_from(round).unwrap() + 1;
            for n in 0..ROWS {
                let row = format!("r{n:03}");
                // Narrow rows, rows with a large cell, and wide ones; every seventh row loses its old versions.
                let value = "v".repeat(if n % 5 == 0 { 33_000 } else { 10 });
                let mut cells = vec![put(&row, "f", "q", at, &value)];
                if n % 10 == 1 {
                    cells.extend((0..600).map(|q| put(&row, "f", &format!("w{q:03}"), at, "w")));
                }
                if n % 7 == 0 {
                    let kind = cadastre_types::CellType::DeleteColumn;
                    cells.push(marker(&row, "f", "q", at - 1, kind));
                }
                write(&env, &region, cells).await;
            }
            region.flush().await.unwrap();
            let expected = |n: u64| -> usize {
                let kept = if n.is_multiple_of(7) || round == 0 {
                    1
                } else {
                    2
                };
                let wide = if n % 10 == 1 {
                    600 * (round + 1).min(2)
                } else {
                    0
                };
                usize::try_from(kept + wide).unwrap()
            };
            let check = async || {
                let rows = scan(&region, RowRange::all(), false, &versions(9)).await;
                let seen: Vec<usize> = rows.iter().map(|(_, cells)| cells.len()).collect();
                assert_eq!(seen, (0..ROWS).map(expected).collect::<Vec<_>>());
            };
            check().await;
            let life = Duration::from_millis(10 + round * 15);
            let major = round % 2 == 0;
            // Cut off in the middle, or done.
            let _ = env.clock().timeout(life, region.compact(major)).await;
            check().await;
            if round == 7 {
                region.compact(true).await.unwrap();
                check().await;
                // No more bytes than of two versions each: 6 rows with large cells, 3 wide ones.
                let load = region.load();
                assert!(load.store_file_bytes < 600_000, "{load:?}: not merged");
                store.close().await.unwrap();
            }
        });
        disk = disk.process_ended();
    }
}
