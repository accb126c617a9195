//! The server over real loopback sockets, against recorded bytes.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cadastre_env::{Clock, Env, Listener, Net};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::*;
use crate::jute::tests::{golden, hex};
use crate::jute::*;
use crate::test_env::{TestEnv, run};

struct TestServer {
    env: TestEnv,
    address: SocketAddr,
    stop: watch::Sender<bool>,
}

async fn start(env: &TestEnv, config: ServerConfig) -> TestServer {
    let at = "127.0.0.1:0".parse().unwrap();
    let listener = env.net().listen(at).await.unwrap();
    let address = listener.local_addr();
    let (stop, stopped) = watch::channel(false);
    env.spawn("server", serve(env.clone(), listener, config, stopped));
    TestServer {
        env: env.clone(),
        address,
        stop,
    }
}

struct Raw {
    stream: TcpStream,
}

impl TestServer {
    async fn raw(&self) -> Raw {
        let to = cadastre_env::HostPort::parse(&self.address.to_string()).unwrap();
        let stream = self.env.net().connect(&to).await.unwrap();
        Raw { stream }
    }

    async fn connect(&self) -> (Raw, ConnectResponse) {
        let mut raw = self.raw().await;
        raw.send(&golden("connect", "connect-java")).await;
        let response = ConnectResponse::decode(raw.frame().await.slice(4..)).unwrap();
        (raw, response)
    }

    async fn word(&self, word: &str) -> String {
        let mut raw = self.raw().await;
        raw.send(word.as_bytes()).await;
        let mut text = String::new();
        raw.stream.read_to_string(&mut text).await.unwrap();
        text
    }
}

impl Raw {
    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn request(&mut self, xid: i32, request: &Request) {
        let mut out = BytesMut::new();
        request.encode(xid, &mut out);
        self.send(&out).await;
    }

    /// A whole frame with its length.
    async fn frame(&mut self) -> Bytes {
        let mut frame = vec![0; 4];
        self.stream.read_exact(&mut frame).await.unwrap();
        let length = u32::from_be_bytes(frame[..4].try_into().unwrap());
        frame.resize(4 + length as usize, 0);
        self.stream.read_exact(&mut frame[4..]).await.unwrap();
        frame.into()
    }

    async fn header(&mut self) -> ReplyHeader {
        ReplyHeader::decode(&mut Reader::new(self.frame().await.slice(4..))).unwrap()
    }

    async fn expect(&mut self, kind: &str, name: &str) {
        let frame = self.frame().await;
        assert_eq!(frame, golden(kind, name), "{kind} {name}: {frame:x?}");
    }

    /// The server closes; whatever it says before.
    async fn closed(&mut self) {
        let mut rest = Vec::new();
        // A reset is a close, too.
        let _ = self.stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "unexpected bytes: {rest:x?}");
    }
}

fn create(path: &str, flags: i32) -> Request {
    Request::Create(Create {
        form: CreateForm::Plain,
        path: path.into(),
        data: Some(Bytes::from_static(b"data")),
        acl: Acl::open(),
        flags,
    })
}

fn delete(path: &str) -> Request {
    Request::Delete {
        path: path.into(),
        version: -1,
    }
}

fn set(path: &str, data: Vec<u8>) -> Request {
    Request::SetData {
        path: path.into(),
        data: Some(data.into()),
        version: -1,
    }
}

