//! Each operation, what it asks of the NameNode, and who wins.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cadastre_env::RealEnv;
use cadastre_hdfs_store::{HdfsStore, HdfsStoreConfig};
use cadastre_rpc::ha::config::Conf;
use cadastre_rpc::ha::{Engine, Engines, Event, Events, Source, create_proxy};
use cadastre_rpc::hadoop::CLIENT_PROTOCOL;
use cadastre_wire::hadoop::{User, pb};
use futures::future::{BoxFuture, join_all};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutPayload, Result,
};

use crate::pair::{Losing, NS, Pair};

pub(crate) type Test = fn(Pair) -> BoxFuture<'static, ()>;

/// In order.
pub(crate) const ALL: &[(&str, Test)] = &[
    ("store: calls", |pair| Box::pin(calls(pair))),
    ("store: bytes", |pair| Box::pin(bytes(pair))),
    ("store: names", |pair| Box::pin(names(pair))),
    ("store: uploads", |pair| Box::pin(uploads(pair))),
    ("store: refusals", |pair| Box::pin(refusals(pair))),
    ("store: one winner", |pair| Box::pin(one_winner(pair))),
    ("store: answers lost", |pair| Box::pin(answers_lost(pair))),
];

/// A store in an empty folder.
pub(crate) async fn store(pair: &Pair, folder: &str) -> HdfsStore<RealEnv> {
    with(pair, folder, pair.engine(10_000), None).await
}

pub(crate) async fn with(
    pair: &Pair,
    folder: &str,
    engine: Arc<dyn Engine>,
    events: Option<Events>,
) -> HdfsStore<RealEnv> {
    let uri = format!("hdfs://{NS}");
    let (engines, user, conf) = (Engines::new(engine), User::new("root"), pair.conf());
    let source = Source::Uri(&uri);
    let created = create_proxy(
        &pair.env,
        &conf,
        source,
        &CLIENT_PROTOCOL,
        &user,
        &engines,
        events,
    );
    let config = HdfsStoreConfig {
        root: format!("/store/{folder}"),
        ..HdfsStoreConfig::default()
    };
    let caller = created.await.unwrap().proxy;
    HdfsStore::open(pair.env.clone(), caller, config)
        .await
        .unwrap()
}

/// Whatever an earlier run left.
pub(crate) async fn empty(store: &dyn ObjectStore) {
    let all: Vec<Result<Path>> = store
        .delete_stream(store.list(None).map_ok(|object| object.location).boxed())
        .collect()
        .await;
    all.into_iter().collect::<Result<Vec<_>>>().unwrap();
}

/// Bytes that are not the same at any two places near each other.
pub(crate) fn pattern(len: usize, salt: u8) -> Bytes {
    let byte = |at: usize| {
        (at as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes()[2]
            ^ salt
    };
    (0..len).map(byte).collect::<Vec<u8>>().into()
}

fn names_of_calls() -> (Events, Arc<Mutex<Vec<&'static str>>>) {
    let seen: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let here = Arc::clone(&seen);
    let events: Events = Arc::new(move |event: &Event<'_>| {
        if let Event::Try { call, .. } = event {
            here.lock().unwrap().push(call.method.name);
        }
    });
    (events, seen)
}

