//! `sim`: runs seeds of the whole-server simulation, or of the store's alone, and says how to repeat those that fail.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command's answer, and how long it took in real time"
)]

use std::process::ExitCode;

use cadastre_sim::cluster::{self, ClusterConfig};
use cadastre_sim::storage::{self, StorageConfig};
use cadastre_sim::{Failure, FaultRates, Outcome};

/// As in the server. Memory is asked for so often that glibc's takes a fifth of a seed's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str =
    "usage: sim [--store] [--seed N | --seeds A..B] [--operations N] [--clients N] [--twice] [--trace]
           [--log FILTER] [--disk-full] [--power-cuts] [--faults-for SECONDS] [--quiet]

  --store          the store alone, without server and clients
  --seed N         run this seed (default 0)
  --seeds A..B     run seeds A to B-1
  --operations N   operations of each client (default 400); of the store (default 4000)
  --clients N      clients (default 4), tasks of the store (default 8)
  --twice          run each seed twice and compare the traces
  --trace          print the whole trace
  --log FILTER     print what the programs log, as RUST_LOG would say it
  --disk-full      the server's disk may be full for a while (the store's always may)
  --power-cuts     nothing happens but power cuts
  --faults-for SECONDS  how long faults happen, in simulated time (default 5; of the store 3)
  --quiet          print only failures and the sum";

struct Arguments {
    store: bool,
    quiet: bool,
    seeds: std::ops::Range<u64>,
    operations: Option<u32>,
    clients: Option<usize>,
    twice: bool,
    trace: bool,
    log: Option<String>,
    disk_full: bool,
    power_cuts: bool,
    faults_for_s: Option<u64>,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        store: false,
        quiet: false,
        seeds: 0..1,
        operations: None,
        clients: None,
        twice: false,
        trace: false,
        log: None,
        disk_full: false,
        power_cuts: false,
        faults_for_s: None,
    };
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--seed" => {
                let seed = number(&value()?)?;
                parsed.seeds = seed..seed.saturating_add(1);
            }
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once("..").ok_or("--seeds takes A..B")?;
                parsed.seeds = number(from)?..number(to)?;
            }
            "--operations" => parsed.operations = Some(number(&value()?)?),
            "--clients" => parsed.clients = Some(number(&value()?)?),
            "--log" => parsed.log = Some(value()?),
            "--twice" => parsed.twice = true,
            "--trace" => parsed.trace = true,
            "--store" => parsed.store = true,
            "--quiet" => parsed.quiet = true,
            "--disk-full" => parsed.disk_full = true,
            "--power-cuts" => parsed.power_cuts = true,
            "--faults-for" => parsed.faults_for_s = Some(number(&value()?)?),
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    Ok(parsed)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no number"))
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(filter) = &arguments.log {
        // Simulated times are in the trace; real ones would only confuse.
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
            .without_time()
            .with_writer(std::io::stderr)
            .init();
    }
    let (mut failed, mut answered, mut events) = (0, 0, 0);
    let begun = std::time::Instant::now();
    for seed in arguments.seeds.clone() {
        match run_seed(seed, &arguments) {
            Some(done) => {
                answered += done.answered;
                events += done.events;
            }
            None => failed += 1,
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} seeds, {answered} operations answered in {seconds:.1} s: {:.0} a second; {events} events, {:.0} a second",
        arguments.seeds.end - arguments.seeds.start,
        answered as f64 / seconds.max(0.001),
        events as f64 / seconds.max(0.001)
    );
    if failed > 0 {
        eprintln!("{failed} seeds failed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs a seed; `None` if it failed.
fn run_seed(seed: u64, arguments: &Arguments) -> Option<Outcome> {
    let begun = std::time::Instant::now();
    let outcome = match run(seed, arguments) {
        Ok(outcome) => outcome,
        Err(failure) => {
            eprintln!("{failure}");
            reproduce(seed);
            return None;
        }
    };
    if arguments.trace {
        for line in &outcome.lines {
            println!("{line}");
        }
    }
    if !arguments.quiet {
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "seed {seed} hash {:016x}: {outcome}, {seconds:.1} s",
            outcome.hash
        );
    }
    if !arguments.twice {
        return Some(outcome);
    }
    match run(seed, arguments) {
        Ok(again) if again.hash == outcome.hash => Some(outcome),
        Ok(again) => {
            let pairs = outcome.lines.iter().zip(&again.lines);
            let differs = pairs.enumerate().find(|(_, (one, other))| one != other);
            eprintln!("seed {seed} is not deterministic; first difference: {differs:#?}");
            reproduce(seed);
            None
        }
        Err(failure) => {
            eprintln!("seed {seed} is not deterministic; the second run: {failure}");
            None
        }
    }
}

fn run(seed: u64, arguments: &Arguments) -> Result<Outcome, Failure> {
    if arguments.store {
        run_store(seed, arguments)
    } else {
        run_cluster(seed, arguments)
    }
}

/// Changes what is common to both kinds.
fn tune(arguments: &Arguments, rates: &mut FaultRates, faults_for: &mut std::time::Duration) {
    if arguments.disk_full {
        rates.disk_full = FaultRates::default().disk_full;
    }
    if arguments.power_cuts {
        *rates = FaultRates {
            power_cut: 1,
            ..FaultRates::none()
        };
    }
    if let Some(seconds) = arguments.faults_for_s {
        *faults_for = std::time::Duration::from_secs(seconds);
    }
}

fn run_cluster(seed: u64, arguments: &Arguments) -> Result<Outcome, Failure> {
    let mut config = ClusterConfig::new(seed);
    config.keep_trace = arguments.trace || arguments.twice;
    config.operations = arguments.operations.unwrap_or(config.operations);
    config.clients = arguments.clients.unwrap_or(config.clients);
    tune(arguments, &mut config.rates, &mut config.faults_for);
    cluster::run(&config)
}

fn run_store(seed: u64, arguments: &Arguments) -> Result<Outcome, Failure> {
    let mut config = StorageConfig::new(seed);
    config.keep_trace = arguments.trace || arguments.twice;
    config.operations = arguments.operations.map_or(config.operations, u64::from);
    config.tasks = arguments.clients.unwrap_or(config.tasks);
    tune(arguments, &mut config.rates, &mut config.faults_for);
    storage::run(&config)
}

/// The same command with this seed alone, and its trace.
fn reproduce(seed: u64) {
    let mut arguments = std::env::args().skip(1);
    let mut same = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seed" | "--seeds" => {
                arguments.next();
            }
            "--trace" | "--quiet" => {}
            _ => same.push(argument),
        }
    }
    eprintln!(
        "reproduce: cargo run -p cadastre-sim --bin sim -- --seed {seed} {} --trace",
        same.join(" ")
    );
}
