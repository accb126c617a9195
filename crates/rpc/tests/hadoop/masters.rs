//! HBase's masters through the same loop: our own server in place of each, with the errors that a master gives.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Env, HostPort, Listener, Net, RealEnv};
use cadastre_rpc::ha::hbase::HbaseEngine;

use cadastre_rpc::ha::policy::{Failover, Policy};
use cadastre_rpc::ha::{
    ActiveByLookup, Caller, ConfiguredFailover, Engine, Lookup, MASTER_SERVICE, Method, Policies,
    Protocol, Proxy, ProxyProvider, Target,
};
use cadastre_rpc::{Connections, Handler, Reply, ServerConfig, serve};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::Service;
use cadastre_wire::hadoop::User;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::fake::{Fake, engine, run, standby, target};

/// A master that answers calls by its script, then with its name.
struct Master {
    name: &'static str,
    script: Mutex<Vec<Error>>,
    seen: Mutex<usize>,
}

struct Serves(Arc<Master>);

impl Handler for Serves {
    fn serves(&self, service: Service) -> bool {
        service == Service::Master
    }

    fn cluster_id(&self) -> String {
        "c".to_owned()
    }

    async fn call(&self, _: cadastre_rpc::Call) -> Result<Reply> {
        *self.0.seen.lock().unwrap() += 1;
        if let Some(error) = self.0.script.lock().unwrap().pop() {
            return Err(error);
        }
        Ok(Reply {
            body: self.0.name.into(),
            cells: Bytes::new(),
        })
    }
}

async fn master(env: &RealEnv, name: &'static str, script: &[Code]) -> (Arc<Master>, HostPort) {
    let errors = script.iter().rev().map(|code| Error::new(*code, "x"));
    let master = Arc::new(Master {
        name,
        script: Mutex::new(errors.collect()),
        seen: Mutex::default(),
    });
    let at = "127.0.0.1:0".parse().unwrap();
    let listener = env.net().listen(at).await.unwrap();
    let address = HostPort::new("127.0.0.1", listener.local_addr().port());
    // Ends with the test.
    let (keep, stop) = watch::channel(false);
    let (here, handler) = (env.clone(), Arc::new(Serves(Arc::clone(&master))));
    env.spawn("master", async move {
        let _keep = keep;
        serve(here, listener, handler, ServerConfig::default(), stop).await;
    });
    (master, address)
}

fn hbase(env: &RealEnv) -> Arc<dyn Engine> {
    let connections = Connections::new(env.clone(), "tester");
    Arc::new(HbaseEngine::new(connections, Duration::from_secs(10)))
}

fn to(address: HostPort) -> Target {
    Target {
        address,
        protocol: &MASTER_SERVICE,
        user: User::new("tester"),
        alignment: None,
    }
}

fn proxy(env: &RealEnv, engine: &dyn Engine, provider: Box<dyn ProxyProvider>) -> impl Caller {
    let numbers = Failover {
        failovers_max: 5,
        sleep_base_ms: 1,
        sleep_max_ms: 2,
        ..Failover::default()
    };
    Proxy::new(
        env.clock().clone(),
        &MASTER_SERVICE,
        provider,
        Policies::all(Policy::failover(numbers)),
        engine.ids(),
        env.rng("t"),
        None,
    )
}

fn method(name: &str) -> &'static Method {
    MASTER_SERVICE.find(name).unwrap()
}