/// The recorded session again, byte for byte: zxids, versions, times, events before replies.
#[test]
fn the_recorded_session_comes_again() {
    run(|env| async move {
        let server = start(&env, ServerConfig::new(0x116)).await;
        let (mut raw, response) = server.connect().await;
        assert_eq!(
            (response.timeout_ms, response.read_only),
            (40_000, Some(false))
        );
        assert_eq!(response.session_id >> 56, 1);
        let mut refused = 0x40;
        let mut ask = async |raw: &mut Raw, request: &Request| {
            refused += 1;
            raw.request(refused, request).await;
            loop {
                let header = raw.header().await;
                if header.xid == refused {
                    return header;
                }
                assert_eq!(header.xid, XID_EVENT);
            }
        };
        raw.send(&golden("request", "exists-t")).await;
        raw.expect("reply", "exists-none").await;
        raw.send(&golden("request", "get-data-t")).await;
        raw.expect("reply", "no-node").await;
        env.set_wall(0x1a2_2a43_408e);
        raw.send(&golden("request", "create-t")).await;
        raw.expect("event", "created-t").await;
        raw.expect("reply", "create-t").await;
        raw.request(4, &create("/t", 0)).await;
        raw.expect("reply", "create-again").await;
        raw.send(&golden("request", "get-children2-t")).await;
        raw.expect("reply", "get-children2-t").await;
        raw.send(&golden("request", "create-e")).await;
        raw.expect("event", "children-changed-t").await;
        raw.expect("reply", "create-e").await;
        // 0x11b: refused, and yet a zxid.
        let header = ask(&mut raw, &create("/t/e/x", 0)).await;
        assert_eq!((header.zxid, header.err), (0x11b, -108));
        raw.send(&golden("request", "create-s")).await;
        raw.expect("reply", "create-s").await;
        raw.send(&golden("request", "create-s-ephemeral")).await;
        assert!(raw.frame().await.ends_with(b"/t/s-0000000002"));
        ask(&mut raw, &create("/t/x", 0)).await;
        env.set_wall(0x1a2_2a43_40a2);
        raw.send(&golden("request", "create2")).await;
        raw.expect("reply", "create2").await;
        assert_eq!(ask(&mut raw, &delete("/none")).await.err, -101);
        ask(&mut raw, &create("/t/y", 0)).await;
        let watch = Request::GetData {
            path: "/t".into(),
            watch: true,
        };
        ask(&mut raw, &watch).await;
        ask(&mut raw, &watch).await;
        env.set_wall(0x1a2_2a43_40aa);
        raw.send(&golden("request", "set-data")).await;
        raw.expect("event", "data-changed-t").await;
        raw.expect("reply", "set-data").await;
        let stale = Request::SetData {
            path: "/t".into(),
            data: None,
            version: 0,
        };
        raw.request(17, &stale).await;
        raw.expect("reply", "bad-version").await;
        raw.send(&golden("request", "get-acl")).await;
        raw.expect("reply", "get-acl").await;
        let set_acl = Request::SetAcl {
            path: "/t".into(),
            acl: Acl::open(),
            version: 0,
        };
        assert_eq!(ask(&mut raw, &set_acl).await.zxid, 0x124);
        env.set_wall(0x1a2_2a43_40bd);
        raw.send(&golden("request", "multi")).await;
        raw.expect("reply", "multi").await;
        raw.send(&golden("request", "multi-failing")).await;
        raw.expect("reply", "multi-failing").await;
        raw.send(&golden("request", "sync")).await;
        raw.expect("reply", "sync").await;
        raw.send(&golden("request", "add-watch")).await;
        raw.expect("reply", "add-watch").await;
        raw.request(28, &create("/t/z", 0)).await;
        let event = WatcherEvent {
            kind: EventType::Created,
            path: "/t/z".into(),
        };
        let mut expected = BytesMut::new();
        event.encode(&mut expected);
        assert_eq!(
            raw.frame().await,
            expected.freeze(),
            "of the recursive watch"
        );
        assert_eq!(raw.header().await.zxid, 0x127);
        raw.send(&golden("request", "remove-watches")).await;
        raw.expect("reply", "remove-watches").await;
        ask(&mut raw, &delete("/none")).await;
        env.set_wall(0x1a2_2a43_40f8);
        // The largest data that were seen to pass.
        ask(&mut raw, &set("/t", vec![7; 1_048_476])).await;
        let exists = Request::Exists {
            path: "/t".into(),
            watch: false,
        };
        raw.request(36, &exists).await;
        raw.expect("reply", "exists-t").await;
        raw.send(&golden("request", "delete-e")).await;
        raw.expect("reply", "delete-e").await;
        for _ in 0x12b..=0x131 {
            ask(&mut raw, &delete("/none")).await;
        }
        raw.send(&golden("request", "ping")).await;
        raw.expect("reply", "ping").await;
        raw.send(&golden("request", "auth")).await;
        raw.expect("reply", "auth").await;
        raw.request(6, &Request::Sasl { token: None }).await;
        raw.expect("reply", "sasl").await;
        raw.send(&golden("request", "close-session")).await;
        raw.expect("reply", "close-session").await;
        raw.closed().await;
    });
}

