//! One try to one server: what goes over the wire, how far a call came, what is bounded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cadastre_env::HostPort;
use cadastre_rpc::ha::policy::Class;
use cadastre_rpc::ha::{Engine, Executed, Failed};
use cadastre_rpc::hadoop::Alignment;
use cadastre_types::Code;
use cadastre_wire::hadoop::{Outcome, User};
use futures::future::join_all;

use crate::fake::{Do, Fake, STANDBY, ask, echo, engine, exception, run, standby, target};

fn how(failed: &Failed) -> (Class, Executed) {
    (failed.first().class, failed.first().executed)
}

#[test]
fn calls_share_a_connection_and_are_answered_in_any_order() {
    run(async |env| {
        let fake = Fake::start(&env, |request| match &request.body[..] {
            b"first" => Do::Later,
            _ => echo(request),
        })
        .await;
        let engine = engine(&env, |_| {});
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let bodies = ["first", "second", "third"];
        let answers = join_all(bodies.map(|body| ask(&engine, &*proxy, body))).await;
        for (answer, body) in answers.into_iter().zip(bodies) {
            assert_eq!(answer.unwrap(), body);
        }
        let seen = fake.seen();
        assert_eq!(seen.connections, 1);
        let protocol = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
        assert_eq!(seen.contexts, [(User::new("alice"), protocol.to_owned())]);
        for (at, request) in seen.requests.iter().enumerate() {
            assert_eq!(request.call_id, i32::try_from(at).unwrap());
            assert_eq!((request.client_id.len(), request.version), (16, 1));
            assert_eq!((&*request.method, &*request.protocol), ("mkdirs", protocol));
            assert_eq!(request.client_id, seen.requests[0].client_id);
        }
    });
}

#[test]
fn users_have_connections_of_their_own_and_one_client_id() {
    run(async |env| {
        let fake = Fake::start(&env, echo).await;
        let engine = engine(&env, |_| {});
        let bob = User {
            effective: "bob".to_owned(),
            real: Some("root".to_owned()),
        };
        let mut other = target(&fake.at);
        other.user = bob.clone();
        let proxies = [target(&fake.at), other].map(|target| engine.proxy(target).unwrap());
        for proxy in &proxies {
            ask(&engine, &**proxy, "x").await.unwrap();
            ask(&engine, &**proxy, "x").await.unwrap();
        }
        let seen = fake.seen();
        assert_eq!(seen.connections, 2);
        assert_eq!(seen.contexts[1].0, bob);
        let same = |request: &cadastre_wire::hadoop::Request| {
            request.client_id == seen.requests[0].client_id
        };
        assert!(seen.requests.iter().all(same));
        // Another engine is another client.
        let stranger = crate::fake::engine(&env, |_| {});
        let proxy = stranger.proxy(target(&fake.at)).unwrap();
        ask(&stranger, &*proxy, "x").await.unwrap();
        let seen = fake.seen();
        assert_ne!(seen.requests[4].client_id, seen.requests[0].client_id);
    });
}

#[test]
fn exceptions_leave_the_connection_open() {
    run(async |env| {
        let fake = Fake::start(&env, standby).await;
        let engine = engine(&env, |_| {});
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert_eq!(how(&failed), (Class::Standby, Executed::No));
        let text = format!("{}: {STANDBY} said so", fake.at);
        assert_eq!(failed.first().error.message(), text);
        fake.becomes(echo);
        assert_eq!(ask(&engine, &*proxy, "x").await.unwrap(), "x");
        assert_eq!(fake.seen().connections, 1);
    });
}

