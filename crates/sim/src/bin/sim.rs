//! `sim`: runs seeds of the whole-server simulation and says how to repeat those that fail.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command's answer, and how long it took in real time"
)]

use std::process::ExitCode;

use cadastre_sim::FaultRates;
use cadastre_sim::cluster::{ClusterConfig, run};

const USAGE: &str =
    "usage: sim [--seed N | --seeds A..B] [--operations N] [--clients N] [--twice] [--trace]
           [--log FILTER] [--disk-full] [--power-cuts] [--faults-for SECONDS]

  --seed N         run this seed (default 0)
  --seeds A..B     run seeds A to B-1
  --operations N   operations of each client (default 400)
  --clients N      clients (default 4)
  --twice          run each seed twice and compare the traces
  --trace          print the whole trace
  --log FILTER     print what the programs log, as RUST_LOG would say it
  --disk-full      the server's disk may be full for a while
  --power-cuts     nothing happens but power cuts
  --faults-for SECONDS  how long faults happen, in simulated time (default 5)";

struct Arguments {
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
    let mut failed = 0;
    for seed in arguments.seeds.clone() {
        if !run_seed(seed, &arguments) {
            failed += 1;
        }
    }
    if failed > 0 {
        eprintln!("{failed} seeds failed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run_seed(seed: u64, arguments: &Arguments) -> bool {
    let mut config = ClusterConfig::new(seed);
    config.keep_trace = arguments.trace || arguments.twice;
    config.operations = arguments.operations.unwrap_or(config.operations);
    config.clients = arguments.clients.unwrap_or(config.clients);
    if arguments.disk_full {
        config.rates.disk_full = FaultRates::default().disk_full;
    }
    if arguments.power_cuts {
        config.rates = FaultRates {
            power_cut: 1,
            ..FaultRates::none()
        };
    }
    if let Some(seconds) = arguments.faults_for_s {
        config.faults_for = std::time::Duration::from_secs(seconds);
    }
    let begun = std::time::Instant::now();
    let outcome = match run(&config) {
        Ok(outcome) => outcome,
        Err(failure) => {
            eprintln!("{failure}");
            reproduce(&config, arguments);
            return false;
        }
    };
    if arguments.trace {
        for line in &outcome.lines {
            println!("{line}");
        }
    }
    println!(
        "seed {seed} hash {:016x}: {} answered, {} checked, {} failed {:?}, {} crashes, {} exits, {} events, {:.1} simulated s, {:.1} s",
        outcome.hash,
        outcome.answered,
        outcome.checked,
        outcome.failed.values().sum::<u64>(),
        outcome.failed,
        outcome.crashes,
        outcome.exits.len(),
        outcome.events,
        outcome.lasted.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
    );
    if !arguments.twice {
        return true;
    }
    match run(&config) {
        Ok(again) if again.hash == outcome.hash => true,
        Ok(again) => {
            let pairs = outcome.lines.iter().zip(&again.lines);
            let differs = pairs.enumerate().find(|(_, (one, other))| one != other);
            eprintln!("seed {seed} is not deterministic; first difference: {differs:#?}");
            reproduce(&config, arguments);
            false
        }
        Err(failure) => {
            eprintln!("seed {seed} is not deterministic; the second run: {failure}");
            false
        }
    }
}

fn reproduce(config: &ClusterConfig, arguments: &Arguments) {
    let flag = |set: bool, name: &'static str| if set { name } else { "" };
    eprintln!(
        "reproduce: cargo run -p cadastre-sim --bin sim -- --seed {} --operations {} --clients {}{}{}{} --trace",
        config.seed,
        config.operations,
        config.clients,
        flag(arguments.disk_full, " --disk-full"),
        flag(arguments.power_cuts, " --power-cuts"),
        arguments
            .faults_for_s
            .map(|seconds| format!(" --faults-for {seconds}"))
            .unwrap_or_default(),
    );
}
