//! Outside software that the tests need: found, installed, or named.

use std::path::Path;
use std::process::{Command, Stdio};

/// Program, the Debian package that has it, and what it is for.
const NEEDED: &[(&str, &str, &str)] = &[
    (
        "java",
        "openjdk-17-jdk-headless",
        "Java clients, HBase's own tests",
    ),
    (
        "javac",
        "openjdk-17-jdk-headless",
        "compiling the Java tests",
    ),
    ("mvn", "maven", "fetching the Java clients"),
    (
        "python3",
        "python3",
        "the Python client, raw protocol tests",
    ),
    ("node", "nodejs", "the Node client, rules as WebAssembly"),
    ("npm", "npm", "fetching the Node client"),
    ("memcached", "memcached", "cache rules against real caches"),
    (
        "redis-server",
        "redis-server",
        "cache rules against real caches",
    ),
];

/// The compiler's target for WebAssembly, which other languages than Rust evaluate rules by.
const WASM: &str = "wasm32-unknown-unknown";

/// Makes sure that everything is there.
pub(crate) fn ensure() -> Result<(), String> {
    ensure_programs()?;
    ensure_wasm()
}

/// The standard library for WebAssembly: part of the toolchain, but not of its minimal profile, and nobody needs it to build a server.
fn ensure_wasm() -> Result<(), String> {
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", WASM])
        .output()
        .map_err(|error| format!("rustc: {error}"))?;
    let path = String::from_utf8_lossy(&libraries.stdout);
    if libraries.status.success() && Path::new(path.trim()).is_dir() {
        println!("the target {WASM} is there");
        return Ok(());
    }
    println!("missing: the Rust target {WASM}, for: rules from Node");
    if !is_there("rustup") {
        return Err(format!(
            "install the standard library of this compiler for {WASM} and try again (there is no rustup that could)"
        ));
    }
    let added = run(Command::new("rustup").args(["target", "add", WASM]));
    added.map_err(|error| format!("{error}: it is fetched from static.rust-lang.org"))
}

fn ensure_programs() -> Result<(), String> {
    let missing: Vec<_> = NEEDED
        .iter()
        .filter(|(program, ..)| !is_there(program))
        .collect();
    if missing.is_empty() {
        println!("java, maven, python, node, npm, memcached and redis are there");
        return Ok(());
    }
    for (program, package, purpose) in &missing {
        println!("missing: {program} (Debian package {package}), for: {purpose}");
    }
    let may_install = is_there("apt-get") && is_root();
    if !may_install {
        let names: Vec<&str> = missing.iter().map(|(program, ..)| *program).collect();
        return Err(format!(
            "install {} and try again (this user may not install packages)",
            names.join(", ")
        ));
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package, _)| *package).collect();
    packages.dedup();
    println!("installing {}", packages.join(" "));
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(packages))
}

fn is_there(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", program])
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn run(command: &mut Command) -> Result<(), String> {
    println!("$ {command:?}");
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} ended with {status}"))
    }
}