#[test]
fn how_far_a_call_came_is_known() {
    run(async |env| {
        let engine = engine(&env, |config| {
            config.connect_timeout = Duration::from_secs(5);
        });
        // Nobody listens.
        let fake = Fake::start(&env, |_| Do::Close).await;
        let nobody = HostPort::new("127.0.0.1", 1);
        let proxy = engine.proxy(target(&nobody)).unwrap();
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert_eq!(how(&failed), (Class::Refused, Executed::No));
        // No such name.
        let nowhere = HostPort::new("no-such-host.invalid", 1);
        let proxy = engine.proxy(target(&nowhere)).unwrap();
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert_eq!(how(&failed), (Class::UnknownHost, Executed::No));
        assert!(
            failed
                .first()
                .error
                .message()
                .contains("no-such-host.invalid")
        );
        // Closed after the request.
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert_eq!(failed.first().executed, Executed::Maybe);
        let class = failed.first().class;
        assert!(matches!(class, Class::Eof | Class::Socket), "{class:?}");
        assert_eq!(failed.first().error.code(), Code::OutcomeUnknown);
        // The next call connects anew.
        fake.becomes(echo);
        assert_eq!(ask(&engine, &*proxy, "x").await.unwrap(), "x");
    });
}

#[test]
fn a_silent_server_is_given_up_and_connected_to_anew() {
    run(async |env| {
        let fake = Fake::start(&env, |_| Do::Nothing).await;
        let engine = engine(&env, |config| {
            config.call_timeout = Duration::from_millis(200);
        });
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert_eq!(how(&failed), (Class::CallTimeout, Executed::Maybe));
        fake.becomes(echo);
        // Perhaps still on the old connection, whose end is not yet noticed; then on a new one.
        while fake.seen().connections < 2 {
            ask(&engine, &*proxy, "x").await.unwrap();
        }
    });
}

#[test]
fn a_server_that_takes_long_is_pinged() {
    run(async |env| {
        let fake = Fake::start(&env, |request| match &request.body[..] {
            b"slow" => Do::Later,
            _ => echo(request),
        })
        .await;
        let engine = engine(&env, |config| {
            config.ping = Some(Duration::from_millis(50));
        });
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let slow = ask(&engine, &*proxy, "slow");
        let other = async {
            fake.until(|seen| seen.pings >= 2).await;
            ask(&engine, &*proxy, "quick").await
        };
        let (slow, quick) = futures::join!(slow, other);
        assert_eq!(
            (slow.unwrap(), quick.unwrap()),
            ("slow".into(), "quick".into())
        );
    });
}

#[test]
fn an_idle_connection_is_closed() {
    run(async |env| {
        let fake = Fake::start(&env, echo).await;
        let engine = engine(&env, |config| config.idle = Duration::from_millis(50));
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        ask(&engine, &*proxy, "x").await.unwrap();
        fake.until(|seen| seen.closed == 1).await;
        ask(&engine, &*proxy, "x").await.unwrap();
        assert_eq!(fake.seen().connections, 2);
    });
}

#[test]
fn a_fatal_answer_ends_every_call() {
    run(async |env| {
        let class = "org.apache.hadoop.security.authorize.AuthorizationException";
        // Before any answer: nothing was taken on this connection.
        let fake = Fake::start(&env, move |request| match &request.body[..] {
            b"fatal" => Do::Fatal(-1, exception(class, 15)),
            b"first" => echo(request),
            _ => Do::Nothing,
        })
        .await;
        let engine = engine(&env, |_| {});
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let failed = ask(&engine, &*proxy, "fatal").await.unwrap_err();
        assert_eq!(how(&failed), (Class::Remote, Executed::No));
        assert!(failed.first().error.message().contains(class));
        // Later, the others may have been done.
        ask(&engine, &*proxy, "first").await.unwrap();
        let bodies = ["waits", "fatal"];
        let answers = join_all(bodies.map(|body| ask(&engine, &*proxy, body))).await;
        for answer in answers {
            assert_eq!(how(&answer.unwrap_err()), (Class::Socket, Executed::Maybe));
        }
        // A fatal answer for a call is its answer.
        fake.becomes(|request| Do::Fatal(request.call_id, exception(STANDBY, 10)));
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert_eq!(how(&failed), (Class::Standby, Executed::No));
    });
}

