//! The pair of NameNodes: who they are, and how they are killed, paused and failed over.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::{Clock, Env, HostPort, RealEnv, RealEnvConfig};
use cadastre_rpc::ha::config::Conf;
use cadastre_rpc::ha::policy::Class;
use cadastre_rpc::ha::{
    Call, CallIds, Engine, Engines, Events, Failed, Failure, Invoker, Source, Target, create_proxy,
};
use cadastre_rpc::hadoop::{
    CLIENT_PROTOCOL, ClientProtocol, ClientProtocolClient, HA_SERVICE_PROTOCOL, HaService,
    HaServiceClient, HadoopConfig, HadoopEngine,
};
use cadastre_types::{Detail, Error, Result};
use cadastre_wire::hadoop::{User, pb};
use futures::future::BoxFuture;

/// Longer than all of it takes.
const LONG: Duration = Duration::from_secs(1500);

/// A NameNode that starts, or becomes active, takes no longer.
const WAIT: Duration = Duration::from_secs(120);

pub(crate) const NS: &str = "peer-ns";

/// Each caller of a load rests so long between two pieces of work, ms: NameNodes that start on the same few cores take several times as long beside
/// callers that never rest, and failovers are what loads are for.
pub(crate) const REST_MS: u64 = 50;

#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) env: RealEnv,
    dir: PathBuf,
}

pub(crate) fn run<F: Future<Output = ()> + Send + 'static>(
    test: impl FnOnce(Pair) -> F + Send + 'static,
) {
    let data = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: data.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/hdfs");
    let dir = std::env::var("CADASTRE_HDFS").unwrap_or_else(|_| root.to_owned());
    let pair = Pair {
        env: env.clone(),
        dir: dir.into(),
    };
    let clock = env.clock().clone();
    let ended = env.block_on(async move { clock.timeout(LONG, test(pair)).await });
    env.shutdown();
    assert!(matches!(ended, Some(Ok(()))), "failed, or took too long");
}

#[allow(clippy::print_stdout, reason = "what a long test is doing")]
fn print(text: &str) {
    println!("{text}");
}

impl Pair {
    pub(crate) fn now(&self) -> Duration {
        self.env.clock().mono()
    }

    pub(crate) fn tell(&self, text: &str) {
        print(text);
    }

    pub(crate) async fn sleep(&self, ms: u64) {
        self.env.clock().sleep(Duration::from_millis(ms)).await;
    }

    /// Where Hadoop wrote the client's configuration.
    pub(crate) fn conf_dir(&self) -> PathBuf {
        self.dir.join("conf")
    }

    /// The client's configuration that Hadoop itself wrote, with pauses for tests.
    pub(crate) fn conf(&self) -> Conf {
        let mut conf = Conf::default();
        for file in ["core-site.xml", "hdfs-site.xml"] {
            let text = std::fs::read_to_string(self.conf_dir().join(file)).unwrap();
            conf.read(file, &text).unwrap();
        }
        // The observer only where it is asked for.
        let ids = format!("dfs.ha.namenodes.{NS}");
        for (key, value) in [
            (&*ids, "nn0,nn1"),
            ("dfs.client.failover.random.order", "false"),
            ("dfs.client.failover.sleep.base.millis", "100"),
            ("dfs.client.failover.sleep.max.millis", "1000"),
            ("dfs.client.failover.max.attempts", "120"),
        ] {
            conf.set(key, value, "test");
        }
        conf
    }

    /// Where the NameNode listens.
    pub(crate) fn address(&self, at: usize) -> HostPort {
        let key = format!("dfs.namenode.rpc-address.{NS}.nn{at}");
        HostPort::parse(&self.conf().get(&key).unwrap().unwrap()).unwrap()
    }

    pub(crate) fn engine(&self, call_timeout_ms: u64) -> Arc<dyn Engine> {
        let config = HadoopConfig {
            call_timeout: Duration::from_millis(call_timeout_ms),
            ..HadoopConfig::default()
        };
        let engine = Arc::new(HadoopEngine::new(self.env.clone(), config));
        if std::env::var_os("CADASTRE_HDFS_FORGETFUL").is_some() {
            return Arc::new(Forgetful(engine));
        }
        engine
    }

