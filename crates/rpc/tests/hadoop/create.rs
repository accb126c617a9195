//! `create_proxy` from a configuration, to sockets.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cadastre_env::RealEnv;
use cadastre_rpc::ha::config::Conf;
use cadastre_rpc::ha::{
    Created, Engine, Engines, Event, Events, Invoker, Protocol, Source, Target, create_proxy,
};
use cadastre_rpc::hadoop::{
    CLIENT_PROTOCOL, ClientProtocol, ClientProtocolClient, HA_SERVICE_PROTOCOL, NAMENODE_PROTOCOL,
};
use cadastre_types::{Code, Result};
use cadastre_wire::encode;
use cadastre_wire::hadoop::{Outcome, Request, User, pb};

use crate::fake::{Do, Fake, STANDBY, engine, exception, run, standby};

fn conf(a: &Fake, b: &Fake, more: &[(&str, &str)]) -> Conf {
    let provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider";
    let mut conf = Conf::default();
    for (key, value) in [
        ("dfs.nameservices", "ns"),
        ("dfs.ha.namenodes.ns", "nn0,nn1"),
        ("dfs.namenode.rpc-address.ns.nn0", &*a.at.to_string()),
        ("dfs.namenode.rpc-address.ns.nn1", &*b.at.to_string()),
        ("dfs.client.failover.proxy.provider.ns", provider),
        ("dfs.client.failover.random.order", "false"),
        ("dfs.client.failover.sleep.base.millis", "1"),
        ("dfs.client.failover.sleep.max.millis", "2"),
    ]
    .iter()
    .chain(more)
    {
        conf.set(key, value, "hdfs-site.xml");
    }
    conf
}

async fn create(
    env: &RealEnv,
    conf: &Conf,
    uri: &str,
    protocol: &'static Protocol,
    events: Option<Events>,
) -> Result<Created> {
    let engines = Engines::new(Arc::new(engine(env, |_| {})));
    let user = User::new("alice");
    create_proxy(
        env,
        conf,
        Source::Uri(uri),
        protocol,
        &user,
        &engines,
        events,
    )
    .await
}

fn mkdirs(_: &Request) -> Do {
    let answer = pb::MkdirsResponseProto { result: true };
    Do::Say(Outcome::Success(encode(&answer)))
}

fn request() -> pb::MkdirsRequestProto {
    pb::MkdirsRequestProto {
        src: "/a".to_owned(),
        create_parent: true,
        ..Default::default()
    }
}

