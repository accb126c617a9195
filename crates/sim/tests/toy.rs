//! The simulator under itself: a small durable server and its clients, over the traits of `env` only, through crashes, power
//! cuts, pauses, partitions and resets; nothing acknowledged is lost, equal seeds give equal traces, and a planted fault is found.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cadastre_env::{Clock, Disk, Env, HostPort, Listener, LogFile, Net};
use cadastre_sim::model::Model;
use cadastre_sim::{Failure, Fault, FaultPlan, FaultRates, NodeId, SimEnv, World, WorldConfig};
use rand::Rng as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PORT: u16 = 7000;
const CALL_TIMEOUT: Duration = Duration::from_millis(300);

/// When the toy server answers a write.
#[derive(Clone, Copy, PartialEq)]
enum Acknowledge {
    AfterSync,
    /// The planted fault.
    BeforeSync,
}

type Rows = BTreeMap<u8, (i64, Option<Bytes>)>;

/// A record: length, checksum, body = row, version, has value, value.
fn record(row: u8, version: i64, value: Option<&[u8]>) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(row);
    body.put_i64(version);
    body.put_u8(u8::from(value.is_some()));
    body.put_slice(value.unwrap_or_default());
    let mut record = BytesMut::new();
    record.put_u32(body.len() as u32);
    record.put_u64(checksum(&body));
    record.put_slice(&body);
    record.freeze()
}

fn checksum(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hash = std::hash::DefaultHasher::new();
    hash.write(bytes);
    hash.finish()
}

fn apply(rows: &mut Rows, mut body: Bytes) {
    let (row, version, has) = (body.get_u8(), body.get_i64(), body.get_u8());
    let slot = rows.entry(row).or_default();
    if version >= slot.0 {
        *slot = (version, (has == 1).then_some(body));
    }
}

/// Reads a log up to its first torn record.
fn replay(bytes: &Bytes, rows: &mut Rows) -> u64 {
    let mut at = 0;
    while bytes.len() >= at + 12 {
        let mut head = bytes.slice(at..at + 12);
        let (len, sum) = (head.get_u32() as usize, head.get_u64());
        if len == 0 || bytes.len() < at + 12 + len {
            break;
        }
        let body = bytes.slice(at + 12..at + 12 + len);
        if checksum(&body) != sum {
            break;
        }
        apply(rows, body);
        at += 12 + len;
    }
    at as u64
}

struct Server<E: Env> {
    env: E,
    file: <E::Disk as Disk>::File,
    state: tokio::sync::Mutex<(Rows, u64)>,
    acknowledge: Acknowledge,
}

async fn serve<E: Env>(env: E, acknowledge: Acknowledge) -> io::Result<()> {
    let disk = env.disk();
    let _lock = disk.lock("LOCK")?;
    let file = match disk.open("log/1").await {
        Ok(file) => file,
        Err(_) => {
            let file = disk.create("log/1", 0).await?;
            disk.sync_dir("log").await?;
            file
        }
    };
    let mut rows = Rows::new();
    let len = file.len()? as usize;
    let end = replay(&file.read(0, len)?, &mut rows);
    file.truncate(end)?;
    file.sync_data().await?;
    let server = Arc::new(Server::<E> {
        env: env.clone(),
        file,
        state: tokio::sync::Mutex::new((rows, end)),
        acknowledge,
    });
    let mut listener = env.net().listen(([0, 0, 0, 0], PORT).into()).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let server = Arc::clone(&server);
        let core = env.rng("core").random_range(0..env.cores());
        env.spawn_on(core, "connection", move || {
            Box::pin(async move {
                // Ends with the connection.
                let _ = connection(server, stream).await;
            })
        });
    }
}

async fn connection<E: Env>(
    server: Arc<Server<E>>,
    mut stream: <E::Net as Net>::Stream,
) -> io::Result<()> {
    loop {
        let len = stream.read_u32().await? as usize;
        let mut frame = vec![0; len];
        stream.read_exact(&mut frame).await?;
        let mut frame = Bytes::from(frame);
        let answer = if frame.get_u8() == b'r' {
            let state = server.state.lock().await;
            let value = state.0.get(&frame[0]).and_then(|(_, value)| value.clone());
            value.map_or_else(Bytes::new, |value| {
                let mut answer = BytesMut::from(&b"v"[..]);
                answer.put_slice(&value);
                answer.freeze()
            })
        } else {
            let mut state = server.state.lock().await;
            let (row, version) = (frame.get_u8(), frame.get_i64());
            let value = (frame.get_u8() == 1).then_some(&frame[..]);
            let record = record(row, version, value);
            server.file.write_at(state.1, &record)?;
            state.1 += record.len() as u64;
            if server.acknowledge == Acknowledge::AfterSync
                && let Err(error) = server.file.sync_data().await
            {
                // What is durable now is known after a restart only (C17).
                server.env.exit(&error.to_string());
            }
            apply(&mut state.0, record.slice(12..));
            Bytes::from_static(b"k")
        };
        stream.write_u32(answer.len() as u32).await?;
        stream.write_all(&answer).await?;
    }
}

#[derive(Default)]
struct Shared {
    model: Model,
    violation: Option<String>,
    done: usize,
}

struct Client {
    env: SimEnv,
    stream: Option<cadastre_sim::SimStream>,
}

impl Client {
    async fn call(&mut self, frame: &[u8]) -> io::Result<Bytes> {
        let clock = self.env.clock().clone();
        let answer = clock.timeout(CALL_TIMEOUT, self.try_call(frame)).await;
        let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if answer.is_err() {
            self.stream = None;
        }
        self.env.note(format_args!("answer {answer:?}"));
        answer
    }

