//! Rows of the decision table that real NameNodes produce.

use std::sync::{Arc, Mutex};

use cadastre_rpc::ha::config::Conf;
use cadastre_rpc::ha::policy::Class;
use cadastre_rpc::ha::{
    Call, CallIds, Engine, Event, Events, Failed, Invoker, Loss, LossyEngine, Target,
};
use cadastre_rpc::hadoop::{ClientProtocol, ClientProtocolClient};
use cadastre_types::Code;
use cadastre_wire::hadoop::pb;
use futures::future::BoxFuture;

use crate::pair::{Forgetful, NS, Pair, delete, exception, file, file_id, mkdirs, rename2};
use crate::relay::{Cut, Relay};

type Test = fn(Pair) -> BoxFuture<'static, ()>;

/// In order.
pub(crate) const ALL: &[(&str, Test)] = &[
    ("a session", |pair| Box::pin(session(pair))),
    ("standby", |pair| Box::pin(standby(pair))),
    ("standby for ever", |pair| Box::pin(endless_standby(pair))),
    ("hedging", |pair| Box::pin(hedging(pair))),
    ("safe mode", |pair| Box::pin(safe_mode(pair))),
    ("refusals", |pair| Box::pin(refusals(pair))),
    ("lossy", |pair| Box::pin(lossy(pair))),
    ("answer lost", |pair| Box::pin(answer_lost(pair))),
    ("answer lost, then another is active", |pair| {
        Box::pin(answer_lost_and_failed_over(pair))
    }),
    ("observer", |pair| Box::pin(observer(pair))),
    ("start-up safe mode", |pair| Box::pin(starting(pair))),
    ("killed", |pair| Box::pin(killed(pair))),
    ("paused", |pair| Box::pin(paused(pair))),
];

/// Classes of the failures that a proxy had.
fn classes() -> (Events, Arc<Mutex<Vec<Class>>>) {
    let seen: Arc<Mutex<Vec<Class>>> = Arc::default();
    let here = Arc::clone(&seen);
    let events: Events = Arc::new(move |event: &Event<'_>| {
        if let Event::Failed { failed, .. } = event {
            let all = failed.all().iter().map(|failure| failure.class);
            here.lock().unwrap().extend(all);
        }
    });
    (events, seen)
}

async fn ordinary(pair: &Pair) -> ClientProtocolClient {
    let (conf, engine) = (pair.conf(), pair.engine(10_000));
    pair.client(&conf, engine, None).await
}

/// The same configuration with these addresses in place of the NameNodes'.
fn through(pair: &Pair, relays: [&Relay; 2]) -> Conf {
    let mut conf = pair.conf();
    for (at, relay) in relays.iter().enumerate() {
        let key = format!("dfs.namenode.rpc-address.{NS}.nn{at}");
        conf.set(&key, &relay.at.to_string(), "test");
    }
    conf
}

async fn session(pair: Pair) {
    let client = ordinary(&pair).await;
    client.delete(delete("/rows")).await.unwrap();
    assert!(client.mkdirs(mkdirs("/rows/d")).await.unwrap().result);
    let id = file(&client, "/rows/d/f").await.unwrap();
    assert_eq!(file_id(&client, "/rows/d/f").await, Some(id));
    assert_eq!(file_id(&client, "/rows/none").await, None);
    let listing = client.get_listing(pb::GetListingRequestProto {
        src: "/rows/d".to_owned(),
        ..Default::default()
    });
    let listing = listing.await.unwrap().dir_list.unwrap();
    assert_eq!(listing.partial_listing[0].path, "f");
    client
        .rename2(rename2("/rows/d/f", "/rows/g"))
        .await
        .unwrap();
    assert_eq!(file_id(&client, "/rows/g").await, Some(id));
    assert!(client.delete(delete("/rows/g")).await.unwrap().result);
    assert!(!client.delete(delete("/rows/g")).await.unwrap().result);
    let defaults = client.get_server_defaults(pb::GetServerDefaultsRequestProto {});
    assert!(defaults.await.unwrap().server_defaults.block_size > 0);
    let stats = client.get_fs_stats(pb::GetFsStatusRequestProto {});
    assert!(stats.await.unwrap().capacity > 0);
    let summary = client.get_content_summary(pb::GetContentSummaryRequestProto {
        path: "/rows".to_owned(),
    });
    assert_eq!(summary.await.unwrap().summary.directory_count, 2);
    let report = client.get_datanode_report(pb::GetDatanodeReportRequestProto {
        r#type: pb::DatanodeReportTypeProto::Live as i32,
    });
    assert_eq!(report.await.unwrap().di.len(), 2);
}