#[test]
fn each_error_of_a_master_has_its_row() {
    run(async |env| {
        let engine = hbase(&env);
        for (code, name, at_first, at_second, answer) in [
            (Code::ServerNotRunningYet, "CreateTable", 1, 1, Ok("b")),
            (Code::MasterNotRunning, "Balance", 1, 1, Ok("b")),
            (Code::MasterStopped, "CreateTable", 1, 1, Ok("b")),
            (Code::PleaseHold, "CreateTable", 2, 0, Ok("a")),
            (Code::CallQueueTooBig, "Balance", 2, 0, Ok("a")),
            (Code::Fenced, "CreateTable", 1, 1, Ok("b")),
            // Neither mark: what a deposed master had begun is not begun again.
            (Code::Fenced, "Balance", 1, 0, Err(Code::OutcomeUnknown)),
            (
                Code::TableExists,
                "CreateTable",
                1,
                0,
                Err(Code::TableExists),
            ),
        ] {
            let (a, at_a) = master(&env, "a", &[code]).await;
            let (b, at_b) = master(&env, "b", &[]).await;
            let servers = [at_a, at_b].map(|address| engine.proxy(to(address)).unwrap());
            let provider = ConfiguredFailover::new(servers.to_vec());
            let proxy = proxy(&env, &*engine, Box::new(provider));
            let outcome = proxy.call(method(name), Bytes::new()).await;
            let outcome = outcome.map_err(|error| error.code());
            assert_eq!(outcome, answer.map(Bytes::from), "{code:?}");
            let seen = (*a.seen.lock().unwrap(), *b.seen.lock().unwrap());
            assert_eq!(seen, (at_first, at_second), "{code:?}");
        }
    });
}

/// Says what it was told.
struct Told(Mutex<Vec<Result<HostPort>>>);

impl Lookup for Told {
    fn active(&self, _: Option<Duration>) -> BoxFuture<'_, Result<HostPort>> {
        let mut told = self.0.lock().unwrap();
        let next = if told.len() > 1 {
            told.remove(0)
        } else {
            told[0].clone()
        };
        async move { next }.boxed()
    }
}

#[test]
fn the_active_one_is_looked_up_after_each_failover() {
    run(async |env| {
        let engine = hbase(&env);
        let (a, at_a) = master(&env, "a", &[Code::ServerNotRunningYet]).await;
        let (b, at_b) = master(&env, "b", &[]).await;
        let nobody = Error::new(Code::MasterNotRunning, "no /hbase/master");
        let told = Arc::new(Told(Mutex::new(vec![Ok(at_a), Err(nobody), Ok(at_b)])));
        let group = to(HostPort::new("masters", 0));
        let provider = ActiveByLookup::new(told, Arc::clone(&engine), group);
        let proxy = proxy(&env, &*engine, Box::new(provider));
        for _ in 0..2 {
            let answer = proxy.call(method("CreateTable"), Bytes::new()).await;
            assert_eq!(answer.unwrap(), "b");
        }
        assert_eq!((*a.seen.lock().unwrap(), *b.seen.lock().unwrap()), (1, 2));
        // Nobody ever: the error says whom it asked.
        let error = Error::new(Code::MasterNotRunning, "no /hbase/master");
        let told = Arc::new(Told(Mutex::new(vec![Err(error)])));
        let group = to(HostPort::new("masters", 0));
        let provider = ActiveByLookup::new(told, Arc::clone(&engine), group);
        let proxy = self::proxy(&env, &*engine, Box::new(provider));
        let error = proxy.call(method("CreateTable"), Bytes::new()).await;
        let error = error.unwrap_err();
        assert_eq!(error.code(), Code::MasterNotRunning);
        assert!(error.message().contains("no /hbase/master"), "{error}");
    });
}

#[test]
fn the_wrong_kind_of_server_is_told() {
    run(async |env| {
        // Hadoop's protocol to a master: it closes.
        let (_, address) = master(&env, "a", &[]).await;
        let hadoop = engine(&env, |_| {});
        let invoker = hadoop.proxy(target(&address)).unwrap();
        let failed = crate::fake::ask(&hadoop, &*invoker, "x").await.unwrap_err();
        let message = failed.first().error.message();
        let says = message.contains("RPC port") || message.contains("no Hadoop IPC server");
        assert!(says, "{message}");
        // HBase's engine carries HBase's services only.
        static OTHER: Protocol = Protocol {
            name: "Other",
            interface: "Other",
            version: 1,
            methods: &[],
        };
        let mut other = to(address);
        other.protocol = &OTHER;
        let error = hbase(&env).proxy(other).err().unwrap();
        assert!(error.message().contains("Other"), "{error}");
        let _ = Fake::start(&env, standby).await;
    });
}
