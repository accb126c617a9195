//! Caches whose map changes in steps (R19 to R23), measured against real memcached and Redis servers beside the simulation: the same reads in the
//! same order, a miss filled from a database that counts.
//!
//!     cargo test -p cadastre-sharding --test caches -- --ignored --nocapture
//!
//! Servers have memory for all keys, and the simulation is exact: real ones must miss as often, to the read. With too little memory each
//! forgets in a way of its own, by slabs or by samples, which the simulation's strict order does not imitate: that is not measured.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that also reports"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cadastre_sharding::cache::{Access, Gradual, Simulation, StepReport};
use cadastre_sharding::versions::Both;
use cadastre_sharding::{Program, Value};

/// Keys that are read, each once in each step.
const KEYS: i64 = 2_000;

/// Steps of a change.
const STEPS: u32 = 10;

/// Memory of a server, MB: many times what all keys take.
const MEMORY_MB: u32 = 64;

/// Bytes of a value.
const VALUE: usize = 100;

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memcached,
    Redis,
}

/// A real cache server on a socket in a folder.
struct Server {
    process: Child,
    stream: BufReader<UnixStream>,
    kind: Kind,
}

impl Server {
    fn start(kind: Kind, folder: &Path, number: usize) -> Self {
        let socket = folder.join(format!("{number}.sock"));
        let mut command = match kind {
            Kind::Memcached => {
                let mut command = Command::new("memcached");
                let memory = MEMORY_MB.to_string();
                // As whoever runs the test; root has to say so.
                command
                    .args(["-u", "root", "-m", &memory, "-a", "0700", "-s"])
                    .arg(&socket);
                command
            }
            Kind::Redis => {
                let mut command = Command::new("redis-server");
                let memory = format!("{MEMORY_MB}mb");
                command
                    .args(["--port", "0", "--save", "", "--appendonly", "no"])
                    .args([
                        "--maxmemory",
                        &memory,
                        "--maxmemory-policy",
                        "allkeys-lru",
                        "--dir",
                    ])
                    .arg(folder)
                    .arg("--unixsocket")
                    .arg(&socket);
                command
            }
        };
        let process = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stream = connect(&socket);
        stream.set_read_timeout(Some(START)).unwrap();
        Self {
            process,
            stream: BufReader::new(stream),
            kind,
        }
    }