async fn standby(pair: Pair) {
    // Whichever is first in order is the standby one after one of these.
    for _ in 0..2 {
        pair.fail_over().await;
        let (events, seen) = classes();
        let (conf, engine) = (pair.conf(), pair.engine(10_000));
        let client = pair.client(&conf, engine, Some(events)).await;
        assert!(client.mkdirs(mkdirs("/rows/s")).await.unwrap().result);
        let first_was_standby = pair.active().await == 1;
        let expected = if first_was_standby {
            vec![Class::Standby]
        } else {
            Vec::new()
        };
        assert_eq!(*seen.lock().unwrap(), expected);
        // Under a connection that is held.
        pair.fail_over().await;
        assert!(client.mkdirs(mkdirs("/rows/s")).await.unwrap().result);
        assert_eq!(seen.lock().unwrap().last(), Some(&Class::Standby));
        pair.fail_over().await;
    }
    // Nobody is active: the call waits, and goes on when somebody is.
    let client = ordinary(&pair).await;
    let active = pair.active().await;
    pair.make_standby(active).await;
    let call = client.mkdirs(mkdirs("/rows/waited"));
    let later = async {
        pair.sleep(1000).await;
        pair.make_active(active).await;
    };
    let (answer, ()) = futures::join!(call, later);
    assert!(answer.unwrap().result);
}

/// The wait for somebody to become active ends, and the error names both with what they said.
async fn endless_standby(pair: Pair) {
    let active = pair.active().await;
    pair.make_standby(active).await;
    let mut conf = pair.conf();
    conf.set("dfs.client.failover.max.attempts", "4", "test");
    let client = pair.client(&conf, pair.engine(10_000), None).await;
    let error = client.mkdirs(mkdirs("/rows/never")).await.unwrap_err();
    pair.make_active(active).await;
    assert_eq!(exception(&error), "org.apache.hadoop.ipc.StandbyException");
    assert!(
        error.message().contains("failovers (4) exceeded"),
        "{error}"
    );
    for at in [0, 1] {
        let state = format!(
            "{}: Operation category WRITE is not supported in state standby",
            pair.address(at)
        );
        assert!(error.message().contains(&state), "{error}");
    }
    assert_eq!(file_id(&client, "/rows/never").await, None);
}

async fn hedging(pair: Pair) {
    let mut conf = pair.conf();
    let key = format!("dfs.client.failover.proxy.provider.{NS}");
    conf.set(&key, "x.RequestHedgingProxyProvider", "test");
    let (events, seen) = classes();
    let client = pair.client(&conf, pair.engine(10_000), Some(events)).await;
    assert_eq!(file_id(&client, "/rows/none").await, None);
    assert!(client.mkdirs(mkdirs("/rows/h")).await.unwrap().result);
    assert!(seen.lock().unwrap().is_empty());
    pair.fail_over().await;
    assert!(client.mkdirs(mkdirs("/rows/h")).await.unwrap().result);
    assert_eq!(*seen.lock().unwrap(), [Class::Standby]);
    // The first call changes something: the active one is found first.
    let client = pair.client(&conf, pair.engine(10_000), None).await;
    let id = file(&client, "/rows/h/f").await.unwrap();
    assert_eq!(file_id(&client, "/rows/h/f").await, Some(id));
}

async fn safe_mode(pair: Pair) {
    let client = ordinary(&pair).await;
    let set = |action: pb::SafeModeActionProto| {
        client.set_safe_mode(pb::SetSafeModeRequestProto {
            action: action as i32,
            checked: Some(true),
        })
    };
    let enter = set(pb::SafeModeActionProto::SafemodeEnter);
    assert!(enter.await.unwrap().result);
    let error = client.mkdirs(mkdirs("/rows/safe")).await.unwrap_err();
    let class = "org.apache.hadoop.hdfs.server.namenode.SafeModeException";
    assert_eq!((error.code(), exception(&error)), (Code::Remote, class));
    assert!(error.message().contains("turned on manually"));
    // Reads work.
    assert!(file_id(&client, "/rows").await.is_some());
    set(pb::SafeModeActionProto::SafemodeLeave).await.unwrap();
    assert!(client.mkdirs(mkdirs("/rows/safe")).await.unwrap().result);
}