#[test]
fn what_is_no_hadoop_server_is_said_to_be_none() {
    run(async |env| {
        let raw = |bytes: &'static [u8]| move |_: &_| Do::Raw(Bytes::from_static(bytes));
        let fake = Fake::start(&env, raw(b"HTTP/1.1 404 Not Found\r\n\r\n")).await;
        let engine = engine(&env, |_| {});
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert_eq!(failed.first().class, Class::Other);
        assert!(failed.first().error.message().contains("web port"));
        // A frame that is none.
        fake.becomes(raw(b"\0\0\0\x05\x03abcd"));
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        let message = failed.first().error.message();
        assert!(message.contains("no Hadoop IPC server"), "{message}");
        // A frame larger than any.
        fake.becomes(raw(b"\x7f\xff\xff\xff\xff\xff\xff\xff"));
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert_eq!(failed.first().class, Class::Other);
        // SASL.
        fake.becomes(raw(
            b"\0\0\0\x0e\x0a\x08\xdf\xff\xff\xff\x0f\x10\0\x02\x10\0\0\0",
        ));
        let failed = ask(&engine, &*proxy, "x").await.unwrap_err();
        assert!(matches!(failed.first().class, Class::Other | Class::Sasl));
    });
}

#[test]
fn answers_to_nobody_are_ignored() {
    run(async |env| {
        // An answer for call 77, without a client id, then the right one.
        let stray: &[u8] = b"\0\0\0\x06\x04\x08\x4d\x10\x00\x00";
        let fake = Fake::start(&env, move |request| match &request.body[..] {
            b"stray" => Do::Raw(Bytes::from_static(stray)),
            _ => echo(request),
        })
        .await;
        let engine = engine(&env, |config| {
            config.call_timeout = Duration::from_millis(200);
        });
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let failed = ask(&engine, &*proxy, "stray").await.unwrap_err();
        assert_eq!(how(&failed), (Class::CallTimeout, Executed::Maybe));
        assert_eq!(ask(&engine, &*proxy, "x").await.unwrap(), "x");
    });
}

#[test]
fn an_answer_over_the_limit_fails_its_call_alone() {
    run(async |env| {
        let fake = Fake::start(&env, |request| match &request.body[..] {
            b"big" => Do::Say(Outcome::Success(vec![7; 100_000].into())),
            _ => echo(request),
        })
        .await;
        let engine = engine(&env, |config| config.response_bytes_max = 10_000);
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let bodies = ["big", "small"];
        let answers = join_all(bodies.map(|body| ask(&engine, &*proxy, body))).await;
        let failed = answers[0].as_ref().unwrap_err();
        assert_eq!(failed.first().error.code(), Code::RequestTooBig);
        assert_eq!(answers[1].as_ref().unwrap(), "small");
        assert_eq!(fake.seen().connections, 1);
    });
}

#[test]
fn what_was_seen_is_sent_along() {
    run(async |env| {
        let fake = Fake::start(&env, |_| Do::SayAt(41)).await;
        let engine = engine(&env, |_| {});
        let mut aligned = target(&fake.at);
        aligned.alignment = Some(Arc::new(Alignment::default()));
        let proxy = engine.proxy(aligned).unwrap();
        ask(&engine, &*proxy, "x").await.unwrap();
        ask(&engine, &*proxy, "x").await.unwrap();
        let states: Vec<_> = (fake.seen().requests.iter())
            .map(|request| request.state_id)
            .collect();
        assert_eq!(states, [None, Some(41)]);
    });
}

#[test]
fn callers_that_wait_for_their_turn_are_bounded_by_time() {
    run(async |env| {
        let fake = Fake::start(&env, |_| Do::Nothing).await;
        let engine = engine(&env, |config| {
            config.calls_max = 2;
            config.call_timeout = Duration::from_millis(300);
        });
        let proxy = engine.proxy(target(&fake.at)).unwrap();
        let answers = join_all((0..5).map(|_| ask(&engine, &*proxy, "x"))).await;
        let sent = fake.seen().requests.len();
        assert!(sent >= 2);
        let unsent = answers
            .iter()
            .filter(|answer| how(answer.as_ref().unwrap_err()) == (Class::NotSent, Executed::No));
        // Whose turn never came was never sent, and is told so.
        assert_eq!(unsent.count(), 5 - sent);
    });
}
