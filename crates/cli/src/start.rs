//! `cadastre start`: a node in the foreground, until SIGTERM or SIGINT.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cadastre_env::{RealEnv, RealEnvConfig};
use cadastre_store::StoreConfig;
use cadastre_types::{Code, Error};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Settings, StartArgs, WalSync};
use crate::node::{Ended, Node, NodeConfig};
use crate::{admin, logging, place};

/// Threads for flushes, compactions and the like.
const BACKGROUND_THREADS: usize = 2;

/// Session timeout of the servers' own sessions: the longest that the coordination server gives. In one process nobody else
/// could take over sooner, and a machine that stalls for some seconds should not lose its servers.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// Least bytes that requests may hold, however little memory there is: a client's default batch and the largest cell fit.
const REQUEST_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// Said when a signal came before the ready line.
const STOPPED_EARLY: &str =
    "told to stop before the start was done; the next start goes on from what is durable";

/// Open files that 10,000 connections and 2,000 regions need.
const OPEN_FILES_WANTED: u64 = 65_536;

/// Runs a node until it is told to stop.
pub fn run(args: &StartArgs) -> ExitCode {
    match try_run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            report_failure(args.json, &message);
            ExitCode::FAILURE
        }
    }
}

fn try_run(args: &StartArgs) -> Result<(), String> {
    let settings = Settings::load(args)?;
    logging::begin(&settings.log, settings.log_format)?;
    raise_open_files();
    if !settings.bind.is_loopback() {
        tracing::warn!(bind = %settings.bind, "listening beyond loopback without TLS and authentication: anybody who reaches this address can read and change everything");
    }
    let cores = match settings.cores {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        cores => usize::from(cores),
    };
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: settings.data.clone(),
        cores,
        background_threads: BACKGROUND_THREADS,
    })
    .map_err(|error| {
        format!(
            "cannot use the data directory {}: {error}",
            settings.data.display()
        )
    })?;
    let json = args.json;
    let served = env.block_on(serve(env.clone(), settings, json));
    env.shutdown();
    served.unwrap_or_else(|| Err("the server ended unexpectedly; see the log above".to_owned()))
}

async fn serve(env: RealEnv, settings: Settings, json: bool) -> Result<(), String> {
    let metrics = PrometheusBuilder::new()
        .install_recorder()
        .map_err(|error| error.to_string())?;
    let ready = Arc::new(AtomicBool::new(false));
    let at = SocketAddr::new(settings.bind, settings.admin_port);
    // Signals are taken from here on: one that comes during the start ends it, which leaves no more behind than a crash.
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let starting = async {
        let objects = place::objects(&env, &settings).await?;
        let config = node_config(&settings)?;
        if settings.standby {
            announce_standby(&settings.store, json);
            cadastre_store::stand_by(&env, &*objects).await;
            tracing::info!("nobody runs the store any more: taking it over");
        }
        let starting = Node::start(env.clone(), objects, config);
        starting.await.map_err(|error| why(&error, &settings))
    };
    let node = tokio::select! {
        biased;
        node = starting => node?,
        _ = terminate.recv() => return Err(STOPPED_EARLY.to_owned()),
        _ = interrupt.recv() => return Err(STOPPED_EARLY.to_owned()),
    };
    let admin = admin::start(&env, at, metrics, Arc::clone(&ready))
        .await
        .map_err(|error| {
            format!("cannot listen on {at} for metrics: {error}; choose a port with --admin-port")
        })?;
    ready.store(true, Ordering::Release);
    announce(&node, admin, json);
    let ended = tokio::select! {
        biased;
        _ = terminate.recv() => Ended::Asked,
        _ = interrupt.recv() => Ended::Asked,
        ended = node.ended() => ended,
    };
    ready.store(false, Ordering::Release);
    tracing::info!("stopping: finishing what runs, flushing");
    node.stop().await.map_err(|error| error.to_string())?;
    if ended == Ended::Role {
        return Err("a region server ended by itself; see the log above".to_owned());
    }
    Ok(())
}