#[test]
fn a_typed_call_fails_over() {
    run(async |env| {
        let (a, b) = (
            Fake::start(&env, standby).await,
            Fake::start(&env, mkdirs).await,
        );
        let conf = conf(&a, &b, &[]);
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let here = Arc::clone(&told);
        let events: Events =
            Arc::new(move |event: &Event<'_>| here.lock().unwrap().push(event.to_string()));
        let created = create(&env, &conf, "hdfs://ns", &CLIENT_PROTOCOL, Some(events))
            .await
            .unwrap();
        assert_eq!(created.token_service.as_deref(), Some("ha-hdfs:ns"));
        assert_eq!(created.address.unwrap().to_string(), "ns:8020");
        let client = ClientProtocolClient::new(created.proxy);
        assert!(client.mkdirs(request()).await.unwrap().result);
        let (first, second) = (&a.seen().requests[0], &b.seen().requests[0]);
        assert_eq!(first.call_id, second.call_id);
        assert_eq!(first.client_id, second.client_id);
        assert_eq!((first.retry_count, second.retry_count), (0, 1));
        let told = told.lock().unwrap();
        let moved = format!("failed over from {} to {} (failover 1)", a.at, b.at);
        assert!(told.contains(&moved), "{told:?}");
    });
}

#[test]
fn standby_everywhere_is_told_with_both_names() {
    run(async |env| {
        let (a, b) = (
            Fake::start(&env, standby).await,
            Fake::start(&env, standby).await,
        );
        let conf = conf(&a, &b, &[("dfs.client.failover.max.attempts", "4")]);
        let created = create(&env, &conf, "hdfs://ns:8020/", &CLIENT_PROTOCOL, None);
        let client = ClientProtocolClient::new(created.await.unwrap().proxy);
        let error = client.mkdirs(request()).await.unwrap_err();
        let message = error.message();
        for says in [
            "failovers (4) exceeded maximum allowed (4)".to_owned(),
            format!("{}: {STANDBY} said so", a.at),
            format!("{}: {STANDBY} said so", b.at),
        ] {
            assert!(message.contains(&says), "{message}");
        }
        // Both before the first pause and after each of the three, but for the last, which ends the call.
        assert_eq!(a.seen().requests.len() + b.seen().requests.len(), 7);
    });
}

#[test]
fn one_server_is_tried_once() {
    run(async |env| {
        let a = Fake::start(&env, standby).await;
        let uri = format!("hdfs://{}", a.at);
        let conf = Conf::default();
        let created = create(&env, &conf, &uri, &CLIENT_PROTOCOL, None)
            .await
            .unwrap();
        assert_eq!(created.token_service, Some(a.at.to_string()));
        assert_eq!(created.address, Some(a.at.clone()));
        let client = ClientProtocolClient::new(created.proxy);
        let error = client.mkdirs(request()).await.unwrap_err();
        assert_eq!(error.code(), Code::Remote);
        assert_eq!(a.seen().requests.len(), 1);
        for protocol in [&NAMENODE_PROTOCOL, &HA_SERVICE_PROTOCOL] {
            let created = create(&env, &conf, &uri, protocol, None).await.unwrap();
            assert_eq!(created.proxy.protocol().name, protocol.name);
        }
    });
}

#[test]
fn lost_answers_are_for_tests() {
    run(async |env| {
        let (a, b) = (
            Fake::start(&env, mkdirs).await,
            Fake::start(&env, standby).await,
        );
        let drop = ("dfs.client.test.drop.namenode.response.number", "2");
        let conf = conf(&a, &b, &[drop, ("dfs.client.retry.max.attempts", "0")]);
        let created = create(&env, &conf, "hdfs://ns", &CLIENT_PROTOCOL, None);
        let client = ClientProtocolClient::new(created.await.unwrap().proxy);
        assert!(client.mkdirs(request()).await.unwrap().result);
        let retries: Vec<i32> = (a.seen().requests.iter())
            .map(|request| request.retry_count)
            .collect();
        assert_eq!(retries, [0, 1, 2]);
    });
}

#[test]
fn an_object_handed_in_is_used() {
    run(async |env| {
        let a = Fake::start(&env, mkdirs).await;
        let uri = format!("hdfs://{}", a.at);
        let conf = Conf::default();
        let given = create(&env, &conf, &uri, &CLIENT_PROTOCOL, None)
            .await
            .unwrap();
        let engines = Engines::new(Arc::new(engine(&env, |_| {})));
        let user = User::new("alice");
        let hand_in = |protocol| {
            let source = Source::Given(Arc::clone(&given.proxy));
            create_proxy(&env, &conf, source, protocol, &user, &engines, None)
        };
        let created = hand_in(&CLIENT_PROTOCOL).await.unwrap();
        assert!(created.token_service.is_none() && created.address.is_none());
        let client = ClientProtocolClient::new(created.proxy);
        assert!(client.mkdirs(request()).await.unwrap().result);
        assert!(hand_in(&NAMENODE_PROTOCOL).await.is_err());
    });
}

static THIRD: Protocol = Protocol {
    name: "org.example.Third",
    interface: "org.example.ThirdPB",
    version: 1,
    methods: &[],
};

#[test]
fn what_cannot_be_used_is_refused_by_name() {
    run(async |env| {
        let (a, b) = (
            Fake::start(&env, standby).await,
            Fake::start(&env, standby).await,
        );
        let ha = conf(&a, &b, &[]);
        let plain = Conf::default();
        for (conf, uri, protocol, says) in [
            (&ha, "hdfs://ns:9000", &CLIENT_PROTOCOL, "no port"),
            (&plain, "hdfs://h", &THIRD, "org.example.Third"),
            (&plain, "http://h", &CLIENT_PROTOCOL, "scheme"),
            (&plain, "h:8020", &CLIENT_PROTOCOL, "no URI"),
        ] {
            let error = create(&env, conf, uri, protocol, None).await.err().unwrap();
            assert!(error.message().contains(says), "{error}");
        }
        // With failover configured, any protocol goes.
        let created = create(&env, &ha, "hdfs://ns", &THIRD, None).await;
        assert!(created.is_ok());
    });
}

/// A third engine, which answers by itself.
struct Local;

impl Engine for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn ids(&self) -> cadastre_rpc::ha::CallIds {
        cadastre_rpc::ha::CallIds::default()
    }

    fn proxy(&self, target: Target) -> Result<Arc<dyn Invoker>> {
        Ok(Arc::new(Here(target.address.to_string().into())))
    }
}

