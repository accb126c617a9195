//! The project's daily commands: `cargo xtask verify|test|fix|bench|hdfs`.
//!
//! `verify` never writes and needs no outside software; `test` runs everything, and installs or fetches what the tests need;
//! `fix` writes what is generated. CI runs `test`. Standard library only, but for reading cargo's JSON.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "xtask is a tool of the workbench, never simulated"
)]

mod hdfs;
mod house;
mod masters;
mod stages;
mod tools;

use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "\
cargo xtask COMMAND

  verify   format, lints, rustdoc, dependency directions, licences, size of files, and the tests that need
           no outside software. Writes nothing.
  test     verify, then everything: the release build, simulation, real clients (Java, Python, Node, Rust), HBase's
           own tests, kill -9 rounds, two real NameNodes. Installs or fetches what it needs and says so.
  fix      formats, and writes the generated documents.
  bench    drives HBase 2.6.4 and Cadastre in turn with HBase's PerformanceEvaluation; writes target/bench/.
  bench store [GROUP]   what each operation of the store costs: reads, puts, wide, background, steps, idle.
  bench store parts     what keys, packed rows and the choice of versions cost by themselves (criterion).
  bench rules [GROUP]   what rules cost, beside cel, evalexpr and rhai: point, batch, peers, enumerate.
  bench hdfs            what the HA proxy costs, and our client beside Hadoop's own at two real NameNodes.

  test STAGE...   only these: house unit long release sim fuzz tools connections clients suite kill hdfs masters";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["verify"] => run(&["house", "unit"]),
        ["test"] => run(stages::ALL),
        ["test", only @ ..] => run(only),
        ["fix"] => stages::fix(),
        ["bench"] => stages::bench(),
        ["bench", "store", "parts", group @ ..] => stages::bench_store_parts(group),
        ["bench", "store", group @ ..] => stages::bench_store(group),
        ["bench", "rules", group @ ..] => stages::bench_rules(group),
        ["bench", "hdfs"] => hdfs::bench(),
        ["hdfs", words @ ..] => hdfs::command(words),
        _ => {
            eprintln!("{USAGE}\n\n{}", hdfs::USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Stages that run beside others, and those of which the first begins them: seeds and fuzz targets take what processor is left by the end of the release
/// build, which is one crate after the other, and by clients; the kills wait for clients most of the time.
const BESIDE: &[(&str, &[&str])] = &[
    ("fuzz", &["release", "clients", "suite"]),
    ("sim", &["release", "clients", "suite"]),
    ("kill", &["hdfs", "masters"]),
];

fn beside(name: &str) -> Option<&'static [&'static str]> {
    let (_, others) = BESIDE.iter().find(|(aside, _)| *aside == name)?;
    Some(others)
}

fn stage(name: &str) -> Result<(), String> {
    println!("=== {name}");
    let start = Instant::now();
    stages::run(name).map_err(|error| format!("stage {name}: {error}"))?;
    println!("=== {name}: ok, {} s", start.elapsed().as_secs());
    Ok(())
}

/// Runs stages in order and stops at the first that fails: later ones build on it.
fn run(names: &[&str]) -> Result<(), String> {
    for name in names {
        if !stages::ALL.contains(name) {
            return Err(format!(
                "there is no stage '{name}'; the stages are {}",
                stages::ALL.join(" ")
            ));
        }
    }
    let (mut waiting, others): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| beside(name).is_some());
    let mut running = Vec::new();
    let mut outcome = Ok(());
    for name in others {
        if outcome.is_ok() {
            let begins = |aside: &&str| beside(aside).is_some_and(|at| at.contains(&name));
            let (begun, left) = waiting.into_iter().partition(begins);
            waiting = left;
            for aside in Vec::into_iter(begun) {
                let aside = aside.to_owned();
                running.push(std::thread::spawn(move || stage(&aside)));
            }
        }
        outcome = outcome.and_then(|()| stage(name));
    }
    // Waited for whatever came of the others: they leave nothing behind.
    for aside in running {
        let ended = aside.join().map_err(|_| "a stage panicked".to_owned())?;
        outcome = outcome.and(ended);
    }
    outcome?;
    for name in waiting {
        stage(name)?;
    }
    println!("{} passed, 0 failed", names.len());
    Ok(())
}
