//! The client against the real server, and against servers that misbehave.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Env, HostPort, RealEnv};
use cadastre_rpc::{ClientConfig, Connections};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::Service;
use cadastre_wire::frame::{CONNECTION_CALL_ID, Request, encode_response, parse_request};
use futures::future::join_all;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::harness::{LONG, Served, real_env};

type Answer = Result<(Bytes, Bytes)>;

struct Client {
    env: RealEnv,
    connections: Connections<RealEnv>,
    _dir: tempfile::TempDir,
}

impl Client {
    fn new(change: impl FnOnce(&mut ClientConfig)) -> Self {
        let (env, dir) = real_env(1);
        let mut config = ClientConfig::default();
        change(&mut config);
        Self {
            connections: Connections::with_config(env.clone(), "tester", config),
            env,
            _dir: dir,
        }
    }

    fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        make: impl FnOnce(Connections<RealEnv>) -> F,
    ) -> T {
        self.env.block_on(make(self.connections.clone())).unwrap()
    }

    /// A call whose answer comes later.
    fn begin(
        &self,
        to: &HostPort,
        method: &'static str,
        param: &str,
        timeout: Duration,
    ) -> mpsc::Receiver<Answer> {
        let (answer, wait) = mpsc::channel();
        let (connections, to, param) = (self.connections.clone(), to.clone(), param.to_owned());
        self.env.spawn_on(0, "test", move || {
            Box::pin(async move {
                let _ = answer.send(call(&connections, &to, method, param.into(), timeout).await);
            })
        });
        wait
    }

    fn call(&self, to: &HostPort, method: &'static str, param: &str) -> Answer {
        self.begin(to, method, param, LONG)
            .recv_timeout(LONG)
            .unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.env.shutdown();
    }
}

async fn call(
    connections: &Connections<RealEnv>,
    to: &HostPort,
    method: &'static str,
    param: Bytes,
    timeout: Duration,
) -> Answer {
    connections
        .call(to, Service::Client, method, param, Bytes::new(), timeout)
        .await
}

fn text(answer: Answer) -> String {
    String::from_utf8(answer.unwrap().0.to_vec()).unwrap()
}

/// A server of the test's own making.
struct Fake(TcpListener);

impl Fake {
    fn start() -> (Self, HostPort) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = host_port(listener.local_addr().unwrap());
        (Self(listener), to)
    }

    /// The next connection, behind its start.
    fn accept(&self) -> TcpStream {
        Self::read_start(self.0.accept().unwrap().0)
    }

    fn read_start(mut stream: TcpStream) -> TcpStream {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut preamble = [0; 6];
        stream.read_exact(&mut preamble).unwrap();
        assert_eq!(&preamble, b"HBas\0\x50");
        read_frame(&mut stream).unwrap();
        stream
    }
}

fn host_port(address: SocketAddr) -> HostPort {
    HostPort::new(address.ip().to_string(), address.port())
}

fn read_frame(stream: &mut TcpStream) -> Option<Bytes> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    Some(frame.into())
}

fn read_request(stream: &mut TcpStream) -> Request {
    parse_request(read_frame(stream).unwrap()).unwrap()
}

fn answer(stream: &mut TcpStream, call_id: u32, outcome: Result<&[u8], &Error>) {
    let mut out = BytesMut::new();
    encode_response(&mut out, call_id, outcome.map(|body| (body, &[][..])));
    stream.write_all(&out).unwrap();
}

#[test]
fn calls_and_answers() {
    let served = Served::start(|_| {});
    let (client, to) = (Client::new(|_| {}), served.host_port());
    assert_eq!(text(client.call(&to, "Echo", "hello")), "hello");
    let who = text(client.call(&to, "Who", ""));
    assert_eq!(
        who, "Client tester 0 Some((2, 6)) 0 Some(KeyValue) true",
        "one connection, the first one"
    );
    let error = client.call(&to, "Fail", "").unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::TableNotFound, "t1"));
    let cells = Bytes::from(vec![3; 300_000]);
    let sent = cells.clone();
    let (_, answered) = client
        .run(|connections| async move {
            let body = Bytes::new();
            connections
                .call(&to, Service::Admin, "Echo", body, sent, LONG)
                .await
        })
        .unwrap();
    assert_eq!(answered, cells);
}

