//! Stores whose objects are shared by machines: nothing counts but what is there (rfcs/2026-11-30-regions-on-hdfs.md).

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use cadastre_env::RealEnv;
use cadastre_store::{Store, StoreConfig};
use cadastre_types::{Code, Durability, FamilyDescriptor, Query, TableDescriptor};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

fn shared() -> StoreConfig {
    StoreConfig {
        shared_store: true,
        garbage_min_age_ms: 0,
        ..config()
    }
}

async fn open_shared(env: &RealEnv, objects: &Arc<dyn ObjectStore>) -> Store<RealEnv> {
    Store::open(env.clone(), Arc::clone(objects), shared())
        .await
        .unwrap()
}

fn table() -> Arc<TableDescriptor> {
    descriptor(vec![FamilyDescriptor::new("f")])
}

/// So that the older process of this test does not end itself, as it would.
async fn forget_starts(objects: &Arc<dyn ObjectStore>) {
    let starts: Vec<_> = objects
        .list(Some(&Path::from("starts")))
        .try_collect()
        .await
        .unwrap();
    for start in starts {
        objects.delete(&start.location).await.unwrap();
    }
}

async fn log_objects(objects: &Arc<dyn ObjectStore>) -> usize {
    let all: Vec<_> = objects.list(None).try_collect().await.unwrap();
    let of_log = |path: &Path| path.as_ref().contains("/log/");
    all.iter().filter(|object| of_log(&object.location)).count()
}

/// The machine is lost with its data directory; another one goes on, again and again.
#[test]
fn acknowledged_writes_survive_a_lost_machine() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut codes = Vec::new();
    for round in 0..4_u32 {
        let machine = tempfile::tempdir().unwrap();
        let objects = Arc::clone(&objects);
        let code = run(machine.path(), |env| async move {
            let store = open_shared(&env, &objects).await;
            let region = store.open_region(spec(&table())).await.unwrap();
            for earlier in 0..round {
                let row = format!("row-{earlier}");
                let cells = get(&region, &row, &Query::default()).await;
                assert_eq!(cells, [format!("f:q@{}=v", earlier + 1)]);
            }
            let row = format!("row-{round}");
            write(
                &env,
                &region,
                vec![put(&row, "f", "q", i64::from(round) + 1, "v")],
            )
            .await;
            if round == 1 {
                // What is in files is not replayed, what came behind is.
                region.flush().await.unwrap();
            }
            store.start_code()
        });
        codes.push(code);
    }
    assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
}

/// Timestamps of the server's own making go on above those that another machine gave, whatever its clock.
#[test]
fn sequence_numbers_go_on() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut last = 0;
    for _ in 0..3 {
        let machine = tempfile::tempdir().unwrap();
        let objects = Arc::clone(&objects);
        let sequence = run(machine.path(), |env| async move {
            let store = open_shared(&env, &objects).await;
            let region = store.open_region(spec(&table())).await.unwrap();
            write(&env, &region, vec![put("r", "f", "q", 1, "v")]).await
        });
        assert!(sequence > last, "{sequence} {last}");
        last = sequence;
    }
}

/// Who opened last writes; the other's next write fails, and is not there.
#[test]
fn the_older_writer_is_fenced() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = env(second.path());
    let there = other.clone();
    run(first.path(), |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let old = open_shared(&env, &objects).await;
        let old_region = old.open_region(spec(&table())).await.unwrap();
        write(&env, &old_region, vec![put("a", "f", "q", 1, "old")]).await;
        let new = open_shared(&there, &objects).await;
        forget_starts(&objects).await;
        let new_region = new.open_region(spec(&table())).await.unwrap();
        assert_eq!(
            get(&new_region, "a", &Query::default()).await,
            ["f:q@1=old"]
        );
        let locks = old_region.lock_rows([bytes("a")].into(), deadline(&env));
        let cells = vec![put("a", "f", "q", 2, "too late")];
        let late = locks
            .await
            .unwrap()
            .write(cells, &[], Durability::SyncWal)
            .await;
        assert_eq!(late.unwrap_err().code(), Code::Fenced);
        write(&there, &new_region, vec![put("a", "f", "q", 3, "new")]).await;
        assert_eq!(
            get(&new_region, "a", &Query::default()).await,
            ["f:q@3=new"]
        );
    });
    other.shutdown();
}

/// Writes that wait for each other's object share one; what is in files goes.
#[test]
fn writes_are_grouped_and_the_log_is_cut() {
    let machine = tempfile::tempdir().unwrap();
    run(machine.path(), |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let store = open_shared(&env, &objects).await;
        let region = store.open_region(spec(&table())).await.unwrap();
        let writes = (0..200).map(|at| {
            let (env, region) = (&env, &region);
            async move { write(env, region, vec![put(&format!("{at}"), "f", "q", 1, "v")]).await }
        });
        futures::future::join_all(writes).await;
        let objects_before = log_objects(&objects).await;
        assert!((2..100).contains(&objects_before), "{objects_before}");
        region.flush().await.unwrap();
        // One more, so that the flush's replay point has something behind it.
        write(&env, &region, vec![put("last", "f", "q", 1, "v")]).await;
        region.flush().await.unwrap();
        use cadastre_env::{Clock, Env};
        let until = env.clock().mono() + Duration::from_secs(20);
        while log_objects(&objects).await > 1 {
            assert!(
                env.clock().mono() < until,
                "{}",
                log_objects(&objects).await
            );
            store.roll_log().await.unwrap();
            env.clock().sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(get(&region, "7", &Query::default()).await, ["f:q@1=v"]);
        store.close().await.unwrap();
    });
}

/// A hole in the numbers, or an object that is no part of the log, is damage, and the region does not open.
#[test]
fn a_damaged_log_is_refused() {
    for damage in 0..3 {
        let machine = tempfile::tempdir().unwrap();
        run(machine.path(), |env| async move {
            let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            let store = open_shared(&env, &objects).await;
            let region = store.open_region(spec(&table())).await.unwrap();
            for at in 0..3 {
                write(&env, &region, vec![put("r", "f", "q", at + 1, "v")]).await;
            }
            let all: Vec<_> = objects.list(None).try_collect().await.unwrap();
            let mut log: Vec<Path> = all.into_iter().map(|object| object.location).collect();
            log.retain(|path| path.as_ref().contains("/log/"));
            log.sort();
            match damage {
                0 => objects.delete(&log[1]).await.unwrap(),
                1 => drop(objects.put(&log[2], "damage".into()).await.unwrap()),
                _ => {
                    let strange = log[2].as_ref().replace("/log/", "/log/x");
                    drop(objects.put(&Path::from(strange), "".into()).await.unwrap());
                }
            }
            let other = env_of_another();
            let there = open_shared(&other.1, &objects).await;
            forget_starts(&objects).await;
            let error = there.open_region(spec(&table())).await.err().unwrap();
            assert_eq!(error.code(), Code::Corrupt, "{error}");
            other.1.shutdown();
        });
    }
}

fn env_of_another() -> (tempfile::TempDir, RealEnv) {
    let machine = tempfile::tempdir().unwrap();
    let other = env(machine.path());
    (machine, other)
}

#[test]
fn following_is_refused() {
    let machine = tempfile::tempdir().unwrap();
    run(machine.path(), |env| async move {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let store = open_shared(&env, &objects).await;
        let info = spec(&table()).info;
        let refused = store.follow("capture", &info, None, 1 << 20).await;
        assert_eq!(refused.err().unwrap().code(), Code::Unsupported);
    });
}
