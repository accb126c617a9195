//! A NameNode that does as it is told, and a place to run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Clock, Env, HostPort, Listener, Net, RealEnv, RealEnvConfig};
use cadastre_rpc::ha::{Call, Engine, Failed, Invoker, Target};
use cadastre_rpc::hadoop::{CLIENT_PROTOCOL, HadoopConfig, HadoopEngine};
use cadastre_wire::hadoop::{
    Incoming, Outcome, RemoteException, Request, Response, User, encode_response, parse_incoming,
    parse_preamble,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

/// Longer than anything here takes, unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Runs a test on surroundings of its own.
pub(crate) fn run<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(RealEnv) -> F) {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let clock = env.clock().clone();
    let test = test(env.clone());
    let ended = env.block_on(async move { clock.timeout(LONG, test).await });
    env.shutdown();
    assert!(
        matches!(ended, Some(Ok(()))),
        "the test failed or took too long"
    );
}

/// What to do with a request.
pub(crate) enum Do {
    /// Answer.
    Say(Outcome),
    /// Answer with a state of the namespace.
    SayAt(i64),
    /// Answer this call only after the next request, which is answered first.
    Later,
    /// Close the connection.
    Close,
    /// Nothing.
    Nothing,
    /// Write these bytes.
    Raw(Bytes),
    /// A fatal answer of this call id, then close.
    Fatal(i32, RemoteException),
}

type Script = Arc<dyn Fn(&Request) -> Do + Send + Sync>;

/// What it has seen.
#[derive(Default, Clone)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) closed: usize,
    pub(crate) pings: usize,
    pub(crate) contexts: Vec<(User, String)>,
    pub(crate) requests: Vec<Request>,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) at: HostPort,
    seen: Arc<watch::Sender<Seen>>,
    script: Arc<Mutex<Script>>,
}

impl Fake {
    pub(crate) async fn start(
        env: &RealEnv,
        script: impl Fn(&Request) -> Do + Send + Sync + 'static,
    ) -> Self {
        let at = "127.0.0.1:0".parse().unwrap();
        let mut listener = env.net().listen(at).await.unwrap();
        let address = listener.local_addr();
        let fake = Self {
            at: HostPort::new(address.ip().to_string(), address.port()),
            seen: Arc::new(watch::channel(Seen::default()).0),
            script: Arc::new(Mutex::new(Arc::new(script))),
        };
        let (here, spawner) = (fake.clone(), env.clone());
        env.spawn("fake", async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                here.seen.send_modify(|seen| seen.connections += 1);
                let one = here.clone();
                spawner.spawn("fake-connection", async move {
                    // However it ends, it is over.
                    let _ = one.serve(stream).await;
                    one.seen.send_modify(|seen| seen.closed += 1);
                });
            }
        });
        fake
    }

    /// From now on it does this.
    pub(crate) fn becomes(&self, script: impl Fn(&Request) -> Do + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until what it has seen is so.
    pub(crate) async fn until(&self, so: impl FnMut(&Seen) -> bool) {
        self.seen.subscribe().wait_for(so).await.unwrap();
    }

    async fn serve(&self, mut stream: tokio::net::TcpStream) -> std::io::Result<()> {
        let mut preamble = [0; 7];
        stream.read_exact(&mut preamble).await?;
        parse_preamble(&preamble).unwrap();
        let mut later: Vec<Request> = Vec::new();
        loop {
            let length = stream.read_u32().await?;
            let mut frame = vec![0; length as usize];
            stream.read_exact(&mut frame).await?;
            let request = match parse_incoming(frame.into()).unwrap() {
                Incoming::Context(user, protocol) => {
                    self.seen
                        .send_modify(|seen| seen.contexts.push((user, protocol)));
                    continue;
                }
                Incoming::Ping => {
                    self.seen.send_modify(|seen| seen.pings += 1);
                    continue;
                }
                Incoming::Call(request) => request,
            };
            let script = Arc::clone(&self.script.lock().unwrap());
            let what = script(&request);
            self.seen
                .send_modify(|seen| seen.requests.push(request.clone()));
            let mut out = BytesMut::new();
            match what {
                Do::Say(outcome) => {
                    put(&mut out, &request, request.call_id, outcome, None);
                    for earlier in later.drain(..) {
                        let body = earlier.body.clone();
                        put(
                            &mut out,
                            &earlier,
                            earlier.call_id,
                            Outcome::Success(body),
                            None,
                        );
                    }
                }
                Do::SayAt(state) => {
                    let body = Outcome::Success(request.body.clone());
                    put(&mut out, &request, request.call_id, body, Some(state));
                }
                Do::Later => later.push(request),
                Do::Close => return Ok(()),
                Do::Nothing => {}
                Do::Raw(bytes) => out.extend_from_slice(&bytes),
                Do::Fatal(call_id, exception) => {
                    put(&mut out, &request, call_id, Outcome::Fatal(exception), None);
                    stream.write_all(&out).await?;
                    return Ok(());
                }
            }
            stream.write_all(&out).await?;
        }
    }
}

fn put(out: &mut BytesMut, of: &Request, call_id: i32, outcome: Outcome, state_id: Option<i64>) {
    let response = Response {
        call_id,
        retry_count: of.retry_count,
        client_id: of.client_id.clone(),
        state_id,
        router_state: None,
        outcome,
    };
    encode_response(out, &response).unwrap();
}

/// Answers with what was sent.
pub(crate) fn echo(request: &Request) -> Do {
    Do::Say(Outcome::Success(request.body.clone()))
}

pub(crate) fn exception(class: &str, detail: i32) -> RemoteException {
    RemoteException {
        class: class.to_owned(),
        message: format!("{class} said so"),
        detail,
    }
}

pub(crate) const STANDBY: &str = "org.apache.hadoop.ipc.StandbyException";

pub(crate) fn standby(_: &Request) -> Do {
    Do::Say(Outcome::Error(exception(STANDBY, 1)))
}

pub(crate) fn engine(
    env: &RealEnv,
    change: impl FnOnce(&mut HadoopConfig),
) -> HadoopEngine<RealEnv> {
    let mut config = HadoopConfig::default();
    change(&mut config);
    HadoopEngine::new(env.clone(), config)
}

pub(crate) fn target(at: &HostPort) -> Target {
    Target {
        address: at.clone(),
        protocol: &CLIENT_PROTOCOL,
        user: User::new("alice"),
        alignment: None,
    }
}

/// One try of an idempotent method.
pub(crate) async fn ask(
    engine: &HadoopEngine<RealEnv>,
    invoker: &dyn Invoker,
    body: &'static str,
) -> Result<Bytes, Failed> {
    let call = Call {
        protocol: &CLIENT_PROTOCOL,
        method: CLIENT_PROTOCOL.find("mkdirs").unwrap(),
        body: body.into(),
        id: engine.ids().draw(),
        retry: 0,
        left: None,
    };
    invoker.invoke(&call).await
}