async fn refusals(pair: Pair) {
    let client = ordinary(&pair).await;
    let error = client.rename2(rename2("/rows/no", "/rows/x")).await;
    let error = error.unwrap_err();
    assert_eq!(exception(&error), "java.io.FileNotFoundException");
    file(&client, "/rows/one").await.unwrap();
    file(&client, "/rows/two").await.unwrap();
    let error = client.rename2(rename2("/rows/one", "/rows/two")).await;
    let class = "org.apache.hadoop.fs.FileAlreadyExistsException";
    assert_eq!(exception(&error.unwrap_err()), class);
    // A NameNode that is asked alone.
    let standby = 1 - pair.active().await;
    let alone = ClientProtocolClient::new(pair.one(standby, false).await);
    let error = alone.mkdirs(mkdirs("/rows/x")).await.unwrap_err();
    assert_eq!(exception(&error), "org.apache.hadoop.ipc.StandbyException");
    // A host without an address.
    let mut conf = pair.conf();
    for at in [0, 1] {
        let key = format!("dfs.namenode.rpc-address.{NS}.nn{at}");
        conf.set(&key, &format!("no-such-host-{at}.invalid:1"), "test");
    }
    conf.set("dfs.client.failover.max.attempts", "3", "test");
    let client = pair.client(&conf, pair.engine(10_000), None).await;
    let error = client.mkdirs(mkdirs("/rows/x")).await.unwrap_err();
    assert_eq!(error.code(), Code::NotSent);
    for at in ["no-such-host-0.invalid", "no-such-host-1.invalid"] {
        assert!(error.message().contains(at), "{error}");
    }
}

/// Every answer is lost once, in the two ways there are: what the NameNodes did, they did once.
async fn lossy(pair: Pair) {
    for (loss, name) in [(Loss::Retriable, "r"), (Loss::Connection, "c")] {
        let engine = Arc::new(LossyEngine::new(pair.engine(10_000), 2, loss));
        let client = pair.client(&pair.conf(), engine, None).await;
        let (from, to) = (format!("/rows/{name}"), format!("/rows/{name}2"));
        let id = file(&client, &from).await.unwrap();
        client.rename2(rename2(&from, &to)).await.unwrap();
        assert_eq!(file_id(&client, &to).await, Some(id));
        assert!(client.delete(delete(&to)).await.unwrap().result);
        assert_eq!(file_id(&client, &to).await, None);
    }
}

/// The connection is cut after the NameNode has done it and before its answer is through.
async fn answer_lost(pair: Pair) {
    let relays = [
        Relay::start(&pair, pair.address(0)).await,
        Relay::start(&pair, pair.address(1)).await,
    ];
    let (events, seen) = classes();
    let conf = through(&pair, [&relays[0], &relays[1]]);
    let client = pair.client(&conf, pair.engine(10_000), Some(events)).await;
    let id = file(&client, "/rows/lost").await.unwrap();
    let active = &relays[pair.active().await];
    seen.lock().unwrap().clear();
    active.set(Cut::Answer("rename2"));
    client
        .rename2(rename2("/rows/lost", "/rows/lost2"))
        .await
        .unwrap();
    assert_eq!(file_id(&client, "/rows/lost2").await, Some(id));
    let first = seen.lock().unwrap()[0];
    assert!(matches!(first, Class::Eof | Class::Socket), "{first:?}");
    active.set(Cut::Answer("delete"));
    assert!(client.delete(delete("/rows/lost2")).await.unwrap().result);
    // The control: with an id of its own for each try, the NameNode does not know that it was done.
    let engine = Arc::new(Forgetful(pair.engine(10_000)));
    let client = pair.client(&conf, engine, None).await;
    file(&client, "/rows/lost").await.unwrap();
    active.set(Cut::Answer("rename2"));
    let error = client.rename2(rename2("/rows/lost", "/rows/lost2")).await;
    let error = error.unwrap_err();
    assert_eq!(exception(&error), "java.io.FileNotFoundException");
}

