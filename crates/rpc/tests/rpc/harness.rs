//! A server with a toy handler, and a client that writes and reads raw bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Clock, Env, HostPort, Listener, Net, RealEnv, RealEnvConfig};
use cadastre_rpc::{Call, Handler, Reply, ServerConfig, serve};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::cells::{Codec, Compressor};
use cadastre_wire::frame::{Request, Response, encode_request, parse_response};
use cadastre_wire::preamble::{ConnectionInfo, connection_start};
use cadastre_wire::{Service, pb};
use tokio::sync::watch;

/// Longer than anything here takes, unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) struct Toy {
    env: RealEnv,
    gate: watch::Receiver<bool>,
    pub(crate) counted: AtomicUsize,
    /// Of `Wait` and `LongWait`.
    pub(crate) began: watch::Sender<usize>,
    pub(crate) dropped: watch::Sender<usize>,
}

impl Handler for Toy {
    fn serves(&self, service: Service) -> bool {
        service != Service::Lock
    }

    fn cluster_id(&self) -> String {
        "c1".to_owned()
    }

    async fn call(&self, call: Call) -> Result<Reply> {
        let number = || std::str::from_utf8(&call.param).unwrap().parse().unwrap();
        let body: Bytes = match call.method.as_str() {
            "Echo" => call.param.clone(),
            "GetClusterId" => cadastre_wire::encode(&pb::GetClusterIdResponse {
                cluster_id: Some(self.cluster_id()),
            }),
            "Count" => (self.counted.fetch_add(1, Ordering::SeqCst) + 1)
                .to_string()
                .into(),
            "Sleep" => {
                let wait = Duration::from_millis(number());
                self.env.clock().sleep(wait).await;
                "slept".into()
            }
            "Wait" | "LongWait" => {
                if call.method == "LongWait" {
                    // Long enough for a task of its own.
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                }
                self.began.send_modify(|began| *began += 1);
                let _dropped = CountDrop(&self.dropped);
                let _ = self.gate.clone().wait_for(|open| *open).await;
                "open".into()
            }
            "Yield" => {
                for _ in 0..number() {
                    tokio::task::yield_now().await;
                }
                std::thread::current().name().unwrap().to_owned().into()
            }
            // Begun together, done together.
            "Late" => {
                self.env.clock().sleep(Duration::from_millis(20)).await;
                vec![b'b'; number() as usize].into()
            }
            "Big" => vec![b'b'; number() as usize].into(),
            "Who" => format!(
                "{:?} {} {} {:?} {} {:?} {}",
                call.service,
                call.peer.user,
                call.peer.core,
                call.peer.version,
                call.priority,
                call.peer.codec,
                call.deadline.is_some()
            )
            .into(),
            "Fail" => return Err(Error::new(Code::TableNotFound, "t1")),
            "Panic" => panic!("a test's panic"),
            method => return Err(Error::unsupported(method)),
        };
        Ok(Reply {
            body,
            cells: call.cells,
        })
    }
}

struct CountDrop<'a>(&'a watch::Sender<usize>);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|dropped| *dropped += 1);
    }
}

pub(crate) struct Served {
    pub(crate) env: RealEnv,
    pub(crate) address: SocketAddr,
    pub(crate) toy: Arc<Toy>,
    pub(crate) gate: watch::Sender<bool>,
    pub(crate) stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
    _dir: tempfile::TempDir,
}

pub(crate) fn real_env(cores: usize) -> (RealEnv, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let config = RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores,
        background_threads: 1,
    };
    (RealEnv::start(&config).unwrap(), dir)
}

