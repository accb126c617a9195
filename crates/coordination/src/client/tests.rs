//! The client against our own server, over loopback sockets and with a clock moved by hand.

use std::net::SocketAddr;

use cadastre_env::{Clock, Listener, Net};

use super::*;
use crate::server::{ServerConfig, serve};
use crate::test_env::{TestEnv, run};

struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
}

async fn start_at(env: &TestEnv, at: SocketAddr) -> Server {
    let listener = env.net().listen(at).await.unwrap();
    let address = listener.local_addr();
    let (stop, stopped) = watch::channel(false);
    let config = ServerConfig::new(crate::initial_zxid(env.clock().wall()));
    env.spawn("server", serve(env.clone(), listener, config, stopped));
    Server { address, stop }
}

async fn start(env: &TestEnv) -> Server {
    start_at(env, "127.0.0.1:0".parse().unwrap()).await
}

impl Server {
    fn names(&self) -> Vec<HostPort> {
        vec![HostPort::parse(&self.address.to_string()).unwrap()]
    }

    async fn session(&self, env: &TestEnv) -> Session {
        let session = Session::connect(env.clone(), self.names(), Duration::from_secs(9)).await;
        session.unwrap()
    }

    async fn stop(&self, env: &TestEnv) {
        self.stop.send_replace(true);
        while env.net().connect(&self.names()[0]).await.is_ok() {
            env.settle().await;
        }
    }
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> Option<ErrorCode> {
    error_code(&result.unwrap_err())
}

#[test]
fn every_call() {
    run(|env| async move {
        let server = start(&env).await;
        let session = server.session(&env).await;
        assert_eq!(session.state(), State::Connected);
        assert_eq!(session.timeout(), Duration::from_secs(9));
        let data = Bytes::from_static(b"x");
        assert_eq!(
            session
                .create("/a", data.clone(), Mode::Persistent)
                .await
                .unwrap(),
            "/a"
        );
        let again = session.create("/a", data.clone(), Mode::Persistent).await;
        assert_eq!(code(again), Some(ErrorCode::NodeExists));
        let orphan = session.create("/b/c", data.clone(), Mode::Persistent).await;
        assert_eq!(code(orphan), Some(ErrorCode::NoNode));
        let ephemeral = session
            .create("/a/e", data.clone(), Mode::Ephemeral)
            .await
            .unwrap();
        let stat = session.exists(&ephemeral).await.unwrap().unwrap();
        assert_eq!(stat.ephemeral_owner, session.id());
        let numbered = session
            .create("/a/s-", data.clone(), Mode::PersistentSequential)
            .await;
        assert_eq!(numbered.unwrap(), "/a/s-0000000001");
        let numbered = session
            .create("/a/s-", data.clone(), Mode::EphemeralSequential)
            .await;
        assert_eq!(numbered.unwrap(), "/a/s-0000000002");
        let names = session.children("/a").await.unwrap().unwrap();
        assert_eq!(names, ["e", "s-0000000001", "s-0000000002"]);
        assert_eq!(
            session
                .set("/a", &b"yz"[..], Some(0))
                .await
                .unwrap()
                .version,
            1
        );
        assert_eq!(
            code(session.set("/a", data.clone(), Some(0)).await),
            Some(ErrorCode::BadVersion)
        );
        let (data, stat) = session.get("/a").await.unwrap().unwrap();
        assert_eq!((&data[..], stat.version), (&b"yz"[..], 1));
        assert_eq!(session.get("/none").await.unwrap(), None);
        assert_eq!(session.exists("/none").await.unwrap(), None);
        assert_eq!(session.children("/none").await.unwrap(), None);
        assert_eq!(
            code(session.delete("/a", None).await),
            Some(ErrorCode::NotEmpty)
        );
        assert_eq!(
            code(session.delete("/none", None).await),
            Some(ErrorCode::NoNode)
        );
        session.delete("/a/s-0000000001", Some(0)).await.unwrap();
        let large = session
            .set("/a", vec![0; FRAME_MAX], None)
            .await
            .unwrap_err();
        assert_eq!(large.code(), Code::RequestTooBig);
        // Closing takes the ephemerals along at once.
        let other = server.session(&env).await;
        let handle = session.clone();
        session.close().await;
        assert_eq!(handle.state(), State::Closed);
        assert_eq!(handle.get("/a").await.unwrap_err().code(), Code::Fenced);
        assert_eq!(
            other.children("/a").await.unwrap().unwrap(),
            Vec::<String>::new()
        );
    });
}

#[test]
fn watches_fire_once_and_live_through_a_reconnect() {
    run(|env| async move {
        let server = start(&env).await;
        let session = server.session(&env).await;
        let writer = server.session(&env).await;
        let (none, made) = session.watch_data("/a").await.unwrap();
        assert_eq!(none, None);
        writer
            .create("/a", &b""[..], Mode::Persistent)
            .await
            .unwrap();
        assert_eq!(made.changed().await, Watched::Event(EventType::Created));
        let (found, changed) = session.watch_data("/a").await.unwrap();
        assert!(found.is_some());
        let (names, children) = session.watch_children("/a").await.unwrap();
        assert_eq!(names, Some(vec![]));
        let (stat, gone) = session.watch_exists("/later").await.unwrap();
        assert!(stat.is_none());
        writer.set("/a", &b"1"[..], None).await.unwrap();
        assert_eq!(
            changed.changed().await,
            Watched::Event(EventType::DataChanged)
        );
        // The connection is cut by a second one with the same session; while away a child is made.
        let (_, data) = session.watch_data("/a").await.unwrap();
        let id = session.id();
        env.reachable(false);
        steal(&env, &server, &session).await;
        let mut states = session.states();
        states
            .wait_for(|state| *state == State::Suspended)
            .await
            .unwrap();
        writer
            .create("/a/x", &b""[..], Mode::Persistent)
            .await
            .unwrap();
        env.reachable(true);
        env.pass_until("connected again", || session.state() == State::Connected)
            .await;
        assert_eq!(session.id(), id, "the same session");
        assert_eq!(
            children.changed().await,
            Watched::Event(EventType::ChildrenChanged)
        );
        // Those that were not set off are set again.
        writer.set("/a", &b"2"[..], None).await.unwrap();
        assert_eq!(data.changed().await, Watched::Event(EventType::DataChanged));
        writer
            .create("/later", &b""[..], Mode::Persistent)
            .await
            .unwrap();
        assert_eq!(gone.changed().await, Watched::Event(EventType::Created));
    });
}

/// Makes the server drop the session's connection.
async fn steal(env: &TestEnv, server: &Server, session: &Session) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let facts = session.shared.facts();
    let request = crate::jute::ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 9_000,
        session_id: facts.id,
        password: session.shared.password(),
        read_only: None,
    };
    let mut out = bytes::BytesMut::new();
    request.encode(&mut out);
    let mut stream = env.raw(&server.names()[0]).await;
    stream.write_all(&out).await.unwrap();
    let mut answer = [0; 40];
    stream.read_exact(&mut answer).await.unwrap();
}