/// Every call to a NameNode is the proxy's, and there are no more than these.
async fn calls(pair: Pair) {
    // By way of the standby if there must be a way; not counted here.
    store(&pair, "calls").await;
    let (events, seen) = names_of_calls();
    let store = with(&pair, "calls", pair.engine(10_000), Some(events)).await;
    empty(&store).await;
    let path = Path::from("d/object");
    store.put(&path, "first".into()).await.unwrap();
    pair.sleep(200).await;
    seen.lock().unwrap().clear();
    let taken = || std::mem::take(&mut *seen.lock().unwrap());
    store.put(&path, "again".into()).await.unwrap();
    assert_eq!(taken(), ["create", "addBlock", "complete", "rename2"]);
    let other = Path::from("d/other");
    let create = PutMode::Create.into();
    store.put_opts(&other, "once".into(), create).await.unwrap();
    assert_eq!(taken(), ["create", "addBlock", "complete", "rename2"]);
    assert_eq!(
        store.get(&path).await.unwrap().bytes().await.unwrap(),
        "again"
    );
    assert_eq!(taken(), ["getLocatedFileInfo"]);
    assert_eq!(store.get_range(&path, 1..3).await.unwrap(), "ga");
    assert_eq!(taken(), [""; 0], "where the blocks are is known");
    assert_eq!(store.head(&path).await.unwrap().size, 5);
    assert_eq!(taken(), ["getFileInfo"]);
    assert_eq!(store.list(None).count().await, 2);
    assert_eq!(taken(), ["getListing", "getListing"]);
    store.delete(&path).await.unwrap();
    assert_eq!(taken(), ["delete"]);
    let again = store.put_opts(&other, "twice".into(), PutMode::Create.into());
    assert!(matches!(again.await, Err(Error::AlreadyExists { .. })));
    assert_eq!(
        taken(),
        [
            "create",
            "addBlock",
            "complete",
            "rename2", // which is refused
            "msync",
            "getFileInfo",
            "getFileInfo", // by whom
            "delete"
        ]
    );
    store.put(&path, PutPayload::default()).await.unwrap();
    assert_eq!(taken(), ["create", "complete", "rename2"], "no block");
}

async fn bytes(pair: Pair) {
    let store = store(&pair, "bytes").await;
    empty(&store).await;
    for (at, len) in [0, 1, 511, 512, 513, 65_536, 65_537, 3_000_001]
        .into_iter()
        .enumerate()
    {
        let path = Path::from(format!("size-{len}"));
        let data = pattern(len, at as u8);
        // In pieces, as SlateDB gives it.
        let half = data.len() / 2;
        let pieces: PutPayload = [data.slice(..half), data.slice(half..)]
            .into_iter()
            .collect();
        store.put(&path, pieces).await.unwrap();
        let got = store.get(&path).await.unwrap();
        assert_eq!(got.meta.size, len as u64);
        assert!(got.bytes().await.unwrap() == data, "{len}");
        let ranges = [
            0..1_u64,
            10..11,
            500..600,
            65_530..65_540,
            2_999_999..3_000_001,
        ];
        let inside: Vec<Range<u64>> = ranges.into_iter().filter(|r| r.end <= len as u64).collect();
        for (range, got) in inside
            .iter()
            .zip(store.get_ranges(&path, &inside).await.unwrap())
        {
            let wanted = &data[range.start as usize..range.end as usize];
            assert!(got == wanted, "{len} {range:?}");
        }
    }
    let path = Path::from("size-513");
    let ranged = async |range: GetRange| {
        let options = GetOptions {
            range: Some(range),
            ..GetOptions::default()
        };
        store.get_opts(&path, options).await?.bytes().await
    };
    let data = pattern(513, 4);
    assert!(ranged(GetRange::Suffix(5)).await.unwrap() == data[508..]);
    assert!(ranged(GetRange::Offset(500)).await.unwrap() == data[500..]);
    // What there is of it, as other stores do.
    assert!(ranged(GetRange::Bounded(510..600)).await.unwrap() == data[510..]);
    assert!(ranged(GetRange::Bounded(513..600)).await.is_err());
    // Overwritten: whole reads see it at once, and so do ranges of this client.
    store.put(&path, "new".into()).await.unwrap();
    assert_eq!(store.get_range(&path, 0..3).await.unwrap(), "new");
    let missing = store.get(&Path::from("none")).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })));
}

