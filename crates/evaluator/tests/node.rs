//! R47: the golden vectors of rules, asked from JavaScript. Needs Node and the target wasm32-unknown-unknown (`rustup target add`), and builds
//! the module first, so it runs in CI (`cargo xtask test tools clients`) and by `cargo test --workspace --test node -- --ignored` only.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "builds for WebAssembly and needs Node; `cargo xtask test clients` runs it"]
fn r47_node_gives_the_same_answers() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A folder of its own: the outer cargo holds the lock of the usual one.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wasm");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--lib", "--package", "cadastre-evaluator"])
        // Optimising would take longer than the ten thousand vectors.
        .args([
            "--config",
            "profile.dev.package.cadastre-sharding.opt-level=0",
        ])
        .args(["--target", "wasm32-unknown-unknown", "--target-dir"])
        .arg(&target)
        .current_dir(here)
        .status()
        .unwrap();
    assert!(
        built.success(),
        "the module was not built: is the target there (rustup target add wasm32-unknown-unknown)?"
    );
    let output = Command::new("node")
        .arg(here.join("tests/golden.mjs"))
        .arg(target.join("wasm32-unknown-unknown/debug/cadastre_evaluator.wasm"))
        .arg(here.join("../sharding/golden"))
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("15 rules, "), "{out}");
}