#[test]
fn many_calls_at_once() {
    let served = Served::start(|_| {});
    let client = Client::new(|config| config.calls_max = 100);
    let to = served.host_port();
    let answers = client.run(|connections| async move {
        let calls = (0..2000).map(|number: u32| {
            let (connections, to) = (&connections, &to);
            let (method, param) = match number % 10 {
                0 => ("Sleep", (number % 7).to_string()),
                _ => ("Echo", number.to_string()),
            };
            async move { call(connections, to, method, param.into(), LONG).await }
        });
        join_all(calls).await
    });
    for (number, answer) in answers.into_iter().enumerate() {
        let expected = match number % 10 {
            0 => "slept".to_owned(),
            _ => number.to_string(),
        };
        assert_eq!(text(answer), expected);
    }
}

#[test]
fn a_server_that_is_not_there_was_not_sent_to() {
    let (fake, to) = Fake::start();
    drop(fake);
    let client = Client::new(|_| {});
    let error = client.call(&to, "Echo", "").unwrap_err();
    assert_eq!(error.code(), Code::NotSent, "{error}");
    let nowhere = HostPort::new("no-such-host.invalid", 1);
    let error = client.call(&nowhere, "Echo", "").unwrap_err();
    assert_eq!(error.code(), Code::NotSent, "{error}");
}

#[test]
fn a_time_out_is_an_unknown_outcome_and_disturbs_nobody() {
    let served = Served::start(|_| {});
    let (client, to) = (Client::new(|_| {}), served.host_port());
    let short = client.begin(&to, "Wait", "", Duration::from_millis(50));
    let long = client.begin(&to, "Wait", "", LONG);
    served.wait_began(2);
    let error = short.recv_timeout(LONG).unwrap().unwrap_err();
    assert_eq!(error.code(), Code::OutcomeUnknown, "{error}");
    assert_eq!(text(client.call(&to, "Echo", "x")), "x");
    served.open_gate();
    assert_eq!(text(long.recv_timeout(LONG).unwrap()), "open");
}

#[test]
fn a_broken_connection_is_an_unknown_outcome_and_the_next_call_opens_another() {
    let (fake, to) = Fake::start();
    let client = Client::new(|_| {});
    let first = client.begin(&to, "Echo", "1", LONG);
    let second = client.begin(&to, "Echo", "2", LONG);
    let mut stream = fake.accept();
    let requests = [read_request(&mut stream), read_request(&mut stream)];
    assert_eq!(requests[0].param, b"1"[..]);
    assert!(requests[0].timeout_ms.is_some_and(|ms| ms > 10_000));
    drop(stream);
    for call in [first, second] {
        let error = call.recv_timeout(LONG).unwrap().unwrap_err();
        assert_eq!(error.code(), Code::OutcomeUnknown, "{error}");
    }
    let third = client.begin(&to, "Echo", "3", LONG);
    let mut stream = fake.accept();
    let request = read_request(&mut stream);
    answer(&mut stream, request.call_id, Ok(b"three"));
    assert_eq!(text(third.recv_timeout(LONG).unwrap()), "three");
}

#[test]
fn a_call_of_which_bytes_are_missing_was_not_sent() {
    let (fake, to) = Fake::start();
    let client = Client::new(|_| {});
    // More than the sockets' buffers hold.
    let large = "x".repeat(64 * 1024 * 1024);
    let call = client.begin(&to, "Echo", &large, LONG);
    let stream = fake.accept();
    drop(stream);
    let error = call.recv_timeout(LONG).unwrap().unwrap_err();
    assert_eq!(error.code(), Code::NotSent, "{error}");
}

#[test]
fn a_fatal_exception_fails_all_calls() {
    let (fake, to) = Fake::start();
    let client = Client::new(|_| {});
    let calls = [
        client.begin(&to, "Echo", "1", LONG),
        client.begin(&to, "Echo", "2", LONG),
    ];
    let mut stream = fake.accept();
    read_request(&mut stream);
    read_request(&mut stream);
    let fatal = Error::new(Code::FatalConnection, "no");
    answer(&mut stream, CONNECTION_CALL_ID, Err(&fatal));
    for call in calls {
        let error = call.recv_timeout(LONG).unwrap().unwrap_err();
        assert_eq!(error.code(), Code::FatalConnection, "{error}");
    }
}

#[test]
fn garbage_from_a_server_ends_the_connection() {
    for garbage in [
        &b"\x00\x00\x00\x00"[..],
        b"\x00\x00\x00\x03\xff\xff\xff",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\x00\x00\x09\x02",
    ] {
        let (fake, to) = Fake::start();
        let client = Client::new(|_| {});
        let call = client.begin(&to, "Echo", "1", LONG);
        let mut stream = fake.accept();
        read_request(&mut stream);
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let error = call.recv_timeout(LONG).unwrap().unwrap_err();
        assert_eq!(error.code(), Code::OutcomeUnknown, "{error}");
    }
}