#[test]
fn an_idle_session_stays_and_its_lease_is_counted_from_the_ping_sent() {
    run(|env| async move {
        let server = start(&env).await;
        let session = server.session(&env).await;
        session
            .create("/e", &b""[..], Mode::Ephemeral)
            .await
            .unwrap();
        for _ in 0..60 {
            env.pass(Duration::from_secs(1)).await;
            let silent = env.clock().mono() - session.last_contact();
            assert!(silent <= Duration::from_secs(5), "{silent:?}");
        }
        assert_eq!(session.state(), State::Connected);
        assert!(session.exists("/e").await.unwrap().is_some());
    });
}

#[test]
fn a_restarted_server_ends_the_session() {
    run(|env| async move {
        let server = start(&env).await;
        let session = server.session(&env).await;
        session
            .create("/e", &b""[..], Mode::Ephemeral)
            .await
            .unwrap();
        let (_, watch) = session.watch_data("/e").await.unwrap();
        server.stop(&env).await;
        env.pass_until("suspended", || session.state() == State::Suspended)
            .await;
        let waiting = session.clone();
        let (tell, told) = oneshot::channel();
        env.spawn("waiting", async move {
            let _ = tell.send(waiting.get("/e").await);
        });
        env.pass(Duration::from_secs(1)).await;
        let again = start_at(&env, server.address).await;
        env.pass_until("expired", || session.state() == State::Expired)
            .await;
        assert_eq!(watch.changed().await, Watched::Lost);
        assert_eq!(told.await.unwrap().unwrap_err().code(), Code::Fenced);
        let fresh = again.session(&env).await;
        assert_eq!(fresh.exists("/e").await.unwrap(), None);
    });
}