/// Why the start failed: what is wrong with the place of the tables is said with its name.
fn why(error: &Error, settings: &Settings) -> String {
    match error.code() {
        Code::Corrupt | Code::DoNotRetryIo => {
            let place = match &*settings.store {
                "" => settings.data.display().to_string(),
                store => store.to_owned(),
            };
            format!("{place}: {}", error.message())
        }
        _ => error.message().to_owned(),
    }
}

fn node_config(settings: &Settings) -> Result<NodeConfig, String> {
    let mut store = StoreConfig::new(settings.memory_bytes()?);
    store.wal_sync = match settings.wal_sync {
        WalSync::Fdatasync => cadastre_store::WalSync::Fdatasync,
        WalSync::Write => cadastre_store::WalSync::Write,
    };
    store.shared_store = !settings.store.is_empty();
    let rpc = rpc_limits(settings.memory_bytes()?, settings.slow_call_ms);
    Ok(NodeConfig {
        bind: settings.bind,
        advertise_host: settings.advertise_host(),
        zookeeper_port: settings.zookeeper_port,
        master_port: settings.master_port,
        region_server_port: settings.region_server_port,
        region_servers: settings.region_servers,
        session_timeout: SESSION_TIMEOUT,
        store,
        rpc,
    })
}

/// The memory that requests and answers may hold goes with the memory there is (INV-9); HBase's limits from 1 GiB on.
fn rpc_limits(memory_bytes: u64, slow_call_ms: u64) -> cadastre_rpc::ServerConfig {
    let defaults = cadastre_rpc::ServerConfig::default();
    let share = |part: u64, most: usize| {
        let bytes = (memory_bytes / part).max(REQUEST_BYTES_MIN);
        usize::try_from(bytes).unwrap_or(usize::MAX).min(most)
    };
    let request = share(4, defaults.request_bytes_max);
    cadastre_rpc::ServerConfig {
        request_bytes_max: request,
        connection_request_bytes_max: request,
        // The largest request fits when nothing else is in flight.
        request_bytes_in_flight_max: request,
        connection_response_bytes_max: share(4, defaults.connection_response_bytes_max),
        response_bytes_max: share(2, defaults.response_bytes_max),
        slow_call: Duration::from_millis(slow_call_ms),
        ..defaults
    }
}

/// The one line that says where clients connect.
#[allow(
    clippy::print_stdout,
    reason = "the ready line is the command's answer"
)]
fn announce(node: &Node<RealEnv>, admin: SocketAddr, json: bool) {
    let servers: Vec<String> = node
        .region_servers()
        .iter()
        .map(ToString::to_string)
        .collect();
    if json {
        let line = serde_json::json!({
            "event": "ready",
            "zookeeper": node.zookeeper().to_string(),
            "master": node.master().to_string(),
            "region_servers": servers,
            "admin": admin.to_string(),
            "pid": std::process::id(),
        });
        println!("{line}");
        return;
    }
    println!(
        "ready: hbase.zookeeper.quorum={} (master {}, region servers {}, metrics http://{admin}/metrics)",
        node.zookeeper(),
        node.master(),
        servers.join(", "),
    );
}

/// Said before a server waits for another one's end.
#[allow(clippy::print_stdout, reason = "the command's answer")]
fn announce_standby(store: &str, json: bool) {
    if json {
        println!("{}", serde_json::json!({ "event": "standby" }));
    } else {
        println!("standing by: whoever runs {store} is running it");
    }
}

#[allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the command's answer"
)]
fn report_failure(json: bool, message: &str) {
    if json {
        println!(
            "{}",
            serde_json::json!({ "event": "failed", "message": message })
        );
    }
    eprintln!("cadastre: {message}");
}

/// Raises the limit of open files as far as allowed, and says so if that is not far enough.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    let wanted = OPEN_FILES_WANTED.min(allowed);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum: limit.maximum,
            },
        );
        if let Err(error) = raised {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if now < OPEN_FILES_WANTED {
        tracing::warn!(
            now,
            wanted = OPEN_FILES_WANTED,
            "few open files are allowed: connections and regions are limited by it"
        );
    }
}