    fn ask(&mut self, request: &[u8]) -> String {
        self.stream.get_mut().write_all(request).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn bulk(&mut self, bytes: usize) {
        let mut value = vec![0; bytes + 2];
        self.stream.read_exact(&mut value).unwrap();
    }

    fn get(&mut self, key: i64) -> bool {
        match self.kind {
            Kind::Memcached => {
                let answer = self.ask(format!("get k{key}\r\n").as_bytes());
                let found = answer.starts_with("VALUE");
                if found {
                    self.bulk(VALUE);
                    assert_eq!(self.line(), "END");
                }
                found
            }
            Kind::Redis => {
                let key = format!("k{key}");
                let request = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
                let answer = self.ask(request.as_bytes());
                let found = answer != "$-1";
                if found {
                    self.bulk(VALUE);
                }
                found
            }
        }
    }

    fn set(&mut self, key: i64) {
        let value = "v".repeat(VALUE);
        match self.kind {
            Kind::Memcached => {
                let request = format!("set k{key} 0 0 {VALUE}\r\n{value}\r\n");
                assert_eq!(self.ask(request.as_bytes()), "STORED");
            }
            Kind::Redis => {
                let key = format!("k{key}");
                let request = format!(
                    "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${VALUE}\r\n{value}\r\n",
                    key.len()
                );
                assert_eq!(self.ask(request.as_bytes()), "+OK");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn connect(socket: &Path) -> UnixStream {
    let pause = Duration::from_millis(20);
    for _ in 0..START.as_millis() / pause.as_millis() {
        if let Ok(stream) = UnixStream::connect(socket) {
            return stream;
        }
        std::thread::sleep(pause);
    }
    panic!("{} does not listen", socket.display());
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("cadastre-caches-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn both(old: &str, new: &str) -> Both {
    let rule = |version: u32, body: &str| {
        let text = format!(
            "cache rule c version {version}; field id: i64; dimension n 0 to 15; {body} place table \"cache{{n}}\";"
        );
        Arc::new(Program::parse(&text).unwrap())
    };
    Both::new(rule(1, old), rule(2, new)).unwrap()
}

/// Reads through real servers, as an application would: the right one, the old owner if that is wanted, the database.
fn measure(kind: Kind, change: &Gradual, read_former: bool) -> Vec<StepReport> {
    let folder = Folder::new(&format!("{kind:?}-{read_former}"));
    let places = change.versions().places().len();
    let mut servers: Vec<Server> = (0..places)
        .map(|number| Server::start(kind, &folder.0, number))
        .collect();
    let mut steps = vec![StepReport::default(); STEPS as usize + 1];
    for (step, report) in (0_u32..).zip(&mut steps) {
        for id in 0..KEYS {
            let route = change.route(step, &[Value::I64(id)]).unwrap();
            let at = route.place.0 as usize;
            report.reads += 1;
            if servers[at].get(id) {
                report.hits += 1;
                continue;
            }
            let former = route.former.filter(|_| read_former);
            match former.is_some_and(|it| servers[it.0 as usize].get(id)) {
                true => report.former += 1,
                // The database is asked.
                false => report.misses += 1,
            }
            servers[at].set(id);
        }
    }
    steps
}

fn simulate(change: &Gradual, read_former: bool) -> Vec<StepReport> {
    let mut simulation = Simulation::new(change.clone(), KEYS as usize, read_former);
    for step in 0..=STEPS {
        for id in 0..KEYS {
            let access = simulation.read(step, &[Value::I64(id)]).unwrap();
            assert!(read_former || access != Access::Former);
        }
    }
    simulation.report().to_vec()
}

fn permille(report: &[StepReport]) -> Vec<u64> {
    let share = |it: &StepReport| it.misses * 1000 / it.reads.max(1);
    report.iter().map(share).collect()
}

#[test]
#[ignore = "needs memcached and redis-server (Debian packages of these names); `cargo xtask test clients` runs it"]
fn r19_to_r23_real_caches_miss_as_often_as_simulated_ones() {
    let ring = |nodes: &str| format!("ring r {{ {nodes} }} virtual 256; else (r(xxh3(id)));");
    let maglev = |nodes: &str| format!("maglev m {{ {nodes} }} entries 65537; else (m(xxh3(id)));");
    let changes = [
        (
            "id % 4 to id % 8",
            both("else (id % 4);", "else (id % 8);"),
            500,
        ),
        (
            "a ring of 8 to 9",
            both(&ring("0 to 7"), &ring("0 to 8")),
            111,
        ),
        (
            "a ring of 8 and one of twice their weight",
            both(&ring("0 to 7"), &ring("0 to 7, 8 weight 2")),
            200,
        ),
        (
            "a node of a ring of 8 grows from weight 1 to 3",
            both(&ring("0 to 7"), &ring("0 to 6, 7 weight 3")),
            175,
        ),
        (
            "Maglev of 8 to 9",
            both(&maglev("0 to 7"), &maglev("0 to 8")),
            111,
        ),
    ];
    for (name, both, moved) in changes {
        let change = Gradual::new(both, STEPS);
        for read_former in [false, true] {
            let simulated = simulate(&change, read_former);
            println!("{name}, old owner asked: {read_former}; misses per 1,000 reads at each step");
            println!("  simulated  {:?}", permille(&simulated));
            for kind in [Kind::Memcached, Kind::Redis] {
                let measured = measure(kind, &change, read_former);
                println!("  {kind:?}  {:?}", permille(&measured));
                assert_eq!(measured, simulated, "{name} {kind:?}");
            }
            // R20: everything is missed once. R22, R23: a step costs its share, or nothing if the old owner is asked.
            let found = permille(&simulated);
            assert_eq!(found[0], 1000);
            let most = found[1..].iter().max().unwrap();
            let sum: u64 = found[1..].iter().sum();
            match read_former {
                true => assert_eq!(sum, 0),
                false => {
                    assert!(*most < moved / 4, "{found:?}");
                    assert!(
                        (moved * 7 / 10..=moved * 13 / 10).contains(&sum),
                        "{found:?}"
                    );
                }
            }
        }
    }
}