impl Served {
    pub(crate) fn start(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), change)
    }

    pub(crate) fn start_at(at: SocketAddr, change: impl FnOnce(&mut ServerConfig)) -> Self {
        let (env, dir) = real_env(2);
        let (gate, gated) = watch::channel(false);
        let (stop, stopped) = watch::channel(false);
        let toy = Arc::new(Toy {
            env: env.clone(),
            gate: gated,
            counted: AtomicUsize::new(0),
            began: watch::channel(0).0,
            dropped: watch::channel(0).0,
        });
        let mut config = ServerConfig::default();
        change(&mut config);
        let (address, listens) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (server_env, handler) = (env.clone(), Arc::clone(&toy));
        env.spawn_on(0, "serve", move || {
            Box::pin(async move {
                let listener = server_env.net().listen(at).await.unwrap();
                address.send(listener.local_addr()).unwrap();
                serve(server_env, listener, handler, config, stopped).await;
                let _ = end.send(());
            })
        });
        Self {
            env,
            address: listens.recv_timeout(LONG).unwrap(),
            toy,
            gate,
            stop,
            ended,
            _dir: dir,
        }
    }

    pub(crate) fn host_port(&self) -> HostPort {
        HostPort::new(self.address.ip().to_string(), self.address.port())
    }

    pub(crate) fn connect(&self) -> Raw {
        Raw::connect(self.address)
    }

    /// A connection with its start sent.
    pub(crate) fn client(&self) -> Raw {
        self.client_as(&info())
    }

    pub(crate) fn client_as(&self, info: &ConnectionInfo) -> Raw {
        let mut raw = self.connect();
        raw.write(&connection_start(info, "2.6.4"));
        raw
    }

    pub(crate) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    pub(crate) fn wait_began(&self, count: usize) {
        self.wait_for(self.toy.began.subscribe(), count);
    }

    pub(crate) fn wait_dropped(&self, count: usize) {
        self.wait_for(self.toy.dropped.subscribe(), count);
    }

    fn wait_for(&self, mut seen: watch::Receiver<usize>, count: usize) {
        let clock = self.env.clock().clone();
        let came = self.env.block_on(async move {
            let enough = async { seen.wait_for(|seen| *seen >= count).await.map(|_| ()) };
            clock.timeout(LONG, enough).await.is_ok()
        });
        assert_eq!(came, Some(true));
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn wait_ended(&self) {
        self.ended.recv_timeout(LONG).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.env.shutdown();
    }
}

/// What an ordinary test client says it is.
pub(crate) fn info() -> ConnectionInfo {
    ConnectionInfo {
        user: "root".to_owned(),
        real_user: None,
        service: Service::Client,
        codec: Some(Codec::KeyValue),
        compressor: None,
        version: None,
    }
}

pub(crate) fn compressed(compressor: Compressor) -> ConnectionInfo {
    ConnectionInfo {
        compressor: Some(compressor),
        ..info()
    }
}

pub(crate) fn request(call_id: u32, method: &str, param: &str) -> Request {
    Request {
        call_id,
        method: method.to_owned(),
        param: param.to_owned().into(),
        ..Default::default()
    }
}

pub(crate) fn encoded(request: &Request) -> Bytes {
    let mut out = BytesMut::new();
    encode_request(&mut out, request).unwrap();
    out.freeze()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, call_id: u32, method: &str, param: &str) {
        self.write(&encoded(&request(call_id, method, param)));
    }

    pub(crate) fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn receive(&mut self) -> Response {
        let len = u32::from_be_bytes(self.read(4).try_into().unwrap());
        parse_response(self.read(len as usize).into()).unwrap()
    }

    /// The next answer must be this call's; its message as text.
    pub(crate) fn expect(&mut self, call_id: u32) -> String {
        let response = self.receive();
        assert_eq!(response.call_id, call_id);
        let (body, cells) = response.outcome.unwrap();
        assert!(cells.is_empty());
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// The next answer must be this call's exception.
    pub(crate) fn expect_error(&mut self, call_id: u32) -> Error {
        let response = self.receive();
        assert_eq!(response.call_id, call_id);
        response.outcome.unwrap_err()
    }

    pub(crate) fn finish(&mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }

    /// Nothing comes any more.
    pub(crate) fn expect_closed(&mut self) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("not closed: {error}"),
        }
        assert_eq!(rest, b"");
    }
}
