//! Golden bytes, damage, group commit, fencing, truncation.

use bytes::Bytes;
use cadastre_env::{RealEnv, RealEnvConfig};
use object_store::memory::InMemory;
use slatedb::{RowEntry, ValueDeletable};

use super::*;
use crate::log::Encoded;

fn rows(seq: u64, value: &str) -> Vec<RowEntry> {
    vec![RowEntry {
        key: Bytes::from_static(b"key"),
        value: ValueDeletable::Merge(Bytes::copy_from_slice(value.as_bytes())),
        seq,
        create_ts: Some(1_764_486_000_000),
        expire_ts: None,
    }]
}

#[test]
fn golden() {
    let one = Encoded::rows(7, 3, 20, &rows(20, "value"));
    let object = content::encode("data/t", 3, &[one]);
    let hex: String = object.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("golden.txt").trim());
    let content = content::decode("data/t", 3, &object).unwrap();
    assert_eq!((content.epoch, content.rows), (7, rows(20, "value")));
    let fence = content::fence("data/t", 8, 4);
    assert_eq!(content::decode("data/t", 4, &fence).unwrap().rows, []);
}

#[test]
fn damage_is_found() {
    let records = [
        Encoded::rows(7, 3, 20, &rows(20, "a")),
        Encoded::rows(7, 3, 21, &rows(21, "b")),
    ];
    let object = content::encode("data/t", 3, &records);
    let bad = |path: &str, number, bytes: &[u8]| {
        let error = content::decode(path, number, &Bytes::copy_from_slice(bytes)).unwrap_err();
        assert_eq!(error.code(), Code::Corrupt, "{error}");
    };
    for at in 0..object.len() {
        let mut bytes = object.to_vec();
        bytes[at] ^= 0x40;
        // The zeros that fill up to eight bytes mean nothing.
        if content::decode("data/t", 3, &bytes.clone().into()).is_ok() {
            assert!(at > object.len() - 8, "byte {at}");
        }
        bad("data/t", 3, &object[..at]);
    }
    // Another number's or another database's.
    bad("data/t", 4, &object);
    bad("data/u", 3, &object);
    let mixed = content::encode("p", 1, &[Encoded::fence(7, 1), Encoded::fence(8, 1)]);
    bad("p", 1, &mixed);
    let backwards = [
        Encoded::rows(7, 1, 21, &rows(21, "a")),
        Encoded::rows(7, 1, 20, &rows(20, "b")),
    ];
    bad("p", 1, &content::encode("p", 1, &backwards));
    bad("p", 1, &content::encode("p", 1, &[]));
}

fn with_env(test: impl AsyncFnOnce(RealEnv) + Send + 'static) {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let (ended, wait) = std::sync::mpsc::sync_channel(1);
    let here = env.clone();
    env.spawn_on(0, "test", move || {
        Box::pin(async move {
            test(here).await;
            ended.send(()).unwrap();
        })
    });
    wait.recv().expect("the test ends without a panic");
    env.shutdown();
}

#[test]
fn a_taken_number_is_told_from_ones_own() {
    with_env(async |env| {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let log = ObjectLog::new(env, Arc::clone(&objects), "db", 1 << 20, Duration::ZERO);
        let shared = &log.0;
        let mine = content::fence("db", 7, 1);
        assert_eq!(shared.put(1, &mine).await, Ok(Put::Done));
        // As after an answer that was lost.
        assert_eq!(shared.put(1, &mine).await, Ok(Put::Done));
        let other = content::fence("db", 8, 1);
        assert_eq!(shared.put(1, &other).await, Ok(Put::Taken));
        assert_eq!(shared.numbers().await, Ok(vec![1]));
        assert_eq!(log.truncate(0).await, Ok(0));
        // No manifest says that its rows are in files.
        assert_eq!(log.truncate_written(1).await, Ok(0));
        assert_eq!(log.truncate(1).await, Ok(1));
        assert_eq!(shared.numbers().await, Ok(vec![]));
    });
}

#[test]
fn young_objects_stay() {
    with_env(async |env| {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let log = ObjectLog::new(env, objects, "db", 1 << 20, Duration::from_secs(3600));
        log.0.put(1, &content::fence("db", 7, 1)).await.unwrap();
        assert_eq!(log.truncate(1).await, Ok(0));
    });
}