/// As before, and the one that did it is not reached any more: the other one, become active, knows that it was done.
async fn answer_lost_and_failed_over(pair: Pair) {
    let relays = [
        Relay::start(&pair, pair.address(0)).await,
        Relay::start(&pair, pair.address(1)).await,
    ];
    let conf = through(&pair, [&relays[0], &relays[1]]);
    let client = pair.client(&conf, pair.engine(10_000), None).await;
    let id = file(&client, "/rows/moved").await.unwrap();
    let active = pair.active().await;
    relays[active].set(Cut::AnswerAndAll("rename2"));
    let rename = client.rename2(rename2("/rows/moved", "/rows/moved2"));
    let moves = async {
        while relays[active].cut() != Cut::All {
            pair.sleep(10).await;
        }
        pair.fail_over().await;
    };
    let (answer, ()) = futures::join!(rename, moves);
    answer.unwrap();
    assert_eq!(file_id(&client, "/rows/moved2").await, Some(id));
    // Nobody left who could be asked: unknown, not failed.
    let active = pair.active().await;
    relays[1 - active].set(Cut::All);
    relays[active].set(Cut::AnswerAndAll("delete"));
    let mut short = through(&pair, [&relays[0], &relays[1]]);
    short.set("dfs.client.failover.max.attempts", "3", "test");
    let client = pair.client(&short, pair.engine(10_000), None).await;
    let error = client.delete(delete("/rows/moved2")).await.unwrap_err();
    assert_eq!(error.code(), Code::OutcomeUnknown, "{error}");
    assert_eq!(file_id(&ordinary(&pair).await, "/rows/moved2").await, None);
}

/// Reads go to the third NameNode, and never show less than this client has written.
async fn observer(pair: Pair) {
    let mut conf = pair.conf();
    let key = |name: &str| format!("{name}.{NS}");
    let provider = "x.ObserverReadProxyProvider";
    conf.set(&key("dfs.client.failover.proxy.provider"), provider, "test");
    conf.set(&key("dfs.ha.namenodes"), "nn0,nn1,nn2", "test");
    let observer = pair.address(2).to_string();
    let reads: Arc<Mutex<Vec<String>>> = Arc::default();
    let here = Arc::clone(&reads);
    let noted = Arc::new(Noting(pair.engine(10_000), here));
    let client = pair.client(&conf, noted, None).await;
    for round in 0..20 {
        let src = format!("/rows/o{round}");
        let id = file(&client, &src).await.unwrap();
        reads.lock().unwrap().clear();
        assert_eq!(
            file_id(&client, &src).await,
            Some(id),
            "it shows what was written"
        );
        let asked = reads.lock().unwrap().clone();
        assert_eq!(
            asked.last(),
            Some(&format!("getFileInfo {observer}")),
            "{asked:?}"
        );
    }
    // The active one changes: writes follow, reads stay.
    pair.fail_over().await;
    let id = file(&client, "/rows/after").await.unwrap();
    assert_eq!(file_id(&client, "/rows/after").await, Some(id));
    // A client that is not aligned is sent away by the observer, and served by the active one.
    let mut plain = pair.conf();
    plain.set(&key("dfs.ha.namenodes"), "nn2,nn0,nn1", "test");
    let (events, seen) = classes();
    let client = pair.client(&plain, pair.engine(10_000), Some(events)).await;
    assert_eq!(file_id(&client, "/rows/after").await, Some(id));
    assert_eq!(seen.lock().unwrap()[0], Class::Standby);
}

/// Notes which server each method was sent to.
struct Noting(Arc<dyn Engine>, Arc<Mutex<Vec<String>>>);

impl Engine for Noting {
    fn name(&self) -> &'static str {
        "noting"
    }

    fn ids(&self) -> CallIds {
        self.0.ids()
    }

    fn proxy(&self, target: Target) -> cadastre_types::Result<Arc<dyn Invoker>> {
        Ok(Arc::new(Notes(self.0.proxy(target)?, Arc::clone(&self.1))))
    }
}

struct Notes(Arc<dyn Invoker>, Arc<Mutex<Vec<String>>>);