    /// A client as `create_proxy` makes it.
    pub(crate) async fn client(
        &self,
        conf: &Conf,
        engine: Arc<dyn Engine>,
        events: Option<Events>,
    ) -> ClientProtocolClient {
        let engines = Engines::new(engine);
        let user = User::new("root");
        let uri = format!("hdfs://{NS}");
        let source = Source::Uri(&uri);
        let created = create_proxy(
            &self.env,
            conf,
            source,
            &CLIENT_PROTOCOL,
            &user,
            &engines,
            events,
        );
        ClientProtocolClient::new(created.await.unwrap().proxy)
    }

    /// A client of one NameNode, without failover.
    pub(crate) async fn one(
        &self,
        at: usize,
        protocol_is_ha: bool,
    ) -> Arc<dyn cadastre_rpc::ha::Caller> {
        let protocol = if protocol_is_ha {
            &HA_SERVICE_PROTOCOL
        } else {
            &CLIENT_PROTOCOL
        };
        let engines = Engines::new(self.engine(5000));
        let uri = format!("hdfs://{}", self.address(at));
        let (conf, user) = (Conf::default(), User::new("root"));
        let source = Source::Uri(&uri);
        let created = create_proxy(&self.env, &conf, source, protocol, &user, &engines, None);
        created.await.unwrap().proxy
    }

    /// What a NameNode says it is.
    pub(crate) async fn state(&self, at: usize) -> Result<i32> {
        let client = HaServiceClient::new(self.one(at, true).await);
        let status = client.get_service_status(pb::GetServiceStatusRequestProto {});
        Ok(status.await?.state)
    }

    pub(crate) async fn active(&self) -> usize {
        for at in [0, 1] {
            if self.state(at).await == Ok(pb::HaServiceStateProto::Active as i32) {
                return at;
            }
        }
        panic!("no NameNode is active");
    }

    fn by_hand() -> pb::HaStateChangeRequestInfoProto {
        pb::HaStateChangeRequestInfoProto {
            req_source: pb::HaRequestSource::RequestByUserForced as i32,
        }
    }

    pub(crate) async fn make_active(&self, at: usize) {
        let began = self.now();
        loop {
            let client = HaServiceClient::new(self.one(at, true).await);
            let request = pb::TransitionToActiveRequestProto {
                req_info: Self::by_hand(),
            };
            match client.transition_to_active(request).await {
                Ok(_) => return,
                // Not started yet, or still reading the other's edits.
                Err(error) => assert!(self.now() - began < WAIT, "{error}"),
            }
            self.sleep(50).await;
        }
    }

    pub(crate) async fn make_standby(&self, at: usize) {
        let client = HaServiceClient::new(self.one(at, true).await);
        let request = pb::TransitionToStandbyRequestProto {
            req_info: Self::by_hand(),
        };
        client.transition_to_standby(request).await.unwrap();
    }

    /// From the active one to the other, in good order. Gives the new active one.
    pub(crate) async fn fail_over(&self) -> usize {
        let from = self.active().await;
        self.make_standby(from).await;
        self.make_active(1 - from).await;
        1 - from
    }

    /// One of the commands of tests/hdfs/run.sh.
    pub(crate) async fn script(&self, command: &str, at: usize) {
        self.script_with(command, &at.to_string()).await;
    }

    pub(crate) async fn script_with(&self, command: &str, argument: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/hdfs/run.sh");
        let mut child = std::process::Command::new("bash")
            .arg(script)
            .arg(command)
            .arg(&self.dir)
            .arg(argument)
            .spawn()
            .unwrap();
        // The clients on this thread go on meanwhile.
        loop {
            match child.try_wait().unwrap() {
                Some(status) => break assert!(status.success(), "{command} {argument}"),
                None => self.sleep(10).await,
            }
        }
    }

    /// Hadoop's own client doing the same, beside ours.
    pub(crate) fn yardstick(&self) -> std::process::Child {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/hdfs/run.sh");
        let mut command = std::process::Command::new("bash");
        command.args([script, "yardstick"]).arg(&self.dir);
        command.spawn().unwrap()
    }

    /// Lets it end, and print what it did.
    pub(crate) async fn end_yardstick(&self, mut child: std::process::Child) {
        std::fs::write(self.dir.join("stop"), "").unwrap();
        while child.try_wait().unwrap().is_none() {
            self.sleep(50).await;
        }
    }

    /// Starts a killed one, and waits until it follows.
    pub(crate) async fn restart(&self, at: usize) {
        self.script("restart", at).await;
        let began = self.now();
        while self.state(at).await.is_err() {
            assert!(self.now() - began < WAIT, "it does not come back");
            self.sleep(50).await;
        }
    }
}