#[test]
fn connects_of_every_kind_are_answered_at_once() {
    run(|env| async move {
        let server = start(&env, ServerConfig::new(0x116)).await;
        // Refused with the recorded bytes, with and without the readOnly byte.
        let mut raw = server.raw().await;
        raw.send(&golden("connect", "reconnect")).await;
        raw.expect("connected", "refused-java").await;
        raw.closed().await;
        let mut raw = server.raw().await;
        let wrong = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: 1,
            session_id: i64::MAX,
            password: vec![1; 16].into(),
            read_only: None,
        };
        let mut out = BytesMut::new();
        wrong.encode(&mut out);
        raw.send(&out).await;
        raw.expect("connected", "refused-go").await;
        raw.closed().await;
        // Go's form gets Go's answer; requests right behind the connect request are taken.
        let mut raw = server.raw().await;
        raw.send(&golden("connect", "connect-go")).await;
        raw.send(&golden("request", "set-watches-rust")).await;
        raw.send(&golden("request", "ping")).await;
        let response = ConnectResponse::decode(raw.frame().await.slice(4..)).unwrap();
        assert_eq!((response.timeout_ms, response.read_only), (30_000, None));
        // 0x129 of the refused client was seen: zxids went on above it (C23).
        let set_watches = loop {
            let header = raw.header().await;
            if header.xid != XID_EVENT {
                break header;
            }
        };
        assert_eq!((set_watches.xid, set_watches.zxid), (-8, 0x12a));
        assert_eq!(raw.header().await.xid, XID_PING);
        // A second connection with the session closes the first; a wrong password closes nobody.
        let mut again = ConnectRequest {
            session_id: response.session_id,
            password: vec![9; 16].into(),
            ..wrong
        };
        let mut thief = server.raw().await;
        out.clear();
        again.encode(&mut out);
        thief.send(&out).await;
        thief.expect("connected", "refused-go").await;
        raw.send(&golden("request", "ping")).await;
        assert_eq!(raw.header().await.xid, XID_PING);
        again.password = response.password.clone();
        let mut second = server.raw().await;
        out.clear();
        again.encode(&mut out);
        second.send(&out).await;
        let moved = ConnectResponse::decode(second.frame().await.slice(4..)).unwrap();
        assert_eq!(moved, response);
        raw.closed().await;
        second.send(&golden("request", "ping")).await;
        assert_eq!(second.header().await.xid, XID_PING);
    });
}

#[test]
fn what_cannot_be_is_refused_as_recorded() {
    run(|env| async move {
        let server = start(&env, ServerConfig::new(1)).await;
        // Unknown opcode 77, xid 5.
        let (mut raw, _) = server.connect().await;
        raw.send(&hex("00000008000000050000004d")).await;
        raw.expect("reply", "unknown-opcode").await;
        raw.closed().await;
        // A short body: -5, and the connection goes on.
        let (mut raw, _) = server.connect().await;
        raw.send(&hex("0000000c000000050000000400000009")).await;
        assert_eq!(raw.header().await.err, -5);
        raw.send(&golden("request", "ping")).await;
        assert_eq!(raw.header().await.xid, XID_PING);
        // Frames that are too long, negative, or no request.
        for bad in ["00100000", "ffffffff", "0000000201"] {
            let (mut raw, _) = server.connect().await;
            raw.send(&hex(&bad[..8])).await;
            if bad.len() > 8 {
                raw.send(&hex("0102")).await;
            }
            raw.closed().await;
        }
        for bad in ["0000000800000001", "00000000", "7fffffff"] {
            let mut raw = server.raw().await;
            raw.send(&hex(bad)).await;
            if bad.len() == 16 {
                raw.send(&hex("0000000b")).await;
            }
            raw.closed().await;
        }
        // A cut frame, an empty connection: nothing is left behind.
        let mut raw = server.raw().await;
        raw.send(&hex("0000002d0000")).await;
        drop(raw);
        drop(server.raw().await);
        env.settle().await;
        assert_eq!(server.word("ruok").await, "imok");
    });
}

#[test]
fn the_four_letter_words() {
    run(|env| async move {
        let server = start(&env, ServerConfig::new(0x30)).await;
        let (_raw, _) = server.connect().await;
        assert_eq!(server.word("ruok").await, "imok");
        assert_eq!(server.word("ruok\n").await, "imok");
        assert_eq!(server.word("isro").await, "rw");
        let srvr = server.word("srvr").await;
        for line in [
            "Zookeeper version: 3.8.4-",
            "Zxid: 0x31\n",
            "Mode: standalone\n",
            "Node count: 4\n",
            "Connections: ",
        ] {
            assert!(srvr.contains(line), "{line} in {srvr}");
        }
        let stat = server.word("stat\r\n").await;
        assert!(stat.contains("Clients:\n /127.0.0.1:"), "{stat}");
        assert!(stat.contains("[1](queued=0,recved=1,sent=1)"), "{stat}");
        assert!(
            server
                .word("mntr")
                .await
                .contains("zk_server_state\tstandalone\n")
        );
        let port = format!("clientPort={}\n", server.address.port());
        assert!(server.word("conf").await.contains(&port));
        assert!(
            server
                .word("envi")
                .await
                .contains("\nzookeeper.version=3.8.4-")
        );
        assert_eq!(server.word("RUOK").await, "");
        assert_eq!(server.word("quit").await, "");
        // Half closed behind the word, as `nc` does.
        let mut raw = server.raw().await;
        raw.send(b"ruok").await;
        raw.stream.shutdown().await.unwrap();
        let mut text = String::new();
        raw.stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "imok");
    });
}