struct Here(Arc<str>);

impl Invoker for Here {
    fn name(&self) -> &Arc<str> {
        &self.0
    }

    fn invoke<'a>(
        &'a self,
        _: &'a cadastre_rpc::ha::Call,
    ) -> futures::future::BoxFuture<'a, std::result::Result<Bytes, cadastre_rpc::ha::Failed>> {
        Box::pin(async { Ok(encode(&pb::MkdirsResponseProto { result: true })) })
    }
}

#[test]
fn engines_are_chosen_by_protocol() {
    run(async |env| {
        let hadoop: Arc<dyn Engine> = Arc::new(engine(&env, |_| {}));
        let engines = || {
            Engines::new(Arc::clone(&hadoop))
                .with_hadoop(&hadoop)
                .with("LocalEngine", Arc::new(Local))
        };
        let key = "rpc.engine.org.apache.hadoop.hdfs.protocolPB.ClientNamenodeProtocolPB";
        let of = |class: &str| {
            let mut conf = Conf::default();
            conf.set(key, class, "core-site.xml");
            engines()
                .of(&CLIENT_PROTOCOL, &conf)
                .map(|engine| engine.name())
                .map_err(|error| error.message().to_owned())
        };
        assert_eq!(of("org.apache.hadoop.ipc.ProtobufRpcEngine2"), Ok("hadoop"));
        assert_eq!(of("org.example.LocalEngine"), Ok("local"));
        let error = of("org.apache.hadoop.ipc.WritableRpcEngine").unwrap_err();
        assert!(error.contains("core-site.xml") && error.contains("Writable"));
        assert!(of("x.Unknown").unwrap_err().contains("LocalEngine"));
        // The choice stays, and can be replaced.
        let registry = engines();
        let none = Conf::default();
        assert_eq!(
            registry.of(&CLIENT_PROTOCOL, &none).unwrap().name(),
            "hadoop"
        );
        registry.set(&CLIENT_PROTOCOL, Arc::new(Local));
        assert_eq!(
            registry.of(&CLIENT_PROTOCOL, &none).unwrap().name(),
            "local"
        );
        let user = User::new("alice");
        let uri = Source::Uri("hdfs://anywhere");
        let created = create_proxy(&env, &none, uri, &CLIENT_PROTOCOL, &user, &registry, None);
        let client = ClientProtocolClient::new(created.await.unwrap().proxy);
        assert!(client.mkdirs(request()).await.unwrap().result);
    });
}

#[test]
fn an_exception_of_the_rpc_layer_after_a_lost_answer_is_unknown() {
    run(async |env| {
        let a = Fake::start(&env, |_| Do::Close).await;
        let b = Fake::start(&env, |_| {
            let class = "org.apache.hadoop.ipc.RpcNoSuchMethodException";
            Do::Say(Outcome::Error(exception(class, 2)))
        })
        .await;
        let conf = conf(&a, &b, &[]);
        let created = create(&env, &conf, "hdfs://ns", &CLIENT_PROTOCOL, None);
        let client = ClientProtocolClient::new(created.await.unwrap().proxy);
        let error = client.mkdirs(request()).await.unwrap_err();
        assert_eq!(error.code(), Code::OutcomeUnknown);
    });
}