async fn names(pair: Pair) {
    let store = store(&pair, "names").await;
    empty(&store).await;
    for name in ["b/2", "a", "b/1", "b.c", "b/d/3", "c/x", "b/d/e/4"] {
        store.put(&Path::from(name), name.into()).await.unwrap();
    }
    let listed = async |prefix: Option<&str>, offset: Option<&str>| {
        let prefix = prefix.map(Path::from);
        let found = match offset {
            None => store.list(prefix.as_ref()),
            Some(offset) => store.list_with_offset(prefix.as_ref(), &Path::from(offset)),
        };
        let found: Vec<_> = found.try_collect().await.unwrap();
        let names = found.into_iter().map(|object| object.location.to_string());
        names.collect::<Vec<String>>()
    };
    let all = ["a", "b/1", "b/2", "b/d/3", "b/d/e/4", "b.c", "c/x"];
    assert_eq!(listed(None, None).await, all);
    assert_eq!(listed(Some("b"), None).await, all[1..5]);
    assert_eq!(listed(Some("b"), Some("b/1")).await, all[2..5]);
    assert_eq!(listed(Some("b/d"), Some("b/d/3")).await, ["b/d/e/4"]);
    assert_eq!(listed(None, Some("b/2")).await, ["b/d/3", "b/d/e/4", "c/x"]);
    assert_eq!(listed(Some("none"), None).await, [""; 0]);
    // An object is not below itself.
    assert_eq!(listed(Some("a"), None).await, [""; 0]);
    let level = store
        .list_with_delimiter(Some(&Path::from("b")))
        .await
        .unwrap();
    let objects: Vec<_> = level
        .objects
        .iter()
        .map(|o| o.location.to_string())
        .collect();
    assert_eq!(
        (objects, level.common_prefixes),
        (
            vec!["b/1".to_owned(), "b/2".to_owned()],
            vec![Path::from("b/d")]
        )
    );
    let level = store.list_with_delimiter(None).await.unwrap();
    assert_eq!(level.common_prefixes, [Path::from("b"), Path::from("c")]);
    assert!(matches!(
        store.delete(&Path::from("none")).await,
        Err(Error::NotFound { .. })
    ));
    // A folder is no object.
    assert!(matches!(
        store.head(&Path::from("b")).await,
        Err(Error::NotFound { .. })
    ));
    assert!(matches!(
        store.delete(&Path::from("b")).await,
        Err(Error::NotFound { .. })
    ));
    // With the last objects of a stream their folders go, and can be made again.
    empty(&store).await;
    let level = store.list_with_delimiter(None).await.unwrap();
    assert_eq!(level.common_prefixes, []);
    store
        .put(&Path::from("b/d/e/4"), "again".into())
        .await
        .unwrap();
    assert_eq!(listed(None, None).await, ["b/d/e/4"]);
}

async fn uploads(pair: Pair) {
    let store = store(&pair, "uploads").await;
    empty(&store).await;
    let path = Path::from("large");
    // Two blocks and a bit, in parts that are no blocks; and the parts are waited for in the wrong order.
    let data = pattern(37 << 20, 7);
    let mut upload = store.put_multipart(&path).await.unwrap();
    let parts: Vec<_> = (0..37)
        .map(|at| data.slice(at << 20..(at + 1) << 20))
        .collect();
    let mut waits: Vec<_> = parts
        .into_iter()
        .map(|part| upload.put_part(part.into()))
        .collect();
    waits.reverse();
    for part in join_all(waits).await {
        part.unwrap();
    }
    assert!(
        matches!(store.head(&path).await, Err(Error::NotFound { .. })),
        "not before it is complete"
    );
    upload.complete().await.unwrap();
    assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == data);
    let across = (16 << 20) - 100..(32 << 20) + 100;
    let got = store
        .get_range(&path, across.start..across.end)
        .await
        .unwrap();
    assert!(
        got == data[across.start as usize..across.end as usize],
        "over three blocks"
    );
    let mut given_up = store.put_multipart(&path).await.unwrap();
    given_up.put_part("not this".into()).await.unwrap();
    given_up.abort().await.unwrap();
    assert_eq!(store.head(&path).await.unwrap().size, 37 << 20);
    assert_eq!(left_behind(&pair, "uploads").await, 0);
}