#[test]
fn silence_ends_sessions_and_connections() {
    run(|env| async move {
        let server = start(&env, ServerConfig::new(1)).await;
        let mut silent = server.raw().await;
        silent.send(&[0, 0]).await;
        let (mut owner, _) = server.connect().await;
        owner.request(1, &create("/e", 1)).await;
        owner.frame().await;
        let (mut other, _) = server.connect().await;
        let watch = Request::Exists {
            path: "/e".into(),
            watch: true,
        };
        other.request(1, &watch).await;
        other.frame().await;
        // The one pings, the other does not; a half-begun frame is no sign of life.
        owner.send(&[0, 0, 0, 8, 1]).await;
        for _ in 0..9 {
            env.pass(Duration::from_secs(5)).await;
            other.send(&golden("request", "ping")).await;
            let header = other.header().await;
            if header.xid == XID_EVENT {
                assert_eq!(other.header().await.xid, XID_PING);
                break;
            }
        }
        owner.closed().await;
        silent.closed().await;
        let gone = Request::Exists {
            path: "/e".into(),
            watch: false,
        };
        other.request(2, &gone).await;
        assert_eq!(other.header().await.err, -101);
    });
}

#[test]
fn an_hour_of_suspend_expires_nobody() {
    run(|env| async move {
        let server = start(&env, ServerConfig::new(1)).await;
        let (mut raw, _) = server.connect().await;
        env.pass(Duration::from_secs(1)).await;
        env.jump(Duration::from_secs(3_600));
        env.settle().await;
        env.pass(Duration::from_secs(2)).await;
        raw.send(&golden("request", "ping")).await;
        assert_eq!(raw.header().await.xid, XID_PING);
    });
}

#[test]
fn connections_are_limited_by_address_and_in_all() {
    run(|env| async move {
        let mut config = ServerConfig::new(1);
        config.connections_per_address_max = 3;
        let server = start(&env, config).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(server.connect().await);
        }
        server.raw().await.closed().await;
        held.pop();
        // Freed as soon as the server has seen the close.
        loop {
            let mut raw = server.raw().await;
            raw.send(b"ruok").await;
            let mut text = String::new();
            if raw.stream.read_to_string(&mut text).await.is_ok() && text == "imok" {
                break;
            }
        }
    });
}

#[test]
fn answers_come_in_order_to_pipelined_requests() {
    run(|env| async move {
        let server = start(&env, ServerConfig::new(1)).await;
        let (mut raw, _) = server.connect().await;
        let mut out = BytesMut::new();
        set("/none", vec![1; 100_000]).encode(0, &mut out);
        for xid in 1..500 {
            create("/p", 2).encode(xid, &mut out);
        }
        let (mut reader, mut writer) = raw.stream.split();
        let read = async {
            for xid in 0..500 {
                let mut frame = [0; 4];
                reader.read_exact(&mut frame).await.unwrap();
                let mut body = vec![0; u32::from_be_bytes(frame) as usize];
                reader.read_exact(&mut body).await.unwrap();
                let header = ReplyHeader::decode(&mut Reader::new(body.into())).unwrap();
                assert_eq!(header.xid, xid);
            }
        };
        let (written, ()) = tokio::join!(writer.write_all(&out), read);
        written.unwrap();
    });
}

#[test]
fn stopping_closes_everything() {
    run(|env| async move {
        let server = start(&env, ServerConfig::new(1)).await;
        let (mut raw, _) = server.connect().await;
        server.stop.send_replace(true);
        raw.closed().await;
        assert!(env.clock().mono() > Duration::ZERO);
        loop {
            let to = cadastre_env::HostPort::parse(&server.address.to_string()).unwrap();
            if env.net().connect(&to).await.is_err() {
                break;
            }
            env.settle().await;
        }
    });
}
