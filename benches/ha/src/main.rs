//! The Rust side of `tests/hdfs/bench.sh`: what HdfsHa.java does by Hadoop's own client, by ours.
//!
//! ```text
//! cadastre-ha-bench load CONF_DIR CALLERS SECONDS     getFileInfo, a line of JSON
//! cadastre-ha-bench stalls CONF_DIR CALLERS STOP      mkdirs until the file STOP is there: how long calls took, a line of JSON
//! ```

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cadastre_env::{Clock, Env, RealEnv, RealEnvConfig};
use cadastre_rpc::ha::config::Conf;
use cadastre_rpc::ha::{Engine, Engines, Source, connections, create_proxy};
use cadastre_rpc::hadoop::{CLIENT_PROTOCOL, ClientProtocol, ClientProtocolClient, HadoopEngine};
use cadastre_wire::hadoop::{User, pb};
use futures::future::join_all;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Nothing counts before: as long as the JVM is given.
const WARM: Duration = Duration::from_secs(10);

/// Calls of more than this, ms, were held up.
const HELD_UP_MS: u64 = 100;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: std::env::temp_dir(),
        cores: 1,
        background_threads: 1,
    })
    .expect("threads can be started");
    let here = env.clone();
    let done = match words[..] {
        ["load", conf, callers, seconds] => {
            let conf = PathBuf::from(conf);
            let (callers, seconds) = (number(callers), number(seconds));
            env.block_on(async move { load(&here, &conf, callers, seconds).await })
        }
        ["stalls", conf, callers, stop] => {
            let (conf, callers, stop) = (PathBuf::from(conf), number(callers), PathBuf::from(stop));
            env.block_on(async move { stalls(&here, &conf, callers, stop).await })
        }
        _ => panic!("load CONF_DIR CALLERS SECONDS, or stalls CONF_DIR CALLERS STOP"),
    };
    done.expect("the bench comes to its end");
    env.shutdown();
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// One client, as Hadoop's is configured: its defaults, and no observer.
async fn client(env: &RealEnv, dir: &Path) -> ClientProtocolClient {
    let mut conf = Conf::default();
    for file in ["core-site.xml", "hdfs-site.xml"] {
        let text = std::fs::read_to_string(dir.join(file)).expect("Hadoop's configuration");
        conf.read(file, &text).expect("Hadoop's configuration");
    }
    let uri = conf.get("fs.defaultFS").expect("readable").expect("set");
    let ids = format!("dfs.ha.namenodes.{}", uri.trim_start_matches("hdfs://"));
    conf.set(&ids, "nn0,nn1", "bench");
    conf.set("dfs.client.failover.random.order", "false", "bench");
    let limits = connections(&mut conf).expect("Hadoop's configuration");
    let engine: Arc<dyn Engine> = Arc::new(HadoopEngine::new(env.clone(), limits));
    let engines = Engines::new(engine);
    let user = User::new("root");
    let source = Source::Uri(&uri);
    let created = create_proxy(env, &conf, source, &CLIENT_PROTOCOL, &user, &engines, None).await;
    ClientProtocolClient::new(created.expect("a proxy").proxy)
}

fn mkdirs(src: &str) -> pb::MkdirsRequestProto {
    pb::MkdirsRequestProto {
        src: src.to_owned(),
        masked: pb::FsPermissionProto { perm: 0o755 },
        create_parent: true,
        unmasked: None,
    }
}

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

async fn load(env: &RealEnv, conf: &Path, callers: u64, seconds: u64) {
    let client = client(env, conf).await;
    client.mkdirs(mkdirs("/load")).await.expect("a directory");
    let (counts, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let (counts, stop) = (&counts, &stop);
    let caller = |_| {
        let client = client.clone();
        async move {
            let mut times: Vec<Duration> = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                let request = pb::GetFileInfoRequestProto {
                    src: "/load".to_owned(),
                };
                client.get_file_info(request).await.expect("an answer");
                if counts.load(Ordering::Relaxed) {
                    times.push(began.elapsed());
                }
            }
            times
        }
    };
    let measure = async {
        env.clock().sleep(WARM).await;
        let (before, began) = (cpu(), Instant::now());
        counts.store(true, Ordering::Relaxed);
        env.clock().sleep(Duration::from_secs(seconds)).await;
        let spent = (cpu() - before, began.elapsed());
        stop.store(true, Ordering::Relaxed);
        spent
    };
    let (times, (cpu, spent)) = futures::join!(join_all((0..callers).map(caller)), measure);
    let mut all: Vec<Duration> = times.concat();
    all.sort_unstable();
    let calls = all.len();
    println!(
        "{{\"client\":\"cadastre\",\"callers\":{callers},\"calls_per_s\":{:.0},\"cpu_us\":{:.1},\"p50_us\":{},\"p99_us\":{}}}",
        calls as f64 / spent.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / calls as f64,
        all[calls / 2].as_micros(),
        all[calls * 99 / 100].as_micros()
    );
}

async fn stalls(env: &RealEnv, conf: &Path, callers: u64, stop: PathBuf) {
    let client = client(env, conf).await;
    let began = Instant::now();
    // When any caller was answered last, ms.
    let last = AtomicU64::new(0);
    let failed = AtomicU64::new(0);
    let (gaps, held) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let caller = |_| {
        let client = client.clone();
        let (stop, last, failed, gaps, held) = (&stop, &last, &failed, &gaps, &held);
        async move {
            while !stop.exists() {
                let start = Instant::now();
                if let Err(error) = client.mkdirs(mkdirs("/stalls")).await {
                    failed.fetch_add(1, Ordering::Relaxed);
                    eprintln!("FAILED {error}");
                }
                let now = began.elapsed().as_millis() as u64;
                let gap = now.saturating_sub(last.swap(now, Ordering::Relaxed));
                let took = start.elapsed().as_millis() as u64;
                if gap > HELD_UP_MS {
                    gaps.lock().expect("no panics").push(gap);
                }
                if took > HELD_UP_MS {
                    held.lock().expect("no panics").push(took);
                }
            }
        }
    };
    join_all((0..callers).map(caller)).await;
    let held = held.into_inner().expect("no panics");
    let mean = held.iter().sum::<u64>() as f64 / held.len().max(1) as f64;
    println!(
        "{{\"client\":\"cadastre\",\"failed\":{},\"gaps_ms\":{:?},\"held_up\":{},\"held_up_mean_ms\":{mean:.0},\"longest_ms\":{}}}",
        failed.into_inner(),
        gaps.into_inner().expect("no panics"),
        held.len(),
        held.iter().max().unwrap_or(&0)
    );
}