/// An engine that gives each try an id of its own, so that no NameNode knows a call again: the control of every test of at-most-once. With
/// `CADASTRE_HDFS_FORGETFUL` set, the tests must fail.
pub(crate) struct Forgetful(pub(crate) Arc<dyn Engine>);

impl Engine for Forgetful {
    fn name(&self) -> &'static str {
        "forgetful"
    }

    fn ids(&self) -> CallIds {
        self.0.ids()
    }

    fn proxy(&self, target: Target) -> Result<Arc<dyn Invoker>> {
        Ok(Arc::new(Forgets(self.0.proxy(target)?, self.ids())))
    }
}

struct Forgets(Arc<dyn Invoker>, CallIds);

impl Invoker for Forgets {
    fn name(&self) -> &Arc<str> {
        self.0.name()
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            let call = Call {
                id: self.1.draw(),
                retry: 0,
                ..call.clone()
            };
            self.0.invoke(&call).await
        })
    }
}

/// An engine that loses every so many-th answer, as if the connection had broken just before it.
pub(crate) struct Losing(pub(crate) Arc<dyn Engine>, pub(crate) u64);

impl Engine for Losing {
    fn name(&self) -> &'static str {
        "losing"
    }

    fn ids(&self) -> CallIds {
        self.0.ids()
    }

    fn proxy(&self, target: Target) -> Result<Arc<dyn Invoker>> {
        let (inner, answers) = (self.0.proxy(target)?, AtomicU64::default());
        let one_in = self.1;
        Ok(Arc::new(Loses {
            inner,
            answers,
            one_in,
        }))
    }
}

struct Loses {
    inner: Arc<dyn Invoker>,
    answers: AtomicU64,
    one_in: u64,
}

impl Invoker for Loses {
    fn name(&self) -> &Arc<str> {
        self.inner.name()
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            let answer = self.inner.invoke(call).await?;
            let number = self.answers.fetch_add(1, Ordering::Relaxed) + 1;
            if number.is_multiple_of(self.one_in) {
                let why = "its answer is lost";
                return Err(Failure::unknown(Class::Socket, self.name(), why).into());
            }
            Ok(answer)
        })
    }
}

pub(crate) fn exception(error: &Error) -> &str {
    match error.detail() {
        Some(Detail::Remote { class, .. }) => class,
        _ => "",
    }
}

pub(crate) fn mkdirs(src: &str) -> pb::MkdirsRequestProto {
    pb::MkdirsRequestProto {
        src: src.to_owned(),
        masked: pb::FsPermissionProto { perm: 0o755 },
        create_parent: true,
        unmasked: None,
    }
}

pub(crate) fn create(src: &str, client: &str) -> pb::CreateRequestProto {
    pb::CreateRequestProto {
        src: src.to_owned(),
        masked: pb::FsPermissionProto { perm: 0o644 },
        client_name: client.to_owned(),
        create_flag: pb::CreateFlagProto::Create as u32,
        create_parent: true,
        replication: 1,
        block_size: 8 << 20,
        ..Default::default()
    }
}

pub(crate) fn rename2(src: &str, dst: &str) -> pb::Rename2RequestProto {
    pb::Rename2RequestProto {
        src: src.to_owned(),
        dst: dst.to_owned(),
        overwrite_dest: false,
        move_to_trash: None,
    }
}

pub(crate) fn delete(src: &str) -> pb::DeleteRequestProto {
    pb::DeleteRequestProto {
        src: src.to_owned(),
        recursive: true,
    }
}

pub(crate) async fn file_id(client: &ClientProtocolClient, src: &str) -> Option<u64> {
    let request = pb::GetFileInfoRequestProto {
        src: src.to_owned(),
    };
    let info = client.get_file_info(request).await.unwrap();
    info.fs.map(|status| status.file_id())
}

/// Makes an empty file and closes it; gives its id.
pub(crate) async fn file(client: &ClientProtocolClient, src: &str) -> Result<u64> {
    let status = client.create(create(src, "rows")).await?.fs.unwrap();
    let request = pb::CompleteRequestProto {
        src: src.to_owned(),
        client_name: "rows".to_owned(),
        last: None,
        file_id: Some(status.file_id()),
    };
    assert!(client.complete(request).await?.result);
    Ok(status.file_id())
}
