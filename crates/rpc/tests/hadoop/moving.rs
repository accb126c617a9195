//! A NameNode that comes back somewhere else under its old name: each connection asks anew where the name is.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use cadastre_env::{Env, HostPort, Net, RealEnv, RealNet, Rng, Task};
use cadastre_rpc::ha::policy::Class;
use cadastre_rpc::ha::{Engine, Executed};
use cadastre_rpc::hadoop::{HadoopConfig, HadoopEngine};
use futures::future::{BoxFuture, LocalBoxFuture};

use crate::fake::{Fake, echo, run, target};

/// The real surroundings with names of our own.
#[derive(Clone)]
struct Named {
    env: RealEnv,
    net: Names,
}

#[derive(Clone)]
struct Names {
    net: RealNet,
    at: Arc<Mutex<BTreeMap<String, HostPort>>>,
}

impl Net for Names {
    type Stream = <RealNet as Net>::Stream;
    type Listener = <RealNet as Net>::Listener;

    async fn listen(&self, at: SocketAddr) -> io::Result<Self::Listener> {
        self.net.listen(at).await
    }

    async fn connect(&self, to: &HostPort) -> io::Result<Self::Stream> {
        let at = self.at.lock().unwrap().get(&to.host).cloned();
        self.net.connect(&at.unwrap()).await
    }

    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let known = self.at.lock().unwrap().contains_key(host);
        Ok(known
            .then_some(IpAddr::V4(Ipv4Addr::LOCALHOST))
            .into_iter()
            .collect())
    }
}

impl Env for Named {
    type Net = Names;
    type Clock = <RealEnv as Env>::Clock;
    type Disk = <RealEnv as Env>::Disk;

    fn net(&self) -> &Names {
        &self.net
    }

    fn clock(&self) -> &Self::Clock {
        self.env.clock()
    }

    fn disk(&self) -> &Self::Disk {
        self.env.disk()
    }

    fn rng(&self, stream: &str) -> Rng {
        self.env.rng(stream)
    }

    fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
        self.env.spawn(name, future)
    }

    fn cores(&self) -> usize {
        self.env.cores()
    }

    fn spawn_on(
        &self,
        core: usize,
        name: &'static str,
        make: impl FnOnce() -> LocalBoxFuture<'static, ()> + Send + 'static,
    ) -> Task {
        self.env.spawn_on(core, name, make)
    }

    fn background<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, Option<T>> {
        self.env.background(name, future)
    }

    fn exit(&self, why: &str) -> ! {
        self.env.exit(why)
    }
}

#[test]
fn a_name_that_moved_is_followed() {
    run(async |env| {
        let (old, new) = (Fake::start(&env, echo).await, Fake::start(&env, echo).await);
        let at = Arc::new(Mutex::new(BTreeMap::new()));
        let named = Named {
            env,
            net: Names {
                net: RealNet,
                at: Arc::clone(&at),
            },
        };
        let engine = HadoopEngine::new(named, HadoopConfig::default());
        let proxy = engine.proxy(target(&HostPort::new("nn0", 8020))).unwrap();
        let call = |id| cadastre_rpc::ha::Call {
            protocol: &cadastre_rpc::hadoop::CLIENT_PROTOCOL,
            method: cadastre_rpc::hadoop::CLIENT_PROTOCOL
                .find("mkdirs")
                .unwrap(),
            body: "x".into(),
            id,
            retry: 0,
            left: None,
        };
        // Not there yet.
        let failed = proxy.invoke(&call(0)).await.unwrap_err();
        let how = (failed.first().class, failed.first().executed);
        assert_eq!(how, (Class::UnknownHost, Executed::No));
        at.lock().unwrap().insert("nn0".to_owned(), old.at.clone());
        proxy.invoke(&call(1)).await.unwrap();
        // It dies, and comes back elsewhere.
        old.becomes(|_| crate::fake::Do::Close);
        at.lock().unwrap().insert("nn0".to_owned(), new.at.clone());
        let failed = proxy.invoke(&call(2)).await.unwrap_err();
        assert_eq!(failed.first().executed, Executed::Maybe);
        proxy.invoke(&call(2)).await.unwrap();
        assert_eq!(
            (old.seen().requests.len(), new.seen().requests.len()),
            (2, 1)
        );
    });
}
