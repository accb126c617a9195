//! What the world does to programs: time, tasks, ends, and the network between nodes.

#![allow(
    clippy::disallowed_methods,
    reason = "what must not be used is used to see it found"
)]

use std::future::Future;
use std::io;
use std::sync::Mutex;

use cadastre_env::{Clock, Env, HostPort, Listener, Net};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::SimStream;

type Log = Arc<Mutex<Vec<String>>>;

fn world() -> World {
    World::new(
        1,
        WorldConfig {
            keep_trace: true,
            ..WorldConfig::default()
        },
    )
}

fn node<F: Future<Output = ()> + 'static>(
    world: &mut World,
    name: &str,
    program: impl Fn(SimEnv) -> F + 'static,
) -> NodeId {
    let node = world.add_node(name, move |env| Box::pin(program(env)));
    world.apply(&Fault::Start { node });
    node
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn said(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

fn say(log: &Log, what: impl ToString) {
    log.lock().unwrap().push(what.to_string());
}

/// A server that reads and tells what it read, byte by byte counted, until its end.
async fn sink(env: SimEnv, log: Log) {
    let mut listener = env.net().listen(([0, 0, 0, 0], 80).into()).await.unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let log = Arc::clone(&log);
        env.spawn("reader", async move {
            let mut total = 0;
            let mut buffer = vec![0; 10_000];
            loop {
                match stream.read(&mut buffer).await {
                    Ok(0) => return say(&log, format!("end after {total}")),
                    Ok(count) => total += count,
                    Err(error) => return say(&log, format!("{} after {total}", error.kind())),
                }
            }
        });
    }
}

async fn connect(env: &SimEnv) -> io::Result<SimStream> {
    env.net().connect(&HostPort::new("server", 80)).await
}

#[test]
fn sleeps_are_exact_and_a_skewed_wall_clock_does_not_change_them() {
    let log = Log::default();
    let tell = Arc::clone(&log);
    let mut world = world();
    let id = node(&mut world, "n", move |env| {
        let tell = Arc::clone(&tell);
        async move {
            let clock = env.clock().clone();
            let before = (clock.mono(), clock.wall());
            clock.sleep(Duration::from_micros(1500)).await;
            clock.sleep(ms(10)).await;
            let mono = clock.mono() - before.0;
            let wall = clock.wall() as i64 - before.1 as i64;
            say(&tell, format!("{mono:?} {wall}"));
            let late = clock.timeout(ms(1), clock.sleep(ms(2))).await;
            let both = clock.timeout(ms(2), clock.sleep(ms(2))).await;
            say(&tell, format!("{late:?} {both:?}"));
        }
    });
    world.run_for(ms(1)).unwrap();
    world.apply(&Fault::ClockStep {
        node: id,
        by_ms: -3_600_000,
    });
    world.run_for(ms(100)).unwrap();
    assert_eq!(said(&log), ["11.5ms -3599989", "Err(Elapsed) Ok(())"]);
}

#[test]
fn exit_ends_the_node_only_and_it_is_started_again() {
    let log = Log::default();
    let tell = Arc::clone(&log);
    let mut world = world();
    let id = node(&mut world, "n", move |env| {
        let tell = Arc::clone(&tell);
        async move {
            say(&tell, format!("start at {:?}", env.clock().mono()));
            let dying = env.clone();
            env.spawn("other", async move {
                dying.clock().sleep(ms(5)).await;
                dying.exit("enough");
            });
            env.clock().sleep(ms(6)).await;
            say(&tell, "not reached");
        }
    });
    world.supervise(id, ms(10)..=ms(10));
    world.run_for(ms(16)).unwrap();
    assert_eq!(said(&log), ["start at 0ns", "start at 15ms"]);
    assert_eq!(world.exits().len(), 1);
    assert_eq!(world.exits()[0].why, "enough");
}

#[test]
fn panics_timers_of_tokio_and_blocking_threads_fail_the_seed() {
    type Program = fn(SimEnv) -> LocalBoxFuture<'static, ()>;
    let programs: [(&str, Program); 3] = [
        ("at the disco", |env| {
            Box::pin(async move {
                env.spawn("panics", async { panic!("at the disco") });
            })
        }),
        ("timers are disabled", |_| {
            Box::pin(async { tokio::time::sleep(ms(1)).await })
        }),
        ("spawn_blocking", |_| {
            Box::pin(async {
                let done = tokio::task::spawn_blocking(|| ());
                done.await.unwrap();
            })
        }),
    ];
    for (expected, program) in programs {
        let mut world = world();
        let id = world.add_node("n", program);
        world.apply(&Fault::Start { node: id });
        // A thread of the blocking pool begins when the machine lets it.
        let found = (0..100).find_map(|_| {
            std::thread::sleep(ms(2));
            let looked_at = world.nodes[id.0].running.as_ref().map(|(start, _)| *start);
            world.run_node(looked_at.unwrap());
            world.run_for(ms(1)).err()
        });
        let failure = found.unwrap_or_else(|| panic!("{expected} was not found"));
        assert!(failure.what.contains(expected), "{failure}");
    }
}

#[test]
fn a_world_that_does_not_get_on_is_a_failure() {
    let mut world = world();
    node(&mut world, "n", |env| async move {
        loop {
            env.clock().sleep(Duration::ZERO).await;
        }
    });
    let failure = world.run_for(ms(1)).unwrap_err();
    assert!(failure.what.contains("livelock"), "{failure}");
}

#[test]
fn a_writer_waits_for_a_reader_that_does_not_read() {
    let log = Log::default();
    let tell = Arc::clone(&log);
    let mut world = world();
    let server = node(&mut world, "server", move |env| {
        sink(env, Arc::clone(&tell))
    });
    let tell = Arc::clone(&log);
    node(&mut world, "client", move |env| {
        let tell = Arc::clone(&tell);
        async move {
            let mut stream = connect(&env).await.unwrap();
            for chunk in 0..40 {
                stream.write_all(&[1; 10_000]).await.unwrap();
                say(&tell, chunk);
            }
        }
    });
    world.run_for(ms(1)).unwrap();
    world.apply(&Fault::Pause {
        node: server,
        lasts: Duration::from_secs(10),
    });
    world.run_for(Duration::from_secs(5)).unwrap();
    let window = WorldConfig::default().net.window_bytes;
    let sent = said(&log).len();
    assert!(sent <= 2 * window / 10_000 + 1, "{sent} of 40 chunks");
    world.run_for(Duration::from_secs(10)).unwrap();
    assert_eq!(said(&log).last().unwrap(), "end after 400000");
}

#[test]
fn a_killed_process_is_noticed_and_a_machine_without_power_is_not() {
    for (fault, expected) in [(true, true), (false, false)] {
        let log = Log::default();
        let mut world = world();
        let server = node(&mut world, "server", |env| sink(env, Log::default()));
        let tell = Arc::clone(&log);
        node(&mut world, "client", move |env| {
            let tell = Arc::clone(&tell);
            async move {
                let mut stream = connect(&env).await.unwrap();
                say(&tell, "connected");
                let ended = stream.read_u8().await.unwrap_err();
                say(&tell, format!("{:?}", ended.kind()));
                let again = connect(&env).await.err().map(|error| error.kind());
                say(&tell, format!("{again:?}"));
            }
        });
        world.run_for(ms(100)).unwrap();
        world.apply(&if fault {
            Fault::Crash { node: server }
        } else {
            Fault::PowerCut { node: server }
        });
        world.run_for(Duration::from_secs(10)).unwrap();
        let said = said(&log);
        if expected {
            assert!(
                matches!(&said[1][..], "ConnectionReset" | "UnexpectedEof"),
                "{said:?}"
            );
            assert_eq!(said[2], "Some(ConnectionRefused)");
        } else {
            assert_eq!(said, ["connected"], "half open");
        }
    }
}

#[test]
fn what_is_sent_to_a_machine_without_power_meets_a_reset_when_it_is_back() {
    let log = Log::default();
    let mut world = world();
    let server = node(&mut world, "server", |env| sink(env, Log::default()));
    let tell = Arc::clone(&log);
    node(&mut world, "client", move |env| {
        let tell = Arc::clone(&tell);
        async move {
            let mut stream = connect(&env).await.unwrap();
            env.clock().sleep(ms(200)).await;
            stream.write_all(b"lost").await.unwrap();
            say(
                &tell,
                format!("{:?}", stream.read_u8().await.unwrap_err().kind()),
            );
        }
    });
    world.run_for(ms(100)).unwrap();
    world.apply(&Fault::PowerCut { node: server });
    world.run_for(Duration::from_secs(5)).unwrap();
    assert!(said(&log).is_empty());
    world.apply(&Fault::Start { node: server });
    world.run_for(Duration::from_secs(1)).unwrap();
    assert_eq!(said(&log), ["ConnectionReset"]);
}

#[test]
fn a_partition_holds_bytes_back_and_gives_up_after_a_time() {
    for (lasts, expected) in [(5, "end after 4"), (60, "timed out")] {
        let log = Log::default();
        let tell = Arc::clone(&log);
        let mut world = world();
        let server = node(&mut world, "server", move |env| {
            sink(env, Arc::clone(&tell))
        });
        let tell = Arc::clone(&log);
        let client = node(&mut world, "client", move |env| {
            let tell = Arc::clone(&tell);
            async move {
                let mut stream = connect(&env).await.unwrap();
                env.clock().sleep(ms(200)).await;
                stream.write_all(b"late").await.unwrap();
                stream.shutdown().await.unwrap();
                if let Err(error) = stream.read_u8().await
                    && error.kind() == io::ErrorKind::TimedOut
                {
                    say(&tell, "timed out");
                }
            }
        });
        world.run_for(ms(100)).unwrap();
        world.apply(&Fault::Partition {
            a: server,
            b: client,
            lasts: Duration::from_secs(lasts),
        });
        world.run_for(Duration::from_secs(4)).unwrap();
        assert!(said(&log).is_empty(), "nothing passes");
        world.run_for(Duration::from_secs(40)).unwrap();
        assert_eq!(said(&log), [expected]);
    }
}

#[test]
fn ports_and_names_are_as_on_a_machine() {
    let log = Log::default();
    let tell = Arc::clone(&log);
    let mut world = world();
    node(&mut world, "n", move |env| {
        let tell = Arc::clone(&tell);
        async move {
            let net = env.net();
            let first = net.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let at = first.local_addr();
            let taken = net.listen(at).await.err().map(|error| error.kind());
            let foreign = net.listen("10.9.9.9:1".parse().unwrap()).await.err();
            let nobody = net.connect(&HostPort::new("nobody", 1)).await.err();
            let itself = net.connect(&HostPort::new("n", at.port())).await.is_ok();
            drop(first);
            let gone = net
                .connect(&HostPort::new("localhost", at.port()))
                .await
                .err();
            for error in [foreign, nobody, gone] {
                say(&tell, format!("{:?}", error.map(|error| error.kind())));
            }
            say(&tell, format!("{taken:?} {itself}"));
        }
    });
    world.run_for(ms(100)).unwrap();
    let expected = [
        "Some(AddrNotAvailable)",
        "Some(NotFound)",
        "Some(ConnectionRefused)",
        "Some(AddrInUse) true",
    ];
    assert_eq!(said(&log), expected);
}
