//! Rules of the simulated bucket.

use std::sync::atomic::{AtomicBool, Ordering};

use object_store::{ObjectStoreExt, PutMode, UpdateVersion};

use super::*;
use crate::{DiskStore, Fault, World, WorldConfig};

/// Runs one node's program to its end.
fn on_a_node<F: Future<Output = ()> + 'static>(
    program: impl Fn(SimEnv, Bucket) -> F + Clone + 'static,
) {
    let mut world = World::new(7, WorldConfig::default());
    let bucket = Bucket::new(&world, "test", BucketConfig::default());
    let done = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&done);
    let node = world.add_node("node", move |env| {
        let (program, bucket, tell) = (program.clone(), bucket.clone(), Arc::clone(&tell));
        Box::pin(async move {
            program(env, bucket).await;
            tell.store(true, Ordering::Relaxed);
        })
    });
    world.apply(&Fault::Start { node });
    world.run_for(Duration::from_secs(60)).unwrap();
    assert!(done.load(Ordering::Relaxed), "the program ended");
}

async fn contract(store: Arc<dyn ObjectStore>, compares: bool) {
    let at = |path: &str| Path::from(path);
    let first = store.put(&at("a/1"), "one".into()).await.unwrap();
    store.put(&at("a/b/2"), "two".into()).await.unwrap();
    store.put(&at("ab/3"), "three".into()).await.unwrap();
    let again = store
        .put_opts(&at("a/1"), "x".into(), PutMode::Create.into())
        .await;
    assert!(
        matches!(again, Err(Error::AlreadyExists { .. })),
        "{again:?}"
    );
    let update = PutMode::Update(UpdateVersion {
        e_tag: first.e_tag.clone(),
        version: None,
    });
    let updated = store
        .put_opts(&at("a/1"), "uno".into(), update.clone().into())
        .await;
    let stale = store
        .put_opts(&at("a/1"), "eins".into(), update.into())
        .await;
    if compares {
        updated.unwrap();
        assert!(
            matches!(stale, Err(Error::Precondition { .. })),
            "{stale:?}"
        );
        let got = store.get(&at("a/1")).await.unwrap().bytes().await.unwrap();
        assert_eq!(got, "uno");
    } else {
        assert!(matches!(stale, Err(Error::NotImplemented { .. })));
    }
    let found: Vec<String> = store
        .list(Some(&at("a")))
        .map(|meta| meta.unwrap().location.to_string())
        .collect()
        .await;
    assert_eq!(found, ["a/1", "a/b/2"]);
    let level = store.list_with_delimiter(Some(&at("a"))).await.unwrap();
    assert_eq!(level.common_prefixes, [at("a/b")]);
    assert_eq!(level.objects.len(), 1);
    let part = store.get_range(&at("ab/3"), 1..3).await.unwrap();
    assert_eq!(part, "hr");
    let mut upload = store.put_multipart(&at("big")).await.unwrap();
    upload.put_part("part one, ".into()).await.unwrap();
    upload.put_part("part two".into()).await.unwrap();
    assert!(
        store.head(&at("big")).await.is_err(),
        "not before it is complete"
    );
    upload.complete().await.unwrap();
    assert_eq!(store.head(&at("big")).await.unwrap().size, 18);
    store.delete(&at("big")).await.unwrap();
    let gone = store.get(&at("big")).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone:?}");
}

#[test]
fn the_bucket_keeps_the_contract() {
    on_a_node(|env, bucket| async move { contract(Arc::new(bucket.store(&env)), true).await });
}

#[test]
fn the_disk_store_keeps_the_contract_of_a_local_directory() {
    on_a_node(
        |env, _| async move { contract(Arc::new(DiskStore::new(env, "objects")), false).await },
    );
}

#[test]
fn attributes_are_kept() {
    on_a_node(|env, bucket| async move {
        let store = bucket.store(&env);
        let mut attributes = object_store::Attributes::new();
        attributes.insert(object_store::Attribute::ContentType, "text".into());
        let options = PutOptions {
            attributes: attributes.clone(),
            ..PutOptions::default()
        };
        let at = Path::from("a");
        store.put_opts(&at, "x".into(), options).await.unwrap();
        assert_eq!(store.get(&at).await.unwrap().attributes, attributes);
    });
}

#[test]
fn what_a_dying_node_has_sent_is_lost_or_lands_later() {
    let mut outcomes = BTreeMap::new();
    for seed in 0..60 {
        let mut world = World::new(seed, WorldConfig::default());
        let bucket = Bucket::new(&world, "test", BucketConfig::default());
        let theirs = bucket.clone();
        let node = world.add_node("node", move |env| {
            let store = theirs.store(&env);
            Box::pin(async move {
                store.put(&Path::from("a"), "x".into()).await.unwrap();
                panic!("answered after its end");
            })
        });
        world.apply(&Fault::Start { node });
        // Before the shortest request leg has passed.
        world.run_for(Duration::from_micros(100)).unwrap();
        world.apply(&Fault::Crash { node });
        let there = |bucket: &Bucket| bucket.data().objects.find(&Path::from("a")).is_ok();
        assert!(!there(&bucket), "not yet");
        world.run_for(Duration::from_secs(1)).unwrap();
        *outcomes.entry(there(&bucket)).or_insert(0) += 1;
    }
    assert!(
        outcomes[&true] > 10 && outcomes[&false] > 10,
        "{outcomes:?}"
    );
}
