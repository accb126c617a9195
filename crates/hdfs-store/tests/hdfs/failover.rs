//! The store while NameNodes and DataNodes die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cadastre_env::{Env, RealEnv};
use cadastre_hdfs_store::HdfsStore;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use tokio::sync::mpsc;

use crate::basics::{Test, empty, left_behind, pattern, store, with};
use crate::pair::{Pair, REST_MS};

/// In order.
pub(crate) const ALL: &[(&str, Test)] = &[
    ("store: a paused NameNode", |pair| Box::pin(paused(pair))),
    ("store: DataNodes elsewhere", |pair| {
        Box::pin(datanodes(pair))
    }),
    ("store: load", |pair| Box::pin(load(pair))),
];

/// Failovers in CI; `CADASTRE_HDFS_FAILOVERS` for more.
const FAILOVERS: u32 = 2;

const WRITERS: usize = 6;

/// Time of a call in these tests, ms.
const CALL_MS: u64 = 3000;

/// A call to a NameNode that stands still ends, and the other one is asked.
async fn paused(pair: Pair) {
    let store = with(&pair, "paused", pair.engine(CALL_MS), None).await;
    empty(&store).await;
    let path = Path::from("x");
    store.put(&path, "before".into()).await.unwrap();
    let active = pair.active().await;
    pair.script("pause", active).await;
    // By hand, since the paused one cannot be asked.
    pair.make_active(1 - active).await;
    let began = pair.now();
    store.put(&path, "after".into()).await.unwrap();
    let took = pair.now() - began;
    pair.tell(&format!("a put took {} ms", took.as_millis()));
    assert!(took < Duration::from_millis(CALL_MS) + Duration::from_secs(20));
    // Two would be active if it went on: nothing fences it here.
    pair.script("kill", active).await;
    pair.restart(active).await;
    assert_eq!(
        store.get(&path).await.unwrap().bytes().await.unwrap(),
        "after"
    );
}

/// DataNodes that come back under other addresses: what is remembered of a file's blocks is looked for anew.
async fn datanodes(pair: Pair) {
    let store = store(&pair, "datanodes").await;
    empty(&store).await;
    let path = Path::from("x");
    let data = pattern(100_000, 3);
    store.put(&path, data.clone().into()).await.unwrap();
    assert!(store.get_range(&path, 10..20).await.unwrap() == data[10..20]);
    pair.script("killdn", 0).await;
    assert!(store.get_range(&path, 10..20).await.is_err());
    pair.script("restartdn", 0).await;
    let began = pair.now();
    // SlateDB asks again as we do here.
    while store.get_range(&path, 10..20).await.is_err() {
        assert!(
            pair.now() - began < Duration::from_secs(60),
            "they do not come back"
        );
        pair.sleep(100).await;
    }
    while store.put(&path, "again".into()).await.is_err() {
        assert!(
            pair.now() - began < Duration::from_secs(120),
            "nothing can be written"
        );
        pair.sleep(100).await;
    }
    assert_eq!(
        store.get(&path).await.unwrap().bytes().await.unwrap(),
        "again"
    );
}

/// Each writer puts number after number if absent, as a log does: it alone does, so it must never hear that one is there.
async fn numbers(
    pair: Pair,
    store: HdfsStore<RealEnv>,
    writer: usize,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let path = Path::from(format!("{writer}/{number:08}"));
        let began = pair.now();
        let payload = format!("{writer} {number}").into();
        let put = store.put_opts(&path, payload, PutMode::Create.into()).await;
        put.unwrap_or_else(|error| panic!("{path}: {error}"));
        let took = (pair.now() - began).as_millis() as u64;
        counts.longest_ms.fetch_max(took, Ordering::Relaxed);
        counts.done.fetch_add(1, Ordering::Relaxed);
        number += 1;
        pair.sleep(REST_MS).await;
    }
}

#[derive(Default)]
struct Counts {
    done: AtomicU64,
    longest_ms: AtomicU64,
    ended: AtomicU64,
}

async fn load(pair: Pair) {
    let failovers = std::env::var("CADASTRE_HDFS_FAILOVERS");
    let failovers = failovers.map_or(FAILOVERS, |text| text.parse().unwrap());
    let first = with(&pair, "load", pair.engine(CALL_MS), None).await;
    empty(&first).await;
    let counts: Arc<Counts> = Arc::default();
    let stop: Arc<AtomicBool> = Arc::default();
    let (ended, mut ends) = mpsc::channel::<()>(1);
    for writer in 0..WRITERS {
        let working = numbers(
            pair.clone(),
            first.clone(),
            writer,
            Arc::clone(&counts),
            Arc::clone(&stop),
        );
        let (ended, counts) = (ended.clone(), Arc::clone(&counts));
        pair.env.spawn("writer", async move {
            working.await;
            counts.ended.fetch_add(1, Ordering::Relaxed);
            drop(ended);
        });
    }
    drop(ended);
    for round in 0..failovers {
        pair.sleep(500).await;
        counts.longest_ms.store(0, Ordering::Relaxed);
        let began = pair.now();
        let active = pair.active().await;
        pair.script("kill", active).await;
        pair.make_active(1 - active).await;
        let without = pair.now() - began;
        pair.restart(active).await;
        pair.sleep(500).await;
        pair.tell(&format!(
            "kill {round}: {} ms without an active NameNode, longest put {} ms, {} so far",
            without.as_millis(),
            counts.longest_ms.load(Ordering::Relaxed),
            counts.done.load(Ordering::Relaxed)
        ));
    }
    stop.store(true, Ordering::Relaxed);
    assert!(ends.recv().await.is_none());
    assert_eq!(
        counts.ended.load(Ordering::Relaxed),
        WRITERS as u64,
        "a writer failed"
    );
    // Every number is there, with its writer's bytes, and nothing else.
    let mut there = 0;
    for writer in 0..WRITERS {
        let prefix = Path::from(writer.to_string());
        let level = first.list_with_delimiter(Some(&prefix)).await.unwrap();
        for (number, object) in level.objects.iter().enumerate() {
            assert_eq!(object.location, Path::from(format!("{writer}/{number:08}")));
            let bytes = first
                .get(&object.location)
                .await
                .unwrap()
                .bytes()
                .await
                .unwrap();
            assert_eq!(bytes, format!("{writer} {number}"));
            there += 1;
        }
    }
    assert_eq!(there, counts.done.load(Ordering::Relaxed));
    let left = left_behind(&pair, "load").await;
    pair.tell(&format!("{there} puts, {left} files without a name"));
}