#[test]
fn an_answer_over_the_limit_fails_its_call_only() {
    let served = Served::start(|_| {});
    let client = Client::new(|config| config.response_bytes_max = 10_000);
    let to = served.host_port();
    let waits = client.begin(&to, "Wait", "", LONG);
    served.wait_began(1);
    let error = client.call(&to, "Big", "2000000").unwrap_err();
    assert_eq!(error.code(), Code::RequestTooBig, "{error}");
    assert_eq!(text(client.call(&to, "Echo", "x")), "x");
    served.open_gate();
    assert_eq!(text(waits.recv_timeout(LONG).unwrap()), "open");
}

#[test]
fn answers_to_nobody_are_ignored() {
    let (fake, to) = Fake::start();
    let client = Client::new(|_| {});
    let call = client.begin(&to, "Echo", "1", LONG);
    let mut stream = fake.accept();
    let request = read_request(&mut stream);
    answer(&mut stream, request.call_id + 1, Ok(b"late"));
    answer(&mut stream, request.call_id, Ok(b"right"));
    assert_eq!(text(call.recv_timeout(LONG).unwrap()), "right");
}

#[test]
fn idle_connections_are_closed_and_opened_again() {
    let (fake, to) = Fake::start();
    let client = Client::new(|config| config.idle = Duration::from_millis(50));
    for _ in 0..2 {
        let call = client.begin(&to, "Echo", "", LONG);
        let mut stream = fake.accept();
        let request = read_request(&mut stream);
        answer(&mut stream, request.call_id, Ok(b""));
        call.recv_timeout(LONG).unwrap().unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "closed by the client");
    }
}

#[test]
fn a_silent_server_is_not_trusted_with_further_calls() {
    let (fake, to) = Fake::start();
    let client = Client::new(|_| {});
    let long = client.begin(&to, "Echo", "long", LONG);
    let mut silent = fake.accept();
    let request = read_request(&mut silent);
    let short = client.begin(&to, "Echo", "short", Duration::from_millis(50));
    let error = short.recv_timeout(LONG).unwrap().unwrap_err();
    assert_eq!(error.code(), Code::OutcomeUnknown, "{error}");
    // The silence shows at the call's deadline, perhaps a moment after its caller knows: until then calls go the old way.
    let patience = Some(Duration::from_millis(100));
    set_socket_timeout(&fake.0, Timeout::Recv, patience).unwrap();
    let (next, mut stream) = loop {
        let next = client.begin(&to, "Echo", "next", LONG);
        if let Ok((stream, _)) = fake.0.accept() {
            break (next, Fake::read_start(stream));
        }
    };
    let taken = read_request(&mut stream);
    answer(&mut stream, taken.call_id, Ok(b"next"));
    assert_eq!(text(next.recv_timeout(LONG).unwrap()), "next");
    // The old one may still answer what it has.
    answer(&mut silent, request.call_id, Ok(b"long"));
    assert_eq!(text(long.recv_timeout(LONG).unwrap()), "long");
}

#[test]
fn a_dropped_client_closes_its_connections() {
    let (fake, to) = Fake::start();
    let mut client = Client::new(|_| {});
    let call = client.begin(&to, "Echo", "1", LONG);
    let mut stream = fake.accept();
    let request = read_request(&mut stream);
    answer(&mut stream, request.call_id, Ok(b""));
    call.recv_timeout(LONG).unwrap().unwrap();
    client.connections = Connections::new(client.env.clone(), "other");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "closed by the client");
}

#[test]
fn the_registry_preamble() {
    let served = Served::start(|_| {});
    let (client, to) = (Client::new(|_| {}), served.host_port());
    let ask = |to: HostPort| {
        client.run(|connections| async move { connections.registry_cluster_id(&to, LONG).await })
    };
    assert_eq!(ask(to).unwrap().as_deref(), Some("c1"));
    // An older server's answer (1.5).
    let (fake, to) = Fake::start();
    let (done, wait) = mpsc::channel();
    let connections = client.connections.clone();
    client.env.spawn_on(0, "test", move || {
        Box::pin(async move {
            let _ = done.send(connections.registry_cluster_id(&to, LONG).await);
        })
    });
    let (mut stream, _) = fake.0.accept().unwrap();
    let mut word = [0; 6];
    stream.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"Regist");
    let fatal = Error::new(
        Code::FatalConnection,
        "Expected HEADER=HBas but received HEADER=Regi from 127.0.0.1",
    );
    answer(&mut stream, CONNECTION_CALL_ID, Err(&fatal));
    assert_eq!(wait.recv_timeout(LONG).unwrap().unwrap(), None);
}