/// Files without a name.
pub(crate) async fn left_behind(pair: &Pair, folder: &str) -> u64 {
    use cadastre_rpc::hadoop::ClientProtocol;
    let client = pair.client(&pair.conf(), pair.engine(10_000), None).await;
    let summary = client.get_content_summary(pb::GetContentSummaryRequestProto {
        path: format!("/store/{folder}/.cadastre-tmp"),
    });
    summary.await.unwrap().summary.file_count
}

async fn refusals(pair: Pair) {
    let store = store(&pair, "refusals").await;
    let path = Path::from("x");
    let update = PutMode::Update(object_store::UpdateVersion {
        e_tag: None,
        version: None,
    });
    let refused = store.put_opts(&path, "x".into(), update.into()).await;
    assert!(matches!(refused, Err(Error::NotImplemented { .. })));
    for bad in ["a:b", ".cadastre-tmp/x"] {
        let refused = store.put(&Path::from(bad), "x".into()).await;
        assert!(matches!(refused, Err(Error::NotSupported { .. })), "{bad}");
    }
    let refused = store.copy(&path, &path).await;
    assert!(matches!(refused, Err(Error::NotImplemented { .. })));
    let connect = async |uri: &str, conf: Conf| {
        let user = User::new("root");
        let connecting = HdfsStore::connect(pair.env.clone(), conf, uri, &user, None);
        connecting.await.unwrap_err().message().to_owned()
    };
    assert!(
        connect("s3://x", pair.conf())
            .await
            .contains("hdfs://nameservice")
    );
    assert!(
        connect("hdfs://peer-ns", pair.conf())
            .await
            .contains("folder")
    );
    let mut conf = pair.conf();
    conf.set("dfs.data.transfer.protection", "privacy", "test");
    assert!(connect("hdfs://peer-ns/x", conf).await.contains("SASL"));
}

/// Of writers that put one object if absent, exactly one wins, and the object is its.
async fn one_winner(pair: Pair) {
    let first = store(&pair, "winner").await;
    empty(&first).await;
    let second = store(&pair, "winner").await;
    for round in 0..10 {
        let path = Path::from(format!("p/{round}"));
        let put = async |at: usize| {
            let store = if at.is_multiple_of(2) {
                &first
            } else {
                &second
            };
            let payload = format!("{at}").into();
            store.put_opts(&path, payload, PutMode::Create.into()).await
        };
        let outcomes = join_all((0..8).map(put)).await;
        let won: Vec<usize> = (0..8).filter(|at| outcomes[*at].is_ok()).collect();
        assert_eq!(won.len(), 1, "{outcomes:?}");
        for outcome in outcomes.into_iter().filter_map(Result::err) {
            assert!(matches!(outcome, Error::AlreadyExists { .. }), "{outcome}");
        }
        let got = first.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(got, won[0].to_string());
    }
    assert_eq!(
        left_behind(&pair, "winner").await,
        0,
        "losers take theirs away"
    );
}

/// The same when every fifth answer of a NameNode is lost: whoever wins is told so.
async fn answers_lost(pair: Pair) {
    let losing = || Arc::new(Losing(pair.engine(10_000), 5));
    let first = with(&pair, "lost", losing(), None).await;
    let second = with(&pair, "lost", losing(), None).await;
    empty(&first).await;
    for round in 0..5 {
        let path = Path::from(format!("p/{round}"));
        let put = async |at: usize| {
            let store = if at.is_multiple_of(2) {
                &first
            } else {
                &second
            };
            let payload = format!("{at}").into();
            store.put_opts(&path, payload, PutMode::Create.into()).await
        };
        let outcomes = join_all((0..4).map(put)).await;
        let won: Vec<usize> = (0..4).filter(|at| outcomes[*at].is_ok()).collect();
        assert_eq!(won.len(), 1, "{outcomes:?}");
        let got = first.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(got, won[0].to_string());
    }
    assert_eq!(left_behind(&pair, "lost").await, 0);
}