impl Invoker for Notes {
    fn name(&self) -> &Arc<str> {
        self.0.name()
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<bytes::Bytes, Failed>> {
        let text = format!("{} {}", call.method.name, self.name());
        self.1.lock().unwrap().push(text);
        self.0.invoke(call)
    }
}

/// An active NameNode whose blocks are not reported yet says `RetriableException`: it is asked again, and does it once the DataNodes are there.
async fn starting(pair: Pair) {
    let client = ordinary(&pair).await;
    let active = pair.active().await;
    pair.script_with("put", "/rows/block").await;
    // A NameNode that starts waits for the blocks of whole segments only.
    let rolled = client.roll_edits(pb::RollEditsRequestProto {}).await;
    assert!(rolled.unwrap().new_segment_tx_id > 0);
    pair.script("killdn", 0).await;
    pair.script("kill", active).await;
    pair.script("kill", 1 - active).await;
    pair.restart(active).await;
    pair.make_active(active).await;
    let (events, seen) = classes();
    let mut conf = pair.conf();
    conf.set("dfs.client.retry.max.attempts", "1000", "test");
    conf.set("dfs.client.failover.sleep.max.millis", "200", "test");
    let waiting = pair.client(&conf, pair.engine(10_000), Some(events)).await;
    let call = waiting.mkdirs(mkdirs("/rows/started"));
    let reports = async {
        for _ in 0..500 {
            pair.sleep(20).await;
            if seen.lock().unwrap().contains(&Class::Retriable) {
                break;
            }
        }
        assert!(seen.lock().unwrap().contains(&Class::Retriable));
        pair.script("restartdn", 0).await;
    };
    let (answer, ()) = futures::join!(call, reports);
    assert!(answer.unwrap().result);
    pair.restart(1 - active).await;
    assert!(file_id(&client, "/rows/started").await.is_some());
}

async fn killed(pair: Pair) {
    let (events, seen) = classes();
    let (conf, engine) = (pair.conf(), pair.engine(10_000));
    let client = pair.client(&conf, engine, Some(events)).await;
    let id = file(&client, "/rows/kill").await.unwrap();
    let active = pair.active().await;
    seen.lock().unwrap().clear();
    pair.script("kill", active).await;
    let rename = client.rename2(rename2("/rows/kill", "/rows/kill2"));
    let (answer, ()) = futures::join!(rename, pair.make_active(1 - active));
    answer.unwrap();
    assert_eq!(file_id(&client, "/rows/kill2").await, Some(id));
    // Found at once, by the end of the connection or by the next one's refusal.
    assert_ne!(seen.lock().unwrap().len(), 0);
    pair.restart(active).await;
    // What is refused is refused at once.
    let client = ordinary(&pair).await;
    assert!(client.mkdirs(mkdirs("/rows/kill3")).await.unwrap().result);
}

/// Stopped with SIGSTOP: it takes connections, and never answers. A time-out finds it; fencing is a kill, as `sshfence` would.
async fn paused(pair: Pair) {
    let (events, seen) = classes();
    let (conf, engine) = (pair.conf(), pair.engine(1500));
    let client = pair.client(&conf, engine, Some(events)).await;
    let id = file(&client, "/rows/pause").await.unwrap();
    let active = pair.active().await;
    seen.lock().unwrap().clear();
    pair.script("pause", active).await;
    let rename = client.rename2(rename2("/rows/pause", "/rows/pause2"));
    let fences = async {
        pair.sleep(500).await;
        pair.script("kill", active).await;
        pair.make_active(1 - active).await;
    };
    let (answer, ()) = futures::join!(rename, fences);
    answer.unwrap();
    assert_eq!(file_id(&client, "/rows/pause2").await, Some(id));
    pair.restart(active).await;
    // Paused for longer than a call may take, with the other one active.
    let active = pair.active().await;
    seen.lock().unwrap().clear();
    pair.script("pause", active).await;
    let rename = client.rename2(rename2("/rows/pause2", "/rows/pause3"));
    let waits = async {
        while !seen.lock().unwrap().contains(&Class::CallTimeout) {
            pair.sleep(20).await;
        }
        pair.script("kill", active).await;
        pair.make_active(1 - active).await;
    };
    let (answer, ()) = futures::join!(rename, waits);
    answer.unwrap();
    assert_eq!(file_id(&client, "/rows/pause3").await, Some(id));
    pair.restart(active).await;
}