    async fn try_call(&mut self, frame: &[u8]) -> io::Result<Bytes> {
        if self.stream.is_none() {
            let to = HostPort::new("server", PORT);
            self.stream = Some(self.env.net().connect(&to).await?);
        }
        let stream = self.stream.as_mut().expect("just connected");
        stream.write_u32(frame.len() as u32).await?;
        stream.write_all(frame).await?;
        let len = stream.read_u32().await? as usize;
        let mut answer = vec![0; len];
        stream.read_exact(&mut answer).await?;
        Ok(answer.into())
    }
}

async fn client(env: SimEnv, number: usize, operations: u32, shared: Arc<Mutex<Shared>>) {
    let mut rng = env.rng("workload");
    let mut client = Client {
        env: env.clone(),
        stream: None,
    };
    for operation in 0..operations {
        let row = rng.random_range(0..20u8);
        let key = Bytes::from(vec![row]);
        if rng.random_bool(0.5) {
            let version = i64::from(operation) * 100 + number as i64 + 1;
            let size = rng.random_range(1..3000);
            let value = (!rng.random_bool(0.1)).then(|| {
                let mut value = format!("{version} ").into_bytes();
                value.resize(size.max(value.len()), b'x');
                Bytes::from(value)
            });
            let mut frame = BytesMut::from(&b"w"[..]);
            frame.put_u8(row);
            frame.put_i64(version);
            frame.put_u8(u8::from(value.is_some()));
            frame.put_slice(value.as_deref().unwrap_or_default());
            shared
                .lock()
                .unwrap()
                .model
                .begin_write(&key, version, value);
            if client.call(&frame).await.is_ok() {
                shared
                    .lock()
                    .unwrap()
                    .model
                    .acknowledge_write(&key, version);
            }
        } else {
            let begun = shared.lock().unwrap().model.begin_read(&key);
            let answer = client.call(&[b'r', row]).await;
            if let Ok(answer) = answer {
                let seen = (!answer.is_empty()).then(|| &answer[1..]);
                let mut shared = shared.lock().unwrap();
                if let Err(violation) = shared.model.end_read(&key, begun, seen) {
                    shared.violation.get_or_insert(violation.to_string());
                }
            }
        }
        let pause = Duration::from_micros(rng.random_range(0..3000));
        env.clock().sleep(pause).await;
    }
    shared.lock().unwrap().done += 1;
}

struct Outcome {
    hash: u64,
    lines: Vec<String>,
    checked: u64,
    events: u64,
}

fn run(seed: u64, acknowledge: Acknowledge, keep_trace: bool) -> Result<Outcome, Failure> {
    let config = WorldConfig {
        keep_trace,
        ..WorldConfig::default()
    };
    let mut world = World::new(seed, config);
    let server = world.add_node("server", move |env| {
        Box::pin(async move {
            if let Err(error) = serve(env.clone(), acknowledge).await {
                env.exit(&error.to_string());
            }
        })
    });
    world.supervise(server, Duration::from_millis(1)..=Duration::from_millis(50));
    let shared = Arc::new(Mutex::new(Shared::default()));
    let clients: Vec<NodeId> = (0..3)
        .map(|number| {
            let shared = Arc::clone(&shared);
            world.add_node(&format!("client-{number}"), move |env| {
                Box::pin(client(env, number, 200, Arc::clone(&shared)))
            })
        })
        .collect();
    world.apply(&Fault::Start { node: server });
    for node in &clients {
        world.apply(&Fault::Start { node: *node });
    }
    let mut rng = world.rng("faults");
    let rates = FaultRates {
        every: Duration::from_millis(20)..=Duration::from_millis(200),
        lasts: Duration::from_millis(1)..=Duration::from_millis(100),
        ..FaultRates::default()
    };
    let until = Duration::from_secs(3);
    world.follow(&FaultPlan::draw(&mut rng, until, server, &clients, &rates));
    let count = clients.len();
    let watch = Arc::clone(&shared);
    let done = world.run_while(Duration::from_secs(600), |_| {
        let shared = watch.lock().unwrap();
        shared.violation.is_none() && shared.done < count
    })?;
    if let Some(violation) = &shared.lock().unwrap().violation {
        return Err(world.failure(violation));
    }
    if !done {
        return Err(world.failure("the clients did not finish"));
    }
    let checked = shared.lock().unwrap().model.checked();
    let events = world.events();
    Ok(world.with_trace(|trace| Outcome {
        hash: trace.hash(),
        lines: trace.lines().to_vec(),
        checked,
        events,
    }))
}

#[test]
fn equal_seeds_give_equal_traces_and_nothing_is_lost() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let first = run(seed, Acknowledge::AfterSync, true).unwrap_or_else(|f| panic!("{f}"));
        let second = run(seed, Acknowledge::AfterSync, true).unwrap_or_else(|f| panic!("{f}"));
        if first.hash != second.hash {
            let pairs = first.lines.iter().zip(&second.lines);
            let differs = pairs.enumerate().find(|(_, (one, other))| one != other);
            panic!("seed {seed} differs: {differs:#?}");
        }
        assert!(first.checked > 50, "seed {seed} checked {}", first.checked);
        assert!(first.events > 1000);
        hashes.insert(first.hash);
    }
    assert_eq!(hashes.len(), 20, "different seeds differ");
}

#[test]
fn acknowledging_before_the_sync_is_found() {
    let found = (0..20)
        .filter(|seed| run(*seed, Acknowledge::BeforeSync, false).is_err())
        .count();
    assert!(found >= 5, "found in {found} of 20 seeds");
}