#[test]
fn a_held_session_outlives_the_absence_of_every_server_but_its_lease_does_not() {
    run(|env| async move {
        let server = start(&env).await;
        let names = server.names();
        let session = Session::hold(env.clone(), names, Duration::from_secs(9))
            .await
            .unwrap();
        assert_eq!(
            session.lease_until(),
            session.last_contact() + session.timeout()
        );
        assert!(session.lease_until() > env.clock().mono());
        server.stop(&env).await;
        env.reachable(false);
        env.pass(Duration::from_secs(60)).await;
        assert_eq!(session.state(), State::Suspended);
        assert!(session.lease_until() < env.clock().mono());
        // A server that comes back says what has become of it: ours, started anew, knows it no more.
        env.reachable(true);
        let _again = start_at(&env, server.address).await;
        env.pass_until("expired", || session.state() == State::Expired)
            .await;
    });
}

#[test]
fn without_any_server_the_session_ends_by_itself() {
    run(|env| async move {
        let server = start(&env).await;
        let session = server.session(&env).await;
        let before = env.clock().mono();
        server.stop(&env).await;
        env.reachable(false);
        env.pass_until("expired", || session.state() == State::Expired)
            .await;
        let took = env.clock().mono() - before;
        assert!((9..=11).contains(&took.as_secs()), "{took:?}");
        assert_eq!(session.get("/").await.unwrap_err().code(), Code::Fenced);
        let names = server.names();
        let env2 = env.clone();
        let (tell, mut told) = oneshot::channel();
        env.spawn("connecting", async move {
            let _ = tell.send(
                Session::connect(env2, names, Duration::from_secs(9))
                    .await
                    .err(),
            );
        });
        let mut answer = None;
        env.pass_until("given up", || {
            answer = told.try_recv().ok();
            answer.is_some()
        })
        .await;
        assert_eq!(answer.unwrap().unwrap().code(), Code::NotSent);
    });
}

#[test]
fn a_suspended_machine_keeps_its_session_but_not_its_lease() {
    run(|env| async move {
        let server = start(&env).await;
        let session = server.session(&env).await;
        session
            .create("/e", &b""[..], Mode::Ephemeral)
            .await
            .unwrap();
        env.pass(Duration::from_secs(2)).await;
        env.jump(Duration::from_secs(3_600));
        let lease = session.last_contact() + session.timeout();
        assert!(
            env.clock().mono() > lease,
            "nobody serves under it before the next ping"
        );
        env.pass(Duration::from_secs(5)).await;
        assert_eq!(session.state(), State::Connected);
        assert!(session.exists("/e").await.unwrap().is_some());
        assert!(env.clock().mono() < session.last_contact() + session.timeout());
    });
}

#[test]
fn a_silent_server_is_left() {
    run(|env| async move {
        // Accepts and never says a word.
        let silent = env
            .net()
            .listen("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let server = start(&env).await;
        let mut names = vec![HostPort::parse(&silent.local_addr().to_string()).unwrap()];
        names.extend(server.names());
        let env2 = env.clone();
        let (tell, mut told) = oneshot::channel();
        env.spawn("connecting", async move {
            let _ = tell.send(Session::connect(env2, names, Duration::from_secs(9)).await);
        });
        let mut session = None;
        env.pass_until("connected", || {
            session = told.try_recv().ok();
            session.is_some()
        })
        .await;
        assert_eq!(session.unwrap().unwrap().state(), State::Connected);
    });
}

#[test]
fn many_calls_at_once_are_all_answered() {
    run(|env| async move {
        let server = start(&env).await;
        let session = server.session(&env).await;
        let calls = (0..500).map(|_| session.create("/s-", &b""[..], Mode::EphemeralSequential));
        let mut paths = futures::future::try_join_all(calls).await.unwrap();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), 500);
        drop(session);
        let other = server.session(&env).await;
        env.pass(Duration::from_secs(5)).await;
        assert_eq!(
            other.children("/").await.unwrap().unwrap().len(),
            501,
            "dropped is not closed"
        );
        env.pass(Duration::from_secs(5)).await;
        assert_eq!(other.children("/").await.unwrap().unwrap().len(), 1);
    });
}
